"""HTML of values in a notebook: `element` makes every element, and escapes its content."""

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
"""Largest number of rows of a table that are shown."""
BETTER, WORSE, EVEN = "#3fa45b", "#d65a4c", "#8a8a8a"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Html:
    """Make an element. Children that are no `Html`, and the values of all attributes, are escaped.

    In attribute names an underscore at the end is dropped (``class_``) and others become hyphens
    (``aria_label``); attributes that are None are left out.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(c if isinstance(c, Html) else html.escape(printable(str(c))) for c in children)
    return Html(f"<{name}{pairs}>{inner}</{name}>")


def join_html(elements: Iterable[Html]) -> Html:
    """Return the elements one after the other."""
    return Html("".join(elements))


def make_view(*elements: Html) -> Html:
    """Wrap elements in a block with the style sheet of all values in notebooks."""
    return element("div", element("style", Html(STYLE)), *elements, class_="odm-view")


def draw_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, n_text_columns: int = 1) -> Html:
    """Draw a table, whose first `n_text_columns` columns are texts and the others numbers."""

    def make_row(name: str, row: Sequence[object]) -> Html:
        """Make a row of cells; `name` is ``td`` or ``th``."""
        return element(
            "tr",
            *(element(name, c, class_="text" if i < n_text_columns else None) for i, c in enumerate(row)),
        )

    head = element("thead", make_row("th", headers))
    return element("table", head, element("tbody", *(make_row("td", row) for row in rows)))


def draw_document_table(document_table: Table, *, hint: str = "") -> Html:
    """Draw the first `ROWS` rows of a table; `hint` says how to get all, such as ``: .to_pandas()``."""
    n_text_columns = 1 + len(document_table.left)  # `left` leaves out the first column, always a text
    first_rows = draw_table(document_table.titles, document_table.cells[:ROWS], n_text_columns=n_text_columns)
    n_hidden = len(document_table.rows) - ROWS
    note = f"{plural(n_hidden, 'more row')}{hint}"
    return join_html([first_rows, element("p", note, class_="dim")]) if n_hidden > 0 else first_rows


def draw_document(document: Document) -> list[Html]:
    """Draw the parts of all sections of a document, its verdict first."""
    parts = [part for section in document for part in section]
    return [
        _draw_part(part)
        for part in sorted(parts, key=lambda p: not (isinstance(p, Line) and p.role == "verdict"))
    ]


def draw_folded(section: Section) -> Html:
    """Draw a section folded behind its title."""
    title, *body = section
    text = title.text if isinstance(title, Line) else ""
    return element("details", element("summary", text), *draw_document([body]))


def _draw_part(part: Part) -> Html:
    """Draw one part of a document; a line has a text for Python if it differs from that of the command."""
    if isinstance(part, Table):
        return draw_document_table(part)
    if isinstance(part, Verbatim):
        return element("pre", "\n".join(part.lines))
    if isinstance(part, Items):
        return join_html(element("p", line) for line in (part.title, *part.lines) if line)
    text = part.text if part.python is None else part.python
    content = element("b", text) if part.role else text
    return element("p", content) if text else Html()


def make_svg(width: float, height: float, *elements: Html, label: str, **attributes: object) -> Html:
    """Make a drawing of a size in pixels; screen readers read out `label`."""
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    return element("svg", *elements, **size, role="img", aria_label=label, **attributes)


def draw_line(points: Iterable[Sequence[float]], colour: str, **attributes: object) -> Html:
    """Draw a line through points (x, y)."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=text, fill="none", stroke=colour, **attributes)


def draw_curves(series: Sequence[tuple[str, Floats, Floats]], labels: tuple[str, str]) -> Html:
    """Draw curves over 0..1 in both directions.

    `series` has the name, x (n,) and y (n,) of each curve, `labels` the names of the x and y axis.
    """
    size, left, top = 190.0, 40.0, 8.0  # of the square that holds the curves, in pixels
    (x_label, y_label), middle = labels, top + size / 2
    # The frame, the numbers at the y axis and at the x axis, and the names of the axes.
    elements = [
        element("rect", x=left, y=top, width=size, height=size, fill="none", stroke="#8888"),
        *(
            element("text", f"{share:g}", x=left - 5, y=top + size * (1 - share) + 3, text_anchor="end")
            for share in (0, 0.5, 1)
        ),
        *(
            element("text", f"{share:g}", x=left + size * share, y=top + size + 13, text_anchor="middle")
            for share in (0, 0.5, 1)
        ),
        element("text", x_label, x=left + size / 2, y=top + size + 26, text_anchor="middle"),
        element("text", y_label, x=9, y=middle, text_anchor="middle", transform=f"rotate(-90 9 {middle})"),
    ]
    for i, (name, xs, ys) in enumerate(series):
        # At most 150 points, which a line of 190 pixels needs, evenly spread over the curve.
        shown_points = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), 150)).astype(int))
        points = zip(left + size * xs[shown_points], top + size * (1 - ys[shown_points]), strict=True)
        stroke = draw_line(points, COLOURS[i % len(COLOURS)], stroke_width=1.6)
        elements.append(element("g", element("title", name), stroke))
    label = f"{y_label} over {x_label}"
    return make_svg(left + size + 12, top + size + 32, *elements, label=label)


def draw_interval(low: float, high: float, delta: float, limit: float, colour: str) -> Html:
    """Draw the interval `low` to `high` and a dot at `delta`, over an axis from -`limit` to `limit`."""
    width, height = 150.0, 14.0

    def x(value: float) -> float:
        """Return the place of a value on the axis; 4 % are left free for the dot at the ends."""
        return width / 2 * (1 + 0.96 * max(-1.0, min(1.0, value / limit)))

    middle = height / 2
    elements = [
        draw_line([(width / 2, 1), (width / 2, height - 1)], "#8888"),
        draw_line([(x(low), middle), (x(high), middle)], colour, stroke_width=4, stroke_linecap="round"),
        element("circle", cx=f"{x(delta):.1f}", cy=middle, r=3.2, fill=colour),
    ]
    return make_svg(width, height, *elements, label=f"{delta:+.4f}, {low:+.4f} to {high:+.4f}")


def draw_share(share: float) -> Html:
    """Draw a bar that is filled to a share, 0 to 1."""
    width, height = 90.0, 8.0
    elements = [
        element("rect", x=0, y=0, width=width, height=height, fill="#8883"),
        element("rect", x=0, y=0, width=f"{width * share:.1f}", height=height, fill=COLOURS[0]),
    ]
    return make_svg(width, height, *elements, label=f"{100 * share:.1f} %")


def draw_boxes(jpeg: str, size: tuple[int, int], boxes: Iterable[Sequence[Any]], width: float) -> Html:
    """Draw a picture (JPEG in base64) and boxes over it, `width` pixels wide.

    `size` is the width and height of the image; each box has edges in pixels of the image, a name, and the
    index of its colour.
    """
    image_width, image_height = size
    scale = width / max(image_width, 1)
    height = image_height * scale
    elements = [element("rect", x=0, y=0, width=f"{width:g}", height=f"{height:g}", fill="#8882")]
    if jpeg:
        data = f"data:image/jpeg;base64,{jpeg}"
        elements.append(element("image", href=data, width=f"{width:g}", height=f"{height:g}"))
    for (left, top, right, bottom), name, colour_index in boxes:
        elements.append(
            element(
                "rect",
                element("title", name),
                x=f"{left * scale:.1f}",
                y=f"{top * scale:.1f}",
                width=f"{max(right - left, 0) * scale:.1f}",
                height=f"{max(bottom - top, 0) * scale:.1f}",
                fill="none",
                stroke=COLOURS[colour_index % len(COLOURS)],
                stroke_width=1.5,
            )
        )
    return make_svg(width, height, *elements, label="boxes")
