"""Samples in, the job's state out: on one clock, with growth and rates, across reconnects and resets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuProcesses
from collectors.samples.host import Counters, PortFacts
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import Helper, ProcessGone
from collectors.samples.registry import SAMPLES
from collectors.samples.stream import Hello, SourceState
from hangtop.diagnosis.node import Node
from hangtop.session.intake import Intake
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import gpu_row, hello, process, pulse, tick

PORT = PortFacts("mlx5_0", 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0)


class Wire:
    """A store, a clock, and one node that talks to it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.intake = Intake(SessionOptions(), lambda: self.now)

    def say(self, *samples: NamedTuple, at: float | None = None) -> Node:
        """Deliver samples and the tick that ends their flush."""
        self.now = self.now if at is None else at
        self.intake.samples("node1", [*samples, tick(self.now)])
        return self.node

    @property
    def node(self) -> Node:
        return self.intake.state.nodes["node1"]

    @property
    def changes(self) -> list[str]:
        return [change.text for _, change in self.intake.state.changes]


@pytest.fixture
def wire() -> Wire:
    made = Wire()
    made.say(hello(1000.0))
    return made


def test_a_node_whose_clock_is_ahead_is_brought_onto_ours(wire: Wire) -> None:
    ahead = 40.0
    event = LogEvent("python.exception", 1041.0, 0, "", 1000, "x.err", 1, "boom", {"after": 1040.5})
    wire.intake.samples("node1", [hello(1000.0 + ahead)])
    wire.now = 1001.5
    wire.intake.samples("node1", [process(0, started=1030.0), event, tick(1001.0 + ahead)])
    node = wire.node
    assert node.clock_offset == pytest.approx(ahead)
    assert node.ranks[1000].process.started == pytest.approx(990.0)
    assert [*wire.intake.state.events][-1][1].at == pytest.approx(1001.0)
    assert [*wire.intake.state.events][-1][1].data["after"] == pytest.approx(1000.5)


@pytest.mark.parametrize("step", [3600.0, -3600.0, -5.0])
def test_a_clock_that_is_set_moves_nothing_of_its_node_into_past_or_future(wire: Wire, step: float) -> None:
    wire.intake.samples("node1", [hello(1000.0)])
    for second in range(1, 9):
        off = 7.0 + (step if second > 4 else 0.0)
        wire.now = 1000.0 + second + 0.01
        there = 1000.0 + second + off
        event = LogEvent("python.exception", there - 0.2, 0, "", 1000, "x.err", second, "boom", {})
        wire.intake.samples("node1", [gpu_row(0, power=100.0 + second), event, tick(there)])
        assert wire.node.gpus[0].samples[-1].at == pytest.approx(wire.now, abs=0.02)
        assert [*wire.intake.state.events][-1][1].at == pytest.approx(wire.now - 0.2, abs=0.03)
    assert wire.node.clock_offset == pytest.approx(7.0 + step, abs=0.02)


def test_flushes_that_arrive_together_keep_their_own_times(wire: Wire) -> None:
    wire.say(at=1001.0)
    wire.now = 1010.0
    chunk: list[NamedTuple] = [gpu_row(0), tick(1002.0), gpu_row(0, power=1.0), tick(1003.0), gpu_row(0, power=2.0)]
    wire.intake.samples("node1", chunk)
    looks = [(look.at, look.value.power) for look in wire.node.gpus[0].samples]
    assert looks == [(1002.0, 80.0), (1003.0, 1.0), (1010.0, 2.0)]


def test_port_counters_become_growth_and_rates(wire: Wire) -> None:
    wire.say(PORT, Counters("mlx5_0/1", "sysfs", {"symbol_error": 7, "port_rcv_data": 0}), at=1001.0)
    node = wire.say(Counters("mlx5_0/1", "sysfs", {"port_rcv_data": 400}), at=1003.0)
    port = node.ports["mlx5_0/1"]
    assert port.rate("port_rcv_data") == 200.0
    assert port.counters["symbol_error"] - port.first["symbol_error"] == 0
    node = wire.say(at=1006.0)
    assert node.ports["mlx5_0/1"].rate("port_rcv_data") == 0.0


def test_a_counter_that_began_again_keeps_its_growth(wire: Wire) -> None:
    wire.say(PORT, Counters("mlx5_0/1", "sysfs", {"link_downed": 100}), at=1001.0)
    wire.say(Counters("mlx5_0/1", "sysfs", {"link_downed": 103}), at=1002.0)
    node = wire.say(Counters("mlx5_0/1", "sysfs", {"link_downed": 2}), at=1003.0)
    port = node.ports["mlx5_0/1"]
    assert port.counters["link_downed"] - port.first["link_downed"] == 5
    assert port.rate("link_downed") == 2.0


def test_compute_apps_are_placed_by_bus_address_in_any_spelling(wire: Wire) -> None:
    facts = GpuFacts(1, "GPU-1", "00000000:3B:00.0", "H200", None, None, None, None, None)
    wire.say(GpuProcesses([GpuProcess("0000:3b:00", 4711, 100, None, "python")]))
    node = wire.say(facts, gpu_row(1))
    assert [p.pid for p in node.gpus[1].processes] == [4711]


def test_a_fault_of_a_gpu_lasts_until_it_answers(wire: Wire) -> None:
    wire.say(gpu_row(2))
    node = wire.say(GpuFault(2, "", "GPU is lost"))
    assert node.gpus[2].fault is not None
    node = wire.say(gpu_row(2, power=90.0))
    assert node.gpus[2].fault is None
    assert wire.changes[-2:] == ["GPU 2: GPU is lost", "GPU 2 answers again"]


def test_ranks_come_stop_and_go(wire: Wire) -> None:
    wire.say(process(3), pulse(1003, state="R"), at=1001.0)
    wire.say(pulse(1003, state="T"), Helper(7, 1003, "data_worker", "S", "", 0, "python"), at=1002.0)
    assert list(wire.node.ranks[1003].helpers) == [7]
    node = wire.say(ProcessGone(1003, 1002.5), at=1003.0)
    assert node.ranks[1003].gone_at == 1002.5
    assert node.ranks[1003].helpers == {}
    assert wire.changes == ["rank 3 started", "rank 3 is stopped", "rank 3 is gone"]


def test_a_reused_pid_is_another_process(wire: Wire) -> None:
    wire.say(process(0), pulse(1000), at=1001.0)
    wire.say(ProcessGone(1000, 1002.0), at=1002.0)
    node = wire.say(process(1, pid=1000, started=1003.0), at=1003.0)
    assert node.ranks[1000].process.rank == 1
    assert node.ranks[1000].gone_at is None
    assert not node.ranks[1000].pulses


def test_a_rank_that_a_new_stream_does_not_name_is_gone(wire: Wire) -> None:
    wire.say(process(0), process(1), at=1001.0)
    wire.say(hello(1010.0), process(0), at=1010.0)
    assert wire.node.ranks[1001].gone_at is None
    for second in range(4):
        wire.say(at=1011.0 + second)
    assert wire.node.ranks[1000].gone_at is None
    assert wire.node.ranks[1001].gone_at is not None


def test_ranks_are_not_gone_because_their_source_is(wire: Wire) -> None:
    wire.say(process(0), at=1001.0)
    wire.say(hello(1010.0), SourceState("ranks", "late", "over 5 s", 1010.0), at=1010.0)
    for second in range(6):
        wire.say(at=1011.0 + second)
    assert wire.node.ranks[1000].gone_at is None


def test_a_reboot_ends_every_rank_at_once(wire: Wire) -> None:
    wire.say(process(0), at=1001.0)
    node = wire.say(hello(1100.0, boot_id="boot-2"), at=1100.0)
    assert node.ranks[1000].gone_at == 1100.0
    assert "was rebooted" in wire.changes


def test_what_the_kernel_says_is_a_change_unless_it_is_old(wire: Wire) -> None:
    oom = LogEvent("kernel.oom", 990.0, None, "", None, "kmsg", 0, "Out of memory: Killed process 7", {})
    wire.say(oom)
    assert wire.changes == []
    wire.say(oom._replace(at=1001.0), at=1001.0)
    assert wire.changes == ["Out of memory: Killed process 7"]
    assert len(wire.intake.state.events) == 2


def test_links_and_bad_lines(wire: Wire) -> None:
    wire.intake.link(LinkChange("node2", "connecting", "", 1000.0))
    wire.intake.link(LinkChange("node2", "lost", "no route to host", 1001.0))
    wire.intake.bad_line("node2", "hf_" + "a1B2" * 8 + "\x00" * 500, "no JSON")
    node = wire.intake.state.nodes["node2"]
    assert (node.link, node.why, node.since) == ("lost", "no route to host", 1001.0)
    assert node.bad_lines == 1
    assert node.last_bad.startswith("no JSON: <redacted>")
    assert len(node.last_bad) < 250
    assert wire.changes[-1] == "lost: no route to host"


def _strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type, with few distinct small numbers so that identities meet."""
    small = st.integers(-1, 3) | st.integers(0, 2**63)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        int: small,
        float: st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 2000),
        str: st.sampled_from(["", "mlx5_0", "00000000:3B:00.0", "ranks", "T", "sysfs", "perfquery"])
        | st.text(max_size=5),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _sample(hint)
    origin, arguments = getattr(hint, "__origin__", None), get_args(hint)
    if origin is list:
        return st.lists(st.deferred(lambda: _strategy(arguments[0])), max_size=2)
    if origin is dict:
        return st.dictionaries(_strategy(arguments[0]), st.deferred(lambda: _strategy(arguments[1])), max_size=2)
    return st.one_of([_strategy(argument) for argument in arguments])


def _sample(kind: type) -> st.SearchStrategy[Any]:
    return st.builds(kind, *[_strategy(hint) for hint in get_type_hints(kind).values()])


ANY_SAMPLE = st.one_of([_sample(kind) for kind in SAMPLES])


@given(st.lists(st.lists(ANY_SAMPLE, max_size=8), max_size=6))
def test_no_sequence_of_valid_samples_breaks_it(chunks: Sequence[Sequence[NamedTuple]]) -> None:
    wire = Wire()
    session = Session(SessionOptions(), clock=lambda: wire.now)
    wire.intake = session
    wire.intake.link(LinkChange("node1", "live", "", 1000.0))
    for chunk in chunks:
        wire.now += 1.0
        wire.intake.samples("node1", chunk)
        session.tick()
        job = session.job()
        assert len({rank.rank for rank in job.ranks}) == len(job.ranks)
    hellos = [s for chunk in chunks for s in chunk if isinstance(s, Hello)]
    if hellos:
        assert wire.node.hello == hellos[-1]
