"""Runs system calls that may hang forever in threads of their own.

/proc/PID/environ, cmdline and maps need the memory map of the process. If the process is stuck in the kernel with that
map locked (a page fault on a dead file server), every reader hangs too, and exactly that process is of interest. A
file system whose server is gone hangs statvfs.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Sequence, Set, TypeVar, Union

from collectors.node.files import read

T = TypeVar("T")


class BlockingGuard:
    """Asks questions in a thread, which is abandoned if an answer does not come."""

    def __init__(self, patience: float = 2.0) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self.stuck: Set[str] = set()
        """Paths whose question hangs now; no further question about them is asked until then."""

    def ask(self, paths: Sequence[str], question: Callable[[str], T]) -> Dict[str, Union[T, OSError]]:
        """The answer, or the error, for each path. Waits for all together at most ``patience`` seconds.

        Paths are asked about in order; if one hangs, those after it have no answer this time.
        """
        wanted = [path for path in paths if path not in self.stuck]
        if not wanted:
            return {}
        answers: Dict[str, Union[T, OSError]] = {}
        thread = threading.Thread(target=self._answer, args=(wanted, question, answers), daemon=True)
        thread.start()
        thread.join(self._patience)
        with self._lock:
            if thread.is_alive():
                self.stuck.update([path for path in wanted if path not in answers][:1])
            return dict(answers)

    def read(self, path: str) -> Optional[bytes]:
        """Contents of a file of /proc; None if it is missing or unreadable, or if the read hangs."""
        answer = self.ask([path], read).get(path)
        return answer if isinstance(answer, bytes) else None

    def _answer(self, wanted: List[str], question: Callable[[str], T], answers: Dict[str, Union[T, OSError]]) -> None:
        """Answer the questions in order; stop after a question that was reported as stuck."""
        for path in wanted:
            answer: Union[T, OSError]
            try:
                answer = question(path)
            except OSError as error:
                answer = error.with_traceback(None)  # the traceback's frames would keep all answers alive
            with self._lock:
                answers[path] = answer
                if path in self.stuck:
                    self.stuck.discard(path)
                    return
