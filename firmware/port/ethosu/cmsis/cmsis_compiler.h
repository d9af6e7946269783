/**
 * @file
 * What Arm's driver for Ethos-U takes of CMSIS, for images that are linked without it.
 */
#ifndef DTN_CMSIS_COMPILER_H
#define DTN_CMSIS_COMPILER_H

#define __WFE() __asm__ volatile("wfe" ::: "memory")
#define __SEV() __asm__ volatile("sev" ::: "memory")

#endif /* DTN_CMSIS_COMPILER_H */
