"""Hold a source that is about to be read: its request, format and options. It is read into a dataset once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import asdict, force_setattr, replace

from odm import inputs
from odm.codes import ALL_SCORED, NO_SCORES, SCORE_MISSING, SCORE_UNEXPECTED, UNKNOWN_SPLIT
from odm.converters.skipping import LeftOut, read_good_files
from odm.files import MAX_SIZE, InMemory, Source, conceal, is_encoding, open_source, reveal
from odm.formats import FORMATS, Format, detect, get, make_options, option_specs
from odm.issues import DataError, Log, PathError, UsageError, Usual, plural, printable, spell
from odm.names import BAD_NAME, SAME_SHORT_NAME, NameRule, apply_name_rule, refuse_name, with_slashes
from odm.tables import Builder, Dataset, Kind


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to read and how, as the user asked for one source.

    ``options`` go to the format and must be its own; ``shared`` go to it where it has them.
    """

    path: str
    format: str | None = None
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    shared: Mapping[str, Any] = msgspec.field(default_factory=dict)
    spare: frozenset[str] = frozenset()
    """Names of `options` that go to other sources too, so the format need not have them."""
    kind: Kind | None = None
    flag: str = "--format"
    """The option that names the format; for messages."""
    follow_links: bool = False
    max_size: int = MAX_SIZE
    encoding: str = ""
    """That of the text files; empty for UTF-8, or what their bytes tell."""
    own_fields: bool = False
    """Whether fields that the model has no column for are kept, for a target that has them too."""

    wants: frozenset[str] = frozenset()
    """The words of `SHAPE_WORDS` for the shapes to read. With any other word of ``keeps`` beside them, and
    `own_fields`, shapes may be passed on as the JSON of the source instead."""

    unlisted: frozenset[str] = frozenset()
    """Which ids of results, ``image_id`` and ``category_id``, may be ones that the ground truth lacks."""

    def __post_init__(self) -> None:
        """Hide the credentials of an address in ``path``; they are revealed when it is opened."""
        force_setattr(self, "path", conceal(self.path))

    def __reduce__(self) -> Any:
        """Pickle with the credentials of an address, which another process must know."""
        fields = asdict(self)
        return functools.partial(Request, **{**fields, "path": reveal(self.path)}), ()


def as_json(value: Any) -> Any:
    """Return a COCO dictionary or a list of results as a file in memory, and any other value as it is.

    Raises ValueError if it cannot be written as JSON.
    """
    if isinstance(value, Mapping) and {"images", "annotations"} <= value.keys():
        return InMemory.from_values("<dictionary>", value)
    if isinstance(value, (list, tuple)) and value and all(map(_is_result, value)):
        return InMemory.from_values("<list>", value)
    return value


def _is_result(value: Any) -> bool:
    return isinstance(value, Mapping) and "image_id" in value


def reading_options(format_: Format) -> frozenset[str]:
    """The names of the options that a format has for reading."""
    return frozenset(spec.name for spec in option_specs(format_.options) if spec.side in ("read", "both"))


def choose_options(
    format_: Format, format_options: Mapping[str, Any], shared: Mapping[str, Any], side: str
) -> Any:
    """Make the options of a format for `side`, ``read`` or ``write``: all of `format_options`, and those of
    `shared` that the format has for this side. Paths among them are recorded as inputs.
    """
    names = {spec.name for spec in option_specs(format_.options) if spec.side in (side, "both")}
    shared_options = {name: value for name, value in shared.items() if name.replace("-", "_") in names}
    options = {**shared_options, **format_options}
    paths = {spec.name for spec in option_specs(format_.options) if spec.is_path}
    # `lookup`: a folder of images, for one, is only searched for files by name.
    inputs.name(*(value for name, value in options.items() if name.replace("-", "_") in paths), lookup=True)
    return make_options(format_, options)


SHAPE_WORDS = frozenset({"polygon", "mask", "oriented", "keypoints"})
"""Words of `Format.keeps` that a reader is asked for."""
FIELD_WORD = "fields"
"""In `Request.wants`: also read the numbers that only some protocols use, see `Builder.wants_fields`."""

Counterpart = Callable[[], Dataset | None]
"""Gives the dataset that another refers to, such as the ground truth of a results file."""


class PendingSource:
    """A source that becomes a dataset when it is first read."""

    def __init__(
        self, request: Request, log: Log, *, skip_bad_files: bool = False, options: Any = None
    ) -> None:
        """Open the path of the request; the format is set, and the dataset read, later."""
        self.request = request
        self.log = log
        self.source = self._open()
        self.format: Format | None = None
        self.decides_with: PendingSource | None = None
        """The other side, where both have one format and the same options."""
        self._decided: Any = None
        """The options with what was decided with the other side, until this side is read."""
        self.may_lack_split = False
        """Whether a split that is asked of both sides may be unknown here, where there are no splits."""
        self.without_split: Log | None = None
        """What was reported about a split that is unknown here, if that is allowed."""
        self._dataset: Dataset | None = None
        self._reading = False
        self._asked_back = False
        """Whether the other side asked for this one while this one was being read."""
        self._has_tried = False
        """Whether `read_for` has read this side, which it does only once."""
        self._draft: Dataset | None = None
        """What was read for the other side, which may be incomplete."""
        self.has_asked = False
        """Whether the other side was asked for something."""
        self.left_out = LeftOut()
        self._skip_bad_files = skip_bad_files
        self._options = options
        """The options, where they are complete already."""

    def _open(self) -> Source:
        """Open the path of the request. UsageError for an unknown encoding, PathError for the path."""
        request = self.request
        if request.encoding and not is_encoding(request.encoding):
            raise UsageError(
                f"{spell('encoding')}: unknown encoding {printable(request.encoding)}; "
                "give one such as gb18030"
            )
        return open_source(
            request.path,
            follow_links=request.follow_links,
            max_size=request.max_size,
            encoding=request.encoding,
        )

    def find_format(self) -> Format:
        """Return the format that the user named, else the one that is detected, else the one whose options
        the user gave, if only one format has them, which is noted. Raises UsageError, or PathError for an
        empty folder.
        """
        if self.request.format is not None:
            return get(self.request.format)
        try:
            return detect(self.source, self.log, flag=self.request.flag)
        except UsageError:
            names = {name.replace("-", "_") for name in (*self.request.options, *self.request.shared)}
            # For each option the formats that have it; of several, those whose suffix a file has.
            owners = {name: [f for f in FORMATS if name in reading_options(FORMATS[f])] for name in names}
            with_files = {f for f in FORMATS if self.source.with_suffix(*FORMATS[f].suffixes)}
            likely = [
                [f for f in candidates if f in with_files] or candidates for candidates in owners.values()
            ]
            only_formats = {formats[0] for formats in likely if len(formats) == 1}
            if len(only_formats) != 1:
                if self.source.is_dir and not self.source.files and not self.source.bad_links:
                    raise PathError(f"{printable(self.source.path)}: this folder contains no files") from None
                raise
        format_ = FORMATS[only_formats.pop()]
        self.log.note(
            f"{printable(self.source.path)}: read as {format_.name}, the only format with these options"
        )
        return format_

    def complete_options(self) -> Any:
        """Return all options for reading; without the split, if this side was read whole."""
        assert self.format is not None
        if self._options is not None:
            return self._options
        shared = self.request.shared
        if self.without_split is not None:
            shared = {name: value for name, value in shared.items() if name != "split"}
        return choose_options(self.format, self.request.options, shared, "read")

    @property
    def shares_split(self) -> bool:
        """Whether the format has the option ``split`` for reading, and it was given to both sides."""
        assert self.format is not None
        names = reading_options(self.format)
        return "split" in self.request.shared and "split" not in self.request.options and "split" in names

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read: no file at all, or none with a byte in it."""
        return not any(self.source.head(file) for file in self.source.files)

    def counterpart(self) -> Dataset | None:
        """Return the dataset for the other side; None if this side is being read or has not been read."""
        self._asked_back |= self._reading
        return None if self._reading else self._dataset

    def read_for(self, other_side: PendingSource) -> Dataset | None:
        """Read this side for `other_side`, which is being read and needs it; None if both are being read.

        If this side needed the other as well and is incomplete without it, its messages are dropped and it is
        read again when it is its turn.
        """
        other_side.has_asked = True
        if self._has_tried or self._dataset is not None or self._reading:
            # It was read, or is being read; a dataset without images is of less use than an earlier draft.
            dataset = self._dataset
            return self._draft if dataset is None or not len(dataset.images) else dataset

        # Read it with a log of its own. While that is done, the other side may be asked for in turn, by
        # `other_side.counterpart`, and has nothing yet: then this side may be incomplete.
        self._has_tried, is_incomplete = True, False
        side_log, self.log, other_side._asked_back = self.log, self.log.fresh(), False
        try:
            self._draft = self.read(other_side.counterpart)
            # What the other side might have made up for: errors, files left out, sizes of images.
            is_lacking = self.log.errors or self.left_out.files or (len(self._draft) and self._draft.relative)
            is_incomplete = other_side._asked_back and bool(is_lacking)
        except DataError:  # perhaps only for want of what the other side will know
            is_incomplete = other_side._asked_back
            if not is_incomplete:
                raise
        finally:
            trial_log, self.log = self.log, side_log
            if is_incomplete:
                self._dataset, self.left_out, self.without_split = None, LeftOut(), None
                self.source = self._open()  # with the files that were left out
            else:
                side_log.extend(trial_log)
        return self._draft

    def read(self, counterpart: Counterpart | None) -> Dataset:
        """Read the dataset once, and return it. `counterpart` is called if the reader needs the other side.

        Files that are left out are noted. Data of another kind than requested is one error, not many.
        """
        if self._dataset is not None:
            return self._dataset
        assert self.format is not None
        log, self._reading = self.log, True

        def read_into(file_log: Log) -> Dataset:
            self.log = file_log
            return self._read(counterpart)

        try:
            if self._skip_bad_files:
                dataset, self.left_out = read_good_files(self.source, log, read_into)
            else:
                dataset = self._read(counterpart)
        finally:
            self._reading, self.log = False, log
        for path in self.left_out.files:
            log.note(f"{printable(path)}: left out, with its images ({spell('skip_bad_files')})")

        options = self.complete_options()
        # Files that no reader asked for; of a file that names others (`inner`), those beside these.
        report_unread(self.source.inner or self.source, self.log)
        self.source.forget()
        option_names = reading_options(self.format)
        dataset = replace(dataset, path=self.source.path, reading_options=option_names)
        if "order" not in self.format.adapted(options).keeps:  # classes are in order of first appearance
            categories = replace(dataset.categories, ordered=False)
            dataset = replace(dataset, categories=categories)
        self._report_wrong_kind(dataset)
        self._dataset = dataset
        return dataset

    def _report_wrong_kind(self, dataset: Dataset) -> None:
        """Report one error if the dataset is of another kind than requested, in place of one for each row.

        Where the kind of a row is known by its score, the reader has left out and reported every row.
        """
        for row_code, all_code in ((SCORE_UNEXPECTED, ALL_SCORED), (SCORE_MISSING, NO_SCORES)):
            n = self.log.counts[row_code.name]
            if n > 1 and not len(dataset):  # a single one is reported with its row
                issue = next((i for i in self.log.issues if i.code == row_code.name), None)
                location = dataset.path if issue is None else (issue.path, issue.line, issue.pointer)
                self.log.withdraw(row_code.name)
                self.log.report(all_code, location, n=n)
        kind = self.request.kind
        if len(dataset) and kind is not None and dataset.kind != kind:  # the format holds only one kind
            code = ALL_SCORED if kind == "gt" else NO_SCORES
            self.log.report(code, dataset.location(0), n=len(dataset))

    def _read(self, counterpart: Counterpart | None) -> Dataset:
        """Read the source, or make an empty dataset of detections from an empty folder.

        If both sides were asked for a split and this source has no splits at all, it is read whole.
        """
        if self.source.is_dir and not self.source.files and not self.source.bad_links:
            if self.request.kind != "det":
                raise PathError(f"{printable(self.source.path)}: this folder contains no files")
            self.log.note(f"{printable(self.source.path)}: an empty folder, so there are no detections")
            return self._make_builder(counterpart).build()
        if not (self.may_lack_split and self.shares_split):
            return self._read_with(counterpart, self.log)
        split_log = self.log.fresh()
        dataset = self._read_with(counterpart, split_log)
        if split_log.counts[UNKNOWN_SPLIT.name]:
            # Read it without the split, which is left out while `without_split` is set, and keep that if no
            # image turns out to be in another split.
            self.without_split = split_log
            self.source.forget()
            whole_log = self.log.fresh()
            whole_dataset = self._read_with(counterpart, whole_log)
            split = self.request.shared["split"]
            if set(whole_dataset.images.split) <= {"", split}:
                whole_log.note(f"{printable(self.source.path)}: there are no splits, so everything is read")
                self.log.extend(whole_log)
                return whole_dataset
            self.without_split = None
        self.log.extend(split_log)
        return dataset

    def _make_builder(self, counterpart: Counterpart | None) -> Builder:
        """Make a builder that asks the reader for the kind, shapes and fields of the request."""
        builder, request = Builder(counterpart), self.request
        builder.kind, builder.keeps_extra = request.kind, request.own_fields
        builder.unlisted = request.unlisted
        builder.wants_fields = FIELD_WORD in request.wants
        # A target that keeps more than shapes gets them as the JSON of the source, among its fields.
        has_own_fields = self.format is not None and "own_fields" in self.format.keeps
        wants_more = bool(request.wants - {FIELD_WORD} - SHAPE_WORDS)
        builder.passes_shapes_on = request.own_fields and has_own_fields and wants_more
        # All that are passed on are read, too, so that they are checked.
        builder.wants = SHAPE_WORDS if builder.passes_shapes_on else request.wants & SHAPE_WORDS
        return builder

    def _read_with(self, counterpart: Counterpart | None, log: Log) -> Dataset:
        """Read the source with a builder, and report to `log`."""
        assert self.format is not None
        builder, options = self._make_builder(counterpart), self.complete_options()
        other_side, decide = self.decides_with, self.format.decide_together
        if decide is not None and other_side is not None:
            # The side that is read first decides for both, and leaves the other one its options.
            options_here, self._decided = self._decided, None
            if options_here is None:
                self.has_asked = True
                options_here, options_there = decide(self.source, other_side.source, log, options)
                if other_side._dataset is None:  # noqa: SLF001 -- one of this class
                    other_side._decided = options_there  # noqa: SLF001
            options = options_here
        rule: NameRule | None = getattr(options, "names", None)
        # What becomes infinite is checked afterwards.
        with np.errstate(over="ignore", invalid="ignore"), apply_name_rule(rule):
            self.format.read(self.source, builder, log, options)
        dataset = builder.build()
        if rule is None and "\\" not in "".join(dataset.images.name):
            return dataset
        return _shorten_names(dataset, self.source.path, rule, log)


def _shorten_names(dataset: Dataset, source: str, rule: NameRule | None, log: Log) -> Dataset:
    """Shorten the image names of a dataset by a rule; without one, only put ``/`` between their folders.

    If a new name is invalid or two are equal, that is reported, and the dataset is returned unchanged.
    """
    names = dataset.images.name
    new_names = tuple(map(rule or with_slashes, names))
    row_of_name: dict[str, int] = {}
    n_errors = log.errors
    for row, name in enumerate(new_names):
        location = dataset.image_place(row)
        if (reason := refuse_name(name)) is not None:  # readers check only names from inside a file
            log.report(BAD_NAME, location, value=names[row], reason=reason)
        elif (first_row := row_of_name.setdefault(name, row)) != row:
            log.report(SAME_SHORT_NAME, location, first=names[first_row], second=names[row], value=name)
    if log.errors > n_errors:
        return dataset
    changed_rows = [i for i, name in enumerate(new_names) if name != names[i]]
    summary = f"no image name is changed by {spell('names')} {printable(str(rule))}"
    if changed_rows:
        old_name, new_name = names[changed_rows[0]], new_names[changed_rows[0]]
        change = (
            f"read with / for \\: {new_name!r}"
            if rule is None
            else f"shortened, {old_name!r} to {new_name!r}"
        )
        summary = f"{plural(len(changed_rows), 'image name is', 'image names are')} {change}"
    log.note(f"{printable(source)}: {summary}{', ...' if len(changed_rows) > 1 else ''}")
    return replace(dataset, images=replace(dataset.images, name=new_names))


def report_unread(source: Source, log: Log) -> None:
    """Report links that are not followed, and note hidden files."""
    source.report_links(log)
    if source.hidden:
        n = len(source.hidden)
        subject = plural(n, "hidden file or folder is", "hidden files and folders are")
        example = f"{printable(source.hidden[0])}{', ...' if n > 1 else ''}"
        log.note(Usual(f"{printable(source.path)}: {subject} not read ({example})"))
