"""Nothing goes without a word: keys, elements and columns with other names, and lines that are not rows.

Slow runs try all in every file of every fixture of `mixed` and `tools`, and detect the format as well. Other runs
name it, and rename in the fixtures of each kind of file, and put lines into one folder of each format.
"""

import contextlib
import importlib
import json
import re
import shutil
from collections import Counter

import pytest
from selection import SLOW, first_of, of_each, params
from test_fixtures import MIXED, TOOLS, Case

from odm.files import Source
from odm.formats import FORMATS, detect, make_options
from odm.formats._shared.known_keys import declare_keys
from odm.issues import DataError, Log, UsageError
from odm.tables import Builder
from odm.tables.extra_fields import NOTHING, count_extra

BINARY = ("parquet", "tfrecord")
SAYS_NOTHING = (None, [], {}, "", False)
NO_HEADER = ("automl", "csv-retinanet", "csv-makesense", "csv-sku110k")
NOT_READ = {"metadata.json"}
LICENCES = {"licenses"}
OF_MASKS = ("annotations", "file_name")  # of panoptic files, whose masks are counted as a whole
HEADERS_OF_LISTS = re.compile(r"(?:class-descriptions.*|classes|image_ids)\.csv")
FOLDERS = [folder for folder in (*MIXED, *TOOLS) if not folder.name.startswith(BINARY)]


def format_of(folder):
    case = Case(folder)
    fits = [name for name in FORMATS if folder.name == name or folder.name.startswith(f"{name}-")]
    return case, case.said.get("format") or max(fits, key=len)


def files_of(case):
    top = case.input
    return (
        [top] if top.is_file() else [p for p in sorted(top.rglob("*")) if p.is_file() and not p.is_symlink()]
    )


ALONE = frozenset(
    "coco-normalised bdd100k-rle coco-panoptic csv-openimages-masks cvat-pose cvat-shapes cvat-tracks darwin-video "
    "labelme-6 labelstudio-brush superannotate-video voc-fair1m".split()
)
"""Fixtures whose renamed keys lead where those of no other do."""


def kind_of(folder):
    """The format, and the files in which keys, elements and columns are renamed; a fixture of `ALONE` itself."""
    case, name = format_of(folder)
    if folder.name in ALONE:
        return folder.name
    return name, *sorted(
        {file.suffix for file in files_of(case)} & {".json", ".xml", ".csv", ".ini", ".yaml"}
    )


def folders(fixtures, kind):
    """The fixtures, of which all but the first of each kind are slow."""
    return params(fixtures, first_of(fixtures, kind))


def keys_of(name):
    """The names that a format declares; none for those that keep what they do not know."""
    for module in (f"odm.formats.{name}", f"odm.formats.{name}.reader"):
        with contextlib.suppress(ModuleNotFoundError):
            if (keys := getattr(importlib.import_module(module), "_KEYS", None)) and hasattr(keys, "free"):
                return keys
    return declare_keys("")


def read(case, name, path):
    """The tables, the codes of what is reported, and how often each value is not kept; no tables after an error."""
    log, builder = Log(), Builder(case.other)
    builder.kind, source = case.said.get("kind"), Source(str(path))
    try:
        format_ = FORMATS[name] if name else detect(source, log)
        given = {}
        for key, value in case.said.get("options", {}).items():
            beside = case.folder / value if isinstance(value, str) and value else None
            given[key] = str(beside) if beside is not None and beside.exists() else value
        options = make_options(format_, given)
    except (UsageError, DataError):
        return None, set(), {}
    format_.read(source, builder, log, options)
    data = builder.build()
    if log.errors:
        return None, set(), {}
    lost = (
        Counter(data.extras)
        + count_extra(data.images.extra)
        + count_extra(data.categories.extra)
        + count_extra(data.boxes.extra)
    )
    for file in data.files:
        lost.update(key for key, value in file.extra.items() if value not in NOTHING)
    return data, set(log.counts), lost


def longer(name):
    return name + name[-1]


def json_paths(value, keys, path=(), name=None):
    """The path of each key that says something, but of data and of what is declared to be of no interest."""
    if isinstance(value, list):
        for inner in value:
            yield from json_paths(inner, keys, path, "[]" if name is None else name)
    elif isinstance(value, dict):
        is_data = ("" if name is None else name) in keys.free
        for key, inner in value.items():
            if not is_data and not key.isdecimal() and inner not in SAYS_NOTHING:
                yield (*path, key)
            if key not in keys.opaque:
                yield from json_paths(inner, keys, (*path, key), key)


def renamed(value, target, path=()):
    if isinstance(value, list):
        return [renamed(inner, target, path) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        longer(key) if (*path, key) == target else key: renamed(inner, target, (*path, key))
        for key, inner in value.items()
    }


def variants(folder, file, keys):
    """What is renamed in a file, the path of it, and the bytes of the file then."""
    text = file.read_bytes().decode("utf-8-sig", "replace")
    begin = "" if file.suffix == ".ini" or file.name in NOT_READ else text.lstrip()[:1]
    if begin in ("{", "["):
        try:
            values = [json.loads(text)]
        except json.JSONDecodeError:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        for target in dict.fromkeys(path for value in values for path in json_paths(value, keys)):
            lines = (json.dumps(renamed(value, target)) for value in values)
            yield target, "\n".join(lines).encode()
    elif begin == "<" and "\0" not in text:
        said = {
            *re.findall(r"<([\w.-]+)(?:\s[^<>]*)?>\s*[^\s<]", text),
            *re.findall(r"<([\w.-]+)[^<>/]*>\s*<(?!/)", text),
        }
        for name in sorted(said - keys.opaque):
            pattern = rf"(</?){re.escape(name)}(?=[\s/>])"
            yield (name,), re.sub(pattern, lambda m, name=name: m[1] + longer(name), text).encode()
        for name in sorted({*re.findall(r"\s([\w.-]+)=\"[^\"]", text)} - {"version", "encoding"}):
            yield (name,), re.sub(rf"(\s){re.escape(name)}(?==\")", rf"\1{longer(name)}", text).encode()
    elif file.suffix.lower() in (".csv", ".tsv") and not folder.name.startswith(NO_HEADER):
        head, _, rest = text.partition("\n")
        sep = max(",;\t", key=head.count)
        rows = [row.split(sep) for row in rest.splitlines()]
        for i, cell in enumerate(
            head.rstrip("\r").split(sep) if not HEADERS_OF_LISTS.match(file.name) else ()
        ):
            name = cell.strip('"')
            is_list = any(row[i : i + 1] and row[i].startswith(('"[[', '"[{')) for row in rows)  # by content
            if (
                name
                and name[-1].isalnum()  # others say nothing in the name of a column
                and not is_list
                and not (folder.name.startswith("labelstudio") and name == "label")
                and not (folder.name.startswith("wheat") and name == "source")  # which is empty
                and any(row[i : i + 1] not in ([], [""], ['""']) for row in rows)
            ):
                cells = head.rstrip("\r").split(sep)
                cells[i] = cell.replace(name, longer(name))
                yield (name,), f"{sep.join(cells)}\n{rest}".encode()
    elif file.suffix.lower() == ".ini":
        for name in re.findall(r"(?m)^(\w+) *=", text):
            yield (name,), re.sub(rf"(?m)^{name}(?= *=)", longer(name), text).encode()
    elif file.suffix.lower() in (".yaml", ".yml") and folder.name.startswith("yolo"):
        for name in re.findall(r"(?m)^(\w+):", text):
            yield (name,), re.sub(rf"(?m)^{name}:", f"{longer(name)}:", text).encode()


def with_file(case, file, data, folder):
    """A copy of the input of a case in which a file has other content."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / case.input.name
    if case.input.is_dir():
        shutil.copytree(case.input, path)
        (path / file.relative_to(case.input)).write_bytes(data)
    else:
        path.write_bytes(data)
    return path


@of_each(folders(FOLDERS, kind_of))
def test_what_has_another_name_is_reported_or_counted(folder, tmp_path):
    case, name = format_of(folder)
    _, usual, lost = read(case, name, case.input)
    tried = set()
    for file in files_of(case):
        for target, data in variants(folder, file, keys_of(name)):
            if (
                (file.suffix, target) in tried
                or set(target[:-1]) & (lost.keys() | LICENCES)
                or target == OF_MASKS
                or (not file.suffix and len(target) == 1)  # nothing claims such a file but its root
            ):
                continue  # of several files one is enough, and part of what is counted is
            tried.add((file.suffix, target))
            path = with_file(case, file, data, tmp_path / "copy")
            for format_ in (name, None) if SLOW else (name,):
                read_data, codes, now = read(case, format_, path)
                counted = {longer(target[-1]), "other elements of objects"} & now.keys() or any(
                    n > lost.get(key, 0) for key, n in now.items()
                )
                assert read_data is None or codes - usual or counted, f"{file.name}: {'/'.join(target)}"
                if file.suffix == ".json":
                    name_of_key = longer(target[-1])
                    assert now.get(name_of_key, 0) <= data.count(f'"{name_of_key}"'.encode()), "counted twice"


GARBAGE = b"@@garbage line@@\n"
TEXT = (
    ".txt",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".ndjson",
    ".odgt",
    ".manifest",
    ".xml",
    ".dat",
    ".info",
    ".yaml",
    ".ini",
)


@of_each(
    folders(
        [folder for folder in FOLDERS if Case(folder).input.is_dir()], lambda folder: format_of(folder)[1]
    )
)
def test_one_garbage_line_loses_no_boxes_in_silence(folder, tmp_path):
    case, name = format_of(folder)
    whole, usual, _ = read(case, name, case.input)
    for file in files_of(case):
        if not file.name.lower().endswith(TEXT):
            continue
        lines = file.read_bytes().splitlines(keepends=True)
        half = len(lines) // 2
        for content in (
            [GARBAGE, *lines],
            [*lines[:half], GARBAGE, *lines[half:]],
            [*lines, b"" if not lines or lines[-1].endswith(b"\n") else b"\n", GARBAGE],
            [GARBAGE],
        ):
            path = with_file(case, file, b"".join(content), tmp_path / "copy")
            for format_ in (name, None) if SLOW else (name,):
                data, codes, _ = read(case, format_, path)
                if content == [GARBAGE] and data is not None and not len(data):
                    continue  # an image without boxes may have any name, where no other shows how they are called
                assert data is None or len(data) >= len(whole) or codes - usual, f"{file.name} as {format_}"


ROWS = (".txt", ".dat")
SHAPE_OR_LIST = ("yolo-darknet", "yolo-moved-lists", "yolo-obb", "yolo-segment")
"""Where a second row may be part of an outline or of a list of images."""


@of_each([folder for folder in FOLDERS if not folder.name.startswith(SHAPE_OR_LIST)])
def test_two_joined_lines_lose_no_boxes_in_silence(folder, tmp_path):
    case, name = format_of(folder)
    whole, usual, _ = read(case, name, case.input)
    for file in files_of(case):
        lines = file.read_bytes().splitlines() if file.suffix.lower() in ROWS else []
        for i in range(len(lines) - 1):
            for sep in (b" ", b""):
                content = b"\n".join([*lines[:i], lines[i] + sep + lines[i + 1], *lines[i + 2 :]])
                path = with_file(case, file, content, tmp_path / "copy")
                data, codes, _ = read(case, name, path)
                assert data is None or len(data) >= len(whole) or codes - usual, (
                    f"{file.name}: {i + 1}, {sep}"
                )


@pytest.mark.parametrize(
    "name", ["labelme", "darwin", "bdd100k", "labelstudio", "supervisely", "superannotate"]
)
def test_json_without_keys_of_the_format_is_named_as_not_read(name, tmp_path):
    case = Case(next(folder for folder in MIXED if folder.name == name))
    path = tmp_path / "in"
    top = next(case.input.glob("*/ann"), case.input)  # whatever lies in ann/ is an annotation of Supervisely
    shutil.copytree(top, path) if top.is_dir() else (
        path.mkdir(),
        shutil.copy(case.input, path),
    )
    beside = next(
        file for file in sorted(path.rglob("*.json")) if file.name not in ("classes.json", "meta.json")
    )
    beside.with_name("package.json").write_text('{"name": "p", "version": "1"}')
    beside.with_name("attributes.json").write_text('{"x": {"color": ["red"]}}')
    log, builder = Log(), Builder()
    FORMATS[name].read(Source(str(path)), builder, log, FORMATS[name].options())
    assert not log.errors
    assert len(builder.build()) == 6
    said = [note for note in log.notes if "not read: " in note]
    assert ["attributes.json" in note and "package.json" in note for note in said] == [True]
