"""The path between nodes, measured with plain sockets: connect, round trip, MTU, throughput, loss.

A *listener* accepts TCP connections on a free port, counts the received bytes, and answers UDP datagrams with their
size. A *tester* measures paths to listeners, one after another. Neither needs privileges or tools:

- MTU: UDP datagrams that must not be fragmented (``IP_MTU_DISCOVER`` = ``IP_PMTUDISC_PROBE``, which also ignores the
  kernel's cached path MTU), of sizes chosen by bisection; the listener acknowledges each datagram.
- Round trip and loss: ``TCP_INFO`` of the sending socket (linux/tcp.h, struct tcp_info).
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Optional, Tuple

from collectors.node import watchdog
from collectors.node.network import tcp
from collectors.node.network.interfaces import interface_of
from collectors.node.wire import say
from collectors.samples.probes import Observation, PathFigure

CHUNK = bytes(1 << 16)
IDLE_SECONDS = 60.0
"""Seconds without a byte after which a listener drops a tester, which sends none while it measures the MTU."""
UDP_TRIES = 3
UDP_WAIT = 0.25
"""Datagrams sent of one size before that size counts as lost, and seconds to wait for each answer."""
SMALLEST, LARGEST = 576, 65535
_MTU_DISCOVER = {socket.AF_INET: (0, 10), socket.AF_INET6: (41, 23)}
"""(level, option) of IP_MTU_DISCOVER and IPV6_MTU_DISCOVER."""
_PROBE = 3
_HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""Bytes of IP and UDP headers."""
_INFO = struct.Struct("=68x I 28x I 52x I")
"""struct tcp_info: rtt in microseconds, total_retrans, and data_segs_out (Linux 4.6)."""


# --- listening -------------------------------------------------------------------------------------------------------


def serve(listener: socket.socket) -> None:
    """Accept connections forever: discard the received data and answer with its size."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve_one, args=(connection,), daemon=True).start()


def _serve_one(connection: socket.socket) -> None:
    with connection, suppress(OSError):  # the tester reports the error
        connection.settimeout(IDLE_SECONDS)
        received = sum(len(data) for data in iter(lambda: connection.recv(1 << 18), b""))
        connection.sendall(b"%d\n" % received)


def acknowledge(listener: socket.socket) -> None:
    """Answer every datagram with its size, forever."""
    with suppress(OSError):
        while True:
            data, sender = listener.recvfrom(1 << 16)
            listener.sendto(b"%d" % len(data), sender)


def udp_listener(stream: socket.socket) -> socket.socket:
    """A UDP socket on a free port, bound to the same address as ``stream``."""
    listener = socket.socket(stream.family, socket.SOCK_DGRAM)
    if stream.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((stream.getsockname()[0], 0))
    return listener


# --- testing ---------------------------------------------------------------------------------------------------------


def kernel_figures(connection: socket.socket) -> Tuple[float, Optional[float]]:
    """Smoothed round trip of a connection in seconds, and the share of segments retransmitted (None if unknown)."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    microseconds, again, sent = _INFO.unpack_from(info.ljust(_INFO.size, b"\0"))
    return microseconds / 1e6, again / sent if sent else None


def throughput(connection: socket.socket, seconds: float) -> float:
    """Send for ``seconds`` and return the bytes per second that arrived. Raises :class:`OSError`."""
    connection.settimeout(seconds + 5.0)
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        connection.send(CHUNK)
    connection.shutdown(socket.SHUT_WR)
    answer = connection.recv(64)
    return int(answer.strip() or b"0") / (time.monotonic() - started)


def path_mtu(host: str, port: int, upper: int) -> Optional[int]:
    """Largest packet (headers included) that arrives unfragmented, up to ``upper`` bytes; None if none arrives."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    headers = _HEADERS[socket.AddressFamily(family)]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(*_MTU_DISCOVER[socket.AddressFamily(family)], _PROBE)
        probe.connect(address)
        return bisect(lambda size: _arrives(probe, size - headers), SMALLEST, min(upper, LARGEST))


def bisect(arrives: Callable[[int], bool], low: int, high: int) -> Optional[int]:
    """Largest size for which ``arrives`` is true, given that it is true below and false above some size."""
    if arrives(high):
        return high
    if not arrives(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if arrives(middle):
            low = middle
        else:
            high = middle
    return low


def _arrives(probe: socket.socket, size: int) -> bool:
    """Whether one of a few datagrams of this size is acknowledged."""
    probe.settimeout(UDP_WAIT)
    for _ in range(UDP_TRIES):
        try:
            probe.send(bytes(size))
            while probe.recv(64) != b"%d" % size:
                pass
        except socket.timeout:
            continue
        except OSError as error:
            if error.errno == errno.EMSGSIZE:  # larger than the interface's own MTU
                return False
            if error.errno != errno.ECONNREFUSED:
                raise
        else:
            return True
    return False


def measure(name: str, target: Dict[str, Any], seconds: float) -> PathFigure:
    """Measure one direction; a failure sets ``error`` and keeps the figures measured before."""
    host, figure = target["host"], PathFigure(name, target["name"])
    try:
        started = time.monotonic()
        with socket.create_connection((host, target["tcp"]), timeout=tcp.CONNECT_SECONDS) as connection:
            took, source = time.monotonic() - started, str(connection.getsockname()[0])
            interface, local = interface_of(source)
            trip, _ = kernel_figures(connection)
            figure = figure._replace(connect=took, round_trip=trip, local_mtu=local, interface=interface)
            figure = figure._replace(mtu=path_mtu(host, target["udp"], local or 9000))
            rate = throughput(connection, seconds)
            return figure._replace(throughput=rate, retransmitted=kernel_figures(connection)[1])
    except OSError as error:
        return figure._replace(error=tcp.reason(error))


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``listen``: be a listener while heartbeats come; ``name``, ``targets``, ``seconds``: be a tester."""
    if arguments.get("listen"):
        _listen()
    for target in arguments["targets"]:
        say(measure(arguments["name"], target, arguments["seconds"]))


def _listen() -> None:
    listener, why = tcp.listen(0)
    if listener is None:
        sys.exit("hangtop: cannot listen: " + why)
    datagrams = udp_listener(listener)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    threading.Thread(target=acknowledge, args=(datagrams,), daemon=True).start()
    ports = (("tcp", listener.getsockname()[1]), ("udp", datagrams.getsockname()[1]))
    say(*(Observation("listen", subject, port, "") for subject, port in ports))
    watchdog.stay()
