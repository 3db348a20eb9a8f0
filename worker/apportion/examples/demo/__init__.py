"""The demo: an embedded broker, the worker, and real sessions, in one process tree.

Decides how the parts are put together for a first look, and what is told of it. Never decides what is
composed: that is the same worker, through the same topics, as anywhere else.
"""

from apportion.examples.demo.run import POLICY, require_demo_policy, run_demo
from apportion.examples.demo.screen import Screen
from apportion.examples.demo.story import story_of

__all__ = ("POLICY", "Screen", "require_demo_policy", "run_demo", "story_of")
