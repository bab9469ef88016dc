"""Parquet with a row per box: the columns of each row group as images, classes and boxes.

The format takes more lines than others because it has two layouts: a row per box, and lists per image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import BAD_FLAG, BAD_IMAGE_SIZE, NOT_FINITE, WRONG_COUNT, WRONG_TYPE
from odm.formats._shared.tables.column_roles import FLAGS, FORMS, NO_OBJECT, Header, simplify_name, to_edges
from odm.formats._shared.tables.csv_files import INCOMPLETE_BOX, SIZE_CONFLICT
from odm.formats._shared.tables.images import Origin
from odm.formats.parquet.arrow import encode_column, is_list, is_name, is_number, pyarrow, to_floats
from odm.formats.parquet.collect import Collect
from odm.formats.parquet.nested import BOX_FORM_UNCLEAR
from odm.issues import Code, Log, Trusted, shorten
from odm.tables import NO_ID, Floats, Ints

Mask = NDArray[np.bool_]
EXTRA_COLUMNS = ("area", "id", "image_id", "split")
"""Columns that have no other name, beside those of `odm.formats._shared.tables.column_roles`."""


class FlatLayout:
    """The role of each column of a file; `faults` lists missing and ambiguous columns.

    `form`, a key of `FORMS`, says which four numbers a box has. They are in four columns, or in one, the
    `packed_column`, which is else ``""``: its form is `box`, and a fault if the user did not name it.
    """

    def __init__(self, schema: Any, explicit: Mapping[str, str], box: str | None = None) -> None:
        """Find the roles; `explicit` are the columns that the user named, by role."""
        # header.roles maps a role to a position in `names`, header.constants to the one value of all rows.
        names = [name for name in schema.names if name not in EXTRA_COLUMNS or name in explicit.values()]
        header = Header(names, explicit)
        has_id = "image_id" in schema.names
        # The groups after the third are paths, ids and the like: image_id goes before these.
        header.find_roles(image_groups=3 if has_id else None)
        if "image" not in header.roles and has_id and "image" not in header.constants:
            names = [*names, "image_id"]
            header.columns = tuple(names)
            header.roles["image"] = len(names) - 1
        # The four numbers of a box, in four columns or one; for one the user must name the form.
        self.form = header.find_coordinates()
        self.packed_column = "" if header.packed is None else names[header.packed]
        """The column that holds the four numbers of a box."""
        present_roles = header.roles | header.constants
        needed = [role for role in ("image", "class", *FORMS[self.form]) if role not in present_roles]
        if self.packed_column:  # whose four columns, behind the others, are not in `names`
            header.roles = {role: i for role, i in header.roles.items() if role not in FORMS[self.form]}
            self.form = box or self.form
            if box is None:
                shown = Trusted("corners or sizes: the file does not say which")
                header.faults.append((BOX_FORM_UNCLEAR, self.packed_column, {"found": shown}))
        header.report_lacking(needed)
        self.faults = header.faults
        self.constants = header.constants
        # The column of each role, with those that have one usual name.
        self.columns = {role: names[i] for role, i in header.roles.items()}
        if self.form == "ltrb" and not self.packed_column:  # which may have the sizes beside the edges
            for role in FORMS["ltwh"][2:]:  # box_width, box_height
                if role not in header.roles:
                    header.find_usual(role)
                if role in header.roles:
                    self.columns[role] = names[header.roles[role]]
        self.columns |= {name: name for name in EXTRA_COLUMNS if name in schema.names}
        if self.packed_column:
            self.columns["box"] = self.packed_column
        if self.columns.get("image") == "image_id":  # names, and so no ids beside them
            del self.columns["image_id"]
        # What is read, and what does not count as unread; these differ in `NestedLayout`.
        self.names = self.used_columns = list(dict.fromkeys(self.columns.values()))

    def find_field(self, role: str) -> str:
        """Return the column that has a role, or the role if none has it."""
        is_packed = self.packed_column != "" and role in FORMS[self.form]
        return self.packed_column if is_packed else self.columns.get(role, role)


class FlatRows:
    """The reader of the row groups of one file with a row per box."""

    def __init__(self, path: str, layout: FlatLayout, collect: Collect, log: Log) -> None:
        self._path, self._layout, self._collect, self._log = path, layout, collect, log
        self._origin = Origin(collect.builder.file(path), path, shorten(layout.columns.get("image", "image")))
        self._is_lost = np.zeros(0, bool)
        """(n,) whether a row of the current row group is faulty."""
        self._first_line = 0
        """The number of its first row in the file, from 1."""

    def take(self, table: Any, first_line: int) -> None:
        """Add the rows of a row group, report faulty ones; `first_line` is the number of its first row.

        Faulty rows are marked in `_is_lost`, and counted as skipped with rows of a bad image or class.
        """
        n, layout = table.num_rows, self._layout
        self._is_lost, self._first_line = np.zeros(n, bool), first_line
        if not self._check_types(table):
            return
        image = self._find_images(table, n)
        values, is_blank = self._read_four_numbers(table)  # (n, 4) and (4, n)
        lacks_box: Mask = np.logical_and.reduce(is_blank)
        score, lacks_score = self._read_numbers(table, "score")
        category, lacks_class = self._find_classes(table, n, ~lacks_box)
        self._report_incomplete(is_blank, lacks_box, lacks_class, category)
        # Numbers that are not finite, and the columns that a file may lack.
        for k, role in enumerate(FORMS[layout.form]):
            self._report_infinite(values[:, k], is_blank[k], role)
        self._report_infinite(score, lacks_score, "score")
        area, lacks_area = self._read_numbers(table, "area")
        self._report_infinite(area, lacks_area, "area")
        flags = self._read_flags(table, n)
        self._add_sizes(table, image)
        self._add_image_columns(table, image)
        # The rows that are kept; those without a box only name an image, and are not counted as skipped.
        is_kept = ~self._is_lost & ~lacks_box & (image >= 0) & (category >= 0)
        self._collect.builder.skipped += int(np.count_nonzero(~lacks_box & ~is_kept))
        xyxy, wh = to_edges(values, layout.form)
        sizes = [self._read_numbers(table, role) for role in ("box_width", "box_height")]
        if wh is None and not all(null.all() for _, null in sizes):  # which may stand beside the edges
            wh = np.stack([np.where(null, np.nan, size) for size, null in sizes], axis=1)
        ids = self._read_ids(table, "id")  # objects are uint64 beyond int64, which boxes cannot have
        self._collect.gather.add(
            image=self._collect.images.find_rows()[image[is_kept]],  # numbers to rows
            category=category[is_kept],
            xyxy=xyxy[is_kept],
            wh=None if wh is None else wh[is_kept],
            score=score[is_kept],
            flags=flags[is_kept],
            area=area[is_kept],
            source_id=None if ids is None or ids.dtype == object else ids[is_kept],
            file=self._origin.file,
            line=(np.flatnonzero(is_kept) + first_line).astype(np.int32),
        )

    def _report_incomplete(self, is_blank: Mask, lacks_box: Mask, lacks_class: Mask, category: Ints) -> None:
        """Report rows whose box lacks a number, (4, n), or its class, and those whose class lacks its box."""
        layout = self._layout
        lacks_number = is_blank.any(axis=0) & ~lacks_box
        is_incomplete = lacks_number | (lacks_box & ~lacks_class)  # a class needs a box
        for row in self._mark_lost(is_incomplete):
            missing = [layout.find_field(r) for k, r in enumerate(FORMS[layout.form]) if is_blank[k, row]]
            self._report(row, INCOMPLETE_BOX, missing[0], missing=", ".join(dict.fromkeys(missing)))
        for row in self._mark_lost(lacks_class & ~lacks_box & (category < 0)):
            self._report(row, INCOMPLETE_BOX, layout.find_field("class"), missing="class")

    # -- columns

    def _check_types(self, table: Any) -> bool:
        """Whether every column has a type that fits its role; others are reported, and all rows skipped."""
        types, n_errors = pyarrow().types, self._log.errors
        for role, name in self._layout.columns.items():
            kind = table.schema.field(name).type
            if role in ("image", "class", "image_id", "split"):
                is_fitting, expected = is_name(kind), "text or whole numbers"
            elif role in FLAGS:
                is_fitting, expected = types.is_boolean(kind) or is_number(kind), "true and false, or 0 and 1"
            elif role == "id":
                is_fitting, expected = types.is_integer(kind) or types.is_null(kind), "whole numbers"
            elif role == "box":
                is_fitting, expected = is_list(kind) and is_number(kind.value_type), "lists of 4 numbers"
            else:
                is_fitting, expected = is_number(kind), "numbers"
            if not is_fitting:
                shown = Trusted(f"a column of {kind}")
                self._log.report(WRONG_TYPE, self._path, field=name, expected=expected, value=shown)
        if self._log.errors == n_errors:
            return True
        self._collect.builder.skipped += table.num_rows
        return False

    def _read_four_numbers(self, table: Any) -> tuple[Floats, Mask]:
        """Return (n, 4) numbers of the boxes, NaN where null, and (4, n) True where null.

        In one column, an empty list is null; lists of another length than four are reported, and are 0.
        """
        layout, n = self._layout, table.num_rows
        if not layout.packed_column:
            pairs = [self._read_numbers(table, role) for role in FORMS[layout.form]]
            columns, nulls = zip(*pairs, strict=True)
            return np.stack(columns, axis=1), np.stack(nulls)
        lists, compute = table[layout.packed_column].combine_chunks(), pyarrow().compute
        length = compute.fill_null(compute.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        for row in self._mark_lost((length != 4) & (length != 0)):
            self._report(row, WRONG_COUNT, layout.packed_column, expected="4 numbers", found=int(length[row]))
        values, is_null = np.full((n, 4), np.nan), np.repeat(length[:, None] == 0, 4, axis=1)
        rows_of_four = np.flatnonzero(length == 4)
        values_and_nulls = to_floats(compute.list_flatten(lists.take(pyarrow().array(rows_of_four))))
        values[rows_of_four], is_null[rows_of_four] = (array.reshape(-1, 4) for array in values_and_nulls)
        values[(length != 4) & (length != 0)] = 0  # reported already; NaN would be reported once more
        return values, is_null.T

    def _read_numbers(self, table: Any, role: str) -> tuple[Floats, Mask]:
        """Return (n,) numbers of a role, NaN where null, and (n,) True where null: all without a column."""
        name = self._layout.columns.get(role)
        if name is None:
            return np.full(table.num_rows, np.nan), np.ones(table.num_rows, bool)
        return to_floats(table[name])

    def _report_infinite(self, values: Floats, is_null: Mask, role: str) -> None:
        """Report numbers that are infinite, or NaN where they are not null."""
        is_infinite = ~np.isfinite(values) & ~is_null
        for row in self._mark_lost(is_infinite):
            self._report(row, NOT_FINITE, self._layout.find_field(role), value=str(values[row]))

    def _find_images(self, table: Any, n: int) -> Ints:
        """Return (n,) the image number of each row, -1 (and the row is lost) for a bad name."""
        constant = self._layout.constants.get("image")
        if constant is not None:
            first_line = np.array([self._first_line], np.int32)
            (image_number,) = self._collect.add_named([constant], first_line, self._origin)
            return np.full(n, image_number)
        names = table[self._layout.columns["image"]]
        image = self._collect.find_images(names, self._origin, self._first_line)
        self._is_lost |= image < 0
        return image

    def _find_classes(self, table: Any, n: int, has_box: Mask) -> tuple[Ints, Mask]:
        """Return (n,) the category row of each row, -1 for none, and (n,) True for rows without a class.

        `has_box` (n,) is True for rows with a box; in others a word such as "background" is no class.
        """
        constant = self._layout.constants.get("class")
        if constant is not None:
            row = self._collect.find_category(constant, self._path, self._first_line, "class")
            return np.full(n, row), ~has_box
        name = self._layout.columns["class"]
        values, codes = encode_column(table[name])
        category_of_code = []
        for k, value in enumerate(values):
            if isinstance(value, str) and simplify_name(value) in NO_OBJECT:
                codes[(codes == k) & ~has_box] = -1  # "background" or "no object" beside no box
                if not (codes == k).any():  # beside a box it is a class
                    category_of_code.append(-1)
                    continue
            line = self._first_line + int(np.argmax(codes == k))
            category_of_code.append(self._collect.find_category(value, self._path, line, name))
        category = np.array([*category_of_code, -1], np.int32)[codes]  # the last is for the code -1
        self._is_lost |= (category < 0) & (codes >= 0)
        return category, codes < 0

    def _read_flags(self, table: Any, n: int) -> NDArray[np.uint16]:
        """Return (n,) uint16 flags; values that are neither 0 nor 1 are reported."""
        flags = np.zeros(n, np.uint16)
        for role, bit in FLAGS.items():
            name = self._layout.columns.get(role)
            if name is None:
                continue
            values, is_null = to_floats(table[name])
            values[is_null] = 0
            for row in self._mark_lost((values != 0) & (values != 1)):
                self._report(row, BAD_FLAG, name, value=f"{values[row]:g}", expected="0 or 1")
            flags[values == 1] |= np.uint16(bit)
        return flags

    def _add_sizes(self, table: Any, image: Ints) -> None:
        """Add the image sizes in the rows; report wrong ones, whose rows are lost, and contradictory ones."""
        if not {"width", "height"} & self._layout.columns.keys():
            return
        sides, nulls = zip(*(self._read_numbers(table, role) for role in ("width", "height")), strict=True)
        size, is_null = np.stack(sides, axis=1), np.stack(nulls, axis=1)
        with np.errstate(invalid="ignore"):
            is_wrong = ~is_null & ~((size >= 1) & (size < 2**31) & (size == np.rint(size)))
        # One side without the other is wrong too.
        is_wrong[:, 0] |= is_null[:, 0] & ~is_null[:, 1]
        is_wrong[:, 1] |= is_null[:, 1] & ~is_null[:, 0]
        for row in self._mark_lost(is_wrong.any(axis=1)):
            k = int(np.argmax(is_wrong[row]))
            field = self._layout.columns.get(("width", "height")[k], ("width", "height")[k])
            self._report(row, BAD_IMAGE_SIZE, field, value="" if is_null[row, k] else f"{size[row, k]:g}")
        rows_with_size = np.flatnonzero(~is_null.any(axis=1) & ~is_wrong.any(axis=1) & (image >= 0))
        images = self._collect.images
        differs = images.settle(image[rows_with_size], size[rows_with_size].astype(np.int64))
        differing_rows = rows_with_size[differs].tolist()
        names = list(images.rows) if differing_rows else []  # by image number
        for row in differing_rows:
            name = names[image[row]]
            shown, other = (f"{w:.0f}x{h:.0f}" for w, h in (size[row], images.sizes[image[row]]))
            self._report(row, SIZE_CONFLICT, "width", value=name, found=shown, other=other)

    def _add_image_columns(self, table: Any, image: Ints) -> None:
        """Add the ids and splits of images, from the first row of each."""
        images, ids = self._collect.images, self._read_ids(table, "image_id")
        name = self._layout.columns.get("split")
        # Images 1 -1 0 1: distinct_images -1 0 1 and first_rows 1 2 0, without -1 then 0 1 and 2 0.
        distinct_images, first_rows = np.unique(image, return_index=True)
        distinct_images, first_rows = distinct_images[distinct_images >= 0], first_rows[distinct_images >= 0]
        if ids is not None:
            for row, id_ in zip(distinct_images.tolist(), ids[first_rows].tolist(), strict=True):
                if id_ != NO_ID:
                    images.ids.setdefault(row, id_)
        if name is not None:
            values, codes = encode_column(table[name])
            for row, code in zip(distinct_images.tolist(), codes[first_rows].tolist(), strict=True):
                if code >= 0:
                    images.splits.setdefault(row, str(values[code]))

    def _read_ids(self, table: Any, role: str) -> NDArray[Any] | None:
        """Return (n,) ids of a column, `NO_ID` where null, objects if any is text; None without a column."""
        name = self._layout.columns.get(role)
        if name is None:
            return None
        values, codes = encode_column(table[name])
        if all(isinstance(value, int) and abs(value) < 2**63 for value in values):
            return np.array([*values, NO_ID], np.int64)[codes]
        column = np.empty(len(values) + 1, object)  # texts, or numbers that int64 cannot hold
        column[:-1], column[-1] = values, NO_ID
        return column[codes]

    # -- faults

    def _mark_lost(self, is_faulty: Mask) -> list[int]:
        """Mark the rows where `is_faulty`, (n,), as lost, and return their numbers."""
        self._is_lost |= is_faulty
        rows: list[int] = np.flatnonzero(is_faulty).tolist()
        return rows

    def _report(self, row: int, code: Code, field: str, **values: Any) -> None:
        self._log.report(code, self._path, line=self._first_line + row, field=shorten(field), **values)
