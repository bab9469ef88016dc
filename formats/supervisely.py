"""Supervisely: a project of datasets, one JSON file per image.

Specification: "Supervisely annotation format" in the developer documentation
(https://developer.supervisely.com/getting-started/supervisely-annotation-format)::

    meta.json
        {"classes": [{"title": "person", "shape": "rectangle", "color": "#FF0000"}], "tags": []}
    <dataset>/img/a.jpg
    <dataset>/ann/a.jpg.json
        {"description": "", "tags": [], "size": {"height": 480, "width": 640},
         "objects": [{"classTitle": "person", "geometryType": "rectangle",
                      "tags": [{"name": "occluded", "value": null}],
                      "points": {"exterior": [[10, 20], [110, 220]], "interior": []}}]}

The points of a rectangle are two opposite corners in any order, in pixels from the top left corner of the
image, read and written unchanged. A polygon is an outline, its holes joined to it by lines of no width; a
``bitmap`` is a mask, an ``oriented_bbox`` an oriented box, and the nodes of a ``graph`` are keypoints. Where
only boxes are needed, these are counted and read as their bounding boxes, with a warning or a note. Lines,
points, cuboids and the like are counted but not read. Without a ``geometryType``, as in old
files, the shape of the class in ``meta.json`` applies; without that, two points are a rectangle and more a
polygon. A null list is read as empty.

Polygons and masks of one class and ``instance``, the key that binds objects, are the parts of one object, and
a rectangle bound to them that goes around them is its box, with a note; ``-O groups=ignore`` reads them one
by one.

The image is named after the annotation file without its ``.json``, below its ``ann`` folder. The dataset's
folder is the split of its images, except for ``ds0``, ``ds``, ``dataset`` and similar names. A folder with
only annotation files, or a single such file, is read as well. A size that is missing or 0 is taken from the
picture in ``img``, or from ``--images``, ``--image-size``, ``--image-sizes``.

Flags are tags of an object: ``difficult``, ``crowd``, ``truncated``, ``occluded``, ``group_of``,
``depiction`` and ``inside``, without a value or with a value of true. The value of a tag ``confidence`` or
``score`` is the score of a detection. If only some objects have one, they are read as ground truth without
the scores, with a warning. ``--kind`` overrides this.

Writing: a project whose dataset is ``ds0``, or one dataset for each split; colours are derived from the
order of the classes.
"""

from __future__ import annotations

import base64
import colorsys
import contextlib
import functools
import re
import zlib
from collections.abc import Sequence
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.gather import NAN, Corners, find_folders
from odm.formats._shared.image_names import Place, name_images
from odm.formats._shared.json.items import BadRecord, Box, Image, Item, Row, read_item
from odm.formats._shared.json.preview import JsonPreview, check_head
from odm.formats._shared.json.values import (
    FLAG_NAMES,
    Reader,
    check_classes,
    choose_files,
    dump,
    find_bounds,
    is_set,
)
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.box_shapes import join_rings, rotate_box
from odm.formats._shared.shapes.groups import GroupSplitOptions
from odm.formats._shared.shapes.pixel_masks import decode_png, encode_png, unpack
from odm.formats._shared.shapes.written_groups import iter_group_images
from odm.formats._shared.split_names import select_split
from odm.issues import Log, Trusted, printable
from odm.names import stem
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "description tags name value size height width objects id classId classTitle geometryType "
    "labelerLogin createdAt updatedAt points exterior interior bitmap data origin nodes{} loc disabled "
    "angle classes title shape color geometry_config* hotkey tagId value_type projectType instance"
)
_SHAPES = frozenset({"rectangle", "polygon"})
_DRAWN = frozenset({"bitmap", "oriented_bbox", "graph"})
"""Kinds that are read only if shapes are wanted."""
_SCORES = ("confidence", "score")
_WHOLE = re.compile(r"ds[ _-]?[0-9]*|data[ _-]?set[ _-]?[0-9]*|", re.IGNORECASE)
"""Names of datasets that name no split, as they stand for the whole."""


def _looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise the annotation of one image by its keys and how values begin, or the first object's keys."""
    first_object = preview.first.get("objects", {})
    # "n" begins null, which is read as an empty list.
    if preview.top == "{" and preview.keys.get("objects") in ("[", "n") and preview.keys.get("size") == "{":
        return SURE, "it has objects and the size of one image, as in Supervisely"
    if preview.top == "{" and first_object.keys() & {"classTitle", "geometryType"}:
        return SURE, "its objects have a classTitle, as in Supervisely"
    return None


def _list_annotation_files(source: Source) -> list[str]:
    """The annotation files of a folder: those below ``ann``, or else all but the files about the project."""
    files = source.with_suffix(".json")
    in_ann = [f for f in files if "ann" in f.split("/")[:-1]]
    other_files = {"meta.json", "obj_class_to_machine_color.json", "key_id_map.json"}
    return in_ann or [f for f in files if f.rpartition("/")[2] not in other_files]


def sniff(source: Source) -> Sniff | None:
    """Recognise annotation files by their keys; in a folder one of the first 20 must have them."""
    if not source.is_dir:
        head_answer = check_head(source.head(), _looks_like)
        return Sniff(*head_answer) if head_answer else None
    files = _list_annotation_files(source)
    for file in files[:20]:
        if answer := check_head(source.head(file), _looks_like):
            confidence, reason = answer
            return Sniff(confidence, f"of {printable(file)} and {len(files) - 1} more: {reason}")
    return None


def read(source: Source, builder: Builder, log: Log, options: GroupSplitOptions) -> None:
    """Read the classes in meta.json, and the annotation files of all datasets of a project, or others."""
    files = _list_annotation_files(source) if source.is_dir else [""]
    if files and source.is_dir and not any(map(_is_in_dataset, files)):
        keys = frozenset({"objects", "size"})
        files = choose_files(source, _looks_like, "Supervisely JSON", log, unique_keys=keys, among=files)
    elif not files and not source.with_suffix("meta.json"):  # a project may have no image yet
        expected = Trusted("an annotation of Supervisely")
        log.report(NO_FILES, source.path, expected=expected, n=len(source.files))
    dataset_folders = dict.fromkeys(_find_dataset_folder(file) for file in files if _is_in_dataset(file))
    # A dataset that is the source itself has the folder "", and its pictures are in "img".
    folders = tuple(source.full(f"{folder}/img".lstrip("/")) for folder in dataset_folders)
    folders = folders or find_folders(source)
    reader = Reader(source, builder, log, options, folders, sized=True, keys=_KEYS)  # files state sizes
    shapes = _read_classes(reader) if source.is_dir else {}
    has_several = len({_find_dataset_folder(file) for file in files}) > 1
    split_of = functools.partial(_split_of, has_several=has_several)
    files = select_split(files, split_of, options.split, source, log)
    places = _find_places(reader, files)
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            _read_image(read_item(reader, file), places[file], split_of(file), shapes)
    reader.finish(field="tags")


def _read_classes(reader: Reader) -> dict[str, str]:
    """Add the classes in files called meta.json; return by class the kind of objects that state none."""
    shapes = {}
    for file in reader.source.with_suffix("meta.json"):
        if file.rpartition("/")[2] != "meta.json":
            continue
        with contextlib.suppress(BadRecord):
            for entry in read_item(reader, file).items("classes"):
                with contextlib.suppress(BadRecord):
                    name = entry.text("title")
                    if reader.category(name, entry.location / "title", listed=True) is not None:
                        shape = entry.get("shape")
                        shapes[name] = shape if isinstance(shape, str) else ""
    return shapes


def _find_places(reader: Reader, files: Sequence[str]) -> dict[str, Place]:
    """The place of the image of each file; in a dataset it has the name of the file below ``ann``."""
    places = dict(zip(files, name_images(reader.source, files, reader.pictures), strict=True))
    for file in files:
        if _is_in_dataset(file):
            folder = _find_dataset_folder(file)
            key = re.sub(r"\.json\Z", "", file[len(f"{folder}/ann/".lstrip("/")) :], flags=re.IGNORECASE)
            places[file] = Place(key=key, root=folder, picture=key)
    return places


def _is_in_dataset(file: str) -> bool:
    """Whether a file lies in the folder ``ann`` of a dataset."""
    return "/ann/" in f"/{file}"


def _find_dataset_folder(file: str) -> str:
    """The folder of the dataset that an annotation file belongs to: that above ``ann``, ``""`` without."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: parts.index("ann")]) if "ann" in parts else ""


def _split_of(file: str, *, has_several: bool) -> str:
    """The split that the name of a dataset states. Of several datasets every name is that of a split."""
    dataset_name = _find_dataset_folder(file).rpartition("/")[2]
    return dataset_name if has_several or not _WHOLE.fullmatch(dataset_name) else ""


def _read_image(record: Item, image_place: Place, split: str, shapes: dict[str, str]) -> None:
    """Add the image of a file and its objects; `shapes` are the kinds of objects by class, from meta.json."""
    record.need("objects")
    if record.get("tags"):
        record.reader.count("tags of images")
    objects = record.rows("objects")
    size = record.object("size", optional=True).size("width", "height")
    name, picture, pictures = image_place.key, None, record.reader.pictures
    if pictures:
        picture = pictures.find_exact(name)
        picture = picture or pictures.find(stem(image_place.picture), path=record.location.path)
        if picture and stem(name) == name:  # a.json instead of a.jpg.json: the suffix is that of the picture
            name += picture.name[len(stem(picture.name)) :]
    objects.read(record.image_named(name, size=size, picture=picture, split=split), _read_object, shapes)


def _read_object(record: Row, shapes: dict[str, str]) -> None:
    """Add an object with its tags, or count it if its kind is not read."""
    name = record.text("classTitle")
    kind = record.get("geometryType") or shapes.get(name)
    is_drawn = isinstance(kind, str) and kind in _DRAWN
    # A class of "any" kind, or of none, leaves the kind of its objects to their points.
    if isinstance(kind, str) and kind not in _SHAPES and kind not in ("any", "") and not is_drawn:
        record.reader.count(f"{kind} objects")
        return
    category = record.category("classTitle")
    corners = _read_drawn(record, str(kind)) if is_drawn else _read_points(record, kind)
    score, flags = NAN, 0
    for tag in record.items("tags", text_key="name"):  # old files have only the names
        name, value = tag.text("name"), tag.get("value")
        if name in _SCORES:
            score = tag.score("value", as_text=True)
        elif name not in FLAG_NAMES:
            record.reader.count(f"the tag {name}")
        elif value is None or is_set(value):
            flags |= FLAG_NAMES[name]
    is_rectangle = kind == "rectangle"
    if not (is_rectangle or is_drawn or kind == "polygon"):  # old files state no kind
        is_rectangle = len(record.object("points").array("exterior")) == 2
    # In a group polygons and masks are parts of an object and a rectangle is its box; None for other shapes.
    is_part = None if kind in ("oriented_bbox", "graph") else not is_rectangle
    record.add(category, corners, score=score, flags=flags, group=record.group("instance"), is_part=is_part)


def _read_points(record: Row, kind: Any) -> Corners:
    """Give an object its polygon, if it is no rectangle; return the corners of the box around it."""
    points_item = record.object("points")
    points = points_item.points("exterior", n_min=2)
    if kind != "polygon" and len(points) == 2:
        return find_bounds(points)
    holes = points_item.array("interior") if points_item.get("interior") else []
    if not record.wants or not holes:
        if holes and not record.is_bad:
            record.reader.count("holes")
        return record.draw_around(points, "polygons")
    location = points_item.location / "interior"
    # The holes as an object with the keys 0, 1, ..., so that `points` checks each and tells its place.
    hole_item = Item(record.reader, dict(enumerate(holes)), location, record.origin, row=record)
    rings = [hole_item.points(key, n_min=3) for key in range(len(holes))]  # type: ignore[arg-type]
    record.draw("polygons", join_rings([points, *rings]), counted_as="polygons")
    return find_bounds(points)


def _read_drawn(record: Row, kind: str) -> Corners:
    """Give an object its mask, oriented box or keypoints; return the corners of the box around."""
    if kind == "bitmap":
        bitmap = record.object("bitmap")
        left, top = bitmap.number_list("origin", 2, "2 numbers, left and top")
        width, height = record.paint(bitmap, "data", _decode_pixels, left, top)
        return left, top, left + width, top + height
    if kind == "oriented_bbox":
        (x, y), (x2, y2) = record.object("points").points("exterior", n_min=2)[:2]
        turn = record.number("angle", 0.0)  # radians, of the rectangle between these two corners
        return record.draw_oriented(rotate_box(min(x, x2), min(y, y2), abs(x2 - x), abs(y2 - y), turn))
    nodes = [node for _, node in record.object("nodes").objects()]
    points = [  # x, y and 1 for hidden or 2 for visible
        [*node.number_list("loc", 2, "2 numbers, x and y"), 1 if node.get("disabled") else 2]
        for node in nodes
    ]
    if not points:
        record.report_wrong("nodes", "keypoints")
        raise BadRecord
    return record.set_only_keypoints(points)


def _decode_pixels(text: Any) -> Any:
    """The (height, width) pixels of a PNG in base64, packed by zlib or not."""
    data = unpack(text)
    return decode_png(data if data.startswith(b"\x89PNG") else unpack(text, packed=True))


def write(dataset: Dataset, target: Output, log: Log, _: GroupSplitOptions) -> None:
    """Write a project without its pictures: meta.json, and a file per image in a folder for its split."""
    images, classes = dataset.images, dataset.categories.name
    is_split = any(images.split)
    folders = [(split or "unsplit") if is_split else "ds0" for split in images.split]
    files = [f"{folder}/ann/{name}.json" for folder, name in zip(folders, images.name, strict=True)]
    is_writable = target.plan(["meta.json", *files], ["the project", *images.name], log)
    if not check_classes(dataset, log) or not is_writable:
        return
    # The text of each file, the names of all tags, and the kinds of shapes of each class.
    flag_names, tag_names = sorted(FLAG_NAMES), set[str]()
    texts = []
    kinds: dict[str, set[str]] = {}
    for image in iter_group_images(dataset, group_min=1):  # group 0 is none
        objects = []
        for box in image.boxes:
            flags = box.list_flags(flag_names)
            tags: list[dict[str, Any]] = [{"name": flag, "value": None} for flag in flags]
            if box.score is not None:
                tags.append({"name": "confidence", "value": box.score})
            tag_names.update(tag["name"] for tag in tags)
            kind, geometry = _format_shape(box, image)
            kinds.setdefault(box.label, set()).add(kind)
            common_fields = {"description": "", "geometryType": kind, "tags": tags}
            if box.group > 0:
                common_fields["instance"] = str(box.group)
            objects.append({**common_fields, "classTitle": box.label, **geometry})
        size = {"height": image.height, "width": image.width}
        record = {"description": "", "tags": [], "size": size, "objects": objects}
        texts.append(f"{dump(record, indent=1)}\n")
    meta = _describe_project(classes, kinds, sorted(tag_names))
    target.write("meta.json", f"{dump(meta, indent=1)}\n".encode())
    for file, text in zip(log.track(files, "writing"), texts, strict=True):
        target.write(file, text.encode())


def _describe_project(
    classes: Sequence[str], kinds: dict[str, set[str]], tag_names: list[str]
) -> dict[str, Any]:
    """The content of meta.json; `kinds` are those of the shapes of each class that has objects."""
    # A class with objects of several kinds has the shape "any".
    shapes = {name: kind if not others else "any" for name, (kind, *others) in kinds.items()}
    types = dict.fromkeys(_SCORES, "any_number")
    class_entries = [
        {
            "title": name,
            "shape": shapes.get(name, "rectangle"),
            "color": _make_colour(i, len(classes)),
            "geometry_config": {},
        }
        for i, name in enumerate(classes)
    ]
    tag_entries = [
        {"name": name, "value_type": types.get(name, "none"), "color": _make_colour(i, len(tag_names))}
        for i, name in enumerate(tag_names)
    ]
    return {"classes": class_entries, "tags": tag_entries, "projectType": "images"}


def _format_shape(box: Box, image: Image) -> tuple[str, dict[str, Any]]:
    """The kind of the shape of an object, and the fields that hold its points or its mask."""
    if (left_top_pixels := box.pixels(image)) is not None:
        left, top, pixels = left_top_pixels
        # A PNG, packed by zlib once more.
        data = base64.b64encode(zlib.compress(base64.b64decode(encode_png(pixels)))).decode()
        return "bitmap", {"bitmap": {"data": data, "origin": [left, top]}}
    outline = next(iter(box.outlines), [box.xyxy[:2], box.xyxy[2:]])
    kind = "polygon" if box.outlines else "rectangle"
    return kind, {"points": {"exterior": outline, "interior": []}}


def _make_colour(index: int, n_colours: int) -> str:
    """One of `n_colours` colours of different hues, as ``#RRGGBB``."""
    red, green, blue = colorsys.hsv_to_rgb(index / max(n_colours, 1), 0.8, 0.9)
    return f"#{round(red * 255):02X}{round(green * 255):02X}{round(blue * 255):02X}"


FORMAT = format_of(
    __name__,
    title="Supervisely project",
    expects=("size", "objects", "points"),
    use="annotation tools",
    written_by="Supervisely project (ann/ with meta.json)",
    suffixes=(".json",),
    begins="[{",
    holds=("objects",),
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "split", *FLAG_NAMES})
    | {"polygon", "parts", "mask", "group"},
    shape_is_box=True,
)
