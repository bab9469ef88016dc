"""The command line as a user types it: exit codes, what is printed where, and what is never done."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from corpus_base import lay as folder
from corpus_base import tree
from one_format import WRITTEN
from PIL import Image
from selection import params, slow, turns

import odm
from odm.cli import _app

ROOT = Path(__file__).resolve().parents[1]
ILLUSTRATED = ROOT / "fixtures" / "illustrated"
GT, DET = str(ILLUSTRATED / "groundtruths"), str(ILLUSTRATED / "detections")
EXACT = {"voc2012": 0.24568668046928915, "voc2007": 0.26839826839826836}


# ------------------------------------------------------------------------------------------------ eval


def test_the_example_is_written_and_shown(odm_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = odm_run("example", "my demo")
    street = ROOT / "fixtures" / "street"
    assert tree("my demo") == tree(street)
    for line in run.out.partition("\n")[2].replace("\\\n", " ").splitlines():
        odm_run(*shlex.split(line)[1:])
    assert Path("report.html").exists()
    odm_run("example", "my demo", code=3)


@pytest.mark.parametrize("protocol", EXACT)
def test_the_illustrated_example(odm_run, protocol):
    result = json.loads(
        odm_run("eval", GT, DET, "--iou", 0.3, "--protocol", protocol, "--output", "json").out
    )
    assert result["version"] == 1
    (only,) = result["results"]
    assert only["summary"]["mAP"] == pytest.approx(EXACT[protocol], abs=1e-12)
    (person,) = only["classes"]
    counts = ("gt", "gt_ignored", "det", "tp", "fp", "fn", "ignored")
    assert [person[k] for k in counts] == [15, 0, 24, 7, 17, 8, 0]
    assert person["ap"] == pytest.approx(EXACT[protocol], abs=1e-12)
    assert person["score"] == pytest.approx(0.48)
    assert person["precision"] == pytest.approx(6 / 14)
    assert person["recall"] == pytest.approx(0.4)
    assert result["join"]["images"]["both"] == 7


def test_the_table_says_percent_and_its_definition(odm_run):
    run = odm_run("eval", GT, DET, "--iou", 0.3)
    assert "24.57 %" in run.out
    assert "0.3" in run.out
    assert "person" in run.out


def test_results_on_stdout_everything_else_on_stderr(odm_run):
    run = odm_run("eval", GT, DET, "--iou", 0.3, "--output", "json")
    json.loads(run.out)
    assert "note:" in run.err
    assert odm_run("eval", GT, DET, "--iou", 0.3, "--quiet").err == ""


def test_iou_and_protocol_repeat(odm_run):
    run = odm_run(
        "eval",
        GT,
        DET,
        "--iou",
        0.3,
        "--iou",
        0.5,
        "--protocol",
        "voc2012",
        "--protocol",
        "voc2007",
        "--output",
        "json",
    )
    results = json.loads(run.out)["results"]
    assert [(r["protocol"], r["iou"]) for r in results] == [
        ("voc2012", 0.3), ("voc2012", 0.5), ("voc2007", 0.3), ("voc2007", 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("output", ["csv", "markdown", "table", "json"])
def test_every_output(odm_run, output):
    out = odm_run("eval", GT, DET, "--iou", 0.3, "--output", output).out
    assert "person" in out
    assert out.endswith("\n")
    assert "\x1b" not in out


def test_the_same_boxes_in_every_other_writing(odm_run, tmp_path):
    """Other corners, relative numbers, YOLO, other orders of lines: the same AP, TP and FP."""
    names = ["txt", *WRITTEN]
    variants = {"gt": [GT], "det": [DET]}
    for side, source in (("gt", GT), ("det", DET)):
        for name, format_ in WRITTEN.items():
            target = tmp_path / (f"{side}-{name}" + (format_.suffixes[0] if format_.single else ""))
            extra = ["--to-box", "ltrb"] if name == "txt" else []
            options = ["-O", "to.results=false"] if name == "coco" else []
            if format_.needs_size:
                extra += ["--image-size", "200x200"]
            odm_run(
                "convert",
                "--from",
                "txt",
                "--to",
                name,
                "--from-box",
                "ltwh",
                source,
                target,
                *extra,
                *options,
            )
            variants[side].append(str(target))
    for i, gt in enumerate(variants["gt"]):
        for k, det in enumerate(variants["det"]):
            if i != k and {names[i], names[k]} - CORE:
                continue  # these grow with the square of the formats
            out = odm_run("eval", gt, det, "--iou", 0.3, "--output", "json", *_sides(gt, det)).out
            result = json.loads(out)["results"][0]
            assert result["summary"]["mAP"] == pytest.approx(EXACT["voc2012"], abs=1e-12), (gt, det)
            assert (result["classes"][0]["tp"], result["classes"][0]["fp"]) == (7, 17)


CORE = {"coco", "csv", "txt", "voc", "yolo"}


def _sides(gt, det):
    from odm.formats import FORMATS

    relative = tuple(
        f"-{name}{format_.suffixes[0] if format_.single else ''}"
        for name, format_ in FORMATS.items()
        if format_.needs_size and "size" not in format_.keeps
    )
    options = []
    for side, path in (("gt", gt), ("det", det)):
        if path.endswith(relative):
            options += [f"--{side}-image-size", "200x200"]
        if path.endswith(("groundtruths", "detections")):
            options += [f"--{side}-box", "ltwh"]
        elif path.endswith("-txt"):
            options += [f"--{side}-box", "ltrb"]
    return options


# --------------------------------------------------------------------------------------------- convert


def test_yolo_to_txt_and_back(odm_run, tmp_path):
    source = folder(tmp_path / "labels", {"a.txt": "0 0.5 0.5 0.2 0.4\n1 0.25 0.25 0.5 0.5\n", "b.txt": ""})
    run = odm_run(
        "convert", "--from", "yolo", "--to", "txt", source, tmp_path / "out", "--image-size", "640x480"
    )
    assert tree(tmp_path / "out") == {"a.txt": b"0 256 144 384 336\n1 0 0 320 240\n", "b.txt": b""}
    assert re.search(r"\b2\s+boxes read", run.out)
    assert re.search(r"\b2\s+boxes written", run.out)
    before = tree(tmp_path / "out")
    odm_run(
        "convert",
        "--from",
        "txt",
        "--to",
        "yolo",
        tmp_path / "out",
        tmp_path / "back",
        "--image-size",
        "640x480",
    )
    assert tree(tmp_path / "out") == before
    back = tree(tmp_path / "back")
    assert back["labels/a.txt"] == b"0 0.5 0.5 0.2 0.4\n1 0.25 0.25 0.5 0.5\n"
    assert "data.yaml" in back


def test_a_strict_conversion_refuses_the_loss_of_what_was_annotated_alone(odm_run, tmp_path):
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
    data = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 80}],
        "categories": [{"id": 7, "name": "dog"}],
        "annotations": [{**box, "id": 1, "category_id": 7}],
    }
    source = tmp_path / "a.json"
    source.write_text(json.dumps(data))
    run = odm_run("convert", source, tmp_path / "out", "--to", "txt", "--strict")
    assert "1  changed: image sizes are not written" in run.out  # a fact about the picture
    data["annotations"][0]["area"] = 7
    source.write_text(json.dumps(data))
    run = odm_run("convert", source, tmp_path / "two", "--to", "txt", "--strict", code=1)
    assert "it would lose 1 areas that differ from width * height" in run.err
    assert not (tmp_path / "two").exists()


def test_dry_run_writes_nothing(odm_run, tmp_path):
    out = odm_run("convert", GT, tmp_path / "out", "--to", "txt", "--dry-run").out
    assert "15  boxes would be written" in out
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 3, "not enough memory for this data"),
        (ImportError("x.so: failed to map segment from shared object"), 3, "not enough memory for this data"),
        (ImportError("no module"), 70, "internal error, please report it"),
        (ValueError("unexpected"), 70, "internal error, please report it"),
    ],
)
def test_what_nobody_expected_is_one_line(tmp_path, monkeypatch, capsys, error, code, words):
    def fail(*_):
        raise error

    monkeypatch.setattr("odm.cli.convert.run", fail)
    (tmp_path / "a.txt").write_text("dog 1 2 3 4\n")
    assert _app.run(["convert", str(tmp_path / "a.txt"), str(tmp_path / "b"), "--to", "voc"]) == code
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("where", ["", "inside", "..", "../groundtruths/../groundtruths"])
def test_a_target_at_the_source_is_refused(odm_run, tmp_path, where):
    source = folder(tmp_path / "data" / "groundtruths", {"a.txt": "x 1 2 3 4\n"})
    before = tree(tmp_path)
    for extra in ([], ["--overwrite"]):
        run = odm_run("convert", source, os.path.join(source, where), "--to", "txt", *extra, code=3)
        assert "source" in run.err
    assert tree(tmp_path) == before


INPUTS = {
    "the ground truth of results": "convert res.json gt.json --gt gt.json",
    "by a link": "convert res.json linked.json --gt gt.json",
    "by a second name": "convert res.json hard.json --gt gt.json",
    "named by a link": "convert res.json gt.json --gt linked.json",
    "image sizes": "convert yolo work/sizes.csv --image-sizes work/sizes.csv",
    "image sizes of one side": "convert yolo work/sizes.csv --from-image-sizes work/sizes.csv",
    "around image sizes": "convert yolo work --to voc --image-sizes work/sizes.csv",
    "pictures": "convert yolo photos --to voc --images photos",
    "pictures in other words": "convert yolo photos --to voc -O images=photos",
    "inside pictures": "convert yolo photos/old --to voc --images photos",
    "around pictures": "convert yolo home --to yolo --images home/images --link-images",
    "classes": "convert yolo work/names.csv --classes work/names.csv --image-size 8x8",
    "classes in order": "convert gt.json work/names.csv --class-list work/names.csv",
    "names to change": "convert gt.json work/renames.csv --rename @work/renames.csv",
    "a dry run": "convert res.json gt.json --gt gt.json --dry-run",
    "repair": "validate res.json --gt gt.json --fix order --out gt.json",
    "repair at pictures": "validate yolo --images photos --fix order --out photos/old",
    "saved at image labels": "eval gt.json res.json --protocol openimages --image-labels work/labels.csv --save work",
    "saved at a hierarchy": "eval gt.json res.json --protocol openimages --hierarchy work/tree.json --save work",
    "saved at a list of images": "eval gt.json res.json --only-images @work/images.txt --save work",
    "saved at pictures": "eval yolo det --images photos --save photos",
    "drawn at pictures of one side": "eval yolo det --gt-images photos --det-image-size 8x8 --plots photos/old",
    "statistics": "stats res.json --gt work/gt.json --plots work",
}
"""What is read beside SRC, and a target that is, holds or lies in it."""


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = [{"id": 1, "file_name": "a.png", "width": 8, "height": 8}]
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}
    truth = json.dumps({"images": images, "annotations": [box], "categories": [{"id": 1, "name": "person"}]})
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    folder(
        tmp_path,
        {
            "gt.json": truth,
            "work/gt.json": truth,
            "res.json": '[{"image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4], "score": 0.5}]',
            "yolo/a.txt": "0 0.5 0.5 0.25 0.25\n",
            "det/a.txt": "0 0.5 0.5 0.25 0.25 0.5\n",
            "photos/a.png": picture.getvalue(),
            "photos/old/a.txt": "kept\n",
            "home/images/a.png": picture.getvalue(),
            "work/sizes.csv": "a.png,8,8\n",
            "work/names.csv": "person\n",
            "work/renames.csv": "person=man\n",
            "work/labels.csv": "ImageID,LabelName,Confidence\na,person,1\n",
            "work/tree.json": '{"LabelName": "person"}',
            "work/images.txt": "a.png\n",
        },
    )
    Path("linked.json").symlink_to("gt.json")
    os.link("gt.json", "hard.json")
    return tmp_path


@pytest.mark.parametrize("what", INPUTS)
def test_no_input_is_replaced(odm_run, inputs, what):
    before = tree(inputs)
    args = INPUTS[what].split()
    run = odm_run(*args, *([] if "--dry-run" in args else ["--overwrite"]), code=3)
    last = run.err.strip().split("\n")[-1]
    assert re.search("the target (is the source|is an input file|is inside|contains).*; choose another", last)
    assert run.out == ""
    assert tree(inputs) == before
    assert Path("linked.json").is_symlink()


NEW_INSIDE = {
    "converted": "convert yolo photos/new --to voc --images photos",
    "with copies of the pictures": "convert yolo photos/new --to yolo --images photos --copy-images",
    "repaired": "validate yolo --images photos --fix order --out photos/new",
    "saved": "eval yolo det --images photos --save photos/new",
    "saved in the working folder": "eval gt.json res.json --images . --save new",
    "drawn": "eval yolo det --gt-images photos --det-image-size 8x8 --plots photos/new",
    "a report": "eval yolo det --images photos --report photos/new.html",
}
"""What is written to a new place inside a folder in which pictures are looked up."""


@pytest.mark.parametrize("what", NEW_INSIDE)
def test_a_new_target_inside_a_folder_of_pictures_replaces_nothing(odm_run, inputs, what):
    before = tree(inputs)
    args = NEW_INSIDE[what].split()
    odm_run(*args)
    after = tree(inputs)
    assert before.items() < after.items()
    run = odm_run(*args, "--overwrite", code=3)  # now it is there
    assert "is inside the source" in run.err
    assert tree(inputs) == after


def test_a_new_target_inside_a_source_is_refused_though_pictures_are_looked_up_there(odm_run, inputs):
    before = tree(inputs)
    odm_run("convert", "yolo", "yolo/new", "--to", "voc", "--images", "yolo", code=3)
    odm_run("eval", "yolo", "det", "--images", ".", "--save", "det/new", code=3)
    assert tree(inputs) == before


def test_what_is_only_beside_an_input_may_be_written(odm_run, inputs):
    """Such as a file in a folder of which another file was read, and a folder beside the pictures."""
    odm_run("convert", "res.json", "work/out.json", "--to", "coco", "--gt", "work/gt.json")
    odm_run("convert", "yolo", "work/voc", "--to", "voc", "--image-sizes", "work/sizes.csv")
    odm_run("convert", "yolo", "photos2", "--to", "voc", "--images", "photos")
    odm_run("eval", "gt.json", "res.json", "--save", "work/run", "--only-images", "@work/images.txt")
    assert Path("work/run/results.json").exists()


def test_a_call_knows_its_own_inputs(inputs):
    """In Python one call is a run: what was read before may be replaced on request, what the call reads not."""
    data = odm.read("gt.json")
    odm.write(data, "gt.json", "coco", overwrite=True)
    for reads in ({"gt": "gt.json"}, {"from_options": {"image_sizes": "work/sizes.csv"}}):
        target, source = ("gt.json", "res.json") if "gt" in reads else ("work/sizes.csv", "yolo")
        with pytest.raises(odm.PathError, match="is the source"):
            odm.convert(source, target, overwrite=True, **reads)


def test_an_existing_target_needs_overwrite(odm_run, tmp_path):
    out = folder(tmp_path / "out", {"mine.md": "keep me", "00001.txt": "old"})
    assert "--overwrite" in odm_run("convert", GT, out, "--to", "txt", code=3).err
    run = odm_run("convert", GT, out, "--to", "txt", "--overwrite")
    assert "mine.md" in run.out
    assert (out / "mine.md").read_text() == "keep me"
    assert (out / "00001.txt").read_text() != "old"


def test_all_faults_in_one_run_with_their_places(odm_run, tmp_path):
    source = folder(
        tmp_path / "in",
        {
            "a.txt": "x 1 2 3 4\nx 1 2 three 4\nx 1 2\n",
            "b.txt": b"x 1 2 3 4\nx nan 2 3 4\n\xff\xfe 1 2 3 4\n",
            "c.txt": "x 1 2 3 4\nx 1_0 20 30 40\nx 1e999 20 30 40\n",
        },
    )
    run = odm_run("convert", source, tmp_path / "out", "--to", "txt", "--from", "txt", code=1)
    for location in ("a.txt:2", "a.txt:3", "b.txt:2", "b.txt:3", "c.txt:2", "c.txt:3"):
        assert re.search(rf"{location}\b.*: error [a-z0-9-]+ ", run.err), (location, run.err)
    assert not (tmp_path / "out").exists()
    assert not [p for p in os.listdir(tmp_path) if p.startswith(".")]


def test_skip_bad_counts_what_it_leaves_out(odm_run, tmp_path):
    source = folder(tmp_path / "in", {"a.txt": "x 1 2 3 4\nx 1 2 three 4\nx 5 6 7 8\n"})
    run = odm_run("convert", source, tmp_path / "out", "--to", "txt", "--from", "txt", "--skip-bad")
    assert re.search(r"3\s+boxes read", run.out)
    assert re.search(r"2\s+boxes written", run.out)
    assert re.search(r"1\s+left out", run.out)


# ------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("--help", 0, "Usage"),
        ("--version", 0, "odm"),
        ("", 2, "Usage"),
        ("evla a b", 2, "eval"),
        ("eval", 2, "GT"),
        ("eval nowhere also-nowhere", 3, "nowhere"),
        ("convert nowhere out --to txt", 3, "nowhere"),
        ("convert {gt} out", 2, "--to"),
        ("convert {gt} out --to tixt", 2, "txt"),
        ("convert {gt} out --to txt --box corners", 2, "ltrb"),
        ("convert {gt} out --to txt -O bux=ltrb", 2, "bux"),
        ("convert {gt} out --to txt --conf-column last", 2, "conf-column"),
        ("eval {gt} {det} --iou 1.5", 2, "iou"),
        ("eval {gt} {det} --iou nan", 2, "iou"),
        ("eval {gt} {det} --protocol voc2013", 2, "voc2012"),
        ("eval {gt} {gt}", 1, "score"),
        ("formats nope", 2, "odm formats"),
        ("formats", 0, "yolo"),
        ("formats txt", 0, "ltwh"),
        ("protocols nope", 2, "odm protocols"),
        ("protocols", 0, "faces and people"),
        ("protocols KITTI", 0, "height > 25"),
        ("protocols coco --output json", 0, "AP50"),
        ("convert --help", 0, "Examples"),
        ("eval --help", 0, "Examples"),
        ("formats --help", 0, "Examples"),
    ],
)
def test_exit_codes(odm_run, tmp_path, monkeypatch, line, code, says):
    monkeypatch.chdir(tmp_path)
    run = odm_run(*shlex.split(line.format(gt=GT, det=DET)), code=code)
    assert says in run.out + run.err
    assert os.listdir(tmp_path) == []


COMMANDS = {
    "formats": ["formats"],
    "protocols": ["protocols"],
    "stats": ["stats", GT],
    "eval": ["eval", GT, DET],
    "validate": ["validate", GT],
    "convert": ["convert", GT, "new", "--to", "txt"],
    "help": ["--help"],
}
each_command = pytest.mark.parametrize("command", COMMANDS)


def odm_process(*words, cwd, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "odm", *words], cwd=cwd, check=False, timeout=600, **keywords
    )


def pipe_without_reader():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@each_command
def test_a_reader_that_leaves_ends_the_command_with_141_and_no_word(tmp_path, command):
    writer = pipe_without_reader()
    words = COMMANDS[command]
    done = odm_process(*words, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 141
    assert [line for line in done.stderr.splitlines() if not line.startswith(b"note: ")] == []
    if command == "convert":  # what was done before is complete
        assert len(os.listdir(tmp_path / "new")) == len(os.listdir(GT))


@pytest.mark.parametrize("unbuffered", params(["", "1"], [""]))
def test_a_reader_that_leaves_in_the_middle(tmp_path, unbuffered):
    (tmp_path / "a.txt").write_text("x 1 2 three 4\n" * 20_000)  # more than a pipe holds
    line = (
        f"{shlex.quote(sys.executable)} -m odm validate a.txt --format txt --output json --max-errors 20000"
    )
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (141, b"{\n", b"")


@pytest.mark.parametrize(
    "command", params(["eval", "validate", "convert", "errors", "wrong call"], ["convert", "errors"])
)
def test_a_stderr_that_takes_nothing_changes_nothing(tmp_path, command):
    (tmp_path / "a.txt").write_text("x 1 2 three 4\n")
    others = {"errors": ["stats", "a.txt", "--format", "txt"], "wrong call": ["stats", "--no-such-flag"]}
    words = {**COMMANDS, **others}[command]
    if command == "convert":
        words = [*words, "--overwrite"]
        odm_process(*words, cwd=tmp_path)
    expected = odm_process(*words, cwd=tmp_path, capture_output=True)
    line = shlex.join([sys.executable, "-m", "odm", *words])
    for to in ("2>&-", "2>/dev/full") if os.path.exists("/dev/full") else ("2>&-",):
        done = subprocess.run(
            ["bash", "-c", f"{line} {to}"], cwd=tmp_path, stdout=subprocess.PIPE, check=False
        )
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), to
    writer = pipe_without_reader()
    done = odm_process(*words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "."],
        pytest.param(["stats", "a.json"], marks=slow),
        pytest.param(["convert", GT, "new", "--to", "txt"], marks=slow),
    ],
)
def test_a_working_folder_that_is_gone_is_said(tmp_path, words):
    line = shlex.join([sys.executable, "-m", "odm", *words])
    done = subprocess.run(
        ["bash", "-c", f"mkdir gone; cd gone; rmdir ../gone; {line}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    (last,) = [each for each in done.stderr.splitlines() if not each.startswith("note: ")]
    assert "the working folder no longer exists" in last
    assert os.listdir(tmp_path) == []


AFTER = """
import os, sys
def leave(code):
    sys.stdout.flush()
    print(len(os.listdir("/proc/self/task")), "numpy" in sys.modules, file=sys.stderr)
    end(code)
end, os._exit = os._exit, leave
from odm.cli import main
{before}
main()
"""


def after(tmp_path, before=""):
    script = AFTER.format(before=before)
    words = [sys.executable, "-c", script, "stats", "a.txt", "--format", "txt", "--box", "ltrb"]
    (tmp_path / "a.txt").write_text("x 1 2 3 4\n")
    environment = {k: v for k, v in os.environ.items() if "NUM_THREADS" not in k}
    return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux lists them")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor needs no threads")
def test_numpy_starts_no_threads(tmp_path):
    assert after(tmp_path).stderr.split() == ["1", "True"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else"
)
def test_a_limit_of_processes_is_no_interruption():
    # The limit holds for nobody who is root, nor for who may exceed it; reading stays allowed.
    limit = """
import ctypes, resource
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
os.setresuid(65533, 0, 0)
may_read = (1 << 1) | (1 << 2)
if ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(may_read, may_read)):
    sys.exit("not possible here")
"""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        done = after(Path(folder), limit)
    if "not possible here" in done.stderr:
        pytest.skip("capabilities cannot be given up")
    assert done.returncode == 0, done.stderr
    assert "boxes" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize(("command", "to"), turns(COMMANDS, ["> /dev/full", ">&-"]))
def test_output_that_cannot_be_written_is_said(tmp_path, command, to):
    words = [sys.executable, "-m", "odm", *COMMANDS[command]]
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(words)} {to}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    (last,) = [line for line in done.stderr.splitlines() if line.startswith("odm: error: ")]
    assert last.startswith("odm: error: cannot write the output: ")
    assert "Traceback" not in done.stderr


def test_an_internal_error_says_so_in_one_line(odm_run, monkeypatch, capsys):
    import odm.cli.formats

    monkeypatch.setattr(odm.cli.formats, "format_listing", lambda *_: 1 // 0)
    assert _app.run(["formats"]) == 70
    err = capsys.readouterr().err
    assert "please report" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_signals_leave_no_litter(tmp_path, number, code):
    folder(tmp_path / "in", {f"{i}.txt": "x 1 2 3 4\n" for i in range(300)})
    script = (
        "import sys, time, odm.files as f, odm.cli._app as a\n"
        "w = f.Output.write\n"
        "def slow(self, *args):\n"
        "    w(self, *args); print('.', flush=True); time.sleep(0.05)\n"
        "f.Output.write = slow\n"
        "sys.exit(a.run(sys.argv[1:]))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, "convert", str(tmp_path / "in"), str(tmp_path / "out"), "--from", "txt", "--to", "txt"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == ".\n"
    child.send_signal(number)
    _, err = child.communicate(timeout=600)
    assert child.returncode == code
    assert "Traceback" not in err
    time.sleep(0.01)
    assert os.listdir(tmp_path) == ["in"]


def test_an_interrupted_run_names_what_it_has_written(odm_run, monkeypatch, tmp_path, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("odm.verbs.evaluation.save", stop)
    for report, words in (("", "nothing was changed"), ("r.html", f"written before: {tmp_path}/r.html")):
        args = ["eval", GT, DET, "--save", str(tmp_path / "saved")]
        args += ["--report", str(tmp_path / report)] if report else []
        assert _app.run(args) == 130
        assert capsys.readouterr().err.endswith(f"odm: interrupted; {words}\n")
    assert os.listdir(tmp_path) == ["r.html"]


def test_whether_a_path_can_be_read_is_no_usage_error(odm_run, monkeypatch, capsys):
    """The message and the exit code come from what opens it, as for a file inside a folder."""
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.R_OK)
    assert _app.run(["stats", GT]) == 0
    assert "not readable" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["validate", GT, "--fix", "all", "--out", "a", "--markdown", "./a"],
        ["eval", GT, DET, "--report", "a.html", "--markdown", "a.html"],
        ["eval", GT, DET, "--save", "a", "--save-thresholds", "a", "--thresholds", "f1"],
    ],
)
def test_two_outputs_have_two_places(odm_run, tmp_path, monkeypatch, capsys, args):
    monkeypatch.chdir(tmp_path)
    assert _app.run([*args, "--overwrite"]) == 2
    assert "both name" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
    assert _app.run(["eval", GT, DET, "--save", "a", "--report", "a", "--overwrite"]) == 0


def test_help_is_fast_because_it_imports_little():
    script = "import sys, odm.cli._app as a; a.run(['--help']); print(sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for name in ("numpy", "lxml", "yaml", "PIL", "matplotlib", "tqdm", "tabulate"):
        assert f"'{name}'" not in done.stderr


def test_numbers_of_endless_digits(odm_run, tmp_path):
    digits = {"x": "x", "seven": "7" * 1000, "eight": "8" * 1000, "nine": "9" * 5000}

    def coco(name, *classes, width=3, **more):
        boxes = [
            {"id": i, "image_id": 1, "category_id": i, "bbox": [1, 2, width, 4], **more}
            for i in range(1, len(classes) + 1)
        ]
        images = [{"id": 1, "file_name": "x.jpg", "width": 64, "height": 48}]
        categories = [{"id": i, "name": digits[c]} for i, c in enumerate(classes, 1)]
        path = tmp_path / name
        path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
        return path

    truth, found = coco("gt.json", "x", "seven"), coco("det.json", "x", "eight", score=0.5)
    assert "class-only-in-detections" in odm_run("eval", truth, found).err
    assert "class-only-in-ground-truth" in odm_run("validate", truth, "--against", found).out
    folder(tmp_path, {"a.csv": "a.jpg,1,2,30,40,car\n", "list.csv": f"car,{digits['seven']}\n"})
    odm_run("validate", tmp_path / "a.csv", "-O", f"classes={tmp_path / 'list.csv'}")
    assert "bad-listed-class" in odm_run("validate", coco("nine.json", "x", "nine"), code=1).out
    wide = coco("wide.json", "x", width=1e308)
    odm_run("validate", wide, "--report", tmp_path / "page.html", code=1)
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("split", "`odm convert SRC DST --split-into train:80,val:20`"),
        ("merge", "`odm convert SRC SRC DST`"),
        ("Tile", "`odm convert SRC DST --tile 640x640`"),
        ("fix", "`odm validate SRC --fix clip,dedupe --out DST`"),
    ],
)
def test_a_job_without_a_command_of_its_own_is_named_with_one(odm_run, name, advice):
    err = odm_run(name, "a", code=2).err
    assert f"unknown command {name!r}; the command is {advice}" in " ".join(err.split())
