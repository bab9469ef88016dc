"""How the house is built: who may import whom, who touches the disk, and that nothing was forgotten."""

import ast
import collections
import functools
import graphlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from one_format import WRITTEN
from selection import of_each, slow

import odm
import odm.checks
import odm.cli
import odm.converters
import odm.evaluate
import odm.formats
import odm.report
from odm.files import Source
from odm.formats import FORMATS, make_options, option_specs
from odm.formats._detect import find_possible
from odm.formats._signs import SIGNS
from odm.issues import CODES
from odm.tables import Flag, LabelState
from odm.verbs.validation import all_codes

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "formats": "formats",
    "converters": "converters",
    "evaluate": "evaluate",
    "cli": "cli",
    "odm": "src/odm",
}
"""Every part and its folder; sub-packages belong to the part."""

checkout = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="only in a checkout")


@functools.cache
def modules():
    """Name and tree of every module of the package, from the folders that it is built from."""
    found = {}
    for part, folder in PARTS.items():
        prefix = () if part == "odm" else (part,)
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            if part == "odm" and inner[0] in PARTS:  # through a link
                continue
            name = ".".join(["odm", *prefix, *inner]).removesuffix(".__init__")
            found[name] = ast.parse(path.read_bytes(), str(path))
    return found


BARE_FLAG = re.compile(r"(?<!\w)(--(\w+-)?O|--[a-z][a-z-]+|-O) ?")
AFTER_COMMAND = re.compile(r"\b(odm|convert|eval|validate) [^;:,]*$")


def flags_in(call):
    """The flags in the texts of a call that do not follow the name of a command, such as ``odm eval``."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert "{spell" not in node.value, f"line {node.lineno}: an f is missing"
            for match in BARE_FLAG.finditer(node.value):
                if not AFTER_COMMAND.search(node.value[: match.start()]):
                    yield match[0]


each_module = of_each(lambda: sorted(modules()))


@functools.cache
def imported(tree):
    """Every module that a module may import, at the top or later."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            found += [node.module] * (node.module != "odm")
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def needed(name):
    """The modules of the package that a module imports, also inside functions and for types.

    Of a package and a module in it, the module counts.
    """
    found = set()
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            found.update(each if each in modules() else node.module for each in inner)
    return found & modules().keys() - {name}


MESSAGES = {"note", "change", "leave_out", "UsageError", "PathError", "DataError"}
"""What is called with texts that the caller of a Python function reads; issues have those of their codes."""


@each_module
def test_messages_spell_the_names_of_options(name):
    """In Python these name keywords, see `odm.issues.spell`."""
    if name.startswith("odm.cli"):
        return
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            flags = list(flags_in(node)) if called in MESSAGES else []
            assert not flags, f"line {node.lineno}: {flags}"


def home(name):
    """The part of the house that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "odm"


CORE = {
    "views",
    "masks",
    "tables",
    "issues",
    "files",
    "arguments",
    "inputs",
    "coco80",
    "codes",
    "csv_text",
    "names",
    "pictures",
}
MAY_IMPORT = {
    "masks": {"masks"},
    "coco": {"coco", "drawing", "evaluate", "files", "formats", "issues", "masks", "tables"},
    "views": set(),
    "tables": {"views", "masks", "tables"},
    "issues": {"issues", "tables"},  # the tables for their type alone
    "files": {"files", "inputs", "issues", "names"},
    "inputs": {"inputs", "issues"},
    "arguments": {"issues"},
    "parallel": set(),
    "coco80": set(),
    "csv_text": {"issues"},
    "drawing": {"issues"},
    "arrays": set(),
    "codes": {"issues"},
    "names": {"issues"},
    "pictures": {"files", "issues"},
    "pairing": {"names", "tables", "issues"},
    "tracks": {"tables", "issues"},
    "terminal": {"issues"},
    "numbers": set(),
    "document": {"terminal"},
    "checks": {"checks", "codes", "masks", "names", "pairing", "tables", "tracks", "issues"},
    "formats": {*CORE, "parallel", "tracks", "formats"},
    "evaluate": {
        "views",
        "arrays",
        "codes",
        "drawing",
        "masks",
        "names",
        "tables",
        "issues",
        "pairing",
        "terminal",
        "numbers",
        "document",
        "parallel",
        "tracks",
        "evaluate",
        "version",
    },
    "version": set(),
    "converters": {*CORE, "arrays", "drawing", "formats", "checks", "converters"},
    "report": {*CORE, "evaluate", "report", "version"},
    "sharding": {*CORE, "checks", "converters", "evaluate", "formats"},
    "verbs": {
        *CORE,
        "checks",
        "pairing",
        "drawing",
        "terminal",
        "numbers",
        "document",
        "formats",
        "converters",
        "evaluate",
        "report",
        "sharding",
        "verbs",
    },
    "cli": {
        *CORE,
        "drawing",
        "terminal",
        "numbers",
        "document",
        "parallel",
        "formats",
        "checks",
        "converters",
        "evaluate",
        "report",
        "sharding",
        "verbs",
        "cli",
        "odm",
        "VERSION",
    },
    "odm": {"odm", *CORE, "converters", "evaluate", "checks", "formats", "verbs", "version"},
    "__main__": {"cli"},
}


@checkout
@each_module
def test_dependencies_point_one_way(name):
    ours = {n for n in imported(modules()[name]) if n.split(".")[0] == "odm"}
    assert {home(n) for n in ours} <= MAY_IMPORT[home(name)], name


@checkout
def test_no_modules_import_each_other_in_a_circle():
    needs = {name: needed(name) for name in modules()}
    graphlib.TopologicalSorter(needs).prepare()  # CycleError names the modules


def test_options_that_name_files_say_so():
    """Then their files and folders are inputs, which no output may replace."""
    for format_ in FORMATS.values():
        for spec in option_specs(format_.options):
            names = re.match("(CSV )?(file|folder) ", spec.help) is not None
            assert spec.is_path == names, (format_.name, spec.name)


@checkout
@of_each(lambda: [n for n in sorted(modules()) if n.startswith("odm.report")])
def test_a_report_reads_results_only(name):
    """It shows what the engine answers: its inner modules are none of a report's business."""
    inner = {n for n in imported(modules()[name]) if n.startswith("odm.evaluate.") and n in modules()}
    analyses = {f"odm.evaluate.analysis.{name}" for name in ("agree", "diff")}
    assert inner <= {"odm.evaluate.output.report_data", "odm.evaluate.results", *analyses}


@checkout
def test_no_two_modules_or_classes_of_the_results_have_one_name():
    """Those of `odm.document`, of the analyses, and of what is shown and saved."""
    rooms = ("odm.document", "odm.evaluate.analysis", "odm.evaluate.output")
    trees = {name: tree for name, tree in modules().items() if name.startswith(rooms)}
    names = [name.rpartition(".")[2] for name in trees]
    names += [node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1} == {
        "Table"
    }  # in the contract, and what is shown


@checkout
@of_each(lambda: [n for n in sorted(modules()) if n.startswith("odm.evaluate.analysis")])
def test_the_analyses_know_nothing_of_the_output(name):
    assert not [n for n in imported(modules()[name]) if n.startswith("odm.evaluate.output")]


@checkout
@each_module
def test_functions_and_files_can_be_read(name):
    """About 60 lines beside the docstring, and about 600 lines."""
    for node in ast.walk(modules()[name]):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = node.body[0] if ast.get_docstring(node) else None
            lines = node.end_lineno - node.lineno + 1 - (text.end_lineno - text.lineno + 1 if text else 0)
            assert lines <= 65, f"{node.name}: {lines} lines"
    assert max(node.end_lineno for node in modules()[name].body) <= 700


EMPTY_WORDS = {"found", "own", "given", "said", "held", "told"}
"""Names that say how a value came about, and not what it is; see "Language" in CONTRIBUTING.md."""

FUNCTIONS_WITH_EMPTY_WORDS = {
    "odm.formats": 3,
    "odm.formats.coco": 20,
    "odm.formats.txt": 1,
}
"""How many functions of a folder have such names of parameters or locals; folders that are not listed have none."""


def names_of(function):
    """The parameters and locals of a function, without those of functions in it."""
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    nodes = list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        names |= {node.arg} if isinstance(node, ast.arg) else set()
        nodes += ast.iter_child_nodes(node)
    return names


def empty_words():
    """The number of functions with such names, by folder."""
    folders = {name.rpartition(".")[0] for name in modules()}
    counts = collections.Counter()
    for name, tree in modules().items():
        folder = name if name in folders else name.rpartition(".")[0]
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        counts[folder] += sum(not EMPTY_WORDS.isdisjoint(names_of(function)) for function in functions)
    return counts


@checkout
def test_empty_words_as_names_only_get_fewer():
    recorded = FUNCTIONS_WITH_EMPTY_WORDS
    more = {folder: n for folder, n in empty_words().items() if n > recorded.get(folder, 0)}
    assert not more, f"recorded are {recorded}: give these values names that say what they are"


@checkout
def test_issues_needs_the_tables_only_for_types():
    tree = modules()["odm.issues"]
    top = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert not any("odm" in ast.unparse(n) for n in top)


SHARED = ("odm.formats._shared", "odm.formats._contract")
"""What a format may import of the formats besides its own modules; what is shared may not import a format."""


@checkout
@of_each(lambda: [n for n in sorted(modules()) if n.startswith("odm.formats.")])
def test_a_format_imports_what_is_shared_and_no_other_format(name):
    own = ".".join(name.split(".")[:3])
    for other in imported(modules()[name]):
        if other == "odm.formats" or other.startswith("odm.formats."):
            allowed = any(other == part or other.startswith(f"{part}.") for part in (own, *SHARED))
            assert allowed, other


@checkout
@of_each(lambda: [n for n in sorted(modules()) if not f"{n}.".startswith("odm.formats.")])
def test_what_formats_share_is_theirs_alone(name):
    private = [n for n in imported(modules()[name]) if re.match(r"odm\.formats\._", n)]
    assert not private, "what others need belongs to the core, or is exported by odm.formats"


@checkout
def test_the_contract_of_formats_needs_nothing_that_they_share():
    assert not [n for n in imported(modules()["odm.formats._contract"]) if n.startswith("odm.formats")]


@checkout
def test_what_formats_share_is_in_rooms():
    flat = [p.name for p in (ROOT / "formats/_shared").glob("*.py")]
    assert len(flat) <= 11, flat


@checkout
def test_few_private_files_lie_beside_the_formats():
    flat = [p.name for p in (ROOT / "formats").glob("_*.py") if p.name != "__init__.py"]
    assert len(flat) <= 4, flat


@checkout
@each_module
def test_nobody_imports_the_folders_by_their_bare_names(name):
    assert {n.split(".")[0] for n in imported(modules()[name])}.isdisjoint(
        {"formats", "converters", "evaluate", "cli"}
    )


FORBIDDEN_MODULES = {
    "pathlib",
    "shutil",
    "tempfile",
    "glob",
    "fileinput",
    "mmap",
    "subprocess",
    "socket",
    "urllib",
    "http",
    "pickle",
    "shelve",
    "requests",
}
FORBIDDEN_OF_OS = {
    "open", "remove", "unlink", "rename", "renames", "replace", "mkdir", "makedirs", "rmdir", "removedirs", "symlink",
    "link", "walk", "listdir", "scandir", "write", "fdopen", "truncate", "chmod", "chown", "mkfifo", "mknod", "utime",
    "system", "popen", "fsync", "stat", "lstat",
}  # fmt: skip

NO_FILES = {
    "odm.parallel": {"pickle", "fdopen", "write", "open"},
    "odm.inputs": {"stat"},
    "odm.formats.coco.long_lists": {"mmap"},
    "odm.cli._streams": {"write"},
    "odm.cli._issue_formats": {"urllib"},
}
"""What a module uses for something else: memory between processes, who a file is, the screen, how a path is quoted."""


@checkout
@of_each(lambda: [n for n in sorted(modules()) if home(n) != "files"])
def test_only_files_touches_the_disk(name):
    tree = modules()[name]
    others = NO_FILES.get(name, set())
    from_outside = {n.split(".")[0] for n in imported(tree) if not n.startswith("urllib.parse")}  # text alone
    used = from_outside & (FORBIDDEN_MODULES - others)
    assert not used, used
    allowed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "exec", "eval", "__import__", "compile"), (
                f"line {node.lineno}"
            )
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("os.open(os.devnull"):
            allowed.add(node.func)  # not a file
        if isinstance(node, ast.Attribute) and node not in allowed:
            owner = ast.unparse(node.value)
            forbidden = FORBIDDEN_OF_OS - others
            assert not (owner == "os" and node.attr in forbidden), f"line {node.lineno}: os.{node.attr}"
            assert not (owner == "io" and node.attr in ("open", "FileIO", "open_code")), f"line {node.lineno}"
            assert not (
                owner in ("np", "numpy")
                and node.attr in ("load", "save", "loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap")
            )
            assert node.attr not in ("tofile", "unsafe_load"), f"line {node.lineno}"


@checkout
@each_module
def test_only_options_are_dataclasses(name):
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Options"):
            assert not any("dataclass" in ast.unparse(one) for one in node.decorator_list), node.name


@checkout
@each_module
def test_no_bare_except_and_no_print_outside_the_command_line(name):
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}: bare except"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "input", "exit", "quit"), f"line {node.lineno}"
        # The one way to the streams, and what prints where pycocotools does.
        if isinstance(node, ast.Attribute) and name != "odm.cli._streams" and home(name) != "coco":
            assert ast.unparse(node) not in (
                "click.echo",
                "click.secho",
                "sys.stdout.write",
                "sys.stderr.write",
            )
        if isinstance(node, ast.Attribute) and home(name) not in ("cli", "__main__"):
            assert ast.unparse(node) != "sys.exit", f"line {node.lineno}"


@checkout
@of_each(lambda: [n for n in sorted(modules()) if n != "odm.formats" and not n.startswith("odm.formats.")])
def test_no_format_is_named_in_a_condition_outside_its_file(name):
    names = set(FORMATS)
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = {
                n.value
                for side in sides
                for n in ast.walk(side)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            }
            about = any(
                re.search(r"format", ast.unparse(side))
                for side in sides
                if not isinstance(side, ast.Constant)
            )
            assert not (about and texts & names), f"line {node.lineno}: {ast.unparse(node)}"


@checkout
def test_all_packages_are_built():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tool = project["tool"]["setuptools"]
    folders = {}
    for part, folder in PARTS.items():
        for path in (ROOT / folder).rglob("*.py"):
            inner = path.parent.relative_to(ROOT / folder).parts
            if part == "odm" and inner and inner[0] in PARTS:  # through a link
                continue
            name = ".".join(["odm", *([] if part == "odm" else [part]), *inner])
            folders[name] = path.parent.relative_to(ROOT).as_posix()
    folders["odm.example"] = "fixtures/street"
    assert sorted(tool["packages"]) == sorted(folders)
    for package, folder in tool["package-dir"].items():
        assert folders[package] == folder
    assert (ROOT / "src/odm/py.typed").exists()
    assert tool["package-data"] == {
        "odm": ["py.typed"],
        "odm.cli": ["examples.json"],
        "odm.report": ["page/*", "words/*"],
        "odm.example": ["*", "*/*"],
    }
    for package, patterns in tool["package-data"].items():
        for pattern in patterns:
            assert list((ROOT / folders[package]).glob(pattern)), pattern


@checkout
def test_no_folder_shadows_the_package():
    assert not (ROOT / "odm").exists()
    assert not (ROOT / "odm.py").exists()


@checkout
@of_each(lambda: ["formats", "converters", "evaluate", "cli"])
def test_the_links_lead_to_the_folders(part):
    link = ROOT / "src" / "odm" / part
    if not link.is_symlink():
        pytest.skip("this checkout has no links")
    assert os.readlink(link) == f"../../{part}"
    assert link.resolve() == ROOT / part


@checkout
def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+", odm.VERSION)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S*) - \d{4}-\d\d-\d\d\n\n.*Its tag is `v(\S+)`\.$", changes, re.MULTILINE)
    assert released[0] == (odm.VERSION, odm.VERSION)
    assert f"\nversion: {odm.VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@checkout
def test_no_test_depends_on_how_busy_the_machine_is():
    """Tests measure processor time; what is to be timed by the clock is a benchmark. A `timeout` ends a hang."""
    clocks = re.compile(r"time\.(monotonic|perf_counter|time)(_ns)?\(")
    found = [p.name for p in (ROOT / "tests").glob("*.py") if clocks.search(p.read_text(encoding="utf-8"))]
    assert not found


# ------------------------------------------------------------------------------------------ the formats

KEEPS = {
    "size", "extension", "empty", "unused", "order", "score", "area", "wh", "image_id", "category_id", "box_id",
    "parent", "frequency", "split", "video", "track", "track_score", "group", "own_fields", "flip_idx",
    "polygon", "parts", "mask", "oriented", "rectangle", "keypoints", "visibility", *(word.name.lower() for kind in (Flag, LabelState) for word in kind),
}  # fmt: skip


@of_each(lambda: sorted(FORMATS))
def test_a_format_says_what_it_is(name):
    format_ = FORMATS[name]
    assert format_.name == name
    assert re.fullmatch("[a-z][a-z0-9-]*", name)
    assert len(format_.doc.strip()) > 200, "the docstring is the user's specification"
    assert format_.title
    assert all(s.startswith(".") and s == s.lower() for s in format_.suffixes)
    assert format_.max_error_px >= 0
    assert make_options(format_, {}) == make_options(format_, {}), "two sides read alike are judged together"
    unknown = format_.keeps - KEEPS
    assert all(re.fullmatch("[a-z_]+", word) for word in unknown), unknown
    if name in built_in():
        assert unknown <= EXTRAS, f"words that nobody else knows: {unknown - EXTRAS}"


@slow
def test_detection_asks_every_format_that_recognises_a_source(tmp_path):
    """The signs that formats declare leave out none, whatever a single file is called."""
    for path in sorted((ROOT / "fixtures" / "mixed").rglob("*")):
        sources = [path]
        if path.is_file():
            sources += [tmp_path / f"renamed{suffix}" for suffix in (".dat", "")]
            for renamed in sources[1:]:
                shutil.copy(path, renamed)
        for source in map(Source, map(str, sources)):
            asked = find_possible(source, list(FORMATS), SIGNS)
            assert {name for name in FORMATS if FORMATS[name].sniff(source)} <= set(asked), source.path


def built_in():
    inner = {n.split(".")[2] for n in modules() if n.startswith("odm.formats.")}
    return sorted(name for name in inner if not name.startswith("_"))


EXTRAS = {"pose", "segmentation", "supercategory", "part", "attributes", "source"}


@checkout
@of_each(built_in)
def test_every_file_without_underscore_is_a_format(name):
    tree = modules()[f"odm.formats.{name}"]
    assert ast.get_docstring(tree)
    assert FORMATS[name].doc
    for function, types in (
        ("sniff", ["Source"]),
        ("read", ["Source", "Builder", "Log"]),
        ("write", ["Dataset", "Output", "Log"]),
    ):
        if name not in WRITTEN and function == "write":
            continue
        given = inspect.signature(getattr(FORMATS[name], function)).parameters.values()
        assert [parameter.annotation for parameter in given][: len(types)] == types, function
    assert sys.modules[f"odm.formats.{name}"].FORMAT is FORMATS[name]


# --------------------------------------------------------------------------------------------- the codes


@of_each(lambda: [name for name in all_codes() if not name.startswith("test-")])
def test_a_code_says_what_to_do(name):
    code = CODES[name]
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", code.name)
    assert code.severity in ("error", "warning")
    for text in (code.template, code.advice):
        assert text.strip() == text
        assert text
        assert not text.endswith(".")
        assert "\n" not in text
    assert code.why.endswith("."), "the reason is one sentence or more"
    assert "  " not in code.why


# ------------------------------------------------------------------------------------------ the imports


def loaded_after(statement):
    script = f"{statement}\nimport sys\nprint(*sorted(m for m in sys.modules if '.' not in m))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


HEAVY = {
    "lxml",
    "msgspec",
    "yaml",
    "PIL",
    "matplotlib",
    "tabulate",
    "click",
    "tqdm",
    "xml",
    "json",
    "asyncio",
    "multiprocessing",
    "unittest",
}


COMMAND = "import odm.cli._app as app; app.run({!r}.split())"


def of_json():
    """The formats that may be in a folder of JSON files."""
    return {name for name in FORMATS if {".json", ""} & set(SIGNS[name][0])}


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ("convert --from coco --to yolo nothing.json out", {"coco", "yolo"}),
        pytest.param("convert --from=coco --to=yolo nothing.json out", {"coco", "yolo"}, marks=slow),
        ("stats --format txt --box ltwh nothing", {"txt"}),
        ("eval --gt-format=voc --det-format=txt a b", {"voc", "txt"}),
        ("stats --format txt --link-images nothing", set(FORMATS)),  # a flag of other formats
        ("convert --from coco nothing.json out.csv", set(WRITTEN)),  # the suffix decides
        pytest.param("stats nothing", set(), marks=slow),
        pytest.param("stats fixtures/mixed/coco", of_json(), marks=slow),  # these are asked
        pytest.param("stats --format txt --help", set(FORMATS), marks=slow),
        pytest.param("stats --format txt --no-such-flag", set(FORMATS), marks=slow),
    ],
)
def test_formats_that_are_named_are_the_only_ones_imported(arguments, read):
    script = COMMAND.format(arguments) + "; import sys; print(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1].split()
    assert {name.rpartition(".")[2] for name in loaded if name.startswith("odm.formats.")} & set(
        FORMATS
    ) == read
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import odm", {"numpy", *HEAVY}),
        ("import odm.formats", {"lxml", "yaml", "PIL", "matplotlib", "tabulate", "click"}),
        ("import odm.checks", {"lxml", "yaml", "PIL", "matplotlib", "tabulate", "click"}),
        ("import odm.evaluate", {"lxml", "yaml", "PIL", "matplotlib", "tabulate", "click"}),
    ],
)
def test_imports_are_light(statement, absent):
    assert loaded_after(statement).isdisjoint(absent)


@pytest.mark.parametrize(
    ("command", "asked", "not_asked"),
    [
        (
            "eval fixtures/illustrated/groundtruths fixtures/illustrated/detections",
            {"txt", "yolo"},
            {"coco", "csv", "parquet"},
        ),
        pytest.param("validate fixtures/mixed/coco", {"coco", "via"}, {"txt", "csv", "parquet"}, marks=slow),
    ],
)
def test_a_small_command_imports_nothing_that_it_does_not_need(command, asked, not_asked):
    script = COMMAND.format(command) + "; import sys; print(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(run.stdout.splitlines()[-1].split())
    assert {f"odm.formats.{name}" for name in asked} <= modules
    assert modules.isdisjoint(f"odm.formats.{name}" for name in not_asked)
    assert modules.isdisjoint({"numpy.ma", "odm.evaluate.analysis.analyses", "odm.formats.coco.writer"})
    assert modules.isdisjoint({"lxml", "yaml", "PIL", "matplotlib", "tqdm", "hashlib"})
