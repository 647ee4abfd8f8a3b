"""A replay from the survey of the capture to the exit code."""

from __future__ import annotations

import gc
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType

import click
import trio

from proxy.command_line import IMPATIENT, ending_signals
from proxy.schema.errors import BadSetting
from proxy.terminal import echo, is_terminal, printable
from proxy.wire.apis import api_key
from proxy.wire.errors import OverBudget
from proxy.wire.texts import LONGEST_TOPIC
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.reader import CheckedBodies, Listing
from recorder.capture.remote import Place
from recorder.capture.session import FolderError, WhenFull
from recorder.replay.choice import Choice
from recorder.replay.cluster import Cluster
from recorder.replay.engine.standstill import NOT_DUE
from recorder.replay.engine.world import World, is_regenerated, refused_anywhere
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.outcome import Ending, Plan, ReachedTarget, Result, Source
from recorder.replay.plan import NANOSECONDS, Exchange
from recorder.replay.player.asking import asking
from recorder.replay.player.conductor import Conductor
from recorder.replay.player.dial import NotReached, Target
from recorder.replay.player.guard import Forbidden, Guard
from recorder.replay.player.recording import recording
from recorder.replay.player.target import target_of
from recorder.replay.prepare import CREATION, Preparation, Prepared, ask_for_nodes, listed
from recorder.replay.recorded_clusters import RecordedClusters, is_played, recorded_clusters
from recorder.replay.refused import Refused
from recorder.replay.rehearsal import rehearse
from recorder.replay.requests.apis import Treatment, treatment
from recorder.replay.results.live import EVERY_NS, LiveProgress, Standstill
from recorder.replay.results.planned import whole_plan
from recorder.replay.results.summary import summary
from recorder.replay.settings import BadReplaySettings, FileSettings
from recorder.replay.stream import AnswerRecorded, DiskRead, Happening, happenings, in_steps
from recorder.replay.survey import Survey, survey, tell_of_cluster
from recorder.terminal import console, counting, percent

# seconds for which the thread that reads the disk may keep the interpreter from the one that serves the sockets
_SWITCH_SECONDS = 0.0005
# glibc gives freed memory back to the kernel, but for twice the size of the largest chunk of at most 32 MiB that was
# freed so far (mallopt(3), M_MMAP_THRESHOLD). To get and clear it anew for each large frame takes a third of reading.
_KEPT_CHUNK = 16 << 20
# Objects made since the last collection, less deleted ones: an exchange in flight has some thirty.
_COLLECT_AFTER = 50_000


@dataclass(frozen=True)
class Job:
    """A replay as the command asks for it: the capture, the target, the options, the reports."""

    folder: Place
    bootstrap: tuple[tuple[str, int], ...]
    options: Options
    choice: Choice
    sessions: tuple[str, ...] = ()
    cluster: str | None = None
    file: FileSettings = field(default_factory=FileSettings)
    dry_run: bool = False
    yes: bool = False
    reports: tuple[Path, ...] = ()
    write: Callable[[Result, Path], None] = lambda result, path: None
    partial: float = 1.0
    max_mismatches: int = 0
    record: Path | None = None
    record_when_full: WhenFull = WhenFull.DROP
    # the files that the guard has looked at; what arrives later is not played. None: it has not looked yet
    listing: Listing | None = None
    # what the survey has read is not checked again when it is played
    checked: CheckedBodies = field(default_factory=CheckedBodies)

    def rows(self) -> Iterator[Happening]:
        """The happenings of the capture, as far as sessions and cluster choose them."""
        return happenings(self.folder, self.sessions, self.cluster, self.listing, self.checked)

    def looked_at(self) -> Iterator[Happening]:
        """The happenings of all clusters, as far as sessions choose them."""
        return happenings(self.folder, self.sessions, listing=self.listing, checked=self.checked)

    def steps(self) -> Iterator[Happening | DiskRead]:
        """The happenings to play, with a `DiskRead` before each step that reads from the disk."""
        return in_steps(self.folder, self.sessions, self.cluster, self.listing, self.checked)

    def words(self) -> tuple[str, ...]:
        """The options and filters as they would be typed."""
        sessions = (f"--session {shlex.quote(name)}" for name in self.sessions)
        cluster = () if self.cluster is None else (f"--cluster {shlex.quote(self.cluster)}",)
        return (*self.options.words(), *self.choice.words(), *sessions, *cluster)

    def plays(self, exchange: Exchange) -> bool:
        """True for exchanges that are sent, or withheld with a reason."""
        return self.choice.plays(exchange) and not is_regenerated(exchange)


def run(job: Job) -> int:
    """Plays, and returns the exit code. Errors: ClickException with the line that the user reads."""
    bytes(_KEPT_CHUNK)
    with _ends_as_ctrl_c():
        told = _recorded(job)
        job = replace(job, listing=told.listing)
        surveyed = _surveyed(job, told)
        guard = _check(job, surveyed)
        if surveyed.other_clusters:
            # nodes, topics and ids of other clusters must not pass for those of the one that is played
            job = replace(job, cluster=next(iter(surveyed.clusters)))
            surveyed = _surveyed(job, told)
        return trio.run(_run, job, surveyed, guard)


@contextmanager
def _ends_as_ctrl_c() -> Iterator[None]:
    """Within, all signals that end a command do as Ctrl-C does, which trio handles."""

    def ctrl_c(number: int, _frame: FrameType | None) -> None:
        if number not in IMPATIENT:
            signal.signal(number, signal.SIG_IGN)
        signal.raise_signal(signal.SIGINT)

    before = {one: signal.signal(one, ctrl_c) for one in ending_signals()}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _refused_if_unreadable() -> Iterator[None]:
    try:
        yield
    except (DamagedFileError, UnknownFormatError, OverBudget, OSError) as error:
        raise Refused(str(error)) from error


def _recorded(job: Job) -> RecordedClusters:
    with _refused_if_unreadable():
        told = recorded_clusters(job.folder, job.sessions)
        _add_unplayed(job, told)
        return told


def _surveyed(job: Job, told: RecordedClusters) -> Survey:
    refused = partial(refused_anywhere, options=job.options)
    with (
        _refused_if_unreadable(),
        console(stderr=True).status("reading the capture ..."),
        counting(job.looked_at(), "row") as rows,
    ):
        return survey(rows, job.plays, refused, job.cluster, told)


def _add_unplayed(job: Job, told: RecordedClusters) -> None:
    """Adds what the answers of sessions tell that are not played, where these have no events that tell it."""
    others = {session for session, _ in told.frames if not is_played(session, job.sessions)}
    for session in sorted(others & {*told.without_id} | others - told.told):
        try:
            for row in happenings(job.folder, (session,), listing=told.listing):
                if isinstance(row, AnswerRecorded):
                    tell_of_cluster(told, row)
        except DamagedFileError:
            told.unreadable.add(session)


def _check(job: Job, found: Survey) -> Guard:
    """Refuses what needs no target. Returns the guard of all connections to it."""
    if not found.requests:
        raise Refused(f"{job.folder} has no request that the filters let through: right would be fewer filters")
    if len(found.clusters) > 1 and job.cluster is None:
        names = ", ".join(sorted(found.clusters))
        raise Refused(f"{job.folder} is of several clusters ({names}): right would be --cluster with one of them")
    guard = Guard(found.recorded, job.options)
    try:
        for address in job.bootstrap:
            guard.check_address(*address)
    except Forbidden as error:
        raise Refused(printable(str(error))) from error
    longest = max(found.used_topics(), key=len, default="")
    room = LONGEST_TOPIC - len(longest)
    if len(job.options.prefix) > room:
        raise Refused(f"--prefix makes the name of topic {longest} too long: right would be {room} letters at most")
    if not job.dry_run:
        for line in _too_much_withheld(job, found.withheld_percent):
            raise Refused(f"{line} (--dry-run shows why)")
    return guard


def _too_much_withheld(job: Job, share: float) -> Iterator[str]:
    """A sentence if too many requests can't be played. `share`: percent."""
    if share > job.partial:
        yield (
            f"{percent(share)} of the requests can't be played, --partial {job.partial:g} allows less: "
            f"right would be --partial {min(share // 1 + 1, 100):.0f}"
        )


async def _run(job: Job, surveyed: Survey, guard: Guard) -> int:
    try:
        target = target_of(job.bootstrap, job.file)
    except (BadReplaySettings, BadSetting) as error:
        raise Refused(str(error)) from error
    try:
        async with recording(job.record, job.record_when_full) as kept:
            return await _replay(job, surveyed, replace(target, recording=kept, guard=guard))
    except FolderError as error:
        raise Refused(str(error)) from error


async def _replay(job: Job, surveyed: Survey, target: Target) -> int:
    cluster = Cluster()
    names = Names(job.options.prefix, surveyed.topic_ids, cluster, surveyed.internal)
    preparation = Preparation(surveyed, names, cluster, job.options, may_write=not job.dry_run and job.yes)
    try:
        await _look_where_it_leads(job, target, cluster)
        if target.guard.question and job.dry_run:
            # nobody was asked: the target may be the recorded cluster, and old brokers create what is asked for
            raise Refused(_unanswered(target.guard.question))
        await _prepare(job, preparation, target, cluster)
        if not job.dry_run and not preparation.findings.refusals:
            _ask(job, surveyed, preparation.findings, cluster, names)
            if not job.yes:
                preparation = Preparation(surveyed, names, cluster, job.options, may_write=True)
                await _prepare(job, preparation, target, cluster)
    except NotReached as error:
        raise Refused(f"the target can't be reached: {error}") from error
    except Forbidden as error:
        raise Refused(printable(str(error))) from error
    found = preparation.findings
    if job.dry_run:
        return _show_plan(job, surveyed, found, cluster, names)
    if found.refusals:
        raise Refused("; ".join(found.refusals))
    found.shift_ms = (time.time_ns() - surveyed.first_wall_ns) // 10**6
    with _short_pauses():
        # the replay's times start here
        result = _result(job, surveyed, cluster)
        options = job.options.within(surveyed.last_ns - surveyed.first_ns)
        result.had_records = tuple(map(names.recorded_topic, found.filled))
        result.had_offsets = tuple(map(names.recorded, found.overwritten))
        world = World(options, job.choice.filter, surveyed, cluster, names, found, result)
        await _play(job, world, target)
    return _told(job, world.result)


async def _look_where_it_leads(job: Job, target: Target, cluster: Cluster) -> None:
    """Dials each node of the target, for the guard, before anything is written. Asks people what no node tells."""
    with console(stderr=True).status("looking where the target leads ..."):
        await target.guard.look_up()
        async with asking(target, cluster, job.options.wait) as asker:
            await asker.run(ask_for_nodes(cluster))
            await asker.look_at_all()
    question = target.guard.question
    if question and not job.dry_run:
        if not is_terminal(sys.stdin):
            raise Refused(_unanswered(question))
        click.confirm(f"{printable(question)}. Is it another cluster?", abort=True, err=True)


def _unanswered(question: str) -> str:
    return f"{printable(question)}: right would be --target-is-another, if it is another one"


async def _prepare(job: Job, preparation: Preparation, target: Target, cluster: Cluster) -> None:
    with console(stderr=True).status("looking at the target ..."):
        async with asking(target, cluster, job.options.wait) as asker:
            await asker.run(preparation.run())
            await asker.look_at_all()


def _ask(job: Job, surveyed: Survey, found: Prepared, cluster: Cluster, names: Names) -> None:
    """Tells what people should know before anything is written, and asks them, unless `--yes` is given."""
    what = "" if job.yes else _written(surveyed, names, found)
    where = cluster.id or ", ".join(f"{host}:{port}" for host, port in job.bootstrap)
    if what and not is_terminal(sys.stdin):
        raise Refused(f"the replay writes to {printable(where)}, and nobody is there to ask: right would be --yes")
    for note in (*found.notes, *_overwritten(found)):
        echo(f"note: {note}", err=True)
    if what:
        click.confirm(f"The replay writes to cluster {printable(where)}: {what}. Go on?", abort=True, err=True)


def _written(surveyed: Survey, names: Names, found: Prepared) -> str:
    """The things that a replay writes, by the target's names; empty if there are none."""
    changes = {api: number for api, number in surveyed.sent.items() if _changes(api)}
    kinds = (
        ("topic", surveyed.used_topics(), names.target_topic),
        ("group", surveyed.groups, names.target),
        ("transactional id", surveyed.transactions, names.target),
    )
    written = {what: {target(name) for name, one in each.items() if one.is_written} for what, each, target in kinds}
    written["topic"] -= found.lacking.keys()
    parts = [listed(what, each) for what, each in written.items() if each]
    parts += [f"new: {listed('topic', found.lacking)}"] if found.lacking else []
    return ", ".join([*parts, *(f"{number} {api}" for api, number in sorted(changes.items()))])


def _changes(api: str) -> bool:
    """True for an API that changes or deletes what others use as well."""
    key = api_key(api)
    return key is not None and treatment(key) in (Treatment.ADMIN, Treatment.DELETES, Treatment.TELEMETRY)


def _overwritten(found: Prepared) -> list[str]:
    return [f"overwrites the offsets of {listed('group', found.overwritten)}"] if found.overwritten else []


def _result(job: Job, surveyed: Survey, cluster: Cluster) -> Result:
    return Result(
        _source(job, surveyed),
        _reached(job, cluster),
        job.words(),
        started_at_ns=time.time_ns(),
        max_mismatches=job.max_mismatches,
        partial=job.partial,
    )


def _source(job: Job, surveyed: Survey) -> Source:
    return Source(str(job.folder), tuple(sorted(surveyed.sessions)), surveyed.first_wall_ns, surveyed.last_wall_ns)


def _reached(job: Job, cluster: Cluster) -> ReachedTarget:
    asked = ",".join(f"{host}:{port}" for host, port in job.bootstrap)
    return ReachedTarget(
        asked, cluster.id, {node: f"{host}:{port}" for node, (host, port) in sorted(cluster.nodes.items())}
    )


def _show_plan(job: Job, surveyed: Survey, found: Prepared, cluster: Cluster, names: Names) -> int:
    plan = Plan(_source(job, surveyed), _reached(job, cluster), job.words())
    world = World(
        job.options,
        job.choice.filter,
        surveyed,
        cluster,
        names,
        found,
        _result(job, surveyed, cluster),
    )
    with console(stderr=True).status("looking at each request ..."), counting(job.rows(), "row") as rows:
        rehearse(rows, world, map(names.target_topic, surveyed.used_topics()), plan)
    creates = [f"would create {listed('topic', found.lacking)}"] if job.options.create_topics and found.lacking else []
    if creates:
        # one request creates all topics, another one adds partitions
        plan.made[CREATION] = len({bool(cluster.partitions(name)) for name in found.lacking})
    plan.topics = surveyed.touched(surveyed.used_topics(), names.target_topic)
    plan.groups = surveyed.touched(surveyed.groups, names.target)
    plan.transactions = surveyed.touched(surveyed.transactions, names.target)
    plan.refusals = (*found.refusals, *_too_much_withheld(job, max(surveyed.withheld_percent, plan.withheld_percent)))
    plan.notes = (*creates, *found.notes, *_overwritten(found))
    screen = console()
    for part in whole_plan(plan, screen.width):
        screen.print(part)
    return 2 if plan.refusals else 0


async def _play(job: Job, world: World, target: Target) -> None:
    conductor = Conductor(world, target, job.steps())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_listen, conductor, nursery.cancel_scope)
        nursery.start_soon(_show_progress, conductor)
        await conductor.run()
        nursery.cancel_scope.cancel()
    world.close(conductor.engine.progress, time.time_ns())


@contextmanager
def _short_pauses() -> Iterator[None]:
    """Keeps the garbage collector from the objects made until now: looking at a hundred thousand takes 50 ms.

    It looks seldom at newer ones: an exchange leaves no reference cycles, and looking would take an eighth of the time.
    """
    interval, before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        sys.setswitchinterval(interval)


async def _listen(conductor: Conductor, play: trio.CancelScope) -> None:
    """Ctrl-C, and any signal that ends a command, ends the replay in order; a second Ctrl-C, at once."""
    ends = ending_signals()
    for patient in {*ends} - IMPATIENT:
        # once the replay is over, another one (a closed terminal sends SIGHUP twice) lets it write its report
        signal.signal(patient, signal.SIG_IGN)
    with trio.open_signal_receiver(*ends) as signals:
        is_ending = False
        async for number in signals:
            if is_ending and number in IMPATIENT:
                play.cancel()
            conductor.stop(Ending.INTERRUPTED)
            is_ending = True


async def _show_progress(conductor: Conductor) -> None:
    """Shows the progress until it is cancelled, or the terminal is gone. A reader that is gone ends the replay."""
    try:
        await _progress(conductor)
    except BrokenPipeError:
        conductor.stop(Ending.INTERRUPTED)
    except OSError:
        return


async def _progress(conductor: Conductor) -> None:
    engine, standstill = conductor.engine, Standstill()
    shown_at = looked_at = time.monotonic_ns()
    with LiveProgress(console(stderr=True)) as live:
        while True:
            await trio.sleep(EVERY_NS / NANOSECONDS)
            now = time.monotonic_ns()
            waits = engine.waited_for(now) if standstill.lasts(engine.progress, now) else Counter[str]()
            engine.world.result.stood_still_ns.update(dict.fromkeys(waits.keys() - {NOT_DUE}, now - looked_at))
            looked_at = now
            if now - shown_at >= live.every_ns:
                shown_at = now
                live.show(engine.progress, waits)


def _told(job: Job, result: Result) -> int:
    # before anything is printed: the reader of a pipe may stop reading
    for path in job.reports:
        job.write(result, path)
    screen = console()
    for part in summary(result, screen.width, str(job.reports[0]) if job.reports else None):
        screen.print(part)
    return result.exit_code
