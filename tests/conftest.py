"""What holds in all tests."""

from hypothesis import settings

# An example may take as long as a machine that others use makes it take: no test judges by a clock.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
