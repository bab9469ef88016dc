"""How many detections fit into a given amount of memory."""

from __future__ import annotations

import re

from odm.issues import UsageError
from odm.tables import Dataset

BYTES_PER_ROW = 250
"""What a detection takes while it is matched, measured."""
BASE = 300 * 2**20
"""What a process takes with its libraries, and with what is known of all parts."""
BYTES_PER_TRUTH, BYTES_PER_IMAGE = 400, 300
FEWEST_ROWS = 20_000


def rows_within(memory: int, truth: Dataset) -> int:
    """How many detections fit into `memory` bytes at a time, beside the ground truth."""
    held = held_beside(truth)
    rows = (memory - held) // BYTES_PER_ROW
    if rows < FEWEST_ROWS:
        least = held + FEWEST_ROWS * BYTES_PER_ROW
        raise UsageError(
            f"--memory {size(memory)} is too little: give at least {-(-least // 10**6)} MB; {size(BASE)} "
            "of that is for Python and its libraries, the rest for the ground truth and some detections"
        )
    return rows


def held_beside(truth: Dataset) -> int:
    """What the main process takes beside the detections of a task."""
    return BASE + len(truth) * BYTES_PER_TRUTH + len(truth.images) * BYTES_PER_IMAGE


def parse_memory(text: str) -> int:
    """Bytes in ``2GB``, ``500MB`` or ``1.5GiB``. ValueError if it is none of these."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT])(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError("give a number with a unit, as in 2GB or 500MB")
    unit = 1024 if match[3] else 1000
    return int(float(match[1]) * unit ** ("KMGT".index(match[2].upper()) + 1))


def size(n: int) -> str:
    """A number of bytes, as people write it."""
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB"
