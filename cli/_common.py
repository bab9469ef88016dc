"""What the commands share: the options of the formats, what is read of a side, the log on the terminal."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from odm import inputs
from odm.cli import _help
from odm.cli._options import Option, TargetPath, option
from odm.cli._streams import is_terminal, progress, show
from odm.formats import FORMATS, OptionSpec, list_with_flags, option_specs
from odm.issues import KEPT_PER_CODE, Log, PathError, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from odm.verbs.options import FormatOptions, Options

MOST_NAMED = 5
"""The help of an option names the formats that have it if they are at most so many."""


def _find_named(ctx: click.Context) -> list[str]:
    """Return the formats named on the command line so far; all formats if none is."""
    words = [v for value in ctx.params.values() for v in _as_tuple(value)]
    return [name for name in FORMATS if name in words] or list(FORMATS)


def _complete_option(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ``-O`` with options of the formats named so far, else of all formats."""
    del param
    names = {f"{spec.name}=" for name in _find_named(ctx) for spec in option_specs(FORMATS[name].options)}
    return sorted(name for name in names if name.startswith(incomplete))


def _complete_path(kind: str, *_: object) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem("", type=kind)]


_complete_file = functools.partial(_complete_path, "file")
_complete_folder = functools.partial(_complete_path, "dir")


def take_formats(
    values: dict[str, Any], sides: Sequence[str], writing: Sequence[str], *, numbered: bool
) -> FormatOptions:
    """Return the options of formats by the side to which they apply, and remove them from click's `values`.

    Of `sides`, those in `writing` write. With `numbered`, ``-O 2.name=value`` is for the second source.
    Raises UsageError for an option with two different values, or for a side that is read if it only writes.
    """
    options_by_side: dict[str, dict[str, Any]] = {side: {} for side in ("", *sides)}
    # The name of a flag of formats: "fo__gt__sep" for --gt-sep, "fo____sep" for --sep.
    for key in [k for k in values if k.startswith("fo__")]:
        _, side, name = key.split("__")
        value = values.pop(key)
        if value not in (None, False):  # it is on the command line
            options_by_side[side][name] = value
    for text in values.pop(_help.TEXTS):
        side, name, value = _split_option(text, sides, numbered=numbered)
        if side not in writing:
            _check_reading(name, text)
        # A numbered source, such as "2", is not among `sides`.
        earlier_value = options_by_side.setdefault(side, {}).setdefault(name, value)
        is_repeated_switch = (earlier_value, value) == (True, "true")  # --excel-safe -O excel_safe=true
        if earlier_value != value and not is_repeated_switch:
            both_values = printable(f"{earlier_value} and {value}")
            raise click.UsageError(f"-O {text}: {name} is given twice, as {both_values}")
    return options_by_side


def make_text_option(sides: Sequence[str], *, numbered: bool) -> Option:
    """Make the flag ``-O name=value``, for any option of a format; `sides` may stand before the name."""
    prefixes = "" if not sides else f" For one side only: {' or '.join(f'{s}.name=value' for s in sides)}."
    prefixes += " For one of several SRC: 1.name=value." if numbered else ""
    return option(
        "-O NAME=VALUE",
        f"Any format option, see `odm formats FORMAT`.{prefixes}",
        _help.TEXTS,
        multiple=True,
        shell_complete=_complete_option,
    )


class FormatCommand(click.Command):
    """A command whose flags for formats are made when it is called.

    The flags of the formats named on the command line, often none, are tried first, so that no other format
    is imported; then those of the formats that have the given flags; and last those of all formats. ``-h``
    shows the common options and examples, ``--help`` all options under headings.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Make the command; its parameters are those of `click.Command`."""
        keywords["context_settings"] = {"help_option_names": ["--help"]}
        super().__init__(*args, **keywords)
        self._brief = click.Option(
            ["-h"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_brief,
            help="Show the common options and examples, and exit.",
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line with the flags of as few formats as it needs; see the class."""
        for param in self.params:
            if isinstance(param.type, click.Path):
                param.type.readable = False  # whatever opens it has the message and the exit code
        words = {word.rpartition("=")[2] for word in args}  # of --to=yolo the value, "yolo"
        if ctx.resilient_parsing:  # a shell asks for completions
            flag_names = {name for param in self.params for name in param.opts}
            if all(word.partition("=")[0] in flag_names for word in args if word.startswith("--")):
                ctx.meta[_NAMED] = []  # no flag of a format is among the words, so none need be made
        elif words.isdisjoint({"-h", "--help"}):  # help lists the flags of all formats
            # First with the flags of the formats named, then of those that have the flags; else with all.
            sides = getattr(self.callback, "sides", ())
            flags = {_drop_side(word, sides) for word in args if word.startswith("--")}
            for names in ([name for name in FORMATS if name in words], list_with_flags(flags)):
                ctx.meta[_NAMED] = names
                try:
                    return super().parse_args(ctx, list(args))
                except click.UsageError:
                    del ctx.meta[_NAMED]
                    ctx.params.clear()
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with the flags of formats after ``-O`` and ``-h`` at the end."""
        params = super().get_params(ctx)
        position = next(i for i, param in enumerate(params) if param.name == _help.TEXTS)
        sides, writing = (getattr(self.callback, name, ()) for name in ("sides", "writing"))
        flags = _make_flags(tuple(ctx.meta.get(_NAMED, FORMATS)), sides, writing)
        return [*params[: position + 1], *flags, *params[position + 1 :], self._brief]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of an option; only the formats named so far contribute options."""
        ctx.meta[_NAMED] = _find_named(ctx)
        return super().shell_complete(ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: the common ones for ``-h``, else all of them under headings."""
        all_options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        visible = [p for p in all_options if not p.hidden]
        listed = [p for p in visible if {"-h", "--help"}.isdisjoint(p.opts)]
        record: type[Options] | None = getattr(self.callback, "record", None)
        common = _help.select_common(record, all_options) if record else []
        if _BRIEF in ctx.meta and record and record.common:
            rows = [row for p in common if (row := p.get_help_record(ctx))]
            _write_section(formatter, "Common options", [*rows, ("--help", "Show all options.")])
            return
        sides = getattr(self.callback, "sides", ())
        for heading, options in _help.group_by_heading(listed):
            rows = [row for p in options if (row := p.get_help_record(ctx))]
            side = next((s for s in sides if _help.SIDES[s] == heading), None)
            if side is not None:  # its format options are hidden; `common` has copies that are not
                side_options = [p for p in common if (p.name or "").startswith(f"fo__{side}__")]
                rows += [row for p in side_options if (row := p.get_help_record(ctx))]
                rows.append((f"--{side}-OPTION", "Any format option below, for this side only."))
            _write_section(formatter, heading, rows)
        # -h and --help
        rows = [row for p in visible if p not in listed and (row := p.get_help_record(ctx))]
        _write_section(formatter, "Help", rows)
        if any(p.metavar == "FORMAT" for p in listed):
            with formatter.section("Formats (odm formats describes them)"):
                formatter.write_text(", ".join(FORMATS))

    def invoke(self, ctx: click.Context) -> Any:
        """Check the paths and run the command; those not of type `TargetPath` are recorded as inputs."""
        with inputs.gather():
            for param in self.params:
                if isinstance(param.type, click.Path):
                    paths = _as_tuple(ctx.params.get(param.name or ""))
                    if "" in paths:  # as an unset variable of a shell gives
                        raise click.UsageError(f"{_get_flag(param)} is an empty path", ctx)
                    if not isinstance(param.type, TargetPath):
                        inputs.name(*paths)
            _refuse_same_path(self.params, ctx)
            return super().invoke(ctx)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the values of a parameter as a tuple, also of one that can be given only once."""
    return value if isinstance(value, tuple) else (value,)


def _get_flag(param: click.Parameter) -> str:
    return param.opts[0] if isinstance(param, click.Option) else str(param.metavar)


def _refuse_same_path(params: Iterable[click.Parameter], ctx: click.Context) -> None:
    """Raise UsageError if two outputs of a run have one path; only folders may be shared."""
    outputs: dict[str, tuple[str, bool]] = {}
    for param in params:
        value = ctx.params.get(param.name or "")
        # A null byte, on which `realpath` fails, is refused where the path is used.
        if not value or not isinstance(param.type, TargetPath) or "\0" in value:
            continue
        name = _get_flag(param)
        # The metavar is DIR, FILE, DST, or FILE|DIR for a page.
        is_shareable = "DIR" in str(param.metavar) and not value.lower().endswith(".html")
        other_name, is_other_shareable = outputs.setdefault(os.path.realpath(value), (name, is_shareable))
        if other_name != name and not (is_shareable and is_other_shareable):
            raise click.UsageError(f"{other_name} and {name} both name {printable(value)}", ctx)


def _check_folder(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the path of a folder or zip file. Raises UsageError for an empty path, PathError for a file."""
    del ctx
    if value == "":
        raise click.UsageError(f"{param.opts[0]} is an empty path")
    if value is not None and os.path.isfile(value) and not value.lower().endswith(".zip"):
        raise PathError(f"{param.opts[0]} {printable(value)}: this is a file; give the folder of images")
    return value


_BOUNDS = re.compile(r"; (?:\d+<=)?x[<>]=?\d+|  \[x[<>]=?\d+\]")
_NAMED = "odm.cli.formats"
"""Key in click's ``ctx.meta``: the formats whose flags a command has; without it, those of all formats."""
_BRIEF = "odm.cli.brief"
"""Key there: whether the help is that of ``-h``."""


def _write_section(formatter: click.HelpFormatter, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write options under a heading, their help in the same column everywhere.

    The bounds of numbers, which click writes as ``x>=1``, are left out; a value outside them has a message.
    """
    with formatter.section(heading):
        shown_rows = [(f"{names:<24}", _BOUNDS.sub("", text)) for names, text in rows]
        formatter.write_dl(shown_rows, col_max=24)


def _show_brief(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the short help of a command for its flag ``-h``, and end the run."""
    del param
    if value and not ctx.resilient_parsing:
        ctx.meta[_BRIEF] = True
        show(ctx.get_help())
        ctx.exit()


def _drop_side(word: str, sides: Sequence[str]) -> str:
    """Return the flag of a word without its value and side: ``--sep`` for ``--gt-sep=,``."""
    flag = word.partition("=")[0]
    side = next((s for s in sides if flag.startswith(f"--{s}-")), None)
    return flag if side is None else f"--{flag[len(side) + 3 :]}"


@functools.cache
def _make_flags(
    names: tuple[str, ...], sides: tuple[str, ...], writing: tuple[str, ...]
) -> tuple[click.Parameter, ...]:
    """Make the long flags of some formats, plain and for each side; cached, as the parser asks often."""
    specs_by_flag: dict[str, list[tuple[str, OptionSpec]]] = {}
    for name in names:
        for spec in option_specs(FORMATS[name].options):
            if spec.flag:
                specs_by_flag.setdefault(spec.flag, []).append((name, spec))
    return tuple(
        _make_flag(flag, side, named_specs)
        for flag, named_specs in specs_by_flag.items()
        for side in ("", *sides)
        if any(_applies_to(spec, side, writing) for _, spec in named_specs)
    )


def _applies_to(spec: OptionSpec, side: str, writing: Sequence[str]) -> bool:
    """Whether an option of a format is one for a side, which only writes if it is one of `writing`.

    The side ``""`` stands for all sides, and also reads.
    """
    if spec.side == "write":
        return side in writing
    return spec.side == "both" or not side or side not in writing  # else `spec.side` is "read"


def _check_reading(name: str, text: str) -> None:
    """Raise UsageError for an option that all formats with it use only for writing."""
    specs = [spec for f in FORMATS.values() for spec in option_specs(f.options) if spec.name == name]
    if specs and all(spec.side == "write" for spec in specs):
        raise click.UsageError(f"-O {text}: {name} applies only when a format is written")


def _make_flag(flag: str, side: str, named_specs: Sequence[tuple[str, OptionSpec]]) -> click.Option:
    """Make a flag, hidden for a side, with the most common help of `named_specs`: (format, option) pairs."""
    ((text, _),) = Counter(spec.help for _, spec in named_specs).most_common(1)  # what most formats mean
    spec = next(spec for _, spec in named_specs if spec.help == text)
    name = f"--{side}-{flag[2:]}" if side else flag
    keywords: dict[str, Any] = {"hidden": bool(side)}
    if side:
        keywords["help"] = f"{spec.help[0].upper()}{spec.help[1:]} ({side.upper()} only)."
    else:
        # The help names the formats, but not for writing, where options for pictures apply to every format.
        is_listed = len(named_specs) <= MOST_NAMED and spec.side != "write"
        names = f" ({', '.join(name for name, _ in named_specs)})" if is_listed else ""
        keywords["help"] = f"{spec.help[0].upper()}{spec.help[1:]}{names}."
    choices = tuple(dict.fromkeys(c for _, s in named_specs for c in s.choices or ()))
    if spec.is_switch:
        keywords["is_flag"] = True
    elif choices:
        keywords["type"] = click.Choice(choices)
    elif spec.is_path:
        is_folder = spec.help.startswith("folder")  # as in "folder of images"
        keywords["metavar"] = "DIR" if is_folder else "FILE"
        keywords["callback"] = _check_folder if is_folder else None
        keywords["shell_complete"] = _complete_folder if is_folder else _complete_file
    else:
        keywords["metavar"] = _help.METAVARS.get(spec.name, "TEXT")
    return click.Option([name, f"fo__{side}__{spec.name}"], default=None, **keywords)  # for `take_formats`


def _split_option(text: str, sides: Sequence[str], *, numbered: bool) -> tuple[str, str, str]:
    """Split ``SIDE.name=value`` into side (``""`` if none; with `numbered` also ``2``), name and value."""
    name, equals, value = text.partition("=")
    side = ""
    prefix, dot, option_name = name.partition(".")
    if dot and (prefix in sides or (numbered and re.fullmatch("[1-9][0-9]{0,5}", prefix, re.ASCII))):
        side, name = prefix, option_name
    if not equals or not name:
        raise click.UsageError(f"-O {text}: expected name=value")
    return side, name.replace("-", "_"), value


def make_terminal_log(keep: int = KEPT_PER_CODE) -> Log:
    """Make a log that keeps `keep` issues of each code; on a terminal, long loops show a progress bar."""
    return Log(keep=keep, track=progress if is_terminal() else None)
