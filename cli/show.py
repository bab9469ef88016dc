"""``odm show``."""

from __future__ import annotations

import functools
import os

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_log, print_notes
from odm.cli._records import MessageOptions
from odm.cli._report import say_written
from odm.cli._streams import say
from odm.verbs.options import OUTPUT, option
from odm.verbs.reports import check_report, write_report
from odm.verbs.shared import PAGE_HELP
from odm.verbs.showing import ShowOptions, load_shown, make_page
from odm.verbs.sources import list_paths
from odm.verbs.words import Path

EXAMPLES = """
\b
Examples:
  odm show annotations.json --images photos/ --out gallery.html
  odm show labels/ --images photos/ --out gallery/ --open
  odm show results.json --gt instances.json --images photos/ --out run.html
"""


class ShowCommand(ShowOptions, MessageOptions, common="out images report_images open_ overwrite format gt"):
    """The options of ``odm show``."""

    out: Path | None = option(PAGE_HELP, "FILE|DIR", default=None, path="written", required=True)
    open_: bool = option("Open the page in a browser.", default=False, heading=OUTPUT, after="language")


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("source", metavar="SRC", type=click.Path())
@add_flags(ShowCommand)
def command(options: ShowCommand) -> int:
    """Write an HTML page with the boxes of SRC, annotations or detections, drawn on their images.

    The page works offline. Give the image folder with --images.
    """
    from odm.report import what_images_have

    sources = list_paths(options.source)
    check_report(options.out, options, sources)
    log = make_terminal_log()
    try:
        dataset, sides = load_shown(options, log)
    finally:
        print_log(log, options)
    notes = functools.partial(print_notes, options=options)
    page = make_page(dataset, sides, options, log, notes)
    path = write_report(page, options.out, options, sources, notes)
    if not options.quiet:
        say(what_images_have(page))
    say_written(path, options)
    if options.open_:
        click.launch(os.path.abspath(path))
    return 0
