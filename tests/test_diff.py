"""``odm diff``: what changed between two versions of annotations, in Python, as printed, saved and on a page."""

import csv
import json

import hypothesis.strategies as st
import numpy as np
import pytest
from click.testing import CliRunner
from drawn import make_data
from hypothesis import given, settings
from msgspec.structs import replace
from selection import examples

import odm
from odm.cli._app import app
from odm.evaluate.analysis.diff import Change, diff
from odm.evaluate.analysis.render_diff import render_differences
from odm.issues import UsageError
from odm.report.words import to_english
from odm.tables import Dataset

CLASSES = ["cat", "dog", "bird"]


def dataset(rows, images=("a.jpg", "b.jpg", "c.jpg"), classes=CLASSES, size=100, **more):
    """Rows of image, class, left, top, width, height and perhaps flags."""
    return Dataset.from_arrays(
        images=list(images), width=[size] * len(images), height=[size] * len(images), categories=list(classes),
        image=[list(images).index(r[0]) for r in rows], category=[list(classes).index(r[1]) for r in rows],
        ltwh=np.array([r[2:6] for r in rows], float).reshape(-1, 4),
        flags=[r[6] if len(r) > 6 else 0 for r in rows], **more,
    )  # fmt: skip


OLD = [
    ("a.jpg", "cat", 1, 1, 10, 10),
    ("a.jpg", "dog", 20, 20, 10, 10),
    ("a.jpg", "cat", 20, 20, 10, 10),
    ("b.jpg", "cat", 5, 5, 0, 0),
    ("b.jpg", "dog", 50, 50, 20, 20),
    ("b.jpg", "dog", 80, 80, 9, 9),
    ("c.jpg", "cat", 3, 3, 30, 30),
    ("c.jpg", "dog", 5, 6, 7, 8),
    ("gone.jpg", "cat", 0, 0, 50, 50),
]
NEW = [
    ("a.jpg", "cat", 1, 1, 10, 11),  # moved
    ("a.jpg", "cat", 20, 20, 10, 10, 2),  # with another flag
    ("a.jpg", "dog", 20, 20, 10, 10),  # of two at one place it is the one of its class
    ("b.png", "cat", 5, 5, 0, 0),  # equal, though nothing overlaps a point
    ("b.png", "bird", 51, 50, 20, 20),  # relabelled and moved
    ("b.png", "cat", 30, 0, 9, 9),  # added; a dog is removed
    ("x.jpg", "dog", 5, 6, 7, 8),
    ("x.jpg", "cat", 3, 3, 30, 30),
    ("new.jpg", "dog", 0, 0, 50, 50),
]


def versions():
    old = dataset(OLD, ("a.jpg", "b.jpg", "c.jpg", "gone.jpg"))
    return old, dataset(NEW, ("x.jpg", "new.jpg", "b.png", "a.jpg"), CLASSES[::-1])


def test_known_changes():
    found = diff(*versions())
    told = found.to_dict()
    assert told["images"] == {
        "old": 4, "new": 4, "added": ["new.jpg"], "removed": ["gone.jpg"],
        "renamed": [{"old": "c.jpg", "new": "x.jpg"}], "resized": [],
    }  # fmt: skip
    assert told["boxes"] == {
        "old": 9, "new": 9, "unchanged": 4, "added": 1, "removed": 1, "moved": 2, "relabelled": 1, "flags": 1,
        "image_added": 1, "image_removed": 1, "shape": 0,
    }  # fmt: skip
    assert told["relabelled"] == [{"old": "dog", "new": "bird", "count": 1}]
    changes = {
        (row["image"], row["old_class"], row["new_class"], row["change"]): row for row in told["changes"]
    }
    assert set(changes) == {
        ("a.jpg", "cat", "cat", "moved"), ("a.jpg", "cat", "cat", "flags"),
        ("b.png", "dog", "bird", "moved, relabelled"), ("b.png", "dog", None, "removed"),
        ("b.png", None, "cat", "added"), ("gone.jpg", "cat", None, "image_removed"),
        ("new.jpg", None, "dog", "image_added"),
    }  # fmt: skip
    assert changes["b.png", "dog", "bird", "moved, relabelled"]["shift"] == 1
    assert [row["image"] for row in told["changed_images"]] == [
        "b.png",
        "a.jpg",
        "x.jpg",
        "new.jpg",
        "gone.jpg",
    ]
    by_class = {row["class"]: row for row in told["classes"]}
    for name, row in by_class.items():  # every box is in one column
        lost = row["removed"] + row["image_removed"] + row["relabelled"]
        gained = row["added"] + row["image_added"]
        into = sum(pair["count"] for pair in told["relabelled"] if pair["new"] == name)
        assert row["old"] - lost + gained + into == row["new"]
    heads = [line.split("  ")[-2:] for line in render_differences(found, width=120).splitlines()]
    assert ["image added", "image removed"] in heads
    text = render_differences(diff(versions()[0], versions()[0]))
    assert "image added" not in text
    assert not found.equal


def test_tables_are_the_rows_of_the_files():
    found = diff(*versions())
    told = found.to_dict()
    keys = {"boxes": "changes", "images": "changed_images", "classes": "classes"}
    for of, key in keys.items():
        assert list(found.table(of)) == told[key]
        assert list(found.table(of).columns()) == list(told[key][0])
    with pytest.raises(UsageError, match="choose one of boxes"):
        found.table("x")


def test_the_changes_are_a_frame():
    pandas = pytest.importorskip("pandas")
    found = diff(*versions())
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.change.tolist() == found.columns()["change"]


def test_a_version_equals_itself_in_any_order():
    old, _ = versions()
    order = np.random.default_rng(0).permutation(len(old))
    found = diff(old, old.take(order))
    assert found.equal
    assert repr(found) == "<Differences: no difference>"
    near = Dataset.from_arrays(
        images=old.images.name, width=[100] * 4, height=[100] * 4, categories=old.categories.name,
        image=old.boxes.image, category=old.boxes.category, xyxy=old.boxes.xyxy + 4e-7, flags=old.boxes.flags,
    )  # fmt: skip
    assert diff(old, near).equal
    counts = diff(old, near, tolerance=1e-8).to_dict()["boxes"]
    assert (counts["moved"], counts["added"], counts["removed"]) == (8, 1, 1)  # one has no area to overlap
    empty = dataset([], ())
    assert diff(empty, empty).equal
    assert diff(empty, old).verdict == "different; images: 4 added"


SQUARE, PART = [[0, 0], [9, 0], [9, 9], [0, 9]], [[2, 2], [4, 2], [4, 4]]


@pytest.mark.parametrize(
    ("name", "old", "new", "changed"),
    [
        (
            "polygons",
            [[SQUARE], [SQUARE, PART], [SQUARE], [PART, SQUARE], []],
            [[[*SQUARE[:3], [0, 9.5]]], [SQUARE, PART], [SQUARE, PART], [SQUARE, PART], [PART]],
            [0, 2, 3, 4],
        ),
        ("masks", ["021", "021", None, "05", None], ["021", "030", "021", "05", None], [1, 2]),
        (
            "keypoints",
            [[[1, 1, 2]], [], [[1, 1, 2]], [[3, 3, 1], [4, 4, 0]], []],
            [[[1, 1, 2]], [], [[1, 1, 1]], [[3, 3, 1]], [[3, 3, 1]]],
            [2, 3, 4],
        ),
    ],
)
def test_other_shapes_are_a_change(name, old, new, changed):
    rows = [("a.jpg", "cat", 20 * i, 0, 10, 10) for i in range(5)]
    one = dataset(rows, **{name: old})
    assert diff(one, dataset(rows, **{name: old})).equal
    found = diff(one, dataset(rows, **{name: new}))
    assert [row["old_left"] / 20 for row in found.to_dict()["changes"]] == changed
    assert found.count(Change.SHAPE) == len(changed)
    assert f"{len(changed)} with another shape" in found.verdict
    without = [i for i, shape in enumerate(old) if shape]
    lost = diff(one, dataset(rows)).to_dict()["changes"]
    assert [row["old_left"] / 20 for row in lost] == without


def test_another_size_of_an_image_is_a_change():
    old, new = (dataset(OLD[:1], size=size) for size in (100, 200))
    assert diff(old, new).to_dict()["images"]["resized"][0] == {
        "image": "a.jpg",
        "old": [100, 100],
        "new": [200, 200],
    }
    assert not diff(old, new).equal
    assert diff(old, dataset(OLD[:1], size=0)).equal  # of unknown size
    half = replace(old, images=replace(old.images, width=np.zeros(3, np.int32)))
    assert diff(old, half).equal
    assert diff(half, old).equal


@pytest.mark.parametrize(("n_old", "n_new"), [(2, 2), (2, 1), (1, 2), (4, 3)])
def test_equal_boxes_are_paired_one_to_one(n_old, n_new):
    more = OLD[1:3]
    told = diff(dataset([*OLD[:1] * n_old, *more]), dataset([*more[::-1], *OLD[:1] * n_new])).to_dict()
    counts = [told["boxes"][key] for key in ("unchanged", "removed", "added")]
    assert counts == [min(n_old, n_new) + 2, max(n_old - n_new, 0), max(n_new - n_old, 0)]
    assert told["equal"] == (n_old == n_new)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (2, 1), (1, 2), (4, 3)])
def test_equal_boxes_of_two_annotators_agree_one_to_one(first, second):
    agreement = odm.agree(*(dataset([*OLD[:1] * n, OLD[1]]) for n in (first, second)))
    both = min(first, second) + 1
    assert agreement.f1 == pytest.approx(2 * both / (first + second + 2))


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_random_edits_are_found(data):
    """Boxes that lie apart, each with an edit of its own."""
    old, new, wanted = (
        [],
        [],
        dict.fromkeys(["added", "removed", "moved", "relabelled", "flags", "unchanged"], 0),
    )
    for i in range(data.draw(st.integers(0, 12))):
        edits = data.draw(st.sets(st.sampled_from(list(wanted)[:5]), max_size=2))
        x, y = 30 * (i % 3), 30 * (i // 3)
        name, flags = data.draw(st.sampled_from(CLASSES)), data.draw(st.sampled_from([0, 2, 8]))
        box = ("a.jpg", name, x + 1, y + 1, 20, 20, flags)
        if "added" in edits or "removed" in edits:
            here = "added" if "added" in edits else "removed"
            (new if here == "added" else old).append(box)
            wanted[here] += 1
            continue
        old.append(box)
        if "relabelled" in edits:
            name = CLASSES[(CLASSES.index(name) + 1) % 3]
        shift = 2 if "moved" in edits else 0
        new.append(("a.jpg", name, x + 1 + shift, y + 1, 20, 20, flags ^ 4 if "flags" in edits else flags))
        for edit in edits or {"unchanged"}:
            wanted[edit] += 1
    order = data.draw(st.permutations(new))
    told = diff(dataset(old, size=200), dataset(order, size=200)).to_dict()
    assert {key: told["boxes"][key] for key in wanted} == wanted
    assert told["equal"] == (sum(wanted.values()) == wanted["unchanged"])


@pytest.mark.parametrize(
    ("options", "says"),
    [({"iou": 0}, "iou 0"), ({"iou": 1.5}, "iou 1.5"), ({"tolerance": -1}, "tolerance -1")],
)
def test_values_out_of_range(options, says):
    with pytest.raises(UsageError, match=says):
        diff(*versions(), **options)


# ---------------------------------------------------------------------------------------- the command


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, one in zip(("old", "new"), versions(), strict=True):
        odm.write(one, f"{name}.json", "coco")
    return tmp_path


def run(*words, code=0):
    done = CliRunner().invoke(app, ["diff", *words], standalone_mode=False)
    if done.exception:
        raise done.exception
    assert done.return_value == code
    return done.stdout


def test_what_is_printed(files):
    text = run("old.json", "new.json", "-q")
    assert text.splitlines()[:4] == [
        "6 of 11 boxes differ; 3 images added, removed, renamed or resized",
        "",
        "old: 4 images, 9 boxes; new: 4 images, 9 boxes",
        "3 images in both: 5 boxes unchanged, 1 added, 1 removed, 2 moved, 1 relabelled",
    ]
    assert "1 image renamed (a guess: the boxes are the same): c.jpg -> x.jpg" in text
    assert text.splitlines()[-2].startswith("different; images: 1 added, 1 removed, 1 renamed; boxes of")
    assert max(map(len, text.splitlines())) <= 80
    assert "| class   |" in run("old.json", "new.json", "-q", "--output", "markdown")
    rows = list(csv.DictReader(run("old.json", "new.json", "-q", "--output", "csv").splitlines()))
    told = json.loads(run("old.json", "new.json", "-q", "--output", "json"))
    assert [row["change"] for row in rows] == [row["change"] for row in told["changes"]]
    assert rows[-1]["old_file"] == "old.json#/annotations/8"


def test_hostile_names_are_cut_and_escaped():
    names = ["a" * 90, "<b>\u202e|x"]
    one, two = (dataset([("a.jpg", name, 1, 1, 9, 9)], classes=names) for name in names)
    text = render_differences(diff(one, two))
    assert max(map(len, text.splitlines())) <= 80
    assert "\u202e" not in text
    shown = render_differences(diff(two, one), "markdown")
    assert "<b>" not in shown
    assert "\\|x" in shown


def test_exit_codes(files):
    run("old.json", "new.json", "-q", "--fail-on-change", code=1)
    assert run("old.json", "old.json", "-q", "--fail-on-change").endswith("\nno difference\n")
    for option in ("--iou", "--tolerance"):
        with pytest.raises(UsageError, match=f"{option} nan: give"):
            run("old.json", "new.json", option, "nan")


def test_the_function_takes_what_is_in_memory_and_writes_the_same(files):
    run("old.json", "new.json", "-q", "--save", "saved")
    found = odm.diff(odm.read("old.json"), "new.json", save="again", report="page.html")
    assert found.to_dict()["boxes"] == json.loads((files / "saved" / "diff.json").read_text())["boxes"]
    for name in ("changes.csv", "images.csv"):
        assert (files / "again" / name).read_text() == (files / "saved" / name).read_text()
    assert (files / "page.html").stat().st_size > 10_000
    with pytest.raises(UsageError, match=r"^tolerance -1"):
        odm.diff("old.json", "new.json", tolerance=-1)
    with pytest.raises(UsageError, match="diff takes"):
        odm.diff(3, 4)


def test_saved_files(files):
    run("old.json", "new.json", "-q", "--save", "saved")
    assert sorted(p.name for p in (files / "saved").iterdir()) == [
        "changes.csv",
        "classes.csv",
        "diff.json",
        "images.csv",
    ]
    told = json.loads((files / "saved" / "diff.json").read_text())
    for name, key in (("classes", "classes"), ("images", "changed_images"), ("changes", "changes")):
        rows = list(csv.DictReader((files / "saved" / f"{name}.csv").read_text().splitlines()))
        assert [list(row) for row in rows] == [list(row) for row in told[key]]
        assert rows == [{k: "" if v is None else str(v) for k, v in row.items()} for row in told[key]]


def test_one_version_has_only_numbers_as_classes(files):
    odm.convert("old.json", "plain", to="yolo")
    (files / "plain" / "data.yaml").unlink()
    with pytest.raises(UsageError, match="the classes of the new version are only numbers"):
        run("old.json", "plain", "-q")


def test_the_page_shows_the_same_numbers(tmp_path, monkeypatch):
    from test_report import read_page

    make_data(tmp_path / "set")
    monkeypatch.chdir(tmp_path / "set")
    truth = odm.read("gt.json")
    boxes = truth.boxes
    xyxy = boxes.xyxy.copy()
    xyxy[0] += 1
    changed = Dataset.from_arrays(
        images=truth.images.name, width=truth.images.width, height=truth.images.height,
        categories=truth.categories.name, image=boxes.image[:-1], category=boxes.category[:-1], xyxy=xyxy[:-1],
        flags=boxes.flags[:-1],
    )  # fmt: skip
    odm.write(changed, "new.csv", "csv")
    run("gt.json", "new.csv", "-q", "--images", "photos", "--report", "page.html")
    page, pictures, _ = read_page(tmp_path / "set" / "page.html")
    assert (page["kind"], to_english(page["title"])) == ("diff", "From gt.json to new.csv")
    assert page["boxCounts"] == {"changed": 2, "unchanged": page["counts"]["unchanged"]}
    assert page["counts"] == {
        **dict.fromkeys(page["counts"], 0), "unchanged": len(boxes) - 2, "moved": 1, "removed": 1,
    }  # fmt: skip
    assert sorted(set(page["boxes"]["kind"])) == ["FN", "FP", "GT", "OT"]
    where = page["boxes"]["kind"].index("GT")
    assert [column[where] for column in page["boxes"]["box"]] == boxes.xyxy[0].tolist()
    assert len(page["boxes"]["kind"]) == len(boxes) + 1
    assert all(pictures)
    assert sum(row["changed"] for row in page["classes"]) == 2
