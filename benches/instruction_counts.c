/*
 * A plugin of QEMU that counts how often each instruction is executed. Whenever the instruction at `mark` is, what has
 * been counted since the last time is written to a file, an address and a count per line, then a line with a dash.
 *
 *     -plugin instruction_counts.so,counts=FILE,mark=0x10000000
 *
 * QEMU's packages have no header: these are the functions of version 1 of its interface that this needs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_t;
typedef struct block block_t;
typedef struct instruction instruction_t;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_t plugin, void (*translated)(plugin_t plugin, block_t *block));
void qemu_plugin_register_atexit_cb(plugin_t plugin, void (*ended)(plugin_t plugin, void *data), void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(instruction_t *instruction, void (*executed)(unsigned core, void *data),
                                            int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(instruction_t *instruction, int operation, void *number,
                                                uint64_t addend);
size_t qemu_plugin_tb_n_insns(const block_t *block);
instruction_t *qemu_plugin_tb_get_insn(const block_t *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const instruction_t *instruction);

enum { ADD = 0, NO_REGISTERS = 0 };

/* Counters of the instructions of a page, which start at multiples of two bytes. */
enum { PAGE = 1 << 20, PAGES = 1 << 12 };
static uint64_t *pages[PAGES];
static uint64_t mark;
static FILE *file;

static void write_counts(unsigned core, void *data)
{
    (void)core;
    (void)data;
    for (uint64_t page = 0; page < PAGES; page++) {
        for (uint64_t i = 0; pages[page] != NULL && i < PAGE / 2; i++) {
            if (pages[page][i] != 0) {
                fprintf(file, "%llx %llu\n", (unsigned long long)(page * PAGE + 2 * i),
                        (unsigned long long)pages[page][i]);
                pages[page][i] = 0;
            }
        }
    }
    fputs("-\n", file);
}

static void translated(plugin_t plugin, block_t *block)
{
    (void)plugin;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        instruction_t *instruction = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(instruction);
        uint64_t **page = &pages[address / PAGE % PAGES];
        if (*page == NULL) {
            *page = (uint64_t *)calloc(PAGE / 2, sizeof **page);
        }
        if (address == mark) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, write_counts, NO_REGISTERS, NULL);
        }
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, &(*page)[address % PAGE / 2], 1);
    }
}

static void ended(plugin_t plugin, void *data)
{
    (void)plugin;
    (void)data;
    fclose(file);
}

EXPORTED int qemu_plugin_version = 1;

EXPORTED int qemu_plugin_install(plugin_t plugin, const void *info, int count, char **arguments)
{
    (void)info;
    for (int i = 0; i < count; i++) {
        if (strncmp(arguments[i], "counts=", 7) == 0) {
            file = fopen(arguments[i] + 7, "w");
        } else if (strncmp(arguments[i], "mark=", 5) == 0) {
            mark = strtoull(arguments[i] + 5, NULL, 0);
        }
    }
    if (file == NULL) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
    qemu_plugin_register_atexit_cb(plugin, ended, NULL);
    return 0;
}
