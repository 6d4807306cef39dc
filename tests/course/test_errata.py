"""Every difference is listed, and says whether its effect was computed."""

from __future__ import annotations

from gnnqlab.course.errata import ERRATA, errata
from gnnqlab.course.experiments.errata_measured import MEASUREMENTS

LISTED = (
    *(f"AQ-{number}" for number in range(1, 23)),
    *(f"SY-{number}" for number in range(1, 7)),
    "CD-1", "CD-2", "CD-3", "CD-4", "CD-5", "CD-6", "CD-7",
    "TG-1", "TG-2", "TG-3", "TG-4", "TG-5", "TG-6", "SA-1", "SA-2", "SA-3", "SA-4", "BN-1", "BN-2", "PI-1", "PI-2",
)  # fmt: skip


def test_every_known_difference_is_listed_once():
    names = [entry.id for entry in ERRATA]
    assert len(names) == len(set(names))
    assert set(LISTED) <= set(names)
    assert set(MEASUREMENTS) <= set(names)


def test_frame_says_what_was_measured():
    quick = errata(measure=False)
    assert not quick["measured"].any() and (quick["effect"] == "not measured").all()
    full = errata()
    assert full.index.tolist() == quick.index.tolist()
    assert set(full.index[full["measured"]]) == set(MEASUREMENTS)
    assert all(any(letter.isdigit() for letter in text) for text in full.loc[full["measured"], "effect"])
