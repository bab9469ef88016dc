"""``odm stats``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._flags import add_flags
from odm.cli._messages import print_log, print_notes
from odm.cli._records import MessageOptions, WideOptions
from odm.cli._report import say_written
from odm.cli._streams import get_table_width, say, show
from odm.converters import Loaded
from odm.converters.statistics import Distribution, Statistics, ValueRange
from odm.document import Column, Document, Line, Section, Table, draw
from odm.issues import printable
from odm.numbers import format_share, format_size
from odm.terminal import cell, json_text
from odm.verbs.options import OUTPUT, Options, option
from odm.verbs.reports import check_report
from odm.verbs.showing import StatsOptions, load_measured, measure, write_statistics_page
from odm.verbs.sources import get_dataset, list_paths

EXAMPLES = """
\b
Examples:
  odm stats annotations.json
  odm stats labels/ --image-size 640x480 --output json
  odm stats detections/ --plots pictures/
  odm stats labels/ --images photos/ --report data.html
"""


class OutputOptions(Options, heading=OUTPUT):
    """How the statistics are printed."""

    output: str = option("Output format.", default="table", choices=["table", "json", "markdown"])


class StatsCommand(
    OutputOptions,
    WideOptions,
    StatsOptions,
    MessageOptions,
    common="format images image_size output plots report",
):
    """The options of ``odm stats``."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("source", metavar="SRC", type=click.Path())
@add_flags(StatsCommand)
def command(options: StatsCommand) -> int:
    """Summarise SRC: objects and images per class, sizes of images and boxes, scores.

    Areas use COCO's ranges: small below 32 x 32 pixels, large from 96 x 96.
    """
    check_report(options.report, options, list_paths(options.source))
    log = make_terminal_log()
    try:
        loaded = load_measured(options, log)
        statistics, files = measure(get_dataset(loaded), options, log)
    finally:
        print_log(log, options)
    if options.report:
        notes = functools.partial(print_notes, options=options)
        say_written(write_statistics_page(get_dataset(loaded), statistics, options, log, notes), options)
    if files and not options.quiet:
        say(f"{len(files)} pictures written to {options.plots}")
    if options.output == "json":
        assert isinstance(loaded, Loaded)  # a command reads a path
        path = printable(str(options.source))
        head = {"path": path, "format": loaded.format.name, "left_out": loaded.bad}
        show(json_text(head | statistics.to_dict()))
    else:
        show(render(statistics, options.output, width=get_table_width(wide=options.wide)))
    return 0


MOST_SIZES = 10
"""How many image sizes a table lists; JSON has them all."""


Rows = list[list[Any]]


def render(statistics: Statistics, output: str, *, width: int | None = None) -> str:
    """Render the tables as text or Markdown, ending with a new line."""
    document = make_statistics_document(statistics)
    return draw(document, output, width)


def make_statistics_document(statistics: Statistics) -> Document:
    """Make the document: a table of counts, one of sizes, and those of images, boxes and classes."""
    s = statistics
    unit = "fractions" if s.relative else "pixels"
    document = [
        _make_section("", ["what", "number", ""], _list_contents(s)),
        _make_section("", [unit, "min", "median", "mean", "max"], _list_measures(s)),
    ]
    if not s.relative:
        areas = [f"{name} ({bounds})" for name, bounds in zip(s.areas, _AREA_TEXTS, strict=True)]
        by_area = zip(areas, s.areas.values(), strict=True)
        document.append(_make_shares("Boxes by area", ["area", "boxes"], by_area, s.boxes))
        title, headers = "Boxes by width / height", ["aspect ratio", "boxes"]
        document.append(_make_shares(title, headers, _format_ranges(s.aspects), s.aspect.n))
    by_boxes = _group_by_boxes(s)
    document.append(_make_shares("Images by number of boxes", ["boxes", "images"], by_boxes, s.images))
    if s.image_sizes:
        sizes = [(f"{w} x {h}", n) for w, h, n in s.image_sizes[:MOST_SIZES]]
        if other_sizes := s.image_sizes[MOST_SIZES:]:
            sizes.append((f"{len(other_sizes)} other sizes", sum(n for _, _, n in other_sizes)))
        document.append(_make_shares("Images by size", ["width x height", "images"], sizes, s.images))
    if s.shapes and s.shapes.points:
        points: Rows = [[p.category, cell(p.name), p.visible, p.hidden, p.objects] for p in s.shapes.points]
        headers = ["class", "keypoint", "visible", "hidden", "objects"]
        document.append(_make_section("Keypoints", headers, points))
    if s.scores:
        by_score = _format_ranges(s.scores)
        document.append(_make_shares("Boxes by score", ["score", "boxes"], by_score, s.score.n))
    classes = [
        [c.name, c.boxes, format_share(c.boxes, s.boxes), c.images, c.small, c.medium, c.large]
        for c in s.classes
    ]
    columns = 4 if s.relative else 7  # small, medium and large are areas in pixels
    headers = ["class", "boxes", "share", "images", "small", "medium", "large"]
    return [*document, _make_section("Classes", headers[:columns], [row[:columns] for row in classes])]


def _make_section(title: str, headers: Sequence[str], rows: Rows) -> Section:
    """Make a section of a heading and a table; a column without a title has notes."""
    columns = [Column(headers[0], cell), *(Column(header, left=not header) for header in headers[1:])]
    heading = [Line(title, "heading")] if title else []
    return [*heading, Table(columns, rows, rule=False)]


_AREA_TEXTS = ("below 32 x 32", "32 x 32 to 96 x 96", "from 96 x 96")


def _make_shares(
    title: str, headers: Sequence[str], groups: Iterable[tuple[str, int]], total: int
) -> Section:
    """Make a section of groups, each with its count and its share of the total."""
    return _make_section(
        title, [*headers, "share"], [[text, n, format_share(n, total)] for text, n in groups]
    )


def _list_contents(statistics: Statistics) -> Rows:
    """List the rows of the table of counts: a noun, the number, and a note."""
    images = f"{statistics.images_without_boxes} without boxes, {statistics.images_without_size} without size"
    n_empty_classes = sum(row.boxes == 0 for row in statistics.classes)
    rows: Rows = [
        ["images", statistics.images, images],
        ["classes", len(statistics.classes), f"{n_empty_classes} without boxes"],
        ["boxes", statistics.boxes, "ground truth" if statistics.kind == "gt" else "detections"],
        *(["", n, f"marked {name.replace('_', ' ')}"] for name, n in statistics.flags.items()),
        *(["", n, f"images of the split {cell(name)}"] for name, n in statistics.splits.items()),
    ]
    if tracks := statistics.tracks:
        rows += [
            ["videos", tracks.videos, f"{tracks.frames} frames"],
            ["tracks", tracks.tracks, f"{tracks.one_frame} of one frame"],
            ["", tracks.boxes_without_track, "boxes without a track"],
        ]
    if shapes := statistics.shapes:
        outlines = f"boxes with outlines, {shapes.several} with several; {shapes.corners} corners"
        counts = {
            outlines: shapes.outlined,
            "boxes with a mask": shapes.masks,
            "oriented boxes": shapes.oriented,
            "boxes with keypoints": shapes.with_points,
        }
        noun_counts = [(n, noun) for noun, n in counts.items() if n]
        rows += [["shapes" if i == 0 else "", *row] for i, row in enumerate(noun_counts)]
    return rows


def _list_measures(statistics: Statistics) -> Rows:
    """List the rows of the table of sizes: a name, and the smallest, median, mean and largest value."""
    rows: list[tuple[str, Distribution]] = [
        ("image width", statistics.image_width),
        ("image height", statistics.image_height),
        ("boxes per image", statistics.boxes_per_image),
        ("box width", statistics.box_width),
        ("box height", statistics.box_height),
        ("box area", statistics.area),
        ("width / height", statistics.aspect),
    ]
    if statistics.scores:
        rows.append(("score", statistics.score))
    if statistics.tracks is not None:
        rows += [
            ("boxes per frame", statistics.tracks.boxes_per_frame),
            ("boxes per track", statistics.tracks.length),
            ("frames a track spans", statistics.tracks.span),
        ]
    return [[name, *map(format_size, (d.min, d.median, d.mean, d.max))] for name, d in rows]


def _format_ranges(groups: Iterable[ValueRange]) -> Iterator[tuple[str, int]]:
    """Yield each range of values in words, such as ``below 0.5``, and how many values are in it."""
    for group in groups:
        if group.lower is None:
            yield f"below {group.upper:g}", group.n
        elif group.upper is None:
            yield f"from {group.lower:g}", group.n
        else:
            yield f"{group.lower:g} to {group.upper:g}", group.n


def _group_by_boxes(s: Statistics) -> Iterator[tuple[str, int]]:
    """Yield numbers of boxes and how many images have them: each number if there are few, else ranges."""
    numbers = s.images_by_boxes  # (number of boxes, images), ascending
    if len(numbers) <= 12:
        yield from ((str(boxes), n) for boxes, n in numbers)
        return
    # The ranges: 0, 1, 2, 3 to 5, 6 to 10, ..., 501 to 1000, 1001 to the highest number.
    lower, (highest, _) = 0, numbers[-1]
    for high in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, highest):
        if n := sum(n for boxes, n in numbers if lower <= boxes <= high):
            yield (f"{lower}" if lower == high else f"{lower} to {high}"), n
        lower = max(lower, high + 1)  # the last, `highest`, may be below 1000
