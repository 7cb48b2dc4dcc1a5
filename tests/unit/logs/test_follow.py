"""Files followed on a node: where they lie, rotation, truncation, what may not be read, what is told when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from collectors.node.logs.file_names import Hints, hints
from collectors.node.logs.following.places import container_logs
from collectors.node.logs.following.source import LogSource
from collectors.node.source import Absent, Shared
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, LogsRead, StepCount
from collectors.samples.ranks import RankProcess
from collectors.samples.stream import Settings

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: %s\n'
XID = "NVRM: Xid (PCI:0000:5f:00): %d, x\n"
COLL = (
    "n1:%d:7 [0] NCCL INFO AllReduce: opCount %x sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x50"
    " [nranks=2] stream 0x9\n"
)
Sample = TypeVar("Sample")


def rank_process(rank: int, pid: int = 0, stdout: str = "", **fields: Any) -> RankProcess:
    given = {"stdout": stdout, "stderr": stdout, "nccl_log": "", "env": {}, "container": "", "local_rank": rank}
    known: dict[str, Any] = {**dict.fromkeys(RankProcess._fields), **given, **fields}
    return RankProcess(**{**known, "rank": rank, "pid": pid or os.getpid()})


class Looker:
    """A source and its looks."""

    def __init__(self, *ranks: RankProcess, at: float | None = None, **settings: list[str]) -> None:
        self.shared = Shared()
        self.shared.ranks = ranks
        self.source = LogSource(self.shared)
        self.now = time.time() if at is None else at
        chosen: Any = {"log_globs": [], "on_view": [], "not_mine": [], **settings}
        self.source.configure(Settings(interval=1.0, phase=0.0, job=None, **chosen))

    def read(self, after: float = 1.0) -> list[object]:
        self.now += after
        return list(self.source.read(self.now))


def of(kind: type[Sample], samples: list[object]) -> list[Sample]:
    return [sample for sample in samples if isinstance(sample, kind)]


def told(looker: Looker, after: float = 1.0) -> list[str]:
    """Kinds of the events of one look."""
    return [event.kind for event in of(LogEvent, looker.read(after))]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_is_followed_through_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    looker = Looker(rank_process(0, nccl_log=str(path)))
    (file,) = of(LogFile, looker.read())
    assert (file.why, file.rank, file.stream) == ("No such file or directory", 0, "nccl")

    def read() -> list[tuple[object, int]]:
        return [(event.data["code"], event.line) for event in of(LogEvent, looker.read())]

    path.write_text(XID % 1)
    assert read() == [(1, 1)]
    assert read() == []
    append(path, XID % 2)
    assert read() == [(2, 2)]
    path.rename(tmp_path / "x.log.1")
    append(tmp_path / "x.log.1", XID % 3)
    path.write_text("banner\n" + XID % 4)
    assert read() == [(3, 3)]
    assert read() == [(4, 2)]
    path.write_text(XID % 5)
    assert read() == [(5, 1)]


def test_a_rank_s_log(tmp_path: Path) -> None:
    path = tmp_path / "rank.log"
    path.write_text("hello\n")
    with path.open("ab") as log, subprocess.Popen(["sleep", "60"], stdout=log, stderr=log) as writer:
        looker = Looker(rank_process(3, writer.pid, str(path)), on_view=[str(path)])
        samples = looker.read()
        assert {(file.path, file.rank, file.stream, file.why) for file in of(LogFile, samples)} == {
            (str(path), 3, "stdout", ""),
            (str(path), 3, "stderr", ""),
        }
        assert [lines.lines for lines in of(LogLines, samples)] == [["hello"]]
        append(path, TRACEBACK % "one" + "half a li")
        samples = looker.read() + looker.read(3.0)
        writer.kill()
    (event,) = of(LogEvent, samples)
    assert (event.kind, event.rank, event.line, event.data["message"]) == ("python.exception", 3, 2, "one")
    assert event.at is not None
    assert [line for lines in of(LogLines, samples) for line in lines.lines] == (TRACEBACK % "one").splitlines()


def test_a_truncated_log_keeps_its_communicators(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    init = "n1:7:7 [0] NCCL INFO comm 0x50 rank 0 nranks 2 cudaDev 0 busId 1 commId 0x99 - Init START\n"
    path.write_text(init + COLL % (7, 1))
    looker = Looker(log_globs=[str(path)])
    looker.read()
    path.write_text(COLL % (7, 2))
    assert [(p.comm, p.op_count) for p in of(CommProgress, looker.read())] == [("0x99", 2)]


def test_of_a_large_log_the_head_and_the_end_are_read(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    init = "n1:7:7 [0] NCCL INFO comm 0x50 rank 0 nranks 2 cudaDev 0 busId 1 commId 0x99 - Init START\n"
    path.write_text(init + ("x" * 1023 + "\n") * (18 << 10) + "step 70\n" + COLL % (7, 2))
    samples = Looker(log_globs=[str(path)]).read()
    (collective,), (step,), (file,) = of(CommProgress, samples), of(StepCount, samples), of(LogFile, samples)
    assert (collective.comm, collective.op_count, step.value) == ("0x99", 2, 70.0)
    assert file.size - file.left_out < 6 << 20


def test_what_cannot_be_read_is_said() -> None:
    looker = Looker(
        rank_process(0, stdout="/dev/pts/3", stderr="pipe:[1]"),
        rank_process(1, stdout="/dev/null", stderr="socket:[5]"),
    )
    why = {(file.rank, file.stream): file.why for file in of(LogFile, looker.read())}
    nothing = "no file: what was printed there cannot be read"
    assert why.pop((0, "stderr")) == "a pipe: name the file behind it with --log"
    assert why == {(0, "stdout"): nothing, (1, "stdout"): nothing, (1, "stderr"): nothing}


def test_another_node_reads_a_shared_file(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(XID % 79)
    named = [str(tmp_path / "*.log")]
    (file,) = of(LogFile, Looker(log_globs=named).read())
    samples = Looker(log_globs=named, not_mine=[file.file_id]).read()
    assert not of(LogEvent, samples)
    assert [other.why for other in of(LogFile, samples)] == ["another node reads it"]


@pytest.mark.parametrize(("age", "at_once"), [(900.0, True), (0.5, False)])
def test_the_last_traceback_of_an_old_log_is_told_at_the_first_look(tmp_path: Path, age: float, at_once: bool) -> None:
    """``triage`` has its answer after a few seconds, and a rank that ended long ago writes nothing more."""
    path, now = tmp_path / "job.out", time.time()
    path.write_text(TRACEBACK % "shard 17")
    os.utime(path, (now - age, now - age))
    looker = Looker(log_globs=[str(path)], at=now)
    assert told(looker, 0.0) == ["python.exception"] * at_once
    assert told(looker, 3.0) == ["python.exception"] * (not at_once)


def test_the_last_words_of_one_rank_are_told_while_the_others_write_on(tmp_path: Path) -> None:
    """Output of all ranks of a node in one file: it never rests, and that rank says nothing more."""
    path = tmp_path / "job.out"
    append(path, "[rank0]: step 1\n")
    looker = Looker(log_globs=[str(path)])
    assert told(looker) == []
    append(path, "".join(f"[rank2]: {line}\n" for line in (TRACEBACK % "shard 17").splitlines()))
    found = []
    for second in range(1, 6):
        append(path, f"[rank0]: step {second + 1}\n")
        found.append(told(looker))
    assert found == [[], [], [], ["python.exception"], []]


def test_how_far_logs_are_read_is_told(tmp_path: Path) -> None:
    """A traceback that may go on is not told yet; nor is what was not there when they were looked at."""
    path = tmp_path / "x.log"
    path.write_text("one\n")
    looker = Looker(log_globs=[str(path)])

    def told_to() -> list[float]:
        return [sample.at - looker.now for sample in of(LogsRead, looker.read())]

    os.utime(path, (looker.now - 60,) * 2)
    assert told_to() == [0.0]
    append(path, TRACEBACK % "a")
    assert told_to() == [-1.0]
    append(path, "two\n")
    assert [told_to() for _ in range(4)] == [[-2.0], [-3.0], [-4.0], [0.0]]


def test_a_log_stays_its_ranks_when_that_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "rank1.log"
    path.write_text("up\n")
    looker = Looker(rank_process(1, nccl_log=str(path)))
    looker.read()
    append(path, TRACEBACK % "late")
    looker.shared.ranks = ()
    (raised,) = of(LogEvent, [sample for _ in range(3) for sample in looker.read(after=6.0)])
    assert (raised.kind, raised.rank, raised.pid) == ("python.exception", 1, os.getpid())


def test_old_lines_on_view_have_the_time_that_is_in_them_and_new_ones_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("banner\n2023-11-14T22:13:20Z one\n  goes on\n2023-11-14T22:13:30Z two\n")
    os.utime(path, (1_700_000_100, 1_700_000_100))
    looker = Looker(log_globs=[str(path)], on_view=["*"], at=1_700_009_000.0)
    assert [(shown.at, shown.lines) for shown in of(LogLines, looker.read())] == [
        (1_700_000_000.0, ["banner", "2023-11-14T22:13:20Z one", "  goes on"]),
        (1_700_000_010.0, ["2023-11-14T22:13:30Z two"]),
    ]
    append(path, "new\n2023-11-14T22:13:40Z three\n")
    (shown,) = of(LogLines, looker.read())
    assert (shown.at, len(shown.lines)) == (1_700_009_002.0, 2)


def test_lines_on_view_keep_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("x" * 1990 + " password=hunter2\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n")
    looker = Looker(log_globs=[str(path)], on_view=["*"])
    shown = looker.read()
    append(path, "hunter2hunter2\n-----END RSA PRIVATE KEY-----\nAuthorization: Bearer hunter2\nstep 1\n")
    lines = [line for sample in of(LogLines, shown + looker.read()) for line in sample.lines]
    assert not any("hunter2" in line or "MIIE" in line for line in lines)
    assert lines[1:] == ["<redacted>"] * 4 + ["Authorization: <redacted>", "step 1"]


def test_nothing_to_follow_is_absent() -> None:
    with pytest.raises(Absent):
        Looker().read()


@pytest.mark.parametrize("named_by", ["nccl_log", "stdout"])
def test_root_reads_no_file_that_the_user_who_named_it_may_not(tmp_path: Path, named_by: str) -> None:
    path = tmp_path / "shadow"
    path.write_text(XID % 79)
    path.chmod(0o600)
    with path.open("a") as held, subprocess.Popen(["sleep", "60"], stdout=held) as rank:
        fields: dict[str, Any] = {"uid": os.getuid() + 1, "stderr": "", named_by: str(path)}
        looker = Looker(rank_process(0, rank.pid, **fields))
        samples = looker.read()
        assert [file.why for file in of(LogFile, samples)] == ["not the file that it should be"]
        assert of(LogEvent, samples) == []
        path.chmod(0o644)
        assert told(looker) == ["kernel.xid"]
        rank.kill()


NAMES = {
    "/x/none_9b2/attempt_0/3/stderr.log": Hints(local_rank=3),
    "logs/rank_12.log": Hints(rank=12),
    "run/rank_2/stderr.log": Hints(rank=2),
    "lora/rank_16/train.log": Hints(),  # the rank of an adapter
    "slurm-123456_7.out": Hints(),  # a job of an array
    "train-123456_7.out": Hints(rank=7),
    "nccl.gpu-3.4711.log": Hints(host="gpu-3"),
    "ip-10-0-3-17/rank2.log": Hints(rank=2, host="ip-10-0-3-17"),
    "algo-3-1764157990.log": Hints(host="algo-3"),  # SageMaker's host and start
    "train.log": Hints(),
}


@pytest.mark.parametrize("path", NAMES)
def test_what_names_tell(path: str) -> None:
    assert hints(path) == NAMES[path]


# --- behind a pipe ---------------------------------------------------------------------------------------------------

CARRIER = """
import os, sys
name, source, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
open("/proc/self/comm", "w").write(name)
nothing = os.open("/dev/null", os.O_RDONLY)
os.dup2(nothing, 0)
out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(out, 1)  # ends the pipe to the test, which waits for that
os.read(source, 4096)
"""
"""Reads a pipe by another number than 0, as slurmstepd, conmon and containerd's shim do."""


@contextmanager
def carrier(name: str, source: int, target: Path) -> Iterator[int]:
    words = [sys.executable, "-c", CARRIER, name, str(source), str(target)]
    with subprocess.Popen(words, pass_fds=[source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        yield process.pid
        process.kill()


def test_a_carrier_that_reads_by_any_descriptor_is_found(tmp_path: Path) -> None:
    read, write = os.pipe()
    pipe = str(Path(f"/proc/self/fd/{write}").readlink())
    with carrier("slurmstepd", read, tmp_path / "slurm-7.out"):
        os.close(read)
        (tmp_path / "slurm-7.out").write_text(XID % 79)
        looker = Looker(rank_process(3, stdout=pipe))
        (event,) = of(LogEvent, looker.read())
    os.close(write)
    assert (event.source, event.rank) == (str(tmp_path / "slurm-7.out"), 3)


def test_runtimes_keep_logs_by_the_id_of_the_container(tmp_path: Path) -> None:
    name = "ab" * 32
    docker = tmp_path / "var/lib/docker/containers" / name / f"{name}-json.log"
    kubelet = tmp_path / "var/log/containers" / f"rank-0_train_main-{name}.log"
    for path in (docker, kubelet):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert container_logs(name, root=str(tmp_path)) == [str(docker), str(kubelet)]
    assert container_logs("job_17/step_0", root=str(tmp_path)) == []
    assert container_logs("*" * 64, root=str(tmp_path)) == []
