"""Faults that readers report and that others ask after: loading, checks and the command line."""

from __future__ import annotations

from odm.issues import Code

SCORE_MISSING = Code(
    "score-missing",
    "error",
    "expected a detection with a score, found a box without one",
    "add the score, or say --kind gt if this is ground truth (to eval, give it first)",
    "Detections are ranked by score, so one without a score cannot be evaluated.",
    row=True,
)
SCORE_UNEXPECTED = Code(
    "score-unexpected",
    "error",
    "expected ground truth without scores, found the score {value!r}",
    "remove the score, or say --kind det if these are detections (to eval, give them second)",
    "A score in ground truth usually means that detections were given in its place.",
    row=True,
)
ALL_SCORED = Code(
    "all-boxes-scored",
    "error",
    "expected ground truth without scores, found one with every box ({n})",
    "say --kind det if these are detections (to eval, give them second), else remove the scores",
    "Only detections have a score with every box. Taken for ground truth they would match themselves, and "
    "every metric would be perfect.",
)
NO_SCORES = Code(
    "no-scores",
    "error",
    "expected detections with scores, found none with any box ({n})",
    "add the scores, or say --kind gt if this is ground truth (to eval, give it first)",
    "Detections are ranked by score, so those without cannot be evaluated. Boxes without any score are "
    "mostly ground truth.",
)
NUMBERED_CLASSES = Code(
    "numbered-classes",
    "warning",
    "the classes are only numbers, so these are taken as their names: {value}{near}",
    "give the list of class names with --classes",
    "Without names, an evaluation or a conversion cannot tell whether class 0 here is class 0 there.",
)
CATEGORY_POSITION_GUESSED = Code(
    "category-position-guessed",
    "warning",
    "category ids here are read as positions, from 1, in the ground truth's classes, which are only in order "
    "of appearance: {order}",
    "give ground truth whose categories have ids, or a list of the classes",
    "Ids mean something only together with the list they count in. A format without a list, such as XML "
    "files of objects, has its classes in the order in which they appear, which need not be that of the ids.",
)
UNKNOWN_SPLIT = Code(
    "unknown-split",
    "error",
    "there is no split {value!r}, found {found}",
    "give one of these with --split",
    "The data set names its splits, and the one asked for is not among them.",
)
NO_SIZE = Code(
    "image-size-unknown",
    "error",
    "the size of image {value!r} is not known, and relative coordinates need it",
    "give --images DIR, --image-size WxH or --image-sizes FILE.csv",
    "Relative coordinates become pixels only by the width and height of the image, and neither the file, "
    "nor a picture, nor an option says them.",
    file=True,
)
SIZE_OUT_OF_REACH = Code(
    "image-size-out-of-reach",
    "error",
    "the size of image {value!r} is not known, and relative coordinates need it: {reason}",
    "{way}",
    "There are sizes of images, on the other side or in the pictures of the data set itself, but none can be "
    "said to be that of this image.",
    file=True,
)
STRAY_FILE = Code(
    "stray-file",
    "warning",
    "this file is not part of the data set and is not read",
    "move it elsewhere, or delete it if it is not needed",
    "A file among the annotations is neither an annotation nor a picture. It may be litter of the operating "
    "system, or an annotation that was misnamed.",
)
NO_PICTURE = Code(
    "picture-missing",
    "warning",
    "there is no picture for the labels of {value!r}",
    "add the picture, or remove the labels",
    "Other labels have a picture and this one has none, so one of the two may be misnamed, and nothing can "
    "be trained or drawn with it.",
)
COORDINATES_NOT_FINITE = Code(
    "coordinates-not-finite",
    "error",
    "expected finite coordinates, found {value}",
    "find out where it came from, or leave the box out (--skip-bad of convert, eval and stats)",
    "An edge, a width or an area is infinite or not a number, for instance because left + width is too "
    "large for a number, or so large that an area computed from it would be. Such a box overlaps with "
    "nothing and no format can hold it.",
    row=True,
)
SCORE_NOT_FINITE = Code(
    "score-not-finite",
    "error",
    "expected a detection with a finite score, found {value}",
    "write the detector's confidence, or leave the box out (--skip-bad of convert, eval and stats)",
    "Detections are ranked by their score; one without a finite score has no place in the ranking.",
    row=True,
)
SOME_SCORES = Code(
    "some-scores",
    "warning",
    "{found} of {total} boxes of the ground truth have a score, which is ignored",
    "remove the scores, or say --kind det if these are detections",
    "Ground truth has no confidence. In a file of detections every box has a score; a few in ground truth "
    "are left over from a detector.",
)
COORDINATES_DIFFER = Code(
    "coordinates-differ",
    "error",
    "{relative} lie in 0..1{small}, {absolute} are in pixels{large}",
    "if one side is relative and the other in pixels, say so: --gt-coords and --det-coords, and give the "
    "image sizes",
    "Relative coordinates next to pixels overlap with nothing, so every metric would be 0.",
)
