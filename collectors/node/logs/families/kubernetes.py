"""Kubernetes' events about pods, and Ray's and Volcano's words about places: refused, waiting, put, taken away.

``launcher.refused`` as in :mod:`refusals`; ``launcher.pending`` has ``why`` (no node has room), ``launcher.placed``
takes it back; ``slurm.cancelled`` and ``launcher.lost_node`` as elsewhere. Formats: kubelet's ``events/event.go`` and
``eviction/helpers.go``, kube-scheduler's ``0/8 nodes are available: …``, the node controller, Ray's autoscaler.
"""

from __future__ import annotations

from typing import Iterator, Match

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_PENDING = re.compile(
    r"(?P<why>\b0/\d{1,5} nodes are available: [^\r\n]{1,200}"
    r"|No available node types can fulfill resource request[^\r\n]{0,120}"
    r"|[^\r\n]{0,60}tasks in gang unschedulable[^\r\n]{0,120}"
    r"|The following resource request cannot be scheduled right now[^\r\n]{0,160})"
)
_WAITS = re.compile(
    r"^\s{0,8}Status: {2,20}(?P<pod>Pending)\s{0,4}$"
    r"|^(?:[\w.-]{1,80} {1,60})?(?P<name>[a-z0-9][\w.-]{1,120}) {1,60}\d{1,3}/\d{1,3} {1,60}Pending {1,60}\d{1,6}\b"
    r"|^\s{0,40}(?P<job>\d{1,12}(?:_[\[\]\d,%-]{1,40})?) [^\r\n]{1,160}? PD [^\r\n]{1,80}"
    r"\((?P<why>(?!None|Dependency|JobHeld|BeginTime)[A-Z][A-Za-z]{3,60}[^)\r\n]{0,120})\)\s{0,8}$"
    r"|srun: Job (?P<step>\d{1,12}) step creation (?:temporarily|still) disabled, retrying \((?P<busy>[^)\r\n]{1,80})\)"
    r"|\bJobState=PENDING Reason=(?P<reason>(?!None|Dependency|JobHeld|BeginTime)[A-Z]\w{3,60}[^\s\r\n]{0,120})"
)
"""What tables and descriptions tell of pods (``kubectl``) and jobs (``squeue``, ``scontrol``) that wait."""
_PLACED = re.compile(
    r"Successfully assigned \S{1,200} to |Started container "
    r"|srun: (?:Step created for |job \d{1,12} has been allocated)"
)
_EVICTED = re.compile(
    r"(?P<why>Pod ephemeral local storage usage exceeds[^\r\n]{0,80}"
    r"|Usage of EmptyDir volume [^\r\n]{1,60} exceeds the limit"
    r"|Container \S{1,80} exceeded its local ephemeral storage limit"
    r"|(?:\bEvicted {2,60}(?P<host>[a-z0-9][\w.-]{1,120}) {2,60}Pod )?The node had condition: \[\w{3,40}\]"
    r"|Eviction manager: (?=pod is evicted successfully)|eviction manager: (?=pod \S{1,200} is evicted successfully))"
)
_PREEMPTED = re.compile(
    r"(?P<why>Preempted by (?:pod )?\S{1,120}(?: on node (?P<host>[\w.-]{1,120}))?"
    r"|Preempted in order to admit critical pod|(?:preempting|Preempting) to accommodate a higher priority pod"
    r"|[Ii]nstance (?:was|is being|has been) preempted|[Ss]pot (?:[Ii]nstance )?interruption[^\r\n]{0,60}"
    r"|[Pp]reemption notice[^\r\n]{0,60}|Metadata Service says termination is imminent)"
)
_NODE = re.compile(
    r"Kubelet stopped posting node status"
    r"|\bNodeNotReady\b[^\r\n]{0,80}?(?:Node (?P<node>[\w.-]{1,120}) )?[Nn]ode is not ready"
    r"|Node (?P<host>[\w.-]{1,120}) status is now: NodeNotReady"
    r"|(?:address|ip): (?P<ray>[\w.:-]{1,80})[^\r\n]{0,120} has been marked dead because the (?:detector|monitor)"
    r"|the node it was running on is dead or unavailable\. Node IP: (?P<ip>[\w.:-]{1,80}),"
    r"|Raylet is terminated(?:: ip=(?P<raylet>[\w.:-]{1,80}),|\.)[^\r\n]{0,120}Termination is unexpected"
    r"|The node with (?:client|node) id:? \w{8,64} has been marked dead because the (?:detector|monitor)"
)
_REFUSED = re.compile(
    r"(?P<why>Failed to pull image \"[^\"\r\n]{1,200}\"[^\r\n]{0,200}|\bErrImagePull\b"
    r"|\bImagePullBackOff\b|\bInvalidImageName\b"
    r"|Failed to create pod sandbox: [^\r\n]{1,200}|Unable to attach or mount volumes: [^\r\n]{1,160}"
    r"|MountVolume\.\w{3,20} failed for volume \"[^\"\r\n]{1,120}\"[^\r\n]{0,160}"
    r"|Allocate failed due to [^\r\n]{1,160}|\bUnexpectedAdmissionError\b"
    r"|Node didn't have enough resource: [^\r\n]{1,120}"
    r"|\bCreateContainer(?:Config)?Error\b|\bRunContainerError\b"
    r"|[Ff]ailed to create containerd task: [^\r\n]{1,200})"
)
_GAVE_UP = re.compile(
    r"(?:\bjob/(?P<job>[a-z0-9][\w.-]{0,120}) {1,60})?Job has reached the specified backoff limit"
    r"|\bjobset/(?P<set>[a-z0-9][\w.-]{0,120}) {1,60}jobset failed due to [^\r\n]{4,100}"
)
"""A controller that starts nothing any more, as pods have failed too often."""
_OF_PODS = re.compile(r"MountVolume\.|Unable to attach or mount|Failed to create pod sandbox")
_POD = re.compile(r"\b[Pp]od/(?P<pod>[a-z0-9][\w.-]{0,120})")
_RESTARTS = re.compile(
    r"Back-off (?:\S{1,12} )?restarting failed container|\bCrashLoopBackOff\b|^\s{0,12}Reason: {2,20}CrashLoopB"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    evicted, preempted = _EVICTED.search(text), _PREEMPTED.search(text)
    if evicted is not None:
        why = evicted.group("why")
        told: Data = {
            "launcher": "kubernetes",
            "reason": "evicted",
            "why": why[max(0, why.find("The node")) :].strip(" :"),
        }
        yield Said("slurm.cancelled", told, host=evicted.group("host") or "")
        return
    if preempted is not None:
        why = preempted.group("why").strip()
        data = {"launcher": "kubernetes" if why.startswith("Preempt") else "cloud", "reason": "preemption", "why": why}
        yield Said("slurm.cancelled", dict(data), host=preempted.group("host") or "")
        return
    node = _NODE.search(text)
    if node is not None:
        host = (
            node.group("node")
            or node.group("host")
            or node.group("ray")
            or node.group("ip")
            or node.group("raylet")
            or ""
        )
        launcher = "kubernetes" if "ubelet" in text or "NodeNotReady" in text else "ray"
        yield Said("launcher.lost_node", {"launcher": launcher, "why": "it gives no sign of life"}, host=host)
        return
    refused = _REFUSED.search(text)
    if refused is not None:
        yield Said("launcher.refused", _refusal(refused.group("why").strip(), text))
        return
    pending = _PENDING.search(text)
    if pending is not None:
        yield Said("launcher.pending", {"why": pending.group("why").strip()[:240]})
        return
    waits = _WAITS.search(text)
    if waits is not None:
        yield Said("launcher.pending", {"why": _waits(waits)})
    elif _PLACED.search(text):
        yield Said("launcher.placed", dict(_pod(text), started=True) if "Started container" in text else {})
    elif (gave_up := _GAVE_UP.search(text)) is not None:
        name = gave_up.group("job") or gave_up.group("set") or ""
        why = "%s failed more often than it may" % ("job " + name if name else "its job")
        yield Said("log.error", {"told": "exit", "message": why})
    elif _RESTARTS.search(text):
        yield Said("log.error", {"told": "exit", "message": "its container fails and is started again and again"})


def _refusal(why: str, text: str) -> Data:
    """What stands in the way of a container, or of all of a pod's: those are gone once one of them was started."""
    data: Data = dict(_pod(text), launcher="kubernetes", why=why[:240])
    if _OF_PODS.match(why):
        data["of_pod"] = True
    return data


def _pod(text: str) -> Data:
    named = _POD.search(text)
    return {"pod": named.group("pod")} if named is not None else {}


def _waits(match: "Match[str]") -> str:
    """``job 12 is pending (Resources)``, ``pod w-0 is pending``."""
    if match.group("step"):
        return "a step of job %s is pending (%s)" % (match.group("step"), match.group("busy"))
    why = match.group("why") or match.group("reason")
    who = "job " + match.group("job") if match.group("job") else "the job"
    if match.group("name") or match.group("pod"):
        who = "pod " + match.group("name") if match.group("name") else "the pod"
    return who + " is pending" + (" (%s)" % why if why else "")


FAMILY = Family(
    "kubernetes",
    (
        b"Pending", b" PD ", b"step creation ", b"Step created for", b"has been allocated", b"is imminent",
        b"JobState=PENDING",
        b" nodes are available: ", b"can fulfill resource request", b"gang unschedulable", b"be scheduled right now",
        b"Successfully assigned", b"Started container", b"ephemeral", b"EmptyDir volume", b"node had condition",
        b"is evicted successfully", b"have enough resource",
        b"Preempt", b"preempt", b"interruption", b"posting node status", b"NodeNotReady", b"marked dead because",
        b"is dead or unavailable", b"Raylet is terminated",
        b"pull image", b"ErrImagePull", b"ImagePullBackOff", b"InvalidImageName", b"pod sandbox", b"mount volumes",
        b"MountVolume", b"Allocate failed due", b"UnexpectedAdmission", b"ContainerError", b"ContainerConfigError",
        b"containerd task", b"restarting failed container",
        b"backoff limit", b"jobset failed due", b"CrashLoopB",
    ),
    read,
)  # fmt: skip
