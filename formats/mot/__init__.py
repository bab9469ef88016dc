"""MOTChallenge: a sequence of frames, with all boxes in one file.

::

    frame,id,bb_left,bb_top,bb_width,bb_height,conf,class,visibility        gt/gt.txt
    frame,-1,bb_left,bb_top,bb_width,bb_height,conf,-1,-1,-1                det/det.txt

Syntax: https://motchallenge.net/instructions and of the papers of MOT16 and MOT20. Values are separated by
commas; coordinates are pixels, unchanged (MOTChallenge counts them from 1; nothing is shifted).

Reading
-------
- A file; a sequence (``gt/gt.txt``, ``det/det.txt``, ``img1/``, ``seqinfo.ini``); or a folder of sequences,
  whose names are put before those of the images. If both kinds exist, the ground truth is read; ``--kind
  det`` reads the detections.
- The image of frame 1 is ``000001`` with the ``imExt`` of ``seqinfo.ini``; sizes and the number of frames
  come from there too, or else from ``--image-size``, ``--image-sizes``, ``--images`` or the pictures. With an
  ``images.txt`` beside ``seqinfo.ini``, frame n is the image in its line n.
- In ground truth ``conf`` is a flag: 0 means that evaluations ignore the box, and it is read as crowd. In
  detections it is the score, which may be any number. If the file name does not decide, ids of -1 mean
  detections.
- Classes: 1 pedestrian, 2 person on vehicle, 3 car, 4 bicycle, 5 motorbike, 6 non motorized vehicle, 7 static
  person, 8 distractor, 9 occluder, 10 occluder on the ground, 11 occluder full, 12 reflection, 13 crowd. With
  ``--classes FILE`` or ``labels.txt`` beside the file, as written by CVAT, the numbers are its lines, from 1.
  Files of 7 or 10 columns have no class (the last three are world coordinates): their boxes are pedestrians.
- A sequence is a video, named after ``name`` in ``seqinfo.ini``, or else its folder or file; its images have
  the frame numbers. MOTChallenge counts frames from 1, but CVAT, KITTI and COCO from 0: with ``-O
  first_frame=0`` frame 1 is read as frame 0. ``id`` is the track of a box, -1 for none.
- Visibilities are counted but not kept. Further columns are not read.
- A folder without such files, but with other ``.txt`` files, as trackers write them: each is a sequence.

Writing
-------
One sequence per video, each in a folder of its name if there are several; one for images without a video.
Frame numbers are kept; without them frames are numbered in the order of the images. ``images.txt`` lists the
image names unless they are ``000001`` and so on; ``-`` stands for a frame without an image. If a video counts
from 0, all its numbers are one higher. Two keys in ``seqinfo.ini`` that only odm reads say so
(``firstFrame=0``) and that the list has whole names (``fullNames=1``). A box without a track has the id -1;
ids that are not whole numbers are numbered from 1. All boxes are fully visible. Official classes keep their
numbers; if there is any other class, all classes are numbered from 1 and listed in ``labels.txt``.
Detections of pedestrians only have 10 columns, others 9.
"""

from __future__ import annotations

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of
from odm.formats._shared import text_rows
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.gather import Gather, own_folder
from odm.formats._shared.text_tokens import NUMBER, Rows, lines_are
from odm.formats.mot.terms import MotOptions, kind_by_name
from odm.issues import Log, printable
from odm.tables import Builder, Dataset

FIELDS = ("frame", "id", "bb_left", "bb_top", "bb_width", "bb_height", "conf", "class", "visibility", "z")
_OTHERS = frozenset(("images.txt", "labels.txt"))


def sniff(source: Source) -> Sniff | None:
    """A sequence by its layout, or lines of 7, 9 or 10 numbers between commas that begin with a frame."""
    files = _files(source, "gt") or _files(source, "det")
    if not files and source.is_dir:
        return _sniff_trackers(source)
    if not source.is_dir and not source.path.lower().endswith(".txt"):
        return None
    lines = fits = 0
    for cells in text_rows.sampled(source, files, b","):
        lines += 1
        numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
        fits += (
            len(cells) in (7, 9, 10, 11) and len(numbers) >= len(cells) - 1 and float(numbers[0]).is_integer()
        )
    named = source.is_dir or kind_by_name(source.path) is not None
    if 3 * fits < 2 * lines or not (lines or named):
        return None
    what = f"{lines_are(fits, lines)} a frame, an id, a box and a confidence, as in MOTChallenge"
    return Sniff(SURE if named else LIKELY, f"{files[0]}: {what}" if files[0] else what)


def _sniff_trackers(source: Source) -> Sniff | None:
    """A folder of results: lines that end with three times -1, as those of other formats do not."""
    files = _of_trackers(source)
    rows = list(text_rows.sampled(source, files, b","))
    fits = sum(
        len(row) == 10 and all(map(NUMBER.fullmatch, row)) and {*map(float, row[7:])} == {-1} for row in rows
    )
    if not rows or 3 * fits < 2 * len(rows):
        return None
    what = f"{lines_are(fits, len(rows))} a frame, an id, a box, a confidence and -1,-1,-1"
    return Sniff(LIKELY, f"{what}, as trackers write them for MOTChallenge")


def _of_trackers(source: Source) -> list[str]:
    """The files of a folder of results, one for each sequence, if most of their lines look like it."""
    files = [f for f in source.with_suffix(".txt") if f.rsplit("/", 1)[-1].lower() not in _OTHERS]
    rows = list(text_rows.sampled(source, files, b","))
    fits = sum(len(row) >= 7 and all(map(NUMBER.fullmatch, row[:6])) for row in rows)
    return files if rows and 3 * fits >= 2 * len(rows) else []


def _files(source: Source, kind: str) -> list[str]:
    """The files of one kind in a folder; the file itself for a file."""
    if not source.is_dir:
        return [""]
    return [f for f in source.with_suffix(".txt") if f.rsplit("/", 1)[-1].lower() == f"{kind}.txt"]


def _shape(n: int, kind: text_rows.KindOf) -> text_rows.Shape | None:
    """9 columns end with class and visibility; the last three of 10 are world coordinates."""
    if n < 7 or (n == 8 and kind(7)):  # a comma at the end of 7 columns
        return None
    return text_rows.Shape(range(9 if n == 9 or n > 10 else 7))


GRAMMAR = text_rows.Grammar(_shape, FIELDS, "7, 9 or 10 numbers separated by commas", default=-1.0, sep=",")


_COLUMNS = (7, 9, 10)


def _quick(source: Source, file: str) -> text_rows.ParsedRows | None:
    """The rows of a file that is nothing but plain numbers, the same in every line; None of any other."""
    import msgspec

    data = source.read(file, Log(keep=0))
    if not data:
        return None
    data = data.removesuffix(b"\n")
    octets = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(octets) - 1)
    commas = np.diff(np.cumsum(octets == ord(","))[ends], prepend=0)
    count = int(commas[0]) + 1
    if count not in _COLUMNS or (commas != count - 1).any():
        return None
    try:
        numbers = msgspec.json.decode(b"[" + data.replace(b"\n", b",") + b"]", type=list[float])
    except msgspec.DecodeError:  # perhaps they are written in a way that JSON does not have
        return None
    n = len(commas)
    values = np.full((n, 9), -1.0)
    used = 9 if count == 9 else 7
    values[:, :used] = np.array(numbers).reshape(n, count)[:, :used]
    line = np.arange(1, n + 1, dtype=np.int32)
    zeros = np.zeros(n, np.int32)
    rows = Rows(source, [file], zeros, line, ",")
    return text_rows.ParsedRows(source, [file], ["object"], zeros, values, np.full(n, np.nan), rows)


def read(source: Source, builder: Builder, log: Log, options: MotOptions) -> None:
    """Read a file, a sequence, or a folder of sequences."""
    from odm.formats.mot.sequences import Frames, sequence_of

    kind, truth, detections = builder.kind, _files(source, "gt"), _files(source, "det")
    files = detections if kind == "det" else truth or (detections if kind is None else [])
    if source.is_dir and not truth and not detections:
        files = _of_trackers(source)
    elif kind is None and source.is_dir and truth and detections:
        log.note(f"{printable(source.path)}: reading the ground truth; --kind det reads the detections")
    if not files:
        log.report(NO_FILES, source.path, expected=f"{kind or 'gt'}.txt", n=len(source.files))
    gather = Gather(source, builder, log, options, own_folder(source))
    for file in files:
        found = _quick(source, file) or text_rows.parsed(source, [file], builder, log, GRAMMAR)
        if builder.kind is None:
            no_ids = len(found) and (found.values[:, 1] == -1).all()
            builder.kind = kind_by_name(source.full(file)) or ("det" if no_ids else "gt")
        sequence = sequence_of(source, file, log, options, several=len(files) > 1)
        if sequence is not None:
            Frames(gather, options).add(found, file, sequence)
        else:
            builder.skipped += len(found)
    builder.kind = builder.kind or "gt"
    gather.finish()


def write(dataset: Dataset, target: Output, log: Log, options: MotOptions) -> None:
    """Write a sequence for each video."""
    from odm.formats.mot.writer import write_sequences

    del options
    write_sequences(dataset, target, log)


FORMAT = format_of(
    __name__,
    title="MOTChallenge sequences",
    use="challenges",
    written_by="MOTChallenge (gt, det and results)",
    suffixes=(".txt",),
    single=False,
    keeps=frozenset("extension empty score wh crowd video track".split()),
)
