"""Print the changelog's section of the version that a tag names: `python .ci/release_notes.py v0.1.0`.

Ends with a message if the tag is not the version of the code, or the changelog has no section for it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes_of(tag: str, root: Path = ROOT) -> str:
    """The section of the version `tag` names; SystemExit where it is not ready for a release."""
    version = re.search(r'^VERSION = "(.+)"$', (root / "src/odm/version.py").read_text("utf-8"), re.MULTILINE)
    citation = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    for file, match in (("src/odm/version.py", version), ("CITATION.cff", citation)):
        if match is None or f"v{match[1]}" != tag:
            sys.exit(f"the tag is {tag}, but {file} has the version {match[1] if match else 'of none'}")
    sections = re.split(r"^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    for title, section in zip(sections[1::2], sections[2::2], strict=True):
        if title.split(" - ")[0] == tag.removeprefix("v") and section.strip():
            return section.strip() + "\n"
    sys.exit(f"CHANGELOG.md has no section for {tag.removeprefix('v')}")


if __name__ == "__main__":
    print(notes_of(*sys.argv[1:]), end="")
