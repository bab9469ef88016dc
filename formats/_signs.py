"""What detection and the command line must know of the formats in this package before they import them.

Written by ``python docs/generate.py``. A format that is missing here is always asked.
"""

SIGNS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "automl": ((".csv",), ""),
    "bdd100k": ((".json",), "[{"),
    "coco": ((".json",), "[{"),
    "createml": ((".json",), "[{"),
    "crowdhuman": ((".odgt", ".jsonl"), "[{"),
    "csv": ((".csv", ".tsv"), ""),
    "cvat": ((".xml",), "<\u0000\u00fe\u00ff"),
    "darknet": ((".json",), "[{"),
    "darwin": ((".json",), "[{"),
    "dlib": ((".xml",), "<\u0000\u00fe\u00ff"),
    "dota": ((".txt",), ""),
    "fiftyone": ((".json",), "[{"),
    "icdar": ((".txt",), ""),
    "imagefolder": ((".jsonl", ".csv"), ""),
    "kitti": ((".txt",), ""),
    "labelbox": ((".ndjson", ".jsonl", ".json"), "[{"),
    "labelme": ((".json",), "[{"),
    "labelmexml": ((".xml",), "<\u0000\u00fe\u00ff"),
    "labelstudio": ((".json",), "[{"),
    "lvis": ((".json",), "[{"),
    "mmdet": ((".json",), "[{"),
    "mot": ((".txt",), ""),
    "opencv": ((".dat", ".txt", ".info", ".lst"), None),
    "paddleocr": ((".txt", ".cach"), None),
    "parquet": ((".parquet", ".pq"), "P"),
    "sagemaker": ((".manifest", ".jsonl"), "[{"),
    "superannotate": ((".json",), "[{"),
    "supervisely": ((".json",), "[{"),
    "tfrecord": (("",), None),
    "txt": ((".txt",), ""),
    "ultralytics": ((".ndjson", ".jsonl"), "[{"),
    "via": ((".json", ".csv"), None),
    "visdrone": ((".txt",), ""),
    "voc": ((".xml", ".txt"), "<\u0000\u00fe\u00ff"),
    "vott": ((".csv", ".json"), "[{"),
    "wheat": ((".csv",), ""),
    "widerface": ((".txt",), ""),
    "yolo": ((".txt", ".yaml", ".yml", ".data"), ""),
    "yolokeras": ((".txt",), ""),
}
"""`Format.signs` by name."""

FLAGS: dict[str, tuple[str, ...]] = {
    "--box": ("parquet", "txt"),
    "--classes": ("csv", "icdar", "mot", "txt", "visdrone"),
    "--conf-column": ("yolo",),
    "--coords": ("csv", "txt"),
    "--copy-images": ("yolo",),
    "--image-size": ("automl",),
    "--image-sizes": ("automl",),
    "--images": ("automl",),
    "--link-images": ("yolo",),
    "--names": ("automl",),
    "--sep": ("csv", "txt"),
    "--split": ("automl", "coco"),
}
"""Formats that together have every form of a long flag."""
