"""The reviewed list of tests that do not run, or not as they stand."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from deuteron.errors import InputError


class Reason(StrEnum):
    """Why a test deviates."""

    NETWORK = "network"
    """Needs files from the network, a checkout of ExecuTorch, or a package that its tests are not given; not run."""
    VENDOR_DEFECT = "vendor-defect"
    """Expects to fail for a defect of the vendor's SDK; run without that mark, so it has to pass."""
    RUNNER = "runner"
    """Expects to fail for an operator that upstream's runner lacks; run without that mark, so it has to pass."""
    VENDOR_LOWERING = "vendor-lowering"
    """Asserts exactly which kernels the vendor's converter chooses; not run."""
    EXPECTED = "expected"
    """Fails as the suite itself expects; run with that mark, and has to fail."""
    FAILS = "fails"
    """Fails for a reason that a reviewer accepted; run, and has to fail."""
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
        """True if its tests run."""
        return self.lifts or self.fails or self.reason is Reason.EXPECTED

    @property
    def lifts(self) -> bool:
        """True if its tests run without their expected-failure mark."""
        return self.reason in (Reason.VENDOR_DEFECT, Reason.RUNNER)

    @property
    def fails(self) -> bool:
        """True if its tests have to fail."""
        return self.reason is Reason.FAILS

    @property
    def good(self) -> tuple[str, ...]:
        """The outcomes that its tests have to have."""
        match self.reason:
            case Reason.EXPECTED:
                return ("xfailed",)
            case Reason.FAILS:
                return ("failed",)
            case _:
                return ("passed", "skipped")

    def matches(self, test: str) -> bool:
        """Return True if the pattern names this test; brackets are plain characters, since ids are full of them."""
        return fnmatchcase(test, self.tests.replace("[", "[[]"))


def load(path: Path) -> tuple[Deviation, ...]:
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


def assign(tests: Iterable[str], deviations: Sequence[Deviation], path: Path) -> dict[str, Deviation]:
    """The deviation of each test that has one; InputError when an entry of `path` matches not as many as it says."""
    found: dict[str, Deviation] = {}
    counts = dict.fromkeys(deviations, 0)
    for test in tests:
        for deviation in deviations:
            if not deviation.matches(test):
                continue
            if test in found:
                raise InputError(f"test `{test}` is named by two deviations", where=str(path))
            found[test] = deviation
            counts[deviation] += 1
    for deviation, count in counts.items():
        if count != deviation.count:
            raise InputError(
                f"`{deviation.tests}` matches {count} tests, and the file says {deviation.count}",
                hint="look at what changed in the suite, then correct the entry",
                where=str(path),
            )
    return found
