"""How options of the small commands are declared, and what types and shells know of the values of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from odm.formats import FORMATS, WRITTEN

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # no generic class before click 8.2
    _Choice = click.Choice

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def option(flag: str, text: str, *names: str, of: Any = None, **settings: Any) -> Option:
    """Make an option from its line in the help: ``--save DIR``, and the text.

    `of` is the type of its value; `names` are a short flag or the name of the argument. A default is shown,
    unless `settings`, which are click's, say otherwise.
    """
    flag, _, value = flag.partition(" ")
    settings.setdefault("show_default", settings.get("default") not in (None, ""))
    return click.option(flag, *names, metavar=value or None, type=of, help=text, **settings)


def switch(flag: str, text: str, *names: str, **settings: Any) -> Option:
    """Make an option without a value."""
    return click.option(flag, *names, is_flag=True, help=text, **settings)


def choice(flag: str, words: Iterable[str], text: str, **settings: Any) -> Option:
    """Make an option whose value is one of some words."""
    return option(flag, text, of=click.Choice(list(words)), **settings)


wide_option = switch("--wide", "Show all columns of a table, even if it is wider than the terminal.")


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
    """Return a completion of the last of some words separated by commas; `words()` are all of them."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        """Return what "tide,l" may become: "tide,lrp"."""
        del ctx, param
        earlier_words, comma, word_start = incomplete.rpartition(",")
        used_words = earlier_words.split(",")
        return [
            f"{earlier_words}{comma}{w}" for w in words() if w.startswith(word_start) and w not in used_words
        ]

    return complete


class ProtocolChoice(_Choice):
    """A name of a protocol, in letters of any case; a wrong one is answered with the name most like it."""

    OF_YOLO = ("ultralytics", "yolov5")
    """What is meant by ``yolo`` or ``yolov8``, which are spelled more like other names."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__(list(words), case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the protocol's name in its own letters. Raises BadParameter, with the most similar names."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as e:
            from odm.evaluate.scores.protocol_words import suggest_protocol

            text = str(value)
            is_yolo = text.casefold().startswith("yolo")
            # An empty text, with which every name starts, matches none.
            matching_names = [
                word
                for word in self.choices
                if (is_yolo and word in self.OF_YOLO) or (text and word.startswith(text.casefold()))
            ]
            suggestions = " or ".join(map(repr, matching_names[:3]))
            advice = f" (did you mean {suggestions}?)" if suggestions else ""
            advice = advice or suggest_protocol(text, self.choices)
            raise click.BadParameter(f"{e.message.removesuffix('.')}{advice}", ctx, param) from None


class TargetPath(click.Path):
    """The type of an argument or option that names what is written."""


PATH, TARGET = click.Path(), TargetPath()
