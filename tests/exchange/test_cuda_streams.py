"""Streams of an exchange: the order of waits, on recorded streams; and staged messages have the same bytes."""

from __future__ import annotations

import contextlib

import pytest
import torch

from gnnqlab.exchange.cuda_streams import CudaStages, Stages, stages_on
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.message.exchange_key import ExchangeKey


class Device:
    """Streams that record their calls, and a clock that an event reads."""

    def __init__(self):
        self.log: list[str] = []
        self.products, self.side = FakeStream("products", self), FakeStream("side", self)
        self.current = self.products
        self.now_ms = 0.0
        self.stages = CudaStages(self.side, lambda: self.current, self.use, lambda: FakeEvent(self))

    @contextlib.contextmanager
    def use(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def launch(self, what, milliseconds=1.0):
        self.log.append(f"{self.current.name}: {what}")
        self.now_ms += milliseconds


class FakeStream:
    def __init__(self, name, device):
        self.name, self._device = name, device

    def wait_stream(self, other):
        self._device.log.append(f"{self.name} waits for {other.name}")


class FakeEvent:
    def __init__(self, device):
        self._device = device

    def record(self, stream):
        self.stream, self.at_ms = stream, self._device.now_ms

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


def overlapped(device, timeline, place=None):
    """Run the parts of a forward step in the order of an overlapped exchange."""
    for what in ("encode", "post", "central", "wait", "decode", "marginal"):
        with timeline(what, place):
            device.launch(what)
        if what == "post":
            timeline.stages.after_launch(lambda: device.log.append("host: sends"))


EXPECTED = [
    "side waits for products",  # after the rows to encode are computed
    "side: encode",
    "products waits for side",  # without overlap: no product runs during encoding
    "side: post",
    "products: central",
    "host: sends",  # the device has work by then
    "side: wait",
    "side waits for products",  # without overlap: decoding begins after central rows
    "side: decode",
    "products waits for side",
    "products: marginal",
]


def test_three_stages_apart_from_each_other():
    device = Device()
    overlapped(device, Timeline(stages=device.stages))
    assert device.log == EXPECTED


def test_recorded_on_the_device_with_the_same_order():
    device = Device()
    timeline = Timeline(stages=device.stages)
    timeline.begin()
    overlapped(device, timeline, ExchangeKey(1, "forward"))
    assert device.log == EXPECTED
    spans = {span.what: span for span in timeline.take()}
    assert [round(1e3 * (span.end - span.start), 6) for span in spans.values()] == [1.0] * 6 + [2.0]
    transfer = spans["transfer"]  # from the end of post to the end of wait: during central rows
    assert (transfer.start, transfer.end) == (spans["post"].end, spans["wait"].end)
    assert spans["central"].start == pytest.approx(spans["encode"].end + 1e-3)


def test_rows_of_another_epoch_are_no_transfer_of_this_one():
    device = Device()
    timeline = Timeline(stages=device.stages)
    timeline.begin()
    for what in ("wait", "post"):  # pipelined: the wait for rows of the last epoch precedes the post of this epoch's
        with timeline(what, ExchangeKey(0, "forward")):
            device.launch(what)
    assert [span.what for span in timeline.take()] == ["wait", "post"]


def test_a_wait_inside_a_post_stays_on_the_side():
    device = Device()
    with device.stages.part("post"), device.stages.part("wait"):
        device.launch("copy")
    assert device.log == ["side: copy"] and device.current is device.products


def test_the_cpu_runs_parts_where_they_are_called():
    stages, called = stages_on("cpu"), []
    assert type(stages) is Stages and not stages.on_device
    stages.after_launch(lambda: called.append(1))
    assert called == [1]
    with stages.part("encode"):
        first = stages.mark()
    assert first() <= stages.mark()()


@pytest.mark.gpu
def test_streams_of_a_real_device():
    stages = stages_on("cuda")
    timeline = Timeline(stages=stages)
    x = torch.zeros(1 << 20, device="cuda")
    timeline.begin()
    for what in ("encode", "post", "central", "wait", "decode", "marginal"):
        with timeline(what, ExchangeKey(0, "forward")):
            if what not in ("post", "wait"):  # post and wait run during central rows
                x += 1.0
    torch.cuda.synchronize()
    assert bool((x[0] == 4.0) & (x == x[0]).all())  # each part runs after the one before where the order matters
    spans = timeline.take()
    assert all(span.end >= span.start for span in spans) and len(spans) == 7
