"""The options of several commands: how files are opened, how a side is read, and what a report page shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import msgspec

from odm.files import MAX_SIZE
from odm.tables import Kind
from odm.verbs.options import OUTPUT, READING, Options, option
from odm.verbs.words import Path

IMAGES, SIZE = 200, 640
"""Images of a report, and the longest side of each."""
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """Return the number of bytes in a text such as ``500M`` or ``2G``. Raises ValueError for other texts."""
    match = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)i?B?", text, re.IGNORECASE | re.ASCII)
    if not match:
        raise ValueError(f"{text!r} is not a size such as 500M or 2G")
    return int(match[1]) * _SIZES[match[2].upper()]


class Side(msgspec.Struct, frozen=True):
    """How one side of a command, or its only source, is read."""

    flag: str
    """The one that names its format, for messages."""
    kind: Kind | None
    format: str | None
    encoding: str
    options: Mapping[str, Any]
    shared: Mapping[str, Any]
    unlisted: frozenset[str] = frozenset()
    """As for `odm.converters.Request`."""


class Opening(TypedDict):
    """How files are opened: arguments of `odm.converters.Request` and others."""

    follow_links: bool
    max_size: int
    encoding: str


class ReadingOptions(Options, heading=READING):
    """How files are opened and read."""

    skip_bad: bool = option("Skip rows with errors instead of failing.", default=False, needs_all=True)
    encoding: str = option(
        "Read text files in this encoding: gb18030, shift_jis ... [default: UTF-8, or detected]",
        "NAME",
        default="",
    )
    follow_links: bool = option("Follow symbolic links that lead outside the source.", default=False)
    skip_bad_files = False  # `SkipFilesOptions` makes it an option
    max_size: int = option(
        "Refuse larger files: 500M, 2G. [default: 64G]",
        "SIZE",
        default=MAX_SIZE,
        parse=parse_size,
        show_default=False,
    )

    def opening_arguments(self, encoding: str = "") -> Opening:
        """Return the arguments that say how files are opened; `encoding` is that of a side, if it has one."""
        return {
            "follow_links": self.follow_links,
            "max_size": self.max_size,
            "encoding": encoding or self.encoding,
        }

    def make_side(
        self, name: str, format_: str | None, kind: Kind | None = None, encoding: str = "", *unlisted: str
    ) -> Side:
        """Return how the side `name`, such as ``gt``, is read; with ``""``, the only source of a command.

        `unlisted` names the kinds of ids that the ground truth may lack, as in `odm.converters.Request`.
        """
        of_side = self.formats.get(name, {}) if name else {}
        flag = f"--{name}-format" if name else "--format"
        return Side(flag, kind, format_, encoding, of_side, self.formats[""], frozenset(unlisted))


class SkipFilesOptions(Options, heading=READING):
    """Whether whole files are skipped too."""

    skip_bad_files: bool = option(
        "Skip whole files with errors, and their images; each is named.",
        default=False,
        after="skip_bad",
        needs_all=True,
    )


class PageOptions(Options, heading=OUTPUT):
    """What a page shows."""

    report_images: int = option("Show at most N images in the report.", "N", default=IMAGES, bounds=(1, None))
    report_size: int = option(
        "Longest side of an image in the report.", "PX", default=SIZE, bounds=(16, 10_000)
    )
    report_title: str = option("Title of the report.", "TEXT", default="")
    language: Literal["en", "zh"] | None = option(
        "Language of the report; otherwise the reader's browser decides.", default=None
    )
    overwrite: bool = option("Replace existing files in the targets of --save and --report.", default=False)


PAGE_HELP = "Write an HTML report as one file (NAME.html) or a folder; --images gives the images."


class ReportOptions(PageOptions, ReadingOptions, heading=OUTPUT):
    """A report, and how the files that it shows are read."""

    report: Path | None = option(
        PAGE_HELP, "FILE|DIR", default=None, path="written", needs_all=True, boxes_only=True
    )
