"""A damaged file among good ones, and alone, in every format that is read from folders: it is named, never lost."""

import itertools
import re

import pytest
from selection import of_each

import odm
from odm.formats import FORMATS, option_specs
from odm.issues import DataError, Log
from odm.tables import Dataset

DAMAGE = {
    "cut": lambda data: data[: len(data) * 5 // 6],
    "binary": lambda data: b"\x93\x12\xff\xfe{{{<<<" + data[:50],
    "utf-16": lambda data: "\ufeff{a: 1}".encode("utf-16-le"),
    "zeros": lambda data: bytes(len(data)),
}
FOLDERS = sorted(set(FORMATS) - {"tfrecord", "vott"})  # one file of two halves; JSON below, tables as csv
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
    return (
        {"image_size": "64x48"}
        if name in ("txt", "yolo", "automl", "fiftyone") and "image_size" in known
        else {}
    )


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


@of_each(itertools.product(FOLDERS, DAMAGE))
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


@of_each(itertools.product(FOLDERS, ["utf-16", "zeros"]))
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
