"""Settings in which runs differ: found by path, told by short names, those that vary together as one."""

from gnnqlab.lab.training.sweep import ABSENT, differing, settings_of
from gnnqlab.train.config.configure import configure


def of(system: str, **given: object) -> dict[str, object]:
    return settings_of(configure("digits", system=system, **given).to_json())


def test_the_seed_and_how_it_was_started_are_no_settings() -> None:
    one, other = of("vanilla", workers=2, seed=1), of("vanilla", workers=2, seed=2, detach=True)
    assert one == other and "train.epochs" in one and not any(path.startswith("recipe") for path in one)
    assert differing([one, other]) == []


def test_a_systems_parts_are_told_with_it_and_its_own_setting_apart() -> None:
    runs = [of("vanilla"), of("fixed-bits", bits=1), of("fixed-bits", bits=8), of("adaqp", lam=0.9)]
    found = {one.name: one for one in differing(runs)}
    assert list(found) == ["system", "bits"]
    assert {"codec", "schedule", "lam"} <= set(found["system"].along), "adaqp alone has them, with one value"
    assert found["bits"].words == ["1", "8", "32", ABSENT] and found["bits"].places == [2, 0, 1, 3]
    two = [*runs, of("adaqp", lam=0.1)]
    assert [one.name for one in differing(two)] == ["system", "bits", "lam"]


def test_what_no_run_tells_apart_is_one_setting() -> None:
    runs = [of("vanilla", hidden=16, lr=0.1), of("vanilla", hidden=64, lr=0.01), of("vanilla", hidden=16, lr=0.1)]
    (only,) = differing(runs)
    assert (only.name, only.along, only.levels) == ("hidden", ("lr",), [16, 64])


def test_numbers_stand_by_size_and_names_that_meet_are_longer() -> None:
    runs = [{"a.size": value, "b.size": other} for value, other in ((16, "x"), (8, "y"), (128, "y"))]
    one, other = differing(runs)
    assert (one.name, one.levels) == ("a.size", [8, 16, 128]) and (other.name, other.words) == ("b.size", ["x", "y"])
