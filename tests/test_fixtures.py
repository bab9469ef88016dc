"""The fixtures are tests: one small dataset in every format, and bad input by the code of its fault.

``fixtures/mixed/FORMAT[-variant]/`` holds the same dataset in each format, ``fixtures/bad/FORMAT/CODE[-variant]/``
input that must give that code and no other. Beside the one entry that is the input there may be a ``case.json``:
``format``, ``options``, ``kind`` (gt or det), ``gt`` (what a results file refers to) and, for bad input, ``place``.
Dropping a folder adds its tests.
"""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from fixture_cases import code_of
from selection import of_each

from odm import checks
from odm.files import Source
from odm.formats import FORMATS, detect, make_options
from odm.issues import CODES, Log, UsageError
from odm.names import stem
from odm.tables import Builder, Flag, LabelState

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MIXED = sorted(p for p in FIXTURES.glob("mixed/*") if p.is_dir())
TOOLS = sorted(p for p in FIXTURES.glob("tools/*") if p.is_dir())
BAD = sorted(p for p in FIXTURES.glob("bad/*/*") if p.is_dir())

STREET, YARD = "street", "yard"
SIZES = {"empty": (320, 240), STREET: (640, 480), YARD: (500, 375)}
EXTENSIONS = {"empty": ".jpg", STREET: ".jpg", YARD: ".png"}
CLASSES = ["person", "traffic light", "007"]
BOXES = [
    (STREET, "person", (10, 20, 100, 200), 0),
    (STREET, "person", (300.5, 40.25, 50.5, 100.75), Flag.DIFFICULT),
    (STREET, "traffic light", (600, 0, 40, 120), Flag.TRUNCATED),
    (YARD, "007", (0, 0, 500, 375), 0),
    (YARD, "person", (100, 50, 30, 60), Flag.OCCLUDED),
    (YARD, "traffic light", (250, 300, 125, 75), 0),
]
SCORES = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
FREQUENCIES = ["f", "c", "r"]
LABELS = [
    ("empty", "007", LabelState.ABSENT),
    ("empty", "traffic light", LabelState.ABSENT),
    (YARD, "person", LabelState.PARTIAL),
]


@dataclasses.dataclass
class Case:
    folder: Path

    def __post_init__(self):
        described = self.folder / "case.json"
        self.said = json.loads(described.read_text(encoding="utf-8")) if described.exists() else {}
        known = {
            "format",
            "options",
            "kind",
            "gt",
            "place",
            "lacks",
            "doubts",
            "tool",
            "boxes",
            "shapes",
            "says",
        }
        assert set(self.said) <= known, f"{described}: unknown keys {set(self.said) - known}"
        others = [p for p in sorted(self.folder.iterdir()) if p.name != "case.json"]
        entries = [p for p in others if p.name.startswith("input")] or others
        assert len(entries) == 1, f"{self.folder}: expected one input, found {[p.name for p in others]}"
        self.input = entries[0]

    def format_of(self, default):
        return FORMATS[self.said.get("format", default)]

    def source(self):
        """The input as a user names it from the folder of the case, so that messages do not depend on the place."""
        return Source(os.path.relpath(self.input))

    def read(self, format_, log, *, shapes=False):
        options = {}
        for name, value in self.said.get("options", {}).items():
            beside = self.folder / value if isinstance(value, str) and value else None
            options[name] = os.path.relpath(beside) if beside is not None and beside.exists() else value
        builder = Builder(self.other)
        builder.kind = self.said.get("kind")
        builder.wants = frozenset(WORDS if shapes else ())
        source = self.source()
        format_.read(source, builder, log, make_options(format_, options))
        source.report_links(log)
        return builder.build()

    def other(self):
        if "gt" not in self.said:
            return None
        source, builder, log = Source(str(self.folder / self.said["gt"])), Builder(), Log()
        format_ = detect(source, log)
        format_.read(source, builder, log, format_.options())
        assert not log.errors
        return builder.build()


@pytest.fixture
def log():
    return Log(keep=1000)


def named(folder):
    """The format that a folder of `mixed` is named after, and the rest of its name."""
    fits = [name for name in FORMATS if folder.name == name or folder.name.startswith(name + "-")]
    assert len(fits) == 1, f"{folder.name} must begin with the name of a format"
    return fits[0], folder.name[len(fits[0]) + 1 :]


mixed = pytest.mark.parametrize("folder", MIXED, ids=[p.name for p in MIXED])


@mixed
def test_mixed_reads_to_the_same_tables(folder, log):
    name, variant = named(folder)
    case = Case(folder)
    format_ = case.format_of(name)
    data = case.read(format_, log)
    doubts = set(case.said.get("doubts", ()))
    assert set(log.counts) == doubts, list(map(str, log))
    assert not checks.run(data, log, all_rules=True).any()
    assert set(log.counts) == doubts, list(map(str, log))
    assert data.skipped == 0
    keeps = format_.keeps - set(case.said.get("lacks", ()))

    images = {stem(n).rpartition("/")[2]: i for i, n in enumerate(data.images.name)}
    assert len(images) == len(data.images)
    wanted = set(SIZES) if "empty" in keeps and not variant else {STREET, YARD}
    assert wanted <= set(images) <= set(SIZES)
    for key, i in images.items():
        size = (int(data.images.width[i]), int(data.images.height[i]))
        allowed = [SIZES[key]] if "size" in keeps and not variant else [SIZES[key], (0, 0)]
        assert size in allowed, key
        full = data.images.name[i].rpartition("/")[2]
        allowed = (
            [key + EXTENSIONS[key]] if "extension" in keeps and not variant else [key + EXTENSIONS[key], key]
        )
        assert full in allowed
    classes = list(data.categories.name)
    assert sorted(classes) == sorted(CLASSES)
    if "order" in keeps:
        assert classes == CLASSES
    if not variant:
        frequencies = FREQUENCIES if "frequency" in keeps else [""] * len(classes)
        assert sorted(zip(data.categories.frequency, classes, strict=True)) == sorted(
            zip(frequencies, CLASSES, strict=True)
        )
        labels = data.labels
        assert [
            (images_of(data, image), classes[category], verdict)
            for image, category, verdict in zip(labels.image, labels.category, labels.verdict, strict=True)
        ] == [label for label in LABELS if label[2].name.lower() in keeps]

    boxes = data.boxes
    det = data.kind == "det"
    found = sorted(
        (
            images_of(data, boxes.image[i]),
            classes[boxes.category[i]],
            tuple(boxes.xyxy[i]),
            tuple(boxes.wh[i]),
            boxes.score[i],
            int(boxes.flags[i]),
        )
        for i in range(len(boxes))
    )
    expected = sorted(
        (i, c, *location(ltwh, i, det=det), f, s) for (i, c, ltwh, f), s in zip(BOXES, SCORES, strict=True)
    )
    assert len(found) == len(expected)
    slack = format_.max_error_px + 1e-6
    kept = sum(int(flag) for flag in Flag if flag.name.lower() in keeps)
    for (image, category, xyxy, wh, score, flags), (image2, category2, xyxy2, wh2, flags2, score2) in zip(
        found, expected, strict=True
    ):
        assert (image, category) == (image2, category2)
        np.testing.assert_allclose(xyxy, xyxy2, rtol=0, atol=slack)
        np.testing.assert_allclose(wh, wh2, rtol=0, atol=2 * slack)
        if det:
            assert score == score2
        else:
            assert np.isnan(score)
            if variant:
                assert flags & ~int(flags2) == 0
            else:
                assert flags == int(flags2) & kept


def images_of(data, row):
    return stem(data.images.name[row]).rpartition("/")[2]


def location(ltwh, image, *, det):
    """Edges and size of a box; detections lie two pixels to the right and one below where that is inside."""
    left, top, width, height = ltwh
    if det and left + 2 + width <= SIZES[image][0] and top + 1 + height <= SIZES[image][1]:
        left, top = left + 2, top + 1
    return (left, top, left + width, top + height), (width, height)


@mixed
def test_mixed_is_detected_as_its_own_format_alone(folder, log):
    name, _ = named(folder)
    case = Case(folder)
    source = case.source()
    if case.said.get("options"):  # what must be told cannot be detected, but must not be mistaken either
        answers = {n for n, f in FORMATS.items() if f.sniff(source) is not None}
        assert answers <= {name} or detect(source, log).name == name
        if not answers:
            with pytest.raises(UsageError, match="no format recognises"):
                detect(source, log)
            return
    assert detect(source, log).name == name
    assert any(f"read as {name}, because " in note for note in log.notes)
    answers = {n: a for n, f in FORMATS.items() if (a := f.sniff(Case(folder).source())) is not None}
    best = max(a.confidence for a in answers.values())
    assert [n for n, a in answers.items() if a.confidence == best] == [name]


@mixed
def test_reading_changes_nothing_on_the_disk(folder, log):
    def state():
        return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(folder.rglob("*"))}

    before = state()
    name, _ = named(folder)
    case = Case(folder)
    case.read(case.format_of(name), log)
    assert state() == before


# ------------------------------------------------------------------------------------ as tools write them


def rows(data):
    """What `boxes` of a case say: image, class, corners, flags and score of each box."""
    boxes, found = data.boxes, []
    for i in range(len(boxes)):
        row = {"image": data.images.name[boxes.image[i]], "class": data.categories.name[boxes.category[i]]}
        row["box"] = [round(v, 6) for v in boxes.xyxy[i].tolist()]
        if flags := [flag.name.lower() for flag in Flag if boxes.flags[i] & flag]:
            row["flags"] = flags
        if not np.isnan(boxes.score[i]):
            row["score"] = float(boxes.score[i])
        found.append(row)
    return found


@pytest.mark.parametrize("folder", TOOLS, ids=[p.name for p in TOOLS])
def test_files_as_their_tools_write_them(folder, log):
    name, _ = named(folder)
    case = Case(folder)
    data = case.read(FORMATS[name], log)
    assert not checks.run(data, log).any()
    assert rows(data) == case.said["boxes"], list(map(str, log))
    assert set(log.counts) == set(case.said.get("doubts", ())), list(map(str, log))
    assert data.skipped == 0
    assert detect(case.source(), Log()).name == name


@of_each(TOOLS)
def test_files_of_tools_are_detected_as_their_own_format_alone(folder):
    name, _ = named(folder)
    source = Case(folder).source()
    answers = {n: a.confidence for n, f in FORMATS.items() if (a := f.sniff(source)) is not None}
    assert [n for n, confidence in answers.items() if confidence == max(answers.values())] == [name]


WORDS = ("polygon", "mask", "oriented", "keypoints")


def shapes_of(data):
    """What `shapes` of a case say: outlines, mask or corners, and keypoints of each box, none where it has none."""
    shapes, points, found = data.boxes.shapes, data.boxes.keypoints, []
    for i in range(len(data.boxes)):
        said = {}
        if shapes is not None and shapes.kind[i]:
            outlines = [np.round(outline, 6).ravel().tolist() for outline in shapes.polygons(i)]
            said[WORDS[shapes.kind[i] - 1]] = outlines or shapes.counts(i).decode()
        if points is not None and len(points.points(i)):
            said["keypoints"] = np.round(points.points(i), 6).ravel().tolist()
        found.append(said)
    return found


@pytest.mark.parametrize("folder", [p for p in TOOLS if Case(p).said.get("shapes")], ids=lambda p: p.name)
def test_shapes_as_their_tools_write_them(folder, log):
    name, _ = named(folder)
    data = Case(folder).read(FORMATS[name], log, shapes=True)
    assert shapes_of(data) == Case(folder).said["shapes"], list(map(str, log))
    assert rows(data) == Case(folder).said["boxes"], "as many boxes as without shapes, at the same places"
    assert set(log.counts) == set(Case(folder).said.get("doubts", ())) - {"outlines-as-boxes"}
    assert not {"segmentation", "rotation", "keypoints"} & set(data.extras)


# -------------------------------------------------------------------------------------------- bad input

VALIDATE_ONLY = {rule.code.name for rule in checks.RULES if rule.validate_only}


@of_each(BAD)
def test_bad_input_gives_its_code_and_no_other(folder):
    log = Log(keep=1000)
    code = CODES[code_of(folder, CODES)]
    case = Case(folder)
    data = case.read(case.format_of(folder.parent.name), log)
    if not log.errors or code.name in VALIDATE_ONLY:
        wrong = checks.run(data, log, all_rules=code.name in VALIDATE_ONLY)
        rules = {r.code.name for r in checks.RULES if isinstance(r, checks.BoxRule)}
        if code.name in rules and code.severity == "error":
            assert wrong.any()
    shown = "\n".join(map(str, log))
    also = {checks.FOLLOWS.get(code.name)}
    assert set(log.counts) - also == {code.name}, shown or "nothing was reported"
    issues = [i for i in log if i.code == code.name]
    for issue in issues:
        assert str(issue).isprintable()
        assert re.fullmatch(rf".+: {code.severity} {code.name}( \[[^]]+\])? .+; .+", str(issue))
        assert os.path.lexists(issue.path), issue.path
        assert not re.search(r"\{[a-z]+\}", issue.message), "a value is missing"
    if "place" in case.said:
        home = os.path.relpath(folder) + "/"
        places = {i.location.removeprefix(home) for i in issues}
        assert any(p == case.said["place"] or p.startswith(case.said["place"] + ":") for p in places), shown
