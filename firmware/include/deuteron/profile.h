/**
 * @file
 * Sends the events of runs off the device, for `deuteron profile --from-events`. Only with DTN_PROFILING.
 *
 * Each run gives one packet: `dtn_profile_header_t`, then its number of `dtn_event_t`, all words little-endian. A file,
 * or the output of a UART, is a sequence of packets without separators.
 */
#ifndef DEUTERON_PROFILE_H
#define DEUTERON_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DTN_PROFILE_MAGIC UINT32_C(0x504E5444) /**< bytes `DTNP` */
#define DTN_PROFILE_VERSION UINT32_C(1)
#define DTN_PROGRAM_HASH_BYTES 32

/** Unit of ticks. */
enum {
    DTN_PROFILE_TIME = 0,         /**< a clock of the chip */
    DTN_PROFILE_INSTRUCTIONS = 1, /**< instructions of an emulated core, as time */
};

/** Start of a packet. */
typedef struct {
    uint32_t magic;
    uint32_t version;
    uint8_t program[DTN_PROGRAM_HASH_BYTES]; /**< SHA-256 of the .pte that the bundle was made from */
    uint32_t ticks_hz;                       /**< rate of all ticks here */
    uint32_t counts;                         /**< DTN_PROFILE_TIME or DTN_PROFILE_INSTRUCTIONS */
    uint32_t run;                            /**< number of the run, from 0 */
    uint32_t start;                          /**< when it started and stopped */
    uint32_t stop;
    uint32_t events; /**< number of following events, in the order of their stops */
    uint32_t lost;   /**< number of events that did not fit */
    uint32_t crc;    /**< CRC-32 of all words before this one, then of the events */
} dtn_profile_header_t;

/** The hash of the program that the image was built for; `deuteron firmware --use-profiling` generates it. */
extern const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES];

/**
 * Sends one packet off the device, the bytes of the header and then those of the events: to a file of a debugger's
 * host, to a buffer, or to a UART. If there is no space for both, nothing may be kept. The port provides this function;
 * `port/template/events.c` is a starting point.
 *
 * @param events as many as in the header; may be NULL for none.
 * @return false if the packet is lost.
 */
bool dtn_port_events(const dtn_profile_header_t *header, const dtn_event_t *events);

/**
 * Sends the packet of the last run, which succeeded. Must not be called during a run; does not affect its times.
 *
 * @param run number of the run.
 * @param ticks_hz rate of `dtn_port_ticks`.
 * @param counts their unit.
 * @return false if the port lost the packet.
 */
bool dtn_profile_send(const dtn_executor_t *executor, uint32_t run, uint32_t ticks_hz, uint32_t counts);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_PROFILE_H */
