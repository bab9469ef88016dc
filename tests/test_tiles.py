"""Tiles and back: cutting pictures and labels, against loops over boxes and pixels, shapely and pycocotools."""

import importlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from shapely.geometry import Polygon, box

import odm
from odm import masks as masks_of
from odm.cli._app import run
from odm.converters.tiles import Tiling
from odm.issues import Log, UsageError
from odm.tables import Dataset, Flag

STREET = Path(__file__).parents[1] / "fixtures" / "street"


def grid(length, size, overlap):
    """The first pixels of tiles along a side, as SAHI's `get_slice_bboxes` finds them."""
    starts, low, high = [], 0, 0
    while high < length:
        high = low + size
        starts.append(low if high <= length else max(0, length - size))
        low = high - int(overlap * size)
    return starts


@pytest.mark.parametrize("overlap", [0, 0.1, 0.2, 0.5, 0.99])
def test_tiles_lie_where_sahi_puts_them(overlap):
    for length in (1, 63, 64, 65, 127, 128, 129, 500, 1000):
        for size in (64, 100, 640):
            assert Tiling(size, size, overlap).find_starts(length, size).tolist() == grid(
                length, size, overlap
            )


def tiled(source, tmp_path, tile="100x80", overlap=0.2, **options):
    target = tmp_path / "tiles.json"
    ledger = odm.convert(source, target, to="coco", tile=tile, overlap=overlap, overwrite=True, **options)
    assert ledger.balances
    return odm.read(target, shapes=True), ledger


def places(dataset):
    """The corner of each tile by its name."""
    found = [name.rpartition("_of_")[0].rsplit("_", 2)[1:] for name in dataset.images.name]
    return [(int(x[1:]), int(y[1:])) for x, y in found]


def scene(seed, n=60, **more):
    rng = np.random.default_rng(seed)
    corner = np.round(rng.random((n, 2)) * [260, 170], 1)
    size = np.round(rng.random((n, 2)) * 60 + 1, 1)
    return Dataset.from_arrays(
        images=["a.jpg", "b/c.png"], width=[300, 90], height=[200, 70], categories=["x", "y"],
        image=np.repeat([0, 1], [n - 10, 10]), category=rng.integers(0, 2, n),
        ltwh=np.c_[np.where(np.arange(n)[:, None] < n - 10, corner, corner / 4), size / [[1, 1]]], **more,
    )  # fmt: skip


@pytest.mark.parametrize("least", [0, 0.1, 0.5, 1])
def test_boxes_against_a_loop(tmp_path, least):
    source = scene(1)
    expected = []
    for row in range(len(source)):
        image = source.boxes.image[row]
        width, height = source.images.width[image], source.images.height[image]
        left, top, right, bottom = source.boxes.xyxy[row]
        for y in grid(height, 80, 0.2):
            for x in grid(width, 100, 0.2):
                edges = [
                    max(left - x, 0),
                    max(top - y, 0),
                    min(right - x, 100, width),
                    min(bottom - y, 80, height),
                ]
                area = max(edges[2] - edges[0], 0) * max(edges[3] - edges[1], 0)
                if area > 0 and area / ((right - left) * (bottom - top)) >= least - 1e-12:
                    stem, _, suffix = source.images.name[image].rpartition(".")
                    name = f"{stem}_x{x}_y{y}_of_{width}x{height}.{suffix}"
                    expected.append((name, source.boxes.category[row], *np.round(edges, 6)))
    tiles, _ = tiled(source, tmp_path, tile_min=least)
    boxes = tiles.boxes
    rows = zip(boxes.image.tolist(), boxes.category.tolist(), boxes.xyxy.tolist(), strict=True)
    found = [(tiles.images.name[i], k, *np.round(edges, 6)) for i, k, edges in rows]
    assert sorted(found) == sorted(expected)
    assert (
        len(tiles.images) == 4 * 3 + 1
    )  # with those that are empty; the second image is smaller than a tile
    assert (tiles.images.width.min(), tiles.images.height.min()) == (90, 70)


def coco_file(path, annotations, width=300, height=200):
    data = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": width, "height": height}],
        "categories": [{"id": 1, "name": "x", "keypoints": ["p", "q"], "skeleton": []}],
        "annotations": [{"id": i + 1, "image_id": 1, "category_id": 1, "iscrowd": 0, **a} for i, a in enumerate(annotations)],
    }  # fmt: skip
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_polygons_against_shapely(tmp_path):
    rng = np.random.default_rng(3)
    annotations = []
    for _ in range(20):
        angle = np.sort(rng.random(9)) * 2 * np.pi
        ring = rng.random(2) * [180, 100] + 50 + np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(10, 45)
        shape = Polygon(ring)
        x0, y0, x1, y1 = shape.bounds
        annotations.append(
            {
                "segmentation": [ring.reshape(-1).tolist()],
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": shape.area,
            }
        )
    tiles, _ = tiled(coco_file(tmp_path / "gt.json", annotations), tmp_path)
    expected = []
    for a in annotations:
        shape = Polygon(np.reshape(a["segmentation"][0], (-1, 2)))
        for x, y in dict.fromkeys(places(tiles)):
            part = shape.intersection(box(x, y, x + 100, y + 80))
            if part.area >= 0.1 * shape.area:
                expected.append((x, y, round(part.area, 3)))
    shapes, corner = tiles.boxes.shapes, places(tiles)
    found = [
        (*corner[i], round(sum(Polygon(ring).area for ring in shapes.polygons(row)), 3))
        for row, i in enumerate(tiles.boxes.image.tolist())
    ]
    np.testing.assert_allclose(sorted(found), sorted(expected), atol=2e-3)


def test_masks_are_cut_by_pixels(tmp_path):
    rng = np.random.default_rng(4)
    masks, annotations = [], []
    for _ in range(12):
        mask = np.zeros((200, 300), np.uint8)
        x, y = rng.integers(0, 220), rng.integers(0, 140)
        mask[y : y + 60, x : x + 80] = rng.random((60, 80)) < 0.7
        code = coco_mask.encode(np.asfortranarray(mask))
        masks.append(mask)
        annotations.append({"segmentation": {"size": [200, 300], "counts": code["counts"].decode()},
                            "bbox": coco_mask.toBbox(code).tolist(), "area": int(mask.sum())})  # fmt: skip
    tiles, _ = tiled(coco_file(tmp_path / "gt.json", annotations), tmp_path)
    corner, found, expected = places(tiles), [], []
    for row, i in enumerate(tiles.boxes.image.tolist()):
        size = [int(tiles.images.height[i]), int(tiles.images.width[i])]
        code = {"size": size, "counts": tiles.boxes.shapes.counts(row)}
        found.append((*corner[i], masks_of.decode(code).astype(np.uint8).tobytes("F")))
    for mask in masks:
        for x, y in dict.fromkeys(corner):
            part = mask[y : y + 80, x : x + 100]
            if part.sum() >= 0.1 * mask.sum():
                expected.append((x, y, part.tobytes("F")))
    assert sorted(found) == sorted(expected)


def test_keypoints_outside_their_tile_are_not_labelled(tmp_path):
    points = [20, 30, 2, 95, 40, 1]
    path = coco_file(
        tmp_path / "gt.json", [{"bbox": [10, 10, 90, 50], "keypoints": points, "num_keypoints": 2}]
    )
    tiles, ledger = tiled(path, tmp_path, tile="60x200", overlap=0)
    assert [tiles.boxes.keypoints.points(row).tolist() for row in range(2)] == [
        [[20, 30, 2], [0, 0, 0]], [[0, 0, 0], [35, 40, 1]],
    ]  # fmt: skip
    assert ledger.changed["keypoints outside the tile of their box, not labelled"] == 2


def test_oriented_boxes_by_the_share_of_their_area(tmp_path):
    corners = np.array([[50, 0], [100, 50], [50, 100], [0, 50]], float)
    source = Dataset.from_arrays(images=["a.jpg"], width=[200], height=[100], categories=["x"], image=[0],
                                 category=[0], xyxy=[[0, 0, 100, 100]], oriented=[corners])  # fmt: skip
    for x, kept in ((50, 2), (20, 1)):  # half of it lies left of 50, 0.08 left of 20
        ledger = odm.convert(
            source, tmp_path / f"dota{x}", to="dota", tile=f"{x}x100", overlap=0, dry_run=True
        )
        shares = [
            Polygon(corners).intersection(box(k * x, 0, k * x + x, 100)).area / 5000 for k in range(200 // x)
        ]
        assert ledger.written == sum(share >= 0.1 for share in shares), kept


def test_crowds_and_regions_stay_however_small(tmp_path):
    source = scene(5, 20, flags=np.where(np.arange(20) < 15, int(Flag.CROWD), 0))
    tiles, _ = tiled(source, tmp_path, tile_min=1)
    assert tiles.boxes.has(Flag.CROWD).sum() > 15


@pytest.mark.parametrize("target", ["yolo", "voc"])
def test_pictures_are_cut_with_their_labels(tmp_path, target):
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (130, 210, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    source = Dataset.from_arrays(images=["a.png"], width=[210], height=[130], categories=["x"], image=[0],
                                 category=[0], ltwh=[[90, 40, 60, 60]])  # fmt: skip
    odm.write(source, tmp_path / "gt.json", "coco")
    out = tmp_path / "tiles"
    command = [
        "convert",
        tmp_path / "gt.json",
        out,
        "--to",
        target,
        "--tile",
        "100",
        "--overlap",
        "0.5",
        "--images",
        folder,
    ]
    assert run([*map(str, command)]) == 0
    back = odm.read(out, images=str(out / ("images" if target == "yolo" else "JPEGImages")))
    assert len(back.images) == 4 * 2
    for name, (x, y), path in zip(back.images.name, places(back), back.images.path, strict=True):
        with Image.open(path) as picture:
            np.testing.assert_array_equal(np.asarray(picture), pixels[y : y + 100, x : x + 100])
        assert (x + 100 <= 210, y + 100 <= 130) == (True, True), name


def test_detections_of_tiles_come_back(tmp_path):
    """Each object is whole in one tile at least; those that are cut, or whole in two tiles, are one again."""
    rng = np.random.default_rng(6)
    grid_points = np.stack(np.meshgrid(np.arange(9), np.arange(6)), axis=2).reshape(-1, 2)
    ltwh = np.c_[grid_points * 33 + rng.random((54, 2)) * 5, rng.random((54, 2)) * 8 + 12]
    whole = Dataset.from_arrays(
        images=["a.jpg"], width=[300], height=[200], categories=["x", "y"], image=np.zeros(54, int),
        category=rng.integers(0, 2, 54), ltwh=ltwh, score=rng.random(54),
    )  # fmt: skip
    odm.convert(whole, tmp_path / "tiles.csv", tile="100x80", overlap=0.3, tile_min=0.3)
    assert run(["convert", str(tmp_path / "tiles.csv"), str(tmp_path / "whole.csv"), "--untile"]) == 0
    back = odm.read(tmp_path / "whole.csv")
    assert back.images.name == ("a.jpg",)
    assert (back.images.width[0], back.images.height[0]) == (300, 200)
    kept = sorted(map(tuple, np.round(back.boxes.xyxy, 6).tolist()))
    assert {round(s, 9) for s in back.boxes.score.tolist()} == {
        round(s, 9) for s in whole.boxes.score.tolist()
    }
    assert len(kept) == 54


def leave_out_slowly(tiles, boxes, categories, scores, same):
    """Which boxes stay, one after the other by falling score; `tiles` are rows, `boxes` corners."""
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        for j in kept:
            low, high = np.maximum(boxes[i][:2], boxes[j][:2]), np.minimum(boxes[i][2:], boxes[j][2:])
            shared = np.prod(np.maximum(high - low, 0))
            smaller = min(np.prod(box[2:] - box[:2]) for box in (boxes[i], boxes[j]))
            others = tiles[i] != tiles[j] and categories[i] == categories[j]
            if others and shared > 0 and shared >= same * smaller:
                break
        else:
            kept.append(i)
    return sorted(kept)


@pytest.mark.parametrize("at_a_time", [3, 2**20])
@pytest.mark.parametrize("seed", range(4))
def test_duplicates_are_those_of_a_slow_reference(tmp_path, monkeypatch, seed, at_a_time):
    monkeypatch.setattr(importlib.import_module("odm.converters.tiles"), "_PAIRS_AT_A_TIME", at_a_time)
    rng, n = np.random.default_rng(seed), 150
    names = [f"{image}_x{x}_y0_of_300x100.jpg" for image in "ab" for x in (0, 80, 160)]
    tiles, categories = rng.integers(0, 6, n), rng.integers(0, 2, n)
    ltwh = np.c_[rng.integers(0, 60, (n, 2)), rng.integers(5, 40, (n, 2))].astype(float)
    ltwh[:3, 2] = 300  # as wide as the whole image
    scores = rng.permutation(n) / n
    data = Dataset.from_arrays(
        images=names, width=[140] * 6, height=[100] * 6, categories=["x", "y"], image=tiles,
        category=categories, ltwh=ltwh, score=scores,
    )  # fmt: skip
    odm.convert(data, tmp_path / "whole.csv", untile=0.5)
    left = np.array([0, 80, 160])[tiles % 3] + 1000 * (tiles // 3)  # images far from each other
    boxes = np.c_[ltwh[:, 0] + left, ltwh[:, 1], ltwh[:, 0] + left + ltwh[:, 2], ltwh[:, 1] + ltwh[:, 3]]
    kept = leave_out_slowly(tiles, boxes, categories, scores, 0.5)
    assert sorted(odm.read(tmp_path / "whole.csv").boxes.score) == sorted(scores[kept])
    assert 10 < len(kept) < n


def test_the_summary_counts_the_boxes_of_the_source_and_those_of_further_tiles(tmp_path):
    annotations = [{"bbox": [90, 10, 20, 20]}, {"bbox": [10, 10, 20, 20]}]
    data = Dataset.from_arrays(
        images=["a.jpg"], width=[200], height=[100], categories=["x"], image=[0, 0], category=[0, 0],
        ltwh=[one["bbox"] for one in annotations],
    )  # fmt: skip
    ledger = odm.convert(data, tmp_path / "tiles.csv", tile="100x100", overlap=0)
    assert (ledger.read, ledger.pieces, ledger.written) == (2, 1, 3)
    assert ledger.balances
    assert "1  added: boxes that stand in further tiles, too" in str(ledger)


def test_fields_of_whole_images_are_booked_as_lost(tmp_path):
    path = coco_file(tmp_path / "gt.json", [{"bbox": [10, 10, 20, 20]}])
    data = json.loads(path.read_text())
    data["images"][0]["weather"] = "rain"
    path.write_text(json.dumps(data))
    ledger = odm.convert(path, tmp_path / "tiles.json", to="coco", tile="200x200")
    assert ledger.lost == {"weather of whole images": 1}


@pytest.mark.parametrize(("target", "options", "reason"), [
    ("tiles.json", {"to": "coco"}, "tiles.json is one file; for both name a folder, with images DIR"),
    ("tiles", {"to": "yolo"}, "images DIR says where they are"),
    ("tiles", {"to": "voc"}, "images DIR says where they are"),
    ("tiles", {"to": "yolo", "images": True}, ""), ("tiles", {"to": "coco", "images": True}, ""),
    ("tiles", {"to": "tfrecord"}, "images DIR says where they are"),
    ("tiles", {"to": "tfrecord", "images": True}, ""), ("tiles", {"to": "tfrecord", "pictures": False}, ""),
])  # fmt: skip
def test_a_note_says_that_image_files_are_not_cut(tmp_path, target, options, reason):
    if options.pop("images", False):
        options["images"] = STREET / "images"
    odm.convert(STREET / "truth.json", tmp_path / target, tile="480x400", log=(log := Log()), **options)
    notes = [note for note in log.notes if "image files are not" in note]
    assert len(notes) == bool(reason)
    assert reason in "".join(notes)


def test_all_damaged_image_files_are_named_at_once(tmp_path):
    images = tmp_path / "images"
    shutil.copytree(STREET / "images", images)
    for name in ("market.jpg", "night.jpg"):
        (images / name).write_bytes((images / name).read_bytes()[:3000])
    (images / "park.jpg").write_text("no picture")
    with pytest.raises(odm.PathError, match="3 image files cannot be cut into tiles") as caught:
        odm.convert(STREET / "truth.json", tmp_path / "out", to="yolo", tile="320x200", images=images)
    assert all(name in str(caught.value) for name in ("market.jpg", "night.jpg", "park.jpg"))
    assert "winter.jpg" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_chain_of_duplicates_is_decided_by_rank(tmp_path):
    """The first suppresses the second, which cannot suppress the third; boxes of one tile stay."""
    name = "a_x{}_y0_of_300x100.jpg"
    tiles = Dataset.from_arrays(
        images=[name.format(0), name.format(80), name.format(160)], width=[100] * 3, height=[100] * 3,
        categories=["x", "y"], image=[0, 1, 2, 0, 1], category=[0, 0, 0, 0, 1],
        ltwh=[[70, 10, 20, 20], [0, 10, 20, 20], [-70, 10, 20, 20], [72, 10, 20, 20], [0, 10, 20, 20]],
        score=[0.9, 0.8, 0.7, 0.6, 0.5],
    )  # fmt: skip
    ledger = odm.convert(tiles, tmp_path / "whole.csv", untile=0.5)
    assert odm.read(tmp_path / "whole.csv").boxes.score.tolist() == [0.9, 0.7, 0.6, 0.5]
    assert sum(ledger.left_out.values()) == 1


def test_results_on_tiles_and_on_whole_images_have_ids_of_different_ground_truth(tmp_path):
    street = Path(__file__).resolve().parents[1] / "fixtures" / "street"
    truth, detections = street / "truth.json", street / "detections.json"
    tiles, on_tiles = tmp_path / "tiles.json", tmp_path / "on_tiles.json"
    odm.convert(truth, tiles, tile="320x200")
    with pytest.raises(UsageError, match="their ids from gt, which has none of the tiles; write txt or yolo"):
        odm.convert(detections, on_tiles, gt=truth, tile="320x200")
    odm.convert(detections, tmp_path / "txt", to="txt", gt=truth, tile="320x200")
    odm.convert(tmp_path / "txt", on_tiles, gt=tiles)
    with pytest.raises(UsageError, match="which has none of the whole images; write txt or yolo"):
        odm.convert(on_tiles, tmp_path / "whole.json", gt=tiles, untile=0.5)
    odm.convert(on_tiles, tmp_path / "whole", to="txt", gt=tiles, untile=0.5)
    odm.convert(tmp_path / "whole", tmp_path / "whole.json", gt=truth)
    assert odm.eval(truth, tmp_path / "whole.json", "coco").summary["AP50"] > 0.4


def test_masks_and_polygons_come_back_where_they_were(tmp_path):
    mask = np.zeros((200, 300), np.uint8)
    mask[20:60, 30:90] = 1
    mask[35:40, 40:50] = 0
    code = coco_mask.encode(np.asfortranarray(mask))
    ring = [110, 110, 150, 115, 140, 150]
    path = coco_file(tmp_path / "gt.json", [
        {"segmentation": {"size": [200, 300], "counts": code["counts"].decode()}, "bbox": [30, 20, 60, 40], "area": int(mask.sum())},
        {"segmentation": [ring], "bbox": [110, 110, 40, 40], "area": 700},
    ])  # fmt: skip
    tiles, _ = tiled(path, tmp_path, tile="160x160", overlap=0.5)
    odm.convert(tiles, tmp_path / "back.json", to="coco", untile=0.5)
    back = odm.read(tmp_path / "back.json", shapes=True)
    assert len(back) == 2
    row = int(np.flatnonzero(back.boxes.shapes.kind == 2)[0])
    np.testing.assert_array_equal(
        masks_of.decode({"size": [200, 300], "counts": back.boxes.shapes.counts(row)}), mask
    )
    np.testing.assert_allclose(back.boxes.shapes.polygons(1 - row)[0].reshape(-1), ring)


def test_sizes_of_tiles_are_text_or_numbers(tmp_path):
    ledgers = [odm.convert(STREET / "truth.json", tmp_path / "x.json", to="coco", tile=tile, dry_run=True)
               for tile in ("320x200", (320, 200), [320, 200])]  # fmt: skip
    assert len({str(ledger.to_dict()) for ledger in ledgers}) == 1


def test_tiles_of_one_image_stay_in_one_part(tmp_path):
    odm.convert(STREET / "truth.json", tmp_path / "parts", to="coco", tile=200, split_into="train:50,val:50")
    parts = [odm.read(path).images.name for path in sorted((tmp_path / "parts").rglob("*.json"))]
    sources = [{name.partition("_x")[0] for name in names} for names in parts]
    assert len(sources) == 2
    assert not sources[0] & sources[1]


@pytest.mark.parametrize(("options", "message"), [
    ({"tile": "0x5"}, "tile 0x5: expected WxH in pixels, as in 640x640"), ({"tile": "big"}, "tile big: expected"),
    ({"tile": 64, "overlap": 1}, "overlap 1: expected a share from 0 to below 1"),
    ({"tile": 64, "tile_min": 2}, "tile_min 2: expected a share"), ({"tile": 64, "untile": 0.5}, "not both"),
    ({"untile": 0.0}, "untile 0.0: expected a share above 0"),
    ({"untile": 0.5}, "untile: 12 images of other names than those of tiles"),
    ({"tile": 64, "link_images": True, "images": "photos", "to": "yolo"}, "cannot be linked"),
])  # fmt: skip
def test_what_cannot_be_done_is_said(tmp_path, options, message):
    with pytest.raises(odm.UsageError, match=message):
        odm.convert(STREET / "truth.json", tmp_path / "out", **{"to": "coco", **options})
    assert not (tmp_path / "out").exists()


def test_images_of_unknown_size_are_named(tmp_path):
    source = Dataset.from_arrays(
        images=["a.jpg"], categories=["x"], image=[0], category=[0], ltwh=[[0, 0, 9, 9]]
    )
    with pytest.raises(odm.DataError, match=r"tile: the size of 1 image is not known: 'a.jpg'; "):
        odm.convert(source, tmp_path / "out.csv", tile=64)
    assert not math.isnan(source.boxes.xyxy.sum())


@pytest.mark.parametrize("options", [{"overlap": 0.5}, {"tile_min": 0.5}])
def test_options_of_tiles_need_a_size(options, tmp_path):
    truth = Dataset.from_arrays(images=["a"], categories=["b"], image=[0], category=[0], xyxy=[[0, 0, 9, 9]])
    with pytest.raises(UsageError, match=f"{next(iter(options))} needs tile, such as 640x640"):
        odm.convert(truth, tmp_path / "out.json", **options)
