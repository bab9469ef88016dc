"""Faults that several formats share: each code is declared once, here, and means the same everywhere."""

from __future__ import annotations

from odm.issues import Code

NOT_UTF8 = Code(
    "not-utf8",
    "error",
    "expected UTF-8 text, found {value}",
    "save the file as UTF-8, or name its encoding with --encoding",
    "Reading text in another encoding would silently change names.",
    file=True,
)
LONG_LINE = Code(
    "long-line",
    "error",
    "expected lines of at most 1 MiB, found one of {value} bytes",
    "check the line endings, and whether this is a label file at all",
    "A line describes one object and takes about a hundred bytes. A line of megabytes means that this is "
    "another type of file, or that its line endings were lost.",
)
NOT_A_NUMBER = Code(
    "not-a-number",
    "error",
    "expected a number, found {value!r}",
    "write it with digits and a decimal point, as in 12.5 or 1e-3",
    "The value is not a number. Words, characters such as '_' between digits, decimal commas and digits of "
    "other scripts are not accepted, because programs interpret them differently.",
    row=True,
)
NOT_FINITE = Code(
    "not-finite",
    "error",
    "expected a finite number, found {value!r}",
    "find out where it came from, then write a number or remove the box",
    "NaN, infinity, or a number that is too large to represent cannot be part of a box or a score.",
    row=True,
)
WRONG_COUNT = Code(
    "wrong-count",
    "error",
    "expected {expected}, found {found}",
    "write exactly these values, in this order",
    "A row or list has too few or too many values, so it is unclear what each value means.",
    row=True,
)
COMMENTED = Code(
    "looks-like-comment",
    "warning",
    "{value!r} begins with '#', but this format has no comments; it is read as {what}",
    "delete the line if it was meant as a comment",
    "These files have no comment syntax, so a row that was commented out is still read.",
)
SCORE_RANGE = Code(
    "score-out-of-range",
    "error",
    "expected a score in 0..1, found {value!r}",
    "divide percentages by 100, and check that this column is the score",
    "Scores in this format are in 0..1. Any other value is a percentage, a logit, or from another column.",
    row=True,
)
DUPLICATE_IMAGE = Code(
    "duplicate-image",
    "error",
    "duplicate image {value!r}, first in {first}",
    "merge the two entries, or rename one of the images",
    "Two entries describe the same image, so it is unclear which one is right.",
    file=True,
)
BAD_LISTED_CLASS = Code(
    "bad-listed-class",
    "error",
    "{value!r} in the class list is not a valid class name: {reason}",
    "rename the class",
    "The class list defines the ids of all boxes, so an invalid name in it affects more than one row.",
)
NO_IMAGE_NAME = Code(
    "image-name-missing",
    "error",
    "the image name is missing",
    "add the file name of the image",
    "A box without an image name cannot be assigned to an image.",
    row=True,
)
UNNAMED_IMAGE = Code(
    "unnamed-image",
    "error",
    "the image has no name",
    "add the file name of the image",
    "The entry does not say which image it is, so its boxes cannot be assigned.",
    file=True,
)
BAD_CLASS_LIST = Code(
    "bad-class-list",
    "error",
    "the class list is not usable: {reason}",
    "write one name per class, in the order of the ids, without gaps",
    "The position of a name in the list is its class id, so a gap would shift every later name.",
)
CLASS_LISTS_DISAGREE = Code(
    "class-lists-disagree",
    "error",
    "class {number} is {value!r} here but {other!r} in {first}",
    "make the lists equal, or set the right one with --classes",
    "Two class lists of the same dataset differ, so it is unclear what an id means.",
)
UNKNOWN_CLASS = Code(
    "unknown-class",
    "error",
    "{value!r} is not among the {n} classes of {where}",
    "correct the id, or complete the class list",
    "A box refers to a class that is not in the class list.",
    row=True,
)
RELATIVE_RANGE = Code(
    "relative-out-of-range",
    "error",
    "expected relative coordinates in 0..1, found {value!r}",
    "divide pixels by the width or height of the image, or read the file in a format that uses pixels",
    "Relative coordinates far above 1 are usually pixels, or belong to another image.",
    row=True,
)
BAD_IMAGE_SIZE = Code(
    "bad-image-size",
    "error",
    "expected a whole number of pixels in 1..2147483647, found {value!r}",
    "write the size of the picture, or omit it",
    "The width or height is not a valid image size. All boxes of the image depend on it.",
    file=True,
)
SIZE_MISSING = Code(
    "image-size-missing",
    "warning",
    "the size of image {value!r} is unknown",
    "add it to the file, or use --images DIR, --image-size WxH or --image-sizes FILE.csv",
    "The file gives no image size, or 0, and it is not known from elsewhere. Boxes in pixels can still be "
    "used, but they cannot be checked against the image or written as relative coordinates.",
)
SIZE_FROM_PICTURE = Code(
    "image-size-from-picture",
    "warning",
    "the size of image {value!r} is missing; {size} is taken from the picture",
    "add it to the file",
    "The file gives no image size, or 0, so the size of the picture is used.",
)
WRONG_TYPE = Code(
    "wrong-type",
    "error",
    "expected {expected}, found {value}",
    "write a value of that type",
    "The format requires a value of another type here, and guessing what was meant is not safe.",
    file=True,
)
WRONG_BOX_TYPE = Code(
    "wrong-box-type",
    "error",
    "expected {expected}, found {value}",
    "write a value of that type, or remove the annotation",
    "The format requires a value of another type here, and guessing what was meant is not safe.",
    row=True,
)
MISSING_KEY = Code(
    "missing-key",
    "error",
    "the key {value!r} is missing",
    "add it",
    "The annotations in the file cannot be interpreted without this key.",
    file=True,
)
OTHER_TASK = Code(
    "other-task",
    "error",
    "expected boxes of images, found {what}",
    "{remedy}",
    "Tools write files for other tasks in nearly the same layout as files of boxes. Nothing in this one "
    "could be read as boxes.",
    file=True,
)
MISSING_BOX_KEY = Code(
    "missing-box-key",
    "error",
    "the annotation has no key {value!r}",
    "add it, or remove the annotation",
    "A box needs an image, a category and coordinates.",
    row=True,
)
OUTLINES = Code(
    "outlines-as-boxes",
    "warning",
    "{n} of {total} objects are {what} and are read as their bounding boxes; this is the first",
    "ignore this if you only need boxes",
    "A polygon, an ellipse or a rotated box holds more information than an axis-aligned box. Only its "
    "bounding box is read.",
)
DUPLICATE_ID = Code(
    "duplicate-id",
    "error",
    "duplicate id {value}, first in {first}",
    "give every image and every category a unique id",
    "If two entries have the same id, it is unclear which one an annotation refers to.",
    file=True,
)
DUPLICATE_BOX_ID = Code(
    "duplicate-box-id",
    "warning",
    "duplicate annotation id {value}, first in {first}",
    "renumber the annotations (validate --fix ids, or convert to COCO or LVIS)",
    "The official tools index annotations by id, so the second silently replaces the first.",
)
AMBIGUOUS_BOX_ID = Code(
    "ambiguous-box-id",
    "error",
    "duplicate annotation id {value}, first in {first}, and {key} refers to it",
    "give every annotation a unique id, and correct what refers to it",
    "Where another part of the file refers to an annotation by its id, the id must be that of one only.",
    row=True,
)
UNKNOWN_IMAGE = Code(
    "unknown-image-id",
    "error",
    "there is no image with the id {value}{near}",
    "correct the id, or add the image; for results, give the ground truth of the same split, or evaluate "
    "with --extra-images ignore",
    "The box belongs to an image that is not listed in the file or, for a results file, in the ground truth.",
    row=True,
)
UNKNOWN_CATEGORY = Code(
    "unknown-category-id",
    "error",
    "there is no category with the id {value}{near}",
    "correct the id, or add the category; for results, name the classes to evaluate with --only-classes",
    "The box belongs to a category that is not listed in the file or, for a results file, in the ground "
    "truth.",
    row=True,
)
NO_FILES = Code(
    "no-annotation-file",
    "error",
    "expected {expected}, found none among {n} files",
    "give the file itself, the folder that contains it, or the right format",
    "Only those files of a folder are read that look like the format.",
)
BAD_FLAG = Code(
    "bad-flag",
    "error",
    "expected {expected}, found {value!r}",
    "write one of these values",
    "Flags such as difficult, crowd, occluded or truncated determine what an evaluation counts, so other "
    "values are not guessed.",
    row=True,
)
BAD_FRAME = Code(
    "bad-frame",
    "error",
    "expected a frame number{among}, found {value!r}",
    "write a whole number, or correct the number of frames",
    "The frame number says which image of a video the box belongs to.",
    row=True,
)
FILE_NAME_DIFFERS = Code(
    "file-name-differs",
    "warning",
    "{where} is {value!r}, but the image is taken to be {name!r} from the name of this file",
    "rename this file, or correct {where}",
    "A file that was copied or renamed often keeps the old name inside. The name of the file itself is used.",
)
FILE_NAME_MISSING = Code(
    "file-name-missing",
    "warning",
    "no {where}; the image is taken to be {name!r}, from {source}",
    "add {where} with the file name of the image",
    "Images are matched with other files by name, and the name is missing here.",
)
UNKNOWN_SHAPE = Code(
    "unknown-shape",
    "error",
    "unknown shape {value!r}",
    "use {shapes}, or remove the shape",
    "The meaning of the numbers depends on the type of shape.",
    row=True,
)
DUPLICATE_KEY = Code(
    "duplicate-key",
    "error",
    "duplicate key {value!r}",
    "remove one of the two",
    "It is unclear which of the two is right, and programs differ in which one they use.",
    file=True,
)
DUPLICATE_BOX_KEY = Code(
    "duplicate-box-key",
    "error",
    "duplicate key {value!r} in an annotation",
    "remove one of the two, or move it to an annotation of its own",
    "It is unclear which of the two is right, and programs differ in which one they use.",
    row=True,
)
