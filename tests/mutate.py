"""Put faults into a copy of the product, one at a time, and list those that no test notices.

    python tests/mutate.py --seed 1 --number 40            # the tests that run the line, a few seconds for each fault
    python tests/mutate.py --seed 1 --number 40 --whole    # then the whole suite for those that are left

The places are drawn by lines, so that each room gets its share; a seed always gives the same faults for the same source.
A fault is a slip of a pen: another comparison or sign, the other axis, exchanged arguments, a condition that is dropped,
a wrong default, a copy that is not made. The first run maps with coverage.py which test runs which line, and keeps that
in the temporary folder until the product changes. A survivor is a missing test, or a change that changes nothing.

Why not mutmut: it changes every line, which takes days here, rather than a sample; it rewrites each function into a list
of its variants behind a trampoline, which breaks the msgspec structures, the late imports and the tests that measure or
start processes; it follows no symbolic links, by which ``src/odm`` has its rooms; and it has no faults of arrays.
"""

import argparse
import ast
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("formats", "evaluate", "converters", "src/odm", "cli")
RECORD = os.environ.get("ODM_MUTATE_RECORD", "")
"""The folder for the map, set for a pytest that loads this module as a plugin."""
TESTS = os.environ.get("ODM_MUTATE_TESTS", "")
"""The file that lists the tests to run, in this order, likewise."""
MOST = 60.0
"""Related tests are run up to so many seconds, as measured for the map; the shortest first."""

if RECORD:
    import coverage

    _coverage = coverage.Coverage(f"{RECORD}/lines", True, source=["."], config_file=False)
    _coverage.set_option("run:relative_files", True)
    _coverage.start()

    def pytest_runtest_logstart(nodeid):
        _coverage.switch_context(nodeid)

    def pytest_runtest_logreport(report):
        if report.when == "call" and report.passed:
            with open(f"{RECORD}/passed", "a", encoding="utf-8") as stream:
                stream.write(json.dumps([report.nodeid, report.duration]) + "\n")

    def pytest_unconfigure():
        _coverage.stop()
        _coverage.save()


if TESTS:

    def pytest_collection_modifyitems(items):
        """Keep the listed tests; a fault may change which there are, which alone nobody would notice."""
        place = {test: row for row, test in enumerate(Path(TESTS).read_text(encoding="utf-8").splitlines())}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda item: place[item.nodeid])


def read_map(checkout, tests):
    """The tests that pass, with their seconds, and of each file by line those that run it; made if it is not there."""
    import coverage

    files = [p for room in ROOMS for p in sorted((checkout / room).rglob("*.py"))]
    content = b"".join(p.read_bytes() for p in files) + " ".join(tests).encode()
    folder = Path(tempfile.gettempdir()) / f"odm-mutate-{hashlib.sha256(content).hexdigest()[:12]}"
    if not (folder / "lines").exists():
        folder.mkdir(exist_ok=True)
        run_tests(checkout, [*tests, "-p", "mutate", "-n", "auto"], 7200, ODM_MUTATE_RECORD=str(folder))
        joined = coverage.Coverage(data_file=str(folder / "lines"), config_file=False)
        joined.combine([str(folder)])
        joined.save()
    data = coverage.CoverageData(str(folder / "lines"))
    data.read()
    passed = (folder / "passed").read_text(encoding="utf-8").splitlines()
    return dict(map(json.loads, passed)), {p: data.contexts_by_lineno(p) for p in data.measured_files()}


COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SIGNS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
OTHERS = {"min": "max", "any": "all", "minimum": "maximum", "fmin": "fmax", "floor": "ceil", "left": "right"}
OTHERS |= {second: first for first, second in OTHERS.items()}
PARTS = (ast.Name, ast.Attribute, ast.Subscript)


def faults_of(node, text):
    """What may go wrong in a node of the syntax tree: the kind, the first and last node replaced, and by what."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        word = COMPARISONS[type(node.ops[0])]
        yield "comparison", node, node, f"{text(node.left)} {word} {text(node.comparators[0])}"
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        yield "sign", node, node, f"{text(node.left)} {SIGNS[type(node.op)]} {text(node.right)}"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        yield from (("dropped condition", node, node, text(side)) for side in (node.left, node.right))
    elif isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.And) else " or "
        for dropped in node.values:
            yield "dropped condition", node, node, word.join(text(v) for v in node.values if v is not dropped)
    elif isinstance(node, ast.UnaryOp):
        yield "sign", node, node, text(node.operand)
    elif isinstance(node, ast.If) and not node.orelse:
        yield from (("dropped condition", node.test, node.test, value) for value in ("False", "True"))
    elif isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) in (0, 1):
        yield "index", node.slice, node.slice, str(1 - node.slice.value)
    elif isinstance(node, ast.arguments):
        yield from (fault for value in (*node.defaults, *node.kw_defaults) for fault in other_value(value))
    elif isinstance(node, ast.Call):
        yield from faults_of_call(node, text)


def faults_of_call(node, text):
    """The other axis, the opposite function, exchanged arguments, no copy, another default."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    for keyword in node.keywords:
        if keyword.arg == "axis" and isinstance(keyword.value, ast.Constant):
            yield "axis", keyword.value, keyword.value, "0" if keyword.value.value else "1"
        else:
            yield from other_value(keyword.value)
    if name in OTHERS:
        yield "opposite", node.func, node.func, text(node.func).removesuffix(name) + OTHERS[name]
    elif name == "copy" and not node.args and isinstance(node.func, ast.Attribute):
        yield "skipped copy", node, node, text(node.func.value)
    elif name in ("list", "dict", "array", "frozen") and len(node.args) == 1 and not node.keywords:
        yield "skipped copy", node, node, text(node.args[0])
    elif name in ("get", "pop", "getattr") and len(node.args) > 1:
        yield from other_value(node.args[-1])
    elif len(node.args) > 1 and name != "isinstance" and all(isinstance(a, PARTS) for a in node.args[:2]):
        first, second = node.args[:2]
        if text(first) != text(second):
            yield "swapped arguments", first, second, f"{text(second)}, {text(first)}"


def other_value(node):
    """The opposite of a constant, the next number, or the other side."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int):
        yield "wrong default", node, node, str(not value if isinstance(value, bool) else value + 1)
    elif value in OTHERS:
        yield "wrong default", node, node, repr(OTHERS[value])


def nodes_of(tree):
    """Every node that runs, with its statement: none of annotations, assertions, messages and codes."""
    todo = [(tree, tree)]
    while todo:
        node, statement = todo.pop()
        yield node, statement
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                silent = isinstance(child, (ast.Assert, ast.Raise, ast.JoinedStr))
                silent |= isinstance(child, ast.Call) and getattr(child.func, "id", "") in ("Code", "option")
                if isinstance(child, ast.AST) and not silent and field not in ("annotation", "returns"):
                    todo.append((child, child if isinstance(child, ast.stmt) else statement))


def faults_in(path):
    """All faults of a file: the line, those by which the map knows it, what is replaced, and the changed file."""
    source = path.read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]

    def place(first, last):
        return starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset

    def text(node):
        return source[slice(*place(node, node))].decode()

    for node, statement in nodes_of(ast.parse(source)):
        for kind, first, last, new in faults_of(node, text):
            begin, end = place(first, last)
            value = f"({new})" if first is last and kind != "opposite" else new
            what = f"{kind}: {' '.join(source[begin:end].decode().split())} -> {' '.join(new.split())}"
            whole = isinstance(node, ast.arguments) or first.lineno < statement.lineno  # of a function
            lines = range(statement.lineno, (statement if whole else last).end_lineno + 1)
            yield first.lineno, lines, what, source[:begin] + value.encode() + source[end:]


def draw(checkout, number, seed, only):
    """Faults at random lines of the product, at most one for a line: the path, and what `faults_in` says."""
    # The rooms in `src/odm` are links to the others.
    files = [p for room in ROOMS for p in sorted((checkout / room).rglob("*.py")) if p.resolve() == p]
    files = [p for p in files if any(part in str(p.relative_to(checkout)) for part in only)]
    lines = [(path, line) for path in files for line in range(path.read_bytes().count(b"\n"))]
    draws, chosen, faults = random.Random(seed), {}, {}
    while len(chosen) < number:
        path, line = draws.choice(lines)
        faults[path] = faults.get(path) or list(faults_in(path))
        here = [fault for fault in faults[path] if fault[0] == line]
        if here and (path, line) not in chosen:
            chosen[path, line] = draws.choice(here)
    return [(path, *fault) for (path, _), fault in chosen.items()]


def run_tests(checkout, words, timeout, **variables):
    """Run pytest in the copy, whose product and no other is imported, and return what it prints and its exit code."""
    paths = [str(checkout / "src"), str(checkout / "tests"), os.environ.get("PYTHONPATH", "")]
    settings = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *words]
    how = {"cwd": checkout, "env": {**os.environ, **settings}, "capture_output": True, "text": True}
    done = subprocess.run(command, **how, timeout=timeout, check=False)
    return done.stdout, done.returncode


def killer(checkout, words, timeout, **variables):
    """The first test that fails, or how else pytest ends; "" if no test fails."""
    try:
        text, code = run_tests(checkout, ["-x", *words], timeout, **variables)
    except subprocess.TimeoutExpired:
        return "no end"
    failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return "" if code in (0, 5) else failed[0] if failed else f"pytest ends with {code}"


def related(seconds, tests_of_line, lines):
    """The tests that run one of the lines, or else the file, the shortest first, for `MOST` seconds in all."""
    tests = {test for line in lines for test in tests_of_line.get(line, ())} & seconds.keys()
    tests = tests or {test for run_by in tests_of_line.values() for test in run_by} & seconds.keys()
    in_order = sorted(tests, key=seconds.__getitem__)
    totals = itertools.accumulate(seconds[test] for test in in_order)
    return [test for test, total in zip(in_order, totals, strict=True) if total < MOST] or in_order[:1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=40, help="how many faults")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of paths, such as formats/csv")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="the tests that the map is made of")
    parser.add_argument("--whole", action="store_true", help="then the whole suite, for what is left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder).resolve() / "odm"
        os.chdir(
            shutil.copytree(ROOT, checkout, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv"))
        )
        seconds, tests_of = read_map(checkout, options.tests)
        survivors = []
        for path, line, lines, what, changed in draw(checkout, options.number, options.seed, options.only):
            name, before = str(path.relative_to(checkout)), path.read_bytes()
            path.write_bytes(changed)
            tests = related(seconds, tests_of.get(name, {}), lines)
            listed = checkout / "related"
            listed.write_text("\n".join(tests), encoding="utf-8")
            words = ["-p", "mutate", "-n", "0", *{test.partition("::")[0] for test in tests}]
            by = killer(checkout, words, 10 * MOST, ODM_MUTATE_TESTS=str(listed)) if tests else ""
            by = by or (killer(checkout, ["-n", "auto", "tests"], 3600) if options.whole else "")
            path.write_bytes(before)
            survivors += [] if by else [f"{name}:{line}: {what}"]
            print(f"{name}:{line}: {what}\n    {by[:100] or 'SURVIVED'} (of {len(tests)} tests)", flush=True)
        print(f"\n{len(survivors)} of {options.number} survived", *survivors, sep="\n")


if __name__ == "__main__":
    main()
