/**
 * @file
 * Takes the events of runs off the device, for `deuteron profile --from-events`. Only with DTN_PROFILING.
 *
 * Each run gives one packet: `dtn_profile_header_t`, then as many `dtn_event_t` as it says, all words little-endian.
 * A file, or what a UART has sent, is packets without anything between them.
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

/** What ticks count. */
enum {
    DTN_PROFILE_TIME = 0,         /**< a clock of the chip */
    DTN_PROFILE_INSTRUCTIONS = 1, /**< instructions of an emulated core, told as time */
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
    uint32_t events; /**< that follow, in the order in which they stopped */
    uint32_t lost;   /**< for which there was no room */
    uint32_t crc;    /**< CRC-32 of all words before this one, then of the events */
} dtn_profile_header_t;

/** The hash of the program that the image was built for; `deuteron firmware --use-profiling` generates it. */
extern const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES];

/**
 * Takes one packet off the device, the bytes of the header and then those of the events: into a file of a debugger's
 * host, a buffer that someone reads later, out of a UART. Where there is no room for both, nothing may be kept.
 * The port's to provide; `port/template/events.c` is one to start from.
 *
 * @param events as many as the header says; NULL may be given for none.
 * @return false when the packet is lost.
 */
bool dtn_port_events(const dtn_profile_header_t *header, const dtn_event_t *events);

/**
 * Sends the packet of the last run, which succeeded. Not to be called during a run; takes no part in its times.
 *
 * @param run number of the run.
 * @param ticks_hz rate of `dtn_port_ticks`.
 * @param counts what these count.
 * @return false when the port lost the packet.
 */
bool dtn_profile_send(const dtn_executor_t *executor, uint32_t run, uint32_t ticks_hz, uint32_t counts);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_PROFILE_H */
