"""Tests of `kafka-wiretap check` without a broker: usage, look-ups, dials, and certificates of a TLS server."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy import cli
from tests.certificates import Authority

HOST = "127.0.0.1"


def check(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["check", *map(str, arguments)], catch_exceptions=False)


def steps(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in check(*arguments, "--json").stdout.splitlines()]


@pytest.fixture
def unused() -> Iterator[int]:
    """A port that nobody listens on, and nobody else gets."""
    with closing(socket.socket()) as sock:
        sock.bind((HOST, 0))
        yield sock.getsockname()[1]


def answer_tls(listener: socket.socket, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        with closing(sock):
            try:
                with context.wrap_socket(sock, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                pass


def close_what_comes(listener: socket.socket, number: int) -> None:
    for _ in range(number):
        sock, _ = listener.accept()
        sock.close()


@pytest.fixture
def server() -> Iterator[Callable[[Path], int]]:
    """Starts a server that shakes hands and then says nothing; returns its port."""
    listeners: list[tuple[socket.socket, threading.Thread]] = []

    def start(certificate: Path) -> int:
        listener = socket.create_server((HOST, 0))
        thread = threading.Thread(target=answer_tls, args=(listener, certificate))
        thread.start()
        listeners.append((listener, thread))
        return int(listener.getsockname()[1])

    yield start
    for listener, thread in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.fixture
def secured(tmp_path: Path) -> Callable[..., Path]:
    """Writes settings for a TLS upstream on loopback."""

    def secured(port: int, ca: Authority, *more: str) -> Path:
        path = tmp_path / "wiretap.toml"
        upstream = [f'ca = "{ca.path}"', *more]
        cluster = f'upstream = "{HOST}:{port}"\nlisten = "{HOST}:0"\nstate = "{tmp_path}/state.json"\n'
        path.write_text("\n".join([f"[clusters.main]\n{cluster}[clusters.main.tls.upstream]", *upstream]) + "\n")
        return path

    return secured


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--upstream", "a:1", "--produce"],
        ["--upstream", "a:1", "--topic", "t"],
    ],
)
def test_wrong_usage_ends_with_2_and_what_would_be_right(arguments):
    result = check(*arguments)
    assert result.exit_code == 2
    assert "right would be" in result.stderr
    assert result.stdout == ""


def test_a_wrong_setting_ends_with_2(tmp_path):
    (tmp_path / "wiretap.toml").write_text('[clusters.main]\nupstream = "a"\n')
    result = check("--config", tmp_path / "wiretap.toml")
    assert result.exit_code == 2
    assert "has no port" in result.stderr


def test_a_login_file_without_a_login_for_everybody_ends_with_2(tmp_path):
    (tmp_path / "login.toml").write_text('[login."User:x"]\nmechanism = "PLAIN"\npassword = "hush"\n')
    result = check("--upstream", "a:1", "--login", tmp_path / "login.toml")
    assert result.exit_code == 2
    assert '[login."*"]' in result.stderr
    assert "hush" not in result.output


def test_a_name_that_nobody_has_and_a_port_without_a_listener_are_wrong(unused):
    result = check("--upstream", f"nobody.invalid:9092,{HOST}:{unused}")
    assert result.exit_code == 1
    dns, tcp, last = result.stdout.splitlines()
    assert dns.startswith("wrong dns")
    assert "nobody.invalid can't be looked up" in dns
    assert tcp.startswith("wrong tcp")
    assert f"{HOST}:{unused} can't be reached: Connection refused; right would be" in tcp
    assert last == "2 of 2 steps wrong"


def test_every_address_of_a_name_is_dialled_and_one_is_enough(monkeypatch):
    look_up = socket.getaddrinfo

    def found(host: bytes, *more: Any) -> list[Any]:
        names = ("127.0.0.77", HOST) if host == b"two.invalid" else (host,)
        return [each for name in names for each in look_up(name, *more)]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        # what connects is closed, and so the question for versions has an end
        closer = threading.Thread(target=close_what_comes, args=(listener, 2))
        closer.start()
        told = steps("--upstream", f"two.invalid:{port}")
        closer.join()
    assert [(step["step"], step["at"], step["outcome"]) for step in told[:3]] == [
        ("dns", f"two.invalid:{port}", "ok"),
        ("tcp", f"{HOST}:{port}", "ok"),
        ("tcp", f"127.0.0.77:{port}", "note"),
    ]


def test_a_certificates_names_and_end_are_told(server, secured, tmp_path):
    ca = Authority(tmp_path)
    end = datetime.now(UTC) + timedelta(days=100, hours=1)
    port = server(ca.signs("broker", "kafka.invalid", HOST, not_after=end).path)
    (tls,) = [step for step in steps("--config", secured(port, ca)) if step["step"] == "tls"]
    assert tls["outcome"] == "ok"
    assert tls["facts"]["names"] == ["kafka.invalid", HOST]
    assert f"ends on {end:%Y-%m-%d}, in 100 days" in tls["said"]


def test_a_certificate_near_its_end_is_noted(server, secured, tmp_path):
    ca = Authority(tmp_path)
    port = server(ca.signs("broker", HOST, not_after=datetime.now(UTC) + timedelta(days=3, hours=1)).path)
    (tls,) = [step for step in steps("--config", secured(port, ca)) if step["step"] == "tls"]
    assert (tls["outcome"], tls["right"]) == ("note", "a new certificate, before this one ends")


def ended(ca: Authority) -> Path:
    now = datetime.now(UTC)
    return ca.signs("broker", HOST, not_before=now - timedelta(days=9), not_after=now - timedelta(days=2)).path


def test_a_certificate_that_has_ended_is_wrong(server, secured, tmp_path):
    ca = Authority(tmp_path)
    (tls,) = [step for step in steps("--config", secured(server(ended(ca)), ca)) if step["step"] == "tls"]
    assert tls["outcome"] == "wrong"
    assert "certificate has expired" in tls["said"]
    assert "a new certificate: the broker's ended on" in tls["right"]


def test_a_certificate_for_another_host_is_wrong_and_its_own_names_are_told(server, secured, tmp_path):
    ca = Authority(tmp_path)
    port = server(ca.signs("broker", "kafka.invalid").path)
    (tls,) = [step for step in steps("--config", secured(port, ca)) if step["step"] == "tls"]
    assert tls["outcome"] == "wrong"
    assert f"a certificate for {HOST}: the broker's is for kafka.invalid" in tls["right"]
    assert 'tls.upstream.server_name = "kafka.invalid"' in tls["right"]
    found = steps("--config", secured(port, ca, 'server_name = "kafka.invalid"'))
    assert {step["step"]: step["outcome"] for step in found}["tls"] == "ok"


def test_a_certificate_of_another_ca_is_wrong(server, secured, tmp_path):
    port = server(Authority(tmp_path, "other").signs("broker", HOST).path)
    (tls,) = [step for step in steps("--config", secured(port, Authority(tmp_path))) if step["step"] == "tls"]
    assert tls["outcome"] == "wrong"
    assert "the broker's CA" in tls["right"]


def test_a_server_that_speaks_tls_where_plaintext_is_set_is_wrong(server, tmp_path):
    port = server(Authority(tmp_path).signs("broker").path)
    found = steps("--upstream", f"{HOST}:{port}")
    assert [(step["step"], step["outcome"]) for step in found] == [("tcp", "ok"), ("versions", "wrong")]
    assert "tls.upstream is not set" in found[1]["right"]


def test_a_broker_that_demands_a_certificate_is_told_with_the_setting(server, secured, tmp_path):
    ca = Authority(tmp_path)
    port = server(ca.signs("broker", HOST).path)
    found = steps("--config", secured(port, ca))
    assert [(step["step"], step["outcome"]) for step in found] == [("tcp", "ok"), ("tls", "ok"), ("versions", "wrong")]
    assert "tls.upstream.certificate" in found[-1]["right"]


def test_the_environment_alone_is_enough(unused, monkeypatch, tmp_path):
    names = {"UPSTREAM": f"{HOST}:{unused}", "LISTEN": f"{HOST}:0", "STATE": str(tmp_path / "state.json")}
    for name, value in names.items():
        monkeypatch.setenv(f"KAFKA_WIRETAP_CLUSTERS__EAST__{name}", value)
    (tcp,) = steps()
    assert (tcp["step"], tcp["outcome"]) == ("tcp", "wrong")
