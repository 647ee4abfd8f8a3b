from __future__ import annotations

import threading
from copy import copy

import pytest

from proxy.threads import NoThread, begin, no_thread, start_thread
from tests.proxy.net.threads import no_threads


def test_a_thread_that_is_started_does_its_work_and_keeps_no_process():
    done = threading.Event()
    thread = start_thread(done.set, "a name")
    thread.join()
    assert done.is_set()
    assert (thread.name, thread.daemon) == ("a name", True)


def test_a_thread_that_the_machine_refuses_is_an_error_of_the_machines():
    with no_threads():
        with pytest.raises(NoThread, match="no thread can be had"):
            start_thread(print, "a name")
        with pytest.raises(OSError, match="no thread can be had"):
            begin(threading.Thread(target=print))


def test_each_caller_may_raise_its_own_copy_of_the_error():
    assert copy(no_thread()).args == no_thread().args
