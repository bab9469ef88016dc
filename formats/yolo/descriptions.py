"""Read descriptions of YOLO datasets: ``data.yaml``, darknet's ``obj.data``, and lists of image files."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable

from odm.files import NamedSource, Source
from odm.formats._shared.class_lists import BAD_DATA_YAML, CLASS_COUNT, parse_names, read_list
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.split_names import SPLITS
from odm.formats._shared.text.label_files import list_files, lists_pictures
from odm.formats._shared.text.safe_yaml import Node, is_none, load, show_node
from odm.formats._shared.text.tokens import clean_text
from odm.formats.yolo.layouts import ALIASES, PICTURE_FOLDERS, Group, Plan, YoloOptions, check_split
from odm.issues import Code, Log, Trusted, first_few, listed, printable, shorten
from odm.names import PICTURE_SUFFIXES, accept_name, stem

OUTSIDE = Code(
    "yolo-place-outside",
    "error",
    "{value!r} is outside the folder of the dataset",
    "name this file itself on the command line, so that its paths are followed, or give the label folder, "
    "and the image folder with --images",
    "The dataset's YAML file refers to a folder elsewhere. A file that is found in a folder may come from "
    "anyone, so its paths are followed only if the user names it.",
)
MISSING_SPLIT = Code(
    "yolo-split-missing",
    "error",
    "{value!r} does not exist{tried}",
    "correct the path, or choose another split with --split",
    "The dataset's YAML file refers to a folder or an image list that does not exist.",
)
ABSENT_SPLIT = Code(
    "yolo-split-absent",
    "warning",
    "{value!r} does not exist{tried}; the other splits are read",
    "correct the path, or remove the key",
    "The dataset's YAML file refers to a folder or an image list that does not exist.",
)

_VAL = re.compile(r"(^|/)(?:val|valid|validation)(?=/|$)")
_JOINED = re.compile(rf"(?:{'|'.join(map(re.escape, PICTURE_SUFFIXES))})\w*[./]*/.*\.\w+$", re.IGNORECASE)
"""The suffix of an image file within a line, and another at its end."""
_LOST = " (was a line break lost?)"
NOT_THERE = Code(
    "listed-picture-missing",
    "warning",
    "the image {value!r} of this list does not exist{joined}",
    "correct the list, or add the image file",
    "A list of images names a file that does not exist, and that has no label file either. It is left out: "
    "trainers skip it, or stop.",
)


def read_yaml(plan: Plan, file: str, options: YoloOptions, log: Log) -> None:
    """Add what ``data.yaml`` names to the plan: classes, unless the options do, keypoints, task and splits.

    Faults are reported, and make the plan unsound. Keys that are not read are counted in ``plan.unread``.
    """
    source = plan.source
    path = source.full(file)
    data = source.read(file, log)
    root = load(data, path, log) if data is not None else None
    if root is None:
        plan.is_sound = False
        return
    if not isinstance(root.value, dict):
        log.report(
            BAD_DATA_YAML,
            path,
            line=root.line,
            expected="keys such as names and train",
            value=show_node(root),
        )
        plan.is_sound = False
        return
    entries: dict[str, Node] = root.value
    if options.classes is None:
        n_errors = log.errors
        if names := parse_names(entries, path, log):
            plan.name_lists.append((path, names))
        plan.is_sound &= log.errors == n_errors
    _read_points(plan, entries, path)
    node = entries.get("path")
    base_path = node.value if node is not None and isinstance(node.value, str) and not is_none(node) else ""
    plan.base_folders = _find_base_folders(source, base_path)
    items_of_split = _collect_splits(plan, entries)
    absent_items = _add_splits(plan, items_of_split, path, options, log)
    check_split(plan, path, items_of_split, options, log)
    # If others are there and none is requested, a split that is not there is only a warning.
    code = ABSENT_SPLIT if plan.groups and options.wanted is None else MISSING_SPLIT
    for item, key in absent_items:
        tried = Trusted(_describe_attempts(plan, item, key, base_path))
        log.report(code, path, line=item.line, field=key, value=item.value, tried=tried)
        plan.is_sound &= code is ABSENT_SPLIT
    note_outside_folders(plan, path, log)


def _collect_splits(plan: Plan, entries: dict[str, Node]) -> dict[str, list[Node]]:
    """Return what each split is made of: the values of ``train``, ``val``, ... one by one.

    Keys that are neither splits nor known are counted in ``plan.unread``.
    """
    items_of_split: dict[str, list[Node]] = {}
    for key, node in entries.items():
        # ``night: images/night`` is a split, too.
        is_split = key in SPLITS or (isinstance(node.value, str) and node.value == f"images/{key}")
        if is_split and not is_none(node):
            items = node.value if isinstance(node.value, list) else [node]
            items_of_split.setdefault(ALIASES.get(key, key), []).extend(items)
        elif not (is_split or key in _KEYS or is_none(node)):
            plan.unread[key] = 1
    return items_of_split


def _describe_attempts(plan: Plan, item: Node, split: str, base_path: str) -> str:
    """Return the end of a message on a location that is not there: where it was looked for, and advice.

    The places are named only if the user named the file, whose ``path`` is `base_path`.
    """
    source, text = plan.source, ""
    if isinstance(source, NamedSource):
        folders = dict.fromkeys(printable(source.full(place)) for place in _list_candidates(plan, item.value))
        text = f" in path: {printable(base_path)}" if base_path else ""
        text += f" (tried {listed(list(folders))})" if folders else ""
    # The path with the other names of the split in it: val/images for valid/images.
    names = (_VAL.sub(rf"\1{name}", item.value, count=1) for name in ("val", *ALIASES))
    suggestion = ""
    for alternative in (name for name in names if name != item.value):
        if any(_group_folder(source, place, split) for place in _list_candidates(plan, alternative)):
            suggestion = alternative
    return text + (f" (did you mean {printable(suggestion)}?)" if suggestion else "")


def _read_points(plan: Plan, entries: dict[str, Node], path: str) -> None:
    """Add the keypoints and the task of a description to the plan."""
    shape = _parse_whole_numbers(entries.get("kpt_shape"))  # [17, 3]: points, and numbers of each
    if len(shape) == 2:
        n_points, plan.numbers_per_point = shape
        plan.n_point_numbers = n_points * plan.numbers_per_point
    flip = _parse_whole_numbers(entries.get("flip_idx"))
    # an order of all points, other than that which changes nothing
    if shape and sorted(flip) == list(range(shape[0])) != flip:
        plan.flip_idx = path, flip
    task = entries["task"].value if "task" in entries else None
    if task in {"segment", "obb"}:
        plan.task = str(task)
    names = entries["kpt_names"].value if "kpt_names" in entries else None
    for class_number, node in names.items() if isinstance(names, dict) else ():
        values = [name.value for name in node.value] if isinstance(node.value, list) else []
        point_names = [text for text in values if isinstance(text, str)]
        if re.fullmatch(r"[0-9]{1,9}", class_number) and shape and len(point_names) == shape[0]:
            plan.point_names[int(class_number)] = point_names


def _parse_whole_numbers(node: Node | None) -> list[int]:
    """Return the whole numbers of a YAML list; an empty list if a value is anything else."""
    values = [item.value for item in node.value] if node and isinstance(node.value, list) else []
    if not all(isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value) for value in values):
        return []
    return [int(str(value)) for value in values]


def note_outside_folders(plan: Plan, path: str, log: Log) -> None:
    """Note the folders outside its own from which a description, that the user named, has files read."""
    if plan.outside_folders:
        folders = first_few(list(dict.fromkeys(plan.outside_folders)), 3, printable)
        log.note(f"{printable(path)}: its paths lead outside its folder; read from {folders}")


def _add_splits(
    plan: Plan, items_of_split: dict[str, list[Node]], path: str, options: YoloOptions, log: Log
) -> list[tuple[Node, str]]:
    """Add the places of the requested splits to the plan, each once; return absent ones with their key.

    A value of a wrong type is reported, and makes the plan unsound.
    """
    splits_of_location: dict[str, list[str]] = {}
    for split, items in items_of_split.items():
        for item in items:
            splits_of_location.setdefault(_normalize_location(plan.source, item), []).append(split)

    absent_items: list[tuple[Node, str]] = []
    listed_items: dict[str, list[tuple[Node, str]]] = {}
    """The image files that a description lists itself, with the keys where it does, by their split."""
    seen_locations = set()
    requested = options.wanted
    for split, items in items_of_split.items():
        for item in items if requested in {None, split} else ():
            location = _normalize_location(plan.source, item)
            if location in seen_locations:
                continue
            seen_locations.add(location)
            if not isinstance(item.value, str) or not item.value.strip():
                expected = "a folder or a list of pictures"
                log.report(
                    BAD_DATA_YAML, path, line=item.line, field=split, expected=expected, value=show_node(item)
                )
                plan.is_sound = False
                continue
            splits, split_of = splits_of_location[location], split
            if len(splits) > 1 and requested is None:
                # A place that several splits share belongs to none of them, unless it has the name of one.
                name = location.rpartition("/")[2]
                name = ALIASES.get(name, name)
                split_of = name if name in splits else ""
            if item.value.lower().endswith(tuple(PICTURE_SUFFIXES)):
                listed_items.setdefault(split_of, []).append((item, split))
            elif not _add_location(plan, item.value, split_of, path, item.line, options, log):
                absent_items.append((item, split))

    for split_of, items_here in listed_items.items():
        entries = [(item.line, str(item.value)) for item, _ in items_here]
        if not _add_listed_images(plan, entries, path, "", split_of, options, log):
            absent_items += items_here
    return absent_items


def _normalize_location(source: Source, item: Node) -> str:
    """Return the location of an item in one spelling, so that two splits that share it are noticed."""
    if not isinstance(item.value, str):
        return f"#{item.line}"  # not a place, so equal to no other
    inside = _relative_to_source(source, item.value)
    return item.value if inside is None else inside


def read_data_file(plan: Plan, file: str, options: YoloOptions, log: Log) -> None:
    """Add what darknet's ``obj.data`` names to the plan: classes, unless the options do, and splits.

    Faults are reported, and make the plan unsound.
    """
    source = plan.source
    path = source.full(file)
    data = source.read(file, log)
    if data is None:
        plan.is_sound = False
        return
    entries: dict[str, tuple[str, int]] = {}
    for line_number, line in enumerate(clean_text(data, path, log).decode(errors="replace").split("\n"), 1):
        key, equals, value = line.partition("=")
        if equals and key.strip() and not key.lstrip().startswith("#"):
            entries[key.strip()] = value.strip(), line_number
    if options.classes is None:
        plan.is_sound &= _read_darknet_names(plan, entries, path, log)
    requested = options.wanted
    splits = []
    for key, (value, line_number) in entries.items():
        split = ALIASES.get(key, key)
        location = _find_by_tail(source, value) if value and key not in _DARKNET_KEYS else None
        # A split has one of the usual keys, or any other key with a list of pictures as its value.
        is_split = key in _DARKNET_SPLITS or bool(location and lists_pictures(source, location))
        if not value or not is_split:
            if value and key not in _DARKNET_KEYS:
                plan.unread[key] = 1
            continue
        splits.append(split)
        if requested is not None and split != requested:
            continue
        if location is None or not _add_list(plan, location, split, options, log):
            # an error for train and for the split that was asked for, else a warning
            code = MISSING_SPLIT if key == "train" or requested is not None else ABSENT_SPLIT
            log.report(code, path, line=line_number, field=key, value=value, tried="")
            plan.is_sound &= code is ABSENT_SPLIT
    check_split(plan, path, splits, options, log)
    note_outside_folders(plan, path, log)


def _read_darknet_names(plan: Plan, entries: dict[str, tuple[str, int]], path: str, log: Log) -> bool:
    """Add the class list under ``names`` to the plan; False, after an issue, if it is not there or faulty.

    `entries` are the values of the description at `path` with their lines. Their ``classes`` must be the
    number of names.
    """
    if "names" not in entries:
        return True
    value, line_number = entries["names"]
    name_file = _find_by_tail(plan.source, value)
    if name_file is None:
        log.report(MISSING_SPLIT, path, line=line_number, field="names", value=value, tried="")
        return False
    names = read_list(plan.source, name_file, log)
    if names is None:
        return False
    plan.name_lists.append((plan.source.full(name_file), names))
    count, count_line = entries.get("classes", ("", 0))
    if count and count != str(len(names)):
        log.report(CLASS_COUNT, path, line=count_line, field="classes", value=count, n=len(names))
        return False
    return True


_KEYS = frozenset("path names nc download channels task kpt_shape flip_idx kpt_names roboflow".split())
"""Keys of a ``data.yaml`` besides those of splits."""
_DARKNET_KEYS = frozenset({"names", "backup", "classes", "eval", "results"})
_DARKNET_SPLITS = ("train", "valid", "test")
"""Keys whose lists should be there; any other key that names a list of pictures is a split too."""


def _find_by_tail(source: Source, text: str) -> str | None:
    """Find the file of the source that a path, or an end of it, names; None if there is none.

    The paths of darknet are relative to the folder where it was started, which is unknown.
    """
    exact = []
    if isinstance(source, NamedSource):
        exact = [source.named(text), source.named(os.path.join(source.path, text))]
    return next((file for file in (*exact, *_list_ends(text)) if source.holds(file)), None)


def _list_ends(text: str) -> list[str]:
    """Return the ends of a path, longest first: ``a/b.txt`` and ``b.txt`` of ``../a/b.txt``."""
    parts = [p for p in text.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
    return ["/".join(parts[i:]) for i in range(len(parts))]


def _find_base_folders(source: Source, text: str) -> list[str]:
    """Return the folders of the source that ``path``, whose value is `text`, may mean, best first.

    If the user named the file: those that exist from its folder or the working folder, then from a
    ``datasets`` in these, then beside these, where Ultralytics looks; `text` may be absolute. In any case
    then: the place in the source; if it leads out, as on another machine, its longest end that the source
    holds; and the source itself.
    """
    folders = []
    if text and isinstance(source, NamedSource):
        parents = [os.path.join(top, *names) for names in _DATASETS for top in (source.path, os.curdir)]
        paths = [os.path.join(parent, text.strip()) for parent in parents]
        folders = [source.named(path) for path in paths if os.path.isdir(path)]
    inside = _relative_to_source(source, text)
    if inside is None:
        inside = next((tail for tail in _list_ends(text) if source.holds(tail) or source.below(tail)), "")
    return list(dict.fromkeys((*folders, inside, "")))


_DATASETS = ((), ("datasets",), (os.pardir, "datasets"))
"""From a folder, where Ultralytics looks for datasets."""


def _relative_to_source(source: Source, text: str) -> str | None:
    """Return a path of a description, which may be absolute, relative to the source; None if it leads out."""
    text = text.strip().replace("\\", "/")
    if text.startswith("/") or re.match(r"[A-Za-z]:", text) or "://" in text:
        real_path, real_root = os.path.realpath(text), os.path.realpath(source.path)
        if real_path == real_root or real_path.startswith(real_root.rstrip(os.sep) + os.sep):
            return "/".join(p for p in os.path.relpath(real_path, real_root).split(os.sep) if p != ".")
        return None
    relative_path = _drop_dots(text)
    return None if ".." in relative_path.split("/") else relative_path


def _drop_dots(text: str) -> str:
    """Return a relative path without ``.``, and without ``..`` at its beginning."""
    parts = [p for p in text.split("/") if p not in {"", "."}]
    while parts and parts[0] == "..":
        parts.pop(0)
    return "/".join(parts)


def _list_candidates(plan: Plan, text: str) -> list[str]:
    """List the places in the source that a path may mean, best first; empty if the path leaves the source."""
    source, text = plan.source, text.strip().replace("\\", "/")
    is_absolute, inside = text.startswith("/"), _relative_to_source(source, text)
    paths = []
    if isinstance(source, NamedSource) and "://" not in text:
        # Exports write ../train/images for train/images beside the description.
        spellings = [text] if is_absolute else [text, _drop_dots(text)]
        paths = [
            source.named(os.path.join(source.full(folder), spelling))
            for folder in plan.base_folders
            for spelling in spellings
        ]
    if inside is not None:
        paths += [inside] if is_absolute else [_join(folder, inside) for folder in plan.base_folders]
    return list(dict.fromkeys(paths))


def _join(folder: str, location: str) -> str:
    """Join two paths within the source, of which either may be empty."""
    return "/".join(name for name in (folder, location) if name)


def _add_location(
    plan: Plan, text: str, split: str, path: str, line: int, options: YoloOptions, log: Log
) -> bool:
    """Add the images of a folder or a list of image files to the plan; False if none is there.

    A path that leads out of the source is reported, makes the plan unsound, and gives True, as it needs no
    other report. `path` and `line` are those of the description.
    """
    source, candidates = plan.source, _list_candidates(plan, text)
    is_outside = _relative_to_source(source, text) is None
    if is_outside and not os.path.exists(text.strip()):  # a path of the machine that wrote the file
        # The end of the path may be here. Any folder may be called images, so that alone says nothing.
        tails = [tail for tail in _list_ends(text) if "/" in tail or tail in SPLITS]
        if tail := next((t for t in tails if source.holds(t) or source.below(t)), None):
            log.note(f"{printable(path)}: {printable(text)} is not there, so {printable(tail)} here is read")
            candidates.append(tail)
    if not candidates:
        log.report(OUTSIDE, path, line=line, field=split, value=text)
        plan.is_sound = False
        return True
    for location in candidates:
        if location.lower().endswith(".txt") and source.holds(location):
            return _add_list(plan, location, split, options, log)
        group = _group_folder(source, location, split)
        if group is not None:
            plan.groups.append(group)
            plan.note_folder(location)
            plan.named_folders.add(_find_label_folder(location))
            return True
    return False


@functools.lru_cache(1024)
def _find_label_folder(location: str) -> str:
    """Return the folder of the labels of a folder of pictures: its last ``images`` becomes ``labels``."""
    parts = location.split("/")
    for kind in PICTURE_FOLDERS:
        if kind in parts:
            i = len(parts) - 1 - parts[::-1].index(kind)
            return "/".join([*parts[:i], "labels", *parts[i + 1 :]])
    return location


def _group_folder(source: Source, location: str, split: str) -> Group | None:
    """Return a group of the labels and pictures of the folder at `location`; None if there are none.

    It is a folder of pictures or of labels, or has folders ``images`` and ``labels``.
    """
    folder = _find_label_folder(location)
    inner_labels = _join(location, "labels")
    files_here, files_of_labels, files_of_inner = (
        {*source.below(candidate)} for candidate in (location, folder, inner_labels)
    )
    files = list_files(source)
    labels = [f for f in files.labels if f in files_of_labels]
    pictures = [f for f in files.pictures if f in files_here]
    if folder == location and not files_of_inner.isdisjoint(labels):
        # no folder of pictures: ``train: train`` with train/images and train/labels
        labels = [f for f in labels if f in files_of_inner]
        folder, location = inner_labels, _join(location, "images")
    elif not labels:
        labels, folder = [f for f in files.labels if f in files_here], location  # beside the pictures
    if not labels and not pictures:
        return None
    prefix_length = len(folder) + 1 if folder else 0
    # the labels without folder and .txt
    return Group(split, {f[prefix_length:-4]: f for f in labels}, (source.full(location),))


def _add_list(plan: Plan, file: str, split: str, options: YoloOptions, log: Log) -> bool:
    """Add the images of a ``.txt`` list; False if none is there, True also if the list is unreadable."""
    source = plan.source
    plan.lists.add(file)
    path = source.full(file)
    data = source.read(file, log)
    n_errors = log.errors
    text = clean_text(data or b"", path, log)
    if data is None or log.errors > n_errors:
        plan.is_sound = False
        return True
    entries = list(enumerate(text.decode().split("\n"), 1))
    return _add_listed_images(plan, entries, path, file.rpartition("/")[0], split, options, log)


def _add_listed_images(
    plan: Plan,
    entries: Iterable[tuple[int, str]],
    path: str,
    folder: str,
    split: str,
    options: YoloOptions,
    log: Log,
) -> bool:
    """Add the images of a list to the plan, as a group of their own.

    `entries` are (line number, path of an image file) of the list at `path`, which lies in `folder`. Returns
    False if no image file is there and nothing was reported, so that the caller reports the list as absent.
    """
    located_files, absent = _locate_entries(plan, entries, path, folder, split, options, log)
    group = Group(split, {}, (), only_listed=True)
    # Names are without the folder that all have in common; of equal names the first counts.
    image_paths = [image_file for image_file, *_ in located_files]
    if any(map(os.path.isabs, image_paths)):  # some lie outside the data set
        image_paths = [os.path.abspath(plan.source.full(image_path)) for image_path in image_paths]
    parent = os.path.commonpath(list(map(os.path.dirname, image_paths))) if image_paths else ""
    for (image_file, label_file, _), image_path in zip(located_files, image_paths, strict=True):
        key = stem(image_path[len(parent) + 1 if parent else 0 :])
        if key not in group.listed:
            group.listed[key] = image_file
            if label_file is not None:
                group.labels[key] = label_file
    if absent and not any(is_there for *_, is_there in located_files):
        # This may be no list of image files at all.
        suffixes = tuple(PICTURE_SUFFIXES)
        other_lines = [(line, entry) for line, entry in absent if not entry.lower().endswith(suffixes)]
        for line_number, entry in other_lines:
            shown = repr(shorten(entry))
            log.report(WRONG_COUNT, path, line=line_number, expected="the path of a picture", found=shown)
        plan.is_sound &= not other_lines
        return bool(other_lines)
    for line_number, entry in absent:
        joined = _LOST if _JOINED.search(entry) else ""
        log.report(NOT_THERE, path, line=line_number, value=entry, joined=joined)
    plan.groups.append(group)
    return True


def _locate_entries(
    plan: Plan,
    entries: Iterable[tuple[int, str]],
    path: str,
    folder: str,
    split: str,
    options: YoloOptions,
    log: Log,
) -> tuple[list[tuple[str, str | None, bool]], list[tuple[int, str]]]:
    """Find the image files of a list: path, label file or None, and True if there; line and path if absent.

    With the option ``images`` none is absent, as it may be in that folder. Paths that lead out of the source
    or cannot be read are reported, and make the plan unsound; the folders of the image files are noted in it.
    """
    source = plan.source
    located_files: list[tuple[str, str | None, bool]] = []
    absent: list[tuple[int, str]] = []
    parents = [*map(source.full, (folder, *plan.base_folders)), os.curdir]
    path_end = ""

    @functools.cache
    def list_exact_folders(parent: str) -> list[str]:
        """List where the folder of an entry may be, if the user named the description."""
        if not isinstance(source, NamedSource):
            return []
        return list(dict.fromkeys(source.named(os.path.join(parent_path, parent)) for parent_path in parents))

    for line_number, raw in entries:
        entry = raw.strip(" \t").replace("\\", "/")
        if not entry:
            continue
        parent, _, name = entry.rpartition("/")
        exact_paths = [_join(exact_folder, name) for exact_folder in list_exact_folders(parent)]
        path_inside, is_end = _move_inside(
            source, entry, may_be_elsewhere=bool(exact_paths) or options.images is not None
        )
        if is_end:
            path_end = path_inside
        if not path_inside:
            log.report(OUTSIDE, path, line=line_number, field=split, value=entry)
        if not path_inside or not accept_name(path_inside, log, path, line=line_number):
            plan.is_sound = False
            continue
        image_file, label_file, is_there = _find_image_file(plan, exact_paths, folder, path_inside)
        if is_there or options.images is not None:
            located_files.append((image_file, label_file, is_there))
        else:
            absent.append((line_number, entry))

    if path_end:
        log.note(
            f"{printable(path)}: paths of another machine are read by their ends, as in {printable(path_end)}"
        )
    present_files = (image_file for image_file, _, is_there in located_files if is_there)
    for located_folder in dict.fromkeys(image_file.rpartition("/")[0] for image_file in present_files):
        plan.note_folder(located_folder)
    return located_files, absent


def _find_image_file(
    plan: Plan, exact_paths: Iterable[str], folder: str, path_inside: str
) -> tuple[str, str | None, bool]:
    """Find an image file of a list in `folder`: at an exact place, in the source, or by its longest end.

    Returns its path, its label file or None, and True; if it is not there, its usual path, None and False.
    """
    image_file, label_file, is_there = _find_listed(plan.source, exact_paths)
    if not is_there:
        usual_paths = [_join(base, path_inside) for base in (folder, *plan.base_folders)]
        candidates = (*usual_paths, path_inside, *_list_ends(path_inside))
        image_file, label_file, is_there = _find_listed(plan.source, candidates)
        image_file = image_file if is_there else usual_paths[0]
    return image_file, label_file, is_there


def _move_inside(source: Source, entry: str, *, may_be_elsewhere: bool) -> tuple[str, bool]:
    """Return a path of a list relative to the source, and True if it is an end that was looked for here.

    A path that leads out of the source is shortened to what follows ``images`` if the file
    `may_be_elsewhere`, else to its longest end that is here, which is empty if none is.
    """
    path_inside = _relative_to_source(source, entry)
    if path_inside is not None:
        return path_inside, False
    if may_be_elsewhere:  # /x/images/a/b.jpg: a/b.jpg
        return entry.rsplit("/images/" if "/images/" in entry else "/", 1)[-1], False
    for tail in _list_ends(entry):
        _, _, is_there = _find_listed(source, [tail])
        if is_there:
            return tail, True
    return "", True


def _find_listed(source: Source, candidates: Iterable[str]) -> tuple[str, str | None, bool]:
    """Find the first of the image files that exists or has a label file.

    Returns its path, its label file or None, and True; else an empty path, None and False.
    """
    for image_file in candidates:
        folder, _, name = image_file.rpartition("/")
        name = f"{name.rpartition('.')[0] or name}.txt"
        for label_folder in dict.fromkeys((_find_label_folder(folder), folder)):
            label_file = f"{label_folder}/{name}" if label_folder else name
            if source.holds(label_file):
                return image_file, label_file, True
        if source.holds(image_file):
            return image_file, None, True
    return "", None, False
