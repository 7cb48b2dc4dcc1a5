"""The job's store, each time asked from a thread: a store whose server is stopped must hold nobody up."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Iterable, List

PAUSES = (0.002, 0.1)
"""Seconds between two looks for a key: the first, and the longest."""


class Unreachable(Exception):
    """The store gives no answer, or an error; the text says which."""


class StoreQueries:
    """One store for the time of one check. Nothing that is asked here takes longer than until ``until``."""

    def __init__(self, store: Any, until: float) -> None:
        """``until`` is a time of the monotonic clock."""
        self.until = until
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        """Put a value there."""
        self._ask(lambda: self._store.set(key, value))

    def get(self, key: str) -> bytes:
        """A value that is there: a store would wait for one that is not."""
        value: bytes = self._ask(lambda: self._store.get(key))
        return value

    def present(self, keys: List[str]) -> bool:
        """Whether all of these are there."""
        return bool(self._ask(lambda: self._store.check(keys)))

    def delete(self, keys: Iterable[str]) -> None:
        """Take these away; a store that keeps what it has is no trouble."""
        for key in keys:
            try:
                self._ask(lambda key=key: self._store.delete_key(key))  # type: ignore[misc]
            except Unreachable:
                return

    def wait(self, keys: List[str], until: float) -> bool:
        """Look until all of these are there, or it is too late; whether they are."""
        pause, longest = PAUSES
        while not self.present(keys):
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, longest)
        return True

    def _ask(self, work: Callable[[], Any]) -> Any:
        answer: List[Any] = []

        def serve() -> None:
            try:
                answer.append(work())
            except BaseException as error:  # noqa: BLE001 - handed to whoever asked
                answer.append(error)

        thread = threading.Thread(target=serve, name="hangtop-store", daemon=True)
        thread.start()
        thread.join(max(0.05, self.until - time.monotonic()))
        if not answer:
            raise Unreachable("the job's store does not answer: the process that keeps it is stopped or gone")
        value = answer[0]
        if isinstance(value, BaseException):
            raise Unreachable("the job's store: %s: %s" % (type(value).__name__, str(value).split("\n")[0][:200]))
        return value
