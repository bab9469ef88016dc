"""The cursor over JSON records: what a row with a fault says and adds, and where rows come from."""

import json

import pytest

from odm.files import Source
from odm.formats._shared.json.items import check_sizes, iter_images, read_items, read_line_items
from odm.formats._shared.json.values import Reader
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log
from odm.tables import Builder, Dataset

GOOD = {"class": "x", "corners": [1, 2, 3, 4]}
KNOWN = frozenset({"class", "corners", "about", "score", "path"})


def read_box(box):
    category, score = box.category("class"), box.score("score")
    corners = box.number_list("corners", 4, "4 numbers")
    box.object("about", optional=True).number("weight", 1.0)
    if "path" in box:
        [point.numbers("x") for point in box.all_objects("path", "a list of points")]
    box.count_unread(KNOWN)
    box.add(category, tuple(corners), score=score)


def read(tmp_path, images, *, lines=False, look=False):
    """Read images with boxes, after a look at the rows if asked for."""
    path = tmp_path / "a.json"
    text = "\n".join(map(json.dumps, images)) if lines else json.dumps(images)
    path.write_text(text, encoding="utf-8")
    log, builder = Log(), Builder()
    reader = Reader(Source(str(path)), builder, log, ImageOptions())
    for image in read_line_items(reader, "") if lines else read_items(reader, "", "a list of images"):
        boxes = image.rows("boxes")
        for row in boxes if look else ():
            row.size("w", "h")
        boxes.read(image.image("name"), read_box)
    reader.finish()
    data = builder.build()
    return (
        data,
        [(issue.code, issue.pointer or issue.line) for issue in log.issues],
        data.skipped,
        data.extras,
    )


@pytest.mark.parametrize(
    ("box", "codes"),
    [
        ({}, []),
        *(({"about": value}, []) for value in (None, {}, [], "")),
        ({"about": 0}, ["wrong-box-type /about"]),
        ({"about": {"weight": "x"}}, ["wrong-box-type /about/weight"]),
        ({"class": 5, "corners": [1, 2, "x"], "score": "y"}, ["wrong-box-type /class", "wrong-box-type /score", "wrong-count /corners"]),
        ({"corners": [1, 2, 3, None]}, ["wrong-box-type /corners/3"]),
        ({"path": []}, ["wrong-box-type /path"]),
        ({"path": [{"x": 1}, 5]}, ["wrong-box-type /path/1"]),
        ({"path": [{"x": 1}, {}]}, ["missing-box-key /path/1"]),
        (5, ["wrong-box-type "]),
    ],
)  # fmt: skip
def test_a_row_with_a_fault_is_told_with_its_place_and_adds_no_box(tmp_path, box, codes):
    row = {**GOOD, "note": "unread", **box} if isinstance(box, dict) else box
    data, issues, skipped, extras = read(tmp_path, [{"name": "a.jpg", "boxes": [GOOD, row]}])
    assert issues == [(c.split()[0], "/0/boxes/1" + c.partition(" ")[2]) for c in codes]
    assert (len(data), skipped, extras) == ((2, 0, {"note": 1}) if not codes else (1, 1, {}))


def test_a_fault_seen_at_a_first_look_is_told_once(tmp_path):
    boxes = [GOOD, {**GOOD, "w": "x", "h": 3, "class": 5}, 5]
    data, issues, skipped, _ = read(tmp_path, [{"name": "a.jpg", "boxes": boxes}], look=True)
    assert sorted(issues) == [("bad-image-size", "/0/boxes/1/w"), ("wrong-box-type", "/0/boxes/2")]
    assert (len(data), skipped) == (1, 2)


@pytest.mark.parametrize(("lines", "places"), [(False, ["/0/boxes/0", "/1/boxes/1"]), (True, [1, 2])])
def test_rows_know_where_they_come_from(tmp_path, lines, places):
    images = [{"name": "a.jpg", "boxes": [GOOD]}, {"name": "b.jpg", "boxes": [5, GOOD]}]
    data, issues, skipped, _ = read(tmp_path, images, lines=lines)
    found = [data.location(row) for row in range(len(data))]
    assert [pointer or line for _, line, pointer in found] == places
    assert issues == [("wrong-box-type", 2 if lines else "/1/boxes/0")]
    assert skipped == 1


def test_boxes_of_an_image_that_cannot_be_are_skipped(tmp_path):
    data, issues, skipped, _ = read(
        tmp_path, [{"name": 5, "boxes": [GOOD, 5]}, {"name": "b.jpg", "boxes": {}}, 5]
    )
    assert issues == [("wrong-type", "/0/name"), ("wrong-type", "/1/boxes"), ("wrong-type", "/2")]
    assert (len(data), skipped, data.images.name) == (0, 2, ("b.jpg",))


def test_images_are_written_with_their_boxes_in_order():
    data = Dataset.from_arrays(
        images=["a", "b", "c"], width=[9, 0, 9], height=[9, 9, 9], categories=["x", "y"], image=[2, 1, 2], category=[0, 1, 1],
        xyxy=[[1, 2, 3.5, 4], [0, 0, 1, 1], [-0.0, 0, 2, 2]], score=[0.5, 1, 0.25],
    )  # fmt: skip
    images = list(iter_images(data))
    assert [(image.name, [box.row for box in image.boxes]) for image in images] == [
        ("a", []),
        ("b", [1]),
        ("c", [0, 2]),
    ]
    first = images[2].boxes[0]
    assert (
        json.dumps([first.label, first.xyxy, first.wh, first.score_field("s")])
        == '["x", [1, 2, 3.5, 4], [2.5, 2], {"s": 0.5}]'
    )
    log = Log()
    assert not check_sizes(data, log)
    assert log.counts == {"image-size-unknown": 1}
