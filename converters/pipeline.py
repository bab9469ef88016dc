"""The conversion: read, judge, edit, fit to the target, write."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import checks, inputs
from odm.converters.edit import Edits, apply
from odm.converters.ledger import BAD_FILES, Ledger, fit
from odm.converters.load import (
    Loaded,
    Request,
    check_shared,
    choose_options,
    load,
    reading_options,
    refusal,
)
from odm.converters.repairs import check_repairs, clip_boxes
from odm.converters.repairs import repair as mend
from odm.converters.validation import check_tolerance
from odm.files import BAD_NAME, MAX_SIZE, Output, accept_name, refuse_name
from odm.formats import Format, for_target, get, make_options
from odm.issues import DataError, Log, PathError, printable, shorten
from odm.names import BAD_CLASS_NAME, refuse_class
from odm.tables import Dataset, Kind, stem


def read(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 -- the field's word
    *,
    kind: Kind | None = None,
    gt: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    log: Log | None = None,
    **options: Any,
) -> Dataset:
    """Read annotations or detections into tables.

    Parameters
    ----------
    path
        A file or a folder.
    format
        Its name (``odm formats`` lists them); left out, it is sniffed.
    kind
        ``"gt"`` or ``"det"``, to say which it is instead of having it sniffed.
    gt
        The ground truth that a results file refers to.
    skip_bad
        Leave out the rows that have errors instead of raising.
    skip_bad_files
        Leave out the files that have errors of more than a row, with their images; notes name them.
    log
        Collects issues and notes; read it afterwards to see warnings.
    **options
        The format's own options, such as ``box="ltwh"``.

    Raises
    ------
    DataError
        If the data has errors; its ``log`` holds them all.
    UsageError
        If there is no such format or option, or the format cannot be told.
    PathError
        If the path is missing or not usable.
    """
    log = log or Log()
    request = Request(path=os.fspath(path), format=format, options=options, kind=kind)
    return load(
        request, log, skip_bad=skip_bad, skip_bad_files=skip_bad_files, other=reference(gt, log)
    ).dataset


@inputs.gather()
def write(
    dataset: Dataset,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 -- the field's word
    *,
    overwrite: bool = False,
    keep_groups: bool = False,
    log: Log | None = None,
    **options: Any,
) -> Ledger:
    """Write tables as a file or a folder, all or nothing.

    Parameters
    ----------
    dataset
        What to write; it is not changed.
    path
        The target. It must not exist, or be an empty folder, unless `overwrite` is given.
    format
        The target's format; left out, the suffix of `path` decides.
    keep_groups
        Write crowd and group-of boxes as ordinary ones where the format cannot mark them.
    **options
        The format's own options.

    Returns
    -------
    Ledger
        What was written and what was left out.

    Raises
    ------
    DataError
        If the tables hold what cannot be written.
    UsageError, PathError
        As for `read`.
    """
    log = log or Log()
    target = os.fspath(path)
    format_ = get(format) if format else for_target(target)
    _judge(dataset, target, log)
    return _write(
        Loaded(dataset, format_),
        target,
        format_,
        make_options(format_, options),
        log,
        overwrite=overwrite,
        keep_groups=keep_groups,
    )


@inputs.gather()
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    from_: str | None = None,
    to: str | None = None,
    options: Mapping[str, Any] | None = None,
    from_options: Mapping[str, Any] | None = None,
    to_options: Mapping[str, Any] | None = None,
    kind: Kind | None = None,
    gt: str | os.PathLike[str] | None = None,
    strict: bool = False,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    keep_groups: bool = False,
    clip: bool = False,
    edits: Edits = Edits(),
    overwrite: bool = False,
    dry_run: bool = False,
    follow_links: bool = False,
    max_size: int = MAX_SIZE,
    log: Log | None = None,
) -> Ledger:
    """Turn files of one format into another, all or nothing.

    Parameters
    ----------
    source, target
        Paths; the target must lie apart from the source.
    from_, to
        Formats by name; left out, the source is sniffed and the target's suffix decides.
    options, from_options, to_options
        Options of the formats: for whichever of the two has them, for the source, for the target.
    gt
        The ground truth that a results file refers to; its ids are written into a results file.
    strict
        Refuse, with nothing written, if anything would be left out or lost.
    skip_bad
        Leave out rows with errors, counted, instead of refusing.
    skip_bad_files
        Leave out files with errors of more than a row, and their images; the ledger names them.
    keep_groups
        Write crowd and group-of boxes as ordinary ones where the target cannot mark them.
    clip
        Cut boxes to their image, counted; what lies outside altogether is left out.
    edits
        Classes to rename, merge, drop or keep.
    dry_run
        Do everything but write.

    Returns
    -------
    Ledger
        Boxes read = boxes written + boxes left out, each with its reason.

    Raises
    ------
    DataError
        If the data has errors, or with `strict` if something would be lost.
    UsageError
        If a format or option does not exist or cannot be told.
    PathError
        If the source or the target is not usable.
    """
    log = log or Log()
    source, target = os.fspath(source), os.fspath(target)
    inputs.name(source, gt)
    shared = dict(options or {})
    to_format = get(to) if to else for_target(target)
    if not to:
        log.note(f"{printable(target)}: written as {to_format.name}, as its suffix says")
    to_chosen = choose_options(to_format, to_options or {}, shared, "write")
    # The target is looked at before anything is read, so that a wrong one costs no time.
    Output(target, single=_is_single(to_format, target), overwrite=overwrite, dry_run=True)
    request = Request(
        path=source,
        format=from_,
        options=dict(from_options or {}),
        shared=shared,
        kind=kind,
        flag="--from",
        follow_links=follow_links,
        max_size=max_size,
    )
    truth = reference(gt, log)
    loaded = load(request, log, skip_bad=skip_bad, skip_bad_files=skip_bad_files, other=truth)
    check_shared(shared, [(loaded.format, "read"), (to_format, "write")])
    return _write(
        loaded,
        target,
        to_format,
        _with_reference(to_chosen, truth),
        log,
        strict=strict,
        keep_groups=keep_groups,
        clip=clip,
        edits=edits,
        overwrite=overwrite,
        dry_run=dry_run,
    )


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
    log: Log | None = None,
) -> Ledger:
    """Write a repaired copy of annotations or detections, all or nothing; the source is not changed.

    Parameters
    ----------
    source, target
        Paths; the target must lie apart from the source.
    repairs
        Any of ``order`` (exchange edges that are the wrong way round), ``clip`` (cut boxes to their image),
        ``drop-empty`` (boxes without an area), ``dedupe`` (exact duplicates) and ``rename`` (names that some
        system cannot hold or takes for one); applied in this order, whatever the order here.
    format
        The format of the source; left out, it is sniffed.
    to
        The format of the copy; left out, that of the source.
    skip_bad
        Leave out the rows that still have errors, counted, instead of refusing.
    skip_bad_files
        Leave out files with errors of more than a row, and their images; the ledger names them.
    tolerance
        Pixels by which a box may reach beyond its image.
    log
        Takes what the reader reports and what is still wrong after the repairs.

    Returns
    -------
    Ledger
        Boxes read = boxes written + boxes left out, each with its reason, and every change.

    Raises
    ------
    DataError
        If errors remain that the repairs do not mend.
    UsageError, PathError
        As for `convert`.
    """
    log = log or Log()
    source, target = os.fspath(source), os.fspath(target)
    inputs.name(source, gt)
    wanted = check_repairs(repairs)
    check_tolerance(tolerance)
    shared = dict(options or {})
    to_format = get(to) if to else None
    if (likely := to or format) is not None:  # a wrong target is told before anything is read
        single = _is_single(get(likely), target)
        Output(target, single=single, overwrite=overwrite, dry_run=True)
    request = Request(
        path=source,
        format=format,
        options=dict(from_options or {}),
        shared=shared,
        kind=kind,
        follow_links=follow_links,
        max_size=max_size,
    )
    # The reader's errors are judged here, those of the tables after the repairs.
    truth = reference(gt, log)
    loaded = load(request, log, skip_bad=skip_bad, skip_bad_files=skip_bad_files, other=truth, check=_accept)
    to_format = to_format or loaded.format
    to_chosen = _with_reference(choose_options(to_format, to_options or {}, shared, "write"), truth)
    check_shared(shared, [(loaded.format, "read"), (to_format, "write")])
    ledger = _open_ledger(loaded, to_format, dry_run=dry_run)
    dataset = mend(loaded.dataset, wanted, ledger, log)
    wrong = checks.run(dataset, log, reading_options(loaded.format), all_rules=True, tolerance=tolerance)
    if loaded.left_out.refuses(log, skip_bad=skip_bad):
        raise refusal(log, source, skip_bad=skip_bad)
    dataset = ledger.leave_out(dataset, wrong, BAD_ROWS)
    return _write(
        dataclasses.replace(loaded, dataset=dataset),
        target,
        to_format,
        to_chosen,
        log,
        overwrite=overwrite,
        dry_run=dry_run,
        ledger=ledger,
    )


def _judge(dataset: Dataset, target: str, log: Log) -> None:
    """DataError where tables that no reader made hold what none would take."""
    errors = log.errors
    for row, name in enumerate(dataset.images.name):
        path, line, pointer = dataset.image_place(row)
        accept_name(name, log, path, line=line, pointer=pointer)
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(BAD_CLASS_NAME, "", value=name, reason=reason)
    checks.run(dataset, log)
    if log.errors > errors:
        raise _unwritten(log, target)


def _unwritten(log: Log, target: str) -> DataError:
    """The error that leaves a target unwritten, with the errors that `log` holds; they are the source's."""
    n = log.errors
    return DataError(f"{printable(target)}: not written, because of {n} error{'s' if n != 1 else ''}", log)


def _with_reference(options: Any, truth: Callable[[], Dataset] | None) -> Any:
    """The options for writing, with the ground truth whose ids are wanted where the format asks for it."""
    if truth is None or not hasattr(options, "reference"):
        return options
    return dataclasses.replace(options, reference=truth())


def _accept(dataset: Dataset, log: Log, options: Collection[str]) -> NDArray[np.bool_]:
    """A check that finds nothing."""
    del log, options
    return np.zeros(len(dataset), np.bool_)


def reference(gt: str | os.PathLike[str] | None, log: Log) -> Callable[[], Dataset] | None:
    """Answers, when it is called, the ground truth that a results file refers to; None if none was given."""
    if gt is None:
        return None
    request = Request(path=os.fspath(gt), kind="gt", flag="--gt-format")
    held: list[Dataset] = []

    def answer() -> Dataset:
        if not held:
            held.append(load(request, log).dataset)
        return held[0]

    return answer


def _is_single(format_: Format, target: str) -> bool:
    return format_.single and target.lower().endswith(format_.suffixes) and not os.path.isdir(target)


def _write(
    loaded: Loaded,
    target: str,
    format_: Format,
    options: Any,
    log: Log,
    *,
    strict: bool = False,
    keep_groups: bool = False,
    clip: bool = False,
    edits: Edits = Edits(),
    overwrite: bool = False,
    dry_run: bool = False,
    ledger: Ledger | None = None,
) -> Ledger:
    dataset, format_ = loaded.dataset, format_.adapted(options)
    if ledger is None:
        ledger = _open_ledger(loaded, format_, dry_run=dry_run)
    renamed = apply(edits, dataset, ledger)
    if renamed.categories.name != dataset.categories.name:
        checks.report_similar_classes(renamed, log)
    dataset = renamed
    if clip:
        dataset = clip_boxes(dataset, ledger, log)
    dataset = fit(dataset, loaded.format, format_, ledger, keep_groups=keep_groups)
    if not (edits.order or edits.coco_ids):
        _say_order(dataset, format_, log)
    ledger.written = len(dataset)
    ledger.images, ledger.categories = len(dataset.images), len(dataset.categories)
    if strict and not ledger.lossless:
        ledger.dry_run = True
        rows = [(n, what) for what, n in {**ledger.left_out, **ledger.lost}.items()]
        rows += [(len(ledger.bad_files), BAD_FILES)] if ledger.bad_files else []
        losses = ", ".join(f"{n} {what}" for n, what in rows)
        raise StrictLoss(f"{printable(target)}: --strict, and there would be a loss: {losses}", log, ledger)
    output = Output(
        target,
        single=_is_single(format_, target),
        overwrite=overwrite,
        dry_run=dry_run,
    )
    _check_apart(dataset, output)
    writing = log.fresh()
    if "extension" not in format_.keeps:
        _check_stems(dataset, writing)
    with output:
        try:
            format_.write(dataset, output, writing, options)
        finally:
            writing.set_place(target)
            log.extend(writing)
        if writing.errors:
            raise _unwritten(log, target)
        # An empty folder is read as no detections, and holds no classes.
        has_classes = bool(ledger.categories) and "unused" in format_.keeps
        if not output.written and (dataset.kind != "det" or has_classes):
            raise DataError(
                f"{printable(target)}: not written, because the data has no image and {format_.name} has a "
                "file for each image, so there would be nothing to read; coco can hold classes alone",
                log,
            )
    ledger.files, ledger.stayed = tuple(output.written), tuple(output.stayed)
    return ledger


def _open_ledger(loaded: Loaded, target: Format, *, dry_run: bool) -> Ledger:
    ledger = Ledger(loaded.format.name, target.name, read=len(loaded.dataset) + loaded.bad, dry_run=dry_run)
    if loaded.bad:
        ledger.left_out[BAD_ROWS] = loaded.bad
    ledger.bad_files = tuple(loaded.left_out.files)
    return ledger


BAD_ROWS = "rows with errors (--skip-bad)"


class StrictLoss(DataError):
    """With ``strict`` something would have been lost; ``ledger`` says what."""

    def __init__(self, message: str, log: Log, ledger: Ledger) -> None:
        super().__init__(message, log)
        self.ledger = ledger


def _say_order(dataset: Dataset, target: Format, log: Log) -> None:
    """Say in which order classes are numbered where the source gives none and the target does."""
    names = dataset.categories.name
    if dataset.categories.ordered or "order" not in target.keeps or len(names) < 2:
        return
    some = ", ".join(shorten(name, 30) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    log.note(
        f"classes are listed and numbered as they first appear: {some} (--class-list FILE gives the order)"
    )


def _check_stems(dataset: Dataset, log: Log) -> None:
    """Report images whose name without its extension, which is all that is written, could not be read."""
    for row, name in enumerate(dataset.images.name):
        if (reason := refuse_name(stem(name))) is not None:
            path, line, pointer = dataset.image_place(row)
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=stem(name), reason=reason)


def _check_apart(dataset: Dataset, output: Output) -> None:
    """Refuse a target that holds a file that was read; a list file may have led to other folders."""
    real = os.path.realpath(output.target)
    for folder in dict.fromkeys(os.path.dirname(file.path) for file in dataset.files):
        below = os.path.realpath(folder)
        if below == real or below.startswith(real.rstrip(os.sep) + os.sep):
            raise PathError(
                f"{printable(output.target)}: the target lies around files of the source; write elsewhere"
            )
