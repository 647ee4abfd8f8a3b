"""Tests of login tokens: their kind and principal; no secret is ever shown."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import ScramClient

from proxy.wire import apis, catalog, sasl
from proxy.wire.keys import SASL_HANDSHAKE
from proxy.wire.sasl import Sender, Token, TokenKind
from tests.sweeps import examples
from tests.tables import each_row

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"]
SENDERS: list[Sender] = ["client", "server"]
SCRAM_MECHANISMS = st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"])
# texts that no shown text contains by chance
SECRETS = st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=12, max_size=40).map(lambda text: f"Secret{text}")
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)

RFC_7677 = [
    (TokenKind.CLIENT_FIRST, "client", "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", "n,,n=user,r=***"),
    (
        TokenKind.SERVER_FIRST,
        "server",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "r=***,s=***,i=4096",
    ),
    (
        TokenKind.CLIENT_FINAL,
        "client",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "c=***,r=***,p=***",
    ),
    (TokenKind.SERVER_FINAL, "server", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "v=***"),
]
RFC_5802 = [
    (TokenKind.CLIENT_FIRST, "client", "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", "n,,n=user,r=***"),
    (
        TokenKind.SERVER_FIRST,
        "server",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "r=***,s=***,i=4096",
    ),
    (
        TokenKind.CLIENT_FINAL,
        "client",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "c=***,r=***,p=***",
    ),
    (TokenKind.SERVER_FINAL, "server", "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", "v=***"),
]


@each_row("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", None])
@each_row(("kind", "sender", "token", "text"), RFC_7677 + RFC_5802)
def test_the_exchanges_in_scrams_documents_are_read(
    mechanism: str | None, kind: TokenKind, sender: Sender, token: str, text: str
) -> None:
    name = "user" if kind is TokenKind.CLIENT_FIRST else None
    assert sasl.read(mechanism, token.encode(), sender) == Token(kind, mechanism, text, name)


@pytest.mark.parametrize("mechanism", ["PLAIN", None])
@pytest.mark.parametrize(
    ("token", "principal", "authzid", "text"),
    [
        (b"\0tim\0tanstaaftanstaaf", "tim", None, "authcid=tim password=***"),
        (b"Ursel\0Kurt\0xipj3plmq", "Kurt", "Ursel", "authzid=Ursel authcid=Kurt password=***"),
    ],
)
def test_the_examples_in_plains_document_are_read(
    mechanism: str | None, token: bytes, principal: str, authzid: str | None, text: str
) -> None:
    assert sasl.read(mechanism, token, "client") == Token(TokenKind.PLAIN, "PLAIN", text, principal, authzid)


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", None])
def test_the_exchange_in_oauthbearers_document_is_read(mechanism: str | None) -> None:
    token = (
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01"
        b"auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
    )
    shown = "n,a=user@example.com, host=server.example.com port=143 auth=***"
    assert sasl.read(mechanism, token, "client") == Token(
        TokenKind.BEARER, "OAUTHBEARER", shown, None, "user@example.com"
    )
    error = (
        b'{"status":"invalid_token","scope":"example_scope",'
        b'"openid-configuration":"https://example.com/.well-known/openid-configuration"}'
    )
    url = "https://example.com/.well-known/openid-configuration"
    assert sasl.read(mechanism, error, "server") == Token(
        TokenKind.BEARER_ERROR, "OAUTHBEARER", f"status=invalid_token scope=example_scope openid-configuration={url}"
    )
    assert sasl.read(mechanism, b"\x01", "client").kind is TokenKind.BEARER_END


def jwt(claims: Any) -> str:
    head, body = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "x"}, claims))
    return f"{head}.{body}.c2lnbmF0dXJl"


@each_row(
    ("auth", "subject"),
    [
        (f"Bearer {jwt({'sub': 'alice', 'iss': 'x'})}", "alice"),
        (f"bearer  {jwt({'sub': 'alice'})}", "alice"),
        (f"Basic {jwt({'sub': 'alice'})}", None),
        (f"Bearer {jwt({'sub': 7})}", None),
        (f"Bearer {jwt({})}", None),
        (f"Bearer {jwt(['sub'])}", None),
        ("Bearer " + jwt({"sub": "a\x1bb"}), None),
        ("Bearer a.!!.c", None),
        ("Bearer a.é.c", None),
        (f"Bearer a.{urlsafe_b64encode(b'[' * 200_000).decode()}.c", None),
        ("Bearer opaque", None),
        ("", None),
    ],
)
def test_a_bearer_tokens_owner_is_its_subject_if_it_is_a_jwt(auth: str, subject: str | None) -> None:
    found = sasl.read("OAUTHBEARER", f"n,,\x01auth={auth}\x01\x01".encode(), "client")
    assert (found.kind, found.principal, found.text) == (TokenKind.BEARER, subject, "n,, auth=***")


@each_row(
    ("mechanism", "token", "name"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"admin\0alice\0secret", "alice"),
        ("PLAIN", b"alice secret", None),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"\0al\x1bice\0secret", None),
        ("SCRAM-SHA-256", b"n,,n=bob,r=nonce", "bob"),
        ("SCRAM-SHA-512", b"n,a=x,n=b=2Cb=3D,r=nonce", "b,b="),
        ("SCRAM-SHA-512", b"n,,n=b=3D2C,r=nonce", "b=2C"),
        ("SCRAM-SHA-512", b"n,,n=b=2c,r=nonce", None),
        ("SCRAM-SHA-256", b"c=biws,r=nonce,p=proof", None),
        ("SCRAM-SHA-256", b"n,,n=bob,r=nonce,n=eve", None),
        ("SCRAM-SHA-256", b"n,,n=tokens-own-id,r=nonce,tokenauth=true", None),
        ("GSSAPI", b"\0ticket\0bytes", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x\x01\x01", None),
        (None, b"\0alice\0secret", None),
    ],
)
def test_a_name_is_shown_only_where_the_mechanism_has_one(
    mechanism: str | None, token: bytes, name: str | None
) -> None:
    assert sasl.principal(mechanism, token) == name


@each_row(
    ("mechanism", "token", "accepted"),
    [
        ("PLAIN", b"", True),
        ("PLAIN", b"whatever a broker adds", True),
        ("SCRAM-SHA-256", b"r=nonce,s=salt,i=4096", False),
        ("SCRAM-SHA-512", b"v=verifier", True),
        ("SCRAM-SHA-512", b"e=invalid-proof", False),
        ("OAUTHBEARER", b"", True),
        ("OAUTHBEARER", b'{"status":"invalid_token"}', False),
        ("GSSAPI", b"", False),
        (None, b"", False),
    ],
    ids=range(9),
)
def test_a_servers_token_shows_whether_it_accepts_refuses_or_continues(
    mechanism: str | None, token: bytes, accepted: bool
) -> None:
    assert sasl.is_accepted(mechanism, token) is accepted


def test_a_delegation_tokens_id_is_as_secret_as_a_password() -> None:
    found = sasl.read("SCRAM-SHA-256", b"n,,n=the-id,r=nonce,tokenauth=true", "client")
    assert found == Token(TokenKind.CLIENT_FIRST, "SCRAM-SHA-256", "n,,n=***,r=***,tokenauth=true")


def test_a_channel_binding_and_an_authorization_identity_are_shown() -> None:
    found = sasl.read("SCRAM-SHA-256", b"p=tls-unique,a=b=2Coss,n=bob,r=nonce", "client")
    assert found == Token(TokenKind.CLIENT_FIRST, "SCRAM-SHA-256", "p=tls-unique,a=b=2Coss,n=bob,r=***", "bob", "b,oss")


def test_a_servers_refusal_is_shown() -> None:
    found = sasl.read("SCRAM-SHA-256", b"e=unknown-user", "server")
    assert (found.kind, found.text) == (TokenKind.SERVER_FINAL, "e=unknown-user")


@each_row("sender", SENDERS)
@each_row("mechanism", [*MECHANISMS, None])
def test_an_empty_token_is_one_of_any_mechanism(mechanism: str | None, sender: Sender) -> None:
    assert sasl.read(mechanism, memoryview(b""), sender) == Token(TokenKind.EMPTY, mechanism, "empty")


@pytest.mark.parametrize("sender", SENDERS)
def test_gssapi_is_opaque_and_recognised_by_its_first_byte(sender: Sender) -> None:
    token = b"\x60\x82\x02\0\0rest"
    expected = Token(TokenKind.GSSAPI, "GSSAPI", "9 bytes")
    assert sasl.read(None, token, sender) == sasl.read("GSSAPI", token, sender) == expected
    assert sasl.read("GSSAPI", b"\x05\x04\xff", sender).kind is TokenKind.GSSAPI


@each_row(
    "token",
    [
        b"\0alice\0",
        b"\0\0password",
        b"\0al\tice\0password",
        b"\xff\0alice\0password",
        b"\0alice\0pass\x01word",
        b"n,,n=bob",
        b"c=biws",
        b'{"a": 1}',
        b"any bytes",
        b"********",
        bytes(20),
    ],
)
def test_an_ambiguous_token_is_opaque_without_a_mechanism(token: bytes) -> None:
    for sender in SENDERS:
        assert sasl.read(None, token, sender) == Token(TokenKind.OPAQUE, None, f"{len(token)} bytes")


def test_a_token_that_its_mechanism_does_not_have_is_opaque() -> None:
    assert sasl.read("PLAIN", b"alice secret", "client") == Token(TokenKind.OPAQUE, "PLAIN", "12 bytes")
    assert sasl.read("AWS_MSK_IAM", b'{"signature": "x"}', "client").text == "18 bytes"
    assert sasl.read("OAUTHBEARER", b"n,,\x01x=y\x01\x01", "client").kind is TokenKind.OPAQUE


def test_the_mechanism_stands_in_the_handshake() -> None:
    for version in apis.versions(SASL_HANDSHAKE):
        frame = catalog.encode_request(SASL_HANDSHAKE, version, 7, "c", {"mechanism": "PLAIN"})
        assert sasl.handshake_mechanism(frame) == "PLAIN"
        assert sasl.handshake_mechanism(frame[:-2]) is None
    assert sasl.handshake_mechanism(b"\0\x11\0\x63" + bytes(6)) is None


@examples(400)
@given(st.none() | st.sampled_from(MECHANISMS), st.sampled_from(SENDERS), st.binary(max_size=60))
def test_any_bytes_are_a_token(mechanism: str | None, sender: Sender, data: bytes) -> None:
    found = sasl.read(mechanism, data, sender)
    assert mechanism is None or found.mechanism == mechanism
    assert found.text.isprintable()


def tokens_with(secret: str, name: str) -> list[tuple[str, Sender, bytes]]:
    """Returns a token of each mechanism with `secret` wherever it has one."""
    scram_name = name.replace("=", "=3D").replace(",", "=2C")
    claims = jwt({"sub": name, "email": secret})
    return [
        ("PLAIN", "client", f"\0{name}\0{secret}".encode()),
        ("SCRAM-SHA-256", "client", f"n,a={scram_name},n={scram_name},r={secret},more={secret}".encode()),
        ("SCRAM-SHA-512", "client", f"n,,n={secret},r={secret},tokenauth=true".encode()),
        ("SCRAM-SHA-512", "client", f"c={secret},r={secret},p={secret},x={secret}".encode()),
        ("SCRAM-SHA-512", "server", f"r={secret},s={secret},i=4096,x={secret}".encode()),
        ("SCRAM-SHA-512", "server", f"v={secret},x={secret}".encode()),
        ("OAUTHBEARER", "client", f"n,,\x01auth=Bearer {secret}\x01x={secret}\x01\x01".encode()),
        ("OAUTHBEARER", "client", f"n,,\x01auth=Bearer {claims}{secret}\x01\x01".encode()),
        ("OAUTHBEARER", "server", json.dumps({"status": "invalid", "detail": secret}).encode()),
        ("GSSAPI", "client", f"\x60{secret}".encode()),
        ("AWS_MSK_IAM", "client", json.dumps({"signature": secret}).encode()),
    ]


@given(SECRETS, NAMES)
def test_no_secret_is_in_what_is_shown(secret: str, name: str) -> None:
    for mechanism, sender, token in tokens_with(secret, name):
        for asked in (mechanism, None, *MECHANISMS):
            assert secret not in repr(sasl.read(asked, token, sender)), (mechanism, asked)


@given(SCRAM_MECHANISMS, NAMES, SECRETS, st.booleans())
def test_scram_tokens_of_other_clients_are_read(mechanism: str, name: str, secret: str, aio: bool) -> None:
    """aiokafka escapes names. kafka-python does not, so it gets only names that need no escape."""
    if aio:
        client: Any = ScramAuthenticator(
            loop=None, sasl_plain_password=secret, sasl_plain_username=name, sasl_mechanism=mechanism
        )
    else:
        name = name.replace("=", "_").replace(",", "_")
        client = ScramClient(name, secret, mechanism)
    first = as_bytes(client.first_message())
    assert_is(sasl.read(mechanism, first, "client"), TokenKind.CLIENT_FIRST, name)
    nonce = first.partition(b",r=")[2]
    answer = b"r=" + nonce + b"more,s=" + b64encode(b"salt") + b",i=1"
    client.process_server_first_message(answer if isinstance(client, ScramClient) else answer.decode())
    assert_is(sasl.read(mechanism, answer, "server"), TokenKind.SERVER_FIRST, None)
    final = sasl.read(mechanism, as_bytes(client.final_message()), "client")
    assert_is(final, TokenKind.CLIENT_FINAL, None)
    assert nonce.decode() not in repr(final)


def as_bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def assert_is(token: Token, kind: TokenKind, principal: str | None) -> None:
    assert (token.kind, token.principal) == (kind, principal)


@given(NAMES, SECRETS)
def test_kafka_pythons_plain_and_oauthbearer_tokens_are_read(name: str, secret: str) -> None:
    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return jwt({"sub": name, "secret": secret})

        def extensions(self) -> dict[str, str]:
            return {"traceId": secret}

    plain = SaslMechanismPlain(sasl_plain_username=name, sasl_plain_password=secret).auth_bytes()
    found = sasl.read("PLAIN", plain, "client")
    assert (found.kind, found.principal, found.authzid) == (TokenKind.PLAIN, name, name)
    bearer = SaslMechanismOAuth(sasl_oauth_token_provider=Provider()).auth_bytes()
    found = sasl.read("OAUTHBEARER", bearer, "client")
    assert (found.kind, found.principal, found.text) == (TokenKind.BEARER, name, "n,, auth=*** traceId=***")
