"""What a node has run out of, and what it forbids: memory, processes, descriptors, disks, its own /proc."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import MARK, Scene, Strike, disturbed
from tests.faults.sshd import agents, kill_agent

fault = Family("limits")

CGROUPS = Path("/sys/fs/cgroup")


def streams(begin: Callable[[Scene], None], *, hold: float = 10.0, says: str = "") -> Play:
    """A fault under which the node's samples go on (after a new start of the node side, where it makes one).

    ``says`` is a pattern of a sample that must come besides.
    """

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            begin(scene)
            watch.wait_entry(name, r"^Tick\(", since=time.time() + 0.5)
            at, said = watch.wait_entry(name, says, since=struck) if says else (None, "")
            time.sleep(max(0.0, struck + hold - time.time()))
            ticked, _ = watch.wait_entry(name, r"^Tick\(", since=struck + hold)
            over = time.time()
            scene.undo.close()
            watch.wait_entry(name, r"^Tick\(", since=over)
            grown, more = watch.usage.grown, watch.usage.descriptors_grown
            watch.end()
            return Outcome(
                said=said[:200] or "samples go on", after=at - struck if at else None,
                recovered=max(0.0, ticked - struck - hold), grown=grown, descriptors=max(0, more),
                left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


def _wrapped(words: str) -> Callable[[Scene], None]:
    """Have the node side start anew behind these words of a shell."""

    def begin(scene: Scene) -> None:
        scene.struck.tool("python3", f'#!/bin/sh\n{words}\nexec {shlex.quote(sys.executable)} "$@"\n')
        scene.undo.callback(kill_agent, scene)
        scene.undo.callback((scene.struck.bin / "python3").unlink)
        kill_agent(scene)

    return begin


def _grouped(controller: str, name: str, value: str) -> Callable[[Scene], None]:
    """Have the node side start anew in a control group (version 1) with this limit."""
    group = CGROUPS / controller / f"hangtop-{os.getpid()}"

    def begin(scene: Scene) -> None:
        group.mkdir(exist_ok=True)
        (group / name).write_text(value)
        scene.undo.callback(_remove_group, group)
        # The first process of the script joins from outside, where the group can be seen.
        _wrapped(f"echo 0 > {group}/{'cgroup.procs'}")(scene)

    return begin


def _remove_group(group: Path) -> None:
    """Let its processes go back, and remove it."""
    for _ in range(100):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    raise TimeoutError(f"{group} cannot be removed")


def _mounted(*commands: str) -> Callable[[Scene], None]:
    """Run shell commands in the node; the last is what undoes them."""

    def begin(scene: Scene) -> None:
        scene.undo.callback(scene.struck.run, ["sh", "-c", commands[-1]])
        for command in commands[:-1]:
            scene.struck.run(["sh", "-c", command])
        kill_agent(scene)

    return begin


def in_own_mounts(scene: Scene, *commands: str) -> None:
    """Have the node side start anew in mounts of its own, which these shell commands have changed.

    Those of the node are in use by the job, which writes its logs.
    """
    inside = shlex.quote(" && ".join([*commands, 'exec "$@"']))
    python = scene.path(".sh")
    python.write_text(f'#!/bin/sh\nexec unshare -m sh -c {inside} sh {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    _wrapped(f'exec {shlex.quote(str(python))} "$@"')(scene)


def _read_only(scene: Scene) -> None:
    """Have the node side start anew where nothing can be written."""
    mounts = "for at in / /tmp /run /dev/shm; do mount -o remount,bind,ro $at || exit 1; done"
    in_own_mounts(scene, mounts, "! touch /var/tmp/hangtop-wrote-this 2>/dev/null")


def _forking(scene: Scene) -> None:
    """Let the node side have no further process than it has, once it runs."""
    group = CGROUPS / "pids" / f"hangtop-{os.getpid()}"
    group.mkdir(exist_ok=True)
    scene.undo.callback(_remove_group, group)
    (group / "pids.max").write_text("1")
    for pid in agents(scene):
        (group / "cgroup.procs").write_text(str(pid))


SHORT_LIVED = """\
#!/bin/sh
case "$*" in
  *--help-query-gpu*) printf '"index"\\n"pci.bus_id"\\n"utilization.gpu"\\n"name"\\n';;
  *) echo "0, 00000000:07:00.0, 40, H200"; sleep 1;;
esac
"""


@fault("pids.max: no further process may be forked", "Resource temporarily unavailable|cannot|failed|samples go on")
def no_forks(scene: Scene) -> Outcome:
    """A fork that fails must not cost descriptors: those of the node side are counted before and after."""
    counts: list[int] = []

    def begin(scene: Scene) -> None:
        # A program that ends each second, so that it is started again and again.
        scene.struck.tool("nvidia-smi", SHORT_LIVED)
        scene.undo.callback((scene.struck.bin / "nvidia-smi").unlink)
        kill_agent(scene)
        time.sleep(5.0)
        counts.append(_descriptors(scene))
        _forking(scene)

    outcome = streams(begin, hold=20.0)(scene)
    counts.append(_descriptors(scene))
    lost = counts[1] - counts[0]
    return outcome if lost < 7 else Outcome(f"{lost} descriptors of the node side are lost", left=outcome.left)


def _descriptors(scene: Scene) -> int:
    """Descriptors of the node side; zero when there is none."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in agents(scene))


fault("nofile 24", "samples go on")(streams(_wrapped("ulimit -n 24")))
fault("memory.max 60 MB", "samples go on")(streams(_grouped("memory", "memory.limit_in_bytes", str(60 << 20))))
fault("core and file size 0", "samples go on")(streams(_wrapped("ulimit -c 0; ulimit -f 0")))
fault("a stack of 256 KB, 1 GB of addresses", "samples go on")(streams(_wrapped("ulimit -s 256; ulimit -v 1048576")))
fault("2 s of CPU", r"killed \(SIGXCPU\)|killed \(SIGKILL\)|samples go on")(streams(_wrapped("ulimit -t 2"), hold=6.0))
fault("umask 777", "samples go on")(streams(_wrapped("umask 777"), hold=6.0))
fault("memory.max 6 MB: killed as soon as it starts", r"killed \(SIGKILL\)")(
    Strike(
        _grouped("memory", "memory.limit_in_bytes", str(6 << 20)), lambda s: s.undo.close(),
        link="lost", why=r"killed \(SIGKILL\).*", seconds=60.0,
    )
)  # fmt: skip
fault("hidepid", "samples go on")(
    streams(_mounted("mount -o remount,hidepid=2 /proc", "mount -o remount,hidepid=0 /proc"))
)
fault("/tmp and /dev/shm full", "samples go on")(
    streams(
        _mounted(
            "mount -t tmpfs -o size=64k none /tmp; head -c 100000 /dev/zero > /tmp/full; true",
            "mount -t tmpfs -o size=64k none /dev/shm; head -c 100000 /dev/zero > /dev/shm/full; true",
            "umount /tmp; umount /dev/shm",
        )
    )
)
fault("/ read-only", "samples go on")(streams(_read_only))


def _busy(scene: Scene) -> None:
    """2,000 processes that sleep, and some that come and go."""
    sleepers = "for i in $(seq 2000); do sleep 600 & done; while :; do sleep 0.02; true | true; done"
    crowd = scene.struck.spawn(["sh", "-c", sleepers], env={MARK: "1"})
    # A process group of this machine's: all of the node's that have the mark end.
    scene.undo.callback(_end_crowd, scene)
    scene.undo.callback(crowd.kill)
    time.sleep(8.0)


def _end_crowd(scene: Scene) -> None:
    for _ in range(20):
        with_mark = [process for process in scene.struck.processes() if MARK in process.environ()]
        if not with_mark:
            return
        for process in with_mark:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, 9)
        time.sleep(0.2)


THREADS = """
import threading, time
threading.stack_size(65536)
for _ in range(10000):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
"""


def _threads(scene: Scene) -> None:
    """A rank of the job with 10,000 threads."""
    env = {"HX_CASE": scene.job.case, "RANK": "17", "WORLD_SIZE": "18"}
    process = scene.struck.spawn([sys.executable, "-c", THREADS], env=env)
    scene.undo.callback(process.wait)
    scene.undo.callback(process.kill)
    time.sleep(8.0)


def _large_environment(scene: Scene) -> None:
    """A rank with 1 MB of environment, and a name with escape codes."""
    env = {"HX_CASE": scene.job.case, "RANK": "17", "WORLD_SIZE": "18"}
    env |= {f"NCCL_{number}\x1b[31m": "\x1b]0;t\x07" + "x" * 100_000 for number in range(10)}
    process = scene.struck.spawn(["sh", "-c", "sleep 600", "\x1b[2J\x1b]0;title\x07 name"], env=env)
    scene.undo.callback(process.wait)
    scene.undo.callback(process.kill)


fault("2,000 processes, and churn", "samples go on")(streams(_busy, hold=20.0))
fault("a rank of 10,000 threads", "samples go on")(streams(_threads, hold=20.0))
fault("1 MB of environment, names with escape codes", "samples go on")(streams(_large_environment))
