"""The frames of C++ that torch prints behind an exception, where its message is not there.

``frame #2: c10d::ProcessGroupNCCL::WorkNCCL::… + 0x6c (0x7f… in …/libtorch_cuda.so)``, innermost first; glog's and
absl's dumps have `` @ 0x7f… name``. Of what a program calls that prints a stack and goes on nothing is known: hearsay.
"""

from __future__ import annotations

from typing import Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.records.stack_lines import StackLines
from collectors.node.logs.said import Data, Said

FRAME = re.compile(
    r"^\s{0,8}(?:(?:\[E [^\]]{0,80}\] ?)?frame #\d{1,4}: (?P<torch>[^\r\n]{1,400}?)(?: \+ 0x[0-9a-f]{1,16}|$)"
    r"|(?:[\w.:-]{1,60} ){0,3}(?:\[\d{1,6}\] {1,8})?(?:PC: )?@ {1,16}0x[0-9a-f]{6,16} {1,12}(?P<absl>[^\r\n]{1,400})$"
    r"|\[bt\] \(\d{1,3}\) (?P<dmlc>[^\r\n]{1,400})$"
    r"|\d{1,3}# (?P<boost>[^\r\n]{1,400} in [\w./+-]{1,300}) ?$"
    r"|(?:\[[\w.-]{1,80}:\d{1,9}\] )?\[ ?\d{1,3}\] (?P<mpi>[^\r\n]{1,400}\[0x[0-9a-f]{4,16}\]) ?$"
    r"|(?P<file>/[^\s(]{1,300})\((?P<glibc>[^\r\n]{0,400}?)\+0x[0-9a-f]{1,16}\) ?\[0x[0-9a-f]{4,16}\] ?$)"
)
"""A frame of torch, of glog and absl (their size of the frame in front), boost, dmlc (MXNet, XGBoost), Open MPI,
and glibc's ``backtrace_symbols``."""
_SIZE = re.compile(r"^(?:\d{1,12}|\(unknown\)) {2,12}(?=\S)")
ORIGIN = re.compile(r"^\s{0,4}Exception raised from (?P<name>[\w:~]{1,120}) at (?P<file>[^\s:]{1,300}:\d{1,6})")
_MEANINGS: Tuple[Tuple[str, str, "re.Pattern[str]"], ...] = tuple(
    (signature, what, re.compile(pattern))
    for signature, what, pattern in (
        ("cuda", "a call of CUDA failed", r"c10_cuda_check_implementation|c10::cuda::CUDAError|c10_hip_check"),
        ("out_of_memory", "an allocation on the GPU failed", r"CachingAllocator::\w+::malloc|OutOfMemoryError"),
        (
            "user",
            "the process aborted",
            r"(?m)^(?:gsignal|abort|raise)(?: in |$)|std::terminate|dmlc::LogMessageFatal|dmlc15LogMessageFatal",
        ),
        ("store", "the store did not answer", r"TCPStore::(?:doWait|wait|doGet)|TCPClient::connect"),
        (
            "connection",
            "the connection to the store was lost",
            r"detail::recvBytes|detail::sendBytes|recvVector|TCPStore::check",
        ),
        ("nccl", "a call of NCCL failed", r"checkForNCCLErrors|getNCCLComm|ncclCommInit|NCCLComm::create"),
        ("collective_timeout", "a collective timed out", r"WorkNCCL::checkTimeout|WorkNCCL::handleException"),
    )
)


class NativeStack(StackLines):
    """Takes the lines of one stack; :meth:`end` gives the event."""

    def __init__(self) -> None:
        super().__init__()
        self._origin = ""

    def take(self, text: str) -> bool:
        """Whether the line is one of its frames, or says where the exception was raised."""
        frame, origin = FRAME.match(text), ORIGIN.match(text)
        name: Optional[str] = None
        if origin is not None and not self._origin:
            self._origin = "%s at %s" % (origin.group("name"), origin.group("file"))
        elif frame is None:
            self.over = True
            return False
        else:
            told = next(
                group for group in frame.group("torch", "absl", "mpi", "boost", "dmlc", "glibc", "file") if group
            )
            name = _SIZE.sub("", told.strip())
        self._keep(text, name)
        return True

    def end(self) -> Optional[Said]:
        """The event; None for a single frame that tells nothing."""
        frames = "\n".join(self._frames)
        known = next((row for row in _MEANINGS if row[2].search(frames)), None)
        if not self._origin and known is None and len(self._frames) < 2:
            return None
        data: Data = {"told": "stack", "frames": list(self._frames[:60]), "signature": known[0] if known else "user"}
        where = "in " + self._origin if self._origin else ""
        data["message"] = (known[1] if known else "a C++ exception whose message is not there") + (
            " (%s)" % where if where else ""
        )
        data["consequence"] = data["signature"] == "connection"
        return Said("log.error", data)
