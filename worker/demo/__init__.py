"""The demo: an embedded broker, the worker, and real sessions, in one process tree.

Decides how the parts are put together for a first look, and what is told of it. Never decides what is
composed: that is the same worker, through the same topics, as anywhere else.
"""

from worker.demo.run import Demo, run_demo
from worker.demo.tally import Tally

__all__ = ("Demo", "Tally", "run_demo")
