/**
 * @file
 * Vector instruction sets of a host library's kernels. They are compiled for each level of the architecture, and the
 * first call selects the highest that the processor has. Results are the same at each level.
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

/** The name of a level; every processor of the architecture has level 0. NULL after the last. */
const char *dtn_level_name(int32_t level);

/** Returns true if the processor has a level. */
bool dtn_has_level(int32_t level);

/** The level in use. */
int32_t dtn_level(void);

/** Uses a level from the next call of a kernel on, in all threads. Returns false and changes nothing if the processor
 * does not have it. A model with panels stays at their level. */
bool dtn_use_level(int32_t level);

/**
 * Bytes of a prepared model's panels, its weights repacked for the kernels of the current level. 0 for a model or a
 * level without panels. Without panels each kernel call repacks its weights.
 */
size_t dtn_panel_bytes(NeutronModelHandle hdl);

/**
 * Writes the panels of a prepared model, which its runs then use. The caller owns the memory, at a multiple of 16, and
 * must not change it until the model is unprepared. Returns DTN_REASON_NO_MEMORY and changes nothing if it is too
 * small. Must not be called during a run of the same handle (deuteron/driver.h, Concurrency), nor during
 * `dtn_use_level`.
 */
NeutronError dtn_use_panels(NeutronModelHandle hdl, void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_LEVELS_H */
