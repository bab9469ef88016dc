"""LabelMe JSON: one file per image, as written by the annotation tool.

Reference: the reader and writer of the tool (``labelme/label_file.py`` of
https://github.com/wkentaro/labelme)::

    {"version": "5.5.0", "flags": {},
     "shapes": [{"label": "person", "points": [[10, 20], [110, 220]], "group_id": null,
                 "description": "", "shape_type": "rectangle", "flags": {}, "mask": null}],
     "imagePath": "a.jpg", "imageData": null, "imageHeight": 480, "imageWidth": 640}

Coordinates are pixels from the top left corner of the image, including fractions, read and written unchanged.

Shapes: the two points of a ``rectangle`` are opposite corners in any order; four points, as written by
X-AnyLabeling, are read as well. A ``polygon``, a ``circle`` (its centre and a point on it), a ``mask`` and a
``rotation`` (a rotated box) are counted and read as their bounding box, with a warning; a polygon that is an
axis-aligned rectangle is read without one. Without a ``shape_type``, as in old files, a shape with two points
is a rectangle and any other a polygon. ``point``, ``points``, ``line`` and ``linestrip`` have no area; they
are counted but not read. A null list is read as empty.

Flags: those in ``shapes[].flags`` called ``difficult``, ``crowd``, ``truncated``, ``occluded``, ``group_of``,
``depiction`` and ``inside``, and X-AnyLabeling's key ``difficult``. ``score`` of a shape, written by
X-AnyLabeling, is the score of a detection. If every shape has one, the files contain detections. If only some
have one, they are read as ground truth without the scores, with a warning. ``--kind`` overrides this.

The image is named after the JSON file, with the extension of ``imagePath`` (if the names differ, there is a
warning). ``imagePath`` may point to another folder and is not followed. ``imageData``, the picture itself, is
ignored. A size that is missing or 0 is taken from the picture beside the file or from ``--images``,
``--image-size``, ``--image-sizes``.

Writing: one ``.json`` per image, to be placed beside the pictures; ``imageData`` is null.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats._shared.codes import FILE_NAME_DIFFERS, NO_FILES, UNKNOWN_SHAPE
from odm.formats._shared.gather import At, Corners, with_extension
from odm.formats._shared.image_names import Place, image_places, note_folders, without_folder
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_records import (
    ANY,
    CLASS,
    COUNTED,
    INT,
    NUMBER,
    POINTS,
    TEXT,
    Each,
    Held,
    Maybe,
    Points,
    Records,
    Table,
    add_boxes,
    outlines,
)
from odm.formats._shared.json_values import (
    FLAG_NAMES,
    Reader,
    below,
    bounds,
    dump,
    flags_of,
    groups,
    is_set,
    is_upright,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log, Trusted
from odm.names import PICTURE_SUFFIXES, accept_name, stem
from odm.tables import Builder, Dataset

_TOP = frozenset({"version", "flags", "shapes", "imagePath", "imageData", "imageHeight", "imageWidth"})
_SHAPE = frozenset(
    {"label", "points", "shape_type", "flags", "difficult", "score", "group_id", "description"}
)
_OPEN = frozenset({"point", "points", "line", "linestrip"})
_OUTLINES = {"polygon": "polygons", "mask": "masks", "circle": "circles", "rotation": "rotated boxes"}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelmeOptions(ImageOptions):
    """Options of LabelMe JSON."""


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    if look.top != "{" or look.keys.get("shapes", "[") not in ("[", "n"):
        return None
    if look.cut and look.keys.get("imageData") == '"' and _TOP.issuperset(look.keys):
        return SURE, "it has the imageData of one image, as LabelMe has"
    image = look.keys.keys() & {"imagePath", "imageData", "imageHeight", "imageWidth"}
    first = look.first.get("shapes", {}).keys()
    if "shapes" in look.keys and (image or "points" in first):
        return SURE, "it has shapes of one image, as in LabelMe"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys."""
    return sniff_json(source, _looks_like)


def read(source: Source, builder: Builder, log: Log, options: LabelmeOptions) -> None:
    """Read every .json file."""
    files = source.with_suffix(".json") if source.is_dir else [""]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("LabelMe JSON"), n=len(source.files))
    reader = Reader(source, builder, log, options, (source.path,) if source.is_dir else (), sized=True)
    places = dict(zip(files, image_places(source, files, reader.pictures), strict=True))
    for some, found in _RECORDS.read_all(reader, files):
        if isinstance(found, Table):
            _read_table(reader, {file: places[file] for file in some}, found)
        else:
            _read_image(reader, some[0], places[some[0]], found)
    reader.finish()


def _read_table(reader: Reader, files: Mapping[str, Place], table: Table) -> None:
    """Read files in which everything is as usual."""
    images, lists = _add_images(reader, files, table)
    shapes = table["shapes"]
    points: Points = shapes["points"]
    outline: list[str] = []
    if {*shapes["shape_type"]} != {"rectangle"}:
        kinds = zip(shapes["shape_type"], points.lists, strict=True)
        outline = [_OUTLINES.get(kind or ("polygon" if len(shape) > 2 else ""), "") for kind, shape in kinds]
    add_boxes(
        reader,
        shapes,
        shapes["label"],
        points.bounds,
        images,
        lists,
        outline=outlines(points, outline) if outline else (),
        score=shapes["score"],
        flags=np.array(shapes["flags"], np.int64) | np.array(shapes["difficult"], np.int64),
    )


def _add_images(
    reader: Reader, files: Mapping[str, Place], table: Table
) -> tuple[Sequence[int | None], Sequence[int]]:
    """Add the images of some files; the row of each, None without, and the number of its list of shapes."""
    columns: list[Any] = [table[key] for key in ("imagePath", "imageWidth", "imageHeight")]
    places = [At(reader.source.full(file)) for file in files]
    names, next_file = _usual_names(list(files.values()), columns[0]), reader.builder.n_files
    numbers = range(next_file, next_file + 2 * len(files), 2)
    rows = {"file": numbers, "line": [0] * len(files)}
    first = reader.usual_images(names, places, *columns[1:], **rows) if names else None
    if first is not None:
        reader.builder.add_files((at.path for at in places), "", "/shapes")
        return range(first, first + len(files)), [number + 1 for number in numbers]
    images: list[int | None] = []
    lists = []
    for place, at, path, *size in zip(files.values(), places, *columns, strict=True):
        name = _name(reader, place, path, at)
        images.append(None if name is None else _add_image(reader, name, at, *size))
        lists.append(-1 if images[-1] is None else reader.builder.file(at.path, "/shapes"))
    return images, lists


def _usual_names(places: Sequence[Place], paths: Sequence[str | None]) -> list[str]:
    """The names of images that lie beside their files and are called as these; empty if one does not."""
    names = []
    for (key, _, _), path in zip(places, paths, strict=True):
        base = key.rpartition("/")[2]
        if path is None or not path.startswith(base):
            return []
        suffix = path[len(base) :]
        if suffix.lower() not in PICTURE_SUFFIXES:
            return []
        names.append(key + suffix)
    return names


def _read_image(reader: Reader, file: str, place: Place, value: Any) -> None:
    at = At(reader.source.full(file))
    record = reader.mapping(value, at)
    if record is None:
        return
    if "shapes" not in record:
        reader.missing(at, "shapes")
        return
    reader.count_unread(record, _TOP)
    shapes = reader.items(record["shapes"], at / "shapes")
    name = _name(reader, place, record.get("imagePath"), at)
    if shapes is None or name is None:
        reader.builder.skipped += len(shapes or ())
        return
    image = _add_image(reader, name, at, record.get("imageWidth"), record.get("imageHeight"))
    if image is None:
        reader.builder.skipped += len(shapes)
        return
    here = at / "shapes"
    rows = reader.rows_of(here)
    for i, shape in enumerate(shapes):
        if not _read_shape(reader, shape, here / i, image, rows, i):
            reader.builder.skipped += 1


def _add_image(reader: Reader, name: str, at: At, width: Any, height: Any) -> int | None:
    """Add the image of a file; None, and an issue, if it cannot be."""
    size = reader.size(width, height, at, ("imageWidth", "imageHeight"))
    return reader.image(name, at, size=size, file=reader.builder.file(at.path))


def _name(reader: Reader, place: Place, path: Any, at: At) -> str | None:
    """The name of the image: the JSON file's own, with the extension of the picture at `path`."""
    if path is None or path == "":
        return with_extension(place.key, reader.pictures.find(place.picture, path=at.path))
    if not isinstance(path, str):
        reader.wrong(at / "imagePath", "text", path)
        return None
    said = below(path)
    if not accept_name(said, reader.log, at.path, warn=False, pointer="/imagePath", field="imagePath"):
        return None
    key = without_folder(place, path)
    said = said.rpartition("/")[2]
    base = key.rpartition("/")[2]
    if said == base:
        return key
    given = stem(said)
    name = key + said[len(given) :]
    if given != base:
        reader.log.report(
            FILE_NAME_DIFFERS,
            at.path,
            pointer="/imagePath",
            field="imagePath",
            where="imagePath",
            value=path,
            name=name,
        )
    return name


def _read_shape(reader: Reader, value: Any, at: At, image: int, rows: int, line: int) -> bool:
    """Read one shape; False, and an issue, if it cannot be a box."""
    shape = reader.mapping(value, at, row=True)
    if shape is None:
        return False
    kind = shape.get("shape_type")
    if kind is None:
        given = shape.get("points")
        kind = "rectangle" if isinstance(given, list) and len(given) == 2 else "polygon"
    if kind in _OPEN if isinstance(kind, str) else False:
        reader.count(f"{kind} shapes")
        return True
    if kind != "rectangle" and (not isinstance(kind, str) or kind not in _OUTLINES):
        if isinstance(kind, str):
            reader.log.report(
                UNKNOWN_SHAPE,
                at.path,
                pointer=f"{at.pointer}/shape_type",
                field="shape_type",
                value=kind,
                shapes="rectangle or polygon",
            )
        else:
            reader.wrong(at / "shape_type", "text", kind, row=True)
        return False
    if "label" not in shape:
        reader.missing(at, "label", row=True)
        return False
    category = reader.category(shape["label"], at / "label")
    if "points" not in shape:
        reader.missing(at, "points", row=True)
        return False
    points = reader.points(shape["points"], at / "points", 2)
    score = reader.score(shape.get("score"), at / "score")
    flags = _flags(reader, shape, at)
    if category is None or points is None or score is None or flags is None:
        return False
    reader.count_unread(shape, _SHAPE)
    corners: Corners
    if kind == "circle":
        (x, y), (x2, y2) = points[:2]
        radius = math.hypot(x2 - x, y2 - y)
        corners = x - radius, y - radius, x + radius, y + radius
    else:
        corners = bounds(points)
    if kind in _OUTLINES and not is_upright(points):
        reader.outline(_OUTLINES[kind], at)
    reader.box(image, category, corners, at, file=rows, line=line, score=score, flags=flags)
    return True


def _difficult(value: Any) -> int:
    return int(FLAG_NAMES["difficult"]) if is_set(value) else 0


def _usual_flags(given: Any) -> int | None:
    """The flags of a shape; None where one is not known."""
    if given and type(given) is not dict:
        return None
    names = [name for name, value in (given or {}).items() if is_set(value)]
    return sum(FLAG_NAMES[name] for name in names) if FLAG_NAMES.keys() >= {*names} else None


_RECORDS = Records(
    {
        "version": ANY,
        "flags": ANY,
        "shapes": Each(
            {
                "label": CLASS,
                "points": POINTS,
                "shape_type": Maybe(frozenset({"rectangle", "polygon", "rotation"})),
                "score": Maybe(NUMBER),
                "flags": Held(_usual_flags),
                "difficult": Held(_difficult),
                "group_id": ANY,
                "description": ANY,
                **dict.fromkeys(("mask", "attributes", "kie_linking", "direction"), COUNTED),
            }
        ),
        "imagePath": Maybe(TEXT),
        "imageData": ANY,
        "imageHeight": Maybe(INT),
        "imageWidth": Maybe(INT),
    }
)


def _flags(reader: Reader, shape: dict[str, Any], at: At) -> int | None:
    given = shape.get("flags")
    flags = _difficult(shape.get("difficult"))
    if not given:  # null, {} and the [] that some programs write
        return flags
    named = reader.mapping(given, at / "flags", row=True)
    if named is None:
        return None
    for name, value in named.items():
        if is_set(value):
            flag = FLAG_NAMES.get(name)
            if flag is None:
                reader.count("flags")
            else:
                flags |= flag
    return flags


def write(dataset: Dataset, target: Output, log: Log, options: LabelmeOptions) -> None:
    """Write one file per image."""
    del options
    images, boxes = dataset.images, dataset.boxes
    files = [f"{stem(name)}.json" for name in images.name]
    if not target.plan(files, images.name, log) or not may_write(dataset, log):
        return
    note_folders(dataset, log)
    names = sorted(FLAG_NAMES)
    rows = groups(dataset)
    for row, file in enumerate(log.track(files, "writing")):
        shapes = []
        for i in rows[row]:
            left, top, right, bottom = map(number, boxes.xyxy[i].tolist())
            shape: dict[str, Any] = {
                "label": dataset.categories.name[boxes.category[i]],
                "points": [[left, top], [right, bottom]],
                "group_id": None,
                "description": "",
                "shape_type": "rectangle",
                "flags": dict.fromkeys(flags_of(int(boxes.flags[i]), names), True),
                "mask": None,
            }
            if dataset.kind == "det":
                shape["score"] = number(float(boxes.score[i]))
            shapes.append(shape)
        record: dict[str, Any] = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imagePath": images.name[row].rpartition("/")[2],
            "imageData": None,
            "imageHeight": int(images.height[row]) or None,
            "imageWidth": int(images.width[row]) or None,
        }
        target.write(file, f"{dump(record, 2)}\n".encode())


FORMAT = Format(
    name="labelme",
    title="LabelMe JSON",
    use="annotation tools",
    written_by="labelme, AnyLabeling, X-AnyLabeling",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=LabelmeOptions,
    keeps=frozenset({"size", "extension", "empty", "score", *FLAG_NAMES}),
)
