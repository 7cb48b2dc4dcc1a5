"""Processes that say no rank, on the screen."""

from __future__ import annotations

from collectors.samples.stream import Tick
from tests.support.made import process, pulse
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper


async def test_a_process_without_a_number_stands_in_the_table_by_its_pid() -> None:
    session = Paper().session()
    nameless = process(-1, 4711, numbered_by="", library="torch", launcher="", label="VLLM::Worker_TP1")
    session.samples("node2", [nameless, pulse(4711), Tick(1, NOW, 0.01, 0.1, 9 << 20)], 1)
    async with screen(session) as shown:
        await shown.press("2")
        text = shown.text()
        assert "?4711" in text
        assert "1 without a number" in text
        assert "32 of 32 ranks alive" in text, "the size of the job does not count it"
        await shown.press("home", "i")
        facts = shown.text()
        assert "process 4711 on node2" in facts
        assert "unknown (VLLM::Worker_TP1, and nothing tells its number)" in facts


async def test_the_details_say_who_told_the_number_of_a_process_that_does_not() -> None:
    session = Paper().session()
    session.samples("node2", [process(77, 4711, numbered_by="ray"), pulse(4711), Tick(1, NOW, 0.01, 0.1, 9 << 20)], 1)
    async with screen(session) as shown:
        await shown.press("2", "end", "i")
        assert "77 of 4, by Ray's logs" in shown.text()
