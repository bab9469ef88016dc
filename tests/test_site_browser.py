"""The documentation site in a real browser, opened as files: ODM_SITE is the folder that it was built into."""

import os
from pathlib import Path

import pytest
from browsers import NARROW, WIDE, chromium

SITE = os.environ.get("ODM_SITE")
if not SITE:
    pytest.skip("no site: build it with mkdocs, and set ODM_SITE to its folder", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
PAGES = [path for path in sorted(Path(SITE).resolve().rglob("*.html")) if path.name != "404.html"]
BEYOND = """() => [...document.querySelectorAll('.md-content *')].filter(element => {
  const edge = e => e.getBoundingClientRect().right;
  if (edge(element) <= innerWidth + 1 || !element.getBoundingClientRect().width) return false;
  for (let e = element.parentElement; e; e = e.parentElement)
    if (getComputedStyle(e).overflowX !== 'visible' && edge(e) <= innerWidth + 1) return false;
  return true;
}).map(element => element.outerHTML.slice(0, 200))"""
"""What is wider than the window and in no box that scrolls by itself."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, request):
    wrong = []
    context = browser.new_context(viewport=request.param, reduced_motion="reduce", offline=True)
    opened = context.new_page()
    opened.on("console", lambda m: wrong.append(m.text))
    opened.on("pageerror", lambda e: wrong.append(str(e)))
    opened.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    yield opened
    context.close()
    assert wrong == []


@pytest.mark.parametrize("page", [WIDE, NARROW], ids=["wide", "narrow"], indirect=True)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_fits_the_window_and_loads_nothing_from_elsewhere(page, path):
    page.goto(f"file://{path}")
    page.wait_for_selector(".md-content h1")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


@pytest.mark.parametrize("page", [WIDE], indirect=True)
def test_the_search_works_without_a_server(page):
    page.goto(f"file://{Path(SITE).resolve() / 'index.html'}")
    page.click(".md-search__input")
    page.keyboard.type("accumulated")
    page.wait_for_selector(".md-search-result__item a[href*='metrics-explained']")
