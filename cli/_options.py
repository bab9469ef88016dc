"""How options are declared, and those that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from odm.cli._messages import PER_CODE, PER_CODE_VALIDATE, SHOWN
from odm.files import MAX_SIZE
from odm.formats import FORMATS, WRITTEN
from odm.issues import hint

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # no generic class before click 8.2
    _Choice = click.Choice

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def option(flag: str, text: str, *names: str, of: Any = None, **settings: Any) -> Option:
    """An option, as its help shows it: ``--save DIR``, and what it does.

    `of` is the type of its value; `names` are a short flag or the name of the argument. A default is shown,
    unless `settings`, which are click's, say otherwise.
    """
    flag, _, value = flag.partition(" ")
    settings.setdefault("show_default", settings.get("default") not in (None, ""))
    return click.option(flag, *names, metavar=value or None, type=of, help=text, **settings)


def switch(flag: str, text: str, *names: str, **settings: Any) -> Option:
    """An option without a value."""
    return click.option(flag, *names, is_flag=True, help=text, **settings)


def choice(flag: str, words: Iterable[str], text: str, **settings: Any) -> Option:
    """An option whose value is one of some words."""
    return option(flag, text, of=click.Choice(list(words)), **settings)


def all_of(*options: Option) -> Option:
    """Several options as one decorator, in this order."""

    def decorate(function: Command) -> Command:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def number_of_bytes(text: str | int) -> int:
    """The number that ``500M`` or ``2G`` means."""
    match = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)i?B?", str(text), re.IGNORECASE | re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is not a size such as 500M or 2G")
    return int(match[1]) * _SIZES[match[2].upper()]


def complete_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The formats that begin so, for the shell."""
    del ctx, param
    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The formats that begin so and are written, for the shell."""
    return [name for name in complete_format(ctx, param, incomplete) if name in WRITTEN]


def complete_list(
    words: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the last of some words separated by commas; `words` answers those there are."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del ctx, param
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{w}" for w in words() if w.startswith(last) and w not in given]

    return complete


class ProtocolChoice(_Choice):
    """A name of a protocol, in letters of any case; a wrong one is answered with the name most like it."""

    OF_YOLO = ("ultralytics", "yolov5")
    """What is meant by ``yolo`` or ``yolov8``, which are spelled more like other names."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__(list(words), case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word in its own letters."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as e:
            text = str(value)
            yolo = text.casefold().startswith("yolo")
            begun = [
                word
                for word in self.choices
                if (yolo and word in self.OF_YOLO) or (text and word.startswith(text.casefold()))
            ]
            meant = " or ".join(map(repr, begun[:3]))
            advice = f" (did you mean {meant}?)" if meant else hint(text, self.choices)
            raise click.BadParameter(f"{e.message.removesuffix('.')}{advice}", ctx, param) from None


class TargetPath(click.Path):
    """The type of an argument or option that names what is written."""


PATH, TARGET = click.Path(), TargetPath()


def format_choice(flag: str, of: str, *names: str, **settings: Any) -> Option:
    """An option that names the format `of` a file; the formats are listed once, at the end of the help."""
    text = of if " " in of else f"{of}; auto-detected if omitted"
    flag, text = f"{flag} FORMAT", f"Format of {text}."
    complete = complete_target if flag.startswith("--to ") else complete_format
    return option(flag, text, *names, shell_complete=complete, **settings)


kind_option = choice("--kind", ["gt", "det"], "Read SRC as ground truth or as detections.")
gt_option = option("--gt FILE", "Ground truth that a results file refers to.", of=PATH)
skip_bad_option = switch("--skip-bad", "Skip rows with errors instead of failing.")
skip_bad_files_option = switch(
    "--skip-bad-files", "Skip whole files with errors, and their images; each is named."
)
wide_option = switch("--wide", "Show all columns of a table, even if it is wider than the terminal.")

source_options = all_of(
    format_choice("--format", "SRC", "--from", "format_"),
    kind_option,
    gt_option,
    skip_bad_option,
    skip_bad_files_option,
)
"""How a single source is read."""

common_options = all_of(
    switch("--quiet", "Print only results, errors, and warnings that cast doubt on the results.", "-q"),
    switch("--verbose", "Print all notes instead of the first three.", "-v"),
    option(
        "--max-errors N",
        "Print at most N errors and warnings; all are counted.",
        of=click.IntRange(0),
        default=SHOWN,
    ),
    option(
        "--max-per-code N",
        f"Print at most N issues with the same code. [default: {PER_CODE}; validate: {PER_CODE_VALIDATE}]",
        of=click.IntRange(0),
    ),
    option(
        "--max-size SIZE",
        "Refuse larger files: 500M, 2G. [default: 64G]",
        of=number_of_bytes,
        default=MAX_SIZE,
        show_default=False,
    ),
    option(
        "--encoding NAME",
        "Read text files in this encoding: gb18030, shift_jis ... [default: UTF-8, or detected]",
        default="",
    ),
    switch("--follow-links", "Follow symbolic links that lead outside the source."),
)
"""The options of every command that reads: what is opened, and how much is printed beside the result."""
