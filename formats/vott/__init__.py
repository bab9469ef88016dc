"""VoTT: the CSV and the JSON that the Visual Object Tagging Tool exports, of version 1 and 2.

CSV has one row per box, with exactly these columns in this order (https://github.com/microsoft/VoTT)::

    "image","xmin","ymin","xmax","ymax","label"
    "street.jpg",10,20,110,220,"person"

Edges are in pixels, unchanged. A row with only a name is an image without objects, which VoTT itself does not
export. Quotes are optional. In a folder, all CSV files are read.

JSON is one file for the project, ``NAME-export.json``, or one for each picture, ``ID-asset.json``, as VoTT 2
keeps them beside the project::

    {"name": "streets", "version": "2.1.0", "tags": [{"name": "person", "color": "#5db300"}],
     "assets": {"ID": {"asset": {"id": "ID", "name": "street.jpg", "path": "file:/C:/street.jpg", "state": 2,
                                 "size": {"width": 640, "height": 480}, "type": 1},
                       "regions": [{"id": "R", "type": "RECTANGLE", "tags": ["person"],
                                    "boundingBox": {"left": 10, "top": 20, "width": 100, "height": 200}}]}}}

``boundingBox`` is in pixels, read and written unchanged. Polygons are counted and read as their bounding box,
with a warning; points and lines are not boxes and are counted. A region with several tags is read as one box
per tag. ``tags`` of the project are the classes, in that order. Pictures that were never opened (``state`` 0)
are left out and counted. If a folder contains an export, the files of single pictures beside it are not read.

Detections have a seventh column ``score``, or a ``score`` in each region, which VoTT itself does not have.
Sizes of images in CSV come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the
folder.

VoTT 1 has one JSON file with the regions of each picture, or each frame of a video, by its name or number::

    {"frames": {"street.jpg": [{"x1": 10, "y1": 20, "x2": 110, "y2": 220, "width": 640, "height": 480,
                                "type": "Rectangle", "tags": ["person"], "id": 1}]},
     "inputTags": "person,car", "visitedFrames": ["street.jpg", "empty.jpg"]}

``x1 y1 x2 y2`` are pixels, read unchanged; ``width`` and ``height`` are the size of the picture, and
``inputTags`` the classes in their order. Frames in ``visitedFrames`` without regions are images without
objects; other frames without regions were never opened, and are left out and counted.

Writing: one CSV file, or with ``-O dialect=json`` one JSON file of VoTT 2, which also keeps the sizes of
images and the order of classes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of, option
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.sniffing import sniff_json
from odm.formats.vott.project import looks_like, read_project, write_project
from odm.formats.vott.tables import read_tables, sniff_tables, write_table
from odm.issues import Log
from odm.tables import Builder, Dataset


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VottOptions(ImageOptions):
    """Which of the two exports is written."""

    dialect: str = option("csv", "which export to write", choices=("csv", "json"), side="write")


def sniff(source: Source) -> Sniff | None:
    """The header of the tables, above pixels, or the outermost keys of JSON."""
    return sniff_tables(source) or sniff_json(source, looks_like)


def read(source: Source, builder: Builder, log: Log, options: VottOptions) -> None:
    """Read a file, or the CSV or JSON files of a folder."""
    if sniff_json(source, looks_like) is not None or source.path.lower().endswith(".json"):
        read_project(source, builder, log, options)
    else:
        read_tables(source, builder, log, options)


def write(dataset: Dataset, target: Output, log: Log, options: VottOptions) -> None:
    """Write one file."""
    (write_project if options.dialect == "json" else write_table)(dataset, target, log)


def adapt(options: VottOptions) -> dict[str, Any]:
    """What the JSON export keeps."""
    if options.dialect == "csv":
        return {}
    keeps = frozenset({"size", "extension", "empty", "unused", "order", "score", "wh"})
    return {"suffixes": (".json",), "keeps": keeps}


FORMAT = format_of(
    __name__,
    title="VoTT CSV and JSON",
    use="annotation tools",
    written_by="VoTT 2 CSV and JSON (export, and one file per asset), VoTT 1 JSON",
    suffixes=(".csv",),
    looks_at=(".csv", ".json"),
    begins="[{",
    single=True,
    keeps=frozenset({"extension", "empty", "score"}),
)
