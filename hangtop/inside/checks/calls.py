"""``check_calls``: a mode for a debugging run in which every collective is compared among its ranks before it starts.

Each rank leaves at the job's store what it is about to call on a group (operation, shapes, types, line of the script),
numbered by group, and looks at what the others of the group left. The first difference, or a rank that does not come in
time, stops the run with the lines of both; a collective that would hang is never launched. The mode sees all that goes
through torch's dispatcher, which DDP, FSDP and DTensors do, too; sends and receives are left alone.

What it costs: every operation of the run passes through Python (tens of microseconds each), and each collective waits
for a round at the store (a millisecond or more). TORCH_DISTRIBUTED_DEBUG=DETAIL compares operation and shapes over a
second gloo group, without the line of the other rank, and hangs or times out where a rank does not come.
"""

from __future__ import annotations

import itertools
import json
import time
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from hangtop.inside.checks.meeting import place_in_code, ranks_text, store_of_job
from hangtop.inside.checks.store_queries import StoreQueries
from hangtop.inside.results import CheckResult, Noted, publish

UNEVEN = ("alltoall", "all_to_all", "gather_", "scatter_", "allgather_")
"""Operations whose shapes may differ among ranks."""
ALIKE = ("allgather_into", "_allgather_base", "all_gather_into", "reduce_scatter")
"""… and those with such a name in theirs whose shapes may not."""
LEFT_ALONE = ("wait_tensor", "monitored_barrier", "_wrap_tensor_autograd", "send", "recv_")
"""Operations that are no collective of their own, and those of two ranks."""
CLASSES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


_contexts = itertools.count(1)


class CallsDiffer(RuntimeError):
    """Ranks of a group are about to call different collectives, or one did not come."""


class CheckCalls:
    """The mode: a context around the part of a run that is to be looked at; raises :class:`CallsDiffer` in it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.compared = 0
        """Calls that were compared and found alike."""
        self._place = ""
        """Of this context at the store: what an earlier one left there is none of its business."""
        self._counts: Dict[Tuple[int, ...], int] = {}
        self._mode: Any = None
        self._store: Optional[StoreQueries] = None
        self._me = 0

    def __enter__(self) -> "CheckCalls":
        from torch.distributed import get_rank
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
            """Hands collectives over before they are launched."""

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                if func.namespace not in CLASSES:
                    return func(*args, **(kwargs or {}))
                name = func._schema.name.partition("::")[2]  # noqa: SLF001
                watch.before(name, args, kwargs or {})
                return func(*args, **(kwargs or {}))

        self._me = get_rank()
        self._place = "hangtop/calls/%d/" % next(_contexts)
        self._store = StoreQueries(store_of_job(), float("inf"))
        self._mode = Mode()
        self._mode.__enter__()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._mode.__exit__(kind, error, trace)
        if self._store is not None:
            self._store.close()
        if not isinstance(error, CallsDiffer):
            publish(CheckResult("calls", (), "%d calls compared, all alike" % self.compared), speaks=False)

    def before(self, name: str, args: Sequence[Any], kwargs: Dict[str, Any]) -> None:
        """Compare a call that is about to be made with those of the other ranks of its group."""
        group = _group_of([*args, *kwargs.values()])
        ranks = () if group is None else _ranks(group)
        if any(part in name for part in LEFT_ALONE) or len(ranks) < 2 or self._store is None:
            return
        number = self._counts[ranks] = self._counts.get(ranks, 0) + 1
        mine = {"call": _shown(name, [*args, *kwargs.values()]), "where": place_in_code()}
        of_group = self._place + "-".join(map(str, ranks))
        base = "%s/%d/" % (of_group, number)
        store = self._store
        store.until = time.monotonic() + self.seconds + 5.0
        told = "%s, call %d of ranks %s" % (_told(mine), number, ",".join(map(str, ranks)))
        store.set("hangtop/calls/last/%d" % self._me, told.encode())
        store.set(base + str(self._me), json.dumps(mine).encode())
        keys = {rank: base + str(rank) for rank in ranks if rank != self._me}
        if not store.wait(list(keys.values()), time.monotonic() + self.seconds):
            self._absent([rank for rank, key in keys.items() if not store.present([key])], ranks, mine, store)
        # whoever has come to this call has read all of the one before
        store.delete(["%s/%d/%d" % (of_group, number - 1, self._me)] if number > 1 else [])
        others = {rank: json.loads(store.get(key)) for rank, key in keys.items()}
        for rank, other in others.items():
            if other["call"] != mine["call"]:
                self._differ(rank, other, mine, ranks)
        self.compared += 1

    def _differ(self, rank: int, other: Dict[str, str], mine: Dict[str, str], ranks: Tuple[int, ...]) -> None:
        lines = ["rank %d: %s" % (self._me, _told(mine)), "rank %d: %s" % (rank, _told(other))]
        self._stop("ranks %d and %d call different collectives" % (min(rank, self._me), max(rank, self._me)), lines,
                   sorted((rank, self._me)), ranks)  # fmt: skip

    def _absent(self, absent: List[int], ranks: Tuple[int, ...], mine: Dict[str, str], store: StoreQueries) -> None:
        lines = ["rank %d: %s" % (self._me, _told(mine))]
        for rank in absent[:8]:
            key = "hangtop/calls/last/%d" % rank
            last = store.get(key).decode() if store.present([key]) else "nothing so far"
            lines.append("rank %d did not come within %g s; its last call: %s" % (rank, self.seconds, last))
        self._stop("%s did not come to %s" % (ranks_text(absent), mine["call"]), lines, absent, ranks)

    def _stop(self, summary: str, lines: List[str], culprits: List[int], ranks: Tuple[int, ...]) -> None:
        finding = Noted("collective_mismatch", "critical", summary, culprits, lines,
                        "Look at the condition around the first of these lines: all ranks of the group must take the "
                        "same way.")  # fmt: skip
        publish(CheckResult("calls", ranks, summary, [finding]), speaks=self._me == min(ranks))
        raise CallsDiffer("\n".join([summary, *lines]))


def check_calls(seconds: float = 30.0) -> CheckCalls:
    """A context in which each collective is compared among its ranks before it is launched; see the module.

    Raises :class:`CallsDiffer`, with the lines of both ranks, at the first that differs or that a rank does not come to
    within ``seconds``.
    """
    return CheckCalls(seconds)


def _group_of(values: Sequence[Any]) -> Any:
    """The group among a call's arguments: a boxed process group, or the name of one; None for none."""
    from torch.distributed import ProcessGroup
    from torch.distributed import distributed_c10d as c10d

    for value in values:
        if type(value).__name__ == "ScriptObject":
            try:
                return ProcessGroup.unbox(value)
            except (RuntimeError, TypeError):
                continue  # a reduce operation is one, too
        elif isinstance(value, str):
            try:
                return c10d._resolve_process_group(value)  # noqa: SLF001 - as torch's own functional collectives do
            except (RuntimeError, ValueError, LookupError):
                continue  # the name of an operation
    return None


def _ranks(group: Any) -> Tuple[int, ...]:
    """Global ranks of a group, by their number in it."""
    from torch.distributed import get_process_group_ranks

    return tuple(get_process_group_ranks(group))


def _told(said: Dict[str, str]) -> str:
    """``allreduce_ float32[4] at train.py:88``."""
    return "%s at %s" % (said["call"], said["where"])


def _shown(name: str, values: Sequence[Any]) -> str:
    """``allreduce_ float32[4, 8]``: the same text on ranks whose calls go together."""
    shapes = any(part in name for part in ALIKE) or not any(part in name for part in UNEVEN)
    tensors = [_tensor(value, shapes=shapes) for value in _tensors(values)]
    if not shapes:
        tensors = sorted(set(tensors))
    words = [value for value in values if isinstance(value, str) and value.isalpha() and len(value) < 8]
    roots = [str(value) for value in values if type(value) is int] if name.startswith(("broadcast", "reduce_")) else []
    return " ".join([name, *tensors, *words, *roots])


def _tensors(values: Any) -> List[Any]:
    found: List[Any] = []
    for value in values:
        if hasattr(value, "dtype"):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def _tensor(tensor: Any, *, shapes: bool) -> str:
    kind = str(tensor.dtype).rpartition(".")[2]
    return kind + (str(list(tensor.shape)) if shapes else "")
