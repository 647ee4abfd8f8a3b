"""A worker's settings as data: over its standard input at its start, and in a message when they change.

Limits on all connections together are divided among the workers: a worker that had to ask the parent for its share of
them would wait for the parent at every connection and held frame.
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

# worker N's connections have the numbers above N times this, so no number is given twice
CONNECTIONS_PER_WORKER = 10**12


@dataclass(frozen=True, slots=True)
class Job:
    """One worker's job.

    Args:
        number: the worker's own, from 1 on; never given again.
        slot: from 0 on, below `workers`; the successor of a worker that has ended takes its slot.
        settings: the whole proxy's, with the ports that its state files keep.
        recording: the recorder's own settings; None: nothing is recorded.
        seed: a number that all processes of this proxy share, and no other proxy has.
    """

    number: int
    slot: int
    settings: ProxySettings
    recording: Any = None
    seed: int = 0

    @property
    def first_connection(self) -> int:
        """The number of the worker's first connection."""
        return self.number * CONNECTIONS_PER_WORKER + 1

    @property
    def worker_settings(self) -> ProxySettings:
        """This worker's settings: its part of the limits, one process, and no admin page, which the parent serves."""
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
    """Changed settings from a message's text: a job whose number and slot mean nothing."""
    return read_job(io.BytesIO(base64.b64decode(text)))


def read_job(file: IO[bytes]) -> Job:
    """The job that a parent has written. Raises EOFError: the parent ended before the job was whole."""
    try:
        job: Job = pickle.load(file)
    except pickle.UnpicklingError as error:
        raise EOFError(str(error)) from error
    return job
