"""An example of each code: the line of input, the command or the Python that shows it, and what is printed.

Made from the bad fixtures by ``python tests/write_examples.py``; do not edit it by hand.
"""

# fmt: off
# ruff: noqa: E501, Q000

EXAMPLES: dict[str, tuple[str, str]] = {
    'all-boxes-scored': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20], "score": 0.9}',
        'input.json#/annotations/0/score: error all-boxes-scored [score] expected ground truth without scores, but every box has one (2); use --kind det if these are detections (eval: give them second), otherwise remove the scores',
    ),
    'ambiguous-column': (
        'filename,img,class,xmin,ymin,xmax,ymax',
        'input.csv:1: error ambiguous-column [image] several columns could be the image: filename, img; choose one with -O columns=image:NAME',
    ),
    'ambiguous-picture': (
        '',
        "input/a.txt: error ambiguous-picture 'a.jpg' and 'a.png' could both be the picture of 'a'; remove or rename one of them",
    ),
    'annotation-id-zero': (
        '{"id": 0, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "area": 2500, "iscrowd": 0}',
        'input.json#/annotations/0/id: warning annotation-id-zero expected annotation ids from 1, found 0; number the annotations from 1; converting to coco does so',
    ),
    'area-differs': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, 20, 30], "area": 60000, "iscrowd": 0}',
        'input.json#/annotations/1/area: warning area-differs [area] expected an area of at most 651 for a box of 20 x 30, found 60000; recompute the area of the object, or remove it so that width * height is used',
    ),
    'automl-set': (
        'LEARN,gs://bucket/a.jpg,car,0.1,0.1,,,0.3,0.3,,',
        "input.csv:2: error automl-set [set] expected TRAINING, VALIDATION, TEST or UNASSIGNED, found 'LEARN'; write one of these sets",
    ),
    'automl-set-conflict': (
        'TEST,gs://bucket/a.jpg,car,0.1,0.1,,,0.3,0.3,,',
        "input.csv:2: error automl-set-conflict [set] image 'a.jpg' is in TEST here but in TRAINING in an earlier row; use the same set in all rows of the image",
    ),
    'bad-class-list': (
        '',
        'names.txt:2: error bad-class-list the class list is not usable: it has a blank line, which shifts the ids after it; write one name per class, in the order of the ids, without gaps',
    ),
    'bad-class-name': (
        '"person" 10 20 30 40',
        'input/a.txt:1:1: error bad-class-name [class] \'"person"\' is not a valid class name: this format has no quotes; write the name without them; rename the class',
    ),
    'bad-flag': (
        'b.jpg,640,480,cat,,1,2,3,4,2,0,0,0,0',
        "input.csv:3: error bad-flag [difficult] expected 0 or 1, found '2'; write one of these values",
    ),
    'bad-frame': (
        '{"id": 1, "video_id": 1, "category_id": 1, "track": [{"frame": 0, "bbox": [10, 10, 30, 20]}, {"frame": 1.5, "bbox": [10, 10, 30, 20]}]}',
        "input.json#/annotations/0/track/1/frame: error bad-frame [frame] expected a frame number, from 0, found '1.5'; write a whole number, or correct the number of frames",
    ),
    'bad-header': (
        'image,cla"ss,left,top,right,bottom',
        'input.csv:1: error bad-header [column 2] expected a header line with column names, found a stray quote in \'cla"ss\'; quote a cell that contains a quote, and write the quote as ""',
    ),
    'bad-hierarchy': (
        'odm eval gt det --box ltwh --protocol openimages --hierarchy tree.json',
        'tree.json#/Subcategory/0: error bad-hierarchy there is no class with a LabelName here; use JSON of nested {"LabelName": ..., "Subcategory": [...]}',
    ),
    'bad-image-size': (
        'b.jpg,640.5,480,cat,,1,2,3,4,0,0,0,0,0',
        "input.csv:3: error bad-image-size [width] expected a whole number of pixels in 1..2147483647, found '640.5'; write the size of the picture, or omit it",
    ),
    'bad-label-file': (
        'odm eval gt det --box ltwh --protocol openimages --image-labels labels.csv',
        "labels.csv:3: error bad-label-file [Confidence] '0.4' is not 0 or 1; use a CSV file with the columns ImageID, LabelName and Confidence (1 = present, 0 = absent)",
    ),
    'bad-listed-class': (
        'per\\x07son',
        "input/classes.txt:1: error bad-listed-class 'per\\x07son' in the class list is not a valid class name: it contains a control character or a line separator; rename the class",
    ),
    'bad-name': (
        'images/b\\x01.jpg',
        "input/train.txt:2: error bad-name 'images/b\\x01.jpg' is not a valid file name: it contains a control character; use a relative path without '..', or shorten all names: --names basename or --names strip=PREFIX",
    ),
    'bad-size-row': (
        'b,10.5,20',
        "sizes.csv:3: error bad-size-row expected image,width,height, found 'b,10.5,20'; write one image per line, with whole numbers of pixels from 1",
    ),
    'bad-yaml': (
        '',
        "input/data.yaml:3:1: error bad-yaml invalid YAML: did not find expected ',' or ']'; correct the file",
    ),
    'box-form-unclear': (
        '',
        'input.parquet: error box-form-unclear the lists of boxes could be corners or sizes: both fit all images; say which with --box ltrb (corners) or --box ltwh (sizes)',
    ),
    'box-layout-unclear': (
        'person 50 50 20 60',
        'input/a.txt:11: error box-layout-unclear read as ltrb, 1 of 11 boxes would have right < left or bottom < top, too many for ltrb and too few for ltwh; this is the first; set --box ltrb or --box ltwh',
    ),
    'box-layouts-may-differ': (
        'odm eval gt det',
        "gt: warning box-layouts-may-differ none of the 25 boxes here is inverted when read as ltrb, but 25 of 25 boxes of 'det' are; both are read as ltwh; if this side has corners, set --gt-box and --det-box",
    ),
    'box-too-far-outside': (
        'odm convert input.json out --to yolo',
        'input.json#/annotations/1: error box-too-far-outside the box is too far outside its image for relative coordinates: one would be 2.5, and values beyond -1..2 are read as pixels; clip the boxes to their images with --clip, or write a format that uses pixels',
    ),
    'boxes-without-track': (
        '{"id": 3, "image_id": 2, "category_id": 1, "bbox": [50, 40, 30, 20]}',
        'input.json#/annotations/2: warning boxes-without-track 1 of 3 boxes have no track; give them the id of the object that they show, if tracks are to be measured',
    ),
    'case-collision': (
        'odm convert input.json out --to txt',
        "out: warning case-collision 'a.jpg' and 'A.jpg' differ only in letter case or Unicode form; rename one of them",
    ),
    'category-position-guessed': (
        'odm eval gt det.json',
        "det.json: warning category-position-guessed [category_id] category ids are read as positions, from 1, in the classes of the ground truth, whose order is only that of first appearance: 1 = 'person', 2 = 'car'; use ground truth whose categories have ids, or give a class list",
    ),
    'class-lists-disagree': (
        'car',
        "input/valid/labels/classes.txt:1: error class-lists-disagree class 0 is 'car' here but 'person' in input/train/labels/classes.txt; make the lists equal, or set the right one with --classes",
    ),
    'class-not-in-part': (
        'odm convert input.json out --to coco --split-into train:1,val:1',
        'input.json: warning class-not-in-part val has no objects of 1 of the 2 classes: dog; give that part more images, or accept that it lacks these classes',
    ),
    'class-numbers-misread': (
        'odm eval gt/data.yaml predictions.json --gt-image-size 100x100',
        "predictions.json: error class-numbers-misread the class numbers do not match: with 1 = 'dog', 2 = 'cow', 0 of 6 detections have the class of the object they overlap; with 1 = 'cat', 2 = 'dog', 6 would; if these are COCO results, use -O ids=positions-from-1; otherwise number the classes of both sides alike",
    ),
    'class-only-in-detections': (
        '{"id": 3, "image_id": 2, "category_id": 3, "bbox": [1, 1, 9, 9], "score": 0.5}',
        "det.json#/annotations/2: warning class-only-in-detections class 'Dgo' of 1 detection is not in the ground truth (did you mean 'dog'?); rename it if it is the same class (eval --rename OLD=NEW)",
    ),
    'class-only-in-ground-truth': (
        '{"id": 3, "image_id": 2, "category_id": 3, "bbox": [1, 1, 9, 9]}',
        "gt.json#/annotations/2: warning class-only-in-ground-truth class 'Dgo' of 1 ground truth box is not in the detections (did you mean 'dog'?); rename it if it is the same class",
    ),
    'class-order-guessed': (
        'odm eval gt det --box ltwh --det-image-size 200x200',
        "det: warning class-order-guessed classes here are numbers, and the classes of the ground truth have only an order of first appearance, so they are read as 0 = 'person', 1 = 'dog'; give the class list that the numbers of the detections refer to with --det-classes",
    ),
    'conventions-differ': (
        '',
        'det.json: warning conventions-differ the detections fit the ground truth far better as corners instead of left, top, width, height: mean best IoU 1.00 instead of 0.05; read them that way, or correct the export',
    ),
    'coordinates-differ': (
        'odm eval gt det --box ltwh --coords abs',
        "det: error coordinates-differ the detections are in 0..1 (largest value 0.5), but the ground truth's boxes are in pixels (largest value 100); if one side is relative and the other in pixels, set --gt-coords and --det-coords, and give the image sizes",
    ),
    'coordinates-not-finite': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [1e+308, 0, 1e+308, 10], "area": 1, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: error coordinates-not-finite [bbox] expected finite coordinates, found left 1e+308, top 0, right inf, bottom 10; find out where it came from, or leave the box out (--skip-bad of convert, eval and stats)',
    ),
    'coords-unclear': (
        'person 30 40 50 60',
        'input/a.txt:3: error coords-unclear cannot tell pixels from relative coordinates: 2 boxes are in 0..1 and 1 are not; this is the first that is not; set --coords rel or --coords abs',
    ),
    'detections-change-class': (
        '{"id": 2, "image_id": 2, "category_id": 2, "bbox": [10, 10, 30, 20], "track_id": 7, "score": 0.8}',
        "input.json#/annotations/1: warning detections-change-class tracks whose detections are of several classes: 1, such as 7 with 'cat' and 'dog'; give every track the class that it has most often, if the tracker is meant to decide",
    ),
    'device-name': (
        '{"id": 1, "file_name": "con.jpg", "width": 64, "height": 48}',
        "input.json#/images/0/file_name: warning device-name [file_name] 'con.jpg' is not a valid file name on Windows; rename it",
    ),
    'doubtful-comma': (
        'b.jpg,6400,4800,cat,,0,2,"1,024",40,0,0,0,0,0',
        "input.csv:3: error doubtful-comma the comma in '1,024' may be a decimal comma or a thousands separator; write numbers with a decimal point, or use -O decimal=comma",
    ),
    'duplicate-box': (
        '{"id": 3, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "area": 2500, "iscrowd": 0}',
        'input.json#/annotations/2: warning duplicate-box duplicate of input.json#/annotations/0; remove one of the two (validate --fix dedupe)',
    ),
    'duplicate-box-id': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [60, 40, 20.5, 20], "area": 410, "iscrowd": 0}',
        'input.json#/annotations/2/id: error duplicate-box-id [id] duplicate annotation id 1, first in #/annotations/0; give every annotation a unique id',
    ),
    'duplicate-box-key': (
        '<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>',
        "input/a.xml:6: error duplicate-box-key [object/bndbox] duplicate key 'bndbox' in an annotation; remove one of the two, or move it to an annotation of its own",
    ),
    'duplicate-class': (
        '',
        "names.txt: warning duplicate-class class 'person' is listed twice, as 0 and 2; they are read as one class; remove or rename one of the two",
    ),
    'duplicate-column': (
        'filename,width,height,class,xmin,ymin,xmax,xmax,ymax',
        "input.csv:1: error duplicate-column [xmax] duplicate column name 'xmax' in columns 7 and 8; rename or remove one of them",
    ),
    'duplicate-id': (
        '{"id": 1, "file_name": "b.jpg", "width": 5, "height": 5}',
        'input.json#/images/1/id: error duplicate-id [id] duplicate id 1, first in #/images/0; give every image and every category a unique id',
    ),
    'duplicate-image': (
        '',
        "input/a.txt: error duplicate-image duplicate image 'a.jpg', first in input/a.jpg.txt; merge the two entries, or rename one of the images",
    ),
    'duplicate-key': (
        '<size><width>9</width><height>8</height></size>',
        "input/a.xml:4: error duplicate-key [size] duplicate key 'size'; remove one of the two",
    ),
    'empty-box': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, 0, 30], "area": 0, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: warning empty-box [bbox] the box has no area: left 100, top 100, right 100, bottom 130; remove it (validate --fix drop-empty), or check the annotation',
    ),
    'equal-scores': (
        '',
        "input.json: warning equal-scores all 10 detections have the same score, 1; write the detector's confidences",
    ),
    'extreme-aspect-ratio': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [10, 100, 600, 2], "area": 1200, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: warning extreme-aspect-ratio [bbox] the longer side of the box is 300 times the shorter: left 10, top 100, right 610, bottom 102; check the annotation',
    ),
    'file-name-differs': (
        '<filename>b.jpg</filename>',
        "input/a.xml:2: warning file-name-differs [filename] <filename> is 'b.jpg', but the image is taken to be 'a.jpg' from the name of this file; rename this file, or correct <filename>",
    ),
    'file-name-missing': (
        '<annotation>',
        "input/a.xml:1: warning file-name-missing [filename] no <filename>; the image is taken to be 'a', from the XML file; add <filename> with the file name of the image",
    ),
    'frame-numbers-shifted': (
        'odm eval gt.csv v.txt --protocol stt',
        "v.txt: warning frame-numbers-shifted the frames of the detections are 1..3 and those of the ground truth 0..2 in the video 'v': one side seems to count from 0 and the other from 1; number the frames of both sides in the same way; -O first_frame=0 renumbers the frames of MOT files from 0, as in CVAT, KITTI and COCO",
    ),
    'frame-out-of-range': (
        '{"id": 2, "file_name": "street/1.jpg", "width": 100, "height": 80, "video_id": 1, "frame_id": 9}',
        "input.json#/images/1: error frame-out-of-range the frame 9 is beyond the end of the video 'street', which has 5 frames from 0 on; correct the number of the frame or the length of the video",
    ),
    'frame-twice': (
        '{"id": 2, "file_name": "street/1.jpg", "width": 100, "height": 80, "video_id": 1, "frame_id": 3}',
        "input.json#/images/1: error frame-twice the images 'street/0.jpg' and 'street/1.jpg' are both the frame 3 of the video 'street'; correct the frame number of one of them",
    ),
    'groups-as-objects': (
        'odm eval gt det',
        "gt: warning groups-as-objects 1 crowd box of the ground truth is an ordinary object under voc2012, in the class 'DontCare'; 'DontCare' has only such boxes, and its AP is included in the mean; use --protocol coco, which does not count them as objects, or select classes with --only-classes",
    ),
    'header-missing': (
        '',
        'input.csv: error header-missing expected a header line with column names, found an empty file; add a header, or set the format of the file',
    ),
    'hidden-name': (
        'odm convert input.json out --to txt',
        "out: error hidden-name '.b.txt' would be written for '.b.jpg', but hidden files are not read; rename the image so that no part of its name begins with a dot",
    ),
    'icdar-no-confidence': (
        '',
        'input: error icdar-no-confidence expected detections with a confidence, but no row has one (2); add the confidences, or give all detections the same with -O score=1',
    ),
    'id-written-as-float': (
        '{"id": 3, "image_id": 1.0, "category_id": 1, "bbox": [60, 40, 20.5, 20], "area": 410, "iscrowd": 0}',
        'input.json#/annotations/2/image_id: warning id-written-as-float [image_id] the id with a point, as in 1.0, is read as a whole number; write ids without a decimal point',
    ),
    'image-name-missing': (
        ',640,480,cat,,1,2,3,4,0,0,0,0,0',
        'input.csv:3: error image-name-missing [image] the image name is missing; add the file name of the image',
    ),
    'image-numbers-shifted': (
        'odm eval gt.json results.json',
        'results.json: error image-numbers-shifted the image numbers do not match: 0 of 6 detections overlap an object in their image, but 6 would in the image before it; subtract 1 from each image number of the detections, or number the images of both sides alike',
    ),
    'image-only-in-detections': (
        '{"id": 3, "file_name": "c.jpg", "width": 64, "height": 48}',
        "det.json#/images/2: error image-only-in-detections 1 image in the detections but not in the ground truth: 'c.jpg' (did you mean 'b.jpg'?); remove it or correct the name, or give eval --extra-images background to count the boxes as false positives, or ignore to leave them out",
    ),
    'image-size-conflict': (
        'a.jpg,320,480,cat,,5,6,7,8,0,0,0,0,0',
        "input.csv:3: error image-size-conflict [width] image 'a.jpg' is 320x480 here but 640x480 in other rows; correct the size in one of the rows",
    ),
    'image-size-from-picture': (
        '<annotation>',
        "input/a.xml:1: warning image-size-from-picture [size] the size of image 'a.jpg' is missing; 100x80 is taken from the picture; add it to the file",
    ),
    'image-size-missing': (
        'b.jpg,0,0,cat,,1,2,3,4,0,0,0,0,0',
        "input.csv:3: warning image-size-missing [width] the size of image 'b.jpg' is unknown; add it to the file, or use --images DIR, --image-size WxH or --image-sizes FILE.csv",
    ),
    'image-size-out-of-reach': (
        'odm eval gt.json det',
        "det/b.txt: error image-size-out-of-reach the size of image 'b' is unknown, but relative coordinates need it: the other side has sizes, but no image with this name; remove it here, add it there, or use --images DIR or --image-size WxH",
    ),
    'image-size-unknown': (
        '',
        "input/a.txt: error image-size-unknown the size of image 'a' is unknown, but relative coordinates need it; use --images DIR, --image-size WxH or --image-sizes FILE.csv",
    ),
    'image-sizes-differ': (
        '{"id": 1, "file_name": "a.jpg", "width": 128, "height": 96}',
        "det.json#/images/0: warning image-sizes-differ image 'a.jpg' is 64x48 pixels in the ground truth but 128x96 in the detections; use the size of the ground truth for both",
    ),
    'images-without-size': (
        'b.jpg,,,person,,30,20,50,60',
        "input.csv:3: warning images-without-size 1 of 2 images have no size; the first is 'b.jpg'; use --images DIR, or add width and height",
    ),
    'incomplete-box': (
        'b.jpg,640,480,cat,,1,,3,4,0,0,0,0,0',
        'input.csv:3: error incomplete-box [top] expected four coordinates and a class, or none of them, found no value for top; fill in the row, or leave class, score and coordinates empty for an image without objects',
    ),
    'inverted-box': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, -20, 30], "area": 1, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: error inverted-box [bbox] expected left <= right and top <= bottom, found left 100, top 100, right 80, bottom 130; check whether the four numbers are corners or left, top, width, height; or swap the edges (validate --fix order), or leave the box out (--skip-bad of convert, eval and stats)',
    ),
    'json-syntax': (
        '"categorie',
        'input.json:10:1: error json-syntax invalid JSON: it ends too early, as if the file were truncated; correct the file at this position, or export it again',
    ),
    'json-too-deep': (
        '',
        'input.json:13:508: error json-too-deep lists and objects are nested too deeply here; remove the nesting',
    ),
    'labels-missing': (
        '',
        "input: error labels-missing none of the 1 pictures of the split 'train' has a label file; there are text files in 'train/labelTxt', which is not searched for labels (labelTxt/ contains DOTA labels: give the folder above it, with the format dota); put the label files in a folder labels beside images, with the same names as the pictures, or give the folder that contains them",
    ),
    'labelstudio-size-conflict': (
        '',
        'input.json#/0/annotations/0/result/1: error labelstudio-size-conflict the image is 320x480 pixels here but 640x480 in another result of the task; correct original_width and original_height',
    ),
    'link-outside': (
        '',
        "input/b.txt: error link-outside the link points outside the source, to '/data/elsewhere/b.txt'; give the real folder on the command line, or use --follow-links",
    ),
    'long-line': (
        'log = Log()\nwith tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):\n    os.mkdir("labels")\n    with open("labels/street.txt", "w") as file:\n        file.write("person 10 20 110 220 " * 60_000)\n    load(Request(path="labels", format="txt"), log)',
        'labels/street.txt:1: error long-line expected lines of at most 1 MiB, found one of 1260000 bytes; check the line endings, and whether this is a label file at all',
    ),
    'looks-like-comment': (
        '# dog 1 2 3 4',
        "input/a.txt:1:1: warning looks-like-comment [class] '# dog' begins with '#', but this format has no comments; it is read as a class; delete the line if it was meant as a comment",
    ),
    'looks-like-ltrb': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [300, 200, 600, 400], "area": 240000, "iscrowd": 0}',
        'input.json#/annotations/0: warning looks-like-ltrb 3 of 4 boxes extend beyond the image; only none would if their width and height were right and bottom edges; correct the export: width = right - left and height = bottom - top',
    ),
    'looks-like-ltwh': (
        'a.jpg,640,480,person,,300,200,50,60',
        'input.csv:2: warning looks-like-ltwh 3 of 4 boxes have right < left or bottom < top, so the numbers look like left, top, width, height instead of corners; correct the export: right = left + width and bottom = top + height',
    ),
    'looks-normalised': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0.1, 0.2, 0.3, 0.4], "area": 0.12, "iscrowd": 0}',
        'input.json#/annotations/0: warning looks-normalised expected pixels, but all coordinates of 3 boxes are in 0..1; multiply them by the image size',
    ),
    'looks-swapped': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 500, 50, 100], "area": 5000, "iscrowd": 0}',
        'input.json#/annotations/0: warning looks-swapped 3 of 3 boxes extend beyond the image; only none would if x and y were swapped; swap x and y, or the width and height of the images',
    ),
    'missing-box-key': (
        '<object>',
        "input/a.xml:4: error missing-box-key [object/bndbox/xmin] the annotation has no key 'xmin'; add it, or remove the annotation",
    ),
    'missing-column': (
        'filename,width,height,lable,xmin,ymin,xmax,ymax',
        "input.csv:1: error missing-column [class] expected a column for class, found the columns filename, width, height, lable, xmin, ymin, xmax, ymax (is it 'lable'?); name the column with -O columns=class:NAME, or class:=NAME where all boxes have one class",
    ),
    'missing-key': (
        '',
        "input.json: error missing-key the key 'images' is missing; add it",
    ),
    'mixed-decimal-marks': (
        'c.jpg,640,480,cat,,1.5,2,3,4,0,0,0,0,0',
        'input.csv:4: error mixed-decimal-marks this line has a decimal point, but line 3 has a decimal comma; write all numbers with a decimal point',
    ),
    'most-images-without-detections': (
        'odm eval gt det --box ltwh',
        'gt: warning most-images-without-detections there is no detection in 3 of the 4 images with ground truth, so their 3 boxes are missed; if the detector was not run on all of them, evaluate only the others with --only-images',
    ),
    'mot-bad-image-list': (
        '',
        'input/images.txt:2: error mot-bad-image-list images.txt has a blank line, which shifts the frames after it; write one name per line',
    ),
    'name-collision': (
        'odm convert input.json out --to txt',
        "out: error name-collision 'a.jpg' and 'a.png' would both be written to 'a.txt'; rename one of the two images",
    ),
    'near-duplicate-box': (
        '{"id": 3, "image_id": 1, "category_id": 1, "bbox": [100, 100, 100, 99], "area": 9900, "iscrowd": 0}',
        'input.json#/annotations/2/bbox: warning near-duplicate-box [bbox] nearly a duplicate of input.json#/annotations/1 (same class, IoU 0.990); remove one of the two if they show the same object',
    ),
    'negative-area': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, 20, 30], "area": -5, "iscrowd": 0}',
        'input.json#/annotations/1/area: warning negative-area [area] expected an area of at least 0, found -5; remove the area, or recompute it',
    ),
    'no-annotation-file': (
        '',
        'input: error no-annotation-file expected XML files, found none among 1 files; give the file itself, the folder that contains it, or the right format',
    ),
    'no-annotations': (
        '',
        'input.json: warning no-annotations there is no list of annotations, so all images are read as images without objects; check that this is the right file',
    ),
    'no-class-in-common': (
        '',
        "det.json: error no-class-in-common the detections and the ground truth have no class in common: the detections have 'bird', 'ship', the ground truth has 'dog', 'cat'; rename the classes of one side (eval --rename OLD=NEW renames those of the detections), or give its class list",
    ),
    'no-detections': (
        'odm eval gt det --box ltwh',
        'det: warning no-detections found no detections: the result is 0 for every class with ground truth; check the path of the detections',
    ),
    'no-ground-truth': (
        'odm eval gt.json det --det-box ltwh',
        'gt.json: error no-ground-truth the ground truth contains no images; check the path of the ground truth',
    ),
    'no-ground-truth-boxes': (
        'odm eval gt det --box ltwh',
        'gt: warning no-ground-truth-boxes the ground truth has 1 images but no boxes, so every metric is undefined; check that this is intended',
    ),
    'no-image-in-common': (
        '',
        "det.json: error no-image-in-common the detections and the ground truth have no image in common: the detections have 'z9.jpg', the ground truth has 'a.jpg'; check that both belong to the same data set, and that names differ only in folder and extension",
    ),
    'no-images': (
        '',
        'input.json: warning no-images no images and no boxes found; check that this is the right file and that the export is complete',
    ),
    'no-match': (
        'odm eval gt det --box ltwh',
        'det: warning no-match none of the 3 detections matches any of the 3 ground-truth objects; run `odm validate GT --against DET` to see where the two sides differ',
    ),
    'no-scores': (
        'person 10 20 30 40',
        'input/a.txt:1: error no-scores expected detections with scores, but no box has one (3); add the scores, or use --kind gt if this is ground truth (eval: give it first)',
    ),
    'no-videos': (
        'odm eval gt.csv det.csv --protocol stt',
        'gt.csv: error no-videos the ground truth says of no image which video it is a frame of; give ground truth in a format that has videos, such as mot, cvat or coco with videos, or choose a protocol for images',
    ),
    'not-a-number': (
        'car 1 2x 3 4',
        "input/a.txt:2:7: error not-a-number [box[1]] expected a number, found '2x'; write it with digits and a decimal point, as in 12.5 or 1e-3",
    ),
    'not-finite': (
        'car 1 nan 3 4',
        "input/a.txt:2:7: error not-finite [box[1]] expected a finite number, found 'nan'; find out where it came from, then write a number or remove the box",
    ),
    'not-in-reference': (
        'odm convert input out.json --box ltwh --to coco --gt gt.json',
        "out.json: error not-in-reference the image 'c' is not in the ground truth that defines the ids; use the ground truth that these detections belong to",
    ),
    'not-text': (
        '',
        'input/a.txt: error not-text expected text, found a PDF document; extract it if it is an archive, or give the file that contains the annotations',
    ),
    'not-utf8': (
        'caf\\xe9 10 20 30 40',
        'input/a.txt:1:4: error not-utf8 expected UTF-8 text, found the byte 0xe9; save the file as UTF-8',
    ),
    'nothing-left': (
        'odm eval gt det --box ltwh --score-min 0.95',
        'det: warning nothing-left --score-min 0.95, above the highest score, 0.9, leaves none of the 3 detections; check the value',
    ),
    'nul-character': (
        'b.jpg,640,480,c\\x00at,,1,2,3,4,0,0,0,0,0',
        "input.csv:3: error nul-character [class] expected text, found a NUL character in 'c\\x00at'; remove it; the file may be damaged, or UTF-16 without a byte order mark",
    ),
    'numbered-classes': (
        '',
        'input: warning numbered-classes there are no class names, only numbers, which are used as names: 0; give the class names with --classes',
    ),
    'off-by-one': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [540, 10, 101, 20], "area": 2020, "iscrowd": 0}',
        'input.json#/annotations/0: warning off-by-one 3 of 3 boxes extend exactly one pixel beyond the image, and none further; check whether pixels are counted from 1 (for voc: -O origin=1)',
    ),
    'one-frame-tracks': (
        '{"id": 3, "image_id": 2, "category_id": 1, "bbox": [50, 40, 30, 20], "track_id": 8}',
        'input.json#/annotations/2: warning one-frame-tracks 1 of 2 tracks have a single box, the first is 8; check that ids are those of objects, the same in all frames, and not numbers of boxes',
    ),
    'open-quote': (
        'b.jpg,640,480,"cat,,1,2,3,4,0,0,0,0,0',
        'input.csv:3: error open-quote [class] this quote is never closed; close it, or write a literal quote as ""',
    ),
    'outlines-as-boxes': (
        '1 .1 .1 .5 .1 .5 .5',
        'input/a.txt:2: warning outlines-as-boxes 1 of 2 objects are polygons and are read as their bounding boxes; this is the first; ignore this if you only need boxes',
    ),
    'outside-boxes-read': (
        '',
        'input.json: warning outside-boxes-read boxes that are marked outside are read like any other: 1 of 2; remove them if the object cannot be seen in these frames',
    ),
    'outside-image': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [600, 10, 100, 20], "area": 2000, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: warning outside-image [bbox] the box extends 60 px beyond the image (640x480): left 600, top 10, right 700, bottom 30; check the image size and the box format, or clip it (convert --clip, validate --fix clip)',
    ),
    'picture-behind-link': (
        '',
        "input/labels/a.txt: error picture-behind-link the size of image 'a.jpg' is unknown: its picture is behind a link that leads outside the source; use --follow-links, or set the image folder with --images DIR",
    ),
    'picture-missing': (
        '',
        "input/b.txt: warning picture-missing no picture found for the labels of 'b'; add the picture, or remove the labels",
    ),
    'picture-not-checked': (
        '',
        'photos/a.jpg: warning picture-not-checked cannot compare the size of the picture with the annotations: it is truncated or of an unknown type; replace the picture',
    ),
    'picture-not-known': (
        'odm convert input.json out --to yolo --link-images',
        "input.json#/images/0: error picture-not-known expected the picture of every image to put in images/, found none for 2 of 2: 'a.jpg', 'b.jpg'; use --images DIR, or --follow-links if pictures are behind links; or omit --link-images, --copy-images",
    ),
    'picture-size-differs': (
        '{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48}',
        'input.json#/images/0: warning picture-size-differs the annotations say 64x48 pixels, but the picture has 128x96; correct the size, or use the picture that was annotated',
    ),
    'picture-size-swapped': (
        '{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48}',
        'input.json#/images/0: warning picture-size-swapped the annotations say 64x48 pixels, but the picture has 48x64: width and height are swapped; check the EXIF orientation of the picture',
    ),
    'picture-without-annotations': (
        '',
        "photos: warning picture-without-annotations 1 of 2 pictures are not in the annotations; the first is 'b.png'; annotate them, list them as images without objects, or move them elsewhere",
    ),
    'pictures-without-labels': (
        '',
        "input: warning pictures-without-labels 1 of 2 pictures of the split 'train' have no label file and are read as images without objects; the first is 'input/train/images/b.png'; ignore this if they show no objects; otherwise find their labels",
    ),
    'rare-class': (
        '{"id": 200, "image_id": 1, "category_id": 2, "bbox": [570, 360, 20, 20], "area": 400, "iscrowd": 0}',
        "input.json#/annotations/199: warning rare-class class 'preson' has 1 of 200 boxes, at most a hundredth of the mean per class; check its name, and whether it is intended",
    ),
    'relative-out-of-range': (
        'car .5 20 .2 .2',
        "input/a.txt:2:8: error relative-out-of-range [box[1]] expected relative coordinates in 0..1, found '20'; divide pixels by the width or height of the image, or read the file in a format that uses pixels",
    ),
    'results-as-ground-truth': (
        '',
        'input.json: error results-as-ground-truth expected ground truth, found a results file; give the annotation file (instances_*.json) instead',
    ),
    'results-beside-images': (
        '',
        "input/instances_train.json: error results-beside-images this results file lies beside 'input/instances_val.json', which has images of its own; give only one of the two files, or move them to separate folders",
    ),
    'results-without-reference': (
        '',
        'input.json: error results-without-reference a results file contains only image and category ids, no names; give the ground truth it belongs to with --gt GT.json',
    ),
    'same-name-in-folders': (
        '{"id": 2, "file_name": "val/1.jpg", "width": 640, "height": 480}',
        "input.json#/images/1: warning same-name-in-folders images with the same name as another in a different folder or split: 1, such as 'train/1.jpg' and 'val/1.jpg'; keep the folders when copying the images",
    ),
    'same-short-name': (
        'https://host.org/1.jpg?v=2,640,480,cat,,1,2,3,4,0,0,0,0,0',
        "input.csv:3: error same-short-name 'https://host.org/1.jpg?v=1' and 'https://host.org/1.jpg?v=2' would both be called '1.jpg'; use --names strip=PREFIX with the folder that all images share",
    ),
    'score-beyond-one': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, 20, 30], "score": 1.5}',
        'input.json#/annotations/1/score: warning score-beyond-one [score] expected a score in 0..1, found 1.5; write confidences between 0 and 1',
    ),
    'score-missing': (
        'person 10 20 30 40',
        'input/b.txt:2: error score-missing expected detections with scores, found a box without one; add the score, or use --kind gt if this is ground truth (eval: give it first)',
    ),
    'score-not-finite': (
        'of = {"images": ["a.jpg"], "categories": ["car"], "image": [0], "category": [0]}\ntruth = Dataset.from_arrays(**of, xyxy=[[1, 2, 30, 40]])\nfound = Dataset.from_arrays(**of, xyxy=[[1, 2, 30, 40]], score=[float("inf")])\nevaluate(truth, found)',
        "-: error score-not-finite [score] expected a finite score, found inf; write the detector's confidence, or leave the box out (--skip-bad of convert, eval and stats)",
    ),
    'score-out-of-range': (
        'person 88 1 2 3 4',
        "input/a.txt:2:8: error score-out-of-range [score] expected a score in 0..1, found '88'; divide percentages by 100, and check that this column is the score",
    ),
    'score-unexpected': (
        'person .9 10 20 30 40',
        "input/b.txt:1:8: error score-unexpected [score] expected ground truth without scores, found score '.9'; remove the score, or use --kind det if these are detections (eval: give them second)",
    ),
    'scores-in-percent': (
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "score": 95}',
        'input.json#/annotations/0: warning scores-in-percent expected scores in 0..1, found 2 of 3 above 1, up to 95: they look like percentages; divide them by 100; until then, --score-min and --at-score apply to the scores as they are',
    ),
    'sides-swapped': (
        'odm eval gt det --box ltwh',
        "gt: error sides-swapped expected ground truth here and detections in 'det', but every box here has a score and none there does; give the ground truth first and the detections second",
    ),
    'similar-class-names': (
        '',
        "input.json: warning similar-class-names 'person' and 'Person' differ only in letter case; rename one to the other if they are the same class (convert --rename OLD=NEW)",
    ),
    'similar-image-names': (
        '{"id": 2, "file_name": "A.jpg", "width": 640, "height": 480}',
        "input.json#/images/1: warning similar-image-names 'a.jpg' and 'A.jpg' differ only in letter case; rename one of the two, or remove it if both are the same image",
    ),
    'some-scores': (
        '{"id": 3, "image_id": 1, "category_id": 1, "bbox": [60, 40, 20.5, 20], "area": 410, "iscrowd": 0, "score": 0.5}',
        'input.json#/annotations/2/score: warning some-scores [score] 1 of 3 ground-truth boxes have a score, which is ignored; remove the scores, or use --kind det if these are detections',
    ),
    'split-without-detections': (
        'odm eval gt/data.yaml det --gt-image-size 100x100 --det-box ltwh',
        "gt/data.yaml: warning split-without-detections there are no detections in the 2 images of the split 'train', so 4 of 6 ground truth boxes are missed; if the detector was not run on these images, evaluate only the others with --gt-split val",
    ),
    'stray-file': (
        '',
        'input/notes.docx: warning stray-file this file is not part of the data set and is not read; move it elsewhere, or delete it if it is not needed',
    ),
    'stray-quote': (
        'b.jpg,640,480,"cat"s,,1,2,3,4,0,0,0,0,0',
        'input.csv:3: error stray-quote [class] expected quotes around the whole cell, found \'"cat"s,,1,2,3,4,0,0,0,0,0\'; quote the cell and write each quote inside it as ""',
    ),
    'tfrecord-damaged': (
        '',
        'input.tfrecord#/1: error tfrecord-damaged cannot read the record: its checksum is wrong; copy the file again, or recreate it with the program that wrote it',
    ),
    'tfrecord-lengths': (
        '',
        'input.tfrecord#/1: error tfrecord-lengths expected 2 values of image/object/bbox/xmin, one for each box, found 1; write one value per box in each list',
    ),
    'tfrecord-picture-unknown': (
        'odm convert input.csv out --to tfrecord --images images',
        "input.csv:3: error tfrecord-picture-unknown the picture of 'b.png' was not found, but those of other images are written; provide all of them with --images DIR (and --follow-links if they are behind links), or leave them out with -O pictures=false",
    ),
    'tiny-box': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [100, 100, 0.5, 30], "area": 15.0, "iscrowd": 0}',
        'input.json#/annotations/1/bbox: warning tiny-box [bbox] the box is less than one pixel wide or high: left 100, top 100, right 100.5, bottom 130; check the annotation, or remove it',
    ),
    'track-changes-class': (
        '{"id": 2, "image_id": 2, "category_id": 2, "bbox": [10, 10, 30, 20], "track_id": 7}',
        "input.json#/annotations/1/category_id: error track-changes-class [category_id] the track 7 is 'cat' before and 'dog' here; correct the class, or give the second object another id",
    ),
    'track-twice-in-frame': (
        '{"id": 2, "image_id": 1, "category_id": 1, "bbox": [50, 40, 30, 20], "track_id": 7}',
        'input.json#/annotations/1/track_id: error track-twice-in-frame [track_id] the track 7 has another box of this class in this frame; give one of the two another id, or remove it',
    ),
    'unknown-category-id': (
        '{"id": 3, "image_id": 1, "category_id": 0, "bbox": [60, 40, 20.5, 20], "area": 410, "iscrowd": 0}',
        'input.json#/annotations/2/category_id: error unknown-category-id [category_id] there is no category with the id 0; correct the id, or add the category',
    ),
    'unknown-class': (
        '2 1 2 3 4',
        "input/a.txt:2:1: error unknown-class [class] '2' is not among the 2 classes of names.txt; correct the id, or complete the class list",
    ),
    'unknown-image-id': (
        '{"id": 3, "image_id": 7, "category_id": 1, "bbox": [60, 40, 20.5, 20], "area": 410, "iscrowd": 0}',
        'input.json#/annotations/2/image_id: error unknown-image-id [image_id] there is no image with the id 7; correct the id, or add the image; for results, give the ground truth of the same split',
    ),
    'unknown-shape': (
        '{"label": "person", "points": [[10, 20], [110, 220]], "shape_type": "blob", "flags": {}}',
        "input/street.json#/shapes/1/shape_type: error unknown-shape [shape_type] unknown shape 'blob'; use rectangle or polygon, or remove the shape",
    ),
    'unknown-split': (
        '',
        "input/data.yaml: error unknown-split unknown split 'val', found train; give one of these with --split",
    ),
    'unknown-video-id': (
        '{"id": 2, "video_id": 4, "category_id": 1, "track": [{"frame": 0, "bbox": [10, 10, 30, 20]}, {"frame": 1, "bbox": [10, 10, 30, 20]}]}',
        'input.json#/annotations/1/video_id: error unknown-video-id [video_id] the video_id 4 is not in the list of videos; add the video, or correct the id',
    ),
    'unnamed-image': (
        '{"size": {"width": 640, "height": 480}, "labels": []}',
        'input.json#/0: error unnamed-image [name] the image has no name; add the file name of the image',
    ),
    'unreadable-file': (
        '',
        'input/b.txt: error unreadable-file cannot read the file: it begins with 4096 NUL bytes, so its content is lost or is not text; check that it exists, is a regular file, and that you have permission to read it',
    ),
    'unreadable-picture': (
        '',
        'input/a.jpg: error unreadable-picture cannot read the size of the picture: it is truncated or of an unknown type; replace the picture, or give the size with --image-size or --image-sizes',
    ),
    'unwritable-class': (
        'odm convert input.json out --to txt',
        "out: error unwritable-class class 'route 66' cannot be written: numbers in it would be read as coordinates; use --sep tab, or rename the class",
    ),
    'via-class-attribute': (
        '',
        'input.json: error via-class-attribute no region attribute is clearly the class, found age, colour; set it with -O attribute=NAME, or the class of all regions with -O category=NAME',
    ),
    'voc-listed-image': (
        'c',
        "input/ImageSets/Main/train.txt:2: warning voc-listed-image 1 image is listed without an XML file: 'c'; add the files, or remove the images from the list",
    ),
    'voc-misplaced-element': (
        '<Object>',
        'input/a.xml:4: error voc-misplaced-element [Object] <Object> is not read in <annotation>; write <object>',
    ),
    'voc-result-file': (
        '',
        "input/ .txt: error voc-result-file expected a class name in the file name, as in comp4_det_test_person.txt, found ' .txt'; rename the file",
    ),
    'voc-two-splits': (
        '',
        "input: warning voc-two-splits image 'b' is also listed in 'val'; it is read as part of 'train'; remove it from one of the lists",
    ),
    'voc-unwritable-name': (
        'odm convert input.json out --to voc',
        "out: error voc-unwritable-name 'per\\ufffeson' cannot be written: XML does not allow one of its characters; rename it",
    ),
    'widerface-count': (
        '2',
        'input.txt:2: error widerface-count expected as many rows as the number 2 says, found 1 row; write the image name, the number of its faces, and that many rows',
    ),
    'wrong-box-type': (
        '<name>dog</name><bndbox><xmin><value>1</value></xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>',
        'input/a.xml:5: error wrong-box-type [object/bndbox/xmin] expected text in <xmin>, found the element <value>; write a value of that type, or remove the annotation',
    ),
    'wrong-count': (
        'car 1 2 3',
        'input/a.txt:2:1: error wrong-count expected a class and 4 numbers, or a class, a confidence and 4 numbers, found 4 values; write exactly these values, in this order',
    ),
    'wrong-type': (
        '',
        'input.json: error wrong-type expected an object or a list, found "text"; write a value of that type',
    ),
    'xml-doctype': (
        '<!DOCTYPE annotation SYSTEM "voc.dtd">',
        'input/a.xml:1: warning xml-doctype the external document type \'<!DOCTYPE annotation SYSTEM "voc.dtd">\' is ignored; remove the <!DOCTYPE ...> line',
    ),
    'xml-dtd': (
        '<!DOCTYPE annotation [<!ENTITY a "aaaa">]>',
        'input/a.xml:1: error xml-dtd document types with an internal subset are not supported; remove the <!DOCTYPE ...> part',
    ),
    'xml-encoding': (
        '<?xml version="1.0" encoding="utf-16"?>',
        'input/a.xml:1: error xml-encoding expected text in the encoding of the XML declaration, found: single bytes, where utf-16 is declared; save the file as UTF-8 and correct the declaration',
    ),
    'xml-entity': (
        '<name>&beast;</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>',
        "input/a.xml:6: error xml-entity undefined entity '&beast;'; write the character itself, or one of &amp; &lt; &gt; &quot; &apos;",
    ),
    'xml-root': (
        '<Annotation>',
        'input/a.xml:1: error xml-root expected the root element <annotation>, found <Annotation>; export the file as Pascal VOC XML, with plain lower-case element names and no namespace, or set its format',
    ),
    'xml-syntax': (
        '<name>dog</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bn',
        "input/a.xml:5:87: error xml-syntax invalid XML: expected '>'; correct the file, or export it again",
    ),
    'yolo-class-count': (
        'nc: 3',
        'input/data.yaml:2: error yolo-class-count [nc] nc is 3, but there are 2 names; correct nc or the list of names',
    ),
    'yolo-class-id': (
        'person .5 .5 .1 .1',
        "input/a.txt:2:1: error yolo-class-id [class] expected a class number, found 'person'; write the position of the class in the list of names, from 0",
    ),
    'yolo-data-file': (
        'nc: many',
        "input/data.yaml:2: error yolo-data-file [nc] expected a number of classes, found 'many'; correct the file",
    ),
    'yolo-other-class-list': (
        'car',
        "input/labels/classes.txt:1: warning yolo-other-class-list class 0 is 'car' here, and 'person' in 'input/data.yaml', which is used; correct one of the two lists, or remove the one that is wrong",
    ),
    'yolo-place-outside': (
        'train: /data/images',
        "input/data.yaml:1: error yolo-place-outside [train] '/data/images' is outside the folder of the data set; name this file itself on the command line, so that its paths are followed, or give the label folder, and the image folder with --images",
    ),
    'yolo-split-absent': (
        'val: images/val',
        "input/data.yaml:2: warning yolo-split-absent [val] 'images/val' does not exist; the other splits are read; correct the path, or remove the key",
    ),
    'yolo-split-missing': (
        'train: images/train',
        "input/data.yaml:1: error yolo-split-missing [train] 'images/train' does not exist; correct the path, or choose another split with --split",
    ),
}
