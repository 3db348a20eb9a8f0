"""The engine of this version."""

from apportion.core.engine import Engine
from apportion.engine.counters import COUNTERS
from apportion.engine.models import builtin_models
from apportion.version import ENGINE_VERSION

ENGINE = Engine(ENGINE_VERSION, COUNTERS, models=builtin_models())
"""All counters, each loaded on first use, the table of models, and no fingerprint secret."""
