"""Plain text files as boxes: the kind, the classes, the images, and what is wrong with them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE, SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Source
from odm.formats._shared.class_lists import add_list, read_list
from odm.formats._shared.codes import (
    COMMENTED,
    NOT_A_NUMBER,
    RELATIVE_RANGE,
    SCORE_RANGE,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.gather import At, Gather, decide_kind, own_folder, with_extension
from odm.formats._shared.image_names import image_places
from odm.formats._shared.pictures import FAR, LINKED_PICTURE, are_far
from odm.formats._shared.text_files import listing, report_others
from odm.formats._shared.text_tokens import NUMBER, Rows
from odm.formats.txt.meaning import TxtOptions, decide
from odm.formats.txt.rows import BOX_FIELDS, ParsedRows
from odm.issues import Log, Trusted, printable, shorten
from odm.tables import Builder, Flag, Floats, Ints, distinct

DAMAGED = re.compile(r".*[ \t][+-]?\.?[0-9][^ \t]*")
PLAIN = re.compile(r"0|[1-9][0-9]*")
"""A class that is only a number."""


def read(source: Source, builder: Builder, log: Log, options: TxtOptions) -> None:
    """Read a folder of text files, or one."""
    decided = options.decided or decide(source, log, options)
    parsed, meaning = decided.parsed, decided.meaning
    log.extend(parsed.log)
    if source.is_dir:
        report_others(source, listing(source), log)
    builder.skipped += parsed.lost
    log.extend(decided.log)
    for reason in meaning.reasons:
        log.note(f"{printable(source.path)}: {reason}")
    where = parsed.rows
    good = _check_scores(parsed, where, builder, log)
    files = np.array([builder.file(source.full(f)) for f in parsed.files], np.int32)
    gather = Gather(source, builder, log, options, own_folder(source), ask_other="needed")
    images, sizes, names = _add_images(parsed, files, gather, needed=meaning.is_relative)
    good &= images[parsed.file] >= 0 if len(parsed.file) else good
    category, known = _add_categories(parsed, where, good, builder, log, options)
    good &= known
    good &= meaning.clear
    _report_comments(parsed, good, log)
    corners, wh = _corners(parsed.box, meaning.box)
    if meaning.is_relative:
        far = good & are_far(parsed.box)
        where.report(log, RELATIVE_RANGE, np.flatnonzero(far), _report_far)
        good &= ~far
        size = sizes[parsed.file]
        unknown = good & (size[:, 0] == 0)
        if unknown.any() and not sizes.any() and not source.picture_links and not gather.pictures:
            builder.relative = True
            size, unknown = np.ones_like(size), np.zeros_like(unknown)
        for file in distinct(parsed.file[unknown]).tolist():
            code = LINKED_PICTURE if source.picture_links else NO_SIZE
            log.report(code, source.full(parsed.files[file]), value=names[file])
        good &= ~unknown
        corners = corners * np.tile(size, 2)
        wh = wh * size if wh is not None else None
    builder.skipped += int(len(good) - good.sum())
    gather.add(
        image=images[parsed.file][good],
        category=category[good],
        xyxy=corners[good],
        wh=None if wh is None else wh[good],
        score=parsed.score[good],
        flags=parsed.difficult[good] * np.uint16(Flag.DIFFICULT),
        file=files[parsed.file][good] if len(files) else parsed.file,
        line=parsed.line[good],
    )
    gather.finish()


def _check_scores(parsed: ParsedRows, where: Rows, builder: Builder, log: Log) -> NDArray[np.bool_]:
    """Decide on the kind, and report rows of the other one and scores outside 0..1; which rows are good."""
    scored = ~np.isnan(parsed.score)
    if not decide_kind(builder, int(scored.sum()), len(scored)):
        unlike = scored & (parsed.score >= 0) & (parsed.score <= 1)
        where.report(log, SCORE_UNEXPECTED, np.flatnonzero(unlike), _report_score)
        where.report(log, WRONG_COUNT, np.flatnonzero(scored & ~unlike), _report_extra)
        return ~scored
    # A value such as 0,9 or 1_0 before the box is a word to the grammar, and a damaged score to the user.
    damaged = np.array([DAMAGED.fullmatch(name) is not None for name in parsed.names] or [False])
    damaged_rows = ~scored & damaged[parsed.name]
    where.report(log, NOT_A_NUMBER, np.flatnonzero(damaged_rows), _report_score)
    where.report(log, SCORE_MISSING, np.flatnonzero(~scored & ~damaged_rows), lambda _: {})
    outside = scored & ~((parsed.score >= 0) & (parsed.score <= 1))
    where.report(log, SCORE_RANGE, np.flatnonzero(outside), _report_score)
    return scored & ~outside


def _report_score(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    return {"column": column, "field": "score", "value": value}


def _report_extra(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    way = f"if {shorten(value)} is part of the class name, separate the columns by tabs and use --sep tab"
    return {"column": column, "expected": "a class and 4 numbers", "found": f"5 numbers ({way})"}


def _report_far(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    for i, (column, value) in enumerate(cells[-4:]):
        if NUMBER.fullmatch(value) and not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": BOX_FIELDS[i], "value": value}
    return {"value": b""}


def _add_images(
    parsed: ParsedRows, files: Ints, gather: Gather, *, needed: bool
) -> tuple[Ints, NDArray[Any], list[str]]:
    """The image row of each file (-1 = refused), the (n, 2) sizes, 0 where unknown, and the names."""
    source = parsed.source
    mask = np.zeros(len(parsed.files), bool)
    mask[parsed.file] = needed
    used, numbers = mask.tolist(), files.tolist()
    rows = np.full(len(parsed.files), -1, np.int32)
    sizes = np.zeros((len(parsed.files), 2), np.int64)
    names = []
    places = image_places(source, parsed.files, gather.pictures)
    for i, (file, place) in enumerate(zip(parsed.files, places, strict=True)):
        at, number = At(source.full(file)), numbers[i]
        picture = gather.picture(place.key, at, place.picture)
        name = with_extension(place.key, picture)
        names.append(name)
        row = gather.image(name, at, picture=picture, needed=used[i], file=number)
        if row is not None:
            rows[i] = row
            if gather.asks or used[i]:
                sizes[i] = gather.builder.image_size(row)
    return rows, sizes, names


def _add_categories(
    parsed: ParsedRows, where: Rows, good: NDArray[np.bool_], builder: Builder, log: Log, options: TxtOptions
) -> tuple[Ints, NDArray[np.bool_]]:
    """The category row of each box, and which boxes have one."""
    used = distinct(parsed.name[good])
    texts = [parsed.names[i] for i in used.tolist()]
    table = np.full(len(parsed.names) + 1, -1, np.int32)
    if options.classes is not None:
        source = Source(options.classes, follow_links=True)
        names = read_list(source, "", log)
        if names is None:
            return np.zeros(len(parsed.name), np.int32), np.zeros(len(parsed.name), bool)
        listed = add_list(names, builder, log, options.classes)
        for i, text in zip(used.tolist(), texts, strict=True):
            if re.fullmatch(r"[0-9]+(\.0*)?", text) and (PLAIN.fullmatch(text) or text not in names):
                number = text.split(".")[0]
                table[i] = listed[int(number)] if len(number) < 10 and int(number) < len(listed) else -1
            else:
                table[i] = builder.category(text)
        column = table[parsed.name]
        unknown = good & (column < 0)
        where.report(
            log,
            UNKNOWN_CLASS,
            np.flatnonzero(unknown),
            lambda cells: {
                "column": cells[0][0] if cells else 0,
                "field": "class",
                "value": cells[0][1] if cells else b"",
                "n": len(listed),
                "where": options.classes,
            },
        )
        return column, column >= 0
    numbers = bool(texts) and all(PLAIN.fullmatch(text) and len(text) < 19 for text in texts)
    pairs = list(zip(texts, used.tolist(), strict=True))
    if numbers:
        pairs.sort(key=lambda pair: int(pair[0]))
    for text, i in pairs:
        table[i] = builder.category(text, source_id=int(text) if numbers else None)
    if numbers:
        builder.named = False
        log.note(
            f"{printable(where.source.path)}: there are no class names, only numbers, which are used as "
            "names (--classes FILE gives the names)"
        )
    return table[parsed.name], np.ones(len(parsed.name), bool)


def _report_comments(parsed: ParsedRows, good: NDArray[np.bool_], log: Log) -> None:
    """Report classes that look like rows that were commented out."""
    for i, name in enumerate(parsed.names):
        if name.startswith("#"):
            rows = np.flatnonzero(good & (parsed.name == i))
            n = len(rows)
            what = "a class" if n == 1 else f"a class of {n} boxes; this is the first"
            values = {"field": "class", "value": name, "what": Trusted(what)}
            parsed.rows.report(
                log,
                COMMENTED,
                rows[:1],
                lambda cells, v=values: {"column": cells[0][0], **v},  # type: ignore[misc]
            )


def _corners(box: Floats, layout: str) -> tuple[Floats, Floats | None]:
    """Left, top, right and bottom of (n, 4) numbers, and the width and height where they are given."""
    if layout == "ltrb":
        return box, None
    wh = box[:, 2:]
    low = box[:, :2] if layout == "ltwh" else box[:, :2] - wh / 2
    high = box[:, :2] + (wh if layout == "ltwh" else wh / 2)
    return np.concatenate([low, high], axis=1), wh
