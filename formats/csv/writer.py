"""The dialects of CSV as they are written: what each can hold, and how it makes rows of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.files import COLLISION
from odm.formats._shared.shapes.fractions import divide_by_images
from odm.formats._shared.tables.column_roles import FLAGS
from odm.formats._shared.tables.csv_files import Quote, format_box_lines, iter_cells
from odm.formats._shared.text.numbers import to_decimals, to_texts
from odm.formats._shared.text.tokens import format_relative
from odm.formats.csv.layouts import CANONICAL, OPEN_IMAGES, OPEN_IMAGES_PREDICTIONS, PREDICTION_STRING, TFOD
from odm.issues import Log
from odm.names import BAD_CLASS_NAME, stem
from odm.tables import Dataset, Flag, Floats

BLOCK = 2**16
"""How many rows are formatted at a time, as their texts take more memory than their lines."""


def can_be_relative(dataset: Dataset, log: Log, *, has_strings: bool) -> bool:
    """Whether a dataset can be written relative to image sizes, with image names without extension.

    Reports what prevents that.
    """
    images, n_errors = dataset.images, log.errors
    divide_by_images(dataset, dataset.boxes.xyxy, log)  # for what it reports
    image_of_stem: dict[str, str] = {}
    for name in images.name:
        first_name = image_of_stem.setdefault(stem(name), name)
        if first_name != name:
            log.report(COLLISION, "", first=first_name, second=name, value=stem(name))
    if has_strings:
        for name in dataset.categories.name:
            if " " in name:
                reason = "spaces separate the words of a prediction string"
                log.report(BAD_CLASS_NAME, "", value=name, reason=reason)
    return log.errors == n_errors


def _format_edges(dataset: Dataset) -> list[Iterator[str]]:
    """Return four columns of texts: left, top, right and bottom in pixels."""
    return [_format_numbers(column) for column in dataset.boxes.xyxy.T]


def _format_numbers(values: Floats) -> Iterator[str]:
    """Yield the shortest text of each number; those of all rows at once would fill the memory."""
    for start in range(0, len(values), BLOCK):
        yield from to_decimals(values[start : start + BLOCK])


def _format_relative_edges(dataset: Dataset) -> list[list[str]]:
    """Return four columns of texts: left, top, right and bottom relative to the size of the image.

    A fixed number of decimals, fine enough for a millionth of a pixel and coarse enough that the same text
    comes back from the pixels.
    """
    boxes, images = dataset.boxes, dataset.images
    values = boxes.xyxy / np.tile(dataset.limits()[boxes.image], 2)
    cells = format_relative(values, images.width[boxes.image], images.height[boxes.image])
    return [to_texts(cells[k::4]) for k in range(4)]


def _format_scores(values: Floats) -> Iterable[str]:
    """Return the texts of (n,) scores, empty for NaN."""
    lacks_score = np.isnan(values)
    if lacks_score.all():
        return [""] * len(values)
    texts = _format_numbers(np.where(lacks_score, 0.0, values))
    return ("" if is_missing else text for text, is_missing in zip(texts, lacks_score.tolist(), strict=True))


def _format_flags(flags: NDArray[np.uint16], bits: Iterable[Flag], sep: str) -> Iterator[str]:
    """Yield for each box the cells of the flags `bits`, 0 or 1, joined by `sep`; `flags` is (n,)."""
    distinct_flags, position_of_box = np.unique(flags, return_inverse=True)
    cells = [sep.join("1" if value & bit else "0" for bit in bits) for value in distinct_flags.tolist()]
    return iter_cells(cells, position_of_box)


def _format_images(dataset: Dataset, quote: Quote) -> list[str]:
    """Return the cells of name, width and height of each image, joined; an unknown size is left empty."""
    images = dataset.images
    sizes = ([str(n) if n > 0 else "" for n in side.tolist()] for side in (images.width, images.height))
    return [quote.sep.join(cells) for cells in zip(map(quote, images.name), *sizes, strict=True)]


# ----------------------------------------------------------------------------------------------- dialects


def _make_canonical(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    """Return the header and the lines of canonical CSV; with videos or tracks it has three more columns."""
    boxes, sep = dataset.boxes, quote.sep
    images = _format_images(dataset, quote)
    columns: list[Iterable[str]] = [
        iter_cells(images, boxes.image),
        iter_cells(classes, boxes.category),
        _format_scores(boxes.score),
        *_format_edges(dataset),
        _format_flags(boxes.flags, [FLAGS[name] for name in CANONICAL[9:]], sep),  # from difficult on
    ]
    image_lines = [image + sep * 11 for image in images]  # class, score, 4 edges and 5 flags are empty
    if dataset.images.video is None and boxes.track is None:
        return CANONICAL, format_box_lines(dataset, sep, columns, image_lines)
    frames = _format_frames(dataset, quote)
    ids = [quote(str(i)) for i in dataset.tracks.source_id.tolist()] + [""]  # the last is for -1, no track
    track = np.full(len(boxes), -1) if boxes.track is None else boxes.track
    columns += [iter_cells(ids, track), iter_cells(frames, boxes.image)]
    # An image has no track; `frame` are the cells of video and frame.
    image_lines = [f"{text}{sep}{sep}{frame}" for text, frame in zip(image_lines, frames, strict=True)]
    return [*CANONICAL, "track", "video", "frame"], format_box_lines(dataset, sep, columns, image_lines)


def _format_frames(dataset: Dataset, quote: Quote) -> list[str]:
    """Return the cells of video and frame number of each image, joined, empty where it has none."""
    images = dataset.images
    names = [quote(name) for name in dataset.videos.name] + [""]  # the last is for -1, no video
    no_values = np.full(len(images), -1)
    video = no_values if images.video is None else images.video
    frame = no_values if images.frame is None else images.frame
    pairs = zip(video.tolist(), frame.tolist(), strict=True)
    return [names[v] + quote.sep + (str(f) if min(v, f) >= 0 else "") for v, f in pairs]


def _make_tfod(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    """Return the header and the lines of TF Object Detection CSV."""
    names = iter_cells(_format_images(dataset, quote), dataset.boxes.image)
    labels = iter_cells(classes, dataset.boxes.category)
    return TFOD, format_box_lines(dataset, quote.sep, [names, labels, *_format_edges(dataset)])


def _make_retinanet(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    """Return the lines of keras-RetinaNet CSV, which has no header."""
    boxes, sep, images = dataset.boxes, quote.sep, list(map(quote, dataset.images.name))
    columns = [iter_cells(images, boxes.image), *_format_edges(dataset), iter_cells(classes, boxes.category)]
    image_lines = [image + sep * 5 for image in images]  # 4 edges and the class are empty
    return [], format_box_lines(dataset, sep, columns, image_lines)


def _make_open_images(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    """Return the header and the lines of Open Images: of its predictions for detections, else its boxes."""
    boxes, n = dataset.boxes, len(dataset.boxes)
    names = iter_cells([quote(stem(name)) for name in dataset.images.name], boxes.image)
    labels = iter_cells(classes, boxes.category)
    left, top, right, bottom = _format_relative_edges(dataset)
    if dataset.kind == "det":
        columns = [names, labels, _format_scores(boxes.score), left, right, top, bottom]
        return OPEN_IMAGES_PREDICTIONS, format_box_lines(dataset, quote.sep, columns)
    bits = (Flag.OCCLUDED, Flag.TRUNCATED, Flag.GROUP_OF, Flag.DEPICTION, Flag.INSIDE)
    marks = _format_flags(boxes.flags, bits, quote.sep)
    columns = [names, [""] * n, labels, ["1"] * n, left, right, top, bottom, marks]
    return OPEN_IMAGES, format_box_lines(dataset, quote.sep, columns)


def _make_prediction_strings(
    dataset: Dataset, classes: list[str], quote: Quote
) -> tuple[list[str], list[str]]:
    """Return the header and a line for each image, with all its detections in one cell."""
    del classes  # a prediction string is quoted as a whole, not by its words
    boxes, images = dataset.boxes, dataset.images.name
    labels = iter_cells(dataset.categories.name, boxes.category)
    groups = format_box_lines(
        dataset, " ", [labels, _format_scores(boxes.score), *_format_relative_edges(dataset)]
    )
    box_ends = np.cumsum(np.bincount(boxes.image, minlength=len(images))).tolist()
    # `groups` is sorted by image, so the boxes of image i are groups[box_ends[i - 1] : box_ends[i]].
    return PREDICTION_STRING, [
        quote(stem(name)) + quote.sep + quote(" ".join(groups[start:stop]))
        for name, start, stop in zip(images, [0, *box_ends], box_ends, strict=False)
    ]


class Dialect(msgspec.Struct, frozen=True, eq=False):
    """What a dialect holds, and how it is written."""

    keeps: frozenset[str]
    make_lines: Callable[[Dataset, list[str], Quote], tuple[list[str], list[str]]]
    """Return the cells of the header and the lines of a dataset; the second argument are its class cells."""
    is_relative: bool = False
    """Whether coordinates are over the image's size, and images are named without extension."""
    has_strings: bool = False
    """Whether all detections of an image stand in one cell."""


DIALECTS = {
    "canonical": Dialect(
        frozenset(
            "size extension empty score difficult truncated occluded crowd group_of video track".split()
        ),
        _make_canonical,
    ),
    "tfod": Dialect(frozenset({"size", "extension"}), _make_tfod),
    "openimages": Dialect(
        frozenset("score truncated occluded group_of depiction inside".split()),
        _make_open_images,
        is_relative=True,
    ),
    "predictionstring": Dialect(
        frozenset({"score", "empty"}), _make_prediction_strings, is_relative=True, has_strings=True
    ),
    "retinanet": Dialect(frozenset({"extension", "empty"}), _make_retinanet),
}
