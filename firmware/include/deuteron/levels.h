/**
 * @file
 * Which vector instructions the kernels of a host's library use. They are compiled for each level of the architecture,
 * and the first call takes the highest that the processor has. Results are the same at each.
 */
#ifndef DEUTERON_LEVELS_H
#define DEUTERON_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

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
 * have it. */
bool dtn_use_level(int32_t level);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_LEVELS_H */
