"""PyTorch's TCP store and gloo: who did not come, what did not answer, which port is taken."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number

_PORT = re.compile(
    r"port[:= ]{1,4}(\d{1,5})\b|\[::\]:(\d{1,5})\b|(?<![\w.])\[?[\d.:a-f]{2,64}\]?:(\d{1,5})\b|, (\d{1,5})\)"
)


def _keyed(match: "Match[str]", data: Data) -> Optional[Data]:
    """A wait for a key of the store: whose identifier of a communicator it was for."""
    asked = re.search(r"\[(\d+)\] is setting up NCCL communicator .{0,120}? from \[(\d+)\]", match.string)
    if asked is not None:
        data.update(by_rank=number(asked.group(1)), from_rank=number(asked.group(2)))
    return data


def _port(match: "Match[str]", _: Data) -> Optional[Data]:
    found = _PORT.search(match.string[:1000])
    port = None if found is None else number(next(group for group in found.groups() if group))
    return {"port": port} if port is not None and 0 < port < 65536 else {}


RULES = (
    Rule("torch.store_timeout", "waiting for clients",
         r"Timed out after \d+ seconds waiting for clients\.\s*(?P<joined>\d+)/(?P<expected>\d+) clients",
         Example("Timed out after 31 seconds waiting for clients. 1/2 clients joined",
                 {"joined": 1, "expected": 2, "phase": "clients"}, "torch c10d/TCPStore.cpp"),
         {"phase": "clients"}),
    Rule("torch.store_timeout", "failed to connect/validate",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - timed out",
         Example("[c10d] TCP client failed to connect/validate to host n1:29500 - timed out (try=3)",
                 {"address": "n1", "port": 29500, "phase": "connect"}, "torch c10d/TCPStore.cpp"),
         {"phase": "connect"}),
    Rule("torch.store_retry", "failed to connect/validate",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - retrying",
         Example("[c10d] TCP client failed to connect/validate to host n1:29500 - retrying (try=0, timeout=600000ms)",
                 {"address": "n1", "port": 29500}, "torch c10d/TCPStore.cpp")),
    Rule("torch.store_timeout", "The client socket has",
         r"The client socket has (?:timed out after \d+\s*(?:ms|s)? ?while trying to connect to"
         r"|failed to connect to(?: any network address of)?) \[?\(?(?P<address>[^\s,\])]+?)\]?(?:, ?|:)"
         r"(?:(?P<port>\d+)|[A-Za-z_]+)(?! \(errno: (?:97|22) )",
         Example("The client socket has timed out after 60000ms while trying to connect to (10.0.0.9, 29500).",
                 {"address": "10.0.0.9", "port": 29500, "phase": "connect"}, "torch c10d/socket.cpp"),
         {"phase": "connect"}),
    Rule("torch.unresolved", "cannot be retrieved|ame or service not known|ailure in name resolution",
         r"network addresses of \((?P<address>[^,]+), (?P<port>\d+)\) cannot be retrieved"
         "|[Nn]ame or service not known|Temporary failure in name resolution",
         Example("network addresses of (nosuch, 29500) cannot be retrieved", {"address": "nosuch", "port": 29500},
                 "torch c10d/socket.cpp; glibc")),
    Rule("torch.address_in_use", "EADDRINUSE|ddress already in use|Errno ",
         r"EADDRINUSE|[Aa]ddress already in use|Errno 98\b",
         Example("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
                 {"port": 29500}, "torch c10d/socket.cpp"), read=_port),
    Rule("torch.store_timeout", "wait timeout after|Socket Timeout|waitForInput: socket",
         r"wait timeout after \d+ms|Socket Timeout\b"
         r"|waitForInput: socket SocketImpl\([^\r\n]{0,200}?remote=\[(?P<address>[^\]\s]{1,120})\]:(?P<port>\d{1,5})\)"
         r" timed out after \d{5,12}ms",
         Example("wait timeout after 30000ms, keys: /default_pg/0//cuda//0",
                 {"phase": "wait"}, "torch c10d/TCPStore.cpp"),
         {"phase": "wait"}, read=_keyed),
    Rule("gloo.timeout", "Timed out waiting|Application timeout caused",
         r"Timed out waiting (?P<ms>\d+)ms for (?P<direction>recv|send)|Application timeout caused pair closure",
         Example("Timed out waiting 1800000ms for recv", {"ms": 1800000, "direction": "recv"},
                 "gloo/transport/tcp/unbound_buffer.cc")),
    Rule("gloo.size_mismatch", "[enforce fail at",
         r"\[enforce fail at [^\]\s]*gloo/[^\]]*\]\s*[^\r\n]*(?:preamble\.length|data size doesn't match|nbytes)",
         Example("[enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes."
                 " 16 vs 8", {}, "gloo/transport/tcp/pair.cc")),
    Rule("gloo.closed", "gloo/|losed by peer",
         r"(?:gloo/[^\n]{0,200}?(?:Connection closed by peer|Connection reset by peer|Broken pipe|[Rr]ead error)"
         r"|Connection closed by peer) ?(?P<peer>\[[^\]]+\](?::\d+)?)",
         Example("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5012",
                 {"peer": "[10.0.0.2]:5012"}, "gloo/transport/tcp/pair.cc")),
)  # fmt: skip
