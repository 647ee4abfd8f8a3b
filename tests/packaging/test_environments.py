"""Tests of what each extra brings: an environment gets the wheel with exactly that extra, and then every command runs.

A command either does its work, or refuses in one line that names the extras to install. All commands of an environment
run in one process of it, so that Spark's JVM starts once.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PathDistribution, distribution
from itertools import compress
from operator import not_
from pathlib import Path

import pytest
from click import Context
from confluent_kafka import Producer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from proxy import wire
from proxy.cli import main as cli
from tests.brokers import children
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.packaging.conftest import PROJECT
from tests.s3 import store

# seconds that an environment may take on a busy machine: pip unpacks up to a gigabyte
TIMEOUT = 1500
# PushTelemetry of a client that measures nothing
PUSHED = wire.encode_request(
    72,
    0,
    correlation_id=1,
    client_id="me",
    values={
        "client_instance_id": bytes(16),
        "subscription_id": 1,
        "terminating": False,
        "compression_type": 0,
        "metrics": b"\n\x00",
    },
)
COMMANDS = (
    # arguments                                                      the extras that it needs
    ("--version", ""),
    ("config check wiretap.toml", ""),
    ("config reference", ""),
    ("check --upstream {target}", ""),
    ("config metrics", ""),
    ("compact capture --merge merged", ""),
    ("facts capture", ""),
    ("prune capture --keep-age 7d", ""),
    ("inspect capture", ""),
    ("inspect exchanges capture --api Produce", ""),
    ("inspect frames capture --limit 3", ""),
    ("inspect exchanges capture 'size > 1' -o id,topic,error", ""),
    ("inspect records capture", ""),
    ("inspect records capture --schema-registry .", "schemas"),
    ("inspect latency capture", ""),
    ("inspect topics capture", ""),
    ("inspect clients capture", ""),
    ("inspect show capture 1/0", ""),
    ("wire list", ""),
    ("wire show metadata 12", ""),
    (f"wire decode --hex {PUSHED.hex()}", ""),
    ("wire errors 79", ""),
    ("replay capture --to {target} --create-topics --dry-run", ""),
    ("replay capture --to {target} --create-topics --speed max --yes --report replay.json", ""),
    ("replay capture --to {target} --create-topics --dry-run --report replay.html", "report"),
    ("spark-package package", ""),
    ("ship capture s3://bucket/folder --endpoint {store} --region here --credentials keys", "ship"),
    ("inspect groups capture", "analysis"),
    ("redact capture redacted --records drop", "analysis"),
    ("sql capture tables", "analysis"),
    ("sql capture describe frames", "analysis"),
    ("sql capture 'select api from exchanges'", "analysis"),
    ("analyze capture", "analysis"),
    ("encodings capture", "analysis"),
    ("stream capture --output windows --once", "analysis"),
    ("report --rules", "analysis"),
    ("report capture -o report.html", "analysis,report"),
    ("compare capture capture -o changes.html", "analysis,report"),
    ("export --pcapng capture dump.pcapng", "pcap"),
    ("import dump.pcapng imported", "pcap"),
    ("mcp capture", "mcp"),
    ("export capture --otlp http://127.0.0.1:1 --where 'api == Heartbeat'", "otlp"),
    ("export capture --cloudevents findings --bootstrap {target}", "export"),
    ("demo --folder demo", "demo"),
)
# what takes a minute and more with the packages of the README's line, and is tried with them elsewhere
SLOW = ("demo --folder demo", "compare capture capture -o changes.html", "encodings capture")
# the same packages at work for other formats
OTHER_FORMATS = (
    ("report capture -o report.md", "analysis"),
    ("compare capture capture", "analysis"),
)
# what pip is told -> the extras that are then there
PLAIN = ""
(READMES,) = re.findall(r"/pip install '\.\[(.*)\]' ", (PROJECT / "README.md").read_text())
ENVIRONMENTS = {
    "analysis": {"analysis"},
    "hash": {"hash"},
    "report": {"report"},
    "schemas": {"schemas"},
    "telemetry": {"telemetry"},
    "ship": {"ship"},
    "export": {"analysis", "export"},
    "page": {"page"},
    "pcap": {"pcap"},
    "top": {"top"},
    # its SDK brings the packages of the page
    "mcp": {"analysis", "mcp", "page"},
    # its messages are those that clients push
    "otlp": {"otlp", "telemetry"},
    "demo": {"analysis", "report", "demo"},
}
# what those need who test the proxy alone
TEST = "test"
# runs in the environment: the commands come in, and what each did goes out
DRIVER = """
import json, sys, traceback
from click.testing import CliRunner
from proxy.cli import main

def run(arguments):
    done = CliRunner().invoke(main, arguments)
    error = done.exception
    trace = [] if error is None or isinstance(error, SystemExit) else traceback.format_exception(error)
    return done.exit_code, done.stdout, done.stderr, "".join(trace)

json.dump([run(arguments) for arguments in json.load(sys.stdin)], open(sys.argv[1], "w"))
"""


@contextmanager
def environment(
    built: Path, folder: Path, extras: str, *, is_linked: bool = False, suffix: str = ".whl"
) -> Iterator[Path]:
    """The programs of a new environment in which a distribution is installed as users do it; it goes with the block.

    `is_linked`: what the wheel needs is not unpacked, but linked from this process' own environment.
    `suffix`: the distribution's, of those that were built.
    """
    (archive,) = built.glob(f"*{suffix}")
    try:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        # compiled when imported: few modules of the large packages ever are
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
        pip += [
            "--no-compile",
            *(["--no-deps"] if is_linked else []),
            f"{archive}[{extras}]" if extras else str(archive),
        ]
        done = subprocess.run(pip, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if is_linked:
            (packages,) = folder.glob("lib/*/site-packages")
            for package in needed(archive, extras):
                link(package, packages)
        yield folder / "bin"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def needed(wheel: Path, extras: str) -> list[Distribution]:
    """What pip would install beside the wheel with these extras, as it is in this process' own environment."""
    own = PathDistribution(next(path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info")))
    found: dict[str, Distribution] = {canonicalize_name(own.metadata["Name"]): own}
    seen, asked = set[tuple[str, str]](), [(name, extra) for name in found for extra in ("", *extras.split(","))]
    while asked:
        name, extra = one = asked.pop()
        if one in seen:
            continue
        seen.add(one)
        if name not in found:
            found[name] = distribution(name)
        for needs in map(Requirement, found[name].requires or ()):
            if needs.marker is None or needs.marker.evaluate({"extra": extra}):
                asked += [(canonicalize_name(needs.name), wanted) for wanted in ("", *needs.extras)]
    return [package for package in found.values() if package is not own]


def link(package: Distribution, folder: Path) -> None:
    """Puts links to a package's files into a `site-packages`, and to what Python has compiled of them."""
    for file in package.files or ():
        # programs lie outside; no command starts one
        if ".." not in file.parts and "__pycache__" not in file.parts:
            place, source = folder / file, Path(str(package.locate_file(file)))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source)
            compiled = source.with_name("__pycache__")
            if compiled.is_dir() and not place.with_name("__pycache__").is_symlink():
                place.with_name("__pycache__").symlink_to(compiled)


def foreign() -> dict[str, str]:
    """The environment variables without those that lead to this process' own packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}


def record(programs: Path, folder: Path) -> None:
    """Lets the environment's proxy record a few messages into `capture`."""
    log = folder / "proxy.log"
    with MockCluster(1) as upstream:
        where = ("--upstream", upstream.bootstrap, "--listen", "127.0.0.1:0", "--record", "capture")
        proxy = children.spawn(
            [str(programs / "kafka-wiretap"), "proxy", *where], output=log, cwd=folder, env=foreign()
        )
        try:
            wait_for(
                lambda: "listening on" in log.read_text(),
                "the proxy",
                hopeless=lambda: log.read_text() if proxy.poll() is not None else None,
            )
            (address,) = re.findall(r"listening on (\S+)", log.read_text())
            producer = Producer({"bootstrap.servers": address})
            for number in range(3):
                producer.produce("shop", str(number))
            assert producer.flush(PATIENCE) == 0
        finally:
            assert children.stop(proxy, seconds=PATIENCE) == 0, log.read_text()
        # the compactor may outlive the proxy, and finishes on its own
        spool = folder / "capture" / "_spool"
        wait_for(lambda: not any(each.is_dir() for each in spool.glob("*")), "the compactor")


def run_all(programs: Path, folder: Path, commands: list[str]) -> list[tuple[int, str, str, str]]:
    """(exit code, standard output, standard error, stack trace) of each command, in the environment of `programs`."""
    told = folder / "told.json"
    done = subprocess.run(
        [programs / "python", "-c", DRIVER, told],
        input=json.dumps([shlex.split(command) for command in commands]),
        cwd=folder,
        env=foreign(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(told.read_text())]


def wrong(arguments: str, lacking: list[str], done: tuple[int, str, str, str]) -> str:
    """What is wrong with a command's outcome; empty if nothing is."""
    code, out, err, trace = done
    if trace or not lacking:
        return "" if not trace and code == 0 else f"{arguments}: exit code {code}\n{err}{trace}{out[-2000:]}"
    line = rf"Error: not installed: [\w., ]+; in the project's folder, \S+ -m pip install '\.\[{','.join(lacking)}\]'\n"
    refused = code == 2 and re.fullmatch(line, err) and not out
    return "" if refused else f"{arguments}: no refusal that names {lacking}, but exit code {code}\n{err}{out}"


def check_every_command(
    built: Path,
    folder: Path,
    extras: str,
    there: set[str],
    commands: tuple[tuple[str, str], ...],
    *,
    is_linked: bool = False,
    suffix: str = ".whl",
) -> None:
    shutil.copy(PROJECT / "examples" / "wiretap.toml", folder)
    (folder / "keys").write_text("[default]\naws_access_key_id = test\naws_secret_access_key = test\n")
    with (
        environment(built, folder / "environment", extras, is_linked=is_linked, suffix=suffix) as programs,
        MockCluster(1) as target,
        store() as opened,
    ):
        opened.system().create_dir("bucket")
        record(programs, folder)
        servers = {"target": target.bootstrap, "store": opened.endpoint}
        found = run_all(programs, folder, [each.format(**servers) for each, _ in commands])
    lacking = [[extra for extra in needs.split(",") if extra and extra not in there] for _, needs in commands]
    faults = [wrong(each, lacks, done) for (each, _), lacks, done in zip(commands, lacking, found, strict=True)]
    assert "\n".join(filter(None, faults)) == ""
    (decoded,) = (out for (each, _), (_, out, _, _) in zip(commands, found, strict=True) if PUSHED.hex() in each)
    assert ("opentelemetry-proto" not in decoded) == ("telemetry" in there)


@pytest.mark.real
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("extras", [PLAIN, READMES], ids=["plain", "the README's line"])
def test_what_readers_install_first_runs_every_command_or_says_what_it_lacks(
    built: Path, tmp_path: Path, extras: str
) -> None:
    there = {*filter(None, extras.split(","))}
    is_slow = [bool(there) and each in SLOW for each, _ in COMMANDS]
    # those of each extra alone have pip unpack all
    commands = tuple(compress(COMMANDS, map(not_, is_slow)))
    check_every_command(built, tmp_path, extras, there, commands, is_linked=bool(there))


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(TIMEOUT)
def test_the_sdist_installs_what_the_wheel_does(built: Path, tmp_path: Path) -> None:
    check_every_command(built, tmp_path, PLAIN, set(), COMMANDS, suffix=".tar.gz")


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("extra", ENVIRONMENTS)
def test_an_extra_runs_every_command_or_says_what_it_lacks(built: Path, tmp_path: Path, extra: str) -> None:
    check_every_command(built, tmp_path, extra, ENVIRONMENTS[extra], COMMANDS + OTHER_FORMATS)


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(TIMEOUT)
def test_the_extra_test_is_all_that_the_proxys_fast_tests_need(built: Path, tmp_path: Path) -> None:
    """The command of CONTRIBUTING, where no other program of this machine is found."""
    (command,) = re.findall(r"\.venv/bin/(python -m pytest tests/proxy .*)", (PROJECT / "CONTRIBUTING.md").read_text())
    with environment(built, tmp_path / "environment", TEST) as programs:
        python, *arguments = shlex.split(command)
        alone = foreign() | {"PATH": str(programs)}
        done = subprocess.run([programs / python, *arguments], cwd=PROJECT, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


def test_every_extra_for_users_has_its_environment() -> None:
    told = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert told["project"]["optional-dependencies"].keys() - {"dev", "docs", TEST} == ENVIRONMENTS.keys()


def test_the_image_has_what_a_plain_installation_has_unless_it_is_built_with_more() -> None:
    text = (PROJECT / "Dockerfile").read_text()
    (installed,) = re.findall(r"pip --python \S+ install (.*)", text)
    assert installed.endswith('"$(ls /wheels/*.whl)${EXTRAS}"')
    assert "\nARG EXTRAS=\n" in text


def test_every_command_stands_in_the_table() -> None:
    # each environment's own proxy records the capture
    # these run until they are ended
    endless = {"proxy", "top", "view"}
    assert {each.split()[0] for each, _ in COMMANDS} - {"--version"} | endless == {*cli.list_commands(Context(cli))}
