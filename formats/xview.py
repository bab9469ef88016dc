"""xView: the objects of satellite images, in one GeoJSON file.

Specification: the data format of the xView challenge (https://xviewdataset.org)::

    {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {
        "image_id": "2355.tif", "type_id": 73, "bounds_imcoords": "10,20,110,220"}, "geometry": {...}}]}

``bounds_imcoords`` is left, top, right and bottom in pixels, as a text. The class is the number ``type_id``;
``odm convert --rename`` gives it a name. The geometry in longitude and latitude and other properties are
not read. Images without objects are not in the file, and neither are the sizes of images (``--images``,
``--image-size`` or ``--image-sizes`` give them).

This format is only read, because its objects have a place on the Earth.
"""

from __future__ import annotations

import contextlib

from odm.files import Source
from odm.formats._contract import SURE
from odm.formats._shared.json.items import BadRecord, Row, read_item
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.records import to_number
from odm.issues import Log
from odm.tables import Builder

_KEYS = declare_keys(
    "type features properties image_id type_id bounds_imcoords geometry* crs* id feature_id cat_id edited_by "
    "ingest_time index_right image_id_1 point_geom grid_file"
)
_SUFFIXES = (".geojson", ".json")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise a list of features by its key, and by bounds_imcoords in the first bytes."""
    if preview.keys.get("features") == "[" and b'"bounds_imcoords"' in head:
        return SURE, "it has features with bounds_imcoords, as xView has"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    images: dict[str, int | None] = {}
    for file in log.track(choose_files(source, looks_like, "xView", log, _SUFFIXES), "reading"):
        with contextlib.suppress(BadRecord):
            # The 0 is no image: `_read_feature` finds that of each row, and None would skip the rows.
            read_item(reader, file).rows("features").read(0, _read_feature, images)
    reader.finish()


def _read_feature(row: Row, image_of_name: dict[str, int | None]) -> None:
    """Add the box of a feature, and its image if it is the first; `image_of_name` are the images so far."""
    properties = row.object("properties")
    name = properties.text("image_id")
    if name not in image_of_name:
        image_of_name[name] = properties.image("image_id")
    properties.need("type_id")
    location = properties.location / "type_id"
    # Without a list of classes the number is the name.
    category = properties.category_number(properties.get("type_id"), location, classes={})
    bounds = properties.text("bounds_imcoords")
    # "10,20,110,220" becomes a list of numbers in place of the properties, for `ltrb` to read and check.
    properties.record = {"bounds_imcoords": [to_number(text) for text in bounds.split(",")]}
    corners, image = properties.ltrb("bounds_imcoords"), image_of_name[name]
    if image is None:
        row.mark_bad()
        return
    row.owner.image = image  # the rows of one list are of several images here; `add` takes the image from it
    row.add(category, corners)


FORMAT = json_format_of(
    __name__,
    title="xView GeoJSON",
    use="challenges",
    written_by="the xView challenge (xView_train.geojson)",
    suffixes=(".geojson",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("bounds_imcoords",),
    keeps=frozenset({"extension"}),
)
