"""Describe protocols in words, for `Protocol.definition`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from odm.issues import hint
from odm.tables import Flag

MEASURE_WORDS = {
    "segm": "masks",
    "boundary": "the lower of the IoU of masks and that of their inner bands",
    "oks": "OKS",
    "pose": "OKS in place of IoU, area 0.53 of the box",
    "quads": "oriented boxes",
    "probiou": "oriented boxes by probIoU",
}
READING_WORDS = {
    "steps": "",
    "trapezoids": " with linear interpolation",
    "ramp": " with linear interpolation and a ramp to recall 1",
    "between": " with straight lines between detections",
    "limits": "",
}
MATCH_WORDS = {
    "free": "highest-IoU unmatched ground truth",
    "greatest": "pairs in order of descending IoU",
    "best": "highest-IoU ground truth, duplicates count as FP",
    "truth": "each ground truth, in the order of the file, with its highest-IoU unmatched detection",
}
FLAG_WORDS = {
    Flag.CROWD: "crowd",
    Flag.DIFFICULT: "difficult",
    Flag.TRUNCATED: "truncated",
    Flag.OCCLUDED: "occluded",
    Flag.GROUP_OF: "group-of",
    Flag.DEPICTION: "depiction",
    Flag.INSIDE: "inside",
    Flag.REGION: "regions to ignore",
}
_COCO_AREAS = ("all", "small", "medium", "large")


def describe(rules: Any, coco_sigmas: Sequence[float]) -> str:
    """Describe what the numbers of a `Protocol` mean, in one line."""
    parts = [_iou_words(rules)]
    if rules.tubes:
        parts.append("IoU of whole tracks by volume")
    elif rules.measure != "bbox":
        parts.append(MEASURE_WORDS[rules.measure] + _sigma_words(rules, coco_sigmas))
    elif rules.pixels == "inclusive":
        parts.append("inclusive pixels (width = right - left + 1)")
    else:
        parts.append("edges (width = right - left)")
    parts += _side_words(rules)
    if rules.metric == "corloc":
        parts.append("top detection per image and class against any ground truth")
    elif rules.metric == "top-k":
        parts.append(f"best {rules.max_dets} detections of an image against any ground truth")
    else:
        parts.append(MATCH_WORDS[rules.match])
    parts += ["detections in the order of the file"] * (rules.detections_in == "file")
    parts += ["objects on images without a detection of their class not counted"] * rules.detected_only
    bounded = [a for a in rules.areas[:1] if (a.low, a.high) != (0, np.inf) and not a.also]
    parts += [f"area {a.low:g}..{a.high:g}" + f" ({a.name})" * (a.name in _COCO_AREAS) for a in bounded]
    parts += [f"set-up {a.name}: {', '.join(map(str, a.also))}" for a in rules.areas if a.also]
    parts += _ignored_words(rules, is_bounded=bool(bounded))
    parts.append(_average_words(rules))
    if rules.stands_for:
        parts.append(f"as in {rules.stands_for}")
    text = f"{rules.name}: {'; '.join(parts)}"
    return f"{text} [changed: {', '.join(rules.switched)}]" if rules.switched else text


def _side_words(rules: Any) -> list[str]:
    """Say in words how boxes are changed before they are compared."""
    parts = ["ground truth from its first to its third corner, cut to whole pixels"] * rules.whole_corners
    parts += ["boxes cut at the edges of their image"] * rules.clipped
    if rules.added_area:
        parts.append(f"{rules.added_area:g} added to the denominators of overlaps")
    if rules.only:
        parts.append(f"classes {', '.join(rules.only)}")
    if rules.never:
        parts.append(f"without the classes {', '.join(rules.never)}")
    parts += [f"{one} is ignored for {other}" for one, other in rules.neighbours]
    if rules.covered is not None:
        parts.append(f"boxes dropped of which regions to ignore cover {rules.covered:g} or more")
    return parts + ["32-bit floats"] * rules.single


def _ignored_words(rules: Any, *, is_bounded: bool) -> list[str]:
    """Say in words which boxes are ignored and which are dropped."""
    parts = []
    ignored = [FLAG_WORDS[f] for f in Flag if f & (rules.ignored | rules.crowd_flags)]
    ignored += [f"marked {name}" for name in rules.ignored_fields]
    if is_bounded or any(a.also for a in rules.areas):
        ignored.append("outside the area range" if is_bounded else "outside the set-up")
    if ignored:
        parts.append(f"ignored: {', '.join(ignored)}")
    if rules.ignored_by_ioa:
        parts.append("ignored ones match by IoA any number of times")
    parts += ["recall of the ignored ones too"] * rules.counts_ignored
    if rules.group_weight is not None:
        parts.append(f"group-of boxes weigh {rules.group_weight}")
    if rules.labelled_only:
        parts.append("only classes annotated or labelled on the image")
    if rules.exempt_partial:
        parts.append("no FP for classes not exhaustively annotated on the image")
    parts += ["no FP on images without ground truth"] * rules.exempt_empty
    left_out = [rules.drop_words] * bool(rules.drop_flags) + ["duplicate ground truth"] * rules.drop_repeated
    if left_out:
        parts.append(f"left out: {', '.join(left_out)}")
    if rules.drop_empty:
        what = "boxes" if rules.drop_empty_truth else "detections"
        parts.append(f"zero-area {what} dropped")
    if rules.score_above is not None:
        parts.append(f"scores above {rules.score_above:g}")
    if rules.metric != "top-k" and rules.max_dets is not None:
        unit = "video" if rules.tubes else "image"
        which = "first" if rules.cap_of == "file" else "best"
        parts.append(f"{which} {rules.max_dets} per {unit}{' and class' if rules.cap_of == 'class' else ''}")
    return parts


def _average_words(rules: Any) -> str:
    """Say in words what is averaged, and over what."""
    points = "all points" if rules.interpolation == "all" else f"{rules.interpolation} points"
    if rules.reading == "limits":
        points = f"1..40 and 0, 4, ... 40 of {rules.n_limits} score limits"
        points = points if rules.match == "truth" else f"{rules.n_limits} score limits"
    points += READING_WORDS[rules.reading]
    also = ", and over the rare, common and frequent ones" if rules.by_frequency else ""
    of_classes = f"{len(rules.mean_over)} fixed classes" if rules.mean_over else "classes with ground truth"
    also += ", each weighing the images that contain it" if rules.by_images else ""
    averages = {
        "ap": f"AP over {points}, mean over {of_classes}{also}",
        "pooled": f"AP over {points} of all classes in one ranking",
        "corloc": "mean over classes of the share of images where it is correct",
        "top-k": "share of ground-truth images without a correct guess",
    }
    if not rules.rates:
        return averages[rules.metric]
    n = len(rules.rates)
    rates = f"miss rate at {n} rates of false positives per image, exp of the mean of the logs"
    index = f"highest Jaccard index above {len(rules.jaccard)} scores"
    return "; ".join([averages[rules.metric], rates, index]) if rules.jaccard else rates


def _iou_words(rules: Any) -> str:
    if rules.size_threshold:
        return "IoU >= min(0.5, wh/((w+10)(h+10)))"
    if not rules.averaged:
        sign = ">" if rules.strict else ">="
        named = {
            iou: ", ".join(n for n, least in rules.class_ious if least == iou) for _, iou in rules.class_ious
        }
        of_classes = [f"{sign} {iou!r} for {names}" for iou, names in named.items()]
        return ", ".join([f"IoU {sign} {rules.ious[0]!r}", *of_classes])
    return f"IoU {list_ious(rules.ious)}"


def list_ious(ious: Sequence[float]) -> str:
    """Return thresholds as ``0.50:0.05:0.95`` where the steps are equal, else one by one."""
    steps = np.diff(ious)
    if len(ious) > 2 and np.allclose(steps, steps[0]):
        numbers = (ious[0], steps[0], ious[-1])
        return ":".join(max(f"{number:.2f}", f"{number:.10g}", key=len) for number in numbers)
    return ", ".join(map(repr, ious))


def _sigma_words(rules: Any, coco_sigmas: Sequence[float]) -> str:
    if not rules.sigmas:
        return ""
    same = rules.sigmas[0] if len(set(rules.sigmas)) == 1 else None
    shown = "of COCO" if rules.sigmas == coco_sigmas else ", ".join(f"{sigma:g}" for sigma in rules.sigmas)
    return f", sigmas {shown if same is None else f'{same:g} each'}"


_OF_TRACKERS = ("clear", "clearmot", "hota", "idf1", "mot", "mota", "motchallenge", "motp", "trackeval")


def suggest_protocol(name: object, names: Iterable[str]) -> str:
    """Return what to say after the name of an unknown protocol: one most like it, or what is not computed."""
    if str(name).casefold() in _OF_TRACKERS:
        return (
            " (MOTA, IDF1 and HOTA are not computed: `odm convert --to mot` writes files for TrackEval; "
            "the protocol stt evaluates tracks)"
        )
    return hint(str(name), names)
