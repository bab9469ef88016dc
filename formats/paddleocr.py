"""PaddleOCR text detection: one line per image, its path, a tab, and a JSON list of the texts in it.

::

    imgs/a.jpg  [{"transcription": "MASA", "points": [[310, 104], [416, 104], [416, 216], [310, 216]]}]
    imgs/b.jpg  [{"transcription": "###", "points": [[10, 10], [40, 10], [40, 20], [10, 20]]}]

Syntax: the text detection datasets of PaddleOCR (https://github.com/PaddlePaddle/PaddleOCR) and the readme
of PPOCRLabel (https://github.com/PFCCLab/PPOCRLabel), which writes ``Label.txt``. ``points`` are the corners
of a text in pixels, clockwise, four or more. An empty list is an image without text.

Reading
-------
- A file, or the ``.txt`` files of a folder that look like this: ``Label.txt``, ``train_label.txt``,
  ``test_icdar2015_label.txt``. The file, or else its folder, gives the split of its images; ``--split``
  selects one of them. ``Cache.cach`` of PPOCRLabel is read only if it is itself the source.
- The path is the image name, with its folders.
- Four points are an oriented box unless they are an upright one, more are an outline, and the box is the one
  around them. Where only boxes are needed, there is a warning if one is larger than its
  text, and the shape is counted as lost.
- The transcriptions ``###`` and ``*`` mean that training and evaluation ignore the text: it is read as crowd.
  Other transcriptions are counted but not kept. ``difficult`` is read as the flag *difficult*.
- The class is ``key_cls`` or ``label``, as in data for key information extraction, and otherwise ``text``.
- If every text has a ``score``, they are detections. ``system_results.txt`` and ``det_results.txt`` have
  none: ``-O score=1`` gives all texts the same score. A list of points without keys is read too.
- The results of PaddleOCR 3 and PaddleX, ``NAME_res.json`` of each image, are detections: ``dt_polys`` with
  ``dt_scores``, ``rec_polys`` with ``rec_scores``, or ``boxes`` of objects with a ``label``, a ``score`` and
  a ``coordinate``. The image is ``input_path``.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
``Label.txt``, or one file per split. The transcription is ``text``, or ``###`` for crowd boxes; classes other
than ``text`` are written as ``key_cls``. ``-O prefix=imgs`` is put before the names: PPOCRLabel expects the
name of the folder there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.json.items import BadRecord, Origin, Row, Rows, iter_images, read_item
from odm.formats._shared.json.preview import JsonPreview, sniff_json
from odm.formats._shared.json.values import Nothing, Reader, check_classes, choose_files, dump, read_lines
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import (
    SplitOptions,
    list_split_files,
    normalise_split,
    parse_split,
    select_split,
    write_splits,
)
from odm.formats._shared.text.tokens import describe_lines
from odm.issues import Log, Trusted, UsageError, printable, spell_setting
from odm.names import refuse_name
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "transcription points difficult key_cls label id* linking* score input_path page_index dt_polys "
    "dt_scores rec_polys rec_scores rec_texts rec_boxes boxes cls_id coordinate model_settings* "
    "text_det_params* text_type textline_orientation_angles text_rec_score_thresh"
)
CLASS = "text"
_LABELS = (".txt", ".json")
"""Suffixes of label files, which are lines of text; those of XFUND are called ``.json``."""
IGNORED = ("###", "*")
_LINE = re.compile(rb'[^\t]+\t[ ]*\[[ ]*(?:\][ \r]*$|\[[ ]*\[|\{(?=.*"points"))')
"""An image, a tab, and a list that is empty, of lists of points, or of objects with ``points``."""
_USUAL = re.compile(r"(?:^|/|_)label\.txt$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PaddleocrOptions(SplitOptions):
    """Options of PaddleOCR's label files."""

    score: float | None = option(None, "confidence of detections that have none", side="read")
    prefix: str = option("", "prefix of the image names, as in imgs", side="write")


def _count_fitting(source: Source, file: str) -> tuple[int, int]:
    """Count the first lines of a file, at most 100, that have an image and its texts, and all of these."""
    lines = source.head(file).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    sample = [line for line in lines[: max(1, len(lines) - 1)][:100] if line.strip()]
    return sum(_LINE.match(line) is not None for line in sample), len(sample)


def _is_label_file(source: Source, file: str) -> bool:
    """Whether more than two thirds of the first lines of a file have an image and its texts."""
    n_fitting, total = _count_fitting(source, file)
    return 3 * n_fitting > 2 * total


def _looks_like_result(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise a result of PaddleOCR 3 by its keys."""
    has_shapes = not preview.keys.keys().isdisjoint(("dt_polys", "rec_polys", "boxes"))
    if preview.top == "{" and "input_path" in preview.keys and has_shapes:
        return SURE, "it has an input_path and the polygons or boxes of a result, as in PaddleOCR 3"
    return None


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of a path, a tab and a JSON list of texts, or the results of PaddleOCR 3."""
    if result := sniff_json(source, _looks_like_result):
        return result
    files = source.with_suffix(*_LABELS)[:20] if source.is_dir else [""]
    file = next((file for file in files if _is_label_file(source, file)), None)
    if file is None:
        return None
    file_text = f"of {printable(file)}: " if file else ""
    summary = describe_lines(*_count_fitting(source, file))
    return Sniff(SURE, f"{file_text}{summary} a path, a tab and a JSON list of texts, as in PaddleOCR")


def read(source: Source, builder: Builder, log: Log, options: PaddleocrOptions) -> None:
    """Read a file, or those of a folder, line by line; without label files, results of PaddleOCR 3."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    path = source.path.replace("\\", "/")
    chosen_split = normalise_split(options.split)
    default_score = None if builder.kind == "gt" else options.score  # ground truth gets no scores
    has_labels = source.is_dir and any(_is_label_file(source, file) for file in source.with_suffix(*_LABELS))
    if not has_labels and sniff_json(source, _looks_like_result):
        _read_results(reader, default_score)
        return
    files = [""]
    if source.is_dir:
        candidates = source.with_suffix(*_LABELS)
        files = [file for file in candidates if _is_label_file(source, file)]
        if not files:  # then those with a line that fits, or a usual name
            n_fitting_of = {file: _count_fitting(source, file)[0] for file in candidates}
            files = [file for file in candidates if n_fitting_of[file] or _USUAL.search(file)]
        report_unread(source, candidates, files, "a label file of PaddleOCR", log)
    files = select_split(files, lambda file: parse_split(file or path), chosen_split, source, log)
    for file in log.track(files, "reading"):
        origin, split = Origin(builder, source.full(file)), parse_split(file or path)
        for location, name, value in read_lines(reader, file, keyed=True):
            if value is Nothing:
                expected = Trusted("the path of an image, a tab, and a JSON list")
                location.report(log, WRONG_COUNT, expected=expected, found="no tab")
                builder.skipped += 1
                continue
            image = reader.image(name or None, location, split=split, file=origin.number, line=location.line)
            texts = reader.check_list(value, location) or ()
            # A text is an object, or the list of its points as in PaddleOCR's det_results.txt.
            records = [{"points": text} if isinstance(text, list) else text for text in texts]
            Rows(reader, location, records, origin).read(image, _read_text, default_score)
    n_scored, n_texts = reader.count_boxes()
    if builder.kind == "det" and n_texts and not n_scored:
        log.note(f"{printable(source.path)}: {spell_setting('score=1')} gives all detections the same score")
    reader.finish()


def _read_results(reader: Reader, default_score: float | None) -> None:
    """Read the results of PaddleOCR 3, a file per image or page; texts without a score get the default."""
    source, log = reader.source, reader.log
    files = choose_files(source, _looks_like_result, "results of PaddleOCR", log)
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            result = read_item(reader, file)
            image = result.image("input_path")
            if "boxes" in result:
                result.rows("boxes").read(image, _read_object)
                continue
            kind = "rec" if "rec_polys" in result else "dt"
            points, scores = result.array(f"{kind}_polys"), result.array(f"{kind}_scores")
            if scores and len(scores) != len(points):
                expected = Trusted(f"as many {kind}_scores as {kind}_polys")
                counts = Trusted(f"{len(scores)} and {len(points)}")
                result.report(WRONG_COUNT, expected=expected, found=counts)
                raise BadRecord
            records = [{"points": text} for text in points]
            for text, score in zip(records, scores, strict=False):  # `scores` may be empty
                text["score"] = score
            location = result.location / f"{kind}_polys"
            rows = Rows(reader, location, records, Origin(reader.builder, location.path, location.pointer))
            rows.read(image, _read_text, default_score)
    reader.finish()


def _read_object(row: Row) -> None:
    """Add a detected object of a result: its class, and its edges in pixels."""
    corners = row.ltrb("coordinate")
    row.add(row.category("label"), corners, score=row.score("score"))


def _read_text(text: Row, default_score: float | None) -> None:
    """Add a text, with `default_score` (None for none) if it has no score of its own.

    Its class is the value of ``key_cls`` or ``label``, else ``text``.
    """
    points, words = text.points("points", n_min=3), text.get("transcription")
    if words is not None and not isinstance(words, str):
        text.report_wrong("transcription", "text")
    key = next((key for key in ("key_cls", "label") if text.get(key) is not None), None)
    category = text.category_named(CLASS, text.location) if key is None else text.category(key)
    score = text.score("score") if "score" in text or default_score is None else default_score
    flags = Flag.CROWD if words in IGNORED else Flag(0)
    if text.flag("difficult"):
        flags |= Flag.DIFFICULT
    if text.is_bad:
        return
    if words and words not in IGNORED:
        text.reader.count("transcriptions")
    corners = text.draw_around(points, "rotated boxes" if len(points) == 4 else "polygons")
    text.add(category, corners, score=score, flags=int(flags))


def write(dataset: Dataset, target: Output, log: Log, options: PaddleocrOptions) -> None:
    """Write a line for each image, in one file for each split."""
    prefix = options.prefix.rstrip("/")
    if prefix and (reason := refuse_name(prefix)):
        raise UsageError(f"prefix {printable(prefix)!r}: {reason}")
    prefix += "/" if prefix else ""
    files = list_split_files(dataset, lambda split: f"{split or 'Label'}.txt")
    is_writable = check_classes(dataset, log)
    if not (target.plan(list(files.values()), [f"the split {s}" for s in files], log) and is_writable):
        return
    lines = []
    for image in iter_images(dataset):
        texts = []
        for box in image.boxes:
            left, top, right, bottom = box.xyxy
            upright = [[left, top], [right, top], [right, bottom], [left, bottom]]
            text: dict[str, Any] = {
                "transcription": IGNORED[0] if box.flags & Flag.CROWD else CLASS,
                "points": box.corners or next(iter(box.outlines), upright),
            }
            if box.score is None:  # ground truth
                text["difficult"] = bool(box.flags & Flag.DIFFICULT)
            class_field = {} if box.label == CLASS else {"key_cls": box.label}
            texts.append(text | box.score_field("score") | class_field)
        lines.append(f"{prefix}{image.name}\t{dump(texts)}\n")
    write_splits(dataset, target, files, lines)


FORMAT = format_of(
    __name__,
    title="PaddleOCR text detection",
    use="training",
    written_by="PaddleOCR datasets and results, PaddleOCR 3 and PaddleX (JSON), PPOCRLabel (Label.txt)",
    suffixes=(".txt",),
    looks_at=(".txt", ".cach", ".json"),
    begins=None,
    holds=("\t", "input_path"),
    keeps=frozenset({"extension", "empty", "score", "split", "difficult", "crowd", "polygon", "oriented"}),
    shape_is_box=True,
)
