"""``make mutants``: plant every fault, show progress and time, and list the faults that no test notices."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.mutants.fault import Fault
from tests.mutants.planted import FAULTS
from tests.mutants.planting import Outcome, failing, plant_all


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    faults = [fault for fault in FAULTS if not options.names or any(part in fault.name for part in options.names)]
    if not faults:
        print(f"no fault is called {' or '.join(options.names)}", file=sys.stderr)
        return 2
    if not options.faults_only:
        print(f"running {len({fault.test for fault in faults})} tests without a fault", file=sys.stderr, flush=True)
        broken = failing([fault.test for fault in faults])
        if broken:
            print("these tests fail as the package is:", *broken, sep="\n  ")
            return 1
    outcomes = list(_told(faults, options.at_once))
    wrong = [outcome for outcome in outcomes if not outcome.noticed]
    for outcome in wrong:
        print(f"NOT NOTICED {outcome}; it means: {outcome.fault.why}; its test: tests/{outcome.fault.test}")
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} planted faults noticed", flush=True)
    return int(bool(wrong))


def _told(faults: Sequence[Fault], at_once: int | None) -> Sequence[Outcome]:
    begun, outcomes = time.monotonic(), []
    for outcome in plant_all(faults, at_once=at_once):
        outcomes.append(outcome)
        left_s = (time.monotonic() - begun) / len(outcomes) * (len(faults) - len(outcomes))
        print(
            f"{len(outcomes)} of {len(faults)}: {outcome}, {outcome.seconds:.1f} s; about {left_s:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
    return outcomes


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of faults; all without one")
    parser.add_argument("--at-once", type=int, default=None, help="faults planted at the same time; one a processor")
    parser.add_argument("--faults-only", action="store_true", help="leave out the tests without a fault")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
