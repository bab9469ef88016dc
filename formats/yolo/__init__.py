"""YOLO: one ``.txt`` file per image, ``<id> <cx> <cy> <w> <h>`` relative to the image size.

The id is the class number, from 0 (``6.0`` is 6); centre, width and height are fractions of the width and
height of the image. An empty label file, or a picture without one, is an image without objects.

Layouts
    - a flat folder of label files, with or without the pictures beside them;
    - ``labels/`` beside ``images/`` (or ``JPEGImages/``, ``data/``), also below split folders
      (``train/labels`` or ``labels/train``); the folder ``labels/`` itself may also be given;
    - a dataset with ``data.yaml``: ``path``, and ``train``, ``val``, ``test`` each as a folder, a ``.txt``
      list of pictures, or a list of either. All splits are read, or the one given by ``--split``, and nothing
      that the file does not name;
    - darknet's ``obj.data`` with its lists of pictures (any key that names one is a split) and ``obj.names``;
      FiftyOne's ``images.txt`` and ``obj.names``;
    - ``data.yaml`` or ``obj.data`` itself. Its paths are then followed wherever they lead, to label files and
      pictures: ``path`` may be absolute, above, or relative to the file, the working folder, or a folder
      ``datasets`` in or beside these. A note says from where. If the folder was named instead, a leading
      ``../`` is removed, and any other path outside the folder is an error.

Class names
    ``--classes FILE`` (one name per line, or a ``data.yaml``), or else ``names`` in ``data.yaml``,
    ``classes.txt``, ``_classes.txt``, ``obj.names``; or else ``data.names``, ``_darknet.labels``,
    ``labels.txt``, ``class_names.txt``, ``predefined_classes.txt``, or the only file that ends in ``.names``.
    Lists that disagree are an error; one that disagrees with ``data.yaml`` or ``obj.data`` is not used, with
    a warning. Names may be numbered from 1. If ``labels/`` itself is given, the ``data.yaml`` or list above
    it is used, provided that it has a name for every number. Without any list the numbers are used as names,
    with a warning. The order of the list is kept.

Numbers beyond the image
    A centre, width, height or keypoint of ground truth above 1.01 or below -0.01 is an error, because
    Ultralytics leaves out the whole image. Other boxes that leave their image are warnings.

Detections
    A sixth column is the confidence, **last** (Ultralytics) or **second** (darknet). The column is chosen so
    that it holds plausible confidences and the other four plausible boxes; if both fit, it is the last, with
    a note. ``--conf-column`` overrides this.

Tracks
    ``yolo track save_txt`` puts the id of the track last: six columns that end in whole numbers from 1, none
    of them twice in a file, are a box and a track; seven are a box, a confidence and a track. Label files
    that are called ``video_12.txt`` are frames of that video.

Outlines, oriented boxes and keypoints
    All rows of a dataset are of one task, which ``-O task=`` names or the rows show. A row of a class and 6
    or more coordinates is an outline (``segment``); if all outlines have 8, they are the corners of oriented
    boxes (``obb``). Rows with keypoints (``pose``) are a box and, for each point, x, y and often 0, 1 or 2:
    not labelled, hidden, visible. ``kpt_shape`` in ``data.yaml`` says how many. Without it, rows have
    keypoints if all have the same 5 + 3k numbers, every third is 0, 1 or 2, and the box contains the points;
    in detections if all have 6 + 3k numbers, every third and the last are in 0..1, and the box contains the
    likely points. ``data.yaml`` may have ``task: segment`` or ``obb``. The box of an outline is the one
    around it. Where only boxes are needed, outlines are read as such, with a warning, and keypoints are
    ignored. A confidence is the last number of a row of any task.

Image sizes
    From the pictures in ``images/`` or beside the labels (any extension in any case; EXIF orientation is
    applied), ``--images DIR``, which comes first, ``--image-size WxH`` or ``--image-sizes FILE.csv``. If no
    image has a size, coordinates stay fractions: they can be evaluated against others of this kind, checked,
    counted, and written to formats with relative coordinates.

Writing
    ``labels/`` (``labels/<split>/`` if there are splits) and a ``data.yaml`` without ``path``, so that paths
    are relative to the file. It names only splits that Ultralytics reads (``train``, ``val``, ``test`` and
    ``minival``); images of others are written to one of these. ``--link-images`` or ``--copy-images`` add the
    pictures in ``images/``. Ids follow the order of the classes; the confidence is the last column. Numbers
    have enough decimals to preserve pixels within 1e-6. Ground truth with a centre, width or height beyond
    -0.01..1.01 is refused, as Ultralytics refuses it; ``--clip`` cuts such boxes. The task is that of a YOLO
    source; from other formats, ``obb`` if all boxes are oriented, else ``detect``; ``-O task=`` chooses
    another. ``segment`` writes one outline for each object: parts and holes are joined by lines of no width,
    masks follow the edges of their pixels, and a box without an outline is its rectangle. ``pose`` writes
    ``kpt_shape`` and ``flip_idx`` (that of the source, or no exchange).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from odm.files import NamedSource, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of
from odm.formats._shared.gather import Gather
from odm.formats._shared.pictures import ImageOptions, Pictures
from odm.formats._shared.shapes.fractions import MARGIN
from odm.formats._shared.text.label_files import list_files, report_others, sample
from odm.formats.yolo.descriptions import read_data_file, read_yaml
from odm.formats.yolo.first_rows import find_key_points, find_tracks, guess_point_layout
from odm.formats.yolo.layouts import (
    ALIASES,
    Plan,
    YoloOptions,
    add_images,
    describes,
    drop_own_files,
    find_data_file,
    find_groups,
    find_images,
    find_yaml_file,
    is_data_file,
    keep_described,
    settle_names,
)
from odm.formats.yolo.rows import ParsedRows
from odm.formats.yolo.shapes import describe_points, find_task, make_columns, refuse_other_outlines
from odm.formats.yolo.writer import write
from odm.issues import Log, printable
from odm.tables import Builder, Dataset, ShapeKind

_CORNERS = re.compile(rb"^(?:-?[0-9.]+ ){8}[^0-9\s]", re.MULTILINE)


def sniff(source: Source) -> Sniff | None:
    """Recognise rows of a whole number and values in 0..1, or one of the well-known layouts.

    Label files below ``labels`` are looked at, if there are any, else all. DOTA's labels beside a
    data.yaml, and folders without a description but with XML files, are none.
    """
    if not source.is_dir:
        lower_path = source.path.lower()
        if lower_path.endswith((".yaml", ".yml")):
            return Sniff(SURE, "it is a data.yaml") if describes(source.head()) else None
        if lower_path.endswith(".data"):
            return Sniff(SURE, "it is darknet's obj.data") if is_data_file(source.head()) else None
        if not lower_path.endswith(".txt"):
            return None
        return _sniff_lines(source, [""])
    if (yaml_file := find_yaml_file(source)) is not None:
        if _holds_corners(source):
            return None
        return Sniff(SURE, f"{yaml_file} describes a YOLO dataset")
    if (data_file := find_data_file(source)) is not None:
        return Sniff(SURE, f"{data_file} describes a darknet dataset")
    if any(f.lower().endswith(".xml") for f in source.files):
        return None
    files = list_files(source)
    files_below_labels = [f for f in files.labels if "labels" in f.split("/")[:-1]]
    answer = _sniff_lines(source, files_below_labels or files.labels)
    has_images = any("images" in f.split("/")[:-1] for f in files.pictures)
    if answer is not None and files_below_labels and has_images:
        return Sniff(SURE, f"labels/ is beside images/, and {answer.reason}")
    return answer


def _holds_corners(source: Source) -> bool:
    """Whether all labels are DOTA's: in folders ``labelTxt``, with rows of eight numbers and a word."""
    labels = list_files(source).labels
    folders = {folder.lower() for file in labels for folder in file.split("/")[:-1]}
    if "labeltxt" not in folders or "labels" in folders:
        return False
    return any(_CORNERS.search(source.head(file)) for file in labels[:20])


def _sniff_lines(source: Source, labels: list[str]) -> Sniff | None:
    """Recognise the lines of label files, or that all are empty; None if most are not like YOLO's."""
    if not labels:
        return None
    if points := find_key_points(source, labels):
        return Sniff(SURE, f"its rows are a box and {points // 3} keypoints, as in YOLO's pose labels")
    counts = sample(source, labels)
    if not counts.lines:
        return Sniff(LIKELY, counts.empty)
    if counts.relative < counts.named + counts.pixels:
        return None
    # how many numbers follow the class in most lines; in a tie the greater
    usual_count = max(counts.counts, key=lambda n: (counts.counts[n], n))
    if usual_count == 0:
        return None

    # such as "12 of 14 lines of 50 files looked at have"
    n_fractions = sum(counts.fractions.values()) or counts.relative
    count_text = f"all {counts.lines}" if n_fractions == counts.lines else f"{n_fractions} of {counts.lines}"
    sample_text = ""
    if 1 < counts.files < len(labels):
        sample_text = f" of {counts.files} files looked at"
    subject = "its one line has" if counts.lines == 1 else f"{count_text} lines{sample_text} have"

    # such as "4 to 6 numbers in 0..1", of the least and the greatest number of numbers
    lengths = sorted(counts.fractions)
    ends_text = " to ".join(map(str, sorted({*lengths[:1], *lengths[-1:]})))
    # Without a line whose numbers are all in 0..1 there are lines with numbers up to 1.5.
    numbers_text = f"{ends_text} numbers in 0..1" if lengths else "numbers of about 0..1"
    if counts.tracked:
        track_suffix = "" if counts.tracked == counts.relative else " (some of them)"
        return Sniff(LIKELY, f"{subject} a whole number, {numbers_text} and the id of a track{track_suffix}")
    return Sniff(LIKELY, f"{subject} a whole number and {numbers_text}")


def _find_points(plan: Plan, files: list[str], task: str | None, builder: Builder, log: Log) -> None:
    """Set in the plan how many numbers of keypoints follow a box, and note a guess from the first files.

    They are 0 for the tasks segment and obb, and else those that the description stated, if any.
    """
    shown = printable(plan.source.path)
    if task in ("segment", "obb"):
        plan.n_point_numbers = 0
    elif not plan.n_point_numbers and task == "pose":
        plan.n_point_numbers, plan.numbers_per_point = guess_point_layout(plan.source, files, builder.kind)
        n = plan.n_point_numbers // plan.numbers_per_point
        log.note(f"{shown}: rows are read as a box and {n} keypoints of {plan.numbers_per_point} numbers")
    elif not plan.n_point_numbers and (n_numbers := find_key_points(plan.source, files, builder.kind)):
        plan.n_point_numbers = n_numbers
        note = "" if builder.wants else ", which are not read"
        log.note(
            f"{shown}: rows have a box and {n_numbers // 3} keypoints{note} (kpt_shape in data.yaml decides)"
        )


def _find_tracks(plan: Plan, files: list[str], builder: Builder, log: Log) -> None:
    """Set in the plan, with a note, which rows end in the id of a track, by the first files."""
    plan.tracks = find_tracks(plan.source, files, plan.n_point_numbers, is_det=builder.kind == "det")
    if plan.tracks:
        row_end = "a confidence and the id of a track" if plan.tracks == {0} else "the id of a track"
        log.note(f"{printable(plan.source.path)}: rows end in {row_end}, as yolo track writes them")


def read(source: Source, builder: Builder, log: Log, options: YoloOptions) -> None:
    """Read a dataset of label files, in any of its layouts, into the builder.

    Invalid rows are counted in ``builder.skipped``, and shapes that are not asked for in ``builder.extras``.
    """
    plan = _make_plan(source, options, log)
    source = plan.source
    builder.extras.update(plan.unread)
    images = find_images(plan, builder, log, options)
    files = [image.label for image in images if image.label is not None]
    image_of_file = np.array([i for i, image in enumerate(images) if image.label is not None], np.int64)
    _find_points(plan, files, options.task, builder, log)
    if options.conf_column is None:
        _find_tracks(plan, files, builder, log)
    parsed = ParsedRows(plan, files, builder, log)
    is_valid, box, score = parsed.choose_columns(options.conf_column)

    # The images; `image` is the position in `images` of each row, and `image_rows` is by this position.
    file_rows = np.array([builder.file(source.full(f)) for f in files], np.int32)
    file_of_image = np.full(len(images), -1)
    file_of_image[image_of_file] = file_rows
    # Any pictures: `add_images` sets those of each split.
    first_pictures = images[0].pictures if images else Pictures(ImageOptions(), builder, log, source)
    gather = Gather(source, builder, log, options, pictures=first_pictures)
    image = image_of_file[parsed.file]
    image_rows, sizes = add_images(images, image[is_valid], file_of_image, gather, tracked=bool(plan.tracks))
    # Rows of an image that was refused, or whose size is unknown, are left out.
    is_valid &= (image_rows[image] >= 0) & (sizes[image, 0] > 0)

    category, has_class = parsed.add_categories(is_valid)
    is_valid &= has_class
    has_more_values = bool(parsed.n_shape_values.any())  # than four numbers and a confidence
    task = find_task(parsed, is_valid, options.task, log) if builder.wants and has_more_values else "detect"
    if task == "obb":
        is_valid = refuse_other_outlines(parsed, is_valid)
    if task == "detect" and parsed.is_outline[is_valid].any():
        parsed.report_outlines(is_valid)
    builder.skipped += int(len(is_valid) - is_valid.sum())

    size_of_box = sizes[image[is_valid]].astype(np.float64)
    corners, wh = parsed.make_corners(is_valid, box)
    columns: dict[str, Any] = {}
    if builder.wants and options.task != "detect":
        columns = make_columns(parsed, is_valid, size_of_box, task) if has_more_values else {}
        if plan.point_names or plan.flip_idx is not None:
            describe_points(plan, builder, parsed.classes)
    elif plan.n_point_numbers:
        # rows with more values than a class, a box and a confidence
        n_unread = int(np.count_nonzero(is_valid & ~parsed.is_outline & (parsed.n_values > 6)))
        if n_unread:
            builder.extras["keypoints"] = n_unread
    row_of_box = image_rows[image[is_valid]]
    if plan.tracks:
        columns["track"] = builder.tracks_of_images(row_of_box, parsed.track[is_valid])
    gather.add(
        image=row_of_box,
        category=category[is_valid],
        xyxy=corners * np.tile(size_of_box, 2),
        wh=wh * size_of_box,
        score=score[is_valid],
        file=file_rows[parsed.file[is_valid]],
        line=parsed.line[is_valid],
        **columns,
    )
    gather.finish()
    builder.margin = MARGIN  # trainers refuse an image with a label further outside


def _make_plan(source: Source, options: YoloOptions, log: Log) -> Plan:
    """Plan what to read of a source, from its description or else from the layout of its folders.

    Class names are chosen too, and files of the source that are not read are reported. Of a description that
    the user named, the plan's source is the folder around it.
    """
    description = ""
    if not source.is_dir and source.path.lower().endswith((".yaml", ".yml", ".data")):
        source = source.inner or NamedSource(source)  # inner: it was made before
        description = source.name
    plan = Plan(source, [])
    if not description and source.is_dir:
        description = find_yaml_file(source) or find_data_file(source) or ""
    if description:
        source.holds(description)  # so that the folder of a file that the user named is listed
        read_description = read_data_file if description.lower().endswith(".data") else read_yaml
        read_description(plan, description, options, log)
    files = list_files(source)
    if not plan.groups and plan.is_sound:
        find_groups(plan, files, options, log)
    elif description:
        files = keep_described(files, plan.named_folders)
    if source.is_dir:
        report_others(source, drop_own_files(files, plan.lists), log)
    settle_names(plan, files, options, log)
    return plan


KEEPS = frozenset({"score", "empty", "unused", "order", "split", "flip_idx"})
_SHAPES: dict[str, dict[str, Any]] = {
    "": {"keeps": {"oriented"}},
    "detect": {"keeps": set()},
    "segment": {"keeps": {"polygon"}, "shape_is_box": True, "boxes_as_shapes": True},
    "obb": {"keeps": {"oriented"}, "shape_is_box": True, "boxes_as_shapes": True},
    "pose": {"keeps": {"keypoints", "visibility"}},
}
"""What each task keeps of shapes; without one, those that may decide on it."""
_ADVICE = {
    "polygon": "task=segment",
    "mask": "task=segment",
    "oriented": "task=obb",
    "keypoints": "task=pose",
}


def adapt(options: YoloOptions) -> dict[str, Any]:
    """Return what the options change about the format: a task keeps certain shapes, and pictures sizes."""
    declared = _SHAPES[options.task or ""]
    with_pictures = {"size"} if options.link_images or options.copy_images else set()
    return {**declared, "keeps": KEEPS | with_pictures | declared["keeps"]}


def settle(options: YoloOptions, dataset: Dataset, shapes: str) -> YoloOptions:
    """Return the options with a task, if the user has not chosen one.

    With `shapes` as ``same`` it is the task whose shapes the dataset has: obb, segment, pose or detect. Other
    `shapes` are a kind to which all are converted, which decides; if empty, it is obb for a dataset of
    nothing but oriented boxes, else detect.
    """
    if options.task is not None:
        return options
    box_shapes = dataset.boxes.shapes
    kinds = set() if box_shapes is None else set(box_shapes.kind.tolist())
    task = "obb" if kinds == {ShapeKind.ORIENTED} else "detect"
    if shapes != "same":
        task_of = {"box": "detect", "polygon": "segment", "mask": "segment", "oriented": "obb"}
        task = task_of.get(shapes, task)
    elif kinds:
        task = "obb" if kinds <= {ShapeKind.ORIENTED, ShapeKind.NONE} else "segment"
    elif dataset.boxes.keypoints is not None:
        task = "pose"
    return dataclasses.replace(options, task=task)


FORMAT = format_of(
    __name__,
    title="YOLO (Ultralytics, darknet)",
    expects=("class x_center y_center width height",),
    use="training",
    written_by="Ultralytics, Roboflow, CVAT, Label Studio, labelImg, darknet (boxes, outlines, OBB)",
    suffixes=(".txt",),
    looks_at=(".txt", ".yaml", ".yml", ".data"),
    pictures=None,
    write=write,
    keeps=KEEPS | {"polygon", "oriented", "keypoints", "visibility"},
    split_names=frozenset(("train", "val", "test", "minival", *ALIASES)),
    shape_options=_ADVICE,
    max_error_px=1e-6,
    needs_size=True,
)
