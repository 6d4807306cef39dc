"""No port of a run on one machine can be reached from another machine."""

import ipaddress
import re
import struct
from pathlib import Path

import pytest

from tests.cases import each
from tests.launch.conftest import Bench

pytest.importorskip("torch.distributed.elastic")
pytestmark = pytest.mark.usefixtures("cold")

_LISTENS = "0A"


def listening(pid: int) -> set[str]:
    """Return the addresses at which a process waits for connections, from ``/proc``."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own |= set(re.findall(r"socket:\[(\d+)\]", str(link.readlink())))
        except OSError:
            continue  # closed meanwhile
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and words[9] in own:
                found.add(address(words[1].partition(":")[0]))
    return found


def address(text: str) -> str:
    """Return the address that ``/proc/net/tcp`` writes as hexadecimal words of the machine's own byte order.

    >>> address("0100007F"), address("00000000000000000000000000000000")
    ('127.0.0.1', '::')
    """
    words = [int(text[begin : begin + 8], 16) for begin in range(0, len(text), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))


def test_how_addresses_are_written() -> None:
    assert address("0100007F") == "127.0.0.1" and address("00000000") == "0.0.0.0"
    assert address("0" * 32) == "::" and address("000000000000000000000000" + "01000000") == "::1"


@each("method", ["fork", "spawn"])
def test_a_local_run_listens_on_the_loopback_alone(bench: Bench, method: str) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    with bench.launch(workers=2, start_method=method) as run:
        bench.running(run)
        places = {place for pid in bench.processes() for place in listening(pid)}
        assert places == {"127.0.0.1"}, places  # the store and Gloo's pairs
