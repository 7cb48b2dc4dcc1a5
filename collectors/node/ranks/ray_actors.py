"""The names of Ray's actors, by the list that the dashboard of a cluster gives, where it runs on this node.

``GET /api/v0/actors?detail=1`` (Ray's state API; tried with 2.60): JSON with name, class, job, node and pid of each.
Only the head of a cluster has a dashboard, and one that wants a token (``RAY_AUTH_MODE=token``, which 2.60 is started
with unless it is told otherwise) is asked no further: the token is somebody's secret. The connection is made from the
worker's own network namespace, to an address of that namespace.
"""

from __future__ import annotations

import json
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from collectors.node.files import link, list_folder, read_or_none, text
from collectors.node.processes import netns
from collectors.node.processes.procfs import parse_status, split_zeros
from collectors.node.processes.socket_tables import LISTEN, held_sockets, read_tables, sockets
from collectors.node.ranks.ray_worker import rank_in

SECONDS = 2.0
"""For the dashboard to answer."""
LIMIT = 8 << 20
"""Bytes of its answer: some 800 for each actor."""
MOST = 10_000
"""Actors that are asked for; where there are more, they are not told apart by their names."""
DASHBOARD = "/ray/dashboard/dashboard.py"

_REQUEST = b"GET /api/v0/actors?detail=1&limit=%d HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
_DIGITS = re.compile(r"\d{1,6}")


class Actor(NamedTuple):
    """One that is alive."""

    job: str
    cls: str
    name: str
    node: str
    pid: int
    """As it sees itself."""


def dashboards(proc: str, session: str) -> Dict[int, Set[int]]:
    """Ports at which the dashboards of a session listen that run here, by pid."""
    found: Dict[int, Set[int]] = {}
    for name in list_folder(proc):
        words = split_zeros(read_or_none("%s/%s/cmdline" % (proc, name)) or b"") if name.isdigit() else []
        if len(words) < 2 or not words[1].endswith(DASHBOARD) or "--session-dir=" + session not in words:
            continue
        given = next((word.partition("=")[2] for word in words if word.startswith("--port=")), "")
        retries = next((word.partition("=")[2] for word in words if word.startswith("--port-retries=")), "")
        first = int(given) if given.isdecimal() and len(given) < 6 else 8265
        last = first + (int(retries) if retries.isdecimal() and len(retries) < 5 else 0)
        held = held_sockets(proc, int(name))
        rows = sockets(read_tables("%s/%s/net" % (proc, name)))
        ports = {row.local_port for row in rows if row.state == LISTEN and row.inode in held}
        found[int(name)] = {port for port in ports if first <= port <= last}
    return found


def actors(pid: int, session: str, proc: str = "/proc") -> List[Actor]:
    """The living actors of the cluster that a worker is of; nothing where no dashboard of it is to be asked here."""
    mine = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)
    for server, ports in dashboards(proc, session).items():
        theirs = parse_status(read_or_none("%s/%d/status" % (proc, server)) or b"", server)
        here = link("%s/%d/ns/net" % (proc, server)) == link("%s/%d/ns/net" % (proc, pid))
        if mine is None or theirs is None or theirs.uid != mine.uid or not here:
            continue
        for port in sorted(ports):
            found = told(_asked(pid, port))
            if found:
                return found
    return []


def _asked(pid: int, port: int) -> bytes:
    """What the dashboard answers, with its head; empty where it says nothing in time."""
    parts: List[bytes] = []
    try:
        with netns.connect(pid, ("127.0.0.1", port), SECONDS, own=True) as connection:
            connection.settimeout(SECONDS)
            connection.sendall(_REQUEST % MOST)
            left = LIMIT
            while left > 0:
                part = connection.recv(min(left, 1 << 16))
                if not part:
                    return b"".join(parts)
                parts.append(part)
                left -= len(part)
    except OSError:
        return b""
    return b""


def told(answer: bytes) -> List[Actor]:
    """The living actors of an answer; nothing of one that is refused, cut off or of another form."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
        return []
    try:
        said = json.loads(text(body))
    except (ValueError, RecursionError):
        return []
    for key in ("data", "result"):
        said = said.get(key) if isinstance(said, dict) else None
    rows = said.get("result") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(rows, list) or said.get("total") != len(rows):
        return []
    found = []
    for row in rows:
        if isinstance(row, dict) and row.get("state") == "ALIVE":
            job, cls, name, node = (row.get(key) for key in ("job_id", "class_name", "name", "node_id"))
            pid = row.get("pid")
            if isinstance(job, str) and isinstance(cls, str) and isinstance(node, str) and isinstance(pid, int):
                found.append(Actor(job, cls, name if isinstance(name, str) else "", node, pid))
    return found


def numbers(every: Iterable[Actor]) -> Dict[Tuple[str, int], int]:
    """Ranks of actors by node and pid, as their names tell: those of one class of a job, all named, no two alike.

    Names that say "rank" and a number; else such that differ in one number, which counts from 0 without a gap.
    """
    groups: Dict[Tuple[str, str], List[Actor]] = {}
    for one in every:
        groups.setdefault((one.job, one.cls), []).append(one)
    found: Dict[Tuple[str, int], int] = {}
    for group in groups.values():
        ranks = [rank_in(one.name) for one in group]
        if None in ranks:
            ranks = list(_counted([one.name for one in group]))
        places = [(one.node, one.pid) for one in group]
        if len(group) > 1 and sorted(rank for rank in ranks if rank is not None) == list(range(len(group))):
            found.update((place, rank) for place, rank in zip(places, ranks) if rank is not None)
    return found


def _counted(names: List[str]) -> Iterable[Optional[int]]:
    """The one number in which names differ; None for each where they differ otherwise, or in several."""
    shapes = {_DIGITS.sub("#", name) for name in names}
    columns = list(zip(*(_DIGITS.findall(name) for name in names)))
    differing = [column for column in columns if len(set(column)) > 1]
    if len(shapes) != 1 or len(differing) != 1:
        return [None] * len(names)
    return [int(word) for word in differing[0]]
