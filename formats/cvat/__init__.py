"""CVAT XML 1.1: all images of a task in one file.

Syntax: https://docs.cvat.ai/docs/other/xml_format. In a task of images::

    <annotations>
      <version>1.1</version>
      <meta><task><labels><label><name>person</name></label></labels></task></meta>
      <image id="0" name="street.jpg" width="640" height="480">
        <box label="person" occluded="0" xtl="10" ytl="20" xbr="110" ybr="220" z_order="0">
          <attribute name="difficult">false</attribute>
        </box>
      </image>
    </annotations>

and in a task of a video ("CVAT for video")::

      <track id="0" label="car">
        <box frame="3" outside="0" occluded="0" keyframe="1" xtl="1" ytl="2" xbr="30" ybr="40"></box>
      </track>

Reading
-------
- A file, or a folder with ``annotations.xml`` (or any XML files with this root) and perhaps ``images/``.
- ``xtl ytl xbr ybr`` are the edges in pixels, from 0 at the top left, unchanged.
- Tracks are read frame by frame: each ``<box>`` that is not ``outside`` is an object of the image
  ``frame_000003``, the name that CVAT itself uses for frames, with the size of ``<original_size>``. Nothing
  is interpolated: CVAT writes a box for every frame. In a folder of several files, the names begin with that
  of the file (``street/frame_000003``). Tracks inside a track are the points of a skeleton and are counted.
  The video is named after the task (``<task><name>``, or else ``<source>``, or else the file).
- ``occluded`` is read as the flag of that name, and so are the attributes ``difficult``, ``truncated`` and
  ``is_crowd`` (``crowd``), which CVAT's own exports use; ``score`` (``confidence``) makes an object a
  detection. Other attributes are counted but not kept.
- Polygons, ellipses, masks and rotated boxes are read as their bounding boxes, with a warning. Polylines,
  points, cuboids, skeletons and tags are not boxes and are counted.
- Classes are those of ``<labels>``, in that order, followed by those that occur only in objects. ``subset``
  of an image is its split, and ``--split`` selects one. If images of two subsets have the same name, as in
  the export of a project, names are prefixed with the subset.
- A missing size, or 0, is taken from ``--image-sizes``, ``--image-size``, the picture (``--images``, or the
  folder itself) or the other side of an evaluation; otherwise it stays unknown.
- Encodings and restrictions are those of Pascal VOC XML.

Writing
-------
One file, as for a task of images, with all images, including those without objects. Frames of videos say so
(``video="street" frame="3"``), and a box names its track (``track_id="7"``); only odm reads these attributes.
Whole numbers have no decimal point, others all their digits. Flags and scores are written as attributes, only
where they are set.

``-O layout=video`` writes the tracks of videos, as CVAT imports them into a task of a video: one file per
video, with a ``<track>`` for each track and ``outside="1"`` where it ends or pauses. A box without a track
becomes a track of one frame. The names of the frames' pictures are lost.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of, option
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.safe_xml import XML_BEGINS, root_of
from odm.formats._shared.splits import SplitOptions, miss_split
from odm.issues import Log
from odm.tables import Builder, Dataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class CvatOptions(SplitOptions):
    """Options of CVAT XML."""

    layout: str = option(
        "images",
        "all images in one file (images), or a file per video with tracks (video)",
        choices=("images", "video"),
        side="write",
    )


def sniff(source: Source) -> Sniff | None:
    """Claim XML whose root is <annotations>."""
    files = source.with_suffix(".xml") if source.is_dir else source.files
    for file in files[:20]:
        text, root = root_of(source.head(file))
        if root == "annotations":
            certain = any(f"<{tag}" in text for tag in ("version>", "meta>", "image ", "track "))
            return Sniff(SURE if certain else LIKELY, f"{file or 'the file'} has the root <annotations>")
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read a file, or every XML file of a folder."""
    from odm.formats.cvat.reader import Reader

    files = source.with_suffix(".xml") if source.is_dir else source.files
    if not files:
        log.report(NO_FILES, source.path, expected="annotations.xml", n=len(source.files))
    reader = Reader(source, builder, log, options)
    for file in log.track(files, "reading"):
        reader.read_file(file, several=len(files) > 1)
    if not miss_split(options.split, reader.splits, source, log):
        reader.finish()


def adapt(options: CvatOptions) -> dict[str, Any]:
    """What the layout can hold."""
    return {"keeps": _KEEPS - {"extension", "split"} if options.layout == "video" else _KEEPS}


def write(dataset: Dataset, target: Output, log: Log, options: CvatOptions) -> None:
    """Write one file, or one per video."""
    from odm.formats.cvat.writer import write_file, write_videos

    (write_videos if options.layout == "video" else write_file)(dataset, target, log)


_KEEPS = frozenset(
    "size extension empty unused order score split difficult truncated occluded crowd video track".split()
)


FORMAT = format_of(
    __name__,
    title="CVAT XML 1.1",
    use="annotation tools",
    written_by="CVAT for images 1.1 and for video 1.1 (tasks and projects)",
    suffixes=(".xml",),
    begins=XML_BEGINS,
    single=True,
    options=CvatOptions,
    keeps=_KEEPS,
)
