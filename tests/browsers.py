"""Where the tests find a Chromium, and how they start it; importing this skips a module where there is none."""

import contextlib
import os
import shutil

import pytest

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [browser])")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("ODM_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None:
    pytest.skip("no Chromium: set ODM_TEST_BROWSER, or put one on PATH", allow_module_level=True)

ARGUMENTS = [
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
]
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 800}


@contextlib.contextmanager
def chromium():
    """A browser, which is closed at the end."""
    with api.sync_playwright() as p:
        started = p.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield started
        started.close()
