"""A disk that hangs: Python imports this by itself at the start of a process that has this folder in its PYTHONPATH.

Once there is a FIFO where WIRETAP_TESTS_HUNG says, whoever writes to the log is in a call to the kernel that does not
return: nobody ever opens the other end.
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
