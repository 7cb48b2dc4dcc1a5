"""``check_placement``: whether every parameter is where it should be, and alike on all ranks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import Conclusion, More, Said, confer, group_of, harmless, ranks_text
from hangtop.inside.results import CheckResult, Noted

ROWS = 20_000
"""Parameters of a model that are described."""
NAMED = 3
"""Parameters of one sort that a finding names."""

ASPECTS = {
    "kind": "not of one kind on all ranks",
    "placements": "other placements",
    "mesh": "on another mesh",
    "shape": "another shape",
    "dtype": "another type",
    "frozen": "frozen on some ranks only",
    "gradient": "a gradient on some ranks only",
}
"""What must be the same on all ranks, in the order of :class:`ParameterRow`, and what to say where it is not."""


class ParameterRow(NamedTuple):
    """One parameter on one rank, as texts."""

    kind: str
    """``DTensor``, ``plain`` or ``not initialised``."""
    placements: str
    mesh: str
    """Names and sizes of its dimensions; its ranks differ with the slice that a rank is in."""
    shape: str
    dtype: str
    frozen: str
    gradient: str


@harmless("placement")
def check_placement(model: Any, *, group: Any = None, seconds: float = 60.0) -> CheckResult:
    """Compare where the parameters of ``model`` lie, on all ranks of ``group`` (all of the job without one).

    Placements, meshes, shapes, types, frozen parameters and missing gradients must agree; parameters that no FSDP unit
    covers are named. For gradients call it between ``backward()`` and ``zero_grad()``.
    """

    def say(request: Said) -> Said:
        rows = {name: row_of(parameter) for name, parameter in list(model.named_parameters())[:ROWS]}
        if request:
            return {"rows": rows}
        text = json.dumps(rows, sort_keys=True).encode()
        digest = hashlib.blake2b(text, digest_size=8).hexdigest()
        return {"rows": digest, "count": len(rows), "uncovered": uncovered(model, rows)}

    return confer("placement", group_of(group), seconds, say, PlacementJudging())


def row_of(parameter: Any) -> ParameterRow:
    """One parameter as this rank has it."""
    frozen = "trained" if parameter.requires_grad else "frozen"
    if type(parameter).__name__.startswith("Uninitialized"):  # a lazy module's, before its first forward
        return ParameterRow("not initialised", "", "", "", "", frozen, "no gradient")
    mesh = getattr(parameter, "device_mesh", None)
    return ParameterRow(
        "plain" if mesh is None else "DTensor",
        "" if mesh is None else " ".join(map(str, parameter.placements)),
        "" if mesh is None else "%s %s" % (mesh.mesh_dim_names or "unnamed", tuple(mesh.shape)),
        str(tuple(parameter.shape)),
        str(parameter.dtype),
        frozen,
        "no gradient" if parameter.grad is None else "a gradient",
    )


def uncovered(model: Any, rows: Dict[str, ParameterRow]) -> List[str]:
    """Trained parameters outside every unit of FSDP, where there are units."""
    from torch.distributed import fsdp

    kinds = tuple(getattr(fsdp, name) for name in ("FSDPModule", "FullyShardedDataParallel") if hasattr(fsdp, name))
    units = [name for name, module in model.named_modules() if kinds and isinstance(module, kinds)]
    # what is frozen has no gradient that must be averaged: it is kept plain on purpose
    plain = [name for name, row in rows.items() if row.kind == "plain" and row.frozen == "trained"]
    if not units or any(row.kind == "DTensor" for row in rows.values()):
        return plain if units else []
    return [name for name in plain if not any(not unit or name.startswith(unit + ".") for unit in units)]


class PlacementJudging:
    """The leader's side: one more round only where ranks differ."""

    def __init__(self) -> None:
        self._found: List[Noted] = []

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """First fingerprints, then all rows."""
        if round_ == 0:
            self._found = list(_uncovered_findings({rank: one["uncovered"] for rank, one in said.items()}))
            if len({row["rows"] for row in said.values()}) > 1:
                return More({"rows": True})
        else:
            rows = {rank: {name: ParameterRow(*row) for name, row in one["rows"].items()} for rank, one in said.items()}
            self._found += differences(rows)
        if self._found:
            return Conclusion("; ".join(finding.summary for finding in self._found[:3]), self._found)
        return Conclusion("%d parameters lie alike on %d ranks" % (next(iter(said.values()))["count"], len(said)))


def _uncovered_findings(names: Dict[int, List[str]]) -> Iterator[Noted]:
    for lone in {tuple(found) for found in names.values() if found}:
        ranks = [rank for rank, found in names.items() if tuple(found) == lone]
        yield Noted(
            "placement_wrong", "critical", "covered by no FSDP unit: " + _few(lone),
            () if len(ranks) == len(names) else ranks, lone,
            "Shard the module that holds it, or the root, or average its gradient yourself.",
        )  # fmt: skip


def differences(rows: Dict[int, Dict[str, ParameterRow]]) -> Iterator[Noted]:
    """What is not the same on all ranks that have a parameter of this name; the first aspect of each parameter."""
    found: Dict[Tuple[str, Tuple[int, ...]], List[Tuple[str, str]]] = {}
    for name in dict.fromkeys(name for one in rows.values() for name in one):
        have = {rank: one[name] for rank, one in rows.items() if name in one}
        for place, aspect in enumerate(ASPECTS):
            values = {rank: row[place] for rank, row in have.items()}
            usual = Counter(values.values()).most_common(1)[0][0]
            odd = tuple(sorted(rank for rank, value in values.items() if value != usual))
            if odd:
                like = min(rank for rank, value in values.items() if value == usual)
                line = "%s: %s on rank %d, %s on rank %d" % (
                    name, values[odd[0]] or "none", odd[0], usual or "none", like
                )  # fmt: skip
                found.setdefault((aspect, odd), []).append((name, line))
                break
    for (aspect, odd), told in found.items():
        soft = aspect == "gradient"
        yield Noted(
            "placement_wrong", "warning" if soft else "critical",
            "%s: %s: %s" % (_few([name for name, _ in told]), ASPECTS[aspect], ranks_text(odd)),
            odd, [line for _, line in told],
            "Parameters that take no part in the loss on some ranks hang DDP without find_unused_parameters." if soft
            else "All ranks must build and shard the model alike.",
        )  # fmt: skip


def _few(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (" and %d more" % more if more > 0 else "")
