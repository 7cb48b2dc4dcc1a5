"""The picture of who waits for whom: columns, rectangles, characters and SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.verdict.chain_text import chain_rows
from tui.looks.text import cells
from tui.waits.canvas import HEAD, patches
from tui.waits.drawing import Drawing, drawing
from tui.waits.levels import fold, levels_of
from tui.waits.svg import as_svg
from tui.waits.tree import sentences, tree

CHAIN = (
    WaitBox((5,), ("n2",), "in read (data.py:1)", True),
    WaitBox((4, 6), ("n2",), "waits in all_reduce at f (l.py:3)", False, (0,), "all_reduce #41 in tp",
            ("all_reduce #41 in tp",)),
    WaitBox((8, 9), ("n3",), "waits in recv at g (p.py:7)", False, (1,), "recv #7 in pp", ("recv #7 in pp",)),
    WaitBox((12, 13), ("n4",), "waits in all_reduce at h (t.py:9)", False, (0, 2), "all_reduce #3 in dp",
            ("", "all_reduce #3 in dp")),
)  # fmt: skip
"""Tensor in pipeline in data parallel."""
SVG = "{http://www.w3.org/2000/svg}"


def text_of(drawn: Drawing) -> list[str]:
    return ["".join(patch.text for patch in row) for row in patches(drawn)]


def test_a_chain_is_drawn_to_its_end_with_collective_and_number() -> None:
    drawn = drawing(CHAIN, 160, 10)
    lines = text_of(drawn)
    assert [box.box.letter for box in drawn.boxes] == ["A", "B", "C", "D"]
    assert [box.x for box in drawn.boxes] == sorted({box.x for box in drawn.boxes})
    row = lines[1]
    assert row.index("rank 5") < row.index("all_reduce #41 in tp") < row.index("ranks 4,6") < row.index("recv #7 in pp")
    assert row.index("recv #7 in pp") < row.index("all_reduce #3 in dp") < row.index("ranks 12-13")
    assert row.count(HEAD) == 3
    assert "┏━ A" in lines[0]
    assert "┌─ B" in lines[0]
    assert "also for A" in "\n".join(lines)  # what no arrow can lead to is said


def test_where_arrows_have_no_room_for_words_boxes_say_them() -> None:
    lines = text_of(drawing(CHAIN, 100, 10))
    assert max(map(len, lines)) <= 100
    assert not any("all_reduce #41 in tp" in line and HEAD in line for line in lines)
    assert "recv #7 in pp" in "\n".join(lines)


def test_boxes_are_as_wide_as_their_texts_where_there_is_room_and_wrap_where_there_is_none() -> None:
    doing = "in read_shard_of_the_tokenised_dataset (dataset_of_shards.py:1288)"
    pair = (
        WaitBox((5,), ("n2",), doing, True),
        WaitBox((4, 6), ("n2",), "waits in x (l.py:3)", False, (0,), "all_reduce #217 in default_pg"),
    )
    wide, narrow = ("\n".join(text_of(drawing(pair, width, 10))) for width in (150, 70))
    assert doing in wide
    assert "all_reduce #217" in wide
    assert "default_pg" not in wide, "the group of all ranks need not be named"
    assert doing not in narrow
    assert max(map(len, narrow.splitlines())) <= 70


def test_what_is_not_blamed_is_not_heavy() -> None:
    lines = text_of(drawing((WaitBox((0,), (), "waits", False),), 80, 9))
    assert not any(heavy in line for line in lines for heavy in "┏┃━")


def test_ranks_that_wait_in_a_circle_are_drawn_once_each() -> None:
    circle = (
        WaitBox((0,), (), "waits in send at a (b.py:1)", True, (1,), "send #1 in pp", ("send #1 in pp",)),
        WaitBox((1,), (), "waits in send at a (b.py:1)", True, (0,), "send #2 in pp", ("send #2 in pp",)),
    )
    drawn = drawing(circle, 120, 10)
    assert [box.box.ranks for box in drawn.boxes] == [(1,), (0,)]
    assert len(drawn.arrows) == 1
    assert "also for A: send #2 in pp" in "\n".join(text_of(drawn))


def test_of_many_boxes_those_that_matter_stay_and_the_others_are_counted() -> None:
    boxes = (
        WaitBox((0,), ("n0",), "in read (data.py:1)", True),
        *(WaitBox((rank,), (f"n{rank}",), f"at {rank}", False, (0,)) for rank in range(1, 2048)),
    )
    folded = fold(boxes, 3)
    assert [len(column) for column in folded.columns] == [1, 3]
    assert folded.boxes[0].blamed
    rest = folded.boxes[folded.columns[1][-1]]
    assert (rest.doing, len(rest.ranks), rest.letter) == ("at 2,045 more points", 2045, "…")
    assert len(folded.arrows) == 3
    drawn = drawing(boxes, 118, 9)
    assert (drawn.height <= 9, drawn.width <= 118) == (True, True)


ROWS = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.integers(0, 19), max_size=3),
        st.text(max_size=40),
        st.sampled_from(["", "recv 7 of p", "x" * 50]),
    ),
    max_size=20,
)


@given(rows=ROWS, width=st.integers(20, 200), height=st.integers(3, 40))
def test_whatever_waits_no_box_covers_another_and_no_edge_is_lost(
    rows: list[tuple[bool, list[int], str, str]], width: int, height: int
) -> None:
    made = []
    for rank, (blamed, others, text, label) in enumerate(rows):
        known = tuple(sorted({other for other in others if other < len(rows) and other != rank}))
        told = label if known else ""
        made.append(WaitBox((rank,), (f"n{rank}",), text, blamed, known, told, (label,) * len(known)))
    boxes = tuple(made)
    drawn = drawing(boxes, width, height)
    lines = text_of(drawn)
    assert {rank for box in drawn.boxes for rank in box.box.ranks} == set(range(len(rows)))
    taken: set[tuple[int, int]] = set()
    for box in drawn.boxes:
        cells = {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + box.height)}
        assert not cells & taken
        taken |= cells
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height == len(lines)
    for arrow in drawn.arrows:
        assert not taken & set(arrow.points)
    shown = fold(boxes, max(2, (height + 1) // 4))
    place_of = {place: at for at, box in enumerate(shown.boxes) for place in box.places}
    drawn_edges = {(arrow.waiter, arrow.waited) for arrow in shown.arrows}
    for place, wait in enumerate(boxes):
        for other in wait.waits_for:
            here, there = place_of[place], place_of[other]
            said = any(text.startswith("also for ") for text in shown.boxes[here].also)
            assert here == there or (here, there) in drawn_edges or said
    assert len(levels_of(boxes)) == len(boxes)


@given(rows=ROWS, width=st.integers(40, 200), height=st.integers(3, 40))
def test_in_a_tree_every_box_has_its_lines_and_none_is_too_long(
    rows: list[tuple[bool, list[int], str, str]], width: int, height: int
) -> None:
    boxes = tuple(
        WaitBox((rank,), (f"n{rank}",), text, blamed, tuple(sorted({*others} & {*range(len(rows))} - {rank})), label)
        for rank, (blamed, others, text, label) in enumerate(rows)
    )
    drawn, lines = tree(boxes, width, height)
    shown = chain_rows(boxes, 64)
    assert [box.box.places for box in drawn.boxes] == [(row.place,) for row in shown]
    assert sum(box.height for box in drawn.boxes) <= max(height, len(shown))
    for box in drawn.boxes:
        line = "".join(patch.text for patch in lines[box.y])
        assert f"{box.box.letter} rank {box.box.ranks[0]} · n{box.box.ranks[0]}" in line
    assert all(cells("".join(patch.text for patch in line)) <= width for line in lines)


def test_in_a_tree_no_branch_leads_to_nothing_and_what_goes_on_is_set_under_it() -> None:
    lines = [text for text, _ in sentences(CHAIN, 60)]
    assert lines == [
        "rank 5 on n2: in read (data.py:1)   ◀ holds the others up",
        "└─ ranks 4,6 on n2: wait in all_reduce at f (l.py:3)",
        "   │  [all_reduce #41 in tp]",
        "   └─ ranks 8-9 on n3: wait in recv at g (p.py:7)   [recv",
        "      │  #7 in pp]",
        "      └─ ranks 12-13 on n4: wait in all_reduce at h",
        "            (t.py:9)   [all_reduce #3 in dp], also for rank",
        "            5",
    ]


def test_the_svg_is_well_formed_and_holds_remote_text_as_text() -> None:
    nasty = WaitBox(
        (1,),
        ("n<1>",),
        "waits in <script>alert('1')</script> & \x1b[31m\x00 ]]> at f (t.py:1)",
        False,
        (0,),
        "a&b<c",
        ("a&b<c",),
    )
    svg = as_svg(
        (CHAIN[0], nasty), "HUNG: <b>rank 5</b> & co", cleaned=lambda text: text.replace("data.py", "[secret]")
    )
    root = ET.fromstring(svg.encode())
    assert root.tag == f"{SVG}svg"
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "title", "desc", "rect", "text", "polyline", "polygon")
    }
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "HUNG: <b>rank 5</b> & co" in texts
    assert "a&b<c" in texts
    assert any("[secret]" in text for text in texts)
    (described,) = [element.text or "" for element in root.iter(f"{SVG}desc")]
    assert len(described.splitlines()) == 2, "a line a box"
    assert "data.py" not in svg
    assert "\x1b" not in svg
    assert "\x00" not in svg


def test_the_svg_has_a_red_box_for_whoever_is_blamed_alone() -> None:
    def red(boxes: tuple[WaitBox, ...]) -> int:
        root = ET.fromstring(as_svg(boxes, "x").encode())
        return sum(rect.get("fill") == "#b3261e" for rect in root.iter(f"{SVG}rect"))

    assert red(CHAIN) == 1
    assert red((WaitBox((0, 1), (), "waits in all_reduce at f (t.py:1)", False),)) == 0


def test_of_several_ranks_a_box_says_that_they_wait() -> None:
    boxes = (
        WaitBox((1,), ("n1",), "in read (data.py:1)", True),
        WaitBox((0, 2), ("n1",), "waits for its own GPU: f (l.py:3)", False, (0,)),
    )
    told = " ".join(text for box in drawing(boxes, 160, 10).boxes for text in box.texts)
    assert "wait for their own GPU: f (l.py:3)" in told
    assert "waits" not in told


def test_words_that_are_cut_at_arrows_stand_whole_in_boxes() -> None:
    """A chain of a tensor group in a pipeline in data parallelism, with the names that Megatron gives its groups."""
    tensor, data = "all_reduce #646 in group 3 (TENSOR_MODEL_PARALLEL_GROUP)", "all_reduce #162 in group 6 (DATA)"
    boxes = (
        WaitBox((5,), ("node3",), "in read_shard (train.py:20)", True),
        WaitBox((4,), ("node3",), "waits in all_reduce at forward_step (train.py:40)", False, (0,), tensor, (tensor,)),
        WaitBox((0,), ("node1",), "waits in recv at recv_from (train.py:50)", False, (1,), "recv", ("recv",)),
        WaitBox((2,), ("node2",), "waits in all_reduce at train (train.py:67)", False, (2,), data, (data,)),
    )
    for width in (198, 230):
        found = drawing(boxes, width, 33)
        assert not found.cut
        assert found.width <= width
        words = " ".join(text.strip() for box in found.boxes for text in box.texts)
        labels = [*(arrow.label for arrow in found.arrows), words]
        assert any(tensor in text for text in labels)
        assert any(data in text for text in labels)
