/**
 * @file
 * The model behind a handle.
 */
#ifndef DTN_DRIVER_H
#define DTN_DRIVER_H

#include "NeutronDriver.h"
#include "types.h"

/** The model behind a handle; NULL for an invalid handle. */
dtn_model_t *dtn_model_of(NeutronModelHandle hdl);

#endif /* DTN_DRIVER_H */
