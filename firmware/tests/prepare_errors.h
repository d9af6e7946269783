/**
 * @file
 * The error of a container that is prepared through the public API, and its comparison with a reason.
 */
#pragma once

#include "../src/driver/types.h"
#include "container_builder.h"

/** The error of preparing the container, which must leave the handle alone when it refuses; a model is freed again. */
NeutronError prepare(const build_t *build);

/** Checks that `found` is the error for `reason` and `detail`; `what` names the case. */
void check_error(NeutronError found, dtn_reason_t reason, uint32_t detail, const char *what);
