"""`kafka-wiretap export`: a capture's findings, published as CloudEvents; its frames as a packet dump; or spans.

Of the findings, the command checks everything that can be wrong before Spark starts: the options, the packages, the
cluster, the topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.status import Status

from proxy.command_line import folders, text
from proxy.limited_files import UnusableFile, text_of
from proxy.option_types import BROKERS, FILE, POSITION, of_kind
from proxy.schema.addresses import COLLECTOR, Address
from proxy.terminal import echo, printable
from proxy.wire.texts import is_topic
from recorder import extras, reporting, spark_options
from recorder.export.dumping import write_dump
from recorder.export.message import Mode
from recorder.export.refused import CantExport
from recorder.export.traces import send_spans
from recorder.filters import SINCE, UNTIL
from recorder.inspect.options import complete_where
from recorder.terminal import cell, console, count

MAPPERS = ("partitionkey",)
# the characters that a URI may have
_URI = re.compile(r"[!#-;=?-Z_a-z~\[\]]+")


def _topic(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_topic(value):
        raise CantExport(f"{value!r} is no topic's name: right would be up to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    return value


def _source(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _URI.fullmatch(value):
        raise CantExport(f"--source: {value!r} is no URI; right would be /wiretap/production")
    return value


def _producer(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    return dict(_pair(value, "--producer") for value in values)


def _producer_file(_context: click.Context, _option: click.Parameter, path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        lines = [line.strip() for line in text_of(path).splitlines()]
    except UnusableFile as error:
        raise CantExport(f"{printable(path)} {error}") from None
    return dict(_pair(line, str(path)) for line in lines if line and not line.startswith("#"))


def _pair(written: str, where: str) -> tuple[str, str]:
    """A setting's name and value. The value may be a secret, so the error does not repeat it. Errors: CantExport."""
    name, sign, value = written.partition("=")
    if not sign or not name.strip():
        raise CantExport(f"{printable(where)}: a setting has a name and a value; right would be linger.ms=5")
    return name.strip(), value.strip()


@click.command(short_help="Publish a capture's findings as CloudEvents; write its frames as a packet dump; send spans.")
@click.argument("folder", shell_complete=folders)
@click.argument("file", required=False, type=FILE)
@click.option("--pcapng", is_flag=True, help="Write the frames to FILE, as packets for Wireshark.")
@click.option(
    "--where",
    "where_filters",
    type=text,
    metavar="FILTER",
    multiple=True,
    shell_complete=complete_where,
    help="With --pcapng or --otlp: only exchanges that pass this filter, as inspect exchanges lists them.",
)
@click.option(
    "--otlp",
    "collector",
    type=of_kind(COLLECTOR, "http://collector:4318"),
    help="Send exchanges as spans to this collector (OTLP over HTTP).",
)
@click.option("--every", type=POSITION, default=1, show_default=True, help="With --otlp: each N-th exchange.")
@click.option(
    "--otlp-headers", "headers", type=FILE, metavar="FILE", help="With --otlp: headers in a file, NAME: VALUE a line."
)
@click.option(
    "--cloudevents",
    "topic",
    metavar="TOPIC",
    callback=_topic,
    type=text,
    help="The topic, which must exist.",
)
@click.option(
    "--bootstrap",
    type=BROKERS,
    help="Brokers of the cluster, with commas between.",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default="binary",
    show_default=True,
    help="binary: attributes as headers; structured: the whole event as JSON, for clusters before Kafka 0.11.",
)
@click.option("--key", type=text, help="The key of all records. Default: none.")
@click.option(
    "--key-mapper",
    type=click.Choice(MAPPERS),
    help="Make record keys from events: partitionkey is a finding's subject, so one partition gets all of a subject.",
)
@click.option(
    "--source",
    type=text,
    callback=_source,
    metavar="URI",
    help="The events' source. Default: /kafka-wiretap/ and the folder's name.",
)
@click.option(
    "--producer",
    multiple=True,
    callback=_producer,
    type=text,
    metavar="NAME=VALUE",
    help="A setting of librdkafka's, such as security.protocol=SSL. Repeatable.",
)
@click.option(
    "--producer-config",
    type=click.Path(path_type=Path),
    callback=_producer_file,
    metavar="FILE",
    help="librdkafka's settings in a file, a line each: the place for passwords.",
)
@reporting.THRESHOLDS
@SINCE
@UNTIL
@spark_options.asking
def export(
    folder: str,
    file: Path | None,
    pcapng: bool,
    where_filters: tuple[str, ...],
    collector: str | None,
    every: int,
    headers: Path | None,
    topic: str | None,
    bootstrap: tuple[Address, ...] | None,
    mode: str,
    key: str | None,
    key_mapper: str | None,
    source: str | None,
    producer: dict[str, str],
    producer_config: dict[str, str],
    thresholds: Path | None,
    since: Any,
    until: Any,
    where: spark_options.Where,
) -> None:
    """Publish the findings of the capture in FOLDER as CloudEvents, one event for each finding of `report`.

    With --pcapng, write its frames to FILE instead, as a packet dump with what the capture knows as comments
    (docs/pcap.md). With --otlp, send its exchanges to a collector instead, as OpenTelemetry spans (docs/tracing.md).

    An event's type is kafka-wiretap.finding.RULE. Its subject is what the finding is about, and its data is the finding
    as JSON. The same capture, times and thresholds give the same id each time. The topic must exist: the command does
    not create it.

    Exit code 2: the topic can't be written, and nothing was; 1: it refused a later event, or a
    file of the capture can't be read.

    \b
    To a topic:                  kafka-wiretap export capture --cloudevents findings --bootstrap broker:9092
    By what they are about:      kafka-wiretap export capture --cloudevents findings --bootstrap broker:9092 \\
                                     --key-mapper partitionkey
    With a login:                ... --producer-config client.properties
    To Wireshark:                kafka-wiretap export --pcapng capture dump.pcapng
    To a collector:              kafka-wiretap export capture --otlp http://collector:4318 --every 100
    """
    if sum((pcapng, collector is not None, topic is not None)) > 1:
        raise CantExport("--pcapng, --otlp and --cloudevents are three exports: right would be one of them")
    if collector is None and (headers is not None or every != 1):
        raise CantExport("--every and --otlp-headers are for spans; right would be --otlp URL as well")
    if pcapng:
        write_dump(folder, file, where_filters, since, until)
        return
    if collector is not None:
        send_spans(folder, collector, headers, every, where_filters, since, until)
        return
    _check_published(file, where_filters, topic, bootstrap)
    assert topic is not None
    assert bootstrap is not None
    if key is not None and key_mapper is not None:
        raise CantExport("--key and --key-mapper both say what the key is: right would be one of them")
    extras.check("export")
    from recorder.export.events import Form, source_of
    from recorder.export.publisher import Publisher

    form = Form(source or source_of(str(Path(folder).absolute())), Mode(mode), key, key_mapper is not None)
    own = reporting.own_thresholds(thresholds)
    where.check()
    place, _ = spark_options.place_of(folder, where)
    brokers = ",".join(map(str, bootstrap))
    publisher = Publisher(brokers, topic, {**producer_config, **producer}, form.mode is Mode.BINARY)
    with _at_work(f"looking for {topic} at {brokers} ..."):
        publisher.check()
    found = _findings(place, spark_options.ns_of(since, place), spark_options.ns_of(until, place), own)
    messages = [form.message(one) for one in found.in_order]
    with _at_work(f"publishing {count(len(messages), 'finding')} to {topic} ..."):
        partitions = publisher.publish(messages)
    _tell(found, topic, partitions)
    spark_options.end_with(place.broken)


def _check_published(
    file: Path | None, filters: tuple[str, ...], topic: str | None, bootstrap: tuple[Address, ...] | None
) -> None:
    """Checks what CloudEvents need, and what belongs to other exports. Errors: CantExport."""
    if file is not None:
        raise CantExport(f"{printable(file)} is for packet dumps; right would be --pcapng as well")
    if filters:
        raise CantExport("--where is for packet dumps and spans; right would be --pcapng or --otlp URL as well")
    if topic is None and bootstrap is None:
        raise CantExport(
            "nothing says what to export; right would be --cloudevents TOPIC --bootstrap HOST:PORT, --pcapng, or "
            "--otlp URL"
        )
    if topic is None:
        raise CantExport("no topic; right would be --cloudevents findings as well")
    if bootstrap is None:
        raise CantExport("no cluster; right would be --bootstrap broker:9092 as well")


def _at_work(doing: str) -> Status:
    """A context: a terminal shows `doing` while the block runs."""
    return console(stderr=True).status(cell(doing))


def _findings(place: Any, since_ns: int | None, until_ns: int | None, own: Mapping[str, float]) -> Any:
    from recorder.analysis.running import ask
    from recorder.analysis.summarize import findings

    with _at_work("judging the capture ..."):
        return ask(place, partial(findings, since_ns=since_ns, until_ns=until_ns, own=own))


def _tell(found: Any, topic: str, partitions: Mapping[int, int]) -> None:
    if found.not_judged is not None:
        echo(f"nothing published: {found.not_judged}")
    elif not partitions:
        echo("nothing published: there are no findings")
    else:
        told = ", ".join(f"{number} ({of_it})" for number, of_it in partitions.items())
        named = "partition" if len(partitions) == 1 else "partitions"
        echo(f"published {count(sum(partitions.values()), 'finding')} to {topic}: {named} {told}")
