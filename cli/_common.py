"""What the commands share: the options of the formats, the log on the terminal."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from odm import inputs
from odm.cli._print import progress_screen, say
from odm.files import MAX_SIZE, Unreadable, read_bytes
from odm.formats import FORMATS, OptionSpec, option_specs
from odm.issues import KEPT_PER_CODE, Code, Issue, Log, PathError, plural, printable

Function = TypeVar("Function", bound=Callable[..., Any])

SHOWN = 100
"""How many issues are printed unless ``--max-errors`` says otherwise."""

_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def number_of_bytes(text: str | int) -> int:
    """The number that ``500M`` or ``2G`` means."""
    match = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)i?B?", str(text), re.IGNORECASE | re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is not a size such as 500M or 2G")
    return int(match[1]) * _SIZES[match[2].upper()]


def format_choice(
    *names: str,
    help: str,  # noqa: A002 -- as in click
    multiple: bool = False,
) -> Callable[[Function], Function]:
    """An option that names a format."""
    text = f"{help} ({', '.join(FORMATS)})."
    return click.option(
        *names, metavar="FORMAT", shell_complete=complete_format, multiple=multiple, help=text
    )


def complete_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The formats that begin so, for the shell."""
    del ctx, param
    return [name for name in FORMATS if name.startswith(incomplete)]


def format_options(*sides: str) -> Callable[[Function], Function]:
    """Add every long flag that a format declares, plain and for each side, and ``-O name=value``.

    The command's function gets one argument ``options``: for ``""`` (whichever side has it) and for each of
    `sides` a dict of option values by name.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def collect(*args: Any, **given: Any) -> Any:
            values: dict[str, dict[str, Any]] = {side: {} for side in ("", *sides)}
            for key in [k for k in given if k.startswith("fo__")]:
                _, side, name = key.split("__")
                value = given.pop(key)
                if value not in (None, False):
                    values[side][name] = value
            for text in given.pop(TEXTS):
                side, name, value = _split_option(text, sides)
                values[side][name] = value
            return function(*args, options=values, **given)

        prefixes = "" if not sides else f" One side only: {' or '.join(f'{s}.name=value' for s in sides)}."
        texts = click.option(
            "-O",
            TEXTS,
            multiple=True,
            metavar="NAME=VALUE",
            help=f"An option of a format; `odm formats FORMAT` lists them.{prefixes}",
        )
        texts(collect)
        collect.sides = sides  # type: ignore[attr-defined]
        return collect  # type: ignore[return-value]

    return decorate


class FormatCommand(click.Command):
    """A command with `format_options`, whose flags are made when it is called.

    Where the words of the command line name formats, the flags of those are tried first, for then no other
    format needs to be imported; if they do not suffice, those of all formats are there.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = {word.rpartition("=")[2] for word in args}
        named = [name for name in FORMATS if name in words]
        if named and not ctx.resilient_parsing and words.isdisjoint(ctx.help_option_names):
            ctx.meta[_NAMED] = named
            try:
                return super().parse_args(ctx, list(args))
            except click.UsageError:
                del ctx.meta[_NAMED]
                ctx.params.clear()
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        at = next(i for i, param in enumerate(params) if param.name == TEXTS)
        sides = getattr(self.callback, "sides", ())
        return [*params[: at + 1], *_flags(tuple(ctx.meta.get(_NAMED, FORMATS)), sides), *params[at + 1 :]]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what its paths name is read, but for what a `TargetPath` names."""
        with inputs.gather():
            for param in self.params:
                if isinstance(param.type, click.Path) and not isinstance(param.type, TargetPath):
                    value = ctx.params.get(param.name or "")
                    inputs.name(*(value if isinstance(value, tuple) else (value,)))
            return super().invoke(ctx)


class TargetPath(click.Path):
    """The type of an argument or option that names what is written."""


TEXTS = "format_option_texts"
"""The argument for ``-O``."""

_NAMED = "odm.cli.formats"


@functools.cache
def _flags(names: tuple[str, ...], sides: tuple[str, ...]) -> tuple[click.Parameter, ...]:
    """The long flags of some formats, plain and for each side; the parser asks for them again and again."""
    specs: dict[str, list[tuple[str, OptionSpec]]] = {}
    for name in names:
        for spec in option_specs(FORMATS[name].options):
            if spec.flag:
                specs.setdefault(spec.flag, []).append((name, spec))
    return tuple(_flag(flag, side, found) for flag, found in specs.items() for side in ("", *sides))


def _flag(flag: str, side: str, found: Sequence[tuple[str, OptionSpec]]) -> click.Option:
    spec = found[0][1]
    name = f"--{side}-{flag[2:]}" if side else flag
    keywords: dict[str, Any] = {"hidden": bool(side)}
    if not side:
        keywords["help"] = f"{spec.help[0].upper()}{spec.help[1:]} ({', '.join(name for name, _ in found)})."
    choices = tuple(dict.fromkeys(c for _, s in found for c in s.choices or ()))
    if spec.is_switch:
        keywords["is_flag"] = True
    elif choices:
        keywords["type"] = click.Choice(choices)
    else:
        keywords["metavar"] = "TEXT"
    return click.Option([name, f"fo__{side}__{spec.name}"], default=None, **keywords)


def _split_option(text: str, sides: Sequence[str]) -> tuple[str, str, str]:
    name, equals, value = text.partition("=")
    side = ""
    if "." in name and name.split(".", 1)[0] in sides:
        side, name = name.split(".", 1)
    if not equals or not name:
        raise click.UsageError(f"-O {text}: give name=value")
    return side, name, value


def common_options(function: Function) -> Function:
    """The options of every command that reads: --follow-links, --max-size, --max-errors, --quiet."""
    for option in (
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            help="Print results and errors only; of warnings those that put the numbers of eval in doubt.",
        ),
        click.option(
            "--max-errors",
            type=click.IntRange(0),
            default=SHOWN,
            show_default=True,
            help="How many errors and warnings are printed; all are counted.",
        ),
        click.option(
            "--max-size",
            type=number_of_bytes,
            metavar="SIZE",
            default=MAX_SIZE,
            help="Refuse larger files, as in 500M or 2G. [default: 64G]",
        ),
        click.option(
            "--follow-links", is_flag=True, help="Read files behind links that lead out of the source."
        ),
    ):
        function = option(function)
    return function


def terminal_log(keep: int = KEPT_PER_CODE) -> Log:
    """A log whose long loops show a progress bar, on a terminal only; `keep` issues of each code are kept."""
    screen = progress_screen()
    if screen is None:
        return Log(keep=keep)

    def track(items: Sequence[Any], what: str) -> Iterable[Any]:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread of its own

        return tqdm(items, desc=what, leave=False, delay=0.5, file=screen)

    return Log(keep=keep, track=track)


def print_notes(log: Log) -> None:
    """Print the decisions that were taken to the standard error stream."""
    for text in log.notes:
        say(f"note: {text}")


def print_issues(log: Log, codes: Iterable[Code], *, limit: int = SHOWN) -> list[Issue]:
    """Print the issues of some codes to the standard error stream; those that were printed."""
    names = {code.name for code in codes}
    found = [issue for issue in log.issues if issue.code in names][:limit]
    for issue in found:
        say(issue)
    return found


def print_log(log: Log, *, quiet: bool = False, limit: int = SHOWN, printed: Sequence[Issue] = ()) -> None:
    """Print notes, issues and their counts to the standard error stream; errors come first.

    Issues that were `printed` before are only counted.
    """
    if not quiet:
        print_notes(log)
    severities = ("error",) if quiet else ("error", "warning")
    before = {id(issue) for issue in printed}
    others = [issue for issue in sorted(log.issues, key=_location) if id(issue) not in before]
    shown = [issue for s in severities for issue in others if issue.severity == s]
    n_before = sum(issue.severity in severities for issue in printed)
    room = max(0, limit - n_before)
    for issue in shown[:room]:
        say(issue)
    if log.errors or (log.warnings and not quiet):
        say(_summary(log, n_before + len(shown[:room]), quiet=quiet))


def _location(issue: Issue) -> tuple[str, int, int]:
    return issue.path, issue.line, issue.column


def _summary(log: Log, printed: int, *, quiet: bool) -> str:
    parts = [plural(log.errors, "error")] if log.errors else []
    if log.warnings and not quiet:
        parts.append(plural(log.warnings, "warning"))
    total = log.errors + (0 if quiet else log.warnings)
    if total > printed:
        parts.append(f"{printed} of them printed")
    by_code = ", ".join(f"{name} {n}" for name, n in log.counts.most_common())
    return f"{', '.join(parts)} ({by_code})"


def reading(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Of a command's arguments those that concern how files are opened."""
    return {name: keywords[name] for name in ("follow_links", "max_size")}


def split_names(text: str | None) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def lines_of_files(texts: Iterable[str]) -> list[str]:
    """The same texts, with each ``@FILE`` replaced by the lines of that file."""
    found: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            found.append(text)
            continue
        try:
            content = read_bytes(text[1:]).removeprefix(b"\xef\xbb\xbf").decode()
        except Unreadable as e:
            raise PathError(f"{printable(text[1:])}: {e}") from None
        except UnicodeDecodeError:
            raise PathError(f"{printable(text[1:])}: it is not UTF-8") from None
        found += [line.strip() for line in content.split("\n") if line.strip()]
    return found
