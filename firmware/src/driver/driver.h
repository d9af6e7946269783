/**
 * @file
 * What stands behind a handle.
 */
#ifndef DTN_DRIVER_H
#define DTN_DRIVER_H

#include "NeutronDriver.h"
#include "types.h"

/** The model behind a handle; NULL for a handle that is none. */
dtn_model_t *dtn_model_of(NeutronModelHandle hdl);

#endif /* DTN_DRIVER_H */
