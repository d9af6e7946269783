"""A part of a suite, run by a worker: `python -m conformance.part NAME FILE REPORT`.

The file says in JSON which suite it is of and which tests it has; the report gets a line per result.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from deuteron.sweeps.campaign import PYTHON, REPORT, CampaignCommand

from .backends import BACKENDS, HERE
from .suite import Job, Suite


def part_of(suite: Suite, name: str, jobs: Sequence[Job]) -> CampaignCommand:
    """The command that runs these tests; what it needs is written below the suite's work."""
    file = suite.work / "parts" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    described = {
        "backend": suite.backend.name,
        "root": str(suite.root),
        "runner": str(suite.runner),
        "tosa": suite.tosa,
        "jobs": [asdict(job) for job in jobs],
    }
    file.write_text(json.dumps(described), encoding="utf-8")
    return CampaignCommand(name, (PYTHON, "-m", "conformance.part", name, str(file), REPORT), HERE.parent)


def main(name: str, file: str, report: str) -> None:
    """Run the tests of a part."""
    described = json.loads(Path(file).read_text(encoding="utf-8"))
    backend = BACKENDS[described["backend"]]
    root, runner = Path(described["root"]), Path(described["runner"])
    suite = Suite(backend, root, runner, backend.directory, tosa=described["tosa"])
    with Path(report).open("w", encoding="utf-8") as lines:
        results = suite.run(name, [Job(**job) for job in described["jobs"]])
        lines.writelines(json.dumps(asdict(result)) + "\n" for result in results)


if __name__ == "__main__":
    main(*sys.argv[1:])
