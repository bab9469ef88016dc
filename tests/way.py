"""The ways of one box and of one option through the code.

`python tests/way.py` lists the functions from YOLO to COCO, in order of call, and the calls that pass the value of
``--iou`` on. The way of the box counts what runs of the product for one label file, without cli/ and src/odm/verbs/, where options and
arguments are read, and without comprehensions, in a second run (imports and caches are then filled).
"""

import os
import sys
from pathlib import Path
from types import CodeType, FrameType

from odm.cli._app import run
from odm.evaluate import Protocol
from odm.verbs.options import Options

SOURCES = Path(__file__).resolve().parent.parent
NOT_FUNCTIONS = ("<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")


LEVELS = ("cli/", "src/odm/verbs/", "src/odm/", "converters/", "evaluate/")
"""Parts of the product, of which none calls one that stands before it."""
IOU = 0.4321


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


def iou_to_matching(folder: Path) -> list[tuple[str, str, str]]:
    """Files of caller and function, and its name, of each call that passes the IoU of ``odm eval --iou`` on."""
    for name in ("gt", "det"):
        (folder / name).mkdir()
        score = " 0.9" * (name == "det")
        (folder / name / "a.txt").write_text(f"car{score} 10 10 20 20\n")
    steps: list[tuple[str, str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = _file_of(code)
        if event != "call" or not file.startswith(LEVELS) or code.co_name in NOT_FUNCTIONS:
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
        if any(_holds(frame.f_locals.get(name)) for name in names):
            caller = frame.f_back
            while caller is not None and not _file_of(caller.f_code).startswith(LEVELS):
                caller = caller.f_back
            steps.append((_file_of(caller.f_code) if caller else file, file, code.co_qualname))

    sys.setprofile(note)
    try:
        sides = [str(folder / name) for name in ("gt", "det")]
        assert run(["eval", *sides, "--iou", str(IOU), "--box", "ltrb", "--quiet"]) == 0
    finally:
        sys.setprofile(None)
    return steps


def _file_of(code: CodeType) -> str:
    return os.path.relpath(os.path.realpath(code.co_filename), SOURCES)


def _holds(value: object, depth: int = 3) -> bool:
    """Whether a value is the IoU or its text, or a list, a record or a protocol that has it."""
    if isinstance(value, (float, str)):
        return str(value) == str(IOU)
    if depth and isinstance(value, (list, tuple)):
        return any(_holds(one, depth - 1) for one in value[:10])
    if depth and isinstance(value, Options):
        return _holds(getattr(value, "iou", None), depth - 1)
    return bool(depth) and isinstance(value, Protocol) and _holds(value.ious)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        way = yolo_to_coco(Path(temporary))
        steps = iou_to_matching(Path(temporary))
    for name, function, line in way:
        print(f"{name}:{line} {function}")
    print(f"{len({name for name, _, _ in way})} files, {len(way)} functions")
    for caller, name, function in dict.fromkeys(steps):
        print(f"{caller} -> {name} {function}")
