"""The flags of a command, made of the record of its options."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from odm.cli._common import make_text_option, take_formats
from odm.cli._options import (
    PATH,
    TARGET,
    Command,
    Option,
    ProtocolChoice,
    complete_format,
    complete_list,
    complete_target,
)
from odm.issues import OdmError
from odm.verbs.options import Field, Options, Spec


def add_flags(record: type[Options], *, writing: Sequence[str] = (), numbered: bool = False) -> Option:
    """Give a command the flags of a record; its function gets an instance.

    Every flag of a format is added, plain and for each side: those that matter only in writing for the sides
    in `writing`, others for the rest. With `numbered`, ``-O 2.name=value`` is for the second source.
    """

    def decorate(function: Command) -> Command:
        """Replace the function by one that takes click's values, and attach the flags to it."""

        @functools.wraps(function)
        def call(**values: Any) -> Any:
            formats = take_formats(values, record.sides, writing, numbered=numbered)
            return function(record.from_values(values, formats))

        types_of = record.types()
        flags = [
            _make_flag(field, field.spec, types_of[name])
            for name, field in record.fields().items()
            if field.spec
        ]
        # click collects decorators here from the last to the first, and reverses the list.
        vars(call).setdefault("__click_params__", []).extend(reversed(flags))
        # Attributes that `FormatCommand` reads.
        vars(call).update(record=record, sides=record.sides, writing=tuple(writing))
        return make_text_option(record.sides, numbered=numbered)(call)

    return decorate


class Flag(click.Option):
    """A flag with its heading."""

    heading = ""


def _make_flag(field: Field, spec: Spec, hint: Any) -> click.Option:
    """Make the flag of an option. `hint` is the annotation of the field, such as ``str | None``.

    A Literal in it gives the choices of the flag, bool a flag without a value. With `Spec.flag_value` the
    value may be left out.
    """
    name, default = field.name, field.default
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    value_types = typing.get_args(hint) if is_union else (hint,)
    literals = [value_type for value_type in value_types if typing.get_origin(value_type) is Literal]
    choices = spec.choices or [word for literal in literals for word in typing.get_args(literal)]
    settings: dict[str, Any] = {"type": _choose_type(spec, value_types, choices), "default": default}
    settings["show_default"] = spec.show_default and default not in (None, "", ())
    settings |= {"metavar": spec.metavar or None, "required": spec.required}
    if bool in value_types:
        settings |= {"is_flag": True, "type": None, "show_default": False}
    elif spec.repeatable:
        settings |= {"multiple": True, "default": None}  # None: an empty tuple
    if spec.flag_value is not None:
        settings |= {"is_flag": False, "flag_value": spec.flag_value}  # --untile, or --untile 0.7
    if spec.metavar == "FORMAT":
        settings["shell_complete"] = complete_target if name == "to" else complete_format
    elif spec.completions is not None:
        settings["shell_complete"] = complete_list(spec.completions)
    long_flag = f"--{name.rstrip('_').replace('_', '-')}"  # "from_" -> "--from"
    flag = Flag([long_flag, *spec.short, name], help=spec.help, **settings)
    flag.heading = spec.heading
    return flag


def _choose_type(spec: Spec, value_types: tuple[Any, ...], words: Sequence[str]) -> Any:
    """Return click's type of an option, from the types of its annotation and the `words` to choose from."""
    if spec.path:
        return TARGET if spec.path == "written" else PATH
    if spec.parse is not None:
        return _Parsed(spec.parse)
    # Formats and lists (completions) are checked where they are used; only protocols have words and metavar.
    if words and spec.metavar != "FORMAT" and spec.completions is None:
        return ProtocolChoice(words) if spec.metavar else click.Choice(list(words))
    if spec.bounds is not None:
        return click.IntRange(*spec.bounds)
    if str in value_types:  # a number may stand there too, which is parsed later
        return None
    return next((kind for kind in (float, int) if kind in value_types), None)


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # no generic class before click 8.2
    _ParamType = click.ParamType


class _Parsed(_ParamType):
    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text; a default has its value already. Raises BadParameter, or OdmError as `parse` does."""
        try:
            return self.parse(value) if isinstance(value, str) else value
        except OdmError:
            raise
        except ValueError as e:
            self.fail(str(e), param, ctx)
