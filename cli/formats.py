"""``odm formats``."""

from __future__ import annotations

import re
import textwrap

import click

from odm.cli._options import choice, complete_format, switch, wide_option
from odm.cli._streams import get_table_width, show
from odm.formats import FORMATS, USES, Format, get, option_specs
from odm.terminal import text_table, wrap_line

EXAMPLES = """
\b
Examples:
  odm formats
  odm formats yolo
  odm formats yolo --brief
  odm formats --output markdown
"""


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False, shell_complete=complete_format)
@switch("--brief", "Show only the first paragraph and the options of NAME.")
@choice("--output", ["table", "markdown", "json"], "Output format of the list.", default="table")
@wide_option
def command(name: str | None, output: str, *, brief: bool, wide: bool) -> None:
    """List the formats, or describe the format NAME: its files, its options and what it preserves."""
    if brief and not name:
        raise click.UsageError("--brief needs the NAME of a format")
    width = get_table_width(wide=wide)
    show(format_page(get(name), width, brief=brief) if name else format_listing(output, width))


def format_page(format_: Format, width: int | None = None, *, brief: bool = False) -> str:
    """Format the page of a format: the specification in its module, its options, what it preserves."""
    doc = format_.doc.strip().replace("``", "`")
    text = refill_text(doc.split("\n\n")[0] if brief else doc, width)
    # As in reStructuredText: "::" alone on a line is dropped, and at the end of a line becomes ":".
    text = re.sub("::$", ":", re.sub(r"^::\n\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    lines = [f"{format_.name}: {format_.title}", "", text, "", "Options (-O name=value):"]
    for spec in option_specs(format_.options):
        flag = f", also {spec.flag}" if spec.flag else ""
        choices = f" One of {', '.join(spec.choices)}." if spec.choices else ""
        side = {"read": " (reading)", "write": " (writing)", "both": ""}[spec.side]
        lines.append(wrap_line(f"  {spec.name}{flag}{side}: {spec.help}.{choices}", width, " " * 6))
    preserved, verb = ", ".join(sorted(format_.keeps)) or "nothing", "Preserved" if format_.write else "Read"
    if format_.written_by:
        lines += ["", wrap_line(f"Written by: {format_.written_by}.", width)]
    lines += ["", wrap_line(f"{verb} besides boxes and class names: {preserved}.", width)]
    if format_.max_error_px and format_.write:
        lines.append(f"Coordinates are preserved within {format_.max_error_px:g} px.")
    return "\n".join(lines)


def sort_by_use() -> list[Format]:
    """List all formats by what they are used for, then by name."""
    return sorted(FORMATS.values(), key=lambda f: (USES.index(f.use), f.name))


def refill_text(text: str, width: int | None) -> str:
    """Break prose and lists into lines of up to `width` characters; tables and code stay as they are.

    Code is what is indented after a paragraph that ends with ``::``.
    """
    if width is None:
        return text
    refilled: list[str] = []
    is_literal = False
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        is_indented = lines[0].startswith(" ")
        if (is_literal and is_indented) or max(map(len, lines)) <= width:
            refilled.append(paragraph)
        else:
            is_literal = False
            refilled.append("\n".join(_refill_block(block, width) for block in _group_lines(lines)))
        is_literal = lines[-1].endswith("::") or (is_literal and is_indented)
    return "\n\n".join(refilled)


def _group_lines(lines: list[str]) -> list[list[str]]:
    """Group lines that belong together: a paragraph, or an item of a list."""
    blocks: list[list[str]] = []
    for line in lines:
        is_item = line.lstrip().startswith("- ")
        line_before = blocks[-1][-1] if blocks else ""
        # The underline of a heading, or the line after it, begins a block.
        is_underline = any(re.fullmatch("[-=~]{3,}", text) for text in (line, line_before))
        indent = len(line) - len(line.lstrip())
        if blocks and not is_item and not is_underline and indent == _get_indent(blocks[-1]):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _get_indent(block: list[str]) -> int:
    """Return how many characters the lines after the first are indented; those of a list item by 2 more."""
    first_line = block[0]
    return len(first_line) - len(first_line.lstrip()) + (2 if first_line.lstrip().startswith("- ") else 0)


def _refill_block(block: list[str], width: int) -> str:
    """Break a block into lines of up to `width` characters, unless it has columns."""
    if max(map(len, block)) <= width or any(re.search(r"\S {2,}\S", line) for line in block):
        return "\n".join(block)
    first_line = block[0]
    indent = " " * (len(first_line) - len(first_line.lstrip()))
    return textwrap.fill(
        " ".join(line.strip() for line in block),
        width,
        initial_indent=indent,
        subsequent_indent=" " * _get_indent(block),
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_listing(output: str, width: int | None = None) -> str:
    """Format the table of all formats as text, Markdown or JSON."""
    if output == "json":
        return _format_json()
    flags = ("difficult", "crowd", "group_of", "truncated", "occluded")
    rows = []
    for f in sort_by_use():
        directions = "read, write" if f.write else "read"
        stored_as = "a file" if f.single else "a folder"
        as_detections = directions if "score" in f.keeps else "-"
        attributes = ", ".join(flag for flag in flags if flag in f.keeps) or "-"
        sizes = "required" if f.needs_size else ""
        rows.append([f.name, f.use, f.title, stored_as, directions, as_detections, attributes, sizes])
    headers = (
        "format, used for, what it is, stored as, ground truth, detections, attributes preserved, image sizes"
    ).split(", ")
    if output == "table":
        return _draw_table(headers, rows, width)
    from tabulate import tabulate

    rows = [[f"`{row[0]}`", *row[1:]] for row in rows]
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def _format_json() -> str:
    """Format the list of all formats as JSON."""
    import json

    return json.dumps(
        [
            {
                "name": f.name,
                "title": f.title,
                "use": f.use,
                "written_by": f.written_by,
                "suffixes": list(f.suffixes),
                "keeps": sorted(f.keeps),
                "max_error_px": f.max_error_px,
                "needs_size": f.needs_size,
                "written": f.write is not None,
            }
            for f in FORMATS.values()
        ],
        indent=1,
    )


def _draw_table(headers: list[str], rows: list[list[str]], width: int | None) -> str:
    """Draw the table of formats; if it is too wide, without some columns, and with the uses as headings."""
    text = text_table(headers, rows, left=headers)
    if width is None or max(map(len, text.split("\n"))) <= width:
        return text

    # Of the eight columns of `format_listing` these stay: name, title, stored as, image sizes.
    columns = [0, 2, 3, 7]
    # What the other columns leave to the titles; two spaces separate columns.
    title_width = width - sum(2 + max(len(row[i]) for row in (headers, *rows)) for i in columns if i != 2)
    table_rows: list[list[str]] = []
    use_at_row: dict[int, str] = {}  # the first of each use
    read_only_names = []
    for name, use, title, stored_as, directions, _, _, sizes in rows:
        if use not in use_at_row.values():
            use_at_row[len(table_rows)] = use
        first_line, *other_lines = textwrap.wrap(title, max(title_width, 20), break_on_hyphens=False)
        table_rows.append([name, first_line, stored_as, sizes])
        table_rows += [["", f"  {line}", "", ""] for line in other_lines]
        if directions == "read":
            read_only_names.append(name)
    head, rule, *lines = text_table([headers[i] for i in columns], table_rows, left=headers).split("\n")
    for start, use in reversed(use_at_row.items()):  # from the end, so that the row numbers stay right
        lines[start:start] = ["", f"{use[:1].upper()}{use[1:]}"]
    lines = [head, rule, *lines]
    exception = f"; {', '.join(read_only_names)} are only read" if read_only_names else ""
    sentence = f"Formats are read and written, as ground truth and as detections{exception}."
    lines += [
        "",
        *textwrap.wrap(sentence, width, break_on_hyphens=False),
        "odm formats NAME describes one; --wide also shows the attributes preserved.",
    ]
    return "\n".join(lines)
