"""The pages say what the program does: generated parts are up to date, links lead somewhere."""

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selection import of_each

import odm
from odm.evaluate import PROTOCOLS, evaluate
from odm.evaluate.matching.matches import REASONS
from odm.formats import FORMATS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", list(generator().PARTS))
def test_generated_parts_are_up_to_date(file):
    assert (ROOT / file).read_text(encoding="utf-8") == generator().rewritten(file), (
        "run: python docs/generate.py"
    )


def test_every_page_is_in_the_navigation_of_the_site():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    made = {page for page in listed if page.startswith("reference/") or page.endswith("index.md")}
    assert set(listed) - made == pages


def test_the_python_reference_has_every_public_name(monkeypatch):
    """Each module of the guarantees has a page in the menu, on which each of its names has a heading."""
    for name in ("config.defaults", "structure.files", "structure.pages"):
        module = types.SimpleNamespace(MkDocsConfig=None, File=None, Files=None, Page=None)
        monkeypatch.setitem(sys.modules, f"mkdocs.{name}", module)
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / "docs" / "pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(odm.__all__) <= set(pages.PUBLIC["odm"]) | {"__version__"}
    assert set(pages.PUBLIC) <= pages.REFERENCE.keys()
    for module in pages.REFERENCE:
        assert f" {module}: reference/{module}.md\n" in menu
        headings = re.findall(r"(?:heading: |^## )(\S+)", pages.reference(module), re.MULTILINE)
        names = pages.PUBLIC.get(module, ())
        missing = {f"{module}.{n}" for n in names if not n.startswith("_")} - {*headings, *pages.REFERENCE}
        assert not missing


def test_the_signs_of_formats_are_up_to_date():
    text = (ROOT / "formats" / "_signs.py").read_text(encoding="utf-8")
    assert text == generator().signs(), "run: python docs/generate.py"


def test_drawings_are_up_to_date():
    for file, text in generator().drawings().items():
        assert (ROOT / file).read_text(encoding="utf-8") == text, f"{file}: run python docs/generate.py"


def test_the_chinese_page_about_metrics_follows_the_english_one():
    """The same sections, drawings, commands and parts in the same order, and the same options and numbers."""

    def frame(page):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        text = re.sub(r"## 术语\n.*?(?=\n## )", "", text, flags=re.DOTALL)  # the glossary has no counterpart
        text = text.replace("../", "").replace("/zh/", "/")
        order = re.findall(r"^#+(?= )|^!\[|\]\([^)#]*svg\)|^odm .*|^<!-- \S+", text, re.MULTILINE)
        return order, set(re.findall(r"(?<=`)--?[^`\n]+(?=`)|\b\d\.\d+\b", text))

    english, chinese = frame("metrics-explained.md"), frame("zh/metrics-explained.md")
    assert chinese[0] == english[0]
    assert chinese[1] == english[1]


def test_the_readme_has_the_same_commands_in_chinese():
    def commands(page):
        blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        return [line.partition("  #")[0].strip() for line in "".join(blocks).splitlines() if "odm " in line]

    english = [line for line in commands("README.md") if "venv-test" not in line]
    assert commands("README.zh-CN.md") == english


def test_no_word_of_the_drawings_is_left_in_english():
    module = generator().drawing_module()
    for name, draw in module.DRAWINGS.items():
        for text in re.findall(r">([^<>\n]*[a-z]{3}[^<>\n]*)</t", draw().svg()):
            assert module.chinese(text) != text, f"{name}: {text} is not in docs/zh/words.json"


def links_of(page):
    """The paths of files that a page leads to, with the headings in them."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target]


def anchors_of(page):
    """The names by which the headings of a page are linked, on GitHub and on the site."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    plain = [re.sub(r"\]\([^)]*\)|[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"\s+", "-", heading) for heading in plain} | set(re.findall(r'id="([^"]+)"', text))


@of_each([(page, target) for page in PAGES for target in links_of(page)])
def test_links_lead_somewhere(page, target):
    file, _, anchor = target.partition("#")
    there = page.parent / file if file else page
    assert there.exists()
    if anchor and there.suffix == ".md":
        assert anchor in anchors_of(there)


def test_what_the_page_about_metrics_says_of_single_detections():
    folder = ROOT / "fixtures" / "illustrated"
    truth, found = (odm.read(str(folder / side)) for side in ("groundtruths", "detections"))

    def row(rank, **rules):
        result = evaluate(truth, found, **rules).result
        table = result.detections
        at = result.curve_table.row[rank - 1]
        return REASONS[table.reason[at]] if table.reason[at] >= 0 else "", table.best_iou[at]

    assert [row(rank, iou=0.3)[0] for rank in (1, 17, 18, 20)] == ["", *["duplicate"] * 3]
    assert row(14, iou=0.3) == ("", pytest.approx(0.306, abs=5e-4))
    assert row(14, iou=0.3, pixels="edges")[1] < 0.3
    assert row(12, iou=0.5)[0] == "localisation"
    assert row(18, iou=0.5)[0] == ""


STREET = ROOT / "fixtures" / "street"


@pytest.mark.slow
def test_the_example_with_pictures_is_what_is_drawn(tmp_path):
    program = [sys.executable, str(ROOT / "docs" / "street"), "--out", str(tmp_path)]
    subprocess.run(program, check=True, capture_output=True)
    there, drawn = (
        {p.relative_to(d): p for d in [top] for p in top.rglob("*.*")} for top in (STREET, tmp_path)
    )
    assert there.keys() == drawn.keys()
    for name in there:
        if name.suffix == ".jpg":  # other versions of a JPEG library round otherwise
            pixels = [np.asarray(Image.open(side[name]), float) for side in (there, drawn)]
            assert np.abs(pixels[0] - pixels[1]).mean() < 1, name
        else:
            assert there[name].read_bytes() == drawn[name].read_bytes(), f"{name}: run python docs/street"


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints", "obb"])
def test_every_shape_of_the_example_with_pictures_is_evaluated(iou_type):
    result = odm.eval(STREET / "truth.json", STREET / "detections.json", protocol="coco", iou_type=iou_type)
    assert 0.4 < result.summary["AP"] < 0.8


def test_the_example_with_pictures_has_every_kind_of_mistake():
    truth = odm.read(STREET / "truth.json")
    found, earlier = (
        odm.read(STREET / f"{run}.json", gt=STREET / "truth.json") for run in ("detections", "earlier")
    )
    assert odm.validate(STREET / "truth.json", images=STREET / "images") == []
    result = evaluate(truth, found, "coco").result
    table = result.detections
    kinds = {REASONS[reason] for reason in table.reason[table.score > 0.25].tolist() if reason >= 0}
    assert {"duplicate", "localisation", "class", "background"} <= kinds
    assert result.overall.fn > 0
    assert evaluate(truth, earlier, "coco").result.summary["AP"] < result.summary["AP"] - 0.2
    labels, boxes = odm.read(STREET / "labels"), odm.read(STREET / "predictions", gt=STREET / "labels")
    same = evaluate(labels, boxes, "coco").result
    assert same.summary["AP"] == pytest.approx(result.summary["AP"], abs=1e-3)


def test_every_reason_of_a_false_positive_is_explained():
    text = (ROOT / "docs" / "reading-results.md").read_text(encoding="utf-8")
    for reason in REASONS:
        assert re.search(rf"^\| `{reason}` \| \w", text.split("`reason`")[2], re.MULTILINE), reason


def test_every_protocol_has_its_keys_in_the_contract():
    text = (ROOT / "docs" / "reading-results.md").read_text(encoding="utf-8")
    table = text.split("keys of `summary`")[1]
    for name in PROTOCOLS:
        assert f"`{name}`" in table


@pytest.mark.parametrize("page", ["training.md", "python.md"])
def test_the_examples_of_the_pages_about_python_run(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- run -->\n)?```python\n(.*?)```", text, re.DOTALL)
    assert sum(bool(run) for run, _ in blocks) >= 3
    names = {}
    for run, code in blocks:
        compiled = compile(code, page, "exec")
        if run:
            exec(compiled, names)


def modules_with_examples():
    """The modules whose docstrings have examples."""
    package = Path(odm.__file__).parent
    files = [f for f in sorted(package.rglob("*.py")) if ">>> " in f.read_text(encoding="utf-8")]
    names = [".".join(("odm", *f.relative_to(package).with_suffix("").parts)) for f in files]
    return [name.removesuffix(".__init__") for name in names]


@of_each(modules_with_examples)
def test_the_examples_of_docstrings_print_what_they_say(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed, name


def test_the_page_of_formats_says_of_each_what_was_tried():
    """The column is made from fixtures, each of which is a test; a format without any would have a dash."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    cells = [line.split("|")[3].strip() for line in page.splitlines() if line.startswith("| [`")]
    assert len(cells) == len(FORMATS)
    assert "-" not in cells
