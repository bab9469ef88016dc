"""CVAT is read as columns where all is as usual, else element by element: both agree on everything."""

import dataclasses
import random
import re

import numpy as np
from selection import SLOW, examples

import odm
from odm.files import Source
from odm.formats import FORMATS, make_options
from odm.formats.cvat import reader as cvat
from odm.issues import Log
from odm.tables import Builder

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
    FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], {}))
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
        path.write_text(content, encoding="utf-8")


def slowly(monkeypatch, path, name, kind):
    with monkeypatch.context() as patch:
        patch.setattr(cvat, "plain", lambda _: None)
        return everything(path, name, kind)


def test_both_ways_give_the_same(tmp_path, monkeypatch):
    kinds = []
    monkeypatch.setattr("odm.formats.cvat.plain._PIECE", 300)
    for seed in range(examples(240 if not SLOW else 2000)):
        rng = random.Random(f"cvat{seed}")
        files = cvat_xml(rng)
        for _ in range(rng.randrange(3)):
            files = {key: change_xml(text, rng) for key, text in files.items()}
        top = tmp_path / str(seed)
        put(top, files)
        path = top if rng.random() < 0.2 else top / next(iter(files))
        kind = rng.choice([None, None, "gt", "det"])
        quick = everything(path, "cvat", kind)
        assert quick == slowly(monkeypatch, path, "cvat", kind), files
        kinds.append((bool(quick[2]), len(quick[0][2]["image"]) > 2))
    assert set(kinds) >= {(False, True), (True, False)}


def test_a_minus_before_zero_is_kept_in_xml(tmp_path, monkeypatch):
    box = '<box label="cat" occluded="0" xtl="-0" ytl="-0.0" xbr="-0.5" ybr="3" z_order="0"></box>'
    put(tmp_path, {"a.xml": f'<annotations><image name="a" width="9" height="9">{box}</image></annotations>'})
    assert everything(tmp_path, "cvat", None) == slowly(monkeypatch, tmp_path, "cvat", None)


def refuse(*_, **__):
    raise AssertionError("read value by value")


def test_what_odm_writes_is_read_as_columns(tmp_path, monkeypatch):
    dataset = odm.Dataset.from_arrays(
        images=["a.jpg", "b.jpg", "c.jpg"], width=[90] * 3, height=[70] * 3, categories=["cat", "a:b"], image=[0, 0, 2],
        category=[0, 1, 0], xyxy=[[1, 2, 3, 4], [5.5, 6, 20.25, 30], [0, 0, 90, 70]],
    )  # fmt: skip
    odm.write(dataset, tmp_path / "out.xml", "cvat")
    monkeypatch.setattr(cvat.Reader, "add_shape", refuse)
    assert len(odm.read(tmp_path / "out.xml", "cvat")) == 3
