"""Name the images of annotation files, in the formats that have a file for each image.

A folder that holds nothing but annotations is no part of a name: `labels/a.txt` and `images/a.png` are both
of the image `a.png`. It is known by its name (`labels`, `xmls`, `Annotations`, ...), or by a folder of
pictures beside it. Where a picture lies beside the annotation file itself, the name stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from odm.files import Source
from odm.formats._shared.pictures import Picture, Pictures
from odm.formats._shared.split_names import SPLITS
from odm.issues import Log, printable
from odm.names import stem
from odm.tables import Dataset

ANNOTATIONS = re.compile(
    r"(?:labels?|label_?0?2|ann|anns|annots?|annotations?|gts?|ground[-_ ]?truths?|detections?|predictions?"
    r"|results?|bbox(?:es)?)(?:[-_ ]?(?:xmls?|jsons?|txts?|voc|kitti|dota|results?))?"
    r"|xmls?|jsons?|txts?|labeltxt.*|dota-v[0-9.]+_.*",
    re.IGNORECASE,
)
"""Names of folders that hold nothing but annotations."""
_PICTURES = re.compile(r"images?|imgs?|jpegimages|image_?0?[0-3]|data|pictures?|photos?", re.IGNORECASE)
"""Names of folders that hold pictures."""
_SUFFIX = re.compile(r"\.(?:txt|xml|json)\Z", re.IGNORECASE)

Parts = tuple[str, ...]


class Place(NamedTuple):
    """The image name, root folder and image file that follow from the path of an annotation file."""

    key: str
    """The name of its image, without extension."""
    root: str | None
    """The path above the folder of annotations, empty or ending in a slash; None outside such a folder."""
    picture: str
    """The name of its image file below the folder of images, without extension."""


def name_images(source: Source, files: Sequence[str], pictures: Pictures, prefix: str = "") -> list[Place]:
    """Name the image of each annotation file of a source, by its path and the image files that there are.

    A `prefix` of all file names is no part of the names. If all files are below one folder of annotations,
    neither are the folders above it.
    """
    keys = [_SUFFIX.sub("", source.relative(file)) for file in files]
    if prefix:
        split_keys = (key.rpartition("/") for key in keys)
        keys = [f"{folder}{slash}{last.removeprefix(prefix)}" for folder, slash, last in split_keys]
    if not any("/" in key for key in keys):
        return [Place(key, None, stem(key)) for key in keys]
    folders_of_picture: dict[str, list[Parts]] = {}
    for picture in pictures.all:
        *folder, last = stem(picture.name).split("/")
        folders_of_picture.setdefault(last, []).append(tuple(folder))
    annotation_folders = {tuple(key.split("/")[:-1]) for key in keys}
    image_places = _name_by_folders(keys, folders_of_picture, annotation_folders, by_picture=True)
    # If the folders of image files give two the same name, only the usual names decide.
    if len({place.key for place in image_places}) < len(image_places):
        image_places = _name_by_folders(keys, folders_of_picture, annotation_folders, by_picture=False)
    # A root that all names share is no part of them.
    roots = {place.root for place in image_places}
    if len(roots) == 1 and (root := roots.pop()):
        return [place._replace(key=place.key[len(root) :]) for place in image_places]
    return image_places  # of several trees, the name of the tree tells their images apart


def _name_by_folders(
    keys: Sequence[str],
    folders_of_picture: dict[str, list[Parts]],
    annotation_folders: Collection[Parts],
    *,
    by_picture: bool,
) -> list[Place]:
    """Name the image of each key, the path of an annotation file without extension; see `name_images`.

    `folders_of_picture` are the folders of the image files by their last part without extension, and
    `annotation_folders` those of the keys. With `by_picture` the folders of an image file decide which parts
    of a key's folder stay in the name; without, only the usual names of folders of annotations are dropped.
    `train/labels/x` of `train/images/x.png` is `train/x`, and `marks/x` of `images/x.png` is `x`.
    """
    name_folder_of: dict[Parts, Parts] = {}
    """The folder in the names of images, by the folder of the annotations where this has an unusual name."""
    places = []
    for path in keys:
        *folder, file_name = path.split("/")
        key_folder = tuple(folder)
        candidates = folders_of_picture.get(stem(file_name), ())
        if key_folder in candidates:  # the image file lies beside it
            places.append(Place(path, None, stem(path)))
            continue
        # A picture beside other annotations is the image of these.
        other_folders = [candidate for candidate in candidates if candidate not in annotation_folders]
        # `train` of `train/labels`; `train/images` matches it, and so do `images` and `a/train`.
        remaining = tuple(folder_name for folder_name in key_folder if not ANNOTATIONS.fullmatch(folder_name))
        matching = [candidate for candidate in other_folders if _match_parts(candidate, remaining)]
        # `train` is no unusual name if the image is in `images/train`.
        is_known = key_folder in name_folder_of or any(
            _drop_pictures(candidate) == key_folder for candidate in matching
        )
        if by_picture and remaining == key_folder and not is_known:
            name_folder_of |= _drop_unusual(key_folder, other_folders)
        name_folder = name_folder_of.get(key_folder, remaining)
        if name_folder != remaining:  # by an unusual name, so any folder of image files may be its own
            matching = other_folders

        # The folder of the image file: one that says the same as the name, else the first.
        picture_folder = min(
            matching, key=lambda folder: (_drop_pictures(folder) != name_folder, folder), default=None
        )
        # Parts that only the annotations have are no part of the name, except for splits.
        is_shorter = picture_folder is not None and _is_subsequence(
            _drop_pictures(picture_folder), name_folder
        )
        if by_picture and is_shorter:
            name_folder = tuple(
                name for name in name_folder if name in (picture_folder or ()) or name.lower() in SPLITS
            )
        shared_folder = _find_common_start(key_folder, name_folder)
        root = None if name_folder == key_folder else "/".join([*shared_folder, ""])  # `a/` of `a/labels`
        key = "/".join([*name_folder, file_name])
        picture = stem(key) if picture_folder is None else "/".join([*picture_folder, stem(file_name)])
        places.append(Place(key, root, picture))
    return places


def _drop_unusual(key_folder: Parts, picture_folders: Sequence[Parts]) -> dict[Parts, Parts]:
    """Drop the unusual name of a folder of annotations: `{a/marks: a}` where an image is in `a/images`.

    Empty if no folder of image files differs in one part alone, or if that is the name of a split.
    """
    for folder in picture_folders:
        i = _find_replaced(key_folder, folder)
        if i >= 0 and key_folder[i].lower() not in SPLITS:
            return {key_folder: key_folder[:i] + key_folder[i + 1 :]}
    return {}


def _match_parts(picture_folder: Parts, remaining: Parts) -> bool:
    """Whether a folder of image files, without parts that only say so, is part of a name, or the reverse."""
    parts = _drop_pictures(picture_folder)
    return _is_subsequence(parts, remaining) or _is_subsequence(remaining, parts)


def find_by_folders(keys: Sequence[str], pictures: Pictures) -> dict[str, tuple[str, Picture]]:
    """Find the image files whose path only lacks folders of annotations: `yolo/x` of `images/x.png` is `x`.

    Returns the image name, without extension, and the image file by the key of the annotation file. If
    several keys have one image file, each key stays the name.
    """
    pictures_of_name: dict[str, list[tuple[Parts, Picture]]] = {}
    for picture in pictures.all if keys else ():
        *folder, last = stem(picture.name).split("/")
        pictures_of_name.setdefault(last, []).append((_drop_pictures(tuple(folder)), picture))
    pairs = {}
    for key in keys:
        *key_folder, last = key.split("/")
        matches = [
            (parts, picture)
            for parts, picture in pictures_of_name.get(last, ())
            if _is_subsequence(parts, tuple(key_folder))
        ]
        if matches:
            parts, picture = max(matches, key=lambda match: len(match[0]))  # the most folders in common
            pairs[key] = "/".join([*parts, last]), picture
    n_keys_of_picture = Counter(picture.location for _, picture in pairs.values())
    return {
        key: (name if n_keys_of_picture[picture.location] == 1 else key, picture)
        for key, (name, picture) in pairs.items()
    }


def _drop_pictures(folder: Parts) -> Parts:
    """Drop from a folder of image files the parts that only say so: `train/images` becomes `train`."""
    return tuple(name for name in folder if not _PICTURES.fullmatch(name))


def _is_subsequence(short_path: Parts, long_path: Parts) -> bool:
    """Return whether all parts of `short_path` are in `long_path`, in the same order."""
    remaining = iter(long_path)  # `in` goes on behind the part that it found last
    return all(name in remaining for name in short_path)


def _find_replaced(labels: Parts, pictures: Parts) -> int:
    """Return the index of the only part of `labels` that is another, or missing, in `pictures`; else -1.

    1 for `a/marks/b` and `a/images/b`, and for `a/marks/b` and `a/b`; -1 for `a/marks` and `c/images`.
    """
    i = len(_find_common_start(labels, pictures))
    parts_if_missing, parts_if_other = pictures[i:], pictures[i + 1 :]
    return i if i < len(labels) and labels[i + 1 :] in (parts_if_missing, parts_if_other) else -1


def _find_common_start(folder_a: Parts, folder_b: Parts) -> Parts:
    """Return the parts with which both folders begin."""
    shorter = min(len(folder_a), len(folder_b))
    n_shared = next((i for i, (a, b) in enumerate(zip(folder_a, folder_b, strict=False)) if a != b), shorter)
    return folder_a[:n_shared]


def drop_folder(place: Place, path: str) -> str:
    """Return the name of an image, without extension, whose annotation file holds the `path` of its file.

    A folder of annotations is no part of the name if `path` leaves it by ``../`` for a folder of images:
    `marks/x` with the path `../images/x.png` is `x`.
    """
    *folder, last = place.key.split("/")
    *path_folders, _ = path.replace("\\", "/").split("/")
    n_up = path_folders.count("..")  # all of them must be at the beginning
    begins_with_up = path_folders[:n_up] == [".."] * n_up
    if place.root is not None or not 0 < n_up <= len(folder) or not begins_with_up:
        return place.key
    key_folder = tuple(folder)
    # Which part of the folder of the annotation is another, or missing, in that of the image.
    i = _find_replaced(key_folder, (*folder[: len(folder) - n_up], *path_folders[n_up:]))
    return place.key if i < 0 else "/".join([*key_folder[:i], *key_folder[i + 1 :], last])


def note_folders(dataset: Dataset, log: Log) -> None:
    """Note which folders in image names will not be read back, as they look like folders of annotations."""
    dropped = {
        folder_name
        for image_name in dataset.images.name
        for folder_name in image_name.split("/")[:-1]
        if ANNOTATIONS.fullmatch(folder_name)
    }
    if dropped:
        shown = ", ".join(repr(folder_name) for folder_name in sorted(dropped)[:3])
        log.note(f"folders called {shown} are read as those of the annotations, not as part of image names")


# ------------------------------------------------------------------------------------- images behind a URL


def choose_url_names(
    texts: Iterable[object], name_of: Callable[[str], str], path: str, log: Log
) -> Callable[[str], str]:
    """Choose the shortest way to name images by their URLs that gives no two of `texts` the same name.

    Returns a function from a text to its name. `name_of` is tried first, then the folders of the URLs, then
    the host or bucket too; a longer name than the first is noted. It is `name_of` again if all three give
    some the same name.
    """
    urls = {text for text in texts if isinstance(text, str)}

    def name_with_folders(text: str) -> str:
        return find_url_name(text, name_of(text))

    def name_with_host(text: str) -> str:
        name = name_with_folders(text)
        host = text.partition("://")[2].partition("/")[0]  # of "https://host/a.jpg"
        # Only before the whole path of the URL: a name with folders, or one that is the path by itself.
        return f"{host}/{name}" if name != name_of(text) or text.endswith(f"://{host}/{name}") else name

    for name_function in (name_of, name_with_folders, name_with_host):
        if len(set(map(name_function, urls))) == len(urls):
            if name_function is not name_of:
                text = "names of images keep their folders, because some are alike without"
                log.note(f"{printable(path)}: {text}")
            return name_function
    return name_of


def find_url_name(text: str, last: str = "") -> str:
    """Return the path of a URL without host or bucket if it ends in the image name `last`; else `last`.

    A name `last` that has folders is returned too.
    """
    _, _, host_and_path = text.split("?", 1)[0].partition("://")
    _, _, quoted_path = host_and_path.partition("/")
    path = unquote(quoted_path).strip("/")
    return path if "://" in text and "/" not in last and path.endswith(last) else last


def unquote(text: str) -> str:
    """Decode the percent signs of a part of a URL; unchanged if the bytes are not UTF-8."""
    from urllib.parse import unquote_to_bytes

    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode()
    except UnicodeDecodeError:
        return text
