"""Two versions of this package compared: each runs in its own Python, and reports its own measurements."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.studies.versions import versions

_OTHER = """
import json, pathlib
__version__ = "0.0.1"

class _Run:
    def __init__(self, records):
        self.records = records

    def wait(self):
        return self

def launch(graph, *, out, **settings):
    import pandas
    pathlib.Path(__file__).with_name("asked.json").write_text(json.dumps({"graph": graph, **settings}))
    seconds = [9e3, 9e3] + [2e3] * (settings["epochs"] - 2)
    epochs = [epoch for epoch in range(settings["epochs"]) for _ in range(2)]
    return _Run(pandas.DataFrame({
        "epoch": epochs, "epoch_s": [seconds[epoch] / (1 + place % 2) for place, epoch in enumerate(epochs)],
        "loss": [0.5] * len(epochs),
    }))
"""
"""Another version, whose slower worker takes two thousand seconds per epoch: more than ours on any machine."""


@pytest.fixture
def other(tmp_path: Path) -> str:
    package = tmp_path / "packages" / "gnnqlab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_OTHER)
    python = tmp_path / "python"
    # It comes before an editable installation, which is found before the search path.
    ahead = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in type(f).__module__]; "
    ahead += f"sys.path.insert(0, {str(package.parent)!r}); "
    python.write_text(f'#!/bin/sh\nshift\ncode="$1"\nshift\nexec {sys.executable} -c "{ahead}\n$code" "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_epoch_time_and_loss_are_compared_with_the_other_version(other: str, tmp_path: Path) -> None:
    epoch, loss = versions(1, other_python=other, graph="sbm:200,3,6", models=("gcn",), epochs=4)
    assert epoch["case"] == "sbm:200,3,6, gcn 3 x 256, vanilla, 1 worker(s)"
    assert epoch["rival"] == "gnnqlab 0.0.1" and epoch["rival_value"] == 2e3
    assert epoch["ratio"] == 2e3 / epoch["value"] and epoch["reached"]
    assert epoch["figure"] == f"epoch ({epoch['ratio']:.2f} to {epoch['ratio']:.2f} x)"
    assert loss["rival_value"] == 0.5 and 0 < loss["value"] < 10 and loss["ratio"] is None
    asked = (tmp_path / "packages" / "gnnqlab" / "asked.json").read_text()
    assert '"system": "vanilla"' in asked and '"workers": 1' in asked and '"hidden": 256' in asked


def test_unusable_python_model_or_epochs_raises_value_error(other: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"other_python must be the path of a Python .*/nowhere'; none is there"):
        versions(1, other_python=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="other_python must have another gnnqlab, got .* which has this one"):
        versions(1, other_python=sys.executable)
    empty = tmp_path / "empty"
    empty.write_text("#!/bin/sh\necho 'no module named gnnqlab' >&2\nexit 1\n")
    os.chmod(empty, 0o755)
    with pytest.raises(ValueError, match="must be a Python that imports gnnqlab, .*: no module named gnnqlab"):
        versions(1, other_python=str(empty))
    with pytest.raises(ValueError, match=r"models must be among \['gcn', .*got \['cnn'\]"):
        versions(1, other_python=other, models=("cnn",))
    with pytest.raises(ValueError, match="epochs must be at least 3, of which the first two do not count, got 2"):
        versions(1, other_python=other, epochs=2)
