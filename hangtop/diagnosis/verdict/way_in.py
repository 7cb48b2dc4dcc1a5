"""The way through where ptrace is refused in a container that kubectl leads into: a shell on the pod's node, as root.

Shown where it is said that stacks are not known, and with the first finding, copied with it; never taken: it makes a
privileged pod. The form is that of ``kubectl
debug node/NAME --profile=sysadmin`` (Kubernetes 1.27 and later).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Finding, NextStep, Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.verdict.drain import KEY, host_of
from hangtop.diagnosis.waits.job_status import JobStatus

IMAGE = "python:3-slim"
"""One with a shell: what is run is the node's own, by chroot."""
MOST = 2
"""Nodes for which it is shown: the others' is the same with another name."""


def with_way_in(job_status: JobStatus, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The same findings; the first has the command among its next steps where stacks were refused."""
    if not findings:
        return findings
    refused = (
        status.node
        for status in job_status.of("unseen")
        if status.activity is not None and status.activity.error == "denied"
    )
    hosts = dict.fromkeys(filter(None, (host_of(job_status.job, node) for node in dict.fromkeys(refused))))
    steps = tuple(NextStep(KEY, debug_command(host)) for host in list(hosts)[:MOST])
    return (replace(findings[0], next=(*findings[0].next, *steps)), *findings[1:]) if steps else findings


def told_way_in(job: Job, unknown: Unknown) -> Unknown:
    """The same word on stacks that were refused, and what opens them: for a pod the command, for the first node."""
    if unknown.source != "stacks" or not unknown.why.startswith("denied"):
        return unknown
    hosts = list(dict.fromkeys(filter(None, (host_of(job, node) for node in unknown.nodes))))
    if not hosts:
        return replace(unknown, why=f"{unknown.why}; {_login(job, unknown.nodes)}")
    more = f" (and {count(len(hosts) - 1, 'node')} more)" if hosts[1:] else ""
    return replace(unknown, why=f"{unknown.why}; a way through: {debug_command(hosts[0])}{more}")


def _login(job: Job, nodes: Sequence[str]) -> str:
    """Who may look there: root may, where neither a container nor the kernel's settings keep him from it."""
    hellos = [node.hello for name in nodes if (node := job.nodes.get(name)) is not None]
    if hellos and all(hello is not None and hello.uid == 0 for hello in hellos):
        return "root may not either: a container needs --cap-add SYS_PTRACE, or log in on its host"
    return (
        "log in as the ranks' owner or as root, or add --sudo; a container needs SYS_PTRACE (hangtop preflight tells)"
    )


def debug_command(host: str) -> str:
    """A root shell on a Kubernetes node, from which the containers' processes may be read."""
    words = ["kubectl", "debug", f"node/{host}", "-it", "--profile=sysadmin", f"--image={IMAGE}", "--"]
    return shlex.join([*words, "chroot", "/host", "sh"])
