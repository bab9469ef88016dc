"""Where the picture of each image of a data set lies, for a report."""

from __future__ import annotations

from collections.abc import Sequence

from odm.converters.validation import _finder
from odm.files import MAX_SIZE, Source
from odm.tables import PICTURE_SUFFIXES, Dataset


def locate(
    names: Sequence[str],
    datasets: Sequence[Dataset],
    folders: Sequence[str] = (),
    *,
    max_size: int = MAX_SIZE,
) -> list[tuple[str, int, int]]:
    """Path, width and height in pixels of each image; an empty path and 0 where they are not known.

    Parameters
    ----------
    names
        Of images, as in the data sets.
    datasets
        The first one that has an image of that name and knows its path or size is believed.
    folders
        Folders of pictures, where a data set does not know the path: the whole name, its last part, and both
        without extension are looked for.

    Raises
    ------
    PathError
        If a folder is missing.
    """
    sources = [Source(folder, follow_links=True, max_size=max_size) for folder in dict.fromkeys(folders)]
    finders = [(source, _finder(source.with_suffix(*PICTURE_SUFFIXES))) for source in sources]
    tables = [({name: row for row, name in enumerate(d.images.name)}, d.images) for d in datasets]
    found = []
    for name in names:
        path, width, height = "", 0, 0
        for rows, images in tables:
            row = rows.get(name)
            if row is None:
                continue
            path = path or images.path[row]
            if min(width, height) <= 0:
                width, height = int(images.width[row]), int(images.height[row])
        for source, find in finders:
            if path:
                break
            picture = find(name)
            path = "" if picture is None else source.full(picture)
        found.append((path, width, height))
    return found
