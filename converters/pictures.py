"""Find the image files of a dataset, and compare them with the annotations."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from odm.codes import NO_PICTURE, NO_SIZE, SIZE_OUT_OF_REACH
from odm.converters.load import Loaded
from odm.converters.pending import Request
from odm.files import MAX_SIZE, Source
from odm.formats import option_specs
from odm.issues import Code, Log, Trusted
from odm.names import PICTURE_SUFFIXES, stem
from odm.pictures import read_picture_size
from odm.tables import Dataset

NO_ANNOTATION = Code(
    "picture-without-annotations",
    "warning",
    "{n} of {total} pictures are not in the annotations; the first is {value!r}",
    "annotate them, list them as images without objects, or move them elsewhere",
    "A picture that the annotations do not mention is used neither as a training example nor as a "
    "background image.",
)
UNREADABLE_PICTURE = Code(
    "picture-not-checked",
    "warning",
    "cannot compare the size of the picture with the annotations: {reason}",
    "replace the picture",
    "The header of the picture is damaged or of an unknown type. The annotations give the size of the "
    "image, so they can still be used.",
)

PICTURE_SIZE = Code(
    "picture-size-differs",
    "warning",
    "the annotations say {value} pixels, but the picture has {real}",
    "correct the size, or use the picture that was annotated",
    "If the picture was resized after annotation, every box is in the wrong place.",
)
PICTURE_TURNED = Code(
    "picture-size-swapped",
    "warning",
    "the annotations say {value} pixels, but the picture has {real}: width and height are swapped",
    "check the EXIF orientation of the picture",
    "Some tools annotate a picture as stored, others as displayed. If the two differ by a quarter turn, "
    "every box is in the wrong place.",
)


def locate(
    names: Sequence[str],
    datasets: Sequence[Dataset],
    folders: Sequence[str],
    log: Log,
    *,
    follow_links: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
) -> list[tuple[str, int, int]]:
    """Return (path, width, height) in pixels for each image; an empty path and 0 where they are not known.

    `names` are those of images, as in the datasets. The first dataset is believed that has an image of that
    name and knows its path or size. Where none knows the path, the `folders` of pictures are searched for the
    whole name, its last part, and both without extension; a picture behind a link that leads out of its
    folder is taken only with `follow_links`. Raises PathError if a folder is missing.
    """
    sources = [
        Source(path, follow_links=follow_links, max_size=max_size, encoding=encoding)
        for path in dict.fromkeys(folders)
    ]
    # A folder is listed only if an image is looked for in it, and then once: `finder()` lists it.
    finders = [functools.cache(functools.partial(_make_finder, source)) for source in sources]
    tables = [({name: row for row, name in enumerate(d.images.name)}, d.images) for d in datasets]
    image_files = []
    for name in names:
        path, width, height = "", 0, 0
        for rows, images in tables:
            row = rows.get(name)
            if row is None:
                continue
            path = path or images.path[row]
            if min(width, height) <= 0:
                width, height = int(images.width[row]), int(images.height[row])
        for source, finder in zip(sources, finders, strict=True):
            image_file = finder()(name) if not path else None
            if image_file is not None and image_file not in source.picture_links:
                path = source.full(image_file)
        image_files.append((path, width, height))
    for source in sources:
        source.note_links(log)
    return image_files


def check_pictures(loaded: Loaded, request: Request, folder: str, log: Log, *, partial: bool = False) -> None:
    """Compare the images of a dataset with the image files in a folder: which exist, and their sizes.

    If the dataset is `partial`, image files of no image are no fault. Sizes that were read from the image
    files, and files behind links, are not compared; the log takes a note on the links.
    """
    dataset, images = loaded.dataset, loaded.dataset.images
    source = Source(folder, follow_links=request.follow_links, max_size=request.max_size)
    find_image_file = _make_finder(source)
    file_of: dict[int, str] = {}  # row of an image -> its file, relative to the folder
    # Whether the reader has reported missing pictures, as it needs their sizes.
    is_reported = any(log.counts[code.name] for code in (NO_PICTURE, NO_SIZE, SIZE_OUT_OF_REACH))
    for row, name in enumerate(images.name):
        image_file = find_image_file(name)
        if image_file is not None:
            file_of[row] = image_file
        elif not is_reported:
            log.report(NO_PICTURE, dataset.image_place(row), value=name)
    image_files = source.with_suffix(*PICTURE_SUFFIXES)
    unmentioned = sorted(set(image_files) - set(file_of.values()))
    if unmentioned and not partial:  # the name "" stands for a `folder` that is a picture
        log.report(
            NO_ANNOTATION, folder, n=len(unmentioned), total=len(image_files), value=unmentioned[0] or folder
        )

    reader_options = {**request.shared, **request.options}
    size_options = {spec.name for spec in option_specs(loaded.format.options)} & {"image_size", "image_sizes"}
    if "size" not in loaded.format.keeps and all(reader_options.get(name) is None for name in size_options):
        return  # the sizes are the pictures' own
    has_size = np.minimum(images.width, images.height) > 0
    rows = [row for row, file in file_of.items() if has_size[row] and file not in source.picture_links]
    source.note_links(log)
    for row in log.track(rows, "pictures"):
        path, scratch_log = source.full(file_of[row]), Log(keep=1)
        size = read_picture_size(path, scratch_log)
        declared_size = int(images.width[row]), int(images.height[row])
        if size is None:  # the issue says "file: reason; advice", but this one has another code and advice
            _, _, reason_and_advice = scratch_log.issues[0].message.partition(": ")
            log.report(UNREADABLE_PICTURE, path, reason=reason_and_advice.partition(";")[0])
        elif declared_size != size:
            code = PICTURE_TURNED if declared_size == size[::-1] else PICTURE_SIZE
            shown = [Trusted("x".join(map(str, edges))) for edges in (declared_size, size)]
            log.report(code, dataset.image_place(row), value=shown[0], real=shown[1])


def _make_finder(source: Source) -> Callable[[str], str | None]:
    """Return a function that finds the image file of an image name in a folder.

    That is the first of these that is unique: the whole name, its last part, and both without extension.
    """
    image_files = source.with_suffix(*PICTURE_SUFFIXES)
    # For each way to make a key of a name, the image files whose key no other file has.
    tables: list[tuple[Callable[[str], str], dict[str, str]]] = []
    for make_key in (str, _last_part, stem, lambda name: stem(_last_part(name))):
        counts = Counter(map(make_key, image_files))
        tables.append((make_key, {key: f for f in image_files if counts[key := make_key(f)] == 1}))

    def find_image_file(name: str) -> str | None:
        files = (table.get(make_key(name)) for make_key, table in tables)
        return next((file for file in files if file is not None), None)

    return find_image_file


def _last_part(name: str) -> str:
    """Return a name without its folders."""
    return name.rpartition("/")[2]
