#include "segments.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "error.h"

namespace deuteron::runner
{
namespace
{

/* Slots of ExecuTorch's schema/program.fbs. */
enum { kSegments = 4, kSegmentOffset = 0, kSegmentBytes = 1 };

/* Offset of the header after the flatbuffer's identifier, its magic bytes, and its fields. */
constexpr size_t kHeaderAt = 8;
constexpr uint32_t kHeaderMagic = 0x30306865;
constexpr size_t kProgramBytesAt = kHeaderAt + 8;
constexpr size_t kSegmentsStartAt = kHeaderAt + 16;

} // namespace

std::vector<Segment> segments_of(const FileBytes &file)
{
    const bool has_header = read<uint32_t>(file, kHeaderAt) == kHeaderMagic;
    const uint64_t program_end = has_header ? read<uint64_t>(file, kProgramBytesAt) : file.size();
    const uint64_t base = has_header ? read<uint64_t>(file, kSegmentsStartAt) : file.size();
    std::vector<Segment> segments;
    for (const Table &table : Table::root(file).tables(kSegments)) {
        const uint64_t offset = table.scalar<uint64_t>(kSegmentOffset);
        const uint64_t bytes = table.scalar<uint64_t>(kSegmentBytes);
        const uint64_t space = base < file.size() ? file.size() - base : 0;
        if (bytes != 0 && (offset > space || bytes > space - offset)) {
            throw Failure("a segment ends after the file", damaged());
        }
        segments.push_back(bytes == 0 ? Segment{0, 0} : Segment{base + offset, base + offset + bytes});
    }
    std::vector<Segment> sorted = segments;
    std::sort(sorted.begin(), sorted.end(), [](const Segment &a, const Segment &b) { return a.start < b.start; });
    uint64_t end = program_end;
    const char *before = "program";
    for (const Segment &segment : sorted) {
        if (segment.end == 0) {
            continue;
        }
        if (segment.start < end) {
            throw Failure("a segment starts at byte " + std::to_string(segment.start) + ", inside the " + before +
                              " that ends at byte " + std::to_string(end),
                          damaged());
        }
        end = segment.end;
        before = "segment";
    }
    return segments;
}

} // namespace deuteron::runner
