"""Files followed on a node: rotation, truncation, what appears later, what may not be read, floods."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.logs import file_names as names
from collectors.node.logs.following import follow
from collectors.node.logs.following.source import LogSource
from collectors.node.logs.following.tail import Tail
from collectors.node.processes import mounts
from collectors.node.source import Absent, Shared
from collectors.samples.control import Settings
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, LogsRead
from collectors.samples.ranks import RankProcess

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: %s\n'
COLL = (
    "n1:%d:7 [0] NCCL INFO AllReduce: opCount %x sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x50"
    " [nranks=2] stream 0x9\n"
)


def rank_process(pid: int, rank: int, stdout: str = "", **fields: object) -> RankProcess:
    known = dict.fromkeys(RankProcess._fields)
    given: dict[str, object] = {
        "pid": pid, "rank": rank, "local_rank": rank, "stdout": stdout, "stderr": stdout, "nccl_log": "", "env": {},
        "container": "",
    }  # fmt: skip
    return RankProcess(**{**known, **given, **fields})  # type: ignore[arg-type]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose standard output is ``rank.log``."""
    with (tmp_path / "rank.log").open("ab") as log:
        process = subprocess.Popen(["sleep", "60"], stdout=log, stderr=log)
    yield process
    process.kill()
    process.wait()


class Looker:
    """A source and its looks."""

    def __init__(self, *ranks: RankProcess, **settings: list[str]) -> None:
        self.shared = Shared()
        self.shared.ranks = ranks
        self.source = LogSource(self.shared)
        self.now = time.time()
        self.source.configure(
            Settings(
                interval=1.0,
                phase=0.0,
                job=None,
                log_globs=settings.get("log_globs", []),
                on_view=settings.get("on_view", []),
                not_mine=settings.get("not_mine", []),
            )
        )

    def look(self, after: float = 1.0) -> list[object]:
        self.now += after
        return list(self.source.look(self.now))


def of(kind: type, samples: list[object]) -> list[object]:
    return [sample for sample in samples if isinstance(sample, kind)]


def messages(samples: list[object]) -> list[object]:
    return [sample.data["message"] for sample in samples if isinstance(sample, LogEvent)]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_is_followed_through_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    tail = Tail(str(path))
    tail.refresh()
    assert tail.why == "No such file or directory"

    def read() -> tuple[bytes, bool]:
        tail.refresh()
        fresh, tail.fresh = tail.fresh, False
        return b"".join(tail.read()), fresh

    path.write_text("one\n")
    assert read() == (b"one\n", False)
    assert read() == (b"", False)
    append(path, "two\n")
    assert read() == (b"two\n", False)
    path.rename(tmp_path / "x.log.1")
    append(tmp_path / "x.log.1", "late\n")
    path.write_text("three\n")
    assert read() == (b"late\n", False)
    assert read() == (b"three\n", True)
    path.write_text("4\n")
    assert read() == (b"4\n", True)
    tail.close()


def test_a_rank_s_log(tmp_path: Path, writer: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "rank.log"
    looker = Looker(rank_process(writer.pid, 3, str(path)), on_view=[str(path)])
    path.write_text("hello\n")
    samples = looker.look()
    files = of(LogFile, samples)
    assert {(file.path, file.rank, file.stream, file.why) for file in files if isinstance(file, LogFile)} == {
        (str(path), 3, "stdout", ""),
        (str(path), 3, "stderr", ""),
    }
    assert [lines.lines for lines in samples if isinstance(lines, LogLines)] == [["hello"]]
    append(path, TRACEBACK % "one" + "half a li")
    samples = looker.look() + looker.look(3.0)
    (event,) = of(LogEvent, samples)
    assert isinstance(event, LogEvent)
    assert (event.kind, event.rank, event.line, event.data["message"]) == ("python.exception", 3, 2, "one")
    assert event.at is not None
    shown = [line for lines in samples if isinstance(lines, LogLines) for line in lines.lines]
    assert shown == (TRACEBACK % "one").splitlines()


def test_a_truncated_log_begins_again_and_keeps_its_communicators(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    init = "n1:7:7 [0] NCCL INFO comm 0x50 rank 0 nranks 2 cudaDev 0 busId 1 commId 0x99 - Init START\n"
    path.write_text(init + COLL % (7, 1))
    looker = Looker(log_globs=[str(path)])
    looker.look()
    path.write_text(COLL % (7, 2))
    progress = of(CommProgress, looker.look())
    assert [(p.comm, p.op_count) for p in progress if isinstance(p, CommProgress)] == [("0x99", 2)]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    looker = Looker(
        rank_process(os.getpid(), 0, "/dev/pts/3", stderr="pipe:[1]"),
        rank_process(os.getpid(), 1, "/dev/null", stderr="socket:[5]"),
        rank_process(os.getpid(), 2, "", nccl_log=str(tmp_path / "none.log")),
    )
    why = {(f.rank, f.stream): f.why for f in looker.look() if isinstance(f, LogFile)}
    assert "no file" in why[0, "stdout"]
    assert "--log" in why[0, "stderr"]
    assert why[1, "stdout"] == "no file: what was printed there cannot be read"
    assert why[1, "stderr"] == "no file: what was printed there cannot be read"
    assert why[2, "nccl"] == "No such file or directory"


def test_another_node_reads_a_shared_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(TRACEBACK % "one")
    looker = Looker(log_globs=[str(tmp_path / "*.log")])
    (file,) = of(LogFile, looker.look())
    assert isinstance(file, LogFile)
    fresh = Looker(log_globs=[str(tmp_path / "*.log")], not_mine=[file.file_id])
    samples = fresh.look() + fresh.look(3.0)
    assert not of(LogEvent, samples)
    assert [f.why for f in samples if isinstance(f, LogFile)] == ["another node reads it"] * 2


@pytest.mark.parametrize(("age", "at_once"), [(900.0, True), (0.5, False)])
def test_the_last_traceback_of_an_old_log_is_told_at_the_first_look(tmp_path: Path, age: float, at_once: bool) -> None:
    """``triage`` has its answer after a few seconds, and a rank that ended long ago writes nothing more."""
    path, now = tmp_path / "job.out", time.time()
    path.write_text(
        'Traceback (most recent call last):\n  File "/job/train.py", line 6, in <module>\n    main()\n'
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 50305, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
    )
    os.utime(path, (now - age, now - age))
    followed = follow.Followed(str(path), follow.LogOwner(None, None, "extra"), now)
    followed.tail.refresh()
    followed.read(now, time.thread_time() + 1.0)
    assert ("torch.address_in_use" in [event.kind for event in followed.events]) == at_once
    followed.tail.refresh()
    followed.read(now + 3.0, time.thread_time() + 1.0)
    assert [event.kind for event in followed.events].count("torch.address_in_use") == 1


LABELLED = "".join(f"[rank2]: {line}\n" for line in (TRACEBACK % "shard 17").splitlines())


def told_of(followed: follow.Followed, now: float) -> list[str]:
    """Kinds of what is told at one look."""
    followed.tail.refresh()
    followed.read(now, time.thread_time() + 1.0)
    kinds = [event.kind for event in followed.events]
    followed.events = []
    return kinds


def test_the_last_words_of_one_rank_are_told_while_the_others_write_on(tmp_path: Path) -> None:
    """Output of all ranks of a node in one file: it never rests, and that rank says nothing more."""
    path, now = tmp_path / "job.out", time.time()
    append(path, "[rank0]: step 1\n")
    followed = follow.Followed(str(path), follow.LogOwner(None, None, "extra"), now)
    assert told_of(followed, now) == []
    append(path, LABELLED)
    told = []
    for second in range(1, 6):
        append(path, f"[rank0]: step {second + 1}\n")
        told.append(told_of(followed, now + second))
    assert told == [[], [], [], ["python.exception"], []]


def test_old_lines_on_view_have_the_time_that_is_in_them_and_new_ones_that_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("banner\n2023-11-14T22:13:20Z one\n  goes on\n2023-11-14T22:13:30Z two\n")
    os.utime(path, (1_700_000_100, 1_700_000_100))
    followed = follow.Followed(str(path), follow.LogOwner(None, None, "extra"), 0.0)
    followed.tail.refresh()
    told = [(shown.at, shown.lines) for shown in followed.lines(1_700_009_000.0, 1000, {})]
    assert told == [
        (1_700_000_000.0, ["banner"]),
        (1_700_000_000.0, ["2023-11-14T22:13:20Z one", "  goes on"]),
        (1_700_000_010.0, ["2023-11-14T22:13:30Z two"]),
    ]
    append(path, "new\n2023-11-14T22:13:40Z three\n")
    followed.tail.refresh()
    (shown,) = followed.lines(1_700_009_001.0, 1000, {})
    assert (shown.at, len(shown.lines)) == (1_700_009_001.0, 2)
    followed.tail.close()


def test_nothing_to_follow_is_absent() -> None:
    with pytest.raises(Absent):
        Looker().look()


def test_shared_file_systems() -> None:
    parsed = mounts.parse(
        "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "40 25 0:44 / /home rw,relatime shared:20 - nfs4 fs1:/home rw,vers=4.2\n"
        "41 25 0:45 / /data\\040x rw - lustre 10.0.0.1@o2ib:/scratch rw\n"
        "42 25 0:46 / /mnt rw - fuse.juicefs JuiceFS:x rw\n"
        "43 25 0:47 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\nnonsense\n"
    )
    assert {mount.folder: mount.shared for mount in parsed} == {
        "/": "",
        "/home": "nfs4 fs1:/home",
        "/data x": "lustre 10.0.0.1@o2ib:/scratch",
        "/mnt": "fuse.juicefs JuiceFS:x",
        "/var/lib/lxcfs": "",
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x/none_9b2/attempt_0/3/stderr.log", names.Hints(local_rank=3, stream="stderr")),
        ("logs/rank_12.log", names.Hints(rank=12)),
        ("run/rank_2/stderr.log", names.Hints(rank=2, stream="stderr")),
        ("lora/rank_16/train.log", names.Hints()),  # the rank of an adapter
        ("slurm-123456_7.out", names.Hints(stream="stdout")),  # a job of an array
        ("train-123456_7.out", names.Hints(rank=7, stream="stdout")),
        ("nccl.gpu-3.4711.log", names.Hints(host="gpu-3", pid=4711, stream="nccl")),
        ("ip-10-0-3-17/rank2.log", names.Hints(rank=2, host="ip-10-0-3-17")),
        ("algo-3-1764157990.log", names.Hints(host="algo-3")),  # SageMaker's host and start
        ("train.log", names.Hints()),
    ],
)
def test_what_names_tell(path: str, expected: names.Hints) -> None:
    assert names.hints(path) == expected


def test_how_far_logs_are_read_is_told(tmp_path: Path) -> None:
    """A traceback that may go on is not told yet; nor is what was not there when they were looked at."""
    path = tmp_path / "x.log"
    path.write_text("one\n")
    looker = Looker(log_globs=[str(path)])

    def told_to() -> list[float]:
        return [sample.at - looker.now for sample in looker.look() if isinstance(sample, LogsRead)]

    os.utime(path, (looker.now - 60,) * 2)
    assert told_to() == [0.0]
    append(path, TRACEBACK % "a")
    assert told_to() == [-1.0]
    append(path, "two\n")
    assert [told_to() for _ in range(4)] == [[-2.0], [-3.0], [-4.0], [0.0]]


def test_a_log_stays_its_ranks_when_that_has_ended(tmp_path: Path) -> None:
    writers, ranks = [], []
    for number in range(2):
        path = tmp_path / f"rank{number}.log"
        with path.open("ab") as log:
            writers.append(subprocess.Popen(["sleep", "60"], stdout=log, stderr=log))
        path.write_text("up\n")
        started = time.time() - 60
        ranks.append(rank_process(writers[-1].pid, number, str(path), started=started, local_world_size=2))
    try:
        looker = Looker(*ranks)
        looker.look()
        append(tmp_path / "rank1.log", TRACEBACK % "late")
        looker.shared.ranks = (ranks[0],)
        told = [sample for _ in range(4) for sample in looker.look(after=6.0)]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    (raised,) = (sample for sample in told if isinstance(sample, LogEvent) and sample.kind == "python.exception")
    assert (raised.rank, raised.pid) == (1, writers[1].pid)


def test_root_reads_no_file_that_the_user_who_named_it_may_not(tmp_path: Path) -> None:
    path = tmp_path / "shadow"
    path.write_text("secret\n")
    path.chmod(0o600)
    other = Tail(str(path), uid=os.getuid() + 1)
    other.refresh()
    assert (list(other.read()), other.why) == ([], "not the file that it should be")
    path.chmod(0o644)
    everybodys = Tail(str(path), uid=os.getuid() + 1)
    everybodys.refresh()
    assert list(everybodys.read()) == [b"secret\n"]
