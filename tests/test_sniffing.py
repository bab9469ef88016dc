"""Which files each format recognises, and how surely: files at each bound of its sniffer, and just beyond.

Fixtures show that a format recognises its own usual files. These are the fewest keys or rows that it accepts,
and files that lack one of them or have another type, as files of other programs may.
"""

from corpus_base import lay
from selection import of_each

from odm.files import Source
from odm.formats import FORMATS
from odm.formats._contract import LIKELY, NARROWER, POOR, SURE
from odm.formats.tfrecord.wire import frame_record


def confidence_of(name, folder, file, text):
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    answer = FORMATS[name].sniff(Source(str(path)))
    return None if answer is None else answer.confidence


HEADS = {
    ("azure", ".jsonl"): {
        SURE: [
            '[{"image_url": "a", "label": []}]', '{"image_url": "a", "label": []}', '{"boxes": [{"topX": 1}]}',
            '{"predictions": [], "project": "p", "iteration": "i"}', '[{"regions": [], "imageUri": "u"}]',
            '[{"regions": [], "originalImageUri": "u"}]', '[{"regions": [], "resizedImageUri": "u"}]',
        ],
        None: [
            '[{"image_url": "a", "label": "b"}]', '[{"image_url": 1, "label": []}]', '{"boxes": [{"x": 1}]}',
            '{"topX": 1}', '{"predictions": {}, "project": "p", "iteration": "i"}', '[{"imageUri": "u"}]',
            '{"predictions": [], "project": "p"}', '{"regions": [], "imageUri": "u"}', '[{"regions": []}]',
        ],
    },
    ("bdd100k", ".json"): {
        SURE: [
            '[{"name": "a", "labels": []}]', '[{"name": "a", "labels": null}]', '{"frames": [{"labels": []}]}',
            '{"frames": [{"objects": []}]}', '{"frames": [{"timestamp": 1}]}', '{"frames": [{"name": "a"}]}',
        ],
        LIKELY: [
            '[{"name": "a", "timestamp": 1}]', '[{"name": "a", "videoName": 1}]', '[{"name": "a", "frameIndex": 1}]',
        ],
        None: [
            '[{"name": "a", "labels": "b"}]', '[{"name": 1, "labels": []}]', '[{"name": "a"}]', '[{"timestamp": 1}]',
            '{"name": "a", "labels": []}', '{"frames": [{"x": 1}]}', '{"frames": {"labels": []}}', '[{"labels": []}]',
        ],
    },
    ("coco", ".json"): {
        SURE: [
            '[{"image_id": 1, "category_id": 1, "bbox": []}]', '[{"image_id": 1, "bbox": [], "score": 1}]',
            '{"annotations": [{"image_id": 1, "bbox": []}]}', '{"images": [], "annotations": []}',
            '{"categories": [{"id": 1, "name": "a"}], "images": [{"id": 1, "width": 1}]}',
        ],
        LIKELY: [
            "[]", '[{"image_id": 1, "bbox": []}]', '[{"image_id": 1, "score": 1}]', '{"images": [{"id": 1, "width": 2}]}',
            '{"info": {}, "licenses": [{"id": 1', '{"images": [{"file_name": "a',
        ],
        None: [
            '[{"image_id": 1}]', '[{"category_id": 1, "bbox": [], "score": 1}]', '{"images": [{"id": 1}]}', "[1]",
            '{"images": [{"x": 1}], "annotations": []}', '{"annotations": [{"image_id": 1}]}', '{"annotations": []}',
            '{"info": {}, "licenses": []}', '{"info": {}, "licences": [{"id": 1', "{", '{"images": [{"width": 2}]}',
        ],
    },
    ("lvis", ".json"): {
        NARROWER: [
            '{"images": [{"neg_category_ids": []}]}', '{"images": [{"not_exhaustive_category_ids": []}]}',
            '{"annotations": [], "categories": [{"frequency": "c"}]}',
            '{"images": [], "categories": [{"synset": "c"}, {"frequency": "c"}]}',
        ],
        None: [
            '{"images": [{"id": 1}]}', '{"categories": [{"frequency": "c"}]}', '{"images": [], "categories": [{"synset": "c"}]}',
            '{"images": [{"frequency": "c"}], "categories": [{"id": 1}]}', '[{"neg_category_ids": []}]',
            '{"annotations": [{"neg_category_ids": []}]}',
        ],
    },
    ("createml", ".json"): {
        SURE: [
            '[{"image": "a", "annotations": []}]', '[{"image": "a", "annotations": null}]',
            '[{"imagefilename": "a", "annotation": []}]',
        ],
        None: [
            '{"image": "a", "annotations": []}', '[{"image": "a", "annotation": []}]', '[{"image": 1, "annotations": []}]',
            '[{"image": "a", "annotations": {}}]', '[{"annotations": []}]',
        ],
    },
    ("crowdhuman", ".odgt"): {
        SURE: ['{"ID": "a", "gtboxes": []}', '{"ID": "a", "dtboxes": []}'],
        None: ['{"ID": "a"}', '{"gtboxes": []}', '{"ID": "a", "gtboxes": {}}', '[{"ID": "a", "gtboxes": []}]'],
    },
    ("darknet", ".json"): {
        SURE: ['[{"frame_id": 1, "objects": []}]', '[{"filename": "a", "objects": []}]'],
        None: ['[{"objects": []}]', '[{"frame_id": 1}]', '[{"frame_id": 1, "objects": {}}]', '{"frame_id": 1, "objects": []}'],
    },
    ("darwin", ".json"): {
        SURE: [
            '{"item": {"slots": []}}', '{"item": {"slots": []}, "annotations": []}', '[{"item": {"slots": []}}]',
            '{"image": {"filename": "a"}, "annotations": []}', '{"image": {"original_filename": "a"}, "annotations": []}',
        ],
        None: [
            '{"item": {}}', '{"item": [], "slots": 1}', '{"item": {"slots": []}, "annotations": {}}', '{"slots": []}',
            '{"image": {"filename": "a"}}', '{"image": {"x": 1}, "annotations": []}',
            '{"image": "a", "filename": "b", "annotations": []}',
        ],
    },
    ("datumaro", ".json"): {
        SURE: ['{"dm_format_version": "1"}', '{"items": [], "categories": {}}'],
        None: ['{"items": []}', '{"categories": {}}', '{"items": {}, "categories": {}}', '{"items": [], "categories": []}'],
    },
    ("encord", ".json"): {
        SURE: ['[{"data_units": {}}]', '{"data_units": {}}'], None: ['[{"data_units": []}]', '{"data_units": "a"}', "{}"],
    },
    ("fiftyone", ".json"): {
        SURE: [
            '{"samples": [{"filepath": "a"}]}', '{"classes": [], "labels": {}}', '{"classes": null, "labels": {}}',
            '{"labels": {"a": [{"bounding_box": []}]}}',
        ],
        None: [
            '{"samples": [{"x": 1}]}', '{"samples": {"filepath": "a"}}', '{"labels": {}}', '{"classes": {}, "labels": {}}',
            '{"classes": []}', '{"classes": [], "labels": []}', '[{"filepath": "a"}]',
        ],
    },
    ("imagefolder", ".jsonl"): {
        SURE: ['{"file_name": "a", "objects": {}}', '{"file_name": "a", "bbox": []}'],
        None: ['{"file_name": "a"}', '{"file_name": 1, "objects": {}}', '{"objects": {}}', '[{"file_name": "a", "bbox": []}]'],
    },
    ("imagefolder", ".csv"): {
        SURE: ["file_name,objects\n", "bbox,file_name\n"], None: ["file_name,x\n", "objects,bbox\n", "a,b\nfile_name,bbox\n"],
    },
    ("imagefolder", ".json"): {None: ['{"file_name": "a", "objects": {}}']},
    ("kili", ".json"): {
        SURE: ['[{"externalId": "a", "labels": []}]', '{"externalId": "a", "latestLabel": {}}'],
        None: ['[{"externalId": "a"}]', '[{"externalId": 1, "labels": []}]', '[{"labels": []}]'],
    },
    ("labelbox", ".ndjson"): {
        SURE: [
            '{"data_row": {}, "projects": {}}', '[{"data_row": {}, "media_attributes": {}}]',
            '[{"Labeled Data": "a", "Label": {}}]',
        ],
        None: [
            '{"data_row": {}}', '{"data_row": [], "projects": {}}', '{"projects": {}}', '[{"Labeled Data": "a"}]',
            '[{"Label": {}}]',
        ],
    },
    ("labelme", ".json"): {
        SURE: [
            '{"shapes": [], "imagePath": "a"}', '{"shapes": null, "imageWidth": 1}', '{"shapes": [{"points": []}]}',
            '{"version": "5", "imageData": "abc', '{"shapes": [], "imageData": null}', '{"shapes": [], "imageHeight": 1}',
        ],
        None: [
            '{"shapes": []}', '{"imagePath": "a"}', '{"shapes": {}, "imagePath": "a"}', '[{"shapes": [], "imagePath": "a"}]',
            '{"imageData": "a"}', '{"other": 1, "imageData": "abc', '{"version": "5", "imageData": 5, "imagePath": "abc',
            '{"shapes": [{"x": 1}]}',
        ],
    },
    ("labelmexml", ".xml"): {
        SURE: [
            "<annotation><polygon>", "<annotation><imagesize>", "<annotation><sourceAnnotation>", "<annotation><segm>",
        ],
        None: ["<annotation><object>", "<annotation><polygon><bndbox>", "<annotations><polygon>"],
    },
    ("dlib", ".xml"): {SURE: ["<dataset><images>"], None: ["<dataset><name>", "<annotation><images>"]},
    ("voc", ".xml"): {
        SURE: ["<annotation><size>", "<annotation><folder>", "<annotation><object>", "<annotation><filename>"],
        LIKELY: ["<annotation>", "", "<Annotation><size>", "<a:annotation><size>"],
        None: ["<annotation><size><polygon>", "<annotations><size>", "<x>"],
    },
    ("cvat", ".xml"): {
        SURE: [f"<annotations><{tag}" for tag in ("version>", "meta>", 'image id="0"/>', 'track id="0"/>')],
        LIKELY: ["<annotations>", "<annotations><images>"],
        None: ["<annotation><version>"],
    },
    ("labelstudio", ".json"): {
        SURE: [
            *(f'{{"data": {{}}, "{key}": []}}' for key in ("annotations", "predictions", "completions")),
            '[{"data": {}}]', '[{"annotator": 1, "annotation_id": 2}]',
        ],
        None: [
            '{"data": {}}', '{"data": [], "annotations": []}', '{"annotations": []}', '[{"data": []}]', '[{"annotator": 1}]',
            '[{"annotation_id": 1}]', '["annotator", "annotation_id"]',
        ],
    },
    ("labelstudio", ".csv"): {
        SURE: ["image,annotator,annotation_id\n", '"annotation_id"\t"annotator"\n'],
        None: ["image,annotator\n", "a,annotation_id\n", "image\nannotator,annotation_id\n"],
    },
    ("megadetector", ".json"): {
        SURE: [
            '{"images": [{"file": "a", "detections": []}]}', '{"images": [{"file": "a", "failure": "b"}]}',
            '[{"file": "a", "detections": []}]', '{"images": [], "detection_categories": {}}',
        ],
        None: [
            '{"images": [{"file": "a"}]}', '{"images": [{"file": 1, "detections": []}]}', '{"detection_categories": {}}',
            '{"images": [{"detections": []}]}', '{"images": []}',
        ],
    },
    ("mmdet", ".json"): {
        SURE: ['{"data_list": []}', '{"labels": [], "scores": [], "bboxes": []}', '[{"filename": "a", "ann": {}}]'],
        None: [
            '{"data_list": {}}', '{"labels": [], "scores": []}', '[{"filename": "a", "ann": []}]', '[{"ann": {}}]',
            '[{"filename": 1, "ann": {}}]', '{"filename": "a", "ann": {}}', '[{"filename": "a"}]',
        ],
    },
    ("odvg", ".jsonl"): {
        SURE: [
            '{"filename": "a", "detection": {"instances": []}}', '{"filename": "a", "grounding": {"regions": []}}',
            '[{"filename": "a", "detection": {"instance": []}}]',
        ],
        None: [
            '{"filename": 1, "detection": {"instances": []}}', '{"filename": "a", "detection": {}}',
            '{"filename": "a", "detection": [{"instances": []}]}', '{"filename": "a", "instances": {}}',
            '{"detection": {"instances": []}}',
        ],
    },
    ("paddleocr", ".json"): {
        SURE: [f'{{"input_path": "a", "{key}": []}}' for key in ("dt_polys", "rec_polys", "boxes")],
        None: ['{"input_path": "a"}', '{"boxes": []}', '[{"input_path": "a", "boxes": []}]'],
    },
    ("paligemma", ".jsonl"): {
        SURE: ['{"image": "a", "suffix": "<loc0001> cat"}', '[{"suffix": "cat<loc_1>", "image": "a"}]'],
        None: [
            '{"image": "a", "suffix": "cat"}', '{"image": 1, "suffix": "<loc1>"}', '{"image": "a", "prefix": "<loc1>"}',
            '{"suffix": "<loc1>"}', '{"image": 1, "suffix": 1, "a": "<loc1>"}',
        ],
    },
    ("roboflow", ".json"): {
        SURE: [
            '{"predictions": [{"x": 1, "y": 1, "width": 1, "height": 1, "class": "a"}]}', '{"predictions": [], "image": {}}',
            '[{"predictions": [{"x": 1, "confidence": 1}]}]', '{"predictions": {"predictions": [{"x": 1, "confidence": 1}]}}',
        ],
        None: [
            '{"predictions": "a", "image": {}}', '{"predictions": [{"x": 1, "y": 1, "width": 1, "height": 1}]}',
            '[{"predictions": [{"x": 1}]}]', '[{"predictions": [{"confidence": 1}]}]', '{"predictions": [], "image": "a"}',
            '{"predictions": [{"x": 1, "confidence": 1}]}', '{"image": {}}',
        ],
    },
    ("sa1b", ".json"): {
        SURE: [
            '{"image": {"image_id": 1}, "annotations": [{"predicted_iou": 1}]}',
            '{"image": {"image_id": 1}, "annotations": [{"stability_score": 1}]}',
            '{"image": {"image_id": 1}, "annotations": [{"segmentation": {"size"',
        ],
        None: [
            '{"image": {"image_id": 1}, "annotations": [{"segmentation": {}}]}',
            '{"image": {"image_id": 1}, "annotations": [{"id": {"size"',
            '{"image": [], "image_id": 1, "annotations": [{"predicted_iou": 1}]}',
            '{"image": {"x": 1}, "annotations": [{"predicted_iou": 1}]}',
            '{"image": {"image_id": 1}, "annotations": {"predicted_iou": 1}}',
        ],
    },
    ("sagemaker", ".manifest"): {
        SURE: ['{"source-ref": "s", "job": {"annotations": []}, "job-metadata": {}}'],
        None: [
            '{"job": {"annotations": []}, "job-metadata": {}}', '{"source-ref": "s", "job": {"annotations": []}}',
            '{"source-ref": 1, "job": {"annotations": []}, "job-metadata": {}}', '{"source-ref": "s", "job-metadata": {}}',
            '[{"source-ref": "s", "job": {"annotations": []}, "job-metadata": {}}]',
        ],
    },
    ("superannotate", ".json"): {
        SURE: [
            '{"metadata": {}, "instances": []}', '{"metadata": {}, "tags": []}', '{"metadata": {}, "comments": []}',
            '{"___sa_version___": "1", "a.jpg": {"instances": []}}', '{"a.jpg": {"instances": [{"classId": 1}]}}',
            '[{"type": "bbox", "className": "a"}]', '[{"parts": [], "imageAttributes": 1}]',
        ],
        None: [
            '{"metadata": {}}', '{"metadata": [], "instances": []}', '{"a.jpg": {"instances": []}}',
            '{"___sa_version___": "1", "a.jpg": {}}', '{"___sa_version___": "1", "n": 1, "a.jpg": {"instances": []}}',
            '[{"type": "bbox"}]', '[{"type": 1, "className": "a"}]', '[{"className": "a"}]', '{"classId": {}}',
            '{"type": "bbox", "className": "a"}',
            '[{"instances": [], "classId": 1}]', '[{"parts": {}, "className": 1}]',
        ],
    },
    ("supervisely", ".json"): {
        SURE: [
            '{"objects": [], "size": {}}', '{"objects": null, "size": {}}', '{"objects": [{"classTitle": "a"}]}',
            '{"objects": [{"geometryType": "a"}]}',
        ],
        None: [
            '{"objects": []}', '{"size": {}}', '{"objects": {}, "size": {}}', '{"objects": [], "size": []}',
            '[{"objects": [], "size": {}}]', '{"objects": [{"x": 1}]}', '{"objects": {"classTitle": "a"}}',
        ],
    },
    ("ultralytics", ".ndjson"): {
        SURE: [
            '{"type": "dataset", "task": "detect"}', '{"type": "dataset", "class_names": {}}',
            '{"type": "image", "file": "a", "annotations": {}}',
        ],
        None: [
            '{"type": "dataset"}', '{"type": 1, "task": "dataset"}', '{"type": "image", "task": "detect"}',
            '{"type": "image", "file": "a", "annotations": []}', '{"type": "image", "file": 1, "annotations": {}}',
            '{"file": "a", "annotations": {}}', '[{"type": "image", "file": "a", "annotations": {}}]',
            '{"type": "image", "annotations": {}}', '{"type": "image", "file": "a"}',
        ],
    },
    ("vertexai", ".jsonl"): {
        SURE: ['{"imageGcsUri": "a"}', '{"instance": {}, "prediction": {"bboxes": []}}'],
        None: [
            '{"imageGcsUri": "a", "classificationAnnotation": {}}', '[{"imageGcsUri": "a"}]', '{"instance": {}, "bboxes": 1}',
            '{"instance": {}, "prediction": {}}', '{"prediction": {"bboxes": []}}',
        ],
    },
    ("via", ".json"): {
        SURE: [
            '{"_via_settings": {}}', '{"_via_img_metadata": {}}', '{"a.jpg1": {"filename": "a.jpg", "regions": []}}',
            '{"project": {}, "attribute": {}, "file": {}, "metadata": {}, "view": {}}',
            '{"a": {"size": 1, "regions": []}}', '{"a": {"fileref": "", "regions": []}}',
        ],
        None: [
            '{"project": {}, "attribute": {}, "file": {}, "metadata": {}}', '{"a": {"filename": "a"}}',
            '{"a": {"x": 1, "filename": "a", "regions": []}}', '[{"filename": "a", "regions": []}]', '{"regions": []}',
            '{"a": "region_shape_attributes"}',
        ],
    },
    ("via", ".csv"): {
        SURE: ["filename,region_shape_attributes\n", "\ufefffilename,region_shape_attributes\n"],
        None: ["filename,region_attributes\n", "filename\nregion_shape_attributes\n"],
    },
    ("vott", ".json"): {
        SURE: [
            '{"asset": {}, "regions": []}', '{"asset": {}}', '{"assets": {}, "tags": []}', '{"assets": {}}',
            '{"frames": {}, "inputTags": "a"}', '{"frames": {}, "visitedFrames": []}',
            '{"frames": {"a": [{"x1": 1, "tags": []}]}}',
        ],
        None: [
            '{"asset": [], "regions": []}', '{"asset": {}, "regions": {}}', '{"assets": [], "tags": []}', '[{"asset": {}}]',
            '{"assets": {}, "tags": {}}', '{"frames": {}}', '{"frames": [], "inputTags": "a"}',
            '{"frames": {"a": [{"x1": 1}]}}', '{"frames": {"a": [{"tags": []}]}}', '[{"frames": {}, "inputTags": "a"}]',
        ],
    },
    ("xview", ".geojson"): {
        SURE: ['{"features": [{"properties": {"bounds_imcoords": "1,2,3,4"}}]}'],
        None: ['{"features": []}', '{"features": {"bounds_imcoords": 1}}', '{"bounds_imcoords": 1}'],
    },
}  # fmt: skip


@of_each([(name, suffix, wanted, text)
          for (name, suffix), answers in HEADS.items() for wanted, texts in answers.items() for text in texts])  # fmt: skip
def test_heads(name, suffix, wanted, text, tmp_path):
    assert confidence_of(name, tmp_path, f"x{suffix}", text) == wanted


ZEROS = "0 0 0 0 0 0 0 0 0 0 0"
LINES = {
    ("automl", ".csv"): (
        [
            "TRAIN,gs://b/a.jpg,cat,0,0,,,1,1,,", "UNASSIGNED,a.jpg,cat,-1,-1,,,2,2,,", "gs://b/a.jpg,cat,0,0,,,1,1,,",
            "test,a.jpg,cat,0,0,1,0,1,1,0,1", "TRAIN,gs://b/a.jpg,cat", "TRAIN,gs://b/a.jpg", "TRAIN,a.jpg,cat,,,,,,,",
        ],
        [
            "TRAIN,a.jpg,cat,-1.1,0,,,1,1,,", "TRAIN,a.jpg,cat,0,0,,,1,2.1,,", "TRAIN,a.jpg,cat,0,0,,,1,,,", "TRAIN,a.jpg,cat",
            "TRAIN,a.jpg,cat,0,x,,,1,1,,", ",a.jpg,cat,0,0,,,1,1,,", "TRAIN,a.jpg,cat,0,0,1,0,1,1,0,1,1,1", "gs://a.jpg,",
        ],
    ),
    ("bboxlabeltool", ".txt"): (
        ["1\n1 2 3 4", "2\n1 2 3 4 cat", "1\n1 2 3 4 5 6"], ["0\n1 2 3 4", "1\n1 2 3 cat", "1 1\n1 2 3 4", "1", "-1\n1 2 3 4"],
    ),
    ("bbgt", ".txt"): (["% bbGt version=3", "\n% bbGt version=3\ncat 1 2 3 4"], ["% bbGt", "cat 1 2 3 4\n% bbGt version=3"]),
    ("dota", ".txt"): (
        [
            "1 1 5 1 5 5 1 5 cat 0", "1 1 5 1 5 5 1 5 cat 2", "1 1 5 1 5 5 1 5 cat", "1 1 5 1 5 5 1 5 cat 1 .5",
            "imagesource:a\ngsd:1\n1 1 5 1 5 5 1 5 big cat 1",
        ],
        ["1 1 5 1 5 5 1 5 7 0", "1 1 5 1 5 5 1 cat", "1 1 5 1 5 5 1 5 cat 3 3", "1 1 5 1 5 5 1 x cat 0", "1 1 5 1 5 5 1 5",
         "imagesource:a"],
    ),
    ("icdar", ".txt"): (
        ["1,1,5,1,5,5,1,5,text", "1,5,5,5,5,1,1,1,text", "0,0,5,0,5,0,5,5,text", "1,1,5,1,5,5,1,5,7,text", '1,1,5,5,"text"', '1, 1, 5, 5, "text"', '1 1 5 5 "text"'],
        [
            "1,1,5,5,1,5,5,1,text", "1,1,1,1,1,1,1,1,text", "1,1,5,1,5,5,1,5,7", "1,1,5,1,5,5,1,5,", "5,5,1,1,5,1,1,5,text", "1,1,5,5,text", '1 1 5 1 5 5 1 5 "text"',
            '1,1,5,"text"', "1,1,5,1,5,5,1,text",
        ],
    ),
    ("kitti", ".txt"): (
        [
            "Car 0 0 1 1 2 3 4 5 6 7 8 9 1 1", "Car -1 -1 1 1 2 3 4 5 6 7 8 9 1 1", "Car 2 3 1 1 2 3 4 5 6 7 8 9 1 1 0.5",
            "Big Car True False 1 1 2 3 4 5 6 7 8 9 1 1", "Car 0 2 1 1 2 3 4 5 6 7 8 9 1 1 .5", "0 0 Car 0 0 1 1 2 3 4 5 6 7 8 9 1 1",
        ],
        [
            "Car 0 4 1 1 2 3 4 5 6 7 8 9 1 1", "Car 0 .5 1 1 2 3 4 5 6 7 8 9 1 1", "Car 2.1 0 1 1 2 3 4 5 6 7 8 9 1 1",
            "Car -1.1 0 1 1 2 3 4 5 6 7 8 9 1 1", "Car 0 0 1 1 2 3 4 5 6 7 8 9 1", "Car 0 0 1 1 2 x 4 5 6 7 8 9 1 1",
            "1 0 0 1 1 2 3 4 5 6 7 8 9 1 1",
        ],
    ),
    ("mot", ".txt"): (
        [
            "1,1,1,1,5,5,1", "1,1,1,1,5,5,1,1,0.5", "1,1,1,1,5,5,1,-1,-1,-1", "1,1,1,1,5,5,1,-1,-1,-1,-1", "1.0,1,1,1,5,5,x",
        ],
        ["1,1,1,1,5,5", "1,1,1,1,5,5,1,1", "1,1,1,1,5,5,1,1,1,1,1,1", "1.5,1,1,1,5,5,1", "1,1,1,1,5,x,x", "x,1.5,1,1,5,5,1"],
    ),
    ("opencv", ".dat"): (
        ["a.jpg 1 1 1 5 5", "a 1 1 1 5 5", "a b.jpg 2 1 1 5 5 1 1 5 5", "a.jpg 0", "a.jpg 1 1 1 5 5 9"],
        ["a.jpg 1 1 1 5", "a.jpg 2 1 1 5 5", "1 1 1 5 5", "[a 1 1 1 5 5", "{a 1 1 1 5 5", "a.jpg 5 1 1 1 5 5", "a.jpg -1 1 1 5 5", "a.jpg 000000001 1 1 5 5", "a.jpg ¹ 1 1 5 5", "a.jpg 2 1 1 5 5 0"],
    ),
    ("opencv", ".txt"): (["a.jpg 1 1 1 5 5"], ["a 1 1 1 5 5"]),
    ("paddleocr", ".txt"): (
        ['a.jpg\t[{"points": [[1, 1]]}]', "a.jpg\t[[[1", "a.jpg\t[]", "a.jpg\t [ [ [1"],
        ['a.jpg [{"points": []}]', 'a.jpg\t[{"x": 1}]', '\t[{"points": []}]', 'a.jpg\t{"points": []}', "a.jpg\t[[1"],
    ),
    ("visdrone", ".txt"): (
        ["1,1,5,5,1,0,0,0", "1,1,5,5,0,11,1,2,", "1,1,5,5,0.5,4,-1,-1"],
        [
            "1,1,5,5,1.1,0,0,0", "1,1,5,5,-.1,0,0,0", "1,1,5,5,1,-1,0,0", "1,1,5,5,1,.5,0,0", "1,1,5,5,1,0,3,0", "1,1,5,5,1,0,0,3",
            "1,1,5,5,1,0,0,0,1", "1,1,5,5,1,0,0", "1,1,5,x,1,0,0,0", "1,1,5,5,1,0,0,-2", "1,1,5,5,1,0,0,0,,",
        ],
    ),
    ("widerface", ".txt"): (
        [
            f"a.jpg\n1\n1 1 5 5 {ZEROS[:11]}", "a.jpg\n0\n0 0 0 0 0 0 0 0 0 0", "a.jpg\n2\n1 1 5 5\n2 2 5 5",
            "a.png\n1\n1 1 5 5 0.5", "a.jpg\n0",
        ],
        ["a\n1\n1 1 5 5", "a.jpg", "a.jpg\nb.jpg", "1\n1 1 5 5", "a.jpg\n2"],
    ),
    ("wheat", ".csv"): (
        [
            "image_id,width,height,bbox", "image_id,width,height,bbox,source", "bbox,image_id,height,width",
            "image_id,width,height,bbox,class,score", "image_id,PredictionString\na,1 1 1 5 5",
            "image_id,PredictionString\na,\nb,1 1 1 5 5 1 2 2 5 5",
        ],
        [
            "image_id,width,height", "image_id,width,height,bbox,bbox", "image_id,width,height,bbox,x", "image_id,bbox",
            "image_id,PredictionString", "image_id,PredictionString\na,1 1 1 5", "image_id,PredictionString\na,1 1 1 5 x",
            "image_id,PredictionString\na,1 1 1 5 5\nb,1 1 1 5", "image_id,PredictionString\na,", "PredictionString,image_id\na,1 1 1 5 5",
        ],
    ),
    ("yolokeras", ".txt"): (
        ["a.jpg 1,1,5,5,0", "a.jpg 1,1,5,5,0,0.5", "a b.jpg 1,1,5,5,0 2,2,5,5,1", "a 1,5.jpg 1,1,5,5,0", "a.jpg 1,1,5,5,0\n\n\n", "a.jpg 1,1,5,5,0 1,1", "a 1,1,5,5,0"],
        ["a.jpg 1,1,5,5", "a.jpg 1,1,5,5,0,1,1", "1,1,5,5,0 1,1,5,5,0", "a.jpg", "a.jpg 1,1,5,5,0 1,1 1,1", "a.jpg 1,1", "a.jpg 1 1 5 5 0"],
    ),
}  # fmt: skip


@of_each([(name, suffix, is_known, text)
          for (name, suffix), answers in LINES.items()
          for is_known, texts in zip((True, False), answers, strict=True) for text in texts])  # fmt: skip
def test_lines(name, suffix, is_known, text, tmp_path):
    confidence = confidence_of(name, tmp_path, f"x{suffix}", f"{text}\n")
    assert (confidence is not None) == is_known


SHARES = {
    **dict.fromkeys(("automl", "dota", "icdar", "kitti", "mot", "visdrone"), (2, 3)),
    **dict.fromkeys(("opencv", "paddleocr", "yolokeras"), (3, 4)),
}
"""The lowest share of lines that fit with which a file is recognised: 2 of 3, or more than that."""


@of_each(SHARES)
def test_shares_of_lines(name, tmp_path):
    suffix = next(suffix for format_, suffix in LINES if format_ == name)
    good = LINES[name, suffix][0][0]
    n, total = SHARES[name]
    for n_good, n_bad, is_known in (
        (n, total - n, True),
        (n - 1, total - n, False),
        (2 * n + 1, total - n, True),
    ):
        text = f"{good}\n" * n_good + "x\n" * n_bad
        assert (confidence_of(name, tmp_path, f"{n_good}{suffix}", text) is not None) == is_known, text


FOLDERS = [
    *(
        ("txt", {"a.txt": text}, wanted)
        for text, wanted in (
            ("", LIKELY),
            ("1 1 1 5 5\n", LIKELY),
            ("cat 1 1 5 5\n1 .1 .1 .1 .1\n", LIKELY),
            ("cat,1,2,3,4\nx y\n", None),
            ("cat 1 2\nx y\n", None),
            ("cat 1 2 3 4\n1 .1 .1 .1 .1\n1 .1 .1 .1 .1\n", None),
            ("cat 1 2\nx 1 2\na\n", POOR),
        )
    ),
    *(
        ("yolo", files, wanted)
        for files, wanted in (
            ({"a.txt": "0 .5 .5 .1 .1\n"}, LIKELY),
            ({"a.txt": "0 .5 .5 1 1\n"}, LIKELY),
            ({"a.txt": "0 .5 .5 1.9 1\n"}, None),
            ({"a.txt": "0 .5 .5 .1 .1\n", "b.xml": ""}, None),
            ({"a.txt": "0 .5 .5 .1 .1\nx 1 2 3 4\n"}, LIKELY),
            ({"a.txt": "0 .5 .5 .1 .1\nx 1 2 3 4\nx 1 2 3 4\n"}, None),
            ({"a.txt": "0 .97 .97 .08 .08\n"}, LIKELY),
            ({"labels/a.txt": "0 .5 .5 .1 .1\n"}, LIKELY),
            ({"a.txt": "0\n"}, None),
            ({"labels/a.txt": "0 .5 .5 .1 .1\n", "b.txt": "x 1 2 3 4\n" * 9}, LIKELY),
            ({"a.jpg": b""}, None),
            ({"labels/a.txt": "0 .5 .5 .1 .1\n", "images/a.jpg": b""}, SURE),
            ({"labels/a.txt": "0 .5 .5 .1 .1\n", "pictures/a.jpg": b""}, LIKELY),
            ({"data.yaml": "names: [a]\n"}, SURE),
            ({"images/a.jpg": b"", "obj.data": "train = train.txt\n"}, SURE),
            ({"a.txt": "", "b.jpg": b""}, LIKELY),
        )
    ),
    ("bbgt", {"a.txt": "% bbGt version=3\n", "b.txt": "% bbGt version=3\n", "c.txt": "cat 1 2 3 4\n"}, SURE),
    ("bbgt", {"a.txt": "% bbGt version=3\n", "b.txt": "cat 1 2 3 4\n"}, None),
    ("bboxlabeltool", {"a.txt": "1\n1 2 3 4\n", "b.txt": "0\n", "c.txt": "cat\n"}, SURE),
    ("bboxlabeltool", {"a.txt": "1\n1 2 3 4\n", "b.txt": "cat\n"}, None),
    ("bboxlabeltool", {"a.txt": "0\n", "b.txt": "0\n"}, None),
    ("coco", {"a.json": '{"images": [{"id": 1, "width": 2}]}', "b.json": '{"images": {}}'}, LIKELY),
    ("csv", {"a.csv": "x,y\n1,2\n"}, None),
    ("csv", {"a.csv": "xmin,ymin,xmax,ymax\n1,2,3,4\n"}, POOR),
    ("cvat", {"a.xml": "<x>", "b.xml": "<annotations><meta>"}, SURE),
    ("dlib", {**{f"{k:02}.xml": "<x>" for k in range(19)}, "z.xml": "<dataset><images>"}, SURE),
    ("dlib", {**{f"{k:02}.xml": "<x>" for k in range(20)}, "z.xml": "<dataset><images>"}, None),
    ("dota", {"Task1_cat.txt": ""}, SURE),
    ("dota", {"labelTxt/a.txt": "1 1 5 1 5 5 1 5 cat 0\n", "a.yaml": ""}, SURE),
    ("dota", {"labels/a.txt": "1 1 5 1 5 5 1 5 cat 0\n", "a.yaml": ""}, None),
    ("encord", {**{f"{k:02}.json": "{}" for k in range(49)}, "z.json": '{"data_units": {}}'}, SURE),
    ("encord", {**{f"{k:02}.json": "{}" for k in range(50)}, "z.json": '{"data_units": {}}'}, None),
    ("icdar", {"gt_a.txt": "1,1,5,5\n", "gt_b.txt": "1,1,5,5\n"}, SURE),
    ("icdar", {"gt_a.txt": "1,1,5,5\n", "x_b.txt": "1,1,5,5\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1,-1\n" * 2 + "1,1,1,1,5,5,1,1,-1,-1\n"}, LIKELY),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1,-1\n" + "1,1,1,1,5,5,1,1,-1,-1\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1,-1,-1\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1,x\n"}, None),
    ("mot", {"images.txt": "1,1,1,1,5,5,1,-1,-1,-1\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5,1,-1,-1,-1\n", "b.txt": "1,1,1,1,5,x\n"}, None),
    ("mot", {"a.txt": "1,1,1,1,5,5\n"}, None),
    ("mot", {"gt/gt.txt": "1,1,1,1,5,5,1\n"}, SURE),
    ("mot", {"det/det.txt": "1,1,1,1,5,5,1\n"}, SURE),
    ("mot", {"det/det.txt": ""}, SURE),
    ("opencv", {"a.txt": "a.jpg 1 1 1 5 5\n", "b.txt": ""}, SURE),
    ("opencv", {"a.dat": "a.jpg 1 1 1 5 5\n", "bg.txt": "b.jpg\n"}, NARROWER),
    ("supervisely", {"ann/a.jpg.json": '{"objects": [], "size": {}}', "meta.json": '{"classes": []}'}, SURE),
    ("supervisely", {"a.txt": '{"objects": [], "size": {}}'}, None),
    ("txt", {"a.txt": "cat 1 2 3 4\n", "b.xml": "<x>"}, None),
    ("txt", {"a.txt": "cat,1,2,3,4\n" * 2 + "cat 1 2 3 4\n"}, LIKELY),
    ("txt", {"a.txt": "cat 1 2\ncat 1\ncat 1\n"}, None),
    ("txt", {"a.txt": "cat 1 2 3\n"}, POOR),
    ("voc", {"a.xml": "<annotation>", "b.xml": "<x>"}, LIKELY),
    ("voc", {"a.xml": "", "b.xml": ""}, LIKELY),
    ("voc", {"a.xml": "<x>", "b.xml": ""}, None),
    ("voc", {"comp4_det_test_cat.txt": ""}, SURE),
    ("vott", {"a.csv": "image,xmin,ymin,xmax,ymax,label\n"}, SURE),
    ("vott", {"a.csv": "image,xmin,ymin,xmax,ymax,label\na,0,0,1,1.5,cat\n"}, SURE),
    ("vott", {"a.csv": "image,xmin,ymin,xmax,ymax,label,score\na,0,0,9,9,cat,.5\n"}, SURE),
    ("vott", {"a.csv": "image,xmin,ymin,xmax,ymax,label\na,0,0,1,1,cat\n"}, None),
    ("vott", {"a.csv": "image,xmin,ymin,xmax,ymax\n", "b.csv": "image,xmin,ymin,xmax,ymax,label\n"}, None),
    ("wheat", {"a.csv": "x\n", "b.csv": "image_id,width,height,bbox\n"}, SURE),
    ("widerface", {"wider_face_train_bbx_gt.txt": ""}, SURE),
    ("widerface", {"a.txt": "a.jpg\n0\n", "b.txt": "cat\n"}, None),
    ("widerface", {"a.txt": "a.jpg\n0\n", "b.txt": "cat\n", "c.txt": "b.jpg\n0\n"}, SURE),
    ("widerface", {"a.txt": "a.jpg\n0\n", "b.xml": ""}, None),
    ("widerface", {"face.txt": "face\n1\n1 1 5 5\n"}, SURE),
    ("widerface", {"face.txt": "fac\n1\n1 1 5 5\n"}, SURE),
    ("widerface", {"face.txt": "faces\n1\n1 1 5 5\n"}, None),
    ("widerface", {"label.txt": "# a.jpg\n1 1 5 5\n"}, SURE),
    ("widerface", {"wider_face_det.txt": "a\n1\n1 1 5 5 .5\n"}, SURE),
    ("yolokeras", {"a_classes.txt": "a.jpg 1,1,5,5,0\n"}, None),
    ("yolokeras", {"a.txt": "x y\n", "b.txt": "a.jpg 1,1,5,5,0\nb.jpg\n"}, SURE),
]


@of_each([(name, wanted, files) for name, files, wanted in FOLDERS])
def test_folders(name, wanted, files, tmp_path):
    lay(tmp_path, files)
    answer = FORMATS[name].sniff(Source(str(tmp_path)))
    assert (None if answer is None else answer.confidence) == wanted


PARQUET, RECORD = b"PAR1", frame_record(b"\x0a\x00")
BINARY = [
    ("parquet", "a.parquet", PARQUET, True),
    ("parquet", "a.parquet", b"PAR2", False),
    ("tfrecord", "a.tfrecord", RECORD, True),
    ("tfrecord", "a.tfrecord", frame_record(b"\x0b\x00"), False),
    ("tfrecord", "a.tfrecord", RECORD[:12], False),
    ("tfrecord", "a.tfrecord", RECORD[:13], True),
    ("tfrecord", "a.tfrecord", RECORD[:8] + b"\0\0\0\0" + RECORD[12:], False),
]


@of_each(BINARY)
def test_first_bytes(name, file, data, is_known, tmp_path):
    assert (confidence_of(name, tmp_path, file, data) == SURE) == is_known
    lay(tmp_path / "in", {"0.csv": b"", file: data})
    assert (FORMATS[name].sniff(Source(str(tmp_path / "in"))) is not None) == is_known


@of_each([
    ("encord", {"b.json": "{}", "a.json": '{"data_units": {}}', "c.json": '{"data_units": {}}'},
     "of a.json and 1 more files: its label rows have data_units, as in Encord"),
    ("encord", {"b.json": "{}", "a.json": '{"data_units": {}}'}, "of a.json: its label rows have data_units, as in Encord"),
    ("supervisely", {f"ann/{k}.json": '{"objects": [], "size": {}}' for k in "ab"},
     "of ann/a.json and 1 more: it has objects and the size of one image, as in Supervisely"),
    ("coco", {f"{k}.json": '{"annotations": [], "images": []}' for k in "ab"},
     "of a.json and b.json: it has the lists images and annotations, as in COCO"),
    ("coco", {f"{k}.json": '{"annotations": [{"image_id": 1, "id": 1}]}' for k in "abcd"},
     "of a.json and 3 more files: it has the list annotations, as in COCO"),
    ("mot", {"gt/gt.txt": "1,1,1,1,5,5,1\n1\n1,1,1,1,5,5,1\n"},
     "gt/gt.txt: 2 of 3 lines are a frame, an id, a box and a confidence, as in MOTChallenge"),
    ("opencv", {"a.dat": "a.jpg 1 1 1 5 5\n"},
     "its one line is a picture, a number, and as many boxes, as for OpenCV's cascade classifiers"),
    ("csv", {"a.csv": "image,class,xmin,ymin,xmax,ymax\n", "b.csv": "image,class,xmin,ymin,xmax,ymax\n"},
     "2 CSV files fit, the first is CSV by the names of its columns: its header names image,class,xmin,ymin,xmax,ymax"),
    ("yolokeras", {"b.txt": "a.jpg 1,1,5,5,0\nb.jpg 1,1,5,5,0\n"},
     "2 of the first lines of b.txt are a path and boxes x1,y1,x2,y2,class_id, as YOLO-Keras has"),
    ("dlib", {"b.xml": "<dataset><images>"}, "of b.xml: the root is <dataset>, with images"),
    ("voc", {"a.xml": "<x>", "b.xml": "<annotation>"}, "2 XML files, b.xml has the root <annotation>"),
    ("voc", {"a.xml": "<annotation>"}, "1 XML file, the first has the root <annotation>"),
    ("parquet", {"a.parquet": PARQUET, "b.parquet": PARQUET}, "2 files end in .parquet and begin with PAR1"),
])  # fmt: skip
def test_reasons(name, files, reason, tmp_path):
    lay(tmp_path, files)
    assert FORMATS[name].sniff(Source(str(tmp_path))).reason == reason


FILES = [
    *(("kitti", f"x{suffix}", LINES["kitti", ".txt"][0][0], wanted) for suffix, wanted in ((".txt", SURE), (".lst", None))),
    *((name, "x.lst", LINES[name, ".txt"][0][0], None)
      for name in ("bbgt", "bboxlabeltool", "dota", "icdar", "mot", "visdrone", "widerface", "yolokeras")),
    ("txt", "x.txt", "cat 1 2 3 4", LIKELY), ("txt", "x.lst", "cat 1 2 3 4", None),
    ("yolo", "x.txt", "0 .5 .5 .1 .1", LIKELY), ("yolo", "x.lst", "0 .5 .5 .1 .1", None),
    ("yolo", "x.yaml", "names: [a]", SURE), ("yolo", "x.yml", "names: [a]", SURE), ("yolo", "x.yaml", "other: [a]", None),
    ("yolo", "x.data", "train = a", SURE), ("yolo", "x.data", "other = a", None),
    ("mot", "gt.txt", "1,1,1,1,5,5,1", SURE), ("mot", "det.txt", "", SURE), ("mot", "x.txt", "", None),
    ("voc", "comp4_det_test_cat.txt", "", SURE), ("voc", "x.txt", "", None), ("voc", "x.txt", "<annotation>", LIKELY),
    ("imagefolder", "x.txt", '{"file_name": "a", "bbox": []}', None),
    ("csv", "x.csv", "a,b\nx,y", None), ("csv", "x.csv", "image,class,xmin,ymin,xmax,ymax", LIKELY),
]  # fmt: skip
"""Files alone, of which the name counts too."""


@of_each([(name, file, wanted, text) for name, file, text, wanted in FILES])
def test_names_of_files(name, file, wanted, text, tmp_path):
    assert confidence_of(name, tmp_path, file, text if isinstance(text, bytes) else f"{text}\n") == wanted
