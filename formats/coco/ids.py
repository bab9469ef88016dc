"""What the ids of COCO mean, in a file's own lists or in the ground truth that results refer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.coco80 import IDS, NAMES
from odm.codes import CATEGORY_POSITION_GUESSED
from odm.issues import Code, Log, Trusted, first_few, hint, printable, shorten
from odm.names import is_usual, number_of, stem
from odm.tables import NO_ID, Categories, Dataset, Id

NOT_IN_REFERENCE = Code(
    "not-in-reference",
    "error",
    "the {what} {value!r} is not in the ground truth that defines the ids{near}",
    "use the ground truth that these detections belong to",
    "A results file can contain only ids of the ground truth.",
)


def listed(column: Any) -> list[Any]:
    """The values of a column as a list."""
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def packed(ids: Sequence[Id | None]) -> NDArray[Any] | list[Any]:
    """Ids as a column: int64, or a list where some are text."""
    return list(ids) if str in set(map(type, ids)) else np.array(ids, np.int64)


def look_up(ids: NDArray[Any] | list[Any], row_of_id: Mapping[Id, int]) -> NDArray[np.int32]:
    """Return (n,) int32, the row of each id in `row_of_id`, -1 for an unknown id."""
    if isinstance(ids, list):
        return np.array([row_of_id.get(i, -1) for i in ids], np.int32).reshape(-1)
    if str in set(map(type, row_of_id)):
        row_of_id = {key: row for key, row in row_of_id.items() if not isinstance(key, str)}
    if not row_of_id:
        return np.full(len(ids), -1, np.int32)
    keys, rows = np.array(list(row_of_id)), np.array(list(row_of_id.values()))
    low, high = int(keys.min()), int(keys.max())
    looked_up: NDArray[np.int32]
    if high - low <= max(2**16, 4 * len(ids)):
        row_of_offset = np.full(high - low + 1, -1, np.int32)
        row_of_offset[keys - low] = rows
        positions = ids - low
        outside = positions.view(np.uint64) > np.uint64(high - low)  # below as well, as these are then huge
        if outside.any():
            positions[outside] = 0
        looked_up = np.take(row_of_offset, positions)
        looked_up[outside] = -1
        return looked_up
    order = np.argsort(keys)
    keys, rows = keys[order], rows[order]
    positions = np.searchsorted(keys, ids)
    positions[positions == len(keys)] = 0
    return np.where(keys[positions] == ids, rows[positions], -1).astype(np.int32)


def other_type(id_: Id) -> Id | None:
    """Return a number as text, and a text of a plain number as that number; None for other text."""
    if isinstance(id_, int):
        return str(id_)
    number = number_of(id_)
    return number if str(number) == id_ else None


def with_other_type(
    row_of_id: Mapping[Id, int], ids: Iterable[Id], key: str, path: str, log: Log
) -> dict[Id, int]:
    """Add to the rows by id those of `ids` that are known only as the other type, such as ``"7"`` for 7.

    A note names the first.
    """
    unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in row_of_id]
    twins = {id_: twin for id_ in unknown if (twin := other_type(id_)) is not None and twin in row_of_id}
    for id_, twin in list(twins.items())[:1]:
        listed_type = "text" if isinstance(twin, str) else "numbers"
        more = f" ({len(twins)} such ids)" if len(twins) > 1 else ""
        shown, meant = json.dumps(id_), json.dumps(twin)
        log.note(
            f"{printable(path)}: {key} {shown} is read as {meant}, "
            f"because the listed ids are {listed_type}{more}"
        )
    return {**row_of_id, **{id_: row_of_id[twin] for id_, twin in twins.items()}}


def near(id_: Id, known: Mapping[Id, int], texts: Sequence[str]) -> str:
    """Suggest, in brackets, what an unknown id may mean; empty if unclear."""
    if isinstance(id_, int):
        return "" if any(isinstance(key, int) for key in known) else " (all ids are text)"
    if number_of(id_) >= 0 and number_of(id_) in known:
        return f" (there is one written as a number, {number_of(id_)})"
    return hint(id_, texts)


def choose_reading(
    column: NDArray[Any] | list[Any],
    reference_ids: NDArray[Any],
    other_readings: Callable[[], list[tuple[str, dict[Id, int]]]],
    key: str,
    path: str,
    log: Log,
) -> tuple[dict[Id, int], NDArray[np.int32] | None]:
    """Choose the meaning of the ids in a column: that which knows the most of them, the first of equals.

    The meanings are the ids of the ground truth, and `other_readings`: a name and the row of each value.
    Returns the row of each id, and (n,) the rows of the column if the ids of the ground truth were chosen.
    """
    by_id = {id_: row for row, id_ in enumerate(reference_ids.tolist()) if id_ != NO_ID}
    rows = look_up(column, by_id)
    readings = [] if (rows >= 0).all() else other_readings()
    if not readings:
        return by_id, rows
    if by_id:
        readings = [("the ids of the ground truth", by_id), *readings]
    ids = dict.fromkeys(listed(column))
    n_known = [sum(id_ in known for id_ in ids) for _, known in readings]
    reading_name, known = readings[n_known.index(max(n_known))]
    if known is not by_id and max(n_known):
        log.note(f"{printable(path)}: {key} is read as {reading_name}")
    return known, rows if known is by_id else None


def note_categories(
    known: Mapping[Id, int], reference: Dataset, path: str, log: Log, *, has_zero: bool
) -> None:
    """Report which class each id means if ids are positions in a list; `has_zero`: one of the ids is 0."""
    categories = reference.categories
    if len(categories) < 2 or not known or isinstance(next(iter(known)), str):
        return
    shown = _shown_order(known, categories)
    if (categories.source_id == NO_ID).all():
        if not categories.ordered:
            log.report(CATEGORY_POSITION_GUESSED, path, field="category_id", order=Trusted(shown))
    elif _is_list_of_names(reference) and list(known) == list(range(len(categories))):
        note_positions(known, categories, path, log, doubt="" if has_zero else _FROM_1)


_FROM_1 = " (no id is 0: if they count from 1, as Ultralytics does since 8.3, use -O ids=positions-from-1)"


def _is_list_of_names(reference: Dataset) -> bool:
    """Whether the classes of the ground truth come from a list of names, whose ids are 0, 1, ... by line."""
    categories = reference.categories
    numbered = bool((categories.source_id == np.arange(len(categories))).all())
    return numbered and bool(reference.files) and not any(f.pointer for f in reference.files)


def note_positions(
    known: Mapping[Id, int], categories: Categories, path: str, log: Log, *, doubt: str = ""
) -> None:
    """Note that ids are read as positions in the list of the ground truth, with the first classes."""
    shown = _shown_order(known, categories)
    log.note(
        f"{printable(path)}: category_id is read as the position in the ground truth's list, {shown}{doubt}"
    )


def _shown_order(known: Mapping[Id, int], categories: Categories) -> str:
    """Return the first few ids with the names of their classes, for a message."""
    return first_few(known, 3, lambda id_: f"{id_} = {shorten(categories.name[known[id_]], 30)!r}")


def position_hint(column: NDArray[Any] | list[Any] | None, categories: Categories) -> str:
    """Advise, in brackets, if partly unknown ids would all be valid positions; else empty.

    The others are then known by chance and mean another class.
    """
    if not isinstance(column, np.ndarray) or not len(column) or not (categories.source_id != NO_ID).any():
        return ""
    if column.min() < 0 or np.isin(column, categories.source_id).all():
        return ""
    for counted, first_position in (("positions", 0), ("positions-from-1", 1)):
        if np.isin(column, counted_ids(categories, counted)).all():
            return f" (all ids of the file look like positions from {first_position}: -O ids={counted})"
    trainer_ids = trainers_ids(categories)
    if (trainer_ids != NO_ID).all() and np.isin(column, trainer_ids).all():
        return " (all ids of the file look like positions among COCO's 80 classes: -O ids=80)"
    return ""


def image_readings(names: Sequence[str]) -> list[tuple[str, dict[Id, int]]]:
    """Return the meanings that an image_id may have besides an id: their names, and rows by value."""
    last_parts = [stem(name.rsplit("/", 1)[-1]) for name in names]
    by_name = {**unique_rows(last_parts), **unique_rows(map(stem, names)), **unique_rows(names)}
    by_number = {n: row for n, row in unique_rows(map(number_of, last_parts)).items() if n != -1}
    return [
        ("the names of the images", by_name),
        ("the numbers in the image names", by_number),
        ("the image names, or the numbers in them", {**by_number, **by_name}),
    ]


def category_readings(reference: Dataset) -> list[tuple[str, dict[Id, int]]]:
    """Return the meanings that a category_id may have besides an id, as `image_readings` does.

    They are the position and the name of a class, if the ground truth has no ids of its own.
    """
    categories = reference.categories
    by_position: dict[Id, int] = {row + 1: row for row in range(len(categories))}
    if _is_list_of_names(reference):
        first = shorten(categories.name[0], 30)
        what = f"the position in the ground truth's list, from 1, as in Ultralytics: 1 = {first!r}"
        return [(what, by_position)]
    if bool((categories.source_id != NO_ID).any()):
        return []
    by_name: dict[Id, int] = {name: row for row, name in enumerate(categories.name)}
    return [
        (
            "the position in the order of the classes, from 1, because the ground truth has no ids",
            by_position,
        ),
        ("the names of the classes", by_name),
    ]


def counted_ids(categories: Categories, counted: str) -> NDArray[np.int64]:
    """Return (n,) the id of each category when ids are positions in a list; `counted` as in `Reader`.

    If all classes are only numbers, these are their positions, also if some numbers are absent.
    """
    if counted == "80":
        return trainers_ids(categories)
    numbers = [number_of(name) for name in categories.name]
    numbered = not categories.named and min(numbers, default=-1) >= 0
    positions = numbers if numbered else range(len(categories))
    return np.array(positions, np.int64) + (counted == "positions-from-1")


def trainers_ids(categories: Categories) -> NDArray[np.int64]:
    """(n,) the position of each category among COCO's 80 classes, by its name, else by its id."""
    by_name = {name: at for at, name in enumerate(NAMES)}
    by_id = {number: at for at, number in enumerate(IDS)}
    pairs = zip(categories.name, categories.source_id.tolist(), strict=True)
    return np.array([by_name.get(name, by_id.get(number, NO_ID)) for name, number in pairs], np.int64)


def unique_rows(keys: Iterable[Any]) -> dict[Id, int]:
    """Return the position of each key that occurs once; None is no key."""
    rows: dict[Id, int] = {}
    repeated_keys = set()
    for row, key in enumerate(keys):
        if key is not None and rows.setdefault(key, row) != row:
            repeated_keys.add(key)
    return {key: row for key, row in rows.items() if key not in repeated_keys}


def add_ids(
    kept: list[Any], repeated_names: set[str], places: dict[str, tuple[str, int]], path: str, log: Log
) -> None:
    """Add its id to the name of each image that shares its name in its file: ``a.jpg`` -> ``a-7.jpg``.

    Both sides of an evaluation then use the same name. `kept` are tuples of name, values, id and number of
    the images of a file, changed in place; `places` are the names that are taken, and where. An id that is no
    part of a file name is replaced by the image's number. A note names the first.
    """
    renamed: dict[str, str] = {}
    for row, (name, *values, id_, i) in enumerate(kept):
        if name not in repeated_names:
            continue
        new_name, extension = name, name[len(stem(name)) :]
        suffix = str(id_) if is_usual(str(id_)) and "/" not in str(id_) else str(i)
        while new_name in places:
            new_name = f"{stem(new_name)}-{suffix}{extension}"
        places[new_name] = path, i
        renamed[name] = new_name
        kept[row] = (new_name, *values, id_, i)
    for name, new_name in list(renamed.items())[:1]:
        more = f" ({len(renamed)} such names)" if len(renamed) > 1 else ""
        log.note(
            f"{printable(path)}: several images have the file name {shorten(name, 40)!r}{more}, so their ids "
            f"are added, as in {shorten(new_name, 40)!r}"
        )
