"""``check_placement``: whether every parameter is where it should be, and alike on all ranks."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import confer, group_of, harmless
from hangtop.inside.checks.parameter_meshes import meshes_of, unshared
from hangtop.inside.checks.whereabouts import ranks_text
from hangtop.inside.checks.words import Conclusion, More, Said
from hangtop.inside.results import CheckResult, Noted

ROWS = 20_000
"""Parameters of a model that are described."""
NAMED = 3
"""Parameters of one sort that a finding names."""
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")

ASPECTS = (
    ("kind", "is not of one kind on all ranks"),
    ("placements", "has other placements"),
    ("mesh", "lies on another mesh"),
    ("shape", "has another shape"),
    ("dtype", "has another type"),
    ("trained", "is frozen on some ranks only"),
    ("gradient", "has a gradient on some ranks only"),
)
"""What must be the same on all ranks, and what to say where it is not."""


class ParameterRow(NamedTuple):
    """One parameter on one rank."""

    kind: str
    """``DTensor``, ``plain`` or ``not initialised``."""
    placements: str
    mesh: str
    shape: Tuple[int, ...]
    dtype: str
    trained: bool
    gradient: bool


@harmless("placement")
def check_placement(model: Any, *, group: Any = None, seconds: float = 60.0, number: int = 0) -> CheckResult:
    """Compare where the parameters of ``model`` lie, on all ranks of ``group`` (all of the job without one).

    Placements, meshes, shapes, types, frozen parameters and missing gradients must agree; local shapes must be what the
    placement makes them; parameters that no FSDP unit covers, or that are plain where their neighbours are DTensors,
    are named. For gradients call it between ``backward()`` and ``zero_grad()``.
    """
    members = group_of(group)

    def first() -> Said:
        rows = rows_of(model)
        said = json.dumps(rows, sort_keys=True).encode()
        return {
            "rows": hashlib.blake2b(said, digest_size=8).hexdigest(),
            "count": len(rows),
            "meshes": meshes_of(model),
            "own": [finding.row() for finding in own_findings(model, rows)],
        }

    return confer("placement", members, seconds, first, PlacementJudging(), lambda _: {"rows": rows_of(model)}, number)


def rows_of(model: Any) -> Dict[str, ParameterRow]:
    """Every parameter by its name."""
    return {name: row_of(parameter) for name, parameter in list(model.named_parameters())[:ROWS]}


def row_of(parameter: Any) -> ParameterRow:
    """One parameter as this rank has it."""
    if type(parameter).__name__.startswith("Uninitialized"):  # a lazy module's, before its first forward
        return ParameterRow("not initialised", "", "", (), "", bool(parameter.requires_grad), gradient=False)
    mesh = getattr(parameter, "device_mesh", None)
    placements = "" if mesh is None else " ".join(map(str, parameter.placements))
    names = "" if mesh is None else "%s %s" % (mesh.mesh_dim_names or "unnamed", tuple(mesh.shape))
    return ParameterRow(
        "plain" if mesh is None else "DTensor", placements, names, tuple(parameter.shape), str(parameter.dtype),
        bool(parameter.requires_grad), parameter.grad is not None,
    )  # fmt: skip


def own_findings(model: Any, rows: Dict[str, ParameterRow]) -> Iterator[Noted]:
    """What one rank sees by itself."""
    yield from _wrong_shapes(model)
    # what is frozen has no gradient that anybody must average: it is kept plain on purpose
    trained = {name: row for name, row in rows.items() if row.trained or row.kind != "plain"}
    lone = _uncovered(model, trained)
    if lone:
        yield Noted(
            "placement_wrong", "critical", "covered by no FSDP unit: " + _few(lone), evidence=lone,
            advice="Shard the module that holds it, or the root, or average its gradient yourself: nobody else does.",
        )  # fmt: skip
    yield from _unlike_neighbours(model, {name: row for name, row in trained.items() if name not in lone})


def _wrong_shapes(model: Any) -> Iterator[Noted]:
    wrong, uneven = [], []
    for name, parameter in model.named_parameters():
        expected = _expected_shape(parameter)
        if expected is None:
            continue
        local = tuple(parameter.to_local().shape)
        if local != expected:
            wrong.append("%s: %s here, %s by its placement" % (name, local, expected))
        uneven += ["%s: %s" % (name, line) for line in _uneven(parameter)]
    if wrong:
        yield Noted("placement_wrong", "critical", "local shapes are not what the placement makes them: " + _few(wrong),
                    evidence=wrong)  # fmt: skip
    if uneven:
        yield Noted("placement_uneven", "info", "shards of different sizes: " + _few(uneven), evidence=uneven)


def _expected_shape(parameter: Any) -> Optional[Tuple[int, ...]]:
    """Shape of a DTensor's local part by torch's own rule; None for what is none, or a torch without the rule."""
    if getattr(parameter, "device_mesh", None) is None:
        return None
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as local_shape
    except ImportError:
        return None
    return tuple(local_shape(parameter.shape, parameter.device_mesh, parameter.placements)[0])


def _uneven(parameter: Any) -> Iterator[str]:
    """Dimensions that do not divide by the ranks over which they are sharded."""
    parts: Dict[int, int] = {}
    for place, placement in enumerate(parameter.placements):
        if not (placement.is_replicate() or placement.is_partial()):  # that of FSDP over tensor parallelism is none
            parts[placement.dim] = parts.get(placement.dim, 1) * parameter.device_mesh.size(place)
    for dim, ranks in parts.items():
        size = parameter.shape[dim]
        if size % ranks:
            full = -(-size // ranks)
            least = max(0, size - full * (ranks - 1))
            yield "%d rows over %d ranks, %d at most and %d at least" % (size, ranks, full, least)


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
    sharded = any(row.kind == "DTensor" for row in rows.values())
    return [name for name, row in rows.items()
            if (row.kind == "plain" if sharded else not any(_within(name, unit) for unit in units))]  # fmt: skip


def _unlike_neighbours(model: Any, rows: Dict[str, ParameterRow]) -> Iterator[Noted]:
    """Parameters that are plain where their like are DTensors, or placed unlike them: one layer of many."""
    kinds = {name: type(module).__name__ for name, module in model.named_modules()}
    families: Dict[Tuple[str, str, str], List[str]] = {}
    for name in rows:
        module, _, leaf = name.rpartition(".")
        parent = module.rpartition(".")[0]
        families.setdefault(("layer", _NUMBER.sub("*", name), ""), []).append(name)
        families.setdefault(("module", module, ""), []).append(name)
        families.setdefault((parent, kinds.get(module, ""), leaf), []).append(name)
    told = set()
    for (sort, _, _), names in families.items():
        manner = "placements" if sort == "layer" else "kind"
        counts = Counter(getattr(rows[name], manner) for name in names)
        if len(counts) < 2:
            continue
        usual = counts.most_common(1)[0][0] if sort == "layer" else "DTensor"
        for name in names:
            own = getattr(rows[name], manner)
            if own != usual and name not in told:
                told.add(name)
                like = next(one for one in names if getattr(rows[one], manner) == usual)
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
            self._own = [*_owned(said), *unshared(said)]
            if len({row["rows"] for row in said.values()}) > 1:
                return More({"rows": True})
            return _conclusion(self._own, next(iter(said.values()))["count"], len(said))
        rows = {rank: {name: ParameterRow(*row) for name, row in one["rows"].items()} for rank, one in said.items()}
        count = len({name for one in rows.values() for name in one})
        return _conclusion([*self._own, *differences(rows)], count, len(said))


def differences(rows: Dict[int, Dict[str, ParameterRow]]) -> Iterator[Noted]:
    """What is not the same on all ranks that have a parameter of this name."""
    by_aspect: Dict[Tuple[str, Tuple[int, ...]], List[Tuple[str, ParameterRow, ParameterRow, int]]] = {}
    names = list(dict.fromkeys(name for one in rows.values() for name in one))
    for name in names:
        have = {rank: one[name] for rank, one in rows.items() if name in one}
        for aspect, _ in ASPECTS:
            values = {rank: json.dumps(getattr(row, aspect)) for rank, row in have.items()}
            counts = Counter(values.values())
            if len(counts) > 1:
                usual = counts.most_common(1)[0][0]
                odd = tuple(sorted(rank for rank, value in values.items() if value != usual))
                like = min(rank for rank, value in values.items() if value == usual)
                by_aspect.setdefault((aspect, odd), []).append((name, have[odd[0]], have[like], like))
                break
    words = dict(ASPECTS)
    for (aspect, odd), found in by_aspect.items():
        shown = [
            "%s: %s on rank %d, %s on rank %d" % (name, _aspect(mine, aspect), odd[0], _aspect(usual, aspect), like)
            for name, mine, usual, like in found
        ]
        soft = aspect == "gradient"
        yield Noted(
            "placement_wrong", "warning" if soft else "critical",
            "%s %s: %s" % (_few([name for name, _, _, _ in found]), _of(len(found), words[aspect]), ranks_text(odd)),
            odd, shown,
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
    wrong = [finding for finding in findings if finding.severity != "info"]
    if not wrong:
        told = "".join("; " + finding.summary for finding in findings)
        return Conclusion("%d parameters lie alike on %d ranks%s" % (count, ranks, told), findings)
    return Conclusion("; ".join(finding.summary for finding in wrong[:3]), findings)


def _within(name: str, unit: str) -> bool:
    return not unit or name.startswith(unit + ".")


def _shown(row: ParameterRow) -> str:
    return "plain" if row.kind == "plain" else "a DTensor, %s" % row.placements


def _aspect(row: ParameterRow, aspect: str) -> str:
    value = getattr(row, aspect)
    if aspect in ("trained", "gradient"):
        return {"trained": ("frozen", "trained"), "gradient": ("no gradient", "a gradient")}[aspect][value]
    return str(value) or "none"


def _of(count: int, words: str) -> str:
    """``has …`` of one parameter, ``have …`` of several."""
    verb, _, rest = words.partition(" ")
    return "%s %s" % (verb if count == 1 else {"has": "have", "is": "are", "lies": "lie"}[verb], rest)


def _few(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (" and %d more" % more if more > 0 else "")
