"""Graphs in stripes of rows compute what the uncut graphs compute, bit for bit."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from tests import full

from deuteron.graph_stripes.liveness import arena_of
from deuteron.graph_stripes.rows import StripesError
from deuteron.graph_stripes.search import RUNTIME, VELA, Costs, SegmentSearch
from deuteron.graph_stripes.tflite_rows import graph_of
from deuteron.graph_stripes.tflite_writer import Cut, cut
from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel

from .networks import Network, random_network, unet

Array = npt.NDArray[np.generic]


def _run(model: FlatModel, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, model.tensors[i].shape).astype(np.int8) for i in model.inputs]
    return [np.array(value) for value in Litert(encode(model)).run(inputs)]


def _assert_same(expected: Sequence[Array], model: FlatModel) -> None:
    for before, after in zip(expected, _run(model), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("seed", full.first(range(60), 8))
def test_random_segments_heights_and_kept_rows_compute_the_same(seed: int):
    model, rng = random_network(seed), np.random.default_rng(seed)
    graph, expected, count = graph_of(model), _run(model), len(model.operators)
    done = 0
    for _ in range(6):
        first = int(rng.integers(count))
        last = int(rng.integers(first + 1, count + 1))
        segment = graph.segment(first, last)
        if segment is None:
            continue
        kept = frozenset(at for at in range(first, last) if rng.random() < rng.choice([0, 0.5, 1]))
        try:
            made = cut(model, [Cut(first, last, int(rng.integers(1, segment.count + 1)), kept)])
        except StripesError:
            continue
        _assert_same(expected, made.model)
        assert len(made.origins) == len(made.model.operators)
        done += 1
    assert done


def _layers(net: Network) -> int:
    return net.layer(net.layer(net.input, 8, 5), 8, 3, 2)


ENDS: dict[str, Callable[[Network, int], int]] = {
    "max pool with pads": lambda net, x: net.pool(x, 3, 2, "MAX", 0),
    "average pool with pads": lambda net, x: net.pool(x, 3, 1, "AVERAGE", 0),
    "transposed convolution": lambda net, x: net.transposed(x, 6, 3),
    "bilinear resize": lambda net, x: net.resize(x, 2, "BILINEAR", centres=True),
    "nearest resize": lambda net, x: net.resize(x, 4),
    "pads": lambda net, x: net.pads(x, 1, 2, 1),
    "dilation": lambda net, x: net.layer(x, 0, 3, dilation=2),
    "concatenation": lambda net, x: net.concat(net.layer(x, 5, 1), net.layer(x, 3, 1)),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("keeps", [False, True])
def test_each_kind_of_operator_is_cut(kind: str, keeps: bool):
    net = Network((1, 24, 12, 3))
    model = net.model(ENDS[kind](net, _layers(net)))
    count = len(model.operators)
    made = cut(model, [Cut(0, count, 4, frozenset(range(count) if keeps else ()))])
    assert made.stripes[0] > 1
    _assert_same(_run(model), made.model)


def test_the_arena_gets_smaller_within_the_limit():
    model = unet(16, 8)
    search = SegmentSearch(model)
    limit = int(0.75 * search.before.nbytes)
    found = search.within(limit)
    assert found is not None
    assert found.after == arena_of(found.cut.model)
    assert found.after.nbytes <= limit
    assert found.after.macs < 2 * found.before.macs
    _assert_same(_run(model), found.cut.model)


def test_the_least_arena_is_found_where_a_limit_is_too_small():
    search = SegmentSearch(unet(16, 8))
    assert search.within(512) is None
    least = search.least(512)
    assert least is not None
    assert search.within(least.after.nbytes) is not None
    assert 512 < least.after.nbytes < 0.75 * search.before.nbytes


@pytest.mark.parametrize("costs", [RUNTIME, VELA])
def test_bounds_are_below_what_stripes_need(costs: Costs):
    net = Network((1, 32, 16, 8))
    x = net.layer(net.input, 8)
    search = SegmentSearch(net.model(net.layer(net.sum(x, x), 2)), costs)
    search.single(8000)
    tried = {way: one.live for way, one in search.tried.items() if one}
    assert tried
    assert all(search.bounds[way] <= live for way, live in tried.items())


@pytest.mark.parametrize("costs", [RUNTIME, VELA])
@pytest.mark.parametrize("is_output", [False, True])
def test_views_of_a_tensor_need_its_bytes_once(is_output: bool, costs: Costs):
    net = Network((1, 32, 16, 8))
    x = net.layer(net.input, 8)
    shape = net.constant([1, 16, 32, 8], "INT32")
    views = [net.add("RESHAPE", (x, shape), (1, 16, 32, 8), "ReshapeOptions", {}, x) for _ in range(2)]
    y = net.pool(net.layer(net.layer(net.sum(*views), 16), 16))
    model = net.model(y, x) if is_output else net.model(y)
    search = SegmentSearch(model, costs)
    search.single(14_000)
    assert len([one for one in search.tried.values() if one]) > 3
    for way, bound in search.bounds.items():
        try:
            made = cut(model, [way]).model
        except StripesError:
            continue
        live = SegmentSearch(made, costs).live
        assert bound <= max(live)
        one = search.tried.get(way)
        assert one is None or one.live <= max(live)


def test_an_operator_that_needs_all_rows_ends_a_segment():
    net = Network((1, 16, 8, 3))
    model = net.model(net.head(net.layer(net.input, 8)))
    graph = graph_of(model)
    assert graph.segment(0, 1) is not None
    assert graph.segment(0, 2) is None
    with pytest.raises(StripesError, match="cannot be cut together"):
        cut(model, [Cut(0, 3, 4)])
