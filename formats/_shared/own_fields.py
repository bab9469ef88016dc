"""Fields that the model has no column for, of COCO and LVIS: kept as JSON where both sides have them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from odm.formats._shared.json_columns import Repeated, Token
from odm.tables import Dataset
from odm.tables.own import join_members


def own_fields(
    record: Mapping[str, Any], known: Collection[str], count: Callable[[str], None]
) -> dict[str, list[bytes]]:
    """The JSON of the keys that are not known; those that JSON cannot hold are counted."""
    found: dict[str, list[bytes]] = {}
    for key, value in record.items():
        if key not in known:
            if _is_json(value):
                found[key] = [json.dumps(value).encode()]
            else:
                count(key)
    return found


def _is_json(value: Any) -> bool:
    """Whether a value can be written as it was read: no NaN, no endless number, and no key twice."""
    if isinstance(value, dict):
        return not isinstance(value, Repeated) and all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if isinstance(value, list) else not isinstance(value, Token)


def of_images(dataset: Dataset, rows: NDArray[Any]) -> tuple[dict[str, bytes], dict[str, list[bytes]]]:
    """What the files of these images say of themselves, by key; and the other fields of the images."""
    images = dataset.images
    file_of = images.file[rows].tolist()
    used = [row for row in dict.fromkeys(file_of) if row >= 0]
    files = [dataset.files[row].own for row in used] or [f.own for f in dataset.files if f.own]
    members, ids, _ = join_members(files)
    own = {key: [column[row] for row in rows.tolist()] for key, column in images.own.items()}
    if any(ids) and "license" in own:
        new = dict(zip(used, ids, strict=True))
        own["license"] = [new[f].get(i, b"") for f, i in zip(file_of, own["license"], strict=True)]
    return {"info": b"{}", "licenses": b"[]", **members}, own
