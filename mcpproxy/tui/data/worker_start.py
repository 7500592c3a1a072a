"""How the processes that work for the screens start: at low priority, and so that they end with their parent."""

import os
import resource
import signal
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from analysis.child_process import Parent

NICENESS: Final = 5
"""How much lower their priority is than that of the screens."""


def start_worker() -> tuple[Parent, "SimpleQueue[bytes]"]:
    """Prepare this process to work for the screens; return the parent, and the queue of its requests.

    The requests are received in a thread, so that the process ends with its parent even while it is busy.
    """
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain traffic
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent()
    requests: SimpleQueue[bytes] = SimpleQueue()
    parent.listen(requests.put)
    return parent, requests
