"""Settings of all tests."""

import os

from hypothesis import settings

# Tests share machines, so no example has a deadline. `make test` and CI draw the same examples in each run:
# only a change makes a test fail. `make explore` draws new examples.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
