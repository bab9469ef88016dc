"""What detection and the command line must know of the formats in this package before they import them.

Written by ``python docs/generate.py``. A format that is missing here is always asked.
"""

SIGNS: dict[str, tuple[tuple[str, ...], str | None, tuple[str, ...]]] = {
    "automl": ((".csv",), "", ()),
    "azure": ((".jsonl", ".json"), "[{", ("image_url", "topX", "predictions", "mageUri")),
    "bbgt": ((".txt",), "", ("bbGt",)),
    "bboxlabeltool": ((".txt",), "", ()),
    "bdd100k": ((".json",), "[{", ("labels", "frames", "videoName", "timestamp", "frameIndex")),
    "coco": ((".json",), "[{", ()),
    "createml": ((".json",), "[{", ('"image"', '"imagefilename"')),
    "crowdhuman": ((".odgt", ".jsonl"), "[{", ("gtboxes", "dtboxes")),
    "csv": ((".csv", ".tsv"), "", ()),
    "cvat": ((".xml",), "<\u0000\u00fe\u00ff", ()),
    "darknet": ((".json",), "[{", ("objects",)),
    "darwin": ((".json",), "[{", ('"slots"', '"image"')),
    "datumaro": ((".json",), "[{", ("dm_format_version", '"items"', "categories")),
    "dlib": ((".xml",), "<\u0000\u00fe\u00ff", ()),
    "dota": ((".txt",), "", ()),
    "encord": ((".json",), "[{", ("data_units",)),
    "fiftyone": ((".json",), "[{", ("samples", "labels")),
    "icdar": ((".txt",), "", ()),
    "imagefolder": ((".jsonl", ".csv"), "", ()),
    "kili": ((".json",), "[{", ("externalId",)),
    "kitti": ((".txt",), "", ()),
    "labelbox": ((".ndjson", ".jsonl", ".json"), "[{", ("data_row", "Labeled Data")),
    "labelme": ((".json",), "[{", ("shapes", "imageData")),
    "labelmexml": ((".xml",), "<\u0000\u00fe\u00ff", ()),
    "labelstudio": ((".json", ".csv", ".tsv"), "[{", ("data", "annotator")),
    "lvis": ((".json",), "[{", ()),
    "megadetector": ((".json",), "[{", ("detection_categories", '"detections"', '"failure"')),
    "mmdet": ((".json",), "[{", ('"data_list"', '"scores"', '"ann"')),
    "mot": ((".txt",), "", ()),
    "odvg": ((".jsonl", ".json", ".odvg"), "[{", ("detection", "grounding")),
    "opencv": ((".dat", ".txt", ".info", ".lst"), "^[{", ()),
    "paddleocr": ((".txt", ".cach", ".json"), None, ("\t", "input_path")),
    "paligemma": ((".jsonl", ".json"), "[{", ('"suffix"',)),
    "parquet": ((".parquet", ".pq"), "P", ()),
    "roboflow": ((".json",), "[{", ("predictions",)),
    "sa1b": ((".json",), "[{", ("predicted_iou", '"segmentation"')),
    "sagemaker": ((".manifest", ".jsonl"), "[{", ("source-ref",)),
    "superannotate": ((".json",), "[{", ("metadata", "instances", "className", "imageAttributes")),
    "supervisely": ((".json",), "[{", ("objects",)),
    "tfrecord": (("",), None, ("\u0000\u0000\u0000",)),
    "txt": ((".txt",), "", ()),
    "ultralytics": ((".ndjson", ".jsonl"), "[{", ('"dataset"', '"file"')),
    "vertexai": ((".jsonl", ".ndjson"), "[{", ("imageGcsUri", "prediction")),
    "via": ((".json", ".csv"), None, ("_via_", "regions", "region_shape_attributes", "vid_list", "fid_list")),
    "visdrone": ((".txt",), "", ()),
    "voc": ((".xml", ".txt", "."), "<\u0000\u00fe\u00ff", ()),
    "vott": ((".csv", ".json"), "[{", ("asset", "frames", "xmin")),
    "wheat": ((".csv",), "", ()),
    "widerface": ((".txt",), "", ()),
    "xview": ((".geojson", ".json"), "[{", ("bounds_imcoords",)),
    "yolo": ((".txt", ".yaml", ".yml", ".data"), "", ()),
    "yolokeras": ((".txt",), "", ()),
}
"""`Format.signs` by name."""

READ_ONLY = frozenset(["paligemma", "roboflow", "sa1b", "xview"])
"""Formats without `Format.write`."""

FLAGS: dict[str, tuple[str, ...]] = {
    "--box": ("parquet", "txt"),
    "--classes": ("csv", "icdar", "txt", "visdrone"),
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
