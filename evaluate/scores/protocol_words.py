"""Words for the rules of protocols, of which `Protocol.definition` is made."""

from __future__ import annotations

from odm.tables import Flag

MEASURE_WORDS = {
    "segm": "masks",
    "boundary": "the lower of the IoU of masks and that of their inner bands",
    "oks": "OKS",
    "pose": "OKS in place of IoU, area 0.53 of the box",
    "quads": "oriented boxes",
    "probiou": "oriented boxes by probIoU",
}
READING_WORDS = {
    "steps": "",
    "trapezoids": " with linear interpolation",
    "ramp": " with linear interpolation and a ramp to recall 1",
    "between": " with straight lines between detections",
}
MATCH_WORDS = {
    "free": "highest-IoU unmatched ground truth",
    "greatest": "pairs in order of descending IoU",
    "best": "highest-IoU ground truth, duplicates count as FP",
}
FLAG_WORDS = {
    Flag.CROWD: "crowd",
    Flag.DIFFICULT: "difficult",
    Flag.TRUNCATED: "truncated",
    Flag.OCCLUDED: "occluded",
    Flag.GROUP_OF: "group-of",
    Flag.DEPICTION: "depiction",
    Flag.INSIDE: "inside",
    Flag.REGION: "regions to ignore",
}
