"""Captures for agents: a server of the Model Context Protocol over standard input and output.

    commands   `kafka-wiretap mcp`: the options
    server     the tools: what each asks, and how its answer is told; by the official SDK
    asking     runs one of this program's own commands in a child process, within limits
    captures   the captures in the folders that were given, by short names
    answers    what a capture says, as data: visible, cut, marked

A tool is a command of `kafka-wiretap` with `--json`, so an agent sees what a person sees, and secrets are masked alike.
The agent names captures, never paths. The extra `mcp` installs the SDK.
"""
