"""``odm compare``."""

from __future__ import annotations

from typing import Any

import click

from odm.cli import eval as eval_
from odm.cli._analysis import slices_of
from odm.cli._common import FormatCommand, lines_of_files, terminal_log
from odm.cli._messages import GITHUB, print_failed
from odm.cli._options import PATH, TARGET, ProtocolChoice, option, switch
from odm.cli._print import show, table_width
from odm.cli._report import (
    check_markdown,
    pictures_of,
    report_options,
    report_target,
    write_markdown,
    write_report,
)
from odm.converters import KeptTruth
from odm.converters.edit import parse_renames
from odm.evaluate import PROTOCOLS, Evaluation
from odm.evaluate.analysis.bootstrap import LEVEL, REPLICATES, Resampling
from odm.evaluate.analysis.compare import (
    Comparison,
    Delta,
    check_regression_gates,
    compare,
    parse_regression_gate,
    regressions,
)
from odm.evaluate.analysis.render import headlines, render_comparison, save_comparison
from odm.evaluate.analysis.table import Table, table_of
from odm.evaluate.doubts import DOUBTFUL
from odm.files import Output
from odm.issues import Log, UsageError
from odm.tables import Dataset
from odm.terminal import wrapped

EXAMPLES = """
\b
Examples:
  odm compare groundtruths/ old/ new/
  odm compare instances.json old.json new.json --protocol coco
  odm compare gt/ old/ new/ --tags weather.csv --save comparison/
  odm compare gt/ old/ new/ --fail-on-regression mAP
  odm compare gt/ old/ new/ --require-no-worse mAP=0.01 --replicates 5000
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("runs", metavar="A B [C...]", type=click.Path(), nargs=-1, required=True)
@option(
    "--protocol NAME",
    f"Evaluation protocol: {', '.join(PROTOCOLS)}.",
    of=ProtocolChoice(PROTOCOLS),
    default="voc2012",
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
    for each of A, B, C.
    """
    log = terminal_log()
    given |= {
        "diagnose": False,
        "protocol": [given["protocol"]],
        "iou": [] if given["iou"] is None else [given["iou"]],
    }
    (rules,) = eval_.rules_of(given)
    gates = [parse_regression_gate(text, proven=True) for text in given["fail_on_regression"]]
    gates += [parse_regression_gate(text, proven=False) for text in given["require_no_worse"]]
    check_regression_gates(gates, rules, bootstrap_areas=given["bootstrap_areas"])
    try:
        Resampling(given["replicates"], given["seed"], given["level"]).check()
    except UsageError as e:
        raise UsageError(f"--{e.args[0]}") from None  # a message begins with the name of what is wrong
    if len(runs) < 2:
        raise UsageError("compare needs the detections of at least two runs: odm compare GT A B")
    if len(set(runs)) < len(runs):
        raise UsageError("a run is given twice, and comparing a run with itself shows no difference")
    if given["report"] and len(runs) > 2:
        raise UsageError("--report shows two runs: give only A and B")
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    report_target(given, sources=(gt, *runs))
    check_markdown(given)
    shown: list[tuple[Evaluation, tuple[Dataset, Dataset]]] | None = [] if given["report"] else None
    try:
        tables, truth = _tables(gt, runs, given, log, shown)
        slices = slices_of(given["tags"], tables[runs[0]].images, truth, log)
    finally:
        eval_.print_messages(log, given)
    comparison = compare(
        tables,
        replicates=given["replicates"],
        seed=given["seed"],
        level=given["level"],
        bootstrap_areas=given["bootstrap_areas"],
        at_score=given["at_score"],
        slices=slices,
        track=log.track,
    )
    try:
        if given["save_to"]:
            with Output(given["save_to"], overwrite=given["overwrite"]) as output:
                save_comparison(comparison, output.write)
        if shown is not None:
            _report(comparison, shown, (gt, *runs), given, log)
    finally:  # the numbers are the last thing on the screen
        form = eval_.printed_as(given)
        width = table_width(given)
        bold = "\n".join(wrapped(line, width) for line in headlines(comparison))
        lines = bold.split("\n") if form == "table" else ()
        show(render_comparison(comparison, form, width=width), headlines=lines)
    failed = regressions(comparison, gates)
    print_failed(failed, github=given["output"] == GITHUB)
    if given["markdown"]:
        write_markdown(render_comparison(comparison, "markdown"), failed, given)
    return 1 if failed else 0


def _report(
    comparison: Comparison,
    shown: list[tuple[Evaluation, tuple[Dataset, Dataset]]],
    sources: tuple[str, ...],
    given: dict[str, Any],
    log: Log,
) -> None:
    """Write the page of two runs."""
    from odm.report import ClassDelta, changes_of, compare_page

    (first, sets), (other, _) = shown
    gt = {row.name: row.gt for row in first.result.classes}

    def row_of(delta: Delta) -> ClassDelta:
        name, own = delta.category, delta.interval
        return ClassDelta(
            name or delta.key,
            delta.first,
            delta.other,
            delta.delta,
            own.low,
            own.high,
            own.p if name is None else delta.p_holm,
            None if name is None else gt[name],
            comparison.lower_is_better,
        )

    data = first.result.report_data(), other.result.report_data()
    score = given["at_score"]
    levels = None if score is None else (data[0].level_of(score), data[1].level_of(score))
    changes = changes_of(*data, levels=levels, images=given["report_images"])
    names = [image.name for image in changes.images]
    pictures = dict(zip(names, pictures_of(names, sets, given), strict=True))
    of_all = [d for d in comparison.deltas if d.category is None]
    of_classes = [d for d in comparison.deltas if d.category is not None and d.key == "AP"]
    page = compare_page(
        [row_of(d) for d in of_all],
        [row_of(d) for d in of_classes],
        changes,
        pictures,
        names=(comparison.runs[0].name, comparison.runs[1].name),
        definition=comparison.definition,
        metric=(of_classes or of_all)[0].key,
        sources=sources,
        title=given["report_title"],
        log=log,
        doubtful=DOUBTFUL,
    )
    write_report(page, given, sources)


def _tables(
    gt: str,
    runs: tuple[str, ...],
    given: dict[str, Any],
    log: Log,
    shown: list[tuple[Evaluation, tuple[Dataset, Dataset]]] | None = None,
) -> tuple[dict[str, Table], Dataset | None]:
    """The table of each run by its path, and the ground truth.

    The evaluations and both their sides go into `shown`, if they are wanted.
    """
    renames = parse_renames(lines_of_files(given["rename"]))
    given = {**given, "at_score": None}  # which would be the operating point of the evaluation
    tables: dict[str, Table] = {}
    truth: Dataset | None = None
    kept = KeptTruth()
    for path in runs:
        own = log.fresh()
        try:
            evaluation, datasets = eval_.evaluate_files(gt, path, given, renames, own, kept)
        finally:
            _add_new(log, own)
        tables[path], truth = table_of(evaluation.result), datasets[0]
        if shown is not None:
            shown.append((evaluation, datasets))
    return tables, truth


def _add_new(log: Log, own: Log) -> None:
    """Add what a run had to say to the log, but for what was said before of the same ground truth."""
    seen = set(log.issues)
    repeated = {issue.code for issue in own.issues} - {i.code for i in own.issues if i not in seen}
    for issue in own.issues:
        own.counts[issue.code] -= issue in seen
    for code in repeated:
        own.counts[code] = 0
    own.issues = [issue for issue in own.issues if issue not in seen]
    log.extend(own)
