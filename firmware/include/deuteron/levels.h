/**
 * @file
 * Which vector instructions the kernels of a host's library use. They are compiled for each level of the architecture,
 * and the first call takes the highest that the processor has. Results are the same at each.
 */
#ifndef DEUTERON_LEVELS_H
#define DEUTERON_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "NeutronDriver.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The name of a level; 0 is what every processor of the architecture has. NULL beyond the last. */
const char *dtn_level_name(int32_t level);

/** Whether the processor has a level. */
bool dtn_has_level(int32_t level);

/** The level in use. */
int32_t dtn_level(void);

/** Use a level from the next call of a kernel on, in all threads. False, and nothing changes, if the processor does not
 * have it. A model with panels stays at the level that they were written for. */
bool dtn_use_level(int32_t level);

/**
 * Bytes that the weights of a prepared model take as panels, the form that the kernels of the level in use multiply. 0
 * for a model or a level without any. Without panels each call of a kernel writes its own again.
 */
size_t dtn_panel_bytes(NeutronModelHandle hdl);

/**
 * Writes the panels of a prepared model and has its runs use them. The memory is at a multiple of 16 and the caller's,
 * who leaves it alone until the model is unprepared; DTN_REASON_NO_MEMORY, and nothing changes, if it is too small.
 * Must not take place during a run of the same handle (deuteron/driver.h, Concurrency), nor while `dtn_use_level` does.
 */
NeutronError dtn_use_panels(NeutronModelHandle hdl, void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_LEVELS_H */
