"""Make records of XML elements and rows of text or CSV, for the cursor of ``json/items.py``.

A value that is a number in text is one in the record, so that `Item` and `Row` check it as they do in JSON.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from odm.files import Source
from odm.formats._contract import SURE, Sniff
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.gather import Location
from odm.formats._shared.json.columns import Token
from odm.formats._shared.json.items import Item, Origin, Rows
from odm.formats._shared.json.values import Reader
from odm.formats._shared.text.safe_xml import SafeXmlParser, find_root
from odm.formats._shared.text.tokens import NON_FINITE_TEXT, NUMBER_TEXT, clean_text
from odm.issues import Log, Trusted, printable
from odm.names import BAD_NAME, refuse_class
from odm.tables import Dataset

Says = Callable[[str, str], str | None]
"""Return why an XML file is one of a format, from its beginning and the name of its root, else None."""


def sniff_xml(source: Source, says: Says) -> Sniff | None:
    """Return the reason of `says` for a file, or the first of 20 XML files of a folder that has one."""
    for file in source.with_suffix(".xml")[:20] if source.is_dir else [""]:
        if reason := says(*find_root(source.head(file))):
            return Sniff(SURE, f"of {printable(file)}: {reason}" if file else reason)
    return None


def choose_xml(
    source: Source, says: Says, title: str, log: Log, *, file_per_image: bool = False
) -> list[str]:
    """Choose the files to read: the file itself, or those of a folder whose root element fits.

    With `file_per_image`, all XML files of the folder if one fits.
    """
    if not source.is_dir:
        return [""]  # the source itself
    candidates = source.with_suffix(".xml")
    fitting_files = [file for file in candidates if says(*find_root(source.head(file)))]
    files = candidates if file_per_image and fitting_files else fitting_files
    report_unread(source, candidates, files, title, log)
    return files


def read_roots(
    reader: Reader, files: Iterable[str], root: str, title: str
) -> Iterator[tuple[str, Origin, Any]]:
    """Yield the name in the source, origin and root element of each file that can be read.

    The root element must be called `root`; `title` is that of the format, for messages. Elements and
    attributes that the format does not know are counted.
    """
    parser = SafeXmlParser(root, title)
    for file in files:
        path, data = reader.source.full(file), reader.source.read(file, reader.log)
        element = None if data is None else parser.parse(data, path, reader.log)
        if element is not None:
            if reader.keys is not None:
                reader.keys.count_xml(element, reader.builder.extras)
            yield file, Origin(reader.builder, path), element


def to_number(text: str) -> Any:
    """Convert a text to the number that it stands for, else return the text.

    NaN, infinity and a number too large for a float become a `Token`, which `Reader` reports as not finite.
    """
    text = text.strip(" \t\r\n")
    if NUMBER_TEXT.fullmatch(text):
        value = float(text)
        return value if abs(value) != float("inf") else Token(text)
    return Token(text) if NON_FINITE_TEXT.fullmatch(text) else text


def to_numbers(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a record in which texts under `keys` are numbers, if they stand for one (`to_number`)."""
    return {k: to_number(v) if k in keys and isinstance(v, str) else v for k, v in record.items()}


def read_texts(element: Any) -> dict[str, str]:
    """The texts of the children of an element, the first of each name; empty ones are left out."""
    text_of_tag: dict[str, str] = {}
    for child in element:
        if child.text and (text := child.text.strip(" \t\r\n")):
            text_of_tag.setdefault(child.tag, text)
    return text_of_tag


def make_element_item(reader: Reader, record: dict[str, Any], element: Any, origin: Origin) -> Item:
    """Return a record that was made of an XML element as an `Item`, located on the element's line."""
    line = element.sourceline or 0
    return Item(reader, record, Location(origin.path, line=line), origin, line)


def make_rows(reader: Reader, record: Mapping[str, Any], element: Any, origin: Origin) -> Rows:
    """Return a record that was made of an XML element as the only box of `Rows`, on the element's line."""
    # The key "" adds nothing to the location.
    return Rows(reader, Location(origin.path, line=element.sourceline or 0), {"": dict(record)}, origin)


def read_csv_records(
    reader: Reader, file: str, needed: Iterable[str], sep: str = ","
) -> Iterator[tuple[Location, dict[str, str]]]:
    """Yield the location and the cells, by column name, of each row below the header.

    Faulty rows are reported and counted as skipped. No rows, after an issue, without a `needed` column.
    """
    path, log = reader.source.full(file), reader.log
    data, n_errors = reader.source.read(file, log), log.errors
    text = b"" if data is None else clean_text(data, path, log)
    if data is None or log.errors > n_errors:
        return
    rows = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=sep)
    columns: list[str] = []
    try:
        for row in rows:
            location = Location(path, line=rows.line_num)
            if row and not columns:
                columns = [cell.strip().lstrip("#") for cell in row]  # VIA writes #filename
                for key in needed:
                    if key not in columns:
                        reader.report_missing(location, key)
                        return
            elif row and len(row) != len(columns):
                expected = Trusted(f"{len(columns)} columns, as in the header")
                log.report(WRONG_COUNT, path, line=location.line, expected=expected, found=len(row))
                reader.builder.skipped += 1
            elif row:
                record = dict(zip(columns, row, strict=True))
                reader.count_unknown([record])
                yield location, record
    except csv.Error as e:
        expected, reason = Trusted("cells of a CSV file"), Trusted(str(e))
        log.report(WRONG_COUNT, path, line=rows.line_num, expected=expected, found=reason)


# ----------------------------------------------------------------------------------------------- writing


def quote(text: str) -> str:
    """The text as the value of an attribute, with its quotes."""
    return f'"{escape_text(text)}"'.replace("\t", "&#9;")


def escape_text(text: str) -> str:
    """The text between tags, or between double quotes."""
    return html.escape(text, quote=False).replace('"', "&quot;")


def _find_refusal(text: str) -> str | None:
    """Return why a name cannot be written in XML, None if it can."""
    if reason := refuse_class(text):
        return reason
    if text != text.strip(" \t\r\n"):
        return "it begins or ends with a space"
    if any(c in "\ufffe\uffff" or c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c <= "\udfff" for c in text):
        return "XML does not allow one of its characters"
    return None


def check_xml_names(dataset: Dataset, log: Log) -> bool:
    """Whether XML can hold the names of all classes and images; those that it cannot are reported."""
    n_errors = log.errors
    for name in dataset.categories.name:
        if reason := _find_refusal(name):
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
    for row, name in enumerate(dataset.images.name):
        if reason := _find_refusal(name):
            path, line, pointer = dataset.image_place(row)
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=name, reason=reason)
    return log.errors == n_errors
