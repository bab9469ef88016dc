"""Run the jobs that write: write tables, convert files, repair files."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm import arguments, checks, inputs
from odm.checks.tracks import CONTRADICTIONS
from odm.converters.edit import Edits
from odm.converters.ledger import Ledger
from odm.converters.load import (
    Check,
    Loaded,
    Reference,
    build_refusal,
    check_shared,
    is_refused,
    load,
    load_all,
)
from odm.converters.merging import SAME_IMAGE, SameImage
from odm.converters.pending import SHAPE_WORDS, Request, choose_options, reading_options
from odm.converters.repairs import apply_repairs, check_repairs
from odm.converters.selection import Selection
from odm.converters.shapes import AsShapes, settle
from odm.converters.tiles import Tiling
from odm.converters.validation import check_tolerance
from odm.converters.writing import (
    Target,
    TargetFields,
    bad_rows,
    build_write_error,
    check_holds_pictures,
    check_parts,
    merge_loaded,
    open_ledger,
    open_output,
    split_picture_options,
    write_loaded,
)
from odm.files import MAX_SIZE
from odm.formats import for_target, get_target, make_options
from odm.issues import Log, UsageError, plural, printable, spell
from odm.names import BAD_CLASS_NAME, accept_name, refuse_class
from odm.tables import Dataset, Kind
from odm.tables.extra_fields import SHAPES


def _check_unclipped(dataset: Dataset, log: Log, options: Collection[str]) -> NDArray[np.bool_]:
    """Run the checks of a conversion that does not clip; shapes that are passed on as JSON may be empty."""
    # JSON is written as it stands, so that an empty shape in it loses nothing.
    without = () if SHAPES.isdisjoint(dataset.boxes.extra) else ("shape-empty",)
    return checks.run(dataset, log, options, also=CONTRADICTIONS, without=without)


CHECKS: dict[bool, Check] = {
    False: _check_unclipped,
    True: functools.partial(
        checks.run, also=CONTRADICTIONS, without=("outside-image", "outline-outside", "label-out-of-range")
    ),
}
"""The check of a conversion, by whether boxes are clipped: then those outside are no errors, but counted."""


def write_tables(
    dataset: Dataset,
    target: str,
    to: str | None,
    options: Mapping[str, Any],
    log: Log,
    **fields: Unpack[TargetFields],
) -> Ledger:
    """Write tables in the format `to`, else that of the target's suffix, with its `options`.

    `fields` are fields of the `Target`.

    Raises DataError if the tables contain data that cannot be written, and UsageError or PathError as for
    `convert`.
    """
    format_ = get_target(to) if to else for_target(target)
    n_errors = log.errors
    for row, name in enumerate(dataset.images.name):
        path, line, pointer = dataset.image_place(row)
        accept_name(name, log, path, line=line, pointer=pointer)
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(BAD_CLASS_NAME, "", value=name, reason=reason)  # classes of tables are in no file
    check = CHECKS[fields.get("clip", False)]  # boxes that are clipped may lie outside their image
    check(dataset, log, ())  # no options: the tables were not read by a format
    if log.errors > n_errors:
        raise build_write_error(log, target)
    format_options, pictures = split_picture_options(options, target, format_)
    parsed_options = make_options(format_, format_options)
    check_holds_pictures(format_, parsed_options, pictures)
    loaded, name = Loaded(settle(dataset), format_), format_.adapted(parsed_options).name
    ledger = open_ledger(loaded, name, dry_run=fields.get("dry_run", False))
    ledger.source_format = "tables"
    to_write = Target(path=target, format=format_, options=parsed_options, pictures=pictures, **fields)
    return write_loaded(loaded, to_write, log, ledger)


@inputs.gather()
def convert(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    from_: str | Sequence[str] | None = None,
    to: str | None = None,
    options: Mapping[str, Any] | None = None,
    from_options: Mapping[str, Any] | None = None,
    source_options: Sequence[Mapping[str, Any]] | None = None,
    to_options: Mapping[str, Any] | None = None,
    kind: Kind | None = None,
    gt: str | os.PathLike[str] | None = None,
    strict: bool = False,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    keep_groups: bool = False,
    clip: bool = False,
    shapes: AsShapes | None = None,
    edits: Edits = Edits(),
    same_image: SameImage = "error",
    selection: Selection = Selection(),
    tiling: Tiling | None = None,
    untile: float | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    follow_links: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    log: Log | None = None,
) -> Ledger:
    """Convert files from one format to another, all or nothing.

    Arguments, what is returned and errors are those of `odm.convert`, which also takes what is in memory.

    Parameters
    ----------
    source, target
        Paths; the target must be outside the source. A list of source paths is merged into one dataset.
    edits
        Classes to rename, merge, drop or keep.
    selection
        Which boxes and images to keep, after the edits, and how to split them into parts or folds.
    tiling, untile
        How to cut images into tiles, or the share by which detections of several tiles are one.

    Examples
    --------
    >>> convert("labels/", "coco.json", from_="yolo", to="coco").written  # doctest: +SKIP
    """
    # Everything that the arguments alone decide, so that a wrong one costs no time.
    log, target = log or Log(), os.fspath(target)
    sources = [os.fspath(s) for s in ([source] if isinstance(source, str | os.PathLike) else source)]
    formats = _expand_formats(sources, from_, same_image)
    inputs.name(*sources, gt)  # which the target may not replace
    to_format = get_target(to) if to else for_target(target)
    shared, pictures = split_picture_options(options or {}, target, to_format, tiled=tiling is not None)
    if not to:
        log.note(f"{printable(target)}: written as {to_format.name}, from its suffix")
    settings = choose_options(to_format, to_options or {}, shared, "write")
    check_holds_pictures(to_format, settings, pictures)
    output = open_output(target, to_format, overwrite=overwrite, dry_run=True)  # only looked at
    check_parts(selection, output, to_format.adapted(settings))
    # Read, check and merge the sources. Shapes to be changed are read; boxes to be clipped may lie outside.
    common = Request(
        path="", shared=shared, kind=kind, encoding=encoding, max_size=max_size, follow_links=follow_links,
        own_fields="own_fields" in to_format.keeps, flag="--from",
        wants=SHAPE_WORDS if shapes or clip or tiling or untile else to_format.adapted(settings).keeps,
    )  # fmt: skip
    requests = _make_requests(common, sources, formats, from_options or {}, source_options)
    truth = reference(gt, log)
    all_loaded = load_all(
        requests, log, skip_bad=skip_bad, skip_bad_files=skip_bad_files, counterpart=truth, check=CHECKS[clip]
    )
    check_shared(
        shared, [*((source_loaded.format, "read") for source_loaded in all_loaded), (to_format, "write")]
    )
    loaded, ledger = merge_loaded(all_loaded, to_format.adapted(settings), same_image, log, dry_run=dry_run)
    # Edit the dataset and write it.
    destination = Target(
        path=target, format=to_format, options=_add_reference(settings, truth), overwrite=overwrite,
        dry_run=dry_run, strict=strict, skip_bad=skip_bad, keep_groups=keep_groups, clip=clip, shapes=shapes,
        edits=edits, selection=selection, pictures=pictures, tiling=tiling, untile=untile,
    )  # fmt: skip
    return write_loaded(loaded, destination, log, ledger)


def _make_requests(
    common: Request,
    sources: Sequence[str],
    formats: Sequence[str | None],
    options: Mapping[str, Any],
    source_options: Sequence[Mapping[str, Any]] | None,
) -> list[Request]:
    """Make the request of each source: `common` with `options`, and with one of `source_options`.

    Of several sources, `options` need to fit only one. Raises UsageError for a wrong number of sets.
    """
    option_sets: Sequence[Mapping[str, Any]] = source_options or [{} for _ in sources]
    if len(option_sets) != len(sources):
        expected = plural(len(sources), "source")
        raise UsageError(f"source_options: expected one for each of {expected}, found {len(option_sets)}")
    options_of_sources = [
        {name.replace("-", "_"): value for name, value in options_of_source.items()}
        for options_of_source in option_sets
    ]
    return [
        replace(  # `spare`: the options that perhaps only another source has
            common,
            path=path,
            format=format_,
            options={**options, **options_of_source},
            spare=frozenset(options) - set(options_of_source) if len(sources) > 1 else frozenset(),
        )
        for path, format_, options_of_source in zip(sources, formats, options_of_sources, strict=True)
    ]


@arguments.checked
@inputs.gather()
def repair(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    repairs: Iterable[str],
    *,
    format: str | None = None,  # noqa: A002 -- the field's word
    to: str | None = None,
    options: Mapping[str, Any] | None = None,
    from_options: Mapping[str, Any] | None = None,
    to_options: Mapping[str, Any] | None = None,
    kind: Kind | None = None,
    gt: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    tolerance: float = checks.TOLERANCE,
    overwrite: bool = False,
    dry_run: bool = False,
    follow_links: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    log: Log | None = None,
) -> Ledger:
    """Write a repaired copy of annotations or detections, all or nothing; the source is not changed.

    Parameters
    ----------
    source, target
        Paths; the target must be outside the source.
    repairs
        Any of ``order`` (swap edges that are the wrong way round), ``clip`` (clip boxes to their image),
        ``drop-empty`` (boxes with zero area), ``dedupe`` (exact duplicates), ``rename`` (names that are
        invalid or equal on some systems) and ``ids`` (repeated annotation ids); always applied in this order.
    format
        The format of the source; auto-detected if omitted.
    to
        The format of the copy; that of the source if omitted.
    skip_bad
        Leave out and count the rows that still have errors instead of raising.
    skip_bad_files
        Leave out files with errors that affect more than one row, and their images; the ledger names them.
    tolerance
        How far a box may extend beyond its image, in pixels.
    log
        Receives the issues of the reader, and those that remain after the repairs.

    Returns
    -------
    Ledger
        Boxes read = boxes written + boxes left out, each with its reason, and every change.

    Raises
    ------
    DataError
        If errors remain that the repairs do not remove.
    UsageError, PathError
        As for `convert`.

    Examples
    --------
    >>> repair("labels/", "repaired/", ["clip"]).changed  # doctest: +SKIP
    """
    log = log or Log()
    source, target = os.fspath(source), os.fspath(target)
    inputs.name(source, gt)
    selected = check_repairs(repairs)
    check_tolerance(tolerance)
    shared = dict(options or {})
    to_format = get_target(to) if to else None
    if (target_format := to or format) is not None:  # a wrong target is reported before anything is read
        open_output(target, get_target(target_format), overwrite=overwrite, dry_run=True)
    request = Request(
        path=source,
        format=format,
        options=dict(from_options or {}),
        shared=shared,
        kind=kind,
        follow_links=follow_links,
        max_size=max_size,
        encoding=encoding,
        own_fields=True,
        wants=SHAPE_WORDS if "clip" in selected else SHAPE_WORDS | {"own_fields"},  # JSON is not clipped
    )
    # Errors of the reader count here, those of the tables after the repairs.
    truth = reference(gt, log)
    loaded = load(
        request,
        log,
        skip_bad=skip_bad,
        skip_bad_files=skip_bad_files,
        counterpart=truth,
        check=lambda dataset, *_: np.zeros(len(dataset), np.bool_),
        settled=False,  # repairs need the shapes as they were read
    )
    to_format = to_format or get_target(loaded.format.name)
    settings = _add_reference(choose_options(to_format, to_options or {}, shared, "write"), truth)
    check_shared(shared, [(loaded.format, "read"), (to_format, "write")])
    ledger = open_ledger(loaded, to_format.name, dry_run=dry_run)
    dataset = apply_repairs(loaded.dataset, selected, ledger, log)
    has_error = checks.run(dataset, log, reading_options(loaded.format), all_rules=True, tolerance=tolerance)
    if is_refused(log, loaded.left_out, skip_bad=skip_bad):
        raise build_refusal(log, source, skip_bad=skip_bad)
    dataset = settle(ledger.leave_out(dataset, has_error, bad_rows()))
    output = Target(path=target, format=to_format, options=settings, overwrite=overwrite, dry_run=dry_run)
    return write_loaded(replace(loaded, dataset=dataset), replace(output, skip_bad=skip_bad), log, ledger)


def _expand_formats(
    sources: Sequence[str], names: str | Sequence[str] | None, same_image: str
) -> list[str | None]:
    """Return the format of each source, None if it is to be detected.

    Raises UsageError if sources, names or `same_image` do not fit, or a source is repeated.
    """
    if not sources:
        raise UsageError("there is no source")
    if same_image not in SAME_IMAGE:
        raise UsageError(f"{spell('same_image')} {same_image}: choose one of {', '.join(SAME_IMAGE)}")
    if same_image != "error" and len(sources) == 1:
        raise UsageError(f"{spell('same_image')} needs two sources or more")
    formats: list[str | None] = [names] if names is None or isinstance(names, str) else [*names] or [None]
    if len(formats) not in (1, len(sources)):  # one is for all
        raise UsageError(
            f"{spell('from_')} is given {len(formats)} times for {plural(len(sources), 'source')}; give it "
            "once, or once for each of them, in their order"
        )
    path_of_location: dict[str, str] = {}
    for path in sources:
        location = os.path.realpath(path)
        if location in path_of_location:
            earlier_path = path_of_location[location]
            also = f", also as {printable(earlier_path)}" if earlier_path != path else ""
            raise UsageError(f"{printable(path)}: this source is given twice{also}")
        path_of_location[location] = path
    return formats * len(sources) if len(formats) == 1 else formats


def _add_reference(options: Any, truth: Callable[[], Dataset] | None) -> Any:
    """Return the options for writing, with the ground truth as `reference` if the format has that option."""
    if truth is None or not hasattr(options, "reference"):
        return options
    return dataclasses.replace(options, reference=truth())


def reference(gt: str | os.PathLike[str] | None, log: Log) -> Callable[[], Dataset] | None:
    """Return a function that reads the ground truth of a results file if it is called; None without `gt`."""
    if gt is None:
        return None
    return Reference(Request(path=os.fspath(gt), kind="gt", flag="--gt-format"), log)
