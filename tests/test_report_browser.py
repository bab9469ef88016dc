"""Reports in a real browser: the numbers on the page are those of the files, by keyboard, safely, in any theme.

They need the extra [browser] and a Chromium: the one that ODM_TEST_BROWSER names, else chromium or chrome on PATH.
Every test also fails on a message in the console, a dialog, or a request that leaves the file.
"""

import csv
import json
import pathlib
import re

import numpy as np
import pytest
from browsers import NARROW, WIDE, chromium
from drawn import HOSTILE_CLASSES, HOSTILE_NAMES, make_data

import odm
from odm.cli import _app
from odm.evaluate import evaluate
from odm.issues import printable
from odm.report import ClassDelta, Picture, changes_of, compare_page, dataset_page, write
from odm.tables import Dataset

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def run(*words):
    return _app.run([str(word) for word in words])


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def visit(browser):
    """Opens a page in a given size and theme, and fails on whatever a page must not do."""
    wrong, contexts = [], []

    def opened(path, fragment="", *, size=WIDE, theme="light", locale="en-US"):
        context = browser.new_context(
            viewport=size, color_scheme=theme, reduced_motion="reduce", offline=True, locale=locale
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text))
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on(
            "request", lambda r: wrong.append(r.url) if not r.url.startswith(("file:", "data:")) else None
        )
        page.on("dialog", lambda d: (wrong.append(d.message), d.dismiss()))
        page.goto(f"file://{path}{fragment}")
        page.wait_for_selector("html[data-ready='1']")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_values_show_in_a_notebook_is_safe_whatever_the_names(tmp_path, visit, theme):
    data = make_data(tmp_path / "set", names=HOSTILE_NAMES, classes=HOSTILE_CLASSES)
    truth = odm.read(data / "gt.json", images=data / "photos")
    found = odm.read(data / "det.csv", images=data / "photos")
    run = {
        "<img src=x onerror=alert(1)>": found,
        "\u202e</script><script>alert(2)</script>": found.take(slice(9, None)),
    }
    lost = odm.convert(truth, tmp_path / "lost.csv", rename={HOSTILE_CLASSES[0]: "<script>alert(3)</script>"})
    e = odm.eval(truth, found, protocol="coco", analyze="all", confusion="counts")
    values = [
        truth,
        e,
        e.result,
        odm.compare(truth, run, replicates=5),
        odm.validate(truth, against=found),
        lost,
    ]
    values += [e.analysis.tide, e.analysis.confusion.table(), odm.diff(truth, truth.take(slice(3, None)))]
    shown = "".join(value._repr_html_() for value in values)
    (tmp_path / "n.html").write_text(f"<!doctype html><html data-ready='1'><meta charset='utf-8'>{shown}")
    page = visit(tmp_path / "n.html", theme=theme)
    assert page.locator(".odm-view").count() == len(values)
    assert page.locator("script, iframe, img, a, [onerror], [onclick], [onload]").count() == 0
    assert page.locator(".odm-view figure image").count() > 0
    for name in HOSTILE_CLASSES:
        assert page.get_by_role("cell", name=printable(name), exact=True).count() > 0, name


def test_a_page_works_in_the_frame_of_a_notebook(tmp_path, visit):
    data = make_data(tmp_path / "set", n=6)
    truth, found = (odm.read(data / name, images=data / "photos") for name in ("gt.json", "det.csv"))
    pages = [truth.show(columns=3), odm.eval(truth, found).report(), odm.compare(truth, {"a": found, "b": truth_like(found)}).report()]  # fmt: skip
    shown = "".join(page._repr_html_() for page in pages)
    (tmp_path / "n.html").write_text(f"<!doctype html><html data-ready='1'><meta charset='utf-8'>{shown}")
    page = visit(tmp_path / "n.html")
    for frame in page.frames[1:]:
        frame.wait_for_selector("html[data-ready]")
        assert frame.locator("html").get_attribute("data-ready") == "1"
        frame.locator("#barin a").last.click()
        assert frame.url == "about:srcdoc"
    assert len(page.frames) == 1 + len(pages)
    cards = page.frames[1].locator(".gal > li")
    tops = [cards.nth(i).bounding_box()["y"] for i in range(6)]
    assert tops == [tops[0]] * 3 + [tops[3]] * 3
    assert tops[3] > tops[0]


def truth_like(found):
    """Other detections of the same images."""
    return found.take(slice(3, None))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All kinds of pages of one dataset, made by the commands, and the JSON of the evaluation."""
    top = tmp_path_factory.mktemp("pages")
    data = make_data(top / "set", n=30)
    sides, photos = [data / "gt.json", data / "det.csv"], ["--images", data / "photos", "-q"]
    two = ["--protocol", "coco", "--protocol", "voc2012"]
    assert run("eval", *sides, *photos, *two, "--report", top / "eval.html", "--save", top / "save") == 0
    assert run("eval", *sides, *photos, "--report", top / "folder", "--report-images", 6) == 0
    tags = [f"photo{i:02d}.jpg,{('sun', 'rain', 'fog')[i % 3]}" for i in range(30)]
    (top / "tags.csv").write_text("\n".join(["image,weather", *tags]))
    asked = ["--analyze", "all", "--tags", top / "tags.csv", "--ci", "--replicates", 20, "--thresholds", "f1"]
    pages = ["--report", top / "analysed.html", "--save", top / "analysed"]
    assert run("eval", *sides, *photos, "--protocol", "coco", *asked, *pages) == 0
    assert (
        run(
            "eval",
            *sides,
            "-q",
            "--protocol",
            "corloc",
            "--images",
            data / "photos",
            "--report",
            top / "corloc.html",
        )
        == 0
    )
    assert run("show", data / "gt.json", *photos, "--out", top / "show.html") == 0
    assert run("show", data / "det.csv", *photos, "--out", top / "showdet.html") == 0
    assert run("stats", data / "gt.json", *photos, "--report", top / "stats.html") == 0
    contract = json.loads(sides[0].read_text())
    contract["annotations"][3]["bbox"] = [150, 20, 40, 20]
    contract["annotations"][7]["bbox"][2] = -5
    (top / "bad.json").write_text(json.dumps(contract))
    assert run("validate", top / "bad.json", *photos, "--report", top / "validate.html") in (0, 1)
    contract["annotations"][9]["category_id"] = contract["annotations"][9]["category_id"] % 4 + 1
    contract["annotations"][7]["bbox"][2] = 9
    del contract["annotations"][5]
    contract["images"][2]["file_name"] = "renamed.jpg"
    (top / "new.json").write_text(json.dumps(contract))
    versions = [sides[0], top / "new.json", *photos]
    assert run("diff", *versions, "--report", top / "diff.html") == 0
    assert run("agree", *versions, "--report", top / "agree.html") == 0
    gt, det = odm.read(sides[0]), odm.read(sides[1], images=data / "photos")
    first, other = (evaluate(gt, det, "coco", score_min=s).result.report_data() for s in (None, 0.4))
    rows = [ClassDelta("AP", 0.5, 0.6, 0.1, 0.02, 0.2), ClassDelta("circle", 0.5, 0.4, -0.1, -0.2, -0.05, 0.01, 12), ClassDelta("ring", 0.5, None, None)]  # fmt: skip
    pictures = {n: Picture(n, str(data / "photos" / n)) for n in first.images}
    page = compare_page(rows[:1], rows[1:], changes_of(first, other), pictures, names=("a", "b"), definition="coco: IoU 0.5")  # fmt: skip
    write(page, str(top / "compare.html"))
    lines = sides[1].read_text().splitlines(keepends=True)
    for name, part in (("half.csv", lines[1::2]), ("third.csv", lines[1::3])):
        (top / name).write_text("".join([lines[0], *part]))
    runs = [sides[1], top / "half.csv", top / "third.csv", "--replicates", 200, "--tags", top / "tags.csv"]
    assert run("compare", sides[0], *runs, *photos, "--protocol", "coco", "--report", top / "runs.html") == 0
    hostile = make_data(top / "hostile", names=HOSTILE_NAMES, classes=HOSTILE_CLASSES)
    words = [hostile / "gt.json", hostile / "det.csv", "--images", hostile / "photos", "-q"]
    assert (
        run(
            "eval",
            *words,
            "--report",
            top / "hostile.html",
            "--report-title",
            "</title><script>alert(9)</script>",
        )
        == 0
    )
    return top, json.loads((top / "save/results.json").read_text(encoding="utf-8"))


PAGES = ["eval.html", "analysed.html", "folder/index.html", "corloc.html", "show.html", "showdet.html", "stats.html", "validate.html", "compare.html", "runs.html", "diff.html", "agree.html"]  # fmt: skip


def rows(top, name="detections.csv", protocol="coco"):
    with (top / "save" / name).open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["protocol"] == protocol]


def number(page, key, within="#numbers"):
    value = page.locator(f'{within} [data-key="{key}"]').get_attribute("data-value")
    return None if value is None else float(value)


def show_all(page):
    while page.locator("#images .more .btn").is_visible():
        page.locator("#images .more .btn").click()


# ----------------------------------------------------------------------------------------------- languages

TEXTS = """() => [...document.querySelectorAll("body *:not(script):not(style)")]
  .filter((e) => e.checkVisibility() && e.lang !== "en")
  .flatMap((e) => [...e.childNodes, ...[...e.attributes].filter((a) => /label|title|placeholder/.test(a.name))])
  .filter((n) => n.nodeType !== 1).map((n) => n.nodeValue.trim()).filter(Boolean)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_chinese_browser_shows_the_page_in_chinese(visit, made, name):
    top, _ = made
    page = visit(top / name, locale="zh-TW")
    assert page.locator("html").get_attribute("lang") == "zh"
    # Names, definitions and messages are those of the data.
    known = page.evaluate("unpack(byId('data').textContent).then(JSON.stringify)")
    left = {text for text in page.evaluate(TEXTS) if re.search(r"(?<![-\w])[A-Za-z]{4,} [a-z]{2,}", text)}
    assert {text for text in left if json.dumps(text, ensure_ascii=False)[1:-1] not in known} == set()
    page.goto(f"file://{top / name}")
    page.goto(page.locator("footer [lang=en]").evaluate("a => a.href"))
    page.wait_for_selector("html[data-ready='1'][lang=en]")


# ------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("score", [0.0, 0.25, 0.29, 0.57, 1.0])
def test_counts_are_those_of_the_files(visit, made, score):
    top, contract = made
    page = visit(top / "eval.html", f"#s={score:.2f}")
    of_score = [row for row in rows(top) if float(row["score"]) >= score]
    tp = sum(row["outcome"] == "TP" for row in of_score)
    fp = sum(row["outcome"] == "FP" for row in of_score)
    gt = contract["results"][0]["overall"]["gt"]
    assert [number(page, key) for key in ("tp", "fp", "fn")] == [tp, fp, gt - tp]
    assert page.locator("#numbers b").first.get_attribute("data-score") == f"{score:.2f}"
    for reason in ("localisation", "class", "duplicate", "background", "both"):
        shown = page.locator(f'[data-reason="{reason}"]').get_attribute("data-value")
        assert float(shown) == sum(row["reason"] == reason for row in of_score)
    # The images that are shown, which are all of them, add up to the same.
    show_all(page)
    cards = [
        sum(int(text) for text in page.locator(f'.shot [data-key="{key}"] b').all_inner_texts())
        for key in ("tp", "fp", "fn")
    ]
    assert cards == [tp, fp, gt - tp]


@pytest.mark.parametrize("score", [0.3, 0.57])
def test_the_page_agrees_with_at_score(visit, made, score, tmp_path, capsys):
    top, _ = made
    sides = [top / "set/gt.json", top / "set/det.csv", "--images", top / "set/photos", "-q"]
    assert (
        run(
            "eval",
            *sides,
            "--protocol",
            "coco",
            "--at-score",
            score,
            "--output",
            "json",
            "--save",
            tmp_path / "s",
        )
        == 0
    )
    result = json.loads(capsys.readouterr().out)["results"][0]
    page = visit(top / "eval.html", f"#s={score}")
    for key in ("precision", "recall", "f1"):
        assert number(page, key) == pytest.approx(result["overall"][key], abs=1e-12)
    for row in result["classes"]:
        line = f'tr[data-class="{row["class"]}"]'
        for key in ("precision", "recall", "f1", "ap", "gt"):
            shown = number(page, key, line)
            assert shown == (None if row[key] is None else pytest.approx(row[key], abs=1e-12)), (
                row["class"],
                key,
            )
    with (tmp_path / "s/confusion.csv").open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    names = [row["class"] for row in result["classes"]]
    location = {**{name: i for i, name in enumerate(names)}, "": len(names)}
    expected = {f"{location[c['gt_class']]},{location[c['det_class']]}": int(c["count"]) for c in cells}
    shown = {
        b.get_attribute("data-cell"): int(b.get_attribute("data-value"))
        for b in page.locator(".conf button").all()
    }
    assert shown == expected


@pytest.mark.parametrize(("iou", "score"), [(0.5, 0.2), (0.75, 0.0), (0.9, 0.4)])
def test_the_page_agrees_with_iou(visit, made, iou, score, capsys):
    top, _ = made
    sides = [top / "set/gt.json", top / "set/det.csv", "--images", top / "set/photos", "-q"]
    asked = ["--protocol", "coco", "--iou", iou, "--at-score", score, "--output", "json"]
    assert run("eval", *sides, *asked) == 0
    result = json.loads(capsys.readouterr().out)["results"][0]
    page = visit(top / "eval.html", f"#s={score}")
    page.locator("#iou").fill(str(round((iou - 0.5) / 0.05)))
    page.wait_for_timeout(200)
    for key in ("precision", "recall", "f1"):
        assert number(page, key) == pytest.approx(result["overall"][key], abs=1e-12)
    for row in result["classes"]:
        line = f'#classes tr[data-class="{row["class"]}"]'
        assert number(page, "ap-at", line) == (
            None if row["ap"] is None else pytest.approx(row["ap"], abs=1e-12)
        )
        assert [number(page, key, line) for key in ("precision", "f1")] == [row["precision"], row["f1"]]
    assert page.locator("#iou + output").inner_text() == f"{iou:.2f}"
    show_all(page)
    cards = [
        sum(int(text) for text in page.locator(f'.shot [data-key="{key}"] b').all_inner_texts())
        for key in ("tp", "fp", "fn")
    ]
    assert cards == [number(page, key) for key in ("tp", "fp", "fn")]
    if iou != 0.5:
        page.wait_for_url(re.compile(f"i={iou:g}"))


def test_every_number_of_the_summary_is_there(visit, made):
    top, contract = made
    page = visit(top / "eval.html")
    for key, value in contract["results"][0]["summary"].items():
        assert number(page, key, ".hero") == value, key


def test_analyses_are_those_of_the_files(visit, made):
    result = json.loads((made[0] / "analysed/results.json").read_text(encoding="utf-8"))["results"][0]
    page, found = visit(made[0] / "analysed.html"), result["analysis"]
    for kind in ("Cls", "Loc", "Miss", "FalsePos"):
        assert number(page, kind, "#analysis-tide") == pytest.approx(found["tide"][kind]["dap"], abs=1e-6)
    assert f"D-ECE) {found['calibration']['dece']:.3f}" in page.locator("#analysis-calibration").inner_text()
    assert page.locator("#analysis-calibration .gap").count() == sum(one["n"] > 0 for one in found["calibration"]["bins"])  # fmt: skip
    ring = found["lrp"]["classes"][3]
    line = f'#analysis-lrp tr[data-class="{ring["class"]}"]'
    for key in ("olrp", "loc", "fp", "fn"):
        assert number(page, key, line) == pytest.approx(ring[key], abs=1e-6)
    chosen = found["thresholds"]["classes"]["circle"]
    circle = '#analysis-thresholds tr[data-class="circle"]'
    assert number(page, "score", circle) == pytest.approx(chosen["score"], abs=1e-6)
    assert page.locator("#curves .threshold").count() == len(found["thresholds"]["classes"])
    slices = page.locator("#analysis-slices").inner_text()
    rain = next(row for row in found["slices"] if row["value"] == "rain")
    assert re.search(
        rf"weather: rain\s+{rain['images']}\s+{rain['gt']}\s+{100 * rain['summary']['AP']:.1f}", slices
    )
    low, high = (100 * v for v in result["intervals"]["AP"])
    assert f"95 % interval {low:.1f} to {high:.1f} %" in page.locator(".hero").inner_text()
    page.locator('tr[data-class="circle"] button').first.click()
    page.wait_for_timeout(200)
    of_circle = found["tide"]["classes"][0]
    assert number(page, "Loc", "#analysis-tide") == pytest.approx(of_circle["Loc"], abs=1e-6)


@pytest.mark.parametrize("score", [0.0, 0.2, 0.6])
def test_a_cell_opens_exactly_its_boxes(visit, made, score):
    page = visit(made[0] / "eval.html", f"#s={score:.2f}")
    show_all(page)
    cells = [button.get_attribute("data-cell") for button in page.locator(".conf button").all()]
    none = max(int(n) for cell in cells for n in cell.split(","))
    chosen = [c for c in cells if c.split(",")[0] != c.split(",")[1]]
    assert any(c.endswith(f",{none}") for c in chosen)
    for cell in chosen[::3]:
        n = int(page.locator(f'[data-cell="{cell}"]').get_attribute("data-value"))
        page.locator(f'.conf [data-cell="{cell}"]').click()
        page.wait_for_timeout(150)
        show_all(page)
        row, column = (int(v) for v in cell.split(","))
        for side, counted in (("d", column != none), ("g", row != none)):
            assert page.locator(f'.shot .bb:not(.dim)[data-box^="{side}"]').count() == (
                n if counted else 0
            ), (cell, side)


def test_filters_and_tabs(visit, made):
    top, contract = made
    page = visit(top / "eval.html", "#s=0.20")
    page.locator('tr[data-class="circle"] button').click()
    page.wait_for_timeout(200)
    assert number(page, "tp") == number(page, "tp", 'tr[data-class="circle"]')
    page.locator('[data-kind="FN"]').click()
    page.wait_for_timeout(200)
    assert "circle" in page.locator("#clear").inner_text()
    page.wait_for_url(re.compile("c=0.*k=FN"))
    again = visit(page.url.removeprefix("file://"))
    assert again.locator("#clear").inner_text() == page.locator("#clear").inner_text()
    page.locator("#clear").click()
    page.wait_for_timeout(100)
    assert not page.locator("#clear").is_visible()
    page.locator(".tabs button").nth(1).click()
    assert number(page, "mAP", ".hero") == contract["results"][1]["summary"]["mAP"]


def test_the_first_screen_says_what_the_number_means(visit, made):
    top, contract = made
    overall = contract["results"][0]["overall"]
    page = visit(top / "eval.html")
    said = page.locator(".verdict").inner_text()
    found, right = (f"{100 * overall[key]:.0f} %" for key in ("recall", "precision"))
    assert said.startswith(f"Finds {found} of {overall['gt']} objects; {right} of its detections are right")
    enough = [row for row in contract["results"][0]["classes"] if row["gt"] >= 5 and row["ap"] is not None]
    assert f"The weakest class is {min(enough, key=lambda row: row['ap'])['class']}:" in said
    analysed = json.loads((top / "analysed/results.json").read_text(encoding="utf-8"))["results"][0]
    tide = analysed["analysis"]["tide"]
    most = max(("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss"), key=lambda kind: tide[kind]["dap"])
    said = visit(top / "analysed.html").locator(".verdict").inner_text()
    assert f"({100 * tide[most]['dap']:.1f} points)" in said
    page.locator(".mini .ex").first.focus()
    assert "IoU 0.50" in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()


def test_curves_are_walked_with_arrows(visit, made):
    page = visit(made[0] / "eval.html")
    page.locator("#curves [role=group]").focus()
    told = page.locator("#curves [role=status]")
    page.keyboard.press("ArrowDown")
    assert told.inner_text().startswith("circle · AP ")
    page.keyboard.press("ArrowDown")
    assert told.inner_text().startswith("square · AP ")
    assert page.locator(".of-class.at").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert "square" in page.locator("#clear").inner_text()


def test_card_counts_follow_the_class(visit, made):
    page = visit(made[0] / "eval.html", "#s=0.20&c=1")
    show_all(page)
    for key in ("tp", "fp", "fn"):
        cards = page.locator(f'.shot [data-key="{key}"] b').all_inner_texts()
        assert sum(map(int, cards)) == number(page, key), key
    assert page.locator(".shot .lab.FP").first.inner_text().split(" ")[0] == "square"


def test_tags_filter_the_images(visit, made):
    page = visit(made[0] / "analysed.html")
    page.get_by_role("button", name="weather: rain").click()
    page.wait_for_timeout(200)
    show_all(page)
    names = [shot.get_attribute("data-image") for shot in page.locator(".shot").all()]
    assert sorted(names) == [f"photo{i:02d}.jpg" for i in range(1, 30, 3)]
    told = re.findall(r" · (?:False|Missed|Found) (\d+)", page.locator("#shown").inner_text())
    keys = ("fp", "fn", "tp")
    cards = [page.locator(f'.shot [data-key="{key}"] b').all_inner_texts() for key in keys]
    assert [int(n) for n in told] == [sum(map(int, own)) for own in cards]
    assert [int(n) for n in told] != [number(page, key) for key in keys]
    assert "remain those of all images" in page.locator("#aside").inner_text()
    page.wait_for_url(re.compile("t=weather"))
    again = visit(page.url.removeprefix("file://"))
    assert again.get_by_label("Tag").input_value() == "weather=rain"
    assert "weather: rain" in again.locator("#clear").inner_text()


def test_a_selection_is_taken_along(visit, made, tmp_path):
    top, _ = made
    page = visit(top / "eval.html", "#s=0.20&c=0&k=FN")
    show_all(page)
    names = [shot.get_attribute("data-image") for shot in page.locator(".shot").all()]
    with page.expect_download() as list_file:
        page.locator("[data-take=list]").click()
    list_file.value.save_as(tmp_path / "images.txt")
    assert (tmp_path / "images.txt").read_text().split() == names
    with page.expect_download() as table:
        page.locator("[data-take=csv]").click()
    table.value.save_as(tmp_path / "boxes.csv")
    with (tmp_path / "boxes.csv").open(newline="", encoding="utf-8") as file:
        boxes = list(csv.DictReader(file))
    assert {(box["outcome"], box["class"]) for box in boxes} == {("FN", "circle")}
    assert len(boxes) == number(page, "fn")
    assert {box["image"] for box in boxes} == set(names)
    page.locator("[data-take=copy]").click()
    page.get_by_text(f"{len(names)} names copied").wait_for()
    sides = [top / "set/gt.json", top / "set/det.csv", "--images", top / "set/photos", "-q"]
    assert run("eval", *sides, "--only-images", f"@{tmp_path / 'images.txt'}") == 0


def test_labels_to_review_are_seen_and_taken_along(visit, made, tmp_path):
    top, _ = made
    page = visit(top / "eval.html")
    review = page.locator("#review")
    sides = [top / "set/gt.json", top / "set/det.csv", "--images", top / "set/photos", "-q"]
    assert run("eval", *sides, "--protocol", "coco", "--save", tmp_path / "out") == 0
    with (tmp_path / "out/suspects.csv").open(newline="", encoding="utf-8") as file:
        suspects = list(csv.DictReader(file))
    while (more := review.locator("[data-review-take=more]")).count():
        more.click()
    cards = review.locator(".suspect")
    assert [c.get_attribute("data-review") for c in cards.all()] == [row["kind"] for row in suspects]
    assert "{" not in review.inner_text()
    with page.expect_download() as names:
        review.locator("[data-review-take=list]").click()
    names.value.save_as(tmp_path / "review.txt")
    assert (tmp_path / "review.txt").read_text() == (tmp_path / "out/review.txt").read_text()
    review.locator("[data-review-take=copy]").click()
    review.get_by_text(re.compile("names? copied")).wait_for()
    cards.first.click()
    assert page.locator("#viewer h2").inner_text() == suspects[0]["image"]


def test_a_legend_of_classes_filters(visit, made):
    page = visit(made[0] / "show.html")
    chip = page.locator(".legend .chip").first
    stroke = chip.locator("path").nth(1).evaluate("e => getComputedStyle(e).stroke")
    drawn = page.evaluate(
        "[...new Set([...document.querySelectorAll('.shot rect.b:not(.halo)')].map(e => getComputedStyle(e).stroke))]"
    )
    assert stroke in drawn
    assert len(drawn) == 4
    chip.click()
    page.wait_for_timeout(200)
    assert chip.get_attribute("aria-pressed") == "true"
    show_all(page)
    assert page.locator(".shot .bb:not(.dim)").count() == int(chip.locator("b").inner_text())


def make_many_classes(folder, n=150):
    """A class per object; class k is found at score k / n, but class 7 is taken for class 100, 120 and 140."""
    folder.mkdir()
    found = [*((k, k) for k in range(n) if k != 7), *((7, other) for other in (100, 120, 140))]
    rows = [
        {"id": i + 1, "image_id": k // 15 + 1, "category_id": c + 1, "bbox": [10 * (k % 15), 10, 8, 8]}
        for i, (k, c) in enumerate([*((k, k) for k in range(n)), *found])
    ]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 150, "height": 30} for i in range(1, n // 15 + 1)]
    categories = [{"id": k + 1, "name": f"class {k}"} for k in range(n)]
    contract = {"images": images, "annotations": rows[:n], "categories": categories}
    (folder / "gt.json").write_text(json.dumps(contract))
    results = [{**row, "score": row["category_id"] / n} for row in rows[n:]]
    (folder / "det.json").write_text(json.dumps(results))
    return folder


def test_one_of_many_classes(visit, tmp_path):
    data = make_many_classes(tmp_path / "many")
    assert run("eval", data / "gt.json", data / "det.json", "-q", "--report", tmp_path / "many.html") == 0
    page = visit(tmp_path / "many.html", "#s=0.1")
    table = page.locator("#classes tbody tr")
    assert table.count() == 15
    search = page.get_by_label("Class name contains")
    search.fill("CLASS 14")
    assert table.count() == 11
    assert page.locator("#classes [role=status]").inner_text() == "11 of 150 classes"
    search.fill("class 7x")
    assert page.get_by_text("No class has this name.").is_visible()
    search.fill("class 7")
    page.get_by_role("button", name="class 7", exact=True).click()
    page.wait_for_timeout(200)
    # The matrix and the confusions are those of the class.
    (confused,) = page.locator(".pairs .chip").all_inner_texts()
    assert re.fullmatch("class 7 taken for class 1[024]0 1", confused)
    assert {"class 7", confused[18:27]} < set(page.locator(".conf tbody th").all_inner_texts())
    # A long table follows the slider when it rests.
    page.locator("#clear").click()
    search.fill("")
    page.get_by_role("button", name="Show all 150 classes").click()
    assert table.count() == 150
    page.locator("#score").fill("61")
    found = '#classes tr[data-class="class 80"] [data-key="tp"]'
    page.wait_for_selector(f'{found}[data-score="0.60"]')
    assert number(page, "tp", '#classes tr[data-class="class 80"]') == 0
    assert number(page, "tp", '#classes tr[data-class="class 100"]') == 1


def test_without_curves(visit, made):
    page = visit(made[0] / "corloc.html")
    assert page.locator("#curves h3").all_inner_texts() == [
        "Precision, recall, F1 over score",
        "Detections by score",
    ]
    assert page.locator(".hero").inner_text().startswith("CorLoc")


# ------------------------------------------------------------------------------------ keyboard and safety


def test_by_keyboard_alone(visit, made):
    page = visit(made[0] / "eval.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator(".shot").nth(2).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    first = page.locator("#viewer-name").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#viewer-name").inner_text() != first
    page.keyboard.press("k")
    assert page.locator("#viewer-name").inner_text() == first
    page.keyboard.press("4")
    assert page.locator("dialog [data-toggle=GT]").get_attribute("aria-pressed") == "true"
    before = page.locator(".stage .in").get_attribute("style")
    page.keyboard.press("+")
    assert page.locator(".stage .in").get_attribute("style") != before
    page.keyboard.press("0")
    page.locator(".bx").first.focus()
    assert page.locator(".bx.hot").count() == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.wait_for_timeout(100)
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.dataset.image") == first
    page.get_by_role("link", name="Errors").press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "What went wrong"
    # The matrix is a single stop; arrow keys reach all its cells.
    cells = [cell.get_attribute("data-cell") for cell in page.locator("[data-cell]").all()]
    assert page.locator('[data-cell][tabindex="0"]').count() == 1
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    reached = [page.evaluate("document.activeElement.dataset.cell")]
    for _ in cells[1:]:
        page.keyboard.press("ArrowRight")
        reached.append(page.evaluate("document.activeElement.dataset.cell"))
    assert reached == cells
    page.keyboard.press("ArrowUp")
    row, column = map(int, page.evaluate("document.activeElement.dataset.cell").split(","))
    assert row < int(cells[-1].split(",")[0])
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement.dataset.cell") == f"{row},{column}"
    assert page.locator('[data-cell][tabindex="0"]').get_attribute("aria-pressed") == "true"
    page.locator("#score").focus()
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    assert page.locator("#score + output").inner_text() == "1.00"


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_hostile_names_stay_text(visit, made, width):
    page = visit(made[0] / "hostile.html", size={"width": width, "height": 800})
    page.locator(".shot").first.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("img[src=x], svg[onload], main script").count() == 0
    assert "\u202e" not in page.locator("body").inner_text()
    # The last column of the matrix is inside its card, or can be scrolled to.
    assert page.evaluate("""() => { const s = document.querySelector('.matrix .scroll');
        const t = s.querySelector('table'); return s.scrollWidth >= t.offsetWidth; }""")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("theme", "size"),
    [(theme, size) for theme in ("light", "dark") for size in (WIDE, NARROW)],
    ids=["light-1280", "light-390", "dark-1280", "dark-390"],
)
def test_pages_are_accessible(visit, made, name, theme, size):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed (extra [browser])"
    )
    page = visit(made[0] / name, theme=theme, size=size)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    for state in ("page", "dialog"):
        if state == "dialog":
            page.locator(".shot").first.click()
            page.wait_for_timeout(150)
        found = axe.Axe().run(page).response["violations"]
        explicit = [
            f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0]['failureSummary'][:300]}" for v in found
        ]
        assert explicit == [], state


@pytest.mark.parametrize("name", PAGES)
def test_the_images_are_drawn(visit, made, name):
    page = visit(made[0] / name)
    broken = """Promise.all([...document.images].map(i => { i.loading = 'eager';
        return i.decode().then(() => i.naturalWidth, () => 0); })).then(w => w.filter(v => !v).length)"""
    assert page.locator(".shot img").count() >= 6
    assert page.evaluate(broken) == 0
    assert page.locator(".shot[data-image]").count() == page.locator(".shot").count()


def test_it_prints(visit, made):
    page = visit(made[0] / "eval.html", theme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".tools").is_visible()
    assert page.locator(".conf").is_visible()
    assert len(page.pdf()) > 10_000


# --------------------------------------------------------------------------------------- the other pages


def test_the_gallery_counts_boxes(visit, made):
    top, _ = made
    page = visit(top / "show.html")
    n = sum(int(text) for text in page.locator('tr[data-class] [data-key="boxes"]').all_inner_texts())
    assert n == len(odm.read(top / "set/gt.json"))
    page.locator('tr[data-class="ring"] button').click()
    page.wait_for_timeout(200)
    assert page.locator(".shot .bb:not(.dim)").count() >= 1
    detections = visit(top / "showdet.html", "#s=0.50")
    scores = odm.read(top / "set/det.csv", images=top / "set/photos").boxes.score
    show_all(detections)
    shown = sum(int(text) for text in detections.locator('.shot [data-key="boxes"] b').all_inner_texts())
    assert shown == (scores >= 0.5).sum()


def test_statistics(visit, made):
    top, _ = made
    page = visit(top / "stats.html")
    assert number(page, "boxes", ".tiles") == len(odm.read(top / "set/gt.json"))
    assert page.locator("#sizes svg").count() == 4


def test_problems_are_on_their_pictures(visit, made):
    page = visit(made[0] / "validate.html")
    assert page.locator(".shot rect.b.FP").count() >= 1
    page.locator('[data-code="outside-image"] button').click()
    page.wait_for_timeout(200)
    assert page.locator(".shot").count() == 1
    page.locator(".shot").click()
    assert "outside-image" in page.locator(".side").inner_text()


def test_nothing_wrong_has_no_places(visit, tmp_path):
    gt = make_many_classes(tmp_path / "many", n=15) / "gt.json"
    assert run("validate", gt, "-q", "--report", tmp_path / "right.html") == 0
    page = visit(tmp_path / "right.html")
    assert page.get_by_text("No issues to show.").is_visible()
    assert not page.locator("#places .places").is_visible()


def test_places_beyond_the_listed_are_counted(visit, tmp_path):
    gt = make_many_classes(tmp_path / "many", n=300) / "gt.json"
    contract = json.loads(gt.read_text())
    for row in contract["annotations"]:
        row["bbox"][2] = -1
    gt.write_text(json.dumps(contract))
    assert run("validate", gt, "-q", "--report", tmp_path / "wrong.html") == 1
    page = visit(tmp_path / "wrong.html")
    while page.locator("#places .more .btn").is_visible():
        page.locator("#places .more .btn").click()
    n = page.locator("#places li").count()
    assert n < 300
    assert page.get_by_text(f"{n} of 300 are listed here; all are counted.").is_visible()


def test_a_comparison_shows_both_runs(visit, made):
    page = visit(made[0] / "compare.html")
    assert page.locator(".shot").first.locator(".pane").count() == 2
    broken = int(page.locator('[data-key="broken"]').get_attribute("data-value"))
    page.get_by_label("Change", exact=True).select_option("broken")
    page.wait_for_timeout(200)
    assert page.locator('[data-change="broken"]').count() == page.locator(".shot").count() == broken
    page.get_by_label("Change", exact=True).select_option("")
    page.wait_for_timeout(200)
    page.locator(".shot").first.click()
    assert page.locator(".stage").count() == 2
    assert re.search("a · ", page.locator(".side").inner_text())


def test_each_of_more_runs_is_shown_beside_the_first(visit, made):
    page = visit(made[0] / "runs.html")
    assert page.locator("#metrics tbody tr").count() == 12
    first = number(page, "AP", "#metrics")
    assert number(page, "AP", ".hero") == first
    assert (
        page.locator("#curves path.run.first").count() == page.locator("#curves path.run.other").count() == 3
    )
    page.locator(".tabs button").nth(1).click()
    assert number(page, "AP", "#metrics") < first
    assert page.locator(".verdict").inner_text().startswith("third.csv is worse than det.csv")
    assert page.locator("#slices tbody tr").count() == 3
    # What an image lost is what its panes show as missed.
    lines = page.locator("#changes tbody tr").all()
    line = next(line for line in lines if line.locator("td").nth(1).inner_text())
    name, lost = line.locator("th").inner_text(), line.locator("td").nth(1).inner_text()
    line.locator("button").click()
    assert page.locator("#viewer-name").inner_text() == name
    missed = page.locator('.side .bx[data-box^="1-"]').filter(has_text="missed").all_inner_texts()
    assert {text.split("\n")[0] for text in missed} >= {part.split(" × ")[0] for part in lost.split(", ")}


def test_boxes_name_the_file_and_line_or_pointer(visit, tmp_path):
    street = pathlib.Path(__file__).parents[1] / "fixtures" / "street"
    sides = ("truth.json", "detections.json"), ("data.yaml", "predictions")
    for number, (names, pattern) in enumerate(
        zip(
            sides,
            (r"(truth.json /annotations|detections.json )/\d+$", r"[a-z-]+\.txt, line \d+$"),
            strict=True,
        )
    ):
        target = tmp_path / f"{number}.html"
        assert run("eval", *(str(street / name) for name in names), "--report", str(target)) == 0
        page = visit(target)
        page.locator(".shot").first.click()
        page.wait_for_selector("dialog[open] .bx")
        texts = page.locator("dialog .bx small").all_inner_texts()
        assert texts
        assert all(re.search(pattern, text) for text in texts), texts


def test_the_head_of_the_class_table_is_one_line_on_a_narrow_screen(visit, made):
    page = visit(made[0] / "eval.html", size=NARROW)
    row = page.locator("#classes thead tr").first
    tops = row.locator("th").evaluate_all(
        "all => all.filter(e => e.offsetParent).map(e => Math.round(e.getBoundingClientRect().top))"
    )
    assert len(tops) > 4
    assert len(set(tops)) == 1
    assert row.evaluate("e => e.clientWidth") <= NARROW["width"]


def test_the_page_of_two_versions_filters_by_change(visit, made):
    page = visit(made[0] / "diff.html")
    counts = {
        kind: page.locator(f'[data-key="{kind}"]').first.inner_text() for kind in ("removed", "relabelled")
    }
    assert counts == {"removed": "1", "relabelled": "1"}
    page.select_option('select[aria-label="Change"]', "relabelled")
    page.wait_for_timeout(200)
    assert page.locator(".shot").count() == 1
    assert "→" in page.locator(".shot").first.inner_text()
    page.locator(".shot").click()
    page.wait_for_selector("dialog[open] .bx")
    assert "was" in page.locator("dialog .bx small").first.inner_text()


def shaped(**shapes):
    """A gallery of boxes with shapes, on an image without a picture."""
    n = 2
    common = {"images": ["a"], "categories": ["x"], "width": [60], "height": [40], "image": [0] * n}
    dataset = Dataset.from_arrays(
        **common, category=[0] * n, xyxy=[[2, 3, 20, 21], [30, 5, 50, 25]], **shapes
    )
    return dataset_page(dataset, [Picture("a", "", 60, 40)])


PAINTED = """() => [...document.querySelectorAll('.shot .mask')].map(path => {
  const canvas = document.createElement('canvas'); canvas.width = 60; canvas.height = 40;
  const pen = canvas.getContext('2d'); pen.fill(new Path2D(path.getAttribute('d')));
  const data = pen.getImageData(0, 0, 60, 40).data;
  return Array.from({length: 2400}, (_, i) => data[4 * i + 3] > 127 ? 1 : 0);
})"""


def test_shapes_are_drawn_in_place_of_boxes(visit, tmp_path):
    rng = np.random.default_rng(3)
    masks = [rng.random((40, 60)) < part for part in (0.4, 0.9)]
    masks[1][:, 30:35] = True  # whole columns
    write(shaped(masks=masks), str(tmp_path / "masks.html"))
    page = visit(tmp_path / "masks.html")
    assert page.evaluate(PAINTED) == [mask.astype(int).ravel().tolist() for mask in masks]
    assert page.locator(".shot rect.b").count() == 0
    page.locator(".shot").click()
    page.keyboard.press("6")
    assert page.locator(".stage rect.b:not(.halo)").count() == page.locator(".stage .mask").count() == 2
    page.keyboard.press("5")
    assert page.locator(".stage .mask").count() == 0

    rings = [[[2, 3, 20, 3.5, 11, 21]], [[30, 5, 40, 5, 40, 25], [45.2, 10, 50, 10, 50, 20]]]
    write(shaped(polygons=rings), str(tmp_path / "rings.html"))
    page = visit(tmp_path / "rings.html")
    edges = "e => { const b = e.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; }"
    found = [path.evaluate(edges) for path in page.locator(".shot path.b:not(.halo)").all()]
    assert found == [pytest.approx(box, abs=0.06) for box in ([2, 3, 20, 21], [30, 5, 50, 25])]

    points = [[[3, 4, 2], [10, 10, 1], [0, 0, 0]], []]
    write(shaped(keypoints=points), str(tmp_path / "points.html"))
    page = visit(tmp_path / "points.html")
    assert page.locator(".shot .joint.all").get_attribute("d") == "M3 4h0M10 10h0"
    assert page.locator(".shot .joint.hidden").get_attribute("d") == "M10 10h0"
    assert page.locator(".shot rect.b:not(.halo)").count() == 1


ROOT = pathlib.Path(__file__).parents[1]
STREET = "fixtures/street"
TWO_SIDES = {
    "compare": [f"{STREET}/earlier.json", f"{STREET}/detections.json", "--iou-type", "segm", "--protocol", "coco", "--replicates", "2"],
    "diff": [],
    "agree": [],
}  # fmt: skip


@pytest.mark.parametrize("command", TWO_SIDES)
def test_pages_of_two_sides_draw_shapes_too(visit, tmp_path, command):
    contract = json.loads((ROOT / STREET / "truth.json").read_text())
    person = next(row for row in contract["annotations"] if "keypoints" in row)
    bus = next(row for row in contract["annotations"] if row["category_id"] == 5)
    bus["segmentation"][0][0] += 9
    person["bbox"][0] -= 3
    bus["bbox"][0] -= 3
    (tmp_path / "new.json").write_text(json.dumps(contract))
    sides = [ROOT / word if "/" in word else word for word in TWO_SIDES[command]] or [tmp_path / "new.json"]
    assert run(command, ROOT / STREET / "truth.json", *sides, "-q", "--report", tmp_path / "p.html") == 0
    page = visit(tmp_path / "p.html")
    outlines = page.locator(".shot path.b:not(.halo)")
    assert outlines.count() > 20
    assert page.locator(".shot rect.b").count() == 0
    assert (page.locator(".shot .joint.all").count() > 0) == (command != "compare")
    if command == "diff":  # the new outline, and dotted where the old one was
        page.select_option('select[aria-label="Change"]', "shape")
        page.wait_for_timeout(200)
        assert page.locator(".shot path.FN:not(.halo)").count() == 1
        old, new = (page.locator(f".shot path.{kind}.b").first.get_attribute("d") for kind in ("GT", "FN"))
        assert old.split("L")[1:-1] == new.split("L")[1:-1]
        assert old != new
        # What moved and has another shape is one box.
        assert page.locator('tr[data-class="bus"] [data-key="changed"]').inner_text() == "1"
    page.locator(".shot").first.click()
    key = page.locator("dialog kbd", has_text=re.compile("[67]")).last.inner_text()
    page.keyboard.press(key)
    assert page.locator(".stage rect.b").count() > 0
