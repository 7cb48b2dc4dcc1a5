"""NCCL INFO logs as large jobs write them, for benchmarks: eight ranks, three communicators each, in lockstep."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

RANKS = 8
OPERATIONS = ("AllReduce", "ReduceScatter", "AllGather")


def lines(size: int, *, small_talk: float = 0.05, seed: int = 1) -> Iterator[str]:
    """About ``size`` bytes of log: the initialisation, then collectives, and a share of lines that say nothing."""
    rnd = random.Random(seed)
    comms = [[f"0x{0x55D000000000 + rnd.randrange(1 << 36):x}" for _ in OPERATIONS] for _ in range(RANKS)]
    written = 0
    for rank in range(RANKS):
        for number, comm in enumerate(comms[rank]):
            for phase in ("START", "COMPLETE"):
                yield (
                    f"node1:{100 + rank}:{200 + rank} [{rank}] NCCL INFO ncclCommInitRank comm {comm} rank {rank}"
                    f" nranks 8 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x{4096 + number:x}"
                    f" - Init {phase}\n"
                )
    count = 0
    while written < size:
        number = rnd.randrange(3)
        elements = rnd.randrange(1 << 22)
        for rank in range(RANKS):
            head = f"node1:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
            line = (
                f"{head}{OPERATIONS[number]}: opCount {count:x} sendbuff 0x{0x7F0000000000 + rnd.randrange(1 << 36):x}"
                f" recvbuff 0x{0x7F0000000000 + rnd.randrange(1 << 36):x} count {elements} datatype 7 op 0 root 0 comm"
                f" {comms[rank][number]} [nranks=8] stream 0x{0x55D000000000 + rank:x}\n"
            )
            written += len(line)
            yield line
            if rnd.random() < small_talk:
                chatter = (
                    f"{head}Channel {count % 16:02}/0 : {rank}[{rank}] -> {(rank + 1) % 8}[{rank}] via P2P/CUMEM\n"
                )
                written += len(chatter)
                yield chatter
        count += 1


def write(path: Path, size: int, *, block: int = 32 << 20) -> int:
    """Write a log of at least ``size`` bytes; a block of it is made once and repeated. Gives its size."""
    text = "".join(lines(block)).encode()
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(text)
    return written
