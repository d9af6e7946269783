/**
 * @file
 * The assembler of three rows of inputs by pairs of rows of weights, for matmul_s8_mve.c, matmul_s16_mve.c and
 * matmul_s4_mve.c.
 *
 * Per turn five loads and six multiplications, ordered so that hardly any two that use the same unit stand side by
 * side. The first turn of a pair starts the sums, the last one is predicated.
 *
 *   r1 x, r3 y, r5 z      rows of inputs
 *   r6 w, r7 v            rows of weights
 *   r0 xw, r2 xv, r4 yw, r8 yv, r10 zw, r12 zv   sums, which the instructions want in even registers
 *   r11 to, lr            where the sums go; the turns that are left
 *   q0 to q3              elements of w, v, and of inputs
 *   q4, q5                numbers for the end of a pair, and r7 of the caller
 *
 * Numbers for the end of a pair:
 *
 *   0  bytes of a row in whole turns
 *   1  elements behind the first turn
 *   2  bytes of the last turn behind the end of a row
 *   3  address of the end of the sums
 *
 * r7 points to the frame where compilers keep frames, and cannot be a clobber there. So the loop saves it, and has no
 * operands in memory. r9 is never used, since some platforms reserve it.
 */
#pragma once

/* clang-format off */

/* One turn; `between` follows the first load. */
#define DTN_MVE_PAIR_TURN(load_weights, weight_bytes, load_inputs, multiply, between)                                  \
    load_weights " q0, [r6], #" weight_bytes "\n"                                                                      \
    between                                                                                                            \
    load_inputs " q2, [r1], #16\n"                                                                                     \
    multiply " r0, q0, q2\n"                                                                                           \
    load_weights " q1, [r7], #" weight_bytes "\n"                                                                      \
    multiply " r2, q1, q2\n"                                                                                           \
    load_inputs " q3, [r3], #16\n"                                                                                     \
    multiply " r4, q0, q3\n"                                                                                           \
    load_inputs " q2, [r5], #16\n"                                                                                     \
    multiply " r8, q1, q3\n"                                                                                           \
    multiply " r10, q0, q2\n"                                                                                          \
    multiply " r12, q1, q2\n"

/** Stores the sums of a pair, and goes to the next one at label 1; `next_weights` moves r6 there from r2. */
#define DTN_MVE_PAIR_END(next_weights)                                                                                 \
    "strd r0, r2, [r11], #8\n"                                                                                         \
    "strd r4, r8, [r11, #56]\n"                                                                                        \
    "strd r10, r12, [r11, #120]\n"                                                                                     \
    "vmov r0, r2, %q[numbers][2], %q[numbers][0]\n"                                                                    \
    "vmov.32 r4, %q[numbers][3]\n"                                                                                     \
    "subs r1, r1, r0\n"                                                                                                \
    "subs r3, r3, r0\n"                                                                                                \
    "subs r5, r5, r0\n"                                                                                                \
    next_weights                                                                                                       \
    "cmp r11, r4\n"                                                                                                    \
    "bne 1b\n"

/** All pairs, of elements of type `type`; `loop` starts the turns behind the first, and may jump to label 3. */
#define DTN_MVE_ALL_PAIRS(load_weights, weight_bytes, load_inputs, type, loop)                                         \
    "vmov.32 q5[0], r7\n"                                                                                              \
    ".p2align 2\n"                                                                                                     \
    "1:\n"                                                                                                             \
    "vmov.32 lr, %q[numbers][1]\n"                                                                                     \
    DTN_MVE_PAIR_TURN(load_weights, weight_bytes, load_inputs, "vmladav." type, "add r7, r6, lr\n")                    \
    loop                                                                                                               \
    "2:\n"                                                                                                             \
    DTN_MVE_PAIR_TURN(load_weights, weight_bytes, load_inputs, "vmladava." type, "")                                   \
    "letp lr, 2b\n"                                                                                                    \
    "3:\n"                                                                                                             \
    DTN_MVE_PAIR_END("sub r6, r7, r2\n")                                                                               \
    "vmov.32 r7, q5[0]\n"

/* clang-format on */
