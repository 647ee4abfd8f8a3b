"""The treatment of the frames of each API and version: decided once, and looked up for every frame.

A route tells whether a frame is plain (nothing but its head is read), is marked for the recorder or the relay
(`step.Mark`), is answered by the proxy, or ends the connection. All connections of a cluster share its routes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.dialects import Dialect
from proxy.wire.framing import unpack_api_and_version
from proxy.wire.keys import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE

# requests before and in a login; any other request that is understood shows that no login is under way
LOGIN_APIS = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})

# a peer may send any of 2**32 APIs and versions; only so many routes are remembered
MAX_REMEMBERED = 4096

VersionPredicate = Callable[[int, int], bool]


def never(api_key: int, api_version: int) -> bool:
    """False for every API and version."""
    return False


def always(api_key: int, api_version: int) -> bool:
    """True for every API and version."""
    return True


@dataclass(frozen=True, slots=True)
class Route:
    """The treatment of one API key and version; in the dialect of 0.7, of one request type (`api_key`).

    Attributes:
        api: the API's name; None if the catalog lacks the API.
        known: True if the catalog has this version.
        mark_request, mark_response: True if each step with bytes of such a frame gets a `Mark`: the recorder may mask
            the frame, or the relay rewrite it.
        search_request, search_response: True if the recorder searches such frames for secrets.
        answered_by_proxy: True if the proxy answers the request instead of the broker.
        refused: True if the request ends the connection.
        plain_request, plain_response: True if nothing but the head of such a frame is read.
        api_and_version: the key and version as one number (`framing.pack_api_and_version`).
    """

    api_key: int
    api_version: int | None
    api: str | None
    known: bool
    mark_request: bool
    mark_response: bool
    search_request: bool
    search_response: bool
    answered_by_proxy: bool
    refused: bool
    plain_request: bool
    plain_response: bool
    api_and_version: int


class Routes:
    """The routes of every API and version, made when first asked for.

    Args:
        mark_request, mark_response: predicates of the versions whose frames are marked.
        search_request, search_response: predicates of the versions whose frames the recorder searches for secrets.
        answered_by_proxy: predicate of the requests that the proxy answers instead of forwarding them.
        refused: predicate of the requests that end the connection, as a broker would end it.
    """

    dialect = Dialect.KAFKA

    def __init__(
        self,
        *,
        mark_request: VersionPredicate = never,
        mark_response: VersionPredicate = never,
        search_request: VersionPredicate = never,
        search_response: VersionPredicate = never,
        answered_by_proxy: VersionPredicate = never,
        refused: VersionPredicate = never,
    ) -> None:
        self.table: dict[int, Route] = {}
        self._mark_request = mark_request
        self._mark_response = mark_response
        self._search_request = search_request
        self._search_response = search_response
        self._answered_by_proxy = answered_by_proxy
        self._refused = refused

    @classmethod
    def everything(cls) -> Routes:
        """Routes that mark every frame."""
        return cls(mark_request=always, mark_response=always)

    @classmethod
    def marking_secrets(
        cls,
        *,
        rewritten: VersionPredicate = never,
        answered_by_proxy: VersionPredicate = never,
        refused: VersionPredicate = never,
    ) -> Routes:
        """Routes that mark the frames that a recorder must look at: those with secrets, and SaslHandshakes.

        `rewritten`: predicate of the responses that are marked for the relay.
        """
        return cls(
            # a handshake holds no secret, but its mechanism tells how to read the tokens after it
            mark_request=lambda key, version: key == SASL_HANDSHAKE or _holds_secret("request", key, version),
            mark_response=lambda key, version: rewritten(key, version) or _holds_secret("response", key, version),
            # the recorder searches known versions only; frames of unknown versions are masked whole
            search_request=lambda key, version: bool(catalog.secrets("request", key, version)),
            search_response=lambda key, version: bool(catalog.secrets("response", key, version)),
            answered_by_proxy=answered_by_proxy,
            refused=refused,
        )

    def of(self, api_and_version: int) -> Route:
        """The route of an API and version, as one number (`framing.pack_api_and_version`)."""
        route = self.table.get(api_and_version)
        if route is None:
            route = self._make(api_and_version)
            if len(self.table) < MAX_REMEMBERED:
                self.table[api_and_version] = route
        return route

    def _make(self, api_and_version: int) -> Route:
        key, version = unpack_api_and_version(api_and_version)
        known = apis.known(key, version)
        mark_request, mark_response = self._mark_request(key, version), self._mark_response(key, version)
        answered_by_proxy, refused = self._answered_by_proxy(key, version), self._refused(key, version)
        # of a Produce request, the acks must be read: with 0, no response comes
        special = mark_request or answered_by_proxy or refused or not known or key in LOGIN_APIS or key == PRODUCE
        return Route(
            api_key=key,
            api_version=version,
            api=apis.api_name(key),
            known=known,
            mark_request=mark_request,
            mark_response=mark_response,
            search_request=self._search_request(key, version),
            search_response=self._search_response(key, version),
            answered_by_proxy=answered_by_proxy,
            refused=refused,
            plain_request=not special,
            plain_response=known and not mark_response and key != SASL_HANDSHAKE,
            api_and_version=api_and_version,
        )


def _holds_secret(kind: MessageKind, key: int, version: int) -> bool:
    if apis.known(key, version):
        return bool(catalog.secrets(kind, key, version))
    return catalog.may_hold_secrets(kind, key)
