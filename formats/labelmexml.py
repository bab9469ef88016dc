"""LabelMe XML: one file per image, as written by MIT's LabelMe, CVAT ("LabelMe 3.0") and Datumaro.

Reference: the LabelMe toolbox (https://github.com/CSAILVision/LabelMeToolbox) and the exporters of CVAT and
Datumaro::

    <annotation>
      <filename>street.jpg</filename><folder>users</folder>
      <imagesize><nrows>480</nrows><ncols>640</ncols></imagesize>
      <object>
        <name>person</name><deleted>0</deleted><verified>0</verified><occluded>no</occluded>
        <id>0</id><type>bounding_box</type>
        <polygon><pt><x>10</x><y>20</y></pt><pt><x>110</x><y>20</y></pt>
                 <pt><x>110</x><y>220</y></pt><pt><x>10</x><y>220</y></pt></polygon>
        <attributes>score=0.9, difficult=true</attributes>
      </object>
    </annotation>

Points are in pixels, read and written unchanged. A ``bounding_box`` with CVAT's attribute ``rotation``, which
is not 0, is an oriented box, turned clockwise by these degrees about its centre (``-O rotation=ignore``
turns this off). A polygon without the type ``bounding_box`` is an outline;
where only boxes are needed, it is read as the box around it, with a warning unless they are the same, and so
is a mask (``segm``, with a ``box``) in any case. Objects that are ``deleted`` are counted but not read.

``occluded`` yes is that flag. Of the ``attributes``, ``difficult``, ``crowd``, ``truncated``, ``group_of``,
``depiction`` and ``inside`` are flags, and ``score`` is the score of a detection; others are counted but not
kept. If every object has a score, the files contain detections. If only some have one, they are read as
ground truth without the scores, with a warning.

The image is named after the XML file, with the extension in ``filename`` (if the names differ, there is a
warning). A missing size comes from the picture beside the file or from ``--images``, ``--image-size``,
``--image-sizes``.

Writing: one ``.xml`` per image.
"""

from __future__ import annotations

from typing import Any

from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of
from odm.formats._shared.codes import FILE_NAME_DIFFERS
from odm.formats._shared.gather import add_extension
from odm.formats._shared.image_names import Place, name_images, note_folders
from odm.formats._shared.json.items import Box, Item, Origin, Row, iter_images
from odm.formats._shared.json.values import FLAG_NAMES, Reader, find_bounds, is_set, is_upright, strip_parents
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.box_shapes import rotate_box
from odm.formats._shared.shapes.rotation import RotationOptions
from odm.formats._shared.text.records import (
    check_xml_names,
    choose_xml,
    escape_text,
    make_element_item,
    make_rows,
    read_roots,
    read_texts,
    sniff_xml,
    to_number,
    to_numbers,
)
from odm.formats._shared.text.safe_xml import XML_BEGINS
from odm.issues import Log
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "annotation filename folder source sourceImage sourceAnnotation imagesize nrows ncols object name "
    "deleted verified occluded attributes parts hasparts ispartof date id type polygon pt x y username "
    "segm box xmin ymin xmax ymax mask scribbles*"
)
_SIGNS = ("<polygon", "<imagesize", "<sourceAnnotation", "<segm>")


def _recognise(text: str, root: str) -> str | None:
    """The reason to read XML with these first characters and root element as LabelMe's; None if it is not."""
    # VOC has the same root, but a bndbox.
    if root != "annotation" or "<bndbox" in text or not any(sign in text for sign in _SIGNS):
        return None
    return "the root is <annotation>, with polygons or an imagesize"


def sniff(source: Source) -> Sniff | None:
    """Recognise XML files with the root <annotation> and elements that VOC does not have."""
    return sniff_xml(source, _recognise)


def read(source: Source, builder: Builder, log: Log, options: RotationOptions) -> None:
    """Read every XML file, each the objects of one image."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    files = choose_xml(source, _recognise, "LabelMe XML", log, file_per_image=True)
    places = dict(zip(files, name_images(source, files, reader.pictures), strict=True))
    for file, origin, root in read_roots(reader, log.track(files, "reading"), "annotation", "LabelMe XML"):
        size = root.find("imagesize")
        size_fields = {} if size is None else to_numbers(read_texts(size), "nrows", "ncols")
        item = make_element_item(reader, {**read_texts(root), **size_fields}, root, origin)
        image = item.image_named(_find_name(item, places[file]), size=item.size("ncols", "nrows"))
        for element in root.iterfind("object"):
            _read_object(reader, element, image, origin)
    reader.finish()


def _find_name(item: Item, image_place: Place) -> str:
    """The name of the image: that of the XML file, with the extension of ``filename``, or of the picture."""
    file_name = strip_parents(item.get("filename", "")).rpartition("/")[2]
    if not file_name:
        picture = item.reader.pictures.find(image_place.picture, path=item.location.path)
        return add_extension(image_place.key, picture)
    name = image_place.key + file_name[len(stem(file_name)) :]
    if image_place.key.rpartition("/")[2] not in (file_name, stem(file_name)):  # a.jpg.xml or a.xml
        item.report(FILE_NAME_DIFFERS, "filename", where="filename", value=file_name, name=name)
    return name


def _read_object(reader: Reader, element: Any, image: int | None, origin: Origin) -> None:
    """Add the object of an element with a polygon or the box of a mask; deleted ones are counted."""
    values: dict[str, Any] = read_texts(element)
    if is_set(values.get("deleted")):
        reader.count("deleted objects")
        return
    if (polygon := element.find("polygon")) is not None:
        points = polygon.iterfind("pt")
        values["points"] = [[to_number(point.findtext(key, "")) for key in "xy"] for point in points]
    elif (mask := element.find("segm/box")) is not None:
        values["box"] = to_numbers(read_texts(mask), "xmin", "ymin", "xmax", "ymax")
    make_rows(reader, values, element, origin).read(image, _read_shape)


def _read_shape(shape: Row) -> None:
    """Add an object with the points, or the box, that `_read_object` has taken from its element."""
    category, attributes = shape.category("name"), {}
    for text in shape.get("attributes", "").split(","):  # "score=0.9, truncated=true, rotation=30"
        key, _, value = text.strip().partition("=")
        attributes[key] = value
    if "box" in shape:
        left, top, right, bottom = shape.object("box").numbers("xmin", "ymin", "xmax", "ymax")
        corners = left, top, right, bottom
        shape.note_outline("masks")
    else:
        points = shape.points("points", n_min=2)
        is_box = shape.get("type") == "bounding_box" and is_upright(points)
        corners = find_bounds(points) if is_box else shape.draw_around(points, "polygons")
        # Only CVAT's `rotation` turns a box, and CVAT always states whether one is occluded: here an element,
        # which `parse_turn` expects among the attributes.
        flag_attributes = attributes if "occluded" in shape else {}
        if is_box and (turn := shape.reader.parse_turn({"occluded": "", **flag_attributes})):
            left, top, right, bottom = corners
            corners = shape.draw_oriented(rotate_box(left, top, right - left, bottom - top, turn))
            del attributes["rotation"]
    if attributes.get("rotation") == "0.0":  # of CVAT, and upright
        del attributes["rotation"]
    score = shape.reader.check_score(attributes.pop("score", None), shape.location / "score", as_text=True)
    if score is None:
        shape.mark_bad()
        return
    flags = 0 if shape.is_bad else shape.reader.flags(attributes)
    occluded = Flag.OCCLUDED if shape.flag("occluded", as_text=True) else Flag(0)
    shape.add(category, corners, score=score, flags=int(flags | occluded))


def write(dataset: Dataset, target: Output, log: Log, options: RotationOptions) -> None:
    """Write one file per image."""
    del options  # they matter only when reading
    files = [f"{stem(name)}.xml" for name in dataset.images.name]
    if not target.plan(files, dataset.images.name, log) or not check_xml_names(dataset, log):
        return
    note_folders(dataset, log)
    for file, image in zip(log.track(files, "writing"), iter_images(dataset), strict=True):
        folder, _, file_name = map(escape_text, image.name.rpartition("/"))
        lines = ["<annotation>", f"  <filename>{file_name}</filename>", f"  <folder>{folder}</folder>"]
        lines.append("  <source><sourceImage></sourceImage><sourceAnnotation>odm</sourceAnnotation></source>")
        if image.size:
            size = f"<nrows>{image.height}</nrows><ncols>{image.width}</ncols>"
            lines.append(f"  <imagesize>{size}</imagesize>")
        for object_id, box in enumerate(image.boxes):
            lines += _format_object(object_id, box)
        target.write(file, "\n".join([*lines, "</annotation>", ""]).encode())


def _format_object(object_id: int, box: Box) -> list[str]:
    """The lines of XML of an object: a polygon, or a box as the polygon of its corners."""
    left, top, right, bottom = box.xyxy
    corners: Any = ((left, top), (right, top), (right, bottom), (left, bottom))
    outline = box.outlines[0] if box.outlines else corners  # the only one, as `keeps` has no parts
    points = "".join(f"<pt><x>{x!r}</x><y>{y!r}</y></pt>" for x, y in outline)
    kind = "" if box.outlines else "<type>bounding_box</type>"
    attributes = [f"score={score!r}" for score in box.score_field("score").values()]
    attributes += [f"{name}=true" for name in box.list_flags(sorted({*FLAG_NAMES} - {"occluded"}))]
    occluded = "yes" if box.flags & Flag.OCCLUDED else "no"
    return [
        "  <object>",
        f"    <name>{escape_text(box.label)}</name><deleted>0</deleted><verified>0</verified>",
        f"    <occluded>{occluded}</occluded><date></date><id>{object_id}</id>",
        f"    <parts><hasparts></hasparts><ispartof></ispartof></parts>{kind}",
        f"    <polygon>{points}<username></username></polygon>",
        f"    <attributes>{', '.join(attributes)}</attributes>",
        "  </object>",
    ]


FORMAT = format_of(
    __name__,
    title="LabelMe XML",
    expects=("annotation", "object", "polygon"),
    use="annotation tools",
    written_by="MIT LabelMe, CVAT (LabelMe 3.0), Datumaro (label_me)",
    suffixes=(".xml",),
    begins=XML_BEGINS,
    keeps=frozenset({"size", "extension", "empty", "score", "polygon", *FLAG_NAMES}),
    shape_is_box=True,
)
