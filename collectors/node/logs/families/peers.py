"""Ranks and daemons that do not reach another one, or lose it: LightGBM's sockets, Open MPI's, logins by ssh.

``peer.retry`` has the rank that could not be reached, and is no fault by itself; ``peer.lost`` ends who says it, and
has the host that went away where the words name it; of Open MPI's help texts
(``help-oob-tcp.txt``, ``help-mpi-btl-tcp.txt``), which give a field a line,
``launcher.lost_node`` has the host at the other end.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields

_PEER = re.compile(r"Connecting to rank (?P<peer>\d{1,6}) failed, waiting for \d{1,9} milliseconds")
_LOST = re.compile(
    r"\[LightGBM\] \[Fatal\] Socket (?:recv|send) error\b"
    r"|^\s{1,8}Peer host(?:name)?: {1,20}(?P<peer>[A-Za-z][\w.-]{0,120})\s{0,4}$"
)
"""LightGBM's last word, and the field of Open MPI's help text on a peer that has unexpectedly disconnected."""
_UNMADE = re.compile(
    r"unable to complete a TCP connection|Open MPI failed to TCP connect to a peer|Open MPI detected an inbound MPI TCP"
    r"|was unable to (?:establish|make) a (?:TCP )?connection to a (?:remote|peer)"
)
_FIELD = re.compile(
    r"^\s{0,8}(?:to (?:another|a peer MPI) process[.:]|should not happen\.|Your Open MPI job may now hang or fail\."
    r"|(?:Local|Remote|Peer|My|Your) ?[\w/ ]{0,24}: {0,20}\S[^\r\n]{0,120}|PID: {1,20}\d{1,10}"
    r"|(?:Message|Error): {1,20}\S[^\r\n]{0,200}|)\s{0,4}$"
)
_REMOTE = re.compile(
    r"^\s{0,8}(?:Remote host|Peer (?:host(?:name)?|address)): {0,20}(?P<host>[A-Za-z0-9][\w.-]{0,120})", re.MULTILINE
)
_CALLED = re.compile(r"^\s{0,8}Message: {1,20}connect\(\) to (?P<host>\d{1,3}(?:\.\d{1,3}){3}):\d", re.MULTILINE)
_PALS = re.compile(r"^\s{0,4}ping RPC timeout from (?P<host>[A-Za-z][\w.-]{1,120}) after \d{1,6}s\b")
"""PALS, the launcher of HPE's machines: a node that no longer answers it."""
_SSH_TRIED = re.compile(
    r"Command '?\[?'?ssh(?:'?,? '?-\w{1,2}(?:'?,? '?[\w.=/~-]{1,80})?){0,6}'?,? '?"
    r"(?:[\w.-]{1,60}@)?(?P<host>[\w.-]{1,120})\b"
    r"[^\r\n]{0,400}? returned non-zero exit status 255"
)
"""A login that Python tried, which ssh itself did not bring about: then its exit status is 255."""


def read(text: str) -> Iterator[Said]:
    """Events of one line, or of a help text with its fields."""
    peer = _PEER.search(text)
    if peer is not None:
        yield Said("peer.retry", fields(peer, ("peer",)))
    elif "status 255" in text:
        tried = _SSH_TRIED.search(text)
        if tried is not None:
            lost: Data = {"launcher": "ssh", "why": "no login there came about"}
            yield Said("launcher.lost_node", lost, host=tried.group("host"))
    elif (pinged := _PALS.match(text)) is not None:
        gone: Data = {"launcher": "pals", "why": "it answered no ping"}
        yield Said("launcher.lost_node", gone, host=pinged.group("host"))
    elif "\n" not in text and (lost_one := _LOST.search(text)) is not None:
        yield Said("peer.lost", fields(lost_one))
    elif _UNMADE.search(text):
        remote = _REMOTE.search(text) or _CALLED.search(text)
        data: Data = {"launcher": "mpi", "why": "no TCP connection to it came about"}
        yield Said("launcher.lost_node", data, host=remote.group("host") if remote is not None else "")


FAMILY = Family(
    "peers",
    (
        b"Connecting to rank ",
        b"[Fatal] Socket ",
        b"Peer host",
        b"ping RPC timeout",
        b"exit status 255",
        b"TCP connect",
        b"inbound MPI TCP",
        b"unable to establish a",
        b"unable to make a",
    ),
    read,
    listed=(_UNMADE, _FIELD),
)
