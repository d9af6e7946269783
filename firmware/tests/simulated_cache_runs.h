/**
 * @file
 * Runs of a program of one partition behind a write-back cache, with all calls to the cache and without one kind.
 */
#pragma once

#include "bundle_builder.h"
#include "simulated_cache.h"

/** The program's output is, byte by byte, its input and what its NPU adds: a byte of a block of `block_bytes`, `added`,
 * and how often it has run since the program was started. */
typedef struct {
    void (*start)(program_t *program); /**< writes the program, on memories that have been reset */
    size_t tensor_bytes;
    size_t blocks_at; /**< the memory from there on has blocks, of which the cache is cleaned once */
    size_t block_at;
    size_t block_bytes;
    uint8_t added;
} cached_adder_t;

/** Checks three runs, of which the second computes on the core: they are right with one call of each kind, for each run
 * or block, and wrong without the calls of any kind but `unneeded`. */
void cached_test(const cached_adder_t *adder, const cached_kind_t *kinds, size_t count, size_t unneeded);
