/* The toy family for ExecuTorch's runtime on a host. */
#include <executorch/runtime/backend/interface.h>

#include <cstring>

namespace
{

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

class ToyBackend final : public executorch::runtime::BackendInterface
{
  public:
    bool is_available() const override
    {
        return true;
    }

    Result<DelegateHandle *> init(BackendInitContext &, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec>) const override
    {
        const bool is_toy = processed->size() == 16 && std::memcmp(processed->data(), "TOY1", 4) == 0;
        ET_CHECK_OR_RETURN_ERROR(is_toy, InvalidProgram, "This is no negation");
        return const_cast<void *>(processed->data());
    }

    Error execute(BackendExecutionContext &, DelegateHandle *handle, Span<EValue *> args) const override
    {
        uint32_t count = 0;
        std::memcpy(&count, static_cast<const uint8_t *>(handle) + 4, sizeof(count));
        const auto input = args[0]->toTensor();
        auto output = args[1]->toTensor();
        ET_CHECK_OR_RETURN_ERROR(input.nbytes() == count && output.nbytes() == count, InvalidArgument,
                                 "The negation is of %u values", static_cast<unsigned>(count));
        const int8_t *const from = input.const_data_ptr<int8_t>();
        int8_t *const to = output.mutable_data_ptr<int8_t>();
        for (uint32_t i = 0; i < count; i++) {
            to[i] = static_cast<int8_t>(-from[i]);
        }
        return Error::Ok;
    }
};

ToyBackend backend;
const Error registered = executorch::runtime::register_backend({"ToyBackend", &backend});

} // namespace
