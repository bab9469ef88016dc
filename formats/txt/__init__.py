"""Plain text: one ``.txt`` file per image, one box per line.

Ground truth   ``<class> <4 numbers>``
Detections     ``<class> <confidence> <4 numbers>``

The file name without ``.txt`` is the image name; an empty file is an image without objects. Class names may
contain spaces: the numbers are taken from the right. Values are separated by any run of spaces or tabs, or by
``--sep``, in which case a class may end in a number (``route 66,10,20,30,40``). A byte order mark, CRLF,
blank lines, trailing spaces, ``.88``, ``1e-3`` and a missing final newline are accepted. Quotes around a
class are an error, because the format has no quotes. The word ``difficult`` after the numbers, as in the
ground truth of Cartucho's mAP, is read as that flag, and not written.

What the four numbers mean
    ``--box ltrb`` (left top right bottom), ``ltwh`` (left top width height) or ``cxcywh`` (centre, width,
    height); ``--coords abs`` (pixels) or ``rel`` (fractions of the width and height of the image, which
    need image sizes: ``--image-size``, ``--images``, ``--image-sizes``; without any they stay fractions). If
    these options are omitted:

    - if all values are in 0..1, they are ``rel``, and ``rel`` means ``cxcywh``;
    - pixels are ``ltrb`` if no row has right < left or bottom < top, and ``ltwh`` if at least one row in 20
      has (and three rows, or all of a small set). Anything in between is an error that gives both counts. If
      one box in five as ``ltwh`` reaches out of an image of known size, they are ``ltrb``, some exchanged.

    The decision is made for the whole folder, in an evaluation for both sides together, and printed as a
    note. Where another reading fits as well, ``box-layout-guessed`` warns of that, also with ``--quiet``: no
    box is inverted, or reaches out of its image (by size, or below 0). From 20 boxes on, ``ltrb`` is doubted
    only if all images have sizes: some of so many widths would be less than the left edge.

Ground truth or detections
    The majority of the rows decides, or ``--kind``; rows of the other kind are errors. Confidences are in
    0..1.

Classes
    Words are class names. Whole numbers are names too, unless ``--classes FILE`` (one name per line, or a
    ``data.yaml``) gives their names. Class names are kept exactly, except for leading and trailing spaces.

Writing
    ``<class> <4 numbers>`` or ``<class> <confidence> <4 numbers>``, ltrb in pixels unless ``--box`` and
    ``--coords`` are given; numbers have the fewest digits that read back exactly. With ``--coords rel`` they
    have enough decimals to preserve pixels within 1e-6. ``-O spaces=underscore`` writes underscores for the
    spaces in classes, at which other programs split the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import LAYOUT_GUESSED, NO_SIZE, SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import LIKELY, POOR, Sniff, format_of
from odm.formats._shared.class_lists import UNWRITABLE, add_list, has_space, read_class_list
from odm.formats._shared.codes import (
    COMMENTED,
    NOT_A_NUMBER,
    RELATIVE_RANGE,
    SCORE_RANGE,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.image_names import note_folders
from odm.formats._shared.pictures import LINKED_PICTURE
from odm.formats._shared.shapes.fractions import FAR, are_far, divide_by_images
from odm.formats._shared.text.label_files import list_files, report_others, sample
from odm.formats._shared.text.label_rows import Labels, gather_labels
from odm.formats._shared.text.numbers import Cells, to_decimals, to_fixed_cells
from odm.formats._shared.text.tokens import NUMBER, Cell, describe_lines, format_pages, format_relative
from odm.formats.txt.meaning import (
    BOX_FIELDS,
    QUOTED,
    Meaning,
    TxtOptions,
    decide,
    decide_together,
    decode_name,
    find_alternatives,
    find_corners,
)
from odm.issues import Log, Trusted, plural, printable, shorten, spell, spell_setting
from odm.names import refuse_class, stem
from odm.tables import Builder, Dataset, Flag, Floats, Ints, Kind, distinct

DAMAGED = re.compile(r".*[ \t][+-]?\.?[0-9][^ \t]*")
"""A class name whose last word begins like a number, such as ``dog 0,9``."""
PLAIN = re.compile(r"0|[1-9][0-9]*")
"""A class that is only a number."""


def sniff(source: Source) -> Sniff | None:
    """Recognise label files with words as classes, or with pixels."""
    labels = list_files(source).labels
    if not labels or any(f.lower().endswith(".xml") for f in source.files):
        return None
    if not source.is_dir and not source.path.lower().endswith(".txt"):
        return None
    counts = sample(source, labels)
    if not counts.lines:
        return Sniff(LIKELY, counts.empty)
    if 2 * counts.separated > counts.lines:
        lines_text = describe_lines(counts.separated, counts.lines)
        return Sniff(LIKELY, f"{lines_text} a class and numbers with separators")
    n_fitting = counts.named + counts.pixels
    # Most lines of labels have at least two numbers: other text has not.
    n_numeric = sum(n for count, n in counts.counts.items() if count >= 2)
    if n_fitting < counts.relative or 2 * n_numeric <= sum(counts.counts.values()):
        return None
    lines_text = f"{describe_lines(counts.rows, counts.lines)} a class and numbers"
    if not counts.rows:
        return Sniff(POOR, f"these are .txt files with numbers, although {lines_text}")
    if counts.named >= counts.pixels:
        return Sniff(LIKELY, f"{lines_text}, and the classes are words")
    return Sniff(LIKELY, f"{lines_text} in pixels")


def read(source: Source, builder: Builder, log: Log, options: TxtOptions) -> None:
    """Read a folder of text files, or one; what its numbers mean is `options.decided`, or decided here."""
    decided = options.decided or decide((source,), log, options)[0]
    meaning, n_files = decided.meaning, len(decided.labels.files)
    log.extend(decided.labels.log)
    if source.is_dir:
        report_others(source, list_files(source), log)
    log.extend(decided.log)
    labels = decided.labels.attach(gather_labels(source, builder, log, options))
    is_valid = _check_scores(labels)

    # The image of each file, and the classes; rows without one of them are left out.
    needs_size, file = np.zeros(n_files, bool), labels.rows.file
    needs_size[file] = meaning.is_relative
    images = labels.add_images(needs_size)
    image_of_file, _ = images
    is_valid &= image_of_file[file] >= 0
    category, has_class = _add_categories(labels, is_valid, options)
    is_valid &= has_class
    is_valid &= meaning.is_clear
    _report_commented(labels, is_valid)

    # The layout of the boxes, which sizes of images may decide, and their edges.
    sizes = np.array([builder.image_size(row) if row >= 0 else (0, 0) for row in image_of_file.tolist()])
    size_of_box = sizes.reshape(-1, 2)[file]
    box, reasons = _check_guess(labels, is_valid, size_of_box, meaning)
    for reason in reasons:
        log.note(f"{printable(source.path)}: {reason}")
    corners, wh = find_corners(labels.values, box)
    if meaning.is_relative:
        is_far = is_valid & are_far(labels.values)
        labels.rows.report(log, RELATIVE_RANGE, np.flatnonzero(is_far), _describe_far)
        is_valid &= ~is_far
        lacks_size = is_valid & (size_of_box[:, 0] == 0)
        if lacks_size.any() and not sizes.any() and not source.picture_links and not labels.gather.pictures:
            # no image has a size, and none could have: all stay fractions
            builder.relative = True
            size_of_box, lacks_size = np.ones_like(size_of_box), np.zeros_like(lacks_size)
        names = builder.image_names
        for i in distinct(file[lacks_size]).tolist():
            code = LINKED_PICTURE if source.picture_links else NO_SIZE
            log.report(code, source.full(labels.files[i]), value=names[image_of_file[i]])
        is_valid &= ~lacks_size
        corners = corners * np.tile(size_of_box, 2)
        wh = wh * size_of_box if wh is not None else None
    flags = labels.ended * np.uint16(Flag.DIFFICULT)  # rows that end in the word for it
    labels.add(is_valid, category, corners, images=images, wh=wh, flags=flags)


def _report_commented(labels: Labels, is_valid: NDArray[np.bool_]) -> None:
    """Report class names that begin with ``#``, each at its first valid box; the boxes stay valid."""
    for i, name in enumerate(labels.texts):
        if not name.startswith("#"):
            continue
        is_commented = is_valid & (labels.name == i)
        if n := int(is_commented.sum()):
            noun = "a class" if n == 1 else f"a class of {n} boxes; this is the first"
            is_commented[np.argmax(is_commented) + 1 :] = False  # all but the first
            labels.report(COMMENTED, is_commented, position=0, field="class", value=name, what=Trusted(noun))


def _check_scores(labels: Labels) -> NDArray[np.bool_]:
    """Decide the kind, ground truth or detections, and report rows of the other and scores outside 0..1.

    Returns (n,) True for valid rows.
    """
    has_score = ~np.isnan(labels.score)
    is_in_range: NDArray[np.bool_] = (labels.score >= 0) & (labels.score <= 1)
    if not decide_kind(labels.builder, int(has_score.sum()), len(has_score)):
        # The score is the fifth value from the right.
        labels.report(SCORE_UNEXPECTED, has_score & is_in_range, -5, "score")
        labels.rows.report(labels.log, WRONG_COUNT, np.flatnonzero(has_score & ~is_in_range), _describe_extra)
        return ~np.asarray(has_score, bool)
    # In detections a value such as 0,9 or 1_0 before the box is a word to the grammar, and a damaged score to
    # the user.
    is_damaged_name = np.array([DAMAGED.fullmatch(name) is not None for name in labels.texts], bool)
    is_damaged = ~has_score & is_damaged_name[labels.name]
    labels.report(NOT_A_NUMBER, is_damaged, -5, "score")
    labels.rows.report(labels.log, SCORE_MISSING, np.flatnonzero(~has_score & ~is_damaged), lambda _: {})
    labels.report(SCORE_RANGE, has_score & ~is_in_range, -5, "score")
    return is_in_range  # NaN is not


def _check_guess(
    labels: Labels, is_valid: NDArray[np.bool_], size_of_box: NDArray[Any], meaning: Meaning
) -> tuple[str, tuple[str, ...]]:
    """Return the layout of the boxes and the reasons for it; warn if another layout fits as well.

    A guess of ltwh becomes ltrb if one in five boxes would reach out of its image as ltwh, and none does as
    ltrb. If bottom is above top in all boxes, and right never left of left, the warning names that reading.
    `size_of_box` (n, 2) is width and height of the images, 0 if unknown.
    """
    values, has_size = labels.values, is_valid & (size_of_box[:, 0] > 0)
    limit = size_of_box * 1.02 + 1  # as in `find_alternatives`: 2 % and a pixel are rounding
    is_beyond = has_size & (values > np.tile(limit, 2)).any(axis=1)  # so no corners in the image
    box, reasons = meaning.box, meaning.reasons
    readings = [*find_alternatives(values[is_valid], meaning, size_of_box[is_valid])]
    if meaning.is_guessed:
        leaves_image = has_size & (values[:, :2] + values[:, 2:] > limit).any(axis=1)  # as ltwh
        n_leaving, n_sized = int(leaves_image.sum()), int(has_size.sum())
        only_y_inverted = (values[:, 3] < values[:, 1]).all() and (values[:, 2] >= values[:, 0]).all()
        if n_leaving and 5 * n_leaving >= n_sized and not is_beyond.any():
            because = f"{n_leaving} of {n_sized} boxes would reach out of their images as ltwh"
            box, reasons = "ltrb", (f"read as ltrb, because {because} (otherwise use {spell('box')})",)
        elif len(values) and only_y_inverted and not is_beyond.any():
            readings.append("ltrb with y counted from below")
    _report_guess(labels, int(is_valid.sum()), [box, *readings], meaning)
    return box, reasons


def _report_guess(labels: Labels, n_valid: int, readings: list[str], meaning: Meaning) -> None:
    """Warn if `n_valid` boxes have several `readings`, the first of which is taken, or may be pixels."""
    option = "--box"
    if meaning.may_be_pixels:
        readings, option = [f"fractions ({readings[0]})", "pixels"], "--coords and --box"
    if n_valid and len(readings) > 1:
        readings_text = f"{', '.join(readings[:-1])} or {readings[-1]}"
        values_of_issue: dict[str, Any] = {
            "boxes": plural(n_valid, "box"),
            "what": Trusted(readings_text),
            "box": Trusted(readings[0]),
        }
        labels.log.report(LAYOUT_GUESSED, labels.source.path, **values_of_issue, option=option)


def _describe_extra(cells: list[Cell]) -> dict[str, Any]:
    """Return the keywords of `Log.report` for a row with five numbers in ground truth."""
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    advice = f"if {shorten(value)} is part of the class name, separate the columns by tabs and use --sep tab"
    return {"column": column, "expected": "a class and 4 numbers", "found": f"5 numbers ({advice})"}


def _describe_far(cells: list[Cell]) -> dict[str, Any]:
    """Return the keywords of `Log.report` for the first coordinate of a row that is far outside 0..1."""
    for i, (column, value) in enumerate(cells[-4:]):
        if NUMBER.fullmatch(value) and not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": BOX_FIELDS[i], "value": value}
    return {"value": b""}


def _add_categories(
    labels: Labels, is_valid: NDArray[np.bool_], options: TxtOptions
) -> tuple[Ints, NDArray[np.bool_]]:
    """Add the classes; return (n,) the category row of each box, and (n,) True if it has a class.

    With a list of classes, numbers are positions in it, and beyond its end an error. Without one, numbers
    alone are names, which `builder.named` says, and their classes are in the order of the numbers.
    """
    builder, log = labels.builder, labels.log
    used_names = distinct(labels.name[is_valid])
    texts = [labels.texts[i] for i in used_names.tolist()]
    category_of_name = np.full(len(labels.texts) + 1, -1, np.int32)  # the last is for the name number -1
    if options.classes is not None:
        names, path = read_class_list(options.classes, labels.source, "", log)
        if names is None:
            return np.zeros(len(labels), np.int32), np.zeros(len(labels), bool)
        category_of_number = add_list(names, builder, log, path)
        for i, text in zip(used_names.tolist(), texts, strict=True):
            # 3 is a position in the list; so are 3.0 and 03, unless a class is called so.
            if re.fullmatch(r"[0-9]+(\.0*)?", text) and (PLAIN.fullmatch(text) or text not in names):
                number_text = text.split(".")[0]
                number = int(number_text) if len(number_text) < 10 else len(names)  # beyond any list
                if number < len(category_of_number):
                    category_of_name[i] = category_of_number[number]
            else:
                category_of_name[i] = builder.category(text)
        category_rows = category_of_name[labels.name]
        is_unknown, n = is_valid & (category_rows < 0), len(category_of_number)
        labels.report(UNKNOWN_CLASS, is_unknown, position=0, field="class", n=n, where=path)
        return category_rows, category_rows >= 0
    are_numbers = bool(texts) and all(PLAIN.fullmatch(text) and len(text) < 19 for text in texts)
    pairs = list(zip(texts, used_names.tolist(), strict=True))
    if are_numbers:
        pairs.sort(key=lambda pair: int(pair[0]))
        builder.named = False
        log.note(
            f"{printable(labels.source.path)}: there are no class names, only numbers, which are used as "
            f"names ({spell('classes')} FILE gives the names)"
        )
    for text, i in pairs:
        category_of_name[i] = builder.category(text, source_id=int(text) if are_numbers else None)
    return category_of_name[labels.name], np.ones(len(labels), bool)


def adapt(options: TxtOptions) -> dict[str, Any]:
    """Return what the option ``coords`` changes about the format: fractions need image sizes."""
    return {"needs_size": options.coords == "rel"}


def write(dataset: Dataset, target: Output, log: Log, options: TxtOptions) -> None:
    """Write one text file per image; after an issue nothing is written."""
    names = [f"{stem(name)}.txt" for name in dataset.images.name]
    can_write = target.plan(names, dataset.images.name, log)
    is_relative = options.coords == "rel"
    box = options.box or ("cxcywh" if is_relative else "ltrb")
    boxes = dataset.boxes
    used_classes = distinct(boxes.category).tolist() if len(boxes) else []
    for row in used_classes:
        reason_and_remedy = _refuse_name(dataset.categories.name[row], options.sep, dataset.kind)
        if reason_and_remedy is not None:
            reason, remedy = reason_and_remedy
            log.report(UNWRITABLE, "", value=dataset.categories.name[row], reason=reason, way=remedy)
            can_write = False

    pixels = _find_numbers(dataset, box, is_relative)
    values = divide_by_images(dataset, pixels, log) if is_relative else pixels
    if not can_write or values is None:
        return
    cells: Sequence[str] | Cells
    if is_relative:
        cells = format_relative(values, dataset.images.width[boxes.image], dataset.images.height[boxes.image])
    else:  # a centre is computed, so it carries rounding: nine decimals hide it
        cells = to_fixed_cells(values.ravel(), 9) if box == "cxcywh" else to_decimals(values.ravel())
    columns: list[Sequence[str] | Cells] = [[dataset.categories.name[c] for c in boxes.category.tolist()]]
    if dataset.kind == "det":
        columns.append(to_decimals(boxes.score))
    columns += [cells[i::4] for i in range(4)]

    note_folders(dataset, log)
    if not options.sep and (n := sum(has_space(dataset.categories.name[row]) for row in used_classes)):
        text = "1 class has a space in its name" if n == 1 else f"{n} classes have spaces in their names"
        log.note(
            f"{text}, at which other programs split a line "
            f"({spell('sep')} tab, or {spell_setting('spaces=underscore')})"
        )
    page_texts = format_pages(len(names), boxes.image, columns, options.sep or " ")
    for name, data in zip(log.track(names, "writing"), page_texts, strict=True):
        target.write(name, data)


def _find_numbers(dataset: Dataset, box: str, is_relative: bool) -> Floats:
    """Return (n, 4) numbers of the boxes in pixels, in the layout `box` (``ltrb``, ``ltwh``, ``cxcywh``)."""
    boxes = dataset.boxes
    xyxy = boxes.xyxy
    if box == "ltrb":
        return xyxy
    # Pixels are written with the fewest decimals; fractions are computed from them anew.
    wh = boxes.short_wh() if box == "ltwh" and not is_relative else boxes.wh
    position = xyxy[:, :2] if box == "ltwh" else (xyxy[:, :2] + xyxy[:, 2:]) / 2
    return np.concatenate([position, wh], axis=1)


def _refuse_name(name: str, sep: str, kind: Kind) -> tuple[str, str] | None:
    """Return why a class name would not be read back, and the remedy; None if it would.

    `sep` is the separator, "" for blanks, and `kind` that of the dataset.
    """
    reason = refuse_class(name)
    if reason is not None:
        return reason, "rename the class"
    if len(name) > 1 and QUOTED.fullmatch(name):
        return "this format has no quotes", "rename the class"
    if name != name.strip(" \t"):
        return "leading and trailing spaces are lost", "rename the class"
    if sep:
        return ("it contains the separator", f"use another {spell('sep')}") if sep in name else None
    words = name.encode().split(b" ")
    ends_in_number = len(words) > 1 and NUMBER.fullmatch(words[-1]) is not None  # a score, in ground truth
    if decode_name(name.encode(), separated=False) is None or (kind == "gt" and ends_in_number):
        return ("numbers in it would be read as coordinates", f"use {spell('sep')} tab, or rename the class")
    return None


FORMAT = format_of(
    __name__,
    title="Plain text, one file per image",
    expects=("class left top right bottom",),
    use="results",
    written_by="the object-detection-metrics tools (Cartucho mAP, Padilla), one file per image",
    suffixes=(".txt",),
    keeps=frozenset({"score", "empty"}),
    decide_together=decide_together,
)
