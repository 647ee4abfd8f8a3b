"""Records more than a small volume holds. Runs in namespaces of its own, in which it may mount one.

    unshare --user --map-root-user --mount python -m tests.faults.small_volume FOLDER

Prints a JSON object: what clients got, what metrics and files said meanwhile, what the capture holds at the end.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import PRODUCE
from recorder.capture import session as sessions
from recorder.capture.retention import removed_so_far
from recorder.inspect.summary import summarize
from tests.brokers.waiting import wait_for
from tests.faults.live import LiveProxy, Load, broker, stopped_behind
from tests.recorder.capture.looks import event_rows, frame_rows

MIB = 1 << 20
VOLUME, FLOOR_PERCENT = 256 * MIB, 25
TRAFFIC = 4 * VOLUME


def batch(rng: random.Random, first: int) -> list[bytes]:
    """A Produce that no codec makes smaller."""
    partition = {"index": 0, "records": rng.randbytes(250_000)}
    values = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    return [framed(catalog.encode_request(PRODUCE, 9, first, "live", values))]


def main(volume: Path) -> None:
    """Mounts a volume, fills it several times over, and prints the outcome."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={VOLUME}", "tmpfs", volume], check=True)
    folder = volume / "capture"
    settings = {"KEEP__FREE": f"{FLOOR_PERCENT}%", "SEGMENT": "4MiB", "QUEUE": "8MiB", "SPOOL": "32MiB"}
    environment = {f"KAFKA_WIRETAP_CAPTURE__{name}": value for name, value in settings.items()}
    free, failed, ready = [], [], []
    with (
        broker() as upstream,
        stopped_behind(LiveProxy(upstream, folder, volume.parent / "proxy.log", env=environment)) as proxy,
    ):
        load = Load([proxy.listening] * 2, batch)
        for _ in range(TRAFFIC // (32 * MIB)):
            load.reach(32 * MIB)
            found = os.statvfs(volume)
            free.append(found.f_bavail * found.f_frsize)
            failed.append(proxy.metric("recorder_failed"))
            ready.append(proxy.is_ready())
        # a busy machine's compactor may not have filled the volume yet; within these rounds it does
        for _ in range(VOLUME // (32 * MIB)):
            if proxy.metric("recorder_removed_bytes_total"):
                break
            with load.paused():
                wait_for(lambda: not proxy.metric("recorder_lag_bytes"), "the compactor")
            load.reach(32 * MIB)
        # a round of the compactor removes enough for recording to go on
        wait_for(lambda: not proxy.metric("recorder_stopped"), "recording to go on")
        load.reach(MIB)
        load.stop()
        removed_bytes = proxy.metric("recorder_removed_bytes_total")
    wait_for(lambda: not sessions.sessions(folder), "the session's end")
    rows, gaps = frame_rows(folder), event_rows(folder, "gap")
    outcome = {
        "answered": sum(talk.answered for talk in load.talks),
        "sent": sum(len(talk.sent) for talk in load.talks),
        "least_free": min(free),
        "failed": max(failed),
        "ready": all(ready),
        "removed": [removed_bytes, *removed_so_far(folder).bytes],
        "causes": sorted({gap["cause"] for gap in gaps}),
        "rows": len({(row["connection"], row["sequence"]) for row in rows}),
        "all_rows": len(rows),
        "gaps": sum(gap["frames"] for gap in gaps),
        "left_out": summarize(folder).losses.missing.left_out,
        "removals": sum(json.loads(one["detail"])["files"] for one in event_rows(folder, "removed")),
        "newest": max(row["sequence"] for row in rows),
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
