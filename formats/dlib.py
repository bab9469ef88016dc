"""dlib XML: the images of a dataset with their boxes, as dlib and its tool imglab write it.

Reference: ``image_dataset_metadata`` of dlib (http://dlib.net/imaging.html#load_image_dataset_metadata) and
the files of ``examples/faces``::

    <dataset>
    <images>
      <image file='2007_007763.jpg' width='500' height='375'>
        <box top='90' left='194' width='37' height='37' ignore='1'>
          <label>person</label>
          <part name='0' x='201' y='107'/>
        </box>
      </image>
    </images>
    </dataset>

``left``, ``top``, ``width`` and ``height`` are pixels, read and written unchanged. A box without a label has
the class ``object`` (``-O category=NAME``). ``ignore`` 1 means that training and tests ignore the box: it is
read as crowd. ``difficult``, ``truncated`` and ``occluded`` are those flags. Parts, which are points, and the
other attributes of a box are counted but not read.

``detection_score`` is the score of a detection. If every box has one, the file contains detections; if only
some have one, it is read as ground truth without the scores, with a warning.

The size of an image is in the file since imglab 1.19, or comes from ``--images``, ``--image-size``,
``--image-sizes`` or the pictures beside the file.

Writing: one file. dlib reads whole numbers only; ``-O round=true`` writes these.
"""

from __future__ import annotations

import dataclasses

from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of, option
from odm.formats._shared.json.items import Row, iter_images, plan_file
from odm.formats._shared.json.values import Reader
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.numbers import round_boxes
from odm.formats._shared.text.records import (
    check_xml_names,
    choose_xml,
    escape_text,
    make_element_item,
    make_rows,
    quote,
    read_roots,
    sniff_xml,
    to_numbers,
)
from odm.formats._shared.text.safe_xml import XML_BEGINS
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "dataset name comment images image file width height box left top label detection_score ignore "
    "difficult truncated occluded part* x y"
)
_PLACE = ("left", "top", "width", "height")
_FLAGS = {"ignore": Flag.CROWD, "difficult": Flag.DIFFICULT}
_FLAGS |= {"truncated": Flag.TRUNCATED, "occluded": Flag.OCCLUDED}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DlibOptions(ImageOptions):
    """Options of dlib XML."""

    category: str = option("object", "the class of boxes without a label", side="read")
    round: bool = option(False, "write whole numbers only", side="write")


def _recognise(text: str, root: str) -> str | None:
    """The reason to read XML with these first characters and root element as dlib's; None if it is not."""
    return "the root is <dataset>, with images" if root == "dataset" and "<images" in text else None


def sniff(source: Source) -> Sniff | None:
    """Claim XML files whose root is <dataset>."""
    return sniff_xml(source, _recognise)


def read(source: Source, builder: Builder, log: Log, options: DlibOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    files = log.track(choose_xml(source, _recognise, "dlib XML", log), "reading")
    for _, origin, root in read_roots(reader, files, "dataset", "dlib XML"):
        for element in root.iterfind("images/image"):
            record = to_numbers(element.attrib, "width", "height")
            item = make_element_item(reader, record, element, origin)
            image = item.image("file", size=item.size("width", "height"))
            for box in element.iterfind("box"):
                values = to_numbers(box.attrib, *_PLACE, "detection_score")
                values["label"] = (box.findtext("label") or "").strip() or options.category
                if n_parts := len(box.findall("part")):
                    reader.count("parts", n_parts)
                make_rows(reader, values, box, origin).read(image, _read_box)
    reader.finish(field="detection_score")


def _read_box(box: Row) -> None:
    """Add a box from its attributes, which are texts but for its numbers."""
    category, score = box.category("label"), box.score("detection_score")
    corners, wh = box.xywh(*_PLACE)
    flags = sum(flag for name, flag in _FLAGS.items() if box.flag(name, as_text=True))
    box.add(category, corners, wh=wh, score=score, flags=int(flags))


def write(dataset: Dataset, target: Output, log: Log, options: DlibOptions) -> None:
    """Write a dataset with the boxes of each image."""
    name = plan_file(dataset, target, "dataset.xml", "images", log)
    if not check_xml_names(dataset, log) or name is None:
        return
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<dataset>", "<name>odm</name>", "<images>"]
    for image in iter_images(round_boxes(dataset, log) if options.round else dataset):
        size = "".join(f' {key}="{value}"' for key, value in image.size.items())
        lines.append(f"  <image file={quote(image.name)}{size}>")
        for box in image.boxes:
            left, top, width, height = *box.xyxy[:2], *box.wh
            attributes = [f' {key}="1"' for key, flag in _FLAGS.items() if box.flags & flag]
            attributes += [f' {key}="{score!r}"' for key, score in box.score_field("detection_score").items()]
            lines.append(
                f'    <box top="{top!r}" left="{left!r}" width="{width!r}" height="{height!r}"'
                f"{''.join(attributes)}><label>{escape_text(box.label)}</label></box>"
            )
        lines.append("  </image>")
    target.write(name, "\n".join([*lines, "</images>", "</dataset>", ""]).encode())


FORMAT = format_of(
    __name__,
    title="dlib XML",
    expects=("dataset", "images", "box"),
    use="training",
    written_by="dlib and imglab",
    suffixes=(".xml",),
    begins=XML_BEGINS,
    single=True,
    keeps=frozenset("size extension empty score wh crowd difficult truncated occluded".split()),
)
