"""The codes that several parts share: readers report them, and loading, checks or commands refer to them.

All other codes are declared beside the code that reports them; `odm.issues.CODES` has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from odm.issues import Code, Log, Placed, Trusted, first_few, spell

GIVE_SIZES = "use --images DIR, --image-size WxH or --image-sizes FILE.csv"
"""What to do where the sizes of images are needed."""

SCORE_MISSING = Code(
    "score-missing",
    "error",
    "expected detections with scores, found a box without one",
    "add the score, or use --kind gt if this is ground truth (eval: give it first)",
    "Detections are ranked by score, so a detection without one cannot be evaluated.",
    row=True,
)
SCORE_UNEXPECTED = Code(
    "score-unexpected",
    "error",
    "expected ground truth without scores, found score {value!r}",
    "remove the score, or use --kind det if these are detections (eval: give them second)",
    "A score in ground truth usually means that detections were given instead.",
    row=True,
)
ALL_SCORED = Code(
    "all-boxes-scored",
    "error",
    "expected ground truth without scores, but every box has one ({n})",
    "use --kind det if these are detections (eval: give them second), otherwise remove the scores",
    "Only detections have a score for every box. Used as ground truth they would match themselves, and "
    "every metric would be perfect.",
)
NO_SCORES = Code(
    "no-scores",
    "error",
    "expected detections with scores, but no box has one ({n})",
    "add the scores, or use --kind gt if this is ground truth (eval: give it first)",
    "Detections are ranked by score and cannot be evaluated without. Boxes without any scores are usually "
    "ground truth.",
)
NO_REFERENCE = Code(
    "results-without-reference",
    "error",
    "a results file contains only image and category ids, no names",
    "give the ground truth it belongs to with --gt GT.json",
    "The ids in a results file have a meaning only together with the ground truth they refer to.",
)
NUMBERED_CLASSES = Code(
    "numbered-classes",
    "warning",
    "there are no class names, only numbers, which are used as names: {value}{near}",
    "give the class names with --classes",
    "Without names, an evaluation or a conversion cannot tell whether class 0 here is class 0 elsewhere.",
)
CATEGORY_POSITION_GUESSED = Code(
    "category-position-guessed",
    "warning",
    "category ids are read as positions, from 1, in the classes of the ground truth, whose order is only "
    "that of first appearance: {order}",
    "use ground truth whose categories have ids, or give a class list",
    "Ids have a meaning only together with the list they refer to. A format without a class list, such as "
    "XML files of objects, has its classes in the order of first appearance, which need not be that of the "
    "ids.",
    doubt=True,
)
UNKNOWN_SPLIT = Code(
    "unknown-split",
    "error",
    "there is no split {value!r}: {splits}",
    "{way}",
    "The dataset has no split of this name.",
)
NO_SIZE = Code(
    "image-size-unknown",
    "error",
    "the size of image {value!r} is unknown, but relative coordinates need it",
    GIVE_SIZES,
    "Converting relative coordinates to pixels requires the width and height of the image, and neither the "
    "file, nor a picture, nor an option gives them.",
    file=True,
)
SIZE_OUT_OF_REACH = Code(
    "image-size-out-of-reach",
    "error",
    "the size of image {value!r} is unknown, but relative coordinates need it: {reason}",
    "{way}",
    "Image sizes exist on the other side or in the pictures of the dataset, but none can be assigned to "
    "this image with certainty.",
    file=True,
)
LAYOUT_GUESSED = Code(
    "box-layout-guessed",
    "warning",
    "the numbers of {boxes} fit as {what}, and are read as {box}",
    "set {option}",
    "More than one reading is possible, and a wrong one changes every box. Where the numbers or the sizes of "
    "images leave only one reading, it is taken without this warning.",
    doubt=True,
)
STRAY_FILE = Code(
    "stray-file",
    "warning",
    "this file is not part of the dataset and is not read",
    "move it elsewhere, or delete it if it is not needed",
    "A file among the annotations is neither an annotation nor a picture. It may have been created by the "
    "operating system, or be a misnamed annotation.",
)
NO_PICTURE = Code(
    "picture-missing",
    "warning",
    "no picture found for the labels of {value!r}",
    "add the picture, or remove the labels",
    "Other labels have a picture but these do not, so one of the two may be misnamed. They cannot be used "
    "for training or be drawn.",
)
COORDINATES_NOT_FINITE = Code(
    "coordinates-not-finite",
    "error",
    "expected finite coordinates, found {value}",
    "find out where it came from, or leave the box out (--skip-bad of convert, eval and stats)",
    "An edge, width or area is infinite or not a number, for example because left + width, or the area, is "
    "too large to represent. Such a box overlaps nothing, and no format can store it.",
    row=True,
)
SCORE_NOT_FINITE = Code(
    "score-not-finite",
    "error",
    "expected a finite score, found {value}",
    "write the detector's confidence, or leave the box out (--skip-bad of convert, eval and stats)",
    "Detections are ranked by score; one without a finite score has no rank.",
    row=True,
)
SOME_SCORES = Code(
    "some-scores",
    "warning",
    "{found} of {total} ground-truth boxes have a score, which is ignored",
    "remove the scores, or use --kind det if these are detections",
    "Ground truth has no confidence, and in detections every box has one. A few scores in ground truth are "
    "usually left over from a detector.",
)
COORDINATES_DIFFER = Code(
    "coordinates-differ",
    "error",
    "{relative} are in 0..1{small}, but {absolute} are in pixels{large}",
    "if one side is relative and the other in pixels, set --gt-coords and --det-coords, and give the image "
    "sizes",
    "Relative coordinates and pixels do not overlap, so every metric would be 0.",
)
NOTHING_TO_PUT = Code(
    "picture-not-known",
    "error",
    "expected the picture of every image to copy or link, found none for {n} of {total}: {names}",
    "use --images DIR, or --follow-links if pictures are behind links; or omit --link-images, --copy-images",
    "The output should include the pictures, but the source does not say where these are.",
)

OUTLINE_NUMBERS = Code(
    "outline-numbers",
    "error",
    "expected pairs of x and y that are numbers, found {value}",
    "correct the outline",
    "An outline lists x and y of each corner. With an odd count, or a value that is not a number, nobody "
    "can tell which numbers belong together.",
    row=True,
)
MASK_SYNTAX = Code(
    "mask-syntax",
    "error",
    "expected a mask as size [height, width] and counts, found {value}",
    "write the mask again",
    "The counts are run lengths down the columns of the image: a list of numbers from 0, or the compressed "
    "text in which pycocotools writes them.",
    row=True,
)
MASK_SIZE = Code(
    "mask-size",
    "error",
    "expected a mask of the image's size {expected}, found {value}",
    "write the mask again for this image, or correct the size of the image",
    "A mask made for another size of the image covers other pixels. pycocotools compares such masks without "
    "a warning, as if they had nothing in common.",
    row=True,
)
OUTLINE_TOO_LARGE = Code(
    "outline-too-large",
    "error",
    "expected an outline whose sides pass at most {expected} columns of pixels, found {value}",
    "check the outline and the size of its image, or remove the object",
    "A mask lists the runs of pixels in every column of its image. Thousands of sides across a very wide "
    "image make more runs than can be handled.",
    row=True,
)
KEYPOINT_COUNT = Code(
    "keypoint-count",
    "error",
    "expected {expected}, found {value}",
    "correct the keypoints, or their names in the class",
    "Every object of a class has the same keypoints in the same order; those that are not labelled are "
    "0, 0, 0.",
    row=True,
)


def report_unfillable(dataset: Placed, rows: Any, columns: Sequence[int], limit: int, log: Log) -> None:
    """Report boxes whose outlines are too large to fill: their `rows` (n,), the number of `columns` of pixels
    that the sides of each pass, and the `limit`, as of `Shapes.find_unfillable`.
    """
    columns_of_row = dict(zip(rows.tolist(), columns, strict=True))
    log.report_rows(
        OUTLINE_TOO_LARGE, dataset, rows, lambda row: {"value": columns_of_row[row], "expected": limit}
    )


def report_unknown_split(
    log: Log, path: str, split: str | None, names: Iterable[str], no_splits: str = "it has no splits"
) -> None:
    """Report that a source has no split `split`.

    `names` are its splits, empty for images without one; the message has `no_splits` in their place if it has
    none.
    """
    split_names = sorted({*names} - {""})
    if split_names:
        splits = f"the {'split is' if len(split_names) == 1 else 'splits are'} {first_few(split_names, 10)}"
        advice = (
            f"set {spell('split')} to {'this' if len(split_names) == 1 else 'one of these'}, or leave it out"
        )
    else:
        splits, advice = no_splits, f"leave out {spell('split')}"
    log.report(UNKNOWN_SPLIT, path, value=split, splits=Trusted(splits), way=Trusted(advice))
