"""Faults in products of codes: scales, noise, ranges, and what stays exact."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="gradients scaled by one operand alone",
        file="compute/int8.py",
        before="scales = a.scales * b.scales",
        after="scales = a.scales * 1.0",
        test="compute/test_int8.py::test_gradients_are_those_of_the_codes",
        why="the gradient of a weight would be of another size in every row (erratum TG-2)",
    ),
    Fault(
        name="halo rows rounded by their place",
        file="compute/int8.py",
        before="return self._alone(x, beside.stream, self.settings.scale, ids)",
        after="return self._alone(x, beside.stream, self.settings.scale)",
        test="compute/test_int8.py::test_a_halo_row_has_its_owners_codes",
        why="workers would train something else than one process",
    ),
    Fault(
        name="marginal rows rounded by the noise of central ones",
        file="compute/int8.py",
        before="noise = self._noise(self._ids(x)[first:last], operand.stream)",
        after="noise = self._noise(self._ids(x)[: last - first], operand.stream)",
        test="compute/test_int8.py::test_rows_that_come_bit_by_bit_have_the_same_codes",
        why="a row's codes would depend on how the graph is cut",
    ),
    Fault(
        name="the same noise in every epoch",
        file="compute/int8.py",
        before="else (self._rows.seed, self._rows.epoch)",
        after="else (self._rows.seed, 0)",
        test="compute/test_int8.py::test_gradients_of_many_roundings_are_unbiased",
        why="errors would add up over epochs instead of cancelling",
    ),
    Fault(
        name="codes rounded to nearest",
        file="compute/int8.py",
        before='if self.settings.rounding == "nearest":',
        after='if self.settings.rounding != "":',
        test="compute/test_int8.py::test_gradients_of_many_roundings_are_unbiased",
        why="small gradients would be lost in every epoch (erratum TG-1)",
    ),
    Fault(
        name="the largest code of the printed formula",
        file="kernels/quantize.py",
        before='levels, whole = 2 ** (bits - 1) - 1, scale == "tensor"',
        after='levels, whole = 2 ** (bits - 1), scale == "tensor"',
        test="kernels/test_quantize.py::test_an_element_is_off_by_less_than_a_step_and_codes_stay_in_their_range",
        why="the largest element of a row would turn negative in a byte",
    ),
    Fault(
        name="the layer before the loss on codes",
        file="compute/int8.py",
        before="return PLAIN if self.settings.exact_classifier else self",
        after="return self",
        test="compute/test_int8.py::test_the_layer_before_the_loss_is_a_setting",
        why="softmax would magnify the rounding of logits",
    ),
)
