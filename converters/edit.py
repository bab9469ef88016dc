"""Edit the classes of a dataset: rename, merge, drop, keep only some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.coco80 import IDS, NAMES
from odm.converters.ledger import Ledger
from odm.issues import UsageError, first_few, hint, shorten, spell
from odm.names import number_of, refuse_class
from odm.tables import FREQUENCIES, NO_ID, Categories, Dataset, Ints, LabelState, first_index_of, frozen
from odm.tables.extra_fields import take_extra

CategoryIds = Literal["0", "1", "coco80", "coco91"]
CATEGORY_IDS = get_args(CategoryIds)


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to the classes, applied in this order: keep only, drop, rename.

    All names are those of the source. Two classes renamed to one name are merged, in the place of the first.
    """

    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = msgspec.field(default_factory=dict)
    order: tuple[str, ...] = ()
    """Then, the class list to be written: all names in their order, those without objects too."""
    category_ids: CategoryIds | None = None
    """Last, number the classes in their order from 0 or 1, or those of COCO as its files do (``coco91``: 1 to
    90 with gaps) or as trainers do (``coco80``: 0 to 79)."""

    def __bool__(self) -> bool:
        return bool(self.only or self.drop or self.rename or self.order or self.category_ids)


def apply(edits: Edits, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Return the dataset with its classes edited. What is left out or renamed is booked in the ledger.

    Raises
    ------
    UsageError
        If a class that is named does not exist.
    """
    if edits.only or edits.drop or edits.rename:
        dataset = _edit_names(edits, dataset, ledger)
    if edits.order:
        dataset = _put_in_order(dataset, edits.order, ledger)
    if edits.category_ids in ("0", "1"):
        return _count(dataset, int(edits.category_ids), ledger)
    return _number(dataset, edits.category_ids, ledger) if edits.category_ids else dataset


def write_underscores(dataset: Dataset, ledger: Ledger) -> Dataset:
    """Return the dataset with underscores for the spaces in the names of its classes."""
    names = dataset.categories.name
    new_names = tuple(re.sub(r"\s", "_", name) for name in names)
    first: dict[str, str] = {}
    for old, new in zip(names, new_names, strict=True):
        if first.setdefault(new, old) != old:
            both = f"{shorten(first[new])!r} and {shorten(old)!r}"
            raise UsageError(f"spaces=underscore: {both} would be one class; use {spell('rename')}")
    changed = sum(old != new for old, new in zip(names, new_names, strict=True))
    ledger.change("classes with underscores for spaces", changed)
    return replace(dataset, categories=replace(dataset.categories, name=new_names))


def _put_in_order(dataset: Dataset, order: tuple[str, ...], ledger: Ledger) -> Dataset:
    """Return the dataset with the classes of a list, in the order of the list."""
    names = dataset.categories.name
    row_of = {name: row for row, name in enumerate(order)}
    if len(row_of) < len(order):
        twice = next(name for row, name in enumerate(order) if row_of[name] != row)
        raise UsageError(f"{spell('class_list')}: {shorten(twice)!r} is listed twice")
    missing = [name for name in names if name not in row_of]
    if missing:
        raise UsageError(
            f"{spell('class_list')}: the data has a class {shorten(missing[0])!r} that is not in the list"
            f"{hint(missing[0], order)}; add it, or use {spell('rename')} or {spell('drop')}"
        )
    old = {name: row for row, name in enumerate(names)}
    ledger.change("classes reordered by --class-list", sum(row_of[name] != old[name] for name in names))
    ledger.change("classes without objects added by --class-list", len(order) - len(names))
    rows = [old.get(name, -1) for name in order]
    return _with_classes(dataset, order, rows, np.array([row_of[name] for name in names], np.int32), ledger)


def _with_classes(
    dataset: Dataset, names: Iterable[str], rows: Sequence[int], row_of: Ints, ledger: Ledger, **columns: Any
) -> Dataset:
    """Return the dataset with other classes.

    `rows` are their rows until now, -1 = none, and `row_of` the new rows of those until now, -1 = left out.
    """
    old = dataset.categories
    # What is appended stands where a row is -1.
    parent = np.append(row_of, -1)[np.append(old.parent, -1)[rows]]
    table_columns: dict[str, Any] = {
        "source_id": np.append(old.source_id, NO_ID)[rows],
        "frequency": tuple((*old.frequency, "")[row] for row in rows),
        **columns,
    }
    table_columns["source_id"] = frozen(table_columns["source_id"])
    extra = take_extra(old.extra, rows)
    refuse_other_points([old], [row_of], tuple(names))
    for name in ("keypoints", "skeleton"):
        column = getattr(old, name)
        table_columns[name] = column and tuple((*column, ())[row] for row in rows)
    categories = Categories(
        name=tuple(names), parent=frozen(parent.astype(np.int32)), extra=extra, **table_columns
    )
    boxes = replace(dataset.boxes, category=frozen(row_of[dataset.boxes.category]))
    # Of whole images: what several classes were merged into is absent only where all of them are.
    labels = dataset.labels
    moved = replace(labels, category=row_of[labels.category])
    keep = moved.category >= 0
    merged = np.bincount(row_of[row_of >= 0])
    if len(labels) and merged.max(initial=0) > 1:
        table = np.stack([moved.image, moved.category, moved.verdict], axis=1)
        _, first, location = np.unique(table, axis=0, return_index=True, return_inverse=True)
        location = location.reshape(-1)
        once = np.unique(np.stack([location, labels.category], axis=1), axis=0)[:, 0]
        some = (
            keep
            & (moved.verdict == LabelState.ABSENT)
            & (np.bincount(once)[location] < merged[moved.category])
        )
        ledger.change(
            "image-level absences dropped because the class was merged with one that may be present",
            int(some.sum()),
        )
        again = np.ones(len(labels), np.bool_)
        again[first] = False
        keep &= ~some & ~again
    return replace(dataset, categories=categories, boxes=boxes, labels=moved.take(keep))


def drop_emptied(dataset: Dataset, of_regions: NDArray[np.bool_], ledger: Ledger) -> Dataset:
    """The dataset without the classes of regions to ignore, (classes,), whose boxes were all left out."""
    old = dataset.categories
    drop = of_regions & (np.bincount(dataset.boxes.category, minlength=len(old)) == 0)
    if not drop.any():
        return dataset
    ledger.change("classes of nothing but regions to ignore are not written", int(np.count_nonzero(drop)))
    row_of = np.where(drop, -1, np.cumsum(~drop) - 1).astype(np.int32)
    rows = np.flatnonzero(~drop).tolist()
    columns = {"named": old.named, "ordered": old.ordered}
    return _with_classes(dataset, [old.name[row] for row in rows], rows, row_of, ledger, **columns)


def refuse_other_points(
    tables: Sequence[Categories], rows_of: Sequence[NDArray[Any]], names: Sequence[str]
) -> None:
    """Raise UsageError if classes that become one have different numbers of keypoints.

    `rows_of` has the new rows of the classes of each table, -1 = left out; `names` are those of the new rows.
    """
    counts: dict[int, int] = {}
    for table, row_of in zip(tables, rows_of, strict=True):
        for points, new in zip(table.keypoints or ((),) * len(table), row_of.tolist(), strict=True):
            if new >= 0 and points and counts.setdefault(new, len(points)) != len(points):
                n = sorted((counts[new], len(points)))
                raise UsageError(
                    f"class {shorten(names[new])!r} would have {n[0]} keypoints for some objects and {n[1]} "
                    f"for others; rename one of the classes ({spell('rename')})"
                )


def _count(dataset: Dataset, start: int, ledger: Ledger) -> Dataset:
    """Renumber the class ids from `start`, in order of the classes.

    A class that is known only by its number keeps that number as its position.
    """
    categories = dataset.categories
    positions = list(range(len(categories)))
    name_numbers = [number_of(name) for name in categories.name]
    if not categories.named and min(name_numbers, default=-1) >= 0:
        positions = name_numbers
    ids = frozen(np.array(positions, np.int64) + start)
    ledger.change(f"class ids counted from {start}", int(np.count_nonzero(categories.source_id != ids)))
    return replace(dataset, categories=replace(categories, source_id=ids))


def _number(dataset: Dataset, scheme: str, ledger: Ledger) -> Dataset:
    """Return the dataset with the names and ids of COCO's classes.

    Classes that are only numbers are positions, 0 to 79.
    """
    categories = dataset.categories
    names = list(categories.name)
    if not categories.named:
        numbers = [number_of(name) for name in names]
        names = [NAMES[n] if 0 <= n < len(NAMES) else name for n, name in zip(numbers, names, strict=True)]
    position = {name: at for at, name in enumerate(NAMES)}
    strange = [name for name in names if name not in position]
    if strange:
        some = ", ".join(repr(shorten(name, 30)) for name in strange[:5])
        near = hint(strange[0], NAMES)
        raise UsageError(
            f"{spell('category_ids')}: not among COCO's 80 classes: {some}{near}; use {spell('rename')} or "
            f"{spell('drop')}"
        )
    at = [position[name] for name in names]
    ids = np.array(at if scheme == "coco80" else [IDS[p] for p in at], np.int64)
    ledger.change("class ids set to COCO's", int(np.count_nonzero(categories.source_id != ids)))
    ledger.change(
        "classes given COCO's names", sum(a != b for a, b in zip(names, categories.name, strict=True))
    )
    renamed = replace(categories, name=tuple(names), source_id=frozen(ids), named=True)
    return replace(dataset, categories=renamed)


def _edit_names(edits: Edits, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Keep, drop and rename classes by name."""
    names = dataset.categories.name
    check_classes("only_classes", edits.only, names)
    check_classes("drop", edits.drop, names)
    check_classes("rename", edits.rename, names)
    for name in edits.rename.values():
        if (reason := refuse_class(name)) is not None:
            raise UsageError(f"{spell('rename')}: {shorten(name)!r} is not a valid class name: {reason}")
    kept = [name not in edits.drop and (not edits.only or name in edits.only) for name in names]
    kept_rows = np.array(kept, bool)
    dropped = ~kept_rows[dataset.boxes.category]
    ledger.change("classes dropped by --drop or --only-classes", int(np.count_nonzero(~kept_rows)))
    dataset = ledger.leave_out(
        dataset, dropped, f"boxes of dropped classes ({spell('drop')}, {spell('only_classes')})"
    )

    new_rows: dict[str, int] = {}
    row_of = np.full(len(names), -1, np.int32)
    for row, name in enumerate(names):
        if kept[row]:
            row_of[row] = new_rows.setdefault(edits.rename.get(name, name), len(new_rows))
    changed = np.array([edits.rename.get(name, name) != name for name in names], bool)
    ledger.change("boxes of renamed classes", int(np.count_nonzero(changed[dataset.boxes.category])))
    merged = int(kept_rows.sum()) - len(new_rows)
    ledger.change("classes merged into another", merged)

    first = np.flatnonzero(kept_rows)[first_index_of(row_of[kept_rows], len(new_rows))]
    old = dataset.categories
    most = [0] * len(new_rows)  # a class is at least as frequent as any that it was merged from
    for row, new in enumerate(row_of.tolist()):
        if new >= 0 and old.frequency[row]:
            most[new] = max(most[new], 1 + FREQUENCIES.index(old.frequency[row]))
    columns: dict[str, Any] = {"named": old.named or bool(edits.rename), "ordered": old.ordered}
    columns["frequency"] = tuple(FREQUENCIES[n - 1] if n else "" for n in most)
    if not old.named:
        columns["source_id"] = np.full_like(old.source_id[first], NO_ID)
    return _with_classes(dataset, new_rows, first.tolist(), row_of, ledger, **columns)


def check_classes(option: str, requested: Iterable[str], names: Sequence[str]) -> None:
    """Raise UsageError for a class that is asked for and not among the names."""
    known = set(names)
    for name in requested:
        if name not in known:
            some = first_few(names, 8, lambda n: shorten(n, 30))
            raise UsageError(
                f"{spell(option)}: there is no class {shorten(name)!r}{hint(name, names)}; there are: {some}"
            )


def parse_renames(texts: Iterable[str]) -> dict[str, str]:
    """``old=new`` texts as a mapping; UsageError where one has no ``=`` or contradicts another."""
    renames: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals or not old or not new:
            raise UsageError(f"{spell('rename')} {shorten(text)}: give old=new")
        if renames.setdefault(old, new) != new:
            raise UsageError(
                f"{spell('rename')}: {shorten(old)!r} is renamed twice, to {renames[old]!r} and {new!r}"
            )
    return renames
