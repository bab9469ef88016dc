"""The files of COCO JSON as images, classes and boxes: annotations, results, LVIS, and boxes in videos."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import NO_REFERENCE
from odm.files import UNREADABLE, Source, Unreadable
from odm.formats._shared.codes import (
    BAD_FLAG,
    MISSING_KEY,
    OTHER_TASK,
    WRONG_TYPE,
)
from odm.formats._shared.gather import decide_kind, find_folders
from odm.formats._shared.json.columns import Broken, Document, load, show
from odm.formats._shared.json.record_types import NONE, Chunk, Field, to_one_line
from odm.formats._shared.pictures import ImageOptions, Pictures
from odm.formats._shared.shapes.rotation import parse_turn
from odm.formats.coco.boxes import SLACK, Table
from odm.formats.coco.ids import (
    as_list,
    choose_reading,
    list_category_readings,
    list_counted_ids,
    list_image_readings,
    look_up,
    note_categories,
    note_positions,
    pack_ids,
    suggest_positions,
    to_other_type,
)
from odm.formats.coco.images import ImageList, Labels
from odm.formats.coco.long_lists import Span, begin_decoding, read_span
from odm.formats.coco.shapes import SHAPE_KEYS, list_fields, list_keys, split_rotations
from odm.formats.coco.values import (
    COCO,
    RESULT,
    ROW,
    Dialect,
    Values,
    encode_extra,
    find_other_task,
    find_root_class,
    flatten_instances,
    flatten_segments,
)
from odm.formats.coco.videos import Frames, TubeReader, is_tubes, merge_track_ids, read_scores
from odm.issues import Code, Log, Trusted, Verbatim, printable, spell_setting
from odm.tables import Builder, Dataset, Id
from odm.tables.extra_fields import NOTHING, ExtraRows

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

_MAX_EXTRA_BYTES = 2**20
"""Bytes of a member of a file that is kept for writing."""


class Reader:
    """Reads the files of one source; boxes wait until it is known whether they are detections.

    Parameters
    ----------
    counted
        The list in which category ids of results are positions: that of the ground truth, from 0
        (``positions``) or 1 (``positions-from-1``), or COCO's 80 classes (``80``). None: they are ids.
    units
        The unit of the boxes: ``pixel``, ``normalized``, or ``auto``, which decides by their values.
    boxes
        Where the boxes come from: ``given``, or ``shapes`` for those around the shapes.
    span
        The records of a results list that are read, all if None.
    """

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: ImageOptions,
        dialect: Dialect = COCO,
        *,
        counted: str | None = None,
        units: str = "pixel",
        boxes: str = "given",
        span: Span | None = None,
    ) -> None:
        """Start without files; `dialect` is COCO or LVIS, and `options` are those on pictures."""
        self._dialect, self._units, self._counted, self._span = dialect, units, counted, span
        # Boxes around shapes need the shapes, also where the builder wants none.
        wants = builder.wants if boxes == "given" else {*builder.wants, "polygon", "mask"}
        self._shape_keywords: dict[str, Any] = {"shape_keys": list_keys(wants)}  # arguments of `Table`
        self._shape_keywords["boxes_of_shapes"] = boxes == "shapes"
        self._shape_keywords["outlines"] = not {"polygon", "mask"}.isdisjoint(wants)
        self._has_turns = getattr(options, "rotation", "ignore") == "cvat"  # turns boxes; LVIS lacks it
        self._shape_keywords["passes_shapes_on"] = builder.passes_shapes_on
        self._source, self._builder, self._log = source, builder, log
        self._tables: list[Table] = []
        self._tubes: list[TubeReader] = []
        self._result_files: list[str] = []  # those that are results lists
        self._file_with_images = ""  # the first that is no results list, and so has images of its own
        has_option = (options.images, options.image_size, options.image_sizes) != (None, None, None)
        folders = find_folders(source)
        # A Builder of their own has no counterpart, so sizes are not taken from the other side.
        self._pictures = Pictures(options, Builder(), log, source, folders) if has_option or folders else None
        self._folders: tuple[str, ...] = ()
        """Where pictures of the file that is read may lie: beside it, or in a folder of the split's name."""
        self._location_of_name: dict[str, tuple[str, int]] = {}  # file and index of each image, in all files
        self._reference_added = False

    def read(self, file: str, split: str) -> None:
        """Read one file, or take a long list from the workers that decode it; a syntax error ends it."""
        path = self._source.full(file)
        self._folders = posixpath.dirname(file), split, f"images/{split}"
        values = Values(path, self._builder, self._log, self._dialect)
        if not file and self._take_long_list(path):  # "" is the source itself, which is no folder
            return
        data = self._data_of(file)
        if data is None:
            return
        try:
            data = load(data, self._log, path)
            document = Document(data, self._log, path, first=self._span.first_record if self._span else 0)
            if document.top == "{" and (other_task := find_other_task(data)) is not None:
                content, remedy = map(Trusted, other_task)
                self._log.report(OTHER_TASK, path, what=content, remedy=remedy)
                return
            if self._has_turns and b'"rotation"' in data and b'"occluded"' in data:
                # as CVAT writes; its plain boxes, without an outline, are turned, so outlines are read
                keys = list_keys({*self._builder.wants, "polygon", "mask"})
                self._shape_keywords |= {"shape_keys": keys, "outlines": True}
            may_be_list = self._dialect.results
            if may_be_list:
                data, document = self._flatten(data, document, values)
            if may_be_list and is_tubes(data):
                self._read_tubes(document, values, split)
            elif document.top == "{":
                self._read_object(document, values, split, data)
            elif document.top == "[" and may_be_list:
                table = Table(path, "", **self._shape_keywords)
                self._read_boxes(document, values, table, RESULT)
                document.check_end()
                self._take_list(table)
            else:
                value = document.read_value()
                document.check_end()
                expected = "an object or a list" if may_be_list else "an object"
                values.report_wrong(WRONG_TYPE, "", "", expected, value)
        except Broken:
            pass

    def _take_long_list(self, path: str) -> bool:
        """Take a results list from the workers that decode it; return False if it must be read as usual."""
        # Workers decode only image, category, box and score; some keyword is set if shapes are wanted.
        needs_extra = self._builder.keeps_extra or any(self._shape_keywords.values())
        if needs_extra or not self._dialect.results or self._span is not None:
            return False
        long_list, table = self._source.once(begin_decoding), Table(path, "")
        if long_list is None or not long_list.fill(table):
            return False
        self._take_list(table)
        return True

    def _flatten(self, data: bytes, document: Document, values: Values) -> tuple[bytes, Document]:
        """Rewrite lists of instances, or panoptic segments, as COCO's boxes, with a note.

        Returns the text and its document; those of any other file are returned as they are.
        """
        path, log = values.path, self._log
        if (flat_list := flatten_instances(data)) is not None:
            log.note(f"{printable(path)}: instances are numbered through all images, from #/0")
            return flat_list, Document(flat_list, log, path)
        if document.top == "{" and (panoptic := flatten_segments(data)) is not None:
            data, n_segments = panoptic
            values.count({"masks of segments in PNG files": n_segments})
            text = "segments are read as boxes, numbered through all images from #/annotations/0"
            log.note(f"{printable(path)}: {text}")
            return data, Document(data, log, path)
        return data, document

    def _data_of(self, file: str) -> bytes | None:
        """Return the text of a file, or of its span; None, with an issue, if it cannot be had."""
        if self._span is None:
            return self._source.read(file, self._log)
        try:
            return read_span(self._source, file, self._span)
        except Unreadable as e:
            self._log.report(UNREADABLE, self._source.full(file), reason=str(e))
            return None

    def finish(self) -> None:
        """Decide between ground truth and detections, report a mix of both, and add boxes to the builder."""
        builder = self._builder
        builder.protocol = self._dialect.protocol
        if self._file_with_images:
            for path in self._result_files:
                self._log.report(RESULTS_BESIDE_IMAGES, path, value=self._file_with_images)
        total = sum(table.n for table in self._tables)
        scores = [score for table in self._tables if (score := table.column("score")) is not None]
        n_scored = sum(int(np.count_nonzero(~np.isnan(score))) for score in scores)
        for tubes in self._tubes:
            total, n_scored = total + tubes.n_boxes, n_scored + tubes.n_scored
        if builder.kind is None and self._result_files:
            builder.kind = "det"
        # unanimous: if any box lacks a score, all are ground truth, unless the kind is set
        if not decide_kind(builder, n_scored, total, unanimous=True) and self._result_files:
            self._log.report(RESULTS_AS_TRUTH, self._source.path)
            return
        relative = self._are_relative()
        for table in self._tables:
            table.add_to(builder, self._log, n_scored, total, relative=relative)
        for tubes in self._tubes:
            tubes.add_to(builder, n_scored, total)

    def _are_relative(self) -> bool:
        """Whether boxes are relative to the image size: by `_units` or, for ``auto``, by their values.

        All edges must then be in 0..1, and one between them; a note says so.
        """
        if self._units != "auto":
            return self._units == "normalized"
        boxes = [xyxy for table in self._tables if (xyxy := table.column("xyxy")) is not None]
        pieces = (piece for xyxy in boxes for piece in (xyxy[:100], xyxy[100:]))  # 100 mostly show it
        if any(((piece < 0) | (piece > 1 + SLACK)).any() for piece in pieces):
            return False
        if not any(((xyxy > 0) & (xyxy < 1)).any() for xyxy in boxes):  # all are 0, 1 or missing
            return False
        self._log.note(
            f"{printable(self._source.path)}: all boxes lie in 0..1, so they are read as relative to the "
            f"image's size ({spell_setting('units=pixel')} reads pixels)"
        )
        return True

    def _read_object(self, document: Document, values: Values, split: str, data: bytes) -> None:
        """Read a file with lists of images, boxes and classes; `data` is the text of `document`."""
        path, dialect = values.path, self._dialect
        if self._result_files:  # only the syntax is checked: `finish` reports that they do not go together
            self._file_with_images = self._file_with_images or path
            for _ in document.members():
                pass
            return
        self._file_with_images = path
        table = Table(path, "/annotations", dialect.flag, **self._shape_keywords)
        present: set[str] = set()
        frames, scores = Frames(self._builder), []
        extra_fields: dict[str, bytes] = {}
        labels: Labels = {key: [] for key in dialect.labels}
        for key, first_char in document.members():
            if key == "videos" and first_char == "[":
                frames.read_videos(document, values)
            elif key == "tracks" and first_char == "[":
                scores = read_scores(document, values)
            elif key not in ("images", "annotations", "categories"):
                self._keep_member(key, document, values, extra_fields)
            else:
                present.add(key)
                if first_char != "[":
                    value = document.read_value()
                    values.report_wrong(WRONG_TYPE, f"/{key}", "", "a list", value)
                    # so that its ids, now unknown, are not reported box by box
                    table.unlisted.add("image_id" if key == "images" else "category_id")
                elif key == "images":
                    images = ImageList(
                        values, self._builder, self._pictures, self._folders, self._location_of_name
                    )
                    images.read(document, split, table, frames, labels)
                elif key == "categories":
                    table.categories = values.read_categories(document)
                else:
                    self._read_boxes(document, values, table, dialect.annotation)

        # All lists are read: what one says of another can be looked up.
        self._report_missing_lists(present, table)
        if extra_fields:
            if table.file < 0:
                table.file = self._builder.file(path, "/images")
            self._builder.describe(table.file, extra_fields)
        frames.finish(path, self._log)
        frames.add_other_type((video_id for _, video_id, _ in scores), path, self._log)
        if "categories" in present:
            self._add_labels(labels, table, values)
        table.track_scores = {(frames.find_row(video_id), id_): score for id_, video_id, score in scores}
        table.find_references(data)  # repeated ids of boxes are errors only where a field uses them
        self._tables.append(table)
        self._note_root_class(data, table, path)

    def _keep_member(
        self, key: str, document: Document, values: Values, extra_fields: dict[str, bytes]
    ) -> None:
        """Put the JSON of a member of the file that is not read in `extra_fields`, to be written again.

        If the builder keeps none, or it is too long, it is counted as unread, unless its value is empty.
        """
        text = document.read_raw()  # None if not strict JSON
        is_kept = self._builder.keeps_extra and key not in ("videos", "tracks")  # the writer makes these
        if is_kept and text is not None and len(text) <= _MAX_EXTRA_BYTES:
            extra_fields[key] = text
        elif (text is None or b"".join(text.split()) not in NOTHING) and key not in self._dialect.silent:
            values.count({key: 1})

    def _report_missing_lists(self, present: set[str], table: Table) -> None:
        """Report the lists that are not `present`, and add their ids to `table.unlisted`.

        Classes are needed where there are boxes; annotations that are not needed only give a warning.
        """
        needs = self._dialect.needs
        # "": no box refers to the ids of annotations
        for key, id_key in (("images", "image_id"), ("annotations", ""), ("categories", "category_id")):
            if key not in present and (key in needs or (key == "categories" and table.n_records)):
                self._log.report(MISSING_KEY, table.path, value=key)
                table.unlisted.add(id_key)
        if "images" in present and "annotations" not in present | needs:
            self._log.report(NO_ANNOTATIONS, table.path)

    def _add_labels(self, labels: Labels, table: Table, values: Values) -> None:
        """Add the classes that images list as absent or as partly annotated; unlisted ids are counted."""
        for key, pairs in labels.items():
            image = np.repeat([row for row, _ in pairs], [len(ids) for _, ids in pairs])
            category = np.array([table.categories.get(id_, -1) for _, ids in pairs for id_ in ids], np.int64)
            is_listed = category >= 0
            image, category = image[is_listed], category[is_listed]
            self._builder.labels(image=image, category=category, verdict=self._dialect.labels[key])
            if not is_listed.all():
                values.count({f"{key} of unlisted classes": int(np.count_nonzero(~is_listed))})

    def _note_root_class(self, data: bytes, table: Table, path: str) -> None:
        """Note a class without objects that is only the supercategory of the others."""
        root, ids = find_root_class(data[:65536]), table.id_column("category_id")
        if root is None:
            return
        root_id, root_name = root
        if ids is not None and root_id in as_list(ids):
            return
        shown = printable(root_name)
        self._log.note(
            f"{printable(path)}: the class {shown!r} has no objects and is only the supercategory of the "
            f"others, as Roboflow exports it (convert --drop {shown!r} leaves it out)"
        )

    def _read_boxes(self, document: Document, values: Values, table: Table, fields: Sequence[Field]) -> None:
        """Add the records of the list that begins here to `table`; `fields` are the keys that are read.

        Shapes that are not asked for are counted, and kept for writing if the builder keeps extra fields.
        """
        keeps, shape_keys = self._builder.keeps_extra, table.shape_keys
        if shape_keys:  # a record without a bbox gets its box from its shape
            fields = [replace(f, required=f.required and f.key != "bbox") for f in fields]
            fields += list_fields(
                shape_keys, decodes=not self._builder.passes_shapes_on, outlines=table.outlines
            )
        for chunk in document.records(fields, rest=keeps):
            unread = self._keep_shapes(chunk, shape_keys)
            chunk.rest.pop("video_id", None)  # which the image has
            if self._has_turns and "attributes" in chunk.columns:
                turn, other_attributes = split_rotations(to_one_line(chunk.columns["attributes"]))
                if turn is not None:
                    chunk.columns["turn"] = turn
                    chunk.rest |= {"attributes": other_attributes} if keeps else {}
            values.note_unread(chunk, table.pointer)
            table.n_records = chunk.start + chunk.n
            if chunk.records is None:
                index = np.arange(chunk.start, table.n_records, dtype=np.int32)
                values_by_key = {**chunk.rest, **chunk.decoded}
                table.add(index, merge_track_ids(chunk.columns), values_by_key, chunk.expected, unread)
            else:
                self._add_slowly(chunk, values, table, fields)
        values.count(table.extra_rows.lost + table.unread)

    def _keep_shapes(self, chunk: Chunk, shape_keys: Sequence[str]) -> dict[str, Any]:
        """Put the JSON of shapes in ``chunk.rest``, for the table to read, or to be written again.

        Shapes of other keys than `shape_keys` are taken out of the columns and returned, JSON by key.
        """
        keeps = self._builder.keeps_extra
        # Attributes are kept although they are read: they may name more than a track.
        for key in (*(("attributes",) if keeps else ()), *shape_keys):
            if key in chunk.columns:
                chunk.rest[key] = to_one_line(chunk.columns[key])
                chunk.extras.pop(key, None)  # not lost
        # Without any shape key, no shape is a column: it is counted like any other key.
        unread_keys = [key for key in SHAPE_KEYS if key not in shape_keys] if shape_keys else []
        unread = {key: to_one_line(chunk.columns.pop(key)) for key in unread_keys if key in chunk.columns}
        for key in unread if keeps else ():
            chunk.rest[key] = unread[key]
            chunk.extras.pop(key, None)
        return unread

    def _add_slowly(self, chunk: Chunk, values: Values, table: Table, fields: Sequence[Field]) -> None:
        """Add a chunk that came as Python values; records with an error are reported, skipped and counted."""
        log, keys = self._log, {field.key for field in fields}
        rows: list[tuple[Any, ...]] = []  # index, ids, numbers, turn and flag of each valid record
        extra_rows, unread = ExtraRows(), ExtraRows()
        keeps, shape_keys = self._builder.keeps_extra, table.shape_keys
        all_shape_keys = dict.fromkeys((*SHAPE_KEYS, *shape_keys))
        for i, location, original in values.read_objects(chunk, table.pointer, fields, ROW, count=not keeps):
            n_errors, record = log.errors, original
            if self._dialect.sparse:  # null is then no value
                record = {k: v for k, v in original.items() if v is not None}
            shape_of = {key: record[key] for key in all_shape_keys if record.get(key) not in (None, [], {})}
            # An annotation may only label the image; a result, in a list without a pointer, may not.
            may_lack = "bbox" not in record and bool(table.pointer)
            lacks_box = (shape_of or may_lack) and record.get("bbox") in (None, [])
            ids, numbers, flag = self._parse_record(
                record, values, location, keys, table, lacks_box=bool(lacks_box)
            )
            if log.errors > n_errors:
                continue
            attributes, turn = original.get("attributes"), 0.0
            if self._has_turns and type(attributes) is dict and (turn := parse_turn(attributes)):
                del attributes["rotation"]
            rows.append((i, *ids, *numbers, turn, flag))

            # Shapes and other fields as JSON. A shape with NaN is text, too, for whoever reads it to report.
            shape_texts = {key: [json.dumps(value).encode()] for key, value in shape_of.items()}
            unread_texts = {k: text for k, text in shape_texts.items() if k not in shape_keys}
            unread.extend(1, unread_texts if lacks_box else {})  # only for the box around them
            texts = {k: text for k, text in shape_texts.items() if k in shape_keys}
            if keeps or shape_keys:
                # Attributes and shapes are kept as well, and the video of a box is that of its image.
                read_keys = keys - {"attributes", *all_shape_keys} | {"video_id"}
                kept_fields = original if keeps else {key: shape_of[key] for key in texts}
                extra = encode_extra(kept_fields, {*read_keys, *texts}, lambda k: values.count({k: 1}))
                extra_rows.extend(1, extra | texts)
        values.count(extra_rows.lost)
        self._builder.skipped += chunk.n - len(rows)
        if rows:
            self._add_rows(rows, table, extra_rows, unread)

    def _parse_record(
        self,
        record: dict[str, Any],
        values: Values,
        location: str,
        keys: set[str],
        table: Table,
        *,
        lacks_box: bool,
    ) -> tuple[tuple[Id | None, ...], tuple[float, ...], int]:
        """Return four ids (image, category, own, track), box with score and area, and the flag of a record.

        Each wrong value is reported, and then the result cannot be used. `keys` are those that are read, and
        the box of a record that `lacks_box` is NaN.
        """
        image = values.parse_id(record, "image_id", location, ROW)
        category = values.parse_id(record, "category_id", location, ROW)
        id_: Id | None = NONE
        if "id" in keys and "id" in record:
            id_ = values.parse_id(record, "id", location, ROW)
        box = (float("nan"),) * 4 if lacks_box else values.parse_box(record, location)
        score = area = float("nan")
        if "score" in record:
            score = values.parse_number(record["score"], location, "score")
        if "area" in keys and record.get("area") is not None:
            area = values.parse_number(record["area"], location, "area")
        track = values.parse_track_id(record, location)
        flag_key, _ = table.flag
        flag = record[flag_key] if flag_key in keys and record.get(flag_key) is not None else 0
        if flag not in (0, 1):  # true and false are equal to these
            shown = flag if isinstance(flag, str) else Verbatim(show(flag))
            values.report(BAD_FLAG, location, flag_key, value=shown, expected="0 or 1")
            flag = 0
        return (image, category, id_, track), (*box, score, area), int(flag)

    @staticmethod
    def _add_rows(
        rows: list[tuple[Any, ...]], table: Table, extra_rows: ExtraRows, unread: ExtraRows
    ) -> None:
        """Add n rows to the table: index, four ids, left, top, width, height, score, area, turn and flag.

        `extra_rows` are the n rows of JSON that is kept, and `unread` those of shapes that are not read.
        """
        index, images, categories, box_ids, tracks, *numbers, flags = zip(*rows, strict=True)
        ids = {"image_id": pack_ids(images), "category_id": pack_ids(categories), "id": pack_ids(box_ids)}
        if set(tracks) != {NONE}:
            ids["track_id"] = pack_ids(tracks)
        *bbox, score, area, turn = np.array(numbers, np.float64)
        flag_key, _ = table.flag
        columns = {"bbox": np.stack(bbox, axis=1), "score": score, "area": area, flag_key: np.array(flags)}
        columns |= {"turn": turn} if turn.any() else {}
        table.add(np.array(index, np.int32), ids | columns, extra_rows.columns, unread_shapes=unread.columns)

    def _read_tubes(self, document: Document, values: Values, split: str) -> None:
        """Read boxes that stand in the tracks that they belong to; an outermost list is results."""
        reference = None
        if document.top == "[":
            self._result_files.append(values.path)
            reference = self._builder.counterpart()
            if reference is None:
                self._log.report(NO_REFERENCE, values.path)
                return
            self._add_reference(reference)
        else:
            self._file_with_images = values.path
        tubes = TubeReader(values, self._builder, self._log, split, reference)
        tubes.read(document)
        self._tubes.append(tubes)

    def _take_list(self, table: Table) -> None:
        """Keep the table of a results list, if it has a ground truth, and choose what its ids mean."""
        path = table.path
        self._result_files.append(path)
        if self._file_with_images:
            return  # `finish` reports that they do not go together
        reference = self._builder.counterpart()
        if reference is None:
            if table.n_records:
                self._log.report(NO_REFERENCE, path)
            return
        self._add_reference(reference)
        self._tables.append(table)
        if table.n:
            images = reference.images
            table.images = self._choose_meaning(
                table, "image_id", images.source_id, lambda: list_image_readings(images.name)
            )
            self._choose_categories(table, reference)
            self._add_unlisted(table)

    def _choose_categories(self, table: Table, reference: Dataset) -> None:
        """Set ``table.categories``, what the category ids mean, and advice about unknown ones as its hint."""
        categories, path = reference.categories, table.path
        if self._counted is not None:
            listed_ids = list_counted_ids(categories, self._counted)
            # `list` makes an empty list: there are no other readings
            table.categories = self._choose_meaning(table, "category_id", listed_ids, list)
            if self._counted != "80":
                note_positions(table.categories, categories, path, self._log)
            return
        table.categories = self._choose_meaning(
            table, "category_id", categories.source_id, lambda: list_category_readings(reference)
        )
        column = table.id_column("category_id")
        has_zero = column is not None and 0 in column
        note_categories(table.categories, reference, path, self._log, has_zero=has_zero)
        rows = table.rows.get("category_id")
        if rows is None or rows.min() < 0:  # some are no ids of the ground truth
            table.hint = suggest_positions(column, categories)
            # without a hint, `_add_unlisted` adds unknown classes
            adds_classes = "category_id" in self._builder.unlisted
            if adds_classes and not table.hint and has_zero and 0 not in table.categories:
                table.hint = " (ids from 0 look like positions: -O ids=80 or -O ids=positions)"

    def _add_unlisted(self, table: Table) -> None:
        """Add the images and classes that only the results have, where the builder accepts such.

        Ids of classes that look like positions are left to be reported: one could mean another class.
        """
        for key, row_of_id, add in (
            ("image_id", table.images, self._builder.image),
            ("category_id", table.categories, self._builder.category),
        ):
            if key not in self._builder.unlisted or (key == "category_id" and table.hint):
                continue
            ids = table.id_column(key)
            unique_ids = dict.fromkeys(as_list(ids))
            new_ids = [i for i in unique_ids if i not in row_of_id and to_other_type(i) not in row_of_id]
            row_of_id |= {i: add(f"{key} {i}", source_id=i) for i in new_ids}
            if ids is not None and key in table.rows:
                table.rows[key] = look_up(ids, row_of_id)

    def _choose_meaning(
        self,
        table: Table,
        key: str,
        reference_ids: NDArray[Any],
        other_readings: Callable[[], list[tuple[str, dict[Id, int]]]],
    ) -> dict[Id, int]:
        """Return the row of each id of a key, under the reading by which most of them have one.

        If the ids are those of the ground truth, the rows of all boxes are set in `table.rows` as well.
        """
        column = table.id_column(key)
        assert column is not None
        row_of_id, rows = choose_reading(column, reference_ids, other_readings, key, table.path, self._log)
        if rows is not None:
            table.rows[key] = rows
        return row_of_id

    def _add_reference(self, reference: Dataset) -> None:
        """Add the videos, images, classes and keypoint names of the ground truth, once."""
        if self._reference_added:
            return
        self._reference_added = True
        images, categories = reference.images, reference.categories
        # The video of each image, by its row in this builder.
        video: list[int] | None = None
        if images.video is not None:
            videos = reference.videos
            video_values = zip(videos.name, videos.length.tolist(), videos.source_id.tolist(), strict=True)
            video_rows = [self._builder.video(name, length=n, source_id=id_) for name, n, id_ in video_values]
            video = [video_rows[row] if row >= 0 else -1 for row in images.video.tolist()]
        self._builder.add_images(
            images.name,
            width=images.width,
            height=images.height,
            source_id=images.source_id.tolist(),
            path=images.path,
            split=images.split,
            line=[0] * len(images),  # they stand in no file of this source
            video=video,
            frame=images.frame,
        )
        self._builder.named = categories.named
        for name, id_, parent in zip(
            categories.name, categories.source_id.tolist(), categories.parent.tolist(), strict=True
        ):
            self._builder.category(name, source_id=id_, parent=parent)
        for row, names in enumerate(categories.keypoints or ()):
            if names:
                lines = categories.skeleton[row] if categories.skeleton else ()
                self._builder.describe_points(row, names, lines)
