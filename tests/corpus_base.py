"""A small dataset in some formats, and what may come of a source that differs from it."""

import dataclasses
import json
import struct
import zlib
from pathlib import Path

WIDTH, HEIGHT = 100, 80
BOXES = [
    ("a", "cat", (10.0, 10.0, 40.0, 30.0)),
    ("a", "dog", (50.0, 20.0, 90.0, 70.0)),
    ("b", "cat", (5.0, 5.0, 20.0, 60.0)),
]
SCORES = [0.9, 0.8, 0.7]
ONLY_B = BOXES[2:]

# --------------------------------------------------------------------------------- the dataset, in each format


def txt(det=False):
    def row(i):
        _, name, box = BOXES[i]
        return " ".join([name, *([f"{SCORES[i]}"] if det else []), *(f"{v:g}" for v in box)]) + "\n"

    return {"a.txt": row(0) + row(1), "b.txt": row(2)}


def yolo(det=False):
    def row(i):
        _, name, (left, top, right, bottom) = BOXES[i]
        values = [
            (left + right) / 2 / WIDTH,
            (top + bottom) / 2 / HEIGHT,
            (right - left) / WIDTH,
            (bottom - top) / HEIGHT,
        ]
        last = [SCORES[i]] if det else []
        return " ".join([str(["cat", "dog"].index(name)), *(f"{v:g}" for v in [*values, *last])]) + "\n"

    return {"a.txt": row(0) + row(1), "b.txt": row(2), "classes.txt": "cat\ndog\n"}


def voc(det=False):
    def page(image):
        lines = [
            "<annotation>",
            f"<filename>{image}.jpg</filename>",
            f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>",
        ]
        for i, (owner, name, (left, top, right, bottom)) in enumerate(BOXES):
            if owner == image:
                score = f"<confidence>{SCORES[i]}</confidence>" if det else ""
                edges = (
                    f"<xmin>{left:g}</xmin><ymin>{top:g}</ymin><xmax>{right:g}</xmax><ymax>{bottom:g}</ymax>"
                )
                lines += [f"<object><name>{name}</name>{score}", f"<bndbox>{edges}</bndbox>", "</object>"]
        return "\n".join([*lines, "</annotation>"]) + "\n"

    return {"a.xml": page("a"), "b.xml": page("b")}


def coco(det=False):
    images, annotations = ["a", "b"], []
    for i, (owner, name, (left, top, right, bottom)) in enumerate(BOXES):
        record = {
            "id": i + 1,
            "image_id": images.index(owner) + 1,
            "category_id": ["cat", "dog"].index(name) + 1,
            "bbox": [left, top, right - left, bottom - top],
        }
        annotations.append(
            record
            | ({"score": SCORES[i]} if det else {"area": record["bbox"][2] * record["bbox"][3], "iscrowd": 0})
        )
    whole = {
        "images": [
            {"id": i + 1, "file_name": f"{name}.jpg", "width": WIDTH, "height": HEIGHT}
            for i, name in enumerate(images)
        ],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    return {"instances_all.json": json.dumps(whole, indent=1)}


def csv(det=False):
    lines = ["image,width,height,class,score,left,top,right,bottom"]
    for i, (owner, name, box) in enumerate(BOXES):
        score = f"{SCORES[i]}" if det else ""
        lines.append(f"{owner}.jpg,{WIDTH},{HEIGHT},{name},{score}," + ",".join(f"{v:g}" for v in box))
    return {"boxes.csv": "\n".join(lines) + "\n"}


BASE = {"txt": txt, "yolo": yolo, "voc": voc, "coco": coco, "csv": csv}
MAIN = {"txt": "a.txt", "yolo": "a.txt", "voc": "a.xml", "coco": "instances_all.json", "csv": "boxes.csv"}
SINGLE = {"coco", "csv"}
TOLD = {
    "txt": ["--box", "ltrb", "--image-size", f"{WIDTH}x{HEIGHT}"],
    "yolo": ["--image-size", f"{WIDTH}x{HEIGHT}"],
}
"""What has to be said where the files do not: options of the command line by format."""


def lay(folder, files):
    """Write files, whose contents are text or bytes, into a new folder."""
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Path(folder)


def tree(path):
    """What each file below a folder holds."""
    return {
        p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()
    }


# ----------------------------------------------------------------------------------------------- a picture


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"".join(
    (
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(bytes((WIDTH + 1) * HEIGHT))),
        chunk(b"IEND", b""),
    )
)


# ------------------------------------------------------------------------------------------------- expectations


@dataclasses.dataclass(frozen=True)
class Refused:
    """Exit code 1, an error of this code at this place (a path below the case's folder), nothing written."""

    code: str
    location: str = ""


@dataclasses.dataclass(frozen=True)
class Read:
    """Exit code 0 and exactly these boxes; where `code` is given, a warning says so."""

    boxes: tuple = tuple(BOXES)
    code: str = ""


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Exit code 3: the source itself cannot be used."""

    says: str
