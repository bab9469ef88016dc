"""What a format is: the contract between one file in this folder and everything else.

A format is a module with three functions and a constant ``FORMAT``, which `format_of` makes of it. Its
docstring is the specification that ``odm formats NAME`` prints. To add a format, add its file here (or name
the constant in the entry point group ``odm.formats``) and put fixtures into ``fixtures/``; nothing else needs
to be edited.

``sniff(source) -> Sniff | None``
    Looks at a `Source` (the list of files, the first bytes of some) and returns how sure it is, and why. A
    format of JSON files has ``looks_like(preview, head)`` instead, which is shown the keys at the beginning
    of a file, each with the first character of its value, and its first bytes; and makes its ``FORMAT`` with
    `json_format_of` of ``_shared/json/preview.py``.
``read(source, builder, log, options) -> None``
    Passes what it reads to the `Builder`. What cannot be a box becomes an issue in the log,
    ``builder.skipped`` counts the rows lost that way, and reading goes on to the end. Nothing is shifted,
    rounded or clipped. ``builder.wants`` says which shapes are asked for. ``builder.kind``, where it is set
    before, tells whether ground truth or detections are wanted; else the reader sets it.
    ``builder.counterpart()`` is the dataset on the other side, where there is one.
``write(dataset, target, log, options) -> None``
    Calls `Output.plan` for all file names, then writes each once. It is given only what the format can hold:
    boxes that would be lost are left out, and counted in the ledger, before. Without this function, a format
    is only read.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from odm import arguments
from odm.files import Output, Source
from odm.issues import Log, UsageError, hint, spell_setting
from odm.tables import Builder, Dataset, Floats

POOR = 0
LIKELY = 1
SURE = 2
NARROWER = 3
"""Confidences of a `Sniff`: only if nothing fits better; likely; certain; and certain, for a special case of
another format that is certain too."""

RELATIONAL = frozenset("size extension empty unused order score area wh image_id category_id box_id".split())
"""Words of `Format.keeps` for a format that stores images, classes and boxes in separate tables."""

Side = Literal["read", "write", "both"]
Use = Literal["training", "annotation tools", "challenges", "results", "other"]
USES: tuple[Use, ...] = ("training", "annotation tools", "challenges", "results", "other")
"""The groups of formats, in the order in which they are listed."""

DESCRIBING = re.compile(
    r"_?classes\.(?:txt|csv)|predefined_classes\.txt|class_names\.txt|labels?\.txt|labelmap\.txt|images\.txt"
    r"|(?:autosplit_)?(?:train|val|valid|test|trainval)[0-9]*\.txt|.*class-?descriptions.*\.csv|meta\.json"
    r"|.*\.(?:ya?ml|names|data|ini|pbtxt|labels)",
    re.IGNORECASE,
)
"""Names of files that others depend on (class lists, splits, sizes), which are never left out."""


class Sniff(msgspec.Struct, frozen=True, eq=False):
    """The confidence, `POOR` to `NARROWER`, that a source has a format, and the reason in words."""

    confidence: int
    reason: str


Signs = tuple[tuple[str, ...], str | None, tuple[str, ...]]
"""`Format.looks_at`, `Format.begins` and `Format.holds`."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options:
    """The base of the options of a format: a frozen dataclass whose fields are made by `option`.

    Options are compared here, so that no format has to have that generated, which takes a while for them all.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


class Part(msgspec.Struct, frozen=True):
    """Some detections of a source, which are read at one go: all or some rows of one file."""

    file: str
    """One of `Source.files`."""
    rows: int
    """The number of rows, or of rows that would need as much memory as reading the part does."""
    options: Any
    """The options to read them with, for `file` only."""


class Format(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A file format: its name, what it keeps, and the functions that sniff, read and write it."""

    name: str
    title: str
    use: Use = "other"
    """The main use, by which `odm formats` groups the formats."""
    written_by: str = ""
    """The tools that write it, with the versions or layouts that were tried."""
    doc: str
    """The module's docstring."""
    suffixes: tuple[str, ...]
    """Suffixes of its files, with the dot, in lower case."""
    looks_at: tuple[str, ...] = ()
    """Suffixes of the files by which `sniff` recognises a folder, where they are not ``suffixes``; ``"."``
    for files without one, ``""`` where any file may be one. Other folders are not shown to it."""
    begins: str | None = ""
    """First characters, after white space, of the single files with another suffix that `sniff` may
    recognise, or after ``^`` those that it may not; None for any character. Other files are not shown to
    it."""
    holds: tuple[str, ...] = ()
    """Words of which the first bytes of a single file must hold one for `sniff` to recognise it; where there
    are any, other files are not shown to it."""
    expects: tuple[str, ...] = ()
    """Keys, elements or columns of a file, or one entry with the names of the values of a row, separated by
    spaces; for the message about a file that no format recognises. If there are none, `holds` is named."""
    single: bool
    """True where a dataset is one file by nature; a target with one of the suffixes is then that file."""
    owns_suffix: bool = False
    """Whether a target that only its suffix describes is written as this format, where several have it."""
    sniff: Callable[[Source], Sniff | None]
    read: Callable[[Source, Builder, Log, Any], None]
    write: Callable[[Dataset, Output, Log, Any], None] | None
    """None for a format that is only read."""
    options: type[Options]
    keeps: frozenset[str]
    """What survives in a file: of ``size`` (image sizes), ``extension`` (of image names), ``empty`` (images
    without objects), ``unused`` (classes without objects), ``order`` (of classes), ``score``, ``area``,
    ``wh``, ``image_id``, ``category_id``, ``box_id``, ``parent``, ``frequency`` (of classes), ``split``, the
    names of the flags and of what is said of whole images in lower case (``difficult``, ``crowd``, ...;
    ``absent``, ``partial``, ...), ``video`` (with frame numbers), ``track``, ``track_score``, ``group`` (of
    boxes), ``own_fields`` (the ``own`` of images, categories and files), and names of ``Dataset.extras``. Of
    shapes: ``polygon``, ``parts`` (several outlines of one object), ``mask``, ``oriented``, ``rectangle``
    (oriented boxes only as rectangles), ``keypoints`` and ``visibility`` (whether a keypoint is hidden)."""
    shape_is_box: bool = False
    """Whether the box of an object with a shape is not written but is what lies around its shape."""
    boxes_as_shapes: bool = False
    """Whether every object has a shape, so that a box without one is written as its rectangle."""
    shape_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The options with which it keeps more shapes, by the word in ``keeps``: ``task=segment``."""
    max_error_px: float = 0.0
    """The largest distance, in pixels, between a coordinate written and read back."""
    stored_scores: Callable[[Floats], Floats] | None = None
    """For a format that rounds scores: what (n,) scores are when they are read back."""
    pictures: str | None = "images"
    """Below which folder of a target ``--copy-images`` and ``--link-images`` put the pictures; None where the
    format has options of its own for them, or holds them."""
    needs_size: bool = False
    """Whether it can be written only for images whose size is known."""
    crowd_class: str | None = None
    """For a format that can mark crowd boxes of this one class only: its name."""
    exclusive_region: bool = False
    """For a format that keeps regions to ignore: whether it cannot mark one of them as a crowd, too."""
    split_names: frozenset[str] = frozenset()
    """For a format that keeps the split of an image, and can name only some: these."""
    split_is_file: bool = False
    """For a format that keeps the split of an image by writing a file for each, so that a target of one file
    loses it."""
    decide_together: Callable[[Source, Source, Log, Any], tuple[Any, Any]] | None = None
    """For a format whose files do not say what their numbers mean: takes two sources, a log and the options
    of both, and returns the options of each, completed by what both sources show. Issues are logged later,
    when the sources are read."""
    parts: Callable[[Source, Any, int, Log], Sequence[Part]] | None = None
    """For a format whose detections can be read a part at a time: takes a source, its options and a number of
    rows, and returns the parts of the source in order, with about that many rows each if the files allow it.
    Reading one part may not change what another means. Notes about files that are in no part go to the log;
    faults are reported when a part is read."""
    parts_overhead: int = 0
    """The memory, in bytes, of the libraries that reading a part loads."""
    begin: Callable[[Source], object] | None = None
    """For a format that can read in the background: begins to read detections that are needed soon."""
    adapt: Callable[[Any], Mapping[str, Any]] | None = None
    """For a format with dialects: takes the options of writing, and returns the fields above that differ."""
    settle: Callable[[Any, Dataset, str], Any] | None = None
    """For a format whose options depend on what is written: takes the options, the dataset and the shapes
    that are asked for, and returns the completed options. Shapes are ``box``, ``polygon``, ``mask`` or
    ``oriented``, ``same`` if the dataset was read from this format, or ``""``."""

    @property
    def signs(self) -> Signs:
        """The signs that a source must have to be shown to `sniff`."""
        return self.looks_at or self.suffixes, self.begins, self.holds

    def shape_advice(self, word: str) -> str:
        """Advice in brackets, as in " (-O task=segment writes them)", on how to write one kind of shape.

        `word` is the kind as in ``keeps``; the advice is empty if no option writes it.
        """
        option = self.shape_options.get(word)
        return f" ({spell_setting(option)} writes them)" if option else ""

    def settled(self, options: Any, dataset: Dataset, shapes: str) -> Any:
        """Complete the options for writing a dataset with `shapes`; see `settle`."""
        return options if self.settle is None else self.settle(options, dataset, shapes)

    def adapted(self, options: Any) -> Format:
        """A copy of the format with the changes that its options make, such as `keeps`; see `adapt`."""
        return self if self.adapt is None else replace(self, **self.adapt(options))


_FUNCTIONS = ("sniff", "read", "write", "parts", "decide_together", "begin", "adapt", "settle")
"""Functions of a module that are fields of its format by name."""


def format_of(module: str, **declared: Any) -> Format:
    """Make the format that a module defines.

    Fields of `Format` that are not `declared` come from the module: `doc` is its docstring, `name` the last
    part of its name, `options` the class annotated in its ``read``, and functions such as ``sniff`` and
    ``write`` are fields of the same name. `single` is False unless declared.
    """
    members = vars(sys.modules[module])
    fields = {key: members[key] for key in _FUNCTIONS if key in members}
    if "options" not in declared:  # annotations are text: the name of the class
        fields["options"] = members[members["read"].__annotations__["options"]]
    defaults = {"name": module.rpartition(".")[2], "doc": members["__doc__"], "single": False, "write": None}
    return Format(**{**defaults, **fields, **declared})


class OptionSpec(msgspec.Struct, frozen=True, eq=False):
    """One option of a format as the command line sees it."""

    name: str
    help: str
    default: Any
    parse: Callable[[str], Any]
    flag: str | None
    choices: tuple[str, ...] | None
    side: Side
    is_switch: bool
    is_path: bool = False
    """Whether the value names a file or folder that is read."""
    type: Any = str
    """The type of a value from Python; text is given to `parse`."""


def option(
    default: Any,
    help: str,  # noqa: A002 -- the word that every command line library uses
    *,
    flag: str | None = None,
    choices: tuple[str, ...] | None = None,
    side: Side = "both",
    parse: Callable[[str], Any] | None = None,
    path: bool = False,
) -> Any:
    """Make a field of a format's options.

    Each is ``-O name=value`` on the command line and, where `flag` is given, that long flag too. `choices`
    are all values that it may have, None for any; `side` says whether it matters when reading, writing or
    both; `path`, whether its value names a file or folder that is read. `parse` makes a value of its text;
    without it the type of the field decides.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "parse": parse,
            "spec": {"help": help, "flag": flag, "choices": choices, "side": side, "is_path": path},
        },
    )


_SPECS: dict[type[Options], tuple[OptionSpec, ...]] = {}


def option_specs(options: type[Options]) -> tuple[OptionSpec, ...]:
    """The options that a format declares, one for each field of the class `options`. Results are cached."""
    if options in _SPECS:
        return _SPECS[options]
    hints = typing.get_type_hints(options)
    specs = []
    for field in dataclasses.fields(options):
        if not field.metadata:  # not an option of the user: the framework fills it
            continue
        kind = hints[field.name]
        parse = field.metadata["parse"]
        if parse is None:  # by the type, as int for ``int | None``
            types = [t for t in (typing.get_args(kind) or (kind,)) if t is not type(None)]
            parsers = {bool: parse_bool, int: int, float: float}
            parse = parsers.get(types[0], str) if len(types) == 1 else str
        fields: dict[str, Any] = {"name": field.name, "default": field.default, "is_switch": kind is bool}
        # From Python, the name of a file or folder may also be a Path.
        fields["type"] = kind | os.PathLike[str] if field.metadata["spec"]["is_path"] else kind
        specs.append(OptionSpec(parse=parse, **fields, **field.metadata["spec"]))
    return _SPECS.setdefault(options, tuple(specs))


def make_options(format: Format, given: Mapping[str, Any]) -> Any:  # noqa: A002 -- the field's word
    """Make the options of a format from values by name, also with hyphens; strings are parsed.

    Raises
    ------
    UsageError
        If the format has no such option or the value does not fit.
    """
    specs = {spec.name: spec for spec in option_specs(format.options)}
    values = {}
    for name, value in given.items():
        key = name.replace("-", "_")
        spec = specs.get(key)
        if spec is None:
            names = ", ".join(sorted(specs)) or "none"
            raise UsageError(f"{format.name} has no option {name!r}{hint(key, specs)}; it has: {names}")
        if isinstance(value, str):
            if spec.choices and value not in spec.choices:
                raise UsageError(f"{spec.name}={value}: choose one of {', '.join(spec.choices)}")
            try:
                value = spec.parse(value)  # noqa: PLW2901
            except ValueError as e:
                raise UsageError(f"{spec.name}={value}: {e}") from None
        else:
            arguments.check(name, value, spec.type)
        values[key] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return format.options(**values)


def parse_bool(text: str) -> bool:
    """Parse true, yes, 1 or on as True, and false, no, 0 or off as False. Raises ValueError otherwise."""
    word = text.strip().lower()
    if word not in ("true", "yes", "1", "on", "false", "no", "0", "off"):
        raise ValueError("not true or false")
    return word in ("true", "yes", "1", "on")


def parse_size(text: str) -> tuple[int, int]:
    """Parse ``640x480`` as (640, 480): width and height in pixels. Raises ValueError otherwise."""
    match = re.fullmatch(r"\s*([1-9][0-9]{0,9})\s*[xX*,]\s*([1-9][0-9]{0,9})\s*", text, re.ASCII)
    if not match or max(size := (int(match[1]), int(match[2]))) >= 2**31:  # a dataset holds int32
        raise ValueError("expected width and height in pixels, as in 640x480")
    return size


def parse_mapping(text: str) -> dict[str, str]:
    """Parse ``a:b,c:d`` as {"a": "b", "c": "d"}. Raises ValueError if a pair has no colon or no name."""
    pairs = [pair.split(":", 1) for pair in text.split(",") if pair.strip()]
    if not pairs or any(len(pair) != 2 or not pair[0].strip() for pair in pairs):
        raise ValueError("expected name:value pairs separated by commas")
    return {key.strip(): value.strip() for key, value in pairs}
