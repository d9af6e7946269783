/**
 * @file
 * The reference kernels next to the linked ones, `neutronKernels`: the driver's steps take a table as an argument.
 */
#pragma once

#include "deuteron/kernel.h"

extern const dtn_kernel_t table_ref[DTN_KERNEL_KINDS];
