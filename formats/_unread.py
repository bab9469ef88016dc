"""Say what a source is that no format recognises: a file of another task, or how it differs from the nearest.

Called by `odm.formats.detect` for its message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from odm.files import Source
from odm.formats._contract import USES, Format, Signs
from odm.formats._shared.json.preview import LOOKED_AT, glance
from odm.issues import first_few, listed, plural, printable, shorten, spell
from odm.names import PICTURE_SUFFIXES

_PICTURE = rf"[^\t\r\n]+(?:{'|'.join(map(re.escape, sorted(PICTURE_SUFFIXES)))})"
_LISTS = {
    r"[ \t,]+[^\t\r\n]+\.(?:xml|json)": "a list of image files and their annotation files; give the folder "
    "of the annotation files",
    r"[ \t,]+[^\t\r\n]+\.png": "a list of image files and of masks for segmentation, without boxes; give "
    "the boxes in a format of their own",
    r"[ \t,]+[0-9]+": "a list of image files and the numbers of their classes, without boxes; only object "
    "detection is read",
    "": "a list of image files, without boxes; give the folder of the labels, or the data.yaml that names "
    "the list",
}
"""What lines of text are that begin with the path of a picture, by what follows it."""
_CELLS = re.compile(r"[,;\t]")
_SPACE = re.compile(r"[\s,;]+")


def _find_other_task(source: Source, file: str) -> str:
    """Recognise a file without boxes by its name and first bytes: what it is and what to give instead, or
    ``""``.
    """
    if source.relative(file).lower().endswith((".pkl", ".pickle", ".pt", ".pth")):
        return (
            "a Python pickle, which is never loaded because that can run any code; write JSON instead: "
            "MMDetection 2 with `--format-only` and `--eval-options jsonfile_prefix=results`, MMDetection 3 "
            "with `--cfg-options test_evaluator.format_only=True test_evaluator.outfile_prefix=results`"
        )
    head = source.head(file)
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    lines = lines[: max(1, len(lines) - 1) if len(head) > 4096 else None]  # the last may be cut
    cells = [[cell.strip() for cell in line.split(",")] for line in lines[:LOOKED_AT]]
    if len(cells) > 1 and cells[0][0].lower() in ("filename", "image", "image_name") and len(cells[0]) > 1:
        width = len(cells[0])
        if all(len(row) == width and {"0", "1"}.issuperset(row[1:]) for row in cells[1:]):
            return (
                "a table of classes of whole images, without boxes (multi-label classification, as Roboflow "
                "exports it); export the boxes as COCO, YOLO or VOC"
            )
    for tail, text in _LISTS.items() if lines else ():
        if all(re.fullmatch(_PICTURE + tail, line.strip(), re.IGNORECASE) for line in lines):
            return text
    return ""


def explain(source: Source, formats: Mapping[str, Format], signs: Mapping[str, Signs]) -> tuple[str, bool]:
    """Describe a source that no format recognises, and how it differs from the three nearest formats.

    Returns
    -------
    The end of the message, and whether it is a file of another task, so that no format would help.
    """
    data = [file for file in source.files if not file.lower().endswith(tuple(PICTURE_SUFFIXES))]
    if not data:
        n = plural(len(source.files), "image file")
        return (
            f"{n} and no annotations; give the annotations, and the folder of images as {spell('images')}",
            True,
        )
    texts = [_find_other_task(source, file) for file in data[:LOOKED_AT]]
    if all(texts):
        shown = f"{printable(data[0])} is " if data[0] else "this is "
        return shown + texts[0], True
    suffixes_of = {
        name: {suffix for suffix in signs[name][0] if suffix} if name in signs else set(format_.suffixes)
        for name, format_ in formats.items()
    }
    known = set[str]().union(*suffixes_of.values())
    file = next((file for file in data if _suffix_of(source, file) in known), data[0])
    suffix, head = _suffix_of(source, file), source.head(file).decode("utf-8", "replace")
    what = _describe(head, suffix)
    if source.is_dir:
        kinds = Counter(_suffix_of(source, each) or "no suffix" for each in data)
        counts = ", ".join(f"{n} with {kind}" for kind, n in kinds.most_common(3))
        what = f"{printable(file)}{f' of {len(data)} files ({counts})' * (len(data) > 1)}, {what}"
    near = []
    for name, format_ in formats.items():
        marks = format_.expects or tuple(word.strip('"') for word in format_.holds if word.isprintable())
        if suffix in suffixes_of[name] and marks:
            share, reason = _compare(head, marks, needs_all=bool(format_.expects))
            near.append((-share, suffix not in format_.suffixes, USES.index(format_.use), name, reason))
    reasons = "; ".join(f"{name}, but {reason}" for *_, name, reason in sorted(near)[:3])
    nearest = (
        f"the nearest formats are {reasons}" if near else f"no format has files with {suffix or 'no suffix'}"
    )
    return f"looked at {what}; {nearest}", False


def _suffix_of(source: Source, file: str) -> str:
    last = source.relative(file).rpartition("/")[2]
    return "." + last.rpartition(".")[2].lower() if "." in last else ""


def _describe(head: str, suffix: str) -> str:
    """What the first characters of a file show, as a noun."""
    text = head.lstrip("\ufeff \t\r\n")
    if "\0" in text:
        return "binary data"
    if text[:1] in ("{", "["):
        look = glance(head.encode())
        keys = [*(look.keys if look.top == "{" else look.first.get("", {}))]
        return f"JSON{' of records' if look.top == '[' else ''} with {_names(keys, 'key')}"
    if match := re.match(r"(?:<[?!][^>]*>\s*)*<([\w.:-]+)", text):
        return f"XML with the root {shorten(match[1], 30)}"
    line = next(iter(text.splitlines()), "").strip()
    if suffix in (".csv", ".tsv"):
        return f"a table with {_names(_CELLS.split(line), 'column')}"
    return f"text with the first line {shorten(line, 40)!r}" if line else "empty"


def _names(names: list[str], what: str) -> str:
    return (
        f"the {what}{'s' * (len(names) > 1)} {first_few(names, 5, lambda name: shorten(name, 20))}"
        if names
        else f"no {what}s"
    )


def _compare(head: str, marks: tuple[str, ...], *, needs_all: bool) -> tuple[float, str]:
    """How near a text is to a format, 0 to 1, and what is not as the format has it.

    One mark with spaces names the values of a row; otherwise marks are keys, elements or columns.
    """
    if " " in marks[0]:
        row = next(iter(head.split("\n")), "").strip()
        difference = len(_SPACE.split(row)) - len(marks[0].split())
        return 1 / (2 + abs(difference)), f"its rows are '{marks[0]}'"
    missing = [word for word in marks if not re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", head)]
    share = 1 - len(missing) / len(marks)
    if missing and (needs_all or share == 0):
        words = listed(missing, 3)
        return share, f"there is no {words}" if needs_all else f"there is none of {words}"
    present = [word for word in marks if word not in missing]
    place = "is not where the format has it" if len(present) == 1 else "are not where the format has them"
    return share, f"{listed(present, 3)} {place}"
