/**
 * @file
 * Arm semihosting: files, console and exit of the attached debugger or emulator, without a C library.
 *
 * A core without a debugger stops at the first of these calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An open file. */
typedef int32_t dtn_file_t;

/** Result of a failed open. */
#define DTN_NO_FILE ((dtn_file_t) - 1)

/** Opens a file of the host to read, or to write from its start. */
dtn_file_t dtn_semihost_open(const char *name, bool write);

/** Closes an open file; returns false if the host could not write everything. */
bool dtn_semihost_close(dtn_file_t file);

/** Size of an open file in bytes, negative if unknown. */
int32_t dtn_semihost_size(dtn_file_t file);

/** True if all `bytes` were read. */
bool dtn_semihost_read(dtn_file_t file, void *data, size_t bytes);

/** True if all `bytes` were written. */
bool dtn_semihost_write(dtn_file_t file, const void *data, size_t bytes);

/** Writes a text to the host's console. */
void dtn_semihost_print(const char *text);

/** Writes a number, in decimal, or in hexadecimal with eight digits and the prefix `0x`. */
void dtn_semihost_print_number(uint32_t number);
void dtn_semihost_print_hex(uint32_t number);

/** Copies the command line, words separated by spaces, as a string; returns false if it does not fit. */
bool dtn_semihost_command_line(char *line, size_t bytes);

/** Ends the program with an exit status for the host. */
__attribute__((noreturn)) void dtn_semihost_exit(uint32_t status);
