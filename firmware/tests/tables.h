/**
 * @file
 * Both sets of kernels at once, for tests that compare them: the driver's steps take a table as an argument.
 */
#ifndef DTN_TABLES_H
#define DTN_TABLES_H

#include "deuteron/kernel.h"

extern const dtn_kernel_t table_ref[DTN_KERNEL_KINDS];
extern const dtn_kernel_t table_fast[DTN_KERNEL_KINDS];

#endif /* DTN_TABLES_H */
