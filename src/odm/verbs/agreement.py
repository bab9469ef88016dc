"""``odm.agree``: two annotators of the same images."""

from __future__ import annotations

from msgspec.structs import replace

from odm.converters.pending import SHAPE_WORDS
from odm.evaluate.analysis.agree import IOU, Agreement, select_shared_boxes
from odm.evaluate.analysis.agree import agree as agree_boxes
from odm.evaluate.analysis.render_agreement import save_agreement
from odm.issues import Log, UsageError, plural, printable, spell
from odm.verbs.options import OUTPUT, PROTOCOL, A, B, argument, option
from odm.verbs.reports import PrintLog, check_report, check_target, find_pictures, write_files, write_report
from odm.verbs.shared import ReportOptions
from odm.verbs.sources import Source, list_paths, load_sides, verb
from odm.verbs.words import AgreeFormatOptions, FormatName, Path


class AgreeOptions(ReportOptions, AgreeFormatOptions, verb="agree"):
    """The options of `odm.agree`."""

    first: Source = argument(kw_only=False)
    other: Source = argument(kw_only=False)
    iou: float = option("Minimum IoU for pairing two boxes.", "IOU", default=IOU, heading=PROTOCOL)
    save: Path | None = option(
        "Also write JSON and CSV files to DIR, with a list of the pairs.",
        "DIR",
        default=None,
        heading=OUTPUT,
        path="written",
    )
    a_format: FormatName | None = option(
        "Format of A; auto-detected if omitted.", "FORMAT", default=None, heading=A
    )
    b_format: FormatName | None = option(
        "Format of B; auto-detected if omitted.", "FORMAT", default=None, heading=B
    )
    log: Log | None = None


@verb(AgreeOptions)
def agree(options: AgreeOptions) -> Agreement:
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
    log = Log() if options.log is None else options.log
    agreement = measure(options, log)
    write(agreement, options, log, log.extend)
    return agreement


def measure(options: AgreeOptions, log: Log) -> Agreement:
    """Measure the agreement of two annotators; notes say how many images and boxes are left out.

    Raises UsageError or PathError, before anything is read, for a bad option or target.
    """
    if not 0 < options.iou <= 1:
        raise UsageError(f"{spell('iou')} {options.iou}: give an IoU above 0 and up to 1, as in 0.5")
    check_target(options.save, overwrite=options.overwrite)
    check_report(options.report, options, list_paths(options.first, options.other))
    datasets = load_sides(
        options.first,
        options.other,
        (options.make_side("a", options.a_format, "gt"), options.make_side("b", options.b_format, "gt")),
        options,
        log,
        wants=SHAPE_WORDS if options.report else frozenset(),  # the page draws shapes
        draws=bool(options.report),
    )
    a, b, classes, left_out = select_shared_boxes(*datasets)  # a and b: the boxes of each side
    for dataset, (n_images, n_groups) in zip(datasets, left_out, strict=True):
        prefix = f"{printable(dataset.path)}: left out:"
        if n_images:
            log.note(f"{prefix} {plural(n_images, 'image')} that the other side lacks")
        if n_groups:
            log.note(f"{prefix} {plural(n_groups, 'box')} of crowds or groups")
    agreement = agree_boxes(a, b, classes, iou=options.iou)
    # The page draws the boxes, which `agree_boxes` does not keep.
    return replace(agreement, sides=((datasets[0], a), (datasets[1], b)))


def write(agreement: Agreement, options: AgreeOptions, log: Log, print_log: PrintLog) -> str:
    """Write the files that the options name, and return the path of the page, empty if there is none."""
    write_files(options.save, lambda put: save_agreement(agreement, put), overwrite=options.overwrite)
    if not options.report:
        return ""
    from odm.report import agreement_page

    (dataset_a, _), (dataset_b, _) = agreement.sides
    sources = list_paths(options.first, options.other)
    page = agreement_page(
        agreement,
        find_pictures(dataset_a.images.name, (dataset_a, dataset_b), options, print_log),
        log=log,
        sources=sources,
        title=options.report_title,
        images=options.report_images,
    )
    return write_report(page, options.report, options, sources, print_log)
