"""What the modules of MOTChallenge share: its classes, the options, and the kind that a name says."""

from __future__ import annotations

import dataclasses

from odm.formats._contract import option
from odm.formats._shared.class_lists import class_list_option
from odm.formats._shared.pictures import ImageOptions
from odm.tables import Kind

CLASSES = (
    *("", "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle"),
    *(
        "static person",
        "distractor",
        "occluder",
        "occluder on the ground",
        "occluder full",
        "reflection",
        "crowd",
    ),
)
NO_IMAGE = "-"
"""Placeholder in ``images.txt`` for a frame without an image."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MotOptions(ImageOptions):
    """What the numbers of the classes mean."""

    classes: str | None = class_list_option("file with the class names from 1, one per line, or a data.yaml")
    first_frame: str = option(
        "1", "number to give to the frame that files call 1", choices=("1", "0"), side="read"
    )


def kind_by_name(path: str) -> Kind | None:
    """The kind according to the name of a file or of its folder."""
    parts = path.replace("\\", "/").lower().split("/")[-2:]
    for kind in ("gt", "det"):
        if parts[-1] == f"{kind}.txt" or (len(parts) > 1 and parts[0] == kind and parts[-1].endswith(".txt")):
            return "gt" if kind == "gt" else "det"
    return None
