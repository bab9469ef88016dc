"""``odm.agree``: two annotators of the same images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from msgspec.structs import replace

from odm.converters.pending import SHAPE_WORDS
from odm.evaluate.analysis.agree import IOU, Agreement, share
from odm.evaluate.analysis.agree import agree as agree_boxes
from odm.evaluate.analysis.render_agreement import save_agreement
from odm.files import MAX_SIZE, Output
from odm.issues import Log, UsageError, plural, printable
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, write_report
from odm.verbs.sources import Source, gathered, load_sides, paths_of, verb
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
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
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
    save, report, overwrite
        A folder for the lists as JSON and CSV, a page (``NAME.html``) or a folder for it, and whether they
        may replace what is there.
    report_images, report_size, report_title, language
        At most how many images the page shows, the longest side of each in pixels, its title and language.
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
    log = Log() if log is None else log
    sources = paths_of(first, other)
    found = agreement(first, other, sources, given, log)
    write(found, sources, given, log, log.extend)
    return found


def agreement(
    first: Any, other: Any, sources: Sequence[str], given: Mapping[str, Any], log: Log
) -> Agreement:
    """What two annotators agree on, as the arguments say; targets that cannot be used are refused first."""
    if not 0 < given["iou"] <= 1:
        raise UsageError(f"--iou {given['iou']}: give an IoU above 0 and up to 1, as in 0.5")
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    report_target(given, sources=sources)
    given = {**given, "wants": SHAPE_WORDS} if given["report"] else given  # the page draws shapes
    sides = load_sides(first, other, given, log, names=("a", "b"), kinds=("gt", "gt"))
    a, b, classes, left_out = share(*sides)
    for side, (images, groups) in zip(sides, left_out, strict=True):
        said = f"{printable(side.path)}: left out:"
        if images:
            log.note(f"{said} {plural(images, 'image')} that the other side lacks")
        if groups:
            log.note(f"{said} {plural(groups, 'box')} of crowds or groups")
    found = agree_boxes(a, b, classes, iou=given["iou"])
    return replace(found, sides=((sides[0], a), (sides[1], b)))


def write(
    found: Agreement, sources: Sequence[str], given: Mapping[str, Any], log: Log, print_log: PrintLog
) -> str:
    """Write the files that were asked for, and answer the path of the page."""
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save_agreement(found, output.write)
    if not given["report"]:
        return ""
    from odm.report import agreement_page

    (first, _), (other, _) = found.sides
    page = agreement_page(
        found,
        pictures_of(first.images.name, (first, other), given, print_log),
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    return write_report(page, given, sources, print_log)
