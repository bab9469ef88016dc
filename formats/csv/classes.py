"""The classes of a CSV data set: files of their names, and what the cells of class columns mean by them."""

from __future__ import annotations

import dataclasses

from odm.csv_text import QuoteFault, plain_lines, read_record
from odm.files import Source
from odm.formats._shared.class_lists import is_description, read_described
from odm.formats._shared.codes import BAD_CLASS_LIST, NOT_UTF8
from odm.formats._shared.column_roles import key_of
from odm.formats._shared.csv_tables import OPEN_QUOTE, STRAY_QUOTE, byte_shown
from odm.issues import Log, shorten
from odm.names import number_of, refuse_class


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class ClassNames:
    """A file of class names: MIDs with their names, names with their ids, or only names."""

    path: str
    order: list[str] = dataclasses.field(default_factory=list)
    """The classes in their order, where the file sets one."""
    by_cell: dict[str, str] = dataclasses.field(default_factory=dict)
    """The name of the class that a cell means."""


def _read(source: Source, file: str, log: Log) -> ClassNames | None:
    """The class names of a file; None, and an issue, where it is not usable."""
    data, path, errors = source.read(file, log), source.full(file), log.errors
    if data is None:
        return None
    if is_description(path):
        order = list(dict.fromkeys(read_described(data, path, log) or []))
        return ClassNames(path, order, dict(zip(order, order, strict=True))) if log.errors == errors else None
    try:
        text = plain_lines(data.decode())
    except UnicodeDecodeError as e:
        log.report(NOT_UTF8, path, line=data.count(b"\n", 0, e.start) + 1, value=byte_shown(data[e.start]))
        return None
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells, _ = read_record(line, 0, "\t" if "\t" in line and "," not in line else ",")
        if isinstance(cells, QuoteFault):
            code = OPEN_QUOTE if cells.is_open else STRAY_QUOTE
            log.report(code, path, line=number, found=cells.found, value=cells.found)
            return None
        if line.strip():
            rows.append((number, [cell.strip() for cell in cells]))
    if rows and [c.lower() for c in rows[0][1]] in (["labelname", "displayname"], ["class", "id"]):
        del rows[0]
    widths = {len(cells) for _, cells in rows}
    faults: list[tuple[int, str]] = []
    if len(widths) > 1:
        odd = next(number for number, cells in rows if len(cells) != len(rows[0][1]))
        faults.append((odd, "its lines differ in their number of cells"))
    seen: dict[str, int] = {}
    for number, cells in rows:
        if (reason := next((r for c in cells if (r := refuse_class(c)) is not None), None)) is not None:
            faults.append((number, f"in {shorten(','.join(cells))!r}, {reason}"))
        elif seen.setdefault(cells[0], number) != number:
            faults.append((number, f"{shorten(cells[0])!r} is a duplicate of line {seen[cells[0]]}"))
    if faults:
        log.report(BAD_CLASS_LIST, path, line=faults[0][0], reason=faults[0][1])
        return None
    names = ClassNames(path)
    if widths == {1}:
        names.order = [cells[0] for _, cells in rows]
    elif all(len(cells) == 2 and number_of(cells[1]) >= 0 for _, cells in rows):
        names.order = [cells[0] for _, cells in sorted(rows, key=lambda row: number_of(row[1][1]))]
    else:
        names.by_cell = {cells[0]: cells[1] for _, cells in rows}
    for name in names.order or list(names.by_cell.values()):
        names.by_cell.setdefault(name, name)
    return names


def names_classes(file: str) -> bool:
    """Whether a file of a folder is a list of classes by its name."""
    key = key_of(file.rsplit("/", 1)[-1])
    return "classdescriptions" in key or key == "classescsv"


def find_class_names(
    source: Source, descriptions: list[str], log: Log, explicit: str | None
) -> ClassNames | None:
    """The names in the given file, or in the first class list of the folder."""
    if explicit is not None:
        return _read(Source(explicit, follow_links=True), "", log)
    if not descriptions:
        return None
    if len(descriptions) > 1:
        log.note(f"{len(descriptions)} class description files; {descriptions[0]} is used (--classes)")
    else:
        log.note(f"class names are from {descriptions[0]} (--classes sets another file)")
    return _read(source, descriptions[0], log)


def class_labels(path: str | None, log: Log) -> dict[str, str]:
    """The label of each class name, for writing, if a file of them is given."""
    names = None if path is None else _read(Source(path, follow_links=True), "", log)
    by_cell = {} if names is None else names.by_cell
    return {name: label for label, name in reversed(by_cell.items()) if label != name}
