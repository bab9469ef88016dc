"""Validate files: report everything that is wrong or doubtful, each with its place.

The readers and the rules are those of a conversion and an evaluation, so the three agree on what is an
error; here the rules marked `validate_only` run too, pictures are looked at, and bad data is never refused.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm import checks
from odm.codes import STRAY_FILE
from odm.converters.load import Check, Loaded, Reference, check_shared, load, load_pair
from odm.converters.pending import SHAPE_WORDS, Request
from odm.converters.pictures import check_pictures
from odm.issues import CODES, DataError, Issue, Log, UsageError, hint, printable, spell
from odm.names import parse_number
from odm.tables import Dataset, Kind

LITTER = ("._*", ".DS_Store", ".AppleDouble", ".Spotlight-V100", ".Trashes", "__MACOSX", ".directory")
"""Hidden files that an operating system leaves in a folder."""


def validate(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 -- the field's word
    *,
    kind: Kind | None = None,
    gt: str | os.PathLike[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    tolerance: float = checks.TOLERANCE,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    log: Log | None = None,
    **options: Any,
) -> list[Issue]:
    """Return everything that is wrong or doubtful in annotations or detections.

    Parameters
    ----------
    path
        A file or a folder.
    format
        Its name; left out, it is detected.
    kind
        ``"gt"`` or ``"det"``, to say which it is instead of having it detected.
    gt
        The ground truth that a results file refers to.
    against
        Detections to be compared with `path`, which is then ground truth; their format is detected.
    images
        Folder of the pictures, whose names and sizes are compared with the annotations.
    tolerance
        Pixels by which a box may reach beyond its image.
    select, ignore
        Codes, with ``*`` for any text: report only these, do not report these.
    log
        Takes notes and the counts of all issues; of each code a bounded number is kept.
    **options
        Options of the formats, such as ``box="ltwh"``; with `gt` or `against` for whichever has them.

    Returns
    -------
    list of Issue
        Those that were kept, errors first, then by place. Empty if nothing is wrong.

    Raises
    ------
    UsageError
        If there is no such format, option or code, or the format cannot be detected.
    PathError
        If a path is missing or not usable. Bad data never raises.

    Examples
    --------
    >>> [issue.code for issue in validate("labels/", format="yolo")]  # doctest: +SKIP
    ['inverted-box']
    """
    patterns = check_codes(select), check_codes(ignore)
    if images is not None:
        options["images"] = os.fspath(images)
    result_log = Log() if log is None else log.fresh()

    def make_request(location: str | os.PathLike[str] | None, **values: Any) -> Request | None:
        return None if location is None else Request(path=os.fspath(location), shared=options, **values)

    source = make_request(path, format=format, kind=kind)
    assert source is not None
    examine(
        source,
        result_log,
        gt=make_request(gt, kind="gt", flag="--gt-format"),
        against=make_request(against, kind="det", flag="--det-format"),
        tolerance=tolerance,
    )
    result_log = chosen(result_log, *patterns)
    if log is not None:
        log.extend(result_log)
    return sort_issues(result_log.issues)


def examine(
    source: Request,
    log: Log,
    *,
    gt: Request | None = None,
    against: Request | None = None,
    tolerance: float = checks.TOLERANCE,
    take: Callable[[Dataset], Dataset] | None = None,
) -> tuple[Loaded, ...]:
    """Read and check one source, or ground truth and detections; issues go to `log`.

    The option ``images`` of a request names a folder of pictures, whether the format has it or not.

    Returns what could be read of the source, and with `against` of the detections; nothing if not even the
    format could be determined. Raises UsageError or PathError if a request does not fit or a path is not
    usable, and DataError if nothing could be read and no issue tells why.

    Parameters
    ----------
    gt
        The ground truth that `source`, a results file, refers to.
    against
        The detections that belong to `source`, which is then ground truth.
    tolerance
        Pixels by which a box may reach beyond its image.
    take
        Takes a part of a dataset; what is wrong with the rest is left out.
    """
    if gt is not None and against is not None:
        raise UsageError(
            "give either the ground truth of a results file, or detections to compare with, not both"
        )
    check_tolerance(tolerance)

    # Read and check the sides; with `refuse=False` errors stay in the log, and are not raised.
    source = replace(source, wants=SHAPE_WORDS)
    against = against and replace(against, wants=SHAPE_WORDS)
    check: Check = functools.partial(checks.run, all_rules=True, tolerance=tolerance)
    if take is not None:
        check = _limit_check(check, take)
    reference = None if gt is None else Reference(gt, log, refuse=False)
    loaded: tuple[Loaded, ...]
    try:
        if against is not None:
            loaded = load_pair(source, against, log, check=check, refuse=False)
        else:
            loaded = (load(source, log, counterpart=reference, check=check, refuse=False),)
    except DataError:  # nothing could be read at all, not even the format
        if not log.errors:
            raise
        return ()
    if take is not None:
        loaded = tuple(_take_part(side, take, log) for side in loaded)

    # Compare the two sides, unless one has no box but rows that could not be read, which would show as images
    # and classes that are missing. Then check options and pictures.
    if len(loaded) == 2 and all(len(side.dataset) or not side.dataset.skipped for side in loaded):
        checks.compare(loaded[0].dataset, loaded[1].dataset, log)
    elif reference is not None and reference.loaded is None:
        log.note(
            f"{printable(source.path)}: read as {loaded[0].format.name}, which needs no ground "
            f"truth, so {spell('gt')} is ignored; to compare the two, give the detections with "
            f"{spell('against')}"
        )
    uses = [(side.format, "read") for side in loaded]
    if reference is not None and reference.loaded is not None:
        uses.append((reference.loaded.format, "read"))
    check_shared({name: value for name, value in source.shared.items() if name != "images"}, uses)
    requests = [request for request in (source, against) if request is not None]
    _check_folders(loaded, requests, log, partial=take is not None)
    return loaded


def _check_folders(loaded: Sequence[Loaded], requests: Sequence[Request], log: Log, *, partial: bool) -> None:
    """Report stray files beside the annotations of each side, and compare it with its folder of pictures.

    `requests` are those of the sides, in the same order. A folder that both sides name is looked at once, for
    the first side. If the datasets are `partial`, image files of no image are no fault.
    """
    folders: set[str] = set()
    for side, request in zip(loaded, requests, strict=True):
        assert side.source is not None
        for name in side.source.hidden:
            if any(fnmatchcase(name.rpartition("/")[2], pattern) for pattern in LITTER):
                log.report(STRAY_FILE, side.source.full(name))
        folder = {**request.shared, **request.options}.get("images")
        if folder is not None and folder not in folders:
            folders.add(folder)
            check_pictures(side, request, str(folder), log, partial=partial)


def _limit_check(check: Check, take: Callable[[Dataset], Dataset]) -> Check:
    """Return a check that looks only at the part of a dataset that `take` returns; it leaves out no row."""

    def check_part(dataset: Dataset, log: Log, options: Collection[str]) -> NDArray[np.bool_]:
        check(take(dataset), log, options)
        return np.zeros(len(dataset), np.bool_)  # no row is left out

    return check_part


def _take_part(side: Loaded, take: Callable[[Dataset], Dataset], log: Log) -> Loaded:
    """Take a part of a dataset that was read, and withdraw from the log the issues of files that no image or
    box of the part comes from; their rows no longer count as skipped.
    """
    dataset, taken = side.dataset, take(side.dataset)
    is_taken = np.isin(dataset.images.name, taken.images.name)
    # The files of the images that are taken and of their boxes, and those of the other images.
    chosen_files, other_files = (
        {*dataset.images.file[mask].tolist(), *dataset.boxes.file[mask[dataset.boxes.image]].tolist()}
        for mask in (is_taken, ~is_taken)
    )
    withdrawn_paths = {dataset.files[file].path for file in other_files - chosen_files - {-1}}  # -1: none
    withdrawn = [issue for issue in log.issues if issue.path in withdrawn_paths]
    log.counts -= Counter(issue.code for issue in withdrawn)
    log.issues = [issue for issue in log.issues if issue.path not in withdrawn_paths]
    withdrawn_rows = {(issue.path, issue.line, issue.pointer) for issue in withdrawn if CODES[issue.code].row}
    skipped = max(0, dataset.skipped - len(withdrawn_rows))
    return replace(side, dataset=replace(taken, skipped=skipped))


def check_tolerance(tolerance: float) -> None:
    """Raise UsageError if `tolerance` is not a finite number of pixels from 0 up."""
    if not 0 <= tolerance < float("inf"):
        raise UsageError(f"tolerance={tolerance}: expected a number of pixels of at least 0")


# ----------------------------------------------------------------------------------------- what is shown


def check_codes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names and patterns of codes as a tuple. Raises UsageError if one fits no code."""
    patterns = tuple(names)
    for name in patterns:
        if not any(fnmatchcase(code, name) for code in CODES):
            raise UsageError(
                f"unknown code {name!r}{hint(name, CODES)}; odm validate --explain all lists them"
            )
    return patterns


def chosen(log: Log, select: Iterable[str], ignore: Iterable[str]) -> Log:
    """Return a log with only the issues of the requested codes; notes stay.

    `select` and `ignore` are patterns of codes; none selected means all.
    """
    select, ignore = tuple(select), tuple(ignore)

    def is_requested(code: str) -> bool:
        return (not select or any(fnmatchcase(code, p) for p in select)) and not any(
            fnmatchcase(code, p) for p in ignore
        )

    result = log.fresh()
    result.notes = list(log.notes)
    result.counts = Counter({code: n for code, n in log.counts.items() if is_requested(code)})
    result.issues = [issue for issue in log.issues if is_requested(issue.code)]
    return result


def sort_issues(issues: Iterable[Issue]) -> list[Issue]:
    """Errors first, then by place; indices in JSON pointers count as numbers."""

    def make_key(issue: Issue) -> tuple[Any, ...]:
        # Numbers come before words, of which `parse_number` gives -1.
        tokens = [(parse_number(token) < 0, parse_number(token), token) for token in issue.pointer.split("/")]
        return issue.severity != "error", issue.path, issue.line, issue.column, tokens

    return sorted(issues, key=make_key)


def limit_per_code(issues: Iterable[Issue], n: int) -> list[Issue]:
    """Return the first `n` issues of each code."""
    n_seen: Counter[str] = Counter()
    first_issues = []
    for issue in issues:
        n_seen[issue.code] += 1
        if n_seen[issue.code] <= n:
            first_issues.append(issue)
    return first_issues
