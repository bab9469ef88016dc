"""``odm compare``."""

from __future__ import annotations

import functools
from typing import Any

import click

from odm.cli import eval as eval_
from odm.cli._common import FormatCommand, terminal_log
from odm.cli._messages import GITHUB, print_failed, print_notes
from odm.cli._options import PATH, TARGET, ProtocolChoice, option, switch
from odm.cli._print import show, table_width
from odm.cli._report import check_markdown, report_options, say_written, write_markdown
from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS
from odm.evaluate.analysis.bootstrap import LEVEL, REPLICATES
from odm.evaluate.analysis.compare import check_regression_gates, parse_regression_gate, regressions
from odm.evaluate.analysis.render_comparison import headlines, render_comparison
from odm.evaluate.scores.protocols import DEFAULT
from odm.issues import UsageError
from odm.terminal import wrapped
from odm.verbs.comparison import check, compared, tables_of, write

EXAMPLES = """
\b
Examples:
  odm compare groundtruths/ old/ new/
  odm compare instances.json old.json new.json --protocol coco
  odm compare gt/ old/ new/ --tags weather.csv --save comparison/
  odm compare instances.json runs/*/predictions.json --output markdown
  odm compare gt/ old/ new/ --fail-on-regression mAP
  odm compare gt/ old/ new/ --require-no-worse mAP=0.01 --replicates 5000
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("runs", metavar="A B [C...]", type=click.Path(), nargs=-1, required=True)
@option(
    "--protocol NAME",
    f"Evaluation protocol: {', '.join([*PROTOCOLS, *SHAPE_PROTOCOLS])}. [default: {DEFAULT}]",
    of=ProtocolChoice([*PROTOCOLS, *SHAPE_PROTOCOLS]),
)
@option("--iou IOU", "IoU threshold. [default: the protocol's]", of=float)
@option("--replicates N", "Bootstrap replicates.", of=int, default=REPLICATES)
@option("--seed", "Random seed; the same seed gives the same numbers.", of=int, default=0)
@option("--level SHARE", "Coverage of the intervals.", of=float, default=LEVEL)
@switch("--bootstrap-areas", "Also compute intervals for area ranges (slower).")
@option(
    "--tags FILE",
    "CSV of image properties (columns: image, others), or list of images: compare each value separately "
    "(repeatable).",
    of=PATH,
    multiple=True,
)
@option(
    "--fail-on-regression KEY[=M]",
    "Exit with 1 if a run is significantly worse than A by more than M (repeatable).",
    multiple=True,
)
@option(
    "--require-no-worse KEY=M",
    "Exit with 1 unless every run is shown to be no worse than A by M (repeatable).",
    multiple=True,
)
@option("--save DIR", "Also write JSON and CSV files to DIR.", "save_to", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --save and --report.")
@option("--at-score SCORE", "Score threshold for counts per image. [default: that of the best F1]", of=float)
@eval_.SHARED
def command(gt: str, runs: tuple[str, ...], **given: Any) -> int:
    """Compare the detections B, C, ... with A, against the ground truth GT.

    Each difference has a confidence interval, computed by resampling images. In the options below, DET stands
    for each of A, B, C. With more than three runs, each gets
    one line, best first; --wide adds the rest.
    """
    log = terminal_log()
    given |= {
        "verb": "compare",
        "protocol": [] if given["protocol"] is None else [given["protocol"]],
        "iou": [] if given["iou"] is None else [given["iou"]],
    }
    gates = [parse_regression_gate(text, proven=True) for text in given["fail_on_regression"]]
    gates += [parse_regression_gate(text, proven=False) for text in given["require_no_worse"]]
    named = dict(zip(runs, runs, strict=True))
    rules = check(gt, named, given)
    check_regression_gates(gates, rules, bootstrap_areas=given["bootstrap_areas"])
    if len(runs) < 2:
        raise UsageError("compare needs the detections of at least two runs: odm compare GT A B")
    if len(named) < len(runs):
        raise UsageError("a run is given twice, and comparing a run with itself shows no difference")
    check_markdown(given)
    try:
        tables, evaluations, slices = tables_of(gt, named, given, log)
    finally:
        eval_.print_messages(log, given)
    comparison = compared(tables, slices, given, log)
    try:
        notes = functools.partial(print_notes, given=given)
        say_written(write(comparison, evaluations, (gt, *runs), given, log, notes), given)
    finally:  # the numbers are the last thing on the screen
        form = eval_.printed_as(given)
        width = table_width(given)
        bold = "\n".join(wrapped(line, width, "  ") for line in headlines(comparison, wide=given["wide"]))
        lines = bold.split("\n") if form == "table" else ()
        show(render_comparison(comparison, form, width=width), headlines=lines)
    failed = regressions(comparison, gates)
    print_failed(failed, github=given["output"] == GITHUB)
    if given["markdown"]:
        write_markdown(render_comparison(comparison, "markdown", width=table_width(given)), failed, given)
    return 1 if failed else 0
