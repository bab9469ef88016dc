"""The splits of a dataset, such as ``train`` and ``val``: the option that selects one of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable

from odm.codes import report_unknown_split
from odm.files import Output, Source
from odm.formats._contract import option
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log
from odm.tables import Dataset

SPLITS = frozenset({"train", "val", "valid", "validation", "test", "dev", "minival", "trainval"})
"""Names of folders and files that name a split, in lower case."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SplitOptions(ImageOptions):
    """Options of a format whose images have splits."""

    split: str | None = option(None, "read only this split", flag="--split", side="read")


def report_missing_split(split: str | None, splits: Iterable[str], source: Source, log: Log) -> bool:
    """Report a requested `split` that is not among `splits`; return whether it is missing."""
    names = set(splits)
    if split is None or split in names:
        return False
    report_unknown_split(log, source.path, split, names)
    return True


def select_split(
    files: list[str], split_of: Callable[[str], str], requested: str | None, source: Source, log: Log
) -> list[str]:
    """The files of the split `requested`, all if None; none, and an issue, if there is no such split."""
    if requested is None:
        return files
    splits = [split_of(file) for file in files]
    if files:  # a source without files has an issue already
        report_missing_split(requested, splits, source, log)
    return [file for file, split in zip(files, splits, strict=True) if split == requested]


def list_split_files(dataset: Dataset, name: Callable[[str], str]) -> dict[str, str]:
    """The file of each split of the images, in their order; one file where they have no splits."""
    return {split: name(split) for split in dict.fromkeys(dataset.images.split) or ("",)}


def write_splits(dataset: Dataset, target: Output, files: dict[str, str], texts: Iterable[str]) -> None:
    """Write the texts of all images, in their order, each into the file of its split."""
    parts: dict[str, list[str]] = {split: [] for split in files}
    for split, text in zip(dataset.images.split, texts, strict=True):
        parts[split].append(text)
    for split, file in files.items():
        target.write(file, "".join(parts[split]).encode())


_IN_NAME = re.compile(r"(?:.*[-_.])?(train|val|valid|validation|test)(?:[-_.].*)?", re.IGNORECASE)
_SAME = {"valid": "val", "validation": "val"}


def normalise_split(name: str | None) -> str | None:
    """Return ``val`` for ``valid`` and ``validation``, and any other name unchanged."""
    return None if name is None else _SAME.get(name.lower(), name)


def parse_split(path: str, *, folder: bool = True) -> str:
    """The split in a file's name, as in ``label_train.txt``, else in that of its folder; "" if in neither.

    Without `folder` only the file's name counts.
    """
    above, _, name = path.rpartition("/")
    match = _IN_NAME.fullmatch(name.rpartition(".")[0])
    if match is None and folder:
        match = _IN_NAME.fullmatch(above.rpartition("/")[2])
    return (normalise_split(match[1].lower()) or "") if match else ""


def find_split(file: str) -> str:
    """The last folder or file name in the path of a JSON file that is exactly that of a split, else ""."""
    parts = file[: -len(".json")].lower().split("/")
    return next((name for name in reversed(parts) if name in SPLITS), "")
