"""Whole tracks: the protocols `stt` and `tube`, with known answers of the official programs and a slow reference."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

import odm
from odm.evaluate import TUBE_PROTOCOLS, Metric, evaluate
from odm.issues import DataError, Log, UsageError
from odm.tables import Builder, Dataset, Flag


def dataset(tubes, *, videos=("v0", "v1", "v2"), kind="gt", order=None):
    """Tubes (video, class, frames, box or function of the frame, score) as a dataset."""
    rows = []
    for n, (video, name, frames, box, *score) in enumerate(tubes):
        for frame in frames:
            rows.append((video, name, frame, n, box(frame) if callable(box) else box, *(score or [np.nan])))
    if order is not None:
        rows = [rows[i] for i in order(len(rows))]
    builder = Builder()
    for name in videos:
        builder.video(name)
    images = {}
    for video, _, frame, *_ in sorted(rows, key=lambda r: r[:1] + r[2:3]):
        if (video, frame) not in images:
            images[video, frame] = builder.image(f"{video}/{frame:06d}", video=video, frame=frame)
    at = np.array([r[0] for r in rows], np.int64)
    ltwh = np.array([r[4] for r in rows], float).reshape(-1, 4)
    builder.boxes(
        image=np.array([images[r[0], r[2]] for r in rows], np.int64),
        category=np.array([builder.category(r[1]) for r in rows], np.int64),
        xyxy=np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1),
        wh=ltwh[:, 2:],
        score=np.array([r[5] for r in rows]) if kind == "det" else None,
        track=builder.tracks(at, np.array([r[3] for r in rows], np.int64)),
    )
    builder.kind = kind
    return builder.build()


A1_TRUTH = [
    (0, "x", range(10), [0, 0, 10, 10]),
    (0, "x", range(10), [50, 50, 10, 10]),
    (1, "x", range(4), [0, 0, 20, 20]),
]
A1_FOUND = [
    (0, "x", range(10), [0, 0, 10, 8], 0.9),
    (0, "x", range(5, 15), [50, 50, 10, 10], 0.8),
    (1, "x", range(2), [0, 0, 20, 20], 0.7),
    (1, "x", range(4), [5, 0, 20, 20], 0.6),
]
A2_TRUTH = [
    (0, "a", range(6), lambda f: [2 * f, 0, 20, 10]),
    (0, "a", [0, 1, 2, 5, 6, 7], lambda f: [0, 40 + f, 10, 10]),
    (1, "a", range(3), [10, 10, 30, 30]),
    (1, "b", range(5), lambda f: [f, f, 8, 8]),
    (2, "b", range(2, 6), lambda f: [60 - f, 60, 10, 20]),
]
A2_FOUND = [
    (0, "a", range(6), lambda f: [1 + 2 * f, 0, 20, 10], 0.95),
    (0, "a", range(6), lambda f: [2 + 2 * f, 0, 20, 10], 0.9),
    (0, "a", range(8), lambda f: [0, 40 + f, 10, 10], 0.6),
    (1, "a", range(3), [14, 10, 30, 30], 0.7),
    (1, "b", range(5), lambda f: [1 + f, 1 + f, 8, 8], 0.8),
    (2, "b", range(4), lambda f: [60 - f, 60, 10, 20], 0.85),
    (2, "b", range(2, 6), lambda f: [61 - f, 60, 10, 20], 0.3),
    (2, "a", range(2, 6), lambda f: [60 - f, 60, 10, 20], 0.65),
]


def original(tubes, classes, *, scores):
    """The records of the original program's JSON."""
    records = []
    for n, (video, name, frames, box, *score) in enumerate(tubes, 1):
        boxes = [
            {"frame": f, "bbox": box(f) if callable(box) else box}
            | ({"confidence": score[0]} if scores else {})
            for f in frames
        ]
        records.append(
            {"id": n, "video_id": video + 1, "category_id": classes.index(name) + 1, "track": boxes}
        )
    return records


def original_files(folder, truth, found, classes):
    head = {
        "videos": [{"id": i + 1, "file_name": f"v{i}", "width": 300, "height": 300} for i in range(3)],
        "categories": [{"id": i + 1, "name": name} for i, name in enumerate(classes)],
    }
    gt, det = folder / "gt.json", folder / "det.json"
    gt.write_text(json.dumps(head | {"annotations": original(truth, classes, scores=False)}))
    det.write_text(json.dumps(original(found, classes, scores=True)))
    return str(gt), str(det)


def sides(source, truth, found, folder):
    """Both sides in memory, from the original's JSON, or after they were written in a format."""
    if source == "original":
        gt, det = original_files(folder, truth, found, sorted({t[1] for t in truth}))
        return odm.read(gt), odm.read(det, gt=gt)
    both = dataset(truth), dataset(found, kind="det")
    if source == "memory":
        return both
    paths = [
        str(folder / f"{kind}{'' if source in ('mot', 'kitti') else suffix(source)}")
        for kind in ("gt", "det")
    ]
    for data, path in zip(both, paths, strict=True):
        odm.write(data, path, source, **({"layout": "tracking"} if source == "kitti" else {}))
    return odm.read(paths[0], source, kind="gt"), odm.read(paths[1], source, kind="det")


def test_results_of_tubes_need_their_ground_truth(tmp_path):
    tubes = [(0, "cat", [1, 2], (0, 0, 9, 9), 0.5)]
    (tmp_path / "det.json").write_text(json.dumps(original(tubes, ["cat"], scores=True)))
    with pytest.raises(odm.DataError) as caught:
        odm.read(tmp_path / "det.json")
    assert [(issue.code, issue.path) for issue in caught.value.log] == [
        ("results-without-reference", str(tmp_path / "det.json"))
    ]


def suffix(name):
    return odm.formats.FORMATS[name].suffixes[0]


every_source = pytest.mark.parametrize(
    "source", ["memory", "original", "mot", "cvat", "coco", "csv", "kitti"]
)


@every_source
@pytest.mark.parametrize(
    ("iou", "stt", "tube"),
    [
        (0.3, 0.916667, 1), (1 / 3, 0.916667, None), (0.34, 0.5, None), (0.5, 0.5, 0.554455), (0.55, 0.5, 0.5),
        (0.7, 0.333333, 0.336634), (0.81, 0, None),
    ],
)  # fmt: skip
def test_known_answers_of_one_class(source, iou, stt, tube, tmp_path):
    both = sides(source, A1_TRUTH, A1_FOUND, tmp_path)
    assert evaluate(*both, "stt", iou=iou).summary["mAP"] == pytest.approx(stt, abs=1e-6)
    if tube is not None:
        assert evaluate(*both, "tube", iou=iou).summary["AP"] == pytest.approx(tube, abs=1e-6)


@pytest.mark.parametrize(("iou", "ap"), [(0.3, 0.909091), (0.5, 0.5), (0.55, 0.5), (0.7, 0.363636)])
def test_known_answers_at_11_points(iou, ap):
    both = dataset(A1_TRUTH), dataset(A1_FOUND, kind="det")
    found = evaluate(*both, "stt", iou=iou, interpolation=11).summary["mAP"]
    assert found == pytest.approx(ap, abs=1e-6)


@every_source
@pytest.mark.parametrize(
    ("iou", "a", "b"),
    [(0.5, 0.755556, 0.666667), (0.75, 0.755556, 0.166667), (0.8, 0.333333, 0.166667), (0.9, 0.333333, 0)],
)
def test_known_answers_of_two_classes(source, iou, a, b, tmp_path):
    result = evaluate(*sides(source, A2_TRUTH, A2_FOUND, tmp_path), "stt", iou=iou).result
    ap = {row.name: row.ap for row in result.classes}
    assert ap == pytest.approx({"a": a, "b": b}, abs=1e-6)
    assert result.summary["mAP"] == pytest.approx((a + b) / 2, abs=1e-6)


# ---------------------------------------------------------------------------------------- a slow reference


def tubes_of(data):
    """Every tube as (first row, video, class, {frame: box}, score), from the definition."""
    found = {}
    boxes, images = data.boxes, data.images
    for row in range(len(boxes)):
        if boxes.flags[row] & Flag.CROWD:
            continue
        image = int(boxes.image[row])
        track = int(boxes.track[row])
        key = (int(images.video[image]), ("box", row) if track < 0 else track, int(boxes.category[row]))
        tube = found.setdefault(key, (row, key[0], data.categories.name[key[2]], {}, []))
        tube[3][int(images.frame[image])] = (*boxes.xyxy[row, :2], *boxes.wh[row])
        tube[4].append(float(boxes.score[row]))
    return [(*tube[:4], float(np.mean(tube[4]))) for tube in found.values()]


def volume_iou(a, b):
    shared = 0.0
    for frame in a.keys() & b.keys():
        (x, y, w, h), (p, q, r, s) = a[frame], b[frame]
        shared += max(0, min(x + w, p + r) - max(x, p)) * max(0, min(y + h, q + s) - max(y, q))
    union = sum(w * h for *_, w, h in a.values()) + sum(w * h for *_, w, h in b.values()) - shared
    return shared / union if union > 0 else 0.0


def reference_stt(truth, found, iou):
    """AP by class, and (tp, fp, ground truths) over all videos."""
    ours, theirs = tubes_of(truth), tubes_of(found)
    answers = {}
    for name in {tube[2] for tube in ours}:
        hits = set()
        for video in {tube[1] for tube in ours}:
            gts = [t for t in ours if t[1:3] == (video, name)]
            dets = sorted((t for t in theirs if t[1:3] == (video, name)), key=lambda t: (-t[4], t[0]))
            while gts and dets:
                table = [
                    (volume_iou(d[3], g[3]), -i, -k) for i, g in enumerate(gts) for k, d in enumerate(dets)
                ]
                best, i, k = max(table)
                if best < iou:
                    break
                hits.add(dets[-k][0])
                del gts[-i], dets[-k]
        ranked = sorted((t for t in theirs if t[2] == name), key=lambda t: (-t[4], t[0]))
        n = sum(t[2] == name for t in ours)
        points, tp = [], 0
        for rank, tube in enumerate(ranked, 1):
            tp += tube[0] in hits
            points.append((tp / n, tp / rank))
        ap, before = 0.0, 0.0
        for recall, _ in points:
            if recall > before:
                ap += (recall - before) * max(p for r, p in points if r >= recall)
                before = recall
        answers[name] = ap, (tp, len(ranked) - tp, n)
    return answers


def reference_tube(truth, found, iou):
    """AP over 101 points by class: every detection, best first, takes its best free ground truth of the video."""
    ours, theirs = tubes_of(truth), tubes_of(found)
    answers = {}
    for name in {tube[2] for tube in ours}:
        hits, best_100 = set(), []
        for video in {tube[1] for tube in ours + theirs}:
            gts = [t for t in ours if t[1:3] == (video, name)]
            dets = sorted((t for t in theirs if t[1:3] == (video, name)), key=lambda t: (-t[4], t[0]))[:100]
            best_100 += dets
            taken = set()
            for d in dets:
                able = [(volume_iou(d[3], g[3]), i) for i, g in enumerate(gts) if i not in taken]
                able = [pair for pair in able if pair[0] >= iou]
                if able:
                    hits.add(d[0])
                    taken.add(max(able)[1])
        ranked = sorted(best_100, key=lambda t: (-t[4], t[1], t[0]))
        n = sum(t[2] == name for t in ours)
        recalls, precisions, tp = [], [], 0
        for rank, tube in enumerate(ranked, 1):
            tp += tube[0] in hits
            recalls.append(tp / n)
            precisions.append(tp / rank)
        at = [
            max((p for r, p in zip(recalls, precisions, strict=True) if r >= x), default=0)
            for x in np.linspace(0, 1, 101)
        ]
        answers[name] = float(np.mean(at))
    return answers


def random_sides(seed):
    """Tubes that overlap by chance, on a coarse grid so that there are ties of IoU and of score."""
    rng = np.random.default_rng(seed)
    classes, n_videos = ["a", "b"][: 1 + seed % 2], int(rng.integers(1, 4))

    def some(n, *, scored):
        tubes = []
        for _ in range(n):
            frames = sorted(rng.choice(12, size=int(rng.integers(1, 8)), replace=False).tolist())
            box = [*(rng.integers(0, 4, 2) * 5).tolist(), *(rng.integers(0, 4, 2) * 5).tolist()]
            score = [round(float(rng.random()), 1)] if scored else []
            tubes.append((int(rng.integers(n_videos)), str(rng.choice(classes)), frames, box, *score))
        return tubes

    def shuffled(n):
        return rng.permutation(n) if seed % 3 == 0 else range(n)

    names = [f"v{i}" for i in range(3)]
    truth = dataset(
        [(0, "a", [0], [0, 0, 5, 5]), *some(int(rng.integers(0, 12)), scored=False)], videos=names
    )
    found = dataset(some(int(rng.integers(1, 20)), scored=True), videos=names, kind="det", order=shuffled)
    return truth, found


@pytest.mark.parametrize("seed", range(60))
def test_random_tubes_agree_with_the_definition(seed):
    truth, found = random_sides(seed)
    for iou in (0.2, 0.5):
        result = evaluate(truth, found, "stt", iou=iou, extra_images="background").result
        wanted = reference_stt(truth, found, iou)
        for row in result.classes:
            if row.name in wanted:
                ap, counts = wanted[row.name]
                assert (row.tp, row.fp, row.gt) == counts
                assert row.ap == pytest.approx(ap, abs=1e-9)
            else:
                assert np.isnan(row.ap)
        assert result.summary["mAP"] == pytest.approx(np.mean([ap for ap, _ in wanted.values()]), abs=1e-9)
        result = evaluate(truth, found, "tube", iou=iou, extra_images="background").result
        wanted = reference_tube(truth, found, iou)
        assert {r.name: r.ap for r in result.classes if r.name in wanted} == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("protocol", "ap"), [("stt", 0.5), ("tube", 1.0)])
def test_equal_scores_are_taken_as_given_or_video_by_video(protocol, ap):
    """A false positive of the second video comes first in the file, with the score of the only hit."""
    videos = ("v0", "v1")
    truth = dataset([(0, "x", range(3), [0, 0, 10, 10])], videos=videos)
    found = [(1, "x", range(3), [50, 50, 10, 10], 0.5), (0, "x", range(3), [0, 0, 10, 10], 0.5)]
    result = evaluate(
        truth, dataset(found, videos=videos, kind="det"), protocol, extra_images="background"
    ).result
    assert result.classes[0].ap == pytest.approx(ap)


# ------------------------------------------------------------------------------- what the original did oddly


def test_counts_are_sums_over_videos():
    result = evaluate(dataset(A1_TRUTH), dataset(A1_FOUND, kind="det"), "stt").result
    (row,) = result.classes
    assert (row.gt, row.det, row.tp, row.fp, row.fn) == (3, 4, 2, 2, 1)


def test_a_class_without_ground_truth_is_not_averaged():
    found = [*A1_FOUND, (0, "other", range(3), [0, 0, 10, 10], 0.99)]
    result = evaluate(dataset(A1_TRUTH), dataset(found, kind="det"), "stt").result
    assert result.summary["mAP"] == pytest.approx(0.5)
    assert np.isnan({row.name: row.ap for row in result.classes}["other"])


def test_videos_of_the_detections_alone_follow_extra_images():
    found = dataset([*A1_FOUND, (2, "x", range(3), [0, 0, 10, 10], 0.99)], kind="det")
    truth = dataset(A1_TRUTH, videos=("v0", "v1"))
    with pytest.raises(DataError):
        evaluate(truth, found, "stt")
    assert evaluate(truth, found, "stt", extra_images="ignore").classes[0].fp == 2
    assert evaluate(truth, found, "stt", extra_images="background").classes[0].fp == 3


def test_an_object_twice_in_a_frame_and_a_change_of_class_are_errors():
    twice = dataset(A1_TRUTH)
    track = np.array(twice.boxes.track)
    track[10:20] = 0
    twice = replace(twice, boxes=replace(twice.boxes, track=track))
    with pytest.raises(DataError) as caught:
        evaluate(twice, dataset(A1_FOUND, kind="det"), "stt")
    assert caught.value.log.counts["track-twice-in-frame"] == 10
    changing = dataset(A2_TRUTH)
    category = np.array(changing.boxes.category)
    category[0] = 1
    changing = replace(changing, boxes=replace(changing.boxes, category=category))
    with pytest.raises(DataError) as caught:
        evaluate(changing, dataset(A2_FOUND, kind="det"), "stt")
    assert caught.value.log.counts["track-changes-class"] == 1
    log = Log()
    det = replace(dataset(A2_FOUND, kind="det"))
    category = np.array(det.boxes.category)
    category[0] = 1
    det = replace(det, boxes=replace(det.boxes, category=category))
    result = evaluate(dataset(A2_TRUTH), det, "stt", log=log).result
    assert log.counts["detections-change-class"] == 1
    assert sum(row.det for row in result.classes) == len(A2_FOUND) + 1


def test_zero_volumes_overlap_nothing():
    nothing = [(0, "x", range(3), [5, 5, 0, 0])]
    result = evaluate(dataset(nothing), dataset([(*nothing[0], 0.5)], kind="det"), "stt").result
    assert (result.classes[0].tp, result.summary["mAP"]) == (0, 0)


def test_the_score_of_a_track_goes_before_those_of_its_boxes(tmp_path):
    gt, det = original_files(tmp_path, A1_TRUTH, A1_FOUND, ["x"])
    records = json.loads((tmp_path / "det.json").read_text())
    records[3]["confidence"] = 0.95
    (tmp_path / "det.json").write_text(json.dumps(records))
    result = evaluate(odm.read(gt), odm.read(det, gt=gt), "stt", iou=0.55).result
    assert result.curves["x"].score.tolist() == [0.95, 0.9]


def test_crowd_boxes_leave_the_tubes():
    truth = dataset(A1_TRUTH)
    flags = np.zeros(len(truth), np.uint16)
    flags[-4:] = Flag.CROWD
    truth = replace(truth, boxes=replace(truth.boxes, flags=flags))
    log = Log()
    result = evaluate(truth, dataset(A1_FOUND, kind="det"), "stt", log=log).result
    assert result.classes[0].gt == 2
    assert any("4 crowd boxes" in note for note in log.notes)


def test_boxes_without_tracks_are_tubes_of_one_frame():
    still = Dataset.from_arrays(
        images=["a", "b"], categories=["x"], image=[0, 1], category=[0, 0],
        xyxy=[[0, 0, 9, 9]] * 2, video=["v", "v"], frame=[0, 1],
    )  # fmt: skip
    found = replace(still, kind="det", boxes=replace(still.boxes, score=np.array([0.9, 0.8])))
    log = Log()
    row = evaluate(still, found, "stt", log=log).classes[0]
    assert (row.gt, row.tp) == (2, 2)
    assert any("no box of the ground truth has a track" in note for note in log.notes)


def test_frames_are_joined_by_image_where_a_side_has_no_numbers():
    truth = dataset(A1_TRUTH)
    found = dataset([(t[0], t[1], [f for f in t[2] if f < 10], *t[3:]) for t in A1_FOUND], kind="det")
    bare = replace(found, images=replace(found.images, video=None, frame=None))
    whole, by_image = (evaluate(truth, side, "stt", iou=0.3).summary["mAP"] for side in (found, bare))
    assert by_image == pytest.approx(whole)


def test_one_video_each_is_one_video():
    truth = dataset([t for t in A1_TRUTH if t[0] == 0], videos=("gt-name",))
    found = dataset([t for t in A1_FOUND if t[0] == 0], videos=("MOT17-02",), kind="det")
    log = Log()
    assert evaluate(truth, found, "stt", log=log).classes[0].tp == 1
    assert any("taken to be the same" in note for note in log.notes)


@pytest.mark.parametrize(
    ("frames", "shifted"),
    [
        ((range(1, 11), range(1, 5)), True),
        ((range(2, 11), range(1, 4)), True),  # none in the last frame of the second video
        ((range(10), range(4)), False),
        ((range(1, 10), range(1, 4)), False),
        ((range(1, 11), range(4)), False),  # the second is not shifted
        ((range(1, 12), range(1, 5)), False),  # frames beyond the ground truth, not shifted ones
    ],
)
def test_frames_counted_from_another_start_are_reported(frames, shifted):
    truth = dataset([(0, "x", range(10), [0, 0, 10, 10]), (1, "x", range(4), [0, 0, 20, 20])])
    found = dataset([(i, "x", f, [0, 0, 10, 10], 0.9) for i, f in enumerate(frames)], kind="det")
    log = Log()
    evaluate(truth, found, "stt", log=log)
    assert ("frame-numbers-shifted" in log.counts) == shifted


def test_detections_counted_from_0_are_reported_too():
    truth = dataset([(0, "x", range(1, 11), [0, 0, 10, 10])])
    found = dataset([(0, "x", range(10), [0, 0, 10, 10], 0.9)], kind="det")
    log = Log()
    doubts = evaluate(truth, found, "stt", log=log).to_dict()["doubts"]
    assert "frame-numbers-shifted" in [doubt["code"] for doubt in doubts]
    issue = next(iter(log))
    assert (issue.code, "are 0..9" in issue.message, "1..10 in the video" in issue.message) == (
        "frame-numbers-shifted", True, True
    )  # fmt: skip


# -------------------------------------------------------------------------------------------- the commands


def test_the_command(odm_run, tmp_path):
    gt, det = original_files(tmp_path, A1_TRUTH, A1_FOUND, ["x"])
    out, _ = odm_run("eval", gt, det, "--protocol", "stt", "--protocol", "tube", "--output", "json")
    data = json.loads(out)
    assert data["join"]["videos"]["both"] == 3
    assert set(data["results"][1]["summary"]) == {"AP", "AP50", "AP75", "AR"}
    assert data["results"][0]["summary"] == {"mAP": pytest.approx(0.5)}
    assert "videos: 3 in both" in odm_run("eval", gt, det, "--protocol", "stt")[0]
    odm_run("eval", gt, det, "--protocol", "stt", "--fail-under", "mAP=0.9", code=1)
    odm_run("eval", gt, det, "--protocol", "stt", "--save", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "curves.csv",
        "per_class.csv",
        "results.json",
    ]


@pytest.mark.parametrize("protocol", TUBE_PROTOCOLS)
@pytest.mark.parametrize(
    "option",
    [
        ["--ci"], ["--analyze", "tide"], ["--thresholds", "f1"], ["--plots", "x"], ["--report", "x.html"],
        ["--area", "small"], ["--pixels", "inclusive"], ["--keep-difficult"], ["--protocol", "coco"],
    ],
    ids=lambda option: option[0],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(protocol, option, odm_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gt, det = original_files(tmp_path, A1_TRUTH, A1_FOUND, ["x"])
    _, err = odm_run("eval", gt, det, "--protocol", protocol, *option, code=2)
    assert option[0] in err
    assert protocol in err


@pytest.mark.parametrize("protocol", TUBE_PROTOCOLS)
def test_what_is_of_boxes_is_refused_in_python(protocol, odm_run):
    evaluation = evaluate(dataset(A1_TRUTH), dataset(A1_FOUND, kind="det"), protocol)
    for ask in (lambda r: r.detections, lambda r: r.confusion(), lambda r: r.report_data()):
        with pytest.raises(UsageError, match="whole tracks"):
            ask(evaluation.result)
    with pytest.raises(ValueError, match="measures tracks"):
        Metric(classes=["x"], protocol=protocol)
    odm_run("compare", "a", "b", "c", "--protocol", protocol, code=2)


@pytest.mark.parametrize("protocol", TUBE_PROTOCOLS)
@pytest.mark.parametrize("by", [1, 7, 1000, 2**30])
def test_where_the_frames_of_a_video_begin_does_not_matter(protocol, by):
    for seed in range(6):
        truth, found = random_sides(seed)
        usual = evaluate(truth, found, protocol).summary
        moved = []
        for side in (truth, found):
            frame = (side.images.frame + by).astype(side.images.frame.dtype)
            moved.append(replace(side, images=replace(side.images, frame=frame)))
        assert evaluate(*moved, protocol).summary == pytest.approx(usual, nan_ok=True), seed


@pytest.mark.parametrize("protocol", TUBE_PROTOCOLS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_size_of_pieces_of_pairs_does_not_matter(protocol, n, monkeypatch):
    for seed in range(6):
        sides_ = random_sides(seed)
        usual = evaluate(*sides_, protocol).summary
        with monkeypatch.context() as patch:
            patch.setattr("odm.evaluate.tubes.AT_A_TIME", n)
            assert evaluate(*sides_, protocol).summary == pytest.approx(usual, abs=1e-12, nan_ok=True), seed
