"""VoTT CSV: its columns, read and written."""

from __future__ import annotations

import dataclasses

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.csv_tables import (
    NO_HEADER,
    head_rows,
    is_number,
    merged,
    tables,
)
from odm.formats._shared.number_text import decimals
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.table_rows import Columns, TableReader
from odm.issues import Log
from odm.tables import Builder, Dataset

HEADER = ["image", "xmin", "ymin", "xmax", "ymax", "label"]
_HEADERS = (HEADER, [*HEADER, "score"])
LAYOUT = Columns(
    columns=("image", *HEADER[1:5], "class", "score"),
    roles={"image": 0, "left": 1, "top": 2, "right": 3, "bottom": 4, "class": 5},
    has_ids=True,
    lenient=True,
)


def sniff_tables(source: Source) -> Sniff | None:
    """The header of VoTT, above pixels."""
    files = source.with_suffix(".csv")
    for file in files:
        rows = head_rows(source, file)
        numbers = [float(cell) for cells in rows[1:] for cell in cells[1:5] if is_number(cell)]
        if not rows or rows[0] not in _HEADERS or (numbers and max(numbers) <= 1):
            return None
    return Sniff(SURE, f"the header is {','.join(HEADER)}, as in VoTT") if files else None


def read_tables(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read a file, or every CSV file of a folder."""
    table = TableReader(source, builder, log, options)
    for path, rows in tables(source, builder, log, options):
        header = rows[0][1] if rows else []
        if header not in _HEADERS:
            found = repr(",".join(header)) if header else "an empty file"
            log.report(NO_HEADER, path, line=1 if header else 0, found=found)
            continue
        n, kept = len(header), []
        for line, cells in rows[1:]:
            if len(cells) == n:
                kept.append((line, cells))
            else:
                expected = f"{n} cells as in the header"
                log.report(WRONG_COUNT, path, line=line, expected=expected, found=str(len(cells)))
                builder.skipped += 1
        layout = LAYOUT if n == 6 else dataclasses.replace(LAYOUT, roles={**LAYOUT.roles, "score": 6})
        columns = [[cells[k] for _, cells in kept] for k in range(n)]
        table.add(path, layout, columns, [line for line, _ in kept])
    table.finish()


def write_table(dataset: Dataset, target: Output, log: Log) -> None:
    """Write one file."""
    name = "" if target.single else "vott-export.csv"
    if name and not target.plan([name], ["the boxes"], log):
        return
    boxes = dataset.boxes
    images, classes = ([_quote(n) for n in table.name] for table in (dataset.images, dataset.categories))
    texts = decimals(boxes.xyxy.ravel())
    columns = [[images[i] for i in boxes.image.tolist()], *(texts[k::4] for k in range(4))]
    columns.append([classes[c] for c in boxes.category.tolist()])
    header = HEADER
    if dataset.kind == "det":
        header = [*HEADER, "score"]
        columns.append(decimals(boxes.score))
    empty = [image + "," * (len(header) - 1) for image in images]
    lines = [
        ",".join(map(_quote, header)),
        *merged(dataset, list(map(",".join, zip(*columns, strict=True))), empty),
    ]
    target.write(name, "".join(f"{line}\n" for line in lines).encode())


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
