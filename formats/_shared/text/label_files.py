"""Tell label files from the other files of a folder of text files, and look at some of their lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from odm.codes import STRAY_FILE
from odm.files import Source
from odm.formats._shared.text.tokens import BOM, NUMBER, clean_text
from odm.issues import Log, first_few, printable
from odm.names import PICTURE_SUFFIXES

_VALUE = rb"[ \t]*[0-9.+-]+[ \t]*"
_SEPARATED = re.compile(rb"[^,;|]+([,;|])(?:" + _VALUE + rb"\1)?(?:" + _VALUE + rb"\1){3}" + _VALUE)
"""A class and 4 or 5 numbers, all with the same comma, semicolon or bar between them."""
NOT_LABELS = frozenset(
    (
        *("classes.txt", "_classes.txt", "predefined_classes.txt"),
        *("obj.names", "obj.data", "readme.txt", "license.txt", "kitti_seq_to_map.json"),
    )
)
"""Files, in lower case, that are often found among labels and are none."""

_NAME_LISTS = frozenset({"class_names.txt", "labels.txt"})
"""Names of files that list classes where they hold no rows of numbers, in lower case."""
_AMONG = (".txt", ".yaml", ".yml", ".data", ".names", ".labels", ".cache", *PICTURE_SUFFIXES)


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The files of a folder of labels by their kind."""

    labels: list[str]
    pictures: list[str]
    others: list[str]
    """Neither, and nothing that a dataset of text files usually holds."""
    known: list[str]
    """Class lists, read-me files and the like."""


def list_files(source: Source) -> Listing:
    """The files of `source`, sorted. A single file is a label, whatever its name."""
    return source.once(_list_files) if source.is_dir else Listing([""], [], [], [])


def _list_files(source: Source) -> Listing:
    """Sort the files of a folder by their kind; see `Listing`."""
    labels: list[str] = []
    pictures: list[str] = []
    stray_files: list[str] = []
    side_files: list[str] = []
    for file in source.files:
        lower_name = file.rsplit("/", 1)[-1].lower()
        if (
            lower_name.endswith(".txt")
            and lower_name not in NOT_LABELS
            and not lower_name.startswith("readme")
        ):
            is_list = lower_name in _NAME_LISTS and _ROW.search(source.head(file)) is None
            is_list |= _LISTS.fullmatch(lower_name) is not None and lists_pictures(source, file)
            (side_files if is_list else labels).append(file)
        elif lower_name.endswith(tuple(PICTURE_SUFFIXES)):
            pictures.append(file)
        elif lower_name.endswith(_AMONG) or lower_name in NOT_LABELS:
            side_files.append(file)
        else:
            stray_files.append(file)
    return Listing(labels, pictures, stray_files, side_files)


_ROW = re.compile(rb"(?:[ \t,]-?[0-9.]+){4}")
_LISTS = re.compile(r"(autosplit_)?(train|val|valid|test|trainval|images)[0-9]*\.txt")


def lists_pictures(source: Source, file: str) -> bool:
    """Whether a file is a list of pictures, by its content: the first line ends like a picture's name."""
    first_line = source.head(file).removeprefix(BOM).strip().split(b"\n", 1)[0].strip().lower()
    return first_line.endswith(tuple(suffix.encode() for suffix in PICTURE_SUFFIXES))


def make_image_key(source: Source, file: str) -> str:
    """Return the path of a label file without ``.txt``, which is the image name without its extension."""
    name = source.relative(file)
    return name[:-4] if name.lower().endswith(".txt") else name


def report_others(source: Source, files: Listing, log: Log) -> None:
    """Name the files that are not read."""
    for file in files.others:
        log.report(STRAY_FILE, source.full(file))
    if files.known:
        log.note(f"{printable(source.path)}: not images, ignored: {first_few(files.known, 5)}")


SAMPLE = 200
"""How many files a sniffer looks at."""


class Sample(msgspec.Struct, eq=False):
    """Counts over some lines of some label files, from which a format is recognised."""

    files: int = 0
    lines: int = 0
    relative: int = 0
    """Lines that begin with a whole number and hold no number beyond 1.5: YOLO's."""
    tracked: int = 0
    """Of the `relative` lines, those that end in a whole number from 2 on, the id of a track."""
    named: int = 0
    """Lines whose class is a word."""
    pixels: int = 0
    """Lines that begin with a whole number and hold numbers beyond 1.5."""
    rows: int = 0
    """Lines that end with four numbers after a class."""
    separated: int = 0
    """Lines that are a class and numbers once they are split at commas, semicolons or bars."""
    counts: dict[int, int] = msgspec.field(default_factory=dict)
    """How many lines have how many numbers after the class."""
    fractions: dict[int, int] = msgspec.field(default_factory=dict)
    """How many lines begin with a whole number, and then have how many numbers, all in 0..1 but a track's."""

    @property
    def empty(self) -> str:
        """The reason of a sniff where there are no lines."""
        if self.files > 1:
            return f"the {self.files} .txt files looked at are empty"
        return "its .txt file is empty"


def sample(source: Source, labels: Sequence[str]) -> Sample:
    """Count the first 200 lines of each of about 200 label files, spread evenly over all."""
    step = max(1, len(labels) // SAMPLE)
    return source.once(_sample, tuple(labels[::step][:SAMPLE]))


def _sample(source: Source, labels: tuple[str, ...]) -> Sample:
    """Count the kinds of lines among the first 200 of each of these files; see `Sample`."""
    summary = Sample()
    for file in labels:
        summary.files += 1
        data = clean_text(source.head(file), "", Log())
        lines = data.split(b"\n")
        # Of a long file the head is read, whose last line may be cut.
        complete_lines = lines if len(lines) < 200 else lines[:-1]
        for line in complete_lines[:200]:
            tokens = line.split()
            if not tokens:
                continue
            summary.lines += 1
            if len(tokens) < 5 and _SEPARATED.fullmatch(line):
                summary.separated += 1
            numbers = [float(t) for t in tokens[1:] if NUMBER.fullmatch(t)]
            # A whole number from 2 on is no coordinate of YOLO.
            ends_in_track = len(numbers) >= 5 and numbers[-1] >= 2 and numbers[-1].is_integer()
            body = numbers[:-1] if ends_in_track else numbers
            is_large = any(abs(n) > 1.5 for n in body)  # fractions are at most a little outside 0..1
            begins_whole = re.fullmatch(rb"[0-9]+(\.0*)?", tokens[0]) is not None
            summary.named += not begins_whole
            summary.pixels += begins_whole and is_large
            summary.relative += begins_whole and not is_large
            summary.tracked += begins_whole and not is_large and ends_in_track
            summary.rows += len(tokens) >= 5 and all(NUMBER.fullmatch(t) for t in tokens[-4:])
            summary.counts[len(numbers)] = summary.counts.get(len(numbers), 0) + 1
            if begins_whole and body and all(0 <= n <= 1 for n in body):
                summary.fractions[len(body)] = summary.fractions.get(len(body), 0) + 1
    return summary
