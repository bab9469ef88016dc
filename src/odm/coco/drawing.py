"""Annotations drawn with Matplotlib, for ``COCO.showAnns``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from odm.drawing import check_matplotlib

_CROWD = 2 / 255, 166 / 255, 101 / 255


def draw(coco: Any, records: Iterable[dict[str, Any]], draw_bbox: bool) -> None:
    """Draw the outlines, masks and keypoints of records of `coco`, and their boxes if `draw_bbox`.

    UsageError if Matplotlib is not installed.
    """
    check_matplotlib()
    import matplotlib.pyplot as plt
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Polygon

    axes = plt.gca()
    axes.set_autoscale_on(False)
    random = np.random.default_rng()
    patches: list[Polygon] = []
    colours: list[Any] = []
    for record in records:
        colour, shape = tuple(random.uniform(0.4, 1, 3)), record.get("segmentation")
        flat_outlines = shape if isinstance(shape, list) else []
        # An odd last number is left out.
        outlines = [np.reshape(outline[: len(outline) // 2 * 2], (-1, 2)) for outline in flat_outlines]
        if isinstance(shape, dict):
            mask = coco.annToMask(record)
            overlay = np.empty((*mask.shape, 4))
            overlay[..., :3] = _CROWD if record.get("iscrowd") else random.random(3)
            overlay[..., 3] = mask * 0.5
            axes.imshow(overlay)
        if draw_bbox:
            x, y, w, h = record["bbox"][:4]
            outlines.append(np.array([[x, y], [x, y + h], [x + w, y + h], [x + w, y]]))
        if isinstance(record.get("keypoints"), list):
            x, y, visibility = np.reshape(record["keypoints"], (-1, 3)).T
            # Pairs of points, counted from 0; a line is drawn where both are labelled.
            skeleton = np.array(coco.cats[record["category_id"]].get("skeleton", ()), int).reshape(-1, 2) - 1
            for pair in skeleton[(visibility[skeleton] > 0).all(axis=1)]:
                axes.plot(x[pair], y[pair], linewidth=3, color=colour)
            marker: dict[str, Any] = {"markersize": 8, "markerfacecolor": colour, "markeredgewidth": 2}
            axes.plot(x[visibility > 0], y[visibility > 0], "o", markeredgecolor="k", **marker)
            # 2 is visible; the others keep their black edge.
            axes.plot(x[visibility > 1], y[visibility > 1], "o", markeredgecolor=colour, **marker)
        patches += [Polygon(outline) for outline in outlines]
        colours += [colour] * len(outlines)
    axes.add_collection(PatchCollection(patches, facecolor=colours, linewidths=0, alpha=0.4))
    axes.add_collection(PatchCollection(patches, facecolor="none", edgecolors=colours, linewidths=2))
