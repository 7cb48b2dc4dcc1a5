"""The words that node side, fleet, session and diagnosis share: one NamedTuple per kind of sample.

On the wire a sample is one line, a JSON array of two elements: the sample's kind and its fields in order,
``["GpuSample", [0, "P0", 41, …]]``. The node side writes it with the standard library, msgspec reads it into the
same NamedTuple here, types checked.

Conventions for every field: ``None`` means *unknown* (never "zero", never "ok"); sizes are bytes and durations are
seconds unless the comment says otherwise; times called ``at`` or ``started`` are the node's wall clock, seconds since
the epoch. The module runs on the nodes too, so it needs nothing newer than Python 3.8.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Union

Scalar = Union[str, int, float, bool, None]
Value = Union[Scalar, List[Scalar]]

# --- the stream itself -------------------------------------------------------------------------------------------


class Hello(NamedTuple):
    """First line of a stream: who answers, and with what."""

    version: str
    """Version of the payload that runs there."""
    python: str
    """``3.11.7``; empty when no Python runs there (the stream is nvidia-smi alone)."""
    executable: str
    hostname: str
    boot_id: str
    machine: str
    """``x86_64``, ``aarch64``."""
    kernel: str
    uid: int
    pid: int
    """Of the node side itself, in its own PID namespace."""
    clock: float
    sources: List[str]
    """Names of the sources that will report."""
    wants: List[str] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """Names of what it could use and did not come with the payload; see :class:`Lent`."""


class Tick(NamedTuple):
    """Last line of a flush: what came before belongs to it. Sent every tick, even when nothing changed."""

    seq: int
    clock: float
    took: float
    """Seconds that collecting took."""
    cpu: float
    """CPU seconds of the node side and its ended children since start."""
    rss: int


class SourceState(NamedTuple):
    """What became of one source; sent when it changes."""

    source: str
    state: str
    """``ok``, ``absent`` (nothing to read here), ``denied`` (no right to), ``late`` (over its deadline), ``failed``."""
    why: str
    since: float


class Fault(NamedTuple):
    """One thing that went wrong on the node side and cost one sample, not the source."""

    source: str
    text: str
    times: int


# --- ranks -------------------------------------------------------------------------------------------------------


class RankProcess(NamedTuple):
    """A process of the job, and what does not move: sent when first seen and when it changes."""

    pid: int
    started: float
    rank: int
    local_rank: Optional[int]
    world_size: Optional[int]
    node_rank: Optional[int]
    local_world_size: Optional[int]
    master_addr: str
    master_port: Optional[int]
    launcher: str
    """``torchrun``, ``slurm``, ``mpi`` or ``env``."""
    run_id: str
    restart: Optional[int]
    parent: int
    command: str
    cwd: str
    executable: str
    container: str
    """Container id or cgroup name; empty outside one."""
    uid: int
    user: str
    memory_limit: Optional[int]
    open_files_limit: Optional[int]
    """-1 is unlimited."""
    memlock_limit: Optional[int]
    """-1 is unlimited."""
    stdout: str
    stderr: str
    nccl_log: str
    """Path as the node sees it, ``%h`` and ``%p`` resolved; empty when NCCL_DEBUG_FILE is not set."""
    env: Dict[str, str]
    """Only the allow-listed names (see ``collectors.node.environ``)."""
    versions: Dict[str, str]
    """``torch``, ``nccl``, ``cuda``, as far as files beside the interpreter tell."""


class RankPulse(NamedTuple):
    """What moves in a rank's process."""

    pid: int
    state: str
    """One letter of /proc/PID/stat: R S D T t Z X I."""
    wchan: str
    syscall: Optional[int]
    cpu_user: float
    cpu_system: float
    voluntary_switches: int
    involuntary_switches: int
    rss: int
    threads: int
    open_files: Optional[int]
    read_bytes: Optional[int]
    """Bytes read from storage and pipes (``rchar``) since start."""
    written_bytes: Optional[int]
    helpers_cpu: float
    """CPU seconds of the processes that it forked and that are alive."""
    idle_since: Optional[float] = None
    """Since when it has made no step, also from before it was watched; None while it makes some, or unknown."""


class RankGone(NamedTuple):
    """A rank's process is no longer there."""

    pid: int
    rank: int
    at: float


class Helper(NamedTuple):
    """A process that a rank forked: it inherits RANK and belongs to that rank."""

    pid: int
    rank_pid: int
    role: str
    """``data_worker``, ``compile_worker`` or ``helper``."""
    state: str
    wchan: str
    cpu: float
    rss: int
    command: str


class HelperGone(NamedTuple):
    """A helper ended."""

    pid: int
    rank_pid: int
    at: float


# --- GPUs --------------------------------------------------------------------------------------------------------


class GpuFacts(NamedTuple):
    """What does not move in a GPU."""

    gpu: int
    """Index as nvidia-smi numbers them."""
    uuid: str
    bus_id: str
    name: str
    driver: str
    memory_total: Optional[int]
    power_limit: Optional[float]
    """Watts."""
    sm_clock_max: Optional[int]
    """MHz."""
    pcie_gen_max: Optional[int]
    pcie_width_max: Optional[int]
    mig: str


class GpuSample(NamedTuple):
    """One row of nvidia-smi."""

    gpu: int
    pstate: str
    temperature: Optional[int]
    """Degrees Celsius."""
    memory_temperature: Optional[int]
    utilization: Optional[int]
    """Per cent of the last sample period in which a kernel ran."""
    memory_utilization: Optional[int]
    memory_used: Optional[int]
    power: Optional[float]
    """Watts."""
    sm_clock: Optional[int]
    """MHz."""
    event_reasons: Optional[int]
    """Bit mask of clocks_event_reasons.active (clocks_throttle_reasons before driver 535)."""
    pcie_gen: Optional[int]
    pcie_width: Optional[int]
    ecc_uncorrected: Optional[int]
    sram_threshold_exceeded: Optional[bool]
    remapped_correctable: Optional[int]
    remapped_uncorrectable: Optional[int]
    remap_pending: Optional[bool]
    remap_failure: Optional[bool]
    recovery_action: str
    odd: Dict[str, str] = {}  # noqa: RUF012 (a NamedTuple is never changed)
    """Values that are neither what their field holds nor merely not available, verbatim by field name: ``ERR!``."""


class GpuProcess(NamedTuple):
    """A process on a GPU, from the compute-apps list."""

    bus_id: str
    pid: int
    memory: Optional[int]
    sm: Optional[int]
    """Per cent of the SMs, where NVML tells."""
    name: str


class GpuProcesses(NamedTuple):
    """The whole compute-apps list; sent when it changes."""

    processes: List[GpuProcess]


class GpuFault(NamedTuple):
    """A line of nvidia-smi that is no row, or an index that is missing: shown as what it is.

    An empty text says that what was told of this GPU before is over.
    """

    gpu: Optional[int]
    bus_id: str
    text: str


class NvlinkCounters(NamedTuple):
    """Errors and traffic of one NVLink."""

    gpu: int
    link: int
    active: bool
    replay_errors: Optional[int]
    recovery_errors: Optional[int]
    crc_errors: Optional[int]
    received: Optional[int]
    sent: Optional[int]


# --- fabric and network ------------------------------------------------------------------------------------------


class PortFacts(NamedTuple):
    """One port of one HCA."""

    device: str
    port: int
    link_layer: str
    """``InfiniBand`` or ``Ethernet`` (RoCE)."""
    state: str
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``."""
    phys_state: str
    """``LinkUp``, ``Polling``, ``Disabled`` …"""
    rate: Optional[float]
    """Gb/s."""
    rate_text: str
    lid: Optional[int]
    sm_lid: Optional[int]
    netdev: str
    firmware: str
    board: str


class PortCounters(NamedTuple):
    """Counters of one port: the changed ones only, after a first full list. Data counters are in bytes."""

    device: str
    port: int
    source: str
    """``sysfs``, ``perfquery`` (32 bit, saturating) or ``perfquery-x``."""
    values: Dict[str, int]


class Interface(NamedTuple):
    """One network interface."""

    name: str
    mtu: int
    speed: Optional[int]
    """Mb/s."""
    up: bool
    addresses: List[str]
    """With the length of their network's prefix: ``10.0.0.1/24``."""
    kind: str
    """``physical``, ``virtual``, ``loopback``, ``ipoib``."""


class InterfaceCounters(NamedTuple):
    """Traffic and losses of one interface since boot."""

    name: str
    received: int
    sent: int
    receive_drops: int
    send_drops: int
    receive_errors: int
    send_errors: int


class TcpCounters(NamedTuple):
    """TCP segments of this network namespace since boot (/proc/net/snmp)."""

    segments_sent: int
    retransmitted: int


class PortUse(NamedTuple):
    """Who uses a TCP port that the job needs."""

    port: int
    listeners: List[str]
    """``pid command``; the pid is missing when it may not be read."""
    listening: bool
    established: int
    time_wait: int


# --- logs and kernel ---------------------------------------------------------------------------------------------


class LogFile(NamedTuple):
    """A file that is followed, or one that cannot be."""

    path: str
    file_id: str
    """Device and inode; on a shared file system also its source, so that one node alone reads it."""
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    """``stdout``, ``stderr``, ``nccl``, ``elastic`` or ``extra``."""
    size: int
    shared: str
    """Type and source of a shared file system, ``nfs4 server:/export``; empty on a local one."""
    why: str
    """Why it is not read; empty when it is."""
    modified: Optional[float] = None
    """When it was last written."""
    left_out: int = 0
    """Bytes that were not read, because it grew faster than it may be read."""


class LogLines(NamedTuple):
    """New lines of a file that is on view."""

    path: str
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    at: float
    lines: List[str]
    skipped: int
    """Lines that were not sent before these (a flood is sampled)."""


class LogEvent(NamedTuple):
    """A line (or block) of a log that says something, in typed form."""

    kind: str
    """``nccl.warn``, ``torch.watchdog_timeout``, ``python.exception``, ``kernel.xid`` …: see ``docs/log-events.md``."""
    at: Optional[float]
    """Time in the line if it has one, else when it was read; None in a file without times."""
    rank: Optional[int]
    """Global rank, when the line or the file's owner tells it."""
    host: str
    pid: Optional[int]
    source: str
    """Path of the file, ``dmesg``, ``journal``, ``nvml``."""
    line: int
    """1-based number of the (first) line in the source; 0 when unknown."""
    text: str
    """Verbatim, at most a few kilobytes."""
    data: Dict[str, Value]


class CommProgress(NamedTuple):
    """Last collective that one rank launched on one communicator, summarised from its NCCL log."""

    comm: str
    """commId where the log tells it, else ``host:pid:pointer``."""
    rank: int
    """Rank within the communicator; -1 when no INIT line told it."""
    size: int
    global_rank: Optional[int]
    host: str
    pid: int
    op: str
    elements: int
    dtype: str
    op_count: int
    """opCount as printed; stays 0 where NCCL does not move it."""
    launched: int
    """Collectives seen on this communicator (Send and Recv only while nothing else was): an order that always moves."""
    at: Optional[float]
    source: str
    line: int
    whole: bool = True
    """False when the log was not read from its beginning: ``launched`` grows, but does not compare across ranks."""


# --- host --------------------------------------------------------------------------------------------------------


class HostFacts(NamedTuple):
    """What does not move on a host."""

    cpus: int
    memory_total: int
    booted: float
    versions: Dict[str, str]
    """``nvidia``, ``cuda``, ``nccl``, ``ofed``, ``torch`` as far as files tell."""
    settings: Dict[str, str]
    """Kernel settings that matter: ``ptrace_scope``, ``dmesg_restrict``, ``ip_local_port_range`` …"""


class HostSample(NamedTuple):
    """What moves on a host."""

    load: float
    """One-minute load average."""
    running: int
    memory_available: int
    shm_total: Optional[int]
    shm_used: Optional[int]
    pressure_io: Optional[float]
    """Share of the last 10 s in which some task waited for I/O, per cent (/proc/pressure)."""
    pressure_memory: Optional[float]


class Disk(NamedTuple):
    """A file system that the job writes to."""

    path: str
    role: str
    """``tmp``, ``shm``, ``cwd``, ``checkpoint``."""
    fstype: str
    total: int
    free: int
    free_inodes: Optional[int]


# --- stacks ------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """One frame of a stack."""

    name: str
    file: str
    line: int
    """0 in native frames."""
    native: bool
    arguments: Dict[str, str] = {}  # noqa: RUF012 (never written to)
    """Values of the few arguments that tell peers and groups apart (``src``, ``dst``, ``group`` …), in torch's own
    frames alone: anything else may hold secrets."""


class ThreadStack(NamedTuple):
    """One thread's frames, innermost first."""

    thread_id: int
    os_thread_id: Optional[int]
    name: str
    active: bool
    """Running rather than idle, as py-spy judges."""
    owns_gil: bool
    frames: List[Frame]


class StackDump(NamedTuple):
    """One look at one process. No frames and an ``error`` is an answer too: it is evidence."""

    pid: int
    rank_pid: int
    """The rank that the process belongs to; itself, or the parent of a data worker."""
    at: float
    method: str
    """``nonblocking``, ``blocking``, ``native`` or ``none``."""
    state: str
    wchan: str
    syscall: str
    """System call that the main thread is in, by name (by number where the name is not known); ``none`` outside one,
    empty when unknown."""
    cpu: float
    """CPU seconds of the process so far: two dumps tell busy from blocked."""
    error: str
    """``word: what was said``; the word is ``denied``, ``stopped``, ``gone``, ``not-python``, ``torn``, ``no-py-spy``,
    ``timeout`` or ``failed``; ``unreachable`` when the node itself did not answer."""
    threads: List[ThreadStack]
    waiting_on: str = ""
    """What that system call waits on, as far as its file descriptor tells: a path, ``pipe``, ``tcp 10.0.0.3:2049``."""
    kernel: List[str] = []  # noqa: RUF012 (never written to)
    """Kernel functions that it is in, innermost first; only when there are no frames or it is uninterruptible, and
    only for root."""
    way_out: str = ""
    """With ``denied`` or ``no-py-spy``: what would make it work on this node."""


# --- what the job's libraries say --------------------------------------------------------------------------------


class Collective(NamedTuple):
    """One entry of a flight recorder dump."""

    rank: int
    group: str
    """Name of the process group."""
    group_description: str
    seq: int
    """collective_seq_id; p2p_seq_id when ``p2p``."""
    op: str
    """``all_reduce``, ``broadcast`` …, without the backend's prefix."""
    backend: str
    p2p: bool
    peer: Optional[int]
    input_sizes: List[List[int]]
    output_sizes: List[List[int]]
    input_dtypes: List[str]
    output_dtypes: List[str]
    state: str
    """``scheduled``, ``started``, ``completed``; gloo's never leaves ``scheduled``."""
    retired: bool
    created: Optional[float]
    started: Optional[float]
    completed: Optional[float]
    timeout: Optional[float]
    frames: List[Frame]


class GroupStatus(NamedTuple):
    """How far one rank got in one process group; -1 is "none yet"."""

    rank: int
    group: str
    last_enqueued: Optional[int]
    last_started: Optional[int]
    last_completed: Optional[int]


class RecorderDump(NamedTuple):
    """One rank's flight recorder dump."""

    rank: int
    version: str
    source: str
    at: Optional[float]
    groups: Dict[str, List[int]]
    """Global ranks of each process group, as far as pg_config tells."""
    status: List[GroupStatus]
    collectives: List[Collective]


class RasRank(NamedTuple):
    """One rank of a communicator, as NCCL RAS reports it."""

    rank: int
    host: str
    pid: int
    cuda_device: Optional[int]
    state: str
    """``running``, ``init``, ``finalize``, ``abort``, ``missing``, ``unresponsive``, ``dead``."""
    async_error: int
    counts: Dict[str, int]
    """Collectives launched, by operation; empty when the rank did not answer."""


class RasCommunicator(NamedTuple):
    """One communicator of a RAS report."""

    comm: str
    size: int
    ranks: List[RasRank]
    status: str
    errors: str


class RasReport(NamedTuple):
    """One answer of the RAS socket."""

    at: float
    node: str
    nccl: str
    communicators: List[RasCommunicator]
    dead: List[str]
    """Peers that RAS gave up on."""
    complete: bool
    took: float


# --- what is asked once -------------------------------------------------------------------------------------------


class Observation(NamedTuple):
    """One answer of a one-shot check of a node: a value, or why there is none."""

    name: str
    """``loopback``, ``connect``, ``limit`` …: see ``collectors.node.preflight``."""
    subject: str
    """What was looked at: ``10.0.0.1:29500``, ``nofile``, ``/etc/nccl.conf``; empty where the name says it all."""
    value: Value
    error: str


class RecorderFile(NamedTuple):
    """A flight recorder dump as a node found it, or why a rank has none: that is evidence too."""

    rank: int
    pid: int
    path: str
    """The file; where there is none, where it would have been."""
    modified: Optional[float]
    data: str
    """Contents, base64; empty when there is no file."""
    pipe: str
    """The rank's pipe by which a dump can be asked for; empty when the job was started without one."""
    why: str
    """Why there is no data."""


class PathFigure(NamedTuple):
    """One direction of the path between two nodes, as the sending node saw it. None is "not measured"."""

    a: str
    """Node that connects and sends."""
    b: str
    connect: Optional[float]
    """Seconds of a TCP connect."""
    round_trip: Optional[float]
    """Median seconds of small TCP echoes."""
    mtu: Optional[int]
    """Largest IPv4 or IPv6 packet (headers included) that arrived unfragmented, bytes."""
    local_mtu: Optional[int]
    """Of the interface that the route leaves by."""
    interface: str
    """That interface."""
    source: str
    """Address that the kernel chose to send from."""
    throughput: Optional[float]
    """Bytes a second over one TCP connection."""
    retransmitted: Optional[float]
    """Share of its segments that this connection sent again, 0 to 1 (TCP_INFO)."""
    error: str
    method: str = "hangtop"
    """What measured the throughput: ``hangtop`` or ``iperf 3.12``; with the reason where iperf3 failed."""


# --- what a profiler trace says -----------------------------------------------------------------------------------


class TraceCall(NamedTuple):
    """One collective of one rank, as its trace has it."""

    op: str
    """``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all``, ``send_recv`` …"""
    group: str
    """Name and description of the process group, the same on all its ranks; empty where the trace does not tell."""
    start: float
    """From the trace's beginning."""
    seconds: float
    """Of the kernel, or on CPU from the call to its completion; it contains the wait for the other ranks."""
    size: Optional[int]
    """Of the buffer over all ranks where the operation has one."""
    seq: Optional[int]
    """Its number in the group."""


class TraceTotal(NamedTuple):
    """All calls of one operation in one group."""

    op: str
    group: str
    ranks: str
    """Members as torch writes them, ``[0, 1]``."""
    group_size: Optional[int]
    calls: int
    seconds: float
    """Sum."""
    worst: float
    size: Optional[int]
    """Sum."""


class TraceStep(NamedTuple):
    """One ``ProfilerStep``."""

    number: int
    start: float
    seconds: float
    compute: float
    communication: float
    exposed: float
    idle: float


class RankTrace(NamedTuple):
    """One rank's profiler trace in figures: every one is the length of a union of intervals (``docs/probes.md``)."""

    node: str
    """Where the file lies; empty for this machine."""
    path: str
    size: int
    """Of the file, compressed or not."""
    rank: Optional[int]
    world_size: Optional[int]
    device: str
    """``gpu``: the GPU's time; ``cpu``: the trace has none."""
    events: int
    """Events that counted."""
    damaged: int
    """Events that could not be decoded."""
    why: str
    """Why it could not be read, or not to its end; empty when it was."""
    began: Optional[float]
    """Wall clock of the first event."""
    wall: float
    """From the first event to the end of the last."""
    compute: float
    communication: float
    exposed: float
    """Communication while nothing was computed."""
    memcpy: float
    idle: float
    """Neither of these."""
    data: float
    """In a data loader's next, with neither of these."""
    inexact: float
    """By how much what overlaps may be wrong, because intervals were pushed together to bound the memory."""
    steps: List[TraceStep]
    totals: List[TraceTotal]
    """By operation and group, the longest first."""
    longest: List[TraceCall]
    calls: List[TraceCall]
    """The first ones in order of their start."""
    calls_left_out: int


# --- what a collective probe measured ----------------------------------------------------------------------------


class ProbeRank(NamedTuple):
    """One rank of a probe."""

    rank: int
    node: str
    state: str
    """``done``, ``absent`` (did not come to the barrier in time), ``failed``."""
    why: str
    late_over_median: Optional[float]
    """Time for the same work, over the median of all ranks."""


class ProbeFigure(NamedTuple):
    """One operation at one size over all ranks; see ``docs/probes.md`` for the definitions."""

    op: str
    size: int
    seconds: float
    """Slowest rank, mean over repeats."""
    algbw: float
    """GB/s (1e9 bytes)."""
    busbw: float
    """GB/s."""
    wrong_ranks: List[int]
    odd_ranks: List[int]
    """Ranks whose result differs in its bits from the majority's."""


class ProbePair(NamedTuple):
    """Two nodes measured alone."""

    a: str
    b: str
    busbw: Optional[float]
    """GB/s; None when it did not finish."""
    round_trip: Optional[float]
    """Median seconds of the smallest all_reduce."""
    worst_round_trip: Optional[float]
    retransmitted: Optional[float]
    """Share of TCP segments that one of the two had to send again meanwhile, 0 to 1 (the larger of the two)."""
    error: str


class NcclTest(NamedTuple):
    """What a binary of NVIDIA's nccl-tests measured on one node, over all its GPUs."""

    node: str
    program: str
    """Path on the node."""
    ranks: int
    figures: List[ProbeFigure]
    """Of the out-of-place columns; nccl-tests names no rank, so the lists of ranks are empty."""
    wrong: Optional[int]
    """Wrong elements over all sizes; None where they were not counted."""
    why: str
    """Why there are no figures; empty when there are some."""


class ProbeReport(NamedTuple):
    """Everything that one run of the collective probe found."""

    backend: str
    world_size: int
    at: float
    took: float
    outcome: str
    """``done``, ``failed`` or ``cancelled``."""
    why: str
    ranks: List[ProbeRank]
    figures: List[ProbeFigure]
    pairs: List[ProbePair]
    round_trip: Optional[float]
    network: Dict[str, Dict[str, str]]
    """By node, what NCCL's log of the probe said: ``version``, ``network`` (IB, Socket …), ``devices`` (names, spaces
    between), ``gdr`` (on, off, on N of M channels), ``channels``; a name that it did not say is not there."""
    tested: List[NcclTest] = []  # noqa: RUF012 (a NamedTuple is never changed)


# --- from here to the node ---------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """What the node side should do; sent whole at start and whenever it changes, on the control line."""

    interval: float
    phase: float
    """Fraction of the interval at which this node ticks, so that nodes spread over it."""
    job: Optional[List[str]]
    """``[KEY, VALUE]``: only ranks whose environment has it."""
    log_globs: List[str]
    on_view: List[str]
    """Paths whose raw lines are wanted; ``*`` is every followed file, sampled."""
    not_mine: List[str]
    """``file_id`` of files on shared storage that another node reads."""


class Beat(NamedTuple):
    """Heartbeat: re-arms the node side's alarm."""

    seq: int


class Lent(NamedTuple):
    """Something that the node side said it wants."""

    name: str
    content: str
    """Base64 of zlib."""


SAMPLES = (
    Hello, Tick, SourceState, Fault,
    RankProcess, RankPulse, RankGone, Helper, HelperGone,
    GpuFacts, GpuSample, GpuProcesses, GpuFault, NvlinkCounters,
    PortFacts, PortCounters, Interface, InterfaceCounters, TcpCounters, PortUse,
    LogFile, LogLines, LogEvent, CommProgress,
    HostFacts, HostSample, Disk,
    StackDump,
)  # fmt: skip
"""Every kind that a stream may carry, by class; the wire uses the class's name."""

CONTROLS = (Settings, Beat, Lent)
"""Every kind that the control line may carry."""
