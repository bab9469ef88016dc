"""The changes that a user makes to a protocol, such as ``--iou`` or ``--area``, and the checks of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from msgspec.structs import replace

from odm.codes import GIVE_SIZES
from odm.evaluate.scores.protocol_words import format_ious, suggest_protocol
from odm.evaluate.scores.protocols import (
    BY_IOU_TYPE,
    DEFAULT,
    PROTOCOLS,
    SHAPE_PROTOCOLS,
    TUBE_PROTOCOLS,
    IouType,
    Protocol,
)
from odm.evaluate.scores.set_ups import AREAS, LARGEST_AREA, AreaRange
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
    list of such texts. `without_oddities` leaves out what `Protocol.plain` lists; `keep_difficult` counts
    difficult objects like any other.

    Raises
    ------
    UsageError
        If a protocol is not known, a switch does not apply to it, a value is out of range, or the protocols
        compare different shapes.

    Examples
    --------
    >>> [(rules.name, rules.ious) for rules in resolve("voc2012", iou=[0.5, 0.7])]
    [('voc2012', (0.5,)), ('voc2012', (0.7,))]
    """
    protocol = DEFAULT if protocol is None else protocol
    names = [protocol] if isinstance(protocol, (str, Protocol)) else list(protocol)
    if not names:
        raise UsageError(f"give at least one protocol of {', '.join(PROTOCOLS)}")
    ious, iou_by_class = _split_ious(iou)
    resolved: list[Protocol] = []
    for name in names:
        rules = name if isinstance(name, Protocol) else _find_protocol(name)
        if rules.tubes:  # an empty `area` and a false `keep_difficult` are as if not given
            options = {"area": area or None, "recall_at": recall_at, "pixels": pixels, "iou_type": iou_type}
            for option, value in {**options, "keep_difficult": keep_difficult or None}.items():
                if value is not None:
                    raise UsageError(f"{spell(option)} does not apply to {rules.name}, which measures tracks")
        rules = _change_iou_type(_drop_oddities(rules) if without_oddities else rules, iou_type)
        changes: dict[str, Any] = {} if sigmas is None else {"sigmas": _parse_sigmas(sigmas, rules)}
        if iou_by_class:
            changes["class_ious"] = _override_class_ious(iou_by_class, rules)
        if interpolation is not None:
            changes["interpolation"] = _check_interpolation(interpolation, rules)
        if area is not None and len(area):
            changes["areas"] = _change_areas(area, rules)
        if max_dets is not None:
            changes["max_dets"] = _check_max_dets(max_dets, rules)
        if recall_at is not None:
            changes["recall_at"] = _add_recall_caps(recall_at, rules, changes.get("max_dets", rules.max_dets))
        if keep_difficult:
            changes["ignored"] = rules.ignored & ~Flag.DIFFICULT
        if pixels is not None:
            changes["pixels"] = _check_pixels(pixels, rules)
        # A protocol for each group of thresholds, with the words for all that differs from its definition.
        switch_words = [_SWITCH_WORDS[k](v, rules) for k, v in changes.items() if v != getattr(rules, k)]
        for new_ious in [rules.ious] if ious is None else _group_ious(ious, rules):
            iou_words = [f"IoU {format_ious(new_ious)}"] if new_ious != rules.ious else []
            switched = switch_words + iou_words
            changed_protocol = replace(rules, **changes, ious=new_ious, switched=(*rules.switched, *switched))
            if changed_protocol not in resolved:
                resolved.append(changed_protocol)
    _check_one_type(resolved)
    return resolved


def _find_protocol(name: str) -> Protocol:
    """Return the protocol of that name. Raises UsageError if there is none."""
    protocol_by_name = {**PROTOCOLS, **SHAPE_PROTOCOLS, **TUBE_PROTOCOLS}
    if name not in protocol_by_name:
        raise UsageError(
            f"unknown protocol {name!r}{suggest_protocol(name, protocol_by_name)}; "
            f"there are: {', '.join(protocol_by_name)}"
        )
    return protocol_by_name[name]


def _check_max_dets(value: float, rules: Protocol) -> int:
    """Return the value of ``max_dets``. Raises UsageError if it is no count, or the protocol has no limit."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise UsageError(f"{spell('max_dets')} {value}: expected a whole number of at least 1")
    if rules.metric == "corloc":
        raise UsageError("corloc uses only the top detection, so max_dets has no effect")
    return int(value)


def _drop_oddities(rules: Protocol) -> Protocol:
    """Return the protocol without the oddities of its program, which `Protocol.plain` lists.

    Raises UsageError if there are none.
    """
    if not rules.plain:
        raise UsageError(f"{spell('without_oddities')}: {rules.name} has none to leave out")
    return replace(rules, **dict(rules.plain), plain=(), switched=(*rules.switched, "without oddities"))


def _override_class_ious(iou_by_class: dict[str, float], rules: Protocol) -> tuple[tuple[str, float], ...]:
    """Return (class, IoU) pairs: a protocol's thresholds of single classes, overridden by the user's.

    A protocol with fixed classes (`only`) knows them in any case of letters. Raises UsageError if it takes no
    thresholds of single classes.
    """
    if rules.averaged or rules.size_threshold or rules.metric != "ap" or rules.tubes:
        raise UsageError(f"{spell('iou')}: {rules.name} has no thresholds of single classes")
    overridden_names = {name.casefold() for name in iou_by_class} if rules.only else set(iou_by_class)
    remaining = {name: iou for name, iou in rules.class_ious if name.casefold() not in overridden_names}
    return tuple({**remaining, **iou_by_class}.items())


def check_class_ious(protocols: Sequence[Protocol], classes: Sequence[str]) -> None:
    """Raise UsageError if a protocol has a threshold for a class that is not among `classes`."""
    class_names = {name.casefold() for name in classes}
    for p in protocols:
        for name, _ in p.class_ious:
            # The fixed classes of a protocol (`only`) need not occur in the data.
            if name.casefold() not in class_names and name not in p.only:
                raise UsageError(f"{spell('iou')}: there is no class {shorten(name)!r}{hint(name, classes)}")


def _split_ious(iou: Ious | None) -> tuple[tuple[float, ...] | None, dict[str, float]]:
    """Split the value of ``iou`` into the thresholds of all classes, or None, and those by class name.

    Raises UsageError if there is no threshold, or one is not above 0 and up to 1.
    """
    if iou is None:
        return None, {}
    ious: list[float] = []
    iou_by_class: dict[str, float] = {}
    for value in [iou] if isinstance(iou, (int, float, str, Mapping)) else iou:
        if isinstance(value, Mapping):
            iou_by_class |= value
        elif isinstance(value, str):
            _add_ious(value, ious, iou_by_class)
        else:
            ious.append(value)
    if not ious and not iou_by_class:
        raise UsageError("give at least one IoU threshold")
    for threshold in (*ious, *iou_by_class.values()):
        if not 0 < threshold <= 1:
            raise UsageError(f"{spell('iou')} {threshold}: expected an IoU above 0 and up to 1, as in 0.5")
    return tuple(dict.fromkeys(map(float, ious))) or None, iou_by_class


def _add_ious(text: str, ious: list[float], iou_by_class: dict[str, float]) -> None:
    """Parse ``0.5``, ``0.3:0.05:0.75``, ``car=0.7``, or several with commas.

    The thresholds are added to `ious`, or to `iou_by_class` if they are of one class.
    Raises UsageError for any other text, or a range of more than 1000 thresholds.
    """
    for item in text.split(","):
        name, is_class, iou_text = item.rpartition("=")
        try:
            if is_class:
                iou_by_class[name.strip()] = float(iou_text)
            elif ":" in item:
                low, step, high = map(float, item.split(":"))
                # 0.3:0.05:0.75 are 10 thresholds; the last one must be the upper end.
                n_steps = round((high - low) / step) + 1 if step > 0 else 0
                if not (1 <= n_steps <= 1000 and math.isclose(low + step * (n_steps - 1), high)):
                    raise ValueError
                ious.extend(np.linspace(low, high, n_steps).tolist())
            else:
                ious.append(float(item))
        except (ValueError, OverflowError):
            raise UsageError(
                f"{spell('iou')} {shorten(text)}: expected an IoU above 0 and up to 1, as in 0.5, "
                "LOW:STEP:HIGH, as in 0.5:0.05:0.95, or CLASS=IOU, as in car=0.7"
            ) from None


def _check_one_type(protocols: Sequence[Protocol]) -> None:
    """Raise UsageError where one protocol compares boxes and another something else."""
    name_by_type = {p.iou_type: p.name for p in protocols}
    if len(name_by_type) > 1:
        (first_type, first_name), (second_type, second_name) = list(name_by_type.items())[:2]
        raise UsageError(
            f"{spell('protocol')} {first_name} compares {first_type} and {second_name} {second_type}: "
            f"evaluate them one by one, or give one {spell('iou_type')} for both"
        )


def _change_iou_type(rules: Protocol, iou_type: IouType | None) -> Protocol:
    """Return the protocol changed to compare boxes, masks, keypoints or oriented boxes, as `iou_type` says.

    Raises UsageError if the protocol is not defined for that type.
    """
    if iou_type is None or iou_type == rules.iou_type:
        return rules
    if iou_type not in get_args(IouType):
        raise UsageError(f"{spell('iou_type')} {iou_type}: choose {', '.join(get_args(IouType))}")
    if rules.name == "ultralytics" and iou_type == "segm":
        raise UsageError(
            f"{spell('iou_type')} segm: yolo val compares masks at a quarter of the letterboxed picture, "
            f"cropped to the predicted box; label files do not hold them. Use {spell('protocol')} coco "
            f"{spell('iou_type')} segm"
        )
    if rules.measure != "bbox":  # defined for another shape, or changed before
        raise UsageError(f"{spell('iou_type')} {iou_type}: {rules.name} compares {rules.iou_type} only")
    if rules.name not in (fitting := BY_IOU_TYPE[iou_type]):
        use = ", ".join(fitting)
        raise UsageError(
            f"{spell('iou_type')} {iou_type}: {rules.name} does not define it; use {spell('protocol')} {use}"
        )
    return replace(rules, **BY_IOU_TYPE[iou_type][rules.name])


def _check_pixels(value: str, rules: Protocol) -> str:
    """Return the value of ``pixels``. Raises UsageError if it is unknown or the protocol has no boxes."""
    if value not in ("edges", "inclusive"):
        raise UsageError(f"{spell('pixels')} {value}: choose edges or inclusive")
    if rules.measure != "bbox":
        raise UsageError(
            f"{spell('pixels')} {value}: applies to boxes only, not to iou_type {rules.iou_type}"
        )
    return value


def _parse_sigmas(values: Sequence[float], rules: Protocol) -> tuple[float, ...]:
    """Return the sigmas of the keypoints as floats.

    Raises UsageError if they are not numbers above 0, or the protocol does not compare keypoints.
    """
    if rules.iou_type != "keypoints":
        raise UsageError(f"{spell('sigmas')}: only keypoints have them ({spell('iou_type')} keypoints)")
    try:
        sigmas = tuple(map(float, values))
    except (TypeError, ValueError):
        sigmas = ()
    if not sigmas or not all(math.isfinite(sigma) and sigma > 0 for sigma in sigmas):
        raise UsageError(f"{spell('sigmas')}: expected numbers above 0, one for each keypoint")
    return sigmas


# By field of a protocol, the words for its change, given the new value and the protocol before the change.
# The first area is the range of all numbers; areas that the user named are at the end.
_SWITCH_WORDS: dict[str, Any] = {
    "class_ious": lambda v, rules: ", ".join(
        f"IoU {iou!r} for {name}" for name, iou in v if (name, iou) not in rules.class_ious
    ),
    "sigmas": lambda *_: "sigmas",
    "interpolation": lambda v, _: f"interpolation {v}",
    "areas": lambda v, rules: ", ".join(
        [f"area {v[0].low:g}..{v[0].high:g}"] * (v[0] != rules.areas[0])
        + [f"also area {a.name} = {a.bounds}" for a in v[len(rules.areas) :]]
    ),
    "max_dets": lambda v, _: f"at most {v} detections",
    "recall_at": lambda v, rules: (
        f"recall also at {', '.join(str(k) for k in v if k not in rules.recall_at)}"
    ),
    "ignored": lambda *_: "difficult objects counted",
    "pixels": lambda v, _: f"pixels {v}",
}

FRACTIONS = 1024.0
"""Pixels of the side of an image for which 32-bit fractions are computed."""


def adapt_to_fractions(protocols: Sequence[Protocol], log: Log) -> list[Protocol]:
    """Return the protocols adapted to boxes that are fractions of images of unknown size.

    IoU is the same in any unit; the scale is `FRACTIONS` for protocols with 32-bit floats, else 1.
    Inclusive pixels are replaced by edges, and no box is in a range of areas in pixels beyond the first, so
    that its numbers are undefined. A note in `log` says this.

    Raises UsageError if a protocol cannot do without pixels: its first range is in pixels, the user named
    ranges or chose inclusive pixels, or it has a threshold by size.
    """
    adapted = []
    for p in protocols:
        if p.areas[0].in_pixels or p.named_areas or p.size_threshold or "pixels inclusive" in p.switched:
            raise UsageError(f"{p.name} is defined in pixels here, but no image has a size; {GIVE_SIZES}")
        # No area reaches infinity, so nothing is in these ranges.
        areas = [replace(a, low=math.inf, high=math.inf) if a.in_pixels else a for a in p.areas[1:]]
        changes: dict[str, Any] = {"areas": (p.areas[0], *areas), "scale": FRACTIONS if p.single else 1.0}
        if p.pixels == "inclusive":
            changes |= {"pixels": "edges", "switched": (*p.switched, "pixels edges")}
        adapted.append(replace(p, **changes))
    log.note(
        "no image has a size, so boxes are compared as fractions of their images: area ranges and inclusive "
        f"pixels (width + 1) are not available ({GIVE_SIZES})"
    )
    return adapted


def adapt_to_fields(protocols: Sequence[Protocol], field_names: Collection[str], log: Log) -> list[Protocol]:
    """Return the protocols adapted to ground truth whose objects have only the fields `field_names`.

    ``height`` is never missing: every box has it. If all other fields of a protocol's area ranges are
    missing, its approximate ranges, if any, replace them, and crowds are ignored. Other missing fields bound
    nothing. Notes in `log` name the missing fields.
    """
    adapted = []
    for p in protocols:
        bound_fields = {bound.column for a in p.areas for bound in a.also} - {"height"}
        missing = sorted(bound_fields - set(field_names))
        has_no_field = missing == sorted(bound_fields)
        if has_no_field and p.approximate:
            words = "levels by height, which is approximate"
            log.note(f"{p.name}: there are no lists of {', '.join(missing)}: {words} (valid objects count)")
            switched = (*p.switched, words)
            ignored = p.ignored | Flag.CROWD  # objects that are marked as invalid are read as crowds
            adapted.append(replace(p, areas=p.approximate, ignored=ignored, switched=switched))
            continue
        if missing:
            log.note(
                f"{p.name}: the ground truth has no {' and '.join(missing)}, so that bounds no object out"
            )
        adapted.append(p)
    return adapted


def check_tubes(protocols: Sequence[Protocol], options: Iterable[str]) -> bool:
    """Return whether tracks are to be measured.

    Raises UsageError if they are and boxes are too, or if an option is in use: all `options`, names of
    keywords, have no meaning for tracks.
    """
    tube_names = [p.name for p in protocols if p.tubes]
    if not tube_names:
        return False
    names = " and ".join(dict.fromkeys(tube_names))
    box_names = [p.name for p in protocols if not p.tubes]
    if box_names:
        raise UsageError(
            f"{spell('protocol')} {names} measures tracks and {box_names[0]} boxes: evaluate them one by one"
        )
    for name in options:  # the first one is enough for a message
        raise UsageError(f"{spell(name)} does not apply to {names}, which measures tracks")
    return True


def check_scores(*, at_score: float | None = None, score_min: float | None = None) -> None:
    """Check that the scores that the user gave are finite. Raises UsageError if one is not."""
    for name, value in (("at_score", at_score), ("score_min", score_min)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{spell(name)} {value}: expected a finite number")


def _group_ious(ious: tuple[float, ...], rules: Protocol) -> list[tuple[float, ...]]:
    """Return the thresholds of each resulting protocol.

    A protocol that is averaged over IoUs takes all of them; any other becomes one protocol per IoU.
    Raises UsageError if its thresholds cannot be chosen.
    """
    if rules.size_threshold:
        raise UsageError(
            f"{spell('iou')}: {rules.name} has a separate threshold for every ground truth; leave it out"
        )
    if rules.shared_score:
        raise UsageError(
            f"{spell('iou')}: {rules.name} always reports mAP50, mAP75 and mAP50-95; leave it out, or choose "
            f"another protocol"
        )
    return [tuple(sorted(ious))] if rules.averaged else [(i,) for i in ious]


def _check_interpolation(value: str | int, rules: Protocol) -> str:
    """Return the value of ``interpolation`` as text. Raises UsageError if the protocol cannot use it."""
    if rules.metric in ("corloc", "top-k"):
        raise UsageError(f"{rules.name} has no precision-recall curve to interpolate")
    if rules.reading != "steps" and str(value) != rules.interpolation:
        raise UsageError(f"{rules.name} reads precision at {rules.interpolation} recalls: omit interpolation")
    if str(value) not in ("all", "11", "101"):
        raise UsageError(f"{spell('interpolation')} {value}: choose all, 11 or 101")
    return str(value)


def _add_recall_caps(caps: Sequence[int], rules: Protocol, limit: int | None) -> tuple[int, ...]:
    """Return the detection caps at which recall is averaged: the protocol's and the user's, ascending.

    `limit` is the most detections of an image and class that are looked at. Raises UsageError if the protocol
    has no such limit or recall, or a cap is no whole number from 1 to `limit`.
    """
    if not rules.recall_at or limit is None:
        raise UsageError(
            f"{spell('recall_at')} {','.join(map(str, caps))}: {rules.name} has no average recall by "
            f"number of detections; coco has"
        )
    for cap in caps:
        if isinstance(cap, bool) or int(cap) != cap or cap < 1:
            raise UsageError(f"{spell('recall_at')} {cap}: expected whole numbers from 1, as in 1,10,50")
        if cap > limit:
            raise UsageError(
                f"{spell('recall_at')} {cap}: only the best {limit} detections of an image and class are "
                f"looked at; for more, also raise the limit ({spell('max_dets')} {cap})"
            )
    return tuple(sorted({*rules.recall_at, *map(int, caps)}))


def _change_areas(areas: Areas, rules: Protocol) -> tuple[AreaRange, ...]:
    """Return the protocol's area ranges with those of the user.

    A range without a name replaces the protocol's first one; ranges with names are added at the end. Raises
    UsageError if the protocol takes no ranges, or their names or number are wrong.
    """
    has_set_ups = any(a.also or a.first for a in rules.areas)  # bounds on more than the area
    has_own_summary = rules.apart or rules.mean_over or rules.rates or rules.detected_only
    if rules.metric in ("corloc", "top-k") or has_own_summary or has_set_ups:
        raise UsageError(f"{rules.name} has no area ranges")
    unnamed_area, area_by_name = rules.areas[0], {a.name: a for a in rules.areas[1:]}
    n_unnamed = 0
    for name, bounds in _split_areas(areas):
        if name is None:
            n_unnamed += 1
            if n_unnamed > 1:
                raise UsageError(
                    f"{spell('area')} {bounds}: there is one range already; name each additional one, as in "
                    "tiny=0:256"
                )
            unnamed_area = _parse_area(bounds, rules)
            continue
        if name in AREAS or name in area_by_name:
            fault = "is COCO's own range" if name in AREAS else "was given twice"
            raise UsageError(f"{spell('area')} {name}: the name {fault}: choose another one")
        area_by_name[name] = _parse_named_area(name, bounds, rules)
    if len(area_by_name) >= MOST_AREAS:  # with the unnamed one there are too many
        n_named_max = MOST_AREAS - len(rules.areas)
        raise UsageError(f"{spell('area')} ranges: {rules.name} takes at most {n_named_max} named ones")
    return unnamed_area, *area_by_name.values()


def _split_areas(areas: Areas) -> Iterator[tuple[str | None, Any]]:
    """Yield the name, None if it has none, and the bounds of each range that a user gave.

    ``{"tiny": (0, 256)}`` and ``["tiny=0:256"]`` are lists of ranges, ``"0:256"`` and ``(0, 256)`` are one.
    """
    if isinstance(areas, Mapping):
        yield from areas.items()
        return
    is_list = not isinstance(areas, str) and any(isinstance(item, str) for item in areas)
    for item in areas if is_list else [areas]:
        name, equals, bounds = item.rpartition("=") if isinstance(item, str) else ("", "", item)
        yield name.strip() if equals else None, bounds


def _parse_named_area(name: str, bounds: Any, rules: Protocol) -> AreaRange:
    """Parse an additional area range. Raises UsageError for a bad name or a protocol that cannot have it."""
    if rules.metric != "ap" or rules.group_weight is not None:
        raise UsageError(
            f"{spell('area')} {name}: {rules.name} has no named area ranges; LOW:HIGH without a name is one "
            f"for all its numbers"
        )
    if not re.fullmatch(r"[\w.-]{1,40}", name):
        raise UsageError(
            f"{spell('area')} {shorten(name)}={bounds}: a name has letters, digits, '.', '_' and '-', "
            "as in tiny=0:256"
        )
    area = _parse_area(bounds, rules, name)
    if area.low == area.high:
        raise UsageError(f"{spell('area')} {name}={bounds}: the lower end must be below the upper one")
    return replace(area, name=name)


def _parse_area(bounds: str | tuple[float, float], rules: Protocol, name: str = "") -> AreaRange:
    """Parse the bounds of an area range: a name, ``LOW:HIGH`` or two numbers, in square pixels.

    ``..`` and ``,`` separate the ends too; an omitted end is 0, or the upper limit of the protocol.
    `name` is that of an additional range, for the message of the UsageError.
    """
    option_text = f"{name}={bounds}" if name else bounds
    if isinstance(bounds, str):
        if bounds in AREAS:
            area = AREAS[bounds]
            # Protocols with a single range, unlike COCO, do not drop boxes beyond `LARGEST_AREA`.
            is_unlimited = len(rules.areas) == 1 and area.high == LARGEST_AREA
            return replace(area, high=math.inf) if is_unlimited else area
        try:
            end_texts = [end.strip() for end in bounds.replace("..", ":").replace(",", ":").split(":")]
            if not any(end_texts):
                raise ValueError
            low, high = (float(text or math.nan) for text in end_texts)
            low = low if end_texts[0] else 0.0  # ":256" is 0:256; "256:" has no upper end but the protocol's
            if not end_texts[1] and 0 <= low < LARGEST_AREA:
                return AreaRange(f"{low:g}..", low, rules.areas[0].high)
        except ValueError:
            raise UsageError(
                f"{spell('area')} {option_text}: choose {', '.join(AREAS)}, or give LOW:HIGH or NAME=LOW:HIGH"
            ) from None
    else:
        low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and 0 <= low <= high):
        raise UsageError(
            f"{spell('area')} {option_text}: give two areas in square pixels, the lower one first"
        )
    return AreaRange(f"{low:g}..{high:g}", float(low), float(high))
