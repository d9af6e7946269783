"""Whether each operation of a command stream for an Arm Ethos-U is traced to operators and lines of the model.

Of the operations of each build: how many have TOSA operators, edge operators and a line; how many of them a way that
does not know the map confirms, which changes constants of one operator after another, has Vela compile again, and looks
which operation's result changes; and how many directly, without asking which neighbours read and write what.

    python benches/ethosu_map.py [MODEL...] [--target TARGET] [--every N] [--json FILE]
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ending import finish
from tests.npu.ethosu.perturb import confirmed_build

from deuteron import api
from deuteron.builds import manifest as manifests

OF_LARGE = 8
"""Of the operators that can be changed in large models, how many there are for each that is."""
LARGE = 200
"""Operations."""


def model(name: str, target: str, every: int | None, work: Path) -> dict[str, int]:
    """One model."""
    directory = work / name
    api.build_model(name, target=target, output=directory)
    partitions = manifests.read(directory).partitions
    operations = sum(len(entry.kernels) for entry in partitions)
    mapped = sum(
        any(entry.ops[op].nodes and entry.ops[op].source for op in kernel.ops)
        for entry in partitions
        for kernel in entry.kernels
    )
    step = every or (OF_LARGE if operations > LARGE else 1)
    direct, sure, _ = confirmed_build(directory, work, step)
    return {"operations": operations, "mapped": mapped, "confirmed": sure, "directly": direct, "every": step}


def main() -> int:
    """Prints the table; 1 when an operation is not mapped or not confirmed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--target", default="ethos-u55-128", help="of the builds")
    parser.add_argument(
        "--every", type=int, help="change every Nth of the operators; by default all, in large models fewer"
    )
    parser.add_argument(
        "models", nargs="*", default=[example.name for example in api.REFERENCES], help="all by default"
    )
    options = parser.parse_args()
    print(f"{'model':<24}{'operations':>11}{'mapped':>8}{'confirmed':>11}{'directly':>10}{'changed':>12}")
    rows: dict[str, dict[str, int]] = {}
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            row = rows[name] = model(name, options.target, options.every, Path(folder))
        every = f"every {row['every']}"
        numbers = f"{row['operations']:>11}{row['mapped']:>8}{row['confirmed']:>11}{row['directly']:>10}"
        print(f"{name:<24}{numbers}{every:>12}", flush=True)
    wrong = [name for name, row in rows.items() if not row["operations"] == row["mapped"] == row["confirmed"]]
    return finish(rows, [f"{name}: an operation is not mapped or not confirmed" for name in wrong], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
