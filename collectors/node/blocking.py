"""Questions to the kernel that may hang for ever, asked where that harms nobody.

/proc/PID/environ, cmdline and maps need the memory map of the process. If it is stuck in the kernel with that map
locked (a page fault on a dead file server), so is every reader, and exactly that process is the one to find. A file
system whose server is gone hangs whoever asks for its size.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, Generic, Mapping, Sequence, Set, TypeVar, Union

from collectors.node.files import read

T = TypeVar("T")


class BlockingGuard(Generic[T]):
    """Asks in a thread that is left behind when an answer does not come."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self.stuck: Set[str] = set()
        """Names of the questions that hang at this moment; they are not asked again until they have been answered."""

    def ask(self, questions: Mapping[str, Callable[[], T]]) -> Dict[str, Union[T, OSError]]:
        """Answers, or errors, by name.

        What stands behind a question that hangs goes unanswered this time. Waits at most the ``patience`` given.
        """
        wanted = {name: question for name, question in questions.items() if name not in self.stuck}
        if not wanted:
            return {}
        answers: Dict[str, Union[T, OSError]] = {}
        thread = threading.Thread(target=self._answer, args=(wanted, answers), daemon=True)
        thread.start()
        thread.join(self._patience)
        with self._lock:
            said = dict(answers)
            if thread.is_alive():
                self.stuck.update([name for name in wanted if name not in said][:1])
        return said

    def _answer(self, wanted: Mapping[str, Callable[[], T]], answers: Dict[str, Union[T, OSError]]) -> None:
        """Answer them in their order, until nobody waits for the rest any more."""
        for name, question in wanted.items():
            answer: Union[T, OSError]
            try:
                answer = question()
            except OSError as error:
                answer = error.with_traceback(None)  # or its frames would keep all answers alive
            with self._lock:
                answers[name] = answer
                if name in self.stuck:
                    self.stuck.discard(name)
                    return


Answer = Union[bytes, OSError]


class GuardedReader(BlockingGuard[bytes]):
    """Reads files of /proc that may hang."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(patience)

    def read_all(self, paths: Sequence[str]) -> Dict[str, Answer]:
        """Contents, or the error, of each file that answered."""
        return self.ask({path: lambda path=path: read(path) for path in paths})  # type: ignore[misc]
