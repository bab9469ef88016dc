"""Pascal VOC XML: one file per image.

::

    <annotation>
        <filename>street.jpg</filename>
        <size><width>640</width><height>480</height><depth>3</depth></size>
        <object>
            <name>person</name>
            <pose>Unspecified</pose>
            <truncated>0</truncated><difficult>0</difficult><occluded>0</occluded>
            <bndbox><xmin>10</xmin><ymin>20</ymin><xmax>110</xmax><ymax>220</ymax></bndbox>
        </object>
    </annotation>

Reading
-------
- A folder of XML files, nested or flat; one XML file; the standard tree (``Annotations/``, ``JPEGImages/``,
  ``ImageSets/Main/*.txt``), or several of them in one folder; ImageNet's trees (``Annotations/DET/...``,
  ``Annotations/CLS-LOC/...``, ``Data/...``), whose classes are WordNet ids.
- The image is named after the XML file, relative to its folder (in a tree: to ``Annotations/``), with the
  extension in ``<filename>``, or else that of the picture, if one is found. A ``<filename>`` of another image
  is a warning, and so is a missing one; an absolute path is an error. ``<path>`` and ``<folder>`` are not
  used.
- ``--split NAME`` reads only the images of ``ImageSets/Main/NAME.txt``. Lists per class
  (``person_train.txt``) are not splits. Without lists, folders called ``train``, ``val``, ``test`` are the
  splits, if every file is in one of them.
- ``xmin ymin xmax ymax`` are read unchanged, including fractions. The official Pascal VOC data counts pixels
  from 1 and includes the last one, whereas most other files contain plain edges; ``-O origin=1`` reads and
  writes the official convention, edges = (xmin - 1, ymin - 1, xmax, ymax). supervision adds 1 to all four:
  where right or bottom edges are one pixel beyond their image, and none further, ``-O origin=1`` reads these.
- ``difficult``, ``truncated`` and ``occluded`` are 0 or 1; ``no`` and ``false`` are 0, ``yes`` and ``true``
  are 1, in any letter case; a missing or empty value or ``Unspecified`` is 0. Anything else is an error. The
  boxes of a ``<part>`` are not objects; poses, parts and other additions are counted but not kept.
- ``<confidence>`` or ``<score>`` in the objects means that the file contains detections.
- ``<trackid>`` in an object, as in ImageNet VID, is its track. A folder with tracks is a video, and a numeric
  file name is the frame number, unless ``<video>`` and ``<frame>`` say otherwise.
- A missing ``<size>``, or 0, is taken from ``--image-sizes``, ``--image-size``, the picture (``--images``,
  ``JPEGImages/`` or beside the XML) or the other side of an evaluation; otherwise it stays unknown.
- Any declared encoding, or UTF-8 or UTF-16, is read. A document type with an internal subset, and any entity
  other than the five predefined ones, is refused; nothing outside the file is ever read.
- Results files of the VOC devkit, ``comp4_det_test_<class>.txt``, one file per class, with rows ``<image>
  <confidence> <xmin> <ymin> <xmax> <ymax>``, are read as detections. Files with other names need ``-O
  results=true``; the class is then the file name.

Writing
-------
- ``<image>.xml`` for every image, in the folder itself; if images have splits, or with ``-O layout=tree``, in
  ``Annotations/``, with ``ImageSets/Main/<split>.txt``, and ``default.txt`` for images without a split, as
  written by CVAT. That list is read as no split.
- Whole numbers have no decimal point, others all their digits; ``-O round=true`` writes only whole numbers.
- Detections have a ``<confidence>``; with ``-O results=true`` they are written as results files of the VOC
  devkit instead. An unknown size is omitted.
- ``<depth>`` is always 3 and ``<pose>`` Unspecified, because the official layout requires both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.gather import Gather, own_folder
from odm.formats._shared.image_names import image_places
from odm.formats._shared.number_text import whole_edges
from odm.formats._shared.safe_xml import XML_BEGINS, root_of
from odm.formats.voc.results import RESULT_NAME, read_results, result_files, write_results
from odm.formats.voc.terms import FLAGS, VocOptions
from odm.formats.voc.trees import find_splits, name_strays
from odm.issues import Log, UsageError, plural
from odm.tables import Builder, Dataset


def sniff(source: Source) -> Sniff | None:
    """Claim XML files whose root is <annotation>, and files named like the results of the VOC kit."""
    if not source.is_dir:
        name = source.relative()
        if RESULT_NAME.fullmatch(name):
            return Sniff(SURE, f"{name} is named like a result file of the VOC kit")
        looks = _looks(source.head())
        if looks is None or (looks[1] == "" and not name.lower().endswith(".xml")):
            return None
        if looks[1] == "":
            return Sniff(LIKELY, "the file is called .xml, and it has no other root element")
        return Sniff(looks[0], f"the root is <{looks[1]}>")
    files = source.with_suffix(".xml")
    if files:
        what = plural(len(files), "XML file")
        rootless = 0
        for file in files[:20]:
            looks = _looks(source.head(file))
            if looks is None:
                continue
            if looks[1]:
                which = "the first" if file == files[0] else file
                return Sniff(looks[0], f"{what}, {which} has the root <{looks[1]}>")
            rootless += 1
        if rootless == min(len(files), 20):
            return Sniff(LIKELY, f"{what}, none of which has another root element")
        return None
    results = result_files(source)
    if results:
        what = plural(len(results), "file is", "files are")
        return Sniff(SURE, f"{what} named like the result files of the VOC kit, the first {results[0]}")
    return None


def _looks(head: bytes) -> tuple[int, str] | None:
    """Confidence and root of what may be a VOC file, the root empty where there is none; else None."""
    text, root = root_of(head)
    if not root:
        return LIKELY, ""
    if root.rsplit(":", 1)[-1].lower() != "annotation":
        return None
    if "<bndbox" not in text and ("<polygon" in text or "<imagesize" in text):
        return None  # LabelMe has the same root
    certain = root == "annotation" and any(
        f"<{tag}" in text for tag in ("filename", "size", "object", "folder")
    )
    return (SURE if certain else LIKELY), root


def read(source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
    """Read XML files, or result files if the option or their names ask for it."""
    _check(options)
    if not source.is_dir:
        is_result = bool(RESULT_NAME.fullmatch(source.relative()))
        files = [""]
    else:
        files = source.with_suffix(".xml")
        is_result = not files and bool(result_files(source))
    if options.results or is_result:
        read_results(source, builder, log, options)
        return
    if not files:
        log.report(NO_FILES, source.path, expected="XML files", n=len(source.files))
        return
    from odm.formats.voc.reader import Reader

    gather = Gather(source, builder, log, options, own_folder(source), size_field="size")
    found = list(zip(files, image_places(source, files, gather.pictures), strict=True))
    roots = sorted({place.root for _, place in found if place.root is not None})
    found.sort(key=lambda location: location[1].key)
    chosen, splits = find_splits(source, found, roots, options.split, log)
    name_strays(source, roots, log)
    reader = Reader(gather, splits, {place.key: place.picture for _, place in chosen}, options.origin)
    for file, place in log.track(chosen, "reading"):
        data = source.read(file, log)
        if data is not None:
            reader.read(data, source.full(file), place.key)
    reader.finish()


def _check(options: VocOptions) -> None:
    if options.origin not in (0, 1):
        raise UsageError(f"origin={options.origin}: choose one of 0, 1")
    if options.layout not in ("auto", "flat", "tree"):
        raise UsageError(f"layout={options.layout}: choose one of auto, flat, tree")


def write(dataset: Dataset, target: Output, log: Log, options: VocOptions) -> None:
    """Write one XML file per image, or one result file per class."""
    _check(options)
    edges = dataset.boxes.xyxy
    if options.round:
        whole = whole_edges(edges)
        changed = int(np.count_nonzero(whole != edges))
        if changed:
            log.note(f"round=true: {changed} of {edges.size} coordinates are rounded to whole pixels")
        edges = whole
    if options.origin:
        edges = edges + np.array([1.0, 1.0, 0.0, 0.0])
    if options.results:
        write_results(dataset, target, log, edges)
    else:
        from odm.formats.voc.writer import write_xml

        write_xml(dataset, target, log, options, edges)


_KEEPS = frozenset(("size", "extension", "empty", "split", "score", "video", "track", *FLAGS))


def adapt(options: VocOptions) -> dict[str, Any]:
    """What result files change about the format."""
    return {"keeps": _KEEPS - {"video", "track"}} if options.results else {}


FORMAT = format_of(
    __name__,
    title="Pascal VOC XML",
    use="training",
    written_by="Pascal VOC, labelImg, CVAT, ImageNet DET, Roboflow (XML, and comp3/comp4 results)",
    suffixes=(".xml",),
    looks_at=(".xml", ".txt"),
    begins=XML_BEGINS,
    single=False,
    pictures="JPEGImages",
    keeps=_KEEPS,
)
