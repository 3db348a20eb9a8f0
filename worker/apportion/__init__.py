"""Apportion: composes model context under a hard token ceiling, as a Kafka stream worker or a library.

Importing this package starts nothing and reads nothing. The public names of the library are defined in
`apportion.library` and available here, too. The first use of a name loads the core, so that the command's
help does not. ARCHITECTURE.md lists the packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.version import ENGINE_VERSION as ENGINE_VERSION
from apportion.version import __version__ as __version__

if TYPE_CHECKING:
    from apportion.library import *  # noqa: F403 - its public names are this package's, too
else:  # hidden from type checkers, because they would accept any name

    def __getattr__(name: str) -> object:
        """Return a name of the library, and keep it here (PEP 562)."""
        library = import_module("apportion.library")
        if name != "__all__" and name not in library.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        value = globals()[name] = getattr(library, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("apportion.library").__all__})
