"""The pages of the site that are not files in docs/: a hook of MkDocs (see mkdocs.yml).

The README is the start page; the other pages of the root, the help of the commands and the Python reference are
added. Links are written for a plain viewer of the repository, and turned into links of the site here.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OF_ROOT = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh/index.md",
    **{f"{name}.md": f"{name.lower()}.md" for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")},
}
"""Pages in the root of the repository, if they are there, and where the site has them."""

PUBLIC = json.loads((ROOT / "tests/data/contract.json").read_text(encoding="utf-8"))["python"]
"""The names that the stability guarantees cover, by module."""
REFERENCE = {
    "odm": "What `import odm` gives. [From Python](../python.md) shows how it is used.",
    "odm.evaluate.Metric": "",
    **dict.fromkeys([module for module in PUBLIC if module != "odm"], ""),
    "odm.coco.mask": "",
}
"""The modules and classes that have a page, with an introduction in place of their docstring."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+\.?[^)\s#]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add those pages of the root to the navigation that are there."""
    about = next(part["About"] for part in config.nav or [] if "About" in part)
    about += [{old[:-3].capitalize(): new} for old, new in present() if not new.endswith("index.md")]
    return config


def present() -> Iterator[tuple[str, str]]:
    return ((old, new) for old, new in OF_ROOT.items() if (ROOT / old).exists())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    for old, new in present():
        files.append(File.generated(config, new, content=(ROOT / old).read_text(encoding="utf-8")))
    for name in REFERENCE:
        files.append(File.generated(config, f"reference/{name}.md", content=reference(name)))
    files.append(File.generated(config, "reference/command-line.md", content=command_line()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links of the site, or into plain text if it has none."""
    del config
    source = next((f"{old}" for old, new in OF_ROOT.items() if new == page.file.src_uri), None)
    folder = "" if source else posixpath.dirname(f"docs/{page.file.src_uri}")

    def moved(match: re.Match[str]) -> str:
        image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if "://" in target or not (ROOT / path).exists():
            return match[0]  # of another site, or a mistake that the strict build reports
        if path in OF_ROOT:
            inner = OF_ROOT[path]
        elif path.startswith("docs/") and files.get_file_from_path(path[5:]):
            inner = path[5:]
        else:
            return text
        here = posixpath.dirname(page.file.src_uri)
        return f"{image}[{text}]({posixpath.relpath(inner, here or '.')}{anchor})"

    return LINK.sub(moved, markdown)


SHORT = re.compile(r"(?<!<pre>)(?<!</span>)<code>(?=[^<]{1,30}</code>)")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mark short inline code, which the style sheet keeps on one line."""
    del page, config, files
    return SHORT.sub('<code class="short">', html)


# ------------------------------------------------------------------------------------------------ reference


def reference(name: str) -> str:
    """The reference of a module, name by name from where each is defined, or of one class."""
    if name.rpartition(".")[2][:1].isupper():
        return directive(home(name), heading=1, called=name)
    module = importlib.import_module(name)
    hidden = {"members": False, "show_root_heading": False, "show_root_toc_entry": False}
    parts = [
        f"# {name}\n",
        REFERENCE[name] + "\n" if REFERENCE[name] else directive(name, heading=2, **hidden),
    ]
    listed = PUBLIC.get(name) or module.__all__
    public = [key for key in listed if not key.startswith("_") and f"{name}.{key}" not in REFERENCE]
    kinds = (inspect.isroutine, inspect.isclass, lambda _: True)  # functions, classes, then constants
    public.sort(key=lambda key: [kind(getattr(module, key)) for kind in kinds].index(True))
    # A name has one page: that of `odm`, where it is one of its names too.
    name_in_odm = {} if name == "odm" else {home(f"odm.{key}"): f"odm.{key}" for key in PUBLIC["odm"]}
    for key in public:
        path, called = home(f"{name}.{key}"), f"{name}.{key}"
        if path in name_in_odm:
            parts.append(f"## {called}\n\nThe same as [{name_in_odm[path]}][{path}].\n")
        else:
            parts.append(directive(path, heading=2, called=called))
    return "\n".join(parts)


def home(name: str) -> str:
    """Where a public name is defined: ``odm.converters.pipeline.convert`` for ``odm.convert``."""
    module, _, key = name.rpartition(".")
    value = getattr(importlib.import_module(module), key)
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    for other in (
        n for n in list(vars(importlib.import_module("sys"))["modules"]) if n.startswith(f"{module}.")
    ):
        with contextlib.suppress(AttributeError, OSError, TypeError):
            source = importlib.import_module(other)
            if getattr(source, key) is value and re.search(
                rf"^{key}\b.* = ", inspect.getsource(source), re.MULTILINE
            ):
                return f"{other}.{key}"
    return name


def directive(path: str, *, heading: int, called: str = "", **options: bool) -> str:
    """What mkdocstrings replaces by the documentation of an object, under the name it is `called` by users."""
    lines = [f"::: {path}", "    options:", f"      heading_level: {heading}"]
    if called:
        lines += [f"      heading: {called}", f"      toc_label: {called.rpartition('.')[2]}"]
    lines += [f"      {key}: {str(value).lower()}" for key, value in options.items()]
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """All options of every command, as ``odm COMMAND --help`` prints them."""
    from odm.cli import _app

    parts = [
        "# Command line\n\n`odm COMMAND -h` shows the common options and examples, `--help` all options:\n"
    ]
    with mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        for name in _app.COMMANDS:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                _app.run([name, "--help"])
            parts.append(f"## odm {name}\n\n```text\n{out.getvalue()}```\n")
    return "\n".join(parts)
