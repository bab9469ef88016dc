"""Settings that all tests share."""

import os

from hypothesis import settings
from selection import SLOW

# No deadlines: machines are busy at times. The same examples in every run, so that a run can be repeated; look for new ones with HYPOTHESIS_PROFILE=explore.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs with ODM_SLOW=1 only (see tests/selection.py)")


def pytest_collection_modifyitems(config, items):
    if not SLOW:
        left_out = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter):
    if not SLOW:
        terminalreporter.write_line("Without the slow cases: ODM_SLOW=1 runs them too.")


# Where Python may not keep what it compiles, every `odm` that a test starts compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What is printed does not depend on the terminal that the tests are started from.
for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
    os.environ.pop(name, None)
