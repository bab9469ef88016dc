"""``odm.diff``: two versions of annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import numpy as np
from msgspec.structs import replace

from odm.converters.pending import SHAPE_WORDS
from odm.evaluate.analysis.agree import IOU
from odm.evaluate.analysis.diff import TOLERANCE, Differences
from odm.evaluate.analysis.diff import diff as diff_boxes
from odm.evaluate.analysis.render_diff import save_differences
from odm.files import MAX_SIZE, Output
from odm.issues import Log, UsageError
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, write_report
from odm.verbs.sources import Source, gathered, load_sides, paths_of, verb
from odm.verbs.words import DiffOptions, FormatName, Path


@verb
def diff(
    old: Source,
    new: Source,
    *,
    iou: float = IOU,
    tolerance: float = TOLERANCE,
    save: Path | None = None,
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    old_format: FormatName | None = None,
    new_format: FormatName | None = None,
    skip_bad: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[DiffOptions],
) -> Differences:
    """List what changed between two versions of annotations, as ``odm diff`` does.

    >>> changes = odm.diff("v1.json", "v2.json")  # doctest: +SKIP
    >>> changes.equal, changes.verdict            # doctest: +SKIP

    Parameters
    ----------
    old, new
        The versions, as `odm.eval` takes annotations.
    iou
        Minimum IoU for pairing an old box with a new one.
    tolerance
        Edges that differ by up to so many pixels are equal.
    save, report, overwrite
        A folder for the lists as JSON and CSV, a page (``NAME.html``) or a folder for it, and whether they
        may replace what is there.
    report_images, report_size, report_title, language
        At most how many images the page shows, the longest side of each in pixels, its title and language.
    old_format, new_format, skip_bad, max_size, encoding, follow_links, **options
        How files are read; ``old_...`` and ``new_...`` are for one side only.
    log
        Collects issues and notes.

    Raises
    ------
    DataError, UsageError, PathError
        As `odm.eval`.
    """
    given = gathered(locals(), "diff", "old", "new")
    log = Log() if log is None else log
    sources = paths_of(old, new)
    found = differences(old, new, sources, given, log)
    write(found, sources, given, log, log.extend)
    return found


def differences(
    old: Any, new: Any, sources: Sequence[str], given: Mapping[str, Any], log: Log
) -> Differences:
    """What changed, as the arguments say; targets that cannot be used are refused before anything is read."""
    if not 0 < given["iou"] <= 1:
        raise UsageError(f"--iou {given['iou']}: give an IoU above 0 and up to 1, as in 0.5")
    if not 0 <= given["tolerance"] < float("inf"):
        raise UsageError(f"--tolerance {given['tolerance']}: give a number of pixels, 0 or more")
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    report_target(given, sources=sources)
    given = {**given, "wants": SHAPE_WORDS}
    sides = load_sides(old, new, given, log, names=("old", "new"), kinds=("gt", "gt"))
    return diff_boxes(*sides, iou=given["iou"], tolerance=given["tolerance"])


def write(
    found: Differences, sources: Sequence[str], given: Mapping[str, Any], log: Log, print_log: PrintLog
) -> str:
    """Write the files that were asked for, and answer the path of the page."""
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save_differences(found, output.write)
    if not given["report"]:
        return ""
    from odm.report import diff_page

    sets = found.new, found.old
    pictures = pictures_of(found.names, sets, given, print_log)
    # The picture of a renamed image may still have the old name.
    lacking = [i for i in np.flatnonzero(found.renamed).tolist() if not pictures[i].path]
    under_old = pictures_of(
        [found.old.images.name[found.partner[i]] for i in lacking], sets, given, print_log
    )
    for i, picture in zip(lacking, under_old, strict=True):
        pictures[i] = replace(picture, name=found.names[i])
    page = diff_page(
        found,
        pictures,
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    return write_report(page, given, sources, print_log)
