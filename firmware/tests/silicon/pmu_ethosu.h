/**
 * @file
 * The functions for counters in Arm's driver that a port calls; a test replaces them.
 */
#pragma once

#include <stdint.h>

struct ethosu_driver;

#define ETHOSU_PMU_CCNT_Msk (1UL << 31)

enum ethosu_pmu_event_type { ETHOSU_PMU_NPU_ACTIVE = 5, ETHOSU_PMU_MAC_ACTIVE = 6 };

void ETHOSU_PMU_Enable(struct ethosu_driver *drv);
void ETHOSU_PMU_Disable(struct ethosu_driver *drv);
void ETHOSU_PMU_Set_EVTYPER(struct ethosu_driver *drv, uint32_t num, enum ethosu_pmu_event_type type);
void ETHOSU_PMU_CYCCNT_Reset(struct ethosu_driver *drv);
void ETHOSU_PMU_EVCNTR_ALL_Reset(struct ethosu_driver *drv);
void ETHOSU_PMU_CNTR_Enable(struct ethosu_driver *drv, uint32_t mask);
void ETHOSU_PMU_CNTR_Disable(struct ethosu_driver *drv, uint32_t mask);
uint64_t ETHOSU_PMU_Get_CCNTR(struct ethosu_driver *drv);
uint32_t ETHOSU_PMU_Get_EVCNTR(struct ethosu_driver *drv, uint32_t num);
