"""``odm.eval``: check the options before anything is read, read and evaluate both sides, and write files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import numpy as np

from odm.converters import Edits, KeptTruth, Ledger, Request
from odm.converters.edit import apply_edits
from odm.converters.load import add_check, check_one_run
from odm.evaluate import Evaluation, Protocol, evaluate, resolve, save
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.evaluation import PROGRAMS
from odm.evaluate.matching.ready import find_classes_with_points, report_unfit
from odm.evaluate.matching.sides import ExtraImages, Label, Mask
from odm.evaluate.scores.protocol_overrides import check_scores, check_tubes
from odm.evaluate.scores.protocols import DEFAULT, IouType
from odm.files import InMemory, Output
from odm.issues import Log, UsageError, plural, printable, shorten, spell
from odm.pairing import pair_images, source_of
from odm.tables import Dataset
from odm.verbs.analyses import Analyzer
from odm.verbs.eval_options import EvalOptions, PairOptions
from odm.verbs.reports import PrintLog, check_report, find_pictures, write_report
from odm.verbs.shared import ReportOptions, Side
from odm.verbs.sources import (
    as_list,
    expand_files,
    get_dataset,
    is_path,
    list_paths,
    load_sides,
    make_request,
    read_names,
    read_renames,
    read_source,
    verb,
)

if TYPE_CHECKING:
    from odm.report import Page

SHAPES_OF: dict[IouType, frozenset[str]] = {
    "bbox": frozenset(),
    **dict.fromkeys(("segm", "boundary"), frozenset({"polygon", "mask", "oriented"})),
    "keypoints": frozenset({"keypoints"}),
    "obb": frozenset({"oriented"}),
}
"""The shapes of boxes that readers are asked for, by what is compared."""


@verb(EvalOptions)
def eval(options: EvalOptions) -> Evaluation:  # noqa: A001 -- the command's name
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
    iou, interpolation, area, max_dets, recall_at, score_min, keep_difficult, without_oddities, pixels, \
at_score, extra_images, class_agnostic, diagnose
        What is changed about it, as `odm.evaluate.evaluate` describes.
    iou_type, sigmas
        What is compared: ``"bbox"``, ``"segm"`` (masks), ``"boundary"`` (masks and their inner bands),
        ``"keypoints"`` or ``"obb"`` (oriented boxes), and
        how far each keypoint may lie from where it should: numbers, ``"0.1,0.2"``, or a file with one per
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
    return Job.from_options(options).complete(Log() if options.log is None else options.log)


class Job(msgspec.Struct, frozen=True):
    """A run of `eval`, whose options were checked before anything is read."""

    options: EvalOptions
    plan: Plan
    analyzer: Analyzer
    is_partwise: bool
    outputs: dict[str, Output]

    @classmethod
    def from_options(cls, options: EvalOptions) -> Job:
        """Check the options. Raises UsageError if they conflict, PathError for a target that is no use."""
        plan = Plan.from_options(options, options.protocol, options.iou, diagnose=options.diagnose)
        # `odm.compare`, which shares `Plan`, uses its ``at_score`` after the evaluation only.
        plan = msgspec.structs.replace(plan, at_score=options.at_score)
        analyzer = Analyzer.from_options(options, plan.rules)
        is_partwise = _is_partwise(options, plan.rules)
        # These only check the targets: `write` makes its own.
        outputs = {
            name: Output(os.fspath(path), overwrite=options.overwrite, dry_run=True)
            for name, path in (("save", options.save), ("plots", options.plots))
            if path
        }
        check_report(options.report, options, list_paths(options.gt, options.det))
        if "plots" in outputs:
            from odm.drawing import check_matplotlib

            check_matplotlib()  # before the work, not after it
        return cls(options, plan, analyzer, is_partwise, outputs)

    def run(self, log: Log, warn: Callable[[str], None]) -> Evaluation:
        """Read and evaluate both sides; `warn` takes sentences about the run itself."""
        if self.is_partwise:
            evaluation = evaluate_in_parts(self.options, self.plan, log, warn)
        else:
            evaluation = self.plan.evaluate(self.options.det, log)
        return self.analyzer.analyze(evaluation, evaluation.truth_dataset, log, warn)

    def complete(self, log: Log) -> Evaluation:
        """Read and evaluate both sides, and write the files that the options name."""
        evaluation = self.run(log, log.note)
        self.write(evaluation, log.extend)
        return evaluation

    def check_apart(self) -> None:
        """Raise PathError if an output would replace an input; call it when all inputs are known."""
        for output in self.outputs.values():
            output.check_apart()

    def write(self, evaluation: Evaluation, print_log: PrintLog) -> str:
        """Write the files that the options name, and return the path of the report, empty if there is none.

        Raises PathError as `check_apart`.
        """
        self.check_apart()
        options, path = self.options, ""
        if options.report:
            page, sources = make_page(evaluation, options, print_log)
            path = write_report(page, options.report, options, sources, print_log)
        if options.save:
            with Output(os.fspath(options.save), overwrite=options.overwrite) as output:
                suspects = save(evaluation, output.write)
            if suspects:
                print_log(_note_suspects(suspects, os.fspath(options.save)))
        if options.plots:
            from odm.evaluate.output.plots import draw

            with Output(os.fspath(options.plots), overwrite=options.overwrite) as output:
                draw(evaluation, output.write)
        self.analyzer.save_thresholds(evaluation)
        return path


def _note_suspects(suspects: Mapping[str, int], folder: str) -> Log:
    """Return a note on the labels to review, `suspects` of each kind, and the files in `folder` with them."""
    from odm.evaluate.analysis.review import KIND_WORDS

    notes, folder = Log(), printable(folder.rstrip("/"))
    kinds = ", ".join(f"{n} {KIND_WORDS[kind]}" for kind, n in suspects.items())
    notes.note(
        f"{plural(sum(suspects.values()), 'label')} to review: {kinds}; {folder}/suspects.csv "
        f"says which, and {spell('only_images')} @{folder}/review.txt takes their images"
    )
    return notes


def make_page(evaluation: Evaluation, options: ReportOptions, print_log: PrintLog) -> tuple[Page, list[str]]:
    """Make the page of an evaluation. Returns it, and the paths that the evaluation was read from."""
    from odm.report import evaluation_page

    truth, detections = evaluation.truth_dataset, evaluation.detections_dataset
    assert truth is not None  # callers refuse a report without the boxes in memory
    assert detections is not None
    sources = [side.path for side in (truth, detections) if side.path]
    page = evaluation_page(
        evaluation,
        find_pictures(evaluation.joined.images, (truth, detections), options, print_log),
        sources=sources,
        title=options.report_title,
        images=options.report_images,
        doubtful=DOUBTFUL,
    )
    return page, sources


class _Arguments(TypedDict):
    """Arguments that `odm.evaluate.evaluate` and `odm.sharding.evaluate_shards` share."""

    protocol: list[Protocol]
    is_default: bool
    only_classes: Sequence[str] | None
    only_images: Sequence[str] | None
    image_labels: Iterable[Label] | None
    hierarchy: Mapping[str, Any] | None
    score_min: float | None
    at_score: float | None
    extra_images: ExtraImages
    diagnose: bool


class Plan(msgspec.Struct, frozen=True):
    """How detections are evaluated against one ground truth: the options, and their resolved values."""

    options: PairOptions
    rules: list[Protocol]
    """All of one ``iou_type``."""
    renames: dict[str, str]
    diagnose: bool
    is_default: bool
    """Whether no protocol was chosen."""
    at_score: float | None = None

    @classmethod
    def from_options(cls, options: PairOptions, protocol: Any, iou: Any, *, diagnose: bool) -> Plan:
        """Check the options. Raises UsageError for a value out of range, or one that a protocol refuses."""
        renames = read_renames(options.rename, options.encoding)
        sigmas = _parse_sigmas(options.sigmas)
        check_scores(at_score=options.at_score, score_min=options.score_min)
        names, ious = list(dict.fromkeys(as_list(protocol))), list(as_list(iou))
        rules = resolve(
            names or None,
            iou=ious or None,
            interpolation=options.interpolation,
            area=options.area or None,
            max_dets=options.max_dets,
            recall_at=options.recall_at,
            keep_difficult=options.keep_difficult,
            without_oddities=options.without_oddities,
            pixels=options.pixels,
            iou_type=options.iou_type,
            sigmas=sigmas,
        )
        # If tracks are measured, options that need boxes are refused.
        check_tubes(rules, [name for name, spec in options.in_use() if spec.boxes_only])
        if options.ignore_regions is not None and (without := [p.name for p in rules if not p.has_regions]):
            raise UsageError(
                f"{spell('ignore_regions')}: {', '.join(dict.fromkeys(without))} has no rule for regions to "
                "ignore, so that they would change nothing; choose another protocol, such as coco"
            )
        return cls(options, rules, renames, diagnose, is_default=not names)

    def read_arguments(self, log: Log) -> _Arguments:
        """Return the arguments of `odm.evaluate.evaluate` beside the two sides, after reading their files."""
        options = self.options
        image_labels, hierarchy = _read_open_images(options, log)
        return {
            "protocol": self.rules,
            "is_default": self.is_default,
            "only_classes": read_names("only_classes", options.only_classes, options.encoding),
            "only_images": read_names("only_images", options.only_images, options.encoding),
            "image_labels": image_labels,
            "hierarchy": hierarchy,
            "score_min": options.score_min,
            "at_score": self.at_score,
            "extra_images": options.extra_images,
            "diagnose": self.diagnose,
        }

    def evaluate(self, det: Any, log: Log, truth_cache: KeptTruth | None = None) -> Evaluation:
        """Read both sides and evaluate them. With `truth_cache`, several runs read the ground truth once.

        Notes about the run go to `log`. Raises UsageError if ``only_images`` is the path of a list, given
        without ``@``.
        """
        options, gt = self.options, self.options.gt
        iou_type, arguments = self.rules[0].iou_type, self.read_arguments(log)
        # What is read besides plain boxes: shapes (corners, where a protocol makes boxes of them), and the
        # fields that a protocol uses.
        wants = SHAPES_OF[iou_type] | ({"oriented"} if any(p.whole_corners for p in self.rules) else set())
        wants |= {"fields"} if any(p.fields for p in self.rules) else set()

        def check_shapes(side: Dataset, side_log: Log) -> Mask:
            """Report the boxes without the shapes that are compared, and return which these are."""
            return report_unfit(
                side, iou_type, side_log, self._find_compared(side, arguments["only_classes"])
            )

        truth, detections = load_sides(
            gt,
            det,
            (options.gt_side, options.det_side),
            options,
            log,
            wants=wants,
            own_fields=any(p.fields for p in self.rules),
            draws=bool(options.report),
            truth_cache=truth_cache,
            check=add_check(check_shapes),
        )
        if options.ignore_regions is not None:
            truth = self._add_regions(truth, log)
        # A data.yaml is of Ultralytics. The note comes first, as a command prints only some.
        if self.is_default and is_path(gt) and os.fspath(gt).lower().endswith((".yaml", ".yml")):
            advice = f"{spell('protocol')} ultralytics gives the numbers of {PROGRAMS['ultralytics']}"
            log.notes.insert(0, f"{printable(source_of(truth))}: {advice}, and this is {DEFAULT}")
        if is_path(det) and not options.merge_runs:
            check_one_run(detections)  # refuses a folder with files of several runs
        names = options.only_images or ""
        is_file = isinstance(names, str) and names.lower().endswith(".txt") and os.path.isfile(names)
        if is_file and names not in truth.images.name:
            path = shorten(names)
            raise UsageError(f"{spell('only_images')} {path}: for the names in this file give @{path}")
        renamed = self._rename_classes(detections, log) if self.renames else detections
        return evaluate(truth, renamed, class_agnostic=options.class_agnostic, log=log, **arguments)

    def _find_compared(self, side: Dataset, only_classes: Sequence[str] | None) -> Mask:
        """(n,) whether the class of each box is evaluated: one of `only_classes`, None = all."""
        # Of all classes only some have keypoints.
        if only_classes is None and self.rules[0].iou_type == "keypoints":
            return find_classes_with_points(side)[side.boxes.category]
        # `only_classes` has names after ``rename``, which is for the detections only.
        renames = self.renames if side.kind == "det" else {}
        is_chosen = [
            only_classes is None or renames.get(name, name) in only_classes for name in side.categories.name
        ]
        return np.array(is_chosen, bool)[side.boxes.category]

    def _rename_classes(self, detections: Dataset, log: Log) -> Dataset:
        """Return the detections with the classes of ``rename`` renamed; notes say how many have each."""
        n_of_class = np.bincount(detections.boxes.category, minlength=len(detections.categories)).tolist()
        for name, count in zip(detections.categories.name, n_of_class, strict=True):
            if name in self.renames:
                log.note(
                    f"{spell('rename')}: {name!r} of {count} detections is read as {self.renames[name]!r}"
                )
        return apply_edits(Edits(rename=self.renames), detections, Ledger("", ""))

    def _add_regions(self, truth: Dataset, log: Log) -> Dataset:
        """Return the ground truth with the regions of ``ignore_regions``, which may be in any format."""
        from odm.converters.merging import add_regions

        options = self.options
        side = Side("--format", "gt", format=None, encoding=options.encoding, options={}, shared={})
        regions = get_dataset(
            read_source(
                options.ignore_regions,
                side,
                options,
                log,
                counterpart=lambda: truth,
                wants=SHAPES_OF[self.rules[0].iou_type],
            )
        )
        truth_row_of_image, _ = pair_images(truth.images, regions.images)
        return add_regions(truth, regions, truth_row_of_image, log)


def _read_open_images(
    options: PairOptions, log: Log
) -> tuple[Iterable[Label] | None, Mapping[str, Any] | None]:
    """Return the image-level labels and the class hierarchy, after reading those that are files.

    The classes in them are named by the file of the option ``classes`` of the ground truth, if it has one.
    """
    image_labels, hierarchy = options.image_labels, options.hierarchy
    if not image_labels and not hierarchy:
        return None, None
    from odm.converters.image_labels import read_descriptions, read_hierarchy, read_image_labels

    gt = options.gt_side
    classes = gt.options.get("classes", gt.shared.get("classes"))
    names = read_descriptions(classes, log) if classes else {}
    labels: Iterable[Label] | None
    if isinstance(image_labels, (str, os.PathLike)):
        labels = read_image_labels(os.fspath(image_labels), log, names)
    else:
        labels = image_labels or None
    if isinstance(hierarchy, (str, os.PathLike)):
        return labels, read_hierarchy(os.fspath(hierarchy), log, names)
    return labels, hierarchy or None


def _parse_sigmas(value: float | str | Sequence[float] | None) -> list[float] | None:
    """Return the numbers in ``A,B``, in a list of JSON, or in a file with either or with a number per line.

    Numbers are returned as they are. Raises UsageError for other texts, PathError for a missing file.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        return list(value) if isinstance(value, Iterable) else [value]
    for lines in ([value], None):  # the text itself, then the lines of the file that it names
        try:
            texts = ",".join(lines or expand_files([f"@{value}"])).strip(" []").split(",")
            return [float(text) for text in texts if text.strip()]
        except ValueError:
            continue
    raise UsageError(
        f"{spell('sigmas')} {shorten(value)}: expected one number for all keypoints, or one for each, as in "
        "0.025,0.05, or a file with them"
    )


def _is_partwise(options: EvalOptions, rules: Sequence[Protocol]) -> bool:
    """Whether the options read detections in parts. Raises UsageError if another option forbids that."""
    memory, cluster, scratch = spell("memory"), spell("cluster"), spell("scratch")
    if options.memory is None and options.cluster is None:
        for name, value in (("scratch", options.scratch), ("rows_per_task", options.rows_per_task)):
            if value is not None:
                raise UsageError(f"{spell(name)} is used with {memory} or {cluster} only")
        return False
    if options.cluster is not None and options.scratch is None:
        raise UsageError(f"{cluster} needs {scratch} DIR: a folder that all workers share")
    for name, spec in options.in_use():
        if spec.needs_all:
            raise UsageError(
                f"{spell(name)} needs all detections at once: leave it out, or {memory} and {cluster}"
            )
    from odm.evaluate.parts import shards

    shards.check_rules(rules)
    return True


def evaluate_in_parts(options: EvalOptions, plan: Plan, log: Log, warn: Callable[[str], None]) -> Evaluation:
    """Evaluate the detections in parts, here or on a Dask cluster.

    `warn` takes notes about the run. Raises UsageError for detections in memory or a bad ``memory``.
    """
    from odm.evaluate.parts.cluster import open_dask_executor
    from odm.sharding import evaluate_shards, parse_memory

    gt, det, arguments = options.gt, options.det, plan.read_arguments(log)
    # `InMemory` is a path by its type only, and has its content with it.
    if not is_path(det) or isinstance(det, InMemory):
        raise UsageError(
            f"{spell('memory')} and {spell('cluster')} read the detections a part at a time: give a path"
        )
    try:
        memory = None if options.memory is None else parse_memory(str(options.memory))
    except ValueError as e:
        raise UsageError(f"{spell('memory')} {options.memory}: {e}") from None

    def note(text: str) -> None:
        warn(f"note: {text}")

    with contextlib.ExitStack() as stack:
        executor = None
        if options.cluster is not None:
            executor = stack.enter_context(open_dask_executor(options.cluster, note))
        truth: Request | Dataset
        if is_path(gt) and not isinstance(gt, InMemory):
            truth = make_request(gt, options.gt_side, options)
        else:
            truth = get_dataset(read_source(gt, options.gt_side, options, log))
        return evaluate_shards(
            truth,
            make_request(det, options.det_side, options),
            executor=executor,
            scratch=None if options.scratch is None else os.fspath(options.scratch),
            rows_per_task=options.rows_per_task,
            memory=memory,
            log=log,
            tell=note,
            **arguments,
        )
