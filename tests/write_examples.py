"""Write cli/_examples.py and docs/codes.md from the bad fixtures: ``python tests/write_examples.py``."""

import contextlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
FIRST = ("txt", "yolo", "csv", "voc", "coco")
"""Which formats show a code that several have: the plainest first."""


class Case:
    """A folder of `fixtures/bad` or `fixtures/validate`: what `odm validate` is asked there."""

    def __init__(self, folder):
        described = folder / "case.json"
        self.folder = folder
        self.said = json.loads(described.read_text(encoding="utf-8")) if described.exists() else {}
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
        from odm.cli.validate import add_refusals
        from odm.converters import examine

        source, gt, against = self.requests()
        loaded = examine(source, log, gt=gt, against=against)
        if len(loaded) == 2:
            add_refusals(loaded, log)
        return loaded


def cases():
    """Every case with its code, the plainest example of each code first."""
    from odm.cli._explain import all_codes

    codes = all_codes()
    folders = [p for p in [*FIXTURES.glob("bad/*/*"), *FIXTURES.glob("validate/*")] if p.is_dir()]

    def rank(folder):
        home = folder.parent.name
        return (FIRST.index(home) if home in FIRST else len(FIRST), len(folder.name), str(folder))

    found = []
    for folder in sorted(folders, key=rank):
        fits = [code for code in codes if folder.name == code or folder.name.startswith(code + "-")]
        assert fits, f"{folder.name} must begin with a code"
        found.append((max(fits, key=len), folder))
    return found


def input_line(issue):
    """The line of input that shows the issue, empty where it is none or not a short one."""
    try:
        data = Path(issue.path).read_bytes()
    except OSError:
        return ""
    if issue.pointer:
        with contextlib.suppress(ValueError, LookupError):
            value = json.loads(data)
            for key in issue.pointer.split("/")[1:3]:
                value = value[int(key) if isinstance(value, list) else key]
            text = json.dumps(value, ensure_ascii=True)
            return text if len(text) <= 160 else ""
        return ""
    lines = data.split(b"\n")
    if not 1 <= issue.line <= len(lines):
        return ""
    text = lines[issue.line - 1].strip(b"\r").decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text).strip()
    return text if 0 < len(text) <= 160 else ""


def examples():
    """An example of each code that a fixture shows: the line of input, and what is printed."""
    from odm.issues import Log

    found = {}
    for code, folder in cases():
        if code in found:
            continue
        log = Log()
        with contextlib.chdir(folder):
            Case(folder).examine(log)
            issues = [issue for issue in log if issue.code == code]
            if issues and len(str(issues[0])) < 600:
                found[code] = (input_line(issues[0]), str(issues[0]))
    return dict(sorted(found.items()))


def module(found):
    """The text of cli/_examples.py."""
    rows = "".join(
        f"    {code!r}: (\n        {line!r},\n        {printed!r},\n    ),\n"
        for code, (line, printed) in found.items()
    )
    return (
        '"""An example of each code: a line of input, where one line shows it, and what is printed.\n\n'
        "Made from the bad fixtures by ``python tests/write_examples.py``; do not edit it by hand.\n"
        '"""\n\n'
        "# fmt: off\n# ruff: noqa: E501, Q000\n\n"
        f"EXAMPLES: dict[str, tuple[str, str]] = {{\n{rows}}}\n"
    )


def main():
    import odm.cli._examples as held
    from odm.cli import _explain

    codes = _explain.all_codes()
    found = examples()
    (ROOT / "cli" / "_examples.py").write_text(module(found), encoding="utf-8", newline="\n")
    held.EXAMPLES.clear()
    held.EXAMPLES.update(found)
    page = _explain.explain(list(codes.values()), "markdown")
    (ROOT / "docs" / "codes.md").write_text(page, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{len(found)} of {len(codes)} codes have an example\n")
    for name in sorted(set(codes) - set(found)):
        sys.stdout.write(f"  without: {name}\n")


if __name__ == "__main__":
    main()
