"""Tests of the Kerberos realm."""

import re
import socket
from pathlib import Path

import pytest

from tests.brokers.kdc import REALM, Kdc

pytestmark = pytest.mark.real


@pytest.mark.long
def test_the_kdc_has_a_key_for_each_principal_and_ends_with_its_block(tmp_path: Path) -> None:
    with Kdc(tmp_path / "kdc", ["kafka/127.0.0.1", "erin"]) as kdc:
        keytab = (tmp_path / "kdc" / "keytab").read_bytes()
        (place,) = re.findall(r"^  kdc = (.+):(\d+)$", kdc.configuration.read_text(), re.MULTILINE)
        socket.create_connection(place).close()
    for part in (b"kafka", b"127.0.0.1", b"erin", REALM.encode()):
        assert part in keytab
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place)


@pytest.mark.long
def test_a_kdc_that_does_not_start_raises_its_error(tmp_path: Path) -> None:
    twice = ["erin", "erin"]
    with pytest.raises(RuntimeError, match=r"did not start:\n(?s:.*)Exception"), Kdc(tmp_path / "kdc", twice):
        pass
