"""Tests of the reasons for masking a frame."""

from proxy.wire import apis, catalog
from recorder.inspect.masked import BY_API, LOGINS, UNREADABLE, why


def test_every_api_with_secrets_says_what_they_are_and_no_other_does() -> None:
    with_secrets = {
        apis.api_name(key)
        for key in apis.api_keys()
        if catalog.may_hold_secrets("request", key) or catalog.may_hold_secrets("response", key)
    }
    assert BY_API.keys() == with_secrets


def test_a_token_is_of_a_login_and_what_is_of_no_api_could_not_be_read() -> None:
    assert why("token", None) == why("request", "SaslAuthenticate") == LOGINS
    assert why("bytes", None) == why("request", "Heartbeat") == UNREADABLE
