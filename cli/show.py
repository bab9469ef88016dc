"""``odm show``."""

from __future__ import annotations

import functools
import os
from typing import Any

import click

from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._messages import print_log, print_notes
from odm.cli._options import common_options, source_options, switch
from odm.cli._print import say
from odm.cli._report import report_options, say_written
from odm.verbs.reports import report_target, write_report
from odm.verbs.showing import load_shown, page_of

EXAMPLES = """
\b
Examples:
  odm show annotations.json --images photos/ --out gallery.html
  odm show labels/ --images photos/ --out gallery/ --open
  odm show results.json --gt instances.json --images photos/ --out run.html
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("source", metavar="SRC", type=click.Path())
@report_options(name="--out", required=True)
@switch("--open", "Open the page in a browser.", "open_")
@switch("--overwrite", "Replace existing files of the page.")
@source_options
@format_options()
@common_options
def command(source: str, **given: Any) -> int:
    """Write an HTML page with the boxes of SRC, annotations or detections, drawn on their images.

    The page works offline. Give the image folder with --images.
    """
    from odm.report import what_images_have

    given = {**given, "verb": "show"}
    report_target(given, sources=(source,))
    log = terminal_log()
    try:
        dataset, sides = load_shown(source, given, log)
    finally:
        print_log(log, given)
    notes = functools.partial(print_notes, given=given)
    page = page_of(dataset, sides, given, log, notes)
    path = write_report(page, given, (source,), notes)
    if not given["quiet"]:
        say(what_images_have(page))
    say_written(path, given)
    if given["open_"]:
        click.launch(os.path.abspath(path))
    return 0
