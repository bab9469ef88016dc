"""Evaluate whole tracks: videos take the place of images, and tubes the place of boxes.

A tube is the boxes of one video, track and class; a box without a track is a tube of one frame. Gaps are
allowed and nothing is interpolated. Two tubes overlap by their volumes (STT-IoU): with V the sum of the
areas that they share in the frames that both have, it is V / (volume + volume - V), and 0 where the union is
empty. A volume is the sum of width times height as the source gives them.

Sources: `tube_evaluator.py` of rafaelpadilla/review_object_detection_metrics (`stt`), and
`ytvoseval.py` of youtubevos/cocoapi (`tube`), whose volumes of masks are here those of boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm import tracks
from odm.evaluate.matching.match import match
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.order import argsort_descending, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import Pairs, find_iou_floor, intersection
from odm.evaluate.matching.sides import Joined, SideTable
from odm.evaluate.scores.protocols import Protocol
from odm.issues import Code, DataError, Log, Trusted, plural
from odm.masks.runs import expand_ranges, split_by_size
from odm.pairing import pair_images, source_of
from odm.tables import NO_ID, Boxes, Dataset, Flag, Floats, Images, Longs, first_index_of

NO_VIDEOS = Code(
    "no-videos",
    "error",
    "no image of the ground truth is a frame of a video",
    "give ground truth in a format that has videos, such as mot, cvat or coco with videos, or choose "
    "a protocol for images",
    "Tracks are compared frame by frame, so it must be known which images are frames of the same video.",
)
FRAMES_SHIFTED = Code(
    "frame-numbers-shifted",
    "warning",
    "the frames of the detections are {theirs} and those of the ground truth {ours} in the video {value!r}: "
    "one side seems to count from 0 and the other from 1",
    "number the frames of both sides in the same way; -O first_frame=0 renumbers the frames of MOT files "
    "from 0, as in CVAT, KITTI and COCO",
    "Frames are compared by number. If one side is one ahead, each box is compared with those of the frame "
    "before or after it, and overlaps are too small.",
)
AT_A_TIME = 2**20
"""Pairs of boxes of one frame that are compared at a time."""


class Tubes(msgspec.Struct, frozen=True, eq=False):
    """One side as tubes: a dataset of videos and tubes, and the boxes that the tubes consist of.

    The columns beside the dataset have a row for each box of the source that counts.
    """

    dataset: Dataset
    """Images are videos and boxes are tubes; a tube's box is what its boxes span."""
    row: Longs
    """Row of the box in the source."""
    tube: Longs
    """Row of its tube."""
    frame: Longs
    """A number of its frame that is the same on both sides."""
    source: Dataset

    @property
    def volume(self) -> Floats:
        """(tubes,) the sum of the areas of the boxes of each."""
        wh = self.source.boxes.wh[self.row]
        return np.bincount(self.tube, wh[:, 0] * wh[:, 1], minlength=len(self.dataset)).astype(np.float64)


def make_tubes(truth: Dataset, detections: Dataset, log: Log) -> tuple[Tubes, Tubes]:
    """Return both sides as tubes, with their frames numbered alike; crowds of the ground truth are left out.

    Raises DataError if the tracks of a side contradict themselves, or the ground truth has no videos.
    """
    n_errors_before = log.errors
    if truth.images.video is None:
        log.report(NO_VIDEOS, source_of(truth))
    for side in (truth, detections):
        tracks.report_tubes(side, log)
    if log.errors > n_errors_before:
        raise DataError("the tracks of the ground truth and the detections cannot be compared", log)
    gt_frames, det_frames = _join_frames(truth, detections, log)
    for side, side_name in ((truth, "ground truth"), (detections, "detections")):
        if len(side) and (side.boxes.track is None or (side.boxes.track < 0).all()):
            log.note(f"no box of the {side_name} has a track, so each is a track of one frame")
    crowd = truth.boxes.has(Flag.CROWD)
    if crowd.any():
        n_crowd = int(np.count_nonzero(crowd))
        log.note(f"{plural(n_crowd, 'crowd box', 'crowd boxes')} of the ground truth left out of the tracks")
    return _make_side_tubes(truth, gt_frames, ~crowd), _make_side_tubes(
        detections, det_frames, np.ones(len(detections), np.bool_)
    )


# --------------------------------------------------------------------------------------------- frames


class _Frames(msgspec.Struct, frozen=True, eq=False):
    """The videos of one side, and the video and frame number of each image."""

    names: tuple[str, ...]
    video: Longs
    """(images,) row in `names`."""
    frame: Longs
    """(images,) a number that is the same on both sides."""
    image_rows: Longs
    """(videos,) row of the first image of each video, -1 = none."""


def _join_frames(truth: Dataset, detections: Dataset, log: Log) -> tuple[_Frames, _Frames]:
    """Return the frames of both sides, joined by their numbers where both have them, else by the names of
    the images. If each side has a single video, it is taken to be the same.

    Reports frame numbers that seem to be shifted by one.
    """
    # Frames without a number get negative ones, distinct on both sides: -2, -3, ... and on from there.
    gt_video, gt_frame = _get_frame_numbers(truth)
    gt_frames = _assign_videos(
        truth, gt_video, np.where(gt_frame >= 0, gt_frame, -2 - np.arange(len(gt_frame)))
    )
    det_video, det_frame = _get_frame_numbers(detections)
    is_same_side = (
        detections.images.name == truth.images.name
        and (det_video == gt_video).all()
        and (det_frame == gt_frame).all()
    )
    if is_same_side:  # also frames without a number are paired, each with itself
        return gt_frames, _assign_videos(detections, det_video, gt_frames.frame)

    # By numbers: those of the detections, if the ground truth has any.
    is_numbered = (det_video >= 0) & (det_frame >= 0) & (gt_frame >= 0).any()
    names = list(detections.videos.name)
    if len(names) == len(truth.videos) == 1 and names[0] != truth.videos.name[0]:
        log.note(
            f"the only video of each side is taken to be the same: {truth.videos.name[0]!r} and {names[0]!r}"
        )
        names = [truth.videos.name[0]]
    video_rows = {name: row for row, name in enumerate(names)}
    unmatched_number = -2 - len(gt_frame) - np.arange(len(det_frame))  # below those of the ground truth
    key = np.where(is_numbered, det_frame, unmatched_number)

    # By images: those of the detections without a number have video and frame of the same image.
    if not is_numbered.all():
        partner, _ = pair_images(truth.images, detections.images)
        for row in np.flatnonzero(~is_numbered & (partner >= 0)).tolist():
            key[row] = gt_frames.frame[partner[row]]
            name = gt_frames.names[gt_frames.video[partner[row]]]
            det_video[row] = video_rows.setdefault(name, len(video_rows))
    det_frames = _assign_videos(detections, det_video, key, tuple(video_rows))
    _report_shift(gt_frames, det_frames, source_of(detections), log)
    return gt_frames, det_frames


def _report_shift(gt_frames: _Frames, det_frames: _Frames, path: str, log: Log) -> None:
    """Report detections that begin and end one frame later, or one frame earlier, than the ground truth."""
    (gt_first, gt_last), (det_first, det_last) = map(_find_frame_ranges, (gt_frames, det_frames))
    # The videos of both sides that have numbers on both.
    gt_row_by_name = {name: row for row, name in enumerate(gt_frames.names) if gt_last[row] >= 0}
    pairs = [
        (gt_row_by_name[name], row, name)
        for row, name in enumerate(det_frames.names)
        if name in gt_row_by_name and det_last[row] >= 0
    ]
    if not pairs:
        return
    gt_rows, det_rows, names = map(list, zip(*pairs, strict=True))
    first_shift, last_shift = det_first[det_rows] - gt_first[gt_rows], det_last[det_rows] - gt_last[gt_rows]
    # Frames 1..10 against 0..9 are later; 1..9 would not be, as a detector may miss the first frames.
    is_later = (first_shift >= 1).all() and last_shift.max() == 1
    is_earlier = (last_shift <= -1).all() and first_shift.min() == -1
    if is_later or is_earlier:
        i = int(last_shift.argmax() if is_later else first_shift.argmin())
        gt_row, det_row = gt_rows[i], det_rows[i]
        truth_span = f"{gt_first[gt_row]}..{gt_last[gt_row]}"
        detection_span = f"{det_first[det_row]}..{det_last[det_row]}"
        log.report(
            FRAMES_SHIFTED, path, value=names[i], ours=Trusted(truth_span), theirs=Trusted(detection_span)
        )


def _find_frame_ranges(side: _Frames) -> tuple[Longs, Longs]:
    """Return (videos,) the first and the last frame number of each video; last is -1 if none has a number."""
    is_numbered = side.frame >= 0
    first, last = np.full(len(side.names), 2**62), np.full(len(side.names), -1)
    np.minimum.at(first, side.video[is_numbered], side.frame[is_numbered])
    np.maximum.at(last, side.video[is_numbered], side.frame[is_numbered])
    return first, last


def _get_frame_numbers(side: Dataset) -> tuple[Longs, Longs]:
    """Return the video and frame number of each image as the source states them, -1 if it does not."""
    no_numbers = np.full(len(side.images), -1, np.int64)
    columns = (side.images.video, side.images.frame)
    video, frame = (no_numbers.copy() if column is None else column.astype(np.int64) for column in columns)
    return video, frame


def _assign_videos(
    side: Dataset, video: Longs, frame: Longs, names: tuple[str, ...] | None = None
) -> _Frames:
    """Make the frames of one side; an image without a video (-1) becomes a video of its own name.

    `video` (images,) is the row of each image's video in `names`, or among the videos of the side; it is
    changed in place. `frame` (images,) is its frame number.
    """
    video_rows = {name: row for row, name in enumerate(side.videos.name if names is None else names)}
    for row in np.flatnonzero(video < 0).tolist():
        video[row] = video_rows.setdefault(side.images.name[row], len(video_rows))
    return _Frames(tuple(video_rows), video, frame, first_index_of(video, len(video_rows)))


# ---------------------------------------------------------------------------------------------- tubes


def _make_side_tubes(side: Dataset, frames: _Frames, counts: NDArray[np.bool_]) -> Tubes:
    """Return the tubes of the boxes that count, (boxes,) `counts`, in the order of their first boxes."""
    rows = np.arange(len(side)) if counts.all() else np.flatnonzero(counts)
    boxes = side.boxes if len(rows) == len(side) else side.boxes.take(rows)
    video = frames.video[boxes.image]

    # One number for the track, class and video of each box.
    n_tracks = len(side.tracks)
    track = np.arange(n_tracks, n_tracks + len(rows))  # one of its own for each box without a track
    if boxes.track is not None:
        track = np.where(boxes.track >= 0, boxes.track, track)
    key = track * max(len(side.categories), 1) + boxes.category
    if len(rows) and (n_videos := len(frames.names)) > 1:  # keys are renumbered if they would not fit
        key = (
            key * n_videos + video
            if int(key.max()) < 2**62 // n_videos
            else np.unique(key, return_inverse=True)[1] * n_videos + video
        )

    # `unique` numbers the tubes by key; they are renumbered in the order of their first boxes.
    _, first_rows, tube = np.unique(key, return_index=True, return_inverse=True)
    by_first = np.argsort(first_rows)
    new_number = np.empty(len(first_rows), np.int64)
    new_number[by_first] = np.arange(len(first_rows))  # the inverse of the permutation `by_first`
    tube, first_rows = new_number[tube.reshape(-1)], first_rows[by_first]
    return Tubes(
        _make_tube_dataset(side, frames, boxes, tube, first_rows), rows, tube, frames.frame[boxes.image], side
    )


def _make_tube_dataset(
    side: Dataset, frames: _Frames, boxes: Boxes, tube: Longs, first_rows: Longs
) -> Dataset:
    """Return a dataset whose images are the videos and whose boxes span the tubes.

    `tube` (boxes,) is the tube of each box, `first_rows` (tubes,) the row of the first box of each. The score
    of a tube is that of its track, or else the mean of its boxes.
    """
    n_tubes = len(first_rows)
    xyxy, score = _span_boxes(boxes, tube, n_tubes)
    if boxes.track is not None and n_tubes:
        track = boxes.track[first_rows]
        track_score = np.append(side.tracks.score, np.nan)[track]  # track -1 (none) takes the NaN at the end
        score = np.where(np.isnan(track_score), score, track_score)
    images, image_files = side.images, np.append(side.images.file, -1)  # -1 for videos without images
    no_ids, n_videos = np.full(n_tubes, -1, np.int64), len(frames.names)
    return replace(
        side,
        images=Images(
            name=frames.names,
            width=np.zeros(n_videos, np.int32),
            height=np.zeros(n_videos, np.int32),
            source_id=np.full(n_videos, NO_ID),
            path=("",) * n_videos,
            split=tuple(images.split[row] if row >= 0 else "" for row in frames.image_rows.tolist()),
            file=image_files[frames.image_rows],
            line=np.append(images.line, 0)[frames.image_rows],
        ),
        boxes=Boxes(
            image=frames.video[boxes.image[first_rows]].astype(np.int32),
            category=boxes.category[first_rows],
            xyxy=xyxy,
            wh=xyxy[:, 2:] - xyxy[:, :2],
            score=score,
            flags=boxes.flags[first_rows] & np.uint16(Flag.REGION),  # other flags are of boxes
            area=np.full(n_tubes, np.nan),
            source_id=no_ids,
            file=boxes.file[first_rows],
            line=boxes.line[first_rows],
        ),
        labels=side.labels.take(np.zeros(0, np.intp)),  # none, as they are of images
    )


def _span_boxes(boxes: Boxes, tube: Longs, n_tubes: int) -> tuple[Floats, Floats]:
    """Return (tubes, 4) what the boxes of each tube span, and (tubes,) the mean of their scores."""
    if not n_tubes:
        return np.empty((0, 4)), np.zeros(0)
    order = np.argsort(tube, kind="stable")
    run_starts = first_of_runs(tube[order])
    xyxy = np.empty((n_tubes, 4))
    for k, extremum in enumerate((np.minimum, np.minimum, np.maximum, np.maximum)):
        xyxy[:, k] = extremum.reduceat(boxes.xyxy[order, k], run_starts)
    mean = np.bincount(tube, boxes.score, minlength=n_tubes) / np.bincount(tube, minlength=n_tubes)
    # The mean of equal scores is that score, whatever rounding makes of it.
    low, high = (extremum.reduceat(boxes.score[order], run_starts) for extremum in (np.minimum, np.maximum))
    return xyxy, np.where(low == high, low, mean)


# ------------------------------------------------------------------------------------------- overlaps


def match_tubes(
    joined: Joined, rules: Sequence[Protocol], truth: Tubes, detections: Tubes
) -> Iterator[Matches]:
    """Yield the matches under each protocol.

    Equal scores rank in input order where pairs go by IoU, else by video.
    """
    score, row = joined.detections.score, joined.detections.row
    for p in rules:
        order = argsort_descending(score)
        if p.match == "greatest":  # pairs go by IoU
            as_given = np.argsort(row, kind="stable")
            order = as_given[argsort_descending(score[as_given])]
        pairs = find_tube_pairs(joined, truth, detections, find_iou_floor(p), order)
        yield match(joined, p, pairs=pairs, order=order)


def find_tube_pairs(joined: Joined, truth: Tubes, detections: Tubes, floor: float, order: Longs) -> Pairs:
    """Return all pairs of tubes of one video and class whose STT-IoU is at least `floor`.

    `order` (detections,) are the detections by falling score. The pairs are by video and class, then rank.
    """
    n_det, n_gt = len(joined.detections), len(joined.truth)
    # The rank of each detection among those of its video and class.
    key = joined.keys_of(joined.detections)
    ranked = order[np.argsort(key[order], kind="stable")]
    rank = np.empty(n_det, np.int32)
    rank[ranked] = rank_in_runs(first_of_runs(key[ranked]), n_det)

    pair, shared_volume = _shared_volumes(joined, truth, detections)
    det, gt = pair // max(n_gt, 1), pair % max(n_gt, 1)  # as `_shared_volumes` numbers pairs
    volumes = detections.volume[joined.detections.row][det] + truth.volume[joined.truth.row][gt]
    union = volumes - shared_volume
    iou = np.divide(shared_volume, union, out=np.zeros(len(union)), where=union > 0)
    kept_pairs = np.flatnonzero(iou >= floor)
    det, gt, iou = det[kept_pairs], gt[kept_pairs], iou[kept_pairs]
    by_rank = np.lexsort((gt, rank[det], key[det]))
    gt_by_rank = gt[by_rank].astype(np.int32)
    return Pairs(det=det[by_rank].astype(np.int32), gt=gt_by_rank, iou=iou[by_rank], ioa=None, rank=rank)


def _shared_volumes(joined: Joined, truth: Tubes, detections: Tubes) -> tuple[Longs, Floats]:
    """Return the pairs of tubes that overlap, and the volume that they share.

    A pair is one number, detection * number of ground truths + ground truth; the volume is summed over
    frames, in square pixels.
    """
    gt_tube, gt_group, gt_frame, gt_xyxy = _make_key_columns(joined, joined.truth, truth)
    det_tube, det_group, det_frame, det_xyxy = _make_key_columns(joined, joined.detections, detections)
    n_groups = max(len(joined.images) * len(joined.classes), 1)
    gt_frame, det_frame, n_frames = _renumber_frames(gt_frame, det_frame, 2**62 // n_groups)

    # One number for the video, class and frame of each box. The boxes of the ground truth with the number of
    # a detection are n_gt_boxes entries of `gt_order`, from gt_start on.
    gt_key, gt_order = _sort_keys(gt_group * n_frames + gt_frame)
    det_key, det_order = _sort_keys(det_group * n_frames + det_frame)
    gt_start = np.searchsorted(gt_key, det_key, "left")
    n_gt_boxes = np.searchsorted(gt_key, det_key, "right") - gt_start
    with_gt = np.flatnonzero(n_gt_boxes)
    gt_start, n_gt_boxes, det_order = gt_start[with_gt], n_gt_boxes[with_gt], det_order[with_gt]

    n_gt = max(len(joined.truth), 1)
    pairs_of_batches: list[Longs] = [np.zeros(0, np.int64)]
    volumes_of_batches: list[Floats] = [np.zeros(0)]
    for batch in split_by_size(n_gt_boxes, AT_A_TIME):
        gt_position, det_index = expand_ranges(gt_start[batch], n_gt_boxes[batch])
        gt_row, det_row = gt_order[gt_position], det_order[batch][det_index]
        area = intersection(tuple(gt_xyxy[gt_row].T), tuple(det_xyxy[det_row].T))
        sharing_pairs = np.flatnonzero(area > 0)
        pair, volume = _sum_by_key(
            det_tube[det_row[sharing_pairs]] * n_gt + gt_tube[gt_row[sharing_pairs]], area[sharing_pairs]
        )
        pairs_of_batches.append(pair)
        volumes_of_batches.append(volume)
    return _sum_by_key(np.concatenate(pairs_of_batches), np.concatenate(volumes_of_batches))


def _renumber_frames(gt_frame: Longs, det_frame: Longs, limit: int) -> tuple[Longs, Longs, int]:
    """Return the frame numbers of the boxes of both sides from 0 on, and a number above all of them.

    If that would reach `limit`, frames that no box has get no number.
    """
    frames = np.concatenate([gt_frame, det_frame])
    first_frame = int(frames.min(initial=0))
    n_frames = int(frames.max(initial=0)) - first_frame + 1
    if n_frames >= limit:
        frames = np.unique(frames, return_inverse=True)[1].reshape(-1)
        first_frame, n_frames = 0, int(frames.max()) + 1
    frames = frames - first_frame
    return frames[: len(gt_frame)], frames[len(gt_frame) :], n_frames


def _make_key_columns(joined: Joined, side: SideTable, tubes: Tubes) -> tuple[Longs, Longs, Longs, Floats]:
    """Return four columns for each box of the joined tubes.

    These are the position of its tube in the joined side, a number for its video and class, its frame number,
    and (n, 4) corners.
    """
    position = np.full(len(tubes.dataset), -1, np.int64)
    position[side.row] = np.arange(len(side))
    tube = position[tubes.tube]
    keep = slice(None) if (tube >= 0).all() else np.flatnonzero(tube >= 0)
    tube = tube[keep]
    xyxy = tubes.source.boxes.xyxy[tubes.row[keep]]
    return (tube, joined.keys_of(side)[tube], tubes.frame[keep], xyxy)


def _sort_keys(key: Longs) -> tuple[Longs, Longs]:
    """Return the sorted keys and the sorting positions; skips the sort if they are already ascending."""
    if (key[1:] >= key[:-1]).all():
        return key, np.arange(len(key))
    order = np.argsort(key, kind="stable")
    return key[order], order


def _sum_by_key(key: Longs, value: Floats) -> tuple[Longs, Floats]:
    """Return the distinct keys, ascending, and the sum of the values of each."""
    if not len(key):
        return key, value
    order = np.argsort(key, kind="stable")
    key = key[order]
    run_starts = first_of_runs(key)
    return key[run_starts], np.add.reduceat(value[order], run_starts)
