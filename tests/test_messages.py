"""Messages on the standard error stream: one cause, one message."""

import contextlib
import io
import json
import re
import sys
from types import SimpleNamespace

import pytest

from odm.cli import _app, _streams
from odm.cli._common import make_terminal_log
from odm.cli._messages import print_log
from odm.cli._records import MessageOptions
from odm.cli._streams import say
from odm.converters.validation import limit_per_code
from odm.files import Source
from odm.formats._contract import LIKELY, POOR, SURE, Sniff
from odm.formats._detect import detect
from odm.issues import Code, Log, Usual, grouped, listed, plural

ERROR = Code("test-messages-error", "error", "found {value}", "fix it", "A test.", row=True)
WARNING = Code("test-messages-warning", "warning", "found {value}", "look at it", "A test.")


def log_of(errors, warnings):
    log = Log()
    for code, n in ((WARNING, warnings), (ERROR, errors)):
        for i in range(n):
            log.report(code, f"{i:06}.txt", value=i)
    return log


def printed(capsys, log, first=(), **given):
    print_log(log, MessageOptions(**given), first_codes=first)
    return capsys.readouterr().err.splitlines()


def test_three_of_a_code_then_how_many_more(capsys):
    lines = printed(capsys, log_of(12_345, 5))
    assert [line.split(" ")[1] for line in lines[:3]] == ["error"] * 3
    assert lines[3] == "... and 12 342 more test-messages-error (--max-per-code N lists more)"
    assert [line.split(" ")[1] for line in lines[4:7]] == ["warning"] * 3
    assert lines[7] == "... and 2 more test-messages-warning (--max-per-code N lists more)"
    assert lines[8:] == [
        "12 345 errors, 5 warnings, 6 of them printed (test-messages-error 12 345, test-messages-warning 5)"
    ]


def test_limits(capsys):
    assert len(printed(capsys, log_of(3, 3))) == 7
    assert len(printed(capsys, log_of(30, 30), max_per_code=20)) == 43
    lines = printed(capsys, log_of(30, 30), max_errors=4)
    assert len([line for line in lines if "found" in line]) == 4
    assert lines[-1].startswith("30 errors, 30 warnings, 4 of them printed")
    for limit in (1, 2, 4):  # over what comes first and the others together
        lines = printed(capsys, log_of(2, 2), first=[WARNING], max_errors=limit)
        assert len([line for line in lines if "found" in line]) == limit
        assert lines[-1].startswith("2 errors, 2 warnings, ") or limit == 4
    assert len(printed(capsys, log_of(3, 3), max_errors=0)) == 1
    assert len(printed(capsys, log_of(3, 3), max_per_code=0)) == 1


def test_what_comes_first(capsys):
    lines = printed(capsys, log_of(1, 1), first=[WARNING])
    assert ["warning" in line for line in lines[:2]] == [True, False]
    lines = printed(capsys, log_of(0, 9), first=[WARNING], quiet=True)
    assert [line[:3] for line in lines] == ["000", "000", "000", "..."]
    assert printed(capsys, log_of(0, 9), quiet=True) == []


def test_first_of_each():
    log = log_of(5, 2)
    assert [i.code for i in limit_per_code(log.issues, 1)] == [WARNING.name, ERROR.name]
    assert len(limit_per_code(log.issues, 3)) == 5


def test_words_for_numbers_and_names():
    assert [grouped(n) for n in (0, 9999, 10_000, 1_234_567, "no")] == [
        "0", "9999", "10 000", "1 234 567", "no",
    ]  # fmt: skip
    assert plural(20_000, "box") == "20 000 boxes"
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed(list("abcde")) == "'a', 'b', 'c' and 2 more"
    assert listed(["a\nb"]) == "'a\\nb'"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def coco(n):
    images = [{"id": i, "file_name": f"{i:04}.jpg", "width": 100, "height": 100} for i in range(n)]
    boxes = [
        {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [90, 90, 50, 50], "area": 2500, "iscrowd": 0}
        for i in range(n)
    ]
    return json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "person"}]})


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gt.json").write_text(coco(120))
    return tmp_path


def run(capsys, *words, code=0):
    assert _app.run(list(words)) == code
    return capsys.readouterr()


@pytest.mark.parametrize("words", [("convert", "gt.json", "out", "--to", "voc"), ("stats", "gt.json")])
def test_a_common_fault_takes_four_lines(capsys, data, words):
    err = run(capsys, *words).err
    assert err.count("warning outside-image") == 3
    assert "... and 117 more outside-image (--max-per-code N lists more)" in err
    assert (
        run(capsys, *words, *(["--overwrite"] * (words[0] == "convert")), "--max-per-code", "120").err.count(
            "warning outside-image"
        )
        == 100
    )


def test_pictures_that_are_not_known_are_one_message(capsys, data):
    err = run(capsys, "convert", "gt.json", "out", "--to", "yolo", "--copy-images", code=1).err
    (line,) = [line for line in err.splitlines() if "error picture-not-known" in line]
    assert "none for 120 of 120: '0000.jpg', '0001.jpg', '0002.jpg' and 117 more; use --images" in line


def test_a_split_whose_files_are_missing_is_one_message(capsys, data):
    (data / "voc" / "Annotations").mkdir(parents=True)
    (data / "voc" / "ImageSets" / "Main").mkdir(parents=True)
    xml = "<annotation><filename>a.jpg</filename><size><width>9</width><height>9</height></size></annotation>"
    (data / "voc" / "Annotations" / "a.xml").write_text(xml)
    names = ["a", *(f"m{i}" for i in range(115))]
    (data / "voc" / "ImageSets" / "Main" / "train.txt").write_text("".join(f"{n}\n" for n in names))
    err = run(capsys, "stats", "voc").err
    (line,) = [line for line in err.splitlines() if "voc-listed-image" in line and "ImageSets" in line]
    assert "115 images are listed without an XML file: 'm0', 'm1', 'm2' and 112 more; add" in line


def test_the_result_is_the_last_thing_and_only_a_failed_gate_follows(data):
    results = [{"image_id": i, "category_id": 1, "bbox": [80, 80, 20, 20], "score": 0.5} for i in range(120)]
    (data / "det.json").write_text(json.dumps(results))
    words = (
        "eval",
        "gt.json",
        "det.json",
        "--protocol",
        "coco",
        "--save",
        "run",
        "--fail-under",
        "mAP50=0.9",
    )
    streams = sys.stdout, sys.stderr
    both = open("both.txt", "w", encoding="utf-8")  # noqa: SIM115 -- closed below
    sys.stdout = sys.stderr = both
    try:
        assert _app.run(list(words)) == 1
    finally:
        sys.stdout, sys.stderr = streams
        both.close()
    lines = (data / "both.txt").read_text(encoding="utf-8").splitlines()
    assert lines[-2] == "AP (mAP50-95) 0.000, AP50 (mAP50) 0.000, AP75 (mAP75) 0.000"
    assert lines[-1] == "odm: gate failed: mAP50 0.000 < 0.9"
    first_of_result = next(i for i, line in enumerate(lines) if line.startswith("images: "))
    assert all("warning" not in line and "note:" not in line for line in lines[first_of_result:])
    assert max(map(len, lines[first_of_result:])) <= 80


def test_severities_and_headlines_are_coloured_where_it_is_asked_for(data, capsys, monkeypatch):
    plain = run(capsys, "validate", "gt.json")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = run(capsys, "validate", "gt.json").out
    assert "\x1b[1;33mwarning\x1b[0m outside-image" in out
    assert out.splitlines()[-1].startswith("\x1b[1;36mno errors")
    assert re.sub(r"\x1b\[[0-9;]*m", "", out) == plain.out
    assert "\x1b" not in run(capsys, "validate", "gt.json", "--output", "json").out
    assert "\x1b[1;31merror\x1b[0m" in run(capsys, "stats", "nowhere", code=3).err


def test_three_notes_stand_before_the_table_and_the_others_are_asked_for(capsys):
    log = Log()
    for number in range(5):
        log.note(Usual(f"note {number}") if number == 1 else f"note {number}")
    assert printed(capsys, log) == [
        *(f"note: note {number}" for number in (0, 2, 3)),
        "note: ... and 2 more (-v prints them)",
    ]
    assert len(printed(capsys, log, verbose=True)) == 5
    assert printed(capsys, log, quiet=True) == []


def test_a_message_is_broken_between_words_and_its_text_begins_below_its_code(data, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")

    def printed_to(stream, *words):
        with contextlib.redirect_stdout(stream()) as out, contextlib.redirect_stderr(stream()) as err:
            _app.run(words)
        return out.getvalue() + err.getvalue()

    for words in (
        ("stats", "gt.json", "--output", "json"),
        ("validate", "gt.json"),
        ("stats", "gt.json", "--format", "voc", "--image-size", "many"),
    ):
        narrow, plain = printed_to(Terminal, *words), printed_to(io.StringIO, *words)
        assert max(map(len, narrow.splitlines())) <= 60
        assert narrow.split() == plain.split(), "no word is broken"
        if "--format" not in words:
            assert (
                "\ngt.json#/annotations/0/bbox: warning outside-image [bbox]\n"
                "  the box extends 40 px beyond the image (100x100): left 90,\n"
            ) in f"\n{narrow}"
            assert "/0/bbox: warning outside-image [bbox] the box extends" in plain


@pytest.mark.parametrize(("sure", "doubt"), [(LIKELY, " (or is it b or c? Then use --from)"), (SURE, "")])
def test_other_formats_that_fit_are_named_in_the_note(data, sure, doubt):
    answers = {"a": sure, "b": POOR, "c": POOR}
    formats = {n: SimpleNamespace(sniff=lambda _, c=c: Sniff(c, "it fits")) for n, c in answers.items()}
    detect(Source("gt.json"), log := Log(), formats, list(formats), "--from")
    assert log.notes == [f"gt.json: read as a, because it fits{doubt}"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_progress_bar_leaves_the_cursor_in_the_first_column(monkeypatch, fails):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(_streams, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    items = make_terminal_log().track([1, 2], "files")
    for _ in items:
        assert "files:" in terminal.getvalue()
        if fails:
            break
    say("odm: error: some words")
    assert re.search(r"\rodm: error: some words\n$", terminal.getvalue())
