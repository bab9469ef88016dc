"""Parse XML safely: documents that could reach outside or grow are refused. All XML is read here.

No entity is resolved, no document type read, nothing fetched; depth and size are bounded by the parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from odm.formats._shared.codes import NOT_A_NUMBER, NOT_FINITE, NOT_UTF8
from odm.formats._shared.text.tokens import NON_FINITE_TEXT, NUMBER_TEXT, find_wide_encoding
from odm.issues import Code, Log, Trusted, shorten
from odm.tables import Id

XML_SYNTAX = Code(
    "xml-syntax",
    "error",
    "invalid XML: {reason}",
    "correct the file, or export it again",
    "The file is not well-formed XML, or it is truncated. What precedes the fault may be incomplete, so "
    "none of it is used.",
    file=True,
)
XML_ENCODING = Code(
    "xml-encoding",
    "error",
    "expected text in the encoding of the XML declaration, found: {reason}",
    "save the file as UTF-8 and correct the declaration",
    "The bytes of the file are not valid text in the declared encoding, or the encoding is unknown.",
    file=True,
)
XML_DTD = Code(
    "xml-dtd",
    "error",
    "document types with an internal subset are not supported",
    "remove the <!DOCTYPE ...> part",
    "Definitions inside a document can make it grow without bound, or read other files of this machine. "
    "Annotations do not need them.",
    file=True,
)
XML_ENTITY = Code(
    "xml-entity",
    "error",
    "undefined entity {value!r}",
    "write the character itself, or one of &amp; &lt; &gt; &quot; &apos;",
    "The entity is defined outside the file. External definitions are never read, so part of the text would "
    "be missing.",
    file=True,
)
XML_DOCTYPE = Code(
    "xml-doctype",
    "warning",
    "the external document type {value!r} is ignored",
    "remove the <!DOCTYPE ...> line",
    "The file refers to an external definition. It is not read, which makes no difference for annotations.",
)
WRONG_ROOT = Code(
    "xml-root",
    "error",
    "expected the root element <{expected}>, found <{value}>",
    "export the file as {title}, or set its format",
    "The root element identifies the format. With another root, namespace or letter case the file is in "
    "another format, and reading it as this one would find no objects.",
    file=True,
)
BLANKS = " \t\r\n"
PLAIN_NUMBERS = re.compile(r"(?:-?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:\0|\Z))+", re.ASCII)
"""Numbers that are surely finite, as nearly all are, with a zero character between them."""
XML_BEGINS = "<\0\xfe\xff"
"""The first character of XML, also in UTF-16 or UTF-32."""
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"']")
_TAG = re.compile(r"<([^\s>/!?<]+)")
DOCTYPE = re.compile(r"<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*([\[>])")


class SafeXmlParser:
    """Parses documents whose root is called `expected` or one of `others`.

    lxml is imported, and its parser made, for the first document.
    """

    def __init__(self, expected: str, title: str, others: Sequence[str] = ()) -> None:
        self._expected, self._title, self._others = expected, title, others
        self._parser: Any = None
        self._etree: Any = None

    def parse(self, data: bytes, path: str, log: Log) -> Any:
        """The root element; None after an issue if its name is another, or the document broken or unsafe."""
        self._make_parser()
        if not data.strip(b" \t\r\n"):
            log.report(XML_SYNTAX, path, reason="the file is empty")
            return None
        head = data[:200].removeprefix(b"\xef\xbb\xbf")
        declared = _DECLARED.match(head)
        # A declaration that is found in the bytes as they are has one byte a character.
        wide_encodings = (b"utf-16", b"utf-32", b"ucs-", b"iso-10646")
        if declared is not None and declared[1].lower().startswith(wide_encodings):
            name = declared[1].decode()
            log.report(XML_ENCODING, path, line=1, reason=f"single bytes, where {name} is declared")
            return None

        # Latin-1 text in which to find a document type; empty, for speed, if there surely is none.
        text = "" if b"<!DOCTYPE" not in head and b"<!DOCTYPE" not in data else data.decode("latin-1")
        if b"\0" in head:  # of UTF-16 or UTF-32, whose zero bytes are dropped
            text = narrow(data).decode("latin-1")
        doctype_begin = skip_prolog(text)
        doctype = DOCTYPE.match(text, doctype_begin)
        doctype_line = 1 + text.count("\n", 0, doctype_begin)
        if doctype is not None and doctype[1] == "[":  # with declarations, which lxml is not shown
            log.report(XML_DTD, path, line=doctype_line)
            return None

        try:
            root = self._etree.fromstring(data, self._parser)
        except self._etree.XMLSyntaxError as e:
            _report_syntax_error(e, data, path, declared, log)
            return None
        except (ValueError, LookupError) as e:
            log.report(XML_SYNTAX, path, reason=str(e))
            return None
        if not self._check_doctype(root, path, doctype_line if doctype else 0, log):
            return None
        if root.tag != self._expected and root.tag not in self._others:
            about = {"value": root.tag, "expected": self._expected, "title": self._title}
            log.report(WRONG_ROOT, path, line=root.sourceline or 0, **about)
            return None
        return root

    def _make_parser(self) -> None:
        """Import lxml and make its parser, unless that is done."""
        if self._parser is not None:
            return
        from lxml import etree

        self._etree = etree
        # Never collect_ids=False: it makes libxml2 load the external subset.
        self._parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )

    def _check_doctype(self, root: Any, path: str, line: int, log: Log) -> bool:
        """Whether the document type that lxml has seen, at `line`, is safe; a safe one is a warning.

        One that declares anything is not safe, nor is one whose document uses an entity.
        """
        document = root.getroottree().docinfo
        dtd = document.internalDTD
        if dtd is None:
            return True
        if any(True for _ in dtd.iterentities()) or any(True for _ in dtd.iterelements()):
            log.report(XML_DTD, path)
            return False
        entity = next(root.iter(self._etree.Entity), None)
        if entity is not None:
            log.report(XML_ENTITY, path, line=entity.sourceline or 0, value=entity.text)
            return False
        log.report(XML_DOCTYPE, path, line=line, value=document.doctype)
        return True


def _report_syntax_error(e: Any, data: bytes, path: str, declared: re.Match[bytes] | None, log: Log) -> None:
    """Report lxml's error `e` as one of the encoding (`declared` is its declaration) or of the syntax."""
    line, column = e.position or (0, 0)
    reason = str(e.msg)
    reason = reason[: reason.rfind(", line ")] if ", line " in reason else reason  # "..., line 3, column 5"
    encoding = declared[1].decode().lower() if declared else "utf-8"
    if reason.startswith(("Unsupported encoding", "Document labelled")):
        log.report(XML_ENCODING, path, line=line, reason=reason)
        return
    if "encoding" in reason or "Invalid bytes" in reason or "not proper UTF-8" in reason:
        # Of a file in UTF-8 the byte can be named.
        if encoding in ("utf-8", "utf8") and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            try:
                data.decode()
            except UnicodeDecodeError as error:
                line = 1 + data.count(b"\n", 0, error.start)
                log.report(NOT_UTF8, path, line=line, value=f"the byte 0x{data[error.start]:02x}")
                return
        log.report(XML_ENCODING, path, line=line, reason=reason)
        return
    if (wide := find_wide_encoding(data[:4096])) not in ("", "UTF-16", "UTF-32"):  # which XML may be in
        log.report(NOT_UTF8, path, line=1, value=wide)
        return
    log.report(XML_SYNTAX, path, line=line, column=column, reason=Trusted(shorten(reason.strip(), 200)))


def parse_track_id(text: str | None) -> Id | None:
    """Return the id of a track, as an int if it is a plain number; None for no text, blanks and ``-1``."""
    if text is None or not text.strip(BLANKS) or text == "-1":
        return None
    return int(text) if re.fullmatch("0|[1-9][0-9]{0,17}", text, re.ASCII) else text


def parse_frame_number(text: str) -> int:
    """Parse the number of a frame, or of frames; -1 for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else -1


def parse_number(text: str, log: Log, path: str, line: int, field: str) -> float | None:
    """Parse a finite number. Returns None, and reports an issue, for any other text."""
    if NUMBER_TEXT.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    is_number = NUMBER_TEXT.fullmatch(text) or NON_FINITE_TEXT.fullmatch(text)
    log.report(NOT_FINITE if is_number else NOT_A_NUMBER, path, line=line, field=field, value=text)
    return None


def narrow(data: bytes) -> bytes:
    """Drop the byte order mark, and the zero bytes of UTF-16 and UTF-32: enough to find tags."""
    for mark in (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"):
        data = data.removeprefix(mark)
    return data.replace(b"\0", b"")


def find_root(head: bytes) -> tuple[str, str]:
    """Return the first bytes of a file as text (Latin-1), and the name of its root element, "" for none."""
    text = narrow(head).decode("latin-1")
    position = skip_prolog(text)
    if text.startswith("<!", position):
        doctype = DOCTYPE.match(text, position)
        # The end of <!DOCTYPE a>, or the bracket of <!DOCTYPE a [...]>, which ends with the ">" after "]".
        end = -1 if doctype is None else doctype.end() - 1
        if end >= 0 and text[end] == "[":
            end = text.find(">", text.find("]", end)) if "]" in text[end:] else -1
        position = skip_prolog(text, end + 1) if end >= 0 else len(text)
    root = _TAG.match(text, position)
    return text, "" if root is None else root[1]


def skip_prolog(text: str, position: int = 0) -> int:
    """Return where the first tag or declaration begins, after blanks, instructions and comments."""
    while True:
        while position < len(text) and text[position] in BLANKS:
            position += 1
        for opening, closing in (("<?", "?>"), ("<!--", "-->")):
            if text.startswith(opening, position):
                closing_start = text.find(closing, position + len(opening))
                if closing_start < 0:
                    return len(text)
                position = closing_start + len(closing)
                break
        else:
            return position
