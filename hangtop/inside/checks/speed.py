"""``bandwidth`` and ``stragglers``: what the job's own groups reach, measured from within, NCCL included.

The ranks sign in at the store first, and only where all have come a collective is launched: it can only hang where the
network does. It is launched asynchronously and watched, so that even then the deadline holds; what has been launched
cannot be taken back, though, which the result says.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import MeetingGroup, confer, group_of, harmless
from hangtop.inside.checks.whereabouts import ranks_text
from hangtop.inside.checks.words import Conclusion, Judge, More, Said
from hangtop.inside.process_groups import backends_of
from hangtop.inside.results import CheckResult, Noted

SIZES = (1 << 20, 16 << 20, 64 << 20)
"""Bytes of a tensor."""
REPEATS = 5
LATE = 1.3
"""Times the lower median of all ranks that a straggler needs for the same work."""
WORK = 512
"""Rows of the matrices that are multiplied on a CPU."""
GPU_WORK, PRODUCTS = 2048, 8
"""The same on a GPU, and how often a round: a product of 512 rows takes 5 µs of a GPU of 50 TFLOPS (2·512³ operations),
less than its launch does, so that it would tell how fast the CPU is."""
PAUSE = 0.0005
"""Seconds between two questions whether a collective has ended."""


class Stuck(Exception):
    """A collective did not end in time."""


@harmless("bandwidth")
def bandwidth(
    *, group: Any = None, sizes: Sequence[int] = SIZES, seconds: float = 60.0, number: int = 0
) -> CheckResult:
    """Time all-reduces of these sizes (bytes) over ``group``; the bus bandwidth of each is in the summary."""
    members = group_of(group)
    until = time.monotonic() + seconds

    def measured(request: Said) -> Said:
        del request
        try:
            return {"times": [_all_reduce_times(group, size, until) for size in sizes]}
        except Stuck as stuck:
            return {"stuck": str(stuck)}

    return confer(
        "bandwidth",
        members,
        seconds,
        dict,
        _concluding(lambda said: _bandwidths(members, sizes, said)),
        measured,
        number,
    )


@harmless("stragglers")
def stragglers(rounds: int = 20, *, group: Any = None, seconds: float = 60.0, number: int = 0) -> CheckResult:
    """Have every rank do the same work and then an all-reduce, so many times; names those that need far longer.

    Where some do, all do it once more: what had a rank's core for a moment is no reason to name it.
    """
    members = group_of(group)
    until = time.monotonic() + seconds

    def measured(request: Said) -> Said:
        del request
        try:
            return {"times": _rounds(group, rounds, until)}
        except Stuck as stuck:
            return {"stuck": str(stuck)}

    return confer("stragglers", members, seconds, dict, StragglerJudging(), measured, number)


def _concluding(conclude: Callable[[Dict[int, Said]], Conclusion]) -> Judge:
    """The leader's side: once all are there they measure, and ``conclude`` tells what the figures mean."""

    def judge(round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        return More({"go": True}) if round_ == 0 else _stuck(said) or conclude(said)

    return judge


def _bandwidths(members: MeetingGroup, sizes: Sequence[int], said: Dict[int, Said]) -> Conclusion:
    ranks, parts = len(members.ranks), []
    for place, size in enumerate(sizes):
        seconds = statistics.median(max(one["times"][place][turn] for one in said.values())
                                    for turn in range(REPEATS))  # fmt: skip
        bus = size / seconds * 2 * (ranks - 1) / ranks / 1e9
        parts.append("%d MiB %.3g GB/s (%.3g ms)" % (size >> 20, bus, seconds * 1e3))
    return Conclusion("all_reduce over %d ranks, bus bandwidth: %s" % (ranks, ", ".join(parts)))


class StragglerJudging:
    """The leader's side: who is late in two measurements, one after the other, is late."""

    def __init__(self) -> None:
        self._late: List[int] = []

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """All have come; then what they measured; then the same once more, where somebody was late."""
        if round_ == 0:
            return More({"go": True})
        stuck = _stuck(said)
        if stuck is not None:
            return stuck
        own = {rank: typical([work for work, _ in one["times"]]) for rank, one in said.items()}
        usual = statistics.median_low(own.values())  # of two ranks the faster one is what the other could do
        late = sorted(rank for rank, seconds in own.items() if seconds > LATE * usual)
        late = [] if len(late) * 2 > len(own) else late
        if round_ == 1 and late:
            self._late = late
            return More({"go": True})
        return _lateness(said, own, usual, sorted(set(late) & set(self._late)))


def typical(seconds: Sequence[float]) -> float:
    """Mean without the longest tenth, one at the least: a hiccup is left out.

    Not the median: a rank whose CPU is throttled stands still in every third round, and the others look well.
    """
    kept = sorted(seconds)[: len(seconds) - max(1, len(seconds) // 10)]
    return statistics.fmean(kept or seconds)


def _lateness(said: Dict[int, Said], own: Dict[int, float], usual: float, late: Sequence[int]) -> Conclusion:
    wait = {rank: typical([waited for _, waited in one["times"]]) for rank, one in said.items()}
    lines = ["rank %d: work %.3g ms, wait %.3g ms" % (rank, 1e3 * own[rank], 1e3 * wait[rank]) for rank in own]
    summary = "the same work takes %.3g to %.3g ms, median %.3g ms, on %d ranks" % (
        min(own.values()) * 1e3, max(own.values()) * 1e3, usual * 1e3, len(own),
    )  # fmt: skip
    if not late:
        return Conclusion(summary)
    worst = max(own[rank] for rank in late) / usual
    return Conclusion(summary, [
        Noted("straggler_rank", "warning", "%s needs up to %.1f times as long as the others for the same work"
              % (ranks_text(late), worst), late, [next(line for line in lines if line.startswith("rank %d:" % rank))
              for rank in late], "Compare its clocks, temperature and neighbours with those of the others.")
    ])  # fmt: skip


def _stuck(said: Dict[int, Said]) -> "Union[Conclusion, None]":
    held = sorted(rank for rank, one in said.items() if "stuck" in one)
    if not held:
        return None
    why = "an all-reduce that all ranks had launched did not end in time on %s" % ranks_text(held)
    return Conclusion(why, [
        Noted("collective_stalled", "critical", why, (), [said[rank]["stuck"] for rank in held[:4]],
              "It cannot be taken back: the group is of no more use. Probe the network between these ranks.")
    ])  # fmt: skip


def _all_reduce_times(group: Any, size: int, until: float) -> List[float]:
    import torch

    tensor = torch.zeros(size // 4, dtype=torch.float32, device=_device(torch, group))
    _launch(group, tensor, until)  # the first one makes connections
    return [_timed(torch, lambda: _launch(group, tensor, until)) for _ in range(REPEATS)]


def _rounds(group: Any, rounds: int, until: float) -> List[Tuple[float, float]]:
    import torch

    device = _device(torch, group)
    work_once = _work(torch, device)
    token = torch.zeros(1, device=device)
    found = []
    _launch(group, token, until)
    for turn in range(rounds + 1):
        work = _timed(torch, work_once)
        waited = _timed(torch, lambda: _launch(group, token, until))
        if turn:  # the first one warms up
            found.append((work, waited))
    return found


def _work(torch: Any, device: Any) -> Callable[[], None]:
    """The same work on every rank: milliseconds, in memory that is taken once (2 × 16 MiB on a GPU)."""
    on_gpu = device.type != "cpu"
    size = GPU_WORK if on_gpu else WORK
    one, product = (torch.ones(size, size, device=device) for _ in range(2))

    def work_once() -> None:
        for _ in range(PRODUCTS if on_gpu else 1):
            torch.mm(one, one, out=product)

    return work_once


def _launch(group: Any, tensor: Any, until: float) -> None:
    from torch.distributed import all_reduce

    work = all_reduce(tensor, group=group, async_op=True)
    while not work.is_completed():
        if time.monotonic() > until:
            raise Stuck("all_reduce of %d bytes" % (tensor.numel() * tensor.element_size()))
        time.sleep(PAUSE)
    work.wait()


def _timed(torch: Any, call: Callable[[], Any]) -> float:
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    if cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _device(torch: Any, group: Any) -> Any:
    """The current GPU of a rank whose group works on GPUs, else the CPU."""
    on_gpu = torch.cuda.is_available() and "nccl" in backends_of(group)
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
