"""``odm show``."""

from __future__ import annotations

import os
from typing import Any

import click

from odm.cli._common import FormatCommand, format_options, load_source, terminal_log
from odm.cli._messages import print_log
from odm.cli._options import common_options, source_options, switch
from odm.cli._report import pictures_of, report_options, report_target, write_report

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
    from odm.report import dataset_page

    report_target(given, sources=(source,))
    log = terminal_log()
    try:
        loaded, truth = load_source(source, given, log)
    finally:
        print_log(log, given)
    dataset = loaded.dataset
    datasets = [dataset] if truth is None else [dataset, truth()]
    pictures = pictures_of(dataset.images.name, datasets, given)
    page = dataset_page(
        dataset,
        pictures,
        log=log,
        sources=(source,),
        title=given["report_title"],
        images=given["report_images"],
    )
    path = write_report(page, given, (source,))
    if given["open_"]:
        click.launch(os.path.abspath(path))
    return 0
