"""The packages of the extras: a command asks here, before it begins, if those that it needs are installed.

pyproject.toml says which versions. The modules that import these packages are imported only behind the check.
"""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

import click

_ANALYSIS = ("pyspark", "py4j", "pandas", "pysail", "prompt_toolkit", "pygments")
_REPORT = ("altair", "vl_convert", "jinja2", "markupsafe")
# extra -> the modules that its commands import, those of the extras within it included
MODULES = {
    "analysis": _ANALYSIS,
    "report": _REPORT,
    "export": (*_ANALYSIS, "cloudevents", "confluent_kafka"),
    "ship": ("boto3", "botocore"),
    "page": ("starlette", "uvicorn"),
    "top": ("textual",),
    "pcap": ("pcapng",),
    "mcp": (*_ANALYSIS, "mcp", "anyio", "pydantic"),
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http", "requests", "urllib3"),
    "hash": ("cryptography",),
    "schemas": ("fastavro", "grpc_tools", "requests", "urllib3"),
    "demo": (*_ANALYSIS, *_REPORT, "confluent_kafka", "aiokafka"),
}


class MissingPackages(click.ClickException):
    """A command needs an extra that is not installed; the line names its packages, and how to install them."""

    exit_code = 2


def lacking(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in MODULES[extra] if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        # of the package around it
        return False


def check(*extras: str) -> None:
    """Checks that the packages of these extras are installed. Errors: MissingPackages."""
    names = [name for extra in extras for name in lacking(extra)]
    if names:
        wanted = [extra for extra in extras if lacking(extra)]
        raise MissingPackages(f"not installed: {', '.join(names)}; {pip_install(*wanted)}")


def pip_install(*extras: str) -> str:
    """The command that installs extras into this environment; a bare `pip` may mean another one."""
    return f"in the project's folder, {shlex.quote(sys.executable)} -m pip install '.[{','.join(extras)}]'"
