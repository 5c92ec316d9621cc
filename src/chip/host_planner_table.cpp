// The function table through which an orchestration reaches the planner, and the build around it.
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <typeinfo>

#include "base/status_macros.h"
#include "chip/host_planner.h"
#include "chip/type_name.h"

namespace simpler::chip {

using orchestration::FunctionTable;
using orchestration::Runtime;

// Entry points of the table; each finds its planner behind the bound runtime.
struct PlannerTable {
  static HostPlanner& of(Runtime* rt) { return *static_cast<HostPlanner::Bound*>(rt)->planner; }

  static void submit(Runtime* rt, const orchestration::SubmitRequest* request, orchestration::SubmitResult* result) {
    of(rt).submit(*request, *result);
  }
  static void alloc_tensors(Runtime* rt, const orchestration::SubmitRequest* request,
                            orchestration::SubmitResult* result) {
    of(rt).alloc_tensors(*request, *result);
  }
  static void scope_begin(Runtime* rt, uint32_t mode) {
    if (!of(rt).is_fatal_) of(rt).scope_begin(mode);
  }
  static void scope_end(Runtime* rt) {
    if (!of(rt).is_fatal_) of(rt).scope_end();
  }
  static uint32_t is_fatal(Runtime* rt) { return of(rt).is_fatal_ ? 1 : 0; }
  static void report_fatal(Runtime* rt, int32_t code, const char* text, size_t length) {
    of(rt).fail(RunCode::kExplicitFatal, "fatal " + std::to_string(code) + ": " + std::string(text, length));
  }
  static void report_misuse(Runtime* rt, const char* text, size_t length) {
    of(rt).fail(RunCode::kInvalidArgs, std::string(text, length));
  }
  static void report_unsupported(Runtime* rt, const char* feature, size_t length) {
    of(rt).fail(unsupported(std::string(feature, length) +
                            " is not offered by this runtime; submit the tasks of the graph one by one"));
  }
  static void log(Runtime* rt, int32_t level, const char* text, size_t length) {
    of(rt).log(level, std::string_view(text, length));
  }
  static uint32_t get_tensor_data(Runtime* rt, const orchestration::Tensor* tensor, uint32_t ndims,
                                  const uint32_t* index, void* out, uint32_t size) {
    const void* from = of(rt).element("get_tensor_data", *tensor, ndims, index, size, false);
    if (from != nullptr) std::memcpy(out, from, size);
    return from != nullptr ? 1 : 0;
  }
  static uint32_t set_tensor_data(Runtime* rt, const orchestration::Tensor* tensor, uint32_t ndims,
                                  const uint32_t* index, const void* value, uint32_t size) {
    void* to = of(rt).element("set_tensor_data", *tensor, ndims, index, size, true);
    if (to != nullptr) std::memcpy(to, value, size);
    return to != nullptr ? 1 : 0;
  }
  static uint32_t available_cluster_count(Runtime* rt) { return of(rt).setup_.clusters; }
  static uint32_t available_aiv_count(Runtime* rt) { return of(rt).setup_.aiv_cores; }
};

namespace {

constexpr FunctionTable kTable{
    .struct_size = sizeof(FunctionTable),
    .abi = orchestration::kAbi,
    .capabilities = orchestration::kCapMultiBlock | orchestration::kCapTensorData | orchestration::kCapDummyTask,
    .submit = PlannerTable::submit,
    .alloc_tensors = PlannerTable::alloc_tensors,
    .scope_begin = PlannerTable::scope_begin,
    .scope_end = PlannerTable::scope_end,
    .is_fatal = PlannerTable::is_fatal,
    .report_fatal = PlannerTable::report_fatal,
    .report_misuse = PlannerTable::report_misuse,
    .report_unsupported = PlannerTable::report_unsupported,
    .log = PlannerTable::log,
    .get_tensor_data = PlannerTable::get_tensor_data,
    .set_tensor_data = PlannerTable::set_tensor_data,
    .available_cluster_count = PlannerTable::available_cluster_count,
    .available_aiv_count = PlannerTable::available_aiv_count,
};

}  // namespace

HostPlanner::HostPlanner(TensorMap& map, NodeSink& sink) : map_(map), sink_(sink) {
  bound_.table = &kTable;
  bound_.planner = this;
}

Status HostPlanner::reset(const PlannerSetup& setup) {
  setup_ = setup;
  SIMPLER_RETURN_IF_ERROR(marks_.reserve(setup.window, "producer marks"));
  map_.reset();
  fatal_ = Status::ok();
  is_fatal_ = false;
  warned_degree_ = false;
  depth_ = 0;
  unmapped_writes_.clear();
  return Status::ok();
}

Status HostPlanner::build(const LoadedCallable& callable, const orchestration::ChipTaskArgs& args) {
  if (const uint32_t wanted = callable.bind()(&bound_); wanted != 0) {
    return unsupported("orchestration '" + callable.name() + "' was built for ABI " + std::to_string(wanted) +
                       ", this runtime offers " + std::to_string(orchestration::kAbi) + "; compile it again");
  }
  struct Unbind {
    LoadedCallable::Bind bind;
    ~Unbind() { bind(nullptr); }
  } unbind{callable.bind()};
  modes_[depth_++] = orchestration::ScopeMode::kAuto;
  try {
    const uint32_t given = args.tensor_count() + args.scalar_count();
    const uint32_t expected = callable.config() != nullptr ? callable.config()(args).expected_arg_count : 0;
    if (given < expected) {
      fail(RunCode::kInvalidArgs, "the orchestration expects " + std::to_string(expected) + " arguments, the run has " +
                                      std::to_string(given));
    } else {
      callable.entry()(args);
    }
  } catch (const std::exception& error) {
    fail(run_failure(RunCode::kInvalidArgs, "the orchestration threw: " + std::string(error.what()))
             .with_type_name(type_name(typeid(error))));
  } catch (...) {
    fail(RunCode::kInvalidArgs, "the orchestration threw something that is no std::exception");
  }
  if (is_fatal_) return std::move(fatal_).with_callable(callable.name());
  return Status::ok();
}

}  // namespace simpler::chip
