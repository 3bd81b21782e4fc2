#!/usr/bin/python3 -B
"""slipway-python: a Slipway runtime plugin without any SDK. It runs commands on this machine, as root, in directories of its own.

This file is the wire: go-plugin's handshake, the services of sdk/proto, and what each call means in terms of store.py (volumes,
containers), archive.py (tar) and keeper.py (processes).
"""

import contextlib
import functools
import importlib
import json
import logging
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from concurrent import futures

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import grpc
from google.protobuf import descriptor_pb2, message_factory, symbol_database

import archive
import crc32c
import errors
from errors import Fault, check_absolute, check_id, check_new, invalid, precondition, unsupported
from journal import Journal
from keeper import SIZES, encode
from slipway.runtime.v1alpha1 import data_pb2, plugin_pb2, worker_pb2
from store import Store

SIGNALS = {name: getattr(signal, "SIG" + name) for name in ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP")}
STATES = {"running": worker_pb2.PROCESS_STATE_RUNNING, "exited": worker_pb2.PROCESS_STATE_EXITED, "abandoned": worker_pb2.PROCESS_STATE_ABANDONED}


def text(path):
    """Bytes of the wire as JSON's and Python's strings keep them: those that are no UTF-8 come back as they were."""
    return path.decode("utf-8", "surrogateescape")


class PluginService:
    """slipway.runtime.v1alpha1.Plugin"""

    def __init__(self):
        self.workers, self.lock = None, threading.Lock()
        self.watching = set()  # calls of Workers, each an event that ends it

    def end(self):
        """The calls that never end by themselves would hold up the end of the program."""
        with self.lock:
            for ended in self.watching:
                ended.set()

    def Info(self, request, context):
        state = plugin_pb2.Field(name="state", type=plugin_pb2.FIELD_TYPE_STRING, required=True,
                                 doc="Absolute path of the directory where volumes and containers are kept. Made where missing.")
        return plugin_pb2.InfoResponse(name="python", version="0.1.0", sdk="none", worker_schema=plugin_pb2.Schema(fields=[state]))

    def Configure(self, request, context):
        with self.lock:
            if self.workers is not None:
                raise Fault("failed precondition", "the plugin is configured already")
            workers = {}
            for block in request.workers:
                state = json.loads(block.values or b"{}").get("state", "")
                if not os.path.isabs(state):
                    raise invalid("config", f'worker "{block.name}": state must be an absolute path')
                try:
                    workers[block.name] = Store(state)
                except OSError as e:
                    raise invalid("config", f'worker "{block.name}": state {state!r}: {e.strerror}') from None
            self.workers = workers
        return plugin_pb2.ConfigureResponse()

    def Health(self, request, context):
        return plugin_pb2.HealthResponse()

    def Workers(self, request, context):
        infos = [plugin_pb2.WorkerInfo(name=name, platform="linux") for name in self.configured()]
        yield plugin_pb2.WorkersResponse(kind=plugin_pb2.WORKER_EVENT_KIND_SNAPSHOT, workers=infos)
        ended = threading.Event()
        with self.lock:
            self.watching.add(ended)
        if context.add_callback(ended.set):
            ended.wait()  # there is never anything new
        with self.lock:
            self.watching.discard(ended)

    def configured(self):
        if self.workers is None:
            raise Fault("failed precondition", "the plugin is not configured yet")
        return self.workers

    def store(self, name):
        try:
            return self.configured()[name]
        except KeyError:
            raise errors.not_found("worker", name) from None


class WorkerService:
    """slipway.runtime.v1alpha1.Worker. What is asked for and has no feature's name in Status is Unsupported."""

    def __init__(self, plugin):
        self.store = plugin.store

    def Status(self, request, context):
        s = self.store(request.worker)
        return worker_pb2.StatusResponse(health=worker_pb2.HEALTH_HEALTHY, container_incarnation=s.incarnation, volume_incarnation=s.incarnation,
                                         features=["tar.dir-mtimes"], encodings=["raw", "gzip"],
                                         used=worker_pb2.Resources(containers=len(s.ids("container")), volumes=len(s.ids("volume"))))

    def CreateVolume(self, request, context):
        s = self.store(request.worker)
        check_new("volume", request)
        if request.clone_of:
            check_id("volume", request.clone_of)
        if request.clone_of and request.import_path:
            raise invalid("spec", f'volume "{request.id}" has two sources')
        if not 0 <= min(request.uid, request.gid) <= max(request.uid, request.gid) < 2**32 - 1:
            raise invalid("spec", f'volume "{request.id}": its owner must be numbers from 0 to 4294967294')
        if request.import_path:
            raise unsupported("volume.import")
        if request.privileged:
            raise unsupported("privileged")
        s.create_volume(request.id, request.token, dict(request.labels), request.clone_of, request.uid, request.gid)
        return worker_pb2.CreateVolumeResponse()

    def SealVolume(self, request, context):
        s = self.store(request.worker)
        check_id("volume", request.id)
        s.seal_volume(request.id, lambda container: _living(s, container))
        return worker_pb2.SealVolumeResponse()

    def ListVolumes(self, request, context):
        s = self.store(request.worker)
        for id in s.ids("volume"):
            try:
                v = s.volume(id)
            except Fault:
                continue  # destroyed meanwhile
            if errors.matches(request.filter, id, v["labels"]):
                state = worker_pb2.VOLUME_STATE_SEALED if v["sealed"] else worker_pb2.VOLUME_STATE_OPEN
                yield worker_pb2.ListVolumesResponse(volumes=[worker_pb2.VolumeInfo(
                    id=id, token=v["token"], labels=v["labels"], state=state, parent=v["parent"], bytes=-1)])

    def DestroyVolume(self, request, context):
        s = self.store(request.worker)
        check_id("volume", request.id)
        s.destroy_volume(request.id)
        return worker_pb2.DestroyVolumeResponse()

    def CreateContainer(self, request, context):
        s = self.store(request.worker)
        check_new("container", request)
        paths = [m.path for m in request.mounts]
        for m in request.mounts:
            check_id("volume", m.volume)
            check_absolute(m.path, f'container "{request.id}": mount')
        if b"/" in paths or len(set(paths)) < len(paths):
            raise invalid("path", f'container "{request.id}": mounts are below "/", each at a path of its own')
        if request.dir:
            check_absolute(request.dir, f'container "{request.id}": dir')
        limits = {"limits.cpu": request.limits.cpu_millis, "limits.memory": request.limits.memory_bytes,
                  "limits.disk": request.limits.disk_bytes, "limits.pids": request.limits.pids}
        if min(limits.values()) < 0:
            raise invalid("spec", f'container "{request.id}": a limit is negative; zero means unlimited')
        if request.limits.containers or request.limits.volumes:
            raise invalid("spec", f'container "{request.id}": a container has no limit of containers or volumes')
        asked = {**limits, "image.volume": request.image_volume, "image.ref": request.image_ref,
                 "privileged": request.privileged, "network.none": request.hermetic}
        for feature, value in asked.items():
            if value:
                raise unsupported(feature)
        spec = {"token": request.token, "labels": dict(request.labels), "dir": text(request.dir) or "/",
                "mounts": [(m.volume, text(m.path), m.read_only) for m in request.mounts]}
        s.create_container(request.id, spec, functools.partial(_start_keeper, s, request.id, spec))
        yield worker_pb2.CreateContainerResponse(done=worker_pb2.CreateContainerDone())

    def ListContainers(self, request, context):
        s = self.store(request.worker)
        for id in s.ids("container"):
            try:
                c = s.container(id)
            except Fault:
                continue
            if errors.matches(request.filter, id, c["labels"]):
                reason = "its processes are gone" if c["state"] == "gone" else ""
                yield worker_pb2.ListContainersResponse(containers=[worker_pb2.ContainerInfo(
                    id=id, token=c["token"], labels=c["labels"], reason=reason,
                    state=worker_pb2.ContainerState.Value("CONTAINER_STATE_" + c["state"].upper()))])

    def DestroyContainer(self, request, context):
        s = self.store(request.worker)
        check_id("container", request.id)
        s.destroy_container(request.id)
        return worker_pb2.DestroyContainerResponse()

    def StartProcess(self, request, context):
        s = self.store(request.worker)
        check_id("container", request.container)
        check_new("process", request)
        what = f'process "{request.id}"'
        if request.dir:
            check_absolute(request.dir, f"{what}: dir")
        words = [request.path, *request.args, *request.env]
        if not request.path or any(b"\0" in w for w in words) or request.spill < 0 or request.when_full not in (0, 1, 2):
            raise invalid("spec", f"{what}: path is empty, a word has a NUL byte, spill is negative, or when_full is unknown")
        if any(not re.match(rb"[^=]+=", e) for e in request.env):
            raise invalid("spec", f"{what}: an entry of the environment is not NAME=value")
        if sum(len(w) + 9 for w in words) - 9 > 2 << 20:
            raise invalid("too-large", f"{what}: path, arguments and environment are more than 2 MiB")
        if request.user:
            raise unsupported("users")
        if request.HasField("tty"):
            raise unsupported("tty")
        with s.unsealed():
            sealed = [v for v, _, ro in s.container(request.container)["mounts"] if not ro and s.volume(v)["sealed"]]
            _ask(s, request.container, {
                "op": "start", "id": request.id, "token": request.token, "argv": [text(w) for w in (request.path, *request.args)],
                "env": [text(e) for e in request.env], "dir": text(request.dir), "stdin": request.stdin, "spill": request.spill,
                "drop_oldest": request.when_full == worker_pb2.WHEN_FULL_DROP_OLDEST, "sealed": sealed[0] if sealed else ""})
        return worker_pb2.StartProcessResponse()

    def ListProcesses(self, request, context):
        s = self.store(request.worker)
        check_id("container", request.container)
        if _state(s, request.container) == "gone":
            infos = _remains(s, request.container)
        else:
            infos = _ask(s, request.container, {"op": "list"})["processes"]
        for p in infos:
            info = worker_pb2.ProcessInfo(id=p["id"], token=p["token"], state=STATES[p["state"]])
            info.started_at.FromNanoseconds(int(p["started"] * 1e9))
            if p["exit"]:
                info.exit.CopyFrom(_exit(p["exit"]))
            yield worker_pb2.ListProcessesResponse(processes=[info])

    def SignalProcess(self, request, context):
        s = self.store(request.worker)
        check_id("container", request.container)
        check_id("process", request.process)
        if request.signal not in SIGNALS:
            raise invalid("signal", f'signal "{request.signal[:40]}" is not one of {", ".join(SIGNALS)}')
        if _state(s, request.container) != "gone":
            _ask(s, request.container, {"op": "signal", "id": request.process, "number": SIGNALS[request.signal]})
        elif not any(p["id"] == request.process and p["exit"] for p in _remains(s, request.container)):
            _state(s, request.container)
            raise errors.dead(request.container)
        return worker_pb2.SignalProcessResponse()

    # The optional calls, whose features Status does not name.

    def ResizeProcess(self, request, context):
        raise unsupported("tty.resize")

    def PeerTicket(self, request, context):
        raise unsupported("peer.stream")

    def PeerSend(self, request, context):
        raise unsupported("peer.stream")

    def StatFile(self, request, context):
        raise unsupported("files.read")

    def ListFiles(self, request, context):
        raise unsupported("files.read")


class DataService:
    """slipway.runtime.v1alpha1.Data"""

    def __init__(self, plugin):
        self.store = plugin.store

    def StreamIn(self, requests, context):
        head = _header(requests)
        s = self.store(head.worker)
        check_id("volume", head.volume)
        encoding = _encoding(head.encoding)
        parts = errors.relative(head.path)
        source = Chunks(requests)
        read = source.read if encoding == "raw" else Gunzip(source).read
        root = s.open_volume(head.volume)
        try:
            with s.writing(head.volume):
                try:
                    top = archive.open_below(root, parts, make=True)
                except NotADirectoryError:
                    raise invalid("path", f'volume "{head.volume}": {head.path[:200]!r} is below something that is no directory') from None
            try:
                archive.unpack(top, read, lambda: s.writing(head.volume))
            finally:
                os.close(top)
        except OSError as e:
            s.volume(head.volume)  # if it was destroyed, that is what happened
            cls, reason = {28: ("exhausted", "storage"), 27: ("invalid", "too-large"), 36: ("invalid", "archive")}.get(e.errno, ("internal", ""))
            raise Fault(cls, f'volume "{head.volume}": {e.strerror}', reason=reason) from None  # ENOSPC, EFBIG, ENAMETOOLONG
        finally:
            os.close(root)
        while read(archive.CHUNK):
            pass  # what fills up the last block, and the trailer, which tells that nothing is missing
        return data_pb2.StreamInResponse()

    def StreamOut(self, request, context):
        s = self.store(request.worker)
        check_id("volume", request.volume)
        encoding = _encoding(request.encoding)
        parts = errors.relative(request.path)
        root = s.open_volume(request.volume)
        try:
            size = crc = 0
            for chunk in _chunks(archive.pack(root, parts), encoding):
                size, crc = size + len(chunk), crc32c.update(crc, chunk)
                yield data_pb2.StreamOutResponse(data=chunk)
            yield data_pb2.StreamOutResponse(trailer=data_pb2.Trailer(bytes=size, crc32c=crc))
        except (FileNotFoundError, NotADirectoryError):
            s.volume(request.volume)
            raise errors.not_found("file", text(request.path).encode("ascii", "backslashreplace").decode()) from None
        finally:
            os.close(root)

    def ReadFile(self, request, context):
        raise unsupported("files.read")

    def FollowProcess(self, requests, context):
        head = _header(requests)
        s = self.store(head.worker)
        check_id("container", head.container)
        check_id("process", head.process)
        if _state(s, head.container) == "gone":
            yield from _follow_remains(s, head)
            return
        with _connect(s, head.container) as conn:
            with contextlib.suppress(OSError):  # whether the keeper is gone is told by receiving
                conn.send({"op": "follow", "id": head.process, "from": head.position, "stdin": head.stdin})
            context.add_callback(conn.hang_up)  # the call's end, by whomever
            up = threading.Thread(target=_relay_up, args=(requests, conn), daemon=True)
            up.start()
            while True:
                frame = conn.receive()
                if frame is None:
                    _state(s, head.container)  # NotFound, if it is destroyed
                    raise Fault("unavailable", f'container "{head.container}": its keeper is gone; ask again')
                header, data = frame
                if "done" in header:
                    return
                yield _frame(header, data)


def _header(requests):
    """The header of a stream, which is its first frame."""
    frame = next(requests, None)
    if frame is None or frame.WhichOneof("frame") != "header":
        raise invalid("spec", "the stream does not begin with its header")
    return frame.header


def _relay_up(requests, conn):
    """Passes acknowledgements and stdin to the keeper, until the call ends."""
    with contextlib.suppress(Exception):  # a lost connection says nothing of stdin's end
        for r in requests:
            kind = r.WhichOneof("frame")
            if kind == "ack":
                conn.send({"ack": r.ack})
            elif kind == "stdin":
                conn.send({"stdin": "more"}, r.stdin)
            elif kind == "stdin_end":
                conn.send({"stdin": "end"})


def _frame(header, data):
    """A keeper's frame as the contract's."""
    response = data_pb2.FollowProcessResponse()
    if "opened" in header:
        o = header["opened"]
        response.opened.CopyFrom(data_pb2.Opened(state=STATES[o["state"]], stdin_taken=o["taken"], stdin_generation=o["generation"]))
    elif "taken" in header:
        response.taken = header["taken"]
    elif "exit" in header:
        response.exit.CopyFrom(_exit(header["exit"]))
    else:
        response.records.SetInParent()
        for position, stream, at, size in header["records"]:
            if stream:
                response.records.records.add(position=position, stream=stream, time_unix_nano=at, data=data[:size])
                data = data[size:]
            else:
                response.records.records.add(position=position, gap_to=size)
    return response


def _exit(e):
    exit = worker_pb2.Exit(code=e["code"], signal=e["signal"], reason=e["reason"], peak_memory_bytes=e["peak"], output_cut=e["cut"])
    exit.started_at.FromNanoseconds(int(e["started"] * 1e9))
    exit.ended_at.FromNanoseconds(int(e["ended"] * 1e9))
    return exit


# Streams of chunks.


def _encoding(name):
    if name not in ("", "raw", "gzip"):
        raise invalid("encoding", f'encoding "{name[:40]}" is neither "raw" nor "gzip"')
    return name or "raw"


class Chunks:
    """A reader of a stream of chunks. It is at its end after the trailer only."""

    def __init__(self, requests):
        self.requests, self.buffer, self.ended, self.size, self.crc = requests, bytearray(), False, 0, 0

    def read(self, n):
        while len(self.buffer) < n and not self.ended:
            frame = next(self.requests, None)
            kind = frame.WhichOneof("frame") if frame else None
            if kind == "data":
                self.buffer += frame.data
                self.size, self.crc = self.size + len(frame.data), crc32c.update(self.crc, frame.data)
            elif kind == "trailer":
                known = frame.trailer.HasField("crc32c")
                if frame.trailer.bytes != self.size or known and frame.trailer.crc32c != self.crc:
                    raise Fault("internal", "the stream's trailer does not fit its chunks: it was damaged on the way")
                self.ended = True
            elif frame is None or kind == "abort":
                raise Fault("internal", "the stream ended without its trailer")
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data


class Gunzip:
    """A reader of what is packed in a stream of gzip, of any number of members."""

    def __init__(self, source):
        self.source, self.unpacker, self.buffer, self.rest = source, zlib.decompressobj(31), bytearray(), b""

    def read(self, n):
        while len(self.buffer) < n:
            data = self.rest or self.source.read(64 << 10)
            if not data:
                if not self.unpacker.eof:
                    raise invalid("archive", "the archive's gzip stream has no end")
                break
            if self.unpacker.eof:
                self.unpacker = zlib.decompressobj(31)
            try:
                self.buffer += self.unpacker.decompress(data, 1 << 20)
            except zlib.error:
                raise invalid("archive", "the archive's gzip stream is damaged") from None
            self.rest = self.unpacker.unconsumed_tail or self.unpacker.unused_data
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data


def _chunks(pieces, encoding):
    """Gathers pieces into chunks of a good size. The first one comes late enough for a path that is not there."""
    packer = zlib.compressobj(1, wbits=31) if encoding == "gzip" else None
    buffer = bytearray()
    for piece in pieces:
        buffer += packer.compress(piece) if packer else piece
        while len(buffer) >= archive.CHUNK:
            yield bytes(buffer[: archive.CHUNK])
            del buffer[: archive.CHUNK]
    yield bytes(buffer + (packer.flush() if packer else b""))


# Keepers.


class Conn:
    """A call on a keeper, of frames in both directions."""

    def __init__(self, path):
        self.sock, self.buffer, self.lock = socket.socket(socket.AF_UNIX), b"", threading.Lock()
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{fd}/socket")  # a short name for it
        finally:
            os.close(fd)

    def send(self, header, data=b""):
        self.sock.sendall(encode(header, data))

    def receive(self):
        """The next frame; None: the keeper has hung up. Its errors are raised."""
        try:
            sizes = SIZES.unpack(self._read(SIZES.size))
            header, data = json.loads(self._read(sizes[0])), self._read(sizes[1])
        except OSError:
            return None
        if "error" in header:
            raise _fault(header["error"])
        return header, data

    def _read(self, n):
        parts = []
        while n > 0:
            part = self.sock.recv(n)
            if not part:
                raise ConnectionError
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def hang_up(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()
        self.sock.close()


def _fault(error):
    """A keeper's error as the contract's."""
    return Fault(error.pop("cls"), error.pop("message"), **error)


def _start_keeper(s, id, spec, dir, volumes, lock):
    os.mkdir(os.path.join(dir, "root"), 0o755)
    mounts = [{"source": s.at("volumes", v, "data"), "path": path, "read_only": ro, "sealed": volumes[v]["sealed"]} for v, path, ro in spec["mounts"]]
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
    keeper = subprocess.run([sys.executable, "-BES", "-X", "utf8", program, dir, str(lock)], env={}, pass_fds=[lock], start_new_session=True, stderr=subprocess.DEVNULL,
                            input=json.dumps({"dir": spec["dir"], "mounts": mounts}).encode(), stdout=subprocess.PIPE)
    if not keeper.stdout:
        raise Fault("internal", f'container "{id}": its keeper does not start; {dir}/record/log may tell why', kind="container", id=id)
    answer = json.loads(keeper.stdout)
    if "error" in answer:
        raise _fault(answer["error"])


def _state(s, container):
    """A container's state. Of one that is being destroyed nothing is known: NotFound of a process would say that it never ran."""
    spec = s.container(container)
    if spec["destroying"]:
        raise errors.not_found("container", container)
    return spec["state"]


def _connect(s, container):
    state = _state(s, container)
    if state == "creating":
        raise precondition("creating", "container", container, f'container "{container}" is half made; create it again')
    if state == "ready":
        with contextlib.suppress(OSError):  # it ends this very moment
            return Conn(s.at("containers", container, "record"))
    _state(s, container)
    raise errors.dead(container)


def _ask(s, container, request):
    """A call of one frame and one answer."""
    with _connect(s, container) as conn:
        try:
            conn.send(request)
            answer = conn.receive()
        except OSError:
            answer = None
    if answer is None:
        _state(s, container)
        raise Fault("unavailable", f'container "{container}": its keeper is gone; ask again')
    return answer[0]


def _living(s, container):
    try:
        return _ask(s, container, {"op": "living"})["living"]
    except Fault:
        return True  # it is on its way out


def _remains(s, container):
    """What a keeper that is gone has recorded: nobody is left to write an exit."""
    record = s.at("containers", container, "record")
    infos = []
    try:
        for id in sorted(n for n in os.listdir(record) if os.path.exists(os.path.join(record, n, "start.json"))):
            exit = None
            with contextlib.suppress(FileNotFoundError), open(os.path.join(record, id, "exit.json")) as f:
                exit = json.load(f)
            with open(os.path.join(record, id, "start.json")) as f:
                infos.append({"id": id, **json.load(f), "exit": exit, "state": "exited" if exit else "abandoned"})
    except (OSError, ValueError):
        _state(s, container)
        raise precondition("record-lost", "container", container, f'container "{container}": its record cannot be read') from None
    return infos


def _follow_remains(s, head):
    """Delivers what is journalled of a process whose container is gone, then its exit, or that it is abandoned."""
    try:
        yield from _remains_of(s, head)
    except (OSError, Fault):
        _state(s, head.container)  # NotFound, if it was destroyed meanwhile: what is missing then says nothing
        raise


def _remains_of(s, head):
    info = next((p for p in _remains(s, head.container) if p["id"] == head.process), None)
    if info is None:
        raise errors.dead(head.container)
    record = os.open(s.at("containers", head.container, "record"), os.O_RDONLY | os.O_DIRECTORY)
    try:
        j, start = Journal(record, head.process), head.position
        if not 0 <= start <= j.end:
            raise invalid("spec", f'process "{head.process}": position {start} is not one of its journal, which ends at {j.end}')
        if start < j.acked:
            raise Fault("failed precondition", f'process "{head.process}": the output before {j.oldest} was dropped; follow from there',
                        reason="output-gap", kind="process", id=head.process, position=j.oldest)
        yield _frame({"opened": {"state": info["state"], "taken": 0, "generation": 1 if head.stdin else 0}}, b"")
        for position, stream, at, data in iter(functools.partial(next, j.read(start)), None):
            yield _frame({"records": [[position, stream, at, len(data) if stream else data]]}, data if stream else b"")
        if info["state"] == "abandoned":
            raise precondition("abandoned", "process", head.process, f'process "{head.process}": nobody is left who knows how it ended')
        yield _frame({"exit": info["exit"]}, b"")  # nobody can acknowledge any more: it is all there until the container is destroyed
    finally:
        os.close(record)


# The wire.


def _handler(implementation, method, log):
    """The gRPC handler of one method, which makes Faults of what it raises."""
    database = symbol_database.Default()
    request = database.GetSymbol(method.input_type.lstrip("."))
    response = database.GetSymbol(method.output_type.lstrip("."))

    def fail(e, context):
        if not isinstance(e, Fault):
            if not context.is_active():
                return  # the consequence of a call that was given up
            log("error", f"{method.name}: {traceback.format_exc()}")
            e = Fault("internal", f"{method.name}: a defect of the plugin: {type(e).__name__}", reason="panic")
        e.abort(context)

    def unary(request, context):
        try:
            return implementation(request, context)
        except Exception as e:
            fail(e, context)

    def stream(request, context):
        try:
            yield from implementation(request, context)
        except Exception as e:
            fail(e, context)

    make = {(False, False): grpc.unary_unary_rpc_method_handler, (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler, (True, True): grpc.stream_stream_rpc_method_handler}
    return make[method.client_streaming, method.server_streaming](
        stream if method.server_streaming else unary, request_deserializer=request.FromString, response_serializer=response.SerializeToString)


def _services(plugin, log):
    implementations = {"Plugin": plugin, "Worker": WorkerService(plugin), "Data": DataService(plugin)}
    for module in (plugin_pb2, worker_pb2, data_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for service in file.service:
            methods = {m.name: _handler(getattr(implementations[service.name], m.name), m, log) for m in service.method}
            yield grpc.method_handlers_generic_handler(f"{file.package}.{service.name}", methods)
    # grpc.health.v1.Health, which go-plugin asks: status = SERVING, as its two bytes, for there is no package of it in Debian.
    check = grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")
    yield grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})


def _log(level, message):
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
    print(json.dumps({"@level": level, "@message": message, "@timestamp": stamp, "@module": "python"}), file=sys.stderr, flush=True)


def main():
    if os.environ.get("SLIPWAY_PLUGIN") != "slipway-runtime-v1":
        sys.exit("This is a plugin of Slipway. Name it in a host's configuration, or test it: slipway conformance run PATH")
    if os.geteuid() != 0:
        _log("error", "making containers needs root")
        sys.exit(1)
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    # A thread for each call: a Follow holds one for as long as its process runs.
    plugin = PluginService()
    server = grpc.server(futures.ThreadPoolExecutor(2048), handlers=list(_services(plugin, _log)))
    dir = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(prefix="slipway-python-")
    path = os.path.join(dir, "plugin.sock")
    server.add_insecure_port("unix:" + path)
    server.start()
    print(f"1|1|unix|{path}|grpc|", flush=True)
    os.dup2(2, 1)  # nothing else is ever said on stdout

    def watch():
        while os.read(0, 4096):
            pass
        stop.set()  # the host has closed our stdin, or is gone

    threading.Thread(target=watch, daemon=True).start()
    while not stop.wait(3600):
        pass
    ending = server.stop(5)
    plugin.end()
    ending.wait()
    os._exit(0)  # whoever still runs has had its time


if __name__ == "__main__":
    main()
