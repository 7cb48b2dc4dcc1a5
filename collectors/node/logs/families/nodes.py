"""What clusters tell of their nodes: drained or down, not ready, without the GPUs that they should have.

``gpu.unseen`` has what is missing in ``error``; ``launcher.pending`` with ``drained`` is a node that takes no jobs;
``launcher.lost_node`` and ``launcher.refused`` as elsewhere. Formats: ``sinfo`` with its head, slurmctld's and slurmd's
logs, kubelet's ``kubelet_node_status.go``, ``kubectl describe node``.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, number

DAEMONS = re.compile(
    r"(?:kubelet|kube-[a-z-]{3,24}|k3s|containerd(?:-shim)?|dockerd|docker|crio|systemd[\w-]{0,24}|sshd|snapd|rsyslogd|CRON|crond"
    r"|chronyd|ntpd|dhclient|NetworkManager|wpa_supplicant|avahi-daemon|polkitd|dbus[\w-]{0,12}|gdm[\w-]{0,24}|gnome-[\w-]{1,24}"
    r"|udisksd|fwupd\w{0,4}|thermald|irqbalance|smartd|multipathd|lldpd|snmpd|postfix/\w{1,12}|zabbix_agent\w{0,4}|telegraf"
    r"|node_exporter|prometheus|grafana|filebeat|fluent-?bit|salt-minion|puppet[\w-]{0,8}|munged|slurmctld|slurmd|slurmdbd"
    r"|nv-hostengine|nvidia-persistenced|nvidia-dcgm|dcgm-exporter|automount|rpc\.\w{2,12}|nscd|sssd\w{0,8}|sudo|su|login)\Z"
)
"""Programs of a machine, by the name that its journal gives them: an error of theirs is no end of a rank."""
_KERNEL = re.compile(
    r"\[ {0,5}\d{1,7}\.\d{6}\](?:\[ {0,6}[TC]\d{1,8}\])? |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,100} kernel: "
)
"""How the kernel's own lines begin, in its ring and in a syslog."""
_HEAD = re.compile(r"^\s{0,4}PARTITION {1,12}AVAIL {1,12}TIMELIMIT ")
_ROW = re.compile(
    r"^\s{0,4}[\w.*-]{1,40} {1,12}(?:up|down|drain|inact) {1,12}\S{1,16} {1,12}\d{1,6} {1,12}"
    r"(?P<state>[a-z_]{2,16})[*~#$@^!%-]? {1,12}(?P<hosts>[A-Za-z][\w.\[\],-]{0,200})\s{0,4}$"
)
_GONE = frozenset(("down", "fail", "failing", "no_respond", "error"))
_SHUT = frozenset(("drain", "drained", "drng", "draining", "inval", "invalid"))
_OPEN = frozenset(("idle", "mix", "mixed", "alloc", "allocated", "comp", "completing"))
_SET = re.compile(
    r"\b[Ss]etting node (?P<host>[\w.-]{1,120}) state to (?P<state>[A-Z]{4,12}) with reason: ?(?P<why>[^\r\n]{1,200})"
)
_SLURMD = re.compile(r"\bslurmd: fatal: (?P<why>[^\r\n]{4,200})")
_NOT_READY = re.compile(
    r"\bNode became not ready\b[^\r\n]{0,400}?\bReason:(?P<reason>\w{1,60})(?: Message:(?P<why>[^}\r\n]{1,160}))?"
)
_CAPACITY = re.compile(r"^\s{0,4}Capacity:\s{0,4}$")
_RESOURCE = re.compile(r"^\s{0,8}(?:Allocatable:\s{0,4}|[a-z][\w./-]{1,80}: {1,30}\d{1,12}[a-zA-Z]{0,2}\s{0,4})$")
_GPUS = re.compile(
    r"^\s{0,8}(?P<name>(?:nvidia|amd|habana|gpu\.intel)\.[\w./-]{1,60}): {1,30}(?P<number>\d{1,6})\s{0,4}$"
)


def is_machine(program: str, text: str) -> bool:
    """Whether the machine itself speaks: one of its programs, by the journal, or the kernel: of no rank's end."""
    return DAEMONS.match(program) is not None or _KERNEL.match(text) is not None


def read(text: str) -> Iterator[Said]:
    """Events of one line, of a table of ``sinfo``, or of what Kubernetes may give away of a node."""
    if _HEAD.match(text):
        yield from _partitions(text.split("\n")[1:])
        return
    if _CAPACITY.match(text.split("\n", 1)[0]):
        yield from _resources(text.split("\n")[1:])
        return
    state, ready, fatal = _SET.search(text), _NOT_READY.search(text), _SLURMD.search(text)
    if state is not None:
        why = state.group("why").strip()
        if why.startswith("gres/gpu count"):
            yield Said("gpu.unseen", {"error": why}, host=state.group("host"))
        else:
            yield Said("launcher.lost_node", {"launcher": "slurm", "why": why}, host=state.group("host"))
    elif ready is not None:
        why = (ready.group("why") or ready.group("reason")).strip()
        yield Said("launcher.lost_node", {"launcher": "kubernetes", "why": "it is not ready: " + why})
    elif fatal is not None:
        yield Said("launcher.refused", {"launcher": "slurm", "why": fatal.group("why").strip()})


def _partitions(rows: List[str]) -> Iterator[Said]:
    """Nodes that are down; and those that are drained, where that leaves none to run on."""
    known = [match for match in map(_ROW.match, rows) if match is not None]
    for row in known:
        if row.group("state") in _GONE:
            why = "it does not respond"
            yield Said(
                "launcher.lost_node",
                {"launcher": "slurm", "why": why},
                host=row.group("hosts"),
                text=row.group().strip(),
            )
    if any(row.group("state") in _OPEN for row in known):
        return
    for row in known:
        if row.group("state") in _SHUT:
            why = "Slurm has drained %s" % row.group("hosts")
            data: Data = {"why": why, "drained": True}
            yield Said("launcher.pending", data, host=row.group("hosts"), text=row.group().strip())


def _resources(rows: List[str]) -> Iterator[Said]:
    """GPUs that a node has and may not give away: its device plugin holds them for broken."""
    parts: Tuple[Dict[str, int], Dict[str, int]] = ({}, {})
    at = 0
    for row in rows:
        at = 1 if row.strip().startswith("Allocatable") else at
        found = _GPUS.match(row)
        if found is not None:
            parts[at][found.group("name")] = number(found.group("number")) or 0
    for name, has in parts[0].items():
        gives = parts[1].get(name)
        if gives is not None and gives < has:
            error = "%d of %d %s can be given away" % (gives, has, name)
            yield Said("gpu.unseen", {"error": error})


FAMILY = Family(
    "nodes",
    (b"PARTITION ", b"etting node ", b"slurmd: fatal", b"became not ready", b"Capacity:"),
    read,
    listed=(
        re.compile(r"^\s{0,4}(?:PARTITION {1,12}AVAIL {1,12}TIMELIMIT |Capacity:\s{0,4}$)"),
        re.compile(_ROW.pattern + "|" + _RESOURCE.pattern),
    ),
)
