"""Start runs and notebook kernels from a process that has imported PyTorch already: seconds of processor time less.

``python tests/warm.py serve ADDRESS`` imports once what guard, agent, workers and kernels need and waits on a socket.
With ``GNNQLAB_STARTER="python -I -S tests/warm.py start ADDRESS"`` the package has each guard started there, by a fork;
so is the agent below the guard. A kernel specification of Jupyter with the same command in front has each notebook's
kernel forked. `run_all.py` sets both for all tests; planted faults and the tests of the start itself, with the fixture
`cold`, unset the first. Only the standard library at the top: the client of a start is to be quick.
"""

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

GUARD, AGENT, KERNEL = "gnnqlab.launch.guard", "gnnqlab.launch.agent", "ipykernel_launcher"
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
"""Signals that a client passes on to its kernel: Jupyter interrupts the process that it started."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


def start(address: str, command: list[str]) -> int:
    """Have a command run by the server at the address, with this process's streams; return its exit code."""
    request = json.dumps({"command": command, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [struct.pack("Q", len(request))], [0, 1, 2])
        server.sendall(request)
        number = server.recv(4)
        if KERNEL in command and number:
            pid = struct.unpack("i", number)[0]
            for each in PASSED_ON:
                signal.signal(each, lambda signum, _: os.kill(pid, signum))
        answer = server.recv(4)
    return struct.unpack("i", answer)[0] if answer else 1


def specify_kernel(folder: Path, start: list[str]) -> None:
    """Write the specification of a kernel that starts by the command; the folder is for ``JUPYTER_PATH``."""
    command = [*start, sys.executable, "-m", KERNEL, "-f", "{connection_file}"]
    specification = folder / "kernels" / "python3" / "kernel.json"
    specification.parent.mkdir(parents=True)
    specification.write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))


def serve(address: str) -> None:
    """Fork a process for each requested start, until this process is ended."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)  # from now on starts may be requested; they wait for the imports
    import ipykernel.kernelapp  # noqa: F401
    import pandas  # noqa: F401
    import torch.distributed.run  # noqa: F401

    import gnnqlab.launch.agent
    import gnnqlab.launch.guard
    import gnnqlab.launch.worker
    import gnnqlab.train.loop.fit  # noqa: F401
    from gnnqlab.run.processes import die_with_parent

    die_with_parent()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every object, and so copy every page of it
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> pid, its client
    kernels: dict[int, int] = {}  # descriptor of a client -> pid of its kernel
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listening.fileno():
                client, _ = listening.accept()
                pid, command = _fork(client)
                pidfd = os.pidfd_open(pid)
                running[pidfd] = pid, client
                poll.register(pidfd, select.POLLIN)
                if KERNEL in command:
                    kernels[client.fileno()] = pid
                    poll.register(client, 0)  # reports only its end
                continue
            if descriptor in kernels:  # the client was killed: Jupyter ends a kernel so
                os.kill(kernels.pop(descriptor), signal.SIGKILL)
                poll.unregister(descriptor)
                continue
            pid, client = running.pop(descriptor)
            if kernels.pop(client.fileno(), None):
                poll.unregister(client)
            poll.unregister(descriptor)
            os.close(descriptor)
            _, status = os.waitpid(pid, 0)
            with client:
                _send(client, os.waitstatus_to_exitcode(status))


def _send(client: socket.socket, number: int) -> None:
    try:
        client.sendall(struct.pack("i", number))
    except OSError:
        pass  # the client was killed, as the package does with a guard that does not start


def _fork(client: socket.socket) -> tuple[int, list[str]]:
    """Read a request and run it in a new process; return its process number and the command."""
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    left = struct.unpack("Q", head)[0]
    text = b""
    while len(text) < left:
        text += client.recv(left - len(text))
    request = json.loads(text)
    pid = os.fork()
    if pid:
        for stream in streams:
            os.close(stream)
        _send(client, pid)
        return pid, request["command"]
    try:
        code = _run(request, streams)
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    _end(code)
    raise AssertionError


def _run(request: dict, streams: list[int]) -> int:
    os.setsid()
    _become(streams, request["environment"], keep=())
    os.chdir(request["folder"])
    command = request["command"]
    if command[1:3] == ["-m", KERNEL]:
        return _kernel(command[3:])
    if command[1:3] != ["-m", GUARD]:
        os.execvp(command[0], command)
    import subprocess

    from gnnqlab.launch import agent_process, guard

    agent_process.subprocess = SimpleNamespace(Popen=_agent, DEVNULL=subprocess.DEVNULL)  # type: ignore[assignment]
    return guard.main(command[3:])


def _kernel(arguments: list[str]) -> int:
    """Run a notebook's kernel, which finds the same modules as one that is started in the ordinary way."""
    from ipykernel.kernelapp import IPKernelApp

    here = Path(__file__).parent
    others = [folder for folder in sys.path if folder not in (str(here), str(here.parent))]
    sys.path[:] = [*others, str(here.parent)]  # last, as in the editable installation
    sys.argv[1:] = arguments
    IPKernelApp.launch_instance()
    return 0


def _agent(command: list[str], *, env: dict[str, str], pass_fds: list[int], preexec_fn, stdout, **streams: object):
    """Replace ``subprocess.Popen`` for the agent: a fork of the guard, or a separate process if it must be one."""
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
