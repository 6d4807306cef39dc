"""The configuration of a run: frozen dataclasses that are also the command line and the JSON on disk."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from gnnqlab.compute.recompute import KEEPS
from gnnqlab.message.codecs.entropy import without_codes
from gnnqlab.message.transport.transport import TRANSPORTS
from gnnqlab.nn.models.registry import ModelSettings, find_model, model_home, settings_from_json
from gnnqlab.settings import NO_OPTION, POSITIVE, OneOf, Range, check
from gnnqlab.systems.settings import filled
from gnnqlab.systems.system import SYSTEMS, RecipeCall, System, make_system
from gnnqlab.train.link import MOST_HOSTS, parse_link
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.reduction import GRADIENTS
from gnnqlab.train.records.evaluation_pauses import usual_every

__all__ = ["LaunchSettings", "RunConfig", "TrainSettings"]


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How long and with what steps a run trains; the same for every system of a comparison."""

    epochs: Annotated[int, Range(1)] = 60
    """Full-graph epochs, at least 1."""
    seed: Annotated[int, Range(0, 2**63, open_high=True)] = 0
    """Seeds weights, dropout, message noise and random partitions; 0 to 2^63 - 1."""
    lr: Annotated[float, POSITIVE] = 0.01
    """Learning rate of Adam."""
    weight_decay: Annotated[float, Range(0)] = 0.0
    """L2 penalty added to the gradient, as in ``torch.optim.Adam``."""
    evaluate_every: Annotated[int | None, Range(0)] = None
    """Epochs between evaluations; the last epoch is always evaluated. 0: only the last. Default: 1, but 10 for systems
    that use rows of the epoch before, whose epochs after an evaluation do not count. A ``RunConfig`` has the number."""
    layer0: Annotated[str, OneOf(("resend", "once"))] = "resend"
    """What static layer-0 features do: ``resend`` in every epoch (AdaQP), or travel ``once``, in full."""
    transport: Annotated[str, OneOf(TRANSPORTS)] = "direct"
    """How bytes move: ``direct``, ``ring`` or ``all-to-all``."""
    headers: Annotated[str, OneOf(("auto", "on", "off"))] = "auto"
    """``on``: a header ahead of each message is checked, with the message's checksum; ``off``; or ``auto``: on, except
    over NCCL, where whoever checks waits for the GPU at every message."""
    timeline_every: Annotated[int, Range(0)] = 50
    """Epochs between those whose timeline is recorded; epoch 2 is as well. 0: none."""
    memory_every: Annotated[int, Range(0)] = 0
    """Epochs between those whose live tensors are counted by purpose, for ``run.memory``; epoch 1 is as well. Such an
    epoch takes longer. 0: none."""
    entropy_every: Annotated[int, Range(0)] = 0
    """Epochs between those in which the codes of messages are counted, for the column ``entropy`` of ``run.traffic``;
    epoch 0 is as well. Such an epoch takes longer. 0: none."""
    gradients: Annotated[str, OneOf(GRADIENTS)] = "float32"
    """How weight gradients are summed over workers: ``float32``, of two workers layer by layer under the backward pass,
    else after it; ``float32-by-layer`` of any number, in another order of terms; or ``bfloat16``, by layer too."""
    keep_for_backward: Annotated[str, OneOf(KEEPS)] = "all"
    """What a forward pass keeps for its backward pass: ``all`` that is multiplied or normalised; ``sums`` over
    neighbours alone, of which products and passes over rows are made again; or ``nothing``, no sums either: one worker
    sums its rows again. The losses are the same."""
    checkpoint_every: Annotated[int, Range(0)] = 0
    """Epochs between checkpoints, from which a run can be resumed; the end is one too. 0: none."""

    def __post_init__(self) -> None:
        check(self)

    def require_workers(self, workers: int) -> None:
        """Refuse what so many workers cannot do.

        Raises:
            ValueError: with rule, value and way out.
        """
        if self.keep_for_backward == "nothing" and workers > 1:
            raise ValueError(
                f"keep_for_backward 'nothing' sums neighbours again, whose rows {workers} workers would have to "
                "send twice; choose keep_for_backward 'sums', or 1 worker"
            )


@dataclass(frozen=True, kw_only=True)
class LaunchSettings:
    """Where the workers run and how long anything may take."""

    device: Annotated[str, OneOf(("cpu", "cuda"))] = "cpu"
    """``cpu``, or ``cuda``: one process per GPU, or several that share one over Gloo."""
    backend: Annotated[str, OneOf(("gloo", "nccl"))] = "gloo"
    """``gloo``, or ``nccl`` where every worker has a GPU of its own."""
    threads_per_worker: Annotated[int | None, POSITIVE] = None
    """Compute threads of each worker; default: the cores at hand shared out evenly."""
    start_method: Annotated[str | None, OneOf(("fork", "spawn")), NO_OPTION] = None
    """How torchrun starts workers: ``fork`` (default on CPU) or ``spawn`` (default on CUDA)."""
    hosts: int | None = None
    """Emulated hosts that share the workers out evenly, 1 to 64; default: 2 if there is a link, else 1."""
    link: str | None = None
    """Rate of each host's link, each way, for instance ``1gbit`` (the default with several hosts)."""
    comm_share: Annotated[float | None, Range(0.02, 0.98)] = None
    """Instead of ``link``: share of its epoch that Vanilla spends communicating, between 0.02 and 0.98. The rate that
    makes it so is found by short runs before the launch (``gnnqlab.launch.calibrate``)."""
    vanilla_share: Annotated[float | None, NO_OPTION] = None
    """What Vanilla's share was at this ``link``, where calibration has found it."""
    wire: Annotated[str, OneOf(("auto", "emulated", "paced"))] = "auto"
    """How hosts are joined: ``emulated`` (network namespaces), ``paced`` (a loopback slowed down), or ``auto``: the
    first, and where the machine does not allow that, the second."""
    group_timeout_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Limit of one collective operation; default: the last resort behind the guard's own rules."""
    stall_report_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Silence after which a worker is reported; default: max(3 s, 5 median epochs)."""
    stall_stop_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Silence after which a run is stopped; default: max(8 s, 20 median epochs)."""
    detach: Annotated[bool, NO_OPTION] = False
    """Let the run live on when the process that launched it ends."""
    observers: Annotated[tuple[str, ...], NO_OPTION] = ()
    """Observers of every worker, each as ``module:Class``; what their ``table`` returns is in ``run.tables``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "observers", tuple(self.observers))  # JSON has lists
        check(self)
        if self.backend == "nccl" and self.device == "cpu":
            raise ValueError("backend 'nccl' moves GPU memory, got device 'cpu'; choose backend 'gloo'")
        if self.start_method is None:
            object.__setattr__(self, "start_method", "fork" if self.device == "cpu" else "spawn")
        if self.start_method == "fork" and self.device == "cuda":
            raise ValueError("start_method 'fork' cannot carry CUDA into workers; choose 'spawn'")
        self._check_hosts()

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
    task: TaskSettings = field(default_factory=TaskSettings)
    """What is learnt."""

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
        self._check_kept()
        self._check_counted()
        self._check_links()
        if in_codes := self.system.compute.refuses_activation(self.model.activation):
            raise ValueError(in_codes)
        if self.model.attends and (reason := self.system.exchange.refuses_attention(self.system)):
            raise ValueError(f"model {self.model.name} needs all terms of a softmax on one worker, got {reason}")
        if self.train.evaluate_every is None:
            every = usual_every(self.system.schedule.lag)
            object.__setattr__(self, "train", dataclasses.replace(self.train, evaluate_every=every))

    def _check_kept(self) -> None:
        keep = self.train.keep_for_backward
        if keep == "all":
            return
        if not self.system.compute.remade:
            raise ValueError(
                f"keep_for_backward {keep!r} makes products of float32 again, got compute "
                f"{type(self.system.compute).__name__}, which prepares operands once a pass; choose compute float32 or "
                "keep_for_backward 'all'"
            )
        self.train.require_workers(self.workers)

    def _check_counted(self) -> None:
        lacking = without_codes(self.system.codec)
        if self.train.entropy_every and len(lacking) == 2:
            raise ValueError(
                f"entropy_every counts the integer codes of messages, got {' and '.join(lacking)}, which send none; "
                "choose a codec with codes, for instance Stochastic(), or entropy_every 0"
            )

    def _check_links(self) -> None:
        cuts = self.system.partition.cuts
        if self.task.task == "links" and cuts != "nodes":
            raise ValueError(
                f"task 'links' compares rows of one owner each, as a cut of nodes gives them, got a cut of {cuts} "
                f"of system {self.system.name!r}; choose a system that cuts nodes, for instance vanilla or adaqp"
            )

    def require_nodes(self, what: str) -> None:
        """Refuse a run that predicts links where only classes of nodes are known.

        Args:
            what: is asked for, as its user calls it.

        Raises:
            ValueError: if the task is another.
        """
        if self.task.task != "nodes":
            raise ValueError(
                f"{what} knows the loss of task 'nodes' alone, got task {self.task.task!r}; give it a configuration of "
                "task 'nodes', or look at the records of a run"
            )

    @property
    def placed(self) -> System:
        """The system as it is on the hosts of this run."""
        return self.system.on_hosts(self.launch.hosts or 1)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; :meth:`from_json` undoes it without loss."""
        home = model_home(self.model.name)
        return {
            "graph": self.graph,
            "recipe": self.system.recipe.to_json() if self.system.recipe else None,
            "system": self.system.to_json(),
            "model": dataclasses.asdict(self.model),
            "train": dataclasses.asdict(self.train),
            "workers": self.workers,
            "launch": {**dataclasses.asdict(self.launch), "observers": list(self.launch.observers)},
            "task": dataclasses.asdict(self.task),
            **({"model_home": home} if home else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunConfig:
        """Return the configuration that :meth:`to_json` wrote; imports modules of yours that it names.

        Raises:
            ValueError: if a key is unknown or a value out of its range.
            ImportError: if a part or a model comes from a module that is not found here.

        Example:
            >>> config = RunConfig(graph="digits", workers=3)
            >>> RunConfig.from_json(config.to_json()) == config
            True
        """
        sections = {"train": TrainSettings, "launch": LaunchSettings, "task": TaskSettings}
        unknown = set(value) - {"graph", "system", "recipe", "model", "model_home", "workers", *sections}
        if unknown:
            raise ValueError(f"a run's configuration has no {sorted(unknown)}")
        parts: dict[str, Any] = {name: value[name] for name in ("graph", "workers") if name in value}
        if "system" in value:
            parts["system"] = _system(value["system"], value.get("recipe", {}))
        if "model_home" in value:
            find_model(value["model"]["name"], value["model_home"])
        if "model" in value:
            parts["model"] = settings_from_json(value["model"])
        for name, kind in sections.items():
            if name in value:
                known = {entry.name for entry in dataclasses.fields(kind)}
                if not set(value[name]) <= known:
                    raise ValueError(f"{name} has the settings {sorted(known)}, got {sorted(set(value[name]) - known)}")
                parts[name] = kind(**value[name])
        return cls(**parts)


def _system(parts: dict[str, Any], recipe: dict[str, Any] | None) -> System:
    """Return a system of a file with what made it; an empty ``recipe`` is a file from before that was kept."""
    system = System.from_json(parts)
    said = RecipeCall.from_json(recipe) if recipe else None
    if recipe == {} and system.name in SYSTEMS:
        said = RecipeCall(system.name, filled(SYSTEMS[system.name], system))
    object.__setattr__(system, "recipe", said)
    return system
