"""``odm.diff``: two versions of annotations."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from odm.converters.pending import SHAPE_WORDS
from odm.evaluate.analysis.agree import IOU
from odm.evaluate.analysis.diff import TOLERANCE, Differences
from odm.evaluate.analysis.diff import diff as diff_boxes
from odm.evaluate.analysis.render_diff import save_differences
from odm.issues import Log, UsageError, spell
from odm.verbs.choosing import ChoiceOptions, choose
from odm.verbs.options import EQUAL, NEW, OLD, OUTPUT, argument, option
from odm.verbs.reports import PrintLog, check_report, check_target, find_pictures, write_files, write_report
from odm.verbs.shared import ReportOptions
from odm.verbs.sources import Source, list_paths, load_sides, verb
from odm.verbs.words import DiffFormatOptions, FormatName, Path


class DiffOptions(ReportOptions, ChoiceOptions, DiffFormatOptions, verb="diff"):
    """The options of `odm.diff`."""

    old: Source = argument(kw_only=False)
    new: Source = argument(kw_only=False)
    iou: float = option(
        "Minimum IoU for pairing an old box with a new one.", "IOU", default=IOU, heading=EQUAL
    )
    tolerance: float = option(
        "Edges that differ by up to PX pixels are equal.", "PX", default=TOLERANCE, heading=EQUAL
    )
    save: Path | None = option(
        "Also write JSON and CSV files to DIR.", "DIR", default=None, heading=OUTPUT, path="written"
    )
    old_format: FormatName | None = option(
        "Format of OLD; auto-detected if omitted.", "FORMAT", default=None, heading=OLD
    )
    new_format: FormatName | None = option(
        "Format of NEW; auto-detected if omitted.", "FORMAT", default=None, heading=NEW
    )
    log: Log | None = None


@verb(DiffOptions)
def diff(options: DiffOptions) -> Differences:
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
    only_images, only_classes
        Names of images and classes to compare.
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
    log = Log() if options.log is None else options.log
    differences = find_differences(options, log)
    write(differences, options, log, log.extend)
    return differences


def find_differences(options: DiffOptions, log: Log) -> Differences:
    """Find the changes from the old version to the new one.

    Raises UsageError or PathError, before anything is read, for a bad option or target.
    """
    if not 0 < options.iou <= 1:
        raise UsageError(f"{spell('iou')} {options.iou}: give an IoU above 0 and up to 1, as in 0.5")
    if not 0 <= options.tolerance < float("inf"):
        raise UsageError(f"{spell('tolerance')} {options.tolerance}: give a number of pixels, 0 or more")
    check_target(options.save, overwrite=options.overwrite)
    check_report(options.report, options, list_paths(options.old, options.new))
    datasets = load_sides(
        options.old,
        options.new,
        (
            options.make_side("old", options.old_format, "gt"),
            options.make_side("new", options.new_format, "gt"),
        ),
        options,
        log,
        wants=SHAPE_WORDS,
        draws=bool(options.report),
    )
    old, new = choose(datasets, options, options.encoding)
    return diff_boxes(old, new, iou=options.iou, tolerance=options.tolerance)


def write(differences: Differences, options: DiffOptions, log: Log, print_log: PrintLog) -> str:
    """Write the files that the options name, and return the path of the page, empty if there is none."""
    write_files(options.save, lambda put: save_differences(differences, put), overwrite=options.overwrite)
    if not options.report:
        return ""
    from odm.report import diff_page

    datasets, sources = (differences.new, differences.old), list_paths(options.old, options.new)
    pictures = find_pictures(differences.names, datasets, options, print_log)
    # The picture of a renamed image may still have the old name: look that up, and show it under the new one.
    without_picture = [i for i in np.flatnonzero(differences.renamed).tolist() if not pictures[i].path]
    old_names = [differences.old.images.name[differences.partner[i]] for i in without_picture]
    for i, picture in zip(
        without_picture, find_pictures(old_names, datasets, options, print_log), strict=True
    ):
        pictures[i] = replace(picture, name=differences.names[i])
    page = diff_page(
        differences,
        pictures,
        log=log,
        sources=sources,
        title=options.report_title,
        images=options.report_images,
    )
    return write_report(page, options.report, options, sources, print_log)
