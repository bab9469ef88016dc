"""Statistics: every number against a plain count, and the pictures."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from selection import slow

import odm
from odm.converters.plots import save_plots
from odm.converters.statistics import describe
from odm.issues import Log
from odm.tables import Dataset, Flag

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
PICTURES = {"objects_per_class", "boxes_per_image", "areas", "aspect_ratios", "box_sizes", "image_sizes"}


def random_dataset(seed, kind="gt", n=400, n_images=60, n_classes=9):
    random = np.random.default_rng(seed)
    image = random.integers(0, max(n_images - 5, 1), n)
    wh = np.exp(random.normal(3.5, 1.2, (n, 2)))
    wh[::40] = 0
    wh[1::40] = (32, 32)
    wh[2::40] = (96, 96)
    return Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(n_images)],
        categories=[f"class {i}" for i in range(n_classes)],
        width=random.choice([0, 640, 500], n_images),
        height=random.choice([480, 375], n_images),
        image=image,
        category=random.integers(0, max(n_classes - 2, 1), n),
        ltwh=np.concatenate([random.random((n, 2)) * 100, wh], axis=1),
        area=np.where(random.random(n) < 0.3, random.random(n) * 20_000, np.nan),
        flags=random.choice([0, 0, Flag.CROWD, Flag.DIFFICULT | Flag.TRUNCATED], n),
        score=np.round(random.random(n), 1) if kind == "det" else None,
    )


@pytest.mark.parametrize("kind", ["gt", "det"])
@pytest.mark.parametrize("seed", range(3))
def test_every_number_against_a_plain_count(seed, kind):
    data = random_dataset(seed, kind)
    s = describe(data)
    boxes = data.boxes
    areas = [
        float(a) if not math.isnan(a) else float(w) * float(h)
        for a, (w, h) in zip(boxes.area, boxes.wh, strict=True)
    ]

    def size(area):
        return "small" if area < 32 * 32 else "medium" if area < 96 * 96 else "large"

    assert s.areas == {key: sum(size(a) == key for a in areas) for key in ("small", "medium", "large")}
    per_image = [int((boxes.image == i).sum()) for i in range(len(data.images))]
    assert dict(s.images_by_boxes) == Counter(per_image)
    assert s.images_without_boxes == per_image.count(0)
    assert s.boxes_per_image.mean == pytest.approx(sum(per_image) / len(per_image))
    for c, row in enumerate(s.classes):
        mine = [i for i in range(len(boxes)) if boxes.category[i] == c]
        assert row.name == data.categories.name[c]
        assert row.boxes == len(mine)
        assert row.images == len({int(boxes.image[i]) for i in mine})
        for key in ("small", "medium", "large"):
            assert getattr(row, key) == sum(size(areas[i]) == key for i in mine)
        assert row.share == len(mine) / len(boxes)
    ratios = [w / h for w, h in boxes.wh.tolist() if w > 0 and h > 0]
    assert s.aspect.n == len(ratios) == sum(g.n for g in s.aspects)
    for group in s.aspects:
        low = -math.inf if group.lower is None else group.lower
        high = math.inf if group.upper is None else group.upper
        assert group.n == sum(low <= r < high for r in ratios)
    sizes = Counter(
        (int(w), int(h))
        for w, h in zip(data.images.width, data.images.height, strict=True)
        if w > 0 and h > 0
    )
    assert {(w, h): n for w, h, n in s.image_sizes} == sizes
    assert [n for *_, n in s.image_sizes] == sorted(sizes.values(), reverse=True)
    assert s.images_without_size == len(data.images) - sum(sizes.values())
    assert s.flags == {
        flag.name.lower(): n for flag in Flag if (n := sum(bool(f & flag) for f in boxes.flags.tolist()))
    }
    assert s.area.median == float(np.median(areas))
    if kind == "gt":
        assert s.score.n == 0
        assert s.scores == ()
    else:
        assert sum(g.n for g in s.scores) == s.score.n == len(boxes)
        assert s.score.max == float(boxes.score.max())


def test_the_first_row_of_shapes_is_named_in_the_text(tmp_path, odm_run):
    arrays = {"images": ["a.jpg"], "width": [30], "height": [30], "categories": ["cat"], "image": [0] * 3}
    data = Dataset.from_arrays(
        **arrays, category=[0] * 3, xyxy=[[1, 1, 9, 9]] * 3, polygons=[[[(1, 1), (9, 1), (9, 9)]], [], []],
        keypoints=[[(5, 5, 2)], [(6, 6, 2)], []],
    )  # fmt: skip
    odm.write(data, tmp_path / "a.json", "coco")
    rows = odm_run("stats", tmp_path / "a.json").out.splitlines()
    (at,) = [n for n, row in enumerate(rows) if "boxes with outlines" in row]
    assert re.fullmatch(r"\s*shapes\s+1\s+boxes with outlines.*", rows[at])
    assert re.fullmatch(r"\s+2\s+boxes with keypoints.*", rows[at + 1])


@pytest.mark.parametrize("seed", range(3))
def test_points_and_shapes_against_a_plain_count(seed):
    random = np.random.default_rng(seed)
    names = ["person", "dog", "ox"]
    category = random.integers(0, 2, 12).tolist()
    points = [
        []
        if random.random() < 0.2
        else [(9, 9, v) for v in random.choice([0, 1, 2], 3 + c, p=[0.2, 0.2, 0.6])]
        for c in category
    ]
    triangle = [(1, 1), (5, 1), (5, 5)]
    outlines = [[triangle, triangle + [(1, 9)]][: random.integers(0, 3)] for _ in category]
    arrays = {"images": ["a"], "width": [30], "height": [30], "categories": names, "image": [0] * 12}
    data = Dataset.from_arrays(
        **arrays, category=category, xyxy=[[1, 1, 9, 9]] * 12, keypoints=points, polygons=outlines
    )
    shapes = describe(data).shapes
    assert shapes.with_points == sum(map(bool, points))
    assert shapes.outlined == sum(map(bool, outlines))
    assert shapes.outlines == sum(map(len, outlines))
    assert shapes.several == sum(len(o) > 1 for o in outlines)
    assert shapes.corners == sum(len(ring) for o in outlines for ring in o)
    expected = []
    for c, name in enumerate(names):
        of_class = [p for p, own in zip(points, category, strict=True) if own == c and p]
        for k in range(max(map(len, of_class), default=0)):
            seen = [p[k][2] for p in of_class]
            expected.append((name, str(k), seen.count(2), seen.count(1), len(of_class)))
    assert [(p.category, p.name, p.visible, p.hidden, p.objects) for p in shapes.points] == expected


def test_nothing_is_no_number():
    data = Dataset.from_arrays(images=[], categories=[], image=[], category=[], xyxy=[])
    text = json.dumps(describe(data).to_dict(), allow_nan=False)
    assert json.loads(text)["area"] == {"n": 0, "min": None, "median": None, "mean": None, "max": None}
    data = Dataset.from_arrays(images=["a"], categories=["x"], image=[], category=[], xyxy=[])
    s = describe(data)
    assert s.classes[0].share is None
    assert s.images_by_boxes == ((0, 1),)


def test_json_is_in_full_precision(odm_run):
    out, _ = odm_run("stats", FIXTURES / "mixed" / "coco" / "input.json", "--output", "json")
    data = json.loads(out)
    assert data["version"] == 1
    assert data["format"] == "coco"
    assert (data["images"], data["boxes"], len(data["classes"])) == (3, 6, 3)
    assert data["classes"][0]["share"] == 0.5
    assert data["image_width"]["mean"] == (320 + 640 + 500) / 3
    assert data["images_by_boxes"] == [{"boxes": 0, "images": 1}, {"boxes": 3, "images": 2}]
    assert data["left_out"] == 0


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_tables(odm_run, output):
    out, err = odm_run("stats", FIXTURES / "mixed" / "voc" / "input", "--output", output)
    assert "traffic light" in out
    assert "33.33 %" in out
    assert "640 x 480" in out
    assert re.search(r"\b3\b.*marked|marked", out)
    assert out.endswith("\n")
    assert not any(line != line.rstrip() for line in out.splitlines())
    assert "note:" in err
    assert odm_run("stats", FIXTURES / "mixed" / "voc" / "input", "--quiet")[1] == ""


def test_shares_are_of_all_images_or_boxes(odm_run):
    """Every share on the terminal is that of its row in the sum of its table."""
    out, _ = odm_run("stats", FIXTURES / "street" / "truth.json")
    tables = [table.split("\n") for table in out.split("\n\n") if " %" in table]
    assert len(tables) == 5
    for table in tables:
        rows = re.findall(r"(\d+) +(\d+\.\d\d) %", "\n".join(table))
        total = 12 if "Images" in table[0] else 89
        assert sum(int(n) for n, _ in rows) == total
        assert [f"{100 * int(n) / total:.2f}" for n, _ in rows] == [share for _, share in rows]


def test_many_images_are_shown_in_ranges(odm_run, tmp_path):
    labels = tmp_path / "labels"
    labels.mkdir()
    for i in range(30):
        (labels / f"{i}.txt").write_text("a|b 1 2 30 40\n" * i)
    out, _ = odm_run("stats", labels, "--format", "txt", "--box", "ltrb")
    table = out.split("Images by number of boxes\n")[1].split("\n\n")[0]
    assert re.search(r"^3 to 5 +3 ", table, re.MULTILINE)
    assert sum(int(line.split()[-3]) for line in table.splitlines()[1:]) == 30
    out, _ = odm_run("stats", labels, "--format", "txt", "--box", "ltrb", "--output", "markdown")
    assert "a\\|b" in out


def test_bad_data_is_refused(odm_run, tmp_path):
    (tmp_path / "a.txt").write_text("dog 1 2 3 4\ndog 1 2 three 4\n")
    odm_run("stats", tmp_path, "--format", "txt", "--box", "ltrb", code=1)
    out, _ = odm_run("stats", tmp_path, "--format", "txt", "--box", "ltrb", "--skip-bad", "--output", "json")
    assert json.loads(out)["left_out"] == 1
    odm_run("stats", tmp_path, "--format", "txt", "--boxes", "ltrb", code=2)
    odm_run("stats", tmp_path, "--format", "txt", "-O", "boxes=ltrb", code=2)
    odm_run("stats", tmp_path / "none", code=3)


# ------------------------------------------------------------------------------------------------ pictures


BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@slow
def test_plots_are_drawn_twice_alike(tmp_path):
    pytest.importorskip("matplotlib")
    data = random_dataset(1, "det")
    names = save_plots(data, describe(data), str(tmp_path / "one"), Log())
    save_plots(data, describe(data), str(tmp_path / "two"), Log())
    assert set(names) == {f"{n}.{suffix}" for n in {*PICTURES, "scores"} for suffix in BEGINNINGS}
    for name in names:
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes()
        assert first.startswith(BEGINNINGS[name.rpartition(".")[2]])


@pytest.mark.parametrize("n", [0, 1])
def test_plots_of_next_to_nothing(tmp_path, n, only_svg):
    pytest.importorskip("matplotlib")
    data = Dataset.from_arrays(
        images=["a"], categories=["$x^2$ \u4e2d <&> " + "long " * 20], width=[5], height=[5],
        image=[0] * n, category=[0] * n, xyxy=[[1, 1, 1, 3]] * n,
    )  # fmt: skip
    names = save_plots(data, describe(data), str(tmp_path / "out"), Log())
    assert {"objects_per_class.svg", "boxes_per_image.svg", "image_sizes.svg"} <= set(names)
    assert ("areas.svg" in names) == bool(n)
    assert "scores.svg" not in names


def test_plots_of_an_image_full_of_boxes(tmp_path, only_svg):
    pytest.importorskip("matplotlib")
    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x"], image=[0] * 500, category=[0] * 500, xyxy=[[1, 1, 2, 3]] * 500,
        score=[50.0] * 500,
    )  # fmt: skip
    names = save_plots(data, describe(data), str(tmp_path / "out"), Log())
    assert "boxes_per_image.svg" in names
    assert "image_sizes.svg" not in names


@pytest.mark.parametrize("n", [1, 8, 500])
def test_counts_are_whole_and_nothing_is_cut(n):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from odm.converters.plots import _list_plots

    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x"], width=[640, 30], height=[480, 20], image=[0] * n + [1] * n,
        category=[0] * 2 * n, xyxy=[[1, 1, 11, 31]] * 2 * n, score=[0.5] * 2 * n,
    )  # fmt: skip
    for name, draw, height in _list_plots(data, describe(data)):
        figure = Figure(figsize=(8, height))
        axes = figure.add_subplot()
        draw(axes)
        figure.draw_without_rendering()
        for one in figure.axes:
            for axis, bounds in ((one.xaxis, one.get_xlim()), (one.yaxis, one.get_ylim())):
                if axis.get_label_text() in ("boxes", "images"):
                    ticks = [t for t in axis.get_majorticklocs() if min(bounds) <= t <= max(bounds)]
                    assert ticks, name
                    assert all(t == int(t) >= 0 for t in ticks), name
        if name == "image_sizes":
            assert axes.get_xlim()[1] > 660
            assert axes.get_ylim()[1] > 500
        if name == "boxes_per_image":
            legend = axes.get_legend().get_window_extent()
            assert legend.y0 >= axes.get_window_extent().y1


@pytest.mark.parametrize(
    ("scores", "first", "last"),
    [([0, 1], 0, 1), ([0.25, 0.5], 0, 1), ([0.5, 1.5], 0.5, 1.5), ([-1, 0.5], -1, 0.5)],
)
def test_bars_of_scores_go_from_0_to_1_or_around_all(scores, first, last):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from odm.converters.plots import _draw_scores

    axes = Figure().add_subplot()
    _draw_scores(axes, np.array([*scores, np.nan]))
    bars = axes.patches
    assert [bars[0].get_x(), bars[-1].get_x() + bars[-1].get_width()] == pytest.approx([first, last])


def test_signs_that_the_font_lacks_are_said_once(tmp_path, only_svg):
    pytest.importorskip("matplotlib")
    data = Dataset.from_arrays(
        images=["a"], categories=["\u4eba", "\u4eba \u72d7"], image=[0], category=[0], xyxy=[[1, 1, 11, 31]]
    )
    log = Log()
    save_plots(data, describe(data), str(tmp_path / "out"), log)
    (note,) = log.notes
    assert "the font has no glyphs for \u4eba, \u72d7, which" in note


def test_plots_from_the_command_line(odm_run, tmp_path, request):
    pytest.importorskip("matplotlib")
    source = FIXTURES / "mixed" / "voc" / "input"
    _, err = odm_run("stats", source, "--plots", tmp_path / "p")
    assert "18 pictures" in err
    assert {p.stem for p in (tmp_path / "p").iterdir()} == PICTURES
    request.getfixturevalue("only_svg")
    odm_run("stats", source, "--plots", tmp_path / "p", code=3)
    odm_run("stats", source, "--plots", tmp_path / "p", "--overwrite")
    odm_run("stats", source, "--plots", source / "p", code=3)


def test_without_matplotlib_the_way_out_is_said(odm_run, tmp_path, monkeypatch):
    import builtins

    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "matplotlib":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    _, err = odm_run("stats", FIXTURES / "mixed" / "voc" / "input", "--plots", tmp_path / "p", code=2)
    assert "pip install matplotlib" in err
    assert not (tmp_path / "p").exists()
