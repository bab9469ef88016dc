"""``odm convert``."""

from __future__ import annotations

from typing import Any

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_log
from odm.cli._options import TargetPath
from odm.cli._records import MessageOptions
from odm.cli._streams import show
from odm.converters import Ledger, StrictLoss
from odm.issues import UsageError
from odm.verbs.conversion import ConvertOptions, run

EXAMPLES = """
\b
Examples:
  odm convert --from yolo --to txt labels/ out/ --images images/
  odm convert groundtruths/ out/ --to yolo --box ltwh --image-size 200x200
  odm convert annotations.json out/ --to yolo --copy-images --images photos/
  odm convert Annotations/ coco.json --class-list classes.txt
  odm convert out/ back.json --dry-run
  odm convert a.json b.json all/ --to yolo --split-into train:80,val:20
  odm convert instances.json out/ --to yolo -O task=segment
"""


class ConvertCommand(
    ConvertOptions,
    MessageOptions,
    common="from_ to images image_size classes rename drop class_list clip split_into copy_images skip_bad "
    "overwrite dry_run",
):
    """The options of ``odm convert``."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("source", metavar="SRC...", nargs=-1, type=click.Path())
@click.argument("target", metavar="DST", required=False, type=TargetPath())
@add_flags(ConvertCommand, writing=("", "to"), numbered=True)
def command(options: ConvertCommand) -> int:
    """Convert annotations or detections from SRC to DST; several SRC are merged.

    Coordinates are neither shifted nor rounded. The summary at the end accounts for every box.
    """
    sources: Any = options.source
    if not options.target or not sources:  # a single path is taken for DST
        raise click.UsageError("Missing argument 'DST'." if options.target else "Missing argument 'SRC...'.")
    n_sources, formats = len(sources), options.formats  # -O 2.name=value is an option of the "side" 2
    if excess_side := next((side for side in formats if side.isdigit() and int(side) > n_sources), None):
        sources_there = "is only 1 source" if n_sources == 1 else f"are only {n_sources} sources"
        raise UsageError(f"-O {excess_side}.{next(iter(formats[excess_side]))}: there {sources_there}")
    log = make_terminal_log()
    loss_ledger: Ledger | None = None
    try:
        ledger = run(options, [formats.get(str(i), {}) for i in range(1, n_sources + 1)], log)
    except StrictLoss as e:
        loss_ledger = e.ledger
        raise
    finally:
        print_log(log, options)
        if loss_ledger is not None:  # what would be lost, after the issues and before the error
            show(loss_ledger)
    if options.dry_run or not options.quiet:
        show(ledger)
    return 0
