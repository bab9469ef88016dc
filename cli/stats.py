"""``odm stats``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from odm.cli._common import FormatCommand, format_options, load_source, terminal_log
from odm.cli._messages import print_log
from odm.cli._options import TARGET, choice, common_options, option, source_options, switch, wide_option
from odm.cli._print import say, show, table_width
from odm.cli._report import pictures_of, report_options, report_target, write_report
from odm.converters.plots import save_plots
from odm.converters.statistics import Distribution, Group, Statistics, TrackCounts, describe
from odm.drawing import check_matplotlib
from odm.issues import printable
from odm.screen import cell, json_text, text_table
from odm.screen import markdown as escaped

EXAMPLES = """
\b
Examples:
  odm stats annotations.json
  odm stats labels/ --image-size 640x480 --output json
  odm stats detections/ --plots pictures/
  odm stats labels/ --images photos/ --report data.html
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("source", metavar="SRC", type=click.Path())
@source_options
@choice("--output", ["table", "json", "markdown"], "Output format.", default="table")
@wide_option
@option("--plots DIR", "Also draw plots as PNG and SVG (extra [plot]).", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --plots and --report.")
@format_options()
@common_options
def command(source: str, **given: Any) -> int:
    """Summarise SRC: objects and images per class, sizes of images and boxes, scores.

    Areas use COCO's ranges: small below 32 x 32 pixels, large from 96 x 96.
    """
    report_target(given, sources=(source,))
    log = terminal_log()
    files: tuple[str, ...] = ()
    try:
        if given["plots"] is not None:
            check_matplotlib()
        loaded, _ = load_source(source, given, log)
        statistics = describe(loaded.dataset)
        if given["plots"] is not None:
            files = save_plots(
                loaded.dataset,
                statistics,
                given["plots"],
                log,
                overwrite=given["overwrite"],
            )
    finally:
        print_log(log, given)
    if given["report"]:
        from odm.report import statistics_page

        pictures = pictures_of(loaded.dataset.images.name, [loaded.dataset], given)
        page = statistics_page(
            loaded.dataset,
            statistics.to_dict(),
            pictures,
            log=log,
            sources=(source,),
            title=given["report_title"],
            images=given["report_images"],
        )
        write_report(page, given, (source,))
    if files and not given["quiet"]:
        say(f"{len(files)} pictures written to {given['plots']}")
    if given["output"] == "json":
        head = {"path": printable(source), "format": loaded.format.name, "left_out": loaded.bad}
        show(json_text(head | statistics.to_dict()))
    else:
        show(render(statistics, given["output"], width=table_width(given)))
    return 0


MOST_SIZES = 10
"""How many image sizes a table lists; JSON has them all."""


def render(statistics: Statistics, output: str, *, width: int | None = None) -> str:
    """The tables as text or Markdown, ending with a new line."""
    s = statistics
    shapes: list[tuple[str, list[str], list[list[Any]]]] = [
        ("Boxes by area", ["area", "boxes", "share"], _by_area(s)),
        ("Boxes by width / height", ["aspect ratio", "boxes", "share"], _shares(s.aspects, s.aspect.n)),
    ]
    tables: list[tuple[str, list[str], list[list[Any]]]] = [
        ("", ["what", "number", ""], _contents(s)),
        ("", ["fractions" if s.relative else "pixels", "min", "median", "mean", "max"], _measures(s)),
        *(shapes if not s.relative else ()),
        ("Images by number of boxes", ["boxes", "images", "share"], _per_image(s)),
    ]
    if s.image_sizes:
        tables.append(("Images by size", ["width x height", "images", "share"], _by_size(s)))
    if s.scores:
        tables.append(("Boxes by score", ["score", "boxes", "share"], _shares(s.scores, s.score.n)))
    classes = ["class", "boxes", "share", "images", "small", "medium", "large"]
    columns = 4 if s.relative else len(classes)
    tables.append(("Classes", classes[:columns], [row[:columns] for row in _classes(s)]))
    markdown = output == "markdown"
    parts = (_table(title, rows, headers, markdown=markdown, width=width) for title, headers, rows in tables)
    return "\n\n".join(parts) + "\n"


def _contents(s: Statistics) -> list[list[Any]]:
    images = f"{s.images_without_boxes} without boxes, {s.images_without_size} without size"
    empty = sum(row.boxes == 0 for row in s.classes)
    return [
        ["images", s.images, images],
        ["classes", len(s.classes), f"{empty} without boxes"],
        ["boxes", s.boxes, "ground truth" if s.kind == "gt" else "detections"],
        *(["", n, f"marked {name.replace('_', ' ')}"] for name, n in s.flags.items()),
        *(["", n, f"images of the split {cell(name)}"] for name, n in s.splits.items()),
        *([] if s.tracks is None else _tracks(s.tracks)),
    ]


def _tracks(t: TrackCounts) -> list[list[Any]]:
    return [
        ["videos", t.videos, f"{t.frames} frames"],
        ["tracks", t.tracks, f"{t.one_frame} of one frame"],
        ["", t.boxes_without_track, "boxes without a track"],
    ]


def _by_area(s: Statistics) -> list[list[Any]]:
    return [
        [f"{name} ({bounds})", n, _share(n, s.boxes)]
        for (name, n), bounds in zip(s.areas.items(), _AREA_TEXTS, strict=True)
    ]


def _shares(groups: Sequence[Group], total: int) -> list[list[Any]]:
    return [[_bounds(group), group.n, _share(group.n, total)] for group in groups]


def _by_size(s: Statistics) -> list[list[Any]]:
    """Image sizes, the most frequent first, those after `MOST_SIZES` in one row."""
    rows: list[list[Any]] = [[f"{w} x {h}", n, _share(n, s.images)] for w, h, n in s.image_sizes[:MOST_SIZES]]
    rest = s.image_sizes[MOST_SIZES:]
    if rest:
        n = sum(row[2] for row in rest)
        rows.append([f"{len(rest)} other sizes", n, _share(n, s.images)])
    return rows


def _classes(s: Statistics) -> list[list[Any]]:
    return [
        [cell(c.name), c.boxes, _share(c.boxes, s.boxes), c.images, c.small, c.medium, c.large]
        for c in s.classes
    ]


_AREA_TEXTS = ("below 32 x 32", "32 x 32 to 96 x 96", "from 96 x 96")


def _table(
    title: str, rows: Sequence[Sequence[Any]], headers: Sequence[str], *, markdown: bool, width: int | None
) -> str:
    if not markdown:
        cells = [[str(value) for value in row] for row in rows]
        text = text_table(headers, cells, width=width, rule=False, left=("",))
        return f"{title}\n{text}" if title else text
    from tabulate import tabulate

    align = ["left", *("right" for _ in headers[1:])]
    if headers[-1] == "":
        align[-1] = "left"
    text = tabulate(
        [[escaped(str(value)) for value in row] for row in rows],
        headers,
        tablefmt="github",
        disable_numparse=True,
        colalign=align if rows else None,
    )
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return f"### {title}\n\n{text}" if title else text


def _measures(s: Statistics) -> list[list[Any]]:
    rows: list[tuple[str, Distribution]] = [
        ("image width", s.image_width),
        ("image height", s.image_height),
        ("boxes per image", s.boxes_per_image),
        ("box width", s.box_width),
        ("box height", s.box_height),
        ("box area", s.area),
        ("width / height", s.aspect),
    ]
    if s.scores:
        rows.append(("score", s.score))
    if s.tracks is not None:
        rows += [
            ("boxes per frame", s.tracks.boxes_per_frame),
            ("boxes per track", s.tracks.length),
            ("frames a track spans", s.tracks.span),
        ]
    return [[name, *map(_number, (d.min, d.median, d.mean, d.max))] for name, d in rows]


def _number(value: float | None) -> str:
    """A length or ratio for a table: two decimals, or more where it is small; never in exponent form."""
    if value is None:
        return "-"
    if value.is_integer():
        return str(int(value))
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"


def _share(n: int, total: int) -> str:
    return f"{100 * n / total:.2f} %" if total else "-"


def _bounds(group: Group) -> str:
    if group.lower is None:
        return f"below {group.upper:g}"
    if group.upper is None:
        return f"from {group.lower:g}"
    return f"{group.lower:g} to {group.upper:g}"


def _per_image(s: Statistics) -> list[list[Any]]:
    """Images by their number of boxes: each number while there are few, else ranges."""
    numbers = s.images_by_boxes
    if len(numbers) <= 12:
        return [[str(boxes), n, _share(n, s.images)] for boxes, n in numbers]
    rows: list[list[Any]] = []
    low = 0
    for high in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, numbers[-1][0]):
        n = sum(n for boxes, n in numbers if low <= boxes <= high)
        if n:
            rows.append([f"{low}" if low == high else f"{low} to {high}", n, _share(n, s.images)])
        low = max(low, high + 1)
    return rows
