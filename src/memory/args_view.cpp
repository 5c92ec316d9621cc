#include "memory/args_view.h"

#include <string>

#include "base/status_macros.h"

namespace simpler::memory {

ArgsReader::ArgsReader(SharedTablesView tables, ArgsArenaView arena, ImportRegistry& imports)
    : tables_(tables), arena_(arena), imports_(imports) {}

Status ArgsReader::open(const wire::Dispatch& dispatch, ArgsView& out) {
  out.reader_ = this;
  out.has_inline_ = (dispatch.flags & wire::kFlagInlineTensor) != 0;
  out.inline_tensor_ = dispatch.inline_tensor;
  out.tensors_ = dispatch.tensors;
  out.scalars_ = dispatch.scalars;
  out.place_ = dispatch.args;
  out.block_ = nullptr;
  out.scalar_words_ = nullptr;
  if (out.has_inline_ && out.tensors_ == 0) return corrupt("a line with an inline tensor counts no tensors");
  const uint64_t in_block = out.tensors_ - (out.has_inline_ ? 1U : 0U);
  const uint64_t bytes = in_block * sizeof(wire::TensorRef) + out.scalars_ * sizeof(uint64_t);
  if (bytes == 0) return Status::ok();
  out.block_ = arena_.at(dispatch.args, bytes);
  if (out.block_ == nullptr) {
    return corrupt("an argument block of " + std::to_string(bytes) + " bytes at place " +
                   std::to_string(dispatch.args) + " leaves the arena");
  }
  out.scalar_words_ = reinterpret_cast<const uint64_t*>(out.block_ + in_block * sizeof(wire::TensorRef));
  return Status::ok();
}

Result<wire::TensorRef> ArgsView::reference(uint32_t position) const {
  if (position >= tensors_) {
    return out_of_range("tensor " + std::to_string(position) + " of " + std::to_string(tensors_));
  }
  if (has_inline_) {
    if (position == 0) return inline_tensor_;
    --position;
  }
  wire::TensorRef ref;
  std::memcpy(&ref, block_ + position * sizeof ref, sizeof ref);
  return ref;
}

Status ArgsView::tensor_slow(uint32_t position, MappedTensor& out) const {
  SIMPLER_ASSIGN_OR_RETURN(const wire::TensorRef ref, reference(position));
  Status status = reader_->resolve(*this, ref, out);
  if (status.is_ok()) [[likely]]
    return status;
  return std::move(status).context("tensor argument " + std::to_string(position));
}

Result<uint64_t> ArgsView::scalar(uint32_t position) const {
  if (position >= scalars_) {
    return out_of_range("scalar " + std::to_string(position) + " of " + std::to_string(scalars_));
  }
  return scalar_words_[position];
}

Status ArgsReader::resolve(const ArgsView& view, const wire::TensorRef& ref, MappedTensor& out) {
  if (ref.buffer >= known_.size() || known_[ref.buffer].generation != ref.generation || ref.generation == 0 ||
      !tables_.buffer_current(ref.buffer, ref.generation)) [[unlikely]] {
    SIMPLER_RETURN_IF_ERROR(learn(ref));
  }
  const Known& known = known_[ref.buffer];
  const wire::Layout* layout = layout_of(view, ref);
  if (layout == nullptr) {
    return corrupt("layout " + std::to_string(ref.layout) + " with flags " + std::to_string(ref.flags) +
                   " was never published");
  }
  if (ref.byte_offset > known.nbytes || layout->extent_bytes > known.nbytes - ref.byte_offset ||
      ref.byte_offset % element_size(layout->dtype) != 0) {
    return corrupt("a view of " + std::to_string(layout->extent_bytes) + " bytes at " +
                   std::to_string(ref.byte_offset) + " leaves its buffer of " + std::to_string(known.nbytes) +
                   " bytes");
  }
  out.data = known.base + ref.byte_offset;
  out.layout = layout;
  out.byte_offset = ref.byte_offset;
  out.access = known.access;
  out.device = known.device;
  out.ref = ref;
  return Status::ok();
}

const wire::Layout* ArgsReader::layout_of(const ArgsView& view, const wire::TensorRef& ref) const {
  if ((ref.flags & ~wire::kTensorRefKnownFlags) != 0) return nullptr;
  if ((ref.flags & wire::kTensorRefInlineLayout) == 0) return tables_.layout(ref.layout);
  const uint64_t place = uint64_t{view.place_} + ref.layout;
  if (view.place_ == 0 || place > UINT32_MAX) return nullptr;
  const std::byte* bytes = arena_.at(static_cast<uint32_t>(place), sizeof(wire::Layout));
  if (bytes == nullptr) return nullptr;
  const auto* layout = reinterpret_cast<const wire::Layout*>(bytes);
  return validate(*layout).is_ok() ? layout : nullptr;
}

Status ArgsReader::learn(const wire::TensorRef& ref) {
  SIMPLER_ASSIGN_OR_RETURN(const wire::BufferEntry entry, tables_.buffer(ref.buffer, ref.generation));
  if (known_.size() <= ref.buffer) known_.resize(ref.buffer + 1U);
  Known& known = known_[ref.buffer];
  // The index was recycled: whatever was mapped for its former buffer is of no use any more.
  if (known.generation != 0 && !(known.descriptor.identity == entry.descriptor.identity)) {
    static_cast<void>(imports_.release(known.descriptor.identity));
  }
  known.generation = 0;
  // Inherited memory needs no entry of its own: heap buffers are as many as tasks.
  SIMPLER_ASSIGN_OR_RETURN(const Import import, imports_.is_inherited(entry.descriptor)
                                                    ? imports_.inherited(entry.descriptor)
                                                    : imports_.materialize(entry.descriptor));
  known.base = import.base;
  known.nbytes = entry.descriptor.nbytes;
  known.access = entry.descriptor.access;
  known.device = import.device;
  known.descriptor = entry.descriptor;
  known.generation = ref.generation;
  return Status::ok();
}

const BufferDescriptor* ArgsReader::descriptor(uint32_t buffer) const {
  return buffer < known_.size() && known_[buffer].generation != 0 ? &known_[buffer].descriptor : nullptr;
}

void ArgsReader::forget(const CanonicalIdentity& identity) {
  for (Known& known : known_) {
    if (known.generation != 0 && known.descriptor.identity == identity) known.generation = 0;
  }
  static_cast<void>(imports_.release(identity));
}

}  // namespace simpler::memory
