/**
 * @file
 * The Neutron driver API, source and binary compatible with the header that ExecuTorch's NXP backend includes.
 *
 * This driver runs Deuteron microcode (spec/microcode.md) on the CPU; a vendor's microcode is refused. It allocates
 * nothing itself: where the API lets the driver find memory, it asks the port (`deuteron/port.h`). What may happen at
 * the same time, on threads and in interrupts, is said in one place: section Concurrency of `deuteron/driver.h`.
 *
 * There is no recursion, and a call takes at most 2 KiB of stack besides that of the port and the hooks. Built by GCC
 * 12.2 with -Os for Cortex-M33, `neutronModelPrepare` takes 1.7 KiB and `neutronRunBlocking` 1.5 KiB, most of it in the
 * kernels, whose largest frame is 1,152 bytes (prelu_s8). The build refuses frames above 512 bytes in the driver.
 */
#ifndef NEUTRON_DRIVER_H
#define NEUTRON_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "NeutronErrors.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Trace levels of `NeutronTraceConfig`; nothing here traces, profiling takes its place (spec/microcode.md section 7).
 */
#define TRACE_CONFIG_KERNEL_LEVEL (1U << 0)
#define TRACE_CONFIG_JOB_LEVEL (1U << 1)

/** Callers that set this to 1 promise to pass context memory to `neutronModelPrepare`; the driver does not read it. */
#ifndef NO_HEAP_USAGE
#define NO_HEAP_USAGE 0
#endif

#define GEN_NEUTRON_DRIVER_ERROR(category, code) GEN_NEUTRON_ERROR(ERROR_COMPONENT_DRIVER, category, code)
#define GEN_NEUTRON_DRIVER_GENERIC_ERROR() GEN_NEUTRON_DRIVER_ERROR(ERROR_CATEGORY_DRIVER_GENERIC, __LINE__)

/** A prepared model. */
typedef void *NeutronModelHandle;

#define NEUTRON_INVALID_HANDLE NULL

/** The three blocks of a model. They are used in place, and must stay unchanged until the model is unprepared. */
typedef struct {
    const void *microcode;   /**< 16-byte aligned; its size is in its header */
    const void *weights;     /**< 16-byte aligned; its size is in the microcode's header */
    const void *kernels;     /**< 16-byte aligned; starts with its length */
    uint32_t timeoutSeconds; /**< ignored: the driver has no clock, and only hooks wait; `dtn_set_progress` serves a
                                watchdog, and can abort a run */
} NeutronModelConfig;

/** The buffers of one run. */
typedef struct {
    /** One pointer per model input, any alignment; the sizes are in the microcode. Never written. */
    const void **inputs;

    /**
     * One pointer per model output, any alignment, none overlapping another buffer of the run. With n outputs,
     * outputs[n] is the scratch buffer (16-byte aligned; read only when the header's scratch size is not 0) and, for a
     * model with profiling, outputs[n + 1] the profile buffer (16-byte aligned). outputs[n + 2] (debug) is not used.
     */
    void **outputs;

    void *scratch;        /**< not read: callers leave it uninitialised and pass outputs[n] */
    void *scratchWeights; /**< prefetch area, 16-byte aligned; read only when the header's prefetch size is not 0 */
} NeutronDataConfig;

/** Trace settings, kept for source compatibility. */
typedef struct {
    uint32_t traceConfig;
    char *traceBuffer;
    size_t traceBufferSize;
} NeutronTraceConfig;

/** What a copy hook copies from. ExecuTorch's delegate with EXTERNAL_MEM has had a hook that takes `const void *` since
 * release 1.4: compile it with DTN_COPY_FROM_CONST. Older ones, and the API by itself, have `void *`. */
#ifdef DTN_COPY_FROM_CONST
#define DTN_COPY_SOURCE const void
#else
#define DTN_COPY_SOURCE void
#endif

/** How weights get from flash to SRAM; the channel (0 to 3) ties a wait to the copy before it. These hooks cannot fail;
 * `dtn_set_fetch_hooks` (deuteron/driver.h) takes some that can. */
typedef struct {
    /** Starts to copy `size` bytes, a multiple of 16 between 16-byte aligned addresses, and may return before it is
     * done. */
    void (*copy)(void *dst, DTN_COPY_SOURCE *src, uint32_t size, uint32_t channel);
    /** Returns when the copy on `channel` is done; called once after each `copy`. */
    void (*wait)(uint32_t channel);
} NeutronConfig;

/** Version of this driver. */
typedef struct {
    uint32_t major;
    uint32_t minor;
    uint32_t patch;
    const char *hashString; /**< "deuteron": tells this driver from a vendor's */
    uint32_t hashUint32;    /**< microcode format version, major << 16 | minor */
} NeutronSdkVersion;

/** Prepares the port, unless that is done. Needed only for ports that have something to prepare. The hooks stay as they
 * are: memcpy at the start. */
NeutronError neutronInit(void);

/** Undoes one `neutronInit`. The last one releases the port and puts memcpy back for the hooks; models must be
 * unprepared before. */
NeutronError neutronDeinit(void);

/**
 * Checks a model completely and makes a handle for it; nothing of it runs before every check has passed.
 *
 * @param mcfg blocks of the model, none NULL.
 * @param hdl in: NULL inside asks the port for memory, else memory of `neutronGetModelContextSize()` bytes, aligned
 *            as a pointer, which stays the caller's. Out: the handle; unchanged on error.
 * @return ENONE, or the first rule that does not hold (deuteron/errors.h).
 */
NeutronError neutronModelPrepare(const NeutronModelConfig *mcfg, NeutronModelHandle *hdl);

/** Ends the use of a handle, and gives its memory back if it came from the port. */
NeutronError neutronModelUnprepare(NeutronModelHandle hdl);

/**
 * Runs a prepared model to its end.
 *
 * Nothing is written when a needed pointer is NULL or misaligned. A table that only came into memory during the run
 * (prefetched requantisation rows) is checked then, and can still end the run with an error; outputs are undefined
 * then, and every copy that the run has started has been waited for, so that none goes on.
 */
NeutronError neutronRunBlocking(NeutronModelHandle hdl, const NeutronDataConfig *dcfg);

/**
 * Installs the copy and wait hooks for all models, in place of any before. Both must be given. The structure is copied.
 */
NeutronError neutronSetConfig(NeutronConfig *config);

/** Bytes of context that `neutronModelPrepare` needs. */
size_t neutronGetModelContextSize(void);

/** Lets the port stop, or start, the NPU's clock. */
NeutronError neutronSuspend(void);
NeutronError neutronResume(void);

/** Version of this driver. */
NeutronSdkVersion neutronGetSdkVersion(void);

/**
 * @name Functions of other Neutron NPUs
 * For NPUs with a controller of their own, or for Linux; they are here so that every user of the API links. Each
 * returns an error of category UNSUPPORTED (NULL from `neutronMemAlloc`) and touches none of its arguments.
 * @{
 */
NeutronError neutronCustomPrepare(uint32_t *inputSize, int32_t numInputs, uint32_t *outputSize, int32_t numOutputs,
                                  const void *firmware, size_t firmwareSize, NeutronModelHandle *hdl);
NeutronError neutronCustomExec(NeutronModelHandle hdl, const NeutronDataConfig *neutron_dcfg);
NeutronError neutronDataSetup(NeutronModelHandle hdl, NeutronDataConfig *neutron_dcfg);
NeutronError neutronRunNonBlocking(NeutronModelHandle hdl, const NeutronDataConfig *dcfg);
NeutronError neutronWait(NeutronModelHandle hdl, const NeutronDataConfig *dcfg);
NeutronError neutronIsReady(NeutronModelHandle hdl, bool *isReady);
void neutronSetTrace(NeutronModelHandle hdl, NeutronTraceConfig *tcfg);
NeutronError neutronGetTrace(NeutronModelHandle hdl, char **buffer, size_t *size);
void *neutronMemAlloc(size_t alignment, size_t size);
void neutronMemFree(void *ptr);
NeutronError allocateBuffer(uint64_t size, void **pBuffer, bool userspace);
NeutronError releaseBuffer(void *buffer);
NeutronError clean_cache(const void *addr, int size);
NeutronError matmul(const void *info, int sizeInfo, const void *in, int sizeIn, const void *out, int sizeOut,
                    int idxSlot);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* NEUTRON_DRIVER_H */
