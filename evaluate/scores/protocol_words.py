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
    # A list times a truth value is the list, or nothing.
    phrases = [_describe_ious(rules)]
    if rules.tubes:
        phrases.append("IoU of whole tracks by volume")
    elif rules.measure != "bbox":
        phrases.append(MEASURE_WORDS[rules.measure] + _describe_sigmas(rules, coco_sigmas))
    elif rules.pixels == "inclusive":
        phrases.append("inclusive pixels (width = right - left + 1)")
    else:
        phrases.append("edges (width = right - left)")
    phrases += _describe_boxes(rules)
    if rules.metric == "corloc":
        phrases.append("top detection per image and class against any ground truth")
    elif rules.metric == "top-k":
        phrases.append(f"best {rules.max_dets} detections of an image against any ground truth")
    else:
        phrases.append(MATCH_WORDS[rules.match])
    phrases += ["detections in the order of the file"] * (rules.detections_in == "file")
    phrases += ["objects on images without a detection of their class not counted"] * rules.detected_only
    bounded_areas = [a for a in rules.areas[:1] if (a.low, a.high) != (0, np.inf) and not a.also]
    phrases += [
        f"area {a.low:g}..{a.high:g}" + f" ({a.name})" * (a.name in _COCO_AREAS) for a in bounded_areas
    ]
    phrases += [f"set-up {a.name}: {', '.join(map(str, a.also))}" for a in rules.areas if a.also]
    phrases += _describe_ignored(rules, is_bounded=bool(bounded_areas))
    phrases.append(_describe_average(rules))
    if rules.stands_for:
        phrases.append(f"as in {rules.stands_for}")
    text = f"{rules.name}: {'; '.join(phrases)}"
    return f"{text} [changed: {', '.join(rules.switched)}]" if rules.switched else text


def _describe_boxes(rules: Any) -> list[str]:
    """Describe how boxes are changed or dropped before they are compared, a phrase each."""
    # A list times a truth value is the list, or nothing.
    phrases = ["ground truth from its first to its third corner, cut to whole pixels"] * rules.whole_corners
    phrases += ["boxes cut at the edges of their image"] * rules.clipped
    if rules.added_area:
        phrases.append(f"{rules.added_area:g} added to the denominators of overlaps")
    if rules.only:
        phrases.append(f"classes {', '.join(rules.only)}")
    if rules.never:
        phrases.append(f"without the classes {', '.join(rules.never)}")
    phrases += [f"{neighbour} is ignored for {class_name}" for neighbour, class_name in rules.neighbours]
    if rules.covered is not None:
        phrases.append(f"boxes dropped of which regions to ignore cover {rules.covered:g} or more")
    return phrases + ["32-bit floats"] * rules.single


def _describe_ignored(rules: Any, *, is_bounded: bool) -> list[str]:
    """Describe which boxes are ignored and which are dropped, a phrase each.

    `is_bounded` says that the first area range leaves boxes out.
    """
    phrases = []  # a list times a truth value is the list, or nothing
    ignored = [FLAG_WORDS[f] for f in Flag if f & (rules.ignored | rules.crowd_flags)]
    ignored += [f"marked {name}" for name in rules.ignored_fields]
    if is_bounded or any(a.also for a in rules.areas):
        ignored.append("outside the area range" if is_bounded else "outside the set-up")
    if ignored:
        phrases.append(f"ignored: {', '.join(ignored)}")
    if rules.ignored_by_ioa:
        phrases.append("ignored ones match by IoA any number of times")
    phrases += ["recall of the ignored ones too"] * rules.counts_ignored
    if rules.group_weight is not None:
        phrases.append(f"group-of boxes weigh {rules.group_weight}")
    if rules.labelled_only:
        phrases.append("only classes annotated or labelled on the image")
    if rules.exempt_partial:
        phrases.append("no FP for classes not exhaustively annotated on the image")
    phrases += ["no FP on images without ground truth"] * rules.exempt_empty
    left_out = [rules.drop_words] * bool(rules.drop_flags) + ["duplicate ground truth"] * rules.drop_repeated
    if left_out:
        phrases.append(f"left out: {', '.join(left_out)}")
    if rules.drop_empty:
        box_words = "boxes" if rules.drop_empty_truth else "detections"
        phrases.append(f"zero-area {box_words} dropped")
    if rules.score_above is not None:
        phrases.append(f"scores above {rules.score_above:g}")
    if rules.metric != "top-k" and rules.max_dets is not None:
        unit = "video" if rules.tubes else "image"
        order_word = "first" if rules.cap_of == "file" else "best"
        phrases.append(
            f"{order_word} {rules.max_dets} per {unit}{' and class' if rules.cap_of == 'class' else ''}"
        )
    return phrases


def _describe_average(rules: Any) -> str:
    """Describe what is averaged, and over what."""
    points = "all points" if rules.interpolation == "all" else f"{rules.interpolation} points"
    if rules.reading == "limits":
        points = f"1..40 and 0, 4, ... 40 of {rules.n_limits} score limits"
        points = points if rules.match == "truth" else f"{rules.n_limits} score limits"
    points += READING_WORDS[rules.reading]
    addition = ", and over the rare, common and frequent ones" if rules.by_frequency else ""
    class_words = f"{len(rules.mean_over)} fixed classes" if rules.mean_over else "classes with ground truth"
    addition += ", each weighing the images that contain it" if rules.by_images else ""
    averages = {
        "ap": f"AP over {points}, mean over {class_words}{addition}",
        "pooled": f"AP over {points} of all classes in one ranking",
        "corloc": "mean over classes of the share of images where it is correct",
        "top-k": "share of ground-truth images without a correct guess",
    }
    if not rules.rates:
        return averages[rules.metric]
    n_rates = len(rules.rates)
    rate_words = f"miss rate at {n_rates} rates of false positives per image, exp of the mean of the logs"
    jaccard_words = f"highest Jaccard index above {len(rules.jaccard)} scores"
    return "; ".join([averages[rules.metric], rate_words, jaccard_words]) if rules.jaccard else rate_words


def _describe_ious(rules: Any) -> str:
    """Describe the thresholds: ``IoU >= 0.5``, with those of single classes after it."""
    if rules.size_threshold:
        return "IoU >= min(0.5, wh/((w+10)(h+10)))"
    if not rules.averaged:
        sign = ">" if rules.strict else ">="
        names_by_iou = {
            iou: ", ".join(n for n, class_iou in rules.class_ious if class_iou == iou)
            for _, iou in rules.class_ious
        }
        class_phrases = [f"{sign} {iou!r} for {names}" for iou, names in names_by_iou.items()]
        return ", ".join([f"IoU {sign} {rules.ious[0]!r}", *class_phrases])
    return f"IoU {format_ious(rules.ious)}"


def format_ious(ious: Sequence[float]) -> str:
    """Format thresholds as ``0.50:0.05:0.95`` if their steps are equal, else one by one."""
    steps = np.diff(ious)
    if len(ious) > 2 and np.allclose(steps, steps[0]):
        values = (ious[0], steps[0], ious[-1])
        return ":".join(max(f"{value:.2f}", f"{value:.10g}", key=len) for value in values)
    return ", ".join(map(repr, ious))


def _describe_sigmas(rules: Any, coco_sigmas: Sequence[float]) -> str:
    """Describe the sigmas of keypoints, after a comma; an empty text if the protocol has none."""
    if not rules.sigmas:
        return ""
    common_sigma = rules.sigmas[0] if len(set(rules.sigmas)) == 1 else None
    sigma_text = (
        "of COCO" if rules.sigmas == coco_sigmas else ", ".join(f"{sigma:g}" for sigma in rules.sigmas)
    )
    return f", sigmas {sigma_text if common_sigma is None else f'{common_sigma:g} each'}"


_OF_TRACKERS = ("clear", "clearmot", "hota", "idf1", "mot", "mota", "motchallenge", "motp", "trackeval")


def suggest_protocol(name: object, names: Iterable[str]) -> str:
    """Return the advice after the name of an unknown protocol: the most similar of `names`.

    For metrics of trackers it says that they are not computed.
    """
    if str(name).casefold() in _OF_TRACKERS:
        return (
            " (MOTA, IDF1 and HOTA are not computed: `odm convert --to mot` writes files for TrackEval; "
            "the protocol stt evaluates tracks)"
        )
    return hint(str(name), names)
