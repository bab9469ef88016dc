"""The file of ``--tags``: properties of images, such as weather or camera, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from odm.files import Unreadable, read_bytes
from odm.issues import Log, PathError, UsageError, printable, shorten
from odm.names import stem

Tags = dict[str, dict[str, list[str]]]
"""By the tag's name, for each image its values."""


def read_tags(path: str, images: Sequence[str], log: Log) -> Tags:
    """The values of every tag, by image.

    Each column but ``image`` is a tag; an image in several rows has several values. Images are named with or
    without extension; those that are not evaluated are counted in a note.

    Raises
    ------
    PathError
        If the file cannot be read as text.
    UsageError
        If it is no such table, or has none of the images.
    """
    name = printable(path)
    try:
        text = read_bytes(path).removeprefix(b"\xef\xbb\xbf").decode()
    except Unreadable as e:
        raise PathError(f"{name}: {e}") from None
    except UnicodeDecodeError:
        raise PathError(f"{name}: not UTF-8 text") from None
    stems: dict[str, list[str]] = {}
    for image in images:
        stems.setdefault(stem(image), []).append(image)
    reader = csv.reader(text.splitlines())
    header = next(reader, [])
    if "image" not in header or len(header) < 2 or len(set(header)) < len(header):
        raise UsageError(
            f"--tags {name}:1: expected a header with a column image and others, all different, found "
            f"{shorten(','.join(header))}"
        )
    at = header.index("image")
    known, unknown = set(images), 0
    tags: Tags = {tag: {} for tag in header if tag != "image"}
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise UsageError(
                f"--tags {name}:{reader.line_num}: expected {len(header)} columns, found {len(row)}"
            )
        image = row[at].strip()
        of_stem = stems.get(stem(image), [])
        found = image if image in known else of_stem[0] if len(of_stem) == 1 else None
        if found is None:
            unknown += 1
            continue
        for tag, value in zip(header, row, strict=True):
            values = tags[tag].setdefault(found, []) if tag != "image" else []
            if tag != "image" and value.strip() and value.strip() not in values:
                values.append(value.strip())
    if not any(tags.values()):
        raise UsageError(f"--tags {name}: none of its {unknown} images are evaluated")
    if unknown:
        log.note(f"--tags {name}: {unknown} rows refer to images that are not evaluated")
    return tags
