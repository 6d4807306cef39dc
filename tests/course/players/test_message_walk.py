"""The walk shows the codec's work: its bytes are the codec's, and every code follows from the displayed numbers."""

import pytest
import torch

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.experiments.real_message import RealMessage, trained_message
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.halo.exchange import HaloExchange
from gnnqlab.exchange.schedules.schedule import Synchronous
from gnnqlab.kernels.codec.rows import WIDTHS, decode_rows, encode_rows, row_bytes
from gnnqlab.kernels.noise import stream
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox
from tests.cases import each


@pytest.fixture(scope="module")
def parts():
    return gq.partition(gq.load("sbm:60,3,6"), gq.partitioners.Random(), workers=2)


@pytest.fixture(scope="module")
def message(parts) -> RealMessage:
    return trained_message(parts, hidden=13, epochs=8)


@each("bits", WIDTHS)
@each("parameters", ["float32", "bfloat16"])
def test_the_bytes_are_the_kernels(message: RealMessage, bits: int, parameters: str) -> None:
    """A call of the kernel for this row alone gives the same payload, parameters and decoded row."""
    walk = MessageWalk.from_message(message, bits=bits, node=int(message.ids[3]), draw=2, parameters=parameters)
    payload = torch.zeros(row_bytes(13, bits), dtype=torch.uint8)
    params = torch.zeros(1, 2, dtype=getattr(torch, parameters))
    encode_rows(
        message.rows, torch.tensor([3]), message.ids[3:4], bits, None, payload, params,
        seed=message.seed, epoch=message.epoch + 2, stream=stream("forward", 1),
    )  # fmt: skip
    assert torch.equal(walk.payload, payload)
    assert [walk.zero, walk.scale] == params.float()[0].tolist()
    out = torch.zeros(1, 13)
    decode_rows(payload, params, bits, None, out, None)
    assert torch.equal(walk.decoded, out[0])


@each("bits", WIDTHS)
def test_a_reader_can_work_out_every_code(message: RealMessage, bits: int) -> None:
    for node in message.ids.tolist():
        walk = MessageWalk.from_message(message, bits=bits, node=node)
        expected = (walk.marks + walk.noise).floor()
        assert torch.equal(walk.codes.double(), expected)
        exact = (walk.row.double() - walk.zero) / walk.scale
        # Half of the last of 16 bits, and the rounding error of two float32 operations on a mark of up to 2**bits.
        assert (walk.marks - exact).abs().max() <= 0.5 / 65536 + 2**bits * 2.0**-22
        assert torch.equal(walk.decoded, walk.codes.float() * walk.scale + walk.zero)


def test_the_wire_holds_every_byte_once(message: RealMessage) -> None:
    widths = torch.tensor([WIDTHS[place % 4] for place in range(message.ids.numel())], dtype=torch.uint8)
    walk = MessageWalk.from_message(message, bits=widths)
    ends = [run.first + run.size for run in walk.wire]
    assert [run.first for run in walk.wire] == [0, *ends[:-1]] and ends[-1] == walk.segment.numel()
    payloads = [run.bits for run in walk.wire if run.kind == "payload"]
    assert payloads == sorted(payloads, reverse=True), "widest first"
    for node, width in zip(message.ids.tolist(), widths.tolist()):
        alone = MessageWalk.from_message(message, bits=width, node=node)
        mixed = MessageWalk.from_message(message, bits=widths, node=node)
        assert torch.equal(mixed.payload, alone.payload), "a row's bytes do not depend on the others"
        assert torch.equal(mixed.decoded, alone.decoded)


def test_walk_receives_the_rows_that_real_channels_send(parts, message: RealMessage) -> None:
    """Two workers' real channels, joined by a queue: the received halo rows are those of the walk."""
    mail = Mailbox(len(parts.shards))
    exchanges = [
        HaloExchange(
            shard,
            ChannelFactory(
                codec=gq.codecs.Stochastic(),
                bits=gq.bits.Fixed(bits=2),
                transport=LoopbackTransport(mail, shard.rank),
                seed=message.seed,
            ),
            Synchronous(),
        )
        for shard in parts.shards
    ]
    everything = torch.zeros(60, 13)
    everything[message.ids] = message.rows
    out = [torch.zeros(shard.num_halo, 13) for shard in parts.shards]
    context = AggregationContext(1, message.epoch, training=True)
    pending = [
        exchange.boundary.channel(context, "forward").post(everything[shard.owned], halo, epoch=message.epoch)
        for exchange, shard, halo in zip(exchanges, parts.shards, out)
    ]
    for one in pending:
        one.decode()
    assert torch.equal(out[1], MessageWalk.from_message(message, bits=2).received)


def test_theorem_one_is_that_of_the_row(message: RealMessage) -> None:
    walk = MessageWalk.from_message(message, bits=2)
    sigma = torch.tensor(walk.to_frame()["fraction σ"].to_numpy())
    assert walk.variance["exact"] == pytest.approx(walk.scale**2 * float((sigma * (1 - sigma)).sum()), rel=1e-5)
    assert walk.variance["average"] == pytest.approx(13 * walk.scale**2 / 6, rel=1e-6)
    assert walk.variance["exact"] <= walk.variance["worst"]


def test_another_draw_is_other_noise_and_the_same_row(message: RealMessage) -> None:
    first, second = MessageWalk.from_message(message, bits=1), MessageWalk.from_message(message, bits=1, draw=1)
    assert not torch.equal(first.noise, second.noise) and torch.equal(first.row, second.row)


def test_a_constant_row_takes_no_step() -> None:
    message = RealMessage(torch.full((1, 5), 2.5), torch.tensor([4]), 0, 1, layer=1, epoch=0, seed=0)
    walk = MessageWalk.from_message(message, bits=4)
    assert walk.scale == 0 and walk.codes.tolist() == [0] * 5 and torch.equal(walk.decoded, walk.row)
    assert walk.marks.tolist() == [0] * 5 and walk.variance["exact"] == 0


def test_trained_rows_do_not_depend_on_the_owner() -> None:
    graph = course.ten_nodes()
    halves = trained_message(gq.partition(graph, course.Halves(), workers=2), hidden=6, epochs=4)
    quarters = trained_message(
        gq.partition(graph, course.Halves(), workers=4), hidden=6, epochs=4, sender=1, receiver=2
    )
    shared = set(halves.ids.tolist()) & set(quarters.ids.tolist())
    assert shared
    for node in shared:
        assert torch.equal(halves.rows[halves.ids == node], quarters.rows[quarters.ids == node])


@each(
    ("settings", "error"),
    [
        ({"bits": 3}, r"bits must be among \(1, 2, 4, 8\), got \[3\]"),
        ({"node": 1000}, "node must be one whose row is in the message"),
        ({"bits": torch.tensor([2, 4])}, "one bit-width or one per row"),
    ],
)
def test_invalid_bits_or_node_of_a_walk_raise_value_error(
    message: RealMessage, settings: dict[str, object], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        MessageWalk.from_message(message, **settings)


@each(
    ("settings", "error"),
    [
        ({"receiver": 2}, r"receiver must lie in \[0, 2\), got 2"),
        ({"layer": 3}, r"layer must lie in \[0, 3\), got 3"),
        ({"receiver": 0}, "worker 0 needs none of worker 0"),
    ],
)
def test_message_that_is_not_sent_raises_value_error(parts, settings: dict[str, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        trained_message(parts, **settings)
