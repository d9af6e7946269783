/**
 * @file
 * Runs a bundle by requests over a serial line: the device side of `spec/harness.md`.
 *
 * An application prepares an executor, describes it in a `dtn_harness_t`, and calls `dtn_harness_poll` forever. The
 * port provides two functions, `dtn_port_getc` and `dtn_port_putc`. Nothing here allocates, recurses, or needs a timer.
 * Memory in addition to the program: one `dtn_harness_t`, and the events that the application gives the executor.
 */
#ifndef DEUTERON_HARNESS_H
#define DEUTERON_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/bundle.h"
#include "deuteron/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the protocol. */
#define DTN_HARNESS_PROTOCOL 1

/** Most bytes of data in a frame, a multiple of 4 from 256 to 65,536. More are faster and need as much RAM. */
#ifndef DTN_HARNESS_BLOCK_BYTES
#define DTN_HARNESS_BLOCK_BYTES 256
#endif

enum { DTN_HARNESS_HEADER_BYTES = 8, DTN_HARNESS_CRC_BYTES = 4, DTN_HARNESS_NAME_BYTES = 24 };

/** Commands. */
enum {
    DTN_HARNESS_IDENTIFY = 0,
    DTN_HARNESS_RESET = 1,
    DTN_HARNESS_WRITE = 2,
    DTN_HARNESS_READ = 3,
    DTN_HARNESS_CHECKSUM = 4,
    DTN_HARNESS_RUN = 5,
};

/** Statuses of replies. */
enum {
    DTN_HARNESS_OK = 0,
    DTN_HARNESS_DAMAGED = 1,   /**< a frame whose bytes are damaged: send it again */
    DTN_HARNESS_VERSION = 2,   /**< another version of the protocol */
    DTN_HARNESS_SESSION = 3,   /**< another session than the one of the last DTN_HARNESS_IDENTIFY, or none */
    DTN_HARNESS_SEQUENCE = 4,  /**< neither the last request again nor the next one */
    DTN_HARNESS_COMMAND = 5,   /**< an unknown command */
    DTN_HARNESS_LENGTH = 6,    /**< not the number of bytes that the command takes */
    DTN_HARNESS_RANGE = 7,     /**< not in the area, or not writable */
    DTN_HARNESS_PROGRAM = 8,   /**< the executor returned an error, which follows */
    DTN_HARNESS_RUN_STATE = 9, /**< no run that can continue */
    DTN_HARNESS_FAULT = 10,    /**< the processor stopped with a fault, whose data follow */
};

/** Unit of ticks in an emulator that does not count instructions as the image expects. */
#define DTN_HARNESS_NO_UNIT UINT32_C(2)

/** Areas of memory that can be read; inputs and the state can also be written. */
enum {
    DTN_HARNESS_INPUT = 0,  /**< index: input of the program */
    DTN_HARNESS_OUTPUT = 1, /**< index: output of the program, after a run */
    DTN_HARNESS_VALUE = 2,  /**< index: value of the bundle, constants included */
    DTN_HARNESS_STATE = 3,  /**< the tensors of the state, one after the other */
    DTN_HARNESS_EVENTS = 4, /**< the events of the last run, as `dtn_event_t` */
};

/** Result of a run, which `DTN_HARNESS_RUN` returns. */
typedef struct {
    uint32_t error;      /**< a NeutronError, 0 for none */
    uint32_t step;       /**< completed steps */
    uint32_t start;      /**< ticks when the run, or its continuation, started */
    uint32_t stop;       /**< and stopped */
    uint32_t stack_used; /**< maximum bytes of the stack in use since start-up, 0 if unknown */
    uint32_t events;     /**< recorded events of the run */
    uint32_t lost;       /**< events that did not fit */
} dtn_harness_run_t;

/** Facts about the board and the program, from the application. */
typedef struct {
    const char *board;      /**< its name, shorter than DTN_HARNESS_NAME_BYTES */
    const uint8_t *program; /**< SHA-256 of the .pte that the bundle was made from, 32 bytes */
    uint32_t core_hz;       /**< rate of the core */
    uint32_t ticks_hz;      /**< rate of `dtn_port_ticks` */
    uint32_t tick_unit;     /**< DTN_PROFILE_TIME or DTN_PROFILE_INSTRUCTIONS (deuteron/profile.h), or
                               DTN_HARNESS_NO_UNIT */
    uint32_t core;          /**< the CPUID register of the core, 0 if unknown */
    uint32_t stack_bytes;   /**< size of the stack, 0 if unknown */
    uint32_t init_error;    /**< result of `dtn_executor_init`: after an error, runs return it */
    uint32_t init_ticks;    /**< ticks that it took */
    bool is_npu_emulated;   /**< the core executes the commands of the program's NPU */
} dtn_harness_info_t;

/** A frame while it arrives, and the reply to it. The fields are private. */
typedef struct {
    uint32_t count; /* decoded bytes; more than the buffer has if the frame is too long */
    uint8_t left;   /* bytes until the next code of COBS */
    bool adds_zero; /* a zero follows these bytes, unless the frame ends */
    bool has_bytes; /* since the last zero */
    uint8_t bytes[DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES + DTN_HARNESS_CRC_BYTES];
} dtn_frame_t;

/** One harness. The caller sets `info`, `bundle` and `executor`, and all else to 0. */
typedef struct {
    dtn_harness_info_t info;
    const dtn_bundle_t *bundle;
    dtn_executor_t *executor; /**< prepared; its events are recorded if it has memory for them */
    uint32_t session;         /* the rest is private */
    uint16_t sequence;
    uint8_t command;    /* of that sequence number */
    uint8_t run_status; /* of the last run */
    bool is_resumable;
    dtn_harness_run_t run;
    dtn_frame_t frame;
} dtn_harness_t;

/** Handles the bytes that have arrived, and replies to each complete frame; returns when there are no more. A request
 * for a run returns after the run. */
void dtn_harness_poll(dtn_harness_t *harness);

/** Replies to the last request, if there was one, that the processor stopped with a fault, with data about it, such as
 * `dtn_fault_t`, and after them the completed steps of the run. At most a block is sent. For a fault handler, which
 * must not return to the harness. */
void dtn_harness_fault(dtn_harness_t *harness, const void *data, uint32_t bytes);

/**
 * @name Functions of the port
 * @{
 */

/** Returns the next byte of the line, or -1 if none has arrived. It may first sleep until an interrupt, if it checks
 * for a byte with interrupts disabled (PRIMASK), executes WFI, and enables them after it: a byte between check and WFI
 * then still ends the sleep. Bytes that arrive during a run may be lost: the host sends them again. */
int32_t dtn_port_getc(void);

/** Sends a byte, waiting for space if needed; returns false if the line takes none within the port's time limit, after
 * which the rest of the reply is dropped. */
bool dtn_port_putc(uint8_t byte);

/** Maximum bytes of the stack in use since start-up, or 0. `port/cortex_m/startup.c` has it. */
uint32_t dtn_stack_used(void);

/** Optional: drives a pin of an energy meter to a level. The run pin is high during a run, or a part of one that RUN
 * asks for. The step pin is low before it, changes at the start of each step, and is low again after the run: a meter
 * sees each edge, also if nothing separates two steps. Steps that the executor runs in one call, as those that change a
 * state, have one edge. Link it as an object: the reference is weak. */
void dtn_port_trigger(uint32_t pin, bool level);

/** Pins of `dtn_port_trigger`. */
enum { DTN_TRIGGER_RUN = 0, DTN_TRIGGER_STEP = 1 };

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_HARNESS_H */
