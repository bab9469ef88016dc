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
from odm.formats._shared.split_names import SPLITS, report_missing_split
from odm.issues import Log, UsageError, spell
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


def _looks_like(preview: JsonPreview) -> tuple[int, str] | None:
    """Return confidence and reason from the start of a file; None if it does not look like COCO."""
    from odm.formats.coco.values import has_instances
    from odm.formats.coco.videos import has_tubes

    if preview.top == "[]":
        return LIKELY, "it is an empty list, like results without detections"
    if has_tubes(preview):
        return SURE, "its records are tracks of videos, with a list of boxes each"
    if has_instances(preview):
        return SURE, "its records have an image_id and instances, as predictions of Detectron2"
    if preview.top == "[":
        first_record = preview.first.get("", {})  # "" is the key of an outermost list
        keys = [key for key in ("image_id", "category_id", "bbox", "score") if key in first_record]
        if "image_id" in keys and len(keys) >= 2:
            return (SURE if len(keys) >= 3 else LIKELY), f"it is a list of records with {_join(keys)}"
        return None
    return _look_at_lists(preview)


def _look_at_lists(preview: JsonPreview) -> tuple[int, str] | None:
    """Return confidence and reason from the lists of an object and their first records, else None.

    A list is COCO's if its first record has the keys that are required, and one of those that are usual.
    """
    lists = [key for key in ("images", "annotations", "categories") if preview.keys.get(key) == "["]
    required_and_usual_keys = {
        "images": ({"id"}, {"file_name", "width", "height"}),
        "annotations": ({"image_id"}, {"bbox", "category_id", "segmentation", "id"}),
        "categories": ({"id"}, {"name"}),
    }
    coco_lists = []
    for key in lists:
        if (record := preview.first.get(key)) is None:
            continue  # the list is empty, or its first record lies beyond the preview
        required, usual = required_and_usual_keys[key]
        has_required, has_usual = required <= record.keys(), bool(usual & record.keys())
        if not (has_required or has_usual):
            return None  # another format that uses the same word
        if has_required and has_usual:
            coco_lists.append(key)
    if "annotations" in coco_lists or len(lists) >= 2:
        return SURE, f"it has the {'list' if len(lists) == 1 else 'lists'} {_join(lists)}, as in COCO"
    if "images" in coco_lists:
        return LIKELY, "it has a list of images with ids, as in COCO"
    # What is seen so far is how COCO begins.
    usual_keys = {"info", "licenses", "type", "images", "annotations", "categories"}
    if preview.cut and preview.keys and preview.keys.keys() <= usual_keys:
        return LIKELY, f"it begins with {_join(list(preview.keys))}, as in COCO"
    return None


def _check_head(head: bytes) -> tuple[int, str] | None:
    """Return confidence and reason from the first bytes of a file; the first 4096 suffice for most."""
    confidence_and_reason = _looks_like(glance(head[:4096]))
    if (confidence_and_reason is None or confidence_and_reason[0] < SURE) and len(head) > 4096:
        confidence_and_reason = _looks_like(glance(head))
    return confidence_and_reason


def _join(words: Sequence[str]) -> str:
    """Join words to ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys of the first bytes, in a folder those of the first file that is read."""
    if not source.is_dir:
        head = source.head()
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        confidence_and_reason = _check_head(head)
        return Sniff(*confidence_and_reason) if confidence_and_reason else None
    coco_files, _ = source.once(_choose_files)
    if not coco_files:
        return None
    names = [file for file, _ in coco_files]
    names_text = _join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more files"
    confidence_and_reason = _check_head(source.head(names[0]))
    assert confidence_and_reason  # `_choose_files` takes no other files
    confidence, reason = confidence_and_reason
    return Sniff(confidence, f"of {names_text}: {reason}")


_SPLIT = re.compile(r"(?:instances|detections|results|annotations)[-_](.+)\.json", re.IGNORECASE)
_MAX_SNIFFED = 50
"""Files of a folder of which one must look like COCO; a folder of one file per image has thousands."""


def _choose_files(source: Source) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the files of a folder that are read, each with its split, and the other ``.json`` files.

    Of those that look like COCO, ``instances*`` are read, else all that are objects, else all lists.
    """
    heads: dict[str, bytes] = {}
    json_files = source.with_suffix(".json")
    for index, file in enumerate(json_files):
        if index >= _MAX_SNIFFED and not heads:
            break
        head = source.head(file)
        if _check_head(head):
            heads[file] = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    object_files = [file for file, top in heads.items() if top == b"{"]
    preferred = [file for file in object_files if file.rsplit("/", 1)[-1].lower().startswith("instances")]
    files = preferred or object_files or list(heads)
    return [(file, _split_of(file)) for file in files], [file for file in json_files if file not in files]


def _expect_coco(source: Source, files: Sequence[str], log: Log) -> dict[str, bool]:
    """Return for each of `files`, which do not look like COCO, whether it should: by its name, or as it is
    empty. Unreadable files are reported and left out.

    Files that should be COCO are read all the same, so that the reader reports what is wrong.
    """
    should_be_coco = {}
    for file in files:
        try:
            is_blank = not source.peek(file)  # a file whose writing was interrupted
        except Unreadable as e:
            log.report(UNREADABLE, source.full(file), reason=str(e))
            continue
        should_be_coco[file] = is_blank or file.rsplit("/", 1)[-1].lower().startswith("instances_")
    return should_be_coco


def _split_of(file: str) -> str:
    """Return the split that a path names, else an empty text."""
    folder, _, name = file.rpartition("/")
    if match := _SPLIT.fullmatch(name):
        if match[1].lower() in ("coco", "coco.json"):  # train/annotations_coco.json
            return folder.rsplit("/", 1)[-1]
        return match[1]
    word = name[: -len(".json")]
    if word.lower() in SPLITS:
        return word
    parent = folder.rsplit("/", 1)[-1]
    return parent if name.startswith("_annotations") or parent.lower() in SPLITS else ""


def read(source: Source, builder: Builder, log: Log, options: CocoOptions) -> None:
    """Read one file, or the files of a folder with one class order; only those of `options.split`, if any."""
    from odm.formats.coco.reader import Reader

    if source.is_dir:
        files = _list_files_of_split(source, options.split, log)
        if not files:
            return
    else:
        files = [("", "")]
        source_split = _split_of(source.path)
        if options.split not in (None, source_split):
            report_unknown_split(
                log, source.path, options.split, [source_split], no_splits="this file has no splits"
            )
            return
    reader_options: dict[str, Any] = {"counted": options.ids, "units": options.units, "boxes": options.boxes}
    reader = Reader(source, builder, log, options, **reader_options, span=options.span)
    for file, split in files:
        reader.read(file, split)
    reader.finish()


def _list_files_of_split(source: Source, split: str | None, log: Log) -> list[tuple[str, str]]:
    """Return the files of a folder that are read, each with its split; of one `split` unless it is None.

    Files that are not read are reported, and so is a folder without files or without the split: then the
    list is empty.
    """
    coco_files, other_files = source.once(_choose_files)
    n_errors = log.errors
    # True: read all the same. False: another JSON file, which is only reported as not read.
    should_be_coco = _expect_coco(source, other_files, log)
    files = [*coco_files, *((file, _split_of(file)) for file in should_be_coco if should_be_coco[file])]
    if files or log.errors == n_errors:  # else all that is there could not be opened, as was reported
        candidates = [*(file for file, _ in coco_files), *should_be_coco]
        report_unread(source, candidates, [file for file, _ in files], "COCO JSON", log)
    if not files or report_missing_split(split, (split_of_file for _, split_of_file in files), source, log):
        return []
    return [(file, split_of_file) for file, split_of_file in files if split in (None, split_of_file)]


def begin(source: Source) -> None:
    """Let other processes decode a long list from now on."""
    from odm.formats.coco import long_lists

    source.once(long_lists.begin_decoding)


BYTES_PER_ROW = 60
"""Bytes of JSON that take as much memory to read as one detection takes to match."""


def parts(source: Source, options: CocoOptions, rows: int, log: Log) -> list[Part]:
    """Return the parts to be read one by one: files, or spans of about `rows` boxes of a results list.

    The options of a part have the units of all boxes of its file. Several files are read in pixels, since a
    file cannot tell whether the boxes of the others lie in 0..1.
    """
    from odm.formats.coco.long_lists import divide

    chosen, other_files = source.once(_choose_files)
    should_be_coco = _expect_coco(source, other_files, log.fresh())  # these files are reported when read
    # Unreadable files, which `should_be_coco` lacks, are parts too, so that their fault ends the run here.
    chosen = [*chosen, *((file, _split_of(file)) for file in other_files if should_be_coco.get(file, True))]
    if source.is_dir and chosen:
        read_files = [file for file, _ in chosen]
        report_unread(source, [*read_files, *should_be_coco], read_files, "COCO JSON", log)
    files = [file for file, split in chosen if options.split in (None, split)]
    if len(files) > 1 and options.units == "auto":
        options = dataclasses.replace(options, units="pixel")
    parts: list[Part] = []
    for file in files if source.is_dir else [""]:
        # A compressed file, which has an encoding, cannot be read from the middle.
        size, spans_and_units = source.size(file), None
        if size > rows * BYTES_PER_ROW and not source.encoding:
            spans_and_units = divide(source, file, rows * BYTES_PER_ROW, options.units)
        if spans_and_units is None:
            parts.append(Part(file, size // BYTES_PER_ROW, options))
            continue
        spans, units = spans_and_units
        for span in spans:
            span_options = dataclasses.replace(options, units=units, span=span)
            parts.append(Part(file, (span.stop - span.start) // BYTES_PER_ROW, span_options))
    return parts


def write(dataset: Dataset, target: Output, log: Log, options: CocoOptions) -> None:
    """Write one file, or one per split. Raises UsageError for a results list of ground truth."""
    from odm.formats.coco.writer import encode_object, encode_results, find_result_ids

    as_results = options.results
    if as_results is None:  # the user did not choose
        as_results = dataset.kind == "det" and options.reference is not None
    elif as_results and dataset.kind != "det":
        raise UsageError("results=true is for detections, but this is ground truth")
    if as_results and options.reference is None:
        advice = f"give the ground truth with {spell('gt')}"
        log.note(f"a results list holds only image and class ids, not names: {advice}")
    ids = find_result_ids(dataset, options.reference, log) if as_results else None
    if as_results and ids is None:
        return
    images, word = dataset.images, "detections" if dataset.kind == "det" else "instances"
    splits, names = [""], [""]
    if not target.single:
        splits = sorted(set(images.split)) or [""]
        names = [f"{word}_{split}.json" if split else f"{word}.json" for split in splits]
        uses = [f"the split {split}" if split else "the images" for split in splits]
        if not target.plan(names, uses, log):
            return
    for split, name in zip(splits, names, strict=True):
        is_in_split = np.array([len(splits) == 1 or s == split for s in images.split], np.bool_)
        box_rows = np.flatnonzero(is_in_split[dataset.boxes.image])
        if ids is not None:
            target.write(name, encode_results(dataset, box_rows, *ids, log, options.rle))
        else:
            target.write(
                name, encode_object(dataset, np.flatnonzero(is_in_split), box_rows, log, rle=options.rle)
            )


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
