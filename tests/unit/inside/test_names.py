"""Names of threads in the operating system."""

from __future__ import annotations

import threading
from pathlib import Path

from hangtop.inside import names


def test_threads_get_the_names_that_python_knows() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="reader of shards", daemon=True)
    thread.start()
    try:
        names.name_threads(threading.enumerate())
        assert Path(f"/proc/self/task/{thread.native_id}/comm").read_text().strip() == "reader of shard"
        assert names.name_threads([thread]) == 0
    finally:
        done.set()
        thread.join()
