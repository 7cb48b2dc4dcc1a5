"""Listens to what NCCL's RAS notices, from where a rank is, until it is ended: RAS's ``MONITOR`` (NCCL 2.29 and newer).

``src/ras/client_support.cc`` of NVIDIA/nccl: an ``OK``, and then an object over several lines for each event, until
either side closes. RAS keeps what a client does not take in the job's memory, so what comes is read whatever becomes
of it: what is too much is counted and left out, and a reader that stands still ends with its watchdog.
"""

from __future__ import annotations

import json
import time
from typing import Dict, List, Optional, Tuple

from collectors.node import watchdog
from collectors.node.files import text
from collectors.node.processes import netns
from collectors.node.say import say, say_all
from collectors.samples.asked import RasListening
from collectors.samples.collectives import RasEvent

REQUEST = b"CLIENT PROTOCOL 2\nSET FORMAT json\nMONITOR lifecycle,trace\n"
SECONDS = 12.0
"""For a connection, and for RAS to agree."""
MOST = 200
"""Events in one reading that are passed on."""
ENDED = "RAS closed the connection: the process that was listened to has ended"
LIMIT = 1 << 20
"""Bytes of one event: more is none."""


class Events:
    """Finds events in what comes, in whatever pieces."""

    def __init__(self) -> None:
        self.agreed = False
        self._missing = 2  # an OK for the format, and one for MONITOR
        self._rest = ""
        self._decode = json.JSONDecoder(strict=False).raw_decode

    def feed(self, data: bytes) -> List[RasEvent]:
        """Take a piece. Raises :class:`OSError` when RAS refuses, or says what no RAS says."""
        self._rest += text(data)
        if not self.agreed:
            self._agree()
        found: List[RasEvent] = []
        while self.agreed:
            event = self._next()
            if event is None:
                break
            found.append(event)
        if len(self._rest) > LIMIT:
            raise OSError(0, "RAS says what is no event")
        return found

    def _agree(self) -> None:
        """Pass over the answers to the request: the server's version, and an OK for each of the other two lines."""
        while not self.agreed:
            line, newline, rest = self._rest.partition("\n")
            if not newline:
                return
            if line.startswith("ERROR"):
                raise OSError(0, line[:200])
            self._rest = rest
            self._missing -= line.strip() == "OK"
            self.agreed = not self._missing

    def _next(self) -> Optional[RasEvent]:
        start = self._rest.find("{")
        # An event ends with its brace alone at the beginning of a line; those inside are indented.
        end = self._rest.find("\n}", start)
        if start < 0 or end < 0:
            return None
        whole, self._rest = self._rest[start : end + 2], self._rest[end + 2 :]
        try:
            known, _ = self._decode(whole)
        except (ValueError, RecursionError) as error:
            raise OSError(0, "an event of RAS cannot be read: %s" % error) from error
        return _event(known)


def _event(known: Dict[str, object]) -> RasEvent:
    found = known.get("peer")
    peer: Dict[str, object] = found if isinstance(found, dict) else {}
    devices = peer.get("cuda_devs")
    host, pid = peer.get("host"), peer.get("pid")
    return RasEvent(
        time.time(),
        str(known.get("event", ""))[:100],
        # where RAS knows the address alone: 10.0.0.1<47000>
        str(host if host is not None else peer.get("addr", "")).partition("<")[0][:200],
        pid if isinstance(pid, int) and pid > 0 else 0,
        [one for one in devices if isinstance(one, int)][:64] if isinstance(devices, list) else [],
        str(known.get("details", ""))[:300],
    )


def listen(pid: int, address: Tuple[str, int]) -> str:
    """Pass on what RAS says until it closes; the reason for which nothing more comes."""
    events, told = Events(), False
    try:
        with netns.connect(pid, address, SECONDS) as connection:
            connection.sendall(REQUEST)
            while True:
                part = connection.recv(1 << 16)
                if not part:
                    return ENDED if told else "RAS closed the connection without a word"
                found = events.feed(part)
                if events.agreed and not told:
                    told = True
                    connection.settimeout(None)  # the watchdog ends it
                    say(RasListening("", 0))
                if found:
                    say_all(found[:MOST])
                if len(found) > MOST:
                    say(RasListening("", len(found) - MOST))
    except OSError as error:
        return error.strerror or str(error)


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``pid``: the rank to listen from, ``host`` and ``port`` as it would reach them."""
    pid, host, port = int(str(arguments["pid"])), str(arguments["host"]), int(str(arguments["port"]))
    say(RasListening(listen(pid, (host, port)) or "it ended", 0))
