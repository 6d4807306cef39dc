"""Reported figures of the papers compared with measured ones: charts by topic, and the claims of a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gnnqlab.course.shown import Page
from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData, table_html
from gnnqlab.lab.figures.charts import scatter
from gnnqlab.study.claims import claims_frame, load_claims
from gnnqlab.theory.intervals import interval

__all__ = ["REPORTED", "Reported", "compare_with_papers", "paper_claims"]
__getattr__ = former_functions(__name__, {"beside": "compare_with_papers"})


@dataclass(frozen=True)
class Reported:
    """One figure of a paper."""

    setting: str
    """Graph, machines × devices each, model."""
    low: float
    high: float
    """The same as ``low`` where the paper has one number."""
    source: str
    """Paper, table or section."""


# Prefixes of the sources.
_AQ, _SY = "AdaQP, ", "SYLVIE, "


def _one(setting: str, value: float, source: str) -> Reported:
    return Reported(setting, value, value, source)


REPORTED: dict[str, tuple[Reported, ...]] = {
    # AdaQP, values in the units of `_UNITS`.
    "communication share": (
        Reported("Reddit, 2 × 1", 66.78, 66.78, _AQ + "Table 1"),
        Reported("Reddit, 2 × 2", 75.20, 75.20, _AQ + "Table 1"),
        Reported("ogbn-products, 2 × 2", 75.59, 75.59, _AQ + "Table 1"),
        Reported("ogbn-products, 2 × 4", 76.67, 76.67, _AQ + "Table 1"),
        Reported("AmazonProducts, 2 × 2", 75.58, 75.58, _AQ + "Table 1"),
        Reported("AmazonProducts, 2 × 4", 78.22, 78.22, _AQ + "Table 1"),
    ),
    "hidden computation": (Reported("ogbn-products, 8 devices", 23.20, 55.44, _AQ + "section 2.2, Fig. 3"),),
    "speed-up": (
        Reported("Reddit, 2 × 1, GCN", 2.19, 2.19, _AQ + "Table 4"),
        Reported("Yelp, 2 × 1, GCN", 2.58, 2.58, _AQ + "Table 4"),
        Reported("ogbn-products, 2 × 2, GCN", 2.70, 2.70, _AQ + "Table 4"),
        Reported("AmazonProducts, 2 × 2, GCN", 2.76, 2.76, _AQ + "Table 4"),
        Reported("all sixteen settings", 2.19, 3.01, _AQ + "section 5.1"),
        Reported("ogbn-products, 6 × 4, GraphSAGE", 1.79, 1.79, _AQ + "Table 7"),
    ),
    "speed-up by system": (
        Reported("AdaQP, all sixteen settings", 2.19, 3.01, _AQ + "Table 4"),
        Reported("PipeGCN, GraphSAGE, four graphs", 1.43, 3.96, _AQ + "Table 4"),
    ),
    "total time": (
        # seconds of Vanilla over those of the system
        Reported("AdaQP, GCN, four graphs", 443.53 / 218.14, 2874.77 / 1053.51, _AQ + "from Tables 5 and 9"),
        Reported("AdaQP, GraphSAGE, three graphs", 326.05 / 133.93, 897.28 / 321.54, _AQ + "from Tables 5 and 9"),
        Reported("PipeGCN, GraphSAGE, four graphs", 326.05 / 229.31, 530.46 / 135.29, _AQ + "from Tables 5 and 9"),
        Reported("SANCUS, GCN, four graphs", 317.48 / 1186.68, 443.53 / 335.56, _AQ + "from Tables 5 and 9"),
    ),
    "accuracy change": (Reported("all sixteen settings", -0.30, 0.19, _AQ + "section 5.1"),),
    "communication reduction": (Reported("GCN, four graphs", 78.29, 80.94, _AQ + "section 5.4, Fig. 10"),),
    "computation reduction": (Reported("GCN, four graphs", 13.16, 39.11, _AQ + "section 5.4, Fig. 10"),),
    "quantization share": (Reported("GCN, four graphs", 5.53, 13.88, _AQ + "section 5.4, Fig. 10"),),
    "assignment share": (Reported("GCN, mean", 5.43, 5.43, _AQ + "section 5.4, Fig. 10"),),
    # SYLVIE.
    "speed-up by model": (
        Reported("SYLVIE, GraphSAGE, four graphs", 11.27, 15.74, _SY + "Table VII"),
        Reported("SYLVIE, GCN, four graphs", 13.13, 16.03, _SY + "Table VII"),
        Reported("SYLVIE, GCNII, four graphs", 10.42, 17.18, _SY + "Table VII"),
        Reported("SYLVIE, DAGNN, three graphs", 7.88, 12.47, _SY + "Table VII"),
        Reported("SYLVIE, SGC, four graphs", 7.56, 13.46, _SY + "Table VII"),  # lowest and highest quotient over graphs
        Reported("SYLVIE, GAT, four graphs", 8.67, 13.48, _SY + "Table VII"),
        Reported("PipeGCN, six models", 1.01, 1.20, _SY + "Table VII"),
        Reported("BNS-GCN, GraphSAGE, GCN and GAT", 7.86, 9.34, _SY + "Table VII"),
        Reported("SAR, GraphSAGE, GCN and GAT", 0.21, 0.65, _SY + "Table VII"),
    ),
    "accuracy by model": (
        Reported("SYLVIE, GraphSAGE, four graphs", -0.34, -0.05, _SY + "from Table VII"),
        Reported("SYLVIE, GCN, four graphs", -0.52, 0.47, _SY + "from Table VII"),
        Reported("SYLVIE, GCNII, four graphs", -0.37, 1.10, _SY + "from Table VII"),
        Reported("SYLVIE, SGC, four graphs", -0.01, 0.26, _SY + "from Table VII"),
        Reported("SYLVIE, GAT, four graphs", -0.76, 0.24, _SY + "from Table VII"),
        Reported("PipeGCN, GCNII, four graphs", -5.45, -0.68, _SY + "from Table VII"),
        Reported("BNS-GCN, GAT, four graphs", -4.89, -0.73, _SY + "from Table VII"),
    ),
    "speed-up on one server": (
        Reported("SYLVIE, GraphSAGE, three graphs", 4.02, 7.78, _SY + "Table IX"),
        Reported("SYLVIE, GCN, three graphs", 3.44, 5.04, _SY + "Table IX"),
        Reported("BNS-GCN, GraphSAGE and GCN", 2.30, 6.93, _SY + "Table IX"),
        Reported("PipeGCN, GraphSAGE and GCN", 0.94, 1.08, _SY + "Table IX"),
        Reported("SAR, GraphSAGE and GCN", 0.99, 1.32, _SY + "Table IX"),
    ),
    "communication on one server": (_one("DGL, eight GPUs, at most", 89.23, _SY + "section II-B, Fig. 2"),),
    "saved by one bit": (
        _one("communication, GraphSAGE on Yelp", 89.8, _SY + "section II-C, Fig. 3"),
        _one("epoch, GraphSAGE on Yelp", 84.2, _SY + "section II-C, Fig. 3"),
    ),
    "accuracy of sampled neighbours": (
        # points of accuracy below full-graph training
        _one("fan-out 5, GraphSAGE on ogbn-products", 73.55 - 79.19, _SY + "from Table I"),
        _one("fan-out 10, GraphSAGE on ogbn-products", 74.87 - 79.19, _SY + "from Table I"),
        _one("fan-out 15, GraphSAGE on ogbn-products", 76.84 - 79.19, _SY + "from Table I"),
    ),
    "speed-up by width": (
        # seconds of an epoch at 32 bits over those at this bit-width
        _one("GraphSAGE on Yelp, 8 bits", 0.90 / 0.52, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, 4 bits", 0.90 / 0.37, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, 2 bits", 0.90 / 0.28, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, 1 bit", 0.90 / 0.22, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, adaptive", 0.90 / 0.39, _SY + "from Table X"),
    ),
    "accuracy by width": (
        _one("GraphSAGE on Yelp, 8 bits", 65.3 - 65.3, _SY + "from Table X"),  # difference of accuracies, points
        _one("GraphSAGE on Yelp, 4 bits", 65.1 - 65.3, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, 2 bits", 64.5 - 65.3, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, 1 bit", 64.4 - 65.3, _SY + "from Table X"),
        _one("GraphSAGE on Yelp, adaptive", 65.0 - 65.3, _SY + "from Table X"),
    ),
    "speed-up by mode": (
        # seconds of a synchronous epoch over those of the mode
        _one("32 bits, always stale", 0.90 / 0.75, _SY + "from Table XI"),
        _one("32 bits, adaptive", 0.90 / 0.81, _SY + "from Table XI"),
        _one("1 bit, always stale", 0.21 / 0.12, _SY + "from Table XI"),
        _one("1 bit, adaptive", 0.21 / 0.17, _SY + "from Table XI"),
    ),
    "accuracy by mode": (
        _one("32 bits, always stale", 64.6 - 65.3, _SY + "from Table XI"),
        _one("32 bits, adaptive", 64.9 - 65.3, _SY + "from Table XI"),
        _one("1 bit, always stale", 64.2 - 64.4, _SY + "from Table XI"),
        _one("1 bit, adaptive", 64.6 - 64.4, _SY + "from Table XI"),
    ),
    "bytes left": (
        _one("Reddit, data", 100 * 126.9 / 2791.7, _SY + "from Table XII"),  # percent of float32's bytes
        _one("Reddit, data and scales", 100 * (126.9 + 15.6) / 2791.7, _SY + "from Table XII"),
        _one("Amazon, data", 100 * 254.7 / 5632.6, _SY + "from Table XII"),
        _one("Amazon, data and scales", 100 * (254.7 + 30.4) / 5632.6, _SY + "from Table XII"),
    ),
    "speed-up over two servers": (
        _one("Reddit, GraphSAGE", 7.28 / 0.50, _SY + "from Table XII"),  # seconds of an epoch with DGL and with SYLVIE
        _one("Amazon, GraphSAGE", 13.33 / 0.97, _SY + "from Table XII"),
    ),
}
"""Topic -> reported figures; units are in `_UNITS`. A source "from Table ..." is a quotient or difference of values."""

_UNITS = {
    "communication share": "communication in Vanilla's epoch (%)",
    "hidden computation": "hidden computation (%)",
    "speed-up": "epochs per second, relative to Vanilla",
    "speed-up by system": "epochs per second, relative to Vanilla",
    "total time": "Vanilla's training, assignment included, over the system's",
    "accuracy change": "accuracy relative to Vanilla (points)",
    "communication reduction": "exposed communication saved (%)",
    "computation reduction": "exposed computation saved (%)",
    "quantization share": "encode and decode, share of an epoch (%)",
    "assignment share": "assignment, share of wall-clock time (%)",
    "speed-up by model": "epochs per second, relative to DGL",
    "accuracy by model": "accuracy relative to DGL (points)",
    "speed-up on one server": "epochs per second, relative to DGL",
    "communication on one server": "communication in an epoch (%)",
    "saved by one bit": "saved, relative to 32 bits (%)",
    "accuracy of sampled neighbours": "accuracy relative to full-graph training (points)",
    "speed-up by width": "epochs per second, relative to 32 bits",
    "accuracy by width": "accuracy relative to 32 bits (points)",
    "speed-up by mode": "epochs per second, relative to synchronous",
    "accuracy by mode": "accuracy relative to synchronous (points)",
    "bytes left": "bytes per epoch, share of float32's (%)",
    "speed-up over two servers": "epochs per second, relative to DGL",
}
"""Topic -> quantity and unit of its axis."""


def compare_with_papers(
    topic: str, measured: Mapping[str, float | Sequence[float]], *, link: str = "", dark: bool = False
) -> FigureData:
    """Draw figures of the papers together with measured ones.

    Args:
        topic: one of ``REPORTED``.
        measured: setting -> value, or values of repeated runs, drawn as their mean and a 95 % interval (Student).
        link: link of the measurements; named in every line.
        dark: colours for a dark page.

    Raises:
        ValueError: if the topic is unknown, or nothing was measured.
    """
    import pandas as pd

    if topic not in REPORTED:
        raise ValueError(f"a topic must be one of {tuple(REPORTED)}, got {topic!r}")
    if not measured:
        raise ValueError("at least one measured value is needed to compare with the papers, got nothing measured")
    rows = [(f"{report.setting}", "paper", report.low, report.high, report.source) for report in REPORTED[topic]]
    origin = "measured here" + (f", {link}" if link else "")
    means = {}
    for setting, value in measured.items():
        # one value has no interval
        values = [float(value)] if isinstance(value, int | float) else [float(number) for number in value]
        mean, half = interval(values)
        means[setting] = mean
        rows.append(
            (setting, "here", mean - half, mean + half, origin + (f", {len(values)} runs" if len(values) > 1 else ""))
        )
    frame = pd.DataFrame(rows, columns=["setting", "reported or measured", "from", "to", "source"])
    chart_rows = frame.assign(
        line=frame["setting"] + " (" + frame["reported or measured"] + ")",
        middle=(frame["from"] + frame["to"]) / 2,  # a paper's range is drawn as its middle with an error bar
        half=[half or None for half in (frame["to"] - frame["from"]) / 2],
    )
    words = ", ".join(f"{setting} {value:.3g}" for setting, value in means.items())
    min_value, max_value = min(report.low for report in REPORTED[topic]), max(report.high for report in REPORTED[topic])
    span = f"{min_value:.4g}" if min_value == max_value else f"{min_value:.4g} to {max_value:.4g}"
    caption = f"{_UNITS[topic][0].upper()}{_UNITS[topic][1:]}: papers report {span}; {origin}: {words}."
    title = f"{topic[0].upper()}{topic[1:]}: reported and measured"
    figure = scatter(
        chart_rows,
        x="middle",
        y="line",
        by="reported or measured",
        names={"paper": "reported by a paper", "here": "measured here"},
        styles={"paper": "grey diamond-open", "here": "vermillion circle"},
        size=12,
        details="source",
        hover="%{y}: %{x:.3g}<br>%{customdata}",
        x_axis=_UNITS[topic],
        y_axis={
            "title_text": "setting", "categoryorder": "array", "categoryarray": list(chart_rows["line"]),
            "autorange": "reversed",
        },
        title=title,
        caption=caption,
        dark=dark,
        height=170 + 30 * len(rows),
    )  # fmt: skip
    # Error bars per trace, because scatter draws one trace for reported and one for measured figures.
    for trace, (_, group) in zip(figure.data, chart_rows.groupby("reported or measured", sort=False)):
        trace.error_x = {"type": "data", "array": group["half"].tolist(), "thickness": 2, "width": 5}
    return FigureData(figure, frame.set_index("setting"))


def paper_claims(notebook: str) -> Page:
    """Return the claims of the papers that a notebook is about, with numbers as reported and as measured here.

    They are those of ``gnnqlab reproduce --list``; their ids are arguments of ``gnnqlab reproduce``.

    Args:
        notebook: number of the notebook, two digits.

    Raises:
        ValueError: if no claim belongs to the notebook.

    Example:
        >>> paper_claims("16").text.splitlines()[0].partition(";")[0]
        "TANGO, Figure 7: Integer training keeps 99 % of float32's score. Reported: 99 % of the score"
    """
    claims = [claim for claim in load_claims() if notebook in (claim.notebook, *claim.shown_in)]
    if not claims:
        known = sorted({number for claim in load_claims() for number in (claim.notebook, *claim.shown_in)} - {""})
        raise ValueError(f"a notebook with claims must be one of {tuple(known)}, got {notebook!r}")
    frame = claims_frame(*(claim.id for claim in claims)).reset_index()
    frame.index = (frame["paper"] + ", " + frame["place"]).rename("source")
    lines = [
        f"{row.Index}: {row.claim} Reported: {row.reported}; here: {row.here}; verdict: {row.verdict}."
        for row in frame.itertuples()
    ]
    caption = "Claims of the papers; gnnqlab reproduce ID measures one again"
    columns = frame[["claim", "reported", "here", "verdict", "id"]]
    return Page("\n".join(lines), table_html(columns, caption=caption))
