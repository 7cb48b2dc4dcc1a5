"""Lines of many ranks at one time are one; who is behind, late or says something else has a line of its own."""

from __future__ import annotations

import pytest

from collectors.samples.logs import LogLines
from hangtop.session.state.job_state import JobState
from tui.logs.alike import MANY, WINDOW, Folds
from tui.logs.logbook import LogBook, LogLine


def line(serial: int, text: str, *, at: float = 100.0, rank: int | None = 0, node: str = "node0") -> LogLine:
    return LogLine(at, serial, node, rank, 0, f"/logs/{node}-{rank}.log", 0, text)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("step 130 loss 0.512 (0.28 s)", "step 130 loss 0.498 (0.31 s)", True),
        ("step 130 loss 0.512", "step 129 loss 0.512", False),
        ("iter: 7, lr 3e-4", "iter: 8, lr 3e-4", False),
        ("step 130 loss 0.512", "step 130 loss nan", False),
        ("rank 3 joined 0x7f3a", "rank 4 joined 0x1b", True),
        ("connected to 10.0.0.1:4000", "connected to 10.0.0.9:4001", True),
        ("storage is slow", "storage is gone", False),
    ],
)
def test_numbers_alone_may_differ_but_no_step(one: str, other: str, alike: bool) -> None:
    folds = Folds()
    assert not folds.takes(line(1, one, rank=0))
    assert folds.takes(line(2, other, rank=1)) == alike


def test_a_rank_that_says_it_again_or_late_has_a_line_of_its_own() -> None:
    folds = Folds()
    assert not folds.takes(line(1, "retry", rank=0))
    assert folds.takes(line(2, "retry", rank=1, at=100.0 + WINDOW))
    assert not folds.takes(line(3, "retry", rank=1, at=100.0 + WINDOW)), "a second time"
    assert not folds.takes(line(4, "retry", rank=2, at=103.0 + 2 * WINDOW)), "late"
    assert folds.folded == 1


def test_it_is_said_who_wrote_it() -> None:
    folds = Folds()
    first = line(1, "up", rank=None, node="node0")
    folds.takes(first)
    fold = folds.of(first)
    assert fold is not None
    assert fold.label == ""
    folds.takes(line(2, "up", rank=None, node="node1"))
    assert fold.label == "×2 nodes"
    ranks = Folds()
    head = line(1, "up", rank=0)
    ranks.takes(head)
    for rank in range(1, 16):
        ranks.takes(line(1 + rank, "up", rank=rank, node=f"node{rank // 8}"))
    told = ranks.of(head)
    assert told is not None
    assert (told.label, told.ranks, told.nodes) == ("×16 ranks", set(range(16)), {"node0", "node1"})


def test_lines_of_long_ago_are_forgotten() -> None:
    folds = Folds()
    for number in range(3 * MANY):
        folds.takes(line(number, f"{'x' * (number % 50)} {chr(0x4E00 + number)}", at=float(number)))
    assert len(folds._latest) <= MANY + 1


def test_a_book_shows_them_as_one_and_finds_each() -> None:
    state, book = JobState(), LogBook()
    book.fold(on=True)
    for rank in range(40):
        text = "loss is nan" if rank == 7 else f"step 12 loss 0.{rank}"
        node = f"node{rank // 8}"
        state.log_lines.append((node, LogLines(f"/logs/{rank}.log", 1, rank, "stderr", 100.0, [text], 0)))
        state.log_serial += 1
    book.take(state)
    assert [one.text for one in book.shown] == ["step 12 loss 0.0", "loss is nan"]
    assert book.folds is not None
    assert book.folds.folded == 38
    assert book.together(book.shown[0]).ranks == set(range(40)) - {7}
    assert book.find("/logs/33.log", 0, "step 12 loss 0.33") == 0
    book.set_filter("rank=33")
    assert [one.text for one in book.shown] == ["step 12 loss 0.33"]
    book.set_filter("")
    book.fold(on=False)
    assert len(book.shown) == 40
    assert book.together(book.shown[3]).ranks == {3}
