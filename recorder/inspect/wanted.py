"""The filters of a command as one value, and as an expression for Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from proxy.schema.addresses import meant
from recorder.capture import frames as c
from recorder.capture.reader import hour_may_hold
from recorder.filters import as_options
from recorder.inspect.options import Api


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of frames. A frame must match all of them; an empty filter matches everything. Times in ns since 1970."""

    sessions: tuple[str, ...] = ()  # or prefixes of names
    connections: tuple[int, ...] = ()
    sequences: tuple[int, ...] = ()
    apis: tuple[Api, ...] = ()
    clients: tuple[str, ...] = ()  # a client id, or an address with or without its port
    kinds: tuple[str, ...] = ()
    exchanges: tuple[int, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def expression(self) -> Any:
        """The filters as a pyarrow expression over the columns of frames; None if everything passes."""
        parts = [_one_of(c.CONNECTION, self.connections), _one_of(c.SEQUENCE, self.sequences)]
        parts += [_one_of(c.EXCHANGE, self.exchanges)]
        parts += [_any([_api(*api) for api in self.apis]), _one_of(c.KIND, self.kinds)]
        parts += [_any([_starts(c.SESSION, name) for name in self.sessions])]
        parts += [_any([_client(name) for name in self.clients])]
        if self.since_ns is not None:
            parts.append(ds.field(c.AT_NS) >= self.since_ns)
        if self.until_ns is not None:
            parts.append(ds.field(c.AT_NS) <= self.until_ns)
        given = [part for part in parts if part is not None]
        return reduce(and_, given) if given else None

    @property
    def options(self) -> str:
        """The filters as options of a command."""
        return as_options(
            session=self.sessions,
            connection=self.connections,
            apis=self.apis,
            kind=self.kinds,
            client=self.clients,
            since_ns=self.since_ns,
            until_ns=self.until_ns,
        )

    def in_hour(self, start_ns: int) -> bool:
        """True if the hour that begins at `start_ns` can hold wanted frames."""
        return hour_may_hold(start_ns, self.since_ns, self.until_ns)


def _one_of(column: str, values: tuple[Any, ...]) -> Any:
    return ds.field(column).isin(list(values)) if values else None


def _api(key: int, dialect: str | None) -> Any:
    named = ds.field(c.API_KEY) == key
    return named if dialect is None else named & (ds.field(c.DIALECT) == dialect)


def _any(parts: list[Any]) -> Any:
    return reduce(or_, parts) if parts else None


def _starts(column: str, text: str) -> Any:
    return pc.starts_with(ds.field(column), pattern=text)


def _client(name: str) -> Any:
    address = meant(name)
    is_address = [_one_of(c.CLIENT, address.exact), *(_starts(c.CLIENT, begun) for begun in address.beginnings)]
    return _any([ds.field(c.CLIENT_ID) == name, *is_address])
