"""The layout of a dataset of TFRecords: features, files, splits, the label map, and the options."""

from __future__ import annotations

import dataclasses
import re

from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.codes import BAD_CLASS_LIST, BAD_LISTED_CLASS
from odm.formats._shared.split_names import SplitOptions
from odm.formats._shared.text.tokens import clean_text
from odm.issues import Code, Log
from odm.names import refuse_class
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
WHOLE_NAMES = frozenset({"data", "dataset", "annotations", "all", "out", "output"})
FLAGS = {
    "image/object/difficult": Flag.DIFFICULT,
    "image/object/truncated": Flag.TRUNCATED,
    "image/object/occluded": Flag.OCCLUDED,
    "image/object/is_crowd": Flag.CROWD,
    "image/object/group_of": Flag.GROUP_OF,
    "image/object/depiction": Flag.DEPICTION,
}
EDGES = ("xmin", "ymin", "xmax", "ymax")
TRUTH, DETECTION = "image/object/", "image/detection/"
TEXTS = (f"{TRUTH}class/text", f"{TRUTH}bbox/label_text")
LABELS = (f"{TRUTH}class/label", f"{TRUTH}bbox/label", f"{DETECTION}label")
IMAGE_KEYS = ("image/filename", "image/source_id", "image/width", "image/height")
READ_KEYS = frozenset(
    [*IMAGE_KEYS, *TEXTS, *LABELS, *FLAGS, f"{DETECTION}score"]
    + [f"{kind}bbox/{edge}" for kind in (TRUTH, DETECTION) for edge in EDGES]
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
    pictures: bool = option(True, "write the available pictures into the records", side="write")
    shards: int = option(0, "number of files for each split; 0: as few as at 100 MB each", side="write")


def find_files(source: Source) -> list[str]:
    """Return the files of a folder that are called like TFRecords."""
    names = ((file, file.rpartition("/")[2]) for file in source.files)
    # A name that is more than its stem has a suffix or the number of a part.
    return [file for file, name in names if (match := _NAME.fullmatch(name)) and match[1] != name]


def stem_of(file: str) -> str:
    """Return the name of a file without its suffix and the number of its part."""
    match = _NAME.fullmatch(file.rpartition("/")[2])
    return match[1] if match else ""


def split_of(file: str, *, several: bool) -> str:
    """Return the split in the name of a file or of its folder, else empty text.

    If `several` (files of different names), any other name is a split too.
    """
    name = stem_of(file)
    for text in (name, file.rpartition("/")[0].rpartition("/")[2]):
        if match := _SPLIT.fullmatch(text):
            return SPLITS.get(match[1].lower(), match[1].lower())
    return name if several and name.lower() not in WHOLE_NAMES else ""


# ------------------------------------------------------------------------------------------------ label map

_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')|#[^\n]*""")
_ITEM = re.compile(r"""item\s*+:?\s*+\{((?:[^{}"']|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')*+)\}\s*""")
_KEY = re.compile(
    r"""(?<!\w)(\w++)\s*+:\s*+(?:"((?:[^"\\\n]|\\.)*+)"|'((?:[^'\\\n]|\\.)*+)'|([-+\w.]+))\s*[,;]?\s*"""
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_SIGNS = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def read_label_map(data: bytes, path: str, log: Log) -> dict[int, str] | None:
    """Read a ``.pbtxt`` file: class names by id, ascending; None, after issues, if it is not usable.

    The ``display_name`` of an item goes before its ``name``.
    """
    n_errors = log.errors
    text = clean_text(data, path, log).decode("utf-8", "replace")
    text = _COMMENT.sub(lambda match: match[1] or "", text)
    names: dict[int, str] = {}
    position = len(text) - len(text.lstrip())
    line = 1 + text.count("\n", 0, position)
    while position < len(text):
        item = _ITEM.match(text, position)
        if item is None:
            log.report(BAD_CLASS_LIST, path, line=line, reason="expected items of an id and a name here")
            return None
        # The groups of `_KEY`: the key, and its value in double quotes, in single quotes or without.
        keys = {
            m[1]: m[4] if m[4] is not None else _unescape(m[2] or m[3] or "") for m in _KEY.finditer(item[1])
        }
        name = keys.get("display_name") or keys.get("name")
        id_text = keys.get("id", "")
        if name is None or not id_text.isdecimal() or len(id_text) > 9:
            log.report(BAD_CLASS_LIST, path, line=line, reason="an item has no name, or no id above 0")
        elif int(id_text) in names:
            log.report(BAD_CLASS_LIST, path, line=line, reason=f"the id {int(id_text)} occurs twice")
        elif (reason := refuse_class(name)) is not None:
            log.report(BAD_LISTED_CLASS, path, line=line, value=name, reason=reason)
        else:
            names[int(id_text)] = name
        line += text.count("\n", position, item.end())
        position = item.end()
    return dict(sorted(names.items())) if log.errors == n_errors else None


def _unescape(text: str) -> str:
    r"""Replace the escapes in a text, such as \n or \303\251 (bytes of UTF-8), by their characters."""

    def decode_escape(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, character = match.groups()
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        return bytes([int(hexadecimal, 16)]) if hexadecimal else _SIGNS.get(character, character)

    return _ESCAPE.sub(decode_escape, text.encode()).decode("utf-8", "replace")


def format_label_map(names: tuple[str, ...]) -> bytes:
    """Write the ``.pbtxt`` file of the class names; ids begin at 1, as 0 is the background."""
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    items = (f'item {{\n  id: {i}\n  name: "{name}"\n}}\n' for i, name in enumerate(quoted, 1))
    return "".join(items).encode()
