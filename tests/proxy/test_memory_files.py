"""Files in memory, by the machine's C library."""

from __future__ import annotations

import os
import resource

import pytest

from proxy.memory_files import memory_file


def test_a_file_in_memory_is_empty_named_and_not_inherited() -> None:
    descriptor = memory_file("counts")
    try:
        assert os.fstat(descriptor).st_size == 0
        assert os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:counts")
        assert not os.get_inheritable(descriptor)
        assert os.pwrite(descriptor, b"abc", 1) == 3
        assert os.pread(descriptor, 9, 0) == b"\0abc"
    finally:
        os.close(descriptor)


def test_a_file_in_memory_that_cannot_be_had_is_an_os_error() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            memory_file("counts")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
