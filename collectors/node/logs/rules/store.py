"""PyTorch's TCP store and gloo: who did not come, what did not answer, which port is taken."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Rule, number


def _keyed(match: "Match[str]", data: Data) -> Optional[Data]:
    """A wait for a key of the store: in seconds, and whose identifier of a communicator it was for."""
    milliseconds = data.pop("ms", None)
    if isinstance(milliseconds, int):
        data["seconds"] = milliseconds / 1000.0
    asked = re.search(r"\[(\d+)\] is setting up NCCL communicator .{0,120}? from \[(\d+)\]", match.string)
    if asked is not None:
        data.update(by_rank=number(asked.group(1)), from_rank=number(asked.group(2)))
    getting = re.search(r"store->get\('([^']{0,300})'\)", match.string)
    if getting is not None:
        data.setdefault("keys", getting.group(1))
    return data


def _connecting(match: "Match[str]", data: Data) -> Optional[Data]:
    elapsed, unit = data.pop("ms", None), data.pop("unit", "s")
    if isinstance(elapsed, int):
        data["seconds"] = elapsed / 1000.0 if unit == "ms" else float(elapsed)
    if data.pop("every", None):
        data["whole"] = True
    return data


def _port(match: "Match[str]", data: Data) -> Optional[Data]:
    found = re.search(
        r"port[:= ]{1,4}(\d{1,5})\b|\[::\]:(\d{1,5})\b|(?<![\w.])\[?[\d.:a-f]{2,64}\]?:(\d{1,5})\b|, (\d{1,5})\)",
        match.string[:1000],
    )
    port = None if found is None else number(next(group for group in found.groups() if group))
    return {"port": port} if port is not None and 0 < port < 65536 else {}


STORE = (
    Rule("clients", "torch.store_timeout",
         r"Timed out after (?P<seconds>\d+) seconds waiting for clients\.\s*(?P<joined>\d+)/(?P<expected>\d+)"
         r" clients joined",
         "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. 1/2 clients joined.",
         {"seconds": 31, "joined": 1, "expected": 2, "phase": "clients"},
         "torch/csrc/distributed/c10d/TCPStore.cpp", {"phase": "clients"}),
    Rule("store_barrier", "torch.store_timeout",
         r"Timed out (?:initializing process group|waiting)[^\n]{0,300}?store based barrier[^\n]{0,300}?world_size="
         r"(?P<expected>\d+),\s*(?:worker_count|num_workers_joined)=(?P<joined>\d+)",
         "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key:"
         " store_based_barrier"
         "_key:1 (world_size=4, worker_count=3, timeout=0:30:00)", {"expected": 4, "joined": 3, "phase": "barrier"},
         "torch/distributed/distributed_c10d.py", {"phase": "barrier"}),
    Rule("store_barrier_bare", "torch.store_timeout", r"[Tt]imed out initializing process group in store based barrier",
         "Timed out initializing process group in store based barrier", {"phase": "barrier"},
         "torch/distributed/distributed_c10d.py", {"phase": "barrier"}),
    Rule("store_waiting", "torch.store_waiting",
         r"Waiting in store based barrier to initialize process group for (?:rank: )?(?P<by_rank>\d+)[^\r\n]{0,120}?"
         r"world_size=(?P<expected>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)",
         "Waiting in store based barrier to initialize process group for rank: 2, key: store_based_barrier_key:1"
         " (world_size=4, worker_count=3, timeout=0:30:00)", {"expected": 4, "joined": 3, "by_rank": 2},
         "torch/distributed/distributed_c10d.py"),
    Rule("store_complete", "torch.store_complete", r"(?:Rank (?P<by_rank>\d+): )?Completed store-based barrier",
         "Rank 2: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.", {"by_rank": 2},
         "torch/distributed/distributed_c10d.py"),
    Rule("validate_timeout", "torch.store_timeout",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - timed out",
         "[c10d] TCP client failed to connect/validate to host n1:29500 - timed out (try=3)",
         {"address": "n1", "port": 29500, "phase": "connect"}, "torch/csrc/distributed/c10d/TCPStore.cpp",
         {"phase": "connect"}),
    Rule("validate_retry", "torch.store_retry",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - retrying",
         "[c10d] TCP client failed to connect/validate to host n1:29500 - retrying (try=0, timeout=600000ms)",
         {"address": "n1", "port": 29500}, "torch/csrc/distributed/c10d/TCPStore.cpp"),
    Rule("address_retry", "torch.store_retry",
         r"client socket has failed to connect to \[?(?P<address>[^\s,\])]{1,200}\]?):(?P<port>\d{1,5}) \(errno:"
         r" (?:97|22) ",
         "[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 97 - Address"
         " family not supported by protocol).", {"address": "localhost]", "port": 29500},
         "torch/csrc/distributed/c10d/socket.cpp"),
    Rule("connect", "torch.store_timeout",
         r"The client socket has (?:timed out after (?P<ms>\d+)\s*(?P<unit>ms|s)? ?while trying to connect to"
         r"|failed to connect to(?P<every> any network address of)?)"
         r" \[?\(?(?P<address>[^\s,\])]+?)\]?(?:, ?|:)(?:(?P<port>\d+)|[A-Za-z_]+)",
         "The client socket has timed out after 60000ms while trying to connect to (10.0.0.9, 29500).",
         {"address": "10.0.0.9", "port": 29500, "seconds": 60.0, "phase": "connect"},
         "torch/csrc/distributed/c10d/socket.cpp", {"phase": "connect"}, read=_connecting),
    Rule("unresolved", "torch.unresolved", r"network addresses of \((?P<address>[^,]+), (?P<port>\d+)\) cannot be"
                                           r" retrieved",
         "The IPv4 network addresses of (nosuch, 29500) cannot be retrieved (gai error: -2 - Name or service not"
         " known).",
         {"address": "nosuch", "port": 29500}, "torch/csrc/distributed/c10d/socket.cpp"),
    Rule("in_use", "torch.address_in_use", r"EADDRINUSE|[Aa]ddress already in use|Errno 98\b",
         "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).", {"port": 29500},
         "torch/csrc/distributed/c10d/socket.cpp", read=_port),
    Rule("key_timeout", "torch.store_timeout",
         r"wait timeout after (?P<ms>\d+)ms(?:, keys: (?P<keys>[^\r\n]{1,300}))?|Socket Timeout\b"
         r"|Timeout waiting for key: (?P<keys_2>\S{1,300})(?: after (?P<ms_2>\d+) ?ms)?",
         "wait timeout after 30000ms, keys: /default_pg/0//cuda//0", {"seconds": 30.0, "phase": "wait",
         "keys": "/default_pg/0//cuda//0"}, "torch/csrc/distributed/c10d/TCPStore.cpp", {"phase": "wait"}, read=_keyed),
    Rule("store_silent", "torch.store_timeout",
         r"waitForInput: socket SocketImpl\([^\r\n]{0,200}?remote=\[(?P<address>[^\]\s]{1,120})\]:(?P<port>\d{1,5})\)"
         r" timed out after (?P<ms>\d{5,12})ms",
         "[rank3]:[W902 16:27:57.2 socket.cpp:494] [c10d] waitForInput: socket SocketImpl(fd=7, addr=[n2.site]:39076,"
         " remote=[n1.site]:29501) timed out after 1800000ms",
         {"address": "n1.site", "port": 29501, "seconds": 1800.0, "by_rank": 3},
         "torch/csrc/distributed/c10d/TCPStore.cpp", {"phase": "wait"}, read=_keyed),
    Rule("get_failed", "torch.store_lost", r"store->get\('(?P<keys>[^']*)'\) got error: (?P<error>[^\r\n]*)",
         "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key"
         " '0', but"
         " store->get('0') got error: Connection reset by peer",
         {"keys": "0", "error": "Connection reset by peer", "from_rank": 0, "by_rank": 1},
         "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp", read=_keyed),
    Rule("store_lost", "torch.store_lost",
         r"should dump\" flag on TCPStore|dump flag from the global store\.|(?:sendBytes|sendVector) failed"
         r"|(?:recvValue|recvBytes|recvVector) failed|Failed to recv, got 0 bytes"
         r"|TCPStore[^\n]{0,300}?(?:Broken pipe|Connection reset)|\[c10d\][^\n]{0,300}?(?:Broken pipe|Connection"
         r" reset)",
         "[rank3]:[W102 08:14:05.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=9): Connection reset"
         " by peer",
         {"by_rank": 3}, "torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp"),
    Rule("connect_old", "torch.store_timeout",
         r"(?<!etcd)connect\(\) timed out|(?:TCPStore|c10d)[^\n]{0,200}?[Cc]onnection (?:refused|timed out)"
         r"|Failed to connect to[^\n]{0,80}?\((?P<address>[^\s,()]+), (?P<port>\d+)\)",
         "RuntimeError: connect() timed out.", {"phase": "connect"}, "torch/lib/c10d/Utils.cpp (1.8)",
         {"phase": "connect"}),
    Rule("no_name", "torch.unresolved",
         r"[Nn]ame or service not known|Temporary failure in name resolution|nodename nor servname",
         "socket.gaierror: [Errno -2] Name or service not known", {}, "glibc getaddrinfo"),
)  # fmt: skip

GLOO = (
    Rule("gloo_timeout", "gloo.timeout", r"Timed out waiting (?P<ms>\d+)ms for (?P<direction>recv|send)"
         r"|Application timeout caused pair closure",
         "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv"
         " operation to"
         " complete", {"ms": 1800000, "direction": "recv"}, "gloo/transport/tcp/unbound_buffer.cc"),
    Rule("gloo_size", "gloo.size_mismatch",
         r"\[enforce fail at [^\]\s]*gloo/[^\]]*\]\s*(?P<condition>[^\r\n]*(?:preamble\.length|data size doesn't"
         r" match|nbytes)"
         r"[^\r\n]*)",
         "[enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 16"
         " vs 8",
         {"condition": "op.preamble.length <= op.nbytes. 16 vs 8"}, "gloo/transport/tcp/pair.cc"),
    Rule("gloo_enforce", "gloo.enforce", r"\[enforce fail at [^\]\s]*gloo/[^\]]*\]\s*(?P<condition>[^\r\n]*)",
         "[enforce fail at gloo/context.cc:27] rank < size. 3 vs 2", {"condition": "rank < size. 3 vs 2"},
         "gloo/common/logging.h", begins=r"\[enforce fail at [^\]]*gloo/[^\]]*\]\s*$"),
    Rule("gloo_mesh", "gloo.connect_failed",
         r"Gloo connectFullMesh failed with\s?(?P<error>[^\r\n]*?(?:(?:Connection closed by peer|[Rr]ead error"
         r"|Connection"
         r" refused) ?(?P<peer>\[[^\]]+\](?::\d+)?)?[^\r\n]*)?)$",
         "Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
         {"error": "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"},
         "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp", begins=r"connectFullMesh failed with\s*$"),
    Rule("gloo_refused", "gloo.connect_failed",
         r"gloo/[^\n]{0,120}?[Cc]onnect(?:ion)? (?:timeout|timed out|refused) ?(?P<error>[^\r\n]*)",
         "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:42001: Connection refused",
         {}, "gloo/transport/tcp/pair.cc"),
    Rule("gloo_closed", "gloo.closed",
         r"(?:gloo/[^\n]{0,200}?(?:Connection closed by peer|Connection reset by peer|Broken pipe|[Rr]ead error)"
         r"|Connection closed by peer) ?(?P<peer>\[[^\]]+\](?::\d+)?)",
         "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5012",
         {"peer": "[10.0.0.2]:5012"}, "gloo/transport/tcp/pair.cc"),
)  # fmt: skip
