"""A forecast of `make test`: how long it takes on this machine, and which tests it skips.

`python -m support.forecast` prints it, from the checks that the tests themselves make.
"""

import sys
from collections.abc import Iterable

from support.requiring import DOCKER, REQUIREMENTS, Requirement

MINUTES, MINUTES_WITHOUT_DOCKER = 22, 6


def forecast(missing: Iterable[Requirement[str] | Requirement[bool] | Requirement[list[str]]]) -> str:
    """Return the forecast for a machine without these requirements."""
    lacked = tuple(missing)
    minutes = MINUTES_WITHOUT_DOCKER if DOCKER in lacked else MINUTES
    lines = [f"The tests take about {minutes} minutes on two cores."]
    lines += [
        f"  {'Failed' if requirement.is_required else 'Skipped'} without {requirement.name}:"
        f" tests {requirement.tests}"
        for requirement in lacked
    ]
    return "\n".join(lines if lacked else [*lines, "None is skipped."])


if __name__ == "__main__":
    sys.stdout.write(forecast(found for found in REQUIREMENTS if not found.find()) + "\n")
