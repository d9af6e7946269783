/* The payload parser on sound, damaged, truncated and random payloads. Built with the address sanitizer; each payload
 * is at the end of its allocation, so that a read outside ends the test. */
#include "payload.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace
{

using deuteron::Bytes;
using deuteron::Payload;
using executorch::runtime::Error;

constexpr size_t kMicrocodeAt = 16; /* 3 counts, 3 formats, 3 map entries and the version fit in one block */
constexpr size_t kMicrocodeBytes = 112;
constexpr size_t kWeightsAt = kMicrocodeAt + kMicrocodeBytes;
constexpr size_t kKernelsAt = kWeightsAt + 32;
constexpr size_t kBytes = kKernelsAt + 16;

int failures = 0;

void expect(bool good, const char *what, size_t at)
{
    if (!good) {
        std::printf("%s (%zu)\n", what, at);
        failures++;
    }
}

void put(std::vector<uint8_t> &bytes, size_t at, uint32_t value)
{
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

void put_word(std::vector<uint8_t> &bytes, size_t word, uint32_t value)
{
    put(bytes, kMicrocodeAt + 4 * word, value);
}

/* Two inputs (arguments 1 and 0 of 2), one output, 112 bytes of microcode, 32 of weights, two kernels. */
std::vector<uint8_t> sound()
{
    std::vector<uint8_t> bytes(kBytes);
    const uint8_t header[] = {2, 1, 2, 0, 1, 1, 1, 0, 0, 0};
    std::memcpy(bytes.data(), header, sizeof header);
    put_word(bytes, 0, 0x64434D6E);
    put_word(bytes, 1, 0x314E5444);
    put_word(bytes, 6, kMicrocodeBytes);
    put_word(bytes, 7, 32);
    put_word(bytes, 9, 64);
    put_word(bytes, 10, 48);
    put_word(bytes, 11, 2);
    put_word(bytes, 12, 1);
    put_word(bytes, 20, 100);
    put_word(bytes, 21, 200);
    put_word(bytes, 22, 300);
    put(bytes, kKernelsAt, 2);
    return bytes;
}

/* Parses a copy with nothing behind it, `shift` bytes off the alignment. */
Error parse(const std::vector<uint8_t> &bytes, Payload *payload, size_t shift = 0)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 16, bytes.size() + shift) != 0) {
        std::abort();
    }
    uint8_t *const block = static_cast<uint8_t *>(memory);
    std::memcpy(block + shift, bytes.data(), bytes.size());
    const Error error = deuteron::parse_payload(Bytes(block + shift, bytes.size()), payload);
    if (error == Error::Ok) {
        const uint8_t *const end = block + shift + bytes.size();
        const Bytes views[] = {payload->microcode,      payload->weights,   payload->kernels,   payload->input_formats,
                               payload->output_formats, payload->input_map, payload->output_map};
        for (const Bytes &view : views) {
            expect(view.data() >= block && view.data() + view.size() <= end, "a view leaves the payload", view.size());
        }
        for (size_t i = 0; i < payload->inputs(); i++) {
            expect(payload->input_map[i] < payload->input_args, "an argument is out of range", i);
            (void)payload->input_bytes(i);
        }
        for (size_t i = 0; i < payload->outputs(); i++) {
            (void)payload->output_bytes(i);
        }
    }
    std::free(block);
    return error;
}

void test_sound()
{
    Payload payload = {};
    expect(parse(sound(), &payload) == Error::Ok, "a sound payload is refused", 0);
    expect(payload.inputs() == 2 && payload.outputs() == 1 && payload.input_args == 2, "counts", 0);
    expect(payload.scratch_bytes == 64 && payload.prefetch_bytes == 48 && payload.profile_bytes == 0, "sizes", 0);
    expect(payload.microcode.size() == kMicrocodeBytes && payload.weights.size() == 32 && payload.kernels.size() == 12,
           "blocks", 0);

    std::vector<uint8_t> profiled = sound();
    profiled[9] = 1;
    put_word(profiled, 3, 1);
    const uint32_t layout_b[] = {160, 0, 48, 2, 1};
    std::memcpy(profiled.data() + kMicrocodeAt + 40, layout_b, sizeof layout_b);
    expect(parse(profiled, &payload) == Error::Ok, "a profiled payload is refused", 0);
    expect(payload.profile_bytes == 160 && payload.prefetch_bytes == 48, "layout B", 0);
}

void test_damaged()
{
    struct Damage {
        const char *what;
        size_t at;
        uint32_t value;
        Error error;
    };
    const Damage bytes[] = {
        {"an input map entry", 6, 2, Error::InvalidProgram}, {"an input format", 3, 2, Error::InvalidProgram},
        {"an output format", 5, 7, Error::InvalidProgram},   {"the version", 9, 2, Error::DelegateInvalidCompatibility},
        {"profiling", 9, 1, Error::InvalidProgram},          {"an output map entry", 8, 1, Error::InvalidProgram},
    };
    const Damage words[] = {
        {"the magic word", 0, 0, Error::InvalidProgram},
        {"a vendor's word 1", 1, 0, Error::DelegateInvalidCompatibility},
        {"the flags", 3, 1, Error::InvalidProgram},
        {"a short microcode", 6, 80, Error::InvalidProgram},
        {"an odd microcode", 6, 100, Error::InvalidProgram},
        {"a long microcode", 6, 0x100000, Error::InvalidProgram},
        {"an odd weights size", 7, 8, Error::InvalidProgram},
        {"long weights", 7, 0xFFFFFFF0, Error::InvalidProgram},
        {"the inputs", 11, 3, Error::InvalidProgram},
        {"the outputs", 12, 0, Error::InvalidProgram},
        {"the kernel count", (kKernelsAt - kMicrocodeAt) / 4, 4, Error::InvalidProgram},
        {"a huge kernel count", (kKernelsAt - kMicrocodeAt) / 4, 0xFFFFFFFF, Error::InvalidProgram},
    };
    Payload payload = {};
    for (const Damage &damage : bytes) {
        std::vector<uint8_t> broken = sound();
        broken[damage.at] = static_cast<uint8_t>(damage.value);
        expect(parse(broken, &payload) == damage.error, damage.what, damage.at);
    }
    for (const Damage &damage : words) {
        std::vector<uint8_t> broken = sound();
        put_word(broken, damage.at, damage.value);
        expect(parse(broken, &payload) == damage.error, damage.what, damage.at);
    }
    expect(parse(sound(), &payload, 8) == Error::InvalidProgram, "misalignment", 8);
}

void test_truncated()
{
    Payload payload = {};
    const size_t needed = kKernelsAt + 12; /* the rest is padding */
    for (size_t size = 0; size < needed; size++) {
        std::vector<uint8_t> cut = sound();
        cut.resize(size);
        expect(parse(cut, &payload) == Error::InvalidProgram, "a truncated payload is taken", size);
    }
}

void test_random()
{
    uint32_t state = 1;
    const auto next = [&state](uint32_t bound) {
        state = state * 1664525 + 1013904223;
        return (state >> 8) % bound;
    };
    Payload payload = {};
    for (int run = 0; run < 20000; run++) {
        std::vector<uint8_t> bytes = sound();
        for (uint32_t flips = next(4) + 1; flips > 0; flips--) {
            bytes[next(static_cast<uint32_t>(bytes.size()))] = static_cast<uint8_t>(next(256));
        }
        bytes.resize(bytes.size() - next(3) * next(40));
        (void)parse(bytes, &payload);
    }
}

} // namespace

int main()
{
    test_sound();
    test_damaged();
    test_truncated();
    test_random();
    return failures == 0 ? 0 : 1;
}
