"""``odm eval`` of detections that do not fit into memory: ``--memory``, ``--cluster``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import click

from odm.cli._common import TargetPath
from odm.cli._print import say
from odm.converters import Request
from odm.evaluate import Evaluation, Protocol
from odm.issues import Log, UsageError

WHOLE = (
    ("save_to", "--save"),
    ("plots", "--plots"),
    ("report", "--report"),
    ("analyze", "--analyze"),
    ("confusion", "--confusion"),
    ("ci", "--ci"),
    ("thresholds", "--thresholds"),
    ("at_scores", "--at-scores"),
    ("class_agnostic", "--class-agnostic"),
    ("rename", "--rename"),
    ("skip_bad", "--skip-bad"),
    ("skip_bad_files", "--skip-bad-files"),
)
"""Options that look at all detections at once."""


def parts_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that have detections read a part at a time."""
    for option in reversed(
        (
            click.option(
                "--memory",
                metavar="SIZE",
                help="Read DET in parts, using about this much memory: 2GB (Parquet and COCO results).",
            ),
            click.option(
                "--cluster",
                metavar="ADDRESS",
                help="Process DET on the workers of a Dask scheduler: tcp://host:8786 (extra [cluster]).",
            ),
            click.option(
                "--scratch",
                type=TargetPath(),
                metavar="DIR",
                help="Folder for intermediate files of --memory and --cluster; they are deleted at the end.",
            ),
            click.option(
                "--rows-per-task", type=click.IntRange(1), metavar="N", help="Number of detections per task."
            ),
        )
    ):
        command = option(command)
    return command


def in_parts(given: dict[str, Any], rules: Sequence[Protocol]) -> bool:
    """Whether the detections are read a part at a time. UsageError if something else forbids it."""
    if given["memory"] is None and given["cluster"] is None:
        for name, flag in (("scratch", "--scratch"), ("rows_per_task", "--rows-per-task")):
            if given[name] is not None:
                raise UsageError(f"{flag} is used with --memory or --cluster only")
        return False
    if given["cluster"] is not None and given["scratch"] is None:
        raise UsageError("--cluster needs --scratch DIR: a folder that all workers share")
    for name, flag in WHOLE:
        if given[name]:
            raise UsageError(f"{flag} needs all detections at once: leave it out, or --memory and --cluster")
    from odm.evaluate.parts.shards import check_rules

    check_rules(rules)
    return True


def evaluate_in_parts(
    truth: Request,
    detections: Request,
    given: dict[str, Any],
    log: Log,
    arguments: dict[str, Any],
) -> Evaluation:
    """Evaluate a part of the detections at a time, with `arguments` of `evaluate`."""
    arguments.pop("class_agnostic")
    from odm.evaluate.parts.job import dask_executor
    from odm.sharding import evaluate_shards, parse_memory

    try:
        memory = None if given["memory"] is None else parse_memory(given["memory"])
    except ValueError as e:
        raise UsageError(f"--memory {given['memory']}: {e}") from None
    tell: Callable[[str], None] = (lambda _: None) if given["quiet"] else (lambda text: say(f"note: {text}"))
    with contextlib.ExitStack() as stack:
        executor = None
        if given["cluster"] is not None:
            executor = stack.enter_context(dask_executor(given["cluster"], tell))
        return evaluate_shards(
            truth,
            detections,
            executor=executor,
            scratch=given["scratch"],
            rows_per_task=given["rows_per_task"],
            memory=memory,
            log=log,
            tell=tell,
            **arguments,
        )
