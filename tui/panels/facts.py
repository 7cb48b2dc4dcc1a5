"""What the details tell of a rank, a GPU, a port and a node: what several sources say, then the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.unnumbered import NUMBERED_BY
from hangtop.session.state.job_state import GpuState, InterfaceState, NodeState, PortState
from tui.frames import short_stack
from tui.looks.format import UNKNOWN, age, count, number, percent, rate, size
from tui.measure import grown_errors, memory_percent, pulse_of, row_of, throttling
from tui.ordering.rows import RankRow
from tui.panels.base import Fact
from tui.view_model import ViewModel
from tui.waits import letter_of
from tui.widgets.lastlines import lines_of

FRAMES, LINES = 6, 4
"""Frames and lines of a rank's log that are told in brief."""


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else size(value)


FORMS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("rss", "memory_total", "memory_used", "read_bytes", "written_bytes", "received", "sent"), size),
    "memlock_limit": _limit,
    **dict.fromkeys(("power", "power_limit"), lambda watts: f"{watts:.0f} W"),
    **dict.fromkeys(("temperature", "memory_temperature"), lambda degrees: f"{degrees} °C"),
    **dict.fromkeys(("sm_clock", "sm_clock_max"), lambda clock: f"{clock} MHz"),
    **dict.fromkeys(("utilization", "memory_utilization", "waited"), lambda share: f"{share}%"),
    **dict.fromkeys(("cpu_user", "cpu_system", "helpers_cpu"), lambda seconds: f"{seconds:.1f} s"),
    "speed": lambda speed: f"{speed} Mb/s",
    "event_reasons": lambda mask: throttling(mask)[0] or "nothing",
}
"""How values of samples are told, by the name of the field; all others as they are."""
TITLES = {"event_reasons": "held back by", "waited": "waits for a CPU", "wchan": "kernel wait"}
HIDDEN = frozenset(
    "gpu index rank uid env versions odd own_pid label library numbered_by started main_cpu idle_since"
    " helpers_bytes voluntary_switches involuntary_switches local_world_size master_addr master_port".split()
)
"""Fields that are told in another way, or say nothing to people."""


def facts_of(*samples: NamedTuple | None) -> list[Fact]:
    """The fields of samples by their names; what is unknown or empty is left out."""
    told: dict[str, str] = {}
    for sample in samples:
        for field, value in {} if sample is None else sample._asdict().items():
            if field not in HIDDEN and value not in (None, "", [], {}):
                title = TITLES.get(field, field.replace("_", " "))
                text = " ".join(map(str, value)) if isinstance(value, list) else FORMS.get(field, str)(value)
                told.setdefault(title, text)
    return list(told.items())


def _list(label: str, values: Iterable[str]) -> list[Fact]:
    return [("" if place else label, value) for place, value in enumerate(values)]


def _pairs(label: str, values: Mapping[str, str]) -> list[Fact]:
    return _list(label, (f"{name}={value}" for name, value in sorted(values.items())))


def rank_facts(row: RankRow, model: ViewModel) -> list[Fact]:
    """A rank's process."""
    process, rank = row.rank.process, row.rank
    if process.rank >= 0:
        by = NUMBERED_BY.get(process.numbered_by, "")
        who = f"{process.rank} of {number(process.world_size)}{f', by {by}' if by else ''}"
    else:
        why = process.label or ("it computes on a GPU" if process.library == "gpu" else f"{process.library} is mapped")
        who = f"unknown ({why}, and nothing tells its number)"
    return [
        ("rank", who),
        ("node", row.node.name),
        ("gpus", ", ".join(str(gpu.index) for gpu in model.gpus_of(row)) or "no GPU"),
        ("up", age(model.now - process.started)),
        ("master", f"{process.master_addr or UNKNOWN}:{number(process.master_port)}"),
        *([("ended", f"{age(model.now - rank.gone_at)} ago")] if rank.gone_at is not None else []),
        *_inside(row, model),
        *_list("helpers", (f"{h.role} pid {h.pid}, {h.state}, rss {size(h.rss)}" for h in rank.helpers.values())),
        *_pairs("versions", process.versions),
        *_pairs("environment", process.env),
        *facts_of(pulse_of(rank), rank.cpu_wait, process),
    ]


def rank_brief(row: RankRow, model: ViewModel) -> list[Fact]:
    """What a person asks of a rank first: where it is, its stack, its last lines, its GPU."""
    place = model.waiting.place_of.get(row.number)
    facts: list[Fact] = []
    if place is not None:
        box, whom = model.waits[place], model.waiting.waits_for(row.number)
        facts.append(("now", f"{letter_of(place)} {box.doing}{f', waits for {whom}' if whom else ''}"))
    dump = model.dump_of(row)
    if dump is not None:
        facts += _list(f"stack, {age(model.now - dump.at)} old", short_stack(dump, FRAMES))
    facts += _list("last lines", (line.text for line in lines_of(model, [row], LINES)))
    return facts + _list("gpu", map(_gpu, model.gpus_of(row)))


def _inside(row: RankRow, model: ViewModel) -> list[Fact]:
    """What it tells of itself, and what checks in it found."""
    inside = row.rank.inside
    if inside is None:
        return []
    pulse = inside.pulse
    since = UNKNOWN if pulse.phase_at is None else age(max(0.0, model.now - pulse.phase_at))
    step = f"{number(pulse.step)} done" + (f", in {pulse.phase} for {since}" if pulse.phase else "")
    checked = (f"check {one.check}, {age(max(0.0, model.now - one.at))} ago: {one.summary}" for one in inside.results)
    return [("step", step), *_list("checks", checked)]


def gpu_facts(node: NodeState, gpu: GpuState, model: ViewModel) -> list[Fact]:
    """A GPU, its health and who is on it."""
    owners = ", ".join(rank_text(rank.process.rank) for rank in model.ranks_of(node, gpu)) or "none"
    return [
        *([("fault", gpu.fault.text)] if gpu.fault is not None else []),
        ("ranks", owners),
        ("memory", percent(memory_percent(gpu))),
        *facts_of(row_of(gpu), gpu.facts),
        *_list("processes", (f"pid {p.pid} {p.name} {size(p.memory)}, SM {percent(p.sm)}" for p in gpu.processes)),
        *_list("nvlinks", (", ".join(" ".join(fact) for fact in facts_of(link)) for link in gpu.nvlinks.values())),
    ]  # fmt: skip


def port_facts(port: PortState, model: ViewModel) -> list[Fact]:
    """A port, its counters and the states it went through."""
    past = (f"{age(model.now - at)} ago {was.state}, {was.phys_state}" for at, was in port.changes)
    counters = (f"{name} {count(value)}  {rate(port.rate(name))}" for name, value in sorted(port.counters.items()))
    return [
        *facts_of(port.facts),
        *_list("errors grown", (f"{name} +{by}" for name, by in grown_errors(port).items())),
        *_list("was", past),
        *_list(f"counters ({port.source or UNKNOWN})", counters),
    ]


def interface_facts(node: NodeState, here: InterfaceState) -> list[Fact]:
    """A network interface and what it lost."""
    return [
        ("traffic", f"in {rate(here.received_per_s)}, out {rate(here.sent_per_s)}, +{here.drops_grown} dropped"),
        *facts_of(here.facts, here.counters),
        ("tcp of the node", f"{count(node.segments_per_s)} segments/s, {count(node.retransmitted_per_s)} sent again/s"),
    ]


def node_facts(node: NodeState, model: ViewModel) -> list[Fact]:
    """A node, its connection, its sources and what they said."""
    hello, host, tick = node.hello, node.host, node.tick
    facts: list[Fact] = [
        ("link", f"{node.link} for {age(model.now - node.since) if node.since else UNKNOWN} {node.why}"),
        ("last heard", UNKNOWN if node.link == "offline" else age(model.silence(node))),
        ("clock", "unknown" if node.clock_offset is None else f"{node.clock_offset:+.3f} s against this machine"),
    ]
    if hello is not None:
        facts.append(
            ("host", f"{hello.hostname}, {hello.machine}, Linux {hello.kernel}, Python {hello.python or 'none'}")
        )
    if hello is not None and tick is not None:
        agent = f"pid {hello.pid}, {tick.cpu:.1f} CPU-s, {size(tick.rss)}, a look takes {tick.took * 1000:.0f} ms"
        facts.append(("hangtop there", agent))
    facts += _list("gpus", map(_gpu, node.gpus.values()))
    if host is not None:
        facts.append(("cpus", f"{host.cpus}, memory {size(host.memory_total)}"))
    facts += _list("leaf switch", filter(None, [node.leaf]))
    facts += _list("topology", _topology(node))
    facts += _list("nvlink", (f"{one.name}: {one.state} ({one.said})" for one in node.fabric_services.values()))
    facts += _list("sources", (f"{one.source}: {one.state} {one.why}" for one in node.sources.values()))
    facts += _list("faults", (f"{one.source}: {one.text} ({one.times} times)" for one in node.faults.values()))
    facts += [("bad lines", f"{node.bad_lines} {node.last_bad}")] if node.bad_lines else []
    facts += _list("interfaces", (
        f"{one.facts.name}: MTU {one.facts.mtu}, {'up' if one.facts.up else 'down'}, {' '.join(one.facts.addresses)}"
        for one in node.interfaces.values()
    ))  # fmt: skip
    facts += _list("job's ports", (
        f"{use.port}: {'; '.join(use.listeners) or ('listening' if use.listening else 'free')}, "
        f"{use.established} established, {use.time_wait} in TIME_WAIT" for use in node.port_uses.values()
    ))  # fmt: skip
    disks = node.disks.values()
    facts += _list("disks", (f"{d.path} ({d.role}, {d.fstype}): {size(d.free)} of {size(d.total)} free" for d in disks))
    facts += _list("logs", (f"{f.path} {size(f.size)} {f.why or f.shared}" for f in node.log_files.values()))
    if host is not None:
        facts += _pairs("versions", host.versions)
    return facts


def _topology(node: NodeState) -> Iterator[str]:
    """``nvidia-smi topo -m``: a head and a row a device, behind it the device's NUMA node."""
    found = node.topology
    if found is None:
        return
    wide = max(map(len, found.devices), default=0) + 1
    yield "".join(word.ljust(wide) for word in ("", *found.devices, "NUMA")).rstrip()
    for device, links, numa in zip(found.devices, found.links, found.numa, strict=True):
        yield "".join(word.ljust(wide) for word in (device, *links, numa)).rstrip()


def _gpu(gpu: GpuState) -> str:
    row = row_of(gpu)
    if row is None:
        return f"{gpu.index}: {gpu.fault.text if gpu.fault else 'no figures'}"
    used = f"{number(row.power)} W, {number(row.temperature)} °C, memory {percent(memory_percent(gpu))}"
    return f"{gpu.index}: {percent(row.utilization)}, {used}"
