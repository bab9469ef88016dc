"""Rectangles that CVAT's attribute rotation turns, in every format into which CVAT exports them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import odm
from odm.issues import Log
from odm.tables import ShapeKind
from odm.tables.shapes import rectangle_corners

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
ROTATED = ("coco", "datumaro", "voc", "labelmexml")


def read(path, name, **options):
    log = Log()
    data = odm.read(path, name, log=log, **options)
    return data, log.notes


def rotated(name, tmp_path, change=lambda text: text):
    """The fixture of a format, with a rotation of 30 degrees."""
    source = next((TOOLS / f"{name}-cvat-rotation").glob("input*"))
    target = tmp_path / source.name
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    for path in [target] if target.is_file() else target.rglob("*.*"):
        path.write_text(
            change(
                path.read_text()
                .replace("90.0</v", "30.0</v")
                .replace("=90.0", "=30.0")
                .replace('"rotation": 90.0', '"rotation": 30.0')
            )
        )
    return target


@pytest.mark.parametrize("name", ROTATED)
def test_exports_of_one_task_agree_corner_by_corner(name, tmp_path):
    (tmp_path / "a.xml").write_text(
        '<annotations><image id="0" name="a.jpg" width="200" height="200"><box label="car" occluded="0" xtl="80" '
        'ytl="90" xbr="120" ybr="110" rotation="30.0"></box></image></annotations>'
    )
    truth = odm.read(tmp_path / "a.xml", "cvat", shapes=True).boxes
    path = rotated(name, tmp_path)
    data, notes = read(path, name, shapes=True)
    assert np.allclose(data.boxes.shapes.corners([0]), truth.shapes.corners([0]), atol=1e-9)
    assert data.boxes.shapes.kind.tolist() == [ShapeKind.ORIENTED, ShapeKind.NONE]
    assert any("1 rectangle is turned by CVAT's attribute rotation (rotation='ignore'" in n for n in notes)
    for shapes in (True, False):
        boxes = odm.read(path, name, shapes=shapes).boxes
        assert np.allclose(boxes.xyxy[0], truth.xyxy[0], atol=1e-9)
    data, notes = read(path, name, shapes=True, rotation="ignore")
    assert data.boxes.xyxy[0].tolist() == [80, 90, 120, 110]
    assert not any("rotation" in note for note in notes)


@pytest.mark.parametrize("name", ROTATED)
def test_an_attribute_of_that_name_of_others_changes_nothing(name, tmp_path):
    path = rotated(
        name, tmp_path, lambda text: re.sub(r'"occluded": \w+, |<occluded>\w+</occluded>', "", text)
    )
    data, notes = read(path, name, shapes=True)
    assert data.boxes.xyxy[0].tolist() == [80, 90, 120, 110]
    assert not any("rotation" in note for note in notes)


@pytest.mark.parametrize("id_", ["1", "1.0"])  # read in columns, or record by record
def test_a_box_with_an_outline_is_not_turned(id_, tmp_path):
    def change(text):
        text = text.replace('"segmentation": []', '"segmentation": [[80, 90, 120, 90, 120, 110]]')
        return text.replace('"id": 1, "image_id"', f'"id": {id_}, "image_id"')

    path = rotated("coco", tmp_path, change)
    for shapes in (True, False):
        assert odm.read(path, "coco", shapes=shapes).boxes.xyxy[0].tolist() == [80, 90, 120, 110]


def test_a_coco_file_read_record_by_record_agrees(tmp_path):
    path = rotated(
        "coco", tmp_path, lambda text: text.replace('"id": 1, "image_id"', '"id": 1.0, "image_id"')
    )
    one = odm.read(path, "coco", shapes=True).boxes
    two = odm.read(rotated("coco", tmp_path), "coco", shapes=True).boxes
    assert np.array_equal(one.xyxy, two.xyxy)
    assert np.array_equal(one.shapes.xy, two.shapes.xy)


def test_voc_from_one_is_turned_about_the_same_centre(tmp_path):
    path = rotated("voc", tmp_path)
    odm.convert(
        path, tmp_path / "one", to="voc", to_options={"origin": 1}, from_options={"rotation": "ignore"}
    )
    text = next((tmp_path / "one").rglob("*.xml")).read_text()
    text = text.replace("</bndbox>", "</bndbox><attributes><attribute><name>rotation</name><value>30</value>"
                        "</attribute></attributes><occluded>0</occluded>", 1)  # fmt: skip
    (tmp_path / "b.xml").write_text(text.replace("<occluded>0</occluded>\n", "", 1))
    turned = odm.read(tmp_path / "b.xml", "voc", shapes=True, origin=1).boxes
    assert np.allclose(
        turned.shapes.corners([0]), rectangle_corners(np.array([[100, 100, 40, 20, np.pi / 6]]))
    )
