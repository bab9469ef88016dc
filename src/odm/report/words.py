"""The words of the pages: one table per language, ``words/LANGUAGE.json``, which the script and Python read.

A text has ``{places}``. One that depends on the number ``{n}`` is a table by plural form: ``one``, ``other``,
and what else the language has (the names of CLDR). A page holds all languages, and the browser of its reader
decides, unless one is asked for.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Sequence
from typing import Any

LANGUAGES = ("en", "zh")
"""The first is that of a reader whose browser asks for none of them."""

Said = str | list[Any]
"""A text for the script to put into words: ``[key, {place: text}]``; or plain text."""


@functools.cache
def table(language: str) -> dict[str, Any]:
    """The texts of a language by key."""
    data = pkgutil.get_data("odm.report", f"words/{language}.json")
    assert data is not None
    texts: dict[str, Any] = json.loads(data)
    return texts


def said(key: str, **values: Said) -> Said:
    """Name a text by key, with the values for its places; it has no plural forms."""
    return [key, values]


def english(text: Said) -> str:
    """Put a text into words in the first language, English."""
    if isinstance(text, str):
        return text
    key, values = text
    return str(table(LANGUAGES[0])[key]).format(**{name: english(value) for name, value in values.items()})


def listed(names: Sequence[str]) -> Said:
    """Join names with "and" between them; empty if there are none."""
    text: Said = ""
    for name in names:
        text = said("and", a=text, b=name) if text else name
    return text


def tables(language: str | None = None) -> dict[str, dict[str, Any]]:
    """The texts of a language, or of all."""
    return {name: table(name) for name in LANGUAGES if language in (None, name)}


def script(tables: dict[str, dict[str, Any]]) -> str:
    """Return the beginning of the script of a page: the constant with the texts of `tables`."""
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    return f'"use strict";\nconst LANGUAGES = {text};\n'
