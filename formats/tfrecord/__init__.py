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
cannot be used for training.
"""

from __future__ import annotations

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats.tfrecord.layout import TfrecordOptions, files_of
from odm.formats.tfrecord.wire import begins_record
from odm.issues import Log, printable
from odm.tables import Builder, Dataset


def sniff(source: Source) -> Sniff | None:
    """A length with its checksum."""
    for file in files_of(source)[:20] if source.is_dir else [""]:
        head = source.head(file)
        if len(head) > 12 and head[5:8] == b"\0\0\0" and head[12] == 0x0A and begins_record(head):
            name = f"{printable(file)} begins" if file else "it begins"
            return Sniff(SURE, f"{name} with a record of TFRecord")
    return None


def read(source: Source, builder: Builder, log: Log, options: TfrecordOptions) -> None:
    """Read a file, or those of a folder."""
    from odm.formats.tfrecord import reader

    reader.read(source, builder, log, options)


def write(dataset: Dataset, target: Output, log: Log, options: TfrecordOptions) -> None:
    """Write the files of each split, and ``label_map.pbtxt``."""
    from odm.formats.tfrecord import writer

    writer.write(dataset, target, log, options)


FORMAT = format_of(
    __name__,
    title="TFRecord of the TF Object Detection API",
    use="training",
    written_by="TensorFlow Object Detection API create_*_tf_record, Roboflow (single files and shards)",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".record"),
    looks_at=("",),
    begins=None,
    single=False,
    pictures=None,
    keeps=frozenset(
        {
            *("size", "extension", "empty", "unused", "order", "score", "split"),
            *("difficult", "truncated", "occluded", "crowd", "group_of", "depiction"),
        }
    ),
    max_error_px=2e-4,
    needs_size=True,
)
