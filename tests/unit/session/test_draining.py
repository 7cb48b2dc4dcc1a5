"""Taking a node out: the scheduler's command and no other, by consent, on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import TargetError
from collectors.samples.location import Location
from hangtop.diagnosis.finding import Finding, NextStep, Verdict
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.session.options import SessionOptions
from hangtop.session.probes import ProbeRefused
from hangtop.session.probes.drain import commands, drain_probe, proposed
from hangtop.session.session import Session
from tests.support.made import process

DRAIN = "scontrol update nodename=gpu1 state=drain 'reason=hangtop: fan broken'"


async def drained(command: str, *, read_only: bool = False) -> tuple[bool, str]:
    """Whether it went well, and what was said."""
    result = await drain_probe(Session(SessionOptions(read_only=read_only)), command).run(print)
    return result.outcome == "ok", str(result.figures["text"])


def job(env: dict[str, str], locations: tuple[Location, ...] = ()) -> Job:
    ranks = (Rank(0, "gpu1", process(0, env=env)),)
    return Job(now=1.0, watched=1.0, live=True, ranks=ranks, nodes={"gpu1": Node("gpu1", locations=locations)})


async def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread((folder / name).write_text, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_commands_are_the_scheduler_s() -> None:
    assert commands(job({"SLURM_JOB_ID": "17"}), ["gpu1"], "fan broken") == [DRAIN]
    pod = job({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, (Location("host", "host-a", "kubectl"),))
    assert commands(pod, ["gpu1"], "x") == ["kubectl cordon host-a"]
    with pytest.raises(TargetError, match="none of this session's nodes"):
        commands(job({"SLURM_JOB_ID": "17"}), ["gpu9"], "x")
    with pytest.raises(TargetError, match="nobody to tell"):
        commands(job({}), ["gpu1"], "x")


def test_a_verdict_proposes_what_takes_nodes_out_and_nothing_else() -> None:
    steps = (NextStep("c", DRAIN), NextStep("d", "hangtop stacks gpu1"), NextStep("c", "kubectl delete node x"))
    finding = Finding("gpu_lost", "critical", 0.9, "GPU 3 fell off the bus", next=steps)
    assert proposed(Verdict("at_risk", "x", (finding, finding))) == [(DRAIN, "GPU 3 fell off the bus")]
    assert proposed(None) == []


async def test_it_is_run_here_and_its_word_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await tool(tmp_path, "scontrol", f'for word; do echo "$word"; done > {tmp_path}/asked', monkeypatch)
    assert await drained(DRAIN) == (True, "done")
    asked = await asyncio.to_thread((tmp_path / "asked").read_text)
    assert asked.splitlines() == ["update", "nodename=gpu1", "state=drain", "reason=hangtop: fan broken"]
    await tool(tmp_path, "scontrol", "echo 'slurm_update error: Invalid user id' >&2; exit 1", monkeypatch)
    assert await drained(DRAIN) == (False, "slurm_update error: Invalid user id")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /", "kubectl delete node x", "kubectl cordon --all", "kubectl cordon a b", "scontrol shutdown",
        "scontrol update nodename=a state=down reason=x", "scontrol update jobid=1 state=drain reason=x", "'",
        "scontrol update nodename='a b' state=drain reason=x",
    ],
)  # fmt: skip
async def test_nothing_else_is_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProbeRefused, match="takes no node out"):
        await drained(command)
