"""What a package index and a citation are told; the distributions themselves are checked by .ci/build.py."""

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

import odm

ROOT = Path(__file__).resolve().parent.parent
checkout = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="only in a checkout")


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_package_is_typed():
    assert files("odm").joinpath("py.typed").is_file()


@checkout
def test_the_metadata_name_licence_and_versions():
    said = project()
    assert said["license"] == "MIT"
    assert all((ROOT / name).is_file() for name in said["license-files"])
    named = {
        c.rpartition(" ")[2]
        for c in said["classifiers"]
        if c.startswith("Programming Language :: Python :: 3.")
    }
    assert named == {"3.11", "3.12", "3.13", "3.14", "3.15"}
    assert said["requires-python"] == f">={min(named)}"
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"for version in ${{1:-{' '.join(sorted(named))}}}; do" in ci, (
        "every version that is named is tried"
    )
    assert "Typing :: Typed" in said["classifiers"]
    assert not [c for c in said["classifiers"] if c.startswith("License ::")], "the expression says it"


@checkout
def test_the_citation_is_of_this_version():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert said["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license"} <= said.keys()
    assert said["version"] == odm.VERSION
    assert said["license"] == project()["license"]
