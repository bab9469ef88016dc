"""The results of an evaluation: plain data, and the JSON contract.

The contract (``version`` 1) is only ever added to. Numbers are full precision; what is undefined is NaN
here and ``null`` in JSON.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace

from odm.evaluate.analysis.analysis_tables import Analyses
from odm.evaluate.matching.confusion import Confusion, count_confusions
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.sides import Joined, JoinReport
from odm.evaluate.scores.curves import (
    Curve,
    CurveArrays,
    CurveTable,
    MissCurve,
    compute_miss_curves,
    make_curve_arrays,
    make_curve_table,
)
from odm.evaluate.scores.protocols import Protocol
from odm.issues import Log, UsageError, printable
from odm.tables import Dataset, Floats, Longs
from odm.views import ResultViews, Rows, TableMixin, import_late

if TYPE_CHECKING:
    from odm.evaluate.analysis.errors import DetectionTable
    from odm.evaluate.analysis.overlaps import Overlaps
    from odm.evaluate.output.report_data import ReportData
    from odm.evaluate.output.report_ious import AtIou

VERSION = 1
"""Of the JSON contract."""

COVERAGE = "in simulations, 95 % intervals contained the true AP for 91 to 100 % of the datasets"
"""How far an interval can be trusted, measured by ``benchmarks/coverage.py``; shown beside intervals."""


POINT = ("score", "precision", "recall", "f1", "tp_at_score", "fp_at_score", "fn_at_score")
"""What a row has of the operating point."""


class Row(msgspec.Struct, frozen=True):
    """Counts, AP and operating point of one class, or of all.

    Attributes
    ----------
    gt, gt_ignored
        Ground-truth objects that count, and those that are ignored.
    det
        Detections: ``tp`` + ``fp`` + ``ignored``.
    ap
        The AP of the protocol; NaN if it has none.
    best_f1, best_f1_score
        The highest F1 at any score, and that score: the highest of those that reach it. The score is NaN
        without a true positive.
    score, precision, recall, f1
        The operating point: the score threshold, and precision, recall and F1 there. Shares of nothing are
        undefined (NaN). Without a true positive in any class the score is NaN, and all detections count.
    tp_at_score, fp_at_score
        True and false positives there, where ``tp`` and ``fp`` are of all detections.
    extra
        Values that only this protocol has, by key.
    """

    name: str
    gt: int
    gt_ignored: int
    det: int
    tp: int
    fp: int
    ignored: int
    ap: float
    score: float
    precision: float
    recall: float
    f1: float
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tp_at_score: int = 0
    fp_at_score: int = 0
    best_f1: float = math.nan
    best_f1_score: float = math.nan

    @property
    def fn(self) -> int:
        """Ground-truth objects that count and were not found."""
        return self.gt - self.tp

    @property
    def fn_at_score(self) -> int:
        """Ground-truth objects that count and were not found at the operating point."""
        return self.gt - self.tp_at_score

    def to_dict(self) -> dict[str, Any]:
        """The row as in the JSON output, with None for undefined values."""
        return {
            "class": self.name,
            **{k: getattr(self, k) for k in ("gt", "gt_ignored", "det", "tp", "fp", "fn", "ignored")},
            **{k: to_plain(getattr(self, k)) for k in ("ap", *POINT, "best_f1", "best_f1_score")},
            **{k: to_plain(v) for k, v in self.extra.items()},
        }


class Classes(tuple[Row, ...], TableMixin):  # noqa: SLOT001 -- a tuple cannot have any
    """The rows of the classes of a result; as a table they have the columns of ``per_class.csv``."""

    result: Result

    def __new__(cls, rows: Iterable[Row], result: Result) -> Self:
        """Make the tuple of rows of `result`."""
        classes = super().__new__(cls, rows)
        classes.result = result
        return classes

    def __reduce__(self) -> tuple[Any, ...]:  # pickled as a plain tuple, without the result
        return tuple, (tuple(self),)

    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, by its name; None where there is none."""
        columns: dict[str, list[Any]] = import_late("evaluate.output.render").make_class_frame(self.result)
        return columns


class Result(ResultViews, msgspec.Struct, frozen=True, eq=False, dict=True):
    """The results of one protocol.

    Attributes
    ----------
    summary
        The metrics over all classes, by key.
    classes
        A row per class, in the order of `Joined.classes`.
    overall
        The row of all classes together; its operating point is one score for all.
    curves
        By class name, for every class with ground truth.
    errors
        ``top-k``: for ``cls`` and ``loc`` the error with 1, 2, ... guesses.
    dropped
        What the protocol dropped before counting, and how many.
    at_score
        The score of the operating point if it was given; None for that of the best F1 of all classes.
    """

    rules: Protocol
    summary: dict[str, float]
    classes: tuple[Row, ...]
    overall: Row
    curves: dict[str, Curve]
    errors: dict[str, list[float]]
    dropped: dict[str, int]
    matches: Matches
    joined: Joined | None = None
    at_score: float | None = None
    scores_from: str = ""
    """Where the score of each class comes from, if it was given."""
    analysis: Analyses = msgspec.field(default_factory=Analyses)
    """Plain data by the name of the analysis, see `odm.evaluate.analysis.analyses`."""
    intervals: dict[str, list[float | None]] = msgspec.field(default_factory=dict)
    """Low and high end for keys of the summary, if they were asked for; None = undefined."""
    truth_dataset: Dataset | None = None
    """The dataset of the ground truths, if it is known. Rows of ground truths are rows of its boxes."""
    detections_dataset: Dataset | None = None
    """The dataset of the detections, if it is known. Rows of detections are rows of its boxes."""

    def __post_init__(self) -> None:
        force_setattr(self, "classes", Classes(self.classes, self))
        force_setattr(self, "analysis", Analyses(self.analysis))

    def __repr__(self) -> str:
        numbers = ", ".join(f"{k} {'-' if math.isnan(v) else f'{v:.4f}'}" for k, v in self.summary.items())
        iou = "" if self.rules.averaged else f" at IoU {self.iou:g}"
        return f"<Result: {self.protocol}{iou}, {len(self.classes)} classes: {numbers}>"

    @property
    def protocol(self) -> str:
        """The protocol's name."""
        return self.rules.name

    @property
    def iou(self) -> float | list[float]:
        """The IoU threshold, or the list of thresholds that are averaged."""
        return list(self.rules.ious) if self.rules.averaged else self.rules.ious[0]

    @property
    def definition(self) -> str:
        """The definition of the numbers, in one line."""
        return self.rules.definition

    @functools.cached_property
    def arrays(self) -> CurveArrays:
        """Precision (T, R, K, A, M) and recall (T, K, A, M) as in pycocotools, -1 = undefined."""
        return make_curve_arrays(self.matches)

    @functools.cached_property
    def detections(self) -> DetectionTable:
        """The outcome of every detection, and the reason of each false positive."""
        from odm.evaluate.analysis.errors import make_detection_table

        return replace(make_detection_table(self.sides, self.matches, self.overlaps), result=self)

    @functools.cached_property
    def overlaps(self) -> Overlaps:
        """The best overlaps of each box with those of its class and of other classes."""
        from odm.evaluate.analysis.outcome_table import OutcomeTable
        from odm.evaluate.analysis.overlaps import overlaps_of

        return overlaps_of(self.sides, OutcomeTable.of(self.sides, self.matches))

    @functools.cached_property
    def missed(self) -> Rows[dict[str, Any]]:
        """The ground truths that count and that no detection found, at any score, as in ``missed.csv``."""
        rows: Rows[dict[str, Any]] = import_late("evaluate.output.render").list_missed(self)
        return rows

    @functools.cached_property
    def curve_table(self) -> CurveTable:
        """Detection by detection down each curve: true and false positives so far, precision and recall."""
        return make_curve_table(self.matches)

    @functools.cached_property
    def miss_curves(self) -> list[MissCurve]:
        """Miss rates over false positives per image, of protocols that have them."""
        return compute_miss_curves(self.matches) if self.rules.rates else []

    def confusion(self, *, score: float | None = None, iou: float = 0.5) -> Confusion:
        """The confusion matrix of detections with at least `score`, or else at the operating point."""
        return count_confusions(
            self.sides, self.rules, score=self.thresholds if score is None else score, iou=iou
        )

    @property
    def thresholds(self) -> Floats:
        """(classes,) the operating point: from which score on the detections of a class count.

        It is `at_score`, or the given score of each class, or that of the best F1 of all classes together.
        Images, the confusion matrix and the report count there.
        """
        if self.scores_from:
            return np.array([row.score for row in self.classes], np.float64)
        score = self.overall.score if self.at_score is None else self.at_score
        # NaN, without a true positive: all detections count.
        return np.full(len(self.classes), -np.inf if math.isnan(score) else score)

    def report_data(self) -> ReportData:
        """The data a report shows for this result: outcomes by class and score, misses, confusion by
        score.
        """
        from odm.evaluate.output.report_data import report_data

        return report_data(self.sides, self.rules, self.detections, self.overall.score)

    def report_ious(self) -> list[AtIou]:
        """Return the outcome of each box at each IoU from 0.5 to 0.95, as with ``iou=`` of `evaluate`.

        It is empty under protocols with one threshold per object or one count per image.
        """
        from odm.evaluate.output.report_ious import evaluate_at_ious

        return list(evaluate_at_ious(self.sides, self.rules, self.detections))

    def report_suspects(self) -> list[dict[str, Any]]:
        """Return the labels to review, most suspicious first, as in ``suspects.csv``."""
        rows: list[dict[str, Any]] = import_late("evaluate.analysis.review").list_suspects(self)
        return rows

    @property
    def sides(self) -> Joined:
        """The boxes of both sides. Raises UsageError if the result was made from matches only."""
        if self.rules.tubes:
            raise UsageError(f"{self.protocol} measures whole tracks, but this is made of single boxes")
        if self.joined is None:
            raise UsageError("this result was made from matches only, which do not contain the boxes")
        return self.joined

    def to_dict(self) -> dict[str, Any]:
        """Return the result as in the JSON output."""
        data: dict[str, Any] = {
            "protocol": self.protocol,
            "iou": self.iou,
            "iou_type": self.rules.iou_type,
            "definition": self.definition,
            "summary": {k: to_plain(v) for k, v in self.summary.items()},
            "overall": {k: v for k, v in self.overall.to_dict().items() if k not in ("class", "ap")},
            "classes": [row.to_dict() for row in self.classes],
        }
        if self.errors:
            data["errors"] = {k: to_plain(v) for k, v in self.errors.items()}
        if self.dropped:
            data["dropped"] = self.dropped
        if self.intervals:
            data["intervals"] = self.intervals
        if self.analysis:
            data["analysis"] = dict(self.analysis)
        return data


class Evaluation(ResultViews, msgspec.Struct, frozen=True, eq=False):
    """The join report and one result per protocol and IoU."""

    joined: Joined
    results: list[Result]
    log: Log
    truth: Dataset | None = None
    """The former name of `truth_dataset`."""
    detections_dataset: Dataset | None = None
    """The dataset of the detections, if it is known. Rows of detections are rows of its boxes."""
    tags: Mapping[str, Longs] = msgspec.field(default_factory=dict)
    """The numbers of the images of each tag that an analysis by slices was given, by ``name=value``."""

    def __post_init__(self) -> None:
        # Each result knows the datasets too, for its tables; those that know them already stay as they are.
        self.results[:] = [
            result
            if result.truth_dataset is self.truth
            else replace(result, truth_dataset=self.truth, detections_dataset=self.detections_dataset)
            for result in self.results
        ]

    def __repr__(self) -> str:
        return f"<Evaluation: {len(self.joined.images)} images, results {self.results!r}>"

    @property
    def truth_dataset(self) -> Dataset | None:
        """The dataset of the ground truths, if it is known. Rows of ground truths are rows of its boxes."""
        return self.truth

    @property
    def join(self) -> JoinReport:
        """The counts of what was joined, and of what exists on one side only."""
        return self.joined.report

    @property
    def result(self) -> Result:
        """The only result. Raises UsageError if there are several."""
        if len(self.results) != 1:
            raise UsageError(f"there are {len(self.results)} results: choose one of .results")
        return self.results[0]

    @property
    def summary(self) -> dict[str, float]:
        """The summary of the only result."""
        return self.result.summary

    @property
    def classes(self) -> tuple[Row, ...]:
        """The class rows of the only result."""
        return self.result.classes

    @property
    def curves(self) -> dict[str, Curve]:
        """The curves of the only result."""
        return self.result.curves

    @property
    def detections(self) -> DetectionTable:
        """The outcome of every detection of the only result, and the reason of each false positive."""
        return self.result.detections

    @property
    def missed(self) -> Rows[dict[str, Any]]:
        """The ground truths that no detection of the only result found."""
        return self.result.missed

    @property
    def analysis(self) -> Analyses:
        """The analyses of the only result."""
        return self.result.analysis

    def to_dict(self) -> dict[str, Any]:
        """Return all results as in the JSON output."""
        from odm.evaluate.doubts import DOUBTFUL

        doubtful = {code.name for code in DOUBTFUL}
        return {
            "version": VERSION,
            "join": self.join.to_dict(),
            "results": [result.to_dict() for result in self.results],
            "doubts": [
                {"code": issue.code, "place": issue.location, "message": issue.message}
                for issue in self.log.issues
                if issue.code in doubtful
            ],
            "notes": [printable(note) for note in self.log.notes],
        }


def to_plain(value: Any) -> Any:
    """Return a value as JSON holds it: None for NaN, `float` for NumPy's ``float64``, a list for a tuple."""
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    return value
