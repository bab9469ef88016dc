"""Run the code of installed programs with pycocotools and with odm.coco in its place, and compare their numbers.

    python benchmarks/clients.py                        # all clients that are installed
    python benchmarks/clients.py torchmetrics lvis      # some of them
    python benchmarks/clients.py --tests DIR -- -k map  # the tests in a checkout of a client, and options of pytest

Clients are packages from PyPI: torchmetrics (with torch and torchvision), faster-coco-eval, lvis, tidecv and sahi.
Each evaluates the same random scenes in a process of its own, once with each implementation. With ``--tests``, pytest
runs the tests in a folder twice, and how many pass and fail is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEIGHT = 160, 120
Scene = tuple[dict[str, Any], list[dict[str, Any]]]
SOURCES = str(Path(__file__).parents[1] / "src")


def make_scene(seed: int, n_images: int = 12, n_classes: int = 4) -> Scene:
    """Random objects, some of them crowds, and detections with ties, misses and wrong classes."""
    from pycocotools import mask

    random = np.random.default_rng(seed)
    images = [
        {"id": 3 * i + 1, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT, "neg_category_ids": [],
         "not_exhaustive_category_ids": []}
        for i in range(n_images)
    ]  # fmt: skip
    categories = [
        {"id": 2 * c + 1, "name": f"c{c}", "supercategory": "s", "frequency": "rcf"[c % 3], "synset": f"c{c}",
         "image_count": n_images}
        for c in range(n_classes)
    ]  # fmt: skip
    annotations: list[dict[str, Any]] = []
    results = []
    for image in images:
        for _ in range(random.integers(0, 7)):
            x, y = random.uniform(0, 70, 2).round(1).tolist()
            w, h = random.uniform(6, 49, 2).round(1).tolist()
            about = {"image_id": image["id"], "category_id": categories[random.integers(n_classes)]["id"]}
            outline = [x, y, x + w, y, x + w, y + h, x + w / 3, y + h]
            annotations.append(
                {**about, "id": len(annotations) + 1, "bbox": [x, y, w, h], "segmentation": [outline],
                 "area": w * h * 0.8, "iscrowd": int(random.random() < 0.1)}
            )  # fmt: skip
            for _ in range(random.integers(0, 3)):
                dx, dy = random.normal(0, 3, 2).round(1).tolist()
                corners = np.clip(np.array(outline).reshape(-1, 2) + np.array([dx, dy]), 0, WIDTH - 1)
                rle = mask.merge(mask.frPyObjects([corners.ravel().tolist()], HEIGHT, WIDTH))
                category = about["category_id"]
                if random.random() < 0.2:
                    category = categories[random.integers(n_classes)]["id"]
                results.append(
                    {"image_id": image["id"], "category_id": category, "score": round(random.random(), 1),
                     "bbox": [x + dx, y + dy, w, h],
                     "segmentation": {"size": rle["size"], "counts": rle["counts"].decode()}}
                )  # fmt: skip
    return {"info": {}, "images": images, "categories": categories, "annotations": annotations}, results


def run_torchmetrics(scene: Scene, folder: Path) -> Any:
    """Its mean average precision of boxes and of masks, with all extras."""
    import torch
    from torchmetrics.detection.mean_ap import MeanAveragePrecision

    truth, results = scene
    numbers = []
    for kind in ("bbox", "segm"):
        settings = {
            "iou_type": kind,
            "backend": "pycocotools",
            "extended_summary": True,
            "class_metrics": True,
        }
        metric = MeanAveragePrecision(box_format="xywh", **settings)
        (folder / "truth.json").write_text(json.dumps(truth))
        (folder / "results.json").write_text(json.dumps(results))
        metric.update(*metric.coco_to_tm(f"{folder}/results.json", f"{folder}/truth.json", kind))
        found = metric.compute()
        values = {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}
        numbers.append({key: value.tolist() for key, value in sorted(values.items())})
    return numbers


def run_faster_coco_eval(scene: Scene, folder: Path) -> Any:
    """The matched pairs of its curves, beside what pycocotools' interface gives for the same files."""
    import faster_coco_eval
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    del folder
    numbers = []
    pairs = (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster), (COCO, COCOeval)
    for coco, evaluation in pairs:
        for kind in ("bbox", "segm"):
            truth, results = json.loads(json.dumps(scene))
            gt = coco()
            gt.dataset = truth
            gt.createIndex()
            found = evaluation(gt, gt.loadRes(results), kind)
            found.evaluate()
            found.accumulate()
            found.summarize()
            numbers.append([float(value) for value in list(found.stats)[:12]])
    return numbers


def run_lvis(scene: Scene, folder: Path) -> Any:
    """LVISEval of boxes and of masks."""
    vars(np)["float"] = float  # which lvis 0.5.3 still uses
    from lvis import LVIS, LVISEval, LVISResults

    truth, results = scene
    (folder / "truth.json").write_text(json.dumps(truth))
    numbers = []
    for kind in ("bbox", "segm"):
        gt = LVIS(f"{folder}/truth.json")
        own = [{k: v for k, v in r.items() if kind == "bbox" or k != "bbox"} for r in results]
        evaluation = LVISEval(gt, LVISResults(gt, json.loads(json.dumps(own))), kind)
        evaluation.run()
        numbers.append({key: float(value) for key, value in evaluation.get_results().items()})
    return numbers


def run_tidecv(scene: Scene, folder: Path) -> Any:
    """TIDE's AP and errors, of boxes and of masks."""
    from tidecv import TIDE, datasets

    truth, results = scene
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    numbers = []
    for mode in (TIDE.BOX, TIDE.MASK):
        tide = TIDE()
        run = tide.evaluate(
            datasets.COCO(f"{folder}/truth.json"), datasets.COCOResult(f"{folder}/results.json"), mode=mode
        )
        numbers.append([run.ap, tide.get_main_errors(), tide.get_special_errors()])
    return numbers


def run_sahi(scene: Scene, folder: Path) -> Any:
    """The results of sahi's evaluation script, by class, of boxes and of masks."""
    from sahi.scripts.coco_evaluation import evaluate

    truth, results = scene
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    return [
        evaluate(
            f"{folder}/truth.json",
            f"{folder}/results.json",
            str(folder),
            kind,
            classwise=True,
            return_dict=True,
        )["eval_results"]
        for kind in ("bbox", "segm")
    ]


CLIENTS = {
    "torchmetrics": run_torchmetrics,
    "faster_coco_eval": run_faster_coco_eval,
    "lvis": run_lvis,
    "tidecv": run_tidecv,
    "sahi": run_sahi,
}
PLUGIN = "odm_in_its_place"
"""The module that pytest loads before a client's tests."""


def flatten(value: Any) -> list[Any]:
    """All numbers and texts of nested values, in order."""
    if isinstance(value, dict):
        return [item for key in sorted(value, key=str) for item in flatten(value[key])]
    if isinstance(value, (list, tuple)):
        return [item for each in value for item in flatten(each)]
    return [value]


def run_client(name: str, implementation: str, seeds: int) -> None:
    """Print the numbers of a client as JSON: what the process of one implementation does."""
    scenes = [make_scene(seed) for seed in range(seeds)]  # made by pycocotools for both
    for module in [m for m in sys.modules if m.split(".")[0] == "pycocotools"]:
        del sys.modules[module]
    if implementation == "odm":
        import odm.coco

        odm.coco.install()
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        numbers = [CLIENTS[name](scene, Path(folder)) for scene in scenes]
    used = sys.modules.get("pycocotools.mask")
    if used is None or used.__name__.startswith("odm.") != (implementation == "odm"):
        sys.exit(f"{name} did not use the pycocotools that it was to use")
    json.dump(numbers, sys.stdout, default=float)


def environment() -> dict[str, str]:
    """The environment in which odm is that of this checkout."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])}


def compare_client(name: str, seeds: int) -> bool:
    """Whether a client gives the same numbers with both; print a line about it."""
    if importlib.util.find_spec(name) is None:
        print(f"{name}: not installed")
        return True
    outputs = []
    for implementation in ("pycocotools", "odm"):
        command = [sys.executable, __file__, name, "--run", implementation, "--seeds", str(seeds)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
        if done.returncode:
            print(
                f"{name}: ended with {done.returncode} with {implementation}: {done.stderr.splitlines()[-1]}"
            )
            return False
        outputs.append(flatten(json.loads(done.stdout)))
    theirs, ours = outputs
    same_texts = [a for a in theirs if isinstance(a, str)] == [a for a in ours if isinstance(a, str)]
    numbers = [
        np.array([-9.0 if a is None else a for a in values if not isinstance(a, str)]) for values in outputs
    ]
    is_alike = same_texts and len(numbers[0]) == len(numbers[1])
    apart = (
        np.abs(np.nan_to_num(numbers[0]) - np.nan_to_num(numbers[1])).max(initial=0) if is_alike else np.inf
    )
    print(f"{name}: {len(theirs)} numbers, largest difference {apart:.3g}")
    return bool(apart < 1e-9)


def compare_tests(folder: str, options: list[str]) -> bool:
    """Whether as many tests of a checkout pass with both; print the counts."""
    counts = []
    with tempfile.TemporaryDirectory() as plugins:
        for implementation in ("pycocotools", "odm"):
            lines = "import odm.coco\nodm.coco.install()\n" if implementation == "odm" else ""
            (Path(plugins) / f"{PLUGIN}.py").write_text(lines)
            own = environment()
            own["PYTHONPATH"] = os.pathsep.join([plugins, own["PYTHONPATH"]])
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                PLUGIN,
                "-p",
                "no:cacheprovider",
                *options,
                ".",
            ]
            done = subprocess.run(command, check=False, capture_output=True, text=True, env=own, cwd=folder)
            last = done.stdout.strip().splitlines()[-1:] or [done.stderr]
            found = dict(re.findall(r"(\d+) (passed|failed|skipped|error)", last[0]))
            counts.append({word: int(n) for n, word in found.items()})
            print(f"{implementation}: {last[0]}")
    return counts[0] == counts[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", choices=[[], *CLIENTS], help="which clients")
    parser.add_argument("--seeds", type=int, default=5, help="how many scenes")
    parser.add_argument("--tests", metavar="DIR", help="run the tests in this folder of a checkout instead")
    parser.add_argument("--run", choices=["pycocotools", "odm"], help=argparse.SUPPRESS)
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    if arguments.run:
        run_client(arguments.clients[0], arguments.run, arguments.seeds)
    elif arguments.tests:
        sys.exit(not compare_tests(arguments.tests, words[cut + 1 :]))
    else:
        alike = [compare_client(name, arguments.seeds) for name in arguments.clients or CLIENTS]
        sys.exit(not all(alike))


if __name__ == "__main__":
    main()
