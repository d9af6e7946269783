#include "operations.h"
#include "stage.h"

/* Conditions of a branch. */
enum { ALWAYS = 0, IF_TRUE = 1 };

/* What a branch asks for: whether the one element that the operation before wrote is not zero. */
enum { NO_RESULT = 0, IS_FALSE = 1, IS_TRUE = 2 };

/* Ends streams that would run for ever without an operation whose work counts. */
#define MOST_RETURNS (UINT32_C(1) << 20)

static bool has_one_element(const dtn_ethosu_t *m)
{
    return dtn_eu_count(m, REG_OFM_HEIGHT_M1) == 1 && dtn_eu_count(m, REG_OFM_WIDTH_M1) == 1 &&
           dtn_eu_count(m, REG_OFM_DEPTH_M1) == 1;
}

void dtn_eu_note_result(dtn_ethosu_t *m)
{
    dtn_eu_map_t out;
    m->result = NO_RESULT;
    if (!has_one_element(m) || dtn_eu_storage(m, &dtn_eu_ofm_registers) != DTN_EU_TILES_2X2 ||
        dtn_eu_map_in_region(m, &dtn_eu_ofm_registers, 1, 1, 1, true, &out) != DTN_ETHOSU_OK) {
        return;
    }
    m->result = IS_FALSE;
    if (!m->is_check) {
        const uint8_t *element = dtn_eu_pixel(&out, 0, 0);
        for (uint32_t i = 0; i < out.bytes; i++) {
            if (element[i] != 0) {
                m->result = IS_TRUE;
            }
        }
    }
}

dtn_ethosu_fault_t dtn_eu_branch(dtn_ethosu_t *m, uint32_t target)
{
    uint32_t condition = m->event.param;
    if (condition > IF_TRUE) {
        return dtn_eu_fault(m, DTN_ETHOSU_FIELD, m->event.opcode);
    }
    if (target % 4 != 0 || target >= m->command_bytes) {
        return dtn_eu_fault(m, DTN_ETHOSU_TARGET, target);
    }
    if (condition == IF_TRUE && m->result == NO_RESULT) {
        return dtn_eu_fault(m, DTN_ETHOSU_BRANCH, m->event.opcode);
    }
    if (m->observer != NULL) {
        m->observer(m, NULL);
    }
    if (m->is_check || (condition == IF_TRUE && m->result != IS_TRUE)) {
        return DTN_ETHOSU_OK;
    }
    m->returns += target < m->at ? 1U : 0U;
    m->at = target;
    return m->returns <= MOST_RETURNS ? DTN_ETHOSU_OK : dtn_eu_fault(m, DTN_ETHOSU_LOOP, target);
}
