"""``odm.read``, ``odm.write`` and ``odm.convert``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from odm.converters import Edits, Ledger, Selection, pipeline
from odm.converters.edit import CategoryIds
from odm.converters.merging import SameImage, merge
from odm.converters.pending import FIELD_WORD, SHAPE_WORDS
from odm.converters.shapes import AsShapes
from odm.converters.tiles import LEAST, OVERLAP, SAME, Tiling
from odm.converters.writing import TargetFields
from odm.issues import Log, UsageError, shorten, spell
from odm.tables import Dataset, Kind
from odm.verbs.choosing import AT_SCORES, ONLY_CLASSES, ONLY_IMAGES, SCORE_MIN, make_selection
from odm.verbs.options import CONVERT, MERGE, OUTPUT, READING, SOURCE, TARGET, Options, argument, option
from odm.verbs.shared import ReadingOptions, Side, SkipFilesOptions
from odm.verbs.sources import (
    Source,
    as_list,
    expand_files,
    get_dataset,
    is_path,
    make_truth_reader,
    read_names,
    read_renames,
    read_source,
    verb,
)
from odm.verbs.words import ConvertFormatOptions, FormatName, Path, ReadFormatOptions, WriteFormatOptions


class ReadOptions(ReadingOptions, SkipFilesOptions, ReadFormatOptions, verb="read"):
    """The options of `odm.read`."""

    path: Source = argument(kw_only=False)
    format: FormatName | None = argument(default=None, kw_only=False)
    kind: Kind | None = None
    gt: Source | None = None
    shapes: bool = False
    same_image: SameImage = "error"
    log: Log | None = None


@verb(ReadOptions)
def read(options: ReadOptions) -> Dataset:
    """Read annotations or detections into tables.

    Parameters
    ----------
    path
        A file or a folder, or a list of them, which are merged; a `Dataset`; or what is in memory, see
        `odm.converters.bridges.from_object`.
    format
        Its name (``odm formats`` lists them); auto-detected if omitted.
    kind
        ``"gt"`` or ``"det"``; auto-detected if omitted.
    gt
        The ground truth that a results file refers to.
    skip_bad
        Leave out rows with errors instead of raising.
    skip_bad_files
        Leave out files with errors that affect more than one row, and their images; notes name them.
    shapes
        Read outlines, masks, oriented boxes and keypoints too, into ``boxes.shapes`` and
        ``boxes.keypoints``.
    same_image
        What to do with images that several paths have; see `odm.converters.merge`.
    max_size, encoding, follow_links
        Bytes above which files are refused, the encoding of text files if it is not recognised, and whether
        links that lead outside are followed.
    log
        Collects issues and notes; read it afterwards to see warnings.
    **options
        The format's own options, such as ``box="ltwh"``, and ``images="photos/"``, where pictures lie.

    Raises
    ------
    DataError
        If the data has errors; its ``log`` has all of them.
    UsageError
        If a format or option does not exist, the format cannot be detected, or `path` is of a wrong type.
    PathError
        If the path is missing or not usable.
    """
    side = options.make_side("", options.format, options.kind)
    wants = frozenset({FIELD_WORD, *(SHAPE_WORDS if options.shapes else ())})
    log, same_image = Log() if options.log is None else options.log, options.same_image
    truth = make_truth_reader(options.gt, side, options, log, wants, same_image=same_image)
    loaded = read_source(
        options.path,
        side,
        options,
        log,
        counterpart=truth,
        wants=wants,
        own_fields=True,
        same_image=same_image,
    )
    return get_dataset(loaded)


class WriteOptions(WriteFormatOptions, verb="write"):
    """The options of `odm.write`."""

    dataset: Source = argument(kw_only=False)
    path: Path = argument(kw_only=False)
    format: FormatName | None = argument(default=None, kw_only=False)
    overwrite: bool = False
    keep_groups: bool = False
    selection: Selection | None = None
    log: Log | None = None


@verb(WriteOptions)
def write(options: WriteOptions) -> Ledger:
    """Write tables as a file or a folder, all or nothing.

    Parameters
    ----------
    dataset
        What to write: a `Dataset`, or what `odm.read` takes. It is not changed.
    path
        The target. It must not exist, or be an empty folder, unless `overwrite` is given.
    format
        The format of the target; taken from the suffix of `path` if omitted.
    keep_groups
        Write crowd and group-of boxes as ordinary boxes if the format cannot represent them.
    selection
        Which boxes and images to write, and how to split them into parts or folds.
    log
        Collects issues and notes.
    **options
        The format's own options.

    Returns
    -------
    Ledger
        What was written and what was left out.

    Raises
    ------
    DataError
        If the tables contain data that cannot be written.
    UsageError, PathError
        As for `read`.
    """
    log = Log() if options.log is None else options.log
    tables = options.dataset if isinstance(options.dataset, Dataset) else read(options.dataset, log=log)
    return pipeline.write_tables(
        tables,
        os.fspath(options.path),
        options.format,
        options.formats[""],  # the format's own options; no side is told apart here
        log,
        overwrite=options.overwrite,
        keep_groups=options.keep_groups,
        selection=options.selection or Selection(),
    )


class EditOptions(Options, heading=CONVERT):
    """What is changed about classes and shapes."""

    only_classes: str | Sequence[str] | None = ONLY_CLASSES
    drop: str | Sequence[str] = option(
        "Drop a class and its boxes (repeatable).", "NAME", default=(), repeatable=True
    )
    rename: Mapping[str, str] | str | Sequence[str] = option(
        "Rename a class, or merge it into another (repeatable); @FILE: one OLD=NEW per line.",
        "OLD=NEW",
        default=(),
        repeatable=True,
    )
    class_list: Path | Sequence[str] | None = option(
        "Write exactly these classes in this order; FILE: one name per line.",
        "FILE",
        default=None,
        path="read",
    )
    category_ids: CategoryIds | None = option(
        "Number the classes from 0 or 1; or COCO's 80 classes 0 to 79, or 1 to 90 as in its files.",
        default=None,
    )
    clip: bool = option("Clip boxes and outlines to their image.", default=False)
    shapes: AsShapes | None = option(
        "Write outlines, masks and oriented boxes as this kind if DST can hold it. [default: as they are]",
        default=None,
    )
    keep_groups: bool = option("Write crowd and group-of boxes as plain boxes.", default=False)
    strict: bool = option("Write nothing if any data would be lost (exit 1).", default=False)

    def to_edits(self, encoding: str) -> Edits:
        """Return the changes to the classes."""
        return Edits(
            only=read_names("only_classes", self.only_classes, encoding) or (),
            drop=tuple(as_list(self.drop)),
            rename=read_renames(self.rename, encoding),
            category_ids=self.category_ids,
            order=read_class_names(self.class_list, encoding) if self.class_list else (),
        )


class SelectionOptions(Options, heading=MERGE):
    """How sources become one, and which images and boxes of it are written where."""

    same_image: SameImage = option(
        "If several SRC have the same image: fail, prefix all image names, or join the boxes.",
        default="error",
    )
    only_images: str | Sequence[str] | None = ONLY_IMAGES
    score_min: float | None = SCORE_MIN
    at_scores: Path | None = AT_SCORES
    min_box: float = option(
        "Drop boxes whose shorter side is below this.", "PIXELS", default=0, show_default=False
    )
    min_area: float = option("Drop boxes with a smaller area.", "PIXELS", default=0, show_default=False)
    drop_empty: bool = option("Drop images without boxes.", default=False)
    sample: int | str | None = option("Keep a random sample of N images, or P percent.", "N|P%", default=None)
    split_into: str | Mapping[str, int | float | str] | None = option(
        "Split the images into parts, balancing the classes: train:80,val:10,test:10.",
        "NAME:RATIO,...",
        default=None,
    )
    folds: int | None = option("Split the images into K folds, balancing the classes.", "K", default=None)
    group_by: str | None = option(
        "Keep images in the same split if they are of one video, or if the first group of REGEX matches the "
        "same text in their names.",
        "video|REGEX",
        default=None,
    )
    no_stratify: bool = option("Split without balancing classes.", default=False)
    seed: int | str | None = option(
        "Seed of --sample, --split-into and --folds. [default: 0]", "SEED", default=None
    )

    tile: str | int | tuple[int, int] | None = option(
        "Cut images into tiles of this size, and with --images their pictures.", "WxH", default=None
    )
    overlap: float = option("Share of a tile that the next one covers too.", "SHARE", default=OVERLAP)
    tile_min: float = option("Leave out objects of which a tile has a smaller share.", "SHARE", default=LEAST)
    untile: float | None = option(
        "Put tiles together; two detections of different tiles are one if they share this much of the "
        f"smaller one (default {SAME:g}).",
        "SHARE",
        default=None,
        flag_value=str(SAME),
    )

    def to_tiling(self) -> Tiling | None:
        """Return how images are cut, None if not. Raises UsageError if options need or exclude ``tile``."""
        if self.tile is None:
            for name, default in (("overlap", OVERLAP), ("tile_min", LEAST)):
                if getattr(self, name) != default:
                    raise UsageError(f"{spell(name)} needs {spell('tile')}, such as 640x640")
            return None
        if self.untile is not None:
            raise UsageError(f"give {spell('tile')} or {spell('untile')}, not both")
        sides = self.tile if isinstance(self.tile, (tuple, list)) else (self.tile,)
        # (640, 480) -> "640x480", 640 -> "640"
        return Tiling.of_text("x".join(map(str, sides)), self.overlap, self.tile_min)

    def to_selection(self, encoding: str) -> Selection:
        """Return which boxes and images are kept, and how they are divided."""
        return replace(
            make_selection(self.only_images, self.score_min, self.at_scores, encoding),
            min_box=self.min_box,
            min_area=self.min_area,
            drop_empty=self.drop_empty,
            sample=self.sample,
            split_into=self.split_into,
            folds=self.folds,
            group_by=self.group_by,
            stratify=not self.no_stratify,
            seed=self.seed,
        )


class ConvertOptions(
    EditOptions, SelectionOptions, ReadingOptions, SkipFilesOptions, ConvertFormatOptions, verb="convert"
):
    """The options of `odm.convert`."""

    source: Source = argument(kw_only=False)
    target: Path = argument(kw_only=False)
    from_: FormatName | Sequence[FormatName] | None = option(
        "Format of SRC, given once or once per SRC; auto-detected if omitted.",
        "FORMAT",
        default=None,
        repeatable=True,
        heading=SOURCE,
    )
    to: FormatName | None = option(
        "Format of DST; taken from its suffix if omitted.", "FORMAT", default=None, heading=TARGET
    )
    kind: Kind | None = option("Read SRC as ground truth or as detections.", default=None, heading=READING)
    gt: Path | None = option(
        "Ground truth that a results file refers to.", "FILE", default=None, path="read", heading=READING
    )
    overwrite: bool = option("Replace existing files in DST; others are kept.", default=False, heading=OUTPUT)
    dry_run: bool = option("Print the summary and write nothing.", default=False, heading=OUTPUT)
    options: Mapping[str, Any] | None = None
    from_options: Mapping[str, Any] | None = None
    source_options: Sequence[Mapping[str, Any]] | None = None
    to_options: Mapping[str, Any] | None = None
    edits: Edits | None = None
    selection: Selection | None = None
    log: Log | None = None


@verb(ConvertOptions)
def convert(options: ConvertOptions) -> Ledger:
    """Convert files or tables from one format to another, all or nothing, as ``odm convert`` does.

    >>> odm.convert("labels/", "coco.json", images="photos/")  # doctest: +SKIP

    Parameters
    ----------
    source, target
        A path, a list of paths, which are merged, or what `odm.read` takes; the path to write, outside it.
    from_, to
        Names of the formats; if omitted, that of the source is detected and that of the target taken from its
        suffix. For several sources, one format or a list with one for each.
    kind, gt
        ``"gt"`` or ``"det"``, and the ground truth that a results file refers to; its ids are written into a
        results file.
    only_images, score_min, at_scores
        Names of images to keep, the least score, or a file with the least score of each class.
    rename, drop, only_classes, class_list, category_ids
        Classes: ``{old: new}`` or ``"OLD=NEW"``, names to drop, names to keep, the classes to write in their
        order (a list, or a file with a name a line), and how they are numbered. Or together as `edits`.
    min_box, min_area, drop_empty, sample, split_into, folds, group_by, no_stratify, seed
        Which boxes and images to keep, and how to divide them, as `odm.converters.Selection` describes. Or
        together as `selection`.
    tile, overlap, tile_min, untile
        Cut images into tiles of ``"640x640"``, which share a part and leave out objects of which they have
        less; or put tiles together again: two detections are one from that share of the smaller one.
    clip, keep_groups, shapes
        Clip boxes to their image; write crowd and group-of boxes as ordinary ones; write outlines, masks and
        oriented boxes as ``"box"``, ``"polygon"``, ``"mask"`` or ``"oriented"``.
    same_image
        What to do with images that several sources have; see `odm.converters.merge`.
    strict, skip_bad, skip_bad_files
        Raise and write nothing if anything would be lost; leave out rows, or files, with errors.
    overwrite, dry_run
        Replace what is there; do everything except write.
    max_size, encoding, follow_links
        As for `read`.
    options, from_options, source_options, to_options
        Format options: for whichever of the two formats has them, for all sources, for each source (a list as
        long as that of the sources), for the target.
    log
        Collects issues and notes.
    **more
        The same as keywords: ``images="photos/"``, ``from_box="ltwh"``, ``to_dialect="tfod"``.

    Returns
    -------
    Ledger
        Boxes read = boxes written + boxes left out, each with its reason.

    Raises
    ------
    DataError
        If the data has errors or, with `strict`, if anything would be lost.
    UsageError, PathError
        As for `read`.
    """
    return run(options, options.source_options, Log() if options.log is None else options.log)


def run(options: ConvertOptions, source_options: Sequence[Mapping[str, Any]] | None, log: Log) -> Ledger:
    """Convert paths, with the `source_options` of each, or data in memory.

    Raises UsageError if data in memory have options for reading: ``from_options`` or `source_options`.
    """
    shared_options = {**options.formats[""], **(options.options or {})}
    from_options = {**options.formats["from"], **(options.from_options or {})}
    to_options = {**options.formats["to"], **(options.to_options or {})}
    target, source = os.fspath(options.target), options.source
    fields: TargetFields = {
        "edits": options.edits or options.to_edits(options.encoding),
        "selection": options.selection or options.to_selection(options.encoding),
        "tiling": options.to_tiling(),
        "untile": options.untile,
        "strict": options.strict,
        "keep_groups": options.keep_groups,
        "clip": options.clip,
        "shapes": options.shapes,
        "overwrite": options.overwrite,
        "dry_run": options.dry_run,
    }
    paths: Any = [source] if is_path(source) else source  # a list of paths, or data in memory
    if isinstance(paths, (list, tuple)) and paths and all(map(is_path, paths)):
        return pipeline.convert(
            paths,
            target,
            options=shared_options,
            from_options=from_options,
            source_options=source_options,
            to_options=to_options,
            from_=options.from_,
            to=options.to,
            kind=options.kind,
            gt=options.gt,
            skip_bad=options.skip_bad,
            skip_bad_files=options.skip_bad_files,
            same_image=options.same_image,
            log=log,
            **fields,
            **options.opening_arguments(),
        )
    if from_options or source_options:
        raise UsageError("convert: options for reading do not apply to data in memory")
    dataset = _read_from_memory(options, shared_options, log)
    return pipeline.write_tables(dataset, target, options.to, {**shared_options, **to_options}, log, **fields)


def _read_from_memory(options: ConvertOptions, format_options: Mapping[str, Any], log: Log) -> Dataset:
    """Return the data of the source as a dataset; a list with a `Dataset` in it is merged, others are one."""
    side = Side("--format", options.kind, options.from_, encoding="", options=format_options, shared={})  # type: ignore[arg-type]
    source = options.source
    values = [source]
    if isinstance(source, (list, tuple)) and any(isinstance(value, Dataset) for value in source):
        values = list(source)
    datasets = [get_dataset(read_source(value, side, options, log)) for value in values]
    if len(datasets) == 1:
        return datasets[0]
    return merge(datasets, same_image=options.same_image, log=log).dataset


def read_class_names(classes: Path | Sequence[str], encoding: str) -> tuple[str, ...]:
    """Return names of classes, or read them from a file of lines. Raises UsageError for YAML or JSON."""
    if not is_path(classes):
        return tuple(classes)  # type: ignore[arg-type]
    path = os.fspath(classes)
    if path.lower().endswith((".yaml", ".yml", ".json")):
        raise UsageError(
            f"{spell('class_list')} {shorten(path)}: give a text file with one class name per line"
        )
    return tuple(expand_files([f"@{path}"], encoding))
