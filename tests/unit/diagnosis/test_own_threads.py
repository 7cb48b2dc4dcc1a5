"""A rank whose main thread waits for threads of a pool, which compute in a library."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, Sketch, first
from tests.support.stacks import STDLIB, thread

POOL = [f"Condition.wait {STDLIB}/threading.py:327", f"Future.result {STDLIB}/concurrent/futures/_base.py:451",
        "compress save.py:25", "main train.py:9"]  # fmt: skip


def pool(cores: float, *frames: str, held: float = 15.0, main: list[str] = POOL, threads: int = 3) -> Finding:
    """What is told of rank 2, whose other threads are in these frames and use so many cores."""
    sketch = Sketch(watched=90.0, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(main, syscall="futex").pulse(cores=cores)
    job = sketch.job()
    ranks = tuple(
        replace(rank, looks=tuple(look._replace(value=look.value._replace(main_cpu=2.0)) for look in rank.looks))
        for rank in job.ranks
    )
    others = [thread(*frames, f"run {STDLIB}/threading.py:982", name=f"Pool-{n}", tid=7000 + n) for n in range(threads)]
    dumps = tuple(dump._replace(threads=[*dump.threads, *others]) if dump.pid == 1002 else dump for dump in job.stacks)
    return first(diagnose(replace(job, ranks=ranks, stacks=dumps)))


@pytest.mark.parametrize("cores", [0.2, 2.5])
def test_threads_that_compute_are_waited_for_be_it_with_the_little_that_a_full_node_gives(cores: float) -> None:
    found = pool(cores, "one save.py:23")
    assert (found.kind, found.ranks) == ("waiting", (2,))


def test_after_a_minute_it_is_possibly_a_loop_without_end() -> None:
    found = pool(2.5, "one save.py:23", held=70.0)
    assert (found.ranks, found.severity) == ((2,), "critical")
    assert found.certainty != "proven"


@pytest.mark.parametrize(
    ("cores", "frames"),
    [(0.0, ["one save.py:23"]), (2.5, [f"SocketIO.readinto {STDLIB}/socket.py:706", "one save.py:23"])],
    ids=["none computes", "they wait for a service, and others compute"],
)
def test_threads_that_wait_are_not(cores: float, frames: list[str]) -> None:
    found = pool(cores, *frames)
    assert (found.ranks, found.severity) == ((2,), "critical")


FLUSHES = [f"Condition.wait {STDLIB}/threading.py:327", f"Queue.join {STDLIB}/queue.py:90", "flush save.py:25",
           "main train.py:9"]  # fmt: skip
WANTS_MORE = [f"Condition.wait {STDLIB}/threading.py:327", f"Queue.get {STDLIB}/queue.py:171", "work save.py:21"]


@pytest.mark.parametrize(
    ("frames", "held", "told"),
    [
        (["send save.py:23", "work save.py:21"], 15.0, "info"),
        (["send save.py:23", "work save.py:21"], 25.0, "possible"),
        (WANTS_MORE, 15.0, "proven"),
    ],
)
def test_a_queue_that_is_being_emptied_is_waited_for(frames: list[str], held: float, told: str) -> None:
    """A tracker sends what it has, item by item, over a slow link: it was told as holding a lock, proven."""
    found = pool(0.0, *frames, held=held, main=FLUSHES)
    assert found.ranks == (2,)
    assert (found.certainty if found.severity == "critical" else found.severity) == told


IN_C = ["merge words.py:44", "main train.py:9"]


@pytest.mark.parametrize(
    ("cores", "frames", "severity"),
    [
        (0.4, WANTS_MORE, "info"),
        (2.4, WANTS_MORE, "info"),
        (0.04, WANTS_MORE, "info"),
        (0.0, WANTS_MORE, "critical"),
        (0.4, ["spin watch.py:8"], "critical"),
    ],
    ids=[
        "a library's threads compute",
        "more than a core of them",
        "with the little that a full node gives",
        "nobody computes",
        "a thread of Python's computes: the main one may want a lock",
    ],
)
def test_a_library_that_shares_its_work_among_threads_of_its_own_is_no_lock(
    cores: float, frames: list[str], severity: str
) -> None:
    found = pool(cores, *frames, main=IN_C)
    assert (found.severity, found.ranks) == (severity, (2,))


def test_nor_is_it_proven_to_be_one_after_a_minute() -> None:
    found = pool(0.4, *WANTS_MORE, main=IN_C, held=70.0)
    assert (found.severity, found.ranks, found.certainty) == ("critical", (2,), "likely")


@pytest.mark.parametrize(("frames", "certainty"), [(WANTS_MORE, "proven"), (["flush track.py:9"], "possible")])
def test_a_thread_of_which_no_wait_is_known_may_yet_bring_what_its_main_one_waits_for(
    frames: list[str], certainty: str
) -> None:
    """It sleeps for a second a time, as a tracker's does between two lines, or is in a call of C that is not known."""
    main = [f"Condition.wait {STDLIB}/threading.py:327", f"Event.wait {STDLIB}/threading.py:629", "close track.py:30"]
    found = pool(0.0, *frames, main=[*main, "main train.py:9"], threads=1)
    assert (found.severity, found.ranks, found.certainty) == ("critical", (2,), certainty)


@pytest.mark.parametrize(("cores", "severity"), [(0.03, "info"), (0.003, "critical")])
def test_a_trainer_in_a_thread_computes_with_the_little_that_a_full_node_gives_while_the_main_one_sleeps(
    cores: float, severity: str
) -> None:
    main = [f"Thread.join {STDLIB}/threading.py:1119", "start train.py:30", "main train.py:9"]
    found = pool(cores, "fit train.py:21", main=main, threads=1)
    assert (found.severity, found.ranks) == (severity, (2,))


def test_a_lock_is_kept_by_a_thread_that_stays_where_it_is_whatever_that_waits_for() -> None:
    found = pool(0.0, "emit watch.py:12", main=["log_line train.py:44", "main train.py:9"], threads=1)
    assert (found.kind, found.ranks) == ("rank_stuck_on_lock", (2,))
    assert found.certainty != "possible"


QUEUE = [f"Condition.wait {STDLIB}/threading.py:327", f"Queue.get {STDLIB}/queue.py:171", "batch loop.py:25",
         "main train.py:9"]  # fmt: skip
EVENT = [f"Condition.wait {STDLIB}/threading.py:327", f"Event.wait {STDLIB}/threading.py:629", "batch loop.py:25",
         "main train.py:9"]  # fmt: skip


@pytest.mark.parametrize("main", [QUEUE, EVENT], ids=["queue", "event"])
@pytest.mark.parametrize(
    ("cores", "frames", "held", "severity"),
    [
        (0.13, ["decode images.py:26"], 15.0, "info"),
        (0.13, ["decode images.py:26"], 70.0, "critical"),
        (0.0, ["decode images.py:26"], 15.0, "critical"),
        (0.13, WANTS_MORE, 15.0, "critical"),
    ],
    ids=["computes", "for a minute", "does nothing", "others compute"],
)
def test_a_thread_that_computes_what_its_main_one_waits_for_is_given_a_minute(
    main: list[str], cores: float, frames: list[str], held: float, severity: str
) -> None:
    """A decoder in one call of a C library for eight seconds, on a full node, was told as what holds a lock."""
    found = pool(cores, *frames, held=held, main=main, threads=1)
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(("beside", "severity"), [(0.001, "critical"), (0.1, "info")])
def test_what_its_main_thread_uses_is_no_work_of_the_thread_that_does_the_ranks(beside: float, severity: str) -> None:
    """A worker of Dask's runs the training beside an event loop, whose timers take some CPU and are taken off it."""
    loop = [f"EpollSelector.select {STDLIB}/selectors.py:468", f"run {STDLIB}/asyncio/runners.py:190"]
    sketch = Sketch(watched=90.0, span=15.0, stood_still=15.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(loop, syscall="epoll_wait").pulse(cores=0.06 + beside, switches=90.0)
    job = sketch.job()
    ranks = []
    for rank in job.ranks:
        began = rank.looks[0].at
        looks = []
        for number, look in enumerate(rank.looks):
            main = look.value.cpu_user + look.value.cpu_system - beside * (look.at - began)
            taken = 200 * number if rank.rank == 2 else 0
            looks.append(look._replace(value=look.value._replace(main_cpu=main, involuntary_switches=taken)))
        ranks.append(replace(rank, looks=tuple(looks)))
    trains = thread("train job.py:20", f"run {STDLIB}/threading.py:982", name="Dask-Default-Threads-1", tid=7000)
    dumps = tuple(d._replace(threads=[*d.threads, trains]) if d.pid == 1002 else d for d in job.stacks)
    found = first(diagnose(replace(job, ranks=tuple(ranks), stacks=dumps)))
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(
    ("native", "held", "sure"),
    [((), 15.0, "likely"), ((), 70.0, "proven"), (("lock_PyThread_acquire_lock libpython3.11.so",), 15.0, "proven")],
    ids=["nothing tells", "for a minute", "a lock"],
)
def test_a_sleep_in_c_of_which_nothing_tells_what_it_waits_for_is_not_proven_to_be_a_lock(
    native: tuple[str, ...], held: float, sure: str
) -> None:
    """A function that TensorFlow traced computed in threads that were given no CPU: told as a lock, proven."""
    sketch = Sketch(watched=90.0, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(["step train.py:42", "main train.py:9"], syscall="futex")
    job = sketch.job()
    newest = [dump for dump in job.stacks if dump.pid == 1002][-1]
    main = newest.threads[0]
    inside = thread("futex libc.so.6", *native).frames
    seen = newest._replace(method="native", threads=[main._replace(frames=[*inside, *main.frames])])
    found = first(diagnose(replace(job, stacks=(*job.stacks, seen), stack_nodes=(*job.stack_nodes, sketch.home(2)))))
    assert (found.kind, found.ranks, found.certainty) == ("rank_stuck_on_lock", (2,), sure)
