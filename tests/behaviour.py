"""Record what every command does with every fixture, and compare two records.

For a change that must not change behaviour: record before and after, and compare::

    python tests/behaviour.py record before.json
    python tests/behaviour.py record after.json
    python tests/behaviour.py compare before.json after.json --renamed OLD-CODE=NEW-CODE

A record holds, for each command, the exit code, everything printed and a digest of every file written. All
fixtures are validated and converted (the good ones to every format), the cases of ``tests/corpus.py`` are validated, and every
format's detections are evaluated against every format's ground truth and by every protocol. To run the fixtures of
one checkout through the code of another, set ``PYTHONPATH`` to the other's ``src``.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
READ = ("mixed", "bad/*", "validate")
"""Folders of fixtures that are one input each."""
COMMANDS = ("eval", "convert")
"""Folders of fixtures that are one command each."""
CORE = ("coco", "csv", "txt", "voc", "yolo")
"""What the bad fixtures are converted to."""


def run(words):
    """Exit code and both streams of one command, in this process."""
    from odm.cli import _app

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _app.run([str(w) for w in words])
    return code, *(stream.detach().getvalue().decode() for stream in (_flushed(out), _flushed(err)))


def _flushed(stream):
    stream.flush()
    return stream


def digests(top):
    """Every file below a path with a digest of what it holds."""
    top = Path(top)
    files = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
    return {str(p.relative_to(top.parent)): hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in files}


class Recorder:
    """Runs commands in a copy of the fixtures and keeps what came of them."""

    def __init__(self):
        self.found = {}

    def record(self, key, words, target=None):
        code, out, err = run(words)
        self.found[key] = {"exit": code, "out": out.splitlines(), "err": err.splitlines()}
        if target is not None:
            self.found[key]["files"] = digests(target)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(target) if os.path.isdir(target) else os.remove(target)


def described(folder):
    """What a fixture's ``case.json`` says, and the options of the command line that follow from it."""
    file = folder / "case.json"
    said = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    inputs = sorted(p.name for p in folder.iterdir() if p.name.startswith("input"))
    source = said.get("input") or (inputs[0] if inputs else "")
    options = []
    for name, value in said.get("options", {}).items() if isinstance(said.get("options"), dict) else ():
        beside = folder / str(value)
        options += ["-O", f"{name}={beside if str(value) and beside.exists() else value}"]
    if "images" in said:
        options += ["--images", folder / said["images"]]
    if "kind" in said:
        options += ["--kind", said["kind"]]
    if "gt" in said:
        options += ["--gt", folder / said["gt"]]
    return said, folder / source, options


def record_inputs(recorder, formats):
    """Validate every fixture and convert it."""
    for family in READ:
        for folder in sorted(p for p in Path().glob(f"{family}/*") if p.is_dir()):
            said, source, options = described(folder)
            name = said.get("format") or (
                folder.parent.name if family == "bad/*" else folder.name.split("-")[0]
            )
            told = ["--format", name] if name in formats else []
            against = ["--against", folder / said["against"]] if "against" in said else []
            for output in ("text", "json"):
                words = ["validate", source, *told, *options, *against, "--output", output]
                recorder.record(f"validate {folder} {output}", words)
            recorder.record(f"detect {folder}", ["validate", source, *options, "--output", "json"])
            if "links" in said or "against" in said:
                continue
            told = [w.replace("--format", "--from") if isinstance(w, str) else w for w in told]
            for target, suffix in formats.items():
                if family != "mixed" and target not in CORE:
                    continue
                out = f"out{suffix}"
                words = ["convert", source, out, *told, "--to", target, *options]
                recorder.record(f"convert {folder} {target}", words, out)


def record_pairs(recorder, formats):
    """Evaluate the detections of every format against its own and COCO's ground truth, and by every protocol."""
    from odm.evaluate import PROTOCOLS

    for detected in formats:
        for gt in dict.fromkeys((detected, "coco")):
            truth, found = described(Path("mixed", gt)), described(Path("mixed", f"{detected}-detections"))
            sides = []
            for side, (_, _, options) in (("gt", truth), ("det", found)):
                for flag, value in zip(options[::2], options[1::2], strict=True):
                    if flag == "-O":
                        name, told = value.split("=", 1)
                        sides += [f"--{side}-{name.replace('_', '-')}", told]
                    elif flag == "--images":
                        sides += [f"--{side}-images", value]
            words = ["eval", truth[1], found[1], "--gt-format", gt, "--det-format", detected, *sides]
            recorder.record(f"eval {gt} {detected}", [*words, "--output", "json"])
            recorder.record(f"eval {gt} {detected} table", words)
    example = ["eval", "illustrated/groundtruths", "illustrated/detections"]
    for protocol in PROTOCOLS:
        for output in ("json", "csv", "markdown", "table"):
            key = f"eval illustrated {protocol} {output}"
            recorder.record(key, [*example, "--protocol", protocol, "--output", output])
        recorder.record(f"save {protocol}", [*example, "--protocol", protocol, "--save", "saved"], "saved")


def record_commands(recorder):
    """Run the fixtures that are whole commands."""
    for family in COMMANDS:
        for folder in sorted(p for p in Path(family).iterdir() if p.is_dir()):
            said = json.loads((folder / "case.json").read_text(encoding="utf-8"))
            paths = [said.get("gt", "gt"), said.get("det", "det")]
            if family == "convert":
                inputs = sorted(p.name for p in folder.iterdir() if p.name.startswith("input"))
                paths = [said.get("input", inputs[0] if inputs else ""), said.get("output", "out")]
            words = [family, *paths, *said.get("options", ()), *said.get("arguments", ())]
            with contextlib.chdir(folder):
                target = paths[1] if family == "convert" else None
                recorder.record(f"command {folder}", words, target)


def record_corpus(recorder):
    """Validate the bad and odd inputs that cannot be committed."""
    import corpus

    for number, case in enumerate(corpus.CASES):
        home = Path("corpus").resolve() / str(number)
        home.mkdir(parents=True)
        source = case.build(home)
        with contextlib.chdir(home):
            words = ["validate", source, "--format", case.format, *case.explicit, "--output", "json"]
            recorder.record(f"corpus {case}", words)


def record(path):
    """Write the record of this checkout."""
    recorder, before = Recorder(), os.getcwd()
    with tempfile.TemporaryDirectory() as top:
        shutil.copytree(FIXTURES, Path(top) / "fixtures", symlinks=True)
        os.chdir(Path(top) / "fixtures")
        try:
            from odm.formats import FORMATS

            formats = {n: (f.suffixes[0] if f.single else "") for n, f in sorted(FORMATS.items()) if f.write}
            record_inputs(recorder, formats)
            record_pairs(recorder, formats)
            record_commands(recorder)
            record_corpus(recorder)
        finally:
            os.chdir(before)
        text = json.dumps(recorder.found, indent=0, sort_keys=True)
        Path(path).write_text(text.replace(os.path.realpath(top), "TOP"), encoding="utf-8")
    sys.stdout.write(f"{len(recorder.found)} commands\n")


def compare(first, second, renamed):
    """Print what differs between two records; the exit code says whether anything does."""
    one, two = (json.loads(Path(p).read_text(encoding="utf-8")) for p in (first, second))
    names = dict(pair.split("=") for pair in renamed)
    if names:
        pattern = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w-])")
        one = json.loads(pattern.sub(lambda m: names[m[0]], json.dumps(one)))
    differ = [key for key in sorted(one.keys() | two.keys()) if one.get(key) != two.get(key)]
    for key in differ:
        sys.stdout.write(f"{key}\n")
        a, b = one.get(key, {}), two.get(key, {})
        for part in sorted(a.keys() | b.keys()):
            if a.get(part) != b.get(part):
                sys.stdout.write(f"  {part}:\n    - {_shown(a.get(part))}\n    + {_shown(b.get(part))}\n")
    sys.stdout.write(f"{len(differ)} of {len(one.keys() | two.keys())} commands differ\n")
    return bool(differ)


def _shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2000 else text[:2000] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("record").add_argument("file")
    job = jobs.add_parser("compare")
    job.add_argument("before")
    job.add_argument("after")
    job.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    args = parser.parse_args()
    if args.job == "record":
        record(args.file)
        return 0
    return int(compare(args.before, args.after, args.renamed))


if __name__ == "__main__":
    sys.exit(main())
