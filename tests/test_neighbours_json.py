"""The JSON formats of other tools: files as those tools write them, their quirks, and damaged ones."""

import contextlib
import copy
import json
import random
import re
import shutil
from pathlib import Path

import numpy as np
import one_format
import pytest
from corpus_base import lay
from selection import SLOW, examples

import odm
from odm import checks
from odm.converters import load
from odm.converters.load import Request
from odm.files import Source
from odm.formats import FORMATS
from odm.issues import DataError, Log
from odm.tables import Flag

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = ["bdd100k", "createml", "fiftyone", "labelme", "labelstudio", "lvis", "supervisely", "via"]


def read(path, name, kind=None, **options):
    data, log = one_format.read(path, name, kind, **options)
    checks.run(data, log)
    return data, log


def rows(data):
    b = data.boxes
    return [
        (
            data.images.name[b.image[i]],
            data.categories.name[b.category[i]],
            [round(v, 6) for v in b.xyxy[i].tolist()],
            Flag(int(b.flags[i])),
            None if np.isnan(b.score[i]) else float(b.score[i]),
        )
        for i in range(len(b))
    ]


def put(folder, files):
    lay(folder, {k: v if isinstance(v, str) else json.dumps(v) for k, v in files.items()})


def labelme(*shapes, **rest):
    return {
        "version": "5.4.1", "flags": {}, "shapes": list(shapes), "imagePath": "a.jpg", "imageData": "/9j/4AAQ" * 9,
        "imageHeight": 100, "imageWidth": 200, **rest,
    }  # fmt: skip


def task(*results, **rest):
    return {
        "id": 7, "annotations": [{"id": 1, "completed_by": 1, "result": list(results), "was_cancelled": False}],
        "file_upload": "0a1b2c3d-a.jpg", "drafts": [], "predictions": [],
        "data": {"image": "/data/upload/3/0a1b2c3d-a%20b.jpg"}, "meta": {}, "inner_id": 1, **rest,
    }  # fmt: skip


def result(kind="rectanglelabels", size=(200, 100), **value):
    found = {
        "id": "x1",
        "type": kind,
        "from_name": "label",
        "to_name": "image",
        "origin": "manual",
        "value": value,
    }
    return found | (
        {"original_width": size[0], "original_height": size[1], "image_rotation": 0} if size else {}
    )


NONE = Flag(0)
RECT = {"name": "rect", "x": 10, "y": 20, "width": 30, "height": 40}
BOX = [10, 20, 40, 60]


def test_what_is_not_read_is_counted():
    def extras(case):
        folder = FIXTURES / "tools" / case
        name = case.split("-")[0]
        return read(next(folder.glob("input*")), name)[0].extras

    assert extras("labelme-circle") == {"point shapes": 1, "segmentation": 1}
    assert extras("lvis-1.0") == {
        "segmentation": 1, "synset": 1, "def": 1, "not_exhaustive_category_ids of unlisted classes": 2,
    }  # fmt: skip
    found = extras("labelstudio-1-shapes")
    assert (found["brushlabels"], found["rotation"], found["segmentation"]) == (1, 1, 1)
    assert "image_rotation" not in found  # of no degrees
    assert extras("bdd100k-scalabel")["poly2d"] == 1
    assert extras("supervisely-old") == {"segmentation": 1, "tags of images": 1}


def test_every_file_of_a_folder_is_read(tmp_path):
    record = {"annotations": [{"label": "x", "coordinates": {"x": 25, "y": 40, "width": 30, "height": 40}}]}
    put(tmp_path, {f"{i:03}.json": [record | {"image": f"{i}.jpg"}] for i in range(120)})
    put(tmp_path, {"060-notes.json": {"of": "another tool"}})
    data, log = read(tmp_path, "createml")
    assert len(data) == len(data.images) == 120
    assert not log.counts
    assert [note for note in log.notes if "not read" in note] == [f"{tmp_path}: not read: 060-notes.json"]


def with_classification(name, records):
    """The records of a file of an annotation tool, whose first image has a class beside its boxes."""
    record, answer = records[0], [{"name": "weather", "radio_answer": {"name": "rain"}}]
    if name == "labelbox-1":
        record["Label"]["classifications"] = answer
    elif name == "labelbox-export":
        labels = next(p["labels"] for p in record["projects"].values() if p["labels"])
        labels[0]["annotations"]["classifications"] = answer
    elif name == "encord-export":
        next(iter(record["data_units"].values()))["labels"]["classifications"] = answer
    else:
        record["labels"][0]["jsonResponse"]["WEATHER"] = {"categories": [{"name": "RAIN"}]}
    return records


@pytest.mark.parametrize("name", ["labelbox-1", "labelbox-export", "encord-export", "kili-raw"])
def test_classes_of_images_beside_boxes_are_counted(name, tmp_path):
    (path,) = (FIXTURES / "tools" / name).glob("input.*")
    lines = path.read_text().splitlines() if path.suffix == ".ndjson" else [path.read_text()]
    records = [json.loads(line) for line in lines]
    records = records if path.suffix == ".ndjson" else records[0]
    rows_before, counts = None, []
    for changed in (False, True):
        records = with_classification(name, records) if changed else records
        text = "\n".join(map(json.dumps, records)) if path.suffix == ".ndjson" else json.dumps(records)
        (tmp_path / path.name).write_text(text)
        size = {"image_size": "640x480"} if name == "kili-raw" else {}
        dataset = odm.read(tmp_path / path.name, **size)
        rows_before = rows_before or rows(dataset)
        assert rows(dataset) == rows_before
        counts.append(dataset.extras.get("classifications of images", 0))
    assert counts[1] == counts[0] + 1


def test_annotations_before_predictions(tmp_path):
    value = {"x": 5, "y": 20, "width": 15, "height": 40, "rectanglelabels": ["x"]}
    two = task(result(**value), predictions=[{"result": [result(**value) | {"score": 0.5}]}])
    put(tmp_path, {"a.json": [two]})
    data, log = read(tmp_path / "a.json", "labelstudio")
    assert data.kind == "gt"
    assert any("reading the annotations" in note for note in log.notes)
    data, _ = read(tmp_path / "a.json", "labelstudio", "det")
    assert rows(data) == [("a b.jpg", "x", BOX, NONE, 0.5)]


def test_the_class_attribute_of_via(tmp_path):
    region = {"shape_attributes": RECT, "region_attributes": {"colour": "red", "label": "x", "occluded": "1"}}
    put(
        tmp_path,
        {"a.json": {"a.jpg1": {"filename": "a.jpg", "size": 1, "regions": [region], "file_attributes": {}}}},
    )
    data, log = read(tmp_path / "a.json", "via")
    assert rows(data) == [("a.jpg", "x", BOX, Flag.OCCLUDED, None)]
    assert any("'label'" in note for note in log.notes)
    data, _ = read(tmp_path / "a.json", "via", attribute="colour")
    assert rows(data)[0][1] == "red"


@pytest.mark.parametrize("given", ["", "file"])
@pytest.mark.parametrize("file", ["labels.json", "results.json", "labels/results.json"])
def test_pictures_of_fiftyone_lie_in_data(tmp_path, file, given):
    (tmp_path / "data").mkdir()
    shutil.copy(FIXTURES / "bad/yolo/duplicate-image/input/a.jpg", tmp_path / "data")
    boxes = [{"label": "x", "bounding_box": [0.1, 0.2, 0.3, 0.4]}]
    put(tmp_path, {file: {"classes": ["x"], "labels": {"a": boxes}}})
    data, log = read(tmp_path / (file if given else ""), "fiftyone")
    assert (data.images.name, len(data), dict(log.counts)) == (("a.jpg",), 1, {})


def test_via_writes_the_annotations_alone(tmp_path):
    source = FIXTURES / "mixed" / "via" / "input.json"
    data, _ = read(source, "via")
    odm.convert(source, tmp_path / "a.json", to="via", to_options={"layout": "annotations"}, strict=True)
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(content) == [f"{name}-1" for name in data.images.name]
    assert rows(read(tmp_path / "a.json", "via")[0]) == rows(data)


def test_lvis_reads_columns_and_records_alike(tmp_path, monkeypatch):
    import odm.formats._shared.json.columns as under
    from odm.formats.coco import reader

    text = (FIXTURES / "mixed" / "lvis" / "input.json").read_text(encoding="utf-8")
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    fast, _ = read(tmp_path / "a.json", "lvis")

    class Slow(under.Document):
        def __init__(self, *args, **more):
            super().__init__(*args, **{**more, "fast": False})

    monkeypatch.setattr(reader, "Document", Slow)
    slow, log = read(tmp_path / "a.json", "lvis")
    assert not log.counts
    assert rows(fast) == rows(slow)
    for column in ("wh", "area", "source_id", "line"):
        np.testing.assert_array_equal(getattr(fast.boxes, column), getattr(slow.boxes, column))
    for column in ("image", "category", "verdict"):
        np.testing.assert_array_equal(getattr(fast.labels, column), getattr(slow.labels, column))
    assert len(fast.labels)
    assert fast.categories.frequency == slow.categories.frequency
    assert fast.images.name == slow.images.name
    assert fast.extras == slow.extras


@pytest.mark.parametrize("slow", [False, True])
def test_lvis_ignored_objects_are_difficult(tmp_path, slow):
    """Whether the annotations are read as columns or, for a value of another kind, one by one."""
    marks = [{}, {"ignore": 0}, {"ignore": None}, {"ignore": 1}] + [{"ignore": True}] * slow
    document = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 90, "height": 90, "neg_category_ids": []}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": 1, "bbox": [i, 2, 3, 4], "area": 12, **mark}
            for i, mark in enumerate(marks, 1)
        ],
        "categories": [{"id": 1, "name": "x", "frequency": "r"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    dataset, log = read(tmp_path / "a.json", "lvis")
    assert not log.issues
    assert not dataset.extras
    assert dataset.boxes.has(Flag.DIFFICULT).tolist() == [False, False, False, True, True][: len(marks)]
    odm.write(dataset, tmp_path / "b.json", "lvis")
    again, _ = read(tmp_path / "b.json", "lvis")
    assert again.boxes.flags.tolist() == dataset.boxes.flags.tolist()
    document["annotations"][0]["ignore"] = 2
    (tmp_path / "a.json").write_text(json.dumps(document))
    _, log = read(tmp_path / "a.json", "lvis")
    assert [(issue.code, issue.pointer) for issue in log.issues] == [("bad-flag", "/annotations/0/ignore")]


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 123456.789, 1e-7, 77.7, 2**31 + 0.5])
@pytest.mark.parametrize("name", ["createml", "via", "labelme", "bdd100k", "supervisely", "lvis"])
def test_numbers_are_not_shifted_or_rounded(name, value, tmp_path):
    dataset = odm.tables.Dataset.from_arrays(
        images=["a.jpg"], width=[640], height=[480], categories=["x"], image=[0, 0], category=[0, 0],
        xyxy=[[value, 1, value + 10, 5], [0, value, 7, value * 3]],
    )  # fmt: skip
    path = tmp_path / ("a.json" if FORMATS[name].single else "a")
    odm.write(dataset, path, name)
    back = odm.read(path, name).boxes.xyxy
    if name == "createml":  # a centre is a sum, and the last bit of an edge may be beyond it
        np.testing.assert_allclose(back, dataset.boxes.xyxy, rtol=0, atol=4 * np.spacing(value + 10))
    else:
        np.testing.assert_array_equal(back, dataset.boxes.xyxy)


# ------------------------------------------------------------------------------------------- damaged files

ODD = [
    None, True, False, 0, -1, 2**70, 1e308, "", "x", "../x", "\ud800", "a\nb", [], {}, [[]], [None], [1, 2], {"x": 1},
    {"x": {"y": [1]}}, [{}], "9" * 400, [[1, 2], [3, 4]], ["a", "a"],
]  # fmt: skip


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def damaged(value, chance):
    """A copy in which something was replaced, removed or doubled."""
    found = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 2, 5])):
        where = [p for p in places(found) if p]
        if not where:
            return chance.choice(ODD)
        *path, last = chance.choice(where)
        holder = found
        for key in path:
            holder = holder[key]
        how = chance.random()
        if how < 0.7:
            holder[last] = copy.deepcopy(chance.choice(ODD))
        elif isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        else:
            del holder[last]
    return found


def texts(raw, chance):
    """Damaged texts of a JSON file: as values, and as bytes."""
    value = json.loads(raw)
    for _ in range(examples(60)):
        text = json.dumps(damaged(value, chance))
        if chance.random() < 0.3:
            number = chance.choice(["NaN", "-Infinity", "1e999", "9" * 500, "1.0", "-0"])
            at = [i for i, c in enumerate(text) if c.isdigit()] or [0]
            i = chance.choice(at)
            text = text[:i] + number + text[i + 1 :]
        yield text.encode()
    for _ in range(examples(40)):
        data = bytearray(raw)
        for _ in range(chance.choice([1, 2, 8])):
            i = chance.randrange(len(data))
            how = chance.random()
            if how < 0.4:
                data[i] = chance.choice(b'{}[],:"\\0-e\x00\xff\xe9')
            elif how < 0.7:
                del data[i : i + chance.choice([1, 3, 40])]
            else:
                j = chance.randrange(len(data))
                data[i:i] = data[j : j + chance.choice([1, 9, 60])]
            if not data:
                data = bytearray(b" ")
        yield bytes(data)
    yield raw[: len(raw) // 2]
    yield b"[" * 5000
    yield b'{"a":' * 5000
    yield b""


@pytest.mark.parametrize("kind", ["gt", "det", None])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_told_and_never_raise(name, kind, tmp_path):
    chance = random.Random(f"{name} {kind}")
    folder = FIXTURES / "mixed" / (f"{name}-detections" if kind == "det" else name)
    (entry,) = [p for p in folder.iterdir() if p.name.startswith("input")]
    files = sorted(entry.rglob("*.json")) if entry.is_dir() else [entry]
    options = {"image_size": "640x480"} if name == "fiftyone" else {}
    target = tmp_path / "a.json"
    for file in files[-2:]:
        for text in texts(file.read_bytes(), chance):
            target.write_bytes(text)
            for format_ in FORMATS.values():
                if SLOW or ".json" in format_.suffixes:
                    format_.sniff(Source(str(target)))
            data, log = read(target, name, kind, **options)
            assert all(str(issue).isprintable() for issue in log)
            assert not np.isnan(data.boxes.xyxy).any() or log.errors
            try:
                loaded = load(
                    Request(path=str(target), format=name, kind=kind, options=options), Log(), skip_bad=True
                )
            except DataError:
                assert log.errors
            else:
                assert loaded.bad >= data.skipped


@pytest.mark.parametrize("name", NAMES)
def test_all_faults_in_one_run(name, tmp_path):
    """A faulty box that stands there three times is told three times."""
    options = {"image_size": "640x480"} if name == "fiftyone" else {}
    folder = FIXTURES / "bad" / name / ("wrong-box-type-points" if name == "labelme" else "wrong-box-type")
    (entry,) = [p for p in folder.iterdir() if p.name.startswith("input")]
    (source,) = [p for p in entry.rglob("*.json") if p.name != "meta.json"] if entry.is_dir() else [entry]
    value = json.loads(source.read_text(encoding="utf-8"))
    lists = {
        "labelme": "shapes",
        "supervisely": "objects",
        "labelstudio": "result",
        "via": "regions",
        "fiftyone": "street",
    }
    for path in list(places(value)):
        if path and path[-1] == lists.get(name, "labels" if name == "bdd100k" else "annotations"):
            holder = value
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] *= 3
    target = tmp_path / "a.json"
    target.write_text(json.dumps(value), encoding="utf-8")
    _, log = read(target, name, **options)
    assert log.counts["wrong-box-type"] == 3


# ------------------------------------------------------------------------------------- flags as JSON has them

FLAGGED = {
    "azure": "jsonl", "bdd100k": "json", "coco": "json", "crowdhuman": "odgt", "datumaro": "json", "fiftyone": "json",
    "lvis": "json", "mmdet": "json", "paddleocr": "txt",
}  # fmt: skip
"""The formats with flags in JSON, and the suffix of their files."""
FLAG_IN_JSON = re.compile(
    r'("(?:iscrowd|isCrowd|is_crowd|difficult|truncated|occluded|group_of|depiction|ignore|ignore_flag|occ)": )'
    r"(0|1|false|true)\b"
)
UNSET = re.compile(r'("is_?crowd": |"ignore_flag": )0', re.IGNORECASE)
SPELLINGS = {
    "words": {"0": "false", "1": "true"},
    "null": {"0": "null", "false": "null", "1": "true"},
    "numbers": {"false": "0", "true": "1"},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", FLAGGED)
def test_true_false_and_null_are_flags_in_every_json_format(name, spelling, tmp_path):
    location = tmp_path / "input"
    shutil.copytree(FIXTURES / "mixed" / name, location)
    options = {"image_sizes": str(location / "sizes.csv")} if (location / "sizes.csv").exists() else {}
    source = next(path for path in sorted(location.iterdir()) if path.name.startswith("input"))
    words, changed = SPELLINGS[spelling], 0
    files = sorted(location.rglob(f"*.{FLAGGED[name]}"))
    for path in files:  # one that is set, where there is none
        text = UNSET.sub(r"\g<1>1", path.read_text(encoding="utf-8"), count=1)
        path.write_text(text, encoding="utf-8")
    expected, _ = read(source, name, **options)
    assert (expected.boxes.flags != 0).any()
    for path in files:
        text, n = FLAG_IN_JSON.subn(lambda m: m[1] + words.get(m[2], m[2]), path.read_text(encoding="utf-8"))
        changed += n
        path.write_text(text, encoding="utf-8")
    assert changed
    dataset, log = read(source, name, **options)
    assert not log.errors, list(map(str, log))
    assert dataset.boxes.flags.tolist() == expected.boxes.flags.tolist()


@pytest.mark.parametrize(
    ("value", "shown"), [("2", "2"), ("[false]", "[false]"), ('"no"', "'no'"), ("{}", "an object")]
)
def test_a_value_that_is_no_flag_is_shown_as_json_has_it(value, shown, tmp_path):
    text = (FIXTURES / "mixed" / "coco" / "input.json").read_text(encoding="utf-8")
    (tmp_path / "a.json").write_text(text.replace('"iscrowd": 0', f'"iscrowd": {value}', 1), encoding="utf-8")
    _, log = read(tmp_path / "a.json", "coco")
    assert [issue.message for issue in log if issue.code == "bad-flag"] == [
        f"expected 0 or 1, found {shown}; write one of these values"
    ]
    text = (FIXTURES / "mixed" / "mmdet" / "input.json").read_text(encoding="utf-8")
    (tmp_path / "b.json").write_text(
        text.replace('"ignore_flag": 0', f'"ignore_flag": {value}', 1), encoding="utf-8"
    )
    _, log = read(tmp_path / "b.json", "mmdet")
    assert [issue.code for issue in log] == ["bad-flag"]


@pytest.mark.parametrize(("name", "key"), [("datumaro", "label_id"), ("mmdet", "bbox_label")])
def test_numbers_of_classes_may_be_text(name, key, tmp_path):
    location = tmp_path / "input"
    shutil.copytree(FIXTURES / "mixed" / name, location)
    source = next(path for path in sorted(location.iterdir()) if path.name.startswith("input"))
    expected, _ = read(source, name)
    for path in location.rglob("*.json"):
        text = re.sub(rf'("{key}": )(\d+)', r'\1"\2"', path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
    dataset, log = read(source, name)
    assert not log.issues, list(map(str, log))
    assert dataset.boxes.category.tolist() == expected.boxes.category.tolist()
    assert any(f'{key} "0" is read as the number 0' in note for note in log.notes), log.notes


def test_a_short_part_of_several_is_left_out_in_formats_that_have_parts(tmp_path):
    label = {"id": "1", "category": "car"}
    whole, short = [[10, 10], [50, 10], [50, 40]], [[12, 12], [20, 20]]
    parts = [{"vertices": ring, "types": "L" * len(ring), "closed": True} for ring in (whole, short)]
    frame = {"name": "a.jpg", "labels": [{**label, "poly2d": parts}], "size": {"width": 100, "height": 80}}
    outline = {
        "label": "car",
        "closed": True,
        "points": [[[x / 100, y / 80] for x, y in r] for r in (whole, short)],
    }
    sample = {"filepath": "a.jpg", "metadata": {"width": 100, "height": 80}, "p": {"polylines": [outline]}}
    for name, document in (("bdd100k", [frame]), ("fiftyone", {"samples": [sample]})):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        log = Log()
        dataset = odm.read(tmp_path / f"{name}.json", name, shapes=True, log=log)
        assert [issue.code for issue in log] == ["outline-short"], (name, list(map(str, log)))
        assert [ring.round(6).tolist() for ring in dataset.boxes.shapes.polygons(0)] == [whole]


@pytest.mark.parametrize(("outlines", "box", "codes"), [
    ([2], True, ["outline-short"]), ([2], False, ["wrong-count"]), ([3], True, []), ([3], False, []),
    ([3, 2], True, ["outline-short"]), ([3, 2], False, ["outline-short"]),
])  # fmt: skip
def test_a_short_outline_of_bdd100k_beside_a_box_is_left_out(outlines, box, codes, tmp_path):
    """A box stays without its outline; alone, an outline has to make a polygon."""
    ring = [[10, 10], [50, 10], [50, 40]]
    parts = [{"vertices": ring[:n], "types": "L" * n, "closed": True} for n in outlines]
    label = {"id": "1", "category": "car", "poly2d": parts}
    label |= {"box2d": {"x1": 10, "y1": 10, "x2": 50, "y2": 40}} if box else {}
    frame = {"name": "a.jpg", "labels": [label], "size": {"width": 100, "height": 80}}
    (tmp_path / "a.json").write_text(json.dumps([frame]))
    log, rows = Log(), []
    with contextlib.suppress(DataError):
        rows = odm.read(tmp_path / "a.json", "bdd100k", shapes=True, log=log).boxes.xyxy.tolist()
    assert [issue.code for issue in log] == codes, list(map(str, log))
    assert rows == ([[10, 10, 50, 40]] if box or 3 in outlines else [])


@pytest.mark.parametrize(
    ("folders", "splits"),
    [(["train"], ["train"]), (["ds0"], [""]), (["Dataset 1"], [""]), (["ds0", "ds1"], ["ds0", "ds1"]),
     (["train", "val"], ["train", "val"]), ([""], [""])],
)  # fmt: skip
def test_a_dataset_of_supervisely_is_a_split_unless_it_is_the_only_one_and_has_no_name(
    folders, splits, tmp_path
):
    corners = {"exterior": [[1, 2], [5, 7]], "interior": []}
    record = {"size": {"width": 9, "height": 9}, "tags": [],
              "objects": [{"classTitle": "x", "geometryType": "rectangle", "points": corners}]}  # fmt: skip
    for number, folder in enumerate(folders):
        (tmp_path / folder / "ann").mkdir(parents=True)
        (tmp_path / folder / "ann" / f"{number}.jpg.json").write_text(json.dumps(record))
    assert read(tmp_path, "supervisely")[0].images.split == tuple(splits)


@pytest.mark.parametrize(
    ("tag", "is_difficult"),
    [
        ("difficult", True),
        ({"name": "difficult"}, True),
        ({"name": "difficult", "value": None}, True),
        ({"name": "difficult", "value": "yes"}, True),
        ({"name": "difficult", "value": "no"}, False),
        ({"name": "easy", "value": "yes"}, False),
    ],
)
def test_tags_of_supervisely_that_mark_an_object(tag, is_difficult, tmp_path):
    corners = {"exterior": [[1, 2], [5, 7]], "interior": []}
    box = {"classTitle": "x", "geometryType": "rectangle", "points": corners, "tags": [tag]}
    (tmp_path / "ann").mkdir()
    record = {"size": {"width": 9, "height": 9}, "tags": [], "objects": [box]}
    (tmp_path / "ann" / "a.jpg.json").write_text(json.dumps(record))
    dataset, _ = read(tmp_path, "supervisely")
    assert dataset.boxes.has(Flag.DIFFICULT).tolist() == [is_difficult]


FLAGS_OF_BOXES = {
    "azure": ('"isCrowd": 0', '"isCrowd": VALUE'),
    "coco": ('"iscrowd": 0', '"iscrowd": VALUE'),
    "crowdhuman": ('"box_id": 0, "occ": 0', '"box_id": 0, "occ": VALUE'),
    "dlib": ('difficult="1"', 'difficult="VALUE"'),
    "imagefolder": ('], "categories": ["person"', '], "iscrowd": [VALUE, 0, 0], "categories": ["person"'),
    "labelme": ('"difficult": true', '"difficult": VALUE'),
    "labelmexml": ("<occluded>no", "<occluded>VALUE"),
    "mmdet": ('"ignore_flag": 0', '"ignore_flag": VALUE'),
    "paddleocr": ('"difficult": true', '"difficult": VALUE'),
}
"""A flag of one box in the example of a format, and the place of its value."""


@pytest.mark.parametrize("value", ["2", '"maybe"', "[1]", "-1"])
@pytest.mark.parametrize("name", FLAGS_OF_BOXES)
def test_a_value_that_is_no_flag_is_an_error_in_every_format(name, value, tmp_path):
    location = tmp_path / "input"
    shutil.copytree(FIXTURES / "mixed" / name, location)
    options = {"image_sizes": str(location / "sizes.csv")} if (location / "sizes.csv").exists() else {}
    source = next(path for path in sorted(location.iterdir()) if path.name.startswith("input"))
    before, log = read(source, name, **options)
    assert not log.counts["bad-flag"]
    old, new = FLAGS_OF_BOXES[name]
    files = [path for path in sorted(location.rglob("*.*")) if old in path.read_text(encoding="utf-8")]
    text = files[0].read_text(encoding="utf-8")
    new = new.replace("VALUE", value.strip('"') if files[0].suffix == ".xml" else value)
    files[0].write_text(text.replace(old, new, 1), encoding="utf-8")
    after, log = read(source, name, **options)
    assert log.counts["bad-flag"] == 1, list(map(str, log))
    assert len(after) == len(before) - 1


@pytest.mark.parametrize("name", ["bdd100k", "datumaro"])
def test_an_attribute_that_is_no_flag_is_counted(name, tmp_path):
    location = tmp_path / "input"
    shutil.copytree(FIXTURES / "mixed" / name, location)
    source = next(path for path in sorted(location.iterdir()) if path.name.startswith("input"))
    path, text = next(
        (path, text)
        for path in sorted(location.rglob("*.json"))
        if FLAG_IN_JSON.search(text := path.read_text(encoding="utf-8"))
    )
    path.write_text(FLAG_IN_JSON.sub(r'\1"maybe"', text, count=1), encoding="utf-8")
    dataset, log = read(source, name)
    assert not log.errors
    assert set(dataset.extras) & {"occluded", "truncated", "difficult", "iscrowd", "is_crowd", "group_of"}


@pytest.mark.parametrize(
    "first", [{"detections": []}, {"failure": "Failure image access", "detections": None}]
)
def test_megadetector_is_recognised_where_its_categories_follow_many_images(tmp_path, first):
    images = [{"file": f"{i:06}.jpg", "detections": []} for i in range(5000)]
    results = {
        "images": [{"file": "a.jpg", **first}, *images],
        "detection_categories": {"1": "animal"},
        "info": {},
    }
    path = tmp_path / "md.json"
    path.write_text(json.dumps(results))
    data = odm.read(path)
    assert len(data.images) == 5000 + (first["detections"] is not None)
    assert data.categories.name == ("animal",)
