"""Findings about processes whose rank nobody tells say on which GPUs they are: host, GPU and pid are all there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.unnumbered import Unnumbered, unnumbered


def with_gpus(job: Job, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The same findings: ``process 4711 on node2 (GPU 3)``. Their ``gpus`` stay those at fault."""
    if not any(unnumbered(finding.ranks) for finding in findings):
        return findings
    known: dict[int, tuple[int, ...]] = {one.rank: one.gpus for one in job.ranks if isinstance(one.rank, Unnumbered)}
    return tuple(_said(finding, known) for finding in findings)


def _said(finding: Finding, known: Mapping[int, tuple[int, ...]]) -> Finding:
    summary = finding.summary
    for one in unnumbered(finding.ranks):
        indices = sorted(known.get(one, ()))
        if not indices:
            continue
        numbers = listed([str(index) for index in indices])
        told = f"{one.text} (GPU{'s' if len(indices) > 1 else ''} {numbers})"
        # a text is escaped in what replaces it, too: names of nodes are others' words
        summary = re.sub(rf"\b{re.escape(one.text)}(?![\w.-]*\w)", told.replace("\\", r"\\"), summary, count=1)
    return replace(finding, summary=summary)
