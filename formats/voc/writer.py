"""Pascal VOC XML as it is written: one file per image, and lists of the splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odm.files import Output
from odm.formats._shared.image_names import note_folders
from odm.formats._shared.number_text import decimals
from odm.formats._shared.text_tokens import Column, assemble
from odm.formats.voc.terms import NO_SPLIT, VocOptions, refuse_names
from odm.issues import Log
from odm.names import stem
from odm.tables import Dataset, Flag, Floats


def write_xml(dataset: Dataset, target: Output, log: Log, options: VocOptions, edges: Floats) -> None:
    """Write one XML file per image, and lists of the splits."""
    images, boxes = dataset.images, dataset.boxes
    keys = [stem(name) for name in images.name]
    tree = options.layout == "tree" or (options.layout == "auto" and any(images.split))
    note_folders(dataset, log)
    folder = "Annotations/" if tree else ""
    files = [f"{folder}{key}.xml" for key in keys]
    lists: dict[str, list[str]] = {}
    if tree:
        lists = {} if keys else {NO_SPLIT: []}
        for key, split in zip(keys, images.split, strict=True):
            lists.setdefault(split or NO_SPLIT, []).append(key)
    elif any(images.split):
        log.note("layout=flat: splits are not written")
    list_files = {split: f"ImageSets/Main/{split}.txt" for split in sorted(lists)}
    errors = log.errors
    refuse_names(dataset.categories.name, log)
    refuse_names(images.name, log)
    owners = [*images.name, *(f"the split {split}" for split in list_files)]
    if not target.plan([*files, *list_files.values()], owners, log) or log.errors > errors:
        return

    size = "\t<size>\n\t\t<width>%d</width>\n\t\t<height>%d</height>\n\t\t<depth>3</depth>\n\t</size>\n"
    sizes = [
        size % (w, h) if w > 0 and h > 0 else ""
        for w, h in zip(images.width.tolist(), images.height.tolist(), strict=True)
    ]
    names = _escaped(images.name)
    objects = assemble(len(images), boxes.image, _object(dataset, edges))
    frames = _frames(dataset)
    for i, (file, name, size, text) in enumerate(
        zip(log.track(files, "writing"), names, sizes, objects, strict=True)
    ):
        place = frames[i] if frames else ""
        head = f"<annotation>\n\t<filename>{name}</filename>\n{size}{place}\t<segmented>0</segmented>\n"
        target.write(file, b"".join((head.encode(), text, b"</annotation>\n")))
    for split, file in list_files.items():
        target.write(file, "".join(f"{key}\n" for key in sorted(lists[split])).encode())


def _escaped(texts: Sequence[str]) -> Sequence[str]:
    """Texts as XML has them; hardly any needs it."""
    joined = "".join(texts)
    if not any(c in joined for c in "&<>"):
        return texts
    import html

    return [html.escape(text, quote=False) for text in texts]


def _frames(dataset: Dataset) -> list[str]:
    """The elements that name the video and the frame of each image; none where there are no videos."""
    images = dataset.images
    if images.video is None:
        return []
    names = [f"\t<video>{name}</video>\n" for name in _escaped(dataset.videos.name)]
    frame = np.full(len(images), -1) if images.frame is None else images.frame
    return [
        "" if v < 0 else names[v] + ("" if f < 0 else f"\t<frame>{f}</frame>\n")
        for v, f in zip(images.video.tolist(), frame.tolist(), strict=True)
    ]


def _object(dataset: Dataset, edges: Floats) -> list[bytes | Column]:
    """The pieces of the text of an object."""
    boxes = dataset.boxes
    # All that stands before the coordinates depends on class and flags alone, so there are few of them.
    known = int(Flag.TRUNCATED | Flag.DIFFICULT | Flag.OCCLUDED)
    kinds = boxes.category.astype(np.int64) * 65536 + (boxes.flags & known)
    unique, which = np.unique(kinds, return_inverse=True)
    starts = []
    names = _escaped(dataset.categories.name)
    for kind in unique.tolist():
        category, flags = divmod(kind, 65536)
        starts.append(
            f"\t<object>\n\t\t<name>{names[category]}</name>\n"
            f"\t\t<pose>Unspecified</pose>\n"
            f"\t\t<truncated>{int(flags & Flag.TRUNCATED > 0)}</truncated>\n"
            f"\t\t<difficult>{int(flags & Flag.DIFFICULT > 0)}</difficult>\n"
            f"\t\t<occluded>{int(flags & Flag.OCCLUDED > 0)}</occluded>\n".encode()
        )
    pieces: list[bytes | Column] = [(np.array(starts or [b""], np.bytes_), which)]
    missing = np.isnan(boxes.score)
    if not missing.all():
        score = np.array(decimals(np.nan_to_num(boxes.score)), np.bytes_)
        for text in (b"\t\t<confidence>", score, b"</confidence>\n"):
            piece = np.resize(np.array(text, np.bytes_), len(boxes))
            piece[missing] = b""
            pieces.append(piece)
    if boxes.track is not None:
        ids = _escaped([str(i) for i in dataset.tracks.source_id.tolist()])
        cells = [f"\t\t<trackid>{id_}</trackid>\n".encode() for id_ in ids] + [b""]
        pieces.insert(1, (np.array(cells, np.bytes_), np.where(boxes.track < 0, len(ids), boxes.track)))
    texts = np.array(decimals(edges.reshape(-1)), np.bytes_)
    between = b"\t\t<bndbox>\n"
    for i, name in enumerate((b"xmin", b"ymin", b"xmax", b"ymax")):
        pieces += [between + b"\t\t\t<%b>" % name, texts[i::4]]
        between = b"</%b>\n" % name
    return [*pieces, between + b"\t\t</bndbox>\n\t</object>\n"]
