"""Dialogs: they fit and leave the verdict in view; what touches the job is shown, asked about, run and kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import combinations

import pytest

from collectors.fleet.sink import HostKeyQuestion, LinkChange
from collectors.probes.allreduce.run import AllreduceProbe
from collectors.samples.probes import ProbeFigure, ProbePair, ProbeRank, ProbeReport
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper, PaperSession, hung

NAMES = [f"ip-10-0-7-{number}.eu-central-1.compute.internal" for number in range(40)]
SENTENCE = f"rank 11 on {NAMES[1]} holds up 319 others: read_shard (data.py:88)"


def large_job() -> PaperSession:
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
    async with screen(large_job(), size=(80, 24)) as shown:
        await shown.press("2")
        banner = shown.lines()[:2]
        assert SENTENCE in " ".join("".join(banner).split())
        await shown.press(*keys.split())
        assert shown.lines()[:2] == banner
        lines = box(shown)
        assert all(line[0] + line[-1] in {"││", "╭╮", "╰╯"} for line in lines)
        assert "Esc" in lines[-2] or "n cancel" in lines[-2], "what can be pressed is the last thing that is said"
        assert not any("…" in line for line in lines)


# --- what is asked of nodes and job ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "brief", "command"),
    [
        ("a", "2 nodes, all_reduce to 16 MiB, about 5 s, gloo, loads the network", "python3 -I -S -B -u -c"),
        ("P", "2 nodes, MTU, loss and throughput between all of them", "python3 -I -S -B -u -c"),
        ("r", "no rank can be asked for a dump", "to ask ranks for dumps"),
    ],
)
async def test_what_touches_the_job_says_so_in_a_line_and_shows_its_command(key: str, brief: str, command: str) -> None:
    async with screen(Paper(nodes=2).session(), size=(80, 24)) as shown:
        await shown.press(key)
        before = box(shown)
        assert brief in " ".join(shown.text().replace("│", " ").split())
        assert "e show command" in before[-2]
        await shown.press("e")
        assert command in shown.text()
        await shown.press("e")
        assert box(shown) == before
        await shown.press("n")
        assert "show command" not in shown.text()


def report(busbw: float) -> ProbeReport:
    names = [f"node{number}" for number in range(1, 5)]
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(names)]
    pairs = [ProbePair(a, b, 0.05 if "node3" in (a, b) else busbw, 0.0, "") for a, b in combinations(names, 2)]
    figure = ProbeFigure("all_reduce", 1 << 20, 0.001, busbw / 1.5, busbw, [])
    return ProbeReport("gloo", 4, NOW, 3.2, "", ranks, [figure], pairs, {})


async def test_an_answer_shows_figures_pairs_and_findings_and_can_be_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(_: AllreduceProbe) -> ProbeReport:
        return report(4.8)

    monkeypatch.setattr(AllreduceProbe, "run", run)
    async with screen(Paper(nodes=4, gpus=0).session()) as shown:
        await shown.press("R")
        assert "no result yet" in shown.notices()[-1]
        await shown.press("a", "y")
        assert "Collective probe, gloo, 4 ranks, 3.2 s" in shown.text()
        assert "bandwidth_low" in shown.text()
        assert len([line for line in shown.lines() if " - node" in line and "0.05  " in line]) == 3
        await shown.press("escape", "R")
        await shown.press("enter")
        assert "bandwidth_low" in shown.text()


async def test_escape_stops_what_runs_and_it_cleans_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def run(probe: AllreduceProbe) -> ProbeReport:
        probe._progress("pairs, round 1 of 3 \x1b[31m")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")
        raise AssertionError

    monkeypatch.setattr(AllreduceProbe, "run", run)
    async with screen(Paper(nodes=4, gpus=0).session()) as shown:
        await shown.pilot.press("a", "y")  # without waiting for its end
        await shown.pilot.pause(0.05)
        assert "pairs, round 1 of 3" in shown.text()
        assert "Esc stops and cleans up on the nodes" in shown.text()
        await shown.press("escape")
        assert ended == ["cleaned up"]
        assert "CANCELLED  stopped on request" in shown.text()
        await shown.press("escape")
        assert "CANCELLED" not in shown.text()


# --- host keys ---------------------------------------------------------------------------------------------------


async def test_an_unknown_host_key_is_accepted_only_on_purpose() -> None:
    question = HostKeyQuestion("node1", "node1 [/b]", "ssh-ed25519 SHA256:abc")
    async with screen() as shown:
        for key, said in (("y", True), ("n", False), ("escape", False), ("enter", False)):
            answer = asyncio.ensure_future(shown.session.ask(question))
            await shown.pilot.pause()
            assert "ssh-ed25519 SHA256:abc" in shown.text()
            assert "node1 [/b] is in no known_hosts file" in shown.text()
            await shown.pilot.press(key)
            assert await answer is said


async def test_a_key_that_was_refused_can_be_asked_about_again() -> None:
    session = Paper().session()
    session.link(LinkChange("node2", "lost", "node2: its host key was not accepted", NOW))
    async with screen(session) as shown:
        answer = asyncio.ensure_future(session.ask(HostKeyQuestion("node2", "node2", "ssh-ed25519 SHA256:abc")))
        await shown.pilot.pause()
        await shown.press("escape")
        assert await answer is False
        assert shown.notices()[-1] == "node2: A in 6 Nodes asks again"
        await shown.press("6", "A")
        assert session.retried == []
        assert "no lost node under the cursor" in shown.notices()[-1]
        await shown.press("down", "A")
        assert session.retried == ["node2"]
        assert "connects to node2" in shown.notices()[-1]
