"""What an evaluation does with a result beyond its numbers: analyses, intervals, thresholds and ``--tags``.

The files of ``--tags`` give properties of images, such as weather or camera, as CSV or as lists of images.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os.path import basename, splitext
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from odm.evaluate import Evaluation, Protocol
from odm.evaluate.analysis.analysis_tables import Analyses
from odm.files import Output, Unreadable, read_bytes
from odm.issues import Log, PathError, UsageError, plural, printable, shorten
from odm.names import stem
from odm.tables import Dataset
from odm.terminal import json_text
from odm.verbs.sources import text_of_file


class Asked(msgspec.Struct, frozen=True):
    """The analyses that are asked for, checked before anything is read."""

    given: dict[str, Any]
    analyses: tuple[str, ...]
    thresholds: dict[str, Any] | None

    @classmethod
    def of(cls, given: dict[str, Any], rules: Sequence[Protocol]) -> Asked:
        """UsageError, or PathError for a file of thresholds, where options make no sense."""
        analyses: tuple[str, ...] = ()
        try:
            if given["analyze"] is not None:
                from odm.evaluate.analysis.analyses import parse_analyses

                analyses = parse_analyses(given["analyze"])
            if given["ci"] or given["replicates"] < 1 or given["seed"] < 0:
                from odm.evaluate.analysis.bootstrap import Resampling

                Resampling(given["replicates"], given["seed"]).check()
            if given["thresholds"] is not None:
                from odm.evaluate.analysis.thresholds import parse_rule

                parse_rule(given["thresholds"])
        except UsageError as e:
            raise UsageError(f"--{e.args[0]}") from None  # a message begins with the name of what is wrong
        if given["save_thresholds"] and given["thresholds"] is None:
            raise UsageError("--save-thresholds needs --thresholds, as in --thresholds f1")
        if given["thresholds"] is not None and len(rules) > 1:
            raise UsageError("--thresholds works with a single protocol and IoU")
        if given["at_scores"] and given["at_score"] is not None:
            raise UsageError("--at-scores and --at-score cannot be combined")
        if given["bootstrap_areas"] and not given["ci"]:
            raise UsageError("--bootstrap-areas needs --ci")
        if given["confusion"] and given["output"] == "csv":
            raise UsageError("--confusion cannot be printed as CSV: --save DIR writes it to confusion.csv")
        if given["tags"] and "slices" not in analyses:
            raise UsageError("--tags needs --analyze slices")
        return cls(given, analyses, _read_json(given["at_scores"]) if given["at_scores"] else None)

    def applied(
        self, evaluation: Evaluation, truth: Dataset | None, log: Log, warn: Callable[[str], None]
    ) -> Evaluation:
        """The evaluation with what was asked for; `truth` is its ground truth, `warn` takes warnings."""
        given, path = self.given, self.given["at_scores"]
        if self.thresholds is not None:
            from odm.evaluate.analysis.analyses import at_scores, digest_of
            from odm.evaluate.analysis.thresholds import read_thresholds

            scores, default = read_thresholds(self.thresholds)
            if self.thresholds.get("images") == digest_of(evaluation.joined.evaluated):
                log.note(
                    f"--at-scores {printable(path)}: these thresholds were chosen on the same images, so the "
                    f"results are optimistic"
                )
            if unknown := [name for name in evaluation.joined.classes if name not in scores]:
                log.note(
                    f"--at-scores {printable(path)}: {len(unknown)} classes that are not in the file, such "
                    f"as {shorten(unknown[0])!r}, use its default"
                )
            results = [at_scores(result, scores, default, path) for result in evaluation.results]
            evaluation = replace(evaluation, results=results)
        if self.analyses or given["ci"]:
            from odm.evaluate.analysis.analyses import analyze
            from odm.evaluate.analysis.bootstrap import Resampling

            slices = []
            if "slices" in self.analyses:
                slices = slices_of(given, evaluation.joined.images, truth, log)
            n = given["replicates"] if given["ci"] else 0
            resampling = Resampling(n, given["seed"], areas=given["bootstrap_areas"], track=log.track)
            evaluation = analyze(evaluation, self.analyses, slices=slices, resampling=resampling)
        if given["confusion"] is not None:
            of = None if given["confusion"] == "counts" else given["confusion"]
            results = [
                replace(one, analysis=Analyses({**one.analysis, "confusion": one.confusion().to_dict(of)}))
                for one in evaluation.results
            ]
            evaluation = replace(evaluation, results=results)
        return self._with_thresholds(evaluation, warn)

    def _with_thresholds(self, evaluation: Evaluation, warn: Callable[[str], None]) -> Evaluation:
        """The evaluation with the thresholds of its only result, if they are asked for."""
        if self.given["thresholds"] is None:
            return evaluation
        from odm.evaluate.analysis.analyses import digest_of
        from odm.evaluate.analysis.table import table_of
        from odm.evaluate.analysis.thresholds import choose_thresholds

        result = evaluation.result
        chosen = choose_thresholds(table_of(result), self.given["thresholds"])
        unreachable = [name for name, own in chosen["classes"].items() if own["score"] is None]
        if unreachable:
            names = ", ".join(shorten(name) for name in unreachable[:10])
            warn(
                f"warning: {chosen['rule']}: no score of these classes meets the rule, so none of their "
                f"detections are kept ({len(unreachable)} of {len(chosen['classes'])}): {names}"
            )
        data = {**chosen, "images": digest_of(evaluation.joined.evaluated)}
        result = replace(result, analysis=Analyses({**result.analysis, "thresholds": data}))
        return replace(evaluation, results=[result])

    def save_thresholds(self, evaluation: Evaluation) -> None:
        """Write the file of thresholds, if one is asked for."""
        if target := self.given["save_thresholds"]:
            text = json_text(evaluation.result.analysis["thresholds"]) + "\n"
            with Output(target, overwrite=self.given["overwrite"], single=True) as output:
                output.write("", text.encode())


def _read_json(path: str) -> dict[str, Any]:
    """The contents of a file of thresholds, checked."""
    from odm.evaluate.analysis.thresholds import read_thresholds

    name = printable(path)
    try:
        data = json.loads(read_bytes(path))
    except Unreadable as e:
        raise PathError(f"{name}: {e}") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"--at-scores {name}: invalid JSON: {e}") from None
    try:
        read_thresholds(data)
    except UsageError as e:
        raise UsageError(f"--at-scores {name}: {e.args[0]}") from None
    found: dict[str, Any] = data
    return found


if TYPE_CHECKING:
    from odm.evaluate.analysis.slices import ImageSlice

Tags = dict[str, dict[str, list[str]]]
"""By the tag's name, for each image its values."""

LISTED = "listed"
"""The value of the images in a list."""


def slices_of(
    arguments: Mapping[str, Any], images: Sequence[str], truth: Dataset | None, log: Log
) -> list[ImageSlice]:
    """The parts of the images by the files of ``--tags``, and by the splits of the ground truth.

    Raises
    ------
    PathError, UsageError
        As `read_tags`, or if two files have a tag of the same name.
    """
    from odm.evaluate.analysis.slices import slices_by_tags

    tags = _splits(images, truth)
    given: Tags = {}
    for path in arguments["tags"]:
        for tag, values in read_tags(path, images, log, arguments["encoding"]).items():
            if tag in given:
                raise UsageError(
                    f"--tags {printable(path)}: {shorten(tag)!r} is already a tag of another file"
                )
            given[tag] = values
    return slices_by_tags(images, tags | given)


def _splits(images: Sequence[str], truth: Dataset | None) -> Tags:
    if truth is None:
        return {}
    of = {name: split for name, split in zip(truth.images.name, truth.images.split, strict=True) if split}
    found = {image: [of[image]] for image in images if image in of}
    return {"split": found} if len({split for (split,) in found.values()}) > 1 else {}


def read_tags(path: str, images: Sequence[str], log: Log, encoding: str = "") -> Tags:
    """The values of every tag, by image.

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
    name, text = printable(path), text_of_file(path, encoding)
    header, rows = _table(path, text)
    at = header.index("image")
    images_of = _Named(images)
    unknown = 0
    others = [i for i in range(len(header)) if i != at]
    tags: Tags = {header[i]: {} for i in others}
    for line, row in rows:
        if len(row) != len(header):
            raise UsageError(f"--tags {name}:{line}: expected {len(header)} columns, found {len(row)}")
        found = images_of.find(row[at].strip())
        if found is None:
            unknown += 1
            continue
        for i in others:
            value, values = row[i].strip(), tags[header[i]].setdefault(found, [])
            if value and value not in values:
                values.append(value)
    if not any(tags.values()):
        if not unknown:
            raise UsageError(f"--tags {name}: names no image")
        raise UsageError(f"--tags {name}: names no image that is evaluated ({plural(unknown, 'row')})")
    if unknown:
        what = plural(unknown, "row refers to an image that is", "rows refer to images that are")
        log.note(f"--tags {name}: {what} not evaluated")
    return tags


def _table(path: str, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with their lines; a list becomes a table of two columns."""
    from odm.csv_text import QuoteFault, plain_lines, records

    text = plain_lines(text)
    first = next(records(text), None)
    if (first is None or "image" not in first[2]) and not path.lower().endswith(".csv"):
        lines = enumerate(text.split("\n"), 1)
        return ["image", splitext(basename(path))[0]], [
            (n, [line, LISTED]) for n, line in lines if line.strip()
        ]
    rows: list[tuple[int, list[str]]] = []
    for line, _, cells in records(text):
        if isinstance(cells, QuoteFault):
            at = f"{printable(path)}:{line + cells.lines}"
            raise UsageError(f"--tags {at}: expected cells of a CSV file, found {cells}")
        rows.append((line, cells))
    header = rows.pop(0)[1] if rows else []
    if "image" not in header or len(header) < 2 or len(set(header)) < len(header):
        raise UsageError(
            f"--tags {printable(path)}:1: expected a header with a column image and others, no two alike, "
            f"found {shorten(','.join(header))}"
        )
    return header, rows


class _Named:
    """Finds images by name: with or without extension, and with folders before it if nothing else fits."""

    def __init__(self, images: Sequence[str]) -> None:
        self.known = set(images)
        self.stems: dict[str, list[str]] = {}
        for image in images:
            self.stems.setdefault(stem(image), []).append(image)

    def find(self, name: str) -> str | None:
        for one in dict.fromkeys((name, basename(name))):
            of_stem = self.stems.get(stem(one), [])
            if one in self.known:
                return one
            if len(of_stem) == 1:
                return of_stem[0]
        return None
