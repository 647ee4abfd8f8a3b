"""A worker's settings, pickled: on its standard input at its start, and in a message when they change.

Limits that connections share (on their number, on held bytes) are divided among the workers. With a common limit, each
new connection and each held frame would have to wait for the parent.
"""

from __future__ import annotations

import base64
import copyreg
import io
import pickle
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import IO, Any

from proxy.config import LiveSettings, ProxySettings

# worker N numbers its connections upwards from N times this, so no number is given twice
NUMBERS_PER_WORKER = 10**12


@dataclass(frozen=True, slots=True)
class Job:
    """One worker's job.

    Args:
        number: the worker's number, from 1 on; each worker gets a new one.
        slot: the worker's place among the workers, from 0 on. A worker that replaces another takes its slot.
        settings: those of the whole proxy, with the ports from its state files.
        recording: the recorder's own settings; None: nothing is recorded.
        seed: see `ProxyContext`.
    """

    number: int
    slot: int
    settings: ProxySettings
    recording: Any = None
    seed: int = 0

    @property
    def first_connection(self) -> int:
        """The number of the worker's first connection."""
        return self.number * NUMBERS_PER_WORKER + 1

    @property
    def worker_settings(self) -> ProxySettings:
        """This worker's: its part of the limits, and one process. Admin page and live process are the parent's."""
        settings = self.settings
        return replace(
            settings,
            clusters=tuple(
                replace(cluster, connection_limit=self._part(cluster.connection_limit)) for cluster in settings.clusters
            ),
            connection_limit=self._part(settings.connection_limit),
            held_in_all=self._part(settings.held_in_all),
            metrics=None,
            live=LiveSettings(),
            workers=1,
        )

    def _part(self, limit: int | None) -> Any:
        """This worker's part of a limit; None: no limit. All parts add up to the limit, but each is at least 1."""
        if limit is None:
            return None
        part, rest = divmod(limit, self.settings.workers)
        return max(part + (self.slot < rest), 1)

    def dumped(self) -> bytes:
        """Returns the bytes for the worker's standard input; see `read_job`."""
        file = io.BytesIO()
        _Pickler(file).dump(self)
        return file.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles settings, which hold read-only mappings that plain pickle can't handle."""

    dispatch_table = copyreg.dispatch_table | {MappingProxyType: lambda table: (_read_only, (dict(table),))}


def _read_only(table: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(table)


def dump_settings(settings: ProxySettings, recording: Any = None) -> str:
    """Returns changed settings as text for a message."""
    return base64.b64encode(Job(0, 0, settings, recording).dumped()).decode()


def load_settings(text: str) -> Job:
    """Returns the changed settings in a message's text, as a job. Its number and slot are not the worker's own."""
    return read_job(io.BytesIO(base64.b64decode(text)))


def read_job(file: IO[bytes]) -> Job:
    """Reads the job that the parent writes. Raises EOFError: the parent ended before the job was whole."""
    try:
        job: Job = pickle.load(file)
    except pickle.UnpicklingError as error:
        raise EOFError(str(error)) from error
    return job
