"""Checks of what is installed and who is on the GPUs: versions, settings in files, GPUs idle and equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hangtop.diagnosis.environment.lint import lint
from hangtop.diagnosis.job import Node
from hangtop.diagnosis.preflight.scene import UNTOLD, CheckCell, Preflight, State, size, texts

BUSY_MEMORY = 1 << 30
COMPARED = ("nvidia", "cuda", "nccl", "torch")


def versions(scene: Preflight) -> Iterator[CheckCell]:
    """Driver, CUDA, NCCL and torch, equal on all nodes; the ranks' own where there are ranks."""
    found: dict[str, dict[str, str]] = {}
    for node in scene.nodes():
        merged = dict(node.host.versions) if node.host else {}
        for gpu in node.gpus[:1]:
            if gpu.facts and gpu.facts.driver:
                merged["nvidia"] = gpu.facts.driver
        for rank in scene.ranks(node.name)[:1]:
            merged.update(rank.process.versions)
        found[node.name] = {name: merged[name] for name in COMPARED if merged.get(name)}
    usual = {
        name: Counter(values[name] for values in found.values() if name in values).most_common(1)[0][0]
        for name in COMPARED
        if any(name in values for values in found.values())
    }
    for node_name, values in sorted(found.items()):
        odd = [f"{name} {value}, elsewhere {usual[name]}" for name, value in values.items() if value != usual[name]]
        text = ", ".join(f"{name} {value}" for name, value in values.items())
        if odd:
            yield CheckCell(
                "versions", node_name, "fail", "; ".join(odd), "env_mismatch", "Install the same image on every node."
            )
        elif text:
            yield CheckCell("versions", node_name, "ok", text)
        else:
            said = scene.said(scene.job.nodes[node_name], "software")
            figure = "no file here tells a version" if said else UNTOLD
            yield CheckCell("versions", node_name, "unknown", figure)


def _has_none(node: Node) -> bool:
    """True of a node that said it has no GPU; one that only has not told of any yet may have some."""
    state = node.sources.get("gpus")
    return state is not None and state.state == "absent"


def gpus(scene: Preflight) -> Iterator[CheckCell]:
    """GPUs: none lost, as many and of the same kind as elsewhere, and idle unless the job's own ranks are on them."""
    known = [node for node in scene.nodes() if node.gpus or _has_none(node)]
    kinds = {node.name: Counter(gpu.facts.name if gpu.facts else "unknown" for gpu in node.gpus) for node in known}
    some = any(kinds.values())
    for node in scene.nodes():
        state = node.sources.get("gpus")
        if node.name not in kinds and (some or state is not None):
            # where no node has told of any it is still no word for "none" that nvidia-smi does not answer
            yield CheckCell("GPUs", node.name, "unknown", (state.why if state else "") or UNTOLD)
    if not some:
        return
    usual = Counter(tuple(sorted(count.items())) for count in kinds.values()).most_common(1)[0][0]
    for node in known:
        mine = {rank.process.pid for rank in scene.ranks(node.name)}
        lost = [gpu for gpu in node.gpus if gpu.fault]
        strangers = [
            f"GPU {gpu.index}: pid {process.pid} {process.name} ({size(process.memory or 0)})"
            for gpu in node.gpus
            for process in gpu.processes
            if process.pid not in mine
        ]
        full = [
            f"GPU {gpu.index}: {size(gpu.looks[-1].value.memory_used or 0)} used by nobody that is seen"
            for gpu in node.gpus
            if gpu.looks and (gpu.looks[-1].value.memory_used or 0) > BUSY_MEMORY and not gpu.processes and not mine
        ]
        count = ", ".join(f"{number} × {name}" for name, number in sorted(kinds[node.name].items())) or "none"
        if lost:
            text = "; ".join(f"GPU {gpu.index}: {gpu.fault.text}" for gpu in lost if gpu.fault)
            yield CheckCell(
                "GPUs", node.name, "fail", text, "gpu_lost", "Drain the node; nvidia-smi --gpu-reset or restart it."
            )
        elif tuple(sorted(kinds[node.name].items())) != usual:
            wanted = ", ".join(f"{number} × {name}" for name, number in usual) or "none"
            yield CheckCell(
                "GPUs",
                node.name,
                "fail",
                f"{count}, elsewhere {wanted}",
                "gpu_lost",
                "nvidia-smi -L; dmesg | grep -i xid",
            )
        elif strangers or full:
            yield CheckCell(
                "GPUs",
                node.name,
                "warn",
                "; ".join((strangers + full)[:4]),
                "zombie_process",
                "nvidia-smi; end what an earlier run left",
            )
        else:
            yield CheckCell("GPUs", node.name, "ok", count)


def settings(scene: Preflight) -> Iterator[CheckCell]:
    """Settings that files add unseen, and what the environment lint says of the ranks of each node."""
    findings = lint(scene.job)
    for node in scene.nodes():
        hidden = [(answer.subject, line) for answer in scene.all(node.name, "file") for line in texts(answer)]
        ours = [finding for finding in findings if node.name in finding.nodes]
        if ours:
            worst = next((item for item in ours if item.severity == "critical"), ours[0])
            more = f" (and {len(ours) - 1} more: hangtop triage lists them)" if len(ours) > 1 else ""
            state: State = "fail" if worst.severity == "critical" else "warn"
            yield CheckCell("settings", node.name, state, worst.summary + more, worst.kind, worst.advice)
        elif hidden:
            text = "; ".join(f"{path}: {line}" for path, line in hidden)
            yield CheckCell(
                "settings",
                node.name,
                "warn",
                f"set in files, unseen in any environment: {text}",
                "env_invalid",
                f"cat {hidden[0][0]}",
            )
        elif scene.ranks(node.name):
            yield CheckCell("settings", node.name, "ok", "nothing to object to")
