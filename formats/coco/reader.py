"""The files of COCO JSON as images, classes and boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_REFERENCE
from odm.files import Source
from odm.formats._shared.class_lists import DUPLICATE_CLASS
from odm.formats._shared.codes import (
    BAD_IMAGE_SIZE,
    BAD_LISTED_CLASS,
    DUPLICATE_BOX_KEY,
    DUPLICATE_IMAGE,
    DUPLICATE_KEY,
    FILE_NAME_MISSING,
    MISSING_BOX_KEY,
    MISSING_KEY,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
    WRONG_BOX_TYPE,
    WRONG_TYPE,
)
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.json_columns import (
    NONE,
    Broken,
    Chunk,
    Document,
    Field,
    Repeated,
    load,
    show,
)
from odm.formats._shared.own_fields import own_fields
from odm.formats._shared.pictures import ImageOptions, Pictures
from odm.formats.coco.boxes import Table, none
from odm.formats.coco.ids import (
    category_readings,
    choose_reading,
    counted_ids,
    image_readings,
    listed,
    note_categories,
    note_positions,
    packed,
    position_hint,
)
from odm.formats.coco.values import ANNOTATION, CATEGORY, IMAGE, RESULT, Values
from odm.formats.coco.videos import (
    FRAME_KEYS,
    Frames,
    TubeReader,
    is_tubes,
    read_scores,
    read_videos,
    track_ids,
)
from odm.issues import Code, Log, Trusted, plural, printable
from odm.names import accept_name, is_usual, refuse_class
from odm.tables import Builder, Dataset, Id
from odm.tables.own import NOTHING, OwnRows

RESULTS_BESIDE_IMAGES = Code(
    "results-beside-images",
    "error",
    "this results file lies beside {value!r}, which has images of its own",
    "give only one of the two files, or move them to separate folders",
    "The ids in a results file are those of its ground truth, and the other file has its own ids, so the "
    "same id could mean two images.",
)
RESULTS_AS_TRUTH = Code(
    "results-as-ground-truth",
    "error",
    "expected ground truth, found a results file",
    "give the annotation file (instances_*.json) instead",
    "A results file contains detections; used as ground truth they would give meaningless metrics.",
)
NO_ANNOTATIONS = Code(
    "no-annotations",
    "warning",
    "there is no list of annotations, so all images are read as images without objects",
    "check that this is the right file",
    "A file that only lists images looks the same, and so does an incomplete export.",
)


_MOST_OWN = 2**20
"""Bytes of a member of a file that is kept for writing."""


class Reader:
    """Reads the files of one source; boxes wait until it is known whether they are detections.

    Parameters
    ----------
    counted
        What the category ids of results are positions in: the ground truth's list, from 0 (``positions``) or
        from 1 (``positions-from-1``), COCO's 80 classes (``80``), or nothing, for they are ids.
    units
        What the numbers of boxes are: ``pixel``, ``normalized``, or ``auto`` where they say it themselves.
    """

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: ImageOptions,
        *,
        counted: str | None = None,
        units: str = "pixel",
    ) -> None:
        self._units = units
        self._source, self._builder, self._log = source, builder, log
        self._counted = counted
        self._tables: list[Table] = []
        self._tubes: list[TubeReader] = []
        self._lists: list[str] = []
        """The files that are results lists."""
        self._own = ""
        """A file with images of its own."""
        self.fast = True
        self.slice_size: int | None = None
        asks = (options.images, options.image_size, options.image_sizes) != (None, None, None)
        self._pictures = Pictures(options, Builder(), log, source) if asks else None
        self._image_places: dict[str, tuple[str, int]] = {}
        self._reference_added = False

    def read(self, file: str, split: str) -> None:
        """Read one file; a syntax error ends it."""
        path = self._source.full(file)
        data = self._source.read(file, self._log)
        if data is None:
            return
        values = Values(path, self._builder, self._log)
        sizes = {} if self.slice_size is None else {"slice_size": self.slice_size}
        try:
            data = load(data, self._log, path)
            document = Document(data, self._log, path, fast=self.fast, **sizes)
            if is_tubes(data):
                self._read_tubes(document, values, split)
            elif document.top == "{":
                self._read_object(document, values, split)
            elif document.top == "[":
                self._read_list(document, values)
            else:
                value = document.value()
                document.end()
                values.wrong(WRONG_TYPE, "", "", "an object or a list", value)
        except Broken:
            pass

    def finish(self) -> None:
        """Decide between ground truth and detections, and hand over the boxes."""
        builder = self._builder
        if self._own:
            for path in self._lists:
                self._log.report(RESULTS_BESIDE_IMAGES, path, value=self._own)
        total = sum(table.n for table in self._tables)
        found = sum(
            int(np.count_nonzero(~np.isnan(score)))
            for table in self._tables
            if (score := table.column("score")) is not None
        )
        for tubes in self._tubes:
            total, found = total + tubes.total, found + tubes.scored
        if builder.kind is None and self._lists:
            builder.kind = "det"
        if not decide_kind(builder, found, total, unanimous=True) and self._lists:
            self._log.report(RESULTS_AS_TRUTH, self._source.path)
            return
        relative = self._are_relative()
        for table in self._tables:
            table.add_to(builder, self._log, found, total, relative=relative)
        for tubes in self._tubes:
            tubes.add_to(builder, found, total)

    def _are_relative(self) -> bool:
        """Whether the boxes are relative to their image's size: as asked for, else if all are in 0..1."""
        if self._units != "auto" or not all(table.within_one() for table in self._tables):
            return self._units == "normalized"
        boxes = [xyxy for table in self._tables if (xyxy := table.column("xyxy")) is not None]
        if not any(((xyxy > 0) & (xyxy < 1)).any() for xyxy in boxes):
            return False
        self._log.note(
            f"{printable(self._source.path)}: all boxes lie in 0..1, so they are read as relative to the "
            "image's size (-O units=pixel reads pixels)"
        )
        return True

    def _read_object(self, document: Document, values: Values, split: str) -> None:
        path = values.path
        if self._lists:  # whose images the builder holds
            self._own = self._own or path
            for _ in document.members():
                pass
            return
        self._own = path
        table = Table(path, "/annotations")
        lists: set[str] = set()
        frames, scores = Frames(self._builder), []
        own: dict[str, bytes] = {}
        for key, top in document.members():
            if key in ("videos", "tracks") and top == "[":
                if key == "videos":
                    read_videos(document, values, frames)
                else:
                    scores = read_scores(document, values)
                continue
            if key not in ("images", "annotations", "categories"):
                self._take_member(key, document, values, own)
                continue
            lists.add(key)
            if top != "[":
                value = document.value()
                values.wrong(WRONG_TYPE, f"/{key}", "", "a list", value)
                table.unlisted.add("image_id" if key == "images" else "category_id")
            elif key == "images":
                self._read_images(document, values, split, table, frames)
            elif key == "categories":
                self._read_categories(document, values, table)
            else:
                self._read_boxes(document, values, table, ANNOTATION)
        for key, id_key in (("images", "image_id"), ("categories", "category_id")):
            if key not in lists and (table.seen or key == "images"):
                self._log.report(MISSING_KEY, path, value=key)
                table.unlisted.add(id_key)
        if "annotations" not in lists and "images" in lists:
            self._log.report(NO_ANNOTATIONS, path)
        if own:
            if table.file < 0:
                table.file = self._builder.file(path, "/images")
            self._builder.describe(table.file, own)
        frames.finish()
        table.track_scores = {(frames.row(video), id_): score for id_, video, score in scores}
        self._tables.append(table)

    def _take_member(self, key: str, document: Document, values: Values, own: dict[str, bytes]) -> None:
        """Keep what the file says of itself if that is wanted; otherwise, and if it is huge, it is unread."""
        text = document.raw()
        wanted = self._builder.keeps_own and key not in ("videos", "tracks")
        if wanted and text is not None and len(text) <= _MOST_OWN:
            own[key] = text
        elif text not in NOTHING:
            values.count({key: 1})

    def _read_images(
        self, document: Document, values: Values, split: str, table: Table, frames: Frames
    ) -> None:
        ids: list[Id] = []
        names: list[Any] = []
        sizes: list[tuple[Any, Any]] = []
        index: list[int] = []
        keeps = self._builder.keeps_own
        own = OwnRows()
        for chunk in document.records(IMAGE, rest=keeps):
            values.note(chunk, "/images")
            if chunk.records is None:
                n, columns = chunk.n, chunk.columns
                own.extend(n, chunk.rest)
                ids += listed(columns["id"])
                names += columns.get("file_name") or [None] * n
                sizes += zip(*(listed(columns.get(key, none(n))) for key in ("width", "height")), strict=True)
                index += range(chunk.start, chunk.start + n)
                frames.keep({key: listed(columns[key]) for key in FRAME_KEYS if key in columns}, n)
                continue
            codes = MISSING_KEY, WRONG_TYPE, DUPLICATE_KEY
            for i, location, record in values.objects(chunk, "/images", IMAGE, codes, count=not keeps):
                id_ = values.id(record, "id", location, "/images", (MISSING_KEY, WRONG_TYPE))
                name = record.get("file_name")
                if name is not None and not isinstance(name, str):
                    values.wrong(WRONG_TYPE, location, "file_name", "text", name)
                    name = False  # an error already; its boxes are left out without one of their own
                if id_ is not None:
                    ids.append(id_)
                    names.append(name)
                    own.extend(1, _own(record, IMAGE, values) if keeps else {})
                    sizes.append((record.get("width"), record.get("height")))
                    index.append(i)
                    frames.keep({key: [record[key]] for key in FRAME_KEYS if key in record}, 1)
        first = self._builder.n_images
        kept = self._add_images(values, split, table, ids, names, sizes, index)
        self._builder.add_own("images", range(first, first + len(kept)), own.at(kept))
        frames.place(first, kept)

    def _add_images(
        self,
        values: Values,
        split: str,
        table: Table,
        ids: list[Id],
        names: list[Any],
        sizes: list[tuple[Any, Any]],
        index: list[int],
    ) -> list[int]:
        """Add the images; the positions in `ids` of those that could be."""
        path, log, builder = values.path, self._log, self._builder
        first_ids: dict[Id, int] = {}
        kept: list[tuple[str, int, int, Id, str, int]] = []
        at: list[int] = []
        first = builder.n_images
        for n, (id_, name, size, i) in enumerate(zip(ids, names, sizes, index, strict=True)):
            if first_ids.setdefault(id_, i) != i:
                values.duplicate_id(f"/images/{i}", id_, f"#/images/{first_ids[id_]}")
                continue
            if name is None:
                name = str(id_)  # noqa: PLW2901
                pointer = f"/images/{i}"
                log.report(
                    FILE_NAME_MISSING, path, pointer=pointer, where="file_name", name=name, source="its id"
                )
            table.images[id_] = -2
            if name is False:
                continue
            if not is_usual(name) and not accept_name(
                name, log, path, pointer=f"/images/{i}/file_name", field="file_name"
            ):
                continue
            if self._image_places.setdefault(name, (path, i)) != (path, i):
                self._report_twice(name, path, f"/images/{i}")
                continue
            table.images[id_] = first + len(kept)
            width, height = size
            picture = ""
            usual = type(width) is int and type(height) is int and 0 < width < 2**31 and 0 < height < 2**31
            if not usual or self._pictures is not None:
                width, height, picture = self._size(name, size, path, f"/images/{i}")
            kept.append((name, width, height, id_, picture, i))
            at.append(n)
        if kept:
            table.file = builder.file(path, "/images")
            all_names, widths, heights, all_ids, pictures, lines = zip(*kept, strict=True)
            builder.add_images(
                all_names,
                width=np.array(widths, np.int32),
                height=np.array(heights, np.int32),
                source_id=all_ids,
                path=pictures,
                split=[split] * len(kept),
                file=table.file,
                line=lines,
            )
        return at

    def _report_twice(self, name: str, path: str, location: str) -> None:
        """Report an image whose name another one has."""
        there, i = self._image_places[name]
        first = Trusted(f"{printable(there) if there != path else ''}#/images/{i}")
        self._log.report(DUPLICATE_IMAGE, path, pointer=location, field="file_name", value=name, first=first)

    def _size(self, name: str, given: tuple[Any, Any], path: str, location: str) -> tuple[int, int, str]:
        """Width and height, 0 where unknown, and the path of the picture where one was looked for."""
        log = self._log
        size = []
        wrong = False
        for key, value in zip(("width", "height"), given, strict=True):
            pixels = value
            if value is None or (type(value) is int and value in (0, NONE)):
                pixels = 0
            elif isinstance(value, float) and value.is_integer():
                pixels = int(value)
            if type(pixels) is not int or not 0 <= pixels < 2**31:
                pointer = f"{location}/{key}"
                log.report(BAD_IMAGE_SIZE, path, pointer=pointer, field=key, value=Trusted(show(value)))
                wrong, pixels = True, 0
            size.append(pixels)
        picture = self._pictures.named(name) if self._pictures is not None else None
        file = picture.path if picture else ""
        if min(size) > 0 or wrong:
            return size[0], size[1], file
        if self._pictures is not None:
            if explicit := self._pictures.size(name):
                return *explicit, file
            if picture and (found := self._pictures.size(name, picture)):
                log.report(
                    SIZE_FROM_PICTURE, path, pointer=location, value=name, size=f"{found[0]}x{found[1]}"
                )
                return *found, file
        log.report(SIZE_MISSING, path, pointer=location, value=name)
        return 0, 0, file

    def _read_categories(self, document: Document, values: Values, table: Table) -> None:
        path = values.path
        entries: list[tuple[Any, Any, int]] = []
        keeps, fields = self._builder.keeps_own, OwnRows()
        for chunk in document.records(CATEGORY, rest=keeps):
            values.note(chunk, "/categories")
            if chunk.records is None:
                columns = chunk.columns
                fields.extend(chunk.n, chunk.rest)
                entries += zip(
                    listed(columns["id"]),
                    columns["name"],
                    range(chunk.start, chunk.start + chunk.n),
                    strict=True,
                )
                continue
            codes = MISSING_KEY, WRONG_TYPE, DUPLICATE_KEY
            for i, location, record in values.objects(chunk, "/categories", CATEGORY, codes, count=not keeps):
                id_ = values.id(record, "id", location, "/categories", (MISSING_KEY, WRONG_TYPE))
                name = record.get("name")
                if "name" not in record:
                    self._log.report(MISSING_KEY, path, pointer=location, value="name")
                elif not isinstance(name, str):
                    values.wrong(WRONG_TYPE, location, "name", "text", name)
                if id_ is not None:
                    entries.append((id_, name if isinstance(name, str) else None, i))
                    fields.extend(1, _own(record, CATEGORY, values) if keeps else {})
        log = self._log
        first_ids: dict[Id, int] = {}
        own: dict[str, str] = {}
        kept: dict[int, int] = {}
        for n, (id_, name, i) in enumerate(entries):
            location = f"/categories/{i}"
            if first_ids.setdefault(id_, i) != i:
                values.duplicate_id(location, id_, f"#/categories/{first_ids[id_]}")
                continue
            table.categories[id_] = -2
            if name is None:
                continue
            if reason := refuse_class(name):
                log.report(
                    BAD_LISTED_CLASS,
                    path,
                    pointer=f"{location}/name",
                    field="name",
                    value=name,
                    reason=reason,
                )
                continue
            before = own.setdefault(name, f"id {show(id_)}")
            if before != f"id {show(id_)}":
                log.report(
                    DUPLICATE_CLASS,
                    path,
                    pointer=location,
                    value=name,
                    first=Trusted(before),
                    second=Trusted(f"id {show(id_)}"),
                )
            row = table.categories[id_] = self._builder.category(name, source_id=id_)
            kept[row] = kept.get(row, n)
        self._builder.add_own("categories", [*kept], fields.at([*kept.values()]))

    def _read_boxes(self, document: Document, values: Values, table: Table, fields: Sequence[Field]) -> None:
        for chunk in document.records(fields):
            values.note(chunk, table.pointer)
            table.seen = chunk.start + chunk.n
            if chunk.records is not None:
                self._add_slowly(chunk, values, table, fields)
                continue
            columns = track_ids(chunk.columns)
            crowd: Any = columns.get("iscrowd")
            index = np.arange(chunk.start, chunk.start + chunk.n, dtype=np.int32)
            if crowd is not None:
                bad = (crowd != 0) & (crowd != 1) & (crowd != NONE)
                if bad.any():
                    for i in np.flatnonzero(bad).tolist():
                        values.bad_crowd(f"{table.pointer}/{chunk.start + i}", int(crowd[i]))
                    self._builder.skipped += int(np.count_nonzero(bad))
                    keep = np.flatnonzero(~bad)
                    index = index[keep]
                    columns = {
                        k: [v[i] for i in keep.tolist()] if isinstance(v, list) else v[keep]
                        for k, v in columns.items()
                    }
            bbox = columns["bbox"]
            assert isinstance(bbox, np.ndarray)
            table.add(
                index,
                columns,
                bbox,
                score=columns.get("score"),  # type: ignore[arg-type]
                area=columns.get("area"),  # type: ignore[arg-type]
                crowd=columns.get("iscrowd"),  # type: ignore[arg-type]
                expected=chunk.expected,
            )
        if values.outlined:
            what = plural(values.outlined, "annotation")
            self._log.note(f"{printable(values.path)}: {what} without a bbox read by the box of the outline")

    def _add_slowly(self, chunk: Chunk, values: Values, table: Table, fields: Sequence[Field]) -> None:
        codes = (MISSING_BOX_KEY, WRONG_BOX_TYPE)
        keys = {field.key for field in fields}
        rows: list[tuple[Any, ...]] = []
        for i, location, record in values.objects(chunk, table.pointer, fields, (*codes, DUPLICATE_BOX_KEY)):
            errors = self._log.errors
            image = values.id(record, "image_id", location, table.pointer, codes)
            category = values.id(record, "category_id", location, table.pointer, codes)
            own: Id | None = NONE
            if "id" in keys and "id" in record:
                own = values.id(record, "id", location, table.pointer, codes)
            box = values.box(record, location)
            score = values.number(record, "score", location) if "score" in record else float("nan")
            area = float("nan")
            if "area" in keys and record.get("area") is not None:
                area = values.number(record, "area", location)
            track = values.track(record, location, table.pointer, codes)
            crowd = record.get("iscrowd", 0) if "iscrowd" in keys else 0
            if isinstance(crowd, (bool, Repeated)) or crowd not in (0, 1):
                values.bad_crowd(location, crowd)
            if self._log.errors > errors:
                continue
            rows.append((i, image, category, own, track, *box, score, area, int(crowd)))
        self._builder.skipped += chunk.n - len(rows)
        if not rows:
            return
        index, images, categories, own_ids, tracks, *numbers, crowds = zip(*rows, strict=True)
        ids = {"image_id": packed(images), "category_id": packed(categories), "id": packed(own_ids)}
        if set(tracks) != {NONE}:
            ids["track_id"] = packed(tracks)
        table.add(
            np.array(index, np.int32),
            ids,
            np.array(numbers[:4], np.float64).T,
            score=np.array(numbers[4]),
            area=np.array(numbers[5]),
            crowd=np.array(crowds),
        )

    def _read_tubes(self, document: Document, values: Values, split: str) -> None:
        """Read boxes that stand in the tracks that they belong to, one record for each."""
        reference = None
        if document.top == "[":
            self._lists.append(values.path)
            reference = self._builder.counterpart()
            if reference is None:
                self._log.report(NO_REFERENCE, values.path)
                return
        else:
            self._own = values.path
        if reference is not None and not self._reference_added:
            self._add_reference(reference)
            self._reference_added = True
        tubes = TubeReader(values, self._builder, self._log, split, reference)
        tubes.read(document)
        self._tubes.append(tubes)

    def _read_list(self, document: Document, values: Values) -> None:
        path = values.path
        self._lists.append(path)
        table = Table(path, "")
        self._read_boxes(document, values, table, RESULT)
        document.end()
        if self._own:
            return
        reference = self._builder.counterpart()
        if reference is None:
            if table.seen:
                self._log.report(NO_REFERENCE, path)
            return
        if not self._reference_added:
            self._add_reference(reference)
            self._reference_added = True
        self._tables.append(table)
        if table.n:
            images, categories = reference.images, reference.categories
            table.images = self._choose(
                table, "image_id", images.source_id, lambda: image_readings(images.name)
            )
            if self._counted is not None:
                own = counted_ids(categories, self._counted)
                table.categories = self._choose(table, "category_id", own, list)
                if self._counted != "80":
                    note_positions(table.categories, categories, path, self._log)
            else:
                table.categories = self._choose(
                    table, "category_id", categories.source_id, lambda: category_readings(reference)
                )
                column = table.id_column("category_id")
                has_zero = column is not None and 0 in column
                note_categories(table.categories, reference, path, self._log, has_zero=has_zero)
                table.hint = position_hint(table.id_column("category_id"), categories)

    def _choose(
        self,
        table: Table,
        key: str,
        own: NDArray[Any],
        others: Callable[[], list[tuple[str, dict[Id, int]]]],
    ) -> dict[Id, int]:
        column = table.id_column(key)
        assert column is not None
        known, rows = choose_reading(column, own, others, key, table.path, self._log)
        if rows is not None:
            table.rows[key] = rows
        return known

    def _add_reference(self, reference: Dataset) -> None:
        images, categories = reference.images, reference.categories
        self._builder.add_images(
            images.name,
            width=images.width,
            height=images.height,
            source_id=images.source_id.tolist(),
            path=images.path,
            split=images.split,
            line=[0] * len(images),
            video=_videos_of(reference, self._builder),
            frame=images.frame,
        )
        self._builder.named = categories.named
        for name, id_, parent in zip(
            categories.name, categories.source_id.tolist(), categories.parent.tolist(), strict=True
        ):
            self._builder.category(name, source_id=id_, parent=parent)


def _own(record: dict[str, Any], fields: Sequence[Field], values: Values) -> dict[str, list[bytes]]:
    return own_fields(record, {field.key for field in fields}, lambda key: values.count({key: 1}))


def _videos_of(reference: Dataset, builder: Builder) -> list[int] | None:
    """The rows of the videos of the images of another dataset, which are added."""
    if reference.images.video is None:
        return None
    videos = reference.videos
    listed = zip(videos.name, videos.length.tolist(), videos.source_id.tolist(), strict=True)
    rows = [builder.video(name, length=length, source_id=id_) for name, length, id_ in listed]
    return [rows[row] if row >= 0 else -1 for row in reference.images.video.tolist()]
