// HostPlanner: runs an orchestration on the host and turns its calls into nodes of a graph.
//
// It infers edges as the author API promises: creator edges for every tensor but a new output, overlap edges for what a
// task reads in an AUTO scope, explicit ones always. Readers are not remembered, so a later writer does not wait for
// them unless it updates in place. The tensor map and the sink belong to the caller; between two builds `reset` forgets
// everything without allocating. The first failure is latched; from then on every call of the author does nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "chip/host_access.h"
#include "chip/loaded_callable.h"
#include "chip/overlap.h"
#include "chip/planner.h"
#include "chip/reserved_array.h"
#include "chip/run_codes.h"
#include "chip/tensor_map.h"
#include "simpler/orchestration.h"
#include "simpler/status.h"

namespace simpler::chip {

struct PlannerSetup {
  std::span<const KernelRef> kernels;
  uint32_t clusters = 0;
  uint32_t aiv_cores = 0;
  uint32_t window = 0;
  uint32_t fanin_per_task = 0;
  const HostAccess* access = nullptr;
  const Logger* logger = nullptr;
};

class HostPlanner {
 public:
  HostPlanner(TensorMap& map, NodeSink& sink);
  HostPlanner(const HostPlanner&) = delete;
  HostPlanner& operator=(const HostPlanner&) = delete;

  Status reset(const PlannerSetup& setup);
  // Calls config and entry of the orchestration inside one AUTO scope. Failures carry their run code.
  Status build(const LoadedCallable& callable, const orchestration::ChipTaskArgs& args);

 private:
  using Tensor = orchestration::Tensor;
  using SubmitRequest = orchestration::SubmitRequest;
  using SubmitResult = orchestration::SubmitResult;
  struct Bound : orchestration::Runtime {
    HostPlanner* planner;
  };
  struct Written {
    uint64_t addr;
    Footprint footprint;
  };
  friend struct PlannerTable;

  void submit(const SubmitRequest& request, SubmitResult& result);
  void alloc_tensors(const SubmitRequest& request, SubmitResult& result);
  void scope_begin(uint32_t mode);
  void scope_end();
  void* element(const char* call, const Tensor& tensor, uint32_t ndims, const uint32_t* index, uint32_t size,
                bool write);
  bool conflicts(const Tensor& tensor, const Footprint& footprint, bool write);

  bool check_request(const SubmitRequest& request);
  bool check_features(const SubmitRequest& request);
  bool select_kernel(const SubmitRequest& request, NodeFacts& facts);
  bool check_tensors(const SubmitRequest& request, uint64_t& output_bytes, uint32_t& writes);
  bool gather_producers(const SubmitRequest& request, NodeDraft& draft, NodeFacts& facts);
  bool add_producer(uint64_t task, NodeDraft& draft, NodeFacts& facts);
  void write_node(const SubmitRequest& request, uint64_t heap, NodeDraft& draft, NodeFacts& facts,
                  SubmitResult& result);
  void register_writes(const SubmitRequest& request, uint32_t task);
  bool open(NodeDraft& draft);
  bool allocate(uint64_t bytes, uint64_t& heap);

  bool fail(RunCode code, std::string text);
  bool fail(Status status);
  bool manual() const { return modes_[depth_ - 1] == orchestration::ScopeMode::kManual; }
  void log(int32_t level, std::string_view text) const;
  std::string next_task() const { return "task " + std::to_string(sink_.node_count()); }

  TensorMap& map_;
  NodeSink& sink_;
  PlannerSetup setup_;
  Bound bound_;
  Status fatal_;
  bool is_fatal_ = false;
  bool warned_degree_ = false;
  uint32_t depth_ = 0;
  orchestration::ScopeMode modes_[orchestration::kMaxScopeDepth];
  ReservedArray<uint32_t> marks_;  // per task: the submit that saw it last as a producer
  uint32_t stamp_ = 0;
  std::vector<Written> unmapped_writes_;  // writers that the map does not know: MANUAL scopes and manual_dep tensors
};

Footprint footprint_of(const kernel::TensorDescriptor& tensor);

}  // namespace simpler::chip
