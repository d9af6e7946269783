"""TFLite files of a folder on every target: taken or refused, equal to LiteRT or not, and the cost of firmware.

A row per file and target says whether Deuteron takes the file, or the first line of the error. It compares the outputs
for some seeded inputs, three unless `--samples` is given, with LiteRT's reference kernels. Where they differ, it says
whether `run --compare litert` allows the differences: those of an NPU's rounding, and of float functions. With
`--boards` an emulated board must give the host's bytes, for one input or for all of `--samples`, and the row has its
instructions, arena and code. The rows are JSON lines in the file of `--json`; a second run keeps them unless `--again`
is given. A process that exceeds the limit for a file is ended. The last table counts by kind of file, which the
folder's INDEX.tsv may name. A file that Vela has compiled already has one row, of the target of its commands: no other
processor runs these.

make bench-public-tflite ARGS=FOLDER
"""

import argparse
import csv
import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

TARGETS = ("cortex-m55", "cortex-m33", "ethos-u55-128", "imxrt700", "imxrt700cm")
BOARDS = {"cortex-m33": "an505", "imxrt700": "an505", "imxrt700cm": "an505"}
BOARD = "an547"
"""That of all other targets."""
SAMPLES = 3
PARTIAL = "partial"
"""Key of a row that is sent before LiteRT runs."""
OUTSIDE = ("model", "runner", "semihost", "port", "libc", "application", "stand_in", "padding")
"""Modules of an image that are no code of the library."""

Row = dict[str, Any]


def rows_of(
    path: Path, targets: Sequence[str], *, boards: bool, compared: bool = True, count: int = 0
) -> Iterator[Row]:
    """Yield the rows of one file; a row without an end first, as LiteRT may end the process."""
    from deuteron.errors import DeuteronError
    from deuteron.runtime.litert import Litert

    for target in targets:
        row: Row = {"target": target, "taken": False}
        start = time.monotonic()
        try:
            outputs, samples = taken(path, target, row, count or SAMPLES)
            row["seconds"] = round(time.monotonic() - start, 2)
            if boards:
                on_board(path, target, samples[: count or 1], outputs[: count or 1], row)
            if compared:
                yield row | {"litert": "LiteRT ends the process", PARTIAL: True}
                try:
                    beside(Litert(path.read_bytes()), outputs, samples, row)
                except DeuteronError as error:
                    row["litert"] = str(error).splitlines()[0]
                else:
                    if not row["equal"]:
                        within(path, target, samples, row)
        except DeuteronError as error:
            row["refusal"] = first_lines(error)
        except Exception as error:  # noqa: BLE001  # a defect is a row, too
            row["crash"] = f"{type(error).__name__}: {error}"
        yield row


def taken(path: Path, target: str, row: Row, count: int) -> tuple[list[list[Any]], list[Any]]:
    """Build the file and run it on this computer; the outputs of each sample."""
    from deuteron import api
    from deuteron.board import build_directory, image
    from deuteron.errors import DeuteronError

    subject = api.subject(path, target=target)
    samples = subject.draw(count)
    outputs = [list(y) for y in subject.run(samples)]
    row["taken"] = True
    try:
        bundle = image.bundle_of(build_directory.build_directory(path, target))
    except DeuteronError as error:  # only the host runs it
        row["board_refusal"] = first_lines(error)
    else:
        row["arena"] = sum(memory.bytes for memory in bundle.memories)
    return outputs, samples


def beside(litert: Any, outputs: list[list[Any]], samples: Sequence[Any], row: Row) -> None:
    """Count how far the outputs are from LiteRT's."""
    import numpy as np

    different, largest = 0, 0.0
    for ours, sample in zip(outputs, samples, strict=True):
        litert.reset()
        for a, b in zip(ours, litert.run(sample), strict=True):
            differs = (a.reshape(-1) != b.reshape(-1)) & ~((a != a) & (b != b)).reshape(-1)
            different += int(differs.sum())
            apart = np.abs(a.reshape(-1)[differs].astype(float) - b.reshape(-1)[differs].astype(float))
            largest = max(largest, float(apart[np.isfinite(apart)].max(initial=0)))
    row |= {"equal": different == 0, "different": different, "largest": largest}


def within(path: Path, target: str, samples: list[Any], row: Row) -> None:
    """Say whether the differences are those that `run --compare litert` allows, or the first that is not."""
    from deuteron import api

    comparison: Any = api.compare(path, samples, target=target)
    row["within"] = comparison.passed
    if not comparison.passed:
        row["broken"] = comparison.failures()[0]


def on_board(path: Path, target: str, samples: Sequence[Any], outputs: list[list[Any]], row: Row) -> None:
    """Link an image, run it in an emulator, and compare with this computer."""
    from deuteron.board import boards, build_directory, image, qemu
    from deuteron.board.firmware_record import FirmwareOptions
    from deuteron.board.toolchain import Toolchain
    from deuteron.errors import DeuteronError

    board = boards.load(BOARDS.get(target, BOARD))
    try:
        built = image.build(
            build_directory.build_directory(path, target), board, FirmwareOptions(), Toolchain.find(image.OBJECTS)
        )
        row["code"] = sum(each.text + each.rodata for each in built.record.sizes.rows if each.module not in OUTSIDE)
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch) / "firmware"
            image.write(built, directory, force=False)
            report = qemu.run(directory, built.record, board, samples)
    except DeuteronError as error:
        row["board_refusal"] = first_lines(error)
        return
    row["instructions"] = report.runs[0].instructions
    row["board_equal"] = all(
        [y.tobytes() for y in run.outputs] == [y.tobytes() for y in expected]
        for run, expected in zip(report.runs, outputs, strict=True)
    )


def first_lines(error: Exception) -> str:
    """The first two lines of an error."""
    return " | ".join(line.strip() for line in str(error).splitlines()[:2])


class Worker:
    """A process that takes one file after the other; it is replaced when it ends or takes too long."""

    def __init__(self, time_limit: float, *, boards: bool, compared: bool = True, count: int = 0) -> None:
        self._time_limit, self._options = time_limit, {"boards": boards, "compared": compared, "count": count}
        self._process: Any = None

    def rows(self, path: Path, targets: Sequence[str]) -> list[Row]:
        """Return a row for each target."""
        if self._process is None:
            self._pipe, other = CONTEXT.Pipe()
            self._process = CONTEXT.Process(target=serve, args=(other,), daemon=True)
            self._process.start()
            other.close()
        self._pipe.send((path, tuple(targets), self._options))
        rows: list[Row] = []
        begun: Row | None = None
        end = time.monotonic() + self._time_limit
        try:
            while len(rows) < len(targets):
                if not self._pipe.poll(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"took more than {self._time_limit:g} s")
                row = self._pipe.recv()
                begun = row if row.pop(PARTIAL, False) else None
                rows += [] if begun else [row]
        except (EOFError, OSError, TimeoutError) as error:
            self._process.kill()
            self._process.join()
            exitcode, self._process = self._process.exitcode, None
            if begun and not isinstance(error, TimeoutError):
                return [*rows, begun, *self.rows(path, targets[len(rows) + 1 :])]
            crash = str(error) or f"the process ended with {exitcode}"
            rows += [{"target": target, "taken": False, "crash": crash} for target in targets[len(rows) :]]
        return rows


CONTEXT = multiprocessing.get_context("spawn")


def serve(pipe: Any) -> None:
    """Send the rows of each file that comes, until the parent ends."""
    try:
        while True:
            path, targets, options = pipe.recv()
            for row in rows_of(path, targets, **options):
                pipe.send(row)
    except EOFError:
        return


def kinds(folder: Path) -> Mapping[str, str]:
    """The kind of each file that the folder's index names."""
    index = folder / "INDEX.tsv"
    if not index.is_file():
        return {}
    with index.open(encoding="utf-8") as file:
        return {row["file"]: row["kind"] for row in csv.DictReader(file, delimiter="\t")}


def compiled_for(path: Path) -> str | None:
    """The target of the commands of a file that Vela has compiled; None for other files."""
    from deuteron.errors import DeuteronError
    from deuteron.runtime.tflite_ethosu import target_of
    from deuteron.tflite.decode import decode

    try:
        return target_of(decode(path.read_bytes(), partial=True))
    except DeuteronError:  # its rows have the error
        return None


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the counts by kind and target."""
    columns = f"{'files':>6}{'taken':>7}{'equal':>7}{'within':>7}{'differ':>7}{'no LiteRT':>10}{'board':>7}{'crash':>6}"
    yield f"{'kind':<16}{'target':<16}{columns}"
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for what, holds in (
            ("files", True),
            ("taken", row["taken"]),
            ("equal", row.get("equal") is True),
            ("within", row.get("within") is True),
            ("differ", row.get("equal") is False and row.get("within") is not True),
            ("litert", "litert" in row),
            ("board", row.get("board_equal") is True),
            ("crash", "crash" in row),
        ):
            counts[row["kind"], row["target"], what] += bool(holds)
    for kind, target in sorted({(row["kind"], row["target"]) for row in rows}, key=lambda pair: (pair[1], pair[0])):
        names = ("files", "taken", "equal", "within", "differ", "litert", "board", "crash")
        files, taken, equal, close, differ, litert, board, crash = (counts[kind, target, what] for what in names)
        yield (
            f"{kind:<16}{target:<16}{files:>6}{taken:>7}{equal:>7}{close:>7}{differ:>7}{litert:>10}{board:>7}{crash:>6}"
        )


def main() -> int:
    """Make the rows that are missing and print the table; 1 where a file crashes, or a board differs from the host."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="TFLite files, with an INDEX.tsv or without")
    parser.add_argument("--targets", default=",".join(TARGETS), help="names with commas between them")
    parser.add_argument("--boards", action="store_true", help="also link images and run them in an emulator")
    parser.add_argument("--samples", type=int, default=0, help="inputs of each file, on the host and on boards")
    parser.add_argument("--only", default="", help="files whose name or kind contains this")
    parser.add_argument("--most-bytes", type=int, default=1 << 40, help="leave out larger files")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--time-limit", type=float, default=300, help="seconds for each file")
    parser.add_argument("--again", action="store_true", help="forget the rows that are there")
    parser.add_argument("--json", type=Path, default=Path("public_tflite.json"), help="the rows stand beside it")
    args = parser.parse_args()
    targets, known = args.targets.split(","), kinds(args.folder)
    store = args.json.with_suffix(".jsonl")
    if args.again:
        store.unlink(missing_ok=True)
    rows: dict[tuple[str, str], Row] = {}
    for line in store.read_text(encoding="utf-8").splitlines() if store.is_file() else ():
        row = json.loads(line)
        rows[row["sha256"], row["target"]] = row
    paths = [
        path
        for path in sorted(args.folder.glob("*.tflite"))
        if path.stat().st_size <= args.most_bytes and args.only in f"{path.name} {known.get(path.name, '')}"
    ]
    own = {path: [target] if (target := compiled_for(path)) else targets for path in paths}

    workers: Queue[Worker] = Queue()
    for _ in range(args.jobs):
        workers.put(Worker(args.time_limit, boards=args.boards, count=args.samples))

    def missing(path: Path) -> list[Row]:
        sha = digest(path)
        kind = known.get(path.name, "unknown") + ("" if own[path] is targets else ", compiled")
        wanted = [
            target
            for target in own[path]
            if (sha, target) not in rows
            or (args.boards and "code" not in rows[sha, target] and rows[sha, target]["taken"])
        ]
        if not wanted:
            return []
        worker = workers.get()
        fresh = worker.rows(path, wanted)
        workers.put(worker)
        return [{"file": path.name, "kind": kind, "sha256": sha} | row for row in fresh]

    store.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool, store.open("a", encoding="utf-8") as file:
        for fresh in pool.map(missing, paths):
            for row in fresh:
                rows[row["sha256"], row["target"]] = row
                file.write(json.dumps(row) + "\n")
                file.flush()
    wanted = {(digest(path), target) for path in paths for target in own[path]}
    listed = [row for at, row in rows.items() if at in wanted]
    print("\n".join(table(listed)))
    args.json.write_text(json.dumps(listed, indent=1), encoding="utf-8")
    return int(any("crash" in row or row.get("board_equal") is False for row in listed))


if __name__ == "__main__":
    sys.exit(main())
