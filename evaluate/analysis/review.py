"""List missed objects and suspicious annotations, for a person to look through."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.outcome_table import FP, TP
from odm.evaluate.analysis.overlaps import BACKGROUND, SUSPICION, Overlaps
from odm.evaluate.analysis.table import Table, table_of
from odm.evaluate.results import Result, to_plain
from odm.tables import Dataset, Floats

EDGES = ("left", "top", "right", "bottom")
OVERLAPPING = ("same_iou", "same_score", "other_iou", "other_class", "other_score")
COLUMNS = ("image", "class", *EDGES, "area", *OVERLAPPING)
"""The columns that both lists share."""

KIND_WORDS = {
    "class": "of another class than detected",
    "location": "off their place",
    "missing": "missing",
    "spurious": "where nothing was detected",
    "both": "of another class near a detection",
    "duplicate": "of one object twice",
}
"""What each kind says of labels, in the order in which the kinds apply."""
KINDS = tuple(KIND_WORDS)
"""The kinds of suspects."""


def missed(table: Table, overlaps: Overlaps) -> list[dict[str, Any]]:
    """List the counting ground truths that no detection finds at any score, in the order of the table.

    Each row has `COLUMNS` and ``gt``, the row in the dataset. ``same_*`` are of the detection of its class
    that overlaps most with it, ``other_*`` of one of another class; None where there is none. ``area`` is in
    square pixels.
    """
    return [_make_truth_row(table, overlaps, g) for g in np.flatnonzero(table.missed).tolist()]


def suspects(table: Table, overlaps: Overlaps, *, suspicion_min: float = SUSPICION) -> list[dict[str, Any]]:
    """List annotations that may be wrong, as a confident detector disagrees with them.

    A confident detection scores as high as many true positives of its class: its suspicion is the share of
    them that score no higher. The first kind that applies:

    - ``class``: a false positive on a missed ground truth of another class, with the threshold's IoU or more
    - ``location``: a false positive near a missed ground truth of its class, IoU from 0.1 to the threshold
    - ``missing``: a false positive with IoU of at most 0.1 with every ground truth, and at most that share of
      it in an ignored one: an object that nobody annotated?
    - ``both``: a false positive with IoU of at most 0.1 with every ground truth of its class, and below the
      threshold with one of another class: an object beside it that nobody annotated, or a label whose class
      and place are wrong
    - ``duplicate``: a missed ground truth whose best detection of its class, with the threshold's IoU or
      more, is a true positive of another one: two labels of one object
    - ``spurious``: a missed ground truth that no detection overlaps with by more than 0.1; its suspicion is
      the share of the other ground truths of its class that were found

    Rows have ``kind``, ``suspicion`` (at least `suspicion_min`), `COLUMNS`, ``gt`` and ``det``. They are by
    descending suspicion, then IoU, then as in the input; ``spurious`` ones last, as detectors overlook more
    objects than they imagine. ``gt`` and ``det`` are rows in the datasets, None where there is none. The box
    is the annotation in question; of ``missing`` and ``both`` it is that of the detection, and ``other_*``
    are of the ground truth that the latter touches.
    """
    threshold = table.threshold
    is_fp = table.outcome == FP
    is_other_class = (overlaps.other_missed.iou >= threshold) & (overlaps.other_missed.at >= 0)
    is_near_missed = overlaps.same_missed.iou >= BACKGROUND
    is_alone = (overlaps.any_iou <= BACKGROUND) & (overlaps.ignored_cover <= BACKGROUND)
    is_touching = (overlaps.same_any_iou <= BACKGROUND) & (overlaps.ignored_cover <= BACKGROUND)
    is_touching &= overlaps.any_iou < threshold
    # Of each detection the first kind that applies, a number in `KINDS`; the others are added at the end.
    kind = np.select([is_other_class, is_near_missed, is_alone, is_touching], [0, 1, 2, 4], -1)
    kind = np.where(is_fp, kind, -1)
    share = _measure_confidence(table)
    entries: list[_Entry] = []
    for row in np.flatnonzero((kind >= 0) & (share >= suspicion_min)).tolist():
        name, suspicion, det = KINDS[kind[row]], float(share[row]), int(table.matches.row[row])
        describe = _describe_disputed if name in ("class", "location") else _describe_unlabelled
        iou, fields = describe(table, overlaps, row, name)
        fields = {"kind": name, "suspicion": suspicion, **fields, "det": det}
        entries.append(_Entry(suspicion, iou, det, fields))
    entries += [e for e in _list_undisputed(table, overlaps, share) if e.suspicion >= suspicion_min]
    entries.sort(key=lambda e: (e.fields["kind"] == "spurious", -e.suspicion, -e.iou, e.position))
    return [entry.fields for entry in entries]


class _Entry(NamedTuple):
    """A row of the list of suspects, ``fields``, with the numbers that it is sorted by."""

    suspicion: float
    iou: float
    position: int
    """The row of the detection in the input; larger than all of these where the suspect is a ground truth."""
    fields: dict[str, Any]


def _describe_disputed(table: Table, overlaps: Overlaps, row: int, kind: str) -> tuple[float, dict[str, Any]]:
    """Return the IoU and the fields of the missed ground truth that a false positive, in `row`, disputes."""
    disputed, prefix = (
        (overlaps.same_missed, "same") if kind == "location" else (overlaps.other_missed, "other")
    )
    iou, fields = float(disputed.iou[row]), _make_truth_row(table, overlaps, int(disputed.at[row]))
    # Of this detection, in place of the one that overlaps most with the ground truth.
    fields[f"{prefix}_iou"], fields[f"{prefix}_score"] = iou, float(table.score[row])
    if kind == "class":
        fields["other_class"] = table.classes[table.category[row]]
    return iou, fields


def _describe_unlabelled(
    table: Table, overlaps: Overlaps, row: int, kind: str
) -> tuple[float, dict[str, Any]]:
    """Return the IoU and the fields of a false positive, in `row`, on an object that may lack a label."""
    left, top, right, bottom = table.xyxy[row].tolist()
    fields = {
        "image": table.images[table.image[row]],
        "class": table.classes[table.category[row]],
        **_name_edges(table.xyxy[row]),
        "area": to_plain((right - left) * (bottom - top)),
        **dict.fromkeys(OVERLAPPING),
        "same_score": float(table.score[row]),
        "gt": None,
    }
    touched_object = overlaps.other.at[row]
    if kind == "both" and touched_object >= 0:
        fields["other_iou"] = float(overlaps.other.iou[row])
        fields["other_class"] = table.classes[table.truth.category[touched_object]]
    return float(overlaps.any_iou[row]), fields


def _list_undisputed(table: Table, overlaps: Overlaps, share: Floats) -> Iterator[_Entry]:
    """Yield the missed ground truths that no false positive disputes: ``duplicate`` and ``spurious`` ones.

    `share` (n,) is the suspicion of each detection.
    """
    n_tp = np.bincount(table.truth.category[table.is_found & table.counting], minlength=len(table.classes))
    best_same, best_iou = overlaps.truth_same, np.maximum(overlaps.truth_same.iou, overlaps.truth_other.iou)
    is_duplicate = table.missed & (best_same.at >= 0) & (best_same.iou >= table.threshold)
    is_duplicate[is_duplicate] = table.outcome[best_same.at[is_duplicate]] == TP
    for object_row in np.flatnonzero(is_duplicate | (table.missed & (best_iou <= BACKGROUND))).tolist():
        category = int(table.truth.category[object_row])
        if is_duplicate[object_row]:
            kind, det = "duplicate", int(table.matches.row[best_same.at[object_row]])
            suspicion = float(share[best_same.at[object_row]])
        else:
            kind, det = "spurious", None
            # The share that was found of the others: it is one of the n itself, and was missed.
            suspicion = float(n_tp[category] / (table.n[category] - 1)) if table.n[category] > 1 else 0.0
        fields = {**_make_truth_row(table, overlaps, object_row), "det": det}
        fields = {"kind": kind, "suspicion": suspicion, **fields}
        # The position breaks ties in the list: that of a detection is its row, and objects come after.
        yield _Entry(suspicion, float(best_iou[object_row]), len(table.score) + fields["gt"], fields)


def _measure_confidence(table: Table) -> Floats:
    """Return (n,), for each detection, the share of true positives of its class with no higher score."""
    is_tp = table.outcome == TP
    share = np.zeros(len(table.score))
    rows, class_bounds = table.ranked
    for start, stop in zip(class_bounds[:-1].tolist(), class_bounds[1:].tolist(), strict=True):
        class_rows = rows[start:stop]
        tp_scores = np.sort(table.score[class_rows[is_tp[class_rows]]])
        if len(tp_scores):
            n_lower = np.searchsorted(tp_scores, table.score[class_rows], side="right")
            share[class_rows] = n_lower / len(tp_scores)
    return share


def _make_truth_row(table: Table, overlaps: Overlaps, object_row: int) -> dict[str, Any]:
    """Return the row of `missed` of one ground truth, by its position in ``table.truth``."""
    truth = table.truth
    same_detection, other_detection = (
        best.at[object_row] for best in (overlaps.truth_same, overlaps.truth_other)
    )
    return {
        "image": table.images[truth.image[object_row]],
        "class": table.classes[truth.category[object_row]],
        **_name_edges(truth.xyxy[object_row]),
        "area": float(truth.area[object_row]),
        "same_iou": float(overlaps.truth_same.iou[object_row]) if same_detection >= 0 else None,
        "same_score": float(table.score[same_detection]) if same_detection >= 0 else None,
        "other_iou": float(overlaps.truth_other.iou[object_row]) if other_detection >= 0 else None,
        "other_class": table.classes[table.category[other_detection]] if other_detection >= 0 else None,
        "other_score": float(table.score[other_detection]) if other_detection >= 0 else None,
        "gt": int(truth.row[object_row]),
    }


def _name_edges(xyxy: Floats) -> dict[str, float]:
    """Return the edges of a box, (4,) pixels, by their names."""
    return dict(zip(EDGES, xyxy.tolist(), strict=True))


# ------------------------------------------------------------------------------------- files of --save

PLACES = ("file", "line")
MISSED = ("image", *PLACES, *COLUMNS[1:])
SUSPECTS = ("kind", "suspicion", *MISSED)


def list_places(dataset: Dataset | None, rows: NDArray[Any]) -> tuple[list[str], list[Any]]:
    """Return the files and the lines of boxes as two columns; in JSON the file has a pointer.

    `rows` are (n,) rows of the dataset, -1 = no box. Texts are empty where the file is not known.
    """
    if dataset is None:
        return [""] * len(rows), [""] * len(rows)
    # Row -1, of no box, reads the file and line -1 at the end, and file -1 the text and pointer at the end.
    file, line = (np.append(column, -1)[rows] for column in (dataset.boxes.file, dataset.boxes.line))
    files = dataset.files
    file_texts = [f"{f.path}#{f.pointer.rstrip('/')}/" if f.pointer else f.path for f in files] + [""]
    # In JSON the line is an index, which ends the pointer: "a.json#/annotations/7".
    has_pointer = np.array([bool(f.pointer) for f in files] + [False])[file]
    line_objects = line.astype(object)
    line_texts = map(str, np.where(has_pointer, line_objects, "").tolist())
    places = list(map(operator.add, map(file_texts.__getitem__, file.tolist()), line_texts))
    return places, np.where(has_pointer | (line <= 0), "", line_objects).tolist()


def make_review_rows(
    result: Result, truth: Dataset | None, detections: Dataset | None
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return the rows of `MISSED` and of `SUSPECTS`; none for protocols that do not count every object."""
    tables = _get_tables(result)
    if tables is None:
        return [], []

    def add_places(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[list[Any]]:
        """Return the values of the `columns` of each record, with the file and line of its box."""
        values = []
        for row in records:
            gt = row["gt"]
            side, row_of_box = (truth, gt) if gt is not None else (detections, row["det"])
            path, line, pointer = "", 0, ""
            if side is not None and row_of_box is not None and row_of_box >= 0:
                path, line, pointer = side.location(row_of_box)
            fields = {**row, "file": f"{path}#{pointer}" if pointer else path, "line": line or ""}
            values.append([fields[key] for key in columns])
        return values

    return add_places(missed(*tables), MISSED), add_places(suspects(*tables), SUSPECTS)


def list_suspects(result: Result) -> list[dict[str, Any]]:
    """Return `suspects` of a result; none for protocols that do not count every object."""
    tables = _get_tables(result)
    return [] if tables is None else suspects(*tables)


def _get_tables(result: Result) -> tuple[Table, Overlaps] | None:
    """Return the table and the overlaps of a result; None without boxes or a count of every object."""
    if result.joined is None or result.rules.metric in ("corloc", "top-k"):
        return None
    return table_of(result), result.overlaps
