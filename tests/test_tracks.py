"""Videos, frames and tracks in the model and in files: what is read, what is written, what comes back."""

import functools
import itertools
import json
import operator
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from one_format import WRITTEN, read, write

import odm
from odm import checks
from odm.converters import Request, load
from odm.formats import FORMATS, make_options
from odm.issues import DataError, Log, UsageError
from odm.tables import Builder, Dataset, Flag

TOOLS = Path(__file__).resolve().parent.parent / "fixtures" / "tools"
WITH_TRACKS = sorted({name for name, f in WRITTEN.items() if "track" in f.keeps})
WITH_VIDEOS = sorted(name for name, f in WRITTEN.items() if {"track", "video"} <= f.keeps)
OPTIONS = {"kitti": {"layout": "tracking"}}
"""What makes a format keep tracks that otherwise does not."""


def made(*, kind="gt", first=0, step=1):
    """Two videos; in the second a track has a gap, and a box has no track."""
    builder = Builder()
    classes = [builder.category(name) for name in ("car", "person")]
    rows = []
    for name in ("street", "yard"):
        video = builder.video(name)
        for i in range(4):
            frame = first + i * step
            image = builder.image(f"{name}/{frame:06d}.jpg", width=200, height=100, video=video, frame=frame)
            rows.append((image, classes[0], 10 + i, 7, video))
            if name == "street" or i != 1:
                rows.append((image, classes[1], 60 + i, 3, video))
    rows.append((image, classes[0], 120, None, video))
    left = np.array([row[2] for row in rows], float)
    box = np.stack([left, left / 2, left + 20.5, left / 2 + 30], axis=1)
    builder.boxes(
        image=np.array([r[0] for r in rows]),
        category=np.array([r[1] for r in rows]),
        xyxy=box,
        score=np.linspace(0.9, 0.3, len(rows)).round(3) if kind == "det" else None,
        track=builder.tracks(np.array([r[4] for r in rows]), [r[3] for r in rows]),
    )
    builder.kind = kind
    return builder.build()


def told(data, *, ids=True):
    """What is said of every box: video, frame, track, class and place; tracks by their ids or their first box."""
    boxes, images, tracks = data.boxes, data.images, data.tracks
    found = []
    for i in range(len(boxes)):
        image = int(boxes.image[i])
        track = -1 if boxes.track is None else int(boxes.track[i])
        found.append(
            (
                data.videos.name[images.video[image]] if images.video is not None else None,
                int(images.frame[image]) if images.frame is not None else None,
                tuple(np.round(boxes.xyxy[i], 3).tolist()),
                data.categories.name[boxes.category[i]],
                None if track < 0 else tracks.source_id[track] if ids else track,
            )
        )
    found.sort(key=lambda row: row[:4])
    if not ids:
        names = {}
        found = [(*r[:4], None if r[4] is None else names.setdefault(r[4], len(names))) for r in found]
    return found


def target(folder, name):
    return str(folder / (f"{name}{FORMATS[name].suffixes[0]}" if FORMATS[name].single else name))


def written(data, folder, name):
    """A dataset written as a format and read again."""
    path = target(folder, name)
    write(data, path, name, **OPTIONS.get(name, {}))
    more = {"kind": data.kind} if name == "mot" else {}
    return odm.read(
        path, name, **more, **({} if FORMATS[name].max_error_px == 0 else {"image_size": "200x100"})
    )


@pytest.mark.parametrize("name", WITH_VIDEOS)
@pytest.mark.parametrize("kind", ["gt", "det"])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (1, 1), (5, 3)])
def test_tracks_come_back(name, kind, first, step, tmp_path):
    data = made(kind=kind, first=first, step=step)
    back = written(data, tmp_path, name)
    assert told(back) == told(data)
    assert back.kind == kind
    assert sorted(back.images.name) == sorted(data.images.name)


@pytest.mark.parametrize("name", WITH_VIDEOS)
@pytest.mark.parametrize("ids", [("007", 7), ("7", "07"), (0, "00")])
def test_ids_that_are_equal_as_numbers_are_two_tracks(name, ids, tmp_path):
    data = made()
    data = replace(data, tracks=replace(data.tracks, source_id=np.array([*ids, 3, 4], object)))
    back = written(data, tmp_path, name)
    assert told(back, ids=False) == told(data, ids=False)


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(WITH_TRACKS, 2)))
def test_tracks_survive_every_pair(one, other, tmp_path):
    data = made()
    (tmp_path / "a").mkdir()
    through = written(data, tmp_path / "a", one)
    back = written(through, tmp_path, other)
    if {one, other} <= set(WITH_VIDEOS):
        assert told(back) == told(data)
    else:  # without videos only which boxes are one track
        same = [[row[2:] for row in told(d, ids=False)] for d in (back, data)]
        groups = [
            {frozenset(r[0] for r in rows if r[2] == t) for t in {r[2] for r in rows} - {None}}
            for rows in same
        ]
        assert groups[0] == groups[1]


@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {*WITH_TRACKS, "kitti"}))
def test_the_summary_counts_what_is_lost(name, tmp_path):
    source = str(tmp_path / "in.json")
    odm.write(made(), source, "coco")
    ledger = odm.convert(source, target(tmp_path, name), to=name, keep_groups=True)
    assert ledger.lost["tracks of boxes"] == 15
    if "video" not in FORMATS[name].keeps:
        assert ledger.lost["videos and frame numbers of images"] == 8


@pytest.mark.parametrize("has_scores", [False, True])
@pytest.mark.parametrize("kept", ["all", "without a video", "without a track", "nothing"])
def test_tiles_lose_the_tracks_and_videos_that_there_are(kept, has_scores, tmp_path):
    data = made()
    boxes, images, tracks = data.boxes, data.images, data.tracks
    n_tracks, n_frames = 15, 8
    if kept in ("without a track", "nothing"):
        boxes, n_tracks = replace(boxes, track=None), 0
    if kept in ("without a video", "nothing"):
        images, n_frames = replace(images, video=None, frame=None), 0
    if has_scores:
        tracks = replace(tracks, score=np.full(len(tracks), 0.5))
    data = replace(data, boxes=boxes, images=images, tracks=tracks)
    ledger = odm.convert(data, tmp_path / "tiles.json", to="coco", tile=64)
    reason = "as tiles are no video"
    n_lost = {
        f"tracks of boxes, {reason}": n_tracks,
        f"scores of tracks, {reason}": len(tracks) if has_scores else 0,
        f"videos and frame numbers of images, {reason}": n_frames,
    }
    assert ledger.lost == {what: n for what, n in n_lost.items() if n}


def test_data_without_tracks_holds_no_columns(tmp_path):
    data = Dataset.from_arrays(
        images=["a.jpg"], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]]
    )
    assert data.images.video is data.images.frame is data.boxes.track is None
    assert len(data.videos) == len(data.tracks) == 0
    odm.write(data, str(tmp_path / "a.json"), "coco")
    text = (tmp_path / "a.json").read_text()
    assert "video" not in text
    assert "track" not in text


def test_from_arrays():
    data = Dataset.from_arrays(
        images=["a", "b", "c"],
        categories=["x"],
        image=[0, 1, 2, 2],
        category=[0] * 4,
        xyxy=np.ones((4, 4)),
        video=["v", "v", ""],
        frame=[4, 5, -1],
        track=[1, 1, "k", None],
    )
    assert data.images.video.tolist() == [0, 0, -1]
    assert data.images.frame.tolist() == [4, 5, -1]
    assert data.boxes.track.tolist() == [0, 0, 1, -1]
    assert data.tracks.source_id.tolist() == [1, "k"]
    assert data.tracks.video.tolist() == [0, -1]
    assert data.take(np.array([2])).boxes.track.tolist() == [1]
    assert data.groups_by_video() == ("v", "v", "c")


# ------------------------------------------------------------------------------------------ each format

COCO_VIDEO = {
    "images": [
        {"id": 1, "file_name": "v/1.jpg", "width": 9, "height": 9, "video_id": 5, "frame_id": 0},
        {"id": 2, "file_name": "v/2.jpg", "width": 9, "height": 9, "video_id": 5, "frame_index": 1},
    ],
    "videos": [{"id": 5, "name": "v", "length": 2}],
    "categories": [{"id": 1, "name": "x"}],
}


@pytest.mark.parametrize(
    "track",
    [
        {"track_id": 8},
        {"instance_id": 8},
        {"attributes": {"occluded": False, "track_id": 8}},
        {"track_id": "8a"},
    ],
    ids=str,
)
@pytest.mark.parametrize("slow", [False, True])
def test_coco_tracks_by_any_of_their_names(track, slow, tmp_path):
    box = {"category_id": 1, "bbox": [1, 1, 2, 2]}
    boxes = [{"id": 1, "image_id": 1, **box, **track}, {"id": 2, "image_id": 2, **box, **track}]
    boxes.append({"id": 3, "image_id": 2, **box, **({"area": None} if slow else {})})
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**COCO_VIDEO, "annotations": boxes}))
    data = odm.read(str(path))
    assert data.boxes.track.tolist() == [0, 0, -1]
    assert data.tracks.source_id.tolist() == [next(iter(track.values())) if "attributes" not in track else 8]
    assert data.videos.name == ("v",)
    assert data.videos.length.tolist() == [2]
    assert data.images.frame.tolist() == [0, 1]


@pytest.mark.parametrize("other", [2, "8a"])
def test_a_track_id_of_minus_one_is_none_beside_ids_of_any_type(other, tmp_path):
    box = {"image_id": 1, "category_id": 1}
    ids = [1, other, -1, 1]
    boxes = [{"id": n, **box, "bbox": [n, n, 2, 2], "track_id": id_} for n, id_ in enumerate(ids)]
    (tmp_path / "a.json").write_text(json.dumps({**COCO_VIDEO, "annotations": boxes}))
    data = odm.read(tmp_path / "a.json")
    assert [data.tracks.source_id[t] if t >= 0 else None for t in data.boxes.track] == [1, other, None, 1]


@pytest.mark.parametrize("n_videos", [1, 2000])
@pytest.mark.parametrize(
    "order", [("videos", "categories", "annotations"), ("annotations", "categories", "videos")]
)
def test_tracks_with_a_list_of_boxes_are_found_wherever_they_stand(n_videos, order, tmp_path):
    """Behind more videos than a glance at the beginning of the file shows, and before them."""
    document = {
        "videos": [{"id": i, "file_name": f"video {i:06}", "width": 90, "height": 80} for i in range(n_videos)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "video_id": 0, "category_id": 1, "track": [{"frame": 3, "bbox": [1, 2, 3, 4]}]}],
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps({key: document[key] for key in order}))
    data = odm.read(tmp_path / "a.json", "coco")
    assert [data.videos.name[v] for v in data.images.video] == ["video 000000"]
    assert (data.images.frame.tolist(), data.boxes.xyxy.tolist()) == ([3], [[1, 2, 4, 6]])


def test_coco_scores_of_tracks_come_back(tmp_path):
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "score": 0.5, "track_id": 3}
    tracks = [{"id": 3, "video_id": 5, "score": 0.75, "color": "red"}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**COCO_VIDEO, "annotations": [box], "tracks": tracks}))
    data = odm.read(str(path))
    assert not data.extras  # of boxes, which have no colour
    assert data.tracks.score.tolist() == [0.75]
    for name in ("coco", "lvis"):
        assert written(data, tmp_path, name).tracks.score.tolist() == [0.75]


CVAT_VIDEO = """<annotations><version>1.1</version><meta><task><name>crossing</name><size>3</size>
<original_size><width>640</width><height>480</height></original_size></task></meta>
<track id="4" label="car"><box frame="0" outside="0" occluded="0" xtl="1" ytl="2" xbr="30" ybr="40"/>
<box frame="1" outside="0" occluded="0" xtl="2" ytl="2" xbr="31" ybr="40"/>
<box frame="2" outside="1" occluded="0" xtl="2" ytl="2" xbr="31" ybr="40"/></track></annotations>"""


def test_cvat_tracks(tmp_path):
    (tmp_path / "a.xml").write_text(CVAT_VIDEO)
    data = odm.read(str(tmp_path / "a.xml"))
    assert data.videos.name == ("crossing",)
    assert data.videos.length.tolist() == [3]
    assert data.images.frame.tolist() == [0, 1, 2]
    assert data.boxes.track.tolist() == [0, 0]
    assert data.tracks.source_id.tolist() == [4]
    assert "tracks" not in data.extras


@pytest.mark.parametrize("kind", ["gt", "det"])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (1, 1), (5, 3)])
def test_cvat_tracks_come_back(kind, first, step, tmp_path):
    data = made(kind=kind, first=first, step=step)
    odm.write(data, str(tmp_path / "a"), "cvat", layout="video")
    back = odm.read(str(tmp_path / "a"))
    assert [row[:4] for row in told(back)] == [row[:4] for row in told(data)]
    for one, two in zip(told(data), told(back), strict=True):
        assert two[4] == (8 if one[4] is None else one[4])  # a track of its own, by the next free number
    assert back.kind == kind
    assert back.videos.name == data.videos.name
    assert set(data.images.frame.tolist()) <= set(back.images.frame.tolist())
    outside = (tmp_path / "a" / "yard.xml").read_text().count('outside="1"')
    assert outside == 1  # before the gap; the box without a track is in the last frame
    with pytest.raises(odm.UsageError, match="one file cannot hold 2 videos"):
        odm.write(data, str(tmp_path / "a.xml"), "cvat", layout="video")
    still = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]])
    with pytest.raises(odm.UsageError, match="frames of videos"):
        odm.write(still, str(tmp_path / "b"), "cvat", layout="video")
    with pytest.raises(odm.UsageError, match="frames of videos"):
        odm.write(
            Dataset.from_arrays(images=[], categories=[], image=[], category=[], xyxy=[]),
            str(tmp_path / "c.xml"),
            "cvat",
            layout="video",
        )


def test_groups_of_cvat_tracks_come_back(tmp_path):
    """A track has one group; boxes of another are counted in a note."""
    data = made()
    in_track = np.flatnonzero(data.boxes.track == data.boxes.track[0])
    for last, noted in ((3, False), (5, True)):
        group = np.full(len(data), -1, np.int32)
        group[in_track] = [*[3] * (len(in_track) - 1), last]
        log, target = Log(), str(tmp_path / str(noted))
        grouped = replace(data, boxes=replace(data.boxes, group=group))
        odm.write(grouped, target, "cvat", layout="video", log=log)
        back = odm.read(target).boxes
        assert back.group is not None
        assert np.count_nonzero(back.group >= 0) == np.count_nonzero(group >= 0)
        assert any("of another group" in note for note in log.notes) == noted


def test_frames_that_cvat_adds_to_a_video_are_counted(tmp_path):
    log = Log()
    data = made(first=5, step=3)
    odm.write(data, str(tmp_path / "a"), "cvat", layout="video", log=log)
    added = len(odm.read(str(tmp_path / "a")).images) - len(data.images)
    assert added > 0
    assert any(f"{added} frames of the videos without an image" in note for note in log.notes)


def test_trackers_results_are_sequences_of_their_files(tmp_path):
    for name in ("MOT17-02", "MOT17-04"):
        (tmp_path / f"{name}.txt").write_text("1,3,10,10,5,5,0.9,-1,-1,-1\n2,3,11,10,5,5,0.8,-1,-1,-1\n")
    data = odm.read(str(tmp_path), "mot", kind="det")
    assert data.videos.name == ("MOT17-02", "MOT17-04")
    assert data.images.name[0] == "MOT17-02/000001"
    assert data.tracks.source_id.tolist() == [3, 3]
    assert data.boxes.track.tolist() == [0, 0, 1, 1]
    assert odm.read(str(tmp_path), kind="det").videos.name == data.videos.name
    (tmp_path / "MOT17-02.txt").write_text("1,3,10,10,5,5,0.9,4,0,0\n" * 9)  # VisDrone's of videos
    with pytest.raises(odm.UsageError, match="no format recognises 2 files"):
        odm.read(str(tmp_path))


def test_mot_frames_counted_from_0_equal_those_of_cvat(tmp_path):
    data = made(first=0)
    odm.write(data, str(tmp_path / "cvat"), "cvat", layout="video")
    odm.write(data, str(tmp_path / "mot"), "mot")
    for file in (tmp_path / "mot").rglob("seqinfo.ini"):
        file.write_text(file.read_text().replace("firstFrame=0\n", ""))  # as other tools write it
    want = odm.read(str(tmp_path / "cvat")).images
    got = odm.read(str(tmp_path / "mot"), first_frame="0").images
    assert sorted(set(got.frame.tolist())) == sorted(set(want.frame.tolist()))
    assert min(odm.read(str(tmp_path / "mot")).images.frame) == 1
    (tmp_path / "v.txt").write_text("0,3,10,10,5,5,0.9,-1,-1,-1\n")
    with pytest.raises(odm.DataError, match="1 error") as caught:
        odm.read(str(tmp_path / "v.txt"), "mot", first_frame="0")
    assert "from 1 on, found '0'" in str(caught.value.log.issues[0])


VID = """<annotation><folder>x</folder><filename>{n:06d}</filename><size><width>9</width><height>9</height></size>
<object><trackid>2</trackid><name>n02</name><bndbox><xmin>1</xmin><xmax>3</xmax><ymin>1</ymin><ymax>3</ymax></bndbox>
<occluded>0</occluded><generated>0</generated></object></annotation>"""


@pytest.mark.parametrize(("numbers", "classes", "expected"), [
    ((1, 2), None, [("pedestrian", 1), ("person on vehicle", 1)]), ((1, -1), None, [("pedestrian", 2)]),
    ((0, 1), ("a", "b"), [("a", 1), ("b", 1)]), ((1, 2), ("a", "b"), [("a", 1), ("b", 1)]),
    ((1, 0), None, "unknown-class"), ((1, 3), ("a", "b"), "unknown-class"),
])  # fmt: skip
def test_class_numbers_of_mot(numbers, classes, expected, tmp_path):
    """They count from 1, or from 0 in a list of classes if there is a 0; -1 is a pedestrian."""
    (tmp_path / "gt").mkdir()
    lines = [f"1,{n},0,0,9,9,1,{number},1" for n, number in enumerate(numbers, 1)]
    (tmp_path / "gt" / "gt.txt").write_text("\n".join(lines))
    (tmp_path / "classes").write_text("\n".join(classes or ()))
    log = Log()
    options = {"classes": str(tmp_path / "classes")} if classes else {}
    if isinstance(expected, str):
        with pytest.raises(DataError):
            odm.read(tmp_path, "mot", log=log, **options)
        assert log.counts[expected] == 1
    else:
        dataset = odm.read(tmp_path, "mot", **options)
        names = [dataset.categories.name[k] for k in dataset.boxes.category]
        assert sorted({(name, names.count(name)) for name in names}) == sorted(expected)


@pytest.mark.parametrize("name", ["truth", "results"])
@pytest.mark.parametrize("key", ["category_id", "video_id"])
def test_tracks_with_a_list_of_boxes_name_ids_that_are_unknown(name, key, tmp_path):
    """The second of two tracks, where there are several classes and videos."""
    track = [{"frame": 0, "bbox": [0, 0, 5, 5]}]
    tracks = [{"id": n, "video_id": 1, "category_id": 1, "track": track} for n in (1, 2)]
    tracks[1][key] = 9
    truth = {
        "videos": [{"id": n, "file_name": f"v{n}", "width": 20, "height": 20} for n in (1, 2, 3)],
        "categories": [{"id": n, "name": f"c{n}"} for n in (1, 2, 3)],
        "annotations": tracks if name == "truth" else tracks[:1],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps([row | {"score": 0.5} for row in tracks]))
    log, path = Log(), tmp_path / f"{name}.json"
    reference = tmp_path / "truth.json" if name == "results" else None
    if reference and key == "video_id":  # detections of a video that the ground truth lacks
        dataset = odm.read(path, "coco", gt=reference)
        assert [dataset.videos.name[v] for v in dataset.images.video] == ["v1", "9"]
        return
    with pytest.raises(DataError):
        odm.read(path, "coco", log=log, gt=reference)
    assert log.counts == {f"unknown-{key.replace('_', '-')}": 1}


def test_a_track_without_a_score_is_named_and_frames_beyond_the_ground_truth_are_added(tmp_path):
    truth = {
        "videos": [{"id": n, "file_name": f"v{n}", "width": 20 + n, "height": 30} for n in (1, 2)],
        "categories": [{"id": 1, "name": "c"}],
        "annotations": [
            {"id": n, "video_id": n, "category_id": 1, "track": [{"frame": n, "bbox": [0, 0, 5, 5]}]}
            for n in (1, 2)
        ],
    }
    results = [
        {
            "id": n,
            "video_id": 2,
            "category_id": 1,
            "track": [{"frame": f, "bbox": [f, 1, 5, 6], "score": 0.5}],
        }
        for n, f in ((7, 2), (8, 9), (9, 4))
    ]
    gt, det = tmp_path / "truth.json", tmp_path / "results.json"
    gt.write_text(json.dumps(truth))
    det.write_text(json.dumps(results))
    data = odm.read(det, "coco", gt=gt)
    rows = [data.images.name.index(name) for name in ("v2/000002", "v2/000009", "v2/000004")]
    assert [data.images.frame[row] for row in rows] == [2, 9, 4]
    assert (
        len(data.images.name) == len(set(data.images.name)) == 4
    )  # the two of the ground truth, and two frames
    assert [data.boxes.xyxy[data.boxes.image == row].tolist() for row in rows] == [
        [[f, 1, f + 5, 7]] for f in (2, 9, 4)
    ]
    del results[2]["track"][0]["score"]
    det.write_text(json.dumps(results))
    log = Log()
    with pytest.raises(DataError):
        odm.read(det, "coco", log=log, gt=gt)
    assert [(i.code, i.pointer, i.field) for i in log.issues] == [("score-missing", "/2", "confidence")]


def test_imagenet_vid(tmp_path):
    folder = tmp_path / "Annotations" / "VID" / "val" / "ILSVRC2015_val_00000000"
    folder.mkdir(parents=True)
    for n in range(3):
        (folder / f"{n:06d}.xml").write_text(VID.format(n=n))
    data = odm.read(str(tmp_path), "voc")
    assert [name.rpartition("/")[2] for name in data.videos.name] == ["ILSVRC2015_val_00000000"]
    assert data.images.frame.tolist() == [0, 1, 2]
    assert data.boxes.track.tolist() == [0, 0, 0]
    assert data.tracks.source_id.tolist() == [2]


def test_bdd_ids_are_tracks_in_videos_only(tmp_path):
    label = {"id": "7", "category": "car", "box2d": {"x1": 1, "y1": 1, "x2": 5, "y2": 5}}
    frames = [{"name": f"{i}.jpg", "labels": [label]} for i in range(2)]
    (tmp_path / "a.json").write_text(json.dumps(frames))
    assert odm.read(str(tmp_path / "a.json"), "bdd100k").boxes.track is None
    frames = [{**frame, "videoName": "v", "frameIndex": i} for i, frame in enumerate(frames)]
    (tmp_path / "a.json").write_text(json.dumps(frames))
    data = odm.read(str(tmp_path / "a.json"), "bdd100k")
    assert data.boxes.track.tolist() == [0, 0]
    assert data.images.frame.tolist() == [0, 1]


def test_csv_columns(tmp_path):
    (tmp_path / "a.csv").write_text(
        "filename,class,xmin,ymin,xmax,ymax,trackid,sequence,frameid\n"
        "a.jpg,x,1,2,30,40,12,s,0\nb.jpg,x,1,2,30,40,12,s,1\nb.jpg,x,1,2,30,40,,s,1\n"
    )
    data = odm.read(str(tmp_path / "a.csv"), "csv", image_size="100x100")
    assert data.boxes.track.tolist() == [0, 0, -1]
    assert data.videos.name == ("s",)
    assert data.images.frame.tolist() == [0, 1]
    assert data.tracks.source_id.tolist() == [12]


def test_ids_that_cannot_be_written_are_numbered(tmp_path):
    data = Dataset.from_arrays(
        images=["a", "b"],
        categories=["pedestrian"],
        image=[0, 1, 0],
        category=[0] * 3,
        xyxy=[[0, 0, 5, 5], [0, 0, 6, 6], [3, 3, 9, 9]],
        video=["v", "v"],
        frame=[1, 2],
        track=["left", "left", "right"],
    )
    back = written(data, tmp_path, "mot")
    assert back.tracks.source_id.tolist() == [1, 2]
    assert told(back, ids=False)[0][4] == told(data, ids=False)[0][4]


def test_crowd_boxes_of_mot_keep_their_flag(tmp_path):
    data = made()
    flags = np.zeros(len(data), np.uint16)
    flags[0] = Flag.CROWD
    data = replace(data, boxes=replace(data.boxes, flags=flags))
    assert int(written(data, tmp_path, "mot").boxes.has(Flag.CROWD).sum()) == 1


def test_options_of_the_list_exist():
    for name, options in OPTIONS.items():
        assert {"track", "video"} <= FORMATS[name].adapted(make_options(FORMATS[name], options)).keeps


KITTI = "0 1 Car 0 0 -10 10 20 30.5 40 -1 -1 -1 -1000 -1000 -1000 -10\n"


def test_kitti_tracking(tmp_path):
    for name in ("0000", "0001"):
        (tmp_path / f"{name}.txt").write_text(
            KITTI + KITTI.replace("0 1", "1 1", 1) + KITTI.replace("0 1", "1 -1", 1)
        )
    data = odm.read(str(tmp_path))
    assert data.videos.name == ("0000", "0001")
    assert data.images.name == ("0000/000000", "0000/000001", "0001/000000", "0001/000001")
    assert data.boxes.track.tolist() == [0, 0, -1, 1, 1, -1]
    assert data.categories.name == ("Car",)
    assert data.boxes.xyxy[0].tolist() == [10, 20, 30.5, 40]
    with pytest.raises(odm.DataError) as caught:
        (tmp_path / "0002.txt").write_text(
            KITTI + KITTI.replace("10", "ten", 1) + KITTI.replace("0 1", "-3 1", 1)
        )
        odm.read(str(tmp_path), "kitti")
    assert {issue.code for issue in caught.value.log} >= {"not-a-number", "bad-frame"}


@pytest.mark.parametrize("kind", ["gt", "det"])
def test_kitti_tracking_comes_back(kind, tmp_path):
    data = made(kind=kind, step=2)
    assert told(written(data, tmp_path, "kitti")) == told(data)
    still = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]])
    with pytest.raises(odm.UsageError, match="frames of videos"):
        odm.write(still, str(tmp_path / "b"), "kitti", layout="tracking")


def test_tracks_of_one_box_each_are_noted():
    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x"], image=[0, 1], category=[0, 0], xyxy=[[1, 2, 3, 4]] * 2, track=[1, 2],
        video=["v", "v"], frame=[1, 2],
    )  # fmt: skip
    checks.run(data, log := Log(), all_rules=True)
    assert any("no track has more than one box" in note for note in log.notes)


def test_leading_zeros_belong_to_an_id_in_a_table(tmp_path):
    rows = "".join(
        f"v,{n},{n}.jpg,car,1,2,{n}0,20,{track}\n" for n, track in enumerate(("007", "7", "0", "00"), 3)
    )
    (tmp_path / "a.csv").write_text(f"video,frame,image,class,left,top,right,bottom,track_id\n{rows}")
    data = odm.read(tmp_path / "a.csv")
    assert [data.tracks.source_id[track] for track in data.boxes.track] == ["007", 7, 0, "00"]


@pytest.mark.parametrize(
    ("videos", "name"), [(["street"], "track 7"), (["street", "yard"], "track 7 of 'yard'")]
)
def test_messages_name_the_video_of_a_track_where_there_are_several(videos, name):
    builder = Builder()
    category = builder.category("car")
    rows = [builder.video(video) for video in videos]
    images = [builder.image(f"{row}.jpg", width=99, height=99, video=row, frame=0) for row in rows]
    builder.boxes(
        image=np.array([*images, images[-1]]),
        category=np.full(len(rows) + 1, category),
        xyxy=np.array([[i, i, i + 9.0, i + 9] for i in range(len(rows) + 1)]),
        track=builder.tracks(np.array([*rows, rows[-1]]), [7] * (len(rows) + 1)),
    )
    checks.run(builder.build(), log := Log(), all_rules=True)
    (issue,) = [issue for issue in log if issue.code == "track-twice-in-frame"]
    assert issue.message.startswith(f"{name} has another box")


def read_file(path, name, options=()):
    """The dataset of a file."""
    request = Request(path=str(path), format=name, options=dict(options))
    return load(request, Log()).dataset


@pytest.mark.parametrize(
    ("fixture", "frames", "tracks"),
    [
        ("darwin-video", [0, 1, 2, 3, 4], {"a1": [0, 1, 2], "a2": [1]}),
        ("labelstudio-video", [1, 2, 3, 4, 5, 6], {"aa": [2, 3, 4, 6]}),
        ("labelstudio-pathtrack", [1, 2, 3], {"0123456789": [1, 3]}),
        ("superannotate-video", [1, 2, 3, 4], {"0": [1, 2, 3]}),
    ],
)
def test_videos_of_annotation_tools(fixture, frames, tracks):
    """Every frame is an image of the video, and each object a track, also between its key frames."""
    name = fixture.split("-")[0]
    path = next(path for path in TOOLS.joinpath(fixture).iterdir() if path.name.startswith("input"))
    data = read_file(path, name)
    assert [name.rpartition("/")[2] for name in data.videos.name] == ["clip.mp4"]
    assert data.images.frame.tolist() == frames
    seen = {}
    for track, image in zip(data.boxes.track.tolist(), data.boxes.image.tolist(), strict=True):
        seen.setdefault(str(data.tracks.source_id[track]), []).append(int(data.images.frame[image]))
    assert seen == tracks


COORDINATES = {"x", "y", "w", "h", "width", "height", "x1", "y1", "x2", "y2"}


def coordinates_of(value, path=()):
    """The path of each coordinate of a box below one of the keys of frames: its keys and positions."""
    if isinstance(value, dict) and "polygon" in value:  # the box beside a polygon is not read
        return
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        if key in COORDINATES and {"frames", "sequence", "timestamps"} & {*path}:
            yield (*path, key)
        yield from coordinates_of(inner, (*path, key))


@pytest.mark.parametrize("fixture", ["darwin-video", "labelstudio-video", "superannotate-video"])
@pytest.mark.parametrize(
    "damage", [lambda box, key: box.pop(key), lambda box, key: box.update({key: "wide"})]
)
def test_a_damaged_coordinate_of_a_key_frame_is_an_error_at_its_box(fixture, damage, tmp_path):
    """Whatever is interpolated from it, and none of the other boxes is named."""
    source = TOOLS / fixture / "input"
    name = fixture.split("-")[0]
    shutil.copytree(source, tmp_path / "in") if source.is_dir() else shutil.copytree(
        TOOLS / fixture, tmp_path / "in"
    )
    (tmp_path / "in" / "case.json").unlink(missing_ok=True)
    path = next(p for p in (tmp_path / "in").rglob("*.json") if "classes" not in p.name)
    text = path.read_text()
    paths = list(coordinates_of(json.loads(text)))
    assert len(paths) >= 8, fixture
    for *parents, key in paths:
        content = json.loads(text)
        damage(functools.reduce(operator.getitem, parents, content), key)
        path.write_text(json.dumps(content))
        with pytest.raises(DataError) as caught:
            read_file(tmp_path / "in", name)
        at = "".join(f"/{part}" for part in parents)
        errors = {issue.pointer for issue in caught.value.log if issue.severity == "error"}
        assert [pointer[: len(at)] for pointer in errors] == [at], errors


@pytest.mark.parametrize("fps", ["0.5", "2", "10"])
def test_frames_of_a_second_of_superannotate(fps, tmp_path):
    """An object from 10 to 20 px in 3 s is at 10 + s * 10 / 3 px, within a frame of the time."""
    path = TOOLS / "superannotate-video" / "input"
    data = read_file(path, "superannotate", options={"fps": fps})
    frame = data.images.frame[data.boxes.image]
    assert data.images.frame.tolist() == list(range(1, int(4 * float(fps)) + 1))
    assert len(frame) == {"0.5": 2, "2": 6, "10": 30}[fps]
    left = np.interp(frame, [frame[0], frame[-1]], [10, 20])
    np.testing.assert_allclose(data.boxes.xyxy[:, 0], left)


@pytest.mark.parametrize("value", ["0", "-1", "1001", "nan", "x"])
def test_bad_frames_of_a_second_are_refused(value):
    with pytest.raises(UsageError, match="fps"):
        read_file(TOOLS / "superannotate-video" / "input", "superannotate", options={"fps": value})


@pytest.mark.parametrize("frame", [-1, 1.5, "x", True, None])
def test_a_bad_frame_number_is_named(frame, tmp_path):
    step = {"frame": frame, "enabled": True, "x": 1, "y": 1, "width": 9, "height": 9}
    result = {"type": "videorectangle", "value": {"sequence": [step], "labels": ["a"]}}
    task = {"data": {"video": "a.mp4", "width": 9, "height": 9}, "annotations": [{"result": [result]}]}
    (tmp_path / "a.json").write_text(json.dumps([task]))
    with pytest.raises(DataError) as caught:
        read_file(tmp_path / "a.json", "labelstudio")
    assert "/value/sequence/0/frame" in str(next(iter(caught.value.log)))


@pytest.mark.parametrize("key", ["score", "confidence"])
def test_a_track_beside_a_faulty_one_is_read_as_if_alone(key, tmp_path):
    """Its boxes have their own scores, or else that of the track; a score that is no number is an error."""
    boxes = [{"frame": 0, "bbox": [1, 2, 3, 4], key: 0.5}, {"frame": 1, "bbox": [2, 2, 3, 4]}]
    track = {"id": 1, "video_id": 1, "category_id": 1, key: 0.75, "track": boxes}
    tables = {
        "videos": [{"id": 1, "file_name": "street", "width": 90, "height": 80}],
        "categories": [{"id": 1, "name": "cat"}],
    }

    def read_scores(*tracks):
        (tmp_path / "a.json").write_text(json.dumps({**tables, "annotations": tracks}))
        data, log = read(tmp_path / "a.json", "coco", "det")
        errors = [(issue.code, issue.pointer) for issue in log if issue.severity == "error"]
        return data.boxes.score.tolist(), data.tracks.score.tolist(), errors

    assert read_scores(track) == ([0.5, 0.75], [0.75], [])
    faulty = {**track, "id": 2, key: "high"}
    assert read_scores(track, faulty) == ([0.5, 0.75], [0.75], [("wrong-box-type", f"/annotations/1/{key}")])
