"""The settings that a worker gets before it begins: as data, over its standard input.

Limits on all connections together are divided among the workers. A worker that asked the parent for each byte that it
holds would wait for the parent where it should wait for a client.
"""

from __future__ import annotations

import base64
import copyreg
import io
import pickle
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import IO, Any

from proxy.config import ProxySettings

# connection numbers for each worker, beginning at a multiple of this: no number is given twice
CONNECTIONS = 10**12


@dataclass(frozen=True, slots=True)
class Job:
    """One worker's job.

    Args:
        number: counts all workers that were ever started.
        slot: from 0 on; the slot of a worker that has ended becomes another worker's.
        settings: of the whole proxy, with the ports that its state file keeps.
        recording: the recorder's own settings; None: nothing is recorded.
        seed: the whole proxy's; see `ProxyContext`.
    """

    number: int
    slot: int
    settings: ProxySettings
    recording: Any = None
    seed: int = 0

    @property
    def first_connection(self) -> int:
        """The number of the worker's first connection."""
        return self.number * CONNECTIONS + 1

    @property
    def worker_settings(self) -> ProxySettings:
        """The settings, with this worker's part of the limits of all workers."""
        settings = self.settings
        return replace(
            settings,
            clusters=tuple(
                replace(cluster, connection_limit=self._part(cluster.connection_limit)) for cluster in settings.clusters
            ),
            connection_limit=self._part(settings.connection_limit),
            held_in_all=self._part(settings.held_in_all),
            metrics=None,
            workers=1,
        )

    def _part(self, limit: int | None) -> Any:
        """This worker's part of a limit. All parts add up to the limit, but each is at least 1."""
        if limit is None:
            return None
        part, rest = divmod(limit, self.settings.workers)
        return max(part + (self.slot < rest), 1)

    def dumped(self) -> bytes:
        """The job as the worker reads it from its standard input."""
        file = io.BytesIO()
        _Pickler(file).dump(self)
        return file.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles settings, which hold read-only tables that plain pickle can't handle."""

    dispatch_table = copyreg.dispatch_table | {MappingProxyType: lambda table: (_unchangeable, (dict(table),))}


def _unchangeable(table: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(table)


def dump_settings(settings: ProxySettings, recording: Any = None) -> str:
    """Changed settings as text for a message."""
    return base64.b64encode(Job(0, 0, settings, recording).dumped()).decode()


def load_settings(text: str) -> Job:
    """Changed settings from a message's text, as a job without a worker."""
    return read_job(io.BytesIO(base64.b64decode(text)))


def read_job(file: IO[bytes]) -> Job:
    """The job that a parent has written. Raises EOFError: the parent ended before the job was complete."""
    try:
        job: Job = pickle.load(file)
    except pickle.UnpicklingError as error:
        raise EOFError(str(error)) from error
    return job
