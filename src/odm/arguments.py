"""Check the arguments of public functions against their annotations, before any work."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, Union

from odm.issues import UsageError, shorten

P = ParamSpec("P")
T = TypeVar("T")

WORDS: dict[Any, tuple[str, str]] = {
    bool: ("True or False", "True or False"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    os.PathLike: ("a path", "paths"),
}
"""How messages name one value of a type, and several."""
LISTS = (Sequence, Iterable, list)
MAPPINGS = (Mapping, dict)
MANY = 10
"""The values of a `Literal` are listed in a message if they are no more than this."""


def check_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    open_words: Sequence[Any] = (),
) -> None:
    """Check the arguments of a call by the annotations of the function, as `check_values` does."""
    hints = hints_of(function)
    check_values(hints, {**dict(zip(hints, args, strict=False)), **keywords}, open_words)


def check_values(hints: Mapping[str, Any], values: Mapping[str, Any], open_words: Sequence[Any] = ()) -> None:
    """Raise UsageError, which begins with the name, for the first of the values that its type does not allow.

    Parameters
    ----------
    open_words
        Literals that list only some of the words, or whose words are checked with better advice later.
    """
    for name, value in values.items():
        if _has_null(value):
            raise UsageError(f"{name}: {shorten(repr(value))} has a null character")
        if name in hints and not is_open(hints[name]):
            check(name, value, hints[name], open_words)


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that its arguments are checked against their annotations."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        check_call(function, args, keywords)
        return function(*args, **keywords)

    return call


@functools.cache
def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters, in order."""
    parameters = inspect.signature(function).parameters.values()

    def of_parameters() -> None: ...  # what it returns may be a type that is imported for type checkers only

    of_parameters.__annotations__ = {p.name: p.annotation for p in parameters if p.kind != p.VAR_KEYWORD}
    return typing.get_type_hints(of_parameters, vars(sys.modules[function.__module__]))


def check(name: str, value: Any, hint: Any, open_words: Sequence[Any] = ()) -> None:
    """Raise UsageError if `value` is not what `hint`, a type as in an annotation, allows."""
    if _fits(value, hint, open_words):
        return
    bad_value, expected = value, _words(hint)
    for part in _parts(hint):
        if typing.get_origin(part) in LISTS and _is_list(value):
            (inner,) = typing.get_args(part)
            bad_value = next(one for one in value if not _fits(one, inner, open_words))
            expected = _words(inner, many=True)
    raise UsageError(f"{name}: expected {expected}, found {shorten(repr(bad_value))}")


def _fits(value: Any, hint: Any, open_words: Sequence[Any]) -> bool:
    """Return whether a value fits an annotation."""
    parts = _parts(hint)
    if len(parts) > 1:
        return any(_fits(value, part, open_words) for part in parts)
    (hint,) = parts
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    fits = functools.partial(_fits, open_words=open_words)
    if origin is Literal:
        return isinstance(value, str) and (hint in open_words or value in inner)
    if origin in LISTS:
        return _is_list(value) and all(fits(one, inner[0]) for one in value)
    if origin in MAPPINGS:
        return isinstance(value, Mapping) and all(
            fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items()
        )
    if origin is tuple:
        return _is_list(value) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin is bool:
        return type(value).__name__ in ("bool", "bool_")  # those of NumPy, too
    if origin in (int, float):
        number = numbers.Integral if origin is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike) and isinstance(os.fspath(value), str)
    return hint is Any or not isinstance(origin, type) or isinstance(value, origin)


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the only type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_list(value: Any) -> bool:
    """Whether a value is a list or an array: iterable, with a length, and neither text nor mapping."""
    return hasattr(value, "__len__") and isinstance(value, Iterable) and not isinstance(value, NOT_LISTS)


NOT_LISTS = (str, bytes, Mapping)


def is_open(hint: Any) -> bool:
    """Whether a type hint contains a `typing.Protocol`, as `odm.verbs.sources.Source`.

    Such arguments are not checked here but where they are read.
    """
    parts = (hint, *typing.get_args(hint))
    return any(getattr(one, "_is_protocol", False) for one in parts) or any(map(is_open, parts[1:]))


def _words(hint: Any, *, many: bool = False) -> str:
    """Say in words which values an annotation allows."""
    parts = [part for part in _parts(hint) if part is not type(None)]
    if len({str, os.PathLike} & {typing.get_origin(part) or part for part in parts}) == 2:
        parts.remove(str)  # a path is either
    kinds: list[str] = []
    for part in parts:
        origin, inner = typing.get_origin(part) or part, typing.get_args(part)
        if origin is Literal:
            such = "names such as" if many else "a name such as"
            kinds += map(repr, inner) if len(inner) <= MANY else [f"{such} {inner[0]!r}"]
        elif origin in WORDS:
            kinds.append(WORDS[origin][many])
        elif origin in LISTS:
            kinds.append(f"a list of {_words(inner[0], many=True)}")
        elif origin in MAPPINGS:
            of = "" if inner[1] is Any else f" of {_words(inner[0])} to {_words(inner[1])}"
            kinds.append(f"a mapping{of}")
        elif origin is tuple:
            kinds.append(f"({', '.join(map(_words, inner))})")
        else:
            name = getattr(origin, "__name__", str(origin))
            kinds.append(f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
    return " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)


def _has_null(value: Any) -> bool:
    """Whether a name or a path, alone or in a list or a mapping, has a character that no system takes."""
    if isinstance(value, (str, os.PathLike)):
        return "\0" in os.fsdecode(value)
    values = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], (str, os.PathLike)):
        return any(_has_null(one) for one in values if isinstance(one, (str, os.PathLike)))
    return False
