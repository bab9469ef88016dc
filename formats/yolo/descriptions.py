"""YOLO data sets that describe themselves: ``data.yaml``, darknet's ``obj.data``, and lists of pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from odm.files import Source
from odm.formats._shared.class_lists import BAD_DATA_YAML, CLASS_COUNT, described_names, read_list
from odm.formats._shared.safe_yaml import Node, is_none, load, shown
from odm.formats._shared.splits import SPLITS
from odm.formats._shared.text_files import listing
from odm.formats._shared.text_tokens import text_of
from odm.formats.yolo.layouts import ALIASES, Group, Plan, YoloOptions, check_split, file_set
from odm.issues import Code, Log, printable
from odm.names import accept_name, stem

OUTSIDE = Code(
    "yolo-place-outside",
    "error",
    "{value!r} is outside the folder of the data set",
    "give the label folder on the command line, and the image folder with --images",
    "The data set's YAML file refers to a folder elsewhere, which is not read unless it is given explicitly.",
)
MISSING_SPLIT = Code(
    "yolo-split-missing",
    "error",
    "{value!r} does not exist",
    "correct the path, or choose another split with --split",
    "The data set's YAML file refers to a folder or an image list that does not exist.",
)
ABSENT_SPLIT = Code(
    "yolo-split-absent",
    "warning",
    "{value!r} does not exist; the other splits are read",
    "correct the path, or remove the key",
    "The data set's YAML file refers to a folder or an image list that does not exist.",
)


def describes(head: bytes) -> bool:
    """Whether a YAML file is about a data set."""
    return re.search(rb"(?m)^[\"'{ ]*(names|train|val|nc)[\"']?[ ]*:", head) is not None


def yaml_file_of(source: Source) -> str | None:
    """The file at the root that describes the data set, if there is one."""
    found = [f for f in source.files if "/" not in f and f.lower().endswith((".yaml", ".yml"))]
    usual = [f for f in found if f.lower().rsplit(".", 1)[0] in {"data", "dataset"}]
    for file in usual + found:
        head = source.head(file)
        if file in usual or (describes(head) and re.search(rb"(?m)^[\"' ]*(names|nc)[\"']?[ ]*:", head)):
            return file
    return None


def data_file_of(source: Source) -> str | None:
    """Darknet's description at the root of a source, if there is one."""
    for file in source.files:
        if "/" not in file and file.lower().endswith(".data") and is_data_file(source.head(file)):
            return file
    return None


def is_data_file(head: bytes) -> bool:
    """Whether a file is darknet's description of a data set."""
    return re.search(rb"(?m)^[ \t]*(train|names)[ \t]*=", head) is not None


def read_yaml(plan: Plan, file: str, options: YoloOptions, log: Log) -> None:
    """Add what ``data.yaml`` names to the plan."""
    source = plan.source
    path = source.full(file)
    data = source.read(file, log)
    root = load(data, path, log) if data is not None else None
    if root is None:
        plan.sound = False
        return
    if not isinstance(root.value, dict):
        log.report(
            BAD_DATA_YAML, path, line=root.line, expected="keys such as names and train", value=shown(root)
        )
        plan.sound = False
        return
    entries: dict[str, Node] = root.value
    _read_names(plan, entries, path, options, log)
    _read_key_points(plan, entries)
    base = ""
    if (node := entries.get("path")) is not None and isinstance(node.value, str) and not is_none(node):
        base = _base(source, node.value)
    wanted = options.wanted
    named = _named_splits(entries)
    absent = _add_splits(plan, named, base, path, options, log)
    check_split(plan, path, named, options, log)
    code = ABSENT_SPLIT if plan.groups and wanted is None else MISSING_SPLIT
    for item, key in absent:
        log.report(code, path, line=item.line, field=key, value=item.value)
        plan.sound &= code is ABSENT_SPLIT


def _named_splits(entries: dict[str, Node]) -> dict[str, list[Node]]:
    """What each split is made of: the values of ``train``, ``val``, ... one by one."""
    named: dict[str, list[Node]] = {}
    for key, node in entries.items():
        is_split = key in SPLITS or (isinstance(node.value, str) and node.value == f"images/{key}")
        if is_split and not is_none(node):
            items = node.value if isinstance(node.value, list) else [node]
            named.setdefault(ALIASES.get(key, key), []).extend(items)
    return named


def _add_splits(
    plan: Plan, named: dict[str, list[Node]], base: str, path: str, options: YoloOptions, log: Log
) -> list[tuple[Node, str]]:
    """Add the places of the splits that are wanted to the plan; those where nothing is, with their split."""
    owners: dict[str, list[str]] = {}
    for split, items in named.items():
        for item in items:
            owners.setdefault(_normal(plan.source, item), []).append(split)
    absent: list[tuple[Node, str]] = []
    done = set()
    wanted = options.wanted
    for split, items in named.items():
        for item in items if wanted in {None, split} else ():
            location = _normal(plan.source, item)
            if location in done:
                continue
            done.add(location)
            if not isinstance(item.value, str) or not item.value.strip():
                expected = "a folder or a list of pictures"
                log.report(
                    BAD_DATA_YAML, path, line=item.line, field=split, expected=expected, value=shown(item)
                )
                plan.sound = False
                continue
            held = owners[location]
            if len(held) > 1 and wanted is None:
                # A place that several splits share is none of them, unless it bears the name of one.
                name = location.rpartition("/")[2]
                name = ALIASES.get(name, name)
                split_of = name if name in held else ""
            else:
                split_of = split
            if not _add_place(plan, item.value, base, split_of, path, item.line, options, log):
                absent.append((item, split))
    return absent


def _normal(source: Source, item: Node) -> str:
    """A place in one spelling, so that two splits that share it are noticed."""
    if not isinstance(item.value, str):
        return f"#{item.line}"
    inside = _inside(source, item.value)
    return item.value if inside is None else inside


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
    log: Log,
) -> None:
    if options.classes is not None:
        return
    errors = log.errors
    names = described_names(entries, path, log)
    if log.errors > errors:
        plan.sound = False
    elif names:
        plan.name_lists.append((path, names))


def read_data_file(plan: Plan, file: str, options: YoloOptions, log: Log) -> None:
    """Add what darknet's ``obj.data`` names to the plan."""
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
            plan.name_lists.append((source.full(name_file), names))
            count, at = entries.get("classes", ("", 0))
            if count and count != str(len(names)):
                log.report(CLASS_COUNT, path, line=at, field="classes", value=count, n=len(names))
                plan.sound = False
        else:
            plan.sound = False
    wanted = options.wanted
    named = []
    for key in ("train", "valid", "test"):
        value, number = entries.get(key, ("", 0))
        split = ALIASES.get(key, key)
        if not value:
            continue
        named.append(split)
        if wanted is not None and split != wanted:
            continue
        location = _find_by_tail(source, value)
        if location is None or not _add_list(plan, location, "", split, options, log):
            code = MISSING_SPLIT if key == "train" or wanted is not None else ABSENT_SPLIT
            log.report(code, path, line=number, field=key, value=value)
            plan.sound &= code is ABSENT_SPLIT
    check_split(plan, path, named, options, log)


def _find_by_tail(source: Source, text: str) -> str | None:
    """A file of the source by the end of a path: darknet's are relative to where it was started."""
    parts = [p for p in text.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
    while parts:
        if "/".join(parts) in file_set(source):
            return "/".join(parts)
        parts = parts[1:]
    return None


def _base(source: Source, text: str) -> str:
    """The folder that ``path`` means, relative to the source: the source itself if nothing else is there."""
    inside = _inside(source, text)
    # An absolute path of another machine, or ../name: places are then looked for beside the file.
    return _folder_by_tail(source, text) or "" if inside is None else inside


def _folder_by_tail(source: Source, text: str) -> str | None:
    """A folder or a list of the source by the end of a path that leads elsewhere."""
    parts = [p for p in text.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
    while parts:
        tail = "/".join(parts)
        if tail in file_set(source) or any(f.startswith(f"{tail}/") for f in source.files):
            return tail
        parts = parts[1:]
    return None


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


def _join(folder: str, location: str) -> str:
    return "/".join(part for part in (folder, location) if part)


def _add_place(
    plan: Plan, text: str, base: str, split: str, path: str, line: int, options: YoloOptions, log: Log
) -> bool:
    """Add what a folder or a list of pictures holds; False if there is nothing."""
    source = plan.source
    inside = _inside(source, text)
    if inside is None and not os.path.exists(text.strip()):  # a path of the machine that wrote it
        inside = _folder_by_tail(source, text)
        if inside is not None and "/" not in inside and inside not in SPLITS:
            inside = None  # any folder may be called images
        if inside is not None:
            log.note(
                f"{printable(path)}: {printable(text)} is not there, so {printable(inside)} here is read"
            )
    if inside is None:
        log.report(OUTSIDE, path, line=line, field=split, value=text)
        plan.sound = False
        return True
    absolute = text.strip().startswith("/")
    candidates = [inside] if absolute else list(dict.fromkeys((_join(base, inside), inside)))
    for location in candidates:
        if location.lower().endswith(".txt") and location in file_set(source):
            return _add_list(plan, location, base, split, options, log)
        group = _folder_group(source, location, split)
        if group is not None:
            plan.groups.append(group)
            return True
    return False


def _labels_of(location: str) -> str:
    """The folder of the labels of a folder of pictures: the last ``images`` becomes ``labels``."""
    parts = location.split("/")
    if "images" not in parts:
        return location
    at = len(parts) - 1 - parts[::-1].index("images")
    return "/".join([*parts[:at], "labels", *parts[at + 1 :]])


def _folder_group(source: Source, location: str, split: str) -> Group | None:
    found = listing(source)
    folder = _labels_of(location)
    if folder == location and not _below(location, found.labels) and not _below(location, found.pictures):
        return None
    inner = "" if folder != location else "images"
    if folder == location and _below(_join(location, "labels"), found.labels):
        folder = _join(location, "labels")  # ``train: train`` with train/images and train/labels
        location = _join(location, inner)
    labels = _below(folder, found.labels)
    pictures = _below(location, found.pictures)
    if not labels and not pictures:
        return None
    if not labels:
        labels = _below(location, found.labels)
        folder = location
    cut = len(folder) + 1 if folder else 0
    return Group(split, {f[cut:-4]: f for f in labels}, (source.full(location),))


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
    files = file_set(source)
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
        for location in dict.fromkeys((_labels_of(picture), picture)):
            label = (
                f"{location[: location.rfind('.')] if '.' in location.rsplit('/', 1)[-1] else location}.txt"
            )
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
