"""Options, each stated once: as a field of a record, which is all that a command or a function knows of it.

A command has one record, and so has its Python function; that of the command is a subclass with what only a
command has, such as ``--output``. From the fields come click's options with their help and headings
(`odm.cli._flags`), and the keywords of the function, their checks and its signature
(`odm.verbs.sources.verb`). Everything below takes the record, or the few values that it needs, and no
dictionary of options.

To convert a command, or to add one: state its options in a record in its module of `odm.verbs` (what
several commands have is in `shared` and `eval_options` there), name the generated record of the formats'
options among the bases, and put ``@verb(RECORD)`` on a function that takes ``options: RECORD``. In
`odm.cli` derive a record with what is printed (`odm.cli._records`), and put ``@add_flags(RECORD)`` on the
command. Below a heading the options stand in the order of the bases; ``common`` names those that ``-h``
shows.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

import msgspec
from msgspec.structs import replace

HEADINGS = (
    WHAT := "What to evaluate",
    CONVERT := "What to convert",
    MERGE := "Merge, sample and split",
    SOURCE := "Reading the source",
    TARGET := "Writing the target",
    CHECKS := "Checks",
    REPAIR := "Repair",
    EQUAL := "What counts as equal",
    PROTOCOL := "Protocol",
    ANALYSIS := "Analysis",
    GATES := "Gates",
    OUTPUT := "Output",
    READING := "Reading",
    GT := "Reading the ground truth",
    DET := "Reading the detections",
    A := "Reading A",
    B := "Reading B",
    OLD := "Reading OLD",
    NEW := "Reading NEW",
    MEMORY := "Memory and clusters",
)
"""The headings of a help page, in order."""

FormatOptions = Mapping[str, dict[str, Any]]
"""The options of formats by name, for each side; those for whichever side has them under ``""``."""


class Spec(msgspec.Struct, frozen=True):
    """What a command needs to know of an option besides its name, type and default."""

    help: str
    metavar: str = ""
    heading: str = ""
    after: str = ""
    """The option below which the help shows it, where that is not the order of the fields."""
    short: tuple[str, ...] = ()
    """Further flags, such as ``-q``."""
    repeatable: bool = False
    path: Literal["", "read", "written"] = ""
    choices: Sequence[str] = ()
    """The words that it takes, if its type does not name them."""
    completions: Callable[[], Sequence[str]] | None = None
    """The words that a shell completes in a list."""
    required: bool = False
    flag_value: str | None = None
    """The value of the flag alone."""
    parse: Callable[[str], Any] | None = None
    """Raises ValueError or `OdmError` for a text that is no value."""
    bounds: tuple[int, int | None] | None = None
    show_default: bool = True
    needs_all: bool = False
    """Whether it looks at all detections at once."""
    boxes_only: bool = False
    """Whether protocols that measure tracks refuse it."""


def option(help: str, metavar: str = "", *, default: Any, kw_only: bool = True, **spec: Any) -> Any:  # noqa: A002
    """State an option: what its help says, what stands for its value there, and more of `Spec`."""
    return _Statement(default, Spec(help, metavar, **spec), kw_only)


def argument(*, default: Any = inspect.Parameter.empty, kw_only: bool) -> Any:
    """State an argument by place, which is no option; type checkers look at the keywords of this call."""
    return _Statement(default, None, kw_only)


class _Statement(NamedTuple):
    """What `option` or `argument` states of a field; `Options` adds its name and annotation."""

    default: Any
    spec: Spec | None
    kw_only: bool


class Field(NamedTuple):
    """A field of a record: an option if it has a `spec`, else an argument or what only a function takes."""

    name: str
    annotation: str
    default: Any
    spec: Spec | None
    kw_only: bool


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, argument))
class Options:
    """A record of options, as `dataclasses.dataclass` makes it, but without the milliseconds that takes."""

    verb: ClassVar[str] = ""
    """The name of the command."""
    common: ClassVar[tuple[str, ...]] = ()
    """The names of the options that ``-h`` shows, also of formats, in order; all options if empty."""
    sides: ClassVar[tuple[str, ...]] = ()
    """The sides that may have format options of their own, such as ``gt`` and ``det``."""
    takes_formats: ClassVar[bool] = False
    formats: FormatOptions
    """The values of the options of formats: for each side (``""`` for all of them) by name."""
    _stated: ClassVar[dict[str, Field]] = {}
    _fields: ClassVar[dict[str, Field] | None] = None

    def __init_subclass__(
        cls, *, heading: str = "", common: str = "", sides: Sequence[str] | None = None, verb: str = ""
    ) -> None:
        """Collect the fields that the class itself states, as options under `heading`.

        With `sides` the fields are not collected: they are format options, which only type checkers look at.
        """
        cls._fields, cls._stated = None, {}
        if verb:
            cls.verb = verb
        if common:
            cls.common = tuple(common.split())
        if sides is not None:
            cls.sides, cls.takes_formats = tuple(sides), True
            return
        for name, hint in inspect.get_annotations(cls).items():
            value = vars(cls)[name]  # a plain value is the default of what only a function takes
            default, spec, kw_only = value if isinstance(value, _Statement) else (value, None, True)
            spec = spec and replace(spec, heading=spec.heading or heading)
            cls._stated[name] = Field(name, hint, default, spec, kw_only)

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            """Set the fields to `values` or defaults. Raises TypeError if one that has none is missing."""
            defaults = {name: field.default for name, field in self.fields().items()}
            self.__dict__.update(defaults, formats={"": {}, **{side: {} for side in self.sides}}, **values)
            missing = [repr(n) for n, v in self.__dict__.items() if v is inspect.Parameter.empty]
            if missing:
                missing_text = f"argument{'s' if len(missing) > 1 else ''}: {' and '.join(missing)}"
                raise TypeError(f"{self.verb}() missing {len(missing)} required positional {missing_text}")

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(f"{name} is read only")

    @classmethod
    def fields(cls) -> dict[str, Field]:
        """Return the fields by name: positional ones, then those of the record, then those of its bases.

        They are collected at the first call. A field that is stated again stands where the base has it, under
        its heading unless it states another. A field with `Spec.after` stands below that field.
        """
        if cls._fields is None:
            # The fields that the class itself states, then those that each base states.
            stated = [vars(record).get("_stated", {}) for record in cls.__mro__]
            fields = _merge_statements(stated)
            # Those of the last base first: ``gt`` of `PairOptions` before ``det`` of `EvalOptions`.
            positional = [f.name for base in reversed(stated) for f in base.values() if not f.kw_only]
            names = list(dict.fromkeys([*positional, *fields]))
            after_of_name = {name: spec.after for name in names if (spec := fields[name].spec)}
            for name, after in after_of_name.items():
                if after in fields:
                    names.remove(name)
                    names.insert(names.index(after) + 1, name)
            cls._fields = {name: fields[name] for name in names}
        return cls._fields

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the type of each field, by its annotation in the module of the record that states it."""
        types: dict[str, Any] = {}
        for record in cls.__mro__:
            hints = {n: f.annotation for n, f in vars(record).get("_stated", {}).items() if n not in types}

            def of_fields() -> None: ...  # a function, as `get_type_hints` needs one to resolve the names

            of_fields.__annotations__ = hints
            types |= typing.get_type_hints(of_fields, vars(sys.modules[record.__module__])) if hints else {}
        return types

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The parameters of a function that takes the fields, ``log`` last, then keywords for formats."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY  # by `kw_only`
        fields = sorted(cls.fields().values(), key=lambda field: field.name == "log")
        parameters = [
            inspect.Parameter(f.name, kinds[f.kw_only], default=f.default, annotation=f.annotation)
            for f in fields
        ]
        if cls.takes_formats:
            name = "more" if "options" in cls.fields() else "options"
            parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD))
        return parameters

    def in_use(self) -> Iterator[tuple[str, Spec]]:
        """Yield name and `Spec` of the options that have a value: not None, False or empty; 0 is a value."""
        for name, field in self.fields().items():
            value = self.__dict__[name]
            is_empty = isinstance(value, (str, tuple, list, dict)) and not value
            if field.spec and value is not None and value is not False and not is_empty:
                yield name, field.spec

    @classmethod
    def from_values(cls, values: Mapping[str, Any], formats: FormatOptions) -> Self:
        """The record of the `values` that are fields, and of the options of formats."""
        record = cls(**{name: values[name] for name in cls.fields() if name in values})
        record.__dict__["formats"] = formats
        return record


def _merge_statements(stated: Sequence[Mapping[str, Field]]) -> dict[str, Field]:
    """Return one field for each name in `stated`, the fields of a class and of its bases.

    A field stands where the last base has it, with the default and text of the first that states it.
    """
    fields: dict[str, Field] = {}
    for k, base_fields in enumerate(stated):
        for name in base_fields:
            if not any(name in later for later in stated[k + 1 :]):  # this is the last base that has it
                statements = [base[name] for base in stated[: k + 1] if name in base]
                fields[name] = _add_heading(statements[0], statements)
    return fields


def _add_heading(field: Field, statements: Sequence[Field]) -> Field:
    """Return a field under the first heading that one of its statements has."""
    heading = next((s.spec.heading for s in statements if s.spec and s.spec.heading), "")
    return field._replace(spec=field.spec and replace(field.spec, heading=heading))
