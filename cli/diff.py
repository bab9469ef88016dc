"""``odm diff``."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import click
import numpy as np

from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._messages import print_log, print_notes
from odm.cli._options import (
    TARGET,
    choice,
    common_options,
    format_choice,
    option,
    skip_bad_option,
    switch,
    wide_option,
)
from odm.cli._print import show, table_width
from odm.cli._report import report_options, say_written
from odm.converters import load_pair
from odm.evaluate.analysis.agree import IOU
from odm.evaluate.analysis.diff import TOLERANCE, Differences, diff
from odm.evaluate.analysis.render_diff import OUTPUTS, render_differences, save_differences
from odm.files import Output
from odm.issues import Log, UsageError
from odm.verbs.reports import pictures_of, report_target, write_report
from odm.verbs.sources import request_of

EXAMPLES = """
\b
Examples:
  odm diff old.json new.json
  odm diff labels-v1/ labels-v2/ --images photos/ --report changes.html
  odm diff before.json after.json --output csv > changes.csv
  odm diff main.json branch.json --fail-on-change
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("old", metavar="OLD", type=click.Path())
@click.argument("new", metavar="NEW", type=click.Path())
@option("--iou IOU", "Minimum IoU of an old box and what became of it.", of=float, default=IOU)
@option("--tolerance PX", "Edges that differ by up to PX pixels are equal.", of=float, default=TOLERANCE)
@switch("--fail-on-change", "Exit with 1 if anything changed.")
@choice("--output", OUTPUTS, "Output format.", default="text")
@wide_option
@option("--save DIR", "Also write JSON and CSV files to DIR.", "save_to", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --save and --report.")
@format_choice("--old-format", "OLD")
@format_choice("--new-format", "NEW")
@skip_bad_option
@format_options("old", "new")
@common_options
def command(old: str, new: str, **given: Any) -> int:
    """List what changed between two versions of annotations, OLD and NEW.

    Images are paired by name. In images of both, boxes are added, removed, moved, of another class
    (relabelled) or with other flags.
    """
    if not 0 < given["iou"] <= 1:
        raise UsageError(f"--iou {given['iou']}: give an IoU above 0 and up to 1, as in 0.5")
    if not 0 <= given["tolerance"] < float("inf"):
        raise UsageError(f"--tolerance {given['tolerance']}: give a number of pixels, 0 or more")
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    report_target(given, sources=(old, new))
    log = terminal_log()
    try:
        of_old, of_new = (request_of(path, given, s, "gt") for s, path in (("old", old), ("new", new)))
        spare = ("images",) if given["report"] else ()
        sides = load_pair(of_old, of_new, log, skip_bad=given["skip_bad"], spare=spare)
        found = diff(sides[0].dataset, sides[1].dataset, iou=given["iou"], tolerance=given["tolerance"])
    finally:
        print_log(log, given)
    try:
        if given["save_to"]:
            with Output(given["save_to"], overwrite=given["overwrite"]) as output:
                save_differences(found, output.write)
        if given["report"]:
            _report(found, (old, new), given, log)
    finally:  # the result is the last thing on the screen
        width = table_width(given)
        show(render_differences(found, given["output"], width=width), headlines=(found.verdict,))
    return 1 if given["fail_on_change"] and not found.equal else 0


def _report(found: Differences, sources: tuple[str, str], given: dict[str, Any], log: Log) -> None:
    from odm.report import diff_page

    sets = found.new, found.old
    tell = functools.partial(print_notes, given=given)
    pictures = pictures_of(found.names, sets, given, tell)
    lacking = [i for i in np.flatnonzero(found.renamed).tolist() if not pictures[i].path]
    under_old = pictures_of([found.old.images.name[found.partner[i]] for i in lacking], sets, given, tell)
    for i, picture in zip(lacking, under_old, strict=True):
        pictures[i] = dataclasses.replace(picture, name=found.names[i])
    page = diff_page(
        found,
        pictures,
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    say_written(write_report(page, given, sources, tell), given)
