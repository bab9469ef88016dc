"""TFRecord of the TensorFlow Object Detection API: ``tf.train.Example`` records and ``label_map.pbtxt``.

Source: "Preparing Inputs" of the TensorFlow Object Detection API and its ``tf_example_decoder.py``
(https://github.com/tensorflow/models/tree/master/research/object_detection)::

    train.tfrecord, or coco_train.record-00000-of-00100 and so on
        image/filename: "a.jpg"   image/width: 640   image/height: 480   image/encoded: <the picture>
        image/object/bbox/xmin: [0.1]   .../xmax: [0.3]   .../ymin: [0.1]   .../ymax: [0.5]
        image/object/class/text: ["person"]   image/object/class/label: [1]
    label_map.pbtxt
        item { id: 1 name: "person" }

Edges are relative to the image's size; they are multiplied by ``image/width`` and ``image/height`` and
nothing else. They are numbers of 32 bits, so pixels come back within 0.0002 in images of up to 5000.

Reading
-------
- A file, or the files of a folder that are called ``*.tfrecord``, ``*.tfrecords``, ``*.tfrec``, ``*.record``
  or ``*-00000-of-00010``. Every checksum is checked. Pictures are passed over, never decoded. ``train``,
  ``val`` or ``test`` in the name of a file, else that of its folder, is the split; ``--split`` reads one.
- An image is named by ``image/filename``, else ``image/source_id``. A missing size is taken from the
  pictures (``--images``), ``--image-size`` or ``--image-sizes``.
- A class is the text of a box, else the name that the label map has for its label, else the label itself,
  with a warning. The label map is the one ``.pbtxt`` of the folder, else ``label_map.pbtxt`` or
  ``NAME_label_map.pbtxt`` beside the file, or given with ``-O label_map=FILE``. ``display_name`` goes before
  ``name``. Without one the classes are in the order of their labels.
- ``image/object/difficult``, ``truncated``, ``occluded``, ``is_crowd``, ``group_of`` and ``depiction`` are
  the marks of these names.
- Detections are ``image/detection/bbox/*``, ``image/detection/label`` and ``image/detection/score``, as
  ``infer_detections.py`` writes them. They are read if there is no other box, or with ``--kind det``. A score
  is the shortest decimal that means the same number of 32 bits: 0.95, not 0.949999988079071.
- Files packed with gzip are refused.

Writing
-------
A folder with a file for each split, in parts of about 100 MB or as many as ``-O shards=N`` says, and
``label_map.pbtxt`` with ids from 1. Pictures that are known, as with ``--images``, are put into
``image/encoded`` byte by byte, whatever orientation their EXIF data asks for; ``-O pictures=false`` leaves
them out. Without them nothing can be trained.
"""

from __future__ import annotations

from odm.files import Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats.tfrecord.layout import TfrecordOptions, files_of
from odm.formats.tfrecord.reader import read
from odm.formats.tfrecord.wire import begins_record
from odm.formats.tfrecord.writer import write
from odm.issues import printable


def sniff(source: Source) -> Sniff | None:
    """A length with its checksum."""
    for file in files_of(source)[:20] if source.is_dir else [""]:
        head = source.head(file)
        if len(head) > 12 and head[5:8] == b"\0\0\0" and head[12] == 0x0A and begins_record(head):
            name = f"{printable(file)} begins" if file else "it begins"
            return Sniff(SURE, f"{name} with a record of TFRecord")
    return None


FORMAT = Format(
    name="tfrecord",
    title="TFRecord of the TF Object Detection API",
    use="training",
    written_by="TensorFlow Object Detection API create_*_tf_record, Roboflow (single files and shards)",
    doc=__doc__ or "",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".record"),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=TfrecordOptions,
    keeps=frozenset(
        {
            *("size", "extension", "empty", "unused", "order", "score", "split"),
            *("difficult", "truncated", "occluded", "crowd", "group_of", "depiction"),
        }
    ),
    max_error_px=2e-4,
    needs_size=True,
)
