"""Reading what the user named: find the format, read, judge. All three jobs come here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import checks
from odm.files import MAX_SIZE, Source
from odm.formats import FORMATS, Format, detect, get, make_options, option_specs
from odm.issues import DataError, Log, PathError, UsageError, printable
from odm.tables import Builder, Dataset, Kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to read and how: the words of a user about one source.

    ``options`` go to the format and must be its own; ``shared`` go to it where it has them.
    """

    path: str
    format: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    shared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    kind: Kind | None = None
    flag: str = "--format"
    """How the user names the format by hand; for messages."""
    follow_links: bool = False
    max_size: int = MAX_SIZE


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A dataset, its format, and how many of its rows were bad and left out on request."""

    dataset: Dataset
    format: Format
    bad: int = 0
    source: Source | None = None


Check = Callable[[Dataset, Log], NDArray[np.bool_]]
"""Judges a dataset: reports to the log and answers the (n,) mask of the boxes that have an error."""


def load(
    request: Request,
    log: Log,
    *,
    skip_bad: bool = False,
    other: Callable[[], Dataset | None] | None = None,
    check: Check = checks.run,
    refuse: bool = True,
) -> Loaded:
    """Read and judge one source.

    Parameters
    ----------
    skip_bad
        Leave out the rows that have errors instead of refusing the data.
    other
        Gives the dataset that this one refers to, such as the ground truth of a results file.
    check
        How the dataset is judged.
    refuse
        Whether errors raise; if not, the log alone tells them, and what could be read is answered.

    Raises
    ------
    DataError
        If the data has errors.
    UsageError, PathError
        If the request does not fit or the path is not usable.
    """
    side = _Side(request, log)
    side.format = side.find_format()
    dataset = side.read(other)
    assert dataset is not None
    return _judge(side, dataset, log, skip_bad, check, refuse=refuse)


def load_pair(
    truth: Request,
    detections: Request,
    log: Log,
    *,
    skip_bad: bool = False,
    check: Check = checks.run,
    refuse: bool = True,
) -> tuple[Loaded, Loaded]:
    """Read and judge the two sides of an evaluation.

    Each side may ask the other for what its own files do not say (image sizes, the images and categories of
    a results file), and two sides of one format are sniffed together. An empty side takes the other side's
    format.

    Raises
    ------
    DataError
        If one of them has errors.
    UsageError, PathError
        If the requests do not fit or a path is not usable.
    """
    sides = _Side(truth, log), _Side(detections, log)
    _find_formats(sides)
    for one, two in (sides, sides[::-1]):
        if one.format is two.format and one.own_options() == two.own_options():
            one.peers = [two.source]
    datasets = []
    for one, two in (sides, sides[::-1]):
        dataset = one.read(lambda two=two, one=one: two.read(one.answer))  # type: ignore[misc]
        assert dataset is not None
        datasets.append(dataset)
    return (
        _judge(sides[0], datasets[0], log, skip_bad, check, refuse=False),
        _judge(sides[1], datasets[1], log, skip_bad, check, refuse=refuse),
    )


def _judge(side: _Side, dataset: Dataset, log: Log, skip_bad: bool, check: Check, *, refuse: bool) -> Loaded:
    assert side.format is not None
    wrong = check(dataset, log)
    if refuse and (log.fatal or (log.errors and not skip_bad)):
        raise refusal(log, side.request.path)
    bad = dataset.skipped
    if skip_bad and wrong.any():
        bad += int(np.count_nonzero(wrong))
        dataset = dataset.take(~wrong)
    return Loaded(dataset, side.format, bad, side.source)


def refusal(log: Log, path: str) -> DataError:
    """The error that refuses data with the errors that `log` holds."""
    n = log.errors
    return DataError(f"{printable(path)}: {n} error{'s' if n != 1 else ''} in the data", log)


def choose_options(format_: Format, own: Mapping[str, Any], shared: Mapping[str, Any], side: str) -> Any:
    """The options of a format: all of `own`, and of `shared` those that it has for this side."""
    names = {spec.name for spec in option_specs(format_.options) if spec.side in (side, "both")}
    fitting = {name: value for name, value in shared.items() if name.replace("-", "_") in names}
    return make_options(format_, {**fitting, **own})


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
            raise UsageError(f"the option {name.replace('_', '-')!r} has no meaning when {names}")


class _Side:
    """One source on its way to a dataset; read at most once."""

    def __init__(self, request: Request, log: Log) -> None:
        self.request = request
        self.log = log
        self.source = Source(request.path, follow_links=request.follow_links, max_size=request.max_size)
        self.format: Format | None = None
        self.peers: list[Source] = []
        self._dataset: Dataset | None = None
        self._reading = False

    def find_format(self) -> Format:
        if self.request.format is not None:
            return get(self.request.format)
        return detect(self.source, self.log, flag=self.request.flag)

    def own_options(self) -> Any:
        assert self.format is not None
        return choose_options(self.format, self.request.options, self.request.shared, "read")

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read: no file at all, or none with a byte in it."""
        return not any(self.source.head(file) for file in self.source.files)

    def answer(self) -> Dataset | None:
        """What this side can tell the other: nothing while it is being read itself."""
        return None if self._reading else self._dataset

    def read(self, other: Callable[[], Dataset | None] | None) -> Dataset | None:
        """The dataset; None if it is asked for while it is being read."""
        if self._dataset is not None:
            return self._dataset
        if self._reading:
            return None
        assert self.format is not None
        options = self.own_options()
        builder = Builder(other)
        builder.kind = self.request.kind
        builder.peers = list(self.peers)
        self._reading = True
        try:
            if self.source.is_dir and not self.source.files and not self.source.bad_links:
                if self.request.kind != "det":
                    raise PathError(f"{printable(self.source.path)}: there is no file in this folder")
                self.log.note(f"{printable(self.source.path)}: an empty folder, so there are no detections")
            else:
                self.format.read(self.source, builder, self.log, options)
        finally:
            self._reading = False
        self.source.report_links(self.log)
        if self.source.hidden:
            n = len(self.source.hidden)
            what = "1 hidden file or folder is" if n == 1 else f"{n} hidden files and folders are"
            self.log.note(
                f"{printable(self.source.path)}: {what} not read ({printable(self.source.hidden[0])}"
                f"{', ...' if n > 1 else ''})"
            )
        self.source.memo.clear()
        dataset = dataclasses.replace(builder.build(), path=self.source.path)
        if "order" not in self.format.adapted(options).keeps:
            categories = dataclasses.replace(dataset.categories, ordered=False)
            dataset = dataclasses.replace(dataset, categories=categories)
        self._dataset = dataset
        return self._dataset


def _find_formats(sides: tuple[_Side, _Side]) -> None:
    undecided: list[tuple[_Side, UsageError]] = []
    for side in sides:
        try:
            side.format = side.find_format()
        except UsageError as e:
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
        side.log.note(
            f"{printable(side.source.path)}: there is nothing in it, so it is taken as {fitting.name}"
        )
