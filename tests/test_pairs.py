"""Every ordered pair of formats: there and back agrees on all that both keep, and is stable from then on."""

import contextlib
import copy
import functools
import hashlib
import itertools
import json
import os
import re
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from msgspec.structs import replace
from one_format import WRITTEN
from selection import examples, of_each, one_of_each, params, slow, turns

import odm
from odm.converters import load
from odm.converters.load import Request
from odm.converters.statistics import describe
from odm.evaluate.analysis.diff import TOLERANCE, diff
from odm.evaluate.analysis.pair_versions import Change
from odm.formats import FORMATS, make_options, option_specs
from odm.issues import DataError, Log, UsageError
from odm.names import stem
from odm.tables import FREQUENCIES, GROUPS, Dataset, Flag, LabelState

SLACK = 1e-9
"""Pixels; what adding and subtracting an edge costs in double precision."""
EXACT = 1e-5
"""Pixels; formats that lose more (numbers of 32 bits) need not write the same bytes the second time."""

names = st.one_of(
    st.from_regex(r"[a-z0-9_]{1,8}(\.v[0-9])?", fullmatch=True),
    st.sampled_from(["Ünïcode", "two words", "a-b+c", "007"]),
)
class_names = st.one_of(
    st.from_regex(r"[a-zA-Z]{1,9}( [a-z]{1,6})?", fullmatch=True),
    st.sampled_from(
        [
            "traffic light",
            "007",
            "null",
            "no",
            "1.0",
            "a,b",
            'say "x"',
            "a;b",
            "<b>&",
            "ö",
            "-",
            "a: b",
            "# x",
        ]
    ),
)
# In plain text the numbers are taken from the right, so a name may not end in what reads as one.
class_names = class_names.filter(lambda name: name.split(" ")[-1].lower() not in {"nan", "inf", "infinity"})
FLAGS = [0, Flag.DIFFICULT, Flag.TRUNCATED, Flag.OCCLUDED, Flag.CROWD, Flag.DIFFICULT | Flag.TRUNCATED]


@st.composite
def datasets(draw, kind=None):
    kind = kind or draw(st.sampled_from(["gt", "det"]))
    stems = sorted(draw(st.lists(names, min_size=1, max_size=4, unique_by=str.casefold)))
    classes = draw(st.lists(class_names, min_size=1, max_size=4, unique=True))
    sizes = [(draw(st.integers(1, 5000)), draw(st.integers(1, 5000))) for _ in stems]
    n = draw(st.integers(0 if kind == "gt" else 1, 8))
    image = sorted(draw(st.integers(0, len(stems) - 1)) for _ in range(n))
    step = draw(st.sampled_from([1, 0.5, 0.1, 0.01, 1e-5]))
    ltwh = []
    for i in image:
        w, h = sizes[i]
        x, y = (draw(st.integers(0, int(s / step) - 1)) * step for s in (w, h))
        bw, bh = (draw(st.integers(0, max(0, int((s - o) / step)))) * step for s, o in ((w, x), (h, y)))
        ltwh.append([round(v, 6) for v in (x, y, bw, bh)])
    return Dataset.from_arrays(
        images=[f"{s}.jpg" for s in stems],
        width=[w for w, _ in sizes],
        height=[h for _, h in sizes],
        categories=classes,
        image=image,
        category=[draw(st.integers(0, len(classes) - 1)) for _ in range(n)],
        ltwh=np.array(ltwh, float).reshape(-1, 4),
        flags=[draw(st.sampled_from(FLAGS)) if kind == "gt" else 0 for _ in range(n)],
        score=[draw(st.integers(0, 1000)) / 1000 for _ in range(n)] if kind == "det" else None,
        frequency=[draw(st.sampled_from(["", *FREQUENCIES])) for _ in classes],
        labels=draw(
            st.lists(
                st.tuples(
                    st.integers(0, len(stems) - 1),
                    st.integers(0, len(classes) - 1),
                    st.sampled_from(list(LabelState)),
                ),
                max_size=3,
                unique=True,
            )
        ),
        kind=kind,
    )


def write(dataset, path, name):
    odm.write(dataset, path, name, log=(log := Log()), keep_groups=True)
    assert not log.errors, [str(i) for i in log]


def explicit(dataset, folder, format_):
    """The options that a format's files need said: image sizes, and what tiny numbers mean."""
    names = {s.name for s in option_specs(format_.options)}
    said = {"box": "ltrb", "coords": "abs"} if {"box", "coords"} <= names else {}
    said |= {"units": "pixel"} if "units" in names else {}
    if "size" in format_.keeps or "image_sizes" not in names:
        return said
    path = Path(folder, "sizes.csv")
    rows = zip(dataset.images.name, dataset.images.width, dataset.images.height, strict=True)
    lines = ['"{}",{},{}\n'.format(n.replace('"', '""'), w, h) for n, w, h in rows if min(w, h) > 0]
    path.write_text("".join(lines), encoding="utf-8")
    return said | {"image_sizes": str(path)}


def read(path, name, kind, options):
    log = Log()
    dataset = load(Request(path=str(path), format=name, kind=kind, options=options), log).dataset
    assert not log.errors
    return dataset


def tree(path):
    path = Path(path)
    if path.is_file():
        return {"": hashlib.sha256(path.read_bytes()).hexdigest()}
    return {
        str(p.relative_to(path)): hashlib.sha256(content_of(p)).hexdigest()
        for p in sorted(path.rglob("*"))
        if p.is_file()
    }


def content_of(path):
    """The bytes of a file; of a MOT sequence without its name, which is that of its folder where it has none."""
    data = path.read_bytes()
    return re.sub(rb"(?m)^name=.*\n", b"", data) if path.name == "seqinfo.ini" else data


def rows(dataset, keeps):
    """The boxes as comparable rows, keyed by image and class names, in a canonical order."""
    flag_mask = sum(f for f in Flag if str(f.name).lower() in keeps)
    b = dataset.boxes
    result = []
    for i in range(len(b)):
        result.append(
            (
                stem(dataset.images.name[b.image[i]]),
                dataset.categories.name[b.category[i]],
                -1.0 if np.isnan(b.score[i]) or "score" not in keeps else float(b.score[i]),
                int(b.flags[i]) & flag_mask,
                b.xyxy[i].tolist(),
            )
        )
    return sorted(result, key=lambda r: (r[0], r[1], r[2], r[4], r[3]))


def assert_same(one, two, keeps, tolerance):
    first, second = rows(one, keeps), rows(two, keeps)
    # Boxes of one image and class are matched in order of place, which a rounding may not swap.
    assert [(r[0], r[1]) for r in first] == [(r[0], r[1]) for r in second]
    left = sorted(first, key=lambda r: (r[0], r[1], round(r[2], 9), [round(v, 3) for v in r[4]], r[3]))
    right = sorted(second, key=lambda r: (r[0], r[1], round(r[2], 9), [round(v, 3) for v in r[4]], r[3]))
    for a, b in zip(left, right, strict=True):
        assert a[3] == b[3]
        assert a[2] == b[2]
        np.testing.assert_allclose(a[4], b[4], rtol=0, atol=tolerance + SLACK)


def assert_named(dataset, back, ledger, format_):
    """`diff` finds no change but what the ledger names: flags, and images without objects."""
    found = diff(dataset, back, tolerance=max(TOLERANCE, format_.max_error_px) + SLACK)
    words = {**ledger.lost, **ledger.changed}
    lost = [flag for flag in Flag if str(flag.name).lower() not in format_.keeps]
    marked = dataset.boxes.has(sum(lost))
    assert found.count(Change.FLAGS) == marked.sum()
    assert bool(marked.any()) == any("attribute" in what or "cannot represent" in what for what in words)
    assert not found.change[found.change != Change.FLAGS].any()
    assert len(found.removed) <= ledger.lost.get("images without objects", 0)
    assert not len(found.added)
    assert not len(found.resized)
    assert not found.renamed.any()


def said(dataset, keeps):
    """What is said of whole images, and the frequencies that are known, in a canonical order."""
    labels, classes = dataset.labels, dataset.categories
    return sorted(
        (stem(dataset.images.name[image]), classes.name[category], int(verdict))
        for image, category, verdict in zip(labels.image, labels.category, labels.verdict, strict=True)
        if LabelState(verdict).name.lower() in keeps
    ), {
        name: frequency
        for name, frequency in zip(classes.name, classes.frequency, strict=True)
        if frequency and "frequency" in keeps
    }


def target(folder, name, format_):
    return Path(folder, name + (format_.suffixes[0] if format_.single else ""))


def reference_options(format_):
    """Detections travel with their images and classes, where the format has the choice."""
    return {"results": False} if "results" in {s.name for s in option_specs(format_.options)} else {}


CORE = {"coco", "csv", "txt", "voc", "yolo"}
CORE_PAIRS = [(a, b) for a in WRITTEN for b in WRITTEN if a == b or {a, b} <= CORE]
OTHERS = [name for name in WRITTEN if name not in CORE]


@pytest.mark.parametrize(
    ("a", "b"), params(CORE_PAIRS, [(a, b) for a, b in CORE_PAIRS if {a, b} <= CORE | {*one_of_each()}])
)
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_there_and_back(a, b, data):
    there_and_back(a, b, data)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *turns(OTHERS, sorted(CORE)),
        *(pytest.param(a, b, marks=slow) for a in sorted(CORE) for b in OTHERS),
        *(pytest.param(a, b, marks=slow) for a in OTHERS for b in OTHERS if a != b),
    ],
)
def test_there_and_back_by_a_neighbour(a, b):
    """The pairs grow with the square of the formats, so each of these gets fewer examples a run."""

    # A test of its own for each pair: Hypothesis 6.170 fails in the thousandth case of one (RecursionError).
    @seed(f"{a} {b}" if settings.default.derandomize else None)  # as the pairs differ, so do their examples
    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def one_pair(data):
        there_and_back(a, b, data)

    one_pair()


def writable(dataset, *names):
    """Whether formats can write the classes: a comma ends one in a row of ICDAR, a space in others."""
    classes = "".join(dataset.categories.name)
    return not ("icdar" in names and "," in classes) and not (
        " " in classes and any(map(refuses_spaces, names))
    )


def refuses_spaces(name):
    return any(s.name == "spaces" and s.default == "refuse" for s in option_specs(FORMATS[name].options))


def there_and_back(a, b, data):
    dataset = data.draw(datasets())
    assume(writable(dataset, a, b))
    one, two = FORMATS[a], FORMATS[b]
    keeps = one.keeps & two.keeps
    with tempfile.TemporaryDirectory() as folder:
        paths = [target(folder, f"{i}-{f.name}", f) for i, f in enumerate((one, two, one, two))]
        odm.write(dataset, paths[0], a, keep_groups=True, **reference_options(one))
        for i, (source, sink) in enumerate(((one, two), (two, one), (one, two))):
            before = tree(paths[i])
            ledger = odm.convert(
                paths[i],
                paths[i + 1],
                from_=source.name,
                to=sink.name,
                kind=dataset.kind,
                from_options=explicit(dataset, folder, source),
                to_options=reference_options(sink),
                keep_groups=True,
            )
            assert ledger.balances
            assert ledger.written == len(dataset)
            assert tree(paths[i]) == before
        back = read(paths[2], a, dataset.kind, explicit(dataset, folder, one))
        assert back.kind == dataset.kind
        error = one.max_error_px + two.max_error_px
        assert_same(dataset, back, keeps, error)
        # Class numbers that only the second format has are counted again where classes without objects are lost.
        renumbered = "category_id" in two.keeps - one.keeps and "unused" not in two.keeps
        # Where both round, the last digit of a number may still change.
        rounded = (one.max_error_px > 0 and two.max_error_px > 0) or "megadetector" in (a, b)
        if error <= EXACT and not renumbered and not rounded:
            assert tree(paths[3]) == tree(paths[1])
        else:
            twice = read(paths[3], b, dataset.kind, explicit(dataset, folder, two))
            assert_same(dataset, twice, keeps, 3 * error)  # the neighbouring number is two halves away


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_through_the_format(name, data):
    dataset = data.draw(datasets())
    assume(writable(dataset, name))
    format_ = FORMATS[name]
    frozen = {name: copy.copy(getattr(dataset.boxes, name)) for name in dataset.boxes.__struct_fields__}
    with tempfile.TemporaryDirectory() as folder:
        path, again = target(folder, "one", format_), target(folder, "two", format_)
        ledger = odm.write(dataset, path, name, keep_groups=True, **reference_options(format_))
        for key, values in frozen.items():
            np.testing.assert_array_equal(
                getattr(dataset.boxes, key), values, err_msg="writing changed its input"
            )
        back = read(path, name, dataset.kind, explicit(dataset, folder, format_))
        assert_same(dataset, back, format_.keeps, format_.max_error_px)
        assert_named(dataset, back, ledger, format_)
        labels, frequencies = said(dataset, format_.keeps)
        assert said(back, format_.keeps)[0] == labels
        assert said(back, format_.keeps)[1].items() >= frequencies.items()
        words = " ".join(ledger.lost)
        for verdict, word in (
            (LabelState.ABSENT, "class absent"),
            (LabelState.PRESENT, "class present"),
            (LabelState.PARTIAL, "not fully annotated"),
        ):
            lost = verdict in dataset.labels.verdict and verdict.name.lower() not in format_.keeps
            assert (word in words) == lost
        if "empty" in format_.keeps:
            assert {stem(n) for n in back.images.name} == {stem(n) for n in dataset.images.name}
        if "extension" in format_.keeps:
            assert set(back.images.name) <= set(dataset.images.name)
        if "unused" in format_.keeps:
            assert set(back.categories.name) == set(dataset.categories.name)
        if "order" in format_.keeps:
            assert [n for n in dataset.categories.name if n in back.categories.name] == list(
                back.categories.name
            )
        if "size" in format_.keeps:
            sizes = dict(
                zip(
                    map(stem, dataset.images.name),
                    zip(dataset.images.width, dataset.images.height, strict=True),
                    strict=True,
                )
            )
            for n, w, h in zip(back.images.name, back.images.width, back.images.height, strict=True):
                assert sizes[stem(n)] == (w, h)
        odm.write(back, again, name, keep_groups=True, **reference_options(format_))
        assert tree(again) == tree(path)
        assert ledger.balances


@pytest.mark.parametrize(
    "name", [name for name, f in WRITTEN.items() if "split" in {s.name for s in option_specs(f.options)}]
)
def test_one_split_alone(name, tmp_path):
    """`--split` reads nothing of the others: neither their boxes nor, where they are files, their faults."""
    common = {
        "categories": ["person", "face"],
        "image": [0, 0],
        "category": [0, 1],
        "xyxy": [[1, 2, 30, 40]] * 2,
    }
    parts = {
        split: Dataset.from_arrays(
            images=[f"{split}-{i}.jpg" for i in range(2)], width=[64] * 2, height=[48] * 2, **common
        )
        for split in ("train", "val")
    }
    if "split" in FORMATS[name].keeps:
        builder = odm.tables.Builder()
        for split, part in parts.items():
            for image in part.images.name:
                builder.image(image, width=64, height=48, split=split)
        boxes = parts["train"].boxes
        builder.boxes(
            image=boxes.image, category=[builder.category(c) for c in common["categories"]], xyxy=boxes.xyxy
        )
        builder.boxes(image=boxes.image + 2, category=[0, 1], xyxy=boxes.xyxy)
        odm.write(builder.build(), tmp_path / "set", name)
    else:
        for split, part in parts.items():
            odm.write(part, tmp_path / "set" / split, name)
    given = {"image_size": (64, 48)}
    whole = odm.read(tmp_path / "set", name, **given)
    assert {stem(n) for n in whole.images.name} >= {"train-0", "val-0"}
    assert set(whole.images.split) == {"train", "val"}
    for split, part in parts.items():
        one = odm.read(tmp_path / "set", name, split=split, **given)
        assert_same(part, one, frozenset(), FORMATS[name].max_error_px)
        assert set(one.images.split) == {split}
        assert {stem(n) for n in one.images.name} <= {stem(n) for n in part.images.name}
    with pytest.raises(odm.DataError, match="unknown-split") as refused:
        odm.read(tmp_path / "set", name, split="dev", **given)
    assert "splits are train, val" in str(refused.value.log.issues[0])


# -------------------------------------------------------------------- whatever is written can be read


@of_each(itertools.product(WRITTEN, ["gt", "det"], [0, 2], [[], ["person", "face"]]))
def test_a_data_set_without_boxes_or_images_comes_back_or_is_refused(name, kind, images, classes, tmp_path):
    """Also where there is no image, of which a format with a file for each image has nothing to write."""
    format_ = FORMATS[name]
    dataset = Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(images)],
        width=[64] * images,
        height=[48] * images,
        categories=classes,
        image=[],
        category=[],
        xyxy=np.zeros((0, 4)),
        score=[] if kind == "det" else None,
        kind=kind,
    )
    path = target(tmp_path, "out", format_)
    try:
        odm.write(dataset, path, name, **reference_options(format_))
    except DataError as e:
        refused = str(e)
    else:
        refused = ""
    if refused:
        assert "nothing could be read back" in refused
        assert images == 0
        assert kind == "gt" or (classes and "unused" in format_.keeps)
        assert list(tmp_path.iterdir()) == []
        return
    back = read(path, name, kind, explicit(dataset, tmp_path, format_))
    assert (len(back), back.kind) == (0, kind)
    assert len(back.images) == (images if "empty" in format_.keeps else 0)
    assert set(back.categories.name) <= set(classes)
    if "unused" in format_.keeps:
        assert back.categories.name == tuple(classes)


ODD = (
    "a,b|a;b|say \"x\"|'q'|<b>&|# x|- a|a: b|%s|{0}|1 2|cat 0.5|nan|1e5|0|-1|null|true|~|[x]|*a|!x|@x|\\|a/b|../a|..|.|con|"
    "NUL.x| a|a |a  b|\u00a0a|\u00e9|e\u0301|\ufeffa|\u200b|=1+1|x|X|File: a|a.jpg|.a|...|0--Parade|%20|?d=|C:|a\nb|a\tb"
).split("|")
odd_names = st.one_of(
    st.sampled_from(["a", "b", "d/e", "a.b", "1"]), st.sampled_from(ODD), st.text(min_size=1, max_size=5)
)
odd_edges = st.one_of(
    st.integers(-300, 600).map(float),
    st.floats(-1000, 1000).map(lambda v: round(v, 3)),
    st.sampled_from(
        [0.1 + 0.2, 1e-9, 1e6, -1e6, 1e15, 1e17, 2.0**53 + 2, 1e100, 3e300, float("nan"), float("inf")]
    ),
)
odd_lengths = st.one_of(st.integers(0, 300).map(float), st.sampled_from([0.0, 0.1, 1e-9, 1e6, 1e100, -1.0]))


SINGLE_PRECISION = {"tfrecord"}
"""Formats whose numbers have 32 bits: a score may be too small for them, and an edge has seven digits."""


@st.composite
def odd_datasets(draw, tiny=5e-324):
    """Tables as a program may make them: any name, any number."""
    kind = draw(st.sampled_from(["gt", "det"]))
    stems = draw(
        st.lists(odd_names.filter(lambda n: stem(n) == n.strip()), min_size=1, max_size=3, unique=True)
    )
    suffix = draw(st.sampled_from(["", ".jpg"]))
    classes = draw(st.lists(odd_names, min_size=1, max_size=3, unique=True))
    sizes = [draw(st.sampled_from([(100, 80), (1, 1), (0, 0), (2**31 - 1, 2**31 - 1)])) for _ in stems]
    n = draw(st.integers(0, 3))
    places = odd_edges if draw(st.booleans()) else st.integers(0, 40).map(float)
    low = np.array([[draw(places), draw(places)] for _ in range(n)], float).reshape(-1, 2)
    wh = np.array([[draw(odd_lengths), draw(odd_lengths)] for _ in range(n)], float).reshape(-1, 2)
    return Dataset.from_arrays(
        images=[s + suffix for s in stems],
        width=[w for w, _ in sizes],
        height=[h for _, h in sizes],
        categories=classes,
        image=sorted(draw(st.integers(0, len(stems) - 1)) for _ in range(n)),
        category=[draw(st.integers(0, len(classes) - 1)) for _ in range(n)],
        xyxy=np.concatenate([low, low + wh], axis=1),
        flags=[draw(st.sampled_from(FLAGS)) if kind == "gt" else 0 for _ in range(n)],
        score=[draw(st.sampled_from([0.0, 0.5, 1.0, 1e-9, tiny])) for _ in range(n)]
        if kind == "det"
        else None,
        kind=kind,
    )


@st.composite
def writing(draw, format_):
    """Options of writing."""
    chosen = {}
    for spec in option_specs(format_.options):
        if spec.side == "read" or spec.name in ("link_images", "copy_images"):
            continue
        if spec.choices:
            chosen[spec.name] = draw(st.sampled_from(spec.choices))
        elif spec.is_switch:
            chosen[spec.name] = draw(st.booleans())
        elif spec.name == "sep":
            chosen[spec.name] = draw(st.sampled_from(["", "tab", ","]))
    return chosen


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_written_is_read_or_nothing_is_written(name, data):
    """Whatever the tables hold: a writer refuses with the place, or its reader finds every box again."""
    format_ = FORMATS[name]
    single = name in SINGLE_PRECISION
    dataset = data.draw(odd_datasets(tiny=1e-30 if single else 5e-324))
    options = data.draw(writing(format_)) | reference_options(format_)
    with tempfile.TemporaryDirectory() as folder:
        path = target(folder, "out", format_)
        try:
            ledger = odm.write(dataset, path, name, keep_groups=True, **options)
        except (DataError, UsageError):
            assert not os.listdir(folder)
            return
        written = replace(format_.adapted(make_options(format_, options)), adapt=None)
        assert ledger.written == len(dataset)
        if dataset.kind == "det" and "score" not in written.keeps:
            return  # the ledger says so; what is left is neither ground truth nor detections
        names = {s.name for s in option_specs(format_.options) if s.side != "write"}
        said = explicit(dataset, folder, written) | {k: v for k, v in options.items() if k in names and v}
        back = read(path, name, dataset.kind, said)
        assert len(back) == len(dataset)
        known = [min(size) > 0 for size in zip(dataset.images.width, dataset.images.height, strict=True)]
        if all(known) and not options.get("round"):
            step = np.abs(dataset.boxes.xyxy).max(initial=1) * (1e-7 if single else 1e-9) + 1e-6
            assert_same(dataset, back, written.keeps, step)


@pytest.mark.parametrize(
    ("name", "options"),
    [("yolo", {}), ("txt", {"coords": "rel"}), ("automl", {}), ("csv", {"dialect": "openimages"})],
)
def test_a_box_too_far_outside_for_relative_coordinates(tmp_path, name, options):
    """It is named with its place and nothing is written; clipped to its image it is written."""
    source = tmp_path / "in.csv"
    source.write_text(
        "image,width,height,class,left,top,right,bottom\na,100,80,cat,10,10,105,30\na,100,80,cat,10,10,450,30\n"
    )
    path = target(tmp_path, "out", FORMATS[name])
    with pytest.raises(DataError) as raised:
        odm.convert(source, path, to=name, to_options=options)
    (issue,) = [i for i in raised.value.log if i.severity == "error"]
    assert (issue.code, issue.path, issue.line) == ("box-too-far-outside", str(source), 3)
    assert "--clip" in issue.message
    assert os.listdir(tmp_path) == ["in.csv"]
    log = odm.issues.Log()
    ledger = odm.convert(source, path, to=name, to_options=options, clip=True, log=log)
    assert (ledger.written, ledger.changed["boxes clipped to their image"]) == (2, 2)
    assert "outside-image" not in log.counts  # nobody is told to clip what is clipped
    odm.write(odm.read(source, log=log), tmp_path / "again.csv")
    assert log.counts["outside-image"] == 2


STREET = Path(__file__).parents[1] / "fixtures" / "street" / "truth.json"


@functools.cache
def street():
    return odm.read(STREET, shapes=True)


@of_each(WRITTEN)
def test_a_format_changes_only_the_shapes_that_the_ledger_names(name, tmp_path):
    """The example has outlines of one and of several parts, and people with keypoints."""
    dataset, format_ = street(), FORMATS[name]
    options = reference_options(format_) | ({"spaces": "underscore"} if refuses_spaces(name) else {})
    path = target(tmp_path, "out", format_)
    ledger = odm.write(dataset, path, name, **options)
    back = odm.read(path, format=name, kind="gt", shapes=True, **explicit(dataset, tmp_path, format_))
    found = diff(dataset, back, tolerance=max(TOLERANCE, format_.max_error_px) + SLACK)
    shapes, points = dataset.boxes.shapes, dataset.boxes.keypoints.counts() > 0

    def named(words, begins):
        return sum(n for what, n in words.items() if what.startswith(begins))

    parts = np.diff(shapes.ring) > 1
    without = named(ledger.lost, "outlines of boxes"), named(ledger.lost, "keypoints of boxes")
    joined = named(ledger.changed, "parts of outlines joined")
    assert without in {(0, 0), (0, points.sum()), (len(dataset), points.sum())}
    assert joined in {0, parts.sum()}
    changed = (without[0] > 0) | (points & (without[1] > 0)) | (parts & (joined > 0))
    assert found.count(Change.SHAPE) == changed.sum()
    renamed = named(ledger.changed, "classes with underscores") > 0
    assert (found.count(Change.RELABELLED) > 0) == renamed
    others = found.change & ~np.uint8(Change.SHAPE | Change.RELABELLED)
    assert not others.any()


WRONG = [
    ({"xyxy": [[0, 0, float("nan"), 1]]}, "coordinates-not-finite"),
    ({"xyxy": [[0, 0, float("inf"), 1]]}, "coordinates-not-finite"),
    ({"xyxy": [[5, 0, 1, 1]]}, "inverted-box"),
    ({"images": ["../a.jpg"]}, "bad-name"),
    ({"images": ["\ud800.jpg"]}, "bad-name"),
    ({"categories": ["a\nb"]}, "bad-class-name"),
    ({"categories": ["x" * 1001]}, "bad-class-name"),
    ({"score": [float("nan")], "kind": "det"}, "score-not-finite"),
    ({"score": [float("inf")], "kind": "det"}, "score-not-finite"),
]


@of_each((name, *row) for name in WRITTEN for row in WRONG)
def test_tables_that_no_reader_would_make_are_not_written(name, wrong, code, tmp_path):
    usual = {"images": ["a.jpg"], "categories": ["cat"], "xyxy": [[0, 0, 1, 1]]}
    dataset = Dataset.from_arrays(width=[9], height=[9], image=[0], category=[0], **(usual | wrong))
    with pytest.raises(DataError) as raised:
        odm.write(dataset, target(tmp_path, "out", FORMATS[name]), name)
    assert code in raised.value.log.counts
    assert not os.listdir(tmp_path)


LONG = b"x" * 1000
NOT_ALONE = {"parquet", "tfrecord", "opencv", "darknet", "fiftyone", "vertexai"}
"""Where lengths stand beside texts, and what needs the sizes of images."""


@of_each(name for name in WRITTEN if name not in NOT_ALONE)
def test_a_class_name_of_thousands_of_characters_is_an_error(name, tmp_path):
    """Read from what holds one that is just short enough."""
    dataset = Dataset.from_arrays(
        images=["a.jpg"], width=[50], height=[50], categories=[LONG.decode()], image=[0], category=[0],
        ltwh=[[1, 1, 9, 9]],
    )  # fmt: skip
    path = target(tmp_path, "out", FORMATS[name])
    odm.write(dataset, path, name)
    files = [file for file in tmp_path.rglob("*") if file.is_file() and LONG in file.read_bytes()]
    for length, is_error in ((1000, False), (1001, True)):
        for file in files:
            file.write_bytes(file.read_bytes().replace(LONG, b"x" * length))
        log = Log()
        with contextlib.suppress(DataError):
            load(Request(path=str(path), format=name), log)
        refused = {"bad-class-name", "bad-listed-class"} & log.counts.keys()
        assert bool(refused) == (is_error and bool(files)), log.counts


def test_groups_are_left_out_and_counted(tmp_path):
    dataset = Dataset.from_arrays(
        images=["a.jpg"], width=[10], height=[10], categories=["x"], image=[0, 0], category=[0, 0],
        xyxy=[[0, 0, 1, 1], [0, 0, 2, 2]], flags=[0, int(Flag.CROWD)],
    )  # fmt: skip
    for format_ in WRITTEN.values():
        holds = "crowd" in format_.keeps
        path = target(tmp_path, format_.name, format_)
        ledger = odm.write(dataset, path, format_.name)
        assert ledger.written == (2 if holds else 1)
        assert ledger.balances
        kept = odm.write(
            dataset, target(tmp_path, f"{format_.name}-kept", format_), format_.name, keep_groups=True
        )
        assert kept.written == 2
    assert GROUPS & Flag.CROWD


WITH_REGIONS = [name for name, format_ in WRITTEN.items() if "region" in format_.keeps]


@of_each(WRITTEN)
def test_regions_to_ignore_are_kept_or_counted(name, tmp_path):
    dataset = Dataset.from_arrays(
        images=["a.jpg"], width=[300], height=[300], categories=["no man's land", "person"], image=[0, 0],
        category=[1, 0], xyxy=[[10, 10, 60, 60], [100, 100, 200, 200]], flags=[0, int(Flag.REGION)],
    )  # fmt: skip
    path = target(tmp_path, "out", FORMATS[name])
    ledger = odm.write(dataset, path, name, **({"spaces": "underscore"} if refuses_spaces(name) else {}))
    assert ledger.balances
    if name not in WITH_REGIONS:
        booked = ledger.changed if "crowd" in FORMATS[name].keeps else ledger.left_out
        assert [n for what, n in booked.items() if what.startswith("regions to ignore")] == [1]
        assert ledger.categories == (2 if booked is ledger.changed else 1)
        return
    assert ledger.written == 2
    assert not ledger.left_out
    for other in WITH_REGIONS:
        then = target(tmp_path, f"then-{other}", FORMATS[other])
        ledger = odm.write(odm.read(path, name, log=Log()), then, other)
        back = odm.read(then, other, log=Log())
        assert (ledger.written, back.boxes.flags.tolist()) == (2, [0, int(Flag.REGION)])
        assert back.boxes.xyxy.tolist() == dataset.boxes.xyxy.tolist()
        assert [row.name for row in describe(back).classes] == ["person"]
        assert describe(back).boxes == 1


@of_each(WRITTEN)
def test_a_box_with_two_flags_of_groups_is_marked_if_one_can_be_marked(name, tmp_path):
    """A box is left out, and booked once, only if the target can mark none of its flags."""
    keeps = FORMATS[name].keeps & {"crowd", "region", "group_of"}
    as_crowd = "regions to ignore, written as crowd boxes of one class"
    for i, pair in enumerate(itertools.combinations((Flag.REGION, Flag.CROWD, Flag.GROUP_OF), 2)):
        dataset = Dataset.from_arrays(
            images=["a.jpg"], width=[300], height=[300], categories=["dog", "person"], image=[0, 0],
            category=[1, 0], xyxy=[[10, 10, 60, 60], [100, 100, 200, 200]], flags=[0, int(pair[0] | pair[1])],
        )  # fmt: skip
        words = {flag: flag.name.lower() for flag in pair}
        has_mark = bool(keeps & set(words.values())) or ("crowd" in keeps and Flag.REGION in pair)
        ledger = odm.write(dataset, path := target(tmp_path, f"out{i}", FORMATS[name]), name)
        assert ledger.balances
        assert (ledger.written, sum(ledger.left_out.values())) == ((2, 0) if has_mark else (1, 1))
        kept = odm.write(dataset, target(tmp_path, f"kept{i}", FORMATS[name]), name, keep_groups=True)
        assert sum(n for what, n in kept.changed.items() if "ordinary" in what) == (not has_mark)
        if not has_mark:
            continue
        # Each flag is either read again or booked.
        flags = Flag(int(odm.read(path, name, log=Log()).boxes.flags.max()))
        assert flags & GROUPS
        for flag, word in words.items():
            what = as_crowd if flag is Flag.REGION else f"the attribute {word!r}"
            assert bool(flags & flag) != (what in {**ledger.lost, **ledger.changed})


def test_the_ledger_is_plain_data(tmp_path):
    dataset = Dataset.from_arrays(
        images=["a"], width=[9], height=[9], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]]
    )
    name = next(iter(WRITTEN))
    ledger = odm.write(dataset, target(tmp_path, "out", FORMATS[name]), name)
    assert json.loads(json.dumps(ledger.to_dict()))["written"] == 1
    assert os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in WRITTEN if "score" in FORMATS[name].keeps),
        *(("csv", {"dialect": dialect}) for dialect in ("openimages", "predictionstring")),
    ],
)
def test_scores_come_back_or_are_booked_as_rounded(name, options, tmp_path):
    """Every writer of detections: with all digits of a score, or with a line in the summary."""
    scores = np.concatenate(
        [np.random.default_rng(3).random(300), [0.1 + 0.2, 1e-9, 1, 0, 1 - 2**-53, 5e-324, 0.95]]
    )
    n = len(scores)
    dataset = Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(n)], categories=["a"], image=np.arange(n), category=[0] * n,
        xyxy=[[1, 2, 30, 40]] * n, score=scores, width=[64] * n, height=[48] * n,
    )  # fmt: skip
    ledger = odm.write(
        dataset, tmp_path / f"out{FORMATS[name].suffixes[0] if FORMATS[name].single else ''}", name, **options
    )
    (path,) = tmp_path.iterdir()
    sizes = {} if "size" in FORMATS[name].keeps and not options else {"image_size": "64x48"}
    data = odm.read(path, name, kind="det", **sizes)
    rows = [int(stem(data.images.name[image]).rpartition("/")[2]) for image in data.boxes.image.tolist()]
    n_rounded = int(np.count_nonzero(data.boxes.score != scores[rows]))
    assert len(data) == n
    assert ledger.changed.get("scores rounded as the format stores them", 0) == n_rounded
