#include "segments.h"

#include <algorithm>
#include <cstdint>

#include "error.h"
#include "files.h"
#include "flatbuffer.h"

namespace deuteron::runner
{
namespace
{

/* Slots of ExecuTorch's schema/program.fbs. */
enum { kSegments = 4, kSegmentOffset = 0, kSegmentBytes = 1 };

/* Where the header behind the flatbuffer's identifier lies, its magic bytes, and its fields. */
constexpr size_t kHeaderAt = 8;
constexpr uint32_t kHeaderMagic = 0x30306865;
constexpr size_t kProgramBytesAt = kHeaderAt + 8;
constexpr size_t kSegmentsStartAt = kHeaderAt + 16;

/* Where segments start: behind the flatbuffer, unless the header says it. */
uint64_t start_of_segments(const FileBytes &file)
{
    if (read<uint32_t>(file, kHeaderAt) != kHeaderMagic) {
        return file.size();
    }
    const uint64_t start = read<uint64_t>(file, kSegmentsStartAt);
    return start != 0 ? start : read<uint64_t>(file, kProgramBytesAt);
}

} // namespace

void check_segments(const std::string &model)
{
    const FileBytes file = read_file(model);
    const uint64_t start = std::min<uint64_t>(start_of_segments(file), file.size());
    uint64_t left = file.size();
    for (const Table &segment : Table::root(file).tables(kSegments)) {
        const uint64_t offset = segment.scalar<uint64_t>(kSegmentOffset);
        const uint64_t bytes = segment.scalar<uint64_t>(kSegmentBytes);
        const uint64_t room = file.size() - start;
        const std::string what = offset > room || bytes > room - offset ? "a segment leaves the file"
                                 : bytes > left ? "its segments overlap: they take more bytes than the file has"
                                                : "";
        if (!what.empty()) {
            throw Failure("cannot load program `" + model + "`: " + what,
                          "the file is damaged or truncated: build it again");
        }
        left -= bytes;
    }
}

} // namespace deuteron::runner
