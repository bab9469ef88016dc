"""AutoML and Vertex AI CSV: one row per box, relative to the image size, without a header.

::

    TRAINING,gs://bucket/street.jpg,person,0.1,0.1,,,0.3,0.3,,
    UNASSIGNED,gs://bucket/yard.png,car,0.1,0.1,0.2,0.1,0.2,0.3,0.1,0.3
    TEST,gs://bucket/empty.jpg,,,,,,,,,

Syntax: https://cloud.google.com/vision/automl/object-detection/docs/csv-format. A row has the set, the path
of the image, the label, and four corners ``x_min,y_min,x_max,y_min,x_max,y_max,x_min,y_max`` in 0..1; two
opposite corners are enough. Coordinates are multiplied by the image size and not changed otherwise.

Reading
-------
- A file, or every CSV file of a folder. The set may be omitted, also if another row gives it for the same
  image; trailing commas may be missing.
- ``gs://`` and the bucket are removed from the path; the rest is the image name.
- The box is the axis-aligned box around the given corners, in any order. A row without label and corners is
  an image without objects.
- The sets TRAINING (or TRAIN), VALIDATION and TEST are the splits train, val and test, in any letter case.
  ``--split`` selects one of them.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, the pictures in the folder, or
  the other side of an evaluation; if no image has one, coordinates stay fractions, as those of ``yolo``.
- A twelfth cell is a score; Google's own format has none.

Writing
-------
Two opposite corners; ``-O prefix=gs://bucket/folder`` is put before the image names. Other splits are
written as UNASSIGNED, with a note. Numbers have up to thirteen decimals, without trailing zeros.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.codes import DUPLICATE_IMAGE, WRONG_COUNT
from odm.formats._shared.shapes.fractions import divide_by_images
from odm.formats._shared.split_names import SplitOptions, report_missing_split
from odm.formats._shared.tables.csv_files import (
    Quote,
    Rows,
    format_box_lines,
    is_number,
    iter_cells,
    read_head_rows,
    read_tables,
)
from odm.formats._shared.tables.rows import Columns, TableReader
from odm.formats._shared.text.numbers import to_decimals, to_fixed
from odm.formats._shared.text.tokens import count_decimals
from odm.issues import Code, Log
from odm.tables import Builder, Dataset, Floats

BAD_SET = Code(
    "automl-set",
    "error",
    "expected TRAINING, VALIDATION, TEST or UNASSIGNED, found {value!r}",
    "write one of these sets",
    "The first cell of a row is the set that the image belongs to.",
    row=True,
)
SET_CONFLICT = Code(
    "automl-set-conflict",
    "error",
    "image {value!r} is in {found} here but in {other} in an earlier row",
    "use the same set in all rows of the image",
    "An image in two sets would be used both in training and in testing.",
)
SPLITS = {
    "": "", "UNASSIGNED": "", "TRAIN": "train", "TRAINING": "train", "VALIDATION": "val", "VALIDATE": "val",
    "TEST": "test",
}  # fmt: skip
_WRITTEN = {"": "UNASSIGNED", "train": "TRAINING", "val": "VALIDATION", "test": "TEST"}
FIELDS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutomlOptions(SplitOptions):
    """Options of AutoML CSV."""

    prefix: str = option("", "prefix of the image names, as in gs://bucket/folder", side="write")


def sniff(source: Source) -> Sniff | None:
    """Recognise CSV files of which two thirds of the rows have a set, path, label and corners in -1..2."""
    n_rows = n_fitting = 0
    for file in source.with_suffix(".csv")[:20]:
        for cells in read_head_rows(source, file):
            n_rows += 1
            if len(cells) not in (10, 11, 12) and not (len(cells) > 1 and cells[1].startswith("gs://")):
                continue
            # TRAIN,gs://b/a.jpg,cat,0.1,0.2,,,0.3,0.4,, and perhaps a score; the set may be missing.
            row = cells if cells[0].strip().upper() in SPLITS else ["", *cells]
            corners = [cell.strip() for cell in row[3:11]]
            # A box may reach out of the image, here by its whole width or height.
            is_relative = all(not c or (is_number(c) and -1 <= float(c) <= 2) for c in corners)
            n_corners = sum(map(bool, corners)) / 2  # two, or four; none in a row of an empty image
            n_fitting += is_relative and bool(cells[0].strip()) and n_corners in (0, 2, 4)
    if not n_rows or 3 * n_fitting < 2 * n_rows:
        return None
    rows = f"{n_fitting} of {n_rows} rows"
    return Sniff(SURE, f"{rows} have a set, a path, a label and corners in 0..1, as in AutoML")


def _find_edges(corners: Floats) -> Floats:
    """The (n, 4) edges of the box around the corners of each row: (n, 8) x1, y1, ..., y4, NaN if not given.

    The edges are NaN where a row has fewer than two corners, or half of one.
    """
    points = corners.reshape(-1, 4, 2)
    is_filled = ~np.isnan(points)  # (n, 4, 2)
    is_usable = (is_filled[:, :, 0] == is_filled[:, :, 1]).all(axis=1) & (is_filled[:, :, 0].sum(axis=1) >= 2)
    low, high = np.fmin.reduce(points, axis=1), np.fmax.reduce(points, axis=1)
    edges = np.concatenate([low, high], axis=1)
    edges[~is_usable] = np.nan
    return edges


LAYOUT = Columns(
    columns=("set", "image", "class", *FIELDS, "score"),
    roles={"split": 0, "image": 1, "class": 2, "score": 11},
    coords="rel",
    has_ids=True,
    corners=tuple(range(3, 11)),
    edges=_find_edges,
    lenient=True,
)


def read(source: Source, builder: Builder, log: Log, options: AutomlOptions) -> None:
    """Read a file, or every CSV file of a folder.

    A first pass collects the split of each image, because only one of its rows need name it. Rows of other
    splits than `options.split` are left out; faulty rows are reported and skipped.
    """
    table = TableReader(source, builder, log, options)
    files = list(read_tables(source, builder, log, options))
    split_of_image: dict[str, str] = {}
    for _, rows in files:
        for _, cells in rows:
            split, path, _ = _parse_row(cells)
            if split:
                split_of_image.setdefault(_drop_bucket(path), split)
    wanted_split = None if options.split is None else SPLITS.get(options.split.upper(), options.split)
    # "" is always a split, that of images which no row assigns to another.
    if report_missing_split(wanted_split, (*split_of_image.values(), ""), source, log):
        return
    path_of: dict[str, str] = {}  # by image name, to find names with two paths
    for file, rows in files:
        kept_rows: Rows = []
        for line, cells in rows:
            split, path, row = _parse_row(cells)
            name, path, n_cells = _drop_bucket(path), path.strip(" \t"), len(row)
            image_split = split_of_image.get(name, "")
            if split is not None and wanted_split not in (None, image_split):
                continue
            # A good row is kept, any other reported and skipped.
            if split is None:
                log.report(BAD_SET, file, line=line, field="set", value=cells[0])
            elif n_cells > 12 or n_cells < 2 or 3 < n_cells < 9:
                # 2 or 3 cells are an image without boxes; 9 end after the third of four corners.
                expected, shown = "a set, a path, a label and 8 cells of corners", f"{n_cells} cells"
                log.report(WRONG_COUNT, file, line=line, expected=expected, found=shown)
            elif path_of.setdefault(name, path) != path:
                log.report(DUPLICATE_IMAGE, file, line=line, field="path", value=name, first=path_of[name])
            elif split and split != image_split:
                shown, other = _WRITTEN[split], _WRITTEN[image_split]
                log.report(SET_CONFLICT, file, line=line, field="set", value=name, found=shown, other=other)
            else:
                # 12 cells: set, path, label, 8 of corners and a score.
                kept_rows.append((line, [image_split, name, *row[2:], *[""] * (12 - n_cells)]))
                continue
            builder.skipped += 1
        table.add(file, LAYOUT, kept_rows)
    table.finish()


def _parse_row(cells: list[str]) -> tuple[str | None, str, list[str]]:
    """The split of a row, its path, and its cells from the set on, which may be missing from the file.

    The split is None if the first cell is neither a set nor a path.
    """
    split = SPLITS.get(cells[0].strip().upper())
    if split is None and ("/" in cells[0] or "." in cells[0]):
        split, cells = "", ["", *cells]  # a path, without the set before
    return split, cells[1] if len(cells) > 1 else "", cells


def _drop_bucket(path: str) -> str:
    """The image name: ``folder/a.jpg`` for ``gs://bucket/folder/a.jpg``, any other path unchanged."""
    text = path.strip(" \t")
    return text.partition("://")[2].partition("/")[2] if text.startswith("gs://") else path


def write(dataset: Dataset, target: Output, log: Log, options: AutomlOptions) -> None:
    """Write a row for each box, with its corners relative to the image size, and for each empty image."""
    name = "" if target.single else "import.csv"
    boxes, images = dataset.boxes, dataset.images
    edges = divide_by_images(dataset, boxes.xyxy, log)
    if (name and not target.plan([name], ["the boxes"], log)) or edges is None:
        return
    if other_splits := sorted({split for split in images.split if split not in _WRITTEN}):
        log.note(f"images of the splits {', '.join(other_splits)} are written as UNASSIGNED")
    quote = Quote(",")
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    set_words = [_WRITTEN.get(split, "UNASSIGNED") for split in images.split]
    row_starts = [f"{word},{quote(prefix + text)}" for word, text in zip(set_words, images.name, strict=True)]
    classes = [quote(text) for text in dataset.categories.name]
    # `count_decimals` is for centres and sizes; an edge, centre - size / 2, needs more to be exact.
    places = count_decimals(int(images.width.max(initial=0)), int(images.height.max(initial=0))) + 3
    texts = to_fixed(edges.ravel(), max(13, places))
    no_cells = [""] * len(boxes)  # the second and fourth corner are left out, as in left,top,,,right,bottom,,
    columns = [
        iter_cells(row_starts, boxes.image),
        iter_cells(classes, boxes.category),
        *(texts[0::4], texts[1::4], no_cells, no_cells, texts[2::4], texts[3::4], no_cells, no_cells),
        *([to_decimals(boxes.score)] if dataset.kind == "det" else []),
    ]
    empty_rows = [start + "," * 9 for start in row_starts]  # no label, and 8 empty cells of corners
    lines = format_box_lines(dataset, ",", columns, empty_rows)
    target.write(name, "".join(f"{line}\n" for line in lines).encode())


FORMAT = format_of(
    __name__,
    title="AutoML and Vertex AI CSV",
    use="annotation tools",
    written_by="Google AutoML Vision and Vertex AI (two or four corners, with and without the set)",
    suffixes=(".csv",),
    single=True,
    keeps=frozenset("extension empty score split".split()),
    split_names=frozenset(filter(None, SPLITS.values())),
    max_error_px=1e-6,
    needs_size=True,
)
