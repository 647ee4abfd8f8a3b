"""A connection to a broker for the doctor: dialled as the proxy dials, logged in if asked for, one request at a time.

A login's mechanism is no matter of the proxy, which passes clients' logins on. So the dialogue is given from outside
(`StartLogin`): a state machine without sockets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import trio

from proxy.config import ClusterSettings
from proxy.net.blocking import in_thread
from proxy.net.brokers.discovery import (
    ANSWER_SECONDS,
    SOFTWARE,
    LoopProbe,
    NotAnswered,
    OfferedVersions,
    ask_for_versions,
    exchange,
    frame_after,
)
from proxy.net.brokers.upstreams import connection
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.net.sockets.tls import LiveCredentials
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.errors import WireError
from proxy.wire.keys import API_VERSIONS, SASL_HANDSHAKE

# the version of ApiVersions from which on brokers tell finalized features (KIP-584)
FIRST_WITH_FEATURES = 3


class LoginDialogue(Protocol):
    """One login. `next` takes the broker's last frame (None: to begin), and returns the next one; b"" at the end."""

    def next(self, frame: bytes | None) -> bytes:
        """Raises WireError, without a secret: the login has failed."""


# begins a login to a broker that offers these versions; blocks, since a secret may be in a file. Raises BadSetting
StartLogin = Callable[[OfferedVersions], LoginDialogue]


class Dialler:
    """Dials one cluster's brokers. `credentials`: None: plaintext. `start_login`: None: nobody logs in."""

    def __init__(
        self, settings: ClusterSettings, credentials: LiveCredentials | None, start_login: StartLogin | None
    ) -> None:
        self.settings = settings
        self.credentials = credentials
        self.start_login = start_login
        self.loop_probe = LoopProbe(cluster=settings.name)

    @asynccontextmanager
    async def connected(self, address: Address) -> AsyncIterator[Session]:
        """A connection to the broker at this address, before any request. Raises PeerLost."""
        stream = await connection(address, self.settings, self.credentials)
        try:
            yield Session(stream, self)
        finally:
            stream.close()

    @asynccontextmanager
    async def session(self, address: Address) -> AsyncIterator[tuple[Session, OfferedVersions]]:
        """A connection after its login, if there is one, with the versions offered. Raises PeerLost, BadSetting."""
        async with self.connected(address) as session:
            offered = await session.versions()
            await session.log_in(offered)
            yield session, offered

    async def logged_in(self, address: Address) -> Stream:
        """As `session`, for a caller that closes the stream. Raises PeerLost, BadSetting."""
        stream = await connection(address, self.settings, self.credentials)
        session = Session(stream, self)
        try:
            if self.start_login is not None:
                await session.log_in(await session.versions())
        except BaseException:
            stream.close()
            raise
        return stream


class Session:
    """Asks one broker, which has ANSWER_SECONDS for each answer. Every method raises PeerLost if there is none."""

    def __init__(self, stream: Stream, dialler: Dialler) -> None:
        self.stream = stream
        self._dialler = dialler

    async def versions(self) -> OfferedVersions:
        """The versions that the broker offers."""
        with self._in_time():
            return await ask_for_versions(self.stream, self._dialler.loop_probe)

    async def features(self, offered: OfferedVersions) -> dict[str, int]:
        """Name -> level of the cluster's finalized features, "metadata.version" among them; {}: it tells none."""
        version = FIRST_WITH_FEATURES
        if version not in offered.get(API_VERSIONS, ()):
            return {}
        values = await self.ask(API_VERSIONS, version, SOFTWARE)
        return {each["name"]: each["max_version_level"] for each in values["finalized_features"]}

    async def log_in(self, offered: OfferedVersions) -> None:
        """Logs in, if there is a login. Raises BadSetting too: the secret can't be read."""
        start = self._dialler.start_login
        if start is None:
            return
        dialogue = await in_thread(lambda: start(offered))
        with self._in_time():
            frame = dialogue.next(None)
            while frame:
                frame = dialogue.next(await frame_after(self.stream, frame))

    async def mechanisms(self) -> list[str]:
        """The SASL mechanisms that the broker takes, by its refusal of one that has no name; []: it wants no login."""
        values = await self.ask(SASL_HANDSHAKE, 1, {"mechanism": ""})
        return list(values["mechanisms"])

    async def ask(self, key: int, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """The body of the answer to a request."""
        with self._in_time():
            answer = await exchange(self.stream, self._dialler.loop_probe.request(key, version, values))
            decoded = catalog.decode_response(answer, key, version)
            assert not isinstance(decoded, catalog.UnknownMessage), "we ask in versions of the catalog"
            return decoded[1]

    async def ask_newest(self, offered: OfferedVersions, key: int, most: int, values: dict[str, Any]) -> dict[str, Any]:
        """As `ask`, in the newest version up to `most` that both know."""
        both = [version for version in apis.versions(key)[: most + 1] if version in offered.get(key, ())]
        if not both:
            raise NotAnswered(f"{self.stream.peer} offers no {apis.api_name(key)} up to version {most}")
        return await self.ask(key, both[-1], values)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        peer = self.stream.peer
        try:
            with trio.fail_after(ANSWER_SECONDS):
                yield
        except trio.TooSlowError as error:
            raise NotAnswered(f"{peer} did not answer in {ANSWER_SECONDS} s") from error
        except PeerLost:
            raise
        except WireError as error:
            raise NotAnswered(error) from error
