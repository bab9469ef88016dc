"""Render the changes between two versions of annotations: their document, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from odm.document import Column, Document, Items, Line, Section, Table, draw, format_csv
from odm.evaluate.analysis.diff import Differences
from odm.evaluate.analysis.pair_versions import OF_BOTH, WORDS, Change
from odm.issues import first_few, plural
from odm.tables import Images, Longs
from odm.terminal import cell, json_text

OUTPUTS = ("text", "json", "csv", "markdown")
IMAGES_SHOWN = 10
PAIRS_SHOWN = 10
NAMES_SHOWN = 5
COUNTS = tuple(WORDS[change] for change in OF_BOTH)
OF_WHOLE_IMAGES = (Change.IMAGE_ADDED, Change.IMAGE_REMOVED)
"""Changes of boxes whose image is only in one version: columns of classes, where there are some."""
RARE = (WORDS[Change.FLAGS], WORDS[Change.SHAPE])
"""Columns that are shown only where there is something in them."""
DROPPED = (RARE, ("relabelled",))
"""Columns that are left out where a table is too wide, in this order."""


def render_differences(differences: Differences, output: str = "text", *, width: int | None = 80) -> str:
    """Render the changes as text that ends with a newline.

    Parameters
    ----------
    output
        ``text``, ``json`` (the contract), ``csv`` (a row for each box that changed) or ``markdown``.
    width
        Of a table: how many characters a line may have; columns that do not fit are left out. None shows all.
    """
    if output == "json":
        return json_text(differences.to_dict()) + "\n"
    if output == "csv":
        return _format_changes_csv(differences)
    document = make_differences_document(differences)
    return draw(document, output, width)


def save_differences(differences: Differences, write: Callable[[str, bytes], object]) -> None:
    """Call `write` with the name and the content of each file."""
    write("diff.json", render_differences(differences, "json").encode())
    write("changes.csv", _format_changes_csv(differences).encode())
    for name, of in (
        ("classes.csv", differences.table("classes")),
        ("images.csv", differences.table("images")),
    ):
        write(name, format_csv(of.names, ([row[key] for key in of.names] for row in of)).encode())


def _format_changes_csv(differences: Differences) -> str:
    """Format a row for each box that changed as CSV."""
    columns = differences.columns()
    return format_csv(columns, zip(*columns.values(), strict=True))


def make_differences_document(differences: Differences) -> Document:
    """Make the document: counts, the classes, pairs of classes and images that changed, and the verdict."""
    counts = [WORDS[c] for c in OF_BOTH if WORDS[c] not in RARE or differences.count(c)]
    image_titles = {c: WORDS[c].replace("_", " ") for c in OF_WHOLE_IMAGES if differences.count(c)}
    classes = [
        {**row, **{title: row[WORDS[c]] for c, title in image_titles.items()}}
        for row in differences.class_rows()
        if row["old"] != row["new"] or any(row[word] for word in WORDS.values())
    ]
    pairs = [
        {"old class": p["old"], "new class": p["new"], "times": p["count"]}
        for p in differences.count_relabelled()
    ]
    images = [row for row in differences.image_rows() if any(row[key] for key in COUNTS)]
    document: Document = [
        [Line(_count_differences(differences))],
        [Items(_make_head(differences))],
        _make_table(classes, "class", ("old", "new", *counts, *image_titles.values())),
        _make_table(pairs[:PAIRS_SHOWN], "old class", ("new class", "times")),
    ]
    if (n_more := len(pairs) - PAIRS_SHOWN) > 0:
        document.append([Line(f"and {plural(n_more, 'other pair')} of classes")])
    document.append(_make_table(images[:IMAGES_SHOWN], "image", counts))
    if (n_more := len(images) - IMAGES_SHOWN) > 0:
        more_text = f"and {plural(n_more, 'other image')}"
        command_text = f"{more_text} (--save DIR or --output csv list all)"
        document.append([Line(command_text, python=f"{more_text} (.table('images') has all)")])
    return [*document, [Line(differences.verdict, "verdict")]]


def _make_table(rows: Sequence[Mapping[str, Any]], name: str, keys: Sequence[str]) -> Section:
    """Make a section of a table with a column for each key; empty if there are no rows."""
    columns = [Column(name, cell), *(Column(key, cell, left=key == "new class") for key in keys)]
    return [Table(columns, [[row[key] for key in (name, *keys)] for row in rows], DROPPED)] if rows else []


def _count_differences(differences: Differences) -> str:
    """Count the boxes and the images that differ, in a sentence."""
    n_changed, n_boxes = int(np.count_nonzero(differences.change)), len(differences.change)
    n_images = len(differences.added) + len(differences.removed) + int(differences.renamed.sum())
    n_images += len(differences.resized)
    parts = []
    if n_changed:
        parts.append(f"{n_changed:,} of {plural(n_boxes, 'box')} {'differs' if n_changed == 1 else 'differ'}")
    if n_images:
        parts.append(f"{plural(n_images, 'image')} added, removed, renamed or resized")
    return "; ".join(parts) or "nothing differs"


def _make_head(differences: Differences) -> list[str]:
    """Count images and boxes, and name the images that differ as a whole."""
    old, new, partner = differences.old.images, differences.new.images, differences.partner
    size_texts = [
        f"{plural(len(dataset.images), 'image')}, {plural(len(dataset), 'box')}"
        for dataset in (differences.old, differences.new)
    ]
    common_text = plural(int(np.count_nonzero(partner >= 0)), "image")
    unchanged_text = plural(int(np.count_nonzero(differences.change == 0)), "box")
    lines = [
        f"old: {size_texts[0]}; new: {size_texts[1]}",
        ", ".join([f"{common_text} in both: {unchanged_text} unchanged", *differences.change_counts]),
    ]

    if differences.count(Change.MOVED):
        shifts = differences.shift[(differences.change & Change.MOVED) > 0]
        lines.append(
            f"moved (the edge that moved most): {np.median(shifts):.3g} px in the median, "
            f"{shifts.max():.3g} px at most"
        )

    def format_size(images: Images, row: int) -> str:
        return f"{images.width[row]} x {images.height[row]}"

    def add_line(rows: Longs, change_text: str, format_name: Callable[[int], str]) -> None:
        """Add a line that counts images and names the first of them, if there are any."""
        if len(rows):
            names = first_few(rows.tolist(), NAMES_SHOWN, format_name)
            lines.append(f"{plural(len(rows), 'image')} {change_text}: {names}")

    n_added, n_removed = (differences.count(c) for c in (Change.IMAGE_ADDED, Change.IMAGE_REMOVED))
    add_line(differences.added, f"added, with {plural(n_added, 'box')}", lambda i: cell(new.name[i]))
    add_line(differences.removed, f"removed, with {plural(n_removed, 'box')}", lambda i: cell(old.name[i]))
    add_line(
        np.flatnonzero(differences.renamed),
        "renamed (a guess: the boxes are the same)",
        lambda i: f"{cell(old.name[partner[i]])} -> {cell(new.name[i])}",
    )
    add_line(
        differences.resized,
        "with another size",
        lambda i: f"{cell(new.name[i])} {format_size(old, partner[i])} -> {format_size(new, i)}",
    )
    return lines
