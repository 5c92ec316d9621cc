// The trace of a node: one file, every process by name, a span for every task.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>

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

TEST(TraceTest, AVariableNamesTheFolderForWorkersWithoutAPathOfTheirOwn) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("simpler_traces_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  ::setenv("SIMPLER_TRACE", folder.c_str(), 1);
  for (int i = 0; i < 2; ++i) {
    Worker worker({.level = 3, .num_sub_workers = 1});
    worker.init();
    worker.close();
  }
  ::unsetenv("SIMPLER_TRACE");
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
  std::filesystem::remove_all(folder);
}

TEST(TraceTest, AVariableThatCannotBeIsNamedByInit) {
  ::setenv("SIMPLER_LOG_LEVEL", "loud", 1);
  Worker worker({.level = 3, .num_sub_workers = 1});
  const Status status = thrown([&] { worker.init(); });
  ::unsetenv("SIMPLER_LOG_LEVEL");
  EXPECT_NE(status.message().find("SIMPLER_LOG_LEVEL has 'loud'"), std::string_view::npos) << status.message();
}

TEST(TraceTest, AFolderThatCannotBeWrittenIsNamedBeforeAnythingStarts) {
  Worker worker({.level = 3, .num_sub_workers = 1, .trace_path = "/nonexistent/folder/trace.json"});
  const Status status = thrown([&] { worker.init(); });
  EXPECT_NE(status.message().find("/nonexistent/folder/trace.json"), std::string_view::npos) << status.message();
}

TEST(TraceTest, AFileThatCannotBeWrittenIsNamedByClose) {
  const std::string path = ::testing::TempDir() + "simpler_trace_" + std::to_string(::getpid()) + ".json";
  Worker worker({.level = 3, .num_sub_workers = 1, .trace_path = path});
  worker.init();
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);  // what is there now is no file
  const Status status = thrown([&] { worker.close(); });
  EXPECT_NE(status.message().find(path), std::string_view::npos) << status.message();
  worker.close();
  ::rmdir(path.c_str());
}

}  // namespace
}  // namespace simpler::testing
