"""YOLO: one ``.txt`` file per image, ``<id> <cx> <cy> <w> <h>`` relative to the image's size.

The id is the number of a class, from 0 (``6.0`` is 6); centre, width and height are fractions of the image's
width and height. An empty label file, or a picture without one, is an image without objects.

Layouts
    - a flat folder of label files, with or without the pictures beside them;
    - ``labels/`` beside ``images/``, also below split folders (``train/labels`` or ``labels/train``); the
      folder ``labels/`` itself may be named, too;
    - a data set with ``data.yaml``: ``path``, and ``train``, ``val``, ``test`` each as a folder, a ``.txt``
      list of pictures, or a list of either. A leading ``../`` is stripped and looked for under the folder of
      ``data.yaml``; any other place outside it is an error. All splits are read, or the one of ``--split``;
    - darknet's ``obj.data`` with its lists of pictures and ``obj.names``;
    - ``data.yaml`` or ``obj.data`` itself.

Class names
    ``--classes FILE`` (one name per line), else ``names`` in ``data.yaml``, ``classes.txt``, ``obj.names``;
    lists that disagree are an error. Without any list the numbers are the names, with a warning. The order of
    the list is kept.

Detections
    A sixth column is the confidence, **last** (Ultralytics) or **second** (darknet). The column that fits as
    a confidence while the other four stay plausible boxes decides; ``--conf-column`` decides by hand. Where
    both fit it is the last, said aloud.

Outlines
    Rows with a polygon (1 + 2n numbers) or a rotated box (9 numbers) are read as their bounding box, with a
    warning. Where ``data.yaml`` has ``kpt_shape``, rows with key points are read without them.

Image sizes
    From the pictures in ``images/`` or beside the labels (any extension in any case, EXIF orientation
    counts), ``--images DIR``, ``--image-size WxH`` or ``--image-sizes FILE.csv``.

Writing
    ``labels/`` (``labels/<split>/`` where splits are known) and a ``data.yaml`` without ``path``, so that
    trainers look beside the file. ``--link-images`` or ``--copy-images`` put the pictures in ``images/``. Ids
    follow the order of the categories; confidences go last. Numbers have as many decimals as bring the pixels
    back within 1e-6.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source, accept_name
from odm.formats._classes import UNWRITABLE, add_list, read_list, refuse_class
from odm.formats._contract import LIKELY, SURE, Format, Sniff, option
from odm.formats._faults import (
    BAD_CLASS_LIST,
    BAD_CLASS_NAME,
    CLASS_LISTS_DISAGREE,
    DUPLICATE_IMAGE,
    NO_PICTURE,
    NUMBERED_CLASSES,
    RELATIVE_RANGE,
    SCORE_MISSING,
    SCORE_RANGE,
    SCORE_UNEXPECTED,
    UNKNOWN_CLASS,
    UNKNOWN_SPLIT,
    WRONG_COUNT,
)
from odm.formats._images import (
    FAR,
    ImageOptions,
    Picture,
    Pictures,
    are_far,
    picture_in,
    relative_to_images,
)
from odm.formats._lines import (
    Chunk,
    Listing,
    Rows,
    check_number,
    chunks,
    every,
    explain_rows,
    listing,
    pages,
    relative,
    sample,
    say_others,
    text_of,
)
from odm.formats._numbers import decimal_cells
from odm.formats._yaml import Node, load
from odm.issues import Code, Log, printable, shorten
from odm.tables import PICTURE_SUFFIXES, Builder, Dataset, Floats, Ints, Kind, Longs, stem

BAD_ID = Code(
    "yolo-class-id",
    "error",
    "expected the number of a class, found {value!r}",
    "write the position of the class in the list of names, from 0",
    "The first value of a row is the id of a class: a whole number from 0.",
    row=True,
)
OUTLINES = Code(
    "yolo-outlines",
    "warning",
    "{n} of {total} rows are {what}, read as their bounding boxes; this is the first",
    "nothing to do if boxes are what you want",
    "A polygon or a rotated box says more than an upright box; what is beyond the box is not read.",
)
CLASS_COUNT = Code(
    "yolo-class-count",
    "error",
    "nc is {value}, and there are {n} names",
    "correct nc or the list of names",
    "The number of classes and the list of their names contradict each other: a name is missing or too many.",
)
BAD_DATA_YAML = Code(
    "yolo-data-file",
    "error",
    "expected {expected}, found {value!r}",
    "correct the file",
    "A key of the data set's description does not hold what it should.",
)
OUTSIDE = Code(
    "yolo-place-outside",
    "error",
    "{value!r} is not below the folder of the data set",
    "name the folder of labels on the command line, and that of the pictures with --images",
    "The description of the data set refers to a folder elsewhere, which is not read unless it is named.",
)
MISSING_SPLIT = Code(
    "yolo-split-missing",
    "error",
    "there is nothing at {value!r}",
    "correct the path, or choose another split with --split",
    "The description of the data set names a folder or a list of pictures that is not there.",
)
ABSENT_SPLIT = Code(
    "yolo-split-absent",
    "warning",
    "there is nothing at {value!r}; the other splits are read",
    "correct the path, or remove the key",
    "The description of the data set names a folder or a list of pictures that is not there.",
)
NOTHING_TO_PUT = Code(
    "picture-not-known",
    "error",
    "the picture of {value!r} is not known, so it cannot be put in images/",
    "give --images DIR, or --follow-links if it is behind a link; or leave out --link-images, --copy-images",
    "Pictures were asked for in the target, and the source does not say where this one is.",
)
SPLITS = ("train", "val", "valid", "validation", "test", "minival")
DARKNET_FOLDER = re.compile(r"obj_([A-Za-z0-9]+)_data", re.ASCII)
"""Where exports for darknet keep the labels and pictures of a split, beside ``obj.names``."""

ALIASES = {"valid": "val", "validation": "val"}
SLACK = 0.01
"""How far a plausible box may leave the image."""
WHOLE = re.compile(rb"\+?[0-9]{1,18}(?:\.0*)?")
BOX_FIELDS = ("cx", "cy", "w", "h")


@dataclasses.dataclass(frozen=True, kw_only=True)
class YoloOptions(ImageOptions):
    """Where names, splits, sizes and confidences come from."""

    classes: str | None = option(
        None, "file with the class names, one per line", flag="--classes", side="read"
    )
    split: str | None = option(None, "read only this split", flag="--split", side="read")
    conf_column: str | None = option(
        None,
        "where detections have their confidence",
        flag="--conf-column",
        choices=("last", "second"),
        side="read",
    )
    link_images: bool = option(
        False, "put links to the pictures in images/", flag="--link-images", side="write"
    )
    copy_images: bool = option(
        False, "put copies of the pictures in images/", flag="--copy-images", side="write"
    )


# ----------------------------------------------------------------------------------------------- sniffing


def sniff(source: Source) -> Sniff | None:
    """Whole numbers before values in 0..1, or one of the well-known layouts."""
    if not source.is_dir:
        low = source.path.lower()
        if low.endswith((".yaml", ".yml")):
            return Sniff(SURE, "it is a data.yaml") if _describes(source.head()) else None
        if low.endswith(".data"):
            return Sniff(SURE, "it is darknet's obj.data") if _is_data_file(source.head()) else None
        if not low.endswith(".txt"):
            return None
        return _sniff_lines(source, [""])
    if (yaml_file := _yaml_file(source)) is not None:
        return Sniff(SURE, f"{yaml_file} describes a YOLO data set")
    if (data_file := _data_file(source)) is not None:
        return Sniff(SURE, f"{data_file} describes a darknet data set")
    if any(f.lower().endswith(".xml") for f in source.files):
        return None
    found = listing(source)
    below = [f for f in found.labels if "labels" in f.split("/")[:-1]]
    answer = _sniff_lines(source, below or found.labels)
    if answer is not None and below and any("images" in f.split("/")[:-1] for f in found.pictures):
        return Sniff(SURE, f"labels/ stands beside images/, and {answer.reason}")
    return answer


def _sniff_lines(source: Source, labels: list[str]) -> Sniff | None:
    if not labels:
        return None
    found = sample(source, labels)
    if not found.lines:
        return Sniff(
            LIKELY,
            f"the {found.files} .txt files looked at are empty"
            if found.files > 1
            else "its .txt file is empty",
        )
    if found.relative < found.named + found.pixels:
        return None
    usual = max(found.counts, key=lambda n: (found.counts[n], n))
    if usual == 0:
        return None
    how = "all" if found.relative == found.lines else f"{found.relative} of"
    among = "" if found.files <= 1 or len(labels) <= found.files else f" of {found.files} files looked at"
    return Sniff(LIKELY, f"{how} {found.lines} lines{among} have a whole number and {usual} numbers in 0..1")


def _describes(head: bytes) -> bool:
    """Whether a YAML file is about a data set."""
    return re.search(rb"(?m)^[\"'{ ]*(names|train|val|nc)[\"']?[ ]*:", head) is not None


def _yaml_file(source: Source) -> str | None:
    """The file at the root that describes the data set, if there is one."""
    found = [f for f in source.files if "/" not in f and f.lower().endswith((".yaml", ".yml"))]
    usual = [f for f in found if f.lower().rsplit(".", 1)[0] in {"data", "dataset"}]
    for file in usual + found:
        head = source.head(file)
        if file in usual or (_describes(head) and re.search(rb"(?m)^[\"' ]*(names|nc)[\"']?[ ]*:", head)):
            return file
    return None


def _data_file(source: Source) -> str | None:
    for file in source.files:
        if "/" not in file and file.lower().endswith(".data") and _is_data_file(source.head(file)):
            return file
    return None


def _is_data_file(head: bytes) -> bool:
    return re.search(rb"(?m)^[ \t]*(train|names)[ \t]*=", head) is not None


# ------------------------------------------------------------------------------------------- what is there


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Group:
    """Labels and pictures that belong together: one split, or one folder of it."""

    split: str
    labels: dict[str, str]
    """Image name without extension -> label file, relative to the source."""
    folders: tuple[str, ...] = ()
    """Where the pictures may lie."""
    listed: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of a list of pictures: image name without extension -> path of the picture relative to the source."""
    only_listed: bool = False


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Plan:
    """What a source holds, before any label is read."""

    source: Source
    groups: list[Group]
    names: list[str] | None = None
    names_from: str = ""
    key_points: int = 0
    """How many numbers of key points follow a box."""
    lists: set[str] = dataclasses.field(default_factory=set)
    """The lists of pictures that the description names."""
    sound: bool = True


def _plan(source: Source, options: YoloOptions, log: Log) -> Plan:
    described = ""
    if not source.is_dir and source.path.lower().endswith((".yaml", ".yml", ".data")):
        folder, described = os.path.split(source.path)
        source = Source(folder or ".", follow_links=source.follow_links, max_size=source.max_size)
    plan = Plan(source, [])
    lists: list[tuple[str, list[str]]] = []
    yaml_file: str | None = None
    data_file: str | None = None
    if described:
        yaml_file, data_file = (None, described) if described.lower().endswith(".data") else (described, None)
    elif source.is_dir:
        yaml_file = _yaml_file(source)
        data_file = _data_file(source) if yaml_file is None else None
    if yaml_file is not None:
        _read_yaml(plan, yaml_file, options, lists, log)
    elif data_file is not None:
        _read_data_file(plan, data_file, options, lists, log)
    found = listing(source)
    if not plan.groups and plan.sound:
        _find_groups(plan, found, options, log)
    if source.is_dir:
        say_others(source, _undescribed(found, plan.lists), log)
    _settle_names(plan, found, options, lists, log)
    return plan


_BELONGS = frozenset(
    "classes.txt _classes.txt obj.names obj.data data.yaml dataset.yaml "
    "readme.roboflow.txt readme.dataset.txt".split()
)
"""Files that belong to a data set of this format, among them those of every Roboflow export."""


def _undescribed(found: Listing, lists: set[str]) -> Listing:
    """The listing without the files that belong to a data set of this format."""
    known = [
        f
        for f in found.known
        if f.rsplit("/", 1)[-1].lower() not in _BELONGS and not f.endswith(".cache") and f not in lists
    ]
    return Listing(found.labels, found.pictures, found.others, known)


def _find_groups(plan: Plan, found: Listing, options: YoloOptions, log: Log) -> None:
    """The groups of a source without a description."""
    source = plan.source
    if not source.is_dir:
        name = source.path.replace("\\", "/").rsplit("/", 1)[-1]
        folder = os.path.dirname(source.path) or "."
        sibling = _sibling(folder)
        key = name[:-4] if name.lower().endswith(".txt") else name
        plan.groups.append(Group("", {key: ""}, (sibling,) if sibling else (folder,), only_listed=True))
        return
    groups: dict[tuple[str, str], Group] = {}
    in_labels = any("labels" in f.split("/")[:-1] for f in found.labels) or any(
        "images" in f.split("/")[:-1] for f in found.pictures
    )
    sibling = _sibling(source.path)
    skipped = []
    for file in [*found.labels, *(found.pictures if in_labels else ())]:
        parts = file.split("/")
        is_label = file.lower().endswith(".txt")
        mark = "labels" if is_label else "images"
        if in_labels:
            if mark not in parts[:-1]:
                skipped.append(file)
                continue
            at = len(parts) - 2 - parts[-2::-1].index(mark)
            before, rest = parts[:at], parts[at + 1 :]
        else:
            before, rest = [], parts
        split = ""
        inner: list[str] = []
        if before and before[-1] in SPLITS:
            split = before[-1]
        elif (in_labels or sibling) and len(rest) > 1 and rest[0] in SPLITS:
            split, inner, rest = rest[0], rest[:1], rest[1:]
        root = "/".join(before)
        darknet = None if in_labels or len(rest) < 2 or sibling else DARKNET_FOLDER.fullmatch(rest[0])
        if darknet:  # pictures lie among the labels
            split, inner, rest = darknet[1].lower(), rest[:1], rest[1:]
            folder = source.full(inner[0])
        elif in_labels:
            folder = source.full("/".join([*before, "images", *inner]))
        else:
            folder = "/".join([sibling, *inner]) if sibling else source.path
        group = groups.setdefault((root, split), Group(ALIASES.get(split, split), {}, (folder,)))
        if is_label:
            key = "/".join(rest)[:-4]
            if group.labels.setdefault(key, file) != file:
                log.report(
                    DUPLICATE_IMAGE, source.full(file), value=key, first=source.full(group.labels[key])
                )
    if not groups and not in_labels and found.pictures:
        groups["", ""] = Group("", {}, (source.path,))
    if skipped:
        shown = ", ".join(shorten(f) for f in skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        log.note(f"{printable(source.path)}: not below labels/ or images/, and not read: {shown}")
    plan.groups = list(groups.values())
    _choose_split(plan, options, log)


def _choose_split(plan: Plan, options: YoloOptions, log: Log) -> None:
    if options.split is None:
        return
    wanted = ALIASES.get(options.split, options.split)
    names = sorted({group.split for group in plan.groups if group.split})
    plan.groups = [group for group in plan.groups if group.split == wanted]
    if not plan.groups:
        log.report(UNKNOWN_SPLIT, plan.source.path, value=options.split, found=", ".join(names) or "none")
        plan.sound = False


def _sibling(folder: str) -> str:
    """The canonical place of the pictures of labels in `folder`, if that is or lies below ``labels``."""
    parts = os.path.abspath(folder).split(os.sep)
    if "labels" not in parts:
        return ""
    at = len(parts) - 1 - parts[::-1].index("labels")
    return os.sep.join([*parts[:at], "images", *parts[at + 1 :]])


def _read_yaml(
    plan: Plan, file: str, options: YoloOptions, lists: list[tuple[str, list[str]]], log: Log
) -> None:
    source = plan.source
    path = source.full(file)
    data = source.read(file, log)
    root = load(data, path, log) if data is not None else None
    if root is None:
        plan.sound = False
        return
    if not isinstance(root.value, dict):
        log.report(
            BAD_DATA_YAML, path, line=root.line, expected="keys such as names and train", value=_shown(root)
        )
        plan.sound = False
        return
    entries: dict[str, Node] = root.value
    _read_names(plan, entries, path, options, lists, log)
    _read_key_points(plan, entries)
    base = ""
    if (node := entries.get("path")) is not None and isinstance(node.value, str) and not _is_none(node):
        base = _base(source, node.value)
    wanted = None if options.split is None else ALIASES.get(options.split, options.split)
    named: dict[str, list[Node]] = {}
    for key, node in entries.items():
        is_split = key in SPLITS or (isinstance(node.value, str) and node.value == f"images/{key}")
        if is_split and not _is_none(node):
            items = node.value if isinstance(node.value, list) else [node]
            named.setdefault(ALIASES.get(key, key), []).extend(items)
    owners: dict[str, list[str]] = {}
    for split, items in named.items():
        for item in items:
            owners.setdefault(_normal(source, item), []).append(split)
    absent: list[tuple[Node, str]] = []
    done = set()
    for split, items in named.items():
        for item in items if wanted in {None, split} else ():
            place = _normal(source, item)
            if place in done:
                continue
            done.add(place)
            if not isinstance(item.value, str) or not item.value.strip():
                expected = "a folder or a list of pictures"
                log.report(
                    BAD_DATA_YAML, path, line=item.line, field=split, expected=expected, value=_shown(item)
                )
                plan.sound = False
                continue
            held = owners[place]
            if len(held) > 1 and wanted is None:
                # A place that several splits share is none of them, unless it bears the name of one.
                name = place.rpartition("/")[2]
                name = ALIASES.get(name, name)
                split_of = name if name in held else ""
            else:
                split_of = split
            if not _add_place(plan, item.value, base, split_of, path, item.line, options, log):
                absent.append((item, split))
    if wanted is not None and wanted not in named:
        log.report(UNKNOWN_SPLIT, path, value=options.split, found=", ".join(named) or "none")
        plan.sound = False
    code = ABSENT_SPLIT if plan.groups and wanted is None else MISSING_SPLIT
    for item, key in absent:
        log.report(code, path, line=item.line, field=key, value=item.value)
        plan.sound &= code is ABSENT_SPLIT


def _normal(source: Source, item: Node) -> str:
    """A place in one spelling, so that two splits that share it are noticed."""
    if not isinstance(item.value, str):
        return f"#{item.line}"
    inside = _inside(source, item.value)
    return item.value if inside is None else inside


def _shown(node: Node) -> str:
    return (
        node.value
        if isinstance(node.value, str)
        else "a list"
        if isinstance(node.value, list)
        else "a mapping"
    )


def _is_none(node: Node) -> bool:
    return isinstance(node.value, str) and node.value.strip() in {"", "~", "null"}


def _read_key_points(plan: Plan, entries: dict[str, Node]) -> None:
    node = entries.get("kpt_shape")
    if node is None or not isinstance(node.value, list) or len(node.value) != 2:
        return
    numbers = [n.value for n in node.value]
    if all(isinstance(n, str) and re.fullmatch(r"[0-9]{1,4}", n) for n in numbers):
        plan.key_points = int(numbers[0]) * int(numbers[1])


def _read_names(
    plan: Plan,
    entries: dict[str, Node],
    path: str,
    options: YoloOptions,
    lists: list[tuple[str, list[str]]],
    log: Log,
) -> None:
    if options.classes is not None:
        return
    errors = log.errors
    node = entries.get("names")
    items: list[Node] = []
    if node is None or _is_none(node):
        pass
    elif isinstance(node.value, list):
        items = node.value
    elif isinstance(node.value, dict):
        items = _names_by_id(node, path, log)
    else:
        log.report(
            BAD_DATA_YAML, path, line=node.line, field="names", expected="a list of names", value=_shown(node)
        )
    for item in items:
        if not isinstance(item.value, str):
            log.report(
                BAD_DATA_YAML,
                path,
                line=item.line,
                field="names",
                expected="the name of a class",
                value=_shown(item),
            )
        elif not item.value.strip():
            log.report(BAD_CLASS_LIST, path, line=item.line, field="names", reason="a name is empty")
        elif (reason := refuse_class(item.value)) is not None:
            log.report(BAD_CLASS_NAME, path, line=item.line, field="names", value=item.value, reason=reason)
    count = entries.get("nc")
    if count is not None and not _is_none(count):
        if not isinstance(count.value, str) or not re.fullmatch(r"[0-9]{1,9}(\.0*)?", count.value.strip()):
            log.report(
                BAD_DATA_YAML,
                path,
                line=count.line,
                field="nc",
                expected="a number of classes",
                value=_shown(count),
            )
        elif items and int(float(count.value)) != len(items):
            log.report(
                CLASS_COUNT, path, line=count.line, field="nc", value=int(float(count.value)), n=len(items)
            )
    if log.errors > errors:
        plan.sound = False
    elif items:
        lists.append((path, [item.value for item in items]))


def _names_by_id(node: Node, path: str, log: Log) -> list[Node]:
    numbered: dict[int, Node] = {}
    for key, item in node.value.items():
        if not re.fullmatch(r"[0-9]{1,9}", key) or int(key) in numbered:
            log.report(
                BAD_CLASS_LIST,
                path,
                line=item.line,
                field="names",
                reason=f"{shorten(key)!r} is not a new id",
            )
        else:
            numbered[int(key)] = item
    missing = next((i for i in range(len(numbered)) if i not in numbered), None)
    if missing is not None:
        log.report(BAD_CLASS_LIST, path, line=node.line, field="names", reason=f"id {missing} has no name")
    return [numbered[i] for i in sorted(numbered)]


def _base(source: Source, text: str) -> str:
    """The folder that ``path`` means, relative to the source: the source itself if nothing else is there."""
    inside = _inside(source, text)
    if inside is None:
        # An absolute path of another machine, or ../name: places are then looked for beside the file.
        parts = [p for p in text.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
        while parts:
            prefix = "/".join(parts) + "/"
            if any(f.startswith(prefix) for f in source.files):
                return "/".join(parts)
            parts = parts[1:]
        return ""
    return inside


def _inside(source: Source, text: str) -> str | None:
    """A place of a description relative to the source, None where it lies elsewhere."""
    text = text.strip().replace("\\", "/")
    if text.startswith("/") or re.match(r"[A-Za-z]:", text) or "://" in text:
        real, root = os.path.realpath(text), os.path.realpath(source.path)
        if real == root or real.startswith(root.rstrip(os.sep) + os.sep):
            return "/".join(p for p in os.path.relpath(real, root).split(os.sep) if p != ".")
        return None
    parts = [p for p in text.split("/") if p not in {"", "."}]
    while parts and parts[0] == "..":
        parts.pop(0)
    return None if ".." in parts else "/".join(parts)


def _add_place(
    plan: Plan, text: str, base: str, split: str, path: str, line: int, options: YoloOptions, log: Log
) -> bool:
    """Add what a folder or a list of pictures holds; False if there is nothing."""
    source = plan.source
    inside = _inside(source, text)
    if inside is None:
        log.report(OUTSIDE, path, line=line, field=split, value=text)
        plan.sound = False
        return True
    absolute = text.strip().startswith("/")
    candidates = [inside] if absolute else list(dict.fromkeys((_join(base, inside), inside)))
    for place in candidates:
        if place.lower().endswith(".txt") and place in _file_set(source):
            return _add_list(plan, place, base, split, options, log)
        group = _folder_group(source, place, split)
        if group is not None:
            plan.groups.append(group)
            return True
    return False


def _join(folder: str, place: str) -> str:
    return "/".join(part for part in (folder, place) if part)


def _file_set(source: Source) -> frozenset[str]:
    if "files" not in source.memo:
        source.memo["files"] = frozenset(source.files)
    found: frozenset[str] = source.memo["files"]
    return found


def _labels_of(place: str) -> str:
    """The folder of the labels of a folder of pictures: the last ``images`` becomes ``labels``."""
    parts = place.split("/")
    if "images" not in parts:
        return place
    at = len(parts) - 1 - parts[::-1].index("images")
    return "/".join([*parts[:at], "labels", *parts[at + 1 :]])


def _folder_group(source: Source, place: str, split: str) -> Group | None:
    found = listing(source)
    folder = _labels_of(place)
    if folder == place and not _below(place, found.labels) and not _below(place, found.pictures):
        return None
    inner = "" if folder != place else "images"
    if folder == place and _below(_join(place, "labels"), found.labels):
        folder = _join(place, "labels")  # ``train: train`` with train/images and train/labels
        place = _join(place, inner)
    labels = _below(folder, found.labels)
    pictures = _below(place, found.pictures)
    if not labels and not pictures:
        return None
    if not labels:
        labels = _below(place, found.labels)
        folder = place
    cut = len(folder) + 1 if folder else 0
    return Group(split, {f[cut:-4]: f for f in labels}, (source.full(place),))


def _below(folder: str, files: Iterable[str]) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    return [f for f in files if f.startswith(prefix)]


def _add_list(plan: Plan, file: str, base: str, split: str, options: YoloOptions, log: Log) -> bool:
    """Add the images of a ``.txt`` list of pictures; False if none of them is there."""
    source = plan.source
    plan.lists.add(file)
    path = source.full(file)
    data = source.read(file, log)
    if data is None:
        plan.sound = False
        return True
    errors = log.errors
    text = text_of(data, path, log)
    if log.errors > errors:
        plan.sound = False
        return True
    files = _file_set(source)
    folder = file.rpartition("/")[0]
    group = Group(split, {}, (), only_listed=True)
    places: list[tuple[str, str | None]] = []
    known = 0
    for number, raw in enumerate(text.decode().split("\n"), 1):
        entry = raw.strip(" \t").replace("\\", "/")
        if not entry:
            continue
        inside = _inside(source, entry)
        if inside is None and options.images is not None:
            inside = entry.rsplit("/images/", 1)[-1] if "/images/" in entry else entry.rsplit("/", 1)[-1]
        if inside is None:
            log.report(OUTSIDE, path, line=number, field=split, value=entry)
            plan.sound = False
            continue
        if not accept_name(inside, log, path, line=number):
            plan.sound = False
            continue
        picture, label = _find_listed(inside, folder, base, files)
        known += label is not None or picture in files
        places.append((picture, label))
    shared = _shared_folder([picture for picture, _ in places])
    for picture, label in places:
        key = stem(picture[len(shared) :])
        if key in group.listed:
            continue
        group.listed[key] = picture
        if label is not None:
            group.labels[key] = label
    if places and not known and options.images is None:
        return False
    plan.groups.append(group)
    return True


def _find_listed(inside: str, folder: str, base: str, files: frozenset[str]) -> tuple[str, str | None]:
    """The picture that an entry of a list means and its label file, both relative to the source."""
    parts = inside.split("/")
    tried = [_join(folder, inside), _join(base, inside), inside]
    tried += ["/".join(parts[i:]) for i in range(1, len(parts))]
    for picture in dict.fromkeys(tried):
        for place in dict.fromkeys((_labels_of(picture), picture)):
            label = f"{place[: place.rfind('.')] if '.' in place.rsplit('/', 1)[-1] else place}.txt"
            if label in files:
                return picture, label
        if picture in files:
            return picture, None
    return tried[0], None


def _shared_folder(paths: list[str]) -> str:
    """The longest folder, with its slash, that all paths begin with."""
    if not paths:
        return ""
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    return f"{shared}/" if shared else ""


def _read_data_file(
    plan: Plan, file: str, options: YoloOptions, lists: list[tuple[str, list[str]]], log: Log
) -> None:
    source = plan.source
    path = source.full(file)
    data = source.read(file, log)
    if data is None:
        plan.sound = False
        return
    entries: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text_of(data, path, log).decode(errors="replace").split("\n"), 1):
        key, equals, value = line.partition("=")
        if equals and key.strip() and not key.lstrip().startswith("#"):
            entries[key.strip()] = value.strip(), number
    if "names" in entries and options.classes is None:
        value, number = entries["names"]
        name_file = _find_by_tail(source, value)
        if name_file is None:
            log.report(MISSING_SPLIT, path, line=number, field="names", value=value)
            plan.sound = False
        elif (names := read_list(source, name_file, log)) is not None:
            lists.append((source.full(name_file), names))
            count, at = entries.get("classes", ("", 0))
            if count and count != str(len(names)):
                log.report(CLASS_COUNT, path, line=at, field="classes", value=count, n=len(names))
                plan.sound = False
        else:
            plan.sound = False
    wanted = None if options.split is None else ALIASES.get(options.split, options.split)
    named = []
    for key in ("train", "valid", "test"):
        value, number = entries.get(key, ("", 0))
        split = ALIASES.get(key, key)
        if not value:
            continue
        named.append(split)
        if wanted is not None and split != wanted:
            continue
        place = _find_by_tail(source, value)
        if place is None or not _add_list(plan, place, "", split, options, log):
            code = MISSING_SPLIT if key == "train" or wanted is not None else ABSENT_SPLIT
            log.report(code, path, line=number, field=key, value=value)
            plan.sound &= code is ABSENT_SPLIT
    if wanted is not None and wanted not in named:
        log.report(UNKNOWN_SPLIT, path, value=options.split, found=", ".join(named) or "none")
        plan.sound = False


def _find_by_tail(source: Source, text: str) -> str | None:
    """A file of the source by the end of a path: darknet's are relative to where it was started."""
    parts = [p for p in text.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
    while parts:
        if "/".join(parts) in _file_set(source):
            return "/".join(parts)
        parts = parts[1:]
    return None


def _settle_names(
    plan: Plan, found: Listing, options: YoloOptions, lists: list[tuple[str, list[str]]], log: Log
) -> None:
    """Choose the list of class names; all that were found must agree."""
    if options.classes is not None:
        chosen = read_list(Source(options.classes, follow_links=True), "", log)
        plan.names, plan.names_from = chosen, options.classes
        plan.sound &= chosen is not None
        return
    for file in found.known:
        if file.rsplit("/", 1)[-1].lower() in {"classes.txt", "_classes.txt", "obj.names"}:
            path = plan.source.full(file)
            if any(path == other for other, _ in lists):
                continue
            names = read_list(plan.source, file, log)
            if names is None:
                plan.sound = False
            else:
                lists.append((path, names))
    if not lists:
        return
    plan.names_from, plan.names = lists[0]
    for path, names in lists[1:]:
        if names == plan.names:
            continue
        pairs = [(*plan.names, "(nothing)"), (*names, "(nothing)")]
        number = next(
            (i for i, (a, b) in enumerate(zip(*pairs, strict=False)) if a != b), min(map(len, pairs)) - 1
        )
        log.report(
            CLASS_LISTS_DISAGREE,
            path,
            line=number + 1,
            number=number,
            value=pairs[1][number],
            other=pairs[0][number],
            first=plan.names_from,
        )
        plan.sound = False


# ------------------------------------------------------------------------------------------------ reading


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Image:
    """An image of the data set."""

    key: str
    label: str | None
    picture: Picture | None
    split: str
    pictures: Pictures
    lonely: bool
    """Whether others of its folder have a picture and it has none."""


def read(source: Source, builder: Builder, log: Log, options: YoloOptions) -> None:
    """Read a data set of label files, in any of its layouts."""
    plan = _plan(source, options, log)
    source = plan.source
    images = _images(plan, builder, log, options)
    files = [image.label for image in images if image.label is not None]
    owners = np.array([i for i, image in enumerate(images) if image.label is not None], np.int64)
    scan = _scan(source, files, log, plan)
    builder.skipped += scan.lost
    where = Rows(source, files, scan.file, scan.line)
    good, box, score = _choose_columns(scan, where, builder, log, options)
    if not bool(scan.outline.any()):
        far_rows = are_far(box)
    else:
        far_rows = np.where(scan.outline, scan.far, are_far(box))
    far = good & far_rows
    second = scan.second
    where.report(log, RELATIVE_RANGE, np.flatnonzero(far), lambda cells: _say_far(cells, second=second))
    good &= ~far
    numbers = np.array([builder.file(source.full(f)) for f in files], np.int32)
    places = np.full(len(images), -1)
    places[owners] = numbers
    rows, sizes = _add_images(images, owners[scan.file[good]], places, builder, log, source)
    image = owners[scan.file] if len(owners) else scan.file.astype(np.int64)
    good &= (rows[image] >= 0) & (sizes[image, 0] > 0) if len(rows) else good
    category, known = _add_categories(scan, where, good, plan, builder, log)
    good &= known
    _report_outlines(scan, where, good, builder, log)
    builder.skipped += int(len(good) - good.sum())
    size = sizes[image[good]].astype(np.float64)
    corners, wh = _corners(box[good], scan.outline[good])
    builder.boxes(
        image=rows[image[good]],
        category=category[good],
        xyxy=corners * np.tile(size, 2),
        wh=wh * size,
        score=score[good],
        file=numbers[scan.file[good]] if files else scan.file,
        line=scan.line[good],
    )


def _images(plan: Plan, builder: Builder, log: Log, options: YoloOptions) -> list[Image]:
    """All images in code-point order of their names."""
    source = plan.source
    found: list[Image] = []
    everywhere: Pictures | None = None
    if options.images is not None or not source.is_dir:
        folders = plan.groups[0].folders if plan.groups else ()
        everywhere = Pictures(options, builder, log, source, folders)
    first: Pictures | None = None
    background = 0
    taken: dict[str, str] = {}
    shown = printable(source.path)
    for group in plan.groups:
        pictures = everywhere or Pictures(options, builder, log, source, group.folders, beside=first)
        first = first or pictures
        missing: list[Image] = []
        matched = 0
        keys = dict.fromkeys([*group.labels, *group.listed])
        seen = set()
        for key in keys:
            label = group.labels.get(key)
            path = source.full(label) if label is not None else ""
            picture = pictures.find(key, path=path)
            if picture is None and options.images is not None:
                picture = pictures.find(f"{group.split}/{key}") or pictures.find(key.rsplit("/", 1)[-1])
            if picture is None and (listed := group.listed.get(key)) is not None and options.images is None:
                picture = _listed_picture(source, key, listed)
            if picture is None and stem(key) != key:
                picture = pictures.named(key)  # labels called img.jpg.txt
            if picture is not None:
                matched += 1
                seen.add(picture.place)
            image = Image(key, label, picture, group.split, pictures, lonely=False)
            if picture is None and label is not None:
                missing.append(image)
            if label is not None and taken.setdefault(label, group.split) != group.split:
                log.note(f"{shown}: labels that two splits share are read once, as {taken[label]!r}")
                continue
            found.append(image)
        if matched:
            for image in missing:
                image.lonely = True
        # Of detections, a picture without a label file says nothing. One folder of pictures by --images may
        # hold those of other splits.
        has_background = builder.kind != "det" and not group.only_listed
        if everywhere is not None:
            has_background &= len(plan.groups) == 1 and not group.split
        if has_background:
            for picture in pictures.all:
                key = stem(picture.name)
                if picture.place not in seen and key not in group.labels:
                    if taken.setdefault(picture.place, group.split) != group.split:
                        continue
                    found.append(Image(key, None, picture, group.split, pictures, lonely=False))
                    background += 1
    if background:
        what = "picture has" if background == 1 else "pictures have"
        log.note(f"{shown}: {background} {what} no label file, so these are images without objects")
    _part_splits(found, plan, log)
    return sorted(found, key=lambda image: (_name(image), image.split))


def _listed_picture(source: Source, key: str, listed: str) -> Picture | None:
    suffix = listed[listed.rfind(".") :] if "." in listed.rsplit("/", 1)[-1] else ""
    if listed in _file_set(source) and suffix.lower() in PICTURE_SUFFIXES:
        return picture_in(source, listed, key + suffix)
    return None


def _name(image: Image) -> str:
    if image.picture is None:
        return image.key
    name = image.picture.name
    suffix = name[name.rfind(".") :]
    return image.key if image.key.endswith(suffix) else image.key + suffix


def _part_splits(images: list[Image], plan: Plan, log: Log) -> None:
    """Where two splits have an image of one name, put the split before the names."""
    names = [_name(image) for image in images]
    if len(set(names)) == len(names) or len({image.split for image in images}) < 2:
        return
    log.note(
        f"{printable(plan.source.path)}: images of different splits have the same name, so the split was put "
        "before the names"
    )
    for image in images:
        if image.split:
            image.key = f"{image.split}/{image.key}"


def _add_images(
    images: list[Image], used: NDArray[Any], places: NDArray[Any], builder: Builder, log: Log, source: Source
) -> tuple[Ints, Longs]:
    """The row of each image (-1 = refused) and the (n, 2) sizes in pixels, 0 where unknown."""
    needed = np.zeros(len(images), bool)
    needed[used] = True
    rows = np.full(len(images), -1, np.int32)
    sizes = np.zeros((len(images), 2), np.int64)
    owner: dict[str, str] = {}
    for i, image in enumerate(log.track(images, "looking at pictures")):
        name = _name(image)
        label = source.full(image.label) if image.label is not None else ""
        path = label or (image.picture.place if image.picture else source.path)
        if not accept_name(name, log, path):
            continue
        if name in owner:
            log.report(DUPLICATE_IMAGE, path, value=name, first=owner[name])
            continue
        owner[name] = path
        errors = log.errors
        size = image.pictures.size(name, image.picture)
        if size is None and needed[i] and log.errors == errors:
            image.pictures.report_no_size(name, image.picture, path)
        elif image.lonely:
            log.report(NO_PICTURE, path, value=name)
        width, height = sizes[i] = size or (0, 0)
        rows[i] = builder.image(
            name,
            width=int(width),
            height=int(height),
            path=image.picture.path if image.picture else "",
            split=image.split,
            file=int(places[i]),
        )
    return rows, sizes


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Scan:
    """All rows, before anyone decided which column is the confidence."""

    id: Longs
    columns: Floats
    """(n, 5) what follows the id, NaN where a row has four; of an outline its left, top, right, bottom and
    confidence."""
    outline: NDArray[np.bool_]
    far: NDArray[np.bool_]
    """Of outlines, whether a coordinate is far beyond 1."""
    count: Ints
    """(n,) how many values the row has."""
    file: Ints
    line: Ints
    lost: int
    second: bool = False


def _scan(source: Source, files: list[str], log: Log, plan: Plan) -> Scan:
    parts: list[tuple[NDArray[Any], ...]] = []
    lost = 0
    for chunk in chunks(source, files, log):
        part, faulty = _rows(chunk, plan.key_points)
        parts.append(part)
        lost += len(faulty)
        explain_rows(chunk, faulty, source, files, log, _explain)
    if not parts:
        none = np.zeros(0, np.int32)
        flags = np.zeros(0, bool)
        parts.append((none.astype(np.int64), np.zeros((0, 5)), flags, flags, none, none, none))
    id_, columns, outline, far, count, file, line = (np.concatenate(c) for c in zip(*parts, strict=True))
    return Scan(id_, columns, outline, far, count, file, line, lost)


def _rows(chunk: Chunk, key_points: int) -> tuple[tuple[NDArray[Any], ...], NDArray[Any]]:
    """The sound rows of a chunk, column by column, and which rows are not sound."""
    count = chunk.count
    n = len(chunk)
    sound = count >= 5
    first = np.full(n, np.nan)
    columns = np.full((n, 5), np.nan)
    outline = np.zeros(n, bool)
    far = np.zeros(n, bool)
    boxes = np.zeros(n, bool)
    for size in dict.fromkeys((5, 6, 5 + key_points, 6 + key_points)):
        rows = np.flatnonzero(count == size)
        if not len(rows):
            continue
        boxes[rows] = True
        used = np.arange(5) if size in {5, 5 + key_points} else np.array([0, 1, 2, 3, 4, size - 1])
        values, bad = chunk.numbers((chunk.first[rows, None] + used).ravel())
        table = values.reshape(len(rows), len(used))
        first[rows] = table[:, 0]
        columns[rows, : len(used) - 1] = table[:, 1:]
        finite = every(np.isfinite(table[:, 1:5]))
        if len(used) == 6:
            finite &= np.isfinite(table[:, 5])
        finite[bad // len(used)] = False
        sound[rows] = finite
    rest = np.flatnonzero(~boxes & sound)
    first[rest], bad = chunk.numbers(chunk.first[rest])
    sound[rest[bad]] = False
    with np.errstate(invalid="ignore"):
        sound &= (first >= 0) & (first < 2.0**53) & (first == np.rint(first)) & ~np.signbit(first)
    rest = np.flatnonzero(~boxes & sound)
    if len(rest):
        outline[rest] = True
        sound[rest], far[rest], columns[rest] = _outlines(chunk, rest)
    kept = np.flatnonzero(sound)
    ids = first[kept].astype(np.int64)
    found = (ids, columns[kept], outline[kept], far[kept], count[kept].astype(np.int32))
    return (*found, chunk.file[kept], chunk.line[kept]), np.flatnonzero(~sound)


def _outlines(chunk: Chunk, rows: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]:
    """Of rows with 1 + 2n or 2 + 2n values: whether they are sound, whether a coordinate is far beyond 1, and
    left, top, right, bottom and confidence.
    """
    count = chunk.count[rows] - 1
    begin = np.cumsum(count) - count
    where = np.repeat(chunk.first[rows] + 1 - begin, count) + np.arange(int(count.sum()))
    values, bad = chunk.numbers(where)
    values[bad] = np.nan
    owner = np.repeat(np.arange(len(rows)), count)
    sound = np.ones(len(rows), bool)
    sound[owner[~np.isfinite(values)]] = False
    place = np.arange(len(values)) - begin[owner]
    has_score = count % 2 == 1
    is_score = has_score[owner] & (place == count[owner] - 1)
    columns = np.full((len(rows), 5), np.nan)
    columns[has_score, 4] = values[is_score]
    values = np.where(np.isfinite(values), values, 0)
    coordinates = values[~is_score]
    length = count - has_score
    starts = np.cumsum(length) - length
    xs, ys = coordinates[0::2], coordinates[1::2]  # every length is even
    columns[:, 0], columns[:, 2] = np.minimum.reduceat(xs, starts // 2), np.maximum.reduceat(xs, starts // 2)
    columns[:, 1], columns[:, 3] = np.minimum.reduceat(ys, starts // 2), np.maximum.reduceat(ys, starts // 2)
    return sound, are_far(columns[:, :4]), columns


def _explain(cells: list[tuple[int, bytes]], path: str, line: int, log: Log) -> None:
    """Report what is wrong with one row: the slow twin of `_rows`."""
    column, value = cells[0]
    if len(cells) < 5:
        expected = "a class id and 4 numbers, or these and a confidence"
        found = f"{len(cells)} value{'' if len(cells) == 1 else 's'}"
        log.report(WRONG_COUNT, path, line=line, column=column, expected=expected, found=found)
        return
    if not WHOLE.fullmatch(value) or float(value) >= 2.0**53:
        log.report(BAD_ID, path, line=line, column=column, field="class", value=value)
        return
    for i, cell in enumerate(cells[1:]):
        field = BOX_FIELDS[i] if len(cells) == 5 else f"value {i + 2}"
        if not check_number(cell, log, path, line, field):
            return


def _choose_columns(
    scan: Scan, where: Rows, builder: Builder, log: Log, options: YoloOptions
) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Decide on the kind and on the column of the confidence: which rows are good, their boxes and scores."""
    scored = ~np.isnan(scan.columns[:, 4])
    kind: Kind = builder.kind or ("det" if 2 * int(scored.sum()) > len(scored) else "gt")
    builder.kind = kind
    box, score = scan.columns[:, :4], np.array(scan.columns[:, 4])
    if kind == "gt":
        odd = scored & scan.outline
        where.report(log, WRONG_COUNT, np.flatnonzero(odd), _say_odd)
        where.report(log, SCORE_UNEXPECTED, np.flatnonzero(scored & ~odd), lambda cells: _say(cells, -1))
        return ~scored, box, score
    six = np.flatnonzero(scored & ~scan.outline & (scan.count == 6))
    scan.second = _is_second(scan, where, six, log, options)
    if scan.second:
        box = box.copy()
        box[six] = scan.columns[six, 1:]
        score[six] = scan.columns[six, 0]
    where.report(log, SCORE_MISSING, np.flatnonzero(~scored), lambda _: {})
    outside = scored & ~((score >= 0) & (score <= 1))
    at = 1 if scan.second else -1
    where.report(log, SCORE_RANGE, np.flatnonzero(outside), lambda cells: _say(cells, at))
    return scored & ~outside, box, score


def _is_second(scan: Scan, where: Rows, six: NDArray[Any], log: Log, options: YoloOptions) -> bool:
    """Whether the confidence is the second column."""
    if options.conf_column is not None or not len(six):
        return options.conf_column == "second"
    values = scan.columns[six]
    last = int((_fits(values[:, :4]) & _in_range(values[:, 4])).sum())
    second = int((_fits(values[:, 1:]) & _in_range(values[:, 0])).sum())
    shown = printable(where.source.path)
    n = len(six)
    if last == second == n:
        row = [f"{v:.6g}" for v in values[0].tolist()]
        log.note(
            f"{shown}: the confidence is read as the last column; the second would fit, too. The first row "
            f"is read as confidence {row[4]} and box {' '.join(row[:4])}, not as confidence {row[0]} and box "
            f"{' '.join(row[1:])} (--conf-column second otherwise)"
        )
        return False
    is_second = second > last
    column, fits, others = ("second", second, last) if is_second else ("last", last, second)
    log.note(
        f"{shown}: the confidence is read as the {column} column, because {fits} of {n} rows are plausible "
        f"so and {others} the other way (--conf-column otherwise)"
    )
    return is_second


def _in_range(values: Floats) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (values >= 0) & (values <= 1)
    return inside


def _fits(box: Floats) -> NDArray[np.bool_]:
    """Which (n, 4) relative boxes are plausible: of some size, and within the image."""
    half = box[:, 2:] / 2
    inside = (box[:, :2] - half >= -SLACK) & (box[:, :2] + half <= 1 + SLACK) & (half >= 0)
    return np.array(inside.all(axis=1))


def _say(cells: list[tuple[int, bytes]], at: int) -> dict[str, Any]:
    column, value = cells[at] if len(cells) > abs(at) else (0, b"")
    return {"column": column, "field": "score", "value": value}


def _say_odd(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    expected = "a class id and 4 numbers, or pairs of coordinates"
    return {"expected": expected, "found": f"{len(cells)} values"}


def _say_far(cells: list[tuple[int, bytes]], *, second: bool) -> dict[str, Any]:
    values = cells[2:6] if second and len(cells) == 6 else cells[1:]
    for i, (column, value) in enumerate(values):
        if not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": BOX_FIELDS[i] if len(cells) <= 6 else "", "value": value}
    return {"value": b""}


def _corners(box: Floats, outline: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Relative left, top, right, bottom, and width and height."""
    wh = box[:, 2:].copy()
    corners = np.concatenate([box[:, :2] - wh / 2, box[:, :2] + wh / 2], axis=1)
    if outline.any():
        corners[outline] = box[outline]
        wh[outline] = box[outline, 2:] - box[outline, :2]
    return corners, wh


def _add_categories(
    scan: Scan, where: Rows, good: NDArray[np.bool_], plan: Plan, builder: Builder, log: Log
) -> tuple[Ints, NDArray[np.bool_]]:
    """The category row of each box, and which boxes have one."""
    if plan.names is not None:
        names_from = plan.names_from
        rows = np.array(add_list(plan.names, builder, log, names_from), np.int32)
        known = scan.id < len(rows)
        where.report(
            log,
            UNKNOWN_CLASS,
            np.flatnonzero(good & ~known),
            lambda cells: {
                "column": cells[0][0] if cells else 0,
                "field": "class",
                "value": cells[0][1] if cells else b"",
                "n": len(rows),
                "where": names_from,
            },
        )
        return rows[np.where(known, scan.id, 0)], known
    ids = np.unique(scan.id[good])
    builder.named = False
    for number in ids.tolist():
        builder.category(str(number), source_id=number)
    if len(ids) and plan.sound:
        shown = ", ".join(str(i) for i in ids[:10].tolist()) + (", ..." if len(ids) > 10 else "")
        log.report(NUMBERED_CLASSES, plan.source.path, value=shown)
    return np.searchsorted(ids, scan.id).astype(np.int32), np.ones(len(scan.id), bool)


def _report_outlines(scan: Scan, where: Rows, good: NDArray[np.bool_], builder: Builder, log: Log) -> None:
    outlines = np.flatnonzero(good & scan.outline)
    if not len(outlines):
        return
    rotated = int(((scan.count[outlines] == 9) | (scan.count[outlines] == 10)).sum())
    if rotated:
        builder.extras["rotation"] = rotated
    if rotated < len(outlines):
        builder.extras["segmentation"] = len(outlines) - rotated
    what = "polygons" if not rotated else "rotated boxes" if rotated == len(outlines) else "outlines"
    values = {"n": len(outlines), "total": int(good.sum()), "what": what}
    where.report(log, OUTLINES, outlines[:1], lambda _: values)


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: YoloOptions) -> None:
    """Write ``labels/``, ``data.yaml`` and, on request, ``images/``."""
    images, boxes = dataset.images, dataset.boxes
    splits = _split_folders(dataset)
    labels = [f"labels/{split}{stem(name)}.txt" for split, name in zip(splits, images.name, strict=True)]
    wants = options.link_images or options.copy_images
    pictures = [_picture_name(dataset, i, split) for i, split in enumerate(splits)] if wants else []
    owners = [*images.name, "data.yaml", *(images.name if wants else ())]
    fits = target.plan([*labels, "data.yaml", *pictures], owners, log)
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
            fits = False
    centre = (boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2
    values = relative_to_images(dataset, np.concatenate([centre, boxes.wh], axis=1), log)
    for row in range(len(images)) if wants else ():
        if not images.path[row]:
            path, line, pointer = dataset.image_place(row)
            log.report(NOTHING_TO_PUT, path, line=line, pointer=pointer, value=images.name[row])
            fits = False
    if not fits or values is None:
        return
    cells = relative(values, images.width[boxes.image], images.height[boxes.image])
    columns = [decimal_cells(boxes.category), *(cells[i::4] for i in range(4))]
    if dataset.kind == "det":
        columns.append(decimal_cells(boxes.score))
    for name, data in zip(
        log.track(labels, "writing"), pages(len(images), boxes.image, columns), strict=True
    ):
        target.write(name, data)
    target.write("data.yaml", _data_yaml(dataset, splits))
    for row, name in enumerate(pictures):
        (target.copy if options.copy_images else target.link)(name, images.path[row])
    named = {split for split in dataset.images.split if split}
    for needed in ("train", "val"):
        if named and needed not in named:
            log.note(
                f"there is no split {needed!r}, so data.yaml names another in its place; trainers need both"
            )
    if not wants:
        log.note("the pictures were not put in images/ (--link-images or --copy-images do)")


def _split_folders(dataset: Dataset) -> list[str]:
    """``train/`` and the like of each image; the empty text where the data set has no splits."""
    if not any(dataset.images.split):
        return [""] * len(dataset.images)
    return [f"{split or 'unsplit'}/" for split in dataset.images.split]


def _picture_name(dataset: Dataset, row: int, split: str) -> str:
    name, path = dataset.images.name[row], dataset.images.path[row]
    dot = path.rfind(".")
    return f"images/{split}{stem(name)}{path[dot:] if dot > 0 and '/' not in path[dot:] else ''}"


def _data_yaml(dataset: Dataset, splits: list[str]) -> bytes:
    """The description of the data set. Without ``path``, trainers look beside the file itself."""
    places = {split.rstrip("/"): f"images/{split}".rstrip("/") for split in dict.fromkeys(splits)} or {
        "": "images"
    }
    first = places.get("train") or next(iter(places.values()))
    lines = [f"train: {quoted(first)}", f"val: {quoted(places.get('val', first))}"]
    lines += [
        f"{split}: {quoted(place)}"
        for split, place in sorted(places.items())
        if split not in {"", "train", "val"}
    ]
    names = dataset.categories.name
    lines += [
        f"nc: {len(names)}",
        "names:" if names else "names: []",
        *(f"  - {quoted(name)}" for name in names),
    ]
    return ("\n".join(lines) + "\n").encode()


def quoted(text: str) -> str:
    """A text as a YAML scalar in double quotes."""
    parts = []
    for c in text:
        if c in {'"', "\\"}:
            parts.append("\\" + c)
        elif c.isprintable():
            parts.append(c)
        else:
            parts.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(parts) + '"'


KEEPS = frozenset({"score", "empty", "unused", "order", "split"})


def adapt(options: YoloOptions) -> dict[str, Any]:
    """Pictures that are put in the target keep the size of their image."""
    return {"keeps": KEEPS | {"size"} if options.link_images or options.copy_images else KEEPS}


FORMAT = Format(
    name="yolo",
    title="YOLO (Ultralytics, darknet)",
    doc=__doc__ or "",
    suffixes=(".txt",),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=YoloOptions,
    keeps=KEEPS,
    quantum=1e-6,
    needs_size=True,
    adapt=adapt,
)
