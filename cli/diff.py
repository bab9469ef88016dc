"""``odm diff``."""

from __future__ import annotations

import functools
from typing import Any

import click

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
from odm.evaluate.analysis.agree import IOU
from odm.evaluate.analysis.diff import TOLERANCE
from odm.evaluate.analysis.render_diff import OUTPUTS, render_differences
from odm.terminal import wrapped
from odm.verbs.differences import differences, write

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
@option("--iou IOU", "Minimum IoU for pairing an old box with a new one.", of=float, default=IOU)
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

    Images are paired by name. In images that both versions have, boxes may have been added, removed,
    moved, or given another class (relabelled), other flags or another shape.
    """
    log = terminal_log()
    try:
        found = differences(old, new, (old, new), {**given, "verb": "diff"}, log)
    finally:
        print_log(log, given)
    try:
        print_notes_of = functools.partial(print_notes, given=given)
        say_written(write(found, (old, new), given, log, print_notes_of), given)
    finally:  # the result is the last thing on the screen
        width = table_width(given)
        verdict = wrapped(found.verdict, width, "  ").split("\n")
        show(render_differences(found, given["output"], width=width), headlines=verdict)
    return 1 if given["fail_on_change"] and not found.equal else 0
