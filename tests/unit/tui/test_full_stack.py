"""A full stack: where the kernel has the process is one text, so that no line begins with a comma."""

from __future__ import annotations

from tests.support.made import stack
from tui.stacked import full_stack


def test_where_it_stands_is_one_text() -> None:
    dump = stack(7, "read_shard")._replace(
        state="S", syscall="openat", wchan="wait_for_partner", waiting_on="/data/shard-7, to read"
    )
    (standing,) = full_stack(3, [dump])[1]
    assert standing[0] == "  state S, system call openat, kernel wait wait_for_partner, on /data/shard-7, to read"
    (plain,) = full_stack(3, [dump._replace(state="", syscall="", wchan="", waiting_on="")])[1]
    assert plain[0] == "  state –, system call –"
