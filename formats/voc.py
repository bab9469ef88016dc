"""Pascal VOC XML: one file per image.

::

    <annotation>
        <filename>street.jpg</filename>
        <size><width>640</width><height>480</height><depth>3</depth></size>
        <object>
            <name>person</name>
            <pose>Unspecified</pose>
            <truncated>0</truncated><difficult>0</difficult><occluded>0</occluded>
            <bndbox><xmin>10</xmin><ymin>20</ymin><xmax>110</xmax><ymax>220</ymax></bndbox>
        </object>
    </annotation>

Reading
-------
- A folder of XML files, nested or flat; one XML file; the canonical tree (``Annotations/``, ``JPEGImages/``,
  ``ImageSets/Main/*.txt``), also several of them in one folder; ImageNet's trees (``Annotations/DET/...``,
  ``Annotations/CLS-LOC/...``, ``Data/...``), whose classes are WordNet ids.
- The image is named after the XML file, relative to its folder (in a tree: to ``Annotations/``), with the
  extension that ``<filename>`` gives, else with that of the picture, if one is found. A ``<filename>`` that
  names another image is a warning, so is a missing one; an absolute path there is an error. ``<path>`` and
  ``<folder>`` are not used.
- ``--split NAME`` reads the images of ``ImageSets/Main/NAME.txt`` alone. Lists per class
  (``person_train.txt``) are not splits. Without lists, folders called ``train``, ``val``, ``test`` are the
  splits, if every file lies in one.
- ``xmin ymin xmax ymax`` are taken as they stand: what is 12 in the file is 12 in the table, fractions
  included. The official Pascal VOC data counts pixels from 1 with the last one inside, most other files
  hold plain edges; ``-O origin=1`` reads and writes the official meaning,
  edges = (xmin - 1, ymin - 1, xmax, ymax).
- ``difficult``, ``truncated`` and ``occluded`` are 0 or 1; ``no`` and ``false`` are 0, ``yes`` and ``true``
  are 1, in any letter case; a missing, empty or ``Unspecified`` one is 0. Anything else is an error.
  The boxes of a ``<part>`` are no objects; poses, parts and other additions are counted, not kept.
- ``<confidence>`` or ``<score>`` in the objects make a file one of detections.
- A missing ``<size>``, or one of 0, is taken from ``--image-sizes``, ``--image-size``, the picture
  (``--images``, ``JPEGImages/`` or beside the XML) or the other side of an evaluation; else it stays unknown.
- Any encoding that the file declares, or UTF-8 or UTF-16. A document type with an internal subset, and every
  entity beyond the five of XML itself, is refused; nothing outside the file is ever read.
- Result files of the VOC kit, ``comp4_det_test_<class>.txt``, one file per class, with rows of
  ``<image> <confidence> <xmin> <ymin> <xmax> <ymax>``, are read as detections. Files of another name are read
  so with ``-O results=true``; the class is then the file's name.

Writing
-------
- ``<image>.xml`` for every image, in the folder itself; where images have splits, or with ``-O layout=tree``,
  in ``Annotations/``, with ``ImageSets/Main/<split>.txt``.
- Whole numbers without a point, others with all their digits; ``-O round=true`` writes whole numbers only.
- Detections get a ``<confidence>``; with ``-O results=true`` they are written as result files of the VOC kit
  instead. An unknown size is left out.
- ``<depth>`` is always 3 and ``<pose>`` Unspecified, as the official layout asks for both.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from odm.files import COLLISION, Output, Source, accept_name
from odm.formats._contract import LIKELY, SURE, Format, Sniff, option
from odm.formats._faults import (
    BAD_CLASS_NAME,
    BAD_IMAGE_SIZE,
    DUPLICATE_IMAGE,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_UTF8,
    SCORE_MISSING,
    SCORE_UNEXPECTED,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
    UNKNOWN_SPLIT,
    WRONG_COUNT,
)
from odm.formats._images import ImageOptions, Picture, Pictures, parse_pixels
from odm.formats._lines import Column, assemble
from odm.formats._numbers import decimal_cells, decimals
from odm.formats._xml import DOCTYPE, XmlDoor, after_prolog, narrow
from odm.issues import Code, Log, UsageError, printable
from odm.tables import PICTURE_SUFFIXES, Builder, Dataset, Flag, Floats, stem

WRONG_ROOT = Code(
    "voc-root",
    "error",
    "expected the root element <annotation>, found <{value}>",
    "export the file as Pascal VOC XML, with plain lower-case element names and no namespace",
    "Only <annotation> is the root of a Pascal VOC file. Another root, a namespace or another letter case is "
    "another format, and reading it as this one would find no objects.",
)
STRANGE_ELEMENT = Code(
    "voc-misplaced-element",
    "error",
    "<{value}> is not read {where}",
    "write {expected}",
    "An element that looks like a part of the format stands where the format has none, or is spelt with "
    "capitals or a namespace. What it holds would be lost.",
)
HEADER_TWICE = Code(
    "voc-duplicate-header",
    "error",
    "a second <{value}>",
    "remove one of the two",
    "The file says twice what its image is called or how large it is, so it is unclear which holds.",
)
ELEMENT_TWICE = Code(
    "voc-duplicate-element",
    "error",
    "a second <{value}> in one object",
    "remove one of the two, or make it an object of its own",
    "The object says the same thing twice, so it is unclear which holds; programs differ in which they take.",
    row=True,
)
ELEMENT_MISSING = Code(
    "voc-missing-element",
    "error",
    "the object has no <{value}>",
    "add it, or remove the object",
    "Without a name and the four edges in one <bndbox> an object is no box.",
    row=True,
)
NESTED_VALUE = Code(
    "voc-nested-value",
    "error",
    "expected text in <{value}>, found the element <{found}>",
    "write the value alone",
    "Elements stand where a plain value is expected; reading only the text around them would lose a part.",
    row=True,
)
BAD_FLAG = Code(
    "voc-bad-flag",
    "error",
    "expected 0 or 1 (or no, yes, false, true), found {value!r}",
    "write 0 or 1",
    "The marks 'difficult', 'truncated' and 'occluded' are yes or no. Which of them another word means is "
    "not guessed, because an evaluation leaves difficult objects out.",
    row=True,
)
FILENAME_DIFFERS = Code(
    "voc-filename-differs",
    "warning",
    "<filename> says {value!r}; the image is taken to be {name!r}, after the XML file",
    "rename the XML file, or correct <filename>",
    "A file that was copied or renamed often keeps the old name inside. The XML file's own name decides.",
)
FILENAME_MISSING = Code(
    "voc-filename-missing",
    "warning",
    "no <filename>; the image is taken to be {name!r}, after the XML file",
    "add <filename> with the name of the image's file",
    "The file does not name its image, so the XML file's own name is used.",
)
LISTED_MISSING = Code(
    "voc-listed-image",
    "warning",
    "the image {value!r} is listed, but it has no XML file",
    "add the file, or take the image off the list",
    "A list in ImageSets names an image without annotations. Whether it shows objects is unknown, so it is "
    "left out.",
)
IN_TWO_SPLITS = Code(
    "voc-two-splits",
    "warning",
    "the image {value!r} is also listed in {first!r}; it is taken as {name!r}",
    "take it off one of the lists",
    "An image in two splits, neither of which contains the other, is seen in training and in testing.",
)
NO_FILES = Code(
    "voc-no-files",
    "error",
    "expected XML files, found none among {n} files",
    "name the folder that holds them, or the right format",
    "There is nothing to read as Pascal VOC here.",
)
NOT_RESULTS = Code(
    "voc-result-file",
    "error",
    "expected a class in the name of this file, as in comp4_det_test_person.txt, found {value!r}",
    "rename it",
    "The rows of a result file do not say their class; the name of the file does.",
)
UNWRITABLE = Code(
    "voc-unwritable-name",
    "error",
    "{value!r} cannot be written: {reason}",
    "rename it",
    "XML has no way to hold most control characters, and a result file none for blanks at the ends of an "
    "image's name, so the name would not come back.",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocOptions(ImageOptions):
    """What can be told about reading and writing Pascal VOC."""

    split: str | None = option(None, "read this split alone", flag="--split", side="read")
    origin: int = option(
        0, "1 = the official meaning, pixels counted from 1 with the last one inside", choices=("0", "1")
    )
    results: bool = option(False, "result files of the VOC kit, comp4_det_test_<class>.txt, instead of XML")
    layout: str = option(
        "auto",
        "flat = XML files alone, tree = Annotations/ and ImageSets/, auto = tree where images have splits",
        choices=("auto", "flat", "tree"),
        side="write",
    )
    round: bool = option(False, "write whole numbers only", side="write")


_BLANKS = " \t\r\n"
_EDGES = ("xmin", "ymin", "xmax", "ymax")
_FLAGS = {"difficult": Flag.DIFFICULT, "truncated": Flag.TRUNCATED, "occluded": Flag.OCCLUDED}
_SCORES = ("confidence", "score")
_HEADER = frozenset(("filename", "size", "object"))
_SIZE = frozenset(("width", "height"))
_OBJECT = frozenset(("name", "bndbox", *_FLAGS, *_SCORES))
_LOOKALIKES = _HEADER | _SIZE | _OBJECT | frozenset(_EDGES)
_SAYS_NOTHING = frozenset(("", "unspecified"))
_TRUTH = {
    "": False, "0": False, "1": True, "0.0": False, "1.0": True, "unspecified": False,
    "false": False, "true": True, "no": False, "yes": True,
}  # fmt: skip
_PLAIN = frozenset(("name", "pose", *_FLAGS, *_SCORES))
_MARKS = {None: b"0", "0": b"0", "1": b"1", "Unspecified": b"0"}
_PLAIN_NUMBERS = re.compile(r"(?:-?[0-9]{1,200}(?:\.[0-9]{1,30})?(?:\n|$))*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_RESULT_NAME = re.compile(r"comp[0-9]+(?:_[0-9A-Za-z-]+)?_det_([^_/]+)_([^/]+)\.txt")
_SPLITS = frozenset(("train", "val", "valid", "validation", "test", "trainval", "dev"))


# -------------------------------------------------------------------------------------------- detection


def sniff(source: Source) -> Sniff | None:
    """Claim XML files whose root is <annotation>, and files named like the results of the VOC kit."""
    if not source.is_dir:
        name = source.path.replace("\\", "/").rsplit("/", 1)[-1]
        if _RESULT_NAME.fullmatch(name):
            return Sniff(SURE, f"{name} is named like a result file of the VOC kit")
        looks = _looks(source.head())
        if looks is None or (looks[1] == "" and not name.lower().endswith(".xml")):
            return None
        if looks[1] == "":
            return Sniff(LIKELY, "the file is called .xml, and it has no other root element")
        return Sniff(looks[0], f"the root is <{looks[1]}>")
    files = source.with_suffix(".xml")
    if files:
        what = "1 XML file" if len(files) == 1 else f"{len(files)} XML files"
        rootless = 0
        for file in files[:20]:
            looks = _looks(source.head(file))
            if looks is None:
                continue
            if looks[1]:
                which = "the first" if file == files[0] else file
                return Sniff(looks[0], f"{what}, {which} has the root <{looks[1]}>")
            rootless += 1
        if rootless == min(len(files), 20):
            return Sniff(LIKELY, f"{what}, none of which has another root element")
        return None
    results = _result_files(source)
    if results:
        what = "1 file is" if len(results) == 1 else f"{len(results)} files are"
        return Sniff(SURE, f"{what} named like the result files of the VOC kit, the first {results[0]}")
    return None


def _looks(head: bytes) -> tuple[int, str] | None:
    """Confidence and root of what may be a VOC file, the root empty where there is none; else None."""
    text = narrow(head).decode("latin-1")
    at = after_prolog(text)
    if text.startswith("<!", at):
        doctype = DOCTYPE.match(text, at)
        end = -1 if doctype is None else doctype.end() - 1
        if end >= 0 and text[end] == "[":
            end = text.find(">", text.find("]", end)) if "]" in text[end:] else -1
        at = after_prolog(text, end + 1) if end >= 0 else len(text)
    match = _TAG.match(text, at)
    if match is None:
        return LIKELY, ""
    root = match[1]
    if root.rsplit(":", 1)[-1].lower() != "annotation":
        return None
    if "<bndbox" not in text and ("<polygon" in text or "<imagesize" in text):
        return None  # LabelMe has the same root
    certain = root == "annotation" and any(
        f"<{tag}" in text for tag in ("filename", "size", "object", "folder")
    )
    return (SURE if certain else LIKELY), root


def _result_files(source: Source) -> list[str]:
    return [f for f in source.with_suffix(".txt") if _RESULT_NAME.fullmatch(f.rsplit("/", 1)[-1])]


# ---------------------------------------------------------------------------------------------- reading


def read(source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
    """Read XML files, or result files where the option or the names say so."""
    _check(options)
    if not source.is_dir:
        is_result = bool(_RESULT_NAME.fullmatch(source.path.replace("\\", "/").rsplit("/", 1)[-1]))
        files = [""]
    else:
        files = source.with_suffix(".xml")
        is_result = not files and bool(_result_files(source))
    if options.results or is_result:
        _ResultReader(source, builder, log, options).run()
    elif not files:
        log.report(NO_FILES, source.path, n=len(source.files))
    else:
        _XmlReader(source, builder, log, options).run(files)


def _check(options: VocOptions) -> None:
    if options.origin not in (0, 1):
        raise UsageError(f"origin={options.origin}: choose one of 0, 1")
    if options.layout not in ("auto", "flat", "tree"):
        raise UsageError(f"layout={options.layout}: choose one of auto, flat, tree")


class _Rows:
    """Columns of boxes as flat lists, turned into arrays a few ten thousand at a time."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.image: list[int] = []
        self.category: list[int] = []
        self.edges: tuple[list[float], list[float], list[float], list[float]] = ([], [], [], [])
        self.score: list[float] = []
        self.flags: dict[str, list[bytes]] = {name: [] for name in _FLAGS}
        self.line: list[int] = []
        self.chunks: list[dict[str, Any]] = []

    def pack(self, least: int = 50_000) -> None:
        """Turn what was gathered into arrays, if it is worth it."""
        n = len(self.image)
        if n < max(least, 1):
            return
        flags = np.zeros(n, np.uint16)
        for name, marks in self.flags.items():
            if b"1" in marks:
                flags |= (np.array(marks, "S1") == b"1") * np.uint16(_FLAGS[name])
            marks.clear()
        xyxy = np.empty((n, 4))
        for i, column in enumerate(self.edges):
            xyxy[:, i] = column
            column.clear()
        chunk: dict[str, Any] = {"xyxy": xyxy, "flags": flags, "score": np.array(self.score)}
        for key in ("image", "category", "line"):
            chunk[key] = np.array(getattr(self, key), np.int32)
            getattr(self, key).clear()
        chunk["file"] = chunk["image"]  # every image is a file
        self.score.clear()
        self.chunks.append(chunk)

    def finish(self, log: Log, paths: Sequence[str], origin: int) -> None:
        """Decide what the boxes are, report those of the other kind, and hand the rest to the builder."""
        self.pack(1)
        builder = self._builder
        scored = sum(int(np.count_nonzero(~np.isnan(c["score"]))) for c in self.chunks)
        total = sum(len(c["score"]) for c in self.chunks)
        if builder.kind is None:
            builder.kind = "det" if scored * 2 > total else "gt"
            if 0 < scored < total:
                what = "detections" if builder.kind == "det" else "ground truth"
                log.note(f"{scored} of {total} objects have a score, so they are taken as {what}")
        wanted = builder.kind == "det"
        for chunk in self.chunks:
            wrong = np.isnan(chunk["score"]) == wanted
            if wrong.any():
                builder.skipped += int(np.count_nonzero(wrong))
                for row in np.nonzero(wrong)[0].tolist():
                    path, line = paths[chunk["file"][row]], int(chunk["line"][row])
                    if wanted:
                        log.report(SCORE_MISSING, path, line=line, field="object/confidence")
                    else:
                        value = float(chunk["score"][row])
                        log.report(SCORE_UNEXPECTED, path, line=line, field="object/confidence", value=value)
                chunk = {key: column[~wrong] for key, column in chunk.items()}  # noqa: PLW2901
            if origin:
                _count_from_zero(chunk["xyxy"])
            if not wanted:
                del chunk["score"]
            builder.boxes(**chunk)


def _count_from_zero(xyxy: Floats) -> None:
    """Move left and top of (n, 4) edges by one pixel, in place.

    The subtraction rounds: a box without a width, with a left edge of 1.1, must not become inverted by it.
    """
    low, high = xyxy[:, :2], xyxy[:, 2:]
    upright = low <= high + 1
    low -= 1
    np.minimum(low, high, out=low, where=upright)


class _XmlReader:
    """Reads the XML files of one source: quickly where a file has the usual form, else through lxml."""

    fast = True
    """Whether the quick way is tried at all; tests compare the two."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
        self._source = source
        self._builder = builder
        self._log = log
        self._options = options
        self._rows = _Rows(builder)
        self._pictures: Pictures | None = None
        self._split: dict[str, str] = {}
        self._paths: list[str] = []
        self._image_files: dict[str, str] = {}
        self._categories: dict[bytes, int] = {}
        self._names: dict[str, int] = {}
        self._shapes: list[_Shape] = []
        self._lessons = 0
        self._told = options.image_size is not None or options.image_sizes is not None
        self._door = XmlDoor()

    def run(self, files: Sequence[str]) -> None:
        """Read these files of the source."""
        source = self._source
        keys = _keys(source, files)
        roots = sorted({root for _, _, root in keys if root is not None})
        keys.sort(key=lambda k: k[1])
        self._pictures = self._find_pictures(roots)
        chosen = self._find_splits(keys, roots)
        self._name_strays(roots)
        first = chosen[0][0] if chosen else ""
        lead = source.full(first)[: -len(first) or None]
        plain = source.is_dir and source.full(first) == lead + first and "\\" not in lead
        for file, key, _ in self._log.track(chosen, "reading"):
            data = source.read(file, self._log)
            if data is not None:
                path = lead + file if plain else source.full(file)
                if not (self.fast and self._read_fast(data, path, key)):
                    self._read_slowly(data, path, key)
                self._rows.pack()
        self._rows.finish(self._log, self._paths, self._options.origin)

    # -- what lies around the files

    def _find_pictures(self, roots: Sequence[str]) -> Pictures | None:
        source, options = self._source, self._options
        folders = []
        if options.images is None and source.is_dir:
            with_pictures = {
                f.rpartition("/")[0] for f in source.files if f[f.rfind(".") :].lower() in PICTURE_SUFFIXES
            }
            if roots:
                for root in roots:
                    for name in ("JPEGImages", "Data", "Images", "images"):
                        folder = root + name
                        if any(f == folder or f.startswith(folder + "/") for f in with_pictures):
                            folders.append(source.full(folder))
            elif with_pictures:
                folders.append(source.path)
        if folders or self._told or options.images is not None:
            return Pictures(options, self._builder, self._log, source, tuple(folders))
        return None

    def _name_strays(self, roots: Sequence[str]) -> None:
        if not self._source.is_dir:
            return
        strays = []
        for file in self._source.files:
            suffix = file[file.rfind(".") :].lower() if "." in file.rsplit("/", 1)[-1] else ""
            inside = not roots or any(_below_annotations(file, root) for root in roots)
            if inside and suffix != ".xml" and suffix not in PICTURE_SUFFIXES:
                strays.append(file)
        if strays:
            what = "1 file is" if len(strays) == 1 else f"{len(strays)} files are"
            self._log.note(f"{what} neither XML nor a picture and not read, the first {printable(strays[0])}")

    def _find_splits(
        self, keys: list[tuple[str, str, str | None]], roots: Sequence[str]
    ) -> list[tuple[str, str, str | None]]:
        """Fill the splits of the images; the files of the split that is asked for, or all."""
        wanted = self._options.split
        lists: dict[str, dict[str, None]] = {}
        for root in roots:
            below = {key for _, key, r in keys if r == root}
            for name, members in _read_lists(self._source, root, below, len(roots) > 1, self._log, wanted):
                lists.setdefault(name, {}).update(members)
        if not lists:
            for _, key, _ in keys:
                parts = [part for part in key.split("/")[:-1] if part.lower() in _SPLITS]
                if not parts:
                    lists = {}
                    break
                lists.setdefault(parts[0], {})[key] = None
        if wanted is not None and wanted not in lists:
            found = ", ".join(sorted(lists)) or "no list of a split in ImageSets/Main"
            self._log.report(UNKNOWN_SPLIT, self._source.path, value=wanted, found=found)
            return []
        self._assign(lists)
        if wanted is None:
            return keys
        members = lists[wanted]
        self._split = dict.fromkeys(members, wanted)
        return [k for k in keys if k[1] in members]

    def _assign(self, lists: dict[str, dict[str, None]]) -> None:
        # The smallest list that names an image is its split, so that `trainval` does not hide `train`.
        order = sorted(lists, key=lambda name: (len(lists[name]), name))
        inside = {(a, b) for a in order for b in order if lists[a].keys() <= lists[b].keys()}
        for name in order:
            for key in lists[name]:
                first = self._split.setdefault(key, name)
                if first != name and (first, name) not in inside:
                    self._log.report(IN_TWO_SPLITS, self._source.path, value=key, first=name, name=first)

    # -- one file

    def _image(
        self,
        path: str,
        key: str,
        filename: str | None,
        size: tuple[int, int] | None,
        line: int = 0,
        size_line: int = 0,
    ) -> int | None:
        """Add the image of one XML file; None, and an issue, if it cannot be."""
        log, pictures = self._log, self._pictures
        name = key
        if filename:
            folder, _, base = key.rpartition("/")
            said = filename.replace("\\", "/").rsplit("/", 1)[-1]
            cut = stem(said)
            if cut == base:
                name = f"{folder}/{said}" if folder else said
            elif said != base:
                name = key + said[len(cut) :]
                if cut != stem(base):
                    log.report(FILENAME_DIFFERS, path, line=line, field="filename", value=filename, name=name)
        picture: Picture | None = None
        if pictures:
            picture = pictures.named(name) if stem(name) != name else None
            if picture is None:
                picture = pictures.find(key, path=path)
            if picture is None and "/" in key:
                picture = pictures.find(key.rsplit("/", 1)[-1], path=path)
            if picture is not None and stem(name) == name:
                name += picture.name[len(stem(picture.name)) :]
        if filename is None or filename == "":
            log.report(FILENAME_MISSING, path, line=line, field="filename", name=name)
        if not accept_name(name, log, path):
            return None
        if size is None:
            size = self._other_size(path, name, picture, size_line)
        first = self._image_files.setdefault(name, path)
        if first != path:
            log.report(DUPLICATE_IMAGE, path, value=name, first=first)
            return None
        width, height = size or (0, 0)
        self._paths.append(path)
        return self._builder.image(
            name,
            width=width,
            height=height,
            path=picture.path if picture else "",
            split=self._split.get(key, ""),
            file=self._builder.file(path),
        )

    def _other_size(self, path: str, name: str, picture: Picture | None, line: int) -> tuple[int, int] | None:
        if self._pictures is None:
            self._pictures = Pictures(self._options, self._builder, self._log, self._source)
        errors = self._log.errors
        size = self._pictures.size(name, picture)
        if size is None and picture is not None and self._log.errors == errors:
            size = self._pictures.size(name)
        if size is None:
            if self._log.errors == errors:
                self._log.report(SIZE_MISSING, path, line=line, field="size", value=name)
        elif picture is not None and not self._told:
            shown = f"{size[0]}x{size[1]}"
            self._log.report(SIZE_FROM_PICTURE, path, line=line, field="size", value=name, size=shown)
        return size

    def _read_fast(self, data: bytes, path: str, key: str) -> bool:
        """Read a file of the usual form; False, and nothing done, if it has another."""
        head = _HEAD.match(data)
        if head is None:
            return False
        end = head.end()
        filename, width, height = head.groups()
        if (
            filename is None
            or width is None
            or data.count(b"<filename>", 0, end) > 1
            or data.count(b"<size>", 0, end) > 1
            or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n"))
        ):
            return False
        said = filename.decode("ascii")
        if stem(said) != key.rsplit("/", 1)[-1]:
            return False
        body = data[end:]
        if body.startswith(b"</annotation>"):
            if body.strip(_WHITE) != b"</annotation>":
                return False
            self._image(path, key, said, (int(width), int(height)))
            return True
        found = self._match(body)
        if found is None:
            return False
        shape, pieces, spread = found
        step = shape.step
        n = len(pieces) // step
        at = shape.columns
        categories = self._categories
        names = pieces[at["name"] :: step]
        for name in names:
            if name not in categories:
                if not name.strip(_WHITE):
                    return False
                categories[name] = self._builder.category(name.decode("ascii"))
        row = self._image(path, key, said, (int(width), int(height)))
        if row is None:
            self._builder.skipped += n
            return True
        rows = self._rows
        rows.image.extend([row] * n)
        rows.category.extend([categories[name] for name in names])
        for column, edge in zip(rows.edges, _EDGES, strict=True):
            column.extend(map(float, pieces[at[edge] :: step]))
        for flag, marks in rows.flags.items():
            marks.extend(pieces[at[flag] :: step] if flag in at else [b"0"] * n)
        if "score" in at:
            rows.score.extend(map(float, pieces[at["score"] :: step]))
        else:
            rows.score.extend([np.nan] * n)
        start = 1 + data.count(b"\n", 0, end)
        rows.line.extend(range(start, start + n * spread, spread) if spread else [start] * n)
        if "pose" in at:
            self._count_poses(pieces[at["pose"] :: step])
        return True

    def _count_poses(self, poses: Iterable[bytes]) -> None:
        n = sum(pose.strip(_WHITE).lower() not in (b"", b"unspecified") for pose in poses)
        if n:
            self._count("pose", n)

    def _match(self, body: bytes) -> tuple[_Shape, list[bytes], int] | None:
        """The shape of all objects of a file, the pieces it cuts them into, and how many lines one has."""
        for i, shape in enumerate(self._shapes):
            found = shape.cut(body)
            if found is not None:
                if i:
                    self._shapes.insert(0, self._shapes.pop(i))
                return shape, *found
        if self._lessons < 12:  # each costs about a millisecond
            self._lessons += 1
            learnt = _Shape.of_first(body)
            if learnt is not None and (found := learnt.cut(body)) is not None:
                self._shapes.insert(0, learnt)
                return learnt, *found
        return None

    def _read_slowly(self, data: bytes, path: str, key: str) -> None:
        root = self._parse(data, path)
        if root is None:
            return
        log = self._log
        filename: str | None = None
        filename_line = size_line = root.sourceline or 0
        size: dict[str, str] | None = None
        objects = []
        seen_filename = False
        usable = True
        for child in root:
            tag = child.tag
            if tag == "object":
                objects.append(child)
            elif tag == "filename":
                if seen_filename:
                    log.report(HEADER_TWICE, path, line=child.sourceline, field=tag, value=tag)
                    usable = False
                    continue
                seen_filename = True
                filename_line = child.sourceline
                filename = self._text(child, path, tag)
                usable &= filename is not None
            elif tag == "size":
                if size is not None:
                    log.report(HEADER_TWICE, path, line=child.sourceline, field=tag, value=tag)
                    usable = False
                    continue
                size_line = child.sourceline
                size = {}
                for part in child:
                    if part.tag in _SIZE:
                        if part.tag in size:
                            log.report(
                                HEADER_TWICE,
                                path,
                                line=part.sourceline,
                                field=f"size/{part.tag}",
                                value=part.tag,
                            )
                            usable = False
                            continue
                        text = self._text(part, path, f"size/{part.tag}")
                        size[part.tag] = text.strip(_BLANKS) if text is not None else "0"
                        usable &= text is not None
                    else:
                        usable &= self._unread(part, path, "in <size>")
            elif tag not in ("folder", "path", "segmented"):
                usable &= self._unread(child, path, "in <annotation>")
        pixels, sound = self._pixels(size, path, size_line)
        name = filename.strip(_BLANKS) if filename is not None else None
        if name and not accept_name(name.replace("\\", "/"), log, path, line=filename_line, field="filename"):
            usable = False
        row: int | None = None
        if usable and sound:
            row = self._image(path, key, name, pixels, filename_line, size_line)
        if row is not None and self._plain_objects(objects, row):
            return
        for child in objects:
            if not self._object(child, path, row, child.sourceline or 0):
                self._builder.skipped += 1

    def _plain_objects(self, objects: Sequence[Any], image: int) -> bool:
        """Add the boxes of all objects if all are faultless; else add none and answer False."""
        lines: list[int] = []
        names: list[int] = []
        scores: list[str] = []
        edges: list[str] = []
        marks: dict[str, list[bytes]] = {flag: [] for flag in _FLAGS}
        poses = parts = scored = 0
        for element in objects:
            texts: dict[str, str] = {}
            box: dict[str, str] = {}
            n = 0
            for child in element:
                tag = child.tag
                if tag == "bndbox":
                    box = {edge.tag: edge.text for edge in child if not len(edge)}
                    if len(box) != 4 or len(child) != 4:
                        return False
                    n += 1
                elif tag in _PLAIN:
                    if len(child):
                        return False
                    texts[tag] = child.text
                    n += 1
                elif tag == "part":
                    parts += 1
                else:
                    return False
            name = texts.get("name")
            if len(texts) + 1 != n or not box or name is None:
                return False
            if name not in self._names:
                plain = _plain_class(name)
                if _refuse_class(plain) is not None:
                    return False
                self._names[name] = self._builder.category(plain)
            names.append(self._names[name])
            try:
                edges += [box["xmin"], box["ymin"], box["xmax"], box["ymax"]]
                for flag, column in marks.items():
                    column.append(_MARKS[texts.get(flag)])
            except KeyError:
                return False
            given = [texts[tag] for tag in _SCORES if tag in texts]
            if len(given) > 1 or given in (["nan"], [None]):
                return False
            scores += given or ["nan"]
            scored += len(given)
            pose = texts.get("pose")
            poses += pose is not None and pose.strip(_BLANKS).lower() not in _SAYS_NOTHING
            lines.append(element.sourceline or 0)
        if None in edges or not _plain_numbers(edges):
            return False
        if scored and not _plain_numbers([text for text in scores if text != "nan"]):
            return False
        rows = self._rows
        rows.image.extend([image] * len(lines))
        rows.category.extend(names)
        for i, values in enumerate(rows.edges):
            values.extend(map(float, edges[i::4]))
        for flag, column in marks.items():
            rows.flags[flag].extend(column)
        rows.score.extend(map(float, scores))
        rows.line.extend(lines)
        if poses:
            self._count("pose", poses)
        if parts:
            self._count("part", parts)
        return True

    def _pixels(
        self, size: dict[str, str] | None, path: str, line: int
    ) -> tuple[tuple[int, int] | None, bool]:
        """Width and height as the file gives them, None for unknown; and whether they can be used."""
        values = []
        sound = True
        for tag in ("width", "height"):
            text = (size or {}).get(tag, "")
            try:
                if text == "" or (_NUMBER.fullmatch(text) and float(text) == 0):
                    values.append(0)
                else:
                    values.append(parse_pixels(text))
            except ValueError:
                self._log.report(BAD_IMAGE_SIZE, path, line=line, field=f"size/{tag}", value=text)
                sound = False
        if not sound or min(values) == 0:
            return None, sound
        return (values[0], values[1]), True

    def _object(self, element: Any, path: str, image: int | None, line: int) -> bool:
        """Add the box of one <object>; False, and its faults reported, if there is none."""
        log = self._log
        texts: dict[str, str] = {}
        edges: dict[str, Any] = {}
        has_box = False
        sound = True
        for child in element:
            tag = child.tag
            if tag == "bndbox":
                if has_box:
                    log.report(ELEMENT_TWICE, path, line=child.sourceline, field="object/bndbox", value=tag)
                    sound = False
                    continue
                has_box = True
                for edge in child:
                    if edge.tag in edges:
                        field = f"object/bndbox/{edge.tag}"
                        log.report(ELEMENT_TWICE, path, line=edge.sourceline, field=field, value=edge.tag)
                        sound = False
                    elif edge.tag in _EDGES:
                        edges[edge.tag] = edge
                    else:
                        sound &= self._unread(edge, path, "in <bndbox>")
            elif tag in _OBJECT:
                if tag in texts or (tag in _SCORES and any(t in texts for t in _SCORES)):
                    log.report(ELEMENT_TWICE, path, line=child.sourceline, field=f"object/{tag}", value=tag)
                    sound = False
                    continue
                text = self._text(child, path, f"object/{tag}")
                if text is None:
                    sound = False
                texts[tag] = text or ""
            elif tag == "pose":
                if (child.text or "").strip(_BLANKS).lower() not in _SAYS_NOTHING:
                    self._count("pose")
            elif tag == "part":
                self._count("part")
            else:
                sound &= self._unread(child, path, "in <object>")
        if not sound:
            return False
        for tag, there in (("name", "name" in texts), ("bndbox", has_box)):
            if not there:
                log.report(ELEMENT_MISSING, path, line=line, field=f"object/{tag}", value=tag)
                sound = False
        category = -1
        if "name" in texts:
            category = self._category(texts["name"], path, line)
            sound &= category >= 0
        corners = []
        for tag in _EDGES if has_box else ():
            edge = edges.get(tag)
            field = f"object/bndbox/{tag}"
            if edge is None:
                log.report(ELEMENT_MISSING, path, line=line, field=field, value=tag)
                sound = False
                continue
            text = self._text(edge, path, field)
            value = None if text is None else self._number(text, path, edge.sourceline, field)
            if value is None:
                sound = False
            else:
                corners.append(value)
        score: float | None = np.nan
        for tag in _SCORES:
            if texts.get(tag, "").strip(_BLANKS):
                score = self._number(texts[tag], path, line, f"object/{tag}")
                sound &= score is not None
        marks = {}
        for tag in _FLAGS:
            text = texts.get(tag, "").strip(_BLANKS)
            mark = _TRUTH.get(text.lower())
            if mark is None:
                log.report(BAD_FLAG, path, line=line, field=f"object/{tag}", value=text)
                sound = False
            marks[tag] = b"1" if mark else b"0"
        if not sound or image is None:
            return False
        assert score is not None
        rows = self._rows
        rows.image.append(image)
        rows.category.append(category)
        for column, value in zip(rows.edges, corners, strict=True):
            column.append(value)
        for tag, written in marks.items():
            rows.flags[tag].append(written)
        rows.score.append(score)
        rows.line.append(line)
        return True

    def _category(self, text: str, path: str, line: int) -> int:
        """The row of a class, -1 and an issue if its name cannot be one."""
        name = _plain_class(text)
        reason = _refuse_class(name)
        if reason is not None:
            self._log.report(BAD_CLASS_NAME, path, line=line, field="object/name", value=name, reason=reason)
            return -1
        return self._builder.category(name)

    def _number(self, text: str, path: str, line: int, field: str) -> float | None:
        """A finite number; None, and an issue, if the text is none."""
        text = text.strip(_BLANKS)
        if _NUMBER.fullmatch(text):
            value = float(text)
            if -np.inf < value < np.inf:
                return value
            self._log.report(NOT_FINITE, path, line=line, field=field, value=text)
        elif _NO_NUMBER.fullmatch(text):
            self._log.report(NOT_FINITE, path, line=line, field=field, value=text)
        else:
            self._log.report(NOT_A_NUMBER, path, line=line, field=field, value=text)
        return None

    def _text(self, element: Any, path: str, field: str) -> str | None:
        """The text of an element; None, and an issue, if it holds elements."""
        if len(element):
            found = str(element[0].tag)
            self._log.report(
                NESTED_VALUE, path, line=element.sourceline, field=field, value=element.tag, found=found
            )
            return None
        return element.text or ""

    def _unread(self, element: Any, path: str, where: str) -> bool:
        """Count an element that is not read; False, and an issue, if it looks like one that should be."""
        tag = element.tag
        local = tag.rsplit("}", 1)[-1].lower()
        expected = ""
        if local in _LOOKALIKES and (tag != local or _homes(local) != where):
            expected = f"<{local}> {_homes(local)}" if tag == local else f"<{local}>"
        elif len(element) and where != "in <object>":
            inner = next((e for e in element.iter("object", "bndbox")), None)
            if inner is not None:
                tag, where, expected = inner.tag, f"in <{tag}>", f"<{inner.tag}> {_homes(inner.tag)}"
        if expected:
            self._log.report(
                STRANGE_ELEMENT,
                path,
                line=element.sourceline,
                field=tag,
                value=tag,
                where=where,
                expected=expected,
            )
            return False
        if where == "in <object>":
            self._count("other elements of objects")
        return True

    def _count(self, what: str, n: int = 1) -> None:
        extras = self._builder.extras
        extras[what] = extras.get(what, 0) + n

    def _parse(self, data: bytes, path: str) -> Any:
        """The root <annotation> of a harmless document; None, and an issue, if there is none."""
        root = self._door.root(data, path, self._log)
        if root is not None and root.tag != "annotation":
            self._log.report(WRONG_ROOT, path, line=root.sourceline or 0, value=root.tag)
            return None
        return root


def _homes(tag: str) -> str:
    """Where an element of the format belongs."""
    if tag in _EDGES:
        return "in <bndbox>"
    if tag in _SIZE:
        return "in <size>"
    return "in <annotation>" if tag in _HEADER else "in <object>"


def _plain_numbers(texts: list[str]) -> bool:
    """Whether all texts are finite numbers without an exponent or blanks around them."""
    joined = "\n".join(texts)
    return joined.count("\n") == max(0, len(texts) - 1) and _PLAIN_NUMBERS.fullmatch(joined) is not None


def _plain_class(text: str) -> str:
    """The name of a class as it is meant: a line break around it is a printer's, a blank may be its own."""
    return text.strip(_BLANKS) if "\n" in text or "\t" in text else text


def _refuse_class(name: str) -> str | None:
    """Why a class cannot be called so; None if it can."""
    if not name.strip(_BLANKS):
        return "it is empty"
    if name.isascii() and name.isprintable():
        return None
    if any(c < " " or "\x7f" <= c < "\xa0" for c in name):
        return "it holds a control character"
    if "\u2028" in name or "\u2029" in name:
        return "it holds a line separator"
    return None


_WHITE = b" \t\r\n"
_TAG = re.compile(r"<([^\s>/!?<]+)")

# The quick way. A file is read by it only if the whole file matches: the head below, then objects that are
# all written like the first one, then the end. Text is printable ASCII without '&' and '<', so what the
# pattern captures is what an XML parser would give. Everything else goes through lxml.

_TEXT = rb"[ -%'-;=?-~]*"
_GAP = rb"[ \t\r\n]*"


def _leafs(*tags: bytes) -> bytes:
    return b"|".join(b"<" + tag + b">" + _TEXT + b"</" + tag + b">" + _GAP for tag in tags)


_HEAD = re.compile(
    rb"""(?:\xef\xbb\xbf)?(?:<\?xml version=["']1\.0["'](?: encoding=["'](?:utf-8|UTF-8)["'])?"""
    rb"""(?: standalone=["'](?:yes|no)["'])? ?\?>)?"""
    + (_GAP + rb"""<annotation(?: verified="(?:yes|no)")?>""" + _GAP + rb"(?:")
    + _leafs(b"folder", b"path", b"segmented")
    + (rb"|<source>" + _GAP + rb"(?:" + _leafs(b"database", b"annotation", b"image", b"flickrid"))
    + (rb")*</source>" + _GAP)
    + (rb"|<owner>" + _GAP + rb"(?:" + _leafs(b"flickrid", b"name") + rb")*</owner>" + _GAP)
    + (rb"|<filename>(" + _TEXT + rb")</filename>" + _GAP)
    + (rb"|<size>" + _GAP + rb"<width>([1-9][0-9]{0,8})</width>" + _GAP)
    + (rb"<height>([1-9][0-9]{0,8})</height>" + _GAP + rb"(?:" + _leafs(b"depth") + rb")?</size>" + _GAP)
    + rb")*(?=</annotation>|<object>)"
)
_LEAF = re.compile(rb"<([a-z]+)>(" + _TEXT + rb")</\1>")
_PATTERNS = {
    **dict.fromkeys(_EDGES, rb"(-?[0-9]{1,15}(?:\.[0-9]{1,20})?)"),
    **dict.fromkeys(_SCORES, rb"([0-9]{1,15}(?:\.[0-9]{1,20})?)"),
    **dict.fromkeys(_FLAGS, rb"([01])"),
    "name": rb"([ -%'-;=?-~]+)",
    "pose": rb"(" + _TEXT + rb")",
}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Shape:
    """How one object is written, blanks and line ends included; learnt from the first object of a file."""

    pattern: re.Pattern[bytes]
    columns: dict[str, int]
    """Where the value of each element stands among the pieces of one object."""
    step: int
    lines: int

    @classmethod
    def of_first(cls, body: bytes) -> _Shape | None:
        """The shape of the object that `body` begins with; None if it is not plain."""
        close = body.find(b"</object>", 0, 4000)
        if close < 0:
            return None
        parts = _LEAF.split(body[: close + 9])
        tags = [tag.decode() for tag in parts[1::3]]
        between = [part.split() for part in parts[0::3]]
        if not between[0] or between[0][0] != b"<object>" or len(set(tags)) != len(tags):
            return None
        # Write down the elements in order, to see whether they are where they belong.
        order = []
        for i, marks in enumerate(between):
            order += [mark.decode("latin-1") for mark in marks]
            order += tags[i : i + 1]
        start = order.index("<bndbox>") if "<bndbox>" in order else -1
        outside = order[1:start] + order[start + 6 : -1]
        scores = [tag for tag in tags if tag in _SCORES]
        if (
            start < 0
            or sorted(order[start + 1 : start + 5]) != sorted(_EDGES)
            or order[start + 5 : start + 6] != ["</bndbox>"]
            or order[-1] != "</object>"
            or "name" not in outside
            or not set(outside) <= {"name", "pose", *_FLAGS, *_SCORES}
            or len(scores) > 1
        ):
            return None
        pattern = b""
        for i, literal in enumerate(parts[0::3]):
            pattern += re.escape(literal)
            if i < len(tags):
                tag = tags[i].encode()
                pattern += b"<" + tag + b">" + _PATTERNS[tags[i]] + b"</" + tag + b">"
        columns = {("score" if tag in _SCORES else tag): i + 1 for i, tag in enumerate(tags)}
        lines = sum(literal.count(b"\n") for literal in parts[0::3])
        return cls(re.compile(pattern), columns, len(tags) + 1, lines)

    def cut(self, body: bytes) -> tuple[list[bytes], int] | None:
        """The pieces of all objects, and how many lines one takes; None if not all of `body` fits."""
        pieces = self.pattern.split(body)
        gaps = pieces[:: self.step]
        if gaps[0] or gaps[-1].strip(_WHITE) != b"</annotation>":
            return None
        inner = set(gaps[1:-1])
        if len(inner) > 1:
            return None
        lines = 0
        if inner:
            (gap,) = inner
            if gap.strip(_WHITE):
                return None
            lines = self.lines + gap.count(b"\n")
        return pieces, lines


# ------------------------------------------------------------------------------------ trees and their lists


def _below_annotations(file: str, root: str) -> bool:
    rest = file[len(root) :]
    return file.startswith(root) and rest.split("/", 1)[0].lower() == "annotations" and "/" in rest


def _keys(source: Source, files: Sequence[str]) -> list[tuple[str, str, str | None]]:
    """For each XML file: itself, the image's name without extension, and the root of its tree or None."""
    found: list[tuple[str, str, str | None]] = []
    for file in files:
        name = file or source.path.replace("\\", "/").rsplit("/", 1)[-1]
        key = name[:-4] if name.lower().endswith(".xml") else name
        parts = file.split("/")[:-1]
        at = next((i for i, part in enumerate(parts) if part.lower() == "annotations"), None)
        root = None if at is None else "".join(part + "/" for part in parts[:at])
        found.append((file, key, root))
    roots = {root for _, _, root in found}
    if len(roots) == 1 and roots != {None}:
        return [(file, _cut_tree(key, root), root) for file, key, root in found]
    # Several trees: the name of the tree tells their images apart.
    return [(file, key if root is None else root + _cut_tree(key, root), root) for file, key, root in found]


def _cut_tree(key: str, root: str | None) -> str:
    return key if root is None else key[len(root) :].split("/", 1)[1]


def _read_lists(
    source: Source, root: str, keys: set[str], several: bool, log: Log, wanted: str | None
) -> list[tuple[str, dict[str, None]]]:
    """The lists of images in ``ImageSets`` that are splits, each with the keys that it names."""
    pattern = re.compile(re.escape(root) + r"ImageSets/(?:([^/]+)/)?([^/]+)\.txt", re.IGNORECASE)
    matches = [m for f in source.files if (m := pattern.fullmatch(f))]
    in_main = [m for m in matches if (m[1] or "").lower() == "main"]
    if not in_main:
        in_main = [m for m in matches if (m[1] or "").lower() not in ("layout", "segmentation", "action")]
    ends: dict[str, list[str]] = {}
    prefix = root if several else ""
    for key in keys:
        parts = key[len(prefix) :].split("/")
        for i in range(1, len(parts)):
            ends.setdefault("/".join(parts[i:]), []).append(key)
    lists: list[tuple[str, dict[str, None]]] = []
    for match in in_main:
        if wanted is not None and match[2] != wanted:
            lists.append((match[2], {}))  # it is there, which is all that matters now
            continue
        members = _read_list(source, match[0], keys, ends, prefix, log)
        if members is not None:
            lists.append((match[2], members))
    if wanted is not None:
        return [(name, members) for name, members in lists if name == wanted] or [
            (name, members) for name, members in lists if "_" not in name
        ]
    return lists


def _read_list(
    source: Source, file: str, keys: set[str], ends: dict[str, list[str]], prefix: str, log: Log
) -> dict[str, None] | None:
    """The keys that a list names, in its order; None if it is a list of one class, or cannot be read."""
    data = source.read(file, log)
    if data is None:
        return None
    path = source.full(file)
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as e:
        line = 1 + data.count(b"\n", 0, e.start)
        log.report(NOT_UTF8, path, line=line, value=f"the byte 0x{data[e.start]:02x}")
        return None

    def known(name: str) -> str | None:
        for candidate in (name, stem(name)):
            if prefix + candidate in keys:
                return prefix + candidate
            if len(found := ends.get(candidate, [])) == 1:
                return found[0]
        return None

    members: dict[str, None] = {}
    missing = []
    marks = set()
    rows = 0
    for number, row in enumerate(text.split("\n"), 1):
        name = row.strip(_BLANKS)
        if not name:
            continue
        rows += 1
        key = known(name)
        if key is None:
            parts = name.rsplit(None, 1)
            if len(parts) == 2 and re.fullmatch(r"-?[0-9]+", parts[1], re.ASCII):
                marks.add(parts[1])
                key = known(parts[0])
        else:
            marks.add("")
        if key is None:
            missing.append((number, name))
        else:
            members[key] = None
    if marks and marks <= {"-1", "0", "1"} and (rows > 1 or "/main/" in f"/{file}".lower()):
        return None  # which images show one class, not which images there are
    for number, name in missing:
        log.report(LISTED_MISSING, path, line=number, value=name)
    return members


# ----------------------------------------------------------------------------------------- result files


class _ResultReader:
    """Reads the result files of the VOC kit: detections of one class each."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: VocOptions) -> None:
        self._source = source
        self._builder = builder
        self._log = log
        self._options = options

    def run(self) -> None:
        """Read every result file of the source."""
        source, builder, log = self._source, self._builder, self._log
        builder.kind = "det"
        if not source.is_dir:
            files = [""]
        else:
            files = source.with_suffix(".txt") if self._options.results else _result_files(source)
        if not files:
            log.report(NO_FILES, source.path, n=len(source.files))
        loaded = []
        for file in log.track(files, "reading"):
            path = source.full(file)
            base = (file or source.path.replace("\\", "/")).rsplit("/", 1)[-1]
            match = _RESULT_NAME.fullmatch(base)
            name = match[2] if match else base[: base.rfind(".")] if "." in base else base
            if _refuse_class(name) is not None:
                log.report(NOT_RESULTS, path, value=base)
                continue
            data = source.read(file, log)
            if data is None:
                continue
            category = builder.category(name)
            number = builder.file(path)
            data = data.removeprefix(b"\xef\xbb\xbf")
            found = _split_results(data)
            if found is None:
                found = self._split_slowly(data, path)
            loaded.append((category, number, path, *found))
        self._finish(loaded)

    def _finish(self, loaded: list[tuple[int, int, str, list[bytes], Floats, Any]]) -> None:
        builder, log = self._builder, self._log
        first: dict[bytes, tuple[str, int]] = {}
        for _, _, path, names, _, lines in loaded:
            for raw in dict.fromkeys(names):
                if raw not in first:
                    first[raw] = path, int(lines[names.index(raw)])
        pictures = Pictures(self._options, builder, log, self._source)
        rows: dict[bytes, int] = {}
        for raw in sorted(first):
            path, line = first[raw]
            name = raw.decode()
            if not accept_name(name, log, path, line=line):
                rows[raw] = -1
                continue
            picture = pictures.named(name) or pictures.find(name, line=line, path=path)
            if picture is not None and stem(name) == name:
                name += picture.name[len(stem(picture.name)) :]
            width, height = pictures.size(name, picture) or (0, 0)
            rows[raw] = builder.image(name, width=width, height=height, path=picture.path if picture else "")
        for category, number, _, names, values, lines in loaded:
            image = np.array([rows[name] for name in names], np.int64)
            keep = image >= 0
            builder.skipped += int(np.count_nonzero(~keep))
            xyxy = values[keep, 1:]
            if self._options.origin:
                _count_from_zero(xyxy)
            n = len(xyxy)
            builder.boxes(
                image=image[keep], category=np.full(n, category), xyxy=xyxy, score=values[keep, 0],
                file=np.full(n, number), line=np.asarray(lines)[keep],
            )  # fmt: skip

    def _split_slowly(self, data: bytes, path: str) -> tuple[list[bytes], Floats, Any]:
        """Names, numbers and lines of the good rows; every other row is reported."""
        log, builder = self._log, self._builder
        fields = ("confidence", *_EDGES)
        names, values, lines = [], [], []
        for number, row in enumerate(data.split(b"\n"), 1):
            row = row.strip(_WHITE)  # noqa: PLW2901
            if not row:
                continue
            try:
                text = row.decode()
            except UnicodeDecodeError as e:
                log.report(NOT_UTF8, path, line=number, value=f"the byte 0x{row[e.start]:02x}")
                builder.skipped += 1
                continue
            cells = re.split(r"[ \t]+", text)
            if len(cells) < 6:
                expected = "an image, a confidence and four edges"
                log.report(WRONG_COUNT, path, line=number, expected=expected, found=f"{len(cells)} values")
                builder.skipped += 1
                continue
            numbers = []
            for field, cell in zip(fields, cells[-5:], strict=True):
                if _NUMBER.fullmatch(cell) and abs(float(cell)) < np.inf:
                    numbers.append(float(cell))
                elif _NUMBER.fullmatch(cell) or _NO_NUMBER.fullmatch(cell):
                    log.report(NOT_FINITE, path, line=number, field=field, value=cell)
                else:
                    log.report(NOT_A_NUMBER, path, line=number, field=field, value=cell)
            if len(numbers) < 5:
                builder.skipped += 1
                continue
            # The name may hold blanks: it is all that stands before the five numbers.
            names.append(_RESULT_TAIL.sub("", text).encode())
            values.append(numbers)
            lines.append(number)
        return names, np.array(values, np.float64).reshape(-1, 5), np.array(lines, np.int64)


_RESULT_TAIL = re.compile(r"(?:[ \t]+[^ \t]+){5}$")


def _split_results(data: bytes) -> tuple[list[bytes], Floats, Any] | None:
    """Names, (n, 5) numbers and lines, all at once; None if a row is not six plain values."""
    if b"\x0b" in data or b"\x0c" in data:
        return None
    tokens = data.split()
    n = len(tokens) // 6
    if n * 6 != len(tokens):
        return None
    raw = np.frombuffer(data, np.uint8)
    solid = raw > 32
    starts = solid.copy()
    starts[1:] &= ~solid[:-1]
    at = np.flatnonzero(starts)
    if len(at) != len(tokens):
        return None
    breaks = np.flatnonzero(raw == 10)
    line = np.searchsorted(breaks, at) + 1
    by_row = line.reshape(n, 6)
    if n and ((by_row != by_row[:, :1]).any() or (np.diff(by_row[:, 0]) == 0).any()):
        return None
    names = tokens[0::6]
    columns = [tokens[i::6] for i in range(1, 6)]
    if any(b" ".join(column).translate(None, b"0123456789.+-eE ") for column in columns):
        return None
    try:
        values = np.array([list(map(float, column)) for column in columns], np.float64).reshape(5, n).T.copy()
    except ValueError:
        return None
    if not np.isfinite(values).all():
        return None
    try:
        b"\n".join(names).decode()
    except UnicodeDecodeError:
        return None
    return names, values, by_row[:, 0]


# ---------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: VocOptions) -> None:
    """Write one XML file per image, or one result file per class."""
    _check(options)
    edges = _edges(dataset, log, options)
    if options.results:
        _write_results(dataset, target, log, edges)
    else:
        _write_xml(dataset, target, log, options, edges)


def _edges(dataset: Dataset, log: Log, options: VocOptions) -> Floats:
    """(n, 4) the numbers to be written."""
    edges = dataset.boxes.xyxy
    if options.origin:
        edges = edges + np.array([1.0, 1.0, 0.0, 0.0])
    if options.round:
        whole = np.rint(edges)
        changed = int(np.count_nonzero(whole != edges))
        if changed:
            log.note(f"round=true: {changed} of {edges.size} coordinates are rounded to whole pixels")
        edges = whole
    return edges


def _writable(names: Iterable[str], log: Log) -> None:
    """Report the names that XML cannot hold, or that would come back as others."""
    for name in names:
        bad = _refuse_class(name)
        if bad is None and any(c in "\ufffe\uffff" or "\ud800" <= c <= "\udfff" for c in name):
            bad = "XML cannot hold one of its characters"
        if bad is not None:
            log.report(UNWRITABLE, "", value=name, reason=bad)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _write_xml(dataset: Dataset, target: Output, log: Log, options: VocOptions, edges: Floats) -> None:
    images, boxes = dataset.images, dataset.boxes
    keys = [stem(name) for name in images.name]
    tree = options.layout == "tree"
    if options.layout == "auto":
        # A folder of that name would be taken for the root of a tree.
        tree = any(images.split) or any(
            part.lower() == "annotations" for key in keys if "/" in key for part in key.split("/")[:-1]
        )
    folder = "Annotations/" if tree else ""
    files = [f"{folder}{key}.xml" for key in keys]
    lists: dict[str, list[str]] = {}
    if tree:
        for key, split in zip(keys, images.split, strict=True):
            if split:
                lists.setdefault(split, []).append(key)
    elif any(images.split):
        log.note("layout=flat: the splits of the images are not written")
    list_files = {split: f"ImageSets/Main/{split}.txt" for split in sorted(lists)}
    errors = log.errors
    _writable(dataset.categories.name, log)
    _writable(images.name, log)
    owners = [*images.name, *(f"the split {split}" for split in list_files)]
    if not target.plan([*files, *list_files.values()], owners, log) or log.errors > errors:
        return

    size = "\t<size>\n\t\t<width>%d</width>\n\t\t<height>%d</height>\n\t\t<depth>3</depth>\n\t</size>\n"
    sizes = [
        size % (w, h) if w > 0 and h > 0 else ""
        for w, h in zip(images.width.tolist(), images.height.tolist(), strict=True)
    ]
    names = map(_escape, images.name)
    objects = assemble(len(images), boxes.image, _object(dataset, edges))
    for file, name, size, text in zip(log.track(files, "writing"), names, sizes, objects, strict=True):
        head = f"<annotation>\n\t<filename>{name}</filename>\n{size}\t<segmented>0</segmented>\n"
        target.write(file, b"".join((head.encode(), text, b"</annotation>\n")))
    for split, file in list_files.items():
        target.write(file, "".join(f"{key}\n" for key in lists[split]).encode())


def _object(dataset: Dataset, edges: Floats) -> list[bytes | Column]:
    """The pieces of the text of an object."""
    boxes = dataset.boxes
    # All that stands before the coordinates depends on class and flags alone, so there are few of them.
    known = int(Flag.TRUNCATED | Flag.DIFFICULT | Flag.OCCLUDED)
    kinds = boxes.category.astype(np.int64) * 65536 + (boxes.flags & known)
    unique, which = np.unique(kinds, return_inverse=True)
    starts = []
    for kind in unique.tolist():
        category, flags = divmod(kind, 65536)
        starts.append(
            f"\t<object>\n\t\t<name>{_escape(dataset.categories.name[category])}</name>\n"
            f"\t\t<pose>Unspecified</pose>\n"
            f"\t\t<truncated>{int(flags & Flag.TRUNCATED > 0)}</truncated>\n"
            f"\t\t<difficult>{int(flags & Flag.DIFFICULT > 0)}</difficult>\n"
            f"\t\t<occluded>{int(flags & Flag.OCCLUDED > 0)}</occluded>\n".encode()
        )
    pieces: list[bytes | Column] = [(np.array(starts or [b""], np.bytes_), which)]
    missing = np.isnan(boxes.score)
    if not missing.all():
        score = decimal_cells(np.nan_to_num(boxes.score))
        for text in (b"\t\t<confidence>", score, b"</confidence>\n"):
            piece = np.resize(np.array(text, np.bytes_), len(boxes))
            piece[missing] = b""
            pieces.append(piece)
    pieces.append(b"\t\t<bndbox>\n")
    texts = decimal_cells(edges.reshape(-1))
    for i, name in enumerate((b"xmin", b"ymin", b"xmax", b"ymax")):
        pieces += [b"\t\t\t<%b>" % name, texts[i::4], b"</%b>\n" % name]
    return [*pieces, b"\t\t</bndbox>\n\t</object>\n"]


def _write_results(dataset: Dataset, target: Output, log: Log, edges: Floats) -> None:
    images, boxes = dataset.images, dataset.boxes
    if np.isnan(boxes.score).any():
        raise UsageError("results=true writes detections, and these boxes have no score")
    names = [stem(name) for name in images.name]
    classes = dataset.categories.name
    files = [f"comp4_det_test_{name}.txt" for name in classes]
    errors = log.errors
    _writable(classes, log)
    for name in classes:
        if "/" in name or "\\" in name:
            log.report(UNWRITABLE, "", value=name, reason="a class in a file's name cannot hold a slash")
    first: dict[str, str] = {}
    for name, whole in zip(names, images.name, strict=True):
        if name != name.strip(" \t"):
            log.report(UNWRITABLE, "", value=name, reason="blanks at its ends would be lost")
        other = first.setdefault(name, whole)
        if other != whole:
            log.report(COLLISION, "", first=other, second=whole, value=name)
    if log.errors > errors or not target.plan(files, classes, log):
        return
    empty = len(images) - len(np.unique(boxes.image))
    if empty:
        log.note(f"result files do not name the {empty} images without detections")
    order = np.argsort(boxes.category, kind="stable")
    ends = np.searchsorted(boxes.category[order], np.arange(len(classes) + 1)).tolist()
    texts = decimals(edges[order].reshape(-1))
    scores = decimals(boxes.score[order])
    image = [names[i] for i in boxes.image[order].tolist()]
    rows = list(map(" ".join, zip(image, scores, *(texts[i::4] for i in range(4)), strict=True)))
    for i, file in enumerate(log.track(files, "writing")):
        part = rows[ends[i] : ends[i + 1]]
        target.write(file, "\n".join([*part, ""]).encode() if part else b"")


FORMAT = Format(
    name="voc",
    title="Pascal VOC XML",
    doc=__doc__ or "",
    suffixes=(".xml",),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=VocOptions,
    keeps=frozenset(
        (
            "size",
            "extension",
            "empty",
            "split",
            "score",
            *(str(flag.name).lower() for flag in _FLAGS.values()),
        )
    ),
)
