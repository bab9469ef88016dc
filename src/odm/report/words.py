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

Text = str | list[Any]
"""A text that the script looks up and fills in, ``[key, {place: text}]``, or plain text."""


@functools.cache
def load_words(language: str) -> dict[str, Any]:
    """Return the texts of a language by key."""
    data = pkgutil.get_data("odm.report", f"words/{language}.json")
    assert data is not None
    texts: dict[str, Any] = json.loads(data)
    return texts


def name_text(key: str, **values: Text) -> Text:
    """Return a reference to a text, by its key, with the values for its places; it has no plural forms."""
    return [key, values]


def to_english(text: Text) -> str:
    """Return a text in English, with its places filled in."""
    if isinstance(text, str):
        return text
    key, values = text
    return str(load_words(LANGUAGES[0])[key]).format(
        **{name: to_english(value) for name, value in values.items()}
    )


def join_names(names: Sequence[str]) -> Text:
    """Join names with "and" between them; empty if there are none."""
    text: Text = ""
    for name in names:
        text = name_text("and", a=text, b=name) if text else name
    return text


def load_tables(language: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the texts of one language, or of all, by language and key."""
    return {name: load_words(name) for name in LANGUAGES if language in (None, name)}


def make_script(tables: dict[str, dict[str, Any]]) -> str:
    """Return the beginning of the script of a page: the constant with the texts of `tables`."""
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    return f'"use strict";\nconst LANGUAGES = {text};\n'
