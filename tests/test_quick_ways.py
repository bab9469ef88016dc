"""Formats of annotation tools are read as columns where all is as usual, else value by value: both agree on everything."""

import copy
import dataclasses
import json
import random
import re

import numpy as np
import pytest
from selection import SLOW, examples

import odm
from odm.files import Source
from odm.formats import FORMATS, make_options
from odm.formats._shared.json_records import Records
from odm.formats._shared.json_values import Nothing, Reader
from odm.formats.cvat import reader as cvat
from odm.issues import Log
from odm.tables import Builder


class Written(str):
    """JSON as it is to be written."""

    __slots__ = ()


class Pairs(list):
    """An object as a list of its pairs, so that a key can stand twice."""


def parse(text):
    return json.loads(text, object_pairs_hook=lambda pairs: Pairs(map(list, pairs)))


def dump(value):
    if isinstance(value, Written):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{dump(key)}: {dump(inner)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value)


ODD = [
    "5", "", " ", "a:b", "person", "polygon", "\n", "x" * 300, "a.jpg", "../b.jpg", None, True, False, 0, 1, -1, 1.5, 0.5,
    2**31, 2**63, 1e300, [], [1], [[1, 2]], [[1, 2], [3, 4]], ["cat"], ["cat", "dog"], ["a", 1], Pairs(),
    Pairs([["a", 1]]), Pairs([["difficult", True]]), Pairs([["a", 1], ["a", 2]]), "difficult", "0.5", "1e999",
    *map(Written, ("NaN", "-Infinity", "1e999", "-0.0", "-0", "1" * 305, "1" * 400, "1e301", "640.0", "[ ]", "{ }")),
    *map(Written, (r'"\ud800"', r'"\u003a"', r'"cat"', r'"\u0063at"', "nul", '"\x01"', "01")),
]  # fmt: skip
EXTRA = [
    "id",
    "score",
    "confidence",
    "note",
    "flags",
    "mask",
    "attributes",
    "width",
    "meta",
    "a:b",
    "label",
    "tags",
]


def places(value):
    """Every list or object, with the positions in it."""
    if isinstance(value, list):
        yield value
        for inner in value:
            yield from places(inner[1] if isinstance(value, Pairs) else inner)


def change(value, rng):
    """Change one thing somewhere."""
    inner = rng.choice(list(places(value)))
    at = rng.randrange(len(inner)) if inner else None
    action = rng.choice(["odd", "odd", "odd", "drop", "twice", "add", "move"])
    if action == "add" or at is None:
        odd = copy.deepcopy(rng.choice(ODD))
        inner.insert(
            rng.randint(0, len(inner)), [rng.choice(EXTRA), odd] if isinstance(inner, Pairs) else odd
        )
    elif action == "drop":
        del inner[at]
    elif action == "twice":
        inner.append(copy.deepcopy(inner[at]))
    elif action == "move":
        inner.insert(0, inner.pop(at))
    elif isinstance(inner, Pairs):
        inner[at] = [inner[at][0], copy.deepcopy(rng.choice(ODD))]
    else:
        inner[at] = copy.deepcopy(rng.choice(ODD))


XML_ODD = [
    ('"cat"', '"a&amp;b"'), ('"cat"', '"a:b"'), ('"cat"', "'cat'"), ('"cat"', '""'), ('"cat"', '"a\tb"'), ('"cat"', '"Ä"'),
    ('"cat"', '"\ufffe"'), ("<image ", "<image\n"), ("<box ", "<box\n "), ("<box ", "<box  "), ("<box", "<polygon"),
    ("</box>", "x</box>"), ("</box>", "<!-- --></box>"), ("</box>", "</image>"), ("</box>", "<?x?></box>"), ("\n", "\r\n"),
    ('occluded="0"', 'occluded="2"'), ('occluded="0"', ""), ('occluded="0"', 'occluded="true"'), ("\n", ""), ("\n", "\n\n"),
    ('xtl="', 'xtl=" '), ('xtl="', 'xtl="x'), ('xtl="', 'xtl="0'), ('xtl="', 'xtl="-'), ('ybr="', 'ybr="1e'), ("ybr=", "yb="),
    ('z_order="0"', 'z_order="0" rotation="30"'), ('z_order="0"', 'z_order="0" z_order="1"'), ('z_order="0"', 'track_id="3"'),
    ("true<", "maybe<"), ("true<", "&#116;rue<"), ("true<", " True <"), ('name="difficult"', 'name="color"'),
    ("0.5<", "nan<"), ("0.5<", "<"), ('name="a.jpg"', 'name="b.jpg"'), ('name="a.jpg"', 'name="../a.jpg"'),
    ('name="a.jpg"', 'name=""'), ('name="a.jpg"', 'name="a.jpg" subset="train"'), ('width="', 'width="x'),
    ('width="640"', ""), ('width="640"', 'width="0"'), ('width="640"', 'width="640.0"'), ("</image>", "</image><track/>"),
    ("</image>", "</image>x"), ("</annotations>", ""), ("</annotations>", "</annotations>x"), ("</annotations>\n", "<"), ("</meta>", ""),
    ("</meta>", '</meta><image name="c.jpg"/>'), ('"></image>', '"/>'), ("utf-8", "latin-1"), ("utf-8", "ascii"),
]  # fmt: skip


def change_xml(text, rng):
    old, new = rng.choice(XML_ODD)
    found = [m.start() for m in re.finditer(re.escape(old), text)]
    if not found:
        return text
    at = rng.choice(found)
    return text[:at] + new + text[at + len(old) :]


def rect(rng):
    return [
        rng.choice([0, 1.5, 10, 100.25]),
        rng.choice([0.0, 2, 7.125]),
        rng.choice([1, 30.5]),
        rng.choice([2, 40]),
    ]


def boxes(rng):
    return [(rng.choice(["cat", "dog", "a:b", "Ä"]), *rect(rng)) for _ in range(rng.randrange(4))]


def images(rng):
    return {name: boxes(rng) for name in ("a.jpg", "b.jpg", "c:d.png")[: rng.randint(1, 3)]}


def fiftyone(rng):
    classes = rng.choice([None, ["cat", "dog", "a:b", "Ä"]])

    def box(name, *xywh):
        label = name if classes is None else rng.choice([name, classes.index(name)])
        more = rng.choice([{}, {"confidence": 0.5}, {"attributes": {"difficult": True}}, {"index": 3}])
        return {"label": label, "bounding_box": [v / 640 for v in xywh]} | more

    labels = {name: [box(*b) for b in found] for name, found in images(rng).items()}
    return {"labels.json": {"classes": classes, "labels": labels}}


def cvat_xml(rng):
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        "<annotations>",
        "<meta><task><labels><label><name>dog</name>",
    ]
    lines.append("</label></labels></task></meta>")
    for name, found in images(rng).items():
        lines.append(f'  <image id="0" name="{name}" width="640" height="480">')
        for label, x, y, w, h in found:
            source = rng.choice(['source="manual" ', ""])
            edges = f'xtl="{x}" ytl="{y}" xbr="{x + w}" ybr="{y + h}" z_order="0"'
            more = rng.choice(['difficult">true', 'score">0.5', 'color">red', 'crowd">0', None, None])
            inner = f'<attribute name="{more}</attribute>' if more else ""
            lines.append(
                f'<box label="{label}" {source}occluded="{rng.choice("01")}" {edges}>\n{inner}</box>'
            )
        lines.append("  </image>")
    return {"annotations.xml": "\n".join([*lines, "</annotations>\n"])}


MAKE = {
    "cvat": cvat_xml, "fiftyone": fiftyone,
}  # fmt: skip


def columns(table):
    """A table as lists that compare, NaN like NaN."""
    found = {}
    for field in dataclasses.fields(table):
        value = getattr(table, field.name)
        found[field.name] = repr(value.tolist()) if isinstance(value, np.ndarray) else value
    return found


def everything(path, name, kind):
    """All that reading a source gives."""
    log, builder = Log(), Builder()
    builder.kind = kind
    options = {"image_size": (640, 480)} if name == "fiftyone" else {}
    FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], options))
    data = builder.build()
    tables = [
        columns(getattr(data, table)) for table in ("images", "categories", "boxes", "tracks", "videos")
    ]
    rest = [data.kind, data.files, list(data.extras.items()), data.skipped]
    return tables, rest, log.issues, dict(log.counts), log.notes


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else dump(content)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def slowly(monkeypatch, path, name, kind):
    with monkeypatch.context() as patch:
        patch.setattr(Records, "_decode", lambda *_: Nothing)
        patch.setattr(cvat, "plain", lambda _: None)
        return everything(path, name, kind)


@pytest.mark.parametrize("name", MAKE)
def test_both_ways_give_the_same(tmp_path, monkeypatch, name):
    kinds = []
    monkeypatch.setattr("odm.formats.cvat.plain._PIECE", 300)
    for seed in range(examples(240 if not SLOW else 2000)):
        rng = random.Random(f"{name}{seed}")
        files = MAKE[name](rng)
        if name == "cvat":
            for _ in range(rng.randrange(3)):
                files = {key: change_xml(text, rng) for key, text in files.items()}
        else:
            files = {key: parse(json.dumps(value)) for key, value in files.items()}
            for _ in range(rng.randrange(3)):
                change(files[rng.choice(list(files))], rng)
        top = tmp_path / str(seed)
        put(top, files)
        path = top if len(files) > 1 or rng.random() < 0.2 else top / next(iter(files))
        kind = rng.choice([None, None, "gt", "det"])
        quick = everything(path, name, kind)
        assert quick == slowly(monkeypatch, path, name, kind), files
        kinds.append((bool(quick[2]), len(quick[0][2]["image"]) > 2))
    assert set(kinds) >= {(False, True), (True, False)}


def test_a_minus_before_zero_is_kept_in_xml(tmp_path, monkeypatch):
    box = '<box label="cat" occluded="0" xtl="-0" ytl="-0.0" xbr="-0.5" ybr="3" z_order="0"></box>'
    put(tmp_path, {"a.xml": f'<annotations><image name="a" width="9" height="9">{box}</image></annotations>'})
    assert everything(tmp_path, "cvat", None) == slowly(monkeypatch, tmp_path, "cvat", None)


@pytest.mark.parametrize(
    "number", ["-0.0", "1" * 305, "1e301", "1e999", "-1e999", "NaN", "true", '"5"', "null"]
)
def test_numbers_that_only_python_reads_alike(tmp_path, monkeypatch, number):
    shape = {"label": "cat", "points": [[0, 1], [0.0, 2]], "shape_type": "rectangle"}
    text = json.dumps({"shapes": [shape, shape], "imageHeight": 9, "imageWidth": 9})
    put(tmp_path, {"a.json": text.replace("[[0, 1]", f"[[{number}, 1]", 1)})
    assert everything(tmp_path, "labelme", None) == slowly(monkeypatch, tmp_path, "labelme", None)


def refuse(*_, **__):
    raise AssertionError("read value by value")


@pytest.mark.parametrize("name", MAKE)
def test_what_odm_writes_is_read_as_columns(tmp_path, monkeypatch, name):
    dataset = odm.Dataset.from_arrays(
        images=["a.jpg", "b.jpg", "c.jpg"], width=[90] * 3, height=[70] * 3, categories=["cat", "a:b"], image=[0, 0, 2],
        category=[0, 1, 0], xyxy=[[1, 2, 3, 4], [5.5, 6, 20.25, 30], [0, 0, 90, 70]],
    )  # fmt: skip
    target = tmp_path / ("out" + FORMATS[name].suffixes[0] if FORMATS[name].single else "out")
    odm.write(dataset, target, name)
    monkeypatch.setattr(cvat.Reader, "add_shape", refuse)
    decode = Reader.decode
    monkeypatch.setattr(
        Reader,
        "decode",
        lambda self, file, data: refuse() if "meta" not in file else decode(self, file, data),
    )
    log, builder = Log(), Builder()
    FORMATS[name].read(
        Source(str(target)), builder, log, make_options(FORMATS[name], {"image_size": (90, 70)})
    )
    assert len(builder.build()) == 3
