"""Tests of each release's versions; `test_drift.py` compares all of them with the releases themselves."""

import pytest

from proxy.wire import apis
from proxy.wire.errors import Malformed
from proxy.wire.releases import TABLE, releases, versions_in


def test_every_api_stands_once_in_the_catalogs_order() -> None:
    assert [line.split()[0] for line in TABLE.splitlines()[1:]] == [apis.api_name(key) for key in apis.api_keys()]
    assert releases() == ("3.9.2", "4.0.2", "4.3.1", "4.4.0")


def test_facts_that_kafkas_upgrade_notes_state() -> None:
    """KIP-896: 4.0 removed the old versions, and ZooKeeper's apis with them."""
    assert (versions_in("3.9.2", 1), versions_in("4.0.2", 1)) == (range(18), range(4, 18))
    assert (versions_in("3.9.2", 4), versions_in("4.0.2", 4)) == (range(8), range(0))


def test_an_unknown_api_is_empty_and_an_unknown_release_is_an_error() -> None:
    assert versions_in("4.4.0", 2000) == range(0)
    with pytest.raises(ValueError, match=r"known releases are 3\.9\.2, 4\.0\.2, 4\.3\.1, 4\.4\.0, not '2\.0\.0'"):
        versions_in("2.0.0", 1)
    with pytest.raises(Malformed, match="70000 is not"):
        versions_in("4.4.0", 70000)
