"""Tests of the systemd unit: every systemd from 252 on (Debian 12, RHEL 9) understands it."""

from __future__ import annotations

from configparser import RawConfigParser
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "examples" / "kafka-wiretap.service"
OLDEST = 252
# each key that the unit may have, and the systemd version that added it ("Added in version" of systemd.unit(5),
# systemd.service(5), systemd.exec(5)); keys without such a note are older: 0
KNOWN_SINCE = {
    "Unit": {"Description": 0, "After": 0, "Wants": 0, "Documentation": 0},
    "Service": {
        "Type": 0,
        "ExecStart": 0,
        "ExecReload": 0,
        "WatchdogSec": 0,
        "Restart": 0,
        "DynamicUser": 232,
        "StateDirectory": 235,
        "LimitNOFILE": 0,
        "NoNewPrivileges": 187,
        "ProtectSystem": 214,
        "ProtectHome": 214,
        "PrivateTmp": 0,
        "ReloadSignal": 253,
    },
    "Install": {"WantedBy": 0},
}
# values newer than their key; `notify-reload` waits for the messages of a reload itself
VALUES_SINCE = {("Type", "notify"): 0, ("Type", "notify-reload"): 253, ("ProtectSystem", "strict"): 232}


@pytest.fixture(scope="module")
def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


def test_every_key_and_value_is_known_to_the_oldest_systemd(unit: RawConfigParser) -> None:
    for section in unit.sections():
        for key, value in unit[section].items():
            assert KNOWN_SINCE[section][key] <= OLDEST, key
            assert VALUES_SINCE.get((key, value), 0) <= OLDEST, f"{key}={value}"


def test_the_unit_is_of_type_notify_and_reloads_by_sighup(unit: RawConfigParser) -> None:
    """The proxy sends READY=1, and RELOADING=1 before it reads its settings again: tests/proxy/net/test_systemd.py."""
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert int(unit["Service"]["WatchdogSec"]) > 0
