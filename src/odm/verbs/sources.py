"""What a function takes as a source, and what its arguments and the options of its command have in common."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from msgspec.structs import replace

from odm import arguments, inputs
from odm.converters import KeptTruth, Loaded, Request, load_pair
from odm.converters.edit import parse_renames
from odm.converters.load import Check, load_all
from odm.converters.pending import as_json
from odm.files import Unreadable, as_utf8, read_bytes
from odm.formats import FORMATS, option_specs
from odm.issues import Log, OdmError, PathError, UsageError, hint, printable
from odm.tables import Dataset, Kind
from odm.verbs.words import Analysis, BoxProtocolName, FormatName, Path, ProtocolName

P = ParamSpec("P")
T = TypeVar("T")


class Columns(Protocol):
    """A table of pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any:
        """Their names, or the columns."""

    def __getitem__(self, key: Any, /) -> Any: ...


Source = Path | Sequence[Path] | Dataset | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Columns
"""A path, paths whose contents are merged, a data set, or what `odm.converters.bridges.from_object` takes."""

OPEN = (FormatName, ProtocolName, BoxProtocolName, Analysis)
"""Words of which packages may add some, or that are refused with better advice where they are used."""
_FLAG = re.compile(r"(?<![\w`-])--([a-z]+(?:-[a-z]+)*)")


def verb(function: Callable[P, T]) -> Callable[P, T]:
    """A function for users: a run of its own, whose messages name keywords where a command names flags.

    COCO's dictionaries and lists of results, alone or as runs by their names, become files in memory first.
    """

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        try:
            values: Any = [_with_files(value) for value in args]
            named: Any = {name: _with_files(value) for name, value in keywords.items()}
            arguments.check_call(function, values, named, OPEN)
            with inputs.gather():
                return function(*values, **named)
        except OdmError as e:
            e.args = (_FLAG.sub(lambda match: match[1].replace("-", "_"), str(e.args[0])), *e.args[1:])
            raise

    return call


def _with_files(value: Any) -> Any:
    """An argument in which COCO's dictionaries, itself or its values by name, are files in memory."""
    if not isinstance(value, Mapping) and not (isinstance(value, (list, tuple)) and value):
        return value
    try:
        if (text := as_json(value)) is value and isinstance(value, Mapping):
            runs = {name: as_json(one) for name, one in value.items()}
            return value if all(one is value[name] for name, one in runs.items()) else runs
    except ValueError as e:
        raise UsageError(str(e)) from None
    return text


def gathered(values: Mapping[str, Any], verb: str, *sides: str, repeated: str = "") -> dict[str, Any]:
    """The arguments of a function as its command has them.

    Parameters
    ----------
    values
        The arguments by name, with the options of formats in ``options``; those of one side begin with its
        name.
    sides
        As for `odm.cli._common.format_options`.
    repeated
        Names of arguments of which a command takes several: a single value becomes a list.
    """
    given = {name: _plain(value) for name, value in values.items() if name not in ("options", "log")}
    for name in repeated.split():
        value = given[name]
        single = value is None or isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
        given[name] = [*(() if value is None else (value,) if single else map(_plain, value))]
    options: dict[str, dict[str, Any]] = {side: {} for side in ("", *sides)}
    known: dict[str, Any] = {}
    for name, value in values["options"].items():
        for spec in () if known else (s for f in FORMATS.values() for s in option_specs(f.options)):
            known[spec.name] = known.get(spec.name, str) | spec.type
        side = next((s for s in sides if name.startswith(f"{s}_") and name not in known), "")
        own = name.removeprefix(f"{side}_") if side else name
        if own not in known:
            raise UsageError(f"{verb} has no option {name!r}{hint(name, [*given, *known])}")
        arguments.check(name, value, known[own] | None)
        if value is not None and value is not False:
            options[side][own] = _plain(value)
    for name, other in (("format", "format_"), ("save", "save_to"), ("out", "report")):
        if name in given and other not in given:
            given[other] = given.pop(name)
    return {**given, "verb": verb, "output": "", "options": options, "quiet": False, "verbose": False}


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a command's arguments those that concern how files are opened."""
    return {name: given[name] for name in ("follow_links", "max_size", "encoding")}


def request_of(path: str, given: Mapping[str, Any], side: str, kind: Kind | None, flag: str = "") -> Request:
    """What is to be read of one side of a command, and how; `flag` names its format."""
    flag = flag or f"--{side}-format"
    own = reading(given)
    own |= {
        "encoding": given.get(f"{side}_encoding") or own["encoding"],
        "wants": given.get("wants", frozenset()),
    }
    own["own_fields"] = bool(given.get("own_fields")) and kind == "gt"
    name = "format_" if flag == "--format" else flag[2:].replace("-", "_")
    options = given["options"][side] if side else {}
    shared = given["options"][""]
    if side == "det":
        is_beyond = {
            "image_id": given.get("extra_images") in ("ignore", "background"),
            "category_id": given.get("only_classes") is not None,
        }
        own["unlisted"] = frozenset(key for key, value in is_beyond.items() if value)
    return Request(path=path, format=given[name], options=options, shared=shared, kind=kind, flag=flag, **own)


def is_path(source: object) -> bool:
    """Whether a source is a single path."""
    return isinstance(source, (str, os.PathLike))


def paths_of(*sources: object) -> list[str]:
    """The paths among sources, of which one may be a list of them."""
    each = (s if isinstance(s, (list, tuple)) else (s,) for s in sources)
    return [os.fspath(path) for source in each for path in source if isinstance(path, (str, os.PathLike))]


def dataset_of(
    source: Any,
    given: Mapping[str, Any],
    log: Log,
    *,
    verb: str,
    side: str = "",
    kind: Kind | None = None,
    other: Callable[[], Dataset | None] | None = None,
) -> Loaded | Dataset:
    """A source as tables: `Loaded` if it is a single path, otherwise a data set.

    Parameters
    ----------
    side
        Whose options apply; without one those of ``--format``.
    other
        Gives the other side, whose images and classes ids of this one may mean.

    Raises
    ------
    UsageError
        If it is nothing that can be read; the message begins with `verb`.
    """
    if isinstance(source, Dataset):
        return source
    listed = [source] if is_path(source) else list(source) if isinstance(source, (list, tuple)) else []
    if not listed or not all(map(is_path, listed)):
        from odm.converters.bridges import from_object

        try:
            return from_object(source, kind, other)
        except TypeError as e:
            raise UsageError(f"{verb} {e}") from None
        except ValueError as e:
            raise UsageError(f"{verb}: {e}") from None
    inputs.name(*listed)
    asked = {**given["options"][""], **given["options"].get(side, {})}
    spare = {"images"} if given.get("report") or given.get("inline") else set()
    requests = [
        replace(
            request_of(os.fspath(path), given, side, kind, "" if side else "--format"),
            options=asked,
            shared={},
            own_fields=bool(given.get("own_fields")),
            spare=frozenset(asked) if len(listed) > 1 else frozenset(spare),
        )
        for path in listed
    ]
    how: dict[str, Any] = {"skip_bad": given["skip_bad"], "counterpart": other}
    loaded = load_all(requests, log, skip_bad_files=given.get("skip_bad_files", False), **how)
    if len(loaded) == 1:
        return loaded[0]
    from odm.converters import merge

    same_image = given.get("same_image", "error")
    return merge([one.dataset for one in loaded], same_image=same_image, log=log).dataset


def load_sides(
    one: Any,
    two: Any,
    given: Mapping[str, Any],
    log: Log,
    *,
    names: tuple[str, str] = ("gt", "det"),
    kinds: tuple[Kind, Kind] = ("gt", "det"),
    kept: KeptTruth | None = None,
    check: Check | None = None,
) -> tuple[Dataset, Dataset]:
    """Two sides as tables: two paths are read together, what is in memory is taken as it is.

    Parameters
    ----------
    names, kinds
        Of the sides: whose options apply, and what they are.
    kept
        For several runs against one ground truth.
    check
        What is checked of two paths, in place of the usual.
    """
    if is_path(one) and is_path(two):
        first, second = (
            request_of(os.fspath(path), given, name, kind)
            for path, name, kind in zip((one, two), names, kinds, strict=True)
        )
        inputs.name(one, two)
        own_check: dict[str, Any] = {} if check is None else {"check": check}
        loaded = load_pair(
            first,
            second,
            log,
            skip_bad=given["skip_bad"],
            skip_bad_files=given.get("skip_bad_files", False),
            spare=("images",) if given.get("report") else (),
            kept=kept,
            **own_check,
        )
        return loaded[0].dataset, loaded[1].dataset
    read: dict[str, Any] = {"given": given, "log": log, "verb": given["verb"]}
    of: list[dict[str, Any]] = [{"side": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)]
    if isinstance(two, Dataset) and not isinstance(one, Dataset):  # a file may lack what the other side knows
        return only(dataset_of(one, **read, **of[0], other=lambda: two)), two
    found = only(dataset_of(one, **read, **of[0]))
    return found, only(dataset_of(two, **read, **of[1], other=lambda: found))


def load_source(
    source: Any, given: Mapping[str, Any], log: Log, verb: str
) -> tuple[Loaded | Dataset, Callable[[], Dataset] | None]:
    """A single source as its options say, and what reads the ground truth that it refers to."""
    truth = given["gt"]
    if truth is not None and not is_path(truth):
        held = only(dataset_of(truth, given, log, verb=verb, kind="gt"))
        refer: Callable[[], Dataset] | None = lambda: held  # noqa: E731
    else:
        from odm.converters import reference

        refer = reference(truth, log)
    return dataset_of(source, given, log, verb=verb, kind=given["kind"], other=refer), refer


def only(loaded: Loaded | Dataset) -> Dataset:
    """The data set alone."""
    return loaded.dataset if isinstance(loaded, Loaded) else loaded


def split_names(text: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names separated by commas, or a list of names."""
    if text is not None and not isinstance(text, str):
        return tuple(text)
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def text_of_file(path: str, encoding: str = "") -> str:
    """The text of a file in UTF-8, or in the encoding that was named. PathError if it is not."""
    try:
        data = read_bytes(path)
        return (as_utf8(data, encoding) if encoding else data).removeprefix(b"\xef\xbb\xbf").decode()
    except Unreadable as e:
        raise PathError(f"{printable(path)}: {e}") from None
    except LookupError:
        raise UsageError(
            f"--encoding: unknown encoding {printable(encoding)}; give one such as gb18030"
        ) from None
    except UnicodeError:
        raise PathError(f"{printable(path)}: not {encoding or 'UTF-8'} text") from None


def lines_of_files(texts: Iterable[str], encoding: str = "") -> list[str]:
    """The same texts, with each ``@FILE`` replaced by the lines of that file."""
    found: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            found.append(text)
            continue
        content = text_of_file(text[1:], encoding)
        found += [line.strip() for line in content.split("\n") if line.strip()]
    return found


def renames_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The classes to rename: from ``OLD=NEW``, ``@FILE`` or mappings."""
    texts = [one for one in given["rename"] if isinstance(one, str)]
    mappings = [one for one in given["rename"] if not isinstance(one, str)]
    return functools.reduce(operator.or_, mappings, parse_renames(lines_of_files(texts, given["encoding"])))
