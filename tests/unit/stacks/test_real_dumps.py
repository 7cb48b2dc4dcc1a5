"""What real ranks were doing when they were dumped, and whether that is what is read."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.merge import as_text, merge
from tests.support.stacks import SCRIPT, TORCH, dump, main_dump, scenario, scenario_names


class Seen(NamedTuple):
    """What must be read: kind, operation, whom it waits for, and a part of the innermost user frame."""

    kind: str
    op: str
    waits: str
    where: str


WAITS = Seen("collective", "all_reduce", "peers", "sync_metrics (scenarios.py:")
ABSENT = Seen("sleep", "", "time", "forget_to_come (scenarios.py:")


def collective(op: str) -> Seen:
    return Seen("collective", op, "peers", "scenarios.py:")


EXPECTED: dict[str, tuple[Seen, Seen]] = {
    # the odd one does not come; the crowd waits in …
    "all_reduce": (WAITS, ABSENT),
    "all_reduce_in_subgroup": (collective("all_reduce"), ABSENT),
    "all_gather_object": (collective("all_gather_object"), ABSENT),
    "ddp_forward": (collective("broadcast"), ABSENT),
    "fsdp2_forward": (collective("all_gather_into_tensor"), ABSENT),
    "dcp_save": (collective("gather_object"), ABSENT),
    "native_ddp_backward": (collective("all_reduce"), ABSENT),
    # what Python frames cannot tell is said to be open
    "ddp_backward": (Seen("backward", "", "unknown", "train_step"), ABSENT),
    "async_wait": (Seen("code", "", "unknown", "<lambda>"), ABSENT),
    # start
    "init_tcp_store": (Seen("init", "init_process_group", "peers", "scenarios.py:"), ABSENT),
    "new_group": (Seen("init", "new_group", "peers", "scenarios.py:"), ABSENT),
    # both wait
    "both_receive": (Seen("p2p", "recv", "peers", "scenarios.py:"), Seen("p2p", "recv", "peers", "scenarios.py:")),
    # the crowd waits in all_reduce, the odd one …
    "reader": (WAITS, Seen("data", "", "storage", "Shards.read_shard (scenarios.py:")),
    "data_workers": (WAITS, Seen("data", "", "helper", "Shards.read_shard (scenarios.py:")),
    "pinned_data_workers": (WAITS, Seen("data", "", "helper", "prefetch (scenarios.py:")),
    "checkpoint": (WAITS, Seen("checkpoint", "", "storage", "write_snapshot (scenarios.py:")),
    "lock": (WAITS, Seen("code", "", "unknown", "Cache.lookup (scenarios.py:")),
    "busy": (WAITS, Seen("code", "", "nothing", "pack_sequences (scenarios.py:")),
    "compile_model": (WAITS, Seen("compile", "", "time", "hang (scenarios.py:")),
}

OPEN = ("ddp_backward", "async_wait")
"""Native frames of the crowd would tell what it waits in."""


def test_every_capture_is_judged() -> None:
    assert sorted(EXPECTED) == scenario_names()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("rank", [0, 1])
def test_what_a_rank_does(name: str, rank: int) -> None:
    doing = activity(scenario(name)[rank])
    expected = EXPECTED[name][rank]
    assert (doing.kind, doing.op, doing.waits) == expected[:3]
    assert expected.where in doing.where
    assert doing.error == ""
    assert rank == 1 or doing.needs_native == (name in OPEN)


def test_whether_a_group_was_handed_in() -> None:
    assert activity(scenario("all_reduce")[0]).world is True
    assert activity(scenario("all_reduce_in_subgroup")[0]).world is False
    assert activity(scenario("ddp_backward")[0]).world is None


def test_each_waits_to_receive_from_the_other() -> None:
    assert [activity(dumps).peer for dumps in scenario("both_receive")] == [1, 0]
    assert activity(scenario("both_receive")[0]).label == "waits to receive from rank 1"


def test_the_thread_that_holds_a_lock_is_told() -> None:
    (other,) = activity(scenario("lock")[1]).others
    assert (other.name, other.where[:14]) == ("refresher", "forget_to_come")


def test_a_collective_within_a_checkpoint_is_one() -> None:
    assert "checkpoint" in activity(scenario("dcp_save")[0]).context


# --- many ranks in one picture ------------------------------------------------------------------------------------


ALL_REDUCE = f"all_reduce {TORCH}/distributed/distributed_c10d.py:2806"
STEP = f"train_step {SCRIPT}:44"


def sixty_four() -> list[tuple[int, StackDump]]:
    """62 ranks wait, rank 37 reads, rank 5 is at a lock."""
    crowd, reader = scenario("reader")
    lock = scenario("lock")[1]
    odd = {37: reader, 5: lock}
    return [(rank, each) for rank in range(64) for each in odd.get(rank, crowd)]


def test_the_smallest_group_comes_first_and_names_the_odd_one() -> None:
    merged = merge(sixty_four())
    assert [group.folded for group in merged.groups] == ["5", "37", "0-4,6-36,38-63"]
    reader = merged.groups[1]
    assert reader.activity.where.startswith("Shards.read_shard (")
    assert next(line.text for line in reader.lines if line.differs) == "⟨reads data⟩"
    assert not any(line.differs for line in merged.groups[2].lines)
    assert reader.lines[-1].text.startswith("<module>")
    assert not reader.lines[-1].differs


def test_a_rank_without_frames_is_a_group_of_its_own() -> None:
    entries = [(rank, main_dump(ALL_REDUCE, STEP)) for rank in range(3)]
    entries.append((3, dump(error="denied: EPERM", state="D", wchan="nfs_wait")))
    merged = merge(entries)
    assert merged.groups[0].folded == "3"
    assert merged.groups[0].lines == ()
    assert "denied" in as_text(merged)


def test_text_for_a_report() -> None:
    text = as_text(merge(sixty_four()))
    assert text.startswith("rank 5: waits in C code, at Cache.lookup (scenarios.py:")
    assert "62 ranks 0-4,6-36,38-63: wait in all_reduce, at sync_metrics" in text
    assert "\n  > Shards.read_shard (scenarios.py:" in text
