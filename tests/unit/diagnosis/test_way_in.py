"""The way through a refused ptrace: shown where kubectl told the pod's node, and nowhere else."""

from __future__ import annotations

from collectors.samples.gpus import GpuFault
from collectors.samples.location import Location
from hangtop.diagnosis.finding import Verdict
from tests.support.jobs import ALL_REDUCE, READING, Sketch

COMMAND = "kubectl debug node/host-b -it --profile=sysadmin --image=python:3-slim -- chroot /host sh"


def judged(
    *, host: bool = True, error: str = "denied: Permission denied (os error 13)", crashed: bool = False
) -> Verdict:
    job = Sketch(world=4, nodes=2)
    job.ranks(0, 1).at(ALL_REDUCE)
    job.ranks(2, 3).unread(error)
    if crashed:
        job.node("node1", gpu_fault=GpuFault(None, "", "Unable to determine the device handle for GPU0: Unknown Error"))
    if host:
        job.node("node1", locations=(Location("host", "host-a", "kubectl"),))
        job.node("node2", locations=(Location("host", "host-b", "kubectl"),))
    return job.verdict()


def test_the_command_is_shown_where_stacks_are_not_known() -> None:
    (unknown,) = judged().unknown
    assert unknown.why == f"denied: Permission denied (os error 13); a way through: {COMMAND}"


def test_and_with_the_first_finding_to_be_copied() -> None:
    findings = judged(crashed=True).findings
    assert [step.command for step in findings[0].next].count(COMMAND) == 1


def test_not_where_ssh_leads_or_something_else_is_the_matter() -> None:
    assert "debug" not in judged(host=False).unknown[0].why
    assert "log in as the ranks' owner or as root" in judged(host=False).unknown[0].why
    assert "debug" not in judged(error="timeout: no answer").unknown[0].why


def test_not_where_all_stacks_were_read() -> None:
    job = Sketch(world=2, nodes=2)
    job.ranks(0).at(ALL_REDUCE)
    job.ranks(1).at(READING)
    job.node("node2", locations=(Location("host", "host-b", "kubectl"),))
    assert all("debug" not in step.command for finding in job.verdict().findings for step in finding.next)
