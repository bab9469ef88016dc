"""HTML of values in a notebook: one function makes every element, and escapes whatever is in it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from odm.document import Document, Items, Line, Part, Section, Table, Verbatim
from odm.issues import plural, printable
from odm.tables import Floats

STYLE = """
.odm-view{font:13px/1.5 system-ui,sans-serif;max-width:62rem}
.odm-view p{margin:.3em 0}.odm-view .dim{opacity:.72}
.odm-view .doubt{border-left:3px solid #d08700;padding-left:.6em}
.odm-view table{border-collapse:collapse;margin:.5em 0;font-variant-numeric:tabular-nums;background:none}
.odm-view td,.odm-view th{padding:.1em .8em .1em 0;text-align:right;border-bottom:1px solid #8884;
background:none}
.odm-view td{white-space:nowrap}.odm-view td.text{white-space:normal}
.odm-view th{font-weight:600;vertical-align:bottom}.odm-view td.text,.odm-view th.text{text-align:left}
.odm-view .row{display:flex;flex-wrap:wrap;gap:1.2em;align-items:flex-start}
.odm-view figure{margin:0}.odm-view .pictures{flex:1 1 21rem}
.odm-view .name{display:inline-block;margin-right:.5em}
.odm-view figcaption{font-size:12px;opacity:.8;max-width:16rem;overflow-wrap:anywhere}
.odm-view pre{font:12px/1.4 ui-monospace,monospace}
.odm-view svg{display:block}.odm-view svg text{fill:currentColor;font:10px system-ui,sans-serif}
"""
COLOURS = ("#4c8dd6", "#e0742b", "#3fa45b", "#c2508e", "#8d6fd1", "#b8942a")
"""Of curves and boxes; each can be seen on white and on black."""
ROWS = 20
"""At most so many rows of a table are shown."""
BETTER, WORSE, EVEN = "#3fa45b", "#d65a4c", "#8a8a8a"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Html:
    """Make an element. Children that are no `Html`, and the values of all attributes, are escaped.

    The attribute ``class_`` is ``class``, and underscores are hyphens.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(c if isinstance(c, Html) else html.escape(printable(str(c))) for c in children)
    return Html(f"<{name}{pairs}>{inner}</{name}>")


def joined(parts: Iterable[Html]) -> Html:
    """Elements one after the other."""
    return Html("".join(parts))


def view(*parts: Html) -> Html:
    """Put elements together as a notebook shows them: with the style of all views."""
    return element("div", element("style", Html(STYLE)), *parts, class_="odm-view")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, text: int = 1) -> Html:
    """A table whose first columns, so many as `text`, are texts and the others numbers."""

    def cells(name: str, row: Sequence[object]) -> Html:
        return element(
            "tr", *(element(name, c, class_="text" if i < text else None) for i, c in enumerate(row))
        )

    head = element("thead", cells("th", headers))
    return element("table", head, element("tbody", *(cells("td", row) for row in rows)))


def table_of(part: Table, *, more: str = "") -> Html:
    """Draw the first rows of a table of a document; `more` is where all are."""
    texts = 1 + len(part.left)
    first = table(part.titles, part.cells[:ROWS], text=texts)
    n_hidden = len(part.rows) - ROWS
    note = f"{plural(n_hidden, 'more row')}{more}"
    return joined([first, element("p", note, class_="dim")]) if n_hidden > 0 else first


def document_parts(document: Document) -> list[Html]:
    """Draw a document: its verdict first, then each section."""
    parts = [part for section in document for part in section]
    return [
        _part(part) for part in sorted(parts, key=lambda p: not (isinstance(p, Line) and p.role == "verdict"))
    ]


def folded(section: Section) -> Html:
    """Draw a section folded behind its title."""
    title, *rest = section
    text = title.text if isinstance(title, Line) else ""
    return element("details", element("summary", text), *document_parts([rest]))


def _part(part: Part) -> Html:
    """Draw one part of a document; a line in the words for Python, if it has such."""
    if isinstance(part, Table):
        return table_of(part)
    if isinstance(part, Verbatim):
        return element("pre", "\n".join(part.lines))
    if isinstance(part, Items):
        return joined(element("p", line) for line in (part.title, *part.lines) if line)
    text = part.text if part.python is None else part.python
    return element("p", element("b", text) if part.role else text) if text else Html()


def svg(width: float, height: float, *parts: Html, label: str, **attributes: object) -> Html:
    """A drawing, in pixels; `label` is for those who do not see it."""
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    return element("svg", *parts, **size, role="img", aria_label=label, **attributes)


def line(points: Iterable[Sequence[float]], colour: str, **attributes: object) -> Html:
    """A line through points."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=text, fill="none", stroke=colour, **attributes)


def curves(series: Sequence[tuple[str, Floats, Floats]], labels: tuple[str, str]) -> Html:
    """Lines over 0..1 in both directions: a name, x and y of each, with the names of the axes."""
    side, left, top = 190.0, 40.0, 8.0
    parts = [
        element("rect", x=left, y=top, width=side, height=side, fill="none", stroke="#8888"),
        *(
            element("text", f"{share:g}", x=left - 5, y=top + side * (1 - share) + 3, text_anchor="end")
            for share in (0, 0.5, 1)
        ),
        *(
            element("text", f"{share:g}", x=left + side * share, y=top + side + 13, text_anchor="middle")
            for share in (0, 0.5, 1)
        ),
        element("text", labels[0], x=left + side / 2, y=top + side + 26, text_anchor="middle"),
        element(
            "text",
            labels[1],
            x=9,
            y=top + side / 2,
            text_anchor="middle",
            transform=f"rotate(-90 9 {top + side / 2})",
        ),
    ]
    for i, (name, x, y) in enumerate(series):
        shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), 150)).astype(int))
        points = zip(left + side * x[shown], top + side * (1 - y[shown]), strict=True)
        stroke = line(points, COLOURS[i % len(COLOURS)], stroke_width=1.6)
        parts.append(element("g", element("title", name), stroke))
    label = f"{labels[1]} over {labels[0]}"
    return svg(left + side + 12, top + side + 32, *parts, label=label)


def interval_bar(low: float, high: float, at: float, reach: float, colour: str) -> Html:
    """Draw the interval `low` to `high` with a mark `at`, over an axis from -`reach` to `reach`."""
    width, height = 150.0, 14.0

    def x(value: float) -> float:
        return width / 2 * (1 + 0.96 * max(-1.0, min(1.0, value / reach)))

    middle = height / 2
    parts = [
        line([(width / 2, 1), (width / 2, height - 1)], "#8888"),
        line([(x(low), middle), (x(high), middle)], colour, stroke_width=4, stroke_linecap="round"),
        element("circle", cx=f"{x(at):.1f}", cy=middle, r=3.2, fill=colour),
    ]
    return svg(width, height, *parts, label=f"{at:+.4f}, {low:+.4f} to {high:+.4f}")


def share_bar(share: float) -> Html:
    """A bar that fills a part of its room."""
    width, height = 90.0, 8.0
    parts = [
        element("rect", x=0, y=0, width=width, height=height, fill="#8883"),
        element("rect", x=0, y=0, width=f"{width * share:.1f}", height=height, fill=COLOURS[0]),
    ]
    return svg(width, height, *parts, label=f"{100 * share:.1f} %")


def boxes_drawn(jpeg: str, size: tuple[int, int], boxes: Iterable[Sequence[Any]], width: float) -> Html:
    """Draw a picture (JPEG in base64) and boxes over it, `width` pixels wide.

    `size` is the width and height of the image; each box has corners in pixels, a name, and a number that
    chooses its colour.
    """
    scale = width / max(size[0], 1)
    height = size[1] * scale
    parts = [element("rect", x=0, y=0, width=f"{width:g}", height=f"{height:g}", fill="#8882")]
    if jpeg:
        data = f"data:image/jpeg;base64,{jpeg}"
        parts.append(element("image", href=data, width=f"{width:g}", height=f"{height:g}"))
    for (left, top, right, bottom), name, number in boxes:
        parts.append(
            element(
                "rect",
                element("title", name),
                x=f"{left * scale:.1f}",
                y=f"{top * scale:.1f}",
                width=f"{max(right - left, 0) * scale:.1f}",
                height=f"{max(bottom - top, 0) * scale:.1f}",
                fill="none",
                stroke=COLOURS[number % len(COLOURS)],
                stroke_width=1.5,
            )
        )
    return svg(width, height, *parts, label="boxes")
