"""Tests of SASL logins against the RFCs' vectors, a server written for the tests, and a real broker."""

from __future__ import annotations

import socket
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from hmac import digest

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import decode_request, encode_request, encode_response
from proxy.wire.errors import WireError
from proxy.wire.sasl import TokenKind, read
from recorder.replay.login import sasl as room
from recorder.replay.login.sasl import MECHANISMS, Credentials, Login, LoginRefused, scram
from recorder.replay.plan import OfferedVersions
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads.logins import unsigned_token
from tests.tables import each_row

NEW: OfferedVersions = {17: range(2), 36: range(3)}
OLD: OfferedVersions = {17: range(1)}
SECRET = "hunter2, =ü"
CREDENTIALS = {
    "PLAIN": Credentials("PLAIN", "bob", SECRET),
    "SCRAM-SHA-256": Credentials("SCRAM-SHA-256", "b=o,b", SECRET),
    "SCRAM-SHA-512": Credentials("SCRAM-SHA-512", "bob", SECRET),
    "OAUTHBEARER": Credentials("OAUTHBEARER", token="abc.def.ghi"),
}
every_mechanism = each_row("mechanism", MECHANISMS)
both_forms = each_row("offered", [NEW, OLD], ids=["wrapped", "bare"])


# SCRAM


def test_the_vector_of_rfc_5802() -> None:
    """Section 5, with SHA-1."""
    tokens = scram("sha1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    assert next(tokens) == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    assert tokens.send(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096") == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    with pytest.raises(StopIteration):
        tokens.send(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


RFC_7677 = (
    "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
)


def test_the_vector_of_rfc_7677() -> None:
    """Section 3, with SHA-256."""
    tokens = scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert tokens.send(RFC_7677[1]) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        tokens.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@each_row(
    "final",
    [b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"v=", b"v=AAAA", b"v==", b"e=invalid-proof", b"", b"\xff"],
    ids=["another", "none", "short", "no base64", "error", "empty", "no text"],
)
def test_a_server_that_does_not_know_the_password_is_refused(final: bytes) -> None:
    tokens = scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(tokens)
    tokens.send(RFC_7677[1])
    with pytest.raises(LoginRefused):
        tokens.send(final)


@each_row(
    "first",
    [
        b"r=mine,s=QSXCR+Q6sek8bf92,i=4096",
        b"r=theirs,s=QSXCR+Q6sek8bf92,i=4096",
        b"r=mine+,s=QSXCR+Q6sek8bf9,i=4096",
        b"r=mine+,i=4096,s=QSXCR+Q6sek8bf92",
        b"m=must,r=mine+,s=QSXCR+Q6sek8bf92,i=4096",
        b"r=mine+,s=QSXCR+Q6sek8bf92,i=04096",
        b"r=mine+,s=QSXCR+Q6sek8bf92,i=-1",
        b"e=other-error",
        b"\xff",
    ],
    ids=["no nonce", "another nonce", "salt", "order", "extension", "number", "negative", "error", "no text"],
)
def test_a_bad_first_message_of_a_server_is_refused(first: bytes) -> None:
    tokens = scram("sha256", "user", "pencil", "mine")
    next(tokens)
    with pytest.raises(LoginRefused):
        tokens.send(first)


@pytest.mark.parametrize("iterations", [1, 4095, (1 << 17) + 1, 4_000_000_000, 10**30])
def test_a_server_may_not_ask_for_too_few_or_too_many_iterations(
    iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "pbkdf2_hmac", None)
    tokens = scram("sha256", "user", "pencil", "mine")
    next(tokens)
    with pytest.raises(LoginRefused):
        tokens.send(b"r=mine+,s=QSXCR+Q6sek8bf92,i=%d" % iterations)


def test_every_login_has_a_nonce_of_its_own() -> None:
    def first() -> bytes:
        login = Login(CREDENTIALS["SCRAM-SHA-256"], OLD)
        login.next(None)
        return login.next(encode_response(17, 0, 0, {}))

    assert first() != first()


# whole logins


class Server:
    """The broker's side: it answers frames, and checks their content."""

    def __init__(self, credentials: Credentials, offered: OfferedVersions) -> None:
        self.credentials, self.offered = credentials, offered
        self.versions: list[tuple[int, int]] = []
        self.correlation_ids: list[int] = []
        self._shaken = False
        self._tell = {"PLAIN": self._plain, "OAUTHBEARER": self._bearer}.get(credentials.mechanism, self._scram_first)

    def answer(self, data: bytes) -> bytes:
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        frame = data[4:]
        if self._shaken and 36 not in self.offered:
            return self._tell(frame)
        found = decode_request(frame)
        assert isinstance(found, tuple)
        head, values = found
        assert head.api_version in self.offered[head.api_key]
        self.versions.append((head.api_key, head.api_version))
        self.correlation_ids.append(head.correlation_id)
        if head.api_key == 17:
            assert values == {"mechanism": self.credentials.mechanism}
            self._shaken = True
            return encode_response(17, head.api_version, head.correlation_id, {})
        told = {"auth_bytes": self._tell(values["auth_bytes"]), "session_lifetime_ms": 0}
        return encode_response(36, head.api_version, head.correlation_id, told)

    def _plain(self, token: bytes) -> bytes:
        assert token == f"\0{self.credentials.username}\0{self.credentials.password}".encode()
        return b""

    def _bearer(self, token: bytes) -> bytes:
        assert token == f"n,,\1auth=Bearer {self.credentials.token}\1\1".encode()
        return b""

    def _scram_first(self, token: bytes) -> bytes:
        found = read(self.credentials.mechanism, token, "client")
        assert (found.kind, found.principal) == (TokenKind.CLIENT_FIRST, self.credentials.username)
        self._bare = token.removeprefix(b"n,,")
        self._first = self._bare.replace(self._bare[: self._bare.index(b"r=")], b"") + b"more,s=c2FsdA==,i=4096"
        self._tell = self._scram_final
        return self._first

    def _scram_final(self, token: bytes) -> bytes:
        """The server's part by RFC 5802: it has the stored key, but not the password."""
        name = "sha" + self.credentials.mechanism.removeprefix("SCRAM-SHA-")
        salted = pbkdf2_hmac(name, self.credentials.password.encode(), b"salt", 4096)
        final, _, proof = token.partition(b",p=")
        message = b",".join((self._bare, self._first, final))
        client_key = digest(salted, b"Client Key", name)
        signature = digest(new_hash(name, client_key).digest(), message, name)
        assert proof == b64encode(bytes(one ^ other for one, other in zip(client_key, signature, strict=True)))
        return b"v=" + b64encode(digest(digest(salted, b"Server Key", name), message, name))


def logged_in(login: Login, answer: Callable[[bytes], bytes]) -> None:
    data = login.next(None)
    while data:
        data = login.next(answer(data))
    assert login.is_done


@both_forms
@every_mechanism
def test_a_login_with_every_mechanism(mechanism: str, offered: OfferedVersions) -> None:
    server = Server(CREDENTIALS[mechanism], offered)
    login = Login(CREDENTIALS[mechanism], offered, first_correlation_id=7)
    logged_in(login, server.answer)
    assert set(server.versions) == ({(17, 1), (36, 2)} if offered is NEW else {(17, 0)})
    assert server.correlation_ids == list(range(7, 7 + len(server.versions)))


def test_a_target_that_offers_older_versions_gets_them() -> None:
    server = Server(CREDENTIALS["PLAIN"], {17: range(2), 36: range(1)})
    logged_in(Login(CREDENTIALS["PLAIN"], server.offered), server.answer)
    assert server.versions == [(17, 1), (36, 0)]


@pytest.mark.parametrize("odd", [range(-7, -1), range(5, 9), range(0), range(-(1 << 15), 1 << 15)], ids=str)
def test_a_target_that_offers_odd_versions_is_no_harm(odd: range) -> None:
    data = Login(CREDENTIALS["PLAIN"], {17: range(2), 36: odd}).next(None)
    assert data[4:8] == (b"\0\x11\0\1" if 2 in odd else b"\0\x11\0\0")


@every_mechanism
def test_a_login_says_what_error_the_target_has(mechanism: str) -> None:
    login = Login(CREDENTIALS[mechanism], NEW)
    login.next(None)
    with pytest.raises(LoginRefused, match="UNSUPPORTED_SASL_MECHANISM"):
        login.next(encode_response(17, 1, 0, {"error_code": 33}))
    login = Login(CREDENTIALS[mechanism], NEW)
    login.next(None)
    login.next(encode_response(17, 1, 0, {}))
    with pytest.raises(LoginRefused, match=r"SASL_AUTHENTICATION_FAILED$"):
        login.next(encode_response(36, 2, 1, {"error_code": 58, "error_message": SECRET}))
    with pytest.raises(LoginRefused, match="failed before"):
        login.next(encode_response(36, 2, 1, {}))
    assert not login.is_done


@both_forms
def test_a_refused_token_is_acknowledged_and_then_refused(offered: OfferedVersions) -> None:
    login = Login(CREDENTIALS["OAUTHBEARER"], offered)
    login.next(None)
    login.next(encode_response(17, 0, 0, {}))
    told = b'{"status":"invalid_token"}'
    data = login.next(encode_response(36, 2, 1, {"auth_bytes": told}) if offered is NEW else told)
    # bare, or as compact bytes before an empty tag buffer
    assert data.endswith(b"\0\0\0\x01\x01" if offered is OLD else b"\x02\x01\0")
    with pytest.raises(LoginRefused):
        login.next(encode_response(36, 2, 2, {}) if offered is NEW else b"")


def test_an_answer_to_another_request_is_refused() -> None:
    login = Login(CREDENTIALS["PLAIN"], NEW)
    login.next(None)
    with pytest.raises(LoginRefused, match="another request"):
        login.next(encode_response(17, 1, 99, {}))


def test_nothing_comes_after_the_end() -> None:
    server = Server(CREDENTIALS["PLAIN"], NEW)
    login = Login(CREDENTIALS["PLAIN"], NEW)
    logged_in(login, server.answer)
    with pytest.raises(LoginRefused):
        login.next(b"")


@given(st.sampled_from(MECHANISMS), st.sampled_from([NEW, OLD]), st.lists(st.binary(max_size=60), max_size=4))
def test_hostile_answers_raise_wire_errors_alone(mechanism: str, offered: OfferedVersions, frames: list[bytes]) -> None:
    login = Login(CREDENTIALS[mechanism], offered)
    login.next(None)
    login.next(encode_response(17, 0, 0, {}))
    for number, frame in enumerate(frames, 1):
        try:
            login.next(frame if offered is OLD else encode_response(36, 2, number, {"auth_bytes": frame}))
        except WireError:
            continue


# credentials


@each_row(
    "fields",
    [
        ("GSSAPI", "a", "b", ""),
        ("PLAIN", "", "b", ""),
        ("PLAIN", "a", "", ""),
        ("PLAIN", "a\0b", "c", ""),
        ("SCRAM-SHA-256", "a", "", "token"),
        ("OAUTHBEARER", "a", "b", ""),
        ("OAUTHBEARER", "", "", "secret\x01auth=x"),
    ],
    ids=["mechanism", "username", "password", "nul", "scram", "token", "separator"],
)
def test_credentials_that_cannot_be_are_refused_without_their_secrets(fields: tuple[str, str, str, str]) -> None:
    with pytest.raises(ValueError, match=r"mechanism is|needs a") as caught:
        Credentials(*fields)
    assert not any(secret and len(secret) > 1 and secret in str(caught.value) for secret in fields[2:])


@every_mechanism
def test_no_secret_is_in_a_repr(mechanism: str) -> None:
    credentials = CREDENTIALS[mechanism]
    for shown in (repr(credentials), str(credentials), repr(Login(credentials, NEW))):
        assert SECRET not in shown
        assert "abc.def" not in shown


# a real broker

SCRAM_USER = "b=o,b"


@pytest.fixture(scope="module")
def kafka_strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node with every mechanism, which requires clients to log in again: once an hour, so not within a test."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.login.oauthbearer.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="b";',
        "connections.max.reauth.ms": 3_600_000,
    }
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("kafka") / "logins", settings=settings) as cluster:
        _make_user(cluster)
        yield cluster


def _make_user(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    mechanisms = {ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512}
    for mechanism in mechanisms:
        made = UserScramCredentialUpsertion(SCRAM_USER, ScramCredentialInfo(mechanism, 4096), SECRET.encode())
        for future in admin.alter_user_scram_credentials([made]).values():
            future.result(PATIENCE)

    def is_known() -> bool:
        everybody = admin.describe_user_scram_credentials()
        assert isinstance(everybody, Future)
        known = everybody.result(PATIENCE).get(SCRAM_USER)
        return known is not None and {info.mechanism for info in known.scram_credential_infos} == mechanisms

    wait_for(is_known, "the user to be known")


class Connection:
    """A blocking socket to the listener with SASL."""

    def __init__(self, cluster: KafkaCluster) -> None:
        port = cluster.nodes[1].behind_login
        self.socket = socket.create_connection((port.host, port.port), timeout=PATIENCE)

    def ask(self, data: bytes) -> bytes:
        self.socket.sendall(data)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            assert piece, "the broker closed the connection"
            found += piece
        return found

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def connection(kafka_strict: KafkaCluster) -> Iterator[Connection]:
    made = Connection(kafka_strict)
    yield made
    made.close()


REAL = {
    "PLAIN": Credentials("PLAIN", USER, PASSWORD),
    "SCRAM-SHA-256": Credentials("SCRAM-SHA-256", SCRAM_USER, SECRET),
    "SCRAM-SHA-512": Credentials("SCRAM-SHA-512", SCRAM_USER, SECRET),
}


def real(mechanism: str) -> Credentials:
    return REAL.get(mechanism) or Credentials("OAUTHBEARER", token=unsigned_token())


def expired_token() -> str:
    """A JWT without a signature (RFC 7519), which expired in 1970."""
    parts = (b'{"alg":"none"}', b'{"sub":"b","iat":0,"exp":1}')
    return ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])


# each login takes a connection of its own
@pytest.mark.real
@pytest.mark.parametrize("offered", [NEW, OLD], ids=["wrapped", "bare"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_broker_takes_the_login_and_then_requests(
    connection: Connection, mechanism: str, offered: OfferedVersions
) -> None:
    login = Login(real(mechanism), offered)
    logged_in(login, connection.ask)
    metadata = encode_request(3, 4, 99, "me", {"topics": []})
    assert connection.ask(struct.pack(">i", len(metadata)) + metadata)[:4] == struct.pack(">i", 99)


@pytest.mark.real
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_broker_refuses_a_wrong_secret(connection: Connection, mechanism: str) -> None:
    wrong = Credentials(mechanism, USER, "no-such-password", expired_token())
    with pytest.raises(LoginRefused) as caught:
        logged_in(Login(wrong, NEW), connection.ask)
    assert "no-such-password" not in str(caught.value)
