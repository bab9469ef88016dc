"""Rules for the names of files, images and classes, and the stem of an image's name."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec

from odm.issues import Code, Log, printable

BAD_NAME = Code(
    "bad-name",
    "error",
    "{value!r} is not a valid file name: {reason}",
    "use a relative path without '..', or shorten all names: --names basename or --names strip=PREFIX",
    "A name in the data is used to find or write a file. Names that lead elsewhere, or that no file can "
    "have, are refused.",
    file=True,
)
SAME_SHORT_NAME = Code(
    "same-short-name",
    "error",
    "{first!r} and {second!r} would both be called {value!r}",
    "rename one of them, or use --names strip=PREFIX with the folder that all images share",
    "Shortened names must still tell the images apart, or their boxes would be mixed.",
)
DEVICE_NAME = Code(
    "device-name",
    "warning",
    "{value!r} is not a valid file name on Windows",
    "rename it",
    "Windows reserves names such as CON or NUL, forbids some characters, and strips trailing dots and "
    "spaces.",
)

BAD_CLASS_NAME = Code(
    "bad-class-name",
    "error",
    "{value!r} is not a valid class name: {reason}",
    "rename the class",
    "Control characters and line separators in a class name break lines and tables, an empty name cannot be "
    "told from a missing one, and a name of thousands of characters is no name.",
    row=True,
)

PICTURE_SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .bmp .gif .webp .tif .tiff .mpo .avif .heic .heif .jp2 .ppm .pgm .dng".split()
)
"""Lower-case extensions that are not part of an image's stem."""

SIZES_FILE = "image-sizes.csv"
"""Beside pictures that are links: the sizes of images, which are not read from what links lead to."""

BOM = "\ufeff"
"""A byte order mark; readers drop it at the beginning of a file, so it cannot begin a name."""
MAX_DEPTH = 100
"""How many parts a name from the data may have."""

_RESERVED = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
_RESERVED |= {f"{port}{i}" for port in ("COM", "LPT") for i in range(1, 10)}
_USUAL_NAME = re.compile(
    r"(?:(?!(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|\Z))[\w-]+(?:\.[\w-]+)*(?:/(?!\Z)|\Z))+", re.ASCII
)
_NOT_WINDOWS = frozenset('<>:"|?*')


def is_usual(name: str) -> bool:
    """Whether a name is plain ASCII that every system takes, and no rule shortens it.

    It is then accepted at once; any other name needs the checks of `refuse_name`.
    """
    return len(name) < 100 and _USUAL_NAME.fullmatch(name) is not None and _rule.get() is None


def refuse_name(name: str) -> str | None:
    """Return why a name from the data, a ``/``-separated path, cannot be used to read or write.

    None if it can.
    """
    if is_usual(name):
        return None
    if not name or not name.strip():
        return "it is empty"
    if "\0" in name:
        return "it contains a NUL"
    if not (name.isascii() and name.isprintable()) and any(
        unicodedata.category(c) == "Cc" or c in "\u2028\u2029" for c in name
    ):
        return "it contains a control character"
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "it contains a lone surrogate"
    if name.startswith(BOM):
        return "it begins with a byte order mark"
    if name.startswith(("/", "\\")):
        return "it is an absolute path"
    if len(name) > 1 and name[1] == ":" and name[0].isalpha():
        return "it contains a drive"
    if "://" in name:
        return "it is a URL"
    parts = with_slashes(name).split("/")
    if ".." in parts:
        return "it leads outside its folder"
    if "" in parts or "." in parts:
        return "it has an empty part"
    if len(encoded) > 255 and any(len(part.encode()) > 255 for part in parts):
        return "one of its parts is longer than 255 bytes"
    if len(encoded) > 4000:
        return "it is longer than 4000 bytes"
    if len(parts) > MAX_DEPTH:
        return f"it has more than {MAX_DEPTH} parts"
    return None


def with_slashes(name: str) -> str:
    r"""Return a name with ``/`` between folders, as a dataset has them; tools on Windows write ``\``."""
    return name.replace("\\", "/")


def is_hidden(name: str) -> bool:
    """Whether a file of this relative path is not looked at where a folder is read."""
    return name.startswith((".", "__MACOSX/")) or "/." in name or "/__MACOSX/" in name


class NameRule(msgspec.Struct, frozen=True):
    """A rule that shortens the image names of a source: to their last part, or by a prefix."""

    prefix: str | None = None
    """What is removed from the beginning; None for everything but the last part."""

    def __call__(self, name: str) -> str:
        """Return the shortened name; of a URL without its query."""
        if "://" in name:
            name = re.split("[?#]", name, maxsplit=1)[0]
        path = with_slashes(name)
        if self.prefix is None:
            return path.rstrip("/").rpartition("/")[2]
        return path.removeprefix(self.prefix).lstrip("/") if path.startswith(self.prefix) else path

    def __str__(self) -> str:
        return "basename" if self.prefix is None else f"strip={self.prefix}"


def parse_name_rule(text: str) -> NameRule:
    """Parse ``basename`` or ``strip=PREFIX``. Raises ValueError for another text."""
    word, equals, prefix = text.partition("=")
    if text == "basename":
        return NameRule()
    if word != "strip" or not equals or not prefix:
        raise ValueError("expected basename or strip=PREFIX")
    return NameRule(with_slashes(prefix))


_rule: ContextVar[NameRule | None] = ContextVar("odm.names", default=None)
"""The rule of `apply_name_rule` by which a reader will shorten the names."""


@contextlib.contextmanager
def apply_name_rule(rule: NameRule | None) -> Iterator[None]:
    """Check names in this block as if `rule` had been applied; the reader applies the rule afterwards."""
    token = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(token)


def accept_name(name: str, log: Log, path: str, *, warn: bool = True, **location: Any) -> bool:
    """Return whether a name from the data may be used to read or write; otherwise report it at that place.

    It is checked as the rule of `apply_name_rule` will shorten it. Every reader asks this of every image name
    that it takes from inside a file. A name that only Windows refuses is accepted with a warning; without
    `warn` it is not reported: for names that are part of another one, which is checked too.
    """
    if (rule := _rule.get()) is not None:
        name = rule(name)
    if is_usual(name):
        return True
    reason = refuse_name(name)
    if reason is not None:
        log.report(BAD_NAME, path, value=name, reason=reason, **location)
        return False
    for part in with_slashes(name).split("/") if warn else ():
        base_name = part.split(".")[0].rstrip(" ").upper()
        if part[-1] in ". " or base_name in _RESERVED or not _NOT_WINDOWS.isdisjoint(part):
            log.report(DEVICE_NAME, path, value=name, **location)
            break
    return True


def stem(name: str) -> str:
    """An image's name without its extension: ``a/b.v2.JPG`` -> ``a/b.v2``, and ``a/b.v2`` stays.

    Only extensions of pictures are cut, so that a dot inside a stem loses nothing.
    """
    dot = name.rfind(".")
    return name[:dot] if dot > 0 and name[dot:].lower() in PICTURE_SUFFIXES and name[dot - 1] != "/" else name


def shorten_paths(paths: Sequence[str]) -> list[str]:
    """Return short printable names of paths: the shortest last parts that differ.

    ``a`` and ``b`` for ``runs/a/best.json`` and ``runs/b/best.json``; where no single part does, as
    many of the last ones as do.
    """
    parts_of_paths = [
        [printable(p) for p in re.split(r"[/\\]", path) if p] or [printable(path)] for path in paths
    ]
    lengths = range(1, max(map(len, parts_of_paths), default=0) + 1)
    # First each single part, from the last on: parts[-1:], parts[-2:-1] ...; then parts[-1:], parts[-2:] ...
    for part_slice in (*(slice(-n, 1 - n or None) for n in lengths), *(slice(-n, None) for n in lengths)):
        names = ["/".join(path_parts[part_slice]) for path_parts in parts_of_paths]
        if all(names) and len(set(names)) == len(names):
            return names
    return list(paths)


def parse_number(name: str) -> int:
    """Return the number from 0 that a name is, -1 for another name or one of more than 18 digits."""
    return int(name) if name.isdecimal() and name.isascii() and len(name) < 19 else -1


MOST_OF_CLASS = 1000
"""Characters of the name of a class, which formats repeat with every box."""


def refuse_class(name: str) -> str | None:
    """Return why `name` cannot be the name of a class, or None if it can."""
    if not name or not name.strip():
        return "it is empty"
    if len(name) > MOST_OF_CLASS:
        return f"it is longer than {MOST_OF_CLASS} characters"
    if name.isascii() and name.isprintable():
        return None
    if name.startswith(BOM):
        return "it begins with a byte order mark; files may have been concatenated"
    for c in name:
        kind = unicodedata.category(c)
        if kind in {"Cc", "Zl", "Zp"}:
            return "it contains a control character or a line separator"
        if kind == "Cs":
            return "it contains a lone surrogate"
    return None
