"""SASL tokens: the type of each, the user who logs in, and a text without secrets.

Knows the mechanisms' messages, not where a login begins or ends (`proxy.conversation` does). No value of this module
holds a secret. Its texts show only the attributes listed here as harmless; everything else that a peer writes is
masked. Nothing is verified: a name is what the client claims. Sources: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM),
KIP-48 (SCRAM with delegation tokens), RFC 7628 (OAUTHBEARER), RFC 2743 (GSSAPI).

    mechanism      the client sends               the server sends
    PLAIN          authzid NUL authcid NUL        an empty token
                   password
    SCRAM-*        client-first, client-final     server-first, server-final
    OAUTHBEARER    the token; 0x01 after a        an empty token, or JSON with the error
                   refusal
    GSSAPI         opaque                         opaque
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal, NamedTuple

from proxy.wire.catalog import codec
from proxy.wire.errors import WireError, in_bytes
from proxy.wire.headers import request_head
from proxy.wire.keys import SASL_HANDSHAKE
from proxy.wire.primitives import Buffer

# a GSSAPI token begins with the ASN.1 tag of its mechanism header (RFC 2743, 3.1): no api key has this high byte
RAW_GSSAPI_TAG = 0x60
MASK = "***"

Sender = Literal["client", "server"]


class TokenKind(Enum):
    """The type of a token."""

    PLAIN = "PLAIN message"
    CLIENT_FIRST = "SCRAM client-first"
    SERVER_FIRST = "SCRAM server-first"
    CLIENT_FINAL = "SCRAM client-final"
    SERVER_FINAL = "SCRAM server-final"
    BEARER = "OAUTHBEARER token"
    BEARER_ERROR = "OAUTHBEARER error"
    BEARER_END = "OAUTHBEARER end of a refused login"
    GSSAPI = "GSSAPI token"
    EMPTY = "empty token"
    OPAQUE = "opaque token"


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secrets.

    `mechanism` is the given one, or else the recognised one, or None. `principal` is the owner of the credentials:
    PLAIN's authcid, SCRAM's user name, the claim `sub` of an OAUTHBEARER token that is a JWT. `authzid` is the user
    that the client wants to act as. Both are None if the token has none that can be printed.
    """

    kind: TokenKind
    mechanism: str | None
    text: str
    principal: str | None = None
    authzid: str | None = None


def read(mechanism: str | None, token: Buffer, sender: Sender) -> Token:
    """Reads the token that `sender` sent. If `mechanism` is None, the token's shape decides; if in doubt, it is OPAQUE.

    Errors: none, whatever the bytes are.
    """
    data = bytes(token)
    if not data:
        return Token(TokenKind.EMPTY, mechanism, "empty")
    for reader in _readers(mechanism, sender):
        if found := reader.read(data):
            return replace(found, mechanism=mechanism or reader.mechanism)
    return Token(TokenKind.OPAQUE, mechanism, in_bytes(len(data)))


def principal(mechanism: str | None, token: Buffer) -> str | None:
    """The name in a client's token; None if the mechanism is unknown or hides it."""
    return read(mechanism, token, "client").principal if mechanism else None


def is_accepted(mechanism: str | None, token: Buffer) -> bool:
    """True if this token, which the server sent without an error, ends the login successfully.

    False for a mechanism whose tokens don't show the success.
    """
    data = bytes(token)
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        return data.startswith(b"v=")
    return mechanism == "PLAIN" or (mechanism == "OAUTHBEARER" and not data)


def handshake_mechanism(frame: Buffer) -> str | None:
    """The mechanism that a SaslHandshake request names; None for a frame that can't be read."""
    try:
        head = request_head(frame)
        found = codec("request", SASL_HANDSHAKE, head.api_version)
        return str(found.decode(frame, head.body)[0]["mechanism"]) if found else None
    except WireError:
        return None


class _Reader(NamedTuple):
    """Reads one side's tokens of one family. `read` is for a known mechanism, `recognise` for an unknown one.

    `mechanism`: the one that the token's shape shows; None for SCRAM, because its tokens don't show the hash.
    """

    family: str
    sender: Sender
    mechanism: str | None
    read: Callable[[bytes], Token | None]
    recognise: Callable[[bytes], Token | None]


def _readers(mechanism: str | None, sender: Sender) -> list["_Reader"]:
    """The readers to try in turn."""
    if mechanism is None:
        return [one._replace(read=one.recognise) for one in READERS if one.sender == sender]
    family = "SCRAM" if mechanism.startswith("SCRAM-") else mechanism
    return [one for one in READERS if (one.family, one.sender) == (family, sender)]


def _plain(data: bytes) -> Token | None:
    if data.count(b"\0") != 2:
        return None
    authzid, authcid, _ = (part.decode("utf-8", "replace") for part in data.split(b"\0"))
    text = f"authcid={_shown(authcid)} password={MASK}"
    return Token(
        TokenKind.PLAIN,
        None,
        f"authzid={_shown(authzid)} {text}" if authzid else text,
        _printable(authcid),
        _printable(authzid),
    )


def _surely_plain(data: bytes) -> Token | None:
    """A PLAIN token that is printable, with a name and a password."""
    text = _text(data.replace(b"\0", b" "))
    found = _plain(data) if text is not None and text.isprintable() else None
    return found if found and found.principal and not data.endswith(b"\0") else None


# the channel binding, and the user that the client wants to act as
_GS2_HEADER = r"(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>[^,\x01]+))?,"
_CLIENT_FIRST = re.compile(_GS2_HEADER + r"(?P<bare>n=.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"([A-Za-z]+)=(.*)", re.DOTALL)
# SCRAM's attributes that may be shown, besides the name: iterations, a server's error, the mark of a delegation token.
HARMLESS = frozenset(["i", "e", "tokenauth"])


def _scram_client(data: bytes) -> Token | None:
    text = _text(data)
    if text is None:
        return None
    if first := _CLIENT_FIRST.fullmatch(text):
        attributes = _attributes(first["bare"])
        return _client_first(first, attributes) if attributes and "r" in attributes else None
    attributes = _attributes(text)
    if attributes and next(iter(attributes)) == "c" and attributes.keys() >= {"r", "p"}:
        return Token(TokenKind.CLIENT_FINAL, None, _masked(attributes))
    return None


def _client_first(first: re.Match[str], attributes: dict[str, str]) -> Token:
    # with a delegation token the name is the token's id, which is a secret as well
    name = None if "tokenauth" in attributes else _printable(_unescaped(attributes["n"]))
    authzid = _printable(_unescaped(first["authzid"] or ""))
    shown = HARMLESS | {"n"} if name else HARMLESS
    return Token(TokenKind.CLIENT_FIRST, None, f"{_header(first)}{_masked(attributes, shown)}", name, authzid)


def _header(found: re.Match[str]) -> str:
    """The GS2 header, as it was sent."""
    return f"{found['binding']},{_shown('a=' + found['authzid']) if found['authzid'] else ''},"


def _scram_server(data: bytes) -> Token | None:
    attributes = _attributes(_text(data) or "")
    if not attributes:
        return None
    if next(iter(attributes)) in ("v", "e"):
        return Token(TokenKind.SERVER_FINAL, None, _masked(attributes))
    if attributes.keys() >= {"r", "s", "i"}:
        return Token(TokenKind.SERVER_FIRST, None, _masked(attributes))
    return None


def _attributes(text: str) -> dict[str, str] | None:
    """SCRAM's list of attributes; None for any other text, and for a repeated attribute."""
    found = [_ATTRIBUTE.fullmatch(part) for part in text.split(",")]
    attributes = {one[1]: one[2] for one in found if one}
    return attributes if len(attributes) == len(found) else None


def _masked(attributes: dict[str, str], harmless: frozenset[str] = HARMLESS) -> str:
    return ",".join(f"{key}={_shown(value) if key in harmless else MASK}" for key, value in attributes.items())


def _unescaped(name: str) -> str | None:
    """A SCRAM name with its escaped commas and equals signs; None for an invalid escape."""
    if not re.fullmatch(r"(?:[^=]|=2C|=3D)*", name):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")


_BEARER = re.compile(_GS2_HEADER + r"\x01(?P<pairs>.*)\x01", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z][\w.-]*)=(.*)", re.DOTALL)
SEPARATOR = "\x01"
# the client's own address; other extensions may hold anything
HARMLESS_PAIRS = frozenset(["host", "port"])
HARMLESS_ERRORS = ("status", "scope", "openid-configuration")


def _bearer_client(data: bytes) -> Token | None:
    if data == SEPARATOR.encode():
        return Token(TokenKind.BEARER_END, None, "refusal acknowledged")
    found = _BEARER.fullmatch(_text(data) or "")
    if not found:
        return None
    pairs = {pair[1]: pair[2] for one in found["pairs"].split(SEPARATOR) if (pair := _PAIR.fullmatch(one))}
    if "auth" not in pairs:
        return None
    authzid = _printable(_unescaped(found["authzid"] or ""))
    shown = [f"{key}={_shown(value) if key in HARMLESS_PAIRS else MASK}" for key, value in pairs.items()]
    return Token(TokenKind.BEARER, None, " ".join([_header(found), *shown]), _subject(pairs["auth"]), authzid)


def _subject(auth: str) -> str | None:
    """The claim `sub` of a token that is a JWT, unverified."""
    scheme, _, token = auth.partition(" ")
    claims = token.strip().split(".")
    if scheme.lower() != "bearer" or len(claims) != 3:
        return None
    try:
        found = json.loads(urlsafe_b64decode(claims[1] + "=" * (-len(claims[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    subject = found.get("sub") if isinstance(found, dict) else None
    return _printable(subject) if isinstance(subject, str) else None


def _bearer_server(data: bytes) -> Token | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "status" not in found:
        return None
    known = {key: found[key] for key in HARMLESS_ERRORS if isinstance(found.get(key), str)}
    return Token(TokenKind.BEARER_ERROR, None, " ".join(f"{key}={_shown(value)}" for key, value in known.items()))


def _gssapi(data: bytes) -> Token:
    return Token(TokenKind.GSSAPI, None, in_bytes(len(data)))


def _surely_gssapi(data: bytes) -> Token | None:
    return _gssapi(data) if data[0] == RAW_GSSAPI_TAG else None


READERS = (
    _Reader("GSSAPI", "client", "GSSAPI", _gssapi, _surely_gssapi),
    _Reader("GSSAPI", "server", "GSSAPI", _gssapi, _surely_gssapi),
    _Reader("OAUTHBEARER", "client", "OAUTHBEARER", _bearer_client, _bearer_client),
    _Reader("OAUTHBEARER", "server", "OAUTHBEARER", _bearer_server, _bearer_server),
    _Reader("SCRAM", "client", None, _scram_client, _scram_client),
    _Reader("SCRAM", "server", None, _scram_server, _scram_server),
    _Reader("PLAIN", "client", "PLAIN", _plain, _surely_plain),
)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _printable(text: str | None) -> str | None:
    return text if text and text.isprintable() else None


def _shown(text: str) -> str:
    """The text, escaped unless it is printable."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
