"""Per-epoch records of every worker: their columns, readers and summary (messages: ``traffic.py``).

``records-rankR.jsonl`` has one line per epoch; ``traffic-rankR.jsonl`` has one line per epoch with a row for each
message that worker received, by bit-width. Each line is written with one system call, so a crash leaves at
most one incomplete line, which readers skip.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.train.config.config_file import find_unimported_modules, read_config
from gnnqlab.train.link import Link
from gnnqlab.train.loop.scores import read_further_score_names, read_score_name
from gnnqlab.train.records.evaluation_pauses import drop_shortened_epochs, epoch_seconds, mark
from gnnqlab.train.records.json_lines import parse_lines, read_lines
from gnnqlab.train.records.missing_ranks import missing_ranks_error

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from gnnqlab.message.channels.incoming import MessageRecord

__all__ = [
    "best_evaluation",
    "coordination_figures",
    "read_assignments",
    "read_links",
    "read_records",
    "summarize",
    "traffic_rows",
]

RECORD_COLUMNS = (
    "epoch",
    "rank",
    "time_s",
    "loss",
    "train_score",
    "val_score",
    "test_score",
    "epoch_s",
    "central_s",
    "marginal_s",
    "encode_s",
    "decode_s",
    "wait_s",
    "wire_s",
    "dense_s",
    "products_s",
    "elementwise_s",
    "loss_s",
    "reduce_s",
    "optimizer_s",
    "evaluate_s",
    "assign_s",
    "other_s",
    "bytes_payload",
    "bytes_params",
    "bytes_headers",
    "bytes_gradients",
    "bytes_wire",
    "memory_bytes",
    "energy_j",
    "rounded",
    "rounded_twice",
    "after_evaluation",
)
"""Columns of ``run.records``: seconds end in ``_s``; scores are NaN in epochs without evaluation; ``epoch_s`` is the
training part of an epoch, ``time_s`` the wall clock since training began; ``dense_s`` is the sum of ``products_s``
(projections outside the convolutions), ``elementwise_s`` (dropout, norms, activations) and ``loss_s``, and with the
other phases, including ``other_s``, it adds up to ``epoch_s``; bytes are those this worker sent, except ``bytes_wire``,
which its emulated host sent to other hosts during the training part, headers included (counted by the host's first
worker); ``energy_j`` are the joules of a machine's processors, memory and GPUs in the training part, other programs
included, on its first worker, NaN without readable counters; ``rounded`` are elements quantized for products of codes
in the training part, ``rounded_twice`` those of them that were received from other workers and already rounded by the
codec (sums over replicas: if a product uses them as received), both NaN for other products;
``after_evaluation`` is 1 if pending messages were received during an evaluation (``evaluation_pauses.py``).

With ``partition_every`` there are ``partition_s``, the seconds of a change of the partition before the epoch, and
``partition_bytes``, the bytes of new nodes; with a codec of bases ``bytes_bases``, the bytes of a refresh in it."""

TRAFFIC_COLUMNS = (
    "epoch",
    "layer",
    "direction",
    "sender",
    "receiver",
    "bits",
    "rows",
    "payload_bytes",
    "param_bytes",
    "seconds",
    "round",
    "entropy",
)
"""Columns of ``run.traffic``; ``seconds`` is the time from the receiver's post until the message was complete,
``round`` the communication round within layer and direction; ``entropy`` is that of the codes, in bits per element
(:func:`gnnqlab.message.codecs.entropy.code_entropies`), NaN if they were not counted or there are none."""


def traffic_rows(arrivals: Iterable[MessageRecord]) -> list[list[Any]]:
    """Return one row for each message and bit-width, in the order of ``TRAFFIC_COLUMNS`` from ``layer`` on."""
    return [
        [
            arrival.layer,
            arrival.direction,
            arrival.sender,
            arrival.receiver,
            share.bits,
            share.rows,
            share.payload_bytes,
            share.param_bytes,
            round(arrival.seconds, 7),
            arrival.round,
            *_entropy(arrival, share.bits),
        ]
        for arrival in arrivals
        for share in arrival.layout.shares
        if share.rows
    ]


def _entropy(arrival: MessageRecord, bits: int) -> list[float]:
    """Return the entropy of the codes of a bit-width; empty if they were not counted, to shorten the line."""
    entropy = arrival.entropies.get(bits)
    return [] if entropy is None else [round(entropy, 5)]


def read_records(folder: Path) -> pd.DataFrame:
    """Return one row per epoch and worker, sorted; empty before the first record."""
    import numpy as np
    import pandas as pd

    # One file at a time: 80 000 dictionaries at once would exceed the processor's caches.
    names = _record_columns(folder)
    texts = (path.read_bytes() for path in sorted(folder.glob("records-rank*.jsonl")))
    parts = [_columns(lines, names) for text in texts if (lines := parse_lines(text))]
    columns = {name: np.concatenate([part[name] for part in parts] or [np.array([])]) for name in names}
    order = np.lexsort((columns["rank"], columns["epoch"]))  # by epoch, then rank: lexsort takes the last key first
    frame = pd.DataFrame({name: values[order] for name, values in columns.items()})
    return frame.assign(after_evaluation=mark(frame, _lag(folder)))


def _lag(folder: Path) -> int:
    """Return the staleness of a run's system in epochs, without importing user modules."""
    from gnnqlab.systems.system import System

    try:
        config = read_config(folder)
        if find_unimported_modules(config):
            return int(_facts(folder).get("lag", 0))  # as the run itself wrote it
        return System.from_json(config["system"]).schedule.lag
    except (ValueError, KeyError, TypeError):  # not written yet, or of another version
        return 0


def _record_columns(folder: Path) -> tuple[str, ...]:
    """Return the columns of a run's records; some runs have further ones after ``test_score``."""
    facts = _facts(folder)
    further_columns = tuple(f"{split}_{name}" for name in read_further_score_names(facts) for split in ("val", "test"))
    further_columns += ("lr",) if facts.get("lr_changes") else ()
    further_columns += ("partition_s", "partition_bytes") if facts.get("partition_every") else ()
    further_columns += ("bytes_bases",) if facts.get("bytes_bases") else ()
    end = RECORD_COLUMNS.index("test_score") + 1
    return RECORD_COLUMNS[:end] + further_columns + RECORD_COLUMNS[end:]


def _columns(lines: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the columns of records; null and missing values are NaN."""
    import numpy as np

    # A null makes a column of objects; converted to float it becomes NaN.
    columns = {name: np.array([line.get(name) for line in lines]) for name in names}
    return {name: values.astype(float) if values.dtype == object else values for name, values in columns.items()}


def read_assignments(folder: Path) -> pd.DataFrame:
    """Return one row per assignment, layer and direction: rows by bit-width, certified gap, settings in force.

    ``epoch`` is the one whose ranges were used, ``from_epoch`` the first with the new bit-widths; ``solve_s`` is the
    solver's time in the background, not the time that training waited (``assign_s`` of the records).
    """
    import pandas as pd

    rows = [
        {**_of_assignment(line), **problem, **line["settings"]}
        for line in _assignment_lines(folder)
        for problem in line["problems"]
    ]
    return pd.DataFrame(rows)


_DECISION = ["epoch", "what", "why", "rate", "earlier_rate", "F"]


def read_decisions(folder: Path) -> pd.DataFrame:
    """Return one row per decision about bit-widths or staleness: first ``epoch`` of its effect, ``what`` and ``why``.

    ``rate`` and ``earlier_rate`` are the compared decreases of the running loss ``F`` per second.
    """
    import pandas as pd

    path = folder / "decisions.jsonl"
    return pd.DataFrame(list(read_lines(path)) if path.exists() else [], columns=_DECISION)


def read_links(folder: Path) -> pd.DataFrame:
    """Return the cost model at every assignment: one row per pair of workers, with θ, γ and R².

    ``transfers`` is the number of observed training messages, ``refreshed`` is True if they gave a new fit.
    """
    import pandas as pd

    lines = _assignment_lines(folder)
    return pd.DataFrame([{**_of_assignment(line), **link} for line in lines for link in line["links"]])


def _assignment_lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "assignments.jsonl"
    return list(read_lines(path)) if path.exists() else []


def _of_assignment(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("epoch", "from_epoch", "version", "cpu_s")}


def summarize(folder: Path) -> dict[str, Any]:
    """Return the figures of a run for comparisons and ``--json``.

    ``train_s`` is the whole training, from its first epoch to its last: the sum of the slowest worker's epochs
    (``epoch_seconds``), without evaluations. The other seconds are per epoch: medians of the slowest worker
    (``epoch_s``) or of the mean over workers (the others); they omit the first epoch if there are more, because it
    includes set-up, and epochs that an evaluation made shorter (``evaluation_pauses.py``). ``assign_s`` is a mean over
    all epochs instead, because few epochs assign; ``assign_share`` is its share of training time, and ``assign_cpu_s``
    the processor time of one assignment in the background, included in neither. Bytes are per epoch, summed over
    workers; ``bytes_sent`` includes a mean of ``bytes_bases``. The test score is of the best epoch on validation.

    A system with an orchestrator also has ``extract_s`` and ``coordination_share``; see :func:`coordination_figures`.

    Raises:
        ValueError: if ``config.json`` is not the configuration of a run.
        RuntimeError: if the records of a worker are missing: sums over the others would be too small.
    """
    config = read_config(folder)
    if error := missing_ranks_error(folder, config["workers"], ended=False):
        raise RuntimeError(error)
    frame = read_records(folder)
    summary: dict[str, Any] = {
        "run": folder.name,
        "system": config["system"]["name"],
        "model": config["model"]["name"],
        "graph": config["graph"],
        "workers": config["workers"],
        "epochs": 0,
    }
    if frame.empty:
        return summary
    # During training the newest epoch may lack workers that are still in it.
    complete_frame = frame[frame.groupby("epoch")["rank"].transform("size") == config["workers"]]
    frame = complete_frame if not complete_frame.empty else frame
    epochs = frame.groupby("epoch")
    # Seconds and bytes of usual epochs: without the first one, and without those after evaluations.
    steady_frame = frame[frame["epoch"] > frame["epoch"].min()] if frame["epoch"].nunique() > 1 else frame

    timed_frame = drop_shortened_epochs(steady_frame)  # without epochs after evaluations

    def median_of_means(*columns: str) -> float:
        # Mean over workers, sum of the phases, median over epochs.
        return float(timed_frame.groupby("epoch")[list(columns)].mean().sum(axis=1).median())

    first_rank = frame[frame["rank"] == frame["rank"].min()]  # loss and scores are equal on all ranks
    evaluations = first_rank.dropna(subset=["train_score"])
    row = best_evaluation(evaluations) if not evaluations.empty else None
    metric = _metric(folder)
    # Summed over workers, as assign_s is.
    trained_s = sum(float(epoch_seconds(rank_frame).sum()) for _, rank_frame in frame.groupby("rank"))
    sizes = steady_frame.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1)  # per epoch, all workers
    bases = int(epochs["bytes_bases"].sum().mean()) if "bytes_bases" in frame else 0
    summary.update(
        {
            "epochs": int(frame["epoch"].max()) + 1,
            "evaluate_every": config["train"].get("evaluate_every"),
            metric: None if row is None else float(row["test_score"]),
            **_further_test_scores(folder, row),
            "best_val": None if row is None or row["val_score"] != row["val_score"] else float(row["val_score"]),
            "best_epoch": None if row is None else int(row["epoch"]),
            "train_s": float(epoch_seconds(frame).sum()),
            "epoch_s": float(timed_frame.groupby("epoch")["epoch_s"].max().median()),
            "comm_s": median_of_means("wait_s", "reduce_s"),
            "comp_s": median_of_means("central_s", "marginal_s", "dense_s", "optimizer_s"),
            "quant_s": median_of_means("encode_s", "decode_s"),
            "assign_s": float(frame["assign_s"].mean()),
            "assign_share": float(frame["assign_s"].sum() / trained_s) if trained_s else 0.0,
            "bytes_sent": int(statistics.median(sizes)) + bases,
            "bytes_payload": int(steady_frame.groupby("epoch")["bytes_payload"].sum().median()),
            "bytes_params": int(steady_frame.groupby("epoch")["bytes_params"].sum().median()),
            "bytes_headers": int(steady_frame.groupby("epoch")["bytes_headers"].sum().median()),
            "final_loss": float(epochs["loss"].first().iloc[-1]),
            "wall_s": float(frame["time_s"].max()),
            "peak_memory_bytes": int(frame["memory_bytes"].max()),
            "input_features": _input_features(config["train"]),
            "layer0": "once" if _input_features(config["train"]) == "cache" else "resend",  # its name until 0.9
            "transport": config["train"]["transport"],
            **({"bytes_bases": bases} if "bytes_bases" in frame else {}),
            **_energy(timed_frame),
            **_link(folder, config, timed_frame),
            **_assignments(folder),
            **coordination_figures(folder, frame),
        }
    )
    return summary


def best_evaluation(evaluations: pd.DataFrame) -> pd.Series:
    """Return the row of the first best validation score; without validation nodes that of the last evaluation.

    The stored model is that of the same epoch.
    """
    scores = evaluations["val_score"]
    return evaluations.iloc[-1] if scores.isna().all() else evaluations.loc[scores.idxmax()]


def _input_features(train: dict[str, Any]) -> str:
    """Return the setting, also from files of versions in which it was called ``layer0``."""
    default = "cache" if train.get("layer0") == "once" else "resend"
    return str(train.get("input_features", default))


def _further_test_scores(folder: Path, row: Any) -> dict[str, float | None]:
    """Return the further test scores of the best epoch."""
    names = [f"test_{name}" for name in read_further_score_names(_facts(folder))]
    return {name: None if row is None else float(row[name]) for name in names}


def _energy(timed_frame: pd.DataFrame) -> dict[str, float]:
    """Return the median joules of an epoch, all machines together; nothing without readable counters."""
    measured = timed_frame["energy_j"].dropna()
    return {"energy_j": float(measured.groupby(timed_frame["epoch"]).sum().median())} if len(measured) else {}


def _link(folder: Path, config: dict[str, Any], timed_frame: pd.DataFrame) -> dict[str, Any]:
    """Return the link between the workers, and its measured goodput."""
    link = Link.from_folder(folder, config["workers"])
    figures: dict[str, Any] = {"link": link.label, "hosts": link.hosts}
    if link.bytes_per_s is not None:
        figures["link_bytes_per_s"] = link.bytes_per_s
        figures["goodput_bytes_per_s"] = link.goodput
        figures["vanilla_share"] = config["launch"].get("vanilla_share")
    if link.kind == "emulated":
        figures["bytes_wire"] = int(timed_frame.groupby("epoch")["bytes_wire"].sum().median())
    return figures


def _assignments(folder: Path) -> dict[str, Any]:
    """Return the number of assignments, rank 0's mean processor time, and the quality of the last one."""
    lines = _assignment_lines(folder)
    if not lines:
        return {}
    return {
        "assignments": len(lines),
        "solve_s": sum(problem["solve_s"] for problem in lines[-1]["problems"]),
        "assign_cpu_s": sum(line["cpu_s"] for line in lines) / len(lines),
        # Without halo nodes there is nothing to assign, and no link was measured.
        "gap": max((problem["gap"] for problem in lines[-1]["problems"]), default=0.0),
        "link_r_squared": min((link["r_squared"] for link in lines[-1]["links"]), default=None),
    }


def coordination_figures(folder: Path, records: pd.DataFrame) -> dict[str, Any]:
    """Return ``extract_s`` and ``coordination_share`` of a coordinated run; empty for other runs.

    The share is extraction plus the largest ``assign_s`` of a worker, divided by the wall clock including extraction.
    ``assign_s`` includes decisions, their records, lookup of bit-widths and new message layouts, but not quantization.
    """
    facts = _facts(folder)
    if "extract_s" not in facts:
        return {}
    extract_s = facts["extract_s"] or 0.0
    spent_s = float(records.groupby("rank")["assign_s"].sum().max())  # workers wait for the slowest
    total_s = extract_s + float(records["time_s"].max())
    return {"extract_s": facts["extract_s"], "coordination_share": (extract_s + spent_s) / total_s if total_s else 0.0}


def _metric(folder: Path) -> str:
    return f"test_{read_score_name(_facts(folder))}"


def _facts(folder: Path) -> dict[str, Any]:
    """Return the contents of ``facts.json``; empty before it is written."""
    try:
        facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    except (OSError, ValueError):
        return {}
    return facts
