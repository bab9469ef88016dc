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

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from odm.codes import SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of, option
from odm.formats._shared import text_rows
from odm.formats._shared.class_lists import class_list_option, read_list
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    NO_FILES,
    UNKNOWN_CLASS,
)
from odm.formats._shared.frames import box_tracks, check_frames, track_numbers
from odm.formats._shared.gather import At, Gather, own_folder, with_extension
from odm.formats._shared.number_text import decimals, short_wh
from odm.formats._shared.pictures import ImageOptions, parse_pixels
from odm.formats._shared.text_tokens import EMPTY, NUMBER, Chunk, Rows, lines_are, text_of
from odm.issues import Code, Log, printable
from odm.names import accept_name, stem
from odm.tables import NO_ID, Builder, Dataset, Flag, Kind, Longs

BAD_LIST = Code(
    "mot-bad-image-list",
    "error",
    "images.txt has a blank line, which shifts the frames after it",
    "write one name per line",
    "The position of a name in images.txt is its frame number.",
)
CLASSES = (
    *("", "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle"),
    *(
        "static person",
        "distractor",
        "occluder",
        "occluder on the ground",
        "occluder full",
        "reflection",
        "crowd",
    ),
)
FIELDS = ("frame", "id", "bb_left", "bb_top", "bb_width", "bb_height", "conf", "class", "visibility", "z")
_OTHERS = frozenset(("images.txt", "labels.txt"))
NO_IMAGE = "-"
"""Placeholder in ``images.txt`` for a frame without an image."""
MOST_FRAMES = 200_000
"""Frames that a sequence may claim to have before those without boxes are no longer listed."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MotOptions(ImageOptions):
    """What the numbers of the classes mean."""

    classes: str | None = class_list_option("file with the class names from 1, one per line, or a data.yaml")
    first_frame: str = option(
        "1", "number to give to the frame that files call 1", choices=("1", "0"), side="read"
    )


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
    named = source.is_dir or _named(source.path) is not None
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


def _named(path: str) -> Kind | None:
    """The kind according to the name of a file or of its folder."""
    parts = path.replace("\\", "/").lower().split("/")[-2:]
    for kind in ("gt", "det"):
        if parts[-1] == f"{kind}.txt" or (len(parts) > 1 and parts[0] == kind and parts[-1].endswith(".txt")):
            return "gt" if kind == "gt" else "det"
    return None


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


# ------------------------------------------------------------------------------------------------ reading


def _split(chunk: Chunk) -> text_rows.Part:
    rows = np.flatnonzero(chunk.count >= 7)
    first, count = chunk.first[rows], chunk.count[rows]
    values = np.full((len(rows), 9), -1.0)
    values[:, :7], sound = text_rows.block(chunk, first, 7)
    # 9 columns end with class and visibility; the last three of 10 are world coordinates.
    classed = (count == 9) | (count > 10)
    if classed.any():
        given, finite = text_rows.block(chunk, first[classed] + 7, 2)
        values[classed, 7:] = given
        sound[classed] &= finite
    eighth = np.flatnonzero(count == 8)  # a comma at the end of 7 columns
    sound[eighth] &= np.array([t == EMPTY for t in chunk.pick(first[eighth] + 7)], bool)
    return text_rows.part_of(chunk, rows, sound, values, b"object")


def _explain(cells: list[text_rows.Cell], path: str, line: int, log: Log) -> None:
    n = len(cells)
    classed = n == 9 or n > 10
    if n < 7 or (n == 8 and cells[7][1]):
        text_rows.report_count(cells, "7, 9 or 10 numbers separated by commas", path, line, log)
    else:
        text_rows.report_numbers(cells[: 9 if classed else 7], FIELDS[: 9 if classed else 7], path, line, log)


GRAMMAR = text_rows.Grammar(_split, _explain, 9, sep=",")


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


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Sequence:
    """What is known about the frames of one sequence."""

    prefix: str
    """The prefix of its image names."""
    folder: str
    """Where it lies below the source, with a slash at the end, or empty."""
    names: list[str] | None
    suffix: str
    length: int
    size: tuple[int, int]
    pictures: str
    video: str
    shift: int
    """What is taken off the numbers of the frames, which count from 0 elsewhere."""
    full: bool
    """Whether `names` are complete, without a prefix to add."""


def read(source: Source, builder: Builder, log: Log, options: MotOptions) -> None:
    """Read a file, a sequence, or a folder of sequences."""
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
            builder.kind = _named(source.full(file)) or ("det" if no_ids else "gt")
        sequence = _sequence(source, file, log, options, several=len(files) > 1)
        if sequence is not None:
            _Frames(gather, options).add(found, file, sequence)
        else:
            builder.skipped += len(found)
    builder.kind = builder.kind or "gt"
    gather.finish()


def _text(source: Source, file: str, log: Log) -> str | None:
    """The text of a file; None where there is none."""
    if file not in source.files:
        return None
    return text_of(source.read(file, log) or b"", source.full(file), log).decode("utf-8", "replace")


def _sequence(source: Source, file: str, log: Log, options: MotOptions, *, several: bool) -> _Sequence | None:
    """What the files of a sequence say; None, and an issue, where they cannot be right."""
    *parts, last = file.split("/")
    if parts and parts[-1].lower() in ("gt", "det"):
        parts.pop()
    folder = "".join(part + "/" for part in parts)
    lines = (line.partition("=") for line in (_text(source, f"{folder}seqinfo.ini", log) or "").split("\n"))
    info = {key.strip().lower(): value.strip() for key, _, value in lines}
    numbers = []
    for key in ("imwidth", "imheight", "seqlength"):
        try:
            empty = key == "seqlength" and info.get(key) == "0"  # a sequence without frames
            numbers.append(parse_pixels(info[key]) if key in info and not empty else 0)
        except ValueError:
            log.report(BAD_IMAGE_SIZE, source.full(f"{folder}seqinfo.ini"), field=key, value=info[key])
            return None
    width, height, length = numbers
    names = None
    if (text := _text(source, f"{folder}images.txt", log)) is not None:
        names = text.rstrip("\n").split("\n") if text.strip("\n") else []
        length = len(names)
        if blank := next((i for i, name in enumerate(names, 1) if not name.strip()), 0):
            log.report(BAD_LIST, source.full(f"{folder}images.txt"), line=blank)
            return None
    prefix, video = folder if several else "", info.get("name") or _video_name(source, folder)
    if source.is_dir and _named(file) is None:  # written by a tracker
        prefix, video = f"{file[: -len('.txt')]}/" if several else "", stem(last[: -len(".txt")])
    suffix = info.get("imext", "")
    return _Sequence(
        prefix=prefix,
        folder=folder,
        names=names,
        suffix=suffix if re.fullmatch(r"\.[0-9A-Za-z]{1,9}", suffix) else "",
        length=length if length <= MOST_FRAMES else 0,
        size=(width, height),
        pictures=f"{folder}{info.get('imdir') or 'img1'}/",
        video=video,
        shift=1 if info.get("firstframe") == "0" or options.first_frame == "0" else 0,
        full=info.get("fullnames") == "1",
    )


def _video_name(source: Source, folder: str) -> str:
    """The name of a sequence by its folder, or by its file where that is not called gt or det."""
    path = source.path.replace("\\", "/").rstrip("/")
    if not source.is_dir:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if _named(path) is None:
            return stem(parts[-1])[: -len(".txt")] if parts[-1].lower().endswith(".txt") else parts[-1]
        parts = [part for part in parts[:-1] if part.lower() not in ("gt", "det")]
        return parts[-1] if parts else "video"
    return folder.rstrip("/") or path.rpartition("/")[2].strip(".") or "video"


class _Frames:
    """Turns the rows of one sequence into images and boxes."""

    def __init__(self, gather: Gather, options: MotOptions) -> None:
        self.gather, self.options = gather, options
        self.source, self.builder, self.log = gather.source, gather.builder, gather.log

    def add(self, found: text_rows.ParsedRows, file: str, sequence: _Sequence) -> None:
        """Add the images and the boxes of a sequence."""
        log, builder = self.log, self.builder
        number = builder.file(self.source.full(file))
        good, frame = self._frames(found, sequence)
        taken = sequence.video in builder.video_names  # by a sequence in another folder
        video = builder.video(sequence.prefix if taken else sequence.video, length=sequence.length)
        rows = self._images(np.unique(frame[good]), sequence, number, video)
        conf, visibility = found.values[:, 6], found.values[:, 8]
        flags = np.zeros(len(found), np.uint16)
        if builder.kind == "gt":
            wrong = good & (conf != 0) & (conf != 1) & (conf != -1)
            text_rows.report_marks(found, log, SCORE_UNEXPECTED, wrong, 6, "conf", "1, or 0 if ignored")
            good &= ~wrong
            odd = good & ~((visibility == -1) | ((visibility >= 0) & (visibility <= 1)))
            text_rows.report_marks(found, log, BAD_FLAG, odd, 8, "visibility", "0..1, or -1 for unknown")
            good &= ~odd
            flags |= np.where(conf == 0, np.uint16(Flag.CROWD), np.uint16(0))
            text_rows.count_extra(builder, "visibility", good & (visibility >= 0) & (visibility < 1))
        category, known = self._classes(found, file, good)
        good &= known
        known_frames = np.array([*rows, 2**31], np.int64)  # which rise
        at = np.searchsorted(known_frames, frame)
        images = np.where(known_frames[at] == frame, np.array([*rows.values(), -1], np.int32)[at], -1)
        good &= images >= 0
        ids = np.where(found.values[:, 1] >= 0, found.values[:, 1], NO_ID).astype(np.int64)
        builder.skipped += len(good) - int(good.sum())
        xyxy, wh = text_rows.corners(found.values[:, 2:6])
        self.gather.add(
            image=images[good],
            category=category[good],
            xyxy=xyxy[good],
            wh=wh[good],
            score=conf[good] if builder.kind == "det" else None,
            flags=flags[good],
            file=number,
            line=found.rows.line[good],
            **({"track": builder.tracks(np.full(len(ids), video), ids)[good]} if (ids >= 0).any() else {}),
        )

    def _frames(self, found: text_rows.ParsedRows, sequence: _Sequence) -> tuple[NDArray[np.bool_], Longs]:
        frame = found.values[:, 0]
        limit = (sequence.length or 10**9) if sequence.names is None else len(sequence.names)
        least = 1 if sequence.names is not None or sequence.shift else 0
        good = (frame == np.rint(frame)) & (frame >= least) & (frame <= limit)
        among = f" in 1..{sequence.length}" if sequence.length else " from 1 on" if sequence.shift else ""
        text_rows.report_marks(found, self.log, BAD_FRAME, ~good, 0, "frame", "", among=among)
        return good, np.where(good, frame, -1).astype(np.int64)

    def _images(self, used: Longs, sequence: _Sequence, number: int, video: int) -> dict[int, int]:
        """Add an image for every frame; the row of each."""
        frames = sorted({*used.tolist(), *range(1, sequence.length + 1)})
        rows: dict[int, int] = {}
        path = self.source.full(sequence.folder + "images.txt")
        asks = self.options.image_size is not None or self.options.image_sizes is not None
        if sequence.names is None and min(sequence.size) > 0 and not asks and not self.gather.pictures:
            return self._plain_images(frames, sequence, number, video)
        for frame in frames:
            at = At(self.builder.location(number, 0)[0])
            if sequence.names is not None:
                name, at = sequence.names[frame - 1], At(path, line=frame)
                if name == NO_IMAGE:
                    continue
                if not accept_name(name, self.log, path, line=frame):
                    continue
            else:
                name = f"{frame:06d}{sequence.suffix}"
            key = sequence.pictures + name
            picture = self.gather.picture(key, at, sequence.pictures + stem(name))
            if stem(name) == name:
                name = with_extension(name, picture)
            name = name if sequence.full else sequence.prefix + name
            size = sequence.size if min(sequence.size) else None
            if asks:  # options go before seqinfo.ini
                size = self.gather.pictures.size(name, picture) or size or (0, 0)
            row = self.gather.image(
                name,
                at,
                size=size,
                picture=picture,
                accepted=True,
                file=number,
                video=video,
                frame=frame - sequence.shift,
            )
            if row is not None:
                rows[frame] = row
        return rows

    def _plain_images(
        self, frames: list[int], sequence: _Sequence, number: int, video: int
    ) -> dict[int, int]:
        """The same where only the numbers of the frames name the images."""
        size = np.full((len(frames), 2), sequence.size, np.int32)
        first = self.builder.add_images(
            [f"{sequence.prefix}{frame:06d}{sequence.suffix}" for frame in frames],
            width=size[:, 0],
            height=size[:, 1],
            file=number,
            line=[0] * len(frames),
            video=[video] * len(frames),
            frame=[frame - sequence.shift for frame in frames],
        )
        return {frame: first + i for i, frame in enumerate(frames)}

    def _classes(
        self, found: text_rows.ParsedRows, file: str, good: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        names: list[str] | None = list(CLASSES)
        beside = file.rpartition("/")[0]
        own = f"{beside}/labels.txt" if beside else "labels.txt"
        where = "MOTChallenge"
        listed = self.options.classes is not None or own in self.source.files
        if self.options.classes is not None:
            names, where = (
                read_list(Source(self.options.classes, follow_links=True), "", self.log),
                self.options.classes,
            )
        elif listed:
            names, where = read_list(self.source, own, self.log), self.source.full(own)
        if names is not None and listed:
            names = ["", *names]
        number = found.values[:, 7]
        unclassed = number == -1
        if names is not None and unclassed.any():
            if CLASSES[1] not in names:
                names.append(CLASSES[1])
            number = np.where(unclassed, names.index(CLASSES[1]), number)
        rows, known = text_rows.numbered_classes(
            number, good & (number != 0), self.builder, names, in_order=listed
        )
        known &= number != 0
        if names is not None:
            values = {"n": len(names) - 1, "where": where}
            text_rows.report_marks(found, self.log, UNKNOWN_CLASS, good & ~known, 7, "class", "", **values)
        return rows, known


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: MotOptions) -> None:
    """Write a sequence for each video."""
    del options
    sequences = _split_videos(dataset)
    names: dict[str, str] = {}
    for sequence in sequences:
        names |= dict.fromkeys(sequence.files, f"the sequence {sequence.name!r}")
    fits = check_frames(dataset, log)
    refused = text_rows.refuse_classes(dataset, log, words=False, unused=True)
    if not target.plan(list(names), list(names.values()), log) or refused or not fits:
        return
    numbers = track_numbers(dataset, log)
    tracks = box_tracks(dataset, numbers, -1)
    for sequence in sequences:
        for name, text in sequence.contents(tracks).items():
            target.write(name, text.encode())


class _Target:
    """A sequence that is written: the images at `rows` of a dataset.

    ``frames`` (rows,) are their numbers, which rise; ``shift`` is what was added to them.
    """

    def __init__(self, dataset: Dataset, rows: Longs, name: str, folder: str, frames: Longs | None) -> None:
        self.dataset, self.rows, self.name = dataset, rows, name
        self.shift = 1 if frames is not None and len(frames) and int(frames.min()) == 0 else 0
        self.frames = np.arange(1, len(rows) + 1) if frames is None else frames + self.shift
        self.length = len(rows) if frames is None else int(self.frames.max(initial=0))
        classes = dataset.categories.name
        self.official = set(classes) <= set(CLASSES[1:])
        self.images = [dataset.images.name[row] for row in rows.tolist()]
        self.full = not all(name.startswith(folder) for name in self.images)
        """Whether the list of images holds whole names, not names in the folder."""
        if not self.full:
            self.images = [name[len(folder) :] for name in self.images]
        self.suffix = text_rows.picture_suffix(self.images)
        pairs = zip(self.images, self.frames.tolist(), strict=True)
        self.numbered = not self.full and len(rows) == self.length
        self.numbered = self.numbered and all(name == f"{n:06d}{self.suffix}" for name, n in pairs)
        kind = dataset.kind
        labels = [f"{kind}/labels.txt"] * (not self.official)
        lists = ["images.txt"] * (not self.numbered)
        self.folder = folder
        self.files = [folder + name for name in (f"{kind}/{kind}.txt", "seqinfo.ini", *labels, *lists)]

    def contents(self, tracks: Longs | None) -> dict[str, str]:
        """The text of each file; `tracks` are the ids of the boxes' tracks."""
        folder, kind = self.folder, self.dataset.kind
        lines = {f"{folder}seqinfo.ini": self._info(), f"{folder}{kind}/{kind}.txt": self._boxes(tracks)}
        if not self.official:
            lines[f"{folder}{kind}/labels.txt"] = list(self.dataset.categories.name)
        if not self.numbered:
            listed = [NO_IMAGE] * self.length
            for frame, name in zip(self.frames.tolist(), self.images, strict=True):
                listed[frame - 1] = name
            lines[f"{folder}images.txt"] = listed
        return {name: "".join(f"{line}\n" for line in text) for name, text in lines.items()}

    def _info(self) -> list[str]:
        images = self.dataset.images
        info = ["[Sequence]"] + [f"name={self.name}"] * bool(self.name)
        info += ["imDir=img1", f"seqLength={self.length}"]
        pairs = zip(images.width[self.rows].tolist(), images.height[self.rows].tolist(), strict=True)
        sizes = set(pairs)
        if len(sizes) == 1 and min(size := sizes.pop()) > 0:
            info += [f"imWidth={size[0]}", f"imHeight={size[1]}"]
        info += [f"imExt={self.suffix}"] * bool(self.suffix)
        return info + ["firstFrame=0"] * self.shift + ["fullNames=1"] * self.full

    def _boxes(self, tracks: Longs | None) -> list[str]:
        dataset, boxes, classes = self.dataset, self.dataset.boxes, self.dataset.categories.name
        number = np.zeros(len(dataset.images), np.int64)
        number[self.rows] = self.frames
        frame = number[boxes.image] if len(boxes) else np.zeros(0, np.int64)
        order = np.argsort(frame, kind="stable")
        order = order[np.searchsorted(frame[order], 1) :]
        ids = [CLASSES.index(name) if self.official else i for i, name in enumerate(classes, 1)]
        texts = decimals(np.concatenate([boxes.xyxy[:, :2], short_wh(boxes)], axis=1)[order].ravel())
        n = len(order)
        category = [str(ids[c]) for c in boxes.category[order].tolist()]
        columns = [[str(i) for i in frame[order].tolist()]]
        columns += [["-1"] * n if tracks is None else [str(i) for i in tracks[order].tolist()]]
        columns += [texts[i::4] for i in range(4)]
        if dataset.kind == "gt":
            conf = ["0" if c else "1" for c in boxes.has(Flag.CROWD)[order].tolist()]
            columns += [conf, category, ["1"] * n]
        elif self.official and set(category) <= {"1"}:
            columns += [decimals(boxes.score[order]), ["-1,-1,-1"] * n]
        else:
            columns += [decimals(boxes.score[order]), category, ["-1"] * n]
        return list(map(",".join, zip(*columns, strict=True)))


def _split_videos(dataset: Dataset) -> list[_Target]:
    """The sequences to be written: one for each video, and one of the images without a video."""
    images, videos = dataset.images, dataset.videos
    every = np.arange(len(images))
    if images.video is None:
        return [_Target(dataset, every, "", "", None)]
    used = np.unique(images.video).tolist()
    found = []
    for video in used:
        rows = np.flatnonzero(images.video == video)
        name = videos.name[video] if video >= 0 else "images"
        frames = None
        if video >= 0 and images.frame is not None and (images.frame[rows] >= 0).all():
            rows = rows[np.argsort(images.frame[rows], kind="stable")]
            frames = images.frame[rows].astype(np.int64)
        folder = f"{name}/" if len(used) > 1 else ""
        found.append(_Target(dataset, rows, name if video >= 0 else "", folder, frames))
    return found


FORMAT = format_of(
    __name__,
    title="MOTChallenge sequences",
    use="challenges",
    written_by="MOTChallenge (gt, det and results)",
    suffixes=(".txt",),
    single=False,
    keeps=frozenset("extension empty score wh crowd video track".split()),
)
