"""Faults in the prediction of links: what is held back, what is drawn, what travels, and the scores."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="held-back links in sight",
        file="graph/link_split.py",
        before="kept[between] = kinds[numbers] == TRAIN",
        after="kept[between] = kinds[numbers] != TEST",
        test="graph/test_link_split.py::test_links_are_pairs_and_what_is_held_back_is_not_looked_at",
        why="rows would look along the very edges that validate them",
    ),
    Fault(
        name="directions drawn apart",
        file="graph/link_split.py",
        before="pairs = torch.minimum(source, target) * nodes + torch.maximum(source, target)",
        after="pairs = source * nodes + target",
        test="graph/test_link_split.py::test_links_are_pairs_and_what_is_held_back_is_not_looked_at",
        why="one direction of a test edge would be learnt from",
    ),
    Fault(
        name="negatives that are ends",
        file="train/link_prediction/negatives.py",
        before="return places + (places >= high)",
        after="return places",
        test="train/link_prediction/test_negatives.py::test_negatives_are_uniform_over_what_is_no_end",
        why="a link's own end would be learnt as a negative of it",
    ),
    Fault(
        name="draws by place",
        file="train/link_prediction/negatives.py",
        before="drawn = uniform32(numbers, count,",
        after="drawn = uniform32(torch.arange(numbers.numel()), count,",
        test="train/link_prediction/test_negatives.py::test_draws_belong_to_a_link_not_to_its_place",
        why="negatives would depend on the number of workers, and the law would not hold",
    ),
    Fault(
        name="the loss without its negatives in the mean",
        file="train/link_prediction/objective.py",
        before='self._terms = totals["train"] * (1 + task.negatives)',
        after='self._terms = totals["train"]',
        test="train/link_prediction/test_link_law.py::test_one_process_is_plain_pytorch_in_float64",
        why="the loss would grow with the number of negatives",
    ),
    Fault(
        name="ranks that forget ties",
        file="train/link_prediction/objective.py",
        before="(scores == mine).double().sum(1) / 2",
        after="(scores == mine).double().sum(1)",
        test="train/link_prediction/test_link_objective.py::test_ties_count_as_half",
        why="a model that says the same of all would rank by luck, not in the middle",
    ),
    Fault(
        name="one gradient of a scalar product",
        file="train/link_prediction/decoder.py",
        before="out.index_add_(0, second[at], weight * rows[first[at]])",
        after="out.index_add_(0, second[at], 0 * rows[first[at]])",
        test="train/link_prediction/test_decoder.py::test_dots_have_the_gradient_of_plain_pytorch_in_spans_of_any_size",
        why="targets would never learn, and losses fall all the same",
    ),
    Fault(
        name="gradients that stay away",
        file="exchange/fetch.py",
        before="tuple(receive), tuple(send), accumulate=True, exact=True)",
        after="tuple(receive), tuple(send), accumulate=False, exact=True)",
        test="exchange/test_fetch.py::test_rows_come_as_they_are_and_gradients_go_home_whole",
        why="the last worker's gradient would replace the owner's",
    ),
    Fault(
        name="the loss's rows left out of the books",
        file="train/loop.py",
        before="*self._trainer.objective.channels]",
        after="*()]",
        test="launch/test_link_runs.py::test_the_bytes_of_the_loss_are_counted_and_exact_in_every_system",
        why="links would seem to cost no bytes",
    ),
)
