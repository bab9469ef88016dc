"""The class ``COCO`` of ``pycocotools.coco``: annotations with an index."""

from __future__ import annotations

import copy
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from odm.coco import mask as mask_functions
from odm.files import open_source
from odm.issues import DataError, Log, PathError, UsageError, printable
from odm.masks import read_runs

Record = dict[str, Any]


class NotThereError(PathError, FileNotFoundError):
    """An annotation file does not exist; also the exception that programs expect of ``open``."""


class NotJsonError(UsageError, json.JSONDecodeError):
    """An annotation file is not JSON; also the exception that programs expect of ``json.load``."""


class RefusedError(UsageError, AssertionError):
    """Annotations or results are not what they must be; also what programs expect of pycocotools."""


def print_line(text: str) -> None:
    """Print a line to standard output, as pycocotools does."""
    sys.stdout.write(text + "\n")


def _as_list(value: Any) -> list[Any]:
    """Return an argument that is one value or several as a list."""
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else [value]


class COCO:
    """Annotations of a COCO file, with pycocotools' attributes and methods.

    Parameters
    ----------
    annotation_file
        A file, or the object that such a file holds. Without it the object is empty; set ``dataset`` and call
        ``createIndex``.
    """

    def __init__(self, annotation_file: str | PathLike[str] | Record | None = None) -> None:
        """Read and index the annotations. Raises RefusedError if the file holds no object."""
        self.dataset: Record = {}
        self.anns: dict[Any, Record] = {}
        self.cats: dict[Any, Record] = {}
        self.imgs: dict[Any, Record] = {}
        self.imgToAnns: defaultdict[Any, list[Record]] = defaultdict(list)
        self.catToImgs: defaultdict[Any, list[Any]] = defaultdict(list)
        if annotation_file is None:
            return
        start = time.time()
        print_line("loading annotations into memory...")
        dataset = annotation_file if isinstance(annotation_file, dict) else read_json(annotation_file)
        if not isinstance(dataset, dict):
            raise RefusedError(f"{annotation_file}: expected an object with annotations, found a list")
        print_line(f"Done (t={time.time() - start:0.2f}s)")
        self.dataset = dataset
        self.createIndex()

    def createIndex(self) -> None:  # noqa: N802
        """Index ``dataset``; call it after changes."""
        print_line("creating index...")
        dataset = self.dataset
        self.imgToAnns, self.catToImgs = defaultdict(list), defaultdict(list)
        self.anns = {record["id"]: record for record in dataset.get("annotations", ())}
        self.imgs = {record["id"]: record for record in dataset.get("images", ())}
        self.cats = {record["id"]: record for record in dataset.get("categories", ())}
        for record in dataset.get("annotations", ()):
            self.imgToAnns[record["image_id"]].append(record)
        if "categories" in dataset:
            for record in dataset.get("annotations", ()):
                self.catToImgs[record["category_id"]].append(record["image_id"])
        print_line("index created!")

    def info(self) -> None:
        """Print the ``info`` of the file."""
        for key, value in self.dataset.get("info", {}).items():
            print_line(f"{key}: {value}")

    def getAnnIds(  # noqa: N802
        self,
        imgIds: Any = (),  # noqa: N803
        catIds: Any = (),  # noqa: N803
        areaRng: Any = (),  # noqa: N803
        iscrowd: bool | None = None,
    ) -> list[Any]:
        """Ids of annotations by image, category, area (inside the range) and crowd; empty arguments: any."""
        image_ids, category_ids, area_range = _as_list(imgIds), set(_as_list(catIds)), list(areaRng)
        records: Iterable[Record] = self.dataset.get("annotations", ())
        if image_ids:
            # `in` comes first: looking up another id would add it, as this is a `defaultdict`.
            records = itertools.chain.from_iterable(
                self.imgToAnns[i] for i in image_ids if i in self.imgToAnns
            )
        return [
            record["id"]
            for record in records
            if (not category_ids or record["category_id"] in category_ids)
            and (not area_range or area_range[0] < record["area"] < area_range[1])
            and (iscrowd is None or record["iscrowd"] == iscrowd)
        ]

    def getCatIds(self, catNms: Any = (), supNms: Any = (), catIds: Any = ()) -> list[Any]:  # noqa: N802, N803
        """Ids of the categories with some names, supercategories or ids."""
        names, supercategories, ids = _as_list(catNms), _as_list(supNms), _as_list(catIds)
        return [
            record["id"]
            for record in self.dataset.get("categories", ())
            if (not names or record["name"] in names)
            and (not supercategories or record["supercategory"] in supercategories)
            and (not ids or record["id"] in ids)
        ]

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:  # noqa: N802, N803
        """Return the ids of the images that have objects of all `catIds`, among `imgIds`; empty: any."""
        image_ids, category_ids = _as_list(imgIds), _as_list(catIds)
        if not image_ids and not category_ids:
            return list(self.imgs)
        common_ids = set(image_ids)  # without any, the images of the first category
        for i, category_id in enumerate(category_ids):
            ids_of_category = set(self.catToImgs[category_id])
            common_ids = ids_of_category if i == 0 and not common_ids else common_ids & ids_of_category
        return list(common_ids)

    def loadAnns(self, ids: Any = ()) -> list[Record]:  # noqa: N802
        """The annotations with these ids."""
        return [self.anns[i] for i in _as_list(ids)]

    def loadCats(self, ids: Any = ()) -> list[Record]:  # noqa: N802
        """The categories with these ids."""
        return [self.cats[i] for i in _as_list(ids)]

    def loadImgs(self, ids: Any = ()) -> list[Record]:  # noqa: N802
        """The images with these ids."""
        return [self.imgs[i] for i in _as_list(ids)]

    def showAnns(self, anns: Any, draw_bbox: bool = False) -> Any:  # noqa: N802
        """Draw annotations into the current axes of Matplotlib, with boxes if `draw_bbox`; print captions.

        Returns 0 if there are none. Raises UsageError if the first has no segmentation, keypoints or caption.
        """
        if not len(anns):
            return 0
        if "segmentation" in anns[0] or "keypoints" in anns[0]:
            from odm.coco.drawing import draw

            draw(self, anns, draw_bbox)
        elif "caption" in anns[0]:
            for record in anns:
                print_line(record["caption"])
        else:
            raise UsageError("showAnns draws segmentation and keypoints, and prints captions: there are none")
        return None

    def download(self, tarDir: Any = None, imgIds: Any = ()) -> None:  # noqa: N803
        """Not supported: UsageError, because odm fetches nothing from the network."""
        del tarDir, imgIds
        raise UsageError("download is not part of odm.coco: get the pictures from cocodataset.org")

    def loadRes(self, resFile: Any) -> COCO:  # noqa: N802, N803
        """Load results as annotations of these images: a file, a list of records, or an array (n, 7).

        As in pycocotools, the first record decides what all are: captions, boxes, masks or keypoints; areas
        are those of the boxes if there are boxes. A list of records is completed in place. RefusedError is
        raised for other objects, and for ids of images that the annotations lack.
        """
        results = COCO()
        start = time.time()
        print_line("Loading and preparing results...")
        records: Any = resFile
        if isinstance(resFile, (str, PathLike)):
            records = read_json(resFile)
        elif isinstance(resFile, np.ndarray):
            records = self.loadNumpyAnnotations(resFile)
        if not isinstance(records, list):
            raise RefusedError(f"expected results as a list of records, found {type(records).__name__}")
        unknown_ids = {record["image_id"] for record in records} - self.imgs.keys()
        if unknown_ids:
            examples = ", ".join(map(repr, sorted(unknown_ids, key=str)[:3]))
            raise RefusedError(
                f"results have image ids that the annotations lack: {len(unknown_ids)}, such as {examples}"
            )
        info = copy.deepcopy(self.dataset.get("info", {}))
        results.dataset = {"info": info, "images": list(self.dataset["images"])}
        if records and "caption" in records[0]:
            image_ids = {record["image_id"] for record in records}
            results.dataset["images"] = [i for i in self.dataset["images"] if i["id"] in image_ids]
            for id_, record in enumerate(records, 1):
                record["id"] = id_
        else:
            results.dataset["categories"] = copy.deepcopy(self.dataset["categories"])
            _complete_records(records)
        print_line(f"DONE (t={time.time() - start:0.2f}s)")
        results.dataset["annotations"] = records
        results.createIndex()
        return results

    def loadNumpyAnnotations(self, data: NDArray[Any]) -> list[Record]:  # noqa: N802
        """Records of an array (n, 7) of image, left, top, width, height, score and category."""
        if np.ndim(data) != 2 or data.shape[1] != 7:
            raise RefusedError(f"expected results as an array of 7 columns, found {np.shape(data)}")
        # What pycocotools prints on the way, a line for each million rows.
        steps = [f"{row}/{len(data)}" for row in range(0, len(data), 1_000_000)]
        print_line("\n".join(["Converting ndarray to lists...", str(data.shape), *steps]))
        return [
            {"image_id": int(row[0]), "bbox": row[1:5], "score": row[5], "category_id": int(row[6])}
            for row in data.tolist()
        ]

    def annToRLE(self, ann: Record) -> Record:  # noqa: N802
        """The mask of an annotation as RLE; one with compressed counts is returned as it is."""
        image = self.imgs[ann["image_id"]]
        shape = ann["segmentation"]
        if isinstance(shape, list):
            if not shape:
                raise UsageError(f"annotation {ann.get('id')}: segmentation is an empty list")
            return mask_functions.merge(mask_functions.frPyObjects(shape, image["height"], image["width"]))
        if isinstance(shape["counts"], (str, bytes)):
            return cast(Record, shape)
        return cast(Record, mask_functions.frPyObjects(shape, image["height"], image["width"]))

    def annToMask(self, ann: Record) -> NDArray[np.uint8]:  # noqa: N802
        """The mask of an annotation, (height, width)."""
        return mask_functions.decode(self.annToRLE(ann))


def _complete_records(records: list[Record]) -> None:
    """Add to results, in place, the fields of annotations that they lack: ids, areas, boxes, ``iscrowd`` 0.

    The first record decides whether all are boxes, masks or keypoints. Boxes also get an outline; keypoints
    get no ``iscrowd``, as in pycocotools.
    """
    if records and (first_box := records[0].get("bbox")) is not None and len(first_box):
        for id_, record in enumerate(records, 1):
            x, y, w, h = record["bbox"][:4]  # those of rotated boxes have more numbers
            if "segmentation" not in record:
                record["segmentation"] = [[x, y, x, y + h, x + w, y + h, x + w, y]]
            record.update(area=w * h, id=id_, iscrowd=0)
    elif records and "segmentation" in records[0]:
        runs, height, _ = read_runs([record["segmentation"] for record in records])
        areas, boxes = runs.areas().tolist(), runs.boxes(height).astype(np.float64)
        for id_, (record, area, box) in enumerate(zip(records, areas, boxes, strict=True), 1):
            record.update(area=area, id=id_, iscrowd=0)
            record.setdefault("bbox", box)
    elif records and "keypoints" in records[0]:
        for id_, record in enumerate(records, 1):
            x, y = record["keypoints"][0::3], record["keypoints"][1::3]
            left, top, right, bottom = min(x), min(y), max(x), max(y)
            record.update(area=(right - left) * (bottom - top), id=id_)
            record["bbox"] = [left, top, right - left, bottom - top]


def write_masks(coco: COCO, records: Sequence[Record]) -> None:
    """Replace the ``segmentation`` of `records` by RLE, in place, as pycocotools does before it compares.

    All outlines are filled in one call, unless the class of `coco` replaces ``annToRLE``.
    """
    outlined_records = []
    for record in records:
        shape = record["segmentation"]
        if type(coco).annToRLE is COCO.annToRLE and _has_outlines(shape):
            outlined_records.append(record)
        else:
            record["segmentation"] = coco.annToRLE(record)
    images = [coco.imgs[record["image_id"]] for record in outlined_records]
    height, width = (np.array([image[key] for image in images], np.int64) for key in ("height", "width"))
    rles = mask_functions.fill_outlines(
        [record["segmentation"] for record in outlined_records], height, width
    )
    for record, rle in zip(outlined_records, rles, strict=True):
        record["segmentation"] = rle


def _has_outlines(shape: Any) -> bool:
    """Whether a segmentation is a list of outlines; four numbers would be a box."""
    return (
        isinstance(shape, list) and bool(shape) and isinstance(shape[0], (list, tuple)) and len(shape[0]) > 4
    )


def read_json(path: str | PathLike[str]) -> Any:
    """Return the content of a JSON file, which may have Python's NaN and Infinity.

    Raises NotThereError if it does not exist, PathError or DataError if it cannot be read, and NotJsonError
    if it is not JSON.
    """
    import msgspec

    name, log = fspath(path), Log()
    try:
        data = open_source(name).read("", log)
    except PathError as e:
        raise (NotThereError if isinstance(e.__context__, FileNotFoundError) else PathError)(*e.args) from e
    if data is None:
        raise DataError(f"{printable(name)}: this file cannot be read", log)
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        try:
            return json.loads(data)
        except json.JSONDecodeError as e:
            raise NotJsonError(f"{printable(name)}: this is not JSON: {e.msg}", e.doc, e.pos) from None
