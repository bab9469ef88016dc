"""``odm agree``."""

from __future__ import annotations

import functools

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_log, print_notes
from odm.cli._records import MessageOptions, WideOptions
from odm.cli._report import say_written
from odm.cli._streams import get_table_width, show
from odm.evaluate import OUTPUTS
from odm.evaluate.analysis.render_agreement import render_agreement
from odm.verbs.agreement import AgreeOptions, measure, write
from odm.verbs.options import OUTPUT, Options, option

EXAMPLES = """
\b
Examples:
  odm agree alice/ bob/
  odm agree first.json second.json --iou 0.7 --output json
  odm agree alice/ bob/ --images photos/ --report agreement.html
"""


class OutputOptions(Options, heading=OUTPUT):
    """How the result is printed."""

    output: str = option("Output format.", default="table", choices=OUTPUTS)


class AgreeCommand(
    OutputOptions,
    WideOptions,
    AgreeOptions,
    MessageOptions,
    common="iou output save report images a_format b_format",
):
    """The options of ``odm agree``."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("other", metavar="B", type=click.Path())
@add_flags(AgreeCommand)
def command(options: AgreeCommand) -> int:
    """Measure the agreement between two annotators, A and B, of the same images.

    Boxes are paired by IoU regardless of class, then the classes of each pair are compared. Crowd and
    group-of boxes are left out.
    """
    log = make_terminal_log()
    try:
        agreement = measure(options, log)
    finally:
        print_log(log, options)
    try:
        notes = functools.partial(print_notes, options=options)
        say_written(write(agreement, options, log, notes), options)
    finally:  # the numbers are the last thing on the screen
        show(render_agreement(agreement, options.output, width=get_table_width(wide=options.wide)))
    return 0
