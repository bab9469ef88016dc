"""Find labels, image files and class names in a YOLO dataset, and pair labels with image files.

The format takes more lines than others because each trainer and exporter lays its files out in its own way.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_PICTURE, report_unknown_split
from odm.files import Source, may_exist
from odm.formats._contract import option
from odm.formats._shared.class_lists import class_list_option, read_list, report_other_list
from odm.formats._shared.codes import CLASS_LISTS_DISAGREE, DUPLICATE_IMAGE
from odm.formats._shared.gather import Gather, Location, Unsized, add_extension, decide_relative
from odm.formats._shared.image_names import find_by_folders
from odm.formats._shared.pictures import ImageOptions, Picture, Pictures, make_picture
from odm.formats._shared.split_names import SPLITS
from odm.formats._shared.text.label_files import Listing, list_files, make_image_key
from odm.issues import Code, Log, PathError, Trusted, first_few, printable, shorten
from odm.names import PICTURE_SUFFIXES, stem
from odm.tables import Builder, Ints, Longs

ALIASES = {"valid": "val", "validation": "val"}
PICTURE_FOLDERS = ("images", "JPEGImages", "data")
"""Folders of pictures beside ``labels``: Ultralytics', VOC's and FiftyOne's."""
_DARKNET_FOLDER = re.compile(r"obj_([A-Za-z0-9]+)_data|data", re.ASCII)
"""Where exports for darknet keep the labels and pictures of a split, beside ``obj.names``."""
_DESCRIPTIONS = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_FIRST_LISTS = ("classes.txt", "_classes.txt", "obj.names")
_OTHER_LISTS = ("_darknet.labels", "data.names", "class_names.txt", "labels.txt", "predefined_classes.txt")
"""Lists of classes that count only where there is none of the first."""
_BELONGS = frozenset(
    (
        *_FIRST_LISTS,
        *_OTHER_LISTS,
        *"obj.data data.yaml dataset.yaml images.txt notes.json".split(),
        *"readme.roboflow.txt readme.dataset.txt".split(),
    )
)
"""Files that belong to a dataset of this format, some of them in exports of Roboflow and Label Studio."""


OTHER_CLASS_LIST = Code(
    "yolo-other-class-list",
    "warning",
    "class {number} is {value!r} here, and {other!r} in {first!r}, which is used",
    "correct one of the two lists, or remove the one that is wrong",
    "A list of classes disagrees with the one that data.yaml or obj.data gives. If the labels were made with "
    "it, their classes are mixed up.",
)


_FRAME = re.compile(r"(.+)_([0-9]{1,9})", re.ASCII)

NO_LABELS = Code(
    "labels-missing",
    "error",
    "none of the {n} pictures{where} has a label file{found}",
    "put the label files in a folder labels beside images, with the same names as the pictures, or give the "
    "folder that contains them",
    "A dataset without any label file would be read as pictures without objects. Usually the labels have "
    "other names, or are in a folder that is not searched.",
)
BARE_PICTURES = Code(
    "pictures-without-labels",
    "warning",
    "{n} of {total} pictures{where} have no label file and are read as images without objects; the first is "
    "{value!r}",
    "ignore this if they show no objects; otherwise find their labels",
    "Trainers treat a picture without a label file as a background image. Its labels may also have been "
    "lost or misnamed.",
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class YoloOptions(ImageOptions):
    """Where names, splits, sizes and confidences come from."""

    classes: str | None = class_list_option()
    split: str | None = option(None, "read only this split", flag="--split", side="read")
    conf_column: str | None = option(
        None,
        "position of the confidence in detections",
        flag="--conf-column",
        choices=("last", "second"),
        side="read",
    )
    task: str | None = option(
        None, "what the rows of label files are", choices=("detect", "segment", "obb", "pose")
    )
    link_images: bool = option(False, "link the pictures in images/", flag="--link-images", side="write")
    copy_images: bool = option(False, "copy the pictures to images/", flag="--copy-images", side="write")

    @property
    def wanted(self) -> str | None:
        """The split to be read, by the name that splits have in the table."""
        return None if self.split is None else ALIASES.get(self.split, self.split)


class Group(msgspec.Struct, eq=False):
    """Labels and pictures that belong together: one split, or one folder of it."""

    split: str
    labels: dict[str, str]
    """Image name without extension -> label file, relative to the source."""
    folders: tuple[str, ...] = ()
    """Folders in which the pictures may be."""
    listed: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a list of pictures: image name without extension -> path of the picture relative to the source."""
    only_listed: bool = False


class Plan(msgspec.Struct, eq=False):
    """The labels, images, splits and class names of a source, before any label is read."""

    source: Source
    groups: list[Group]
    base_folders: list[str] = msgspec.field(default_factory=lambda: [""])
    """Folders below which the paths of a description are looked for, best first, as the source has them."""
    named_folders: set[str] = msgspec.field(default_factory=set)
    """The folders that the description names."""
    outside_folders: list[str] = msgspec.field(default_factory=list)
    """Those of `named_folders` that lie outside the folder of the description."""
    names: list[str] | None = None
    names_from: str = ""
    name_lists: list[tuple[str, list[str]]] = msgspec.field(default_factory=list)
    """The lists of class names that were found, each with its path; `settle_names` chooses."""
    names_above: tuple[str, list[str]] | None = None
    """The list of a ``data.yaml`` above the folder ``labels`` that was named, with its path."""
    task: str = ""
    """What the rows are, where the description says so."""
    n_point_numbers: int = 0
    """How many numbers of keypoints follow a box."""
    numbers_per_point: int = 3
    """How many of these a point has: 3 with its visibility, else 2."""
    point_names: dict[int, list[str]] = msgspec.field(default_factory=dict)
    """The names of the keypoints of classes, by number."""
    flip_idx: tuple[str, list[int]] | None = None
    """The path of the description, and which keypoint takes the place of each in a mirrored picture."""
    tracks: frozenset[int] = frozenset()
    """Which rows end in the id of a track: those with an odd number of values after box and keypoints if 1 is
    in the set, those with an even number if 0 is."""
    lists: set[str] = msgspec.field(default_factory=set)
    """The lists of pictures that the description names."""
    unread: dict[str, int] = msgspec.field(default_factory=dict)
    """How often the description has each key that is not read."""
    is_sound: bool = True

    def note_folder(self, folder: str) -> None:
        """Note a folder with files that the description names."""
        if os.path.isabs(folder) and folder not in self.named_folders:
            self.outside_folders.append(folder)
        self.named_folders.add(folder)


def describes(head: bytes) -> bool:
    """Whether a YAML file is about a dataset."""
    return re.search(rb"(?m)^[\"'{ ]*(names|train|val|nc)[\"']?[ ]*:", head) is not None


def find_yaml_file(source: Source) -> str | None:
    """Find the YAML file at the root that describes the dataset: data.yaml, or one like it; None if none."""
    yaml_files = [f for f in source.files if "/" not in f and f.lower().endswith((".yaml", ".yml"))]
    usual = [f for f in yaml_files if f.lower().rsplit(".", 1)[0] in {"data", "dataset"}]
    for file in usual + yaml_files:
        head = source.head(file)
        # of another name, with classes: keys such as train alone stand in other files, too
        if file in usual or (describes(head) and re.search(rb"(?m)^[\"' ]*(names|nc)[\"']?[ ]*:", head)):
            return file
    return None


def find_data_file(source: Source) -> str | None:
    """Find darknet's description at the root of a source; None if there is none."""
    for file in source.files:
        if "/" not in file and file.lower().endswith(".data") and is_data_file(source.head(file)):
            return file
    return None


def is_data_file(head: bytes) -> bool:
    """Whether a file is darknet's description of a dataset."""
    return re.search(rb"(?m)^[ \t]*(train|names)[ \t]*=", head) is not None


def find_groups(plan: Plan, source_files: Listing, options: YoloOptions, log: Log) -> None:
    """Set the groups of a source without a description, by its folders ``labels``, ``images`` and splits.

    Only groups of the requested split are kept. Of two label files of one image the second is reported.
    """
    source = plan.source
    if not source.is_dir:
        folder = os.path.dirname(source.path) or "."
        sibling = _find_sibling(folder)
        folders = (sibling,) if sibling else (folder,)
        # only the image of this file, not the others of its folder
        plan.groups.append(Group("", {make_image_key(source, ""): ""}, folders, only_listed=True))
        return
    in_labels = any("labels" in f.split("/")[:-1] for f in source_files.labels) or any(
        "images" in f.split("/")[:-1] for f in source_files.pictures
    )
    picture_folders = {folder_name for f in source_files.pictures for folder_name in f.split("/")[:-1]}
    # names of folders of pictures that occur; ``images``, the usual one, even if it is not in this source
    picture_kinds = [kind for kind in PICTURE_FOLDERS if kind in picture_folders or kind == "images"]
    sibling = _find_sibling(
        source.path
    )  # where the pictures are of a source that is, or is below, ``labels``
    groups: dict[tuple[str, str], Group] = {}  # by the folders above ``labels``, and the split
    skipped = []
    for file in [*source_files.labels, *(source_files.pictures if in_labels else ())]:
        if in_labels:
            place = _find_below_labels(source, file, picture_kinds)
        else:
            place = _find_among_labels(source, file, sibling)
        if place is None:
            skipped.append(file)
            continue
        split = ALIASES.get(place.split, place.split)
        group = groups.setdefault((place.root, place.split), Group(split, {}, place.picture_folders))
        if file.lower().endswith(".txt"):
            key = place.name[: -len(".txt")]
            if group.labels.setdefault(key, file) != file:
                log.report(
                    DUPLICATE_IMAGE, source.full(file), value=key, first=source.full(group.labels[key])
                )
    if not groups and not in_labels and source_files.pictures:  # no label file at all, which is reported
        groups["", ""] = Group("", {}, (source.path,))
    if skipped:
        shown = first_few(skipped, 5)
        log.note(f"{printable(source.path)}: not below labels/ or images/, ignored: {shown}")
    plan.groups = list(groups.values())
    if options.wanted is not None:
        names = sorted({group.split for group in plan.groups if group.split})
        plan.groups = [group for group in plan.groups if group.split == options.wanted]
        if not plan.groups:
            check_split(plan, source.path, names, options, log)


class _Place(NamedTuple):
    """Where a label file or an image file lies in a source without a description."""

    root: str
    """The folders above ``labels`` or ``images``."""
    split: str
    name: str
    """The path of the file below these folders and that of the split."""
    picture_folders: tuple[str, ...]


def _find_below_labels(source: Source, file: str, picture_kinds: Sequence[str]) -> _Place | None:
    """Find the place of a file below ``labels``, or for an image file one of `picture_kinds`, else None.

    The split is the folder above, as in ``train/labels/x.txt``, or that below, as in ``labels/train/x.txt``.
    """
    parts = file.split("/")
    # the last such folder: of a/labels/train/x.txt outer a, inner train, x.txt
    marker_folders = ("labels",) if file.lower().endswith(".txt") else picture_kinds
    marker_index = next((i for i in range(len(parts) - 2, -1, -1) if parts[i] in marker_folders), -1)
    if marker_index < 0:
        return None
    outer_parts, inner_parts = parts[:marker_index], parts[marker_index + 1 :]
    split, split_folders = "", []
    if outer_parts and outer_parts[-1] in SPLITS:
        split = outer_parts[-1]
    elif len(inner_parts) > 1 and inner_parts[0] in SPLITS:
        split, *inner_parts = inner_parts
        split_folders = [split]
    folders = (source.full("/".join([*outer_parts, kind, *split_folders])) for kind in picture_kinds)
    return _Place("/".join(outer_parts), split, "/".join(inner_parts), tuple(folders))


def _find_among_labels(source: Source, file: str, sibling: str) -> _Place:
    """Find the place of a file of a source that has no folder ``labels``.

    The source is below ``labels`` itself, with its pictures in `sibling`; or it is an export for darknet with
    its labels among the pictures, as in ``obj_train_data/x.txt``; or all its files belong together.
    """
    folder, _, name = file.partition("/")
    if not name:
        return _Place("", "", file, (sibling or source.path,))
    if sibling:
        if folder in SPLITS:
            return _Place("", folder, name, (f"{sibling}/{folder}",))
    elif match := _DARKNET_FOLDER.fullmatch(folder):
        return _Place("", (match[1] or "").lower(), name, (source.full(folder),))
    return _Place("", "", file, (sibling or source.path,))


def check_split(plan: Plan, path: str, names: Collection[str], options: YoloOptions, log: Log) -> None:
    """Report the split in the options if it is not among `names`; the plan is then unsound."""
    if options.wanted is not None and options.wanted not in names:
        report_unknown_split(log, path, options.split, names)
        plan.is_sound = False


def _find_sibling(folder: str) -> str:
    """Return the folder of the pictures of labels in `folder`; "" unless it is ``labels`` or below it."""
    parts = os.path.abspath(folder).split(os.sep)
    if "labels" not in parts:
        return ""
    i = len(parts) - 1 - parts[::-1].index("labels")  # the last
    siblings = [os.sep.join([*parts[:i], kind, *parts[i + 1 :]]) for kind in PICTURE_FOLDERS]
    sibling = next(filter(os.path.isdir, siblings), siblings[0])
    return sibling if os.path.isabs(folder) else os.path.relpath(sibling)


def drop_own_files(source_files: Listing, lists: set[str]) -> Listing:
    """Drop from a listing the files that belong to a YOLO dataset, with Ultralytics' caches, ``*.cache``.

    `lists` are the dataset's lists of pictures.
    """
    lists = lists.union(_find_class_lists(source_files, described=False))
    known_files = [
        f
        for f in source_files.known
        if f.rsplit("/", 1)[-1].lower() not in _BELONGS and not f.endswith(".cache") and f not in lists
    ]
    other_files = [f for f in source_files.others if f.rsplit("/", 1)[-1].lower() not in _BELONGS]
    return Listing(source_files.labels, source_files.pictures, other_files, known_files)


def keep_described(source_files: Listing, folders: set[str]) -> Listing:
    """Keep of a listing the files in `folders`, "" for all, and class lists beside the description."""
    prefixes = tuple(f"{folder}/" for folder in folders if folder)

    def select(files: list[str], beside: Collection[str] = ()) -> list[str]:
        return [f for f in files if "" in folders or f.startswith(prefixes) or f.lower() in beside]

    return Listing(
        select(source_files.labels),
        select(source_files.pictures),
        select(source_files.others),
        select(source_files.known, _FIRST_LISTS),
    )


def _find_class_lists(source_files: Listing, *, described: bool) -> list[str]:
    """Find the files that list the names of classes: those of the usual names, else one ``.names`` file.

    If a description has named some (`described`), only the most usual names count.
    """
    for usual in (_FIRST_LISTS,) if described else (_FIRST_LISTS, _OTHER_LISTS):
        if files := [file for file in source_files.known if file.rsplit("/", 1)[-1].lower() in usual]:
            return files
    files = [file for file in source_files.known if file.lower().endswith(".names")]  # darknet's coco.names
    return files if len(files) == 1 and not described else []


def settle_names(plan: Plan, source_files: Listing, options: YoloOptions, log: Log) -> None:
    """Choose the list of class names for the plan, and report lists that disagree with it.

    The list of the options comes first, then that of the description, then lists in the source. Without any
    of them, ``plan.names_above`` gets the names of a dataset above the source. A list that disagrees makes
    the plan unsound, unless a description names the chosen one.
    """
    lists, is_described = plan.name_lists, bool(plan.name_lists)
    if options.classes is not None:
        list_source = Source(options.classes, follow_links=True, encoding=plan.source.encoding)
        option_names = read_list(list_source, "", log)
        plan.names, plan.names_from = option_names, options.classes
        plan.is_sound &= option_names is not None
        return
    for file in _find_class_lists(source_files, described=bool(lists)):
        path = plan.source.full(file)
        if any(path == list_path for list_path, _ in lists):
            continue
        names = read_list(plan.source, file, log)
        if names is None:
            plan.is_sound = False
        else:
            lists.append((path, names))
    if not lists:
        plan.names_above = _find_names_above(plan.source, log)
        return
    plan.names_from, plan.names = lists[0]
    for path, names in lists[1:]:
        if names != plan.names:
            code = OTHER_CLASS_LIST if is_described else CLASS_LISTS_DISAGREE
            report_other_list(code, path, names, lists[0], log)
            plan.is_sound &= is_described


def _find_names_above(source: Source, log: Log) -> tuple[str, list[str]] | None:
    """Find the ``data.yaml``, or class list, of the dataset whose ``labels`` the source is: path and names.

    It lies beside ``labels``, or where that is in the folder of a split, beside this.
    """
    folder = source.path if source.is_dir else os.path.dirname(source.path) or "."
    parts = os.path.abspath(folder).split(os.sep)
    if "labels" not in parts:
        return None
    i = len(parts) - 1 - parts[::-1].index("labels")  # the last
    levels = [len(parts) - i]  # how many folders up from the source the list may lie: 2 of labels/train
    if parts[i - 1] in SPLITS:
        levels.append(len(parts) - i + 1)
    for level in levels:
        for name in (*_DESCRIPTIONS, *_FIRST_LISTS, *_OTHER_LISTS):
            path = os.path.normpath(os.path.join(folder, *[os.pardir] * level, name))
            if not may_exist(path):
                continue
            try:
                list_source = Source(path, max_size=source.max_size)
            except PathError:
                continue
            # a file that is no part of the source, so its faults are not reported
            names = None if list_source.is_dir else read_list(list_source, "", log.fresh())
            if names:
                return path, names
    return None


# ------------------------------------------------------------------------------------------ images


class Image(msgspec.Struct, eq=False):
    """An image of the dataset."""

    key: str
    """Its name without extension."""
    label: str | None
    """The label file, relative to the source."""
    picture: Picture | None
    split: str
    pictures: Pictures
    """The image files among which that of the image was looked for."""
    lacks_picture: bool = False
    """Whether others of its folder have a picture and it has none."""

    @property
    def name(self) -> str:
        """The name of the image, with the extension of its picture."""
        return add_extension(self.key, self.picture)


def find_images(plan: Plan, builder: Builder, log: Log, options: YoloOptions) -> list[Image]:
    """Find the images of all groups of the plan, with their image files, in code-point order of names.

    Each label file is read once, and pictures without labels are images of ground truth. They are reported.
    If two splits have images of one name, all names get their split before them.
    """
    source = plan.source
    images: list[Image] = []
    first_pictures: Pictures | None = None
    split_of_file: dict[str, str] = {}  # of label files and of pictures without one
    shown = printable(source.path)
    images_of_groups: list[tuple[Group, list[Image]]] = []
    for group in plan.groups:
        # shares the listing and the sizes of --images with those of the first group
        pictures = Pictures(options, builder, log, source, group.folders, beside=first_pictures)
        first_pictures = first_pictures or pictures
        first_image = len(images)
        keys = dict.fromkeys([*group.labels, *group.listed])
        candidates = [_make_image(key, group, pictures, source, options) for key in keys]
        for image in candidates:
            label = image.label
            if label is not None and split_of_file.setdefault(label, group.split) != group.split:
                log.note(f"{shown}: labels shared by two splits are read once, as {split_of_file[label]!r}")
            else:
                images.append(image)
        _match_by_folders(candidates, pictures)  # changes images that are in `images` already

        # Of detections, a picture without a label file says nothing. One folder of pictures by --images may
        # hold those of other splits.
        if builder.kind != "det" and not group.only_listed:
            used_pictures = {image.picture.location for image in candidates if image.picture is not None}
            for picture in pictures.own if len(plan.groups) > 1 or group.split else pictures.all:
                key, location = stem(picture.name), picture.location
                if location in used_pictures or key in group.labels:
                    continue
                if split_of_file.setdefault(location, group.split) == group.split:
                    images.append(Image(key, None, picture, group.split, pictures))
        images_of_groups.append((group, images[first_image:]))
    _report_bare(plan, images_of_groups, builder, log)
    if len({image.split for image in images}) > 1:
        _prefix_splits(images, plan, log)
    return sorted(images, key=lambda image: (image.name, image.split))


def _make_image(key: str, group: Group, pictures: Pictures, source: Source, options: YoloOptions) -> Image:
    """Return the image of a group with this key, with its image file if one of its name is there."""
    label = group.labels.get(key)
    picture = pictures.find(key, path=source.full(label) if label is not None else "")
    if picture is None and options.images is not None:  # that folder may have one for each split
        picture = pictures.find(f"{group.split}/{key}")
    if picture is None and (listed := group.listed.get(key)) is not None:
        picture = _open_listed(source, key, listed)
    if picture is None and stem(key) != key:
        picture = pictures.find_exact(key)  # labels called img.jpg.txt
    return Image(key, label, picture, group.split, pictures)


def _match_by_folders(images: list[Image], pictures: Pictures) -> None:
    """Give labelled images without a picture one that lies in another folder, and its name.

    Those that still have none, although others of their group have one, are marked as lacking it.
    """
    without_picture = [image for image in images if image.picture is None and image.label is not None]
    have_pictures = any(image.picture is not None for image in images)
    match_by_key = find_by_folders([image.key for image in without_picture], pictures)
    for image in without_picture:
        image.lacks_picture = (have_pictures or bool(match_by_key)) and image.key not in match_by_key
        if image.key in match_by_key:
            image.key, image.picture = match_by_key[image.key]


def _report_bare(plan: Plan, groups: list[tuple[Group, list[Image]]], builder: Builder, log: Log) -> None:
    """Report pictures without a label file: a warning if only some lack one, else that labels are missing.

    `groups` are paired with their images. Text files near the pictures of a group, which are not read,
    may be its labels, so their folders are named.
    """
    source = plan.source
    any_labelled = any(image.label is not None for _, images in groups for image in images)
    read_labels = {image.label for _, images in groups for image in images}
    unread_labels = (
        [] if not source.is_dir else [f for f in list_files(source).labels if f not in read_labels]
    )
    for group, images in groups:
        without_label = [image for image in images if image.label is None]
        text_folders = sorted({f.rpartition("/")[0] for f in unread_labels if _belongs(source, group, f)})
        all_lack_labels = len(without_label) == len(images)
        if all_lack_labels and not (images or text_folders):
            continue
        split_text = f" of the split {group.split!r}" if group.split else ""
        # Labels seem to be elsewhere, or there are none at all where there should be.
        is_unlabelled = bool(without_label) and not any_labelled and builder.kind != "det"
        if all_lack_labels and (text_folders or is_unlabelled):
            n, shown = len(without_label), Trusted(_describe_text_folders(text_folders))
            log.report(NO_LABELS, source.path, n=n, where=Trusted(split_text), found=shown)
        elif without_label:
            picture = without_label[0].picture
            counts: dict[str, Any] = {"n": len(without_label), "total": len(images)}
            first_path = picture.location if picture else source.path
            log.report(BARE_PICTURES, source.path, value=first_path, **counts, where=Trusted(split_text))


def _describe_text_folders(folders: Sequence[str]) -> str:
    """Return the end of a message that names folders with text files that may be labels; empty for none."""
    shown = ", ".join(repr(shorten(folder or ".")) for folder in folders[:3])
    if shown:
        shown = f"; there are text files in {shown}, which is not searched for labels"
    if any("labeltxt" in folder.lower().split("/") for folder in folders):
        shown += " (labelTxt/ contains DOTA labels: give the folder above it, with the format dota)"
    return shown


def _belongs(source: Source, group: Group, file: str) -> bool:
    """Whether a text file lies where the labels of a group might: near its pictures."""
    for folder in group.folders:
        parts = [p for p in os.path.relpath(folder, source.path).split(os.sep) if p != "."]
        images_index = len(parts) - 1 - parts[::-1].index("images") if "images" in parts else len(parts)
        # Of the pictures a/images/train, labels may lie in a/*/train: what is before and after is equal.
        parts_below = parts[images_index + 1 :]
        file_folders = file.split("/")[:-1]
        begins_alike = file_folders[:images_index] == parts[:images_index]
        if begins_alike and file_folders[len(file_folders) - len(parts_below) :] == parts_below:
            return True
    return False


def _open_listed(source: Source, key: str, listed: str) -> Picture | None:
    """Return the image file at the path `listed` of a list; None if it is not there or no image file."""
    suffix = listed[listed.rfind(".") :] if "." in listed.rsplit("/", 1)[-1] else ""
    if source.holds(listed) and suffix.lower() in PICTURE_SUFFIXES:
        return make_picture(source, listed, key + suffix)
    return None


def _prefix_splits(images: list[Image], plan: Plan, log: Log) -> None:
    """Put the split before all image names, with a note, if two splits have an image of one name."""
    names = [image.name for image in images]
    if len(set(names)) == len(names):
        return
    log.note(
        f"{printable(plan.source.path)}: images of different splits have the same name, so names are "
        "prefixed with the split"
    )
    for image in images:
        if image.split:
            image.key = f"{image.split}/{image.key}"


def add_images(
    images: list[Image], boxed: NDArray[Any], file_rows: NDArray[Any], gather: Gather, *, tracked: bool
) -> tuple[Ints, Longs]:
    """Add n images; return (n,) their rows, -1 if refused, and (n, 2) sizes in pixels, 0 if unknown.

    Unknown sizes of labelled images, and missing pictures, are reported. If no image has a size, all sizes
    may become 1, and coordinates stay fractions.

    `boxed` are the positions of images with boxes, whose size is needed, and `file_rows` (n,) the numbers of
    their label files. If `tracked`, and all names are like ``video_12``, the images are frames of videos.
    """
    frames: list[tuple[str, int]] = []  # video and number; empty if the images are no frames
    if tracked:
        matches = filter(None, map(_FRAME.fullmatch, (image.key for image in images)))
        frames = [(match[1], int(match[2])) for match in matches]
        frames = frames if len(set(frames)) == len(images) else []
    unsized: list[Unsized] = []
    is_labelled = np.zeros(len(images), bool)
    is_labelled[boxed] = True
    rows = np.full(len(images), -1, np.int32)
    sizes = np.zeros((len(images), 2), np.int64)
    source, log = gather.source, gather.log
    for i, image in enumerate(log.track(images, "reading image sizes")):
        name, picture, n_errors = image.name, image.picture, log.errors
        path = picture.location if picture else source.path
        location = Location(path if image.label is None else source.full(image.label))
        gather.pictures = image.pictures  # each split has its own
        video = frame = -1
        if frames:
            video_name, frame = frames[i]
            video = gather.builder.video(video_name)
        row = gather.image(
            name,
            location,
            picture=picture,
            split=image.split,
            file=int(file_rows[i]),
            video=video,
            frame=frame,
        )
        if row is None:
            continue
        rows[i], sizes[i] = row, gather.builder.image_size(row)
        if is_labelled[i] and not sizes[i, 0] and log.errors == n_errors:
            unsized.append(Unsized(name, picture, image.pictures, location))
        elif image.lacks_picture:
            log.report(NO_PICTURE, location.path, value=name)
    if unsized and decide_relative(gather.builder, unsized, sized=bool(sizes.any())):
        sizes[:] = 1
    return rows, sizes
