"""TFRecord of the TensorFlow Object Detection API: ``tf.train.Example`` records and ``label_map.pbtxt``.

Specification: "Preparing Inputs" of the TensorFlow Object Detection API and its ``tf_example_decoder.py``
(https://github.com/tensorflow/models/tree/master/research/object_detection)::

    train.tfrecord, or coco_train.record-00000-of-00100 and so on
        image/filename: "a.jpg"   image/width: 640   image/height: 480   image/encoded: <the picture>
        image/object/bbox/xmin: [0.1]   .../xmax: [0.3]   .../ymin: [0.1]   .../ymax: [0.5]
        image/object/class/text: ["person"]   image/object/class/label: [1]
    label_map.pbtxt
        item { id: 1 name: "person" }

Edges are relative to the image size; they are multiplied by ``image/width`` and ``image/height``. They are
32-bit floats, so pixels are preserved within 0.0002 in images of up to 5000 pixels.

Reading
-------
- A file, or the files of a folder that are called ``*.tfrecord``, ``*.tfrecords``, ``*.tfrec``, ``*.record``
  or ``*-00000-of-00010``. Every checksum is checked. Pictures are skipped, never decoded. ``train``, ``val``
  or ``test`` in the name of the file, or else of its folder, is the split; ``--split`` selects one.
- The image name is ``image/filename``, or else ``image/source_id``. A missing size is taken from the pictures
  (``--images``), ``--image-size`` or ``--image-sizes``.
- A class is the text of a box, or else the name of its label in the label map, or else the label itself, with
  a warning. The label map is the only ``.pbtxt`` of the folder, or else ``label_map.pbtxt`` or
  ``NAME_label_map.pbtxt`` beside the file, or given with ``-O label_map=FILE``. ``display_name`` takes
  precedence over ``name``. Without a label map, classes are in the order of their labels.
- ``image/object/difficult``, ``truncated``, ``occluded``, ``is_crowd``, ``group_of`` and ``depiction`` are
  read as the flags of these names.
- Detections are ``image/detection/bbox/*``, ``image/detection/label`` and ``image/detection/score``, as
  written by ``infer_detections.py``. They are read if there are no other boxes, or with ``--kind det``. A
  score is the shortest decimal for the same 32-bit float: 0.95, not 0.949999988079071.
- Files packed with gzip are refused.

Writing
-------
A folder with a file for each split, in shards of about 100 MB or the number given by ``-O shards=N``, and
``label_map.pbtxt`` with ids from 1. Available pictures, as with ``--images``, are copied to ``image/encoded``
unchanged, whatever their EXIF orientation; ``-O pictures=false`` leaves them out. Files without pictures
cannot be used for training; ``--copy-images`` makes it an error if they are not known. ``--link-images`` is
refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE
from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats._shared.json.values import check_classes
from odm.formats._shared.shapes.fractions import divide_by_images
from odm.formats.tfrecord.layout import (
    DETECTION,
    EDGES,
    FLAGS,
    NO_PICTURE_HERE,
    SHARD,
    TRUTH,
    TfrecordOptions,
    find_files,
    format_label_map,
)
from odm.formats.tfrecord.reader import read
from odm.formats.tfrecord.wire import Features, begins_record, encode_example, frame_record
from odm.issues import Log, printable, spell
from odm.tables import NO_ID, Dataset, Flag, Floats

_FORMATS = {b"\xff\xd8": b"jpeg", b"\x89P": b"png", b"GI": b"gif", b"BM": b"bmp"}


def sniff(source: Source) -> Sniff | None:
    """Recognise a file that begins with a length and its checksum."""
    for file in find_files(source)[:20] if source.is_dir else [""]:
        head = source.head(file)
        # A length below 2^40, its checksum, and 0x0A, the tag of field 1, with which an Example begins.
        if len(head) > 12 and head[5:8] == b"\0\0\0" and head[12] == 0x0A and begins_record(head):
            name = f"{printable(file)} begins" if file else "it begins"
            return Sniff(SURE, f"{name} with a record of TFRecord")
    return None


def write(dataset: Dataset, target: Output, log: Log, options: TfrecordOptions) -> None:
    """Write the files of each split, and ``label_map.pbtxt``; nothing after an issue."""
    images = dataset.images
    with_pictures = options.pictures and any(images.path)
    can_write = check_classes(dataset, log)
    # Of images with boxes `divide_by_images` reports the sizes that lack.
    is_without_boxes = np.bincount(dataset.boxes.image, minlength=len(images)) == 0
    lacks_size = is_without_boxes & (np.minimum(images.width, images.height) <= 0)
    lacks_picture = np.array([with_pictures and not path for path in images.path], bool)
    for code, is_faulty in ((NO_SIZE, lacks_size), (NO_PICTURE_HERE, lacks_picture)):
        for row in np.flatnonzero(is_faulty).tolist():
            path, line, pointer = dataset.image_place(row)
            log.report(code, path, line=line, pointer=pointer, value=images.name[row])
            can_write = False
    relative = divide_by_images(dataset, dataset.boxes.xyxy, log)
    shards = _plan_shards(dataset, target, options, with_pictures=with_pictures)
    names = [*(name for name, _ in shards), "label_map.pbtxt"]
    can_write &= target.plan(names, [f"the file {name}" for name in names], log)
    if not can_write or relative is None:
        return
    if not with_pictures and len(images):
        log.note(f"the records hold no pictures, which training needs ({spell('images')} DIR gives them)")
    boxes = dataset.boxes
    order = np.argsort(boxes.image, kind="stable")
    boxes_of_image = np.split(order, np.searchsorted(boxes.image[order], np.arange(1, len(images) + 1)))
    flags = {key: flag for key, flag in FLAGS.items() if boxes.has(flag).any()}
    for name, rows in log.track(shards, "writing"):
        records = []
        for row in rows:
            picture = target.read_picture(images.path[row]) if with_pictures else None
            features = _make_image_features(dataset, row, picture)
            features |= _make_box_features(dataset, boxes_of_image[row], relative, flags)
            records.append(frame_record(encode_example(features)))
        target.write(name, b"".join(records))
    target.write("label_map.pbtxt", format_label_map(dataset.categories.name))


def _plan_shards(
    dataset: Dataset, target: Output, options: TfrecordOptions, *, with_pictures: bool
) -> list[tuple[str, list[int]]]:
    """Divide the images into files: the name of each file, and the rows of its images."""
    images = dataset.images
    rows_of_split: dict[str, list[int]] = {}
    for row, split in enumerate(images.split):
        rows_of_split.setdefault(split, []).append(row)
    shards = []
    for split, rows in (rows_of_split or {"": []}).items():
        name = split or "data"
        n_files = options.shards
        if n_files <= 0:  # not set by the user: by the size of the pictures
            paths = [images.path[row] for row in rows if images.path[row]] if with_pictures else []
            n_bytes = sum(map(target.measure_picture, paths))
            n_files = -(-n_bytes // SHARD)  # rounded up
        n_files = max(1, min(n_files, len(rows)))
        if n_files == 1:
            shards.append((f"{name}.tfrecord", rows))
            continue
        bounds = [len(rows) * i // n_files for i in range(n_files + 1)]
        shards += [
            (f"{name}.tfrecord-{i:05}-of-{n_files:05}", rows[bounds[i] : bounds[i + 1]])
            for i in range(n_files)
        ]
    return shards


def _make_image_features(dataset: Dataset, row: int, picture: bytes | None) -> Features:
    """Return the features of an image for its record; `picture` is the content of its file, if it is kept."""
    images = dataset.images
    name = images.name[row].encode()
    source_id = images.source_id[row]
    features: Features = {
        "image/filename": [name],
        "image/source_id": [name if source_id == NO_ID else str(source_id).encode()],
        "image/width": np.array([images.width[row]], np.int64),
        "image/height": np.array([images.height[row]], np.int64),
    }
    if picture is not None:
        import hashlib  # slow to import, and few runs need it

        suffix = name.rpartition(b".")[2].lower()
        features["image/encoded"] = [picture]
        features["image/format"] = [_FORMATS.get(picture[:2], suffix)]
        features["image/key/sha256"] = [hashlib.sha256(picture).hexdigest().encode()]
    return features


def _make_box_features(
    dataset: Dataset, box_rows: NDArray[np.int64], relative: Floats, flags: dict[str, Flag]
) -> Features:
    """Return the features of the boxes in `box_rows` for the record of their image.

    `relative` (boxes, 4) are the edges of all boxes, as fractions, and `flags` those to write, by feature.
    """
    boxes, classes, is_det = dataset.boxes.take(box_rows), dataset.categories.name, dataset.kind == "det"
    prefix = DETECTION if is_det else TRUTH
    features: Features = {
        f"{prefix}bbox/{edge}": relative[box_rows, k].astype(np.float32) for k, edge in enumerate(EDGES)
    }
    features[f"{prefix}label" if is_det else f"{prefix}class/label"] = boxes.category.astype(np.int64) + 1
    if is_det:
        return features | {f"{DETECTION}score": boxes.score.astype(np.float32)}
    features[f"{TRUTH}class/text"] = [classes[c].encode() for c in boxes.category.tolist()]
    return features | {key: boxes.has(flag).astype(np.int64) for key, flag in flags.items()}


FORMAT = format_of(
    __name__,
    title="TFRecord of the TF Object Detection API",
    read=read,
    use="training",
    written_by="TensorFlow Object Detection API create_*_tf_record, Roboflow (single files and shards)",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".record"),
    looks_at=("",),
    begins=None,
    pictures=None,
    holds=("\0\0\0",),
    keeps=frozenset(
        {
            *("size", "extension", "empty", "unused", "order", "score", "split"),
            *("difficult", "truncated", "occluded", "crowd", "group_of", "depiction"),
        }
    ),
    max_error_px=2e-4,
    stored_scores=lambda scores: scores.astype(np.float32).astype(np.str_).astype(np.float64),
    needs_size=True,
)
