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
    """Decorate a function of a record of options as a public function, whose keywords are the options.

    Each call checks its arguments and records the files that it reads. COCO's dictionaries and lists of
    results, alone or as runs by their names, become files in memory first.
    """
    record_type: Any = record
    parameters = record_type.parameters()
    signature = inspect.Signature(parameters)
    positional_names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    def decorate(function: Callable[[R], T]) -> Callable[P, T]:
        """Return a function of keywords that calls `function` with a record of them."""

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            all_keywords = {**dict(zip(positional_names, args, strict=False)), **keywords}
            is_repeated = len(all_keywords) < len(args) + len(keywords)  # as in f("a", path="b")
            if len(args) > len(positional_names) or is_repeated:
                signature.bind(*args, **keywords)  # raises what Python raises
            with inputs.gather():
                return function(from_keywords(record_type, all_keywords))

        return_type = inspect.signature(function).return_annotation
        call.__signature__ = signature.replace(return_annotation=return_type)  # type: ignore[attr-defined]
        return call

    return decorate


def from_keywords(record: type[O], keywords: Mapping[str, Any]) -> O:
    """Make a record of keywords and check them all; options of formats become its ``formats``, by side.

    An option of a format that is None, or a switch that is off as by default, is left out. Raises UsageError
    for a keyword that does not exist or a value of a wrong type.
    """
    # COCO's dictionaries become files in memory first, so that options that take a path take them, too.
    values = {name: _put_in_memory(value) for name, value in keywords.items()}
    fields = record.fields()
    arguments.check_values(record.types(), values, OPEN)
    format_values = {name: value for name, value in values.items() if name not in fields}
    formats: dict[str, dict[str, Any]] = {side: {} for side in ("", *record.sides)}
    type_of_option = _collect_option_types() if format_values else {}  # only then: it imports every format
    for name, value in format_values.items():
        # "gt_box" is the option "box" of the side "gt", unless a format has an option "gt_box".
        side = next((s for s in record.sides if name.startswith(f"{s}_") and name not in type_of_option), "")
        option_name = name.removeprefix(f"{side}_") if side else name
        if option_name not in type_of_option or not record.takes_formats:
            raise UsageError(f"{record.verb} has no option {name!r}{hint(name, [*fields, *type_of_option])}")
        arguments.check(name, value, type_of_option[option_name] | None)
        if value is not None and not (value is False and _is_off_by_default(option_name)):
            formats[side][option_name] = _to_plain(value)
    types = record.types()
    # Arrays become lists, except where a table or other data is an argument (an open type).
    for name in types.keys() & values.keys():
        value = values[name]
        is_array = hasattr(value, "tolist") and not arguments.is_open(types[name])
        values[name] = value.tolist() if is_array else _to_plain(value)
    return record.from_values(values, formats)


def _collect_option_types() -> dict[str, Any]:
    """Return the type of each option of a format by name: ``str``, or what any of the formats takes."""
    type_of_option: dict[str, Any] = {}
    for format_ in FORMATS.values():
        for spec in option_specs(format_.options):
            type_of_option[spec.name] = type_of_option.get(spec.name, str) | spec.type
    return type_of_option


def _is_off_by_default(name: str) -> bool:
    """Whether an option of formats is a switch that is off by default in each format that has it."""
    specs = (spec for format_ in FORMATS.values() for spec in option_specs(format_.options))
    return all(spec.default is False for spec in specs if spec.name == name)


def _put_in_memory(value: Any) -> Any:
    """Return an argument with COCO's dictionaries and lists of results as files in memory.

    These are the argument itself, or its values by name, such as the runs of a comparison. Raises UsageError
    for one that cannot be written as JSON.
    """
    if not isinstance(value, Mapping) and not (isinstance(value, (list, tuple)) and value):
        return value
    try:
        file_or_value = as_json(value)  # `value` itself if it is not COCO's
        if file_or_value is not value or not isinstance(value, Mapping):
            return file_or_value
        runs = {name: as_json(run) for name, run in value.items()}
    except ValueError as e:
        raise UsageError(str(e)) from None
    return value if all(run is value[name] for name, run in runs.items()) else runs


def as_list(value: Any) -> list[Any]:
    """Return the values of an option that takes one or several, as a list, empty for None."""
    if value is None:
        return []
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        return [value]
    return [*map(_to_plain, value)]


def _to_plain(value: Any) -> Any:
    """Return the text of a path, any other value as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def make_request(
    path: Path,
    side: Side,
    options: ReadingOptions,
    wants: frozenset[str] = frozenset(),
    *,
    own_fields: bool = False,
) -> Request:
    """Make the request to read one side of a command; `wants` and `own_fields` are those of `Request`."""
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
        **options.opening_arguments(side.encoding),
    )


def is_path(source: object) -> TypeGuard[Path]:
    """Whether a source is a single path."""
    return isinstance(source, (str, os.PathLike))


def list_paths(*sources: object) -> list[str]:
    """Return the paths among the sources, each of which may also be a list of paths."""
    lists = (s if isinstance(s, (list, tuple)) else (s,) for s in sources)
    return [os.fspath(path) for source in lists for path in source if isinstance(path, (str, os.PathLike))]


def read_source(
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
    """Read a source into tables: `Loaded` if it is a single path, otherwise a dataset; paths are merged.

    Parameters
    ----------
    counterpart
        Returns the other side, whose images and classes the ids of this one may refer to.
    wants, own_fields
        As for `odm.converters.Request`.
    draws
        Whether a page needs the option ``images``, which the format may not have.
    same_image
        What to do with images that several paths have, see `odm.converters.merge`.

    Raises
    ------
    UsageError
        If data in memory cannot be read; the message begins with the name of the command.
    DataError, UsageError, PathError
        If paths cannot be read, as `odm.read`.
    """
    if isinstance(source, Dataset):
        return source
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
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
    # A source read alone has no other side with which it could share options.
    format_options = {**side.shared, **side.options}
    # Options that a format need not have: all of them where several paths may be of several formats.
    droppable_options = frozenset({"images"} if draws else ())
    if len(paths) > 1:
        droppable_options = frozenset(format_options)
    requests = [
        replace(
            make_request(path, side, options, wants, own_fields=own_fields),
            options=format_options,
            shared={},
            spare=droppable_options,
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

    return merge([loaded_source.dataset for loaded_source in loaded], same_image=same_image, log=log).dataset


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
    truth_cache: KeptTruth | None = None,
    check: Check = checks.run,
) -> tuple[Dataset, Dataset]:
    """Read two sides into tables: two paths together, other sources one by one.

    Parameters
    ----------
    wants, own_fields, draws
        As for `read_source`; of two paths, only that of the ground truth is read with `own_fields`.
    truth_cache
        Keeps the ground truth of two paths for further runs against it, see `load_pair`.
    check
        Checks the datasets of two paths, see `load_pair`; other sources are not checked here.
    """
    if is_path(first) and is_path(second):
        first_request, second_request = (
            make_request(path, side, options, wants, own_fields=own_fields and side.kind == "gt")
            for path, side in zip((first, second), sides, strict=True)
        )
        inputs.name(first, second)
        first_loaded, second_loaded = load_pair(
            first_request,
            second_request,
            log,
            skip_bad=options.skip_bad,
            skip_bad_files=options.skip_bad_files,
            spare=("images",) if draws else (),
            kept=truth_cache,
            check=check,
        )
        return first_loaded.dataset, second_loaded.dataset

    def read_side(source: Any, side: Side, counterpart: Callable[[], Dataset] | None = None) -> Dataset:
        """Read one side alone; its ids may refer to the dataset that `counterpart` returns."""
        return get_dataset(
            read_source(
                source,
                side,
                options,
                log,
                counterpart=counterpart,
                wants=wants,
                own_fields=own_fields,
                draws=draws,
            )
        )

    first_side, second_side = sides
    if isinstance(second, Dataset) and not isinstance(first, Dataset):
        return read_side(first, first_side, lambda: second), second  # a file may lack what `second` knows
    truth = read_side(first, first_side)
    return truth, read_side(second, second_side, lambda: truth)


def make_truth_reader(
    truth: Any,
    side: Side,
    options: ReadingOptions,
    log: Log,
    wants: frozenset[str],
    *,
    draws: bool = False,
    same_image: SameImage = "error",
) -> Callable[[], Dataset] | None:
    """Return a function that returns the ground truth of a results file, None if `truth` is None.

    A path is read when the function is called; other data at once, with the options that `side` has for the
    results file.
    """
    if truth is None or is_path(truth):
        from odm.converters import reference

        return reference(truth, log)
    side = replace(side, kind="gt")
    dataset = get_dataset(
        read_source(truth, side, options, log, wants=wants, draws=draws, same_image=same_image)
    )
    return lambda: dataset


def get_dataset(loaded: Loaded | Dataset) -> Dataset:
    """Return the dataset of a loaded source, or a dataset as it is."""
    return loaded.dataset if isinstance(loaded, Loaded) else loaded


def split_names(text: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names separated by commas, or a list of names, as a tuple."""
    if text is not None and not isinstance(text, str):
        return tuple(text)
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def read_text(path: str, encoding: str = "") -> str:
    """Read a text file, in UTF-8 or `encoding`. Raises PathError, or UsageError for an unknown encoding."""
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


def expand_files(texts: Iterable[str], encoding: str = "") -> list[str]:
    """Replace each ``@FILE`` among the texts by the lines of that file that are not blank."""
    lines: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            lines.append(text)
            continue
        content = read_text(text[1:], encoding)
        lines += [line.strip() for line in content.split("\n") if line.strip()]
    return lines


def read_renames(rename: Any, encoding: str) -> dict[str, str]:
    """Return the classes to rename: from ``OLD=NEW``, ``@FILE`` or mappings, one or several."""
    texts = [entry for entry in as_list(rename) if isinstance(entry, str)]
    mappings = [entry for entry in as_list(rename) if not isinstance(entry, str)]
    # Mappings override texts, and later mappings earlier ones.
    return functools.reduce(operator.or_, mappings, parse_renames(expand_files(texts, encoding)))


def read_names(name: str, text: str | Sequence[str] | None, encoding: str) -> tuple[str, ...] | None:
    """Return the names in ``A,B``, or the lines of ``@FILE``. Raises UsageError if there is no name."""
    if text is None:
        return None
    is_file = isinstance(text, str) and text.startswith("@")
    names = tuple(expand_files([str(text)], encoding)) if is_file else split_names(text)
    if not names:
        raise UsageError(f"{spell(name)} {shorten(str(text))!r}: there is no name in it")
    return names
