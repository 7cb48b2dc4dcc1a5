"""What a node makes of the others: names and addresses as it resolves them, its routes, ping where it is there.

Every question is asked in a thread of its own, because a name service may take its time-outs: what has not answered
when the whole time is over is left out, and said to be.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from collectors.node import watchdog
from collectors.node.child import find, run
from collectors.node.files import read_or_none, text
from collectors.node.network import tcp
from collectors.node.network.path import interface_of_address, route
from collectors.node.say import say_all
from collectors.node.source import Absent
from collectors.samples.asked import Observation

WHOLE_SECONDS = 8.0
PINGS = 5
TOOLS = ("ip", "ping", "iperf3")

_SENT = re.compile(r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received")
_TIMES = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = [\d.]{1,20}/(\d{1,12}(?:\.\d{1,9})?)/")
_ROUTE = re.compile(r"\b(via|dev|src|mtu) (\S+)")


def resolved(name: str) -> Observation:
    """Addresses of a name by the node's own name service, the seconds that it took first."""
    began = time.monotonic()
    found, why = tcp.resolve(name)
    return Observation("resolve", name, [round(time.monotonic() - began, 3), *found], why)


def reverse(address: str) -> Observation:
    """Name of an address by the node's own name service, the seconds that it took first."""
    began = time.monotonic()
    try:
        name, _ = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
    except OSError as error:
        return Observation("reverse", address, [round(time.monotonic() - began, 3)], tcp.reason(error))
    return Observation("reverse", address, [round(time.monotonic() - began, 3), name], "")


def hosts(names: Sequence[str], path: str = "/etc/hosts") -> List[Observation]:
    """Lines of /etc/hosts that mention a name: ``10.0.0.9 (line 3)``."""
    found: Dict[str, List[str]] = {}
    for number, line in enumerate(text(read_or_none(path) or b"").splitlines(), 1):
        words = line.partition("#")[0].split()
        for name in set(words[1:]) & set(names):
            found.setdefault(name, []).append("%s (line %d)" % (words[0], number))
    return [Observation("hosts", name, list(lines), "") for name, lines in sorted(found.items())]


def parse_route(said: str) -> Tuple[str, str, str]:
    """(interface, gateway or nothing, source address) of ``ip -o route get``."""
    fields = dict(_ROUTE.findall(said.partition("\\")[0]))
    return fields.get("dev", ""), fields.get("via", ""), fields.get("src", "")


def route_to(address: str, tool: Optional[str]) -> Observation:
    """How the kernel would send to an address: interface, gateway, source; by a socket where there is no ``ip``."""
    if tool is not None:
        try:
            ended = run([tool, "-o", "route", "get", address], 5.0)
        except Absent as error:
            return Observation("route", address, None, str(error))
        if ended.status != 0:
            return Observation("route", address, None, text(ended.stderr).strip()[:200] or "ip route get failed")
        return Observation("route", address, list(parse_route(text(ended.stdout))), "")
    try:
        source, _ = route(address, 9)
    except OSError as error:
        return Observation("route", address, None, tcp.reason(error))
    return Observation("route", address, [interface_of_address(source)[0], "?", source], "")


def parse_ping(said: str) -> Optional[Tuple[int, int, Optional[float]]]:
    """(sent, received, mean milliseconds) of ping's summary, iputils' or busybox'; None where there is none."""
    counts, times = _SENT.search(said), _TIMES.search(said)
    if counts is None or len(counts.group(1)) > 9 or len(counts.group(2)) > 9:
        return None
    return int(counts.group(1)), int(counts.group(2)), float(times.group(1)) if times else None


def ping(address: str, tool: str) -> Observation:
    """A few small ICMP echoes: sent, received, mean milliseconds."""
    try:
        ended = run([tool, "-n", "-q", "-c", str(PINGS), "-W", "1", address], WHOLE_SECONDS - 1.0)
    except Absent as error:
        return Observation("ping", address, None, str(error))
    found = parse_ping(text(ended.stdout))
    if found is None:
        said = text(ended.stderr).strip().splitlines()
        return Observation("ping", address, None, said[-1][:200] if said else "ping gave no summary")
    return Observation("ping", address, list(found), "")


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``names``: to resolve; ``addresses``: of the others; ``measure``: ping them too."""
    names, addresses = _texts(arguments, "names"), _texts(arguments, "addresses")
    tools = {name: find(name) for name in TOOLS}
    questions: Dict[Tuple[str, str], Callable[[], Observation]] = {}
    for name in names:
        questions["resolve", name] = lambda name=name: resolved(name)  # type: ignore[misc]
    for address in addresses:
        questions["reverse", address] = lambda address=address: reverse(address)  # type: ignore[misc]
        questions["route", address] = lambda address=address: route_to(address, tools["ip"])  # type: ignore[misc]
        if tools["ping"] is not None and arguments.get("measure"):
            questions["ping", address] = lambda address=address: ping(address, str(tools["ping"]))  # type: ignore[misc]
    own = [Observation("own_name", socket.gethostname(), True, "")]
    own += [Observation("tool", name, path, "" if path else "not there") for name, path in tools.items()]
    answers = [*own, *hosts([*names, socket.gethostname()]), *ask(questions, WHOLE_SECONDS)]
    answers.append(Observation("done", "", True, ""))
    say_all(answers)


def ask(questions: Dict[Tuple[str, str], Callable[[], Observation]], seconds: float) -> List[Observation]:
    """Ask everything at once, and wait so long."""
    answers: Dict[Tuple[str, str], Observation] = {}

    def work(key: Tuple[str, str], question: Callable[[], Observation]) -> None:
        answers[key] = question()

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in questions.items()]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = "no answer in %.0f s" % seconds
    return [answers.get(key) or Observation(key[0], key[1], None, late) for key in questions]


def _texts(arguments: Dict[str, object], name: str) -> List[str]:
    value = arguments.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []
