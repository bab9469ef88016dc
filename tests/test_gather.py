"""What all readers share: images, classes and boxes as they are gathered, and what all rows decide."""

import numpy as np
import pytest

from odm.files import Source
from odm.formats._shared.gather import Gather, Location, add_extension
from odm.formats._shared.pictures import ImageOptions, Picture
from odm.issues import Log
from odm.tables import Builder

BOX = (1.0, 2.0, 30.0, 40.0)


@pytest.fixture
def make(tmp_path):
    """Makes a Gather over an empty folder with one image and one class, ready for boxes."""

    def make(kind=None, **arguments):
        builder, log = Builder(), Log()
        builder.kind = kind
        gather = Gather(Source(str(tmp_path)), builder, log, ImageOptions(), **arguments)
        gather.image("a.jpg", Location("f", line=1), size=(100, 100))
        gather.category("dog", Location("f", line=1))
        return gather

    return make


def add_singles(gather, scores):
    for i, score in enumerate(scores):
        gather.box(0, 0, BOX, Location("f", line=10 + i), file=0, line=10 + i, score=score)


def add_columns(gather, scores):
    n = len(scores)
    gather.add(
        image=np.zeros(n, int),
        category=np.zeros(n, int),
        xyxy=np.tile(np.array(BOX), (n, 1)),
        score=np.array(scores, float),
        file=0,
        line=np.arange(10, 10 + n),
    )


@pytest.mark.parametrize("add", [add_singles, add_columns])
@pytest.mark.parametrize(
    ("scores", "kind", "lines", "code"),
    [
        ([0.5, 0.6, np.nan], "det", [12], "score-missing"),
        ([0.5, np.nan], "gt", [10], "score-unexpected"),
        ([0.5, 0.6], "det", [], None),
        ([np.nan, np.nan], "gt", [], None),
        ([], "gt", [], None),
    ],
)
def test_most_boxes_decide_and_the_others_are_errors(make, add, scores, kind, lines, code):
    gather = make()
    gather.builder.file("f")
    add(gather, scores)
    gather.finish(field="conf")
    dataset, issues = gather.builder.build(), gather.log.issues
    assert dataset.kind == kind
    assert [(i.path, i.line, i.field, i.code) for i in issues] == [("f", n, "conf", code) for n in lines]
    assert dataset.skipped == len(lines)
    kept = [s for s in scores if np.isnan(s) == (kind == "gt")]
    np.testing.assert_array_equal(dataset.boxes.score, kept)
    assert dataset.boxes.line.tolist() == [n for n in range(10, 10 + len(scores)) if n not in lines]


@pytest.mark.parametrize("add", [add_singles, add_columns])
@pytest.mark.parametrize(
    ("scores", "asked", "kind", "code"),
    [
        ([0.5, 0.6, np.nan], None, "gt", "some-scores"),
        ([0.5, 0.6], None, "det", None),
        ([0.5, 0.6], "gt", "gt", "all-boxes-scored"),
        ([0.5, 0.6, np.nan], "det", "det", "score-missing"),
        ([], None, "gt", None),
    ],
)
def test_or_all_boxes_must_have_a_score(make, add, scores, asked, kind, code):
    gather = make(asked, unanimous=True)
    gather.builder.file("f", "/boxes")
    add(gather, scores)
    gather.finish()
    dataset, issues = gather.builder.build(), gather.log.issues
    assert dataset.kind == kind
    assert [i.code for i in issues] == ([] if code is None else [code])
    if kind == "gt":
        assert len(dataset) == len(scores)
        assert np.isnan(dataset.boxes.score).all()
        assert not dataset.skipped
    else:
        assert len(dataset) + dataset.skipped == len(scores)


def test_a_place_in_json_is_a_pointer_and_one_in_text_a_line(make):
    gather = make("det")
    gather.builder.file("f.json", "/boxes")
    add_columns(gather, [np.nan])
    gather.finish()
    assert gather.log.issues[0].pointer == "/boxes/10"
    assert str(Location("f.json") / "a/b" / 3) == "f.json#/a~1b/3"
    assert (Location("f.csv", line=3) / "width").where == {"line": 3}


def test_an_image_is_there_once_and_its_first_place_is_named(make):
    gather = make()
    assert gather.image("a.jpg", Location("g", line=7)) is None
    (issue,) = gather.log.issues
    assert (issue.code, issue.line) == ("duplicate-image", 7)
    assert "f:1" in issue.message


def test_a_class_that_cannot_be_one_is_an_issue_each_time(make):
    gather = make()
    assert gather.category(" ", Location("f", line=2), field="class") is None
    assert gather.category(" ", Location("f", line=3), field="class") is None
    assert gather.category("dog", Location("f", line=4)) == 0
    assert [i.line for i in gather.log.issues] == [2, 3]


@pytest.mark.parametrize("field", ["size", None])
def test_a_missing_size_is_a_warning_where_the_format_has_sizes(make, field):
    gather = make(size_field=field)
    row = gather.image("b.jpg", Location("f", line=2))
    assert gather.builder.image_size(row) == (0, 0)
    assert [i.field for i in gather.log.issues] == ([] if field is None else [field])


def test_two_pictures_of_one_image_are_reported_once(tmp_path):
    for name in ("a.jpg", "a.png"):
        (tmp_path / name).write_bytes(b"")
    log = Log()
    gather = Gather(Source(str(tmp_path)), Builder(), log, ImageOptions(), (str(tmp_path),))
    first = gather.find_picture("a", Location("f"))
    assert first is not None
    assert gather.find_picture("a", Location("f")) is first
    assert [i.code for i in log.issues] == ["ambiguous-picture"]


def test_a_name_gets_the_extension_of_its_picture_once():
    picture = Picture("images/a.JPG", "p")
    assert add_extension("a", picture) == "a.JPG"
    assert add_extension("a.jpg", picture) == "a.jpg"
    assert add_extension("a", None) == "a"
