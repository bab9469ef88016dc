"""A damaged file among good ones, and alone, in every format that is read from folders: it is named, never lost."""

import random
import re
import shutil
from pathlib import Path

import fixture_cases
import pytest
from fixture_cases import FIXTURES
from one_format import WRITTEN
from selection import examples, of_each, params, turns

import odm
from odm import checks
from odm.files import Source
from odm.formats import FORMATS, make_options, option_specs
from odm.issues import DataError, Log
from odm.tables import Builder, Dataset

DAMAGE = {
    "cut": lambda data: data[: len(data) * 5 // 6],
    "binary": lambda data: b"\x93\x12\xff\xfe{{{<<<" + data[:50],
    "utf-16": lambda data: "\ufeff{a: 1}".encode("utf-16-le"),
    "zeros": lambda data: bytes(len(data)),
}
FOLDERS = sorted(set(WRITTEN) - {"tfrecord", "vott"})  # one file of two halves; JSON below, tables as csv
CODES = {
    "json-syntax",
    "xml-syntax",
    "not-utf8",
    "not-text",
    "unreadable-file",
    "wrong-count",
    "parquet-damaged",
}


def options_of(name):
    known = {spec.name for spec in option_specs(FORMATS[name].options)}
    format_ = FORMATS[name]
    asks = name in ("txt", "fiftyone") or (format_.needs_size and "size" not in format_.keeps)
    return {"image_size": "64x48"} if asks and "image_size" in known else {}


def three(folder, name):
    """Write three images, each in a file of its own, and return these files."""
    for key in "abc":
        image = f"{key}/{key}.jpg" if name in ("mot", "imagefolder") else f"{key}.jpg"
        data = Dataset.from_arrays(
            images=[image], width=[64], height=[48], categories=["face"], image=[0, 0], category=[0, 0],
            xyxy=[[1, 2, 30, 40], [2, 3, 10, 11]],
        )  # fmt: skip
        odm.write(data, folder / "own" / key, name)
    found = {}
    for file in sorted(p for p in (folder / "own").rglob("*") if p.is_file()):
        key, *inner = file.relative_to(folder / "own").parts
        about = file.name in ABOUT
        if not about and name in ("mot", "fiftyone", "imagefolder"):
            inner = [key, *inner]
        elif not about and not re.search(rf"\b(gt_)?{key}\b", file.stem):
            inner[-1] = f"{key}.{file.name}"
        new = folder.joinpath("all", *inner)
        new.parent.mkdir(parents=True, exist_ok=True)
        file.rename(new)
        if not about:
            found[key] = new
    return [found[key] for key in "abc"]


ABOUT = {
    "classes.txt",
    "meta.json",
    "labels.txt",
    "data.yaml",
    "classes.json",
    "seqinfo.ini",
    "label_map.pbtxt",
    "images.txt",
}


# Cut within the last number of a row, a file of BBox-Label-Tool has all its rows.
@of_each(
    [case for case in turns(FOLDERS, DAMAGE) if getattr(case, "values", case) != ("bboxlabeltool", "cut")]
)
def test_a_damaged_file_among_good_ones_is_named(name, damage, tmp_path):
    _, file, _ = three(tmp_path, name)
    assert len(odm.read(tmp_path / "all", name, **options_of(name))) == 6
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    for format_ in (name, None):
        log = Log()
        with pytest.raises(DataError):
            odm.read(tmp_path / "all", format_, log=log, **options_of(name))
        paths = [issue.path for issue in log.issues if issue.severity == "error"]
        assert paths == [str(file)] if file.suffix == ".json" else set(paths) == {str(file)}


@of_each(turns(FOLDERS, ["utf-16", "zeros"], 4))
def test_a_damaged_file_alone_is_named(name, damage, tmp_path):
    file, *others = three(tmp_path, name)
    for other in others:
        other.unlink()
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    for format_ in (name, None):
        log = Log()
        with pytest.raises(DataError):
            odm.read(tmp_path / "all", format_, log=log, **options_of(name))
        assert str(file) in {issue.path for issue in log.issues if issue.severity == "error"}
        assert not log.counts["no-annotation-file"]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("n_good", [0, 1])
def test_a_damaged_json_file_of_vott_is_named(damage, n_good, tmp_path):
    data = (FIXTURES / "mixed" / "vott-json" / "input.json").read_bytes()
    file = tmp_path / "b.json"
    file.write_bytes(DAMAGE[damage](data))
    for i in range(n_good):
        (tmp_path / f"a{i}.json").write_bytes(data)
    log = Log()
    with pytest.raises(DataError):
        odm.read(tmp_path, "vott", log=log)
    assert {issue.path for issue in log.issues if issue.severity == "error"} == {str(file)}


JUNK = [b"", b"\0", b",", b"\n", b" ", b"-1", b"nan", b"1e999", b"\xff", b'"', b"{", b"[", b"<", b"&", b"null", b"9" * 400, b"\xe2\x80\xa8"]  # fmt: skip
MIXED = [FIXTURES / "mixed" / f"{name}{kind}" for name in FORMATS for kind in ("", "-detections")]


def mutations(data, n, seed):
    """Damaged copies: bytes lost, doubled, exchanged, or the end cut."""
    random_ = random.Random(seed)
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(random_.randint(1, 4)):
            at = random_.randrange(len(copy) + 1)
            copy[at : at + random_.randint(0, 6)] = random_.choice(JUNK)
        yield bytes(copy[: random_.randrange(len(copy) + 1)] if random_.random() < 0.2 else copy)


@of_each(params([folder for folder in MIXED if folder.exists()], MIXED[::6]))
def test_bytes_that_are_lost_or_exchanged_never_raise(folder, tmp_path):
    """In every file of every format: a reader and the checks answer, and an error is told for each row left out."""
    name = folder.name.removesuffix("-detections")
    case = fixture_cases.Case(folder)
    top = folder / case.input
    sources = [top] if top.is_file() else [p for p in sorted(top.rglob("*")) if p.is_file()]
    path = tmp_path / top.name
    for number, source in enumerate(sources):
        shutil.copytree(top, path, dirs_exist_ok=True) if top.is_dir() else shutil.copy(top, path)
        for damaged in mutations(source.read_bytes(), examples(40), f"{folder.name}{number}"):
            (path / source.relative_to(top) if top.is_dir() else path).write_bytes(damaged)
            FORMATS[name].sniff(Source(str(path)))
            builder, log = Builder(), Log()
            builder.kind = "det" if folder.name.endswith("-detections") else "gt"
            FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], options_of(name)))
            data = builder.build()
            checks.run(data, log)
            assert data.skipped == 0 or log.errors
            assert all(str(issue).isprintable() for issue in log)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
@of_each([(name, suffix) for name, f in FORMATS.items() for suffix in f.suffixes])
def test_a_file_that_opens_and_cannot_be_read_is_named(name, suffix, tmp_path):
    """As on a failing disk; nothing is mapped at the first bytes of a process."""
    path = tmp_path / f"a{suffix}"
    path.symlink_to("/proc/self/mem")
    log = Log()
    with pytest.raises(DataError, match=re.escape(f"a{suffix}: error unreadable-file")):
        odm.read(path, name, follow_links=True, log=log)
    assert log.counts == {"unreadable-file": 1}
