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
  ``--classes FILE`` or ``labels.txt`` beside the file, as written by CVAT, the numbers are its lines, from 1;
  from 0, as X-AnyLabeling counts, if there is a class 0 or none with the number of the last line of
  ``--classes FILE``. ``-O first_class=0`` or ``1`` decides. With a frame 0, frames are counted from 0 too.
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
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.frames import check_frames, find_box_tracks, number_tracks
from odm.formats._shared.gather import Gather, find_folders
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER, describe_lines
from odm.formats.mot.sequences import (
    CLASSES,
    NO_IMAGE,
    MotOptions,
    add_sequence,
    find_first_class,
    kind_by_name,
    list_classes,
    read_sequence,
)
from odm.issues import Log, printable, spell
from odm.names import stem
from odm.tables import Builder, Dataset, Flag, Longs

FIELDS = ("frame", "id", "bb_left", "bb_top", "bb_width", "bb_height", "conf", "class", "visibility", "z")
_OTHER_FILES = frozenset(("images.txt", "labels.txt"))


def sniff(source: Source) -> Sniff | None:
    """Recognise a sequence by its layout, or by rows of 7 or 9 to 11 numbers, the first a frame number.

    In a folder of results without ``gt.txt`` or ``det.txt``, rows must end with -1,-1,-1.
    """
    files = _find_files(source, "gt") or _find_files(source, "det")
    if not files and source.is_dir:
        rows = list(label_rows.sample_rows(source, _find_tracker_files(source), sep=b","))
        # The world coordinates x, y, z of trackers are -1,-1,-1, which no other format has.
        row_ends = [row[7:] for row in rows if len(row) == 10 and all(map(NUMBER.fullmatch, row))]
        n_fitting = sum({*map(float, end)} == {-1} for end in row_ends)
        if not rows or 3 * n_fitting < 2 * len(rows):
            return None
        parts = "a frame, an id, a box, a confidence and -1,-1,-1, as trackers write them for MOTChallenge"
        return Sniff(LIKELY, f"{describe_lines(n_fitting, len(rows))} {parts}")
    if not source.is_dir and not source.path.lower().endswith(".txt"):
        return None
    n_lines = n_fitting = 0
    for cells in label_rows.sample_rows(source, files, sep=b","):
        n_lines += 1
        numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
        # All are numbers, or all but one, which is reported when the file is read.
        may_be_row = len(cells) in (7, 9, 10, 11) and len(numbers) >= len(cells) - 1
        n_fitting += may_be_row and float(numbers[0]).is_integer()
    is_named = source.is_dir or kind_by_name(source.path) is not None
    if 3 * n_fitting < 2 * n_lines or not (n_lines or is_named):
        return None
    parts = "a frame, an id, a box and a confidence, as in MOTChallenge"
    lines_text = f"{describe_lines(n_fitting, n_lines)} {parts}"
    return Sniff(SURE if is_named else LIKELY, f"{files[0]}: {lines_text}" if files[0] else lines_text)


def _find_tracker_files(source: Source) -> list[str]:
    """Return the files of a folder of results, one a sequence, if most of their lines look like tracks."""
    files = [f for f in source.with_suffix(".txt") if f.rsplit("/", 1)[-1].lower() not in _OTHER_FILES]
    rows = list(label_rows.sample_rows(source, files, sep=b","))
    n_fitting = sum(len(row) >= 7 and all(map(NUMBER.fullmatch, row[:6])) for row in rows)
    return files if rows and 3 * n_fitting >= 2 * len(rows) else []


def _find_files(source: Source, kind: str) -> list[str]:
    """Return the files of one kind, ``gt`` or ``det``, in a folder; [""] if the source is a file."""
    if not source.is_dir:
        return [""]
    return [f for f in source.with_suffix(".txt") if f.rsplit("/", 1)[-1].lower() == f"{kind}.txt"]


def _find_row_shape(n: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
    """Return the shape of a row of n values; None for a wrong number of them.

    9 columns end with class and visibility; the last three of 10 are world coordinates, which are not read,
    nor is what follows the first 9 of 11 to 13.
    """
    # 14 are two rows of 7 in a line; 8 are 7 and an empty one, after a comma at the end.
    if n < 7 or n > 13 or (n == 8 and kind(7)):
        return None
    return label_rows.Shape(range(9 if n == 9 or n > 10 else 7))


GRAMMAR = label_rows.Grammar(
    _find_row_shape, FIELDS, "7, 9 or 10 numbers separated by commas", default=-1.0, sep=","
)


def read(source: Source, builder: Builder, log: Log, options: MotOptions) -> None:
    """Read a file, a sequence, or a folder of sequences: ground truth if any, or the kind asked for."""
    kind, truth, detections = builder.kind, _find_files(source, "gt"), _find_files(source, "det")
    files = detections if kind == "det" else truth or (detections if kind is None else [])
    if source.is_dir and not truth and not detections:
        files = _find_tracker_files(source)
    elif kind is None and source.is_dir and truth and detections:
        log.note(
            f"{printable(source.path)}: reading the ground truth; {spell('kind')} det reads the detections"
        )
    if not files:
        log.report(NO_FILES, source.path, expected=f"{kind or 'gt'}.txt", n=len(source.files))
    # The rows and classes of all files, which together show how classes are counted.
    gather = Gather(source, builder, log, options, find_folders(source))
    tables = [
        (label_rows.read_labels(gather, [file], GRAMMAR), list_classes(source, file, log, options))
        for file in files
    ]
    first_class = (
        find_first_class(source, tables, log) if options.first_class is None else int(options.first_class)
    )
    for file, (labels, classes) in zip(files, tables, strict=True):
        if builder.kind is None:
            no_ids = len(labels) and (labels.values[:, 1] == -1).all()  # as detectors write them
            builder.kind = kind_by_name(source.full(file)) or ("det" if no_ids else "gt")
        sequence = read_sequence(source, file, log, options, several=len(files) > 1)
        if sequence is not None:
            builder.extras.update(sequence.unread_keys)
            add_sequence(labels, file, sequence, classes, options, first_class)
        else:
            builder.skipped += len(labels)
    builder.kind = builder.kind or "gt"
    gather.finish()


def write(dataset: Dataset, target: Output, log: Log, _: MotOptions) -> None:
    """Write a sequence for each video."""
    sequences = _split_videos(dataset)
    content_of_file: dict[str, str] = {}  # in words, for messages
    for sequence in sequences:
        content_of_file |= dict.fromkeys(sequence.files, f"the sequence {sequence.name!r}")
    frames_are_unique = check_frames(dataset, log)
    classes_refused = label_rows.refuse_classes(dataset, log, words=False, unused=True)
    is_planned = target.plan(list(content_of_file), list(content_of_file.values()), log)
    if not is_planned or classes_refused or not frames_are_unique:
        return
    numbers = number_tracks(dataset, log)
    tracks = find_box_tracks(dataset, numbers)
    for sequence in sequences:
        for name, text in sequence.format_files(tracks).items():
            target.write(name, text.encode())


class _WrittenSequence:
    """A sequence that is written: the images at `rows` of a dataset.

    `frames` (rows,) are their ascending frame numbers, None for 1, 2, ... Numbers from 0 are shifted by 1, as
    files count from 1. `folder` is that of its files, with a slash at the end, or empty.
    """

    def __init__(self, dataset: Dataset, rows: Longs, name: str, folder: str, frames: Longs | None) -> None:
        """Find out which of the optional files the sequence needs."""
        self.dataset, self.rows, self.name = dataset, rows, name
        self.shift = 1 if frames is not None and len(frames) and int(frames.min()) == 0 else 0
        self.frames = np.arange(1, len(rows) + 1) if frames is None else frames + self.shift
        self.length = len(rows) if frames is None else int(self.frames.max(initial=0))
        classes = dataset.categories.name
        self.is_official = set(classes) <= set(CLASSES[1:])  # of MOTChallenge, whose number 0 is no class
        self.images = [dataset.images.name[row] for row in rows.tolist()]
        self.is_full = not all(name.startswith(folder) for name in self.images)
        """Whether the list of images holds whole names, not names in the folder."""
        if not self.is_full:
            self.images = [name[len(folder) :] for name in self.images]
        suffixes = {name[len(stem(name)) :] for name in self.images}
        self.suffix = suffixes.pop() if len(suffixes) == 1 else ""
        # Names that are frame numbers, as 000001.jpg, of all frames: then images.txt is not needed.
        pairs = zip(self.images, self.frames.tolist(), strict=True)
        self.is_numbered = not self.is_full and len(rows) == self.length
        self.is_numbered = self.is_numbered and all(name == f"{n:06d}{self.suffix}" for name, n in pairs)
        # The files: labels.txt and images.txt only where needed.
        kind = dataset.kind
        labels = [f"{kind}/labels.txt"] * (not self.is_official)
        lists = ["images.txt"] * (not self.is_numbered)
        self.folder = folder
        self.files = [folder + name for name in (f"{kind}/{kind}.txt", "seqinfo.ini", *labels, *lists)]

    def format_files(self, tracks: Longs | None) -> dict[str, str]:
        """Return the text of each file by its path; `tracks` (n,) are the track ids of all boxes."""
        folder, kind = self.folder, self.dataset.kind
        lines = {
            f"{folder}seqinfo.ini": self._format_info(),
            f"{folder}{kind}/{kind}.txt": self._format_boxes(tracks),
        }
        if not self.is_official:
            lines[f"{folder}{kind}/labels.txt"] = list(self.dataset.categories.name)
        if not self.is_numbered:
            image_lines = [NO_IMAGE] * self.length
            for frame, name in zip(self.frames.tolist(), self.images, strict=True):
                image_lines[frame - 1] = name
            lines[f"{folder}images.txt"] = image_lines
        return {name: "".join(f"{line}\n" for line in text) for name, text in lines.items()}

    def _format_info(self) -> list[str]:
        """Return the lines of ``seqinfo.ini``."""
        images = self.dataset.images
        info = ["[Sequence]"] + [f"name={self.name}"] * bool(self.name)
        info += ["imDir=img1", f"seqLength={self.length}"]
        pairs = zip(images.width[self.rows].tolist(), images.height[self.rows].tolist(), strict=True)
        sizes = set(pairs)
        if len(sizes) == 1 and min(size := sizes.pop()) > 0:
            info += [f"imWidth={size[0]}", f"imHeight={size[1]}"]
        info += [f"imExt={self.suffix}"] * bool(self.suffix)
        return info + ["firstFrame=0"] * self.shift + ["fullNames=1"] * self.is_full

    def _format_boxes(self, tracks: Longs | None) -> list[str]:
        """Return the rows of the boxes, sorted by frame; `tracks` (n,) are the track ids of all boxes."""
        dataset, boxes, classes = self.dataset, self.dataset.boxes, self.dataset.categories.name
        # The boxes of the sequence by frame.
        frame_of_image = np.zeros(len(dataset.images), np.int64)
        frame_of_image[self.rows] = self.frames
        frame = frame_of_image[boxes.image] if len(boxes) else np.zeros(0, np.int64)
        order = np.argsort(frame, kind="stable")
        order = order[np.searchsorted(frame[order], 1) :]  # frame 0 is for images of other sequences
        # The columns of the rows: frame, track, left, top, width, height, and what depends on the kind.
        class_ids = [CLASSES.index(name) if self.is_official else i for i, name in enumerate(classes, 1)]
        texts = to_decimals(np.concatenate([boxes.xyxy[:, :2], boxes.short_wh()], axis=1)[order].ravel())
        n_boxes = len(order)
        category = [str(class_ids[c]) for c in boxes.category[order].tolist()]
        columns = [[str(i) for i in frame[order].tolist()]]
        columns += [["-1"] * n_boxes if tracks is None else [str(i) for i in tracks[order].tolist()]]
        columns += [texts[i::4] for i in range(4)]
        if dataset.kind == "gt":
            conf = ["0" if c else "1" for c in boxes.has(Flag.CROWD)[order].tolist()]
            columns += [conf, category, ["1"] * n_boxes]  # all are fully visible
        elif self.is_official and set(category) <= {"1"}:
            columns += [to_decimals(boxes.score[order]), ["-1,-1,-1"] * n_boxes]
        else:
            columns += [to_decimals(boxes.score[order]), category, ["-1"] * n_boxes]
        return list(map(",".join, zip(*columns, strict=True)))


def _split_videos(dataset: Dataset) -> list[_WrittenSequence]:
    """Return the sequences to be written: one for each video, and one of the images without a video."""
    images, videos = dataset.images, dataset.videos
    all_rows = np.arange(len(images))
    if images.video is None:
        return [_WrittenSequence(dataset, all_rows, name="", folder="", frames=None)]
    used_videos = np.unique(images.video).tolist()  # with -1 for images without a video
    targets = []
    for video in used_videos:
        rows = np.flatnonzero(images.video == video)
        name = videos.name[video] if video >= 0 else "images"
        frames = None  # numbered by position, if an image lacks its number
        if video >= 0 and images.frame is not None and (images.frame[rows] >= 0).all():
            rows = rows[np.argsort(images.frame[rows], kind="stable")]
            frames = images.frame[rows].astype(np.int64)
        folder = f"{name}/" if len(used_videos) > 1 else ""
        targets.append(_WrittenSequence(dataset, rows, name if video >= 0 else "", folder, frames))
    return targets


FORMAT = format_of(
    __name__,
    title="MOTChallenge sequences",
    expects=("frame id left top width height conf x y z",),
    use="challenges",
    written_by="MOTChallenge (gt, det and results)",
    suffixes=(".txt",),
    keeps=frozenset("extension empty score wh crowd video track".split()),
)
