"""Documents: the paragraphs, lists and tables that show a result, drawn as text, Markdown or LaTeX.

A function beside each kind of result makes its document, and `odm.verbs.html` draws it in a notebook. Parts
that belong together, as a title and its table, are one section; a blank line stands between sections.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from odm.terminal import choose_columns, latex, markdown, markdown_table, text_table, wrap_line


class Column(NamedTuple):
    """A column of a table, with the function that writes its values."""

    title: str
    form: Callable[[Any], str] = str
    """Formats a value of the column."""
    left: bool = False
    """Whether its cells are texts, which are aligned to the left; those of the first column always are."""
    group_title: str = ""
    """The title that stands above the titles of this and its neighbours with the same one."""


class Table(msgspec.Struct, frozen=True, dict=True):
    """A table of values; the functions in its columns make them text."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    drop: Sequence[Sequence[str]] = ()
    """Titles of columns that a terminal leaves out where they do not fit, in this order."""
    tells_dropped: bool = False
    """Whether a line below names the columns that were left out."""
    rule: bool = True
    """Whether a terminal draws a line below the titles."""

    @property
    def titles(self) -> list[str]:
        """The title of each column."""
        return [column.title for column in self.columns]

    @property
    def left(self) -> list[str]:
        """Titles, for `text_table`, of columns aligned to the left; but the first, which always is."""
        return [column.title for column in self.columns[1:] if column.left]

    @functools.cached_property
    def cells(self) -> list[list[str]]:
        """The rows as text; an empty text stays empty."""
        forms = [column.form for column in self.columns]
        return [
            ["" if value == "" else form(value) for form, value in zip(forms, row, strict=True)]
            for row in self.rows
        ]

    def select(self, titles: Iterable[str]) -> Table:
        """Return the table with only the columns of these titles, in their order."""
        positions = [self.titles.index(title) for title in titles]
        rows = [[row[i] for i in positions] for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in positions], rows=rows)


class Line(NamedTuple):
    """A paragraph."""

    text: str
    role: Literal["", "strong", "heading", "verdict"] = ""
    """How it is set: as text, in bold, as the heading of what follows, or as the answer of the document."""
    python: str | None = None
    """The text for a reader in Python, who has no options of a command; empty = nothing."""


class Items(NamedTuple):
    """A list of short lines, with a line above it if there is a title."""

    lines: Sequence[str]
    title: str = ""


class Verbatim(NamedTuple):
    """Lines whose columns stand below each other."""

    lines: Sequence[str]


Part = Table | Line | Items | Verbatim
Section = Sequence[Part]
Document = list[Section]


def draw(document: Document, output: str, width: int | None = None) -> str:
    """Draw a document as ``markdown``, as ``latex``, or for a terminal; see `as_text` and its neighbours."""
    if output == "markdown":
        return as_markdown(document)
    return as_latex(document, width) if output == "latex" else as_text(document, width)


def as_text(document: Document, width: int | None = None) -> str:
    """Draw a document for a terminal of `width` characters, None = any. It ends with a newline."""
    return _draw_sections(document, "\n", functools.partial(_draw_part_as_text, width=width))


def as_markdown(document: Document) -> str:
    """Draw a document in Markdown. It ends with a newline."""
    return _draw_sections(document, "\n\n", _draw_part_as_markdown)


def as_latex(document: Document, width: int | None = None) -> str:
    """Draw a document in LaTeX with the package booktabs; tables have the columns that fit on a terminal."""
    sections = ("\n\n".join(_draw_latex_parts(section, width)) for section in document if section)
    return "\n\n".join([r"% \usepackage{booktabs}", *sections]) + "\n"


def _draw_sections(document: Document, separator: str, draw: Callable[[Part], str]) -> str:
    """Draw each part by `draw`, with `separator` between parts, and a blank line between sections."""
    return "\n\n".join(separator.join(map(draw, section)) for section in document if section) + "\n"


def _draw_part_as_text(part: Part, width: int | None) -> str:
    """Draw a part for a terminal; a list is indented below its title.

    A table may lose columns that do not fit; if it `tells_dropped`, a line below names them.
    """
    if isinstance(part, Line):
        return wrap_line(part.text, width, indent="  ")
    if isinstance(part, Verbatim):
        return "\n".join(part.lines)
    if isinstance(part, Items):
        lines = [part.title, *(f"  {line}" for line in part.lines)] if part.title else part.lines
        return "\n".join(wrap_line(line, width, indent="  ") for line in lines)
    spans = {column.title: column.group_title for column in part.columns if column.group_title}
    layout: dict[str, Any] = {"width": width, "drop": part.drop}
    text = text_table(part.titles, part.cells, left=part.left, spans=spans, rule=part.rule, **layout)
    if part.tells_dropped:
        shown = choose_columns(part.titles, part.cells, **layout)
        if hidden := [title for i, title in enumerate(part.titles) if i not in shown]:
            note = f"(not shown: {', '.join(hidden)}; --wide shows all)"
            text += "\n" + wrap_line(note, width, indent="  ")
    return text


def _draw_part_as_markdown(part: Part) -> str:
    """Draw a part in Markdown: a line as a paragraph or heading, a table with the titles of its groups."""
    if isinstance(part, Line):
        text = markdown(part.text)
        if part.role == "heading":
            return f"### {text}"
        return f"**{text}**" if part.role == "strong" else text
    if isinstance(part, Verbatim):
        return "\n".join(["```", *part.lines, "```"])
    if isinstance(part, Items):
        title = [markdown(part.title)] if part.title else []
        return "\n".join([*title, *(f"- {markdown(line)}" for line in part.lines)])
    titles = [
        f"{column.title} ({column.group_title})" if column.group_title else column.title
        for column in part.columns
    ]
    return markdown_table(titles, part.cells, left=part.left)


def _draw_latex_parts(section: Section, width: int | None) -> Iterator[str]:
    """Yield the parts of a section, as LaTeX; a line before a table becomes its caption.

    Lines that have another text for Python are left out: they are hints on options of a command.
    """
    for i, part in enumerate(section):
        previous = section[i - 1] if i else None
        following = section[i + 1] if i + 1 < len(section) else None
        if isinstance(part, Table):
            yield _draw_latex_table(part, previous.text if isinstance(previous, Line) else "", width)
        elif isinstance(part, Verbatim):
            yield "\n".join([r"\begin{verbatim}", *part.lines, r"\end{verbatim}"])
        elif isinstance(part, Items):
            items = (f"  \\item {latex(line)}" for line in part.lines)
            title = [latex(part.title)] if part.title else []
            yield "\n".join([*title, r"\begin{itemize}", *items, r"\end{itemize}"])
        elif part.python is None and not isinstance(following, Table):
            yield f"\\textbf{{{latex(part.text)}}}" if part.role else latex(part.text)


def _draw_latex_table(table: Table, caption: str, width: int | None) -> str:
    """Draw a table as a float with a caption, without the columns that do not fit in `width` characters.

    The minus signs of numbers are those of mathematics.
    """
    shown = choose_columns(table.titles, table.cells, width=width, drop=table.drop)
    columns = [table.columns[i] for i in shown]
    cells = [[re.sub(r"(?<!\S)-(?=\d)", "$-$", latex(row[i])) for i in shown] for row in table.cells]
    spans, rules, start = [], [], 1  # columns are counted from 1
    # Neighbours with the same group title share it, above a rule; the others have an empty cell there.
    for group_title, group in itertools.groupby(column.group_title for column in columns):
        n = len(list(group))
        spans.append(
            rf"\multicolumn{{{n}}}{{c}}{{{latex(group_title)}}}" if group_title else " & ".join([""] * n)
        )
        rules += [rf"\cmidrule(lr){{{start}-{start + n - 1}}}"] if group_title else []
        start += n
    head = [" & ".join(spans) + r" \\", " ".join(rules)] if rules else []
    rows = [" & ".join(row) + r" \\" for row in ([latex(column.title) for column in columns], *cells)]
    body = [r"\toprule", *head, rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    alignment = "".join("r" if i and not column.left else "l" for i, column in enumerate(columns))
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            *([f"  \\caption{{{latex(caption)}}}"] if caption else []),
            rf"  \begin{{tabular}}{{{alignment}}}",
            *(f"    {line}" for line in body),
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def format_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Format rows as CSV with a header line; values are at full precision."""
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return buffer.getvalue()
