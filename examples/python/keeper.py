"""A container's keeper: its first process, in namespaces of its own, which outlives the plugin.

It makes the container's files, starts its processes, journals what they write, and records how they end. The plugin talks to it over a
unix socket, a connection for each call: frames of a length, a length, a JSON header and bytes. One loop does everything, so nothing here
is ever locked. When it dies, by DestroyContainer or otherwise, the kernel kills all that is left in its PID namespace.

The record, of which the plugin reads what is left when the keeper is gone:

    pid                       of the keeper, with its start time;  socket, log
    ID/start.json             token and time of a process, written before it starts, never its environment (rule 13)
    ID/journal.*, ID/acked    its output (journal.py);  ID/exit.json: how it ended, written once
"""

import ctypes
import errno
import fcntl
import json
import os
import resource  # os.wait4 wants it, and nothing can be imported in a container
import select
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import time
import traceback

from journal import Journal

MAX_PROCESSES = 4096
GRACE = 2.0  # how long output is awaited after the leader's end (rule 6)
AHEAD = 1 << 20  # how much of a follower's output and stdin is on its way
SIZES = struct.Struct("<II")

libc = ctypes.CDLL(None, use_errno=True)
RT_SIGACTION = {"x86_64": 13, "aarch64": 134}  # the system call's number


def encode(header, data=b""):
    text = json.dumps(header).encode()
    return SIZES.pack(len(text), len(data)) + text + data


def call(function, *args):
    if function(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Refused(Exception):
    """An error of the contract, as the plugin's Fault takes it."""

    def __init__(self, cls, reason, message, **fields):
        super().__init__(message)
        self.header = {"error": {"cls": cls, "reason": reason, "message": message, **fields}}


# The container's files.

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 8192, 16384, 1 << 18


def mount(source, target, flags, kind=None):
    call(libc.mount, os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), None)


def enter(root, mounts):
    """Makes root the root of this process: with the machine's programs read-only, a few devices, and the mounts."""
    mount("none", "/", MS_REC | MS_PRIVATE)
    mount(root, root, MS_BIND)
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), f"{root}/{name}")
        elif os.path.isdir("/" + name):
            os.makedirs(f"{root}/{name}")
            mount("/" + name, f"{root}/{name}", MS_BIND)
            mount("none", f"{root}/{name}", MS_REMOUNT | MS_BIND | MS_RDONLY)
    for name in ("proc", "dev/shm", "tmp", "var/tmp", "root", "run"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    for name in ("dev/shm", "tmp", "var/tmp"):
        os.chmod(f"{root}/{name}", 0o1777)
    os.makedirs(f"{root}/etc", exist_ok=True)
    for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
        with open(f"{root}/etc/{name}", "w") as f:
            f.write(text)
    for name in ("null", "zero", "full", "random", "urandom"):
        open(f"{root}/dev/{name}", "w").close()
        mount("/dev/" + name, f"{root}/dev/{name}", MS_BIND)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{fd}", f"{root}/dev/{name}")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    mount("proc", f"{root}/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, b"proc")
    # Volumes are opened here and mounted inside, where no link leads out: the magic links of descriptors name both ends.
    fds = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    sources = [os.open(m["source"], os.O_PATH | os.O_DIRECTORY) for m in mounts]
    os.chdir(root)
    mount(".", "/", MS_MOVE)
    os.chroot(".")
    for m, source in sorted(zip(mounts, sources), key=lambda pair: pair[0]["path"].count("/")):
        os.chdir("/")
        try:
            os.makedirs(m["path"], exist_ok=True)
            target = os.open(m["path"], os.O_PATH | os.O_DIRECTORY)
        except OSError as e:
            raise Refused("invalid", "path", f'nothing can be mounted at {m["path"]!r}: {e.strerror}') from None
        os.fchdir(fds)
        mount(str(source), str(target), MS_BIND)
        os.close(target)
        os.close(source)
        if m["sealed"] or m["read_only"]:  # at once, so that no mount below it makes its directory in there
            os.chdir("/")
            mount("none", m["path"], MS_REMOUNT | MS_BIND | MS_RDONLY)
    os.chdir("/")
    os.close(fds)


# One process.


def monitor(control, argv, executable, env, cwd, files):
    """Runs in a process of its own between the keeper and a command: the one that orphans of the command's tree fall to, so that KILL finds
    all of it. It tells the keeper of the start, of the leader's end, and when nothing of the tree is left."""
    call(libc.prctl, 36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    try:
        command = subprocess.Popen(argv, executable=executable, env=env, cwd=cwd, start_new_session=True, umask=0o022,
                                  stdin=files[0], stdout=files[1], stderr=files[2])
    except OSError as e:
        control.send(json.dumps({"errno": e.errno}).encode())
        return
    for f in files:
        os.close(f)
    control.send(b"{}")
    leader = command.pid
    ended, told, killed = None, False, False
    while True:
        ready, _, _ = select.select([control, wake], [], [], 0.05 if killed else None)
        if wake in ready:
            wake.recv(4096)
        if control in ready:
            number = int(control.recv(16) or b"9")
            if number == signal.SIGKILL:
                killed = True
            elif ended is None:  # it is not reaped, so the group's number is nobody else's
                os.killpg(leader, number)
            else:  # what is left of the group is below us; another one that has the number now is not
                kill_tree(os.getpid(), number, leader)
        if killed:
            kill_tree(os.getpid(), signal.SIGKILL)
        left = True
        try:
            while (child := os.wait4(-1, os.WNOHANG))[0]:
                if child[0] == leader:
                    ended = {"status": child[1], "peak": child[2].ru_maxrss * 1024}
        except ChildProcessError:
            left = False
        if ended and not told and not (killed and left):
            control.send(json.dumps({**ended, "left": left}).encode())
            told = True
        if not left:
            return


def signal_name(number):
    """A signal's name without SIG. Python names only two of the real-time signals, and none of the two that the C library keeps to itself."""
    if number >= signal.SIGRTMIN:
        return f"RTMIN+{number - signal.SIGRTMIN}"
    try:
        return signal.Signals(number).name[3:]
    except ValueError:
        return str(number)


def kill_tree(top, number, group=None):
    """Sends a signal to all below a process, or to those of them that are of a group. Whoever is born meanwhile falls to the next round."""
    children, groups = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                parent, groups[int(pid)] = map(int, f.read().rpartition(")")[2].split()[1:3])
            children.setdefault(parent, []).append(int(pid))
        except OSError:
            pass
    found = [top]
    for pid in found:
        found += children.get(pid, [])
    for pid in found[1:]:
        if group not in (None, groups[pid]):
            continue
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Process:
    """One process: its monitor, its pipes, its journal and its record."""

    def __init__(self, keeper, request):
        self.keeper, self.id, self.token, self.drop_oldest = keeper, request["id"], request["token"], request["drop_oldest"]
        self.started, self.exit, self.living = time.time(), None, True
        self.leader, self.lost, self.deadline, self.held, self.paused = None, False, None, [], False
        self.stdin_wanted, self.stdin, self.taken, self.generation, self.follower = request["stdin"], None, 0, 0, None
        argv, env, cwd = [os.fsencode(a) for a in request["argv"]], dict(os.fsencode(e).split(b"=", 1) for e in request["env"]), request["dir"]
        env.setdefault(b"PATH", b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        env.setdefault(b"HOME", b"/root")
        try:
            os.makedirs(cwd, exist_ok=True)
        except OSError as e:
            raise Refused("invalid", "path", f'process "{self.id}": its directory {cwd!r} cannot be made: {e.strerror}') from None
        executable = find(argv[0], env[b"PATH"], os.fsencode(cwd))
        os.mkdir(self.id, 0o700, dir_fd=keeper.record)
        try:
            self.save("start.json", {"token": self.token, "started": self.started})
            self.journal = Journal(keeper.record, self.id, request["spill"] or 64 << 20)
            self.start(argv, executable, env, cwd)
        except BaseException:
            shutil.rmtree(self.id, dir_fd=keeper.record)  # a start that was refused leaves no record
            raise

    def save(self, name, what):
        record, path = self.keeper.record, f"{self.id}/{name}"
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=record), "w") as f:
            json.dump(what, f)
        os.rename(path + ".new", path, src_dir_fd=record, dst_dir_fd=record)

    def start(self, argv, executable, env, cwd):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (out, out_w), (err, err_w) = os.pipe(), os.pipe()
        in_r, in_w = os.pipe() if self.stdin_wanted else (os.open("/dev/null", os.O_RDONLY), None)
        if os.fork() == 0:
            try:
                keep = sorted([theirs.fileno(), in_r, out_w, err_w, 2])
                for low, high in zip([2] + keep, keep + [1 << 16]):  # others' pipes held here would never be at their end
                    os.closerange(low + 1, high)
                monitor(theirs, argv, executable, env, cwd, (in_r, out_w, err_w))
            except BaseException as e:
                print("monitor:", repr(e), file=sys.stderr, flush=True)
            finally:
                os._exit(0)
        for fd in (in_r, out_w, err_w):
            os.close(fd)
        theirs.close()
        answer = json.loads(self.control.recv(4096) or b'{"errno": 5}')
        if "errno" in answer:
            for fd in (out, err, in_w):
                if fd is not None:
                    os.close(fd)
            self.control.close()
            name = os.fsdecode(argv[0])[:200]
            if answer["errno"] == errno.E2BIG:
                raise Refused("invalid", "too-large", f'process "{self.id}": the kernel takes no arguments and environment of that size')
            if answer["errno"] in (errno.EAGAIN, errno.ENOMEM):
                raise Refused("unavailable", "", f'process "{self.id}": no room for a process: {os.strerror(answer["errno"])}')
            raise Refused("invalid", "not-executable", f'process "{self.id}": {name!r} cannot be run: {os.strerror(answer["errno"])}')
        if in_w is not None:
            os.set_blocking(in_w, False)
        self.stdin, self.pipes = in_w, {out: 1, err: 2}
        self.keeper.watch(self.control, selectors.EVENT_READ, self.on_monitor)
        for fd in self.pipes:
            os.set_blocking(fd, False)
            self.keeper.watch(fd, selectors.EVENT_READ, lambda _, fd=fd: self.on_output(fd))

    # Output.

    def on_output(self, fd):
        try:
            data = os.read(fd, 256 << 10 if self.drop_oldest else max(1, min(256 << 10, self.journal.room())))
        except BlockingIOError:
            return
        if data:
            self.append(self.pipes[fd], data)
        else:
            self.close_pipe(fd)
            self.finish()

    def append(self, stream, data):
        self.held.append((stream, data))
        self.flush()
        if self.follower:
            self.follower.pump()

    def flush(self):
        """Journals what was read. Where there is no room, neither on the disk nor within the spill, the writer is left to wait."""
        j = self.journal
        try:
            while self.held:
                j.append(self.held[0][0], self.held[0][1], time.time_ns())
                self.held.pop(0)
        except OSError as e:
            print("journal:", e, file=sys.stderr, flush=True)
        if self.drop_oldest and j.room() < 0:
            j.drop(j.end - j.spill)
        full = bool(self.held) or not self.drop_oldest and j.room() <= 0
        if full != self.paused:
            self.paused = full
            for fd in self.pipes:
                self.keeper.watch(fd, 0 if full else selectors.EVENT_READ, lambda _, fd=fd: self.on_output(fd))

    def close_pipe(self, fd):
        self.keeper.unwatch(fd)
        os.close(fd)
        del self.pipes[fd]

    # The end.

    def on_monitor(self, _):
        message = self.control.recv(4096)
        if not message:  # it has left: nothing of the process's tree lives
            self.living = False
            self.keeper.unwatch(self.control)
            self.control.close()
            if not self.leader:  # somebody has killed it, and nobody knows how the leader ends
                self.lost = True
                self.close_stdin()
                if self.follower:
                    self.follower.pump()
            return
        self.leader = json.loads(message)
        self.living = self.leader["left"]
        self.deadline = time.monotonic() + GRACE
        self.ended = time.time()
        self.finish()

    def on_deadline(self):
        """Takes what is in the pipes now, whatever the journal's room, and throws away what comes later."""
        for fd, stream in list(self.pipes.items()):
            size = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
            while size > 0 and (data := os.read(fd, min(size, 256 << 10))):
                size -= len(data)
                self.append(stream, data)
            try:
                self.leader["cut"] = os.read(fd, 1) != b"" or self.leader.get("cut", False)
            except BlockingIOError:
                self.leader["cut"] = True
            self.close_pipe(fd)
        self.finish()

    def finish(self):
        """Writes the exit, once the leader has ended and its output is at its end."""
        if self.exit or not self.leader or self.pipes or self.held:
            return
        self.deadline = None
        status = self.leader["status"]
        signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self.exit = {
            "code": 128 + signalled if signalled else os.WEXITSTATUS(status),
            "signal": signal_name(signalled) if signalled else "",
            "reason": "signalled" if signalled else "exited",
            "started": self.started, "ended": max(self.ended, self.started), "peak": self.leader["peak"], "cut": self.leader.get("cut", False),
        }
        self.save("exit.json", self.exit)
        self.journal.close()
        self.close_stdin()
        if self.follower:
            self.follower.pump()

    def info(self):
        return {"id": self.id, "token": self.token, "started": self.started, "exit": self.exit, "state": self.state()}

    def state(self):
        return "exited" if self.exit else "abandoned" if self.lost else "running"

    # Stdin.

    def write_stdin(self, follower):
        """Takes as much of a follower's stdin as the process does. Where nobody will read it, it counts as taken."""
        data = follower.stdin
        if self.stdin is None or self.exit:
            n = len(data)
        else:
            try:
                n = os.write(self.stdin, data[: 64 << 10]) if data else 0
            except BlockingIOError:
                n = 0
            except BrokenPipeError:
                self.close_stdin()
                n = len(data)
        del data[:n]
        self.taken += n
        if n:
            follower.conn.send({"taken": self.taken})
        if not data and follower.stdin_ended:
            self.close_stdin()
        if self.stdin is not None:
            self.keeper.watch(self.stdin, selectors.EVENT_WRITE if data else 0, lambda _: self.on_stdin())

    def on_stdin(self):
        if self.follower and self.follower.with_stdin:
            self.write_stdin(self.follower)
        else:
            self.keeper.watch(self.stdin, 0, None)

    def close_stdin(self):
        if self.stdin is not None:
            self.keeper.unwatch(self.stdin)
            os.close(self.stdin)
            self.stdin = None


def find(path, search, cwd):
    """The file that a command's path means, by the container's own files."""
    if b"/" in path:
        candidates = [os.path.join(cwd, path)]
    else:
        candidates = [os.path.join(cwd, d, path) for d in search.split(b":")]
    there = False
    for c in candidates:
        try:
            st = os.stat(c)
        except OSError:
            continue
        if stat.S_ISREG(st.st_mode) and st.st_mode & 0o111:
            return c
        there = True
    name = os.fsdecode(path)[:200]
    if there:
        raise Refused("invalid", "not-executable", f"{name!r} is no file that can be executed")
    raise Refused("invalid", "executable-not-found", f"{name!r} is not in the container")


class Follower:
    """The newest FollowProcess of a process, on its connection."""

    def __init__(self, conn, process, start, with_stdin):
        j = process.journal
        if not 0 <= start <= j.end:
            raise Refused("invalid", "spec", f'process "{process.id}": position {start} is not one of its journal, which ends at {j.end}')
        if start < j.acked:
            raise Refused("failed precondition", "output-gap", f'process "{process.id}": the output before {j.oldest} was acknowledged and dropped; '
                          f"follow from there", kind="process", id=process.id, position=j.oldest)
        if process.follower:
            process.follower.refuse(Refused("failed precondition", "superseded", f'process "{process.id}": a newer follower has taken over',
                                            kind="process", id=process.id))
        self.conn, self.process, self.with_stdin = conn, process, with_stdin
        self.stdin, self.stdin_ended, self.sent, self.exit_sent = bytearray(), False, start, False
        self.acknowledge(start)
        process.follower, conn.follower = self, self
        if with_stdin:
            process.generation += 1
        conn.send({"opened": {"state": process.state(), "taken": process.taken,
                              "generation": process.generation if with_stdin else 0}})
        self.records = j.read(start)
        self.pump()

    def refuse(self, error):
        self.process.follower = self.conn.follower = None
        self.conn.send(error.header)
        self.conn.end()

    def on_frame(self, header, data):
        if "ack" in header:
            if header["ack"] <= self.sent:
                self.acknowledge(header["ack"])
        elif "stdin" in header and self.with_stdin:
            self.stdin += data
            self.stdin_ended = self.stdin_ended or header["stdin"] == "end"
            if len(self.stdin) > AHEAD:
                self.refuse(Refused("invalid", "spec", f'process "{self.process.id}": more than {AHEAD} bytes of stdin are on their way'))
                return
            self.process.write_stdin(self)
        self.pump()

    def acknowledge(self, position):
        p = self.process
        p.journal.acknowledge(position)
        p.flush()
        p.finish()

    def pump(self):
        """Sends what there is, as far as the other side keeps up; at last the exit, and the end once all is acknowledged."""
        p = self.process
        while not self.exit_sent and self.conn.sock and len(self.conn.output) < AHEAD:
            records, payload = [], []
            size = 0
            while size < 256 << 10 and (r := next(self.records)):
                position, stream, at, data = r
                if stream:
                    records.append([position, stream, at, len(data)])
                    payload.append(data)
                    self.sent, size = position + len(data), size + len(data)
                else:
                    records.append([position, 0, 0, data])
                    self.sent = data
            if records:
                self.conn.send({"records": records}, b"".join(payload))
            elif p.exit:
                self.conn.send({"exit": p.exit})
                self.exit_sent = True
            elif p.lost and not p.pipes:
                self.refuse(Refused("failed precondition", "abandoned", f'process "{p.id}": its monitor was killed, and its exit is not known',
                                    kind="process", id=p.id))
                return
            else:
                return
        if self.exit_sent and p.journal.acked >= p.journal.end and self.conn.follower is self:
            p.follower = self.conn.follower = None
            self.conn.send({"done": True})
            self.conn.end()


class Connection:
    """One call of the plugin."""

    def __init__(self, keeper, sock):
        self.keeper, self.sock, self.follower, self.ending = keeper, sock, None, False
        self.input, self.output = bytearray(), bytearray()
        sock.setblocking(False)
        keeper.watch(sock, selectors.EVENT_READ, self.on_event)

    def send(self, header, data=b""):
        if self.sock:
            self.output += encode(header, data)
            self.write()

    def end(self):
        """Closes it once all is sent."""
        self.ending = True
        self.write()

    def write(self):
        if not self.sock:
            return
        try:
            while self.output:
                del self.output[: self.sock.send(self.output[: 256 << 10])]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        if self.sock and self.ending and not self.output:
            self.close()
        if self.sock:
            self.keeper.watch(self.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.output else 0), self.on_event)

    def close(self):
        if self.sock:
            self.keeper.unwatch(self.sock)
            self.sock.close()
            self.sock = None
        if self.follower:
            self.follower.process.follower = None  # the process goes on
            self.follower = None

    def on_event(self, events):
        if events & selectors.EVENT_WRITE:
            self.write()
            if self.follower:
                self.follower.pump()
        if events & selectors.EVENT_READ and self.sock:
            try:
                data = self.sock.recv(256 << 10)
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            self.input += data
            while self.sock and len(self.input) >= SIZES.size:
                text, size = SIZES.unpack_from(self.input)
                whole = SIZES.size + text + size
                if len(self.input) < whole:
                    return
                frame = bytes(self.input[SIZES.size : whole])
                del self.input[:whole]
                self.on_frame(json.loads(frame[:text]), frame[text:])

    def on_frame(self, header, data):
        if self.follower:
            self.follower.on_frame(header, data)
        elif not self.ending and "op" in header:
            try:
                answer = getattr(self.keeper, "op_" + header["op"])(self, header)
            except Refused as e:
                answer = e.header
            except Exception as e:  # such as no room on the disk
                traceback.print_exc()
                answer = Refused("internal", "", f'{header["op"]}: {e}').header
            if answer is not None:
                self.send(answer)
                self.end()


class Keeper:
    def __init__(self, record, listener, dir):
        self.record, self.dir, self.processes = record, dir, {}
        self.selector, self.watched = selectors.DefaultSelector(), {}
        self.wake, waker = socket.socketpair()
        self.wake.setblocking(False)
        waker.setblocking(False)
        self.waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch(self.wake, selectors.EVENT_READ, lambda _: self.wake.recv(4096))
        self.watch(listener, selectors.EVENT_READ, lambda _: Connection(self, listener.accept()[0]))

    def watch(self, file, events, callback):
        """Calls callback(events) when one of them is there; with no events it rests."""
        fd = file if isinstance(file, int) else file.fileno()
        before = self.watched.get(fd, 0)
        if before == events:
            return
        if before and events:
            self.selector.modify(fd, events, callback)
        elif events:
            self.selector.register(fd, events, callback)
        else:
            self.selector.unregister(fd)
        self.watched[fd] = events

    def unwatch(self, file):
        self.watch(file, 0, None)
        self.watched.pop(file if isinstance(file, int) else file.fileno(), None)

    def run(self):
        while True:
            waiting = [p for p in self.processes.values() if p.deadline]
            timeout = max(0, min(p.deadline for p in waiting) - time.monotonic()) if waiting else None
            for key, events in self.selector.select(timeout):
                if self.watched.get(key.fd):  # not closed by one before it
                    try:
                        key.data(events)
                    except Exception:  # a defect ends a call, not the container
                        traceback.print_exc()
            for p in waiting:
                if p.deadline and p.deadline <= time.monotonic():
                    p.deadline = None
                    p.on_deadline()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # monitors, and what has lost all its parents
            except ChildProcessError:
                pass

    def process(self, header):
        try:
            return self.processes[header["id"]]
        except KeyError:
            raise Refused("not found", "", f'process "{header["id"]}" not found', kind="process", id=header["id"]) from None

    def op_start(self, _, header):
        id = header["id"]
        there = self.processes.get(id)
        if there and there.token != header["token"]:
            raise Refused("already exists", "", f'process "{id}" exists already, made with another token', kind="process", id=id)
        if there:
            return {"ok": True}
        if header["sealed"]:
            raise Refused("failed precondition", "sealed", f'process "{id}": volume "{header["sealed"]}", which the container mounts writable, '
                          "is sealed", kind="volume", id=header["sealed"])
        if len(self.processes) >= MAX_PROCESSES:
            raise Refused("failed precondition", "processes", f"the container has had {MAX_PROCESSES} processes; make another one")
        header["dir"] = header["dir"] or self.dir
        self.processes[id] = Process(self, header)
        return {"ok": True}

    def op_list(self, *_):
        return {"processes": [p.info() for p in self.processes.values()]}

    def op_living(self, *_):
        return {"living": any(p.living for p in self.processes.values())}

    def op_signal(self, _, header):
        p = self.process(header)
        if not p.exit and p.living:
            try:
                p.control.send(b"%d" % header["number"])
            except OSError:
                pass  # its monitor has just left
        return {"ok": True}

    def op_follow(self, conn, header):
        Follower(conn, self.process(header), header["from"], header["stdin"])


def main():
    container, lock = sys.argv[1], int(sys.argv[2])
    config = json.load(sys.stdin)
    record = os.open(os.path.join(container, "record"), os.O_RDONLY | os.O_DIRECTORY)
    os.dup2(os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=record), 2)
    call(libc.unshare, 0x20000 | 0x20000000 | 0x8000000 | 0x4000000)  # CLONE_NEWNS, NEWPID, NEWIPC, NEWUTS
    go, said = os.pipe()
    answers, answer = os.pipe()
    child = os.fork()
    if child:
        os.close(go), os.close(answer)
        with open(f"/proc/{child}/stat") as f:
            started = f.read().rpartition(")")[2].split()[19]
        with open(os.open("pid", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=record), "w") as f:
            f.write(f"{child} {started}")
        os.write(said, b"go")
        with open(answers, "rb") as f:
            sys.stdout.buffer.write(f.read())
        sys.stdout.flush()
        os._exit(0)
    call(libc.prctl, 1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, until it is known to be there
    os.close(said), os.close(answers), os.close(lock)  # its holder is who has started us
    if os.read(go, 2) != b"go":
        os._exit(1)
    os.close(go)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0), os.dup2(null, 1)
    os.umask(0o022)
    for number in signal.valid_signals():  # the plugin ignores some, and commands must not
        if signal.getsignal(number) == signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    # The C library keeps two more to itself. A caller such as make leaves them ignored, and they are then inherited.
    default = ctypes.create_string_buffer(64)  # of zeros, which is what the kernel takes for SIG_DFL
    for number in (32, 33):
        libc.syscall(RT_SIGACTION[os.uname().machine], number, default, None, ctypes.c_size_t(8))
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"/proc/self/fd/{record}/socket")  # by a short name, for those of sockets are at most 107 bytes
        listener.listen(512)
        listener.setblocking(False)
        enter(os.path.join(container, "root"), config["mounts"])
        sys.path.clear()  # nothing of the container is ever imported
        os.makedirs(config["dir"], exist_ok=True)
        keeper = Keeper(record, listener, config["dir"])
        call(libc.prctl, 1, 0, 0, 0, 0)
        os.write(answer, b"{}")
        os.close(answer)
    except (OSError, Refused) as e:
        refused = e if isinstance(e, Refused) else Refused("internal", "", f"the keeper does not start: {e}")
        os.write(answer, json.dumps(refused.header).encode())
        os._exit(1)
    keeper.run()


if __name__ == "__main__":
    main()
