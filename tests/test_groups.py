"""Shapes of groups that are one object, in every format that has groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from one_format import WRITTEN

import odm
from odm import masks
from odm.converters.merging import merge
from odm.formats import FORMATS
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag, ShapeKind, ShapeRows

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
GROUPED = {  # name of the fixture, and the shapes in it
    "labelme-groups": 4,
    "cvat-groups": 4,
    "datumaro-groups": 5,
    "superannotate-groups": 4,
    "supervisely-bound": 5,
}
GROUPS = [name for name, format_ in WRITTEN.items() if "group" in format_.keeps]
A, B, C = [[10, 10], [20, 10], [20, 20]], [[40, 10], [60, 10], [60, 30]], [[70, 70], [80, 70], [80, 80]]


def read(path, name, **options):
    log = Log()
    data = odm.read(path, name, log=log, **options)
    return data, log.notes


def test_every_format_with_groups_has_a_file_with_some():
    assert {name.partition("-")[0] for name in GROUPED} == set(GROUPS)


@pytest.mark.parametrize("folder", GROUPED)
@pytest.mark.parametrize("shapes", [True, False])
def test_shapes_of_a_group_are_one_object(folder, shapes):
    path, name = next((TOOLS / folder).glob("input*")), folder.partition("-")[0]
    data, notes = read(path, name, shapes=shapes)
    assert sorted(data.boxes.xyxy.tolist()) == [[10, 10, 60, 30], [30, 12, 34, 16], [70, 70, 80, 80]]
    n = GROUPED[folder] - 2
    assert any(f"{n} shapes of groups are read as 1 object (groups='ignore'" in note for note in notes), notes
    data, notes = read(path, name, shapes=shapes, groups="ignore")
    assert len(data) == GROUPED[folder]
    assert not any("groups" in note for note in notes)


def grouped():
    """One image: an object of two outlines, one in a group of two with a rectangle, and a group of rectangles."""
    rows, builder = ShapeRows(), Builder()
    rows.polygons([A, B])
    rows.polygons([C])
    for _ in range(4):
        rows.none()
    shapes = rows.table()
    xyxy = np.array([[0, 0, 0, 0]] * 2 + [[1, 1, 5, 5], [6, 6, 9, 9], [2, 2, 5, 5], [50, 50, 60, 60]], float)
    xyxy[:2] = shapes.edges()[:2]
    builder.image("a.jpg", width=100, height=100)
    builder.category("x")
    group = np.array([-1, 0, 2, 2, -1, 0])
    builder.boxes(image=np.zeros(6, int), category=np.zeros(6, int), xyxy=xyxy, shapes=shapes, group=group)
    builder.kind = "gt"
    return builder.build()


def partition(data):
    """The boxes of each group of several, and the outlines of each box."""
    groups: dict[int, list] = {}
    for group, box in zip(data.boxes.group.tolist(), data.boxes.xyxy.tolist(), strict=True):
        groups.setdefault(group, []).append(box)
    outlines = [len(data.boxes.shapes.polygons(i)) for i in range(len(data))]
    return sorted(sorted(v) for k, v in groups.items() if k >= 0 and len(v) > 1), sorted(outlines)


@pytest.mark.parametrize("name", GROUPS)
def test_groups_go_through_a_conversion(name, tmp_path):
    data = grouped()
    target = tmp_path / ("out" + (FORMATS[name].suffixes[0] if FORMATS[name].single else ""))
    ledger = odm.write(data, target, name)
    assert not [what for what in {**ledger.lost, **ledger.changed} if "group" in what or "parts" in what]
    back, _ = read(target, name, shapes=True)
    assert partition(back) == partition(data)
    assert sorted(back.boxes.xyxy.tolist()) == sorted(data.boxes.xyxy.tolist())


def test_groups_that_a_target_has_not_are_counted(tmp_path):
    ledger = odm.write(grouped(), tmp_path / "out.csv", "csv")
    assert ledger.lost["groups of boxes"] == 4


@pytest.mark.parametrize("name", GROUPS)
def test_objects_stay_apart_that_would_be_read_as_one(name, tmp_path):
    first = next((TOOLS / "labelme-groups").glob("input*"))
    data, _ = read(first, "labelme", shapes=True, groups="ignore")
    ledger = odm.write(data, tmp_path / "out", name)
    assert ledger.changed["groups not written, as their boxes would be read as one object"] == 1
    back, _ = read(tmp_path / "out", name, shapes=True)
    assert len(back) == len(data)


def test_groups_of_two_sources_of_an_image_stay_apart(tmp_path):
    data = grouped()
    joined = merge([data, data.take(np.arange(2, 4))], same_image="join").dataset
    assert len(joined) == len(data), "equal boxes are there once"
    moved = data.boxes.xyxy[2:4] + 20
    other = odm.Dataset.from_arrays(
        images=["a.jpg"], categories=["x"], image=[0, 0], category=[0, 0], xyxy=moved
    )
    assert len(set(merge([data, other], same_image="join").dataset.boxes.group.tolist())) == 3
    again = merge([data, other, data], same_image="join").dataset
    assert sorted(again.boxes.group.tolist()) == [-1, -1, -1, -1, 0, 0, 6, 6]


def test_a_mask_and_an_outline_of_a_group_are_one_mask(tmp_path):
    box = '<mask label="x" occluded="0" rle="0, 100" left="30" top="30" width="10" height="10" group_id="3"></mask>'
    outline = '<polygon label="x" occluded="0" points="35,35;55,35;55,45;35,45" group_id="3"></polygon>'
    text = f'<annotations><image id="0" name="a.jpg" width="100" height="90">{box}{outline}</image></annotations>'
    (tmp_path / "a.xml").write_text(text)
    data, _ = read(tmp_path / "a.xml", "cvat", shapes=True)
    assert data.boxes.xyxy.tolist() == [[30, 30, 55, 45]]
    assert data.boxes.shapes.kind.tolist() == [ShapeKind.MASK]
    mask = masks.decode({"size": [90, 100], "counts": data.boxes.shapes.counts(0)})
    expected = np.zeros((90, 100), bool)
    expected[30:40, 30:40] = expected[35:45, 35:55] = True
    assert (mask == expected).all()


def test_tracks_of_a_group_are_one_track(tmp_path):
    shape = '<polygon frame="{}" outside="{}" occluded="0" keyframe="1" points="{}"></polygon>'
    tracks = [
        f'<track id="{i}" label="x" group_id="1">'
        + "".join(shape.format(frame, int((i, frame) == (0, 1)), points) for frame in (0, 1))
        + "</track>"
        for i, points in enumerate(["1,1;5,1;5,5", "10,1;15,1;15,5"])
    ]
    (tmp_path / "a.xml").write_text(f"<annotations><version>1.1</version>{''.join(tracks)}</annotations>")
    data, _ = read(tmp_path / "a.xml", "cvat", shapes=True)
    assert data.boxes.xyxy.tolist() == [[1, 1, 15, 5], [10, 1, 15, 5]]
    assert data.boxes.track.tolist() == [0, 0]


def pose(tmp_path, *shapes):
    names = ("label", "shape_type", "group_id", "points")
    record = {"imagePath": "a.jpg", "imageHeight": 100, "imageWidth": 100}
    record["shapes"] = [dict(zip(names, shape, strict=True)) for shape in shapes]
    (tmp_path / "a.json").write_text(json.dumps(record))
    return odm.read(tmp_path / "a.json", "labelme", shapes=True)


def test_a_point_of_no_one_object_is_counted(tmp_path):
    box, other = ("x", "rectangle", 1, [[10, 10], [50, 50]]), ("x", "rectangle", 1, [[60, 10], [90, 50]])
    inside, far = ("p", "point", 1, [[20, 20]]), ("q", "point", 2, [[1, 1]])
    data = pose(tmp_path, box, other, inside, far, ("r", "point", None, [[2, 2]]))
    assert data.boxes.keypoints.counts().tolist() == [1, 0], "only one of the rectangles is around it"
    assert data.extras == {"point shapes": 2}
    assert pose(tmp_path, box, box, inside).extras == {"point shapes": 1}
    assert pose(tmp_path, ("p", "point", 1, [[20, 20]])).extras == {"point shapes": 1}
    data = pose(tmp_path, ("x", "polygon", 1, A), ("x", "polygon", 1, B), inside)
    assert data.boxes.keypoints.points(0).tolist() == [[20, 20, 2]]
    assert data.categories.keypoints == (("p",),)
    ledger = odm.convert(tmp_path / "a.json", tmp_path / "out.csv")
    assert ledger.lost["keypoints of boxes"] == 1


@pytest.mark.parametrize("first", range(3))
def test_the_rectangle_of_a_group_is_its_box_wherever_it_stands(tmp_path, first):
    parts = [("x", "rectangle", 1, [[10.5, 10], [60, 29]]), ("x", "polygon", 1, A), ("x", "polygon", 1, B)]
    data = pose(tmp_path, *parts[first:], *parts[:first])
    assert data.boxes.xyxy.tolist() == [[10.5, 10, 60, 29]]
    assert data.boxes.shapes.kind.tolist() == [ShapeKind.POLYGONS]


WITHOUT_REGIONS = ("createml", "txt", "voc", "yolo")


@pytest.mark.parametrize("name", WITHOUT_REGIONS)
def test_a_class_of_nothing_but_regions_goes_with_them(name, tmp_path):
    """The other classes keep their boxes, wherever it stands in the list."""
    for region in range(3):
        classes = ["x", "y"]
        classes.insert(region, "region")
        category = [region, *(k for k in range(3) if k != region)]
        dataset = Dataset.from_arrays(
            images=["a.jpg"], categories=classes, image=[0, 0, 0], category=category, width=[20], height=[20],
            xyxy=[[0, 0, 9, 9], [1, 1, 2, 2], [3, 3, 5, 5]], flags=[Flag.REGION, 0, 0],
        )  # fmt: skip
        target = tmp_path / f"{region}" / ("a.json" if name == "createml" else "a")
        target.parent.mkdir()
        ledger = odm.write(dataset, target, name)
        assert ledger.changed["classes of nothing but regions to ignore are not written"] == 1
        written = odm.read(target, name)
        assert [written.categories.name[k] for k in written.boxes.category] == ["x", "y"]
        assert set(written.categories.name) == {"x", "y"}
