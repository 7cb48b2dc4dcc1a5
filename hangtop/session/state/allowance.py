"""What one node may make the session keep: so many things. Over it the node is shown limited, and no other notices."""

from __future__ import annotations

from hangtop.session.state.job_state import NodeState

THINGS = {
    "ranks": 4096, "gpus": 256, "ports": 512, "interfaces": 2048, "port_uses": 256, "log_files": 2048, "steps": 2048,
    "disks": 256, "sources": 64, "faults": 256,
}  # fmt: skip
"""Things of one kind on one node; more than any node has."""


def surplus(node: NodeState) -> str:
    """Let go of what is too much on a node, the latest first; says what that was, empty for nothing."""
    told = []
    for name, most in THINGS.items():
        things = getattr(node, name)
        if len(things) > most:
            for key in list(things)[most:]:
                del things[key]
            told.append(f"{name.replace('_', ' ')} beyond {most:,}")
    if told:
        node.roster += 1
    return ", ".join(told)
