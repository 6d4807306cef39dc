"""Bytes of the busiest link: on a loopback, between hosts, at once and in rounds."""

from __future__ import annotations

import numpy as np
import pytest

from gnnqlab.theory.cost import LinkCost, all_at_once_s, ring_s
from gnnqlab.tune.wire import GOODPUT, Wire
from tests.cases import each

SENT = np.array([[0, 20, 20, 1], [30, 0, 10, 2], [10, 40, 0, 3], [5, 5, 5, 0]], dtype=float)


@each("transport", ["direct", "ring"])
def test_a_loopback_is_the_cost_model_of_equal_links(transport):
    wire = Wire(workers=4, theta_s_per_byte=0.1, transport=transport)
    known = {"direct": all_at_once_s, "ring": ring_s}[transport]
    assert wire.exchange_s(SENT) == pytest.approx(known(LinkCost.uniform(4, bytes_per_s=10.0), SENT))


def test_workers_of_a_host_share_its_wire_and_reach_each_other_without_it():
    wire = Wire(workers=4, hosts=2, theta_s_per_byte=1.0, gamma_s=7.0)
    # 0 and 1 send 20 + 1 + 10 + 2 = 33 to 2 and 3, which send 10 + 40 + 5 + 5 = 60 back.
    assert wire.busiest_bytes(SENT) == 60 and wire.exchange_s(SENT) == 67
    three = Wire(workers=3, hosts=3, theta_s_per_byte=1.0)
    into_one = np.array([[0, 9, 0], [0, 0, 0], [0, 9, 0]], dtype=float)
    assert three.busiest_bytes(into_one) == three.busiest_bytes(into_one.T) == 18  # each sends 9, one receives both
    assert Wire(workers=3, theta_s_per_byte=1.0).busiest_bytes(into_one) == 18
    # Workers 2 and 3 share the wire of a host, in both directions; messages between 2 and 3 do not count.
    tiers = np.zeros((4, 4))
    tiers[0, 2], tiers[1, 3], tiers[2, 3] = 5, 6, 100
    assert wire.busiest_bytes(tiers) == wire.busiest_bytes(tiers.T) == 11


def test_assigner_costs_match_ring_rounds():
    cost = Wire(workers=4, hosts=2, theta_s_per_byte=1.0).cost().theta_s_per_byte
    assert cost[0, 1] == cost[2, 3] < 1e-6 and (np.diag(cost) == 0).all()
    # In round 2 both workers of a host send to the other host, in rounds 1 and 3 one does.
    assert cost[0, 2] == cost[1, 3] == cost[3, 1] == 2.0
    assert cost[1, 2] == cost[0, 3] == cost[3, 0] == 1.0
    loop = Wire(workers=3, theta_s_per_byte=0.5).cost().theta_s_per_byte
    assert np.array_equal(loop, 0.5 * (1 - np.eye(3)))


def test_a_rate_is_read_from_its_name():
    wire = Wire.from_rate("8mbit", workers=2, gamma_s=0.25)
    assert wire.exchange_s(np.array([[0, 1e6 * GOODPUT], [0, 0]])) == pytest.approx(1.25)
    assert wire.reduce_bytes(1000) == 1000.0
    with pytest.raises(ValueError, match="link must be a number"):
        Wire.from_rate("fast", workers=2)


@each(("workers", "crossed"), [(1, 0.0), (2, 1000.0), (4, 1500.0), (5, 1600.0)])
def test_a_ring_sums_gradients_in_two_turns_without_the_own_share(workers, crossed):
    assert Wire(workers=workers, theta_s_per_byte=1.0).reduce_bytes(1000) == pytest.approx(crossed)


def test_hosts_share_workers_evenly():
    with pytest.raises(ValueError, match="workers must be a multiple of the hosts, got 3"):
        Wire(workers=3, hosts=2, theta_s_per_byte=1.0)
    with pytest.raises(ValueError, match=r"got 0 worker\(s\) on 2 hosts; choose 2 workers"):
        Wire(workers=0, hosts=2, theta_s_per_byte=1.0)
    with pytest.raises(ValueError, match="θ and γ must not be negative"):
        Wire(workers=2, theta_s_per_byte=-1.0)
