"""`python -m apportion.cli._child ARGUMENT…`: the command, ending when the process that started it does.

Decides only that nobody is left behind: standard input is a pipe from the parent, and its end means that the
parent is gone, however it went.
"""

import os
import signal
import sys
import threading

from apportion.cli import main


def _end_with_parent() -> None:
    # not through sys.stdin: who waits there holds its lock, and the interpreter could not end
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main()
