"""`python -m bench.wire`: the codec against others' and against its own targets, as ratios. See wire.md."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench import encodings, records
from bench.console import say, say_machine
from bench.processes import ROOT
from bench.wire_codecs import (
    AIOKAFKA,
    KAFKA_PYTHON,
    KIO,
    KMSG,
    OURS,
    Kmsg,
    codecs,
    kmsg,
    newest_of_aiokafka,
    of_aiokafka,
    ours,
)
from bench.wire_messages import Message, messages
from bench.wire_rounds import Ratios, Rounds, measure
from proxy import wire

# Times of codecs in Python over ours, and of kio's reader in Rust over ours: at least so much.
AHEAD_OF_PYTHON, AS_FAST_AS_KIO = 3.0, 0.25
# Ours over the other: at most so much.
PROJECTION_OF_DECODE, HEAD_OF_CALL = 1 / 100, 30.0
IMPORT_MS = 60.0

BROKERS = ("brokers.node_id", "brokers.host", "brokers.port", "brokers.rack")
FRESH = "import json, time; begin = time.process_time(); {}; print(json.dumps((time.process_time() - begin) * 1000))"
IMPORTS = {
    "import proxy.wire": "import proxy.wire",
    "import kafka": "import kafka",
    "import kio (reader, writer, one message)": (
        "import kio.serial, kio.index; kio.index.load_response_schema(3, 12), kio.index.load_request_schema(3, 12)"
    ),
}
FIRST_USE = "from proxy import wire; begin = time.process_time(); wire.codec('response', {}, {}).{}"


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    say_machine()
    say(f"{asked.rounds} rounds of {asked.seconds} s each; processor time; medians, and ratios with their range\n")
    for name in asked.only or PARTS:
        for line in PARTS[name](asked.rounds, asked.seconds):
            say(line)
        say("")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.wire", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.02, help="of each function in a round (default 0.02)")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="these parts (default: all)")
    return parser


def whole_messages(rounds: int, seconds: float) -> Iterator[str]:
    yield "How many times our time the others take; targets: codecs in Python 3, kio's reader, which is in Rust, 0.25;"
    yield "aiokafka's column is of the newest version that it knows, for both; franz-go's codec is in Go: no target"
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as folder, ExitStack() as stack:
        try:
            go = stack.enter_context(kmsg(Path(folder)))
        except RuntimeError as error:
            go = None
            yield f"franz-go's codec can't be had, so nothing is compared with it: {error}"
        heads = "".join(f"{name:<20} " for name in (KAFKA_PYTHON, KIO, AIOKAFKA, KMSG))
        yield f"{'':<40}{'bytes':>8}  {'us':>8}  {heads}"
        for message in messages():
            if go is not None and go.add(message) != message.body:
                raise RuntimeError(f"franz-go's codec writes other bytes for {message.name}")
            for direction in ("decode", "encode"):
                yield whole_message(message, direction, rounds, seconds, go)


def whole_message(message: Message, direction: str, rounds: int, seconds: float, go: Kmsg | None) -> str:
    """A line: our time, and others' as multiples of it; which of the targets it misses."""
    timed = {KMSG: lambda: go.ns(message, direction, seconds)} if go is not None else {}
    found = measure({codec.name: getattr(codec, direction) for codec in codecs(message)}, rounds, seconds, timed)
    ratios = {name: found.ratios(name, OURS) for name in found.ns if name != OURS}
    if (version := newest_of_aiokafka(message)) is not None:
        older = message.at(version)
        both = {codec.name: getattr(codec, direction) for codec in (ours(older), of_aiokafka(older))}
        ratios[AIOKAFKA] = measure(both, rounds, seconds).ratios(AIOKAFKA, OURS)
    # kio writes in Python
    targets = {KAFKA_PYTHON: AHEAD_OF_PYTHON, AIOKAFKA: AHEAD_OF_PYTHON}
    targets[KIO] = AS_FAST_AS_KIO if direction == "decode" else AHEAD_OF_PYTHON
    missed = [name for name, target in targets.items() if name in ratios and ratios[name].median < target]
    title = f"{direction} {message.name}"
    size = f"{len(message.body):>8,}" if direction == "decode" else " " * 8
    cells = "".join(f"{ratios.get(name, '')!s:<20} " for name in (KAFKA_PYTHON, KIO, AIOKAFKA, KMSG))
    line = f"{title:<40}{size}  {found.median(OURS) / 1000:>8.1f}  {cells}"
    return (line + ("MISSED: " + ", ".join(missed) if missed else "")).rstrip()


def projection(rounds: int, seconds: float) -> Iterator[str]:
    message = messages()[0]
    body, codec = message.body, message.codec
    find, decode = codec.project(BROKERS), codec.decode
    found = measure({"brokers": lambda: find(body, 0), "all": lambda: decode(body)}, rounds, seconds)
    times = found.ratios("all", "brokers")
    yield f"{message.name}, the brokers alone: 1/{times} of a full decode{_at_least(times, 1 / PROJECTION_OF_DECODE)}"


def heads(rounds: int, seconds: float) -> Iterator[str]:
    """Both with a `lambda` around them, which is an empty call itself: it is taken off."""
    frame = wire.encode_request(3, 12, correlation_id=7, client_id="consumer-billing-1", values={"topics": None})
    read = wire.request_head
    functions = {"head": lambda: read(frame), "empty": lambda: _nothing(frame), "lambda": lambda: None}
    found = measure(functions, rounds, seconds)
    lambdas = found.ns["lambda"]
    net = {name: [one - call for one, call in zip(found.ns[name], lambdas, strict=True)] for name in functions}
    times = Ratios(tuple(head / empty for head, empty in zip(net["head"], net["empty"], strict=True)))
    line = f"A request's head: {median(net['head']) / 1000:.2f} us, {times} times an empty call with one argument"
    yield line + _at_most(times, HEAD_OF_CALL)


def _nothing(frame: bytes) -> None:
    pass


def imports(rounds: int, _: float) -> Iterator[str]:
    found = Rounds(_in_turn(IMPORTS, rounds))
    ours, *others = IMPORTS
    milliseconds = found.median(ours)
    yield f"{ours}: {milliseconds:.0f} ms in a fresh process" + ("" if milliseconds < IMPORT_MS else "   MISSED")
    for name in others:
        yield f"{name}: {found.median(name):.0f} ms, {found.ratios(name, ours)} times as long"


def first_use(rounds: int, _: float) -> Iterator[str]:
    programs = {}
    for message in messages()[:2]:
        programs[f"decode {message.name}"] = FIRST_USE.format(message.key, message.version, "_decode")
        programs[f"encode {message.name}"] = FIRST_USE.format(message.key, message.version, "encode")
    found = Rounds(_in_turn(programs, rounds))
    for name in programs:
        yield f"first use, {name}: its file read and its function compiled in {found.median(name):.1f} ms"


def record_batches(rounds: int, _: float) -> Iterator[str]:
    yield records.table(records.rows(rounds=rounds))


def integer_encodings(rounds: int, seconds: float) -> Iterator[str]:
    yield "A Metadata response with its integers in other encodings, times as ratios to fixed ones (docs/encodings.md)"
    yield from encodings.time_table(encodings.measure(rounds, seconds))


def _in_turn(programs: dict[str, str], rounds: int) -> dict[str, tuple[float, ...]]:
    """What each program says of itself, in milliseconds of processor time, in a fresh process a round."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            command = [sys.executable, "-c", FRESH.format(program)]
            taken[name].append(json.loads(subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout))
    return {name: tuple(values) for name, values in taken.items()}


def _at_least(ratio: Ratios, target: float) -> str:
    return f"   target {target:g}: {'reached' if ratio.median >= target else 'MISSED'}"


def _at_most(ratio: Ratios, target: float) -> str:
    return f"   target {target:g}: {'reached' if ratio.median <= target else 'MISSED'}"


# name -> (rounds, seconds) -> lines
PARTS: dict[str, Callable[[int, float], Iterator[str]]] = {
    "messages": whole_messages,
    "projection": projection,
    "heads": heads,
    "imports": imports,
    "first-use": first_use,
    "records": record_batches,
    "encodings": integer_encodings,
}

if __name__ == "__main__":
    sys.exit(main())
