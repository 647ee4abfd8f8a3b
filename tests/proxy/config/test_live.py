"""Tests of the settings of what is read beside the proxy: a page has a token, and beyond loopback TLS."""

from pathlib import Path
from typing import Any

import pytest

from proxy.config import LiveSettings, ProxySettings
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.config.clusters import cluster

TOKEN, PEM = Path("token"), Path("page.pem")


@pytest.mark.parametrize(
    ("host", "files", "wrong"),
    [
        ("127.0.0.1", {}, "needs a token"),
        ("0.0.0.0", {"token_file": TOKEN}, "beyond loopback"),
        ("wiretap.example", {"token_file": TOKEN}, "beyond loopback"),
        ("127.0.0.1", {"token_file": TOKEN, "page_certificate": PEM}, "belong together"),
        ("127.0.0.1", {"token_file": TOKEN, "page_key": PEM}, "belong together"),
    ],
)
def test_a_page_that_would_not_be_safe_is_refused(host: str, files: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadSetting, match=wrong) as error:
        LiveSettings(page=Address(host, 9465), **files)
    assert "right would be" in str(error.value)


@pytest.mark.parametrize(
    ("host", "files"),
    [("127.0.0.1", {}), ("::1", {}), ("localhost", {}), ("0.0.0.0", {"page_certificate": PEM, "page_key": PEM})],
)
def test_a_safe_page_asks_for_the_process(host: str, files: dict[str, Any]) -> None:
    assert LiveSettings(page=Address(host, 9465), token_file=TOKEN, **files).is_asked_for
    assert not LiveSettings(page_name="wiretap.example").is_asked_for


def test_a_token_that_nobody_can_show_anywhere_is_refused() -> None:
    live, place = LiveSettings(token_file=TOKEN), Address("127.0.0.1", 9464)
    with pytest.raises(BadSetting, match="lets nobody in without metrics") as error:
        ProxySettings((cluster(),), live=live)
    assert "right would be" in str(error.value)
    assert ProxySettings((cluster(),), live=live, metrics=place)
    assert ProxySettings((cluster(),), live=LiveSettings(token_file=TOKEN, page=place))
