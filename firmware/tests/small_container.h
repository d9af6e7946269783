/**
 * @file
 * A container with one command of each kind, for tests that change it.
 */
#pragma once

#include "container_builder.h"

/** Where the words of its blocks are: the tables of its sizes, its commands, and the `end`. */
enum {
    AT_TABLES = 20,
    AT_FETCH = 24,
    AT_WAIT = AT_FETCH + 5,
    AT_LUT = AT_WAIT + 2,
    AT_FILL = AT_LUT + 13,
    AT_END = AT_FILL + 8
};

/** Starts it: fetch, wait, lut (input to scratch), fill (output); the lut's table is in the weights. */
void small_container(build_t *build);
