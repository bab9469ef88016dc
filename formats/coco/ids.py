"""What the ids of COCO mean, in a file's own lists or in the ground truth that results refer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.coco80 import IDS, NAMES
from odm.codes import CATEGORY_POSITION_GUESSED
from odm.issues import Code, Log, Trusted, first_few, hint, printable, shorten, spell_setting
from odm.names import is_usual, parse_number, stem
from odm.tables import NO_ID, Categories, Dataset, Id

NOT_IN_REFERENCE = Code(
    "not-in-reference",
    "error",
    "the {what} {value!r} is not in the ground truth that defines the ids{near}",
    "use the ground truth that these detections belong to",
    "A results file can contain only ids of the ground truth.",
)


def as_list(column: Any) -> list[Any]:
    """Return the values of a column as a list."""
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def pack_ids(ids: Sequence[Id | None]) -> NDArray[Any] | list[Any]:
    """Return ids as a column: an int64 array, or the list if some are text."""
    return list(ids) if str in set(map(type, ids)) else np.array(ids, np.int64)


def look_up(ids: NDArray[Any] | list[Any], row_of_id: Mapping[Id, int]) -> NDArray[np.int32]:
    """Return (n,) int32, the row of each id in `row_of_id`, -1 for an unknown id."""
    if isinstance(ids, list):
        return np.array([row_of_id.get(i, -1) for i in ids], np.int32).reshape(-1)
    # numbers: by a table with an entry for each number between the lowest and the highest known id, if that
    # is small enough, else by a binary search
    if str in set(map(type, row_of_id)):
        row_of_id = {key: row for key, row in row_of_id.items() if not isinstance(key, str)}
    if not row_of_id:
        return np.full(len(ids), -1, np.int32)
    keys, rows = np.array(list(row_of_id)), np.array(list(row_of_id.values()))
    low, high = int(keys.min()), int(keys.max())
    row_of_each: NDArray[np.int32]
    if high - low <= max(2**16, 4 * len(ids)):
        row_of_offset = np.full(high - low + 1, -1, np.int32)
        row_of_offset[keys - low] = rows
        positions = ids - low
        is_outside = positions.view(np.uint64) > np.uint64(high - low)  # also negative ones, huge as uint64
        if is_outside.any():
            positions[is_outside] = 0  # any valid position
        row_of_each = np.take(row_of_offset, positions)
        row_of_each[is_outside] = -1
        return row_of_each
    order = np.argsort(keys)
    keys, rows = keys[order], rows[order]
    positions = np.searchsorted(keys, ids)
    positions[positions == len(keys)] = 0  # beyond the highest: any key, which is not the same
    return np.where(keys[positions] == ids, rows[positions], -1).astype(np.int32)


def to_other_type(id_: Id) -> Id | None:
    """Return a number as text, and a text of a plain number as that number; None for other text."""
    if isinstance(id_, int):
        return str(id_)
    value = parse_number(id_)
    return value if str(value) == id_ else None


def add_other_type(
    row_of_id: Mapping[Id, int], ids: Iterable[Id], key: str, path: str, log: Log
) -> dict[Id, int]:
    """Return `row_of_id` with those of `ids` added that it has only as the other type, such as ``"7"`` for 7.

    A note names the first; `key`, such as ``image_id``, is for this note.
    """
    unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in row_of_id]
    twins = {id_: twin for id_ in unknown if (twin := to_other_type(id_)) is not None and twin in row_of_id}
    for id_, twin in list(twins.items())[:1]:  # the first, if any
        listed_type = "text" if isinstance(twin, str) else "numbers"
        count_text = f" ({len(twins)} such ids)" if len(twins) > 1 else ""
        shown_id, shown_twin = json.dumps(id_), json.dumps(twin)
        log.note(
            f"{printable(path)}: {key} {shown_id} is read as {shown_twin}, "
            f"because the listed ids are {listed_type}{count_text}"
        )
    return {**row_of_id, **{id_: row_of_id[twin] for id_, twin in twins.items()}}


def suggest_id(id_: Id, row_of_id: Mapping[Id, int], text_ids: Sequence[str]) -> str:
    """Suggest, in brackets, what an unknown id may mean; empty if unclear.

    `text_ids` are the ids of `row_of_id` that are text.
    """
    if isinstance(id_, int):
        return "" if any(isinstance(key, int) for key in row_of_id) else " (all ids are text)"
    if parse_number(id_) >= 0 and parse_number(id_) in row_of_id:
        return f" (there is one written as a number, {parse_number(id_)})"
    return hint(id_, text_ids)


def choose_reading(
    column: NDArray[Any] | list[Any],
    reference_ids: NDArray[Any],
    other_readings: Callable[[], list[tuple[str, dict[Id, int]]]],
    key: str,
    path: str,
    log: Log,
) -> tuple[dict[Id, int], NDArray[np.int32] | None]:
    """Choose what the ids in a column mean: the reading under which most of them have a row.

    The readings are the ids of the ground truth, then `other_readings`, each a name and rows by id; of equals
    the first is chosen. Returns its rows by id, and, if it is the ids of the ground truth, (n,) the row of
    each id in the column.
    """
    by_id = {id_: row for row, id_ in enumerate(reference_ids.tolist()) if id_ != NO_ID}
    rows = look_up(column, by_id)
    readings = [] if (rows >= 0).all() else other_readings()
    if not readings:
        return by_id, rows
    if by_id:
        readings = [("the ids of the ground truth", by_id), *readings]
    ids = dict.fromkeys(as_list(column))
    n_known = [sum(id_ in row_of_id for id_ in ids) for _, row_of_id in readings]
    reading_name, row_of_id = readings[n_known.index(max(n_known))]
    if row_of_id is not by_id and max(n_known):
        log.note(f"{printable(path)}: {key} is read as {reading_name}")
    return row_of_id, rows if row_of_id is by_id else None


def note_categories(
    row_of_id: Mapping[Id, int], reference: Dataset, path: str, log: Log, *, has_zero: bool
) -> None:
    """Report which class each id means if ids are positions in a list; `has_zero`: one of the ids is 0.

    A warning where the order of the classes was guessed, as the ground truth has neither ids nor a list; a
    note where it is a list of names. Nothing is reported for other ids, or for a single class.
    """
    categories = reference.categories
    if len(categories) < 2 or not row_of_id or isinstance(next(iter(row_of_id)), str):
        return
    order = _format_order(row_of_id, categories)
    if (categories.source_id == NO_ID).all():
        if not categories.ordered:
            log.report(CATEGORY_POSITION_GUESSED, path, field="category_id", order=Trusted(order))
    elif _is_list_of_names(reference) and list(row_of_id) == list(range(len(categories))):  # read from 0
        advice = f"use {spell_setting('ids=positions-from-1')}"
        from_1 = f" (no id is 0: if they count from 1, as Ultralytics does since 8.3, {advice})"
        note_positions(row_of_id, categories, path, log, doubt="" if has_zero else from_1)


def _is_list_of_names(reference: Dataset) -> bool:
    """Whether the classes of the ground truth come from a list of names, whose ids are 0, 1, ... by line."""
    categories = reference.categories
    are_positions = bool((categories.source_id == np.arange(len(categories))).all())
    are_text_files = bool(reference.files) and not any(f.pointer for f in reference.files)  # not JSON
    return are_positions and are_text_files


def note_positions(
    row_of_id: Mapping[Id, int], categories: Categories, path: str, log: Log, *, doubt: str = ""
) -> None:
    """Note that ids are read as positions in the list of the ground truth, with the first classes."""
    order = _format_order(row_of_id, categories)
    log.note(
        f"{printable(path)}: category_id is read as the position in the ground truth's list, {order}{doubt}"
    )


def _format_order(row_of_id: Mapping[Id, int], categories: Categories) -> str:
    """Return the first few ids with the names of their classes, for a message."""
    return first_few(row_of_id, 3, lambda id_: f"{id_} = {shorten(categories.name[row_of_id[id_]], 30)!r}")


def suggest_positions(column: NDArray[Any] | list[Any] | None, categories: Categories) -> str:
    """Advise, in brackets, if some ids are unknown, but all would be valid positions; else empty.

    Those that are known then mean another class, by chance. `column` are the category ids of the results. A
    ground truth without ids needs no advice: they are then read as positions from 1.
    """
    if not isinstance(column, np.ndarray) or not len(column) or not (categories.source_id != NO_ID).any():
        return ""
    if column.min() < 0 or np.isin(column, categories.source_id).all():
        return ""
    for counted, first_position in (("positions", 0), ("positions-from-1", 1)):
        if np.isin(column, list_counted_ids(categories, counted)).all():
            return f" (all ids of the file look like positions from {first_position}: -O ids={counted})"
    trainer_ids = list_trainer_ids(categories)
    if (trainer_ids != NO_ID).all() and np.isin(column, trainer_ids).all():
        return " (all ids of the file look like positions among COCO's 80 classes: -O ids=80)"
    return ""


def list_image_readings(names: Sequence[str]) -> list[tuple[str, dict[Id, int]]]:
    """Return the meanings that an image_id may have besides an id: what each is called, and rows by value.

    Values are names with or without extension and folders, or the numbers that the names are, ``000042.jpg``;
    of several images that share a value it means none.
    """
    last_parts = [stem(name.rsplit("/", 1)[-1]) for name in names]  # 42 of a/42.jpg
    # the later of equal keys counts: whole names before stems, and stems before those without folders
    by_name = {**index_unique(last_parts), **index_unique(map(stem, names)), **index_unique(names)}
    by_number = {n: row for n, row in index_unique(map(parse_number, last_parts)).items() if n != -1}
    return [
        ("the names of the images", by_name),
        ("the numbers in the image names", by_number),
        ("the image names, or the numbers in them", {**by_number, **by_name}),
    ]


def list_category_readings(reference: Dataset) -> list[tuple[str, dict[Id, int]]]:
    """Return the meanings that a category_id may have besides an id: what each is called, and rows by value.

    If the ground truth is a list of names, only the position in it from 1; else none if its classes have ids,
    and if they have none, the position or the name of a class.
    """
    categories = reference.categories
    by_position: dict[Id, int] = {row + 1: row for row in range(len(categories))}
    if _is_list_of_names(reference):
        first_name = shorten(categories.name[0], 30)
        meaning = f"the position in the ground truth's list, from 1, as in Ultralytics: 1 = {first_name!r}"
        return [(meaning, by_position)]
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


def list_counted_ids(categories: Categories, counted: str) -> NDArray[np.int64]:
    """Return (n,) the id of each category when ids are positions in a list.

    `counted` is ``positions`` (from 0), ``positions-from-1``, or ``80`` for positions in COCO's 80 classes.
    Classes without names are numbers from 0, and these are their positions, also if some are absent.
    """
    if counted == "80":
        return list_trainer_ids(categories)
    numbers = [parse_number(name) for name in categories.name]
    are_numbers = not categories.named and min(numbers, default=-1) >= 0
    positions = numbers if are_numbers else range(len(categories))
    first_position = 1 if counted == "positions-from-1" else 0
    return np.array(positions, np.int64) + first_position


def list_trainer_ids(categories: Categories) -> NDArray[np.int64]:
    """Return (n,) int64, the position of each category among COCO's 80 classes, by its name, else its id.

    `NO_ID` for a category that is not among them.
    """
    by_name = {name: position for position, name in enumerate(NAMES)}
    by_id = {id_: position for position, id_ in enumerate(IDS)}
    pairs = zip(categories.name, categories.source_id.tolist(), strict=True)
    return np.array([by_name.get(name, by_id.get(id_, NO_ID)) for name, id_ in pairs], np.int64)


def index_unique(keys: Iterable[Any]) -> dict[Id, int]:
    """Return the position of each key that occurs exactly once; None is no key."""
    rows: dict[Id, int] = {}
    repeated_keys = set()
    for row, key in enumerate(keys):
        if key is not None and rows.setdefault(key, row) != row:
            repeated_keys.add(key)
    return {key: row for key, row in rows.items() if key not in repeated_keys}


def add_ids(
    images: list[Any], repeated_names: set[str], locations: dict[str, tuple[str, int]], path: str, log: Log
) -> None:
    """Add its id to the name of each image that shares its name in its file: ``a.jpg`` -> ``a-7.jpg``.

    Both sides of an evaluation then use the same name. `images` are tuples of name, values, id and index of
    the images of a file, changed in place. `locations` has the file and index of the image by each name in
    use. An id that cannot be part of a file name is replaced by the image's index. A note names the first.
    """
    renamed: dict[str, str] = {}
    for position, (name, *values, id_, i) in enumerate(images):
        if name not in repeated_names:
            continue
        new_name, extension = name, name[len(stem(name)) :]
        suffix = str(id_) if is_usual(str(id_)) and "/" not in str(id_) else str(i)
        while new_name in locations:
            new_name = f"{stem(new_name)}-{suffix}{extension}"
        locations[new_name] = path, i
        renamed[name] = new_name
        images[position] = (new_name, *values, id_, i)
    for name, new_name in list(renamed.items())[:1]:  # the first, if any
        count_text = f" ({len(renamed)} such names)" if len(renamed) > 1 else ""
        log.note(
            f"{printable(path)}: several images have the file name {shorten(name, 40)!r}{count_text}, so "
            f"their ids are added, as in {shorten(new_name, 40)!r}"
        )
