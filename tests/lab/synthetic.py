"""Synthetic runs: frames with the columns of real ones and numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

PHASES = {
    "central_s": 0.010, "marginal_s": 0.004, "encode_s": 0.001, "decode_s": 0.002, "wait_s": 0.009,
    "dense_s": 0.008, "reduce_s": 0.002, "optimizer_s": 0.001, "assign_s": 0.0, "other_s": 0.001,
}  # fmt: skip


@dataclass
class SyntheticRun:
    """A stand-in for a launched run."""

    records: pd.DataFrame
    traffic: pd.DataFrame
    config: dict[str, Any]
    summary: dict[str, Any] = field(default_factory=dict)
    timeline: pd.DataFrame | None = None


# fmt: off
def make_run(
    system: str = "vanilla", *, workers: int = 2, epochs: int = 40, bits: int = 32, seed: int = 0, every: int = 2
) -> SyntheticRun:
    """Make a run in which every pair of workers exchanges 1000 rows of 64 elements in each of 2 layers and directions.
    """
    rng = np.random.default_rng(seed)
    payload = 1000 * 64 * bits // 8
    parameters = 0 if bits == 32 else 1000 * 8
    phases = PHASES if bits < 32 else {**PHASES, "encode_s": 0.0, "decode_s": 0.0, "wait_s": 0.033}
    records, traffic = [], []
    for epoch in range(epochs):
        progress = 1 - np.exp(-epoch / 8)
        evaluated = epoch % every == 0 or epoch == epochs - 1
        score = 0.1 + 0.85 * progress if evaluated else np.nan
        for rank in range(workers):
            seconds = {name: value * (1 + 0.1 * rank) * rng.uniform(0.9, 1.1) for name, value in phases.items()}
            records.append(
                {
                    "epoch": epoch, "rank": rank, "loss": 2.3 * np.exp(-epoch / 10) + 0.1,
                    "train_score": score, "val_score": score, "test_score": score - 0.01,
                    "epoch_s": sum(seconds.values()), **seconds, "wire_s": 0.5 * seconds["wait_s"], "evaluate_s": 0.002,
                    "bytes_payload": 4 * payload * (workers - 1), "bytes_params": 4 * parameters * (workers - 1),
                }
            )
        for sender in range(workers):
            for receiver in range(workers):
                for layer, direction in [(1, "forward"), (2, "forward"), (1, "backward"), (2, "backward")]:
                    if sender != receiver:
                        traffic.append(
                            {
                                "epoch": epoch, "layer": layer, "direction": direction, "sender": sender,
                                "receiver": receiver, "bits": bits, "rows": 1000, "payload_bytes": payload,
                                "param_bytes": parameters, "seconds": 0.001, "round": 0,
                                "tier": "outer" if sender // 2 != receiver // 2 else "inner",
                            }
                        )
    columns = ["epoch", "layer", "direction", "sender", "receiver", "bits", "rows", "payload_bytes", "param_bytes",
               "seconds", "round", "tier"]
    table = pd.DataFrame(records)
    summary = {
        "run": f"20260101-000000-{system}-{seed:04x}", "system": system, "model": "gcn", "graph": "digits",
        "workers": workers, "epochs": epochs, "test_accuracy": float(table["test_score"].iloc[-1]),
        "best_val": float(table["val_score"].max()), "epoch_s": float(table.groupby("epoch")["epoch_s"].max().median()),
        "train_s": float(table.groupby("epoch")["epoch_s"].max().sum()),
        "comm_s": 0.03, "comp_s": 0.02, "quant_s": 0.003 if bits < 32 else 0.0, "assign_s": 0.0,
        "bytes_sent": 4 * (payload + parameters) * workers * (workers - 1),
        "final_loss": float(table["loss"].iloc[-1]), "peak_memory_bytes": 512_000_000, "link": "loopback",
    }
    config = {
        "graph": "digits",
        "system": {"name": system, "codec": {"name": "float32"}, "bits": {"name": "fixed", "bits": bits}},
        "model": {"name": "gcn", "layers": 3, "hidden": 256},
        "train": {"epochs": epochs, "seed": seed},
        "workers": workers,
    }
    tiers = pd.CategoricalDtype(["inner", "outer"])
    return SyntheticRun(table, pd.DataFrame(traffic, columns=columns).astype({"tier": tiers}), config, summary)
# fmt: on


def make_timeline(*, overlapped: bool, wire: float = 0.010, central: float = 0.004) -> pd.DataFrame:
    """Make layer 1's exchange in 3 epochs on 2 workers, the second a millisecond late; sequential or overlapped."""
    rows = []
    for epoch in (2, 4, 6):
        for rank in (0, 1):
            begin = 0.1 * epoch + 0.001 * rank
            steps = (
                [("central", central), ("wait", wire - central)]
                if overlapped
                else [("wait", wire), ("central", central)]
            )
            rows.append((epoch, 1, "forward", rank, "transfer", 1 - rank, begin, begin + wire))
            for what, seconds in (*steps, ("marginal", 0.001)):
                rows.append((epoch, 1, "forward", rank, what, -1, begin, begin + seconds))
                begin += seconds
    columns = ["epoch", "layer", "direction", "rank", "what", "peer", "start_s", "end_s"]
    return pd.DataFrame(rows, columns=columns)
