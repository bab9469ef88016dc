"""Read and check what the user named: one source, several to merge, or the two sides of an evaluation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm import checks
from odm.codes import (
    ALL_SCORED,
    GIVE_SIZES,
    NO_REFERENCE,
    NO_SCORES,
    NUMBERED_CLASSES,
    SCORE_MISSING,
    SCORE_UNEXPECTED,
)
from odm.converters.pending import Counterpart, PendingSource, Request, reading_options
from odm.converters.skipping import LeftOut, drop_left_out
from odm.files import Source
from odm.formats import FORMATS, Format, option_specs
from odm.issues import (
    CODES,
    Code,
    DataError,
    Log,
    PathError,
    Trusted,
    UsageError,
    first_few,
    plural,
    printable,
    shorten,
    spell,
)
from odm.tables import Dataset

NO_IMAGES = Code(
    "no-images",
    "warning",
    "no images and no boxes found",
    "check that this is the right file and that the export is complete",
    "A file with only a header or empty lists is valid but contains nothing. It is often the result of a "
    "failed export.",
)
NO_BOXES = Code(
    "no-boxes",
    "warning",
    "no boxes found, although the {what} not empty{unread}",
    "{advice}",
    "A file that is read in the wrong format, or whose keys have other names, may give no boxes without an "
    "error. Images without objects are valid, so this is only a warning.",
)
_OBJECTS = re.compile(r"(?:objects|regions|shapes|annotations|instances|polylines|labels)\b")
"""A word in the key of `Dataset.extras` by which objects were counted that have no boxes."""
SIDES_SWAPPED = Code(
    "sides-swapped",
    "error",
    "expected ground truth here and detections in {other!r}, but every box here has a score and none there "
    "does",
    "give the ground truth first and the detections second",
    "Detections are ranked by score; ground truth has no scores.",
)


class Loaded(msgspec.Struct, frozen=True):
    """A dataset, its format, and how many of its rows and which of its files were left out on request."""

    dataset: Dataset
    format: Format
    bad: int = 0
    """Rows that were left out, or could not be read."""
    source: Source | None = None
    """What it was read from; None for tables."""
    left_out: LeftOut = msgspec.field(default_factory=LeftOut)
    """The files that were left out because of their errors."""


Check = Callable[[Dataset, Log, Collection[str]], NDArray[np.bool_]]
"""Checks a dataset that was read with options of these names: reports to the log, and returns the (n,) mask
of the boxes that have an error.
"""


MOST_CLASSES = 2**18
"""Classes of one source: tables by class of more would take gigabytes."""


def add_check(extra_check: Callable[[Dataset, Log], NDArray[np.bool_]]) -> Check:
    """Return a check that runs the usual checks and `extra_check`, which returns (n,) a mask of bad boxes."""
    return lambda dataset, log, options: checks.run(dataset, log, options) | extra_check(dataset, log)


def load(
    request: Request,
    log: Log,
    *,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    counterpart: Counterpart | None = None,
    check: Check = checks.run,
    refuse: bool = True,
    settled: bool = True,
    spare: Collection[str] = (),
) -> Loaded:
    """Read and check one source. Raises DataError if the data has errors, and UsageError or PathError if the
    request does not fit or the path is not usable.

    Parameters
    ----------
    skip_bad
        Leave out the rows that have errors instead of refusing the data.
    skip_bad_files
        Leave out the files that have errors of more than a row, with their images.
    counterpart
        Gives the dataset that this one refers to, such as the ground truth of a results file.
    check
        What checks the dataset.
    refuse
        Whether errors raise; if not, only the log tells them, and what could be read is returned.
    settled
        Whether the shapes are as they are used, see `settle`; if not, they are still to be checked.
    spare
        Names of options that are ignored if the format does not have them, as they have another use as well.
    """
    side = PendingSource(request, log, skip_bad_files=skip_bad_files)
    side.format = side.find_format()
    if spare:
        names = reading_options(side.format)
        options = {k: v for k, v in request.options.items() if k not in spare or k.replace("-", "_") in names}
        side.request = replace(request, options=options)
    dataset = side.read(counterpart)
    if not (len(dataset) or len(dataset.images) or log.errors or request.kind == "det"):
        log.report(NO_IMAGES, request.path)
    elif not (len(dataset) or log.counts):
        _report_no_boxes(side, dataset, log)
    if dataset.relative:
        log.note(
            f"{printable(request.path)}: no picture and no size of any image was found, so coordinates are "
            f"fractions of their images, not pixels ({GIVE_SIZES})"
        )
    loaded = _check(side, dataset, log, skip_bad, check, refuse=refuse)
    return loaded if settled else replace(loaded, dataset=dataset)  # with its shapes as they were read


def _report_no_boxes(side: PendingSource, dataset: Dataset, log: Log) -> None:
    """Report a source without boxes if it holds objects that are not read, or if a file that was read has
    content, unless detections are asked for.
    """
    source, read_paths = side.source, {file.path for file in dataset.files}
    has_content = any(source.full(file) in read_paths and source.head(file).strip() for file in source.files)
    if dataset.extras or (has_content and side.request.kind != "det"):
        counts = [f"{n} {shorten(name)}" for name, n in dataset.extras.items()]
        unread = f"; not read: {first_few(counts, 10, printable)}" if counts else ""
        subject = "files are" if source.is_dir else "file is"
        advice = "check the format (--from) and that the export is complete"
        if any(map(_OBJECTS.search, dataset.extras)):
            advice = "these have no boxes: draw boxes, polygons or masks, and export again"
        log.report(
            NO_BOXES, side.request.path, what=Trusted(subject), unread=Trusted(unread), advice=Trusted(advice)
        )


class KeptTruth(msgspec.Struct):
    """A ground truth that several runs are evaluated against; empty until `load_pair` has read it.

    It stays empty where the ground truth took something from the detections, which other runs may not have.
    """

    side: PendingSource | None = None
    loaded: Loaded | None = None


def load_all(
    requests: Sequence[Request],
    log: Log,
    *,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    counterpart: Counterpart | None = None,
    check: Check = checks.run,
) -> list[Loaded]:
    """Read and check several sources that are to be merged, one after another, as `load` does.

    The options of a request need to fit only one of the formats. Raises DataError if some sources have
    errors, after all have been read, and UsageError or PathError if a request does not fit or a path is not
    usable.
    """
    loaded, failed = [], []
    for request in requests:
        source_log = log.fresh()
        try:
            loaded.append(
                load(
                    request, source_log, skip_bad=skip_bad, skip_bad_files=skip_bad_files,
                    counterpart=counterpart, check=check, spare=request.spare,
                )
            )  # fmt: skip
        except DataError as e:
            failed.append(e)
        finally:
            log.extend(source_log)
    if failed:
        raise DataError("; ".join(e.args[0] for e in failed), log)
    for request in requests:
        spare = {name: value for name, value in request.options.items() if name in request.spare}
        check_shared(spare, [(source.format, "read") for source in loaded])
    return loaded


def load_pair(
    truth: Request,
    detections: Request,
    log: Log,
    *,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    check: Check = checks.run,
    refuse: bool = True,
    spare: Collection[str] = (),
    kept: KeptTruth | None = None,
) -> tuple[Loaded, Loaded]:
    """Read and check the two sides of an evaluation.

    Each side may ask the other for what its own files do not say (image sizes, the images and categories of a
    results file), and two sides of one format are detected together. An empty side takes the other side's
    format. The images of a file that is left out of one side are left out of the other, too. The shared
    options named in `spare` are used for something else too, so no format needs to have them. With the same
    `kept`, which is filled here, for several runs, the ground truth is read, checked and reported once.
    `check` checks each side; without `refuse`, errors are only logged and nothing is raised for them. Raises
    DataError if one of them has errors, and UsageError or PathError if the requests do not fit or a path is
    not usable.
    """
    kept = KeptTruth() if kept is None else kept
    sides = (
        kept.side or PendingSource(truth, log.fresh(), skip_bad_files=skip_bad_files),
        PendingSource(detections, log.fresh(), skip_bad_files=skip_bad_files),
    )
    sides[0].log = log.fresh()  # a kept side still has the log of the run before
    try:
        loaded = _read_pair(sides, skip_bad, check, refuse=refuse, spare=spare, kept_truth=kept)
    finally:
        for side in sides:
            log.extend(side.log)
    if refuse and any(is_refused(side.log, side.left_out, skip_bad=skip_bad) for side in sides):
        counts = [(side.request.path, side.log.errors) for side in sides if side.log.errors]
        counted = ", ".join(f"{printable(path)}: {plural(n, 'error')}" for path, n in counts)
        raise DataError(f"{counted} in the data", log, truth=sides[0].log)
    if refuse and skip_bad:
        for side, loaded_side in zip(sides, loaded, strict=True):
            _check_rows_left(side, loaded_side)
    return loaded


def _read_pair(
    sides: tuple[PendingSource, PendingSource],
    skip_bad: bool,
    check: Check,
    *,
    refuse: bool,
    spare: Collection[str],
    kept_truth: KeptTruth,
) -> tuple[Loaded, Loaded]:
    """Read both sides, each with the other as its counterpart, and check them.

    No format needs the options named in `spare`; without `refuse`, nothing is raised for options that no
    format has. What only one side reports and the other one makes up for is withdrawn. A ground truth that is
    in `kept_truth` is neither checked nor reported again, and one that may serve further runs is put there.
    """
    truth_side, detections_side = sides
    _find_formats(sides)
    if refuse:
        formats_in_use = [(side.format, "read") for side in sides if side.format is not None]
        shared = {**truth_side.request.shared, **detections_side.request.shared}
        check_shared({name: value for name, value in shared.items() if name not in spare}, formats_in_use)
    format_, request = detections_side.format, detections_side.request
    # Some formats begin to read detections in other processes while the ground truth is read here, which
    # is possible only if nothing but the files decides how they are read.
    if format_ is not None and format_.begin and not (request.options or request.own_fields or request.wants):
        format_.begin(detections_side.source)
    # Each side in turn is side_a, and the other one is side_b.
    for side_a, side_b in (sides, sides[::-1]):
        if side_a.format is side_b.format and side_a.complete_options() == side_b.complete_options():
            side_a.decides_with = side_b
        side_a.may_lack_split = True

    # Read them: each is the counterpart that the other one may ask for while it is read.
    datasets = [
        side_a.read(functools.partial(side_b.read_for, side_a)) for side_a, side_b in (sides, sides[::-1])
    ]
    for side_a, side_b in (sides, sides[::-1]):
        if side_b.log.errors:
            side_a.log.withdraw(NO_REFERENCE.name)  # side_b was to be the reference, and is wrong itself
    datasets = [
        drop_left_out(dataset, side_b.left_out, other_dataset)
        for dataset, side_b, other_dataset in zip(datasets, sides[::-1], datasets[::-1], strict=True)
    ]

    # Withdraw from each side what the other one makes up for, and report what neither does.
    if not any(side.shares_split and side.without_split is None for side in sides):
        for side in sides:  # neither has this split, so that its absence is reported after all
            if side.without_split is not None:
                side.log.extend(side.without_split)
    _report_swapped(sides, datasets)
    for side, dataset, other_dataset in zip(sides, datasets, datasets[::-1], strict=True):
        if not dataset.categories.named and other_dataset.categories.named and len(other_dataset.categories):
            side.log.withdraw(NUMBERED_CLASSES.name)  # the other side names them

    truth_dataset, detections_dataset = datasets
    detections = _check(  # nothing is refused here: `load_pair` refuses both sides at once
        detections_side, detections_dataset, detections_side.log, skip_bad, check, refuse=False
    )
    has_left_out = bool(truth_side.left_out.files or detections_side.left_out.files)
    truth = _check_truth(truth_side, truth_dataset, skip_bad, check, kept_truth, has_left_out=has_left_out)
    return truth, detections


def _check_truth(
    side: PendingSource,
    dataset: Dataset,
    skip_bad: bool,
    check: Check,
    kept_truth: KeptTruth,
    *,
    has_left_out: bool,
) -> Loaded:
    """Check the ground truth, or take it from `kept_truth`, where one that can serve further runs is put.

    With `has_left_out` files of a side were left out, so that the dataset can only serve this run.
    """
    if kept_truth.loaded is not None and not has_left_out:
        return kept_truth.loaded
    is_first = kept_truth.side is None
    log = side.log if is_first else side.log.fresh()  # its issues are reported once
    loaded = _check(side, dataset, log, skip_bad, check, refuse=False)
    if is_first and not (side.has_asked or has_left_out):  # else it depends on these detections
        kept_truth.side, kept_truth.loaded = side, loaded
    return loaded


def _report_swapped(sides: tuple[PendingSource, PendingSource], datasets: list[Dataset]) -> None:
    """Report one error instead of many if ground truth and detections are swapped.

    That is if all of one have scores that they should not have, and the other lacks them.
    """
    truth_side, detections_side = sides
    truth, detections = truth_side.log, detections_side.log
    truth_dataset, detections_dataset = datasets
    scored = (SCORE_UNEXPECTED.name, ALL_SCORED.name, "results-as-ground-truth")
    scoreless = (SCORE_MISSING.name, NO_SCORES.name)
    # A side with boxes is right, as boxes with a wrong score, or none, were left out. Only a format of
    # detections alone has boxes that are all wrong, under one ALL_SCORED.
    if len(detections_dataset) or (len(truth_dataset) and not truth.counts[ALL_SCORED.name]):
        return
    if any(truth.counts[name] for name in scored) and any(detections.counts[name] for name in scoreless):
        truth.withdraw(*scored)
        detections.withdraw(*scoreless)
        truth.report(SIDES_SWAPPED, truth_side.request.path, other=detections_side.request.path)


def _check(
    side: PendingSource, dataset: Dataset, log: Log, skip_bad: bool, check: Check, *, refuse: bool
) -> Loaded:
    """Check a dataset and return it as `Loaded`, with `skip_bad` without its bad rows.

    Raises DataError for too many classes; with `refuse` also for errors that `skip_bad` does not leave out,
    and if `skip_bad` would leave no box, or leave out none.
    """
    assert side.format is not None
    if len(dataset.categories) > MOST_CLASSES:
        raise DataError(
            f"{printable(side.request.path)}: there are {len(dataset.categories)} classes, more than "
            f"{MOST_CLASSES}: are they names of single objects?",
            log,
        )
    has_error = check(dataset, log, reading_options(side.format))
    if refuse and is_refused(log, side.left_out, skip_bad=skip_bad):
        raise build_refusal(log, side.request.path, skip_bad=skip_bad)
    n_bad = dataset.skipped
    if skip_bad and has_error.any():
        n_bad += int(np.count_nonzero(has_error))
        dataset = dataset.take(~has_error)
    boxes = dataset.boxes
    if boxes.shapes is not None or boxes.keypoints is not None or "keypoints" in dataset.categories.extra:
        from odm.converters.shapes import settle  # which most evaluations do without

        dataset = settle(dataset)  # each shape in one form: as read, in JSON, or as a row of `Shapes`
    loaded = Loaded(dataset, side.format, n_bad, side.source, side.left_out)
    if refuse and skip_bad:
        _check_rows_left(side, loaded)
    return loaded


def _check_rows_left(side: PendingSource, loaded: Loaded) -> None:
    """Raise DataError if leaving out rows with errors leaves no box, or leaves out none."""
    if loaded.bad and not len(loaded.dataset):
        n_bad = loaded.bad
        reason = "the only box has an error" if n_bad == 1 else f"all {n_bad} boxes have errors"
        text = f"{reason}, so {spell('skip_bad')} would leave nothing"
    elif not loaded.bad and side.log.errors > loaded.left_out.errors:
        text = f"{spell('skip_bad')} only leaves out rows, and these errors are not in rows"
    else:
        return
    raise DataError(f"{printable(side.request.path)}: {text}", side.log)


class Reference:
    """The ground truth that a results file refers to."""

    def __init__(self, request: Request, log: Log, *, refuse: bool = True) -> None:
        self._request, self._log, self._refuse = request, log, refuse
        self.loaded: Loaded | None = None

    def __call__(self) -> Dataset:
        """Return the dataset, which is read at the first call."""
        if self.loaded is None:
            truth_log = self._log.fresh()  # errors of the results are none of the ground truth
            try:
                self.loaded = load(self._request, truth_log, refuse=self._refuse)
            finally:
                self._log.extend(truth_log)
        return self.loaded.dataset


def is_refused(log: Log, left_out: LeftOut, *, skip_bad: bool) -> bool:
    """Whether a log holds errors besides those of `left_out`; with `skip_bad`, errors of more than a row."""
    # `fatal` counts the errors of more than a row, `errors` all.
    return log.fatal > left_out.fatal or (log.errors > left_out.errors and not skip_bad)


def build_refusal(log: Log, path: str, *, skip_bad: bool = False) -> DataError:
    """Return the DataError for the errors in `log`; with `skip_bad` it names those of more than a row."""
    text = f"{printable(path)}: {plural(log.errors, 'error')} in the data"
    if skip_bad and log.fatal:
        codes = [name for name in log.counts if CODES[name].severity == "error" and not CODES[name].row]
        text += f"; {spell('skip_bad')} only leaves out rows, and these affect more than one row: "
        text += ", ".join(codes)
        paths = list(dict.fromkeys(i.path for i in log.issues if i.code in codes and i.path))
        if paths:
            text += f"; correct {first_few(paths, 3, printable)}"
        if paths and paths != [path]:  # a source that is one file cannot do without it
            can_skip_files = all(CODES[name].file for name in codes)
            leave_out = f"leave out such files with {spell('skip_bad_files')}"
            text += f", or {leave_out if can_skip_files else 'move it out of the source'}"
    return DataError(text, log)


def check_shared(shared: Mapping[str, Any], uses: list[tuple[Format, str]]) -> None:
    """Raise UsageError if a shared option fits none of `uses`: formats, each with ``read`` or ``write``."""
    known_names = {
        spec.name
        for format_, side in uses
        for spec in option_specs(format_.options)
        if spec.side in (side, "both")
    }
    for name in shared:
        if name.replace("-", "_") not in known_names:
            verbs = {"read": "reading", "write": "writing"}
            actions = " and ".join(dict.fromkeys(f"{verbs[side]} {f.name}" for f, side in uses))
            advice = ""
            if name == "classes" and any(side == "write" for _, side in uses):
                advice = f"; {spell('class_list')} FILE sets which classes are written, and in which order"
            raise UsageError(f"the option {name.replace('_', '-')!r} does not apply when {actions}{advice}")


def _find_formats(sides: tuple[PendingSource, PendingSource]) -> None:
    """Set the format of each side, of an empty one by the other side or its suffixes. Raises if none fits."""
    undetected: list[tuple[PendingSource, UsageError | PathError]] = []
    for side in sides:
        try:
            side.format = side.format or side.find_format()
        except (UsageError, PathError) as e:
            if side.request.format is not None or not side.is_empty:
                raise
            undetected.append((side, e))
    if len(undetected) == 2:
        (_, error), _ = undetected
        raise error
    for side, _ in undetected:
        (other_side,) = (s for s in sides if s is not side)
        assert other_side.format is not None
        format_ = other_side.format
        if side.source.files and not side.source.with_suffix(*format_.suffixes):
            # Its files are empty, but their suffix excludes the format of the other side. Only a format with
            # a file per image (not `single`) has empty ones: for images without boxes.
            format_ = next(
                (f for f in FORMATS.values() if not f.single and side.source.with_suffix(*f.suffixes)),
                format_,
            )
        side.format = format_
        side.log.note(f"{printable(side.source.path)}: it is empty, so it is read as {format_.name}")


def check_one_run(detections: Dataset) -> None:
    """Raise UsageError if the files of a folder are several runs: most images have one class in two files.

    Files for one class each, or with some rows of an image at their ends, are parts of one run.
    """
    boxes, n_classes = detections.boxes, len(detections.categories)
    file_of = np.zeros(len(detections.images), boxes.file.dtype)
    file_of[boxes.image] = boxes.file  # of several files of an image, the one of its last box stays
    if (boxes.file == file_of[boxes.image]).all():
        return  # no image has boxes in two files
    n_files = len(detections.files) + 1  # a file of -1 is none
    # Distinct (image, class, file). An image and class that occurs twice among them is in several files.
    keys = (boxes.image.astype(np.int64) * n_classes + boxes.category) * n_files + boxes.file + 1
    image_class = np.unique(keys) // n_files
    repeated_images = np.unique(image_class[1:][image_class[1:] == image_class[:-1]] // n_classes)
    if len(repeated_images) * 2 > len(np.unique(boxes.image)):
        path, n = printable(detections.path), len(np.unique(boxes.file))
        raise UsageError(
            f"{path} holds {n} files with detections of the same images: compare them with `odm compare GT "
            f"{path.rstrip('/')}/*`, or {spell('merge_runs')} pools them"
        )
