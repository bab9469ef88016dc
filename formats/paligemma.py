"""PaliGemma and Florence JSON lines: the boxes of an image as words of a language model.

References: "Object detection" in the documentation of PaliGemma (https://ai.google.dev/gemma/docs/paligemma)
and the processor of Florence-2 (https://huggingface.co/microsoft/Florence-2-base)::

    {"image": "a.jpg", "prefix": "detect cat ; dog", "suffix": "<loc0042><loc0016><loc0469><loc0176> cat"}
    {"image": "a.jpg", "prefix": "<OD>", "suffix": "cat<loc_15><loc_41><loc_171><loc_458>"}

Each record is on one line. In PaliGemma's, four numbers come before the class, in the order top, left,
bottom, right; they are parts of 1024 of the height or width, and semicolons separate objects. In
Florence's the class comes first, the order is left, top, right, bottom, and a number is the middle of one of
1000 parts; several boxes may follow a class. The size of the image comes from ``--images``, ``--image-size``,
``--image-sizes`` or the other side of an evaluation.

Records without places, such as captions and answers, are counted but not read, and so are the words of masks
(``<seg012>``). The name of a file (``_annotations.train.jsonl``) or of its folder gives the split.

This format is only read: so few steps would move every box, by half a pixel in an image of 1024.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from odm.files import Source
from odm.formats._contract import SURE
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.json.items import BadRecord, Item, Row, Rows, Size, read_line_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import to_pixels
from odm.formats._shared.json.values import Reader, choose_files
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, parse_split, select_split
from odm.issues import Log, Trusted
from odm.tables import Builder

_KEYS = declare_keys("image prefix suffix")
_SUFFIXES = (".jsonl", ".json")
_NUMBER = re.compile(r"<loc_?([0-9]+)>")
_PALIGEMMA = re.compile(r"\s*((?:<loc[0-9]{4}>){4})\s*((?:<seg[0-9]+>)*)\s*([^<]*[^<\s])\s*")
_FLORENCE = re.compile(r"\s*([^<]*[^<\s])\s*((?:(?:<loc_[0-9]{1,3}>){4})+)\s*")
_FLORENCE_OBJECTS = re.compile(r"[^<]*(?:<loc_[0-9]+>)+|.+", re.DOTALL)
"""The objects in Florence's text: a class with the numbers after it, or other text."""


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise records with an image and a suffix, and ``<loc`` in the first bytes."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # of a list
    # `keys` has the first character of each value: a quotation mark, as both are texts.
    if keys.get("image") == keys.get("suffix") == '"' and b"<loc" in head:
        return SURE, "its records have an image and a suffix with <loc...>, as PaliGemma and Florence have"
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the records one by one."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    files = choose_files(source, looks_like, "PaliGemma or Florence", log, _SUFFIXES)
    for file in log.track(select_split(files, parse_split, options.split, source, log), "reading"):
        for record in read_line_items(reader, file):
            with contextlib.suppress(BadRecord):
                _read_record(record, parse_split(file))
    reader.finish()


def _read_record(record: Item, split: str) -> None:
    """Add the image of a record and the objects in its suffix."""
    text = record.text("suffix").removesuffix("</s>")
    image = record.image("image", split=split)
    if text.strip() and not _NUMBER.search(text):
        record.reader.count("suffixes without places")
        return
    rows = Rows(record.reader, record.location / "suffix", list(_parse_objects(text)), record.origin)
    rows.read_relative(image, record, name=record.get("image"), size=None, read=_read_object)


def _parse_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield each object of a suffix as a record: class, edges relative to the image, whether it has a mask.

    Text that is no object is yielded as ``{"text": ...}``.
    """
    if "<loc_" not in text:  # PaliGemma, whose numbers are <loc0042>; Florence's are <loc_42>
        for object_text in filter(str.strip, text.split(";")):
            if match := _PALIGEMMA.fullmatch(object_text):  # four numbers, the words of a mask, a class
                top, left, bottom, right = (int(n) / 1024 for n in _NUMBER.findall(match[1]))
                yield {"class": match[3], "place": (left, top, right, bottom), "mask": bool(match[2])}
            else:
                yield {"text": object_text.strip()}
        return
    for object_text in filter(str.strip, _FLORENCE_OBJECTS.findall(text)):
        if match := _FLORENCE.fullmatch(object_text):  # a class and its numbers
            numbers = [(int(n) + 0.5) / 1000 for n in _NUMBER.findall(match[2])]  # four for each box
            yield from ({"class": match[1], "place": numbers[i : i + 4]} for i in range(0, len(numbers), 4))
        else:
            yield {"text": object_text.strip()}


def _read_object(row: Row, size: Size) -> None:
    """Add an object, or report a text that is none; `size` is (width, height) of the image."""
    if "text" in row:
        row.report(WRONG_COUNT, expected=Trusted("a class and four <loc...>"), found=row.get("text"))
        row.mark_bad()
        return
    if row.get("mask"):
        row.reader.count("masks")
    left, top, right, bottom = to_pixels(row.get("place"), size)
    row.add(row.category("class"), (left, top, right, bottom))


FORMAT = json_format_of(
    __name__,
    title="PaliGemma and Florence JSON lines",
    use="training",
    written_by="Roboflow (PaliGemma and Florence exports), and those who train these models",
    suffixes=(".jsonl",),
    looks_at=_SUFFIXES,
    single=True,
    holds=('"suffix"',),
    keeps=frozenset("extension empty split".split()),
    max_error_px=1,
    needs_size=True,
)
