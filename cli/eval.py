"""``odm eval``."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, get_args

import click

from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._messages import GITHUB, print_annotations, print_failed, print_log, print_notes
from odm.cli._options import (
    PATH,
    TARGET,
    ProtocolChoice,
    all_of,
    choice,
    common_options,
    complete_list,
    format_choice,
    option,
    skip_bad_files_option,
    skip_bad_option,
    switch,
    wide_option,
)
from odm.cli._print import say, show, table_width
from odm.cli._report import check_markdown, markdown_option, report_options, say_written, write_markdown
from odm.evaluate import OUTPUTS, PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS, Evaluation, render
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.output.render import headline
from odm.evaluate.scores.metric_names import failures, parse_gate, the_one
from odm.evaluate.scores.protocols import DEFAULT, IouType, names_by_field
from odm.issues import Log, OdmError, UsageError, shorten
from odm.verbs.evaluation import Job

EXAMPLES = """
\b
Examples:
  odm eval groundtruths/ detections/ --iou 0.5
  odm eval gt/ det/ --iou 0.3 --protocol voc2012 --protocol voc2007
  odm eval labels/ predictions/ --images photos/ --det-box ltwh
  odm eval instances.json results.json --protocol coco --iou-type segm
  odm eval instances.json results.json --protocol coco --area tiny=0:256
  odm eval gt/ det/ --fail-under mAP=0.5 --fail-under 'AP[person]=0.4'
  odm eval gt/ det/ --save run1/ --plots run1-plots/
  odm eval instances.json results.json --images photos/ --report run.html
  odm eval gt/ det/ --rename 'motor bike=motorbike' --extra-images ignore
"""


def whole_numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> list[int] | None:
    """The whole numbers in ``1,10``. UsageError if the text is anything else."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{parameter.opts[0]} {shorten(text)}: expected whole numbers from 1, as in 1,10,50"
        ) from None


def _analyses() -> Iterable[str]:  # imported when a shell asks
    from odm.evaluate.analysis.analyses import ANALYSES

    return ANALYSES


SHARED = all_of(
    choice(
        "--output",
        [*OUTPUTS, GITHUB],
        "Output format; github: the table and GitHub Actions annotations.",
        default="table",
    ),
    wide_option,
    markdown_option,
    choice("--iou-type", get_args(IouType), "What is compared. [default: the protocol's]"),
    option("--sigmas A,B|FILE", "How far off each key point may be, as in COCO; FILE: one per line."),
    switch("--diagnose", "Try other readings of the files even if the result is good."),
    switch("--class-agnostic", "Ignore classes: treat all boxes as one class."),
    option("--score-min SCORE", "Drop detections with a lower score.", of=float),
    option("--max-dets N", "Keep at most N detections per image and class (lvis: per image).", of=int),
    option(
        "--recall-at K,K",
        "coco: also report average recall of the best K detections per image and class.",
        callback=whole_numbers,
    ),
    option(
        "--area [NAME=]LOW:HIGH",
        "Evaluate only boxes of this area: small, medium, large, or LOW:HIGH in square pixels. "
        "NAME=LOW:HIGH (repeatable): also report AP@NAME and so on.",
        multiple=True,
    ),
    choice("--interpolation", ["all", "11", "101"], "Recall points for AP."),
    choice("--pixels", ["edges", "inclusive"], "Box width: right - left, or right - left + 1."),
    switch("--keep-difficult", "Count difficult objects like any other.", default=None),
    option("--only-classes A,B", "Evaluate only these classes."),
    option("--only-images A,B|@FILE", "Evaluate only these images; @FILE: one name per line."),
    choice(
        "--extra-images",
        ["error", "background", "ignore"],
        "Images that only DET has: an error, background (false positives), or ignored.",
        default="error",
    ),
    option(
        "--rename OLD=NEW", "Rename a class of DET (repeatable); @FILE: one OLD=NEW per line.", multiple=True
    ),
    option(
        "--ignore-regions FILE",
        "Boxes or outlines in any format: what lies in them is no false positive of any class.",
        of=PATH,
    ),
    option("--image-labels FILE", "Image-level labels of Open Images (CSV).", of=PATH),
    switch("--merge-runs", "Pool several results files of the same images in the folder DET."),
    option("--hierarchy FILE", "Class hierarchy of Open Images (JSON).", of=PATH),
    format_choice("--gt-format", "GT"),
    format_choice("--det-format", "DET"),
    option("--gt-encoding NAME", "Encoding of the text files of GT.", default=""),
    option("--det-encoding NAME", "Encoding of the text files of DET.", default=""),
    skip_bad_option,
    skip_bad_files_option,
    format_options("gt", "det"),
    common_options,
)
"""The options of compare, too."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@option("--iou IOU", "IoU threshold (repeatable). [default: the protocol's]", of=float, multiple=True)
@option(
    "--protocol NAME",
    "Evaluation protocol (repeatable). "
    + "".join(f"For {field}: {', '.join(names)}. " for field, names in names_by_field().items())
    + f"For tracks: {', '.join(TUBE_PROTOCOLS)}. [default: {DEFAULT}]",
    of=ProtocolChoice([*PROTOCOLS, *SHAPE_PROTOCOLS, *TUBE_PROTOCOLS]),
    multiple=True,
)
@option("--save DIR", "Also write results.json and CSV files to DIR.", "save_to", of=TARGET)
@option("--plots DIR", "Also draw plots as PNG and SVG (extra [plot]).", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --save, --plots, --report.")
@option(
    "--fail-under KEY=BOUND",
    "Exit with 1 if a metric is lower (repeatable): mAP=0.5, AP[person]=0.4.",
    multiple=True,
)
@option(
    "--analyze A,B|all",
    "Analyse errors: any of tide, lrp, calibration, images, slices.",
    shell_complete=complete_list(_analyses),
)
@choice(
    "--confusion",
    ["counts", "gt", "det"],
    "Confusion matrix: counts (default), or normalised by GT or detected class.",
    is_flag=False,
    flag_value="counts",
)
@switch("--ci", "Add confidence intervals, by resampling images.")
@option("--replicates N", "Bootstrap replicates of --ci.", of=int, default=1000)
@option("--seed N", "Random seed of --ci.", of=int, default=0)
@switch("--bootstrap-areas", "With --ci, also for area ranges (slower).")
@option(
    "--tags FILE",
    "CSV of image properties (columns: image, others), or list of images: slices for --analyze (repeatable).",
    of=PATH,
    multiple=True,
)
@option(
    "--thresholds RULE",
    "Choose a score threshold per class: f1, fbeta:B, precision:P, recall:R, cost:FP:FN, lrp.",
)
@option("--save-thresholds FILE", "Write the thresholds chosen by --thresholds.", of=TARGET)
@option("--at-scores FILE", "Use the thresholds in FILE, written by --save-thresholds.", of=PATH)
@option(
    "--at-score SCORE", "Score threshold for precision, recall, F1. [default: that of the best F1]", of=float
)
@option("--memory SIZE", "Read DET in parts, using about this much memory: 2GB (Parquet and COCO results).")
@option(
    "--cluster ADDRESS", "Process DET on the workers of a Dask scheduler: tcp://host:8786 (extra [cluster])."
)
@option(
    "--scratch DIR",
    "Folder for intermediate files of --memory and --cluster; they are deleted at the end.",
    of=TARGET,
)
@option("--rows-per-task N", "Number of detections per task.", of=click.IntRange(1))
@SHARED
def command(gt: str, det: str, **given: Any) -> int:
    """Evaluate the detections DET against the ground truth GT, each in any format."""
    log = terminal_log()
    gates = [parse_gate(text) for text in given["fail_under"]]
    job = Job.of(gt, det, {**given, "verb": "eval"})
    for gate in gates:  # before anything is read
        the_one(gate.name, job.rules, f"--fail-under {gate}")
    check_markdown(given)
    try:
        evaluation = job.run(log, functools.partial(_say, given))
    finally:  # before the numbers, which stay in view; what puts them in doubt is never hidden
        print_messages(log, given)
    job.check_apart()  # before the numbers
    failed, unknown = failures(evaluation, gates) if gates else ([], [])
    try:  # before the numbers too, which are the last thing on the screen
        say_written(job.write(evaluation, lambda notes: print_notes(notes, given)), given)
        if given["markdown"]:
            write_markdown(render(evaluation, "markdown"), (*failed, *unknown), given)
    except OdmError:
        _show(evaluation, given)
        raise
    _show(evaluation, given)
    print_failed(failed, github=given["output"] == GITHUB)
    for line in unknown:
        say(f"odm: error: {line}")
    return 2 if unknown else 1 if failed else 0


def _say(given: dict[str, Any], text: str) -> None:
    """Print what is said about the run itself: a warning always, a note unless it is to be quiet."""
    if text.startswith("warning: "):
        say(f"odm: {text}")
    elif not given["quiet"]:
        say(text)


def _show(evaluation: Evaluation, given: dict[str, Any]) -> None:
    output = printed_as(given)
    text = render(evaluation, output, width=table_width(given))
    lines = {headline(result) for result in evaluation.results} if output == "table" else set()
    show(text, headlines=lines)


def printed_as(given: dict[str, Any]) -> str:
    """The output that the numbers are rendered as."""
    return "table" if given["output"] == GITHUB else str(given["output"])


def print_messages(log: Log, given: dict[str, Any]) -> None:
    """Print the log; what puts the numbers in doubt comes first and is never hidden."""
    if given["output"] == GITHUB:
        print_annotations(log, given, first=DOUBTFUL)
        return
    print_log(log, given, first=DOUBTFUL if given["quiet"] or not log.errors else ())
