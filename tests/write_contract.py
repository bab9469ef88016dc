"""Record what stays stable: ``python tests/write_contract.py`` writes tests/data/contract.json.

The record is made of nested objects whose keys are names: of commands, options and choices, formats and their options,
protocols, codes, Python names and parameters, JSON keys and CSV columns. What was recorded must be there later, with the
same value; what is new may be there too. docs/stability.md says it in words.
"""

import argparse
import contextlib
import enum
import importlib
import inspect
import io
import itertools
import json
import os
import re
import tempfile
import typing
from pathlib import Path

import click
import msgspec

from odm.cli import _app
from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS
from odm.formats import FORMATS, option_specs
from odm.verbs.validation import all_codes

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).parent / "data" / "contract.json"


# ---------------------------------------------------------------------------------------- the command line


def taken(param):
    """What an option takes: nothing, one of some words, or any value."""
    words = getattr(param.type, "choices", None)
    return {str(word): True for word in words} if words else "switch" if param.is_flag else "value"


def commands():
    """Arguments and options of every command; those of formats follow from the sides and the formats."""
    found = {}
    for name in _app.COMMANDS:
        command = _app.app.get_command(click.Context(_app.app), name)
        found[name] = {
            "arguments": " ".join(
                p.metavar or p.name for p in command.params if isinstance(p, click.Argument)
            ),
            "options": {
                opt: taken(p) for p in command.params if isinstance(p, click.Option) for opt in p.opts
            },
            "sides with options of formats": dict.fromkeys(getattr(command.callback, "sides", ()), True),
        }
    return found


def formats():
    """The options of every format, and what it keeps."""
    return {
        name: {
            "options": {
                spec.name: {"flag": spec.flag or "", **dict.fromkeys(spec.choices or (), True)}
                for spec in option_specs(format_.options)
            },
            "keeps": dict.fromkeys(sorted(format_.keeps), True),
        }
        for name, format_ in FORMATS.items()
    }


def codes():
    """The severity of every code."""
    return {n: c.severity for n, c in all_codes().items() if not n.startswith("test-")}


# --------------------------------------------------------------------------------------------------- Python

MODULES = ("odm", "odm.coco", "odm.converters", "odm.evaluate", "odm.formats", "odm.masks", "odm.report")
"""Those whose ``__all__`` is public."""


def documented():
    """The names of other modules that the pages import, and the classes that they return.

    What the page about a format of one's own imports is for this repository's formats, and may change.
    """
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "adding-a-format.md"]
    for page in [ROOT / "README.md", *pages]:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for module, names in re.findall(r"^\s*from (odm[\w.]*) import ([\w, ]+)", block, re.MULTILINE):
                for name in names.split(","):
                    yield from found_in(module, name.strip())
    for name in ("Boxes", "Dataset", "Flag", "LabelState"):
        yield "odm.tables", name
    for name in ("Code", "DataError", "Issue", "Log", "OdmError", "PathError", "UsageError"):
        yield "odm.issues", name


def found_in(module, name):
    """Where a name that is imported is: itself, the functions of a module, and the class that it returns."""
    thing = getattr(importlib.import_module(module), name, None)
    if inspect.ismodule(thing):
        for inner in vars(thing).values():
            if getattr(inner, "__module__", "") == thing.__name__ and not inner.__name__.startswith("_"):
                yield thing.__name__, inner.__name__
    elif module not in MODULES:
        yield module, name
        result = typing.get_type_hints(thing).get("return") if inspect.isfunction(thing) else None
        homes = [importlib.import_module(m) for m in MODULES]
        if inspect.isclass(result) and not any(getattr(h, result.__name__, None) is result for h in homes):
            yield result.__module__, result.__name__


def parameters(function):
    """Each parameter and its place, or ``keyword``; and those that a call must give."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return {}
    found, number = {}, 0
    params = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    for param in params:
        if param.kind in (param.VAR_KEYWORD, param.VAR_POSITIONAL):
            found[param.name] = str(param.kind.description)
        else:
            found[param.name] = "keyword" if param.kind is param.KEYWORD_ONLY else f"position {number}"
            number += 1
    needed = [p.name for p in params if p.default is p.empty and found[p.name].startswith(("k", "pos"))]
    return {"parameters": found, "required": " ".join(needed)}


def described(thing):
    """What of a function, a class or an enumeration stays."""
    if isinstance(thing, enum.EnumMeta):
        return {"members": {member.name: True for member in thing}}
    if inspect.isclass(thing):
        members = {}
        homes = [c for c in thing.__mro__ if c.__module__.startswith("odm")]
        names = {n for c in homes for n in (*vars(c), *getattr(c, "__annotations__", ()))}
        for name in sorted(n for n in names if not n.startswith("_")):
            member = getattr(thing, name, None)
            members[name] = parameters(member) if callable(member) else "attribute"
        own = issubclass(thing, msgspec.Struct) or any("__init__" in vars(c) for c in homes)
        return {"members": members, **(parameters(thing) if own else {})}
    return parameters(thing) if callable(thing) else "value"


def python():
    """Every public name, with the parameters of functions and the members of classes."""
    found = {}
    for module in MODULES:
        home = importlib.import_module(module)
        found[module] = {name: described(getattr(home, name)) for name in home.__all__}
    for module, name in sorted(set(documented())):
        home = importlib.import_module(module)
        found.setdefault(module, {})[name] = described(getattr(home, name))
    errors = found["odm.issues"]
    for name in ("DataError", "PathError", "UsageError"):
        errors[name]["exit code"] = getattr(importlib.import_module("odm.issues"), name).exit_code
    return found


# ------------------------------------------------------------------------------------------------------ outputs

CLASSES = ("cat", "dog")
IMAGES = tuple(f"{i}.jpg" for i in range(4))


def boxes():
    """Ground truth and two sets of detections, COCO JSON, with every type of error."""
    gt = [
        {
            "id": n + 1,
            "image_id": n % 4,
            "category_id": 1 + n % 2,
            "bbox": [40 * n, 10, 20 + 10 * n, 40],
            "iscrowd": 0,
        }
        for n in range(8)
    ]
    for box in gt:
        box["area"] = box["bbox"][2] * box["bbox"][3]
    found = [
        {k: box[k] for k in ("image_id", "category_id", "bbox")} | {"score": 0.9 - 0.1 * n}
        for n, box in enumerate(gt)
    ]
    found[1]["bbox"] = [300, 200, 20, 20]  # background, and a miss
    found[2]["category_id"] = 2
    found[3] |= {"bbox": [found[3]["bbox"][0] + 20, *found[3]["bbox"][1:]]}
    found.append(found[0] | {"score": 0.3})
    sides = {
        "images": [
            {"id": i, "file_name": name, "width": 640, "height": 480} for i, name in enumerate(IMAGES)
        ],
        "categories": [{"id": i + 1, "name": name} for i, name in enumerate(CLASSES)],
    }
    return {"gt.json": sides | {"annotations": gt}, "a.json": found, "b.json": found[::-1][:-3]}


def run(*words):
    """What a command prints on the standard output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _app.run([str(word) for word in words])
    assert code in (0, 1), f"odm {' '.join(map(str, words))}: {code}\n{err.getvalue()}"
    return out.getvalue()


LISTED_BY = ("protocol", "key")
"""The fields by which the members of a list are told apart; others are all alike."""


def keys(value, names):
    """The keys of JSON, nested; all members of a list as one, and names of the data as ``*``."""
    if isinstance(value, dict):
        found = {}
        for key, inner in value.items():
            merge(found, {"*" if key in names else key: keys(inner, names)})
        return found
    if isinstance(value, list):
        found = {}
        for inner in value:
            by = next((inner[k] for k in LISTED_BY if k in inner), "") if isinstance(inner, dict) else ""
            own = keys(inner, names)
            merge(found, {f"[{by}]": own})
        return found
    return "null" if value is None else "number" if type(value) in (int, float) else type(value).__name__


def merge(found, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            merge(found[key], value)
        elif isinstance(value, dict) or found.get(key) in (None, "null"):
            found[key] = value


def csv_columns(folder):
    return {
        path.name: columns(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.csv"))
    }


def columns(text):
    return dict.fromkeys(text.splitlines()[0].split(","), True)


def outputs():
    """JSON keys and CSV columns of every output for programs, from real runs."""
    names = {*CLASSES, *IMAGES, *all_codes(), "day", "night", "a.json", "b.json"}
    for name, data in boxes().items():
        Path(name).write_text(json.dumps(data), encoding="utf-8")
    Path("tags.csv").write_text(
        "image,light\n0.jpg,day\n1.jpg,night\n2.jpg,day\n3.jpg,night\n", encoding="utf-8"
    )
    Path("bad.csv").write_text(
        "image,width,height,class,left,top,right,bottom\na.jpg,9,9,cat,5,1,2,x\n", encoding="utf-8"
    )
    eval_ = ("eval", "gt.json", "a.json", "-q")
    extras = (
        "--analyze",
        "all",
        "--tags",
        "tags.csv",
        "--ci",
        "--replicates",
        5,
        "--confusion",
        "--area",
        "tiny=0:256",
    )
    compared = (
        "compare",
        "gt.json",
        "a.json",
        "b.json",
        "-q",
        "--replicates",
        5,
        "--protocol",
        "coco",
        "--tags",
        "tags.csv",
    )
    others = [name for name in PROTOCOLS if name not in ("coco", "lvis")]
    lvis = [ROOT / f"fixtures/mixed/{name}/input.json" for name in ("lvis", "lvis-detections")]
    mot = [ROOT / f"fixtures/mixed/{name}/input" for name in ("mot", "mot-detections")]
    jsons = {
        "eval": [
            run(
                *eval_, "--protocol", "coco", *extras, "--recall-at", 5, "--output", "json", "--save", "saved"
            ),
            run(*eval_, *itertools.chain(*(("--protocol", n) for n in others)), "--output", "json"),
            run("eval", *lvis, "-q", "--protocol", "lvis", "--output", "json"),
            *(run("eval", *mot, "-q", "--protocol", name, "--output", "json") for name in TUBE_PROTOCOLS),
        ],
        "eval --save results.json": [Path("saved/results.json").read_text(encoding="utf-8")],
        "compare": [run(*compared, "--output", "json", "--save", "compared")],
        "agree": [run("agree", "gt.json", "gt.json", "-q", "--output", "json", "--save", "agreed")],
        "diff": [run("diff", "gt.json", lvis[0], "-q", "--output", "json", "--save", "changed")],
        "stats": [run("stats", side, "-q", "--output", "json") for side in ("gt.json", lvis[1])],
        "validate": [run("validate", "bad.csv", "gt.json", "--output", "json")],
        "validate --explain": [run("validate", "--explain", "inverted-box", "--output", "json")],
        "formats": [run("formats", "--output", "json")],
    }
    run(*eval_, "--thresholds", "f1", "--save-thresholds", "thresholds.json")
    jsons["eval --save-thresholds"] = [Path("thresholds.json").read_text(encoding="utf-8")]
    found = {name: {} for name in jsons}
    for name, texts in jsons.items():
        for text in texts:
            merge(found[name], {"": keys(json.loads(text), names)})
    import odm

    summary = odm.convert("gt.json", "out", to="yolo", options={}).to_dict()
    found["odm.Ledger.to_dict"] = {"": keys(summary, names)}
    tables = {
        "eval --output csv": columns(run(*eval_, "--output", "csv", "--protocol", "coco")),
        "compare --output csv": columns(run(*compared, "--output", "csv")),
        "eval --save": csv_columns("saved"),
        "compare --save": csv_columns("compared"),
        "agree --save": csv_columns("agreed"),
        "diff --save": csv_columns("changed"),
    }
    return {"json": {name: inner[""] for name, inner in found.items()}, "csv": tables}


def contract():
    """Everything that stays."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        made = outputs()
    return {
        "commands": commands(),
        "formats": formats(),
        "protocols": dict.fromkeys([*PROTOCOLS, *SHAPE_PROTOCOLS, *TUBE_PROTOCOLS], True),
        "codes": codes(),
        "python": python(),
        **made,
    }


def lost(before, current, path=()):
    """What was recorded before and is not there any more, or has another value: a line each."""
    for key, value in before.items():
        where = " > ".join((*path, key))
        if key not in current:
            yield f"{where}: gone"
        elif isinstance(value, dict) and isinstance(current[key], dict):
            yield from lost(value, current[key], (*path, key))
        elif value not in (current[key], "null"):  # the type of what was null is not known
            yield f"{where}: was {value!r}, is {current[key]!r}"


def added(before, current, path=()):
    """What is there and was not recorded."""
    for key, value in current.items():
        where = (*path, key)
        if key not in before:
            yield " > ".join(where)
        elif isinstance(value, dict) and isinstance(before[key], dict):
            yield from added(before[key], value, where)


def recorded():
    return json.loads(RECORD.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--break", dest="breaks", action="store_true", help="record although something is lost"
    )
    given = parser.parse_args()
    now = contract()
    gone = list(lost(recorded(), now)) if RECORD.exists() else []
    if gone and not given.breaks:
        raise SystemExit(
            "\n".join([*gone, "nothing was recorded: put it back, or use --break for the next major version"])
        )
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.pop("FORCE_COLOR", None)
    main()
