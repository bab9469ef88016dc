"""Leave out faulty rows and faulty annotation files, where the user asked for it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.files import Source
from odm.formats import DESCRIBING
from odm.issues import CODES, DataError, Log, plural, printable, spell
from odm.names import stem
from odm.tables import Dataset, freeze

EVERY = 10**6
"""Issues of one code that are kept while faulty files are looked for, so that every such file is named."""
ROUNDS = 10
"""How often a source is read again; a file left out may uncover a fault of another."""


class LeftOut(msgspec.Struct, eq=False):
    """The files that were left out, and the names of the images in them as far as they are known."""

    files: list[str] = msgspec.field(default_factory=list)
    """Their paths, as the source has them."""
    stems: set[str] = msgspec.field(default_factory=set)
    """Their names without folder and extension: of one file per image, the name of the image."""
    images: set[str] = msgspec.field(default_factory=set)
    """Names of images, without extension, that were read from one of them."""
    errors: int = 0
    """Errors of these files, which are in the log and no reason to refuse the rest."""
    fatal: int = 0
    """Those of them that concern more than a row."""


def read_good_files(source: Source, log: Log, read: Callable[[Log], Dataset]) -> tuple[Dataset, LeftOut]:
    """Read a source without the files that have a fault of more than a row.

    Returns the dataset and what was left out. The source is changed: it no longer lists these files. Images
    that are left with nothing but their image file are dropped, too.

    `read` reads the source as it is now and reports to the log that it is given. `log` takes the faults of
    the files that are left out, and all that the rest has. Raises DataError if no file or no image is left.
    """
    left_out, file_log = LeftOut(), log.fresh(keep=EVERY)
    source.report_links(file_log)
    _leave_out(source, {path for path, *_ in source.bad_links}, left_out)
    for _ in range(ROUNDS):  # a file that is left out may uncover a fault of another
        if not source.files:
            log.extend(file_log)
            raise _build_refusal(source, left_out, log)
        source_log = log.fresh(keep=EVERY)
        dataset = read(source_log)
        # A source that is one file and names others has an inner source, once it is read, which lists these.
        files = source.inner or source
        bad_files = _find_faulty_files(source_log, files)
        if not bad_files:
            break
        for issue in source_log:
            if issue.path in bad_files:
                file_log.take_over(issue)
        left_out.images |= {
            stem(name)
            for name, file in zip(dataset.images.name, dataset.images.file.tolist(), strict=True)
            if file >= 0 and dataset.files[file].path in bad_files
        }
        _leave_out(files, set(bad_files.values()), left_out)

    # The faults of the files, then those of the last round, which are of what is left.
    left_out.errors, left_out.fatal = file_log.errors, file_log.fatal
    log.extend(file_log)
    log.extend(source_log)
    if left_out.files:
        # An image that is now known only by its image file has lost its annotations: drop it too.
        names = [stem(name).rpartition("/")[2] in left_out.stems for name in dataset.images.name]
        is_bare: NDArray[np.bool_] = np.array(names, bool) & (dataset.images.file < 0)
        is_bare[dataset.boxes.image] = False
        dataset = drop_images(dataset, is_bare)
        left_out.images -= {stem(name) for name in dataset.images.name}  # those that another file has, too
        if not len(dataset.images):
            raise _build_refusal(source, left_out, log)
    return dataset, left_out


def _build_refusal(source: Source, left_out: LeftOut, log: Log) -> DataError:
    """Return the DataError for a source of which all files have errors."""
    files = plural(len(left_out.files), "file has", "files have")
    text = f"{files} errors, and {spell('skip_bad_files')} leaves no image"
    return DataError(f"{printable(source.path)}: {text}", log)


def drop_left_out(dataset: Dataset, left_out: LeftOut, other_side: Dataset) -> Dataset:
    """Drop the images that were `left_out` of the other side of an evaluation, unless `other_side`, which is
    what was left of it, has them from another file.
    """
    if not left_out.files:
        return dataset
    other_stems = {stem(name) for name in other_side.images.name}
    names = [stem(name) for name in dataset.images.name]
    # `stems` are names of whole files: a format with a file for each image names the image by it.
    is_dropped = [
        name not in other_stems and (name in left_out.images or name.rpartition("/")[2] in left_out.stems)
        for name in names
    ]
    return drop_images(dataset, np.array(is_dropped, bool))


def _find_faulty_files(log: Log, source: Source) -> dict[str, str]:
    """Return the files that have an error of more than a row: path in the log -> name in the source.

    Empty if an error concerns the whole dataset, or a file that describes it, so that none can be left out.
    """
    files = {source.full(file): file for file in source.files if file}  # "": a single file, all of the source
    faulty: dict[str, str] = {}
    for issue in log:
        code = CODES[issue.code]
        if code.severity != "error" or code.row:
            continue
        file = files.get(issue.path)
        if not code.file or file is None or DESCRIBING.fullmatch(file.rpartition("/")[2]):
            return {}
        faulty[issue.path] = file
    return faulty


def _leave_out(source: Source, files: Collection[str], left_out: LeftOut) -> None:
    """Leave files out of a source, with the image files that belong to them, and add them to `left_out`."""
    if files:
        left_out.files += sorted(source.full(file) for file in files)
        names = (file.rpartition("/")[2] for file in files)
        left_out.stems |= {name.rpartition(".")[0] or name for name in names}
        keys_left_out = {_make_pair_key(file) for file in files}
        pictures = (f for f in source.files if stem(f) != f)  # `stem` cuts only the suffix of a picture
        source.leave_out({*files, *(f for f in pictures if _make_pair_key(f) in keys_left_out)})


def _make_pair_key(file: str) -> tuple[str, ...]:
    """Return the parts of a path that an annotation file and its image file share.

    ``train/images/a.jpg`` and ``train/labels/a.txt`` both give ``("train", "a")``.
    """
    parts = file.split("/")
    name = parts.pop()
    kept_folders = (folder for folder in parts if folder.lower() not in _KINDS)
    return (*kept_folders, name.rpartition(".")[0] or name)


_KINDS = frozenset(
    "images labels jpegimages annotations img img1 ann labeltxt gt det image_2 label_2".split()
)
"""Folders of pictures or of annotations, in lower case."""


def drop_images(dataset: Dataset, is_dropped: NDArray[np.bool_]) -> Dataset:
    """Return the dataset without some images, their boxes and their labels."""
    if not is_dropped.any():
        return dataset
    kept_rows = np.flatnonzero(~is_dropped)
    new_row = np.full(len(is_dropped), -1, np.int32)
    new_row[kept_rows] = np.arange(len(kept_rows), dtype=np.int32)
    boxes = dataset.boxes.take(~is_dropped[dataset.boxes.image])
    labels = dataset.labels.take(~is_dropped[dataset.labels.image])
    return replace(
        dataset,
        images=dataset.images.take(kept_rows),
        boxes=replace(boxes, image=freeze(new_row[boxes.image])),
        labels=replace(labels, image=freeze(new_row[labels.image])),
    )
