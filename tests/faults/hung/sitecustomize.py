"""A disk that hangs: Python imports this module at the start of a process with this folder in its PYTHONPATH.

Once there is a FIFO at WIRETAP_TESTS_HUNG, a write to the log is a system call that does not return, because nobody
ever opens the FIFO's other end.
"""

import os
from collections.abc import Sequence

_fifo = os.environ["WIRETAP_TESTS_HUNG"]
_writev = os.writev


def _hanging(descriptor: int, buffers: Sequence[bytes]) -> int:
    if os.path.exists(_fifo):
        os.open(_fifo, os.O_RDONLY)
    return _writev(descriptor, buffers)


os.writev = _hanging  # type: ignore[assignment]
