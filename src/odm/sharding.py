"""Evaluate detections that do not fit into memory, in parts that this process or others read."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec
from msgspec.structs import replace

from odm import checks
from odm.converters.load import load
from odm.converters.pending import PendingSource, Request, choose_options, reading_options, report_unread
from odm.evaluate import Evaluation, Protocol
from odm.evaluate.parts.cluster import Inline
from odm.evaluate.parts.shards import ROWS_PER_TASK, evaluate_parts, rules_in_parts
from odm.files import Scratch, is_address
from odm.formats import FORMATS, get, option_specs
from odm.issues import Log, UsageError, plural, printable, spell
from odm.tables import Dataset


def evaluate_shards(
    truth: str | Request | Dataset,
    detections: str | Request,
    protocol: str | Protocol | Sequence[str | Protocol] | None = None,
    *,
    executor: Executor | None = None,
    scratch: str | None = None,
    rows_per_task: int | None = None,
    memory: int | None = None,
    is_default: bool = False,
    log: Log | None = None,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Measure detections in many files, or in row groups of Parquet, without holding them all in memory.

    The numbers are those of `odm.evaluate.evaluate`, bit by bit.

    Parameters
    ----------
    truth
        The ground truth: a path, a request, or a dataset. It is held in the memory of this process.
    detections
        A file or folder in a format that can be read a part at a time: Parquet, or results of COCO.
    protocol, is_default, options
        As `odm.evaluate.evaluate` takes them.
    executor
        Runs the tasks: any executor of `concurrent.futures`, or of an engine, such as
        ``Client(...).get_executor(pure=False, retries=2)`` of Dask. Without one they run here, one by one.
    scratch
        A folder that all processes of the executor share, or an address of an object store, for about 25
        bytes per detection and protocol; it is left as it was. Without it the system's folder for temporary
        files.
    rows_per_task
        About how many detections a task holds. A class with more is ranked in ranges of its scores.
    memory
        Bytes that a process may take; `rows_per_task` follows from it.
    log
        Takes the issues; a new one if it is None.
    tell
        Called with each message about the run itself, which is no part of its result.

    Raises
    ------
    DataError
        If the ground truth or parts of the detections have errors, all of which are in its log.
    UsageError
        If the options do not fit together, or the memory is too small.
    PathError
        If a source or the scratch folder cannot be used.

    Examples
    --------
    >>> evaluate_shards("gt.json", "runs/big.json", "coco", memory=2**31).summary  # doctest: +SKIP
    """
    log = Log() if log is None else log
    rules = rules_in_parts(protocol, **options)
    store = Scratch.below(scratch)
    try:
        if isinstance(truth, str):
            truth = Request(path=truth, kind="gt")
        if isinstance(truth, Request):
            truth = load(truth, log).dataset
        if isinstance(detections, str):
            detections = Request(path=detections, kind="det")
        pending = PendingSource(detections, log)
        base_bytes = BASE + pending.find_format().parts_overhead  # for Python and libraries
        # What this process takes before it reads any detection.
        n_bytes = base_bytes + len(truth) * BYTES_PER_TRUTH + len(truth.images) * BYTES_PER_IMAGE
        n_fit = None if memory is None else _count_rows_within(memory, base_bytes, n_bytes, rows_per_task)
        rows = rows_per_task or n_fit or ROWS_PER_TASK
        parts, unread = divide_detections(pending, log, rows, with_absolute_paths=executor is not None)
        # Parts are only about as long as asked, so one is refused from twice the number on.
        largest = max(parts, key=lambda part: part.rows, default=None)
        if memory is not None and n_fit is not None and largest is not None and largest.rows > 2 * n_fit:
            raise UsageError(
                f"{printable(largest.name)} is read as a whole and takes about "
                f"{size(largest.rows * BYTES_PER_ROW)}, more than {spell('memory')} {size(memory)} leaves; "
                f"odm convert {printable(largest.name)} parts.parquet writes it in row groups, which are "
                "read one by one"
            )
        if tell is not None:
            rows_at_once = max(largest.rows if largest else 0, min(rows, sum(part.rows for part in parts)))
            task_bytes = rows_at_once * BYTES_PER_ROW
            takes = f"this takes up to about {size(n_bytes + task_bytes)}"
            if executor is not None:
                worker_bytes = base_bytes + task_bytes
                takes = f"a worker takes up to about {size(worker_bytes)}, this process {size(n_bytes)}"
            tell(f"the detections are read in {plural(len(parts), 'part')}; {takes}")
        return evaluate_parts(
            truth,
            parts,
            rules,
            executor=executor or Inline(),
            store=store,
            path=detections.path,
            unread=unread,
            rows_per_task=rows,
            log=log,
            is_default=is_default or protocol is None,
            **options,
        )
    finally:
        store.remove()


def _count_rows_within(memory: int, base_bytes: int, n_bytes: int, rows_per_task: int | None) -> int:
    """Return how many detections fit into `memory` beside `n_bytes`, `base_bytes` of them for libraries.

    Raises UsageError if these are too few, or fewer than `rows_per_task`.
    """
    n_rows = (memory - n_bytes) // BYTES_PER_ROW
    if n_rows < FEWEST_ROWS:
        least_bytes = n_bytes + FEWEST_ROWS * BYTES_PER_ROW  # rounded up below: -(-a // b)
        raise UsageError(
            f"{spell('memory')} {size(memory)} is too little: give at least {-(-least_bytes // 10**6)} MB; "
            f"{size(base_bytes)} of that is for Python and its libraries, the rest for the ground truth and "
            "some detections"
        )
    if rows_per_task is not None and rows_per_task > n_rows:
        raise UsageError(
            f"{spell('rows_per_task')} {rows_per_task}: {spell('memory')} {size(memory)} has room for "
            f"{n_rows} at a time"
        )
    return n_rows


class DetectionPart(msgspec.Struct, frozen=True):
    """Some rows of a source of detections; small enough to be sent to the process that reads them."""

    name: str
    """The path of the file, as it is shown."""
    format: str
    rows: int
    options: Any
    request: Request

    def read(self, truth: Callable[[], Dataset], *, check: bool) -> tuple[Dataset, Log]:
        """Read the detections, whose ids are those of `truth`, and their log; `check` runs all checks."""
        log = Log()
        pending = PendingSource(self.request, log, options=self.options)
        pending.format = get(self.format)
        dataset = pending.read(truth)
        assert dataset is not None
        if check:
            checks.run(dataset, log, reading_options(pending.format))
        return dataset, log


def divide_detections(
    pending: PendingSource, log: Log, rows: int, *, with_absolute_paths: bool = False
) -> tuple[list[DetectionPart], Log]:
    """Divide a source of detections into parts of about `rows` rows, in the order of its files.

    Use `with_absolute_paths` for processes that run in other folders. The log that is returned says what is
    not read; its messages belong after those about the parts.

    Raises
    ------
    UsageError
        If its format cannot be read a part at a time.
    """
    request, format_ = pending.request, pending.find_format()
    if format_.parts is None:
        able = " and ".join(f.name for f in FORMATS.values() if f.parts is not None)
        raise UsageError(
            f"{printable(request.path)} is {format_.name}, which cannot be read a part at a time ({able} "
            f"can): convert it, as in odm convert --to parquet"
        )
    source = pending.source
    options = choose_options(format_, request.options, request.shared, "read")
    parts = []
    for part in format_.parts(source, options, rows, log):
        name = path = source.full(part.file)
        format_options = part.options
        if with_absolute_paths:  # each path as it is known in every folder
            path = _make_absolute(name)
            path_names = [s.name for s in option_specs(type(format_options)) if s.is_path]
            path_options = {key: getattr(format_options, key) for key in path_names}
            absolute_paths = {key: _make_absolute(value) for key, value in path_options.items() if value}
            format_options = dataclasses.replace(format_options, **absolute_paths)
        part_request = replace(request, path=path)
        parts.append(DetectionPart(name, format_.name, part.rows, format_options, part_request))
    unread = Log()
    report_unread(source, unread)
    return parts, unread


def _make_absolute(path: str) -> str:
    """Return a path as it is known in every folder; an address stays."""
    return path if is_address(path) else os.path.abspath(path)


BYTES_PER_ROW = 250
"""Bytes that a detection takes while it is matched, as measured."""
BASE = 160 * 10**6
"""Bytes that a process takes for its libraries and for facts about all parts."""
BYTES_PER_TRUTH, BYTES_PER_IMAGE = 250, 300
FEWEST_ROWS = 20_000


def parse_memory(text: str) -> int:
    """Parse ``2GB``, ``500MB`` or ``1.5GiB`` into bytes. Raises ValueError for anything else."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT])(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError("give a number with a unit, as in 2GB or 500MB")
    unit = 1024 if match[3] else 1000
    return int(float(match[1]) * unit ** ("KMGT".index(match[2].upper()) + 1))  # K: unit ** 1, M: unit ** 2


def size(n: int) -> str:
    """Format a number of bytes: ``2.1 GB``, ``500 MB``."""
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB"
