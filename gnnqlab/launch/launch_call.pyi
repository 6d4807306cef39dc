"""Signature of ``gq.launch``, written by ``gnnqlab.launch.stub.write_stub()`` and compared by a test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch.slurm import Slurm
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.cut import Partitioner
from gnnqlab.run.run import Run
from gnnqlab.systems.system import System

class LaunchCall:
    @overload
    def __call__(
        self,
        graph: GraphLike,
        *,
        model: str | ModelSettings = "gcn",
        system: str | System = "vanilla",
        workers: int | None = None,
        out: str | Path | None = None,
        wait: bool = False,
        start: bool = True,
        on: Slurm | str | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        note: str = "",
        workers_per_host: int | None = None,
        partition: str | Partitioner | None = None,
        epochs: int = 60,
        seed: int = 0,
        optimizer: str = "adam",
        sgd_momentum: float = 0.0,
        lr: float = 0.01,
        lr_schedule: str = "constant",
        lr_period: int = 50,
        lr_factor: float = 0.5,
        warmup_epochs: int = 0,
        weight_decay: float = 0.0,
        protocol: Literal["transductive", "inductive"] = "transductive",
        evaluate_every: int | None = None,
        max_gradient_norm: float | None = None,
        patience: int = 0,
        input_features: Literal["resend", "cache"] = "resend",
        transport: Literal["direct", "ring", "all-to-all"] = "direct",
        verify_messages: Literal["auto", "on", "off"] = "auto",
        timeline_every: int = 50,
        memory_every: int = 0,
        entropy_every: int = 0,
        gradients: Literal["float32", "float32-by-layer", "bfloat16"] = "float32",
        recompute: Literal["none", "selective", "full"] = "none",
        checkpoint_every: int = 0,
        task: Literal["nodes", "links"] = "nodes",
        node_features: Literal["given", "degree", "learned"] = "given",
        class_weights: str = "",
        objective: str = "",
        val_share: float = 0.05,
        test_share: float = 0.1,
        num_negatives: int = 1,
        negative_pool: int = 1024,
        num_candidates: int = 100,
        decoder: Literal["dot", "mlp"] = "dot",
        link_bits: int = 32,
        embedding: int | None = None,
        layers: int = 3,
        hidden: int = 256,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        norm: Literal["layer", "none"] | None = None,
        activation: Literal["relu", "elu", "gelu", "gelu-tanh"] | None = None,
        heads: int = 1,
        initial_share: float = 0.1,
        identity_decay: float = 0.5,
        jump: Literal["cat", "max", "lstm"] = "cat",
        device: Literal["cpu", "cuda"] = "cpu",
        backend: Literal["gloo", "nccl"] = "gloo",
        threads_per_worker: int | None = None,
        start_method: Literal["fork", "spawn"] | None = None,
        hosts: int | None = None,
        link: str | None = None,
        comm_share: float | None = None,
        vanilla_share: float | None = None,
        wire: Literal["auto", "emulated", "paced"] = "auto",
        group_timeout_s: float | None = None,
        stall_report_s: float | None = None,
        stall_stop_s: float | None = None,
        retries: int = 0,
        detach: bool = False,
        observers: tuple[str, ...] = (),
        lam: float = 0.5,
        group_size: int = 100,
        period: int = ...,
        bit_widths: tuple[int, ...] = ...,
        when: Literal["background", "blocking"] = "background",
        parameters: Literal["float32", "bfloat16", "bfloat16-after"] = ...,
        as_released: bool = False,
        p: float = 0.1,
        attention: Literal["weights", "none", "input"] = "weights",
        replication: int = 1,
        gamma: float = 0.1,
        bits: int = ...,
        epsilon: float = 0.05,
        rule: Literal["text", "equation", "fixed"] | Literal["fixed", "age", "variation"] = ...,
        totals: Literal["active", "moved"] = "active",
        activation_bits: int = 2,
        ratio: float = 1.0,
        clusters_per_worker: int = 8,
        correction: Literal["coverage", "none"] = "coverage",
        partition_every: int = 10,
        refresh_every: int = 5,
        iterations: int = 2,
        least_gain: float = 2.0,
        feature_smoothing: float = 0.0,
        gradient_smoothing: float = 0.0,
        dropped_by: Literal["receiver", "owner"] = ...,
        delta: int = 5,
        momentum: float = 0.9,
        formula: Literal["text", "printed"] = "text",
        thresholds: tuple[float, ...] = (0.5, 0.75, 0.875),
        bound: int = 10,
        rotations: int = 2,
        every: int = 2,
        warm_up: int = 0,
        max_age: int = 10,
        depth: int = 1,
        product_bits: int = 8,
        scale: Literal["row", "tensor"] = "tensor",
        rounding: Literal["stochastic", "nearest"] = "stochastic",
    ) -> Run:
        """Start a distributed training in separate processes; return the run's handle at once.

        Settings, training:
            epochs: Full-graph epochs, at least 1.
            seed: Seed of weights, dropout, message noise and random partitions; 0 to 2^63 - 1.
            optimizer: Optimizer: ``adam``, ``adamw`` or ``sgd``; or a function of ``(parameters, lr,
                weight_decay)`` that returns a ``torch.optim.Optimizer``, as ``module:function``.
            sgd_momentum: Momentum of optimizer ``sgd``.
            lr: Learning rate.
            lr_schedule: Learning rate by epoch, as a factor of ``lr``: ``constant``; ``cosine`` to 0 at the
                end; ``step``: times ``lr_factor`` every ``lr_period`` epochs; ``plateau``: after
                ``lr_period`` epochs without a better validation score; or a function of ``(epoch, epochs)``
                as ``module:function``.
            lr_period: Epochs of a step or a plateau of the learning rate.
            lr_factor: Factor of the learning rate at a step or plateau.
            warmup_epochs: Epochs in which the learning rate grows linearly to ``lr``.
            weight_decay: L2 penalty added to the gradient, as in ``torch.optim.Adam``; of ``adamw`` the
                decay of the weights.
            protocol: Graph of training: the whole one (``transductive``), or the subgraph induced by the
                training nodes (``inductive``), as PipeGCN and BNS-GCN train Reddit and Yelp. Evaluation
                always uses the whole graph.
            evaluate_every: Epochs between evaluations; the last epoch is always evaluated. 0: only the
                last. Default: 1; 10 for systems with stale embeddings, whose timings omit the epoch after
                an evaluation. A ``RunConfig`` holds the number.
            max_gradient_norm: Gradient clipping: largest L2 norm of all weight gradients together, summed
                over workers; larger gradients are scaled down to it, as by
                ``torch.nn.utils.clip_grad_norm_``. Default: none.
            patience: Early stopping: epochs without a better validation score after which training ends, at
                the next evaluation. 0: none.
            input_features: Input features of boundary nodes: ``resend`` them in every epoch (AdaQP), or
                send them once, in float32, and ``cache`` them at the receiver.
            transport: Transport of messages: ``direct``, ``ring`` or ``all-to-all``.
            verify_messages: Send and verify a header and checksum for each message: ``on``, ``off``, or
                ``auto``: on, except over NCCL, where verification synchronizes with the GPU at every
                message.
            timeline_every: Epochs between recorded timelines; epoch 2 is recorded as well. 0: none.
            memory_every: Epochs between records of live tensors by purpose, for ``run.memory``; epoch 1 is
                recorded as well. A recorded epoch takes longer. 0: none.
            entropy_every: Epochs between counts of message codes, for the column ``entropy`` of
                ``run.traffic``; epoch 0 is counted as well. A counted epoch takes longer. 0: none.
            gradients: All-reduce of weight gradients: ``float32``, layer by layer during the backward pass
                with two workers, else after it; ``float32-by-layer`` for any number, with another summation
                order; or ``bfloat16``, also layer by layer.
            recompute: Activation checkpointing: recompute ``none`` in the backward pass; dense and row-wise
                operations (``selective``), saving only sums over neighbours; or the aggregation too
                (``full``, one worker only). Losses are identical.
            checkpoint_every: Epochs between checkpoints, from which a run can be resumed; one is also taken
                at the end. 0: none.

        Settings, task:
            task: Learning task: classification of ``nodes``, or prediction of ``links`` (edges).
            node_features: Features of nodes: those of the graph (``given``); or, for graphs without
                features and to see how much features help, 16 columns of the in-degree (``degree``), or an
                embedding of each node of the dimension of hidden layers, trained with the model
                (``learned``).
            class_weights: nodes: weights of the classes in the loss: ``balanced``, inversely to the number
                of training nodes of a class, or one number per class, separated by commas. Default: 1 for
                all.
            objective: nodes: own loss and scores, a class as ``module:Class``, derived from
                ``gnnqlab.objectives.OneLabel`` or ``ManyLabels``. Default: cross-entropy.
            val_share: links: share of the edges held out for validation; message passing does not use them.
            test_share: links: share of the edges held out for the test.
            num_negatives: links: negative samples per training edge and epoch.
            negative_pool: links: size of the pool of negatives, sampled in every epoch; its embeddings are
                sent to all workers.
            num_candidates: links: candidates in the ranking of evaluation (MRR), the same in every epoch.
            decoder: links: score of two embeddings: dot product (``dot``), or a two-layer perceptron on
                their elementwise product (``mlp``).
            link_bits: links: bit-width of remote embeddings at the ends of training edges, and of their
                gradients; stochastic rounding below 32. Embeddings of the pool, and all of evaluation, are
                float32.
            embedding: links: dimension of the final embeddings, which the decoder compares; default: that
                of the hidden layers.

        Settings, model:
            layers: Number of graph layers, or of hops in models without weights per hop, at least 1.
            hidden: Dimension of every layer but the last; of all heads together.
            dropout: Probability in [0, 1) of dropping an element of a hidden layer's input.
            input_dropout: Probability in [0, 1) of dropping an element of the raw features.
            norm: ``layer`` (LayerNorm between layers) or ``none``; default: as in the model's paper.
            activation: Activation between layers: ``relu``, ``elu`` (α = 1), ``gelu`` (exact) or ``gelu-
                tanh`` (approximation by tanh); default: ``relu``, or none for a model without this setting.
            heads (gat): Number of attention heads; it must divide ``hidden``.
            initial_share (gcnii): α in [0, 1]: share of the initial embeddings H⁰ in every layer's input.
            identity_decay (gcnii): λ, positive: layer l mixes in its weights with θ = ln(λ/l + 1).
            jump (jknet): Method of joining the layers: ``cat``, ``max`` or ``lstm``.

        Settings, launch:
            device: ``cpu``, or ``cuda``: one process per GPU, or several that share one over Gloo.
            backend: ``gloo``, or ``nccl`` if every worker has its own GPU.
            threads_per_worker: Compute threads of each worker; default: the available cores divided evenly.
            start_method: Start method of torchrun's workers: ``fork`` (default on CPU) or ``spawn``
                (default on CUDA).
            hosts: Emulated hosts with equal numbers of workers, 1 to 64; default: 2 if there is a link,
                else 1.
            link: Rate of each host's link in each direction, for instance ``1gbit`` (the default with
                several hosts).
            comm_share: Instead of ``link``: share of its epoch that Vanilla spends communicating, between
                0.02 and 0.98. Short runs before the launch find the corresponding rate
                (``gnnqlab.launch.calibrate``).
            vanilla_share: Vanilla's share of communication at this ``link``, if calibration measured it.
            wire: Link between hosts: ``emulated`` (network namespaces), ``paced`` (a throttled loopback),
                or ``auto``: emulated if the machine allows it, else paced.
            group_timeout_s: Limit of one collective operation; default: long, a last resort behind the
                guard's own rules.
            stall_report_s: Silence after which a worker is reported; default: max(3 s, 5 median epochs).
            stall_stop_s: Silence after which a run is stopped; default: max(8 s, 20 median epochs).
            retries: Restarts after a worker's death or hang, each from the newest checkpoint; a second
                failure in the same epoch ends them.
            detach: True to continue the run after the process that launched it ends.
            observers: Observers of every worker, each as ``module:Class``; the rows of their ``table`` are
                in ``run.tables``.

        Settings, system:
            lam (adaqp, adaqp-q, adaqp-r): λ in [0, 1]: 1 counts only variance, 0 only time (Eq. 12).
            group_size (adaqp, adaqp-q, adaqp-r): Rows that share a bit-width.
            period (adaqp, adaqp-q, adaqp-r): Epochs between assignments; the first one follows epoch
                ``first``.
            period (random-bits): Epochs between draws.
            period (varco): Epochs in a period.
            bit_widths (adaqp, adaqp-q, adaqp-r): Bit-widths to choose from.
            bit_widths (sylvie, sylvie-r): Bit-widths to choose from; the base is one of them, and nodes get
                the base or more bits.
            bit_widths (random-bits): Bit-widths to draw from.
            bit_widths (varco): The plan: one bit-width per period, none smaller than the one before; repeat
                one to keep it for longer.
            when (adaqp, adaqp-q, adaqp-r): ``background``: solved during the next epoch and applied after
                it; ``blocking``: training waits (the paper).
            parameters (adaqp, adaqp-q, sylvie, fixed-bits, random-bits, varco): Type of Z and S on the
                wire: ``float32``; ``bfloat16``, rounded outwards before encoding; or ``bfloat16-after``,
                converted after encoding with float32 values, as in AdaQP's published code, which makes
                decoding biased.
            as_released (adaqp, adaqp-q): Weigh rows and truncate quantization parameters as in AdaQP's
                published code.
            as_released (sancus): Reproduce the published code, which creates its caches and then disables
                all of them: every block is sent.
            p (bns-gcn): Probability that a halo row is sampled, in [0, 1]; 0: no communication of
                embeddings; 1: Vanilla.
            attention (bns-gcn): ``weights``: a sampled neighbour counts 1/p in numerator and denominator of
                the softmax, each of them unbiased; ``none``: plain softmax over the sampled neighbours;
                ``input``: their embeddings are multiplied by 1/p first, which changes the logits too (as in
                the released code, which does not rescale the first layer).
            replication (cagnet): Number of workers that compute the rows of one block, each from a share of
                the columns, c.
            gamma (cdfgnn): γ: weight of the host term in [0, 1]; 0 is plain EBV.
            bits (cdfgnn, feature-parallel, low-rank, sancus-q, fixed-bits): Bits per element: 1, 2, 4, 8,
                16 or 32 with a stochastic codec, also 3 with a rotated one, 32 with float32 messages.
            epsilon (cdfgnn): Initial ε, in [0, 1]; with rule ``fixed`` that of all epochs. Not given in the
                paper.
            epsilon (sancus, sancus-q): For ``variation``: largest skipped change; 0 skips only unchanged
                blocks.
            rule (cdfgnn): ``text``, ``equation``, or ``fixed`` (constant ε).
            rule (sancus, sancus-q): ``fixed``, ``age`` or ``variation``.
            totals (cdfgnn): Totals of a vertex-cut to send: of ``active`` nodes, a partial sum of which was
                updated (Algorithm 2), or totals that ``moved`` themselves. No effect under an edge-cut.
            activation_bits (exact): Bits of activations saved for the backward pass; messages have 32.
            ratio (exact): Columns after the random projection of product inputs, relative to before, in (0,
                1]; 1: no projection.
            clusters_per_worker (gradients-only): Clusters of each worker, m; fewer if the graph has fewer
                nodes a worker. More clusters: other neighbours in every partition, and more cut edges.
            correction (gradients-only): Weights of edges inside a worker in the training sums of a system
                that receives no rows, with sampler ``BoundarySampling(p=0)``; other systems hide no edge,
                or have weights of their own. ``coverage``: 1 over the probability that an edge is inside a
                worker, so that sums are unbiased over partitions; attention, a softmax over visible
                neighbours, has no weights. ``none``: the weights of the whole graph.
            partition_every (gradients-only): Epochs between two partitions, in systems that receive no
                rows; 0: one partition for the whole run. With more of them, more edges are inside a worker
                at some time.
            refresh_every (low-rank): Epochs between two bases; the first one is computed during the epoch
                after ``first``.
            iterations (low-rank): Products with the second moments per refresh.
            least_gain (low-rank): Least factor by which a basis must reduce the squared error of a row to
                be used; above 1, because its error is a bias, which does not average out.
            feature_smoothing (pipegcn): γ in [0, 1) for halo rows; 0: no smoothing. PipeGCN-F uses 0.95.
            gradient_smoothing (pipegcn): γ in [0, 1) for gradients; 0: no smoothing. PipeGCN-G uses 0.95.
            dropped_by (pipegcn): Side that applies dropout to rows that are smaller once projected.
                ``receiver``, as in PipeGCN: rows are sent before projection, and their sums are projected.
                ``owner``: projected rows are sent, with the dropout mask of the epoch in which they are
                sent. Rows that are aggregated before projection are always dropped by their receiver.
            dropped_by (sylvie, sylvie-r): As in schedule `Pipelined`. Not specified by SYLVIE; with
                ``owner`` rows are as small as in other systems.
            delta (sylvie, sylvie-r): δ: epochs between the two rates that are compared. The paper suggests
                5 for quality, 20 for speed.
            momentum (sylvie, sylvie-r): λ of the running loss ``F_t = λ F_(t-1) + (1 - λ) L_t``, in [0, 1).
            formula (sylvie, sylvie-r): ``text``: Eq. 5 as the paper explains it. ``printed``: with the
                opposite sign, as in its formula: more bits while the loss falls faster and faster, so that
                smooth training stays at the smallest bit-width.
            thresholds (sylvie, sylvie-r): Importance p in [0, 1], ascending, from which a node gets the
                first, second ... bit-width above the base; at least one per bit-width above the smallest.
                The paper has a mask but no thresholds (erratum SY-2).
            bound (sylvie, sylvie-r): Maximum number of stale epochs in a row, at least 1.
            rotations (adaqp-r, sylvie-r): Number of successive randomized Hadamard rotations, as in codec
                `Rotated`.
            every (sancus, sancus-q): Epochs between broadcasts, for ``fixed`` and ``age``; 1: every epoch.
            warm_up (sancus, sancus-q): Number of first epochs in which every block is sent.
            max_age (sancus, sancus-q): Maximum staleness of a copy, in epochs.
            depth (sar): Number of workers whose rows are prefetched while those of another are used, at
                least 0.
            product_bits (tango): Bits of the integers that products multiply; messages have 32.
            scale (tango, tango-int4): Range of one scale: tensor, all rows that a worker prepares at once;
                row, each row alone.
            rounding (tango, tango-int4): Rounding of operands: stochastic, or nearest as in the paper's
                Test2.
        """
    @overload
    def __call__(
        self,
        graph: GraphLike,
        *,
        model: str | ModelSettings = "gcn",
        system: str | System = "vanilla",
        workers: int | None = None,
        out: str | Path | None = None,
        wait: bool = False,
        start: bool = True,
        on: Slurm | str | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        note: str = "",
        **settings: Any,
    ) -> Run: ...
