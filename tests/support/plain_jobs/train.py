"""Two ranks without torch itself: ``torch`` is a package of one function that exchanges a byte.

After ten steps rank 1 blocks in its reader and says "struck"; rank 0 waits in all_reduce.
"""

from __future__ import annotations

import os
import sys
import time

from torch.distributed.distributed_c10d import all_reduce  # type: ignore[attr-defined,unused-ignore]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fetch_shard() -> bytes:
    reader, writer = os.pipe()
    say("struck")
    return os.read(reader, writer)


def train() -> None:
    for step in range(100000):
        say(f"step {step}")
        if step == 10 and os.environ["RANK"] == "1":
            fetch_shard()
        all_reduce(b"x")
        time.sleep(0.05)


train()
