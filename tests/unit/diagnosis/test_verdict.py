"""The verdict as a whole: order, consequences, words; and that no picture whatever breaks it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.gpus import GpuFault
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    COMPUTING,
    DESTROY,
    INIT,
    LOCKED,
    MOVING,
    NOW,
    READING,
    Ranks,
    Sketch,
    c10d,
    first,
    gpu,
    kinds,
    port,
    source,
)

STACKS = [ALL_REDUCE, BACKWARD, BARRIER, COMPUTING, DESTROY, INIT, LOCKED, READING, c10d("recv"), c10d("send"), []]
EVENTS = [
    "python.exception", "gloo.closed", "torch.watchdog_timeout", "torch.watchdog_status", "elastic.failure",
    "kernel.xid", "kernel.oom", "nccl.warn", "nccl.init", "torch.fingerprint", "torch.store_timeout",
    "launcher.exit", "torch.desync", "process.signal", "something.new",
]  # fmt: skip
FIELDS = [
    "code", "seq", "op", "signature", "missing", "lagging", "rank_a", "rank_b", "enqueued", "exitcode", "signal",
    "failed_rank", "bus_id", "pid", "joined", "expected", "phase", "comm_id", "group_rank", "size", "tried", "peer",
]  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=8),
    st.lists(st.integers(-9, 9), max_size=3),
)  # fmt: skip


def hang() -> Sketch:
    job = Sketch()
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING, syscall="read", waiting_on="pipe")
    return job


def test_configuration_never_outranks_a_hang() -> None:
    job = hang()
    job.ranks().env(NCCL_TIMEOUT="1800", NCCL_IB_TIMEOUT="1000")
    verdict = job.verdict()
    assert first(verdict).kind == "rank_stuck_in_data"
    healthy = Sketch(motion=MOVING)
    healthy.ranks().at(COMPUTING, BACKWARD).pulse(switches=30, cores=0.9).env(NCCL_TIMEOUT="1800")
    assert healthy.verdict().outcome == "healthy"


def test_time_outs_are_consequences_of_what_is_stuck() -> None:
    job = hang()
    for rank in (0, 1, 2):
        job.says("torch.watchdog_timeout", rank, ago=5, op="ALLREDUCE", seq=9)
    verdict = job.verdict()
    assert [(f.kind, f.cause) for f in verdict.findings] == [
        ("rank_stuck_in_data", ""), ("watchdog_timeout", "rank_stuck_in_data"),
    ]  # fmt: skip
    assert verdict.findings[1].weight < verdict.findings[0].weight


# --- properties --------------------------------------------------------------------------------------------------


def _mishap(who: Ranks, what: str) -> None:
    if what == "gone":
        who.gone()
    elif what == "absent":
        who.absent()
    elif what:
        who.unread(what)


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    job = Sketch(
        world=draw(st.integers(0, 6)), nodes=draw(st.integers(1, 3)), looks=draw(st.integers(0, 4)),
        live=draw(st.booleans()), patience=draw(st.sampled_from([2.0, 60.0])), age=draw(st.sampled_from([5.0, 600.0])),
        stood_still=draw(st.sampled_from([None, 0.0, 90.0])),
    )  # fmt: skip
    if job.world == 0:
        job.by_number.clear()
    for rank in list(job.by_number):
        who = job.ranks(rank)
        who.at(
            *draw(st.lists(st.sampled_from(STACKS), min_size=1, max_size=2)), state=draw(st.sampled_from("RSDTtZ")),
            arguments=draw(st.sampled_from([{}, {"src": "1"}, {"dst": "0"}, {"group_given": "yes"}, {"src": "x"}])),
            syscall=draw(st.sampled_from([None, "futex", "read", "none"])),
        )  # fmt: skip
        who.pulse(cores=draw(st.sampled_from([0.0, 0.3, 1.0])), switches=draw(st.sampled_from([0.0, 20.0])))
        _mishap(who, draw(st.sampled_from(["", "", "", "gone", "absent", "denied: no", "odd"])))
    for _ in range(draw(st.integers(0, 4))):
        data: dict[str, Any] = draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
        whose, place = draw(st.sampled_from([None, 0, 1, 5])), draw(st.sampled_from(["", "node1"]))
        when = draw(st.sampled_from([None, NOW - 50, NOW]))
        job.says(draw(st.sampled_from(EVENTS)), whose, node=place, at=when, **data)
    name = draw(st.sampled_from(sorted(job.made_nodes)))
    row = {"utilization": draw(st.sampled_from([None, 0, 99])), "event_reasons": draw(st.sampled_from([None, 0, 0x48]))}
    link = draw(st.sampled_from(["live", "lost", "stale", "connecting", "limited"]))
    flapping = port(states=["ACTIVE", "DOWN"], link_downed=2)
    job.node(name, link=link, gpus=(gpu(0, [row] * 3, pids=[1000]),), ports=(flapping,))
    return job


def shuffled(job: Job, seed: int) -> Job:
    """The same picture, its parts in another order."""
    dice = random.Random(seed)
    dumps = list(zip(job.stack_nodes, job.stacks, strict=True))
    events = list(zip(job.event_nodes, job.events, strict=True))
    ranks, nodes = list(job.ranks), list(job.nodes.items())
    for part in (dumps, events, ranks, nodes):
        dice.shuffle(part)
    return replace(
        job, ranks=tuple(ranks), nodes=dict(nodes),
        stacks=tuple(dump for _, dump in dumps), stack_nodes=tuple(node for node, _ in dumps),
        events=tuple(event for _, event in events), event_nodes=tuple(node for node, _ in events),
    )  # fmt: skip


@given(sketches(), st.integers(0, 1000))
def test_any_picture_has_one_verdict_whatever_the_order_of_its_parts(sketch: Sketch, seed: int) -> None:
    job = sketch.job()
    verdict = diagnose(job)
    again, otherwise = verdict == diagnose(job), verdict == diagnose(shuffled(job, seed))
    # not in an assertion of their own: to tell two such verdicts apart pytest takes more memory than a machine has
    assert again
    assert otherwise
    assert verdict.summary
    for finding in verdict.findings:
        assert 0.0 < finding.weight <= 1.0
        assert finding.summary
        assert "\n" not in finding.summary
        assert finding.ranks == tuple(sorted(set(finding.ranks)))


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from("SRDTX?"))
def test_a_dump_may_say_anything(error: str, wchan: str, state: str) -> None:
    dump = StackDump(1000, 1000, NOW, "none", state, wchan, "", 0.0, error, [])
    job = replace(Sketch().job(), stacks=(dump,), stack_nodes=("node1",))
    assert diagnose(job).summary


def test_of_a_node_that_has_just_gone_quiet_it_is_said_that_it_has() -> None:
    job = Sketch(world=4, nodes=2)
    job.node("node2", link="stale", seen_at=NOW - 5)
    verdict = job.verdict()
    assert verdict.outcome == "unknown"
    assert "4 ranks on 2 nodes" in verdict.summary, "they are still on it"
    assert ("everything", ("node2",)) in [(one.source, one.nodes) for one in verdict.unknown]


def test_a_job_is_not_healthy_while_ranks_of_it_cannot_be_seen_any_more() -> None:
    job = Sketch(world=4, nodes=2)
    job.motion = MOVING
    assert job.verdict().outcome == "healthy"
    job.node("node2", sources={"ranks": source("ranks", "failed", "/proc shows no process")})
    verdict = job.verdict()
    assert verdict.outcome == "unknown"
    assert "nothing is known about ranks 2-3 on node2 now" in verdict.summary
    job.node("node2", sources={"ranks": source("ranks", "late", "no answer for 5 s", NOW - 2)})
    assert job.verdict().outcome == "healthy", "they were seen just now"
    job.node("node2", sources={"ranks": source("ranks", "late", "no answer for 15 s", NOW - 12)})
    assert job.verdict().outcome == "unknown"
    job.ranks(2, 3).gone()
    assert "nothing is known about" not in job.verdict().summary, "they had ended before"


def test_a_wait_for_a_rank_whose_gpu_is_lost_is_a_hang_and_the_gpu_is_why() -> None:
    """It would be waited for, and nobody accused: what is broken under it explains the wait."""
    lost = GpuFault(0, "00000000:10:00.0", "GPU is lost")
    job = Sketch(span=7.0, watched=7.0, stood_still=7.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(["step run.py:7", "main run.py:9"], syscall="clock_nanosleep")
    assert job.verdict().outcome == "waiting"
    job.node("node2", gpus=(gpu(0, pids=[1002], fault=lost), gpu(1, pids=[1003])))
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind) == ("hung", "gpu_lost"), kinds(verdict)
    assert {finding.cause for finding in verdict.findings[1:] if finding.ranks == (2,)} == {"gpu_lost"}
