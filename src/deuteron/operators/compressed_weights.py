"""Weights without loss in fewer bytes, as the operator `decompress` reads them: a palette, or a Huffman code."""

import heapq
from itertools import count

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import HUFFMAN, PALETTE, DecompressParams

Bytes = npt.NDArray[np.uint8]

PALETTE_SIZE, SYMBOLS, LONGEST = 16, 256, 15
"""The values of a palette, the bytes that a code may have, and the bits of its longest word."""


def compressed(data: bytes) -> tuple[DecompressParams, bytes]:
    """Return the shorter form of some bytes; it may be longer than they are."""
    forms = [(DecompressParams(HUFFMAN), huffman(np.frombuffer(data, np.uint8)))]
    if len(set(data)) <= PALETTE_SIZE:
        forms.append((DecompressParams(PALETTE), palette(np.frombuffer(data, np.uint8))))
    return min(forms, key=lambda form: len(form[1]))


def palette(data: Bytes) -> bytes:
    """Return the values of bytes of at most 16 values, and an index of four bits for each byte, even ones first."""
    values, indices = np.unique(data, return_inverse=True)
    whole = np.zeros(len(data) + len(data) % 2, np.uint8)
    whole[: len(data)] = indices
    palette = np.zeros(PALETTE_SIZE, np.uint8)
    palette[: len(values)] = values
    return palette.tobytes() + (whole[::2] | whole[1::2] << 4).tobytes()


def huffman(data: Bytes) -> bytes:
    """Return the lengths of the code of each byte, four bits each, and the codes of all bytes, first bits first."""
    lengths = code_lengths(np.bincount(data, minlength=SYMBOLS).tolist())
    codes = _canonical(lengths)
    own, words = np.array(lengths)[data], np.array(codes)[data]
    starts = np.cumsum(own) - own
    bits = np.zeros(int(own.sum()), np.uint8)
    for at in range(LONGEST):
        has = own > at
        bits[starts[has] + at] = words[has] >> (own[has] - 1 - at) & 1
    pairs = np.array(lengths, np.uint8)
    return (pairs[::2] | pairs[1::2] << 4).tobytes() + np.packbits(bits).tobytes()


def code_lengths(counts: list[int]) -> list[int]:
    """Return the bits of the code of each symbol, 0 for one that does not occur; at least two symbols have a code.

    Where a code has more than 15 bits, rare symbols are counted as more frequent until none has.
    """
    used = [symbol for symbol, number in enumerate(counts) if number]
    used += [symbol for symbol in (0, 1) if symbol not in used][: max(0, 2 - len(used))]
    weights = {symbol: max(1, counts[symbol]) for symbol in used}
    while True:
        lengths = _lengths(weights)
        if max(lengths.values()) <= LONGEST:
            return [lengths.get(symbol, 0) for symbol in range(len(counts))]
        weights = {symbol: (weight + 1) // 2 for symbol, weight in weights.items()}


def _lengths(weights: dict[int, int]) -> dict[int, int]:
    """Return the depth of each symbol in the tree of Huffman's algorithm (1952)."""
    order = count()
    trees = [(weight, next(order), {symbol: 0}) for symbol, weight in weights.items()]
    heapq.heapify(trees)
    while len(trees) > 1:
        (one, _, left), (other, _, right) = heapq.heappop(trees), heapq.heappop(trees)
        deeper = {symbol: depth + 1 for symbol, depth in (*left.items(), *right.items())}
        heapq.heappush(trees, (one + other, next(order), deeper))
    return trees[0][2]


def _canonical(lengths: list[int]) -> list[int]:
    """Return the code of each symbol: those of one length count up, and continue the shorter ones."""
    codes, code, before = [0] * len(lengths), 0, 0
    for symbol in sorted((s for s, bits in enumerate(lengths) if bits), key=lambda s: (lengths[s], s)):
        code <<= lengths[symbol] - before
        codes[symbol], before = code, lengths[symbol]
        code += 1
    return codes
