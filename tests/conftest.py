"""Settings that all tests share."""

import gc
import os
import re
import signal
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import SLOW

from odm.files import scratch

# No deadlines: machines are busy at times. The same examples in every run, so that a run can be repeated; look for new ones with HYPOTHESIS_PROFILE=explore.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# Collecting thousands of tests leaves nothing to free: the search for it took a third of that time.
gc.disable()


@given(st.none())
def first_example(_):
    """Let Hypothesis register its random numbers: it asks the collector who refers to them."""


def pytest_collection_finish():
    first_example()  # before the collector no longer sees what is frozen
    gc.freeze()
    gc.enable()


def pytest_configure(config):
    if not SLOW:  # a disk need not keep what the tests write
        os.fsync = scratch.sync_file_system = lambda _: None
    config.addinivalue_line("markers", "slow: runs with ODM_SLOW=1 only (see tests/selection.py)")


def pytest_collection_modifyitems(config, items):
    if not SLOW:
        left_out = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter):
    if not SLOW:
        terminalreporter.write_line("Without the slow cases: ODM_SLOW=1 runs them too.")


# A shell that starts this in the background, or with nohup, has it ignore ctrl-C, and what the tests start would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


WHY_NOT = re.compile(
    r"only root can .+"
    r"|nobody else may enter the temporary folder"
    r"|mount is not permitted|capabilities cannot be given up"
    r"|no Chromium: .+|no site: .+"
    r"|could not import '[\w.]+': .+|.+ is not installed(?: .+)?"  # extras
    r"|Parquet needs pyarrow|object stores need pyarrow|a cluster needs Dask|the local (?:S3 )?server .+"
    r"|only in a checkout|this checkout has no links"
    r"|no (?:bash|zsh|fish|pwsh|powershell) here"
    r"|copies are made on Linux only|counts threads as Linux lists them|memory is read from /proc|needs /proc"
    r"|needs a device that is always full|signals|workers are killed by a signal"
    r"|one core makes no copies|one processor needs no threads"
)
"""The reasons for which a test may be skipped: what a machine lacks. Slow cases are deselected."""


def refuse_skip(report):
    """Make a skip for any other reason a failure: a test that nobody runs looks like one that passes."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not WHY_NOT.fullmatch(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that is not in WHY_NOT of tests/conftest.py: {reason}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    return refuse_skip((yield))


class Printed(NamedTuple):
    out: str
    err: str


@pytest.fixture
def odm_run(capsys):
    """Run the command line in this process; no traceback and no internal error may ever come of it."""
    from odm.cli import _app

    before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}

    def run(*words, code=0):
        got = _app.run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert got == code, f"exit code {got}\n{out}\n{err}"
        assert "Traceback" not in err
        assert got != 70
        return Printed(out, err)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def only_svg(monkeypatch):
    """Draw plots as SVG alone: for tests to which the other formats say nothing, and which cost as much again each."""
    from odm import drawing

    for suffix in ("png", "pdf"):
        monkeypatch.delitem(drawing.FORMATS, suffix)


# Where Python may not keep what it compiles, every `odm` that a test starts compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What is printed does not depend on the terminal that the tests are started from.
for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
    os.environ.pop(name, None)
