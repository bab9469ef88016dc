"""Fields of a source beyond the model, kept as JSON so that a format with these fields can write them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ExtraFields = Mapping[str, tuple[bytes, ...]]
"""By key, the JSON of the value of each row of a table; empty where the row has no such key."""

SHAPES = frozenset({"segmentation", "keypoints", "obb", "rbox", "poly"})
"""Fields of boxes that say where in the image the object is, as the corners do."""

MOST_KEYS = 200
"""Keys of the rows of a table; where there are more, they are data, and a column of each would be endless."""

NOTHING = frozenset((b"", b"null", b"[]", b"{}", b'""', b"[ ]", b"{ }", b"[[]]"))
"""JSON of values without content: they are not counted as lost."""


def take_extra(extra: ExtraFields, rows: Sequence[int]) -> dict[str, tuple[bytes, ...]]:
    """Return the fields of the rows at `rows`; -1 is a row without any."""
    return {key: tuple(column[row] if row >= 0 else b"" for row in rows) for key, column in extra.items()}


def numbers_of(column: Sequence[bytes]) -> NDArray[np.float64]:
    """(n,) the values of a field that are numbers, true (1) or false (0); NaN for anything else."""
    values = json.loads(b"[" + b",".join(value or b"null" for value in column) + b"]")
    return np.array([v if isinstance(v, (bool, int, float)) else np.nan for v in values], np.float64)


def join_extra(tables: Sequence[Mapping[str, Sequence[bytes]]], sizes: Sequence[int]) -> ExtraFields:
    """Concatenate the fields of several tables, which have `sizes` rows."""
    joined = ExtraRows(n_keys_max=sum(map(len, tables)))  # so many that none is dropped
    for table, n in zip(tables, sizes, strict=True):
        joined.extend(n, table)
    return {key: tuple(column) for key, column in joined.columns.items()}


def place_extra(parts: Sequence[tuple[Sequence[int], Mapping[str, Sequence[bytes]]]], n: int) -> ExtraFields:
    """Return the fields of n rows from parts (row numbers, values by key). The first value of a row stays."""
    columns: dict[str, list[bytes]] = {}
    for rows, fields in parts:
        for key, values in fields.items():
            column = columns.setdefault(key, [b""] * n)
            for row, value in zip(rows, values, strict=True):
                column[row] = column[row] or value
    return {key: tuple(column) for key, column in columns.items()}


def count_extra(extra: ExtraFields) -> Counter[str]:
    """Count, for each key, the rows whose value is not in `NOTHING`."""
    return Counter(
        {key: len(column) - sum(map(NOTHING.__contains__, column)) for key, column in extra.items()}
    )


def join_members(
    files: Sequence[Mapping[str, bytes]],
) -> tuple[dict[str, bytes], list[dict[bytes, bytes]], dict[str, int]]:
    """Merge the members that several files have beside their rows: those of the first, and all licences.

    Returns the members of the merged file; for each file, the new ids of its licences by the old ones, both
    as JSON, empty if the files agree; and how often each kind of change was made.
    """
    members: dict[str, bytes] = {}
    n_changes: Counter[str] = Counter()
    for file in files:
        for key, value in file.items():
            if key != "licenses" and members.setdefault(key, value) != value:
                n_changes[f"{key} of other files, of which the first is written"] += 1
    # Licences by id; if one id stands for two of them, all are numbered anew, and equal ones are one.
    licences_of_files = [_index_by_id(file.get("licenses", b"[]")) for file in files]
    new_ids_of_files: list[dict[bytes, bytes]] = [{} for _ in files]
    record_of_id: dict[bytes, Any] = {}
    files_disagree = any(
        record_of_id.setdefault(id_, record) != record
        for licences in licences_of_files
        for id_, record in licences.items()
    )
    if files_disagree:
        id_of_text: dict[str, bytes] = {}
        for licences, new_ids in zip(licences_of_files, new_ids_of_files, strict=True):
            for id_, record in licences.items():
                text = json.dumps({**record, "id": None}, sort_keys=True)
                new_ids[id_] = id_of_text.setdefault(text, b"%d" % (len(id_of_text) + 1))
        record_of_id = {id_: json.loads(text) | {"id": int(id_)} for text, id_ in id_of_text.items()}
        n_changes["licences numbered from 1, as the files disagree"] = len(record_of_id)
    if any("licenses" in file for file in files):
        texts = [file.get("licenses", b"[]") for file in files]
        members["licenses"] = (
            texts[0] if len(set(texts)) == 1 else json.dumps([*record_of_id.values()]).encode()
        )
    return members, new_ids_of_files, dict(n_changes)


def _index_by_id(licenses: bytes) -> dict[bytes, dict[str, Any]]:
    """Return the records of a JSON list by the JSON of their ids; empty if it has others than records."""
    records = json.loads(licenses)
    if not isinstance(records, list) or not all(isinstance(r, dict) and "id" in r for r in records):
        return {}
    return {json.dumps(record["id"]).encode(): record for record in records}


class ExtraRows:
    """Collects the fields of rows as they are read.

    Values of keys after the first `n_keys_max` are dropped, and counted in `lost` by key.
    """

    def __init__(self, n_keys_max: int = MOST_KEYS) -> None:
        self.n, self._n_keys_max = 0, n_keys_max
        self.columns: dict[str, list[bytes]] = {}
        self.lost: Counter[str] = Counter()

    def extend(self, n: int, extra: Mapping[str, Sequence[bytes]]) -> None:
        """Add n rows with these fields, n values by key."""
        for key in {**self.columns, **extra}:
            if key not in self.columns:
                if len(self.columns) == self._n_keys_max:
                    self.lost += count_extra({key: tuple(extra[key])})
                    continue
                self.columns[key] = [b""] * self.n
            self.columns[key] += extra.get(key) or [b""] * n
        self.n += n

    def take(self, rows: Sequence[int]) -> dict[str, list[bytes]]:
        """Return the fields of the rows at `rows`."""
        return {key: [column[row] for row in rows] for key, column in self.columns.items()}
