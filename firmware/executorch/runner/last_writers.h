/* The instruction that wrote each byte of a memory last. */
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "plan_values.h"

namespace deuteron::runner
{

/* The last writers of the bytes of a memory. */
class LastWriters
{
  public:
    /* The last writer of another extent to some of these bytes, "" if there is none. */
    std::string foreign(const Extent &extent) const
    {
        for (auto at = first_of(extent.start); at != sections_.end() && at->first < extent.end; ++at) {
            if (at->second.end > extent.start && !(at->second.extent == extent)) {
                return at->second.who;
            }
        }
        return "";
    }
    void take(const Extent &extent, const std::string &who)
    {
        split(extent.start);
        split(extent.end);
        sections_.erase(sections_.lower_bound(extent.start), sections_.lower_bound(extent.end));
        sections_[extent.start] = {extent.end, extent, who};
    }

  private:
    struct Section {
        uint64_t end;
        Extent extent;
        std::string who;
    };

    /* The last section that starts at or before a byte, or the first one. */
    std::map<uint64_t, Section>::const_iterator first_of(uint64_t byte) const
    {
        auto at = sections_.upper_bound(byte);
        return at == sections_.begin() ? at : std::prev(at);
    }
    /* Splits a section at a byte. */
    void split(uint64_t byte)
    {
        const auto at = sections_.upper_bound(byte);
        if (at == sections_.begin()) {
            return;
        }
        const auto before = std::prev(at);
        if (before->first < byte && before->second.end > byte) {
            sections_[byte] = before->second;
            before->second.end = byte;
        }
    }

    std::map<uint64_t, Section> sections_;
};

} // namespace deuteron::runner
