"""The worker's directory: what is kept of volumes and containers, and the locks on it.

    incarnation               the id of this store, made once
    volumes/ID/meta.json      token, labels, parent;  volumes/ID/data: the tree;  volumes/ID/sealed: it is
    containers/ID/spec.json   token, labels, mounts, dir;  .../root: its files;  .../record: its keeper's (see keeper.py)
    containers/ID/ready       it is made;  containers/ID/destroying: it goes
    trash/, locks/            what is on its way in or out, and who is at it

Nothing here is only in the plugin's memory: it may be killed at any time, and two of them may run on one directory.
"""

import contextlib
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import subprocess

from errors import Fault, already_exists, dead, not_found, precondition


class Store:
    def __init__(self, path):
        self.path = os.path.abspath(path)
        for name in ("volumes", "containers", "trash", "locks"):
            os.makedirs(self.at(name), mode=0o700, exist_ok=True)
        with self.locked("store"):
            if not os.path.exists(self.at("incarnation")):
                self._write(self.at("incarnation"), secrets.token_hex(16))
        self.incarnation = self._read(self.at("incarnation"))
        for name in os.listdir(self.at("trash")):  # what a killed plugin was at
            with contextlib.suppress(BlockingIOError), self.locked("trash-" + name, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(self.at("trash", name), ignore_errors=True)

    def at(self, *names):
        return os.path.join(self.path, *names)

    @contextlib.contextmanager
    def locked(self, name, how=fcntl.LOCK_EX):
        """Holds a lock among threads and processes, and gives its descriptor: who inherits it holds the lock, too. The file is removed at
        the end; who has waited for it finds out and tries anew."""
        path = self.at("locks", name)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, how)
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(path).st_ino == os.fstat(fd).st_ino:
                        break
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # it was removed while we waited
        try:
            yield fd
        finally:
            if how & fcntl.LOCK_EX:
                os.unlink(path)
            os.close(fd)

    def _write(self, path, text):
        """Writes a file whole or not at all."""
        temp = f"{path}.{secrets.token_hex(8)}"
        with open(temp, "w") as f:
            f.write(text)
        os.rename(temp, path)

    def _read(self, path):
        with open(path) as f:
            return f.read()

    def _load(self, kind, id, name):
        try:
            return json.loads(self._read(self.at(kind + "s", id, name)))
        except (FileNotFoundError, NotADirectoryError):
            raise not_found(kind, id) from None

    @contextlib.contextmanager
    def _temporary(self):
        """A directory that becomes something by being renamed, or is removed again."""
        name = secrets.token_hex(16)
        with self.locked("trash-" + name):
            os.mkdir(self.at("trash", name), 0o700)
            try:
                yield self.at("trash", name)
            finally:
                shutil.rmtree(self.at("trash", name), ignore_errors=True)

    def _remove(self, path):
        with self._temporary() as temp:
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, os.path.join(temp, "it"))

    def ids(self, kind):
        return sorted(os.listdir(self.at(kind + "s")))

    # Volumes.

    def volume(self, id):
        sealed = os.path.exists(self.at("volumes", id, "sealed"))
        return {**self._load("volume", id, "meta.json"), "sealed": sealed}  # loaded last: a volume that goes meanwhile is not an open one

    def create_volume(self, id, token, labels, clone, uid, gid):
        with self.locked("volume-" + id):
            if os.path.exists(self.at("volumes", id)):
                if self.volume(id)["token"] != token:
                    raise already_exists("volume", id)
                return
            if clone and not self.volume(clone)["sealed"]:
                raise precondition("not-sealed", "volume", clone, f'volume "{clone}" is open; seal it before cloning it')
            with self._temporary() as temp:
                new, data = os.path.join(temp, "it"), os.path.join(temp, "it", "data")
                os.makedirs(data, mode=0o755)
                os.chmod(data, 0o755)
                if clone:  # cp knows the file system's copy on write
                    subprocess.run(["cp", "-a", "--reflink=auto", self.at("volumes", clone, "data") + "/.", data], check=True)
                os.chown(data, uid, gid)
                self._write(os.path.join(new, "meta.json"), json.dumps({"token": token, "labels": labels, "parent": clone}))
                os.rename(new, self.at("volumes", id))

    def open_volume(self, id):
        """A descriptor of the volume's root directory."""
        try:
            return os.open(self.at("volumes", id, "data"), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise not_found("volume", id) from None

    def unsealed(self):
        """A context in which nothing is sealed."""
        return self.locked("seal", fcntl.LOCK_SH)

    @contextlib.contextmanager
    def writing(self, id):
        """What changes a volume does so in here, in small steps: sealing comes between two of them."""
        with self.unsealed():
            if self.volume(id)["sealed"]:
                raise precondition("sealed", "volume", id, f'volume "{id}" is sealed; write to a clone of it')
            yield

    def seal_volume(self, id, living):
        """Seals, unless living(container) says that a process lives in a container that mounts it writable."""
        with self.locked("seal"):  # no process starts and nothing is written meanwhile
            self.volume(id)
            for c in self.ids("container"):
                try:
                    spec = self.container(c)
                except Fault:
                    continue  # destroyed meanwhile
                if spec["alive"] and any(v == id and not ro for v, _, ro in spec["mounts"]) and living(c):
                    raise precondition("in-use", "volume", id, f'volume "{id}": processes in container "{c}" can write to it')
            open(self.at("volumes", id, "sealed"), "w").close()

    def destroy_volume(self, id):
        with self.locked("volume-" + id):
            self._remove(self.at("volumes", id))

    # Containers.

    def exists(self, id):
        return os.path.exists(self.at("containers", id, "spec.json"))

    def container(self, id):
        ready = os.path.exists(self.at("containers", id, "ready"))
        keeper = self._keeper(id)
        if keeper is not None:
            os.close(keeper)
        destroying = os.path.exists(self.at("containers", id, "destroying"))  # after the keeper, which is ended after that is noted
        spec = self._load("container", id, "spec.json")  # last: a container that goes meanwhile is not one without marks
        spec["destroying"], spec["alive"] = destroying, keeper is not None
        if destroying:
            spec["state"] = "gone"
        elif not ready:
            spec["state"] = "creating"
        else:
            spec["state"] = "ready" if spec["alive"] else "gone"
        return spec

    def create_container(self, id, spec, start):
        """Makes it and calls start(directory, volumes by id, lock) for its keeper. One that is half made is made anew. The descriptor of the
        lock is for the program that starts the keeper: it may outlive us, and whoever comes next has to find the keeper's pid."""
        with self.locked("container-" + id) as lock:
            if self.exists(id):
                there = self.container(id)
                if there["token"] != spec["token"]:
                    raise already_exists("container", id)
                if there["state"] == "gone":
                    raise dead(id)
                if there["state"] != "creating":
                    return
                self._kill_and_remove(id)
            volumes = {v: self.volume(v) for v, _, _ in spec["mounts"]}
            for v, _, ro in spec["mounts"]:
                if volumes[v]["sealed"] and not ro:
                    raise precondition("sealed", "volume", v, f'volume "{v}" is sealed; mount it read-only, or a clone of it')
            with self._temporary() as temp:
                new = os.path.join(temp, "it")
                os.makedirs(os.path.join(new, "record"), mode=0o700)
                self._write(os.path.join(new, "spec.json"), json.dumps(spec))
                os.rename(new, self.at("containers", id))
            try:
                start(self.at("containers", id), volumes, lock)
            except BaseException:
                self._kill_and_remove(id)
                raise
            self._write(self.at("containers", id, "ready"), "")

    def destroy_container(self, id):
        with self.locked("container-" + id):
            if self.exists(id):
                self._kill_and_remove(id)

    def _kill_and_remove(self, id):
        self._write(self.at("containers", id, "destroying"), "")
        keeper = self._keeper(id)
        if keeper is not None:
            # The keeper is the first process of its PID namespace: the kernel ends all others before it.
            try:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(keeper, signal.SIGKILL)
                wait_pidfd(keeper)
            finally:
                os.close(keeper)
        self._remove(self.at("containers", id))

    def _keeper(self, id):
        """A pidfd of the container's keeper; None: it has ended. The pid alone might be another process's by now."""
        try:
            pid, started = self._read(self.at("containers", id, "record", "pid")).split()
            fd = os.pidfd_open(int(pid))
        except (OSError, ValueError):
            return None
        if start_time(pid) == started:
            return fd
        os.close(fd)
        return None


def wait_pidfd(fd):
    """Waits for a process's end, of whoever's child it is."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()


def start_time(pid):
    """When a process started, in ticks: with the pid it names it for as long as the machine runs. Empty: it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
