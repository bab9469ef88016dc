"""Find the files around the XML of Pascal VOC: roots of trees, lists of splits, folders of images."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from odm.codes import report_unknown_split
from odm.files import Source
from odm.formats._shared.codes import NOT_UTF8
from odm.formats._shared.image_names import ANNOTATIONS, Place
from odm.formats._shared.split_names import SPLITS
from odm.formats._shared.text.safe_xml import BLANKS
from odm.formats.voc.terms import NO_SPLIT
from odm.issues import Code, Log, Trusted, listed, plural, printable
from odm.names import PICTURE_SUFFIXES, stem

LISTED_MISSING = Code(
    "voc-listed-image",
    "warning",
    "{what} listed without an XML file: {names}",
    "add the files, or remove the images from the list",
    "A list in ImageSets contains images without annotations. Whether they show objects is unknown, so they "
    "are left out.",
)
IN_TWO_SPLITS = Code(
    "voc-two-splits",
    "warning",
    "image {value!r} is also listed in {first!r}; it is read as part of {name!r}",
    "remove it from one of the lists",
    "An image in two splits, neither of which contains the other, would be used both in training and in "
    "testing.",
)


def note_stray_files(source: Source, read_files: Collection[str], roots: Sequence[str], log: Log) -> None:
    """Note how many files in folders of annotations are neither among `read_files` nor XML nor pictures."""
    if not source.is_dir:
        return
    strays = []
    for file in source.files:
        if file in read_files:
            continue
        suffix = file[file.rfind(".") :].lower() if "." in file.rsplit("/", 1)[-1] else ""
        paths_below_roots = (file[len(root) :].partition("/") for root in roots if file.startswith(root))
        is_annotation = not roots or any(  # in a folder such as Annotations/ of a tree
            slash and ANNOTATIONS.fullmatch(folder) for folder, slash, _ in paths_below_roots
        )
        if is_annotation and suffix != ".xml" and suffix not in PICTURE_SUFFIXES:
            strays.append(file)
    if strays:
        count_text = plural(len(strays), "file is", "files are")
        log.note(f"{count_text} neither XML nor a picture and ignored, the first is {printable(strays[0])}")


def find_splits(
    source: Source, files: Sequence[tuple[str, Place]], roots: Sequence[str], requested: str | None, log: Log
) -> tuple[Sequence[tuple[str, Place]], Mapping[str, str]]:
    """Find the splits by the lists in ``ImageSets``, else by folders named after splits.

    Returns the `files` of the `requested` split, all if it is None, and the split of each image by its key.
    A split that is not there is reported, and gives no files.
    """
    keys_of_split: dict[str, dict[str, None]] = {}  # dicts for sets that keep their order
    for root in roots:
        keys_below = {image.key for _, image in files if image.root == root}
        for name, members in _read_lists(source, root, keys_below, len(roots) > 1, log, requested):
            keys_of_split.setdefault(name, {}).update(members)
    if not keys_of_split:  # folders count only if every image is in one
        for _, image in files:
            split_folders = [folder for folder in image.key.split("/")[:-1] if folder.lower() in SPLITS]
            if not split_folders:
                keys_of_split = {}
                break
            keys_of_split.setdefault(split_folders[0], {})[image.key] = None
    if requested is not None and requested not in keys_of_split:
        report_unknown_split(
            log, source.path, requested, keys_of_split, no_splits="there are no lists in ImageSets/Main"
        )
        return (), {}

    # The smallest list that names an image is its split, so that `trainval` does not hide `train`.
    splits: dict[str, str] = {}
    ordered_splits = sorted(keys_of_split, key=lambda name: (len(keys_of_split[name]), name))
    nested_pairs = {
        (a, b)
        for a in ordered_splits
        for b in ordered_splits
        if keys_of_split[a].keys() <= keys_of_split[b].keys()
    }
    for name in ordered_splits:
        for key in keys_of_split[name]:
            first_split = splits.setdefault(key, name)
            if first_split != name and (first_split, name) not in nested_pairs:
                log.report(IN_TWO_SPLITS, source.path, value=key, first=name, name=first_split)

    if requested is None:
        return files, {key: name for key, name in splits.items() if name != NO_SPLIT}
    members, name = keys_of_split[requested], "" if requested == NO_SPLIT else requested
    files_of_split = [(file, image) for file, image in files if image.key in members]
    return files_of_split, dict.fromkeys(members, name)


def _read_lists(
    source: Source, root: str, keys: set[str], has_several_roots: bool, log: Log, requested: str | None
) -> list[tuple[str, dict[str, None]]]:
    """Read the lists in ``ImageSets`` below `root` that are splits: names, each with the keys of its images.

    Lists in ``Main`` count, else those beside it. `keys` are those of the images below `root`. With a
    `requested` split only this list is returned; if it is not there, all are, empty, for their names.
    """
    pattern = re.compile(re.escape(root) + r"ImageSets/(?:([^/]+)/)?([^/]+)\.txt", re.IGNORECASE)
    matches = [m for f in source.files if (m := pattern.fullmatch(f))]
    list_matches = [m for m in matches if (m[1] or "").lower() == "main"]
    if not list_matches:  # those of other tasks are no splits of images with boxes
        list_matches = [
            m for m in matches if (m[1] or "").lower() not in ("layout", "segmentation", "action")
        ]
    if not list_matches:
        return []
    # A list may name images by the end of their path: of a/b/c.jpg b/c.jpg, or c.jpg.
    keys_of_end: dict[str, list[str]] = {}
    prefix = root if has_several_roots else ""
    for key in keys:
        parts = key[len(prefix) :].split("/")
        for i in range(1, len(parts)):
            keys_of_end.setdefault("/".join(parts[i:]), []).append(key)
    lists: list[tuple[str, dict[str, None]]] = []
    for match in list_matches:
        if requested is not None and match[2] != requested:
            lists.append((match[2], {}))  # it is there, which is all that matters now
            continue
        members = _read_list(source, match[0], keys, keys_of_end, prefix, log)
        if members is not None:
            lists.append((match[2], members))
    if requested is None:
        return lists
    # Without the list, the names to choose from; those of one class, such as dog_train, are none.
    lists_of_split = [(name, members) for name, members in lists if name == requested]
    return lists_of_split or [(name, members) for name, members in lists if "_" not in name]


def _read_list(
    source: Source, file: str, keys: set[str], keys_of_end: dict[str, list[str]], prefix: str, log: Log
) -> dict[str, None] | None:
    """Return the keys that a list names, in its order; None for a list of one class, or after an issue.

    A name is a key without `prefix`, or the end of a key if only one key in `keys_of_end` has it.
    """
    data = source.read(file, log)
    if data is None:
        return None
    path = source.full(file)
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as e:
        line = 1 + data.count(b"\n", 0, e.start)
        log.report(NOT_UTF8, path, line=line, value=f"the byte 0x{data[e.start]:02x}")
        return None

    def find_key(name: str) -> str | None:
        """Return the key of the image with this name, with or without extension; None if there is none."""
        for candidate in (name, stem(name)):
            if prefix + candidate in keys:
                return prefix + candidate
            if len(matches := keys_of_end.get(candidate, [])) == 1:
                return matches[0]
        return None

    members: dict[str, None] = {}
    missing = []
    marks = set()  # what follows the names: -1, 0 and 1 in a list of one class
    n_rows = 0
    for line_number, row in enumerate(text.split("\n"), 1):
        name = row.strip(BLANKS)
        if not name:
            continue
        n_rows += 1
        key = find_key(name)
        if key is None:
            name_without_mark, *mark = name.rsplit(None, 1)  # "2008_000001 -1" of a list of one class
            if mark and re.fullmatch(r"-?[0-9]+", mark[0], re.ASCII):
                marks.update(mark)
                key = find_key(name_without_mark)
        else:
            marks.add("")
        if key is None:
            missing.append((line_number, name))
        else:
            members[key] = None
    # ImageNet numbers the rows of its lists: a single one ends in 1 there, too.
    if marks and marks <= {"-1", "0", "1"} and (n_rows > 1 or "/main/" in f"/{file}".lower()):
        return None  # which images show one class, not which images there are
    if missing:
        count_text, names = plural(len(missing), "image is", "images are"), [name for _, name in missing]
        log.report(LISTED_MISSING, path, line=missing[0][0], what=count_text, names=Trusted(listed(names)))
    return members
