"""Report files that a format does not read: damaged ones as errors, others in a note."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from odm.files import HEAD, NOT_TEXT, UNREADABLE, Source, Unreadable, find_binary_kind, refuse_nuls
from odm.formats._shared.codes import NO_FILES, NOT_UTF8
from odm.formats._shared.json.preview import TOO_DEEP, find_line_column, find_too_deep
from odm.formats._shared.text.tokens import find_wide_encoding
from odm.issues import Log, Trusted, first_few, printable
from odm.names import stem

_TEXT = (".txt", ".csv", ".tsv", ".xml")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_JSON = (".json", ".jsonl", ".ndjson", ".odgt", ".manifest")


def report_unread(
    source: Source, candidates: Sequence[str], files: Sequence[str], expected: str, log: Log
) -> None:
    """Note which `candidates` are not among the `files` that a format reads; `expected` describes these.

    Damaged candidates are reported with the reason, so that none is missing in silence. If no file is read
    and none is damaged, that is an issue by itself.
    """
    read_files = set(files)
    unread_files = [file for file in candidates if file not in read_files]
    sound_files = [file for file in unread_files if not report_damage(source, file, log)]
    if files and sound_files:
        log.note(f"{printable(source.path)}: not read: {first_few(sound_files, 5, printable)}")
    elif not files and len(sound_files) == len(unread_files):
        log.report(NO_FILES, source.path, expected=Trusted(expected), n=len(source.files))


def report_damage(source: Source, file: str, log: Log) -> bool:
    """Report a file that is unreadable, or by its first bytes not the text or JSON that its suffix promises.

    Returns whether an issue was reported.
    """
    path = source.full(file)
    n_errors = log.errors
    try:
        head = source.peek(file)
        refuse_nuls(head)
    except Unreadable as e:
        log.report(UNREADABLE, path, reason=str(e))
        return True
    if stem(file) != file:  # a picture
        return False
    if other_type := find_binary_kind(head):
        log.report(NOT_TEXT, path, value=Trusted(other_type))
    elif wide_name := find_wide_encoding(head):
        log.report(NOT_UTF8, path, line=1, value=wide_name)
    elif (location := find_too_deep(head)) >= 0:
        line, column = find_line_column(head, location)
        log.report(TOO_DEEP, path, line=line, column=column)
    elif path.lower().endswith(_JSON):
        from odm.formats._shared.json.columns import Broken, Document, load

        # A .json file that the first bytes hold as a whole is decoded. Of a longer file, and of one with a
        # record on each line, only the first character is checked.
        is_whole = len(head) < HEAD
        begins_as_json = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] in (b"{", b"[")
        if not begins_as_json or (is_whole and path.lower().endswith(".json")):
            with contextlib.suppress(Broken):
                document = Document(load(head if is_whole else head[:1], log, path), log, path)
                document.read_value()
                document.check_end()
    elif path.lower().endswith(_TEXT) and _CONTROL.search(head):
        log.report(NOT_TEXT, path, value=Trusted("binary data"))
    return log.errors > n_errors
