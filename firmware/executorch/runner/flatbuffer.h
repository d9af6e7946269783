/* Reads the tables of a flatbuffer; a read outside its bytes throws. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace deuteron::runner
{

using FileBytes = std::vector<uint8_t>;

template <typename T> T read(const FileBytes &bytes, size_t at)
{
    if (at > bytes.size() || sizeof(T) > bytes.size() - at) {
        throw std::out_of_range("an offset of the program is out of range");
    }
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/* One table: positions and fields by slot number, in the order of the schema; a union has two slots. */
class Table
{
  public:
    Table(const FileBytes &bytes, size_t at) : bytes_(&bytes), at_(at)
    {
    }
    static Table root(const FileBytes &bytes)
    {
        return Table(bytes, read<uint32_t>(bytes, 0));
    }

    /* Position of a field, 0 if the table does not have it. */
    size_t field(size_t slot) const
    {
        const size_t vtable = at_ - static_cast<size_t>(ptrdiff_t{read<int32_t>(*bytes_, at_)});
        const size_t entry = 4 + 2 * slot;
        if (entry >= read<uint16_t>(*bytes_, vtable)) {
            return 0;
        }
        const uint16_t offset = read<uint16_t>(*bytes_, vtable + entry);
        return offset == 0 ? 0 : at_ + offset;
    }
    template <typename T> T scalar(size_t slot) const
    {
        const size_t at = field(slot);
        return at == 0 ? T{} : read<T>(*bytes_, at);
    }
    /* Start and number of the items of a vector. */
    std::pair<size_t, size_t> vector(size_t slot) const
    {
        const size_t at = field(slot);
        if (at == 0) {
            return {0, 0};
        }
        const size_t start = at + read<uint32_t>(*bytes_, at);
        return {start + 4, read<uint32_t>(*bytes_, start)};
    }
    /* The bytes of a byte vector or a string. */
    std::string bytes(size_t slot) const
    {
        const auto [start, count] = vector(slot);
        if (start > bytes_->size() || count > bytes_->size() - start) {
            throw std::out_of_range("a vector of the program is out of range");
        }
        return std::string(bytes_->begin() + static_cast<ptrdiff_t>(start),
                           bytes_->begin() + static_cast<ptrdiff_t>(start + count));
    }
    /* The items of a vector of numbers. */
    template <typename T> std::vector<T> numbers(size_t slot) const
    {
        const auto [start, count] = vector(slot);
        std::vector<T> found;
        for (size_t i = 0; i < count; i++) {
            found.push_back(read<T>(*bytes_, start + i * sizeof(T)));
        }
        return found;
    }
    /* The table in a required field. */
    Table table(size_t slot) const
    {
        const size_t at = field(slot);
        return Table(*bytes_, at + read<uint32_t>(*bytes_, at));
    }
    /* The tables of a vector. */
    std::vector<Table> tables(size_t slot) const
    {
        const auto [start, count] = vector(slot);
        std::vector<Table> found;
        for (size_t i = 0; i < count; i++) {
            const size_t at = start + 4 * i;
            found.emplace_back(*bytes_, at + read<uint32_t>(*bytes_, at));
        }
        return found;
    }

  private:
    const FileBytes *bytes_;
    size_t at_;
};

} // namespace deuteron::runner
