"""``odm.compare``: several runs read and evaluated against one ground truth, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from odm.converters import KeptTruth
from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, Evaluation, Protocol
from odm.evaluate.analysis.bootstrap import LEVEL, REPLICATES, Resampling
from odm.evaluate.analysis.compare import Comparison, Delta, find_corrected_p
from odm.evaluate.analysis.compare import compare as compare_tables
from odm.evaluate.analysis.render_comparison import save_comparison
from odm.evaluate.analysis.table import Table, table_of
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.scores.protocols import DEFAULT
from odm.files import Source as Files
from odm.issues import Log, UsageError, first_few, printable, spell
from odm.verbs.analyses import make_slices
from odm.verbs.eval_options import PairOptions
from odm.verbs.evaluation import Plan
from odm.verbs.options import ANALYSIS, OUTPUT, PROTOCOL, argument, option
from odm.verbs.reports import PrintLog, check_report, check_target, find_pictures, write_files, write_report
from odm.verbs.shared import ReportOptions
from odm.verbs.sources import Source, is_path, list_paths, verb
from odm.verbs.words import BoxProtocolName, Path

if TYPE_CHECKING:
    from odm.evaluate.analysis.slices import ImageSlice
    from odm.evaluate.output.report_data import ReportData
    from odm.report import ClassDelta, Page, RunPair

    _RunData = tuple[Evaluation, ReportData]

RESULTS = ".json", ".jsonl", ".csv", ".parquet"
"""What names of files with all detections of a run end with, where a folder holds several runs."""

NAMES_OF_RESULTS = "predictions.json", "coco_instances_results.json", "results.bbox.json", "bbox.json"
"""What trainers call the file of their results, beside files of other kinds."""

KEPT = 4
"""Of at most so many runs the evaluations stay in memory, for a page that may be asked for."""


class CompareOptions(PairOptions, verb="compare"):
    """The options of `odm.compare`."""

    runs: Mapping[str, Source] | Path | Sequence[Path] = argument(kw_only=False)
    protocol: BoxProtocolName | Protocol | None = option(
        f"Evaluation protocol: {', '.join([*PROTOCOLS, *SHAPE_PROTOCOLS])}. [default: {DEFAULT}]",
        "NAME",
        default=None,
        heading=PROTOCOL,
        choices=[*PROTOCOLS, *SHAPE_PROTOCOLS],
        kw_only=False,
    )
    iou: float | str | None = option(
        "IoU threshold: 0.5, 0.5:0.05:0.95, or of classes as car=0.7. [default: the protocol's]",
        "IOU",
        default=None,
        heading=PROTOCOL,
    )
    at_score: float | None = option(
        "Score threshold for counts per image. [default: that of the best F1]", "SCORE", default=None
    )
    diagnose: bool = option(
        "Try other readings of the files even if the result is good.", default=False, heading=ANALYSIS
    )
    replicates: int = option("Bootstrap replicates.", "N", default=REPLICATES, heading=ANALYSIS)
    seed: int = option("Random seed; the same seed gives the same numbers.", default=0, heading=ANALYSIS)
    level: float = option("Coverage of the intervals.", "SHARE", default=LEVEL, heading=ANALYSIS)
    bootstrap_areas: bool = option(
        "Also compute intervals for area ranges (slower).", default=False, heading=ANALYSIS
    )
    tags: Path | Sequence[Path] = option(
        "CSV of image properties (columns: image, others), or list of images: compare each value "
        "separately (repeatable).",
        "FILE",
        default=(),
        heading=ANALYSIS,
        repeatable=True,
        path="read",
    )
    save: Path | None = option(
        "Also write JSON and CSV files to DIR.", "DIR", default=None, heading=OUTPUT, path="written"
    )
    log: Log | None = None


@verb(CompareOptions)
def compare(options: CompareOptions) -> Comparison:
    """Compare runs with the first of them as ``odm compare`` does, with an interval for each difference.

    >>> c = odm.compare(truth, {"old": a, "new": b}, protocol="coco")  # doctest: +SKIP
    >>> c.verdict                                                      # doctest: +SKIP

    All arguments that are not listed are those of `odm.eval`.

    Parameters
    ----------
    gt
        The ground truth, as `odm.eval` takes it.
    runs
        The detections of each run by its name, as `odm.eval` takes them, a list of paths, or a folder with a
        file or a folder for each run.
    replicates, seed, level
        Draws of images for the intervals, the seed of these, and the coverage of the intervals.
    tags
        Files with properties of images; runs are compared for each value.
    save, report
        A folder of JSON and CSV to write, and the page of the runs.

    Raises
    ------
    DataError, UsageError, PathError
        As `odm.eval`; UsageError also for fewer than two runs.
    """
    log = Log() if options.log is None else options.log
    runs = dict(options.runs) if isinstance(options.runs, Mapping) else name_runs(options.runs)
    if len(runs) < 2:
        raise UsageError(f"compare takes two runs or more, found {len(runs)}")
    plan = plan_runs(options, runs)
    keep = len(runs) <= KEPT  # with few runs a page can still be made of the result
    tables, evaluations, slices = evaluate_runs(options, plan, runs, log, keep=keep)
    comparison = compare_runs(tables, slices, options, log)
    write(comparison, evaluations, list_paths(options.gt, *runs.values()), options, log, log.extend)
    return replace(comparison, evaluations=tuple(evaluations)) if keep else comparison


def name_runs(runs: Any) -> dict[str, Any]:
    """Name each run by its path, or those in a folder by their names there.

    Raises UsageError if `runs` is no list of paths, repeats a path, or is a folder that has no two runs.
    """
    paths = [runs] if is_path(runs) else runs
    if not isinstance(paths, (list, tuple)) or not all(map(is_path, paths)):
        raise UsageError(
            f"compare takes runs by their names, as {{'old': a, 'new': b}}, or a list of paths, not "
            f"{type(runs).__name__}"
        )
    names = list_paths(paths)
    if len(names) == 1:
        return _find_runs(Files(names[0]))
    if len(set(names)) < len(names):
        raise UsageError("a run is given twice, and comparing a run with itself shows no difference")
    return dict(zip(names, names, strict=True))


def _find_runs(source: Files) -> dict[str, str]:
    """Return the paths of the runs in a folder by name: its files of results, or else its folders.

    Each folder stands for its file of results, see `_find_run_path`. Raises UsageError for fewer than two
    runs, or a folder with several files.
    """
    if not source.is_dir:
        raise UsageError("compare needs the detections of at least two runs: odm compare GT A B")
    files = [name for name in source.files if "/" not in name and name.endswith(RESULTS)]
    runs = {name.rpartition(".")[0]: source.full(name) for name in files}
    if not files:
        folders = {name.split("/")[0] for name in source.files if "/" in name}
        runs = {folder: _find_run_path(source, folder) for folder in sorted(folders)}
    if len(runs) < 2:
        raise UsageError(
            f"{printable(source.path)}: expected a folder with a file ({', '.join(RESULTS)}) or a folder for "
            "each of two runs or more"
        )
    return runs


def _find_run_path(source: Files, folder: str) -> str:
    """Return the path of the only file of results in a folder of `source`, or of the folder without any.

    Of several only one with a name of `NAMES_OF_RESULTS` counts. Raises UsageError if more than one is left.
    """
    result_files = [name for name in source.files if name.startswith(f"{folder}/") and name.endswith(RESULTS)]
    well_known = [name for name in result_files if name.rpartition("/")[2] in NAMES_OF_RESULTS]
    candidates = well_known or result_files or [folder]
    if len(candidates) > 1:
        problem = f"{printable(source.full(folder))} has several files of results: {first_few(candidates, 5)}"
        raise UsageError(f"{problem}; name the file of each run, as in odm compare GT A B")
    return source.full(candidates[0])


def plan_runs(options: CompareOptions, runs: Mapping[str, Any]) -> Plan:
    """Plan the evaluation of each run. Raises UsageError or PathError for useless options, before reading."""
    plan = Plan.from_options(options, options.protocol, options.iou, diagnose=options.diagnose)
    if len(plan.rules) > 1:
        raise UsageError(f"{spell('iou')}: compare takes one threshold; coco averages several")
    Resampling(options.replicates, options.seed, options.level).check()
    check_target(options.save, overwrite=options.overwrite)
    check_report(options.report, options, list_paths(options.gt, *runs.values()))
    return plan


def evaluate_runs(
    options: CompareOptions, plan: Plan, runs: Mapping[str, Any], log: Log, *, keep: bool = False
) -> tuple[dict[str, Table], list[Evaluation], list[ImageSlice]]:
    """Evaluate each run; issues go to `log`, equal ones once. Returns the tables by name, the evaluations,
    and the slices of ``tags``.

    To save memory only the first evaluation is returned, unless all are to `keep` or needed for a page.
    """
    tables: dict[str, Table] = {}
    evaluations: list[Evaluation] = []
    truth_cache = KeptTruth()
    for name, run in runs.items():
        log_of_run = log.fresh()
        try:
            evaluation = plan.evaluate(run, log_of_run, truth_cache)
        finally:
            _add_new_messages(log, log_of_run)
        tables[name] = table_of(evaluation.result)
        if options.report or keep or not evaluations:
            evaluations.append(evaluation)
    images, truth = next(iter(tables.values())).images, evaluations[0].truth_dataset
    return tables, evaluations, make_slices(options.tags, options.encoding, images, truth, log)


def compare_runs(
    tables: Mapping[str, Table], slices: Sequence[ImageSlice], options: CompareOptions, log: Log
) -> Comparison:
    """Compare the tables of the runs as the options say."""
    return compare_tables(
        tables,
        replicates=options.replicates,
        seed=options.seed,
        level=options.level,
        bootstrap_areas=options.bootstrap_areas,
        at_score=options.at_score,
        slices=slices,
        track=log.track,
    )


def write(
    comparison: Comparison,
    evaluations: Sequence[Evaluation],
    sources: Sequence[str],
    options: CompareOptions,
    log: Log,
    print_log: PrintLog,
) -> str:
    """Write the files that the options name, and return the path of the page, empty if there is none."""
    write_files(options.save, lambda put: save_comparison(comparison, put), overwrite=options.overwrite)
    if not options.report:
        return ""
    page = make_page(comparison, evaluations, sources, options, log, print_log, score=options.at_score)
    return write_report(page, options.report, options, sources, print_log)


def make_page(
    comparison: Comparison,
    evaluations: Sequence[Evaluation],
    sources: Sequence[str],
    options: ReportOptions,
    log: Log,
    print_log: PrintLog,
    score: float | None = None,
) -> Page:
    """Make the page that compares each further run with the first.

    Counts per image are at the threshold `score`, or at that of the best F1 if it is None.
    """
    from odm.report import compare_page

    first_data, *others_data = [(e, e.result.report_data()) for e in evaluations]
    limit = max(1, options.report_images // len(others_data))  # the runs share the images of the page
    first_run, *other_runs = comparison.runs
    first_pair, *more_pairs = [
        _make_run_pair(comparison, run.name, first_data, run_data, images=limit, score=score)
        for run, run_data in zip(other_runs, others_data, strict=True)
    ]
    pairs = (first_pair, *more_pairs)
    names = list(dict.fromkeys(image.name for pair in pairs for image in pair.changes.images))
    datasets = [dataset for dataset in _datasets_of(evaluations[0]) if dataset is not None]
    return compare_page(
        first_pair.summary,
        first_pair.classes,
        first_pair.changes,
        dict(zip(names, find_pictures(names, datasets, options, print_log), strict=True)),
        names=(first_run.name, first_pair.name),
        definition=comparison.definition,
        metric="AP" if first_pair.classes else first_pair.summary[0].name,  # rows of classes are of AP
        sources=sources,
        title=options.report_title,
        log=log,
        doubtful=DOUBTFUL,
        curves=first_pair.curves,
        slices=first_pair.slices,
        more=more_pairs,
        verdict=comparison.verdict,
        ranking=[
            # `differs` is None if unknown, which is not chance.
            {**standing.to_dict(), "chance": standing.differs(comparison.level) is False}
            for standing in comparison.ranking
        ],
    )


def _make_run_pair(
    comparison: Comparison, name: str, first: _RunData, other: _RunData, *, images: int, score: float | None
) -> RunPair:
    """Return what the page shows of the run `name`, whose data are `other`, beside the first run.

    `images` is the number of images to show; `score` is that of `make_page`.
    """
    from odm.report import RunPair, changes_of

    (evaluation, table), (other_evaluation, other_table) = first, other
    n_objects = {row.name: row.gt for row in evaluation.result.classes}
    deltas = [delta for delta in comparison.deltas if delta.run == name]
    return RunPair(
        name=name,
        summary=[_make_page_row(comparison, d, None) for d in deltas if d.category is None],
        classes=[
            _make_page_row(comparison, d, n_objects[d.category])
            for d in deltas
            if d.category is not None and d.key == "AP"
        ],
        changes=changes_of(
            table,
            other_table,
            # The positions of `score` on the score sliders of the runs; None: those of the best F1.
            levels=None if score is None else (table.level_of(score), other_table.level_of(score)),
            images=images,
            datasets=(_datasets_of(evaluation), _datasets_of(other_evaluation)),
        ),
        curves=[(evaluation.result, table), (other_evaluation.result, other_table)],
        slices=[row for row in comparison.slices if row["run"] == name],
    )


_datasets_of = attrgetter("truth_dataset", "detections_dataset")
"""Returns the two datasets of an evaluation."""


def _make_page_row(comparison: Comparison, delta: Delta, n_objects: int | None) -> ClassDelta:
    """Return a row of the page: a difference, and the number of objects of its class (None: all classes)."""
    from odm.report import ClassDelta

    class_name, interval, is_chance = delta.category, delta.interval, False
    # Of several runs one differs by chance sooner; that is corrected for the metric of the ranking only.
    if class_name is None and delta.key == comparison.ranking[0].key:
        is_chance = find_corrected_p(comparison, delta.run, delta.key) >= 1 - comparison.level
    return ClassDelta(
        name=class_name or delta.key,
        first=delta.first,
        other=delta.other,
        delta=delta.delta,
        low=interval.low,
        high=interval.high,
        p=interval.p if class_name is None else delta.p_holm,  # corrected for the number of classes
        gt=n_objects,
        lower=delta.key in comparison.lower_keys,
        chance=is_chance,
    )


def _add_new_messages(log: Log, run_log: Log) -> None:
    """Add the messages of a run to `log`, after taking out of `run_log` the issues that `log` already has."""
    # A log counts more issues than it keeps. If all that a run keeps of a code are in `log` already, those
    # that are only counted are taken for the same too, so that the code counts 0.
    logged_issues = set(log.issues)
    repeated_codes = {issue.code for issue in run_log.issues} - {
        i.code for i in run_log.issues if i not in logged_issues
    }
    for issue in run_log.issues:
        run_log.counts[issue.code] -= issue in logged_issues
    for code in repeated_codes:
        run_log.counts[code] = 0
    run_log.issues = [issue for issue in run_log.issues if issue not in logged_issues]
    log.extend(run_log)
