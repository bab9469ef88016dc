"""The analyses of a result as text, and as columns of CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odm.evaluate.results import Result
from odm.issues import plural, shorten
from odm.terminal import cell, number, percent

IMAGES_SHOWN = 10
TIDE_SHOWN = 10
PAIRS_SHOWN = 20
MOST_CLASSES = 40
"""A confusion matrix of more classes is shown as a list of its largest entries."""
DETECTED_AS = "detected as"
HEADER = 12
"""The most characters of a class above a column of the confusion matrix; twice that where there is room."""


Section = tuple[str, list[str], list[list[str]]]
"""Title, headers and rows; a reason has no rows."""


def sections(result: Result, width: int | None = None) -> list[Section]:
    """Every analysis of a result.

    What can be listed in more than one way is listed so that it fits into lines of `width` characters.
    """
    found: list[Section] = []
    for name, data in result.analysis.items():
        if isinstance(data, Mapping) and "reason" in data:
            found.append((f"{name}: {data['reason']}", [], []))
        elif name == "confusion":
            found.append(_confusion(data, width))
        else:
            found += _SECTIONS[name](data)
    return found


def class_columns(result: Result) -> dict[str, dict[str, Any]]:
    """The numbers of the analyses by class, for the rows of classes of the CSV."""
    columns: dict[str, dict[str, Any]] = {}
    for row in _classes(result.analysis.get("lrp")):
        own = columns.setdefault(row["class"], {})
        own |= {"olrp": row["olrp"], **{f"lrp_{key}": row[key] for key in ("loc", "fp", "fn", "score")}}
    for row in _classes(result.analysis.get("calibration")):
        columns.setdefault(row["class"], {})["dece"] = row["dece"]
    for row in _classes(result.analysis.get("tide")):
        own = columns.setdefault(row["class"], {})
        own |= {f"tide_{kind}_dap": value for kind, value in row.items() if kind != "class"}
    for name, own in result.analysis.get("thresholds", {}).get("classes", {}).items():
        columns.setdefault(name, {})["threshold"] = own["score"]
    return columns


def summary_columns(result: Result) -> dict[str, Any]:
    """The numbers of the analyses over all classes, for the last row of the CSV."""
    analysis = result.analysis
    columns: dict[str, Any] = {}
    for kind, fix in (analysis.get("tide") or {}).items():
        if isinstance(fix, Mapping):
            columns |= {f"tide_{kind}_{key}": value for key, value in fix.items()}
    if "lrp" in analysis:
        own = analysis["lrp"]
        columns |= {"olrp": own["olrp"], **{f"lrp_{key}": own[key] for key in ("loc", "fp", "fn")}}
    if "calibration" in analysis:
        columns |= {key: analysis["calibration"][key] for key in ("dece", "mce")}
    for key, (low, high) in result.intervals.items():
        columns |= {f"{key}_low": low, f"{key}_high": high}
    return columns


def _thresholds(data: Mapping[str, Any]) -> Iterator[Section]:
    keys = ["score", "precision", "recall"]
    rows = [[name, *(number(own[key], ".4g") for key in keys)] for name, own in data["classes"].items()]
    yield f"score thresholds by the rule {data['rule']}; -: no detection is kept", ["class", *keys], rows


def _confusion(data: Mapping[str, Any], width: int | None) -> Section:
    """The matrix where it fits, else the pairs that are most frequent."""
    counts, of = data["counts"], data.get("shares_of")
    what = {None: "counts", "gt": "shares of each ground truth class", "det": "shares of each detected class"}
    least = "scores as given" if data["score"] is None else f"score >= {data['score']:g}"
    title = f"confusion matrix, {least}, IoU >= {data['iou']:g}: {what[of]}"
    names = [cell(name) for name in data["classes"]]
    texts = [[str(v) if of is None else percent(v, ".1f") for v in row] for row in data.get("shares", counts)]
    rows = [[name, *row] for name, row in zip([*names, "(background)"], texts, strict=True)]
    if len(names) <= MOST_CLASSES:
        for longest in (2 * HEADER, HEADER):
            headers = ["GT / det", *(shorten(name, longest) for name in names), "(missed)"]
            widths = [max(len(row[i]) for row in (headers, *rows)) + 2 for i in range(1, len(headers))]
            label = HEADER if longest == HEADER else max(len(row[0]) for row in rows)
            if label + sum(widths) <= (width or 10**9):
                return title, headers, rows
    pairs = sorted(
        (-n, gt, det) for gt, row in enumerate(counts) for det, n in enumerate(row) if n and gt != det
    )
    few = f"the {PAIRS_SHOWN} most frequent of " if len(pairs) > PAIRS_SHOWN else ""
    title += f"; {few}{plural(len(pairs), 'confusion')}"
    found = [
        [rows[gt][0], [*names, "(missed)"][det], str(-n), *([texts[gt][det]] if of else [])]
        for n, gt, det in pairs[:PAIRS_SHOWN]
    ]
    return title, ["GT", DETECTED_AS, "count", *([f"of {of}"] if of else [])], found


def _classes(data: Any) -> Sequence[Mapping[str, Any]]:
    return data.get("classes", ()) if isinstance(data, Mapping) else ()


def _tide(data: Mapping[str, Any]) -> Iterator[Section]:
    kinds = [kind for kind in data if kind != "classes"]
    rows = [[kind, percent(data[kind]["dap"]), str(data[kind].get("count", ""))] for kind in kinds]
    yield "AP gained by fixing each type of error (TIDE)", ["error", "AP", "count"], rows
    if len(data["classes"]) > 1:
        kinds = [kind for kind in kinds if "count" in data[kind]]
        order = sorted(data["classes"], key=lambda row: -max((row[kind] or 0.0) for kind in kinds))
        shown = order[:TIDE_SHOWN]
        title = "AP of the class gained by fixing each type of error"
        if len(shown) < len(order):
            title += f"; the {len(shown)} of {len(order)} classes that gain most"
        rows = [[row["class"], *(percent(row[kind]) for kind in kinds)] for row in shown]
        yield title, ["class", *kinds], rows


def _lrp(data: Mapping[str, Any]) -> Iterator[Section]:
    keys = ("olrp", "loc", "fp", "fn")
    rows = [[row["class"], *(number(row[key]) for key in (*keys, "score"))] for row in data["classes"]]
    rows.append(["(mean)", *(number(data[key]) for key in keys), ""])
    title = "optimal LRP error and its components: 1 - IoU, FP / (TP + FP), FN / GT"
    yield title, ["class", "oLRP", "loc", "FP", "FN", "score"], rows


def _calibration(data: Mapping[str, Any]) -> Iterator[Section]:
    rows = [
        [f"{row['low']:g} to {row['high']:g}", str(row["n"]), number(row["score"]), number(row["precision"])]
        for row in data["bins"]
    ]
    title = f"calibration: D-ECE {number(data['dece'])}, maximum {number(data['mce'])}"
    yield title, ["scores", "det", "mean score", "precision"], rows


def _images(data: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    rows = [
        [
            row["image"],
            *(str(row[key]) for key in ("gt", "tp", "fp", "fn")),
            number(row["error"], ".2f"),
            percent(row["error_share"]),
        ]
        for row in [row for row in data if row["error"]][:IMAGES_SHOWN]
    ]
    title = f"the {len(rows)} of {len(data)} images with the largest error"
    yield title, ["image", "GT", "TP", "FP", "FN", "error", "share"], rows


def _slices(data: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    of_images = [row for row in data if "delta" in row]
    if of_images:
        key = next(iter(of_images[0]["summary"]))
        title = f"{key} of slices of the images, and difference from the other images"
        yield title, ["images", "n", "GT", key, "vs. rest", "interval"], slice_rows(of_images, key)
    boxes = [row for row in data if "summary" in row and "delta" not in row]
    if boxes:
        key = next(iter(boxes[0]["summary"]))
        rows = [[f"{r['slice']} {r['value']}", str(r["gt"]), percent(r["summary"][key])] for r in boxes]
        yield f"{key} of boxes by area and shape", ["boxes", "GT", key], rows
    marked = [row for row in data if "recall" in row]
    if marked:
        rows = [
            [r["value"], str(r["gt"]), str(r["missed"]), *(percent(r[k]) for k in ("recall", "AR")),
             number(r["mean_iou"])]
            for r in marked
        ]  # fmt: skip
        headers = ["ground truth", "GT", "missed", "recall", "AR", "mean IoU"]
        yield "recall by attribute of the ground truth, mean over classes", headers, rows


def slice_rows(slices: Sequence[Mapping[str, Any]], key: str) -> list[list[str]]:
    """Slices of images with one of their numbers, its difference and the interval of that."""
    return [
        [
            f"{row['slice']} {row['value']}",
            str(row["images"]),
            str(row["gt"]),
            percent(row["summary"][key]),
            points(row["delta"][key]),
            interval(row["low"][key], row["high"][key]),
        ]
        for row in slices
    ]


_SECTIONS: dict[str, Any] = {
    "tide": _tide,
    "lrp": _lrp,
    "calibration": _calibration,
    "thresholds": _thresholds,
    "images": _images,
    "slices": _slices,
}


def points(value: float | None) -> str:
    """A difference of percentages, ``+1.25``."""
    return number(None if value is None else 100 * value, "+.2f")


def interval(low: float | None, high: float | None) -> str:
    """``-0.50 to +1.25``, or ``-`` for what is undefined."""
    return "-" if points(low) == "-" else f"{points(low)} to {points(high)}"
