"""Several sources made one: classes, names, ids, equal boxes, and what is refused."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace
from one_format import WRITTEN

import odm
from odm.converters import merge
from odm.formats import FORMATS
from odm.issues import DataError, Log, UsageError
from odm.names import stem
from odm.tables import NO_ID, Dataset, Flag, LabelState


def data(path, rows, *, names=None, categories=None, size=(100, 80), **given):
    """A dataset of boxes ``(image, class, left)`` as if it was read from a path."""
    names = names or list(dict.fromkeys(image for image, _, _ in rows))
    categories = categories or list(dict.fromkeys(name for _, name, _ in rows))
    dataset = Dataset.from_arrays(
        images=names,
        width=[size[0]] * len(names),
        height=[size[1]] * len(names),
        categories=categories,
        image=[names.index(image) for image, _, _ in rows],
        category=[categories.index(name) for _, name, _ in rows],
        ltwh=[(left, 1, 5, 5) for _, _, left in rows],
        **given,
    )
    return replace(dataset, path=path)


def table(dataset):
    """Image, class and left edge of every box."""
    boxes = dataset.boxes
    return [
        (dataset.images.name[i], dataset.categories.name[c], left)
        for i, c, left in zip(
            boxes.image.tolist(), boxes.category.tolist(), boxes.xyxy[:, 0].tolist(), strict=True
        )
    ]


ONE = [("a.jpg", "cat", 1.0), ("b.jpg", "dog", 2.0)]
TWO = [("c.jpg", "bird", 3.0), ("c.jpg", "dog", 4.0)]


def test_classes_of_one_name_are_one_and_the_first_seen_come_first():
    merged = merge([data("one", ONE), data("two", TWO)])
    assert merged.dataset.categories.name == ("cat", "dog", "bird")
    assert merged.dataset.images.name == ("a.jpg", "b.jpg", "c.jpg")
    assert table(merged.dataset) == ONE + TWO
    assert (merged.joined, merged.equal, merged.renumbered, merged.changed) == (0, 0, {}, {})
    assert not merged.dataset.boxes.category.flags.writeable


def test_one_dataset_stays_what_it_is():
    dataset = data("one", ONE, category_ids=[7, 3], image_ids=[5, "x"], source_id=[9, 4])
    merged = merge([dataset]).dataset
    assert table(merged) == ONE
    assert merged.categories.source_id.tolist() == [7, 3]
    assert merged.images.source_id.tolist() == [5, "x"]
    assert merged.boxes.source_id.tolist() == [9, 4]


# --------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ([10, 20], [30, 20], [10, 20, 30]),
        ([10, 20], [30, 25], None),  # one class, two ids
        ([10, 20], [10, 20], None),  # one id, two classes
        ([NO_ID, NO_ID], [NO_ID, NO_ID], [NO_ID] * 3),
        ([10, 20], [NO_ID, NO_ID], None),  # a class without an id
        ([10, NO_ID], [30, 20], [10, 20, 30]),  # that the other has
    ],
)
def test_class_ids_are_kept_where_the_sources_agree(first, second, kept):
    merged = merge([data("one", ONE, category_ids=first), data("two", TWO, category_ids=second)])
    assert merged.dataset.categories.source_id.tolist() == (kept or [1, 2, 3])
    assert merged.renumbered == ({} if kept else {"category_id": 3})


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [([1, 2], [3], True), ([1, 2], [2], False), (["x", "y"], [3], True), ([1, 2], ["2"], True)],
)
def test_image_ids_are_kept_where_no_two_images_share_one(first, second, kept):
    merged = merge([data("one", ONE, image_ids=first), data("two", TWO, image_ids=second)])
    assert merged.dataset.images.source_id.tolist() == ([*first, *second] if kept else [1, 2, 3])
    assert merged.renumbered == ({} if kept else {"image_id": 3})


@pytest.mark.parametrize(
    ("first", "second", "kept"), [([1, 2], [3, 4], True), ([1, 2], [2, 3], False), ([1, 2], None, False)]
)
def test_box_ids_are_kept_where_no_two_boxes_share_one(first, second, kept):
    merged = merge([data("one", ONE, source_id=first), data("two", TWO, source_id=second)])
    assert merged.dataset.boxes.source_id.tolist() == [1, 2, 3, 4]
    assert merged.renumbered == ({} if kept else {"box_id": 4})


# ------------------------------------------------------------------------------------------- same images

SAME = [("b.jpg", "dog", 2.0), ("b.jpg", "dog", 9.0), ("d.jpg", "dog", 2.0)]


def test_an_image_in_two_sources_is_refused_with_the_ways_out():
    with pytest.raises(
        DataError, match=r"1 image is both in one and in two: 'b.jpg'; same_image join .*prefix"
    ):
        merge([data("one", ONE), data("two", SAME)])


def test_join_keeps_one_of_equal_boxes():
    merged = merge([data("one", ONE), data("two", SAME)], same_image="join")
    assert table(merged.dataset) == [*ONE, ("b.jpg", "dog", 9.0), ("d.jpg", "dog", 2.0)]
    assert merged.dataset.images.name == ("a.jpg", "b.jpg", "d.jpg")
    assert (merged.joined, merged.equal) == (1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"flags": np.array([Flag.CROWD, 0, 0], np.uint16)},
        {"xyxy": np.array([[2, 1, 7, 6.5], [9, 1, 14, 6], [2, 1, 7, 6]])},
        {"category": np.array([1, 0, 0], np.int32)},
    ],
)
def test_a_box_of_other_corners_class_or_flags_is_another(change):
    other = data("two", SAME, categories=["dog", "cat"])
    other = replace(other, boxes=replace(other.boxes, **change))
    assert merge([data("one", ONE), other], same_image="join").equal == 0


def test_duplicates_inside_a_source_are_not_the_business_of_a_merge():
    twice = [*ONE, ONE[1]]
    merged = merge([data("one", twice), data("two", SAME)], same_image="join")
    assert table(merged.dataset)[:3] == twice
    assert merged.equal == 1


def test_detections_of_two_scores_are_two():
    one, two = data("one", ONE[1:], score=[0.5]), data("two", SAME[:1], score=[0.6])
    assert merge([one, two], same_image="join").equal == 0
    assert merge([one, data("two", SAME[:1], score=[0.5])], same_image="join").equal == 1


def test_join_needs_equal_sizes():
    two = data("two", SAME, size=(100, 90))
    with pytest.raises(DataError, match=r"1 image has another size in another source.*'b.jpg'"):
        merge([data("one", ONE), two], same_image="join")
    merged = merge([data("one", ONE, size=(0, 0)), two], same_image="join").dataset
    assert (merged.images.width.tolist(), merged.images.height.tolist()) == ([0, 100, 100], [0, 90, 90])


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_without_extension_is_that_of_the_picture(order):
    pair = [data("one", ONE), data("two", [("b", "dog", 3.0)])][::order]
    with pytest.raises(DataError, match="1 image is both"):
        merge(pair)
    merged = merge(pair, same_image="join").dataset
    assert sorted(merged.images.name) == ["a.jpg", "b.jpg"]
    assert sorted(left for name, _, left in table(merged) if name == "b.jpg") == [2.0, 3.0]


def test_names_that_differ_by_extension_are_two_images():
    merged = merge([data("one", [("a.jpg", "cat", 1.0)]), data("two", [("a.png", "cat", 1.0)])])
    assert merged.dataset.images.name == ("a.jpg", "a.png")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("x/one.json", "x/two.v2.json"), ("one/b.jpg", "two.v2/b.jpg")),
        (("site1/gt.json", "site2/gt.json"), ("site1/gt/b.jpg", "site2/gt/b.jpg")),
        (("gt.json", "site2/GT.json"), None),
    ],
)
def test_prefix_tells_the_sources_apart(tmp_path, monkeypatch, paths, names):
    monkeypatch.chdir(tmp_path)
    merged = merge([data(paths[0], ONE[1:]), data(paths[1], SAME[:1])], same_image="prefix").dataset
    assert len(set(merged.images.name)) == 2
    if names:
        assert merged.images.name == names


def test_prefix_keeps_the_whole_name_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("set.1", "set.2"):
        (tmp_path / name).mkdir()
    merged = merge([data("set.1", ONE[1:]), data("set.2/", SAME[:1])], same_image="prefix").dataset
    assert merged.images.name == ("set.1/b.jpg", "set.2/b.jpg")


# --------------------------------------------------------------------------------------- what is refused


def test_ground_truth_and_detections_do_not_mix():
    scored = data("two", TWO, score=[0.5, 0.6])
    with pytest.raises(UsageError, match="one is ground truth and two has detections"):
        merge([data("one", ONE), scored])
    empty = data("none", [], names=["z.jpg"], categories=["cat"])
    assert merge([empty, scored]).dataset.kind == "det"
    assert merge([empty, data("one", ONE)]).dataset.kind == "gt"


def test_numbers_and_names_of_classes_do_not_mix():
    numbers = data("two", [("c.jpg", "0", 3.0)])
    numbers = replace(numbers, categories=replace(numbers.categories, named=False))
    with pytest.raises(UsageError, match="classes of two are only numbers and those of one have names"):
        merge([data("one", ONE), numbers])
    assert not merge([numbers, data("none", [], names=["z.jpg"], categories=[])]).dataset.categories.named


@pytest.mark.parametrize(("given", "said"), [([], "nothing"), ([data("one", ONE)], "choose one of")])
def test_wrong_calls(given, said):
    with pytest.raises(UsageError, match=said):
        merge(given, same_image="merge")


# --------------------------------------------------------------------------- the rest of the tables


def test_frequencies_that_differ_become_empty_and_parents_are_those_of_the_first():
    one = data("one", ONE, frequency=["r", "c"])
    two = data("two", TWO, frequency=["f", "r"])
    above = np.array([1, -1], np.int32)
    two = replace(two, categories=replace(two.categories, parent=above))
    merged = merge([one, two])
    assert merged.dataset.categories.frequency == ("r", "", "f")
    assert merged.dataset.categories.parent.tolist() == [-1, -1, 1]
    assert sum(merged.changed.values()) == 1


def test_what_is_said_of_whole_images_is_kept_once_and_gives_way_to_boxes():
    absent, partial = LabelState.ABSENT, LabelState.PARTIAL
    one = data("one", ONE, labels=[(0, 1, absent), (1, 0, partial), (1, 0, partial)])
    two = data("two", [("a.jpg", "dog", 5.0)], labels=[])
    three = data("three", [("b.jpg", "cat", 5.0)], labels=[(0, 0, partial)])
    merged = merge([one, two, three], same_image="join")
    labels = merged.dataset.labels
    assert list(
        zip(labels.image.tolist(), labels.category.tolist(), labels.verdict.tolist(), strict=True)
    ) == [(1, 0, partial)]
    assert merged.changed == {"absences of a class of which another source has a box": 1}


rows = st.lists(
    st.tuples(
        st.sampled_from("abcdef"), st.sampled_from(["cat", "dog", "bird"]), st.integers(0, 3).map(float)
    ),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(st.lists(rows, min_size=1, max_size=4))
def test_a_join_of_sources_without_duplicates_is_the_union_of_their_boxes(sources):
    datasets = [data(f"s{i}", [(f"{n}.jpg", c, x) for n, c, x in rows]) for i, rows in enumerate(sources)]
    merged = merge(datasets, same_image="join")
    union = {row for dataset in datasets for row in table(dataset)}
    assert len(merged.dataset) == len(union)
    assert set(table(merged.dataset)) == union
    assert merged.equal == sum(map(len, datasets)) - len(union)
    assert merged.joined == sum(len(d.images) for d in datasets) - len(merged.dataset.images)
    prefixed = merge(datasets, same_image="prefix").dataset
    assert len(prefixed) == sum(map(len, datasets))
    assert len(prefixed.images) == sum(len(d.images) for d in datasets)


def test_videos_and_tracks_are_merged_by_name_and_id():
    def part(frames, tracks, video="v"):
        n = len(frames)
        return Dataset.from_arrays(
            images=[f"{video}/{frame}.jpg" for frame in frames],
            categories=["car"],
            image=np.arange(n),
            category=np.zeros(n, int),
            xyxy=np.tile([0.0, 0, 10, 10], (n, 1)),
            video=[video] * n,
            frame=frames,
            track=tracks,
        )

    merged = merge([part([1, 2], [7, 8]), part([3, 4], [8, 9]), part([1], [7], video="w")]).dataset
    assert merged.videos.name == ("v", "w")
    assert merged.images.video.tolist() == [0, 0, 0, 0, 1]
    assert merged.images.frame.tolist() == [1, 2, 3, 4, 1]
    found = [
        (int(merged.tracks.video[t]), int(merged.tracks.source_id[t])) for t in merged.boxes.track.tolist()
    ]
    assert found == [(0, 7), (0, 8), (0, 8), (0, 9), (1, 7)]
    assert len(merged.tracks) == 4


@pytest.mark.parametrize("videos", [["v", None, None], [None, "v", None], [None, None, "v"]])
def test_tracks_outside_videos_are_those_of_nobody_else(videos):
    parts = [
        Dataset.from_arrays(
            images=[f"{n}.jpg"], categories=["car"], image=[0], category=[0], xyxy=[[0, 0, 9, 9]], track=[7],
            **({"video": [video], "frame": [1]} if video else {}),
        )
        for n, video in enumerate(videos)
    ]  # fmt: skip
    merged = merge(parts).dataset
    assert sorted(merged.boxes.track.tolist()) == [0, 1, 2]
    assert sorted(merged.tracks.video.tolist()) == [-1, -1, 0]


@pytest.mark.parametrize("name", [name for name, format_ in WRITTEN.items() if "split" in format_.keeps])
def test_images_without_a_split_go_to_train(name, tmp_path):
    """Where others have one: a trainer reads only what is in a split."""
    common = {
        "categories": ["cat"],
        "image": [0],
        "category": [0],
        "xyxy": [[1, 2, 30, 40]],
        "width": [64],
        "height": [48],
    }
    parts = []
    for split in ("train", "val", ""):
        part = Dataset.from_arrays(images=[f"{split or 'more'}.jpg"], **common)
        parts.append(replace(part, images=replace(part.images, split=(split,))))
    odm.convert(parts, tmp_path / "out", to=name, log=(log := Log()))
    assert log.counts["images-without-split"] == 1
    sizes = {} if "size" in FORMATS[name].keeps else {"image_size": "64x48"}
    data = odm.read(tmp_path / "out", name, **sizes)
    assert {stem(image): split for image, split in zip(data.images.name, data.images.split, strict=True)} == {
        "train": "train", "val": "val", "more": "train",
    }  # fmt: skip
    if name == "yolo":
        keys = {
            line.partition(":")[0]
            for line in (tmp_path / "out/data.yaml").read_text().splitlines()
            if line[0] != " "
        }
        assert keys == {"train", "val", "nc", "names"}


TRAINERS = sorted(
    name for name, format_ in FORMATS.items() if format_.split_names and format_.use == "training"
)


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize(
    ("split", "place"),
    [
        ("train", "train"), ("valid", "val"), ("validation", "val"), ("test", "test"), ("minival", "minival"),
        ("dev", "train"), ("trainval", "train"), ("unsplit", "train"), ("part1", "train"),
        ("val2017", "val"), ("test-dev", "test"),
    ],
)  # fmt: skip
def test_splits_that_a_trainer_does_not_read_go_to_those_that_it_reads(name, split, place, tmp_path):
    known = FORMATS[name].split_names
    if split in ("dev", "minival"):
        place = split if split in known else "train"
    data = Dataset.from_arrays(
        images=["a.jpg", "b.jpg"],
        categories=["cat"],
        image=[0, 1],
        category=[0, 0],
        xyxy=[[1, 2, 30, 40]] * 2,
        width=[64] * 2,
        height=[48] * 2,
    )
    data = replace(data, images=replace(data.images, split=("train", split)))
    ledger = odm.convert(data, tmp_path / "out", to=name, log=(log := Log()))
    is_known = split in known
    assert log.counts["images-without-split"] == (not is_known)
    assert ledger.changed.get("images whose split is replaced", 0) == (not is_known)
    sizes = {} if "size" in FORMATS[name].keeps else {"image_size": "64x48"}
    back = odm.read(tmp_path / "out", name, **sizes)
    assert dict(zip(map(stem, back.images.name), back.images.split, strict=True)) == {
        "a": "train",
        "b": place,
    }
    if name == "yolo":
        lines = (tmp_path / "out/data.yaml").read_text().splitlines()
        assert {line.partition(":")[0] for line in lines if line[0] != " "} <= {
            *("train", "val", "test", "minival", "nc", "names"),
        }
