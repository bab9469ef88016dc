"""Which cases every run has, and which only a run with ``ODM_SLOW=1``.

A case is left out of the usual run where another one goes the same way through the code: it has the mark `slow`. What
once found a fault is kept, here or there. ``ODM_SLOW=1 pytest -m slow --collect-only -q`` lists what is left out.
"""

import functools
import os
import tempfile
from pathlib import Path

import pytest

SLOW = bool(os.environ.get("ODM_SLOW"))
slow = pytest.mark.slow


def params(values, always):
    """Values for ``parametrize``: those that are not in `always` are slow."""
    always = set(always)
    return [
        value
        if value in always
        else pytest.param(*(value if isinstance(value, tuple) else [value]), marks=slow)
        for value in values
    ]


def first_of(values, kind):
    """The first of the values of each kind, which a function tells."""
    found = {}
    for value in values:
        found.setdefault(kind(value), value)
    return list(found.values())


def turns(cases, choices, every=None):
    """Each case with each choice, for ``parametrize``: all are slow but one, or `every` n-th, others from case to case."""
    return [
        pytest.param(case, choice, marks=[slow] * bool((number + turn) % (every or len(choices))))
        for number, case in enumerate(cases)
        for turn, choice in enumerate(choices)
    ]


def examples(many):
    """How many examples of a property are tried: all, or a quarter in the usual run."""
    return many if SLOW else max(many // 4, 3)


@functools.cache
def shape(name):
    """What a format makes of two images: one file, a folder of files, or folders in a folder."""
    import odm
    from odm.formats import FORMATS

    dataset = odm.Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], width=[9, 9], height=[9, 9], categories=["cat"], image=[0, 1], category=[0, 0],
        xyxy=[[1, 2, 3, 4]] * 2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "out" + (FORMATS[name].suffixes[0] if FORMATS[name].single else ""))
        odm.write(dataset, target, name)
        return (
            "file" if target.is_file() else "folders" if any(map(Path.is_dir, target.iterdir())) else "folder"
        )


@functools.cache
def one_of_each(kind=shape):
    """One format of each kind that a function of its name tells; the corpus has it, where it can."""
    import corpus

    from odm.formats import FORMATS

    found = {}
    for name in sorted(FORMATS, key=lambda name: (name not in corpus.BASE, name)):
        found.setdefault(kind(name), name)
    return tuple(found.values())
