"""Queries of the job's store, each in a thread, because a store with a stopped server must not block the rank."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Iterable, List

PAUSES = (0.002, 0.1)
"""Seconds between two checks for a key: the first pause, and the longest."""


class Unreachable(Exception):
    """The store does not answer, or answers with an error; the text gives the reason."""


class StoreQueries:
    """One store during one check. No query lasts beyond ``until``."""

    def __init__(self, store: Any, until: float) -> None:
        """``until``: a time of the monotonic clock."""
        self.until = until
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        """Set a key."""
        self._ask(lambda: self._store.set(key, value))

    def get(self, key: str) -> bytes:
        """The value of a key that is present; for an absent key the store would wait."""
        value: bytes = self._ask(lambda: self._store.get(key))
        return value

    def present(self, keys: List[str]) -> bool:
        """Whether all keys are present."""
        return bool(self._ask(lambda: self._store.check(keys)))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete keys; a failure does not matter."""
        for key in keys:
            try:
                self._ask(lambda key=key: self._store.delete_key(key))  # type: ignore[misc]
            except Unreachable:
                return

    def wait(self, keys: List[str], until: float) -> bool:
        """Poll until all keys are present or ``until`` has passed; returns whether they are present."""
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
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                answer.append(error)

        thread = threading.Thread(target=serve, name="hangtop-store", daemon=True)
        thread.start()
        thread.join(max(0.05, self.until - time.monotonic()))
        if not answer:
            raise Unreachable("the job's store does not answer: the process that holds it is stopped or gone")
        value = answer[0]
        if isinstance(value, BaseException):
            raise Unreachable("the job's store: %s: %s" % (type(value).__name__, str(value).split("\n")[0][:200]))
        return value
