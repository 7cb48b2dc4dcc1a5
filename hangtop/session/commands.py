"""Commands of next steps as they can be pasted: with what this session was told about the way to its nodes."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from hangtop.diagnosis.finding import Finding, NextStep, Verdict
from hangtop.session.options import SessionOptions, job_of_slurm, names_no_node

REACHING = frozenset(("stacks", "probe", "repair", "flame", "triage", "check", "preflight", "witness"))
"""Commands that connect to nodes and so take the options of the connection."""


def completed(verdict: Verdict, options: SessionOptions, nodes: Collection[str]) -> Verdict:
    """The verdict with commands that work from here; ``nodes`` are the session's."""
    if not any(finding.next for finding in verdict.findings):
        return verdict
    here = names_no_node(options)
    own, more = frozenset(nodes) if here else frozenset[str](), _way(options)
    if not own and not more:
        return verdict
    return replace(verdict, findings=tuple(_finding(finding, own, more) for finding in verdict.findings))


def _finding(finding: Finding, own: Collection[str], more: str) -> Finding:
    if not finding.next:
        return finding
    return replace(finding, next=tuple(_step(step, own, more) for step in finding.next))


def _step(step: NextStep, own: Collection[str], more: str) -> NextStep:
    words = step.command.split()
    if words[:1] != ["hangtop"] or len(words) < 2 or words[1] not in REACHING:
        return step
    # without targets a command looks at this machine as the session does; with its name it would want ssh to it
    kept = " ".join(word for word in words if word not in own)
    return replace(step, command=f"{kept} {more}".strip() if more and not kept.endswith(more) else kept)


def _way(options: SessionOptions) -> str:
    words = []
    for flag, value in (
        ("-F", options.ssh_config),
        ("--slurm", job_of_slurm(options)),
        ("--via", options.via),
        ("-n", options.namespace),
        ("-l", options.selector),
        ("--container", options.container),
        ("--job", "=".join(options.job) if options.job else None),
        ("--python", options.python),
        ("--py-spy", options.py_spy),
    ):
        if value is not None:
            words += [flag, str(value)]
    return shlex.join([*words, *(["--sudo"] if options.sudo else [])])
