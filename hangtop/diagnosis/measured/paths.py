"""What the path probe's figures prove: blocked, lossy or slow paths, and MTUs that do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from collectors.samples.asked import PathFigure
from collectors.samples.probes import ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.measured import probes

MTU_ADVICE = "Set one MTU on every hop: ip link set DEV mtu N on the nodes, and on the switch ports between them."


def report(figures: Sequence[PathFigure], absent: Mapping[str, str], at: float, took: float) -> ProbeReport:
    """The figures as pairs, so that the same reasoning tells a bad node from a bad link as for collectives."""
    both: dict[tuple[str, str], list[PathFigure]] = {}
    for figure in figures:
        low, high = sorted((figure.a, figure.b))
        both.setdefault((low, high), []).append(figure)
    pairs = [_pair(a, b, directions) for (a, b), directions in sorted(both.items())]
    names = sorted({name for key in both for name in key})
    ranks = [ProbeRank(-1, name, "done", "", None) for name in names if name not in absent]
    ranks += [ProbeRank(-1, name, "absent", why, None) for name, why in sorted(absent.items())]
    outcome = "failed" if absent or any(pair.error for pair in pairs) else "done"
    why = next((pair.error for pair in pairs if pair.error), next(iter(absent.values()), ""))
    return ProbeReport("path", len(names), at, took, outcome, why, ranks, [], pairs, None, {})


def _pair(a: str, b: str, directions: Sequence[PathFigure]) -> ProbePair:
    rates = [figure.throughput for figure in directions]
    known = [rate for rate in rates if rate is not None]
    trips = [figure.round_trip for figure in directions if figure.round_trip is not None]
    shares = [figure.retransmitted for figure in directions if figure.retransmitted is not None]
    errors = [f"{figure.a} to {figure.b}: {figure.error}" for figure in directions if figure.error]
    return ProbePair(
        a,
        b,
        min(known) / 1e9 if len(known) == len(rates) and known else None,
        min(trips, default=None),
        max(shares, default=None),
        "; ".join(errors),
    )


def findings(figures: Sequence[PathFigure], found: ProbeReport) -> tuple[Finding, ...]:
    """Everything that the figures prove, what explains the rest first."""
    return (*probes.findings(found), *_mtu(figures, found.at))


def _mtu(figures: Sequence[PathFigure], at: float) -> list[Finding]:
    """mtu_mismatch: packets of the sender's own MTU do not arrive, or interfaces of one network differ."""
    narrow = [f for f in figures if f.mtu is not None and f.local_mtu is not None and f.mtu < f.local_mtu]
    if narrow:
        involved = Counter(name for figure in narrow for name in {figure.a, figure.b})
        most = max(involved.values())
        culprits = tuple(sorted(name for name, count in involved.items() if count == most))
        # With one pair alone nobody can tell which end it is; with more, the one that all of them share.
        worst = min(narrow, key=lambda figure: figure.mtu or 0)
        return [
            Finding(
                "mtu_mismatch",
                "critical",
                0.9,
                f"packets over {worst.mtu} bytes do not reach or leave {', '.join(culprits)}, "
                f"while {worst.a} sends up to {worst.local_mtu}",
                nodes=culprits,
                evidence=tuple(
                    Evidence(
                        "path probe", at, f"{f.a} to {f.b}: {f.mtu} bytes arrive, {f.interface} has MTU {f.local_mtu}"
                    )
                    for f in narrow[:6]
                ),
                advice=MTU_ADVICE,
            )
        ]
    local = {figure.a: (figure.interface, figure.local_mtu) for figure in figures if figure.local_mtu is not None}
    usual = Counter(mtu for _, mtu in local.values()).most_common(1)
    odd = {name: held for name, held in local.items() if usual and held[1] != usual[0][0]}
    if not odd:
        return []
    return [
        Finding(
            "mtu_mismatch",
            "warning",
            0.8,
            f"MTU differs: {', '.join(f'{mtu} on {name} {dev}' for name, (dev, mtu) in sorted(odd.items()))}; "
            f"elsewhere {usual[0][0]}",
            nodes=tuple(sorted(odd)),
            evidence=tuple(Evidence("path probe", at, f"{n}: {d} has MTU {m}") for n, (d, m) in sorted(local.items())),
            advice=MTU_ADVICE,
        )
    ]
