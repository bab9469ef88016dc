"""The ledger of a conversion: what was read, what was written, and what happened to the difference."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from odm.formats import Format
from odm.issues import first_few, plural, printable, spell
from odm.names import stem
from odm.tables import GROUPS, NO_ID, Dataset, Flag, LabelState, distinct, freeze
from odm.tables.extra_fields import NOTHING, count_extra, join_members
from odm.views import Shown

BAD_FILES = "files left out, with their images"


class Ledger(Shown, msgspec.Struct):
    """What became of everything that was read.

    It always balances: ``read + pieces == written + sum(left_out)``.
    """

    source_format: str
    target_format: str
    read: int = 0
    """Boxes in the source, those that could not be read included."""
    written: int = 0
    images: int = 0
    categories: int = 0
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    """Boxes that were not written, by reason."""
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    """Values that the target cannot hold, by their name."""
    changed: dict[str, int] = msgspec.field(default_factory=dict)
    """What is written otherwise than it was read, by what happened."""
    sources: tuple[tuple[str, str, int, int], ...] = ()
    """Path, format, images and boxes of each source, where there are several."""
    images_left_out: dict[str, int] = msgspec.field(default_factory=dict)
    """Images that were not written, by reason."""
    parts: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Images and boxes of each part, where the data was divided; of a fold those that it is tested with."""
    bad_files: tuple[str, ...] = ()
    """Files of the source that were left out, with their images, because of their errors."""
    files: tuple[str, ...] = ()
    stayed: tuple[str, ...] = ()
    """Files that lay in the target before and were not written."""
    dry_run: bool = False
    pieces: int = 0
    """Boxes that were added because a box stands in several tiles: one less than the tiles of each."""

    @property
    def balances(self) -> bool:
        """Whether every box that was read is accounted for."""
        return self.read + self.pieces == self.written + sum(self.left_out.values())

    @property
    def lossless(self) -> bool:
        """Whether nothing was left out and nothing was lost."""
        return not (self.left_out or self.images_left_out or self.lost or self.bad_files)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of the files that were written only their number."""
        return asdict(self) | {
            "files": len(self.files),
            "stayed": list(self.stayed),
            "bad_files": list(self.bad_files),
        }

    def rows(self) -> list[tuple[int, str]]:
        """Return the rows of the summary: a number, and what it counts."""
        verb = "would be written" if self.dry_run else "written"
        rows = [(self.read, f"boxes read ({self.source_format})")]
        rows += [
            (boxes, f"of them from {path} ({name}), {plural(images, 'image')}")
            for path, name, images, boxes in self.sources
        ]
        if self.pieces:
            rows.append((self.pieces, "added: boxes that stand in further tiles, too"))
        rows.append((self.written, f"boxes {verb} ({self.target_format})"))
        rows += [(n, f"left out: {reason}") for reason, n in self.left_out.items()]
        rows += [(n, f"left out: images {reason}") for reason, n in self.images_left_out.items()]
        rows += [(n, f"lost: {text}") for text, n in self.lost.items()]
        rows += [(n, f"changed: {text}") for text, n in self.changed.items()]
        rows.append((self.images, "image" if self.images == 1 else "images"))
        rows += [
            (images, f"of them in {part_name}, {plural(boxes, 'box')}")
            for part_name, (images, boxes) in self.parts.items()
        ]
        rows.append((self.categories, "class" if self.categories == 1 else "classes"))
        rows.append((len(self.files), f"{'file' if len(self.files) == 1 else 'files'} {verb}"))
        if self.stayed:
            examples = first_few(self.stayed, 5, str)
            rows.append((len(self.stayed), f"existing files kept: {examples}"))
        if self.bad_files:
            n = len(self.bad_files)
            rows.append((n, "file left out, with its images:" if n == 1 else f"{BAD_FILES}:"))
        return rows

    def __repr__(self) -> str:
        numbers = (
            f"{self.read} boxes read, {self.written} written, {self.images} images, {len(self.files)} files"
        )
        return f"<Ledger: {self.source_format} to {self.target_format}, {numbers}>"

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(str(n)) for n, _ in rows)
        lines = [f"{n:>{width}}  {printable(text)}" for n, text in rows]
        return "\n".join([*lines, *(f"{'':>{width}}    {printable(path)}" for path in self.bad_files)])

    def leave_out(self, dataset: Dataset, mask: np.ndarray[Any, Any], reason: str) -> Dataset:
        """Return the dataset without the boxes under `mask` (n,), which are booked under `reason`."""
        n = int(np.count_nonzero(mask))
        if not n:
            return dataset
        self.left_out[reason] = self.left_out.get(reason, 0) + n
        return dataset.take(~mask)

    def change(self, what: str, n: int) -> None:
        """Book `n` changes of a kind."""
        if n:
            self.changed[what] = self.changed.get(what, 0) + n

    def lose(self, what: str, n: int) -> None:
        """Book `n` values that the target cannot hold."""
        if n:
            self.lost[what] = self.lost.get(what, 0) + n


def format_losses(ledger: Ledger) -> str:
    """Return in one line what a conversion loses; empty if nothing."""
    rows = {**ledger.left_out, **ledger.lost}
    rows |= {f"images {name}": n for name, n in ledger.images_left_out.items()}
    if ledger.bad_files:
        rows[BAD_FILES] = len(ledger.bad_files)
    return ", ".join(f"{n} {name}" for name, n in rows.items())


def drop_unsupported(
    dataset: Dataset, source: Format, target: Format, ledger: Ledger, *, keep_groups: bool = False
) -> Dataset:
    """Return the part of a dataset that the target can hold, and book in the ledger what it cannot hold.

    Only boxes of groups are dropped here; the rest is booked, and left to the writer not to write.

    A loss is something that somebody annotated and that this data has. Sizes and extensions of image files,
    and ids of classes, are booked as changes. With `keep_groups`, crowds become ordinary boxes.
    """
    keeps = target.keeps
    dataset = _drop_groups(dataset, target, ledger, keep_groups=keep_groups)
    boxes, images, categories = dataset.boxes, dataset.images, dataset.categories
    for flag in Flag:
        name = _name_flag(flag)
        if name not in keeps and not flag & GROUPS:  # `_drop_groups` has booked those
            ledger.lose(f"the attribute {name!r}", int(np.count_nonzero(boxes.has(flag))))
    if "score" not in keeps:
        ledger.lose("scores", int(np.count_nonzero(~np.isnan(boxes.score))))
    elif target.stored_scores is not None and dataset.kind == "det":
        is_rounded = target.stored_scores(boxes.score) != boxes.score
        ledger.change("scores rounded as the format stores them", int(np.count_nonzero(is_rounded)))
    if "area" not in keeps:
        has_other_area = ~np.isnan(boxes.area) & (boxes.area != boxes.wh[:, 0] * boxes.wh[:, 1])
        ledger.lose("areas that differ from width * height", int(np.count_nonzero(has_other_area)))
    if "size" not in keeps and "size" in source.keeps:
        # A fact about the picture, which can be asked for it again, and nothing that was annotated.
        ledger.change("image sizes are not written", int(np.count_nonzero(images.width > 0)))
    if "split" not in keeps:
        ledger.lose("the split of an image", sum(map(bool, images.split)))
    if "video" not in keeps and images.video is not None:
        ledger.lose("videos and frame numbers of images", int(np.count_nonzero(images.video >= 0)))
    if "track" not in keeps and boxes.track is not None:
        ledger.lose("tracks of boxes", int(np.count_nonzero(boxes.track >= 0)))
    if "group" not in keeps and boxes.group is not None:
        # Groups are numbered in each image, so image << 32 | group is one number for each of them.
        keys = (boxes.image.astype(np.int64) << 32 | boxes.group)[boxes.group >= 0]
        _, group_sizes = np.unique(keys, return_counts=True)
        ledger.lose("groups of boxes", int(group_sizes[group_sizes > 1].sum()))  # a box alone is no group
    if "track_score" not in keeps:
        ledger.lose("scores of tracks", int(np.count_nonzero(~np.isnan(dataset.tracks.score))))
    if "empty" not in keeps:
        ledger.lose("images without objects", len(images) - len(distinct(boxes.image)))
    if "unused" not in keeps:
        ledger.lose("classes without objects", len(categories) - len(distinct(boxes.category)))
    if "parent" not in keeps:
        ledger.lose("parent classes", int(np.count_nonzero(categories.parent >= 0)))
    if "frequency" not in keeps:
        ledger.lose("class frequencies", sum(map(bool, categories.frequency)))
    for verdict, words in _VERDICT_WORDS.items():
        if verdict.name.lower() not in keeps:
            ledger.lose(words, int(np.count_nonzero(dataset.labels.verdict == verdict)))
    for name, n in dataset.extras.items():
        if name not in keeps:
            _lose_field(name, n, target, ledger)
    _book_extra(dataset, target, ledger)
    if "extension" not in keeps:
        ledger.change("image names without their extension", sum(stem(name) != name for name in images.name))
    has_id = categories.source_id != NO_ID
    if "category_id" not in keeps and "category_id" in source.keeps and has_id.any():
        is_renumbered = categories.source_id != np.arange(len(categories))
        change = "class ids are renumbered" if "order" in keeps else "class ids are not written"
        ledger.change(change, int(np.count_nonzero(is_renumbered & has_id)))
    return dataset


def _drop_groups(dataset: Dataset, target: Format, ledger: Ledger, *, keep_groups: bool) -> Dataset:
    """Drop the crowd boxes, group-of boxes and regions that the target cannot mark as such.

    With `keep_groups` they stay, as ordinary boxes. A box with several of these flags is dropped only if the
    target can mark none of them; otherwise the others are booked as lost.
    """
    keeps = target.keeps
    is_region = dataset.boxes.has(Flag.REGION)
    if "region" not in keeps and "crowd" in keeps and is_region.any():
        # REGION goes, CROWD comes, or stays on a box that has both.
        flags = dataset.boxes.flags & ~np.uint16(Flag.REGION) | is_region * np.uint16(Flag.CROWD)
        dataset = replace(dataset, boxes=replace(dataset.boxes, flags=freeze(flags)))
        ledger.change(
            "regions to ignore, written as crowd boxes of one class", int(np.count_nonzero(is_region))
        )
    if not dataset.boxes.has(GROUPS).any():
        return dataset

    # The boxes that the target marks as standing for no single object, whether by their class or by a flag.
    boxes = dataset.boxes
    has_crowd_class = np.zeros(len(boxes), np.bool_)
    if target.crowd_class in dataset.categories.name:
        has_crowd_class = boxes.category == dataset.categories.name.index(target.crowd_class)
    is_kept = boxes.has(Flag.CROWD) & has_crowd_class
    for flag in _GROUP_FLAGS:
        if _name_flag(flag) in keeps:
            is_kept |= boxes.has(flag)

    is_dropped = np.zeros(len(boxes), np.bool_)
    for flag in _GROUP_FLAGS:
        name = _name_flag(flag)
        is_marked = boxes.has(flag)
        if flag is Flag.CROWD:
            is_marked &= ~has_crowd_class
        if name in keeps:
            if flag is not Flag.REGION and target.exclusive_region:
                ledger.lose(f"the attribute {name!r}", int(np.count_nonzero(is_marked & is_region)))
            continue
        ledger.lose(f"the attribute {name!r}", int(np.count_nonzero(is_marked & is_kept)))
        is_marked &= ~is_kept & ~is_dropped  # each box is booked once
        noun = "regions to ignore" if flag is Flag.REGION else f"{name.replace('_', '-')} boxes"
        subject = f"{noun}, which {target.name} cannot represent"
        n = int(np.count_nonzero(is_marked))
        if keep_groups:
            ledger.change(f"{subject}, written as ordinary boxes", n)
        elif n:
            ledger.left_out[f"{subject} ({spell('keep_groups')} writes them)"] = n
        is_dropped |= is_marked
    return dataset if keep_groups else dataset.take(~is_dropped)


def _name_flag(flag: Flag) -> str:
    """Return the word of `Format.keeps` for a flag."""
    return str(flag.name).lower()


def _lose_field(name: str, n: int, target: Format, ledger: Ledger) -> None:
    """Book `n` values of a field as lost, with the option that would write them if there is one."""
    words, shape = _SHAPE_FIELDS.get(name, (name, ""))
    ledger.lose(words + target.shape_advice(shape), n)


def _book_extra(dataset: Dataset, target: Format, ledger: Ledger) -> None:
    """Book extra fields of the source as lost, or, if the target keeps them, the fields of files that differ
    where their images now share a file.
    """
    images, keeps = dataset.images, target.keeps
    if "own_fields" not in keeps:
        counts = count_extra(images.extra) + count_extra(dataset.categories.extra)
        for name in ("keypoints", "skeleton"):  # names of points: no loss beside that of the points of boxes
            del counts[name]
        counts += count_extra(dataset.boxes.extra)
        del counts["num_keypoints"]  # follows from the points
        for file in dataset.files:
            counts.update(key for key, value in file.extra.items() if value not in NOTHING)
        for name, n in counts.items():
            if name not in keeps:
                _lose_field(name, n, target, ledger)
        return
    if not any(file.extra for file in dataset.files):
        return
    # All images of a split, or all images, will be in one file: the files that they come from now.
    splits = images.split if "split" in keeps else [""] * len(images)
    splits_and_files = dict.fromkeys(zip(splits, images.file.tolist(), strict=True))
    for split in dict.fromkeys(splits):
        files = [file for file_split, file in splits_and_files if file_split == split and file >= 0]
        *_, n_changes = join_members([dataset.files[file].extra for file in files])  # by what happened
        for change, n in n_changes.items():
            ledger.change(change, n)


_GROUP_FLAGS = (Flag.REGION, Flag.CROWD, Flag.GROUP_OF)
"""The flags of `GROUPS`; a dropped box that has several is booked under the first."""

_SHAPE_FIELDS = {
    "segmentation": ("outlines of boxes", "polygon"),
    "keypoints": ("keypoints of boxes", "keypoints"),
    "flip_idx": ("flip_idx: which keypoints change places in a mirrored picture", ""),
}
"""By field that was counted but not read: its name in the summary, and its word of `Format.keeps`."""

_VERDICT_WORDS = {
    LabelState.ABSENT: "image-level labels: class absent",
    LabelState.PRESENT: "image-level labels: class present",
    LabelState.PARTIAL: "image-level labels: class not fully annotated",
}
