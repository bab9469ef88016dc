"""Parquet files through pyarrow: opened where they are used, read by row group, their damage reported."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import NOT_TEXT, UNREADABLE, Source, Unreadable
from odm.issues import Log, Trusted, UsageError, printable
from odm.tables import Ints

MAGIC = b"PAR1"
SUFFIXES = (".parquet", ".pq")
MANY_ROWS = 2**22
"""Rows that any file may have; more only if it has as many bytes."""
MANY_BYTES = 2**27
"""Bytes that a row group may fill; more only if the file has a sixteenth of them, as pictures may."""
LONG_NAME = 2**20
"""Bytes of a name, or of an id, beyond which it is not looked at."""
METADATA_KEY = b"odm"
"""Under which key of the schema's metadata the classes stand, as JSON."""


_NO_MEMORY = ("Failed to launch worker thread", "failed to map segment", "Cannot allocate memory")
"""What pyarrow and the system's loader say where memory is limited."""


def pyarrow() -> Any:
    """Import pyarrow with ``parquet`` and ``compute``. Raises UsageError if it is not installed or usable."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as e:
        if any(words in str(e) for words in _NO_MEMORY):
            raise MemoryError from None
        is_missing = isinstance(e, ModuleNotFoundError) and e.name == "pyarrow"
        reason = "" if is_missing else f", which cannot be imported ({printable(str(e))})"
        raise UsageError(f"Parquet needs pyarrow{reason}: pip install -U pyarrow") from None
    return pa


class reporting(contextlib.AbstractContextManager[None]):  # noqa: N801 -- used as a statement
    """Report the library's error about a damaged file as an unreadable file."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log = path, log

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Report `error` and suppress it, if it comes from the file; raise MemoryError if memory is short."""
        if any(words in str(error) for words in _NO_MEMORY):
            raise MemoryError from None
        if isinstance(error, MemoryError) or not isinstance(  # one of pyarrow's is an ArrowException as well
            error, (Unreadable, pyarrow().ArrowException, OSError, ValueError, OverflowError, KeyError)
        ):
            return False
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        self._log.report(UNREADABLE, self._path, reason=reason[:200])
        return True


def open_file(source: Source, file: str, log: Log) -> Any:
    """Open a Parquet file, verifying page checksums while reading.

    Returns None after an issue if it is none, cannot be read, or claims far more rows or bytes than it holds
    (see `MANY_ROWS` and `MANY_BYTES`).
    """
    path = source.full(file)
    pa = pyarrow()
    with reporting(path, log):
        stream = source.open(file)
        head = stream.read(4)
        if head != MAGIC:
            stream.close()
            log.report(NOT_TEXT, path, value=Trusted(f"{head!r} where a Parquet file begins with {MAGIC!r}"))
            return None
        opened = pa.parquet.ParquetFile(stream, page_checksum_verification=True)
        metadata, size = opened.metadata, source.size(file)
        groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
        n_rows = sum(group.num_rows for group in groups)
        max_bytes = max((group.total_byte_size for group in groups), default=0)
        if n_rows <= max(MANY_ROWS, size) and max_bytes <= max(MANY_BYTES, 16 * size):
            return opened
        opened.close()  # and `reporting` reports the error
        if n_rows > max(MANY_ROWS, size):
            raise ValueError(f"it claims {n_rows} rows in {size} bytes")
        raise ValueError(f"its {size} bytes would fill {max_bytes} bytes of memory")
    return None


def decode_metadata(schema: Any) -> Mapping[str, Any]:
    """Decode the JSON in the metadata of a schema, under the keys of this program and of `datasets`."""
    descriptions: dict[str, Any] = {}
    for key, value in (schema.metadata or {}).items():
        if key in (METADATA_KEY, b"huggingface"):
            with contextlib.suppress(ValueError, RecursionError):
                data = json.loads(value)
                if isinstance(data, dict):
                    descriptions[key.decode()] = data
    return descriptions


def encode_column(column: Any) -> tuple[list[Any], Ints]:
    """Return the distinct values of a column by first appearance, and (n,) the index of each row's value.

    The index of null is -1. A dictionary in the file may have another order, and values that no row has.
    Raises ValueError if a value is too long for a name.
    """
    pa = pyarrow()
    # As one array with one dictionary.
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if pa.types.is_null(column.type):  # as of a file without rows
        return [], np.full(len(column), -1, np.int32)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if is_name(column.type) and not pa.types.is_integer(column.dictionary.type):
        longest = pa.compute.max(pa.compute.binary_length(column.dictionary)).as_py() or 0
        if longest > LONG_NAME:
            raise ValueError(f"a name has {longest} bytes")
    values = column.dictionary.to_pylist()
    # Values a b c with the codes 2 -1 0 2: `order` is 2 0, so the result is the values c a, codes 0 -1 1 0.
    codes = pa.compute.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    used_codes, first_rows = np.unique(codes, return_index=True)
    order = used_codes[np.argsort(first_rows, kind="stable")]
    order = order[order >= 0]
    new_code_of = np.full(len(values) + 1, -1, np.int32)  # the last is for the code -1
    new_code_of[order] = np.arange(len(order), dtype=np.int32)
    return [values[i] for i in order.tolist()], new_code_of[codes]


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, or nothing but nulls, which have a type of their own."""
    types = pyarrow().types
    is_kind = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(function(kind) for function in is_kind)


def is_name(kind: Any) -> bool:
    """Whether a column of this type holds text or whole numbers, of which a name can be made."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_text or types.is_integer(kind) or types.is_null(kind))


def to_floats(column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Convert a column to (n,) float64, NaN where null, and (n,) True where null.

    float32 is converted exactly; whole numbers beyond 2**53 are rounded (`safe` would refuse them).
    """
    pa = pyarrow()
    null = np.zeros(len(column), bool)
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
    values = column.cast(pa.float64(), safe=False)
    if column.null_count:
        values = pa.compute.fill_null(values, float("nan"))
    return np.array(values.to_numpy(zero_copy_only=False), np.float64), null
