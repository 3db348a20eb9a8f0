"""The demo: an embedded broker, the worker as in production, and real sessions, in one process tree."""

from apportion.demo.demo.run import POLICY, require_demo_policy, run_demo
from apportion.demo.demo.screen import Screen
from apportion.demo.demo.story import story_of

__all__ = ("POLICY", "Screen", "require_demo_policy", "run_demo", "story_of")
