"""The files of ``--tags``: properties of images, such as weather or camera, as CSV or as lists of images."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import basename, splitext

from odm.csv_text import QuoteFault, plain_lines, records
from odm.evaluate.analysis.slices import ImageSlice, slices_by_tags
from odm.files import Unreadable, read_bytes
from odm.issues import Log, PathError, UsageError, plural, printable, shorten
from odm.names import stem
from odm.tables import Dataset

Tags = dict[str, dict[str, list[str]]]
"""By the tag's name, for each image its values."""

LISTED = "listed"
"""The value of the images in a list."""


def slices_of(
    paths: Sequence[str], images: Sequence[str], truth: Dataset | None, log: Log
) -> list[ImageSlice]:
    """The parts of the images by the files of ``--tags``, and by the splits of the ground truth.

    Raises
    ------
    PathError, UsageError
        As `read_tags`, or if two files have a tag of the same name.
    """
    tags = _splits(images, truth)
    given: Tags = {}
    for path in paths:
        for tag, values in read_tags(path, images, log).items():
            if tag in given:
                raise UsageError(
                    f"--tags {printable(path)}: {shorten(tag)!r} is already a tag of another file"
                )
            given[tag] = values
    return slices_by_tags(images, tags | given)


def _splits(images: Sequence[str], truth: Dataset | None) -> Tags:
    if truth is None:
        return {}
    of = {name: split for name, split in zip(truth.images.name, truth.images.split, strict=True) if split}
    found = {image: [of[image]] for image in images if image in of}
    return {"split": found} if len({split for (split,) in found.values()}) > 1 else {}


def read_tags(path: str, images: Sequence[str], log: Log) -> Tags:
    """The values of every tag, by image.

    Each column but ``image`` is a tag; an image in several rows has several values. A file without such a
    column whose name does not end in ``.csv`` is a list with an image per line, and its name is the tag.
    Images are named with or without extension; those that are not evaluated are counted in a note.

    Raises
    ------
    PathError
        If the file cannot be read as text.
    UsageError
        If it is no such table, or has none of the images.
    """
    name = printable(path)
    try:
        text = read_bytes(path).decode()
    except Unreadable as e:
        raise PathError(f"{name}: {e}") from None
    except UnicodeDecodeError:
        raise PathError(f"{name}: not UTF-8 text") from None
    header, rows = _table(path, text)
    at = header.index("image")
    images_of = _Named(images)
    unknown = 0
    others = [i for i in range(len(header)) if i != at]
    tags: Tags = {header[i]: {} for i in others}
    for line, row in rows:
        if len(row) != len(header):
            raise UsageError(f"--tags {name}:{line}: expected {len(header)} columns, found {len(row)}")
        found = images_of.find(row[at].strip())
        if found is None:
            unknown += 1
            continue
        for i in others:
            value, values = row[i].strip(), tags[header[i]].setdefault(found, [])
            if value and value not in values:
                values.append(value)
    if not any(tags.values()):
        if not unknown:
            raise UsageError(f"--tags {name}: names no image")
        raise UsageError(f"--tags {name}: names no image that is evaluated ({plural(unknown, 'row')})")
    if unknown:
        what = plural(unknown, "row refers to an image that is", "rows refer to images that are")
        log.note(f"--tags {name}: {what} not evaluated")
    return tags


def _table(path: str, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with their lines; a list becomes a table of two columns."""
    text = plain_lines(text)
    first = next(records(text), None)
    if (first is None or "image" not in first[2]) and not path.lower().endswith(".csv"):
        lines = enumerate(text.split("\n"), 1)
        return ["image", splitext(basename(path))[0]], [
            (n, [line, LISTED]) for n, line in lines if line.strip()
        ]
    rows: list[tuple[int, list[str]]] = []
    for line, _, cells in records(text):
        if isinstance(cells, QuoteFault):
            at = f"{printable(path)}:{line + cells.lines}"
            raise UsageError(f"--tags {at}: expected cells of a CSV file, found {cells}")
        rows.append((line, cells))
    header = rows.pop(0)[1] if rows else []
    if "image" not in header or len(header) < 2 or len(set(header)) < len(header):
        raise UsageError(
            f"--tags {printable(path)}:1: expected a header with a column image and others, no two alike, "
            f"found {shorten(','.join(header))}"
        )
    return header, rows


class _Named:
    """Finds images by name: with or without extension, and with folders before it if nothing else fits."""

    def __init__(self, images: Sequence[str]) -> None:
        self.known = set(images)
        self.stems: dict[str, list[str]] = {}
        for image in images:
            self.stems.setdefault(stem(image), []).append(image)

    def find(self, name: str) -> str | None:
        for one in dict.fromkeys((name, basename(name))):
            of_stem = self.stems.get(stem(one), [])
            if one in self.known:
                return one
            if len(of_stem) == 1:
                return of_stem[0]
        return None
