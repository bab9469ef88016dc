"""Rewrite the drawings, and the generated parts of the pages between ``<!-- name -->`` and ``<!-- /name -->``.

``<!-- output -->`` stands for what the commands of the block above it print, at 80 columns, and ``<!-- output 3 -->``
for the last three lines of it. The commands of a page
run in one folder, one after the other; ``fixtures/`` is there.

python docs/generate.py          # rewrite
python docs/generate.py --check  # exit with 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import importlib.util
import io
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]


def command(*args: str, cwd: Path | str = ROOT) -> str:
    """What ``odm`` prints on the standard output."""
    from odm.cli import _app

    errors = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(errors),
    ):
        if code := _app.run(list(args)):
            raise SystemExit(f"odm {shlex.join(args)} ends with {code}:\n{errors.getvalue()}")
    return out.getvalue().rstrip("\n")


def block(text: str) -> str:
    """Text in a fence."""
    return f"```text\n{text}\n```"


STREET = [f"fixtures/street/{name}.json" for name in ("truth", "earlier", "detections")]


def quick_start() -> str:
    """The last line that the README's first command prints."""
    truth, _, found = STREET
    return block(command("eval", "-q", truth, found, "--protocol", "coco").splitlines()[-1])


def verdict() -> str:
    """The last sentence of the README's comparison."""
    printed = command("compare", "-q", *STREET, "--protocol", "coco")
    return block(printed.split("\n\n")[-1])


def formats() -> str:
    """The table of formats and directions."""
    return command("formats", "--output", "markdown")


def formats_by_use() -> str:
    """A line per use, with a link to each format."""
    from odm.cli.formats import sort_by_use

    lines = ["| used for | formats | of these, with shapes as well as boxes |", "|---|---|---|"]
    formats = [f for f in sort_by_use() if f.write]
    groups = [(use, list(g)) for use, g in itertools.groupby(formats, key=lambda format_: format_.use)]
    for use, own in [*groups, ("only read", [f for f in sort_by_use() if not f.write])]:
        links = ", ".join(f"[{f.title.partition(':')[0]}](docs/formats.md#{f.name})" for f in own)
        drawn = ", ".join(f"`{f.name}`" for f in own if shapes_of(f)) or "-"
        lines.append(f"| {use} | {links} | {drawn} |")
    return "\n".join(lines)


SHAPES = {"polygon": "outlines", "mask": "masks", "oriented": "oriented boxes", "keypoints": "keypoints"}


def shapes_of(format_: Any) -> list[str]:
    """What shapes a format holds, with an option or without."""
    return [words for word, words in SHAPES.items() if word in {*format_.keeps, *format_.shape_options}]


def protocols() -> str:
    """The definition line of every protocol, in a table for each field."""
    from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS
    from odm.evaluate.scores.protocols import group_names_by_field

    rules = {**PROTOCOLS, **SHAPE_PROTOCOLS, **TUBE_PROTOCOLS}
    lines: list[str] = []
    for field, names in group_names_by_field().items():
        lines += ["", f"**{field.capitalize()}**", "", "| protocol | definition |", "|---|---|"]
        lines += [f"| `{name}` | {rules[name].definition.split(': ', 1)[1]} |" for name in names]
    return "\n".join(lines[1:])


def protocols_by_field() -> str:
    """The names of the protocols of each field."""
    from odm.evaluate.scores.protocols import group_names_by_field

    rows = [
        f"| {field} | {', '.join(f'`{name}`' for name in names)} |"
        for field, names in group_names_by_field().items()
    ]
    return "\n".join(["| field | protocols |", "|---|---|", *rows])


EXAMPLE = ("eval", "-q", "fixtures/illustrated/groundtruths", "fixtures/illustrated/detections")


def accumulated() -> str:
    """The accumulated table of the illustrated example, without the columns that are the same in every row."""
    with tempfile.TemporaryDirectory() as folder:
        command(*EXAMPLE, "--iou", "0.3", "--save", f"{folder}/result")
        with Path(folder, "result", "accumulated.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    lines = [
        "| rank | image | score | best IoU | TP | FP | acc. TP | acc. FP | precision | recall |",
        "|-----:|------:|------:|---------:|---:|---:|--------:|--------:|----------:|-------:|",
    ]
    for row in rows:
        shares = [f"{float(row[key]):.4f}" for key in ("precision", "recall")]
        outcome = [row[key] if row[key] == "1" else "" for key in ("tp", "fp")]
        sums = [row["accumulated_tp"], row["accumulated_fp"]]
        first = [
            row["rank"],
            row["image"].lstrip("0"),
            f"{float(row['score']):.2f}",
            f"{float(row['best_iou']):.3f}",
        ]
        lines.append(f"| {' | '.join([*first, *outcome, *sums, *shares])} |")
    return "\n".join(lines)


DIFFERENCES = (
    ("--iou 0.3", "mAP", "all points, inclusive pixels"),
    ("--iou 0.3 --interpolation 101", "mAP", "read at 101 points"),
    ("--iou 0.3 --protocol voc2007", "mAP", "read at 11 points"),
    ("--iou 0.3 --pixels edges", "mAP", "without the extra pixel"),
    ("--protocol voc2012", "mAP", "IoU of at least 0.5"),
    ("--protocol coco", "AP50", "IoU of at least 0.5, read at 101 points"),
    ("--protocol ultralytics", "mAP50", "trapezoids between 101 points"),
    ("--protocol yolov5", "mAP50", "the same, and a line from the last point down to recall 1"),
    ("--protocol coco", "AP", "mean over ten thresholds"),
)


def differences() -> str:
    """The illustrated example under several rules."""
    lines = ["| options of `odm eval` | number | value | rule |", "|---|---|--:|---|"]
    for options, key, rule in DIFFERENCES:
        (result,) = json.loads(command(*EXAMPLE, *options.split(), "--output", "json"))["results"]
        lines.append(f"| `{options}` | {key} | {100 * result['summary'][key]:.2f}&nbsp;% | {rule} |")
    return "\n".join(lines)


def doubts() -> str:
    """The warnings of ``odm eval`` that ``--quiet`` does not hide."""
    from odm.evaluate.doubts import DOUBTFUL

    return ", ".join(f"[`{code.name}`](codes.md#{code.name})" for code in DOUBTFUL) + "."


def pages() -> str:
    """The page of every format, as ``odm formats NAME`` prints it."""
    from odm.cli.formats import format_page
    from odm.formats import FORMATS

    return "\n\n".join(f"## {name}\n\n{block(format_page(format_))}" for name, format_ in FORMATS.items())


OUTPUT = re.compile(r"(```sh\n([^`]*)```\n\n<!-- output(?: (\d+))? -->\n).*?(<!-- /output -->)", re.DOTALL)


def outputs(text: str) -> str:
    """A page with the outputs of its commands."""
    if not OUTPUT.search(text):
        return text
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fixtures").symlink_to(ROOT / "fixtures")

        def run(match: re.Match[str]) -> str:
            lines = [line.split("  #")[0] for line in match[2].splitlines() if line.startswith("odm ")]
            printed = [command(*shlex.split(line)[1:], cwd=folder) for line in lines]
            shown = "\n".join(text for text in printed if text).split("\n")
            return match[1] + block("\n".join(shown[-int(match[3] or len(shown)) :])) + "\n" + match[4]

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

    head = "| format | written by | versions and layouts that are tested | shapes | what it cannot hold |"
    lines = [head, "|---|---|---|---|---|"]
    tried: dict[str, dict[str, None]] = {name: {} for name in FORMATS}
    for case in sorted((ROOT / "fixtures").glob("[mt]*/*/case.json")):
        if tool := json.loads(case.read_text(encoding="utf-8")).get("tool"):
            folder = case.parent.name
            owner = next(name for name in FORMATS if re.fullmatch(rf"{name}(-.*)?", folder))
            tried[owner][tool] = None
    for name, format_ in FORMATS.items():
        tools = "; ".join(tried[name]) or "-"
        lost = ", ".join(shown for key, shown in LOSSES.items() if key not in format_.keeps) or "-"
        drawn = ", ".join(shapes_of(format_)) or "-"
        lines.append(f"| [`{name}`](#{name}) | {format_.written_by} | {tools} | {drawn} | {lost} |")
    return "\n".join(lines)


def action_inputs() -> str:
    """The inputs of ``action.yml``."""
    import yaml

    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    rows = [f"| `{name}` | {said['description']} | `{said['default']}` |" for name, said in inputs.items()]
    return "\n".join(["| input | meaning | default |", "|---|---|---|", *rows]).replace("| `` |", "| |")


def python_names() -> str:
    """The public names, as they are recorded."""
    import json

    record = json.loads((ROOT / "tests/data/contract.json").read_text(encoding="utf-8"))["python"]
    lines = ["| module | names |", "|---|---|"]
    lines += [
        f"| `{module}` | {', '.join(f'`{n}`' for n in sorted(names))} |" for module, names in record.items()
    ]
    return "\n".join(lines)


def chinese(make: Callable[[], str]) -> Callable[[], str]:
    """The same table with its words in Chinese."""

    def made() -> str:
        rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in make().splitlines()]
        return "\n".join(f"| {' | '.join(map(drawing_module().chinese, row))} |" for row in rows)

    return made


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "quick start": quick_start,
        "verdict": verdict,
        "fields": protocols_by_field,
        "formats": formats_by_use,
    },
    "docs/ci.md": {"action inputs": action_inputs},
    "docs/cookbook.md": {},
    "docs/diff.md": {},
    "docs/shapes.md": {},
    "docs/evaluating.md": {"doubts": doubts},
    "docs/reading-results.md": {},
    "docs/protocols.md": {"protocols": protocols},
    "docs/stability.md": {"python names": python_names},
    "docs/formats.md": {"formats": formats, "tools": tools, "pages": pages},
    "docs/metrics-explained.md": {"accumulated": accumulated, "differences": differences},
    "docs/zh/metrics-explained.md": {
        "accumulated": chinese(accumulated),
        "differences": chinese(differences),
    },
    "README.zh-CN.md": {"quick start": quick_start, "verdict": verdict},
    **{f"docs/{page.name}": {} for page in sorted((ROOT / "docs").glob("from-*.md"))},
}


def rewritten(file: str) -> str:
    """The page with its generated parts rewritten."""
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


@functools.cache
def drawing_module(name: str = "drawings") -> Any:
    """``docs/drawings.py``, or another module of drawings, which may import it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def drawings() -> dict[str, str]:
    """The drawings of the pages about metrics and shapes, by file."""
    made: dict[str, str] = drawing_module().drawings()
    return made | drawing_module("shape_drawings").shape_drawings()


def signs() -> str:
    """``formats/_signs.py``: what a source must have for a format to be asked about it, and which formats have which flag."""
    from odm.formats import FORMATS, option_specs

    def entry(name: str) -> str:
        looks_at, begins, holds = FORMATS[name].signs
        quote = {True: repr, False: json.dumps}  # as the formatter writes them
        texts = ([quote['"' in word](word) for word in words] for words in (looks_at, holds))
        both = [", ".join(words) + "," * (len(words) == 1) for words in texts]
        first = "None" if begins is None else json.dumps(begins)
        return f"    {json.dumps(name)}: (({both[0]}), {first}, ({both[1]})),"

    own = [name for name in FORMATS if FORMATS[name].read.__module__.startswith("odm.formats.")]
    variants: dict[str, dict[object, str]] = {}
    for name in own:
        for spec in option_specs(FORMATS[name].options):
            if spec.flag:
                kind = (spec.name, spec.help, spec.choices, spec.side, spec.is_switch, spec.is_path)
                variants.setdefault(spec.flag, {}).setdefault(kind, name)
    flags = {flag: json.dumps([*found.values()])[1:-1] for flag, found in sorted(variants.items())}
    return f'''"""What detection and the command line must know of the formats in this package before they import them.

Written by ``python docs/generate.py``. A format that is missing here is always asked.
"""

SIGNS: dict[str, tuple[tuple[str, ...], str | None, tuple[str, ...]]] = {{
{chr(10).join(map(entry, own))}
}}
"""`Format.signs` by name."""

READ_ONLY = frozenset({json.dumps([name for name in own if FORMATS[name].write is None])})
"""Formats without `Format.write`."""

FLAGS: dict[str, tuple[str, ...]] = {{
{chr(10).join(f'    "{flag}": ({names}{"" if "," in names else ","}),' for flag, names in flags.items())}
}}
"""Formats that together have every form of a long flag."""
'''


def words() -> str:
    """``src/odm/verbs/words.py``: the names that arguments take, and the options of formats, for editors and type checkers."""
    from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS
    from odm.evaluate.analysis.analyses import ANALYSES
    from odm.formats import FORMATS, option_specs

    own = [f for f in FORMATS.values() if f.read.__module__.startswith("odm.formats.")]
    kinds: dict[str, str] = {}
    of_side: dict[str, set[str]] = {"read": set(), "write": set(), "both": set()}
    for spec in (spec for f in own for spec in option_specs(f.options)):
        choices = {
            c for f in own for s in option_specs(f.options) if s.name == spec.name for c in s.choices or ()
        }
        listed = ", ".join(json.dumps(c) for c in sorted(choices))
        kind = (
            "bool"
            if spec.is_switch
            else "Path"
            if spec.is_path
            else f"Literal[{listed}]"
            if listed
            else "Any"
        )
        kinds.setdefault(spec.name, kind)
        of_side[spec.side].add(spec.name)
    reading, writing = (of_side["both"] | of_side[side] for side in ("read", "write"))

    def names(title: str, values: Iterable[str], text: str) -> str:
        listed = textwrap.fill(", ".join(map(json.dumps, values)), 106, break_on_hyphens=False)
        return f'{title} = Literal[\n{textwrap.indent(listed, "    ")}\n]\n"""{text}"""\n'

    def options(title: str, base: str, names_of_sides: dict[str, set[str]]) -> str:
        sides = [side for side in names_of_sides if side]
        rows = [
            f"    {side and f'{side}_'}{name}: {kinds[name]}|None=None"
            for side, own in names_of_sides.items()
            for name in sorted(own)
        ]
        rows = [textwrap.fill(row, 100, subsequent_indent="        ") for row in rows]
        rows = [row.replace("|None=None", " | None = None") for row in rows]
        head = f"class {title}({base}, sides={json.dumps(sides)}):"
        return "\n".join([head, '    """Options of formats, also for one side only."""', "", *rows, ""])

    parts = [
        names("ProtocolName", [*PROTOCOLS, *SHAPE_PROTOCOLS, *TUBE_PROTOCOLS], "A name of a protocol."),
        names(
            "BoxProtocolName",
            [*PROTOCOLS, *SHAPE_PROTOCOLS],
            "A name of a protocol that does not measure tracks.",
        ),
        names("Analysis", ANALYSES, "A name of an analysis."),
        names("FormatName", (f.name for f in own), "A name of a format; other packages may add some."),
        options("ReadFormatOptions", "Options", {"": reading}),
        options("WriteFormatOptions", "Options", {"": writing}),
        options("PairFormatOptions", "ReadFormatOptions", {"gt": reading, "det": reading}),
        options(
            "ValidateFormatOptions",
            "Options",
            {"": (reading | writing) - {"images"}, "gt": reading, "det": reading},
        ),
        options("AgreeFormatOptions", "ReadFormatOptions", {"a": reading, "b": reading}),
        options("DiffFormatOptions", "ReadFormatOptions", {"old": reading, "new": reading}),
        options(
            "ConvertFormatOptions",
            "ReadFormatOptions",
            {"": writing - reading, "from": reading, "to": writing},
        ),
    ]
    return '''"""The words that arguments take, and the options of formats, for editors and type checkers.

Written by ``python docs/generate.py``.
"""
# fmt: off

from __future__ import annotations

import os
from typing import Any, Literal

from odm.verbs.options import Options

Path = str | os.PathLike[str]

''' + "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for file, text in [
        ("formats/_signs.py", signs()),
        ("src/odm/verbs/words.py", words()),
        *((file, rewritten(file)) for file in PARTS),
        *drawings().items(),
    ]:
        path = ROOT / file
        if not path.exists() or text != path.read_text(encoding="utf-8"):
            stale.append(file)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    print("\n".join(f"{'out of date' if check else 'rewritten'}: {file}" for file in stale) or "up to date")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
