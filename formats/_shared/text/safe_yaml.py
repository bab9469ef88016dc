"""Read YAML as plain text: no types are guessed or objects made, aliases and duplicate keys are refused."""

from __future__ import annotations

from typing import Any

import msgspec

from odm.formats._shared.text.tokens import clean_text
from odm.issues import Code, Log

BAD_YAML = Code(
    "bad-yaml",
    "error",
    "invalid YAML: {reason}",
    "correct the file",
    "The file is truncated or not YAML, or it uses aliases, which can grow without bound, or duplicate "
    "keys, which hide a value. Both are refused.",
)

DEPTH = 50

_OBJECTS = tuple(f"tag:yaml.org,2002:python/{kind}" for kind in ("object", "name", "module"))
"""Tags that ask a program to make or to call something; others change nothing for a reader of plain text."""


class Node(msgspec.Struct, eq=False):
    """A value of a YAML file: a text, a list of nodes, or a dict of nodes; ``line`` counts from 1."""

    value: Any
    line: int


def load(data: bytes, path: str, log: Log) -> Node | None:
    """The only document of a YAML file; None, and an issue in the log, if it cannot be read.

    A scalar is its text (``no``, ``007`` and ``1.0`` stay what they are), and an unquoted ``null``, ``~`` or
    nothing is text too: the reader decides what it means.
    """
    import yaml

    n_errors = log.errors
    text = clean_text(data, path, log)
    if log.errors > n_errors:
        return None
    try:
        return _build(yaml.parse(text.decode(), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    except _Refused as e:
        log.report(BAD_YAML, path, line=e.line, column=e.column, reason=e.reason)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        log.report(BAD_YAML, path, line=line, column=column, reason=e.problem or e.context or "it is damaged")
    except (yaml.YAMLError, ValueError) as e:
        log.report(BAD_YAML, path, reason=str(e).split("\n", maxsplit=1)[0])
    return None


def show_node(node: Node) -> str:
    """Return the text of a node for a message; lists and mappings are only named so."""
    if isinstance(node.value, str):
        return node.value
    return "a list" if isinstance(node.value, list) else "a mapping"


def is_none(node: Node) -> bool:
    """Whether a value is null."""
    return isinstance(node.value, str) and node.value.strip() in {"", "~", "null"}


class _Refused(Exception):
    def __init__(self, reason: str, event: Any) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = event.start_mark.line + 1
        self.column = event.start_mark.column + 1


def _build(events: Any) -> Node:
    """Build the node of the only document from the events of a YAML parser. Raises _Refused for the rest."""
    import yaml

    # The document is built as the only element of `root`; the last of the open nodes is the innermost.
    root = Node([], 0)
    open_nodes: list[Node] = [root]
    keys: list[str | None] = [None]  # of each open node, if it is a mapping, the key whose value comes next
    n_documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
            if n_documents > 1:
                raise _Refused("the file contains more than one document", event)
            continue
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(f"the alias *{event.anchor} is not allowed", event)
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            open_nodes.pop()
            keys.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue

        tag = getattr(event, "tag", None)
        if tag is not None and tag.startswith(_OBJECTS):
            raise _Refused(f"the tag {tag!r} is not allowed", event)
        container = open_nodes[-1].value
        if isinstance(container, dict) and keys[-1] is None:  # the event is a key
            if not isinstance(event, yaml.ScalarEvent):
                raise _Refused("a key is not plain text", event)
            if event.value in container:
                raise _Refused(f"the key {event.value!r} is duplicated", event)
            keys[-1] = event.value
            continue

        # The node of a text, list or mapping, which is put into the container.
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            node = Node(event.value, line)
        else:
            node = Node([] if isinstance(event, yaml.SequenceStartEvent) else {}, line)
        if isinstance(container, dict):
            container[keys[-1]] = node
            keys[-1] = None
        else:
            container.append(node)
        if not isinstance(event, yaml.ScalarEvent):
            if len(open_nodes) > DEPTH:
                raise _Refused("it is nested too deeply", event)
            open_nodes.append(node)
            keys.append(None)
    document: Node = root.value[0] if root.value else Node("", 1)
    return document
