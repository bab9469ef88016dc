"""Write cli/examples.json and docs/codes.md from the bad fixtures: ``python tests/write_examples.py``."""

import contextlib
import json
import os
import shlex
import sys
from pathlib import Path

from fixture_cases import PRINTED, ROOT, Command, Script, cases, fixture

LONGEST = 600
"""Characters of a printed line that makes an example."""


def example(case, code):
    """The line of input, the command or the Python that shows the code, and what is printed."""
    if isinstance(case, Command):
        printed = next(m[0] for m in PRINTED.finditer(case.err) if m[1] == code)
        return shlex.join(["odm", *case.words]), printed
    issue = next(issue for issue in case.log() if issue.code == code)
    if isinstance(case, Script):
        lines = case.path.read_text(encoding="utf-8").splitlines()
        shown = [line for line in lines if line and not line.startswith(("from ", "import "))]
        return "\n".join(shown), str(issue)
    with contextlib.chdir(case.folder):
        return input_line(issue), str(issue).replace(os.path.realpath(case.folder), "/data")


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
    """An example of each code: the input that shows it, and what is printed."""
    found = {}
    for code, folder in cases():
        if code not in found and len((shown := example(fixture(folder), code))[1]) < LONGEST:
            found[code] = shown
    return dict(sorted(found.items()))


def text_of(found):
    """The text of cli/examples.json."""
    return json.dumps(found, indent=1) + "\n"


def main():
    from odm.cli import _explain
    from odm.verbs.validation import all_codes

    codes = all_codes()
    found = examples()
    (ROOT / "cli" / "examples.json").write_text(text_of(found), encoding="utf-8", newline="\n")
    _explain.load_examples.cache_clear()
    page = _explain.explain(list(codes.values()), "markdown")
    (ROOT / "docs" / "codes.md").write_text(page, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{len(found)} of {len(codes)} codes have an example\n")
    for name in sorted(set(codes) - set(found)):
        sys.stdout.write(f"  without: {name}\n")


if __name__ == "__main__":
    main()
