/**
 * @file
 * The parts of CMSIS that Arm's driver for Ethos-U needs, for images without CMSIS.
 */
#ifndef DTN_CMSIS_COMPILER_H
#define DTN_CMSIS_COMPILER_H

#define __WFE() __asm__ volatile("wfe" ::: "memory")
#define __SEV() __asm__ volatile("sev" ::: "memory")

#endif /* DTN_CMSIS_COMPILER_H */
