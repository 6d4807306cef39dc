from gnnqlab.run.failure_report import WorkerError, is_consequence, order, place_of, signal_name
from tests.cases import each


def error(rank: int, ns: int, *, consequence: bool = False) -> WorkerError:
    return WorkerError(rank=rank, cause=f"rank {rank}", phase="wait", epoch=1, monotonic_ns=ns, consequence=consequence)


@each(
    "text",
    [
        "[pair.cc:553] Connection closed by peer [127.0.0.1]:1234. This is typically caused by a remote worker",
        "Read error [127.0.0.1]:36743: Connection reset by peer",
        "[unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete",
        "wait timeout after 5000ms, keys: /default_pg/0//cpu//0/2",
        "Gloo connectFullMesh failed with Connection refused",
        "NCCL error: remote process exited or there was a network error",
    ],
)
def test_a_broken_connection_is_a_consequence(text: str) -> None:
    assert is_consequence(text)


@each(
    "text",
    ["", "bits must be one of (1, 2, 4, 8), got 3", "CUDA out of memory", "cora: [Errno 111] Connection refused"],
)
def test_anything_else_is_a_cause(text: str) -> None:
    assert not is_consequence(text)


def test_the_first_own_error_is_the_root_cause() -> None:
    ordered = order([error(0, 1, consequence=True), error(1, 30), error(2, 20), error(3, 2, consequence=True)])
    assert [e.rank for e in ordered] == [2, 1, 0, 3]


def test_an_error_survives_the_status_file() -> None:
    original = error(4, 17, consequence=True)
    assert WorkerError.from_json({**original.to_json(), "of a later version": 1}) == original


def test_words() -> None:
    assert place_of("wait", 12) == "in epoch 12 while waiting for boundary messages"
    assert signal_name(9) == "SIGKILL" and signal_name(200) == "signal 200"
