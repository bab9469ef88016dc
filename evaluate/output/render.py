"""Results of an evaluation: the document that is shown, JSON, and the CSV files of ``--save``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from odm.document import Column, Document, Items, Line, Part, Section, Table, Verbatim, draw, format_csv
from odm.evaluate.analysis.render_analyses import (
    make_class_columns,
    make_section,
    make_sections,
    make_summary_columns,
)
from odm.evaluate.results import COVERAGE, POINT, Evaluation, Result, Row
from odm.evaluate.scores.accumulate import ALIASES, level_keys, miss_keys
from odm.evaluate.scores.curves import compute_miss_curves
from odm.evaluate.scores.protocols import PROTOCOLS
from odm.evaluate.scores.set_ups import AreaRange
from odm.issues import UsageError, shorten
from odm.numbers import format_number, format_percent
from odm.tables import FREQUENCIES, Dataset
from odm.terminal import cell, json_text
from odm.views import Rows

OUTPUTS = ("table", "json", "csv", "markdown", "latex")
"""What `render` can write."""

_HEAD = ("protocol", "iou")
_ALWAYS = (
    *("class", "gt", "gt_ignored", "det", "tp", "fp", "fn", "ignored"),
    *(*POINT, "best_f1", "best_f1_score"),
)
"""Columns of the CSV of classes that are there even if no row has a value."""
_COLUMN_OF = {
    f"{key}{end}": f"{column}{end}"
    for key, column in (("AP", "ap"), ("mAP", "ap"), ("CorLoc", "corloc"))
    for end in ("", "_low", "_high")
}
"""By a key of the summary, the column that has the same number of each class."""
_NAMES_SHOWN = 10


def render(evaluation: Evaluation, output: str = "table", *, width: int | None = None) -> str:
    """Render an evaluation as text that ends with a newline.

    Parameters
    ----------
    evaluation
        What `odm.evaluate.evaluate` returned.
    output
        ``table``, ``json`` (the contract), ``csv`` (a row per class), ``markdown`` or ``latex`` (booktabs).
    width
        How many characters a line of a table may have; columns that do not fit, also in LaTeX, are left out.
        None shows all.

    Raises
    ------
    UsageError
        If `output` is another word.
    """
    if output == "json":
        return to_json(evaluation)
    if output == "csv":
        return format_per_class_csv(evaluation)
    if output not in OUTPUTS:
        raise UsageError(f"output={output}: choose one of {', '.join(OUTPUTS)}")
    document_width = None if output == "markdown" else width  # a page of Markdown has no width
    return draw(make_evaluation_document(evaluation, document_width), output, width)


def save(evaluation: Evaluation, write: Callable[[str, bytes], object]) -> dict[str, int]:
    """Call `write` with name and content of each file of ``--save``; return counts of suspects by kind."""
    write("results.json", to_json(evaluation).encode())
    write("per_class.csv", format_per_class_csv(evaluation).encode())
    write("curves.csv", format_curves_csv(evaluation).encode())
    if any(result.rules.rates for result in evaluation.results):
        write("miss_rates.csv", format_miss_rates_csv(evaluation).encode())
    if any(result.rules.tubes for result in evaluation.results):  # the rest is of single boxes
        return {}
    write("detections.csv", format_detections_csv(evaluation).encode())
    write("accumulated.csv", format_accumulated_csv(evaluation).encode())
    write("confusion.csv", format_confusion_csv(evaluation).encode())
    write("images.csv", format_images_csv(evaluation).encode())
    review, suspects = make_review_files(evaluation)
    for name, text in review.items():
        write(name, text.encode())
    return suspects


def to_json(evaluation: Evaluation) -> str:
    """Render the JSON contract."""
    return json_text(evaluation.to_dict()) + "\n"


# -------------------------------------------------------------------------------------------------- CSV


def format_per_class_csv(evaluation: Evaluation) -> str:
    """Format a row per result and class; the last row of a result, without a class, is its summary.

    A mean over the classes is in the column of what it is the mean of, whatever the summary calls it. Columns
    of numbers that no result has are left out.
    """
    columns, rows = _collect_class_rows(evaluation.results)
    return format_csv(columns, ([row.get(c) for c in columns] for row in rows))


def _collect_class_rows(results: Iterable[Result]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and the rows of `format_per_class_csv`."""
    rows: list[dict[str, Any]] = []
    shown_keys = {*_HEAD, *_ALWAYS}
    for result in results:
        # The rows of the classes. 0.9, not 0.8999999999999999: a threshold is shown as it was meant.
        ious = [float(f"{iou:.12g}") for iou in result.rules.ious]
        head = {"protocol": result.protocol, "iou": ious if result.rules.averaged else ious[0]}
        analysis_values = make_class_columns(result)
        rows += [
            {**head, **r, **analysis_values.get(r["class"], {})}
            for r in (c.to_dict() for c in result.classes)
        ]

        # The row of all classes: the summary in the columns of the classes, where these have the same number.
        summary = {**result.to_dict()["summary"], **make_summary_columns(result)}
        summary = {_COLUMN_OF.get(key, key): value for key, value in summary.items()}
        rows.append({**head, **result.overall.to_dict(), **summary})
        # These stay even if they are undefined everywhere.
        shown_keys.update({"ap", "AP50", "AP75"} & summary.keys())

    # Columns in the order in which they first occur, without those that have no value.
    keys = dict.fromkeys(key for row in rows for key in row)
    shown_keys.update(key for key in keys if any(row.get(key) not in (None, "") for row in rows))
    columns = [key for key in keys if key in shown_keys]
    for key in ("AP75", "AP50"):  # beside AP
        if key in columns and "ap" in columns:
            columns.remove(key)
            columns.insert(columns.index("ap") + 1, key)

    # Lists, such as thresholds, as numbers with spaces between.
    for row in rows:
        row |= {
            key: " ".join("" if v is None else repr(v) for v in value)
            for key, value in row.items()
            if isinstance(value, list)
        }
    return columns, rows


def format_detections_csv(evaluation: Evaluation) -> str:
    """Format a row per result and detection, with the reason of every false positive.

    Under several thresholds the outcome is that at the one which the counts are of, .5 if it is among them.
    ``detection`` and ``gt`` count the boxes of the two sides from 0, in the order of their files.
    """
    return _format_in_blocks(
        evaluation,
        DETECTIONS,
        lambda result: len(result.detections.row),
        lambda result, part: _make_detection_columns(result, evaluation.truth_dataset, part),
    )


DETECTIONS = (
    *("detection", "image", "class", "score", "left", "top", "right", "bottom"),
    *("best_iou", "gt", "outcome", "reason", "gt_file", "gt_line"),
)


def _make_detection_columns(
    result: Result, truth: Dataset | None, row_range: slice
) -> Iterator[Iterable[Any]]:
    """Yield the columns `DETECTIONS` of a range of detections; an undefined value is an empty text."""
    from odm.evaluate.analysis.review import list_places
    from odm.evaluate.matching.matches import OUTCOMES, REASONS

    reasons = (*REASONS, "")  # -1 = none
    table = result.detections
    gt = table.gt[row_range]
    yield table.row[row_range].tolist()
    yield map(table.images.__getitem__, table.image[row_range].tolist())
    yield map(table.classes.__getitem__, table.category[row_range].tolist())
    yield table.score[row_range].tolist()
    yield from table.xyxy[row_range].T.tolist()
    yield table.best_iou[row_range].tolist()
    yield np.where(gt < 0, "", gt.astype(object)).tolist()
    yield map(OUTCOMES.__getitem__, table.outcome[row_range].tolist())
    yield map(reasons.__getitem__, table.reason[row_range].tolist())
    yield from list_places(truth, gt)


def make_detection_frame(result: Result) -> dict[str, list[Any]]:
    """Return the columns of ``detections.csv`` of one result, by name."""
    columns = zip(DETECTIONS, _make_detection_columns(result, result.truth_dataset, slice(None)), strict=True)
    n = len(result.detections)
    head = {name: [value] * n for name, value in zip(_HEAD, _get_head(result), strict=True)}
    return head | {name: list(map(_blank_to_none, column)) for name, column in columns}


def make_class_frame(result: Result) -> dict[str, list[Any]]:
    """Return the columns of ``per_class.csv`` of the classes of one result, by name."""
    columns, rows = _collect_class_rows([result])
    *class_rows, _summary = rows
    return {name: [_blank_to_none(row.get(name)) for row in class_rows] for name in columns}


def list_missed(result: Result) -> Rows[dict[str, Any]]:
    """List the rows of ``missed.csv`` of one result."""
    from odm.evaluate.analysis.review import MISSED, make_review_rows

    head = dict(zip(_HEAD, _get_head(result), strict=True))
    rows, _ = make_review_rows(result, result.truth_dataset, result.detections_dataset)
    return Rows([{**head, **dict(zip(MISSED, row, strict=True))} for row in rows], (*_HEAD, *MISSED))


def _blank_to_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value else value


def format_accumulated_csv(evaluation: Evaluation) -> str:
    """Format a row per result and detection down the curve of its class, with the counts up to it.

    ``detection`` is its number in ``detections.csv``, ``rank`` its position on the curve. See
    `odm.evaluate.scores.curves.CurveTable`.
    """
    from odm.evaluate.analysis.review import list_places

    columns = ["class", "rank", "detection", "image", "file", "line", "score", "best_iou"]
    columns += ["tp", "fp", "accumulated_tp", "accumulated_fp", "precision", "recall"]

    def make_columns(result: Result, row_range: slice) -> Iterator[Iterable[Any]]:
        """Yield the columns of a range of rows of the curve table of a result."""
        table, detections = result.curve_table, result.detections
        detection_rows = table.row[row_range]
        yield map(detections.classes.__getitem__, table.category[row_range].tolist())
        yield table.rank[row_range].tolist()
        yield detection_rows.tolist()
        yield map(detections.images.__getitem__, table.image[row_range].tolist())
        yield from list_places(evaluation.detections_dataset, detection_rows)
        yield table.score[row_range].tolist()
        # The rows of `detections` are ascending: the position of each.
        yield detections.best_iou[np.searchsorted(detections.row, detection_rows)].tolist()
        for is_outcome in (table.tp, table.fp):
            yield is_outcome[row_range].astype(np.uint8).tolist()
        for sums in (table.accumulated_tp, table.accumulated_fp):
            yield sums[row_range].tolist()
        for share in (table.precision[row_range], table.recall[row_range]):
            yield np.where(np.isnan(share), "", share.astype(object)).tolist()

    return _format_in_blocks(evaluation, columns, lambda result: len(result.curve_table), make_columns)


_BLOCK = 2**16
"""Rows of a CSV file that are held as Python objects at a time."""


def _format_in_blocks(
    evaluation: Evaluation,
    columns: Sequence[str],
    count_rows: Callable[[Result], int],
    make_columns: Callable[[Result, slice], Iterable[Iterable[Any]]],
) -> str:
    """Format columns of detections as CSV, after protocol and IoU, `_BLOCK` rows at a time.

    `count_rows` returns the number of rows of a result, `make_columns` the columns of a range of them.
    """
    rows = (
        zip(
            *map(itertools.repeat, _get_head(result)),
            *make_columns(result, slice(start, start + _BLOCK)),
            strict=False,  # protocol and IoU are repeated without end
        )
        for result in evaluation.results
        for start in range(0, count_rows(result), _BLOCK)
    )
    return format_csv([*_HEAD, *columns], itertools.chain.from_iterable(rows))


def _format_rows(
    evaluation: Evaluation, columns: Sequence[str], make_rows: Callable[[Result], Iterable[Sequence[Any]]]
) -> str:
    """Format the rows of each result as CSV, after its protocol and IoU."""
    rows_of_results = (
        (*_get_head(result), *row) for result in evaluation.results for row in make_rows(result)
    )
    return format_csv([*_HEAD, *columns], rows_of_results)


def format_images_csv(evaluation: Evaluation) -> str:
    """Format a row per result and image, by descending error; ``at`` is the score threshold of the counts."""
    from odm.evaluate.analysis.images import COLUMNS, image_table
    from odm.evaluate.analysis.table import table_of

    def make_rows(result: Result) -> Iterator[Sequence[Any]]:
        """Yield the images of a result, each with the score threshold in words."""
        best_score = result.overall.score
        score_text = "all scores" if math.isnan(best_score) else f"{best_score!r}, the best F1 of all classes"
        if result.scores_from:
            score_text = f"the scores of {result.scores_from}"
        elif result.at_score is not None:
            score_text = repr(result.at_score)
        for row in image_table(table_of(result), result.thresholds).rows():
            yield *(row[key] for key in COLUMNS), score_text

    return _format_rows(evaluation, [*COLUMNS, "at"], make_rows)


def make_review_files(evaluation: Evaluation) -> tuple[dict[str, str], dict[str, int]]:
    """Return the files to review, by name, and the number of suspects of each kind in the first result.

    ``missed.csv`` lists objects that were not found, ``suspects.csv`` annotations that look wrong, and
    ``review.txt`` the images of the suspects of the first result, a name per line.
    """
    from odm.evaluate.analysis.review import KIND_WORDS, MISSED, SUSPECTS, make_review_rows

    sides = evaluation.truth_dataset, evaluation.detections_dataset
    rows_of_result = {id(result): make_review_rows(result, *sides) for result in evaluation.results}
    _, suspects = rows_of_result[id(evaluation.results[0])]
    image_column = SUSPECTS.index("image")
    texts = {
        "missed.csv": _format_rows(evaluation, MISSED, lambda result: rows_of_result[id(result)][0]),
        "suspects.csv": _format_rows(evaluation, SUSPECTS, lambda result: rows_of_result[id(result)][1]),
        "review.txt": "".join(f"{name}\n" for name in dict.fromkeys(row[image_column] for row in suspects)),
    }
    kinds = [row[SUSPECTS.index("kind")] for row in suspects]
    return texts, {kind: kinds.count(kind) for kind in KIND_WORDS if kind in kinds}


def format_curves_csv(evaluation: Evaluation) -> str:
    """Format recall, precision and score at every true positive, by class."""

    def make_rows(result: Result) -> Iterator[Sequence[Any]]:
        for name, curve in result.curves.items():
            columns = (curve.recall.tolist(), curve.precision.tolist(), curve.score.tolist())
            yield from zip(itertools.repeat(name), *columns, strict=False)

    return _format_rows(evaluation, ["class", "recall", "precision", "score"], make_rows)


def format_miss_rates_csv(evaluation: Evaluation) -> str:
    """Format the miss rate of each class and set-up over false positives per image, by descending score."""

    def make_rows(result: Result) -> Iterator[Sequence[Any]]:
        # `all_curves`: not only those that a plot has room for.
        for curve in compute_miss_curves(result.matches, all_curves=True) if result.rules.rates else ():
            names = result.matches.classes[curve.category], result.rules.areas[curve.area].name
            points = zip(curve.false_per_image.tolist(), curve.miss_rate.tolist(), strict=True)
            yield from ((*names, *point) for point in points)

    return _format_rows(evaluation, ["class", "set_up", "false_per_image", "miss_rate"], make_rows)


def format_confusion_csv(evaluation: Evaluation) -> str:
    """Format how often each class was detected as each class; an empty class is the background.

    Only pairs that occur are listed, with their shares of the class of either side. The least score and IoU
    stand in every row.
    """

    def make_rows(result: Result) -> Iterator[Sequence[Any]]:
        table = result.confusion()
        names = (*table.classes, "")
        # Of each cell that is not 0 the two classes, the last one being the background, and the count.
        columns = (*table.table.index, table.table.n, table.cell_shares("gt"), table.cell_shares("det"))
        for t, d, *numbers in zip(*(column.tolist() for column in columns), strict=True):
            yield table.score, table.iou, names[t], names[d], *numbers

    columns = ("score_min", "iou_min", "gt_class", "det_class", "count", "share_of_gt", "share_of_det")
    return _format_rows(evaluation, columns, make_rows)


def _get_head(result: Result) -> tuple[str, float]:
    """Return the values of `_HEAD`: the protocol, and the IoU threshold of counts, curves and outcomes."""
    return result.protocol, result.rules.ious[result.rules.reference]


# --------------------------------------------------------------------------------------------- document


def make_evaluation_document(evaluation: Evaluation, width: int | None = None) -> Document:
    """Make the document: what was joined, and the sections of each result; see `make_result_document`."""
    return [
        [_describe_join(evaluation)],
        *itertools.chain(*(make_result_document(r, width) for r in evaluation.results)),
    ]


def _describe_join(evaluation: Evaluation) -> Items:
    """Say how many images and classes both sides have, and name some that only one side has."""
    report = evaluation.join
    lines = [
        f"{report.unit}: "
        + _count_sides(
            report.images_both, report.images_gt_only, report.images_det_only, report.images_empty
        ),
        f"classes: {_count_sides(len(report.classes_both), report.classes_gt_only, report.classes_det_only)}",
    ]
    if set(report.how) - {"name"}:  # some were matched by another method than by name
        lines.append("matched by " + ", ".join(f"{method}: {n}" for method, n in report.how.items()))
    for title, names in (
        (f"{report.unit} only in the ground truth", report.images_gt_only),
        (f"{report.unit} only in the detections", report.images_det_only),
        ("classes only in the ground truth", report.classes_gt_only),
        ("classes only in the detections", report.classes_det_only),
    ):
        if names:
            hint_by_name = {
                n: f" (nearest: {shorten(nearest_name)})"
                for n, nearest_name in report.hints.items()
                if nearest_name is not None
            }
            shown = [shorten(n) + hint_by_name.get(n, "") for n in names[:_NAMES_SHOWN]]
            n_more = len(names) - len(shown)
            lines.append(f"{title}: {', '.join(shown)}" + (f", and {n_more} more" if n_more else ""))
    return Items(lines)


def _count_sides(n_both: int, gt_only: Sequence[str], det_only: Sequence[str], n_empty: int = 0) -> str:
    """Say how many items both sides have (`n_empty` of them without a detection), and only one side."""
    empty_words = f" ({n_empty} without a detection)" if n_empty else ""
    only_words = f"{len(gt_only)} only in the ground truth, {len(det_only)} only in the detections"
    return f"{n_both} in both{empty_words}, {only_words}"


def make_result_document(result: Result, width: int | None = None) -> Document:
    """Make the sections of a result: definition, classes, analyses, and the numbers over all classes.

    What can be listed in more than one way is listed so that it fits into lines of `width` characters.
    """
    definition = Line(result.definition, "strong")
    document: Document = [[definition, *(_make_class_part(result) if result.classes else ())]]
    document += make_sections(result, width)
    if level_keys(result.rules):
        document.append(_make_level_section(result))
    elif result.rules.named_areas and not result.rules.apart:
        document.append(_make_area_section(result))
    numbers = [*([_list_intervals(result)] if result.intervals else []), _make_summary(result, width)]
    if result.rules.averaged:
        numbers.append(Line(format_headline(result), "strong"))
    return [*document, numbers]


_LEVELS = ("easy", "moderate", "medium", "hard")


def _sort_levels(result: Result) -> list[AreaRange]:
    return sorted(result.rules.areas, key=lambda area: _LEVELS.index(area.name))


def _make_level_section(result: Result) -> Section:
    """Make the table of the numbers of each class at each level of difficulty, and their means."""
    rules, npos = result.rules, result.matches.npos
    kinds = list(dict.fromkeys(key.partition("@")[0] for key in level_keys(rules)))  # "AP" of "AP@easy"
    # Orientation similarity is left out where a detection has no angle.
    kinds = [k for k in kinds if not math.isnan(result.summary[f"{k}@{rules.areas[0].name}"])] or kinds[:1]
    levels = [(rules.areas.index(area), area.name) for area in _sort_levels(result)]
    # Of each class its name, (areas,) ground truths, and numbers by key.
    table_rows: list[tuple[str, Any, Mapping[str, Any]]] = [
        (row.name, n_objects, row.extra)
        for row, n_objects in zip(result.classes, npos, strict=True)
        if n_objects.any()
    ]
    if len(table_rows) != 1:  # of a single class the means are its own numbers
        table_rows.append(("(all)", npos.sum(axis=0), result.summary))
    columns = [
        Column("class", cell),
        Column("level"),
        Column("GT"),
        *(Column(k, format_percent) for k in kinds),
    ]
    rows = [
        [name, level, int(n_objects[i]), *(numbers[f"{kind}@{level}"] for kind in kinds)]
        for name, n_objects, numbers in table_rows
        for i, level in levels
    ]
    return make_section("levels of difficulty", columns, rows)


def _make_area_section(result: Result) -> Section:
    """Make the table of the miss rate of each set-up, or else of the numbers of the ranges of the user."""
    rules = result.rules
    n_objects = [int(n) for n in result.matches.npos.sum(axis=0)]  # of each area range
    if rules.rates:
        columns = [Column("set-up", cell), Column("GT"), Column("MR", format_percent)]
        rows: list[list[Any]] = [
            [area.name, n, result.summary[key]]
            for area, n, key in zip(rules.areas, n_objects, miss_keys(rules), strict=True)
        ]
        return make_section("miss rate over false positives per image; lower is better", columns, rows)
    # Every named range has the same keys: AP@NAME, AP50@NAME, ...
    first_name = next(iter(rules.named_areas.values())).name
    keys = [key.removesuffix(f"@{first_name}") for key in result.summary if key.endswith(f"@{first_name}")]
    columns = [Column("range", cell), Column("area"), Column("GT")]
    columns += (Column(key, format_percent) for key in keys)
    rows = [
        [area.name, area.bounds, n_objects[i], *(result.summary[f"{key}@{area.name}"] for key in keys)]
        for i, area in rules.named_areas.items()
    ]
    return make_section("boxes by area, in square pixels", columns, rows)


def format_headline(result: Result) -> str:
    """Return the last line of a result: ``AP (mAP50-95) 0.668, ...`` where AP is a mean, with its names in
    training logs, or the main number: ``mAP = 78.91 %``.
    """
    numbers = result.summary
    if result.rules.averaged:
        name_by_key = {key: f"{key} ({alias})" for alias, key in ALIASES.items() if key in numbers}
        if "AP" in name_by_key and result.rules.ious != PROTOCOLS["coco"].ious:
            name_by_key["AP"] = "AP"  # another mean than that of COCO
        name_by_key = name_by_key or {key: key for key in list(numbers)[:3]}
        return ", ".join(f"{name} {format_number(numbers[key], '.3f')}" for key, name in name_by_key.items())
    if result.errors:
        return _list_errors(result)[-1]
    if levels := level_keys(result.rules):
        kind = levels[0].partition("@")[0]
        level_texts = (
            f"{format_percent(numbers[f'{kind}@{a.name}'])} ({a.name})" for a in _sort_levels(result)
        )
        return f"{kind} = {', '.join(level_texts)}"
    key = next(iter(numbers))
    return f"{key} = {format_percent(numbers[key])}"


def _list_intervals(result: Result) -> Items:
    """List the confidence intervals of the summary, a line each."""
    lines = [
        f"{key}: {format_percent(low)} to {format_percent(high)}"
        for key, (low, high) in result.intervals.items()
        if low is not None and high is not None
    ]
    return Items(lines, f"confidence intervals (bootstrap over images; {COVERAGE}):")


def _make_summary(result: Result, width: int | None) -> Part:
    """List the numbers over all classes, in the words of pycocotools where the protocol has them."""
    if result.rules.averaged and not (result.rules.shared_score or result.rules.apart):
        lines = format_classic_lines(result)
        if width is not None and max(map(len, lines)) > width:
            # " Average Precision  (AP) @[ ..." becomes " AP @[ ..."
            lines = [re.sub(r"^ Average \w+ +\((\w+)\)", r" \1", line) for line in lines]
        return Verbatim(lines)
    if result.errors:
        lines = _list_errors(result)
    elif level_keys(result.rules):
        lines = [format_headline(result)]
    else:
        numbers = list(result.summary.items())
        if result.rules.rates:  # several set-ups have a table: the headline alone; else it comes last
            headline, *others = numbers
            numbers = [headline] if len(miss_keys(result.rules)) > 1 else [*others, headline]
        lines = [
            f"{key} = {format_percent(value)}"
            for key, value in numbers
            # Named ranges have a table of their own, and the last line has mAP50-95, mAP50 and mAP75.
            if key != "score"
            and ("@" not in key or result.rules.rates)
            and not (result.rules.shared_score and key.startswith("mAP"))
        ]
    return Items(lines)


def _list_errors(result: Result) -> list[str]:
    return [
        f"top-{k} error: classification {format_percent(c)}, localisation {format_percent(o)}"
        for k, (c, o) in enumerate(zip(result.errors["cls"], result.errors["loc"], strict=True), 1)
    ]


def format_classic_lines(result: Result) -> list[str]:
    """Return the summary lines of pycocotools, or of lvis-api, in their wording; undefined is ``-``."""
    rules, numbers = result.rules, result.summary
    ious = rules.ious
    all_ious = f"{ious[0]:0.2f}:{ious[-1]:0.2f}"
    all_areas = rules.areas[0].name
    cap = rules.max_dets or 0
    caps = sorted({*rules.recall_at, *rules.caps})
    entries = [  # kind, IoU, area, cap of detections, key of the summary
        ("AP", all_ious, all_areas, cap, "AP"),
        ("AP", "0.50", all_areas, cap, "AP50"),
        ("AP", "0.75", all_areas, cap, "AP75"),
    ]
    areas = [area for area in ("small", "medium", "large") if f"AP{area[0]}" in numbers]
    entries += [("AP", all_ious, area, cap, f"AP{area[0]}") for area in areas]
    if rules.by_frequency:
        entries += [("AP", all_ious, all_areas, cap, f"AP{letter}") for letter in FREQUENCIES]
    entries += [("AR", all_ious, all_areas, c, f"AR{c}") for c in caps]
    entries += [
        ("AR", f"{percent / 100:.2f}", all_areas, cap, key)
        for percent in (50, 75)
        if (key := f"AR{cap}@{percent}") in numbers
    ]
    entries += [("AR", all_ious, area, cap, f"AR{area[0]}") for area in areas]
    if rules.tubes:  # which have only AP, AP50, AP75 and one AR
        entries = [*entries[:3], ("AR", all_ious, "all", cap, "AR")]
    titles = {"AP": "Average Precision", "AR": "Average Recall"}
    lines = []
    for kind, iou, area, dets, key in entries:
        group = ""
        if rules.by_frequency:
            letter = key.removeprefix("AP")  # of APr, APc and APf
            group = f"catIds={letter if letter in FREQUENCIES else 'all':>3s}"
        lines.append(
            f" {titles[kind]:<18} ({kind}) @[ IoU={iou:<9} | area={area:>6s} | maxDets={dets:>3d} {group}] = "
            f"{format_number(numbers[key], '.3f')}"
        )
    return lines


# -------------------------------------------------------------------------------- the table of classes

_FIELDS = {
    "GT": "gt",
    "det": "det",
    "ignored": "ignored",
    "score": "score",
    "TP": "tp_at_score",
    "FP": "fp_at_score",
    "FN": "fn_at_score",
    "precision": "precision",
    "recall": "recall",
    "F1": "f1",
    "best F1": "best_f1",
    "its score": "best_f1_score",
}
"""By column, the number of a row that it shows."""
_BEST = ("best F1", "its score")
_OPTIONAL = (_BEST, ("ignored",), ("det",), ("TP", "FP", "FN"), ("AP75",), ("AP50",), ("recall", "precision"))
"""Columns by how easily one does without them; a line below the table names those that did not fit."""


def make_class_table(result: Result) -> Table:
    """Make the table with a row per class and one for all."""
    ap_keys = ["AP", *(key for key in ("AP50", "AP75") if result.classes and key in result.classes[0].extra)]
    if result.rules.metric == "corloc":
        ap_keys = ["CorLoc"]
    # The scores are a column only where each class has its own; else the title of the columns says the score.
    fields = {column: field for column, field in _FIELDS.items() if column != "score" or result.scores_from}
    iou = f", IoU {result.rules.ious[result.rules.reference]:g}" if result.rules.averaged else ""
    point_text = f"{_name_point(result)}{iou}"
    note_by_column = dict.fromkeys(("det", "ignored"), "all scores") | dict.fromkeys(("GT", *_BEST), "")
    columns = [Column("class", cell)]
    columns += (
        Column(title, _format_count_or_number, group_title=note_by_column.get(title, point_text))
        for title in fields
    )
    columns += (Column(key, format_percent) for key in ap_keys)
    classes = result.classes
    if result.rules.only:  # a second spelling of a class is counted with the first
        first_rows: dict[str, Row] = {}
        classes = tuple(row for row in classes if first_rows.setdefault(row.name.casefold(), row) is row)
    rows = [_get_cells(result, row, fields.values(), ap_keys) for row in (*classes, result.overall)]
    return Table(columns, rows, _OPTIONAL, tells_dropped=True)


def _make_class_part(result: Result) -> list[Part]:
    """Make the table of classes, and a note if its score is that of the best F1, which nobody chose."""
    # No note: at all scores or one score per class, at a score of the user's, or of `yolo val`.
    point = _name_point(result)
    if not point.startswith("at score ") or result.at_score is not None or result.rules.shared_score:
        return [make_class_table(result)]
    best_text = f"{point.removeprefix('at ')} has the best F1 of all classes"
    note = Line(f"({best_text}; --at-score sets another)", python=f"({best_text}; at_score sets another)")
    return [make_class_table(result), note]


def _name_point(result: Result) -> str:
    """Name the scores that precision, recall and counts are of: all, from one on, or from one per class."""
    if result.scores_from:
        return f"at scores of {shorten(result.scores_from, 40)}"
    score = result.overall.score
    return "at all scores" if math.isnan(score) else f"at score {score:.4g}"


def _format_count_or_number(value: float) -> str:
    return str(value) if isinstance(value, int) else format_number(value)


def _get_cells(result: Result, row: Row, fields: Iterable[str], keys: Sequence[str]) -> list[Any]:
    """Return the cells of a row of the table of classes: its name, the `fields` of the row, and the APs.

    `keys` are the columns of APs; the row of all classes has them from the summary, as ``AP`` or ``mAP``.
    """
    is_overall = row is result.overall
    values = []
    for key in keys:
        extra_key = "corloc" if key == "CorLoc" else key
        value = row.ap if key == "AP" else row.extra.get(extra_key, math.nan)
        if is_overall:
            value = next((result.summary[k] for k in (key, f"m{key}") if k in result.summary), value)
        values.append(value)
    return ["(all)" if is_overall else row.name, *(getattr(row, field) for field in fields), *values]
