"""Read the lists of WIDER FACE: which faces of each image count as easy, medium and hard."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any

from odm.issues import Log, UsageError, printable, spell
from odm.names import stem

Levels = Mapping[str, Mapping[str, frozenset[int]]]
"""For each level, and `key_of` an image, the numbers (from 1) of the faces that count there."""

LEVELS = ("easy", "medium", "hard")


def read_levels(folder: str | None, dataset_folder: str, log: Log) -> Levels | None:
    """Read the lists in `folder`, or without one in the folder of the dataset or its ``ground_truth``.

    Returns None if the dataset has no lists, or, with a note, without SciPy. Raises UsageError if a list in
    `folder` is missing or is not such a list, or if SciPy is not installed to read it.
    """
    folders = [dataset_folder, os.path.join(dataset_folder, "ground_truth")] if folder is None else [folder]
    names = [f"wider_{level}_val.mat" for level in LEVELS]
    complete_folders = [
        candidate
        for candidate in folders
        if all(os.path.isfile(os.path.join(candidate, name)) for name in names)
    ]
    if not complete_folders:
        if folder is not None:
            raise UsageError(
                f"{spell('lists')} {printable(folder)}: expected a folder with {', '.join(names)}"
            )
        return None
    if importlib.util.find_spec("scipy") is None:
        if folder is not None:
            raise UsageError(f"{spell('lists')} needs SciPy, which reads .mat files: pip install scipy")
        log.note(
            f"{printable(complete_folders[0])}: "
            "the lists of easy, medium and hard faces need SciPy (pip install scipy)"
        )
        return None
    paths = [os.path.join(complete_folders[0], name) for name in names]
    return {level: _read_list(path) for level, path in zip(LEVELS, paths, strict=True)}


def key_of(image: str) -> str:
    """The name of an image with its last folder and without extension."""
    return stem("/".join(image.split("/")[-2:]))


def check_levels(levels: Levels, images: Sequence[str], path: str) -> None:
    """Raise UsageError if the lists name none of the images."""
    listed = set().union(*levels.values())
    if images and not any(key_of(name) in listed for name in images):
        raise UsageError(
            f"{printable(path)}: the lists of easy, medium and hard faces name none of its images"
        )


def _read_list(path: str) -> dict[str, frozenset[int]]:
    """Read the list of one level: the numbers of the faces that count, by `key_of` their image."""
    from scipy.io import loadmat  # an extra

    try:
        members: dict[str, Any] = loadmat(path, variable_names=("event_list", "file_list", "gt_list"))
        events = [_text(cell) for cell in members["event_list"].ravel()]
        faces_by_image: dict[str, frozenset[int]] = {}
        for event, files, faces in zip(
            events, members["file_list"].ravel(), members["gt_list"].ravel(), strict=True
        ):
            for file, numbers in zip(files.ravel(), faces.ravel(), strict=True):
                faces_by_image[key_of(f"{event}/{_text(file)}.jpg")] = frozenset(map(int, numbers.ravel()))
    except Exception as e:  # noqa: BLE001 -- whatever SciPy raises for files that are none
        expected = "the event_list, file_list and gt_list of WIDER FACE"
        raise UsageError(f"{printable(path)}: expected {expected}, found {type(e).__name__}") from None
    return faces_by_image


def _text(cell: Any) -> str:
    return str(cell.ravel()[0])
