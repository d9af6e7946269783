/**
 * @file
 * The Neutron driver API, source and binary compatible with the header that ExecuTorch's NXP backend includes.
 *
 * This driver runs Deuteron microcode (spec/microcode.md) on the CPU and rejects a vendor's microcode. It allocates
 * nothing itself: where the API lets the driver provide memory, it asks the port (`deuteron/port.h`). Section
 * Concurrency of `deuteron/driver.h` defines what may run concurrently, on threads and in interrupts.
 *
 * There is no recursion, and a call uses at most 2 KiB of stack besides the port's and the hooks'. Built by GCC 12.2
 * with -Os for Cortex-M33, `neutronModelPrepare` uses 1.7 KiB and `neutronRunBlocking` 1.5 KiB, mostly in the kernels,
 * whose largest frame is 1,152 bytes (prelu_s8). The build rejects frames above 512 bytes in the driver.
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

/** Trace levels of `NeutronTraceConfig`; this driver has no traces; use profiling (spec/microcode.md section 7).
 */
#define TRACE_CONFIG_KERNEL_LEVEL (1U << 0)
#define TRACE_CONFIG_JOB_LEVEL (1U << 1)

/** Callers that set this to 1 always pass context memory to `neutronModelPrepare`; the driver does not read it. */
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
     * One pointer per model output, any alignment; outputs must not overlap other buffers of the run. With n outputs,
     * outputs[n] is the scratch buffer (16-byte aligned; read only if the header's scratch size is not 0). For a model
     * with profiling, outputs[n + 1] is the profile buffer (16-byte aligned). outputs[n + 2] (debug) is unused.
     */
    void **outputs;

    void *scratch;        /**< not read: callers leave it uninitialised and pass outputs[n] */
    void *scratchWeights; /**< prefetch area, 16-byte aligned; read only if the header's prefetch size is not 0 */
} NeutronDataConfig;

/** Trace settings, kept for source compatibility. */
typedef struct {
    uint32_t traceConfig;
    char *traceBuffer;
    size_t traceBufferSize;
} NeutronTraceConfig;

/** Type of a copy hook's source. ExecuTorch's delegate with EXTERNAL_MEM uses `const void *` since release 1.4: compile
 * it with DTN_COPY_FROM_CONST. Older releases, and the API by default, use `void *`. */
#ifdef DTN_COPY_FROM_CONST
#define DTN_COPY_SOURCE const void
#else
#define DTN_COPY_SOURCE void
#endif

/** Hooks that copy weights from flash to SRAM; the channel (0 to 3) links a wait to its copy. These hooks cannot fail;
 * `dtn_set_fetch_hooks` (deuteron/driver.h) has hooks that can. */
typedef struct {
    /** Starts to copy `size` bytes, a multiple of 16 between 16-byte aligned addresses; may return before the copy is
     * complete. */
    void (*copy)(void *dst, DTN_COPY_SOURCE *src, uint32_t size, uint32_t channel);
    /** Returns when the copy on `channel` is complete; called once after each `copy`. */
    void (*wait)(uint32_t channel);
} NeutronConfig;

/** Version of this driver. */
typedef struct {
    uint32_t major;
    uint32_t minor;
    uint32_t patch;
    const char *hashString; /**< "deuteron": distinguishes this driver from a vendor's */
    uint32_t hashUint32;    /**< microcode format version, major << 16 | minor */
} NeutronSdkVersion;

/** Prepares the port, unless it is prepared. Needed only for ports that have something to prepare. Does not change the
 * hooks, which are memcpy initially. */
NeutronError neutronInit(void);

/** Undoes one `neutronInit`. The last one releases the port and resets the hooks to memcpy; models must be unprepared
 * before. */
NeutronError neutronDeinit(void);

/**
 * Checks a model completely and creates a handle for it; nothing runs before every check has passed.
 *
 * @param mcfg blocks of the model, none NULL.
 * @param hdl in: NULL inside asks the port for memory, otherwise memory of `neutronGetModelContextSize()` bytes,
 *            aligned as a pointer, which the caller keeps owning. Out: the handle; unchanged on error.
 * @return ENONE, or the first violated rule (deuteron/errors.h).
 */
NeutronError neutronModelPrepare(const NeutronModelConfig *mcfg, NeutronModelHandle *hdl);

/** Releases a handle, and frees its memory if it came from the port. */
NeutronError neutronModelUnprepare(NeutronModelHandle hdl);

/**
 * Runs a prepared model to completion.
 *
 * Writes nothing if a required pointer is NULL or misaligned. A table that is loaded during the run (prefetched
 * requantization rows) is checked then, and can still end the run with an error. Outputs are then undefined, and every
 * copy that the run started has completed.
 */
NeutronError neutronRunBlocking(NeutronModelHandle hdl, const NeutronDataConfig *dcfg);

/**
 * Installs the copy and wait hooks for all models, replacing earlier ones. Both are required. The structure is copied.
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
 * For NPUs with their own controller, or for Linux; they exist so that every user of the API links. Each returns an
 * error of category UNSUPPORTED (NULL from `neutronMemAlloc`) and ignores its arguments.
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
