"""Faults in predictions: bytes of a link, its rate from two volumes, what is summed."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="a host's link carries what leaves alone",
        file="tune/wire.py",
        before="return float(max(leaving.max(), entering.max()))",
        after="return float(leaving.max())",
        test="tune/test_wire.py::test_workers_of_a_host_share_its_wire_and_reach_each_other_without_it",
        why="an exchange is as slow as its busiest receiver, too",
    ),
    Fault(
        name="a ring that sums in one turn",
        file="tune/wire.py",
        before="return 2 * (self.workers - 1) / self.workers * num_bytes if",
        after="return (self.workers - 1) / self.workers * num_bytes if",
        test="tune/test_wire.py::test_a_ring_sums_gradients_in_two_turns_without_the_own_share",
        why="the end of an epoch would be predicted twice as quick",
    ),
    Fault(
        name="the rate of a link with its latency in it",
        file="tune/timing.py",
        before="theta = (seconds[0] - seconds[1]) / spread if",
        after="theta = seconds[0] / volume[0] if",
        test="tune/test_probe.py::test_two_volumes_give_the_link",
        why="few bits would be predicted to save what they cannot",
    ),
    Fault(
        name="memory without an evaluation's buffers",
        file="tune/memory.py",
        before="threads.run(lambda trainer: trainer.evaluate(0))",
        after="",
        test="tune/test_memory.py::test_what_is_foreseen_is_what_workers_hold",
        why="channels of evaluations stay, and float32 rows are the widest",
    ),
    Fault(
        name="memory of a schedule that nobody launches",
        file="tune/memory.py",
        before="as_launched=True",
        after="as_launched=False",
        test="tune/test_memory.py::test_what_is_foreseen_is_what_workers_hold",
        why="rows that are held for the next epoch would be left out",
    ),
    Fault(
        name="memory without the messages that time links",
        file="message/links.py",
        before="return 2 * sum(sizes[-2:])",
        after="return 0",
        test="tune/test_memory.py::test_what_is_foreseen_is_what_workers_hold",
        why="what AdaQP holds at its first assignment would be left out on a small graph",
    ),
    Fault(
        name="messages gone as soon as they are posted",
        file="measure/in_process.py",
        before="self._send = send",
        after="",
        test="tune/test_memory.py::test_what_is_foreseen_is_what_workers_hold",
        why="SAR's messages have memory of their own while they travel: its memory would be foreseen too low",
    ),
    Fault(
        name="memory of policies that nobody has put in force",
        file="measure/in_process.py",
        before="if as_launched and bits is None:",
        after="if False:",
        test="tune/test_memory.py::test_what_is_foreseen_is_what_workers_hold",
        why="SYLVIE's widths by importance, and what it knows of its nodes, would be left out",
    ),
)
