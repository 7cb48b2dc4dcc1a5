"""A small Kubernetes API server: pods that are nodes of a test cluster, and exec into them, with faults.

It speaks what kubectl needs for ``get pods`` and ``exec``: discovery, the v1 Pod, and the exec subresource over
WebSocket with the protocol ``v5.channel.k8s.io``: binary messages whose first byte is the channel (0 standard input,
1 output, 2 error, 3 the final Status as JSON), and ``255, N`` for the end of channel N.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support import websocket

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SUCCESS = {"metadata": {}, "status": "Success"}


@dataclass
class FakePod:
    """A pod; ``enter`` gives the words that run a command in it."""

    name: str
    labels: dict[str, str]
    enter: Callable[[Sequence[str]], list[str]]
    env: dict[str, str] = field(default_factory=dict)
    phase: str = "Running"
    state: dict[str, Any] = field(default_factory=lambda: {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    created: str = "2026-01-01T00:00:00Z"
    container: str = "main"
    host: str = "host"

    def document(self, namespace: str) -> dict[str, Any]:
        """As the API tells it."""
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": namespace, "labels": self.labels,
                         "creationTimestamp": self.created, "uid": self.name},
            "spec": {"nodeName": self.host, "containers": [{"name": self.container, "image": "image"}]},
            "status": {"phase": self.phase,
                       "containerStatuses": [{"name": self.container, "restartCount": 0, "state": self.state,
                                              "ready": True, "image": "image", "imageID": ""}]},
        }  # fmt: skip


@dataclass
class Faults:
    """What goes wrong in execs from now on."""

    output_ends_after: int | None = None
    """Bytes of standard output, after which the exec ends with Success."""
    loses_input: bool = False
    """Standard input is taken and let go."""
    frozen: bool = False
    """Nothing is carried any more, but pings are answered."""


class ApiServer:
    """Serves on a port of its own, in a thread; a context manager."""

    def __init__(self, folder: Path, pods: Sequence[FakePod], namespace: str = "lab") -> None:
        self.pods = {pod.name: pod for pod in pods}
        self.namespace = namespace
        self.hosts: dict[str, dict[str, str]] = {}
        """Labels of the Kubernetes nodes by name."""
        self.cordoned: set[str] = set()
        """Nodes that were told to take no further pods."""
        self.faults = Faults()
        self.kubeconfig = folder / "kubeconfig"
        self.execs = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="api server", daemon=True)
        self._ready = threading.Event()
        self._connections: set[asyncio.StreamWriter] = set()
        self._children: dict[asyncio.subprocess.Process, str] = {}
        self._stop = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    # --- the server -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        }))  # fmt: skip
        self._ready.set()
        await self._stop.wait()
        server.close()
        for child in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        for writer in list(self._connections):
            writer.close()
        await asyncio.sleep(0.1)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                request, *lines = head.split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                method, target, _ = request.split(" ", 2)
                url = urlsplit(target)
                given = await reader.readexactly(int(headers.get("content-length", "0")))
                if headers.get("upgrade", "").lower() == "websocket":
                    await self._exec(url.path, parse_qs(url.query), headers, reader, writer)
                    return
                if method == "PATCH":
                    self._patch(url.path, json.loads(given))
                status, document = self._answer(url.path, parse_qs(url.query))
                body = json.dumps(document).encode()
                kind = "Content-Type: application/json"
                writer.write(f"HTTP/1.1 {status} X\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # kubectl has ended
        finally:
            self._connections.discard(writer)
            writer.close()

    def _patch(self, path: str, change: dict[str, Any]) -> None:
        host = path.removeprefix("/api/v1/nodes/")
        if host in self.hosts and change.get("spec", {}).get("unschedulable"):
            self.cordoned.add(host)

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        fixed: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "shortNames": ["po"],
                 "verbs": ["get", "list"]},
                {"name": "pods/exec", "singularName": "", "namespaced": True, "kind": "PodExecOptions",
                 "verbs": ["create", "get"]},
                {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "shortNames": ["no"],
                 "verbs": ["get", "list", "patch"]},
            ]},
        }  # fmt: skip
        if path in fixed:
            return 200, fixed[path]
        base = f"/api/v1/namespaces/{self.namespace}/pods"
        if path == base:
            wanted = dict(pair.split("=", 1) for pair in query.get("labelSelector", [""])[0].split(",") if "=" in pair)
            chosen = [pod for pod in self.pods.values() if wanted.items() <= pod.labels.items()]
            items = [pod.document(self.namespace) for pod in chosen]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
        host = path.removeprefix("/api/v1/nodes/")
        if host in self.hosts:
            metadata = {"name": host, "labels": self.hosts[host]}
            spec = {"unschedulable": True} if host in self.cordoned else {}
            return 200, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
        name = path.removeprefix(base + "/")
        if name in self.pods:
            return 200, self.pods[name].document(self.namespace)
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                     "message": f'pods "{name}" not found', "details": {"name": name, "kind": "pods"}}  # fmt: skip

    # --- exec -----------------------------------------------------------------------------------------------------

    async def _exec(
        self, path: str, query: dict[str, list[str]], headers: dict[str, str],
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        name = path.removeprefix(f"/api/v1/namespaces/{self.namespace}/pods/").removesuffix("/exec")
        offered = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",")]
        pod = self.pods.get(name)
        if pod is None or PROTOCOL not in offered:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + _ACCEPT).encode()).digest()).decode()
        writer.write(
            f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
        )
        self.execs += 1
        child = await asyncio.create_subprocess_exec(
            *pod.enter(query["command"]), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, env={**pod.env},
        )  # fmt: skip
        self._children[child] = name
        feeding = asyncio.ensure_future(self._feed(reader, writer, child))
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            copying = [
                asyncio.ensure_future(self._copy(child.stdout, STDOUT, writer)),
                asyncio.ensure_future(self._copy(child.stderr, STDERR, writer)),
            ]
            done, _ = await asyncio.wait([*copying], return_when=asyncio.FIRST_EXCEPTION)
            cut = any(task.exception() is not None for task in done)
            if cut:
                websocket.send(writer, websocket.BINARY, bytes([ERROR]) + json.dumps(_SUCCESS).encode())
            else:
                status = await child.wait()
                await self._thawed()
                websocket.send(writer, websocket.BINARY, bytes([ERROR]) + json.dumps(_status(status)).encode())
            websocket.send(writer, websocket.CLOSE, (1000).to_bytes(2, "big"))
            await writer.drain()
        except ConnectionError:
            pass  # kubectl was killed: what runs in the container goes on, as with the real one
        finally:
            feeding.cancel()

    async def _thawed(self) -> None:
        while self.faults.frozen:  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.1)

    async def _copy(self, source: asyncio.StreamReader, channel: int, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await source.read(16384):
            await self._thawed()
            limit = self.faults.output_ends_after
            if channel == STDOUT and limit is not None and sent + len(data) > limit:
                websocket.send(writer, websocket.BINARY, bytes([channel]) + data[: max(0, limit - sent)])
                raise EOFError
            sent += len(data)
            websocket.send(writer, websocket.BINARY, bytes([channel]) + data)
            await writer.drain()

    async def _feed(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, child: asyncio.subprocess.Process
    ) -> None:
        assert child.stdin is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, data = await websocket.frame(reader)
                if kind == websocket.PING:
                    websocket.send(writer, websocket.PONG, data)
                elif kind == websocket.CLOSE:
                    return  # its input stays open: the runtime does not always notice
                elif data[:1] == bytes([CLOSE]):
                    child.stdin.close()
                elif data[:1] == bytes([STDIN]) and not (self.faults.loses_input or self.faults.frozen):
                    child.stdin.write(data[1:])
                    await child.stdin.drain()


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return _SUCCESS
    code = code if code > 0 else 128 - code
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip
