"""Containers of a job by ``kubectl exec``, with the user's own kubectl and kubeconfig, without a terminal.

kubectl's output may end early with status 0, its input may be lost, its programs may outlive it, and it may stand still
when its pod goes: the framing, ticks and heartbeats handle that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean_bytes
from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.via.way import Way

_NAME = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,252})\Z")
"""A name as the API accepts it (RFC 1123); none begins with a dash."""
_DEADLINE = 20.0
_NO_ANSWER = "the API server does not answer: does kubectl get pods?"
_ADVICE = (
    ("executable file not found", "the container has no sh: kubectl debug gives it one with a shell and Python"),
    ("cannot create resource", "your role needs the verb create on pods/exec"),
    ("forbidden", "your role needs the verb create on pods/exec"),
    ("is not valid for pod", "name another --container"),
    ("container not found", "name another --container, or wait until it runs"),
    ("not found", "the pod is gone: where another has come in its place, start hangtop again"),
    ("you must be logged in", "log in, as kubectl itself wants it"),
    ("unable to connect to the server", _NO_ANSWER),
    ("was refused - did you specify the right host", _NO_ANSWER),
)


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The choice of pods, as options of kubectl."""

    namespace: str | None = None
    selector: str | None = None
    container: str | None = None

    def words(self) -> list[str]:
        """The program, with the options of every call."""
        return ["kubectl", *([] if self.namespace is None else [f"--namespace={self.namespace}"])]


def list_pods(chosen: PodSelection, names: Sequence[str]) -> list[str]:
    """Pods of the selector, or those named.

    Blocks for up to 20 s. Raises :class:`TargetError`.
    """
    if shutil.which("kubectl") is None:
        raise TargetError("kubectl is not here: install it, or run this where it is")
    if chosen.selector is None and not names:
        raise TargetError("--via kubectl goes into pods: name some, or choose them by -l SELECTOR")
    for name in names:
        if not _NAME.match(name):
            raise TargetError(f"{name!r} is no name of a pod")
    which = [f"--selector={chosen.selector}"] if chosen.selector is not None else names
    words = [*chosen.words(), "get", "pods", "--output=name", *which]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise TargetError(f"kubectl get pods did not answer within {_DEADLINE:.0f} s") from None
    if done.returncode != 0:
        said = clean_bytes(done.stderr).strip().splitlines()
        raise TargetError(f"kubectl get pods: {said[-1] if said else f'status {done.returncode}'}")
    lines = (line.strip().removeprefix("pod/") for line in clean_bytes(done.stdout).splitlines())
    found = sorted(line for line in lines if _NAME.match(line))
    if not found:
        raise TargetError(f"no pod is chosen by -l {chosen.selector}" if chosen.selector else "no such pod")
    return found


def kubectl(chosen: PodSelection) -> Way:
    """Shells in the containers of pods."""
    inside = [] if chosen.container is None else [f"--container={chosen.container}"]

    def exec_words(target: Target, flag: str) -> list[str]:
        return [*chosen.words(), "exec", flag, target.host, *inside, "--", "sh"]

    return Way(
        lambda target: exec_words(target, "-i"), lambda target: exec_words(target, "-it"), _ADVICE, opening=30.0,
        channels=3,
    )  # fmt: skip
