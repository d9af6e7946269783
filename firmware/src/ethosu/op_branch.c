#include "operations.h"
#include "registers.h"

/* Conditions of a branch. */
enum { ALWAYS = 0, IF_TRUE = 1 };

/* Test of a branch: whether the one element that the previous operation wrote is not zero. */
enum { NO_RESULT = 0, IS_FALSE = 1, IS_TRUE = 2 };

void dtn_ethosu_note_result(dtn_ethosu_t *m)
{
    m->result = m->element_bytes > 0 ? IS_FALSE : NO_RESULT;
    for (uint32_t i = 0; !m->is_check && i < m->element_bytes; i++) {
        if (m->element[i] != 0) {
            m->result = IS_TRUE;
        }
    }
}

dtn_ethosu_fault_t dtn_ethosu_branch(dtn_ethosu_t *m, uint32_t target)
{
    uint32_t condition = m->event.param;
    if (condition > IF_TRUE) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, m->event.opcode);
    }
    if (target % 4 != 0 || target >= m->command_bytes) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_TARGET, target);
    }
    if (condition == IF_TRUE && m->result == NO_RESULT) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_BRANCH, m->event.opcode);
    }
    if (m->observer != NULL) {
        m->observer(m, NULL);
    }
    if (m->is_check) {
        m->furthest = target > m->furthest ? target : m->furthest;
        return DTN_ETHOSU_OK;
    }
    if (condition == IF_TRUE && m->result != IS_TRUE) {
        return DTN_ETHOSU_OK;
    }
    const uint64_t again = target < m->at ? (m->at - target) / 4 : 0;
    m->at = target;
    return dtn_ethosu_work(m, again, DTN_ETHOSU_WORD_WORK);
}

dtn_ethosu_fault_t dtn_ethosu_stop(dtn_ethosu_t *m)
{
    m->is_finished = true;
    return m->furthest >= m->at ? dtn_ethosu_fault(m, DTN_ETHOSU_TARGET, m->furthest) : DTN_ETHOSU_OK;
}
