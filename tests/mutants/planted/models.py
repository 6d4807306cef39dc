"""Faults in models and in how their products are rounded."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="one dropout mask for all layers",
        file="nn/message_passing.py",
        before='key = stream("dropout", self._dropouts - 1)',
        after='key = stream("dropout", 0)',
        test="nn/test_models.py::test_every_dropout_of_a_pass_has_a_mask_of_its_own",
        why="on one worker and on many alike, so that no comparison of both would show it",
    ),
    Fault(
        name="GCNII's θ does not fall with depth",
        file="nn/models/gcnii.py",
        before="math.log(settings.identity_decay / layer + 1)",
        after="math.log(settings.identity_decay + 1)",
        test="nn/test_against_dgl.py::test_gcnii_layers",
        why="deep GCNII would learn less, and staleness be blamed for it",
    ),
    Fault(
        name="GCNII's first rows weigh 1 - α",
        file="nn/models/gcnii.py",
        before="torch.lerp(neighbours, first, self.initial_share)",
        after="torch.lerp(first, neighbours, self.initial_share)",
        test="nn/test_models.py::test_gcnii_that_keeps_its_first_rows_needs_no_neighbour",
        why="a model that hardly looks at neighbours is hardly hurt by their noise",
    ),
)
