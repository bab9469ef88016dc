"""The words of the pages: one table per language, ``words/LANGUAGE.json``, which the script and Python read.

A text has ``{places}``. One that depends on the number ``{n}`` is a table by plural form: ``one``, ``other``,
and what else the language has (the names of CLDR).
"""

from __future__ import annotations

import functools
import json
import pkgutil
from typing import Any

LANGUAGES = ("en",)
"""The first is that of the words which Python writes into a page."""


@functools.cache
def table(language: str) -> dict[str, Any]:
    """The texts of a language by key."""
    data = pkgutil.get_data("odm.report", f"words/{language}.json")
    assert data is not None
    found: dict[str, Any] = json.loads(data)
    return found


def text(key: str, **values: str) -> str:
    """A text without plural forms, with values in its places."""
    return str(table(LANGUAGES[0])[key]).format(**values)


def script() -> str:
    """The beginning of the script of a page: the tables of all languages."""
    tables = json.dumps({name: table(name) for name in LANGUAGES}, ensure_ascii=False, separators=(",", ":"))
    return f'"use strict";\nconst LANGUAGES = {tables};\n'
