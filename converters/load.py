"""Reading what the user named: find the format, read, check. All three jobs come here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import checks, inputs
from odm.codes import (
    ALL_SCORED,
    NO_REFERENCE,
    NO_SCORES,
    NUMBERED_CLASSES,
    SCORE_MISSING,
    SCORE_UNEXPECTED,
    UNKNOWN_SPLIT,
)
from odm.converters.skipping import LeftOut, read_good_files, without_left_out
from odm.files import MAX_SIZE, Source, open_source
from odm.formats import FORMATS, Format, detect, get, make_options, option_specs
from odm.issues import CODES, Code, DataError, Log, PathError, UsageError, plural, printable
from odm.names import BAD_NAME, SAME_SHORT_NAME, NameRule, refuse_name, shortened
from odm.tables import Builder, Dataset, Kind

NO_IMAGES = Code(
    "no-images",
    "warning",
    "no images and no boxes found",
    "check that this is the right file and that the export is complete",
    "A file with only a header or empty lists is valid but contains nothing. It is often the result of a "
    "failed export.",
)
SIDES_SWAPPED = Code(
    "sides-swapped",
    "error",
    "expected ground truth here and detections in {other!r}, but every box here has a score and none there "
    "does",
    "give the ground truth first and the detections second",
    "Detections are ranked by score; ground truth has no scores.",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to read and how: the words of a user about one source.

    ``options`` go to the format and must be its own; ``shared`` go to it where it has them.
    """

    path: str
    format: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    shared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    spare: frozenset[str] = frozenset()
    """Names of `options` that go to other sources too, so the format need not have them."""
    kind: Kind | None = None
    flag: str = "--format"
    """How the user names the format by hand; for messages."""
    follow_links: bool = False
    max_size: int = MAX_SIZE


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A dataset, its format, and how many of its rows and which of its files were left out on request."""

    dataset: Dataset
    format: Format
    bad: int = 0
    source: Source | None = None
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)
    """The files that were left out because of their errors."""


Check = Callable[[Dataset, Log, Collection[str]], NDArray[np.bool_]]
"""Checks a dataset that was read with options of these names: reports to the log, and returns the (n,) mask
of the boxes that have an error.
"""


def load(
    request: Request,
    log: Log,
    *,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    counterpart: Callable[[], Dataset | None] | None = None,
    check: Check = checks.run,
    refuse: bool = True,
    spare: Collection[str] = (),
) -> Loaded:
    """Read and check one source.

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
    spare
        Options that are used for something else too, so the format need not have them.

    Raises
    ------
    DataError
        If the data has errors.
    UsageError, PathError
        If the request does not fit or the path is not usable.
    """
    side = PendingSource(request, log, skip_bad_files=skip_bad_files)
    side.format = side.find_format()
    if spare:
        known = reading_options(side.format)
        fitting = {k: v for k, v in request.options.items() if k not in spare or k.replace("-", "_") in known}
        side.request = dataclasses.replace(request, options=fitting)
    dataset = side.read(counterpart)
    assert dataset is not None
    if not (len(dataset) or len(dataset.images) or log.errors or request.kind == "det"):
        log.report(NO_IMAGES, request.path)
    return _check(side, dataset, log, skip_bad, check, refuse=refuse)


@dataclasses.dataclass(slots=True)
class KeptTruth:
    """A ground truth that several runs are read against; empty until `load_pair` has read it.

    It stays empty where the ground truth took something from the detections, which other runs may not have.
    """

    side: PendingSource | None = None
    loaded: Loaded | None = None


def load_all(requests: Sequence[Request], log: Log, read: Callable[..., Loaded]) -> list[Loaded]:
    """Read and check several sources that are to become one, one after the other.

    The options of a request need to fit only one of the formats.

    Parameters
    ----------
    read
        `load`, with what is the same for all sources.

    Raises
    ------
    DataError
        If some of them have errors; all have been read then.
    UsageError, PathError
        If a request does not fit or a path is not usable.
    """
    found, failed = [], []
    for request in requests:
        own = log.fresh()
        try:
            found.append(read(request, own, spare=request.spare))
        except DataError as e:
            failed.append(e)
        finally:
            log.extend(own)
    if failed:
        raise DataError("; ".join(e.args[0] for e in failed), log)
    for request in requests:
        spare = {name: value for name, value in request.options.items() if name in request.spare}
        check_shared(spare, [(one.format, "read") for one in found])
    return found


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

    Each side may ask the other for what its own files do not say (image sizes, the images and categories of
    a results file), and two sides of one format are detected together. An empty side takes the other side's
    format. The images of a file that is left out of one side are left out of the other, too. The shared
    options in `spare` are used for something else too, so no format needs to have them. Given the same
    `kept` for several runs, the ground truth is read, checked and reported once.

    Raises
    ------
    DataError
        If one of them has errors.
    UsageError, PathError
        If the requests do not fit or a path is not usable.
    """
    kept = KeptTruth() if kept is None else kept
    sides = (
        kept.side or PendingSource(truth, log.fresh(), skip_bad_files=skip_bad_files),
        PendingSource(detections, log.fresh(), skip_bad_files=skip_bad_files),
    )
    sides[0].log = log.fresh()
    try:
        loaded = _read_pair(sides, skip_bad, check, refuse=refuse, spare=spare, kept=kept)
    finally:
        for side in sides:
            log.extend(side.log)
    if refuse and any(side.left_out.refuses(side.log, skip_bad=skip_bad) for side in sides):
        counts = [(side.request.path, side.log.errors) for side in sides if side.log.errors]
        said = ", ".join(f"{printable(path)}: {plural(n, 'error')}" for path, n in counts)
        raise DataError(f"{said} in the data", log)
    if refuse and skip_bad:
        for side, one in zip(sides, loaded, strict=True):
            _check_left(side, one)
    return loaded


def _read_pair(
    sides: tuple[PendingSource, PendingSource],
    skip_bad: bool,
    check: Check,
    *,
    refuse: bool,
    spare: Collection[str],
    kept: KeptTruth,
) -> tuple[Loaded, Loaded]:
    _find_formats(sides)
    if refuse:
        uses = [(side.format, "read") for side in sides if side.format is not None]
        shared = {**sides[0].request.shared, **sides[1].request.shared}
        check_shared({name: value for name, value in shared.items() if name not in spare}, uses)
    for one, two in (sides, sides[::-1]):
        if one.format is two.format and one.own_options() == two.own_options():
            one.decides_with = two
        one.forgives_split = True
    datasets = []
    for one, two in (sides, sides[::-1]):
        dataset = one.read(functools.partial(_ask, one, two))
        assert dataset is not None
        datasets.append(dataset)
    for one, two in (sides, sides[::-1]):
        if two.log.errors:
            one.log.withdraw(NO_REFERENCE.name)  # the other side was to be it, and is wrong itself
    datasets = [
        without_left_out(own, two.left_out, other)
        for own, two, other in zip(datasets, sides[::-1], datasets[::-1], strict=True)
    ]
    if not any(side.has_option("split") and side.without_split is None for side in sides):
        for side in sides:  # neither has it: the option meant nothing
            if side.without_split is not None:
                side.log.extend(side.without_split)
    _report_swapped(sides, datasets)
    for side, own, other in zip(sides, datasets, datasets[::-1], strict=True):
        if not own.categories.named and other.categories.named and len(other.categories):
            side.log.withdraw(NUMBERED_CLASSES.name)  # the other side names them
    found = _check(sides[1], datasets[1], sides[1].log, skip_bad, check, refuse=False)
    if kept.side is None:
        truth = _check(sides[0], datasets[0], sides[0].log, skip_bad, check, refuse=False)
        if not (sides[0].asked or sides[0].left_out.files or sides[1].left_out.files):
            kept.side, kept.loaded = sides[0], truth
    elif kept.loaded is not None and not sides[1].left_out.files:
        truth = kept.loaded
    else:  # it was reported before
        truth = _check(sides[0], datasets[0], sides[0].log.fresh(), skip_bad, check, refuse=False)
    return truth, found


def _ask(one: PendingSource, two: PendingSource) -> Dataset | None:
    """What side `one` learns from side `two`."""
    one.asked = True
    return two.read_for(one)


def _report_kind(dataset: Dataset, kind: Kind | None, log: Log) -> None:
    """One error in place of one per row where detections were given for ground truth, or the reverse."""
    for row, whole in ((SCORE_UNEXPECTED, ALL_SCORED), (SCORE_MISSING, NO_SCORES)):
        n = log.counts[row.name]
        if n > 1 and not len(dataset):
            first = next((i for i in log.issues if i.code == row.name), None)
            log.withdraw(row.name)
            location = (first.path, first.line, first.pointer) if first else (dataset.path, 0, "")
            log.report(whole, location[0], line=location[1], pointer=location[2], n=n)
    if len(dataset) and kind is not None and dataset.kind != kind:  # what files of a format can only be
        path, line, pointer = dataset.location(0)
        whole = ALL_SCORED if kind == "gt" else NO_SCORES
        log.report(whole, path, line=line, pointer=pointer, n=len(dataset))


def _report_swapped(sides: tuple[PendingSource, PendingSource], datasets: list[Dataset]) -> None:
    """One error for both sides where ground truth and detections changed places."""
    truth, detections = (side.log for side in sides)
    scored = (SCORE_UNEXPECTED.name, ALL_SCORED.name, "results-as-ground-truth")
    scoreless = (SCORE_MISSING.name, NO_SCORES.name)
    if len(datasets[1]) or (len(datasets[0]) and not truth.counts[ALL_SCORED.name]):
        return
    if any(truth.counts[name] for name in scored) and any(detections.counts[name] for name in scoreless):
        truth.withdraw(*scored)
        detections.withdraw(*scoreless)
        path = sides[0].request.path
        truth.report(SIDES_SWAPPED, path, other=sides[1].request.path)


def _check(
    side: PendingSource, dataset: Dataset, log: Log, skip_bad: bool, check: Check, *, refuse: bool
) -> Loaded:
    assert side.format is not None
    wrong = check(dataset, log, reading_options(side.format))
    if refuse and side.left_out.refuses(log, skip_bad=skip_bad):
        raise refusal(log, side.request.path, skip_bad=skip_bad)
    bad = dataset.skipped
    if skip_bad and wrong.any():
        bad += int(np.count_nonzero(wrong))
        dataset = dataset.take(~wrong)
    loaded = Loaded(dataset, side.format, bad, side.source, side.left_out)
    if refuse and skip_bad:
        _check_left(side, loaded)
    return loaded


def _check_left(side: PendingSource, loaded: Loaded) -> None:
    """DataError where leaving out rows with errors leaves no box, or leaves out none."""
    if loaded.bad and not len(loaded.dataset):
        n = loaded.bad
        what = "the only box has an error" if n == 1 else f"all {n} boxes have errors"
        text = f"{what}, so --skip-bad would leave nothing"
    elif not loaded.bad and side.log.errors > loaded.left_out.errors:
        text = "--skip-bad only leaves out rows, and these errors are not in rows"
    else:
        return
    raise DataError(f"{printable(side.request.path)}: {text}", side.log)


def refusal(log: Log, path: str, *, skip_bad: bool = False) -> DataError:
    """The error that refuses data with the errors that `log` holds."""
    text = f"{printable(path)}: {plural(log.errors, 'error')} in the data"
    if skip_bad and log.fatal:
        codes = [name for name in log.counts if CODES[name].severity == "error" and not CODES[name].row]
        text += f"; --skip-bad only leaves out rows, and these affect more than one row: {', '.join(codes)}"
        paths = list(dict.fromkeys(i.path for i in log.issues if i.code in codes and i.path))
        if paths:
            some = ", ".join(map(printable, paths[:3])) + (", ..." if len(paths) > 3 else "")
            whole = "" if all(CODES[name].file for name in codes) else ", or move it out of the source"
            text += f"; correct {some}" + (
                "" if paths == [path] else whole or ", or leave out such files with --skip-bad-files"
            )
    return DataError(text, log)


def reading_options(format_: Format) -> frozenset[str]:
    """The names of the options that a format has for reading."""
    return frozenset(spec.name for spec in option_specs(format_.options) if spec.side in ("read", "both"))


def choose_options(format_: Format, own: Mapping[str, Any], shared: Mapping[str, Any], side: str) -> Any:
    """The options of a format: all of `own`, and of `shared` those that it has for this side."""
    names = {spec.name for spec in option_specs(format_.options) if spec.side in (side, "both")}
    fitting = {name: value for name, value in shared.items() if name.replace("-", "_") in names}
    given = {**fitting, **own}
    paths = {spec.name for spec in option_specs(format_.options) if spec.is_path}
    inputs.name(*(value for name, value in given.items() if name.replace("-", "_") in paths), lookup=True)
    return make_options(format_, given)


def check_shared(shared: Mapping[str, Any], uses: list[tuple[Format, str]]) -> None:
    """UsageError if a shared option fits none of the formats in use; silence would be a surprise."""
    known = {
        spec.name
        for format_, side in uses
        for spec in option_specs(format_.options)
        if spec.side in (side, "both")
    }
    for name in shared:
        if name.replace("-", "_") not in known:
            names = " and ".join(dict.fromkeys(f"{side}ing {f.name}" for f, side in uses)).replace(
                "writeing", "writing"
            )
            advice = ""
            if name == "classes" and any(side == "write" for _, side in uses):
                advice = "; --class-list FILE sets which classes are written, and in which order"
            raise UsageError(f"the option {name.replace('_', '-')!r} has no meaning when {names}{advice}")


class PendingSource:
    """One source on its way to a dataset; read at most once."""

    def __init__(
        self, request: Request, log: Log, *, skip_bad_files: bool = False, options: Any = None
    ) -> None:
        self.request = request
        self.log = log
        self.source = self._open()
        self.format: Format | None = None
        self.decides_with: PendingSource | None = None
        """The other side, where both have one format and the same options."""
        self._decided: Any = None
        """The options with what was decided with the other side, until this side is read."""
        self.forgives_split = False
        """Whether a split that is asked of both sides may be unknown here, where there are no splits."""
        self.without_split: Log | None = None
        """What was reported of the split that is unknown here, if it was forgiven."""
        self._dataset: Dataset | None = None
        self._reading = False
        self._asked_back = False
        """Whether the other side wanted to learn something while this one was being read."""
        self._tried = False
        self._early: Dataset | None = None
        """What was read for the other side, which may be incomplete."""
        self.asked = False
        """Whether the other side was asked for something."""
        self.left_out = LeftOut()
        self._skip_bad_files = skip_bad_files
        self._options = options
        """The options, where they are complete already."""

    def _open(self) -> Source:
        asked = self.request
        return open_source(asked.path, follow_links=asked.follow_links, max_size=asked.max_size)

    def find_format(self) -> Format:
        """The format that the user named, else the one that is detected."""
        if self.request.format is not None:
            return get(self.request.format)
        try:
            return detect(self.source, self.log, flag=self.request.flag)
        except UsageError:
            given = {name.replace("-", "_") for name in (*self.request.options, *self.request.shared)}
            owners = {name: [f for f in FORMATS if name in reading_options(FORMATS[f])] for name in given}
            with_files = {f for f in FORMATS if self.source.with_suffix(*FORMATS[f].suffixes)}
            fitting = [[f for f in found if f in with_files] or found for found in owners.values()]
            meant = {formats[0] for formats in fitting if len(formats) == 1}
            if len(meant) != 1:
                if self.source.is_dir and not self.source.files and not self.source.bad_links:
                    raise PathError(f"{printable(self.source.path)}: this folder contains no files") from None
                raise
        found = FORMATS[meant.pop()]
        self.log.note(
            f"{printable(self.source.path)}: read as {found.name}, the one format with these options"
        )
        return found

    def own_options(self) -> Any:
        """The options for reading, complete."""
        assert self.format is not None
        if self._options is not None:
            return self._options
        return choose_options(self.format, self.request.options, self._shared(), "read")

    def _shared(self) -> Mapping[str, Any]:
        shared = self.request.shared
        if self.without_split is None:
            return shared
        return {name: value for name, value in shared.items() if name != "split"}

    def has_option(self, name: str) -> bool:
        """Whether the format has an option of that name for reading, and it was given to both sides."""
        assert self.format is not None
        known = reading_options(self.format)
        return name in self.request.shared and name not in self.request.options and name in known

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read: no file at all, or none with a byte in it."""
        return not any(self.source.head(file) for file in self.source.files)

    def counterpart(self) -> Dataset | None:
        """What the other side can learn from this one: nothing while it is being read itself."""
        self._asked_back |= self._reading
        return None if self._reading else self._dataset

    def read_for(self, other: PendingSource) -> Dataset | None:
        """The dataset for the other side, which is being read.

        If this side needed the other as well and has errors without it, it is read again when it is its turn:
        images without a size and without objects on one side do not keep its other sizes from the other side.
        """
        if self._tried or self._dataset is not None or self._reading:
            return self._dataset or self._early
        self._tried, incomplete = True, False
        log, self.log, other._asked_back = self.log, self.log.fresh(), False
        try:
            self._early = self.read(other.counterpart)
            incomplete = other._asked_back and bool(self.log.errors or self.left_out.files)
        except DataError:
            incomplete = other._asked_back
            if not incomplete:
                raise
        finally:
            own, self.log = self.log, log
            if incomplete:
                self._dataset, self.left_out, self.without_split = None, LeftOut(), None
                self.source = self._open()  # with the files that were left out
            else:
                log.extend(own)
        return self._early

    def read(self, counterpart: Callable[[], Dataset | None] | None) -> Dataset | None:
        """The dataset; None if it is asked for while it is being read."""
        if self._dataset is not None:
            return self._dataset
        if self._reading:
            return None
        assert self.format is not None
        self._reading = True
        try:
            dataset = self._read_good_files(counterpart) if self._skip_bad_files else self._read(counterpart)
        finally:
            self._reading = False
        options = self.own_options()
        report_unread(self.source, self.log)
        self.source.forget()
        dataset = dataclasses.replace(dataset, path=self.source.path)
        if "order" not in self.format.adapted(options).keeps:
            categories = dataclasses.replace(dataset.categories, ordered=False)
            dataset = dataclasses.replace(dataset, categories=categories)
        _report_kind(dataset, self.request.kind, self.log)
        self._dataset = dataset
        return self._dataset

    def _read_good_files(self, counterpart: Callable[[], Dataset | None] | None) -> Dataset:
        log = self.log

        def read(own: Log) -> Dataset:
            self.log = own
            return self._read(counterpart)

        try:
            dataset, self.left_out = read_good_files(self.source, log, read)
        finally:
            self.log = log
        for path in self.left_out.files:
            log.note(f"{printable(path)}: left out, with its images (--skip-bad-files)")
        return dataset

    def _read(self, counterpart: Callable[[], Dataset | None] | None) -> Dataset:
        if self.source.is_dir and not self.source.files and not self.source.bad_links:
            if self.request.kind != "det":
                raise PathError(f"{printable(self.source.path)}: this folder contains no files")
            self.log.note(f"{printable(self.source.path)}: an empty folder, so there are no detections")
            return self._builder(counterpart).build()
        if not (self.forgives_split and self.has_option("split")):
            return self._read_with(counterpart, self.log)
        first = self.log.fresh()
        dataset = self._read_with(counterpart, first)
        if first.counts[UNKNOWN_SPLIT.name]:
            # Only where the source has no splits at all is it taken whole.
            self.without_split = first
            self.source.forget()
            whole = self.log.fresh()
            again = self._read_with(counterpart, whole)
            wanted = self.request.shared["split"]
            if set(again.images.split) <= {"", wanted}:
                whole.note(f"{printable(self.source.path)}: there are no splits, so everything is read")
                self.log.extend(whole)
                return again
            self.without_split = None
        self.log.extend(first)
        return dataset

    def _builder(self, counterpart: Callable[[], Dataset | None] | None) -> Builder:
        builder = Builder(counterpart)
        builder.kind = self.request.kind
        return builder

    def _decided_options(self, log: Log) -> Any:
        """The options, with what both sides decide together where the format does that."""
        assert self.format is not None
        options, other, decide = self.own_options(), self.decides_with, self.format.decide_together
        if decide is None or other is None:
            return options
        decided, self._decided = self._decided, None
        if decided is None:
            self.asked = True
            decided, theirs = decide(self.source, other.source, log, options)
            if other._dataset is None:  # noqa: SLF001 -- one of this class
                other._decided = theirs  # noqa: SLF001
        return decided

    def _read_with(self, counterpart: Callable[[], Dataset | None] | None, log: Log) -> Dataset:
        assert self.format is not None
        builder, options = self._builder(counterpart), self._decided_options(log)
        rule: NameRule | None = getattr(options, "names", None)
        # What becomes infinite is checked afterwards.
        with np.errstate(over="ignore", invalid="ignore"), shortened(rule):
            self.format.read(self.source, builder, log, options)
        dataset = builder.build()
        return dataset if rule is None else _shorten(dataset, self.source.path, rule, log)


def _shorten(dataset: Dataset, source: str, rule: NameRule, log: Log) -> Dataset:
    """The dataset with shortened image names; as it is where two would be equal, which is reported."""
    names = dataset.images.name
    short = tuple(map(rule, names))
    first: dict[str, int] = {}
    errors = log.errors
    for row, name in enumerate(short):
        path, line, pointer = dataset.image_place(row)
        if (reason := refuse_name(name)) is not None:  # of names that no reader has judged
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=names[row], reason=reason)
        elif (other := first.setdefault(name, row)) != row:
            one, two = names[other], names[row]
            log.report(SAME_SHORT_NAME, path, line=line, pointer=pointer, first=one, second=two, value=name)
    if log.errors > errors:
        return dataset
    changed = [i for i, name in enumerate(short) if name != names[i]]
    what = f"no image name is changed by --names {printable(str(rule))}"
    if changed:
        old, new = names[changed[0]], short[changed[0]]
        what = f"{plural(len(changed), 'image name is', 'image names are')} shortened, {old!r} to {new!r}"
    log.note(f"{printable(source)}: {what}{', ...' if len(changed) > 1 else ''}")
    return dataclasses.replace(dataset, images=dataclasses.replace(dataset.images, name=short))


def report_unread(source: Source, log: Log) -> None:
    """Report links that are not followed, and note hidden files."""
    source.report_links(log)
    if source.hidden:
        n = len(source.hidden)
        what = plural(n, "hidden file or folder is", "hidden files and folders are")
        log.note(
            f"{printable(source.path)}: {what} not read ({printable(source.hidden[0])}"
            f"{', ...' if n > 1 else ''})"
        )


def _find_formats(sides: tuple[PendingSource, PendingSource]) -> None:
    undecided: list[tuple[PendingSource, UsageError | PathError]] = []
    for side in sides:
        try:
            side.format = side.format or side.find_format()
        except (UsageError, PathError) as e:
            if side.request.format is not None or not side.is_empty:
                raise
            undecided.append((side, e))
    if len(undecided) == 2:
        raise undecided[0][1]
    for side, _ in undecided:
        (other,) = (s for s in sides if s is not side)
        assert other.format is not None
        fitting = other.format
        if side.source.files and not side.source.with_suffix(*fitting.suffixes):
            fitting = next(
                (f for f in FORMATS.values() if not f.single and side.source.with_suffix(*f.suffixes)),
                fitting,
            )
        side.format = fitting
        side.log.note(f"{printable(side.source.path)}: it is empty, so it is read as {fitting.name}")
