"""The classes of a CSV data set: files of their names, and the rows of those that the cells name."""

from __future__ import annotations

from typing import Any

from odm.csv_text import QuoteFault, read_record
from odm.files import Source
from odm.formats._shared.class_lists import is_description, read_described
from odm.formats._shared.codes import BAD_CLASS_LIST, NOT_UTF8, UNKNOWN_CLASS
from odm.formats._shared.column_roles import key_of
from odm.formats._shared.csv_tables import OPEN_QUOTE, STRAY_QUOTE, byte_shown
from odm.issues import Code, Log, shorten
from odm.names import BAD_CLASS_NAME, number_of, refuse_class
from odm.tables import Builder


class ClassNames:
    """A file of class names: MIDs with their names, names with their ids, or only names."""

    def __init__(self, path: str, data: bytes, log: Log) -> None:
        self.path = path
        self.order: list[str] = []
        """The classes in their order, where the file sets one."""
        self._by_cell: dict[str, str] = {}
        if is_description(path):
            self.order = list(dict.fromkeys(read_described(data, path, log) or []))
            self._by_cell = dict(zip(self.order, self.order, strict=True))
            return
        try:
            text = data.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError as e:
            log.report(
                NOT_UTF8, path, line=data.count(b"\n", 0, e.start) + 1, value=byte_shown(data[e.start])
            )
            return
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = []
        for number, line in lines:
            cells, _ = read_record(line, 0, "\t" if "\t" in line and "," not in line else ",")
            if isinstance(cells, QuoteFault):
                code = OPEN_QUOTE if cells.is_open else STRAY_QUOTE
                log.report(code, path, line=number, found=cells.found, value=cells.found)
                return
            rows.append((number, [cell.strip() for cell in cells]))
        if rows and [c.lower() for c in rows[0][1]] in (["labelname", "displayname"], ["class", "id"]):
            del rows[0]
        widths = {len(cells) for _, cells in rows}
        if len(widths) > 1:
            odd = next(number for number, cells in rows if len(cells) != len(rows[0][1]))
            log.report(BAD_CLASS_LIST, path, line=odd, reason="its lines differ in their number of cells")
            return
        seen: dict[str, int] = {}
        for number, cells in rows:
            if (reason := next((r for c in cells if (r := refuse_class(c)) is not None), None)) is not None:
                log.report(
                    BAD_CLASS_LIST, path, line=number, reason=f"in {shorten(','.join(cells))!r}, {reason}"
                )
                return
            if seen.setdefault(cells[0], number) != number:
                reason = f"{shorten(cells[0])!r} is a duplicate of line {seen[cells[0]]}"
                log.report(BAD_CLASS_LIST, path, line=number, reason=reason)
                return
        if widths == {1}:
            self.order = [cells[0] for _, cells in rows]
        elif all(len(cells) == 2 and number_of(cells[1]) >= 0 for _, cells in rows):
            self.order = [cells[0] for _, cells in sorted(rows, key=lambda row: number_of(row[1][1]))]
        else:
            self._by_cell = {cells[0]: cells[1] for _, cells in rows}
        for name in self.order or list(self._by_cell.values()):
            self._by_cell.setdefault(name, name)

    def __len__(self) -> int:
        return len(self._by_cell)

    def name(self, cell: str) -> str | None:
        """The name of the class that a cell means."""
        return self._by_cell.get(cell)

    def labels(self) -> dict[str, str]:
        """The label of each name: the way back."""
        return {name: label for label, name in reversed(self._by_cell.items()) if label != name}


class ClassRows(dict[str, int]):
    """Category rows by the text of a cell: -1 for an empty one, less for one that cannot be used."""

    def __init__(self, builder: Builder, names: ClassNames | None) -> None:
        self.faults: list[tuple[Code, dict[str, Any]]] = []
        self._builder = builder
        self._names = names

    def __missing__(self, cell: str) -> int:
        row = self[cell] = self._find(cell)
        return row

    def _find(self, cell: str) -> int:
        if not cell.strip():
            return -1
        if (reason := refuse_class(cell)) is not None:
            return self._fault(BAD_CLASS_NAME, {"value": cell, "reason": reason})
        name = cell if self._names is None else self._names.name(cell)
        if name is None:
            assert self._names is not None
            where = self._names.path
            return self._fault(UNKNOWN_CLASS, {"value": cell, "n": len(self._names), "where": where})
        return self._builder.category(name)

    def _fault(self, code: Code, values: dict[str, Any]) -> int:
        self.faults.append((code, values))
        return -1 - len(self.faults)


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
    if descriptions:
        if len(descriptions) > 1:
            log.note(f"{len(descriptions)} class description files; {descriptions[0]} is used (--classes)")
        else:
            log.note(f"class names are from {descriptions[0]} (--classes sets another file)")
        return _read(source, descriptions[0], log)
    return None


def class_labels(path: str | None, log: Log) -> dict[str, str]:
    """The label of each class name, for writing, if a file of them is given."""
    names = None if path is None else _read(Source(path, follow_links=True), "", log)
    return {} if names is None else names.labels()


def _read(source: Source, file: str, log: Log) -> ClassNames | None:
    data = source.read(file, log)
    if data is None:
        return None
    errors = log.errors
    names = ClassNames(source.full(file), data, log)
    return names if log.errors == errors else None
