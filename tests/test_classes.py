"""The quick dataclasses of the command line do what the standard ones do."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import sys

import pytest

import odm
from odm.cli import _classes

SAMPLE = """
import dataclasses
from functools import cached_property

@dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: list = dataclasses.field(default_factory=list)
    c: float = dataclasses.field(default=1.5, compare=False, repr=False)

@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bare:
    "Neither equality nor text."
    a: int = 0

@dataclass(frozen=True, kw_only=True)
class Named:
    a: int
    b: int = 2
    def __post_init__(self):
        if self.a > 5:
            object.__setattr__(self, "b", self.a)
    @cached_property
    def twice(self):
        return self.a * 2
    def __repr__(self):
        return "own text"

@dataclass(frozen=True)
class Derived(Frozen):
    d: str = dataclasses.field(default="x", kw_only=True)

@dataclass
class Open:
    a: object = None

@dataclass(slots=True)
class OpenSlots:
    a: int = 1

@dataclass(order=True)
class Ordered:
    a: int = 1
"""
DO = """
Frozen(1); Frozen(1, [2], 3.0); Frozen(b=1, a=2); Frozen(); Frozen(1, 2, 3, 4); Frozen(1, d=2)
Frozen(1) == Frozen(1); Frozen(1) == Frozen(2); Frozen(1) == Derived(1); Frozen(1, [], 2.0) == Frozen(1, [], 3.0)
Frozen(1).b is Frozen(1).b; hash(Frozen(1)); hash(Frozen(1, ())) == hash(Frozen(1, (), 9.0)); Frozen(1) != 1
setattr(Frozen(1), "a", 2); setattr(Bare(), "a", 2); delattr(Frozen(1), "a"); Frozen(1).__dict__
pickled(Frozen(1, [2])); copy.copy(Frozen(1, [2])); copy.deepcopy(Frozen(1, [2])) == Frozen(1, [2])
dataclasses.replace(Frozen(1), a=5); dataclasses.astuple(Frozen(1)); dataclasses.asdict(Derived(1, [2]))
Bare() == Bare(); hash(Bare()) == hash(Bare()); repr(Bare()).partition(" at ")[0]; Bare.__doc__; Bare.__match_args__
Named(a=1).b; Named(a=7).b; Named(1); Named(a=1) == Named(a=1, b=2); Named(a=4).twice; Named(a=1); Named.__match_args__
Derived(1, d="y"); Derived(1, [], 2.0, "y"); Derived(1) == Derived(1); setattr(Derived(1), "d", 2)
Open(); hash(Open()); Open([1]) == Open([1]); setattr(Open(), "a", 2); vars(Open(3)); pickled(Open(3))
OpenSlots(2); setattr(OpenSlots(), "z", 2); pickled(OpenSlots(4)); Ordered(1) < Ordered(2); Open(1) < Open(2)
"""


def outcomes(dataclass):
    """What each line of `DO` gives with the classes of `SAMPLE`, as text."""
    name = "odm.sample"
    module = type(sys)(name)
    module.dataclass = dataclass
    sys.modules[name] = module
    try:
        exec(SAMPLE, vars(module))
        found = {}
        for line in DO.replace("\n", ";").split(";"):
            names = vars(module) | {"copy": copy, "pickled": lambda x: pickle.loads(pickle.dumps(x))}
            try:
                found[line] = repr(eval(line.strip() or "0", names))
            except (TypeError, AttributeError) as e:
                frozen = isinstance(e, dataclasses.FrozenInstanceError)
                found[line] = type(e).__name__ if frozen or isinstance(e, AttributeError) else str(e)
        return found
    finally:
        del sys.modules[name]


def test_they_behave_as_the_standard_ones():
    want = outcomes(dataclasses.dataclass)
    assert outcomes(_classes.dataclass) == want
    assert len(want) > 50


def test_every_class_takes_the_same_arguments():
    """The one that is compiled later has the parameters of the standard one, in every class that odm has."""
    for module in pkgutil.walk_packages(odm.__path__, "odm."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:  # an extra that is not installed
                continue
    classes = {
        cls
        for name, module in list(sys.modules.items())
        if name.startswith("odm.")
        for cls in vars(module).values()
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__.startswith("odm.")
    }
    assert len(classes) > 150
    for cls in classes:
        frozen = cls.__dataclass_params__.frozen
        ours, usual = (
            [(p.name, p.kind, p.default is p.empty) for p in inspect.signature(init).parameters.values()]
            for init in (_classes._init_of(cls, frozen), cls.__init__)
        )
        assert ours == usual, cls


def test_a_class_of_another_package_stays_as_it_is():
    made = _classes.dataclass(frozen=True)(
        type("Own", (), {"__module__": "own", "__annotations__": {"a": int}})
    )
    assert inspect.isfunction(vars(made)["__init__"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made(1).a = 2
