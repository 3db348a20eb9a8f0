"""Makes realistic session events from the history of any git repository, and reads the recorded ones.

Decides which moments of a history are asked about, and what a platform would offer as candidates then.
Never decides what is composed, and never depends on the rest of the worker: its events travel like
anyone's. `requests.from_git` makes events, `recording` stores and reads them.
"""
