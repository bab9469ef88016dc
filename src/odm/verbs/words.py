"""The words that arguments take, and the options of formats, for editors and type checkers.

Written by ``python docs/generate.py``.
"""
# fmt: off

import os
from typing import Any, Literal, TypedDict

Path = str | os.PathLike[str]

ProtocolName = Literal[
    "voc2012", "voc2007", "coco", "lvis", "tf-voc", "tf-weighted", "openimages", "openimages-challenge",
    "corloc", "imagenet-loc", "imagenet-det", "ultralytics", "yolov5", "citypersons", "tinyperson", "aitod",
    "dota-hbb", "soda-d", "caltech", "crowdhuman", "dota", "stt", "tube"
]
"""A name of a protocol."""


BoxProtocolName = Literal[
    "voc2012", "voc2007", "coco", "lvis", "tf-voc", "tf-weighted", "openimages", "openimages-challenge",
    "corloc", "imagenet-loc", "imagenet-det", "ultralytics", "yolov5", "citypersons", "tinyperson", "aitod",
    "dota-hbb", "soda-d", "caltech", "crowdhuman", "dota"
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


class ReadOptions(TypedDict, total=False):
    """Options of formats for reading."""

    attribute: Any
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    boxes: Literal["given", "shapes"]
    category: Any
    classes: Path
    columns: Any
    conf_column: Literal["last", "second"]
    coords: Literal["abs", "rel"]
    decimal: Literal["comma", "point"]
    excel_safe: bool
    field: Any
    first_class: Literal["0", "1"]
    first_frame: Literal["0", "1"]
    fps: Any
    groups: Literal["ignore", "objects"]
    ids: Literal["80", "positions", "positions-from-1"]
    image_size: Any
    image_sizes: Path
    images: Path
    job: Any
    label_map: Path
    names: Any
    origin: Literal["0", "1"]
    project: Any
    results: Any
    rotation: Literal["cvat", "ignore"]
    score: Any
    sep: Any
    split: Any
    task: Literal["detect", "obb", "pose", "segment"]
    units: Literal["auto", "normalized", "pixel"]


class WriteOptions(TypedDict, total=False):
    """Options of formats for writing."""

    attribute: Any
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    classes: Path
    coords: Literal["abs", "rel"]
    copy_images: bool
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet", "tfod"]
    excel_safe: bool
    field: Any
    job: Any
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project", "retinaface",
        "samples", "tracking", "tree", "via3", "video", "widerface"]
    link_images: bool
    origin: Literal["0", "1"]
    pictures: bool
    prefix: Any
    results: Any
    rle: Literal["list", "text"]
    round: bool
    sep: Any
    shards: Any
    spaces: Literal["keep", "refuse", "underscore"]
    style: Literal["2013", "2015"]
    task: Literal["detect", "obb", "pose", "segment"]


class BothOptions(ReadOptions, total=False):
    """Options of formats."""

    copy_images: bool
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet", "tfod"]
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project", "retinaface",
        "samples", "tracking", "tree", "via3", "video", "widerface"]
    link_images: bool
    pictures: bool
    prefix: Any
    rle: Literal["list", "text"]
    round: bool
    shards: Any
    spaces: Literal["keep", "refuse", "underscore"]
    style: Literal["2013", "2015"]


class PairOptions(ReadOptions, total=False):
    """Options of formats, and for one side only."""

    gt_attribute: Any
    gt_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    gt_boxes: Literal["given", "shapes"]
    gt_category: Any
    gt_classes: Path
    gt_columns: Any
    gt_conf_column: Literal["last", "second"]
    gt_coords: Literal["abs", "rel"]
    gt_decimal: Literal["comma", "point"]
    gt_excel_safe: bool
    gt_field: Any
    gt_first_class: Literal["0", "1"]
    gt_first_frame: Literal["0", "1"]
    gt_fps: Any
    gt_groups: Literal["ignore", "objects"]
    gt_ids: Literal["80", "positions", "positions-from-1"]
    gt_image_size: Any
    gt_image_sizes: Path
    gt_images: Path
    gt_job: Any
    gt_label_map: Path
    gt_names: Any
    gt_origin: Literal["0", "1"]
    gt_project: Any
    gt_results: Any
    gt_rotation: Literal["cvat", "ignore"]
    gt_score: Any
    gt_sep: Any
    gt_split: Any
    gt_task: Literal["detect", "obb", "pose", "segment"]
    gt_units: Literal["auto", "normalized", "pixel"]
    det_attribute: Any
    det_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    det_boxes: Literal["given", "shapes"]
    det_category: Any
    det_classes: Path
    det_columns: Any
    det_conf_column: Literal["last", "second"]
    det_coords: Literal["abs", "rel"]
    det_decimal: Literal["comma", "point"]
    det_excel_safe: bool
    det_field: Any
    det_first_class: Literal["0", "1"]
    det_first_frame: Literal["0", "1"]
    det_fps: Any
    det_groups: Literal["ignore", "objects"]
    det_ids: Literal["80", "positions", "positions-from-1"]
    det_image_size: Any
    det_image_sizes: Path
    det_images: Path
    det_job: Any
    det_label_map: Path
    det_names: Any
    det_origin: Literal["0", "1"]
    det_project: Any
    det_results: Any
    det_rotation: Literal["cvat", "ignore"]
    det_score: Any
    det_sep: Any
    det_split: Any
    det_task: Literal["detect", "obb", "pose", "segment"]
    det_units: Literal["auto", "normalized", "pixel"]


class ValidateOptions(TypedDict, total=False):
    """Options of formats, and for one side only."""

    attribute: Any
    box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    boxes: Literal["given", "shapes"]
    category: Any
    classes: Path
    columns: Any
    conf_column: Literal["last", "second"]
    coords: Literal["abs", "rel"]
    copy_images: bool
    decimal: Literal["comma", "point"]
    dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet", "tfod"]
    excel_safe: bool
    field: Any
    first_class: Literal["0", "1"]
    first_frame: Literal["0", "1"]
    fps: Any
    groups: Literal["ignore", "objects"]
    ids: Literal["80", "positions", "positions-from-1"]
    image_size: Any
    image_sizes: Path
    job: Any
    label_map: Path
    layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project", "retinaface",
        "samples", "tracking", "tree", "via3", "video", "widerface"]
    link_images: bool
    names: Any
    origin: Literal["0", "1"]
    pictures: bool
    prefix: Any
    project: Any
    results: Any
    rle: Literal["list", "text"]
    rotation: Literal["cvat", "ignore"]
    round: bool
    score: Any
    sep: Any
    shards: Any
    spaces: Literal["keep", "refuse", "underscore"]
    split: Any
    style: Literal["2013", "2015"]
    task: Literal["detect", "obb", "pose", "segment"]
    units: Literal["auto", "normalized", "pixel"]
    gt_attribute: Any
    gt_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    gt_boxes: Literal["given", "shapes"]
    gt_category: Any
    gt_classes: Path
    gt_columns: Any
    gt_conf_column: Literal["last", "second"]
    gt_coords: Literal["abs", "rel"]
    gt_decimal: Literal["comma", "point"]
    gt_excel_safe: bool
    gt_field: Any
    gt_first_class: Literal["0", "1"]
    gt_first_frame: Literal["0", "1"]
    gt_fps: Any
    gt_groups: Literal["ignore", "objects"]
    gt_ids: Literal["80", "positions", "positions-from-1"]
    gt_image_size: Any
    gt_image_sizes: Path
    gt_images: Path
    gt_job: Any
    gt_label_map: Path
    gt_names: Any
    gt_origin: Literal["0", "1"]
    gt_project: Any
    gt_results: Any
    gt_rotation: Literal["cvat", "ignore"]
    gt_score: Any
    gt_sep: Any
    gt_split: Any
    gt_task: Literal["detect", "obb", "pose", "segment"]
    gt_units: Literal["auto", "normalized", "pixel"]
    det_attribute: Any
    det_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    det_boxes: Literal["given", "shapes"]
    det_category: Any
    det_classes: Path
    det_columns: Any
    det_conf_column: Literal["last", "second"]
    det_coords: Literal["abs", "rel"]
    det_decimal: Literal["comma", "point"]
    det_excel_safe: bool
    det_field: Any
    det_first_class: Literal["0", "1"]
    det_first_frame: Literal["0", "1"]
    det_fps: Any
    det_groups: Literal["ignore", "objects"]
    det_ids: Literal["80", "positions", "positions-from-1"]
    det_image_size: Any
    det_image_sizes: Path
    det_images: Path
    det_job: Any
    det_label_map: Path
    det_names: Any
    det_origin: Literal["0", "1"]
    det_project: Any
    det_results: Any
    det_rotation: Literal["cvat", "ignore"]
    det_score: Any
    det_sep: Any
    det_split: Any
    det_task: Literal["detect", "obb", "pose", "segment"]
    det_units: Literal["auto", "normalized", "pixel"]


class AgreeOptions(ReadOptions, total=False):
    """Options of formats, and for one side only."""

    a_attribute: Any
    a_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    a_boxes: Literal["given", "shapes"]
    a_category: Any
    a_classes: Path
    a_columns: Any
    a_conf_column: Literal["last", "second"]
    a_coords: Literal["abs", "rel"]
    a_decimal: Literal["comma", "point"]
    a_excel_safe: bool
    a_field: Any
    a_first_class: Literal["0", "1"]
    a_first_frame: Literal["0", "1"]
    a_fps: Any
    a_groups: Literal["ignore", "objects"]
    a_ids: Literal["80", "positions", "positions-from-1"]
    a_image_size: Any
    a_image_sizes: Path
    a_images: Path
    a_job: Any
    a_label_map: Path
    a_names: Any
    a_origin: Literal["0", "1"]
    a_project: Any
    a_results: Any
    a_rotation: Literal["cvat", "ignore"]
    a_score: Any
    a_sep: Any
    a_split: Any
    a_task: Literal["detect", "obb", "pose", "segment"]
    a_units: Literal["auto", "normalized", "pixel"]
    b_attribute: Any
    b_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    b_boxes: Literal["given", "shapes"]
    b_category: Any
    b_classes: Path
    b_columns: Any
    b_conf_column: Literal["last", "second"]
    b_coords: Literal["abs", "rel"]
    b_decimal: Literal["comma", "point"]
    b_excel_safe: bool
    b_field: Any
    b_first_class: Literal["0", "1"]
    b_first_frame: Literal["0", "1"]
    b_fps: Any
    b_groups: Literal["ignore", "objects"]
    b_ids: Literal["80", "positions", "positions-from-1"]
    b_image_size: Any
    b_image_sizes: Path
    b_images: Path
    b_job: Any
    b_label_map: Path
    b_names: Any
    b_origin: Literal["0", "1"]
    b_project: Any
    b_results: Any
    b_rotation: Literal["cvat", "ignore"]
    b_score: Any
    b_sep: Any
    b_split: Any
    b_task: Literal["detect", "obb", "pose", "segment"]
    b_units: Literal["auto", "normalized", "pixel"]


class DiffOptions(ReadOptions, total=False):
    """Options of formats, and for one side only."""

    old_attribute: Any
    old_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    old_boxes: Literal["given", "shapes"]
    old_category: Any
    old_classes: Path
    old_columns: Any
    old_conf_column: Literal["last", "second"]
    old_coords: Literal["abs", "rel"]
    old_decimal: Literal["comma", "point"]
    old_excel_safe: bool
    old_field: Any
    old_first_class: Literal["0", "1"]
    old_first_frame: Literal["0", "1"]
    old_fps: Any
    old_groups: Literal["ignore", "objects"]
    old_ids: Literal["80", "positions", "positions-from-1"]
    old_image_size: Any
    old_image_sizes: Path
    old_images: Path
    old_job: Any
    old_label_map: Path
    old_names: Any
    old_origin: Literal["0", "1"]
    old_project: Any
    old_results: Any
    old_rotation: Literal["cvat", "ignore"]
    old_score: Any
    old_sep: Any
    old_split: Any
    old_task: Literal["detect", "obb", "pose", "segment"]
    old_units: Literal["auto", "normalized", "pixel"]
    new_attribute: Any
    new_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    new_boxes: Literal["given", "shapes"]
    new_category: Any
    new_classes: Path
    new_columns: Any
    new_conf_column: Literal["last", "second"]
    new_coords: Literal["abs", "rel"]
    new_decimal: Literal["comma", "point"]
    new_excel_safe: bool
    new_field: Any
    new_first_class: Literal["0", "1"]
    new_first_frame: Literal["0", "1"]
    new_fps: Any
    new_groups: Literal["ignore", "objects"]
    new_ids: Literal["80", "positions", "positions-from-1"]
    new_image_size: Any
    new_image_sizes: Path
    new_images: Path
    new_job: Any
    new_label_map: Path
    new_names: Any
    new_origin: Literal["0", "1"]
    new_project: Any
    new_results: Any
    new_rotation: Literal["cvat", "ignore"]
    new_score: Any
    new_sep: Any
    new_split: Any
    new_task: Literal["detect", "obb", "pose", "segment"]
    new_units: Literal["auto", "normalized", "pixel"]


class ConvertOptions(BothOptions, total=False):
    """Options of formats, and for one side only."""

    from_attribute: Any
    from_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    from_boxes: Literal["given", "shapes"]
    from_category: Any
    from_classes: Path
    from_columns: Any
    from_conf_column: Literal["last", "second"]
    from_coords: Literal["abs", "rel"]
    from_decimal: Literal["comma", "point"]
    from_excel_safe: bool
    from_field: Any
    from_first_class: Literal["0", "1"]
    from_first_frame: Literal["0", "1"]
    from_fps: Any
    from_groups: Literal["ignore", "objects"]
    from_ids: Literal["80", "positions", "positions-from-1"]
    from_image_size: Any
    from_image_sizes: Path
    from_images: Path
    from_job: Any
    from_label_map: Path
    from_names: Any
    from_origin: Literal["0", "1"]
    from_project: Any
    from_results: Any
    from_rotation: Literal["cvat", "ignore"]
    from_score: Any
    from_sep: Any
    from_split: Any
    from_task: Literal["detect", "obb", "pose", "segment"]
    from_units: Literal["auto", "normalized", "pixel"]
    to_attribute: Any
    to_box: Literal["cxcywh", "fbox", "hbox", "ltrb", "ltwh", "vbox"]
    to_classes: Path
    to_coords: Literal["abs", "rel"]
    to_copy_images: bool
    to_dialect: Literal["canonical", "csv", "json", "openimages", "predictionstring", "retinanet", "tfod"]
    to_excel_safe: bool
    to_field: Any
    to_job: Any
    to_layout: Literal["annotations", "auto", "flat", "images", "labels", "objects", "project",
        "retinaface", "samples", "tracking", "tree", "via3", "video", "widerface"]
    to_link_images: bool
    to_origin: Literal["0", "1"]
    to_pictures: bool
    to_prefix: Any
    to_results: Any
    to_rle: Literal["list", "text"]
    to_round: bool
    to_sep: Any
    to_shards: Any
    to_spaces: Literal["keep", "refuse", "underscore"]
    to_style: Literal["2013", "2015"]
    to_task: Literal["detect", "obb", "pose", "segment"]
