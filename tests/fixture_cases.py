"""The fixtures that show a code: what is asked in each folder, and what comes of it.

A fixture that shows a code is a folder named after it:

- ``fixtures/bad/FORMAT/CODE[-variant]``: input that a reader or a rule reports;
- ``fixtures/validate/CODE[-variant]``: what takes more than one input, such as pictures, links or two sides;
- ``fixtures/eval/CODE[-variant]`` and ``fixtures/convert/CODE[-variant]``: a whole command and what it says;
- ``fixtures/python/CODE[-variant]``: a few lines of Python, for what no file can hold.

``case.json`` says how the input is asked. ``links`` there are symbolic links to be made first, name and target, as not
every system can keep them in a checkout; the case then works on a copy.
"""

import contextlib
import io
import json
import os
import re
import runpy
import shutil
import tempfile
import weakref
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
FIRST = ("txt", "yolo", "csv", "voc", "coco")
"""Which formats show a code that several have: the plainest first."""
FAMILIES = ("bad/*/*", "validate/*", "eval/*", "convert/*", "python/*")
COMMANDS = ("eval", "convert")
PRINTED = re.compile(r"(?m)^(?!note: )\S.*?: (?:error|warning) ([a-z0-9-]+) .+$")


def described(folder):
    """The `case.json` of a folder, empty if there is none."""
    path = folder / "case.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def copied(folder, links):
    """A copy of a folder in a new one, with symbolic links made in it."""
    top = tempfile.mkdtemp(prefix="odm-fixture-")
    location = Path(top) / folder.name
    shutil.copytree(folder, location)
    for name, target in links.items():
        (location / name).parent.mkdir(parents=True, exist_ok=True)
        (location / name).symlink_to(os.path.relpath(location / target, (location / name).parent))
    return location


class Case:
    """A folder of `fixtures/bad` or `fixtures/validate`: what `odm validate` is asked there."""

    def __init__(self, folder):
        self.said = described(folder)
        self.folder = folder
        if "links" in self.said:
            self.folder = copied(folder, self.said["links"])
            weakref.finalize(self, shutil.rmtree, self.folder.parent)
        inputs = [p for p in sorted(folder.iterdir()) if p.name.startswith("input")]
        self.input = self.said.get("input") or inputs[0].name
        self.format = self.said.get("format") or (None if "input" in self.said else folder.parent.name)

    @property
    def options(self):
        """Options of the format; those that name something beside the input lead there."""
        options = {}
        for name, value in self.said.get("options", {}).items():
            beside = self.folder / value if isinstance(value, str) and value else None
            options[name] = os.path.relpath(beside) if beside is not None and beside.exists() else value
        if "images" in self.said:
            options["images"] = os.path.relpath(self.folder / self.said["images"])
        return options

    def path(self, key):
        return os.path.relpath(self.folder / self.said[key]) if key in self.said else None

    def requests(self):
        """What `examine` and the other commands take: the source, ``gt`` and ``against``."""
        from odm.converters import Request

        def request(path, **values):
            return None if path is None else Request(path=path, shared=self.options, **values)

        kind = "gt" if "against" in self.said else self.said.get("kind")
        source = request(os.path.relpath(self.folder / self.input), format=self.format, kind=kind)
        return source, request(self.path("gt"), kind="gt"), request(self.path("against"), kind="det")

    def examine(self, log):
        from odm.converters import examine
        from odm.verbs.validation import add_refusals

        source, gt, against = self.requests()
        loaded = examine(source, log, gt=gt, against=against)
        if len(loaded) == 2:
            add_refusals(*(one.dataset for one in loaded), log)
        return loaded

    def log(self):
        """What validating the input reports."""
        from odm.issues import Log

        log = Log()
        with contextlib.chdir(self.folder):
            self.examine(log)
        return log

    def codes(self):
        """Every code that is reported."""
        return set(self.log().counts)


class Command:
    """A folder of `fixtures/eval` or `fixtures/convert`: a whole command, run in a copy of the folder.

    ``arguments`` follow the two sides, or the source and the target; ``exit`` is the exit code.
    """

    def __init__(self, folder):
        self.said = described(folder)
        said, name = self.said, folder.parent.name
        paths = [said.get("gt", "gt"), said.get("det", "det")]
        if name == "convert":
            inputs = [p.name for p in sorted(folder.iterdir()) if p.name.startswith("input")]
            paths = [said.get("input", inputs[0] if inputs else ""), said.get("output", "out")]
        self.words = [name, *paths, *said.get("options", ()), *said.get("arguments", ())]
        self.folder = folder
        self.exit, self.out, self.err = self.run(self.words)

    def run(self, words):
        """Exit code, output and messages of a command in a copy of the folder."""
        from odm.cli import _app

        location = copied(self.folder, {})
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.chdir(location), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = _app.run(words)
        finally:
            shutil.rmtree(location.parent)
        return code, out.getvalue(), err.getvalue()

    def codes(self):
        """Every code that is printed."""
        return set(PRINTED.findall(self.err))


class Script:
    """A folder of `fixtures/python`: lines of Python that report to ``log``, or raise."""

    said = MappingProxyType({})

    def __init__(self, folder):
        self.path = folder / "example.py"

    def log(self):
        """What the lines report."""
        from odm.issues import DataError

        try:
            return runpy.run_path(str(self.path))["log"]
        except DataError as e:
            return e.log

    def codes(self):
        """Every code that is reported."""
        return set(self.log().counts)


def fixture(folder):
    """What a folder of any family is."""
    family = folder.parent.name
    return (Command if family in COMMANDS else Script if family == "python" else Case)(folder)


def code_of(folder, codes):
    """The longest of the codes that a folder's name begins with."""
    words = folder.name.split("-")
    begins = ("-".join(words[:n]) for n in range(len(words), 0, -1))
    code = next((name for name in begins if name in codes), None)
    assert code, f"{folder.name} must begin with a code"
    return code


def cases(families=FAMILIES):
    """The code and the folder of every fixture of these families, the plainest example of each code first."""
    from odm.verbs.validation import all_codes

    codes = all_codes()
    folders = [
        (number, folder)
        for number, family in enumerate(families)
        for folder in FIXTURES.glob(family)
        if folder.is_dir()
    ]

    def rank(numbered):
        number, folder = numbered
        home = folder.parent.name
        location = FIRST.index(home) if home in FIRST else len(FIRST) + number
        return (location, len(folder.name), str(folder))

    return [(code_of(folder, codes), folder) for _, folder in sorted(folders, key=rank)]
