"""The changes that a user makes to a protocol, such as ``--iou`` or ``--area``, and the checks of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from msgspec.structs import replace

from odm.codes import GIVE_SIZES
from odm.evaluate.scores.protocol_words import list_ious, suggest_protocol
from odm.evaluate.scores.protocols import (
    BY_IOU_TYPE,
    DEFAULT,
    PROTOCOLS,
    SHAPE_PROTOCOLS,
    TUBE_PROTOCOLS,
    IouType,
    Protocol,
)
from odm.evaluate.scores.set_ups import AREAS, EVERY_AREA, LARGEST_AREA, AreaRange
from odm.issues import Log, UsageError, hint, shorten, spell
from odm.tables import Flag

MOST_AREAS = 16
"""Ranges of one protocol: each is a bit of `AreaBits`."""

Ious = float | str | Mapping[str, float] | Sequence[float | str | Mapping[str, float]]
"""IoU thresholds as a user gives them: numbers, ``LOW:STEP:HIGH``, ``car=0.7`` or a mapping for classes."""

Areas = str | tuple[float, float] | Mapping[str, tuple[float, float]] | Sequence[str]
"""Area ranges as a user gives them, see `resolve`."""


def resolve(
    protocol: str | Protocol | Sequence[str | Protocol] | None,
    *,
    iou: Ious | None = None,
    interpolation: str | int | None = None,
    area: Areas | None = None,
    max_dets: int | None = None,
    recall_at: Sequence[int] | None = None,
    keep_difficult: bool | None = None,
    without_oddities: bool | None = None,
    pixels: str | None = None,
    iou_type: IouType | None = None,
    sigmas: Sequence[float] | None = None,
) -> list[Protocol]:
    """Return the requested protocols, or the default one, with the changes applied.

    A protocol that is not averaged over IoUs gives one protocol per IoU. `area` is the range of all numbers
    (``small``, ``LOW:HIGH`` or two numbers), or further ranges by name (``NAME=LOW:HIGH`` or a mapping), or a
    list of such texts.

    Raises
    ------
    UsageError
        If a protocol is not known, a switch does not apply to it, or a value is out of range.

    Examples
    --------
    >>> [(rules.name, rules.ious) for rules in resolve("voc2012", iou=[0.5, 0.7])]
    [('voc2012', (0.5,)), ('voc2012', (0.7,))]
    """
    protocol = DEFAULT if protocol is None else protocol
    names = [protocol] if isinstance(protocol, (str, Protocol)) else list(protocol)
    if not names:
        raise UsageError(f"give at least one protocol of {', '.join(PROTOCOLS)}")
    ious, class_ious = _ious(iou)
    resolved: list[Protocol] = []
    for name in names:
        known = {**PROTOCOLS, **SHAPE_PROTOCOLS, **TUBE_PROTOCOLS}
        base = name if isinstance(name, Protocol) else known.get(name)
        if base is None:
            raise UsageError(
                f"unknown protocol {name!r}{suggest_protocol(name, known)}; there are: {', '.join(known)}"
            )
        if base.tubes:
            unfit = {"area": area or None, "recall_at": recall_at, "pixels": pixels, "iou_type": iou_type}
            for option, value in {**unfit, "keep_difficult": keep_difficult or None}.items():
                if value is not None:
                    raise UsageError(f"{spell(option)} does not apply to {base.name}, which measures tracks")
        base = _measuring(_plain(base) if without_oddities else base, iou_type)
        changed: dict[str, Any] = {} if sigmas is None else {"sigmas": _sigmas(sigmas, base)}
        if class_ious:
            changed["class_ious"] = _class_ious(class_ious, base)
        if interpolation is not None:
            changed["interpolation"] = _interpolation(interpolation, base)
        if area is not None and len(area):
            changed["areas"] = _areas(area, base)
        if max_dets is not None:
            if isinstance(max_dets, bool) or int(max_dets) != max_dets or max_dets < 1:
                raise UsageError(f"{spell('max_dets')} {max_dets}: expected a whole number of at least 1")
            if base.metric == "corloc":
                raise UsageError("corloc uses only the top detection, so max_dets has no effect")
            changed["max_dets"] = int(max_dets)
        if recall_at is not None:
            changed["recall_at"] = _recall_at(recall_at, base, changed.get("max_dets", base.max_dets))
        if keep_difficult:
            changed["ignored"] = base.ignored & ~Flag.DIFFICULT
        if pixels is not None:
            changed["pixels"] = _pixels(pixels, base)
        words = [_SWITCH_WORDS[k](v, base) for k, v in changed.items() if v != getattr(base, k)]
        for chosen in [base.ious] if ious is None else _thresholds(ious, base):
            switched = words + [f"IoU {list_ious(chosen)}"] * (chosen != base.ious)
            changed_protocol = replace(base, **changed, ious=chosen, switched=(*base.switched, *switched))
            if changed_protocol not in resolved:
                resolved.append(changed_protocol)
    _check_one_type(resolved)
    return resolved


def _plain(base: Protocol) -> Protocol:
    """Return the protocol without the oddities of its program."""
    if not base.plain:
        raise UsageError(f"{spell('without_oddities')}: {base.name} has none to leave out")
    return replace(base, **dict(base.plain), plain=(), switched=(*base.switched, "without oddities"))


def _class_ious(ious: dict[str, float], base: Protocol) -> tuple[tuple[str, float], ...]:
    """Return the thresholds of the classes of a protocol, with those of the user."""
    if base.averaged or base.size_threshold or base.metric != "ap" or base.tubes:
        raise UsageError(f"{spell('iou')}: {base.name} has no thresholds of single classes")
    names = {name.casefold() for name in ious} if base.only else set(ious)
    kept = {name: iou for name, iou in base.class_ious if name.casefold() not in names}
    return tuple({**kept, **ious}.items())


def check_class_ious(rules: Sequence[Protocol], classes: Sequence[str]) -> None:
    """Raise UsageError if a threshold is that of a class that is not there."""
    known = {name.casefold() for name in classes}
    for p in rules:
        for name, _ in p.class_ious:
            if name.casefold() not in known and name not in p.only:
                raise UsageError(f"{spell('iou')}: there is no class {shorten(name)!r}{hint(name, classes)}")


def _ious(iou: Ious | None) -> tuple[tuple[float, ...] | None, dict[str, float]]:
    """Return the thresholds of all classes, None if there are none, and those of single classes."""
    if iou is None:
        return None, {}
    numbers: list[float] = []
    of_classes: dict[str, float] = {}
    for value in [iou] if isinstance(iou, (int, float, str, Mapping)) else iou:
        if isinstance(value, Mapping):
            of_classes |= value
        elif isinstance(value, str):
            _parse_ious(value, numbers, of_classes)
        else:
            numbers.append(value)
    if not numbers and not of_classes:
        raise UsageError("give at least one IoU threshold")
    for threshold in (*numbers, *of_classes.values()):
        if not 0 < threshold <= 1:
            raise UsageError(f"{spell('iou')} {threshold}: expected an IoU above 0 and up to 1, as in 0.5")
    return tuple(dict.fromkeys(map(float, numbers))) or None, of_classes


def _parse_ious(text: str, numbers: list[float], of_classes: dict[str, float]) -> None:
    """Add the thresholds in ``0.5``, ``0.3:0.05:0.75``, ``car=0.7``, or several with commas."""
    for part in text.split(","):
        name, is_class, number = part.rpartition("=")
        try:
            if is_class:
                of_classes[name.strip()] = float(number)
            elif ":" in part:
                low, step, high = map(float, part.split(":"))
                count = round((high - low) / step) + 1 if step > 0 else 0
                if not (1 <= count <= 1000 and math.isclose(low + step * (count - 1), high)):
                    raise ValueError
                numbers.extend(np.linspace(low, high, count).tolist())
            else:
                numbers.append(float(part))
        except (ValueError, OverflowError):
            raise UsageError(
                f"{spell('iou')} {shorten(text)}: expected an IoU above 0 and up to 1, as in 0.5, "
                "LOW:STEP:HIGH, as in 0.5:0.05:0.95, or CLASS=IOU, as in car=0.7"
            ) from None


def _check_one_type(rules: Sequence[Protocol]) -> None:
    """Raise UsageError where one protocol compares boxes and another something else."""
    names = {p.iou_type: p.name for p in rules}
    if len(names) > 1:
        (type_name, first), (other_type, second) = list(names.items())[:2]
        raise UsageError(
            f"{spell('protocol')} {first} compares {type_name} and {second} {other_type}: evaluate them one "
            f"by one, or give one {spell('iou_type')} for both"
        )


def _measuring(base: Protocol, iou_type: IouType | None) -> Protocol:
    """Return the protocol for boxes, masks, keypoints or oriented boxes, by `iou_type`."""
    if iou_type is None or iou_type == base.iou_type:
        return base
    if iou_type not in get_args(IouType):
        raise UsageError(f"{spell('iou_type')} {iou_type}: choose {', '.join(get_args(IouType))}")
    if base.name == "ultralytics" and iou_type == "segm":
        raise UsageError(
            f"{spell('iou_type')} segm: yolo val compares masks at a quarter of the letterboxed picture, "
            f"cropped to the predicted box; label files do not hold them. Use {spell('protocol')} coco "
            f"{spell('iou_type')} segm"
        )
    if base.measure != "bbox":
        raise UsageError(f"{spell('iou_type')} {iou_type}: {base.name} compares {base.iou_type} only")
    if base.name not in (fitting := BY_IOU_TYPE[iou_type]):
        use = ", ".join(fitting)
        raise UsageError(
            f"{spell('iou_type')} {iou_type}: {base.name} does not define it; use {spell('protocol')} {use}"
        )
    return replace(base, **BY_IOU_TYPE[iou_type][base.name])


def _pixels(value: str, base: Protocol) -> str:
    if value not in ("edges", "inclusive"):
        raise UsageError(f"{spell('pixels')} {value}: choose edges or inclusive")
    if base.measure != "bbox":
        raise UsageError(f"{spell('pixels')} {value}: applies to boxes only, not to iou_type {base.iou_type}")
    return value


def _sigmas(values: Sequence[float], base: Protocol) -> tuple[float, ...]:
    if base.iou_type != "keypoints":
        raise UsageError(f"{spell('sigmas')}: only keypoints have them ({spell('iou_type')} keypoints)")
    try:
        sigmas = tuple(map(float, values))
    except (TypeError, ValueError):
        sigmas = ()
    if not sigmas or not all(math.isfinite(sigma) and sigma > 0 for sigma in sigmas):
        raise UsageError(f"{spell('sigmas')}: expected numbers above 0, one for each keypoint")
    return sigmas


_SWITCH_WORDS: dict[str, Any] = {
    "class_ious": lambda v, base: ", ".join(
        f"IoU {iou!r} for {name}" for name, iou in v if (name, iou) not in base.class_ious
    ),
    "sigmas": lambda *_: "sigmas",
    "interpolation": lambda v, _: f"interpolation {v}",
    "areas": lambda v, base: ", ".join(
        [f"area {v[0].low:g}..{v[0].high:g}"] * (v[0] != base.areas[0])
        + [f"also area {a.name} = {a.bounds}" for a in v[len(base.areas) :]]
    ),
    "max_dets": lambda v, _: f"at most {v} detections",
    "recall_at": lambda v, base: f"recall also at {', '.join(str(k) for k in v if k not in base.recall_at)}",
    "ignored": lambda *_: "difficult objects counted",
    "pixels": lambda v, _: f"pixels {v}",
}

FRACTIONS = 1024.0
"""Pixels of the side of an image for which 32-bit fractions are computed."""


def without_pixels(rules: Sequence[Protocol], log: Log) -> list[Protocol]:
    """Return the protocols for boxes that are fractions of images of unknown size.

    IoU is the same in any unit. Inclusive pixels are replaced by edges, and no box is in an area range beyond
    the first, so that its numbers are undefined.

    Raises
    ------
    UsageError
        If a protocol cannot do without pixels: it has ranges given by the user, or a threshold by size.
    """
    result = []
    for p in rules:
        bounded = p.areas[0] not in (EVERY_AREA, AREAS["all"]) or p.named_areas
        if bounded or p.size_threshold or "pixels inclusive" in p.switched:
            raise UsageError(f"{p.name} is defined in pixels here, but no image has a size; {GIVE_SIZES}")
        areas = [replace(area, low=math.inf, high=math.inf) for area in p.areas[1:]]
        changed: dict[str, Any] = {"areas": (p.areas[0], *areas), "scale": FRACTIONS if p.single else 1.0}
        if p.pixels == "inclusive":
            changed |= {"pixels": "edges", "switched": (*p.switched, "pixels edges")}
        result.append(replace(p, **changed))
    log.note(
        "no image has a size, so boxes are compared as fractions of their images: area ranges and inclusive "
        f"pixels (width + 1) are not available ({GIVE_SIZES})"
    )
    return result


def without_fields(rules: Sequence[Protocol], known: Collection[str], log: Log) -> list[Protocol]:
    """The protocols for ground truth with the `known` fields; the log tells what its objects lack."""
    ready = []
    for p in rules:
        bounds = {bound.column for a in p.areas for bound in a.also} - {"height"}
        missing = sorted(bounds - set(known))
        if missing == sorted(bounds) and p.approximate:
            what = "levels by height, which is approximate"
            log.note(f"{p.name}: there are no lists of {', '.join(missing)}: {what} (valid objects count)")
            changed = p.ignored | Flag.CROWD, (*p.switched, what)
            ready.append(replace(p, areas=p.approximate, ignored=changed[0], switched=changed[1]))
            continue
        if missing:
            log.note(
                f"{p.name}: the ground truth has no {' and '.join(missing)}, so that bounds no object out"
            )
        ready.append(p)
    return ready


def check_tubes(rules: Sequence[Protocol], options: Iterable[str]) -> bool:
    """Return whether tracks are to be measured.

    Raises
    ------
    UsageError
        If boxes are to be measured too, or one of the `options` in use has no meaning for tracks.
    """
    over_tracks = [p.name for p in rules if p.tubes]
    if not over_tracks:
        return False
    names = " and ".join(dict.fromkeys(over_tracks))
    others = [p.name for p in rules if not p.tubes]
    if others:
        raise UsageError(
            f"{spell('protocol')} {names} measures tracks and {others[0]} boxes: evaluate them one by one"
        )
    for name in options:
        raise UsageError(f"{spell(name)} does not apply to {names}, which measures tracks")
    return True


def check_scores(*, at_score: float | None = None, score_min: float | None = None) -> None:
    """Make sure that scores given by the user are finite: UsageError if one is not."""
    for name, value in (("at_score", at_score), ("score_min", score_min)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{spell(name)} {value}: expected a finite number")


def _thresholds(ious: tuple[float, ...], base: Protocol) -> list[tuple[float, ...]]:
    """The thresholds of each protocol that `base` becomes: of one for all, or of one for each."""
    if base.size_threshold:
        raise UsageError(
            f"{spell('iou')}: {base.name} has a separate threshold for every ground truth; leave it out"
        )
    if base.shared_score:
        raise UsageError(
            f"{spell('iou')}: {base.name} always reports mAP50, mAP75 and mAP50-95; leave it out, or choose "
            f"another protocol"
        )
    return [tuple(sorted(ious))] if base.averaged else [(i,) for i in ious]


def _interpolation(value: str | int, base: Protocol) -> str:
    if base.metric in ("corloc", "top-k"):
        raise UsageError(f"{base.name} has no precision-recall curve to interpolate")
    if base.reading != "steps" and str(value) != base.interpolation:
        raise UsageError(f"{base.name} reads precision at {base.interpolation} recalls: omit interpolation")
    if str(value) not in ("all", "11", "101"):
        raise UsageError(f"{spell('interpolation')} {value}: choose all, 11 or 101")
    return str(value)


def _recall_at(numbers: Sequence[int], base: Protocol, most: int | None) -> tuple[int, ...]:
    """Return the numbers of detections at which recall is averaged: the protocol's and those of the user."""
    if not base.recall_at or most is None:
        raise UsageError(
            f"{spell('recall_at')} {','.join(map(str, numbers))}: {base.name} has no average recall by "
            f"number of detections; coco has"
        )
    for k in numbers:
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise UsageError(f"{spell('recall_at')} {k}: expected whole numbers from 1, as in 1,10,50")
        if k > most:
            raise UsageError(
                f"{spell('recall_at')} {k}: only the best {most} detections of an image and class are looked "
                f"at; for more, also raise the limit ({spell('max_dets')} {k})"
            )
    return tuple(sorted({*base.recall_at, *map(int, numbers)}))


def _areas(areas: Areas, base: Protocol) -> tuple[AreaRange, ...]:
    """Return the area ranges of `base`, the first one replaced by a range without a name, and those with
    names added.
    """
    if (
        base.metric in ("corloc", "top-k")
        or base.apart
        or base.mean_over
        or base.rates
        or base.detected_only
        or any(a.also or a.first for a in base.areas)
    ):
        raise UsageError(f"{base.name} has no area ranges")
    first, by_name = base.areas[0], {a.name: a for a in base.areas[1:]}
    n_whole = 0
    listed: list[Any] = [areas]
    if isinstance(areas, Mapping):
        listed = list(areas.items())
    elif not isinstance(areas, str) and any(isinstance(part, str) for part in areas):
        listed = list(areas)
    for part in listed:
        name, bounds = part if isinstance(areas, Mapping) else (None, part)
        if isinstance(part, str):
            before, equals, bounds = part.rpartition("=")
            name = before.strip() if equals else None
        if name is None:
            n_whole += 1
            if n_whole > 1:
                raise UsageError(
                    f"{spell('area')} {bounds}: there is one range already; name each additional one, as in "
                    "tiny=0:256"
                )
            first = _area(bounds, base)
            continue
        if name in AREAS or name in by_name:
            what = "is COCO's own range" if name in AREAS else "was given twice"
            raise UsageError(f"{spell('area')} {name}: the name {what}: choose another one")
        by_name[name] = _named_area(name, bounds, base)
    if len(by_name) >= MOST_AREAS:
        most = MOST_AREAS - len(base.areas)
        raise UsageError(f"{spell('area')} ranges: {base.name} takes at most {most} named ones")
    return first, *by_name.values()


def _named_area(name: str, bounds: Any, base: Protocol) -> AreaRange:
    if base.metric != "ap" or base.group_weight is not None:
        raise UsageError(
            f"{spell('area')} {name}: {base.name} has no named area ranges; LOW:HIGH without a name is one "
            f"for all its numbers"
        )
    if not re.fullmatch(r"[\w.-]{1,40}", name):
        raise UsageError(
            f"{spell('area')} {shorten(name)}={bounds}: a name has letters, digits, '.', '_' and '-', "
            "as in tiny=0:256"
        )
    area = _area(bounds, base, name)
    if area.low == area.high:
        raise UsageError(f"{spell('area')} {name}={bounds}: the lower end must be below the upper one")
    return replace(area, name=name)


def _area(bounds: str | tuple[float, float], base: Protocol, name: str = "") -> AreaRange:
    """Parse the bounds of an area range: a name, ``LOW:HIGH`` or two numbers, in square pixels."""
    shown = f"{name}={bounds}" if name else bounds
    if isinstance(bounds, str):
        if bounds in AREAS:
            area = AREAS[bounds]
            unlimited = len(base.areas) == 1 and area.high == LARGEST_AREA
            return replace(area, high=math.inf) if unlimited else area
        try:
            texts = [part.strip() for part in bounds.replace("..", ":").replace(",", ":").split(":")]
            if not any(texts):
                raise ValueError
            low, high = (float(text or math.nan) for text in texts)
            low = low if texts[0] else 0.0
            if not texts[1] and 0 <= low < LARGEST_AREA:
                return AreaRange(f"{low:g}..", low, base.areas[0].high)
        except ValueError:
            raise UsageError(
                f"{spell('area')} {shown}: choose {', '.join(AREAS)}, or give LOW:HIGH or NAME=LOW:HIGH"
            ) from None
    else:
        low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and 0 <= low <= high):
        raise UsageError(f"{spell('area')} {shown}: give two areas in square pixels, the lower one first")
    return AreaRange(f"{low:g}..{high:g}", float(low), float(high))
