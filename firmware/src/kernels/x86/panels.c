/* Weights in the layout that kernels multiply, written once for a model. The model then runs a copy of the microcode's
 * commands, in which the parameters of each call of such a kernel are followed by the address of its panels. */
#include <string.h>

#include "../../driver/driver.h"
#include "deuteron/levels.h"
#include "levels.h"

typedef size_t (*write_t)(const dtn_call_t *call, int32_t *panels);

#define DTN_X(name, NAME)                                                                                              \
    size_t dtn_panels_##name##_avx2(const dtn_call_t *call, int32_t *panels);                                          \
    size_t dtn_panels_##name##_avx_vnni(const dtn_call_t *call, int32_t *panels);                                      \
    size_t dtn_panels_##name##_avx512_vnni(const dtn_call_t *call, int32_t *panels);                                   \
    int32_t dtn_paneled_##name##_avx2(const dtn_call_t *call, dtn_phase_t phase);                                      \
    int32_t dtn_paneled_##name##_avx_vnni(const dtn_call_t *call, dtn_phase_t phase);                                  \
    int32_t dtn_paneled_##name##_avx512_vnni(const dtn_call_t *call, dtn_phase_t phase);                               \
    typedef char name##_has_its_constants_there[DTN_##NAME##_WEIGHTS == (int)DTN_PANEL_WEIGHTS &&                      \
                                                        DTN_##NAME##_BIAS == (int)DTN_PANEL_BIAS &&                    \
                                                        DTN_##NAME##_REQUANT == (int)DTN_PANEL_REQUANT                 \
                                                    ? 1                                                                \
                                                    : -1];
DTN_PANEL_KERNELS(DTN_X)
#undef DTN_X

static const write_t writes[DTN_KERNEL_KINDS][DTN_LEVELS] = {
#define DTN_X(name, NAME)                                                                                              \
    [DTN_KERNEL_##NAME] = {NULL, dtn_panels_##name##_avx2, dtn_panels_##name##_avx_vnni,                               \
                           dtn_panels_##name##_avx512_vnni},
    DTN_PANEL_KERNELS(DTN_X)
#undef DTN_X
};

static const dtn_kernel_t runs[DTN_KERNEL_KINDS][DTN_LEVELS] = {
#define DTN_X(name, NAME)                                                                                              \
    [DTN_KERNEL_##NAME] = {NULL, dtn_paneled_##name##_avx2, dtn_paneled_##name##_avx_vnni,                             \
                           dtn_paneled_##name##_avx512_vnni},
    DTN_PANEL_KERNELS(DTN_X)
#undef DTN_X
};

/* Where panels begin: at lines of the cache. */
enum { LINE = 64 };

/* Words of a place in memory. */
enum { PLACE_WORDS = sizeof(void *) / DTN_WORD_BYTES };

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The constants and the parameters of a call; false where a constant is not among the weights, but fetched or computed.
 */
static bool constants(const dtn_model_t *model, const uint32_t *command, dtn_call_t *call)
{
    for (uint32_t i = DTN_PANEL_WEIGHTS; i <= DTN_PANEL_REQUANT; i++) {
        const uint32_t *operand = command + 3 + i * DTN_OPERAND_WORDS;
        if (operand[0] != DTN_REGION_WEIGHTS) {
            return false;
        }
        call->operands[i].data = (uint8_t *)(uintptr_t)(model->weights + operand[1]);
        call->operands[i].bytes = operand[2];
    }
    call->params = (const int32_t *)(command + 3 + (command[1] >> 16 & 0xFFU) * DTN_OPERAND_WORDS);
    return true;
}

/* Bytes of the panels of a command, or 0; writes them to `panels` unless that is NULL. */
static size_t panels_write(const dtn_model_t *model, const uint32_t *command, write_t write, uint8_t *panels)
{
    dtn_call_t call;
    if (!constants(model, command, &call)) {
        return 0;
    }
    return lines(write(&call, (int32_t *)(void *)panels) * sizeof(int32_t));
}

/* Bytes of a model's kernels, its program and its panels, in this order, for a level; writes them to `memory`, at a
 * line of the cache, unless that is NULL. */
static size_t lay_out(const dtn_model_t *model, int32_t level, uint8_t *memory)
{
    const uint32_t *command = model->program;
    size_t kernels_bytes = lines(DTN_KERNEL_KINDS * sizeof(dtn_kernel_t));
    size_t at = kernels_bytes + lines((model->word_count + PLACE_WORDS * (size_t)model->commands) * DTN_WORD_BYTES);
    uint32_t *to = memory == NULL ? NULL : (uint32_t *)(void *)(memory + kernels_bytes);
    for (uint32_t i = 0; i < model->commands; i++, command += dtn_length(command[0])) {
        uint32_t length = dtn_length(command[0]);
        uint32_t kind = dtn_opcode(command[0]) == DTN_OPCODE_CALL ? command[1] & 0xFFFFU : 0;
        write_t write = writes[kind][level];
        uint8_t *panels = memory == NULL ? NULL : memory + at;
        size_t bytes = write == NULL ? 0 : panels_write(model, command, write, panels);
        at += bytes;
        if (to != NULL) {
            memcpy(to, command, length * sizeof *to);
            if (write != NULL) {
                panels = bytes == 0 ? NULL : panels;
                memcpy(to + length, (const void *)&panels, sizeof panels);
                to[0] += (uint32_t)PLACE_WORDS << 16;
            }
            to += dtn_length(to[0]);
        }
    }
    return at;
}

/* True if the model has a kernel that uses panels, and no panels yet. */
static bool wants_panels(const dtn_model_t *model, int32_t level)
{
    bool wants = false;
    for (uint32_t kind = 0; kind < DTN_KERNEL_KINDS; kind++) {
        wants = wants || ((model->listed >> kind & 1U) != 0 && writes[kind][level] != NULL);
    }
    return wants && model->kernels == neutronKernels;
}

size_t dtn_panel_bytes(NeutronModelHandle hdl)
{
    const dtn_model_t *model = dtn_model_of(hdl);
    int32_t level = dtn_level();
    return model == NULL || !wants_panels(model, level) ? 0 : lay_out(model, level, NULL) + LINE;
}

NeutronError dtn_use_panels(NeutronModelHandle hdl, void *memory, size_t bytes)
{
    dtn_model_t *model = dtn_model_of(hdl);
    int32_t level = dtn_level();
    if (model == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    if (!wants_panels(model, level)) {
        return ENONE;
    }
    if (memory == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!dtn_is_aligned(memory)) {
        return dtn_error(DTN_REASON_MISALIGNED, 0);
    }
    if (bytes < lay_out(model, level, NULL) + LINE) {
        return dtn_error(DTN_REASON_NO_MEMORY, 0);
    }
    uint8_t *line = (uint8_t *)memory + (LINE - (uintptr_t)memory % LINE) % LINE;
    dtn_kernel_t *kernels = (dtn_kernel_t *)(void *)line;
    (void)lay_out(model, level, line);
    for (uint32_t kind = 0; kind < DTN_KERNEL_KINDS; kind++) {
        kernels[kind] = runs[kind][level] != NULL ? runs[kind][level] : dtn_level_kernels[kind][level];
    }
    model->kernels = kernels;
    model->program = (const uint32_t *)(const void *)(line + lines(DTN_KERNEL_KINDS * sizeof *kernels));
    return ENONE;
}
