import inspect
from dataclasses import FrozenInstanceError

import pytest

from proxy.net.observer import Observer, OpenedConnection
from recorder.capture.tap import Tap

METHODS = [name for name, value in vars(Observer).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("name", METHODS)
def test_the_recorders_tap_has_the_methods_of_an_observer(name):
    wanted = list(inspect.signature(getattr(Observer, name)).parameters)
    assert list(inspect.signature(getattr(Tap, name)).parameters) == wanted


def test_the_recorders_tap_says_whether_it_is_full():
    assert isinstance(inspect.getattr_static(Tap, "must_wait"), property)


def test_the_facts_of_a_connection_do_not_change():
    facts = OpenedConnection(1, 0, "127.0.0.1:9092", "127.0.0.1:50000", None, "b:9092", tls=False, cluster="main")
    with pytest.raises(FrozenInstanceError):
        facts.connection = 2  # type: ignore[misc]
