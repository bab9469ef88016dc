"""Repair tables where the right value is certain, and book each change in the ledger.

Only the tables are edited. Boxes that are not finite are never touched: nobody knows what they were.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.checks import DerivedColumns
from odm.converters.edit import Edits, apply_edits
from odm.converters.ledger import Ledger
from odm.converters.shapes import clip_outlines
from odm.issues import Log, UsageError, first_few, hint, printable
from odm.names import accept_name, stem
from odm.tables import NO_ID, Boxes, Dataset, freeze
from odm.tables.extra_fields import SHAPES, count_extra


def apply_repairs(dataset: Dataset, repairs: Iterable[str], ledger: Ledger, log: Log) -> Dataset:
    """Return the dataset with some of `REPAIRS` applied, in the order of that table.

    Raises UsageError if there is no such repair.
    """
    selected = check_repairs(repairs)
    for name, repair in REPAIRS.items():
        if name in selected:
            dataset = repair(dataset, ledger, log)
    return dataset


def check_repairs(names: Iterable[str]) -> frozenset[str]:
    """Return the names as a set. Raises UsageError if one of them is not in `REPAIRS`."""
    selected = frozenset(names)
    for name in sorted(selected - REPAIRS.keys()):
        raise UsageError(
            f"unknown repair {name!r}{hint(name, REPAIRS)}; the repairs are: {', '.join(REPAIRS)}"
        )
    return selected


def order_edges(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Swap edges of finite boxes that are the wrong way round, and drop a negative area of these boxes."""
    del log
    boxes = dataset.boxes
    low, high = boxes.xyxy[:, :2], boxes.xyxy[:, 2:]
    is_finite = np.all(np.isfinite(np.hstack([boxes.xyxy, boxes.wh])), axis=1)
    is_swapped = is_finite[:, None] & ((high < low) | (boxes.wh < 0))
    is_changed = np.any(is_swapped, axis=1)
    if not is_changed.any():
        return dataset
    ledger.change("boxes whose edges were swapped", int(np.count_nonzero(is_changed)))
    low, high = np.minimum(low, high), np.maximum(low, high)
    # (n, 2): a stated width or height below 0 loses its sign, one of swapped edges is computed.
    wh = np.where(is_swapped, np.where(boxes.wh < 0, -boxes.wh, high - low), boxes.wh)
    area = np.where(is_changed & (boxes.area < 0), np.nan, boxes.area)
    return _replace_columns(
        dataset, xyxy=np.where(is_changed[:, None], np.hstack([low, high]), boxes.xyxy), wh=wh, area=area
    )


def clip_boxes(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Cut every box to its image; boxes on images of unknown size are left alone and counted in a note.

    Boxes outside their image are left out. Outlines are cut too, and a box that is cut loses its stated area.
    """
    boxes = dataset.boxes
    limit = dataset.limits().astype(np.float64)[boxes.image]
    has_size = limit.min(axis=1, initial=np.inf) > 0
    if not has_size.all():
        log.note(
            f"{int(np.count_nonzero(~has_size))} boxes are not clipped: the size of their image is unknown"
        )
    low, high = boxes.xyxy[:, :2], boxes.xyxy[:, 2:]
    is_valid: NDArray[np.bool_] = has_size & np.isfinite(boxes.xyxy).all(axis=1) & (high >= low).all(axis=1)
    inner_low, inner_high = np.clip(low, 0, limit), np.clip(high, 0, limit)
    # (n, 2): whether a box is cut across, and down.
    is_cut = is_valid[:, None] & ((inner_low != low) | (inner_high != high))
    dataset = clip_outlines(dataset, has_size, ledger)
    boxes = dataset.boxes
    is_clipped = np.any(is_cut, axis=1)
    if not is_clipped.any():
        return dataset
    is_gone = is_clipped & (inner_high <= inner_low).any(axis=1)
    ledger.change("boxes clipped to their image", int(np.count_nonzero(is_clipped & ~is_gone)))
    # Shapes that stay JSON are not clipped.
    for key, n_boxes in count_extra(boxes.take(is_clipped & ~is_gone).extra).items() if boxes.extra else ():
        if key in SHAPES:
            ledger.change(f"{key} of clipped boxes, not clipped", n_boxes)
    dataset = _replace_columns(
        dataset,
        xyxy=np.where(is_clipped[:, None], np.hstack([inner_low, inner_high]), boxes.xyxy),
        wh=np.where(is_cut, inner_high - inner_low, boxes.wh),
        wh_given=None if boxes.wh_given is None else boxes.wh_given & ~is_cut,
        area=np.where(is_clipped, np.nan, boxes.area),
    )
    return ledger.leave_out(dataset, is_gone, "boxes outside their image (clip)")


def drop_empty(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Leave out boxes whose width or height is 0."""
    del log
    xyxy = dataset.boxes.xyxy
    is_ordered = (xyxy[:, 2:] >= xyxy[:, :2]).all(axis=1)
    is_empty = is_ordered & np.isfinite(xyxy).all(axis=1) & (xyxy[:, 2:] == xyxy[:, :2]).any(axis=1)
    return ledger.leave_out(dataset, is_empty, "boxes with zero area (drop-empty)")


def drop_duplicates(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Leave out boxes that equal an earlier one in image, class, edges, shape and, for detections, score."""
    del log
    is_repeated = np.zeros(len(dataset), np.bool_)
    duplicate_rows, _ = DerivedColumns(dataset, tolerance=0).duplicates  # only exact ones: no tolerance
    is_repeated[duplicate_rows] = True
    return ledger.leave_out(dataset, is_repeated, "duplicate boxes (dedupe)")


def repair_names(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Make the names of images usable everywhere, and merge classes that differ only by blanks.

    An image gets the composed Unicode form; blanks and dots at the end of a part go, characters that Windows
    forbids become ``_``, reserved names get one at the end. Where the name without its extension would then
    equal that of an earlier image but for letter case, ``-2`` (or ``-3``, ...) follows it. Classes get the
    composed Unicode form and single blanks; those that are then equal are merged. Their letter case is kept:
    ``a`` and ``A`` may be two classes.
    """
    names = dataset.images.name
    portable_names = [_make_portable(name) for name in names]
    # First the names that stay as they are, then the others, which get a number if theirs is taken.
    taken_keys: set[str] = set()
    new_names = list(names)
    for is_portable in (True, False):
        for i, name in enumerate(names):
            if (portable_names[i] == name) == is_portable:
                new_names[i] = _find_free_name(portable_names[i], taken_keys)
    changed = [i for i, name in enumerate(names) if new_names[i] != name]
    if changed:
        ledger.change("images renamed (rename)", len(changed))
        examples = first_few(changed, 5, lambda i: f"{printable(names[i])!r} to {printable(new_names[i])!r}")
        log.note(f"images are renamed; rename their pictures too: {examples}")
        dataset = replace(dataset, images=replace(dataset.images, name=tuple(new_names)))
    renames = {
        name: new_name
        for name in dataset.categories.name
        if (new_name := " ".join(unicodedata.normalize("NFC", name).split())) not in ("", name)
    }
    return apply_edits(Edits(rename=renames), dataset, ledger)


def number_boxes(dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Number boxes anew, from above the highest id, if an earlier box of their file has the same id; withdraw
    the issues about them.
    """
    log.withdraw("duplicate-box-id")
    ids = dataset.boxes.source_id
    rows = np.flatnonzero(ids != NO_ID)
    sorted_rows = rows[np.lexsort((ids[rows], dataset.boxes.file[rows]))]  # by file, then id
    keys = np.stack([dataset.boxes.file[sorted_rows], ids[sorted_rows]])
    repeated_rows = np.sort(sorted_rows[1:][(keys[:, 1:] == keys[:, :-1]).all(axis=0)])
    if not len(repeated_rows):
        return dataset
    ledger.change("repeated annotation ids, renumbered (ids)", len(repeated_rows))
    new_ids = ids.copy()
    new_ids[repeated_rows] = ids.max(initial=0) + 1 + np.arange(len(repeated_rows))
    return _replace_columns(dataset, source_id=new_ids)


def _find_free_name(name: str, keys: set[str]) -> str:
    """Return `name`, or the first of ``name-2``, ``name-3``, ... whose stem is not in `keys`; add it."""
    name_stem = stem(name)
    suffix = name[len(name_stem) :]
    candidate, number = name_stem, 1
    # File systems exist to which names are equal that differ only in letter case or Unicode form.
    while (key := unicodedata.normalize("NFC", unicodedata.normalize("NFC", candidate).casefold())) in keys:
        number += 1
        candidate = f"{name_stem}-{number}"
    keys.add(key)
    return candidate + suffix


_FORBIDDEN = re.compile('[<>:"|?*]')


def _is_portable(name: str) -> bool:
    """Whether a name is accepted without an error or a warning."""
    scratch = Log(keep=0)
    return accept_name(name, scratch, path="") and not scratch.counts


def _make_portable(name: str) -> str:
    """Return the name in a form that every file system can hold."""
    if name.isascii() and _is_portable(name):  # others are composed first, which `_is_portable` does not ask
        return name
    new_parts = []
    for path_part in unicodedata.normalize("NFC", name).split("/"):
        part_stem = stem(path_part)
        suffix = path_part[len(part_stem) :]
        part_stem = _FORBIDDEN.sub("_", part_stem).rstrip(". ") or "_"
        new_part = part_stem + suffix
        if not _is_portable(new_part):  # reserved up to the first dot: aux.a.jpg becomes aux_.a.jpg
            before_dot, dot, after_dot = new_part.partition(".")
            new_part = f"{before_dot.rstrip()}_{dot}{after_dot}"
        new_parts.append(new_part)
    return "/".join(new_parts)


def _replace_columns(dataset: Dataset, **columns: NDArray[Any] | None) -> Dataset:
    """Replace columns of the boxes of a dataset."""
    read_only: Any = {key: None if array is None else freeze(array) for key, array in columns.items()}
    boxes: Boxes = replace(dataset.boxes, **read_only)
    return replace(dataset, boxes=boxes)


REPAIRS: dict[str, Callable[[Dataset, Ledger, Log], Dataset]] = {
    "order": order_edges,
    "clip": clip_boxes,
    "drop-empty": drop_empty,
    "dedupe": drop_duplicates,
    "rename": repair_names,
    "ids": number_boxes,
}
"""Every repair by the name that ``--fix`` takes, in the order in which they are applied."""
