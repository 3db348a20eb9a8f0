"""The engine of this version."""

from apportion.core.engine import Engine
from apportion.engine.counters import COUNTERS
from apportion.version import ENGINE_VERSION

ENGINE = Engine(ENGINE_VERSION, COUNTERS)
"""All counters, each loaded on first use, and no fingerprint secret."""
