"""The configuration of a run: frozen dataclasses that are also the command line and the JSON on disk."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.message.transport import TRANSPORTS
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import System, make_system
from gnnqlab.train.link import MOST_HOSTS, parse_link
from gnnqlab.train.pauses import usual_every
from gnnqlab.train.reduction import GRADIENTS

__all__ = ["LaunchSettings", "RunConfig", "TrainSettings"]


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How long and with what steps a run trains; the same for every system of a comparison."""

    epochs: int = 60
    """Full-graph epochs, at least 1."""
    seed: int = 0
    """Seeds weights, dropout, message noise and random partitions; 0 to 2^63 - 1."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty added to the gradient, as in ``torch.optim.Adam``."""
    evaluate_every: int | None = None
    """Epochs between evaluations; the last epoch is always evaluated. 0: only the last. Default: 1, but 10 for systems
    that use rows of the epoch before, whose epochs after an evaluation do not count. A ``RunConfig`` has the number."""
    layer0: str = "resend"
    """What static layer-0 features do: ``resend`` in every epoch (AdaQP), or travel ``once``, in full."""
    transport: str = "direct"
    """How bytes move: ``direct``, ``ring`` or ``all-to-all``."""
    headers: str = "auto"
    """``on``: a header ahead of each message is checked, with the message's checksum; ``off``; or ``auto``: on, except
    over NCCL, where whoever checks waits for the GPU at every message."""
    timeline_every: int = 50
    """Epochs between those whose timeline is recorded; epoch 2 is as well. 0: none."""
    gradients: str = "float32"
    """Type in which weight gradients are summed over workers: ``float32``, or ``bfloat16``, layer by layer under the
    backward pass."""
    checkpoint_every: int = 0
    """Epochs between checkpoints, from which a run can be resumed; the end is one too. 0: none."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2**63), got {self.seed}")
        if not self.lr > 0:
            raise ValueError(f"lr must be positive, got {self.lr}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must not be negative, got {self.weight_decay}")
        if self.evaluate_every is not None and self.evaluate_every < 0:
            raise ValueError(f"evaluate_every must not be negative, got {self.evaluate_every}")
        if self.checkpoint_every < 0:
            raise ValueError(f"checkpoint_every must not be negative, got {self.checkpoint_every}")
        if self.layer0 not in ("resend", "once"):
            raise ValueError(f"layer0 must be 'resend' or 'once', got {self.layer0!r}")
        if self.headers not in ("auto", "on", "off"):
            raise ValueError(f"headers must be 'auto', 'on' or 'off', got {self.headers!r}")
        if self.timeline_every < 0:
            raise ValueError(f"timeline_every must not be negative, got {self.timeline_every}")
        if self.transport not in TRANSPORTS:
            raise ValueError(f"transport must be one of {sorted(TRANSPORTS)}, got {self.transport!r}")
        if self.gradients not in GRADIENTS:
            raise ValueError(f"gradients must be one of {GRADIENTS}, got {self.gradients!r}")


@dataclass(frozen=True, kw_only=True)
class LaunchSettings:
    """Where the workers run and how long anything may take."""

    device: str = "cpu"
    """``cpu``, or ``cuda``: one process per GPU, or several that share one over Gloo."""
    backend: str = "gloo"
    """``gloo``, or ``nccl`` where every worker has a GPU of its own."""
    threads_per_worker: int | None = None
    """Compute threads of each worker; default: the cores at hand shared out evenly."""
    start_method: str | None = None
    """How torchrun starts workers: ``fork`` (default on CPU) or ``spawn`` (default on CUDA)."""
    hosts: int | None = None
    """Emulated hosts that share the workers out evenly, 1 to 64; default: 2 if there is a link, else 1."""
    link: str | None = None
    """Rate of each host's link, each way, for instance ``1gbit`` (the default with several hosts)."""
    comm_share: float | None = None
    """Instead of ``link``: share of its epoch that Vanilla spends communicating, between 0.02 and 0.98. The rate that
    makes it so is found by short runs before the launch (``gnnqlab.launch.calibrate``)."""
    vanilla_share: float | None = None
    """What Vanilla's share was at this ``link``, where calibration has found it."""
    wire: str = "auto"
    """How hosts are joined: ``emulated`` (network namespaces), ``paced`` (a loopback slowed down), or ``auto``: the
    first, and where the machine does not allow that, the second."""
    group_timeout_s: float | None = None
    """Limit of one collective operation; default: the last resort behind the guard's own rules."""
    stall_report_s: float | None = None
    """Silence after which a worker is reported; default: max(3 s, 5 median epochs)."""
    stall_stop_s: float | None = None
    """Silence after which a run is stopped; default: max(8 s, 20 median epochs)."""
    detach: bool = False
    """Let the run live on when the process that launched it ends."""

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {self.device!r}")
        if self.backend not in ("gloo", "nccl"):
            raise ValueError(f"backend must be 'gloo' or 'nccl', got {self.backend!r}")
        if self.backend == "nccl" and self.device == "cpu":
            raise ValueError("backend 'nccl' moves GPU memory, got device 'cpu'; choose backend 'gloo'")
        if self.start_method not in (None, "fork", "spawn"):
            raise ValueError(f"start_method must be 'fork' or 'spawn', got {self.start_method!r}")
        if self.start_method is None:
            object.__setattr__(self, "start_method", "fork" if self.device == "cpu" else "spawn")
        if self.start_method == "fork" and self.device == "cuda":
            raise ValueError("start_method 'fork' cannot carry CUDA into workers; choose 'spawn'")
        self._check_hosts()
        for name in ("threads_per_worker", "group_timeout_s", "stall_report_s", "stall_stop_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")

    def _check_hosts(self) -> None:
        asked = self.link is not None or self.comm_share is not None
        if self.hosts is None:
            object.__setattr__(self, "hosts", 2 if asked else 1)
        assert self.hosts is not None
        if not 1 <= self.hosts <= MOST_HOSTS:
            raise ValueError(f"hosts must number 1 to {MOST_HOSTS}, got {self.hosts}")
        if self.hosts == 1 and asked:
            setting = "comm_share" if self.link is None else "link"
            raise ValueError(f"{setting} is about the wire between hosts, got hosts 1; choose hosts 2, or leave it out")
        if self.link is not None and self.comm_share is not None:
            raise ValueError(f"comm_share chooses the rate of the link, got link {self.link!r} as well; give one")
        if self.comm_share is not None and not 0.02 <= self.comm_share <= 0.98:
            raise ValueError(f"comm_share must lie in [0.02, 0.98], got {self.comm_share}")
        if self.wire not in ("auto", "emulated", "paced"):
            raise ValueError(f"wire must be 'auto', 'emulated' or 'paced', got {self.wire!r}")
        if self.hosts > 1 and self.backend != "gloo":
            raise ValueError(f"emulated hosts are joined for backend 'gloo', got {self.backend!r}")
        if self.link is not None:
            parse_link(self.link)
        elif self.hosts > 1 and self.comm_share is None:
            object.__setattr__(self, "link", "1gbit")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run, whole: what ``config.json`` holds."""

    graph: str
    """Name or path, as ``gnnqlab.load`` takes it."""
    system: System = field(default_factory=lambda: make_system("vanilla"))
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    workers: int = 2
    """Number of partitions, one process each."""
    launch: LaunchSettings = field(default_factory=LaunchSettings)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        assert self.launch.hosts is not None
        if self.workers % self.launch.hosts:
            raise ValueError(
                f"workers must be a multiple of the hosts, got {self.workers} worker(s) on {self.launch.hosts} hosts"
            )
        if self.train.layer0 == "once" and self.model.input_dropout > 0:
            raise ValueError(
                f"layer0 'once' keeps the rows of layer 0, which input_dropout {self.model.input_dropout} changes in "
                "every epoch; choose layer0 'resend' or input_dropout 0"
            )
        if self.train.evaluate_every is None:
            every = usual_every(self.system.schedule.lag)
            object.__setattr__(self, "train", dataclasses.replace(self.train, evaluate_every=every))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; :meth:`from_json` undoes it without loss."""
        return {
            "graph": self.graph,
            "system": self.system.to_json(),
            "model": dataclasses.asdict(self.model),
            "train": dataclasses.asdict(self.train),
            "workers": self.workers,
            "launch": dataclasses.asdict(self.launch),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunConfig:
        """Return the configuration that :meth:`to_json` wrote.

        Raises:
            ValueError: if a key is unknown or a value out of its range.

        Example:
            >>> config = RunConfig(graph="digits", workers=3)
            >>> RunConfig.from_json(config.to_json()) == config
            True
        """
        sections = {"model": ModelSettings, "train": TrainSettings, "launch": LaunchSettings}
        unknown = set(value) - {"graph", "system", "workers", *sections}
        if unknown:
            raise ValueError(f"a run's configuration has no {sorted(unknown)}")
        parts: dict[str, Any] = {name: value[name] for name in ("graph", "workers") if name in value}
        if "system" in value:
            parts["system"] = System.from_json(value["system"])
        for name, kind in sections.items():
            if name in value:
                known = {entry.name for entry in dataclasses.fields(kind)}
                if not set(value[name]) <= known:
                    raise ValueError(f"{name} has the settings {sorted(known)}, got {sorted(set(value[name]) - known)}")
                parts[name] = kind(**value[name])
        return cls(**parts)
