"""Tests of TLS contexts from files that are missing, wrong or changed."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from proxy.config.tls import ListenerTls, UpstreamTls, Version
from proxy.schema.errors import BadSetting
from proxy.tls.contexts import Credentials, credentials
from tests.certificates import Authority
from tests.proxy.net.relays import settings

MINIMA = {Version.TLS_1_2: ssl.TLSVersion.TLSv1_2, Version.TLS_1_3: ssl.TLSVersion.TLSv1_3}


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def listener(tls: ListenerTls) -> Credentials:
    made = credentials(settings(tls=tls, name="orders")).listener
    assert made is not None
    return made


def looked_at(made: Credentials) -> ssl.SSLContext:
    """Returns the context of a new connection."""
    made.refresh()
    return made.context


def refused(**sides: Any) -> str:
    with pytest.raises(BadSetting) as error:
        credentials(settings(name="orders", **sides))
    assert error.value.cluster == "orders"
    (line,) = error.value.lines
    return line


def split(ca: Authority, folder: Path, name: str, password: bytes | None = None) -> tuple[Path, Path]:
    """Writes a certificate and its key into files of their own."""
    both = ca.signs(name).path.read_bytes()
    key = serialization.load_pem_private_key(both, None)
    kept = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    files = folder / f"{name}.crt", folder / f"{name}.key"
    files[0].write_bytes(both[both.index(b"-----BEGIN CERT") :])
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kept))
    return files


def test_a_cluster_without_tls_has_no_credentials():
    assert credentials(settings()) == (None, None)


def test_a_missing_certificate_is_named_with_its_setting(tmp_path):
    path = tmp_path / "none.pem"
    assert refused(tls=ListenerTls(path)) == (
        f'clusters.orders.tls.certificate = "{path}" can\'t be used (No such file or directory); right would be '
        'a PEM file of that kind, clusters.orders.tls.certificate = "/etc/wiretap/certificate.pem"'
    )


def test_a_bad_tls_file_is_named_with_its_setting(tmp_path, ca):
    path, good = tmp_path / "none.pem", ca.signs("good").path
    assert "orders.tls.key = " in refused(tls=ListenerTls(good, path))
    assert "orders.tls.client_ca = " in refused(tls=ListenerTls(good, client_ca=path))
    assert "orders.tls.upstream.ca = " in refused(upstream_tls=UpstreamTls(ca=path))
    shown = UpstreamTls(certificate=path, anyone_may_use_it=True)
    assert "orders.tls.upstream.certificate = " in refused(upstream_tls=shown)


def test_a_certificate_in_a_pipe_is_refused_without_waiting(tmp_path, ca):
    """A pipe can't be read twice, and may never get a writer."""
    pipe, good = tmp_path / "pipe.pem", ca.signs("good").path
    os.mkfifo(pipe)
    assert f'orders.tls.certificate = "{pipe}" can\'t be used (it is no regular file)' in refused(tls=ListenerTls(pipe))
    assert "orders.tls.key = " in refused(tls=ListenerTls(good, pipe))
    assert "orders.tls.client_ca = " in refused(tls=ListenerTls(good, client_ca=pipe))
    assert "orders.tls.upstream.ca = " in refused(upstream_tls=UpstreamTls(ca=Path("/dev/null")))


def test_a_file_that_becomes_a_pipe_can_not_be_used_and_the_old_one_stays(ca, caplog):
    pem = ca.signs("one").path
    made = listener(ListenerTls(pem))
    before = looked_at(made)
    pem.unlink()
    os.mkfifo(pem)
    assert looked_at(made) is before
    assert "those from before stay" in caplog.text


def test_all_files_that_are_missing_are_named_at_once(tmp_path, ca):
    path = tmp_path / "none.pem"
    sides = settings(tls=ListenerTls(path, path, client_ca=path), upstream_tls=UpstreamTls(ca=path), name="orders")
    with pytest.raises(BadSetting) as error:
        credentials(sides)
    assert [line.partition(" = ")[0].removeprefix("clusters.orders.tls.") for line in error.value.lines] == [
        "certificate",
        "key",
        "client_ca",
        "upstream.ca",
    ]


def test_files_that_are_no_pem_are_refused(tmp_path, ca):
    path = tmp_path / "text.pem"
    path.write_text("not a certificate")
    assert "can't be used" in refused(tls=ListenerTls(path))
    assert "no certificate or crl found" in refused(upstream_tls=UpstreamTls(ca=path))


def test_the_broken_one_of_a_certificate_and_its_key_is_named(tmp_path, ca):
    certificate, key = split(ca, tmp_path, "one")
    broken = tmp_path / "broken.pem"
    broken.write_bytes(certificate.read_bytes()[:300])
    assert "orders.tls.certificate = " in refused(tls=ListenerTls(broken, key))
    assert "orders.tls.key = " in refused(tls=ListenerTls(certificate, broken))


def test_a_key_of_another_certificate_is_refused(tmp_path, ca):
    certificate, _ = split(ca, tmp_path, "one")
    _, key = split(ca, tmp_path, "other")
    assert "key values mismatch" in refused(tls=ListenerTls(certificate, key))


def test_an_encrypted_key_opens_with_its_password_without_a_prompt(tmp_path, ca):
    certificate, key = split(ca, tmp_path, "one", b"the password")
    assert "it is encrypted, and key_password is not set" in refused(tls=ListenerTls(certificate, key))
    assert refused(tls=ListenerTls(certificate, key, "another")) == (
        f"clusters.orders.tls.key_password does not open {key}; right would be the one that the key was encrypted "
        'with, clusters.orders.tls.key_password = "..."'
    )
    _, other = split(ca, tmp_path, "other", b"the password")
    assert "key values mismatch" in refused(tls=ListenerTls(certificate, other, "the password"))
    assert listener(ListenerTls(certificate, key, "the password"))


@pytest.mark.parametrize("minimum", list(Version))
def test_the_oldest_version_is_the_one_that_was_set(ca, minimum):
    tls, upstream = ListenerTls(ca.signs("one").path, minimum=minimum), UpstreamTls(ca.path, minimum=minimum)
    for side in credentials(settings(tls=tls, upstream_tls=upstream)):
        assert side is not None
        assert side.context.minimum_version is MINIMA[minimum]


def test_brokers_are_checked_by_the_systems_cas_where_none_is_named():
    made = credentials(settings(upstream_tls=UpstreamTls())).upstream
    assert made is not None
    context = looked_at(made)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_files_that_stay_are_read_once(ca):
    made = listener(ListenerTls(ca.signs("one").path, client_ca=ca.path))
    assert looked_at(made) is looked_at(made)


def test_a_changed_file_makes_a_new_context_and_is_logged(tmp_path, ca, caplog):
    caplog.set_level(logging.INFO)
    certificate, key = split(ca, tmp_path, "one")
    made = listener(ListenerTls(certificate, key, client_ca=ca.path))
    before = looked_at(made)
    split(ca, tmp_path, "one")
    after = looked_at(made)
    assert after is not before
    assert looked_at(made) is after
    (record,) = caplog.records
    assert (record.message, record.keys["of"]) == ("certificates have changed", "clusters.orders.tls")


def test_a_file_replaced_within_a_tick_of_the_clock_is_seen_by_its_inode(tmp_path, ca):
    pem = ca.signs("one").path
    made = listener(ListenerTls(pem))
    before, at = looked_at(made), pem.stat().st_mtime_ns
    ca.signs("one")
    os.utime(pem, ns=(at, at))
    assert looked_at(made) is not before


def test_a_certificate_that_became_unusable_is_logged_once_and_the_old_one_stays(ca, caplog):
    pem = ca.signs("one").path
    made = listener(ListenerTls(pem))
    before = looked_at(made)
    pem.write_text("half a certifi")
    assert [looked_at(made), looked_at(made)] == [before, before]
    (record,) = caplog.records
    assert record.message == "changed certificates can't be used: those from before stay"
    assert record.keys["of"] == "clusters.orders.tls"
    pem.unlink()
    assert looked_at(made) is before
    ca.signs("one")
    assert looked_at(made) is not before


def test_a_key_that_comes_after_its_certificate_is_waited_for(tmp_path, ca):
    certificate, key = split(ca, tmp_path, "one")
    made = listener(ListenerTls(certificate, key))
    before = looked_at(made)
    new_certificate, new_key = split(ca, tmp_path, "two")
    new_certificate.replace(certificate)
    assert looked_at(made) is before
    new_key.replace(key)
    assert looked_at(made) is not before
