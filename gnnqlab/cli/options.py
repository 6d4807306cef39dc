"""The options that every run shares, and the configuration they make."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnqlab.train.config import RunConfig

__all__ = ["Options"]

_RECIPE = {
    "bits": "bits",
    "lam": "lam",
    "group_size": "group_size",
    "period": "period",
    "widths": "among",
    "when": "when",
    "as_released": "as_released",
    "parameters": "parameters",
    "feature_smoothing": "feature_smoothing",
    "gradient_smoothing": "gradient_smoothing",
    "delta": "delta",
    "momentum": "momentum",
    "formula": "formula",
    "stale_bound": "bound",
    "boundary_share": "p",
    "boundary_attention": "attention",
}
"""Option -> the setting of a system's recipe that it is for."""
_APART = ("graph", "model", "workers", "partition", "out", "json")
"""Options that are no settings of a section of the configuration."""


@dataclass(kw_only=True)
class Options:
    """What every run shares."""

    graph: str = "digits"
    """Name or path of a graph; `gnnqlab graphs` lists the names."""
    model: str = "gcn"
    """Model; `gnnqlab models` lists them."""
    workers: int = 2
    """Partitions, one process each."""
    epochs: int = 60
    """Full-graph epochs."""
    seed: int = 0
    """Seeds weights, dropout, message noise and random partitions."""
    layers: int = 3
    """Graph layers."""
    hidden: int = 256
    """Width of every layer but the last."""
    dropout: float = 0.5
    """Probability of dropping an element of a hidden layer's input."""
    input_dropout: float = 0.0
    """The same for the raw features."""
    norm: str | None = None
    """layer (LayerNorm between layers) or none; default: as the model's authors do."""
    heads: int = 1
    """Attention heads, for gat."""
    initial_share: float = 0.1
    """α of gcnii: share of the first rows in every layer's input."""
    identity_decay: float = 0.5
    """λ of gcnii: layer l mixes its weights in by ln(λ/l + 1)."""
    jump: str = "cat"
    """How jknet joins its layers: cat, max or lstm."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty."""
    evaluate_every: int | None = None
    """Epochs between evaluations; 0: only after the last. Default: 1, or 10 with systems that use rows of the epoch
    before (pipegcn, sylvie): those travel on during an evaluation, so the epoch after it does not count."""
    layer0: str = "resend"
    """Static layer-0 features: resend every epoch, or send them once, in full, and keep them."""
    transport: str = "direct"
    """How bytes move: direct, ring or all-to-all."""
    headers: str = "auto"
    """Whether a header with a checksum goes ahead of each message and is checked: on, off, or auto: on, except over
    NCCL."""
    timeline_every: int = 50
    """Epochs between those whose timeline is recorded, besides epoch 2; 0: none."""
    gradients: str = "float32"
    """Weight gradients are summed in float32, or in bfloat16 while the backward pass goes on."""
    checkpoint_every: int = 0
    """Epochs between checkpoints, from which a run can be resumed; 0: none."""
    partition: str | None = None
    """Partitioner instead of the system's own: metis or random."""
    bits: int | None = None
    """Bits per element, for systems with one width: 1, 2, 4, 8, 16 or 32."""
    lam: float | None = None
    """λ in [0, 1] of systems that assign bits: 1 minds only variance, 0 only time."""
    group_size: int | None = None
    """Rows that share a width, for systems that assign bits."""
    period: int | None = None
    """Epochs between changes of bit-widths, for systems that change them."""
    widths: str | None = None
    """Bits per element to choose from, for systems that choose, for instance 2,4,8."""
    when: str | None = None
    """Bit-widths are assigned in the background, beside the next epoch, or blocking, while training waits."""
    as_released: bool = False
    """Weight rows and cut their parameters as AdaQP's published code does."""
    parameters: str | None = None
    """Type of a row's zero-point and scale on the wire, for quantized messages: float32, bfloat16 or bfloat16-after
    (cut after encoding, as AdaQP's published code does)."""
    feature_smoothing: float | None = None
    """γ in [0, 1) by which halo rows that are an epoch old are averaged, for pipelined systems."""
    gradient_smoothing: float | None = None
    """The same for their gradients."""
    delta: int | None = None
    """δ of systems that watch the loss: epochs between the two rates of descent that are compared."""
    momentum: float | None = None
    """λ in [0, 1) of the running loss that they watch."""
    formula: str | None = None
    """Sign of SYLVIE's Eq. 5, for systems that watch the loss: text, or printed."""
    boundary_share: float | None = None
    """p in [0, 1] of systems that sample: the probability with which each boundary row travels in an epoch."""
    boundary_attention: str | None = None
    """Where attention puts the 1/p of a sampled neighbour: weights (in the softmax), none, or input (times its row)."""
    stale_bound: int | None = None
    """Most epochs in a row that use rows of the epoch before, for systems that switch."""
    device: str = "cpu"
    """cpu or cuda."""
    backend: str = "gloo"
    """gloo, or nccl with one GPU a worker."""
    threads_per_worker: int | None = None
    """Compute threads of each worker; default: the cores at hand shared out evenly."""
    hosts: int | None = None
    """Emulated hosts that share the workers out evenly; default: 2 with --link or --comm-share, else 1."""
    link: str | None = None
    """Rate of each host's link, for instance 1gbit or 100mbit."""
    comm_share: float | None = None
    """Instead of --link: find the rate at which Vanilla spends this share of its epoch communicating."""
    wire: str = "auto"
    """How hosts are joined: emulated (network namespaces), paced (a loopback slowed down) or auto."""
    out: Path | None = None
    """Folder for runs; default: $GNNQLAB_RUNS, else runs."""
    json: bool = False
    """End standard output with one JSON object."""

    def configure(self, system: str, **settings: Any) -> RunConfig:
        """Return the configuration of one run of ``system``."""
        from gnnqlab.systems.parts import PARTS
        from gnnqlab.train.configure import configure

        shared = {
            option.name: getattr(self, option.name)
            for option in dataclasses.fields(Options)
            if option.name not in (*_APART, *_RECIPE) and getattr(self, option.name) is not None
        }
        config = configure(self.graph, model=self.model, system=system, workers=self.workers, **shared, **settings)
        if self.partition is not None:
            known = PARTS["partition"]
            if self.partition not in known:
                raise ValueError(f"partition must be one of {sorted(known)}, got {self.partition!r}")
            seeded = {"seed": self.seed} if self.partition == "random" else {}
            part = known[self.partition](**seeded)
            config = dataclasses.replace(config, system=dataclasses.replace(config.system, partition=part))
        return config

    def recipe_settings(self) -> dict[str, Any]:
        """Return the options that belong to a system's recipe, those that were given."""
        given = {setting: getattr(self, option) for option, setting in _RECIPE.items()}
        if self.widths is not None:
            given["among"] = _numbers(self.widths)
        return {name: value for name, value in given.items() if value is not None and value is not False}


def _numbers(widths: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in widths.split(","))
    except ValueError:
        raise ValueError(f"widths must be numbers with commas between, got {widths!r}; write 2,4,8") from None
