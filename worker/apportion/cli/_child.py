"""`python -m apportion.cli._child ARGUMENT…`: the command as a child process, which ends with its parent.

Standard input is a pipe from the parent. Its end means that the parent has ended, for whatever reason.
"""

import os
import signal
import sys
import threading

from apportion.cli import main


def _end_with_parent() -> None:
    # not through sys.stdin: a waiting reader holds its lock, and the interpreter could not end
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main()
