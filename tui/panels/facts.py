"""Details of a rank, a GPU, a port and a node: combined facts first, then the fields of samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from collectors.samples.host import Reading
from hangtop.diagnosis.node import Counted, Gpu, NetworkInterface, Node, Port
from hangtop.diagnosis.phrasing import rank_text
from tui.frames import short_stack
from tui.looks.format import UNKNOWN, age, number, percent, rate, size, thousands
from tui.looks.text import cells, fit
from tui.looks.theme import Colour
from tui.measure import grown_errors, memory_percent, row_of, throttling
from tui.ordering.rows import RankRow
from tui.panels.base import Fact
from tui.texts.lastlines import lines_of
from tui.view_model import ViewModel, letter_of
from tui.widgets.lines import Content

FRAMES, LINES = 6, 4
"""Stack frames and log lines of a rank in its details."""
LABEL = 28
"""Most cells of the label column."""


FORMS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(
        ("rss", "memory", "memory_total", "memory_used", "received", "sent", "size", "free", "total"), size
    ),
    **dict.fromkeys(("read_bytes", "written_bytes"), size),
    **dict.fromkeys(("power", "power_limit"), lambda watts: f"{watts:.0f} W"),
    **dict.fromkeys(("temperature", "memory_temperature"), lambda degrees: f"{degrees} °C"),
    **dict.fromkeys(("sm_clock", "sm_clock_max"), lambda clock: f"{clock} MHz"),
    **dict.fromkeys(("utilization", "memory_utilization", "waited", "sm"), lambda share: f"{share}%"),
    **dict.fromkeys(("cpu_user", "cpu_system", "helpers_cpu"), lambda seconds: f"{seconds:.1f} s"),
    "speed": lambda speed: f"{speed} Mb/s",
    "wchan": lambda name: "none" if name == "0" else name,
    "event_reasons": lambda mask: throttling(mask)[0] or "nothing",
}
"""Formats of values by field name; other values use ``str``."""
TITLES = {"event_reasons": "held back by", "waited": "waits for a CPU", "wchan": "kernel wait"}
HIDDEN = frozenset(
    "gpu index rank uid env versions odd own_pid label library started main_cpu"
    " helpers_bytes voluntary_switches involuntary_switches local_world_size master_addr master_port".split()
)
"""Fields that are shown elsewhere, or mean nothing to users."""


def facts_text(facts: Sequence[Fact]) -> Content:
    """Lay out labels and values in two columns."""
    width = min(LABEL, max((cells(label) for label, _ in facts), default=0))
    return [
        [(f" {fit('' if place else label, width, 'right')}  ", Colour.DIM), (text, Colour.TEXT)]
        for label, value in facts
        for place, text in enumerate(value.splitlines() or [""])
    ]


def _texts(sample: NamedTuple) -> dict[str, str]:
    """The fields of a sample as text, without unknown and empty ones."""
    known = ((field, value) for field, value in sample._asdict().items() if value not in (None, "", [], {}))
    return {
        field: " ".join(map(str, value)) if isinstance(value, list) else FORMS.get(field, str)(value)
        for field, value in known
    }


def facts_of(*samples: NamedTuple | None) -> list[Fact]:
    """The fields of samples by their titles; the first sample with a title wins."""
    texts: dict[str, str] = {}
    for sample in samples:
        for field, text in {} if sample is None else _texts(sample).items():
            if field not in HIDDEN:
                texts.setdefault(TITLES.get(field, field.replace("_", " ")), text)
    return list(texts.items())


def _joined(sample: NamedTuple) -> str:
    return ", ".join(f"{title} {text}" for title, text in facts_of(sample))


def _list(label: str, values: Iterable[str]) -> list[Fact]:
    return [("" if place else label, value) for place, value in enumerate(values)]


def _lines(label: str, form: str, samples: Iterable[NamedTuple]) -> list[Fact]:
    """One line per sample, with its fields in ``form``."""
    return _list(label, (form.format_map(defaultdict(str, _texts(sample))).strip(" :") for sample in samples))


def _pairs(label: str, values: Mapping[str, str]) -> list[Fact]:
    return _list(label, (f"{name}={value}" for name, value in sorted(values.items())))


def rank_facts(row: RankRow, model: ViewModel) -> list[Fact]:
    """Details of a rank: its wait, stack, last log lines and GPU, then its process."""
    process, rank = row.rank.process, row.rank
    if process.rank >= 0:
        who = f"{process.rank} of {number(process.world_size)}"
    else:
        why = process.label or f"{process.library} is mapped"
        who = f"unknown ({why}, without a rank number)"
    return [
        *_activity(row, model),
        ("rank", who),
        ("node", row.node.name),
        ("up", age(model.now - process.started)),
        ("master", f"{process.master_addr or UNKNOWN}:{number(process.master_port)}"),
        *([("ended", f"{age(model.now - rank.gone_at)} ago")] if rank.gone_at is not None else []),
        *_inside(row, model),
        *_lines("helpers", "{role} pid {pid}, {state}, rss {rss}", rank.helpers.values()),
        *_pairs("versions", process.versions),
        *_pairs("environment", process.env),
        *facts_of(rank.pulses.newest, process),
    ]


def _activity(row: RankRow, model: ViewModel) -> list[Fact]:
    """Wait, stack, last log lines and GPU of a rank."""
    place = model.waiting.place_of.get(row.number)
    facts: list[Fact] = []
    if place is not None:
        box, whom = model.waits[place], model.waiting.waits_for(row.number)
        facts.append(("now", f"{letter_of(place)} {box.doing}{f', waits for {whom}' if whom else ''}"))
    dump = model.dump_of(row)
    if dump is not None:
        facts += _list(f"stack, {age(model.now - dump.at)} old", short_stack(dump, FRAMES))
    facts += _list("last lines", (line.text for line in lines_of(model, [row], LINES)))
    return facts + (_list("gpu", map(_gpu, model.gpus_of(row))) or [("gpu", "none")])


def _inside(row: RankRow, model: ViewModel) -> list[Fact]:
    """Step, phase and check results from ``hangtop.inside``."""
    inside = row.rank.inside
    if inside is None:
        return []
    pulse = inside.pulse
    since = UNKNOWN if pulse.phase_at is None else age(max(0.0, model.now - pulse.phase_at))
    step = f"{number(pulse.step)} done" + (f", in {pulse.phase} for {since}" if pulse.phase else "")
    checked = (f"check {it.check}, {age(max(0.0, model.now - it.at))} ago: {it.summary}" for it in inside.results)
    return [("step", step), *_list("checks", checked)]


def gpu_facts(node: Node, gpu: Gpu, model: ViewModel) -> list[Fact]:
    """Details of a GPU, its health and its processes."""
    owners = ", ".join(rank_text(rank.process.rank) for rank in model.ranks_of(node, gpu)) or "none"
    return [
        *([("fault", gpu.fault.text)] if gpu.fault is not None else []),
        ("ranks", owners),
        ("memory", percent(memory_percent(gpu))),
        *facts_of(row_of(gpu), gpu.facts),
        *_list("processes", (_joined(process._replace(bus_id="")) for process in gpu.processes)),
        *_list("nvlinks", map(_joined, gpu.nvlinks.values())),
    ]


def link_facts(node: Node, link: Port | NetworkInterface, model: ViewModel) -> list[Fact]:
    """Details of an HCA port with its past states, or of a network interface with its drops; both with counters."""
    if isinstance(link, NetworkInterface):
        tcp = f"{thousands(node.segments_per_s)} segments/s, {thousands(node.retransmitted_per_s)} retransmitted/s"
        traffic = f"in {rate(link.received_per_s)}, out {rate(link.sent_per_s)}, +{link.drops_grown} dropped"
        return [("traffic", traffic), *facts_of(link.facts), *_counters(link), ("tcp of the node", tcp)]
    past = (f"{age(model.now - at)} ago {was.state}, {was.phys_state}" for at, was in link.changes)
    return [
        *facts_of(link.facts),
        *_list("errors grown", (f"{name} +{by}" for name, by in grown_errors(link).items())),
        *_list("was", past),
        *_counters(link),
    ]


def _counters(link: Counted) -> list[Fact]:
    texts = (f"{name} {thousands(value)}  {rate(link.rate(name))}" for name, value in sorted(link.counters.items()))
    return _list(f"counters ({link.source or UNKNOWN})", texts)


def node_facts(node: Node, model: ViewModel) -> list[Fact]:
    """Details of a node: its connection, sources and readings."""
    hello, host, tick = node.hello, node.host, node.tick
    facts: list[Fact] = [
        ("link", f"{node.link} for {age(model.now - node.since) if node.since else UNKNOWN} {node.why}"),
        ("last heard", UNKNOWN if node.link == "offline" else age(model.silence(node))),
        ("clock", "unknown" if node.clock_offset is None else f"{node.clock_offset:+.3f} s against this machine"),
    ]
    if hello is not None:
        python = f"Python {hello.python or 'none'}"
        facts.append(("host", f"{hello.hostname}, {hello.machine}, Linux {hello.kernel}, {python}"))
    if hello is not None and tick is not None:
        agent = f"pid {hello.pid}, {tick.cpu:.1f} CPU-s, {size(tick.rss)}, a tick takes {tick.took * 1000:.0f} ms"
        facts.append(("hangtop there", agent))
    if hello is not None and hello.narrowed:
        facts.append(("narrowed by", f"{', '.join(hello.narrowed)} in the environment of the node"))
    facts += _list("gpus", map(_gpu, node.gpus.values()))
    if host is not None:
        facts.append(("cpus", f"{host.cpus}, memory {size(host.memory_total)}"))
    silent = [source for source in node.sources.values() if source.state != "ok"]
    answering = sorted(source.source for source in node.sources.values() if source.state == "ok")
    facts += [("sources", f"ok: {', '.join(answering)}")] if answering else []
    facts += _lines("" if answering else "sources", "{source} {state}: {why}", silent)
    facts += _lines("faults", "{source}: {text} ({times} times)", node.faults.values())
    facts += [("bad lines", f"{node.bad_lines} {node.last_bad}")] if node.bad_lines else []
    facts += _lines("interfaces", "{name}: MTU {mtu}, {addresses}", [link.facts for link in node.interfaces.values()])
    for source in dict.fromkeys(source for source, _ in node.readings):
        facts += _list(source.replace("_", " "), (_reading(look.value) for look in node.readings_of(source)))
    facts += _lines("logs", "{path} {size} {why} {shared}", node.log_files.values())
    if host is not None:
        facts += _pairs("versions", host.versions)
    return facts


def _reading(reading: Reading) -> str:
    """``/dev/shm: role shm, free 60 GiB, total 64 GiB``."""
    texts = (
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else FORMS.get(name, str)(value)}"
        for name, value in reading.values.items()
        if name not in HIDDEN
    )
    return f"{reading.of}: {', '.join(texts)}"


def _gpu(gpu: Gpu) -> str:
    row = row_of(gpu)
    if row is None:
        return f"{gpu.index}: {gpu.fault.text if gpu.fault else 'no figures'}"
    used = f"{number(row.power)} W, {number(row.temperature)} °C, memory {percent(memory_percent(gpu))}"
    return f"{gpu.index}: {percent(row.utilization)}, {used}"
