"""Bad and odd input as tables: by format, rows of name, change, what must come of it, and more fields of the case.

See `corpus.Case` for what a change may be, and `corpus.expected` for how an outcome is written.
"""

import gzip
import json

from corpus_base import BOXES, ONLY_B, Read, Unusable
from corpus_changes import (
    HALF,
    NOTHING,
    a_folder,
    a_socket,
    beside,
    bytes_name,
    every_file,
    external,
    fifo,
    folder_loop,
    hidden_litter,
    huge_sparse,
    link_inside,
    link_loop,
    link_outside,
    link_to_nowhere,
    linked_pictures,
    nuls,
    recoded,
    renumbered,
    sparse,
    with_bytes,
    zipped,
)

READ = Read()


def first(name):
    """The boxes, the first of them with another class."""
    return (("a", name, BOXES[0][2]), *BOXES[1:])


def renamed(name):
    """The boxes, with another name for the cats."""
    return tuple((o, name if n == "cat" else n, b) for o, n, b in BOXES)


def each(name, values, old, new, outcome, *, but=(), **more):
    """A row for each value, which stands for ``{}``; `values` by number, or by name in a dictionary."""
    keyed = values.items() if isinstance(values, dict) else enumerate(values)
    return [
        (f"{name}-{key}", (old, new.replace("{}", value)), outcome, more)
        for key, value in keyed
        if value not in but and key not in but
    ]


def by_itself(*values):
    return {value: value for value in values}


# ---------------------------------------------------------------------------------------------------- values

NOT_NUMBERS = [
    "1_0",
    "\uff11\uff10",
    "ten",
    "0x10",
    "1,5",
    "--1",
    "1e",
    "1 0",
    "\u0661\u0660",
    "+-3",
    "1\u00a00",
]
NOT_FINITE = ["nan", "NaN", "inf", "-Infinity", "1e999", "-1e400"]
ODD_NUMBERS = ["10.0", "+10", "1e1", "1.0E+1", "10.", "010", "10.00000000000000000000000000000"]

BAD_NAMES = {
    "absolute": "/etc/passwd",
    "up": "../../x.jpg",
    "inner-up": "a/../../x.jpg",
    "backslash-up": "..\\\\x.jpg",
    "drive": "C:/x.jpg",
    "drive-backslash": "C:\\\\x.jpg",
    "unc": "\\\\\\\\host\\\\x.jpg",
    "url": "http://host/x.jpg",
    "file-url": "file:///etc/passwd",
    "empty": "",
    "blank": "   ",
    "dot": ".",
    "control": "a\\u0001.jpg",
    "newline": "a\\nb.jpg",
    "nul": "a\\u0000.jpg",
    "c1": "a\\u0085.jpg",
    "separator": "a\\u2028.jpg",
    "surrogate": "\\ud800.jpg",
    "long": "x" * 300 + ".jpg",
    "deep": "d/" * 3000 + "x.jpg",
    "slash": "a//b.jpg",
    "folder": "a/",
}
PLAIN_NAMES = {key: json.loads(f'"{value}"') for key, value in BAD_NAMES.items()}
"""The same, as they are in files that have no escapes."""
PATHS = {key: value for key, value in PLAIN_NAMES.items() if key in (
    "absolute", "up", "inner-up", "backslash-up", "drive", "url", "file-url", "c1", "separator"
)}  # fmt: skip
NO_CLASSES = {"c0": "ca\x01t", "del": "ca\x7ft", "c1": "ca\u0085t", "ls": "ca\u2028t", "ps": "ca\u2029t"}
ODD_CLASSES = ["007", "null", "no", "1.0", "NA", "True", "~", "é", "e\u0301", "a b", "日本", "=1+1", "#x"]
NO_IDS = ("-1", "0.5", "x", "1e400", "nan", "9" * 400, "1_0", "-0")
LARGE = ("1e308", "1e200", "1.7e308")
NEST = 200_000
BOMB = (
    "<!DOCTYPE annotation [<!ENTITY a '"
    + "x" * 1000
    + "'>"
    + "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)
YAML_BOMB = "a: &a [x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

# ---------------------------------------------------------------------------------------------- of every format

FILE_FAULTS = {
    "fifo": (fifo, "unreadable-file"),
    "socket": (a_socket, "unreadable-file"),
    "folder": (a_folder, "unreadable-file"),
    "link-loop": (link_loop, "unreadable-file"),
    "link-to-nowhere": (link_to_nowhere, "unreadable-file"),
    "link-outside": (link_outside, "link-outside"),
    "nuls": (nuls, "unreadable-file"),
    "sparse-64-GB": (sparse, "unreadable-file"),
    "sparse-192-GB": (huge_sparse, "unreadable-file"),
    "link-inside": (link_inside, READ),
    "hidden-litter": (hidden_litter, READ),
    "folder-loop": (folder_loop, "unreadable-file again"),
    "bom": (recoded("utf-8", b"\xef\xbb\xbf"), READ),
    "crlf": (with_bytes(lambda d: d.replace(b"\n", b"\r\n")), READ),
    "no-last-newline": (with_bytes(bytes.rstrip), READ),
    "linked-pictures": (linked_pictures(), READ),
    "linked-dangling-pictures": (linked_pictures(dangling=True), READ),
    "linked-folder-of-pictures": (linked_pictures(folder=True), READ),
}
ENCODED = {name: recoded(name) for name in ("utf-16", "utf-32")}
"""Encodings that XML and CSV may be in."""
NO_TEXT = {
    "gzip": (lambda t: gzip.compress(t.encode()), "not-text"),
    "zip": (zipped, "not-text"),
    "png": (lambda _: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not-text"),
    "utf-16-with-mark": (lambda t: t.encode("utf-16"), "not-utf8"),
    "utf-16-be-with-mark": (lambda t: b"\xfe\xff" + t.encode("utf-16-be"), "not-utf8"),
    "utf-32-with-mark": (lambda t: t.encode("utf-32"), "not-utf8"),
    "utf-16-le-unmarked": (lambda t: t.encode("utf-16-le"), "not-utf8"),
    "utf-16-be-unmarked": (lambda t: t.encode("utf-16-be"), "not-utf8"),
    "utf-32-le-unmarked": (lambda t: t.encode("utf-32-le"), "not-utf8"),
    "a-few-nuls": (lambda _: b"\0" * 100, "not-utf8"),
    "many-nuls": (lambda _: b"\0" * 10_000, "unreadable-file"),
}
"""What stands in all files, and the code that names it, with and without ``--format``."""
TAKEN = ("utf-16-with-mark", "utf-16-be-with-mark", "utf-32-with-mark", "utf-32-le-unmarked")
"""Those that XML and CSV may be in, and one that XML may be in by chance."""
UNUSABLE = {"fifo": "FIFO", "socket": "socket", "link-loop": "symbolic", "link-to-nowhere": "No such"}


def of_any_file(format_):
    """The rows that every format has."""
    yield from ((name, change, outcome) for name, (change, outcome) in FILE_FAULTS.items())
    for name, change in ENCODED.items():
        yield name, change, READ if format_ in ("voc", "csv") else "not-utf8"
    if format_ not in ("voc", "csv"):
        yield "utf-16-be", recoded("utf-16-be"), "not-utf8"
    if format_ != "voc":  # where an old Macintosh's line ends are XML's own affair
        yield "cr", with_bytes(lambda d: d.replace(b"\n", b"\r")), READ
        yield "cr-among-lf", with_bytes(lambda d: d.replace(b"\n", b"\r", 1)), READ
        yield "cr-cr-lf", with_bytes(lambda d: d.replace(b"\n", b"\r\r\n")), READ
    for name, (function, code) in NO_TEXT.items():
        if format_ not in ("voc", "csv") or name not in TAKEN:
            yield f"all-{name}", every_file(function), code
            yield f"all-{name}-named", every_file(function), code, {"named": True}


def of_a_single_file():
    """The rows of a format that is one file."""
    for name, says in UNUSABLE.items():
        yield f"named-{name}", FILE_FAULTS[name][0], Unusable(says), {"named": True}
    yield "named-link", link_outside, READ, {"named": True}  # the user named it


TXT = [
    *each("number", NOT_NUMBERS, "cat 10", "cat {}", "not-a-number:1", but=["1 0"]),
    *each("not-finite", NOT_FINITE, "cat 10", "cat {}", "not-finite:1"),
    *each("score-not-finite", NOT_FINITE, "cat 0.9", "cat {}", "not-finite:1", det=True),
    *each("odd-number", ODD_NUMBERS, "cat 10", "cat {}", READ),
    *each("class", NO_CLASSES, "cat", "{}", "bad-class-name:1"),
    *(
        (f"class-name-{i}", every_file(lambda t, n=n: t.replace("cat", n).encode()), Read(renamed(n)))
        for i, n in enumerate(ODD_CLASSES)
    ),
    *each("score", by_itself("1.5", "-0.1", "95"), "cat 0.9", "cat {}", "score-out-of-range:1", det=True),
    *each("too-large", by_itself(*LARGE), "40 30", "{} {}", "coordinates-not-finite:1"),
    *(
        (
            f"too-large-{v}-{box}",
            ("cat 10 10 40 30", f"cat -{v} 10 {v} 30"),
            ":1",
            {"options": ("--box", box)},
        )
        for v in LARGE
        for box in ("ltwh", "cxcywh")
    ),
    *(
        (
            f"too-large-{v}-relative",
            ("cat 10 10 40 30", f"cat {v} 0.5 {v} 0.5"),
            "relative-out-of-range:1",
            {"options": ("--coords", "rel")},
        )
        for v in LARGE
    ),
    ("file-name-not-utf8", bytes_name, "bad-name "),
    ("nothing-but-a-vertical-tab", with_bytes(lambda _: b"\v"), "wrong-count:1"),
    ("nothing-but-a-form-feed", with_bytes(lambda _: b"\f\n"), "wrong-count:1"),
    ("file-name-newline", {"a\nb.txt": "cat 1 2 3 4\n"}, "bad-name a\\nb.txt"),
    ("file-name-markup", {"[red]<&>'\".txt": ""}, Read(code="device-name")),
    ("bad-utf8", ("cat", b"c\x81t"), "not-utf8:1"),
    ("nul-inside", ("cat", "c\x00t"), "bad-class-name:1"),
    ("nul-in-number", ("cat 10", "cat 1\x00"), "not-a-number:1"),
    ("few", ("cat 10 10 40 30", "cat 10 10 40"), ":1"),
    ("huge-line", ("cat 10 10 40 30", "cat " + "10 " * 300_000), ":1"),
    ("huge-word", ("cat 10 10 40 30", "x" * 900_000), "wrong-count:1"),
    ("huge-number", ("cat 10", "cat " + "9" * 900_000), "not-finite:1"),
    ("long-number", ("cat 10 ", "cat 10." + "0" * 900_000 + " "), READ),
    ("tabs-and-blanks", ("cat 10 10 40 30", " cat\t10  10 \t 40 30 \t"), READ),
    ("blank-lines", ("cat 10", "\n \n\t\ncat 10"), READ),
    ("empty-file", ("cat 10 10 40 30\ndog 50 20 90 70\n", ""), Read(tuple(ONLY_B))),
    ("classes-txt", {"classes.txt": "cat\ndog\n"}, READ),
    ("inverted", ("cat 10 10 40 30", "cat 40 10 10 30"), "inverted-box:1"),
    ("form-feed", ("cat 10", "cat\x0c10"), ":1"),
    ("vertical-tab", ("cat 10", "cat 10\x0b"), ":1"),
    ("line-separator", ("cat 10 10 40 30\n", "cat 10 10 40 30\u2028"), ":1"),
    ("gt-with-score", ("cat 10", "cat 0.5 10"), "score-unexpected:1", {"options": ("--kind", "gt")}),
    ("score-missing", ("cat 0.9 ", "cat "), "score-missing:1", {"det": True}),
]
YOLO = [
    *each("number", NOT_NUMBERS, "0 0.25", "0 {}", "not-a-number:1", but=["1 0"]),
    *each("not-finite", NOT_FINITE, "0 0.25", "0 {}", "not-finite:1"),
    *each("score-not-finite", NOT_FINITE, "0.25 0.9", "0.25 {}", "not-finite:1", det=True),
    *each("score", by_itself("1.5", "-0.1", "95"), "0.25 0.9", "0.25 {}", ":1", det=True),
    *each("class", NO_CLASSES, "cat", "{}", "bad-listed-class classes.txt:1", file="classes.txt"),
    *(
        (f"class-name-{i}", ("cat", n), Read(renamed(n)), {"file": "classes.txt"})
        for i, n in enumerate(ODD_CLASSES)
    ),
    *each("id", {v[:9]: v for v in NO_IDS}, "0 0.25", "{} 0.25", "yolo-class-id:1"),
    *each("too-large", by_itself(*LARGE), "0 0.25", "0 {}", "relative-out-of-range:1"),
    # A leading ../ is stripped, as some tools write it; what is then not there is the fault.
    *(
        (
            f"list-{name}",
            {"data.yaml": "train: train.txt\nnames: [cat, dog]\n", "train.txt": f"{value}\n"},
            " data.yaml:1" if name in ("up", "backslash-up") else " train.txt:1",
        )
        for name, value in PATHS.items()
        if name not in ("c1", "separator")
    ),
    *(
        (
            f"yaml-train-{name}",
            {"data.yaml": f"train: {value}\nnames: [cat, dog]\n"},
            "yolo-place-outside data.yaml:1",
        )
        for name, value in {
            "absolute": "/etc",
            "up": "a/../../etc",
            "url": "http://host/set",
            "drive": "C:/set",
        }.items()
    ),
    ("nothing-but-a-vertical-tab", with_bytes(lambda _: b"\v"), "wrong-count:1"),
    ("nothing-but-a-form-feed", with_bytes(lambda _: b"\f\n"), "wrong-count:1"),
    *(
        (f"{name}-asked", FILE_FAULTS[name][0], "picture-behind-link labels/a.txt", {"size": False})
        for name in ("linked-pictures", "linked-dangling-pictures", "linked-folder-of-pictures")
    ),
    ("linked-pictures-followed", linked_pictures(), READ, {"size": False, "options": ("--follow-links",)}),
    ("linked-pictures-named", linked_pictures(), READ, {"size": False, "options": ("--images", "photos")}),
    ("bad-utf8", ("cat", b"c\x81t"), "not-utf8 classes.txt:1", {"file": "classes.txt"}),
    ("nul-inside", ("0 0.25", "0 0.2\x00"), "not-a-number:1"),
    (
        "score-missing",
        ("0.25 0.9", "0.25"),
        "score-missing:1",
        {"det": True, "options": ("--conf-column", "last")},
    ),
    ("id-float", ("0 0.25", "0.0 0.25"), READ),
    ("id-unknown", ("0 0.25", "7 0.25"), "unknown-class:1"),
    ("pixels", ("0 0.25 0.25 0.3 0.25", "0 25 20 30 20"), "relative-out-of-range:1"),
    ("huge-line", ("0 0.25 0.25 0.3 0.25", "0 " + "0.5 " * 200_001), ":1"),
    ("yaml-bomb", {"data.yaml": YAML_BOMB + "names: [cat, dog]\n"}, " data.yaml"),
    ("yaml-object", {"data.yaml": "names: !!python/object/apply:os.system ['touch pwned']\n"}, " data.yaml"),
    ("yaml-deep", {"data.yaml": "names: " + "[" * 50_000 + "]" * 50_000 + "\n"}, " data.yaml"),
    ("yaml-cut", {"data.yaml": "names: [cat, dog"}, " data.yaml"),
    ("yaml-duplicate", {"data.yaml": "names: [cat, dog]\nnames: [dog, cat]\n"}, " data.yaml:2"),
    ("yaml-nuls", {"data.yaml": b"\x00" * 5000}, "unreadable-file data.yaml"),
    ("yaml-bad-utf8", {"data.yaml": b"names: [c\x81t, dog]\n"}, "not-utf8 data.yaml"),
    ("nc-wrong", {"data.yaml": "nc: 3\nnames: [cat, dog]\n"}, "yolo-class-count data.yaml:1"),
    ("names-disagree", {"sub/classes.txt": "dog\ncat\n"}, "class-lists-disagree sub/classes.txt"),
    ("names-other", {"data.yaml": "names: [cat, dog, bird]\n"}, Read(code="yolo-other-class-list")),
    ("names-gap", ("cat\ndog", "cat\n\ndog"), "bad-class-list classes.txt", {"file": "classes.txt"}),
    ("yaml-tuple", {"data.yaml": "names: !!python/tuple [cat, dog]\n"}, READ),
    ("yaml-plain-tags", {"data.yaml": "names: !!seq [!!str cat, ! dog]\n"}, READ),
]
VOC = [
    *each("number", NOT_NUMBERS, "<xmin>10<", "<xmin>{}<", "not-a-number:5"),
    *each("not-finite", NOT_FINITE, "<xmin>10<", "<xmin>{}<", "not-finite:5"),
    *each("score-not-finite", NOT_FINITE, ">0.9<", ">{}<", "not-finite:4", det=True),
    *each("odd-number", ODD_NUMBERS, "<xmin>10<", "<xmin> {} <", READ),
    *each("name", PATHS, ">a.jpg<", ">{}<", "bad-name:2"),
    *each("class", NO_CLASSES, ">cat<", ">{}<", "bad-class-name:4", but=["c0"]),  # which no XML can hold
    *each(
        "width",
        by_itself("0.5", "-3", "1e10", "abc", "99999999999999999999", "1_00"),
        "<width>100<",
        "<width>{}<",
        "bad-image-size:3",
    ),
    ("external-subset", external('SYSTEM "URL/a.dtd"'), Read(code="xml-doctype")),
    ("external-entity", external('[<!ENTITY e SYSTEM "URL/secret">]', "&e;"), "xml-dtd"),
    ("external-parameter", external('[<!ENTITY % e SYSTEM "URL/secret"> %e;]'), "xml-dtd"),
    ("external-network", external('[<!ENTITY e SYSTEM "http://127.0.0.1:9/e">]', "&e;"), "xml-dtd"),
    ("file-name-newline", {"a\nb.xml": "<annotation/>"}, "bad-name a\\nb.xml"),
    ("entity-bomb", ("<annotation>", BOMB + "\n<annotation>"), "xml-dtd"),
    ("entity-bomb-used", ("<annotation>\n<filename>a", BOMB + "\n<annotation>\n<filename>&i;"), "xml-dtd"),
    (
        "xinclude",
        (
            "<annotation>",
            '<annotation><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>',
        ),
        READ,
    ),
    ("stylesheet", ("<annotation>", '<?xml-stylesheet href="http://127.0.0.1:9/"?><annotation>'), READ),
    ("comments", (">10<", ">1<!-- x -->0<"), READ),
    ("cdata", (">cat<", "><![CDATA[cat]]><"), READ),
    ("character-reference", (">cat<", ">c&#97;t<"), READ),
    ("deep", ("</annotation>", "<x>" * 100_000 + "</x>" * 100_000 + "</annotation>"), ""),
    ("cut", HALF, "xml-syntax"),
    ("empty", NOTHING, "xml-syntax"),
    ("gzip", with_bytes(gzip.compress), ""),
    ("two-roots", with_bytes(lambda d: d + d), "xml-syntax"),
    ("bad-utf8", with_bytes(lambda d: d.replace(b"cat", b"c\x81t")), ":4"),
    (
        "latin-1-declared",
        with_bytes(
            lambda d: b'<?xml version="1.0" encoding="ISO-8859-1"?>' + d.replace(b">cat<", b">c\xe9t<")
        ),
        Read(first("cét")),
    ),
    (
        "latin-1-not-declared",
        with_bytes(lambda d: b'<?xml version="1.0" encoding="UTF-8"?>\n' + d.replace(b">cat<", b">c\xe9t<")),
        ":5",
    ),
    ("upper-case", ("annotation>", "ANNOTATION>"), "xml-root", {"count": 2}),
    ("namespace", ("<annotation>", '<annotation xmlns="urn:x">'), "xml-root"),
    ("two-sizes", ("<object>", "<size><width>1</width><height>1</height></size><object>"), ":4"),
    (
        "two-boxes",
        ("</bndbox>", "</bndbox><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"),
        ":5",
    ),
    ("two-xmin", ("<xmin>10</xmin>", "<xmin>10</xmin><xmin>11</xmin>"), ":5"),
    ("html", with_bytes(lambda _: b"<!DOCTYPE html><html><body>404</body></html>"), ""),
    (
        "part",
        (
            "</object>",
            "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>",
        ),
        READ,
    ),
    ("nul-inside", (">cat<", ">c\x00t<"), "xml-syntax"),
    ("score-missing", ("<confidence>0.9</confidence>", ""), "score-missing", {"det": True}),
]
COCO = [
    *of_a_single_file(),
    *each(
        "bbox",
        by_itself("NaN", "Infinity", "1e999", "-1e400"),
        "[\n    10.0",
        "[\n    {}",
        "not-finite#/annotations/0/bbox",
    ),
    *each(
        "score",
        by_itself("NaN", "Infinity", "1e999", "-1e400"),
        '"score": 0.9',
        '"score": {}',
        "not-finite#/annotations/0/score",
        det=True,
    ),
    *each(
        "syntax",
        {ascii(v): v for v in ("1_0", "010", "+10", "0x10", ".5", "10.", "\uff11")},
        "[\n    10.0",
        "[\n    {}",
        "json-syntax",
    ),
    *each(
        "type",
        by_itself('"10"', "null", "true", "[10]", "{}"),
        "[\n    10.0",
        "[\n    {}",
        "wrong-box-type#/annotations/0/bbox/0",
    ),
    *each("name", BAD_NAMES, '"file_name": "a.jpg"', '"file_name": "{}"', "bad-name#/images/0/file_name"),
    *each(
        "class",
        {k: json.dumps(v) for k, v in NO_CLASSES.items()},
        '"name": "cat"',
        '"name": {}',
        "bad-listed-class#/categories/0/name",
    ),
    *(
        (f"class-name-{i}", ('"name": "cat"', f'"name": {json.dumps(n)}'), Read(renamed(n)))
        for i, n in enumerate(ODD_CLASSES)
    ),
    *(
        (
            f"all-brackets{'-named' * named}",
            every_file(lambda _: b"[" * 100_000),
            "json-too-deep",
            {"named": named},
        )
        for named in (False, True)
    ),
    ("id-2-53", renumbered(2**53 + 1), READ),
    ("id-2-63", renumbered(2**63 - 1), READ),
    ("id-text", renumbered('"x-1"'), READ),
    ("id-negative", renumbered(-5), READ),
    *((f"id-{v}", renumbered(v), "") for v in (2**64, 2**63, "1e30", 10**40)),
    ("beside-fifo", beside(fifo), " instances_more.json"),
    ("beside-cut", beside(with_bytes(lambda d: d[:-40])), " instances_more.json"),
    ("beside-nuls", beside(nuls), " instances_more.json"),
    ("beside-empty", beside(NOTHING), " instances_more.json"),
    ("deep-list", ('"images"', '"x": ' + "[" * NEST + "]" * NEST + ', "images"'), "json-too-deep"),
    (
        "deep-object",
        ('"images"', '"x": ' + '{"a":' * NEST + "1" + "}" * NEST + ', "images"'),
        "json-too-deep",
    ),
    ("deep-open", ('"images"', '"x": ' + "[" * NEST + ', "images"'), ""),
    (
        "deep-segmentation",
        ('"iscrowd": 0', '"iscrowd": 0, "segmentation": ' + "[" * NEST + "]" * NEST),
        "json-too-deep",
    ),
    ("cut", HALF, "json-syntax"),
    ("empty", NOTHING, ""),
    ("twice", with_bytes(lambda d: d + d), "json-syntax"),
    ("trailing-comma", ('\n  }\n ],\n "categories"', '\n  },\n ],\n "categories"'), "json-syntax"),
    ("bad-utf8", ('"name": "cat"', b'"name": "c\x81t"'), "not-utf8"),
    ("bad-utf8-ignored", ('"iscrowd": 0', b'"iscrowd": 0, "note": "c\x81t"'), "not-utf8"),
    ("duplicate-bbox", ('"iscrowd": 0', '"iscrowd": 0, "bbox": [1, 2, 3, 4]'), "#/annotations/0"),
    ("duplicate-top", ('"categories"', '"annotations": [], "categories"'), "duplicate-key"),
    ("duplicate-escaped", ('"iscrowd": 0', '"iscrowd": 0, "bb\\u006fx": [1, 2, 3, 4]'), "#/annotations/0"),
    ("duplicate-id-key", ('"iscrowd": 0', '"iscrowd": 0, "category_id": 2'), "#/annotations/0"),
    ("bbox-of-3", ("[\n    10.0,", "["), "wrong-count#/annotations/0/bbox"),
    ("bbox-of-5", ("[\n    10.0,", "[\n    10.0, 10.0,"), "wrong-count#/annotations/0/bbox"),
    (
        "bbox-null",
        ('"bbox": [\n    10.0,\n    10.0,\n    30.0,\n    20.0\n   ]', '"bbox": null'),
        "#/annotations/0/bbox",
    ),
    ("unknown-image", ('"image_id": 1', '"image_id": 99'), "unknown-image-id#/annotations/0"),
    ("unknown-category", ('"category_id": 1', '"category_id": 99'), "unknown-category-id#/annotations/0"),
    ("image-id-null", ('"image_id": 1', '"image_id": null'), "#/annotations/0/image_id"),
    ("score-missing", (',\n   "score": 0.9', ""), "", {"det": True, "options": ("--kind", "det")}),
    ("iscrowd-2", ('"iscrowd": 0', '"iscrowd": 2'), "bad-flag#/annotations/0/iscrowd"),
    ("width-huge", ('"width": 100', '"width": 2147483648'), "bad-image-size#/images/0/width"),
    ("width-fraction", ('"width": 100', '"width": 100.5'), "bad-image-size#/images/0/width"),
    ("width-float", ('"width": 100', '"width": 100.0'), READ),
    ("width-0", ('"width": 100', '"width": 0'), Read(code="image-size-missing")),
    ("images-object", ('"images": [', '"images": {}, "x": ['), "wrong-type#/images"),
    ("image-id-twice", ('"id": 2,\n   "file_name"', '"id": 1,\n   "file_name"'), "duplicate-id#/images/1/id"),
    ("huge-string", ('"iscrowd": 0', '"iscrowd": 0, "note": "' + "x" * 900_000 + '"'), READ),
    ("huge-number", ('"iscrowd": 0', '"iscrowd": 0, "note": ' + "9" * 900_000), READ),
    ("huge-number-box", ("[\n    10.0", "[\n    " + "9" * 100_000), "not-finite#/annotations/0/bbox/0"),
    ("long-zeros", ("[\n    10.0", "[\n    10." + "0" * 100_000), READ),
    ("pandas-ids", ('"image_id": 1', '"image_id": 1.0'), Read(code="id-written-as-float"), {"count": 2}),
    ("nul-inside", ('"cat"', '"c\x00t"'), "json-syntax"),
]
CSV = [
    *of_a_single_file(),
    *each("number", NOT_NUMBERS, ",10,10,", ",{},10,", "not-a-number:2", but=["1,5"]),
    *each("not-finite", NOT_FINITE, ",10,10,", ",{},10,", "not-finite:2"),
    *each("score-not-finite", NOT_FINITE, ",0.9,", ",{},", "not-finite:2", det=True),
    *each("odd-number", ODD_NUMBERS, ",10,10,", ",{},10,", READ),
    *each(
        "name",
        PLAIN_NAMES,
        "a.jpg",
        '"{}"',
        "bad-name:2",
        but=["surrogate", "nul", "newline", "empty", "blank"],
        count=2,
    ),
    *each("class", NO_CLASSES, "cat", "{}", "bad-class-name:2"),
    *(
        (f"class-name-{i}", (",cat,", f",{n},"), Read(renamed(n)), {"count": 9})
        for i, n in enumerate(ODD_CLASSES)
    ),
    *each("too-large", by_itself(*LARGE), "40,30", "{},{}", "coordinates-not-finite:2"),
    ("bad-utf8", ("cat", b"c\x81t"), "not-utf8:2"),
    ("nul-inside", ("cat", "c\x00t"), "nul-character:2"),
    ("score-missing", (",0.9,", ",,"), "score-missing:2", {"det": True}),
    ("open-quote", ("cat", '"cat'), "open-quote:2"),
    ("huge-field", ("cat", "x" * 900_000), "bad-class-name:2"),
    ("huge-quoted", ("cat", '"' + "x\n" * 40_000 + '"'), ":2"),
    ("short-row", (",40,30", ",40"), "wrong-count:2"),
    ("long-row", (",40,30", ",40,30,50"), "wrong-count:2"),
    ("duplicate-column", ("left,top", "left,left"), "duplicate-column:1"),
    ("quoted", ("a.jpg,100,80,cat", '"a.jpg","100","80","cat"'), READ),
    ("empty", NOTHING, ""),
    ("cut", with_bytes(lambda d: d[: d.rindex(b",")]), "wrong-count:4"),
    ("thousands", (",10,10,", ',"1,010",10,'), ":2"),
    ("two-sizes", ("a.jpg,100", "a.jpg,101"), "image-size-conflict:3"),
    ("na", ("cat", "NA"), Read(first("NA"))),
]
TABLES = {
    format_: [*of_any_file(format_), *rows]
    for format_, rows in {"txt": TXT, "yolo": YOLO, "voc": VOC, "coco": COCO, "csv": CSV}.items()
}
