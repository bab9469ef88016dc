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
- A folder of XML files, nested or flat; one XML file; files without a suffix, as in Stanford Dogs, whose
  folders are no part of image names; the standard tree (``Annotations/``, ``JPEGImages/``,
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
- ``<robndbox>`` of roLabelImg (``cx cy w h angle``, in radians) or DIOR-R (``x_left_top``, ``y_left_top`` and
  so on) is an oriented box, with or without a ``<bndbox>`` beside it. Where only boxes are needed, the box
  around it is read, with a warning. FAIR1M (``<objects>`` with ``<points>``) and HRSC2016 (``<HRSC_Image>``)
  are read in the same way; the classes of the latter are numbers.
- CVAT writes the ``rotation`` of a rectangle, in degrees, into ``<attributes>`` beside ``<occluded>``. Where
  it is not 0, the object is an oriented box, with a note; ``-O rotation=ignore`` turns this off.
- In the standard tree the masks of objects are read from ``SegmentationObject/<image>.png`` where shapes are
  needed: pixels with the number k in its palette, or with the k-th of VOC's colours, as Datumaro and CVAT
  write them, belong to the k-th object; 255 is the border between objects.
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
- An oriented box has a ``<robndbox>`` beside its ``<bndbox>``.
- ``<depth>`` is always 3 and ``<pose>`` Unspecified, because the official layout requires both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.gather import Gather, find_folders
from odm.formats._shared.image_names import name_images, note_folders
from odm.formats._shared.text.numbers import round_edges, to_decimals
from odm.formats._shared.text.safe_xml import XML_BEGINS, find_root
from odm.formats._shared.text.tokens import Column, assemble
from odm.formats.voc.dialects import HRSC
from odm.formats.voc.results import RESULT_NAME, find_result_files, read_results, write_results
from odm.formats.voc.terms import FLAGS, NO_SPLIT, VocOptions, refuse_names
from odm.formats.voc.trees import find_splits, note_stray_files
from odm.issues import Log, UsageError, plural
from odm.names import stem
from odm.tables import Builder, Dataset, Flag, Floats, ShapeKind
from odm.tables.shapes import as_rectangles

_LABELME = ("<polygon", "<imagesize", "<sourceAnnotation", "<segm>")


def sniff(source: Source) -> Sniff | None:
    """Claim XML files whose root is <annotation>, and files named like the results of the VOC kit."""
    if not source.is_dir:
        name = source.relative()
        if RESULT_NAME.fullmatch(name):
            return Sniff(SURE, f"{name} is named like a result file of the VOC kit")
        confidence, root = _inspect_head(source.head()) or (0, "")
        if root:
            return Sniff(confidence, f"the root is <{root}>")
        if not confidence or not name.lower().endswith(".xml"):
            return None
        return Sniff(LIKELY, "the file is called .xml, and it has no other root element")
    if files := _find_xml_files(source):
        return _sniff_xml_files(source, files)
    if results := find_result_files(source):
        count_text = plural(len(results), "file is", "files are")
        return Sniff(SURE, f"{count_text} named like the result files of the VOC kit, the first {results[0]}")
    return None


def _sniff_xml_files(source: Source, files: Sequence[str]) -> Sniff | None:
    """Claim a folder if one of its first 20 XML files is VOC's, or if none of these has another root."""
    count_text = plural(len(files), "XML file")
    n_rootless = 0
    for file in files[:20]:
        answer = _inspect_head(source.head(file))
        if answer is None:  # it is of another format
            continue
        confidence, root = answer  # root "": none is in the part that was looked at
        if root:
            file_text = "the first" if file == files[0] else file
            return Sniff(confidence, f"{count_text}, {file_text} has the root <{root}>")
        n_rootless += 1
    if n_rootless == min(len(files), 20):
        return Sniff(LIKELY, f"{count_text}, none of which has another root element")
    return None


def _find_xml_files(source: Source) -> list[str]:
    """Return the XML files of a folder; if there are none, the files without a suffix that are VOC XML."""
    xml_files = source.with_suffix(".xml")
    without_suffix = (
        [] if xml_files else [file for file in source.files if "." not in file.rpartition("/")[2]]
    )

    def has_voc_root(file: str) -> bool:
        """Whether a file begins with the root element of VOC XML."""
        answer = _inspect_head(source.head(file))
        return answer is not None and bool(answer[1])

    if any(map(has_voc_root, without_suffix[:20])):  # only then are all opened
        return list(filter(has_voc_root, without_suffix))
    return xml_files


def _inspect_head(head: bytes) -> tuple[int, str] | None:
    """Return confidence and root element, "" if not seen, of a file that may be VOC XML; None if not."""
    text, root = find_root(head)
    if not root:
        return LIKELY, ""
    if root == HRSC:
        return SURE, root
    if root.rsplit(":", 1)[-1].lower() != "annotation":
        return None
    if "<bndbox" not in text and any(sign in text for sign in _LABELME):
        return None  # LabelMe has the same root
    has_elements = any(f"<{tag}" in text for tag in ("filename", "size", "object", "folder"))
    return (SURE if root == "annotation" and has_elements else LIKELY), root


def read(source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
    """Read XML files, or result files if the option or their names ask for it."""
    _check_options(options)
    files, is_result = [""], RESULT_NAME.fullmatch(source.relative()) is not None
    if source.is_dir:
        files = _find_xml_files(source)
        is_result = not files and bool(find_result_files(source))
    if options.results or is_result:
        read_results(source, builder, log, options)
        return
    if not files:
        log.report(NO_FILES, source.path, expected="XML files", n=len(source.files))
        return
    from odm.formats.voc.masks import ObjectMasks, find_masks
    from odm.formats.voc.reader import Reader

    gather = Gather(source, builder, log, options, find_folders(source), size_field="size")
    images = name_images(source, files, gather.pictures)
    # Files without a suffix have names without folders, if these stay different.
    if files[0] and not files[0].lower().endswith(".xml"):
        short_images = [image._replace(key=image.key.rpartition("/")[2]) for image in images]
        images = short_images if len({image.key for image in short_images}) == len(short_images) else images
    file_images = list(zip(files, images, strict=True))
    roots = sorted({image.root for _, image in file_images if image.root is not None})
    file_images.sort(key=lambda file_image: file_image[1].key)
    chosen_files, splits = find_splits(source, file_images, roots, options.split, log)
    note_stray_files(source, set(files), roots, log)
    masks = ObjectMasks(find_masks(source, chosen_files) if builder.wants else {}, builder, log)
    pictures = {image.key: image.picture for _, image in chosen_files}
    reader = Reader(gather, splits, pictures, options.origin, masks)
    for file, image in log.track(chosen_files, "reading"):
        data = source.read(file, log)
        if data is not None:
            reader.read(data, source.full(file), image.key)
    reader.finish()


def _check_options(options: VocOptions) -> None:
    """Raise UsageError for a value of `origin` or `layout` that does not exist."""
    if options.origin not in (0, 1):
        raise UsageError(f"origin={options.origin}: choose one of 0, 1")
    if options.layout not in ("auto", "flat", "tree"):
        raise UsageError(f"layout={options.layout}: choose one of auto, flat, tree")


def write(dataset: Dataset, target: Output, log: Log, options: VocOptions) -> None:
    """Write one XML file per image, or one result file per class; after an issue nothing is written."""
    _check_options(options)
    edges = dataset.boxes.xyxy
    if options.round:
        rounded = round_edges(edges)
        n_changed = int(np.count_nonzero(rounded != edges))
        if n_changed:
            log.note(f"round=true: {n_changed} of {edges.size} coordinates are rounded to whole pixels")
        edges = rounded
    if options.origin:  # pixels count from 1, and the last belongs to the box
        edges = edges + np.array([1.0, 1.0, 0.0, 0.0])
    if options.results:
        write_results(dataset, target, log, edges)
        return

    # The files, and the lists of the splits.
    images, boxes = dataset.images, dataset.boxes
    keys = [stem(name) for name in images.name]
    is_tree = options.layout == "tree" or (options.layout == "auto" and any(images.split))
    note_folders(dataset, log)
    folder = "Annotations/" if is_tree else ""
    files = [f"{folder}{key}.xml" for key in keys]
    keys_of_split: dict[str, list[str]] = {}
    if is_tree:
        keys_of_split = {} if keys else {NO_SPLIT: []}  # by its list, a tree without images is a tree
        for key, split in zip(keys, images.split, strict=True):
            keys_of_split.setdefault(split or NO_SPLIT, []).append(key)
    elif any(images.split):
        log.note("layout=flat: splits are not written")
    list_files = {split: f"ImageSets/Main/{split}.txt" for split in sorted(keys_of_split)}
    n_errors = log.errors
    refuse_names(dataset.categories.name, log)
    refuse_names(images.name, log)
    uses = [*images.name, *(f"the split {split}" for split in list_files)]
    if not target.plan([*files, *list_files.values()], uses, log) or log.errors > n_errors:
        return

    size_xml = "\t<size>\n\t\t<width>%d</width>\n\t\t<height>%d</height>\n\t\t<depth>3</depth>\n\t</size>\n"
    sizes = [
        size_xml % (w, h) if w > 0 and h > 0 else ""
        for w, h in zip(images.width.tolist(), images.height.tolist(), strict=True)
    ]
    names = _escape_all(images.name)
    objects = assemble(len(images), boxes.image, _format_objects(dataset, edges, options.origin))
    frames = _format_frames(dataset)
    for i, (file, name, size, text) in enumerate(
        zip(log.track(files, "writing"), names, sizes, objects, strict=True)
    ):
        frame_text = frames[i] if frames else ""
        head = f"<annotation>\n\t<filename>{name}</filename>\n{size}{frame_text}\t<segmented>0</segmented>\n"
        target.write(file, b"".join((head.encode(), text, b"</annotation>\n")))
    for split, file in list_files.items():
        target.write(file, "".join(f"{key}\n" for key in sorted(keys_of_split[split])).encode())


def _escape_all(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as XML writes them: with ``&amp;``, ``&lt;`` and ``&gt;``."""
    joined = "".join(texts)
    if not any(c in joined for c in "&<>"):
        return texts
    import html

    return [html.escape(text, quote=False) for text in texts]


def _format_frames(dataset: Dataset) -> list[str]:
    """Return the XML elements of the video and frame of each image; an empty list if there are no videos."""
    images = dataset.images
    if images.video is None:
        return []
    names = [f"\t<video>{name}</video>\n" for name in _escape_all(dataset.videos.name)]
    frame = np.full(len(images), -1) if images.frame is None else images.frame
    # -1 for an image without a video, or without a frame number
    names.append("")
    frame_texts = [f"\t<frame>{number}</frame>\n" if number >= 0 else "" for number in frame.tolist()]
    return [
        names[video] + (frame_text if video >= 0 else "")
        for video, frame_text in zip(images.video.tolist(), frame_texts, strict=True)
    ]


def _format_objects(dataset: Dataset, edges: Floats, origin: int) -> list[bytes | Column]:
    """Return the pieces of XML of the objects: constant bytes, and columns with a text for each box.

    `edges` (n, 4) are those to write.
    """
    boxes = dataset.boxes
    pieces: list[bytes | Column] = [_format_heads(dataset)]
    lacks_score = np.isnan(boxes.score)
    if not lacks_score.all():
        score = np.array(to_decimals(np.nan_to_num(boxes.score)), np.bytes_)
        for text in (b"\t\t<confidence>", score, b"</confidence>\n"):  # each empty where there is none
            piece = np.resize(np.array(text, np.bytes_), len(boxes))  # repeats a constant for each box
            piece[lacks_score] = b""
            pieces.append(piece)
    if boxes.track is not None:
        ids = _escape_all([str(i) for i in dataset.tracks.source_id.tolist()])
        cells = [f"\t\t<trackid>{id_}</trackid>\n".encode() for id_ in ids] + [b""]
        # after the class and before a score; the last cell is for boxes without a track
        pieces.insert(1, (np.array(cells, np.bytes_), np.where(boxes.track < 0, len(ids), boxes.track)))
    texts = np.array(to_decimals(edges.reshape(-1)), np.bytes_)
    separator = b"\t\t<bndbox>\n"
    for i, name in enumerate((b"xmin", b"ymin", b"xmax", b"ymax")):
        pieces += [separator + b"\t\t\t<%b>" % name, texts[i::4]]
        separator = b"</%b>\n" % name  # closed by the next piece
    return [*pieces, separator + b"\t\t</bndbox>\n", *_format_oriented(dataset, origin), b"\t</object>\n"]


def _format_heads(dataset: Dataset) -> tuple[NDArray[np.bytes_], NDArray[Any]]:
    """Return the XML before the coordinates of each box: k texts, and (n,) which of them a box has.

    They depend on class and flags alone, so there are few. A kind is a class in the high bits, and flags in
    the low 16.
    """
    boxes, names = dataset.boxes, _escape_all(dataset.categories.name)
    known_flags = int(Flag.TRUNCATED | Flag.DIFFICULT | Flag.OCCLUDED)
    kinds = boxes.category.astype(np.int64) * 65536 + (boxes.flags & known_flags)
    distinct_kinds, kind_of_box = np.unique(kinds, return_inverse=True)
    heads = []
    for kind in distinct_kinds.tolist():
        category, flags = divmod(kind, 65536)
        heads.append(
            f"\t<object>\n\t\t<name>{names[category]}</name>\n"
            f"\t\t<pose>Unspecified</pose>\n"
            f"\t\t<truncated>{int(flags & Flag.TRUNCATED > 0)}</truncated>\n"
            f"\t\t<difficult>{int(flags & Flag.DIFFICULT > 0)}</difficult>\n"
            f"\t\t<occluded>{int(flags & Flag.OCCLUDED > 0)}</occluded>\n".encode()
        )
    return np.array(heads or [b""], np.bytes_), kind_of_box


def _format_oriented(dataset: Dataset, origin: int) -> list[bytes | Column]:
    """Return the column with the XML element of each oriented box, empty for other boxes.

    Pixels count from `origin`, which is added to the corners.
    """
    shapes = dataset.boxes.shapes
    if shapes is None:
        return []
    rows = np.flatnonzero(shapes.kind == ShapeKind.ORIENTED)
    texts = to_decimals(as_rectangles(shapes.corners(rows) + origin).ravel())
    texts_of_boxes = [b""] * len(dataset.boxes)
    for i, row in enumerate(rows.tolist()):
        values = zip(("cx", "cy", "w", "h", "angle"), texts[5 * i : 5 * i + 5], strict=True)
        inner = "".join(f"\t\t\t<{tag}>{text}</{tag}>\n" for tag, text in values)
        text = f"\t\t<type>robndbox</type>\n\t\t<robndbox>\n{inner}\t\t</robndbox>\n"
        texts_of_boxes[row] = text.encode()
    return [np.array(texts_of_boxes, np.bytes_)]


_KEEPS = frozenset(("size", "extension", "empty", "split", "score", "video", "track", *FLAGS)).union(
    ("oriented", "rectangle")
)


def adapt(options: VocOptions) -> dict[str, Any]:
    """Return what the option ``results`` changes about the format: result files keep less."""
    return {"keeps": _KEEPS - {"video", "track", "oriented", "rectangle"}} if options.results else {}


FORMAT = format_of(
    __name__,
    title="Pascal VOC XML",
    expects=("annotation", "object", "bndbox"),
    use="training",
    written_by="Pascal VOC, labelImg, roLabelImg, CVAT, ImageNet DET, Roboflow, comp3/comp4 results",
    suffixes=(".xml",),
    looks_at=(".xml", ".txt", "."),
    begins=XML_BEGINS,
    pictures="JPEGImages",
    keeps=_KEEPS,
)
