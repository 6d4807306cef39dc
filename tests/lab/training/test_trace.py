"""The timeline for other viewers: events in their format, nested, and with the seconds of the records."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gnnqlab import cli
from gnnqlab.run.run import Run
from tests.lab.synthetic_folder import PHASE_S, Folder

EPOCHS = (2, 4)


def recorded(place: Path) -> Run:
    """Make a finished run of two workers whose phases take as long in the timeline as in the records."""
    folder = Folder(place)
    folder.write(range(5))
    folder.state("finished")
    for rank in range(2):
        one, lines = PHASE_S * (rank + 1) / 2, []
        for epoch in EPOCHS:
            now, spans = 100.0 * epoch, []
            for layer in range(2):
                posted = now + one
                for what, seconds in (
                    ("encode", one), ("post", one / 4), ("central", one), ("wait", one * 3 / 4), ("decode", one),
                    ("marginal", one),
                ):  # fmt: skip
                    spans.append([layer, "forward", what, -1, now, now + seconds, 0])
                    now += seconds
                # The transfer takes so long that the next layer's begins before it ends.
                spans.append([layer, "forward", "transfer", 1 - rank, posted, posted + 0.030, 0])
            lines.append(json.dumps({"epoch": epoch, "rank": rank, "clock": "here", "spans": spans}))
        (folder.path / f"timeline-rank{rank}.jsonl").write_text("\n".join(lines) + "\n")
    return Run(folder.path)


def slices(events: list[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X" and all(event[key] == at for key, at in where.items())]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return recorded(tmp_path_factory.mktemp("trace"))


@pytest.fixture(scope="module")
def events(run: Run) -> list[dict[str, Any]]:
    path = run.export_trace()
    assert path == run.folder / "trace.json"
    trace = json.loads(path.read_text())
    assert trace["displayTimeUnit"] == "ms" and trace["otherData"]["system"] == "vanilla"
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found


def test_events_are_as_viewers_define_them(events: list[dict[str, Any]]) -> None:
    for event in events:
        assert event["ph"] in ("M", "X", "s", "f") and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and event["args"]["epoch"] in EPOCHS
        if event["ph"] == "X" and event["cat"] == "part":
            assert {"layer", "direction", "epoch", "round"} <= set(event["args"])
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    words = ["schedule", "computing", "messages", "wire", "wire (2)"]
    assert names == {(rank, thread): words[thread - 1] for rank in (0, 1) for thread in range(1, 6)}
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert processes == ["worker 0", "worker 1"]


def test_slices_of_a_thread_nest(events: list[dict[str, Any]]) -> None:
    threads = defaultdict(list)
    for event in slices(events):
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        for number, (start, end) in enumerate(spans):
            for other, until in spans[number + 1 :]:
                apart = other >= end - 0.01 or until <= start + 0.01
                assert apart or (start - 0.01 <= other and until <= end + 0.01), "disjoint, or one inside the other"
    turns = [event["name"] for event in slices(events, pid=0, cat="turn")]
    assert turns == ["layer 1 forward", "layer 2 forward"] * len(EPOCHS)


def test_phases_take_as_long_as_in_the_records(run: Run, events: list[dict[str, Any]]) -> None:
    seconds: dict[tuple[int, int, str], float] = defaultdict(float)
    for event in slices(events, cat="part"):
        name = {"post": "wait"}.get(event["name"], event["name"])
        seconds[event["args"]["epoch"], event["pid"], name] += event["dur"] / 1e6
    records = run.records.set_index(["epoch", "rank"])
    for (epoch, rank, name), found in seconds.items():
        if name != "transfer":
            assert found == pytest.approx(records.loc[(epoch, rank), f"{name}_s"], rel=1e-6), (epoch, rank, name)
    assert {name for _, _, name in seconds} == {"encode", "wait", "central", "decode", "marginal", "transfer"}
    for whole in slices(events, cat="epoch"):
        record = records.loc[(whole["args"]["epoch"], whole["pid"])]
        assert whole["args"]["dense_s"] == record["dense_s"] and whole["args"]["loss"] == record["loss"]


def test_arrows_lead_from_a_post_to_the_bytes_under_way(events: list[dict[str, Any]]) -> None:
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) == len(ends) == len(slices(events, name="transfer")) == 2 * 2 * len(EPOCHS)
    for number, start in starts.items():
        end = ends[number]
        assert start["pid"] == 1 - end["pid"] and start["ts"] <= end["ts"] and end["bp"] == "e"
        (post,) = [one for one in slices(events, name="post", pid=start["pid"]) if one["ts"] == start["ts"]]
        (here,) = [
            one
            for one in slices(events, name="transfer", pid=end["pid"], tid=end["tid"])
            if one["ts"] <= end["ts"] < one["ts"] + one["dur"]
        ]
        assert post["args"] | {"sender": post["pid"]} == here["args"]


def test_export_trace_writes_one_epoch_and_rejects_invalid_requests(run: Run, tmp_path: Path) -> None:
    path = run.export_trace(tmp_path / "new" / "one.json", epoch=4)
    found = json.loads(path.read_text())["traceEvents"]
    assert {event["args"]["epoch"] for event in slices(found)} == {4} and min(e["ts"] for e in slices(found)) == 0
    with pytest.raises(ValueError, match=r"must end in \.json, got 'one\.html'"):
        run.export_trace(tmp_path / "one.html")
    with pytest.raises(ValueError, match=r"one that was recorded, \[2, 4\], got 3"):
        run.export_trace(epoch=3)
    empty = Folder(tmp_path / "empty")
    empty.write(range(2))
    with pytest.raises(ValueError, match="must be recorded to be shown, got none; launch with timeline_every=5"):
        Run(empty.path).export_trace()


def test_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(run.folder.parent)
    cli.main(["export-trace", run.id, "--out", out, "--epoch", "2", "--json"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result == {
        "path": str(run.folder / "trace.json"),
        "epoch": 2,
        "critical_path_ms": run.critical_path(epoch=2).milliseconds,
    }
    with pytest.raises(SystemExit):
        cli.main(["export-trace", "20260101-000000-ran", "--out", out])
    assert f"a run must exist, got '20260101-000000-ran'; did you mean {run.id}" in capsys.readouterr().err
