"""The report: one complete page that loads nothing."""

import base64
import dataclasses
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.lab.training import compare
from gnnqlab.lab.training.report import write_report
from gnnqlab.lab.training.report_cards import cards_of_run
from gnnqlab.lab.training.snapshot import take
from gnnqlab.run.folder import write_json
from gnnqlab.run.machine_links import FILE, MachineLinks
from gnnqlab.run.run import Run
from gnnqlab.systems.recipes.uniform_bits import fixed_bits
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from tests.cases import each
from tests.lab.synthetic import make_run, make_timeline
from tests.lab.synthetic_folder import Folder

VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclasses.dataclass(frozen=True)
class EightBits(Fixed):
    """A user's own bit policy."""

    bits: int = 8


class _Page(HTMLParser):
    """Structure of the page: balanced tags, attributes by tag, the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report(folder: Path, *runs: Any) -> str:
    """Return the report of some runs."""
    return write_report(list(runs), folder / "report.html").read_text(encoding="utf-8")


def drawn(page: _Page) -> dict[str, Any]:
    """Return the drawn figures by the ids of their elements."""
    figures: dict[str, Any] = json.loads(page.scripts[0])["figures"]
    return figures


def heat_maps(page: _Page) -> list[dict[str, Any]]:
    return [trace for figure in drawn(page).values() for trace in figure["data"] if trace["type"] == "heatmap"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "deeper" / "report.html"
    written = write_report([make_run(), make_run("fixed-bits", bits=2, seed=1)], path)
    assert written == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> _Page:
    return _Page(text)


def test_report_page_loads_no_external_resources(page: _Page) -> None:
    assert not page.all("link") and not page.all("img")
    assert all("src" not in script for script in page.all("script"))
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'") and "connect-src" not in policy


def test_plotly_is_there_once(page: _Page) -> None:
    scripts = [
        script for script, tag in zip(page.scripts, page.all("script"), strict=True) if tag.get("id") == "plotly"
    ]
    assert len(scripts) == 1 and b"plotly.js v" in gzip.decompress(base64.b64decode(scripts[0]))[:200]


def test_headline_numbers_configuration_and_the_lack_of_a_network_are_there(text: str) -> None:
    visible = text.split("<script")[0]
    numbers = ("vanilla and fixed-bits on digits", "1/10.7", "93.35 %", "10.7 ×", "2.05 MB")
    settings = ("&quot;hidden&quot;: 256", "&quot;name&quot;: &quot;float32&quot;")
    for words in (*numbers, *settings, "share one machine (loopback)"):
        assert words in visible


@each(("link", "noted"), [("100mbit emulated, 2 hosts", False), ("100mbit paced, 2 hosts", True)])
def test_report_and_every_figure_caption_name_the_link(link: str, noted: bool, tmp_path: Path) -> None:
    runs = [make_run(), make_run("fixed-bits", bits=2)]
    for run in runs:
        run.summary["link"] = link
    text = report(tmp_path, *runs)
    assert f"link: {link}" in text
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert captions and all(caption.endswith(f"Link: {link}.") for caption in captions)
    assert ("interface that was slowed down to the rate of the link (paced)" in text) == noted
    assert "share one machine (loopback)" not in text
    assert compare(runs).breakdown().figure.layout.meta["caption"].endswith(f"Link: {link}.")


def _with(config: RunConfig, folder: Path) -> str:
    """Return the visible part of the report of a run with this configuration."""
    run = dataclasses.replace(make_run(epochs=3), config=config.to_json())
    return report(folder, run).split("<script")[0]


def test_the_command_that_repeats_a_run_is_there(tmp_path: Path) -> None:
    config = configure("digits", system="adaqp", bit_widths=(2, 8), when="blocking", epochs=3)
    command = command_of(config)
    shown = f'This command repeats the run:</p><pre class="command" tabindex="0"><code>{command}'
    assert command is not None and shown in _with(config, tmp_path)


@each("change", ["a changed axis", "a part of one's own"])
def test_report_states_that_no_command_can_repeat_a_custom_system(change: str, tmp_path: Path) -> None:
    config = configure("digits", system=dataclasses.replace(fixed_bits(bits=4), schedule=Overlapped()))
    if change == "a part of one's own":
        config = configure("digits", system=dataclasses.replace(fixed_bits(bits=8), bits=EightBits()))
    visible = _with(config, tmp_path)
    assert "No command can repeat this run" in visible and "gnnqlab train" not in visible


def test_every_figure_has_its_place_its_words_and_its_numbers(page: _Page) -> None:
    drawn = json.loads(page.scripts[0])
    places = {attributes["id"]: attributes for attributes in page.all("div") if attributes.get("class") == "plot"}
    assert set(drawn["figures"]) == set(places) and len(places) == 7
    for place in places.values():
        assert place["role"] == "figure" and len(place["aria-label"] or "") > 20
    assert len(page.all("figcaption")) == len(places)
    assert set(drawn["templates"]) == {"light", "dark"}


def test_the_page_can_be_read_by_a_machine_that_reads_aloud(page: _Page, text: str) -> None:
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1 and len(page.all("h2")) == 5
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert re.search(r'name="viewport"', text) and "prefers-color-scheme: dark" in text


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    run = make_run(epochs=3)
    run.summary["graph"] = "</script><script>alert(1)</script>"
    run.config["note"] = "<b>&"
    run.summary["system"] = "</script><img src=x>"
    page = _Page(report(tmp_path, run))
    assert len(page.scripts) == 3 and not page.all("img") and not page.all("b")


def test_report_of_differing_runs_lists_the_range_of_each_setting(tmp_path: Path) -> None:
    runs = [make_run("adaqp", epochs=3), make_run("adaqp", bits=4, epochs=7, workers=3)]
    text = report(tmp_path, *runs)
    told = re.search(r'<p class="setting">(.*?)</p>', text)[1]
    assert "2 to 3 workers" in told and "3 to 7 epochs" in told
    assert len(set(re.findall(r'class="swatch" style="background:(#\w+)"', text))) == 2


def test_one_worker_one_run(tmp_path: Path) -> None:
    text = report(tmp_path, make_run(workers=1, epochs=3))
    assert "Bytes from worker to worker" not in text.split("<script")[0]


def test_a_slow_worker_is_among_the_facts_of_a_run(tmp_path: Path) -> None:
    run = make_run(workers=3, epochs=30)
    assert "Slow worker" not in report(tmp_path, run)
    is_slow = (run.records["rank"] == 2) & (run.records["epoch"] >= 15)
    run.records.loc[is_slow, "dense_s"] *= 20
    text = report(tmp_path, run)
    assert re.search(r"Slow worker.*rank 2.*times as long as the median of the others since epoch 15", text, re.DOTALL)


def test_slowest_link_between_machines_is_among_the_facts(tmp_path: Path) -> None:
    run = dataclasses.replace(take(make_run(workers=2, epochs=3)), folder=tmp_path)
    before = cards_of_run(run, 0.5)
    links = [{"machines": [0, other], "latency_s": 2e-3, "bit_per_s": 1e9 / other, "clock_s": 0.0} for other in (1, 2)]
    write_json(tmp_path / FILE, dataclasses.asdict(MachineLinks([{}, {}, {}], links, ["machine 2 is slow"])))
    assert cards_of_run(run, 0.5) == [
        *before,
        ("Slowest link", "500 Mbit/s", "between machines 0 and 2, 2 ms there and back, at the start"),
        ("Warning", "machines", "machine 2 is slow"),
    ]


def test_a_recorded_timeline_is_shown_with_its_words(tmp_path: Path) -> None:
    runs = [make_run(epochs=3), make_run("adaqp", bits=4, epochs=3), make_run("fixed-bits", bits=2, epochs=3)]
    # A worker waits for 10 ms, or for the rest of them after 4 ms of central rows; the second ends 1 ms after the
    # first.
    runs[0].timeline, runs[1].timeline = make_timeline(overlapped=False), make_timeline(overlapped=True)
    page = _Page(text := report(tmp_path, *runs))
    caption = (
        "Layer 2, forward, epoch 4, one exchange on all workers: vanilla takes 16 ms, of which a worker waits 10 ms; "
        "adaqp takes 12 ms, of which a worker waits 6 ms. Link: loopback."
    )
    assert f"<figcaption>{caption}</figcaption>" in text
    (place,) = [attributes["id"] for attributes in page.all("div") if attributes.get("aria-label") == caption]
    figure = drawn(page)[place]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["vanilla", "adaqp"], (
        "the third has no timeline"
    )


def test_runs_without_the_same_layer_get_a_figure_each(tmp_path: Path) -> None:
    runs = [make_run(epochs=3), make_run("adaqp", bits=4, epochs=3)]
    runs[0].timeline = make_timeline(overlapped=False).assign(layer=0)
    runs[1].timeline = make_timeline(overlapped=True)
    text = report(tmp_path, *runs)
    assert re.findall(r"<h3>([^<]*): computation and waits</h3>", text) == [
        "Layer 1, forward, epoch 4", "Layer 2, forward, epoch 4",
    ]  # fmt: skip


@each("what", ["nothing", "backward"])
def test_no_timeline_is_no_part_of_the_page(what: str, tmp_path: Path) -> None:
    run, recorded = make_run(epochs=3), make_timeline(overlapped=False)
    without = write_report([run], tmp_path / "without.html").read_bytes()
    run.timeline = recorded.head(0) if what == "nothing" else recorded.assign(direction="backward")
    assert write_report([run], tmp_path / "empty.html").read_bytes() == without


@each("number", [1, 2])
def test_total_and_time_to_accuracy_come_first(number: int, tmp_path: Path) -> None:
    text = report(tmp_path, *[make_run(), make_run("adaqp", bits=4)][:number])
    cards = re.findall(r"<dt>([^<]*)</dt><dd class=\"value\">", text)
    assert [card.split(",")[0].split()[0] for card in cards] == ["Total", "To", "Test", "Bytes"]
    lines = re.findall(r'<tr><th scope="row">([^<]*)</th>', text)
    assert lines[0] == "total time" and "epoch (median)" in lines


def test_maps_side_by_side_have_one_scale(tmp_path: Path) -> None:
    few = make_run("fixed-bits", bits=2, epochs=3)
    page = _Page(report(tmp_path, make_run(epochs=3), few))
    maps = heat_maps(page)
    # Two layers, two directions, 1000 rows of 64 float32 elements each.
    assert len(maps) == 2 and {each["zmax"] for each in maps} == {4 * 1000 * 64 * 4}


def test_live_figures_of_runs_have_one_scale(tmp_path: Path) -> None:
    folders = [Folder(tmp_path / name) for name in ("few", "many")]
    for folder, bits in zip(folders, (2, 8)):
        folder.write(range(4), bits=bits)
    page = _Page(report(tmp_path, *(Run(folder.path) for folder in folders)))
    maps = heat_maps(page)
    # A message in 8 bits holds 800 and 8 bytes in each direction.
    assert len(maps) == 4 and {each["zmax"] for each in maps} == {1616.0}


def test_a_run_without_an_epoch_is_in_the_table_only(tmp_path: Path) -> None:
    broken = make_run("fixed-bits", epochs=3)
    broken.records, broken.traffic = broken.records.iloc[:0], broken.traffic.iloc[:0]
    broken.summary = {"system": "fixed-bits"}
    write_report([make_run(epochs=3), broken], tmp_path / "both.html")
    alone = write_report([broken], tmp_path / "alone.html").read_text(encoding="utf-8")
    assert "No epoch was recorded" in alone


def test_an_unfinished_first_epoch_without_scores(tmp_path: Path) -> None:
    run = make_run(epochs=1)
    run.records[["train_score", "val_score", "test_score"]] = float("nan")
    write_report([run], tmp_path / "report.html")


def test_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one run, got none"):
        write_report([], tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_header_of_runs_over_seeds_has_means_and_no_run_of_one_seed(tmp_path: Path) -> None:
    runs = [make_run(system, seed=seed, epochs=20) for seed in range(3) for system in ("vanilla", "sylvie")]
    text = report(tmp_path, *runs)
    header = text[text.index("<header>") : text.index("</header>")]
    assert "<h1>vanilla and sylvie on digits</h1>" in header and "3 seeds" in header
    assert "(seed" not in header, "a card must not compare runs of different seeds"
    for title in ("Total, sylvie", "Test accuracy, sylvie", "Sent per epoch, sylvie"):
        assert title in header
    assert header.count("±") >= 3
    assert "<dt>seed</dt><dd>0, 1, 2</dd>" in header
