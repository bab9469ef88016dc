"""Datasets to and from other libraries: the real ones where they are installed, else objects of their shape.

Torchvision has no package without CUDA and FiftyOne brings a database, so these two are objects of the same
shape here; torchvision's are dictionaries in any case.
"""

import contextlib
import dataclasses
import json
import sys
import types

import numpy as np
import pytest
from fixture_cases import FIXTURES
from selection import SLOW, slow

import odm
from odm import masks
from odm.converters import bridges
from odm.converters.pending import as_json
from odm.evaluate import evaluate
from odm.issues import Log, OdmError
from odm.tables import Dataset, Flag
from odm.tables.shapes import ShapeKind


def example(kind="gt", *, sizes=True):
    """Three images, the second without boxes; the rows are not in the order of the images."""
    return Dataset.from_arrays(
        images=["a.jpg", "b.jpg", "c.jpg"],
        categories=["cat", "dog", "unused"],
        image=[2, 0, 0, 2],
        category=[1, 0, 1, 1],
        xyxy=[[1, 2, 11, 22], [0, 0, 5, 5], [3, 3, 9, 7.5], [10, 10, 20, 30]],
        score=[0.25, 0.5, 1, 0.125] if kind == "det" else None,
        flags=None if kind == "det" else [0, Flag.CROWD, 0, 0],
        width=[100, 100, 50] if sizes else None,
        height=[80, 80, 40] if sizes else None,
        image_ids=[7, 8, 9],
    )


def by_image(dataset):
    """What is the same whatever the order of the rows: a row per box by image, in order."""
    boxes = dataset.boxes
    order = np.argsort(boxes.image, kind="stable")
    names = [dataset.images.name[i].rpartition("/")[2] for i in boxes.image[order].tolist()]
    classes = [dataset.categories.name[c] for c in boxes.category[order].tolist()]
    scores = np.nan_to_num(boxes.score[order], nan=-1).tolist()
    crowd = boxes.has(Flag.CROWD)[order].tolist()
    return list(zip(names, classes, boxes.xyxy[order].round(4).tolist(), scores, crowd, strict=True))


kinds = pytest.mark.parametrize("kind", ["gt", "det"])


# -------------------------------------------------------------------------------------------- columns


def tables():
    def of(module, make):
        return pytest.param(lambda columns: make(pytest.importorskip(module), columns), id=module)

    return [
        pytest.param(lambda columns: columns, id="dict"),
        of("pandas", lambda pandas, columns: pandas.DataFrame(columns)),
        of("polars", lambda polars, columns: polars.DataFrame(columns)),
        of("pyarrow", lambda pyarrow, columns: pyarrow.table(columns)),
    ]


@kinds
@pytest.mark.parametrize("make", tables())
def test_columns_there_and_back(make, kind):
    dataset = example(kind)
    table = make(bridges.to_columns(dataset))
    back = bridges.from_columns(table, images=dataset.images.name, classes=dataset.categories.name)
    assert back.kind == kind
    assert by_image(back) == by_image(dataset)
    assert (back.images.name, back.categories.name) == (dataset.images.name, dataset.categories.name)
    assert bridges.from_columns(table).images.name == ("c.jpg", "a.jpg"), "in the order of their rows"


def test_columns_keep_areas_and_marks():
    dataset = Dataset.from_arrays(
        images=["a"], categories=["x"], image=[0, 0], category=[0, 0], xyxy=[[0, 0, 1, 1]] * 2,
        area=[0.5, np.nan], flags=[Flag.DIFFICULT, 0],
    )  # fmt: skip
    columns = bridges.to_columns(dataset)
    assert list(columns)[6:] == ["area", "difficult"]
    back = bridges.from_columns(columns)
    assert back.boxes.flags.tolist() == [Flag.DIFFICULT, 0]
    np.testing.assert_array_equal(back.boxes.area, [0.5, np.nan])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": None}, "there is no column 'left'"),
        ({"left": [1.0]}, "the columns have different lengths: 1, 4"),
        ({"left": ["x"] * 4}, "left: expected numbers"),
        ({"class": ["cat", "dog", "emu", "cat"]}, "class 'emu' is not one of the 2 names"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, message):
    columns = {k: v for k, v in (bridges.to_columns(example()) | change).items() if v is not None}
    with pytest.raises(ValueError, match=message):
        bridges.from_columns(columns, classes=["cat", "dog"])


# ------------------------------------------------------------------------------------------------ COCO


def test_coco_there_and_back():
    truth, found = example(), example("det")
    data = bridges.to_coco(truth)
    assert [image["id"] for image in data["images"]] == [7, 8, 9]
    assert data["annotations"][1] == {
        "id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 1,
    }  # fmt: skip
    assert by_image(bridges.from_coco(data)) == by_image(truth)
    results = bridges.to_coco(found)["annotations"]
    assert by_image(bridges.from_coco(data, results)) == by_image(found)
    assert bridges.from_coco(data, []).kind == "det"
    assert by_image(bridges.from_coco(bridges.to_coco(found))) == by_image(found)


def test_regions_to_ignore_are_crowds_in_coco():
    flags = [Flag.REGION, Flag.REGION | Flag.CROWD, Flag.CROWD, Flag.DIFFICULT]
    truth = Dataset.from_arrays(
        images=["a.jpg"], width=[99], height=[99], categories=["x"], image=[0] * 4, category=[0] * 4,
        xyxy=[[0, 0, 9, 9]] * 4, flags=[int(flag) for flag in flags],
    )  # fmt: skip
    assert [one["iscrowd"] for one in bridges.to_coco(truth)["annotations"]] == [1, 1, 1, 0]


def test_coco_dictionaries_are_those_of_pycocotools():
    coco = pytest.importorskip("pycocotools.coco").COCO()
    coco.dataset = bridges.to_coco(example())
    coco.createIndex()
    results = coco.loadRes(bridges.to_coco(example("det"))["annotations"])
    assert by_image(bridges.from_coco(coco.dataset)) == by_image(example())
    found = bridges.from_coco(coco.dataset, results.dataset["annotations"])
    assert evaluate(example(), found, "coco").summary == evaluate(example(), example("det"), "coco").summary


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"category_id": 1, "bbox": [0, 0, 1, 1]}, "#/annotations/0: .* no key 'image_id'"),
        ({"image_id": 70, "category_id": 1, "bbox": [0, 0, 1, 1]}, "#/annotations/0/image_id: .*70"),
        ({"image_id": 7, "category_id": 1, "bbox": None}, "#/annotations/0/bbox: .*null"),
        ({"image_id": 7, "category_id": 1}, "classes of whole images"),
    ],
)
def test_coco_records_that_do_not_fit_are_refused(record, message):
    with pytest.raises(ValueError, match=message):
        bridges.from_coco({**bridges.to_coco(example()), "annotations": [record]})


def coco_files():
    """Every fixture that a program could hold as a dictionary or a list of results of COCO, and its ``gt``."""
    files = {p: None for p in sorted(FIXTURES.rglob("*.json")) if p.name != "case.json"}
    for folder in sorted({p.parent for p in files}):
        case = json.loads(text.read_text("utf-8")) if (text := folder / "case.json").exists() else {}
        for file in (p for p in files if p.parent == folder and isinstance(case.get("gt"), str)):
            files[file] = folder / case["gt"]
    return files.items()


def without_repetition(pairs):
    """An object of JSON as a dictionary. Raises ValueError where that loses a key."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


@pytest.mark.parametrize("target", ["out.json", pytest.param("out.csv", marks=slow)])
def test_a_dictionary_is_read_as_the_file_is(target, tmp_path):
    """Issues with their places, what is written, and what is lost."""
    n = 0
    for file, truth in [*coco_files()][:: 1 if SLOW else 3]:
        try:
            data = json.loads(file.read_text("utf-8"), object_pairs_hook=without_repetition)
        except (ValueError, RecursionError):
            continue
        if as_json(data) is data:
            continue
        results = []
        for number, source in enumerate((str(file), data)):
            log, ledger = Log(), None
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}-{number}"
            with contextlib.suppress(OdmError):
                gt = json.loads(truth.read_text("utf-8")) if number and str(truth)[-5:] == ".json" else truth
                ledger = odm.convert(source, folder / target, gt=gt, log=log)
            issues = [(i.code, i.severity, i.pointer, i.field) for i in log.issues]
            losses = ledger and (ledger.left_out, ledger.lost, ledger.changed, ledger.written)
            text = (folder / target).read_text("utf-8") if ledger else "null"
            results.append((issues, losses, json.loads(text) if target == "out.json" else text))
        assert results[0] == results[1], file
        n += 1
    assert n > (40 if SLOW else 12)


def test_values_of_libraries_become_those_of_json():
    """Arrays, numbers of NumPy, and the bytes in which pycocotools has runs."""
    run = masks.encode(np.eye(9))
    data = {
        "images": ({"id": np.int64(1), "file_name": "a.jpg", "width": np.int32(9), "height": 9},),
        "categories": [types.MappingProxyType({"id": 1, "name": "cat"})],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": np.array([1, 2, 3, 4], np.float32),
             "segmentation": {**run, "counts": run["counts"].encode()}}
        ],
    }  # fmt: skip
    boxes = bridges.from_coco(data).boxes
    assert boxes.xyxy.tolist() == [[1, 2, 4, 6]]
    assert boxes.shapes.kind.tolist() == [ShapeKind.MASK]
    with pytest.raises(odm.UsageError, match="<dictionary> cannot be written as JSON"):
        odm.read({**data, ("a", 1): 2})


def test_shapes_in_memory_are_compared_and_evaluated():
    data = json.loads((FIXTURES / "street" / "truth.json").read_text("utf-8"))
    found = json.loads((FIXTURES / "street" / "detections.json").read_text("utf-8"))
    other = json.loads(json.dumps(data))
    other["annotations"][0]["segmentation"][0][0] += 5
    assert not odm.diff(data, other).equal
    assert odm.diff(data, json.loads(json.dumps(data))).equal
    for iou_type in ("bbox", "segm", "keypoints"):
        by_path = odm.eval(str(FIXTURES / "street/truth.json"), str(FIXTURES / "street/detections.json"),
                           protocol="coco", iou_type=iou_type, skip_bad=True)  # fmt: skip
        in_memory = odm.eval(data, found, protocol="coco", iou_type=iou_type, skip_bad=True)
        assert in_memory.summary == by_path.summary
        assert in_memory.summary["AP"] > 0.3
    runs = odm.compare(data, {"a": found, "b": found}, protocol="coco", replicates=10)
    assert [run.name for run in runs.runs] == ["a", "b"]


# ------------------------------------------------------------------------------------------ torchvision


class Tensor:
    """As much of a tensor as is needed."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    cpu = detach

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __iter__(self):
        return iter(self.values)


@kinds
@pytest.mark.parametrize("real", [False, True])
def test_torchvision_there_and_back(kind, real, monkeypatch):
    if real:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    else:
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(as_tensor=Tensor))
    dataset = example(kind)
    targets = bridges.to_torchvision(dataset)
    assert [t["image_id"] for t in targets] == [7, 8, 9]
    assert np.asarray(targets[1]["boxes"]).shape == (0, 4)
    back = bridges.from_torchvision(targets, dataset.categories.name, kind=kind)
    assert back.images.name == ("7", "8", "9")
    named = bridges.from_torchvision(targets, dataset.categories.name, image_ids=dataset.images.name)
    assert by_image(named) == by_image(dataset)
    assert evaluate(example(), back, "coco").join.images_both == 3 if kind == "det" else True


def test_torchvision_labels_without_a_name_are_refused():
    target = {"boxes": [[0, 0, 1, 1]], "labels": [3], "image_id": 5}
    with pytest.raises(ValueError, match="image 5: label 3 is not one of the 2 names"):
        bridges.from_torchvision([target], ["a", "b"])
    with pytest.raises(ValueError, match="image 5: there is no labels"):
        bridges.from_torchvision([{"boxes": [], "image_id": 5}], ["a"])
    with pytest.raises(ValueError, match="image 5: boxes, labels and scores differ in length"):
        bridges.from_torchvision([{**target, "labels": []}], ["a"])


# ------------------------------------------------------------------------------------------ supervision


@dataclasses.dataclass
class Detections:
    """The fields of `supervision.Detections`."""

    xyxy: np.ndarray
    mask: object = None
    confidence: object = None
    class_id: object = None
    tracker_id: object = None
    data: dict = dataclasses.field(default_factory=dict)


@kinds
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.filterwarnings("ignore:OpenCV")
def test_supervision_there_and_back(kind, real, monkeypatch):
    if real:
        pytest.importorskip("supervision", reason="supervision is not installed")
    else:
        monkeypatch.setitem(sys.modules, "supervision", types.SimpleNamespace(Detections=Detections))
    dataset = example(kind)
    found = bridges.to_supervision(dataset)
    assert [len(d.xyxy) for d in found.values()] == [2, 0, 2]
    assert by_image(bridges.from_supervision(found, dataset.categories.name)) == [
        (*row[:4], False) for row in by_image(dataset)
    ]
    by_name = bridges.from_supervision(found, kind=kind)
    assert by_name.categories.name == ("cat", "dog")
    whole = types.SimpleNamespace(annotations=found, classes=list(dataset.categories.name))
    assert bridges.from_supervision(whole).categories.name == dataset.categories.name


def test_supervision_counts_what_it_does_not_keep():
    found = {
        "a.jpg": Detections(np.array([[0, 0, 1, 1.0]]), class_id=np.array([0]), tracker_id=np.array([4]))
    }
    assert bridges.from_supervision(found, ["x"]).extras == {"tracks": 1}
    with pytest.raises(ValueError, match=r"image a\.jpg: class_id has no names"):
        bridges.from_supervision(found)
    found["b.jpg"] = dataclasses.replace(found["a.jpg"], confidence=np.array([0.5]))
    with pytest.raises(ValueError, match=r"image a\.jpg: a box has no score, but others have one"):
        bridges.from_supervision(found, ["x"])


# --------------------------------------------------------------------------------------------- FiftyOne


class Sample(dict):
    def __init__(self, filepath):
        self.filepath, self.metadata = filepath, None


class Detection(types.SimpleNamespace):
    confidence = None


@kinds
def test_fiftyone_there_and_back(kind, monkeypatch):
    module = types.SimpleNamespace(Sample=Sample, Detections=types.SimpleNamespace, Detection=Detection)
    monkeypatch.setitem(sys.modules, "fiftyone", module)
    dataset = example(kind)
    samples = bridges.to_fiftyone(dataset, "boxes")
    with pytest.raises(ValueError, match=r"a\.jpg: the size of the image is unknown: call compute_metadata"):
        bridges.from_fiftyone(samples, "boxes")
    for sample, width, height in zip(samples, dataset.images.width, dataset.images.height, strict=True):
        sample.metadata = types.SimpleNamespace(width=int(width), height=int(height))
    samples[1]["boxes"] = None
    assert by_image(bridges.from_fiftyone(samples, "boxes", kind=kind)) == by_image(dataset)
    with pytest.raises(ValueError, match=r"image a\.jpg: its size is unknown"):
        bridges.to_fiftyone(example(kind, sizes=False))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(ValueError, match="this needs fiftyone: pip install fiftyone"):
        bridges.to_fiftyone(example())


@pytest.mark.parametrize(("side", "words"), [("gt", "ground truth"), ("det", "detections")])
def test_faults_of_columns_name_their_side_and_row(side, words):
    truth = {"image": ["a"] * 2, "class": ["x"] * 2, **{edge: [1.0, 2] for edge in ("left", "top")}}
    truth |= {"right": [5.0, 5], "bottom": [5.0, 5]}
    sides = {"gt": truth, "det": {**truth, "score": [0.5, 0.6]}}
    bad = {**sides, side: {**sides[side], "top": [1.0, np.nan]}}
    with pytest.raises(odm.DataError, match=rf"<{words}>#/1: error coordinates-not-finite") as caught:
        odm.eval(bad["gt"], bad["det"], "coco")
    assert str(caught.value).count("coordinates-not-finite") == 1
    bad = {**sides, side: {name: column for name, column in sides[side].items() if name != "class"}}
    with pytest.raises(odm.UsageError, match=f"^eval: {words}: there is no column 'class'"):
        odm.eval(bad["gt"], bad["det"], "coco")
