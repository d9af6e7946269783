#include "accesses.h"
#include "chain_buffers.h"
#include "operations.h"

#include <string.h>

/* Configuration words: product, SHRAM and MACs; of an Ethos-U85 also log2 of its ports and weight decoders.
 */
enum { U55 = DTN_ETHOSU_U55, U65 = DTN_ETHOSU_U65 };
#define WORD(product, log2_macs, shram_kib) ((uint32_t)(product) << 28 | (uint32_t)(shram_kib) << 8 | (log2_macs))

#define WORD_85(log2_macs, log2_sram_ports, log2_ports, log2_decoders)                                                 \
    ((uint32_t)DTN_ETHOSU_U85 << 28 | (uint32_t)(log2_decoders) << 12 | (uint32_t)(log2_ports) << 10 |                 \
     (uint32_t)(log2_sram_ports) << 8 | 1U << 4 | (log2_macs))

static const dtn_ethosu_config_t configs[] = {
    {"ethos-u55-32", WORD(U55, 5, 16), 32, 1, 4, 16 * 1024},
    {"ethos-u55-64", WORD(U55, 6, 16), 64, 1, 8, 16 * 1024},
    {"ethos-u55-128", WORD(U55, 7, 24), 128, 1, 8, 24 * 1024},
    {"ethos-u55-256", WORD(U55, 8, 48), 256, 1, 8, 48 * 1024},
    {"ethos-u65-256", WORD(U65, 8, 48), 256, 1, 8, 48 * 1024},
    {"ethos-u65-512", WORD(U65, 9, 96), 512, 2, 8, 48 * 1024},
    {"ethos-u85-128", WORD_85(7, 1, 0, 0), 128, 1, 16, 2048},
    {"ethos-u85-256", WORD_85(8, 1, 0, 0), 256, 1, 32, 2048},
    {"ethos-u85-512", WORD_85(9, 1, 0, 1), 512, 2, 64, 2048},
    {"ethos-u85-1024", WORD_85(10, 1, 1, 2), 1024, 4, 128, 2048},
    {"ethos-u85-2048", WORD_85(11, 2, 1, 2), 2048, 4, 256, 2048},
};

/* Actions in the command data. */
enum { ACTION_CONFIG = 1, ACTION_COMMANDS = 2, ACTION_NOP = 5 };
#define MAGIC UINT32_C(0x31504F43)

/* Commands other than registers and operations. */
enum { OP_IRQ = 0x001, OP_DMA_WAIT = 0x011, OP_KERNEL_WAIT = 0x012, OP_PMU_MASK = 0x013, OP_BRANCH = 0x100 };

/* The first and last opcode of compute operations. */
enum { FIRST_OPERATION = DTN_ETHOSU_OP_CONV, LAST_OPERATION = DTN_ETHOSU_OP_RESIZE };

/* Fields of a command. */
enum { OPCODE_MASK = 0x3FF, WORDS_AT = 14, WORDS_MASK = 3, PARAM_AT = 16, ALIGNMENT = 16 };

const dtn_ethosu_config_t *dtn_ethosu_config_at(size_t index)
{
    return index < sizeof configs / sizeof configs[0] ? &configs[index] : NULL;
}

size_t dtn_ethosu_machine_bytes(void)
{
    return sizeof(dtn_ethosu_t);
}

const dtn_ethosu_config_t *dtn_ethosu_config(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof configs / sizeof configs[0]; i++) {
        if (strcmp(configs[i].name, name) == 0) {
            return &configs[i];
        }
    }
    return NULL;
}

const char *dtn_ethosu_message(dtn_ethosu_fault_t fault)
{
    switch (fault) {
#define X(number, name, sentence)                                                                                      \
    case DTN_ETHOSU_##name:                                                                                            \
        return sentence;
        DTN_ETHOSU_FAULTS(X)
#undef X
    default:
        return "no fault";
    }
}

static uint32_t word_at(const uint8_t *bytes, size_t at)
{
    uint32_t word;
    memcpy(&word, bytes + at, sizeof word);
    return word;
}

/* ---- The header ---- */

/* Result of the driver actions. */
typedef struct {
    const dtn_ethosu_config_t *config; /* required configuration; NULL: that of the commands */
    const uint8_t *commands;
    size_t bytes;
    uint64_t detail; /* detail of a fault */
} header_t;

static const dtn_ethosu_config_t *config_with(uint32_t word)
{
    const dtn_ethosu_config_t *config = configs;
    while (config < configs + sizeof configs / sizeof configs[0] && config->word != word) {
        config++;
    }
    return config < configs + sizeof configs / sizeof configs[0] ? config : NULL;
}

static dtn_ethosu_fault_t header_fault(header_t *header, dtn_ethosu_fault_t fault, uint64_t detail)
{
    header->detail = detail;
    return fault;
}

/* Finds the commands after the driver actions. */
static dtn_ethosu_fault_t read_actions(header_t *header, const uint8_t *data, size_t bytes)
{
    bool is_configured = false;
    if (bytes % 4 != 0 || bytes < 4 || word_at(data, 0) != MAGIC) {
        return DTN_ETHOSU_HEADER;
    }
    for (size_t at = 4; at + 4 <= bytes; at += 4) {
        uint32_t word = word_at(data, at);
        uint32_t action = word & 0xFFU;
        if (action == ACTION_CONFIG && bytes - at >= 12) {
            const uint32_t found = word_at(data, at + 4);
            header->config = header->config == NULL ? config_with(found) : header->config;
            if (header->config == NULL || header->config->word != found) {
                return header_fault(header, DTN_ETHOSU_CONFIGURATION, found);
            }
            is_configured = true;
            at += 8;
        } else if (action == ACTION_COMMANDS && is_configured) {
            size_t words = (word & 0xFF00U) << 8 | word >> 16;
            header->commands = data + at + 4;
            header->bytes = 4 * words;
            return 4 * words == bytes - at - 4 ? DTN_ETHOSU_OK : DTN_ETHOSU_HEADER;
        } else if (action != ACTION_NOP) {
            return header_fault(header, DTN_ETHOSU_HEADER, at);
        }
    }
    return DTN_ETHOSU_HEADER;
}

static bool is_aligned(const void *at)
{
    return (uintptr_t)at % ALIGNMENT == 0;
}

/* Initialises a machine before its first command. */
dtn_ethosu_fault_t dtn_ethosu_begin(dtn_ethosu_t *m, const dtn_ethosu_config_t *config, const void *data, size_t bytes,
                                    const dtn_ethosu_memory_t *memory)
{
    if (m == NULL || config == NULL || data == NULL || memory == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    memset(m, 0, sizeof *m);
    m->config = config;
    m->memory = *memory;
    m->is_finished = true;
    if (!is_aligned(data)) {
        return DTN_ETHOSU_MISALIGNED;
    }
    header_t header = {.config = config};
    dtn_ethosu_fault_t fault = read_actions(&header, (const uint8_t *)data, bytes);
    m->commands = header.commands;
    m->command_bytes = header.bytes;
    m->event.detail = header.detail;
    m->is_finished = fault != DTN_ETHOSU_OK;
    return fault;
}

const dtn_ethosu_config_t *dtn_ethosu_config_of(const void *command_data, size_t command_data_bytes)
{
    header_t header = {.config = NULL};
    if (command_data == NULL || !is_aligned(command_data)) {
        return NULL;
    }
    const uint8_t *data = (const uint8_t *)command_data;
    return read_actions(&header, data, command_data_bytes) == DTN_ETHOSU_OK ? header.config : NULL;
}

static dtn_ethosu_fault_t check_memory(const dtn_ethosu_config_t *config, const dtn_ethosu_memory_t *memory)
{
    bool aligned = is_aligned(memory->shram) && is_aligned(memory->workspace);
    if (memory->shram == NULL || (memory->workspace == NULL && memory->workspace_bytes > 0)) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    for (size_t i = 0; i < DTN_ETHOSU_REGIONS; i++) {
        const dtn_ethosu_region_t *region = &memory->regions[i];
        aligned = aligned && is_aligned(region->data);
        if (region->bytes > 0 && region->data == NULL) {
            return DTN_ETHOSU_NULL_POINTER;
        }
    }
    if (!aligned) {
        return DTN_ETHOSU_MISALIGNED;
    }
    return memory->shram_bytes < config->shram_bytes ? DTN_ETHOSU_SHRAM_SIZE : DTN_ETHOSU_OK;
}

dtn_ethosu_fault_t dtn_ethosu_start(dtn_ethosu_t *m, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, const dtn_ethosu_memory_t *memory)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_begin(m, config, command_data, command_data_bytes, memory);
    if (fault == DTN_ETHOSU_OK) {
        fault = check_memory(config, memory);
        m->is_finished = fault != DTN_ETHOSU_OK;
    }
    return fault;
}

/* ---- Commands ---- */

/* A bit for each register of a product, by the low 8 bits of its opcode; `dtn_ethosu_slot` and `dtn_ethosu_long_slot`
 * map these to array indices. */
typedef uint32_t registers_t[3][8];

static const registers_t shorts = {
    {0x9DFEBEBF, 0x0003A3F7, 0, 0, 0x0000BE23, 0, 0, 0},
    {0x9DFEBEBF, 0x000FA3FF, 0, 0, 0x0000BE23, 0, 0, 0},
    {0x9DFE9FBF, 0x001FFFF7, 0, 0, 0x00009E21, 0, 0, 0},
};
static const registers_t longs = {
    {0x007F007F, 0x0007007F, 0, 0, 0x0000007F, 0, 0, 0},
    {0x007F007F, 0x001F007F, 0, 0, 0x000F007F, 0, 0, 0},
    {0x007F007F, 0x03FF00FF, 0, 0, 0x00FF007F, 0, 0, 0},
};

static bool has_register(const dtn_ethosu_t *m, const registers_t registers, uint32_t index)
{
    return (registers[m->config->word >> 28][index / 32] >> (index % 32) & 1U) != 0;
}

/* Sets a register; false if this NPU has no such command. */
static bool set_register(dtn_ethosu_t *m, uint32_t opcode, uint32_t param, bool has_payload, uint32_t payload)
{
    uint32_t index = opcode & 0xFFU;
    bool is_short = opcode >> 8 == 1 && !has_payload;
    bool is_long = opcode >> 8 == 0 && has_payload;
    if (is_short && has_register(m, shorts, index)) {
        m->parameters[dtn_ethosu_slot(index)] = (uint16_t)param;
    } else if (is_long && has_register(m, longs, index)) {
        m->addresses[dtn_ethosu_long_slot(index)] = (uint64_t)param << 32 | payload;
    } else {
        return false;
    }
    const uint32_t bit = dtn_ethosu_slot(index) + (is_long ? DTN_ETHOSU_SHORTS : 0);
    m->is_set[bit / 32] |= UINT32_C(1) << (bit % 32);
    return true;
}

dtn_ethosu_fault_t dtn_ethosu_need(dtn_ethosu_t *m, const uint16_t *opcodes, size_t count, uint32_t above)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bit = dtn_ethosu_slot(opcodes[i]) + above;
        if ((m->is_set[bit / 32] >> (bit % 32) & 1U) == 0) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_UNSET, opcodes[i]);
        }
    }
    return DTN_ETHOSU_OK;
}

/* Runs an operation; false if the opcode is not an operation. */
static bool operate(dtn_ethosu_t *m, uint32_t opcode, dtn_ethosu_fault_t *fault)
{
    switch (opcode) {
    case DTN_ETHOSU_OP_RESIZE:
        if (!dtn_ethosu_is_u85(m)) {
            return false;
        }
        *fault = dtn_ethosu_resize(m);
        return true;
    case DTN_ETHOSU_OP_STOP:
        *fault = dtn_ethosu_stop(m);
        return true;
    case DTN_ETHOSU_OP_CONV:
        *fault = dtn_ethosu_convolution(m);
        return true;
    case DTN_ETHOSU_OP_DEPTHWISE:
        *fault = dtn_ethosu_depthwise(m);
        return true;
    case DTN_ETHOSU_OP_POOL:
        *fault = dtn_ethosu_pool(m);
        return true;
    case DTN_ETHOSU_OP_ELEMENTWISE:
        *fault = dtn_ethosu_is_u85(m) ? dtn_ethosu_elementwise_85(m) : dtn_ethosu_elementwise(m);
        return true;
    case DTN_ETHOSU_OP_DMA_START:
        *fault = dtn_ethosu_is_u85(m) ? dtn_ethosu_copy_85(m) : dtn_ethosu_copy(m);
        return true;
    default:
        return false;
    }
}

/* True for commands that order or count operations, which this machine runs one after the other. */
static bool is_order(uint32_t opcode)
{
    return opcode == OP_IRQ || opcode == OP_DMA_WAIT || opcode == OP_KERNEL_WAIT || opcode == OP_PMU_MASK;
}

/* Executes the next command; sets `is_operation`. */
static dtn_ethosu_fault_t command(dtn_ethosu_t *m, bool *is_operation)
{
    *is_operation = false;
    m->event = (dtn_ethosu_event_t){.offset = (uint32_t)m->at};
    if (m->command_bytes - m->at < 4) {
        return DTN_ETHOSU_TRUNCATED;
    }
    uint32_t word = word_at(m->commands, m->at);
    uint32_t opcode = word & OPCODE_MASK;
    uint32_t words = word >> WORDS_AT & WORDS_MASK;
    m->event.opcode = (uint16_t)opcode;
    m->event.param = (uint16_t)(word >> PARAM_AT);
    m->at += 4;
    if (words > 1 || (words == 1 && m->command_bytes - m->at < 4)) {
        return words > 1 ? dtn_ethosu_fault(m, DTN_ETHOSU_OPCODE, word) : DTN_ETHOSU_TRUNCATED;
    }
    dtn_ethosu_fault_t fault = DTN_ETHOSU_OK;
    uint32_t payload = words == 1 ? word_at(m->commands, m->at) : 0;
    m->at += 4 * (size_t)words;
    bool has_maps = words == 0 && opcode >= FIRST_OPERATION && opcode <= LAST_OPERATION;
    if (has_maps) {
        dtn_ethosu_chains_start(m);
    }
    if (words == 0 && operate(m, opcode, &fault)) {
        *is_operation = true;
        fault = fault == DTN_ETHOSU_OK ? dtn_ethosu_write_transposed(m) : fault;
        if (fault == DTN_ETHOSU_OK && has_maps && dtn_ethosu_is_u85(m)) {
            dtn_ethosu_note_result(m);
            dtn_ethosu_report_accesses(m, &(dtn_ethosu_accesses_t){.is_end = true});
        }
        return fault;
    }
    if (dtn_ethosu_is_u85(m) && words == 1 && opcode == OP_BRANCH) {
        return dtn_ethosu_branch(m, payload);
    }
    if (words == 0 && is_order(opcode)) {
        if (m->observer != NULL) {
            m->observer(m, NULL);
        }
        return DTN_ETHOSU_OK;
    }
    if (set_register(m, opcode, word >> PARAM_AT, words == 1, payload)) {
        return DTN_ETHOSU_OK;
    }
    return dtn_ethosu_fault(m, DTN_ETHOSU_OPCODE, word);
}

dtn_ethosu_fault_t dtn_ethosu_step(dtn_ethosu_t *m, dtn_ethosu_event_t *event)
{
    if (m == NULL || event == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    dtn_ethosu_fault_t fault = m->is_finished ? DTN_ETHOSU_FINISHED : DTN_ETHOSU_OK;
    bool is_operation = false;
    while (fault == DTN_ETHOSU_OK && !is_operation) {
        fault = command(m, &is_operation);
    }
    m->is_finished = m->is_finished || fault != DTN_ETHOSU_OK;
    *event = m->event;
    return fault;
}

dtn_ethosu_fault_t dtn_ethosu_run(dtn_ethosu_t *m, dtn_ethosu_event_t *event)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_step(m, event);
    while (fault == DTN_ETHOSU_OK && event->opcode != DTN_ETHOSU_OP_STOP) {
        fault = dtn_ethosu_step(m, event);
    }
    return fault;
}

uint32_t dtn_ethosu_operations(const dtn_ethosu_t *m, uint32_t from, uint32_t to)
{
    uint32_t count = 0;
    for (size_t at = from; at < to && at < m->command_bytes;) {
        const uint32_t word = word_at(m->commands, at);
        const uint32_t words = word >> WORDS_AT & WORDS_MASK;
        const uint32_t opcode = word & OPCODE_MASK;
        count += words == 0 && opcode >= FIRST_OPERATION && opcode <= LAST_OPERATION ? 1U : 0U;
        at += 4 + 4 * (size_t)words;
    }
    return count;
}

dtn_ethosu_fault_t dtn_ethosu_check(dtn_ethosu_t *m, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, dtn_ethosu_memory_t *memory, dtn_ethosu_event_t *event)
{
    if (event == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    *event = (dtn_ethosu_event_t){0};
    dtn_ethosu_fault_t fault = dtn_ethosu_begin(m, config, command_data, command_data_bytes, memory);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    m->is_check = true;
    fault = dtn_ethosu_run(m, event);
    memory->workspace_bytes = m->needed;
    return fault;
}
