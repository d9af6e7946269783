/**
 * @file
 * Random valid kernel calls over awkward shapes, for the comparison of kernels and as seeds of the fuzzer.
 */
#pragma once

#include "container_builder.h"

/** Appends to `build` a random call of `kind` from a new model input to a new output. */
void random_call(build_t *build, uint32_t kind, uint64_t *state);
