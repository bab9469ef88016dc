"""``odm eval``."""

from __future__ import annotations

from typing import Any

import click

from odm.cli._common import common_options, format_choice, format_options, print_log, reading, terminal_log
from odm.converters import Request, load_pair
from odm.evaluate import PROTOCOLS, evaluate, render
from odm.tables import Kind

EXAMPLES = """
\b
Examples:
  odm eval groundtruths/ detections/ --iou 0.5
  odm eval gt/ det/ --iou 0.3 --protocol voc2012 --protocol voc2007
  odm eval labels/ predictions/ --gt-format yolo --det-box ltwh --images images/
  odm eval instances.json results.json --protocol coco --output json > metrics.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@click.option(
    "--iou",
    type=float,
    multiple=True,
    help="IoU threshold in 0..1; may be repeated. [default: the protocol's]",
)
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    multiple=True,
    default=["voc2012"],
    show_default=True,
    help="Whose rules; may be repeated.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json", "csv", "markdown"]),
    default="table",
    show_default=True,
    help="How results are printed.",
)
@format_choice("--gt-format", help="Format of GT; sniffed if left out")
@format_choice("--det-format", help="Format of DET; sniffed if left out")
@click.option("--skip-bad", is_flag=True, help="Leave out rows with errors instead of refusing the data.")
@format_options("gt", "det")
@common_options
def command(gt: str, det: str, options: dict[str, dict[str, Any]], **given: Any) -> int:
    """Evaluate the detections DET against the ground truth GT, whatever the format of each.

    The options below belong to the formats; --gt-NAME and --det-NAME give one of them to one side only.
    """
    log = terminal_log()
    try:
        sides: tuple[tuple[str, Kind, str], ...] = (("gt", "gt", gt), ("det", "det", det))
        truth, detections = (
            Request(
                path=path,
                format=given[f"{side}_format"],
                options=options[side],
                shared=options[""],
                kind=kind,
                flag=f"--{side}-format",
                **reading(given),
            )
            for side, kind, path in sides
        )
        loaded = load_pair(truth, detections, log, skip_bad=given["skip_bad"])
        evaluation = evaluate(
            loaded[0].dataset,
            loaded[1].dataset,
            list(dict.fromkeys(given["protocol"])),
            iou=list(dict.fromkeys(given["iou"])) or None,
            log=log,
        )
    finally:
        print_log(log, quiet=given["quiet"], limit=given["max_errors"])
    click.echo(render(evaluation, given["output"]), nl=False)
    return 0
