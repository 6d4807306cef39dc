"""Faults in when rows are used and what they count: staleness, smoothing, samples in sums and in attention."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="γ on what came in place of the mean",
        file="exchange/pipeline.py",
        before="torch.lerp(rows, before, smoothing)",
        after="torch.lerp(before, rows, smoothing)",
        test="exchange/test_pipeline.py::test_smoothing",
        why="γ = 0.95 would smooth next to nothing, and the paper's figures seem not to hold",
    ),
    Fault(
        name="fresh rows where stale ones were asked for",
        file="exchange/pipeline.py",
        before="if earlier is None or self.fresh:",
        after="if earlier is None or not self.fresh:",
        test="lab/course/test_staleness_views.py::test_ages_follow_the_schedule",
        why="PipeGCN would have Vanilla's accuracy, at Vanilla's speed",
    ),
    Fault(
        name="one stale epoch more than allowed",
        file="exchange/switch.py",
        before="late = self._stale >= self.bound",
        after="late = self._stale > self.bound",
        test="train/test_coordinator.py::test_staleness_is_bounded",
        why="the bound of staleness would be off by one",
    ),
    Fault(
        name="all of a pipeline hidden but its longest transfer",
        file="exchange/pipeline.py",
        before="sum(under_way) - computing",
        after="max(under_way) - computing",
        test="tune/test_parts.py::test_a_schedule_hides_what_it_says",
        why="forecasts of PipeGCN would leave out layers that queue on one link",
    ),
    Fault(
        name="kept columns not rescaled",
        file="exchange/compact.py",
        before="whole.weights[edges].mul_(factor)",
        after="whole.weights[edges]",
        test="exchange/test_compact.py::test_both_products_are_those_of_the_dense_matrix",
        why="sampled sums would be biased though the sampler knows its factor",
    ),
    Fault(
        name="attention to a sample not rescaled",
        file="exchange/attention_parts.py",
        before="/ other_stats[:, 1] * weight",
        after="/ other_stats[:, 1]",
        test="exchange/test_sampling.py::test_numerator_and_denominator_of_attention_are_unbiased",
        why="neighbours of other workers would count p times what they should",
    ),
    Fault(
        name="a master keeps the total that it never rounded",
        file="exchange/mirrors.py",
        before="        channel.as_received(rows)\n",
        after="",
        test="exchange/test_replica.py::test_copies_of_a_node_are_equal_bit_by_bit",
        why="copies of a node would drift apart under quantized messages",
    ),
    Fault(
        name="the gradients of copies are not added up",
        file="exchange/replica_sums.py",
        before="if round == GATHER else",
        after='if round == GATHER and self.direction == "forward" else',
        test="exchange/test_replica.py::test_workers_equal_one_process",
        why="losses of the first epoch would be right, and all that is learnt wrong",
    ),
    Fault(
        name="mirrors without neighbours count in a softmax",
        file="exchange/replica_attention.py",
        before="parts, rows = self.parts[mirrors.summed], mirrors.masters[mirrors.summed]",
        after="parts, rows = self.parts, mirrors.masters",
        test="exchange/test_replica.py::test_workers_equal_one_process",
        why="GAT on directed graphs would attend to rows that are not there",
    ),
)
