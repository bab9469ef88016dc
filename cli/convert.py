"""``odm convert``."""

from __future__ import annotations

from typing import Any

import click

from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._messages import print_log
from odm.cli._options import (
    PATH,
    TargetPath,
    choice,
    common_options,
    format_choice,
    gt_option,
    kind_option,
    option,
    skip_bad_files_option,
    skip_bad_option,
    switch,
)
from odm.cli._print import show
from odm.converters import Ledger, StrictLoss
from odm.converters.edit import CATEGORY_IDS
from odm.converters.merging import SAME_IMAGE
from odm.converters.shapes import AS_SHAPES
from odm.issues import UsageError
from odm.verbs.conversion import converted

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


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("sources", metavar="SRC...", nargs=-1, type=click.Path())
@click.argument("target", metavar="DST", required=False, type=TargetPath())
@format_choice("--from", "SRC, given once or once per SRC; auto-detected if omitted", "from_", multiple=True)
@format_choice("--to", "DST; taken from its suffix if omitted")
@kind_option
@gt_option
@switch("--strict", "Write nothing if any data would be lost (exit 1).")
@skip_bad_option
@skip_bad_files_option
@switch("--keep-groups", "Write crowd and group-of boxes as plain boxes.")
@switch("--clip", "Clip boxes and outlines to their image.")
@choice(
    "--shapes",
    AS_SHAPES,
    "Write outlines, masks and oriented boxes as this kind if DST can hold it. [default: as they are]",
)
@option(
    "--rename OLD=NEW",
    "Rename a class, or merge it into another (repeatable); @FILE: one OLD=NEW per line.",
    multiple=True,
)
@option("--drop NAME", "Drop a class and its boxes (repeatable).", multiple=True)
@option("--class-list FILE", "Write exactly these classes in this order; FILE: one name per line.", of=PATH)
@choice(
    "--category-ids",
    CATEGORY_IDS,
    "Number the classes from 0 or 1; or COCO's 80 classes 0 to 79, or 1 to 90 as in its files.",
)
@option("--only-classes A,B", "Keep only these classes.")
@choice(
    "--same-image",
    SAME_IMAGE,
    "If several SRC have the same image: fail, prefix all image names, or join the boxes.",
    default="error",
)
@option(
    "--min-box PIXELS",
    "Drop boxes whose shorter side is below this.",
    of=float,
    default=0,
    show_default=False,
)
@option("--min-area PIXELS", "Drop boxes with a smaller area.", of=float, default=0, show_default=False)
@switch("--drop-empty", "Drop images without boxes.")
@option("--sample N|P%", "Keep a random sample of N images, or P percent.")
@option(
    "--split-into NAME:RATIO,...",
    "Split the images into parts, balancing the classes: train:80,val:10,test:10.",
)
@option("--folds K", "Split the images into K folds, balancing the classes.", of=int)
@option(
    "--group-by video|REGEX",
    "Keep images in the same split if they are of one video, or if the first group of REGEX matches the "
    "same text in their names.",
)
@switch("--no-stratify", "Split without balancing classes.")
@option("--seed SEED", "Seed of --sample, --split-into and --folds. [default: 0]")
@switch("--overwrite", "Replace existing files in DST; others are kept.")
@switch("--dry-run", "Print the summary and write nothing.")
@format_options("from", "to", writing=("", "to"), numbered=True)
@common_options
def command(sources: tuple[str, ...], target: str | None, **given: Any) -> int:
    """Convert annotations or detections from SRC to DST; several SRC are merged.

    Coordinates are neither shifted nor rounded. The summary at the end accounts for every box.
    """
    if target is None or not sources:  # a single path is taken for DST
        raise click.UsageError("Missing argument 'DST'." if target else "Missing argument 'SRC...'.")
    log = terminal_log()
    lost: Ledger | None = None
    try:
        by_source = _by_source(given["options"], len(sources))
        ledger = converted(list(sources), target, {**given, "source_options": by_source}, log)
    except StrictLoss as e:
        lost = e.ledger
        raise
    finally:
        print_log(log, given)
        if lost is not None:
            show(lost)
    if not given["quiet"]:
        show(ledger)
    return 0


def _by_source(options: dict[str, dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The options that were given with the number of a source."""
    for side, own in options.items():
        if side.isdigit() and int(side) > n:
            name = next(iter(own))
            raise UsageError(
                f"-O {side}.{name}: there {'is only 1 source' if n == 1 else f'are only {n} sources'}"
            )
    return [options.get(str(i), {}) for i in range(1, n + 1)]
