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
    Fault(
        name="a projection without its factor",
        file="compute/packed.py",
        before=".div_(math.sqrt(kept))",
        after=".div_(1.0)",
        test="compute/test_exact.py::test_projected_rows_err_by_chance_alone",
        why="gradients of weights would be k times as large, and a smaller rate of learning hide it",
    ),
    Fault(
        name="codes of activations cut instead of rounded by noise of their own",
        file="compute/exact.py",
        before='stream("kept", self._saves - 1)',
        after='stream("kept", 0) + 0 * place.epoch * self._saves',
        test="compute/test_exact.py::test_what_is_kept_has_noise_of_its_own",
        why="errors of layers would agree, and not average out",
    ),
    Fault(
        name="halo rows kept with the noise of other rows",
        file="compute/exact.py",
        before="ids = place.ids if ids is None else ids",
        after="ids = place.ids if ids is None or len(ids) == len(place.ids) else ids + 1",
        test="compute/test_exact.py::test_what_is_shared_is_kept_once_and_raw_features_not_at_all",
        why="a node would err otherwise on its owner than on its neighbours' workers",
    ),
    Fault(
        name="a rectifier that passes gradients where its input is zero",
        file="kernels/signs.py",
        before="positive = (x > 0).flatten()",
        after="positive = (x >= 0).flatten()",
        test="compute/test_exact.py::test_a_rectifier_keeps_a_bit_and_its_gradient_is_exact",
        why="all that was cut off would learn as well",
    ),
    Fault(
        name="edges' numbers in DGL's order taken for the matrix's",
        file="nn/dgl.py",
        before="return values.index_select(0, self.numbers)",
        after="return values.clone()",
        test="nn/test_dgl.py::test_weighed_sums_stay_within_the_rounding_of_rows",
        why="attention would weigh other edges than it was computed for, and still train",
    ),
)
