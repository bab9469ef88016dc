"""The way of one box through the code: `python tests/way.py` lists the functions from YOLO to COCO, in order of call.

Counts what runs of the product for one label file, without cli/ and src/odm/verbs/, where options and
arguments are read, and without comprehensions, in a second run (imports and caches are then filled).
"""

import os
import sys
from pathlib import Path
from types import CodeType, FrameType

from odm.cli._app import run

SOURCES = Path(__file__).resolve().parent.parent
NOT_FUNCTIONS = ("<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")


def yolo_to_coco(folder: Path) -> list[tuple[str, str, int]]:
    """File (below the package), name and first line of each function that runs, in order of call."""
    labels = folder / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    command = ["convert", "--from", "yolo", "--to", "coco", str(labels), "--image-size", "640x480"]
    seen: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.setdefault(frame.f_code)

    assert run([*command, str(folder / "first.json")]) == 0
    sys.setprofile(note)
    try:
        assert run([*command, str(folder / "second.json")]) == 0
    finally:
        sys.setprofile(None)
    found = []
    for code in seen:
        name = os.path.relpath(os.path.realpath(code.co_filename), SOURCES)
        if (
            code.co_filename[0] != "<"
            and name.startswith(("converters/", "formats/", "src/"))
            and not name.startswith("src/odm/verbs/")
            and code.co_name not in NOT_FUNCTIONS
        ):
            found.append((name, code.co_qualname, code.co_firstlineno))
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        way = yolo_to_coco(Path(temporary))
    for name, function, line in way:
        print(f"{name}:{line} {function}")
    print(f"{len({name for name, _, _ in way})} files, {len(way)} functions")
