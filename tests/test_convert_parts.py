"""Several sources, samples, splits and folds on the command line: what is written, said and refused."""

import functools
import json
import os
from pathlib import Path

import pytest
from corpus_base import tree
from msgspec.structs import replace
from one_format import WRITTEN
from PIL import Image

import odm
from odm.converters import Selection
from odm.formats import FORMATS
from odm.issues import DataError, Log, UsageError
from odm.names import stem
from odm.tables import Dataset

NAMES = [f"i{i:02d}.jpg" for i in range(20)]


def coco(path, names=NAMES, classes=("a", "b", "c"), first=1, score=None):
    """Image n has class 0, class 1 if 3 divides n and class 2 if 5 does; every tenth from the 7th has none."""
    images, annotations = [], []
    for i, name in enumerate(names):
        images.append({"id": first + i, "file_name": name, "width": 64, "height": 48})
        held = [] if i % 10 == 7 else [0] + [1] * (i % 3 == 0) + [2] * (i % 5 == 0)
        for c in held:
            annotations.append(
                {"id": 1000 * first + len(annotations), "image_id": first + i, "category_id": c + 1,
                 "bbox": [i, 2 * c, 10, 5 + i], "area": 10 * (5 + i), "iscrowd": 0}
            )  # fmt: skip
            if score is not None:
                annotations[-1]["score"] = score
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(classes)]
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    Path(path).write_text(text, encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco("a.json")
    coco("b.json", [f"j{i}.jpg" for i in range(4)], ["c", "b", "d"], first=101)
    return tmp_path


@pytest.fixture
def run(odm_run):
    return functools.partial(odm_run, "convert")


def stems(folder):
    return sorted(p.stem for p in Path(folder).glob("*.txt"))


def pictures(folder):
    Path(folder).mkdir()
    for i, name in enumerate(NAMES):
        Image.new("RGB", (64, 48), (i, 0, 0)).save(Path(folder, name))


# ------------------------------------------------------------------------------------------- merging


def test_two_sources_become_one(here, run):
    coco_boxes = len(odm.read("a.json")) + len(odm.read("b.json"))
    out, err = run("a.json", "b.json", "all.json")
    assert f"{coco_boxes}  boxes read (coco)" in out
    assert f"{coco_boxes}  boxes written (coco)" in out
    assert "of them from a.json (coco), 20 images" in out
    assert "of them from b.json (coco), 4 images" in out
    assert "ids of classes are numbered from 1, as the sources disagree" in out
    assert "ids of images" not in out
    assert not [line for line in (out + err).splitlines() if "warning" in line]
    merged = odm.read("all.json")
    assert merged.categories.name == ("a", "b", "c", "d")
    assert merged.images.source_id.tolist() == [*range(1, 21), *range(101, 105)]


def test_sources_of_several_formats_each_with_its_own_options(here, run):
    run("a.json", "y", "--to", "yolo")
    run("b.json", "t", "--to", "txt")
    words = ("y", "t", "all.json", "--from", "yolo", "--from", "txt")
    out, _ = run(*words, "--image-size", "64x48", "--from-box", "ltrb")
    assert "boxes read (yolo, txt)" in out
    assert len(odm.read("all.json").images) == 24
    _, err = run(*words, "--image-size", "64x48", "-O", "from.columns=image:x", "--overwrite", code=2)
    assert "'columns' does not apply when reading yolo and reading txt" in err


def test_what_any_of_several_sources_has_is_counted_as_lost(here):
    """In either order; a single source is no list of sources."""
    records = json.loads(Path("a.json").read_text(encoding="utf-8"))
    records["annotations"][0]["track_id"] = 3
    Path("a.json").write_text(json.dumps(records), encoding="utf-8")
    Path("p.csv").write_text("image,class,left,top,right,bottom\np.jpg,a,1,2,3,4\n", encoding="utf-8")
    for n, sources in enumerate((["a.json", "p.csv"], ["p.csv", "a.json"], ["a.json"], ["p.csv"])):
        ledger = odm.convert(sources if len(sources) > 1 else sources[0], f"out{n}", to="txt")
        assert ledger.lost == ({"tracks of boxes": 1} if "a.json" in sources else {})
        assert [source[0] for source in ledger.sources] == (sources if len(sources) > 1 else [])


def test_errors_of_all_sources_are_reported(here, run):
    for name in ("x.json", "y.json"):
        data = json.loads(Path("a.json").read_text(encoding="utf-8"))
        data["annotations"][0]["bbox"][2] = -5
        Path(name).write_text(json.dumps(data), encoding="utf-8")
    _, err = run("x.json", "y.json", "out.json", "--same-image", "prefix", code=1)
    assert "x.json#/annotations/0" in err
    assert "y.json#/annotations/0" in err
    assert "x.json: 1 error in the data; y.json: 1 error in the data" in err
    assert not Path("out.json").exists()
    out, _ = run("x.json", "y.json", "out.json", "--same-image", "prefix", "--skip-bad")
    assert "2  left out: rows with errors (--skip-bad)" in out


def test_similar_classes_of_two_sources_are_a_warning(here, run):
    coco("c.json", ["k.jpg"], ["A", "b", "c"], first=500)
    _, err = run("a.json", "c.json", "out.json")
    assert "a.json, c.json: warning similar-class-names 'a' and 'A' differ only in letter case" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["a.json", "a.json", "out.json"], 2, "given twice"),
        (["a.json", "./a.json", "out.json"], 2, "given twice, also as a.json"),
        (["a.json", "copy.json", "out.json"], 1, "20 images are both in a.json and in copy.json"),
        (["a.json", "other.json", "out.json", "--same-image", "join"], 1, "another size in another source"),
        (["a.json", "det.json", "out.json"], 2, "a.json is ground truth and det.json has detections"),
        (["a.json", "numbers", "out.json"], 2, "the classes of numbers are only numbers"),
        (["a.json", "b.json", "out.json", *["--from", "coco"] * 3], 2, "--from is given 3 times for 2 sources"),
        (["a.json", "out.json", "--same-image", "join"], 2, "--same-image needs two sources"),
        (["a.json", "missing.json", "out.json"], 3, "missing.json"),
        (["a.json", "b.json", "a.json/out.json"], 3, "is inside the source a.json"),
        (["a.json"], 2, "Missing argument"),
        ([], 2, "Missing argument"),
        (["a.json", "b.json", "out.json", "--split-into", "train:1,val:1"], 2, "one file cannot hold the parts"),
        (["a.json", "out.xml", "--to", "cvat", "--folds", "2"], 2, "one file cannot hold the folds"),
        (["a.json", "out", "--to", "automl", "--split-into", "train:1,dev:1"], 2, "automl has no part 'dev'"),
        (["a.json", "out", "--to", "yolo", "--split-into", "train:.9,val:.2"], 2, "add up to 1.1, not to 1"),
        (["a.json", "out", "--to", "yolo", "--split-into", "train:1,dev:1"], 2, "yolo has no part 'dev'"),
        (["a.json", "out", "--to", "yolo", "--split-into", "train:90,val:1,test:1"], 1, "val, test would get no images"),
        (["a.json", "out", "--to", "yolo", "--folds", "21"], 1, "fold21 would get no images"),
        (["a.json", "out", "--to", "yolo", "--folds", "2", "--group-by", "^(j)"], 1, "does not match 20 images"),
        (["a.json", "out", "--to", "yolo", "--min-box", "99", "--drop-empty"], 1, "no image is left of 20"),
        (["a.json", "out", "--to", "yolo", "--sample", "0"], 2, "--sample 0"),
        (["a.json", "out", "--to", "yolo", "--seed", "1"], 2, "--seed needs"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_is_written(here, run, words, code, said):
    coco("copy.json")
    coco("det.json", ["d.jpg"], first=900, score=0.5)
    data = json.loads(Path("a.json").read_text(encoding="utf-8"))
    data["images"][3]["width"] = 65
    Path("other.json").write_text(json.dumps(data), encoding="utf-8")
    Path("numbers").mkdir()
    Path("numbers/n.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    before = tree(here)
    _, err = run(*words, *(["--image-size", "64x48"] if "numbers" in words else []), code=code)
    assert said in err
    assert tree(here) == before
    assert len(list(here.iterdir())) == len({name.split("/")[0] for name in before})


# ----------------------------------------------------------------------------------- splits and folds


def test_a_split_that_the_format_holds(here, run):
    out, _ = run("a.json", "out", "--to", "yolo", "--split-into", "train:80,val:10,test:10")
    assert stems("out/labels/val") == ["i08", "i15"]
    assert stems("out/labels/test") == ["i01", "i18"]
    assert len(stems("out/labels/train")) == 16
    assert "16  of them in train, 22 boxes" in out
    assert " 2  of them in test, 3 boxes" in out
    assert 'test: "images/test"' in Path("out/data.yaml").read_text(encoding="utf-8")


def test_a_split_into_folders(here, run):
    run("a.json", "out", "--to", "txt", "--split-into", "train:80,val:10,test:10", "--no-stratify")
    assert stems("out/val") == ["i06", "i18"]
    assert stems("out/test") == ["i01", "i08"]


def test_five_folds_with_pictures_that_are_stored_once(here, run):
    pictures("photos")
    out, _ = run("a.json", "out", "--to", "yolo", "--folds", "5", "--copy-images", "--images", "photos")
    folds = [["02", "05", "09", "19"], ["00", "06", "08", "13"], ["01", "03", "10", "16"],
             ["14", "15", "17", "18"], ["04", "07", "11", "12"]]  # fmt: skip
    for i, fold in enumerate(folds, 1):
        assert stems(f"out/fold{i}/labels/val") == [f"i{n}" for n in fold]
        assert len(stems(f"out/fold{i}/labels/train")) == 16
        assert f"4  of them in val of fold{i}" in out
    for name in NAMES:
        copies = list(Path("out").rglob(name))
        assert len(copies) == 5
        assert len({os.stat(p).st_ino for p in copies}) == 1
        assert copies[0].read_bytes() == Path("photos", name).read_bytes()
        assert not os.path.samefile(copies[0], Path("photos", name))
    train = odm.read("out/fold2", split="val")
    assert len(train.images) == 4


@pytest.mark.parametrize("words", [["--split-into", "train:60,val:20,test:20"], ["--folds", "5"]])
def test_groups_are_not_divided(here, run, words):
    coco("g.json", [f"g{i // 4}_{i % 4}.jpg" for i in range(20)])
    run("g.json", "out", "--to", "txt", *words, "--group-by", "^(g[0-9])_")
    folders = [p for p in Path("out").rglob("*") if p.is_dir() and p.name != "train" and stems(p)]
    for folder in [*folders, *Path("out").rglob("train")]:
        for group in {name[:2] for name in stems(folder)}:
            assert sum(name[:2] == group for name in stems(folder)) == 4


@pytest.mark.parametrize("to", sorted(WRITTEN))
@pytest.mark.parametrize("words", [{"split_into": "train:3,val:1"}, {"folds": 2}], ids=["split", "folds"])
def test_every_format_takes_the_parts(here, to, words):
    """All images are in exactly one part, and of folds in one val and in the train of the others."""
    ledger = odm.convert("a.json", "out", to=to, selection=Selection(**words))
    assert ledger.balances
    assert sum(images for images, _ in ledger.parts.values()) == ledger.images == 20
    assert sum(boxes for _, boxes in ledger.parts.values()) == ledger.written
    vals = []
    for folder in ["out/fold1", "out/fold2"] if "folds" in words else ["out"]:
        train, val = parts_read(folder, to)
        assert not train & val
        everything = {
            name[:-4] for i, name in enumerate(NAMES) if i % 10 != 7 or "empty" in FORMATS[to].keeps
        }
        assert train | val == everything
        vals.append(val)
    assert len(vals) == 1 or not vals[0] & vals[1]


def parts_read(folder, name):
    """The stems of the images in the two parts of a dataset."""
    options = {"image_size": "64x48"}
    if "split" in FORMATS[name].keeps:
        images = odm.read(folder, name, **options).images
        pairs = list(zip(images.name, images.split, strict=True))
    else:
        pairs = [
            (image, part)
            for part in ("train", "val")
            for image in odm.read(f"{folder}/{part}", name, **options).images.name
        ]
    found = {"train": set(), "val": set()}
    for image, part in pairs:
        found[part].add(stem(image).split("/")[-1])
    return found["train"], found["val"]


def test_a_split_of_the_source_is_replaced(here, run):
    run("a.json", "one", "--to", "yolo", "--split-into", "minival:1,test:1")
    out, _ = run("one", "two", "--to", "yolo", "--split-into", "train:1,val:1", "--image-size", "64x48")
    assert "20  changed: images whose split is replaced" in out
    assert set(odm.read("two", image_size="64x48").images.split) == {"train", "val"}


@pytest.mark.parametrize("words", [["--sample", "50%"], ["--folds", "3"], ["--split-into", "a:1,b:2"]])
def test_the_same_seed_gives_the_same_bytes(here, run, words):
    run("a.json", "b.json", "one", "--to", "voc", *words, "--seed", "x")
    run("a.json", "b.json", "two", "--to", "voc", *words, "--seed", "x")
    run("a.json", "b.json", "three", "--to", "voc", *words, "--seed", "y")
    assert tree("one") == tree("two")
    assert tree("one") != tree("three")


def test_a_sample_is_counted(here, run):
    out, _ = run("a.json", "out.json", "--sample", "5", "--min-box", "6")
    assert "3  left out: boxes less than 6 wide or high (--min-box)" in out
    assert "15  left out: images not in the sample (--sample)" in out
    assert odm.read("out.json").images.name == tuple(f"i{n}.jpg" for n in ("02", "05", "11", "12", "17"))


def test_strict_refuses_what_the_filters_leave_out(here, run):
    _, err = run("a.json", "out.json", "--sample", "19", "--strict", code=1)
    assert "1 images not in the sample" in err
    assert not Path("out.json").exists()


def test_dry_run_divides_and_writes_nothing(here, run):
    pictures("photos")
    words = ("--to", "yolo", "--folds", "2", "--copy-images", "--images", "photos")
    out, _ = run("a.json", "out", *words, "--dry-run")
    assert "82  files would be written" in out
    assert not Path("out").exists()


def test_a_fault_in_one_part_leaves_nothing_and_is_reported_once(here, run):
    coco("bad.json", classes=("route 66", "b", "c"))
    _, err = run("bad.json", "out", "--to", "txt", "--folds", "4", code=1)
    assert err.count("error unwritable-class") == 1
    assert not Path("out").exists()
    assert not [p for p in here.iterdir() if p.name.startswith(".odm")]


def test_overwrite_puts_the_parts_into_a_target_that_exists(here, run):
    run("a.json", "out", "--to", "txt", "--split-into", "train:1,val:1")
    run("a.json", "out", "--to", "txt", "--split-into", "train:1,val:1", code=3)
    Path("out/train/mine.md").write_text("stays", encoding="utf-8")
    out, _ = run("a.json", "out", "--to", "txt", "--split-into", "train:1,val:1", "--overwrite")
    assert "existing files kept: train/mine.md" in out


def test_the_functions_of_python(here):
    merged = odm.converters.merge([odm.read("a.json"), odm.read("b.json")]).dataset
    log = Log()
    ledger = odm.write(merged, "out", "txt", selection=Selection(split_into={"train": 3, "val": 1}), log=log)
    assert ledger.parts.keys() == {"train", "val"}
    assert sum(images for images, _ in ledger.parts.values()) == 24
    with pytest.raises(DataError, match="would get no images"):
        odm.write(merged, "more", "txt", selection=Selection(folds=25))


@pytest.mark.parametrize(
    ("name", "single"), [(name, single) for name in WRITTEN for single in {False, FORMATS[name].single}]
)
def test_no_split_is_lost_in_silence(name, single, tmp_path):
    format_ = FORMATS[name]
    data = Dataset.from_arrays(
        images=["x.jpg", "y.jpg"], width=[64] * 2, height=[48] * 2, categories=["wheat"], image=[0, 1],
        category=[0, 0], xyxy=[[1, 2, 30, 40]] * 2,
    )  # fmt: skip
    data = replace(data, images=replace(data.images, split=("train", "val")))
    target = tmp_path / f"out{format_.suffixes[0] if single else ''}"
    log = Log()
    ledger = odm.write(data, target, name, log=log)
    if ledger.lost:
        assert ledger.lost == {"the split of an image": 2}
        keeps = "split" in format_.keeps
        assert any("a folder has a file for each" in note for note in log.notes) == keeps
        return
    sized = {"image_size": "64x48"} if format_.needs_size else {}
    assert sorted(odm.read(target, name, **sized).images.split) == ["train", "val"]


def test_one_split_that_was_chosen_may_be_one_file(tmp_path, run):
    (tmp_path / "in").mkdir()
    for split in ("train", "val"):
        coco(tmp_path / "in" / f"instances_{split}.json", [f"{split}.jpg"], first=1 + (split == "val"))
    out, _ = run(tmp_path / "in", tmp_path / "a.json", "--split", "val", "--strict")
    assert "images whose split is not written" in out
    _, err = run(tmp_path / "in", tmp_path / "b.json", "--strict", code=1)
    assert "it would lose 2 the split of an image" in err
    assert f"{tmp_path / 'b'} --to coco" in err


def test_options_of_one_of_several_sources(tmp_path, run):
    for name, names in (("a", "car\n"), ("b", "bus\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("0 .5 .5 .5 .5\n")
        (tmp_path / f"{name}.names").write_text(names)
    out = tmp_path / "out.csv"
    sizes = ["-O", "1.image_size=100x100", "-O", "2.image-size=200x200"]
    names = ["-O", f"1.classes={tmp_path / 'a.names'}", "-O", f"2.classes={tmp_path / 'b.names'}"]
    sources = tmp_path / "a", tmp_path / "b"
    run(*sources, out, *sizes, *names)
    data = odm.read(out)
    assert data.categories.name == ("car", "bus")
    assert data.boxes.xyxy.tolist() == [[25, 25, 75, 75], [50, 50, 150, 150]]
    _, err = run(*sources, tmp_path / "c.csv", *sizes, "-O", "3.split=x", code=2)
    assert "-O 3.split: there are only 2 sources" in err
    _, err = run(*sources, tmp_path / "c.csv", *sizes, "-O", "2.box=ltrb", code=2)
    assert "yolo has no option 'box'" in err
    options = [{"image_size": (100, 100)}, {"image_size": (200, 200)}]
    ledger = odm.convert(sources, tmp_path / "p.csv", source_options=options)
    assert (ledger.read, ledger.images) == (2, 2)
    with pytest.raises(UsageError, match="one for each of 2 sources, found 1"):
        odm.convert(sources, tmp_path / "q.csv", source_options=options[:1])


LEAVES_OUT = {
    "empty images": {"drop_empty": True},
    "small boxes": {"min_box": 6, "drop_empty": True},
    "a sample": {"sample": 3},
    "parts": {"split_into": "train=50,val=50"},
    "folds": {"folds": 2},
    "a class": {"drop": ["ox"], "drop_empty": True},
    "all but a class": {"only_classes": ["cat", "dog"], "drop_empty": True},
    "bad files": {"skip_bad_files": True},
    "another source": {},
}


@pytest.mark.parametrize("way", LEAVES_OUT)
def test_what_is_said_of_an_image_stays_with_it(way, tmp_path):
    """Classes that an image lacks, or has more objects of, whatever images are left out or come before it."""
    negative = {"a.jpg": ["dog"], "b.jpg": ["ox"], "c.jpg": ["cat", "ox"], "d.jpg": ["dog"], "e.jpg": ["cat"]}
    boxes = {"b.jpg": ("cat", 5), "c.jpg": ("dog", 9), "d.jpg": ("cat", 9)}
    classes = ["cat", "dog", "ox"]

    def lvis(path, names):
        ids = {name: i for i, name in enumerate(names, 1)}
        images = [
            {"id": i, "file_name": name, "width": 64, "height": 48, "not_exhaustive_category_ids": [],
             "neg_category_ids": [classes.index(c) + 1 for c in negative[name]]} for name, i in ids.items()
        ]  # fmt: skip
        annotations = [
            {"id": ids[name], "image_id": ids[name], "category_id": classes.index(c) + 1, "area": size * size,
             "bbox": [1, 1, size, size]} for name, (c, size) in boxes.items() if name in ids
        ]  # fmt: skip
        categories = [{"id": i, "name": name, "frequency": "f"} for i, name in enumerate(classes, 1)]
        path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))

    (tmp_path / "in").mkdir()
    source = tmp_path / "in"
    if way == "another source":
        lvis(source / "1.json", ["d.jpg", "e.jpg"])
        lvis(source / "2.json", ["c.jpg", "b.jpg", "a.jpg"])
        source = [source / "1.json", source / "2.json"]
    else:
        lvis(source / "1.json", list(negative))
        if way == "bad files":
            (source / "0.json").write_text('{"images": [{"id": 9, "neg_category_ids": [1], "file_na')
        else:
            source = source / "1.json"
    odm.convert(source, tmp_path / "out", from_="lvis", to="lvis", log=Log(), **LEAVES_OUT[way])
    shown = {}
    for file in (tmp_path / "out").rglob("*.json"):
        data = odm.read(file, "lvis")
        names = data.categories.name
        absent = {name: [] for name in data.images.name}
        for image, category in zip(data.labels.image, data.labels.category, strict=True):
            absent[data.images.name[image]].append(names[category])
        shown |= {name: sorted(of_image) for name, of_image in absent.items()}
        assert [names[category] for category in data.boxes.category] == [
            boxes[data.images.name[image]][0] for image in data.boxes.image
        ]
    kept = set(classes) - ({"ox"} if "class" in way else set())
    assert shown
    assert shown == {name: [c for c in negative[name] if c in kept] for name in shown}
