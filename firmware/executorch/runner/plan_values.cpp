#include "plan_values.h"

#include <algorithm>

#include "error.h"

namespace deuteron::runner
{
namespace
{

/* Members of a union, and slots, of ExecuTorch's schema/program.fbs. */
enum { kTensor = 5, kTensorList = 10, kOptionalTensorList = 11 };
enum { kScalarType = 0, kSizes = 2, kBuffer = 5, kPlace = 6, kExtra = 9, kLocation = 2 };

constexpr uint64_t kMostBytes = uint64_t{1} << 62;

uint64_t item_bytes(int8_t type)
{
    switch (type) {
    case 0:
    case 1:
    case 11:
        return 1;
    case 2:
    case 5:
    case 15:
    case 27:
        return 2;
    case 3:
    case 6:
    case 28:
        return 4;
    case 4:
    case 7:
    case 29:
        return 8;
    default:
        refuse("a tensor has the unknown scalar type " + std::to_string(type));
    }
}

Value tensor_of(const Table &table)
{
    Value value;
    value.is_tensor = true;
    value.bytes = item_bytes(table.scalar<int8_t>(kScalarType));
    const std::vector<int32_t> sizes = table.numbers<int32_t>(kSizes);
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
        value.bytes = 0;
    }
    for (const int32_t size : sizes) {
        check(size >= 0 && (size == 0 || value.bytes <= kMostBytes / static_cast<uint64_t>(size)),
              "a tensor has a size of " + std::to_string(size));
        value.bytes *= static_cast<uint64_t>(size);
    }
    const bool external = table.field(kExtra) != 0 && table.table(kExtra).scalar<int8_t>(kLocation) != 0;
    value.has_content = external || table.scalar<uint32_t>(kBuffer) > 0;
    if (table.field(kPlace) != 0) {
        const Table place = table.table(kPlace);
        const uint64_t offset = place.scalar<uint32_t>(1) + (uint64_t{place.scalar<uint32_t>(2)} << 32);
        check(offset <= kMostBytes, "a tensor starts at byte " + std::to_string(offset) + " of its memory");
        value.is_placed = true;
        value.place = Extent{place.scalar<uint32_t>(0), offset, offset + value.bytes};
    } else {
        value.is_constant = value.has_content;
    }
    return value;
}

} // namespace

[[noreturn]] void refuse(const std::string &what)
{
    throw Failure(what, damaged());
}

void check(bool good, const std::string &what)
{
    if (!good) {
        refuse(what);
    }
}

Value value_of(const Table &table)
{
    Value value;
    switch (table.scalar<uint8_t>(0)) {
    case kTensor:
        return tensor_of(table.table(1));
    case kTensorList:
    case kOptionalTensorList:
        for (const int32_t item : table.table(1).numbers<int32_t>(0)) {
            if (item != -1) {
                value.items.push_back(item);
            }
        }
        return value;
    default:
        return value;
    }
}

} // namespace deuteron::runner
