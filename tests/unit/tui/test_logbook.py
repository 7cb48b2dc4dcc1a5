"""The log book: merged by time, bounded, filtered, and no line twice."""

from __future__ import annotations

from collectors.samples.logs import LogEvent, LogLines
from hangtop.session.state import JobState
from tui.logs import logbook
from tui.logs.logbook import AT_ONCE, LogBook


def lines(state: JobState, node: str, rank: int, at: float, *texts: str, skipped: int = 0) -> None:
    batch = LogLines(f"/log/{rank}", rank, at, list(texts), skipped)
    state.log_lines.add(node, batch)


def event(state: JobState, at: float | None, text: str, source: str = "dmesg", kind: str = "kernel.xid") -> None:
    state.events.add("node1", LogEvent(kind, at, None, "node1", None, source, 7, text, {}))


def texts(book: LogBook) -> list[str]:
    return [line.text for line in book.shown]


def test_lines_of_several_nodes_are_merged_by_time_also_when_some_come_late() -> None:
    state, book = JobState(), LogBook()
    lines(state, "node1", 0, 10.0, "a", "b")
    lines(state, "node2", 1, 12.0, "d")
    assert book.take(state) == 3
    lines(state, "node3", 2, 11.0, "c")
    assert book.take(state) == 1
    assert texts(book) == ["a", "b", "c", "d"]
    assert book.take(state) == 0


def test_a_filter_shows_what_it_lets_through_of_old_and_new_lines() -> None:
    state, book = JobState(), LogBook()
    lines(state, "node1", 0, 1.0, "loss 2", "ValueError: x")
    book.take(state)
    book.set_filter("rank=0 text~valueerror")
    assert texts(book) == ["ValueError: x"]
    lines(state, "node1", 1, 2.0, "ValueError: y")
    lines(state, "node1", 0, 2.0, "ValueError: z")
    assert book.take(state) == 1
    assert texts(book) == ["ValueError: x", "ValueError: z"]


def test_an_event_whose_file_is_on_view_is_shown_once() -> None:
    state, book = JobState(), LogBook()
    event(state, 5.0, "ValueError: bad shard", source="/log/0", kind="python.exception")
    lines(state, "node1", 0, 5.1, "ValueError: bad shard", "next line")
    book.take(state)
    assert texts(book) == ["ValueError: bad shard", "next line"]
    assert book.shown[0].line == 7


def test_a_flood_is_counted_and_memory_is_bounded() -> None:
    state, book = JobState(), LogBook()
    for burst in range(8):
        lines(state, "node1", 0, float(burst), *(f"line {number}" for number in range(AT_ONCE + 10)), skipped=5)
        book.take(state)
    assert book.skipped == 8 * 15
    assert len(book.lines) <= logbook.KEPT
    assert book.shown == book.lines
