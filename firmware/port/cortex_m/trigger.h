/**
 * @file
 * The pins for an energy meter of a board that has a `trigger.c` with `dtn_port_trigger` (deuteron/harness.h).
 */
#pragma once

/** Makes both pins outputs, low. */
void dtn_trigger_start(void);
