"""Pods of a job from ``kubectl get pods -o json`` (the v1 PodList of the Kubernetes API)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.fleet.clean import clean

NAME = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,252})\Z")
"""A name as the API accepts it (RFC 1123); none begins with a dash."""

_ROLES = (
    ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
     "batch.kubernetes.io/job-completion-index"),
    ("training.kubeflow.org/job-name", "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"),
    ("batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"),
)  # fmt: skip
"""Labels that say which part of a job a pod plays, whatever its name: of JobSet, Kubeflow's operators, an indexed
Job. Pods of a StatefulSet keep their names."""
_TEXT = 200


class BadPods(ValueError):
    """kubectl's output is no list of pods."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod."""

    name: str
    role: tuple[str, ...]
    """The part that the pod plays, which stays the same when the pod is replaced; its name where no label tells."""
    runs: bool
    """True when its container runs."""
    why: str
    """Why not: ``Pending: ImagePullBackOff``, ``restarts: OOMKilled, exit code 137``."""
    created: str
    """RFC 3339: the later of two with one role is the present one."""
    host: str = ""
    """The Kubernetes node that it runs on; empty before it is scheduled."""


def read_pods(text: str, container: str | None = None) -> tuple[Pod, ...]:
    """Pods of a PodList, or of a single Pod. Raises :class:`BadPods`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadPods(f"no JSON: {error}") from None
    items = document.get("items", [document]) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise BadPods("no list of pods")
    found = (_pod(_mapping(item), container) for item in items)
    return tuple(pod for pod in found if pod is not None)


def present(pods: Sequence[Pod]) -> dict[tuple[str, ...], Pod]:
    """The present pod of each role: one that runs, else the latest."""
    found: dict[tuple[str, ...], Pod] = {}
    for pod in sorted(pods, key=lambda pod: (pod.runs, pod.created)):
        found[pod.role] = pod
    return found


def _pod(item: Mapping[str, Any], container: str | None) -> Pod | None:
    metadata, status = _mapping(item.get("metadata")), _mapping(item.get("status"))
    name = metadata.get("name")
    if not isinstance(name, str) or not NAME.match(name):
        return None
    states = [_mapping(one) for one in _list(status.get("containerStatuses"))]
    mine = [one for one in states if one.get("name") == container] if container else states[:1]
    running = bool(mine) and "running" in _mapping(mine[0].get("state"))
    leaving = "deletionTimestamp" in metadata
    return Pod(
        name, _role(name, _mapping(metadata.get("labels"))), running and not leaving,
        "is being deleted" if leaving else "" if running else _why(status, mine, container),
        _text(metadata.get("creationTimestamp")), _text(_mapping(item.get("spec")).get("nodeName")),
    )  # fmt: skip


def _role(name: str, labels: Mapping[str, Any]) -> tuple[str, ...]:
    for names in _ROLES:
        if all(isinstance(labels.get(label), str) for label in names):
            return tuple(labels[label] for label in names)
    return (name,)


def _why(status: Mapping[str, Any], mine: Sequence[Mapping[str, Any]], container: str | None) -> str:
    said = [_text(status.get("phase")) or "in no phase"]
    for word in ("state", "lastState"):
        for kind, state in _mapping(mine[0].get(word)).items() if mine else ():
            reason = _text(_mapping(state).get("reason")) or kind
            code = _mapping(state).get("exitCode")
            said.append(reason + (f", exit code {code}" if isinstance(code, int) else ""))
    if container and not mine and status.get("containerStatuses"):
        said.append(f"it has no container {container}")
    return "; ".join(dict.fromkeys(said))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return clean(value)[:_TEXT] if isinstance(value, str) else ""
