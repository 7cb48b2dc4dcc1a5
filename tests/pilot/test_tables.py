"""Tables: columns are shown whole and explained, what orders the rows is seen, totals are those of the filter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.location import Location
from tests.support.made import pulse
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, PID, Paper, hung
from tui.app import ScreenOptions
from tui.ordering.filter import parse
from tui.panels.registry import PANELS
from tui.panels.table_panel import TablePanel
from tui.widgets.table import Table

TABLES = [entry.name for entry in PANELS if issubclass(entry.load(), TablePanel)]


def table_of(shown: Screen) -> Table[object]:
    panel = shown.app.panel
    assert isinstance(panel, TablePanel)
    return panel.table


def heads(shown: Screen) -> list[str]:
    """Titles of the columns in view."""
    table = table_of(shown)
    return [
        cells.column.title for cells in table.in_view.layout(table.clear_of_bar(table.size.width), table.sort_key).cells
    ]


async def test_every_header_is_the_name_of_its_field_in_filters() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session) as shown:
        for name in TABLES:
            await shown.app.stage.open(name)
            table, fields = table_of(shown), shown.app.panel.fields()
            assert len(set(fields)) == len(fields), name
            for column, field in zip(table.columns, fields, strict=True):
                assert column.title.lower().split() == field.replace("%", " %").replace("_", " ").split() or (
                    column.title == "" and field == column.key
                )
                assert parse(f"{field}=?").terms[0].field == field
                table.set_filter(f"{field}=?")
            table.set_filter("")


async def test_old_names_of_fields_go_on_working() -> None:
    async with screen(Paper(slow=11).session()) as shown:
        await shown.press("2")
        table = table_of(shown)
        for text in ("gpu.util<5", "util<5", "cpu<5", "cpu%<5", "wchan~nfs", "kernel_wait~nfs", "workers%>1 rank=11"):
            table.set_filter(text)
            assert [row.number for row in table.rows] == [11], text  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200, 320])
async def test_no_column_is_cut_and_a_sign_counts_those_to_the_right(width: int) -> None:
    async with screen(Paper(slow=11).session(), size=(width, 30)) as shown:
        await shown.press("2")
        table = table_of(shown)
        room = table.clear_of_bar(table.size.width)
        layout = table.in_view.layout(room, table.sort_key)
        assert all(
            cells.size >= (cells.column.least or cells.column.width) for cells in layout.cells if not cells.column.most
        )
        assert 1 + sum(cells.size + 1 for cells in layout.cells) <= room
        assert len(layout.cells) + layout.right == len(table.in_view.columns)
        header = shown.lines()[3].rstrip()
        assert header.endswith(f" {layout.right}›" if layout.right else "command")


@pytest.mark.parametrize("stem", ["n", "gpu-h100-cluster-a-rack07-"])
async def test_names_have_the_width_that_they_need_and_leave_the_rest_to_further_columns(stem: str) -> None:
    names = [f"{stem}{number}" for number in range(1, 5)]
    async with screen(Paper(names=names, slow=11).session(), size=(120, 30)) as shown:
        # what all of them begin with has no room
        name = "n2" if stem == "n" else "…rack07-2"
        for key in ("2", "3", "4", "6"):
            await shown.press(key)
            line = next(line for line in shown.lines() if name in line)
            assert line.split(name, 1)[1].startswith(" ")
            assert not line.split(name, 1)[1].startswith(" " * (6 + len("node")))
        await shown.press("2")
        assert len(heads(shown)) > (12 if stem == "n" else 8)


async def test_moving_right_ends_where_nothing_is_left_over_and_left_comes_back() -> None:
    async with screen(size=(80, 24)) as shown:
        await shown.press("2")
        first = heads(shown)
        await shown.press(*["right"] * 40)
        assert heads(shown)[-1] == "command"
        assert shown.lines()[3].startswith("‹")
        assert heads(shown)[:2] == ["rank", "node"]
        await shown.press(*["left"] * 40)
        assert heads(shown) == first


@pytest.mark.parametrize("steps", range(1, 22, 4))
async def test_the_column_that_orders_is_always_in_view_and_explained(steps: int) -> None:
    async with screen(size=(80, 24)) as shown:
        await shown.press("2")
        columns = table_of(shown).in_view.columns
        column = columns[(steps - 1) % len(columns)]
        await shown.press(*["greater_than_sign"] * steps)
        assert column.title in heads(shown)
        assert f"ordered by {column.title}" in shown.text()
        assert column.help.split(";")[0][:12] in shown.text()
        await shown.press(*["right"] * 12)
        assert column.title in heads(shown)


async def test_the_chooser_hides_goes_and_orders() -> None:
    async with screen(size=(80, 24)) as shown:
        await shown.press("2", "o", "down", "down", "space")
        assert "[ ] state" in shown.text()
        await shown.press("escape")
        assert "state" not in heads(shown)
        await shown.press("o", *["down"] * 16, "enter")
        assert "local rank" in heads(shown)
        await shown.press("o", "end", "s")
        assert table_of(shown).sort_key == "cmd"
        assert "command" in heads(shown)
        await shown.press("o", "home", "space", "escape")
        assert heads(shown)[0] == "rank"  # what tells the rows apart stays


async def test_a_column_without_a_value_is_left_out_until_it_has_one_or_is_asked_for() -> None:
    paper = Paper(nodes=2, gpus=0)
    session = paper.session()
    async with screen(session, size=(160, 30)) as shown:
        await shown.press("2")
        assert not {"kernel wait", "gpu", "util", "mem", "log quiet"} & {*heads(shown)}
        assert {"state", "cpu %", "rss"} <= {*heads(shown)}
        await shown.press("o")
        line = next(line for line in shown.lines() if "util" in line)
        assert "[ ] util" in line
        assert "no value so far; share of time" in line
        await shown.press(*["down"] * 6, "space", "escape")
        assert "util" in heads(shown)
        assert "mem" not in heads(shown)
        await shown.press("slash", *"gpu=3", "enter")
        assert "no row matches" in shown.text()
        await shown.press("escape")
        session.samples("node2", [pulse(PID + 2, state="S", wchan="do_wait", cpu_user=9.0)], 0)
        await shown.draw()
        assert "kernel wait" in heads(shown)
        session.samples("node2", [pulse(PID + 2, state="R", wchan="0", cpu_user=9.0)], 0)
        await shown.draw()
        assert "kernel wait" in heads(shown), "it does not come and go"


async def test_a_hidden_column_that_orders_comes_back_and_one_that_orders_cannot_be_hidden() -> None:
    async with screen() as shown:
        await shown.press("2")
        table = table_of(shown)
        table.hide_columns({"state", "cpu"})
        assert "cpu %" not in heads(shown)
        table.sort_by("cpu")
        assert "cpu %" in heads(shown)
        table.hide_columns({"cpu"})
        assert "cpu %" in heads(shown)


@pytest.mark.parametrize(
    ("key", "typed", "total"),
    [
        ("2", "node=node2", " 8 of 32 ranks shown   7 on CPU   1 kernel!"),
        ("3", "rank=8-11", " 4 of 32 GPUs shown   mean utilisation 73%   under 5%: 1   power 2.05 kW"),
        ("4", "node=node3", " 2 of 8 links shown  1 of 1 HCA port up"),
        ("6", "node=node4", " 1 of 4 nodes shown   ● 1 live"),
        ("7", "severity=warning", " 1 of 2 findings shown   ▲ 1 warning"),
    ],
)
async def test_totals_are_those_of_what_the_filter_shows(key: str, typed: str, total: str) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, ScreenOptions(theme="hangtop", refresh=10.0)) as shown:  # no tick helps
        await shown.press(key, "slash", *typed, "enter")
        assert shown.lines()[3].startswith(total)
        await shown.press("escape")
        assert "shown" not in shown.lines()[2]


async def test_the_filter_works_or_says_why_not_on_every_panel() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    for node, dump in Paper(slow=11).stacks():
        session.samples(node, [dump], 0)
    async with screen(session) as shown:
        for number, entry in enumerate(PANELS, 1):
            await shown.press(str(number), "slash")
            opened = bool(shown.app.screen.query("#filterline"))
            assert opened == ("filter" in shown.app.panel.CAN), entry.name
            if opened:
                await shown.press("escape")
            else:
                assert shown.app.panel.WHY_NO_FILTER in shown.notices()
        await shown.press("8", "slash", *"rank=11", "enter")
        assert "read_shard (data.py:88)" in shown.text()
        assert "31 ranks" not in shown.text()
        await shown.press("escape", "slash", *"all_reduce", "enter")
        assert "31 ranks" in shown.text()
        assert "▸ read_shard" not in shown.text()


async def test_the_help_tells_every_column_of_the_panel() -> None:
    async with screen(size=(120, 100)) as shown:
        await shown.press("2", "question_mark")
        await shown.press("end")
        text = shown.text()
        assert "data workers and other helper processes" in text
        assert "launcher" in text


def gone_to(shown: Screen, typed: str) -> bool:
    """Whether what was typed is what is on view."""
    if typed == "rank 17":
        return shown.app.panel.chosen_ranks() == {17}
    return "local rank" in heads(shown) if typed == "local rank" else typed in str(shown.app.panel.here())


async def test_the_palette_goes_to_ranks_findings_and_columns() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, size=(80, 24)) as shown:
        for typed in ("rank 17", "watchdog_timeout", "local rank"):
            await shown.press("2" if typed == "local rank" else "1", "colon", *typed.split(" ")[0])
            for word in typed.split(" ")[1:]:
                await shown.press("space", *word)
            await shown.pilot.pause(0.3)
            await shown.app.workers.wait_for_complete([one for one in shown.app.workers if one.name != "session"])
            await shown.press("enter")
            for _ in range(200):  # it goes there once it has closed
                if gone_to(shown, typed):
                    break
                await shown.pilot.pause(0.05)
            assert gone_to(shown, typed), typed


async def test_links_are_ordered_by_the_leaf_that_they_hang_at() -> None:
    session = Paper(nodes=4).session()
    for number, node in enumerate(session.state.nodes.values()):
        leaf = Location("leaf", f"leaf{2 - number % 2}", "scontrol")
        node.locations = {("scontrol", "leaf"): leaf, ("b", "block"): Location("block", "b7", "b")}
    async with screen(session, size=(320, 30)) as shown:
        await shown.press("4")
        table = table_of(shown)
        table.sort_by("leaf")
        await shown.draw()
        leaves = [cells.split()[0] for cells in (table.words(row) for row in table.rows)]
        assert "leaf" in heads(shown)
        assert "block b7" in shown.text()
        of = {node.name: next(iter(node.locations.values())).name for node in session.state.nodes.values()}
        assert [of[name] for name in leaves] == sorted(of[name] for name in leaves)
        table.set_filter("leaf=leaf2")
        assert {row.node.name for row in table.rows} == {name for name in of if of[name] == "leaf2"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
@pytest.mark.parametrize(
    ("key", "here"),
    [("2", (83, "node11", 41_083)), ("3", ("node11", 3)), ("4", ("node11", "mlx5_0/1")), ("6", "node11")],
)
async def test_the_cursor_stands_on_whom_the_verdict_blames_until_it_is_moved(
    key: str, here: object, size: tuple[int, int]
) -> None:
    session = Paper(nodes=16, slow=83).session(ticks=2)
    session.verdict = hung(83, "node11")
    async with screen(session, size=size) as shown:
        await shown.press(key)
        assert shown.app.panel.here() == here
        table = table_of(shown)
        assert table.top < table.cursor < table.top + table.size.height - 1, "with rows around it"
        await shown.press("up")
        await shown.draw()
        above = shown.app.panel.here()
        assert above != here
        await shown.press("7", key)
        assert shown.app.panel.here() == above, "nobody is torn away from where he went"
        session.verdict = hung(3, "node1")
        await shown.draw()
        assert shown.app.panel.here() == above
        await shown.press("7", key)
        assert table.cursor == {"2": 3, "3": 3, "4": 0, "6": 0}[key], "but a new verdict is opened at its culprit"


async def test_where_all_ranks_are_named_or_nothing_is_wrong_the_cursor_stands_at_the_top() -> None:
    session = Paper(slow=11).session()
    session.verdict = replace(hung(), waits=(), findings=(replace(hung().findings[0], ranks=tuple(range(32))),))
    async with screen(session) as shown:
        await shown.press("2")
        assert table_of(shown).cursor == 0
        session.verdict = replace(session.verdict, findings=hung().findings)
        await shown.draw()
        assert table_of(shown).cursor == 11
        session.verdict = replace(session.verdict, outcome="healthy")
        await shown.draw()
        assert table_of(shown).cursor == 11


async def test_the_cursor_stands_on_a_thing_that_the_verdict_names_where_it_names_no_rank() -> None:
    session = Paper(nodes=16).session(ticks=2)
    alone = replace(hung().findings[0], ranks=(), nodes=("node7",), gpus=("node7:5",), ports=("node7:mlx5_0/1",))
    session.verdict = replace(hung(), outcome="at_risk", waits=(), findings=(alone,))
    async with screen(session) as shown:
        for key, here in (("3", ("node7", 5)), ("4", ("node7", "mlx5_0/1")), ("6", "node7")):
            await shown.press(key)
            assert shown.app.panel.here() == here
        every = tuple(session.state.nodes)
        unheard = replace(alone, nodes=every, gpus=("node7:0000:11:00.0", "elsewhere:1"), ports=("node99:mlx5_9/1",))
        session.verdict = replace(session.verdict, findings=(unheard,))
        await shown.draw()
        await shown.press("1", "4", "3")
        assert "Traceback" not in shown.text()


@pytest.mark.parametrize("width", [80, 120])
async def test_what_a_rank_does_is_told_whole(width: int) -> None:
    paper = Paper(slow=11)
    session = paper.session()
    session.publish(hung())
    for node, dumps in paper.stacks():
        session.stacks(node, [dumps])
    session.tick()
    async with screen(session, size=(width, 32)) as shown:
        await shown.press("2")
        await shown.draw()
        text = "\n".join(shown.lines())
        assert "waits in all_reduce at step (train.py:207)" in text
        assert "in read_shard (data.py:88)" in text


async def test_what_the_details_of_a_rank_say_are_words_and_names() -> None:
    session = Paper(slow=11).session()
    for node in session.state.nodes.values():
        for rank in node.ranks.values():
            rank.process = rank.process._replace(launcher="env", restart=None, run_id="")
            newest = rank.looks.newest
            assert newest is not None
            rank.looks.take(NOW, newest._replace(syscall=257))
    async with screen(session, size=(120, 40)) as shown:
        await shown.press("2", "i")
        assert "kernel wait 0, system call openat" in " ".join(shown.text().split())
        assert "launched by  something that sets RANK itself" in shown.text()
        assert "restart" not in shown.text()


async def test_of_several_ranks_a_finding_says_ranks() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, size=(120, 40)) as shown:
        await shown.press("7")
        assert " ranks 0-10,12-31 " in shown.text()
        assert " rank 11 node2 " in shown.text()
