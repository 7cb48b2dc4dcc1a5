"""What sources tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, FrozenSet, Tuple

if TYPE_CHECKING:
    from collectors.samples.ranks import RankProcess


class Shared:
    """What sources tell each other. Each attribute has one writer, which replaces it whole; anyone may read it."""

    def __init__(self) -> None:
        self.ranks: Tuple[RankProcess, ...] = ()
        """The ranks that are alive here, and processes of jobs without a number; written by the source ``ranks``."""
        self.computing: FrozenSet[int] = frozenset()
        """Processes that compute on a GPU, written by the source ``gpus``."""
        self.versions: Dict[int, Dict[str, str]] = {}
        """Versions of the libraries of each rank by pid, written by the source ``software``."""
        self.sm_shares: Dict[Tuple[str, int], int] = {}
        """Per cent of the SMs that each process uses, by bus key and pid, written by the source ``nvml``."""
