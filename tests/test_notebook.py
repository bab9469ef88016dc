"""The notebook of the documentation runs from its first cell to its last, and every value in it shows itself."""

import json
import os
from pathlib import Path

import pytest

import odm

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"

pytestmark = [
    pytest.mark.skipif(not NOTEBOOK.exists(), reason="only in a checkout"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"
    ),
]


def test_the_notebook_is_stored_without_what_it_shows():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    for name in ("pandas", "matplotlib", "ipykernel"):
        pytest.importorskip(name)
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    folder = str(tmp_path_factory.mktemp("notebook"))
    above = str(Path(odm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([above, os.environ.get("PYTHONPATH", "")])}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
    return client.execute(env=environment)


def test_every_cell_runs_and_shows_something(executed):
    shown = {cell["id"]: cell["outputs"] for cell in executed.cells if cell.cell_type == "code"}
    kinds = [{key for out in outputs for key in out.get("data", ())} for outputs in shown.values()]
    assert sum("text/html" in own for own in kinds) >= 15
    assert sum("image/png" in own for own in kinds) == 1
    assert not any(out["output_type"] in ("error", "stream") and out.get("name") == "stderr" for o in shown.values() for out in o)  # fmt: skip
    text = json.dumps(executed)
    for said in ("0.6682", "0.7891", "differs", "Nothing is wrong", "expected left", "cone", "iframe srcdoc"):
        assert said in text, said


def test_it_becomes_a_page(executed):
    nbconvert = pytest.importorskip("nbconvert")
    page, _ = nbconvert.HTMLExporter(theme="dark").from_notebook_node(executed)
    assert page.count("odm-view") > 8
    if keep := os.environ.get("ODM_NOTEBOOK_PAGE"):  # to look at it
        for theme in ("light", "dark"):
            made, _ = nbconvert.HTMLExporter(theme=theme).from_notebook_node(executed)
            Path(keep, f"notebook-{theme}.html").write_text(made, encoding="utf-8")
