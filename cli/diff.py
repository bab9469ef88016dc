"""``odm diff``."""

from __future__ import annotations

import functools

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_log, print_notes
from odm.cli._records import MessageOptions, WideOptions
from odm.cli._report import say_written
from odm.cli._streams import get_table_width, show
from odm.evaluate.analysis.render_diff import OUTPUTS, render_differences
from odm.terminal import wrap_line
from odm.verbs.differences import DiffOptions, find_differences, write
from odm.verbs.options import GATES, OUTPUT, Options, option

EXAMPLES = """
\b
Examples:
  odm diff old.json new.json
  odm diff labels-v1/ labels-v2/ --images photos/ --report changes.html
  odm diff before.json after.json --output csv > changes.csv
  odm diff main.json branch.json --fail-on-change
"""


class OutputOptions(Options, heading=OUTPUT):
    """How the result is printed, and whether a change fails."""

    output: str = option("Output format.", default="text", choices=OUTPUTS)
    fail_on_change: bool = option("Exit with 1 if anything changed.", default=False, heading=GATES)


class DiffCommand(
    OutputOptions,
    WideOptions,
    DiffOptions,
    MessageOptions,
    common="iou tolerance fail_on_change output save report images old_format new_format",
):
    """The options of ``odm diff``."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("old", metavar="OLD", type=click.Path())
@click.argument("new", metavar="NEW", type=click.Path())
@add_flags(DiffCommand)
def command(options: DiffCommand) -> int:
    """List what changed between two versions of annotations, OLD and NEW.

    Images are paired by name. In images that both versions have, boxes may have been added, removed,
    moved, or given another class (relabelled), other flags or another shape.
    """
    log = make_terminal_log()
    try:
        differences = find_differences(options, log)
    finally:
        print_log(log, options)
    try:
        notes = functools.partial(print_notes, options=options)
        say_written(write(differences, options, log, notes), options)
    finally:  # the verdict is the last thing on the screen
        width = get_table_width(wide=options.wide)
        verdict = wrap_line(differences.verdict, width, "  ").split("\n")
        show(render_differences(differences, options.output, width=width), headlines=verdict)
    return 1 if options.fail_on_change and not differences.equal else 0
