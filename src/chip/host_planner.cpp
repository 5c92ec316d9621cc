#include "chip/host_planner.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace simpler::chip {

using orchestration::ArgTag;
using orchestration::ScopeMode;
using orchestration::TensorArg;
using orchestration::TensorCreateInfo;

namespace {

constexpr uint32_t kDegreeWarning = 16;
constexpr uint64_t kTooLarge = ~uint64_t{0};

// Bytes of a new output, or kTooLarge when strides or size do not fit.
uint64_t bytes_of(const TensorCreateInfo& info) {
  uint64_t elements = 1;
  for (uint32_t d = 0; d < info.ndims; ++d) {
    elements *= info.shapes[d];
    if (elements > 0xffffffffu) return kTooLarge;
  }
  return elements * kernel::element_size(static_cast<kernel::DataType>(info.dtype));
}

uint64_t rounded(uint64_t bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

const orchestration::Tensor& tensor_of(const TensorArg& arg) {
  return *static_cast<const orchestration::Tensor*>(arg.object);
}
const TensorCreateInfo& info_of(const TensorArg& arg) {
  return *static_cast<const TensorCreateInfo*>(arg.object);
}

bool writes_existing(ArgTag tag) {
  return tag == ArgTag::kInout || tag == ArgTag::kOutputExisting;
}

}  // namespace

Footprint footprint_of(const kernel::TensorDescriptor& t) {
  Footprint f;
  f.start = t.start_offset;
  f.extent = t.extent_elem;
  f.ndims = t.ndims;
  f.width = kernel::element_size(t.dtype);
  f.version = t.version;
  f.dtype = static_cast<uint8_t>(t.dtype);
  for (uint32_t d = 0; d < kRank; ++d) {
    f.shapes[d] = t.shapes[d];
    f.strides[d] = t.strides[d];
  }
  return f;
}

bool HostPlanner::fail(RunCode code, std::string text) {
  return fail(run_failure(code, text));
}

bool HostPlanner::fail(Status status) {
  if (is_fatal_) {
    log(40, "code=" + std::to_string(status.run_code()) + ", latched=" + std::to_string(fatal_.run_code()) + ": " +
                std::string(status.message()));
    return false;
  }
  is_fatal_ = true;
  fatal_ = std::move(status);
  return false;
}

void HostPlanner::log(int32_t level, std::string_view text) const {
  if (setup_.logger != nullptr) setup_.logger->log(static_cast<LogLevel>(level), "chip", text);
}

void HostPlanner::scope_begin(uint32_t mode) {
  if (mode > static_cast<uint32_t>(ScopeMode::kManual)) {
    fail(RunCode::kInvalidArgs, "scope: unknown mode " + std::to_string(mode));
  } else if (depth_ == orchestration::kMaxScopeDepth) {
    fail(RunCode::kInvalidArgs, "scope: nested deeper than 64");
  } else if (static_cast<ScopeMode>(mode) == ScopeMode::kAuto && depth_ > 0 && manual()) {
    fail(RunCode::kInvalidArgs, "scope: AUTO inside MANUAL; a MANUAL scope may only hold MANUAL ones");
  } else {
    modes_[depth_++] = static_cast<ScopeMode>(mode);
  }
}

void HostPlanner::scope_end() {
  if (depth_ <= 1) {
    fail(RunCode::kInvalidArgs, "scope: ended more often than begun");
  } else {
    --depth_;
  }
}

// --- Checks of one request; nothing changes before all of them passed.

bool HostPlanner::check_features(const SubmitRequest& request) {
  const auto refuse = [&](const char* what) {
    return fail(unsupported(next_task() + ": " + what +
                            " is not offered by this runtime; it offers AIC and AIV tasks, " +
                            "multi-block tasks, dummy tasks, AUTO and MANUAL scopes and explicit dependencies"));
  };
  if ((request.flags & orchestration::kRequestPredicate) != 0) return refuse("a predicate");
  if ((request.flags & orchestration::kRequestSyncStart) != 0 && request.block_num > 1) {
    return refuse("require_sync_start");
  }
  const int active = (request.kernels[0] >= 0) + (request.kernels[1] >= 0) + (request.kernels[2] >= 0);
  if (active > 1) return refuse("a task with kernels on several cores of a cluster (MIX)");
  return true;
}

bool HostPlanner::select_kernel(const SubmitRequest& request, NodeFacts& facts) {
  const bool aic = request.kernels[0] >= 0;
  // A lone kernel on the second vector core runs on any vector core.
  const int32_t id = aic ? request.kernels[0] : request.kernels[1] >= 0 ? request.kernels[1] : request.kernels[2];
  const bool dummy = (request.flags & orchestration::kRequestDummy) != 0;
  if (id < 0) {
    if (!dummy) return fail(RunCode::kInvalidArgs, next_task() + ": no kernel; use rt_submit_dummy_task for a barrier");
    facts.shape = device::Shape::kNone;
    return true;
  }
  const auto index = static_cast<uint32_t>(id);
  if (index >= setup_.kernels.size() || setup_.kernels[index].entry == nullptr) {
    return fail(RunCode::kInvalidArgs,
                next_task() + ": the callable has no kernel with func_id " + std::to_string(index));
  }
  const KernelRef& ref = setup_.kernels[index];
  const auto wanted = aic ? kernel::CoreType::kAic : kernel::CoreType::kAiv;
  if (ref.core_type.has_value() && *ref.core_type != wanted) {
    return fail(RunCode::kInvalidArgs,
                next_task() + ": kernel '" + ref.name + "' runs on " +
                    (aic ? "AIV, it was submitted as an AIC task" : "AIC, it was submitted as an AIV task"));
  }
  facts.entry = ref.entry;
  facts.func_id = index;
  facts.shape = aic ? device::Shape::kAic : device::Shape::kAiv;
  return true;
}

bool HostPlanner::check_request(const SubmitRequest& request) {
  if (request.struct_size < sizeof(SubmitRequest)) {
    return fail(RunCode::kInvalidArgs, "the orchestration was built with a smaller submit request");
  }
  if (request.misuse != nullptr) return fail(RunCode::kInvalidArgs, next_task() + ": " + request.misuse);
  if (request.tensor_count > orchestration::kMaxTaskTensors || request.scalar_count > orchestration::kMaxTaskScalars) {
    return fail(RunCode::kInvalidArgs, next_task() + ": more than 32 tensors or 16 scalars");
  }
  if (request.block_num == 0 || request.block_num > orchestration::kMaxSubtasks) {
    return fail(RunCode::kInvalidArgs,
                next_task() + ": block_num is " + std::to_string(request.block_num) + ", it must be 1 to 32767");
  }
  return true;
}

bool HostPlanner::check_tensors(const SubmitRequest& request, uint64_t& output_bytes, uint32_t& writes) {
  output_bytes = 0;
  writes = 0;
  for (uint32_t i = 0; i < request.tensor_count; ++i) {
    const TensorArg& arg = request.tensors[i];
    if (arg.object == nullptr || arg.tag > ArgTag::kNoDep) {
      return fail(RunCode::kInvalidArgs, next_task() + ": argument " + std::to_string(i) + " is malformed");
    }
    if (arg.tag != ArgTag::kOutput) {
      const Tensor& tensor = tensor_of(arg);
      if (!tensor.valid() || tensor.ndims == 0 || tensor.ndims > kRank) {
        return fail(RunCode::kInvalidArgs, next_task() + ": argument " + std::to_string(i) + " is not a valid tensor");
      }
      if (writes_existing(arg.tag) && tensor.manual_dep == 0 && !manual()) ++writes;
      continue;
    }
    const TensorCreateInfo& info = info_of(arg);
    if (info.ndims == 0 || info.ndims > kRank || kernel::element_size(static_cast<kernel::DataType>(info.dtype)) == 0 ||
        info.dtype > 255) {
      return fail(RunCode::kInvalidArgs, next_task() + ": output " + std::to_string(i) +
                                             ": a create info has rank 1 to 5 and a known element type");
    }
    const uint64_t bytes = bytes_of(info);
    if (bytes == kTooLarge) {
      return fail(RunCode::kHeapExhausted,
                  next_task() + ": output " + std::to_string(i) + " has 4 Gi elements or more");
    }
    output_bytes += rounded(bytes);
  }
  return true;
}

// --- Edges

bool HostPlanner::add_producer(uint64_t task, NodeDraft& draft, NodeFacts& facts) {
  const auto index = static_cast<uint32_t>(task);
  if (marks_[index] == stamp_) return true;
  marks_[index] = stamp_;
  if (sink_.is_complete(index)) return true;
  if (facts.fanin_count == setup_.fanin_per_task) {
    return fail(RunCode::kTooManyProducers,
                next_task() + ": waits for more than " + std::to_string(setup_.fanin_per_task) + " producers");
  }
  draft.fanin[facts.fanin_count++] = index;
  return true;
}

bool HostPlanner::gather_producers(const SubmitRequest& request, NodeDraft& draft, NodeFacts& facts) {
  if (++stamp_ == 0) {
    std::fill_n(marks_.data(), marks_.capacity(), 0u);
    stamp_ = 1;
  }
  const uint32_t count = sink_.node_count();
  for (uint32_t i = 0; i < request.dependency_count; ++i) {
    const uint64_t id = request.dependencies[i].raw;
    if (id >= count) {
      return fail(RunCode::kInvalidArgs, next_task() + ": dependency " + std::to_string(i) + " names no earlier task");
    }
    if (!add_producer(id, draft, facts)) return false;
  }
  if (!manual()) {
    for (uint32_t i = 0; i < request.tensor_count; ++i) {
      const TensorArg& arg = request.tensors[i];
      if (arg.tag == ArgTag::kOutput) continue;
      const Tensor& tensor = tensor_of(arg);
      if (tensor.owner_task_id < count && !add_producer(tensor.owner_task_id, draft, facts)) return false;
      const bool reads = arg.tag == ArgTag::kInput || arg.tag == ArgTag::kInout;
      if (!reads || tensor.manual_dep != 0) continue;
      bool ok = true;
      map_.look_up(tensor.addr, footprint_of(tensor), false,
                   [&](uint32_t task) { ok = ok && add_producer(task, draft, facts); });
      if (!ok) return false;
    }
  }
  if (facts.fanin_count > 1) {
    // The scheduler looks from the back: the newest producer is the one most likely to end last.
    uint32_t* last = draft.fanin + facts.fanin_count - 1;
    std::swap(*std::max_element(draft.fanin, last + 1), *last);
  }
  if (facts.fanin_count > kDegreeWarning && !warned_degree_) {
    warned_degree_ = true;
    log(30, next_task() + " waits for " + std::to_string(facts.fanin_count) + " producers");
  }
  return true;
}

void HostPlanner::register_writes(const SubmitRequest& request, uint32_t task) {
  for (uint32_t i = 0; i < request.tensor_count; ++i) {
    const TensorArg& arg = request.tensors[i];
    if (!writes_existing(arg.tag)) continue;
    const Tensor& tensor = tensor_of(arg);
    const Footprint footprint = footprint_of(tensor);
    if (footprint.extent == 0) continue;
    if (manual() || tensor.manual_dep != 0) {
      unmapped_writes_.push_back(Written{tensor.addr, footprint});
      continue;
    }
    if (arg.tag == ArgTag::kInout) map_.look_up(tensor.addr, footprint, true, [](uint32_t) {});
    map_.add(tensor.addr, footprint, task);
  }
}

// --- Nodes

bool HostPlanner::open(NodeDraft& draft) {
  if (sink_.open(draft)) return true;
  return fail(RunCode::kWindowExhausted, next_task() + ": the window has " + std::to_string(setup_.window) + " tasks");
}

bool HostPlanner::allocate(uint64_t bytes, uint64_t& heap) {
  heap = bytes == 0 ? 0 : sink_.allocate(bytes);
  if (bytes == 0 || heap != 0) return true;
  return fail(RunCode::kHeapExhausted, next_task() + ": its outputs need " + std::to_string(bytes) + " bytes");
}

void HostPlanner::write_node(const SubmitRequest& request, uint64_t heap, NodeDraft& draft, NodeFacts& facts,
                             SubmitResult& result) {
  uint32_t outputs = 0;
  for (uint32_t i = 0; i < request.tensor_count; ++i) {
    const TensorArg& arg = request.tensors[i];
    Tensor& slot = draft.tensors[i];
    if (arg.tag != ArgTag::kOutput) {
      slot = tensor_of(arg);
      continue;
    }
    const TensorCreateInfo& info = info_of(arg);
    slot = Tensor{};
    slot.reserved[0] = 0;
    slot.addr = heap;
    slot.size = bytes_of(info);
    slot.owner_task_id = draft.index;
    slot.ndims = info.ndims;
    slot.dtype = static_cast<kernel::DataType>(info.dtype);
    slot.manual_dep = info.manual_dep != 0 ? 1 : 0;
    slot.address_space = kernel::AddressSpace::kDevice;
    for (uint32_t d = 0; d < info.ndims; ++d) slot.shapes[d] = info.shapes[d];
    slot.set_row_major_strides();
    slot.refresh_caches();
    heap += rounded(slot.size);
    result.outputs[outputs++] = &slot;
  }
  for (uint32_t i = 0; i < request.scalar_count; ++i) draft.scalars[i] = request.scalars[i];
  facts.tensor_count = static_cast<uint16_t>(request.tensor_count);
  facts.scalar_count = static_cast<uint16_t>(request.scalar_count);
  facts.block_num = request.block_num;
  result.task_id = draft.index;
  result.output_count = outputs;
  sink_.commit(draft, facts);
}

void HostPlanner::submit(const SubmitRequest& request, SubmitResult& result) {
  NodeDraft draft;
  NodeFacts facts;
  uint64_t output_bytes, heap;
  uint32_t writes;
  if (!check_request(request) || !check_features(request) || !select_kernel(request, facts) ||
      !check_tensors(request, output_bytes, writes)) {
    return;
  }
  if (writes > map_.free_entries()) {
    fail(RunCode::kTensorMapOverflow,
         next_task() + ": the map holds " + std::to_string(map_.used_entries()) + " regions already");
    return;
  }
  if (!open(draft) || !gather_producers(request, draft, facts) || !allocate(output_bytes, heap)) return;
  write_node(request, heap, draft, facts, result);
  register_writes(request, draft.index);
}

void HostPlanner::alloc_tensors(const SubmitRequest& request, SubmitResult& result) {
  NodeDraft draft;
  NodeFacts facts;
  uint64_t output_bytes, heap;
  uint32_t writes;
  if (!check_request(request) || !check_tensors(request, output_bytes, writes)) return;
  if (!open(draft) || !allocate(output_bytes, heap)) return;
  facts.complete = true;
  write_node(request, heap, draft, facts, result);
}

// --- Elements of arguments

bool HostPlanner::conflicts(const Tensor& tensor, const Footprint& footprint, bool write) {
  bool found = false;
  map_.look_up(tensor.addr, footprint, false, [&](uint32_t) { found = true; });
  for (const Written& written : unmapped_writes_) {
    if (found) break;
    found = written.addr == tensor.addr && overlap(footprint, written.footprint) != Overlap::kNone;
  }
  if (!write) return found;
  // Tasks run after the whole build, so a value stored now would also reach tasks that were submitted before.
  for (const Tensor& argument : sink_.arguments()) {
    if (found) break;
    found = argument.addr == tensor.addr && overlap(footprint, footprint_of(argument)) != Overlap::kNone;
  }
  return found;
}

void* HostPlanner::element(const char* call, const Tensor& tensor, uint32_t ndims, const uint32_t* index, uint32_t size,
                           bool write) {
  const auto refuse = [&](const std::string& why) -> void* {
    fail(RunCode::kInvalidArgs, std::string(call) + ": " + why);
    return nullptr;
  };
  if (!tensor.valid()) return refuse("not a valid tensor");
  const uint32_t width = kernel::element_size(tensor.dtype);
  if (ndims != tensor.ndims) {
    return refuse(std::to_string(ndims) + " indices for a tensor of rank " + std::to_string(tensor.ndims));
  }
  if (size != width) {
    return refuse("a value of " + std::to_string(size) + " bytes for elements of " + std::to_string(width));
  }
  Footprint footprint = footprint_of(tensor);
  footprint.extent = 1;
  for (uint32_t d = 0; d < ndims; ++d) {
    if (index[d] >= tensor.shapes[d]) {
      return refuse("index " + std::to_string(index[d]) + " of dimension " + std::to_string(d) + " is not below " +
                    std::to_string(tensor.shapes[d]));
    }
    footprint.start += uint64_t{index[d]} * tensor.strides[d];
    footprint.shapes[d] = 1;
  }
  if (tensor.owner_task_id != kernel::kNoOwner) {
    return refuse("the tensor is made by task " + std::to_string(tensor.owner_task_id) +
                  " of this graph, which has not run yet");
  }
  const uint64_t address = tensor.addr + footprint.start * width;
  switch (setup_.access == nullptr ? Access::kNotCovered : setup_.access->check(address, width)) {
    case Access::kAllowed:
      break;
    case Access::kNotCovered:
      return refuse("the element lies in no argument of this run");
    case Access::kNotReadable:
      return refuse("the argument is a pure output; its bytes do not exist before the run");
    case Access::kBeingWritten:
      return refuse("an earlier run that is not finished writes into this device memory");
  }
  if (conflicts(tensor, footprint, write)) {
    return refuse(write ? "a task of this graph uses these elements already"
                        : "a task of this graph writes these elements, and it has not run yet");
  }
  return reinterpret_cast<void*>(address);
}

}  // namespace simpler::chip
