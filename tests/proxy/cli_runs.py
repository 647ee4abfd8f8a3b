"""Invokes `kafka-wiretap proxy`, with a stand-in for the proxy that notes the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from click.testing import CliRunner, Result

from proxy import cli
from proxy.config import ClusterSettings, ProxySettings
from proxy.schema.addresses import Address

BASIC = ("--upstream", "b1:9092,b2:9093", "--listen", "127.0.0.1:0")


class Run:
    """In place of the proxy: notes its settings."""

    code = 0

    def __init__(self) -> None:
        self.settings: list[ProxySettings] = []
        self.observer: Any = None
        self.child: Sequence[str] | None = None
        self.reload: Any = None

    def __call__(
        self,
        settings: ProxySettings,
        observer: Any,
        child: Any,
        ready: Any,
        reload: Any,
        released: Any,
        companions: Any,
    ) -> int:
        self.settings.append(settings)
        self.reload = reload
        self.observer, self.child = observer, child
        ready({"main": Address("127.0.0.1", 9092)}, Address("127.0.0.1", 9464))
        if observer is not None:
            observer.close()
        released()
        return self.code


def proxy(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["proxy", *map(str, arguments)], catch_exceptions=False)


def told(run: Run, *arguments: object) -> ProxySettings:
    assert proxy(*BASIC, *arguments).exit_code == 0
    return run.settings[-1]


def cluster_told(run: Run, *arguments: object) -> ClusterSettings:
    (cluster,) = told(run, *arguments).clusters
    return cluster


def bad(arguments: Sequence[object], flag: str) -> str:
    """Returns the error about these arguments: one line that begins with the flag; the exit code is 2."""
    result = proxy(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kafka-wiretap: {flag}")
    return line
