/**
 * @file
 * The model behind a handle.
 */
#pragma once

#include "NeutronDriver.h"
#include "types.h"

/** The model behind a handle; NULL for an invalid handle. */
dtn_model_t *dtn_model_of(NeutronModelHandle hdl);
