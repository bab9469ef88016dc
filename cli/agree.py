"""``odm agree``."""

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
from odm.evaluate import OUTPUTS
from odm.evaluate.analysis.agree import IOU
from odm.evaluate.analysis.render_agreement import render_agreement
from odm.verbs.agreement import agreement, write

EXAMPLES = """
\b
Examples:
  odm agree alice/ bob/
  odm agree first.json second.json --iou 0.7 --output json
  odm agree alice/ bob/ --images photos/ --report agreement.html
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("other", metavar="B", type=click.Path())
@option("--iou IOU", "Minimum IoU for pairing two boxes.", of=float, default=IOU)
@choice("--output", OUTPUTS, "Output format.", default="table")
@wide_option
@option("--save DIR", "Also write JSON and CSV files to DIR, with a list of the pairs.", "save_to", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --save and --report.")
@format_choice("--a-format", "A")
@format_choice("--b-format", "B")
@skip_bad_option
@format_options("a", "b")
@common_options
def command(first: str, other: str, **given: Any) -> int:
    """Measure the agreement between two annotators, A and B, of the same images.

    Boxes are paired by IoU regardless of class, then the classes of each pair are compared. Crowd and
    group-of boxes are left out.
    """
    log = terminal_log()
    try:
        found = agreement(first, other, (first, other), {**given, "verb": "agree"}, log)
    finally:
        print_log(log, given)
    try:
        print_notes_of = functools.partial(print_notes, given=given)
        say_written(write(found, (first, other), given, log, print_notes_of), given)
    finally:  # the result is the last thing on the screen
        show(render_agreement(found, given["output"], width=table_width(given)))
    return 0
