"""Maps of many nodes show whole nodes: no number of theirs is cut at the edge or by the scrollbar."""

from __future__ import annotations

import re

import pytest

from tests.support.piloted import screen
from tests.support.screens import Paper


@pytest.mark.parametrize("width", [79, 80, 81, 82, 83])
async def test_two_cells_a_gpu_stand_in_whole_columns_beside_the_scrollbar(width: int) -> None:
    async with screen(Paper(nodes=140).session(ticks=2), size=(width, 24)) as shown:
        await shown.press("plus")
        rows = [line for line in shown.lines() if re.match("[▸●] node", line)]
        assert len(rows) > 5
        for row in rows:
            each = re.split("[▸●] node", row)[1:]
            assert [len(re.findall(r" \d(?=\D|$)", cells)) for cells in each] == [8] * len(each)
            assert len(each) == 3


@pytest.mark.parametrize(("width", "numbered"), [(70, False), (80, False), (90, True)])
async def test_figures_of_many_ranks_give_up_their_numbers_before_a_figure_is_cut(width: int, numbered: bool) -> None:
    async with screen(Paper(nodes=140).session(ticks=2), size=(width, 24)) as shown:
        await shown.press("plus", "plus")
        rows = [line for line in shown.lines() if re.match("● node", line)]
        assert len(rows) > 5
        for row in rows:
            told = [int(word) for word in re.sub("[▸▁-█]", " ", row).split()[2:]]
            figures = told[1::2] if numbered else told
            assert len(figures) == 8
            assert all(80 <= figure <= 100 for figure in figures)
