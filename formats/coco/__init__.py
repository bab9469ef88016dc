"""COCO JSON: instances files and results files.

An instances file is one object::

    {"images": [{"id": 1, "file_name": "a.jpg", "width": 640, "height": 480}],
     "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [x, y, w, h],
                      "area": 9, "iscrowd": 0}],
     "categories": [{"id": 1, "name": "person", "supercategory": "person"}]}

``bbox`` is left, top, width and height in pixels. If every annotation has a ``score``, the file contains
detections. If only some have one, it is read as ground truth without the scores, with a warning.

A results file is a list of detections::

    [{"image_id": 1, "category_id": 1, "bbox": [x, y, w, h], "score": 0.9}]

Predictions of Detectron2, which have a list ``instances`` for each image, are read as one list. The images
and categories come from the ground truth (``--gt GT.json``; in ``eval`` the other side), which may
be in any format. All ids in the file are interpreted in the same way, with a note unless it is the first of
these:

- ``image_id``: the id of an image there; or the image name or stem; or the number in the stem
  (``000000123.jpg`` is 123).
- ``category_id``: the id of a category there or, if it has no ids, the position in its list from 1 or the
  category name. ``-O ids=positions`` and ``-O ids=80`` read them as positions from 0, as used in training,
  and ``-O ids=positions-from-1`` as Ultralytics writes them for the classes of a ``data.yaml``. The latter is
  detected if no id is 0 and one equals the number of classes.

Reading: ids may start at 0, have gaps, be text, or be written ``1.0`` (a warning); where the list has only 7,
``"7"`` is 7, and the reverse (with a note); integer ids are exact to 64 bits. ``iscrowd``, ``area`` and an
annotation's ``id`` may be missing, and so may the image size (with a warning; use ``--images``,
``--image-size`` or ``--image-sizes``). Annotations may have the same id (a warning), unless another field
refers to it; repeated ids are renumbered in writing. A missing ``file_name`` is replaced by the id, and
categories with the same name are merged (both with a warning). Where several images of a file have one
``file_name``, each id is added to it (``a-1.jpg``, with a note). A missing or empty ``bbox`` is replaced by
the box around ``segmentation``, the oriented box or the labelled ``keypoints``, with a note. Annotations
without any of these are counted as lost where others have boxes. If all coordinates are in 0..1, boxes are
relative to the image size, as written by Azure ML, with a note; ``-O units=pixel`` and
``-O units=normalized`` override this; an ``area`` above 1 is in pixels even then. ``area`` is kept, because
it is the area of the mask. ``iscrowd`` may be ``true``, ``false`` or ``null``, for 1, 0, 0. The
``segments_info`` of panoptic files are read as boxes, with a note; their masks, in PNG files, are counted as
lost.

A box without an outline whose ``attributes`` have CVAT's ``occluded`` and a ``rotation`` that is not 0 is an
oriented box, turned clockwise by these degrees about its centre, and its ``bbox`` becomes the box around it,
with a note; ``-O rotation=ignore`` turns this off.

If the target is COCO or LVIS too, all other keys are written again as they were: of annotations and results
(``segmentation`` as polygons or in either spelling of RLE, ``keypoints``, ``attributes``, ...), of images
(``license``, ``coco_url``, ...), of categories (``supercategory``, ``keypoints``, ``skeleton``, ...) and of
the file (``info``, ``licenses``). Files that become one keep the ``info`` of the first, and their licences
are numbered from 1 if they disagree. For any other target these keys are counted as lost.

A folder is read as one dataset with one class order: all its ``instances_<split>.json`` or, if there are
none, every file that looks like COCO; ``<split>/_annotations.coco.json`` also gives its split. ``--split``
selects one split. Pictures in the folder are found beside the file that names them, and in ``<split>/`` or
``images/<split>/``.

Writing: a ``.json`` target is a single file, any other target a folder of ``instances_<split>.json``, or
``detections_<split>.json``. Ids of images and categories are kept if all are whole numbers, otherwise they
count from 1; annotation ids are kept if they are unique and at least 1, else numbered from 1, because the
official tools mis-score an annotation with id 0. ``segmentation`` is an empty list where there is none, as
some tools need the key. Numbers are written with the fewest digits that read back exactly, whole numbers
without a decimal point. Detections are written as a results list with the ids of ``--gt`` if it is given,
otherwise as one object with a ``score`` per annotation; ``-O results=true`` and ``-O results=false`` override
this.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.codes import report_unknown_split
from odm.files import UNREADABLE, Output, Source, Unreadable
from odm.formats._contract import LIKELY, RELATIONAL, SURE, Part, Sniff, format_of, option, parse_bool
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.json.preview import JsonPreview, glance
from odm.formats._shared.shapes.rotation import RotationOptions
from odm.formats._shared.split_names import SPLITS, miss_split
from odm.issues import Log, UsageError
from odm.tables import Builder, Dataset


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CocoOptions(RotationOptions):
    """Options of COCO JSON."""

    split: str | None = option(None, "read only this split of a folder", flag="--split", side="read")
    results: bool | None = option(
        None,
        "write detections as a results list (true) or as one object with images and categories (false); "
        "default: a list if --gt gives the ids",
        side="write",
        parse=parse_bool,
    )
    ids: str | None = option(
        None,
        "what the category ids of results mean: ids, positions in the ground truth's list of categories "
        "from 0 or from 1, or in COCO's 80 classes, 0 to 79",
        choices=("positions", "positions-from-1", "80"),
        side="read",
    )
    units: str = option(
        "auto",
        "what the numbers of a bbox are: pixels, or relative to the image's size",
        choices=("auto", "pixel", "normalized"),
        side="read",
    )
    boxes: str = option(
        "given",
        "where boxes and areas come from: the bbox, or the shapes (then no bbox is read)",
        choices=("given", "shapes"),
        side="read",
    )
    rle: str | None = option(
        None,
        "how masks are written: as compressed text, or as lists of run lengths; default: lists for crowds of "
        "ground truth, as in COCO's own files",
        choices=("text", "list"),
        side="write",
    )
    span: Any = None
    """The records of a results list that are read, a `long_lists.Span`; all without it."""
    reference: Dataset | None = None
    """The ground truth whose ids a results list is written with; the framework fills it in."""


def _looks_like(look: JsonPreview) -> tuple[int, str] | None:
    """Confidence and reason from the start of a file."""
    from odm.formats.coco.values import has_instances
    from odm.formats.coco.videos import has_tubes

    if look.top == "[]":
        return LIKELY, "it is an empty list, like results without detections"
    if has_tubes(look):
        return SURE, "its records are tracks of videos, with a list of boxes each"
    if has_instances(look):
        return SURE, "its records have an image_id and instances, as predictions of Detectron2"
    if look.top == "[":
        first = look.first.get("", {})
        known = [key for key in ("image_id", "category_id", "bbox", "score") if key in first]
        if "image_id" in known and len(known) >= 2:
            return (SURE if len(known) >= 3 else LIKELY), f"it is a list of records with {_and(known)}"
        return None
    lists = [key for key in ("images", "annotations", "categories") if look.keys.get(key) == "["]
    wants = {
        "images": ({"id"}, {"file_name", "width", "height"}),
        "annotations": ({"image_id"}, {"bbox", "category_id", "segmentation", "id"}),
        "categories": ({"id"}, {"name"}),
    }
    fits = []
    for key in lists:
        record = look.first.get(key)
        if record is not None and not (wants[key][0] <= record.keys() or wants[key][1] & record.keys()):
            return None  # another format that uses the same word
        if record is not None and wants[key][0] <= record.keys() and wants[key][1] & record.keys():
            fits.append(key)
    if "annotations" in fits or len(lists) >= 2:
        return SURE, f"it has the {'list' if len(lists) == 1 else 'lists'} {_and(lists)}, as in COCO"
    if "images" in fits:
        return LIKELY, "it has a list of images with ids, as in COCO"
    # What is seen so far is how COCO begins.
    usual = {"info", "licenses", "type", "images", "annotations", "categories"}
    if look.cut and look.keys and look.keys.keys() <= usual:
        return LIKELY, f"it begins with {_and(list(look.keys))}, as in COCO"
    return None


def _check_head(head: bytes) -> tuple[int, str] | None:
    """Confidence and reason from the first bytes of a file; a few suffice for most."""
    answer = _looks_like(glance(head[:4096]))
    if (answer is None or answer[0] < SURE) and len(head) > 4096:
        answer = _looks_like(glance(head))
    return answer


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys of the first bytes."""
    if not source.is_dir:
        head = source.head()
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        answer = _check_head(head)
        return Sniff(*answer) if answer else None
    chosen, _ = source.once(_choose)
    if not chosen:
        return None
    names = [file for file, _ in chosen]
    shown = _and(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more files"
    answer = _check_head(source.head(names[0]))
    assert answer
    return Sniff(answer[0], f"of {shown}: {answer[1]}")


_SPLIT = re.compile(r"(?:instances|detections|results|annotations)[-_](.+)\.json", re.IGNORECASE)
_LOOKS = 50
"""Files of a folder that are looked at; a folder of one file per image has thousands, and is not COCO."""


def _choose(source: Source) -> tuple[list[tuple[str, str]], list[str]]:
    """The files of a folder that are read, each with its split, and the other ``.json`` files."""
    heads: dict[str, bytes] = {}
    listed = source.with_suffix(".json")
    for number, file in enumerate(listed):
        if number >= _LOOKS and not heads:
            break
        head = source.head(file)
        if _check_head(head):
            heads[file] = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    objects = [file for file, top in heads.items() if top == b"{"]
    named = [file for file in objects if file.rsplit("/", 1)[-1].lower().startswith("instances")]
    files = named or objects or list(heads)
    return [(file, _split_of(file)) for file in files], [file for file in listed if file not in files]


def _unlike(source: Source, files: Sequence[str], log: Log) -> dict[str, bool]:
    """Map each file that does not look like COCO to whether it should be: by its name, or as it
    is empty.

    Files that should be COCO are read all the same, so that the reader reports what is wrong.
    """
    reasons = {}
    for file in files:
        try:
            blank = not source.peek(file)  # a file whose writing was interrupted
        except Unreadable as e:
            log.report(UNREADABLE, source.full(file), reason=str(e))
            continue
        reasons[file] = blank or file.rsplit("/", 1)[-1].lower().startswith("instances_")
    return reasons


def _split_of(file: str) -> str:
    """The split that a path names, else nothing."""
    folder, _, name = file.rpartition("/")
    if match := _SPLIT.fullmatch(name):
        if match[1].lower() in ("coco", "coco.json"):
            return folder.rsplit("/", 1)[-1]
        return match[1]
    word = name[: -len(".json")]
    if word.lower() in SPLITS:
        return word
    parent = folder.rsplit("/", 1)[-1]
    return parent if name.startswith("_annotations") or parent.lower() in SPLITS else ""


def read(source: Source, builder: Builder, log: Log, options: CocoOptions) -> None:
    """Read one file, or the files of a folder with one class order."""
    from odm.formats.coco.reader import Reader

    if not source.is_dir:
        files = [("", "")]
        source_split = _split_of(source.path)
        if options.split not in (None, source_split):
            report_unknown_split(
                log, source.path, options.split, [source_split], none="this file has no splits"
            )
            return
    else:
        chosen, unlike = source.once(_choose)
        errors = log.errors
        others = _unlike(source, unlike, log)
        files = [*chosen, *((file, _split_of(file)) for file in others if others[file])]
        if files or log.errors == errors:
            candidates = [*(file for file, _ in chosen), *others]
            report_unread(source, candidates, [file for file, _ in files], "COCO JSON", log)
        if not files or miss_split(options.split, (split for _, split in files), source, log):
            return
        files = [(file, split) for file, split in files if options.split in (None, split)]
    reader_options: dict[str, Any] = {"counted": options.ids, "units": options.units, "boxes": options.boxes}
    reader_options["span"] = options.span
    reader = Reader(source, builder, log, options, **reader_options)
    for file, split in files:
        reader.read(file, split)
    reader.finish()


def begin(source: Source) -> None:
    """Let other processes decode a long list from now on."""
    from odm.formats.coco import long_lists

    source.once(long_lists.begin)


BYTES_PER_ROW = 60
"""Of JSON as many bytes as take, when they are read, the memory of a detection that is matched."""


def parts(source: Source, options: CocoOptions, rows: int, log: Log) -> list[Part]:
    """Files, or spans of a results list. Whether all boxes lie in 0..1 no file can tell for another."""
    from odm.formats.coco.long_lists import divide

    chosen, others = source.once(_choose)
    bad = _unlike(source, others, log.fresh())
    # Those that cannot be read are parts too, so that their fault ends the run here as well.
    chosen = [*chosen, *((file, _split_of(file)) for file in others if bad.get(file, True))]
    if source.is_dir and chosen:
        read_files = [file for file, _ in chosen]
        report_unread(source, [*read_files, *bad], read_files, "COCO JSON", log)
    files = [file for file, split in chosen if options.split in (None, split)]
    if len(files) > 1 and options.units == "auto":
        options = dataclasses.replace(options, units="pixel")
    parts: list[Part] = []
    for file in files if source.is_dir else [""]:
        size, divided = source.size(file), None
        if size > rows * BYTES_PER_ROW and not source.encoding:
            divided = divide(source, file, rows * BYTES_PER_ROW, options.units)
        if divided is None:
            parts.append(Part(file, size // BYTES_PER_ROW, options))
            continue
        spans, units = divided
        for span in spans:
            chosen_options = dataclasses.replace(options, units=units, span=span)
            parts.append(Part(file, (span.stop - span.start) // BYTES_PER_ROW, chosen_options))
    return parts


def write(dataset: Dataset, target: Output, log: Log, options: CocoOptions) -> None:
    """Write one file, or one per split."""
    from odm.formats.coco.writer import object_of, result_ids, results_of

    results = options.results
    if results is None:
        results = dataset.kind == "det" and options.reference is not None
    elif results and dataset.kind != "det":
        raise UsageError("results=true is for detections, but this is ground truth")
    if results and options.reference is None:
        log.note("a results list holds only image and class ids, not names: give the ground truth with --gt")
    ids = result_ids(dataset, options.reference, log) if results else None
    if results and ids is None:
        return
    images, word = dataset.images, "detections" if dataset.kind == "det" else "instances"
    splits = [""] if target.single else sorted(set(images.split)) or [""]
    names = [f"{word}_{split}.json" if split else f"{word}.json" for split in splits]
    if target.single:
        names = [""]
    elif not target.plan(names, [f"the split {s}" if s else "the images" for s in splits], log):
        return
    for split, name in zip(splits, names, strict=True):
        chosen = np.array([len(splits) == 1 or s == split for s in images.split], np.bool_)
        box_rows = np.flatnonzero(chosen[dataset.boxes.image])
        if ids is not None:
            target.write(name, results_of(dataset, box_rows, *ids, log, options.rle))
        else:
            target.write(name, object_of(dataset, np.flatnonzero(chosen), box_rows, log, rle=options.rle))


FORMAT = format_of(
    __name__,
    title="COCO JSON",
    expects=("images", "annotations", "categories"),
    use="training",
    written_by="COCO, Roboflow, CVAT, labelme2coco, Detectron2, MMDetection, Ultralytics results "
    "(instances, results)",
    suffixes=(".json",),
    begins="[{",
    single=True,
    owns_suffix=True,
    keeps=RELATIONAL
    | {"split", "crowd", "video", "track", "track_score", "own_fields"}
    | {"polygon", "parts", "mask", "oriented", "keypoints", "visibility"},
    split_is_file=True,
)
