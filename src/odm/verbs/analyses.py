"""Analyse the results of an evaluation: analyses, intervals, thresholds and ``--tags``.

The files of ``--tags`` give properties of images, such as weather or camera, as CSV or as lists of images.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from os.path import basename, splitext
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from odm.evaluate import Evaluation, Protocol, Result
from odm.evaluate.analysis.analysis_tables import Analyses
from odm.files import Output, Unreadable, read_bytes
from odm.issues import Log, PathError, UsageError, plural, printable, shorten, spell
from odm.names import stem
from odm.tables import Dataset
from odm.terminal import json_text
from odm.verbs.eval_options import AnalysedOptions
from odm.verbs.sources import as_list, read_text
from odm.verbs.words import Path


class Analyzer(msgspec.Struct, frozen=True):
    """The analyses of an evaluation, whose options were checked before anything is read."""

    options: AnalysedOptions
    names: tuple[str, ...]
    thresholds: dict[str, Any] | None
    """The content of the file ``at_scores``, if the options name one."""

    @classmethod
    def from_options(cls, options: AnalysedOptions, rules: Sequence[Protocol]) -> Analyzer:
        """Check the options. Raises UsageError if they conflict, PathError if thresholds cannot be read."""
        names: tuple[str, ...] = ()
        if options.analyze is not None:
            from odm.evaluate.analysis.analyses import parse_analyses

            names = parse_analyses(options.analyze)
        # Bad numbers are refused without ``ci`` too; good ones need no import.
        if options.ci or options.replicates < 1 or options.seed < 0:
            from odm.evaluate.analysis.bootstrap import Resampling

            Resampling(options.replicates, options.seed).check()
        thresholds_option = spell("thresholds")
        if options.thresholds is not None:
            from odm.evaluate.analysis.thresholds import parse_rule

            parse_rule(options.thresholds)
            if len(rules) > 1:
                raise UsageError(f"{thresholds_option} works with a single protocol and IoU")
        elif options.save_thresholds:
            raise UsageError(
                f"{spell('save_thresholds')} needs {thresholds_option}, as in {thresholds_option} f1"
            )
        if options.at_scores and options.at_score is not None:
            raise UsageError(f"{spell('at_scores')} and {spell('at_score')} cannot be combined")
        if options.bootstrap_areas and not options.ci:
            raise UsageError(f"{spell('bootstrap_areas')} needs {spell('ci')}")
        if options.tags and "slices" not in names:
            raise UsageError(f"{spell('tags')} needs {spell('analyze')} slices")
        return cls(
            options, names, read_threshold_file(os.fspath(options.at_scores)) if options.at_scores else None
        )

    def analyze(
        self, evaluation: Evaluation, truth: Dataset | None, log: Log, warn: Callable[[str], None]
    ) -> Evaluation:
        """Return the evaluation with its analyses; `truth` is its ground truth, `warn` takes warnings.

        In this order: scores of a file are applied, analyses and intervals, confusion, chosen thresholds.
        """
        options = self.options
        if self.thresholds is not None:
            evaluation = self._apply_thresholds(evaluation, self.thresholds, log)
        if self.names or options.ci:
            from odm.evaluate.analysis.analyses import analyze
            from odm.evaluate.analysis.bootstrap import Resampling

            slices = []
            if "slices" in self.names:
                slices = make_slices(options.tags, options.encoding, evaluation.joined.images, truth, log)
            n_replicates = options.replicates if options.ci else 0  # 0: no intervals
            resampling = Resampling(
                n_replicates, options.seed, areas=options.bootstrap_areas, track=log.track
            )
            evaluation = analyze(evaluation, self.names, slices=slices, resampling=resampling)
        if options.confusion is not None:
            normalised_by = None if options.confusion == "counts" else options.confusion
            results = [
                _add_analysis(result, "confusion", result.confusion().to_dict(normalised_by))
                for result in evaluation.results
            ]
            evaluation = replace(evaluation, results=results)
        return self._add_thresholds(evaluation, warn)

    def _apply_thresholds(self, evaluation: Evaluation, thresholds: dict[str, Any], log: Log) -> Evaluation:
        """Return the evaluation at the scores of ``at_scores``, whose content is `thresholds`.

        Notes say whether they were chosen on these images, and how many classes the file lacks.
        """
        from odm.evaluate.analysis.analyses import at_scores, make_digest
        from odm.evaluate.analysis.thresholds import read_thresholds

        path = os.fspath(self.options.at_scores or "")
        place = f"{spell('at_scores')} {printable(path)}"
        scores, default_score = read_thresholds(thresholds)
        # The file has a digest of the images for which the thresholds were chosen.
        if thresholds.get("images") == make_digest(evaluation.joined.evaluated):
            advice = "these thresholds were chosen on the same images, so the results are optimistic"
            log.note(f"{place}: {advice}")
        if unknown := [name for name in evaluation.joined.classes if name not in scores]:
            classes = f"{plural(len(unknown), 'class')} not in the file, such as {shorten(unknown[0])!r}"
            log.note(f"{place}: its default is used for {classes}")
        results = [at_scores(result, scores, default_score, path) for result in evaluation.results]
        return replace(evaluation, results=results)

    def _add_thresholds(self, evaluation: Evaluation, warn: Callable[[str], None]) -> Evaluation:
        """Return the evaluation with the thresholds of its only result, if there is a rule for them.

        `warn` takes a warning that names the classes of which no score meets the rule.
        """
        if self.options.thresholds is None:
            return evaluation
        from odm.evaluate.analysis.analyses import make_digest
        from odm.evaluate.analysis.table import table_of
        from odm.evaluate.analysis.thresholds import choose_thresholds

        result = evaluation.result
        chosen = choose_thresholds(table_of(result), self.options.thresholds)
        unreachable = [name for name, threshold in chosen["classes"].items() if threshold["score"] is None]
        if unreachable:
            names = ", ".join(shorten(name) for name in unreachable[:10])
            warn(
                f"warning: {chosen['rule']}: no score of these classes meets the rule, so none of their "
                f"detections are kept ({len(unreachable)} of {len(chosen['classes'])}): {names}"
            )
        data = {**chosen, "images": make_digest(evaluation.joined.evaluated)}
        return replace(evaluation, results=[_add_analysis(result, "thresholds", data)])

    def save_thresholds(self, evaluation: Evaluation) -> None:
        """Write the file of thresholds, if the options name one."""
        if target := self.options.save_thresholds:
            text = json_text(evaluation.result.analysis["thresholds"]) + "\n"
            with Output(os.fspath(target), overwrite=self.options.overwrite, single=True) as output:
                output.write("", text.encode())


def _add_analysis(result: Result, name: str, data: Any) -> Result:
    """Return a result with one more analysis."""
    return replace(result, analysis=Analyses({**result.analysis, name: data}))


def read_threshold_file(path: str) -> dict[str, Any]:
    """Read and check a file of thresholds. Raises PathError or UsageError, which name it."""
    from odm.evaluate.analysis.thresholds import read_thresholds

    name = printable(path)
    try:
        data = json.loads(read_bytes(path))
    except Unreadable as e:
        raise PathError(f"{name}: {e}") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{spell('at_scores')} {name}: invalid JSON: {e}") from None
    try:
        read_thresholds(data)  # raises for other content; the callers read it again
    except UsageError as e:
        raise UsageError(f"{spell('at_scores')} {name}: {e.args[0]}") from None
    thresholds: dict[str, Any] = data
    return thresholds


if TYPE_CHECKING:
    from odm.evaluate.analysis.slices import ImageSlice

Tags = dict[str, dict[str, list[str]]]
"""Tag name -> image name -> the values of the image."""

LISTED = "listed"
"""The value of the images in a list."""


def make_slices(
    paths: Path | Sequence[Path], encoding: str, images: Sequence[str], truth: Dataset | None, log: Log
) -> list[ImageSlice]:
    """Return the slices of the images by the tags in the files at `paths`, and by splits of the ground truth.

    Raises
    ------
    PathError, UsageError
        As `read_tags`, or if two files have a tag of the same name.
    """
    from odm.evaluate.analysis.slices import slice_by_tags

    tags = _tag_splits(images, truth)
    file_tags: Tags = {}
    for path in as_list(paths):
        for tag, values in read_tags(path, images, log, encoding).items():
            if tag in file_tags:
                raise UsageError(
                    f"{spell('tags')} {printable(path)}: {shorten(tag)!r} is already a tag of another file"
                )
            file_tags[tag] = values
    return slice_by_tags(images, tags | file_tags)  # a file's tag "split" replaces the splits


def _tag_splits(images: Sequence[str], truth: Dataset | None) -> Tags:
    """Return the splits of the ground truth as the tag ``split``; empty unless there are several."""
    if truth is None:
        return {}
    split_of_image = {
        name: split for name, split in zip(truth.images.name, truth.images.split, strict=True) if split
    }
    tags = {image: [split_of_image[image]] for image in images if image in split_of_image}  # one each
    return {"split": tags} if len({split for (split,) in tags.values()}) > 1 else {}


def read_tags(path: str, images: Sequence[str], log: Log, encoding: str = "") -> Tags:
    """Read a file of tags and return the values of every tag, by image.

    Each column but ``image`` is a tag; an image in several rows has several values. A file without such a
    column whose name does not end in ``.csv`` is a list with an image per line, and its name is the tag.
    Images are named with or without extension; those that are not evaluated are counted in a note.

    Raises
    ------
    PathError
        If the file cannot be read as text.
    UsageError
        If it is no such table, or has none of the images.
    """
    place, text = f"{spell('tags')} {printable(path)}", read_text(path, encoding)
    header, rows = _parse_table(path, text)
    image_column = header.index("image")
    tag_columns = [i for i in range(len(header)) if i != image_column]
    image_names = _ImageNames(images)

    # The values of each tag and image; an empty cell gives no value.
    tags: Tags = {header[i]: {} for i in tag_columns}
    n_unknown = 0
    for line, row in rows:
        if len(row) != len(header):
            raise UsageError(f"{place}:{line}: expected {len(header)} columns, found {len(row)}")
        image = image_names.find(row[image_column].strip())
        if image is None:
            n_unknown += 1
            continue
        for i in tag_columns:
            value, values = row[i].strip(), tags[header[i]].setdefault(image, [])
            if value and value not in values:
                values.append(value)

    if not any(tags.values()):
        if not n_unknown:
            raise UsageError(f"{place}: names no image")
        raise UsageError(f"{place}: names no image that is evaluated ({plural(n_unknown, 'row')})")
    if n_unknown:
        counted_rows = plural(n_unknown, "row refers to an image that is", "rows refer to images that are")
        log.note(f"{place}: {counted_rows} not evaluated")
    return tags


def _parse_table(path: str, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and the line number and cells of each row.

    A list of images becomes a table with the columns ``image`` and the name of the list, and the value
    `LISTED` in each row. Raises UsageError for a table with a bad header or cell.
    """
    from odm.csv_text import QuoteFault, normalise_line_ends, read_records

    text = normalise_line_ends(text)
    _, _, first_cells = next(read_records(text), (0, 0, []))  # (first line, last line, cells)
    is_table = "image" in first_cells
    if not is_table and not path.lower().endswith(".csv"):
        list_name, _ = splitext(basename(path))
        numbered_lines = enumerate(text.split("\n"), 1)
        return ["image", list_name], [
            (number, [line, LISTED]) for number, line in numbered_lines if line.strip()
        ]
    rows: list[tuple[int, list[str]]] = []
    for line, _, cells in read_records(text):
        if isinstance(cells, QuoteFault):
            location = f"{printable(path)}:{line + cells.lines}"  # the line of the cell in the record
            raise UsageError(f"{spell('tags')} {location}: expected cells of a CSV file, found {cells}")
        rows.append((line, cells))
    _, header = rows.pop(0) if rows else (0, [])
    if "image" not in header or len(header) < 2 or len(set(header)) < len(header):
        raise UsageError(
            f"{spell('tags')} {printable(path)}:1: expected a header with a column image and others, no two "
            f"alike, found {shorten(','.join(header))}"
        )
    return header, rows


class _ImageNames:
    """Finds images by name: with or without extension, and with folders before it if nothing else fits."""

    def __init__(self, images: Sequence[str]) -> None:
        """Index the images by their names and by their names without extension."""
        self.names = set(images)
        self.names_by_stem: dict[str, list[str]] = {}
        for image in images:
            self.names_by_stem.setdefault(stem(image), []).append(image)

    def find(self, name: str) -> str | None:
        """Return the image with a name or the only one with its stem; else also without folders, or None."""
        for candidate in dict.fromkeys((name, basename(name))):
            images_of_stem = self.names_by_stem.get(stem(candidate), [])
            if candidate in self.names:
                return candidate
            if len(images_of_stem) == 1:
                return images_of_stem[0]
        return None
