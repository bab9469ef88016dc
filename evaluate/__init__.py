"""Evaluate detections against ground truth: join, match, accumulate, and the results.

`evaluate` does all of it. The stages can be had one by one, so that the work can be split: `join` the two
sides, `match` any shards of the images, `concatenate` the matches and `accumulate` them; the numbers are
identical, bit by bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odm.evaluate.evaluation import evaluate
from odm.evaluate.matching.join import join
from odm.evaluate.matching.match import match
from odm.evaluate.matching.matches import Matches, concatenate
from odm.evaluate.matching.sides import Joined, JoinReport
from odm.evaluate.output.render import OUTPUTS, render, save
from odm.evaluate.results import VERSION, Evaluation, Result, Row
from odm.evaluate.scores.accumulate import accumulate
from odm.evaluate.scores.curves import Curve, CurveArrays
from odm.evaluate.scores.protocol_overrides import resolve
from odm.evaluate.scores.protocols import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS, Protocol
from odm.evaluate.scores.set_ups import AREAS, AreaRange

if TYPE_CHECKING:
    from odm.evaluate.metric import Metric

__all__ = [
    "AREAS",
    "OUTPUTS",
    "PROTOCOLS",
    "SHAPE_PROTOCOLS",
    "TUBE_PROTOCOLS",
    "VERSION",
    "AreaRange",
    "Curve",
    "CurveArrays",
    "Evaluation",
    "JoinReport",
    "Joined",
    "Matches",
    "Metric",
    "Protocol",
    "Result",
    "Row",
    "accumulate",
    "concatenate",
    "evaluate",
    "join",
    "match",
    "render",
    "resolve",
    "save",
]


def __getattr__(name: str) -> Any:
    if name == "Metric":  # for training loops; the command line does without
        from odm.evaluate.metric import Metric

        return Metric
    raise AttributeError(f"module 'odm.evaluate' has no attribute {name!r}")
