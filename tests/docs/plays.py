"""How the commands of each page are run, and why some are not.

A word between two `@` is the fixture of that name in `test_plays.py`, such as a broker's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.brokers.children import KEEPS_NOTHING_FREE


@dataclass(frozen=True)
class Play:
    """How the commands of a page are run.

    Attributes:
        first: commands before those of the page, which make what a reader has: files, other captures.
        replaced: words of the page's commands -> those that are run. A command that goes on for ever is run by
            `begin` or `until_said` (`shown.py`), with what it says once it works.
        says: what the commands print, among other things; each command itself is printed, too.
        is_long: whether the test is left to `make test-long`.
    """

    first: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    is_long: bool = True


CAPTURE = "cp -r @kafka_capture@ capture\n"
OF_A_MOCK = "cp -r @mock_capture@ capture\n"
BROKERS = {"broker-1:9092,broker-2:9092": "@kafka@", "127.0.0.1:19092": "127.0.0.1:@port@"}
# a dry run says by its exit code, too, that the target lacks topics
LACKS_TOPICS = "--dry-run || [ $? = 2 ] "
# what is played for the second time has answers that differ: a group's offsets are there already
DIFFERS = "--report replay.html || [ $? = 1 ]\n"
# what a stream says once it runs: its newest windows are held back
HELD = "'wait for the watermark'"
STREAM = "kafka-wiretap stream capture --output"
# a proxy that records, also where the disk is nearly full
ON_FULL_DISKS = " ".join(("env", *map("=".join, KEEPS_NOTHING_FREE.items()), "kafka-wiretap proxy"))
STARTED = "'node found' kafka-wiretap proxy"
SETTINGS = """
(umask 077; echo of-sixteen-letters > token)
cat > wiretap.toml <<'END'
metrics = "127.0.0.1:@admin_port@"
[clusters.main]
upstream = ["@kafka@"]
listen = "127.0.0.1:@port@"
[live]
token_file = "token"
END
"""
WITH_LOGIN = """
printf '%s' '@password@' > password
cat > login.toml <<'END'
[login."*"]
mechanism = "PLAIN"
username = "@user@"
password_file = "password"
END
cat > wiretap.toml <<'END'
[clusters.main]
upstream = ["@login_kafka@"]
listen = "127.0.0.1:@port@"
END
"""
# what `wire decode` reads: a response, a segment of a log, a record's value, a response of Kafka 0.7
WIRE_FILES = """
python - <<'END'
from pathlib import Path
from proxy import wire
from proxy.wire import kafka07, records

key = bytes.fromhex("000100016700017400000003")
Path("frame.bin").write_bytes(wire.encode_response(1, 12, correlation_id=1, values={}))
Path("00000000000000000000.log").write_bytes(records.write_batch([records.Record(0, key=key)]))
Path("value.bin").write_bytes(bytes.fromhex("0003 0000000000000007 ffffffff 0000 0000000000000000"))
Path("answer.bin").write_bytes(kafka07.encode_response(kafka07.FetchResponse(0, b"")))
END
"""

# page, from the repository's root on -> how its commands are run
PLAYS: Mapping[str, Play] = {
    "README.md": Play(
        first=f"{CAPTURE} cp -r capture before; cp -r capture after; cp -r @root@/examples .\n{SETTINGS}",
        replaced={
            **BROKERS,
            "broker-1:9092": "@kafka@",
            "127.0.0.1:9464": "127.0.0.1:@admin_port@",
            "kafka-wiretap proxy --config examples/": f"until_said {STARTED} --config ",
            "kafka-wiretap proxy --upstream": f"until_said {STARTED} --upstream",
            "kafka-wiretap inspect errors": "until_said . kafka-wiretap inspect errors",
            "kafka-wiretap stream": f"until_said {HELD} kafka-wiretap stream",
            "--cloudevents findings": "--cloudevents @topic@",
            "http://collector:4318": "@collector@",
            "test:9092": "@empty_kafka@",
            "--dry-run  ": LACKS_TOPICS,
            "--yes --report replay.html\n": "--yes --report replay.html\n"
            f"kafka-wiretap replay capture --to @empty_kafka@ --speed max --yes {DIFFERS}",
            "replay.html 3": "replay.html 1",
        },
    ),
    "docs/analysis.md": Play(
        first=f"{CAPTURE} cp -r capture monday; cp -r capture tuesday; echo 'slow = 5' > own.toml",
        says=("No difference.",),
    ),
    "docs/cloudevents.md": Play(
        first=f"{CAPTURE} echo acks=all > client.properties",
        replaced={"broker:9092": "@kafka@", "--cloudevents findings": "--cloudevents @topic@"},
    ),
    "docs/clusters.md": Play(
        first=CAPTURE,
        replaced={
            "/captures/today": '"$PWD/capture"',
            "spark://host:7077": "@spark@",
            "executor.memory=2g": "executor.memory=512m",
            "kafka-wiretap stream capture --output windows  ": f"until_said {HELD} {STREAM} windows",
            "kafka-wiretap stream capture --output by": f"until_said {HELD} {STREAM} by",
        },
    ),
    "docs/encodings.md": Play(first=CAPTURE),
    "docs/inspect.md": Play(first=OF_A_MOCK, is_long=False),
    "docs/kafka-4.md": Play(first=OF_A_MOCK, is_long=False),
    "docs/kubernetes.md": Play(
        first="cp -r @root@/deploy @root@/dashboards . && cd deploy/kubernetes/examples/front", is_long=False
    ),
    "docs/mcp.md": Play(first=CAPTURE, replaced={"/var/captures": "."}),
    "docs/operate-recorder.md": Play(
        first="export @store@\ncat > wiretap.toml <<'END'\n@operators_settings@\nEND\n",
        replaced={
            "kafka-wiretap proxy": f"begin {STARTED}",
            "kafka-wiretap inspect /var/lib/kafka-wiretap": "kafka-wiretap check --upstream 127.0.0.1:@port@\n"
            "kill $! && wait $!\nkafka-wiretap inspect recorded",
            # what the proxy leaves behind is shipped after its end
            "kafka-wiretap inspect s3://bucket/captures/orders": "until_there s3://bucket/captures/orders",
        },
    ),
    "docs/page.md": Play(
        first=CAPTURE,
        replaced={
            "kafka-wiretap view": "until_said http:// kafka-wiretap view",
            "TOKEN_FILE=token kafka-wiretap proxy": f"TOKEN_FILE=token until_said {STARTED}",
            "broker-1:9092": "@kafka@",
            "127.0.0.1:19092": "127.0.0.1:@port@",
            "127.0.0.1:9465": "127.0.0.1:@admin_port@",
        },
    ),
    "docs/pcap.md": Play(first=f"{CAPTURE} kafka-wiretap export --pcapng capture dump.pcap; mv capture recorded"),
    "docs/privacy.md": Play(first=f"{CAPTURE} head -c 32 /dev/urandom > hash.key; chmod 600 hash.key"),
    "docs/proxy/check.md": Play(
        first=WITH_LOGIN, replaced={"broker-1:9092,broker-2:9092": "@kafka@", "--topic probe": "--topic @topic@"}
    ),
    "docs/proxy/reload.md": Play(first=f"{SETTINGS} begin {STARTED} --config wiretap.toml", replaced={"PID": "$!"}),
    "docs/proxy/start.md": Play(replaced={**BROKERS, "kafka-wiretap proxy": f"until_said {STARTED}"}),
    "docs/replay.md": Play(
        first=CAPTURE,
        replaced={
            "test:9092": "@empty_kafka@",
            "--dry-run  ": LACKS_TOPICS,
            "--report replay.html\n": f"--yes {DIFFERS}",
            "replay.html 3": "replay.html 1",
        },
    ),
    "docs/replay-in-ci.md": Play(first=f"TARGET=@mock@; {OF_A_MOCK}", says=("Nothing is missing",), is_long=False),
    "docs/scale.md": Play(first=CAPTURE, replaced={"FOLDER": "capture"}),
    "docs/sidecar.md": Play(
        replaced={"broker-3.example.org:9092": "@mock@"}, says=("clusters.main.own_node = 3",), is_long=False
    ),
    "docs/top.md": Play(
        first=SETTINGS,
        replaced={
            "/etc/wiretap/token": "token",
            "kafka-wiretap proxy": f"begin {STARTED}",
            # `top` needs a terminal
            "kafka-wiretap top 127.0.0.1:9464 --token-file token": "until_said err/s script -qefc "
            "'kafka-wiretap top 127.0.0.1:@admin_port@ --token-file token' /dev/null",
        },
    ),
    "docs/tracing.md": Play(
        first=f"{CAPTURE} (umask 077; echo 'Authorization: Bearer me' > headers.txt)",
        replaced={"http://collector:4318": "@collector@", "https://collector.example": "@collector@"},
    ),
    "docs/tutorial.md": Play(
        replaced={"19092": "@port@", "kafka-wiretap proxy": ON_FULL_DISKS}, says=("Nothing is missing",), is_long=False
    ),
    "docs/wire.md": Play(first=WIRE_FILES),
}

# page, the beginning of a fence's first command -> why no test runs the fence, and what shows that it is right
NOT_RUN: Mapping[tuple[str, str], str] = {
    ("CONTRIBUTING.md", "make setup"): "the targets are those of the Makefile: tests/scripts/test_makefile.py",
    ("CONTRIBUTING.md", "python3 -m venv"): "needs the package index: tests/packaging/test_environments.py runs it",
    ("README.md", "make demo"): "sets the machine up: tests/recorder/demo, tests/scripts/test_setup.py",
    ("README.md", "python3 -m venv"): "needs the package index: tests/packaging/test_environments.py installs them",
    ("docs/clusters.md", "pip install pex"): "needs the package index, and 100 MB of it",
    ("docs/kubernetes.md", "kubectl diff"): "needs a cluster: tests/deploy/test_kubernetes.py validates what it gets",
    ("docs/kubernetes.md", "kubectl exec"): "needs a cluster: README.md's commands are the same without kubectl",
    ("docs/pcap.md", "tcpdump"): "needs the right to capture packets: tests/clients/test_dumps.py records with it",
    ("docs/pcap.md", "wireshark"): "needs a screen: tests/recorder/export/test_pcapng.py reads dumps with tshark",
    ("docs/performance.md", "make bench"): "takes half an hour and more: tests/bench runs its parts",
    (
        "docs/tutorial.md",
        "python3 -m venv",
    ): "needs the package index: tests/packaging/test_environments.py installs it",
}
