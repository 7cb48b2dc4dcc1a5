"""Frames in which any Python program waits: locks, queues, children, the network. The table, with its sources.

They settle what a rank does only where no row of ``waits.py`` does, and where no phase around them says more (a queue
inside the data loader is the data loader's).
"""

from __future__ import annotations

from hangtop.diagnosis.stacks.vocabulary import ANY, NativeWait, Phase, Wait

_STDLIB = "CPython 3.8-3.14"
_RUN = "run CPython 3.11; 3.8-3.14"

PROMPT = "waits at a prompt for somebody to type"

NETWORK = "waits for the network"

SERVER = "serves whoever asks it"
"""What is said of a library's loop that serves, between two requests: nobody asks, and that is no fault."""

LOCK_FILE = "waits for a lock file"
EVENT_LOOP = "waits in an event loop"
EMPTIED = "waits for a queue to be emptied"

GENERIC_WAITS: tuple[Wait, ...] = (
    Wait("/pdb.py", "interaction _cmdloop cmdloop", "code", "storage", PROMPT, _RUN),
    Wait("/code.py", "interact raw_input", "code", "storage", PROMPT, _STDLIB),
    Wait("/IPython/terminal/", ANY, "code", "storage", PROMPT, "IPython 8"),
    Wait("/threading.py", "join _wait_for_tstate_lock", "lock", "lock", "waits for a thread to end", _RUN),
    Wait("/queue.py", "get put", "lock", "lock", "waits at a queue", _RUN),
    Wait("/queue.py", "join", "lock", "lock", EMPTIED, _RUN),
    Wait("/multiprocessing/queues.py", "get put join_thread", "lock", "helper", "waits at a process's queue", _RUN),
    Wait("/multiprocessing/synchronize.py", "acquire wait __enter__", "lock", "lock", "waits for a process's lock",
         _STDLIB),
    Wait("/multiprocessing/connection.py", "recv recv_bytes poll _recv _recv_bytes _poll wait accept", "lock", "helper",
         "waits for a process's message", _RUN),
    Wait("/multiprocessing/pool.py", "get wait next join map apply starmap", "lock", "helper",
         "waits for a pool of processes", _STDLIB),
    Wait("/multiprocessing/popen_fork.py", "wait poll", "code", "helper", "waits for a child process", _STDLIB),
    Wait("/concurrent/futures/_base.py", "result exception wait as_completed result_iterator", "lock", "lock",
         "waits for a future", _RUN),
    Wait("/multiprocessing/queues.py", "_finalize_join", "lock", "lock",
         "waits for what it put into a queue to be taken", _RUN),
    Wait("/concurrent/futures/thread.py", "shutdown", "lock", "lock", "waits for a pool of threads", _RUN),
    Wait("/concurrent/futures/process.py", "shutdown", "lock", "helper", "waits for a pool of processes", _STDLIB),
    Wait("/threading.py", "wait wait_for acquire __enter__", "lock", "lock", "waits for a lock or an event", _RUN),
    Wait("/filelock/", ANY, "lock", "lock", LOCK_FILE, "filelock 3"),
    Wait("torch/utils/file_baton.py", "wait", "lock", "lock", "waits for another process's build", "2.1-2.13"),
    Wait("/subprocess.py", "wait _wait _try_wait communicate _communicate run call check_call check_output", "code",
         "helper", "waits for a child process", _RUN),
    Wait("/asyncio/", ANY, "code", "unknown", EVENT_LOOP, _RUN),
    Wait("/ssl.py", "read recv recv_into do_handshake send sendall write", "code", "storage", NETWORK,
         _STDLIB),
    Wait("/socket.py", "readinto recv accept create_connection getaddrinfo", "code", "storage",
         NETWORK, _RUN),
    Wait("/socketserver.py", "serve_forever", "code", "storage", SERVER, _RUN),
    Wait("/http/client.py", ANY, "code", "storage", NETWORK, _RUN),
)  # fmt: skip

GENERIC_NATIVE: tuple[NativeWait, ...] = (
    NativeWait("take_gil", "lock", "lock", "waits for the GIL", "CPython ceval_gil"),
    NativeWait("PyEval_RestoreThread", "lock", "lock", "waits for the GIL", "CPython ceval"),
    NativeWait("PyEval_AcquireThread", "lock", "lock", "waits for the GIL", "CPython ceval"),
    NativeWait("PyGILState_Ensure", "lock", "lock", "waits for the GIL", "CPython pystate"),
    NativeWait("lock_PyThread_acquire_lock", "lock", "lock", "waits for a lock", "run CPython 3.11; _threadmodule"),
    NativeWait("rlock_acquire", "lock", "lock", "waits for a lock", "CPython _threadmodule"),
    NativeWait("simplequeue_get", "lock", "lock", "waits at a queue", "CPython _queuemodule"),
    NativeWait("_queue_SimpleQueue_get", "lock", "lock", "waits at a queue", "CPython _queuemodule"),
    NativeWait("_multiprocessing_SemLock_acquire", "lock", "lock", "waits for a process's lock",
               "CPython _multiprocessing"),
    NativeWait("time_sleep", "sleep", "time", "sleeps", "run CPython 3.11; timemodule"),
    NativeWait("pysleep", "sleep", "time", "sleeps", "CPython timemodule"),
    NativeWait("PyThread_acquire_lock", "lock", "lock", "waits for a lock", "run CPython 3.11; thread_pthread"),
    NativeWait("_PyMutex_Lock", "lock", "lock", "waits for a lock", "CPython 3.13 lock.c"),
    # a thread beside the main one, of which the kernel is not asked: it sends or receives
    *(NativeWait(symbol, "code", "storage", NETWORK, "run CPython 3.11; socketmodule, _ssl")
      for symbol in ("sock_call_ex", "sock_sendall", "sock_recv", "internal_connect", "_ssl__SSLSocket_read",
                     "_ssl__SSLSocket_write", "_ssl__SSLSocket_do_handshake")),
    # no waits: who is met in there multiplies and adds
    NativeWait("mkl_blas", "code", "nothing", "computes", "run torch 2.13 with MKL"),
    NativeWait("at::native::", "code", "nothing", "computes", "run torch 2.13"),
    NativeWait("sgemm_kernel", "code", "nothing", "computes", "OpenBLAS 0.3"),
    NativeWait("dgemm_kernel", "code", "nothing", "computes", "OpenBLAS 0.3"),
    # … or goes through all that Python holds, or packs: one call of many seconds
    NativeWait("gc_collect_main", "code", "nothing", "collects garbage", "run CPython 3.11; 3.8-3.14"),
    NativeWait("deflate", "code", "nothing", "compresses", "run zlib 1.2"),
    NativeWait("inflate", "code", "nothing", "decompresses", "zlib 1.2"),
    NativeWait("BZ2_bz", "code", "nothing", "compresses or decompresses", "run bzip2 1.0"),
    NativeWait("lzma_code", "code", "nothing", "compresses or decompresses", "run liblzma 5.4"),
    NativeWait("ZSTD_", "code", "nothing", "compresses or decompresses", "zstd 1.5"),
    NativeWait("LZ4_", "code", "nothing", "compresses or decompresses", "lz4 1.9"),
)  # fmt: skip

LEFT = "has left the program"
"""What is said of who shuts down; with what it waits for behind it, where the frames further in tell."""

SHUTDOWN_PHASES: tuple[Phase, ...] = (
    Phase("/threading.py", "_shutdown", "shutdown", "has left the program: waits for its threads to end", _STDLIB,
          "shutdown", "lock"),
    Phase("/concurrent/futures/thread.py", "_python_exit", "shutdown", "has left the program: waits for its threads",
          _STDLIB, "shutdown", "lock"),
    Phase("/concurrent/futures/process.py", "_python_exit", "shutdown", "has left the program: waits for its processes",
          _STDLIB, "shutdown", "helper"),
    Phase("/multiprocessing/util.py", "_exit_function _run_finalizers", "shutdown", LEFT, _STDLIB, "shutdown",
          "helper"),
    Phase("/weakref.py", "_exitfunc", "shutdown", LEFT, _STDLIB, "shutdown"),
    Phase("/logging/__init__.py", "shutdown", "shutdown", "has left the program: closes its logs", _STDLIB, "shutdown"),
)  # fmt: skip
