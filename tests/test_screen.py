"""Nothing raw from data reaches a terminal or the log of a build: hostile names in every position, command and output."""

import csv
import errno
import io
import json
import os
import re
import shutil
import unicodedata

import pytest
from selection import turns

from odm.cli import _app
from odm.cli._issue_formats import OUTPUTS as REPORTS
from odm.cli._streams import say, show
from odm.evaluate import OUTPUTS as TABLES
from odm.issues import CODES, Issue
from odm.terminal import (
    CELL,
    LONG,
    Screen,
    Unwritten,
    cell,
    escape_unsafe,
    json_text,
    markdown,
    text_table,
    wrap_line,
)

# What readers accept as the name of a class, and what they have to refuse. Both carry the word "own".
HOSTILE = {
    "direction": "::error ::own\u202e\u2066##[error]x\u200f",
    "control": "own\x1b]0;t\x07\x1b[31m\n::error ::x\nforged\r\x85\x9b1m\u2028##[error]y\u202e",
    "table": "own|`a`*b*<script>[x](y)&#8238;\u2067~~c~~ $d$",
}
# Neither a slash nor NUL can be in the name of a file, everything else can.
FILE_NAMES = {name: text.replace("/", "") for name, text in HOSTILE.items()} | {
    "not UTF-8": "own\udcff\udc9b\u202e"
}

BOX = {"bbox": [10, 10, 20, 20], "area": 400, "iscrowd": 0}


def coco(tmp_path, *, name="dog", image="a.jpg", key="info", score=None, box=None):
    extra = {key: {"x": 1}}
    data = {
        **extra,
        "images": [{"id": 1, "file_name": image, "width": 100, "height": 80, **extra}],
        "categories": [{"id": 1, "name": name, **extra}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, **(box or BOX), **extra}],
    }
    if score is not None:
        data["annotations"][0]["score"] = score
    path = tmp_path / f"{'gt' if score is None else 'det'}.json"
    path.write_text(json.dumps(data))
    return path


def table(tmp_path, *, name="dog", image="a.jpg", column="note", score=None):
    columns = ["image", "class", "xmin", "ymin", "xmax", "ymax", column]
    row = [image, name, 10, 10, 30, 30, "1"]
    if score is not None:
        columns, row = [*columns, "score"], [*row, score]
    path = tmp_path / f"{'gt' if score is None else 'det'}.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([columns, row])
    return path


def plain(tmp_path, *, name="dog", file="a", score=None):
    path = tmp_path / ("gt" if score is None else "det")
    path.mkdir()
    name = name.replace("\n", " ").replace("\r", " ")  # in a file of lines it would be two of them
    middle = "" if score is None else f" {score}"
    good = f"dog{middle} 10 10 30 30\n" * 20
    (path / "b.txt").write_text(f"{good}{name}{middle} 10 10 30 30\n", encoding="utf-8")
    for location in (file, f"{file}.txt"):  # one that is not read, and one with an inverted box
        with open(os.fsencode(path / location), "w", encoding="utf-8") as stream:
            stream.write(f"{good}dog{middle} 30 30 10 10\n")
    return path


def yolo(tmp_path, *, name="dog", key="x", split="val", score=None):
    path = tmp_path / ("gt" if score is None else "det")
    (path / "labels" / "val").mkdir(parents=True)
    (path / "labels" / "val" / "a.txt").write_text(f"0 .5 .5 .2 .2 {'' if score is None else score}\n")
    lines = {"names": [name], "train": "images/val", split: "images/val", key: "y"}
    (path / "data.yaml").write_text(json.dumps(lines))
    return path


def voc(tmp_path, *, name="dog", image="a.jpg", key="0", score=None):
    from xml.sax.saxutils import escape

    path = tmp_path / ("gt" if score is None else "det")
    path.mkdir()
    name, image, key = (escape(re.sub(r"[\x00-\x08\x0b-\x1f]", "", t)) for t in (name, image, key))
    scored = "" if score is None else f"<score>{score}</score>"
    (path / "a.xml").write_text(
        f"<annotation><filename>{image}</filename><size><width>100</width><height>80</height></size>"
        f"<object><name>{name}</name><pose>{key}</pose><truncated>{key}</truncated>{scored}<bndbox><xmin>1</xmin>"
        "<ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>",
        encoding="utf-8",
    )
    return path


def voc_sets(tmp_path, *, split="val", score=None):
    path = voc(tmp_path, score=score)
    (path / "Annotations").mkdir()
    (path / "a.xml").rename(path / "Annotations" / "a.xml")
    (path / "ImageSets" / "Main").mkdir(parents=True)
    (path / "ImageSets" / "Main" / f"{split}.txt").write_text("a\n", encoding="utf-8")
    return path


PLAIN = ["--box", "ltrb"]
SIZE = ["--image-size", "100x80"]
POSITIONS = {
    "a class of COCO": (coco, "name", []),
    "an image of COCO": (coco, "image", []),
    "a key of COCO": (coco, "key", []),
    "a class of CSV": (table, "name", SIZE),
    "an image of CSV": (table, "image", SIZE),
    "a column of CSV": (table, "column", SIZE),
    "a class of txt": (plain, "name", PLAIN),
    "a file of txt": (plain, "file", PLAIN),
    "a class of YOLO": (yolo, "name", SIZE),
    "a key of YOLO": (yolo, "key", SIZE),
    "a split of YOLO": (yolo, "split", SIZE),
    "a class of VOC": (voc, "name", []),
    "an image of VOC": (voc, "image", []),
    "a mark of VOC": (voc, "key", []),
    "a split of VOC": (voc_sets, "split", []),
}
UNSEEN = {"a key of YOLO", "a split of YOLO"}  # nothing prints them


@pytest.fixture
def printed(capsys):
    """Run a command; what it prints on both streams is checked and returned."""

    def run(*args):
        code = _app.run([str(a) for a in args])
        out, err = capsys.readouterr()
        assert code in (0, 1, 2, 3), f"{args}\n{err}"
        for text in (out, err):
            assert_harmless(text, commands=text is out and "github" in args)
        return out + err

    return run


def assert_harmless(text, *, commands=False):
    strange = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert not strange, repr(text)
    assert "##[" not in text
    for line in text.split("\n"):
        if commands and line:
            title = re.fullmatch(r"::(?:error|warning|notice) (?:[^:]*,)?title=([a-z0-9-]+)::.*", line)
            assert title, line
            assert title[1] in {*CODES, "odm"}, line
        else:
            assert not line.lstrip().startswith(("::", "forged")), line  # no line of its own either


def every_command(gt, det, tmp_path, words=()):
    """The words of each command, with each of its outputs."""
    for output in ("table", "json", "markdown"):
        yield ["stats", gt, "--output", output, "--skip-bad", *words]
    for output in TABLES:
        yield ["eval", gt, det, "--output", output, "--skip-bad", *words]
    for skip in ("--skip-bad", "--strict"):
        yield ["convert", gt, tmp_path / "new", "--to", "txt", "--dry-run", skip, *words]
    yield ["stats", gt, *words]
    yield ["eval", gt, det, *words]
    for output in REPORTS:
        yield ["validate", gt, "--output", output, *words]
        yield ["validate", gt, "--against", det, "--output", output, *words]


NAMED = [
    case
    for case in turns(POSITIONS, FILE_NAMES, 4)
    if case.values[1] in HOSTILE or POSITIONS[case.values[0]][1] in ("file", "split")
]
"""Only names of files are bytes that are not UTF-8."""


@pytest.mark.parametrize(("position", "text"), NAMED)
def test_a_hostile_name_is_escaped_wherever_it_stands(tmp_path, printed, position, text):
    make, location, words = POSITIONS[position]
    name = (FILE_NAMES if location in ("file", "split") else HOSTILE)[text]
    gt = make(tmp_path, **{location: name})
    det = make(tmp_path, score=0.5)
    shown = [printed(*each) for each in every_command(gt, det, tmp_path, words)]
    assert any("own" in each for each in shown) or position in UNSEEN


def test_hostile_names_of_both_sides(tmp_path, printed):
    """Classes and images that one side lacks are listed, with the nearest of the other."""
    for i, name in enumerate(HOSTILE.values()):
        location = tmp_path / str(i)
        location.mkdir()
        gt = coco(location, name=name, image=f"{name}.jpg")
        det = coco(location, name=name + "2", image=f"{name}2.jpg", score=0.5)
        for words in every_command(gt, det, tmp_path):
            printed(*words)
            if words[0] == "eval":
                printed(*words, "--extra-images", "ignore")


OPTIONS = [
    "validate {}",
    "validate {gt} --format {}",
    "validate {gt} --output {}",
    "validate {gt} --explain {}",
    "validate {gt} --select {}",
    "validate {gt} --images {}",
    "validate {gt} --fix {} --out x",
    "validate {gt} --{}",
    "validate {gt} {}",
    "validate {gt} -O {}",
    "validate {gt} -O {}=1",
    "validate {gt} -O box={}",
    "validate {gt} -O classes={}",
    "validate {gt} --max-size {}",
    "validate {gt} --tolerance {}",
    "stats {gt} --image-size {}",
    "stats {gt} --plots {gt}/{}",
    "stats {gt} --gt {}",
    "stats {gt} --split {}",
    "eval {gt} {det} --only-classes {}",
    "eval {gt} {det} --only-images {}",
    "eval {gt} {det} --only-images @{}",
    "eval {gt} {det} --fail-under {}",
    "eval {gt} {det} --fail-under AP[{}]=.5",
    "eval {gt} {det} --iou {}",
    "eval {gt} {det} --area {}",
    "eval {gt} {det} --protocol {}",
    "eval {gt} {det} --rename {}",
    "eval {gt} {det} --rename {}=x",
    "eval {gt} {det} --rename dog={}",
    "eval {gt} {det} --image-labels {}",
    "eval {gt} {det} --fail-under AP[{}]=.5",
    "convert {gt} {}",
    "convert {gt} {} --to txt --dry-run",
    "convert {gt} x --to {}",
    "convert {gt} x --to txt --dry-run --rename dog={}",
    "convert {gt} x --to txt --dry-run --rename {}=dog",
    "convert {gt} x --to txt --dry-run --rename @{}",
    "convert {gt} x --to txt --dry-run --drop {}",
    "convert {gt} x --to txt --dry-run --class-list {}",
    "formats {}",
    "formats --output {}",
    "{}",
    "--{}",
]
UNSAID = {
    "validate {gt} -O box={}",  # the name of the option is wrong, the value is not looked at
    "validate {gt} -O classes={}",
    "stats {gt} --gt {}",
    "convert {gt} {} --to txt --dry-run",
    "convert {gt} x --to txt --dry-run --rename dog={}",
}


@pytest.mark.parametrize(("line", "text"), turns(OPTIONS, HOSTILE, 2))
def test_a_hostile_word_of_the_command_line_is_escaped(tmp_path, monkeypatch, printed, line, text):
    monkeypatch.chdir(tmp_path)
    places = {"gt": coco(tmp_path), "det": coco(tmp_path, score=0.5)}
    words = [word.format(HOSTILE[text], **places) for word in line.split()]
    shown = printed(*words)
    assert "own" in shown or line in UNSAID


def test_hostile_files_in_a_target_and_a_folder_of_strange_files(tmp_path, printed):
    gt = coco(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    for name in FILE_NAMES.values():
        (out / name).write_text("mine")
    assert "own" in printed("convert", gt, out, "--to", "txt", "--overwrite")
    assert "own" in printed("validate", out, "--format", "txt", "--output", "github")
    for to in REPORTS:
        printed("validate", out, "--output", to)


def test_json_is_escaped_and_exact_and_csv_of_any_language_is_exact(tmp_path, printed, capsys):
    direction = HOSTILE["direction"]
    data = json.loads(
        "{" + printed("stats", coco(tmp_path, name=direction), "--output", "json", "-q").partition("{")[2]
    )
    assert [row["name"] for row in data["classes"]] == [direction]
    written = "犬\u3000猫 می\u200cخواهم 👩\u200d🚒 é\u00a0ß"
    det = coco(tmp_path, name=written, score=0.5)
    assert _app.run(["eval", str(coco(tmp_path, name=written)), str(det), "--output", "csv", "-q"]) == 0
    assert written in capsys.readouterr().out
    assert json.loads(json_text([direction, "\x7f\x85\udc80\U000e0041"])) == [
        direction,
        "\x7f\x85\udc80\U000e0041",
    ]


@pytest.mark.parametrize("name", ["é", "\x85", "\udc80"])
def test_long_json_has_the_bytes_of_short_json(name):
    record = {name: [2e-5, 1e16, -0.0, 1.0, 10**30, None, True], "": [[], {}, 'a\n"', name]}
    text, one = json_text([record] * 2000), json_text(record)
    assert len(text) > LONG > len(one)
    assert text == "[\n " + ",\n ".join([one.replace("\n", "\n ")] * 2000) + "\n]"
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([float("nan")])


@pytest.mark.parametrize("output", ["table", "markdown"])
@pytest.mark.parametrize("command", ["stats", "eval"])
def test_endless_names_are_cut_in_tables_and_nowhere_else(tmp_path, printed, command, output):
    name = "x" * 1000
    gt = coco(tmp_path, name=name)
    sources = [gt] if command == "stats" else [gt, coco(tmp_path, name=name, score=0.5)]
    shown = printed(command, *sources, "--output", output)
    assert max(map(len, shown.split("\n"))) < 400
    assert ("x" * (CELL - 1) if output == "markdown" else "x" * 11) + "…" in shown
    for machine in ("json", "csv") if command == "eval" else ("json",):
        assert name in printed(command, *sources, "--output", machine)


def test_an_endless_key_is_cut_in_messages(tmp_path, printed):
    path = coco(tmp_path, box={**BOX, "bbox": [1, 2, 3, "y" * 100_000]}, key="x" * 100_000)
    for output in ("text", "markdown"):
        assert max(map(len, printed("validate", path, "--output", output).split("\n"))) < 2000


def test_a_message_is_one_line_of_bounded_length_whoever_made_it():
    issue = Issue("a", 0, 0, "f" * 100_000, "bad-box", "error", "a\nb\x1b", "/" + "x" * 100_000)
    assert str(issue).isprintable()
    assert len(str(issue)) < 1000
    assert issue.message == "a\\nb\\x1b"


def test_stats_as_markdown_is_a_table_whatever_the_class_is_called(tmp_path, printed):
    shown = printed("stats", coco(tmp_path, name=HOSTILE["table"]), "--output", "markdown", "-q")
    (row,) = [line for line in shown.split("\n") if "own" in line]
    cells = re.split(r"(?<!\\)\|", row)
    assert len(cells) == 9
    bare = re.sub(r"\\[^\w\s]|<!-- -->", "", cells[1])
    assert set(bare).isdisjoint("`*<>[]&$~|\\")


# ------------------------------------------------------------------------------------------------ the parts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n", "plain\n"),
        ("a\tb\rc\x1b\x7f\x85", "a\\tb\\rc\\x1b\\x7f\\x85"),
        (
            "\u202e\u2066\u200e\ufeff\u2028\U000e0041\udc80",
            "\\u202e\\u2066\\u200e\\ufeff\\u2028\\U000e0041\\udc80",
        ),
        ("\U000e0000\U000e0001\U000e0020\U000e007f", "\\U000e0000\\U000e0001\\U000e0020\\U000e007f"),
        ("é\u00a0\u3000 \u200d\u200c", "é\u00a0\u3000 \u200d\u200c"),
    ],
)
def test_what_is_harmful(text, shown):
    assert escape_unsafe(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", "\\u003a:error::x"),
        ("a\n \u3000::error::x", "a\n \u3000\\u003a:error::x"),
        (
            "a ::error::x, std::vector and ##[error] or ##vso[x]",
            "a ::error::x, std::vector and ##\\u005berror] or ##vso\\u005bx]",
        ),
        ("as in::\n\n  code\n::\n", "as in::\n\n  code\n::\n"),
    ],
)
def test_a_line_is_no_command_of_a_build_log(text, shown):
    stream = io.StringIO()
    screen = Screen(stream, required=True)
    assert screen.write(text) == len(text)
    assert stream.getvalue() == shown


class Broken(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "no space")


def test_only_the_output_is_missed():
    with pytest.raises(Unwritten, match="no space"):
        Screen(Broken(), required=True).write("x")
    screen = Screen(Broken(), required=False)
    screen.write("x")
    screen.write("y")
    screen.flush()
    for closed in (screen, Screen(None, required=False)):
        assert not closed.isatty()
        with pytest.raises(io.UnsupportedOperation):
            closed.fileno()


def test_outside_a_run_text_is_escaped_too(capsys):
    show("a\x1b\nb")
    say("a\x1b\nb")
    assert capsys.readouterr() == ("a\\x1b\nb\n", "a\\x1b\\nb\n")


def test_cells_and_markdown():
    assert cell("a\nb" * 100) == ("a\\nb" * 100)[: CELL - 1] + "…"
    assert markdown("a|b*") == "a\\|b\\*"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("by @octocat", "by @<!-- -->octocat"),
        ("a@b.org mAP@.5", "a@<!-- -->b.org mAP@<!-- -->.5"),
        ("see #1, o/r#12, GH-3", "see #<!-- -->1, o/r#<!-- -->12, GH<!-- -->-3"),
        ("https://x.org www.x.org", "https:<!-- -->//x.org www<!-- -->.x.org"),
        ("# 1 @ a: b /", "# 1 @ a: b /"),
    ],
)
def test_markdown_makes_no_links_of_names(text, shown):
    assert markdown(text) == shown


# ------------------------------------------------------------------------------------------------- tables


HEADERS = ["class", "GT", "TP", "FP", "AP"]
ROWS = [["person with a long name", "10", "7", "3", "24.57 %"], ["猫", "1", "0", "0", "-"]]


def test_a_table_with_room():
    assert text_table(HEADERS, ROWS, spans={"TP": "all", "FP": "all"}).splitlines() == [
        "                              all",
        "class                    GT  TP  FP       AP",
        "-----------------------  --  --  --  -------",
        "person with a long name  10   7   3  24.57 %",
        "猫                        1   0   0        -",
    ]


@pytest.mark.parametrize(
    ("first", "second", "above"),
    [
        ("all", "best", " " * 12 + "all     best"),
        ("all of them", "best", " " * 6 + "all of them   best"),  # to the left, where there is room
        ("all", "the best F1", " " * 12 + "all  the best F1"),
        ("every single detection", "the best F1", "every single detection  the best F1"),
    ],
)
def test_titles_above_columns_do_not_touch(first, second, above):
    spans = {"TP": first, "FP": first, "F1": second, "AP": second}
    text = text_table(["class", "GT", "TP", "FP", "F1", "AP"], [["a", *"12345"]], spans=spans)
    assert text.splitlines()[:2] == [above, "class  GT  TP  FP  F1  AP"]


@pytest.mark.parametrize("width", range(20, 60))
def test_a_table_fits(width):
    drop = [("GT",), ("TP", "FP")]
    lines = text_table(HEADERS, ROWS, width=width, drop=drop).splitlines()
    narrowest = 12 + 2 + 7  # a shortened name and AP
    assert all(len(line.replace("猫", "xx")) <= max(width, narrowest) for line in lines)
    assert "24.57 %" in lines[2]
    assert ("TP" in lines[0]) == ("FP" in lines[0]) == (width >= 37)
    assert ("GT" in lines[0]) == (width >= 41)


def test_a_long_line_is_broken_between_words():
    assert wrap_line("one two three", None) == "one two three"
    assert wrap_line("one two three", 8, "  ") == "one two\n  three"


def test_colour_is_for_terminals(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def colours(stream, **environment):
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        screen = Screen(stream, required=True)
        screen.write_styled("a\x1b[31m", "1;31")
        return "\x1b" in screen.stream.getvalue()

    assert colours(Terminal())
    assert not colours(Terminal(), NO_COLOR="1")
    assert not colours(Terminal(), TERM="dumb")
    assert colours(Terminal(), NO_COLOR="")
    assert not colours(io.StringIO())
    assert colours(io.StringIO(), FORCE_COLOR="1")
    screen = Screen(Terminal(), required=True)
    monkeypatch.delenv("FORCE_COLOR")
    screen.write_styled("a\x1b[31m", "1;31")
    assert screen.stream.getvalue() == "\x1b[1;31ma\\x1b[31m\x1b[0m"


@pytest.mark.parametrize("command", ["eval", "compare", "validate"])
def test_the_file_of_markdown_is_escaped_as_what_is_printed(tmp_path, printed, command):
    hostile = "a\u202eb\u2066c"
    truth = tmp_path / "gt.csv"
    truth.write_text(
        f"image,class,left,top,right,bottom\na.jpg,{hostile},1,1,9,9\na.jpg,{hostile.upper()},1,1,9,9\n",
        encoding="utf-8",
    )
    found = tmp_path / "det.csv"
    found.write_text(
        f"image,class,left,top,right,bottom,score\na.jpg,{hostile},1,1,9,9,0.5\n", encoding="utf-8"
    )
    other = shutil.copy(found, tmp_path / "other.csv")
    sides = {"eval": [truth, found], "compare": [truth, found, other], "validate": [truth]}[command]
    printed(command, *sides, "-q", "--markdown", tmp_path / "out.md")
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert not set(text) & {"\u202e", "\u2066"}
    assert "u202e" in text
