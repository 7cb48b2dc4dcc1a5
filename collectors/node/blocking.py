"""Questions to the kernel that may hang for ever, asked where that harms nobody.

/proc/PID/environ, cmdline and maps need the memory map of the process. If it is stuck in the kernel with that map
locked (a page fault on a dead file server), so is every reader, and exactly that process is the one to find. A file
system whose server is gone hangs whoever asks for its size.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Callable, Dict, Generic, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar, Union

from collectors.node.files import read

T = TypeVar("T")


IDLE = 30.0
"""Seconds after which a thread that nobody asks any more ends: to begin one for each question would cost more than most
questions do."""


class _Round(Generic[T]):
    """Questions that are asked together."""

    def __init__(self, wanted: List[Tuple[str, Callable[[], T]]]) -> None:
        self.wanted = wanted
        self.answers: Dict[str, Union[T, OSError]] = {}
        self.done = threading.Lock()
        """Held until all have been answered: the cheapest thing that can be waited for."""
        self.done.acquire()


class BlockingGuard(Generic[T]):
    """Asks in a thread that is left behind when an answer does not come."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._rounds: "Optional[SimpleQueue[_Round[T]]]" = None
        """Where the thread takes its questions from; None while there is none."""
        self.stuck: Set[str] = set()
        """Names of the questions that hang at this moment; they are not asked again until they have been answered."""

    def ask(self, questions: Mapping[str, Callable[[], T]]) -> Dict[str, Union[T, OSError]]:
        """Answers, or errors, by name.

        What stands behind a question that hangs goes unanswered this time. Waits at most the ``patience`` given.
        """
        wanted = [(name, question) for name, question in questions.items() if name not in self.stuck]
        if not wanted:
            return {}
        asked = _Round(wanted)
        with self._lock:
            if self._rounds is None:
                self._rounds = SimpleQueue()
                threading.Thread(target=self._work, args=(self._rounds,), daemon=True).start()
            rounds = self._rounds
            rounds.put(asked)
        if asked.done.acquire(timeout=self._patience):
            return asked.answers
        with self._lock:
            said = dict(asked.answers)
            self._leave(rounds)
            self.stuck.update([name for name, _ in wanted if name not in said][:1])
        return said

    def _leave(self, rounds: "SimpleQueue[_Round[T]]") -> None:
        """Give this thread no more questions."""
        if self._rounds is rounds:
            self._rounds = None

    def _work(self, rounds: "SimpleQueue[_Round[T]]") -> None:
        while True:
            try:
                asked = rounds.get(timeout=IDLE)
            except Empty:
                with self._lock:
                    if rounds.empty():
                        self._leave(rounds)
                        return
                continue
            try:
                if not self._answer(asked):
                    return
            except BaseException:  # a fault of the question: the next ones have another thread
                with self._lock:
                    self._leave(rounds)
                raise
            finally:
                asked.done.release()
            del asked  # with all that was answered

    def _answer(self, asked: "_Round[T]") -> bool:
        """Answer them in their order; False where nobody waits for the rest any more."""
        for name, question in asked.wanted:
            answer: Union[T, OSError]
            try:
                answer = question()
            except OSError as error:
                answer = error.with_traceback(None)  # or its frames would keep all answers alive
            with self._lock:
                asked.answers[name] = answer
                if name in self.stuck:
                    self.stuck.discard(name)
                    return False
        return True


Answer = Union[bytes, OSError]


class GuardedReader(BlockingGuard[bytes]):
    """Reads files of /proc that may hang."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(patience)

    def read_all(self, paths: Sequence[str]) -> Dict[str, Answer]:
        """Contents, or the error, of each file that answered."""
        return self.ask({path: lambda path=path: read(path) for path in paths})  # type: ignore[misc]
