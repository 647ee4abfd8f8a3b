"""The command `import`: a packet dump becomes a session of a capture."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.limited_files import UnusableFile
from proxy.option_types import FILE, FOLDER, Whole
from proxy.schema.flags import CAPTURE, MAIN
from proxy.terminal import echo, printable
from proxy.version import program_version
from proxy.wire.dialects import Dialect
from recorder import extras
from recorder.capture.record_rules import RIGHT_KEY
from recorder.capture.selection import as_told
from recorder.capture.session import FolderError, RecordSettings, WhenFull
from recorder.capture.spool import short_name
from recorder.ready import troubles
from recorder.selection_options import SETTINGS, selecting
from recorder.terminal import console, count, size

if TYPE_CHECKING:
    from recorder.capture.tap import Tap
    from recorder.capture.writer import Clock
    from recorder.pcap.importing import Import, Session
    from recorder.pcap.tls import TlsImport

# packets between two words on how far the import is
_SAY_EACH = 20_000
# the setting that selects what is recorded and is not for a dump, which has one cluster
_NOT_HERE = "clusters"


class CantImport(click.ClickException):
    """A dump that can't be imported, or not to its end. The message is one line."""

    exit_code = 2


@click.command("import", short_help="Make a capture of a packet dump, without a proxy.")
@click.argument("file", type=FILE)
@click.argument("folder", type=FOLDER)
@click.option(
    "--port",
    "ports",
    type=Whole(1, 65535, "9092"),
    multiple=True,
    help="A port of brokers; repeatable. Default: whoever speaks Kafka is found by looking.",
)
@click.option(
    "--dialect",
    type=click.Choice([one.value for one in Dialect]),
    default=Dialect.KAFKA.value,
    show_default=True,
    help="What the brokers speak; kafka-0.7 needs --port.",
)
@click.option("--tls-keys", type=FILE, help="A log of TLS keys (SSLKEYLOGFILE): tshark decrypts by it. Needs --port.")
@selecting(*(name for name in SETTINGS if name != _NOT_HERE))
def import_dump(
    file: Path, folder: Path, ports: tuple[int, ...], dialect: str, tls_keys: Path | None, **selected: Any
) -> None:
    """Turn the packet dump FILE (pcap, pcapng) into a session of the capture in FOLDER, as if a proxy had recorded it.

    Times are the packets'. Secrets are masked before anything is written, and the options below choose what is kept, as
    the settings of `capture` do. Bytes that the dump lacks are gaps (cause not_captured); connections that are older
    than the dump are picked up at a frame.

    Exit code 2: the file is no dump, is cut or damaged, or holds no Kafka. What could be read of it is imported.

    \b
    tcpdump -i any -s 0 -w dump.pcap 'port 9092'
    kafka-wiretap import dump.pcap capture
    kafka-wiretap inspect capture
    """
    given = {name: value for name, value in selected.items() if value is not None}
    settings = replace(RecordSettings(), cluster=MAIN, when_full=WhenFull.WAIT, **given)
    settings = replace(settings, in_force=as_told(settings, CAPTURE))
    extras.check("pcap", *["hash"] * settings.encrypts)
    _check(ports, Dialect(dialect), tls_keys)
    if settings.hashed and settings.hash_key is None:
        raise CantImport("the rule hash needs a key; right would be --hash-key FILE")
    try:
        fault = _imported(file, folder, frozenset(ports), Dialect(dialect), tls_keys, settings)
    except UnusableFile as error:
        raise CantImport(f"--hash-key {printable(settings.hash_key)} {error}; right would be {RIGHT_KEY}") from error
    except FolderError as error:
        raise CantImport(str(error)) from error
    except OSError as error:
        raise CantImport(f"{printable(error.filename or file)}: {error.strerror or error}") from error
    if fault is not None:
        raise CantImport(fault)


def _check(ports: tuple[int, ...], dialect: Dialect, tls_keys: Path | None) -> None:
    if dialect is Dialect.KAFKA_07 and not ports:
        raise CantImport("Kafka 0.7 can't be found by looking; right would be --port 9092 as well")
    if tls_keys is not None and not ports:
        raise CantImport("--tls-keys needs the brokers' ports; right would be --port 9093 as well")
    if tls_keys is not None and not tls_keys.is_file():
        raise CantImport(f"{printable(tls_keys)} is no file; right would be the SSLKEYLOGFILE of the clients")


def _imported(
    file: Path,
    folder: Path,
    ports: frozenset[int],
    dialect: Dialect,
    tls_keys: Path | None,
    settings: RecordSettings,
) -> str | None:
    """Imports, compacts and makes facts. Returns what is wrong, if anything is. Errors: FolderError, OSError."""
    from recorder.capture.compactor import compact
    from recorder.capture.compactor_child import CompactorChild
    from recorder.capture.tap import compactor_command, open_tap
    from recorder.pcap.dump import UnreadableDump, packets
    from recorder.pcap.importing import Import, Session
    from recorder.pcap.tls import CantDecrypt, TlsImport, decrypted

    children: list[CompactorChild] = []

    def begin(clock: Clock) -> Tap:
        tap = open_tap(folder, settings, clock=clock)
        command = compactor_command(folder, tap.session, with_keys=settings.encrypts)
        children.append(CompactorChild(tap, command))
        return tap

    session, fault = Session(begin, _source(file), dialect), None
    read: Import | TlsImport = Import(session, ports) if tls_keys is None else TlsImport(session, ports)
    try:
        with console(stderr=True).status("importing ...") as status:
            if isinstance(read, TlsImport):
                for packet in decrypted(file, Path(tls_keys or ""), ports):
                    read.take(packet)
            else:
                for number, one in enumerate(packets(file)):
                    read.take(one.at_ns, one.link, one.data)
                    if number % _SAY_EACH == 0:
                        status.update(
                            f"importing: {count(number, 'packet')}, {count(session.connections, 'connection')} ..."
                        )
    except UnreadableDump as error:
        fault = f"{printable(file)} {error}"
    except CantDecrypt as error:
        fault = str(error)
    finally:
        read.close()
        session.close()
        for child in children:
            child.close()
    if session.tap is None:
        return fault or _nothing(file, read)
    wrong = [*troubles(compact(folder, only_own=True)), *_facts(folder)]
    _tell(folder, session, read)
    for trouble in wrong:
        echo(f"Error: {trouble}", err=True)
    if wrong and fault is None:
        sys.exit(1)
    return fault and f"{fault}; what was read before is imported"


def _source(file: Path) -> dict[str, Any]:
    """What the session's row says of its origin. Errors: OSError."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        of_bytes = opened.tell()
    name = short_name(printable(file.name))
    return {"file": name, "bytes": of_bytes, "sha256": digest, "version": program_version()}


def _facts(folder: Path) -> list[str]:
    """Makes the facts that are missing. Returns what went wrong."""
    from recorder.capture.fact_maker import Busy, make_missing
    from recorder.facts_at_hand import cores, facts_counted

    with facts_counted() as (_, say):
        try:
            failed = make_missing(folder, processes=cores(), say=say)
        except Busy as error:
            return [str(error)]
    return [f"no facts of {printable(one.stem)}: {printable(one.reason)}" for one in failed]


def _nothing(file: Path, read: Import | TlsImport) -> str:
    """Why nothing was imported."""
    from recorder.pcap.importing import Import
    from recorder.pcap.looking import Found

    if not isinstance(read, Import):
        return f"{printable(file)}: tshark could decrypt nothing; right would be the keys of these connections"
    if read.others[Found.TLS]:
        spoken = count(read.others[Found.TLS], "connection")
        return f"{printable(file)} has TLS alone ({spoken}); right would be --tls-keys FILE --port PORT as well"
    found = [*_passed(read), *_others(read)]
    told = f" ({', '.join(found)})" if found else ""
    return f"{printable(file)} holds no Kafka traffic{told}; right would be a dump of brokers' ports, or --port"


def _tell(folder: Path, session: Session, read: Import | TlsImport) -> None:
    from recorder.pcap.importing import Import

    assert session.tap is not None
    recorded = session.tap.counters()
    older = f", {read.older} of them older than the dump" if isinstance(read, Import) and read.older else ""
    echo(
        f"imported {count(session.connections, 'connection')}{older}, {size(recorded['recorded_bytes'])} "
        f"into session {session.tap.session} of {printable(folder)}"
    )
    if recorded["gaps"]:
        echo(
            f"{count(int(recorded['gaps']), 'gap')}: bytes that the dump lacks, and what could not be read behind them",
            err=True,
        )
    if isinstance(read, Import):
        for line in [*_passed(read), *_others(read)]:
            echo(f"left out: {line}", err=True)
    elif read.lost:
        echo(f"tshark could not decrypt {size(read.lost)}", err=True)


def _passed(read: Import) -> list[str]:
    """The packets that say nothing, by the reason."""
    from recorder.pcap.layers import LINKS, Passed

    told = [f"{count(number, 'packet')} {why}" for why, number in read.passed.items()]
    if read.passed[Passed.LINK]:
        told.append(f"known link types are {', '.join(dict.fromkeys(LINKS.values()))}")
    return told


def _others(read: Import) -> list[str]:
    """The connections that are not recorded, by what they speak."""
    from recorder.pcap.looking import Found

    words = {
        Found.TLS: "that speak TLS",
        Found.OTHER: "that speak something else",
        Found.UNKNOWN: "with too little in it to tell",
    }
    return [f"{count(number, 'connection')} {words[what]}" for what, number in read.others.items()]
