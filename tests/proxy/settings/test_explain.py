"""Tests of `kafka-wiretap config explain`."""

import pytest
from click.testing import CliRunner, Result

from proxy import cli
from proxy.settings.explain import explain
from proxy.settings.reference import described_keys
from proxy.settings.sources import variable_of
from tests.tables import each_row

EVERY = [*described_keys()]


def config_explain(key: str) -> Result:
    return CliRunner().invoke(cli.main, ["config", "explain", key], catch_exceptions=False)


@each_row("key", EVERY, ids=[".".join(key.path) for key in EVERY])
def test_every_key_is_explained_by_its_path_and_its_variable(key):
    for name in (".".join(key.path), variable_of(key.path)):
        text = "\n".join(explain(name)) if '"' not in name and "*" not in name else key.field.key.text
        assert key.field.key.text in text


@pytest.mark.parametrize(
    "name",
    [
        "timeouts.tls",
        "clusters.west.timeouts.tls",
        "clusters.NAME.timeouts.tls",
        "KAFKA_WIRETAP_CLUSTERS__MAIN__TIMEOUTS__TLS",
    ],
)
def test_a_key_is_found_by_each_of_its_names(name):
    result = config_explain(name)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "clusters.NAME.timeouts.tls",
        "    How long a TLS handshake may take, with clients and with brokers.",
        '  value        seconds, or text such as "500ms", "10s", "2m"',
        '  default      "10s"',
        '  example      timeouts.tls = "10s"',
        "  section      [clusters.NAME]",
        "  environment  KAFKA_WIRETAP_CLUSTERS__MAIN__TIMEOUTS__TLS",
        "  flag         none",
    ]


def test_a_flag_is_explained():
    assert config_explain("--node").stdout.splitlines()[0] == "clusters.NAME.nodes.N"
    assert "  flag         --drain" in config_explain("--drain").stdout.splitlines()


def test_the_end_of_several_keys_explains_all_of_them():
    heads = [line for line in config_explain("certificate").stdout.splitlines() if line and line[0] != " "]
    assert heads == ["clusters.NAME.tls.certificate", "clusters.NAME.tls.upstream.certificate"]


def test_a_name_that_no_key_has_ends_with_2_and_the_nearest():
    result = config_explain("tmeouts.idle")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean timeouts.idle?" in result.stderr


def test_a_pattern_in_a_name_has_no_variable():
    assert "  environment  none" in explain("topics")
