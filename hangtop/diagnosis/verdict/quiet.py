"""Nodes that have just stopped sending, before it is known whether they are lost."""

from __future__ import annotations

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import duration


def gone_quiet(job: Job) -> str:
    """Which nodes sent nothing for how long, so that it is open whether the job moves; empty where none did."""
    heard = {
        name: node.seen_at for name, node in job.nodes.items() if node.link == "stale" and node.seen_at is not None
    }
    if not heard:
        return ""
    have = "have" if len(heard) > 1 else "has"
    return f"{nodes_text(sorted(heard))} {have} sent nothing for {duration(max(0.0, job.now - min(heard.values())))}"
