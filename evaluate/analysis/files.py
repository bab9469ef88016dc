"""The rows of the files of ``--save`` that the analyses make: images, missed objects and suspects."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis import images, review
from odm.evaluate.analysis.overlaps import overlaps_of
from odm.evaluate.analysis.table import table_of
from odm.evaluate.results import Evaluation, Result
from odm.tables import Dataset

PLACES = ("file", "line")
MISSED = ("image", *PLACES, *review.COLUMNS[1:])
SUSPECTS = ("kind", "suspicion", *MISSED)


def location_of(dataset: Dataset | None, row: int | None) -> tuple[str, Any]:
    """File and line of a box; of JSON the file with a pointer. Empty where it is not known."""
    if dataset is None or row is None or row < 0:
        return "", ""
    path, line, pointer = dataset.location(row)
    return (f"{path}#{pointer}" if pointer else path), line or ""


def places_of(dataset: Dataset | None, rows: NDArray[Any]) -> tuple[list[str], list[Any]]:
    """`location_of` of many boxes as two columns; -1 is no box."""
    if dataset is None:
        return [""] * len(rows), [""] * len(rows)
    file, line = (np.append(column, -1)[rows] for column in (dataset.boxes.file, dataset.boxes.line))
    files = dataset.files
    heads = [f"{f.path}#{f.pointer.rstrip('/')}/" if f.pointer else f.path for f in files] + [""]
    pointed = np.array([bool(f.pointer) for f in files] + [False])[file]
    number = line.astype(object)
    tails = map(str, np.where(pointed, number, "").tolist())
    places = list(map(operator.add, map(heads.__getitem__, file.tolist()), tails))
    return places, np.where(pointed | (line <= 0), "", number).tolist()


def image_rows(result: Result) -> tuple[str, Iterator[list[Any]]]:
    """Which scores the counts are at, and a row per image with the columns of `images.COLUMNS`."""
    counted = images.image_table(table_of(result), result.thresholds)
    if result.scores_from:
        at = f"the scores of {result.scores_from}"
    elif result.at_score is not None:
        at = repr(result.at_score)
    else:
        best = result.overall.score
        at = "all scores" if math.isnan(best) else f"{best!r}, the best F1 of all classes"
    return at, ([row[key] for key in images.COLUMNS] for row in counted.rows())


def review_rows(evaluation: Evaluation, result: Result) -> tuple[list[list[Any]], list[list[Any]]]:
    """The rows of `MISSED` and of `SUSPECTS`; none for protocols that do not count every object."""
    if result.joined is None or result.rules.metric in ("corloc", "top-k"):
        return [], []
    table = table_of(result)
    overlaps = overlaps_of(result.joined, table)

    def rows(found: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[list[Any]]:
        out = []
        for row in found:
            gt = row["gt"]
            side, of = (evaluation.truth, gt) if gt is not None else (evaluation.detections, row["det"])
            own = {**row, **dict(zip(PLACES, location_of(side, of), strict=True))}
            out.append([own[key] for key in columns])
        return out

    return rows(review.missed(table, overlaps), MISSED), rows(review.suspects(table, overlaps), SUSPECTS)
