"""Mutated datasets of every format through the command line: issues and exit codes, never an exception.

``ODM_FUZZ=5000 pytest tests/test_fuzz.py`` looks longer, and elsewhere each time.
"""

import contextlib
import functools
import importlib
import json
import os
import re
import tempfile
from pathlib import Path

import behaviour
import click
import corpus
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from selection import examples, first_of, params

import odm
from odm.formats import FORMATS
from odm.issues import OdmError

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
EXAMPLES = int(os.environ.get("ODM_FUZZ", "0"))

fuzzed = settings(
    max_examples=EXAMPLES or examples(12),
    derandomize=not EXAMPLES,
    phases=[Phase.generate] if EXAMPLES else list(Phase),
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

NASTY = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc2\xa0", b"\xe2\x80\xa8",
    b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"1e999", b"-1e400", b"1e-400", b"1_0", b"-0", b"-0.0", b"0x1", b"1,5",
    b"9" * 20, b"9" * 400, b"9007199254740993", b"-9223372036854775808", b"9223372036854775807", b"18446744073709551616", b"2147483647",
    b"2147483648", b"1e308", b"-1e308", b"5e-324", b"0." + b"1" * 50, b'"', b"'", b'""', b"\\", b"\\u0000", b"\\ud800", b"/", b"..", b"../../x", b"/etc/passwd",
    b"C:\\x", b"http://h/x", b"{", b"}", b"[", b"]", b"[" * 500, b"null", b"true", b"{}", b"[]", b"<", b">", b"&", b"&amp;", b"&x;", b"<x>",
    b"</object>", b"<!--", b"]]>", b"<?x ?>", b"<!DOCTYPE a>", b",", b";", b"\t", b" ", b":", b": ", b"- ", b"*a", b"&a", b"!!str", b"#", b"---\n",
    "\u0661".encode(), "\uff11".encode(), "e\u0301".encode(), "\U0001f600".encode(), b"\x1b[31m", b"\x7f", b"\x0b", b"\x0c", b"CON", b"a" * 300, b"%s", b"{0}", b"=1+1",
]  # fmt: skip
NAMES = [
    "x.txt", "x.xml", "x.json", "x.csv", "x.jpg", "é.txt", "e\u0301.txt", "a\nb.txt", "[red].txt", "-rf.txt", " .txt", "a .txt", "..txt",
    "classes.txt", "data.yaml", "obj.names", "train.txt", "Annotations/x.xml", "images/x.png", "labels/x.txt", "CON.txt", "x.tar.txt",
    "x.jpg.txt", "X.TXT", ".hidden", "Thumbs.db", "d/e/f/x.txt", "x" * 200 + ".txt",
]  # fmt: skip


def originals():
    """The small datasets of the fixtures, and those of the corpus: format, options, files."""
    found = {}
    for folder in sorted(FIXTURES.glob("mixed/*")):
        fits = [name for name in FORMATS if folder.name == name or folder.name.startswith(name + "-")]
        said = json.loads((folder / "case.json").read_text()) if (folder / "case.json").exists() else {}
        entry = next(p for p in sorted(folder.iterdir()) if p.name.startswith("input"))
        files = {
            str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name != "case.json"
        }
        name = max(fits, key=len)
        found[folder.name] = (said.get("format", name), said, entry.name, files)
    for name, make in corpus.BASE.items():
        for det in (False, True):
            files = {f"input/{k}": v.encode() for k, v in make(det).items()}
            options = (
                {
                    corpus.TOLD[name][i][2:]: corpus.TOLD[name][i + 1]
                    for i in range(0, len(corpus.TOLD[name]), 2)
                }
                if name in corpus.TOLD
                else {}
            )
            found[f"corpus-{name}{'-det' * det}"] = (
                name,
                {"options": options, "kind": "det" if det else "gt"},
                "input",
                files,
            )
    return found


ORIGINALS = originals()


@st.composite
def mutated(draw, name):
    """The files of a dataset after one to three accidents."""
    _, _, entry, files = ORIGINALS[name]
    files = dict(files)
    for _ in range(draw(st.integers(1, 3))):
        ours = sorted(k for k in files if k.split("/")[0] == entry)
        if not ours:
            break
        key = draw(st.sampled_from(ours))
        data = files[key]
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.integers(0, 40)))
        kind = draw(
            st.sampled_from(
                [
                    "flip",
                    "cut",
                    "delete",
                    "double",
                    "insert",
                    "token",
                    "lines",
                    "rename",
                    "drop",
                    "copy",
                    "recode",
                    "folder",
                ]
            )
        )
        if kind == "flip":
            byte = draw(st.integers(0, 255))
            data = data[:at] + bytes([byte]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "delete":
            data = data[:at] + data[to:]
        elif kind == "double":
            data = data[:to] + data[at:]
        elif kind == "insert":
            data = data[:at] + draw(st.sampled_from(NASTY)) + data[at:]
        elif kind == "token":
            tokens = list(re.finditer(rb"[^\s,;<>\"\[\]{}:]+", data))
            if tokens:
                match = draw(st.sampled_from(tokens))
                data = data[: match.start()] + draw(st.sampled_from(NASTY)) + data[match.end() :]
        elif kind == "lines":
            lines = data.split(b"\n")
            i, j = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        elif kind == "recode":
            data = data.decode("utf-8", "replace").encode(
                draw(
                    st.sampled_from(
                        ["utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "utf-7", "cp037"]
                    )
                ),
                "replace",
            )
        elif kind in ("rename", "copy") and "/" in key:
            other = f"{entry}/{draw(st.sampled_from(NAMES))}"
            if kind == "rename":
                del files[key]
            key = other
        elif kind == "drop":
            del files[key]
            continue
        elif kind == "folder" and "/" in key:
            del files[key]
            key += "/inner"
        files[key] = data
    return files


def arguments(options, side=""):
    explicit = []
    for name, value in options.items():
        shown = (
            ",".join(f"{k}:{v}" for k, v in value.items())
            if isinstance(value, dict)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        explicit += ["-O", f"{side}{name}={shown}"]
    return explicit


def checked(args):
    run = corpus.Run(args)
    assert run.code in (0, 1, 2, 3), str(run)
    assert "internal error" not in run.err, str(run)
    assert "Traceback" not in run.err, str(run)
    for line in run.err.split("\n"):
        assert corpus.LINE.fullmatch(line), f"{line!r}\n{run}"
    return run


@pytest.mark.parametrize("name", params(ORIGINALS, first_of(ORIGINALS, lambda name: ORIGINALS[name][0])))
def test_no_accident_leads_to_an_exception(name):
    format_, said, entry, files = ORIGINALS[name]
    targets = ["txt", "yolo", "voc", "coco", "csv"]

    @fuzzed
    @given(changed=mutated(name), choice=st.integers(0, 1000))
    def attempt(changed, choice):
        with tempfile.TemporaryDirectory() as top:
            home, clean = Path(top, "home"), corpus.lay(Path(top, "clean"), files)
            home.mkdir()
            for key, data in changed.items():
                path = home / key
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    return
            source = home / entry
            if not source.exists():
                return
            options = {
                k: str(home / v) if isinstance(v, str) and (home / v).is_file() else v
                for k, v in said.get("options", {}).items()
            }
            kind = ["--kind", said["kind"]] if said.get("kind") else []
            gt = ["--gt", str(FIXTURES / "mixed" / name / said["gt"])] if "gt" in said else []
            before = corpus.state(top)
            judged = checked(
                [
                    "validate",
                    source,
                    "--format",
                    format_,
                    *(arguments(options, "det.") if gt else arguments(options)),
                    *kind,
                    *gt,
                ]
            )
            checked(["validate", source, *gt])
            target = targets[choice % 5]
            out = Path(top, "out") / ("x" + (FORMATS[target].suffixes[0] if FORMATS[target].single else ""))
            run = checked(
                [
                    "convert",
                    source,
                    out,
                    "--from",
                    format_,
                    "--to",
                    target,
                    *arguments(options, "from."),
                    *kind,
                    *gt,
                ]
            )
            if run.code == 0:
                assert judged.code == 0, f"{judged}\n{run}"
                read, written = (
                    int(re.search(rf"(\d+)  boxes {w}", run.out)[1]) for w in ("read", "written")
                )
                left = sum(map(int, re.findall(r"(\d+)  left out", run.out)))
                assert read == written + left
                explicit = {"txt": {"box": "ltrb", "coords": "abs"}, "yolo": {"image_size": "1000x1000"}}.get(
                    target, {}
                )
                if not list(Path(out).rglob("*.*")) or not re.search(r"[1-9]\d*  images", run.out):
                    return  # nothing to read back
                try:
                    data = odm.read(
                        out, target, **explicit, **({"gt": gt[1]} if gt and target == "coco" else {})
                    )
                except OdmError as e:
                    raise AssertionError(f"{e}\n{run}\n{changed}") from e
                assert len(data) == written
                assert np.isfinite(data.boxes.xyxy).all()
            else:
                assert not out.exists()
                assert not out.parent.exists() or not os.listdir(out.parent)
            sides = [source, clean / entry]
            det = said.get("kind") == "det"
            first, second = sides[::-1] if det else sides
            checked(
                [
                    "eval",
                    first,
                    second,
                    *arguments(options, "gt."),
                    *arguments(options, "det."),
                    "--output",
                    "json",
                ]
            )
            assert {k: v for k, v in corpus.state(top).items() if k.split("/")[0] != "out"} == before

    attempt()


VALUES = [
    *("", "0", "-1", "nan", "inf", "-inf", "1e308", "1e-320", "9" * 4400, "\udcff", "a\nb", "@", "@nothing", "@gt.json", ".", "/dev/null"),
    *("[", "(", "(a", "a:b", "a=b", "=", ",", ":", "::", "a:1,b:2", "a:1,a:2", "0x0", "1x1x1", "9" * 20 + "x1", "train:80,val:20"),
    *("x" * 70_000, "é", "\u0663", "%", "0%", "1000%", "*", "-", "--", "gt.json", "C:", "s3:", "tls://h:1", "1GB", "999999999T"),
    *("mAP=", "mAP50=nan", "AP[=1", "coco:mAP", "all", "[]", "{}", "\u202e", "2.images=x", "0.images=x", "99999999.x=1", "0.5:0.95:0"),
]  # fmt: skip
CALLS = {
    "convert": ("gt.json", "out", "--to", "coco"),
    "eval": ("gt.json", "det.json"),
    "compare": ("gt.json", "det.json", "det.json"),
    "agree": ("gt.json", "gt.json"),
    "diff": ("gt.json", "gt.json"),
    "validate": ("gt.json",),
    "stats": ("gt.json",),
    "show": ("gt.json", "--report", "page.html"),
    "formats": (),
    "protocols": (),
}


@functools.cache
def options_of(command):
    made = importlib.import_module(f"odm.cli.{command}").command
    params = [p for p in made.params if isinstance(p, click.Option)]
    return [p.opts[-1] for p in params if not p.is_flag and p.name not in ("cluster", "memory", "replicates")]


@settings(fuzzed, max_examples=EXAMPLES or examples(200))
@given(st.data())
def test_no_value_of_an_option_is_an_internal_error(data):
    command = data.draw(st.sampled_from(sorted(CALLS)))
    given = [
        f"{data.draw(st.sampled_from(options_of(command)))}={data.draw(st.sampled_from(VALUES))}"
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    record = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}
    gt = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 9}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, **record}],
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("gt.json").write_text(json.dumps(gt), encoding="utf-8")
        Path("det.json").write_text(json.dumps([{**record, "score": 0.5}]), encoding="utf-8")
        code, _, err = behaviour.run([command, *CALLS[command], *given])
    assert code in (0, 1, 2, 3), err
