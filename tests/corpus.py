"""Bad and odd input by format and fault, made again for each test: links, FIFOs and sparse files cannot be committed.

Each case begins with one small dataset in one format (`corpus_base`), changes one thing (`corpus_tables`), and says
what must come of it: `Refused` with a code and a place, `Read` with exactly these boxes (and perhaps a warning), or
`Unusable`. This file makes the cases and runs commands on them; it holds no test.
"""

import contextlib
import dataclasses
import io
import os
import re
import signal
import sys
import threading
from typing import Any

from corpus_base import BASE, BOXES, MAIN, TOLD, Read, Refused, Unusable, csv, lay, txt
from corpus_changes import SECRET
from corpus_tables import TABLES

__all__ = ["BASE", "BOXES", "MAIN", "SECRET", "TOLD", "Read", "Refused", "Unusable", "csv", "lay", "txt"]


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One row of a table."""

    format: str
    name: str
    change: Any
    """Text of the main file and what replaces it, files beside it, or a function of the folder and the main file."""
    expect: Read | Refused | Unusable
    det: bool = False
    options: tuple = ()
    size: bool = True
    """Whether the size of the images is said."""
    file: str = ""
    """The file that is edited, where it is not the main file."""
    count: int = 1
    named: bool = False
    """Whether the main file is what the user names, not its folder."""

    def __str__(self):
        return f"{self.format}{'-det' if self.det else ''}-{self.name}"

    @property
    def explicit(self):
        return [*(TOLD.get(self.format, ()) if self.size else ()), *self.options]

    def build(self, home):
        """Make the case below a folder; answers the path of the source relative to it."""
        main = MAIN[self.format]
        files = BASE[self.format](self.det)
        if isinstance(self.change, dict):
            files |= self.change
        elif isinstance(self.change, tuple):
            name = self.file or main
            before, after = (t.encode() if isinstance(t, str) else t for t in self.change)
            content = files[name].encode()
            assert before in content, str(self)
            files[name] = content.replace(before, after, self.count)
        folder = lay(home / "in", files)
        if callable(self.change):
            self.change(folder, folder / main)
        return f"in/{main}" if self.named else "in"


def expected(format_, outcome):
    """What a row says must come of it: ``CODE``, ``CODE:LINE`` or ``CODE#/POINTER`` in the main file, or ``CODE FILE``."""
    if not isinstance(outcome, str):
        return outcome
    code, place = re.fullmatch(r"([a-z0-9-]*)(.*)", outcome, re.DOTALL).groups()
    return Refused(code, f"in/{place[1:]}" if place.startswith(" ") else f"in/{MAIN[format_]}{place}")


def case(format_, name, change, outcome, more=None):
    return Case(format_, name, change, expected(format_, outcome), **(more or {}))


CASES = [case(format_, *row) for format_, rows in TABLES.items() for row in rows]
assert len({str(c) for c in CASES}) == len(CASES), "two cases have the same name"

# ------------------------------------------------------------------------------------------------- running them


class Run:
    """One call of the command line in this process: exit code and what it printed."""

    def __init__(self, args):
        self.args = [str(a) for a in args]
        from odm.cli import _app

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.code = _app.run(self.args)
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)
        self.out, self.err = (self._text(stream) for stream in (out, err))

    @staticmethod
    def _text(stream):
        stream.flush()
        return stream.detach().getvalue().decode()

    def __str__(self):
        return f"odm {' '.join(self.args)}\nexit code {self.code}\n{self.out[:3000]}\n{self.err[:3000]}"


LINE = re.compile(
    r"(?:[^\n]+: (?:error|warning) [a-z0-9-]+(?: \[[^\n]+?\])? [^\n]+; [^\n]+"
    r"|note: [^\n]+|odm: [^\n]+|Usage: [^\n]+|Try [^\n]+|Error: [^\n]+|"
    r"\.\.\. and \d[\d ]* more [^\n]+|(?:\d[\d ]*|no) (?:error|warning)[^\n]*|)"
)
"""What a line of the standard error stream may look like."""


def state(top):
    """All below a folder: kind, content or target, time of the last change."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            entry = [status.st_mode, status.st_ino, status.st_size]
            if os.path.islink(path):
                entry.append(os.readlink(path))
            elif os.path.isfile(path):
                entry.append(status.st_mtime_ns)
                if status.st_size < 2**24:
                    with open(path, "rb") as stream:
                        entry.append(hash(stream.read()))
            found[os.path.relpath(path, top)] = entry
    return found


class Watch:
    """What this process does to the disk and beyond, as the interpreter's audit hooks tell it.

    A hook cannot be removed, so there is one, which looks only while somebody watches.
    """

    active = None

    def __init__(self):
        self.opened, self.changed, self.forbidden = [], [], []

    def __enter__(self):
        Watch.active = self
        return self

    def __exit__(self, *_):
        Watch.active = None

    @classmethod
    def hook(cls, event, args):
        watch = cls.active
        if watch is None:
            return
        if event == "open":
            path, _, flags = args
            # A walk by descriptors opens the folders of one that was opened before.
            if isinstance(path, (str, bytes)) and sys._getframe(1).f_code.co_name not in ("fwalk", "_fwalk"):
                path = os.fsdecode(path)
                writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
                (watch.changed if writes else watch.opened).append(path)
        elif event in ("os.rename", "os.link", "os.symlink"):
            watch.changed.append(os.fsdecode(args[1]))
        elif event in (
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "os.truncate",
            "os.chmod",
            "os.chown",
            "os.utime",
        ):
            if isinstance(args[0], (str, bytes)):
                folder = -1 if event == "os.truncate" else args[-1]  # a descriptor, where it is not negative
                below = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else ""
                watch.changed.append(os.path.join(below, os.fsdecode(args[0])))
        elif event.startswith(
            (
                "socket.",
                "subprocess.",
                "os.exec",
                "os.fork",
                "os.spawn",
                "os.posix_spawn",
                "os.system",
                "urllib.",
                "http.",
                "ftplib.",
                "webbrowser.",
                "pickle.",
            )
        ):
            watch.forbidden.append(event)


sys.addaudithook(Watch.hook)
