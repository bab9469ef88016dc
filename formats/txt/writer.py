"""Plain text files as they are written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odm.files import Output
from odm.formats._shared.class_lists import UNWRITABLE, has_space
from odm.formats._shared.image_names import note_folders
from odm.formats._shared.number_text import Cells, decimals, fixed_cells, short_wh
from odm.formats._shared.pictures import relative_to_images
from odm.formats._shared.text_tokens import NUMBER, pages, relative
from odm.formats.txt.meaning import TxtOptions
from odm.formats.txt.rows import QUOTED, name_of
from odm.issues import Log
from odm.names import refuse_class, stem
from odm.tables import Dataset, Floats, Kind, distinct


def write(dataset: Dataset, target: Output, log: Log, options: TxtOptions) -> None:
    """Write one text file per image."""
    names = [f"{stem(name)}.txt" for name in dataset.images.name]
    fits = target.plan(names, dataset.images.name, log)
    is_relative = options.coords == "rel"
    box = options.box or ("cxcywh" if is_relative else "ltrb")
    boxes = dataset.boxes
    used = distinct(boxes.category).tolist() if len(boxes) else []
    for row in used:
        refused = _unwritable(dataset.categories.name[row], options.sep, dataset.kind)
        if refused is not None:
            reason, way = refused
            log.report(UNWRITABLE, "", value=dataset.categories.name[row], reason=reason, way=way)
            fits = False
    pixels = _numbers(dataset, box, is_relative)
    values = relative_to_images(dataset, pixels, log) if is_relative else pixels
    if not fits or values is None:
        return
    cells: Sequence[str] | Cells
    if is_relative:
        cells = relative(values, dataset.images.width[boxes.image], dataset.images.height[boxes.image])
    else:  # a centre is computed, so it carries rounding: nine decimals hide it
        cells = fixed_cells(values.ravel(), 9) if box == "cxcywh" else decimals(values.ravel())
    columns: list[Sequence[str] | Cells] = [[dataset.categories.name[c] for c in boxes.category.tolist()]]
    if dataset.kind == "det":
        columns.append(decimals(boxes.score))
    columns += [cells[i::4] for i in range(4)]
    note_folders(dataset, log)
    if not options.sep and (n := sum(has_space(dataset.categories.name[row]) for row in used)):
        what = "1 class has a space in its name" if n == 1 else f"{n} classes have spaces in their names"
        log.note(f"{what}, at which other programs split a line (--sep tab, or -O spaces=underscore)")
    written = pages(len(names), boxes.image, columns, options.sep or " ")
    for name, data in zip(log.track(names, "writing"), written, strict=True):
        target.write(name, data)


def _numbers(dataset: Dataset, box: str, is_relative: bool) -> Floats:
    """(n, 4) numbers in pixels, in the layout that is written."""
    boxes = dataset.boxes
    xyxy = boxes.xyxy
    if box == "ltrb":
        return xyxy
    wh = short_wh(boxes) if box == "ltwh" and not is_relative else boxes.wh
    first = xyxy[:, :2] if box == "ltwh" else (xyxy[:, :2] + xyxy[:, 2:]) / 2
    return np.concatenate([first, wh], axis=1)


def _unwritable(name: str, sep: str, kind: Kind) -> tuple[str, str] | None:
    """Why a class name would not be read back, and what to do; None if it would."""
    reason = refuse_class(name)
    if reason is not None:
        return reason, "rename the class"
    if len(name) > 1 and QUOTED.fullmatch(name):
        return "this format has no quotes", "rename the class"
    if name != name.strip(" \t"):
        return "leading and trailing spaces are lost", "rename the class"
    if sep:
        return ("it contains the separator", "use another --sep") if sep in name else None
    words = name.encode().split(b" ")
    if name_of(name.encode(), separated=False) is None or (
        kind == "gt" and len(words) > 1 and NUMBER.fullmatch(words[-1])
    ):
        return (
            "numbers in it would be read as coordinates",
            "use --sep tab, or rename the class",
        )
    return None
