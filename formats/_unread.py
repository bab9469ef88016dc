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
"""Descriptions of files whose lines begin with the path of a picture, by the pattern of the rest."""
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
    if len(head) > 4096 and len(lines) > 1:  # of a long file, the last line that was read may be cut
        lines.pop()
    # A header "filename,cat,dog" and rows "a.jpg,0,1".
    table = [[cell.strip() for cell in line.split(",")] for line in lines[:LOOKED_AT]]
    if len(table) > 1 and table[0][0].lower() in ("filename", "image", "image_name") and len(table[0]) > 1:
        n_columns = len(table[0])
        if all(len(row) == n_columns and {"0", "1"}.issuperset(row[1:]) for row in table[1:]):
            return (
                "a table of classes of whole images, without boxes (multi-label classification, as Roboflow "
                "exports it); export the boxes as COCO, YOLO or VOC"
            )
    for pattern, text in _LISTS.items() if lines else ():
        if all(re.fullmatch(_PICTURE + pattern, line.strip(), re.IGNORECASE) for line in lines):
            return text
    return ""


def explain(source: Source, formats: Mapping[str, Format], signs: Mapping[str, Signs]) -> tuple[str, bool]:
    """Describe a source that no format recognises, and how it differs from the three nearest formats.

    Returns
    -------
    The end of the message, and whether it is a file of another task, so that no format would help.
    """
    data_files = [file for file in source.files if not file.lower().endswith(tuple(PICTURE_SUFFIXES))]
    if not data_files:
        text = f"{plural(len(source.files), 'image file')} and no annotations; give the annotations, "
        return text + f"and the folder of images as {spell('images')}", True
    task_descriptions = [_find_other_task(source, file) for file in data_files[:LOOKED_AT]]
    if all(task_descriptions):
        subject = f"{printable(data_files[0])} is " if data_files[0] else "this is "
        return subject + task_descriptions[0], True
    # The file to compare: the first with the suffix of a format, else the first.
    suffixes_of = {  # signs[name][0] are the suffixes that the format looks at, "" for any file
        name: {suffix for suffix in signs[name][0] if suffix} if name in signs else set(format_.suffixes)
        for name, format_ in formats.items()
    }
    known_suffixes = set[str]().union(*suffixes_of.values())
    file = next((file for file in data_files if _suffix_of(source, file) in known_suffixes), data_files[0])
    suffix, head = _suffix_of(source, file), source.head(file).decode("utf-8", "replace")
    description = _describe(head, suffix)
    if source.is_dir:
        suffix_counts = Counter(_suffix_of(source, data_file) or "no suffix" for data_file in data_files)
        counts = ", ".join(f"{n_of_kind} with {kind}" for kind, n_of_kind in suffix_counts.most_common(3))
        among_text = f" of {len(data_files)} files ({counts})" if len(data_files) > 1 else ""
        description = f"{printable(file)}{among_text}, {description}"
    # The nearest formats: by the share of keywords, then usual before unusual suffixes, then by use.
    comparisons = []
    for name, format_ in formats.items():
        # `holds` has some keys with their quotes, and unprintable characters, which are left out here.
        keywords = format_.expects or tuple(word.strip('"') for word in format_.holds if word.isprintable())
        if suffix in suffixes_of[name] and keywords:  # a file has all of `expects`, or one of `holds`
            share, reason = _compare(head, keywords, needs_all=bool(format_.expects))
            is_unusual, use = suffix not in format_.suffixes, USES.index(format_.use)
            comparisons.append((-share, is_unusual, use, name, reason))  # in the order of sorting
    reasons = "; ".join(f"{name}, but {reason}" for *_, name, reason in sorted(comparisons)[:3])
    nearest = f"the nearest formats are {reasons}"
    nearest = nearest if comparisons else f"no format has files with {suffix or 'no suffix'}"
    return f"looked at {description}; {nearest}", False


def _suffix_of(source: Source, file: str) -> str:
    """The suffix of a file in lower case, such as ``.json``; ``""`` for a name without a dot."""
    file_name = source.relative(file).rpartition("/")[2]
    return "." + file_name.rpartition(".")[2].lower() if "." in file_name else ""


def _describe(head: str, suffix: str) -> str:
    """Describe a file by its first characters, as in "JSON of records with the keys name and labels"."""
    text = head.lstrip("\ufeff \t\r\n")
    if "\0" in text:
        return "binary data"
    if text[:1] in ("{", "["):
        preview = glance(head.encode())
        # Of the object, or of the first record of the list that is the whole text.
        keys = [*(preview.keys if preview.top == "{" else preview.first.get("", {}))]
        return f"JSON{' of records' if preview.top == '[' else ''} with {_list_names(keys, 'key')}"
    # The first element after <?xml ...?>, <!DOCTYPE ...> and comments.
    if match := re.match(r"(?:<[?!][^>]*>\s*)*<([\w.:-]+)", text):
        return f"XML with the root {shorten(match[1], 30)}"
    line = next(iter(text.splitlines()), "").strip()
    if suffix in (".csv", ".tsv"):
        return f"a table with {_list_names(_CELLS.split(line), 'column')}"
    return f"text with the first line {shorten(line, 40)!r}" if line else "empty"


def _list_names(names: list[str], noun: str) -> str:
    """Words for the keys or columns that a file has, as in "the keys name and labels" or "no keys"."""
    if not names:
        return f"no {noun}s"
    return f"the {noun}{'s' * (len(names) > 1)} {first_few(names, 5, lambda name: shorten(name, 20))}"


def _compare(head: str, keywords: tuple[str, ...], *, needs_all: bool) -> tuple[float, str]:
    """Compare the first characters of a file with the keywords of a format that did not recognise it.

    `keywords` are keys, elements or columns, of which a file has one, or all if `needs_all`; or one entry
    with the names of the values of a row. Returns how near the file is, 0 to 1, and the difference in words.
    """
    if " " in keywords[0]:  # 1/2 for rows with the right number of values, 1/3 for one more or less, ...
        row = next(iter(head.split("\n")), "").strip()
        n_extra_values = len(_SPACE.split(row)) - len(keywords[0].split())
        return 1 / (2 + abs(n_extra_values)), f"its rows are '{keywords[0]}'"
    pattern = r"(?<![A-Za-z]){}(?![A-Za-z])"  # a whole word
    missing = [word for word in keywords if not re.search(pattern.format(re.escape(word)), head)]
    share = 1 - len(missing) / len(keywords)
    if missing and (needs_all or share == 0):
        words = listed(missing, 3)
        return share, f"there is no {words}" if needs_all else f"there is none of {words}"
    # The keywords are there, but not where the format has them, or it would recognise the file.
    present = [word for word in keywords if word not in missing]
    ending = "is not where the format has it" if len(present) == 1 else "are not where the format has them"
    return share, f"{listed(present, 3)} {ending}"
