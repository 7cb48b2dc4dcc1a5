"""Dialogs on a small screen: they fit, nothing of them is cut, and what the first line says stays in view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict
from tests.support.piloted import Screen, screen
from tests.support.screens import Paper, PaperSession, hung
from tui.handlers.tables import ask_filter
from tui.panels.filterline import FilterLine

NAMES = [f"ip-10-0-7-{number}.eu-central-1.compute.internal" for number in range(40)]
SENTENCE = f"rank 11 on {NAMES[1]} holds up 319 others: read_shard (data.py:88)"


def job() -> PaperSession:
    session = Paper(nodes=len(NAMES), names=NAMES, slow=11).session(ticks=2)
    session.verdict = replace(hung(11, NAMES[1]), summary=SENTENCE)
    return session


def box(shown: Screen) -> list[str]:
    """Lines of the dialog, its borders included; what it covers is behind it."""
    lines = shown.lines()
    top = next(y for y, line in enumerate(lines) if "╭" in line)
    low = next(y for y, line in enumerate(lines) if "╰" in line)
    left, right = lines[top].index("╭"), lines[top].index("╮")
    return [line[left : right + 1] for line in lines[top : low + 1]]


@pytest.mark.parametrize(
    "keys", ["question_mark", "o", "i", "M", "K", "e", "a", "a e", "P", "P e", "r", "r e", "ctrl+n", "ctrl+n e", "q"]
)
@pytest.mark.parametrize("width", [80, 100])
async def test_a_dialog_fits_and_leaves_what_the_first_line_says(keys: str, width: int) -> None:
    async with screen(job(), size=(width, 24)) as shown:
        await shown.press("2")
        banner = shown.lines()[:2]
        assert SENTENCE in " ".join("".join(banner).split())
        await shown.press(*keys.split())
        assert shown.lines()[:2] == banner
        lines = box(shown)
        assert all(line[0] + line[-1] in {"││", "╭╮", "╰╯"} for line in lines)
        assert "Esc" in lines[-2] or "n leave it" in lines[-2], "what can be pressed is the last thing that is said"
        assert not any("…" in line for line in lines)


async def test_of_many_nodes_that_answer_alike_one_line_is_told() -> None:
    async with screen(job(), size=(80, 24)) as shown:
        await shown.press("K")
        told = " ".join(" ".join(line.strip("│ ") for line in box(shown)).split())
        assert "not known of ip-10-0-7-[0-39].eu-central-1.compute.internal: this session has no connections" in told
        await shown.press("escape", "a", "e")
        told = " ".join(" ".join(line.strip("│ ") for line in box(shown)).split())
        assert "on ip-10-0-7-[0-39].eu-central-1.compute.internal: python3" in told


async def test_the_exact_command_is_shown_and_hidden_by_the_same_key_and_read_to_its_end() -> None:
    async with screen(job(), size=(80, 24)) as shown:
        await shown.press("P")
        before = box(shown)
        assert "e exact command" in before[-2]
        await shown.press("e")
        assert "e hide it  ↑↓ scroll" in box(shown)[-2]
        first = box(shown)
        await shown.press(*["down"] * 5)
        assert box(shown)[3] != first[3]
        await shown.press("e")
        assert box(shown) == before


async def test_a_text_is_searched_and_other_dialogs_say_that_there_is_nothing_to_find() -> None:
    async with screen(job(), size=(80, 24)) as shown:
        await shown.press("question_mark", "slash", *"flame")
        assert "/ flame" in box(shown)[-2]
        assert any("flame" in line.casefold() for line in box(shown)[:-2])
        await shown.press(*"xyz")
        assert "no line has “flamexyz”" in box(shown)[-2]
        await shown.press("enter")
        assert "/ flamexyz" in box(shown)[-2], "what is wrong stays to be mended"
        await shown.press(*["backspace"] * 8, *"asks", "enter")
        assert "/ find" in box(shown)[-2]
        here = box(shown)
        await shown.press("n")
        assert box(shown) != here
        await shown.press("N")
        assert box(shown) == here
        await shown.press("slash", "escape")
        assert "/ find" in box(shown)[-2]
        await shown.press("escape")
        assert "╭" not in shown.text()
        await shown.press("K", "slash")
        assert "not here" in shown.notices()[-1]


async def test_a_dialog_makes_room_for_a_verdict_that_comes_while_it_is_open() -> None:
    session = job()
    verdict, session.verdict = session.verdict, Verdict("healthy", "all is well")
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("question_mark")
        assert "╭─" in shown.lines()[1]
        session.verdict = verdict
        await shown.draw()
        await shown.draw()
        assert SENTENCE in " ".join("".join(shown.lines()[:2]).split())
        assert box(shown)[-1].startswith("╰")
        session.verdict = Verdict("healthy", "all is well")
        await shown.draw()
        await shown.draw()
        assert "╭─" in shown.lines()[1]


async def test_a_question_is_one_line_and_says_nothing_twice() -> None:
    session = Paper(nodes=2).session()
    async with screen(session, size=(120, 36)) as shown:
        await shown.press("2", "ctrl+n")
        text = shown.text()
        assert "1 rank on 1 node, native stacks, each paused for about 25 ms" in text
        assert text.count("25 ms") == 1


@pytest.mark.parametrize(("key", "here"), [("1", True), ("5", False)])
async def test_the_help_says_which_keys_do_something_else_on_this_panel(key: str, here: bool) -> None:
    async with screen(job(), size=(120, 90)) as shown:
        await shown.press(key, "question_mark")
        (line,) = (line for line in box(shown) if "Show an earlier moment; every panel does." in line)
        assert ("(not here)" in line) is not here
        (always,) = (line for line in box(shown) if "Show an earlier moment, from any panel." in line)
        assert "(not here)" not in always
        # the key of a panel's own action is no other's there
        (mark,) = (line for line in box(shown) if " To what happened next: " in line)
        assert ("(not here)" in mark) is not here


async def test_no_alarm_after_the_last_line_says_which_key_goes_back() -> None:
    async with screen(job()) as shown:
        await shown.press("5", "n")
        assert shown.notices()[-1] == "no warning and no error after this line; N goes back to the one before"


async def test_the_help_of_the_overview_begins_with_its_own_keys_and_those_of_time() -> None:
    async with screen(job(), size=(120, 90)) as shown:
        await shown.press("1", "question_mark")
        groups = [line.strip(" │") for line in box(shown)]
        assert groups.index("Overview") < groups.index("Time") < groups.index("Panels")


async def test_a_filter_line_that_is_left_while_the_screen_is_resized_is_missed_by_nobody() -> None:
    async with screen(job(), size=(120, 36)) as shown:
        await shown.press("2", "slash")
        line = shown.app.screen.query_one(FilterLine)
        line.on_resize()
        await line.remove()
        await shown.pilot.resize_terminal(80, 24)
        line.on_resize()
        await shown.press("3")
        assert "[GPUs]" in shown.lines()[1] or "[GPUs]" in shown.lines()[2]


async def test_a_filter_that_is_asked_for_twice_at_once_is_asked_for_once() -> None:
    async with screen(job(), size=(120, 36)) as shown:
        await shown.press("2")
        await ask_filter(shown.app)
        await ask_filter(shown.app)
        await shown.press(*"rank=3")
        assert len(shown.app.screen.query(FilterLine)) == 1
        assert "1 of 320 ranks shown" in shown.text()
        await shown.press("escape")
        assert not shown.app.screen.query(FilterLine)


@pytest.mark.parametrize("keys", ["question_mark", "q", "a e", "ctrl+n"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_messages_never_cover_what_a_dialog_says_and_give_back_its_room(keys: str, size: tuple[int, int]) -> None:
    async with screen(job(), size=size) as shown:
        await shown.press("2", *keys.split())
        alone = box(shown)
        for number in range(3):
            shown.app.say(f"message {number} of three that tell more than there is room for in one line " * number)
        await shown.settle()
        lines = box(shown)
        assert all(line[0] + line[-1] in {"││", "╭╮", "╰╯"} for line in lines)
        assert lines[-2] == alone[-2], "what can be pressed is the last thing that is said"
        assert "message 2 of three" in shown.text()
        shown.app.clear_notifications()
        await shown.settle()
        assert box(shown) == alone


@pytest.mark.parametrize("width", [57, 80, 100, 120])
async def test_short_messages_are_whole_and_stand_once(width: int) -> None:
    words = "written: /home/ada/run/hangtop-20251120-024700.txt, .json, .svg of rank 11 in a folder".split()
    async with screen(job(), size=(width, 30)) as shown:
        for count in range(2, len(words) + 1):
            shown.app.clear_notifications()
            await shown.settle()
            shown.app.say(" ".join(words[:count]))
            await shown.settle()
            right = [line.rpartition("▌")[2] for line in shown.lines() if "▌" in line]
            assert "".join("".join(right).split()) == "".join(words[:count])
        await shown.press("q")
        assert "Leave hangtop?" in shown.text()
        assert shown.text().count("written:") == 1, "on the dialog, not behind it, too"
