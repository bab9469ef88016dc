"""``odm formats``."""

from __future__ import annotations

import click

from odm.cli._common import complete_format
from odm.cli._print import show
from odm.formats import FORMATS, USES, Format, get, option_specs


@click.command(epilog="\b\nExamples:\n  odm formats\n  odm formats yolo\n  odm formats --output markdown")
@click.argument("name", required=False, shell_complete=complete_format)
@click.option(
    "--output",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    help="How the list is printed.",
)
def command(name: str | None, output: str) -> None:
    """List the formats, or show the page of the format NAME: its grammar, options and what it keeps."""
    show(page(get(name)) if name else listing(output))


def page(format_: Format) -> str:
    """A format's page: the specification in its module, its options, what survives in it."""
    lines = [f"{format_.name}: {format_.title}", "", format_.doc.strip(), "", "Options (-O name=value):"]
    for spec in option_specs(format_.options):
        flag = f", also {spec.flag}" if spec.flag else ""
        choices = f" One of {', '.join(spec.choices)}." if spec.choices else ""
        when = {"read": " (reading)", "write": " (writing)", "both": ""}[spec.side]
        lines.append(f"  {spec.name}{flag}{when}: {spec.help}.{choices}")
    kept = ", ".join(sorted(format_.keeps)) or "nothing"
    if format_.written_by:
        lines += ["", f"Written by: {format_.written_by}."]
    lines += ["", f"Besides boxes and class names it keeps: {kept}."]
    if format_.max_error_px:
        lines.append(f"Coordinates survive within {format_.max_error_px:g} px.")
    return "\n".join(lines)


def by_use() -> list[Format]:
    """All formats by what they are used for, then by name."""
    return sorted(FORMATS.values(), key=lambda f: (USES.index(f.use), f.name))


def listing(output: str) -> str:
    """The table of all formats as text, Markdown or JSON."""
    if output == "json":
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
                }
                for f in FORMATS.values()
            ],
            indent=1,
        )
    from tabulate import tabulate

    flags = ("difficult", "crowd", "group_of", "truncated", "occluded")
    rows = [
        [
            f.name,
            f.use,
            f.title,
            "a file" if f.single else "a folder",
            "read, write",
            "read, write" if "score" in f.keeps else "-",
            ", ".join(flag for flag in flags if flag in f.keeps) or "-",
            "yes" if f.needs_size else "no",
        ]
        for f in by_use()
    ]
    headers = [
        "format",
        "used for",
        "what it is",
        "one data set is",
        "ground truth",
        "detections",
        "marks it keeps",
        "needs image sizes",
    ]
    if output == "markdown":
        rows = [[f"`{row[0]}`", *row[1:]] for row in rows]
    return tabulate(
        rows, headers, tablefmt="github" if output == "markdown" else "plain", disable_numparse=True
    )
