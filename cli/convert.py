"""``odm convert``."""

from __future__ import annotations

from typing import Any

import click

from odm.cli._common import (
    FormatCommand,
    TargetPath,
    common_options,
    format_choice,
    format_options,
    lines_of_files,
    print_log,
    reading,
    split_names,
    terminal_log,
)
from odm.cli._print import show
from odm.converters import Edits, Ledger, Selection, StrictLoss, convert
from odm.converters.edit import CATEGORY_IDS, parse_renames
from odm.converters.merging import SAME_IMAGE
from odm.issues import UsageError, shorten

EXAMPLES = """
\b
Examples:
  odm convert --from yolo --to txt labels/ out/ --images images/
  odm convert groundtruths/ out/ --to yolo --box ltwh --image-size 200x200
  odm convert annotations.json out/ --to yolo --copy-images --images photos/
  odm convert Annotations/ coco.json --class-list classes.txt
  odm convert out/ back.json --dry-run
  odm convert a.json b.json all/ --to yolo --split-into train:80,val:20
"""


SELECTION = "min_box min_area drop_empty sample split_into folds group_by seed".split()
"""Options that choose and divide, as `Selection` names them."""
SETTINGS = (
    "from_ to kind gt strict skip_bad skip_bad_files keep_groups clip same_image overwrite dry_run".split()
)
"""Options that `convert` takes as they are."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("sources", metavar="SRC...", nargs=-1, type=click.Path())
@click.argument("target", metavar="DST", required=False, type=TargetPath())
@format_choice(
    "--from",
    "from_",
    multiple=True,
    help="Format of SRC, given once or once per SRC; auto-detected if omitted",
)
@format_choice("--to", help="Format of DST; taken from its suffix if omitted")
@click.option("--kind", type=click.Choice(["gt", "det"]), help="Read SRC as ground truth or as detections.")
@click.option("--gt", type=click.Path(), metavar="FILE", help="Ground truth that a results file refers to.")
@click.option("--strict", is_flag=True, help="Write nothing if any data would be lost (exit 1).")
@click.option("--skip-bad", is_flag=True, help="Skip rows with errors instead of failing.")
@click.option(
    "--skip-bad-files",
    is_flag=True,
    help="Skip whole files with errors, and their images; each is named.",
)
@click.option("--keep-groups", is_flag=True, help="Write crowd and group-of boxes as plain boxes.")
@click.option("--clip", is_flag=True, help="Clip boxes to their image.")
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a class, or merge it into another (repeatable); @FILE: one OLD=NEW per line.",
)
@click.option("--drop", multiple=True, metavar="NAME", help="Drop a class and its boxes (repeatable).")
@click.option(
    "--class-list",
    type=click.Path(),
    metavar="FILE",
    help="Write exactly these classes in this order; FILE: one name per line.",
)
@click.option(
    "--category-ids",
    type=click.Choice(CATEGORY_IDS),
    help="Number the classes from 0 or 1; or COCO's 80 classes 0 to 79, or 1 to 90 as in its files.",
)
@click.option("--only-classes", metavar="A,B", help="Keep only these classes.")
@click.option(
    "--same-image",
    type=click.Choice(SAME_IMAGE),
    default="error",
    show_default=True,
    help="If several SRC have the same image: fail, prefix all image names, or join the boxes.",
)
@click.option(
    "--min-box", type=float, default=0, metavar="PIXELS", help="Drop boxes whose shorter side is below this."
)
@click.option("--min-area", type=float, default=0, metavar="PIXELS", help="Drop boxes with a smaller area.")
@click.option("--drop-empty", is_flag=True, help="Drop images without boxes.")
@click.option("--sample", metavar="N|P%", help="Keep a random sample of N images, or P percent.")
@click.option(
    "--split-into",
    metavar="NAME:RATIO,...",
    help="Split the images into parts, balancing the classes: train:80,val:10,test:10.",
)
@click.option("--folds", type=int, metavar="K", help="Split the images into K folds, balancing the classes.")
@click.option(
    "--group-by",
    metavar="video|REGEX",
    help="Keep images in the same split if they are of one video, or if the first group of REGEX matches the "
    "same text in their names.",
)
@click.option("--no-stratify", is_flag=True, help="Split without balancing classes.")
@click.option("--seed", metavar="SEED", help="Seed of --sample, --split-into and --folds. [default: 0]")
@click.option("--overwrite", is_flag=True, help="Replace existing files in DST; others are kept.")
@click.option("--dry-run", is_flag=True, help="Print the summary and write nothing.")
@format_options("from", "to", writing=("", "to"), numbered=True)
@common_options
def command(
    sources: tuple[str, ...],
    target: str | None,
    rename: tuple[str, ...],
    drop: tuple[str, ...],
    only_classes: str | None,
    category_ids: Any,
    class_list: str | None,
    options: dict[str, dict[str, Any]],
    **given: Any,
) -> int:
    """Convert annotations or detections from SRC to DST; several SRC are merged.

    Coordinates are neither shifted nor rounded. The summary at the end accounts for every box.
    """
    if target is None or not sources:  # a single path is taken for DST
        raise click.UsageError("Missing argument 'DST'." if target else "Missing argument 'SRC...'.")
    log = terminal_log()
    lost: Ledger | None = None
    try:
        ledger = convert(
            sources,
            target,
            options=options[""],
            from_options=options["from"],
            source_options=_by_source(options, len(sources)),
            to_options=options["to"],
            edits=Edits(
                only=split_names(only_classes),
                drop=drop,
                rename=parse_renames(lines_of_files(rename)),
                category_ids=category_ids,
                order=_names_of_classes(class_list) if class_list else (),
            ),
            selection=Selection(
                stratify=not given["no_stratify"], **{name: given[name] for name in SELECTION}
            ),
            log=log,
            **{name: given[name] for name in SETTINGS},
            **reading(given),
        )
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


def _names_of_classes(path: str) -> tuple[str, ...]:
    """The lines of a file. UsageError for one whose lines are hardly names."""
    if path.lower().endswith((".yaml", ".yml", ".json")):
        raise UsageError(f"--class-list {shorten(path)}: give a text file with one class name per line")
    return tuple(lines_of_files([f"@{path}"]))
