"""The parts of detections that are too many to be read at once: what they are, and how each is read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from odm import checks
from odm.converters.pending import PendingSource, Request, choose_options, reading_options, report_unread
from odm.files import is_address
from odm.formats import FORMATS, get, option_specs
from odm.issues import Log, UsageError, printable
from odm.tables import Dataset


@dataclasses.dataclass(frozen=True, slots=True)
class DetectionPart:
    """Some rows of a source of detections; small, and sent to the process that reads them."""

    name: str
    """The path of the file, as it is shown."""
    format: str
    rows: int
    options: Any
    request: Request

    def read(self, truth: Callable[[], Dataset], *, check: bool) -> tuple[Dataset, Log]:
        """The detections and what is wrong with them; `truth` has the images and classes they may mean."""
        log = Log()
        pending = PendingSource(self.request, log, options=self.options)
        pending.format = get(self.format)
        dataset = pending.read(truth)
        assert dataset is not None
        if check:
            checks.run(dataset, log, reading_options(pending.format))
        return dataset, log


def detection_parts(
    request: Request, log: Log, rows: int, *, elsewhere: bool = False
) -> tuple[list[DetectionPart], Log]:
    """The parts of a source of detections, in the order of its files, with about `rows` rows each.

    With `elsewhere`, processes that run in other folders can read them. The log that is
    returned says what is not read; its messages belong after those about the parts.

    Raises
    ------
    UsageError
        If its format cannot be read a part at a time.
    """
    pending = PendingSource(request, log)
    format_ = pending.find_format()
    if format_.parts is None:
        able = " and ".join(f.name for f in FORMATS.values() if f.parts is not None)
        raise UsageError(
            f"{printable(request.path)} is {format_.name}, which cannot be read a part at a time ({able} "
            f"can): convert it, as in odm convert --to parquet"
        )
    source = pending.source
    options = choose_options(format_, request.options, request.shared, "read")
    parts = format_.parts(source, options, rows, log)
    unread = Log()
    report_unread(source, unread)

    def part(file: str, rows: int, options: Any) -> DetectionPart:
        name = source.full(file)
        path = name
        if elsewhere:
            path, options = _absolute(name), _with_absolute_paths(options)
        return DetectionPart(name, format_.name, rows, options, dataclasses.replace(request, path=path))

    return [part(one.file, one.rows, one.options) for one in parts], unread


def _absolute(path: str) -> str:
    return path if is_address(path) else os.path.abspath(path)


def _with_absolute_paths(options: Any) -> Any:
    """The options of a format, each path among them as it is known in every folder."""
    given = {spec.name: getattr(options, spec.name) for spec in option_specs(type(options)) if spec.is_path}
    changes = {name: _absolute(path) for name, path in given.items() if path}
    return dataclasses.replace(options, **changes) if changes else options


def largest(parts: Sequence[DetectionPart]) -> DetectionPart | None:
    """The part with the most rows."""
    return max(parts, key=lambda part: part.rows, default=None)
