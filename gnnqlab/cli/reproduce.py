"""``gnnqlab reproduce``: list the claims of the papers, and run the scaled experiment of one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gnnqlab.cli.console import plain_table
from gnnqlab.settings import OPTIONAL_WORD, Option

if TYPE_CHECKING:
    from gnnqlab.study.claims import Claim

__all__ = ["Reproduce"]


@dataclass(kw_only=True)
class Reproduce:
    """Run the scaled experiment of a claim of a paper, and compare its number with the reported one."""

    claim: Annotated[str | None, OPTIONAL_WORD] = None
    """Id of a claim, for instance adaqp:table4-throughput."""
    list_claims: Annotated[bool, Option("list")] = False
    """List the claims with reported numbers, verdicts and experiments."""
    paper: str | None = None
    """With --list: adaqp, sylvie, cdfgnn, tango, mixgcn or grappa."""
    verdict: str | None = None
    """With --list: holds, "in part", "does not hold" or "not measured"."""
    budget: str = "10min"
    """Time for the experiment, with s, min or h: seeds that do not fit are left out."""
    out: Path | None = None
    """Folder of trainings, which are not repeated; default: reproduce in $GNNQLAB_RUNS, else in runs."""
    results: Path | None = None
    """Folder of the table in which the row is stored; default: tables in the folder of trainings."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        if self.list_claims or self.claim is None:
            return self._list()
        for option in ("paper", "verdict"):
            if (value := getattr(self, option)) is not None:
                raise ValueError(
                    f"--{option} selects claims of --list, got --{option} {value} for one claim; leave it out"
                )
        from gnnqlab.study.reproduction import reproduce

        result = reproduce(self.claim, budget=self.budget, folder=self.out, tables=self.results)
        if not self.json:
            print(result)
        return {**result.row(), "machine": dict(result.machine), "command": result.command}

    def _list(self) -> dict[str, Any]:
        from gnnqlab.study.claims import load_claims

        if self.claim is not None:
            raise ValueError(f"--list has no claim, got {self.claim!r}; select with --paper and --verdict")
        claims = load_claims(self.paper, self.verdict)
        rows = [
            {"claim": each.id, "verdict": each.verdict, "reported": each.reported_text, "experiment": _experiment(each)}
            for each in claims
        ]
        counts = Counter(each.verdict for each in claims)
        if not self.json:
            print(plain_table(rows))
            print(f"{len(claims)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
        return {"claims": rows, "counts": dict(counts)}


def _experiment(claim: Claim) -> str:
    """Return the kind of a claim's experiment, with its approximate minutes."""
    from gnnqlab.study.claims import StudyExperiment

    experiment = claim.experiment
    if experiment is None:
        return claim.experiment_text or "none"
    kind = "study" if isinstance(experiment, StudyExperiment) else f"bench {experiment.words[0]}"
    per_seed = " a seed" if isinstance(experiment, StudyExperiment) else ""
    return f"{kind}, about {experiment.minutes:g} min{per_seed}"
