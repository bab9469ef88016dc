"""pycocotools' interface on odm's tables and engine: change the import, and a script is faster.

>>> from odm.coco import COCO, COCOeval  # doctest: +SKIP
>>> truth = COCO("instances_val.json")  # doctest: +SKIP
>>> results = truth.loadRes("results.json")  # doctest: +SKIP
>>> evaluation = COCOeval(truth, results, "bbox")  # doctest: +SKIP
>>> evaluation.evaluate(); evaluation.accumulate(); evaluation.summarize()  # doctest: +SKIP

`install` puts it in place of pycocotools for programs that cannot be changed. The numbers are those of
pycocotools 2.0.11 (T.-Y. Lin, P. Dollar and others, https://github.com/cocodataset/cocoapi), to the last bit.
New programs are better served by `odm.eval`, which checks its input and shows more.
"""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec

from odm.coco import mask
from odm.coco.annotations import COCO
from odm.coco.evaluation import COCOeval, Params

__all__ = ["COCO", "COCOeval", "Params", "install", "mask"]


def install() -> None:
    """Make ``import pycocotools`` return this module from now on, in this process.

    Call it before anything imports pycocotools.
    """
    package = types.ModuleType("pycocotools")
    parts = {
        "coco": types.SimpleNamespace(COCO=COCO),
        "cocoeval": types.SimpleNamespace(COCOeval=COCOeval, Params=Params),
    }
    for name, members in parts.items():
        module = types.ModuleType(f"pycocotools.{name}")
        module.__spec__ = ModuleSpec(module.__name__, None)  # programs ask whether it is installed
        vars(module).update(vars(members), maskUtils=mask, mask=mask)  # as in `pycocotools.coco`
        setattr(package, name, module)
        sys.modules[f"pycocotools.{name}"] = module
    package.__path__ = []  # a module with a path is a package
    package.__spec__ = ModuleSpec("pycocotools", None, is_package=True)
    package.mask = mask  # type: ignore[attr-defined]
    package._mask = mask  # type: ignore[attr-defined]  # noqa: SLF001
    sys.modules |= {"pycocotools": package, "pycocotools.mask": mask, "pycocotools._mask": mask}
