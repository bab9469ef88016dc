"""``odm.read``, ``odm.write`` and ``odm.convert``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from odm.converters import Edits, Ledger, Selection, pipeline
from odm.converters.edit import CategoryIds
from odm.converters.merging import SameImage, merge
from odm.converters.pending import SHAPE_WORDS
from odm.converters.shapes import AsShapes
from odm.files import MAX_SIZE
from odm.issues import Log, UsageError, shorten
from odm.tables import Dataset, Kind
from odm.verbs.sources import (
    Source,
    dataset_of,
    gathered,
    is_path,
    lines_of_files,
    load_source,
    only,
    reading,
    renames_of,
    split_names,
    verb,
)
from odm.verbs.words import ConvertOptions, FormatName, Path, ReadOptions, WriteOptions


@verb
def read(
    path: Source,
    format: FormatName | None = None,  # noqa: A002 -- the field's word
    *,
    kind: Kind | None = None,
    gt: Source | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    shapes: bool = False,
    same_image: SameImage = "error",
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[ReadOptions],
) -> Dataset:
    """Read annotations or detections into tables.

    Parameters
    ----------
    path
        A file or a folder, or a list of them, which are merged; a `Dataset`; or what is in memory, see
        `odm.converters.bridges.from_object`.
    format
        Its name (``odm formats`` lists them); auto-detected if omitted.
    kind
        ``"gt"`` or ``"det"``; auto-detected if omitted.
    gt
        The ground truth that a results file refers to.
    skip_bad
        Leave out rows with errors instead of raising.
    skip_bad_files
        Leave out files with errors that affect more than one row, and their images; notes name them.
    shapes
        Read outlines, masks, oriented boxes and key points too, into ``boxes.shapes`` and
        ``boxes.keypoints``.
    same_image
        What to do with images that several paths have; see `odm.converters.merge`.
    max_size, encoding, follow_links
        Bytes above which files are refused, the encoding of text files if it is not recognised, and whether
        links that lead outside are followed.
    log
        Collects issues and notes; read it afterwards to see warnings.
    **options
        The format's own options, such as ``box="ltwh"``, and ``images="photos/"``, where pictures lie.

    Raises
    ------
    DataError
        If the data has errors; its ``log`` has all of them.
    UsageError
        If a format or option does not exist, the format cannot be detected, or `path` is of a wrong type.
    PathError
        If the path is missing or not usable.
    """
    given = gathered({**locals(), "own_fields": True}, "read")
    given["wants"] = SHAPE_WORDS if shapes else frozenset()
    return only(load_source(path, given, Log() if log is None else log, "read")[0])


@verb
def write(
    dataset: Source,
    path: Path,
    format: FormatName | None = None,  # noqa: A002 -- the field's word
    *,
    overwrite: bool = False,
    keep_groups: bool = False,
    selection: Selection | None = None,
    log: Log | None = None,
    **options: Unpack[WriteOptions],
) -> Ledger:
    """Write tables as a file or a folder, all or nothing.

    Parameters
    ----------
    dataset
        What to write: a `Dataset`, or what `odm.read` takes. It is not changed.
    path
        The target. It must not exist, or be an empty folder, unless `overwrite` is given.
    format
        The format of the target; taken from the suffix of `path` if omitted.
    keep_groups
        Write crowd and group-of boxes as ordinary boxes if the format cannot represent them.
    selection
        Which boxes and images to write, and how to split them into parts or folds.
    log
        Collects issues and notes.
    **options
        The format's own options.

    Returns
    -------
    Ledger
        What was written and what was left out.

    Raises
    ------
    DataError
        If the tables contain data that cannot be written.
    UsageError, PathError
        As for `read`.
    """
    given = gathered(locals(), "write")
    log = Log() if log is None else log
    tables = dataset if isinstance(dataset, Dataset) else read(dataset, shapes=True, log=log)
    how = {"overwrite": overwrite, "keep_groups": keep_groups, "selection": selection or Selection()}
    return pipeline.write_tables(tables, given["path"], format, given["options"][""], log, **how)


@verb
def convert(
    source: Source,
    target: Path,
    *,
    from_: FormatName | Sequence[FormatName] | None = None,
    to: FormatName | None = None,
    kind: Kind | None = None,
    gt: Path | None = None,
    strict: bool = False,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    keep_groups: bool = False,
    clip: bool = False,
    shapes: AsShapes | None = None,
    rename: Mapping[str, str] | str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    class_list: Path | Sequence[str] | None = None,
    category_ids: CategoryIds | None = None,
    only_classes: str | Sequence[str] | None = None,
    same_image: SameImage = "error",
    min_box: float = 0,
    min_area: float = 0,
    drop_empty: bool = False,
    sample: int | str | None = None,
    split_into: str | Mapping[str, int | float | str] | None = None,
    folds: int | None = None,
    group_by: str | None = None,
    no_stratify: bool = False,
    seed: int | str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    options: Mapping[str, Any] | None = None,
    from_options: Mapping[str, Any] | None = None,
    source_options: Sequence[Mapping[str, Any]] | None = None,
    to_options: Mapping[str, Any] | None = None,
    edits: Edits | None = None,
    selection: Selection | None = None,
    log: Log | None = None,
    **more: Unpack[ConvertOptions],
) -> Ledger:
    """Convert files or tables from one format to another, all or nothing, as ``odm convert`` does.

    >>> odm.convert("labels/", "coco.json", images="photos/")  # doctest: +SKIP

    Parameters
    ----------
    source, target
        A path, a list of paths, which are merged, or what `odm.read` takes; the path to write, outside it.
    from_, to
        Names of the formats; if omitted, that of the source is detected and that of the target taken from its
        suffix. For several sources, one format or a list with one for each.
    kind, gt
        ``"gt"`` or ``"det"``, and the ground truth that a results file refers to; its ids are written into a
        results file.
    rename, drop, only_classes, class_list, category_ids
        Classes: ``{old: new}`` or ``"OLD=NEW"``, names to drop, names to keep, the classes to write in their
        order (a list, or a file with a name a line), and how they are numbered. Or together as `edits`.
    min_box, min_area, drop_empty, sample, split_into, folds, group_by, no_stratify, seed
        Which boxes and images to keep, and how to divide them, as `odm.converters.Selection` describes. Or
        together as `selection`.
    clip, keep_groups, shapes
        Clip boxes to their image; write crowd and group-of boxes as ordinary ones; write outlines, masks and
        oriented boxes as ``"box"``, ``"polygon"``, ``"mask"`` or ``"oriented"``.
    same_image
        What to do with images that several sources have; see `odm.converters.merge`.
    strict, skip_bad, skip_bad_files
        Raise and write nothing if anything would be lost; leave out rows, or files, with errors.
    overwrite, dry_run
        Replace what is there; do everything except write.
    max_size, encoding, follow_links
        As for `read`.
    options, from_options, source_options, to_options
        Format options: for whichever of the two formats has them, for all sources, for each source (a list as
        long as that of the sources), for the target.
    log
        Collects issues and notes.
    **more
        The same as keywords: ``images="photos/"``, ``from_box="ltwh"``, ``to_dialect="tfod"``.

    Returns
    -------
    Ledger
        Boxes read = boxes written + boxes left out, each with its reason.

    Raises
    ------
    DataError
        If the data has errors or, with `strict`, if anything would be lost.
    UsageError, PathError
        As for `read`.
    """
    given = gathered({**locals(), "options": more}, "convert", "from", "to", repeated="rename drop")
    given["options"][""] |= options or {}
    given["options"]["from"] |= from_options or {}
    given["options"]["to"] |= to_options or {}
    return converted(source, os.fspath(target), given, Log() if log is None else log)


SELECTION = "min_box min_area drop_empty sample split_into folds group_by seed".split()
"""Arguments that choose and divide, as `Selection` names them."""
EDITS = "rename drop class_list category_ids only_classes".split()
WRITING = "strict keep_groups clip shapes overwrite dry_run".split()
SETTINGS = "from_ to kind gt skip_bad skip_bad_files same_image".split()
"""Arguments that `odm.converters.convert` takes as they are, besides those of writing."""


def converted(source: Any, target: str, given: Mapping[str, Any], log: Log) -> Ledger:
    """Convert one source or several, as the arguments say."""
    options = given["options"]
    how = {
        "edits": given.get("edits") or edits_of(given),
        "selection": given.get("selection") or selection_of(given),
        "log": log,
        **{name: given[name] for name in WRITING if name in given},
    }
    listed = [source] if is_path(source) else source
    if isinstance(listed, (list, tuple)) and listed and all(map(is_path, listed)):
        return pipeline.convert(
            listed,
            target,
            options=options[""],
            from_options=options["from"],
            source_options=given["source_options"],
            to_options=options["to"],
            **how,
            **{name: given[name] for name in SETTINGS},
            **reading(given),
        )
    if options["from"] or given["source_options"]:
        raise UsageError("convert: options for reading do not apply to data in memory")
    how_read: dict[str, Any] = {"given": {**given, "format_": given["from_"]}, "verb": "convert"}
    each = source if isinstance(source, (list, tuple)) and any(map(is_table, source)) else [source]
    tables = [only(dataset_of(one, log=log, kind=given["kind"], **how_read)) for one in each]
    tables = [merge(tables, same_image=given["same_image"], log=log).dataset] if len(tables) > 1 else tables
    own = {**options[""], **options["to"]}
    return pipeline.write_tables(tables[0], target, given["to"], own, **how)


def is_table(source: object) -> bool:
    """Whether it is a data set already."""
    return isinstance(source, Dataset)


def edits_of(given: Mapping[str, Any]) -> Edits:
    """The changes to the classes that are asked for."""
    return Edits(
        only=split_names(given["only_classes"]),
        drop=tuple(given["drop"]),
        rename=renames_of(given),
        category_ids=given["category_ids"],
        order=names_of_classes(given["class_list"], given["encoding"]) if given["class_list"] else (),
    )


def selection_of(given: Mapping[str, Any]) -> Selection:
    """What to keep, and how to divide it."""
    return Selection(stratify=not given["no_stratify"], **{name: given[name] for name in SELECTION})


def names_of_classes(given: str | Sequence[str], encoding: str) -> tuple[str, ...]:
    """The names, or the lines of a file. UsageError for one whose lines are hardly names."""
    if not isinstance(given, str):
        return tuple(given)
    if given.lower().endswith((".yaml", ".yml", ".json")):
        raise UsageError(f"--class-list {shorten(given)}: give a text file with one class name per line")
    return tuple(lines_of_files([f"@{given}"], encoding))
