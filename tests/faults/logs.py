"""What is in a log, and what becomes of its file: whatever it is, the next line that says something is read.

Struck at the log of the rank of node2, through the rank's own descriptor; afterwards NCCL warns there of something that
no other line has, and that must be told. No node may notice, the struck one included.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from collectors.node.logs.prefilter import required
from collectors.node.logs.rules import SUBJECTS
from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import Scene, disturbed

fault = Family("logs")

RANK = 1
"""The rank that runs on the struck node."""
MIB = 1 << 20
Writes = Callable[[Scene, BinaryIO], None]
"""Strikes: gets the rank's standard error, open for appending as the rank has it."""


def _descriptor(scene: Scene) -> Path:
    _, process = scene.job.processes(RANK)[0]
    return Path(f"/proc/{process.host_pid}/fd/2")


def strike(writes: Writes, *, seconds: float = 60.0, words: Callable[[Scene], tuple[str, ...]] = lambda _: ()) -> Play:
    """Write, then have something said, and wait until it is told."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        scene.undo.callback(os.truncate, _descriptor(scene), 0)
        with scene.watch(*words(scene)) as watch:
            struck = time.time()
            with _descriptor(scene).open("ab", buffering=0) as file:
                writes(scene, file)
                over = time.time()
                mark = f"struck-{uuid.uuid4().hex[:12]}"
                file.write(f"\nnode2:17:42 [0] NCCL WARN {mark}\n".encode())
            at, _ = watch.wait_entry(scene.struck.name, rf"^LogEvent.*{mark}", since=over, seconds=seconds)
            usage = watch.usage
            watch.end()
            return Outcome(
                said="what NCCL warned of next", after=at - over, recovered=at - over, grown=usage.grown,
                left=scene.left(before),
                disturbed=disturbed(watch.links(), [node.name for node in scene.nodes], struck),
            )  # fmt: skip

    return play


def _log(name: str, writes: Writes, **how: float) -> None:
    fault(name, "what NCCL warned of next")(strike(writes, **how))  # type: ignore[arg-type]


# --- what is written --------------------------------------------------------------------------------------------------


def _flood(_scene: Scene, file: BinaryIO) -> None:
    """1 GB at 100 MB/s."""
    block = b"".join(
        b"step %d loss 0.123456 tokens/s 4711 and a line as trainers print it\n" % n for n in range(15_000)
    )
    block = block[:MIB]
    began = time.monotonic()
    for number in range(1000):
        file.write(block)
        time.sleep(max(0.0, began + number / 100 - time.monotonic()))


def _hostile_lines() -> Iterator[bytes]:
    """Lines of 16 KB that repeat what each rule looks for."""
    for rules in SUBJECTS.values():
        for rule in rules:
            assert rule.example is not None
            for pump in (*required(rule.pattern), rule.example.sample.replace("\n", " ")):
                yield (pump * (16_000 // len(pump))).encode() + b"\n"


def _backtracking(_scene: Scene, file: BinaryIO) -> None:
    """As many of them as 24 MB hold, chosen anew each time."""
    lines = list(_hostile_lines())
    random.shuffle(lines)
    file.write(b"".join(lines[:1500]))


def _numbers(_scene: Scene, file: BinaryIO) -> None:
    """Digits where numbers are: 5,000 of them."""
    many = "7" * 5000
    process = f"node2:{many}:{many} [{many}] NCCL INFO"
    watchdog = f"[rank{many}]:[E1122 10:00:00.{many} 17 ProcessGroupNCCL.cpp:{many}] [Rank {many}] Watchdog caught"
    work = f"WorkNCCL(SeqNum={many}, OpType=ALLREDUCE, NumelIn={many}, NumelOut={many}, Timeout(ms={many}))"
    lines = (
        f"{process} comm 0x{many} rank {many} nranks {many} cudaDev {many} busId 1000 commId 0x{many} - Init COMPLETE",
        f"{process} AllReduce: opCount {many} count {many} datatype 7 op 0 root 0 comm 0x{many} [nranks={many}]",
        f"{watchdog} collective operation timeout: {work} ran for {many} milliseconds before timing out.",
        f"step {many} loss {many}.{many}",
        f"NVRM: Xid (PCI:0000:07:00): {many}, pid={many}, name=python",
    )
    file.write("\n".join([*lines, ""]).encode())


def _communicators(_scene: Scene, file: BinaryIO) -> None:
    """5,000 of them, each with its own name: what is told of them takes a dozen looks."""
    file.write(
        b"".join(
            b"node2:17:42 [0] NCCL INFO comm 0x%x rank 1 nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0x%x - Init "
            b"COMPLETE\n" % (number * 4096, number)
            for number in range(5_000)
        )
    )


def _bytes(data: bytes, times: int = 1) -> Writes:
    """Write so many times the same."""

    def write(_scene: Scene, file: BinaryIO) -> None:
        whole = data * min(times, max(1, MIB // len(data)))
        file.writelines(whole for _ in range(max(1, times * len(data) // len(whole))))

    return write


ESCAPES = (
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1bP$q\x1b\\\x9b31m\x90\r\b\b [bold]markup[/] [/]"
)

_log("1 GB at 100 MB/s", _flood, seconds=120.0)
_log("a line of 50 MB", _bytes(b"x" * MIB, 50))
_log("random bytes", _bytes(os.urandom(MIB), 20))
_log("bytes that are no UTF-8", _bytes(b"\xff\xfe NCCL WARN \xc3\x28 \xed\xa0\x80\n", 50_000))
_log("zeros", _bytes(bytes(MIB), 50))
_log("escape codes and markup", _bytes(f"NCCL WARN {ESCAPES}\n".encode(), 20_000))
_log("lines of 16 KB that make patterns backtrack", _backtracking, seconds=120.0)
_log("numbers of 5,000 digits", _numbers)
_log("5,000 communicators", _communicators, seconds=120.0)
_log(
    "a traceback without an end",
    _bytes(b"Traceback (most recent call last):\n" + b'  File "/a.py", line 1, in f\n' * 100_000),
)


# --- what becomes of the file -----------------------------------------------------------------------------------------


def _moved(scene: Scene, _file: BinaryIO) -> None:
    log = scene.job.log(RANK)
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"")
    scene.undo.callback(lambda: log.with_suffix(".1").replace(log))


def _copied_and_truncated(scene: Scene, file: BinaryIO) -> None:
    file.write(b"a line of the job\n" * 10_000)
    time.sleep(2.0)
    log = scene.job.log(RANK)
    log.with_suffix(".1").write_bytes(log.read_bytes())
    os.truncate(log, 0)


def _deleted(scene: Scene, _file: BinaryIO) -> None:
    log = scene.job.log(RANK)
    log.unlink()
    # The rank has its file still, without a name; another one gets the name back when all is over.
    scene.undo.callback(log.touch)


def _name_taken(make: Callable[[Path], None]) -> Writes:
    """The rank writes on into its file, whose name is something else's."""

    def write(scene: Scene, _file: BinaryIO) -> None:
        log = scene.job.log(RANK)
        kept = log.with_suffix(".kept")
        log.rename(kept)
        scene.undo.callback(kept.replace, log)
        make(log)
        time.sleep(2.0)

    return write


_log("its name is a FIFO's now", _name_taken(os.mkfifo))
_log("its name is a link to /dev/zero now", _name_taken(lambda log: log.symlink_to("/dev/zero")))
_log("its name is a link to a folder now", _name_taken(lambda log: log.symlink_to("/proc")))
_log("its name is a link to itself now", _name_taken(lambda log: log.symlink_to(log)))
_log(
    "a progress bar of 20 MB without a newline", _bytes(b"\rEpoch 3:  41%|####      | 410/1000 [00:41<00:59]", 400_000)
)
_log("UTF-16", _bytes("step 12 loss 0.1234\r\n".encode("utf-16"), 10_000))
_log(
    "times of the year 0 and of leap seconds",
    _bytes(b"0000-02-30T23:59:60.999Z NCCL WARN x\n9999-12-31 23:59:60 a\n", 5_000),
)
_log("rotated by a new name", _moved)
_log("rotated by copy and truncate", _copied_and_truncated)
_log("deleted while it is written", _deleted)
_log("1 TB, and nearly all of it holes", lambda _, file: os.truncate(file.fileno(), 1 << 40))


@fault("300 further logs that come and go", "the log that came after them")
def comings_and_goings(scene: Scene) -> Outcome:
    """Files of a pattern that the user names; one that comes after all those is read, and the rank's own still."""
    folder = scene.path(".logs")
    folder.mkdir()
    later = folder / "later.log"
    mark = f"struck-{uuid.uuid4().hex[:12]}"

    def come_and_go(_scene: Scene, _file: BinaryIO) -> None:
        for turn in range(3):
            files = [folder / f"{turn}-{number}.log" for number in range(300)]
            for file in files:
                file.write_text("step 1\n")
            time.sleep(6.0)
            for file in files:
                file.unlink()
            time.sleep(3.0)
        later.write_text("begin\n")
        threading.Timer(8.0, lambda: later.open("a").write(f"node2:17:42 [0] NCCL WARN {mark}\n")).start()

    before = scene.before()
    with scene.watch("--log", f"{folder}/*.log") as watch:
        struck = time.time()
        come_and_go(scene, _descriptor(scene).open("ab"))
        over = time.time()
        at, _ = watch.wait_entry(scene.struck.name, rf"^LogEvent.*{mark}", since=over, seconds=40.0)
        usage = watch.usage
        watch.end()
        return Outcome(
            said="the log that came after them", after=at - over, recovered=at - over, grown=usage.grown,
            left=scene.left(before),
            disturbed=disturbed(watch.links(), [node.name for node in scene.nodes], struck),
        )  # fmt: skip


@fault("a FIFO among the logs", "what NCCL warned of next")
def fifo(scene: Scene) -> Outcome:
    """Nobody ever writes to it: whoever opens it to read waits for ever."""
    pipe = scene.path(".log")
    os.mkfifo(pipe)
    return strike(lambda _, __: time.sleep(3.0), words=lambda _: ("--log", str(pipe)))(scene)


@fault("a process with an argument of 128 KB that is hard to redact", "what NCCL warned of next")
def long_argument(scene: Scene) -> Outcome:
    """Several ranks with arguments that make a redaction backtrack if one can."""

    def start(scene: Scene, _file: BinaryIO) -> None:
        for number, pump in enumerate(("-a=", "token", "a.", '"', "export A=", "x" * 7 + " ")):
            words = ["sh", "-c", "sleep 600", pump * (120_000 // len(pump))]
            env = {"HX_CASE": scene.job.case, "RANK": str(number + 10), "WORLD_SIZE": "16"}
            process = scene.struck.spawn(words, env=env)
            scene.undo.callback(process.wait)
            scene.undo.callback(process.kill)
        time.sleep(4.0)

    return strike(start)(scene)
