"""Containers of a job by ``kubectl exec``, with the user's own kubectl and kubeconfig, without a terminal.

kubectl's output may end early with status 0, its input may be lost, its programs may outlive it, and it may stand still
when its pod goes: the framing, ticks and heartbeats handle that. A replaced pod is found by its labels, and its
node stays the same.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.targets.pods import NAME, BadPods, Pod, present, read_pods
from collectors.fleet.transport import Refused, TransportError

_DEADLINE = 20.0
_LIMIT = 64 << 20
_FRESH = 3.0
"""Seconds for which a list of pods is used again: the pods of a job tend to go at once."""
_ADVICE = (
    ("executable file not found", "the container has no sh: kubectl debug gives it one with a shell and Python"),
    ("cannot create resource", "your role needs the verb create on pods/exec"),
    ("Forbidden", "your role needs the verb create on pods/exec"),
    ("is not valid for pod", "name another --container"),
    ("container not found", "name another --container, or wait until it runs"),
    ("You must be logged in", "log in, as kubectl itself wants it"),
    ("Unable to connect to the server", "the API server does not answer: does kubectl get pods?"),
    ("was refused - did you specify the right host", "the API server does not answer: does kubectl get pods?"),
)


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The choice of pods, as options of kubectl."""

    namespace: str | None = None
    selector: str | None = None
    container: str | None = None

    def words(self) -> list[str]:
        """Options of every call."""
        return [] if self.namespace is None else [f"--namespace={self.namespace}"]

    def listing(self, names: Sequence[str] = ()) -> list[str]:
        """The call that lists the pods."""
        chosen = [f"--selector={self.selector}"] if self.selector is not None else list(names)
        return ["kubectl", *self.words(), "get", "pods", "--output=json", *chosen]


def list_pods(place: PodSelection, names: Sequence[str]) -> tuple[Pod, ...]:
    """Pods of the selector, or those named. Blocks for up to 20 s. Raises :class:`TargetError`."""
    if shutil.which("kubectl") is None:
        raise TargetError("kubectl is not here: install it, or run this where it is")
    if place.selector is None and not names:
        raise TargetError("--via kubectl goes into pods: name some, or choose them by -l SELECTOR")
    for name in names:
        if not NAME.match(name):
            raise TargetError(f"{name!r} is no name of a pod")
    try:
        done = subprocess.run(place.listing(names), capture_output=True, timeout=_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise TargetError(f"kubectl get pods did not answer within {_DEADLINE:.0f} s") from None
    if done.returncode != 0:
        said = clean_bytes(done.stderr).strip().splitlines()
        raise TargetError(f"kubectl get pods: {said[-1] if said else f'status {done.returncode}'}")
    try:
        return read_pods(done.stdout.decode("utf-8", "replace"), place.container)
    except BadPods as error:
        raise TargetError(f"kubectl get pods: {error}") from None


class Kubectl:
    """Pods of one namespace; a node is the part that a pod plays, under the name of its first pod."""

    opening = 30.0
    channels = 3
    at_once = 8

    def __init__(self, place: PodSelection, pods: Sequence[Pod]) -> None:
        self._place = place
        self._pods = present(pods)
        self._roles = {pod.name: role for role, pod in self._pods.items()}
        self._listed = 0.0
        self._listing = asyncio.Lock()

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return sorted(self._roles)

    @property
    def hosts(self) -> dict[str, str]:
        """The Kubernetes node of each node's present pod, where it is known."""
        playing = ((name, self._pods.get(role)) for name, role in self._roles.items())
        return {name: pod.host for name, pod in playing if pod is not None and NAME.match(pod.host)}

    async def prepare(self, target: Target) -> None:
        """Find the node's present pod. Raises :class:`TransportError` when there is none."""
        role = self._roles.get(target.host)
        if role is None:
            raise Refused(f"{target.name}: no such pod was there at the start")
        async with self._listing:
            if time.monotonic() - self._listed > _FRESH:
                self._pods = present(await self._list())
                self._listed = time.monotonic()
        pod = self._pods.get(role)
        if pod is None:
            raise TransportError(f"{target.name}: its pod is gone, and no other has come in its place")
        if not pod.runs:
            raise TransportError(f"{target.name}: its pod {pod.name} does not run: {pod.why}")

    async def _list(self) -> tuple[Pod, ...]:
        names = [] if self._place.selector is not None else self.names
        # Pods that are gone make kubectl fail when they are named, unless it is told to pass them over.
        words = [*self._place.listing(names), *(["--ignore-not-found"] if names else [])]
        done = await Local("kubectl").run(words, timeout=_DEADLINE, limit=_LIMIT)
        if done.status != 0:
            said = clean_bytes(done.stderr).strip().splitlines()
            raise TransportError(f"kubectl get pods: {said[-1] if said else f'status {done.status}'}")
        if not done.stdout.strip():
            return ()
        try:
            return read_pods(done.stdout.decode("utf-8", "replace"), self._place.container)
        except BadPods as error:
            raise TransportError(f"kubectl get pods: {error}") from None

    def words(self, target: Target) -> list[str]:
        """A shell in the pod's container."""
        return self._exec(target, "-i")

    def terminal(self, target: Target) -> list[str]:
        """The same with a terminal."""
        return self._exec(target, "-it")

    def _exec(self, target: Target, flag: str) -> list[str]:
        role = self._roles.get(target.host)
        pod = self._pods.get(role) if role is not None else None
        if pod is None:
            raise Refused(f"{target.name}: there is no such pod now")
        inside = [] if self._place.container is None else [f"--container={self._place.container}"]
        return ["kubectl", *self._place.words(), "exec", flag, pod.name, *inside, "--", "sh"]

    def advice(self, said: str) -> str:
        """What to do about a complaint of kubectl."""
        return next((advice for words, advice in _ADVICE if words.lower() in said.lower()), "")
