"""``odm.eval``: what is asked for, checked before anything is read; the work; and the files it writes.

It is long because `eval` has 56 arguments, each with a line and its description.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import msgspec
import numpy as np

from odm.converters import Edits, KeptTruth, Ledger
from odm.converters.edit import apply
from odm.converters.load import check_one_run, check_too
from odm.evaluate import Evaluation, Protocol, evaluate, resolve, save
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.evaluation import PROGRAMS
from odm.evaluate.matching.ready import report_unfit, with_points
from odm.evaluate.matching.sides import ExtraImages, Label, Mask
from odm.evaluate.scores.protocol_overrides import Areas, check_scores, check_tubes
from odm.evaluate.scores.protocols import DEFAULT, IouType
from odm.files import MAX_SIZE, InMemory, Output
from odm.issues import Log, UsageError, printable, shorten
from odm.pairing import pair_images, source_of
from odm.tables import Dataset
from odm.verbs.analyses import Asked
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, write_report
from odm.verbs.sources import (
    Source,
    dataset_of,
    gathered,
    is_path,
    lines_of_files,
    load_sides,
    only,
    paths_of,
    renames_of,
    request_of,
    split_names,
    verb,
)
from odm.verbs.words import Analysis, FormatName, PairOptions, Path, ProtocolName

if TYPE_CHECKING:
    from odm.report import Page

SHAPES_OF: dict[IouType, frozenset[str]] = {
    "bbox": frozenset(),
    **dict.fromkeys(("segm", "boundary"), frozenset({"polygon", "mask", "oriented"})),
    "keypoints": frozenset({"keypoints"}),
    "obb": frozenset({"oriented"}),
}
"""What readers are asked for."""

RULES = ("interpolation", "area", "max_dets", "recall_at", "keep_difficult", "pixels", "iou_type", "sigmas")

OF_BOXES = "analyze ci thresholds at_scores plots report ignore_regions image_labels hierarchy".split()
"""Options that a protocol that measures tracks refuses."""
SWITCHES = (*RULES, "score_min", "at_score", "extra_images", "class_agnostic", "diagnose")


WHOLE = (
    "save_to plots report analyze confusion ci thresholds at_scores class_agnostic diagnose rename "
    "ignore_regions skip_bad skip_bad_files".split()
)
"""Options that look at all detections at once."""


@verb
def eval(  # noqa: A001 -- the command's name
    gt: Source,
    det: Source,
    protocol: ProtocolName | Protocol | Sequence[ProtocolName | Protocol] | None = None,
    *,
    iou: float | Sequence[float] | None = None,
    iou_type: IouType | None = None,
    sigmas: str | Sequence[float] | None = None,
    save: Path | None = None,
    plots: Path | None = None,
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    analyze: Analysis | Literal["all"] | Sequence[Analysis] | None = None,
    confusion: Literal["counts", "gt", "det"] | None = None,
    ci: bool = False,
    replicates: int = 1000,
    seed: int = 0,
    bootstrap_areas: bool = False,
    tags: Path | Sequence[Path] = (),
    thresholds: str | None = None,
    save_thresholds: Path | None = None,
    at_scores: Path | None = None,
    at_score: float | None = None,
    memory: str | None = None,
    cluster: str | None = None,
    scratch: Path | None = None,
    rows_per_task: int | None = None,
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
) -> Evaluation:
    """Evaluate detections against ground truth, as ``odm eval`` does.

    In a notebook the result displays itself:

    >>> r = odm.eval(truth, found, "coco", images="photos/")          # doctest: +SKIP
    >>> r.summary["AP"]                                               # doctest: +SKIP
    >>> d = r.detections.to_pandas()                                  # doctest: +SKIP
    >>> d[(d.outcome == "FP") & (d.score > 0.5)]                      # doctest: +SKIP
    >>> r.missed.to_pandas()                                          # doctest: +SKIP
    >>> r.report(images="photos/")                                    # doctest: +SKIP
    >>> r = odm.eval(truth, found, "coco", analyze=["images", "tide"])  # doctest: +SKIP
    >>> r.analysis.images.table()  # worst first                      # doctest: +SKIP
    >>> odm.compare(truth, {"old": a, "new": b}).verdict              # doctest: +SKIP
    >>> odm.diff("labels-v1.json", "labels-v2.json")                  # doctest: +SKIP

    Parameters
    ----------
    gt, det
        The two sides: a path, a list of paths, a `Dataset`, or what is in memory: a COCO dictionary or a list
        of results, a table of pandas, polars or pyarrow with the columns ``image``, ``class``, ``left``,
        ``top``, ``right``, ``bottom`` (and ``score``), or ``{image: supervision.Detections}``.
    protocol
        The rules that are followed, ``voc2012`` if omitted; several give several results.
    iou, interpolation, area, max_dets, recall_at, score_min, keep_difficult, pixels, at_score, extra_images,
    \
class_agnostic, diagnose
        What is changed about it, as `odm.evaluate.evaluate` describes.
    iou_type, sigmas
        What is compared: ``"bbox"``, ``"segm"`` (masks), ``"boundary"`` (masks and their inner bands),
        ``"keypoints"`` or ``"obb"`` (oriented boxes), and
        how far each key point may lie from where it should: numbers, ``"0.1,0.2"``, or a file with one per
        line.
    only_classes, only_images
        Names to keep: a list, or ``"A,B"``; for images also ``"@FILE"``.
    rename
        Classes of `det` to rename: ``{old: new}``, or ``"OLD=NEW"``.
    analyze
        ``"tide"``, ``"lrp"``, ``"calibration"``, ``"images"``, ``"slices"``, a list of these, or ``"all"``.
    tags
        Files with properties of images, for ``"slices"``.
    confusion
        Adds the confusion matrix: ``"counts"``, or normalised by ``"gt"`` or ``"det"``.
    ci, replicates, seed, bootstrap_areas
        Adds confidence intervals, by resampling images.
    thresholds, save_thresholds, at_scores
        Chooses a score threshold per class by a rule (``"f1"``, ``"precision:0.9"``), writes them, or uses
        those of a file.
    save, plots, report, report_images, report_size, report_title, language, overwrite
        Files to write: a folder of JSON and CSV, a folder of plots, a page (``NAME.html``) or a folder.
    ignore_regions
        Boxes or outlines, as `gt` is given: what lies in them is no false positive of any class.
    image_labels, hierarchy
        Of Open Images: a file, or rows and a nested mapping as `odm.evaluate.evaluate` takes them.
    merge_runs
        Pools several results files of the same images in the folder `det`.
    memory, cluster, scratch, rows_per_task
        Read `det` in parts (``memory="2GB"``), here or on a Dask cluster.
    gt_format, det_format, gt_encoding, det_encoding, encoding, skip_bad, skip_bad_files, max_size,
    follow_links
        How files are read; formats are detected.
    log
        Collects issues and notes, which the result has too, as ``.log``.
    **options
        Options of formats, such as ``images="photos/"`` or ``det_box="ltwh"`` for one side.

    Returns
    -------
    Evaluation
        In a notebook it displays itself. ``.summary``, ``.classes``, ``.curves`` and the like are those of
        its only result; with several protocols or IoUs choose one of ``.results``.

    Raises
    ------
    DataError
        If the data has errors, or the two sides cannot be compared; its ``log`` says why.
    UsageError
        If an option does not exist, options do not fit together, or a side is of a wrong type.
    PathError
        If a path is missing or not usable.
    """
    given = gathered(locals(), "eval", "gt", "det", repeated="iou protocol tags rename")
    log = Log() if log is None else log
    return Job.of(gt, det, given).complete(log)


class Job(msgspec.Struct, frozen=True):
    """An evaluation that is asked for, with everything that can be refused before anything is read."""

    gt: Any
    det: Any
    given: dict[str, Any]
    rules: list[Protocol]
    asked: Asked
    partwise: bool
    outputs: dict[str, Output]

    @classmethod
    def of(cls, gt: Any, det: Any, given: dict[str, Any]) -> Job:
        """UsageError where the options do not fit together, PathError for a target that cannot be used."""
        rules = rules_of(given)
        asked = Asked.of(given, rules)
        partwise = in_parts(given, rules)
        outputs = {
            name: Output(given[name], overwrite=given["overwrite"], dry_run=True)
            for name in ("save_to", "plots")
            if given[name]
        }
        report_target(given, sources=paths_of(gt, det))
        if "plots" in outputs:
            from odm.drawing import check_matplotlib

            check_matplotlib()  # before the work, not after it
        return cls(gt, det, given, rules, asked, partwise, outputs)

    def run(self, log: Log, warn: Callable[[str], None]) -> Evaluation:
        """Read and evaluate both sides; `warn` takes what is said about the run itself."""
        if self.partwise:
            evaluation = evaluate_in_parts(self.gt, self.det, self.given, log, warn)
        else:
            evaluation = evaluate_sources(self.gt, self.det, self.given, log)
        return self.asked.applied(evaluation, evaluation.truth_dataset, log, warn)

    def complete(self, log: Log) -> Evaluation:
        """Read and evaluate both sides, and write the files that were asked for."""
        evaluation = self.run(log, log.note)
        self.write(evaluation, log.extend)
        return evaluation

    def check_apart(self) -> None:
        """PathError if what is written would replace what was read, all of which is known by now."""
        for output in self.outputs.values():
            output.check_apart()

    def write(self, evaluation: Evaluation, print_log: PrintLog) -> str:
        """Write the files that were asked for, and answer the report's path. PathError as `check_apart`."""
        self.check_apart()
        given, path = self.given, ""
        if given["report"]:
            path = write_page(evaluation, given, print_log)
        if given["save_to"]:
            with Output(given["save_to"], overwrite=given["overwrite"]) as output:
                save(evaluation, output.write)
        if given["plots"]:
            from odm.evaluate.output.plots import draw

            with Output(given["plots"], overwrite=given["overwrite"]) as output:
                draw(evaluation, output.write)
        self.asked.save_thresholds(evaluation)
        return path


def write_page(evaluation: Evaluation, given: Mapping[str, Any], print_log: PrintLog) -> str:
    """Write the report of an evaluation, and answer where it is."""
    page, sources = page_of(evaluation, given, print_log)
    return write_report(page, given, sources, print_log)


def page_of(evaluation: Evaluation, given: Mapping[str, Any], print_log: PrintLog) -> tuple[Page, list[str]]:
    """The report of an evaluation, and the paths that it was read from."""
    from odm.report import evaluation_page

    truth, detections = evaluation.truth_dataset, evaluation.detections_dataset
    assert truth is not None
    assert detections is not None
    sources = [one.path for one in (truth, detections) if one.path]
    page = evaluation_page(
        evaluation,
        pictures_of(evaluation.joined.images, (truth, detections), given, print_log),
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
        doubtful=DOUBTFUL,
    )
    return page, sources


def rules_of(given: dict[str, Any]) -> list[Protocol]:
    """The protocols that are asked for; wrong values are said before anything is read."""
    renames_of(given)
    given["sigmas"] = _sigmas_of(given["sigmas"])
    with names_as_flags():
        check_scores(at_score=given["at_score"], score_min=given["score_min"])
        rules = resolve(
            list(dict.fromkeys(given["protocol"])) or None,
            iou=list(dict.fromkeys(given["iou"])) or None,
            **{name: given[name] for name in RULES},
        )
        check_tubes(rules, {f"--{name.replace('_', '-')}": given.get(name) for name in OF_BOXES})
    return rules


def _sigmas_of(given: Any) -> list[float] | None:
    """The numbers in ``A,B``, or the lines of a file."""
    if given is None:
        return None
    if not isinstance(given, str):
        return list(given) if isinstance(given, Iterable) else [given]
    for texts in (given.split(","), None):
        try:
            return [float(text) for text in texts or lines_of_files([f"@{given}"])]
        except ValueError:
            continue
    raise UsageError(
        f"--sigmas {shorten(given)}: expected numbers, as in 0.025,0.05, or a file with one per line"
    )


@contextlib.contextmanager
def names_as_flags() -> Iterator[None]:
    """Word a `UsageError`, which begins with the name of what is wrong, with the flag of that name."""
    try:
        yield
    except UsageError as e:
        text = str(e.args[0])
        name = text.split(" ", 1)[0].removesuffix(":")
        if name in {"iou", "at_score", "protocol", "only_classes", "only_images", *SWITCHES}:
            raise UsageError(f"--{name.replace('_', '-')}{text[len(name) :]}") from None
        raise


def only_names(option: str, given: dict[str, Any]) -> Sequence[str] | None:
    """The names in ``A,B``, or the lines of the file in ``@FILE``. UsageError if there is none."""
    text = given[option]
    if text is None:
        return None
    listed = isinstance(text, str) and text.startswith("@")
    names = lines_of_files([text], given["encoding"]) if listed else split_names(text)
    if not names:
        raise UsageError(f"{option} {shorten(str(text))!r}: there is no name in it")
    return names


def arguments(given: dict[str, Any], log: Log) -> dict[str, Any]:
    """What `evaluate` is asked for."""
    options = given["options"]
    classes = options["gt"].get("classes", options[""].get("classes"))
    image_labels, hierarchy = given["image_labels"], given["hierarchy"]
    if image_labels or hierarchy:
        from odm.converters.image_labels import read_descriptions, read_hierarchy, read_image_labels

        names = read_descriptions(classes, log) if classes else {}
        if isinstance(image_labels, str):
            image_labels = read_image_labels(image_labels, log, names)
        if isinstance(hierarchy, str):
            hierarchy = read_hierarchy(hierarchy, log, names)
    return {
        "protocol": list(dict.fromkeys(given["protocol"])) or None,
        "iou": list(dict.fromkeys(given["iou"])) or None,
        "only_classes": only_names("only_classes", given),
        "only_images": only_names("only_images", given),
        "image_labels": image_labels or None,
        "hierarchy": hierarchy or None,
        **{name: given[name] for name in SWITCHES},
    }


def in_parts(given: dict[str, Any], rules: Sequence[Protocol]) -> bool:
    """Whether the detections are read a part at a time. UsageError if something else forbids it."""
    if given["memory"] is None and given["cluster"] is None:
        for name, flag in (("scratch", "--scratch"), ("rows_per_task", "--rows-per-task")):
            if given[name] is not None:
                raise UsageError(f"{flag} is used with --memory or --cluster only")
        return False
    if given["cluster"] is not None and given["scratch"] is None:
        raise UsageError("--cluster needs --scratch DIR: a folder that all workers share")
    for name in WHOLE:
        if given[name]:
            flag = f"--{name.removesuffix('_to').replace('_', '-')}"
            raise UsageError(f"{flag} needs all detections at once: leave it out, or --memory and --cluster")
    from odm.evaluate.parts import shards

    shards.check_rules(rules)
    return True


def evaluate_sources(
    gt: Any, det: Any, given: dict[str, Any], log: Log, kept: KeptTruth | None = None
) -> Evaluation:
    """Read both sides and evaluate them as the arguments say; `kept` is for several runs."""
    with names_as_flags():
        asked, renames = arguments(given, log), renames_of(given)
    rules = resolve(asked["protocol"], iou_type=given["iou_type"])
    iou_type, own_fields = rules[0].iou_type, any(p.fields for p in rules)
    wants = SHAPES_OF[iou_type] | ({"oriented"} if any(p.whole_corners for p in rules) else set())

    def compared(side: Dataset) -> Mask:
        """(n,) the boxes of the classes that are evaluated."""
        only = asked["only_classes"]
        if only is None and iou_type == "keypoints":
            return with_points(side)[side.boxes.category]
        names = [only is None or renames.get(name, name) in only for name in side.categories.name]
        return np.array(names, bool)[side.boxes.category]

    truth, detections = load_sides(
        gt,
        det,
        {**given, "wants": wants, "own_fields": own_fields},
        log,
        kept=kept,
        check=check_too(lambda side, own: report_unfit(side, iou_type, own, compared(side))),
    )
    if (regions := given["ignore_regions"]) is not None:
        how = {**given, "format_": None, "options": {"": {}}, "wants": SHAPES_OF[iou_type]}
        read = only(dataset_of(regions, how, log, verb=given["verb"], kind="gt", other=lambda: truth))
        from odm.converters.merging import add_regions

        truth = add_regions(truth, read, pair_images(truth.images, read.images)[0], log)
    if not given["protocol"] and is_path(gt) and os.fspath(gt).lower().endswith((".yaml", ".yml")):
        what = f"--protocol ultralytics gives the numbers of {PROGRAMS['ultralytics']}"
        log.notes.insert(0, f"{printable(source_of(truth))}: {what}, and this is {DEFAULT}")
    if is_path(det) and not given["merge_runs"]:
        check_one_run(detections)
    with names_as_flags():
        text = given["only_images"] or ""
        a_file = isinstance(text, str) and text.lower().endswith(".txt") and os.path.isfile(text)
        if a_file and text not in truth.images.name:
            raise UsageError(f"only_images {shorten(text)}: for the names in this file give @{shorten(text)}")
        renamed = detections
        if renames:
            n = np.bincount(detections.boxes.category, minlength=len(detections.categories)).tolist()
            for name, count in zip(detections.categories.name, n, strict=True):
                if name in renames:
                    log.note(f"--rename: {name!r} of {count} detections is read as {renames[name]!r}")
            renamed = apply(Edits(rename=renames), detections, Ledger("", ""))
        return evaluate(truth, renamed, log=log, **asked)


def evaluate_in_parts(
    gt: Any, det: Any, given: dict[str, Any], log: Log, warn: Callable[[str], None]
) -> Evaluation:
    """Evaluate a part of the detections at a time."""
    asked = arguments(given, log)
    for name in ("class_agnostic", "iou_type", "sigmas"):  # which were refused
        del asked[name]
    from odm.evaluate.parts.cluster import dask_executor
    from odm.sharding import evaluate_shards, parse_memory

    if not is_path(det) or isinstance(det, InMemory):
        raise UsageError("--memory and --cluster read the detections a part at a time: give a path")
    try:
        memory = None if given["memory"] is None else parse_memory(str(given["memory"]))
    except ValueError as e:
        raise UsageError(f"--memory {given['memory']}: {e}") from None

    def note(text: str) -> None:
        warn(f"note: {text}")

    with contextlib.ExitStack() as stack:
        executor = None
        if given["cluster"] is not None:
            executor = stack.enter_context(dask_executor(given["cluster"], note))
        return evaluate_shards(
            request_of(os.fspath(gt), given, "gt", "gt")
            if is_path(gt) and not isinstance(gt, InMemory)
            else only(dataset_of(gt, given, log, verb=given["verb"], side="gt", kind="gt")),
            request_of(os.fspath(det), given, "det", "det"),
            executor=executor,
            scratch=given["scratch"],
            rows_per_task=given["rows_per_task"],
            memory=memory,
            log=log,
            tell=note,
            **asked,
        )
