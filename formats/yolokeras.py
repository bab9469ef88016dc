"""YOLO-Keras and YOLOv4-PyTorch text: one line per image, with all of its boxes.

::

    VOCdevkit/VOC2007/JPEGImages/000005.jpg 263,211,324,339,8 165,264,253,372,8
    VOCdevkit/VOC2007/JPEGImages/000006.jpg

Syntax: the readme of keras-yolo3 (https://github.com/qqwweee/keras-yolo3), which
https://github.com/Tianxiaomo/pytorch-YOLOv4 and others share: the path of the picture, then for each box
``x_min,y_min,x_max,y_max,class_id``, all separated by spaces. Edges are in pixels, unchanged; ids count from
0 in a file of class names, one per line. A line with only a path is an image without objects. Detections have
a sixth value, the score, which these tools do not have.

Reading
-------
- A file, or the files of a folder that look like this: ``train.txt``, ``2007_val.txt``,
  ``train/_annotations.txt``. The file, or else its folder, gives the split of its images; ``--split`` selects
  one of them.
- A path may contain spaces: it ends before the first box. Its folders are part of the image name.
- Class names come from ``--classes``, or else from ``_classes.txt``, ``classes.txt``, ``class_names.txt`` or
  ``*_classes.txt`` in the folder, or the first three beside the file; otherwise the ids are used as names,
  with a warning.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
``annotations.txt``, or one file per split, and ``classes.txt``. ``-O prefix=data/images`` is put before the
names, because the tools open each path as it is written. Most of them read only whole numbers: ``-O
round=true`` writes these.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
from typing import Any

import numpy as np

from odm.codes import NUMBERED_CLASSES
from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import (
    add_list,
    class_list_option,
    find_first_id,
    note_spaces,
    read_class_list,
    read_list,
    report_other_list,
)
from odm.formats._shared.codes import (
    CLASS_LISTS_DISAGREE,
    DUPLICATE_IMAGE,
    NO_IMAGE_NAME,
    NOT_A_NUMBER,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.split_names import SplitOptions, list_split_files, select_split, write_splits
from odm.formats._shared.tables.rows import Columns, TableReader
from odm.formats._shared.text.label_rows import refuse_classes
from odm.formats._shared.text.numbers import round_edges, to_decimals
from odm.formats._shared.text.tokens import clean_text
from odm.issues import Log, PathError, first_few, printable, shorten, spell_setting
from odm.names import BAD_NAME, PICTURE_SUFFIXES
from odm.tables import Builder, Dataset

LAYOUT = Columns(
    columns=("image", "x_min", "y_min", "x_max", "y_max", "class", "score", "split"),
    roles={"image": 0, "left": 1, "top": 2, "right": 3, "bottom": 4, "class": 5, "score": 6, "split": 7},
    has_ids=True,
    lenient=True,
)
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_BOX = re.compile(rf"{_NUMBER}(?:,{_NUMBER}){{4,5}}", re.ASCII)
_WITHIN = re.compile(rf"\s{_NUMBER}(?:,{_NUMBER}){{4}}", re.ASCII)
_ID = re.compile(r"([0-9]{1,9})(?:\.0*)?", re.ASCII)
_USUAL = re.compile(
    r"(?:.*_)?(annotations|train|val|valid|validation|test|trainval)[0-9]*\.txt", re.IGNORECASE
)
_CLASSES = re.compile(r"_?classes\.txt|class_names\.txt|.+_classes\.txt", re.IGNORECASE)
_BESIDE = ("_classes.txt", "classes.txt", "class_names.txt")
_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_SUFFIXES = tuple(PICTURE_SUFFIXES)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class YolokerasOptions(SplitOptions):
    """Options of YOLO-Keras text."""

    classes: str | None = class_list_option()
    prefix: str = option("", "prefix of the image names, as in data/images", side="write")
    round: bool = option(False, "write whole numbers only", side="write")


def _split_line(line: str) -> tuple[str, list[str]]:
    """Split a line into its path, which may have spaces, and the texts of its boxes, which are not checked.

    Words with a comma at the end of the line are boxes: "my a.jpg 1,2,3,4,0 5,6,7,8,1" has two.
    """
    words = line.split()
    first_box = len(words)
    while first_box > 1 and "," in (word := words[first_box - 1]) and not word.lower().endswith(_SUFFIXES):
        first_box -= 1
    if first_box == 1:
        return words[0], words[1:]
    end = len(line.rstrip())  # of the path, when the boxes are cut off one by one
    for word in reversed(words[first_box:]):
        end = line.rindex(word, 0, end)
    return line[:end].strip(), words[first_box:]


def _count_fitting(head: bytes) -> tuple[int, int]:
    """Count the first lines that have boxes, and those that have neither boxes nor the path of a picture."""
    text = clean_text(head, path="", log=Log(keep=0))  # `read` reports what is wrong
    lines = text.decode("utf-8", "replace").split("\n")
    n_fitting = n_other = 0
    complete_lines = lines if len(lines) < 2 else lines[:-1]  # the last of several may be cut
    for line in complete_lines[:100]:
        if not line.strip():
            continue
        path, boxes = _split_line(line)
        n_boxes = sum(_BOX.fullmatch(box) is not None for box in boxes)
        if boxes and 2 * n_boxes >= len(boxes) and not _BOX.fullmatch(path):
            n_fitting += 1
        elif boxes or not path.lower().endswith(_SUFFIXES):
            n_other += 1
    return n_fitting, n_other


def _list_candidate_files(source: Source) -> list[str]:
    """The text files of a folder that are not lists of classes by their names."""
    return [f for f in source.with_suffix(".txt") if not _CLASSES.fullmatch(f.rpartition("/")[2])]


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of a path and boxes of five or six numbers between commas."""
    files = [""] if source.path.lower().endswith(".txt") else []
    files = _list_candidate_files(source) if source.is_dir else files
    for file in files[:20]:
        n_fitting, n_other = _count_fitting(source.head(file))
        if n_fitting > 2 * n_other:
            n_lines = f"{n_fitting} of the first lines{' of ' + printable(file) if file else ''}"
            return Sniff(SURE, f"{n_lines} are a path and boxes x1,y1,x2,y2,class_id, as YOLO-Keras has")
    return None


_Line = tuple[int, str, list[str]]
"""The number of a line from 1, its path and the texts of its boxes."""
_Row = tuple[Any, ...]
"""Line, image, left, top, right, bottom, class id and score of a box, as texts but for the line."""


def _split_of(file: str) -> str:
    """The split in the name of a file or of its folder, or an empty string."""
    folder, _, name = file.rpartition("/")
    match = _USUAL.fullmatch(name)
    word = match[1].lower() if match else ""
    return _SPLITS.get(word) or _SPLITS.get(folder.rpartition("/")[2].lower(), "")


def read(source: Source, builder: Builder, log: Log, options: YolokerasOptions) -> None:
    """Read a file, or those of a folder with a usual name or with boxes; unknown classes are skipped."""
    path = source.path.replace("\\", "/")
    files = [""]
    if source.is_dir:
        candidates = _list_candidate_files(source)
        usual_files = {file for file in candidates if _USUAL.fullmatch(file.rpartition("/")[2])}
        # `_count_fitting` begins with the number of lines with boxes.
        files = [file for file in candidates if file in usual_files or _count_fitting(source.head(file))[0]]
        report_unread(source, candidates, files, "YOLO-Keras text", log)
    class_list = _find_names(source, log, options)
    chosen_split = None if options.split is None else _SPLITS.get(options.split, options.split)
    files = select_split(files, lambda file: _split_of(file or path), chosen_split, source, log)
    # The lines of all files that are not blank, each as its number, the image name and its boxes.
    lines_of_file = {}
    for file in log.track(files, "reading"):
        data = source.read(file, log)
        if data is not None:
            lines = clean_text(data, source.full(file), log).decode("utf-8", "replace").split("\n")
            lines_of_file[file] = [(i, *_split_line(line)) for i, line in enumerate(lines, 1) if line.strip()]
    all_lines = itertools.chain.from_iterable(lines_of_file.values())
    has_suffixes = any(name.lower().endswith(_SUFFIXES) for _, name, boxes in all_lines if boxes)
    # Their rows, and the class of each id over all files.
    first_lines: dict[str, str] = {}
    tables = []
    for file, split_lines in lines_of_file.items():
        full = source.full(file)
        rows = _collect_rows(split_lines, full, first_lines, builder, log, has_suffixes=has_suffixes)
        tables.append((full, _split_of(file or path), rows))
    rows_of_path = [(table_path, rows) for table_path, _, rows in tables]
    categories = _name_categories(rows_of_path, class_list, source, builder, log)
    table = TableReader(source, builder, log, options)
    for table_path, split, split_rows in tables:
        kept_rows = [
            (line, [image, *edges, categories[class_id], score, split])
            for line, image, *edges, class_id, score in split_rows
            if class_id in categories
        ]
        builder.skipped += len(split_rows) - len(kept_rows)
        table.add(table_path, LAYOUT, kept_rows)
    table.finish()


def _collect_rows(
    lines: list[_Line],
    path: str,
    first_lines: dict[str, str],
    builder: Builder,
    log: Log,
    *,
    has_suffixes: bool,
) -> list[_Row]:
    """The rows of a file: one for each box, and one with empty cells for each image without any.

    Malformed lines and images that occurred before are left out, after an issue. `first_lines` is "path:line"
    of the first line of each image so far, and completed here. `has_suffixes` says that names of images have
    the suffix of a picture, so that a line without boxes needs one.
    """
    rows: list[_Row] = []
    for line_number, name, boxes in lines:
        # A path that contains a box, or one without boxes that is no picture.
        if _WITHIN.search(name) or (has_suffixes and not boxes and not name.lower().endswith(_SUFFIXES)):
            expected = "one path of a picture, and its boxes"
            log.report(WRONG_COUNT, path, line=line_number, expected=expected, found=repr(shorten(name)))
            builder.skipped += 1
            continue
        name = name.removeprefix("./").removeprefix(".\\")  # noqa: PLW2901
        path_and_line = f"{path}:{line_number}"
        if _BOX.fullmatch(name):
            log.report(NO_IMAGE_NAME, path, line=line_number)
            builder.skipped += len(boxes) + 1  # what stands for the name is a box too
            continue
        if first_lines.setdefault(name, path_and_line) != path_and_line:
            log.report(DUPLICATE_IMAGE, path, line=line_number, value=name, first=first_lines[name])
            builder.skipped += len(boxes)
            continue
        n_rows_before = len(rows)
        for box in boxes:
            cells = box.split(",")
            if len(cells) not in (5, 6):
                expected = "x_min,y_min,x_max,y_max,class_id, or these and a score"
                shown = f"{len(cells)} values in {box!r}"
                log.report(WRONG_COUNT, path, line=line_number, expected=expected, found=shown)
                builder.skipped += 1
            else:
                rows.append((line_number, name, *cells, *[""] * (6 - len(cells))))
        if len(rows) == n_rows_before:  # a row with empty cells for the image
            rows.append((line_number, name, *[""] * 6))
    return rows


def _find_names(source: Source, log: Log, options: YolokerasOptions) -> tuple[str, list[str]] | None:
    """The path of the list of class names, and the names; [] if they are unusable, None without a list."""
    if options.classes is not None:
        names, path = read_class_list(options.classes, source, list_of_source="", log=log)
        return path, names or []
    first_list: tuple[str, list[str]] | None = None
    for list_source, file in _find_lists(source):
        names = read_list(list_source, file, log)
        if names is None:
            return list_source.full(file), []
        if first_list is None:
            first_list = list_source.full(file), names
        elif names != first_list[1]:
            report_other_list(CLASS_LISTS_DISAGREE, list_source.full(file), names, first_list, log)
            return first_list[0], []
    return first_list


def _find_lists(source: Source) -> list[tuple[Source, str]]:
    """The lists of classes in a folder, or beside a file: each as a source and its file there.

    In a folder those called classes.txt or _classes.txt go before any others; a file has one list.
    """
    if source.is_dir:
        class_files = [f for f in source.files if _CLASSES.fullmatch(f.rpartition("/")[2])]
        usual = [f for f in class_files if f.rpartition("/")[2].lower() in _BESIDE[:2]]
        return [(source, file) for file in usual or class_files]
    for name in _BESIDE:
        path = os.path.join(os.path.dirname(source.path), name)
        with contextlib.suppress(PathError):
            return [(Source(path, follow_links=source.follow_links, max_size=source.max_size), "")]
    return []


def _name_categories(
    tables: list[tuple[str, list[_Row]]],
    class_list: tuple[str, list[str]] | None,
    source: Source,
    builder: Builder,
    log: Log,
) -> dict[str, str]:
    """The class name of each id, by the text of the id; those without a name are reported at every box.

    `tables` are the path and the rows of each file, `class_list` the path and names of a list of classes.
    Without a list, ids are the names. The classes are added to the dataset.
    """
    # A row is line, image, left, top, right, bottom, class id and score; an id may be 7, 07 or a faulty text.
    ids = dict.fromkeys(class_id for _, rows in tables for *_, class_id, _ in rows)
    number_of_id = {id_: int(match[1]) for id_ in ids if (match := _ID.fullmatch(id_))}
    category_of = {"": ""}  # of rows for images without boxes
    if class_list is None:
        builder.named = False
        class_numbers = sorted(set(number_of_id.values()))
        for class_number in class_numbers:
            builder.category(str(class_number), source_id=class_number)
        category_of |= {id_: str(class_number) for id_, class_number in number_of_id.items()}
        if class_numbers:
            # `near` is for a list of classes that seems to be meant; here there is none.
            log.report(NUMBERED_CLASSES, source.path, value=first_few(class_numbers, 10), near="")
    else:
        add_list(class_list[1], builder, log, class_list[0])
        name_of_number = dict(enumerate(class_list[1], find_first_id(class_list[1])))
        category_of |= {id_: name_of_number[n] for id_, n in number_of_id.items() if n in name_of_number}
    unknown_ids = ids.keys() - category_of.keys()
    for path, rows in tables if unknown_ids else ():
        for line, *_, id_, _ in rows:
            issue_args = {"line": line, "field": "class_id", "value": id_}
            if id_ not in unknown_ids:
                continue
            if id_ not in number_of_id:
                log.report(NOT_A_NUMBER, path, **issue_args)
            elif class_list and class_list[1]:  # a list that is not usable has been reported
                log.report(UNKNOWN_CLASS, path, **issue_args, n=len(class_list[1]), where=class_list[0])
    return category_of


def write(dataset: Dataset, target: Output, log: Log, options: YolokerasOptions) -> None:
    """Write a line for each image, in a file for each split, and the list of classes."""
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    names = [prefix + name for name in images.name]
    files = list_split_files(dataset, lambda split: f"{split or 'annotations'}.txt")
    all_files = [*files.values(), *(["classes.txt"] if classes else [])]
    is_refused = refuse_classes(dataset, log, words=False, unused=True)
    for row, name in enumerate(names):
        line = name + " 1,2,3,4,0"  # with a box; below also without any
        is_read_back = bool(name.strip()) and _split_line(line)[0] == name and _split_line(name) == (name, [])
        if not is_read_back or _BOX.fullmatch(name):
            path, line_number, pointer = dataset.image_place(row)
            reason = "it could not be told from the boxes after it"
            log.report(BAD_NAME, path, line=line_number, pointer=pointer, value=name, reason=reason)
            is_refused = True
    contents = [*(f"the split {s}" for s in files), "the classes"]
    if not target.plan(all_files, contents[: len(all_files)], log) or is_refused:
        return
    note_spaces(names, log)
    # The text of each box, by image: "left,top,right,bottom,class", and its score.
    order = np.argsort(boxes.image, kind="stable")
    edges = boxes.xyxy[order]
    n_fractions = int(np.count_nonzero(edges != np.rint(edges)))
    if n_fractions and options.round:
        edges = round_edges(edges)
        log.note(f"round=true: {n_fractions} of {edges.size} coordinates are rounded to whole pixels")
    elif n_fractions:
        log.note(f"most YOLO-Keras tools read whole numbers only ({spell_setting('round=true')} writes them)")
    texts = to_decimals(edges.ravel())
    columns = [*(texts[k::4] for k in range(4)), list(map(str, boxes.category[order].tolist()))]
    if dataset.kind == "det":
        columns.append(to_decimals(boxes.score[order]))
    rows = list(map(",".join, zip(*columns, strict=True)))
    # The boxes of image i are rows[image_starts[i] : image_starts[i + 1]].
    image_starts = np.searchsorted(boxes.image[order], np.arange(len(images) + 1)).tolist()
    pairs = zip(names, itertools.pairwise(image_starts), strict=True)
    lines = (" ".join([name, *rows[start:end]]) + "\n" for name, (start, end) in pairs)
    write_splits(dataset, target, files, lines)
    if classes:
        target.write("classes.txt", "".join(f"{name}\n" for name in classes).encode())


FORMAT = format_of(
    __name__,
    title="YOLO-Keras and YOLOv4-PyTorch text",
    expects=("image left,top,right,bottom,class",),
    use="training",
    written_by="keras-yolo3, pytorch-YOLOv4, Roboflow (2007_train.txt, _annotations.txt)",
    suffixes=(".txt",),
    keeps=frozenset("extension empty unused order score split".split()),
)
