"""The options that choose images, classes and detections, and what they leave of a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odm.converters.edit import Edits, apply_edits, check_classes
from odm.converters.ledger import Ledger
from odm.converters.selection import Selection, check_images, keep_chosen
from odm.verbs.options import READING, Options, option
from odm.verbs.sources import read_names
from odm.verbs.words import Path

if TYPE_CHECKING:
    from odm.tables import Dataset

ONLY_CLASSES = option("Keep only these classes (@FILE: one name per line).", "A,B|@FILE", default=None)
ONLY_IMAGES = option("Keep only these images (@FILE: one name per line).", "A,B|@FILE", default=None)
SCORE_MIN = option("Leave out detections with a lower score.", "SCORE", default=None)
AT_SCORES = option(
    "Leave out detections below the threshold of their class in FILE, written by --save-thresholds.",
    "FILE",
    default=None,
    path="read",
)


class ChoiceOptions(Options, heading=READING):
    """Which images and classes of the sources are used."""

    only_classes: str | Sequence[str] | None = ONLY_CLASSES
    only_images: str | Sequence[str] | None = ONLY_IMAGES


class ScoreOptions(ChoiceOptions, heading=READING):
    """Which detections are used, too."""

    score_min: float | None = SCORE_MIN
    at_scores: Path | None = AT_SCORES


def make_selection(
    only_images: str | Sequence[str] | None, score_min: float | None, at_scores: Path | None, encoding: str
) -> Selection:
    """Make the selection of the options. Raises UsageError or PathError for a bad value or file."""
    thresholds = None
    if at_scores is not None:
        from odm.evaluate.analysis.thresholds import read_thresholds
        from odm.verbs.analyses import read_threshold_file

        thresholds = read_thresholds(read_threshold_file(os.fspath(at_scores)))
    images = None if only_images is None else read_names("only_images", only_images, encoding)
    return Selection(only_images=images, score_min=score_min, at_scores=thresholds)


class Choice:
    """The images, classes and detections that the options choose; a dataset may lack some of the names."""

    def __init__(self, options: ChoiceOptions, encoding: str) -> None:
        """Read the options. Raises UsageError or PathError for a value or file that cannot be used."""
        score_min, at_scores = None, None
        if isinstance(options, ScoreOptions):
            score_min, at_scores = options.score_min, options.at_scores
        self.selection = make_selection(options.only_images, score_min, at_scores, encoding)
        self.classes = read_names("only_classes", options.only_classes, encoding) or ()
        # The names of all datasets that went through `take`, in order, as ordered sets for `check`.
        self._class_names: dict[str, None] = {}
        self._image_names: dict[str, None] = {}

    def take(self, dataset: Dataset) -> Dataset:
        """Return a dataset with only the chosen images, classes and detections; keep names for `check`."""
        names = dataset.categories.name
        self._class_names.update(dict.fromkeys(names))
        self._image_names.update(dict.fromkeys(dataset.images.name))
        classes = tuple(name for name in self.classes if name in names)
        # An empty `only` keeps all classes: if none of those chosen is here, all are dropped.
        edits = Edits(only=classes, drop=names if self.classes and not classes else ())
        unread = Ledger("", "")  # required, but nobody reads its counts here
        return keep_chosen(self.selection, apply_edits(edits, dataset, unread), unread)

    def check(self) -> None:
        """Raise UsageError for a chosen name that no dataset had which went through `take`."""
        check_classes("only_classes", self.classes, list(self._class_names))
        check_images(self.selection.only_images or (), self._image_names)


def choose(datasets: Sequence[Dataset], options: ChoiceOptions, encoding: str) -> list[Dataset]:
    """Return the datasets with only the chosen images, classes and detections.

    A dataset may lack some of the chosen names; raises UsageError for a name that all of them lack.
    """
    choice = Choice(options, encoding)
    remaining = [choice.take(dataset) for dataset in datasets]
    choice.check()
    return remaining
