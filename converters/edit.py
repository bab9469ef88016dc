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
from odm.names import parse_number, refuse_class
from odm.tables import (
    FREQUENCIES,
    NO_ID,
    Categories,
    Dataset,
    ImageLabels,
    Ints,
    LabelState,
    first_index_of,
    freeze,
)
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


def apply_edits(edits: Edits, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Return the dataset with its classes kept, dropped, renamed, then ordered, then numbered; all is booked.

    Raises UsageError if a class that is named does not exist, or a new name, order or numbering does not fit
    the classes.
    """
    if edits.only or edits.drop or edits.rename:
        dataset = _edit_names(edits, dataset, ledger)
    if edits.order:
        dataset = _put_in_order(dataset, edits.order, ledger)
    if edits.category_ids in ("0", "1"):
        return _number_from(dataset, int(edits.category_ids), ledger)
    return _number_as_coco(dataset, edits.category_ids, ledger) if edits.category_ids else dataset


def write_underscores(dataset: Dataset, ledger: Ledger) -> Dataset:
    """Return the dataset with underscores for spaces in class names. UsageError if two become equal."""
    names = dataset.categories.name
    new_names = tuple(re.sub(r"\s", "_", name) for name in names)
    old_name_of: dict[str, str] = {}
    for old, new in zip(names, new_names, strict=True):
        if old_name_of.setdefault(new, old) != old:
            names_text = f"{shorten(old_name_of[new])!r} and {shorten(old)!r}"
            raise UsageError(f"spaces=underscore: {names_text} would be one class; use {spell('rename')}")
    n_changed = sum(old != new for old, new in zip(names, new_names, strict=True))
    ledger.change("classes with underscores for spaces", n_changed)
    return replace(dataset, categories=replace(dataset.categories, name=new_names))


def _put_in_order(dataset: Dataset, order: tuple[str, ...], ledger: Ledger) -> Dataset:
    """Return the dataset with the classes of a list, in its order. UsageError if it lacks or repeats one."""
    names = dataset.categories.name
    new_row = {name: row for row, name in enumerate(order)}
    if len(new_row) < len(order):
        repeated_name = next(name for row, name in enumerate(order) if new_row[name] != row)
        raise UsageError(f"{spell('class_list')}: {shorten(repeated_name)!r} is listed twice")
    missing = [name for name in names if name not in new_row]
    if missing:
        raise UsageError(
            f"{spell('class_list')}: the data has a class {shorten(missing[0])!r} that is not in the list"
            f"{hint(missing[0], order)}; add it, or use {spell('rename')} or {spell('drop')}"
        )
    old_row = {name: row for row, name in enumerate(names)}
    ledger.change(
        f"classes reordered by {spell('class_list')}", sum(new_row[name] != old_row[name] for name in names)
    )
    ledger.change(f"classes without objects added by {spell('class_list')}", len(order) - len(names))
    old_rows = [old_row.get(name, -1) for name in order]
    return _set_classes(
        dataset, order, old_rows, np.array([new_row[name] for name in names], np.int32), ledger
    )


def _set_classes(
    dataset: Dataset,
    names: Iterable[str],
    old_rows: Sequence[int],
    new_rows: Ints,
    ledger: Ledger,
    **columns: Any,
) -> Dataset:
    """Return the dataset with the classes `names`; boxes and image-level labels refer to their new rows.

    `old_rows` has the old row of each new class, -1 = it is new; `new_rows` the new row of each old class,
    -1 = it is left out. `columns` are columns of the new classes that are not taken from the old ones.
    Raises UsageError as `check_keypoint_counts`.
    """
    old = dataset.categories
    # A row of -1 takes the last value, so the value for none is appended: of a class without an old one, and
    # of a class without a parent.
    parent = np.append(new_rows, -1)[np.append(old.parent, -1)[old_rows]]
    table_columns: dict[str, Any] = {
        "source_id": np.append(old.source_id, NO_ID)[old_rows],
        "frequency": tuple((*old.frequency, "")[row] for row in old_rows),
        **columns,
    }
    table_columns["source_id"] = freeze(table_columns["source_id"])
    extra = take_extra(old.extra, old_rows)
    check_keypoint_counts([old], [new_rows], tuple(names))
    for name in ("keypoints", "skeleton"):
        column = getattr(old, name)
        table_columns[name] = column and tuple((*column, ())[row] for row in old_rows)  # None stays None
    categories = Categories(
        name=tuple(names), parent=freeze(parent.astype(np.int32)), extra=extra, **table_columns
    )
    boxes = replace(dataset.boxes, category=freeze(new_rows[dataset.boxes.category]))
    labels = _map_labels(dataset.labels, new_rows, ledger)
    return replace(dataset, categories=categories, boxes=boxes, labels=labels)


def _map_labels(labels: ImageLabels, new_rows: Ints, ledger: Ledger) -> ImageLabels:
    """Return image-level labels with the new classes, each once.

    `new_rows` (old classes,) has the new row of each class, -1 = it is left out. A merged class is absent
    from an image only where all classes merged into it are. Absences that are dropped for this are booked;
    labels that are repeated or lose their class are dropped and not booked.
    """
    new_labels = replace(labels, category=new_rows[labels.category])
    is_kept = new_labels.category >= 0
    n_merged = np.bincount(new_rows[new_rows >= 0])
    if len(labels) and n_merged.max(initial=0) > 1:
        # A key is a distinct (image, new class, verdict). Each old class with a label of it counts once.
        label_keys = np.stack([new_labels.image, new_labels.category, new_labels.verdict], axis=1)
        _, first_labels, key_of_label = np.unique(label_keys, axis=0, return_index=True, return_inverse=True)
        key_of_label = key_of_label.reshape(-1)
        key_of_class = np.unique(np.stack([key_of_label, labels.category], axis=1), axis=0)[:, 0]
        is_partly_absent = (
            is_kept
            & (new_labels.verdict == LabelState.ABSENT)
            # Of a and b merged into c, the absence of a alone, 1 < 2, does not tell that c is absent.
            & (np.bincount(key_of_class)[key_of_label] < n_merged[new_labels.category])
        )
        ledger.change(
            "image-level absences dropped because the class was merged with one that may be present",
            int(is_partly_absent.sum()),
        )
        is_repeated = np.ones(len(labels), np.bool_)
        is_repeated[first_labels] = False
        is_kept &= ~is_partly_absent & ~is_repeated
    return new_labels.take(is_kept)


def drop_emptied(dataset: Dataset, had_only_regions: NDArray[np.bool_], ledger: Ledger) -> Dataset:
    """Return the dataset without the classes that had only regions to ignore and have no box left.

    `had_only_regions` (classes,) is a mask of the classes whose boxes were all regions.
    """
    old = dataset.categories
    is_dropped = had_only_regions & (np.bincount(dataset.boxes.category, minlength=len(old)) == 0)
    if not is_dropped.any():
        return dataset
    ledger.change(
        "classes of nothing but regions to ignore are not written", int(np.count_nonzero(is_dropped))
    )
    new_rows = np.where(is_dropped, -1, np.cumsum(~is_dropped) - 1).astype(np.int32)
    old_rows = np.flatnonzero(~is_dropped).tolist()
    columns = {"named": old.named, "ordered": old.ordered}
    return _set_classes(dataset, [old.name[row] for row in old_rows], old_rows, new_rows, ledger, **columns)


def check_keypoint_counts(
    tables: Sequence[Categories], new_rows_of: Sequence[NDArray[Any]], names: Sequence[str]
) -> None:
    """Raise UsageError if classes that become one have different numbers of keypoints.

    `new_rows_of` has the new rows of the classes of each table, -1 = left out; `names` are those of the
    new rows.
    """
    n_points_of_class: dict[int, int] = {}
    for table, new_rows in zip(tables, new_rows_of, strict=True):
        for points, new_row in zip(table.keypoints or ((),) * len(table), new_rows.tolist(), strict=True):
            if new_row >= 0 and points and n_points_of_class.setdefault(new_row, len(points)) != len(points):
                n = sorted((n_points_of_class[new_row], len(points)))
                raise UsageError(
                    f"class {shorten(names[new_row])!r} would have {n[0]} keypoints for some objects and "
                    f"{n[1]} for others; rename one of the classes ({spell('rename')})"
                )


def _number_from(dataset: Dataset, start: int, ledger: Ledger) -> Dataset:
    """Number the class ids from `start`, in order of the classes.

    A class that is known only by its number keeps that number as its position.
    """
    categories = dataset.categories
    positions = list(range(len(categories)))
    name_numbers = [parse_number(name) for name in categories.name]
    if not categories.named and min(name_numbers, default=-1) >= 0:
        positions = name_numbers
    ids = freeze(np.array(positions, np.int64) + start)
    ledger.change(f"class ids counted from {start}", int(np.count_nonzero(categories.source_id != ids)))
    return replace(dataset, categories=replace(categories, source_id=ids))


def _number_as_coco(dataset: Dataset, id_scheme: str, ledger: Ledger) -> Dataset:
    """Return the dataset with COCO's names and ids of its classes.

    Ids are 0 to 79 in the `id_scheme` ``coco80``, and 1 to 90 with gaps in ``coco91``. Classes that are only
    numbers are positions, 0 to 79. Raises UsageError for a name that COCO does not have.
    """
    categories = dataset.categories
    names = list(categories.name)
    if not categories.named:
        numbers = [parse_number(name) for name in names]
        names = [NAMES[n] if 0 <= n < len(NAMES) else name for n, name in zip(numbers, names, strict=True)]
    position_of_name = {name: position for position, name in enumerate(NAMES)}
    unknown_names = [name for name in names if name not in position_of_name]
    if unknown_names:
        examples = ", ".join(repr(shorten(name, 30)) for name in unknown_names[:5])
        suggestion = hint(unknown_names[0], NAMES)
        raise UsageError(
            f"{spell('category_ids')}: not among COCO's 80 classes: {examples}{suggestion}; use "
            f"{spell('rename')} or {spell('drop')}"
        )
    positions = [position_of_name[name] for name in names]
    ids = np.array(positions if id_scheme == "coco80" else [IDS[p] for p in positions], np.int64)
    ledger.change("class ids set to COCO's", int(np.count_nonzero(categories.source_id != ids)))
    ledger.change(
        "classes given COCO's names", sum(a != b for a, b in zip(names, categories.name, strict=True))
    )
    renamed = replace(categories, name=tuple(names), source_id=freeze(ids), named=True)
    return replace(dataset, categories=renamed)


def _edit_names(edits: Edits, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Keep, drop and rename classes by name. UsageError for an unknown class or an invalid new name."""
    names = dataset.categories.name
    check_classes("only_classes", edits.only, names)
    check_classes("drop", edits.drop, names)
    check_classes("rename", edits.rename, names)
    for name in edits.rename.values():
        if (reason := refuse_class(name)) is not None:
            raise UsageError(f"{spell('rename')}: {shorten(name)!r} is not a valid class name: {reason}")
    keeps_name = [name not in edits.drop and (not edits.only or name in edits.only) for name in names]
    is_kept = np.array(keeps_name, bool)
    is_dropped = ~is_kept[dataset.boxes.category]  # (boxes,)
    dropped_by = f"{spell('drop')} or {spell('only_classes')}"
    ledger.change(f"classes dropped by {dropped_by}", int(np.count_nonzero(~is_kept)))
    dataset = ledger.leave_out(
        dataset, is_dropped, f"boxes of dropped classes ({spell('drop')}, {spell('only_classes')})"
    )

    # (old classes,) the row of each among the new classes, which are merged where new names are equal.
    row_of_new_name: dict[str, int] = {}
    new_rows = np.full(len(names), -1, np.int32)
    for row, name in enumerate(names):
        if keeps_name[row]:
            new_rows[row] = row_of_new_name.setdefault(edits.rename.get(name, name), len(row_of_new_name))
    is_renamed = np.array([edits.rename.get(name, name) != name for name in names], bool)
    ledger.change("boxes of renamed classes", int(np.count_nonzero(is_renamed[dataset.boxes.category])))
    n_merged = int(is_kept.sum()) - len(row_of_new_name)
    ledger.change("classes merged into another", n_merged)

    # (new classes,) the first old row of each.
    first_rows = np.flatnonzero(is_kept)[first_index_of(new_rows[is_kept], len(row_of_new_name))]
    old = dataset.categories
    columns: dict[str, Any] = {"named": old.named or bool(edits.rename), "ordered": old.ordered}
    columns["frequency"] = _merge_frequencies(old.frequency, new_rows.tolist(), len(row_of_new_name))
    if not old.named:  # each id is the number that was the name, which an edit may replace
        columns["source_id"] = np.full_like(old.source_id[first_rows], NO_ID)
    return _set_classes(dataset, row_of_new_name, first_rows.tolist(), new_rows, ledger, **columns)


def _merge_frequencies(frequencies: Sequence[str], new_rows: Sequence[int], n: int) -> tuple[str, ...]:
    """Return the frequency of each of `n` new classes: the highest of those merged into it, empty if unknown.

    `new_rows` are the new rows of the classes that have these `frequencies`, -1 = left out.
    """
    highest = [0] * n  # 0 is unknown, else 1 + the position in `FREQUENCIES`, which ascend
    for frequency, new_row in zip(frequencies, new_rows, strict=True):
        if new_row >= 0 and frequency:
            highest[new_row] = max(highest[new_row], 1 + FREQUENCIES.index(frequency))
    return tuple(FREQUENCIES[number - 1] if number else "" for number in highest)


def check_classes(option: str, requested: Iterable[str], names: Sequence[str]) -> None:
    """Raise UsageError, which names `option`, for a class that is `requested` and not among the names."""
    known_names = set(names)
    for name in requested:
        if name not in known_names:
            examples = first_few(names, 8, lambda n: shorten(n, 30))
            raise UsageError(
                f"{spell(option)}: there is no class {shorten(name)!r}{hint(name, names)}; there are: "
                f"{examples}"
            )


def parse_renames(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``old=new`` texts into a mapping. Raises UsageError if one is not that or contradicts another."""
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
