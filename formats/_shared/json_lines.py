"""JSON lines: a record on each line, read one after another so that a file need not fit into memory.

In some files a name and a tab come before the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

from odm.files import NOT_TEXT, UNREADABLE, Unreadable, other_kind, refuse_nuls
from odm.formats._shared.codes import NOT_UTF8
from odm.formats._shared.encodings import wide_encoding
from odm.formats._shared.gather import At
from odm.formats._shared.json_columns import _PYTHON, SYNTAX
from odm.formats._shared.json_preview import TOO_DEEP
from odm.formats._shared.json_values import Nothing, Reader
from odm.issues import Trusted

LONGEST = 2**27
"""Bytes of the longest line. Records with outlines take megabytes."""


def read_lines(reader: Reader, file: str, *, keyed: bool = False) -> Iterator[tuple[At, str, Any]]:
    """The place, the key and the value of each line that is not blank; what is no JSON is reported.

    A file that begins with ``[`` is a list of such records, and is read whole. The key is empty unless the
    lines are `keyed`: it is then the text before the first tab, and the value `Nothing` where there is none.
    """
    source, log = reader.source, reader.log
    path = source.full(file)
    try:
        with source.open_text(file, log) as stream:
            head = stream.read(4096)
            refuse_nuls(head)
            if what := other_kind(head):
                log.report(NOT_TEXT, path, value=Trusted(what))
            elif wide := wide_encoding(head):
                log.report(NOT_UTF8, path, line=1, value=wide)
            elif not keyed and head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
                value, at = reader.value(file), At(path)
                if isinstance(value, list):
                    yield from ((at / i, "", record) for i, record in enumerate(value))
                elif value is not Nothing:
                    reader.wrong(at, "a list of records", value)
            else:
                stream.seek(0)
                yield from _lines(reader, stream, path, keyed=keyed)
    except Unreadable as e:
        log.report(UNREADABLE, path, reason=str(e))
    except OSError as e:
        log.report(UNREADABLE, path, reason=e.strerror or "it cannot be read")


def _lines(reader: Reader, stream: IO[bytes], path: str, *, keyed: bool) -> Iterator[tuple[At, str, Any]]:
    log, number, key = reader.log, 0, ""
    while line := stream.readline(LONGEST):
        number += 1
        if len(line) == LONGEST and not line.endswith(b"\n"):
            reason = "the line is longer than 128 MiB, so it is no record of a line"
            log.report(SYNTAX, path, line=number, reason=reason)
            return
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip(b" \t\r\n"):
            continue
        try:
            text = line.decode()
            if keyed:
                key, tab, text = text.partition("\t")
                if not tab:
                    yield At(path, line=number), key, Nothing
                    continue
            value = _PYTHON.decode(text)
        except UnicodeDecodeError as e:
            column = len(line[: e.start].decode(errors="replace")) + 1
            log.report(NOT_UTF8, path, line=number, column=column, value=f"the byte {line[e.start]:#04x}")
        except json.JSONDecodeError as e:
            reason = f"{e.msg[:1].lower()}{e.msg[1:]}"
            log.report(SYNTAX, path, line=number, column=len(key) + keyed + e.pos + 1, reason=reason)
        except RecursionError:
            log.report(TOO_DEEP, path, line=number)
        else:
            yield At(path, line=number), key, value
