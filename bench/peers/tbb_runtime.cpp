// oneTBB's flow graph: one continue_node per task, explicit edges, a broadcast_node that feeds the roots.
//
// Two threads, the caller being one of them. The nodes' storage is kept from graph to graph, so that the peer does not
// pay for fresh pages; all else is built, run and destroyed anew each time.
#include <cstdint>
#include <memory>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include "harness/harness.h"
#include "peers/peer_runtime.h"

namespace simpler::bench {
namespace {

using tbb::flow::continue_msg;
using Node = tbb::flow::continue_node<continue_msg>;

class TbbRuntime final : public PeerRuntime {
 public:
  explicit TbbRuntime(const sol::Workload& workload)
      : workload_(workload), edges_(edges_of(workload)), threads_(tbb::global_control::max_allowed_parallelism, 2) {
    std::vector<bool> has_producer(workload.task_count());
    for (const auto& [producer, consumer] : edges_) has_producer[consumer] = true;
    for (uint32_t t = 0; t < workload.task_count(); ++t) {
      if (!has_producer[t]) roots_.push_back(t);
    }
    nodes_ = std::allocator<Node>().allocate(workload.task_count());
  }
  ~TbbRuntime() override { std::allocator<Node>().deallocate(nodes_, workload_.task_count()); }

  std::vector<uint64_t> execute() override {
    std::vector<uint64_t> cells(uint64_t{2} * workload_.cells_per_buffer);
    build_and_run([&](uint32_t task) { sol::body(workload_.task(task), task, cells, workload_.cells_per_buffer); },
                  true);
    return cells;
  }
  double submit() override { return timed(false); }
  double run() override { return timed(true); }

 private:
  double timed(bool whole) {
    const double spent = build_and_run([](uint32_t task) { keep(task); }, whole);
    wait_until_other_threads_sleep();
    return spent / workload_.task_count();
  }

  // ns of building alone, or of building, running and destroying.
  template <class Body>
  double build_and_run(const Body& body, bool whole) {
    const uint32_t count = workload_.task_count();
    const double begin = now_ns();
    double built = 0;
    {
      tbb::flow::graph graph;
      tbb::flow::broadcast_node<continue_msg> start(graph);
      for (uint32_t t = 0; t < count; ++t) {
        std::construct_at(nodes_ + t, graph, [body, t](const continue_msg&) { body(t); });
      }
      for (const uint32_t root : roots_) tbb::flow::make_edge(start, nodes_[root]);
      for (const auto& [producer, consumer] : edges_) tbb::flow::make_edge(nodes_[producer], nodes_[consumer]);
      built = now_ns();
      start.try_put(continue_msg());
      graph.wait_for_all();
      std::destroy_n(nodes_, count);
    }
    return (whole ? now_ns() : built) - begin;
  }

  const sol::Workload& workload_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> roots_;
  tbb::global_control threads_;
  Node* nodes_ = nullptr;
};

}  // namespace

std::unique_ptr<PeerRuntime> make_tbb(const sol::Workload& workload) {
  return std::make_unique<TbbRuntime>(workload);
}

}  // namespace simpler::bench
