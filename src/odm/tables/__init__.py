"""The model that every format is read into and written from: tables of columns.

A `Dataset` holds tables of NumPy columns: images, categories, boxes, and image-level labels.
Rows refer to each other by row number: ``boxes.image`` and ``boxes.category`` are rows of the image and the
category table. Arrays are read-only once built.

Coordinates are pixels with the origin at the image's top left corner, exactly as the source gives them;
nothing is shifted, rounded or clipped on the way in. A dataset can hold wrong boxes: `odm.checks` judges.
"""

from odm.tables.columns import (
    FLAGS,
    FREQUENCIES,
    GROUPS,
    NO_ID,
    Boxes,
    Categories,
    Flag,
    Floats,
    Id,
    ImageLabels,
    Images,
    Ints,
    Kind,
    LabelState,
    Longs,
    SourceFile,
    Tracks,
    Videos,
    distinct,
    first_index_of,
    freeze,
    rows_without,
)
from odm.tables.dataset import Builder, Dataset
from odm.tables.regions import region_classes
from odm.tables.shapes import Keypoints, ShapeKind, ShapeRows, Shapes, keypoints_of

__all__ = [
    "FLAGS",
    "FREQUENCIES",
    "GROUPS",
    "NO_ID",
    "Boxes",
    "Builder",
    "Categories",
    "Dataset",
    "Flag",
    "Floats",
    "Id",
    "ImageLabels",
    "Images",
    "Ints",
    "Keypoints",
    "Kind",
    "LabelState",
    "Longs",
    "ShapeKind",
    "ShapeRows",
    "Shapes",
    "SourceFile",
    "Tracks",
    "Videos",
    "distinct",
    "first_index_of",
    "freeze",
    "keypoints_of",
    "region_classes",
    "rows_without",
]
