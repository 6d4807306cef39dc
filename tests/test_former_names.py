"""Former names of settings: keywords, command-line options, and files of older versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab import cli
from gnnqlab.train.config.run_config import RunConfig, TrainSettings

pytestmark = pytest.mark.core
FORMER = [
    ("layer0", "once", "input_features", "cache"),
    ("keep_for_backward", "sums", "recompute", "selective"),
    ("headers", "off", "verify_messages", "off"),
]


@pytest.mark.parametrize(("former", "old", "name", "value"), FORMER)
def test_a_former_keyword_sets_the_present_one(former: str, old: str, name: str, value: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"setting {former}='{old}' is {name}='{value}' now") as seen:
        config = gq.configure("digits", **{former: old})
    assert getattr(config.train, name) == value
    assert [each.filename for each in seen] == [__file__], "the user's line, which Python shows"
    with pytest.warns(DeprecationWarning, match=former):
        assert getattr(TrainSettings(**{former: old}), name) == value


def test_a_setting_under_both_names_is_refused() -> None:
    with pytest.raises(ValueError, match="input_features must be given once, got its former name layer0 as well"):
        gq.configure("digits", layer0="once", input_features="resend")


@pytest.mark.parametrize(("former", "old", "name", "value"), FORMER)
@pytest.mark.parametrize("joined", [False, True])
def test_a_former_option_sets_the_present_one(
    former: str, old: str, name: str, value: str, joined: bool, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    option, present = f"--{former.replace('_', '-')}", f"--{name.replace('_', '-')}"
    words = [f"{option}={old}"] if joined else [option, old]
    cli.main(["train", *words, "--workers", "1", "--epochs", "1", "--print-command"])
    shown = capsys.readouterr()
    assert shown.err == f"gnnqlab: {option} is {present} now; the former name is accepted until 1.0\n"
    assert f'"{name}":"{value}"' in shown.out


def test_a_configuration_of_an_older_version_is_read(recwarn: pytest.WarningsRecorder) -> None:
    config = gq.configure("digits", system="sylvie", input_features="cache", recompute="selective", workers=1)
    stored = json.loads(json.dumps(config.to_json()))
    for former, old, name, _ in FORMER[:2]:
        del stored["train"][name]
        stored["train"][former] = old
    stored["train"]["headers"] = stored["train"].pop("verify_messages")
    for former, name in [("negatives", "num_negatives"), ("pool", "negative_pool"), ("ranked", "num_candidates")]:
        stored["task"][former] = stored["task"].pop(name)
    assert RunConfig.from_json(stored) == config
    assert len(recwarn) == 0, "files are read without a warning"


def test_a_summary_has_the_setting_under_both_names(tmp_path: Path) -> None:
    run = gq.launch("sbm:40,2,4", epochs=1, layers=2, hidden=64, input_features="cache", out=tmp_path, wait=True)
    assert (run.summary["input_features"], run.summary["layer0"]) == ("cache", "once")
