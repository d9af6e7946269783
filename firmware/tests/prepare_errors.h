/**
 * @file
 * What tests of refusals share: a container prepared through the public API, and errors compared by what they mean.
 */
#pragma once

#include "../src/driver/types.h"
#include "container_builder.h"

/** The error of preparing the container, which must leave the handle alone when it refuses; a model is freed again. */
NeutronError prepare(const build_t *build);

/** Checks that `found` is the error for `reason` and `detail`; `what` says of which case. */
void check_error(NeutronError found, dtn_reason_t reason, uint32_t detail, const char *what);
