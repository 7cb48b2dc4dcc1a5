"""``check_placement``: whether every parameter is placed as it should be, and equally on all ranks."""

from __future__ import annotations

from typing import Any, List, Tuple

from hangtop.inside.checks.comparing import Differing, Rows, compare
from hangtop.inside.checks.meeting import harmless
from hangtop.inside.results import CheckResult, Noted

NAMED = 3
"""Most parameters that a finding names."""
GRADIENT = "gradient of "


@harmless("placement")
def check_placement(model: Any, *, group: Any = None, seconds: float = 60.0) -> CheckResult:
    """Compare the placement of the parameters of ``model`` among all ranks of ``group`` (default: of the job).

    Placements, meshes, shapes, types, frozen parameters and missing gradients must agree; parameters outside every FSDP
    unit are named. To compare gradients, call it between ``backward()`` and ``zero_grad()``.
    """

    def rows() -> Rows:
        found = {}
        for name, parameter in model.named_parameters():
            found[name], found[GRADIENT + name] = ("", placed(parameter)), ("", _gradient(parameter))
        return found

    def uncovered_findings() -> List[Noted]:
        names = uncovered(model)
        more = " and %d more" % (len(names) - NAMED) if len(names) > NAMED else ""
        summary = "covered by no FSDP unit: %s%s" % (", ".join(names[:NAMED]), more)
        advice = "Shard the module that holds it, or the root, or average its gradient yourself."
        return [Noted("placement_wrong", "critical", summary, (), names, advice)] if names else []

    return compare("placement", "placements and gradients", rows, _note, group, seconds, uncovered_findings)


def _note(one: Differing) -> Noted:
    soft = one.name.startswith(GRADIENT)
    advice = (
        "Parameters that take no part in the loss on some ranks hang DDP without find_unused_parameters." if soft
        else "All ranks must build and shard the model alike."
    )  # fmt: skip
    return Noted("placement_wrong", "warning" if soft else "critical", one.summary, one.ranks, one.evidence, advice)


def placed(parameter: Any) -> str:
    """Text on one parameter of this rank: placements, names and sizes of its mesh, shape, type, trained or frozen.

    The ranks of the mesh are left out, because each slice of a mesh has its own ranks.
    """
    trained = "trained" if parameter.requires_grad else "frozen"
    if _no_data(parameter):
        return "not initialised, %s" % trained
    mesh = getattr(parameter, "device_mesh", None)
    where = "plain"
    if mesh is not None:
        placements = " ".join(map(str, parameter.placements))
        where = "DTensor %s on %s %s" % (placements, mesh.mesh_dim_names or "unnamed", tuple(mesh.shape))
    return "%s, %s %s, %s" % (where, tuple(parameter.shape), parameter.dtype, trained)


def _no_data(parameter: Any) -> bool:
    """Whether the parameter is of a lazy module before its first forward."""
    return type(parameter).__name__.startswith("Uninitialized")


def _gradient(parameter: Any) -> str:
    return "none" if _no_data(parameter) or parameter.grad is None else "there"


def uncovered(model: Any) -> Tuple[str, ...]:
    """Trained parameters outside every FSDP unit; empty without units."""
    from torch.distributed import fsdp

    kinds = tuple(getattr(fsdp, name) for name in ("FSDPModule", "FullyShardedDataParallel") if hasattr(fsdp, name))
    units = [name for name, module in model.named_modules() if kinds and isinstance(module, kinds)]
    every = list(model.named_parameters())
    # a frozen parameter may stay plain on purpose: it has no gradient to average
    plain = [name for name, one in every if one.requires_grad and not hasattr(one, "device_mesh") and not _no_data(one)]
    if not units or any(hasattr(one, "device_mesh") for _, one in every):
        return tuple(plain if units else ())
    return tuple(name for name in plain if not any(not unit or name.startswith(unit + ".") for unit in units))
