"""Convert the sources that a function takes, and derive its keywords from the options of its command."""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeGuard, TypeVar

from msgspec.structs import replace

from odm import arguments, checks, inputs
from odm.converters import KeptTruth, Loaded, Request, load_pair
from odm.converters.edit import parse_renames
from odm.converters.load import Check, load_all
from odm.converters.pending import as_json
from odm.files import Unreadable, as_utf8, read_bytes
from odm.formats import FORMATS, option_specs
from odm.issues import Log, PathError, UsageError, hint, printable, shorten, spell
from odm.tables import Dataset
from odm.verbs.options import Options
from odm.verbs.shared import ReadingOptions, Side
from odm.verbs.words import Analysis, BoxProtocolName, FormatName, Path, ProtocolName

if TYPE_CHECKING:
    from odm.converters.merging import SameImage

O = TypeVar("O", bound=Options)  # noqa: E741
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Columns(Protocol):
    """A table of pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any:
        """Their names, or the columns."""

    def __getitem__(self, key: Any, /) -> Any: ...


Source = Path | Sequence[Path] | Dataset | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Columns
"""A path, paths whose contents are merged, a dataset, or what `odm.converters.bridges.from_object` takes."""

OPEN = (FormatName, ProtocolName, BoxProtocolName, Analysis)
"""Words of which packages may add some, or that are refused with better advice where they are used."""


def verb(record: Callable[P, R]) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Make a function for users of one that takes a record: the fields of the record are its keywords.

    Each call is a run of its own. COCO's dictionaries and lists of results, alone or as runs by their names,
    become files in memory first.
    """
    options: Any = record

    def decorate(function: Callable[[R], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            values = {**dict(zip(by_place, args, strict=False)), **keywords}
            if len(args) > len(by_place) or len(values) < len(args) + len(keywords):
                signature.bind(*args, **keywords)  # raises what Python raises
            with inputs.gather():
                return function(from_keywords(options, values))

        returned = inspect.signature(function).return_annotation
        call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return call

    parameters = options.parameters()
    signature = inspect.Signature(parameters)
    by_place = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return decorate


def from_keywords(record: type[O], keywords: Mapping[str, Any]) -> O:
    """Make a record of keywords and check them all; options of formats become its ``formats``, by side.

    Raises UsageError for a keyword that does not exist or a value of a wrong type.
    """
    values = {name: _with_files(value) for name, value in keywords.items()}
    fields = record.fields()
    arguments.check_values(record.types(), values, OPEN)
    format_values = {name: value for name, value in values.items() if name not in fields}
    formats: dict[str, dict[str, Any]] = {side: {} for side in ("", *record.sides)}
    type_of_option: dict[str, Any] = {}
    for name, value in format_values.items():
        # The types of all options of formats are collected at the first one, as that imports every format.
        for spec in () if type_of_option else (s for f in FORMATS.values() for s in option_specs(f.options)):
            type_of_option[spec.name] = type_of_option.get(spec.name, str) | spec.type
        side = next((s for s in record.sides if name.startswith(f"{s}_") and name not in type_of_option), "")
        option_name = name.removeprefix(f"{side}_") if side else name
        if option_name not in type_of_option or not record.takes_formats:
            raise UsageError(f"{record.verb} has no option {name!r}{hint(name, [*fields, *type_of_option])}")
        arguments.check(name, value, type_of_option[option_name] | None)
        if value is not None and value is not False:
            formats[side][option_name] = _plain(value)
    types = record.types()
    for name, value in values.items():
        is_array = hasattr(value, "tolist") and name in types and not arguments.is_open(types[name])
        values[name] = value.tolist() if is_array else _plain(value)
    return record.from_values(values, formats)


def _with_files(value: Any) -> Any:
    """Return an argument with COCO's dictionaries and lists of results as files in memory.

    These are the argument itself, or its values by name, such as the runs of a comparison.
    """
    if not isinstance(value, Mapping) and not (isinstance(value, (list, tuple)) and value):
        return value
    try:
        if (text := as_json(value)) is value and isinstance(value, Mapping):
            runs = {name: as_json(one) for name, one in value.items()}
            return value if all(one is value[name] for name, one in runs.items()) else runs
    except ValueError as e:
        raise UsageError(str(e)) from None
    return text


def listed(value: Any) -> list[Any]:
    """Return the values of an option that takes one or several, as a list."""
    is_single = value is None or isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
    return [*(() if value is None else (value,) if is_single else map(_plain, value))]


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def request_of(
    path: Path,
    side: Side,
    options: ReadingOptions,
    wants: frozenset[str] = frozenset(),
    *,
    own_fields: bool = False,
) -> Request:
    """Make the request to read one side of a command."""
    return Request(
        path=os.fspath(path),
        format=side.format,
        options=side.options,
        shared=side.shared,
        kind=side.kind,
        flag=side.flag,
        wants=wants,
        own_fields=own_fields,
        unlisted=side.unlisted,
        **options.opening(side.encoding),
    )


def is_path(source: object) -> TypeGuard[Path]:
    """Whether a source is a single path."""
    return isinstance(source, (str, os.PathLike))


def paths_of(*sources: object) -> list[str]:
    """The paths among sources, of which one may be a list of them."""
    lists = (s if isinstance(s, (list, tuple)) else (s,) for s in sources)
    return [os.fspath(path) for source in lists for path in source if isinstance(path, (str, os.PathLike))]


def dataset_of(
    source: Any,
    side: Side,
    options: ReadingOptions,
    log: Log,
    *,
    counterpart: Callable[[], Dataset | None] | None = None,
    wants: frozenset[str] = frozenset(),
    own_fields: bool = False,
    draws: bool = False,
    same_image: SameImage = "error",
) -> Loaded | Dataset:
    """Read a source into tables: `Loaded` if it is a single path, otherwise a dataset.

    Parameters
    ----------
    counterpart
        Gives the other side, whose images and classes ids of this one may mean.
    wants, own_fields
        As for `odm.converters.Request`.
    draws
        Whether a page needs the option ``images``, which the format may not have.

    Raises
    ------
    UsageError
        If it is nothing that can be read; the message begins with the name of the command.
    """
    if isinstance(source, Dataset):
        return source
    paths = [source] if is_path(source) else list(source) if isinstance(source, (list, tuple)) else []
    if not paths or not all(map(is_path, paths)):
        from odm.converters.bridges import from_object

        try:
            return from_object(source, side.kind, counterpart)
        except TypeError as e:
            raise UsageError(f"{options.verb} {e}") from None
        except ValueError as e:
            side_text = {"gt": "ground truth: ", "det": "detections: ", None: ""}[side.kind]
            raise UsageError(f"{options.verb}: {side_text}{e}") from None
    inputs.name(*paths)
    format_options = {**side.shared, **side.options}
    spare = frozenset(format_options) if len(paths) > 1 else frozenset({"images"} if draws else ())
    requests = [
        replace(
            request_of(path, side, options, wants, own_fields=own_fields),
            options=format_options,
            shared={},
            spare=spare,
        )
        for path in paths
    ]
    loaded = load_all(
        requests,
        log,
        skip_bad=options.skip_bad,
        skip_bad_files=options.skip_bad_files,
        counterpart=counterpart,
    )
    if len(loaded) == 1:
        return loaded[0]
    from odm.converters import merge

    return merge([one.dataset for one in loaded], same_image=same_image, log=log).dataset


def load_sides(
    first: Any,
    second: Any,
    sides: tuple[Side, Side],
    options: ReadingOptions,
    log: Log,
    *,
    wants: frozenset[str] = frozenset(),
    own_fields: bool = False,
    draws: bool = False,
    kept: KeptTruth | None = None,
    check: Check = checks.run,
) -> tuple[Dataset, Dataset]:
    """Read two sides into tables: two paths are read together, what is in memory is taken as it is.

    Parameters
    ----------
    wants, own_fields, draws
        As for `dataset_of`; of two paths, only that of the ground truth is read with `own_fields`.
    kept
        Keeps the ground truth of two paths for further runs against it, see `load_pair`.
    check
        What checks each of two paths; for other sources it is not used.
    """
    if is_path(first) and is_path(second):
        requests = [
            request_of(path, side, options, wants, own_fields=own_fields and side.kind == "gt")
            for path, side in zip((first, second), sides, strict=True)
        ]
        inputs.name(first, second)
        loaded = load_pair(
            requests[0],
            requests[1],
            log,
            skip_bad=options.skip_bad,
            skip_bad_files=options.skip_bad_files,
            spare=("images",) if draws else (),
            kept=kept,
            check=check,
        )
        return loaded[0].dataset, loaded[1].dataset

    def read(k: int, counterpart: Callable[[], Dataset | None] | None = None) -> Dataset:
        return dataset_alone(
            dataset_of(
                (first, second)[k],
                sides[k],
                options,
                log,
                counterpart=counterpart,
                wants=wants,
                own_fields=own_fields,
                draws=draws,
            )
        )

    if isinstance(second, Dataset) and not isinstance(first, Dataset):
        return read(0, lambda: second), second  # a file may lack what the other side knows
    truth = read(0)
    return truth, read(1, lambda: truth)


def truth_reader(
    truth: Any,
    side: Side,
    options: ReadingOptions,
    log: Log,
    wants: frozenset[str],
    *,
    draws: bool = False,
    same_image: SameImage = "error",
) -> Callable[[], Dataset] | None:
    """Return a function that reads the ground truth of a results file; `side` is how that file is read."""
    if truth is None or is_path(truth):
        from odm.converters import reference

        return reference(truth, log)
    side = replace(side, kind="gt")
    dataset = dataset_alone(
        dataset_of(truth, side, options, log, wants=wants, draws=draws, same_image=same_image)
    )
    return lambda: dataset


def dataset_alone(loaded: Loaded | Dataset) -> Dataset:
    """Return the dataset of a loaded source, or a dataset as it is."""
    return loaded.dataset if isinstance(loaded, Loaded) else loaded


def split_names(text: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names separated by commas, or a list of names."""
    if text is not None and not isinstance(text, str):
        return tuple(text)
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def text_of_file(path: str, encoding: str = "") -> str:
    """The text of a file in UTF-8, or in the encoding that was named. Raises PathError if it is not."""
    try:
        data = read_bytes(path)
        return (as_utf8(data, encoding) if encoding else data).removeprefix(b"\xef\xbb\xbf").decode()
    except Unreadable as e:
        raise PathError(f"{printable(path)}: {e}") from None
    except LookupError:
        raise UsageError(
            f"{spell('encoding')}: unknown encoding {printable(encoding)}; give one such as gb18030"
        ) from None
    except UnicodeError:
        raise PathError(f"{printable(path)}: not {encoding or 'UTF-8'} text") from None


def lines_of_files(texts: Iterable[str], encoding: str = "") -> list[str]:
    """Replace each ``@FILE`` among the texts by the lines of that file that are not blank."""
    lines: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            lines.append(text)
            continue
        content = text_of_file(text[1:], encoding)
        lines += [line.strip() for line in content.split("\n") if line.strip()]
    return lines


def renames_of(rename: Any, encoding: str) -> dict[str, str]:
    """Return the classes to rename: from ``OLD=NEW``, ``@FILE`` or mappings, one or several."""
    texts = [one for one in listed(rename) if isinstance(one, str)]
    mappings = [one for one in listed(rename) if not isinstance(one, str)]
    return functools.reduce(operator.or_, mappings, parse_renames(lines_of_files(texts, encoding)))


def names_in(name: str, text: str | Sequence[str] | None, encoding: str) -> tuple[str, ...] | None:
    """Return the names in ``A,B``, or the lines of ``@FILE``. Raises UsageError if there is no name."""
    if text is None:
        return None
    is_file = isinstance(text, str) and text.startswith("@")
    names = tuple(lines_of_files([str(text)], encoding)) if is_file else split_names(text)
    if not names:
        raise UsageError(f"{spell(name)} {shorten(str(text))!r}: there is no name in it")
    return names
