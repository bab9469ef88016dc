"""Which cases every run has, and which only a run with ``ODM_SLOW=1``.

A case is left out of the usual run where another one goes the same way through the code: it has the mark `slow`. What
once found a fault is kept, here or there. ``ODM_SLOW=1 pytest -m slow --collect-only -q`` lists what is left out.
"""

import functools
import inspect
import os
import tempfile
import traceback
from pathlib import Path

import pytest

SLOW = bool(os.environ.get("ODM_SLOW"))
slow = pytest.mark.slow
PARAM = type(pytest.param())


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


def of_each(cases):
    """One test that calls a function for each of some cases, and tells of all that fail.

    The cases are those of ``parametrize``, or a function that answers them: a tuple is several arguments, and what is
    marked slow is left out. A function that asks for ``tmp_path`` gets a new folder for each. This takes a fraction of
    the time of a test for each case, where one takes milliseconds.
    """

    known = [] if callable(cases) else list(cases)

    def decorate(check):
        folders = "tmp_path" in inspect.signature(check).parameters

        def test(tmp_path):
            wrong = []
            given_cases = cases() if callable(cases) else known
            assert given_cases, "nothing to try"
            for number, given in enumerate(given_cases):
                if isinstance(given, PARAM) and given.marks and not SLOW:
                    continue
                arguments = (
                    given.values
                    if isinstance(given, PARAM)
                    else given
                    if isinstance(given, tuple)
                    else (given,)
                )
                more = {"tmp_path": tmp_path / str(number)} if folders else {}
                for folder in more.values():
                    folder.mkdir()
                try:
                    check(*arguments, **more)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as e:
                    line = next(
                        f.lineno for f in traceback.extract_tb(e.__traceback__)[::-1] if "test" in f.filename
                    )
                    wrong.append(f"{' '.join(map(str, arguments))} (line {line}): {type(e).__name__}: {e}")
            assert not wrong, "\n".join(wrong)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


FIXED_CLASSES = "kitti", "visdrone"
"""Protocols whose classes have fixed names, to which those of most tests mean nothing."""


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

    from odm.formats import WRITTEN

    found = {}
    for name in sorted(WRITTEN, key=lambda name: (name not in corpus.BASE, name)):
        found.setdefault(kind(name), name)
    return tuple(found.values())
