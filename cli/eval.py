"""``odm eval``."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_annotations, print_failed, print_log, print_notes
from odm.cli._records import GITHUB, MarkdownOptions, MessageOptions, WideOptions
from odm.cli._report import check_markdown, say_written, write_markdown
from odm.cli._streams import get_table_width, say, show
from odm.evaluate import OUTPUTS, Evaluation, render
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.output.render import format_headline
from odm.evaluate.scores.metric_names import find_failures, find_result, parse_gate
from odm.issues import Log, OdmError, UsageError
from odm.verbs.eval_options import EvalOptions
from odm.verbs.evaluation import Job
from odm.verbs.options import GATES, OUTPUT, Options, option

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


class TableOptions(Options, heading=OUTPUT):
    """How the numbers are printed."""

    output: str = option(
        "Output format; github: the table and GitHub Actions annotations.",
        default="table",
        choices=[*OUTPUTS, GITHUB],
    )


class OutputOptions(TableOptions, WideOptions, MarkdownOptions):
    """How the numbers are printed and written, also by compare."""

    @property
    def rendering(self) -> str:
        """The output that the numbers are rendered as."""
        return "table" if self.output == GITHUB else self.output


class EvalCommand(
    OutputOptions,
    EvalOptions,
    MessageOptions,
    common="protocol iou iou_type area only_classes only_images analyze confusion thresholds fail_under "
    "output save plots report gt_format det_format gt_split images",
):
    """The options of ``odm eval``."""

    fail_under: Sequence[str] = option(
        "Exit with 1 if a metric is lower (repeatable): mAP=0.5, AP[person]=0.4.",
        "KEY=BOUND",
        default=(),
        repeatable=True,
        heading=GATES,
    )


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@add_flags(EvalCommand)
def command(options: EvalCommand) -> int:
    """Evaluate the detections DET against the ground truth GT, each in any format."""
    log = make_terminal_log()
    gates = [parse_gate(text) for text in options.fail_under]
    job = Job.from_options(options)
    if options.confusion and options.output == "csv":
        raise UsageError("--confusion cannot be printed as CSV: --save DIR writes it to confusion.csv")
    for gate in gates:  # before anything is read
        find_result(gate.name, job.plan.rules, f"--fail-under {gate}")
    check_markdown(options.markdown, overwrite=options.overwrite)
    try:
        evaluation = job.run(log, functools.partial(_say, options))
    finally:  # before the numbers, which stay in view; what puts them in doubt is never hidden
        print_messages(log, options.output, options)
    job.check_apart()  # that no output replaces an input, before the numbers are shown
    failed, unknown = find_failures(evaluation, gates) if gates else ([], [])
    try:  # before the numbers too, which are the last thing on the screen
        say_written(job.write(evaluation, lambda notes: print_notes(notes, options)), options)
        if options.markdown:
            text = render(evaluation, "markdown")
            write_markdown(options.markdown, text, (*failed, *unknown), overwrite=options.overwrite)
    except OdmError:
        _show(evaluation, options)
        raise
    _show(evaluation, options)
    print_failed(failed, github=options.output == GITHUB)
    for line in unknown:
        say(f"odm: error: {line}")
    if unknown:
        return 2
    return 1 if failed else 0


def _say(options: MessageOptions, text: str) -> None:
    """Print a sentence about the run itself: a warning always, a note unless it is to be quiet."""
    if text.startswith("warning: "):
        say(f"odm: {text}")
    elif not options.quiet:
        say(text)


def _show(evaluation: Evaluation, options: OutputOptions) -> None:
    """Print the numbers; in a table the headline of each result stands out."""
    text = render(evaluation, options.rendering, width=get_table_width(wide=options.wide))
    headlines = {format_headline(result) for result in evaluation.results}
    show(text, headlines=headlines if options.rendering == "table" else ())


def print_messages(log: Log, output: str, options: MessageOptions) -> None:
    """Print the log; what puts the numbers in doubt is never hidden, and is first unless there are errors."""
    if output == GITHUB:
        print_annotations(log, options, first_codes=DOUBTFUL)
        return
    print_log(log, options, first_codes=DOUBTFUL if options.quiet or not log.errors else ())
