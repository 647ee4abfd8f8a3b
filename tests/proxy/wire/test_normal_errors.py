"""Tests of error codes that are a normal step of the protocol."""

from __future__ import annotations

import pytest

from proxy.wire.error_codes import ERRORS
from proxy.wire.keys import API_VERSIONS, CONSUMER_GROUP_DESCRIBE, FETCH, HEARTBEAT, JOIN_GROUP
from proxy.wire.normal_errors import is_normal
from tests.tables import each_row

CODES = {error.name: error.code for error in ERRORS.values()}


@pytest.mark.parametrize(
    ("api_key", "error"),
    [
        (API_VERSIONS, "UNSUPPORTED_VERSION"),
        (JOIN_GROUP, "MEMBER_ID_REQUIRED"),
        (CONSUMER_GROUP_DESCRIBE, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_some_errors_are_normal_for_one_api_alone(api_key: int, error: str) -> None:
    assert is_normal(api_key, CODES[error])
    assert not is_normal(FETCH, CODES[error])
    assert not is_normal(None, CODES[error])


@each_row("error", ["REBALANCE_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "FETCH_SESSION_ID_NOT_FOUND"])
@each_row("api_key", [HEARTBEAT, FETCH, None])
def test_some_errors_are_normal_for_every_api(api_key: int | None, error: str) -> None:
    assert is_normal(api_key, CODES[error])


def test_a_refusal_is_not_normal() -> None:
    assert not is_normal(FETCH, CODES["TOPIC_AUTHORIZATION_FAILED"])
