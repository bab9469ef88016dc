"""Read the sequences of MOTChallenge: the description of the frames, their images and boxes.

The format takes more lines than others because four files describe a sequence, each of which may be missing.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import SCORE_UNEXPECTED
from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.class_lists import class_list_option, read_class_list
from odm.formats._shared.codes import BAD_FLAG, BAD_FRAME, BAD_IMAGE_SIZE, UNKNOWN_CLASS
from odm.formats._shared.gather import Location, add_extension
from odm.formats._shared.pictures import ImageOptions, parse_pixels
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.tokens import clean_text
from odm.issues import Code, Log, Trusted, printable
from odm.names import accept_name, stem
from odm.tables import NO_ID, Flag, Kind

BAD_LIST = Code(
    "mot-bad-image-list",
    "error",
    "images.txt has a blank line, which shifts the frames after it",
    "write one name per line",
    "The position of a name in images.txt is its frame number.",
)
CLASSES_FROM = Code(
    "mot-class-numbers",
    "warning",
    "the classes are read as counted from {value}: {reason}",
    "if they are counted from {other}, use -O first_class={other}",
    "MOTChallenge and CVAT count classes from 1, X-AnyLabeling from 0. A wrong choice makes each class the "
    "one beside it in the list.",
    doubt=True,
)
CLASSES = (
    *("", "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle"),
    *("static person", "distractor", "occluder", "occluder on the ground", "occluder full"),
    *("reflection", "crowd"),
)
_INFO = frozenset("name imdir framerate seqlength imwidth imheight imext firstframe fullnames".split())
NO_IMAGE = "-"
"""Placeholder in ``images.txt`` for a frame without an image."""
MAX_FRAMES = 200_000
"""Frames that a sequence may claim to have before those without boxes are no longer listed."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MotOptions(ImageOptions):
    """What the numbers of the classes and frames mean."""

    classes: str | None = class_list_option("file with the class names, one per line, or a data.yaml")
    first_class: str | None = option(
        None,
        "number of the first class in the list; default: as the files show",
        choices=("0", "1"),
        side="read",
    )
    first_frame: str = option(
        "1", "number to give to the frame that files call 1", choices=("1", "0"), side="read"
    )


def kind_by_name(path: str) -> Kind | None:
    """Return the kind that the name of a file, or of its folder, says (gt or det); None if neither."""
    # "gt" and "gt.txt" of a/gt/gt.txt, "" and "gt.txt" of gt.txt.
    _, folder, file_name = ["", "", *path.replace("\\", "/").lower().split("/")][-3:]
    kinds: tuple[Kind, ...] = ("gt", "det")
    for kind in kinds:
        if file_name == f"{kind}.txt" or (folder == kind and file_name.endswith(".txt")):
            return kind
    return None


class Sequence(msgspec.Struct, frozen=True, eq=False):
    """The description of the frames of one sequence."""

    prefix: str
    """The beginning of its image names, if there are several sequences; else empty."""
    folder: str
    """Its folder below the source, with a slash at the end, or empty."""
    names: list[str] | None
    """The image name of each frame, from ``images.txt``; None without it: names are then frame numbers."""
    suffix: str
    """The suffix of image names that are frame numbers, with the dot, or empty."""
    length: int
    """The number of frames, 0 if it is unknown or more than `MAX_FRAMES`."""
    size: tuple[int, int]
    """Width and height in pixels, 0 if unknown."""
    picture_folder: str
    """The folder of its pictures below the source, with a slash at the end."""
    video: str
    """The name of the video."""
    shift: int
    """Subtracted from the frame numbers of the files: 1 if the frame that they call 1 is frame 0."""
    is_full: bool
    """Whether `names` are complete, without a prefix to add."""
    unread_keys: list[str]
    """Keys of ``seqinfo.ini`` that the format does not know."""


def _read_text(source: Source, file: str, log: Log) -> str | None:
    """Read the text of a file; None if there is no such file."""
    if file not in source.files:
        return None
    return clean_text(source.read(file, log) or b"", source.full(file), log).decode("utf-8", "replace")


def read_sequence(
    source: Source, file: str, log: Log, options: MotOptions, *, several: bool
) -> Sequence | None:
    """Read the description of a sequence; None after an issue if it cannot be right.

    `file` has its boxes, and the other files are found beside it or beside its folder. `several`: it is one
    of several sequences, so that its image names get a prefix.
    """
    *folders, file_name = file.split("/")
    if folders and folders[-1].lower() in ("gt", "det"):
        folders.pop()
    folder = "".join(folder_name + "/" for folder_name in folders)

    # seqinfo.ini: "imWidth=1920", ... and the line "[Sequence]", which has no value.
    ini_text = _read_text(source, f"{folder}seqinfo.ini", log) or ""
    lines = [line.partition("=") for line in ini_text.split("\n")]
    pairs = [(key.strip(), value.strip()) for key, _, value in lines]
    info = {key.lower(): value for key, value in pairs}
    numbers = []
    for key in ("imwidth", "imheight", "seqlength"):
        try:
            is_empty = key == "seqlength" and info.get(key) == "0"  # a sequence without frames
            numbers.append(parse_pixels(info[key]) if key in info and not is_empty else 0)
        except ValueError:
            log.report(BAD_IMAGE_SIZE, source.full(f"{folder}seqinfo.ini"), field=key, value=info[key])
            return None
    width, height, length = numbers

    # images.txt, whose number of lines counts rather than seqlength.
    names = None
    if (text := _read_text(source, f"{folder}images.txt", log)) is not None:
        names = text.rstrip("\n").split("\n") if text.strip("\n") else []
        length = len(names)
        if blank_line := next((i for i, name in enumerate(names, 1) if not name.strip()), 0):
            log.report(BAD_LIST, source.full(f"{folder}images.txt"), line=blank_line)
            return None

    # The folder names the video; among the files of a tracker, MOT17-02.txt, MOT17-04.txt, ..., the file.
    prefix, video = folder if several else "", info.get("name") or _find_video_name(source, folder)
    if source.is_dir and kind_by_name(file) is None:
        prefix, video = f"{file[: -len('.txt')]}/" if several else "", stem(file_name[: -len(".txt")])
    suffix = info.get("imext", "")
    return Sequence(
        prefix=prefix,
        folder=folder,
        names=names,
        suffix=suffix if re.fullmatch(r"\.[0-9A-Za-z]{1,9}", suffix) else "",
        length=length if length <= MAX_FRAMES else 0,  # 0: only frames with boxes are images
        size=(width, height),
        picture_folder=f"{folder}{info.get('imdir') or 'img1'}/",
        video=video,
        shift=1 if info.get("firstframe") == "0" or options.first_frame == "0" else 0,
        is_full=info.get("fullnames") == "1",
        unread_keys=[key for key, value in pairs if value and key.lower() not in _INFO],
    )


def _find_video_name(source: Source, folder: str) -> str:
    """Return the name of a sequence: that of its folder, or of its file if it is not called gt or det."""
    path = source.path.replace("\\", "/").rstrip("/")
    if not source.is_dir:
        *folders, file_name = [name for name in path.split("/") if name not in ("", ".")]
        if kind_by_name(path) is None:  # MOT17-02.txt of a tracker
            return file_name[: -len(".txt")] if file_name.lower().endswith(".txt") else file_name
        folders = [name for name in folders if name.lower() not in ("gt", "det")]
        return folders[-1] if folders else "video"
    return folder.rstrip("/") or path.rpartition("/")[2].strip(".") or "video"


class ClassList(msgspec.Struct, frozen=True, eq=False):
    """The classes of a sequence by their numbers."""

    names: list[str] | None
    """None where the list is not usable; the log has the reason."""
    path: str
    """The path of the list, empty for the classes of MOTChallenge."""
    is_from_option: bool
    """Whether the user named the list."""


def list_classes(source: Source, file: str, log: Log, options: MotOptions) -> ClassList:
    """Return the classes of a sequence: those of the option, else of ``labels.txt`` beside its file."""
    folder, slash, _ = file.rpartition("/")
    names, list_path = read_class_list(options.classes, source, f"{folder}{slash}labels.txt", log)
    return ClassList(names if list_path else list(CLASSES[1:]), list_path, options.classes is not None)


def find_first_class(source: Source, tables: list[tuple[label_rows.Labels, ClassList]], log: Log) -> int:
    """Find the number of the first class, 0 or 1, from the rows of all sequences; a doubt is reported.

    A row of class 0, as X-AnyLabeling writes them, shows that classes are counted from 0. With n names from
    the option, a row of class n shows that they are counted from 1, and no such row that they are from 0.
    """
    # Column 7 is the class, -1 for none, and column 0 the frame.
    class_columns = [labels.values[:, 7] for labels, _ in tables]
    counts = [len(classes.names or ()) for _, classes in tables]
    has_list = any(classes.path for _, classes in tables)
    has_classes = any((column >= 0).any() for column in class_columns)
    has_last = any((column == n).any() for column, n in zip(class_columns, counts, strict=True))
    if not has_classes or has_last or not all(counts):  # a count of 0 is a list that is not usable
        return 1
    if has_list and any((column == 0).any() for column in class_columns):
        log.note(f"{printable(source.path)}: classes are counted from 0, because there is a class 0")
        return 0
    has_frame_0 = any((labels.values[:, 0] == 0).any() for labels, _ in tables)
    if any(classes.is_from_option for _, classes in tables):
        reason = f"no box has the class {max(counts)} of {max(counts)}"
        if not has_frame_0:
            log.report(CLASSES_FROM, source.path, value=0, other=1, reason=Trusted(reason))
        else:
            path = printable(source.path)
            log.note(f"{path}: classes are counted from 0: there is a frame 0, and {reason}")
        return 0
    if has_frame_0:
        reason = "there is a frame 0, as X-AnyLabeling writes it, and no class 0"
        log.report(CLASSES_FROM, source.path, value=1, other=0, reason=Trusted(reason))
    return 1


def add_sequence(
    labels: label_rows.Labels,
    file: str,
    sequence: Sequence,
    classes: ClassList,
    options: MotOptions,
    first_class: int,
) -> None:
    """Add the images and valid boxes of a sequence, report other rows; classes begin at `first_class`."""
    # labels.values: (n, 10) frame, id, left, top, width, height, conf, class, visibility, z; -1 where absent
    builder, values, frame = labels.builder, labels.values, labels.values[:, 0]
    # Rows whose frame exists: with a list of names it must have a line, else any number may do.
    limit = (sequence.length or 10**9) if sequence.names is None else len(sequence.names)
    # With a list of names the lowest frame is 1, its first line; with `shift` it is 1, which becomes frame 0.
    # Without both it is 0, as X-AnyLabeling counts.
    lowest_frame = 1 if sequence.names is not None or sequence.shift else 0
    is_valid = (frame == np.rint(frame)) & (frame >= lowest_frame) & (frame <= limit)
    among = f" in 1..{sequence.length}" if sequence.length else " from 1 on" if sequence.shift else ""
    labels.report(BAD_FRAME, ~is_valid, position=0, field="frame", among=among)
    # The video and its images.
    file_number = builder.file(labels.source.full(file))
    name_is_taken = sequence.video in builder.video_names  # by a sequence in another folder
    video = builder.video(sequence.prefix if name_is_taken else sequence.video, length=sequence.length)
    row_of_frame = _add_images(
        labels, {*frame[is_valid].astype(np.int64).tolist()}, sequence, file_number, video, options
    )
    conf, flags = values[:, 6], np.zeros(len(labels), np.uint16)
    if builder.kind == "gt":
        is_valid &= _check_truth_marks(labels, is_valid)
        flags |= (conf == 0) * np.uint16(Flag.CROWD)
    category, has_class = _add_classes(labels, is_valid, classes, first_class)

    # The image of each box, looked up once for each frame; -1 if the row is not valid or the frame has none.
    # `add_rows` skips and counts rows with -1.
    frames, frame_position = np.unique(np.where(is_valid, frame, -1), return_inverse=True)
    image = np.array([row_of_frame.get(n, -1) for n in frames.tolist()], np.int32)[frame_position]
    ids = np.where(values[:, 1] >= 0, values[:, 1], NO_ID).astype(np.int64)
    xyxy, wh = label_rows.convert_ltwh(values[:, 2:6])
    columns: dict[str, Any] = {
        "xyxy": xyxy,
        "wh": wh,
        "flags": flags,
        "file": file_number,
        "category": category,
    }
    if (ids >= 0).any():
        columns["track"] = builder.tracks(np.full(len(ids), video), ids)
    score = conf if builder.kind == "det" else None
    labels.add_rows(is_valid & has_class, image=image, score=score, **columns)


def _check_truth_marks(labels: label_rows.Labels, is_valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Report valid rows of ground truth with a bad mark (conf) or visibility; return (n,) False for these."""
    conf, visibility = labels.values[:, 6], labels.values[:, 8]
    has_bad_mark = is_valid & (conf != 0) & (conf != 1) & (conf != -1)  # -1 counts as 1
    labels.report(SCORE_UNEXPECTED, has_bad_mark, position=6, field="conf", expected="1, or 0 if ignored")
    is_visibility = (visibility == -1) | ((visibility >= 0) & (visibility <= 1))
    has_bad_visibility = is_valid & ~has_bad_mark & ~is_visibility
    expected = "0..1, or -1 for unknown"
    labels.report(BAD_FLAG, has_bad_visibility, position=8, field="visibility", expected=expected)
    is_good: NDArray[np.bool_] = ~has_bad_mark & ~has_bad_visibility
    labels.count("visibility", is_valid & is_good & (visibility >= 0) & (visibility < 1))
    return is_good


def _add_images(
    labels: label_rows.Labels,
    used_frames: set[int],
    sequence: Sequence,
    file_number: int,
    video: int,
    options: MotOptions,
) -> dict[int, int]:
    """Add the image of each frame that has one, of the sequence or used; return image rows by frame.

    `used_frames` are those with boxes, and `file_number` and `video` rows of the builder.
    """
    gather, log = labels.gather, labels.log
    row_of_frame: dict[int, int] = {}
    path = labels.source.full(sequence.folder + "images.txt")
    has_size_option = options.image_size is not None or options.image_sizes is not None
    start = 0 if 0 in used_frames else 1  # as in X-AnyLabeling
    for frame in sorted({*used_frames, *range(start, start + sequence.length)}):
        # Its name, where names are listed the one on its line of images.txt.
        location = Location(labels.source.full(labels.files[0]))
        if sequence.names is not None:
            name, location = sequence.names[frame - 1], Location(path, line=frame)
            if name == NO_IMAGE or not accept_name(name, log, path, line=frame):
                continue
        else:
            name = f"{frame:06d}{sequence.suffix}"

        # Its picture, which gives the name its suffix if there is none, and its size.
        folder = sequence.picture_folder
        picture = gather.find_picture(folder + name, location, folder + stem(name))
        if stem(name) == name:
            name = add_extension(name, picture)
        name = name if sequence.is_full else sequence.prefix + name
        size = sequence.size if min(sequence.size) else None
        if has_size_option:  # options go before seqinfo.ini
            # (0, 0) is unknown, where None would be looked for once more.
            size = gather.pictures.find_size(name, picture) or size or (0, 0)
        row = gather.image(
            name,
            location,
            size=size,
            picture=picture,
            accepted=True,
            file=file_number,
            video=video,
            frame=frame - sequence.shift,
        )
        if row is not None:
            row_of_frame[frame] = row
    return row_of_frame


def _add_classes(
    labels: label_rows.Labels, is_valid: NDArray[np.bool_], classes: ClassList, first_class: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return (n,) the category row of each box, -1 for none, and (n,) True if it has one.

    `first_class` is the number of the first class. Boxes with the class -1 are pedestrians.
    """
    names = None if classes.names is None else ["", *classes.names]  # position 0 is no class
    position = labels.values[:, 7]
    lacks_class = position == -1
    position = position + (1 - first_class)  # counted from 1; -1 is replaced below
    if names is not None and lacks_class.any():
        if CLASSES[1] not in names:
            names.append(CLASSES[1])
        position = np.where(lacks_class, names.index(CLASSES[1]), position)
    # A given list (`in_order`) adds all its classes, the official one those that boxes have.
    category_rows, has_class = labels.find_numbered(
        position, is_valid & (position != 0), names, in_order=bool(classes.path)
    )
    has_class &= position != 0
    if names is not None:
        list_name = classes.path or "MOTChallenge"
        is_unknown, n_classes = is_valid & ~has_class, len(names) - 1
        labels.report(UNKNOWN_CLASS, is_unknown, position=7, field="class", n=n_classes, where=list_name)
    return category_rows, has_class
