"""Parquet: a row per box, or a row per image with lists of objects, in a file or in a folder of them.

Reading and writing need pyarrow, the extra ``[parquet]`` (``pip install pyarrow``). The files of a
folder are read in the order of their names. A place is a row, counted from 1 over the whole file.

**A row per box** is read and written. The columns are those of `csv`, in any order and under the same
usual names::

    image, width, height, class, score, left, top, right, bottom,
    difficult, truncated, occluded, crowd, group_of, depiction, inside

or ``left, top, box_width, box_height``; where edges and sizes are both there, each is taken as it stands.
A column ``bbox`` of lists of four numbers needs ``--box``. Coordinates are pixels. Beside them ``area``,
``id`` (of the box), ``image_id`` and ``split`` (of the image). Images and classes are text, plain or in
dictionaries, or whole numbers. A row whose coordinates, class and score are all null names an image without
objects, and so does one without a box whose class is ``No finding``, ``background`` or ``none``; any other
null among them is an error. float32 is widened to the float64 of the same value. Boxes with a score are
detections. ``-O columns=left:x0,...`` names columns that have other names. Tracks and videos are neither
read nor written.

Classes are in the order of the schema's metadata (key ``odm``, JSON: ``{"classes": [{"name": "cat",
"id": 1}]}``), else in order of first appearance; the order inside a dictionary means nothing.

**A row per image** is read: ``objects`` as a struct of lists or a list of structs, as `datasets` of Hugging
Face writes both, with ``bbox``, ``category`` and optionally ``score``, ``area``, ``id`` or ``bbox_id``, and
``iscrowd``; or the lists ``boxes``, ``labels``, ``scores`` as torchvision has them. Images are named by
``file_name`` (and the like), the path inside ``image``, or ``image_id``; their sizes are ``width`` and
``height``. Names of classes are those of the ClassLabel in the metadata. Nothing says whether a ``bbox`` is
corners or sizes: the only reading that fits all images is taken, else ``--box ltrb`` or ``--box ltwh`` says
it. The bytes of pictures are never read.

Files are read one row group after the other, and every page's checksum is verified where the file has them.
They are written with checksums, in row groups of 1048576 rows. Without checksums a damaged page may go
unnoticed, as in any program. A file with more rows than bytes, and more than four million, is
refused: a few bytes can stand for any number of equal rows. So is a file with a row group that would fill
more than 128 MiB and more than 16 times the size of the file, and a name of more than 1 MiB.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._contract import SURE, Part, Sniff, format_of, option
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.tables.column_roles import BOX_ROLES, DUPLICATE_COLUMN, FLAGS, parse_columns
from odm.formats.parquet.arrow import (
    MAGIC,
    METADATA_KEY,
    SUFFIXES,
    decode_metadata,
    open_file,
    pyarrow,
    reporting,
)
from odm.formats.parquet.collect import Collect
from odm.formats.parquet.flat import FlatLayout, FlatRows
from odm.formats.parquet.nested import NestedLayout, NestedRows, add_nested, find_class_labels, find_nested
from odm.issues import Log, shorten
from odm.tables import NO_ID, Builder, Categories, Dataset

ROWS_OF_GROUP = 2**20
"""Rows of a row group that is written: what is read at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ParquetOptions(ImageOptions):
    """How a Parquet file is read."""

    columns: dict[str, str] | None = option(  # noqa: RUF009 -- as all options; the type only looks mutable
        None,
        "column names by role: image:frame,left:x0,...",
        side="read",
        parse=functools.partial(parse_columns, roles=BOX_ROLES),
    )
    box: str | None = option(
        None, "what the four numbers are", flag="--box", choices=("ltrb", "ltwh", "cxcywh"), side="read"
    )
    groups: tuple[int, int] | None = None
    """The row groups to read, first and last + 1; all without it."""


def sniff(source: Source) -> Sniff | None:
    """Recognise files that begin as Parquet does."""
    files = source.with_suffix(*SUFFIXES) if source.is_dir else source.files
    parquet_files = [file for file in files[:50] if source.head(file)[:4] == MAGIC]
    if not parquet_files:
        return None
    subject = f"{len(files)} files end in .parquet and" if source.is_dir else "it"
    return Sniff(SURE, f"{subject} begin{'' if source.is_dir else 's'} with {MAGIC.decode()}")


def read(source: Source, builder: Builder, log: Log, options: ParquetOptions) -> None:
    """Read a file, or every Parquet file of a folder, by row group."""
    files = source.with_suffix(*SUFFIXES) if source.is_dir else source.files
    if not files:
        log.report(NO_FILES, source.path, expected="files that end in .parquet", n=len(source.files))
    collect = Collect(source, builder, log, options)
    for file in log.track(files, "reading Parquet") if len(files) > 1 else files:
        opened = open_file(source, file, log)
        if opened is not None:
            with opened, reporting(source.full(file), log):
                _read_file(opened, source.full(file), collect, log, options)
    add_nested(collect, options.box)
    collect.finish()


def _read_file(opened: Any, path: str, collect: Collect, log: Log, options: ParquetOptions) -> None:
    """Find the layout of an open file, count unread columns, and read its row groups into `collect`.

    Nothing is read, after issues, if columns have the same name, or are missing or ambiguous.
    """
    schema, metadata = opened.schema_arrow, decode_metadata(opened.schema_arrow)
    first_column: dict[str, int] = {}
    for i, column in enumerate(schema.names, 1):
        if (first := first_column.setdefault(column, i)) != i:
            log.report(DUPLICATE_COLUMN, path, field=shorten(column), value=column, first=first, second=i)
    if len(first_column) < len(schema.names):
        return

    # The classes and the kind that the metadata state.
    odm_metadata = metadata.get(METADATA_KEY.decode(), {})
    if isinstance(odm_metadata.get("classes"), list):
        collect.declare_classes(odm_metadata["classes"])
    labels = find_class_labels(metadata.get("huggingface"))  # which `datasets` writes
    if labels is not None:
        collect.declare_classes(labels)
    collect.kind = collect.kind or odm_metadata.get("kind")

    # The layout: lists per image if the columns fit and the user names none, else a row per box.
    nested_layout = None if options.columns else find_nested(schema)
    layout = nested_layout or FlatLayout(schema, options.columns or {}, options.box)
    rows: FlatRows | NestedRows
    if isinstance(layout, NestedLayout):
        rows = NestedRows(path, layout, collect, log)
    else:
        for code, field, values in layout.faults:  # such as a column that is missing
            log.report(code, path, field=field, **values)
        if layout.faults:
            return
        rows = FlatRows(path, layout, collect, log)

    # The row groups from `start` to `stop`; sizes[k] is the number of rows of group k.
    n_groups = opened.metadata.num_row_groups
    start, stop = options.groups or (0, n_groups)
    sizes = [opened.metadata.row_group(k).num_rows for k in range(n_groups)]
    first_row = 1 + sum(sizes[:start])
    n_rows, extras = sum(sizes[start:stop]), collect.builder.extras
    for name in schema.names:
        if n_rows and name not in layout.used_columns:
            extras[name] += n_rows
    groups = range(start, min(stop, n_groups))
    for group in log.track(groups, "reading Parquet") if len(groups) > 1 else groups:
        rows.take(opened.read_row_group(group, columns=layout.names), first_row)
        first_row += sizes[group]


def parts(source: Source, options: ParquetOptions, rows: int, log: Log) -> list[Part]:
    """Divide a source into runs of row groups with up to `rows` rows each, or one group that has more."""
    parts_of_source: list[Part] = []
    log = log.fresh()  # dropped: what is wrong with a file is reported when it is read
    for file in source.with_suffix(*SUFFIXES) if source.is_dir else source.files:
        opened = open_file(source, file, log)
        if opened is None:
            parts_of_source.append(Part(file, 0, options))
            continue
        with opened:
            sizes = [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]
        # Groups of 3 2 4 rows with rows=5 make the parts (0, 2) and (2, 3).
        start = n_rows = 0
        for k, size in enumerate(sizes):
            if n_rows and n_rows + size > rows:
                parts_of_source.append(Part(file, n_rows, dataclasses.replace(options, groups=(start, k))))
                start, n_rows = k, 0
            n_rows += size
        groups = None if start == 0 else (start, len(sizes))  # None for the whole file
        parts_of_source.append(Part(file, n_rows, dataclasses.replace(options, groups=groups)))
    return parts_of_source


def _make_table(dataset: Dataset) -> Any:
    """Build the Arrow table to write: a row per box, image by image, and a row per image without boxes."""
    pa = pyarrow()
    # Boxes on images 2 0 2 of three: the rows are images 0 1 2 2, and box_of_row is 1 -1 0 2.
    images, boxes, categories = dataset.images, dataset.boxes, dataset.categories
    empty_images = np.setdiff1d(np.arange(len(images)), boxes.image)
    image = np.concatenate([boxes.image.astype(np.int64), empty_images])
    order = np.argsort(image, kind="stable")
    image = image[order]
    box_of_row = np.concatenate([np.arange(len(boxes)), np.full(len(empty_images), -1)])[order]
    is_boxless = box_of_row < 0

    def make_box_column(values: NDArray[Any], is_unknown: NDArray[np.bool_] | None = None) -> Any:
        """Return the Arrow column of (n,) values of the boxes, null for rows without a known value."""
        if not len(values):
            return pa.array(np.zeros(len(box_of_row), values.dtype), mask=is_boxless)
        is_null = is_boxless if is_unknown is None else is_boxless | is_unknown[box_of_row]
        return pa.array(values[box_of_row], mask=is_null)

    def make_name_column(codes: NDArray[Any], names: Any, is_missing: NDArray[np.bool_] | None = None) -> Any:
        """Return the Arrow column of names[code] for each row, stored as a dictionary."""
        return pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int32), mask=is_missing), pa.array(list(names), pa.string())
        )

    # The columns of images, as far as they have values: `image` is the image of each row.
    columns = {"image": make_name_column(image, images.name)}
    has_size = (images.width > 0) & (images.height > 0)
    if has_size.any():
        for name, side in (("width", images.width), ("height", images.height)):
            columns[name] = pa.array(side[image], mask=~has_size[image])
    if any(id_ != NO_ID for id_ in images.source_id.tolist()):
        columns["image_id"] = _make_ids(images.source_id.tolist()).take(pa.array(image))
    if any(images.split):
        columns["split"] = pa.array([s or None for s in images.split], pa.string()).take(pa.array(image))

    # The columns of boxes, null in the rows of images without boxes.
    category = boxes.category[box_of_row] if len(boxes) else np.zeros(len(box_of_row), np.int32)
    columns["class"] = make_name_column(category, categories.name, is_boxless)
    if dataset.kind == "det":
        columns["score"] = make_box_column(boxes.score, np.isnan(boxes.score))
    columns |= {name: make_box_column(values) for name, values in _choose_coordinates(dataset).items()}
    for name, flag in FLAGS.items():
        is_marked = boxes.has(flag)
        if is_marked.any():
            columns[name] = make_box_column(is_marked)
    if not np.isnan(boxes.area).all():
        columns["area"] = make_box_column(boxes.area, np.isnan(boxes.area))
    if (boxes.source_id != NO_ID).any():
        columns["id"] = make_box_column(boxes.source_id, boxes.source_id == NO_ID)

    metadata = {"version": 1, "kind": dataset.kind, "classes": _describe_classes(dataset.categories)}
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(metadata).encode()})


def _make_ids(ids: list[Any]) -> Any:
    """Return ids as an Arrow array, null for `NO_ID`: int64, or strings if any is text or does not fit."""
    pa = pyarrow()
    are_numbers = all((isinstance(id_, int) and abs(id_) < 2**63) or id_ == NO_ID for id_ in ids)
    if are_numbers:
        return pa.array([None if id_ == NO_ID else id_ for id_ in ids], pa.int64())
    return pa.array([None if id_ == NO_ID else str(id_) for id_ in ids], pa.string())


def _describe_classes(categories: Categories) -> list[dict[str, Any]]:
    """Return the classes in their order, each with its name, and its id and frequency where it has them."""
    ids, frequencies = categories.source_id.tolist(), categories.frequency
    return [
        {"name": name}
        | ({} if id_ == NO_ID else {"id": id_})
        | ({"frequency": frequency} if frequency else {})
        for name, id_, frequency in zip(categories.name, ids, frequencies, strict=True)
    ]


def _choose_coordinates(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Return columns from which the same edges and sizes are read: edges, or corner and size, or both."""
    xyxy, wh = dataset.boxes.xyxy, dataset.boxes.wh
    left_top, right_bottom = xyxy[:, :2], xyxy[:, 2:]
    edges = dict(zip(("left", "top", "right", "bottom"), xyxy.T, strict=True))
    sizes = {"box_width": wh[:, 0], "box_height": wh[:, 1]}
    with np.errstate(all="ignore"):
        if (right_bottom - left_top == wh).all():
            return edges
        if (left_top + wh == right_bottom).all():
            return {"left": left_top[:, 0], "top": left_top[:, 1], **sizes}
    return edges | sizes


def write(dataset: Dataset, target: Output, log: Log, _: ParquetOptions) -> None:
    """Write one file."""
    name = "" if target.single else ("detections.parquet" if dataset.kind == "det" else "annotations.parquet")
    if name and not target.plan([name], ["the boxes"], log):
        return
    pa, table, sink = pyarrow(), _make_table(dataset), pyarrow().BufferOutputStream()
    name_columns = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    settings = {"row_group_size": ROWS_OF_GROUP, "compression": "zstd", "write_page_checksum": True}
    pa.parquet.write_table(table, sink, use_dictionary=name_columns, **settings)
    target.write(name, memoryview(sink.getvalue()))


FORMAT = format_of(
    __name__,
    title="Parquet: a row per box, or per image with lists of objects",
    expects=("PAR1",),
    use="training",
    written_by="odm, datasets of Hugging Face (objects), lists as torchvision has them",
    suffixes=SUFFIXES,
    begins=MAGIC.decode()[0],
    single=True,
    owns_suffix=True,
    parts_overhead=110 * 10**6,
    keeps=frozenset(
        "size extension empty unused order score area wh image_id category_id box_id frequency split".split()
    )
    | FLAGS.keys(),
)
