"""Parquet with a row per image, its objects in lists: read only, picture bytes are never touched."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import NOT_FINITE, WRONG_COUNT, WRONG_TYPE
from odm.formats._shared.tables.column_roles import to_edges
from odm.formats._shared.tables.images import Origin
from odm.formats.parquet.arrow import encode_column, is_list, pyarrow, to_floats
from odm.formats.parquet.collect import Collect
from odm.issues import Code, Log, Trusted, spell
from odm.tables import Flag, Floats, Ints

BOX_FORM_UNCLEAR = Code(
    "box-form-unclear",
    "error",
    "the lists of boxes could be {found}",
    "say which with --box ltrb (corners) or --box ltwh (sizes)",
    "Nothing in such a file says whether the last two numbers of a box are its right and bottom edge or its "
    "width and height. Where not exactly one reading fits all images, guessing would give wrong boxes.",
    file=True,
)
FIELDS = {
    "bbox": ("bbox", "boxes", "box"),
    "category": ("category", "category_id", "categories", "label", "labels", "class"),
    "score": ("score", "scores"),
    "area": ("area",),
    "crowd": ("iscrowd", "is_crowd", "crowd"),
    "id": ("bbox_id", "id", "ids"),
}
"""Usual names of the lists."""
NAMES = ("file_name", "filename", "image_name", "image_path", "path", "name", "image_id", "id")
"""Columns that may name an image, best first."""


class NestedLayout(msgspec.Struct, frozen=True, eq=False):
    """The columns of a file with a row per image and lists of objects."""

    objects: str
    """The column of the objects; empty where each list is a column of its own."""
    is_struct: bool
    """Whether `objects` is a struct of lists, else a list of structs."""
    lists: dict[str, str]
    """The name of the list of each role in `FIELDS` that has one."""
    image: str
    """The column that names the image; ``image.path`` is a field of a struct."""
    has_sizes: bool
    """Whether there are columns ``width`` and ``height``, of the image."""
    form: str | None
    """The meaning of a box's numbers, where the layout determines it."""

    @property
    def names(self) -> list[str]:
        """The paths of the columns to be read."""
        lists = [self.objects] if self.objects else list(self.lists.values())
        return [*lists, self.image, *(("width", "height") if self.has_sizes else ())]

    @property
    def used_columns(self) -> list[str]:
        """The columns of the file that are used."""
        return [name.split(".")[0] for name in self.names]


def find_nested(schema: Any) -> NestedLayout | None:
    """Return the layout of a file whose rows are images; None for any other file."""
    types, names = pyarrow().types, list(schema.names)
    # The column with the name of the image: "image.path" in a struct of path and bytes, as `datasets` has.
    image = next((name for name in NAMES if name in names), "")
    if not image and "image" in names:
        kind = schema.field("image").type
        if types.is_struct(kind) and "path" in [f.name for f in kind]:
            image = "image.path"
        elif types.is_string(kind) or types.is_integer(kind):
            image = "image"
    has_sizes = {"width", "height"} <= set(names)
    if not image:
        return None
    # Objects in a column of their own, a struct of lists or a list of structs; else each list is a column.
    for objects in ("objects", "annotations"):
        if objects not in names:
            continue
        kind = schema.field(objects).type
        is_struct = types.is_struct(kind)
        item_kind = kind if is_struct else kind.value_type if is_list(kind) else None
        if item_kind is None or not types.is_struct(item_kind):
            continue
        lists = _find_lists([f.name for f in item_kind])
        if {"bbox", "category"} <= lists.keys():
            return NestedLayout(objects, is_struct, lists, image, has_sizes=has_sizes, form=None)
    lists = _find_lists(name for name in names if is_list(schema.field(name).type))
    if {"bbox", "category"} <= lists.keys():
        is_torchvision = lists["bbox"] == "boxes" and lists["category"] == "labels"
        form = "ltrb" if is_torchvision else None
        # Without a column of objects, `is_struct` means nothing.
        return NestedLayout("", is_struct=True, lists=lists, image=image, has_sizes=has_sizes, form=form)
    return None


def _find_lists(names: Any) -> dict[str, str]:
    """Return the name of the list of each role in `FIELDS`, for those roles that have one among `names`."""
    present = list(names)
    name_of_role = {role: next((n for n in usual if n in present), "") for role, usual in FIELDS.items()}
    return {role: name for role, name in name_of_role.items() if name}


class NestedRows:
    """The reader of the row groups of one file with a row per image."""

    def __init__(self, path: str, layout: NestedLayout, collect: Collect, log: Log) -> None:
        self._path, self._layout, self._collect, self._log = path, layout, collect, log
        self._origin = Origin(collect.builder.file(path), path, layout.image)
        self._first_line = 0
        collect.form = collect.form or layout.form

    def take(self, table: Any, first_line: int) -> None:
        """Take a row group to `Collect.nested_boxes`; `first_line` is the number of its first row.

        All its rows are skipped, after issues, if the lists of a row have different lengths.
        """
        self._first_line, layout = first_line, self._layout
        n, collect = table.num_rows, self._collect
        # The images, one for each row: image number (n,) and size (n, 2).
        outer_name, _, inner_name = layout.image.partition(".")
        names = table[outer_name]
        names = pyarrow().compute.struct_field(names, inner_name) if inner_name else names
        image = collect.find_images(names, self._origin, first_line)
        size = self._read_sizes(table, image)

        # The lists of all rows, joined; all must be as long as that of the boxes.
        lists = self._read_lists(table)
        if lists is None:
            return
        boxes, counts = lists["bbox"]
        classes, _ = lists["category"]
        if not all(np.array_equal(counts, lengths) for _, lengths in lists.values()):
            for role, (_, lengths) in lists.items():
                for row in np.flatnonzero(lengths != counts).tolist():
                    expected, shown = f"{counts[row]} as there are boxes", int(lengths[row])
                    self._report(row, WRONG_COUNT, layout.lists[role], expected=expected, found=shown)
            collect.builder.skipped += int(counts.sum())
            return

        # The boxes that are kept.
        row_of_box = np.repeat(np.arange(n), counts)
        numbers, has_numbers = self._read_numbers(boxes, row_of_box, layout.lists["bbox"])
        category, has_class = self._find_classes(classes, row_of_box, layout.lists["category"])
        is_kept = has_numbers & has_class & (image[row_of_box] >= 0)
        collect.builder.skipped += int(np.count_nonzero(~is_kept))
        rows = row_of_box[is_kept]
        columns = {
            "image": image[rows],
            "category": category[is_kept],
            "score": np.full(len(rows), np.nan),
            "file": self._origin.file,
            "line": (rows + first_line).astype(np.int32),
        }
        for role in {"score", "area"} & lists.keys():
            values, _ = to_floats(lists[role][0])
            columns[role] = values[is_kept]
        if "crowd" in lists:
            crowd, _ = to_floats(lists["crowd"][0])
            is_crowd = np.nan_to_num(crowd) != 0
            columns["flags"] = np.where(is_crowd[is_kept], np.uint16(Flag.CROWD), np.uint16(0))
        ids = lists["id"][0] if "id" in lists else None
        if ids is not None and pyarrow().types.is_integer(ids.type) and not ids.null_count:
            columns["source_id"] = ids.to_numpy(zero_copy_only=False)[is_kept].astype(np.int64)
        collect.nested_boxes.append((self._path, numbers[is_kept], size[rows], columns))

    def _read_sizes(self, table: Any, image: Ints) -> Floats:
        """Return (n, 2) width and height in each row, 0 if unknown, and give them to the images (n,)."""
        if not self._layout.has_sizes:
            return np.zeros((table.num_rows, 2))
        size = np.stack([to_floats(table[name])[0] for name in ("width", "height")], axis=1)
        has_size = (size >= 1).all(axis=1) & (size < 2**31).all(axis=1) & (image >= 0)
        rows = np.flatnonzero(has_size)
        self._collect.images.settle(image[rows], size[rows].astype(np.int64))
        return np.where(has_size[:, None], size, 0)

    def _read_lists(self, table: Any) -> dict[str, tuple[Any, Any]] | None:
        """Return for each role all values of its lists, joined, and (rows,) how many each row has.

        None after an issue if a column holds no lists.
        """
        compute, layout = pyarrow().compute, self._layout
        lists = {}
        for role, name in layout.lists.items():
            # A column of lists, a struct of lists, or a list of structs.
            if not layout.objects:
                column = table[name].combine_chunks()
            elif layout.is_struct:
                column = compute.struct_field(table[layout.objects].combine_chunks(), name)
            else:
                objects = table[layout.objects].combine_chunks()
                counts = compute.fill_null(compute.list_value_length(objects), 0)
                values = compute.struct_field(compute.list_flatten(objects), name)
                lists[role] = (values, counts.to_numpy(zero_copy_only=False))
                continue
            kind = column.type
            if not hasattr(kind, "value_type"):
                value = Trusted(f"a column of {kind}")
                self._log.report(WRONG_TYPE, self._path, field=name, expected="lists", value=value)
                return None
            counts = compute.fill_null(compute.list_value_length(column), 0)
            lists[role] = (compute.list_flatten(column), counts.to_numpy(zero_copy_only=False))
        return lists

    def _read_numbers(
        self, boxes: Any, row_of_box: NDArray[Any], field: str
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n, 4) numbers of the boxes, and (n,) True for boxes with four finite ones; report others.

        `row_of_box` (n,) is the row of each box in the table.
        """
        compute, n = pyarrow().compute, len(row_of_box)
        length = compute.fill_null(compute.list_value_length(boxes), 0).to_numpy(zero_copy_only=False)
        has_four = length == 4
        for i in np.flatnonzero(~has_four).tolist():
            self._report(int(row_of_box[i]), WRONG_COUNT, field, expected="4 numbers", found=int(length[i]))
        numbers = np.full((n, 4), np.nan)
        values = compute.list_flatten(boxes.filter(pyarrow().array(has_four)))
        numbers[has_four] = to_floats(values)[0].reshape(-1, 4)
        is_infinite = ~np.isfinite(numbers).all(axis=1) & has_four
        for i in np.flatnonzero(is_infinite).tolist():
            self._report(int(row_of_box[i]), NOT_FINITE, field, value=str(numbers[i].tolist()))
        return numbers, has_four & ~is_infinite

    def _find_classes(
        self, column: Any, row_of_box: NDArray[Any], field: str
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Return (n,) the category row of each box, -1 after an issue, and (n,) True if it has one."""
        values, codes = encode_column(column)
        for i in np.flatnonzero(codes < 0).tolist():
            self._report(int(row_of_box[i]), WRONG_TYPE, field, expected="a class", value="null")
        category_of_code = []
        for k, value in enumerate(values):
            line = self._first_line + int(row_of_box[int(np.argmax(codes == k))])
            category_of_code.append(self._collect.find_category(value, self._path, line, field))
        category = np.array([*category_of_code, -1], np.int32)[codes]  # the last is for the code -1
        return category, category >= 0

    def _report(self, row: int, code: Code, field: str, **values: Any) -> None:
        self._log.report(code, self._path, line=self._first_line + row, field=field, **values)


def add_nested(collect: Collect, form: str | None) -> None:
    """Decide the form of the numbers of boxes, if no option sets it, and add the boxes; none if unclear."""
    form = form or collect.form or _find_form(collect)
    row_of_image = collect.images.find_rows()
    if form is None:
        return
    for _, numbers, _, columns in collect.nested_boxes:
        xyxy, wh = to_edges(numbers, form)
        collect.gather.add(**{**columns, "image": row_of_image[columns["image"]]}, xyxy=xyxy, wh=wh)


def _find_form(collect: Collect) -> str | None:
    """Return the only form, edges or corner and size, that fits all boxes; None if both or neither do.

    An issue is reported then, and the boxes are skipped, unless there are none.
    """
    is_fitting = {"ltrb": True, "ltwh": True}
    n_boxes = 0
    for _, values, size, _ in collect.nested_boxes:  # four numbers; the size of the image, 0 if unknown
        n_boxes += len(values)
        limit = np.where(size > 0, size + 1, np.inf)  # one pixel outside is allowed
        is_fitting["ltrb"] &= bool((values[:, 2:] >= values[:, :2]).all() and (values[:, 2:] <= limit).all())
        right_bottom = values[:, :2] + values[:, 2:]
        is_fitting["ltwh"] &= bool((values[:, 2:] >= 0).all() and (right_bottom <= limit).all())
    forms = [form for form, fits_all in is_fitting.items() if fits_all]
    if len(forms) == 1:
        reading = "corners" if forms == ["ltrb"] else "left, top, width, height"
        path = collect.nested_boxes[0][0]  # of the first boxes
        note = f"boxes are read as {reading}, the only reading that fits all images"
        note += f" ({spell('box')} overrides this)"
        collect.log.note(f"{path}: {note}")
        return forms[0]
    if n_boxes:
        shown = "corners or sizes: both fit all images" if forms else "neither corners nor sizes"
        collect.log.report(BOX_FORM_UNCLEAR, collect.nested_boxes[0][0], found=Trusted(shown))
        collect.builder.skipped += n_boxes
    return None


def find_class_labels(data: Any, path: tuple[str, ...] = ()) -> list[str] | None:
    """Find the class names of a ClassLabel in the features that `datasets` writes; None if there are none.

    `path` are the keys that lead to `data`; the last one must be that of a class.
    """
    if isinstance(data, dict):
        if data.get("_type") == "ClassLabel" and isinstance(data.get("names"), list):
            is_of_class = path and path[-1] in FIELDS["category"]
            return [str(name) for name in data["names"]] if is_of_class else None
        for key, value in data.items():
            # These keys are levels of the description, and the others names of columns.
            inner = path if key in ("feature", "dtype", "info", "features") else (*path, str(key))
            names = find_class_labels(value, inner)
            if names is not None:
                return names
    if isinstance(data, list):
        return next((names for value in data if (names := find_class_labels(value, path)) is not None), None)
    return None
