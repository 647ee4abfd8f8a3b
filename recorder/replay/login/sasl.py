"""One connection's login to the target: answers in, requests out. No sockets, no clock.

    target offers SaslAuthenticate (1.0 and later)    SaslHandshake 1, then tokens in SaslAuthenticate requests
    target does not                                   SaslHandshake 0, then bare tokens: a length and the bytes

A mechanism is a generator: it yields tokens, and is sent the server's. SCRAM is written out here, in the few lines of
RFC 5802: libraries for it prepare passwords by SASLprep, which Kafka does not do, and let a server ask for any number
of iterations. The server has to prove that it knows the password too.

Errors contain nothing that a server says except numbers and names of Kafka's errors: it may quote a secret.
Sources: RFC 4616 (PLAIN), 5802 and 7677 (SCRAM), 7628 (OAUTHBEARER), KIP-43, 152, 255, 368.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from hmac import compare_digest
from hmac import digest as hmac_digest
from secrets import token_urlsafe

from proxy.wire import decode_response, encode_request, kafka_error
from proxy.wire.errors import WireError
from proxy.wire.framing import framed
from proxy.wire.keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.replay.plan import OfferedVersions, Values
from recorder.replay.versions.choosing import version_to_send

PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
HASHES = {SCRAM_256: "sha256", SCRAM_512: "sha512"}
# Kafka's minimum: a server that asks for fewer makes the password easy to guess.
FEWEST_ITERATIONS = 4096
# Eight times Kafka's maximum, a twentieth of a second: a server must not keep the replay busy.
MOST_ITERATIONS = 1 << 17
NEWEST_AUTHENTICATE = 2
BEARER_END = b"\x01"

Tokens = Generator[bytes, bytes, None]


class LoginRefused(WireError):
    """The target refuses the login, or does not answer it properly."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A mechanism with its username and secret. `password` and `token` never show in a repr.

    Errors: ValueError with a sentence that names the fault, and no secret.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism is none of {', '.join(MECHANISMS)}")
        if self.mechanism == OAUTHBEARER:
            if not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", self.token):
                raise ValueError(f"{OAUTHBEARER} needs a token of letters, digits and ._~+/=-")
        elif not self.username or not self.password or "\0" in self.username + self.password:
            raise ValueError(f"{self.mechanism} needs a username and a password, without NUL")


class Login:
    """A login, from the first frame to the target's last answer.

    Call `next(None)`, send what it returns, and call it with each frame that arrives (without its length) until
    `is_done`.

    Attributes:
        lifetime_ms: how long the target takes requests after this login (KIP-368); 0: as long as it is connected.
    """

    def __init__(
        self,
        credentials: Credentials,
        offered: OfferedVersions,
        *,
        client_id: str = "kafka-wiretap",
        first_correlation_id: int = 0,
        nonce: str | None = None,
    ) -> None:
        """`offered`: the versions that the target's node offers. `nonce`: for SCRAM; None: a random one."""
        self._mechanism = credentials.mechanism
        self._tokens = _tokens(credentials, token_urlsafe(24) if nonce is None else nonce)
        self._client_id, self._correlation_id = client_id, first_correlation_id - 1
        # None: bare tokens
        self._authenticate = version_to_send(SASL_AUTHENTICATE, NEWEST_AUTHENTICATE, offered.get(SASL_AUTHENTICATE))
        self._answered: Callable[[bytes], bytes] = self._shaken
        self.is_done = False
        self.lifetime_ms = 0

    def next(self, frame: bytes | None) -> bytes:
        """The bytes to send next, with their length; b"" at the end. `frame`: the target's last answer; None to begin.

        Errors: WireError; the login has failed then.
        """
        if self.is_done:
            raise LoginRefused("the target says more after the end of the login")
        if frame is None:
            return self._request(SASL_HANDSHAKE, self._handshake, {"mechanism": self._mechanism})
        try:
            return self._answered(frame)
        except WireError:
            self._answered = _refused
            raise

    @property
    def _handshake(self) -> int:
        return 0 if self._authenticate is None else 1

    def _request(self, api_key: int, version: int, values: Values) -> bytes:
        self._correlation_id += 1
        return framed(encode_request(api_key, version, self._correlation_id, self._client_id, values))

    def _answer(self, frame: bytes, api_key: int, version: int) -> Values:
        found = decode_response(frame, api_key, version)
        if not isinstance(found, tuple) or found[0].correlation_id != self._correlation_id:
            raise LoginRefused("the target answers another request than the login's")
        _check(found[1]["error_code"])
        return found[1]

    def _shaken(self, frame: bytes) -> bytes:
        self._answer(frame, SASL_HANDSHAKE, self._handshake)
        self._answered = self._told
        return self._say(next(self._tokens))

    def _told(self, frame: bytes) -> bytes:
        """Takes the server's token from a frame, bare or in an answer."""
        if self._authenticate is not None:
            answer = self._answer(frame, SASL_AUTHENTICATE, self._authenticate)
            frame, self.lifetime_ms = answer["auth_bytes"], answer.get("session_lifetime_ms", 0)
        try:
            return self._say(self._tokens.send(frame))
        except StopIteration:
            self.is_done = True
            return b""

    def _say(self, token: bytes) -> bytes:
        if self._authenticate is None:
            return framed(token)
        return self._request(SASL_AUTHENTICATE, self._authenticate, {"auth_bytes": token})


def _refused(_frame: bytes) -> bytes:
    raise LoginRefused("the login has failed before")


def _check(error_code: int) -> None:
    if error_code:
        found = kafka_error(error_code)
        raise LoginRefused(f"the target refuses the login: {found.name if found else f'error {error_code}'}")


def _tokens(credentials: Credentials, nonce: str) -> Tokens:
    if credentials.mechanism == PLAIN:
        return _plain(credentials)
    if credentials.mechanism == OAUTHBEARER:
        return _bearer(credentials)
    return scram(HASHES[credentials.mechanism], credentials.username, credentials.password, nonce)


def _plain(credentials: Credentials) -> Tokens:
    # the server's answer contains nothing
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _bearer(credentials: Credentials) -> Tokens:
    told = yield f"n,,\x01auth=Bearer {credentials.token}\x01\x01".encode()
    if told:
        # a refusal: the server waits for this byte before it answers with the error
        yield BEARER_END
        raise LoginRefused("the target refuses the token")


def scram(hash_name: str, username: str, password: str, nonce: str) -> Tokens:
    """The client's side of SCRAM, without channel binding, as Kafka uses it."""
    first = f"n={_escaped(username)},r={nonce}"
    server_first = _text((yield b"n,," + first.encode()))
    salt, iterations, both = _server_first(server_first, nonce)
    final = f"c=biws,r={both}"
    messages = ",".join((first, server_first, final)).encode()
    salted = pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key, server_key = (hmac_digest(salted, key, hash_name) for key in (b"Client Key", b"Server Key"))
    signature = hmac_digest(new_hash(hash_name, client_key).digest(), messages, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{final},p={b64encode(proof).decode()}".encode()))
    if server_final.startswith("e="):
        raise LoginRefused("the target refuses the login")
    found = re.fullmatch(r"v=([A-Za-z0-9+/=]+)(?:,.*)?", server_final)
    if not found or not compare_digest(_bytes(found[1]), hmac_digest(server_key, messages, hash_name)):
        raise LoginRefused("the target does not prove that it knows the password")


def _server_first(text: str, nonce: str) -> tuple[bytes, int, str]:
    """Salt, number of iterations, and the nonce of both."""
    found = re.fullmatch(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})(?:,.*)?", text)
    if not found or not found[1].startswith(nonce) or found[1] == nonce:
        raise LoginRefused("the target's first SCRAM message is none")
    iterations = int(found[3])
    if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise LoginRefused(f"the target asks for {iterations} iterations, not {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    return _bytes(found[2]), iterations, found[1]


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise LoginRefused("the target's SCRAM message is no text") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LoginRefused("the target's SCRAM message has no base64 where some belongs") from None
