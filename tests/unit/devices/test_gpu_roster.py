"""Sweeps of a streaming nvidia-smi: who answers, who does not, and what is said of them."""

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from collectors.node.gpus.nvidia_smi_rows import Row, build_row
from collectors.node.gpus.roster import Roster
from collectors.samples.gpus import GpuFacts, GpuFault, GpuSample
from collectors.samples.stream import Fault

LOST = "Unable to determine the device handle for GPU{0}: 0000:0{0}:00.0: Unknown Error"


def row(index: int, count: int = 3, **cells: str) -> Row:
    built = build_row({"index": str(index), "bus_id": f"00000000:0{index}:00.0", "count": str(count), **cells})
    assert built is not None
    return built


def feed(roster: Roster, *items: int | str | Row) -> list[NamedTuple]:
    said: list[NamedTuple] = []
    for item in items:
        if isinstance(item, str):
            said += roster.line(item)
        else:
            said += roster.row(row(item) if isinstance(item, int) else item)
    return said


def faults(samples: Iterable[NamedTuple]) -> list[tuple[int | None, str]]:
    return [(sample.gpu, sample.text) for sample in samples if isinstance(sample, GpuFault)]


def test_rows_give_facts_and_samples_at_once() -> None:
    assert [type(sample) for sample in feed(Roster(), 0)] == [GpuFacts, GpuSample]


def test_all_well_is_no_fault() -> None:
    assert faults(feed(Roster(), 0, 1, 2, 0, 1, 2, 0)) == []


def test_a_gpu_that_is_left_out_is_a_fault_until_it_answers() -> None:
    roster = Roster()
    assert faults(feed(roster, 0, 1, 2, 0, 2, 0)) == [(1, "missing from nvidia-smi's list: 2 of 3 GPUs answer")]
    assert faults(feed(roster, 2, 0, 2)) == []
    assert faults(feed(roster, 0, 1)) == [(1, "")]


def test_the_last_gpu_can_be_the_one_that_is_left_out() -> None:
    assert faults(feed(Roster(), 0, 1, 2, 0, 1, 0)) == [(2, "missing from nvidia-smi's list: 2 of 3 GPUs answer")]


def test_the_first_gpu_can_be_the_one_that_is_lost() -> None:
    line = LOST.format(0)
    roster = Roster()
    assert faults(feed(roster, 0, 1, 2, line, 1, 2, line, 1, 2)) == [(0, line)]
    assert faults(feed(roster, 0, 1, 2, 0)) == [(0, "")]


def test_a_line_in_place_of_a_row_names_the_gpu_by_its_address() -> None:
    line = "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system"
    assert faults(feed(Roster(), 0, 1, 2, 0, line, 2, 0)) == [(1, line)]


def test_a_gpu_that_is_lost_is_told_with_the_first_sweep() -> None:
    line = LOST.format(0)
    assert faults(feed(Roster(), line, 1, 2)) == [(0, line)]
    lost = row(1, utilization="[GPU is lost]", power="[GPU is lost]")
    assert faults(feed(Roster(), 0, lost)) == [(1, "[GPU is lost]")]


def test_a_gpu_that_was_never_seen_is_told_by_its_line_and_by_the_count() -> None:
    line = LOST.format(1)
    assert faults(feed(Roster(), 0, line, 2, 0)) == [(1, line)]
    assert faults(feed(Roster(), 0, 2, 0)) == [(None, "nvidia-smi counts 3 GPUs and gives rows of 2")]


def test_a_row_full_of_errors_is_a_fault_and_no_sample() -> None:
    lost = row(1, utilization="[GPU is lost]", power="[GPU is lost]")
    said = feed(Roster(), 0, 1, 2, 0, lost, 2, 0)
    assert faults(said) == [(1, "[GPU is lost]")]
    assert sum(isinstance(sample, GpuSample) and sample.gpu == 1 for sample in said) == 1


def test_a_remark_about_a_gpu_that_answers_is_no_fault_of_it() -> None:
    line = "WARNING: infoROM is corrupted at gpu 0000:02:00.0"
    said = feed(Roster(), 0, 1, 2, 0, 1, 2, line, 0)
    assert faults(said) == []
    assert [sample.text for sample in said if isinstance(sample, Fault)] == [line]


def test_a_stream_that_breaks_off_says_nothing_of_the_missing() -> None:
    roster = Roster()
    feed(roster, 0, 1, 2, 0)
    assert faults(roster.broken_off()) == []
    assert faults(feed(roster, 0, 1, 2, 0)) == []


def test_the_last_words_of_a_stream_count() -> None:
    roster = Roster()
    feed(roster, 0, 1, 2)
    assert faults([*feed(roster, LOST.format(1)), *roster.broken_off()]) == [(1, LOST.format(1))]


def test_a_single_gpu_that_is_lost() -> None:
    line = "Unable to determine the device handle for GPU 0000:00:00.0: GPU is lost."
    alone = row(0, count=1)
    assert faults(feed(Roster(), alone, alone, line, line, line)) == [(0, line)]


@given(st.lists(st.one_of(st.integers(0, 7), st.text(max_size=60), st.integers(0, 7).map(LOST.format)), max_size=60))
def test_faults_begin_and_end_in_turn(items: list[int | str]) -> None:
    standing: dict[tuple[int | None, str], str] = {}
    for sample in feed(Roster(), *items):
        if isinstance(sample, GpuFault):
            place = (sample.gpu, sample.bus_id)
            assert standing.get(place, "") != sample.text
            standing[place] = sample.text
