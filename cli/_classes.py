"""Quick dataclasses: what ``dataclasses.dataclass`` is for odm's modules while the command line runs.

The standard one compiles up to six methods for each class, a third of a millisecond. A command imports some
eighty classes and makes objects of half of them: that was a sixth of the time of a small evaluation. Here
``__init__`` is compiled when the first object is made, and the other methods are closures. A program that
imports odm, and a class of another package, get the standard ones.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import reprlib
from collections.abc import Callable
from typing import Any

_standard = dataclasses.dataclass


def dataclass(cls: Any = None, /, **how: bool) -> Any:
    """As ``dataclasses.dataclass``."""
    if cls is None:
        return functools.partial(dataclass, **how)
    ours = any(base.__module__.startswith("odm.") for base in cls.__mro__)
    if not ours or how.keys() - {"frozen", "slots", "eq", "repr", "kw_only"}:
        return _standard(cls, **how)
    own = set(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # or its signature would be written there
    plain = {name: how.get(name, False) for name in ("slots", "kw_only")}
    made: Any = _standard(cls, init=False, repr=False, eq=False, **plain)
    frozen = how.get("frozen", False)
    methods: dict[str, Any] = {"__init__": _LateInit(made, frozen)}
    if how.get("repr", True):
        methods["__repr__"] = reprlib.recursive_repr()(_written)
    if how.get("eq", True):
        methods.update(_equality(made, frozen))
    if frozen:
        methods.update(__setattr__=_refuse, __delattr__=_refuse)
        if how.get("slots", False):
            methods.update(__getstate__=_state, __setstate__=_take_state)
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    return made


class _LateInit:
    """``__init__`` of a class, which puts the compiled one in its place when it is first asked for."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: Any, owner: Any) -> Any:
        made = self._cls.__init__ = _init_of(self._cls, self._frozen)
        return made.__get__(instance, owner)


def _init_of(cls: Any, frozen: bool) -> Any:
    names: dict[str, Any] = {"_put": object.__setattr__, "_missing": dataclasses.MISSING}
    by_place: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name = value = parameter = field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_new_{name}"] = field.default_factory
            parameter, value = f"{name}=_missing", f"_new_{name}() if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        (by_name if field.kw_only else by_place).append(parameter)
        lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), names)  # noqa: S102 -- names of fields
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _equality(cls: Any, frozen: bool) -> dict[str, Callable[..., Any] | None]:
    values = operator.attrgetter("__class__", *(f.name for f in dataclasses.fields(cls) if f.compare))

    def equal(one: Any, other: Any) -> Any:
        return values(one) == values(other) if other.__class__ is one.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": (lambda one: hash(values(one))) if frozen else None}


def _written(one: Any) -> str:
    shown = (f"{f.name}={getattr(one, f.name)!r}" for f in dataclasses.fields(one) if f.repr)
    return f"{one.__class__.__qualname__}({', '.join(shown)})"


def _refuse(one: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r} of {one.__class__.__name__}")


def _state(one: Any) -> list[Any]:
    return [getattr(one, field.name) for field in dataclasses.fields(one)]


def _take_state(one: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(one), state, strict=True):
        object.__setattr__(one, field.name, value)
