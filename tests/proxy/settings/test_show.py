import tomllib
from pathlib import Path

import pytest

from proxy.schema.addresses import ADDRESS, HOST, Address
from proxy.schema.keys import Key
from proxy.settings.load import load
from proxy.settings.reader import EffectiveValue
from proxy.settings.show import as_file, in_force, listing
from proxy.settings.sources import SourceKind

EXAMPLE = Path(__file__).parents[3] / "examples" / "wiretap.toml"
SECRET = EffectiveValue(
    ("password",), Key(HOST, "password", "Secret.", "x", secret=True), "hunter2", SourceKind.FILE, "f"
)
UNSET = EffectiveValue(
    ("metrics",), Key(ADDRESS, "metrics", "Page.", "a:1", unset="not served"), None, SourceKind.DEFAULT, ""
)
SET = EffectiveValue(
    ("clusters", "a", "listen"), Key(ADDRESS, "listen", "L.", "a:1"), Address("a", 1), SourceKind.FLAG, "--listen"
)


def test_each_key_is_a_line_with_what_it_comes_from():
    assert list(listing([UNSET, SET])) == [
        "metrics: not served        default",
        'clusters.a.listen = "a:1"  flag --listen',
    ]


@pytest.mark.parametrize("flags", [{}, {"metrics": "127.0.0.1:0", "log_level": "debug"}])
def test_settings_shown_as_a_file_load_to_the_same_settings(flags, tmp_path):
    environment = {"HOME": "/home/me", "KAFKA_WIRETAP_CLUSTERS__BILLING__TIMEOUTS__HALF_CLOSE": "1m"}
    found = load(EXAMPLE, flags, environment)
    (tmp_path / "shown.toml").write_text("\n".join(as_file(found.effective)))
    again = load(tmp_path / "shown.toml", None, {})
    assert (again.proxy, again.capture) == (found.proxy, found.capture)


TWO_WITH_TLS = """
[clusters.a]
upstream = "broker-a:9092"
listen = "127.0.0.1:19092"
tls.certificate = "a.pem"
tls.upstream.ca = "a-ca.pem"
[clusters.b]
upstream = "broker-b:9092"
listen = "127.0.0.1:29092"
tls.certificate = "b.pem"
tls.upstream.ca = "b-ca.pem"
"""


def test_each_of_two_clusters_with_tls_is_one_table_of_the_file(tmp_path):
    (tmp_path / "wiretap.toml").write_text(TWO_WITH_TLS)
    found = load(tmp_path / "wiretap.toml", None, {"HOME": "/home/me"})
    (tmp_path / "shown.toml").write_text("\n".join(as_file(found.effective)))
    assert load(tmp_path / "shown.toml", None, {}).proxy == found.proxy


def test_a_secret_is_not_shown():
    for lines in (listing([SECRET]), as_file([SECRET])):
        text = "\n".join(lines)
        assert "hunter2" not in text
        assert "(hidden)" in text
    assert tomllib.loads("\n".join(as_file([SECRET]))) == {}
    assert [*in_force([SECRET]).values()] == ["(hidden)"]
