"""Build the page: a template with its style, script, data and pictures, as one file or as a folder."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import html
import json
import os
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from odm.files import Output
from odm.issues import Log, PathError, UsageError, printable, spell
from odm.report import words
from odm.report.pictures import Picture, make_shots
from odm.version import VERSION

LARGEST_FILE = 80_000_000
"""Bytes; browsers fail on single files above this, so they are refused."""

FOLDER_ABOVE = 25_000_000
"""Bytes; from here on a folder is advised."""

SIZE = 640
"""Pixels of the longest side of a picture, unless another size is given."""

SHARED = (
    "base.js",
    "plots.js",
    "differences.js",
    "shapes.js",
    "boxes.js",
    "selection.js",
    "gallery.js",
    "viewer.js",
)
SCRIPTS = {
    "evaluation": (
        "counts.js",
        "evaluation.js",
        "summary.js",
        "classes.js",
        "curves.js",
        "analyses.js",
        "errors.js",
        "review.js",
        "images.js",
    ),
    "dataset": ("dataset.js", "show.js"),
    "statistics": ("dataset.js", "statistics.js"),
    "validation": ("dataset.js", "validation.js"),
    "compare": ("dataset.js", "runs.js", "compare.js"),
    "diff": ("dataset.js", "pairs.js", "diff.js"),
    "agree": ("dataset.js", "pairs.js", "agree.js"),
}
"""The files of each kind of page, which stand between those that all have and ``end.js``."""


class Page(msgspec.Struct, frozen=True, eq=False):
    """The data of a report, and its pictures.

    Attributes
    ----------
    kind
        One of `SCRIPTS`.
    data
        Plain data for the script.
    pictures
        The pictures of the images, in the order in which ``data`` counts them.
    extents
        For each image the width and height that its boxes reach, for images of unknown size.
    """

    kind: str
    data: dict[str, Any]
    pictures: Sequence[Picture]
    extents: Sequence[tuple[int, int]]


def check_target(target: str, *, overwrite: bool = False, sources: Sequence[str] = ()) -> None:
    """Check that a report can be written to `target`, which must not replace or lie in one of `sources`.

    Raises
    ------
    PathError
        If the target exists and may not be replaced, or is one of the sources or inside one.
    """
    Output(target, single=is_file(target), overwrite=overwrite, sources=sources, dry_run=True)


def is_file(target: str) -> bool:
    """Whether the report is one file, by its name: ``.html`` or ``.htm``; any other name is a folder."""
    return target.lower().endswith((".html", ".htm"))


def write(
    page: Page,
    target: str,
    *,
    size: int = SIZE,
    overwrite: bool = False,
    sources: Sequence[str] = (),
    log: Log | None = None,
    language: str | None = None,
) -> str:
    """Write a report, all or nothing, and return the path of the page.

    Parameters
    ----------
    target
        A name that ends in ``.html`` or ``.htm`` is one file; any other is a folder with ``index.html`` and
        ``pictures/``, of which only a few are held in memory.
    size
        Pixels of the longest side of a picture.
    overwrite
        Whether a target that exists may be replaced.
    sources
        Paths that the target must not lie in or replace.
    log
        Takes notes: of pictures that cannot be shown, and of a file that is large.
    language
        ``"en"`` or ``"zh"``; without it, the browser of whoever reads the page decides.

    Raises
    ------
    PathError
        If the target cannot be used, or one file would exceed `LARGEST_FILE`.
    UsageError
        If `size` is not a sensible number of pixels, or there is no such `language`.
    """
    log = Log() if log is None else log
    is_single_file = is_file(target)
    with Output(target, single=is_single_file, overwrite=overwrite, sources=sources) as output:
        write_picture = None if is_single_file else output.write
        content = _fill_page(page, size, log, target, write=write_picture, language=language)
        output.write("" if is_single_file else "index.html", content)
    if is_single_file and len(content) > FOLDER_ABOVE:
        log.note(
            f"{printable(target)}: {len(content) / 1e6:.0f} MB, which is slow to open; use a name without "
            ".html to write a folder"
        )
    return target if is_single_file else os.path.join(target, "index.html")


def inline(page: Page, *, size: int = SIZE, log: Log | None = None, language: str | None = None) -> str:
    """Return the page as one text, for a frame of a notebook; parameters and errors are those of `write`."""
    log = Log() if log is None else log
    return _fill_page(page, size, log, "the page", write=None, language=language).decode()


Put = Callable[[str, bytes], object]
"""Takes the name and the content of a file."""


def _fill_page(
    page: Page, size: int, log: Log, target: str, *, write: Put | None, language: str | None
) -> bytes:
    """Return the bytes of the page, with its pictures written beside it by `write`, or embedded without it.

    Notes in the log how many pictures are missing or damaged. `size` is the longest side in pixels, `target`
    the page's name in messages. Raises UsageError for an unknown language or size, PathError for a page that
    is too large.
    """
    if language is not None and language not in words.LANGUAGES:
        raise UsageError(f"language {printable(language)}: expected one of {', '.join(words.LANGUAGES)}")
    if not 16 <= size <= 10_000:
        raise UsageError(f"report_size {size}: expected a number of pixels from 16 to 10000")
    entries: list[list[Any]] = []  # name, width, height and remark of each picture
    sources: list[str] = []  # its JPEG in base64, or its path beside the page; empty without a picture
    bytes_left = LARGEST_FILE  # it raises before the text of all pictures fills the memory
    stream = make_shots(page.pictures, size)
    for index in log.track(range(len(page.pictures)), "pictures"):  # `track` takes a sequence
        shot = next(stream)
        shown_size = [shot.width, shot.height]
        if min(shown_size) <= 0:  # an image of unknown size is as large as its boxes
            shown_size = [max(edge, 1) for edge in page.extents[index]]
        entries.append([page.pictures[index].name, *shown_size, shot.remark])
        if write is None:
            sources.append(base64.b64encode(shot.jpeg).decode())
            bytes_left -= len(sources[-1])
            if bytes_left < 0:
                raise _make_size_error(target)
        else:
            sources.append(f"pictures/{index:05d}.jpg" if shot.jpeg else "")
            if shot.jpeg:
                write(sources[-1], shot.jpeg)
    _note_unusable(entries, log)
    content = _fill_template(page, entries, sources, language, is_single_file=write is None)
    if write is None and len(content) > LARGEST_FILE:
        raise _make_size_error(target)
    return content


def _note_unusable(entries: Sequence[Sequence[Any]], log: Log) -> None:
    """Note which pictures are damaged or of another size, and how many are missing.

    `entries` has [name, width, height, remark] for each picture; a missing one has the remark "no picture".
    """
    unusable = [(name, remark) for name, _, _, remark in entries if remark not in ("", "no picture")]
    for name, remark in unusable[:3]:
        log.note(f"report: {printable(name)}: {remark}")
    if (n := len(unusable) - 3) > 0:
        log.note(f"report: {n} more pictures are damaged or have another size; the page lists them")
    n_missing = sum(remark == "no picture" for *_, remark in entries)
    if n_missing and n_missing == len(entries):
        advice = f"use {spell('images')} DIR"
        log.note(f"report: no pictures found, so boxes are drawn on a blank background; {advice}")
    elif n_missing:
        log.note(f"report: {n_missing} of {len(entries)} pictures were not found")


def _make_size_error(target: str) -> PathError:
    """Return the error for a page of one file that is too large."""
    return PathError(
        f"{printable(target)}: a single file of more than {LARGEST_FILE // 10**6} MB does not open in "
        "every browser; use a name without .html to write a folder, or show fewer or smaller pictures"
    )


# ------------------------------------------------------------------------------------------------- HTML


def _fill_template(
    page: Page, entries: list[list[Any]], pictures: list[str], language: str | None, *, is_single_file: bool
) -> bytes:
    """Fill the template of a page with its style, script and data, and return the bytes.

    `entries` has [name, width, height, remark] for each picture, `pictures` its base64 text or its file.
    """
    data = {
        "kind": page.kind,
        "odm": VERSION,
        "made": _format_date(),
        "files": not is_single_file,
        "pictures": entries,
        **page.data,
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    style = _read_asset("page.css")
    tables = words.load_tables(language)
    files = (*SHARED, *SCRIPTS[page.kind], "end.js")
    script = words.make_script(tables) + "\n".join(map(_read_asset, files))
    images = "data:" if is_single_file else "file: 'self'"
    value_of_hole = {
        # The content security policy: this script, this style, these pictures, and no connection at all.
        "POLICY": f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)}; "
        f"img-src {images}; base-uri 'none'; form-action 'none'",
        "NOSCRIPT": html.escape(" ".join(table["noscript"] for table in tables.values())),
        "TITLE": html.escape(printable(words.to_english(data["title"]))),
        "STYLE": style,
        "SCRIPT": script,
        # JSON, deflated, in base64: nothing in it can end the element that holds it.
        "DATA": base64.b64encode(zlib.compress(text.encode(), 5)).decode(),
        "PICTURES": "\n".join(pictures),
    }
    # "<title>@@TITLE@@</title>" -> "<title>", "TITLE", "</title>": the names stand at odd positions.
    template_parts = _read_asset("template.html").split("@@")
    template_parts[1::2] = [value_of_hole[name] for name in template_parts[1::2]]
    return "".join(template_parts).encode("utf-8", "backslashreplace")


def _read_asset(name: str) -> str:
    """Read a file of ``page/``, with lines that end in LF."""
    data = pkgutil.get_data("odm.report", f"page/{name}")
    assert data is not None
    return data.decode().replace("\r\n", "\n")


def _hash_source(text: str) -> str:
    """Return the hash by which the content security policy admits a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _format_date() -> str:
    """Return the day of ``SOURCE_DATE_EPOCH``, else nothing: so one input always gives the same bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdecimal():
        return ""
    try:
        return dt.datetime.fromtimestamp(int(epoch), dt.UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""
