"""Classes renamed, merged, dropped, kept and numbered on the way from one format to another."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

import odm
from odm.coco80 import IDS, NAMES
from odm.converters import Edits, Ledger
from odm.converters.edit import apply_edits, parse_renames
from odm.issues import DataError, Log, UsageError
from odm.tables import Dataset, LabelState


def data(names=("cat", "dog", "bird"), category=(0, 1, 2, 1), **given):
    n = len(category)
    return Dataset.from_arrays(
        images=["a.jpg"], width=[100], height=[100], categories=names, image=[0] * n, category=category,
        ltwh=[(i, i, 10, 10) for i in range(n)], **given,
    )  # fmt: skip


def edited(dataset, **edits):
    ledger = Ledger("txt", "txt", read=len(dataset))
    result = apply_edits(Edits(**edits), dataset, ledger)
    ledger.written = len(result)
    assert ledger.balances
    return result, ledger


def names_of(dataset):
    return [dataset.categories.name[c] for c in dataset.boxes.category]


@pytest.mark.parametrize("name", ["kitti", "dota", "txt"])
@pytest.mark.parametrize("space", [" ", "\xa0", "\u3000"])
def test_classes_with_spaces_where_columns_are_separated_by_them(name, space, tmp_path):
    dataset = data((f"traffic{space}light", "dog", "bird"))
    log = Log()
    if name == "txt":  # its numbers are taken from the right, but not by every program
        odm.write(dataset, tmp_path / "kept", name, log=log)
    else:
        with pytest.raises(DataError):
            odm.write(dataset, tmp_path / "out", name, log=log)
        assert log.counts == {"unwritable-class": 1}
    advice = "spaces='underscore'" if name == "txt" else "-O spaces=underscore"  # of a note, and of a code
    assert advice in " ".join([*log.notes, *map(str, log.issues)])
    ledger = odm.write(dataset, tmp_path / "out", name, spaces="underscore")
    assert ledger.changed["classes with underscores for spaces"] == 1
    (file,) = (tmp_path / "out").iterdir()
    assert "traffic_light" in file.read_text().split()
    assert odm.read(tmp_path / "out", name).categories.name == ("traffic_light", "dog", "bird")


def test_underscores_do_not_merge_classes(tmp_path):
    with pytest.raises(UsageError, match="'a b' and 'a_b' would be one class"):
        odm.write(data(("a b", "a_b", "c")), tmp_path / "out", "kitti", spaces="underscore")


@pytest.mark.parametrize("given", [{"format": "txt", "sep": "\t"}, {"format": "dota", "results": True}])
def test_classes_with_spaces_are_written_where_nothing_splits_them(given, tmp_path):
    score = {"score": [0.5] * 4} if "results" in given else {}
    odm.write(data(("traffic light", "dog", "bird"), **score), tmp_path / "out", **given)
    found = odm.read(tmp_path / "out", given["format"], **{k: v for k, v in given.items() if k == "sep"})
    assert "traffic light" in found.categories.name


def test_two_names_may_merge_in_the_place_of_the_first():
    result, ledger = edited(data(), rename={"cat": "pet", "dog": "pet"})
    assert result.categories.name == ("pet", "bird")
    assert names_of(result) == ["pet", "pet", "bird", "pet"]
    assert ledger.changed == {"boxes of renamed classes": 3, "classes merged into another": 1}
    assert ledger.lossless


def test_drop_and_only_are_booked_and_keep_the_order():
    result, ledger = edited(data(), drop=("dog",))
    assert result.categories.name == ("cat", "bird")
    assert sum(ledger.left_out.values()) == 2
    result, ledger = edited(data(), only=("bird", "cat"))
    assert result.categories.name == ("cat", "bird")
    assert names_of(result) == ["cat", "bird"]


def test_names_that_do_not_exist_are_wrong_use_with_a_hint():
    for edits in ({"drop": ("dgo",)}, {"only": ("dgo",)}, {"rename": {"dgo": "x"}}):
        with pytest.raises(UsageError, match="dog"):
            edited(data(), **edits)


@pytest.mark.parametrize("name", ["a\nb", "\ud800", " ", "\ufeffx", "a\u2028"])
def test_a_class_cannot_be_renamed_to_what_cannot_be_one(name):
    with pytest.raises(UsageError, match="is not a valid class name"):
        edited(data(), rename={"cat": name})


def test_contradicting_renames_are_refused():
    assert parse_renames(["a=b", "c=d=e"]) == {"a": "b", "c": "d=e"}
    for texts in (["a"], ["=b"], ["a="], ["a=b", "a=c"]):
        with pytest.raises(UsageError):
            parse_renames(texts)


def test_cocos_ids():
    """As in COCO's own files: 80 classes, ids up to 90, ten of them unused."""
    assert len(NAMES) == len(IDS) == 80
    assert dict(zip(NAMES, IDS, strict=True)) | {"person": 1, "stop sign": 13, "toothbrush": 90} == dict(
        zip(NAMES, IDS, strict=True)
    )
    result, _ = edited(data(), category_ids="coco91")
    assert result.categories.source_id.tolist() == [17, 18, 16]
    assert edited(data(), category_ids="coco80")[0].categories.source_id.tolist() == [15, 16, 14]
    numbered = data(names=("0", "79"), category=(0, 1))
    numbered = replace(numbered, categories=replace(numbered.categories, named=False))
    result, _ = edited(numbered, category_ids="coco91")
    assert result.categories.name == ("person", "toothbrush")
    assert result.categories.source_id.tolist() == [1, 90]
    with pytest.raises(UsageError, match="unicorn"):
        edited(data(names=("unicorn",), category=(0,)), category_ids="coco91")


def test_class_ids_counted_in_the_order_of_the_classes():
    for start in (0, 1):
        result, ledger = edited(data(), category_ids=str(start))
        assert result.categories.source_id.tolist() == [start, start + 1, start + 2]
        assert ledger.changed == {f"class ids counted from {start}": 3}
        assert ledger.lossless
    numbered = data(names=("7", "3"), category=(0, 1))
    numbered = replace(numbered, categories=replace(numbered.categories, named=False))
    assert edited(numbered, category_ids="1")[0].categories.source_id.tolist() == [8, 4]


def test_yolo_to_coco_counts_from_0_or_as_asked(tmp_path):
    (tmp_path / "a.txt").write_text("1 .5 .5 .2 .2\n")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    for ids, expected in ((None, [0, 1]), ("1", [1, 2]), ("0", [0, 1]), ("coco91", [17, 18])):
        target = tmp_path.parent / f"{tmp_path.name}-{ids}.json"
        odm.convert(
            tmp_path,
            target,
            from_="yolo",
            from_options={"image_size": "64x48"},
            edits=Edits(category_ids=ids),
        )
        written = json.loads(target.read_text())
        assert [c["id"] for c in written["categories"]] == expected
        assert [a["category_id"] for a in written["annotations"]] == expected[1:]


def test_class_ids_that_would_not_be_written_are_refused(tmp_path):
    odm.write(data(), tmp_path / "a.json")
    with pytest.raises(UsageError, match="voc does not store class ids"):
        odm.convert(tmp_path / "a.json", tmp_path / "out", to="voc", edits=Edits(category_ids="1"))
    odm.write(data(score=[0.5] * 4), tmp_path / "d.csv")
    with pytest.raises(UsageError, match="with gt"):
        odm.convert(
            tmp_path / "d.csv", tmp_path / "d.json", gt=tmp_path / "a.json", edits=Edits(category_ids="1")
        )


def test_results_counted_as_trainers_do(tmp_path):
    truth = data(
        names=("person", "stop sign", "toothbrush"),
        category=(0, 1, 2),
        category_ids=[1, 13, 90],
        image_ids=[7],
    )
    odm.write(truth, tmp_path / "gt.json", "coco")
    rows = [{"image_id": 7, "category_id": c, "bbox": [0, 0, 5, 5], "score": 0.5} for c in (0, 11, 79)]
    (tmp_path / "dt.json").write_text(json.dumps(rows))
    with pytest.raises(odm.DataError, match="unknown-category"):
        odm.read(tmp_path / "dt.json", gt=tmp_path / "gt.json")
    found = odm.read(tmp_path / "dt.json", gt=tmp_path / "gt.json", ids="80")
    assert names_of(found) == ["person", "stop sign", "toothbrush"]
    assert np.array_equal(found.categories.source_id, [1, 13, 90])
    odm.write(data(names=("fish", "snail", "wombat")), tmp_path / "none.csv", "csv")
    with pytest.raises(odm.DataError, match="unknown-category-id"):
        odm.read(tmp_path / "dt.json", gt=tmp_path / "none.csv", ids="80")


def test_a_class_list_says_the_order():
    result, ledger = edited(data(), order=("bird", "fish", "dog", "cat"))
    assert result.categories.name == ("bird", "fish", "dog", "cat")
    assert names_of(result) == ["cat", "dog", "bird", "dog"]
    assert ledger.changed == {
        "classes reordered by class_list": 3,
        "classes without objects added by class_list": 1,
    }
    for order in (("bird", "dog"), ("bird", "bird", "cat", "dog")):
        with pytest.raises(UsageError, match="class_list"):
            edited(data(), order=order)


def test_what_is_said_of_whole_images_follows_the_classes():
    """A class that two were merged into is absent only where both are, and as frequent as the one or the other."""
    absent, partial = LabelState.ABSENT, LabelState.PARTIAL

    def said(dataset):
        names = dataset.categories.name
        rows = zip(dataset.labels.image, dataset.labels.category, dataset.labels.verdict, strict=True)
        return [(int(image), names[category], LabelState(verdict)) for image, category, verdict in rows]

    given = Dataset.from_arrays(
        images=["a", "b", "c"], categories=["cat", "dog", "bird", "fish"], image=[0], category=[2],
        ltwh=[(0, 0, 1, 1)], frequency=["r", "f", "", "c"],
        labels=[(0, 0, absent), (0, 1, absent), (0, 1, partial), (1, 1, absent), (1, 1, absent), (2, 0, partial),
                (2, 1, partial), (1, 3, absent), (2, 2, absent)],
    )  # fmt: skip
    result, ledger = edited(given, rename={"cat": "pet", "dog": "pet"}, drop=("fish",))
    assert said(result) == [(0, "pet", absent), (0, "pet", partial), (2, "pet", partial), (2, "bird", absent)]
    assert result.categories.frequency == ("f", "")
    assert (
        ledger.changed[
            "image-level absences dropped because the class was merged with one that may be present"
        ]
        == 2
    )
    result, _ = edited(given, order=("fish", "bird", "ox", "dog", "cat"))
    assert said(result) == said(given)
    assert result.categories.frequency == ("c", "", "", "f", "r")
    assert said(edited(given, only=("fish",))[0]) == [(1, "fish", absent)]


@pytest.mark.parametrize(
    ("edits", "alike"),
    [({}, 1), ({"rename": {"Cat": "cat"}}, 0), ({"drop": ("Cat",)}, 0), ({"rename": {"dog": "CAT"}}, 2)],
)
def test_names_are_compared_as_they_are_written(tmp_path, edits, alike):
    odm.write(data(names=("cat", "dog", "Cat")), tmp_path / "in.json", "coco")
    log = Log()
    odm.convert(tmp_path / "in.json", tmp_path / "out.json", to="coco", edits=Edits(**edits), log=log)
    assert log.counts["similar-class-names"] == alike


@pytest.mark.parametrize(
    ("source", "target", "edits", "said"),
    [
        ("txt", "yolo", {}, True),
        ("txt", "coco", {}, True),
        ("txt", "yolo", {"order": ("dog", "cat", "bird")}, False),
        ("txt", "yolo", {"only": ("dog",)}, False),
        ("txt", "voc", {}, False),  # it has names alone
        ("coco", "yolo", {}, False),
    ],
)
def test_an_order_that_nobody_gave_is_said(tmp_path, source, target, edits, said):
    location = tmp_path / ("in.json" if source == "coco" else "in")
    odm.write(data(category=(2, 0, 1)), location, source)
    log = Log()
    options = {} if source == "coco" else {"image_size": "100x100", "box": "ltwh"}
    to = {"to": target, "from_": source, "from_options": options, "edits": Edits(**edits), "dry_run": True}
    ledger = odm.convert(location, tmp_path / "out", log=log, **to)
    found = [note for note in log.notes if "first appear" in note]
    assert len(found) == said
    assert not said or "bird, cat, dog (class_list FILE" in found[0]
    assert "class ids are not written" not in ledger.changed


def test_ids_of_classes_are_numbered_only_where_there_are_numbers(tmp_path):
    odm.write(data(), tmp_path / "in.json", "coco")
    for target, what in (("yolo", "renumbered"), ("voc", "not written"), ("txt", "not written")):
        ledger = odm.convert(tmp_path / "in.json", tmp_path / target, to=target, dry_run=True)
        assert [w for w in ledger.changed if w.startswith("class ids")] == [f"class ids are {what}"]


def test_the_way_out_is_named_where_there_is_one(tmp_path):
    odm.write(data(), tmp_path / "in", "voc")
    (tmp_path / "in" / "broken.xml").write_text("<annotation>")
    with pytest.raises(DataError, match=r"xml-syntax; correct .*broken\.xml, or leave out such files"):
        odm.convert(tmp_path / "in", tmp_path / "out", to="txt", skip_bad=True)
    (tmp_path / "in" / "broken.xml").unlink()
    with pytest.raises(UsageError, match="class_list FILE sets which classes are written"):
        odm.convert(tmp_path / "in", tmp_path / "out", to="yolo", options={"classes": "x"})


def test_a_dry_run_prints_its_summary_also_if_it_is_to_be_quiet(tmp_path, capsys):
    from odm.cli._app import run

    odm.write(data(), tmp_path / "a.csv")
    printed = []
    for words in ([], ["--dry-run"], ["--quiet", "--dry-run"], ["--quiet"]):
        assert (
            run(
                [
                    "convert",
                    str(tmp_path / "a.csv"),
                    str(tmp_path / "b.json"),
                    "--to",
                    "coco",
                    "--overwrite",
                    *words,
                ]
            )
            == 0
        )
        printed.append(capsys.readouterr().out)
    assert "boxes read (csv)" in printed[0]
    assert "boxes read (csv)" in printed[1]
    assert printed[2] == printed[1]
    assert not printed[3]
