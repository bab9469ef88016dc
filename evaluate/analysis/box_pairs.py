"""Columns of the boxes of a dataset, for the lists of pairs of ``odm agree`` and ``odm diff``."""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.evaluate.analysis.review import EDGES, list_places
from odm.tables import Dataset, Flag, Longs

OF_BOX = ("class", *EDGES, "flags", "file", "line")


def flag_words(flags: int) -> str:
    """Return the names of flags, separated by spaces: ``difficult occluded``."""
    return " ".join(str(flag.name).lower() for flag in Flag if flags & flag)


def box_columns(dataset: Dataset, rows: Longs, side: str) -> dict[str, list[Any]]:
    """Return the columns `OF_BOX` of boxes, with the side as prefix: ``old_class``, ``old_left``, ...

    `rows` are (n,) rows of the dataset, -1 = no box, of which every value is None.
    """
    boxes, absent = dataset.boxes, rows < 0
    box_rows = rows[~absent]
    words = {flags: flag_words(flags) for flags in np.unique(boxes.flags[box_rows]).tolist()}
    values_of_box: dict[str, list[Any]] = {
        "class": list(map(dataset.categories.name.__getitem__, boxes.category[box_rows].tolist())),
        **{edge: column.tolist() for edge, column in zip(EDGES, boxes.xyxy[box_rows].T, strict=True)},
        "flags": [words[flags] for flags in boxes.flags[box_rows].tolist()],
    }
    values_of_box["file"], values_of_box["line"] = (
        [v or None for v in column] for column in list_places(dataset, box_rows)
    )
    columns = {}
    for name, values in values_of_box.items():
        column = np.full(len(rows), None, object)
        column[~absent] = values
        columns[f"{side}_{name}"] = column.tolist()
    return columns
