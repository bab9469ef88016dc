"""Settings that all tests share."""

import os

from hypothesis import settings

# No deadlines: machines are busy at times. The same examples in every run, so that a run can be repeated; look for new ones with HYPOTHESIS_PROFILE=explore.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What is printed does not depend on the terminal that the tests are started from.
for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
    os.environ.pop(name, None)
