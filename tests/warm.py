"""Start launched runs from a process that has imported PyTorch already: a second of processor time less for each.

``python tests/warm.py serve ADDRESS`` imports once what guard, agent and workers need and waits on a socket. With
``GNNQLAB_STARTER="python -I -S tests/warm.py start ADDRESS"`` the package has each guard started there, by a fork; so
is the agent below the guard. `run_all.py` sets this for all tests; those of `tests/launch` and planted faults, which
are about the start itself, unset it. Only the standard library at the top: the client of a start is to be quick.
"""

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from types import SimpleNamespace

GUARD, AGENT = "gnnqlab.launch.guard", "gnnqlab.launch.agent"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def start(address: str, command: list[str]) -> int:
    """Have a command run by the server at the address, with this process's streams; return its exit code."""
    request = json.dumps({"command": command, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [struct.pack("Q", len(request))], [0, 1, 2])
        server.sendall(request)
        answer = server.recv(4)
    return struct.unpack("i", answer)[0] if answer else 1


def serve(address: str) -> None:
    """Fork a process for each start that is asked for, until this process is ended."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)  # from now on starts may be asked for, and wait for the imports
    import torch.distributed.run  # noqa: F401

    import gnnqlab.launch.agent
    import gnnqlab.launch.guard
    import gnnqlab.launch.worker
    import gnnqlab.train.loop.fit  # noqa: F401
    from gnnqlab.launch.processes import die_with_parent

    die_with_parent()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every object, and so copy every page of it
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> pid, its client
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listening.fileno():
                client, _ = listening.accept()
                pid = _fork(client)
                pidfd = os.pidfd_open(pid)
                running[pidfd] = pid, client
                poll.register(pidfd, select.POLLIN)
                continue
            pid, client = running.pop(descriptor)
            poll.unregister(descriptor)
            os.close(descriptor)
            _, status = os.waitpid(pid, 0)
            with client:
                try:
                    client.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))
                except OSError:
                    pass  # the client was killed, as the package does with a guard that does not start


def _fork(client: socket.socket) -> int:
    """Read a request and run it in a new process; return its number."""
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    left = struct.unpack("Q", head)[0]
    text = b""
    while len(text) < left:
        text += client.recv(left - len(text))
    pid = os.fork()
    if pid:
        for stream in streams:
            os.close(stream)
        return pid
    try:
        code = _run(json.loads(text), streams)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    _end(code)
    return 0


def _run(request: dict, streams: list[int]) -> int:
    os.setsid()
    _become(streams, request["environment"], keep=())
    os.chdir(request["folder"])
    command = request["command"]
    if command[1:3] != ["-m", GUARD]:
        os.execvp(command[0], command)
    import subprocess

    from gnnqlab.launch import guard

    guard.subprocess = SimpleNamespace(Popen=_agent, DEVNULL=subprocess.DEVNULL)  # type: ignore[assignment]
    return guard.main(command[3:])


def _agent(command: list[str], *, env: dict[str, str], pass_fds: list[int], preexec_fn, stdout, **streams: object):
    """Stand in for ``subprocess.Popen`` of the agent: a fork of the guard, or a process of its own where it must be."""
    import subprocess

    if command[1:3] != ["-m", AGENT] or "--start-method=fork" not in command:
        return subprocess.Popen(command, env=env, pass_fds=pass_fds, preexec_fn=preexec_fn, stdout=stdout, **streams)
    pid = os.fork()
    if pid:
        return SimpleNamespace(pid=pid, returncode=None)
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _become([os.open(os.devnull, os.O_RDONLY), stdout.fileno(), stdout.fileno()], env, keep=pass_fds)
        preexec_fn()
        from gnnqlab.launch import agent

        code = agent.main(command[3:])
    finally:
        _end(code)


def _become(streams: list[int], environment: dict[str, str], *, keep) -> None:
    """Take over streams, environment and import path; close every other descriptor."""
    import tempfile

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the listing itself
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(environment)
    after = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in after if folder and folder not in before]
    tempfile.tempdir = None  # TMPDIR may be another


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(start(sys.argv[2], sys.argv[3:]))
