"""The rotation of rectangles that CVAT writes as an attribute into formats without oriented boxes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from odm.formats._contract import option
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log, plural, printable, spell_setting


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RotationOptions(ImageOptions):
    """Options of a format into which CVAT writes rotated rectangles."""

    rotation: str = option(
        "cvat",
        "rectangles that CVAT's attribute rotation turns are oriented boxes (cvat), or upright (ignore)",
        choices=("cvat", "ignore"),
        side="read",
    )


def parse_turn(attributes: Mapping[str, Any]) -> float:
    """The radians by which a rectangle is turned clockwise about its centre; 0 if these are not CVAT's."""
    rotation = attributes.get("rotation")
    # CVAT writes the attribute `occluded` beside it.
    if "occluded" not in attributes or isinstance(rotation, bool):
        return 0.0
    try:
        degrees = float(rotation) % 360  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0
    return math.radians(degrees) if math.isfinite(degrees) else 0.0


def note_turned(log: Log, path: str, n: int) -> None:
    """Note how many rectangles are read as oriented boxes, if any are."""
    if n:
        log.note(
            f"{printable(path)}: {plural(n, 'rectangle is', 'rectangles are')} turned by CVAT's attribute "
            f"rotation ({spell_setting('rotation=ignore')} reads upright boxes)"
        )
