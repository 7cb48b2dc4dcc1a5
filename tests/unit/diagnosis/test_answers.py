"""A rank that asks a service and waits for its answers: it is waited for, too, as long as some come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.stacks import ThreadStack
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first
from tests.support.stacks import STDLIB, thread

ASKS = ["ask_judge reward.py:40", "main run.py:9"]
POOL = [f"Condition.wait {STDLIB}/threading.py:327", f"Future.result {STDLIB}/concurrent/futures/_base.py:451", *ASKS]


def asking(
    held: float, ran: float | None, stack: list[str], *, threads: int = 1, per_s: float = 0.0, plain: bool = False
) -> Job:
    """Rank 2 keeps the others waiting for so long at a service; its main thread ran so many seconds ago.

    ``plain``: its threads ask in C, and nothing tells what they wait for.
    """
    sketch = Sketch(watched=90.0, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    own = stack is ASKS
    sketch.ranks(2).at(
        stack, syscall="recvfrom" if own else "futex", waiting_on="tcp 10.0.0.9:443" if own else ""
    ).pulse(switches=per_s)
    job = sketch.job()
    ranks = []
    for rank in job.ranks:
        since = None if ran is None or rank.rank != 2 else NOW - ran
        looks = tuple(look._replace(value=look.value._replace(idle_since=since)) for look in rank.looks)
        ranks.append(replace(rank, looks=looks))
    dumps = tuple(
        dump._replace(threads=[*dump.threads, *(asker(number, plain=plain) for number in range(threads))])
        if dump.pid == 1002 and not own
        else dump
        for dump in job.stacks
    )
    return replace(job, ranks=tuple(ranks), stacks=dumps)


def asker(number: int, *, plain: bool) -> ThreadStack:
    """A thread of a pool that reads an answer."""
    reads = () if plain else (f"SocketIO.readinto {STDLIB}/socket.py:706",)
    return thread(
        *reads, "one /srv/reward.py:38", f"run {STDLIB}/threading.py:982",
        name=f"ThreadPoolExecutor-0_{number}", tid=7000 + number,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held", "ran", "per_s", "kind"),
    [(14.0, 3.0, 0.2, "waiting"), (14.0, 13.9, 0.0, "rank_stuck_in_code"), (14.0, None, 0.0, "rank_stuck_in_code"),
     (25.0, 3.0, 0.2, "waiting"), (25.0, 3.0, 2.0, "rank_stuck_in_code"), (70.0, 3.0, 0.2, "rank_stuck_in_code")],
)  # fmt: skip
def test_who_was_answered_since_the_others_came_is_given_time(
    held: float, ran: float | None, per_s: float, kind: str
) -> None:
    found = first(diagnose(asking(held, ran, ASKS, per_s=per_s)))
    assert (found.kind, found.ranks) == (kind, (2,))
    if 20.0 < held < 60.0 and kind != "waiting":
        assert found.certainty == "possible", "it was seen to go on"


@pytest.mark.parametrize(
    ("far", "held", "severity"),
    [
        ("process 71 (python3), running", 25.0, "info"),
        ("process 71 (python3)", 25.0, "critical"),
        ("process 71 (python3), running", 70.0, "critical"),
    ],
)
def test_a_server_on_its_node_that_is_at_work_is_given_a_minute_for_one_answer(
    far: str, held: float, severity: str
) -> None:
    """A simulator that the job was started beside took half a minute for one step."""
    job = asking(held, None, ASKS)
    stacks = [dump._replace(waiting_on=f"tcp 127.0.0.1:70, {far}") if dump.pid == 1002 else dump for dump in job.stacks]
    found = first(diagnose(replace(job, stacks=tuple(stacks))))
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(("per_s", "kind"), [(1.1, "waiting"), (0.0, "rank_stuck_in_code")])
def test_answers_that_come_each_second_leave_no_sleep_long_enough_to_be_told(per_s: float, kind: str) -> None:
    """It lists objects in a store, page by page; that its main thread woke is all that the kernel tells."""
    assert first(diagnose(asking(14.0, None, ASKS, per_s=per_s))).kind == kind


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("held", "severity"), [(7.0, "info"), (14.0, "critical")])
def test_what_threads_of_a_pool_ask_for_may_take_ten_seconds(threads: int, held: float, severity: str) -> None:
    found = first(diagnose(asking(held, held - 0.1, POOL, threads=threads)))
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize("far", ["socket", "pipe", "/data/shard-7"])
def test_so_is_who_reads_what_a_program_on_its_node_says(far: str) -> None:
    job = asking(14.0, 3.0, ASKS)
    stacks = tuple(dump._replace(waiting_on=far) if dump.pid == 1002 else dump for dump in job.stacks)
    assert first(diagnose(replace(job, stacks=stacks))).severity == ("critical" if far.startswith("/") else "info")


def test_who_runs_at_this_very_moment_was_answered() -> None:
    job = asking(14.0, 3.0, ASKS)
    newest = job.ranks[2].looks[-1]
    awake = newest._replace(value=newest.value._replace(idle_since=None))
    ranks = [rank if rank.rank != 2 else replace(rank, looks=(*rank.looks[:-1], awake)) for rank in job.ranks]
    assert first(diagnose(replace(job, ranks=tuple(ranks)))).kind == "waiting"


@pytest.mark.parametrize(("held", "sure"), [(8.0, ("possible",)), (30.0, ("likely", "proven"))])
def test_one_answer_may_take_long_so_who_waits_for_it_is_at_first_but_possibly_stuck(
    held: float, sure: tuple[str, ...]
) -> None:
    """A service that works looks like one that does not answer: what stands behind the connection is not seen."""
    found = first(diagnose(asking(held, None, ASKS)))
    assert (found.kind, found.ranks) == ("rank_stuck_in_code", (2,))
    assert found.certainty in sure


@pytest.mark.parametrize(("ran", "kind"), [(2.0, "waiting"), (13.9, "rank_stuck_on_lock")])
def test_so_is_who_was_handed_something_by_threads_of_which_nothing_tells_what_they_wait_for(
    ran: float, kind: str
) -> None:
    found = first(diagnose(asking(14.0, ran, POOL, threads=4, plain=True)))
    assert (found.kind, found.ranks) == (kind, (2,))


@pytest.mark.parametrize(
    ("threads", "per_s", "severity"),
    [(4, 3.0, "info"), (4, 9.0, "critical"), (1, 3.0, "critical")],
)
def test_of_several_threads_that_ask_each_may_be_answered_once_a_second(
    threads: int, per_s: float, severity: str
) -> None:
    """A pool of four that scores samples by a service woke its main thread more than once a second, and was accused."""
    found = first(diagnose(asking(25.0, 3.0, POOL, threads=threads, per_s=per_s)))
    assert (found.severity, found.ranks) == (severity, (2,))


LOOP = [
    f"EpollSelector.select {STDLIB}/selectors.py:468",
    f"BaseEventLoop._run_once {STDLIB}/asyncio/base_events.py:1884",
    f"run {STDLIB}/asyncio/runners.py:190",
    *ASKS,
]


@pytest.mark.parametrize(
    ("held", "ran", "per_s", "severity"),
    [
        (14.0, 3.0, 0.5, "info"),
        (14.0, 13.9, 0.0, "critical"),
        (14.0, None, 0.0, "critical"),
        (70.0, 3.0, 0.5, "critical"),
    ],
)
def test_an_event_loop_that_wakes_gets_on_with_what_it_asks(
    held: float, ran: float | None, per_s: float, severity: str
) -> None:
    """Samples were scored by two requests at a time: the loop woke once a second, and was told as stuck, proven."""
    job = asking(held, ran, LOOP, threads=0, per_s=per_s)
    stacks = tuple(dump._replace(syscall="epoll_wait") if dump.pid == 1002 else dump for dump in job.stacks)
    found = first(diagnose(replace(job, stacks=stacks)))
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(("held", "severity", "sure"), [(6.0, "info", ""), (14.0, "critical", "possible")])
def test_one_that_has_not_woken_since_may_yet_be_answered(held: float, severity: str, sure: str) -> None:
    """By triage, after four seconds: each answer took two."""
    job = asking(held, None, LOOP, threads=0)
    stacks = tuple(dump._replace(syscall="epoll_wait") if dump.pid == 1002 else dump for dump in job.stacks)
    found = first(diagnose(replace(job, stacks=stacks)))
    assert (found.severity, found.ranks) == (severity, (2,))
    assert severity == "info" or found.certainty == sure


READS = (f"BufferedReader.read {STDLIB}/_pyio.py:10", "reader feed.py:12", f"run {STDLIB}/threading.py:982")


@pytest.mark.parametrize(
    ("held", "ran", "kind"),
    [
        (14.0, 2.0, "waiting"),
        (14.0, 13.9, "rank_stuck_in_data"),
        (5.0, 2.5, "waiting"),
        (5.0, 6.0, "rank_stuck_in_data"),
    ],
)
def test_a_queue_that_a_thread_fills_with_what_it_reads_is_waited_for_while_something_comes(
    held: float, ran: float, kind: str
) -> None:
    """A loader's thread that got a batch every few seconds was told as stuck."""
    stack = [f"Queue.get {STDLIB}/queue.py:171", "batches feed.py:40", "main run.py:9"]
    job = asking(held, ran, stack, threads=0)
    reads = thread(*READS, name="prefetch", tid=7000)
    stacks = tuple(d._replace(threads=[*d.threads, reads]) if d.pid == 1002 else d for d in job.stacks)
    found = first(diagnose(replace(job, stacks=stacks)))
    assert (found.kind, found.ranks) == (kind, (2,))


@pytest.mark.parametrize(("ran", "kind"), [(3.0, "waiting"), (13.9, "rank_stuck_on_lock")])
def test_threads_of_a_pool_that_sleep_between_their_results_bring_them(ran: float, kind: str) -> None:
    """Which of several threads the main one waits for nobody knows."""
    job = asking(14.0, ran, POOL, threads=3, plain=True)
    found = first(diagnose(job))
    assert (found.kind, found.ranks) == (kind, (2,))


@pytest.mark.parametrize(
    ("native", "carried", "severity", "sure"),
    [
        (("send libc.so.6", "sock_call_ex python3"), 9000, "info", ""),
        (("send libc.so.6", "sock_call_ex python3"), 40, "critical", "possible"),
        (("send libc.so.6", "_ssl__SSLSocket_write _ssl.so"), 9000, "info", ""),
        (("futex libc.so.6", "lock_PyThread_acquire_lock python3"), 9000, "critical", "proven"),
    ],
    ids=["drips", "stands", "encrypted", "a lock"],
)
def test_a_thread_that_sends_slowly_is_waited_for_while_a_little_gets_through(
    native: tuple[str, ...], carried: int, severity: str, sure: str
) -> None:
    """A tracker's upload at the end of training was told as stuck, proven: of other threads the kernel is not asked."""
    sketch = Sketch(watched=90.0, span=14.0, stood_still=14.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(
        [f"Thread.join {STDLIB}/threading.py:1119", "finish run.py:40", "main run.py:9"], syscall="futex"
    )
    job = sketch.job()
    own = ("upload run.py:30", f"run {STDLIB}/threading.py:982")
    sends = thread(*own, name="SenderThread", tid=7000)
    dumps = [
        d._replace(threads=[*d.threads, sends], carried=round(carried * (d.at - NOW + 30.0))) if d.pid == 1002 else d
        for d in job.stacks
    ]
    newest = next(dump for dump in reversed(dumps) if dump.pid == 1002)
    seen = newest._replace(
        method="native", threads=[newest.threads[0], thread(*native, *own, name="SenderThread", tid=7000)]
    )
    found = first(diagnose(replace(job, stacks=(*dumps, seen), stack_nodes=(*job.stack_nodes, sketch.home(2)))))
    assert (found.severity, found.ranks) == (severity, (2,))
    assert severity == "info" or found.certainty == sure
