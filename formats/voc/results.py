"""Result files of the VOC kit, one file of detections per class: reading and writing them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.files import COLLISION, Output, Source
from odm.formats._shared.class_lists import note_spaces
from odm.formats._shared.codes import NO_FILES, NOT_UTF8, WRONG_COUNT
from odm.formats._shared.gather import Gather, Location, add_extension
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.safe_xml import parse_number
from odm.formats._shared.text.tokens import NUMBER_TEXT, find_second_row
from odm.formats.voc.terms import (
    EDGES,
    UNWRITABLE,
    WHITE,
    VocOptions,
    count_from_zero,
    refuse_class,
    refuse_names,
)
from odm.issues import Code, Log, Trusted, UsageError, plural, shorten
from odm.names import accept_name, stem
from odm.tables import Builder, Dataset, Floats

NOT_RESULTS = Code(
    "voc-result-file",
    "error",
    "expected a class name in the file name, as in comp4_det_test_person.txt, found {value!r}",
    "rename the file",
    "The rows of a results file do not contain the class; the file name does.",
    file=True,
)
RESULT_NAME = re.compile(r"comp[0-9]+(?:_[0-9A-Za-z-]+)?_det_([^_/]+)_([^/]+)\.txt")
_RESULT_TAIL = re.compile(r"(?:[ \t]+[^ \t]+){5}$")


def find_result_files(source: Source) -> list[str]:
    """Return the files that are named like results of the VOC kit."""
    return [f for f in source.with_suffix(".txt") if RESULT_NAME.fullmatch(f.rsplit("/", 1)[-1])]


def read_results(source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
    """Read every result file of a source: detections of one class each."""
    builder.kind = "det"
    files = [""]
    if source.is_dir:
        files = source.with_suffix(".txt") if options.results else find_result_files(source)
    if not files:
        log.report(NO_FILES, source.path, expected="XML files", n=len(source.files))
    loaded = []  # category, file number, path, and names, values and lines of the rows, of each file
    for file in log.track(files, "reading"):
        path = source.full(file)
        file_name = (file or source.path.replace("\\", "/")).rsplit("/", 1)[-1]
        class_name = _parse_class(file_name)
        if refuse_class(class_name) is not None:
            log.report(NOT_RESULTS, path, value=file_name)
            continue
        data = source.read(file, log)
        if data is None:
            continue
        category = builder.category(class_name)
        file_number = builder.file(path)
        data = data.removeprefix(b"\xef\xbb\xbf")
        split_rows = _split_results(data)
        if split_rows is None:
            split_rows = _split_slowly(data, path, builder, log)
        loaded.append((category, file_number, path, *split_rows))

    # The images, each at the first row that names it.
    first_location: dict[bytes, tuple[str, int]] = {}
    for _, _, path, names, _, lines in loaded:
        for raw_name in dict.fromkeys(names):
            if raw_name not in first_location:
                first_location[raw_name] = path, int(lines[names.index(raw_name)])
    gather = Gather(source, builder, log, options)
    image_of_name = {
        raw_name: _add_image(raw_name, *first_location[raw_name], gather, log)
        for raw_name in sorted(first_location)
    }

    for category, file_number, _, names, values, lines in loaded:
        image = np.array([image_of_name[name] for name in names], np.int64)
        has_image = image >= 0
        builder.skipped += int(np.count_nonzero(~has_image))
        xyxy = values[has_image, 1:]  # after the score
        if options.origin:
            count_from_zero(xyxy)
        n = len(xyxy)
        gather.add(
            image=image[has_image],
            category=np.full(n, category),
            xyxy=xyxy,
            score=values[has_image, 0],
            file=file_number,
            line=np.asarray(lines)[has_image],
        )
    gather.finish()


def _parse_class(file_name: str) -> str:
    """Return the class in the name of a result file; of another name all before the extension."""
    if match := RESULT_NAME.fullmatch(file_name):
        return match[2]
    return file_name[: file_name.rfind(".")] if "." in file_name else file_name


def _add_image(raw_name: bytes, path: str, line: int, gather: Gather, log: Log) -> int:
    """Add the image with this name, first seen at a line of `path`; return its row, -1 after an issue."""
    name, location = raw_name.decode(), Location(path, line=line)
    if not accept_name(name, log, path, line=line):
        return -1
    picture = gather.find_picture(name, location)
    if stem(name) == name:
        name = add_extension(name, picture)
    row = gather.image(name, location, picture=picture, accepted=True)
    return -1 if row is None else row


def _split_slowly(data: bytes, path: str, builder: Builder, log: Log) -> tuple[list[bytes], Floats, Any]:
    """Return names, (n, 5) numbers and lines of the valid rows, row by row; every other row is reported.

    The numbers are a score and four edges. The other rows are counted in ``builder.skipped``.
    """
    fields, n_rows = ("confidence", *EDGES), 0
    expected = "an image, a confidence and four edges"
    names, values, lines = [], [], []
    for line_number, row in enumerate(data.split(b"\n"), 1):
        row = row.strip(WHITE)  # noqa: PLW2901
        if not row:
            continue
        n_rows += 1
        try:
            text = row.decode()
        except UnicodeDecodeError as e:
            log.report(NOT_UTF8, path, line=line_number, value=f"the byte 0x{row[e.start]:02x}")
            continue
        cells = re.split(r"[ \t]+", text)
        if len(cells) < 6:
            log.report(WRONG_COUNT, path, line=line_number, expected=expected, found=f"{len(cells)} values")
            continue
        words = [cell.encode() for cell in cells[:-5]]
        if k := find_second_row(words, 5):
            shown = f"a second row in the same line, from {shorten(cells[k])!r} on (was a line break lost?)"
            log.report(WRONG_COUNT, path, line=line_number, expected=expected, found=Trusted(shown))
            continue
        if _has_columns(cells[:-5]):
            log.report(WRONG_COUNT, path, line=line_number, expected=expected, found=f"{len(cells)} values")
            continue
        numbers = []
        for field, cell in zip(fields, cells[-5:], strict=True):
            value = parse_number(cell, log, path, line_number, field)
            if value is not None:
                numbers.append(value)
        if len(numbers) < 5:
            continue
        # The name may hold blanks: it is all that stands before the five numbers.
        names.append(_RESULT_TAIL.sub("", text).encode())
        values.append(numbers)
        lines.append(line_number)
    builder.skipped += n_rows - len(names)
    return names, np.array(values, np.float64).reshape(-1, 5), np.array(lines, np.int64)


def _has_columns(words: Sequence[str]) -> bool:
    """Whether the words before the last five numbers hold further columns, not only the name of an image.

    A name may end in a whole number, as ``street 12`` does, but not in a fraction or in two numbers.
    """
    numbers = [word for word in words[1:] if NUMBER_TEXT.fullmatch(word)]
    return len(numbers) > 1 or any(not word.isdigit() for word in numbers)


def _split_results(data: bytes) -> tuple[list[bytes], Floats, Any] | None:
    """Return names, (n, 5) numbers and lines of all rows at once; None if a row is not six plain values."""
    if b"\x0b" in data or b"\x0c" in data:
        return None  # which separate values for split(), and not for `_split_slowly`
    rows = [row.split() for row in data.split(b"\n")]
    lines = [line for line, row in enumerate(rows, 1) if row]
    tokens = list(itertools.chain.from_iterable(rows))
    if not {0, 6}.issuperset(map(len, rows)):
        return None
    # tokens: name, score, four edges, name, ...
    columns = [tokens[i::6] for i in range(1, 6)]
    if any(b" ".join(column).translate(None, b"0123456789.+-eE ") for column in columns):
        return None
    try:
        values = np.array([list(map(float, column)) for column in columns], np.float64).T.copy()
        b"\n".join(tokens[0::6]).decode()  # only to see that the names are UTF-8
    except ValueError:  # of which a UnicodeDecodeError is one
        return None
    return (tokens[0::6], values, np.array(lines, np.int64)) if np.isfinite(values).all() else None


def write_results(dataset: Dataset, target: Output, log: Log, edges: Floats) -> None:
    """Write one result file per class; after an issue nothing is written. `edges` (n, 4) are those to write.

    Raises UsageError if a box has no score.
    """
    images, boxes = dataset.images, dataset.boxes
    if np.isnan(boxes.score).any():
        raise UsageError("results=true writes detections, but these boxes have no score")
    names = [stem(name) for name in images.name]
    classes = dataset.categories.name
    files = [f"comp4_det_test_{name}.txt" for name in classes]
    n_errors = log.errors
    refuse_names(classes, log)
    for name in classes:
        if "/" in name or "\\" in name:
            log.report(
                UNWRITABLE, "", value=name, reason="a class used in a file name cannot contain a slash"
            )
    image_of_stem: dict[str, str] = {}
    for name, full_name in zip(names, images.name, strict=True):
        if name != name.strip(" \t"):
            log.report(UNWRITABLE, "", value=name, reason="blanks at its ends would be lost")
        elif _has_columns(name.split()):
            log.report(UNWRITABLE, "", value=name, reason="numbers in it would be read as columns")
        first_name = image_of_stem.setdefault(name, full_name)
        if first_name != full_name:
            log.report(COLLISION, "", first=first_name, second=full_name, value=name)
    if log.errors > n_errors or not target.plan(files, classes, log):
        return
    n_empty = len(images) - len(np.unique(boxes.image))
    if n_empty:
        log.note(f"result files do not name images without detections: {plural(n_empty, 'image')}")
    note_spaces(names, log)

    # Class by class; the rows of class i are those from class_bounds[i] to class_bounds[i + 1].
    order = np.argsort(boxes.category, kind="stable")
    class_bounds = np.searchsorted(boxes.category[order], np.arange(len(classes) + 1)).tolist()
    texts = to_decimals(edges[order].reshape(-1))
    scores = to_decimals(boxes.score[order])
    image = [names[i] for i in boxes.image[order].tolist()]
    rows = list(map(" ".join, zip(image, scores, *(texts[i::4] for i in range(4)), strict=True)))
    for i, file in enumerate(log.track(files, "writing")):
        class_rows = rows[class_bounds[i] : class_bounds[i + 1]]
        target.write(file, "\n".join([*class_rows, ""]).encode() if class_rows else b"")
