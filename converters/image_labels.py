"""Read the files beside the boxes of Open Images: the classes verified on each image, and the class
hierarchy.
"""

from __future__ import annotations

from typing import Any

from odm.csv_text import QuoteFault, normalise_line_ends, read_records
from odm.files import Source
from odm.issues import Code, DataError, Log, PathError, hint, printable, shorten

BAD_LABEL_FILE = Code(
    "bad-label-file",
    "error",
    "{reason}",
    "use a CSV file with the columns ImageID, LabelName and Confidence (1 = present, 0 = absent)",
    "The file of image-level labels, which states the classes that were looked for in each image, cannot be "
    "read.",
)
BAD_HIERARCHY = Code(
    "bad-hierarchy",
    "error",
    "{reason}",
    'use JSON of nested {{"LabelName": ..., "Subcategory": [...]}}',
    "The class hierarchy cannot be read.",
)


def _read_text(path: str, code: Code, log: Log) -> str:
    """Read UTF-8 text. PathError for a folder, DataError if unreadable; `code` is for other encodings."""
    source = Source(path, follow_links=True)
    if source.is_dir:
        raise PathError(f"{printable(path)}: this is a folder, not a file")
    data = source.read("", log)  # "" is the file that the source is
    if data is None:
        raise DataError(f"{printable(path)}: it cannot be read", log)
    try:
        return normalise_line_ends(data.decode())
    except UnicodeDecodeError as e:
        log.report(code, path, reason=f"byte {e.start} is not UTF-8")
        raise DataError(f"{printable(path)}: not UTF-8 text", log) from None


def read_descriptions(path: str, log: Log) -> dict[str, str]:
    """Class names by MID, from a CSV file of two columns."""
    rows = (row for _, _, row in read_records(_read_text(path, BAD_LABEL_FILE, log)))
    return {
        row[0].strip(): row[1].strip() for row in rows if not isinstance(row, QuoteFault) and len(row) >= 2
    }


def read_image_labels(
    path: str, log: Log, names: dict[str, str] | None = None
) -> list[tuple[str, str, bool]]:
    """Return rows of (image, class, whether it is there) from the CSV file of Open Images.

    `names` are the class names by MID, where the boxes have been read with names. Raises PathError for a
    folder, and DataError if the file has any fault; the log holds all of them.
    """
    names = names or {}
    # The rows that are not blank, the header first, with their line numbers.
    numbered_rows: list[tuple[int, list[str]]] = []
    for line, _, row in read_records(_read_text(path, BAD_LABEL_FILE, log)):
        if isinstance(row, QuoteFault):
            cell_line = line + row.lines  # the record begins at `line`, and its bad cell may be further down
            log.report(BAD_LABEL_FILE, path, line=cell_line, reason=f"found {row}")
        elif any(cell.strip() for cell in row):
            numbered_rows.append((line, row))
    _, first_row = numbered_rows[0] if numbered_rows else (1, [])
    header = [cell.strip() for cell in first_row]
    columns = {cell.lower(): i for i, cell in enumerate(header)}
    try:
        i_image, i_label, i_confidence = (columns[key] for key in ("imageid", "labelname", "confidence"))
    except KeyError as e:
        suggestion = hint(str(e.args[0]), columns)
        log.report(BAD_LABEL_FILE, path, line=1, reason=f"there is no column {e.args[0]!r}{suggestion}")
        raise DataError(f"{printable(path)}: not a file of image-level labels", log) from None
    rows: list[tuple[str, str, bool]] = []
    for line, row in numbered_rows[1:]:
        if len(row) != len(header):
            reason = f"{len(row)} columns, but the header has {len(header)}"
            log.report(BAD_LABEL_FILE, path, line=line, reason=reason)
        elif row[i_confidence].strip() not in ("0", "1", "0.0", "1.0"):
            reason = f"{shorten(row[i_confidence])!r} is not 0 or 1"
            log.report(BAD_LABEL_FILE, path, line=line, field="Confidence", reason=reason)
        else:
            is_present = row[i_confidence].strip().startswith("1")
            rows.append(
                (row[i_image].strip(), names.get(row[i_label].strip(), row[i_label].strip()), is_present)
            )
    if log.counts[BAD_LABEL_FILE.name]:
        raise DataError(
            f"{printable(path)}: {log.counts[BAD_LABEL_FILE.name]} errors in the image labels", log
        )
    return rows


def read_hierarchy(path: str, log: Log, names: dict[str, str] | None = None) -> dict[str, Any]:
    """Read the class hierarchy of Open Images: nested dicts with ``LabelName`` and ``Subcategory``.

    With `names`, by MID, each ``LabelName`` is replaced by the name of the class. Raises DataError if the
    file is not such a tree.
    """
    import msgspec

    names = names or {}
    try:
        tree = msgspec.json.decode(_read_text(path, BAD_HIERARCHY, log))
    except (msgspec.DecodeError, RecursionError) as e:
        log.report(BAD_HIERARCHY, path, reason=f"invalid JSON: {e}")
        raise DataError(f"{printable(path)}: not a class hierarchy", log) from None

    # Rename every class in the tree, and collect the JSON pointers at which there is none.
    faults: list[str] = []
    pending: list[tuple[Any, str]] = [(tree, "")]
    while pending:
        node, location = pending.pop()
        if not isinstance(node, dict) or not isinstance(node.get("LabelName"), str):
            faults.append(location)
            continue
        node["LabelName"] = names.get(node["LabelName"], node["LabelName"])
        for key in ("Subcategory", "Part"):
            children = node.get(key, [])
            if not isinstance(children, list):
                faults.append(f"{location}/{key}")
                continue
            pending += [(child, f"{location}/{key}/{i}") for i, child in enumerate(children)]
    for location in sorted(faults):
        log.report(
            BAD_HIERARCHY, path, pointer=location or "/", reason="there is no class with a LabelName here"
        )
    if faults:
        raise DataError(f"{printable(path)}: not a class hierarchy", log)
    return tree  # type: ignore[no-any-return]
