"""An agent: the SDK's own client, which starts `kafka-wiretap mcp` and calls tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, ListToolsResult

PROGRAM = "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()"


# a busy machine may take longer for a question than a server waits by default
PATIENT = ("--max-time", "10m")


def called(arguments: Sequence[object], *calls: tuple[str, dict[str, Any]]) -> list[CallToolResult]:
    """Starts a server with these arguments, and calls its tools one after the other."""
    return asked(arguments, *calls)[1]


def asked(
    arguments: Sequence[object], *calls: tuple[str, dict[str, Any]]
) -> tuple[ListToolsResult, list[CallToolResult]]:
    """As `called`, with the tools that the server offers."""

    async def run() -> tuple[ListToolsResult, list[CallToolResult]]:
        words = ["-P", "-c", PROGRAM, "mcp", *PATIENT, *map(str, arguments)]
        started = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        with Path(os.devnull).open("w") as nowhere:
            async with stdio_client(started, errlog=nowhere) as streams, ClientSession(*streams) as session:
                await session.initialize()
                tools = await session.list_tools()
                return tools, [await session.call_tool(name, given) for name, given in calls]

    return anyio.run(run)


def rows(result: CallToolResult) -> list[Any]:
    """The rows of an answer that is no error."""
    assert not result.is_error, result.content
    assert result.structured_content is not None
    found: list[Any] = result.structured_content["rows"]
    return found


def error(result: CallToolResult) -> str:
    """The text of an error."""
    assert result.is_error
    return text(result)


def text(result: CallToolResult) -> str:
    """All text of an answer, as an agent gets it that looks at nothing else."""
    return "\n".join(str(getattr(part, "text", "")) for part in result.content)
