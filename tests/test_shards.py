"""Detections read a part at a time give the JSON of one process, byte for byte, on any executor."""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from selection import examples

from odm import write
from odm.converters.load import Request, load, load_pair
from odm.converters.pending import PendingSource
from odm.evaluate import evaluate
from odm.evaluate.parts.cluster import Inline, run_tasks
from odm.files import Scratch
from odm.formats.coco import long_lists
from odm.issues import DataError, Log, PathError, UsageError
from odm.sharding import divide_detections, evaluate_shards, parse_memory
from odm.tables import Dataset, Flag

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
import pyarrow.parquet as pq  # noqa: E402 -- only where it is there

PROTOCOLS = [
    *("coco", "voc2012", "voc2007", "openimages", "openimages-challenge", "tf-voc", "imagenet-det", "lvis"),
    *("ultralytics", "yolov5"),
]
HIERARCHY = {
    "LabelName": "Entity",
    "Subcategory": [{"LabelName": "c0", "Subcategory": [{"LabelName": "c1"}, {"LabelName": "c2"}]}],
}


def sides(rng, *, n_images=40, n_classes=4, n_gt=150, n_det=900, extra=0):
    """Ground truth with flags, areas and labels, and detections of it with equal scores; image by image or not."""
    names, classes = [f"i{k:03d}.jpg" for k in range(n_images)], [f"c{k}" for k in range(n_classes)]
    image, category = rng.integers(0, n_images - 2, n_gt), rng.integers(0, n_classes, n_gt)
    boxes = np.c_[rng.uniform(0, 300, (n_gt, 2)), rng.uniform(4, 150, (n_gt, 2))]
    truth = Dataset.from_arrays(
        images=names,
        categories=classes,
        image=image,
        category=category,
        ltwh=boxes,
        flags=(rng.random(n_gt) < 0.15) * rng.choice([1, 2, 16, 128], n_gt),
        area=np.where(rng.random(n_gt) < 0.5, np.nan, boxes[:, 2] * boxes[:, 3] * 0.7),
        width=[640] * n_images,
        height=[480] * n_images,
        image_ids=rng.permutation(n_images).tolist(),
        category_ids=list(range(1, n_classes + 1)),
        frequency=["r", "c", "f", "f", "r"][:n_classes],
        labels=[(int(i), int(c), 0) for i in range(n_images) for c in range(n_classes) if rng.random() < 0.2],
    )
    of = rng.integers(0, n_gt, n_det)
    found = boxes[of] + rng.normal(0, 6, (n_det, 4))
    found[:, 2:] = np.abs(found[:, 2:])
    own = np.where(rng.random(n_det) < 0.85, image[of], rng.integers(0, n_images + extra, n_det))
    kind = np.where(rng.random(n_det) < 0.85, category[of], rng.integers(0, n_classes + 1, n_det))
    order = np.argsort(own, kind="stable") if rng.random() < 0.5 else np.arange(n_det)
    detections = Dataset.from_arrays(
        images=[*names, *(f"extra{k}.jpg" for k in range(extra))],
        categories=[*classes, "c-new"],
        image=own[order],
        category=kind[order],
        ltwh=found[order],
        score=np.round(rng.random(n_det), 2),
    )
    return truth, detections


def save_parquet(detections, folder, cuts, rows=10**6):
    """The detections in files that begin at `cuts`, with so many rows in a row group."""
    os.makedirs(folder, exist_ok=True)
    boxes, images, classes = detections.boxes, detections.images.name, detections.categories.name
    for k, own in enumerate(np.split(np.arange(len(boxes)), np.sort(cuts))):
        table = pa.table(
            {
                "image": pa.array([images[i] for i in boxes.image[own]], pa.string()),
                "class": pa.array([classes[i] for i in boxes.category[own]], pa.string()),
                "score": boxes.score[own],
                "left": boxes.xyxy[own, 0],
                "top": boxes.xyxy[own, 1],
                "box_width": boxes.wh[own, 0],
                "box_height": boxes.wh[own, 1],
            }
        )
        pq.write_table(table, f"{folder}/part-{k}.parquet", row_group_size=rows, write_page_checksum=True)
    return str(folder)


def both(truth, folder, protocols, *, rows, executor=None, **options):
    """The JSON of one process, and that of parts."""
    whole = load(Request(path=folder, kind="det"), log := Log()).dataset
    one = evaluate(truth, whole, protocols, log=log, **options).to_dict()
    parts = evaluate_shards(
        truth, folder, protocols, rows_per_task=rows, executor=executor, log=Log(), **options
    ).to_dict()
    return json.dumps(one), json.dumps(parts)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(40, 500), st.integers(60, 1200), st.data())
def test_parts_give_the_json_of_one_process(tmp_path_factory, seed, n_cuts, group, rows, data):
    rng = np.random.default_rng(seed)
    truth, detections = sides(rng)
    folder = tmp_path_factory.mktemp("parts")
    save_parquet(detections, folder, rng.integers(0, len(detections), n_cuts), group)
    chosen = data.draw(st.lists(st.sampled_from(PROTOCOLS), min_size=1, max_size=3, unique=True))
    options = data.draw(
        st.sampled_from(
            [
                {},
                {"score_min": 0.35},
                {"at_score": 0.5},
                {"only_classes": ["c1", "c3"]},
                {"only_images": ["i003", "i010", "i020"], "score_min": 0.9},
                {"only_images": ["i020", "i003", "i020"]},
            ]
        )
    )
    one, parts = both(truth, str(folder), chosen, rows=rows, **options)
    assert parts == one


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.integers(20, 400), st.sampled_from([0, 1, 2, 9]), st.data())
def test_a_class_that_is_cut_by_score_has_the_same_curves(tmp_path_factory, seed, rows, digits, data):
    truth, found = sides(np.random.default_rng(seed), n_classes=1)
    boxes = replace(found.boxes, score=np.round(found.boxes.score, digits))
    found = replace(found, boxes=boxes)
    folder = save_parquet(found, tmp_path_factory.mktemp("cut"), [250, 600], 200)
    protocols = data.draw(st.lists(st.sampled_from(PROTOCOLS), min_size=1, max_size=2, unique=True))
    options = {"at_score": data.draw(st.sampled_from([None, 0.5, 0.55])), "score_min": data.draw(
        st.sampled_from([None, 0.3]))}  # fmt: skip
    one = evaluate(truth, load(Request(path=folder, kind="det"), Log()).dataset, protocols, **options)
    parts = evaluate_shards(truth, folder, protocols, rows_per_task=rows, **options)
    for own, other in zip(one.results, parts.results, strict=True):
        assert json.dumps(other.to_dict()) == json.dumps(own.to_dict())
        assert other.curves.keys() == own.curves.keys()
        for name, curve in own.curves.items():
            for key in ("recall", "precision", "score"):
                np.testing.assert_array_equal(getattr(other.curves[name], key), getattr(curve, key))


@pytest.mark.parametrize("area", ["0:900", {"low": (0, 900), "high": (500, 1e10)}])
def test_area_ranges(tmp_path, area):
    truth, detections = sides(np.random.default_rng(5))
    folder = save_parquet(detections, tmp_path / "det", [200, 500], 150)
    one, parts = both(truth, folder, ["coco", "voc2012", "ultralytics", "yolov5"], rows=300, area=area)
    assert parts == one


def test_hierarchy_and_labels_of_images(tmp_path):
    truth, detections = sides(np.random.default_rng(3))
    folder = save_parquet(detections, tmp_path / "det", [200, 500], 150)
    labels = [("i001", "c0", True), ("i002", "c2", False), ("i077", "c1", False), ("i005", "c1", True)]
    for options in ({}, {"only_classes": ["c0"]}):
        one, parts = both(
            truth,
            folder,
            ["openimages", "openimages-challenge"],
            rows=300,
            hierarchy=HIERARCHY,
            image_labels=labels,
            **options,
        )
        assert parts == one


@pytest.mark.parametrize(
    ("protocols", "options"),
    [
        (["coco", "lvis", "voc2012", "tf-voc"], {"area": ["tiny=0:900", "huge=4000:1e9"]}),
        (["coco", "imagenet-det"], {"area": "small"}),
        (["coco"], {"recall_at": [2, 5]}),
        (["coco"], {"recall_at": [7], "area": {"some": (100, 5000)}, "max_dets": 8}),
        (["openimages"], {"area": "0:5000"}),
        (["lvis"], {"max_dets": 9}),
        (["ultralytics", "yolov5"], {"max_dets": 9}),
    ],
)
def test_areas_and_recall_of_parts(tmp_path, protocols, options):
    truth, detections = sides(np.random.default_rng(20))
    folder = save_parquet(detections, tmp_path / "det", [200, 500], 150)
    one, parts = both(truth, folder, protocols, rows=250, **options)
    assert parts == one
    assert all(f"AP@{name}" in one for name in ("tiny", "huge")) or "tiny" not in str(options)


def only_crowds(truth, detections):
    """The sides with no object that counts."""
    flags = np.full_like(truth.boxes.flags, Flag.CROWD)
    return replace(truth, boxes=replace(truth.boxes, flags=flags)), detections


def on_few_images(truth, detections):
    """The sides with detections on a few of the images with objects."""
    rows = np.flatnonzero(detections.boxes.image < 4)
    return truth, replace(detections, boxes=detections.boxes.take(rows))


def without_objects_of_a_class(truth, detections):
    """The sides with a listed class of which only the detections have boxes."""
    rows = np.flatnonzero(truth.boxes.category != 1)
    return replace(truth, boxes=truth.boxes.take(rows)), detections


@pytest.mark.parametrize(
    ("code", "change", "size"),
    [
        ("class-without-objects", without_objects_of_a_class, {}),
        ("detections-beyond-limit", lambda *both: both, {"n_images": 4, "n_classes": 1}),
        ("all-objects-ignored", only_crowds, {}),
        ("most-images-without-detections", on_few_images, {}),
    ],
)
def test_doubts_of_parts(tmp_path, code, change, size):
    truth, detections = change(*sides(np.random.default_rng(7), **size))
    folder = save_parquet(detections, tmp_path / "det", [len(detections) // 2], 100)
    one, parts = both(truth, folder, ["coco"], rows=200)
    assert parts == one
    assert code in [doubt["code"] for doubt in json.loads(parts)["doubts"]]


def test_images_that_only_the_detections_have(tmp_path):
    truth, detections = sides(np.random.default_rng(4), extra=3)
    folder = save_parquet(detections, tmp_path / "det", [100, 300, 301], 90)
    one, parts = both(truth, folder, ["coco", "voc2012"], rows=200, extra_images="background")
    assert parts == one
    with pytest.raises(DataError, match="cannot be compared"):
        evaluate_shards(truth, folder, rows_per_task=200)
    with pytest.raises(UsageError, match="all detections at once"):
        evaluate_shards(truth, folder, rows_per_task=200, extra_images="ignore")


def test_results_of_coco_in_several_files(tmp_path):
    truth, detections = sides(np.random.default_rng(5))
    truth_file = str(tmp_path / "gt.json")
    write(truth, truth_file, "coco")
    ids = dict(zip(truth.images.name, truth.images.source_id.tolist(), strict=True))
    boxes, records = detections.boxes, []
    for i in range(len(boxes)):
        if boxes.category[i] < 4:
            ltwh = [*boxes.xyxy[i, :2].tolist(), *boxes.wh[i].tolist()]
            name = detections.images.name[boxes.image[i]]
            records.append({"image_id": ids[name], "category_id": int(boxes.category[i]) + 1, "bbox": ltwh})
            records[-1]["score"] = float(boxes.score[i])
    (tmp_path / "det").mkdir()
    for k in range(4):
        (tmp_path / "det" / f"{k}.json").write_text(json.dumps(records[k * 200 : (k + 1) * 200]))
    (tmp_path / "det" / "settings.json").write_text('{"model": "one"}')
    command = [sys.executable, "-m", "odm", "eval", truth_file, str(tmp_path / "det"), "--output", "json"]
    one = subprocess.run(command, capture_output=True, check=True)
    parts = subprocess.run([*command, "--memory", "1GB"], capture_output=True, check=True)
    assert parts.stdout == one.stdout
    assert b'"default-protocol"' in one.stdout
    assert b"read in 4 parts" in parts.stderr
    for done in (one, parts):
        assert done.stderr.count(b"not read: settings.json") == 1, done.stderr


@pytest.mark.parametrize("layout", ["lines", "compact", "spaced", "relative", "odd", "objects"])
def test_results_of_coco_in_one_file(tmp_path, monkeypatch, layout):
    """A list is read in spans of its records; what cannot be cut is read as a whole; all with the same bytes."""
    monkeypatch.setattr(long_lists, "MARGIN", 2**9)
    rng = np.random.default_rng(11)
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 64, "height": 48} for i in range(1, 41)]
    boxes = rng.uniform(1, 20, (600, 4))
    boxes = boxes / [64, 48, 64, 48] if layout == "relative" else np.round(boxes, 2)
    objects = [
        {"id": k + 1, "image_id": k % 40 + 1, "category_id": k % 3 + 1, "bbox": b, "area": 9, "iscrowd": 0}
        for k, b in enumerate(
            (boxes[:120] * [64, 48, 64, 48] if layout == "relative" else boxes[:120]).tolist()
        )
    ]
    classes = [{"id": c, "name": f"}}, {{c{c}"} for c in (1, 2, 3)]
    (tmp_path / "gt.json").write_text(
        json.dumps({"images": images, "annotations": objects, "categories": classes})
    )
    records = [
        {"image_id": k % 40 + 1, "category_id": k % 3 + 1, "bbox": b, "score": round(float(s), 3)}
        for k, (b, s) in enumerate(zip(boxes.tolist(), rng.random(600), strict=True))
    ]
    separators = {"compact": (",", ":"), "spaced": (" ,\n ", " : ")}.get(layout)
    text = json.dumps(records, indent=1 if layout == "lines" else None, separators=separators)
    if layout == "odd":
        text = text.replace('"score": ', f'"text": "{"}, {" * 200}", "score": ')
    if layout == "objects":
        text = json.dumps({"images": images, "annotations": records, "categories": classes})
    (tmp_path / "det.json").write_text(f" {text}\n" if layout == "objects" else f"{text}\n")
    truth = load(Request(path=str(tmp_path / "gt.json"), kind="gt"), Log()).dataset
    request = Request(path=str(tmp_path / "det.json"), kind="det")
    _, det = load_pair(Request(path=str(tmp_path / "gt.json"), kind="gt"), request, log := Log())
    one = evaluate(truth, det.dataset, ["coco", "voc2012"], log=log).to_dict()
    for rows in (60, 300):
        parts, _ = divide_detections(PendingSource(request, Log()), Log(), rows)
        # What looks like the end of a record inside a text does not parse, so the file is not cut there.
        assert (len(parts) > 2) == (layout not in ("odd", "objects")), len(parts)
        shards = evaluate_shards(truth, request, ["coco", "voc2012"], rows_per_task=rows, log=Log())
        assert json.dumps(shards.to_dict()["results"]) == json.dumps(one["results"])


def test_a_fault_in_a_span_of_results_has_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(long_lists, "MARGIN", 2**9)
    truth = {
        "images": [{"id": 1, "file_name": "a"}],
        "categories": [{"id": 1, "name": "c"}],
        "annotations": [],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    records = [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 2 + k, 2], "score": 0.5} for k in range(400)]
    records[317]["score"] = "high"
    (tmp_path / "det.json").write_text(json.dumps(records))
    log = Log()
    with pytest.raises(DataError):
        evaluate_shards(str(tmp_path / "gt.json"), str(tmp_path / "det.json"), rows_per_task=50, log=log)
    assert [i.pointer for i in log if i.severity == "error"] == ["/317/score"]


def eval_json(folder, *options):
    """What `odm eval gt.json det --output json` writes in a folder, and its messages."""
    command = [sys.executable, "-m", "odm", "eval", "gt.json", "det", "--output", "json", *options]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, encoding="utf-8")
    return done.stdout, done.stderr


def videos(folder, records):
    """Ground truth of two videos in `folder`, and for each a file of what `records` makes of its images."""
    images = [
        {"id": 10 * v + f, "file_name": f"v{v}/{f}.jpg", "width": 640, "height": 480, "video_id": v, "frame_id": f}
        for v in (1, 2)
        for f in range(3)
    ]  # fmt: skip
    boxes = [
        {"id": i + 1, "image_id": one["id"], "category_id": 1, "bbox": [64 + i, 48, 128, 96], "area": 9, "iscrowd": 0}
        for i, one in enumerate(images)
    ]  # fmt: skip
    truth = {"videos": [{"id": v, "name": f"v{v}"} for v in (1, 2)], "images": images, "annotations": boxes}
    (folder / "gt.json").write_text(json.dumps({**truth, "categories": [{"id": 1, "name": "cat"}]}))
    (folder / "det").mkdir()
    for v in (1, 2):
        own = [one for one in images if one["video_id"] == v]
        (folder / "det" / f"{v}.json").write_text(json.dumps(records(v, own)))


@pytest.mark.parametrize("how", ["empty", "a link to nothing"])
def test_a_file_of_coco_results_that_cannot_be_read_is_no_missing_part(tmp_path, how):
    truth, _ = sides(np.random.default_rng(5))
    write(truth, str(tmp_path / "gt.json"), "coco")
    folder = tmp_path / "det"
    folder.mkdir()
    record = {
        "image_id": int(truth.images.source_id[0]),
        "category_id": 1,
        "bbox": [1, 1, 2, 2],
        "score": 0.5,
    }
    (folder / "0.json").write_text(json.dumps([record]))
    if how == "empty":
        (folder / "1.json").touch()
    else:
        (folder / "1.json").symlink_to("nowhere")
    with pytest.raises((DataError, PathError)):
        evaluate_shards(str(tmp_path / "gt.json"), str(folder), "coco")
    log = Log()
    with pytest.raises(DataError):
        load(Request(path=str(folder)), log)
    assert "1.json" in {os.path.basename(issue.path) for issue in log if issue.severity == "error"}


def test_tracks_in_several_files_are_boxes_of_frames(tmp_path):
    videos(
        tmp_path,
        lambda v, _: [
            {"video_id": v, "category_id": 1, "id": v, "track": [
                {"frame": f, "bbox": [66 + f, 48, 120, 96], "confidence": 0.5 + f / 10 + v / 50} for f in range(3)
            ]}
        ],
    )  # fmt: skip
    one, parts = (eval_json(tmp_path, "--protocol", "coco", *more) for more in ((), ("--memory", "1GB")))
    assert json.loads(one[0])["results"][0]["summary"]["AP50"] > 0
    assert parts[0] == one[0]


def test_relative_boxes_in_several_files_are_no_zeros(tmp_path):
    videos(
        tmp_path,
        lambda _, own: [
            {"image_id": one["id"], "category_id": 1, "bbox": [0.1, 0.1, 0.2, 0.2], "score": 0.9} for one in own
        ],
    )  # fmt: skip
    one = eval_json(tmp_path, "--protocol", "coco")
    assert "relative to the image's size" in one[1]
    assert "error coordinates-differ" in eval_json(tmp_path, "--memory", "1GB")[1]
    given = ("--protocol", "coco", "--det-format", "coco", "-O", "det.units=normalized")
    assert eval_json(tmp_path, *given, "--memory", "1GB")[0] == eval_json(tmp_path, *given)[0] != ""


def test_any_executor(tmp_path):
    truth, detections = sides(np.random.default_rng(6))
    folder = save_parquet(detections, tmp_path / "det", [250, 600], 100)
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        one, parts = both(truth, folder, ["coco", "voc2012"], rows=150, executor=executor)
    assert parts == one


def test_no_detections(tmp_path):
    truth, detections = sides(np.random.default_rng(7))
    folder = save_parquet(detections.take(np.zeros(0, np.int64)), tmp_path / "det", [])
    one, parts = both(truth, folder, ["coco", "voc2012"], rows=150)
    assert parts == one


# ------------------------------------------------------------------------------------------- what goes wrong


def test_all_bad_parts_are_named(tmp_path):
    truth, detections = sides(np.random.default_rng(8))
    folder = save_parquet(detections, tmp_path / "det", [250, 600])
    for name in ("part-0.parquet", "part-2.parquet"):
        path = tmp_path / "det" / name
        path.write_bytes(path.read_bytes()[:-20])
    log = Log()
    with pytest.raises(DataError, match="2 of 3 parts"):
        evaluate_shards(truth, folder, log=log)
    assert [os.path.basename(issue.path) for issue in log if issue.severity == "error"] == [
        *("part-0.parquet", "part-2.parquet")
    ]


def test_scratch_is_left_as_it_was(tmp_path):
    truth, detections = sides(np.random.default_rng(9))
    folder = save_parquet(detections, tmp_path / "det", [250])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "mine").write_text("kept")
    evaluate_shards(truth, folder, scratch=str(scratch))
    (tmp_path / "det" / "part-1.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError):
        evaluate_shards(truth, folder, scratch=str(scratch))
    assert os.listdir(scratch) == ["mine"]


def test_only_the_folder_that_was_made_is_removed(tmp_path):
    """Whatever another user puts into its place stays, and is neither read nor written."""
    store = Scratch.below(str(tmp_path / "scratch"))
    ends = store.write("a", [b"one", b"two"])
    assert (store.read("a", *ends[:2]), store.read("a", *ends[1:])) == (b"one", b"two")
    whole = Path(store.path, "a").read_bytes()
    for i in range(ends[1]):
        Path(store.path, "a").write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(PathError, match="a is truncated or damaged"):
            store.read("a", *ends[:2])
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/precious").write_text("kept")
    os.rename(store.path, tmp_path / "aside")
    os.symlink(tmp_path / "theirs", store.path)
    for call in (lambda: store.write("b", [b"x"]), lambda: store.read("precious")):
        with pytest.raises(PathError):
            call()
    store.remove()
    assert os.listdir(tmp_path / "theirs") == ["precious"]
    assert os.listdir(tmp_path / "aside") == []


def test_a_scratch_that_others_may_replace_is_refused(tmp_path):
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o777)
    with pytest.raises(PathError, match="other users may replace what is in this folder"):
        Scratch.below(str(shared))
    shared.chmod(0o1777)
    Scratch.below(str(shared)).remove()
    shared.chmod(0o777)
    Scratch.below(str(shared / "new")).remove()
    assert not list((shared / "new").iterdir())


def test_two_jobs_in_one_scratch(tmp_path):
    jobs = []
    for seed in (10, 11):
        truth, detections = sides(np.random.default_rng(seed))
        jobs.append((truth, save_parquet(detections, tmp_path / f"det{seed}", [250, 400], 200)))
    scratch = str(tmp_path / "scratch")

    def work(job):
        return evaluate_shards(*job, rows_per_task=150, scratch=scratch).to_dict()

    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        together = list(executor.map(work, jobs))
    assert together == list(map(work, jobs))


class Failing(Inline):
    """Does something before the n-th task."""

    def __init__(self, n, do):
        self.n, self.do, self.count = n, do, 0

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        if self.count == self.n:
            self.do()
        return super().submit(fn, *args, **kwargs)


def test_a_scratch_that_vanishes_is_named(tmp_path):
    truth, detections = sides(np.random.default_rng(12))
    folder = save_parquet(detections, tmp_path / "det", [250])
    scratch = tmp_path / "scratch"

    def vanish():
        for path in scratch.iterdir():
            shutil.rmtree(path)

    for n in (3, 5):
        with pytest.raises(PathError, match="not a folder that all workers share"):
            evaluate_shards(truth, folder, scratch=str(scratch), executor=Failing(n, vanish))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_scratch_is_named(tmp_path, monkeypatch):
    truth, detections = sides(np.random.default_rng(13))
    folder = save_parquet(detections, tmp_path / "det", [250])
    real = os.open

    def full(path, flags, *rest, **more):
        return real("/dev/full" if "matches-" in str(path) else path, flags & ~(os.O_EXCL | os.O_CREAT), *rest) \
            if "matches-" in str(path) and flags & os.O_WRONLY else real(path, flags, *rest, **more)  # fmt: skip

    monkeypatch.setattr("odm.files.scratch.os.open", full)
    with pytest.raises(PathError, match="No space left on device"):
        evaluate_shards(truth, folder, scratch=str(tmp_path / "scratch"))
    assert os.listdir(tmp_path / "scratch") == []


def test_a_damaged_intermediate_file_is_no_number(tmp_path):
    truth, detections = sides(np.random.default_rng(14))
    folder = save_parquet(detections, tmp_path / "det", [250])
    scratch = tmp_path / "scratch"

    def damage():
        (path,) = scratch.glob("*/matches-0")
        data = bytearray(path.read_bytes())
        data[len(data) // 4] ^= 1
        path.write_bytes(data)

    with pytest.raises(PathError, match="matches-0 is truncated or damaged"):
        evaluate_shards(truth, folder, scratch=str(scratch), executor=Failing(5, damage))


def test_other_versions_are_refused(tmp_path, monkeypatch):
    truth, detections = sides(np.random.default_rng(15))
    folder = save_parquet(detections, tmp_path / "det", [250])
    monkeypatch.setattr("odm.evaluate.parts.cluster.get_versions", lambda: ("0.0.1", "1.0", "3.11.0"))
    with pytest.raises(UsageError, match=re.escape("this process odm 0.0.1, NumPy 1.0, Python 3.11.0")):
        evaluate_shards(truth, folder)


def test_what_a_task_raises_ends_the_job():
    def work(n):
        if n == 3:
            raise PathError("three")
        return n

    with pytest.raises(PathError, match="three"):
        list(run_tasks(concurrent.futures.ThreadPoolExecutor(2), work, [(n,) for n in range(1000)]))


def test_memory_is_parsed():
    assert [parse_memory(t) for t in ("2GB", "500MB", "1.5 GiB", "1g")] == [
        *(2_000_000_000, 500_000_000, 3 * 2**29, 1_000_000_000)
    ]
    for text in ("2", "GB", "-1GB", "2XB", ""):
        with pytest.raises(ValueError, match="2GB"):
            parse_memory(text)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--cluster", "tcp://localhost:1"], "--cluster needs --scratch"),
        (["--scratch", "s"], "--scratch is used with --memory or --cluster only"),
        (["--memory", "lots"], "--memory lots: give a number with a unit"),
        (["--memory", "10MB"], "is too little: give at least 276 MB; 270 MB of that is for Python"),
        (
            ["--memory", "1GB", "--rows-per-task", "9999999"],
            "--rows-per-task 9999999: --memory 1.0 GB has room for",
        ),
        (["--memory", "1GB", "--save", "out"], "--save needs all detections at once"),
        (["--memory", "1GB", "--protocol", "tf-weighted"], "tf-weighted ranks or counts the detections"),
        (["--memory", "1GB", "--protocol", "corloc"], "corloc ranks or counts the detections"),
        (
            ["--memory", "1GB", "--protocol", "stt"],
            "stt measures tracks, whose boxes may lie in several parts",
        ),
        (["--memory", "1GB", "--confusion", "counts"], "--confusion needs all detections at once"),
        (["--cluster", "localhost:1", "--scratch", "s"], "give the address of a Dask scheduler"),
    ],
)
def test_refusals(tmp_path, options, says):
    truth, detections = sides(np.random.default_rng(16))
    write(truth, str(tmp_path / "gt.json"), "coco")
    save_parquet(detections, tmp_path / "det", [250])
    done = subprocess.run(
        [sys.executable, "-m", "odm", "eval", "gt.json", "det", *options],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["det", "gt.json"]


def test_few_rows_per_task_are_no_lack_of_memory(tmp_path):
    """Row groups of more are read as wholes: --memory decides whether they fit."""
    truth, detections = sides(np.random.default_rng(16))
    save_parquet(detections, tmp_path / "det", [250])
    given = {"memory": 10**9, "rows_per_task": 10}
    found = evaluate_shards(truth, str(tmp_path / "det"), "coco", **given).summary
    assert found == evaluate(truth, detections, "coco").summary


@pytest.mark.parametrize(
    ("protocols", "options", "says"),
    [
        *((p, {}, f"{p} .* evaluate it in one process") for p in ("stt", "tube", "tf-weighted", "corloc")),
        (["coco", "imagenet-loc"], {}, "imagenet-loc .* evaluate it in one process"),
        ("coco", {"class_agnostic": True}, "class_agnostic needs all detections at once"),
    ],
)
def test_what_needs_all_detections_is_refused_before_anything_is_read(protocols, options, says):
    with pytest.raises(UsageError, match=says):
        evaluate_shards("not-there.json", "nor-there", protocols, **options)


def test_formats_that_cannot_be_read_in_parts_are_refused(tmp_path):
    truth, detections = sides(np.random.default_rng(17))
    write(detections, str(tmp_path / "det.csv"), "csv")
    with pytest.raises(UsageError, match="is csv, which cannot be read a part at a time"):
        evaluate_shards(truth, str(tmp_path / "det.csv"))
