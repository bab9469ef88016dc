"""The words that arguments take, and the options of formats, for editors and type checkers.

Written by ``python docs/generate.py``.
"""
# fmt: off

from __future__ import annotations

import os
from typing import Any, Literal

from odm.verbs.options import Options

Path = str | os.PathLike[str]

ProtocolName = Literal[
    "voc2012", "voc2007", "coco", "lvis", "tf-voc", "tf-weighted", "openimages", "openimages-challenge",
    "corloc", "imagenet-loc", "imagenet-det", "ultralytics", "yolov5", "citypersons", "tinyperson", "aitod",
    "dota-hbb", "soda-d", "caltech", "crowdhuman", "kitti", "visdrone", "widerface", "xview", "dota", "stt",
    "tube"
]
"""A name of a protocol."""


BoxProtocolName = Literal[
    "voc2012", "voc2007", "coco", "lvis", "tf-voc", "tf-weighted", "openimages", "openimages-challenge",
    "corloc", "imagenet-loc", "imagenet-det", "ultralytics", "yolov5", "citypersons", "tinyperson", "aitod",
    "dota-hbb", "soda-d", "caltech", "crowdhuman", "kitti", "visdrone", "widerface", "xview", "dota"
]
"""A name of a protocol that does not measure tracks."""


Analysis = Literal[
    "tide", "lrp", "calibration", "images", "slices"
]
"""A name of an analysis."""


FormatName = Literal[
    "automl", "azure", "bbgt", "bboxlabeltool", "bdd100k", "coco", "createml", "crowdhuman", "csv", "cvat",
    "darknet", "darwin", "datumaro", "dlib", "dota", "encord", "fiftyone", "icdar", "imagefolder", "kili",
    "kitti", "labelbox", "labelme", "labelmexml", "labelstudio", "lvis", "megadetector", "mmdet", "mot",
    "odvg", "opencv", "paddleocr", "paligemma", "parquet", "roboflow", "sa1b", "sagemaker", "superannotate",
    "supervisely", "tfrecord", "txt", "ultralytics", "vertexai", "via", "visdrone", "voc", "vott", "wheat",
    "widerface", "xview", "yolo", "yolokeras"
]
"""A name of a format; other packages may add some."""


class ReadFormatOptions(Options, sides=[]):
    """Options of formats, also for one side only."""

    attribute: Any | None = None
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    boxes: Literal["given", "shapes"] | None = None
    category: Any | None = None
    classes: Path | None = None
    columns: Any | None = None
    conf_column: Literal["last", "second"] | None = None
    coords: Literal["abs", "rel"] | None = None
    decimal: Literal["comma", "point"] | None = None
    excel_safe: bool | None = None
    field: Any | None = None
    first_class: Literal["0", "1"] | None = None
    first_frame: Literal["0", "1"] | None = None
    fps: Any | None = None
    groups: Literal["ignore", "objects"] | None = None
    ids: Literal["80", "positions", "positions-from-1"] | None = None
    image_size: Any | None = None
    image_sizes: Path | None = None
    images: Path | None = None
    job: Any | None = None
    label_map: Path | None = None
    lists: Path | None = None
    names: Any | None = None
    origin: Literal["0", "1"] | None = None
    project: Any | None = None
    results: Any | None = None
    rotation: Literal["cvat", "ignore"] | None = None
    score: Any | None = None
    sep: Any | None = None
    split: Any | None = None
    task: Literal["detect", "obb", "pose", "segment"] | None = None
    units: Literal["auto", "normalized", "pixel"] | None = None


class WriteFormatOptions(Options, sides=[]):
    """Options of formats, also for one side only."""

    attribute: Any | None = None
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    classes: Path | None = None
    coords: Literal["abs", "rel"] | None = None
    copy_images: bool | None = None
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet",
        "tfod"] | None = None
    excel_safe: bool | None = None
    field: Any | None = None
    job: Any | None = None
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project",
        "retinaface", "samples", "tracking", "tree", "via3", "video", "widerface"] | None = None
    link_images: bool | None = None
    origin: Literal["0", "1"] | None = None
    pictures: bool | None = None
    prefix: Any | None = None
    results: Any | None = None
    rle: Literal["list", "text"] | None = None
    round: bool | None = None
    sep: Any | None = None
    shards: Any | None = None
    spaces: Literal["keep", "refuse", "underscore"] | None = None
    style: Literal["2013", "2015"] | None = None
    task: Literal["detect", "obb", "pose", "segment"] | None = None


class PairFormatOptions(ReadFormatOptions, sides=["gt", "det"]):
    """Options of formats, also for one side only."""

    gt_attribute: Any | None = None
    gt_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    gt_boxes: Literal["given", "shapes"] | None = None
    gt_category: Any | None = None
    gt_classes: Path | None = None
    gt_columns: Any | None = None
    gt_conf_column: Literal["last", "second"] | None = None
    gt_coords: Literal["abs", "rel"] | None = None
    gt_decimal: Literal["comma", "point"] | None = None
    gt_excel_safe: bool | None = None
    gt_field: Any | None = None
    gt_first_class: Literal["0", "1"] | None = None
    gt_first_frame: Literal["0", "1"] | None = None
    gt_fps: Any | None = None
    gt_groups: Literal["ignore", "objects"] | None = None
    gt_ids: Literal["80", "positions", "positions-from-1"] | None = None
    gt_image_size: Any | None = None
    gt_image_sizes: Path | None = None
    gt_images: Path | None = None
    gt_job: Any | None = None
    gt_label_map: Path | None = None
    gt_lists: Path | None = None
    gt_names: Any | None = None
    gt_origin: Literal["0", "1"] | None = None
    gt_project: Any | None = None
    gt_results: Any | None = None
    gt_rotation: Literal["cvat", "ignore"] | None = None
    gt_score: Any | None = None
    gt_sep: Any | None = None
    gt_split: Any | None = None
    gt_task: Literal["detect", "obb", "pose", "segment"] | None = None
    gt_units: Literal["auto", "normalized", "pixel"] | None = None
    det_attribute: Any | None = None
    det_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    det_boxes: Literal["given", "shapes"] | None = None
    det_category: Any | None = None
    det_classes: Path | None = None
    det_columns: Any | None = None
    det_conf_column: Literal["last", "second"] | None = None
    det_coords: Literal["abs", "rel"] | None = None
    det_decimal: Literal["comma", "point"] | None = None
    det_excel_safe: bool | None = None
    det_field: Any | None = None
    det_first_class: Literal["0", "1"] | None = None
    det_first_frame: Literal["0", "1"] | None = None
    det_fps: Any | None = None
    det_groups: Literal["ignore", "objects"] | None = None
    det_ids: Literal["80", "positions", "positions-from-1"] | None = None
    det_image_size: Any | None = None
    det_image_sizes: Path | None = None
    det_images: Path | None = None
    det_job: Any | None = None
    det_label_map: Path | None = None
    det_lists: Path | None = None
    det_names: Any | None = None
    det_origin: Literal["0", "1"] | None = None
    det_project: Any | None = None
    det_results: Any | None = None
    det_rotation: Literal["cvat", "ignore"] | None = None
    det_score: Any | None = None
    det_sep: Any | None = None
    det_split: Any | None = None
    det_task: Literal["detect", "obb", "pose", "segment"] | None = None
    det_units: Literal["auto", "normalized", "pixel"] | None = None


class ValidateFormatOptions(Options, sides=["gt", "det"]):
    """Options of formats, also for one side only."""

    attribute: Any | None = None
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    boxes: Literal["given", "shapes"] | None = None
    category: Any | None = None
    classes: Path | None = None
    columns: Any | None = None
    conf_column: Literal["last", "second"] | None = None
    coords: Literal["abs", "rel"] | None = None
    copy_images: bool | None = None
    decimal: Literal["comma", "point"] | None = None
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet",
        "tfod"] | None = None
    excel_safe: bool | None = None
    field: Any | None = None
    first_class: Literal["0", "1"] | None = None
    first_frame: Literal["0", "1"] | None = None
    fps: Any | None = None
    groups: Literal["ignore", "objects"] | None = None
    ids: Literal["80", "positions", "positions-from-1"] | None = None
    image_size: Any | None = None
    image_sizes: Path | None = None
    job: Any | None = None
    label_map: Path | None = None
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project",
        "retinaface", "samples", "tracking", "tree", "via3", "video", "widerface"] | None = None
    link_images: bool | None = None
    lists: Path | None = None
    names: Any | None = None
    origin: Literal["0", "1"] | None = None
    pictures: bool | None = None
    prefix: Any | None = None
    project: Any | None = None
    results: Any | None = None
    rle: Literal["list", "text"] | None = None
    rotation: Literal["cvat", "ignore"] | None = None
    round: bool | None = None
    score: Any | None = None
    sep: Any | None = None
    shards: Any | None = None
    spaces: Literal["keep", "refuse", "underscore"] | None = None
    split: Any | None = None
    style: Literal["2013", "2015"] | None = None
    task: Literal["detect", "obb", "pose", "segment"] | None = None
    units: Literal["auto", "normalized", "pixel"] | None = None
    gt_attribute: Any | None = None
    gt_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    gt_boxes: Literal["given", "shapes"] | None = None
    gt_category: Any | None = None
    gt_classes: Path | None = None
    gt_columns: Any | None = None
    gt_conf_column: Literal["last", "second"] | None = None
    gt_coords: Literal["abs", "rel"] | None = None
    gt_decimal: Literal["comma", "point"] | None = None
    gt_excel_safe: bool | None = None
    gt_field: Any | None = None
    gt_first_class: Literal["0", "1"] | None = None
    gt_first_frame: Literal["0", "1"] | None = None
    gt_fps: Any | None = None
    gt_groups: Literal["ignore", "objects"] | None = None
    gt_ids: Literal["80", "positions", "positions-from-1"] | None = None
    gt_image_size: Any | None = None
    gt_image_sizes: Path | None = None
    gt_images: Path | None = None
    gt_job: Any | None = None
    gt_label_map: Path | None = None
    gt_lists: Path | None = None
    gt_names: Any | None = None
    gt_origin: Literal["0", "1"] | None = None
    gt_project: Any | None = None
    gt_results: Any | None = None
    gt_rotation: Literal["cvat", "ignore"] | None = None
    gt_score: Any | None = None
    gt_sep: Any | None = None
    gt_split: Any | None = None
    gt_task: Literal["detect", "obb", "pose", "segment"] | None = None
    gt_units: Literal["auto", "normalized", "pixel"] | None = None
    det_attribute: Any | None = None
    det_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    det_boxes: Literal["given", "shapes"] | None = None
    det_category: Any | None = None
    det_classes: Path | None = None
    det_columns: Any | None = None
    det_conf_column: Literal["last", "second"] | None = None
    det_coords: Literal["abs", "rel"] | None = None
    det_decimal: Literal["comma", "point"] | None = None
    det_excel_safe: bool | None = None
    det_field: Any | None = None
    det_first_class: Literal["0", "1"] | None = None
    det_first_frame: Literal["0", "1"] | None = None
    det_fps: Any | None = None
    det_groups: Literal["ignore", "objects"] | None = None
    det_ids: Literal["80", "positions", "positions-from-1"] | None = None
    det_image_size: Any | None = None
    det_image_sizes: Path | None = None
    det_images: Path | None = None
    det_job: Any | None = None
    det_label_map: Path | None = None
    det_lists: Path | None = None
    det_names: Any | None = None
    det_origin: Literal["0", "1"] | None = None
    det_project: Any | None = None
    det_results: Any | None = None
    det_rotation: Literal["cvat", "ignore"] | None = None
    det_score: Any | None = None
    det_sep: Any | None = None
    det_split: Any | None = None
    det_task: Literal["detect", "obb", "pose", "segment"] | None = None
    det_units: Literal["auto", "normalized", "pixel"] | None = None


class AgreeFormatOptions(ReadFormatOptions, sides=["a", "b"]):
    """Options of formats, also for one side only."""

    a_attribute: Any | None = None
    a_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    a_boxes: Literal["given", "shapes"] | None = None
    a_category: Any | None = None
    a_classes: Path | None = None
    a_columns: Any | None = None
    a_conf_column: Literal["last", "second"] | None = None
    a_coords: Literal["abs", "rel"] | None = None
    a_decimal: Literal["comma", "point"] | None = None
    a_excel_safe: bool | None = None
    a_field: Any | None = None
    a_first_class: Literal["0", "1"] | None = None
    a_first_frame: Literal["0", "1"] | None = None
    a_fps: Any | None = None
    a_groups: Literal["ignore", "objects"] | None = None
    a_ids: Literal["80", "positions", "positions-from-1"] | None = None
    a_image_size: Any | None = None
    a_image_sizes: Path | None = None
    a_images: Path | None = None
    a_job: Any | None = None
    a_label_map: Path | None = None
    a_lists: Path | None = None
    a_names: Any | None = None
    a_origin: Literal["0", "1"] | None = None
    a_project: Any | None = None
    a_results: Any | None = None
    a_rotation: Literal["cvat", "ignore"] | None = None
    a_score: Any | None = None
    a_sep: Any | None = None
    a_split: Any | None = None
    a_task: Literal["detect", "obb", "pose", "segment"] | None = None
    a_units: Literal["auto", "normalized", "pixel"] | None = None
    b_attribute: Any | None = None
    b_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    b_boxes: Literal["given", "shapes"] | None = None
    b_category: Any | None = None
    b_classes: Path | None = None
    b_columns: Any | None = None
    b_conf_column: Literal["last", "second"] | None = None
    b_coords: Literal["abs", "rel"] | None = None
    b_decimal: Literal["comma", "point"] | None = None
    b_excel_safe: bool | None = None
    b_field: Any | None = None
    b_first_class: Literal["0", "1"] | None = None
    b_first_frame: Literal["0", "1"] | None = None
    b_fps: Any | None = None
    b_groups: Literal["ignore", "objects"] | None = None
    b_ids: Literal["80", "positions", "positions-from-1"] | None = None
    b_image_size: Any | None = None
    b_image_sizes: Path | None = None
    b_images: Path | None = None
    b_job: Any | None = None
    b_label_map: Path | None = None
    b_lists: Path | None = None
    b_names: Any | None = None
    b_origin: Literal["0", "1"] | None = None
    b_project: Any | None = None
    b_results: Any | None = None
    b_rotation: Literal["cvat", "ignore"] | None = None
    b_score: Any | None = None
    b_sep: Any | None = None
    b_split: Any | None = None
    b_task: Literal["detect", "obb", "pose", "segment"] | None = None
    b_units: Literal["auto", "normalized", "pixel"] | None = None


class DiffFormatOptions(ReadFormatOptions, sides=["old", "new"]):
    """Options of formats, also for one side only."""

    old_attribute: Any | None = None
    old_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    old_boxes: Literal["given", "shapes"] | None = None
    old_category: Any | None = None
    old_classes: Path | None = None
    old_columns: Any | None = None
    old_conf_column: Literal["last", "second"] | None = None
    old_coords: Literal["abs", "rel"] | None = None
    old_decimal: Literal["comma", "point"] | None = None
    old_excel_safe: bool | None = None
    old_field: Any | None = None
    old_first_class: Literal["0", "1"] | None = None
    old_first_frame: Literal["0", "1"] | None = None
    old_fps: Any | None = None
    old_groups: Literal["ignore", "objects"] | None = None
    old_ids: Literal["80", "positions", "positions-from-1"] | None = None
    old_image_size: Any | None = None
    old_image_sizes: Path | None = None
    old_images: Path | None = None
    old_job: Any | None = None
    old_label_map: Path | None = None
    old_lists: Path | None = None
    old_names: Any | None = None
    old_origin: Literal["0", "1"] | None = None
    old_project: Any | None = None
    old_results: Any | None = None
    old_rotation: Literal["cvat", "ignore"] | None = None
    old_score: Any | None = None
    old_sep: Any | None = None
    old_split: Any | None = None
    old_task: Literal["detect", "obb", "pose", "segment"] | None = None
    old_units: Literal["auto", "normalized", "pixel"] | None = None
    new_attribute: Any | None = None
    new_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    new_boxes: Literal["given", "shapes"] | None = None
    new_category: Any | None = None
    new_classes: Path | None = None
    new_columns: Any | None = None
    new_conf_column: Literal["last", "second"] | None = None
    new_coords: Literal["abs", "rel"] | None = None
    new_decimal: Literal["comma", "point"] | None = None
    new_excel_safe: bool | None = None
    new_field: Any | None = None
    new_first_class: Literal["0", "1"] | None = None
    new_first_frame: Literal["0", "1"] | None = None
    new_fps: Any | None = None
    new_groups: Literal["ignore", "objects"] | None = None
    new_ids: Literal["80", "positions", "positions-from-1"] | None = None
    new_image_size: Any | None = None
    new_image_sizes: Path | None = None
    new_images: Path | None = None
    new_job: Any | None = None
    new_label_map: Path | None = None
    new_lists: Path | None = None
    new_names: Any | None = None
    new_origin: Literal["0", "1"] | None = None
    new_project: Any | None = None
    new_results: Any | None = None
    new_rotation: Literal["cvat", "ignore"] | None = None
    new_score: Any | None = None
    new_sep: Any | None = None
    new_split: Any | None = None
    new_task: Literal["detect", "obb", "pose", "segment"] | None = None
    new_units: Literal["auto", "normalized", "pixel"] | None = None


class ConvertFormatOptions(ReadFormatOptions, sides=["from", "to"]):
    """Options of formats, also for one side only."""

    copy_images: bool | None = None
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet",
        "tfod"] | None = None
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project",
        "retinaface", "samples", "tracking", "tree", "via3", "video", "widerface"] | None = None
    link_images: bool | None = None
    pictures: bool | None = None
    prefix: Any | None = None
    rle: Literal["list", "text"] | None = None
    round: bool | None = None
    shards: Any | None = None
    spaces: Literal["keep", "refuse", "underscore"] | None = None
    style: Literal["2013", "2015"] | None = None
    from_attribute: Any | None = None
    from_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    from_boxes: Literal["given", "shapes"] | None = None
    from_category: Any | None = None
    from_classes: Path | None = None
    from_columns: Any | None = None
    from_conf_column: Literal["last", "second"] | None = None
    from_coords: Literal["abs", "rel"] | None = None
    from_decimal: Literal["comma", "point"] | None = None
    from_excel_safe: bool | None = None
    from_field: Any | None = None
    from_first_class: Literal["0", "1"] | None = None
    from_first_frame: Literal["0", "1"] | None = None
    from_fps: Any | None = None
    from_groups: Literal["ignore", "objects"] | None = None
    from_ids: Literal["80", "positions", "positions-from-1"] | None = None
    from_image_size: Any | None = None
    from_image_sizes: Path | None = None
    from_images: Path | None = None
    from_job: Any | None = None
    from_label_map: Path | None = None
    from_lists: Path | None = None
    from_names: Any | None = None
    from_origin: Literal["0", "1"] | None = None
    from_project: Any | None = None
    from_results: Any | None = None
    from_rotation: Literal["cvat", "ignore"] | None = None
    from_score: Any | None = None
    from_sep: Any | None = None
    from_split: Any | None = None
    from_task: Literal["detect", "obb", "pose", "segment"] | None = None
    from_units: Literal["auto", "normalized", "pixel"] | None = None
    to_attribute: Any | None = None
    to_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"] | None = None
    to_classes: Path | None = None
    to_coords: Literal["abs", "rel"] | None = None
    to_copy_images: bool | None = None
    to_dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet",
        "tfod"] | None = None
    to_excel_safe: bool | None = None
    to_field: Any | None = None
    to_job: Any | None = None
    to_layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project",
        "retinaface", "samples", "tracking", "tree", "via3", "video", "widerface"] | None = None
    to_link_images: bool | None = None
    to_origin: Literal["0", "1"] | None = None
    to_pictures: bool | None = None
    to_prefix: Any | None = None
    to_results: Any | None = None
    to_rle: Literal["list", "text"] | None = None
    to_round: bool | None = None
    to_sep: Any | None = None
    to_shards: Any | None = None
    to_spaces: Literal["keep", "refuse", "underscore"] | None = None
    to_style: Literal["2013", "2015"] | None = None
    to_task: Literal["detect", "obb", "pose", "segment"] | None = None
