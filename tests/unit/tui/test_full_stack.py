"""A full stack: where the kernel has the process is one text, so that no line begins with a comma."""

from __future__ import annotations

from hangtop.diagnosis.stacks import merge
from tests.support.made import stack
from tui.texts.stacked import blocks_of_groups, full_stack, newest_of


def test_where_it_stands_is_one_text() -> None:
    dump = stack(7, "read_shard")._replace(
        state="S", syscall="openat", wchan="wait_for_partner", waiting_on="/data/shard-7, to read"
    )
    (standing,) = full_stack(3, [dump])[1]
    assert standing[0] == "  state S, system call openat, kernel wait wait_for_partner, on /data/shard-7, to read"
    (plain,) = full_stack(3, [dump._replace(state="", syscall="", wchan="", waiting_on="")])[1]
    assert plain[0] == "  state –, system call –"


def test_what_a_rank_waits_for_is_said_once() -> None:
    file = "/data/shard-7, to read"
    waits = stack(7, "read_shard", "main")._replace(state="D", syscall="openat", waiting_on=file)
    (block,) = blocks_of_groups(merge([(3, waits)]), lambda _: "node0", lambda _, __: [])
    heading = "".join(text for text, _ in block.lines[0])
    assert heading.count(file) == 1, heading


def test_of_who_was_looked_at_since_the_job_stood_still_earlier_looks_are_left_out() -> None:
    early, late, only = stack(7, at=100.0), stack(7, at=106.0), stack(8, at=100.0)
    found = [(3, early), (3, late), (4, only)]
    assert newest_of(found) == found
    assert newest_of(found, since=101.0) == [(3, late), (4, only)]
    assert newest_of(found, since=105.5) == found, "this one may have met it on its way"
