"""The layout of a data set of TFRecords: names of features, files and splits, and the options."""

from __future__ import annotations

import dataclasses
import re

from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.splits import SplitOptions
from odm.issues import Code
from odm.tables import Flag

BAD_RECORD = Code(
    "tfrecord-damaged",
    "error",
    "cannot read the record: {reason}",
    "copy the file again, or recreate it with the program that wrote it",
    "Each record has checksums of its length and content. A wrong one means that bytes were lost or "
    "changed; a record without features is not a tf.train.Example.",
    file=True,
)
LENGTHS = Code(
    "tfrecord-lengths",
    "error",
    "expected {n} values of {value}, one for each box, found {found}",
    "write one value per box in each list",
    "The lists of an image run in parallel. If one is shorter, it is unclear which value belongs to which "
    "box.",
    file=True,
)
NO_PICTURE_HERE = Code(
    "tfrecord-picture-unknown",
    "error",
    "the picture of {value!r} was not found, but those of other images are written",
    "provide all of them with --images DIR (and --follow-links if they are behind links), or leave them out "
    "with -O pictures=false",
    "Training programs expect image/encoded in every record, and stop at the first one without it.",
)

_NAME = re.compile(r"(.+?)(?:\.(?:tfrecords?|tfrec|record))?(?:-[0-9]{5}-of-[0-9]{5})?", re.IGNORECASE)
_SPLIT = re.compile(r"(?:.*[-_.])?(train|val|valid|validation|eval|test|testdev)(?:[-_.].*)?", re.IGNORECASE)
SPLITS = {"valid": "val", "validation": "val", "eval": "val", "testdev": "test"}
WHOLE = frozenset({"data", "dataset", "annotations", "all", "out", "output"})
FLAGS = {
    "image/object/difficult": Flag.DIFFICULT,
    "image/object/truncated": Flag.TRUNCATED,
    "image/object/occluded": Flag.OCCLUDED,
    "image/object/is_crowd": Flag.CROWD,
    "image/object/group_of": Flag.GROUP_OF,
    "image/object/depiction": Flag.DEPICTION,
}
EDGES = ("xmin", "ymin", "xmax", "ymax")
TRUTH, FOUND = "image/object/", "image/detection/"
TEXTS = (f"{TRUTH}class/text", f"{TRUTH}bbox/label_text")
LABELS = (f"{TRUTH}class/label", f"{TRUTH}bbox/label", f"{FOUND}label")
ABOUT = ("image/filename", "image/source_id", "image/width", "image/height")
WANTED = frozenset(
    [*ABOUT, *TEXTS, *LABELS, *FLAGS, f"{FOUND}score"]
    + [f"{kind}bbox/{edge}" for kind in (TRUTH, FOUND) for edge in EDGES]
)
PICTURE = ("image/encoded", "image/format", "image/key/sha256", "image/channels", "image/colorspace")
SHARD = 100 * 2**20
"""Bytes of pictures in one file."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TfrecordOptions(SplitOptions):
    """Where the names of classes are, and what is written."""

    label_map: str | None = option(
        None, "file with the ids and names of classes (.pbtxt)", side="read", path=True
    )
    pictures: bool = option(True, "write the pictures that are known into the records", side="write")
    shards: int = option(0, "number of files for each split, 0 for as few as 100 MB each allow", side="write")


def files_of(source: Source) -> list[str]:
    """The files of a folder that are called like TFRecords."""
    names = ((file, file.rpartition("/")[2]) for file in source.files)
    return [file for file, name in names if (match := _NAME.fullmatch(name)) and match[1] != name]


def stem_of(file: str) -> str:
    """The name of a file without its suffix and the number of its part."""
    match = _NAME.fullmatch(file.rpartition("/")[2])
    return match[1] if match else ""


def split_of(file: str, *, several: bool) -> str:
    """The split in the name of a file or of its folder, or an empty string."""
    name = stem_of(file)
    for part in (name, file.rpartition("/")[0].rpartition("/")[2]):
        if match := _SPLIT.fullmatch(part):
            return SPLITS.get(match[1].lower(), match[1].lower())
    return name if several and name.lower() not in WHOLE else ""
