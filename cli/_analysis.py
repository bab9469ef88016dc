"""What ``odm eval`` does with a result beyond its numbers: analyses, intervals and thresholds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from odm.cli._print import say
from odm.evaluate import Evaluation, Protocol
from odm.files import Output, Unreadable, read_bytes
from odm.issues import Log, PathError, UsageError, printable, shorten
from odm.screen import json_text
from odm.tables import Dataset


@dataclasses.dataclass(frozen=True)
class Asked:
    """The analyses that a command line asks for, checked before anything is read."""

    given: dict[str, Any]
    analyses: tuple[str, ...]
    thresholds: dict[str, Any] | None

    @classmethod
    def of(cls, given: dict[str, Any], rules: Sequence[Protocol]) -> Asked:
        """UsageError, or PathError for a file of thresholds, where options make no sense."""
        analyses: tuple[str, ...] = ()
        try:
            if given["analyze"] is not None:
                from odm.evaluate.analysis.attach import parse_analyses

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

    def applied(self, evaluation: Evaluation, truth: Dataset | None, log: Log) -> Evaluation:
        """The evaluation with what was asked for; `truth` is its ground truth."""
        return self._with_thresholds(self._with_confusion(self._analyzed(evaluation, truth, log)))

    def _with_confusion(self, evaluation: Evaluation) -> Evaluation:
        if self.given["confusion"] is None:
            return evaluation
        of = None if self.given["confusion"] == "counts" else self.given["confusion"]
        results = [
            dataclasses.replace(one, analysis={**one.analysis, "confusion": one.confusion().to_dict(of)})
            for one in evaluation.results
        ]
        return dataclasses.replace(evaluation, results=results)

    def _analyzed(self, evaluation: Evaluation, truth: Dataset | None, log: Log) -> Evaluation:
        given = self.given
        if self.thresholds is not None:
            evaluation = self._at_scores(evaluation, self.thresholds, log)
        if not self.analyses and not given["ci"]:
            return evaluation
        from odm.cli._tags import slices_of
        from odm.evaluate.analysis.attach import analyze
        from odm.evaluate.analysis.bootstrap import Resampling

        slices = []
        if "slices" in self.analyses:
            slices = slices_of(given["tags"], evaluation.joined.images, truth, log)
        n = given["replicates"] if given["ci"] else 0
        resampling = Resampling(n, given["seed"], areas=given["bootstrap_areas"], track=log.track)
        return analyze(evaluation, self.analyses, slices=slices, resampling=resampling)

    def _at_scores(self, evaluation: Evaluation, data: dict[str, Any], log: Log) -> Evaluation:
        from odm.evaluate.analysis.attach import at_scores, digest_of
        from odm.evaluate.analysis.thresholds import read_thresholds

        path = self.given["at_scores"]
        scores, default = read_thresholds(data)
        if data.get("images") == digest_of(evaluation.joined.evaluated):
            log.note(
                f"--at-scores {printable(path)}: these thresholds were chosen on the same images, so the "
                f"results are optimistic"
            )
        unknown = [name for name in evaluation.joined.classes if name not in scores]
        if unknown:
            log.note(
                f"--at-scores {printable(path)}: {len(unknown)} classes that are not in the file, such as "
                f"{shorten(unknown[0])!r}, use its default"
            )
        results = [at_scores(result, scores, default, path) for result in evaluation.results]
        return dataclasses.replace(evaluation, results=results)

    def _with_thresholds(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with the thresholds of its only result, if they are asked for."""
        if self.given["thresholds"] is None:
            return evaluation
        from odm.evaluate.analysis.attach import digest_of
        from odm.evaluate.analysis.table import table_of
        from odm.evaluate.analysis.thresholds import choose_thresholds

        result = evaluation.result
        chosen = choose_thresholds(table_of(result), self.given["thresholds"])
        unreachable = [name for name, own in chosen["classes"].items() if own["score"] is None]
        if unreachable:
            names = ", ".join(shorten(name) for name in unreachable[:10])
            say(
                f"odm: warning: {chosen['rule']}: no score of these classes meets the rule, so none of their "
                f"detections are kept ({len(unreachable)} of {len(chosen['classes'])}): {names}"
            )
        data = {**chosen, "images": digest_of(evaluation.joined.evaluated)}
        result = dataclasses.replace(result, analysis={**result.analysis, "thresholds": data})
        return dataclasses.replace(evaluation, results=[result])

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
