#include "wire/args_blob.h"

#include <limits>
#include <string>

#include "base/status_macros.h"

namespace simpler::wire {
namespace {

Status bad(std::string text) {
  return corrupt("argument blob: " + std::move(text));
}

}  // namespace

Result<Tensor> TaskArgsView::tensor(int64_t index) const {
  if (index < 0 || index >= tensor_count) {
    return out_of_range("tensor " + std::to_string(index) + " of " + std::to_string(tensor_count));
  }
  Tensor tensor;
  std::memcpy(static_cast<void*>(&tensor), tensor_bytes + static_cast<uint64_t>(index) * sizeof(Tensor), sizeof tensor);
  SIMPLER_RETURN_IF_ERROR(validate(tensor).context("tensor " + std::to_string(index)));
  return tensor;
}

Result<uint64_t> TaskArgsView::scalar(int64_t index) const {
  if (index < 0 || index >= scalar_count) {
    return out_of_range("scalar " + std::to_string(index) + " of " + std::to_string(scalar_count));
  }
  uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const uint8_t*>(scalars) + static_cast<uint64_t>(index) * sizeof value,
              sizeof value);
  return value;
}

Result<uint64_t> write_blob(std::span<std::byte> out, std::span<const Tensor> tensors,
                            std::span<const uint64_t> scalars) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  if (tensors.size() > kMost || scalars.size() > kMost) return invalid_argument("argument blob: too many arguments");
  const uint64_t bytes = blob_bytes(tensors.size(), scalars.size());
  if (bytes > out.size()) {
    return invalid_argument("argument blob: " + std::to_string(tensors.size()) + " tensors and " +
                            std::to_string(scalars.size()) + " scalars need " + std::to_string(bytes) + " bytes, " +
                            std::to_string(out.size()) + " are available");
  }
  const int32_t counts[2] = {static_cast<int32_t>(tensors.size()), static_cast<int32_t>(scalars.size())};
  std::byte* at = out.data();
  std::memcpy(at, counts, sizeof counts);
  at += sizeof counts;
  if (!tensors.empty()) std::memcpy(at, tensors.data(), tensors.size_bytes());
  at += tensors.size_bytes();
  if (!scalars.empty()) std::memcpy(at, scalars.data(), scalars.size_bytes());
  return bytes;
}

Result<TaskArgsView> read_blob(std::span<const std::byte> bytes) {
  int32_t counts[2];
  if (bytes.size() < sizeof counts) return bad(std::to_string(bytes.size()) + " bytes are too few for two counts");
  std::memcpy(counts, bytes.data(), sizeof counts);
  if (counts[0] < 0 || counts[1] < 0) {
    return bad("negative counts: " + std::to_string(counts[0]) + " tensors, " + std::to_string(counts[1]) + " scalars");
  }
  const uint64_t needed = blob_bytes(static_cast<uint64_t>(counts[0]), static_cast<uint64_t>(counts[1]));
  if (needed > bytes.size()) {
    return bad("its counts need " + std::to_string(needed) + " bytes, " + std::to_string(bytes.size()) + " are there");
  }
  TaskArgsView view;
  view.tensor_count = counts[0];
  view.scalar_count = counts[1];
  view.tensor_bytes = reinterpret_cast<const uint8_t*>(bytes.data()) + sizeof counts;
  view.scalars =
      reinterpret_cast<const uint64_t*>(view.tensor_bytes + static_cast<uint64_t>(counts[0]) * sizeof(Tensor));
  return view;
}

}  // namespace simpler::wire
