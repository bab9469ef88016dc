"""Draw the pictures of reports in the README and the documentation: ``python docs/report_pictures.py``.

They are taken of the pages of the bundled example, in a Chromium, with what the extra [browser] installs.
"""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
STREET = ROOT / "fixtures/street"
CALL = ["-m", "odm", "eval", STREET / "truth.json", STREET / "detections.json", "--protocol", "coco", "-q"]
BOTH = """<body style="margin:0"><img src="{page}"><img src="{image}" style="position:absolute; right:28px;
bottom:24px; width:740px; border-radius:4px; box-shadow:0 14px 50px #0009">"""
SHOWN = "country-road.jpg"


def main() -> None:
    from browsers import chromium

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        pages = {kind: f"file://{folder}/{kind}.html" for kind in ("bbox", "segm")}
        for kind, page in pages.items():
            words = [*CALL, "--iou-type", kind, "--images", STREET / "images", "--report", page[7:]]
            subprocess.run([sys.executable, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        for name, locale in (("report", "en"), ("report-zh", "zh")):
            parts = {"page": _shot(browser, pages["bbox"], (1280, 980), locale)}
            parts["image"] = _shot(browser, pages["bbox"], (1120, 660), locale, SHOWN)
            links = {k: "data:image/png;base64," + base64.b64encode(v).decode() for k, v in parts.items()}
            tab = browser.new_page(viewport={"width": 1280, "height": 980})
            tab.set_content(BOTH.format(**links))
            _save(name, tab.screenshot())
        _save("report-image", _shot(browser, pages["bbox"], (1120, 660), "en", SHOWN))
        _save("report-shapes", _shot(browser, pages["segm"], (1120, 660), "en", SHOWN))


def _shot(browser: Any, page: str, size: tuple[int, int], locale: str, image: str = "") -> bytes:
    """A page, or one image of it in the whole window, as PNG."""
    window = {"width": size[0], "height": size[1]}
    tab = browser.new_page(viewport=window, locale=locale, reduced_motion="reduce")
    tab.goto(page)
    tab.wait_for_selector("html[data-ready='1']")
    if image:
        tab.locator(f'[data-image="{image}"]').click()
        tab.locator("dialog h2").hover()  # no box is pointed at
    tab.wait_for_timeout(300)
    taken: bytes = tab.screenshot()
    tab.close()
    return taken


def _save(name: str, png: bytes) -> None:
    Image.open(io.BytesIO(png)).convert("RGB").save(
        ROOT / f"docs/images/{name}.jpg", quality=88, optimize=True, progressive=True
    )


if __name__ == "__main__":
    main()
