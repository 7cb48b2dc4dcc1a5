"""Lines as NCCL's Inspector plugin writes them."""

from __future__ import annotations

import json
from typing import Any

NOW_US = 1_800_000_000_000_000
GIB = 1 << 30


def line(
    rank: int, rate: float, number: int = 1, *, comm: str = "0x7f8c496ae9f661", name: str = "", ranks: int = 8,
    nodes: int = 2, op: str = "AllReduce", size: int = GIB, peer: int | None = None, pid: int | None = None,
    host: str = "", version: str = "v4.2",
) -> str:  # fmt: skip
    """One completed operation; with a peer it is a Send or Recv."""
    word = "coll" if peer is None else "p2p"
    header = {"id": comm, "comm_name": name or "unknown", "rank": rank, "n_ranks": ranks, "nnodes": nodes}
    if version == "v4.0":
        del header["comm_name"]
    own = host or f"node{rank * nodes // ranks + 1}"
    perf: dict[str, Any] = {word: op, f"{word}_sn": number}
    perf |= {"p2p_peer": peer} if peer is not None else {}
    perf |= {f"{word}_msg_size_bytes": size, f"{word}_exec_time_us": int(size / rate / 1e3)}
    perf |= {f"{word}_timing_source": "kernel_gpu", f"{word}_algobw_gbs": rate / 2, f"{word}_busbw_gbs": rate}
    metadata = {
        "inspector_output_format_version": version, "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": NOW_US, "hostname": f"{own}.cluster", "pid": 1000 + rank if pid is None else pid,
    }  # fmt: skip
    whole = {"header": header, "metadata": metadata, f"{word}_perf": perf}
    return json.dumps(whole, separators=(",", ":"))


def stats(rank: int = 0) -> str:
    """The line in front of each dump (v4.2), which tells of no operation."""
    said = json.loads(line(rank, 1.0))
    del said["coll_perf"]
    return json.dumps({**said, "dump_stats": {"coll_records": 3, "p2p_records": 0}}, separators=(",", ":"))


def file(rank: int, rates: list[float], **fields: Any) -> str:
    """A file of one rank."""
    lines = [stats(rank), *(line(rank, rate, number, **fields) for number, rate in enumerate(rates, 1))]
    return "\n".join(lines) + "\n"
