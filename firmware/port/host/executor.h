/**
 * @file
 * Bundles in a process of the host, for a caller without a C compiler such as `deuteron.board.host_executor`: it makes
 * the tables itself, and gets memories and an Ethos-U here.
 */
#pragma once

#include "deuteron/executor.h"

/** Sizes of the tables' structures and where their fields are, for the caller to compare with its own. */
extern const uint32_t dtn_host_layout[];

/** How many these are. */
extern const uint32_t dtn_host_layout_count;

/** A program with its memories. The executor is the first field: functions of deuteron/executor.h take it, too. */
typedef struct dtn_host dtn_host_t;

/** Allocates a program with its memories, for `dtn_host_prepare`; NULL if the host has no memory left. The tables stay
 * in use. */
dtn_host_t *dtn_host_create(const dtn_bundle_t *bundle);

/** Checks and prepares the bundle: `dtn_executor_init`. */
NeutronError dtn_host_prepare(dtn_host_t *host);

/** `dtn_executor_run`, with an Ethos-U for the partitions that need one. Runs of several threads take turns. */
NeutronError dtn_host_run(dtn_host_t *host, const void *const *inputs, void *const *outputs);

/** `dtn_executor_step`, as above. */
NeutronError dtn_host_step(dtn_host_t *host);

/** Steps that the last run finished: after an error of a step, its number. */
uint32_t dtn_host_steps(const dtn_host_t *host);

/** The start of a memory of the program. */
void *dtn_host_memory(const dtn_host_t *host, uint32_t index);

/** Frees the program and its memories. */
void dtn_host_destroy(dtn_host_t *host);
