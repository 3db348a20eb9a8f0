"""The versions of the package and of the engine, in a module that imports nothing."""

__version__ = "0.5.0"
"""The version of the package, which names a release."""
ENGINE_VERSION = "0.4.0"
"""The version in every decision. The same events under the same engine version give the same bytes."""
