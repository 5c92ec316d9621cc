// What a planner turns an orchestration's calls into: nodes of a graph, written through a sink.
//
// A planner decides edges and outputs; a sink decides where the records live. The graph of a run is one sink; a planner
// does not know which sink it writes to.
#pragma once

#include <cstdint>
#include <span>

#include "device/records.h"
#include "simpler/orchestration.h"

namespace simpler::chip {

// Room for the node that comes next. Nothing counts until it is committed.
struct NodeDraft {
  uint32_t index;
  orchestration::Tensor* tensors;  // kMaxTaskTensors; their addresses stay valid for the run
  uint64_t* scalars;               // kMaxTaskScalars
  uint32_t* fanin;                 // as many as the planner's limit
};

struct NodeFacts {
  kernel::KernelEntry entry = nullptr;
  uint32_t func_id = 0;
  device::Shape shape = device::Shape::kNone;
  uint32_t block_num = 1;
  uint16_t tensor_count = 0;
  uint16_t scalar_count = 0;
  uint32_t fanin_count = 0;
  bool complete = false;  // needs no execution, now or later
};

class NodeSink {
 public:
  virtual ~NodeSink() = default;
  // False when there is no room for one more node.
  virtual bool open(NodeDraft& draft) = 0;
  // Memory for the outputs of the node being written, 1024-aligned; 0 when there is not enough.
  virtual uint64_t allocate(uint64_t bytes) = 0;
  virtual void commit(const NodeDraft& draft, const NodeFacts& facts) = 0;
  virtual uint32_t node_count() const = 0;
  virtual bool is_complete(uint32_t index) const = 0;
  // Tensor arguments of all committed nodes.
  virtual std::span<const orchestration::Tensor> arguments() const = 0;
};

}  // namespace simpler::chip
