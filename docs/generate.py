"""Rewrite the generated parts of the pages, which stand between ``<!-- name -->`` and ``<!-- /name -->``.

``<!-- output -->`` stands for what the commands of the block above it print, at 80 columns. The commands of a page
run in one folder, one after the other; ``fixtures/`` is there.

python docs/generate.py          # rewrite
python docs/generate.py --check  # exit with 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def command(*args: str, cwd: Path | str = ROOT) -> str:
    """What ``odm`` prints on the standard output."""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "odm", *args],
        cwd=cwd,
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.rstrip("\n")


def block(text: str) -> str:
    """Text in a fence."""
    return f"```text\n{text}\n```"


def quick_start() -> str:
    """The table of the README's first command."""
    folder = "fixtures/illustrated"
    return block(command("eval", "-q", f"{folder}/groundtruths", f"{folder}/detections", "--iou", "0.3"))


def formats() -> str:
    """The table of formats and directions."""
    return command("formats", "--output", "markdown")


def protocols() -> str:
    """The definition line of every protocol."""
    from odm.evaluate import PROTOCOLS, TUBE_PROTOCOLS

    lines = ["| protocol | definition |", "|---|---|"]
    lines += [
        f"| `{name}` | {rules.definition.split(': ', 1)[1]} |"
        for name, rules in {**PROTOCOLS, **TUBE_PROTOCOLS}.items()
    ]
    return "\n".join(lines)


def doubts() -> str:
    """The warnings of ``odm eval`` that ``--quiet`` does not hide."""
    from odm.evaluate.doubts import DOUBTFUL

    return ", ".join(f"[`{code.name}`](codes.md#{code.name})" for code in DOUBTFUL) + "."


def pages() -> str:
    """The page of every format, as ``odm formats NAME`` prints it."""
    from odm.cli.formats import page
    from odm.formats import FORMATS

    return "\n\n".join(f"## {name}\n\n{block(page(format_))}" for name, format_ in FORMATS.items())


OUTPUT = re.compile(r"(```sh\n([^`]*)```\n\n<!-- output -->\n).*?(<!-- /output -->)", re.DOTALL)


def outputs(text: str) -> str:
    """A page with the outputs of its commands."""
    if not OUTPUT.search(text):
        return text
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fixtures").symlink_to(ROOT / "fixtures")

        def run(match: re.Match[str]) -> str:
            lines = [line.split("  #")[0] for line in match[2].splitlines() if line.startswith("odm ")]
            printed = [command(*shlex.split(line)[1:], cwd=folder) for line in lines]
            return match[1] + block("\n".join(text for text in printed if text)) + "\n" + match[3]

        return OUTPUT.sub(run, text)


LOSSES = {
    "size": "image sizes",
    "extension": "extensions of image names",
    "empty": "images without objects",
    "unused": "classes without objects",
    "order": "the order of classes",
    "split": "splits",
    "score": "scores",
    "difficult": "difficult",
    "crowd": "crowd",
    "truncated": "truncated",
    "occluded": "occluded",
}


def tools() -> str:
    """For each format which tools write it, in which versions, and what it cannot hold."""
    from odm.formats import FORMATS

    head = "| format | written by | versions and layouts that are tested | what it cannot hold |"
    lines = [head, "|---|---|---|---|"]
    tried: dict[str, dict[str, None]] = {name: {} for name in FORMATS}
    for case in sorted((ROOT / "fixtures").glob("[mt]*/*/case.json")):
        if tool := json.loads(case.read_text(encoding="utf-8")).get("tool"):
            folder = case.parent.name
            owner = next(name for name in FORMATS if re.fullmatch(rf"{name}(-.*)?", folder))
            tried[owner][tool] = None
    for name, format_ in FORMATS.items():
        tools = "; ".join(tried[name]) or "-"
        lost = ", ".join(shown for key, shown in LOSSES.items() if key not in format_.keeps) or "-"
        lines.append(f"| [`{name}`](#{name}) | {format_.written_by} | {tools} | {lost} |")
    return "\n".join(lines)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"quick start": quick_start, "formats": formats},
    "docs/evaluating.md": {"protocols": protocols, "doubts": doubts},
    "docs/formats.md": {"tools": tools, "pages": pages},
    **{f"docs/{page.name}": {} for page in sorted((ROOT / "docs").glob("from-*.md"))},
}


def rewritten(file: str) -> str:
    """The page with its generated parts made anew."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for name, make in PARTS[file].items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if begin not in text or end not in text:
            raise SystemExit(f"{file} has no place for {name!r}")
        made = f"{begin}\n{make()}\n{end}"
        text = re.sub(
            f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, made=made: made, text, flags=re.DOTALL
        )
    return outputs(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for file in PARTS:
        text = rewritten(file)
        if text != (ROOT / file).read_text(encoding="utf-8"):
            stale.append(file)
            if not check:
                (ROOT / file).write_text(text, encoding="utf-8")
    print("\n".join(f"{'out of date' if check else 'rewritten'}: {file}" for file in stale) or "up to date")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
