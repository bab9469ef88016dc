"""Whether a plug-in is installed."""

from __future__ import annotations

import contextlib
import os
import sys

from odm import inputs
from odm.files.opening import Unreadable, read_bytes


def names_entry_point(group: str) -> bool:
    """Whether any installed distribution declares entry points of a group.

    The standard library answers the same, in a quarter of the time that the whole program takes to start.
    """
    wanted = f"[{group}]".encode()
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                found = [e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for path in found:
            with contextlib.suppress(Unreadable), inputs.not_gathered():
                if wanted in read_bytes(os.path.join(path, "entry_points.txt")):
                    return True
    return False
