"""``odm compare``."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_failed, print_notes
from odm.cli._records import GITHUB, MessageOptions
from odm.cli._report import check_markdown, say_written, write_markdown
from odm.cli._streams import get_table_width, show
from odm.cli.eval import OutputOptions, print_messages
from odm.evaluate.analysis.compare import check_regression_gates, find_regressions, parse_regression_gate
from odm.evaluate.analysis.render_comparison import make_headlines, render_comparison
from odm.terminal import wrap_line
from odm.verbs.comparison import CompareOptions, compare_runs, evaluate_runs, name_runs, plan_runs, write
from odm.verbs.options import GATES, option
from odm.verbs.sources import list_paths

EXAMPLES = """
\b
Examples:
  odm compare groundtruths/ old/ new/
  odm compare instances.json old.json new.json --protocol coco
  odm compare gt/ old/ new/ --tags weather.csv --save comparison/
  odm compare instances.json experiments/ --output markdown
  odm compare gt/ old/ new/ --fail-on-regression mAP
  odm compare gt/ old/ new/ --require-no-worse mAP=0.01 --replicates 5000
"""


class CompareCommand(
    OutputOptions,
    CompareOptions,
    MessageOptions,
    common="protocol iou tags fail_on_regression require_no_worse output save report gt_format det_format "
    "images",
):
    """The options of ``odm compare``."""

    fail_on_regression: Sequence[str] = option(
        "Exit with 1 if a run is significantly worse than A by more than M (repeatable).",
        "KEY[=M]",
        default=(),
        repeatable=True,
        heading=GATES,
    )
    require_no_worse: Sequence[str] = option(
        "Exit with 1 unless every run is shown to be no worse than A by M (repeatable).",
        "KEY=M",
        default=(),
        repeatable=True,
        heading=GATES,
    )


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("runs", metavar="A B [C...]", type=click.Path(), nargs=-1, required=True)
@add_flags(CompareCommand)
def command(options: CompareCommand) -> int:
    """Compare the detections B, C, ... with A, against the ground truth GT.

    Each difference has a confidence interval, computed by resampling images. Alone, A is a folder with a
    file or a folder for each run. In the options below, DET stands for each of A, B, C. Three runs or more
    are ranked, best first; of more than three, --wide shows the differences too.
    """
    log = make_terminal_log()
    by_name = name_runs(options.runs)
    # `proven` gates fail if a loss is proven, the others unless it is ruled out.
    gates = [parse_regression_gate(text, proven=True) for text in options.fail_on_regression]
    gates += [parse_regression_gate(text, proven=False) for text in options.require_no_worse]
    plan = plan_runs(options, by_name)
    # `plan_runs` allows only one protocol and IoU.
    check_regression_gates(gates, plan.rules[0], bootstrap_areas=options.bootstrap_areas)
    check_markdown(options.markdown, overwrite=options.overwrite)
    try:
        tables, evaluations, slices = evaluate_runs(options, plan, by_name, log)
    finally:
        print_messages(log, options.output, options)
    comparison = compare_runs(tables, slices, options, log)
    width = get_table_width(wide=options.wide)
    try:
        notes = functools.partial(print_notes, options=options)
        paths = list_paths(options.gt, *by_name.values())
        say_written(write(comparison, evaluations, paths, options, log, notes), options)
    finally:  # the numbers are the last thing on the screen
        headline_text = "\n".join(
            wrap_line(line, width, "  ") for line in make_headlines(comparison, wide=options.wide)
        )
        headlines = headline_text.split("\n") if options.rendering == "table" else ()
        show(render_comparison(comparison, options.rendering, width=width), headlines=headlines)
    failed = find_regressions(comparison, gates)
    print_failed(failed, github=options.output == GITHUB)
    if options.markdown:
        text = render_comparison(comparison, "markdown", width=width)
        write_markdown(options.markdown, text, failed, overwrite=options.overwrite)
    return 1 if failed else 0
