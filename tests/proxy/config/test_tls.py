"""Tests of the TLS settings: allowed and refused combinations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy import cli
from proxy.config.tls import Clients, ListenerTls, UpstreamTls, Version
from proxy.schema.errors import BadSetting
from proxy.schema.keys import keys_of
from proxy.settings.load import LoadedSettings, load
from proxy.settings.risks import CLUSTER_TLS_RISKS, risks
from proxy.settings.show import as_file, listing
from tests.certificates import Authority

EXAMPLE = Path(__file__).parents[3] / "examples" / "tls.toml"
BASIC = '[clusters.main]\nupstream = "broker-1:9092"\nlisten = "127.0.0.1:19092"\n'
ALL = """\
[clusters.main.tls]
certificate = "proxy.pem"
key = "proxy.key"
key_password = " secret "
client_ca = "clients.pem"
clients = "optional"
minimum = "1.3"
[clusters.main.tls.upstream]
on = true
ca = "brokers.pem"
certificate = "upstream.pem"
key = "upstream.key"
key_password = "hidden"
server_name = "kafka.example.org"
minimum = "1.3"
insecure_any_host_will_do = true
anyone_may_use_it = true
"""
SAFE = """\
tls.certificate = "proxy.pem"
[clusters.main.tls.upstream]
ca = "brokers.pem"
"""


def loaded(tmp_path: Path, text: str, **environment: str) -> LoadedSettings:
    (tmp_path / "wiretap.toml").write_text(BASIC + text)
    variables = {f"KAFKA_WIRETAP_CLUSTERS__MAIN__TLS__{name}": value for name, value in environment.items()}
    return load(tmp_path / "wiretap.toml", None, {"HOME": "/home/me"} | variables)


def sides(found: LoadedSettings) -> tuple[ListenerTls | None, UpstreamTls | None]:
    (cluster,) = found.proxy.clusters
    return cluster.tls, cluster.upstream_tls


def wrong(tmp_path: Path, text: str, **environment: str) -> tuple[str, ...]:
    with pytest.raises(BadSetting) as error:
        loaded(tmp_path, text, **environment)
    return error.value.lines


def test_without_a_section_both_sides_speak_plaintext(tmp_path):
    assert sides(loaded(tmp_path, "")) == (None, None)


def test_a_file_says_everything(tmp_path):
    assert sides(loaded(tmp_path, ALL)) == (
        ListenerTls(
            Path("proxy.pem"), Path("proxy.key"), " secret ", Path("clients.pem"), Clients.OPTIONAL, Version.TLS_1_3
        ),
        UpstreamTls(
            True,
            Path("brokers.pem"),
            Path("upstream.pem"),
            Path("upstream.key"),
            "hidden",
            "kafka.example.org",
            Version.TLS_1_3,
            True,
            True,
        ),
    )


def test_every_key_is_in_the_file_that_says_everything(tmp_path):
    given = {one.place for one in loaded(tmp_path, ALL).effective if one.place[2:3] == ("tls",)}
    listener = {("clusters", "main", "tls", *place) for place in keys_of(ListenerTls)}
    assert given == listener | {("clusters", "main", "tls", "upstream", *place) for place in keys_of(UpstreamTls)}


def test_tls_on_one_side_does_not_turn_it_on_on_the_other(tmp_path):
    assert sides(loaded(tmp_path, 'tls.certificate = "a.pem"')) == (ListenerTls(Path("a.pem")), None)
    assert sides(loaded(tmp_path, "[clusters.main.tls.upstream]")) == (None, UpstreamTls())
    assert sides(loaded(tmp_path, "tls.upstream.on = false")) == (None, None)


def test_the_environment_says_the_same(tmp_path):
    found = loaded(tmp_path, "", CERTIFICATE="a.pem", UPSTREAM__ON="true", UPSTREAM__CA="b.pem")
    assert sides(found) == (ListenerTls(Path("a.pem")), UpstreamTls(ca=Path("b.pem")))


def test_a_listener_needs_a_certificate(tmp_path):
    (line,) = wrong(tmp_path, '[clusters.main.tls]\nminimum = "1.3"')
    assert line.startswith("clusters.main.tls.certificate is missing; right would be certificate = ")
    (line,) = wrong(tmp_path, "[clusters.main.tls]")
    assert line.startswith("clusters.main.tls.certificate is missing")


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path):
    (line,) = wrong(tmp_path, 'tls = { certificate = "a.pem", client_cas = "b.pem" }')
    assert line.startswith("clusters.main.tls.client_cas is no setting; right would be clusters.main.tls.client_ca")
    (line,) = wrong(tmp_path, '[clusters.main.tsl]\ncertificate = "a.pem"')
    assert line == "clusters.main.tsl is no setting; right would be [clusters.main.tls]"
    (line,) = wrong(tmp_path, '[clusters.main.tls.upsteam]\nca = "a.pem"\n[clusters.main.tls]\ncertificate = "a"')
    assert line == "clusters.main.tls.upsteam is no setting; right would be [clusters.main.tls.upstream]"


def test_clients_that_may_show_a_certificate_need_a_ca_that_signs_it(tmp_path):
    (line,) = wrong(tmp_path, 'tls = { certificate = "a.pem", clients = "optional" }')
    assert line.startswith("clusters.main.tls.clients is optional, but nobody is asked")


def test_a_key_without_a_certificate_is_refused(tmp_path):
    (line,) = wrong(tmp_path, 'tls.upstream.key = "a.key"')
    assert line.startswith("clusters.main.tls.upstream.key has no certificate; right would be")


@pytest.mark.parametrize(
    "listener",
    [
        "",
        'tls.certificate = "a.pem"\n',
        'tls.certificate = "a.pem"\ntls.client_ca = "b.pem"\ntls.clients = "optional"\n',
    ],
)
def test_a_certificate_that_anyone_may_use_must_be_asked_for_by_name(tmp_path, listener):
    """Otherwise, any client that reaches the listener would act on brokers as the proxy's certificate."""
    shown = listener + 'tls.upstream.certificate = "c.pem"\n'
    (line,) = wrong(tmp_path, shown)
    assert "clusters.main.tls.upstream.anyone_may_use_it = true" in line
    found = loaded(tmp_path, shown + "tls.upstream.anyone_may_use_it = true")
    assert sides(found)[1] == UpstreamTls(certificate=Path("c.pem"), anyone_may_use_it=True)


def test_a_certificate_that_only_known_clients_use_need_not_be(tmp_path):
    text = 'tls = { certificate = "a.pem", client_ca = "b.pem", upstream = { certificate = "c.pem" } }'
    assert sides(loaded(tmp_path, text))[1] == UpstreamTls(certificate=Path("c.pem"))


def test_passwords_of_keys_are_not_shown(tmp_path):
    effective = loaded(tmp_path, ALL).effective
    shown = "\n".join([*listing(effective), *as_file(effective)])
    assert "secret" not in shown
    assert '"hidden"' not in shown
    assert "(hidden)" in shown


# risks

TAKEN = {
    "tls": 'listen = "0.0.0.0:19092"\nadvertise = "p.example.org"\ntls.upstream.on = true',
    "tls.client_ca": 'tls = { certificate = "a.pem", client_ca = "b.pem" }',
    "tls.upstream.insecure_any_host_will_do": "tls.upstream.insecure_any_host_will_do = true",
    "tls.upstream.anyone_may_use_it": 'tls.upstream = { certificate = "c.pem", anyone_may_use_it = true }',
}


def test_settings_that_are_printed_whole_hold_no_password():
    path = Path("proxy.pem")
    said: dict[str, Any] = {"certificate": path, "key": path, "key_password": "the password"}
    for side in (ListenerTls(**said), UpstreamTls(**said)):
        assert side.key_password == "the password"
        assert "the password" not in repr(side)


def test_a_risk_for_each_row_is_tried():
    assert set(TAKEN) == {risk.key for risk in CLUSTER_TLS_RISKS}


@pytest.mark.parametrize("key", TAKEN)
def test_a_risk_is_reported_with_its_key(key, tmp_path):
    basic = BASIC.replace('listen = "127.0.0.1:19092"\n', "") if "listen" in TAKEN[key] else BASIC
    (tmp_path / "wiretap.toml").write_text(basic + TAKEN[key])
    (line,) = risks(load(tmp_path / "wiretap.toml", None, {"HOME": "/home/me"}))
    assert line.startswith(f"clusters.main.{key} ")


def test_settings_without_a_risk_give_no_warning(tmp_path):
    assert list(risks(loaded(tmp_path, SAFE))) == []


def test_the_example_is_right_and_takes_the_risk_that_it_names():
    found = load(EXAMPLE, None, {"HOME": "/home/me"})
    assert None not in sides(found)
    (line,) = risks(found)
    assert line.startswith("clusters.main.tls.client_ca ")


# config check


def check(path: Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli.main, ["config", "check", str(path)], catch_exceptions=False)
    return done.exit_code, done.output


def test_files_that_cannot_be_used_are_wrong_settings(tmp_path):
    path = tmp_path / "wiretap.toml"
    path.write_text(f'{BASIC}tls.certificate = "{tmp_path}/proxy.pem"')
    code, said = check(path)
    assert (code, said.startswith("clusters.main.tls.certificate = ")) == (2, True)
    Authority(tmp_path).signs("proxy")
    code, said = check(path)
    assert (code, said.splitlines()[-1]) == (0, f"{path} is right: main")
