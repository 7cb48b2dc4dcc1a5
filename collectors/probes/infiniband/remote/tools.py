"""Runs the InfiniBand tools on a node: what ports there are, a server for one test, a client, ibping, ibtracert.

Every tool is a child with a parent-death signal, and this program ends with its input, or without heartbeats.
"""

from __future__ import annotations

import os
from typing import Callable, Dict, List

from collectors.node import watchdog
from collectors.node.child import Child, ChildEnded, find, run
from collectors.node.files import list_folder, text
from collectors.node.network.tcp import last_line, start_server
from collectors.node.say import say_all
from collectors.node.source import Absent
from collectors.probes.infiniband.remote.read import parse_bandwidth, parse_devinfo, parse_ping, parse_route
from collectors.samples.asked import Observation

TOOLS = ("ibv_devinfo", "ib_write_bw", "ib_send_bw", "ibping", "ibtracert")
LOOK_SECONDS = 10.0
PING_SECONDS = 15.0
MADS = "/dev/infiniband"


def look() -> List[Observation]:
    """Ports, tools, and whether the management datagrams of ibping and ibtracert may be sent from here."""
    found = [Observation("tool", name, path, "" if path else "not there") for name in TOOLS for path in [find(name)]]
    devices = [name for name in list_folder(MADS) if name.startswith("umad")]
    usable = any(os.access("%s/%s" % (MADS, name), os.R_OK | os.W_OK) for name in devices)
    why = "" if usable else "no right to %s/umad*: ibping and ibtracert need root" % MADS
    found.append(Observation("mads", "", usable, why if devices else "no %s/umad* here" % MADS))
    tool = find("ibv_devinfo")
    if tool is None:
        return found
    said = _ended([tool], LOOK_SECONDS)
    if isinstance(said, str):
        return [*found, Observation("devinfo", "", None, said)]
    ports = parse_devinfo(text(said.stdout))
    found += [Observation("port", "%s/%d" % (port.device, port.port), list(port), "") for port in ports]
    if said.status != 0:
        found.append(Observation("devinfo", "", None, last_line(said.stderr) or "ibv_devinfo failed"))
    return found


def _ended(words: List[str], seconds: float) -> "ChildEnded | str":
    """A tool's end, or why there was none."""
    try:
        ended = run(words, seconds)
    except Absent as error:
        return str(error)
    return "no end in %.0f s" % seconds if ended.status is None else ended


def serve(words: List[str]) -> Observation:
    """Start a server: perftest's once it listens on its port, ibping's once it runs. ``{port}`` is the port."""
    tool = find(words[0])
    if tool is None:
        return Observation("listen", words[0], None, "not there")
    rest = words[1:]
    if "{port}" in rest:
        port, why = start_server(lambda free: [tool, *(word.replace("{port}", str(free)) for word in rest)])
        return Observation("listen", words[0], port, why)
    try:
        child = Child([tool, *rest])
    except Absent as error:
        return Observation("listen", words[0], None, str(error))
    if child.ended(0.3) is not None:
        return Observation("listen", words[0], None, last_line(child.read_errors()) or "it ended at once")
    return Observation("listen", words[0], 0, "")


def measure(words: List[str], seconds: float) -> Observation:
    """Run a client: bytes, messages and Gb/s of perftest; sent, received and mean milliseconds of ibping; hops."""
    tool = find(words[0])
    if tool is None:
        return Observation("result", words[0], None, "not there")
    said = _ended([tool, *words[1:]], seconds)
    if isinstance(said, str):
        return Observation("result", words[0], None, said)
    readers: Dict[str, Callable[[str], object]] = {"ibping": parse_ping, "ibtracert": parse_route}
    found = readers.get(words[0], parse_bandwidth)(text(said.stdout))
    if not found:
        why = last_line(said.stderr) or last_line(said.stdout) or "status %d" % (said.status or 0)
        return Observation("result", words[0], None, why)
    return Observation("result", words[0], list(found) if isinstance(found, (list, tuple)) else None, "")


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. Without arguments: look. ``serve``: words of a server; ``run``: words of a client, ``seconds``."""
    server, client = arguments.get("serve"), arguments.get("run")
    if isinstance(server, list):
        answers = [serve([str(word) for word in server])]
    elif isinstance(client, list):
        seconds = float(str(arguments.get("seconds", PING_SECONDS)))
        answers = [measure([str(word) for word in client], seconds)]
    else:
        answers = look()
    answers.append(Observation("done", "", True, ""))
    say_all(answers)
    if isinstance(server, list) and not answers[0].error:
        watchdog.stay()
