#include "operations.h"
#include "registers.h"

#include <string.h>

/* What a region register says: a region of memory or the SHRAM; copies of one dimension. */
enum { REGION_BITS = 3, INTERNAL_AT = 8, DIMENSIONS_AT = 9 };

/* The bytes of a side of a copy; NULL, with the fault, when it leaves its memory. */
static uint8_t *side(dtn_ethosu_t *m, uint16_t region, uint16_t address, uint64_t length, bool is_written,
                     dtn_ethosu_fault_t *fault)
{
    uint64_t at = dtn_eu_address(m, address);
    if (dtn_eu_field(m, region, INTERNAL_AT, 1) != 0) {
        uint64_t size = m->config->shram_bytes;
        *fault = at > size || size - at < length ? dtn_eu_fault(m, DTN_ETHOSU_SHRAM, at) : DTN_ETHOSU_OK;
        return *fault == DTN_ETHOSU_OK && !m->is_check ? m->memory.shram + at : NULL;
    }
    const dtn_ethosu_region_t *memory = dtn_eu_region(m, dtn_eu_field(m, region, 0, REGION_BITS));
    if (memory == NULL) {
        *fault = DTN_ETHOSU_REGION;
        return NULL;
    }
    if (is_written && memory->is_read_only) {
        *fault = dtn_eu_fault(m, DTN_ETHOSU_READ_ONLY, dtn_eu_field(m, region, 0, REGION_BITS));
        return NULL;
    }
    *fault = at > memory->bytes || memory->bytes - at < length ? dtn_eu_fault(m, DTN_ETHOSU_BOUNDS, at) : DTN_ETHOSU_OK;
    return *fault == DTN_ETHOSU_OK && !m->is_check ? memory->data + at : NULL;
}

dtn_ethosu_fault_t dtn_eu_copy(dtn_ethosu_t *m)
{
    dtn_ethosu_fault_t fault = dtn_eu_need_shorts(m, DTN_EU_LIST(REG_DMA0_SRC_REGION, REG_DMA0_DST_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_need_longs(m, DTN_EU_LIST(REG_DMA0_SRC, REG_DMA0_DST, REG_DMA0_LEN));
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_eu_field(m, REG_DMA0_SRC_REGION, DIMENSIONS_AT, 2) != 0 ||
        dtn_eu_field(m, REG_DMA0_DST_REGION, DIMENSIONS_AT, 2) != 0) {
        return dtn_eu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_DMA0_SRC_REGION);
    }
    uint64_t length = dtn_eu_address(m, REG_DMA0_LEN);
    fault = dtn_eu_work(m, length, 1);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    const uint8_t *from = side(m, REG_DMA0_SRC_REGION, REG_DMA0_SRC, length, false, &fault);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    uint8_t *to = side(m, REG_DMA0_DST_REGION, REG_DMA0_DST, length, true, &fault);
    if (fault == DTN_ETHOSU_OK && !m->is_check) {
        memmove(to, from, (size_t)length);
    }
    return fault;
}
