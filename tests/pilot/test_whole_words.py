"""Nothing that is said is cut off or broken twice, and no dialog shows a picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.diagnosis.finding import Outcome, Verdict, WaitBox
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, hung
from tui.looks.theme import Tone


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
async def test_who_waits_for_whom_is_told_to_its_end_in_findings(size: tuple[int, int]) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, size=size) as shown:
        await shown.press("7")
        told = " ".join(shown.text().split())
        await shown.press("right")
        told += " ".join(shown.text().split())
        assert "at step (train.py:207) [all_reduce #134 in dp]" in told
        assert "…]" not in told


@pytest.mark.parametrize("width", [80, 100])
async def test_a_job_that_starts_says_so_once(width: int) -> None:
    session = Paper(nodes=3).session(ticks=1)
    for number in (7, 8):
        session.link(LinkChange(f"node{number}", "connecting", "", NOW - 12))
    async with screen(session, size=(width, 24)) as shown:
        assert "waiting 12s for node7 and 1 more" in shown.lines()[0]
        assert shown.text().count("waiting 12s") == 1
        session.publish(Verdict("starting", "24 ranks on 3 nodes, watched for 3 s: starting up"))
        await shown.draw()
        assert shown.text().count("starting up") == 1
        assert "◐ starting " in shown.text(), "when it was is told still"
        session.publish(Verdict("healthy", "24 ranks on 3 nodes move"))
        await shown.draw()
        assert "◐ starting 24 ranks on 3 nodes, watched for 3 s: starting up" in shown.text()


WORDS = "abcdefgh ijklmnop qrstuvwx "


@pytest.mark.parametrize("outcome", ["starting", "unknown", "healthy", "hung"])
@pytest.mark.parametrize("size", [(80, 24), (80, 16), (97, 24)])
async def test_a_sentence_that_has_no_room_is_cut_behind_a_word(outcome: Outcome, size: tuple[int, int]) -> None:
    session = Paper(slow=11, label="DEMO · simulated devices").session()
    session.verdict = replace(hung(), outcome=outcome, summary=WORDS * 12)
    async with screen(session, size=size) as shown:
        lines = shown.lines()[: 2 if outcome == "hung" and size[1] > 20 else 1]
        assert lines[-1].split("…")[0].split()[-1] in WORDS.split()
        assert "…" in lines[-1]
        assert {*"".join(lines).split()} <= {*WORDS.split()} | {
            *"■ HUNG ◐ STARTING ◌ UNKNOWN ● HEALTHY DEMO 4/4 nodes 32/32 ranks".split(),
            *(f"{word}…" for word in WORDS.split()),
        }  # fmt: skip


@pytest.mark.parametrize("width", range(80, 130, 7))
async def test_no_part_of_the_line_below_it_is_cut(width: int) -> None:
    session = Paper(slow=11).session()
    boxes = [WaitBox((rank,), (), "waits", rank == 0, () if rank == 0 else (0,)) for rank in range(9)]
    session.verdict = replace(hung(), waits=tuple(boxes))
    async with screen(session, size=(width, 24)) as shown:
        line = next(line for line in shown.lines() if "who waits  A" in line)
        assert "…" not in line
        assert line.rstrip().endswith(("on CPU now", "5 more"))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_detail_of_a_choice_is_broken_once(size: tuple[int, int]) -> None:
    async with screen(Paper().session(), size=size) as shown:
        await shown.press("M")
        await shown.pilot.pause()
        inside = [line.split("│")[1].strip() for line in shown.lines() if line.count("│") == 2]
        begin = next(place for place, line in enumerate(inside) if line.startswith("ports, bandwidth"))
        end = next(place for place, line in enumerate(inside) if line.endswith("tools"))
        assert end - begin <= 1


async def test_leaving_says_that_the_job_goes_on() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("q")
        assert "The job is left as it is." in shown.text()


async def test_the_palette_has_no_picture() -> None:
    async with screen(Paper().session(), size=(80, 24)) as shown:
        await shown.press("colon")
        await shown.pilot.pause()
        assert "an action, a rank, a finding, a column, a node …" in shown.text()
        assert "🔎" not in shown.text()


@pytest.mark.parametrize("nodes", [16, 64])
async def test_all_ranks_that_started_together_are_one_line(nodes: int) -> None:
    async with screen(Paper(nodes=nodes).session(ticks=3), size=(120, 36)) as shown:
        assert shown.text().count(" started") == 1 + shown.text().count("started ▸")
        assert f"ranks 0-{8 * nodes - 1} started on node[1-{nodes}]" in shown.text()


async def test_of_a_verdict_that_has_no_room_the_word_comes_first() -> None:
    session = Paper().session(ticks=3)
    long = "32 ranks on 4 nodes, watched for 42 s: nothing is wrong (all of them computing, reading or writing)"
    session.publish(Verdict("healthy", long))
    async with screen(session, size=(120, 36)) as shown:
        line = next(line for line in shown.lines() if " ● healthy " in line)
        assert "● healthy 32 ranks on 4 nodes" in line
        assert "▸ started" not in shown.text()


async def test_a_path_that_is_longer_than_a_line_is_cut_and_not_broken() -> None:
    session = Paper(slow=11).session()
    path = "/data/" + "shard-0123456789/" * 8
    session.publish(replace(hung(), summary=f"rank 11 on node2 holds up 31 others: opens {path}"))
    async with screen(session, size=(80, 24)) as shown:
        second = shown.lines()[1].strip()
        assert second.endswith("…")
        assert path.startswith(second.removesuffix("…"))


@pytest.mark.parametrize(("key", "told"), [
    ("2", "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or Slurm's, Open MPI's) in its"),
    ("8", "no stack taken yet: D looks at all ranks (it reads and does not pause them), d at those under the cursor"),
    ("9", "r asks for flight recorder dumps; NCCL's COLL log lines and RAS fill this, too"),
])  # fmt: skip
async def test_what_an_empty_panel_asks_for_is_told_to_its_end(key: str, told: str) -> None:
    async with screen(Paper(nodes=0).session(), size=(80, 24)) as shown:
        await shown.press(key)
        assert told in " ".join(shown.text().split())


LONG = (
    "rank 11 on node2 is in a kernel call that no signal ends (state D for 38 s): nfs_wait_bit_killable, "
    "the NFS server does not answer"
)


@pytest.mark.parametrize("label", ["", "DEMO · simulated devices"])
async def test_a_loud_sentence_that_is_longer_than_the_line_is_told_in_two(label: str) -> None:
    session = Paper(slow=11, label=label).session()
    session.verdict = replace(hung(), summary=LONG)
    async with screen(session, size=(80, 24)) as shown:
        first, second, third = shown.lines()[:3]
        assert first.startswith(" ■ HUNG")
        assert " ".join(f"{first[8:].replace('DEMO', '')} {second}".split()).startswith(LONG)
        assert first.rstrip().endswith("DEMO") == bool(label)
        assert "DEMO" not in second
        assert third.startswith("1[Overview]")
        await shown.press("question_mark")
        assert shown.lines()[:2] == [first, second], "a dialog covers none of it"
        assert "╭─" in shown.lines()[2]
        await shown.press("escape")
        session.verdict = Verdict("healthy", LONG, ())
        await shown.draw()
        await shown.draw()
        assert shown.lines()[1].startswith("1[Overview]"), "what is not loud leaves the panel its lines"


async def test_on_a_flat_screen_the_banner_is_one_line() -> None:
    session = Paper(slow=11).session()
    session.verdict = replace(hung(), summary=LONG)
    async with screen(session, size=(80, 16)) as shown:
        assert shown.lines()[1].startswith("1[Overview]")


async def test_on_a_narrow_screen_no_key_is_cut_and_keys_come_before_what_hangtop_costs() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, size=(80, 24)) as shown:
        shown.app.edges.footer._cost = [("hangtop 11% 87M ", Tone.TEXT)]
        await shown.draw()
        footer = shown.lines()[-1]
        assert "d Dump" in footer
        assert "hangtop 11%" not in footer
        for number in range(1, 9):
            session.clock.now += 10.0**number
            await shown.draw()
            story = next(line for line in shown.lines() if "ranks wait" in line)
            assert "…" not in story
            if "next" in story:
                assert story.split("next")[1].split()[-1] in {"proof", "stacks", "graph", "report"}


@pytest.mark.parametrize("size", [(80, 24), (80, 16), (120, 36)])
@pytest.mark.parametrize("label", ["x" * 90, "REPLAY " + "x" * 90, "字" * 50])
async def test_a_long_label_leaves_the_verdict_its_line(size: tuple[int, int], label: str) -> None:
    session = Paper(slow=11, label=label).session()
    session.verdict = hung()
    async with screen(session, size=size) as shown:
        assert shown.lines()[0].startswith(" ■ HUNG  rank 11 on node2")
        session.verdict = replace(hung(), outcome="healthy", summary=WORDS * 12)
        await shown.draw()
        assert shown.lines()[0].startswith(" ● HEALTHY  abcdefgh ijklmnop ")


async def test_of_one_rank_the_noun_is_one_everywhere() -> None:
    session = Paper(nodes=1, gpus=1).session()
    async with screen(session, size=(120, 36)) as shown:
        assert "1 of 1 rank on CPU now" in shown.text()
        await shown.press("2")
        assert " 1 of 1 rank alive" in shown.text()


async def test_why_there_is_no_line_of_a_log_is_told_whole() -> None:
    async with screen(Paper().session(), size=(80, 24)) as shown:
        await shown.press("5")
        told = " ".join(shown.text().split())
        assert "through their stdout and stderr; --log names others" in told


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
@pytest.mark.parametrize("nodes", [4, 13])
async def test_what_is_said_of_a_lost_node_stands_apart_from_its_name(gpus: int, nodes: int) -> None:
    paper = Paper(nodes=nodes, gpus=gpus, names=[f"gpu{number:02}" for number in range(nodes)])
    session = paper.session(ticks=2)
    session.link(LinkChange("gpu99", "lost", "nothing listens at 10.0.0.9 port 22", paper.clock.now))
    async with screen(session, size=(110, 32)) as shown:
        told = next(line for line in shown.lines() if "✖ gpu99" in line).partition("✖ gpu99")[2]
        assert told.startswith((" lost", "  ")), told
        assert not told.startswith((" lost…", " l…"))
