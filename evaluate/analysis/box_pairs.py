"""Pairs of boxes of two data sets as columns, for the lists of ``odm agree`` and ``odm diff``."""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.evaluate.analysis.review import places_of
from odm.tables import Dataset, Flag, Longs

OF_BOX = ("class", "left", "top", "right", "bottom", "flags", "file", "line")


def flag_words(flags: int) -> str:
    """The names of some flags, separated by spaces: ``difficult occluded``."""
    return " ".join(str(flag.name).lower() for flag in Flag if flags & flag)


def box_columns(dataset: Dataset, rows: Longs, side: str) -> dict[str, list[Any]]:
    """The columns `OF_BOX` of some boxes, each named after its side: ``old_class``, ``old_left``, ...

    `rows` are (n,) rows of the data set, -1 = no box, of which every value is None.
    """
    boxes, absent = dataset.boxes, rows < 0
    own = rows[~absent]
    words = {flags: flag_words(flags) for flags in np.unique(boxes.flags[own]).tolist()}
    given: dict[str, list[Any]] = {
        "class": list(map(dataset.categories.name.__getitem__, boxes.category[own].tolist())),
        **{edge: column.tolist() for edge, column in zip(OF_BOX[1:5], boxes.xyxy[own].T, strict=True)},
        "flags": [words[flags] for flags in boxes.flags[own].tolist()],
    }
    given["file"], given["line"] = ([v or None for v in column] for column in places_of(dataset, own))
    found = {}
    for name, values in given.items():
        column = np.full(len(rows), None, object)
        column[~absent] = values
        found[f"{side}_{name}"] = column.tolist()
    return found
