/* ExecuTorch's own NXP delegate must compile and link against this driver. This file uses every type, field, macro and
 * function of the driver API that it and its runner use, with the types that they rely on, and fails to build when one
 * of them changes. */
#include "NeutronDriver.h"
#include "NeutronErrors.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace
{

template <typename Wanted, typename Found> constexpr bool same = std::is_same<Wanted, Found>::value;

static_assert(same<int32_t, NeutronError>, "logged with PRId32");
static_assert(same<void *, NeutronModelHandle>, "cast from allocated memory");
static_assert(ENONE == 0 && (NO_HEAP_USAGE == 0 || NO_HEAP_USAGE == 1), "compared and tested by the preprocessor");

static_assert(same<const void *, decltype(NeutronModelConfig::microcode)>, "");
static_assert(same<const void *, decltype(NeutronModelConfig::weights)>, "");
static_assert(same<const void *, decltype(NeutronModelConfig::kernels)>, "");
static_assert(same<uint32_t, decltype(NeutronModelConfig::timeoutSeconds)>, "");
static_assert(same<const void **, decltype(NeutronDataConfig::inputs)>, "");
static_assert(same<void **, decltype(NeutronDataConfig::outputs)>, "");
static_assert(same<void *, decltype(NeutronDataConfig::scratch)>, "");
static_assert(same<void *, decltype(NeutronDataConfig::scratchWeights)>, "");
/* The argument of that delegate's hook, with EXTERNAL_MEM, by release. */
#ifdef DTN_COPY_FROM_CONST
using Source = const void *;
#else
using Source = void *;
#endif
static_assert(same<void (*)(void *, Source, uint32_t, uint32_t), decltype(NeutronConfig::copy)>, "");
static_assert(same<void (*)(uint32_t), decltype(NeutronConfig::wait)>, "");

/* The order of the fields is part of the interface: structures are filled by position and shared as binaries. */
static_assert(offsetof(NeutronModelConfig, microcode) < offsetof(NeutronModelConfig, weights), "");
static_assert(offsetof(NeutronModelConfig, weights) < offsetof(NeutronModelConfig, kernels), "");
static_assert(offsetof(NeutronModelConfig, kernels) < offsetof(NeutronModelConfig, timeoutSeconds), "");
static_assert(offsetof(NeutronDataConfig, inputs) < offsetof(NeutronDataConfig, outputs), "");
static_assert(offsetof(NeutronDataConfig, outputs) < offsetof(NeutronDataConfig, scratch), "");
static_assert(offsetof(NeutronDataConfig, scratch) < offsetof(NeutronDataConfig, scratchWeights), "");

static_assert(same<NeutronError (*)(), decltype(&neutronInit)>, "");
static_assert(same<NeutronError (*)(), decltype(&neutronDeinit)>, "");
static_assert(same<NeutronError (*)(), decltype(&neutronResume)>, "");
static_assert(same<NeutronError (*)(), decltype(&neutronSuspend)>, "");
static_assert(same<size_t (*)(), decltype(&neutronGetModelContextSize)>, "");
static_assert(same<NeutronError (*)(NeutronConfig *), decltype(&neutronSetConfig)>, "");
static_assert(same<NeutronError (*)(const NeutronModelConfig *, NeutronModelHandle *), decltype(&neutronModelPrepare)>,
              "");
static_assert(same<NeutronError (*)(NeutronModelHandle), decltype(&neutronModelUnprepare)>, "");
static_assert(same<NeutronError (*)(NeutronModelHandle, const NeutronDataConfig *), decltype(&neutronRunBlocking)>, "");

void copy(void *dst, Source src, uint32_t size, uint32_t /*channel*/)
{
    std::memcpy(dst, src, size);
}

void wait(uint32_t /*channel*/)
{
}

int failures = 0;

void expect(bool good, const char *what, NeutronError error)
{
    if (!good) {
        std::printf("%s: %" PRId32 " (%s, %s)\n", what, error, getNeutronErrorComponent(error),
                    getNeutronErrorCategory(error));
        failures++;
    }
}

} // namespace

int main()
{
    expect(neutronInit() == ENONE, "neutronInit", 0);
    NeutronConfig hooks = {copy, wait};
    expect(neutronSetConfig(&hooks) == ENONE, "neutronSetConfig", 0);

    /* A vendor's microcode: the common magic word, then something that is not ours. */
    alignas(16) static uint32_t microcode[64] = {0x64434D6E, 1};
    alignas(16) static const uint8_t weights[16] = {};
    alignas(16) static const uint32_t kernels[4] = {};
    NeutronModelConfig model = {};
    model.microcode = microcode;
    model.weights = weights;
    model.kernels = kernels;
    model.timeoutSeconds = 60;
    alignas(16) static uint8_t context[4096];
    const NeutronModelHandle place = NO_HEAP_USAGE == 1 ? context : nullptr;
    NeutronModelHandle handle = place;
    NeutronError error = neutronModelPrepare(&model, &handle);
    expect(error != ENONE && handle == place, "neutronModelPrepare took a vendor's microcode", error);

    expect(neutronGetModelContextSize() > 0 && neutronGetModelContextSize() <= sizeof context, "context size", 0);
    const void *inputs[1] = {nullptr};
    void *outputs[4] = {};
    NeutronDataConfig data = {};
    data.inputs = inputs;
    data.outputs = outputs;
#ifdef NEUTRON_NPU_POWER_GATING
    expect(neutronResume() == ENONE, "neutronResume", 0);
#endif
    error = neutronRunBlocking(context, &data);
#ifdef NEUTRON_NPU_POWER_GATING
    expect(neutronSuspend() == ENONE, "neutronSuspend", 0);
#endif
    expect(error != ENONE, "neutronRunBlocking ran an unprepared model", error);
    error = neutronModelUnprepare(context);
    expect(error != ENONE, "neutronModelUnprepare took an unprepared model", error);
    expect(neutronResume() == ENONE && neutronSuspend() == ENONE, "clock", 0);
    expect(neutronDeinit() == ENONE, "neutronDeinit", 0);
    return failures == 0 ? 0 : 1;
}
