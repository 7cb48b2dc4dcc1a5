"""Runs where a rank is and as whom it is, with the rank's own interpreter: a program of its own, fed from memory.

It is started with one line of JSON on its standard input, and stands alone: it can import nothing any more once it is
in another mount namespace. ``read`` has Python 3.14's ``_remote_debugging`` read the stacks of the rank from outside;
``send`` has ``sys.remote_exec`` (PEP 768) run a script in the rank's main thread, and waits for what that writes into
a folder of its own, which is gone afterwards.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Dict, List, NoReturn

READ = """
import json, sys
import _remote_debugging as remote
error = None
for _ in range(5):
    try:
        found = remote.RemoteUnwinder(int(sys.argv[1]), all_threads=True).get_stack_trace()
        break
    except (RuntimeError, OSError) as said:  # what is read while it changes is torn
        error = said
        if isinstance(said, PermissionError):
            raise
else:
    raise error
def line(frame):
    place = getattr(frame, "lineno", None)
    return (getattr(frame, "location", None) or [0])[0] if place is None else place
threads = [one for part in found for one in getattr(part, "threads", [part])]
print(json.dumps([
    [one.thread_id, [[frame.funcname, frame.filename, line(frame) or 0] for frame in one.frame_info]]
    for one in threads
]))
"""
SEND = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
SCRIPT = """
def _hangtop(folder):
    import _thread, faulthandler, os, sys, traceback
    def keep(name, write):
        try:
            with open(folder + "/" + name + ".part", "wb") as file:
                write(file)
        except Exception as error:
            with open(folder + "/" + name + ".why", "w") as file:
                file.write(type(error).__name__ + ": " + str(error))
        else:
            os.rename(folder + "/" + name + ".part", folder + "/" + name)
    open(folder + "/begun", "w").close()
    def stacks(file):
        faulthandler.dump_traceback(file, all_threads=True)
        if len(sys._current_frames()) > 100:  # it lists the newest, and this one is the oldest
            file.write(("Current thread " + hex(_thread.get_ident()) + " (most recent call first):\\n").encode())
            for frame, line in traceback.walk_stack(sys._getframe(3)):
                at = '  File "' + frame.f_code.co_filename + '", line ' + str(line) + " in " + frame.f_code.co_name
                file.write((at + "\\n").encode("utf-8", "replace"))
    keep("stacks", stacks)
    def recorder(file):
        c10d = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
        dump = getattr(c10d, "_dump_nccl_trace", None) or getattr(c10d, "_dump_fr_trace", None)
        if dump is None:
            raise LookupError("no torch.distributed with a flight recorder in this process")
        file.write(dump())
    keep("recorder", recorder)
    open(folder + "/done", "w").close()
try:
    _hangtop(%r)
except OSError:
    pass  # the request was taken back, and its folder with it: nobody is there to be told
"""
NOTHING = "/dev/null"
"""A script that does nothing: takes the place of one that was not run in time."""
LIMIT = 64 << 20
SAID = 4 << 20
"""Bytes that the rank's interpreter may say: which program that is, the rank's user chooses."""
STARTING = 5.0
"""Seconds for the rank's interpreter to start and come back."""
_NO_NEW_PRIVS = 38
_CALL = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the order, go there, do it, say one line of JSON."""
    order = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    _die_with_parent()
    try:
        if order["enter"]:
            _enter(int(order["pid"]))
        _become(order)
        if order["enter"]:
            _go_on_inside()
        said = _read(order) if order["do"] == "read" else _send(order)
    except OSError as error:
        said = {"why": error.strerror or str(error)}
    except subprocess.TimeoutExpired:
        said = {"why": "its interpreter did not come back in %g s" % STARTING}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _enter(pid: int) -> None:
    """Go into the namespaces of a process, and under the limits of its group: which devices it may use is one of them.

    Into its PID namespace come children alone (:func:`_go_on_inside`). Nothing that has more rights than the process
    may ever be seen there: who may trace others in that container would take it over.
    """
    spaces = [os.open("/proc/%d/ns/%s" % (pid, name), os.O_RDONLY) for name in ("pid", "net", "ipc", "uts", "mnt")]
    for number, space in enumerate(spaces):
        _must(_CALL.setns(space, 0))
        os.close(space)
        if number == 0:  # from here on it is clear that this may be done at all
            _join_groups(pid)
    os.chdir("/")


def _join_groups(pid: int) -> None:
    """Join its control groups, where they are others than ours; if memory gets scarce there, this is what goes.

    Raises :class:`OSError` where that cannot be done.
    """
    theirs, ours = (_read_text("/proc/%s/cgroup" % one).splitlines() for one in (pid, "self"))
    mounts = [line.split() for line in _read_text("/proc/self/mounts").splitlines()]
    for line in set(theirs) - set(ours):
        _, names, path = line.split(":", 2)
        if names not in ("", "devices"):
            continue
        for _, place, kind, options, *_ in mounts:
            if kind == "cgroup2" if not names else kind == "cgroup" and names in options.split(","):
                with open("/proc/self/oom_score_adj", "w") as file:
                    file.write("1000")
                with open(place + path + "/cgroup.procs", "w") as file:
                    file.write("0")
                break
        else:
            raise OSError(errno.ENOENT, "no way into its control group: it is not mounted here")


def _read_text(path: str) -> str:
    with open(path) as file:
        return file.read()


def _go_on_inside() -> None:
    """Go on in a child; the process that was started waits for it."""
    child = os.fork()
    if child:
        _forward(child)
    _die_with_parent()


def _forward(child: int) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.kill(child, signal.SIGTERM))
    status = os.waitpid(child, 0)[1]
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def _become(order: "Dict[str, object]") -> None:
    """Become the rank's owner: its interpreter, and the files that it names, are that user's to choose."""
    uid, gid, groups = order["uid"], order["gid"], order["groups"]
    assert isinstance(uid, int)
    assert isinstance(gid, int)
    assert isinstance(groups, list)
    if os.geteuid() == 0 and uid != 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _must(_CALL.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))  # a container's root makes setuid programs
        _die_with_parent()  # a change of user takes that away


def _die_with_parent() -> None:
    _CALL.prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG; SIGTERM: what it wrote must go first


def _must(done: int) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, "no way into its container: " + os.strerror(number))


def _python(order: "Dict[str, object]", program: str, *words: str) -> "subprocess.CompletedProcess[bytes]":
    environment, said, until = order["env"], b"", time.monotonic() + STARTING
    assert isinstance(environment, dict)
    command = [str(order["python"]), "-I", "-S", "-B", "-c", program, str(order["own_pid"]), *words]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            while select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                part = os.read(process.stdout.fileno(), 65536)
                if not part:
                    return subprocess.CompletedProcess(command, process.wait(STARTING), said)
                said += part
                if len(said) > SAID:
                    raise OSError(0, "its interpreter says more than %d MB" % (SAID >> 20))
            raise subprocess.TimeoutExpired(command, STARTING)
        finally:
            process.kill()


def _why(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The last line of a traceback is the error."""
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:400] if lines else "its interpreter ended with status %d" % done.returncode


def _read(order: "Dict[str, object]") -> "Dict[str, object]":
    done = _python(order, READ)
    last = done.stdout.rstrip().rpartition(b"\n")[2]  # what it warns of comes before
    return {"threads": json.loads(last)} if done.returncode == 0 else {"why": _why(done)}


def _send(order: "Dict[str, object]") -> "Dict[str, object]":
    folder = _folder()
    script = folder + "/script.py"
    try:
        with open(script, "w") as file:
            file.write(SCRIPT % folder)
        done = _python(order, SEND, script)
        if done.returncode != 0:
            return {"why": _why(done)}
        if not _await(folder + "/done", float(str(order["seconds"]))):
            _python(order, SEND, NOTHING)
            if not _await(folder + "/begun", 0.2) or not _await(folder + "/done", STARTING):
                return {"why": "late"}
        found: Dict[str, object] = {}
        for name in ("stacks", "recorder"):
            found[name] = base64.b64encode(_content(folder, name)).decode("ascii")
            found[name + "_why"] = _content(folder, name + ".why").decode("utf-8", "replace")
        return found
    finally:
        _remove(folder)


def _folder() -> str:
    """A folder of the rank's owner alone: in memory where there is room for it, for nothing stays on a disk."""
    failed: List[str] = []
    for place in ("/dev/shm", "/tmp"):
        path = "%s/hangtop-attach-%s" % (place, os.urandom(8).hex())
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            failed.append("%s: %s" % (place, error.strerror))
        else:
            return path
    raise OSError(0, "nowhere to put a script: " + ", ".join(failed))


def _remove(folder: str) -> None:
    """Remove it, also while the rank still writes there: under another name first, where no more files are made."""
    gone = folder + "-gone"
    os.rename(folder, gone)
    for attempt in range(5):
        for name in os.listdir(gone):
            os.unlink(gone + "/" + name)
        try:
            os.rmdir(gone)
        except OSError as error:  # a file that was being made when the name changed
            if error.errno != errno.ENOTEMPTY or attempt == 4:
                raise
        else:
            return


def _await(path: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _content(folder: str, name: str) -> bytes:
    try:
        with open(folder + "/" + name, "rb") as file:
            return file.read(LIMIT)
    except OSError:  # not written: its other half says why
        return b""


if __name__ == "__main__":
    main()
