"""Faults that several formats share: each code is declared once, here, and means the same everywhere."""

from __future__ import annotations

from odm.issues import Code

NOT_UTF8 = Code(
    "not-utf8",
    "error",
    "expected text in UTF-8, found {value}",
    "save the file as UTF-8",
    "Text in another encoding would turn names into other names without a word.",
    file=True,
)
LONG_LINE = Code(
    "long-line",
    "error",
    "expected lines of up to 1 MiB, found one of {value} bytes",
    "check the line ends of the file, and whether it is a file of labels at all",
    "A line holds one object, which takes some hundred bytes. With a line of megabytes it is another kind of "
    "file, or its line ends were lost.",
)
NOT_A_NUMBER = Code(
    "not-a-number",
    "error",
    "expected a number, found {value!r}",
    "write it with digits and a decimal point, as in 12.5 or 1e-3",
    "A value that should be a number is none. Words, signs such as '_' between digits, decimal commas and "
    "digits of other scripts are not accepted, because programs read them differently.",
    row=True,
)
NOT_FINITE = Code(
    "not-finite",
    "error",
    "expected a finite number, found {value!r}",
    "find out where it came from, and write a number or remove the box",
    "NaN and infinity, or a number too large to be held, cannot be part of a box or a score.",
    row=True,
)
WRONG_COUNT = Code(
    "wrong-count",
    "error",
    "expected {expected}, found {found}",
    "write exactly these values, in this order",
    "A row or list has too few or too many values, so it is unclear which value means what.",
    row=True,
)
COMMENTED = Code(
    "looks-like-comment",
    "warning",
    "{value!r} begins with '#', which starts no comment in this format; it is read as {what}",
    "delete the line if it was meant as a comment",
    "Nothing marks a comment in these files, so a row that somebody commented out still counts.",
)
SCORE_RANGE = Code(
    "score-out-of-range",
    "error",
    "expected a score in 0..1, found {value!r}",
    "divide percentages by 100, and check that this column is the score",
    "Scores of this format lie in 0..1. Another value is a percentage, a logit, or another column.",
    row=True,
)
DUPLICATE_IMAGE = Code(
    "duplicate-image",
    "error",
    "the image {value!r} is there already, first in {first}",
    "merge the two, or rename one of the images",
    "Two entries speak of one image, so it is unclear which of them holds.",
    file=True,
)
BAD_LISTED_CLASS = Code(
    "bad-listed-class",
    "error",
    "{value!r} in the list of classes cannot be the name of a class: {reason}",
    "rename the class",
    "A list of classes says what the ids of all boxes mean, so a name in it that cannot be one concerns more "
    "than a row.",
)
NO_IMAGE_NAME = Code(
    "image-name-missing",
    "error",
    "no image is named here",
    "write the name of the image's file",
    "A box without the name of an image belongs nowhere.",
    row=True,
)
UNNAMED_IMAGE = Code(
    "unnamed-image",
    "error",
    "the image has no name",
    "write the name of the image's file",
    "The entry of an image does not say which one it is, so none of its boxes can be placed.",
    file=True,
)
BAD_CLASS_LIST = Code(
    "bad-class-list",
    "error",
    "the list of class names is not usable: {reason}",
    "write one name per class, in the order of the ids, without gaps",
    "The position in the list is the id of a class. A gap makes every later name doubtful.",
)
CLASS_LISTS_DISAGREE = Code(
    "class-lists-disagree",
    "error",
    "class {number} is {value!r} here and {other!r} in {first}",
    "make the lists equal, or say which one holds with --classes",
    "Two lists of class names of one data set differ, so it is unclear what an id means.",
)
UNKNOWN_CLASS = Code(
    "unknown-class",
    "error",
    "{value!r} is not among the {n} classes of {where}",
    "correct the id, or complete the list of class names",
    "A box refers to a class that the list of classes does not hold.",
    row=True,
)
RELATIVE_RANGE = Code(
    "relative-out-of-range",
    "error",
    "expected coordinates relative to the image's size, in 0..1, found {value!r}",
    "divide pixels by the image's width or height, or read it as a format with pixels",
    "Relative coordinates far beyond 1 are pixels, or belong to another image.",
    row=True,
)
BAD_IMAGE_SIZE = Code(
    "bad-image-size",
    "error",
    "expected a whole number of pixels in 1..2147483647, found {value!r}",
    "write the size of the picture, or leave it out",
    "The width or the height of an image is no size a picture can have. It concerns every box of the image.",
    file=True,
)
SIZE_MISSING = Code(
    "image-size-missing",
    "warning",
    "the size of image {value!r} is not known",
    "write it, or give --images DIR, --image-size WxH or --image-sizes FILE.csv",
    "The file does not say how large the image is, or says 0, and nothing else does. Boxes in pixels can be "
    "used without it, but not checked against the image, nor written as relative coordinates.",
)
SIZE_FROM_PICTURE = Code(
    "image-size-from-picture",
    "warning",
    "the size of image {value!r} is not given; {size} is taken from the picture",
    "write it",
    "The file does not say how large the image is, or says 0, so the picture was asked.",
)
WRONG_TYPE = Code(
    "wrong-type",
    "error",
    "expected {expected}, found {value}",
    "write a value of that kind",
    "A value of another kind than the format says cannot be read without guessing what was meant.",
    file=True,
)
WRONG_BOX_TYPE = Code(
    "wrong-box-type",
    "error",
    "expected {expected}, found {value}",
    "write a value of that kind, or remove the annotation",
    "A value of another kind than the format says cannot be read without guessing what was meant.",
    row=True,
)
MISSING_KEY = Code(
    "missing-key",
    "error",
    "the key {value!r} is missing",
    "add it",
    "Without this key the annotations of the file cannot be understood.",
    file=True,
)
MISSING_BOX_KEY = Code(
    "missing-box-key",
    "error",
    "the annotation has no {value!r}",
    "add it, or remove the annotation",
    "A box needs its image, its category and its place.",
    row=True,
)
OUTLINES = Code(
    "outlines-as-boxes",
    "warning",
    "{n} of {total} objects are {what}, read as their bounding boxes; this is the first",
    "nothing to do if boxes are what you want",
    "A polygon, an ellipse or a rotated box says more than an upright box; what is beyond it is not read.",
)
DUPLICATE_ID = Code(
    "duplicate-id",
    "error",
    "the id {value} is there already, first in {first}",
    "give every image and every category an id of its own",
    "If two entries have one id, it is unclear which of them an annotation means.",
    file=True,
)
DUPLICATE_BOX_ID = Code(
    "duplicate-box-id",
    "error",
    "the annotation id {value} is there already, first in {first}",
    "give every annotation an id of its own",
    "Official tools keep annotations by id, so the second silently replaces the first.",
    row=True,
)
UNKNOWN_IMAGE = Code(
    "unknown-image-id",
    "error",
    "there is no image with the id {value}{near}",
    "correct the id, or add the image",
    "The box belongs to an image that the file, or the ground truth of a results file, does not list.",
    row=True,
)
UNKNOWN_CATEGORY = Code(
    "unknown-category-id",
    "error",
    "there is no category with the id {value}{near}",
    "correct the id, or add the category",
    "The box belongs to a category that the file, or the ground truth of a results file, does not list.",
    row=True,
)
NO_FILES = Code(
    "no-annotation-file",
    "error",
    "expected {expected}, found none among {n} files",
    "name the file itself or the folder that holds it, or the right format",
    "A folder is read by those of its files that look like the format.",
)
BAD_FLAG = Code(
    "bad-flag",
    "error",
    "expected {expected}, found {value!r}",
    "write one of these values",
    "Flags such as difficult, crowd, occluded or truncated decide what an evaluation counts, so other values "
    "are not guessed.",
    row=True,
)
BAD_FRAME = Code(
    "bad-frame",
    "error",
    "expected the number of a frame{among}, found {value!r}",
    "write a whole number, or correct the number of frames",
    "The number of a frame says which image of a video the box belongs to.",
    row=True,
)
FILE_NAME_DIFFERS = Code(
    "file-name-differs",
    "warning",
    "{where} says {value!r}; the image is taken to be {name!r}, after this file",
    "rename this file, or correct {where}",
    "A file that was copied or renamed often keeps the old name inside. The name of the file itself decides.",
)
FILE_NAME_MISSING = Code(
    "file-name-missing",
    "warning",
    "no {where}; the image is taken to be {name!r}, after {source}",
    "add {where} with the name of the image's file",
    "Images are joined with other files by name, and here the name is not given.",
)
UNKNOWN_SHAPE = Code(
    "unknown-shape",
    "error",
    "there is no shape {value!r}",
    "write {shapes}, or remove the shape",
    "Only the name of a shape says what its numbers mean.",
    row=True,
)
DUPLICATE_KEY = Code(
    "duplicate-key",
    "error",
    "expected {value!r} once, found it twice",
    "remove one of the two",
    "Nothing says which of the two holds, and programs differ in which one they take.",
    file=True,
)
DUPLICATE_BOX_KEY = Code(
    "duplicate-box-key",
    "error",
    "expected {value!r} once in an annotation, found it twice",
    "remove one of the two, or make it an annotation of its own",
    "Nothing says which of the two holds, and programs differ in which one they take.",
    row=True,
)
