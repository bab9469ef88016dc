"""XML that says the same as Pascal VOC with other elements: FAIR1M and HRSC2016, brought into its form.

DIOR-R differs in nothing but the corners of ``<robndbox>``, which the reader knows.
"""

from __future__ import annotations

from typing import Any

HRSC = "HRSC_Image"
"""The root of the files of HRSC2016."""
CORNERS = tuple(
    f"{axis}_{corner}"
    for corner in ("left_top", "right_top", "right_bottom", "left_bottom")
    for axis in ("x", "y")
)
"""The elements of a ``<robndbox>`` with four corners."""


def unify(root: Any) -> None:
    """Give the elements of a file of HRSC2016 or FAIR1M the names and places of Pascal VOC, in place."""
    if root.tag == HRSC:
        _unify_hrsc(root)
    elif root.find("objects/object/points") is not None:
        objects = root.find("objects")
        _move(root.find("source/filename"), root, "filename")
        for element in objects.findall("object"):
            _unify_fair1m(element)
            root.append(element)
        root.remove(objects)


def _unify_hrsc(root: Any) -> None:
    """Rename and move the elements of a file of HRSC2016 to those of Pascal VOC, in place."""
    root.tag, size = "annotation", _add(root, "size")
    if (name := root.find("Img_FileName")) is not None:
        name.text = f"{name.text}.{root.findtext('Img_FileFmt', '')}".rstrip(".")
        _move(name, root, "filename")
    for tag in ("Width", "Height"):
        _move(root.find(f"Img_Size{tag}"), size, tag.lower())
    for element in root.findall("HRSC_Objects/HRSC_Object"):
        box, rotated_box = _add(element, "bndbox"), _add(element, "robndbox")
        _move(element.find("Class_ID"), element, "name")
        for child in element.findall("*"):
            kind, _, tag = child.tag.partition("_")  # box_xmin, mbox_cx, ...
            if kind in ("box", "mbox"):
                _move(child, box if kind == "box" else rotated_box, "angle" if tag == "ang" else tag)
        for empty_box in (candidate for candidate in (box, rotated_box) if not len(candidate)):
            element.remove(empty_box)
        _move(element, root, "object")
    for container in root.findall("HRSC_Objects"):
        root.remove(container)


def _unify_fair1m(element: Any) -> None:
    """Rename and move the elements of an object of FAIR1M to those of Pascal VOC, in place."""
    _move(element.find("possibleresult/name"), element, "name")
    _move(element.find("possibleresult/probability"), element, "confidence")
    points = element.findall("points/point")
    if len(points) not in (4, 5):  # the fifth is the first again
        return
    rotated_box = _add(element, "robndbox")
    for corner_index, point in enumerate(points[:4]):
        x, _, y = (point.text or "").partition(",")
        for i, text in enumerate((x, y)):
            corner = _add(rotated_box, CORNERS[2 * corner_index + i])
            corner.text, corner.sourceline = text, point.sourceline
    for old_element in element.findall("points") + element.findall("possibleresult"):
        element.remove(old_element)


def _add(parent: Any, tag: str) -> Any:
    """Add an empty element to `parent`, on its line, and return it."""
    child = parent.makeelement(tag)
    parent.append(child)
    child.sourceline = parent.sourceline
    return child


def _move(element: Any, parent: Any, tag: str) -> None:
    """Move an element, unless it is None, to the end of `parent` under another tag."""
    if element is not None:
        element.tag = tag
        parent.append(element)
