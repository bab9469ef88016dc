"""Reports: one page, with pictures, that works without a network and without a server.

A page is one HTML file that holds everything, or a folder with ``index.html`` and ``pictures/``. What it
shows comes from the results of `odm.evaluate` or from a `Dataset`; nothing is measured here.
"""

from __future__ import annotations

from odm.report.agreement import agreement_page
from odm.report.build import FOLDER_ABOVE, LARGEST_FILE, Page, check_target, inline, write
from odm.report.compare import Changes, ClassDelta, ImageChange, RunBoxes, RunPair, changes_of, compare_page
from odm.report.datasets import dataset_page, statistics_page, what_images_have
from odm.report.diff import diff_page
from odm.report.evaluation import evaluation_page
from odm.report.pictures import Picture
from odm.report.validation import validation_page

__all__ = [
    "FOLDER_ABOVE",
    "LARGEST_FILE",
    "Changes",
    "ClassDelta",
    "ImageChange",
    "Page",
    "Picture",
    "RunBoxes",
    "RunPair",
    "agreement_page",
    "changes_of",
    "check_target",
    "compare_page",
    "dataset_page",
    "diff_page",
    "evaluation_page",
    "inline",
    "statistics_page",
    "validation_page",
    "what_images_have",
    "write",
]
