"""GPUs that were given twice, or that do not exist: NCCL's warning, or CUDA's error in torch's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.witnesses.devices import gpu_at
from hangtop.diagnosis.witnesses.event_fields import number_of, numbers_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said, warned
from hangtop.diagnosis.witnesses.named_gpus import NAMELESS


def duplicate_gpu(job: Job) -> Iterator[Finding]:
    """duplicate_gpu and invalid_device: two ranks on one GPU, or an ordinal that does not exist.

    Needs NCCL's warning, or CUDA's error in torch's words.
    """
    events = warned(job, "duplicate_gpu")
    if events:
        ranks = tuple(sorted({rank for event in events for rank in numbers_of(event, "group_ranks")}))
        device = text_of(events[0], "device") or number_of(events[0], "device")
        yield Finding(
            "duplicate_gpu", "critical", 0.95,
            f"{who(ranks, 'two ranks')} use the same GPU" + (f", {device}" if device not in ("", None) else ""),
            ranks=ranks, nodes=hosts_in(job, events), gpus=_given_twice(job, events, device), evidence=lines(events),
            advice="Give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK), and no CUDA_VISIBLE_DEVICES by hand "
            "under torchrun.",
        )  # fmt: skip
    invalid = (*warned(job, "invalid_device"), *said(job, "torch.cuda_error", "invalid_device"))
    if invalid:
        ranks = ranks_in(invalid)
        yield Finding(
            "invalid_device", "critical", 0.9,
            f"{who(ranks)} asks for a GPU that it does not have",
            ranks=ranks, nodes=hosts_in(job, invalid), evidence=lines(invalid),
            advice="Compare LOCAL_RANK with CUDA_VISIBLE_DEVICES: LOCAL_RANK counts within that list.",
        )  # fmt: skip


def _given_twice(job: Job, events: Sequence[LogEvent], device: object) -> tuple[str, ...]:
    """The GPU by its address: NCCL prints it as ``1b000``, a bus, a device and a function without domain and colons."""
    node = next(iter(hosts_in(job, events)), NAMELESS)
    digits = str(device or "").removeprefix("0x").rjust(5, "0")
    if not re.fullmatch(r"[0-9a-f]{5,12}", digits):
        return ()
    bus = f"{digits[:-5][-4:].rjust(4, '0')}:{digits[-5:-3]}:{digits[-3:-1]}"
    known = job.nodes.get(node)
    index = gpu_at(known, bus) if known is not None else None
    return (f"{node}:{bus if index is None else index}",)
