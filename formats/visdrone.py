"""VisDrone object detection in images: one ``.txt`` file per image, one object per line.

::

    bbox_left,bbox_top,bbox_width,bbox_height,score,object_category,truncation,occlusion

Syntax: the VisDrone DET annotations and results (https://github.com/VisDrone/VisDrone2018-DET-toolkit,
http://aiskyeye.com). Values are separated by commas, and a trailing comma is accepted; coordinates are
pixels, unchanged.

Reading
-------
- A folder of files, flat or with ``annotations/`` beside ``images/``, or one file. The file name without
  ``.txt`` is the image name; an empty file is an image without objects.
- Ground truth has a ``score`` of 1, or 0 if evaluations ignore the object: it is read as a crowd box. The
  *ignored regions* (category 0) are read as regions to ignore, which concern all classes.
- Results have a confidence in 0..1, and -1 for truncation and occlusion. The majority of the rows decides
  between the two, or ``--kind``.
- ``truncation`` 1 and ``occlusion`` 1 (partly) or 2 (heavily) are read as the flags of these names; the
  degree is not kept.
- Categories: 0 ignored regions, 1 pedestrian, 2 people, 3 bicycle, 4 car, 5 van, 6 truck, 7 tricycle, 8
  awning-tricycle, 9 bus, 10 motor, 11 others. ``--classes FILE`` or a ``classes.txt`` in the folder gives
  another list, one name per line from category 1; 0 keeps its meaning.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
Official categories keep their numbers. If there is any other class, all classes are numbered from 1
and listed in ``classes.txt``. Regions to ignore have category 0, whatever their class.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from odm.codes import SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of
from odm.formats._shared.class_lists import class_list_option, read_class_list
from odm.formats._shared.codes import BAD_FLAG, SCORE_RANGE, UNKNOWN_CLASS
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag, region_classes

FIELDS = (
    *("bbox_left", "bbox_top", "bbox_width", "bbox_height"),
    *("score", "object_category", "truncation", "occlusion"),
)
IGNORED = "ignored regions"
CLASSES = (
    *(IGNORED, "pedestrian", "people", "bicycle", "car", "van", "truck"),
    *("tricycle", "awning-tricycle", "bus", "motor", "others"),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VisdroneOptions(ImageOptions):
    """Options of VisDrone."""

    classes: str | None = class_list_option(
        "file with the category names from 1, one per line, or a data.yaml"
    )


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of eight numbers between commas, the sixth of which is whole."""
    if not label_rows.are_text(source):
        return None
    n_rows = n_fitting = 0
    for cells in label_rows.sample_rows(source, label_rows.find_label_files(source, GRAMMAR), b","):
        n_rows += 1
        if len(cells) in (8, 9) and all(map(NUMBER.fullmatch, cells[:8])) and not any(cells[8:]):
            score, category, truncation, occlusion = map(float, cells[4:8])
            n_fitting += (
                0 <= score <= 1
                and category >= 0
                and category.is_integer()
                and {truncation, occlusion} <= {-1, 0, 1, 2}
            )
    return label_rows.sniff_lines(n_fitting, n_rows, "the eight numbers of VisDrone, separated by commas")


def _find_row_shape(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
    """The columns of a row of `n_cells`: 8 numbers, and perhaps an empty cell after a comma at the end.

    `kind` tells the kind of a cell by its position, "" if it is empty.
    """
    return label_rows.Shape(range(8)) if n_cells == 8 or (n_cells == 9 and not kind(8)) else None


GRAMMAR = label_rows.Grammar(
    _find_row_shape,
    FIELDS,
    "8 numbers separated by commas",
    sep=",",
    folders=re.compile("annotations", re.IGNORECASE),
)


def read(source: Source, builder: Builder, log: Log, options: VisdroneOptions) -> None:
    """Read a folder of label files, or one."""
    files = label_rows.find_label_files(source, GRAMMAR)
    label_rows.report_files(source, files, log)
    labels = label_rows.read_labels(label_rows.gather_labels(source, builder, log, options), files, GRAMMAR)
    # Detections have a confidence, ground truth a mark and two levels, which become flags.
    score, category, truncation, occlusion = labels.values[:, 4:].T
    # Results have no levels, which is -1, and scores that are not 0 or 1.
    has_confidence = ((truncation == -1) & (occlusion == -1)) | ((score > 0) & (score < 1))
    flags = np.zeros(len(labels), np.uint16)
    if decide_kind(builder, int(has_confidence.sum()), len(labels)):
        is_valid = (score >= 0) & (score <= 1)
        labels.report(SCORE_RANGE, ~is_valid, position=4, field="score", expected="a confidence in 0..1")
    else:
        is_valid = (score == 0) | (score == 1)
        labels.report(SCORE_UNEXPECTED, ~is_valid, position=4, field="score", expected="1, or 0 if ignored")
        has_known_levels = is_valid
        for column, expected in ((6, (-1, 0, 1)), (7, (-1, 0, 1, 2))):  # truncation, occlusion
            has_unknown_level = is_valid & ~np.isin(labels.values[:, column], expected)
            levels = " or ".join(map(str, expected))
            labels.report(BAD_FLAG, has_unknown_level, column, field=FIELDS[column], expected=levels)
            has_known_levels = has_known_levels & ~has_unknown_level
        is_valid = has_known_levels
        flags |= np.where(category == 0, Flag.REGION, (score == 0) * Flag.CROWD).astype(np.uint16)
        flags |= (truncation > 0) * np.uint16(Flag.TRUNCATED)
        flags |= (occlusion > 0) * np.uint16(Flag.OCCLUDED)
        labels.count("degrees of occlusion", is_valid & (occlusion == 2))
    # names[k] is class k, and class 0 a region: the official classes, or those of a list; None if it is bad.
    names, list_path = read_class_list(options.classes, source, "classes.txt", log)
    is_listed = bool(list_path)
    if not is_listed:
        names, list_path = list(CLASSES), "VisDrone"
    elif names is not None:
        names = [IGNORED, *names]
    # A given list (`in_order`) adds all its classes, the official one those that boxes have.
    rows, has_known_class = labels.find_numbered(category, is_valid, names, in_order=is_listed)
    if names is not None:
        is_unknown = is_valid & ~has_known_class
        labels.report(UNKNOWN_CLASS, is_unknown, position=5, field=FIELDS[5], n=len(names), where=list_path)
    xyxy, wh = label_rows.convert_ltwh(labels.values)
    labels.add(is_valid & has_known_class, rows, xyxy, score=score, wh=wh, flags=flags)


def write(dataset: Dataset, target: Output, log: Log, _: VisdroneOptions) -> None:
    """Write one file per image, and the list of classes where it is not the official one."""
    boxes, is_region = dataset.boxes, dataset.boxes.has(Flag.REGION)
    names_and_regions = zip(dataset.categories.name, region_classes(dataset).tolist(), strict=True)
    classes = [IGNORED if only_regions else name for name, only_regions in names_and_regions]
    is_official = set(classes) <= set(CLASSES)
    listed_classes = [] if is_official else [name for name in classes if name != IGNORED]
    if not label_rows.plan_files(dataset, target, log, listed=listed_classes):
        return
    # The number of each class: its official one, 0 for regions, or its position in the list from 1.
    ids = [CLASSES.index(n) if is_official or n == IGNORED else listed_classes.index(n) + 1 for n in classes]
    is_detections = dataset.kind == "det"
    texts = to_decimals(np.concatenate([boxes.xyxy[:, :2], boxes.short_wh()], axis=1).ravel())
    ignored = boxes.has(Flag.CROWD | Flag.REGION).tolist()
    has_flag = [boxes.has(flag).tolist() for flag in (Flag.TRUNCATED, Flag.OCCLUDED)]
    levels = [["1" if is_set else "0" for is_set in column] for column in has_flag]
    columns = [
        *(texts[i::4] for i in range(4)),  # left, top, width and height of all boxes
        to_decimals(boxes.score) if is_detections else ["0" if i else "1" for i in ignored],
        ["0" if r else str(ids[c]) for r, c in zip(is_region.tolist(), boxes.category.tolist(), strict=True)],
        *([["-1"] * len(boxes)] * 2 if is_detections else levels),  # truncation and occlusion
    ]
    label_rows.write_files(dataset, target, log, columns, ",", listed=listed_classes)


FORMAT = format_of(
    __name__,
    title="VisDrone detection annotations and results",
    expects=("left top width height score class truncation occlusion",),
    use="challenges",
    written_by="VisDrone-DET (annotations and results)",
    suffixes=(".txt",),
    keeps=frozenset("empty score wh crowd region truncated occluded".split()),
    exclusive_region=True,
)
