"""Rows of CSV files as images and boxes: each row by itself, then what depends on all rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.csv_text import read_record
from odm.files import Source
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    NO_IMAGE_NAME,
    NOT_UTF8,
    RELATIVE_RANGE,
    WRONG_COUNT,
)
from odm.formats._shared.column_roles import FLAGS, FORMS, NO_OBJECT, key_of
from odm.formats._shared.csv_tables import (
    INCOMPLETE_BOX,
    NO_HEADER,
    SIZE_CONFLICT,
    from_safe,
    utf8_text,
)
from odm.formats._shared.gather import Gather, decide_kind, own_folder
from odm.formats._shared.pictures import are_far
from odm.formats.csv.classes import ClassNames, ClassRows
from odm.formats.csv.images import Images, Origin
from odm.formats.csv.layouts import CsvOptions, HeaderFaults, Layout, find_layout, sep_line
from odm.formats.csv.numbers import Decimals, RowFaults
from odm.formats.csv.records import SURROGATE, Records, cut
from odm.issues import Log
from odm.names import BAD_CLASS_NAME, accept_name
from odm.tables import Builder, Floats, Ints, Longs


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Boxes:
    """Boxes as they stand in the rows of a file, before pixels and kinds are decided."""

    layout: Layout
    path: str
    file: int
    image: Ints
    category: Ints
    numbers: Floats
    score: Floats
    flags: NDArray[np.uint16]
    line: Ints
    track: NDArray[Any] | None = None
    """(n,) ids of tracks, None for none."""


class Reader:
    """Collects rows over all files, then decides what needs all of them and fills the builder."""

    def __init__(
        self, source: Source, builder: Builder, log: Log, options: CsvOptions, names: ClassNames | None
    ) -> None:
        self._source, self._builder, self._log, self._options = source, builder, log, options
        self._images = Images()
        self._classes = ClassRows(builder, names)
        for name in names.order if names else ():
            builder.category(name)
        self._boxes: list[_Boxes] = []
        self._titles: dict[str, list[str]] = {}
        """The files of each kind of layout."""

    # -- one file

    def read_file(self, file: str, *, track: bool) -> None:
        """Take the rows of a file; what is wrong with them is reported."""
        log, path = self._log, self._source.full(file)
        data = self._source.read(file, log)
        if data is None:
            return
        decoded = utf8_text(data)
        if isinstance(decoded, str):
            log.report(NOT_UTF8, path, value=decoded)
            return
        data, encoding = decoded
        if encoding:
            log.note(f"{path}: read as {encoding.upper()}, from its byte order mark")
        head = data[: data.find(b"\n", 2**16) + 1 or len(data)].decode("utf-8", "surrogateescape")
        layout = find_layout(head, self._options)
        if layout is None:
            if self._builder.kind == "det":
                log.note(f"{path}: the file is empty, so there are no detections")
            else:
                log.report(NO_HEADER, path, found="an empty file")
            return
        start = 6 if sep_line(head)[0] else 0
        while start < len(head) and head[start] == "\n":
            start += 1
        line = head.count("\n", 0, start) + 1
        if isinstance(layout, HeaderFaults):
            for code, field, values in layout.found:
                log.report(code, path, line=line, field=field, **values)
            return
        if self._options.coords:
            layout = dataclasses.replace(layout, coords=self._options.coords)
        self._titles.setdefault(layout.title, []).append(path)
        if layout.header:
            record = read_record(head, start, layout.sep, spaced=layout.spaced)
            stop = record[1] + 1
            bad = [i for i, name in enumerate(layout.columns) if SURROGATE.search(name) or "\0" in name]
            if bad:
                log.report(NOT_UTF8, path, line=line, value=repr(layout.columns[bad[0]]))
            line += head.count("\n", start, stop)
            start = stop
        records = Records(layout, path, self._builder, log)
        rows = _Rows(layout, path, self._builder, log, self._options, self._images, self._classes)
        cuts = cut(data, len(head[:start].encode("utf-8", "surrogateescape")))
        for first, last in log.track(cuts, "reading CSV") if track else cuts:
            piece = data[first:last]
            if not piece.endswith(b"\n"):
                piece += b"\n"
            lines = piece.count(b"\n")
            columns, numbers = records.columns(piece, line)
            if len(numbers):
                self._boxes.append(rows.take(columns, numbers))
            line += lines
        rows.finish()

    # -- all files

    def finish(self) -> None:
        """Decide what all rows together decide, and fill the builder."""
        builder, log = self._builder, self._log
        for title, paths in self._titles.items():
            if title != "canonical CSV":
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                log.note(f"{paths[0]}{more}: read as {title}")
        self._settle_packed()
        relative = {"rel", "sniff"} if self._sniffs_relative() else {"rel"}
        needed = np.zeros(len(self._images.rows), bool)
        for boxes in self._boxes:
            if boxes.layout.coords in relative:
                needed[boxes.image] = True
        source = self._source
        folders: tuple[str, ...] = (source.full("images"), source.path) if own_folder(source) else ()
        if folders:  # Open Images lie in images/<subset>/
            subsets = {"/".join(file.split("/")[:2]) for file in source.files if file.count("/") > 1}
            folders += tuple(source.full(name) for name in sorted(subsets) if name.startswith("images/"))
        gather = Gather(source, builder, log, self._options, folders, ask_other="needed")
        sizes = self._images.add_to(gather, needed)
        number = np.cumsum(self._images.good) - 1
        if self._images.frames:
            video, frame = np.full((2, builder.n_images), -1, np.int32)
            for image, (name, n) in self._images.frames.items():
                if self._images.good[image]:
                    video[number[image]], frame[number[image]] = builder.video(name), n
            builder.set_frames(0, video, frame)
        self._decide_kind()
        for boxes in self._boxes:
            rows = self._check_kind(boxes, gather)
            is_relative = boxes.layout.coords in relative
            if is_relative:
                rows = self._check_relative(boxes, rows, sizes)
            self._add_boxes(boxes, rows, number, sizes if is_relative else None, gather)
        gather.finish()

    def _settle_packed(self) -> None:
        """Decide whether four numbers in one cell are edges: as such hardly a box may be inverted."""
        packed = [boxes for boxes in self._boxes if boxes.layout.packed is not None and len(boxes.line)]
        if not packed:
            return
        inverted = sum(
            int(np.count_nonzero((v[:, 2:] < v[:, :2]).any(axis=1))) for v in (b.numbers for b in packed)
        )
        form = "ltrb" if inverted * 20 < sum(len(boxes.line) for boxes in packed) else "ltwh"
        for boxes in packed:
            boxes.layout = dataclasses.replace(boxes.layout, form=form)
        what = "left, top, right, bottom" if form == "ltrb" else "left, top, width, height"
        some = "none" if not inverted else str(inverted)
        self._log.note(
            f"{self._source.path}: the numbers of a box are {what}: as edges {some} would be inverted"
        )

    def _sniffs_relative(self) -> bool:
        """Whether boxes whose dialect has pixels and relative coordinates under one header are relative."""
        sniffed = [b.numbers for b in self._boxes if b.layout.coords == "sniff" and len(b.line)]
        if not sniffed:
            return False
        n = sum(map(len, sniffed))
        inside = [((v >= 0) & (v <= 1)).all(axis=1) for v in sniffed]
        within = sum(int(np.count_nonzero(mask)) for mask in inside)
        fractions = any(
            bool((v[mask] != np.rint(v[mask])).any()) for v, mask in zip(sniffed, inside, strict=True)
        )
        if within < n and not (fractions and 2 * within >= n):
            return False
        how = f"all {n} boxes lie" if within == n else f"{within} of {n} boxes lie"
        how = "its one box lies" if n == 1 else how
        self._log.note(
            f"{self._source.path}: {how} in 0..1, so coordinates are read as relative to the image's size "
            "(--coords abs reads pixels)"
        )
        return True

    def _decide_kind(self) -> None:
        n = sum(len(b.line) for b in self._boxes)
        scored = sum(int(np.count_nonzero(~np.isnan(b.score))) for b in self._boxes)
        if not n and self._builder.kind is None and any("predictions" in title for title in self._titles):
            self._builder.kind = "det"
        decide_kind(self._builder, scored, n)

    def _check_kind(self, boxes: _Boxes, gather: Gather) -> NDArray[Any]:
        column = boxes.layout.roles.get("score", boxes.layout.strings)
        field = boxes.layout.columns[column] if column is not None else "score"
        good = gather.of_kind(boxes.score, gather.where(boxes.file, boxes.line), field=field)
        rows = np.flatnonzero(good)
        self._builder.skipped += len(good) - len(rows)
        return rows

    def _check_relative(self, boxes: _Boxes, rows: NDArray[Any], sizes: Floats) -> NDArray[Any]:
        values = boxes.numbers[rows]
        far = are_far(values)
        layout = boxes.layout
        for i in np.nonzero(far)[0].tolist():
            k = int(np.argmax(are_far(values[i][:, None])))
            column = layout.packed
            if column is None:
                column = layout.roles.get(FORMS[layout.form][k], layout.strings)
            assert column is not None
            line, field = int(boxes.line[rows[i]]), layout.field(column)
            self._log.report(RELATIVE_RANGE, boxes.path, line=line, field=field, value=float(values[i, k]))
        unknown = (sizes[boxes.image[rows]] == 0).any(axis=1)
        lost = far | unknown
        self._builder.skipped += int(np.count_nonzero(lost))
        return rows[~lost] if lost.any() else rows

    def _add_boxes(
        self, boxes: _Boxes, rows: NDArray[Any], number: NDArray[Any], sizes: Floats | None, gather: Gather
    ) -> None:
        whole = len(rows) == len(boxes.line)
        pick: Any = slice(None) if whole else rows
        values = boxes.numbers[pick]
        image = boxes.image[pick]
        if sizes is not None:
            values = values * np.tile(sizes[image], 2)
        wh: Floats | None = None
        if boxes.layout.form != "ltrb":
            wh = values[:, 2:]
            low = values[:, :2] - (wh / 2 if boxes.layout.form == "cxcywh" else 0)
            values = np.concatenate([low, low + wh], axis=1)
        gather.add(
            image=number[image],
            category=boxes.category[pick],
            xyxy=values,
            wh=wh,
            score=boxes.score[pick],
            flags=boxes.flags[pick],
            file=boxes.file,
            line=boxes.line[pick],
            **self._tracks(boxes.track, pick, number[image]),
        )

    def _tracks(self, ids: NDArray[Any] | None, pick: Any, image: NDArray[Any]) -> dict[str, Any]:
        """The column of the tracks of boxes on these images, if any has one."""
        if ids is None:
            return {}
        return {"track": self._builder.tracks_of_images(image, ids[pick])}


def _unpacked(cells: list[str]) -> list[list[str]]:
    """The four columns of a column that holds four numbers a cell; other text stays in the first."""
    rows = []
    for cell in cells:
        words = cell.strip(" []()\t").replace(",", " ").split()
        rows.append(words if len(words) == 4 else [cell, "", "", ""])
    return [[row[k] for row in rows] for k in range(4)]


class _Rows:
    """Makes boxes of the rows of one file, piece by piece."""

    def __init__(
        self,
        layout: Layout,
        path: str,
        builder: Builder,
        log: Log,
        options: CsvOptions,
        images: Images,
        classes: ClassRows,
    ) -> None:
        self._layout, self._path, self._builder, self._log = layout, path, builder, log
        self._images, self._classes = images, classes
        self._decimals = Decimals(options.decimal)
        self._safe = options.excel_safe
        self._known = {*layout.roles.values(), layout.strings, layout.packed}
        column = layout.roles.get("image")
        self._origin = Origin(
            builder.file(path),
            path,
            "" if column is None else layout.field(column),
            layout.coords == "rel" and layout.columns[column or 0].lower() == "imageid",
        )

    def take(self, columns: list[list[str]], lines: Ints) -> _Boxes:
        """The boxes of a piece from the columns of its rows, and the line of each row."""
        if (packed := self._layout.packed) is not None:
            columns = [*columns, *_unpacked(columns[packed])]
        extras = self._builder.extras
        for i, name in enumerate(self._layout.columns):
            if name and i not in self._known and (n := len(lines) - columns[i].count("")):
                extras[name] = extras.get(name, 0) + n
        if self._safe:
            roles = self._layout.roles
            for k in {roles.get("image"), roles.get("class"), self._layout.strings} - {None}:
                assert k is not None
                columns[k] = list(map(from_safe, columns[k]))
        if self._layout.strings is not None:
            return self._take_strings(columns, lines, self._layout.strings)
        return self._take_rows(columns, lines, self._layout.roles)

    def finish(self) -> None:
        """Say how the numbers of the file were read."""
        self._decimals.check_head(self._path, self._log)

    def _take_strings(self, columns: list[list[str]], lines: Ints, column: int) -> _Boxes:
        """Turn prediction strings into rows: a loop over images, not over boxes."""
        names: list[str] = []
        cells: list[str] = []
        numbers: list[int] = []
        images = columns[self._layout.roles["image"]]
        for name, text, line in zip(images, columns[column], lines.tolist(), strict=True):
            words = [word for word in text.replace("\t", " ").split(" ") if word]
            n, rest = divmod(len(words), 6)
            if rest:
                self._log.report(
                    WRONG_COUNT,
                    self._path,
                    line=line,
                    field=self._layout.field(column),
                    expected="groups of six: label score xmin ymin xmax ymax",
                    found=f"{len(words)} words",
                )
                self._builder.skipped += n + 1
                words, n = [], 0
            names += [name] * max(n, 1)
            cells += words or [""] * 6
            numbers += [line] * max(n, 1)
        roles = {"class": 1, "score": 2, "left": 3, "top": 4, "right": 5, "bottom": 6, "image": 0}
        return self._take_rows([names, *(cells[i::6] for i in range(6))], np.array(numbers, np.int32), roles)

    def _take_rows(self, columns: list[list[str]], lines: Ints, roles: Mapping[str, int]) -> _Boxes:
        n = len(lines)
        faults = RowFaults(n)
        numbers = np.empty((n, 4))
        blanks = np.zeros((4, n), bool)
        for k, role in enumerate(FORMS[self._layout.form]):
            column = roles[role]
            numbers[:, k], blanks[k] = self._decimals.numbers(columns[column], column, lines, faults)
        no_box = blanks.all(axis=0)
        if "class" in roles and no_box.any():  # rows that say in words that nothing was found
            column = roles["class"]
            empty: Any = no_box.tolist()
            columns[column] = [
                "" if e and key_of(c) in NO_OBJECT else c for c, e in zip(columns[column], empty, strict=True)
            ]
        score = np.full(n, np.nan)
        if "score" in roles:
            column = roles["score"]
            score, _ = self._decimals.numbers(columns[column], column, lines, faults)
        images, real = self._find_images(columns, roles, lines, faults)
        category = self._find_classes(columns, roles, n)
        self._report_incomplete(roles, category, score, blanks, real, faults)
        flags = self._flags(columns, roles, n, faults)
        self._take_sizes(columns, roles, lines, images, real, faults)
        if "video" in roles:
            self._take_frames(columns, roles, images, real, faults)
        track = _track_ids(columns[roles["track"]]) if "track" in roles else None

        self._report(faults, lines, columns)
        says = ~no_box | ~np.isnan(score)
        if "class" in roles:
            says |= category != -1
        self._builder.skipped += int(np.count_nonzero(faults.lost & says))
        keep = ~faults.lost & ~no_box
        rows = slice(None) if keep.all() else np.nonzero(keep)[0]
        return _Boxes(
            self._layout,
            self._path,
            self._origin.file,
            images[rows],
            category[rows],
            numbers[rows],
            score[rows],
            flags[rows],
            lines[rows],
            None if track is None else track[rows],
        )

    def _report_incomplete(
        self,
        roles: Mapping[str, int],
        category: Ints,
        score: Floats,
        blanks: NDArray[np.bool_],
        real: NDArray[np.bool_],
        faults: RowFaults,
    ) -> None:
        """Report rows with half a box, and boxes without a class; `blanks` is (4, n)."""
        no_box = blanks.all(axis=0)
        odd = (blanks.any(axis=0) & ~no_box) | (no_box & real & ((category != -1) | ~np.isnan(score)))
        if "class" not in roles:  # the same class for all rows says nothing about one
            odd &= ~no_box | ~np.isnan(score)
        for i in np.nonzero(odd)[0].tolist():
            missing = [role for k, role in enumerate(FORMS[self._layout.form]) if blanks[k, i]]
            shown = (
                missing
                if self._layout.strings is not None
                else [self._layout.field(roles[r]) for r in missing]
            )
            faults.add(i, roles[missing[0]], INCOMPLETE_BOX, missing=", ".join(shown))
        classless = (category < 0) & ~no_box | (category < -1)
        for i in np.nonzero(classless)[0].tolist():
            code, values = BAD_CLASS_NAME, {"value": "", "reason": "it is empty"}
            if category[i] < -1:
                code, values = self._classes.faults[-2 - category[i]]
            faults.add(i, roles.get("class", 0), code, **values)

    def _take_frames(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        images: Ints,
        real: NDArray[np.bool_],
        faults: RowFaults,
    ) -> None:
        """Take the video and frame of each image from its first row."""
        frames = self._images.frames
        videos = columns[roles["video"]]
        numbers = columns[roles["frame"]] if "frame" in roles else [""] * len(videos)
        image, first = np.unique(images[real], return_index=True)
        for i, row in zip(image.tolist(), np.flatnonzero(real)[first].tolist(), strict=True):
            text = numbers[row].strip()
            frame = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
            if text and frame < 0:
                faults.add(row, roles["frame"], BAD_FRAME, value=numbers[row], among=", from 0")
            elif videos[row].strip():
                frames.setdefault(i, (videos[row], frame))

    def _report(self, faults: RowFaults, lines: Ints, columns: list[list[str]]) -> None:
        for row, column, code, values in sorted(faults.found, key=lambda fault: fault[:2]):
            line = int(lines[row])
            strings = self._layout.strings
            field = self._layout.field(strings if strings is not None and column else column)
            if code is None:
                accept_name(columns[column][row], self._log, self._path, line=line, field=field)
            else:
                self._log.report(code, self._path, line=line, field=field, **values)

    def _find_images(
        self, columns: list[list[str]], roles: Mapping[str, int], lines: Ints, faults: RowFaults
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The images of the rows, and which rows are not blank altogether."""
        n = len(lines)
        constant = self._layout.constants.get("image")
        column = roles.get("image", 0)
        cells = columns[column] if constant is None else [constant] * n
        images, warned = self._images.take(cells, lines, self._origin)
        for row in warned:
            faults.warn(row, column, None)
        real = np.ones(n, bool)
        for i in np.nonzero(~self._images.good[images])[0].tolist():
            if cells[i].strip():
                faults.add(i, column, None)
            elif any(c[i].strip() for c in columns):
                faults.add(i, column, NO_IMAGE_NAME)
            else:
                real[i] = False
        return images, real

    def _find_classes(self, columns: list[list[str]], roles: Mapping[str, int], n: int) -> Ints:
        constant = self._layout.constants.get("class")
        if constant is not None:
            return np.full(n, self._classes[constant], np.int32)
        return np.fromiter(map(self._classes.__getitem__, columns[roles["class"]]), np.int32, n)

    def _flags(
        self, columns: list[list[str]], roles: Mapping[str, int], n: int, faults: RowFaults
    ) -> NDArray[np.uint16]:
        flags = np.zeros(n, np.uint16)
        unknown = self._layout.title.startswith("Open Images")
        for name, bit in FLAGS.items():
            if name not in roles:
                continue
            cells = columns[roles[name]]
            kinds = set(cells)
            if kinds <= {"", "0"}:
                continue
            values = {kind: _flag(kind, unknown=unknown) for kind in kinds}
            column = np.fromiter(map(values.__getitem__, cells), np.int8, n)
            for i in np.nonzero(column < 0)[0].tolist():
                faults.add(i, roles[name], BAD_FLAG, value=cells[i], expected="0 or 1")
            flags |= np.where(column > 0, np.uint16(bit), np.uint16(0))
        return flags

    def _take_sizes(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        lines: Ints,
        images: Ints,
        real: NDArray[np.bool_],
        faults: RowFaults,
    ) -> None:
        """Take the image sizes in the rows."""
        if "width" not in roles and "height" not in roles:
            return
        n = len(lines)
        plain = [_plain_sizes(columns[roles[r]]) if r in roles else None for r in ("width", "height")]
        if plain[0] is not None and plain[1] is not None and plain[0].all() and plain[1].all():
            rows, size = np.arange(n), np.stack([plain[0], plain[1]], axis=1)
        else:
            rows, size = self._explain_sizes(columns, roles, lines, images, real, faults)
        for i in rows[self._images.settle(images[rows], size[rows])].tolist():
            w, h = self._images.sizes[images[i]].tolist()
            name = columns[roles["image"]][i] if "image" in roles else ""
            found, other = f"{size[i, 0]}x{size[i, 1]}", f"{w}x{h}"
            faults.warn(i, roles.get("width", 0), SIZE_CONFLICT, value=name, found=found, other=other)

    def _explain_sizes(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        lines: Ints,
        images: Ints,
        real: NDArray[np.bool_],
        faults: RowFaults,
    ) -> tuple[NDArray[np.intp], Longs]:
        """Rows that state a size, and the (n, 2) sizes of all, where not every row states one plainly."""
        n = len(lines)
        size = np.zeros((n, 2), np.int64)
        blank = np.ones((n, 2), bool)
        for k, role in enumerate(("width", "height")):
            if role not in roles:
                continue
            column = roles[role]
            values, _ = self._decimals.numbers(columns[column], column, lines, faults)
            unsaid = np.isnan(values)
            values[unsaid] = 0
            unfit = (values < 0) | (values >= 2**31) | (values != np.rint(values))
            for i in np.nonzero(unfit)[0].tolist():
                faults.add(i, column, BAD_IMAGE_SIZE, value=columns[column][i])
            size[:, k] = np.where(unfit, 0, values)
            blank[:, k] = unsaid | unfit
        half = (blank[:, 0] != blank[:, 1]) & ~faults.lost & real
        for i in np.nonzero(half)[0].tolist():
            lacking, other = ("width", "height") if blank[i, 0] else ("height", "width")
            column = roles[lacking if lacking in roles else other]
            faults.add(i, column, BAD_IMAGE_SIZE, value="")
        stated = ~blank.any(axis=1) & real
        zero = stated & (size == 0).any(axis=1)
        self._images.zeros.update(images[zero].tolist())
        return np.nonzero(stated & ~zero)[0], size


def _plain_sizes(cells: list[str]) -> Longs | None:
    """Whole numbers of pixels of a column with few different ones, None of any other."""
    kinds = set(cells)
    if 8 * len(kinds) > len(cells) + 64 or not all(
        k.isascii() and k.isdigit() and len(k) < 10 for k in kinds
    ):
        return None
    values = {kind: int(kind) for kind in kinds}
    return np.fromiter(map(values.__getitem__, cells), np.int64, len(cells))


def _track_ids(cells: list[str]) -> NDArray[Any] | None:
    """(n,) ids as numbers where they are some, None where there is none; None if no cell has one."""
    kinds: dict[str, Any] = {}
    for kind in set(cells):
        text = kind.strip()
        plain = text.isascii() and text.isdigit() and len(text) < 19 and (text == "0" or text[0] != "0")
        kinds[kind] = None if text in ("", "-1") else int(text) if plain else text
    if not any(value is not None for value in kinds.values()):
        return None
    ids = np.empty(len(cells), object)
    ids[:] = [kinds[cell] for cell in cells]
    return ids


def _flag(cell: str, *, unknown: bool) -> int:
    """0 or 1, and -1 for what is neither."""
    text = cell.strip(" \t").lower()
    if text in ("", "0", "0.0", "false") or (unknown and text in ("-1", "-1.0")):
        return 0
    return 1 if text in ("1", "1.0", "true") else -1
