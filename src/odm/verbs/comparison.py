"""``odm.compare``: several runs read and evaluated against one ground truth, and compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec.structs import replace

from odm.converters import KeptTruth
from odm.evaluate import Evaluation, Protocol
from odm.evaluate.analysis.bootstrap import LEVEL, REPLICATES, Resampling
from odm.evaluate.analysis.compare import Comparison, Delta
from odm.evaluate.analysis.compare import compare as compare_tables
from odm.evaluate.analysis.render_comparison import save_comparison
from odm.evaluate.analysis.table import Table, table_of
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.matching.sides import ExtraImages, Label
from odm.evaluate.scores.protocol_overrides import Areas
from odm.evaluate.scores.protocols import IouType
from odm.files import MAX_SIZE, Output
from odm.issues import Log, UsageError
from odm.verbs.analyses import slices_of
from odm.verbs.evaluation import evaluate_sources, rules_of
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, write_report
from odm.verbs.sources import Source, gathered, is_path, paths_of, verb
from odm.verbs.words import BoxProtocolName, FormatName, PairOptions, Path

if TYPE_CHECKING:
    from odm.evaluate.analysis.slices import ImageSlice
    from odm.report import Page


KEPT = 4
"""Of at most so many runs the evaluations stay in memory, for a page that may be asked for."""


@verb
def compare(
    gt: Source,
    runs: Mapping[str, Source] | Sequence[Path],
    protocol: BoxProtocolName | Protocol | None = None,
    *,
    iou: float | None = None,
    iou_type: IouType | None = None,
    sigmas: str | Sequence[float] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    level: float = LEVEL,
    bootstrap_areas: bool = False,
    tags: Path | Sequence[Path] = (),
    save: Path | None = None,
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    at_score: float | None = None,
    diagnose: bool = False,
    class_agnostic: bool = False,
    score_min: float | None = None,
    max_dets: int | None = None,
    recall_at: Sequence[int] | None = None,
    area: Areas | None = None,
    interpolation: Literal["all", "11", "101"] | None = None,
    pixels: Literal["edges", "inclusive"] | None = None,
    keep_difficult: bool | None = None,
    only_classes: str | Sequence[str] | None = None,
    only_images: str | Sequence[str] | None = None,
    extra_images: ExtraImages = "error",
    rename: Mapping[str, str] | str | Sequence[str] = (),
    ignore_regions: Source | None = None,
    image_labels: Path | Sequence[Label] | None = None,
    merge_runs: bool = False,
    hierarchy: Path | Mapping[str, Any] | None = None,
    gt_format: FormatName | None = None,
    det_format: FormatName | None = None,
    gt_encoding: str = "",
    det_encoding: str = "",
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[PairOptions],
) -> Comparison:
    """Compare runs with the first of them as ``odm compare`` does, with an interval for each difference.

    >>> c = odm.compare(truth, {"old": a, "new": b}, protocol="coco")  # doctest: +SKIP
    >>> c.verdict                                                      # doctest: +SKIP

    All arguments that are not listed are those of `odm.eval`.

    Parameters
    ----------
    gt
        The ground truth, as `odm.eval` takes it.
    runs
        The detections of each run by its name, as `odm.eval` takes them, or a list of paths.
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
    given = gathered(locals(), "compare", "gt", "det", repeated="iou protocol tags rename")
    log = Log() if log is None else log
    sources = dict(runs) if isinstance(runs, Mapping) else named(runs)
    if len(sources) < 2:
        raise UsageError(f"compare takes two runs or more, found {len(sources)}")
    check(gt, sources, given)
    given["keep"] = len(sources) <= KEPT
    tables, evaluations, slices = tables_of(gt, sources, given, log)
    comparison = compared(tables, slices, given, log)
    write(comparison, evaluations, paths_of(gt, *sources.values()), given, log, log.extend)
    return replace(comparison, evaluations=tuple(evaluations)) if given["keep"] else comparison


def named(runs: Any) -> dict[str, Any]:
    """Paths by themselves. UsageError for what is no list of paths, or has one twice."""
    if not isinstance(runs, (list, tuple)) or not all(map(is_path, runs)):
        raise UsageError(
            f"compare takes runs by their names, as {{'old': a, 'new': b}}, or a list of paths, not "
            f"{type(runs).__name__}"
        )
    paths = [os.fspath(path) for path in runs]
    if len(set(paths)) < len(paths):
        raise UsageError("a run is given twice, and comparing a run with itself shows no difference")
    return dict(zip(paths, paths, strict=True))


def check(gt: Any, runs: Mapping[str, Any], given: dict[str, Any]) -> Protocol:
    """The protocol. UsageError or PathError, before anything is read, for what does not fit together."""
    given["diagnose"] = False
    (rules,) = rules_of(given)
    try:
        Resampling(given["replicates"], given["seed"], given["level"]).check()
    except UsageError as e:
        raise UsageError(f"--{e.args[0]}") from None  # a message begins with the name of what is wrong
    if given["save_to"]:
        Output(given["save_to"], overwrite=given["overwrite"], dry_run=True)
    report_target(given, sources=paths_of(gt, *runs.values()))
    return rules


def tables_of(
    gt: Any, runs: Mapping[str, Any], given: dict[str, Any], log: Log
) -> tuple[dict[str, Table], list[Evaluation], list[ImageSlice]]:
    """The tables by name; all evaluations for a page, else the first; and the slices of ``tags``."""
    given = {**given, "at_score": None}  # which would be the operating point of the evaluation
    tables: dict[str, Table] = {}
    evaluations: list[Evaluation] = []
    kept = KeptTruth()
    for name, run in runs.items():
        own = log.fresh()
        try:
            evaluation = evaluate_sources(gt, run, given, own, kept)
        finally:
            _add_new(log, own)
        tables[name] = table_of(evaluation.result)
        if given["report"] or given.get("keep") or not evaluations:
            evaluations.append(evaluation)
    images = next(iter(tables.values())).images
    return tables, evaluations, slices_of(given, images, evaluations[0].truth_dataset, log)


def compared(
    tables: Mapping[str, Table], slices: Sequence[ImageSlice], given: Mapping[str, Any], log: Log
) -> Comparison:
    """The runs compared, as the arguments say."""
    return compare_tables(
        tables,
        **{name: given[name] for name in ("replicates", "seed", "level", "bootstrap_areas", "at_score")},
        slices=slices,
        track=log.track,
    )


def write(
    comparison: Comparison,
    evaluations: Sequence[Evaluation],
    sources: Sequence[str],
    given: Mapping[str, Any],
    log: Log,
    print_log: PrintLog,
) -> str:
    """Write the files that were asked for, and answer the path of the page."""
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save_comparison(comparison, output.write)
    if not given["report"]:
        return ""
    page = page_of(comparison, evaluations, sources, given, log, print_log)
    return write_report(page, given, sources, print_log)


def page_of(
    comparison: Comparison,
    evaluations: Sequence[Evaluation],
    sources: Sequence[str],
    given: Mapping[str, Any],
    log: Log,
    print_log: PrintLog,
) -> Page:
    """The page of the runs."""
    from odm.report import ClassDelta, RunPair, changes_of, compare_page

    sets_of = attrgetter("truth_dataset", "detections_dataset")
    first, *others = evaluations
    sets = [one for one in sets_of(first) if one is not None]
    most = max(1, given["report_images"] // len(others))
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
            delta.key in comparison.lower_keys,
        )

    tables = [one.result.report_data() for one in evaluations]
    score = given["at_score"]
    pairs = []
    for run, other, table in zip(comparison.runs[1:], others, tables[1:], strict=True):
        both = tables[0], table
        levels = None if score is None else (both[0].level_of(score), both[1].level_of(score))
        own = [delta for delta in comparison.deltas if delta.run == run.name]
        pairs.append(
            RunPair(
                run.name,
                [row_of(d) for d in own if d.category is None],
                [row_of(d) for d in own if d.category is not None and d.key == "AP"],
                changes_of(*both, levels=levels, images=most, datasets=(sets_of(first), sets_of(other))),
                [(one.result, of) for one, of in zip((first, other), both, strict=True)],
                [row for row in comparison.slices if row["run"] == run.name],
            )
        )
    names = list(dict.fromkeys(image.name for pair in pairs for image in pair.changes.images))
    return compare_page(
        pairs[0].summary,
        pairs[0].classes,
        pairs[0].changes,
        dict(zip(names, pictures_of(names, sets, given, print_log), strict=True)),
        names=(comparison.runs[0].name, pairs[0].name),
        definition=comparison.definition,
        metric="AP" if pairs[0].classes else pairs[0].summary[0].name,
        sources=sources,
        title=given["report_title"],
        log=log,
        doubtful=DOUBTFUL,
        curves=pairs[0].curves,
        slices=pairs[0].slices,
        more=pairs[1:],
        verdict=comparison.verdict,
    )


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
