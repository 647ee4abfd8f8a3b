import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "scripts" / "check-dockerfile"
DOCKERFILE = PROJECT / "Dockerfile"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_loader("check_dockerfile", SourceFileLoader("check_dockerfile", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(script: ModuleType, tmp_path: Path):
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "a.txt").write_text("a")
    return script.Build(tmp_path)


@pytest.mark.long
@pytest.mark.real
def test_the_dockerfiles_commands_work_in_a_clean_environment() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.endswith("the Dockerfile's commands work\n")


def test_the_last_stage_installs_nothing_and_does_not_run_as_root(script: ModuleType) -> None:
    found = list(script.instructions(DOCKERFILE.read_text()))
    last = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    assert [name for name, _ in found].count("FROM") == 2
    assert "RUN" not in [name for name, _ in found[last:]]
    assert dict(found[last:])["USER"].split(":")[0].isdecimal()
    assert dict(found[last:])["USER"].split(":")[0] != "0"


def test_an_instruction_is_read_over_several_lines_without_its_comments(script: ModuleType) -> None:
    text = "# first\nFROM x AS y\n\nrun a \\\n    # why\n    && b\n"
    assert list(script.instructions(text)) == [("FROM", "x AS y"), ("RUN", "a && b")]


def test_a_stage_sees_only_the_files_copied_into_it(build) -> None:
    build.run(
        "FROM python:3-slim AS one\nWORKDIR /src\nCOPY a.txt ./\nRUN mkdir /made && cp a.txt /made/b.txt\n"
        "FROM python:3-slim AS two\nCOPY --from=one /made /kept\n"
        "RUN test -f /kept/b.txt && test ! -e /src && test ! -e /made"
    )
    assert (build.stages["two"] / "kept" / "b.txt").read_text() == "a"


def test_arguments_and_environment_reach_the_commands(build) -> None:
    build.run("ARG V=3.13\nFROM python:${V}-slim AS one\nENV GREETING=hello\nRUN test $GREETING = hello")
    assert build.arguments == {"V": "3.13"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ADD a b", "ADD is not understood"),
        ("FROM debian AS one", "slim image of Python"),
        ("FROM python:3-slim AS one\nCOPY nothing.txt ./", "no nothing.txt"),
        ("FROM python:3-slim AS one\nCOPY --link=true a.txt ./", "not understood"),
    ],
)
def test_an_instruction_that_can_not_be_carried_out_is_named(script: ModuleType, build, text: str, reason: str) -> None:
    with pytest.raises(script.Wrong, match=reason):
        build.run(text)


def test_a_failing_command_ends_the_build(build) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        build.run("FROM python:3-slim AS one\nRUN false")


@pytest.mark.parametrize("user", ["root", "0", "0:0"])
def test_an_image_that_runs_as_root_is_refused(script: ModuleType, build, user: str) -> None:
    build.user = user
    with pytest.raises(script.Wrong, match="root"):
        script.check_image(build)
