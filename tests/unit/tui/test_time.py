"""What the line of time is drawn from: lines of characters, windows that move by whole columns, marks, and room."""

from __future__ import annotations

from functools import partial
from math import floor
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.finding import Outcome
from hangtop.session.history.marks import beside, marks
from hangtop.session.history.series import Series
from hangtop.session.state.changes import Change, ChangeKind
from tests.support.screens import NOW, Paper
from tui.figures.remembered import Remembered
from tui.logs.changes import MARKS
from tui.looks import plot
from tui.looks.plot import BRAILLE, Stretch, blocks, braille, rounded_up
from tui.sharing import FEW, GRAPH, HAPPENED, LEAST_TIME, MOST_TIME, shares
from tui.timeline import ZOOMS, Timeline

STRETCHES = st.lists(
    st.none() | st.tuples(st.floats(0, 90), st.floats(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=60,
)


@given(stretches=STRETCHES, rows=st.integers(1, 4))
def test_lines_have_their_size_whatever_is_drawn(stretches: list[Stretch], rows: int) -> None:
    width = (len(stretches) + 1) // 2
    for draw in (braille, blocks):
        lines = draw(stretches, rows, 100.0)
        assert len(lines) == rows
        assert {len(line) for line in lines} == {width}
    assert all(BRAILLE <= ord(cell) < BRAILLE + 256 for line in braille(stretches, rows, 100.0) for cell in line)


@given(stretches=STRETCHES, rows=st.integers(1, 4), part=st.sampled_from((2, 4, 8)))
def test_a_line_drawn_in_parts_is_the_line_drawn_at_once(stretches: list[Stretch], rows: int, part: int) -> None:
    assert len(stretches) < 64, "they are drawn in one part at first"
    drawn = []
    for each in (64, part):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plot, "PART", each)
            drawn.append(braille(stretches, rows, 100.0))
    assert drawn[0] == drawn[1]


def test_a_step_is_one_line_and_a_gap_none() -> None:
    high, low = (4.0, 4.0), (0.0, 0.0)
    assert braille([high, high, low, low], 1, 4.0) == ["⠉⣇"]
    assert braille([low, None, low, low], 1, 4.0) == ["⡀⣀"]
    assert blocks([high, high, low, low, None, None], 1, 4.0) == ["█▁ "]
    assert blocks([high, high], 2, 4.0) == ["█", "█"]
    assert blocks([low, low], 2, 4.0) == [" ", "▁"]


@given(value=st.floats(1e-6, 1e15))
def test_the_top_of_a_scale_is_round_and_near(value: float) -> None:
    assert value * 0.999 <= rounded_up(value) <= 2 * value * 1.001


@given(steps=st.lists(st.tuples(st.integers(0, 40), st.floats(0, 9)), min_size=1, max_size=40), step=st.floats(0.5, 30))
def test_what_is_remembered_is_what_would_be_read(steps: list[tuple[int, float]], step: float) -> None:
    series, known, now = Series(), Remembered(), 1_000_000
    for after, value in steps:
        now += after
        series.add(now, value)
        first = floor(now / step) - 50
        begin = first * step
        found = known.spans(begin, step, 51, series.spans)
        assert found == series.spans(begin, step, 51)


def timeline(seconds: int = 1000) -> tuple[Timeline, Paper]:
    paper = Paper(nodes=1, gpus=1)
    session = paper.session(ticks=1)
    session.tick()
    paper.clock.now += seconds
    return Timeline(session), paper


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("view", [0, 1, 2])
@pytest.mark.parametrize("nodes", [1, 16, 17, 2048])
@given(width=st.integers(40, 220), height=st.integers(18, 80))
def test_every_view_fits_and_leaves_room_for_what_happened(
    nodes: int, view: int, hangs: bool, width: int, height: int
) -> None:
    part = shares(width, height, nodes, view, hangs=hangs)
    few = nodes <= FEW and not view
    stacked = part.time + part.heat + part.odd
    if part.row:
        stacked += 1 + max(4, part.graph, part.card)
    elif few and part.beside:
        stacked += part.graph + 4
    elif part.beside:
        assert part.card + part.graph + 4 <= height - part.time
    else:
        stacked += part.graph + part.onset + 4
    assert stacked <= height
    assert hangs or not (part.graph or part.lines)
    if hangs and height >= 32:
        assert part.graph >= GRAPH


def test_of_a_hung_job_the_nodes_have_the_lines_of_a_picture_that_has_no_room() -> None:
    for height in range(12, 17):
        part = shares(60, height, 16, 0, hangs=True)
        assert part.graph == part.onset == 0
        assert part.heat == height - part.time - HAPPENED
    assert shares(60, 16, 2, 0, hangs=True).heat == 3


@given(passed=st.integers(0, 5000), columns=st.integers(10, 200), back=st.integers(0, 100_000))
def test_the_moment_that_is_shown_is_on_view_and_columns_stand_still(passed: int, columns: int, back: int) -> None:
    line, paper = timeline()
    before = line.window(columns)
    assert before.end >= line.now > before.end - 2 * before.step
    paper.clock.now += passed
    after = line.window(columns)
    moved = (after.begin - before.begin) / (2 * before.step)
    assert moved == pytest.approx(round(moved), abs=1e-3)
    line.at = line.now - back
    window = line.window(columns)
    assert window.begin - 1e-3 <= line.at <= window.end + 1e-3


def test_as_much_is_shown_as_there_is_until_somebody_zooms() -> None:
    line, paper = timeline(seconds=10)
    assert line.name == "1m"
    paper.clock.now += 60
    assert line.name == "2m", "a job that began a while ago does not stand in a corner of five minutes"
    paper.clock.now += 140
    assert line.name == "5m"
    paper.clock.now += 100_000
    assert line.name == "15m"
    line.zoom(1)
    assert line.name == "1h"
    for _ in ZOOMS:
        line.zoom(-1)
    assert line.name == "1m"


def test_what_happens_to_many_at_once_is_one_mark() -> None:
    changes = [Change(NOW + rank / 10, f"node{rank}", f"rank {rank} started", "started") for rank in range(8)]
    changes += [Change(NOW + 30, "node1", "lost", "lost"), Change(NOW + 0.5, "", "nothing to see", "hangtop")]
    changes += [Change(NOW + 40, "", "mark 1", "mark"), Change(NOW + 41, "", "mark 2", "mark")]
    found = marks(changes)
    assert [(mark.kind, mark.count) for mark in found] == [("started", 8), ("lost", 1), ("mark", 1), ("mark", 1)]
    assert beside(found, NOW + 31, -1) is found[1]
    assert beside(found, NOW + 31, 1) is found[2]
    assert beside(found, NOW + 41, 1) is None
    assert beside(found, NOW, -1) is None


def test_every_kind_of_change_has_a_sign() -> None:
    kinds = {word for part in get_args(ChangeKind) for word in (get_args(part) or (part,))}
    assert set(MARKS) == kinds
    assert set(get_args(Outcome)) <= kinds


@pytest.mark.parametrize("nodes", [1, 2, 16, 17, 64, 2048])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("height", [5, 10, 20, 32, 46, 70])
def test_the_overview_never_gives_more_room_than_there_is(nodes: int, width: int, height: int) -> None:
    part = shares(width, height, nodes)
    assert part.time + part.heat <= max(height, 3)
    assert part.heat >= 3
    if height >= 20 and not (nodes > 16 and part.beside):
        assert part.time >= 3
        assert height - part.time - part.heat >= 5


def test_the_ranks_of_a_small_job_that_hangs_have_what_what_happened_does_not_need() -> None:
    part = shares(200, 45, 2, hangs=True, need=18)
    assert part.graph == 18
    assert 45 - part.time - part.heat - part.graph >= 8


@given(height=st.integers(18, 80), need=st.integers(3, 130), figures=st.integers(1, 80))
def test_charts_of_a_small_job_take_what_it_does_not_fill_and_no_more(height: int, need: int, figures: int) -> None:
    before = shares(200, height, 2, need=need)
    part = shares(200, height, 2, need=need, figures=figures)
    if part.time > before.time:
        assert part.heat >= figures
        assert part.time + figures + max(need, HAPPENED) <= height
        assert part.time == MOST_TIME or part.time + figures + max(need, HAPPENED) == height


def test_all_nodes_of_a_small_job_are_on_view_where_charts_can_spare_the_lines() -> None:
    before, part = shares(120, 32, 16), shares(120, 32, 16, figures=16)
    assert before.heat < 16
    assert (part.heat, part.time) == (16, before.time - (16 - before.heat))
    assert part.time >= LEAST_TIME
    assert shares(80, 20, 16, figures=16) == shares(80, 20, 16), "there they cannot"


@given(height=st.integers(15, 27), nodes=st.integers(1, 16), each=st.integers(1, 5))
def test_on_a_narrow_screen_charts_have_what_a_small_job_leaves(height: int, nodes: int, each: int) -> None:
    figures = nodes * each
    before, part = shares(80, height, nodes), shares(80, height, nodes, figures=figures)
    assert part.time >= before.time or part.heat > before.heat
    if part.time > before.time:
        assert part.heat >= figures
        assert part.time + figures + HAPPENED == height
    assert shares(80, 19, 1, figures=5).time == 6
    assert shares(80, 60, 1, figures=5) == shares(80, 60, 1), "there the ranks have them"


def test_beside_the_map_of_a_job_that_hangs_the_culprits_last_lines_have_what_the_picture_of_waits_leaves() -> None:
    assert shares(200, 46, 64, 1, hangs=True, waits=8).lines
    assert not shares(200, 46, 64, 1, hangs=True, waits=15).lines


@given(
    height=st.integers(18, 80), nodes=st.integers(1, 16), need=st.integers(3, 40), story=st.integers(1, 16),
    charts=st.integers(4, 40),
)  # fmt: skip
def test_charts_of_a_small_job_that_hangs_take_what_is_told_beside_each_other_does_not_fill(
    height: int, nodes: int, need: int, story: int, charts: int
) -> None:
    figures = 1
    before = shares(200, height, nodes, hangs=True, need=need)
    part = shares(200, height, nodes, hangs=True, need=need, figures=figures, story=story, charts=charts)
    assert part._replace(time=before.time) == before
    if part.time > before.time:
        below = height - part.time - figures - part.graph
        assert below >= max(HAPPENED, story)
        assert part.time in (charts, MOST_TIME) or below == max(HAPPENED, story)


def test_charts_of_a_small_job_that_hangs_stay_as_they_are_where_others_need_the_lines() -> None:
    shared = partial(shares, 200, 46, 2, hangs=True, need=8)
    assert shared(figures=1, story=4).time > shared(figures=1, story=16).time > shared().time
    assert shared(figures=1, story=4, charts=20).time == 20, "they have no more to show"
    assert shares(80, 46, 2, hangs=True, figures=1, story=4) == shares(80, 46, 2, hangs=True), "there they stand below"
