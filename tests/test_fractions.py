"""Coordinates in fractions of images whose size nothing says: read, counted, checked, evaluated and converted.

The sources are the fixtures of formats with such coordinates, without the sizes of their images.
"""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import odm
from odm.converters import Request, load
from odm.evaluate import PROTOCOLS
from odm.formats import FORMATS
from odm.issues import DataError, Log

MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"
SIZE_KEYS = r'"(original_)?(width|height)": (320|240|640|480|500|375)\b'
TEXTS = {
    "azure": SIZE_KEYS,
    "createml-normalised": "",
    "darknet": "",
    "encord": SIZE_KEYS,
    "fiftyone": "",
    "fiftyone-samples": SIZE_KEYS,
    "kili": SIZE_KEYS,
    "labelstudio": SIZE_KEYS,
    "megadetector": SIZE_KEYS,
    "paligemma": "",
    "ultralytics": SIZE_KEYS,
    "vertexai": "",
}
"""What is the size of an image in each fixture."""
SIZES = {"empty": (320, 240), "street": (640, 480), "yard": (500, 375)}


@pytest.fixture(params=sorted(TEXTS))
def source(request, tmp_path):
    """A copy of a fixture in which no image has a size, and its format."""
    path = next(path for path in MIXED.joinpath(request.param).iterdir() if path.name.startswith("input"))
    copy = tmp_path / path.name
    (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
    for file in copy.rglob("*.json") if path.is_dir() else [copy]:
        if TEXTS[request.param]:
            pieces = re.sub(TEXTS[request.param], "\0", file.read_text()).split("\0")
            file.write_text(
                "".join(f'"unread{i}": 0{piece}' if i else piece for i, piece in enumerate(pieces))
            )
    return copy, request.param.split("-")[0]


def options_of(name):
    return {"units": "normalized"} if name == "createml" else {}


def read(path, name, **options):
    log = Log()
    loaded = load(Request(path=str(path), format=name, options=options_of(name) | options), log)
    return loaded.dataset, log


def in_pixels(dataset):
    sizes = np.array([SIZES[Path(name).stem] for name in dataset.images.name])
    return dataset.boxes.xyxy * np.tile(sizes, 2)[dataset.boxes.image]


def test_coordinates_stay_fractions_where_no_image_has_a_size(source, tmp_path):
    path, name = source
    dataset, log = read(path, name)
    assert dataset.relative
    assert any("coordinates are fractions of their images" in note for note in log.notes)
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("name,width,height\nempty.jpg,320,240\nstreet.jpg,640,480\nyard.png,500,375\n")
    with_sizes, _ = read(path, name, image_sizes=str(sizes))
    assert not with_sizes.relative
    np.testing.assert_allclose(in_pixels(dataset), with_sizes.boxes.xyxy, atol=1e-6)


def test_fractions_become_yolo_and_are_evaluated(source, tmp_path):
    path, name = source
    odm.convert(path, tmp_path / "yolo", from_=name, to="yolo", options=options_of(name))
    yolo, _ = read(tmp_path / "yolo", "yolo")
    dataset, _ = read(path, name)
    assert yolo.relative
    assert len(yolo) == len(dataset) == 6
    order = [
        np.lexsort((*d.boxes.xyxy.T.round(4), [d.images.name[i].split(".")[0] for i in d.boxes.image]))
        for d in (yolo, dataset)
    ]
    np.testing.assert_allclose(yolo.boxes.xyxy[order[0]], dataset.boxes.xyxy[order[1]], atol=1e-6)


def test_a_size_of_another_image_is_an_error_for_those_without(source, tmp_path):
    path, name = source
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("name,width,height\nstreet.jpg,640,480\n")
    log = Log()
    with pytest.raises(DataError):
        load(
            Request(path=str(path), format=name, options=options_of(name) | {"image_sizes": str(sizes)}), log
        )
    assert log.errors == log.counts["image-size-unknown"] == 1


def test_a_rotation_needs_the_size(tmp_path):
    """A box that is rotated in pixels is no rotated box in fractions of an image that is not square."""
    value = '{"x": 10, "y": 10, "width": 20, "height": 10, "rotation": 30, "rectanglelabels": ["a"]}'
    result = f'[{{"type": "rectanglelabels", "value": {value}}}]'
    (tmp_path / "a.json").write_text(
        f'[{{"id": 1, "data": {{"image": "a.jpg"}}, "annotations": [{{"result": {result}}}]}}]'
    )
    log = Log()
    with pytest.raises(DataError):
        load(Request(path=str(tmp_path / "a.json"), format="labelstudio"), log)
    assert log.counts["image-size-unknown"] == 1


@pytest.mark.parametrize(
    "name", sorted(n for n, f in FORMATS.items() if f.needs_size and f.write is not None)
)
def test_fractions_are_written_where_sizes_are_not_needed(name, tmp_path):
    """Formats of fractions without a place for sizes are written from fractions; the others name the image."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 0.25 0.5\n")
    target = tmp_path / ("out" + (FORMATS[name].suffixes[0] if FORMATS[name].single else ""))
    if "size" in FORMATS[name].keeps:
        with pytest.raises(DataError):
            odm.convert(tmp_path / "labels", target, from_="yolo", to=name)
        return
    odm.convert(tmp_path / "labels", target, from_="yolo", to=name)
    again, _ = read(target, name)
    assert again.relative
    np.testing.assert_allclose(again.boxes.xyxy, [[0.375, 0.25, 0.625, 0.75]], atol=1e-9)


IN_PIXELS = {"imagenet-det", "citypersons", "tinyperson", "aitod", "soda-d", "caltech", "kitti", "widerface"}
"""Protocols that count only boxes of some size in pixels, or have thresholds by that size."""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_fractions_have_the_numbers_of_pixels_without_the_inclusive_one(name, tmp_path):
    """Square images of 1 000 pixels: IoU is the same in any unit, and what depends on pixels is switched or refused."""
    rng = np.random.default_rng(1)
    rows = np.column_stack(
        [rng.integers(0, 2, 40), rng.uniform(0.3, 0.7, (40, 2)), rng.uniform(0.1, 0.3, (40, 2))]
    )
    moved = rows + [0, *rng.normal(0, 0.02, 4)]
    for folder, table in (("gt", rows), ("det", np.column_stack([moved, rng.random(40)]))):
        for n in range(4):
            path = tmp_path / folder / f"{n}.txt"
            path.parent.mkdir(exist_ok=True)
            np.savetxt(path, table[n::4], fmt=["%d", *["%.6f"] * (table.shape[1] - 1)])
    (tmp_path / "classes.txt").write_text("person\npedestrian\n")
    options = {"classes": tmp_path / "classes.txt", "protocol": name, "log": Log()}
    sides = (tmp_path / "gt", tmp_path / "det")
    if name in IN_PIXELS:
        with pytest.raises(odm.UsageError, match=f"{name} is defined in pixels"):
            odm.eval(*sides, **options)
        return
    expected = odm.eval(*sides, image_size=(1000, 1000), pixels="edges", **options).result.summary
    result = odm.eval(*sides, **options).result
    assert result.rules.switched == ("pixels edges",) * (PROTOCOLS[name].pixels == "inclusive")
    of_ranges = {key for key in expected if re.fullmatch("A[PR][sml]", key)}
    assert all(np.isnan(result.summary[key]) for key in of_ranges)
    assert {key: value for key, value in result.summary.items() if key not in of_ranges} == pytest.approx(
        {key: value for key, value in expected.items() if key not in of_ranges}, abs=1e-6, nan_ok=True
    )
    assert any(
        "no image has a size, so boxes are compared as fractions" in note for note in options["log"].notes
    )
