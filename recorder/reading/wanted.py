"""Frames by their ids, as an expression for Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from recorder.capture import frames as c


@dataclass(frozen=True, slots=True)
class Wanted:
    """Ids of frames. A frame must match all fields; an empty field matches everything."""

    sessions: tuple[str, ...] = ()  # or prefixes of names
    connections: tuple[int, ...] = ()
    sequences: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    exchanges: tuple[int, ...] = ()

    @property
    def expression(self) -> Any:
        """The ids as a pyarrow expression over the columns of frames; None if everything passes."""
        parts = [_one_of(c.CONNECTION, self.connections), _one_of(c.SEQUENCE, self.sequences)]
        parts += [_one_of(c.EXCHANGE, self.exchanges), _one_of(c.KIND, self.kinds)]
        parts += [reduce(or_, map(_begins, self.sessions))] if self.sessions else []
        given = [part for part in parts if part is not None]
        return reduce(and_, given) if given else None

    def in_hour(self, start_ns: int) -> bool:
        """True: an id says nothing of times."""
        return True


def _one_of(column: str, values: tuple[Any, ...]) -> Any:
    return ds.field(column).isin(list(values)) if values else None


def _begins(session: str) -> Any:
    return pc.starts_with(ds.field(c.SESSION), pattern=session)
