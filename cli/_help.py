"""The help of the commands: which option stands under which heading, and what ``-h`` shows of them.

Every option of every command has one heading, given here by its name. An option without one is shown at the
end, and a test fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

READING = "Reading"
SIDES = {
    "gt": "Reading the ground truth",
    "det": "Reading the detections",
    "from": "Reading the source",
    "to": "Writing the target",
    "a": "Reading A",
    "b": "Reading B",
    "old": "Reading OLD",
    "new": "Reading NEW",
}
"""The heading for the options of one side."""
FORMATS_HEADING = "Format options"

METAVARS = {"image_size": "WxH", "split": "NAME", "sep": "CHAR", "names": "RULE"}
"""What stands for the value of an option of formats in the help, by its name, where it is no plain text."""


def _tuples(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(names.split()) for key, names in table.items()}


GROUPS: dict[str, tuple[str, ...]] = _tuples(
    {
        "What to evaluate": "only_classes only_images extra_images merge_runs rename score_min "
        "class_agnostic ignore_regions image_labels hierarchy",
        "What counts as equal": "iou tolerance",
        "Protocol": "protocol iou iou_type sigmas max_dets recall_at area interpolation pixels "
        "keep_difficult at_score at_scores",
        "Memory and clusters": "memory cluster scratch rows_per_task",
        "Analysis": "analyze diagnose confusion ci replicates seed level bootstrap_areas tags thresholds "
        "save_thresholds",
        "Gates": "fail_under fail_on_regression require_no_worse fail_on_change",
        "What to convert": "only_classes drop rename class_list category_ids clip shapes keep_groups strict",
        "Merge, sample and split": "same_image min_box min_area drop_empty sample split_into folds group_by "
        "no_stratify seed",
        "Checks": "select ignore strict tolerance explained against",
        "Repair": "fix out to dry_run",
        "Output": "output wide markdown save_to plots report report_images report_size report_title language "
        "open_ overwrite dry_run quiet verbose max_errors max_per_code",
        READING: "format_ from_ kind gt skip_bad skip_bad_files encoding follow_links max_size",
        SIDES["gt"]: "gt_format gt_encoding",
        SIDES["det"]: "det_format det_encoding",
        SIDES["a"]: "a_format",
        SIDES["b"]: "b_format",
        SIDES["old"]: "old_format",
        SIDES["new"]: "new_format",
        SIDES["from"]: "from_",
        SIDES["to"]: "to",
    }
)
"""The options of each heading, by the names of their parameters, in the order in which they are shown.

A name may stand under several headings: a command takes those of `HEADINGS`.
"""

_OF_TWO = ("What to evaluate", "Protocol", "Analysis", "Gates", "Output", READING, SIDES["gt"], SIDES["det"])
HEADINGS: dict[str, tuple[str, ...]] = {
    "eval": (*_OF_TWO, "Memory and clusters"),
    "compare": _OF_TWO,
    "convert": ("What to convert", "Merge, sample and split", SIDES["from"], SIDES["to"], "Output", READING),
    "validate": ("Checks", "Repair", "Output", READING, SIDES["gt"], SIDES["det"]),
    "agree": ("Protocol", "Output", READING, SIDES["a"], SIDES["b"]),
    "diff": ("What counts as equal", "Gates", "Output", READING, SIDES["old"], SIDES["new"]),
}
"""The headings of a command, in order; other commands have all in the order of `GROUPS`."""

COMMON: dict[str, tuple[str, ...]] = _tuples(
    {
        "eval": "protocol iou iou_type only_classes only_images analyze confusion fail_under output save_to "
        "report gt_format det_format images",
        "compare": "protocol iou tags fail_on_regression require_no_worse output save_to report gt_format "
        "det_format images",
        "convert": "from_ to images image_size classes rename drop class_list clip split_into copy_images "
        "skip_bad overwrite dry_run",
        "validate": "format_ images gt against output select ignore strict explained fix out report",
        "stats": "format_ images image_size output plots report",
        "agree": "iou output save_to report images a_format b_format",
        "diff": "iou tolerance fail_on_change output save_to report images old_format new_format",
        "show": "report images report_images open_ overwrite format_ gt",
    }
)
"""What ``-h`` shows of a command, by the names of the parameters; those of formats by their option's name.

Of a command that is not here it shows everything.
"""


def heading_of(command: str, name: str) -> str | None:
    """The heading of an option, by the names of command and parameter; None if it has none."""
    if name.startswith("fo__") or name == "format_option_texts":
        return FORMATS_HEADING
    return next((h for h in HEADINGS.get(command, tuple(GROUPS)) if name in GROUPS[h]), None)


def common(command: str, options: Sequence[click.Option]) -> list[click.Option]:
    """The options that ``-h`` shows, in order."""
    by_name = {(option.name or "").removeprefix("fo____"): option for option in options}
    return [by_name[name] for name in COMMON[command] if name in by_name]


def groups(command: str, options: Sequence[click.Option]) -> Iterator[tuple[str, list[click.Option]]]:
    """Heading and options of a command, in order; at the end, without a heading of their own, the others."""
    of: dict[str | None, list[click.Option]] = {}
    for option in options:
        of.setdefault(heading_of(command, option.name or ""), []).append(option)
    for heading in HEADINGS.get(command, tuple(GROUPS)):
        names = GROUPS[heading]
        if own := of.get(heading):
            yield heading, sorted(own, key=lambda option: names.index(option.name or ""))
    if own := of.get(None):
        yield "Other options", own
    if own := of.get(FORMATS_HEADING):
        yield FORMATS_HEADING, own
