"""Read and check lists of class names, and class names in columns that are separated by spaces."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.codes import BAD_CLASS_LIST, BAD_LISTED_CLASS
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.safe_yaml import Node, is_none, load, show_node
from odm.formats._shared.text.tokens import clean_text
from odm.issues import Code, Log, shorten
from odm.names import refuse_class
from odm.tables import Builder

DUPLICATE_CLASS = Code(
    "duplicate-class",
    "warning",
    "class {value!r} is listed twice, as {first} and {second}; they are read as one class",
    "remove or rename one of the two",
    "Two ids have the same name, so their boxes are merged into one class.",
)
CLASS_COUNT = Code(
    "yolo-class-count",
    "error",
    "nc is {value}, but there are {n} names",
    "correct nc or the list of names",
    "The number of classes does not match the list of names: a name is missing, or there is one too many.",
)
BAD_DATA_YAML = Code(
    "yolo-data-file",
    "error",
    "expected {expected}, found {value!r}",
    "correct the file",
    "A key of the dataset's YAML file has an unexpected value.",
)
UNWRITABLE = Code(
    "unwritable-class",
    "error",
    "class {value!r} cannot be written: {reason}",
    "{way}",
    "It would be read back as a different class or a different box.",
)


def class_list_option(text: str = "file with the class names, one per line, or a data.yaml") -> Any:
    """The option ``--classes`` of a format whose files hold numbers of classes."""
    return option(None, text, flag="--classes", side="read", path=True)


def spaces_option(otherwise: str = "refuse") -> Any:
    """The option ``spaces`` of a format whose columns are separated by spaces."""
    text = f"class names with spaces: {otherwise} them, or write underscores for spaces"
    return option(otherwise, text, choices=(otherwise, "underscore"), side="write")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpacesOptions(ImageOptions):
    """Options of a format whose columns are separated by spaces."""

    spaces: str = spaces_option()


def has_space(name: str) -> bool:
    """Whether programs that split a line at its spaces would split the name."""
    return any(map(str.isspace, name))


def note_spaces(names: Sequence[str], log: Log) -> None:
    """Say how many image names most programs would split at their spaces."""
    if n := sum(map(has_space, names)):
        statement = "1 image name has a space" if n == 1 else f"{n} image names have spaces"
        log.note(f"{statement}, which many programs take for the end of the name")


class Names(list[str]):
    """Names of classes by id, from the id `first` on."""

    first = 0


def read_list(source: Source, file: str, log: Log) -> list[str] | None:
    """Read class names from a file with one per line or a ``data.yaml``; None, after issues, if unusable."""
    data = source.read(file, log)
    if data is None:
        return None
    path = source.full(file)
    if is_description(path):
        return read_description(data, path, log)
    n_errors = log.errors
    text = clean_text(data, path, log)
    if log.errors > n_errors:
        return None
    names = [line.strip(" \t") for line in text.decode().split("\n")]
    while names and not names[-1]:
        names.pop()
    if not names:
        log.report(BAD_CLASS_LIST, path, reason="it is empty")
        return None
    for line_number, name in enumerate(names, 1):
        if not name:
            gap = "it has a blank line, which shifts the ids after it"
            log.report(BAD_CLASS_LIST, path, line=line_number, reason=gap)
        elif (reason := refuse_class(name)) is not None:
            log.report(BAD_LISTED_CLASS, path, line=line_number, value=name, reason=reason)
    return names if log.errors == n_errors else None


def read_class_list(
    classes: str | None, source: Source, list_of_source: str, log: Log
) -> tuple[list[str] | None, str]:
    """Read the class names from the file `classes` of the option, else from `list_of_source` in the source.

    Returns the names and the path of the list. The names are None, after issues, if the list is not usable;
    both are empty if there is neither file.
    """
    if classes is not None:
        return read_list(Source(classes, follow_links=True, encoding=source.encoding), "", log), classes
    if list_of_source and list_of_source in source.files:
        return read_list(source, list_of_source, log), source.full(list_of_source)
    return [], ""


def report_other_list(
    code: Code, path: str, names: list[str], first_list: tuple[str, list[str]], log: Log
) -> None:
    """Report the first id whose name in the list at `path` differs from that in the list read earlier.

    `first_list` is the path and the names of the earlier list. The two lists must differ.
    """
    first_path, first_names = first_list
    # The end of the shorter list differs from the name in the longer one.
    pairs = zip([*first_names, "(nothing)"], [*names, "(nothing)"], strict=False)
    class_id, first_name, name = next((i, a, b) for i, (a, b) in enumerate(pairs) if a != b)
    log.report(code, path, line=class_id + 1, number=class_id, value=name, other=first_name, first=first_path)


def is_description(path: str) -> bool:
    """Whether the suffix of a file of class names is of a type of file that holds more than names."""
    return path.lower().endswith((".yaml", ".yml", ".data", ".json", ".xml"))


def read_description(data: bytes, path: str, log: Log) -> list[str] | None:
    """Return the ``names`` of a ``data.yaml`` with content `data`; None, after issues, if there are none."""
    if not path.lower().endswith((".yaml", ".yml")):
        reason = "expected a text file of names or a data.yaml, found another type of file"
        log.report(BAD_CLASS_LIST, path, reason=reason)
        return None
    n_errors = log.errors
    root = load(data, path, log)
    names = None
    if root is not None and isinstance(root.value, list):
        names = parse_names({"names": root}, path, log)
    elif root is not None and isinstance(root.value, dict):
        names = parse_names(root.value, path, log)
    if not names and log.errors == n_errors:
        log.report(BAD_CLASS_LIST, path, reason="it has no key 'names' with a list")
    return names or None


def parse_names(entries: dict[str, Node], path: str, log: Log) -> list[str] | None:
    """Return the ``names`` of the parsed `entries` of a ``data.yaml``, and check that ``nc`` agrees.

    Names may be a list or a mapping from ids. The result is empty without names, and None, after issues, if
    the names or ``nc`` are not usable.
    """

    def report_wrong(node: Node, field: str, expected: str) -> None:
        log.report(BAD_DATA_YAML, path, line=node.line, field=field, expected=expected, value=show_node(node))

    n_errors = log.errors
    names_node = entries.get("names")
    items: list[Node] = []
    first_id = 0
    if names_node is None or is_none(names_node):
        pass
    elif isinstance(names_node.value, list):
        items = names_node.value
    elif isinstance(names_node.value, dict):
        items = _names_by_id(names_node, path, log)
        first_id = int(bool(items) and "0" not in names_node.value)  # without the id 0 they begin at 1
    else:
        report_wrong(names_node, "names", "a list of names")
    for item in items:
        if not isinstance(item.value, str):
            report_wrong(item, "names", "the name of a class")
        elif not item.value.strip():
            log.report(BAD_CLASS_LIST, path, line=item.line, field="names", reason="a name is empty")
        elif (reason := refuse_class(item.value)) is not None:
            log.report(BAD_LISTED_CLASS, path, line=item.line, field="names", value=item.value, reason=reason)
    count_node = entries.get("nc")
    if count_node is not None and not is_none(count_node):
        text = count_node.value.strip() if isinstance(count_node.value, str) else ""
        if not re.fullmatch(r"[0-9]{1,9}(\.0*)?", text):
            report_wrong(count_node, "nc", "a number of classes")
        elif items and int(float(text)) != len(items):
            n, line = int(float(text)), count_node.line
            log.report(CLASS_COUNT, path, line=line, field="nc", value=n, n=len(items))
    names = Names(item.value for item in items)
    names.first = first_id
    return names if log.errors == n_errors else None


def _names_by_id(node: Node, path: str, log: Log) -> list[Node]:
    """Return the names of a mapping from ids to names in the order of the ids; report bad and missing ids.

    The ids begin at 0, or at 1 if 0 is not among them.
    """
    node_of_id: dict[int, Node] = {}
    for key, item in node.value.items():
        if not re.fullmatch(r"[0-9]{1,9}", key) or int(key) in node_of_id:
            reason = f"{shorten(key)!r} is not a valid new id"
            log.report(BAD_CLASS_LIST, path, line=item.line, field="names", reason=reason)
        else:
            node_of_id[int(key)] = item
    lowest_id = 0 if 0 in node_of_id else 1  # ids from 1 on have no class 0
    missing_id = next((i for i in range(lowest_id, lowest_id + len(node_of_id)) if i not in node_of_id), None)
    if missing_id is not None:
        # Without 0 and 1 the list lacks its beginning.
        missing_id = 0 if missing_id == lowest_id else missing_id
        log.report(BAD_CLASS_LIST, path, line=node.line, field="names", reason=f"id {missing_id} has no name")
    return [node_of_id[i] for i in sorted(node_of_id)]


def find_first_id(names: list[str]) -> int:
    """The id of the first of these names."""
    return getattr(names, "first", 0)


def add_list(class_names: list[str], builder: Builder, log: Log, path: str) -> list[int]:
    """Add the classes of a list, and return the category row of each id from 0 on, -1 for an unused id."""
    category_rows = [-1] * find_first_id(class_names)
    id_of_name: dict[str, int] = {}
    for class_id, name in enumerate(class_names, len(category_rows)):
        earlier_id = id_of_name.setdefault(name, class_id)
        if earlier_id != class_id:
            log.report(DUPLICATE_CLASS, path, value=name, first=earlier_id, second=class_id)
        category_rows.append(builder.category(name, source_id=class_id))
    return category_rows
