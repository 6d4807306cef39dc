"""The faults by folder of the package; tests of the same folder notice them."""

from tests.mutants.planted import (
    bits,
    codecs,
    compute,
    exchange,
    halo,
    lab,
    links,
    measure,
    message,
    models,
    partition,
    runs,
    theory,
    train,
    tune,
)

FAULTS = (
    *theory.FAULTS, *bits.FAULTS, *partition.FAULTS, *message.FAULTS, *codecs.FAULTS, *exchange.FAULTS, *halo.FAULTS,
    *models.FAULTS,
    *train.FAULTS, *measure.FAULTS, *tune.FAULTS, *lab.FAULTS, *runs.FAULTS, *compute.FAULTS, *links.FAULTS,
)  # fmt: skip
