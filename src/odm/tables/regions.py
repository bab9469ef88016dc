"""Regions to ignore (`Flag.REGION`), which concern all classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.tables.columns import Flag
from odm.tables.dataset import Dataset


def region_classes(dataset: Dataset) -> NDArray[np.bool_]:
    """(categories,) the classes of no objects: all their boxes are regions to ignore."""
    category, is_region = dataset.boxes.category, dataset.boxes.has(Flag.REGION)
    n = len(dataset.categories)
    if not is_region.any():
        return np.zeros(n, np.bool_)
    object_classes = np.concatenate([category[~is_region], dataset.labels.category])
    return np.isin(np.arange(n), category[is_region]) & ~np.isin(np.arange(n), object_classes)
