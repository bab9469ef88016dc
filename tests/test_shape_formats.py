"""Outlines, masks, oriented boxes and keypoints in the files of every format that keeps them."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from one_format import WRITTEN
from selection import of_each

import odm
from odm import masks
from odm.formats import FORMATS, make_options, option_specs
from odm.formats._shared.shapes import pixel_masks
from odm.issues import DataError, Log
from odm.tables import Builder, ShapeKind, ShapeRows, keypoints_of

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
WORDS = ("polygon", "mask", "oriented", "keypoints")
SIZE = 120, 90
TRIANGLE = [(10.5, 20), (50.25, 20.125), (30, 60)]
FIVE = [(60, 10), (90, 12.5), (100, 40), (80, 55), (55, 30)]
TURNED = [(37.679492, 21.339746), (72.320508, 41.339746), (62.320508, 58.660254), (27.679492, 38.660254)]
QUAD = [(20, 20), (60, 25), (55, 70), (15, 60)]
POINTS = [(40.5, 30, 2), (50, 35.25, 1), (0, 0, 0)]


def ways():
    """Every format and word that it keeps, with an option or without, as ground truth and as detections."""
    for name, format_ in sorted(WRITTEN.items()):
        for word in WORDS:
            said = format_.shape_options.get(word)
            options = dict([said.split("=")]) if said else {}
            if word in format_.adapted(make_options(format_, options)).keeps:
                for kind in ("gt", "det"):
                    yield name, word, kind, options
    yield "via", "polygon", "gt", {"layout": "via3"}


def mask():
    array = np.zeros(SIZE[::-1], bool)
    array[10:40, 20:60] = True
    array[20:30, 30:50] = False
    return array


def tall_mask():
    array = np.zeros(SIZE[::-1], bool)
    array[41:80, 100:102] = True
    array[79:88, 102] = True
    return array


def dataset(word, kind, keeps, every):
    """Boxes with such shapes, one of each class, after an image without any; with `every` none is without."""
    rows, boxes, points = ShapeRows(), [], []

    def add(box, has=()):
        boxes.append(box)
        points.append(has)

    def around(corners):
        array = np.array(corners)
        return [*array.min(0), *array.max(0)]

    if word == "polygon":
        shapes = [[TRIANGLE], [FIVE], *([[TRIANGLE, FIVE]] if "parts" in keeps else [])]
        for outlines in shapes:
            rows.polygons(outlines)
            add(around([corner for outline in outlines for corner in outline]))
    elif word == "mask":
        rows.mask(masks.encode(mask())["counts"].encode())
        add([20, 10, 60, 40])
        rows.mask(masks.encode(tall_mask())["counts"].encode())
        add([100, 41, 103, 88])
    elif word == "oriented":
        for corners in [TURNED, *([QUAD] if "rectangle" not in keeps else [])]:
            rows.oriented(corners)
            add(around(corners))
    else:
        rows.none()
        add([30, 20, 60, 50], [(*p[:2], p[2] if "visibility" in keeps or not p[2] else 2) for p in POINTS])
    if not every:
        rows.none()
        add([5, 6, 25, 36])
    builder = Builder()
    builder.kind = kind
    builder.image("0.jpg", width=SIZE[0], height=SIZE[1])
    builder.image("a.jpg", width=SIZE[0], height=SIZE[1])
    classes = [builder.category(name) for name in ("ant", "bee", "cow", "dog")]
    builder.describe_points(classes[0], ("nose", "eye", "tail")) if word == "keypoints" else None
    n = len(boxes)
    builder.boxes(
        image=np.ones(n, int),
        category=np.arange(n),
        xyxy=np.array(boxes, float),
        score=np.full(n, 0.5) if kind == "det" else None,
        shapes=rows.table(),
        keypoints=keypoints_of(points),
    )
    return builder.build()


def rows_of(data):
    """What each class has: its box, kind of shape, outlines, mask and points."""
    boxes, found = data.boxes, {}
    for i in range(len(boxes)):
        shapes, points = boxes.shapes, boxes.keypoints
        found[data.categories.name[boxes.category[i]]] = (
            boxes.xyxy[i],
            ShapeKind.NONE if shapes is None else ShapeKind(shapes.kind[i]),
            [] if shapes is None else shapes.polygons(i),
            b"" if shapes is None else shapes.counts(i),
            np.zeros((0, 3)) if points is None else points.points(i),
        )
    return found


@of_each(ways)
def test_shapes_come_back(name, word, kind, options, tmp_path):
    format_ = FORMATS[name]
    held = format_.adapted(make_options(format_, options))
    data = dataset(word, kind, held.keeps, held.boxes_as_shapes)
    target = tmp_path / f"out{format_.suffixes[0] if format_.single else ''}"
    odm.write(data, target, name, **options)
    names = {spec.name for spec in option_specs(format_.options)}
    sizes = (
        {"image_size": "{}x{}".format(*SIZE)} if "size" not in held.keeps and "image_size" in names else {}
    )
    log = Log(keep=1000)
    back = odm.read(target, name, kind=kind, shapes=True, log=log, **sizes)
    assert not log.errors, list(map(str, log))
    assert "outlines-as-boxes" not in log.counts
    if word == "keypoints":
        assert back.categories.keypoints is None or back.categories.keypoints[0] == ("nose", "eye", "tail")
    expected, found = rows_of(data), rows_of(back)
    assert expected.keys() == found.keys()
    slack = held.max_error_px + 1e-6
    for key, (box, shape, outlines, counts, points) in expected.items():
        assert found[key][1] == shape, key
        np.testing.assert_allclose(found[key][0], box, rtol=0, atol=slack, err_msg=key)
        assert [len(p) for p in found[key][2]] == [len(p) for p in outlines]
        for one, other in zip(found[key][2], outlines, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=slack)
        assert found[key][3] == counts
        # Where every row has as many points, a box without has those that nobody labelled.
        there = found[key][4] if len(points) or found[key][4].any() else points
        np.testing.assert_allclose(there, points, rtol=0, atol=slack)


# ------------------------------------------------------------------------------------------------- yolo

PAIRS = ".1 .1 .3 .1 .3 .2 .1 .2"


def label(folder, text, **files):
    for name, content in {"a.txt": text, "classes.txt": "ant\nbee\n", **files}.items():
        (folder / name).write_text(content)
    return folder


YOLO_ROWS = [
    # rows, options, kind, shapes of each row, points of the first, codes
    (f"0 {PAIRS}\n1 {PAIRS}\n", {}, "gt", [3, 3], 0, set()),
    (f"0 {PAIRS}\n1 {PAIRS}\n", {"task": "segment"}, "gt", [1, 1], 0, set()),
    (f"0 {PAIRS}\n1 {PAIRS}\n", {"task": "detect"}, "gt", [], 0, {"outlines-as-boxes"}),
    (f"0 {PAIRS} .9\n1 {PAIRS} .8\n", {}, "det", [3, 3], 0, set()),
    (f"0 {PAIRS}\n1 {PAIRS} .1 .15\n", {}, "gt", [1, 1], 0, set()),
    (f"0 {PAIRS}\n1 {PAIRS} .1 .15\n", {"task": "obb"}, "gt", [3], 0, {"wrong-count"}),
    (f"0 {PAIRS}\n1 .5 .5 .2 .2\n", {}, "gt", [3, 0], 0, {"several-tasks"}),
    ("0 .5 .5 .2 .2 .5 .5 2 .45 .45 1\n", {}, "gt", [], 2, set()),
    ("0 .5 .5 .2 .2 .5 .5 1 .45 .45 1\n", {"task": "segment"}, "gt", [1], 0, set()),
    ("0 .5 .5 .2 .2 .5 .5 .93 .45 .45 .4 .8\n", {"task": "pose"}, "det", [], 2, set()),
    ("0 .5 .5 .2 .2 .5 .5 .45 .45\n1 .5 .5 .2 .2 .45 .45 0 0\n", {"task": "pose"}, "gt", [], 2, set()),
]


@of_each(YOLO_ROWS)
def test_rows_of_yolo_show_their_task(text, options, kind, shapes, points, codes, tmp_path):
    log = Log(keep=100)
    source = label(tmp_path, text)
    more = {"skip_bad": True, "image_size": "100x100", **options}
    data = odm.read(source, "yolo", kind=kind, shapes=True, log=log, **more)
    found = data.boxes.shapes
    assert set(log.counts) == codes
    assert shapes == ([] if found is None else found.kind.tolist())
    counts = [0] if data.boxes.keypoints is None else data.boxes.keypoints.counts()
    assert counts[0] == points
    if "task" in options and points:
        last = data.boxes.keypoints.points(len(data) - 1)[-1]
        assert last.tolist() == ([45, 45, 0.4] if kind == "det" else [0, 0, 0])
    # Boxes are the same whether shapes are asked for or not.
    again = odm.read(source, "yolo", kind=kind, log=Log(), **more)
    np.testing.assert_array_equal(again.boxes.xyxy[: len(data)], data.boxes.xyxy)


def test_a_pose_set_of_yolo_keeps_what_its_description_says_of_points(tmp_path):
    yaml = (
        "names: [ant]\ntrain: .\nkpt_shape: [3, 2]\nflip_idx: [1, 0, 2]\n"
        "kpt_names:\n  0:\n    - left\n    - right\n    - tail\n"
    )
    (tmp_path / "in").mkdir()
    source = label(
        tmp_path / "in",
        "0 .5 .5 .2 .2 .5 .5 -.005 .4 .25 .5\n",
        **{"data.yaml": yaml, "classes.txt": "ant\n"},
    )
    out = tmp_path / "out"
    odm.convert(source, out, to="yolo", options={"image_size": "100x100"})
    written = (out / "data.yaml").read_text().split("\n")
    assert {"kpt_shape: [3, 3]", "flip_idx: [1, 0, 2]", '    - "left"'} <= set(written)
    row = next(out.rglob("*.txt")).read_text()
    assert row == "0 0.5 0.5 0.2 0.2 0.5 0.5 2 -0.005 0.4 0 0.25 0.5 2\n"
    ledger = odm.convert(source, tmp_path / "x.csv", options={"image_size": "100x100"})
    assert ledger.lost["keypoints of boxes"] == 1


def test_parts_and_masks_become_one_row_of_yolo_with_the_same_pixels(tmp_path):
    for word in ("polygon", "mask"):
        data = dataset(word, "gt", {"parts"}, False)
        odm.write(data, tmp_path / word, "yolo", task="segment")
        back = odm.read(tmp_path / word, "yolo", shapes=True, image_size="{}x{}".format(*SIZE))
        size = np.full(len(data), SIZE[1]), np.full(len(data), SIZE[0])
        expected, found = data.boxes.shapes.runs(*size), back.boxes.shapes.runs(*size)
        drawn = len(data) - 1  # the last has no shape, and is written as its rectangle
        assert found.edge[: found.starts[drawn]].tolist() == expected.edge.tolist()
        assert set(back.boxes.shapes.kind.tolist()) == {ShapeKind.POLYGONS}


# --------------------------------------------------------------------------------------------- fiftyone


def test_key_points_of_fiftyone_have_the_mean_of_their_scores(tmp_path):
    def poses(points, scores):
        point = {"label": "x", "points": points, "confidence": scores}
        return {"_cls": "Keypoints", "keypoints": [point]}

    sample = {
        "filepath": "data/a.jpg",
        "metadata": {"width": 100, "height": 80},
        "ground_truth": {"_cls": "Detections", "detections": [{"label": "x", "bounding_box": [0, 0, 1, 1]}]},
        "poses": poses([[0.1, 0.25], [math.nan, math.nan], [0.3, 0.5]], [0.5, math.nan, 0.75]),
        "none": poses([[math.nan, math.nan]], [math.nan]),
    }
    (tmp_path / "samples.json").write_text(json.dumps({"samples": [sample]}))
    found = odm.read(tmp_path, "fiftyone", kind="det", shapes=True, field="poses")
    assert found.boxes.score.tolist() == [0.625]
    assert found.boxes.xyxy.tolist() == [[10, 20, 30, 40]]
    assert len(odm.read(tmp_path, "fiftyone", shapes=True, field="none")) == 0
    # Detections come first.
    assert odm.read(tmp_path, "fiftyone", shapes=True).boxes.xyxy.tolist() == [[0, 0, 100, 80]]


def test_a_mask_in_a_file_is_read_below_the_source_only(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.png", "in/a.png"):
        (tmp_path / name).write_bytes(base64.b64decode(pixel_masks.encode_png(np.ones((2, 2), bool))))
    for name, kinds in (("a.png", [2]), ("x/../a.png", [2]), ("../a.png", None), ("b.png", None)):
        box = {"label": "x", "bounding_box": [0, 0, 0.5, 0.5], "mask_path": name}
        sample = {"filepath": "a.jpg", "metadata": {"width": 8, "height": 8}, "f": {"detections": [box]}}
        (tmp_path / "in/samples.json").write_text(json.dumps({"samples": [sample]}))
        for source in (tmp_path / "in", tmp_path / "in/samples.json"):
            log = Log(keep=100)
            shapes = odm.read(source, "fiftyone", shapes=True, log=log).boxes.shapes
            assert not log.errors
            assert kinds == (None if shapes is None else shapes.kind.tolist())


# ------------------------------------------------------------------------------------------------- voc


def voc_tree(folder, pixels, names=("x", "x", "x"), size=(12, 9)):
    """A tree of one image with objects, one of which has no name where it is empty, and its masks."""
    objects = "".join(
        f"<object>{f'<name>{name}</name>' if name else ''}<bndbox><xmin>{i}</xmin><ymin>0</ymin><xmax>9</xmax>"
        f"<ymax>8</ymax></bndbox></object>"
        for i, name in enumerate(names)
    )
    said = "<size><width>{}</width><height>{}</height></size>".format(*size) if size else ""
    for name in ("Annotations", "SegmentationObject"):
        (folder / name).mkdir(parents=True)
    text = f"<annotation><filename>a.jpg</filename>{said}{objects}</annotation>"
    (folder / "Annotations/a.xml").write_text(text)
    if pixels is not None:
        picture = PIL.Image.fromarray(pixels, "L" if pixels.ndim == 2 else "RGB")
        if pixels.ndim == 2:
            picture.putpalette([value for i in range(256) for value in (i, 255 - i, 0)])
        picture.save(folder / "SegmentationObject/a.png")
    return folder


@of_each([(("x", "x", "x"),), (("x", "", "x"),)])
def test_the_pixels_of_voc_are_the_numbers_of_objects(names, tmp_path):
    pixels = np.random.default_rng(3).choice([0, 1, 3, 9, 255], (9, 12)).astype(np.uint8)
    log = Log(keep=100)
    for size in ((12, 9), None):
        source = voc_tree(tmp_path / str(size), pixels, names, size)
        data = odm.read(source, "voc", shapes=True, log=log, skip_bad=True)
        # The second object has no pixel.
        numbers = [number for number, name in enumerate(names, 1) if name]
        assert data.boxes.shapes.kind.tolist() == [2 if number != 2 else 0 for number in numbers]
        for row, number in enumerate(numbers):
            if number != 2:
                assert data.boxes.shapes.counts(row).decode() == masks.encode(pixels == number)["counts"]
        assert (data.images.width[0], data.images.height[0]) == (12, 9)
        assert data.extras["masks without an object"] == 1
        assert odm.read(source, "voc", log=Log(), skip_bad=True).boxes.shapes is None
    assert set(log.counts) <= {"missing-box-key", "image-size-from-picture", "shape-box-differs"}


@of_each([(np.zeros((9, 11), np.uint8),), (np.full((9, 12, 3), 7, np.uint8),)])
def test_pictures_that_are_no_masks_of_voc_are_reported(pixels, tmp_path):
    log = Log(keep=100)
    with pytest.raises(odm.DataError):
        odm.read(voc_tree(tmp_path, pixels), "voc", shapes=True, log=log)
    assert log.counts["wrong-type"] == 1
    assert "SegmentationObject" in str(next(iter(log)))


# ------------------------------------------------------------------------------------------ packed masks


def test_masks_of_rectangles_are_pasted_into_their_images():
    pixels = np.random.default_rng(7).random((9, 12)) < 0.5
    for left, top in ((0, 0), (5, 3), (-4, -2), (15, 12), (18, 6), (40, 0), (10**30, -(10**30))):
        whole = np.zeros((15, 20), bool)
        for (y, x), value in np.ndenumerate(pixels):
            if 0 <= y + top < 15 and 0 <= x + left < 20:
                whole[y + top, x + left] = value
        text = pixel_masks.encode_in_image(pixels, left, top, 20, 15)
        assert text.decode() == masks.encode(whole)["counts"]
        if whole.any():
            x, y, found = pixel_masks.decode_mask(text, 15)
            h, w = found.shape
            np.testing.assert_array_equal(found, whole[y : y + h, x : x + w])
            assert found.sum() == whole.sum()
    runs = pixel_masks.encode_rows(pixels)
    np.testing.assert_array_equal(pixel_masks.decode_rows(runs, 12, 9), pixels)
    np.testing.assert_array_equal(
        pixel_masks.decode_png(pixel_masks.unpack(pixel_masks.encode_png(pixels))), pixels
    )
    packed = pixel_masks.unpack(pixel_masks.encode_npy(pixels), packed=True)
    np.testing.assert_array_equal(pixel_masks.decode_npy(packed), pixels)


def _zlib(size):
    return base64.b64encode(zlib.compress(bytes(size), 9)).decode()


def _npy(shape):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|b1", "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(4)


def _png(width, height):
    def part(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", zlib.compress(bytes(99))) + part(b"IEND", b"")


HOSTILE = [
    lambda: pixel_masks.unpack(_zlib(2**22), pixels=1000, packed=True),
    lambda: pixel_masks.unpack("no base64 at all!"),
    lambda: pixel_masks.unpack({"a": 1}),
    lambda: pixel_masks.unpack(base64.b64encode(b"not zlib").decode(), packed=True),
    lambda: pixel_masks.decode_npy(_npy((2**31, 2**31))),
    lambda: pixel_masks.decode_npy(_npy((2, 1, 2))),
    lambda: pixel_masks.decode_npy(b"\x93NUMPY"),
    lambda: pixel_masks.decode_npy(b""),
    lambda: pixel_masks.decode_png(_png(2**31 - 1, 2**31 - 1)),
    lambda: pixel_masks.decode_png(_png(60000, 60000)),
    lambda: pixel_masks.decode_png(b"\x89PNG\r\n"),
    lambda: pixel_masks.decode_png(b"GIF89a"),
    lambda: pixel_masks.decode_rows([1], 2**31, 2**31),
    lambda: pixel_masks.decode_rows([2**28, 2**28], 3, 3),
    lambda: pixel_masks.decode_rows([-3, 12], 3, 3),
    lambda: pixel_masks.decode_rows([], 0, 5),
    lambda: pixel_masks.encode_in_image(np.ones((2, 2), bool), 0, 0, 2**31, 2**31),
    lambda: pixel_masks.encode_in_image(np.ones((2, 2), bool), 0, 0, 0, 0),
    lambda: pixel_masks.check_mask("0150", [5, 6], 4, 4),
    lambda: pixel_masks.check_mask(["x"], [4, 4], 4, 4),
    lambda: pixel_masks.check_mask("\x7f" * 50, [4, 4], 4, 4),
    lambda: pixel_masks.stretch(np.ones((2, 2), bool), 2**20, 2**20),
]


@of_each(lambda: [(number,) for number in range(len(HOSTILE))])
def test_packed_masks_that_are_wrong_or_too_large_are_refused(number):
    with pytest.raises(pixel_masks.BadMask):
        HOSTILE[number]()


def test_an_image_without_a_size_has_that_of_its_first_mask(tmp_path):
    """Wide or high; a mask of another size is reported, with width before height."""

    def annotation(number, height, width):
        array = np.zeros((height, width), bool)
        array[1:3, 2:7] = True
        return {"id": number, "image_id": 1, "category_id": 1, "iscrowd": 0, "area": 10, "bbox": [2, 1, 5, 2],
                "segmentation": masks.encode(array)}  # fmt: skip

    for second, messages in (((9, 20), []), ((20, 9), ["9x20", "20x9"])):
        document = {"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "x"}],
                    "annotations": [annotation(1, 9, 20), annotation(2, *second)]}  # fmt: skip
        (tmp_path / "a.json").write_text(json.dumps(document, default=bytes.decode))
        log = Log()
        with contextlib.suppress(odm.DataError):
            data = odm.read(tmp_path / "a.json", shapes=True, log=log)
            assert (data.images.width[0], data.images.height[0]) == (20, 9)
        assert log.counts.get("mask-size", 0) == bool(messages)
        assert all(text in str(issue) for issue in log for text in messages if issue.code == "mask-size")


# --------------------------------------------------------------------------- shapes without a box of their own

PLACES = [(10, 20, 2), (40, 60, 1), (30, 25, 2)]
DOT = [(10, 20, 2)]


def of_datumaro(kind, points, *others):
    flat = [value for x, y, _ in points for value in (x, y)]
    seen = [v for *_, v in points]
    about = {"type": kind, "label_id": 0, "group": 3, "attributes": {}}
    parts = [{"type": "points", "points": [x, y], "visibility": [v]} for x, y, v in points]
    shape = {"points": {"points": flat, "visibility": seen}, "skeleton": {"elements": parts}}[kind]
    return {
        "dm_format_version": "1.0",
        "infos": {},
        "categories": {"label": {"labels": [{"name": "cat", "parent": "", "attributes": []}]}},
        "items": [{"id": "a", "annotations": [about | shape, *others],
                   "image": {"path": "a.jpg", "size": [100, 100]}}],
    }  # fmt: skip


def of_encord(points):
    nodes = {
        str(i): {
            "x": x / 100,
            "y": y / 100,
            "name": str(i),
            "visibility": ["invisible", "occluded", "visible"][v],
        }
        for i, (x, y, v) in enumerate(points)
    }
    objects = [{"name": "cat", "shape": "skeleton", "manualAnnotation": True, "skeleton": nodes}]
    unit = {"data_title": "a.jpg", "width": 100, "height": 100, "labels": {"objects": objects}}
    return [{"data_title": "a.jpg", "data_type": "image", "data_units": {"d": unit}}]


def of_kili(points):
    nodes = [
        {"type": "marker", "code": str(i), "point": {"x": x / 100, "y": y / 100}}
        for i, (x, y, _) in enumerate(points)
    ]
    shapes = [{"type": "pose", "categories": [{"name": "cat"}], "points": nodes}]
    label = {"labelType": "DEFAULT", "jsonResponse": {"JOB": {"annotations": shapes}}}
    return [{"externalId": "a.jpg", "resolution": {"width": 100, "height": 100}, "labels": [label]}]


def of_superannotate(points):
    nodes = [{"id": i, "x": x, "y": y} for i, (x, y, _) in enumerate(points)]
    return {
        "metadata": {"name": "a.jpg", "width": 100, "height": 100},
        "instances": [{"type": "template", "className": "cat", "points": nodes}],
    }


def of_darwin(points):
    nodes = [{"name": str(i), "x": x, "y": y, "occluded": v == 1} for i, (x, y, v) in enumerate(points)]
    slots = [{"slot_name": "0", "width": 100, "height": 100}]
    return {"version": "2.0", "item": {"name": "a.jpg", "slots": slots},
            "annotations": [{"name": "cat", "skeleton": {"nodes": nodes}}]}  # fmt: skip


OF_POINTS = {
    "datumaro points": functools.partial(of_datumaro, "points"),
    "datumaro skeleton": functools.partial(of_datumaro, "skeleton"),
    "darwin": of_darwin,
    "encord": of_encord,
    "kili": of_kili,
    "superannotate": of_superannotate,
}


@pytest.mark.parametrize("name", OF_POINTS)
def test_key_points_without_a_box_have_the_box_around_them(name, tmp_path):
    path = tmp_path / ("a.jpg.json" if name == "superannotate" else "a.json")
    path.write_text(json.dumps(OF_POINTS[name](PLACES)), encoding="utf-8")
    data = odm.read(path, name.split()[0], shapes=True)
    assert data.boxes.xyxy.round(9).tolist() == [[10, 20, 40, 60]]
    assert data.boxes.keypoints.points(0)[:, :2].round(9).tolist() == [[10, 20], [40, 60], [30, 25]]
    log = Log()
    odm.convert(path, tmp_path / "out.csv", from_=name.split()[0], log=log)
    assert any("around the keypoints is read" in note for note in log.notes)


DRAWN_BY_DARWIN = {
    "polygon": {"paths": [[{"x": 1, "y": 1}, {"x": 3, "y": 1}, {"x": 2, "y": 3}]]},
    "ellipse": {"center": {"x": 2, "y": 2}, "radius": {"x": 1, "y": 1}, "angle": 0},
    "bounding_box": {"x": 1, "y": 1, "w": 2, "h": 2},
}


@pytest.mark.parametrize("drawn", DRAWN_BY_DARWIN)
@pytest.mark.parametrize("shapes", [True, False])
def test_a_mask_of_darwin_is_lost_only_without_another_outline(drawn, shapes, tmp_path):
    record = of_darwin(())
    record["annotations"] = [{"id": "m", "name": "cat", "mask": {}, drawn: DRAWN_BY_DARWIN[drawn]}]
    (tmp_path / "a.json").write_text(json.dumps(record))
    log = Log()
    data = odm.read(tmp_path / "a.json", "darwin", shapes=shapes, log=log)
    assert data.boxes.xyxy.tolist() == [[1, 1, 3, 3]]
    is_outline_read = shapes and drawn != "bounding_box"
    assert log.counts["outlines-as-boxes"] == (not is_outline_read)


@pytest.mark.parametrize("name", [name for name in OF_POINTS if name != "darwin"])
def test_points_without_an_area_are_counted(name, tmp_path):
    path = tmp_path / ("a.jpg.json" if name == "superannotate" else "a.json")
    path.write_text(json.dumps(OF_POINTS[name](DOT)), encoding="utf-8")
    data = odm.read(path, name.split()[0])
    assert len(data) == 0
    assert sum(data.extras.values()) == 1


CORNERS = [10, 20, 40, 20, 40, 60, 10, 60]
COORDINATES = {  # the file of a format, and what it has for a list of x and y
    "azure": ("a.jsonl", lambda xy: {"image_url": "a.jpg", "label": [{"label": "cat", "polygon": [xy]}]}),
    "azure hole": ("a.jsonl", lambda xy: {"image_url": "a.jpg", "label": [{"label": "cat", "polygon": [CORNERS, xy]}]}),
    "coco": ("a.json", lambda xy: {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 100}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 30, 40], "segmentation": [xy]}],
    }),
    "datumaro": ("a.json", lambda xy: of_datumaro("points", DOT, {"type": "polygon", "label_id": 0, "points": xy})),
    "datumaro points": ("a.json", lambda xy: of_datumaro("points", DOT, {"type": "points", "label_id": 0, "points": xy})),
    "superannotate": ("a.jpg.json", lambda xy: {
        "metadata": {"name": "a.jpg", "width": 100, "height": 100},
        "instances": [{"type": "polygon", "className": "cat", "points": xy}],
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", COORDINATES)
def test_an_x_without_its_y_is_an_error(name, tmp_path):
    file, document = COORDINATES[name]
    errors = []
    for xy in (CORNERS, CORNERS[:-1]):
        (tmp_path / file).write_text(json.dumps(document(xy)))
        try:
            odm.read(tmp_path / file, name.split()[0], shapes=True, log=(log := Log()))
        except DataError as e:
            log = e.log
        errors.append(log.errors)
    assert errors == [0, 1]


def test_the_masks_of_sa1b_give_the_size_of_an_image_that_has_none(tmp_path):
    record = json.loads((TOOLS / "sa1b-official/input/sa_2.json").read_text())
    read = []
    for keys in ((), ("width", "height")):
        for key in keys:
            del record["image"][key]
        (tmp_path / "a.json").write_text(json.dumps(record))
        read.append(odm.read(tmp_path / "a.json", "sa1b", shapes=True))
    one, other = read
    assert one.images.width.tolist() == other.images.width.tolist() != [0]
    assert one.images.height.tolist() == other.images.height.tolist()
    assert one.boxes.shapes.row_keys() == other.boxes.shapes.row_keys()
    record["annotations"][0]["segmentation"]["size"] = [9, "9"]
    (tmp_path / "a.json").write_text(json.dumps(record))
    with pytest.raises(DataError) as caught:
        odm.read(tmp_path / "a.json", "sa1b", shapes=True)
    assert [i.pointer for i in caught.value.log if i.severity == "error"] == [
        "/annotations/0/segmentation/counts"
    ]


@pytest.mark.parametrize("kind", ["points", "skeleton"])
@pytest.mark.parametrize(("group", "n"), [(3, 1), (0, 2), (4, 2)])
def test_points_of_datumaro_beside_a_box_of_their_group_are_no_other_object(kind, group, n, tmp_path):
    box = {"type": "bbox", "label_id": 0, "group": group, "bbox": [5, 5, 50, 60], "attributes": {}}
    (tmp_path / "a.json").write_text(json.dumps(of_datumaro(kind, PLACES, box)))
    data = odm.read(tmp_path / "a.json", "datumaro")
    assert len(data) == n
    assert data.extras.get(f"{kind} annotations", 0) == 2 - n


@pytest.mark.parametrize(("group", "n"), [(3, 1), (0, 2)])
def test_masks_of_datumaro_have_the_box_around_them(group, n, tmp_path):
    mask = np.zeros((100, 100), np.uint8)
    mask[20:60, 10:40] = 1
    runs = odm.masks.encode(np.asfortranarray(mask))
    rle = {"counts": runs["counts"], "size": [100, 100]}
    document = of_datumaro("points", DOT)
    document["items"][0]["annotations"] = [
        {"type": "mask", "label_id": 0, "group": 3, "rle": rle, "attributes": {}},
    ]
    (tmp_path / "a.json").write_text(json.dumps(document))
    data = odm.read(tmp_path / "a.json", "datumaro", shapes=True)
    assert data.boxes.xyxy.tolist() == [[10, 20, 40, 60]]
    assert data.boxes.shapes.counts(0).decode() == runs["counts"]
    box = {"type": "bbox", "label_id": 0, "group": group, "bbox": [5, 5, 50, 60], "attributes": {}}
    document["items"][0]["annotations"].append(box)
    (tmp_path / "a.json").write_text(json.dumps(document))
    data = odm.read(tmp_path / "a.json", "datumaro")
    assert len(data) == n
    assert [5, 5, 55, 65] in data.boxes.xyxy.tolist()
    for bad in ({"counts": "?", "size": [100, 100]}, {"counts": rle["counts"], "size": [3]}, {}):
        document["items"][0]["annotations"][0]["rle"] = bad
        (tmp_path / "a.json").write_text(json.dumps(document))
        with pytest.raises(odm.DataError):
            odm.read(tmp_path / "a.json", "datumaro")


@of_each([
    ("MOST", 12, lambda: pixel_masks.decode_rows([12], 4, 3), lambda: pixel_masks.decode_rows([13], 13, 1)),
    ("MOST", 12, lambda: pixel_masks.stretch(np.ones((2, 2), bool), 4, 3),
     lambda: pixel_masks.stretch(np.ones((2, 2), bool), 13, 1)),
    ("MOST", 12, lambda: pixel_masks.decode_png(base64.b64decode(pixel_masks.encode_png(np.ones((3, 4), bool)))),
     lambda: pixel_masks.decode_png(base64.b64decode(pixel_masks.encode_png(np.ones((13, 1), bool))))),
    ("MOST", 12, lambda: pixel_masks.unpack_bytes(labelstudio_runs(12), 12),
     lambda: pixel_masks.unpack_bytes(labelstudio_runs(13), 13)),
    ("MOST", 2**28, lambda: pixel_masks.unpack(_zlib(12 * 16 + 2**16), 12, packed=True),
     lambda: pixel_masks.unpack(_zlib(12 * 16 + 2**16 + 1), 12, packed=True)),
    ("MOST_PIXELS", 13, lambda: pixel_masks.encode_in_image(np.ones((2, 2), bool), 0, 0, 4, 3),
     lambda: pixel_masks.encode_in_image(np.ones((2, 2), bool), 0, 0, 13, 1)),
    ("MOST_PIXELS", 13, lambda: pixel_masks.check_mask(masks.encode(np.ones((3, 4)))["counts"], [3, 4], 4, 3),
     lambda: pixel_masks.check_mask(masks.encode(np.ones((1, 13)))["counts"], [1, 13], 13, 1)),
])  # fmt: skip
def test_the_largest_masks_are_unpacked_and_those_of_one_pixel_more_refused(limit, value, largest, larger):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pixel_masks, limit, value)
        largest()
        with pytest.raises(pixel_masks.BadMask):
            larger()


def labelstudio_runs(n):
    """One run of `n` bytes that are 0, as Label Studio packs it."""
    return np.frombuffer(
        int(f"{n:032b}{7:05b}{'1111' * 4}1{0:02b}{n - 1:016b}{0:08b}", 2).to_bytes(10), np.uint8
    )


@pytest.mark.parametrize(
    ("outlines", "options", "is_suggested"),
    [
        (2, {}, True),
        (1, {}, False),
        (0, {}, False),
        (2, {"task": "segment"}, False),
        (2, {"task": "detect"}, False),
    ],
)
def test_yolo_suggests_the_task_that_keeps_all_outlines(outlines, options, is_suggested, tmp_path):
    outline = [[10, 10, 30, 10, 30, 30, 10, 30]]
    rows = [
        {"id": i, "image_id": 1, "category_id": 1, "iscrowd": 0, "area": 400, "bbox": [10, 10, 20, 20 + i]}
        | ({"segmentation": outline} if i < outlines else {})
        for i in range(2)
    ]
    images = [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 100}]
    content = {"images": images, "categories": [{"id": 1, "name": "cat"}], "annotations": rows}
    (tmp_path / "a.json").write_text(json.dumps(content))
    log = Log()
    odm.convert(tmp_path / "a.json", tmp_path / "out", to="yolo", to_options=options, log=log)
    assert any("task='segment' writes them" in note for note in log.notes) is is_suggested


ELLIPSES = {
    "via": ("a.json", {"a.jpg1": {"filename": "a.jpg", "size": 1, "file_attributes": {}, "regions": [{
        "shape_attributes": {"name": "ellipse", "cx": 50, "cy": 30, "rx": 10, "ry": 5},
        "region_attributes": {"class": "x"}}]}}),
    "labelme": ("a.json", {"version": "5", "flags": {}, "imagePath": "a.jpg", "imageData": None,
        "imageHeight": 90, "imageWidth": 100, "shapes": [{"label": "x", "points": [[50, 30], [53, 34]],
        "group_id": None, "shape_type": "circle", "flags": {}}]}),
    "cvat": ("a.xml", """<annotations><image id="0" name="a.jpg" width="100" height="90">
        <ellipse label="x" cx="50" cy="30" rx="10" ry="5"/></image></annotations>"""),
}  # fmt: skip
"""An ellipse around (50, 30), of the half axes 10 and 5, or a circle of the radius 5."""


@pytest.mark.parametrize("name", ELLIPSES)
def test_the_outline_of_an_ellipse_fills_its_box(name, tmp_path):
    file, content = ELLIPSES[name]
    (tmp_path / file).write_text(content if isinstance(content, str) else json.dumps(content))
    boxes = odm.read(tmp_path / file, name, shapes=True).boxes
    half_width = 5 if name == "labelme" else 10
    assert boxes.xyxy.tolist() == [[50 - half_width, 25, 50 + half_width, 35]]
    outline = boxes.shapes.xy
    assert np.concatenate([outline.min(axis=0), outline.max(axis=0)]) == pytest.approx(boxes.xyxy[0])
    middle = (outline - [50, 30]) / [half_width, 5]
    assert np.hypot(*middle.T) == pytest.approx(1)
