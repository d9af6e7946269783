"""A thin slice of `make bench-ethosu-tosa`: random TOSA graphs compared with TOSA's reference model, bit for bit."""

import harness
import numpy as np
import pytest
from benches import ethosu_tosa
from tests.npu.ethosu.loop_graph import loop
from tests.npu.ethosu.tosa_graphs import Outcome, compiled, outcome

from deuteron.npu.ethosu import blob
from deuteron.runtime.ethosu import Partition


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_random_tosa_graphs_are_what_tosa_defines(accelerator: str) -> None:
    came = [outcome(seed, accelerator) for seed in range(20, 36)]
    assert [one.different for one in came] == [0] * 16
    assert all(one.results or one.refused for one in came)
    assert sum(bool(one.results) for one in came) > 12


@pytest.mark.parametrize(
    ("came", "seed", "code"),
    [
        (Outcome(("ADD",), 10, 0), 0, 0),
        (Outcome(("ADD",), 10, 3), 0, 1),
        (Outcome(("ADD",), 10, 3), 995, 0),
        (Outcome(("ADD",), refused="Vela: no"), 0, 1),
    ],
)
def test_what_differs_is_a_problem_unless_vela_is_known_to_be_wrong(
    came: Outcome, seed: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ethosu_tosa, "outcome", lambda *_: came)
    given = ["--graphs", "1", "--first", str(seed)]
    assert harness.main(ethosu_tosa.results, *ethosu_tosa.OPTIONS, arguments=given) == code


def test_a_loop_is_what_tosa_defines() -> None:
    """As the partitions of a loop that `make bench-fuzz-ethosu` mutates; seven times 3 are added to 0..11."""
    payload = compiled(loop().data, "ethos-u85-256")
    partition = Partition(blob.parse(payload, "loop"), "loop")
    (result,) = partition.run([np.arange(12, dtype=np.int8).tobytes()])
    assert [*np.frombuffer(result, np.int8)] == [*range(21, 33)]
