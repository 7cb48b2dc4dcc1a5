"""``start()``: open the page and the access to this process, once, and list what was done."""

from __future__ import annotations

import atexit
import os
from typing import List, Optional

from collectors.samples.page import SIZE
from hangtop.inside import hooks, ways
from hangtop.inside.distributed import distributed_now
from hangtop.inside.page import Page
from hangtop.inside.steps import telling

OFF = "HANGTOP_INSIDE"
"""Environment variable that switches ``start()`` off without a change of the script: 0, off, no or false."""
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Variables of launchers: only the first rank of a node writes what was done."""


def _forked() -> None:
    """Reset in a forked child: the page is the parent's, and a child that is a rank calls start() itself."""
    telling.page = telling.did = None
    hooks.remove()


os.register_at_fork(after_in_child=_forked)


def start(*, tracer: bool = True, recorder: bool = True, automatic: bool = True, quiet: bool = False) -> List[str]:
    """Begin to report to hangtop. Call it once, before the first process group if possible.

    ``tracer``: let processes of this user trace this process; ``recorder``: set up torch's flight recorder;
    ``automatic``: count steps through torch's hooks. Returns lines about what was done, and writes them to standard
    error unless ``quiet``. Never raises; a line reports what the system refuses.
    """
    if telling.did is not None:
        return telling.did
    if os.environ.get(OFF, "").lower() in ("0", "off", "no", "false"):
        return ["off: %s=%s" % (OFF, os.environ[OFF])]
    did: List[str] = []
    try:
        did = _start(tracer=tracer, recorder=recorder, automatic=automatic)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in here must not reach the job
        did.append("failed: %s: %s" % (type(error).__name__, error))
    telling.did = did
    if not quiet and all(os.environ.get(name, "0") == "0" for name in _LOCAL_RANK):
        telling.say("".join("hangtop.inside: %s\n" % line for line in did))
    return did


def _start(*, tracer: bool, recorder: bool, automatic: bool) -> List[str]:
    try:
        page: Optional[Page] = Page()
        did = ["page: step and phase in shared memory, %d KiB" % (SIZE >> 10)]
    except (OSError, AttributeError) as error:
        page, did = None, ["page: none (%s)" % error]
    pipe = ""
    if tracer:
        did.append(ways.let_trace())
    if recorder:
        pipe, said = ways.record(os.environ, started=distributed_now() is not None)
        did.append(said)
    if automatic:
        did.append(hooks.count_steps())
    if page is not None:
        page.pipe(pipe)
        telling.page = page
        atexit.register(stop)
    return did


def stop() -> None:
    """Remove the page and the hooks; permission to trace and recorder settings stay until the process ends."""
    page, telling.page = telling.page, None
    telling.did = None
    if page is not None:
        hooks.remove()
        page.close()
