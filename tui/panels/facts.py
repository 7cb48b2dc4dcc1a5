"""What the details dialog tells of a rank, a GPU, a port and a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectors.samples.location import Location
from collectors.samples.logs import LogFile
from collectors.samples.ranks import CpuWait, RankProcess, RankPulse
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.unnumbered import NUMBERED_BY
from hangtop.session.state.job_state import GpuState, InterfaceState, NodeState, PortState
from tui.figures.measure import grown_errors, memory_percent, pulse_of, row_of, throttling
from tui.frames import short_stack
from tui.logs.logbook import LogBook
from tui.looks.format import UNKNOWN, age, count, number, percent, plural, rate, size
from tui.ordering.rows import RankRow
from tui.panels.base import Fact
from tui.scene import Scene
from tui.waits import letter_of
from tui.widgets.lastlines import lines_of


def rank_facts(row: RankRow, scene: Scene) -> list[Fact]:
    """A rank's process."""
    process, rank = row.rank.process, row.rank
    pulse = pulse_of(rank)
    limits = (
        f"files {_limit(process.open_files_limit)}, memlock {_limit(process.memlock_limit, in_bytes=True)}, "
        f"memory {_limit(process.memory_limit, in_bytes=True)}"
    )
    gpus = ", ".join(str(gpu.index) for gpu in scene.gpus_of(row))
    return [
        ("rank", _numbered(process) if process.rank >= 0 else _nameless(process)),
        ("local rank", _local(process, row.node.name)),
        ("gpus", gpus or plural(0, "GPU")),
        ("process", f"pid {process.pid}, parent {process.parent}, user {process.user}"),
        ("up", age(scene.now - process.started)),
        ("state", "ended" if rank.gone_at is not None else UNKNOWN if pulse is None else pulse.state),
        ("kernel", UNKNOWN if pulse is None else _in_kernel(pulse, row.node)),
        *_cpu(rank.cpu_wait),
        ("threads", UNKNOWN if pulse is None else f"{pulse.threads}, open files {number(pulse.open_files)}"),
        ("launched by", _launched(process)),
        ("master", f"{process.master_addr or UNKNOWN}:{number(process.master_port)}"),
        ("command", process.command),
        ("folder", process.cwd),
        ("interpreter", process.executable),
        ("container", process.container or "none"),
        ("stdout", process.stdout or UNKNOWN),
        ("stderr", process.stderr or UNKNOWN),
        ("nccl log", process.nccl_log or "NCCL_DEBUG_FILE is not set"),
        ("limits", limits),
        ("versions", ", ".join(f"{name} {version}" for name, version in process.versions.items()) or UNKNOWN),
        *_told(row, scene),
        *_list("helpers", (f"{h.role} pid {h.pid}, {h.state}, rss {size(h.rss)}" for h in rank.helpers.values())),
        *_list("environment", (f"{name}={value}" for name, value in sorted(process.env.items()))),
    ]


def rank_brief(row: RankRow, scene: Scene) -> list[Fact]:
    """What a person asks of a rank first: where it is, its stack, its last lines, its GPU."""
    place = scene.waiting.place_of.get(row.number)
    facts: list[Fact] = []
    if place is not None:
        box, whom = scene.waits[place], scene.waiting.waits_for(row.number)
        facts.append(("now", f"{letter_of(place)} {box.doing}{f', waits for {whom}' if whom else ''}"))
    dump = scene.dump_of(row)
    if dump is not None:
        facts += _list(f"stack, {age(scene.now - dump.at)} old", short_stack(dump, FRAMES))
    book = LogBook()
    book.take(scene.state)
    facts += _list("last lines", (line.text for line in lines_of(book, [row], LINES)))
    gpu = scene.gpu_of(row)
    if gpu is not None and (seen := row_of(gpu)) is not None:
        used = f"memory {percent(memory_percent(gpu))}, {number(seen.power)} W, {number(seen.temperature)} °C"
        facts.append(("gpu", f"{gpu.index}: utilisation {percent(seen.utilization)}, {used}"))
    return facts


FRAMES, LINES = 6, 4
"""Frames and lines of a rank's log that are told in brief."""


def _local(process: RankProcess, node: str) -> str:
    """Its number on its node, and of how many where its environment says so."""
    of = "" if process.local_world_size is None else f" of {process.local_world_size:,}"
    return f"{number(process.local_rank)}{of} on {node}"


def _in_kernel(pulse: RankPulse, node: NodeState) -> str:
    """What the main thread waits for there, and in which system call."""
    from collectors.node.processes.process_state import call_names

    names = call_names("" if node.hello is None else node.hello.machine)
    call = UNKNOWN if pulse.syscall is None else names.get(pulse.syscall, str(pulse.syscall))
    return f"kernel wait {pulse.wchan or UNKNOWN}, system call {call}"


def _cpu(wait: CpuWait | None) -> list[Fact]:
    """What it lacks of CPU time; nothing of one that gets its own."""
    if wait is None:
        return []
    runs = f"may run on CPUs {wait.allowed} at nice {wait.nice}"
    return [("cpu", f"waits {wait.waited}% of the time for one; {runs}")]


def _launched(process: RankProcess) -> str:
    """Who started it, how often anew, and as which run; what nobody tells is left out."""
    by = "something that sets RANK itself" if process.launcher == "env" else process.launcher or UNKNOWN
    restart = "" if process.restart is None else f"restart {process.restart}"
    return ", ".join(filter(None, (by, restart, process.run_id and f"run {process.run_id}")))


def _told(row: RankRow, scene: Scene) -> list[Fact]:
    """What it tells of itself, and what checks in it found."""
    inside, opened = row.rank.inside, row.rank.opened
    if inside is None:
        return []
    pulse = inside.pulse
    since = UNKNOWN if pulse.phase_at is None else age(max(0.0, scene.now - pulse.phase_at))
    step = f"{number(pulse.step)} done" + (f", in {pulse.phase} for {since}" if pulse.phase else "")
    checked = (f"check {one.check}, {age(max(0.0, scene.now - one.at))} ago: {one.summary}" for one in inside.results)
    return [("step", step), *_list("inside", opened.did if opened else ()), *_list("checks", checked)]


def _numbered(process: RankProcess) -> str:
    by = NUMBERED_BY.get(process.numbered_by, "")
    return f"{process.rank} of {number(process.world_size)}{', by ' if by else ''}{by}"


def _nameless(process: RankProcess) -> str:
    why = "it computes on a GPU" if process.library == "gpu" else f"{process.library} is mapped"
    return f"unknown ({process.label or why}, and nothing tells its number)"


def gpu_facts(node: NodeState, gpu: GpuState, scene: Scene) -> list[Fact]:
    """A GPU, its health and who is on it."""
    facts, row = gpu.facts, row_of(gpu)
    told: list[Fact] = []
    if gpu.fault is not None:
        told.append(("fault", gpu.fault.text))
    if facts is not None:
        told += [
            ("name", facts.name),
            ("bus", f"{facts.bus_id}  {facts.uuid}"),
            ("driver", f"{facts.driver}, MIG {facts.mig or UNKNOWN}"),
        ]
    if row is not None:
        used = f"{size(row.memory_used)} of {size(facts.memory_total if facts else None)}"
        told += [
            ("utilisation", f"{percent(row.utilization)}, memory controller {percent(row.memory_utilization)}"),
            ("memory", f"{used} ({percent(memory_percent(gpu))})"),
            ("power", f"{number(row.power)} W of {number(facts.power_limit if facts else None)} W, {row.pstate}"),
            ("clock", f"SM {number(row.sm_clock)} of {number(facts.sm_clock_max if facts else None)} MHz"),
            ("held back by", throttling(row.event_reasons)[0] or "nothing"),
            ("temperature", f"{number(row.temperature)} °C, memory {number(row.memory_temperature)} °C"),
            ("pcie generation", f"{number(row.pcie_gen)} of {number(facts.pcie_gen_max if facts else None)}"),
            ("pcie width", f"{number(row.pcie_width)} of {number(facts.pcie_width_max if facts else None)}"),
            ("ecc", f"{number(row.ecc_uncorrected)} uncorrected"),
            (
                "rows remapped",
                f"{number(row.remapped_correctable)} correctable, {number(row.remapped_uncorrectable)} not",
            ),
            ("remapping", f"pending: {_yes(row.remap_pending)}, failed: {_yes(row.remap_failure)}"),
            ("recovery", row.recovery_action or UNKNOWN),
        ]
    owners = scene.ranks_of(node, gpu)
    told += [("ranks", ", ".join(rank_text(rank.process.rank) for rank in owners) or "none")]
    told += _list("processes", (f"pid {p.pid} {p.name} {size(p.memory)}, SM {percent(p.sm)}" for p in gpu.processes))
    told += _list(
        "nvlinks",
        (
            f"{link.link}: {'up' if link.active else 'down'}, replays {number(link.replay_errors)}, recoveries "
            f"{number(link.recovery_errors)}, CRC {number(link.crc_errors)}"
            for link in gpu.nvlinks.values()
        ),
    )
    return [("node", node.name), *told]


def port_facts(node: NodeState, port: PortState, scene: Scene) -> list[Fact]:
    """A port, its counters and the states it went through."""
    facts = port.facts
    past = (f"{age(scene.now - at)} ago {was.state}, {was.phys_state}" for at, was in port.changes)
    counters = (f"{name} {count(value)}  {rate(port.rate(name))}" for name, value in sorted(port.counters.pairs()))
    return [
        ("node", node.name),
        ("state", f"{facts.state}, {facts.phys_state}"),
        ("rate", f"{facts.rate_text or UNKNOWN}, {facts.link_layer}"),
        ("lid", f"{number(facts.lid)}, subnet manager {number(facts.sm_lid)}"),
        ("board", f"{facts.board or UNKNOWN}, firmware {facts.firmware or UNKNOWN}"),
        ("interface", facts.netdev or UNKNOWN),
        *_list("hangs at", map(_location, node.locations.values())),
        ("counters from", port.source or UNKNOWN),
        *_list("errors grown", (f"{name} +{by}" for name, by in grown_errors(port).items())),
        *_list("was", past),
        *_list("counters", counters),
    ]


def interface_facts(node: NodeState, here: InterfaceState) -> list[Fact]:
    """A network interface and what it lost."""
    facts, counters = here.facts, here.counters
    told: list[Fact] = [
        ("node", node.name),
        ("kind", f"{facts.kind}, {'up' if facts.up else 'down'}, MTU {facts.mtu}"),
        ("speed", UNKNOWN if facts.speed is None else f"{facts.speed} Mb/s"),
        *_list("addresses", facts.addresses),
        ("traffic", f"in {rate(here.received_per_s)}, out {rate(here.sent_per_s)}"),
    ]
    if counters is not None:
        told += [
            ("since boot", f"in {size(counters.received)}, out {size(counters.sent)}"),
            ("dropped", f"in {counters.receive_drops}, out {counters.send_drops}; +{here.drops_grown} while watched"),
            ("errors", f"in {counters.receive_errors}, out {counters.send_errors}"),
        ]
    return [
        *told,
        ("tcp of the node", f"{count(node.segments_per_s)} segments/s, {count(node.retransmitted_per_s)} sent again/s"),
    ]


def node_facts(node: NodeState, scene: Scene) -> list[Fact]:
    """A node, its connection, its sources and what they said."""
    hello, host = node.hello, node.host
    interfaces = (
        f"{i.facts.name}: MTU {i.facts.mtu}, {'up' if i.facts.up else 'down'}, {' '.join(i.facts.addresses)}"
        for i in node.interfaces.values()
    )
    disks = (f"{d.path} ({d.role}, {d.fstype}): {size(d.free)} of {size(d.total)} free" for d in node.disks.values())
    ports = (
        f"{use.port}: {'; '.join(use.listeners) or ('listening' if use.listening else 'free')}, "
        f"{use.established} established, {use.time_wait} in TIME_WAIT"
        for use in node.port_uses.values()
    )
    return [
        ("link", f"{node.link} for {age(scene.now - node.since) if node.since else UNKNOWN}"),
        ("why", node.why or UNKNOWN),
        ("last heard", UNKNOWN if node.link == "offline" else age(scene.silence(node))),
        ("host", UNKNOWN if hello is None else f"{hello.hostname}, {hello.machine}, Linux {hello.kernel}"),
        ("python", UNKNOWN if hello is None else f"{hello.python or 'none'} {hello.executable}"),
        ("clock", "unknown" if node.clock_offset is None else f"{node.clock_offset:+.3f} s against this machine"),
        ("hangtop there", _agent(node)),
        *_list("gpus", (_gpu(gpu) for gpu in node.gpus.values())),
        ("cpus", UNKNOWN if host is None else f"{host.cpus}, memory {size(host.memory_total)}"),
        *_scheduled(node),
        *_list("hangs at", map(_location, node.locations.values())),
        *_list("topology", _matrix(node)),
        *_list("nvlink", (f"{s.name}: {s.state} ({s.said})" for s in node.fabric_services.values())),
        *_list("sources", (f"{s.source}: {s.state} {s.why}" for s in node.sources.values())),
        *_list("faults", (f"{f.source}: {f.text} ({f.times} times)" for f in node.faults.values())),
        ("bad lines", f"{node.bad_lines} {node.last_bad}"),
        *_list("interfaces", interfaces),
        *_list("job's ports", ports),
        *_list("disks", disks),
        *_list("logs", (_log(file) for file in node.log_files.values())),
        *_list("versions", () if host is None else (f"{name} {version}" for name, version in host.versions.items())),
        *_list("settings", () if host is None else (f"{name} = {value}" for name, value in host.settings.items())),
    ]


def _matrix(node: NodeState) -> Iterator[str]:
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


def _scheduled(node: NodeState) -> list[Fact]:
    """What Slurm says of it, where Slurm is asked."""
    place = node.scheduled
    if place is None:
        return []
    return [
        ("Slurm job", f"{place.job}, {place.left or UNKNOWN} left"),
        *_list("steps", place.steps),
        ("Slurm node", f"{place.state or UNKNOWN}{f': {place.reason}' if place.reason else ''}"),
    ]


def _location(place: Location) -> str:
    return f"{place.level} {place.name} ({place.source})"


def _agent(node: NodeState) -> str:
    hello, tick = node.hello, node.tick
    if hello is None or tick is None:
        return "not running"
    return f"pid {hello.pid}, {tick.cpu:.1f} CPU-s, {size(tick.rss)}, a look takes {tick.took * 1000:.0f} ms"


def _log(file: LogFile) -> str:
    flood = f", {size(file.left_out)} of a flood not read" if file.left_out else ""
    return f"{file.path} {size(file.size)}{flood} {file.why or file.shared}"


def _list(label: str, values: Iterable[str]) -> list[Fact]:
    return [("" if place else label, value) for place, value in enumerate(values)]


def _limit(value: int | None, *, in_bytes: bool = False) -> str:
    if value is None:
        return UNKNOWN
    if value < 0:
        return "unlimited"
    return size(value) if in_bytes else str(value)


def _yes(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"
