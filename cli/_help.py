"""The help of the commands: the order of headings and options, and what ``-h`` shows of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import click

from odm.verbs.options import DET, GT, HEADINGS, NEW, OLD, SOURCE, TARGET, A, B, Options

SIDES = {"gt": GT, "det": DET, "from": SOURCE, "to": TARGET, "a": A, "b": B, "old": OLD, "new": NEW}
"""The heading for the options of one side."""
FORMATS_HEADING = "Format options"
TEXTS = "format_option_texts"
"""The name of the parameter of ``-O``."""

METAVARS = {"image_size": "WxH", "split": "NAME", "sep": "CHAR", "names": "RULE"}
"""What stands for the value of an option of formats in the help, by its name, where it is no plain text."""


def select_common(record: type[Options], flags: Sequence[click.Option]) -> list[click.Option]:
    """Return copies of the options that ``-h`` shows, in order, none hidden.

    They are named in `record.common`; ``gt_split`` there is the option ``split`` of formats, for the side gt.
    """
    # "fo__gt__split" -> "gt_split", "fo____split" -> "split"; other names stay as they are.
    names = ((flag.name or "").removeprefix("fo__").replace("__", "_").lstrip("_") for flag in flags)
    by_name = dict(zip(names, flags, strict=True))
    common_flags = [copy.copy(by_name[name]) for name in record.common if name in by_name]
    for flag in common_flags:
        flag.hidden = False
    return common_flags


def group_by_heading(flags: Sequence[click.Option]) -> Iterator[tuple[str, list[click.Option]]]:
    """Yield each heading and its options, in order; at the end other options, and those of formats."""
    by_heading: dict[str, list[click.Option]] = {}
    for flag in flags:
        is_format_option = (flag.name or "").startswith("fo__") or flag.name == TEXTS
        heading = FORMATS_HEADING if is_format_option else getattr(flag, "heading", "Other options")
        by_heading.setdefault(heading, []).append(flag)
    for heading in (*HEADINGS, "Other options", FORMATS_HEADING):
        if heading in by_heading:
            yield heading, by_heading[heading]
