"""Tables of schedulers and clusters: a line a job, a pod or a node, and in a column how it ended or stands.

Formats: Slurm's ``sacct`` (also with ``-P``), ``seff``, ``scontrol show job``, ``sinfo``, mails, slurmctld's log;
``kubectl get pods`` and ``get nodes``.
"""

from __future__ import annotations

from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.said import Data, Family, Said, number

_JOB = re.compile(
    r"(?:^\s{0,40}\d{1,12}(?:_\d{1,7})?(?:\.\w{1,12})?[ |][^\r\n]{0,200}?[ |]|\bJobState="
    r"|^\s{0,4}State: |Run time [\d:-]{1,20}, )"
    r"(?P<state>OUT_OF_ME(?:MORY|\+)|NODE_FAIL|TIMEOUT|PREEMPTED|BOOT_FAIL|DEADLINE|FAILED|CANCELLED)(?!\w)"
    r"(?P<rest>[^\r\n]{0,200})"
)
_CODE = re.compile(r"[ |](?P<code>\d{1,3}):(?P<signal>\d{1,3})(?=[ |]|$)|[Ee]xit ?[Cc]ode:? ?=?(?P<exit>\d{1,3})")
_CANCELLED = {
    "NODE_FAIL": "node_failure", "TIMEOUT": "time_limit", "DEADLINE": "time_limit", "PREEMPTED": "preemption",
    "BOOT_FAIL": "node_failure", "CANCELLED": "user",
}  # fmt: skip
_CONTROLLER = re.compile(
    r"\bNodes (?P<host>[\w.\[\],-]{1,120}) not responding, setting DOWN"
    r"|\bnode (?P<node>[\w.-]{1,120}) not responding, setting DOWN"
    r"|\bKilling (?:JobId|job)\S{0,20} on failed node (?P<failed>[\w.-]{1,80})"
)
_SINFO = re.compile(
    r"^\s{0,4}[\w.*-]{1,40} {1,12}(?:up|down|drain|inact) {1,12}\S{1,16} {1,12}\d{1,6} {1,12}"
    r"(?:down|fail|no_respond)[*~#$@]? "
    r"{1,12}(?P<host>[A-Za-z][\w.\[\],-]{0,120})\s{0,4}$"
)
_POD = re.compile(
    r"^(?:[\w.-]{1,80} {1,60})?(?P<host>[a-z0-9][\w.-]{1,120}) {1,60}\d{1,3}/\d{1,3} {1,60}"
    r"(?P<state>(?:Init:)?(?:OOMKilled|Error|Evicted|NodeLost|Terminated|ContainerStatusUnknown|CrashLoopBackOff))"
    r" {1,60}\d{1,6}\b(?: {1,4}\([^()\r\n]{1,24}\))?"
    r"(?: {1,60}\d\w{1,12} {1,60}(?:<none>|[\da-f.:]{3,40}) {1,60}(?P<node>(?!<)\S{1,120}))?"
)
"""``kubectl get pods``; wide, with the node behind the pod's age and address."""
_NODE = re.compile(
    r"^(?P<host>[a-z0-9][\w.-]{1,120}) {1,60}NotReady(?:,SchedulingDisabled)? {1,60}(?:<none>|[\w,.-]{1,80})"
    r" {1,60}\d{1,5}[smhdy]"
)


_ACCOUNT = re.compile(r"^\s{0,4}(?:exit_status|failed) {2,40}(?P<code>\d{1,3})", re.MULTILINE)
_SHOWN = re.compile(r"\bNodeName=(?P<host>[\w.-]{1,80})")
_DOWN = re.compile(r"\bState=\w{0,20}\+?DOWN|\bState=\S{0,20}NOT_RESPONDING")
_MISSING = re.compile(r"\bReason=(?P<why>gres/gpu count reported lower than configured[^\[\r\n]{0,40})")
_AT = re.compile(r"^\s{0,4}hostname {2,40}(?P<host>[\w.-]{1,120})", re.MULTILINE)
"""Grid Engine's ``qacct``: a field a line."""


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    if "NodeName=" in text[:80]:
        yield from _node(text)
        return
    said = _account(text) if text.lstrip().startswith("qname") else _job(text) or _pod(text)
    if said is not None:
        yield said
        return
    lost = _CONTROLLER.search(text)
    hosts = [] if lost is None else [lost.group(name) for name in ("host", "node", "failed") if lost.group(name)]
    row = _SINFO.match(text)
    hosts += [] if row is None else [row.group("host")]
    if hosts:
        yield Said("launcher.lost_node", {"launcher": "slurm", "why": "it does not respond"}, host=hosts[0])
        return
    node = _NODE.match(text)
    if node is not None:
        yield Said("launcher.lost_node", {"launcher": "kubernetes", "why": "it is not ready"}, host=node.group("host"))


def _job(text: str) -> Optional[Said]:
    """How a job or a step ended, by Slurm's word for its state."""
    match = _JOB.search(text)
    if match is None:
        return None
    state = match.group("state")
    if state.startswith("OUT_OF"):
        return Said("slurm.out_of_memory", {})
    if state in _CANCELLED:
        return Said("slurm.cancelled", {"reason": _CANCELLED[state], "launcher": "slurm"})
    data: Data = {"launcher": "slurm", "reason": "its state is FAILED"}
    told = _CODE.search(match.group("rest"))
    if told is not None:
        code = number(told.group("code") or told.group("exit")) or 0
        data["exitcode"] = code
        signal = signals.name(told.group("signal")) if (number(told.group("signal")) or 0) else signals.of_exit(code)
        if signal:
            data["signal"] = signal
    return Said("launcher.exit", data)


def _node(text: str) -> Iterator[Said]:
    """What ``scontrol show node`` tells: the node is down, or has fewer GPUs than it should."""
    named, missing = _SHOWN.search(text), _MISSING.search(text)
    if named is None:
        return
    if missing is not None:
        yield Said("gpu.unseen", {"error": missing.group("why").strip()}, host=named.group("host"))
    elif _DOWN.search(text):
        why = "Slurm has set it down"
        yield Said("launcher.lost_node", {"launcher": "slurm", "why": why}, host=named.group("host"))


def _account(text: str) -> Optional[Said]:
    """How a job of Grid Engine ended, by its accounting."""
    codes = [number(match.group("code")) or 0 for match in _ACCOUNT.finditer(text)]
    code = max(codes, default=0)
    if not code:
        return None
    data: Data = {"launcher": "sge", "exitcode": code}
    if signals.of_exit(code):
        data["signal"] = signals.of_exit(code)
    at = _AT.search(text)
    return Said("launcher.exit", data, host=at.group("host") if at is not None else "")


def _pod(text: str) -> Optional[Said]:
    match = _POD.match(text)
    if match is None:
        return None
    pod, state = match.group("host"), match.group("state")
    if state.endswith("OOMKilled"):
        data: Data = {"launcher": "kubernetes", "reason": "OOMKilled", "signal": "KILL", "exitcode": 137}
        return Said("launcher.exit", data, host=pod)
    if state == "Evicted":
        evicted: Data = {"launcher": "kubernetes", "reason": "evicted", "why": "", "pod": pod}
        return Said("slurm.cancelled", evicted, host=match.group("node") or pod)
    if state == "NodeLost":
        return Said("launcher.lost_node", {"launcher": "kubernetes", "why": "its node is lost"}, host=pod)
    return Said("log.error", {"told": "exit", "message": "pod %s is in state %s" % (pod, state)}, host=pod)


FAMILY = Family(
    "states",
    (
        b"OUT_OF_ME", b"NODE_FAIL", b"TIMEOUT", b"PREEMPTED", b"BOOT_FAIL", b"DEADLINE", b"FAILED", b"CANCELLED",
        b"setting DOWN", b"qname  ", b"NodeName=", b"on failed node", b" down", b" fail", b"no_respond",
        b"OOMKilled", b" Error ",
        b"Evicted", b"NodeLost", b"ContainerStatusUnknown", b"CrashLoopBackOff", b" NotReady", b"Terminated",
    ),
    read,
    listed=(
        re.compile(r"^\s{0,4}(?:qname {2,40}\S|NodeName=[\w.-]{1,80} )"),
        re.compile(
            r"^\s{0,4}[a-z_]{2,20}(?: {2,40}\S[^\r\n]{0,200})?\s{0,60}$"
            r"|^ {2,8}[A-Z]\w{1,40}="
        ),
    ),
)  # fmt: skip
