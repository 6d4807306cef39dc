"""Headers: an error in a message is reported before anything else happens, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.errors import UnexpectedMessage
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.transport.header import SIZE, Header, checksum, run_number
from gnnqlab.message.transport.transport import TRANSPORTS, make_transport
from gnnqlab.partition import Random, build_shard
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

HEADER = Header(direction="forward", run=11, epoch=7, layer=2, sender=0, receiver=1, columns=16, length=4000, layout=5)
COLUMNS = 13


def test_a_header_is_64_bytes_and_comes_back():
    assert len(HEADER.pack(9)) == SIZE == 64
    assert HEADER.check(HEADER.pack(2**64 - 9)) == 2**64 - 9


@each(
    ("change", "text"),
    [
        ({"run": 12}, "run must be 11, got 12; it comes from another run"),
        ({"sender": 3}, "sender must be 0, got 3"),
        ({"receiver": 3}, "receiver must be 1, got 3"),
        ({"epoch": 6}, "epoch must be 7, got 6; the workers are out of step"),
        ({"layer": 1}, "layer must be 2, got 1; the workers are out of step"),
        ({"direction": "backward"}, "direction must be forward, got backward"),
        ({"columns": 17}, "columns must be 16, got 17"),
        ({"length": 3999}, "length must be 4000, got 3999; the workers disagree about rows or bit-widths"),
        ({"layout": 6}, "layout must be 5, got 6; the workers disagree about bit-widths"),
    ],
)
def test_every_difference_is_named_and_moves_the_body_out_of_the_way(change, text):
    other = replace(HEADER, **change)
    with pytest.raises(UnexpectedMessage) as caught:
        HEADER.check(other.pack())
    assert f"rank 1 from rank 0, layer 2, forward, epoch 7: {text}" in str(caught.value)
    assert other.tag != HEADER.tag


def test_both_sides_of_a_message_find_the_same_tag():
    assert replace(HEADER).tag == HEADER.tag and 2 <= HEADER.tag < 2**31


def test_other_bytes_and_other_versions_are_refused():
    packed = HEADER.pack()
    with pytest.raises(UnexpectedMessage, match="magic must be b'GNQL', got b'GIF8'; these bytes are no message"):
        HEADER.check(b"GIF8" + packed[4:])
    with pytest.raises(UnexpectedMessage, match="format version must be 1, got 9; install one version"):
        HEADER.check(packed[:4] + b"\x09\x00" + packed[6:])


@settings(max_examples=60)
@given(size=st.integers(1, 20_000), seed=st.integers(0, 99), data=st.data())
def test_checksum_detects_changed_bytes_and_lengths(size, seed, data):
    body = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    whole = checksum(body)
    assert 0 <= whole < 2**64 and checksum(body.clone()) == whole
    changed = body.clone()
    changed[data.draw(st.integers(0, size - 1))] ^= data.draw(st.integers(1, 255))
    assert checksum(changed) != whole
    assert checksum(torch.cat([body, torch.zeros(1, dtype=torch.uint8)])) != whole
    assert checksum(torch.cat([body, torch.zeros(4, dtype=torch.uint8)])) != whole or size % 4 == 0


def test_checksum_detects_swapped_rows():
    rows = torch.arange(64 * 256, dtype=torch.float32).view(64, 256)
    swapped = rows.clone()
    swapped[[3, 40]] = rows[[40, 3]]
    assert checksum(rows.view(torch.uint8).flatten()) != checksum(swapped.view(torch.uint8).flatten())


def test_runs_have_their_numbers():
    assert run_number("a", "b") == run_number("a", "b") != run_number("ab", "")
    assert 0 <= run_number("a") < 2**64


# -- over real sockets --------------------------------------------------------------------------------------------


class Counting:
    """A transport that counts the bytes of the messages that it transfers."""

    def __init__(self, inner):
        self.inner, self.bodies, self.posted = inner, 0, []

    def post(self, send, receive, headers=None):
        self.bodies += sum(buffer.numel() for buffer in send.values())
        self.posted.append(headers)
        return self.inner.post(send, receive, headers)

    @property
    def headers(self):
        return sum(buffer.numel() for headers in self.posted for buffer in headers.send.values())


def one_exchange(rank, workers, graph, owner, transport, direction, codec, bits, wrong):
    """Exchange once; the last rank takes the wrong settings. Return the error or the received rows."""
    shard = build_shard(graph, owner, rank, workers)
    plan = shard.plan(direction)
    mine = wrong if rank == workers - 1 else {}
    counting = Counting(make_transport(transport, rank, workers))
    channel = Channel(
        layer=mine.get("layer", 1),
        direction=direction,
        plan=plan,
        codec=codec,
        bits=mine.get("bits", bits),
        transport=counting,
        seed=7,
        run=mine.get("run", 5),
    )
    number = shard.num_owned if direction == "forward" else shard.num_halo
    x = torch.sin(torch.arange(number * COLUMNS, dtype=torch.float32).view(number, COLUMNS) + rank)
    out = torch.zeros(shard.num_owned + shard.num_halo - number, COLUMNS)
    try:
        channel.post(x, out, epoch=mine.get("epoch", 3)).decode()
    except UnexpectedMessage as error:
        dist.barrier()  # a worker that waits for a body that will not come must not end first
        return str(error)
    return {
        "counted": (channel.bytes_payload + channel.bytes_params, channel.bytes_headers),
        "wire": (counting.bodies, counting.headers),
        "messages": sum(route.num_rows > 0 for route in plan.send),
        "out": out,
    }


CODECS = [
    (Float32(), Fixed()),
    (Stochastic(), Fixed(bits=2)),
    (Stochastic(), UniformRandom(bit_widths=(1, 2, 8, 16, 32))),
]


def every_codec(rank, workers, graph, owner, transport):
    return [
        one_exchange(rank, workers, graph, owner, transport, direction, codec, bits, {})
        for codec, bits in CODECS
        for direction in ("forward", "backward")
    ]


@each("transport", sorted(TRANSPORTS))
def test_sent_bytes_equal_the_counted_bytes_with_one_header_per_message(transport):
    graph = random_graph(seed=5)
    for results in run_ranks(every_codec, 3, graph, Random(seed=1).assign(graph, 3), transport):
        for result in results:
            assert result["counted"] == result["wire"]
            assert result["counted"][1] == SIZE * result["messages"] > 0


WRONG = {
    "stale": ({"epoch": 2}, ("epoch 3: epoch must be 3, got 2", "epoch 2: epoch must be 2, got 3")),
    "another layer": ({"layer": 0}, ("layer must be 1, got 0", "layer must be 0, got 1")),
    "foreign": ({"run": 6}, ("run must be 5, got 6", "run must be 6, got 5")),
    # longer than its buffer on one worker, shorter on the other
    "of another length": ({"bits": Fixed(bits=8)}, ("length must be ", "length must be ")),
}


@each(
    ("transport", "name"),
    [*(("direct", name) for name in WRONG), ("ring", "of another length"), ("all-to-all", "of another length")],
)
def test_a_message_that_does_not_belong_here_is_one_clear_error(transport, name):
    wrong, texts = WRONG[name]
    graph = random_graph(seed=5)
    owner = Random(seed=1).assign(graph, 2)
    found = run_ranks(one_exchange, 2, graph, owner, transport, "forward", Stochastic(), Fixed(bits=2), wrong)
    for rank, (error, text) in enumerate(zip(found, texts, strict=True)):
        assert f"rank {rank} from rank {1 - rank}, layer " in error and text in error


def disagreeing(rank, workers, graph, owner):
    """Two workers that draw the widths of the rows differently, in messages of equal length or not."""
    bits = UniformRandom(bit_widths=(2, 8)) if rank else UniformRandom(bit_widths=(8, 2))
    return one_exchange(rank, workers, graph, owner, "direct", "forward", Stochastic(), bits, {})


def test_disagreeing_bit_widths_of_workers_are_reported():
    graph = random_graph(seed=5)
    for error in run_ranks(disagreeing, 2, graph, Random(seed=1).assign(graph, 2)):
        assert "the workers disagree about" in error


class Flipping:
    """A transport that flips a bit of each message."""

    def __init__(self, inner):
        self.inner = inner

    def post(self, send, receive, headers=None):
        transfer = self.inner.post(send, receive, headers)
        finish = transfer._finish

        def finish_and_flip():
            finish()
            for buffer in receive.values():
                buffer[-1] ^= 16

        transfer._finish = finish_and_flip
        return transfer


def flipped(rank, workers, graph, owner, codec, bits):
    shard = build_shard(graph, owner, rank, workers)
    transport = Flipping(make_transport("direct", rank, workers))
    channel = Channel(
        layer=1,
        direction="forward",
        plan=shard.plan("forward"),
        codec=codec,
        bits=bits,
        transport=transport,
        seed=7,
        run=1,
    )
    with pytest.raises(UnexpectedMessage) as caught:
        channel.post(torch.ones(shard.num_owned, COLUMNS), torch.empty(shard.num_halo, COLUMNS), epoch=3).decode()
    return str(caught.value)


@each(("codec", "bits"), CODECS[:2])
def test_a_bit_that_changed_on_the_way_is_noticed(codec, bits):
    graph = random_graph(seed=5)
    for rank, error in enumerate(run_ranks(flipped, 2, graph, Random(seed=1).assign(graph, 2), codec, bits)):
        assert f"rank {rank} from rank {1 - rank}, layer 1, forward, epoch 3: checksum must be 0x" in error


def many(rank, workers, messages):
    """Peak memory before and after many exchanges, each with tags of its own."""
    import resource

    from benchmarks.kernels.exchange import plan_between

    channel = Channel(
        layer=0,
        direction="forward",
        plan=plan_between(rank, 100),
        codec=Stochastic(),
        bits=Fixed(bits=2),
        transport=make_transport("direct", rank, workers),
        seed=0,
        run=1,
    )
    x, out = torch.ones(200, 8), torch.empty(100, 8)
    for epoch in range(messages):
        channel.post(x, out, epoch=epoch).decode()
        channel.arrivals.clear()
        if epoch == messages // 4:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def test_memory_does_not_grow_with_tags_used_once():
    messages = 300
    for kilobytes in run_ranks(many, 2, messages):
        assert kilobytes < 1024
