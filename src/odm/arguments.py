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
    hints = read_hints(function)
    check_values(hints, {**dict(zip(hints, args, strict=False)), **keywords}, open_words)


def check_values(hints: Mapping[str, Any], values: Mapping[str, Any], open_words: Sequence[Any] = ()) -> None:
    """Raise UsageError, which begins with the name, for the first of the values that its type does not allow,
    or that has a null character. Names without a type, or with an open one (`is_open`), are not checked.

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
def read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters, in order."""
    parameters = inspect.signature(function).parameters.values()

    # A function of the parameters alone, as the return type may be imported for type checkers only.
    def of_parameters() -> None: ...

    of_parameters.__annotations__ = {p.name: p.annotation for p in parameters if p.kind != p.VAR_KEYWORD}
    return typing.get_type_hints(of_parameters, vars(sys.modules[function.__module__]))


def check(name: str, value: Any, hint: Any, open_words: Sequence[Any] = ()) -> None:
    """Raise UsageError, which begins with `name`, if the annotation `hint` does not allow `value`."""
    if _is_allowed(value, hint, open_words):
        return
    bad_value, expected = value, _describe(hint)
    for member in _split_union(hint):
        # Of a list, the message shows the first element of a wrong type instead of the list.
        if typing.get_origin(member) in LISTS and _is_list(value):
            (element_hint,) = typing.get_args(member)
            bad_value = next(
                element for element in value if not _is_allowed(element, element_hint, open_words)
            )
            expected = _describe(element_hint, is_plural=True)
    raise UsageError(f"{name}: expected {expected}, found {shorten(repr(bad_value))}")


def _is_allowed(value: Any, hint: Any, open_words: Sequence[Any]) -> bool:
    """Return whether an annotation allows a value; a `Literal` in `open_words` allows any text.

    An annotation that is no type which can be checked, such as `Any`, allows every value.
    """
    members = _split_union(hint)
    if len(members) > 1:
        return any(_is_allowed(value, member, open_words) for member in members)
    (hint,) = members
    origin, type_arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    is_allowed = functools.partial(_is_allowed, open_words=open_words)
    if origin is Literal:
        return isinstance(value, str) and (hint in open_words or value in type_arguments)
    if origin in LISTS:
        return _is_list(value) and all(is_allowed(element, type_arguments[0]) for element in value)
    if origin in MAPPINGS:
        return isinstance(value, Mapping) and all(
            is_allowed(k, type_arguments[0]) and is_allowed(v, type_arguments[1]) for k, v in value.items()
        )
    if origin is tuple:
        return (
            _is_list(value)
            and len(value) == len(type_arguments)
            and all(map(is_allowed, value, type_arguments))
        )
    if origin is bool:
        return type(value).__name__ in ("bool", "bool_")  # those of NumPy, too
    if origin in (int, float):
        number_type = numbers.Integral if origin is int else numbers.Real
        return isinstance(value, number_type) and not isinstance(value, bool)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike) and isinstance(os.fspath(value), str)
    return hint is Any or not isinstance(origin, type) or isinstance(value, origin)


def _split_union(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or (hint,) for any other type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_list(value: Any) -> bool:
    """Whether a value is a list or an array: iterable, with a length, and neither text nor mapping."""
    return hasattr(value, "__len__") and isinstance(value, Iterable) and not isinstance(value, NOT_LISTS)


NOT_LISTS = (str, bytes, Mapping)


def is_open(hint: Any) -> bool:
    """Whether a type hint contains a `typing.Protocol`, as `odm.verbs.sources.Source`.

    Such arguments are not checked here but where they are read.
    """
    members = (hint, *typing.get_args(hint))
    return any(getattr(member, "_is_protocol", False) for member in members) or any(map(is_open, members[1:]))


def _describe(hint: Any, *, is_plural: bool = False) -> str:
    """Return the words of a message for the values that an annotation allows: ``a number or a path``.

    With `is_plural` they name several values: ``numbers or paths``. None is left out.
    """
    members = [member for member in _split_union(hint) if member is not type(None)]
    if {str, os.PathLike} <= {typing.get_origin(member) or member for member in members}:
        members.remove(str)  # "a path" says both
    phrases: list[str] = []
    for member in members:
        origin, type_arguments = typing.get_origin(member) or member, typing.get_args(member)
        if origin is Literal and len(type_arguments) <= MANY:
            phrases += map(repr, type_arguments)
        elif origin is Literal:
            such_as = "names such as" if is_plural else "a name such as"
            phrases.append(f"{such_as} {type_arguments[0]!r}")
        elif origin in WORDS:  # type -> its words for one value, and for several
            phrases.append(WORDS[origin][is_plural])
        elif origin in LISTS:
            phrases.append(f"a list of {_describe(type_arguments[0], is_plural=True)}")
        elif origin in MAPPINGS:
            key_hint, value_hint = type_arguments
            key_and_value = f" of {_describe(key_hint)} to {_describe(value_hint)}"
            phrases.append("a mapping" if value_hint is Any else f"a mapping{key_and_value}")
        elif origin is tuple:
            phrases.append(f"({', '.join(map(_describe, type_arguments))})")
        else:
            name = getattr(origin, "__name__", str(origin))
            phrases.append(f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
    return " or ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def _has_null(value: Any) -> bool:
    """Whether a name or a path, alone or in a list or a mapping, has a null character."""
    if isinstance(value, (str, os.PathLike)):
        return "\0" in os.fsdecode(value)
    values = list(value.values()) if isinstance(value, Mapping) else value
    # The first value tells whether they are names: long lists of numbers are not looked through.
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], (str, os.PathLike)):
        return any(_has_null(element) for element in values if isinstance(element, (str, os.PathLike)))
    return False
