"""The reviewed list of tests that do not run, or not as they stand."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from deuteron.errors import InputError

FILE = Path(__file__).resolve().parent / "deviations.toml"


class Reason(StrEnum):
    """Why a test deviates."""

    NETWORK = "network"
    """Needs files from the network or a git checkout of ExecuTorch; not run."""
    VENDOR_DEFECT = "vendor-defect"
    """Expects to fail for a defect of the vendor's SDK; run without that mark, so it has to pass."""
    VENDOR_LOWERING = "vendor-lowering"
    """Asserts exactly which kernels the vendor's converter chooses; not run."""
    EXPECTED = "expected"
    """Expects to fail and does, in torch, before a converter is asked; run with that mark, and has to fail there."""
    OTHER = "other"
    """Another reason that a reviewer accepted; not run."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One entry: `tests` is a pattern over test ids that has to match exactly `count` of them."""

    tests: str
    count: int
    reason: Reason
    why: str

    @property
    def runs(self) -> bool:
        """Whether its tests run all the same."""
        return self.reason in (Reason.VENDOR_DEFECT, Reason.EXPECTED)

    @property
    def lifts(self) -> bool:
        """Whether its tests run without their expected-failure mark."""
        return self.reason is Reason.VENDOR_DEFECT

    @property
    def good(self) -> tuple[str, ...]:
        """The outcomes that its tests have to have."""
        return ("xfailed",) if self.reason is Reason.EXPECTED else ("passed", "skipped")

    def matches(self, test: str) -> bool:
        """Whether the pattern names this test; brackets are plain characters, since ids are full of them."""
        return fnmatchcase(test, self.tests.replace("[", "[[]"))


def load(path: Path = FILE) -> tuple[Deviation, ...]:
    """The entries of the file."""
    with path.open("rb") as file:
        rows = tomllib.load(file)["deviation"]
    for row in rows:
        if row["reason"] not in list(Reason):
            raise InputError(
                f"unknown reason `{row['reason']}` of `{row['tests']}`",
                hint=f"reasons are {', '.join(Reason)}",
                where=str(path),
            )
    return tuple(Deviation(row["tests"], row["count"], Reason(row["reason"]), row["why"]) for row in rows)


def assign(tests: Iterable[str], deviations: Sequence[Deviation]) -> dict[str, Deviation]:
    """The deviation of each test that has one; InputError when an entry matches more or fewer tests than it says."""
    found: dict[str, Deviation] = {}
    counts = dict.fromkeys(deviations, 0)
    for test in tests:
        for deviation in deviations:
            if not deviation.matches(test):
                continue
            if test in found:
                raise InputError(f"test `{test}` is named by two deviations", where=str(FILE))
            found[test] = deviation
            counts[deviation] += 1
    for deviation, count in counts.items():
        if count != deviation.count:
            raise InputError(
                f"`{deviation.tests}` matches {count} tests, and the file says {deviation.count}",
                hint="look at what changed in the suite, then correct the entry",
                where=str(FILE),
            )
    return found
