"""WIDER FACE: the faces of many images in one text file.

::

    0--Parade/0_Parade_marchingband_1_849.jpg
    1
    449 330 122 149 0 0 0 0 0 0
    0--Parade/0_Parade_Parade_0_452.jpg
    0
    0 0 0 0 0 0 0 0 0 0

For each image a line with its name, a line with the number of faces, and a row for each face. Syntax: the
readme in ``wider_face_split`` (http://shuoyang1213.me/WIDERFACE): ``left top width height blur expression
illumination invalid occlusion pose``, in pixels, unchanged.

``label.txt`` of RetinaFace has no numbers of faces::

    # 0--Parade/0_Parade_marchingband_1_849.jpg
    449 330 122 149 488.906 373.643 0.0 542.089 376.442 0.0 515.031 412.83 0.0 485.174 425.893 0.0 538.357 ...

Its rows have the box, five landmarks (x, y and a mark, or -1) and the blur; without landmarks, 4 numbers.

Reading
-------
- A file, or a folder with ``wider_face_<split>_bbx_gt.txt`` or with any other files of this format, such as
  the results of a detector, one per image. Names without a folder then get the folder of their file.
  ``--split`` reads only the file of one split.
- Rows of 10 or 4 numbers are ground truth, rows of 5 are detections: ``left top width height score``. Scores
  may be any numbers.
- ``invalid`` 1 means that evaluations ignore the face: it is read as crowd. ``occlusion`` 1 or 2 is read as
  the flag *occluded*. The other attributes are counted but not kept.
- An image without faces has the number 0 and may have one row of zeros, which is not a face; neither is a row
  of ten zeros if it is the only one of its image. Datumaro writes only the name of such an image, and ``-``,
  ``True`` and ``False`` for attributes, in the order blur, expression, illumination, occluded, pose, invalid.
  A first line with the number of images, as of panlabel, is passed over.
- The landmarks in the rows of RetinaFace are keypoints. A folder ``train``, ``val`` or ``test``
  gives the split.
- The class is ``face``, unless a row ends with a class name.
- The challenge's lists of the faces that count as easy, medium and hard (``wider_easy_val.mat`` and so on)
  are read for an evaluation, from the folder that ``--lists`` names, or from the folder of the file or
  ``ground_truth`` in it. This needs SciPy.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder, or
  in ``WIDER_train/images``, ``WIDER_val/images`` and ``WIDER_test/images`` there or one level up.

Writing
-------
``wider_face_bbx_gt.txt``, or one file per split; detections as ``wider_face_det.txt`` likewise. Rows
of other classes than ``face`` end with the class, which programs that count columns from the left ignore.
``-O layout=retinaface`` writes ``label.txt``, or one in a folder for each split, without flags and landmarks.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import BAD_FLAG, NO_FILES, WRONG_COUNT
from odm.formats._shared.face_lists import Levels, check_levels, key_of, read_levels
from odm.formats._shared.gather import Gather, Location, find_folders
from odm.formats._shared.shapes.box_shapes import Drawn
from odm.formats._shared.split_names import (
    SplitOptions,
    list_split_files,
    parse_split,
    select_split,
    write_splits,
)
from odm.formats._shared.text.label_files import list_files, report_others
from odm.formats._shared.text.label_rows import are_text, parse_class_name, refuse_classes, report_numbers
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER, clean_text, split_cells
from odm.issues import Code, Log, plural, shorten
from odm.names import BAD_CLASS_NAME, BAD_NAME, PICTURE_SUFFIXES, refuse_class
from odm.tables import Builder, Dataset, Flag, Kind

BAD_COUNT = Code(
    "widerface-count",
    "error",
    "expected {expected}, found {found}",
    "write the image name, the number of its faces, and that many rows",
    "The number before the rows says where the next image begins. If it is wrong, faces are assigned to "
    "another image.",
    file=True,
)
FIELDS = (
    *("left", "top", "width", "height", "blur", "expression"),
    *("illumination", "invalid", "occlusion", "pose"),
)
CLASS = "face"
_HEAVY = "degrees of occlusion"
"""Faces whose occlusion is 2."""
_OFFICIAL = re.compile(r"wider_face_(?:([^/]+)_)?(bbx_gt|det)\.txt")
_PLAIN = re.compile(rb"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?: -?[0-9]{1,15}(?:\.[0-9]{1,15})?){3,9}")
"""Rows of only numbers, as nearly all are."""
_WORDS = {b"-": b"0", b"False": b"0", b"True": b"1"}
"""Words that Datumaro writes for attributes, whose last three are occluded, pose and invalid, by number."""
_LANDMARKS = 15
"""Numbers of the five landmarks of RetinaFace."""
_POINTS = ("left eye", "right eye", "nose", "left mouth corner", "right mouth corner")
_SUFFIXES = tuple(suffix.encode() for suffix in PICTURE_SUFFIXES)
_NAME_AND_ROW = re.compile(
    rb"(?:%s)[ \t]*-?[0-9.]+(?:[ \t]+-?[0-9.]+){3}(?=[ \t]|$)" % b"|".join(map(re.escape, _SUFFIXES)),
    re.IGNORECASE,
)
"""An image and a row, whose line break was lost."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WiderfaceOptions(SplitOptions):
    """Options of WIDER FACE."""

    layout: str = option(
        "widerface", "whose files to write", choices=("widerface", "retinaface"), side="write"
    )
    lists: str | None = option(
        None, "folder of wider_easy_val.mat, ...", flag="--lists", side="read", path=True
    )


def sniff(source: Source) -> Sniff | None:
    """Recognise files that begin with the name of an image, the number of its faces, and rows of numbers.

    More than half of the first 20 must. With an official name, a file that begins otherwise counts too.
    """
    if not are_text(source):
        return None
    files = _find_files(source)
    n_fitting = 0
    for file in files[:20]:
        head = source.head(file)[: 2**14]
        lines = clean_text(head, path="", log=Log(keep=0)).split(b"\n")  # `read` reports what is wrong
        lines = lines[:-1] if len(lines) > 1 else lines  # the last may be cut
        block = next(_split_blocks(lines), None)
        name = source.relative(file).rpartition("/")[2]
        if block is not None and block.count is not None and not block.stray:
            image = block.name  # with a suffix, or in a file of one image that is named after it
            is_image = image.lower().endswith(_SUFFIXES) or image.decode("utf-8", "replace") in name
            # A line "# a.jpg" of RetinaFace, or a number; a list of nothing but images is no list of faces.
            has_counts = any(line.startswith(b"#") or line.strip().isdigit() for line in lines)
            is_list = bool(_OFFICIAL.fullmatch(name)) or (is_image and has_counts)
            n_fitting += is_list and (block.count == 0 or len(block.rows) > 0)
        elif _OFFICIAL.fullmatch(name):
            n_fitting += 1
    if not files or 2 * n_fitting <= min(20, len(files)):
        return None
    lists = f"{plural(len(files), 'file is', 'files are')} lists of images"
    return Sniff(SURE, f"{lists}, each with the number of its faces and their rows, as in WIDER FACE")


def _find_files(source: Source, kind: Kind | None = None) -> list[str]:
    """The files to read: those with official names, of `kind`, or all label files if there are none such.

    If `kind` is None these are ground truth if there is any, else detections.
    """
    if not source.is_dir:
        return [""]
    label_files = [f for f in list_files(source).labels if not f.endswith("_filelist.txt")]
    kind_of_file = {f: match[2] for f in label_files if (match := _OFFICIAL.fullmatch(f.rsplit("/", 1)[-1]))}
    kinds_in_names = {"gt": ("bbx_gt",), "det": ("det",)}.get(kind or "", ("bbx_gt", "det"))
    for kind_in_name in kinds_in_names:
        if files := [f for f, file_kind in kind_of_file.items() if file_kind == kind_in_name]:
            return files
    return label_files


class _Block(msgspec.Struct, eq=False):
    """The lines about one image."""

    name: bytes
    """The name of the image; empty for rows that follow no name."""
    line: int
    """The number of the line of the name, from 1."""
    count: int | None = None
    """The number of faces that the file states; None if there is no such line."""
    count_line: bytes = b""
    """The line where the number of faces is expected; empty at the end of the file."""
    rows: list[tuple[int, bytes]] = msgspec.field(default_factory=list)
    """The line number and text of each row, `count` of them at most."""
    stray: list[tuple[int, bytes]] = msgspec.field(default_factory=list)
    """The rows beyond that number."""


def _is_row(line: bytes) -> bool:
    """Whether a line is a row of numbers, not the name of an image, even if one of the first is malformed.

    Of the first four words three must be numbers, and of two or three words all: "1 2 x 4" is a row.
    """
    if _PLAIN.fullmatch(line):
        return True
    words = line.split(None, 4)[:4]
    n_numbers = sum(NUMBER.fullmatch(word) is not None for word in words)
    return len(words) >= 2 and n_numbers >= min(3, len(words)) and not line.lower().endswith(_SUFFIXES)


def _split_blocks(lines: list[bytes]) -> Iterator[_Block]:
    """Divide the lines of a file into a block for each image, whatever is wrong with them.

    "a.jpg", "1", "10 20 30 40", "b.jpg", "0" are the block of a.jpg with a row, and that of b.jpg without.
    """
    if next((line for line in lines if line.strip()), b"").startswith(b"# "):
        yield from _split_retinaface_blocks(lines)
        return
    # lines[index] is the next line. After `index += 1` it has been taken, and `index` is its number from 1.
    index, n_lines = 0, len(lines)
    if n_lines > 1 and lines[0].strip().isdigit() and lines[1].strip().lower().endswith(_SUFFIXES):
        index = 1  # the number of images, as panlabel writes it
    while index < n_lines:
        line = lines[index].strip(b" \t")
        index += 1
        if not line:
            continue
        block = _Block(name=line, line=index)
        if _is_row(line):  # rows without an image
            block.name, block.stray = b"", [(index, line)]
        elif index < n_lines and re.fullmatch(rb"[0-9]{1,9}", count_text := lines[index].strip(b" \t")):
            block.count_line, block.count = count_text, int(count_text)
            index += 1
            end = min(n_lines, index + block.count)
            while index < end and _is_row(row := lines[index].strip(b" \t")):
                index += 1
                block.rows.append((index, row))
            if block.count == 0 and index < n_lines and _is_zero(lines[index]):  # the row for "no faces"
                index += 1
        elif index < n_lines:
            block.count_line = lines[index].strip(b" \t")
            # Another image follows, or nothing: Datumaro writes no number for those without faces.
            is_end = not block.count_line or block.count_line.lower().endswith(_SUFFIXES)
            if is_end and line.lower().endswith(_SUFFIXES):
                block.count_line, block.count = b"0", 0
        # Rows beyond the number of faces, or after a line that is no number.
        while index < n_lines and (row := lines[index].strip(b" \t")) and _is_row(row):
            index += 1
            block.stray.append((index, row))
        yield block


def _split_retinaface_blocks(lines: list[bytes]) -> Iterator[_Block]:
    """Divide the lines of RetinaFace's file into blocks, which begin with "#" and the name of an image.

    The first line that is not blank begins with "# " (see `_split_blocks`), so no row comes before a name.
    """
    block = _Block(name=b"", line=0, count=0)  # of no line, and so never returned
    for line_number, line in enumerate(lines, 1):
        if line.startswith(b"#"):
            if block.line:
                yield block
            name = line[1:].strip(b" \t")
            # "# a.jpg 10 20 30 40" lost a line break; without a name the block is reported.
            is_joined = _NAME_AND_ROW.search(name) is not None
            block = _Block(name=b"" if is_joined else name, line=line_number, count=0)
        elif line.strip(b" \t"):
            block.rows.append((line_number, line.strip(b" \t")))
            block.count = len(block.rows)
    yield block


def _is_zero(line: bytes) -> bool:
    """Whether a line is zeros only, which stands for an image without faces."""
    words = line.split()
    return len(words) >= 4 and set(words) == {b"0"}


def _split_of(source: Source, file: str) -> str:
    """The split in the name of a file or, for RetinaFace, of its folder; ``""`` for none."""
    path = file or source.path.replace("\\", "/")
    match = _OFFICIAL.fullmatch(path.rsplit("/", 1)[-1])
    if match is None and path.endswith("label.txt"):  # of RetinaFace
        return parse_split(path)
    return (match[1] or "") if match else ""


def read(source: Source, builder: Builder, log: Log, options: WiderfaceOptions) -> None:
    """Read a file, or every file of a folder."""
    files = _find_files(source, builder.kind)
    if source.is_dir:
        report_others(source, list_files(source), log)
    if not files:
        log.report(NO_FILES, source.path, expected="text files", n=len(source.files))
    files = select_split(files, functools.partial(_split_of, source), options.split, source, log)
    root = source.path if source.is_dir else os.path.dirname(source.path) or "."
    picture_folders = [  # folders of pictures in the source or beside it
        os.path.join(folder, f"WIDER_{split}", "images")
        for folder in (root, os.path.normpath(os.path.join(root, os.pardir)))
        for split in ("train", "val", "test")
    ]
    picture_folders += [os.path.join(root, split, "images") for split in ("", "train", "val", "test")]
    folders = tuple(filter(os.path.isdir, picture_folders)) or find_folders(source)
    gather = Gather(source, builder, log, options, folders, borrow_sizes="needed")  # of the other side
    needs_levels = builder.wants_fields and builder.kind == "gt"
    levels = read_levels(options.lists, root, log) if needs_levels else None
    for file in log.track(files, "reading"):
        _read_file(file, _split_of(source, file), gather, levels, several=len(files) > 1)
    gather.finish()
    if levels is not None:
        check_levels(levels, builder.image_names, source.path)
    # Detections have no degrees of occlusion, and the kind is known only after `finish`.
    n_heavy = builder.extras.pop(_HEAVY, 0)
    if builder.kind == "gt" and n_heavy:
        builder.extras[_HEAVY] = n_heavy


def _read_file(file: str, split: str, gather: Gather, levels: Levels | None, *, several: bool) -> None:
    """Add the images of a file and their faces.

    With `several` files, names without a folder get that of the file. An image with a wrong number of rows is
    reported and left out. `levels` are the numbers, from 1, of the faces that count at each level of
    difficulty, by image; None if they are not needed.
    """
    source, builder, log = gather.source, gather.builder, gather.log
    data, path = source.read(file, log), source.full(file)
    if not data:
        return
    file_number = builder.file(path)
    folder, _, file_name = file.rpartition("/")
    for block in _split_blocks(clean_text(data, path, log).split(b"\n")):
        if _report_fault(block, path, log):
            builder.skipped += len(block.rows) + len(block.stray)
            continue
        name = block.name.decode("utf-8", "replace")
        if several and not _OFFICIAL.fullmatch(file_name) and folder and "/" not in name:
            name = f"{folder}/{name}"
        location = Location(path, line=block.line)
        picture = gather.find_picture(name, location)
        image = gather.image(name, location, picture=picture, split=split, file=file_number, line=block.line)
        if len(block.rows) == 1 and _is_zero(block.rows[0][1]):
            continue
        for face, (line, row) in enumerate(block.rows, 1):
            extra = None  # or a field for each level, b"1" if the face counts at it
            if levels is not None:
                key = key_of(name)
                extra = {level: b"%d" % (face in faces.get(key, ())) for level, faces in levels.items()}
            place = Location(path, line=line)
            if image is None or not _read_row(row, image, file_number, place, gather, extra):
                builder.skipped += 1


def _report_fault(block: _Block, path: str, log: Log) -> bool:
    """Whether a block lacks its name or number of faces, or has another number of rows, which is reported."""
    n_rows, line = len(block.rows) + len(block.stray), block.line + 1
    if not block.name:
        line, expected, shown = block.line, "the name of an image", "a row of numbers"
    elif block.count is None:
        expected = "the number of faces"
        shown = repr(shorten(block.count_line)) if block.count_line else "the end of the file"
    elif n_rows != block.count or block.stray:
        expected, shown = f"{plural(block.count, 'row')}, as the line above them says", str(n_rows)
    else:
        return False
    log.report(BAD_COUNT, path, line=line, expected=expected, found=shown)
    return True


def _read_row(
    row: bytes,
    image: int,
    file_number: int,
    location: Location,
    gather: Gather,
    extra: Mapping[str, bytes] | None,
) -> bool:
    """Add the face of one row to an image. Returns False, after an issue, if the row is malformed.

    `extra` are the fields that tell which levels of difficulty the face counts at.
    """
    # left top width height blur expression illumination invalid occlusion pose; Datumaro ends with occlusion
    # pose invalid, and writes words for numbers.
    words, name = row.split(), b""
    n_numbers = len(words)
    if n_numbers > 9 and not _WORDS.keys().isdisjoint(words[4:10]):
        *head, occluded, pose, is_invalid = (_WORDS.get(word, word) for word in words[4:10])
        words[4:10] = *head, is_invalid, occluded, pose
        row = b" ".join(words)

    # Four edges and landmarks, or 4, 5 or 10 numbers; then the class, if any.
    class_name: str | None = CLASS
    landmarks: Drawn | None = None
    if n_numbers >= 4 + _LANDMARKS and all(map(NUMBER.fullmatch, words[: 4 + _LANDMARKS])):
        landmarks = _read_landmarks(words[4 : 4 + _LANDMARKS], gather)
        n_numbers, name = 4, b" ".join(words[5 + _LANDMARKS :])  # after the blur
        class_name = parse_class_name(name) if name else CLASS
    elif n_numbers not in (4, 5, 10) or not _PLAIN.fullmatch(row):  # not numbers alone
        n_numbers = _count_numbers(words)
        name = b" ".join(words[n_numbers:]) or CLASS.encode()
        class_name = parse_class_name(name)
    values = [float(word) for word in words[:n_numbers]]
    if n_numbers not in (4, 5, 10) or class_name is None or not np.isfinite(values).all():
        _report_row(row, n_numbers, name, location, gather.log)
        return False
    flags = _read_attributes(values[4:] if n_numbers == 10 else [], location, gather)
    if flags is None:
        return False
    left, top, width, height = values[:4]
    category = gather.builder.category(class_name)
    if landmarks is not None:
        gather.builder.describe_points(category, _POINTS)
    gather.box(
        image,
        category,
        (left, top, left + width, top + height),
        location,
        wh=(width, height),
        score=values[4] if n_numbers == 5 else np.nan,
        flags=flags,
        file=file_number,
        line=location.line,
        shape=landmarks,
        extra=extra,
    )
    return True


def _read_attributes(values: list[float], location: Location, gather: Gather) -> int | None:
    """The flags of a face by the numbers after its edges, if it has these; others are counted.

    None, after an issue, for a wrong number.
    """
    attributes = dict(zip(FIELDS[4:], values, strict=False))  # `values` are six, or none
    invalid, occlusion = attributes.pop("invalid", 0.0), attributes.pop("occlusion", 0.0)
    for value, field, allowed in ((invalid, "invalid", (0, 1)), (occlusion, "occlusion", (0, 1, 2))):
        if value not in allowed:
            expected = " or ".join(map(str, allowed))
            location.report(gather.log, BAD_FLAG, field=field, value=value, expected=expected)
            return None
    gather.builder.extras.update(field for field, value in attributes.items() if value)
    if occlusion == 2:
        gather.builder.extras[_HEAVY] += 1
    return (Flag.CROWD if invalid else 0) | (Flag.OCCLUDED if occlusion else 0)


def _count_numbers(words: list[bytes]) -> int:
    """Count the columns before the class: 4, 5 with a score or 10; any other count is malformed.

    A class may begin with a number or be one: "10 20 30 40 0.9 7 up" and "10 20 30 40 0.9 7" have 5 columns.
    """
    # The numbers at the beginning, 10 at most. If these are 6 to 9 before a word, or 6 and nothing follows,
    # the numbers after the score belong to the class.
    n = next((i for i, word in enumerate(words[:10]) if not NUMBER.fullmatch(word)), min(10, len(words)))
    return 5 if (5 < n < 10 and len(words) > n) or n == len(words) == 6 else n


def _read_landmarks(words: list[bytes], gather: Gather) -> Drawn | None:
    """The landmarks of a face as keypoints; None if it has none, or if they are not wanted but counted."""
    values = [float(word) for word in words]
    if max(values) < 0:  # all are -1
        return None
    if not gather.builder.wants:
        gather.builder.extras["landmarks"] += 1
        return None
    pairs = zip(values[0::3], values[1::3], strict=True)  # x, y and a third number, not read, for each
    return Drawn(points=[(x, y, 2) if x >= 0 else (0, 0, 0) for x, y in pairs])


def _report_row(row: bytes, n_numbers: int, name: bytes, location: Location, log: Log) -> None:
    """Report what is wrong with a row: a number, the class, or the number of values."""
    placed_cells = split_cells(row, None)  # by blanks; each with its column
    # The cells that should be numbers: all of 5, else the first 10 or 4, and the rest is a class.
    n_columns = 10 if len(placed_cells) >= 10 else 4
    number_cells = placed_cells[: 5 if len(placed_cells) == 5 else n_columns]
    if report_numbers(number_cells, FIELDS[: len(number_cells)], location.path, location.line, log):
        return
    try:
        reason = refuse_class(name.decode())
    except UnicodeDecodeError:
        return  # the file's encoding has been reported
    if reason is not None and n_numbers in (4, 5, 10):
        location.report(log, BAD_CLASS_NAME, value=name, reason=reason)
        return
    expected = "10 or 4 numbers, or 5 with a score, and perhaps a class"
    location.report(log, WRONG_COUNT, expected=expected, found=f"{len(placed_cells)} values")


def write(dataset: Dataset, target: Output, log: Log, options: WiderfaceOptions) -> None:
    """Write each image and its faces, in one file for each split."""
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    is_detections, retinaface = dataset.kind == "det", options.layout == "retinaface"
    if retinaface:
        files = list_split_files(dataset, lambda split: f"{split}{'/' if split else ''}label.txt")
    else:
        tail = "det.txt" if is_detections else "bbx_gt.txt"
        files = list_split_files(dataset, lambda split: f"wider_face_{split}{'_' if split else ''}{tail}")
    is_refused = _refuse_names(dataset, log)
    if not target.plan(list(files.values()), [f"the split {s}" for s in files], log) or is_refused:
        return
    # A row for each box, by image: its edges, what follows them, and its class if it is no face.
    order = np.argsort(boxes.image, kind="stable")
    texts = to_decimals(np.concatenate([boxes.xyxy[:, :2], boxes.short_wh()], axis=1)[order].ravel())
    if is_detections:
        row_ends = to_decimals(boxes.score[order])
    elif retinaface:
        row_ends = ["-1 " * _LANDMARKS + "0"] * len(boxes)  # no landmarks, and the blur
    else:
        flags = boxes.flags[order].tolist()
        row_ends = [f"0 0 0 {1 if f & Flag.CROWD else 0} {1 if f & Flag.OCCLUDED else 0} 0" for f in flags]
    names = ["" if classes[c] == CLASS else f" {classes[c]}" for c in boxes.category[order].tolist()]
    rows = [
        f"{a} {b} {c} {d} {end}{name}\n"
        for a, b, c, d, end, name in zip(*(texts[i::4] for i in range(4)), row_ends, names, strict=True)
    ]
    # The faces of image i are rows[image_starts[i] : image_starts[i + 1]].
    image_starts = np.searchsorted(boxes.image[order], np.arange(len(images) + 1)).tolist()
    no_faces = "" if is_detections or retinaface else "0 0 0 0 0 0 0 0 0 0\n"
    blocks = (
        (f"# {name}\n" if retinaface else f"{name}\n{end - start}\n") + ("".join(rows[start:end]) or no_faces)
        for name, (start, end) in zip(images.name, itertools.pairwise(image_starts), strict=True)
    )
    write_splits(dataset, target, files, blocks)


def _refuse_names(dataset: Dataset, log: Log) -> bool:
    """Report names of images and classes that would be misread; return whether there are any."""
    is_refused = refuse_classes(dataset, log, words=False)
    for row, name in enumerate(dataset.images.name):
        if _is_row(name.encode()) or name != name.strip(" \t"):
            path, line, pointer = dataset.image_place(row)
            reason = "it would not be read back as an image name"
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=name, reason=reason)
            is_refused = True
    for name in dataset.categories.name:
        reason = ""
        if name.lower().encode().endswith(_SUFFIXES):
            reason = "a row with this ending would be read as an image name"
        elif parse_class_name(name.encode()) is None and refuse_class(name) is None:  # else reported above
            reason = "a number after its first word would be read as a column"
        if reason:
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
            is_refused = True
    return is_refused


_KEEPS = frozenset("extension empty score wh split crowd occluded".split())


def adapt(options: WiderfaceOptions) -> dict[str, Any]:
    """Declare what a layout keeps: RetinaFace's file has neither crowd nor occluded boxes."""
    return {"keeps": _KEEPS - {"crowd", "occluded"} if options.layout == "retinaface" else _KEEPS}


FORMAT = format_of(
    __name__,
    title="WIDER FACE and RetinaFace",
    expects=("image count rows of left top width height",),
    use="challenges",
    written_by="WIDER FACE (ground truth lists and prediction files), RetinaFace (label.txt)",
    suffixes=(".txt",),
    options=WiderfaceOptions,
    keeps=_KEEPS,
)
