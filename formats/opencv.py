"""OpenCV annotations (``info.dat``): the objects of one class, one line per image, for cascade classifiers.

Specification: "Cascade Classifier Training" in the documentation of OpenCV, for ``opencv_createsamples`` and
``opencv_annotation``::

    img/img1.jpg  1  140 100 45 45
    img/img2.jpg  2  100 200 50 50   50 30 25 25

A line has the path of the image, the number of its objects, and left, top, width and height of each in
pixels, read and written unchanged. Detections have a score after each of them; OpenCV writes none.

The class is the name of the file, ``object`` for ``info``, ``annotations``, ``positives`` and ``pos``, or
that of ``-O category=NAME``. In a folder, the files of all classes are read, and ``bg.txt``, ``neg.txt`` or
``negatives.txt`` lists images without objects.

The files have no image sizes (``--images``, ``--image-size`` or ``--image-sizes`` give them) and no flags.

Writing: ``person.dat`` for the class ``person`` (``%3A`` stands for a colon), ``info.dat`` for ``object``,
and ``bg.txt`` if there are images without objects. OpenCV reads whole numbers only; ``-O round=true`` writes
these.
"""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import quote, unquote

from odm.files import Output, Source
from odm.formats._contract import NARROWER, SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE, note_spaces
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.gather import Location
from odm.formats._shared.json.items import Origin, Row, Rows, iter_images
from odm.formats._shared.json.values import Reader
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.label_rows import refuse_classes
from odm.formats._shared.text.numbers import round_boxes
from odm.formats._shared.text.records import to_numbers
from odm.formats._shared.text.tokens import clean_text, describe_lines
from odm.issues import Log, Trusted
from odm.names import BAD_NAME, PICTURE_SUFFIXES
from odm.tables import Builder, Dataset

CLASS = "object"
_UNNAMED = ("info", "annotations", "positives", "pos")
_NEGATIVES = ("bg.txt", "neg.txt", "negatives.txt")
_SUFFIXES = (".dat", ".txt", ".info", ".lst")
_ODD = re.compile(r'[%/\\:*?"<>|]')
"""Characters that a class may have and a file name may not; they are written as in a URL."""
_PLACE = ("left", "top", "width", "height")
_FIELDS = (*_PLACE, "score")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OpencvOptions(ImageOptions):
    """Options of OpenCV annotations."""

    category: str | None = option(None, "the class of all boxes, in place of the file's name", side="read")
    round: bool = option(False, "write whole numbers only", side="write")


def _split_line(line: str) -> tuple[str, list[str], int] | None:
    """Split a line into path, words of boxes and number of boxes; None if words and number do not fit.

    As paths may have spaces, the number is the first word with 4 or 5 times as many words after it:
    "my a.png 2 10 20 30 40 50 60 70 80" is split into "my a.png", 8 words and 2.
    """
    words = line.split()
    for index in range(1, len(words)):
        n_after, count = len(words) - index - 1, words[index]
        is_number = count.isascii() and count.isdigit() and len(count) < 9  # `int` refuses very long ones
        if is_number and n_after in (4 * int(count), 5 * int(count)):
            return line.rsplit(None, n_after + 1)[0].strip(), words[index + 1 :], int(count)
        if words[index - 1].lower().endswith(tuple(PICTURE_SUFFIXES)) and count.isdigit():
            break  # the number after the picture, which does not fit
    return None


def _count_fitting(source: Source, file: str) -> tuple[int, int]:
    """Count the first lines of a file that have a picture and its boxes, and the first lines in all.

    They are 100 at most. The last line is left out, as it may be cut.
    """
    head = clean_text(source.head(file), path="", log=Log(keep=0))  # `read` reports what is wrong
    lines = head.decode("utf-8", "replace").split("\n")
    sample = [line for line in lines[: max(1, len(lines) - 1)][:100] if line.strip()]
    # JSON on one line may have a number at such a place by chance.
    split_lines = [None if line.lstrip()[:1] in ("[", "{") else _split_line(line) for line in sample]
    # Any path will do in a .dat file ("" is the end of every text), but only one of a picture in a .txt file,
    # where other formats may have a number at such a place by chance.
    any_suffix = () if source.relative(file).lower().endswith(".txt") else ("",)
    suffixes = (*PICTURE_SUFFIXES, *any_suffix)
    n_fitting = sum(split is not None and split[0].lower().endswith(suffixes) for split in split_lines)
    return n_fitting, len(sample)


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of a picture, a number, and four or five times as many numbers.

    More than two thirds of the first lines of one of the first 20 files must be such lines.
    """
    files = source.with_suffix(*_SUFFIXES)[:20] if source.is_dir else [""]
    counts = {file: _count_fitting(source, file) for file in files}
    file = next((file for file, (n_fitting, total) in counts.items() if 3 * n_fitting > 2 * total), None)
    if file is None:
        return None
    summary = describe_lines(*counts[file])
    has_negatives = any(f.rpartition("/")[2].lower() in _NEGATIVES for f in files)
    # WIDER FACE is sure of a list of names, such as the negatives, and NARROWER goes before SURE.
    confidence = NARROWER if has_negatives else SURE
    expected = "a picture, a number, and as many boxes, as for OpenCV's cascade classifiers"
    return Sniff(confidence, f"{summary} {expected}")


def read(source: Source, builder: Builder, log: Log, options: OpencvOptions) -> None:
    """Read a file, or those of a folder, line by line; in lists of negatives a line may be just a path."""
    reader = Reader(source, builder, log, options)
    files, negatives = [""], []
    if source.is_dir:
        candidates = source.with_suffix(*_SUFFIXES)
        negatives = [file for file in candidates if file.rpartition("/")[2].lower() in _NEGATIVES]
        # All files with OpenCV's own suffixes, so that faults in them are reported; of others those with a
        # line that fits, which `_count_fitting` counts first.
        files = [f for f in candidates if f.endswith((".dat", ".info")) or _count_fitting(source, f)[0]]
        files = [file for file in files if file not in negatives]
        report_unread(source, candidates, [*files, *negatives], "annotations for OpenCV", log)
    row_and_file_of_image: dict[str, tuple[int | None, str]] = {}
    """The row of each image, and the file that it was last in."""
    for file in log.track([*files, *negatives], "reading"):
        path, data = source.full(file), source.read(file, log)
        stem = source.relative(file).rpartition("/")[2].rpartition(".")[0]
        label = options.category or (CLASS if stem.lower() in _UNNAMED else unquote(stem))
        origin, text = Origin(builder, path), b"" if data is None else clean_text(data, path, log)
        for line, content in enumerate(text.decode("utf-8", "replace").split("\n"), 1):
            if not content.strip():
                continue
            location, split_line = Location(path, line=line), _split_line(content)
            if split_line is None and file in negatives:
                split_line = content.strip(), [], 0  # a path, no words of boxes, no boxes
            if split_line is None:
                expected = Trusted("a path, a number, and as many times left, top, width and height")
                shown = f"{len(content.split())} values"
                log.report(WRONG_COUNT, path, line=line, expected=expected, found=shown)
                builder.skipped += 1
                continue
            name, words, n_boxes = split_line
            # An image may be in the files of several classes, and then keeps its row, but only once in each:
            # `image` reports a name that comes again in the same file.
            row, last_file = row_and_file_of_image.get(name, (None, file))
            if name not in row_and_file_of_image or last_file == file:
                row = reader.image(name, location, file=origin.number, line=line)
            row_and_file_of_image[name] = row, file
            n_per_box = len(words) // n_boxes if n_boxes else 4  # words per box: 4, or 5 with a score
            word_lists = [words[i : i + n_per_box] for i in range(0, len(words), n_per_box)]
            records = [dict(zip(_FIELDS, word_list, strict=False)) for word_list in word_lists]
            Rows(reader, location, records, origin).read(row, _read_box, label)
    reader.finish()


def _read_box(box: Row, label: str) -> None:
    """Add a box of the class `label` from the words of its numbers, in pixels."""
    box.record = to_numbers(box.record, *_FIELDS)
    score, (corners, wh) = box.score("score"), box.xywh(*_PLACE)
    box.add(box.category_named(label, box.location), corners, wh=wh, score=score)


def write(dataset: Dataset, target: Output, log: Log, options: OpencvOptions) -> None:
    """Write a file for each class, and one that lists the images without objects."""
    is_writable = not refuse_classes(dataset, log, words=False)
    for row, name in enumerate(dataset.images.name):
        if (_split_line(f"{name} 0") or ("",))[0] != name:  # the line of an image with 0 boxes
            path, line, pointer = dataset.image_place(row)
            reason = "it would not be read back as an image name"
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=name, reason=reason)
            is_writable = False
    for label in dataset.categories.name:
        if label.lower() in _UNNAMED:
            reason = "the name of its file would be read back as another class"
            log.report(UNWRITABLE, "", value=label, reason=reason, way="rename the class")
            is_writable = False
    # A line of each class for each image that has it: "a.jpg 2 10 20 30 40 50 60 70 80".
    lines_of_class: dict[str, list[str]] = {}
    empty_image_lines: list[str] = []
    for image in iter_images(round_boxes(dataset, log) if options.round else dataset):
        box_texts: dict[str, list[str]] = {}
        for box in image.boxes:
            values = [*box.xyxy[:2], *box.wh, *box.score_field("score").values()]
            box_texts.setdefault(box.label, []).append(" ".join(map(repr, values)))
        for label, label_boxes in box_texts.items():
            image_line = f"{image.name} {len(label_boxes)} {' '.join(label_boxes)}\n"
            lines_of_class.setdefault(label, []).append(image_line)
        if not box_texts:
            empty_image_lines.append(f"{image.name}\n")
    for lines in lines_of_class.values() if len(lines_of_class) > 1 else ():
        lines.sort()  # else reading them, class by class, and writing again would give another order
    # The files: info.dat for the usual class, others called after theirs, and one of the empty images.
    file_stems = {
        label: "info" if label == CLASS else _ODD.sub(lambda c: quote(c[0], safe=""), label)
        for label in lines_of_class
    }
    lines_of_file = {f"{file_stems[label]}.dat": lines for label, lines in lines_of_class.items()}
    lines_of_file |= {"bg.txt": empty_image_lines} if empty_image_lines or not lines_of_file else {}
    contents = [f"the class {label}" for label in lines_of_class] + ["the images without objects"]
    contents = contents[: len(lines_of_file)]  # without the last, if there is no bg.txt
    if not target.plan(list(lines_of_file), contents, log) or not is_writable:
        return
    note_spaces(dataset.images.name, log)
    for file, lines in lines_of_file.items():
        target.write(file, "".join(lines).encode())


FORMAT = format_of(
    __name__,
    title="OpenCV annotations (info.dat)",
    expects=("image count x y width height",),
    use="training",
    written_by="opencv_annotation, and lists for opencv_createsamples",
    suffixes=(".dat",),
    looks_at=_SUFFIXES,
    begins="^[{",
    keeps=frozenset({"extension", "empty", "score", "wh"}),
)
