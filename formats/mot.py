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
- Track ids and visibilities are counted but not kept. Further columns are not read.

Writing
-------
One sequence. Frames are numbered in the order of the images; ``images.txt`` lists their names unless
they are ``000001`` and so on. Every box is written as a separate track, fully visible. Official classes keep
their numbers; if there is any other class, all classes are numbered from 1 and listed in ``labels.txt``.
Detections of pedestrians only have 10 columns, others 9.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from odm.codes import SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Format, Sniff, option
from odm.formats._shared.class_lists import read_list
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    NO_FILES,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.gather import At, Gather, own_folder, with_extension
from odm.formats._shared.number_text import decimals, short_wh
from odm.formats._shared.pictures import ImageOptions, parse_pixels
from odm.formats._shared.text_rows import (
    Cell,
    Grammar,
    ParsedRows,
    Part,
    block,
    corners,
    count_extra,
    numbered_classes,
    parsed,
    picture_suffix,
    refuse_classes,
    report_marks,
    report_numbers,
    sampled,
)
from odm.formats._shared.text_tokens import EMPTY, NUMBER, Chunk, lines_are, text_of
from odm.issues import Code, Log, plural, printable
from odm.names import accept_name, stem
from odm.tables import Builder, Dataset, Flag, Kind, Longs

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
MOST_FRAMES = 200_000
"""Frames that a sequence may claim to have before those without boxes are no longer listed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MotOptions(ImageOptions):
    """What the numbers of the classes mean."""

    classes: str | None = option(
        None,
        "file with the class names from 1, one per line, or a data.yaml",
        flag="--classes",
        side="read",
        path=True,
    )


def sniff(source: Source) -> Sniff | None:
    """A sequence by its layout, or lines of 7, 9 or 10 numbers between commas that begin with a frame."""
    files = _files(source, "gt") or _files(source, "det")
    if not files and source.is_dir:
        return None
    if not source.is_dir and not source.path.lower().endswith(".txt"):
        return None
    lines = fits = 0
    for cells in sampled(source, files, b","):
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


def _named(path: str) -> Kind | None:
    """The kind that the name of a file, or of its folder, says."""
    parts = path.replace("\\", "/").lower().split("/")[-2:]
    for kind in ("gt", "det"):
        if parts[-1] == f"{kind}.txt" or (len(parts) > 1 and parts[0] == kind and parts[-1].endswith(".txt")):
            return "gt" if kind == "gt" else "det"
    return None


def _files(source: Source, kind: str) -> list[str]:
    """The files of one kind in a folder; the file itself for a file."""
    if not source.is_dir:
        return [""]
    return [f for f in source.with_suffix(".txt") if f.rsplit("/", 1)[-1].lower() == f"{kind}.txt"]


# ------------------------------------------------------------------------------------------------ reading


def _split(chunk: Chunk) -> Part:
    rows = np.flatnonzero(chunk.count >= 7)
    first, count = chunk.first[rows], chunk.count[rows]
    values = np.full((len(rows), 9), -1.0)
    values[:, :7], sound = block(chunk, first, 7)
    # 9 columns end with class and visibility; the last three of 10 are world coordinates.
    classed = (count == 9) | (count > 10)
    if classed.any():
        given, finite = block(chunk, first[classed] + 7, 2)
        values[classed, 7:] = given
        sound[classed] &= finite
    eighth = np.flatnonzero(count == 8)  # a comma at the end of 7 columns
    sound[eighth] &= np.array([t == EMPTY for t in chunk.pick(first[eighth] + 7)], bool)
    kept = np.flatnonzero(sound)
    faulty = np.setdiff1d(np.arange(len(chunk)), rows[kept])
    none = np.full(len(kept), np.nan)
    return Part(rows[kept], [b"object"] * len(kept), values[kept], none, faulty)


def _explain(cells: list[Cell], path: str, line: int, log: Log) -> None:
    n = len(cells)
    classed = n == 9 or n > 10
    if n < 7 or (n == 8 and cells[7][1]):
        expected, found = "7, 9 or 10 numbers separated by commas", plural(n, "value")
        log.report(WRONG_COUNT, path, line=line, column=cells[0][0], expected=expected, found=found)
    else:
        report_numbers(cells[: 9 if classed else 7], FIELDS[: 9 if classed else 7], path, line, log)


GRAMMAR = Grammar(_split, _explain, 9, sep=",")


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Sequence:
    """What is known about the frames of one sequence."""

    prefix: str
    """What stands before the names of its images."""
    folder: str
    """Where it lies below the source, with a slash at the end, or empty."""
    names: list[str] | None
    suffix: str
    length: int
    size: tuple[int, int]
    pictures: str


def read(source: Source, builder: Builder, log: Log, options: MotOptions) -> None:
    """Read a file, a sequence, or a folder of sequences."""
    kind = builder.kind
    files = _files(source, kind or "gt")
    if not files and kind is None:
        files = _files(source, "det")
    elif kind is None and source.is_dir and _files(source, "det"):
        log.note(f"{printable(source.path)}: reading the ground truth; --kind det reads the detections")
    if not files:
        log.report(NO_FILES, source.path, expected=f"{kind or 'gt'}.txt", n=len(source.files))
    gather = Gather(source, builder, log, options, own_folder(source))
    for file in files:
        found = parsed(source, [file], builder, log, GRAMMAR)
        if builder.kind is None:
            builder.kind = _named(source.full(file)) or _kind_of(found)
        sequence = _sequence(source, file, log, several=len(files) > 1)
        if sequence is not None:
            _Frames(gather, options).add(found, file, sequence)
        else:
            builder.skipped += len(found)
    builder.kind = builder.kind or "gt"
    gather.finish()


def _kind_of(found: ParsedRows) -> Kind:
    return "det" if len(found) and bool((found.values[:, 1] == -1).all()) else "gt"


def _sequence(source: Source, file: str, log: Log, *, several: bool) -> _Sequence | None:
    parts = file.split("/")[:-1]
    if parts and parts[-1].lower() in ("gt", "det"):
        parts.pop()
    folder = "".join(part + "/" for part in parts)
    info: dict[str, str] = {}
    if folder + "seqinfo.ini" in source.files:
        text = text_of(
            source.read(folder + "seqinfo.ini", log) or b"", source.full(folder + "seqinfo.ini"), log
        )
        for line in text.decode("utf-8", "replace").split("\n"):
            key, _, value = line.partition("=")
            info[key.strip().lower()] = value.strip()
    path = source.full(folder + "seqinfo.ini")
    size, length = [], 0
    for key in ("imwidth", "imheight", "seqlength"):
        try:
            empty = key == "seqlength" and info.get(key) == "0"  # a sequence without frames
            size.append(parse_pixels(info[key]) if key in info and not empty else 0)
        except ValueError:
            log.report(BAD_IMAGE_SIZE, path, field=key, value=info[key])
            return None
    length = size.pop()
    names = None
    if folder + "images.txt" in source.files:
        listed = source.full(folder + "images.txt")
        data = text_of(source.read(folder + "images.txt", log) or b"", listed, log)
        names = data.decode("utf-8", "replace").rstrip("\n").split("\n") if data else []
        for number, name in enumerate(names, 1):
            if not name.strip():
                log.report(BAD_LIST, listed, line=number)
                return None
        length = len(names)
    suffix = info.get("imext", "")
    return _Sequence(
        prefix=folder if several else "",
        folder=folder,
        names=names,
        suffix=suffix if re.fullmatch(r"\.[0-9A-Za-z]{1,9}", suffix) else "",
        length=length if length <= MOST_FRAMES else 0,
        size=(size[0], size[1]),
        pictures=f"{folder}{info.get('imdir') or 'img1'}/",
    )


class _Frames:
    """Turns the rows of one sequence into images and boxes."""

    def __init__(self, gather: Gather, options: MotOptions) -> None:
        self.gather, self.options = gather, options
        self.source, self.builder, self.log = gather.source, gather.builder, gather.log

    def add(self, found: ParsedRows, file: str, sequence: _Sequence) -> None:
        """Add the images and the boxes of a sequence."""
        log, builder = self.log, self.builder
        number = builder.file(self.source.full(file))
        good, frame = self._frames(found, sequence)
        rows = self._images(np.unique(frame[good]), sequence, number)
        conf, visibility = found.values[:, 6], found.values[:, 8]
        flags = np.zeros(len(found), np.uint16)
        if builder.kind == "gt":
            wrong = good & (conf != 0) & (conf != 1) & (conf != -1)
            report_marks(found, log, SCORE_UNEXPECTED, wrong, 6, "conf", "1, or 0 if ignored")
            good &= ~wrong
            odd = good & ~((visibility == -1) | ((visibility >= 0) & (visibility <= 1)))
            report_marks(found, log, BAD_FLAG, odd, 8, "visibility", "0..1, or -1 for unknown")
            good &= ~odd
            flags |= np.where(conf == 0, np.uint16(Flag.CROWD), np.uint16(0))
            count_extra(builder, "visibility", good & (visibility >= 0) & (visibility < 1))
            count_extra(builder, "tracks", good & (found.values[:, 1] >= 0))
        category, known = self._classes(found, file, good)
        good &= known
        images = np.array([rows.get(f, -1) for f in frame.tolist()], np.int32)
        good &= images >= 0
        builder.skipped += len(good) - int(good.sum())
        xyxy, wh = corners(found.values[:, 2:6])
        self.gather.add(
            image=images[good],
            category=category[good],
            xyxy=xyxy[good],
            wh=wh[good],
            score=conf[good] if builder.kind == "det" else None,
            flags=flags[good],
            file=number,
            line=found.rows.line[good],
        )

    def _frames(self, found: ParsedRows, sequence: _Sequence) -> tuple[NDArray[np.bool_], Longs]:
        frame = found.values[:, 0]
        limit = (sequence.length or 10**9) if sequence.names is None else len(sequence.names)
        good = (
            (frame == np.rint(frame)) & (frame >= (1 if sequence.names is not None else 0)) & (frame <= limit)
        )
        among = f" in 1..{sequence.length}" if sequence.length else ""
        report_marks(found, self.log, BAD_FRAME, ~good, 0, "frame", "", among=among)
        return good, np.where(good, frame, -1).astype(np.int64)

    def _images(self, used: Longs, sequence: _Sequence, number: int) -> dict[int, int]:
        """Add an image for every frame; the row of each."""
        frames = sorted({*used.tolist(), *range(1, sequence.length + 1)})
        rows: dict[int, int] = {}
        path = self.source.full(sequence.folder + "images.txt")
        asks = self.options.image_size is not None or self.options.image_sizes is not None
        for frame in frames:
            at = At(self.builder.location(number, 0)[0])
            if sequence.names is not None:
                name, at = sequence.names[frame - 1], At(path, line=frame)
                if not accept_name(name, self.log, path, line=frame):
                    continue
            else:
                name = f"{frame:06d}{sequence.suffix}"
            key = sequence.pictures + name
            picture = self.gather.picture(key, at, sequence.pictures + stem(name))
            if stem(name) == name:
                name = with_extension(name, picture)
            name = sequence.prefix + name
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
            )
            if row is not None:
                rows[frame] = row
        return rows

    def _classes(
        self, found: ParsedRows, file: str, good: NDArray[np.bool_]
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
        rows, known = numbered_classes(number, good & (number != 0), self.builder, names, in_order=listed)
        known &= number != 0
        if names is not None:
            values = {"n": len(names) - 1, "where": where}
            report_marks(found, self.log, UNKNOWN_CLASS, good & ~known, 7, "class", "", **values)
        return rows, known


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: MotOptions) -> None:
    """Write one sequence."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    kind = dataset.kind
    official = set(classes) <= set(CLASSES[1:])
    suffix = picture_suffix(images.name)
    numbered = all(name == f"{i:06d}{suffix}" for i, name in enumerate(images.name, 1))
    files = {f"{kind}/{kind}.txt": "the boxes", "seqinfo.ini": "the sequence"}
    if not official:
        files[f"{kind}/labels.txt"] = "the list of classes"
    if not numbered:
        files["images.txt"] = "the names of the images"
    refused = refuse_classes(dataset, log, words=False, unused=True)
    if not target.plan(list(files), list(files.values()), log) or refused:
        return
    order = np.argsort(boxes.image, kind="stable")
    ids = [CLASSES.index(name) if official else i for i, name in enumerate(classes, 1)]
    texts = decimals(np.concatenate([boxes.xyxy[:, :2], short_wh(boxes)], axis=1)[order].ravel())
    n = len(order)
    category = [str(ids[c]) for c in boxes.category[order].tolist()]
    columns = [[str(i + 1) for i in boxes.image[order].tolist()]]
    columns += [["-1"] * n if kind == "det" else [str(i) for i in range(1, n + 1)]]
    columns += [texts[i::4] for i in range(4)]
    if kind == "gt":
        columns += [["0" if c else "1" for c in boxes.has(Flag.CROWD)[order].tolist()], category, ["1"] * n]
    elif official and set(category) <= {"1"}:
        columns += [decimals(boxes.score[order]), ["-1,-1,-1"] * n]
    else:
        columns += [decimals(boxes.score[order]), category, ["-1"] * n]
    sizes = set(zip(images.width.tolist(), images.height.tolist(), strict=True))
    info = ["[Sequence]", "imDir=img1", f"seqLength={len(images)}"]
    if len(sizes) == 1 and min(size := sizes.pop()) > 0:
        info += [f"imWidth={size[0]}", f"imHeight={size[1]}"]
    if suffix:
        info.append(f"imExt={suffix}")
    contents = {
        "seqinfo.ini": info,
        f"{kind}/labels.txt": classes,
        "images.txt": images.name,
        f"{kind}/{kind}.txt": map(",".join, zip(*columns, strict=True)),
    }
    for name in files:
        target.write(name, "".join(f"{line}\n" for line in contents[name]).encode())


FORMAT = Format(
    name="mot",
    title="MOTChallenge sequences",
    use="challenges",
    written_by="MOT15, MOT16, MOT17, MOT20 (gt, det and results)",
    doc=__doc__ or "",
    suffixes=(".txt",),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=MotOptions,
    keeps=frozenset("extension empty score wh crowd".split()),
)
