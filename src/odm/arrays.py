"""Convert arrays of other libraries, none of which is imported."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_array(values: Any, noun: str, kinds: str = "fiub") -> NDArray[Any]:
    """Return an array of any library as a NumPy array on the CPU; a view where that is possible.

    Raises ValueError if it cannot be read, or holds values of other `kinds` (of `numpy.dtype.kind`); `noun`
    begins the message.
    """
    for method in ("detach", "cpu"):  # of torch: without its gradients, and off the GPU
        if hasattr(values, method):
            values = getattr(values, method)()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError, BufferError):  # NumPy does not take it by itself
        try:
            array = np.from_dlpack(values)
        except (TypeError, AttributeError, ValueError, RuntimeError, BufferError):
            if not callable(getattr(values, "float", None)):
                kind = type(values).__name__
                raise ValueError(f"{noun}: cannot be read as an array ({kind})") from None  # noqa: TRY004
            array = np.asarray(values.float())  # bfloat16, which NumPy does not have
    if array.dtype.kind == "V" and "float" in array.dtype.name:  # JAX's bfloat16, which is no type of NumPy's
        array = array.astype(np.float32)
    if array.size and array.dtype.kind not in kinds:
        expected = "whole numbers or text" if "U" in kinds else "numbers"
        raise ValueError(f"{noun}: expected {expected}, found {array.dtype}")
    # An empty array may be of any kind; it becomes one of numbers.
    return array if array.dtype.kind in kinds else np.zeros(array.shape, np.float32)


def pack(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Pack columns of numbers into bytes, for `unpack`.

    First the length of the header in 8 bytes, then the header, in JSON the name, type and shape of each
    column, then the columns.
    """
    arrays = [np.ascontiguousarray(column) for column in columns.values()]
    descriptions = [[name, a.dtype.str, list(a.shape)] for name, a in zip(columns, arrays, strict=True)]
    header = json.dumps(descriptions).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *(a.tobytes() for a in arrays)])


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns that `pack` packed, as views of the bytes, of which nothing is executed."""
    offset = 8 + int.from_bytes(data[:8], "little")
    columns = {}
    for name, kind, shape in json.loads(data[8:offset]):
        count = math.prod(shape)
        columns[name] = np.frombuffer(data, kind, count, offset).reshape(shape)
        offset += count * columns[name].itemsize
    return columns
