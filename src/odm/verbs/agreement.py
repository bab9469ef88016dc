"""``odm.agree``: two annotators of the same images."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Unpack

from odm.evaluate.analysis.agree import IOU, Agreement, share
from odm.evaluate.analysis.agree import agree as agree_boxes
from odm.evaluate.analysis.render_agreement import save_agreement
from odm.files import MAX_SIZE, Output
from odm.issues import Log, UsageError, printable
from odm.verbs.sources import Source, gathered, load_sides, verb
from odm.verbs.words import AgreeOptions, FormatName, Path


@verb
def agree(
    first: Source,
    other: Source,
    *,
    iou: float = IOU,
    a_format: FormatName | None = None,
    b_format: FormatName | None = None,
    save: Path | None = None,
    overwrite: bool = False,
    skip_bad: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[AgreeOptions],
) -> Agreement:
    """Measure the agreement between two annotators of the same images, as ``odm agree`` does.

    Boxes are paired by IoU regardless of class, then the classes of each pair are compared. Crowd and
    group-of boxes are left out.

    Parameters
    ----------
    first, other
        The annotations of each, as `odm.eval` takes them.
    iou
        Minimum IoU for pairing two boxes.
    save, overwrite
        A folder for the lists as JSON and CSV, and whether files in it may be replaced.
    a_format, b_format, skip_bad, max_size, encoding, follow_links, **options
        How files are read; ``a_...`` and ``b_...`` are for one side only.
    log
        Collects issues and notes.

    Raises
    ------
    DataError, UsageError, PathError
        As `odm.eval`.
    """
    given = gathered(locals(), "agree", "a", "b")
    return agreement(first, other, given, Log() if log is None else log)


def agreement(first: Any, other: Any, given: Mapping[str, Any], log: Log) -> Agreement:
    """What two annotators agree on, as the arguments say."""
    if not 0 < given["iou"] <= 1:
        raise UsageError(f"--iou {given['iou']}: give an IoU above 0 and up to 1, as in 0.5")
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    sides = load_sides(first, other, given, log, names=("a", "b"), kinds=("gt", "gt"))
    a, b, classes, left_out = share(*sides)
    for side, n in zip(sides, left_out, strict=True):
        if n:
            log.note(f"{printable(side.path)}: {n} images that the other side lacks are left out")
    found = agree_boxes(a, b, classes, iou=given["iou"])
    found = dataclasses.replace(found, sides=((sides[0], a), (sides[1], b)))
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save_agreement(found, output.write)
    return found
