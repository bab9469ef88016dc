"""Build the source distribution and the wheel, the same bytes every time from the same commit.

python .ci/build.py DIST [--check]

setuptools writes the owner, permissions and time of every file, and the time of the build, into the source
distribution, and permissions into the wheel. Here both are written again without them: files in the order of their
names, owned by nobody, of the time of the last commit (or `SOURCE_DATE_EPOCH`). The wheel is built from the source
distribution. Python, setuptools and zlib must be the same for the same bytes.

With ``--check`` both are built a second time, as is a wheel from a checkout, and all must be equal; then twine and
check-wheel-contents look at them.
"""

from __future__ import annotations

import argparse
import filecmp
import gzip
import io
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_WHEEL = (
    "odm/py.typed",
    "odm/cli/examples.json",
    "odm/report/page/template.html",
    "odm/example/images/avenue.jpg",
    "odm/formats/voc/__init__.py",
)
IN_SDIST = (
    "tests/conftest.py",
    "fixtures/README.md",
    "docs/stability.md",
    "LICENSE",
    "CITATION.cff",
    "SECURITY.md",
)


def run(*words: object, cwd: Path = ROOT) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(what: str, source: Path, target: Path) -> Path:
    """Build ``sdist`` or ``wheel``; its path."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{what}", "--outdir", target, source)
    (made,) = target.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return made


def normalise_sdist(archive: Path, time: int) -> None:
    """Write a source distribution again without what depends on the machine."""
    plain = io.BytesIO()
    with (
        tarfile.open(archive) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, time
            entry.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(entry, old.extractfile(member) if member.isfile() else None)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed:
        packed.write(plain.getvalue())


def normalise_wheel(archive: Path) -> None:
    """Write a wheel again without the permissions of the machine; its times are `SOURCE_DATE_EPOCH` already."""
    with zipfile.ZipFile(archive) as old:
        files = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as new:
        for info, data in files:
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, data)


def make(target: Path) -> tuple[Path, Path]:
    """Build both from a clone of the last commit, so that nothing else gets in."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "odm")
        run("git", "clone", "-q", ROOT, clone)
        sdist = build("sdist", clone, target)
        normalise_sdist(sdist, int(os.environ["SOURCE_DATE_EPOCH"]))
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        wheel = build("wheel", Path(folder, sdist.name.removesuffix(".tar.gz")), target)
        normalise_wheel(wheel)
        return sdist, wheel


def check(sdist: Path, wheel: Path) -> None:
    """Everything that must hold of what is shipped; exits with a message if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        again, mask = Path(folder, "again"), os.umask(0o077)
        for one, other in zip((sdist, wheel), make(again), strict=True):
            if not filecmp.cmp(one, other, shallow=False):
                sys.exit(f"{one.name} has other bytes when it is built again")
        os.umask(mask)
        clone = Path(folder, "clone")
        run("git", "clone", "-q", ROOT, clone)
        if contents(build("wheel", clone, Path(folder, "tree"))) != contents(wheel):
            sys.exit("the wheel of the source distribution is not that of a checkout")
    held = set(contents(wheel))
    with tarfile.open(sdist) as archive:
        held |= {name.partition("/")[2] for name in archive.getnames()}
    if missing := [name for name in (*IN_WHEEL, *IN_SDIST) if name not in held]:
        sys.exit(f"missing: {', '.join(missing)}")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(sys.executable, "-m", "check_wheel_contents", wheel)


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dist", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct").strip())
    sdist, wheel = make(given.dist.resolve())
    if given.check:
        check(sdist, wheel)
    print(f"{sdist}\n{wheel}")


if __name__ == "__main__":
    main()
