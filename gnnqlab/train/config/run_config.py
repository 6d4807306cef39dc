"""The configuration of a run: frozen dataclasses that are also the command line and the JSON on disk."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from gnnqlab.compute.recompute import LEVELS
from gnnqlab.former_names import FormerMember, accepts_former_names, with_present_names
from gnnqlab.message.codecs.entropy import without_codes
from gnnqlab.message.transport.transport import TRANSPORTS
from gnnqlab.nn.models.registry import ModelSettings, find_model, model_home, settings_from_json
from gnnqlab.partition.cut import check_host_count
from gnnqlab.settings import NO_OPTION, POSITIVE, Former, OneOf, Range, Setting, check, settings_in
from gnnqlab.systems.recipe_call import RecipeCall
from gnnqlab.systems.registry import SYSTEMS, make_system
from gnnqlab.systems.settings import filled, settings_of
from gnnqlab.systems.system import System
from gnnqlab.train.config.partition_rules import check_partition
from gnnqlab.train.link import MAX_HOSTS, parse_link
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.learning_rate import SCHEDULES, LearningRate, schedule_function
from gnnqlab.train.loop.optimizers import OPTIMIZERS, optimizer_function
from gnnqlab.train.loop.reduction import GRADIENTS
from gnnqlab.train.node_features import check_learned
from gnnqlab.train.records.evaluation_pauses import usual_every

__all__ = ["LaunchSettings", "RunConfig", "TrainSettings"]

PROTOCOLS = ("transductive", "inductive")

_FORMER_LEVELS = Former("keep_for_backward", {"all": "none", "sums": "selective", "nothing": "full"})


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of training, such as epochs and learning rate; equal for all systems of a comparison."""

    epochs: Annotated[int, Range(1)] = 60
    """Full-graph epochs, at least 1."""
    seed: Annotated[int, Range(0, 2**63, open_high=True)] = 0
    """Seed of weights, dropout, message noise and random partitions; 0 to 2^63 - 1."""
    optimizer: str = "adam"
    """Optimizer: ``adam``, ``adamw`` or ``sgd``; or a function of ``(parameters, lr, weight_decay)`` that returns a
    ``torch.optim.Optimizer``, as ``module:function``."""
    sgd_momentum: Annotated[float, Range(0, 1, open_high=True)] = 0.0
    """Momentum of optimizer ``sgd``."""
    lr: Annotated[float, POSITIVE] = 0.01
    """Learning rate."""
    lr_schedule: str = "constant"
    """Learning rate by epoch, as a factor of ``lr``: ``constant``; ``cosine`` to 0 at the end; ``step``: times
    ``lr_factor`` every ``lr_period`` epochs; ``plateau``: after ``lr_period`` epochs without a better validation
    score; or a function of ``(epoch, epochs)`` as ``module:function``."""
    lr_period: Annotated[int, Range(1)] = 50
    """Epochs of a step or a plateau of the learning rate."""
    lr_factor: Annotated[float, Range(0, 1, open_low=True)] = 0.5
    """Factor of the learning rate at a step or plateau."""
    warmup_epochs: Annotated[int, Range(0)] = 0
    """Epochs in which the learning rate grows linearly to ``lr``."""
    weight_decay: Annotated[float, Range(0)] = 0.0
    """L2 penalty added to the gradient, as in ``torch.optim.Adam``; of ``adamw`` the decay of the weights."""
    protocol: Annotated[str, OneOf(PROTOCOLS)] = "transductive"
    """Graph of training: the whole one (``transductive``), or the subgraph induced by the training nodes
    (``inductive``), as PipeGCN and BNS-GCN train Reddit and Yelp. Evaluation always uses the whole graph."""
    evaluate_every: Annotated[int | None, Range(0)] = None
    """Epochs between evaluations; the last epoch is always evaluated. 0: only the last. Default: 1; 10 for systems with
    stale embeddings, whose timings omit the epoch after an evaluation. A ``RunConfig`` holds the number."""
    max_gradient_norm: Annotated[float | None, POSITIVE] = None
    """Gradient clipping: largest L2 norm of all weight gradients together, summed over workers; larger gradients are
    scaled down to it, as by ``torch.nn.utils.clip_grad_norm_``. Default: none."""
    patience: Annotated[int, Range(0)] = 0
    """Early stopping: epochs without a better validation score after which training ends, at the next evaluation. 0:
    none."""
    input_features: Annotated[str, OneOf(("resend", "cache")), Former("layer0", {"once": "cache"})] = "resend"
    """Input features of boundary nodes: ``resend`` them in every epoch (AdaQP), or send them once, in float32, and
    ``cache`` them at the receiver."""
    transport: Annotated[str, OneOf(TRANSPORTS)] = "direct"
    """Transport of messages: ``direct``, ``ring`` or ``all-to-all``."""
    verify_messages: Annotated[str, OneOf(("auto", "on", "off")), Former("headers")] = "auto"
    """Send and verify a header and checksum for each message: ``on``, ``off``, or ``auto``: on, except over NCCL, where
    verification synchronizes with the GPU at every message."""
    timeline_every: Annotated[int, Range(0)] = 50
    """Epochs between recorded timelines; epoch 2 is recorded as well. 0: none."""
    memory_every: Annotated[int, Range(0)] = 0
    """Epochs between records of live tensors by purpose, for ``run.memory``; epoch 1 is recorded as well. A recorded
    epoch takes longer. 0: none."""
    entropy_every: Annotated[int, Range(0)] = 0
    """Epochs between counts of message codes, for the column ``entropy`` of ``run.traffic``; epoch 0 is counted as
    well. A counted epoch takes longer. 0: none."""
    gradients: Annotated[str, OneOf(GRADIENTS)] = "float32"
    """All-reduce of weight gradients: ``float32``, layer by layer during the backward pass with two workers, else after
    it; ``float32-by-layer`` for any number, with another summation order; or ``bfloat16``, also layer by layer."""
    recompute: Annotated[str, OneOf(LEVELS), _FORMER_LEVELS] = "none"
    """Activation checkpointing: recompute ``none`` in the backward pass; dense and row-wise operations (``selective``),
    saving only sums over neighbours; or the aggregation too (``full``, one worker only). Losses are identical."""
    checkpoint_every: Annotated[int, Range(0)] = 0
    """Epochs between checkpoints, from which a run can be resumed; one is also taken at the end. 0: none."""

    def __post_init__(self) -> None:
        check(self)
        if self.lr_schedule not in SCHEDULES:
            schedule_function(self.lr_schedule)
        if self.optimizer not in OPTIMIZERS:
            optimizer_function(self.optimizer)
        if self.sgd_momentum and self.optimizer != "sgd":
            raise ValueError(
                f"sgd_momentum needs optimizer 'sgd', got {self.sgd_momentum:g} with {self.optimizer!r}; leave it out"
            )
        # Settings of other schedules would be ignored: refuse them.
        if self.lr_schedule not in ("step", "plateau") and (self.lr_period, self.lr_factor) != (50, 0.5):
            raise ValueError(
                f"lr_period and lr_factor need lr_schedule 'step' or 'plateau', got {self.lr_period} and "
                f"{self.lr_factor:g} with {self.lr_schedule!r}; choose one of them, or leave both out"
            )

    def learning_rate(self) -> LearningRate:
        """Return the learning rate by epoch, at the beginning of a training."""
        return LearningRate(
            self.lr,
            epochs=self.epochs,
            schedule=self.lr_schedule,
            period=self.lr_period,
            factor=self.lr_factor,
            warmup_epochs=self.warmup_epochs,
        )

    @property
    def optimizer_arguments(self) -> dict[str, Any]:
        """Return the arguments of :func:`gnnqlab.train.loop.optimizers.make_optimizer`."""
        return {
            "name": self.optimizer,
            "momentum": self.sgd_momentum,
            "learning_rate": self.learning_rate(),
            "weight_decay": self.weight_decay,
            "max_gradient_norm": self.max_gradient_norm,
        }

    def require_workers(self, workers: int) -> None:
        """Raise if the settings do not support this number of workers.

        Raises:
            ValueError: with rule, value and way out.
        """
        if self.recompute == "full" and workers > 1:
            raise ValueError(
                f"recompute 'full' recomputes aggregations, for which {workers} workers would have to send "
                "their rows twice; choose recompute 'selective', or 1 worker"
            )


@dataclass(frozen=True, kw_only=True)
class LaunchSettings:
    """Devices, hosts and time limits of the workers."""

    device: Annotated[str, OneOf(("cpu", "cuda"))] = "cpu"
    """``cpu``, or ``cuda``: one process per GPU, or several that share one over Gloo."""
    backend: Annotated[str, OneOf(("gloo", "nccl"))] = "gloo"
    """``gloo``, or ``nccl`` if every worker has its own GPU."""
    threads_per_worker: Annotated[int | None, POSITIVE] = None
    """Compute threads of each worker; default: the available cores divided evenly."""
    start_method: Annotated[str | None, OneOf(("fork", "spawn")), NO_OPTION] = None
    """Start method of torchrun's workers: ``fork`` (default on CPU) or ``spawn`` (default on CUDA)."""
    hosts: int | None = None
    """Emulated hosts with equal numbers of workers, 1 to 64; default: 2 if there is a link, else 1."""
    link: str | None = None
    """Rate of each host's link in each direction, for instance ``1gbit`` (the default with several hosts)."""
    comm_share: Annotated[float | None, Range(0.02, 0.98)] = None
    """Instead of ``link``: share of its epoch that Vanilla spends communicating, between 0.02 and 0.98. Short runs
    before the launch find the corresponding rate (``gnnqlab.launch.calibrate``)."""
    vanilla_share: Annotated[float | None, NO_OPTION] = None
    """Vanilla's share of communication at this ``link``, if calibration measured it."""
    wire: Annotated[str, OneOf(("auto", "emulated", "paced"))] = "auto"
    """Link between hosts: ``emulated`` (network namespaces), ``paced`` (a throttled loopback), or ``auto``: emulated if
    the machine allows it, else paced."""
    group_timeout_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Limit of one collective operation; default: long, a last resort behind the guard's own rules."""
    stall_report_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Silence after which a worker is reported; default: max(3 s, 5 median epochs)."""
    stall_stop_s: Annotated[float | None, POSITIVE, NO_OPTION] = None
    """Silence after which a run is stopped; default: max(8 s, 20 median epochs)."""
    retries: Annotated[int, Range(0)] = 0
    """Restarts after a worker's death or hang, each from the newest checkpoint; a second failure in the same epoch ends
    them."""
    detach: Annotated[bool, NO_OPTION] = False
    """True to continue the run after the process that launched it ends."""
    observers: Annotated[tuple[str, ...], NO_OPTION] = ()
    """Observers of every worker, each as ``module:Class``; the rows of their ``table`` are in ``run.tables``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "observers", tuple(self.observers))  # JSON has lists
        check(self)
        if self.backend == "nccl" and self.device == "cpu":
            raise ValueError("backend 'nccl' moves GPU memory, got device 'cpu'; choose backend 'gloo'")
        # CUDA cannot be used in a process forked after its initialisation, so GPUs need spawn.
        if self.start_method is None:
            object.__setattr__(self, "start_method", "fork" if self.device == "cpu" else "spawn")
        if self.start_method == "fork" and self.device == "cuda":
            raise ValueError("start_method 'fork' does not support CUDA in workers; choose 'spawn'")
        self._check_hosts()

    def _check_hosts(self) -> None:
        has_link = self.link is not None or self.comm_share is not None
        if self.hosts is None:
            object.__setattr__(self, "hosts", 2 if has_link else 1)
        assert self.hosts is not None
        if not 1 <= self.hosts <= MAX_HOSTS:
            raise ValueError(f"hosts must number 1 to {MAX_HOSTS}, got {self.hosts}")
        if self.hosts == 1 and has_link:
            setting = "comm_share" if self.link is None else "link"
            raise ValueError(f"{setting} needs several hosts, got hosts 1; choose hosts 2, or leave it out")
        if self.link is not None and self.comm_share is not None:
            raise ValueError(f"comm_share chooses the rate of the link, got link {self.link!r} as well; give one")
        if self.hosts > 1 and self.backend != "gloo":
            raise ValueError(f"emulated hosts need backend 'gloo', got {self.backend!r}")
        if self.link is not None:
            parse_link(self.link)
        elif self.hosts > 1 and self.comm_share is None:  # else calibration sets the link
            object.__setattr__(self, "link", "1gbit")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Complete configuration of one run, as stored in ``config.json``."""

    graph: str
    """Name or path, as for ``gnnqlab.load``."""
    system: System = field(default_factory=lambda: make_system("vanilla"))
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    workers: int = 2
    """Number of partitions, one process each."""
    launch: LaunchSettings = field(default_factory=LaunchSettings)
    task: TaskSettings = field(default_factory=TaskSettings)
    """Learning task: node classification or link prediction."""

    def __post_init__(self) -> None:
        Setting(name="workers", kind=int, rules=(Range(1),)).check(self.workers)
        assert self.launch.hosts is not None
        check_host_count(self.workers, self.launch.hosts)
        if self.train.input_features == "cache" and self.model.input_dropout > 0:
            raise ValueError(
                f"input_features 'cache' sends them once, but input_dropout {self.model.input_dropout} changes them in "
                "every epoch; choose input_features 'resend' or input_dropout 0"
            )
        self._check_recompute()
        self._check_entropy()
        self._check_links()
        self._check_protocol()
        check_learned(self.task.node_features, self.system.partition.cuts, dataclasses.asdict(self.train))
        if refusal := self.system.compute.refuses_activation(self.model.activation):
            raise ValueError(refusal)
        if self.model.attends and (reason := self.system.exchange.refuses_attention(self.system)):
            raise ValueError(f"model {self.model.name} needs all terms of a softmax on one worker, got {reason}")
        # Set here and not in TrainSettings, because the default depends on the schedule of the system.
        if self.train.evaluate_every is None:
            period = usual_every(self.system.schedule.lag)
            object.__setattr__(self, "train", dataclasses.replace(self.train, evaluate_every=period))

    def _check_recompute(self) -> None:
        recompute = self.train.recompute
        if recompute == "none":
            return
        if not self.system.compute.remade:
            raise ValueError(
                f"recompute {recompute!r} recomputes float32 products, got compute "
                f"{type(self.system.compute).__name__}, which prepares its operands once per pass; choose compute "
                "float32 or recompute 'none'"
            )
        self.train.require_workers(self.workers)

    def _check_entropy(self) -> None:
        codecs = without_codes(self.system.codec)
        if self.train.entropy_every and len(codecs) == 2:  # neither direction has codes
            raise ValueError(
                f"entropy_every counts the integer codes of messages, got {' and '.join(codecs)}, which send none; "
                "choose a codec with codes, for instance Stochastic(), or entropy_every 0"
            )

    def _check_links(self) -> None:
        cuts = self.system.partition.cuts
        if self.task.task == "links" and cuts != "nodes":
            raise ValueError(
                f"task 'links' needs one owner per node, as in an edge-cut, got a partition of {cuts} in system "
                f"{self.system.name!r}; choose a system with an edge-cut, for instance vanilla or adaqp"
            )

    def _check_protocol(self) -> None:
        cuts = self.system.partition.cuts
        if self.train.protocol == "inductive" and (self.task.task == "links" or cuts != "nodes"):
            reason = "task 'links'" if self.task.task == "links" else f"a partition of {cuts}"
            raise ValueError(
                f"protocol 'inductive' needs task 'nodes' and one owner per node, as in an edge-cut, got {reason} with "
                f"system {self.system.name!r}; choose protocol 'transductive'"
            )
        task = {"task": self.task.task, "node_features": self.task.node_features}
        check_partition(self.system.partition, protocol=self.train.protocol, **task)

    def require_nodes(self, what: str, *, class_weights: bool = True) -> None:
        """Raise if the task is link prediction, for features that support node classification only.

        Args:
            what: name of the feature in the error.
            class_weights: False if the feature has a loss without weights of classes, the package's own.

        Raises:
            ValueError: if the task is not ``nodes``, or has weights of classes or an objective that would be ignored.
        """
        if self.task.class_weights and not class_weights:
            raise ValueError(
                f"{what} has a loss without weights of classes, got class_weights {self.task.class_weights!r}; leave "
                f"them out, or leave out {what}"
            )
        if self.task.node_features != "given":
            kind, way = self.task.node_features, "pass graph.with_degree_features()"
            raise ValueError(f"{what} uses the features of the graph, got node_features {kind!r}; {way}")
        if self.train.protocol != "transductive":
            protocol = self.train.protocol
            raise ValueError(f"{what} trains on the whole graph, got protocol {protocol!r}; choose 'transductive'")
        if self.task.objective and not class_weights:
            objective = self.task.objective
            raise ValueError(f"{what} has the loss of the package, got objective {objective!r}; leave one of them out")
        if self.task.task != "nodes":
            raise ValueError(
                f"{what} supports task 'nodes' only, got task {self.task.task!r}; pass a configuration of task "
                "'nodes', or use the records of a run"
            )

    @property
    def system_on_hosts(self) -> System:
        """System adapted to the number of hosts of this run."""
        return self.system.on_hosts(self.launch.hosts or 1)

    placed = FormerMember("system_on_hosts")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; :meth:`from_json` restores the configuration without loss."""
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
        """Return the configuration that :meth:`to_json` wrote; imports the user modules of its parts and model.

        Raises:
            ValueError: if a key is unknown or a value out of its range.
            ImportError: if the module of a part or model is not found.

        Example:
            >>> config = RunConfig(graph="digits", workers=3)
            >>> RunConfig.from_json(config.to_json()) == config
            True
        """
        sections = {"train": TrainSettings, "launch": LaunchSettings, "task": TaskSettings}
        # A key that is ignored would change the run without notice.
        unknown_names = set(value) - {"graph", "system", "recipe", "model", "model_home", "workers", *sections}
        if unknown_names:
            raise ValueError(f"a run's configuration has no {sorted(unknown_names)}")
        parts: dict[str, Any] = {name: value[name] for name in ("graph", "workers") if name in value}
        if "system" in value:
            parts["system"] = _system(value["system"], value.get("recipe", {}))
        if "model_home" in value:
            # Registers a user's model, before its settings are parsed.
            find_model(value["model"]["name"], value["model_home"])
        if "model" in value:
            parts["model"] = settings_from_json(value["model"])
        for name, kind in sections.items():
            if name in value:
                known_names = {entry.name for entry in dataclasses.fields(kind)}
                settings = with_present_names(value[name], settings_in(kind), warn=False)
                if not set(settings) <= known_names:
                    raise ValueError(
                        f"{name} has the settings {sorted(known_names)}, got {sorted(set(settings) - known_names)}"
                    )
                parts[name] = kind(**settings)
        return cls(**parts)


def _system(parts: dict[str, Any], recipe: dict[str, Any] | None) -> System:
    """Return a system from a file with its recipe; ``{}`` stands for files of versions that did not store recipes."""
    system = System.from_json(parts)
    call = None
    if recipe:
        recipe_settings = settings_of(SYSTEMS[recipe["name"]]) if recipe["name"] in SYSTEMS else []
        call = RecipeCall.from_json(with_present_names(recipe, recipe_settings, warn=False))
    if recipe == {} and system.name in SYSTEMS:
        call = RecipeCall(system.name, filled(SYSTEMS[system.name], system))
    object.__setattr__(system, "recipe", call)
    return system
