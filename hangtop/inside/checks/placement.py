"""``check_placement``: whether every parameter is where it should be, and alike on all ranks."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import Conclusion, More, Said, confer, group_of, harmless, ranks_text
from hangtop.inside.results import CheckResult, Noted

ROWS = 20_000
"""Parameters of a model that are described."""
NAMED = 3
"""Parameters of one sort that a finding names."""
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")

ASPECTS = {
    "kind": ("is", "not of one kind on all ranks"),
    "placements": ("has", "other placements"),
    "mesh": ("lies", "on another mesh"),
    "shape": ("has", "another shape"),
    "dtype": ("has", "another type"),
    "trained": ("is", "frozen on some ranks only"),
    "gradient": ("has", "a gradient on some ranks only"),
}
"""What must be the same on all ranks, and what to say where it is not."""
PLURAL = {"is": "are", "has": "have", "lies": "lie"}


class ParameterRow(NamedTuple):
    """One parameter on one rank."""

    kind: str
    """``DTensor``, ``plain`` or ``not initialised``."""
    placements: str
    mesh: str
    """Names and sizes of its dimensions; its ranks differ with the slice that a rank is in."""
    shape: Tuple[int, ...]
    dtype: str
    trained: bool
    gradient: bool


@harmless("placement")
def check_placement(model: Any, *, group: Any = None, seconds: float = 60.0) -> CheckResult:
    """Compare where the parameters of ``model`` lie, on all ranks of ``group`` (all of the job without one).

    Placements, meshes, shapes, types, frozen parameters and missing gradients must agree; local shapes must be what the
    placement makes them; parameters that no FSDP unit covers, or that are plain where their neighbours are DTensors,
    are named. For gradients call it between ``backward()`` and ``zero_grad()``.
    """

    def say(request: Said) -> Said:
        rows = rows_of(model)
        if request:
            return {"rows": rows}
        text = json.dumps(rows, sort_keys=True).encode()
        return {
            "rows": hashlib.blake2b(text, digest_size=8).hexdigest(),
            "count": len(rows),
            "own": [finding.row() for finding in own_findings(model, rows)],
        }

    return confer("placement", group_of(group), seconds, say, PlacementJudging())


def rows_of(model: Any) -> Dict[str, ParameterRow]:
    """Every parameter by its name."""
    return {name: row_of(parameter) for name, parameter in list(model.named_parameters())[:ROWS]}


def row_of(parameter: Any) -> ParameterRow:
    """One parameter as this rank has it."""
    if type(parameter).__name__.startswith("Uninitialized"):  # a lazy module's, before its first forward
        return ParameterRow("not initialised", "", "", (), "", bool(parameter.requires_grad), gradient=False)
    mesh = getattr(parameter, "device_mesh", None)
    return ParameterRow(
        "plain" if mesh is None else "DTensor",
        "" if mesh is None else " ".join(map(str, parameter.placements)),
        "" if mesh is None else "%s %s" % (mesh.mesh_dim_names or "unnamed", tuple(mesh.shape)),
        tuple(parameter.shape),
        str(parameter.dtype),
        bool(parameter.requires_grad),
        parameter.grad is not None,
    )


def own_findings(model: Any, rows: Dict[str, ParameterRow]) -> Iterator[Noted]:
    """What one rank sees by itself."""
    wrong = list(_wrong_shapes(model))
    if wrong:
        summary = "local shapes are not what the placement makes them: " + _few(wrong)
        yield Noted("placement_wrong", "critical", summary, evidence=wrong)
    # what is frozen has no gradient that must be averaged: it is kept plain on purpose
    trained = {name: row for name, row in rows.items() if row.trained or row.kind != "plain"}
    lone = _uncovered(model, trained)
    if lone:
        yield Noted(
            "placement_wrong", "critical", "covered by no FSDP unit: " + _few(lone), evidence=lone,
            advice="Shard the module that holds it, or the root, or average its gradient yourself.",
        )  # fmt: skip
    yield from _unlike_neighbours({name: row for name, row in trained.items() if name not in lone})


def _wrong_shapes(model: Any) -> Iterator[str]:
    for name, parameter in model.named_parameters():
        expected = _expected_shape(parameter)
        if expected is not None and tuple(parameter.to_local().shape) != expected:
            yield "%s: %s here, %s by its placement" % (name, tuple(parameter.to_local().shape), expected)


def _expected_shape(parameter: Any) -> Optional[Tuple[int, ...]]:
    """Shape of a DTensor's local part by torch's own rule; None for what is none, or a torch without the rule."""
    if getattr(parameter, "device_mesh", None) is None:
        return None
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as local_shape
    except ImportError:
        return None
    return tuple(local_shape(parameter.shape, parameter.device_mesh, parameter.placements)[0])


def _uncovered(model: Any, rows: Dict[str, ParameterRow]) -> List[str]:
    """Parameters outside every unit of FSDP, where there are units."""
    try:
        from torch.distributed import fsdp
    except ImportError:
        return []
    kinds = tuple(kind for name in ("FSDPModule", "FullyShardedDataParallel")
                  if (kind := getattr(fsdp, name, None)) is not None)  # fmt: skip
    units = [name for name, module in model.named_modules() if kinds and isinstance(module, kinds)]
    if not units:
        return []
    if any(row.kind == "DTensor" for row in rows.values()):
        return [name for name, row in rows.items() if row.kind == "plain"]
    return [name for name in rows if not any(not unit or name.startswith(unit + ".") for unit in units)]


def _unlike_neighbours(rows: Dict[str, ParameterRow]) -> Iterator[Noted]:
    """Parameters of one layer of many that are placed unlike those of the other layers."""
    families: Dict[str, List[str]] = {}
    for name in rows:
        families.setdefault(_NUMBER.sub("*", name), []).append(name)
    for names in families.values():
        usual, number = Counter(rows[name].placements for name in names).most_common(1)[0]
        if number * 2 <= len(names):
            continue
        like = next(name for name in names if rows[name].placements == usual)
        for name in names:
            if rows[name].placements != usual:
                yield Noted(
                    "placement_wrong", "warning",
                    "%s is %s, and its neighbour %s is %s" % (name, _shown(rows[name]), like, _shown(rows[like])),
                    advice="Look at the plan by which these modules are sharded: a name in it may be misspelt.",
                )  # fmt: skip


class PlacementJudging:
    """The leader's side: one more round only where ranks differ."""

    def __init__(self) -> None:
        self._own: List[Noted] = []

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """First fingerprints, then all rows."""
        if round_ == 0:
            self._own = _owned(said)
            if len({row["rows"] for row in said.values()}) > 1:
                return More({"rows": True})
            return _conclusion(self._own, next(iter(said.values()))["count"], len(said))
        rows = {rank: {name: ParameterRow(*row) for name, row in one["rows"].items()} for rank, one in said.items()}
        count = len({name for one in rows.values() for name in one})
        return _conclusion([*self._own, *differences(rows)], count, len(said))


def differences(rows: Dict[int, Dict[str, ParameterRow]]) -> Iterator[Noted]:
    """What is not the same on all ranks that have a parameter of this name; the first aspect of each parameter."""
    found: Dict[Tuple[str, Tuple[int, ...]], List[Tuple[str, str]]] = {}
    for name in dict.fromkeys(name for one in rows.values() for name in one):
        have = {rank: one[name] for rank, one in rows.items() if name in one}
        for aspect in ASPECTS:
            values = {rank: _aspect(row, aspect) for rank, row in have.items()}
            usual = Counter(values.values()).most_common(1)[0][0]
            odd = tuple(sorted(rank for rank, value in values.items() if value != usual))
            if odd:
                like = min(rank for rank, value in values.items() if value == usual)
                line = "%s: %s on rank %d, %s on rank %d" % (name, values[odd[0]], odd[0], usual, like)
                found.setdefault((aspect, odd), []).append((name, line))
                break
    for (aspect, odd), told in found.items():
        verb, rest = ASPECTS[aspect]
        soft = aspect == "gradient"
        yield Noted(
            "placement_wrong", "warning" if soft else "critical",
            "%s %s %s: %s" % (_few([name for name, _ in told]), verb if len(told) == 1 else PLURAL[verb], rest,
                              ranks_text(odd)), odd, [line for _, line in told],
            "Parameters that take no part in the loss on some ranks hang DDP without find_unused_parameters." if soft
            else "All ranks must build and shard the model alike.",
        )  # fmt: skip


def _owned(said: Dict[int, Said]) -> List[Noted]:
    """What ranks saw by themselves, each thing once with those that saw it."""
    found: Dict[str, Tuple[Noted, List[int]]] = {}
    for rank, one in said.items():
        for row in one["own"]:
            found.setdefault(row["kind"] + row["summary"], (Noted(**row), []))[1].append(rank)
    return [noted._replace(ranks=() if len(ranks) == len(said) else ranks) for noted, ranks in found.values()]


def _conclusion(findings: Sequence[Noted], count: int, ranks: int) -> Conclusion:
    if not findings:
        return Conclusion("%d parameters lie alike on %d ranks" % (count, ranks))
    return Conclusion("; ".join(finding.summary for finding in findings[:3]), findings)


def _shown(row: ParameterRow) -> str:
    return "plain" if row.kind == "plain" else "a DTensor, %s" % row.placements


def _aspect(row: ParameterRow, aspect: str) -> str:
    value = getattr(row, aspect)
    if isinstance(value, bool):
        return {"trained": ("frozen", "trained"), "gradient": ("no gradient", "a gradient")}[aspect][value]
    return str(value) or "none"


def _few(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (" and %d more" % more if more > 0 else "")
