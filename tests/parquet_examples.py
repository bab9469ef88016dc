"""Makes the Parquet fixtures: run it from the root of the checkout, `python tests/parquet_examples.py`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = ["person", "traffic light", "007"]
IMAGES = [("empty.jpg", 320, 240), ("street.jpg", 640, 480), ("yard.png", 500, 375)]
BOXES = [
    (1, 0, (10, 20, 100, 200), ""),
    (1, 0, (300.5, 40.25, 50.5, 100.75), "difficult"),
    (1, 1, (600, 0, 40, 120), "truncated"),
    (2, 2, (0, 0, 500, 375), ""),
    (2, 0, (100, 50, 30, 60), "occluded"),
    (2, 1, (250, 300, 125, 75), ""),
]
SCORES = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
FREQUENCIES = ["f", "c", "r"]


def moved(image, box):
    """The box of the detections, two pixels to the right and one below where that is inside."""
    left, top, width, height = box
    _, w, h = IMAGES[image]
    if left + 2 + width <= w and top + 1 + height <= h:
        left, top = left + 2, top + 1
    return left, top, width, height


def save(name, table, case=None, **metadata):
    folder = FIXTURES / name
    folder.mkdir(parents=True, exist_ok=True)
    if metadata:
        table = table.replace_schema_metadata({k: json.dumps(v) for k, v in metadata.items()})
    pq.write_table(table, folder / "input.parquet", write_page_checksum=True)
    if case:
        (folder / "case.json").write_text(json.dumps(case) + "\n", encoding="utf-8")


def flat(det=False, **changes):
    rows = []
    for i, (image, category, box, flag) in enumerate(BOXES):
        left, top, width, height = moved(image, box) if det else box
        rows.append({"image": IMAGES[image][0], "width": IMAGES[image][1], "height": IMAGES[image][2],
                     "class": NAMES[category], **({"score": SCORES[i]} if det else {}), "left": float(left),
                     "top": float(top), "right": float(left + width), "bottom": float(top + height),
                     **({} if det else {k: k == flag for k in ("difficult", "truncated", "occluded")})})  # fmt: skip
    rows.insert(0, {"image": "empty.jpg", "width": 320, "height": 240})
    columns = {name: [row.get(name) for row in rows] for name in rows[1]}
    for name, (row, value) in changes.items():
        columns[name][row] = value
    return pa.table(columns)


def classes():
    return {"classes": [{"name": n, "frequency": f} for n, f in zip(NAMES, FREQUENCIES, strict=True)]}


def nested():
    objects = [{"bbox": [], "category": []} for _ in IMAGES]
    for image, category, (left, top, width, height), _ in BOXES:
        objects[image]["bbox"].append([float(left), float(top), float(width), float(height)])
        objects[image]["category"].append(category)
    kind = pa.struct({"bbox": pa.list_(pa.list_(pa.float32(), 4)), "category": pa.list_(pa.int64())})
    feature = {"_type": "Sequence", "feature": {"_type": "ClassLabel", "names": NAMES}}
    features = {"info": {"features": {"objects": {"bbox": {"_type": "Sequence"}, "category": feature}}}}
    names, width, height = zip(*IMAGES, strict=True)
    image = [{"bytes": b"\x89PNG", "path": name} for name in names]
    table = pa.table({"image": image, "width": width, "height": height, "objects": pa.array(objects, kind)})
    return table, features


def lists():
    rows = [{"image": i, "boxes": [], "labels": [], "scores": []} for i, _, _ in IMAGES]
    for i, (image, category, box, _) in enumerate(BOXES):
        left, top, width, height = moved(image, box)
        rows[image]["boxes"].append([float(left), float(top), float(left + width), float(top + height)])
        rows[image]["labels"].append(NAMES[category])
        rows[image]["scores"].append(SCORES[i])
    return pa.Table.from_pylist(rows)


def bad():
    """Tables with one fault each, by the name of the folder: the table, its case, its metadata."""
    table = flat()
    yield "incomplete-box", flat(right=(2, None)), {"place": "input.parquet:3"}, {}
    yield "incomplete-box-class", flat(**{"class": (2, None)}), {"place": "input.parquet:3"}, {}
    yield "not-finite", flat(top=(4, float("inf"))), {"place": "input.parquet:5"}, {}
    yield "image-name-missing", flat(image=(1, None)), {"place": "input.parquet:2"}, {}
    yield "bad-name", flat(image=(1, "../street.jpg")), {"place": "input.parquet:2"}, {}
    yield "bad-class-name", flat(**{"class": (3, " ")}), {"place": "input.parquet:4"}, {}
    yield "bad-image-size", flat(width=(1, -1)), {"place": "input.parquet:2"}, {}
    yield "image-size-conflict", flat(width=(3, 641)), {"place": "input.parquet:4"}, {}
    yield "missing-column", table.drop_columns(["bottom"]), {"place": "input.parquet"}, {}
    twice = table.append_column("label", table["class"]).rename_columns(
        [
            "label" if n == "class" else "category" if n == "label" else n
            for n in [*table.column_names, "label"]
        ]
    )
    yield "ambiguous-column", twice, {"place": "input.parquet"}, {}
    kind = table.set_column(5, "top", pa.array(["1"] * 7))
    yield "wrong-type", kind.drop_columns(["left"]).append_column("left", table["left"]), {}, {}
    flag = table.set_column(8, "difficult", pa.array([0, 0, 2, 0, 0, 0, 0]))
    yield "bad-flag", flag, {"place": "input.parquet:3"}, {}
    number = table.set_column(3, "class", pa.array([None, 0, 0, 3, 0, 1, 1]))
    yield "unknown-class", number, {"place": "input.parquet:4"}, {"odm": {"classes": NAMES}}
    yield "score-missing", flat(True, score=(2, None)), {"kind": "det", "place": "input.parquet:3"}, {}
    row = {"image_id": 1, "objects": {"bbox": [[1.0, 2.0, 30.0, 40.0]], "category": ["cat"]}}
    yield "box-form-unclear", pa.Table.from_pylist([row]), {"place": "input.parquet"}, {}
    row = {"image_id": 1, "objects": {"bbox": [[1.0, 2.0, 30.0]], "category": ["cat"]}}
    options = {"options": {"box": "ltwh"}, "place": "input.parquet:1"}
    yield "wrong-count", pa.Table.from_pylist([row]), options, {}
    row = {"image_id": 1, "objects": {"bbox": [[1.0, 2.0, 30.0, 40.0]], "category": ["cat", "dog"]}}
    yield "wrong-count-lists", pa.Table.from_pylist([row]), options, {}


def main():
    save("mixed/parquet", flat(), None, odm=classes())
    save("mixed/parquet-detections", flat(True), {"kind": "det"}, odm=classes())
    table, features = nested()
    save("mixed/parquet-objects", table, None, huggingface=features)
    save("mixed/parquet-lists-detections", lists(), {"kind": "det"}, odm=classes())
    for name, table, case, metadata in bad():
        save(f"bad/parquet/{name}", table, case, **metadata)
    text = FIXTURES / "bad" / "parquet" / "not-text"
    text.mkdir(exist_ok=True)
    (text / "input.parquet").write_bytes(b"image,left\n")


if __name__ == "__main__":
    main()
