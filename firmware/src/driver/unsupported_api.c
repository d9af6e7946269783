/* Functions for NPUs with their own controller, and for Linux; they exist so that every user of the API links. */
#include "deuteron/errors.h"
#include "NeutronDriver.h"

static NeutronError other_npu(void)
{
    return dtn_error(DTN_REASON_OTHER_NPU, 0);
}

NeutronError neutronCustomPrepare(uint32_t *inputSize, int32_t numInputs, uint32_t *outputSize, int32_t numOutputs,
                                  const void *firmware, size_t firmwareSize, NeutronModelHandle *hdl)
{
    (void)inputSize, (void)numInputs, (void)outputSize, (void)numOutputs;
    (void)firmware, (void)firmwareSize, (void)hdl;
    return other_npu();
}

NeutronError neutronCustomExec(NeutronModelHandle hdl, const NeutronDataConfig *neutron_dcfg)
{
    (void)hdl, (void)neutron_dcfg;
    return other_npu();
}

NeutronError neutronDataSetup(NeutronModelHandle hdl, NeutronDataConfig *neutron_dcfg)
{
    (void)hdl, (void)neutron_dcfg;
    return other_npu();
}

NeutronError neutronRunNonBlocking(NeutronModelHandle hdl, const NeutronDataConfig *dcfg)
{
    (void)hdl, (void)dcfg;
    return other_npu();
}

NeutronError neutronWait(NeutronModelHandle hdl, const NeutronDataConfig *dcfg)
{
    (void)hdl, (void)dcfg;
    return other_npu();
}

NeutronError neutronIsReady(NeutronModelHandle hdl, bool *isReady)
{
    (void)hdl, (void)isReady;
    return other_npu();
}

void neutronSetTrace(NeutronModelHandle hdl, NeutronTraceConfig *tcfg)
{
    (void)hdl, (void)tcfg;
}

NeutronError neutronGetTrace(NeutronModelHandle hdl, char **buffer, size_t *size)
{
    (void)hdl, (void)buffer, (void)size;
    return other_npu();
}

void *neutronMemAlloc(size_t alignment, size_t size)
{
    (void)alignment, (void)size;
    return NULL;
}

void neutronMemFree(void *ptr)
{
    (void)ptr;
}

NeutronError allocateBuffer(uint64_t size, void **pBuffer, bool userspace)
{
    (void)size, (void)pBuffer, (void)userspace;
    return other_npu();
}

NeutronError releaseBuffer(void *buffer)
{
    (void)buffer;
    return other_npu();
}

NeutronError clean_cache(const void *addr, int size)
{
    (void)addr, (void)size;
    return other_npu();
}

NeutronError matmul(const void *info, int sizeInfo, const void *in, int sizeIn, const void *out, int sizeOut,
                    int idxSlot)
{
    (void)info, (void)sizeInfo, (void)in, (void)sizeIn, (void)out, (void)sizeOut, (void)idxSlot;
    return other_npu();
}
