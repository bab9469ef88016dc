"""Declare the keys, elements and attributes that a format knows, and count the others in its files.

A format declares its names once, so that nothing it does not know is lost without a word::

    _KEYS = declare_keys("images{} file_name width height objects label bbox attributes*")

The keys of an object marked ``{}``, or of the objects in a list marked so, are data, such as names of images;
``{}`` alone stands for the outermost object, ``[]{}`` for those in an outermost list. What lies below a key
marked ``*`` is not looked at: the reader counts it itself, or it says nothing about objects. Numbers as keys
are data everywhere.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from odm.issues import shorten

EMPTY_VALUES: tuple[Any, ...] = (None, [], {}, "")
_MOST_EXTRAS = 30
"""Names of unread keys that are counted separately."""


class KnownKeys(msgspec.Struct, frozen=True, eq=False):
    """The names that a format knows."""

    names: frozenset[str]
    free: frozenset[str]
    """Names of objects whose keys are data: ``""`` for the outermost one, ``[]`` for those in a list."""
    opaque: frozenset[str]
    """Names whose values are not looked at."""

    def count_json(self, value: Any, extras: Counter[str]) -> None:
        """Count in `extras` the unknown keys, at all levels of a decoded value, whose value is not empty."""
        stack = [(value, "" if type(value) is dict else "[]")]  # values, and the name of each in `free`
        while stack:
            value, name = stack.pop()
            if type(value) is list:
                # Lists of values, and of lists of values, such as points [[1, 2], [3, 4]], hold no keys.
                first = value[0] if value else None
                holds_lists = type(first) is list and first and type(first[0]) in (dict, list)
                if type(first) is dict or holds_lists:
                    stack += [(inner, name) for inner in value]
            elif type(value) is dict:
                is_free = name in self.free
                if not is_free and not self.names.issuperset(value):
                    for key in value.keys() - self.names:
                        if value[key] not in EMPTY_VALUES and not key.isdecimal():
                            count_extra(extras, key)
                # Go on below known keys, and below any where they are data, unless the value is opaque.
                stack += [
                    (inner, key if key in self.names else "/")  # "/" is no name, so its keys are not free
                    for key, inner in value.items()
                    if type(inner) in (dict, list)
                    and inner
                    and key not in self.opaque
                    and (is_free or key in self.names or key.isdecimal())
                ]

    def count_xml(self, element: Any, extras: Counter[str]) -> None:
        """Count in `extras` the unknown elements and attributes below `element` that are not empty.

        Attributes of a namespace, ``{uri}name``, do not count.
        """
        unknown_keys = [key for key in element.keys() if key not in self.names and not key.startswith("{")]  # noqa: SIM118
        for key in unknown_keys[:_MOST_EXTRAS]:  # looking a value up takes as long as there are attributes
            if element.get(key).strip():
                count_extra(extras, key)
        for child in element.iterchildren("*"):
            if child.tag not in self.names:
                if len(child) or child.attrib or (child.text or "").strip():
                    count_extra(extras, child.tag)
            elif child.tag not in self.opaque:
                self.count_xml(child, extras)


def declare_keys(text: str, *more: str) -> KnownKeys:
    """Declare the names in `text`, separated by spaces and with their marks; `more` are names with spaces."""
    words = text.split()
    free = frozenset(word.removesuffix("{}") for word in words if word.endswith("{}"))
    opaque = frozenset(word.removesuffix("*") for word in words if word.endswith("*"))
    return KnownKeys(frozenset(word.rstrip("{}*") for word in words) | set(more), free, opaque)


def count_extra(extras: Counter[str], name: str, n: int = 1) -> None:
    """Add `n` to the count of unread things called `name`; beyond 30 names the rest are ``other keys``."""
    key = name if name in extras else shorten(name, 60)
    if key not in extras and len(extras) >= _MOST_EXTRAS:
        key = "other keys"
    extras[key] += n
