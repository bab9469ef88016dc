"""Plain text files as boxes: the kind, the classes, the images, and what is wrong with them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE, SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Source
from odm.formats._shared.class_lists import add_list, given_list
from odm.formats._shared.codes import (
    COMMENTED,
    NOT_A_NUMBER,
    RELATIVE_RANGE,
    SCORE_RANGE,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.pictures import FAR, LINKED_PICTURE, are_far
from odm.formats._shared.text_files import listing, report_others
from odm.formats._shared.text_rows import Labels, gather_labels
from odm.formats._shared.text_tokens import NUMBER, Cell
from odm.formats.txt.meaning import TxtOptions, decide
from odm.formats.txt.rows import BOX_FIELDS
from odm.issues import Log, Trusted, printable, shorten
from odm.tables import Builder, Flag, Floats, Ints, distinct

DAMAGED = re.compile(r".*[ \t][+-]?\.?[0-9][^ \t]*")
PLAIN = re.compile(r"0|[1-9][0-9]*")
"""A class that is only a number."""


def read(source: Source, builder: Builder, log: Log, options: TxtOptions) -> None:
    """Read a folder of text files, or one."""
    decided = options.decided or decide((source,), log, options)[0]
    meaning, n = decided.meaning, len(decided.labels.files)
    log.extend(decided.labels.log)
    if source.is_dir:
        report_others(source, listing(source), log)
    log.extend(decided.log)
    for reason in meaning.reasons:
        log.note(f"{printable(source.path)}: {reason}")
    labels = decided.labels.attach(gather_labels(source, builder, log, options))
    good = _check_scores(labels)
    needed, file = np.zeros(n, bool), labels.rows.file
    needed[file] = meaning.is_relative
    images = labels.add_images(needed)
    good &= images[0][file] >= 0 if len(file) else good
    category, known = _add_categories(labels, good, options)
    good &= known
    good &= meaning.clear
    for i, name in enumerate(labels.texts):
        mask = good & (labels.name == i) if name.startswith("#") else good[:0]
        if n := int(mask.sum()):
            what = "a class" if n == 1 else f"a class of {n} boxes; this is the first"
            mask[np.argmax(mask) + 1 :] = False
            labels.report(COMMENTED, mask, 0, "class", value=name, what=Trusted(what))
    corners, wh = _corners(labels.values, meaning.box)
    if meaning.is_relative:
        far = good & are_far(labels.values)
        labels.rows.report(log, RELATIVE_RANGE, np.flatnonzero(far), _report_far)
        good &= ~far
        sizes = np.array([builder.image_size(row) if row >= 0 else (0, 0) for row in images[0].tolist()])
        size = sizes.reshape(-1, 2)[file]
        unknown = good & (size[:, 0] == 0)
        if unknown.any() and not sizes.any() and not source.picture_links and not labels.gather.pictures:
            builder.relative = True
            size, unknown = np.ones_like(size), np.zeros_like(unknown)
        names = builder.image_names
        for i in distinct(file[unknown]).tolist():
            code = LINKED_PICTURE if source.picture_links else NO_SIZE
            log.report(code, source.full(labels.files[i]), value=names[images[0][i]])
        good &= ~unknown
        corners = corners * np.tile(size, 2)
        wh = wh * size if wh is not None else None
    flags = labels.ended * np.uint16(Flag.DIFFICULT)
    labels.add(good, category, corners, images=images, wh=wh, flags=flags)


def _check_scores(labels: Labels) -> NDArray[np.bool_]:
    """Decide on the kind, and report rows of the other one and scores outside 0..1; which rows are good."""
    scored = ~np.isnan(labels.score)
    inside: NDArray[np.bool_] = (labels.score >= 0) & (labels.score <= 1)
    if not decide_kind(labels.builder, int(scored.sum()), len(scored)):
        labels.report(SCORE_UNEXPECTED, scored & inside, -5, "score")
        labels.rows.report(labels.log, WRONG_COUNT, np.flatnonzero(scored & ~inside), _report_extra)
        return ~np.asarray(scored, bool)
    # A value such as 0,9 or 1_0 before the box is a word to the grammar, and a damaged score to the user.
    damaged = np.array([DAMAGED.fullmatch(name) is not None for name in labels.texts] or [False])
    damaged_rows = ~scored & damaged[labels.name]
    labels.report(NOT_A_NUMBER, damaged_rows, -5, "score")
    labels.rows.report(labels.log, SCORE_MISSING, np.flatnonzero(~scored & ~damaged_rows), lambda _: {})
    labels.report(SCORE_RANGE, scored & ~inside, -5, "score")
    return inside  # NaN is not


def _report_extra(cells: list[Cell]) -> dict[str, Any]:
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    way = f"if {shorten(value)} is part of the class name, separate the columns by tabs and use --sep tab"
    return {"column": column, "expected": "a class and 4 numbers", "found": f"5 numbers ({way})"}


def _report_far(cells: list[Cell]) -> dict[str, Any]:
    for i, (column, value) in enumerate(cells[-4:]):
        if NUMBER.fullmatch(value) and not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": BOX_FIELDS[i], "value": value}
    return {"value": b""}


def _add_categories(
    labels: Labels, good: NDArray[np.bool_], options: TxtOptions
) -> tuple[Ints, NDArray[np.bool_]]:
    """The category row of each box, and which boxes have one."""
    builder, log = labels.builder, labels.log
    used = distinct(labels.name[good])
    texts = [labels.texts[i] for i in used.tolist()]
    table = np.full(len(labels.texts) + 1, -1, np.int32)
    if options.classes is not None:
        names, where = given_list(options.classes, labels.source, "", log)
        if names is None:
            return np.zeros(len(labels), np.int32), np.zeros(len(labels), bool)
        listed = add_list(names, builder, log, where)
        for i, text in zip(used.tolist(), texts, strict=True):
            if re.fullmatch(r"[0-9]+(\.0*)?", text) and (PLAIN.fullmatch(text) or text not in names):
                number = text.split(".")[0]
                table[i] = listed[int(number)] if len(number) < 10 and int(number) < len(listed) else -1
            else:
                table[i] = builder.category(text)
        column = table[labels.name]
        labels.report(UNKNOWN_CLASS, good & (column < 0), 0, "class", n=len(listed), where=where)
        return column, column >= 0
    numbers = bool(texts) and all(PLAIN.fullmatch(text) and len(text) < 19 for text in texts)
    pairs = list(zip(texts, used.tolist(), strict=True))
    if numbers:
        pairs.sort(key=lambda pair: int(pair[0]))
        builder.named = False
        log.note(
            f"{printable(labels.source.path)}: there are no class names, only numbers, which are used as "
            "names (--classes FILE gives the names)"
        )
    for text, i in pairs:
        table[i] = builder.category(text, source_id=int(text) if numbers else None)
    return table[labels.name], np.ones(len(labels), bool)


def _corners(box: Floats, layout: str) -> tuple[Floats, Floats | None]:
    """Left, top, right and bottom of (n, 4) numbers, and the width and height where they are given."""
    if layout == "ltrb":
        return box, None
    wh = box[:, 2:]
    low = box[:, :2] if layout == "ltwh" else box[:, :2] - wh / 2
    high = box[:, :2] + (wh if layout == "ltwh" else wh / 2)
    return np.concatenate([low, high], axis=1), wh
