"""The rules that judge tables: one table of them for `convert`, `eval` and `validate`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Log
from odm.tables import Dataset

INVERTED = Code(
    "inverted-box",
    "error",
    "the right or bottom edge lies before the left or top one: {value}",
    "check the box format (corners or width and height)",
    "A box whose edges are the wrong way round has no area, and metrics would silently count it as a miss.",
    row=True,
)


def run(dataset: Dataset, log: Log, *, deep: bool = False, tolerance: float = 0.5) -> NDArray[np.bool_]:
    """Judge a dataset and report to `log`; the (n,) mask of boxes with an error is returned."""
    del deep, tolerance
    xyxy = dataset.boxes.xyxy
    wrong: NDArray[np.bool_] = ~((xyxy[:, 2:] >= xyxy[:, :2]).all(axis=1))
    log.report_rows(INVERTED, dataset, np.nonzero(wrong)[0], lambda row: {"value": str(xyxy[row].tolist())})
    return wrong
