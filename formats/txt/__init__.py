"""Plain text: one ``.txt`` file per image, one box per line.

Ground truth   ``<class> <4 numbers>``
Detections     ``<class> <confidence> <4 numbers>``

The file name without ``.txt`` is the image name; an empty file is an image without objects. Class names may
contain spaces: the numbers are taken from the right. Values are separated by any run of spaces or tabs, or by
``--sep``, in which case a class may end in a number (``route 66,10,20,30,40``). A byte order mark, CRLF,
blank lines, trailing spaces, ``.88``, ``1e-3`` and a missing final newline are accepted. Quotes around a
class are an error, because the format has no quotes. The word ``difficult`` after the numbers, as in the
ground truth of Cartucho's mAP, is read as that flag, and not written.

What the four numbers mean
    ``--box ltrb`` (left top right bottom), ``ltwh`` (left top width height) or ``cxcywh`` (centre, width,
    height); ``--coords abs`` (pixels) or ``rel`` (fractions of the width and height of the image, which
    need image sizes: ``--image-size``, ``--images``, ``--image-sizes``; without any they stay fractions). If
    these options are omitted:

    - if all values are in 0..1, they are ``rel``, and ``rel`` means ``cxcywh``;
    - pixels are ``ltrb`` if no row has right < left or bottom < top, and ``ltwh`` if at least one row in 20
      has (and three rows, or all of a small set). Anything in between is an error that gives both counts.

    The decision is made for the whole folder, in an evaluation for both sides together, and printed as a
    note.

Ground truth or detections
    The majority of the rows decides, or ``--kind``; rows of the other kind are errors. Confidences are in
    0..1.

Classes
    Words are class names. Whole numbers are names too, unless ``--classes FILE`` (one name per line, or a
    ``data.yaml``) gives their names. Class names are kept exactly, except for leading and trailing spaces.

Writing
    ``<class> <4 numbers>`` or ``<class> <confidence> <4 numbers>``, ltrb in pixels unless ``--box`` and
    ``--coords`` are given; numbers have the fewest digits that read back exactly. With ``--coords rel`` they
    have enough decimals to preserve pixels within 1e-6. ``-O spaces=underscore`` writes underscores for the
    spaces in classes, at which other programs split the line.
"""

from __future__ import annotations

from typing import Any

from odm.files import Output, Source
from odm.formats._contract import LIKELY, POOR, Sniff, format_of
from odm.formats._shared.text_files import sample
from odm.formats._shared.text_tokens import lines_are
from odm.formats.txt.meaning import TxtOptions, decide_together
from odm.formats.txt.rows import labels_of
from odm.issues import Log
from odm.tables import Builder, Dataset


def sniff(source: Source) -> Sniff | None:
    """Class words or pixels in ``.txt`` files."""
    labels = labels_of(source)
    if not labels or any(f.lower().endswith(".xml") for f in source.files):
        return None
    found = sample(source, labels)
    if not found.lines:
        return Sniff(LIKELY, found.empty)
    if 2 * found.separated > found.lines:
        what = lines_are(found.separated, found.lines)
        return Sniff(LIKELY, f"{what} a class and numbers with separators")
    mine = found.named + found.pixels
    if mine < found.relative or not _numbers_follow(found.counts):
        return None
    what = f"{lines_are(found.rows, found.lines)} a class and numbers"
    if not found.rows:
        return Sniff(POOR, f"these are .txt files with numbers, although {what}")
    if found.named >= found.pixels:
        return Sniff(LIKELY, f"{what}, and the classes are words")
    return Sniff(LIKELY, f"{what} in pixels")


def _numbers_follow(counts: dict[int, int]) -> bool:
    """Whether most lines have at least two numbers: other text has not."""
    return 2 * sum(n for count, n in counts.items() if count >= 2) > sum(counts.values())


def read(source: Source, builder: Builder, log: Log, options: TxtOptions) -> None:
    """Read a folder of text files, or one."""
    from odm.formats.txt import reader

    reader.read(source, builder, log, options)


def write(dataset: Dataset, target: Output, log: Log, options: TxtOptions) -> None:
    """Write one text file per image."""
    from odm.formats.txt import writer

    writer.write(dataset, target, log, options)


def adapt(options: TxtOptions) -> dict[str, Any]:
    """Fractions need the sizes of images."""
    return {"needs_size": options.coords == "rel"}


FORMAT = format_of(
    __name__,
    title="Plain text, one file per image",
    use="results",
    written_by="the object-detection-metrics tools (Cartucho mAP, Padilla), one file per image",
    suffixes=(".txt",),
    single=False,
    keeps=frozenset({"score", "empty"}),
    decide_together=decide_together,
)
