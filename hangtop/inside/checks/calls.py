"""``check_calls``: a mode for a debugging run in which every collective is compared among its ranks before it starts.

Each rank leaves at the job's store what it is about to call on a group (operation, shapes, types, line of the
script), numbered by group, and looks at what the others of the group left. The first difference, or a rank that does
not come in time, stops the run with the lines of both; a collective that would hang is never launched. It sees all that
goes through torch's dispatcher, which DDP, FSDP and DTensors do, too. Point-to-point calls are not compared.

What it costs: every operation of the run passes through Python (tens of microseconds each), and each collective waits
for a round at the store (a millisecond or more). TORCH_DISTRIBUTED_DEBUG=DETAIL compares operation and shapes over a
second gloo group, without the line of the other rank, and hangs or times out where a rank does not come.
"""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from hangtop.inside.checks.desk import Desk
from hangtop.inside.checks.meeting import place_in_code, ranks_text, store_of_job
from hangtop.inside.results import CheckResult, Noted, publish

UNEVEN = ("alltoall", "all_to_all", "gather_", "scatter_", "allgather_")
"""Operations whose shapes may differ among ranks."""
ALIKE = ("allgather_into", "_allgather_base", "all_gather_into", "reduce_scatter")
"""… and those with such a name in theirs whose shapes may not."""
P2P = ("send", "recv", "wait_tensor", "monitored_barrier")
CLASSES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


class CallsDiffer(RuntimeError):
    """Ranks of a group are about to call different collectives, or one did not come."""


class CheckCalls:
    """The mode: a context around the part of a run that is to be looked at; raises :class:`CallsDiffer` in it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.compared = 0
        """Collectives that were compared and found alike."""
        self._counts: Dict[Tuple[int, ...], int] = {}
        self._mode: Any = None
        self._desk: Optional[Desk] = None
        self._me = 0

    def __enter__(self) -> "CheckCalls":
        from torch.distributed import get_rank
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
            """Hands collectives over before they are launched."""

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                if func.namespace in CLASSES:
                    watch.before(func._schema.name.partition("::")[2], args, kwargs or {})  # noqa: SLF001
                return func(*args, **(kwargs or {}))

        self._me = get_rank()
        self._desk = Desk(store_of_job(), float("inf"))
        self._mode = Mode()
        self._mode.__enter__()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._mode.__exit__(kind, error, trace)
        if self._desk is not None:
            self._desk.close()
        if not isinstance(error, CallsDiffer):
            publish(CheckResult("calls", (), "%d collectives compared, all alike" % self.compared), speaks=False)

    def before(self, name: str, args: Sequence[Any], kwargs: Dict[str, Any]) -> None:
        """Compare a call that is about to be made with those of the other ranks of its group."""
        ranks = _ranks_of([*args, *kwargs.values()])
        if name.startswith(P2P) or any(part in name for part in P2P) or len(ranks) < 2 or self._desk is None:
            return
        number = self._counts[ranks] = self._counts.get(ranks, 0) + 1
        mine = {"call": _shown(name, [*args, *kwargs.values()]), "where": place_in_code()}
        base = "hangtop/calls/%s/%d/" % ("-".join(map(str, ranks)), number)
        desk = self._desk
        desk.until = time.monotonic() + self.seconds + 5.0
        told = "%s at %s, call %d of ranks %s" % (mine["call"], mine["where"], number, ",".join(map(str, ranks)))
        desk.set("hangtop/calls/last/%d" % self._me, told.encode())
        desk.set(base + str(self._me), json.dumps(mine).encode())
        keys = {rank: base + str(rank) for rank in ranks if rank != self._me}
        if not desk.wait(list(keys.values()), time.monotonic() + self.seconds):
            self._absent([rank for rank, key in keys.items() if not desk.present([key])], ranks, mine, desk)
        others = {rank: json.loads(desk.get(key)) for rank, key in keys.items()}
        for rank, other in others.items():
            if other["call"] != mine["call"]:
                self._differ(rank, other, mine, ranks)
        self.compared += 1

    def _differ(self, rank: int, other: Dict[str, str], mine: Dict[str, str], ranks: Tuple[int, ...]) -> None:
        lines = ["rank %d: %s at %s" % (self._me, mine["call"], mine["where"]),
                 "rank %d: %s at %s" % (rank, other["call"], other["where"])]  # fmt: skip
        self._stop("ranks %d and %d call different collectives" % (min(rank, self._me), max(rank, self._me)), lines,
                   sorted((rank, self._me)), ranks)  # fmt: skip

    def _absent(self, absent: List[int], ranks: Tuple[int, ...], mine: Dict[str, str], desk: Desk) -> None:
        lines = ["rank %d: %s at %s" % (self._me, mine["call"], mine["where"])]
        for rank in absent[:8]:
            key = "hangtop/calls/last/%d" % rank
            last = desk.get(key).decode() if desk.present([key]) else "nothing so far"
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


def _ranks_of(values: Sequence[Any]) -> Tuple[int, ...]:
    """Global ranks of the group among a call's arguments: a boxed process group, or the name of one."""
    from torch.distributed import ProcessGroup, get_process_group_ranks
    from torch.distributed import distributed_c10d as c10d

    for value in values:
        group: Any = None
        if type(value).__name__ == "ScriptObject":
            try:
                group = ProcessGroup.unbox(value)
            except (RuntimeError, TypeError):
                continue  # a reduce operation is one, too
        elif isinstance(value, str):
            try:
                group = c10d._resolve_process_group(value)  # noqa: SLF001 - as torch's own functional collectives do
            except (RuntimeError, ValueError, LookupError):
                continue  # the name of an operation
        if group is not None:
            return tuple(get_process_group_ranks(group))
    return ()


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
