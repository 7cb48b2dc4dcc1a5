"""On which ranks the parameters of a model lie together: each of these ranks must know that mesh, in the same order.

Shape and names of a mesh are compared with all other aspects of a parameter. Its ranks are not the same everywhere, for
each rank has the part of a larger mesh that it is in; but those in one part must have the same part.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterator

from hangtop.inside.checks.whereabouts import ranks_text
from hangtop.inside.checks.words import Said
from hangtop.inside.results import Noted

SHOWN = 1024
"""Ranks of a mesh that are told."""


def meshes_of(model: Any) -> Said:
    """By fingerprint: the ranks of each mesh on which parameters lie, and the first of these."""
    found: Dict[int, Any] = {}
    for name, parameter in model.named_parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            found.setdefault(id(mesh), (mesh.mesh, name))
    told: Said = {}
    for mesh, name in found.values():
        ranks = mesh.flatten().tolist()
        key = hashlib.blake2b(repr((ranks, list(mesh.shape))).encode(), digest_size=8).hexdigest()
        told.setdefault(key, [ranks[:SHOWN], name])
    return told


def unshared(said: Dict[int, Said]) -> Iterator[Noted]:
    """Meshes that no more ranks have than lack them, of those that are in them."""
    keys = {key: row for one in said.values() for key, row in one["meshes"].items()}
    for key, (ranks, name) in keys.items():
        inside = [rank for rank in ranks if rank in said]
        having = [rank for rank in said if key in said[rank]["meshes"]]
        lacking = [rank for rank in inside if rank not in having]
        if not lacking or len(having) > len(lacking):
            continue
        others = {other: row for other, row in said[lacking[0]]["meshes"].items() if set(row[0]) & set(inside)}
        lines = ["%s: a mesh of ranks %s" % (ranks_text(having), ranks[:32])]
        lines += ["rank %d: a mesh of ranks %s" % (lacking[0], row[0][:32]) for row in list(others.values())[:3]]
        yield Noted(
            "placement_wrong", "critical",
            "%s lies on a mesh on %s that %s of it %s not have"
            % (name, ranks_text(having), ranks_text(lacking), "does" if len(lacking) == 1 else "do"),
            having, lines, "All ranks must build the same mesh: the same ranks in the same order.",
        )  # fmt: skip
