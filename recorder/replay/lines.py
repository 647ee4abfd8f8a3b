"""A response in one version as a comparison walks it: each field with its rule, and with what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from proxy.wire import apis, secrets
from proxy.wire.error_codes import is_error_code
from proxy.wire.language import Field
from recorder.replay import fields
from recorder.replay.elements import Ways, ways
from recorder.replay.mapping import What
from recorder.replay.volatile import MOST_RESPONSES, How, rules


@dataclass(frozen=True, slots=True)
class Line:
    """One field.

    Attributes:
        what: what of the cluster it holds; None for all that means the same on both sides.
        named: how the elements of an array of structs are named; None: it is no such array.
        inner: the fields of a struct.
        whats: name -> what, of the inner fields.
    """

    name: str
    path: str
    how: How
    what: What | None
    named: Ways | None
    is_secret: bool
    inner: tuple[Line, ...]

    @property
    def is_error(self) -> bool:
        """True for an error code."""
        return is_error_code(self.name)

    @property
    def is_compared(self) -> bool:
        """True for what is compared by itself. A producer's epoch is compared with its id."""
        return not self.is_error and self.how not in (How.LEFT_OUT, How.UNION) and self.what is not What.PRODUCER_EPOCH

    @property
    def whats(self) -> dict[str, What]:
        """What the fields of an element hold."""
        return {line.name: line.what for line in self.inner if line.what}


Lines = tuple[Line, ...]


@lru_cache(MOST_RESPONSES)
def lines(api_key: int, version: int) -> Lines:
    """The fields of a response; () for one that the catalog lacks."""
    response = apis.message("response", api_key)
    return _Response(api_key, version).lines(response.fields, "") if response else ()


class _Response:
    """What is known of the fields of one response."""

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key, self._version = api_key, version
        self._rules = rules(api_key, version)
        self._state = fields.of("response", api_key, version)
        self._secrets = frozenset(secrets("response", api_key, version))

    def lines(self, of: tuple[Field, ...], above: str) -> Lines:
        return tuple(self._line(field, above + field.name) for field in of if self._version in field.versions)

    def _line(self, field: Field, path: str) -> Line:
        state = self._state.get(path)
        is_array = bool(field.fields) and field.is_array
        return Line(
            field.name,
            path,
            self._rules[path],
            state.what if state else None,
            ways(self._api_key, path) if is_array else None,
            path in self._secrets,
            self.lines(field.fields, path + "."),
        )
