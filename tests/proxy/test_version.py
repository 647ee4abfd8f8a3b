"""Tests of the program's version."""

from importlib.metadata import PackageNotFoundError, version

import pytest

from proxy.version import UNKNOWN, program_version


def test_the_version_is_the_distributions() -> None:
    assert program_version() == version("kafka-wiretap")


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("proxy.version.version", missing)
    assert program_version() == UNKNOWN
