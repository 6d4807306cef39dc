"""The page of all claims of the papers: a table of HTML that a small script filters."""

from __future__ import annotations

import math
from collections import Counter
from html import escape
from typing import Any

from gnnqlab import results
from gnnqlab.study.claims import NOT_MEASURED, PAPERS, VERDICTS, BenchExperiment, Claim, load_claims
from gnnqlab.study.reproduction import measured_in, stored_reproductions

__all__ = ["claims_page", "stored_number"]

_INTRO = """# Claims of the papers

Every quantitative claim of the four papers, and three of the abstracts of MixGCN and Grappa, with numbers as reported,
what was measured here, and the scaled experiment. `gnnqlab reproduce --list` lists them,
`gnnqlab reproduce PAPER:CLAIM --budget 10min` runs one, and in Python
`gnnqlab.study.load_claims()` and `gnnqlab.study.reproduce(id)` do the same.

A verdict covers all that was measured: *holds* is direction and size as claimed in what was tried, *in part* is one of
both or some of the settings, *does not hold* includes differences that their intervals do not show. A *stored number*
is one row of a stored table, judged by the rule of the claim alone, so that it may differ from the verdict.
"""
_COLUMNS = ("Claim", "Reported", "Here", "Verdict", "Missing", "Experiment", "Stored number")


def claims_page() -> str:
    """Return the page as Markdown with one block of HTML; without scripts all rows are shown."""
    claims = load_claims()
    tables, reproduced = results.load(), stored_reproductions()
    counts = Counter((claim.paper, claim.verdict) for claim in claims)
    head = ["", *VERDICTS, "all"]
    lines = [head, ["---"] * len(head)]
    for paper, name in PAPERS.items():
        numbers = [counts[paper, verdict] for verdict in VERDICTS]
        lines.append([name, *map(str, numbers), str(sum(numbers))])
    totals = [sum(counts[paper, verdict] for paper in PAPERS) for verdict in VERDICTS]
    lines.append(["all", *map(str, totals), str(sum(totals))])
    summary = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    rows = "\n".join(_row(claim, stored_number(claim, tables, reproduced)) for claim in claims)
    header = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    table = f'<table class="claims"><thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    return f"{_INTRO}\n{summary}\n\n```{{raw}} html\n{_controls()}\n{table}\n```\n"


def stored_number(claim: Claim, tables: dict[str, Any], reproduced: dict[str, Any]) -> str:
    """Return the stored number of a claim, its verdict by rule, command, machine and date; empty if there is none.

    Args:
        claim: the claim.
        tables: stored tables by name.
        reproduced: rows of the table ``reproduced`` by claim, which precede those of benchmarks.
    """
    if (row := reproduced.get(claim.id)) is not None:
        half = math.nan if row["half_interval"] is None else row["half_interval"]
        return _number(row["value"], half, claim, row)
    experiment = claim.experiment
    if not isinstance(experiment, BenchExperiment) or not claim.rule or experiment.stored_table not in tables:
        return ""
    table = tables[experiment.stored_table]
    _, value, half = measured_in(table["rows"], experiment)
    return _number(value, half, claim, {**table, "command": experiment.text})


def _number(value: float, half: float, claim: Claim, source: dict[str, Any]) -> str:
    spread = f" ± {half:.3g}" if half > 0 else ""
    text = f"{value:.3g}{spread} {claim.unit}: {claim.judge(value, half)}".replace("-", "\N{MINUS SIGN}")
    return f"{text} ({source['command']}, {source['device']}, {source['date'][:10]})"


def _row(claim: Claim, stored: str) -> str:
    statement = f"<code>{escape(claim.id)}</code><br>{escape(claim.claim)}<br><small>{escape(claim.place)}</small>"
    texts = (
        claim.reported_text,
        claim.here or NOT_MEASURED,
        claim.verdict,
        claim.missing,
        claim.experiment_text,
        stored,
    )
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    names = f'data-paper="{claim.paper}" data-verdict="{escape(claim.verdict)}"'
    return f'<tr id="{escape(claim.id)}" {names}><td>{statement}</td>{cells}</tr>'


def _controls() -> str:
    papers = "".join(f'<option value="{key}">{name}</option>' for key, name in PAPERS.items())
    verdicts = "".join(f"<option>{verdict}</option>" for verdict in VERDICTS)
    return (
        '<form class="claims-filter" hidden>'
        f'<label>Paper <select name="paper"><option value="">all</option>{papers}</select></label> '
        f'<label>Verdict <select name="verdict"><option value="">all</option>{verdicts}</select></label> '
        '<label>Words <input name="words" type="search"></label> <output></output></form>'
    )
