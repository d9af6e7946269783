/**
 * @file
 * The error codes of this driver.
 *
 * The code of a `NeutronError` (bits 8-30) is a reason in its low 8 bits and a detail in the 15 bits above. The detail
 * is the index of the object that the row names (tensors: inputs, then outputs; kernels: by number), 0 for NONE. FAULT
 * is the fault of a run: a `dtn_ethosu_fault_t` (deuteron/ethosu.h) of Deuteron's driver for an Ethos-U, 0 for other
 * drivers. The step identifies the partition that failed in a run.
 */
#ifndef DEUTERON_ERRORS_H
#define DEUTERON_ERRORS_H

#include "NeutronErrors.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest detail; a higher command number is reported as this one. */
#define DTN_MAX_DETAIL UINT32_C(0x7FFF)

/** One row per reason: X(number, NAME, category, kind of the detail, text). Numbers are never reused. */
#define DTN_REASONS(X)                                                                                                 \
    X(1, NULL_POINTER, INVALID, NONE, "a required pointer is NULL")                                                    \
    X(2, MISALIGNED, INVALID, NONE, "a block or buffer does not start at a multiple of its alignment")                 \
    X(3, BAD_HANDLE, BAD_HANDLE, NONE, "the handle is not that of a prepared model")                                   \
    X(4, NO_MEMORY, NO_MEMORY, NONE, "the port has no memory for the model context")                                   \
    X(5, OTHER_NPU, UNSUPPORTED, NONE, "this function exists on other Neutron NPUs only")                              \
    X(6, PORT, INTERNAL_FAULT, NONE, "the port could not be initialised")                                              \
    X(16, MAGIC, UCODE, NONE, "word 0 is not that of Neutron microcode")                                               \
    X(17, NOT_DEUTERON, UCODE, NONE, "the microcode is another converter's: only Deuteron's runs on this driver")      \
    X(18, VERSION, UCODE, NONE, "the microcode's format version is not one that this driver runs")                     \
    X(19, FLAGS, UCODE, NONE, "the header has flags that this driver does not know")                                   \
    X(20, HEADER_SIZE, UCODE, NONE, "a size in the header is out of range or not a multiple of 16")                    \
    X(21, MICROCODE_CRC, UCODE, NONE, "the microcode is damaged: its CRC-32 does not match")                           \
    X(22, WEIGHTS_CRC, UCODE, NONE, "the weights are damaged: their CRC-32 does not match")                            \
    X(23, RESERVED, UCODE, NONE, "a byte of the header or the padding that must be 0 is not")                          \
    X(24, TENSOR_COUNT, UCODE, NONE, "the header has more than 255 inputs or outputs")                                 \
    X(25, FIRST_COMMAND, UCODE, NONE, "the first command's offset is misaligned or outside the command area")          \
    X(26, PROFILE_SIZE, UCODE, NONE, "the profile size is not 16 bytes per command")                                   \
    X(27, KERNELS_BLOCK, UCODE, NONE, "the kernels block does not list known kernels in ascending order")              \
    X(28, PLACES, UCODE, NONE, "a place of an input or output is not a multiple of 16 or leaves scratch")              \
    X(32, OPCODE, UCODE, COMMAND, "the first word of a command is not one of the format's")                            \
    X(33, LENGTH, UCODE, COMMAND, "a command's length is wrong for its kind or leaves the microcode")                  \
    X(34, COMMAND_COUNT, UCODE, COMMAND, "`end` does not come where the header's number of commands says")             \
    X(35, CHANNEL, UCODE, COMMAND, "a fetch or wait names a channel above 3")                                          \
    X(36, FETCH_RANGE, UCODE, COMMAND, "a fetch is misaligned, empty, or leaves the weights or the prefetch area")     \
    X(37, CHANNEL_BUSY, UCODE, COMMAND, "a channel has a fetch that nothing waited for")                               \
    X(38, KERNEL_UNKNOWN, UNSUPPORTED, COMMAND, "a call names a kernel that this format does not have")                \
    X(39, KERNEL_ABSENT, UNSUPPORTED, KERNEL, "a kernel that the model calls is not linked into this driver")          \
    X(40, KERNEL_UNLISTED, UCODE, COMMAND, "a call names a kernel that the kernels block does not list")               \
    X(41, SIGNATURE, UCODE, COMMAND, "a call has the wrong number of operands or parameters for its kernel")           \
    X(42, OPERAND_REGION, UCODE, COMMAND, "an operand names a region or index that does not exist")                    \
    X(43, OPERAND_RANGE, UCODE, COMMAND, "an operand leaves its region")                                               \
    X(44, OPERAND_ALIGNMENT, UCODE, COMMAND, "an operand that must be aligned to 16 is not")                           \
    X(45, OPERAND_READ_ONLY, UCODE, COMMAND, "a kernel would write to a region that is read only")                     \
    X(46, OPERAND_OVERLAP, UCODE, COMMAND, "an operand that a kernel writes overlaps another operand")                 \
    X(47, OPERAND_SIZE, UCODE, COMMAND, "an operand's size is not what the parameters need")                           \
    X(48, PARAMETER, UCODE, COMMAND, "a kernel parameter is outside its range")                                        \
    X(49, WINDOW, UCODE, COMMAND, "a window is entirely outside the map")                                              \
    X(50, REQUANT_COUNT, UCODE, COMMAND, "the number of requantization rows is wrong")                                 \
    X(51, REQUANT_ROW, UCODE, COMMAND, "a requantization row is outside its range")                                    \
    X(52, SOFTMAX_TABLE, UCODE, COMMAND, "a softmax table does not start with 2^30 or exceeds it")                     \
    X(53, OVERWRITE, UCODE, COMMAND, "a copy would write a byte twice")                                                \
    X(54, IN_FLIGHT, UCODE, COMMAND, "a call or fetch uses prefetched bytes before the wait for them")                 \
    X(55, RESIDENT, UCODE, COMMAND, "a resident fetch leaves the resident bytes or overwrites another")                \
    X(64, FETCH, INTERNAL_FAULT, COMMAND, "a copy of weights into the prefetch area failed or took too long")          \
    X(65, IO_COPY, INTERNAL_FAULT, TENSOR, "a copy of an input or output failed or took too long")                     \
    X(66, BUNDLE_VERSION, INVALID, NONE, "the bundle is of another version than this executor")                        \
    X(67, BUNDLE_CRC, INVALID, NONE, "the bundle's tables are damaged: their CRC-32 does not match")                   \
    X(68, BUNDLE_VALUE, INVALID, VALUE, "a value of the bundle leaves its memory or has an unknown type")              \
    X(69, BUNDLE_STEP, INVALID, STEP, "a step names what does not exist, or writes to a constant or another value")    \
    X(70, BUNDLE_CONSTANT, INVALID, CONSTANT, "a constant of the bundle is damaged: its CRC-32 does not match")        \
    X(71, MEMORY_SIZE, NO_MEMORY, MEMORY, "a memory given to the executor is smaller than the bundle needs")           \
    X(72, OPERATOR, INVALID, STEP, "a CPU operator got unsupported values or parameters")                              \
    X(73, DELEGATE, INVALID, STEP, "the values of a delegate's step do not match its microcode")                       \
    X(74, DELEGATE_BLOCK, INVALID, DELEGATE,                                                                           \
      "a block of a delegate does not exist, or is shorter than it says itself")                                       \
    X(75, BUNDLE_TENSOR, INVALID, TENSOR, "an input or output of the bundle names no value, or an input a constant")   \
    X(76, MEMORY_OVERLAP, INVALID, MEMORY, "a memory given to the executor overlaps one before it")                    \
    X(77, NPU_COPY, INTERNAL_FAULT, TENSOR, "a copy of a partition's input or output failed or took too long")         \
    X(78, NPU_BUSY, INTERNAL_FAULT, DELEGATE, "the NPU's driver has no free NPU: none was started, or all are in use") \
    X(79, NPU_RUN, INTERNAL_FAULT, FAULT, "the NPU's driver rejected the run of a partition, or it failed")            \
    X(80, IO_BUSY, INTERNAL_FAULT, TENSOR, "another run uses the port's copies of inputs and outputs")                 \
    X(81, ABORTED, GENERIC, COMMAND, "the function of `dtn_set_progress` aborted the run")                             \
    X(82, RUN_STATE, INVALID, NONE, "the executor has no run for this call, or an unfinished one")                     \
    X(83, TENSOR_INDEX, INVALID, TENSOR, "the program has no such input or output")                                    \
    X(84, BUFFER_SIZE, NO_MEMORY, TENSOR, "a buffer is smaller than the input or output that it is bound to")          \
    X(85, BUFFER_OVERLAP, INVALID, TENSOR,                                                                             \
      "a bound buffer overlaps a memory of the executor, a constant or another bound buffer")                          \
    X(86, BUFFER_SHARED, INVALID, TENSOR,                                                                              \
      "an input or output cannot be bound: other values share its bytes, or it is in a partition's scratch")           \
    X(87, STATE_LOST, INVALID, STEP, "a change of the state did not end: reset it, or load a saved state")             \
    X(88, STATE_SIZE, NO_MEMORY, NONE, "a buffer is smaller than a saved state of this program")                       \
    X(89, STATE_SAVED, INVALID, NONE, "a saved state is damaged or of another program, or this one has no state")

/** Reasons; internal functions return them, `DTN_OK` for none. */
typedef enum {
    DTN_OK = 0,
#define DTN_X(number, name, category, detail, text) DTN_REASON_##name = (number),
    DTN_REASONS(DTN_X)
#undef DTN_X
} dtn_reason_t;

/** The reason in an error of this driver. */
#define DTN_ERROR_REASON(error) ((dtn_reason_t)(GET_ERROR_CODE(error) & 0xFF))

/** The detail in an error of this driver. */
#define DTN_ERROR_DETAIL(error) ((uint32_t)GET_ERROR_CODE(error) >> 8)

/** The error for a reason; ENONE for DTN_OK. A detail above DTN_MAX_DETAIL is limited to it. */
NeutronError dtn_error(dtn_reason_t reason, uint32_t detail);

/**
 * Returns the text of an error, a static string without a full stop; "no error" for ENONE, "unknown error" for other
 * numbers. It is in its own translation unit: a device that does not call it does not link it.
 */
const char *dtn_error_string(NeutronError error);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ERRORS_H */
