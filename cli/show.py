"""``odm show``."""

from __future__ import annotations

import os
from typing import Any

import click

from odm.cli._common import (
    FormatCommand,
    common_options,
    format_choice,
    format_options,
    print_log,
    reading,
    terminal_log,
)
from odm.cli._report import pictures_of, report_options, report_target, write_report
from odm.converters import Request, load, reference

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
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
@click.option("--overwrite", is_flag=True, help="Replace existing files of the page.")
@format_choice("--format", "format_", help="Format of SRC; auto-detected if omitted")
@click.option("--kind", type=click.Choice(["gt", "det"]), help="Read SRC as ground truth or as detections.")
@click.option("--gt", type=click.Path(), metavar="FILE", help="Ground truth that a results file refers to.")
@click.option("--skip-bad", is_flag=True, help="Skip rows with errors instead of failing.")
@format_options()
@common_options
def command(source: str, options: dict[str, dict[str, Any]], **given: Any) -> int:
    """Write an HTML page with the boxes of SRC, annotations or detections, drawn on their images.

    The page works offline. Give the image folder with --images.
    """
    from odm.report import dataset_page

    report_target(given, sources=(source,))
    log = terminal_log()
    own = dict(options[""])
    request = Request(path=source, format=given["format_"], kind=given["kind"], options=own, **reading(given))
    try:
        other = reference(given["gt"], log)
        loaded = load(request, log, skip_bad=given["skip_bad"], counterpart=other, spare=("images",))
    finally:
        print_log(log, given)
    dataset = loaded.dataset
    others = [other()] if other is not None else []
    pictures = pictures_of(dataset.images.name, [dataset, *filter(None, others)], [own], given)
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
