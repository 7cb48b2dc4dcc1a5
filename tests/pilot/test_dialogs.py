"""Dialogs on a small screen: they fit, nothing of them is cut, and what the first line says stays in view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.piloted import Screen, screen
from tests.support.screens import Paper, PaperSession, hung

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


@pytest.mark.parametrize("keys", ["question_mark", "i", "M", "a", "a e"])
async def test_a_dialog_fits_and_leaves_what_the_first_line_says(keys: str) -> None:
    async with screen(job(), size=(80, 24)) as shown:
        await shown.press("2")
        banner = shown.lines()[:2]
        assert SENTENCE in " ".join("".join(banner).split())
        await shown.press(*keys.split())
        assert shown.lines()[:2] == banner
        lines = box(shown)
        assert all(line[0] + line[-1] in {"││", "╭╮", "╰╯"} for line in lines)
        assert "Esc" in lines[-2] or "n leave it" in lines[-2], "what can be pressed is the last thing that is said"
        assert not any("…" in line for line in lines)


async def test_the_exact_command_is_shown_and_hidden_by_the_same_key_and_read_to_its_end() -> None:
    async with screen(job(), size=(80, 24)) as shown:
        await shown.press("P")
        before = box(shown)
        assert "e exact command" in before[-2]
        await shown.press("e")
        first = box(shown)
        await shown.press(*["down"] * 5)
        assert box(shown)[3] != first[3]
        await shown.press("e")
        assert box(shown) == before
