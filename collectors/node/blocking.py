"""Questions to the kernel that may hang for ever, asked where that harms nobody.

/proc/PID/environ, cmdline and maps need the memory map of the process. If it is stuck in the kernel with that map
locked (a page fault on a dead file server), so is every reader, and exactly that process is the one to find. A file
system whose server is gone hangs whoever asks for its size.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Sequence, Set, TypeVar, Union

from collectors.node.files import read

T = TypeVar("T")


class BlockingGuard:
    """Asks in a thread that is left behind when an answer does not come."""

    def __init__(self, patience: float = 2.0) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self.stuck: Set[str] = set()
        """Paths about which a question hangs now; they are not asked about until it has been answered."""

    def ask(self, paths: Sequence[str], question: Callable[[str], T]) -> Dict[str, Union[T, OSError]]:
        """The answer, or the error, for each path.

        What stands behind a question that hangs goes unanswered this time. Waits at most the ``patience`` given.
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
        """Contents of a file of /proc; None where it is not there, may not be read, or does not answer."""
        answer = self.ask([path], read).get(path)
        return answer if isinstance(answer, bytes) else None

    def _answer(self, wanted: List[str], question: Callable[[str], T], answers: Dict[str, Union[T, OSError]]) -> None:
        """Answer them in their order, until nobody waits for the rest any more."""
        for path in wanted:
            answer: Union[T, OSError]
            try:
                answer = question(path)
            except OSError as error:
                answer = error.with_traceback(None)  # or its frames would keep all answers alive
            with self._lock:
                answers[path] = answer
                if path in self.stuck:
                    self.stuck.discard(path)
                    return
