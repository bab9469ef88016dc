"""Pascal VOC: the tables of a file, whichever way it is read; trees, lists, result files; hostile input."""

import functools
import io
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import one_format
import pytest
from cost import cost
from hypothesis import HealthCheck, example, given, settings
from selection import examples, params

import odm
from odm import checks
from odm.files import Source
from odm.formats import SURE, get
from odm.formats import voc as module
from odm.formats._shared.text.numbers import round_edges
from odm.formats._shared.text.safe_xml import find_root
from odm.formats.voc import reader as voc_reader
from odm.formats.voc import results as voc_results
from odm.issues import Log, UsageError
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

VOC = get("voc")
BOX = "<name>dog</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
HEAD = "<filename>a.jpg</filename><size><width>100</width><height>80</height><depth>3</depth></size>"
FIXTURES = Path(__file__).parent.parent / "fixtures"


read, write = (functools.partial(one, name="voc") for one in (one_format.read, one_format.write))


def document(objects=f"<object>{BOX}</object>", head=HEAD):
    return f"<annotation>{head}{objects}</annotation>"


def save(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path if path.suffix else path.with_suffix(".xml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def one(tmp_path, text, **options):
    return read(save(tmp_path / "in", a=text), **options)


def codes(log):
    return sorted(log.counts)


def facts(dataset, log):
    b = dataset.boxes
    return (
        dataset.images.name, dataset.images.width.tolist(), dataset.images.height.tolist(), dataset.images.split,
        dataset.images.path, dataset.categories.name, b.image.tolist(), b.category.tolist(), repr(b.xyxy.tolist()),
        b.flags.tolist(), np.nan_to_num(b.score, nan=-1).tolist(), b.line.tolist(),
        [dataset.location(i) for i in range(len(b))], dataset.kind, dict(dataset.extras), dataset.skipped,
        list(map(str, log)),
    )  # fmt: skip


def both_ways(path, **options):
    """What the quick way and lxml make of it; they must agree."""
    quick = facts(*read(path, **options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(voc_reader.Splitter, "split", lambda *_: None)
        slow = facts(*read(path, **options))
    assert quick == slow
    return quick


# ------------------------------------------------------------------------------------------- the two ways


@pytest.mark.parametrize("case", sorted(p.name for p in (FIXTURES / "mixed").glob("voc*")))
def test_both_ways_read_the_fixtures_alike(case):
    both_ways(FIXTURES / "mixed" / case / "input")


SIZE = st.integers(1, 9999)
CLASS = st.sampled_from(["dog", "traffic light", "007", "null", "a<b>&c", "ö", " x", "名", "a\u00a0b", "]]>"])
PLACE = st.one_of(
    st.integers(-5, 5000).map(float), st.floats(-1e6, 1e6), st.sampled_from([45.70000076293945, 1e-7, 0.1])
)


@st.composite
def datasets(draw, kinds=("gt", "det")):
    kind = draw(st.sampled_from(kinds))
    names = draw(
        st.lists(
            st.sampled_from(["a.jpg", "b.v2.PNG", "sub/a.jpg", "c d.jpeg", "&amp;.jpg", "e.jpg.png", "ü", "x.xml", "f.tif"]),
            unique=True, max_size=4,
        )
    )  # fmt: skip
    classes = draw(st.lists(CLASS, unique=True, min_size=1, max_size=4))
    n = draw(st.integers(0, 7)) if names else 0
    flags = st.sampled_from([0, 2, 4, 8, 14])
    sized = draw(st.booleans())
    return Dataset.from_arrays(
        images=names,
        categories=classes,
        image=[draw(st.integers(0, len(names) - 1)) for _ in range(n)],
        category=[draw(st.integers(0, len(classes) - 1)) for _ in range(n)],
        xyxy=np.array([draw(st.lists(PLACE, min_size=4, max_size=4)) for _ in range(n)]).reshape(-1, 4),
        width=[draw(SIZE) if sized else 0 for _ in names],
        height=[draw(SIZE) if sized else 0 for _ in names],
        flags=[draw(flags) for _ in range(n)],
        score=[draw(st.floats(0, 1)) for _ in range(n)] if kind == "det" else None,
        kind=kind,
    )


def rows(dataset):
    b = dataset.boxes
    order = np.argsort(b.image, kind="stable")
    return sorted(
        (
            (dataset.images.name[b.image[i]], k, dataset.categories.name[b.category[i]], b.xyxy[i].tolist(),
             int(b.flags[i]), float(np.nan_to_num(b.score[i], nan=-1)))
            for k, i in enumerate(order.tolist())
        ),
        key=lambda r: r[0],
    )  # fmt: skip


def without_rank(found):
    return [(r[0], *r[2:]) for r in found]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(dataset=datasets(), layout=st.sampled_from(["auto", "tree"]), origin=st.sampled_from([0, 0, 1]))
def test_there_and_back(tmp_path_factory, dataset, layout, origin):
    folder = tmp_path_factory.mktemp("voc")
    write(dataset, folder / "one", layout=layout, origin=origin)
    if not len(dataset.images):
        return
    back, log = read(folder / "one", kind=dataset.kind, origin=origin)
    assert set(log.counts) <= {"image-size-missing"}
    both_ways(folder / "one", kind=dataset.kind, origin=origin)
    assert sorted(back.images.name) == sorted(dataset.images.name)
    sizes = dict(zip(dataset.images.name, dataset.images.width.tolist(), strict=True))
    assert dict(zip(back.images.name, back.images.width.tolist(), strict=True)) == sizes
    one_, two = without_rank(rows(dataset)), without_rank(rows(back))
    if not origin:
        assert one_ == two
    for a, b in zip(one_, two, strict=True):
        np.testing.assert_allclose(a[2], b[2], rtol=0, atol=1e-9)
    write(back, folder / "two", layout=layout, origin=origin)
    files = [p.relative_to(folder / "one") for p in sorted((folder / "one").rglob("*")) if p.is_file()]
    for file in files:
        assert (folder / "one" / file).read_bytes() == (folder / "two" / file).read_bytes()
    # A plain reader of VOC sees the numbers that went in.
    seen = [row for p in sorted((folder / "one").rglob("*.xml")) for row in reference(p)]
    shift = [origin, origin, 0, 0]
    explicit = [(r[2], [v + s for v, s in zip(r[3], shift, strict=True)]) for r in rows(dataset)]
    assert sorted(map(repr, seen)) == sorted(map(repr, explicit))


def reference(path):
    """The objects of a file as the usual few lines of Python read them."""
    root = ET.parse(path).getroot()
    for element in root.findall("object"):
        box = element.find("bndbox")
        edges = [float(box.find(t).text) + 0.0 for t in ("xmin", "ymin", "xmax", "ymax")]
        yield element.find("name").text, edges


@st.composite
def documents(draw):
    """Files as other tools write them: any order, any layout, parts, comments, and the rest."""
    gap = draw(st.sampled_from(["", "\n", "\n\t", "\r\n  ", "\n\n    "]))
    regular = draw(st.booleans())
    order = draw(st.permutations(range(5)))

    def one_object():
        number = st.one_of(
            st.integers(-9, 999).map(str), st.floats(0, 999).map(repr), st.sampled_from(["1e2", "+5", " 7 "])
        )
        if regular:
            number = st.one_of(st.integers(-9, 999).map(str), st.sampled_from(["0.5", "45.70000076293945"]))
        edges = [f"<{t}>{draw(number)}</{t}>" for t in ("xmin", "ymin", "xmax", "ymax")]
        if not regular:
            edges = draw(st.permutations(edges))
        parts = [
            f"<name>{draw(st.sampled_from(['dog', 'cat', 'a b', 'x&amp;y', 'é']))}</name>",
            f"<pose>{draw(st.sampled_from(['Unspecified', 'Left']))}</pose>",
            f"<truncated>{draw(st.sampled_from(['0', '1']))}</truncated>",
            f"<difficult>{draw(st.sampled_from(['0', '1'] if regular else ['0', '1', 'Unspecified', '']))}</difficult>",
            f"<bndbox>{gap}{gap.join(edges)}{gap}</bndbox>",
        ]  # fmt: skip
        parts = [parts[i] for i in order] if regular else draw(st.permutations(parts))
        if not regular and draw(st.booleans()):
            parts.append("<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part><!-- <object> -->")
        return f"<object>{gap}{gap.join(parts)}{gap}</object>"

    objects = [one_object() for _ in range(draw(st.integers(0, 5)))]
    head = ["<folder>f</folder>", "<filename>a.jpg</filename>", "<size><width>640</width><height>480</height></size>",
            "<source><database>x</database></source>", "<segmented>0</segmented>"]  # fmt: skip
    head = [h for h in draw(st.permutations(head)) if "size" in h or "filename" in h or draw(st.booleans())]
    declaration = draw(
        st.sampled_from(["", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='utf-8'?>\n"])
    )
    return f"{declaration}<annotation>{gap}{gap.join(head + objects)}{gap}</annotation>{gap}"


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(documents(), min_size=1, max_size=3))
def test_all_ways_agree_on_what_other_tools_write(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("voc")
    for i, text in enumerate(texts):
        (folder / f"{i}.xml").write_bytes(text.replace("a.jpg", f"{i}.jpg").encode())
    both_ways(folder)
    dataset, log = read(folder)
    assert not log.issues
    seen = [(f"{i}.jpg", *row) for i in range(len(texts)) for row in reference(folder / f"{i}.xml")]
    b = dataset.boxes
    found = [
        (dataset.images.name[b.image[k]], dataset.categories.name[b.category[k]], b.xyxy[k].tolist())
        for k in range(len(b))
    ]
    assert found == seen


ODD = [
    (b"<xmin>", b"<xmin>-0"), (b">70<", b">-0<"), (b"<annotation>", b"PK\3\4<annotation>"), (b"<xmin>", b"<xmin>00"), (b"<xmax>", b"<xmax>1e"), (b"<ymin>", b"<ymin> "), (b"<name>dog", b"<name>  "),
    (b"<name>", b"<name> "), (b"0</tr", b"2</tr"), (b"0</di", b"1</di"), (b"Unspecified", b"Left"), (b"</object>", b"</object>\1"),
    (b"<object>", b"\0<object>"), (b"<object>", b"<object><object>"), (b"<object>", b"<!-- <object> -->"), (b"\n", b"\r"),
    (b"\n", b"\r\n"), (b"\n", b""), (b"\t", b"  "), (b"<filename>", b"<filename>x"), (b"<filename>", b"<filename>b.jpg</filename><filename>"),
    (b"<size>", b"<size><width>1</width><height>1</height></size><size>"), (b"</size>", b"</size><owner><name>me</name></owner>"), (b"</annotation>", b""), (b"<xmax>", b"<confidence>1</confidence><xmax>"),
    (b"</annotation>", b"</annotation>\n<!-- -->"), (b"<annotation>", b"\xef\xbb\xbf<annotation>"), (b"dog", b"d\xc3\xb6g"), (b"dog", b"d&amp;g"),
    (b"</bndbox>", b"</bndbox><confidence>0.5</confidence>"), (b"</bndbox>", b"</bndbox>\n"), (b"<width>", b"<width>0"), (b".jpg", b""),
    (b"<width>", b"<width>-"), (b".jpg", b".jpg "), (b"100", b"1e2"), (b"<depth>3", b"<filename>c.jpg</filename><depth>3"), (b"<size>", b"<pose>Left</pose><size>"),
    (b"<size>", b"<!-- <filename>c.jpg</filename> --><size>"), (b"80", b"99999999999"),
]  # fmt: skip


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(
        st.tuples(
            st.integers(0, 3), st.lists(st.tuples(st.sampled_from(ODD), st.integers(-1, 3)), max_size=2)
        ),
        min_size=2,
        max_size=9,
    ),
    sub=st.booleans(),
)
def test_an_odd_file_among_others_is_read_as_if_alone(tmp_path_factory, files, sub):
    folder = tmp_path_factory.mktemp("voc")
    for i, (n, changes) in enumerate(files):
        names = [b"dog", b"cat%d" % i, b"dog"][:n]
        objects = b"".join(
            b"\t<object>\n\t\t<name>%b</name>\n\t\t<pose>Unspecified</pose>\n\t\t<truncated>0</truncated>\n\t\t<difficult>0</difficult>\n"
            b"\t\t<bndbox>\n\t\t\t<xmin>%d</xmin>\n\t\t\t<ymin>2.5</ymin>\n\t\t\t<xmax>70</xmax>\n\t\t\t<ymax>80</ymax>\n\t\t</bndbox>\n"
            b"\t</object>\n" % (name, i) for name in names
        )  # fmt: skip
        text = document(f"\n{objects.decode()}", HEAD.replace("a.jpg", f"{i}.jpg")).encode()
        for (old, odd), at in changes:
            found = [m.start() for m in re.finditer(re.escape(old), text)]
            if at < 0:
                text = text.replace(old, odd)
            elif found:
                start = found[at % len(found)]
                text = text[:start] + odd + text[start + len(old) :]
        name = f"{i // 2}/{i}.xml" if sub else f"{i}.xml"
        save(folder, **{name.replace("/", "__"): text})
    if sub:  # the same image twice, the second with a class that no other has
        text = (folder / "0/0.xml").read_bytes().replace(b"Left", b"")
        save(folder, **{"0__0.XML": text, "0__0.xml": text.replace(b"dog", b"cow")})
    both_ways(folder)


def test_issues_come_in_the_order_of_the_files(tmp_path):
    bad = document(f"<object><truncated>2</truncated>{BOX}</object>")
    _, log = read(save(tmp_path / "in", a=bad, b=b"PK\3\4", c=bad, d=b"\x1f\x8b"))
    assert list(dict.fromkeys(Path(issue.path).stem for issue in log)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("is_indented", "lines"), [(True, [9, 23, 9]), (False, [1, 1, 1])])
def test_the_quick_way_is_taken(tmp_path, monkeypatch, is_indented, lines):
    dataset = Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], categories=["dog"], image=[0, 0, 1], category=[0, 0, 0],
        xyxy=[[1, 2, 3, 4.5]] * 3, width=[9, 9], height=[9, 9], score=[0.5, 1e-3, 1],
    )  # fmt: skip
    write(dataset, tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        data = path.read_bytes()
        path.write_bytes(data if is_indented else re.sub(rb"\s*\n\s*", b"", data))
    monkeypatch.setattr(voc_reader.Reader, "_read_object", lambda *_: pytest.fail("the slow way was taken"))
    parsed, root = [], voc_reader.SafeXmlParser.parse
    monkeypatch.setattr(
        voc_reader.SafeXmlParser, "parse", lambda *given: parsed.append(given[2]) or root(*given)
    )
    back, _ = read(tmp_path / "out")
    assert len(parsed) == 1  # what stands around the objects is alike in both
    assert back.boxes.score.tolist() == [0.5, 1e-3, 1]
    assert [back.location(i)[1] for i in range(3)] == lines


# ----------------------------------------------------------------------------------------------- hostile input


SAMPLE = (FIXTURES / "mixed/voc/input/street.xml").read_bytes()


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32),
    edits=st.lists(
        st.sampled_from(["flip", "cut", "double", "insert", "delete", "swap"]), min_size=1, max_size=4
    ),
)
def test_damaged_files_give_issues_or_tables(tmp_path_factory, seed, edits):
    rng = random.Random(seed)
    data = bytearray(SAMPLE)
    for edit in edits:
        if not data:
            break
        i = rng.randrange(len(data))
        j = min(len(data), i + rng.randrange(1, 80))
        if edit == "flip":
            data[i] ^= 1 << rng.randrange(8)
        elif edit == "cut":
            del data[i:]
        elif edit == "double":
            data[i:i] = data[i:j]
        elif edit == "insert":
            data[i:i] = rng.choice([b"<", b">", b"&", b"\0", b"\xff", b"nan", b"<!--", b"]]>", b"\r", b"\x0b", b"-", b"<object>", b"</object>"])  # fmt: skip
        elif edit == "delete":
            del data[i:j]
        else:
            data[i:j] = data[i:j][::-1]
    folder = tmp_path_factory.mktemp("bad")
    (folder / "street.xml").write_bytes(bytes(data))
    VOC.sniff(Source(str(folder)))
    both_ways(folder)
    try:
        whole = bool(list(reference(folder / "street.xml")))
    except Exception:
        whole = False
    dataset, log = read(folder)
    assert whole or log.errors or not len(dataset)


MEGA = 10**6


MEGABYTES = [
    b"<annotation>" * 80_000,
    b"<annotation>" + b"<object>" * 120_000,
    b"<annotation><object><part>" * 40_000,
    b"<annotation>" + b"<!--" * 250_000,
    b"<!--" + b"-" * MEGA,
    b"<!-- a -->" * 100_000,
    b"<?a?>" * 200_000,
    b"<!DOCTYPE " + b"a" * MEGA,
    b"<!DOCTYPE " + b"'\"" * (MEGA // 2),
    b"<!DOCTYPE a [" + b"<!ENTITY a 'b'>" * 60_000,
    b"<annotation" + b"".join(b" a%d='1'" % i for i in range(80_000)) + b"/>",
    b"<annotation>" + b" " * MEGA,
    b"<annotation>" + b"\n" * MEGA + b"</annotation>",
    b"<annotation>" + b"<folder></folder>" * 60_000,
    b"<annotation>" + b"<source>" + b"<image></image>" * 60_000,
    b"<annotation><filename>a.jpg</filename>" + b"<filename>a.jpg</filename>" * 40_000 + b"</annotation>",
    b"<annotation><object><name>" + b"a" * MEGA,
    b"<annotation><object>" + b"<name>a</name>" * 70_000 + b"</object></annotation>",
    b"<annotation>" + b"<object></object>" * 60_000 + b"</annotation>",
    b"<annotation>" + b"<object><name>a</name></object>" * 30_000 + b"</annotation>",
    b"<annotation>" + b"<a><object/></a>" * 60_000 + b"</annotation>",
    b"<annotation>" + b"<a>" * 100 + b"<b/>" * 200_000 + b"</a>" * 100 + b"</annotation>",
    b"<annotation><size><width>" + b"9" * MEGA + b"</width><height>1</height></size></annotation>",
    b"<annotation><object><name>a</name><bndbox><xmin>"
    + b"9" * MEGA
    + b"</xmin></bndbox></object></annotation>",
    b"<annotation>" + b"&#65;" * 200_000 + b"</annotation>",
    b"&" * MEGA,
    b"\0" * MEGA,
    b"\xff\xfe" + b"<\0" * 500_000,
    random.Random(1).randbytes(MEGA),
]
USUAL = [MEGABYTES[i] for i in (0, 3, 10, 15, 21, 23, 28)]
"""Nested, comments, attributes, repeated, deep, long numbers, rubbish."""


@pytest.mark.parametrize("data", params(MEGABYTES, USUAL), ids=range(29))
def test_a_megabyte_of_anything_is_answered_soon(tmp_path, data):
    path = tmp_path / "a.xml"
    path.write_bytes(data)
    logs = []

    def answer():
        VOC.sniff(Source(str(path)))
        logs.append(read(path)[1])

    assert cost(answer, 200) < 200
    assert logs[0].issues


BOMB = "<!DOCTYPE annotation [<!ENTITY a0 'dog'>{}]>".format(
    "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12))
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (BOMB + document().replace("dog", "&a11;"), "xml-dtd"),
        (BOMB + document().replace("<annotation>", "<annotation x='&a11;'>"), "xml-dtd"),
        ("<!DOCTYPE annotation []>" + document(), "xml-dtd"),
        ("<!-- <!DOCTYPE --><!DOCTYPE annotation SYSTEM 'a[b>' [ ]>" + document(), "xml-dtd"),
        ((BOMB + document()).encode("utf-16"), "xml-dtd"),
        ("<?xml version='1.0' encoding='utf-16'?>" + BOMB + document(), "xml-encoding"),
        ("<!DOCTYPE annotation PUBLIC 'a' 'http://127.0.0.1:9/x.dtd'>" + document(), "xml-doctype"),
        ("<!DOCTYPE annotation SYSTEM 'x.dtd'>" + document().replace("dog", "d&x;g"), "xml-entity"),
        (document().replace("dog", "d&x;g"), "xml-syntax"),
        (
            document().replace("<annotation>", "<v:annotation xmlns:v='u'>").replace("</ann", "</v:ann"),
            "xml-root",
        ),
        (document() + document(), "xml-syntax"),
        (
            document().replace("<object>", "<o:object xmlns:o='u'>").replace("</obj", "</o:obj"),
            "voc-misplaced-element",
        ),
        (document().replace("bndbox", "BndBox"), "voc-misplaced-element"),
        (document().replace("size>", "Size>"), "voc-misplaced-element"),
        (document().replace("xmin", "Xmin"), "voc-misplaced-element"),
        (document(f"<objects><object>{BOX}</object></objects>"), "voc-misplaced-element"),
        (document(BOX), "voc-misplaced-element"),
        (document(head=HEAD.replace("100", "2147483648")), "bad-image-size"),
        (document(head=HEAD.replace("100", "1_0")), "bad-image-size"),
        (document().replace(">1<", ">1_0<"), "not-a-number"),
        (document().replace(">1<", ">١<"), "not-a-number"),
        (document().replace(">1<", ">-Infinity<"), "not-finite"),
        (document().replace("dog", "d\u0085g"), "bad-class-name"),
        (document().replace("dog", "d&#9;g"), "bad-class-name"),
        (document().replace("a.jpg", "https://example.org/a.jpg"), "bad-name"),
        (document().replace("a.jpg", "\\\\host\\a.jpg"), "bad-name"),
    ],
)
def test_what_is_refused(tmp_path, text, code):
    dataset, log = one(tmp_path, text)
    if code == "xml-doctype":
        assert len(dataset) == 1
    else:
        assert len(dataset) == 0
        assert log.errors
    assert code in log.counts
    assert set(log.counts) <= {code, "image-size-missing"}


@pytest.mark.parametrize("ending", ["", " [ ]"])
def test_a_definition_outside_is_never_read(tmp_path, ending):
    dtd = save(tmp_path / "in", **{"x.dtd": "<!ENTITY x 'secret'>"}) / "x.dtd"
    for location in ("x.dtd", str(dtd), dtd.as_uri()):
        text = f"<!DOCTYPE annotation SYSTEM '{location}'{ending}>" + document().replace("dog", "d&x;g")
        dataset, log = one(tmp_path, text)
        assert len(dataset) == 0
        assert codes(log) == ["xml-dtd" if ending else "xml-entity"]
        assert "secret" not in "".join(map(str, log))


def test_all_faults_of_a_file_are_reported_and_the_rest_is_read(tmp_path):
    bad = [BOX.replace(">1<", ">x<").replace(">40<", "><"), BOX.replace("<name>dog</name>", "")]
    text = document("".join(f"\n<object>{b}</object>" for b in [BOX, *bad, BOX]))
    dataset, log = one(tmp_path, text)
    assert dataset.boxes.line.tolist() == [2, 5]
    assert dataset.skipped == 2
    assert [i.line for i in log] == [3, 3, 4]
    assert log.counts == {"not-a-number": 2, "missing-box-key": 1}
    assert [i.field for i in log] == ["object/bndbox/xmin", "object/bndbox/ymax", "object/name"]


@pytest.mark.parametrize("n", [1, 3, 200])
def test_a_fault_after_the_objects_has_its_line(tmp_path, n):
    """Whether objects are read at once or one by one; each takes two lines."""
    wide = "<size>\n<width>9</width>\n<height>x</height></size>"
    log = one(
        tmp_path, document(f"<object>{BOX}\n</object>\n" * n + wide, head="<filename>a.jpg</filename>\n")
    )[1]
    assert [(i.code, i.line) for i in log] == [("bad-image-size", 2 * n + 2)]


def test_lines_beyond_the_sixteenth_bit(tmp_path):
    text = document("\n" * 70_000 + f"<object>{BOX}</object>\n<!-- --><object>{BOX}</object>")
    assert one(tmp_path, text)[0].boxes.line.tolist() == [70_001, 70_002]


# ------------------------------------------------------------------------------------------- what is tolerated


@pytest.mark.parametrize(
    "text",
    [
        document(),
        "\ufeff" + document(),
        document().encode("utf-16"),
        ("<?xml version='1.0' encoding='UTF-16'?>" + document()).encode("utf-16"),
        ("<?xml version='1.0' encoding='UTF-16'?>" + document()).encode("utf-16-be"),
        ("<?xml version='1.0' encoding='gb2312'?>" + document()).encode("gb2312"),
        ("<?xml version='1.0' encoding='windows-1252'?>" + document()).encode("cp1252"),
        document().replace("><", ">\r\n\t<"),
        document().replace(">dog<", "><!-- which? -->dog<?now?><"),
        document().replace(">dog<", ">\n\t\tdog\n\t<"),
        document().replace(">dog<", "><![CDATA[dog]]><"),
        document().replace(">1<", "> 1.0 <").replace(">100<", "> 100.0 <"),
        document().replace("<object>", "<object><pose/><difficult>Unspecified</difficult><truncated/>"),
        document().replace("a.jpg", "pictures\\train\\a.jpg"),
        document().replace("a.jpg", "a.jpg\n"),
        document().replace("<filename>", "<path>/home/me/a.jpg</path><folder>x</folder><filename>"),
        document().replace(
            "<object>", "<object><part>" + BOX + "</part><actions><jumping>1</jumping></actions>"
        ),
        document().replace("</bndbox>", "</bndbox><attributes><a>1</a></attributes>"),
        document() + "\n<!-- the end -->\n",
    ],
)
def test_what_is_tolerated(tmp_path, text):
    dataset, log = one(tmp_path, text)
    assert not log.issues
    assert dataset.images.name == ("a.jpg",)
    assert (dataset.images.width[0], dataset.images.height[0]) == (100, 80)
    assert dataset.categories.name == ("dog",)
    assert dataset.boxes.xyxy.tolist() == [[1, 2, 30, 40]]
    assert dataset.boxes.flags.tolist() == [0]
    both_ways(tmp_path / "in")


def test_flags_extras_and_exact_names(tmp_path):
    text = document(
        f"<object>{BOX.replace('dog', ' dog')}<truncated>1</truncated><difficult>1</difficult><pose>Left</pose></object>"
        f"<object>{BOX}<occluded>true</occluded><part/><part/><odd/></object>"
    )
    dataset, log = one(tmp_path, text)
    assert dataset.categories.name == (" dog", "dog")
    assert dataset.boxes.flags.tolist() == [Flag.TRUNCATED | Flag.DIFFICULT, Flag.OCCLUDED]
    assert dataset.extras == {"pose": 1, "part": 2, "other elements of objects": 1}
    assert not log.issues


@pytest.mark.parametrize(
    ("word", "mark"),
    [
        *((word, Flag.DIFFICULT) for word in ("1", "1.0", "yes", "Yes", "true", "TRUE")),
        *((word, 0) for word in ("0", "0.0", "no", "false", "False", "Unspecified", "")),
    ],
)
def test_words_for_a_mark(tmp_path, word, mark):
    dataset, log = one(tmp_path, document(f"<object>{BOX}<difficult>{word}</difficult></object>"))
    assert dataset.boxes.flags.tolist() == [mark]
    assert not log.issues
    both_ways(tmp_path / "in")


@pytest.mark.parametrize("word", ["2", "y", "on", "difficult", "-1", "unknown"])
def test_other_words_for_a_mark_are_refused(tmp_path, word):
    _, log = one(tmp_path, document(f"<object>{BOX}<difficult>{word}</difficult></object>"))
    assert codes(log) == ["bad-flag"]


@pytest.mark.parametrize(
    ("file", "filename", "name"),
    [
        ("a.xml", "a.JPG", "a.JPG"),
        ("a.xml", "a", "a"),
        ("a.xml", "x/a.png", "a.png"),
        ("a.jpg.xml", "a.jpg", "a.jpg"),
        ("a.v2.xml", "a.v2.jpg", "a.v2.jpg"),
        ("a.v2.xml", "a.v2", "a.v2"),
        ("sub/a.xml", "a.jpg", "sub/a.jpg"),
        ("a.XML", "a.jpg", "a.jpg"),
    ],
)
def test_the_image_is_named_after_the_file(tmp_path, file, filename, name):
    dataset, log = read(
        save(tmp_path / "in", **{file.replace("/", "__"): document().replace("a.jpg", filename)})
    )
    assert dataset.images.name == (name,)
    assert not log.issues


def test_a_filename_that_differs_gives_its_extension(tmp_path):
    dataset, log = one(tmp_path, document().replace("a.jpg", "old.png"))
    assert dataset.images.name == ("a.png",)
    assert codes(log) == ["file-name-differs"]


# ------------------------------------------------------------------------------------------------ sizes


def picture(width, height, kind="PNG"):
    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (width, height)).save(stream, kind)
    return stream.getvalue()


NO_SIZE = document(head="<filename>a</filename>")


def test_a_missing_size_comes_from_the_first_that_knows(tmp_path):
    folder = save(tmp_path / "in", a=NO_SIZE)
    pictures = save(tmp_path / "pictures", **{"a.png": picture(30, 20)})
    dataset, log = read(folder)
    assert codes(log) == ["image-size-missing"]
    assert len(dataset) == 1
    dataset, log = read(folder, images=str(pictures))
    assert (dataset.images.name, dataset.images.width[0], codes(log)) == (
        ("a.png",),
        30,
        ["image-size-from-picture"],
    )
    assert dataset.images.path == (str(pictures / "a.png"),)
    dataset, log = read(folder, image_size="7x5")
    assert (dataset.images.width[0], dataset.images.height[0], codes(log)) == (7, 5, [])
    other = Dataset.from_arrays(
        images=["a.jpg"], categories=["x"], image=[], category=[], xyxy=[], width=[3], height=[2]
    )
    dataset, log = read(folder, other=other)
    assert (dataset.images.width[0], dataset.images.height[0], codes(log)) == (3, 2, [])


def test_pictures_of_a_tree(tmp_path):
    files = {
        "Annotations__a": NO_SIZE,
        "JPEGImages__a.png": picture(30, 20),
        "SegmentationClass__a.png": picture(3, 2),
    }
    dataset, _ = read(save(tmp_path / "in", **files))
    assert (dataset.images.name, dataset.images.width[0]) == (("a.png",), 30)


# ------------------------------------------------------------------------------------- trees and their splits


def tree(folder, *, pictures=("a", "b", "c"), prefix="", **lists):
    files = {f"{prefix}Annotations__{p}": document().replace("a.jpg", f"{p}.jpg") for p in pictures}
    files |= {f"{prefix}ImageSets__Main__{name}.txt": text for name, text in lists.items()}
    return save(folder, **files)


def test_splits(tmp_path):
    folder = tree(
        tmp_path / "in", train="a\r\n", val="b\n\n", trainval="\ufeffa\nb", test="c.jpg\n",
        dog_train="a  1\n", dog_trainval="a  1\nb -1\n", dog_val="b  0\n",
    )  # fmt: skip
    dataset, log = read(folder)
    assert dataset.images.split == ("train", "val", "test")
    assert not log.issues
    dataset, _ = read(folder, split="trainval")
    assert (dataset.images.name, dataset.images.split) == (("a.jpg", "b.jpg"), ("trainval",) * 2)
    assert len(read(folder, split="val")[0]) == 1
    for name in ("dog_train", "Train", ""):
        dataset, log = read(folder, split=name)
        assert codes(log) == ["unknown-split"]
        assert "test, train, trainval, val" in str(log.issues[0])


def test_several_trees_keep_their_images_apart(tmp_path):
    for year in ("VOC2007", "VOC2012"):
        tree(tmp_path / "in", prefix=f"{year}__", pictures=("a",), train="a\n")
    dataset, log = read(tmp_path / "in")
    assert dataset.images.name == ("VOC2007/a.jpg", "VOC2012/a.jpg")
    assert dataset.images.split == ("train", "train")
    assert not log.issues
    assert read(tmp_path / "in" / "VOC2012")[0].images.name == ("a.jpg",)


def test_imagenet(tmp_path):
    text = document(f"<object>{BOX.replace('dog', 'n01440764')}</object>")
    loc, val = "n01440764_1", "ILSVRC2012_val_00000001"
    folder = save(
        tmp_path / "in",
        **{
            f"Annotations__CLS-LOC__train__n01440764__{loc}": text.replace("a.jpg", loc),
            f"Annotations__CLS-LOC__val__{val}": text.replace("a.jpg", val),
            "ImageSets__CLS-LOC__train_loc.txt": f"n01440764/{loc} 1\nn01440764/n01440764_2 2\n",
            "ImageSets__CLS-LOC__val.txt": f"{val} 1\n",
            f"Data__CLS-LOC__val__{val}.JPEG": picture(9, 9),
        },
    )
    dataset, log = read(folder)
    assert dataset.images.name == (f"CLS-LOC/train/n01440764/{loc}", f"CLS-LOC/val/{val}.JPEG")
    assert dict(zip(map(stem, dataset.images.name), dataset.images.split, strict=True)) == {
        f"CLS-LOC/train/n01440764/{loc}": "train_loc",
        f"CLS-LOC/val/{val}": "val",
    }
    assert dataset.categories.name == ("n01440764",)
    assert log.counts == {"voc-listed-image": 1}
    assert read(folder, split="val")[0].images.split == ("val",)


def test_folders_are_splits_where_there_are_no_lists(tmp_path):
    folder = save(
        tmp_path / "in", train__a=document(), valid__a=document(), test__b=document().replace("a.j", "b.j")
    )
    dataset, log = read(folder)
    assert dict(zip(dataset.images.name, dataset.images.split, strict=True)) == {
        "test/b.jpg": "test", "train/a.jpg": "train", "valid/a.jpg": "valid",
    }  # fmt: skip
    assert not log.issues
    assert read(folder, split="valid")[0].images.name == ("valid/a.jpg",)


def test_a_tree_is_written_for_splits(tmp_path):
    folder = tree(tmp_path / "in", train="a\n", val="b\nc\n")
    dataset, _ = read(folder)
    write(dataset, tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*"))
    assert found == [
        "Annotations/a.xml", "Annotations/b.xml", "Annotations/c.xml", "ImageSets/Main/train.txt", "ImageSets/Main/val.txt",
    ]  # fmt: skip
    assert read(tmp_path / "out")[0].images.split == ("train", "val", "val")
    write(read(save(tmp_path / "plain", a=document()))[0], tmp_path / "tree", layout="tree")
    assert (tmp_path / "tree" / "ImageSets" / "Main" / "default.txt").read_text() == "a\n"
    for split in (None, "default"):
        data = read(tmp_path / "tree", split=split)[0]
        assert (data.images.name, data.images.split) == (("a.jpg",), ("",))
    log = write(dataset, tmp_path / "flat", layout="flat")
    assert any("splits" in note for note in log.notes)
    assert sorted(p.name for p in (tmp_path / "flat").iterdir()) == ["a.xml", "b.xml", "c.xml"]


# ------------------------------------------------------------------------------------------------- detections


def test_scores_decide_the_kind(tmp_path):
    scored = "<object>" + BOX + "<score>0.25</score></object>"
    folder = save(tmp_path / "in", a=document(scored), b=document(scored).replace("a.jpg", "b.jpg"))
    dataset, log = read(folder)
    assert (dataset.kind, dataset.boxes.score.tolist()) == ("det", [0.25, 0.25])
    assert not log.issues
    _, log = read(folder, kind="gt")
    assert log.counts == {"score-unexpected": 2}
    save(folder, c=document().replace("a.jpg", "c.jpg"))
    dataset, log = read(folder)
    assert dataset.kind == "det"
    assert log.counts == {"score-missing": 1}
    assert dataset.skipped == 1


DETECTIONS = Dataset.from_arrays(
    images=["a.jpg", "b c.png", "none.jpg"], categories=["dog", "traffic light", "unused"], image=[1, 0, 1],
    category=[1, 0, 1], xyxy=[[1, 2, 3, 4], [0.5, 0.1, 9, 9], [5, 6, 7, 8]], score=[0.5, 1e-9, 1], width=[9] * 3,
    height=[9] * 3,
)  # fmt: skip


@pytest.mark.parametrize("results", [False, True])
def test_counting_from_one_does_not_invert_a_box_without_a_width(tmp_path, results):
    """1.1 - 1 is more than 0.1."""
    dataset = Dataset.from_arrays(
        images=["a.jpg"], width=[9], height=[9], categories=["x"], image=[0, 0], category=[0, 0], score=[1, 1],
        xyxy=[[0.1, 0.1, 0.1, 5], [5, 2**53 + 2, 6, 2**53 + 2]],
    )  # fmt: skip
    odm.write(dataset, tmp_path / "out", "voc", origin=1, results=results)
    back = odm.read(tmp_path / "out", "voc", kind="det", origin=1)
    np.testing.assert_allclose(back.boxes.xyxy, dataset.boxes.xyxy, rtol=1e-15, atol=1e-15)


def test_edges_that_supervision_wrote_are_moved_alike(tmp_path):
    edges = ((1, 1, 101, 81), (11, 21, 31, 41), (5, 6, 101, 30))
    objects = "".join(
        "<object><name>dog</name><bndbox>"
        + "".join(f"<{tag}>{n}</{tag}>" for tag, n in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
        + "</bndbox></object>"
        for box in edges
    )
    folder = save(tmp_path / "in", a=document(objects))
    log = Log()
    checks.run(read(folder)[0], log)
    assert set(log.counts) == {"outside-image", "off-by-one"}
    dataset, log = read(folder, origin=1)
    assert dataset.boxes.xyxy.tolist() == [[0, 0, 100, 80], [10, 20, 30, 40], [4, 5, 100, 29]]
    assert "as written by supervision" in log.notes[-1]


@pytest.mark.parametrize("origin", [0, 1])
def test_result_files_there_and_back(tmp_path, origin):
    log = write(DETECTIONS, tmp_path / "one", results=True, origin=origin)
    assert not log.issues
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [
        "comp4_det_test_dog.txt", "comp4_det_test_traffic light.txt", "comp4_det_test_unused.txt",
    ]  # fmt: skip
    back, log = read(tmp_path / "one", origin=origin)
    assert not log.issues
    assert back.kind == "det"
    assert back.images.name == ("a", "b c")
    assert back.categories.name == DETECTIONS.categories.name
    b = back.boxes
    found = [(back.images.name[i], s, x) for i, s, x in zip(b.image, b.score, b.xyxy.tolist(), strict=True)]
    assert found == [
        ("a", 1e-9, [0.5, pytest.approx(0.1), 9, 9]),
        ("b c", 0.5, [1, 2, 3, 4]),
        ("b c", 1, [5, 6, 7, 8]),
    ]
    assert b.line.tolist() == [1, 1, 2]
    write(back, tmp_path / "two", results=True, origin=origin)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_one_result_file_and_files_of_other_names(tmp_path):
    save(
        tmp_path / "in",
        **{"dog.txt": "a 0.5 1 2 3 4\n\n", "comp4_x-1_det_test_cat.txt": "\ufeffa\t.5 1 2 3 4\r\n"},
    )
    dataset, log = read(tmp_path / "in" / "comp4_x-1_det_test_cat.txt")
    assert (dataset.categories.name, len(dataset), log.issues) == (("cat",), 1, [])
    dataset, _ = read(tmp_path / "in", results=True)
    assert dataset.categories.name == ("cat", "dog")


ROW = st.one_of(
    st.sampled_from(
        ["a 0.5 1 2 3 4", "b 1e-3 -1 2.5 3 4", "  a\t0.5  1 2 3 4 \r", "", "c d 1 1 2 3 4", "é 1 1 2 3 4"]
    ),
    st.text(alphabet="a1. \t_-e\x0b\xa0é", max_size=20),
)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(ROW, max_size=6))
@example(["a 1 2 3", "4 5 6 b 1 2 3 4 5"])
@example(["a 1_0 2 3 4 5"])
@example(["a\x0b1 2 3 4 5 6"])
@example(["a 0.5 1 2 3 4\rb 0.5 1 2 3 4"])
def test_result_rows_read_alike_at_once_and_one_by_one(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("results")
    path = folder / "comp4_det_test_dog.txt"
    path.write_bytes("\n".join(lines).encode())
    quick = facts(*read(path))
    original = voc_results._split_results
    try:
        voc_results._split_results = lambda _: None
        assert facts(*read(path)) == quick
    finally:
        voc_results._split_results = original


def test_many_detections_are_read_at_once(tmp_path):
    rng = np.random.default_rng(0)
    n = 200_000
    values = np.round(rng.random((n, 5)) * 500, 2)
    rows = [
        f"im{i:05d} {' '.join(map(str, v))}"
        for i, v in zip(rng.integers(0, 5000, n).tolist(), values.tolist(), strict=True)
    ]
    (tmp_path / "comp4_det_test_dog.txt").write_text("\n".join(rows))
    assert cost(lambda: read(tmp_path), 200) < 200
    np.testing.assert_array_equal(read(tmp_path)[0].boxes.xyxy, values[:, 1:])


# ----------------------------------------------------------------------------------------------------- writing


def small(**changes):
    given_ = {
        "images": ["a.jpg"],
        "categories": ["dog"],
        "image": [0],
        "category": [0],
        "xyxy": [[1.5, 2, 3, 4]],
    }
    return Dataset.from_arrays(**(given_ | changes))


def test_the_elements_and_their_order(tmp_path):
    write(small(width=[9], height=[8], flags=[int(Flag.OCCLUDED)], score=[0.5]), tmp_path / "out")
    root = ET.parse(tmp_path / "out" / "a.xml").getroot()
    assert [e.tag for e in root.iter()] == (
        "annotation filename size width height depth segmented object name pose truncated difficult occluded "
        "confidence bndbox xmin ymin xmax ymax"
    ).split()
    assert [root.find(f"object/{t}").text for t in ("truncated", "difficult", "occluded")] == ["0", "0", "1"]
    assert [e.text for e in root.find("object/bndbox")] == ["1.5", "2", "3", "4"]


def test_an_unknown_size_is_left_out(tmp_path):
    write(small(), tmp_path / "out")
    assert ET.parse(tmp_path / "out" / "a.xml").getroot().find("size") is None


def test_round_counts(tmp_path):
    log = write(small(xyxy=[[1.5, 2.4, 3, 4.6]]), tmp_path / "out", round=True)
    assert [e.text for e in ET.parse(tmp_path / "out" / "a.xml").getroot().find("object/bndbox")] == [
        "2",
        "2",
        "3",
        "5",
    ]
    assert log.notes == ["round=true: 3 of 4 coordinates are rounded to whole pixels"]


def test_no_box_vanishes_by_rounding():
    """Halves go away from zero; `rint` made [0.5, 11.5, 1.5, 12.5] a box of no height."""
    boxes = [[0.5, 11.5, 1.5, 12.5], [-0.5, -1.5, 0.4, 9], [10.6, 3, 11.4, 4], [7.2, 5, 7.2, 5]]
    whole = [[1, 12, 2, 13], [-1, -2, 0, 9], [10, 3, 12, 4], [7, 5, 7, 5]]
    assert round_edges(np.array(boxes)).tolist() == whole


@pytest.mark.parametrize(
    ("dataset", "options", "code"),
    [
        (small(categories=["a\x01b"]), {}, "voc-unwritable-name"),
        (small(categories=["a\nb"]), {}, "voc-unwritable-name"),
        (small(categories=["a\ufffeb"]), {}, "voc-unwritable-name"),
        (small(categories=["a\ud800b"]), {}, "voc-unwritable-name"),
        (small(categories=[" "]), {}, "voc-unwritable-name"),
        (small(images=["a\uffff.jpg"]), {}, "voc-unwritable-name"),
        (small(images=["a.jpg", "a.png"]), {}, "name-collision"),
        (small(images=["../a.jpg"]), {}, "bad-name"),
        (small(images=["a.jpg", "a.png"], score=[1]), {"results": True}, "name-collision"),
        (small(categories=["a/b"], score=[1]), {"results": True}, "voc-unwritable-name"),
        (small(images=["a .jpg"], score=[1]), {"results": True}, "voc-unwritable-name"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_first_write(tmp_path, dataset, options, code):
    log = write(dataset, tmp_path / "out", **options)
    assert code in log.counts
    assert log.errors
    assert not list((tmp_path / "out").rglob("*.*"))


@pytest.mark.parametrize(("n", "note"), [(1, 0), (2, 1), (5, 4)])
def test_result_files_do_not_name_images_without_detections(tmp_path, n, note):
    log = write(small(images=[f"{i}.jpg" for i in range(n)], score=[1]), tmp_path / "out", results=True)
    notes = [text for text in log.notes if "without detections" in text]
    counts = [text.rpartition(": ")[2] for text in notes]
    assert counts == ([f"{note} image{'s' if note > 1 else ''}"] if note else [])


@pytest.mark.parametrize("above", ["", "data", "data/2007"])
def test_folders_named_as_splits_are_splits_wherever_they_lie(tmp_path, above):
    for split in ("train", "val"):
        save(tmp_path / above / split / "more", **{f"{split}.xml": document()})
    dataset, _ = read(tmp_path)
    assert sorted(dataset.images.split) == ["train", "val"]


def test_ground_truth_cannot_be_written_as_results(tmp_path):
    with pytest.raises(UsageError):
        write(small(), tmp_path / "out", results=True)


def test_options_are_checked(tmp_path):
    with pytest.raises(UsageError):
        read(save(tmp_path / "in", a=document()), origin="2")
    with pytest.raises(UsageError):
        module.read(Source(str(tmp_path / "in")), Builder(), Log(), module.VocOptions(origin=7))


# --------------------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a": document()}, "1 XML file, the first has the root <annotation>"),
        ({"a": document(), "b": document()}, "2 XML files, the first has the root <annotation>"),
        ({"a": "cut", "b": document()}, "2 XML files, b.xml has the root <annotation>"),
        ({"a": document().encode("utf-16")}, "the root <annotation>"),
        (
            {"a": "<?xml version='1.0'?><!-- x --><!DOCTYPE annotation SYSTEM 'x'>" + document()},
            "root <annotation>",
        ),
        ({"a": document().replace("annotation", "Annotation")}, "root <Annotation>"),
        ({"a": "<annotation/>"}, "root <annotation>"),
        ({"a": ""}, "none of which has another root"),
        ({"comp4_det_test_dog.txt": ""}, "1 file is named like the result files"),
        ({"a": "<annotations><image/></annotations>"}, None),
        (
            {
                "a": "<annotation><filename>a.jpg</filename><object><polygon><pt/></polygon></object></annotation>"
            },
            None,
        ),
        ({"a": "<html/>", "b": "<svg/>"}, None),
        ({"a.txt": "dog 1 2 3 4"}, None),
    ],
)
def test_sniffing(tmp_path, files, reason):
    answer = VOC.sniff(Source(str(save(tmp_path / "in", **files))))
    assert (answer is None) == (reason is None)
    assert reason is None or reason in answer.reason


def test_sniffing_one_file(tmp_path):
    save(tmp_path / "in", a=document(), b="<kml/>", **{"c.txt": "1 2 3 4 5"})
    assert VOC.sniff(Source(str(tmp_path / "in" / "a.xml"))).confidence == SURE
    assert VOC.sniff(Source(str(tmp_path / "in" / "b.xml"))) is None
    assert VOC.sniff(Source(str(tmp_path / "in" / "c.txt"))) is None


def test_the_docstring_names_every_option():
    for option in re.findall(r"-O (\w+)=", VOC.doc):
        assert option in module.VocOptions.__dataclass_fields__


@pytest.mark.parametrize(("scored", "total", "kind"), [(1, 2, "gt"), (2, 3, "det"), (2, 2, None)])
def test_what_objects_are_of_which_some_have_a_score(tmp_path, scored, total, kind):
    objects = [
        f"<object>{BOX}{'<confidence>0.5</confidence>' if i < scored else ''}</object>" for i in range(total)
    ]
    dataset, log = one(tmp_path, document("".join(objects)))
    words = {"gt": "ground truth", "det": "detections"}
    said = [f"{scored} of {total} objects have a score, so they are taken as {words[kind]}"] if kind else []
    assert [note for note in log.notes if "have a score" in note] == said
    assert dataset.kind == (kind or "det")


@pytest.mark.parametrize("doctype", [
    "", "<!DOCTYPE annotation>", '<!DOCTYPE annotation SYSTEM "a>b.dtd">', "<!DOCTYPE annotation [ ]>",
    '<!DOCTYPE annotation [ <!ELEMENT size (width)> <!ENTITY x "y"> ] >',
])  # fmt: skip
@pytest.mark.parametrize("around", ["", "\n", "<!-- <other> -->", "<?xml-stylesheet href='<other>'?>\r\n"])
@pytest.mark.parametrize("root", ["annotation", "annotation/", 'annotation a="b"', "annotation\n"])
def test_the_root_comes_after_the_prolog(doctype, around, root):
    text = f"<?xml version='1.0'?>{around}{doctype}{around}<{root}><size>"
    assert find_root(text.encode()) == (text, "annotation")


@pytest.mark.parametrize("text", [
    "", "annotation", "<!-- <annotation>", "<?xml <annotation>", "<!DOCTYPE a [ <!ELEMENT b>", "</annotation>",
    "<!DOCTYPE a [ ] ", "<!DOCTYPE a", "x<annotation>",
])  # fmt: skip
def test_a_head_without_a_whole_prolog_has_no_root(text):
    assert find_root(text.encode()) == (text, "")
