/**
 * @file
 * The parts of CMSIS that Arm's driver for Ethos-U needs, for images without CMSIS.
 */
#pragma once

#define __WFE() __asm__ volatile("wfe" ::: "memory")
#define __SEV() __asm__ volatile("sev" ::: "memory")
