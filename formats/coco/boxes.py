"""The boxes of a COCO file as columns, until it is known what they are and what their ids mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import ALL_SCORED, MASK_SIZE, NO_SIZE, SCORE_MISSING, SOME_SCORES
from odm.formats._shared.codes import (
    AMBIGUOUS_BOX_ID,
    BAD_FLAG,
    DUPLICATE_BOX_ID,
    MISSING_BOX_KEY,
    UNKNOWN_CATEGORY,
    UNKNOWN_IMAGE,
)
from odm.formats._shared.gather import select_rows
from odm.formats._shared.json.columns import show
from odm.formats._shared.json.record_types import NONE
from odm.formats._shared.shapes.rotation import note_turned
from odm.formats.coco.ids import add_other_type, as_list, look_up, suggest_id
from odm.formats.coco.shapes import ORIENTED_KEYS, Fault, RecordShapes, find_boxes, read_shapes, turn_boxes
from odm.issues import Code, Log, Trusted, first_few, plural, printable
from odm.tables import NO_ID, Builder, Flag, Floats, Id, Ints, Keypoints, Longs, ShapeKind, Shapes
from odm.tables.extra_fields import ExtraRows, count_extra

FEW_IMAGES = 10
"""Up to so many unknown images may be separate mistakes; more have one cause, such as another split."""


SLACK = 1e-6
"""By how much a rounded fraction of an image may pass 1."""


class Table(msgspec.Struct, eq=False):
    """The boxes of one file, as columns that grow, and what their ids mean."""

    path: str
    pointer: str
    flag: tuple[str, Flag] = "iscrowd", Flag.CROWD
    """The key that is 0 or 1, and what 1 means."""
    file: int = -1
    """The builder's number of the file, if it has images."""
    n: int = 0
    n_records: int = 0
    """Number of records of the list, with those that are not read because of an error."""
    columns: dict[str, NDArray[Any]] = msgspec.field(default_factory=dict)
    """By the names in `_COLUMNS`; the first `n` rows are set, and rows to grow into follow."""
    ids: dict[str, list[NDArray[Any] | list[Any]]] = msgspec.field(default_factory=dict)
    """The ids of each chunk of boxes, by key, such as ``image_id``; a list where some are text."""
    rows: dict[str, NDArray[np.int32]] = msgspec.field(default_factory=dict)
    """Row numbers for the ids of a key, where they were looked up already."""
    track_scores: dict[tuple[int, Id], float] = msgspec.field(default_factory=dict)
    """The scores that the list of tracks gives, by video (-1 = not given) and id."""
    images: dict[Id, int] = msgspec.field(default_factory=dict)
    """The row of each listed id, -2 for an entry with an error; `categories` likewise."""
    categories: dict[Id, int] = msgspec.field(default_factory=dict)
    unlisted: set[str] = msgspec.field(default_factory=set)
    """``image_id`` or ``category_id`` whose list is missing, reported once for all boxes."""
    extra_rows: ExtraRows = msgspec.field(default_factory=ExtraRows)
    references: dict[Id, str] = msgspec.field(default_factory=dict)
    """The repeated ids of boxes to which a field of the file refers, with its key."""
    hint: str = ""
    """Advice, in brackets, for the message on an unknown category."""
    shape_keys: tuple[str, ...] = ()
    """The keys of shapes that are read."""
    passes_shapes_on: bool = False
    """Whether the JSON of shapes is kept as well."""
    outlines: bool = False
    """Whether outlines and masks are asked for; else they are read only beside oriented boxes."""
    unread: Counter[str] = msgspec.field(default_factory=Counter)
    """Shapes that were not asked for, by key."""
    boxes_of_shapes: bool = False
    """Whether boxes and areas are those of the shapes."""
    shapes: list[RecordShapes] = msgspec.field(default_factory=list)
    """The shapes of the records of each chunk."""
    faults: list[Fault] = msgspec.field(default_factory=list)
    """Faults of shapes that are read only because there is no box."""
    n_around: Counter[str] = msgspec.field(default_factory=Counter)
    """How many boxes are computed from a ``shape`` or ``keypoints``, because the record has no bbox."""
    _n_allocated: int = 0
    """The rows that a new or growing column gets."""
    _scale: Any = None
    """(n, 2) width and height of the image of each box, where the boxes are relative to it."""

    def add(
        self,
        index: NDArray[Any],
        columns: Mapping[str, Any],
        extra: Mapping[str, Any],
        expected: int = 0,
        unread_shapes: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
    ) -> None:
        """Append n boxes; their whole list is likely to have `expected` records.

        `index` (n,) int32 are the positions of their records, and `columns` the (n, ...) values by key, as in
        `Chunk.columns`. `extra` are the JSON of other keys, or their lists of numbers. `unread_shapes` are
        shapes that are not stored; they give the edges of a record without a bbox. Values of the flag's key
        other than 0 and 1 go to the column ``odd``, which `add_to` reports.
        """
        row_start, row_end = self.n, self.n + len(index)
        self.n = row_end
        if self.shape_keys:
            extra = self._read_stored_shapes(extra, len(index))
        self.extra_rows.extend(len(index), extra)
        if row_end > self._n_allocated:
            self._n_allocated = max(row_end, expected, 2 * row_start)

        # Edges are computed in the columns themselves, without copies.
        ltwh = columns.get("bbox")
        if ltwh is None:
            ltwh = np.full((len(index), 4), np.nan)
        self._append("index", row_start, index)
        self._append("wh", row_start, None)
        self._append("xyxy", row_start, None)
        put_edges(ltwh, self.columns["xyxy"][row_start:row_end], self.columns["wh"][row_start:row_end])

        # A column that few files have begins with the first chunk that has a value.
        for name in ("score", "area", "turn"):
            values = columns.get(name)
            if values is not None or name in self.columns:
                _, _, missing = _COLUMNS[name]
                self._append(name, row_start, missing if values is None else values)
        flag_key, flag_meaning = self.flag
        flags = odd_values = None
        if (flag := columns.get(flag_key)) is not None:
            flags = np.where(flag == 1, np.uint16(flag_meaning), 0)
            odd_values = np.where((flag == 1) | (flag == NONE), 0, flag)
        for name, values in (("flags", flags), ("odd", odd_values)):
            if name in self.columns or (values is not None and values.any()):
                self._append(name, row_start, 0 if values is None else values)
        for key in ("image_id", "category_id", "id", "track_id"):
            chunk_ids = columns.get(key)
            if key not in self.ids:
                if chunk_ids is None:
                    continue
                self.ids[key] = [missing_ids(row_start)]
            self.ids[key].append(missing_ids(len(index)) if chunk_ids is None else chunk_ids)

        if unread_shapes and np.isnan(self.columns["xyxy"][row_start:row_end]).any():
            self._fill_boxes(row_start, unread_shapes)

    def _read_stored_shapes(self, extra: Mapping[str, Any], n: int) -> Mapping[str, Any]:
        """Add the shapes of the next n boxes to `shapes`, from their JSON by key.

        Returns `extra` without them, or all of it if their JSON is kept as well. Outlines that are not asked
        for, and have no oriented box beside them, are counted as unread instead.
        """
        shape_columns = {key: extra[key] for key in self.shape_keys if key in extra}
        if not self.outlines and shape_columns.keys().isdisjoint(ORIENTED_KEYS):
            self.unread += count_extra({"segmentation": tuple(shape_columns.pop("segmentation", ()))})
        self.shapes.append(read_shapes(shape_columns, n))
        if self.passes_shapes_on:
            return extra
        return {key: values for key, values in extra.items() if key not in self.shape_keys}

    def _fill_boxes(self, row_start: int, unread_shapes: Mapping[str, Sequence[bytes]]) -> None:
        """Set the boxes of the rows from `row_start` on that have neither a box nor a stored shape.

        They are those around `unread_shapes`, the JSON by key of the same rows. Faults of these shapes are
        kept in `faults`, and the boxes are counted in `n_around`.
        """
        is_empty = np.isnan(self.columns["xyxy"][row_start : self.n]).all(axis=1)
        if self.shape_keys:
            stored = self.shapes[-1]  # of the same rows, as `add` has just read them
            is_empty &= (stored.shapes.kind == ShapeKind.NONE) & (stored.keypoints.counts() == 0)
        positions = np.flatnonzero(is_empty)  # from row_start
        shape_columns = {
            key: [column[i] for i in positions.tolist()] for key, column in unread_shapes.items()
        }
        shapes, rows = read_shapes(shape_columns, len(positions)), positions + row_start
        self.faults += [(int(rows[i]), code, key, values) for i, code, key, values in shapes.faults]
        score = self.columns.get("score", np.full(self.n, np.nan))[rows]
        n_points = self._box_around(shapes, np.arange(len(rows)), rows, has_score=~np.isnan(score))
        n_boxes = int(np.count_nonzero(~np.isnan(self.columns["xyxy"][rows]).any(axis=1)))
        self.n_around += {"shape": n_boxes - n_points, "keypoints": n_points}

    def _box_around(
        self, shapes: RecordShapes, shape_rows: Longs, rows: Longs, *, has_score: NDArray[np.bool_]
    ) -> int:
        """Set the boxes of `rows` to those around the rows `shape_rows` of `shapes`.

        Boxes with a score, (n,) `has_score`, also get their area, and then all keypoints count, else only
        labelled ones, as in pycocotools' loadRes. Returns how many boxes are around keypoints.
        """
        edges, area = find_boxes(shapes, shape_rows, only_labelled=~has_score)
        self.columns["xyxy"][rows] = edges
        self.columns["wh"][rows] = edges[:, 2:] - edges[:, :2]
        if has_score.any():
            if "area" not in self.columns:
                self._append("area", 0, np.nan)
            self.columns["area"][rows[has_score]] = area[has_score]
        has_no_outline = shapes.shapes.kind[shape_rows] == ShapeKind.NONE
        is_around_points = ~np.isnan(edges).any(axis=1) & has_no_outline
        return int(np.count_nonzero(is_around_points))

    def _append(self, name: str, row_start: int, values: Any) -> None:
        """Set a column from `row_start` on; in a new column, rows before get the missing value of `_COLUMNS`.

        With the `values` None, the column only gets room for these rows, which the caller must set. A column
        that is too short grows to `_n_allocated` rows.
        """
        old_column = self.columns.get(name)
        if old_column is None or len(old_column) < self.n:
            inner, dtype, missing = _COLUMNS[name]
            self.columns[name] = np.empty((self._n_allocated, *inner), dtype)
            self.columns[name][:row_start] = missing if old_column is None else old_column[:row_start]
        if values is not None:
            self.columns[name][row_start : self.n] = values

    def column(self, name: str) -> NDArray[Any] | None:
        """Return the n rows of a column; None if no box has it."""
        column = self.columns.get(name)
        return None if column is None else column[: self.n]

    def id_column(self, key: str) -> NDArray[Any] | list[Any] | None:
        """Return the n ids of a key: int64, or a list if some are text; None if no box has it."""
        chunks = self.ids.get(key)
        if chunks is None:
            return None
        if len(chunks) > 1:
            if all(isinstance(chunk_ids, np.ndarray) for chunk_ids in chunks):
                all_ids: Any = np.concatenate(chunks)
            else:
                all_ids = [i for chunk_ids in chunks for i in as_list(chunk_ids)]
            chunks[:] = [all_ids]
        return chunks[0]

    def _to_pixels(self, builder: Builder, log: Log, image: Ints, is_valid: NDArray[np.bool_]) -> None:
        """Multiply boxes and areas by the sizes of their images, (n,) rows `image`, in place; set `_scale`.

        Images without a size are reported, and `is_valid`, (n,), becomes False for their boxes. An area above
        1, which no fraction of an image can be, is taken for pixels and stays.
        """
        rows = np.unique(image[is_valid]).tolist()
        size = np.zeros((max(rows, default=0) + 1, 2))  # width and height by image row
        for row in rows:
            size[row] = builder.image_size(row)
            if not size[row].all():
                first_box = int(np.flatnonzero(is_valid & (image == row))[0])
                ids = self.id_column("image_id")
                value = Trusted(show(as_list(ids)[first_box])) if ids is not None else ""
                log.report(NO_SIZE, self.path, pointer=self._locate(first_box), value=value)
        # scale: (n, 2), 0 for boxes that are not valid, whose image may be -1
        self._scale = scale = np.where(is_valid[:, None], size[np.where(is_valid, image, 0)], 0)
        is_valid &= (scale > 0).all(axis=1)
        for name, factor in (("xyxy", np.tile(scale, 2)), ("wh", scale)):
            if (column := self.column(name)) is not None:
                column *= factor
        if (area := self.column("area")) is not None:
            area *= np.where(area > 1 + SLACK, 1, scale.prod(axis=1))

    def add_to(
        self, builder: Builder, log: Log, n_scored: int, total: int, *, relative: bool = False
    ) -> None:
        """Add the valid boxes to the builder; `n_scored` of the `total` boxes of all files have a score.

        All others are reported and counted as skipped. Boxes that are `relative` to their images become
        pixels. Scores are left out, with a warning, unless the builder's kind is ``det``.
        """
        if not self.n:
            return
        score, index = self.column("score"), self.column("index")
        is_valid = np.ones(self.n, bool)
        self._report_odd_flags(log, is_valid)
        if builder.kind == "det":
            bad_rows = np.flatnonzero(np.isnan(score)) if score is not None else np.arange(self.n)
            if len(bad_rows):
                self._report(log, SCORE_MISSING, bad_rows, "", lambda _: {})
                is_valid[bad_rows] = False
        elif score is not None:
            self._report_scores(log, score, n_scored, total)
            score = None

        image = self._look_up_rows(log, "image_id", self.images, UNKNOWN_IMAGE, is_valid)
        shapes = self._finish_shapes(builder, log, image, is_valid, relative=relative)
        for noun, n in (+self.n_around).items():  # + leaves out counts of 0
            boxes = f"{plural(n, 'annotation')} without a bbox"
            log.note(f"{printable(self.path)}: {boxes}: the box around the {noun} is read")
        category = self._look_up_rows(log, "category_id", self.categories, UNKNOWN_CATEGORY, is_valid)
        # Annotations without a box are not skipped, but the invalid ones, counted below, will include them.
        builder.skipped -= self._drop_boxless(builder, log, is_valid)

        ids = self.id_column("id")
        if ids is not None:
            self._report_repeated(log, ids, is_valid)
            if isinstance(ids, list):  # an id that is text is not kept
                ids = np.array([i if isinstance(i, int) else NO_ID for i in ids], np.int64)
        if relative:
            self._to_pixels(builder, log, image, is_valid)
            shapes = {name: column and column.scaled(self._scale) for name, column in shapes.items()}

        columns: dict[str, Any] = {
            **shapes,
            "image": image,
            "category": category,
            "track": self._find_tracks(builder, image) if "track_id" in self.ids else None,
            "xyxy": self.column("xyxy"),
            "wh": self.column("wh"),
            "score": score,
            "flags": self.column("flags"),
            "area": self.column("area"),
            "source_id": ids,
            "line": index,
        }
        fields = self.extra_rows.columns
        if not is_valid.all():  # only the valid rows of each column
            fields = self.extra_rows.take(np.flatnonzero(is_valid).tolist())
            builder.skipped += int(np.count_nonzero(~is_valid))
            columns = {name: select_rows(values, is_valid) for name, values in columns.items()}
        box_columns: dict[str, Any] = {name: values for name, values in columns.items() if values is not None}
        builder.boxes(**box_columns, extra=fields, file=builder.file(self.path, self.pointer or "/"))

    def _report_odd_flags(self, log: Log, is_valid: NDArray[np.bool_]) -> None:
        """Report flags other than 0 and 1, and set `is_valid`, (n,), to False for their boxes."""
        if (odd_flags := self.column("odd")) is None:
            return
        bad_rows = np.flatnonzero(odd_flags)
        flag_key, _ = self.flag
        self._report(
            log, BAD_FLAG, bad_rows, flag_key, lambda i: {"value": int(odd_flags[i]), "expected": "0 or 1"}
        )
        is_valid[bad_rows] = False

    def _report_scores(self, log: Log, score: Floats, n_scored: int, total: int) -> None:
        """Report scores in ground truth, (n,) with NaN for none, at the first.

        `n_scored` of the `total` boxes of all files have one.
        """
        scored_rows = np.flatnonzero(~np.isnan(score))
        if not len(scored_rows):
            return
        pointer = f"{self._locate(scored_rows[0])}/score"
        if n_scored < total:
            log.report(SOME_SCORES, self.path, pointer=pointer, field="score", found=n_scored, total=total)
        elif not log.counts[ALL_SCORED.name]:  # once, however many files there are
            log.report(ALL_SCORED, self.path, pointer=pointer, field="score", n=total)

    def _locate(self, row: int) -> str:
        """Return the pointer of the record of a box, such as ``/annotations/7``."""
        return f"{self.pointer}/{self.columns['index'][row]}"

    def _drop_boxless(self, builder: Builder, log: Log, is_valid: NDArray[np.bool_]) -> int:
        """Set `is_valid` to False for annotations without a box or shape; return how many were dropped.

        They are noted if others have boxes. If none has one, and in results, they are errors, not counted.
        """
        lacks_box = np.isnan(self.columns["xyxy"][: self.n]).all(axis=1)
        rows = np.flatnonzero(is_valid & lacks_box)
        is_valid[rows] = False
        if not len(rows) or lacks_box.all() or not self.pointer:  # a results list has an empty pointer
            self._report(log, MISSING_BOX_KEY, rows, "", lambda _: {"value": "bbox"})
            return 0
        builder.extras["annotations without a box"] += len(rows)
        log.note(f"{printable(self.path)}: {plural(len(rows), 'annotation')} without a box left out")
        return len(rows)

    def _finish_shapes(
        self, builder: Builder, log: Log, image: Ints, is_valid: NDArray[np.bool_], *, relative: bool
    ) -> dict[str, Shapes | Keypoints | None]:
        """Return the columns ``shapes`` and ``keypoints``, and compute boxes that the file does not give.

        Faulty shapes are reported, and `is_valid`, (n,), becomes False for their boxes. `shapes` is emptied,
        images without a size get that of their masks, and boxes with a ``turn`` become oriented boxes.
        """
        if not self.shapes:
            if not (self.faults or np.isnan(self.columns["xyxy"][: self.n]).any()):
                return {}
            self.shapes.append(read_shapes({}, self.n))  # n records without a shape, for what follows
        record_shapes = RecordShapes.concatenate(self.shapes)
        self.shapes.clear()
        faults = [fault for fault in (*record_shapes.faults, *self.faults) if is_valid[fault[0]]]
        faults += self._compare_mask_sizes(builder, record_shapes.size, image, is_valid)
        for row, code, key, values in sorted(faults, key=lambda fault: fault[0]):
            self._report(log, code, np.array([row]), key, lambda _, values=values: values)  # type: ignore[misc]
            is_valid[row] = False

        # Boxes around shapes, where the record has no box, or for all shapes if the user chose these.
        xyxy = self.columns["xyxy"][: self.n]
        takes_shape_box = record_shapes.shapes.kind > 0 if self.boxes_of_shapes else np.zeros(self.n, bool)
        is_det = builder.kind == "det"
        rows_to_fill = np.flatnonzero(is_valid & (takes_shape_box | np.isnan(xyxy).all(axis=1)))
        if len(rows_to_fill):
            has_score = np.full(len(rows_to_fill), is_det)
            # the same rows of the shapes and of the boxes, as every box has its place in `record_shapes`
            n_points = self._box_around(record_shapes, rows_to_fill, rows_to_fill, has_score=has_score)
            self.n_around["keypoints"] += 0 if is_det or self.boxes_of_shapes else n_points

        outlines = record_shapes.shapes
        # In fractions, where a unit of x is not one of y, a turn would distort.
        if (turn := self.column("turn")) is not None and not relative:
            outlines = self._turn(outlines, turn, is_valid, log)
        return {
            "shapes": outlines if outlines.kind.any() else None,
            "keypoints": record_shapes.keypoints if len(record_shapes.keypoints.xyv) else None,
        }

    @staticmethod
    def _compare_mask_sizes(
        builder: Builder, mask_size: Longs, image: Ints, is_valid: NDArray[np.bool_]
    ) -> list[Fault]:
        """Return a fault for each valid mask whose size is not that of its image.

        `mask_size` is (n, 2) height and width, 0 for no mask. An image without a size gets that of its first
        mask. `image` (n,) are the rows of the images.
        """
        mask_rows = np.flatnonzero(is_valid & (mask_size.min(axis=1) > 0) & (image >= 0))
        # the images that have masks, and the first mask of each, by its position in mask_rows
        mask_images, first_positions = np.unique(image[mask_rows], return_index=True)
        for row, i in zip(mask_images.tolist(), mask_rows[first_positions].tolist(), strict=True):
            if not all(builder.image_size(row)):
                height, width = mask_size[i].tolist()
                builder.size_image(row, width, height)
        sizes = [builder.image_size(row) for row in mask_images.tolist()]
        image_sizes = np.array(sizes, np.int64).reshape(-1, 2)[:, ::-1]  # height and width, as of masks
        expected_sizes = image_sizes[np.searchsorted(mask_images, image[mask_rows])]
        faults: list[Fault] = []
        for i in np.flatnonzero((mask_size[mask_rows] != expected_sizes).any(axis=1)).tolist():
            (h, w), (height, width) = mask_size[mask_rows[i]], expected_sizes[i]
            values = {"value": Trusted(f"{w}x{h}"), "expected": Trusted(f"{width}x{height}")}
            faults.append((int(mask_rows[i]), MASK_SIZE, "segmentation", values))
        return faults

    def _turn(self, outlines: Shapes, turn: Floats, is_valid: NDArray[np.bool_], log: Log) -> Shapes:
        """Return the shapes with an oriented box for each valid box that is turned and has no outline.

        `turn` (n,) are radians. The edges in the columns become those around the turned boxes, with a note.
        """
        xyxy, wh = self.columns["xyxy"][: self.n], self.columns["wh"]
        is_turned = is_valid & (turn != 0) & (outlines.kind == ShapeKind.NONE) & np.isfinite(xyxy).all(axis=1)
        rows = np.flatnonzero(is_turned)
        edges = xyxy[rows]
        outlines = outlines.replace_rows(rows, turn_boxes(edges, turn[rows]))  # changes `edges`, too
        xyxy[rows], wh[rows] = edges, edges[:, 2:] - edges[:, :2]
        note_turned(log, self.path, len(rows))
        return outlines

    def _find_tracks(self, builder: Builder, image: NDArray[np.int32]) -> NDArray[np.int32]:
        """Add the tracks and their scores; return (n,) track rows of the boxes, -1 for none."""
        ids = self.id_column("track_id")
        assert ids is not None
        if isinstance(ids, list):
            ids = np.array([None if i in (NONE, -1) else i for i in ids], object)
        else:
            ids = np.where(ids < 0, NO_ID, ids)  # a negative id is no track
        rows = np.full(len(image), -1, np.int32)
        has_image = image >= 0
        rows[has_image] = builder.tracks_of_images(image[has_image], ids[has_image])
        for (video, id_), score in self.track_scores.items():
            builder.score_track(video, id_, score)
        return rows

    def _report(
        self,
        log: Log,
        code: Code,
        rows: NDArray[Any],
        key: str,
        values_of: Callable[[int], dict[str, Any]],
        n_max: int | None = None,
    ) -> None:
        """Report `code` for the key `key` of each of `rows`, or for at most `n_max`; the others are counted.

        An empty `key` stands for the whole record. `values_of` gives the values of the message by row, and is
        called only for issues that are kept.
        """
        n_shown = max(0, log.room(code) if n_max is None else min(n_max, log.room(code)))
        for row in rows[:n_shown].tolist():
            pointer = f"{self._locate(row)}/{key}" if key else self._locate(row)
            log.report(code, self.path, pointer=pointer, field=key, **values_of(row))
        if len(rows) > n_shown:
            log.counts[code.name] += len(rows) - n_shown

    def _look_up_rows(
        self, log: Log, key: str, row_of_id: Mapping[Id, int], code: Code, is_valid: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Look up the ids of a key: (n,) rows. Unknown ids are reported, and `is_valid` becomes False there.

        Ids of another type than the listed ones, ``"7"`` for 7, are known. Only one is reported if all image
        ids have one reason (`_find_shared_reason`), and none of a list that is `unlisted`. A row of -2 is not
        reported: the entry with that id is in the log already.
        """
        ids = self.id_column(key)
        assert ids is not None
        rows = self.rows[key] if key in self.rows else look_up(ids, row_of_id)
        bad_rows = np.flatnonzero(rows < 0)
        # In a results list, whose pointer is empty, only if `self.rows` has the key: ids of the ground truth.
        # Else the values were read as names or positions, where the text "7" is not the number 7.
        if len(bad_rows) and (self.pointer or key in self.rows):
            listed_ids = as_list(ids)
            unknown_ids = (listed_ids[row] for row in bad_rows.tolist())
            row_of_id = add_other_type(row_of_id, unknown_ids, key, self.path, log)
            rows = look_up(ids, row_of_id)
            bad_rows = np.flatnonzero(rows < 0)
        if len(bad_rows):
            text_ids = [k for k in row_of_id if isinstance(k, str)]
            unknown_rows = np.flatnonzero(rows == -1)
            shared_reason = _find_shared_reason(ids, unknown_rows, row_of_id) if code is UNKNOWN_IMAGE else ""

            def make_values(row: int) -> dict[str, Any]:
                value = ids[row] if isinstance(ids, list) else int(ids[row])
                hint = self.hint if code is UNKNOWN_CATEGORY else ""
                return {
                    "value": Trusted(show(value)),
                    "near": Trusted(hint or suggest_id(value, row_of_id, text_ids) + shared_reason),
                }

            if key not in self.unlisted:
                self._report(log, code, unknown_rows, key, make_values, n_max=1 if shared_reason else None)
            is_valid[bad_rows] = False
        return rows

    def find_references(self, text: bytes) -> None:
        """Add the box ids that a field of the file refers to, with its key, to `references`.

        `text` is that of the file; it is searched only if a box id is repeated, which is rare.
        """
        ids = self.id_column("id")
        if ids is not None and self._find_repeated(ids):
            for key, one_or_more_ids in _REFERENCE.findall(text):  # such as "ann_ids": [3, 4]
                for id_ in re.findall(rb'"[^"\\]*"|-?[0-9]+', one_or_more_ids):
                    self.references.setdefault(json.loads(id_), key.decode())

    @staticmethod
    def _find_repeated(ids: NDArray[Any] | list[Any]) -> dict[int, int]:
        """Return the rows whose id an earlier row has, each with the first row of that id.

        `NONE` stands for no id, however often it is there.
        """
        if isinstance(ids, np.ndarray):
            sorted_ids = np.sort(ids[ids != NONE])
            if (sorted_ids[1:] > sorted_ids[:-1]).all():  # the usual case, without a dict of all ids
                return {}
        first_row_of_id: dict[Id, int] = {}
        pairs = ((i, first_row_of_id.setdefault(id_, i)) for i, id_ in enumerate(as_list(ids)) if id_ != NONE)
        return {i: earlier for i, earlier in pairs if earlier != i}

    def _report_repeated(self, log: Log, ids: NDArray[Any] | list[Any], is_valid: NDArray[np.bool_]) -> None:
        """Report repeated ids. If a field refers to such an id, its later boxes are errors and not valid."""
        first_row_of, listed_ids = self._find_repeated(ids), as_list(ids)

        def make_values(row: int) -> dict[str, Any]:
            first_pointer = Trusted(f"#{self._locate(first_row_of[row])}")
            key = self.references.get(listed_ids[row], "")
            return {"value": Trusted(show(listed_ids[row])), "first": first_pointer, "key": key}

        referred_rows = [row for row in first_row_of if listed_ids[row] in self.references]
        other_rows = [row for row in first_row_of if listed_ids[row] not in self.references]
        for code, rows in ((AMBIGUOUS_BOX_ID, referred_rows), (DUPLICATE_BOX_ID, other_rows)):
            self._report(log, code, np.array(rows, np.int64), "id", make_values)
        is_valid[referred_rows] = False


_REFERENCE = re.compile(rb'"([a-z_]*(?:ann|annotation)s?_ids?)"\s*:\s*(\[[^\]]*\]|"[^"]*"|-?[0-9]+)')
"""A field that names annotations by their ids, and its value."""


def _find_shared_reason(
    ids: NDArray[Any] | list[Any], unknown_rows: NDArray[np.intp], row_of_id: Mapping[Id, int]
) -> str:
    """Return one reason, in brackets, for all boxes with unknown image ids; empty if they may be mistakes.

    `ids` are those of all boxes. Unknown are all of them, or those of more than `FEW_IMAGES` images, as of
    another split.
    """

    def format_ids(ids: Collection[Id]) -> str:
        return first_few(ids, 3, show)

    if len(unknown_rows) == len(ids) > 1:
        return f" (as for all {len(ids)} boxes here; the known ids are {format_ids(row_of_id) or 'none'})"
    unknown_images = dict.fromkeys(
        ids[row] if isinstance(ids, list) else int(ids[row]) for row in unknown_rows.tolist()
    )
    if len(unknown_images) <= FEW_IMAGES:
        return ""
    n_unknown = f"{len(unknown_rows)} of {len(ids)} boxes"
    return f" ({n_unknown} are on {len(unknown_images)} unknown images: {format_ids(unknown_images)})"


# Shape of a row, dtype and missing value.
_COLUMNS: dict[str, tuple[tuple[int, ...], Any, float]] = {
    "index": ((), np.int32, 0),
    "xyxy": ((4,), np.float64, 0),
    "wh": ((2,), np.float64, 0),
    "score": ((), np.float64, np.nan),
    "area": ((), np.float64, np.nan),
    "turn": ((), np.float64, 0),
    "flags": ((), np.uint16, 0),
    "odd": ((), np.int64, 0),  # values of the flag's key that are neither 0 nor 1
}


def put_edges(ltwh: Floats, xyxy: Floats, wh: Floats) -> None:
    """Fill (n, 4) edges, and (n, 2) widths and heights, from left, top, width and height."""
    with np.errstate(over="ignore"):  # an infinite edge is for the checks to name
        for i in (0, 1):  # column by column, which is many times as fast as two at once
            xyxy[:, i] = ltwh[:, i]
            wh[:, i] = ltwh[:, i + 2]
            np.add(ltwh[:, i], ltwh[:, i + 2], out=xyxy[:, i + 2])


def missing_ids(n: int) -> Longs:
    """Return (n,) int64 that stand for missing ids or sizes."""
    return np.full(n, NONE, np.int64)
