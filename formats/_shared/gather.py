"""Collect images, classes and boxes from files, and decide what depends on all of them.

A reader adds what it sees in the order of its files. Whether the boxes are ground truth or detections is
known only after the last of them, so they wait in a `Gather` until `Gather.finish`.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import ALL_SCORED, NO_SCORES, SCORE_MISSING, SCORE_UNEXPECTED, SOME_SCORES
from odm.files import Source
from odm.formats._shared.codes import BAD_LISTED_CLASS, DUPLICATE_IMAGE, SIZE_FROM_PICTURE, SIZE_MISSING
from odm.formats._shared.pictures import ImageOptions, Picture, Pictures
from odm.formats._shared.shapes.box_shapes import ELLIPSE, Drawn, make_shape_columns, outline_ellipse
from odm.formats._shared.shapes.groups import Groups
from odm.formats._shared.shapes.rotation import note_turned, parse_turn
from odm.issues import Code, Log, Trusted, plural, printable
from odm.names import (
    BAD_CLASS_NAME,
    PICTURE_SUFFIXES,
    accept_name,
    is_usual,
    refuse_class,
    stem,
    with_slashes,
)
from odm.tables import Builder, Floats, Id, Keypoints, Shapes

NAN = float("nan")
_NO_WH = NAN, NAN
Corners = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class Location:
    """A location in a file: a line, or a JSON pointer that grows by ``at / "objects" / 3``.

    With a line, the keys below it name a cell. Every value has a location and hardly any is ever shown, so a
    location only holds its parent, and the pointer is made on demand.
    """

    __slots__ = ("_key", "_parent", "line", "path")

    def __init__(self, path: str, key: str | int = "", line: int = 0, parent: Location | None = None) -> None:
        self.path = path
        self.line = line
        self._key = key
        self._parent = parent

    def __truediv__(self, key: str | int) -> Location:
        return Location(self.path, key, self.line, self)

    @property
    def pointer(self) -> str:
        """The JSON pointer (RFC 6901), empty for the whole file."""
        keys = []
        location = self
        while location._parent is not None:
            key = location._key
            keys.append(escape_key(key) if isinstance(key, str) else str(key))
            location = location._parent
        return "".join(f"/{key}" for key in reversed(keys))

    @property
    def where(self) -> dict[str, Any]:
        """The location as keywords of `Log.report`: ``line``, ``pointer`` or neither."""
        if self.line:
            return {"line": self.line}
        return {} if self._parent is None else {"pointer": self.pointer}

    def report(self, log: Log, code: Code, **values: Any) -> None:
        """Report an issue at this location; `values` are those of `Log.report`."""
        log.report(code, self.path, **self.where, **values)

    @property
    def field(self) -> str:
        """The last key of the location, empty for an index."""
        key = self.pointer.rsplit("/", 1)[-1]
        return "" if key.isdigit() else key

    def __str__(self) -> str:
        location = f":{self.line}" if self.line else f"#{printable(self.pointer)}" if self.pointer else ""
        return printable(self.path) + location


def escape_key(key: str) -> str:
    """A key as escaped in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


RowLocator = Callable[[int], tuple[str, dict[str, Any]]]
"""Return the path and the location (keywords of `Log.report`) of one of n rows."""


def decide_kind(builder: Builder, scored: int, total: int, *, unanimous: bool = False) -> bool:
    """Decide whether rows are detections, and set ``builder.kind`` if it is not set.

    A kind that is set stays. Else rows are detections if more than half of `total`, or with `unanimous` all,
    have a score; `scored` is how many have.
    """
    if builder.kind is None:
        is_det = 0 < scored == total if unanimous else 2 * scored > total
        builder.kind = "det" if is_det else "gt"
    return builder.kind == "det"


def report_other_kind(
    builder: Builder, log: Log, truth: tuple[int, Location | None], detections: tuple[int, Location | None]
) -> None:
    """Report, once, that all boxes are of the kind that is not read (``builder.kind`` says which one is).

    For formats that store ground truth and detections apart: `truth` and `detections` are the number of boxes
    of each kind, and the location of the first.
    """
    is_det = builder.kind == "det"
    (n_read, _), (n_unread, location) = (detections, truth) if is_det else (truth, detections)
    if not n_read and n_unread and location is not None:
        location.report(log, NO_SCORES if is_det else ALL_SCORED, n=n_unread)


def add_extension(name: str, picture: Picture | None) -> str:
    """Append the extension of the image file to the name of an image that lacks it."""
    if picture is None:
        return name
    suffix = picture.name[len(stem(picture.name)) :]
    return name if name.lower().endswith(suffix.lower()) else name + suffix


def find_folders(source: Source) -> tuple[str, ...]:
    """Return the path of the source, as the only folder of image files, if it holds any; else no folder."""
    holds_pictures = source.is_dir and any(
        f[f.rfind(".") :].lower() in PICTURE_SUFFIXES for f in source.files
    )
    return (source.path,) if holds_pictures else ()


class Unsized(msgspec.Struct, frozen=True, eq=False):
    """An image of unknown size whose coordinates are fractions of it."""

    name: str
    picture: Picture | None
    pictures: Pictures
    location: Location
    field: str = ""


def decide_relative(builder: Builder, unknown: Sequence[Unsized], *, sized: bool) -> bool:
    """Whether all coordinates stay relative, as nothing is `sized` or in pixels and nothing hints at a size.

    `builder.relative` is then set. Otherwise each image of unknown size is reported.
    """
    if not sized and all(image.pictures.lacks_any_hint(image.name, image.picture) for image in unknown):
        builder.relative = True
        return True
    for image in unknown:
        location = image.location
        image.pictures.report_no_size(
            image.name, image.picture, location.path, **location.where, field=image.field
        )
    return False


class Gather:
    """Collect the images, classes and boxes of one source, and fill the builder in `finish`.

    Parameters
    ----------
    folders
        Folders of pictures that the format itself names.
    pictures
        The image files, if the reader has listed them already. The attribute may be set again between images.
    borrow_sizes
        Whether the other side of an evaluation is asked for a size that is known from nowhere else: always,
        never, or only if the size is ``needed``, or there are image files or options that give sizes.
    size_field
        The name of the size of an image in the files, so that a missing size is a warning; None for formats
        without one.
    unanimous
        Whether all boxes must have a score for them to be detections. A score in ground truth is then
        ignored, with one warning. Otherwise most boxes decide, and each one of the other kind is an error.
    """

    pads_points = False
    """Whether objects of a class may have fewer keypoints than others: the rest are not labelled."""

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: ImageOptions,
        folders: tuple[str, ...] = (),
        *,
        pictures: Pictures | None = None,
        borrow_sizes: Literal["always", "needed", "never"] = "always",
        size_field: str | None = None,
        unanimous: bool = False,
    ) -> None:
        self.source, self.builder, self.log = source, builder, log
        size_builder = Builder() if borrow_sizes == "never" else builder  # of no other side
        self.pictures = (
            Pictures(options, size_builder, log, source, folders) if pictures is None else pictures
        )
        self._explicit = options.image_size is not None or options.image_sizes is not None
        self.seeks_sizes = borrow_sizes != "needed" or self._explicit or bool(self.pictures)
        """Whether the sizes of all images are looked for, not only those that are needed."""
        self._size_field = size_field
        self._unanimous = unanimous
        self._images: dict[str, Location] = {}
        """The first location of each image name."""
        self.classes: dict[str, int] = {}
        """The row of each class so far."""
        self._unsized: dict[int, Unsized] = {}
        """Images whose boxes are fractions of a size that is not known, by their rows."""
        self._needs_pixels = False
        # Boxes that were added one by one since `_pack`: their columns, shapes, further fields and locations.
        self._singles: list[tuple[Any, ...]] = []
        self._drawn: list[Drawn | None] = []
        self._extra: list[Mapping[str, bytes]] = []
        self._locations: list[Location] = []
        self._chunks: list[tuple[dict[str, Any], RowLocator]] = []
        """The boxes so far, as columns of `Builder.boxes`, and the function that locates their rows."""
        self._ellipses = 0
        self.around_points = 0
        """How many boxes are those around keypoints, because there is no other."""
        # Only formats whose shapes have groups, or CVAT's rotations, have these options.
        self.groups = Groups(
            builder, log, source.path, joins=getattr(options, "groups", "ignore") == "objects"
        )
        self._turns, self._turned = getattr(options, "rotation", "ignore") == "cvat", 0
        """Whether CVAT's rotations are read, and how many were."""

    # -- images

    def find_exact(self, name: str, location: Location) -> Picture | None:
        """The picture of exactly that name, first beside the file that names it, or in ``images/`` there."""
        beside = posixpath.dirname(with_slashes(location.path.removeprefix(self.source.path)).lstrip("/"))
        return self.pictures.find_exact(name, beside, posixpath.join(beside, "images"))

    def find_picture(self, name: str, location: Location, *keys: str) -> Picture | None:
        """Find the image file `name`; else the one whose name without extension is one of `keys`.

        Without `keys`, `name` is the only one. None if there is no such file.
        """
        if not self.pictures:
            return None
        picture = self.find_exact(name, location)
        for key in keys or (name,):
            picture = picture or self.pictures.find(key, path=location.path, line=location.line)
        return picture

    def image(
        self,
        name: str,
        location: Location,
        *,
        field: str = "",
        size: tuple[int, int] | None = None,
        size_at: Location | None = None,
        picture: Picture | None = None,
        needed: bool = False,
        accepted: bool = False,
        split: str = "",
        source_id: Id | None = None,
        file: int = -1,
        line: int = 0,
        video: int = -1,
        frame: int = -1,
    ) -> int | None:
        """Add an image and return its row; None, and an issue, if its name is unusable or was added before.

        Without `size` (width, height in pixels) the size is looked for if sizes are of use, or `needed`. An
        `accepted` name has been checked before. A missing size is reported at `size_at`, else at `location`.
        """
        log = self.log
        if not accepted and not is_usual(name):
            name_location = location / field if field else location
            if not accept_name(name, log, location.path, **name_location.where, field=field):
                return None
        first_location = self._images.setdefault(name, location)
        if first_location is not location:
            shown = Trusted(str(first_location))
            location.report(log, DUPLICATE_IMAGE, field=field, value=name, first=shown)
            return None
        if size is None and (self.seeks_sizes or needed):
            size = self._find_size(name, picture, size_at or location)
        width, height = size or (0, 0)
        return self.builder.image(
            name,
            width=width,
            height=height,
            source_id=source_id,
            path=picture.path if picture else "",
            split=split,
            file=file,
            line=line,
            video=video,
            frame=frame,
        )

    def _find_size(self, name: str, picture: Picture | None, location: Location) -> tuple[int, int] | None:
        """Look for the size of an image; None if it is not known.

        Where the files should have the size (at `location`), report that it is missing, or from a picture.
        """
        log = self.log
        n_errors = log.errors
        size = self.pictures.find_size(name, picture)
        if self._size_field is None or log.errors > n_errors:  # the picture is damaged
            return size
        about = {"field": self._size_field, "value": name}
        if size is None:
            location.report(log, SIZE_MISSING, **about)
        elif picture is not None and not self._explicit:  # options need no warning
            location.report(log, SIZE_FROM_PICTURE, **about, size=f"{size[0]}x{size[1]}")
        return size

    # -- classes

    def category(
        self,
        name: str,
        location: Location,
        *,
        field: str = "",
        source_id: Id | None = None,
        listed: bool = False,
    ) -> int | None:
        """Return the row of a class, which is added if it is new; None, after an issue, if the name is bad.

        `listed`: the name stands in a list of classes and not in a box.
        """
        row = self.classes.get(name)
        if row is not None:
            return row
        if (reason := refuse_class(name)) is not None:
            code = BAD_LISTED_CLASS if listed else BAD_CLASS_NAME
            field = field or location.field
            location.report(self.log, code, field=field, value=name, reason=reason)
            return None
        row = self.classes[name] = self.builder.category(name, source_id=source_id)
        return row

    # -- boxes in fractions of images without a size

    def keep_fractions(
        self, image: int, name: str, location: Location, picture: Picture | None = None
    ) -> None:
        """Note that the boxes of this image are fractions of its size, which is not known."""
        self._unsized[image] = Unsized(name, picture, self.pictures, location)

    def need_pixels(self, image: int) -> bool:
        """Note that a rotation or mask needs this image in pixels; return whether its size is unknown."""
        self._needs_pixels |= image in self._unsized
        return image in self._unsized

    def _settle_fractions(self) -> None:
        """Keep all boxes relative if no image has a size; else report images without one and drop theirs."""
        self._pack()
        unsized_rows = list(self._unsized)
        # A size counts as known too if a box is in pixels, as then not all can stay relative.
        has_sizes = self._needs_pixels or self.builder.has_image_sizes
        has_sizes = has_sizes or any(
            not np.isin(columns["image"], unsized_rows).all() for columns, _ in self._chunks
        )
        if decide_relative(self.builder, list(self._unsized.values()), sized=has_sizes):
            return
        for i, (columns, locate) in enumerate(self._chunks):
            is_kept = ~np.isin(columns["image"], unsized_rows)
            kept_indices = np.flatnonzero(is_kept).tolist()
            self.builder.skipped += len(is_kept) - len(kept_indices)
            columns = {key: select_rows(column, is_kept) for key, column in columns.items()}  # noqa: PLW2901
            # Row i of the new columns is row kept_indices[i] of the old ones.
            self._chunks[i] = columns, lambda row, locate=locate, rows=kept_indices: locate(rows[row])  # type: ignore[misc]

    # -- boxes

    def box(
        self,
        image: int,
        category: int,
        corners: Corners,
        location: Location,
        *,
        file: int,
        line: int,
        wh: tuple[float, float] | None = None,
        score: float = NAN,
        flags: int = 0,
        track: int = -1,
        group: int = -1,
        is_part: bool | None = None,
        shape: Drawn | None = None,
        extra: Mapping[str, bytes] | None = None,
    ) -> None:
        """Add one box: `corners` are its edges, `location` its location in the file.

        In a group, `is_part` is True for a polygon or mask, False for a rectangle, None otherwise. `extra` is
        the JSON of further fields, which either all boxes have or none.
        """
        self._drawn.append(shape)
        self._extra += [extra] if extra is not None else []
        part_kind = -1 if is_part is None else int(is_part)
        row = image, category, *corners, *(wh or _NO_WH), score, flags, file, line, track, group, part_kind
        self._singles.append(row)
        self._locations.append(location)

    def add(
        self,
        *,
        image: NDArray[Any],
        category: NDArray[Any],
        xyxy: Floats,
        score: Floats | None = None,
        file: NDArray[Any] | int,
        line: NDArray[Any],
        **columns: Any,
    ) -> None:
        """Add n boxes; the columns are those of `Builder.boxes`."""
        self._pack()  # those added before stay before them
        chunk = {"image": image, "category": category, "xyxy": xyxy, "score": score, **columns}
        locate = self.locate_rows(file, line)
        self._chunks.append(({**chunk, "file": file, "line": line}, locate))

    def locate_rows(self, file: NDArray[Any] | int, line: NDArray[Any]) -> RowLocator:
        """Return the function that gives the path and location of each of n rows.

        `file` (n,) int (or one number for all) and `line` (n,) int are as in `Builder.boxes`.
        """

        def locate(row: int) -> tuple[str, dict[str, Any]]:
            path, line_number, pointer = self.builder.location(
                file if isinstance(file, int) else int(file[row]), int(line[row])
            )
            return path, {"pointer": pointer} if pointer else {"line": line_number}

        return locate

    def make_ellipse(self, x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> Drawn:
        """Return the outline of an ellipse as a shape, and count it for a note (`finish`)."""
        self._ellipses += 1
        return Drawn("polygons", [outline_ellipse(x, y, rx, ry, turn)])

    def parse_turn(self, attributes: Mapping[str, Any]) -> float:
        """Return the radians by which CVAT's attributes turn a rectangle, 0 for none; count turned ones."""
        turn = parse_turn(attributes) if self._turns else 0.0
        self._turned += turn != 0
        return turn

    def count_boxes(self) -> tuple[int, int]:
        """Return the number of boxes so far that have a score, and of all; joins groups to objects first."""
        self._pack()
        n_scored = sum(_count_scored(chunk) for chunk, _ in self._chunks)
        return n_scored, sum(len(chunk["image"]) for chunk, _ in self._chunks)

    def _pack(self) -> None:
        """Turn the boxes that were added one by one into a chunk of columns, joined to objects by groups."""
        if not self._singles:
            return
        # Columns: 0 image, 1 category, 2-5 edges, 6-7 width and height, 8 score, 9 flags, 10 file, 11 line,
        # 12 track, 13 group, 14 kind of part.
        table, locations, shapes = np.array(self._singles, np.float64), self._locations, self._drawn
        extra = self._extra
        self._singles, self._locations, self._drawn, self._extra = [], [], [], []
        if self.pads_points:
            _pad_points(table[:, 1], shapes)
        if (kept_rows := self.groups.join(table, shapes)) is not None:  # a row for each object is kept
            table, locations = table[kept_rows], [locations[i] for i in kept_rows]
            shapes = [shapes[i] for i in kept_rows]
            extra = [extra[i] for i in kept_rows] if extra else extra
        chunk = {
            "image": table[:, 0],
            "category": table[:, 1],
            "xyxy": table[:, 2:6],
            "wh": table[:, 6:8],
            "score": table[:, 8],
            "flags": table[:, 9],
            "file": table[:, 10],
            "line": table[:, 11],
            **make_shape_columns(shapes),
        }
        for name, k in (("track", 12), ("group", 13)):
            if (table[:, k] >= 0).any():
                chunk[name] = table[:, k]
        if extra:
            chunk["extra"] = {key: [fields[key] for fields in extra] for key in extra[0]}
        self._chunks.append((chunk, lambda row: (locations[row].path, locations[row].where)))

    def finish(self, *, field: str = "score") -> None:
        """Decide whether the boxes are detections, report those of the other kind, and build the rest.

        `field` is the name of the score in the files, for messages. No boxes are left here.
        """
        if self._unsized:
            self._settle_fractions()
        n_scored, n_boxes = self.count_boxes()
        if n := self._ellipses:
            ellipses = plural(n, "ellipse is read as an outline", "ellipses are read as outlines")
            self.log.note(f"{printable(self.source.path)}: {ellipses} of {ELLIPSE} corners")
        if n := self.around_points:
            objects = plural(n, "object has no box", "objects have no box")
            self.log.note(f"{printable(self.source.path)}: {objects}: that around the keypoints is read")
        note_turned(self.log, self.source.path, self._turned)

        is_det = decide_kind(self.builder, n_scored, n_boxes, unanimous=self._unanimous)
        ignores_scores = self._unanimous and not is_det
        if ignores_scores and n_scored:  # which is reported once, at the first
            chunk, locate = next((chunk, locate) for chunk, locate in self._chunks if _count_scored(chunk))
            path, location = locate(int(np.argmax(~np.isnan(chunk["score"]))))
            if n_scored == n_boxes:
                self.log.report(ALL_SCORED, path, **location, field=field, n=n_boxes)
            else:
                self.log.report(SOME_SCORES, path, **location, field=field, found=n_scored, total=n_boxes)
        for chunk, locate in self._chunks:
            if chunk["score"] is not None and not ignores_scores:
                is_valid = self.find_of_kind(chunk["score"], locate, field=field)
                if not is_valid.all():
                    self.builder.skipped += len(is_valid) - int(np.count_nonzero(is_valid))
                    chunk = {k: select_rows(v, is_valid) for k, v in chunk.items()}  # noqa: PLW2901
            score = chunk["score"] if is_det else None
            self.builder.boxes(**{**chunk, "score": score})
        self._chunks.clear()

    def find_of_kind(self, score: Floats, locate: RowLocator, *, field: str) -> NDArray[np.bool_]:
        """Return (n,) True for rows of the decided kind; report the others.

        Those have a score (`score`, (n,)) in ground truth, or none in detections.
        """
        is_det = self.builder.kind == "det"
        is_other_kind = np.isnan(score) == is_det
        for row in np.flatnonzero(is_other_kind).tolist():
            path, location = locate(row)
            if is_det:
                self.log.report(SCORE_MISSING, path, **location, field=field)
            else:
                self.log.report(SCORE_UNEXPECTED, path, **location, field=field, value=float(score[row]))
        is_valid: NDArray[np.bool_] = ~is_other_kind
        return is_valid


def _pad_points(category: Floats, shapes: Sequence[Drawn | None]) -> None:
    """Pad the keypoints of each shape with 0, 0, 0 to the most keypoints that a shape of its class has.

    `category` (n,) are the category rows of the n `shapes`, which are changed in place.
    """
    pairs = zip(category.tolist(), shapes, strict=True)
    shapes_with_points = [(class_row, shape) for class_row, shape in pairs if shape and len(shape.points)]
    n_points: dict[float, int] = {}
    for class_row, shape in shapes_with_points:
        n_points[class_row] = max(n_points.get(class_row, 0), len(shape.points))
    for class_row, shape in shapes_with_points:
        shape.points = [*shape.points, *[(0.0, 0.0, 0.0)] * (n_points[class_row] - len(shape.points))]


def select_rows(column: Any, is_valid: NDArray[Any]) -> Any:
    """Return the rows of a column where `is_valid`, (n,), is True. A scalar or None is unchanged."""
    if isinstance(column, Shapes | Keypoints):
        return column.take(is_valid)
    if isinstance(column, Mapping):
        return {key: list(itertools.compress(values, is_valid.tolist())) for key, values in column.items()}
    return column[is_valid] if isinstance(column, np.ndarray) else column


def _count_scored(chunk: dict[str, Any]) -> int:
    """How many boxes of a chunk have a score."""
    score = chunk["score"]
    return 0 if score is None else int(np.count_nonzero(~np.isnan(score)))
