/* Mutations of programs for fuzz_pte.
 *
 * ExecuTorch's own library is not under the sanitizers, and its use of invalid offsets is not tested here: the
 * flatbuffer keeps its form, and the runtime verifies it. The mutations reach our code:
 *
 * - segments and the padding after them;
 * - types, sizes, orders and places of tensors, numbers and lists;
 * - kinds of instructions, arguments of calls, moves, and jumps, which only go forwards;
 * - constants and payloads: the header, the microcode's header, and sometimes any byte. fuzz_driver changes the
 * commands of the microcode behind their CRC.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../runner/flatbuffer.h"

using deuteron::runner::FileBytes;

/* The alignment of payloads and their parts. */
constexpr size_t kAlignment = 16;
/* Where a payload has the orders of its tensors. */
constexpr size_t kFormatsAt = 3;

/* The kind of a field, which determines its new values. */
enum Kind { kIndex, kType, kSize, kOrder, kOffset, kNumber, kReal, kWord, kByte, kCall, kJump, kSegment, kKinds };

/* `count` items of the same kind side by side. */
struct Field {
    size_t at;
    size_t count;
    uint32_t bound; /* of indices and jumps */
    uint32_t least; /* of jumps */
};

/* The positions of a payload and its microcode. */
struct Microcode {
    size_t payload_at;
    size_t at;
    size_t bytes;
};

/* A program and where it can be changed. */
struct Subject {
    FileBytes bytes;
    std::vector<Field> fields[kKinds];
    std::vector<Microcode> microcodes;

    void add(Kind kind, size_t at, size_t count = 1, uint32_t bound = 0, uint32_t least = 0)
    {
        if (at != 0 && count != 0) {
            fields[kind].push_back({at, count, bound, least});
        }
    }
    void add(Kind kind, std::pair<size_t, size_t> vector, uint32_t bound = 0)
    {
        add(kind, vector.first, vector.second, bound);
    }
};

/* Reads a program. */
Subject subject_of(const char *path);

/* Makes one to three changes to `bytes`, a copy of the subject's. */
void mutate(uint64_t *state, const Subject &subject, FileBytes &bytes);
