"""The overview of a large fleet stands in groups of what its nodes hang at, and keys go through it as one sees it."""

from __future__ import annotations

from collectors.fleet.sink import LinkChange
from collectors.samples.location import Location
from collectors.samples.logs import StepCount
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper, PaperSession, hung
from tui.app import ScreenOptions
from tui.panels.overview import OverviewPanel

LEAF = 16


def grouped(nodes: int = 160, *, known: bool = True) -> PaperSession:
    paper = Paper(nodes=nodes, gpus=2, names=[f"gpu{place:03d}" for place in range(nodes)])
    session = paper.session(ticks=2)
    for place in range(nodes) if known else ():
        session.samples(paper.name(place), [Location("leaf", f"leaf{place // LEAF}", "scontrol")], 0)
    return session


def overview(shown: Screen) -> OverviewPanel:
    panel = shown.app.panel
    assert isinstance(panel, OverviewPanel)
    return panel


async def test_nodes_stand_by_the_leaf_and_the_line_above_says_who_knows_it() -> None:
    async with screen(grouped(), size=(120, 36)) as shown:
        text = shown.text()
        assert "nodes by leaf, by scontrol" in text
        assert all(f" leaf{leaf} " in text for leaf in range(10))
        assert " leaf leaf0" in text  # the card
    async with screen(grouped(known=False), size=(120, 36)) as shown:
        assert "nodes by" not in shown.text()
        assert "gpu000 ▀" in shown.text()


async def test_what_becomes_known_later_groups_the_nodes_then() -> None:
    session = grouped(known=False)
    async with screen(session, size=(120, 36)) as shown:
        for place in range(160):
            session.samples(f"gpu{place:03d}", [Location("rack", str(place // 40), "topology.conf")], 0)
        await shown.draw()
        assert "nodes by rack, by topology.conf" in shown.text()
        assert " rack 3 " in shown.text()


async def test_a_lost_node_is_named_with_its_leaf() -> None:
    session = grouped()
    session.link(LinkChange("gpu100", "lost", "the link was cut", NOW))
    async with screen(session, size=(120, 36)) as shown:
        await shown.draw()
        assert "gpu100 leaf6 lost the link was cut" in shown.text()


async def test_in_sixteen_colours_nodes_that_are_alike_look_alike_in_either_half() -> None:
    session = grouped(known=False)
    for place in range(0, 160, 3):
        session.link(LinkChange(f"gpu{place:03d}", "connecting", "", NOW))
    session.publish(hung(11, "gpu005"))
    async with screen(session, ScreenOptions(theme="hangtop-16"), size=(120, 36)) as shown:
        await shown.draw()
        halves = overview(shown).mosaic.halves
        assert halves.deep == 2
        assert all(hue.color is not None for hue in halves._shown)


async def test_keys_go_from_group_to_group_and_a_click_finds_the_node() -> None:
    async with screen(grouped(), size=(120, 36)) as shown:
        panel, gone = overview(shown), []
        for key in ("l", "j", "j", "h", "k", "end", "l"):
            await shown.press(key)
            gone.append(panel.node())
        # a leaf in a line: eight nodes above eight others
        assert gone == ["gpu001", "gpu009", "gpu017", "gpu016", "gpu008", "gpu159", "gpu159"]
        spot = panel.mosaic.halves.plan.spots[35]
        await shown.pilot.click("#mosaic", offset=(spot.x, spot.row // 2))
        assert panel.node() == "gpu035"


async def test_the_last_step_of_a_large_job_is_told_whichever_node_logs_it() -> None:
    session = grouped(300)
    told = StepCount("/logs/rank0.out", None, None, "step", 41.0, NOW - 9, 3, 3)
    later = StepCount("/logs/rank590.out", None, None, "step", 42.0, NOW - 8, 3, 3)
    batch = StepCount("/logs/rank598.out", None, None, "batch", 7000.0, NOW - 1, 3, 3)
    session.verdict = hung(11, "gpu005")
    async with screen(session, size=(120, 36)) as shown:
        assert "last step" not in shown.text()
        for node, said in (("gpu000", told), ("gpu295", later), ("gpu299", batch)):
            session.samples(node, [said], 0)
        for _ in range(2):
            await shown.draw()
        assert "last step 42 ·" in shown.text()
