// The trace of a node: one file, every process by name, a span for every task.
#include <fstream>
#include <iterator>
#include <string>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

TEST(TraceTest, HoldsASpanForEveryTaskUnderItsCallablesName) {
  const std::string path = ::testing::TempDir() + "simpler_trace_" + std::to_string(::getpid()) + ".json";
  Worker worker({.level = 3, .num_sub_workers = 2, .trace_path = path});
  const CallableHandle step =
      worker.register_native("one_step", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
  worker.init();
  const Buffer buffer = worker.create_buffer(8);
  word(buffer) = 0;
  worker.run([&](Orchestrator& orch) {
    for (int i = 0; i < 20; ++i) {
      orch.submit_sub(step, TaskArgs().inout(words(buffer)));
    }
  });
  worker.close();
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(count(text, "\"one_step\""), 20U);
  EXPECT_EQ(count(text, "\"build graph\""), 1U);
  EXPECT_GE(count(text, "sub_worker 0") + count(text, "sub_worker 1"), 1U);
  ::unlink(path.c_str());
}

TEST(TraceTest, APlaceThatCannotBeWrittenIsNamedByClose) {
  Worker worker({.level = 3, .num_sub_workers = 1, .trace_path = "/nonexistent/folder/trace.json"});
  worker.init();
  const Status status = thrown([&] { worker.close(); });
  EXPECT_NE(status.message().find("/nonexistent/folder/trace.json"), std::string_view::npos) << status.message();
  worker.close();
}

}  // namespace
}  // namespace simpler::testing
