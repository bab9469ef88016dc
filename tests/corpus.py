"""Bad and odd input by format and fault, made anew for each test: links, FIFOs and sparse files cannot be committed.

Each case begins with one small data set in one format, breaks one thing, and says what must come of it:
`Refused` with a code and a place, `Read` with exactly these boxes (and perhaps a warning), or `Unusable`.

This file holds no test. Tests load it by path, because test modules cannot import each other.
"""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import zipfile
import zlib
from pathlib import Path

WIDTH, HEIGHT = 100, 80
BOXES = [
    ("a", "cat", (10.0, 10.0, 40.0, 30.0)),
    ("a", "dog", (50.0, 20.0, 90.0, 70.0)),
    ("b", "cat", (5.0, 5.0, 20.0, 60.0)),
]
SCORES = [0.9, 0.8, 0.7]
ONLY_B = BOXES[2:]
WITHOUT_DOG = [BOXES[0], BOXES[2]]

# --------------------------------------------------------------------------------- the data set, in each format


def txt(det=False):
    def row(i):
        _, name, box = BOXES[i]
        return " ".join([name, *([f"{SCORES[i]}"] if det else []), *(f"{v:g}" for v in box)]) + "\n"

    return {"a.txt": row(0) + row(1), "b.txt": row(2)}


def yolo(det=False):
    def row(i):
        _, name, (left, top, right, bottom) = BOXES[i]
        values = [
            (left + right) / 2 / WIDTH,
            (top + bottom) / 2 / HEIGHT,
            (right - left) / WIDTH,
            (bottom - top) / HEIGHT,
        ]
        last = [SCORES[i]] if det else []
        return " ".join([str(["cat", "dog"].index(name)), *(f"{v:g}" for v in [*values, *last])]) + "\n"

    return {"a.txt": row(0) + row(1), "b.txt": row(2), "classes.txt": "cat\ndog\n"}


def voc(det=False):
    def page(image):
        lines = [
            "<annotation>",
            f"<filename>{image}.jpg</filename>",
            f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>",
        ]
        for i, (owner, name, (left, top, right, bottom)) in enumerate(BOXES):
            if owner == image:
                score = f"<confidence>{SCORES[i]}</confidence>" if det else ""
                edges = (
                    f"<xmin>{left:g}</xmin><ymin>{top:g}</ymin><xmax>{right:g}</xmax><ymax>{bottom:g}</ymax>"
                )
                lines += [f"<object><name>{name}</name>{score}", f"<bndbox>{edges}</bndbox>", "</object>"]
        return "\n".join([*lines, "</annotation>"]) + "\n"

    return {"a.xml": page("a"), "b.xml": page("b")}


def coco(det=False):
    images, annotations = ["a", "b"], []
    for i, (owner, name, (left, top, right, bottom)) in enumerate(BOXES):
        record = {
            "id": i + 1,
            "image_id": images.index(owner) + 1,
            "category_id": ["cat", "dog"].index(name) + 1,
            "bbox": [left, top, right - left, bottom - top],
        }
        annotations.append(
            record
            | ({"score": SCORES[i]} if det else {"area": record["bbox"][2] * record["bbox"][3], "iscrowd": 0})
        )
    whole = {
        "images": [
            {"id": i + 1, "file_name": f"{name}.jpg", "width": WIDTH, "height": HEIGHT}
            for i, name in enumerate(images)
        ],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    return {"instances_all.json": json.dumps(whole, indent=1)}


def csv(det=False):
    lines = ["image,width,height,class,score,left,top,right,bottom"]
    for i, (owner, name, box) in enumerate(BOXES):
        score = f"{SCORES[i]}" if det else ""
        lines.append(f"{owner}.jpg,{WIDTH},{HEIGHT},{name},{score}," + ",".join(f"{v:g}" for v in box))
    return {"boxes.csv": "\n".join(lines) + "\n"}


BASE = {"txt": txt, "yolo": yolo, "voc": voc, "coco": coco, "csv": csv}
MAIN = {"txt": "a.txt", "yolo": "a.txt", "voc": "a.xml", "coco": "instances_all.json", "csv": "boxes.csv"}
SINGLE = {"coco", "csv"}
TOLD = {
    "txt": ["--box", "ltrb", "--image-size", f"{WIDTH}x{HEIGHT}"],
    "yolo": ["--image-size", f"{WIDTH}x{HEIGHT}"],
}
"""What has to be said where the files do not: options of the command line by format."""


def lay(folder, files):
    """Write files, whose contents are text or bytes, into a new folder."""
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Path(folder)


# ------------------------------------------------------------------------------------------------- expectations


@dataclasses.dataclass(frozen=True)
class Refused:
    """Exit code 1, an error of this code at this place (a path below the case's folder), nothing written."""

    code: str
    location: str = ""


@dataclasses.dataclass(frozen=True)
class Read:
    """Exit code 0 and exactly these boxes; where `code` is given, a warning says so."""

    boxes: tuple = tuple(BOXES)
    code: str = ""


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Exit code 3: the source itself cannot be used."""

    says: str


@dataclasses.dataclass
class Case:
    format: str
    name: str
    build: object
    """Makes the case below a folder, answers the path of the source relative to it."""
    expect: object
    det: bool = False
    options: tuple = ()
    size: bool = True
    """Whether the size of the images is said."""

    def __str__(self):
        return f"{self.format}{'-det' if self.det else ''}-{self.name}"

    @property
    def explicit(self):
        return [*(TOLD.get(self.format, ()) if self.size else ()), *self.options]


CASES = []


def case(format_, name, build, expect, **more):
    made = Case(format_, name, build, expect, **more)
    assert str(made) not in {str(c) for c in CASES}, str(made)
    CASES.append(made)


def edited(format_, old, new, *, file=None, det=False, count=1):
    """The data set with one piece of text replaced."""

    def build(home):
        files = BASE[format_](det)
        name = file or MAIN[format_]
        content = files[name].encode() if isinstance(files[name], str) else files[name]
        before, after = (t.encode() if isinstance(t, str) else t for t in (old, new))
        assert before in content, (format_, old)
        files[name] = content.replace(before, after, count)
        lay(home / "in", files)
        return "in"

    return build


def changed(format_, change, *, det=False):
    """The data set after `change(folder, main file)` had its way with it."""

    def build(home):
        folder = lay(home / "in", BASE[format_](det))
        change(folder, folder / MAIN[format_])
        return "in"

    return build


def single(format_, change):
    """As `changed`, but the file itself is what the user names."""

    def build(home):
        folder = lay(home / "in", BASE[format_]())
        change(folder, folder / MAIN[format_])
        return f"in/{MAIN[format_]}"

    return build


def added(format_, files, *, det=False):
    """The data set and more files beside it."""

    def build(home):
        lay(home / "in", BASE[format_](det) | files)
        return "in"

    return build


# ----------------------------------------------------------------------------------------- faults of any file


def fifo(_, main):
    main.unlink()
    os.mkfifo(main)


def a_socket(_, main):
    main.unlink()
    here = os.getcwd()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        os.chdir(main.parent)  # the name of a socket may have 107 bytes only
        try:
            s.bind(main.name)
        finally:
            os.chdir(here)


def a_folder(_, main):
    main.unlink()
    main.mkdir()


def link_loop(_, main):
    main.unlink()
    main.symlink_to(main.name)


def link_to_nowhere(_, main):
    main.unlink()
    main.symlink_to("nowhere")


def link_outside(folder, main):
    outside = folder.parent / "outside"
    outside.mkdir()
    main.rename(outside / main.name)
    main.symlink_to(outside / main.name)


def link_inside(folder, main):
    (folder / ".kept").mkdir()
    main.rename(folder / ".kept" / main.name)
    main.symlink_to(folder / ".kept" / main.name)


def folder_loop(folder, _):
    (folder / "again").symlink_to(folder)


def hidden_litter(folder, main):
    (folder / f"._{main.name}").write_bytes(b"\0\5\26\7")
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    lay(folder / "__MACOSX", {f"._{main.name}": b"\0\5\26\7"})


def nuls(_, main):
    main.write_bytes(b"\0" * 10_000)


def sparse(_, main):
    with main.open("wb") as stream:
        stream.truncate(2**36)


def huge_sparse(_, main):
    with main.open("wb") as stream:
        stream.truncate(2**37 + 2**36)


def a_nul_at_the_end(_, main):
    main.write_bytes(main.read_bytes() + b"\0")


def recoded(encoding, bom=b""):
    def change(_, main):
        main.write_bytes(bom + main.read_text().encode(encoding))

    return change


def with_bytes(function):
    def change(_, main):
        main.write_bytes(function(main.read_bytes()))

    return change


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
}
for format_, main in MAIN.items():
    for name, (change, code) in FILE_FAULTS.items():
        case(format_, name, changed(format_, change), Refused(code, f"in/{main}"))
    for name, change in {"link-inside": link_inside, "hidden-litter": hidden_litter}.items():
        case(format_, name, changed(format_, change), Read())
    case(format_, "folder-loop", changed(format_, folder_loop), Refused("unreadable-file", "in/again"))
    case(format_, "bom", changed(format_, recoded("utf-8", b"\xef\xbb\xbf")), Read())
    case(format_, "crlf", changed(format_, with_bytes(lambda d: d.replace(b"\n", b"\r\n"))), Read())
    case(format_, "no-last-newline", changed(format_, with_bytes(bytes.rstrip)), Read())
    if format_ != "voc":  # where an old Macintosh's line ends are XML's own affair
        case(format_, "cr", changed(format_, with_bytes(lambda d: d.replace(b"\n", b"\r"))), Read())
    if format_ in ("voc", "csv"):  # encodings that these may declare
        case(format_, "utf-16", changed(format_, recoded("utf-16")), Read())
    else:
        case(format_, "utf-16", changed(format_, recoded("utf-16")), Refused("not-utf8", f"in/{main}"))
        case(format_, "utf-16-be", changed(format_, recoded("utf-16-be")), Refused("not-utf8", f"in/{main}"))
    if format_ in ("voc", "csv"):
        case(format_, "utf-32", changed(format_, recoded("utf-32")), Read())
    else:
        case(format_, "utf-32", changed(format_, recoded("utf-32")), Refused("not-utf8", f"in/{main}"))


def every_file(format_, function, *, named=False):
    """The data set with every file changed; `named` for the main file alone as the source."""

    def build(home):
        lay(home / "in", {k: function(v) for k, v in BASE[format_]().items()})
        return f"in/{MAIN[format_]}" if named else "in"

    return build


def zipped(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", text)
    return stream.getvalue()


TAKEN = ("utf-16-with-mark", "utf-16-be-with-mark", "utf-32-with-mark", "utf-32-le-unmarked")
"""Encodings that XML and CSV may be in, and one that XML may be in by chance."""
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
for format_, main in MAIN.items():
    for name, (function, code) in NO_TEXT.items():
        if format_ in ("voc", "csv") and name in TAKEN:
            continue
        for named in (False, True):
            case(
                format_,
                f"all-{name}{'-named' * named}",
                every_file(format_, function, named=named),
                Refused(code, f"in/{main}"),
            )
for named in (False, True):
    deep = every_file("coco", lambda _: "[" * 100_000, named=named)
    case("coco", f"all-brackets{'-named' * named}", deep, Refused("json-too-deep", "in/instances_all.json"))

for format_ in sorted(SINGLE):
    for name in ("fifo", "socket", "link-loop", "link-to-nowhere"):
        says = {"fifo": "FIFO", "socket": "socket", "link-loop": "symbolic", "link-to-nowhere": "No such"}
        case(format_, f"named-{name}", single(format_, FILE_FAULTS[name][0]), Unusable(says[name]))
    case(format_, "named-link", single(format_, link_outside), Read())  # the user named it


# ---------------------------------------------------------------------------------------- numbers, wherever

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

for i, value in enumerate(NOT_NUMBERS):
    code = "wrong-count" if value == "1 0" else "not-a-number"
    if value != "1 0":
        case("txt", f"number-{i}", edited("txt", "cat 10", f"cat {value}"), Refused(code, "in/a.txt:1"))
        case("yolo", f"number-{i}", edited("yolo", "0 0.25", f"0 {value}"), Refused(code, "in/a.txt:1"))
    case(
        "voc",
        f"number-{i}",
        edited("voc", "<xmin>10<", f"<xmin>{value}<"),
        Refused("not-a-number", "in/a.xml:5"),
    )
    if value != "1,5":
        case(
            "csv",
            f"number-{i}",
            edited("csv", ",10,10,", f",{value},10,"),
            Refused("not-a-number", "in/boxes.csv:2"),
        )
for i, value in enumerate(NOT_FINITE):
    case(
        "txt", f"not-finite-{i}", edited("txt", "cat 10", f"cat {value}"), Refused("not-finite", "in/a.txt:1")
    )
    case(
        "yolo", f"not-finite-{i}", edited("yolo", "0 0.25", f"0 {value}"), Refused("not-finite", "in/a.txt:1")
    )
    case(
        "voc",
        f"not-finite-{i}",
        edited("voc", "<xmin>10<", f"<xmin>{value}<"),
        Refused("not-finite", "in/a.xml:5"),
    )
    case(
        "csv",
        f"not-finite-{i}",
        edited("csv", ",10,10,", f",{value},10,"),
        Refused("not-finite", "in/boxes.csv:2"),
    )
    for format_, old, location in [
        ("txt", "cat 0.9", "in/a.txt:1"),
        ("yolo", "0.25 0.9", "in/a.txt:1"),
        ("csv", ",0.9,", "in/boxes.csv:2"),
        ("voc", ">0.9<", "in/a.xml:4"),
    ]:
        case(
            format_,
            f"score-not-finite-{i}",
            edited(format_, old, old.replace("0.9", value), det=True),
            Refused("not-finite", location),
            det=True,
        )
for i, value in enumerate(ODD_NUMBERS):
    case("txt", f"odd-number-{i}", edited("txt", "cat 10", f"cat {value}"), Read())
    case("voc", f"odd-number-{i}", edited("voc", "<xmin>10<", f"<xmin> {value} <"), Read())
    case("csv", f"odd-number-{i}", edited("csv", ",10,10,", f",{value},10,"), Read())
for value, code in {
    "NaN": "not-finite",
    "Infinity": "not-finite",
    "1e999": "not-finite",
    "-1e400": "not-finite",
}.items():
    case(
        "coco",
        f"bbox-{value}",
        edited("coco", "[\n    10.0", f"[\n    {value}"),
        Refused(code, "in/instances_all.json#/annotations/0/bbox"),
    )
    case(
        "coco",
        f"score-{value}",
        edited("coco", '"score": 0.9', f'"score": {value}', det=True),
        Refused(code, "in/instances_all.json#/annotations/0/score"),
        det=True,
    )
for value in ("1_0", "010", "+10", "0x10", ".5", "10.", "\uff11"):
    case(
        "coco",
        f"syntax-{value!a}",
        edited("coco", "[\n    10.0", f"[\n    {value}"),
        Refused("json-syntax", "in/instances_all.json"),
    )
for value in ('"10"', "null", "true", "[10]", "{}"):
    case(
        "coco",
        f"type-{value}",
        edited("coco", "[\n    10.0", f"[\n    {value}"),
        Refused("wrong-box-type", "in/instances_all.json#/annotations/0/bbox/0"),
    )

# ------------------------------------------------------------------------------------------------ names of files

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
for name, value in BAD_NAMES.items():
    case(
        "coco",
        f"name-{name}",
        edited("coco", '"file_name": "a.jpg"', f'"file_name": "{value}"'),
        Refused("bad-name", "in/instances_all.json#/images/0/file_name"),
    )
    explicit = json.loads(f'"{value}"')
    if name in ("surrogate", "nul", "newline"):
        continue
    if explicit.strip():
        quoted = f'"{explicit}"'
        case(
            "csv",
            f"name-{name}",
            edited("csv", "a.jpg", quoted, count=2),
            Refused("bad-name", "in/boxes.csv:2"),
        )
    if name in ("absolute", "up", "inner-up", "drive", "url", "file-url", "backslash-up", "c1", "separator"):
        code = "bad-name"
        case("voc", f"name-{name}", edited("voc", ">a.jpg<", f">{explicit}<"), Refused(code, "in/a.xml:2"))
        if name not in ("c1", "separator"):
            # A leading ../ is stripped, as some tools write it; what is then not there is the fault.
            location = "in/data.yaml:1" if name in ("up", "backslash-up") else "in/train.txt:1"
            case(
                "yolo",
                f"list-{name}",
                added(
                    "yolo",
                    {"data.yaml": "train: train.txt\nnames: [cat, dog]\n", "train.txt": f"{explicit}\n"},
                ),
                Refused("", location),
            )

for name, value in {
    "absolute": "/etc",
    "up": "a/../../etc",
    "url": "http://host/set",
    "drive": "C:/set",
}.items():
    case(
        "yolo",
        f"yaml-train-{name}",
        added("yolo", {"data.yaml": f"train: {value}\nnames: [cat, dog]\n"}),
        Refused("yolo-place-outside", "in/data.yaml:1"),
    )

case("txt", "file-name-not-utf8", lambda home: bytes_name(home, "txt"), Refused("bad-name", "in/"))
case(
    "txt",
    "file-name-newline",
    added("txt", {"a\nb.txt": "cat 1 2 3 4\n"}),
    Refused("bad-name", "in/a\\nb.txt"),
)
case(
    "voc",
    "file-name-newline",
    added("voc", {"a\nb.xml": "<annotation/>"}),
    Refused("bad-name", "in/a\\nb.xml"),
)
case("txt", "file-name-markup", added("txt", {"[red]<&>'\".txt": ""}), Read(code="device-name"))


def bytes_name(home, format_):
    folder = lay(home / "in", BASE[format_]())
    with open(os.fsencode(folder) + b"/\xff\xfe.txt", "wb") as stream:
        stream.write(b"cat 1 2 3 4\n")
    return "in"


# ------------------------------------------------------------------------------------------------------ classes

for name, value in {
    "c0": "ca\x01t",
    "del": "ca\x7ft",
    "c1": "ca\u0085t",
    "ls": "ca\u2028t",
    "ps": "ca\u2029t",
}.items():
    case("txt", f"class-{name}", edited("txt", "cat", value), Refused("bad-class-name", "in/a.txt:1"))
    case("csv", f"class-{name}", edited("csv", "cat", value), Refused("bad-class-name", "in/boxes.csv:2"))
    case(
        "yolo",
        f"class-{name}",
        edited("yolo", "cat", value, file="classes.txt"),
        Refused("bad-listed-class", "in/classes.txt:1"),
    )
    if name != "c0":  # which no XML can hold
        case(
            "voc",
            f"class-{name}",
            edited("voc", ">cat<", f">{value}<"),
            Refused("bad-class-name", "in/a.xml:4"),
        )
    case(
        "coco",
        f"class-{name}",
        edited("coco", '"name": "cat"', f'"name": {json.dumps(value)}'),
        Refused("bad-listed-class", "in/instances_all.json#/categories/0/name"),
    )
for i, value in enumerate(
    ["007", "null", "no", "1.0", "NA", "True", "~", "é", "e\u0301", "a b", "日本", "=1+1", "#x"]
):
    boxes = tuple((o, value if n == "cat" else n, b) for o, n, b in BOXES)

    def renamed(home, value=value, i=i):
        files = txt()
        lay(home / "in", {k: v.replace("cat", value) for k, v in files.items()})
        return "in"

    case("txt", f"class-name-{i}", renamed, Read(boxes))
    case("csv", f"class-name-{i}", edited("csv", ",cat,", f",{value},", count=9), Read(boxes))
    case(
        "coco",
        f"class-name-{i}",
        edited("coco", '"name": "cat"', f'"name": {json.dumps(value)}'),
        Read(boxes),
    )
    case("yolo", f"class-name-{i}", edited("yolo", "cat", value, file="classes.txt"), Read(boxes))

# ---------------------------------------------------------------------------------------------------------- XML

BOMB = (
    "<!DOCTYPE annotation [<!ENTITY a '"
    + "x" * 1000
    + "'>"
    + "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)
SECRET = "the secret of the file outside"


def external(kind):
    def build(home):
        (home / "outside").mkdir()
        (home / "outside" / "secret").write_text(SECRET)
        url = (home / "outside" / "secret").as_uri()
        doctype = {
            "entity": f'<!DOCTYPE annotation [<!ENTITY e SYSTEM "{url}">]>',
            "parameter": f'<!DOCTYPE annotation [<!ENTITY % e SYSTEM "{url}"> %e;]>',
            "network": '<!DOCTYPE annotation [<!ENTITY e SYSTEM "http://127.0.0.1:9/e">]>',
        }[kind]
        use = "" if kind == "parameter" else "&e;"
        files = voc()
        files["a.xml"] = doctype + "\n" + files["a.xml"].replace(">cat<", f">cat{use}<")
        lay(home / "in", files)
        return "in"

    return build


def outer_subset(home):
    """A document type whose definition lies outside, and would break the document if it were read."""
    (home / "outside").mkdir()
    (home / "outside" / "a.dtd").write_text("<!ELEMENT")
    url = (home / "outside" / "a.dtd").as_uri()
    files = voc()
    files["a.xml"] = f'<!DOCTYPE annotation SYSTEM "{url}">\n' + files["a.xml"]
    lay(home / "in", files)
    return "in"


case("voc", "external-subset", outer_subset, Read(code="xml-doctype"))
for kind in ("entity", "parameter", "network"):
    case("voc", f"external-{kind}", external(kind), Refused("xml-dtd", "in/a.xml"))
case(
    "voc",
    "entity-bomb",
    edited("voc", "<annotation>", BOMB + "\n<annotation>"),
    Refused("xml-dtd", "in/a.xml"),
)
case(
    "voc",
    "entity-bomb-used",
    edited("voc", "<annotation>\n<filename>a", BOMB + "\n<annotation>\n<filename>&i;"),
    Refused("xml-dtd", "in/a.xml"),
)
case(
    "voc",
    "xinclude",
    edited(
        "voc",
        "<annotation>",
        '<annotation><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>',
    ),
    Read(),
)
case(
    "voc",
    "stylesheet",
    edited("voc", "<annotation>", '<?xml-stylesheet href="http://127.0.0.1:9/"?><annotation>'),
    Read(),
)
case("voc", "comments", edited("voc", ">10<", ">1<!-- x -->0<"), Read())
case("voc", "cdata", edited("voc", ">cat<", "><![CDATA[cat]]><"), Read())
case("voc", "character-reference", edited("voc", ">cat<", ">c&#97;t<"), Read())
case(
    "voc",
    "deep",
    edited("voc", "</annotation>", "<x>" * 100_000 + "</x>" * 100_000 + "</annotation>"),
    Refused("", "in/a.xml"),
)
case("voc", "cut", changed("voc", with_bytes(lambda d: d[: len(d) // 2])), Refused("xml-syntax", "in/a.xml"))
case("voc", "empty", changed("voc", with_bytes(lambda _: b"")), Refused("xml-syntax", "in/a.xml"))
case(
    "voc",
    "gzip",
    changed("voc", with_bytes(lambda d: __import__("gzip").compress(d))),
    Refused("", "in/a.xml"),
)
case("voc", "two-roots", changed("voc", with_bytes(lambda d: d + d)), Refused("xml-syntax", "in/a.xml"))
case(
    "voc",
    "latin-1",
    changed("voc", with_bytes(lambda d: d.replace(b"cat", b"c\xe9t"))),
    Refused("", "in/a.xml:4"),
)
case(
    "voc",
    "latin-1-declared",
    changed(
        "voc",
        with_bytes(
            lambda d: b'<?xml version="1.0" encoding="ISO-8859-1"?>' + d.replace(b">cat<", b">c\xe9t<")
        ),
    ),
    Read((("a", "cét", BOXES[0][2]), *BOXES[1:])),
)
case(
    "voc",
    "latin-1-not-declared",
    changed(
        "voc",
        with_bytes(lambda d: b'<?xml version="1.0" encoding="UTF-8"?>\n' + d.replace(b">cat<", b">c\xe9t<")),
    ),
    Refused("", "in/a.xml:5"),
)
case(
    "voc", "upper-case", edited("voc", "annotation>", "ANNOTATION>", count=2), Refused("xml-root", "in/a.xml")
)
case(
    "voc",
    "namespace",
    edited("voc", "<annotation>", '<annotation xmlns="urn:x">'),
    Refused("xml-root", "in/a.xml"),
)
case(
    "voc",
    "two-sizes",
    edited("voc", "<object>", "<size><width>1</width><height>1</height></size><object>"),
    Refused("", "in/a.xml:4"),
)
case(
    "voc",
    "two-boxes",
    edited(
        "voc",
        "</bndbox>",
        "</bndbox><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>",
    ),
    Refused("", "in/a.xml:5"),
)
case(
    "voc",
    "two-xmin",
    edited("voc", "<xmin>10</xmin>", "<xmin>10</xmin><xmin>11</xmin>"),
    Refused("", "in/a.xml:5"),
)
case(
    "voc",
    "html",
    changed("voc", with_bytes(lambda _: b"<!DOCTYPE html><html><body>404</body></html>")),
    Refused("", "in/a.xml"),
)
case(
    "voc",
    "part",
    edited(
        "voc",
        "</object>",
        "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>",
    ),
    Read(),
)
for value in ("0.5", "-3", "1e10", "abc", "99999999999999999999", "1_00"):
    case(
        "voc",
        f"width-{value}",
        edited("voc", "<width>100<", f"<width>{value}<"),
        Refused("bad-image-size", "in/a.xml:3"),
    )

# --------------------------------------------------------------------------------------------------------- JSON

NEST = 200_000


def json_place(pointer):
    return f"in/instances_all.json#/{pointer}"


case(
    "coco",
    "deep-list",
    edited("coco", '"images"', '"x": ' + "[" * NEST + "]" * NEST + ', "images"'),
    Refused("json-too-deep", "in/instances_all.json"),
)
case(
    "coco",
    "deep-object",
    edited("coco", '"images"', '"x": ' + '{"a":' * NEST + "1" + "}" * NEST + ', "images"'),
    Refused("json-too-deep", "in/instances_all.json"),
)
case(
    "coco",
    "deep-open",
    edited("coco", '"images"', '"x": ' + "[" * NEST + ', "images"'),
    Refused("", "in/instances_all.json"),
)
case(
    "coco",
    "deep-segmentation",
    edited("coco", '"iscrowd": 0', '"iscrowd": 0, "segmentation": ' + "[" * NEST + "]" * NEST),
    Refused("json-too-deep", "in/instances_all.json"),
)
case(
    "coco",
    "cut",
    changed("coco", with_bytes(lambda d: d[: len(d) // 2])),
    Refused("json-syntax", "in/instances_all.json"),
)
case("coco", "empty", changed("coco", with_bytes(lambda _: b"")), Refused("", "in/instances_all.json"))
case(
    "coco",
    "twice",
    changed("coco", with_bytes(lambda d: d + d)),
    Refused("json-syntax", "in/instances_all.json"),
)
case(
    "coco",
    "trailing-comma",
    edited("coco", '\n  }\n ],\n "categories"', '\n  },\n ],\n "categories"'),
    Refused("json-syntax", "in/instances_all.json"),
)
case(
    "coco",
    "bad-utf8",
    edited("coco", '"name": "cat"', b'"name": "c\xe9t"'),
    Refused("not-utf8", "in/instances_all.json"),
)
case(
    "coco",
    "bad-utf8-ignored",
    edited("coco", '"iscrowd": 0', b'"iscrowd": 0, "note": "c\xe9t"'),
    Refused("not-utf8", "in/instances_all.json"),
)
case(
    "coco",
    "duplicate-bbox",
    edited("coco", '"iscrowd": 0', '"iscrowd": 0, "bbox": [1, 2, 3, 4]'),
    Refused("", json_place("annotations/0")),
)
case(
    "coco",
    "duplicate-top",
    edited("coco", '"categories"', '"annotations": [], "categories"'),
    Refused("duplicate-key", "in/instances_all.json"),
)
case(
    "coco",
    "duplicate-escaped",
    edited("coco", '"iscrowd": 0', '"iscrowd": 0, "bb\\u006fx": [1, 2, 3, 4]'),
    Refused("", json_place("annotations/0")),
)
case(
    "coco",
    "duplicate-id-key",
    edited("coco", '"iscrowd": 0', '"iscrowd": 0, "category_id": 2'),
    Refused("", json_place("annotations/0")),
)
case(
    "coco",
    "bbox-of-3",
    edited("coco", "[\n    10.0,", "["),
    Refused("wrong-count", json_place("annotations/0/bbox")),
)
case(
    "coco",
    "bbox-of-5",
    edited("coco", "[\n    10.0,", "[\n    10.0, 10.0,"),
    Refused("wrong-count", json_place("annotations/0/bbox")),
)
case(
    "coco",
    "bbox-null",
    edited("coco", '"bbox": [\n    10.0,\n    10.0,\n    30.0,\n    20.0\n   ]', '"bbox": null'),
    Refused("", json_place("annotations/0/bbox")),
)
case(
    "coco",
    "unknown-image",
    edited("coco", '"image_id": 1', '"image_id": 99'),
    Refused("unknown-image-id", json_place("annotations/0")),
)
case(
    "coco",
    "unknown-category",
    edited("coco", '"category_id": 1', '"category_id": 99'),
    Refused("unknown-category-id", json_place("annotations/0")),
)
case(
    "coco",
    "image-id-null",
    edited("coco", '"image_id": 1', '"image_id": null'),
    Refused("", json_place("annotations/0/image_id")),
)
case(
    "coco",
    "score-missing",
    edited("coco", ',\n   "score": 0.9', "", det=True),
    Refused("", "in/instances_all.json"),
    det=True,
    options=("--kind", "det"),
)
case(
    "coco",
    "iscrowd-2",
    edited("coco", '"iscrowd": 0', '"iscrowd": 2'),
    Refused("bad-flag", json_place("annotations/0/iscrowd")),
)
case(
    "coco",
    "width-huge",
    edited("coco", '"width": 100', '"width": 2147483648'),
    Refused("bad-image-size", json_place("images/0/width")),
)
case(
    "coco",
    "width-fraction",
    edited("coco", '"width": 100', '"width": 100.5'),
    Refused("bad-image-size", json_place("images/0/width")),
)
case("coco", "width-float", edited("coco", '"width": 100', '"width": 100.0'), Read())
case("coco", "width-0", edited("coco", '"width": 100', '"width": 0'), Read(code="image-size-missing"))
case(
    "coco",
    "images-object",
    edited("coco", '"images": [', '"images": {}, "x": ['),
    Refused("wrong-type", "in/instances_all.json#/images"),
)
case(
    "coco",
    "image-id-twice",
    edited("coco", '"id": 2,\n   "file_name"', '"id": 1,\n   "file_name"'),
    Refused("duplicate-id", json_place("images/1/id")),
)
case(
    "coco",
    "huge-string",
    edited("coco", '"iscrowd": 0', '"iscrowd": 0, "note": "' + "x" * 900_000 + '"'),
    Read(),
)
case("coco", "huge-number", edited("coco", '"iscrowd": 0', '"iscrowd": 0, "note": ' + "9" * 900_000), Read())
case(
    "coco",
    "huge-number-box",
    edited("coco", "[\n    10.0", "[\n    " + "9" * 100_000),
    Refused("not-finite", json_place("annotations/0/bbox/0")),
)
case("coco", "long-zeros", edited("coco", "[\n    10.0", "[\n    10." + "0" * 100_000), Read())
case(
    "coco",
    "pandas-ids",
    edited("coco", '"image_id": 1', '"image_id": 1.0', count=2),
    Read(code="id-written-as-float"),
)


def renumbered(big):
    def build(home):
        text = coco()["instances_all.json"]
        text = text.replace('"id": 1,\n   "file_name"', f'"id": {big},\n   "file_name"').replace(
            '"image_id": 1', f'"image_id": {big}'
        )
        lay(home / "in", {"instances_all.json": text})
        return "in"

    return build


case("coco", "id-2-53", renumbered(2**53 + 1), Read())
case("coco", "id-2-63", renumbered(2**63 - 1), Read())
case("coco", "id-text", renumbered('"x-1"'), Read())
case("coco", "id-negative", renumbered(-5), Read())
for value in (2**64, 2**63, "1e30", 10**40):
    case("coco", f"id-{value}", renumbered(value), Refused("", "in/instances_all.json"))

# ---------------------------------------------------------------------------------------------- lines of text

case("txt", "latin-1", edited("txt", "cat", b"c\xe9t"), Refused("not-utf8", "in/a.txt:1"))
case(
    "yolo",
    "latin-1",
    edited("yolo", "cat", b"c\xe9t", file="classes.txt"),
    Refused("not-utf8", "in/classes.txt:1"),
)
case("csv", "latin-1", edited("csv", "cat", b"c\xe9t"), Refused("not-utf8", "in/boxes.csv:2"))
case("txt", "nul-inside", edited("txt", "cat", "c\0t"), Refused("bad-class-name", "in/a.txt:1"))
case("txt", "nul-in-number", edited("txt", "cat 10", "cat 1\0"), Refused("not-a-number", "in/a.txt:1"))
case("yolo", "nul-inside", edited("yolo", "0 0.25", "0 0.2\0"), Refused("not-a-number", "in/a.txt:1"))
case("csv", "nul-inside", edited("csv", "cat", "c\0t"), Refused("nul-character", "in/boxes.csv:2"))
case("coco", "nul-inside", edited("coco", '"cat"', '"c\0t"'), Refused("json-syntax", "in/instances_all.json"))
case("voc", "nul-inside", edited("voc", ">cat<", ">c\0t<"), Refused("xml-syntax", "in/a.xml"))
case("txt", "few", edited("txt", "cat 10 10 40 30", "cat 10 10 40"), Refused("", "in/a.txt:1"))
case(
    "txt", "huge-line", edited("txt", "cat 10 10 40 30", "cat " + "10 " * 300_000), Refused("", "in/a.txt:1")
)
case(
    "txt", "huge-word", edited("txt", "cat 10 10 40 30", "x" * 900_000), Refused("wrong-count", "in/a.txt:1")
)
case(
    "txt", "huge-number", edited("txt", "cat 10", "cat " + "9" * 900_000), Refused("not-finite", "in/a.txt:1")
)
case("txt", "long-number", edited("txt", "cat 10 ", "cat 10." + "0" * 900_000 + " "), Read())
case("txt", "tabs-and-blanks", edited("txt", "cat 10 10 40 30", " cat\t10  10 \t 40 30 \t"), Read())
case("txt", "blank-lines", edited("txt", "cat 10", "\n \n\t\ncat 10"), Read())
case("txt", "empty-file", edited("txt", "cat 10 10 40 30\ndog 50 20 90 70\n", ""), Read(tuple(ONLY_B)))
case("txt", "classes-txt", added("txt", {"classes.txt": "cat\ndog\n"}), Read())
case(
    "txt",
    "inverted",
    edited("txt", "cat 10 10 40 30", "cat 40 10 10 30"),
    Refused("inverted-box", "in/a.txt:1"),
)
case("txt", "form-feed", edited("txt", "cat 10", "cat\f10"), Refused("", "in/a.txt:1"))
for format_ in ("txt", "yolo"):
    for name, value in {"vertical-tab": b"\v", "form-feed": b"\f\n"}.items():
        only = changed(format_, with_bytes(lambda _, v=value: v))
        case(format_, f"nothing-but-a-{name}", only, Refused("wrong-count", "in/a.txt:1"))
case("txt", "vertical-tab", edited("txt", "cat 10", "cat 10\v"), Refused("", "in/a.txt:1"))
case(
    "txt",
    "line-separator",
    edited("txt", "cat 10 10 40 30\n", "cat 10 10 40 30\u2028"),
    Refused("", "in/a.txt:1"),
)
case(
    "txt",
    "gt-with-score",
    edited("txt", "cat 10", "cat 0.5 10"),
    Refused("score-unexpected", "in/a.txt:1"),
    options=("--kind", "gt"),
)
for value in ("1.5", "-0.1", "95"):
    case(
        "txt",
        f"score-{value}",
        edited("txt", "cat 0.9", f"cat {value}", det=True),
        Refused("score-out-of-range", "in/a.txt:1"),
        det=True,
    )
    case(
        "yolo",
        f"score-{value}",
        edited("yolo", "0.25 0.9", f"0.25 {value}", det=True),
        Refused("", "in/a.txt:1"),
        det=True,
    )
case(
    "txt",
    "score-missing",
    edited("txt", "cat 0.9 ", "cat ", det=True),
    Refused("score-missing", "in/a.txt:1"),
    det=True,
)
case(
    "yolo",
    "score-missing",
    edited("yolo", "0.25 0.9", "0.25", det=True),
    Refused("score-missing", "in/a.txt:1"),
    det=True,
    options=("--conf-column", "last"),
)
case(
    "voc",
    "score-missing",
    edited("voc", "<confidence>0.9</confidence>", "", det=True),
    Refused("score-missing", "in/a.xml"),
    det=True,
)
case(
    "csv",
    "score-missing",
    edited("csv", ",0.9,", ",,", det=True),
    Refused("score-missing", "in/boxes.csv:2"),
    det=True,
)

case("yolo", "id-float", edited("yolo", "0 0.25", "0.0 0.25"), Read())
for value in ("-1", "0.5", "x", "1e400", "nan", "9" * 400, "1_0", "-0"):
    case(
        "yolo",
        f"id-{value[:9]}",
        edited("yolo", "0 0.25", f"{value} 0.25"),
        Refused("yolo-class-id", "in/a.txt:1"),
    )
case("yolo", "id-unknown", edited("yolo", "0 0.25", "7 0.25"), Refused("unknown-class", "in/a.txt:1"))
case(
    "yolo",
    "pixels",
    edited("yolo", "0 0.25 0.25 0.3 0.25", "0 25 20 30 20"),
    Refused("relative-out-of-range", "in/a.txt:1"),
)
case(
    "yolo",
    "huge-line",
    edited("yolo", "0 0.25 0.25 0.3 0.25", "0 " + "0.5 " * 200_001),
    Refused("", "in/a.txt:1"),
)
case(
    "yolo",
    "yaml-bomb",
    added(
        "yolo",
        {
            "data.yaml": "a: &a [x,x,x,x]\n"
            + "".join(
                f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n"
                for a, b in zip("abcdefgh", "bcdefghi", strict=True)
            )
            + "names: [cat, dog]\n"
        },
    ),
    Refused("", "in/data.yaml"),
)
case(
    "yolo",
    "yaml-object",
    added("yolo", {"data.yaml": "names: !!python/object/apply:os.system ['touch pwned']\n"}),
    Refused("", "in/data.yaml"),
)
case(
    "yolo",
    "yaml-deep",
    added("yolo", {"data.yaml": "names: " + "[" * 50_000 + "]" * 50_000 + "\n"}),
    Refused("", "in/data.yaml"),
)
case("yolo", "yaml-cut", added("yolo", {"data.yaml": "names: [cat, dog"}), Refused("", "in/data.yaml"))
case(
    "yolo",
    "yaml-duplicate",
    added("yolo", {"data.yaml": "names: [cat, dog]\nnames: [dog, cat]\n"}),
    Refused("", "in/data.yaml:2"),
)
case(
    "yolo",
    "yaml-nuls",
    added("yolo", {"data.yaml": b"\0" * 5000}),
    Refused("unreadable-file", "in/data.yaml"),
)
case(
    "yolo",
    "yaml-latin-1",
    added("yolo", {"data.yaml": b"names: [c\xe9t, dog]\n"}),
    Refused("not-utf8", "in/data.yaml"),
)
case(
    "yolo",
    "nc-wrong",
    added("yolo", {"data.yaml": "nc: 3\nnames: [cat, dog]\n"}),
    Refused("yolo-class-count", "in/data.yaml:1"),
)
case(
    "yolo",
    "names-disagree",
    added("yolo", {"data.yaml": "names: [dog, cat]\n"}),
    Refused("class-lists-disagree", "in/classes.txt"),
)
case(
    "yolo",
    "names-gap",
    edited("yolo", "cat\ndog", "cat\n\ndog", file="classes.txt"),
    Refused("bad-class-list", "in/classes.txt"),
)

# ---------------------------------------------------------------------------------------------------------- CSV

case("csv", "open-quote", edited("csv", "cat", '"cat'), Refused("open-quote", "in/boxes.csv:2"))
case(
    "csv",
    "huge-field",
    edited("csv", "cat", "x" * 900_000),
    Read((("a", "x" * 900_000, BOXES[0][2]), *BOXES[1:])),
)
case("csv", "huge-quoted", edited("csv", "cat", '"' + "x\n" * 400_000 + '"'), Refused("", "in/boxes.csv:2"))
case("csv", "short-row", edited("csv", ",40,30", ",40"), Refused("wrong-count", "in/boxes.csv:2"))
case("csv", "long-row", edited("csv", ",40,30", ",40,30,50"), Refused("wrong-count", "in/boxes.csv:2"))
case(
    "csv",
    "duplicate-column",
    edited("csv", "left,top", "left,left"),
    Refused("duplicate-column", "in/boxes.csv:1"),
)
case("csv", "quoted", edited("csv", "a.jpg,100,80,cat", '"a.jpg","100","80","cat"'), Read())
case("csv", "empty", changed("csv", with_bytes(lambda _: b"")), Refused("", "in/boxes.csv"))
case(
    "csv",
    "cut",
    changed("csv", with_bytes(lambda d: d[: d.rindex(b",")])),
    Refused("wrong-count", "in/boxes.csv:4"),
)
case("csv", "thousands", edited("csv", ",10,10,", ',"1,010",10,'), Refused("", "in/boxes.csv:2"))
case(
    "csv",
    "two-sizes",
    edited("csv", "a.jpg,100", "a.jpg,101"),
    Refused("image-size-conflict", "in/boxes.csv:3"),
)
case("csv", "na", edited("csv", "cat", "NA"), Read((("a", "NA", BOXES[0][2]), *BOXES[1:])))

for value in ("1e308", "1e200", "1.7e308"):
    for format_, old, location in [("txt", "40 30", "in/a.txt:1"), ("csv", "40,30", "in/boxes.csv:2")]:
        large = edited(format_, old, old.replace("40", "V").replace("30", "V").replace("V", value))
        case(format_, f"too-large-{value}", large, Refused("coordinates-not-finite", location))

    for layout in ("ltwh", "cxcywh"):
        case(
            "txt",
            f"too-large-{value}-{layout}",
            edited("txt", "cat 10 10 40 30", f"cat -{value} 10 {value} 30"),
            Refused("", "in/a.txt:1"),
            options=("--box", layout),
        )
    case(
        "txt",
        f"too-large-{value}-relative",
        edited("txt", "cat 10 10 40 30", f"cat {value} 0.5 {value} 0.5"),
        Refused("relative-out-of-range", "in/a.txt:1"),
        options=("--coords", "rel"),
    )
    case(
        "yolo",
        f"too-large-{value}",
        edited("yolo", "0 0.25", f"0 {value}"),
        Refused("relative-out-of-range", "in/a.txt:1"),
    )

# ------------------------------------------------------------------------- pictures, and files beside good ones


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"".join(
    (
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(bytes((WIDTH + 1) * HEIGHT))),
        chunk(b"IEND", b""),
    )
)


def linked_pictures(format_, *, folder=False, dangling=False):
    def build(home):
        files = BASE[format_]()
        if format_ == "yolo":
            files = {f"labels/{k}" if k != "classes.txt" else k: v for k, v in files.items()}
        inside = lay(home / "in", files)
        outside = lay(home / "photos", {"a.png": PNG, "b.png": PNG})
        if folder:
            (inside / "images").symlink_to(outside)
            return "in"
        (inside / "images").mkdir()
        for name in ("a.png", "b.png"):
            (inside / "images" / name).symlink_to(home / "gone" / name if dangling else outside / name)
        return "in"

    return build


for name, how in {
    "pictures": {},
    "dangling-pictures": {"dangling": True},
    "folder-of-pictures": {"folder": True},
}.items():
    for format_ in BASE:
        case(format_, f"linked-{name}", linked_pictures(format_, **how), Read())
    asked = Refused("picture-behind-link", "in/labels/a.txt")
    case("yolo", f"linked-{name}-asked", linked_pictures("yolo", **how), asked, size=False)
case(
    "yolo",
    "linked-pictures-followed",
    linked_pictures("yolo"),
    Read(),
    size=False,
    options=("--follow-links",),
)
case(
    "yolo",
    "linked-pictures-named",
    linked_pictures("yolo"),
    Read(),
    size=False,
    options=("--images", "photos"),
)

for name, change in {
    "fifo": fifo,
    "cut": with_bytes(lambda d: d[:-40]),
    "nuls": nuls,
    "empty": with_bytes(lambda _: b""),
}.items():

    def beside(home, change=change):
        folder = lay(home / "in", coco() | {"instances_more.json": coco()["instances_all.json"]})
        change(folder, folder / "instances_more.json")
        return "in"

    case("coco", f"beside-{name}", beside, Refused("", "in/instances_more.json"))

case("yolo", "yaml-tuple", added("yolo", {"data.yaml": "names: !!python/tuple [cat, dog]\n"}), Read())
case("yolo", "yaml-plain-tags", added("yolo", {"data.yaml": "names: !!seq [!!str cat, ! dog]\n"}), Read())

# ------------------------------------------------------------------------------------------------- running them


class Run:
    """One call of the command line in this process: exit code and what it printed."""

    def __init__(self, args):
        self.args = [str(a) for a in args]
        from odm.cli import _app

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.code = _app.run(self.args)
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)
        self.out, self.err = (self._text(stream) for stream in (out, err))

    @staticmethod
    def _text(stream):
        stream.flush()
        return stream.detach().getvalue().decode()

    def __str__(self):
        return f"odm {' '.join(self.args)}\nexit code {self.code}\n{self.out[:3000]}\n{self.err[:3000]}"


LINE = re.compile(
    r"(?:[^\n]+: (?:error|warning) [a-z0-9-]+(?: \[[^\n]+?\])? [^\n]+; [^\n]+"
    r"|note: [^\n]+|odm: [^\n]+|Usage: [^\n]+|Try [^\n]+|Error: [^\n]+|"
    r"(?:\d+|no) (?:error|warning)[^\n]*|)"
)
"""What a line of the standard error stream may look like."""


def state(top):
    """All below a folder: kind, content or target, time of the last change."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            entry = [status.st_mode, status.st_ino, status.st_size]
            if os.path.islink(path):
                entry.append(os.readlink(path))
            elif os.path.isfile(path):
                entry.append(status.st_mtime_ns)
                if status.st_size < 2**24:
                    with open(path, "rb") as stream:
                        entry.append(hash(stream.read()))
            found[os.path.relpath(path, top)] = entry
    return found


class Watch:
    """What this process does to the disk and beyond, as the interpreter's audit hooks tell it.

    A hook cannot be removed, so there is one, which looks only while somebody watches.
    """

    active = None

    def __init__(self):
        self.opened, self.changed, self.forbidden = [], [], []

    def __enter__(self):
        Watch.active = self
        return self

    def __exit__(self, *_):
        Watch.active = None

    @classmethod
    def hook(cls, event, args):
        watch = cls.active
        if watch is None:
            return
        if event == "open":
            path, _, flags = args
            # A walk by descriptors opens the folders of one that was opened before.
            if isinstance(path, (str, bytes)) and sys._getframe(1).f_code.co_name not in ("fwalk", "_fwalk"):
                path = os.fsdecode(path)
                writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
                (watch.changed if writes else watch.opened).append(path)
        elif event in ("os.rename", "os.link", "os.symlink"):
            watch.changed.append(os.fsdecode(args[1]))
        elif event in (
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "os.truncate",
            "os.chmod",
            "os.chown",
            "os.utime",
        ):
            if isinstance(args[0], (str, bytes)):
                folder = -1 if event == "os.truncate" else args[-1]  # a descriptor, where it is not negative
                below = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else ""
                watch.changed.append(os.path.join(below, os.fsdecode(args[0])))
        elif event.startswith(
            (
                "socket.",
                "subprocess.",
                "os.exec",
                "os.fork",
                "os.spawn",
                "os.posix_spawn",
                "os.system",
                "urllib.",
                "http.",
                "ftplib.",
                "webbrowser.",
                "pickle.",
            )
        ):
            watch.forbidden.append(event)


sys.addaudithook(Watch.hook)
