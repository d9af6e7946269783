#include "session.h"

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/executor/method_meta.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../observer.h"
#include "error.h"
#include "plan.h"

namespace deuteron::runner
{
namespace
{

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::etdump::ETDumpGen;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

/* The error's name and number, and the first line that the runtime logged about it. */
std::string describe(Error error)
{
    std::string text =
        std::string(executorch::runtime::to_string(error)) + " (" + std::to_string(static_cast<unsigned>(error)) + ")";
    char log[4096];
    if (deuteron_take_log(log, sizeof log) > 0) {
        const std::string lines = log;
        text += ": " + lines.substr(0, lines.find('\n'));
    }
    return text;
}

std::string choose_method(Module &module, const std::string &wanted)
{
    const Result<std::unordered_set<std::string>> found = module.method_names();
    if (!found.ok()) {
        throw Failure("cannot list the program's methods: " + describe(found.error()));
    }
    const std::string name = !wanted.empty() ? wanted : found->size() == 1 ? *found->begin() : std::string("forward");
    if (found->count(name) == 0) {
        std::string names;
        for (const std::string &each : *found) {
            names += (names.empty() ? "`" : ", `") + each + "`";
        }
        throw Failure("the program has no method `" + name + "`", "choose with `--method`: " + names);
    }
    return name;
}

/* Rejects a program whose segments or plans let it write to other memory than its own. */
void check_memory(const std::string &model)
{
    try {
        check_plans(read_file(model));
    } catch (const Failure &failure) {
        throw Failure("cannot load program `" + model + "`: " + failure.what(), failure.hint);
    } catch (const std::out_of_range &failure) {
        throw Failure("cannot load program `" + model + "`: " + failure.what(), damaged());
    }
}

size_t elements(const TensorInfo &info)
{
    size_t count = 1;
    for (const int32_t size : info.sizes()) {
        count *= static_cast<size_t>(size);
    }
    return count;
}

/* The bytes of an input tensor; a float tensor's file may have one unsigned byte per element instead. */
std::vector<uint8_t> load_input(const TensorInfo &info, const std::filesystem::path &path)
{
    std::vector<uint8_t> bytes = read_file(path);
    if (bytes.size() == info.nbytes()) {
        return bytes;
    }
    const bool is_float = info.scalar_type() == ScalarType::Float;
    if (!is_float || bytes.size() != elements(info)) {
        throw Failure("`" + path.string() + "` has " + std::to_string(bytes.size()) + " bytes; the input tensor has " +
                      std::to_string(info.nbytes()) +
                      (is_float ? ", or " + std::to_string(elements(info)) + " of unsigned 8-bit values" : ""));
    }
    std::vector<uint8_t> widened(info.nbytes());
    for (size_t i = 0; i < bytes.size(); i++) {
        const float value = bytes[i];
        std::memcpy(widened.data() + i * sizeof value, &value, sizeof value);
    }
    return widened;
}

/* A tensor of the program's type, shape and dim order over `bytes`. */
TensorPtr make_input(const TensorInfo &info, std::vector<uint8_t> bytes)
{
    return executorch::extension::make_tensor_ptr({info.sizes().begin(), info.sizes().end()}, std::move(bytes),
                                                  {info.dim_order().begin(), info.dim_order().end()}, {},
                                                  info.scalar_type());
}

/* A scalar value of the file. The runtime compares it with the value that the program was exported with.
 */
template <typename Value> Value load_value(const std::filesystem::path &path, const std::string &kind)
{
    const std::vector<uint8_t> bytes = read_file(path);
    if (bytes.size() != sizeof(Value)) {
        throw Failure("`" + path.string() + "` has " + std::to_string(bytes.size()) + " bytes; the input is a " + kind +
                      " of " + std::to_string(sizeof(Value)));
    }
    Value value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

/* An input that is not a tensor. The file of an omitted input is empty; or has an address, as ExecuTorch's tests for
 * Arm write it: NumPy's bytes of a None. */
EValue load_other(Tag tag, const std::filesystem::path &path, size_t index)
{
    switch (tag) {
    case Tag::Int:
        return EValue(load_value<int64_t>(path, "number"));
    case Tag::Double:
        return EValue(load_value<double>(path, "number"));
    case Tag::Bool:
        return EValue(load_value<uint8_t>(path, "truth value") != 0);
    case Tag::None:
        if (const size_t bytes = read_file(path).size(); bytes != 0 && bytes != sizeof(void *)) {
            throw Failure("`" + path.string() + "` has " + std::to_string(bytes) + " bytes; the input is None");
        }
        return EValue();
    default:
        throw Failure("input " + std::to_string(index) + " of the program is neither a tensor nor a number");
    }
}

/* The inputs of a sample; `tensors` owns their tensors. */
std::vector<EValue> load_inputs(const MethodMeta &meta, const Sample &sample, std::vector<TensorPtr> &tensors)
{
    if (meta.num_inputs() != sample.inputs.size()) {
        throw Failure("sample `" + sample.name + "` has " + std::to_string(sample.inputs.size()) +
                          " input file(s), the program has " + std::to_string(meta.num_inputs()),
                      "`--inputs DIR,DIR..` expects one directory per sample with one file per input");
    }
    std::vector<EValue> inputs;
    for (size_t i = 0; i < meta.num_inputs(); i++) {
        const Result<Tag> tag = meta.input_tag(i);
        if (!tag.ok()) {
            throw Failure("cannot describe input " + std::to_string(i) + ": " + describe(tag.error()));
        }
        if (*tag != Tag::Tensor) {
            inputs.push_back(load_other(*tag, sample.inputs[i], i));
            continue;
        }
        const Result<TensorInfo> info = meta.input_tensor_meta(i);
        if (!info.ok()) {
            throw Failure("cannot describe input " + std::to_string(i) + ": " + describe(info.error()));
        }
        tensors.push_back(make_input(*info, load_input(*info, sample.inputs[i])));
        inputs.emplace_back(tensors.back());
    }
    return inputs;
}

/* `0007.bin`: names sort in the order of the outputs. */
std::string output_name(size_t index)
{
    const std::string digits = std::to_string(index);
    return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits + ".bin";
}

} // namespace

Session::Session(const std::string &model, const std::string &method)
    : module_(model, Module::LoadMode::File, std::make_unique<ETDumpGen>())
{
    deuteron_keep_log();
    /* Verified, because the runtime follows the offsets of an unverified flatbuffer. */
    const Error loaded = module_.load(Program::Verification::InternalConsistency);
    if (loaded != Error::Ok) {
        throw Failure("cannot load program `" + model + "`: " + describe(loaded), "give a .pte file of ExecuTorch");
    }
    check_memory(model);
    method_ = choose_method(module_, method);
    const Error ready = module_.load_method(method_);
    if (ready != Error::Ok) {
        throw Failure("cannot load method `" + method_ + "` of `" + model + "`: " + describe(ready),
                      "build the program again with the versions that `deuteron doctor` shows");
    }
}

size_t Session::run(const Sample &sample, const std::filesystem::path &directory)
{
    const Result<MethodMeta> meta = module_.method_meta(method_);
    if (!meta.ok()) {
        throw Failure("cannot describe method `" + method_ + "`: " + describe(meta.error()));
    }
    std::vector<TensorPtr> tensors;
    const std::vector<EValue> inputs = load_inputs(*meta, sample, tensors);
    const Result<std::vector<EValue>> outputs = module_.execute(method_, inputs);
    if (!outputs.ok()) {
        throw Failure("method `" + method_ + "` failed on sample `" + sample.name + "`: " + describe(outputs.error()));
    }
    for (size_t i = 0; i < outputs->size(); i++) {
        const EValue &value = (*outputs)[i];
        if (!value.isTensor() || value.toTensor().const_data_ptr() == nullptr) {
            throw Failure("output " + std::to_string(i) + " of the program is not a tensor with memory");
        }
        const Tensor tensor = value.toTensor();
        write_file(directory / output_name(i), tensor.const_data_ptr(), tensor.nbytes());
    }
    return outputs->size();
}

void Session::write_trace(const std::filesystem::path &path)
{
    const auto dump = static_cast<ETDumpGen *>(module_.event_tracer())->get_etdump_data();
    const std::unique_ptr<void, decltype(&std::free)> owner(dump.buf, &std::free);
    if (dump.buf == nullptr || dump.size == 0) {
        throw Failure("the runtime recorded no events");
    }
    write_file(path, dump.buf, dump.size);
}

} // namespace deuteron::runner
