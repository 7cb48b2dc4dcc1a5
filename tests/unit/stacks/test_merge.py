"""Many ranks in one picture."""

from __future__ import annotations

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.merge import as_text, merge
from tests.support.stacks import SCRIPT, TORCH, dump, main_dump, scenario

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
