"""Validation: everything that is wrong or doubtful in the files, all of it, each with its place.

The readers and the rules are those of a conversion and an evaluation, so the three agree on what is an
error; here the rules marked `validate_only` run too, pictures are looked at, and bad data is never refused.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from odm import checks
from odm.codes import NO_PICTURE, NO_SIZE, SIZE_OUT_OF_REACH, STRAY_FILE
from odm.converters.load import Loaded, Reference, check_shared, load, load_pair
from odm.converters.pending import Request
from odm.files import Source
from odm.formats import FORMATS, option_specs
from odm.issues import CODES, Code, DataError, Issue, Log, UsageError, hint, printable, shorten
from odm.names import PICTURE_SUFFIXES, number_of, stem
from odm.pictures import picture_size
from odm.tables import Dataset, Kind

NO_ANNOTATION = Code(
    "picture-without-annotations",
    "warning",
    "{n} of {total} pictures are not in the annotations; the first is {value!r}",
    "annotate them, list them as images without objects, or move them elsewhere",
    "A picture that the annotations do not mention is used neither as a training example nor as a "
    "background image.",
)
UNREADABLE_PICTURE = Code(
    "picture-not-checked",
    "warning",
    "cannot compare the size of the picture with the annotations: {reason}",
    "replace the picture",
    "The header of the picture is damaged or of an unknown type. The annotations give the size of the "
    "image, so they can still be used.",
)

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
    """Find everything that is wrong or doubtful in annotations or detections.

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
    """
    wanted = check_codes(select), check_codes(ignore)
    if images is not None:
        options["images"] = os.fspath(images)
    found = Log() if log is None else log.fresh()

    def request(location: str | os.PathLike[str] | None, **values: Any) -> Request | None:
        return None if location is None else Request(path=os.fspath(location), shared=options, **values)

    source = request(path, format=format, kind=kind)
    assert source is not None
    examine(
        source,
        found,
        gt=request(gt, kind="gt", flag="gt_format"),
        against=request(against, kind="det", flag="det_format"),
        tolerance=tolerance,
    )
    found = chosen(found, *wanted)
    if log is not None:
        log.extend(found)
    return sort_issues(found.issues)


def examine(
    source: Request,
    log: Log,
    *,
    gt: Request | None = None,
    against: Request | None = None,
    tolerance: float = checks.TOLERANCE,
) -> tuple[Loaded, ...]:
    """Read and check one source, or ground truth and detections; `log` takes whatever is wrong.

    The option ``images`` of a request names a folder of pictures, whether the format has it or not.

    Parameters
    ----------
    gt
        The ground truth that `source`, a results file, refers to.
    against
        The detections that belong to `source`, which is then ground truth.
    tolerance
        Pixels by which a box may reach beyond its image.

    Returns
    -------
    tuple of Loaded
        What could be read of the source, and with `against` of the detections.

    Raises
    ------
    UsageError, PathError
        If a request does not fit or a path is not usable.
    """
    if gt is not None and against is not None:
        raise UsageError(
            "give either the ground truth of a results file, or detections to compare with, not both"
        )
    check_tolerance(tolerance)
    check = functools.partial(checks.run, all_rules=True, tolerance=tolerance)
    reference = None if gt is None else Reference(gt, log, refuse=False)
    loaded: tuple[Loaded, ...]
    try:
        if against is not None:
            loaded = load_pair(source, against, log, check=check, refuse=False)
        else:
            loaded = (load(source, log, counterpart=reference, check=check, refuse=False),)
    except DataError:  # nothing could be read at all, not even the format
        return ()
    if len(loaded) == 2 and all(len(one.dataset) or not one.dataset.skipped for one in loaded):
        checks.compare(loaded[0].dataset, loaded[1].dataset, log)
    elif reference is not None and reference.held is None:
        log.note(
            f"{printable(source.path)}: read as {loaded[0].format.name}, which needs no ground "
            "truth, so --gt is ignored; to compare the two, give the detections with --against"
        )
    uses = [(one.format, "read") for one in loaded]
    if reference is not None and reference.held is not None:
        uses.append((reference.held.format, "read"))
    check_shared({name: value for name, value in source.shared.items() if name != "images"}, uses)
    folders: set[str] = set()
    for one, request in zip(loaded, (source, against), strict=False):
        assert request is not None
        assert one.source is not None
        _report_litter(one.source, log)
        _report_other_shapes(one.dataset, request.path, log)
        folder = {**request.shared, **request.options}.get("images")
        if folder is not None and folder not in folders:
            folders.add(folder)
            _check_pictures(one, request, str(folder), log)
    return loaded


def check_tolerance(tolerance: float) -> None:
    """UsageError if it is no number of pixels."""
    if not 0 <= tolerance < float("inf"):
        raise UsageError(f"tolerance={tolerance}: expected a number of pixels of at least 0")


# -------------------------------------------------------------------------------------- files and pictures


def _report_litter(source: Source, log: Log) -> None:
    for name in source.hidden:
        if any(fnmatchcase(name.rpartition("/")[2], pattern) for pattern in LITTER):
            log.report(STRAY_FILE, source.full(name))


def _report_other_shapes(dataset: Dataset, path: str, log: Log) -> None:
    """Name what there is where no box is, such as polylines, as the summary of a conversion would."""
    if not len(dataset) and not dataset.skipped and dataset.extras:
        others = ", ".join(f"{n} {printable(shorten(name))}" for name, n in dataset.extras.items())
        log.note(f"{printable(path)}: contains no boxes; not read: {others}")


def _check_pictures(loaded: Loaded, request: Request, folder: str, log: Log) -> None:
    """Compare the images of a dataset with the pictures in a folder: which there are, and their sizes."""
    dataset, images = loaded.dataset, loaded.dataset.images
    source = Source(folder, follow_links=request.follow_links, max_size=request.max_size)
    pictures = source.with_suffix(*PICTURE_SUFFIXES)
    find = _finder(pictures)
    used: dict[int, str] = {}
    reported = sum(
        log.counts[code.name] for code in (NO_PICTURE, NO_SIZE, SIZE_OUT_OF_REACH)
    )  # by the reader, which needs the pictures
    for row, name in enumerate(images.name):
        picture = find(name)
        if picture is not None:
            used[row] = picture
        elif not reported:
            path, line, pointer = dataset.image_place(row)
            log.report(NO_PICTURE, path, line=line, pointer=pointer, value=name)
    alone = sorted(set(pictures) - set(used.values()))
    if alone:
        log.report(NO_ANNOTATION, folder, n=len(alone), total=len(pictures), value=alone[0] or folder)
    if "size" not in loaded.format.keeps and not _sizes_are_given(loaded, request):
        return  # the sizes are the pictures' own
    known = np.minimum(images.width, images.height) > 0
    sizes = {}
    linked = {row for row in used if used[row] in source.picture_links}
    source.note_links(log)
    for row in log.track([row for row in used if known[row] and row not in linked], "pictures"):
        scratch = Log(keep=1)
        size = picture_size(source.full(used[row]), scratch)
        if size is not None:
            sizes[row] = size
        else:
            reason = scratch.issues[0].message.partition(": ")[2].partition(";")[0]
            log.report(UNREADABLE_PICTURE, source.full(used[row]), reason=reason)
    checks.compare_pictures(dataset, sizes, log)


def _sizes_are_given(loaded: Loaded, request: Request) -> bool:
    """Whether an option gives sizes, so that they need not be the pictures'."""
    given = {**request.shared, **request.options}
    names = {spec.name for spec in option_specs(loaded.format.options)} & {"image_size", "image_sizes"}
    return any(given.get(name) is not None for name in names)


def _finder(pictures: list[str]) -> Callable[[str], str | None]:
    """Answers which picture belongs to the name of an image, by the first of these that is unique: the whole
    name, its last part, and both without extension.
    """
    whole = {name: name for name in pictures}
    tables: list[tuple[Callable[[str], str], dict[str, str | None]]] = []
    for key in (_last, stem, lambda name: stem(_last(name))):
        table: dict[str, str | None] = {}
        for name in pictures:
            k = key(name)
            table[k] = None if k in table else name
        tables.append((key, table))

    def find(name: str) -> str | None:
        if name in whole:
            return name
        for key, table in tables:
            found = table.get(key(name))
            if found is not None:
                return found
        return None

    return find


def _last(name: str) -> str:
    return name.rpartition("/")[2]


# ----------------------------------------------------------------------------------------- what is shown


def check_codes(names: Iterable[str]) -> tuple[str, ...]:
    """The same names and patterns of codes; UsageError if one fits no code."""
    wanted = tuple(names)
    if wanted:
        list(FORMATS.values())  # a format declares its codes when it is imported
    for name in wanted:
        if not any(fnmatchcase(code, name) for code in CODES):
            raise UsageError(f"unknown code {name!r}{hint(name, CODES)}; --explain all lists them")
    return wanted


def chosen(log: Log, select: Iterable[str], ignore: Iterable[str]) -> Log:
    """A log with only the issues of the codes that were asked for; notes stay.

    Parameters
    ----------
    select, ignore
        Patterns of codes; none selected means all.
    """
    select, ignore = tuple(select), tuple(ignore)

    def wanted(code: str) -> bool:
        return (not select or any(fnmatchcase(code, p) for p in select)) and not any(
            fnmatchcase(code, p) for p in ignore
        )

    result = log.fresh()
    result.notes = list(log.notes)
    result.counts = Counter({code: n for code, n in log.counts.items() if wanted(code)})
    result.issues = [issue for issue in log.issues if wanted(issue.code)]
    return result


def sort_issues(issues: Iterable[Issue]) -> list[Issue]:
    """Errors first, then by place; indices in JSON pointers count as numbers."""

    def key(issue: Issue) -> tuple[Any, ...]:
        parts = [(number_of(part) < 0, number_of(part), part) for part in issue.pointer.split("/")]
        return issue.severity != "error", issue.path, issue.line, issue.column, parts

    return sorted(issues, key=key)
