"""KITTI object labels: one ``.txt`` file per image, one object per line.

::

    type truncated occluded alpha left top right bottom height width length x y z rotation_y [score]

Syntax: the readme of the KITTI object development kit (http://www.cvlibs.net/datasets/kitti). Values are
separated by spaces. ``truncated`` is 0..1, ``occluded`` 0 (visible), 1 (partly), 2 (largely) or 3 (unknown);
both are -1 if unknown. ``left top right bottom`` are edges in pixels, from 0, unchanged.

Reading
-------
- A folder of files, flat or with ``label_2/`` beside ``image_2/`` (``labels/`` beside ``images/`` for NVIDIA
  TAO), or one file. The file name without ``.txt`` is the image name; an empty file is an image without
  objects.
- Rows of 15 columns are ground truth; rows of 16, with the score last, are detections. Scores may be any
  numbers, as in the development kit.
- ``DontCare`` marks a region in which objects were not labelled: it is read as a region to ignore, which
  concerns all classes.
- ``True`` and ``False``, as some tools write them, are 1 and 0.
- ``truncated`` above 0 and ``occluded`` 1 or 2 are read as the flags of these names; the degree, angles and
  3D boxes are counted but not kept.
- Types may have several words, although the kit has none: the columns are counted from the right.
- Labels of the tracking benchmark, one file per sequence with frame and track number before the type, are
  read too: a sequence is a video and its images are ``0000/000000`` and so on; a track of -1 means none.
  Frames without a line are unknown.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
Unknown values are written as in the development kit: alpha and rotation -10, dimensions -1, location
-1000; in detections truncated and occluded -1. A region to ignore is written as DontCare; a crowd box can be
written only if DontCare is its class.
Types with spaces, at which other programs split the line, are refused; ``-O spaces=underscore`` writes
underscores for them.
``-O layout=tracking`` writes the labels of the tracking benchmark, for images that are frames of videos.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of, option
from odm.formats._shared.class_lists import spaces_option
from odm.formats._shared.codes import BAD_FLAG, BAD_FRAME
from odm.formats._shared.frames import check_frames, find_box_tracks, number_tracks, require_frames
from odm.formats._shared.gather import Location, add_extension
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER, Chunk
from odm.issues import Log
from odm.tables import NO_ID, Builder, Dataset, Flag, Longs


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KittiOptions(ImageOptions):
    """Options of KITTI labels."""

    layout: str = option(
        "objects",
        "a file per image (objects), or per video with tracks (tracking)",
        choices=("objects", "tracking"),
        side="write",
    )
    spaces: str = spaces_option()


FIELDS = (
    *("truncated", "occluded", "alpha", "left", "top", "right", "bottom"),
    *("height", "width", "length", "x", "y", "z", "rotation_y"),
)
DONT_CARE = "DontCare"
LEAD = 2
"""Columns before the type: the frame and the track."""


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of a type and 14 or 15 numbers, of which the second is a state of occlusion."""
    if not label_rows.are_text(source):
        return None
    n_rows = n_fitting = n_with_type = 0
    for row in label_rows.sample_rows(source, label_rows.find_label_files(source, GRAMMAR)):
        cells = [*row[:1], *(_MARKS.get(cell, cell) for cell in row[1:])]  # a type may be called True
        n_rows += 1
        # The type is the first cell or, in the tracking layout, the third: after a frame and a track.
        n_with_type += len(cells) > 2 and not NUMBER.fullmatch(cells[2])
        if len(cells) >= 15 and all(map(NUMBER.fullmatch, cells[-14:])):
            has_score = len(cells) >= 16 and NUMBER.fullmatch(cells[-15]) is not None
            start = len(cells) - 14 - has_score  # of the 14 numbers
            truncated, occluded = float(cells[start]), float(cells[start + 1])
            n_fitting += -1 <= truncated <= 2 and occluded in (-1, 0, 1, 2, 3)
            n_with_type += not NUMBER.fullmatch(cells[0])
    description = "a type and the 14 or 15 numbers of KITTI labels"
    return label_rows.sniff_lines(n_fitting, n_rows, description) if n_with_type else None


_MARKS = {b"True": b"1", b"False": b"0"}
"""Words that some tools write for truncated and occluded, and their numbers."""


def _make_grammar(n_before: int) -> label_rows.Grammar:
    """The grammar of rows of a type and 14 or 15 numbers.

    `n_before` is how many other numbers precede these: 0, or `LEAD` for a frame and a track.
    """

    def replace_marks(chunk: Chunk) -> None:
        """Put numbers in the place of True and False, after a type of one word.

        The values of row r in `tokens` are `count[r]`, from position `first[r]` on.
        """
        if any(mark in chunk.tokens for mark in _MARKS):
            is_one_word = np.isin(chunk.count - n_before, (15, 16))  # a type, 14 numbers and perhaps a score
            for row_start in chunk.first[is_one_word].tolist():  # truncated and occluded follow the type
                for position in (row_start + n_before + 1, row_start + n_before + 2):
                    chunk.tokens[position] = _MARKS.get(chunk.tokens[position], chunk.tokens[position])

    def choose_columns(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
        """Return the columns of a row, counted from the right because the type may have several words.

        `kind` tells what the value at a position is.
        """
        if n_cells < n_before + 15:
            return None
        # Of 15 values from the right, the first is a number if the last is a score, else a word of the type.
        has_score = n_cells >= n_before + 16 and kind(n_cells - 15) == "number"
        start = n_cells - 14 - has_score
        numbers = [*range(n_before), *range(start, start + 14)]
        return label_rows.Shape(numbers, n_cells - 1 if has_score else -1, name=(n_before, start - n_before))

    return label_rows.Grammar(
        choose_columns,
        (*("frame", "track")[:n_before], *FIELDS),
        "a type and 14 numbers, or 15 with a score" + (", after a frame and a track" if n_before else ""),
        named="type",
        marks=_MARKS,
        prepare=replace_marks,
        folders=re.compile("label_?0?2?", re.IGNORECASE),  # label_2; label_02 of the tracking benchmark
    )


GRAMMAR, TRACKING = _make_grammar(0), _make_grammar(LEAD)


def read(source: Source, builder: Builder, log: Log, options: KittiOptions) -> None:
    """Read a folder of label files, one for each image, or in the tracking layout for each video; or one."""
    files = label_rows.find_label_files(source, GRAMMAR)
    label_rows.report_files(source, files, log)
    is_tracking = _is_tracking(source, files)
    gather = label_rows.gather_labels(source, builder, log, options)
    labels = label_rows.read_labels(gather, files, TRACKING if is_tracking else GRAMMAR)
    is_valid = labels.settle_kind()
    # values: (n, 14) the columns in `FIELDS`. Faults of the states of a box, and its flags.
    values = labels.values[:, LEAD:] if is_tracking else labels.values
    truncated, occluded = values[:, 0], values[:, 1]
    first_cell = -15 if builder.kind == "det" else -14  # counted from the end of the row
    # Objects have 0..1, the tracking benchmark has the levels 0, 1 and 2.
    has_unknown_truncation = is_valid & ~((truncated == -1) | ((truncated >= 0) & (truncated <= 2)))
    labels.report(BAD_FLAG, has_unknown_truncation, first_cell, "truncated", "0..1, or -1 for unknown")
    has_unknown_occlusion = is_valid & ~np.isin(occluded, (-1, 0, 1, 2, 3))
    expected = "0, 1, 2, 3, or -1 for unknown"
    labels.report(BAD_FLAG, has_unknown_occlusion, first_cell + 1, "occluded", expected)
    is_valid &= ~has_unknown_truncation & ~has_unknown_occlusion
    flags = (truncated > 0) * np.uint16(Flag.TRUNCATED)
    flags |= ((occluded == 1) | (occluded == 2)) * np.uint16(Flag.OCCLUDED)
    if builder.kind == "gt":
        is_dont_care = [text.casefold() == DONT_CARE.casefold() for text in labels.texts] or [False]
        # labels.name has the position in labels.texts of each box's type; [False] stands in without rows.
        is_region = np.array(is_dont_care)[labels.name]
        flags |= is_region * np.uint16(Flag.REGION)
    labels.count("degrees of truncation", is_valid & (truncated > 0) & (truncated < 1))
    labels.count("degrees of occlusion", is_valid & (occluded >= 2))
    labels.count("3D boxes", is_valid & (values[:, 7:10] > 0).all(axis=1))
    category = labels.find_classes(is_valid)
    extra: Mapping[str, Sequence[bytes]] | None = None
    if builder.wants_fields:  # KITTI's levels are by truncated and occluded, directions by alpha: columns 0-2
        extra = {FIELDS[i]: [b"%r" % value for value in values[:, i].tolist()] for i in range(3)}
    if not is_tracking:
        labels.add(is_valid, category, values[:, 3:7], flags=flags, extra=extra)
        return
    # `labels.add` makes an image of each file, but here a file is a video.
    image, columns = _add_frames(labels, is_valid)
    columns |= {"extra": extra} if extra else {}
    columns |= {"category": category, "xyxy": values[:, 3:7], "flags": flags}
    labels.add_rows(is_valid, image=image, score=labels.score if builder.kind == "det" else None, **columns)
    gather.finish()


def _is_tracking(source: Source, files: Sequence[str]) -> bool:
    """Whether most lines begin with two whole numbers, the frame and the track, and a type."""
    n_rows = n_fitting = 0
    for cells in label_rows.sample_rows(source, files):
        n_rows += 1
        numbers, type_ = cells[:LEAD], cells[LEAD : LEAD + 1]  # the type is a list of one cell, or empty
        n_fitting += (
            len(cells) >= LEAD + 15
            and all(NUMBER.fullmatch(cell) and float(cell).is_integer() for cell in numbers)
            and not any(map(NUMBER.fullmatch, type_))
        )
    return bool(n_rows) and 2 * n_fitting > n_rows


def _add_frames(
    labels: label_rows.Labels, is_valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], dict[str, Any]]:
    """Add an image for every frame that has boxes; report boxes with a bad frame number.

    Returns (n,) int32 the image row of each box, -1 without one, and the columns for files and tracks.
    """
    gather, builder, source = labels.gather, labels.builder, labels.source
    frame, track = labels.values[:, 0], labels.values[:, 1]
    has_no_frame = is_valid & ~((frame >= 0) & (frame < 2**31) & (frame == np.rint(frame)))
    labels.report(BAD_FRAME, has_no_frame, position=0, field="frame", among=", from 0")
    paths = [source.full(file) for file in labels.files]
    file_numbers = np.array([builder.file(path) for path in paths], np.int64)
    video_names = [path.replace("\\", "/").rpartition("/")[2][: -len(".txt")] for path in paths]
    videos = np.array([builder.video(name) for name in video_names], np.int64)
    file = labels.rows.file  # the position of each box's file in `paths`, `file_numbers` and `videos`
    # The image of each pair of file and frame, then of each box.
    image_of_box = np.full(len(labels), -1, np.int32)
    rows = np.flatnonzero(is_valid & ~has_no_frame)
    # Rows of file 0 in the frames 0, 0, 1 and of file 1 in frame 0: frame_keys [[0, 0, 1], [0, 1, 0]],
    # a column (file, frame) for each image; key_of_row [0, 0, 1, 2].
    files_and_frames = np.stack([file[rows], frame[rows]]).astype(np.int64)
    frame_keys, key_of_row = np.unique(files_and_frames, axis=1, return_inverse=True)
    image_of_key = np.full(frame_keys.shape[1], -1, np.int32)
    for i, (file_index, frame_number) in enumerate(frame_keys.T.tolist()):
        name = f"{video_names[file_index]}/{frame_number:06d}"
        location = Location(paths[file_index])
        picture = gather.find_picture(name, location, name, *(f"{p}/{name}" for p in ("image_02", "image_2")))
        file_number, video = int(file_numbers[file_index]), int(videos[file_index])
        name = add_extension(name, picture)
        row = gather.image(name, location, picture=picture, file=file_number, video=video, frame=frame_number)
        image_of_key[i] = -1 if row is None else row
    image_of_box[rows] = image_of_key[key_of_row.reshape(-1)]  # some versions of NumPy return (1, n)
    # Tracks below 0 are none.
    track_ids: Longs = np.where(track >= 0, track, NO_ID).astype(np.int64)
    box_columns: dict[str, Any] = {"file": file_numbers[file]}
    if (track_ids >= 0).any():
        box_columns["track"] = builder.tracks(videos[file], track_ids)
    return image_of_box, box_columns


def adapt(options: KittiOptions) -> dict[str, Any]:
    """Declare what a layout keeps."""
    tracking = options.layout == "tracking"
    if not tracking:
        return {"keeps": _KEEPS}
    return {"keeps": (_KEEPS - {"empty"}) | {"video", "track"}}  # frames are known only by their boxes


def write(dataset: Dataset, target: Output, log: Log, options: KittiOptions) -> None:
    """Write one file per image, or per video with its tracks."""
    boxes, classes = dataset.boxes, dataset.categories.name
    is_region = boxes.has(Flag.REGION).tolist()
    types = [DONT_CARE if r else classes[c] for r, c in zip(is_region, boxes.category.tolist(), strict=True)]
    is_detections = dataset.kind == "det"
    # truncated, occluded and alpha, whose -10 is unknown.
    states = [
        "-1 -1 -10" if is_detections or name == DONT_CARE
        else f"{'1.00' if f & Flag.TRUNCATED else '0.00'} {1 if f & Flag.OCCLUDED else 0} -10"
        for name, f in zip(types, boxes.flags.tolist(), strict=True)
    ]  # fmt: skip
    texts = to_decimals(boxes.xyxy.ravel())
    columns = [
        types,
        states,
        *(texts[i::4] for i in range(4)),  # left of all boxes, top of all boxes, ...
        ["-1 -1 -1 -1000 -1000 -1000 -10"] * len(types),  # no 3D box
    ]
    if is_detections:
        columns.append(to_decimals(boxes.score))
    if options.layout == "tracking":
        _write_tracking(dataset, target, log, columns)
        return
    if label_rows.plan_files(dataset, target, log):
        label_rows.write_files(dataset, target, log, columns, " ")


def _write_tracking(dataset: Dataset, target: Output, log: Log, columns: Sequence[Sequence[str]]) -> None:
    """Write a file for each video; `columns` are those of the boxes from the type on."""
    boxes, videos = dataset.boxes, dataset.videos
    video, frame_numbers = require_frames(dataset, "tracking")
    has_bad_class = label_rows.refuse_classes(dataset, log)
    files = [f"{name}.txt" for name in videos.name]
    if not target.plan(files, list(videos.name), log) or has_bad_class or not check_frames(dataset, log):
        return
    log.note("layout=tracking: images are named after their video and the number of their frame")
    frame_of_box = frame_numbers[boxes.image]
    tracks = find_box_tracks(dataset, number_tracks(dataset, log))
    track_ids = ["-1"] * len(boxes) if tracks is None else list(map(str, tracks.tolist()))
    row_texts = list(map(" ".join, zip(map(str, frame_of_box.tolist()), track_ids, *columns, strict=True)))
    # Boxes sorted by video, then by frame; those of video i are order[video_starts[i] : video_starts[i + 1]].
    order = np.lexsort((frame_of_box, video[boxes.image]))
    video_starts = np.searchsorted(video[boxes.image][order], np.arange(len(videos) + 1))
    for i, file in enumerate(files):
        lines = [row_texts[k] for k in order[video_starts[i] : video_starts[i + 1]].tolist()]
        target.write(file, "".join(f"{line}\n" for line in lines).encode())


_KEEPS = frozenset("empty score truncated occluded region".split())


FORMAT = format_of(
    __name__,
    title="KITTI object labels",
    expects=("class truncated occluded alpha left top right bottom height width length x y z rotation",),
    use="challenges",
    written_by="KITTI object development kit, CVAT, FiftyOne, NVIDIA TAO (15 and 16 columns)",
    suffixes=(".txt",),
    keeps=_KEEPS,
    crowd_class=DONT_CARE,
)
