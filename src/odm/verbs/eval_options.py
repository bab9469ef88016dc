"""The options of commands that evaluate detections against a ground truth, and those of ``odm eval``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS, Protocol
from odm.evaluate.matching.sides import ExtraImages, Label
from odm.evaluate.scores.protocol_overrides import Areas, Ious
from odm.evaluate.scores.protocols import DEFAULT, IouType, group_names_by_field
from odm.issues import Log, UsageError, shorten, spell
from odm.verbs.options import ANALYSIS, DET, GT, MEMORY, OUTPUT, PROTOCOL, WHAT, Options, argument, option
from odm.verbs.shared import ReportOptions, Side, SkipFilesOptions
from odm.verbs.sources import Source
from odm.verbs.words import Analysis, FormatName, PairFormatOptions, Path, ProtocolName


def parse_numbers(text: str) -> list[int]:
    """Return the whole numbers in a text such as ``1,10``. Raises UsageError for other texts."""
    try:
        return [int(number_text) for number_text in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{spell('recall_at')} {shorten(text)}: expected whole numbers from 1, as in 1,10,50"
        ) from None


def parse_score(text: str) -> float:
    """Return the score in a text. Raises ValueError, which names the option for a file of thresholds."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{shorten(text)!r} is not a number; {spell('at_scores')} takes a file of thresholds"
        ) from None


class SideOptions(Options, heading=GT):
    """How each of the two sides is read."""

    gt_format: FormatName | None = option("Format of GT; auto-detected if omitted.", "FORMAT", default=None)
    gt_encoding: str = option("Encoding of the text files of GT.", "NAME", default="")
    det_format: FormatName | None = option(
        "Format of DET; auto-detected if omitted.", "FORMAT", default=None, heading=DET
    )
    det_encoding: str = option("Encoding of the text files of DET.", "NAME", default="", heading=DET)


class RuleOptions(Options, heading=PROTOCOL):
    """What is changed about a protocol."""

    iou_type: IouType | None = option("What is compared. [default: the protocol's]", default=None)
    sigmas: float | str | Sequence[float] | None = option(
        "How far off each keypoint may be, as in COCO: a number for all, one for each, or a file.",
        "A,B|FILE",
        default=None,
    )
    max_dets: int | None = option(
        "Keep at most N detections per image and class (lvis: per image).", "N", default=None
    )
    recall_at: Sequence[int] | None = option(
        "coco: also report average recall of the best K detections per image and class.",
        "K,K",
        default=None,
        parse=parse_numbers,
    )
    area: Areas | None = option(
        "Evaluate only boxes of this area: small, medium, large, or LOW:HIGH in square pixels. "
        "NAME=LOW:HIGH (repeatable): also report AP@NAME and so on.",
        "[NAME=]LOW:HIGH",
        default=None,
        repeatable=True,
    )
    interpolation: Literal["all", "11", "101"] | None = option("Recall points for AP.", default=None)
    pixels: Literal["edges", "inclusive"] | None = option(
        "Box width: right - left, or right - left + 1.", default=None
    )
    keep_difficult: bool | None = option("Count difficult objects like any other.", default=None)
    without_oddities: bool | None = option(
        "Leave out what nobody wants outside the challenge of the protocol.", default=None
    )
    at_score: float | None = option(
        "Score threshold for precision, recall, F1. [default: that of the best F1]",
        "SCORE",
        default=None,
        parse=parse_score,
    )


class ScopeOptions(Options, heading=WHAT):
    """Which images, classes and detections are evaluated."""

    only_classes: str | Sequence[str] | None = option(
        "Evaluate only these classes (@FILE: one per line).", "A,B|@FILE", default=None
    )
    only_images: str | Sequence[str] | None = option(
        "Evaluate only these images (@FILE: one per line).", "A,B|@FILE", default=None
    )
    extra_images: ExtraImages = option(
        "Images that only DET has: an error, background (false positives), or ignored.", default="error"
    )
    merge_runs: bool = option(
        "Pool several results files of the same images in the folder DET.", default=False
    )
    rename: Mapping[str, str] | str | Sequence[str] = option(
        "Rename a class of DET (repeatable); @FILE: one OLD=NEW per line.",
        "OLD=NEW",
        default=(),
        repeatable=True,
        needs_all=True,
    )
    score_min: float | None = option("Drop detections with a lower score.", "SCORE", default=None)
    class_agnostic: bool = option(
        "Ignore classes: treat all boxes as one class.", default=False, needs_all=True
    )
    ignore_regions: Source | None = option(
        "Boxes or outlines in any format: what lies in them is no false positive of any class.",
        "FILE",
        default=None,
        path="read",
        needs_all=True,
        boxes_only=True,
    )
    image_labels: Path | Sequence[Label] | None = option(
        "Image-level labels of Open Images (CSV).", "FILE", default=None, path="read", boxes_only=True
    )
    hierarchy: Path | Mapping[str, Any] | None = option(
        "Class hierarchy of Open Images (JSON).", "FILE", default=None, path="read", boxes_only=True
    )


class PairOptions(RuleOptions, ScopeOptions, ReportOptions, SkipFilesOptions, SideOptions, PairFormatOptions):
    """How a ground truth and detections are read and evaluated."""

    gt: Source = argument(kw_only=False)

    @property
    def gt_side(self) -> Side:
        """The ground truth."""
        return self.make_side("gt", self.gt_format, "gt", self.gt_encoding)

    @property
    def det_side(self) -> Side:
        """The detections; ids of images and classes that are left out anyway need not be known."""
        unlisted = [] if self.extra_images == "error" else ["image_id"]
        unlisted += [] if self.only_classes is None else ["category_id"]
        return self.make_side("det", self.det_format, "det", self.det_encoding, *unlisted)


class AnalysisOptions(Options, heading=ANALYSIS):
    """What is computed beyond the numbers."""

    analyze: Analysis | Literal["all"] | Sequence[Analysis] | None = option(
        "Analyse errors: any of tide, lrp, calibration, images, slices.",
        "A,B|all",
        default=None,
        completions=lambda: get_args(Analysis),
        needs_all=True,
        boxes_only=True,
    )
    diagnose: bool = option(
        "Try other readings of the files even if the result is good.", default=False, needs_all=True
    )
    confusion: Literal["counts", "gt", "det"] | None = option(
        "Confusion matrix: counts (default), or normalised by GT or detected class.",
        default=None,
        flag_value="counts",
        needs_all=True,
    )
    ci: bool = option(
        "Add confidence intervals, by resampling images.", default=False, needs_all=True, boxes_only=True
    )
    replicates: int = option("Bootstrap replicates of --ci.", "N", default=1000)
    seed: int = option("Random seed of --ci.", "N", default=0)
    bootstrap_areas: bool = option("With --ci, also for area ranges (slower).", default=False)
    tags: Path | Sequence[Path] = option(
        "CSV of image properties (columns: image, others), or list of images: slices for --analyze "
        "(repeatable).",
        "FILE",
        default=(),
        repeatable=True,
        path="read",
    )
    thresholds: str | None = option(
        "Choose a score threshold per class: f1, fbeta:B, precision:P, recall:R, cost:FP:FN, lrp.",
        "RULE",
        default=None,
        needs_all=True,
        boxes_only=True,
    )
    save_thresholds: Path | None = option(
        "Write the thresholds chosen by --thresholds.", "FILE", default=None, path="written"
    )


class ThresholdOptions(Options, heading=PROTOCOL):
    """The operating points of a file."""

    at_scores: Path | None = option(
        "Use the thresholds in FILE, written by --save-thresholds.",
        "FILE",
        default=None,
        path="read",
        needs_all=True,
        boxes_only=True,
    )


class AnalysedOptions(PairOptions, ThresholdOptions, AnalysisOptions):
    """An evaluation with analyses."""


class MemoryOptions(Options, heading=MEMORY):
    """How detections are read a part at a time."""

    memory: str | None = option(
        "Read DET in parts, using about this much memory: 2GB (Parquet and COCO results).",
        "SIZE",
        default=None,
    )
    cluster: str | None = option(
        "Process DET on the workers of a Dask scheduler: tcp://host:8786 (extra [cluster]).",
        "ADDRESS",
        default=None,
    )
    scratch: Path | None = option(
        "Folder for intermediate files of --memory and --cluster; they are deleted at the end.",
        "DIR",
        default=None,
        path="written",
    )
    rows_per_task: int | None = option("Number of detections per task.", "N", default=None, bounds=(1, None))


_NAMES_OF_FIELDS = "".join(
    f"For {field}: {', '.join(names)}. " for field, names in group_names_by_field().items()
)


class EvalOptions(AnalysedOptions, MemoryOptions, verb="eval"):
    """The options of `odm.eval`."""

    det: Source = argument(kw_only=False)
    protocol: ProtocolName | Protocol | Sequence[ProtocolName | Protocol] | None = option(
        f"Evaluation protocol (repeatable). {_NAMES_OF_FIELDS}[default: {DEFAULT}]",
        "NAME",
        default=None,
        heading=PROTOCOL,
        choices=[*PROTOCOLS, *SHAPE_PROTOCOLS, *TUBE_PROTOCOLS],
        repeatable=True,
        kw_only=False,
    )
    iou: Ious | None = option(
        "IoU threshold (repeatable): 0.5, 0.5:0.05:0.95, or of classes as car=0.7,person=0.5; protocols with "
        "mAP average several. [default: the protocol's]",
        "IOU",
        default=None,
        heading=PROTOCOL,
        repeatable=True,
    )
    save: Path | None = option(
        "Also write results.json and CSV files to DIR.",
        "DIR",
        default=None,
        heading=OUTPUT,
        path="written",
        needs_all=True,
    )
    plots: Path | None = option(
        "Also draw plots: PNG, SVG and PDF (extra [plot]).",
        "DIR",
        default=None,
        heading=OUTPUT,
        path="written",
        needs_all=True,
        boxes_only=True,
    )
    overwrite: bool = option(
        "Replace existing files in the targets of --save, --plots, --report.", default=False
    )
    log: Log | None = None
