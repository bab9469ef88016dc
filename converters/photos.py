"""Where the picture of each image of a data set lies, for a report."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from odm.converters.validation import _finder
from odm.files import MAX_SIZE, Source
from odm.issues import Log
from odm.names import PICTURE_SUFFIXES
from odm.tables import Dataset


def locate(
    names: Sequence[str],
    datasets: Sequence[Dataset],
    folders: Sequence[str],
    log: Log,
    *,
    follow_links: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
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
    follow_links
        Whether a picture behind a link that leads out of its folder is taken; if not, it counts as missing.

    Raises
    ------
    PathError
        If a folder is missing.
    """
    sources = [
        Source(path, follow_links=follow_links, max_size=max_size, encoding=encoding)
        for path in dict.fromkeys(folders)
    ]
    finders = list(map(_lazy, sources))
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
        for find in finders:
            path = path or find(name)
        found.append((path, width, height))
    for source in sources:
        source.note_links(log)
    return found


def _lazy(source: Source) -> Callable[[str], str]:
    """Answers the path of a picture in a folder, which is listed at the first question only."""
    find = functools.cache(lambda: _finder(source.with_suffix(*PICTURE_SUFFIXES)))

    def path(name: str) -> str:
        picture = find()(name)
        return "" if picture is None or picture in source.picture_links else source.full(picture)

    return path
