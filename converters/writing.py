"""Write the second half of a conversion: edit what was read, drop what the target cannot hold, write the
rest.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
import numpy as np
from msgspec.structs import replace

from odm import arguments, checks
from odm.codes import NO_SIZE, NOTHING_TO_PUT
from odm.converters.edit import Edits, apply_edits, drop_emptied, write_underscores
from odm.converters.ledger import Ledger, drop_unsupported, format_losses
from odm.converters.load import Loaded
from odm.converters.merging import RENUMBERED, SameImage, merge
from odm.converters.repairs import clip_boxes
from odm.converters.selection import Selection, divide, select
from odm.converters.shapes import AsShapes, fit, report_too_large, suggest_shapes
from odm.converters.skipping import LeftOut, drop_images
from odm.converters.tiles import Cuts, Tiling, check_reference, cut, join
from odm.files import Output
from odm.formats import Format, option_specs, parse_bool
from odm.inputs import folder_of, is_within
from odm.issues import (
    Code,
    DataError,
    Log,
    PathError,
    Trusted,
    UsageError,
    first_few,
    listed,
    plural,
    printable,
    shorten,
    spell,
    spell_setting,
)
from odm.names import BAD_NAME, SIZES_FILE, refuse_name, stem
from odm.tables import Dataset, Longs, SourceFile, distinct, region_classes

WITHOUT_SPLIT = Code(
    "images-without-split",
    "warning",
    "{n} of {total} images have {what} and are written to {place}; the first is {value!r}",
    "ignore this if it is right; otherwise split all images again with --split-into train:80,val:20",
    "A dataset with splits and one without were put together, or a split has a name of its own. A trainer "
    "reads only the images of the splits that it knows.",
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What to write and how; the counterpart of `Request`."""

    path: str
    format: Format
    options: Any
    """The options of the format, all of them."""
    overwrite: bool = False
    dry_run: bool = False
    strict: bool = False
    """Refuse, with nothing written, if anything would be left out or lost."""
    skip_bad: bool = False
    """Leave out outlines that are too large for the target."""
    keep_groups: bool = False
    """Write crowd and group-of boxes as ordinary ones where the format cannot mark them."""
    clip: bool = False
    """Cut boxes to their image."""
    shapes: AsShapes | None = None
    """What to write in place of shapes as they are."""
    edits: Edits = Edits()
    selection: Selection = Selection()
    tiling: Tiling | None = None
    """How images are cut into tiles."""
    untile: float | None = None
    """The share of an object by which those of several tiles are one, if tiles are put together."""
    pictures: str = ""
    """``copy`` or ``link``: put the pictures into the folder that the format names."""


class TargetFields(TypedDict, total=False):
    """Fields of `Target` that do not depend on the format."""

    overwrite: bool
    dry_run: bool
    strict: bool
    keep_groups: bool
    clip: bool
    shapes: AsShapes | None
    edits: Edits
    selection: Selection
    tiling: Tiling | None
    untile: float | None


class StrictLoss(DataError):
    """Raised with ``strict`` if something would have been lost; ``ledger`` says what."""

    def __init__(self, message: str, log: Log, ledger: Ledger) -> None:
        super().__init__(message, log)
        self.ledger = ledger


def open_output(path: str, format_: Format, *, overwrite: bool, dry_run: bool) -> Output:
    """Return the output for a target. Raises PathError if it cannot be used.

    Nothing is touched before it is entered.
    """
    return Output(path, single=_is_single(path, format_), overwrite=overwrite, dry_run=dry_run)


def _is_single(path: str, format_: Format) -> bool:
    """Whether a target is one file."""
    return format_.single and path.lower().endswith(format_.suffixes) and not os.path.isdir(path)


def bad_rows() -> str:
    """Return the reason, for the ledger, why rows with errors are left out."""
    return f"rows with errors ({spell('skip_bad')})"


def open_ledger(loaded: Loaded, target: str, *, dry_run: bool = False) -> Ledger:
    """Open the ledger of what was read; `target` names a format."""
    ledger = Ledger(loaded.format.name, target, read=len(loaded.dataset) + loaded.bad, dry_run=dry_run)
    if loaded.bad:
        ledger.left_out[bad_rows()] = loaded.bad
    ledger.bad_files = tuple(loaded.left_out.files)
    return ledger


def merge_loaded(
    sources: list[Loaded], target: Format, same_image: SameImage, log: Log, *, dry_run: bool
) -> tuple[Loaded, Ledger]:
    """Merge several sources (a single one is returned as it is), with a ledger of every row; see `merge`.

    `sources` is emptied to free memory, if it has more than one. Classes that differ only a little are
    reported for the merged dataset.
    """
    if len(sources) == 1:
        return sources[0], open_ledger(sources[0], target.name, dry_run=dry_run)
    merged = merge([source.dataset for source in sources], same_image=same_image, log=log)
    names = dict.fromkeys(source.format.name for source in sources)
    loaded = Loaded(
        merged.dataset,
        # The merged dataset may have whatever the format of one source keeps.
        replace(
            sources[0].format,
            name=", ".join(names),
            keeps=frozenset().union(*(source.format.keeps for source in sources)),
        ),
        bad=sum(source.bad for source in sources),
        left_out=LeftOut(files=[file for source in sources for file in source.left_out.files]),
    )
    ledger = open_ledger(loaded, target.name, dry_run=dry_run)
    ledger.read += merged.equal  # as these are no boxes of the merged dataset, but were read
    ledger.sources = tuple(
        (
            source.dataset.path,
            source.format.name,
            len(source.dataset.images),
            len(source.dataset) + source.bad,
        )
        for source in sources
    )
    if merged.equal:
        ledger.left_out["boxes that an earlier source has as well"] = merged.equal
    ledger.change("images of several sources joined into one", merged.joined)
    for change, n in merged.changed.items():
        ledger.change(change, n)
    for id_name, n in merged.renumbered.items():
        if id_name in target.keeps:
            ledger.change(f"ids of {RENUMBERED[id_name]} are numbered from 1, as the sources disagree", n)
    sources.clear()
    # Similar names of classes may stand in different files, so the place of the message is all sources.
    everywhere = replace(merged.dataset, files=(SourceFile(merged.dataset.path),))
    checks.report_similar_classes(everywhere, log)
    return loaded, ledger


def _drop_losses(
    dataset: Dataset, source: Format, holder: Format, target: Target, ledger: Ledger, log: Log
) -> Dataset:
    """Return the part of a dataset that the target's format can hold: `holder`, of `_choose_holder`.

    Classes of regions to ignore that lose all boxes are left out. Images without a split get one, unless it
    is a copy in the same format.
    """
    # A copy of one source (of several, `sources` is filled) stays as it is, but training needs every split.
    is_copy = ledger.source_format == holder.name and not ledger.sources and holder.use != "training"
    if "split" in holder.keeps and not is_copy:
        dataset = _complete_splits(dataset, holder, ledger, log)
    had_only_regions = region_classes(dataset) & (not target.edits.order)  # a list of classes keeps all
    dataset = drop_unsupported(dataset, source, holder, ledger, keep_groups=target.keep_groups)
    return drop_emptied(dataset, had_only_regions, ledger)


def _fit_shapes(dataset: Dataset, holder: Format, target: Target, ledger: Ledger, log: Log) -> Dataset:
    """Return the dataset with shapes as `holder` holds them, without those that are too large to be
    filled. Raises DataError for these without ``skip_bad``.
    """
    has_any = dataset.boxes.shapes is not None or dataset.boxes.keypoints is not None
    if not (has_any or target.shapes or holder.boxes_as_shapes):
        return dataset
    too_large = report_too_large(dataset, holder, log, target.shapes)
    if too_large.any() and not target.skip_bad:
        raise DataError("outlines are too large to be made masks; nothing was written", log)
    return fit(ledger.leave_out(dataset, too_large, bad_rows()), holder, ledger, shapes=target.shapes)


def write_loaded(loaded: Loaded, target: Target, log: Log, ledger: Ledger) -> Ledger:
    """Edit what was read and write it, all or nothing. Raises as `odm.convert` does.

    Returns `ledger`, in which everything is booked that is changed, lost, left out and written.
    """
    # The format as it is used. Its options may depend on the shapes to write: the kind that is asked for, or
    # "same", those that the dataset has, if it was read from this format.
    shapes = target.shapes or ("same" if loaded.format.name == target.format.name else "")
    options = target.options
    target = replace(target, options=target.format.settled(options, loaded.dataset, shapes))
    format_ = target.format.adapted(target.options)
    if target.options != options and not target.shapes:  # the data decided which shapes are written
        suggest_shapes(loaded.dataset, format_, log)
    ids = target.edits.category_ids
    _refuse_category_ids(ids, target, format_)
    # Fractions of images without a size can go only to a format of fractions that states no size, as YOLO.
    if loaded.dataset.relative and (not format_.needs_size or "size" in format_.keeps):
        for row in distinct(loaded.dataset.boxes.image).tolist():
            log.report(NO_SIZE, loaded.dataset.image_place(row), value=loaded.dataset.images.name[row])
        raise build_write_error(log, target.path)

    # What the user wants done with classes, boxes and images.
    dataset = apply_edits(target.edits, loaded.dataset, ledger)
    if getattr(target.options, "spaces", "") == "underscore":
        dataset = write_underscores(dataset, ledger)
    if dataset.categories.name != loaded.dataset.categories.name:
        checks.report_similar_classes(dataset, log)
    if target.clip:
        dataset = clip_boxes(dataset, ledger, log)
    dataset, cuts = _select(dataset, target, ledger, log)
    if cuts is not None or target.untile is not None:
        reference = getattr(target.options, "reference", None)
        check_reference(dataset, reference, target.path, of_tiles=cuts is not None)

    # What the format can hold; the rest is booked as lost or changed.
    holder = _choose_holder(target.path, format_, dataset, ledger, log)
    dataset = _drop_losses(dataset, loaded.format, holder, target, ledger, log)
    dataset = _fit_shapes(dataset, holder, target, ledger, log)
    names = dataset.categories.name
    is_unordered = not (dataset.categories.ordered or target.edits.order or ids)
    if is_unordered and "order" in format_.keeps and len(names) > 1:
        shown = first_few(names, 8, lambda name: shorten(name, 30))
        log.note(
            f"classes are numbered in order of first appearance: {shown} "
            f"({spell('class_list')} FILE sets the order)"
        )
    ledger.written, ledger.images, ledger.categories = len(dataset), len(dataset.images), len(names)
    if target.strict and not ledger.lossless:
        ledger.dry_run = True  # its summary says "would be written"
        lost = f"not written ({spell('strict')}): it would lose {format_losses(ledger)}"
        raise StrictLoss(f"{printable(target.path)}: {lost}", log, ledger)

    # The files.
    output = open_output(target.path, format_, overwrite=target.overwrite, dry_run=target.dry_run)
    _check_holds_no_source(output.target, dataset)
    pieces: Iterable[tuple[str, Dataset]] = [("", dataset)]
    if target.selection.divides:
        check_parts(target.selection, output, format_)
        part_of = divide(target.selection, dataset, log, tiled=cuts is not None)
        ledger.parts = _count_parts(dataset, part_of, target.selection)
        pieces = _iterate_pieces(dataset, part_of, target.selection, keeps_split="split" in format_.keeps)
    output.cuts = cuts
    if cuts is not None:
        _note_uncut(output, format_, target, log)
    _write_pieces(dataset, pieces, output, format_, target, log)
    ledger.files, ledger.stayed = tuple(output.written), tuple(output.stayed)
    if target.selection.divides and not target.pictures and format_.pictures is not None:
        log.note(f"pictures were not added (use {spell('link_images')} or {spell('copy_images')})")
    return ledger


def _refuse_category_ids(ids: str | None, target: Target, format_: Format) -> None:
    """Raise UsageError if class ids are to be renumbered that the format or the ground truth determines."""
    if ids in ("0", "1") and "category_id" not in format_.keeps:  # coco80 and coco91 set names, too
        raise UsageError(f"{spell('category_ids')} {ids}: {format_.name} does not store class ids")
    if ids and getattr(target.options, "reference", None) is not None:
        reason = "results have the class ids of the ground truth"
        raise UsageError(f"{spell('category_ids')}: with {spell('gt')}, {reason}")


def _count_parts(dataset: Dataset, part_of: Longs, selection: Selection) -> dict[str, tuple[int, int]]:
    """Return the numbers of images and boxes of each part by its name, of folds of the images tested there.

    `part_of` (images,) is the position of the part of each image in `Selection.parts`.
    """
    images = np.bincount(part_of)
    boxes = np.bincount(part_of[dataset.boxes.image], minlength=part_of.max() + 1)
    prefix = "val of " if selection.folds is not None else ""
    sizes = zip(images.tolist(), boxes.tolist(), strict=True)
    return dict(zip([prefix + name for name in selection.parts], sizes, strict=True))


def _note_uncut(output: Output, format_: Format, target: Target, log: Log) -> None:
    """Note why the image files are not cut with the labels, if they are not."""
    has_option = hasattr(target.options, "copy_images")
    if target.pictures == "copy" or getattr(target.options, "copy_images", False):
        return
    is_holder = format_.pictures is None and not has_option  # its own files hold the pictures that are known
    if is_holder and (output.cuts or not getattr(target.options, "pictures", True)):
        return
    if output.single:
        reason = f"{printable(target.path)} is one file; for both name a folder, with {spell('images')} DIR"
    else:
        reason = f"{spell('images')} DIR says where they are"
    log.note(f"labels are cut into tiles, image files are not: {reason}")


def _check_holds_no_source(target: str, dataset: Dataset) -> None:
    """Raise PathError if the target contains files that were read: a list may have led to other folders."""
    root = os.path.realpath(target)
    for folder in dict.fromkeys(folder_of(file.path) for file in dataset.files):
        if is_within(os.path.realpath(folder), root):
            raise PathError(f"{printable(target)}: the target contains files of the source; write elsewhere")


def _select(dataset: Dataset, target: Target, ledger: Ledger, log: Log) -> tuple[Dataset, Cuts | None]:
    """Return the images and boxes that are selected, put together from tiles or cut into some.

    The second value cuts the pictures of tiles; None if images are not cut.
    """
    cuts, selection = None, target.selection
    if target.untile is not None:
        dataset = join(dataset, target.untile, ledger)
    if target.tiling is None:
        dataset = select(selection, dataset, ledger, log)
    else:  # whole images are sampled, and empty tiles left out
        dataset = select(replace(selection, drop_empty=False), dataset, ledger, log)
        dataset, cuts = cut(dataset, target.tiling, ledger, log)
        dataset = select(Selection(drop_empty=selection.drop_empty), dataset, ledger, log)
    if selection.divides:
        ledger.change("images whose split is replaced", sum(map(bool, dataset.images.split)))
        dataset = _set_splits(dataset, [""] * len(dataset.images))
    return dataset, cuts


def _choose_holder(path: str, format_: Format, dataset: Dataset, ledger: Ledger, log: Log) -> Format:
    """Return the format; if it has a file for each split but the target is one file, with what that keeps.

    A single split that is not written is booked as a change. Of several, a note gives the way out, and
    ``split`` is taken out of `keeps`, so that they will be booked as lost.
    """
    splits = set(dataset.images.split)
    if not format_.split_is_file or not _is_single(path, format_) or splits <= {""}:  # {""}: no splits
        return format_
    if len(splits) == 1:  # whoever chose it knows which it is
        ledger.change("images whose split is not written", len(dataset.images))
        return format_
    folder = printable(os.path.splitext(path)[0])
    log.note(
        f"{printable(path)}: one file does not keep the splits; a folder has a file for each: "
        f"{folder} {spell('to')} {format_.name}"
    )
    return replace(format_, keeps=format_.keeps - {"split"})


def _complete_splits(dataset: Dataset, holder: Format, ledger: Ledger, log: Log) -> Dataset:
    """Put images without a split into ``train`` if others have one, and report them.

    If the format, `holder`, is used for training, images of splits that it does not name go to ``val`` or
    ``test`` if the name begins so, else to ``train``.
    """
    splits = dataset.images.split
    known_splits = holder.split_names if holder.use == "training" else frozenset()
    unknown_splits = {split for split in splits if split and known_splits and split not in known_splits}
    # The split that stands in for each one that is replaced, such as ``val`` for ``validation``.
    new_split = {
        split: next((k for k in ("val", "test") if split.startswith(k)), "train") for split in unknown_splits
    }
    if "" in splits and any(splits):
        new_split[""] = "train"
    unknown_text = f"a split that {holder.name} does not name: {listed(sorted(unknown_splits))}"
    for names, description in (({""}, "no split"), (unknown_splits, unknown_text)):
        rows = [row for row, split in enumerate(splits) if split in names and split in new_split]
        if rows:
            destination = " or ".join(sorted({repr(new_split[splits[row]]) for row in rows}))
            fields: dict[str, Any] = {
                "what": Trusted(description),
                "place": Trusted(destination),
                "value": dataset.images.name[rows[0]],
            }
            log.report(WITHOUT_SPLIT, dataset.image_place(rows[0]), n=len(rows), total=len(splits), **fields)
    ledger.change("images whose split is replaced", sum(split in unknown_splits for split in splits))
    return _set_splits(dataset, [new_split.get(split, split) for split in splits]) if new_split else dataset


def check_parts(selection: Selection, output: Output, format_: Format) -> None:
    """Raise UsageError if the target cannot hold the requested parts, where there are any."""
    if not selection.divides:
        return
    holds_parts = "split" in format_.keeps and not format_.split_is_file and selection.folds is None
    if output.single and not holds_parts:
        noun = "folds" if selection.folds is not None else "parts"
        raise UsageError(
            f"{printable(output.target)}: one file cannot hold the {noun}; name a folder, and add "
            f"{spell('to')} {format_.name}"
        )
    unknown_names = [name for name in selection.parts if name not in format_.split_names]
    if selection.folds is None and format_.split_names and unknown_names:
        known_text = ", ".join(sorted(format_.split_names))
        raise UsageError(
            f"{spell('split_into')}: {format_.name} has no part {unknown_names[0]!r}, only {known_text}"
        )


def _set_splits(dataset: Dataset, splits: Sequence[str]) -> Dataset:
    return replace(dataset, images=replace(dataset.images, split=tuple(splits)))


def _iterate_pieces(
    dataset: Dataset, part_of: Longs, selection: Selection, *, keeps_split: bool
) -> Iterator[tuple[str, Dataset]]:
    """Yield (folder, dataset) for each dataset that is to be written.

    `part_of` (images,) has the number of the part of each image; of folds, the fold that is tested with it.
    `keeps_split` tells whether the format has splits of its own, so that one dataset holds all parts.
    """
    names = list(selection.parts)
    # Each round is a folder, the names of the parts in it, and the number of the part of each image.
    rounds = [("", names, part_of)]
    if selection.folds is not None:  # a round for each fold, whose images are part 1, val
        rounds = [(name, ["train", "val"], (part_of == i).astype(np.int64)) for i, name in enumerate(names)]
    for folder, part_names, part_rows in rounds:
        if keeps_split:
            yield folder, _set_splits(dataset, [part_names[row] for row in part_rows.tolist()])
            continue
        for i, part_name in enumerate(part_names):
            yield f"{folder}/{part_name}".lstrip("/"), drop_images(dataset, part_rows != i)


def _write_pieces(
    dataset: Dataset,
    pieces: Iterable[tuple[str, Dataset]],
    output: Output,
    format_: Format,
    target: Target,
    log: Log,
) -> None:
    """Have the format write each piece of the dataset into a folder of the output.

    `pieces` are (folder, dataset), from `_iterate_pieces`; an issue of several pieces is reported once.
    Raises DataError, and nothing is written, if the format reports an error.
    """
    output_log, write = log.fresh(), format_.write
    assert write is not None  # get_target refuses others
    if "extension" not in format_.keeps:  # the name is written without it, and may be invalid only then
        for row, name in enumerate(dataset.images.name):
            if (reason := refuse_name(stem(name))) is not None:
                output_log.report(BAD_NAME, dataset.image_place(row), value=stem(name), reason=reason)
    with output:
        try:
            for folder, piece in pieces:
                piece_log = output_log.fresh()
                piece_output = output.below(folder) if folder else output
                try:
                    if target.pictures and format_.pictures is None and _report_unknown(piece, piece_log):
                        continue
                    write(piece, piece_output, piece_log, target.options)
                    if target.pictures and format_.pictures is not None and not piece_log.errors:
                        _put_images(piece, piece_output, f"{format_.pictures}/", target.pictures, piece_log)
                    # Sizes are not read from what links lead to, so a file beside the links has them.
                    links = getattr(target.options, "link_images", False)  # an option of the format's own
                    if links or (target.pictures and "size" not in format_.keeps):
                        piece_output.write(SIZES_FILE, _format_sizes(piece))
                finally:
                    output_log.extend(piece_log, once=True)
        finally:
            output_log.set_place(output.target)
            log.extend(output_log)
        if output_log.errors:
            raise build_write_error(log, output.target)
        if output.cuts is not None:
            output.cuts.check()  # raises if the picture of a tile could not be made
        # An empty folder is read as no detections, and holds no classes.
        has_classes = bool(len(dataset.categories)) and "unused" in format_.keeps
        if not output.written and (dataset.kind != "det" or has_classes):
            raise DataError(
                f"{printable(output.target)}: not written, because the data has no images and {format_.name} "
                "has a file or record per image, so nothing could be read back; coco can store classes alone",
                log,
            )


def split_picture_options(
    options: Mapping[str, Any], target: str, format_: Format, *, tiled: bool = False
) -> tuple[dict[str, Any], str]:
    """Split options into those for the format, and how image files are put beside it: ``copy``, ``link`` or
    empty.

    With `tiled`, tiles are copied if the option ``images`` says where the pictures are. Raises UsageError if
    pictures are to be both copied and linked, the target is one file, or its own files hold the pictures and
    these are to be linked.
    """
    format_options = {name.replace("-", "_"): value for name, value in options.items()}
    for name in _ACTIONS:
        if name in format_options:
            format_options[name] = _parse_switch(name, format_options[name])
    if tiled and format_options.get("link_images"):
        raise UsageError(f"{spell('tile')}: tiles are cut from pictures, so they cannot be linked")
    has_option = any(spec.name == "copy_images" for spec in option_specs(format_.options))
    if tiled and format_options.get("images") and (has_option or format_.pictures is not None):
        format_options["copy_images"] = format_options.get("copy_images", not _is_single(target, format_))
    actions = [action for name, action in _ACTIONS.items() if format_options.get(name)]
    if len(actions) == 2:
        raise UsageError(f"{spell('copy_images')} and {spell('link_images')}: use one of them")
    if has_option:
        return format_options, ""  # the format itself puts them there
    for name in _ACTIONS:
        format_options.pop(name, None)
    verb = actions[0] if actions else ""
    # A format without a place for pictures (None) holds them in its own files, as TFRecord does.
    if verb == "link" and format_.pictures is None:
        reason = f"{format_.name} holds pictures in its own files"
        raise UsageError(f"{spell('link_images')}: {reason}; use {spell('copy_images')}")
    if verb and _is_single(target, format_):
        raise UsageError(
            f"{printable(target)}: one file cannot hold the pictures of {spell(f'{verb}_images')}; name a "
            f"folder, and add {spell('to')} {format_.name}"
        )
    return format_options, verb


_ACTIONS = {"copy_images": "copy", "link_images": "link"}
"""How image files are put beside the labels, by option."""


def _parse_switch(name: str, value: Any) -> bool:
    """Parse the value of an option that is on or off; None is off. Raises UsageError for any other value."""
    if isinstance(value, str):
        try:
            return parse_bool(value)
        except ValueError as e:
            raise UsageError(f"{name}={value}: {e}") from None
    arguments.check(name, value, bool | None)
    return bool(value)


def check_holds_pictures(format_: Format, options: Any, verb: str) -> None:
    """Raise UsageError if pictures are to be copied (`verb`) into files that by `options` hold none."""
    if verb and format_.pictures is None and not getattr(options, "pictures", True):
        raise UsageError(f"{spell('copy_images')} and {spell_setting('pictures=false')}: use one of them")


def _put_images(dataset: Dataset, output: Output, folder: str, action: str, log: Log) -> None:
    """Put the file of each image, under its name, into `folder`; if one is absent, put none and report it.

    `action` is ``copy`` or ``link``.
    """
    if _report_unknown(dataset, log):
        return
    images = dataset.images
    path_by_name = {  # a name without an extension gets that of its file
        folder + (name if stem(name) != name else name + os.path.splitext(path)[1]): path
        for name, path in zip(images.name, images.path, strict=True)
    }
    if output.plan(list(path_by_name), owners=list(path_by_name), log=log):
        for name, path in log.track(list(path_by_name.items()), "pictures"):
            (output.copy if action == "copy" else output.link)(name, path)


def _report_unknown(dataset: Dataset, log: Log) -> bool:
    """Report the images whose file is not known in one issue, and return whether there are any."""
    images = dataset.images
    rows_without_path = [row for row in range(len(images)) if not images.path[row]]
    if rows_without_path:
        names = Trusted(listed([images.name[row] for row in rows_without_path]))
        location = dataset.image_place(rows_without_path[0])
        log.report(NOTHING_TO_PUT, location, n=len(rows_without_path), total=len(images), names=names)
    return bool(rows_without_path)


def _format_sizes(dataset: Dataset) -> bytes:
    """Return the sizes of the images as a CSV file, which ``--image-sizes`` reads."""
    images = dataset.images
    text = io.StringIO()
    rows = zip(images.name, images.width.tolist(), images.height.tolist(), strict=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "width", "height"))
    writer.writerows(row for row in rows if min(row[1:]) > 0)  # 0 is an unknown size
    return text.getvalue().encode()


def build_write_error(log: Log, target: str) -> DataError:
    """Return the DataError for a target that is not written because of the errors in `log`."""
    return DataError(f"{printable(target)}: not written, because of {plural(log.errors, 'error')}", log)
