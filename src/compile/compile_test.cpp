#include "compile/compile.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "compile/files.h"
#include "compile/load.h"

namespace simpler::compile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource =
    "#include \"simpler/kernel.h\"\n"
    "SIMPLER_KERNEL void kernel_entry(int64_t* args) { args[0] = 41 + args[1]; }\n";

// True once the process is gone or waits as a zombie for its new parent.
bool ends_within(pid_t process, Nanos limit) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (handle.get() < 0) return errno == ESRCH;
  pollfd wait{handle.get(), POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(limit / kMillisecond)) == 1;
}

// A folder of its own for every test, with a space in its name, and a compiler that writes one line per compile.
class CompileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "simpler compile XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    environment_ = Environment::capture();
    environment_.set(Variable::kCxx, "").set(Variable::kCacheDir, "");
    write("count c++",
          "#!/bin/sh\ncase \"$*\" in *--version*) ;; *) echo run >> '" + folder_ + "/runs' ;; esac\nexec c++ \"$@\"\n",
          true);
    options_.compiler = folder_ + "/count c++";
    options_.cache_dir = folder_ + "/cache";
    options_.public_include_dir = PUBLIC_HEADERS;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text, bool executable = false) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    if (executable) fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  size_t runs() const {
    std::ifstream log(folder_ + "/runs");
    size_t count = 0;
    for (std::string line; std::getline(log, line);) ++count;
    return count;
  }
  Compiler compiler() const {
    Result<Compiler> made = Compiler::create(options_, environment_);
    if (!made.ok()) ADD_FAILURE() << made.status().message();
    return std::move(made).value();
  }
  static int64_t call(const SharedObject& object, int64_t argument) {
    Result<LoadedObject> loaded = LoadedObject::load(object.bytes, object.name);
    if (!loaded.ok()) ADD_FAILURE() << loaded.status().message();
    int64_t args[50] = {0, argument};
    reinterpret_cast<void (*)(int64_t*)> (*loaded->symbol("kernel_entry"))(args);
    return args[0];
  }
  size_t leftovers() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(options_.cache_dir)) {
      count += entry.path().filename().string().rfind("tmp.", 0) == 0 ? 1 : 0;
    }
    return count;
  }

  std::string folder_;
  Environment environment_;
  CompilerOptions options_;
};

TEST_F(CompileTest, AKernelFromTextRunsAndASecondCompileComesFromTheCacheWithoutACompilerRun) {
  const Compiler compiler = this->compiler();
  const auto first = compiler.compile_shared({.name = "forty one", .source_text = kSource});
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_FALSE(first->from_cache);
  EXPECT_EQ(call(*first, 1), 42);
  const auto second = compiler.compile_shared({.name = "forty one", .source_text = kSource});
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->from_cache);
  EXPECT_EQ(runs(), 1U);
  EXPECT_EQ(second->bytes, first->bytes);
  EXPECT_EQ(second->digest, first->digest);
  EXPECT_EQ(leftovers(), 0U);
}

TEST_F(CompileTest, TheSameSourceCompiledTwiceWithoutCacheGivesTheSameBytes) {
  options_.use_cache = false;
  const Compiler compiler = this->compiler();
  const auto first = compiler.compile_shared({.source_text = kSource});
  const auto second = compiler.compile_shared({.source_text = kSource});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(runs(), 2U);
  EXPECT_EQ(first->digest, second->digest);
}

TEST_F(CompileTest, AFileInAFolderWithASpaceCompilesAndAnEditedIncludedFileMakesItCompileAgain) {
  write("value.h", "constexpr int kValue = 1;\n");
  const std::string path = write("my kernel.cpp",
                                 "#include \"value.h\"\n#include <cstdint>\nextern \"C\" "
                                 "__attribute__((visibility(\"default\"))) void kernel_entry(int64_t* args) { "
                                 "args[0] = kValue; }\n");
  const Compiler compiler = this->compiler();
  const auto first = compiler.compile_shared({.source_path = path});
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->name, "my kernel");
  EXPECT_EQ(call(*first, 0), 1);
  write("value.h", "constexpr int kValue = 2;\n");
  const auto second = compiler.compile_shared({.source_path = path});
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->from_cache);
  EXPECT_EQ(call(*second, 0), 2);
  EXPECT_TRUE(compiler.compile_shared({.source_path = path})->from_cache);
  EXPECT_EQ(runs(), 2U);
}

TEST_F(CompileTest, FlagsArchitectureAndIncludeFoldersArePartOfTheKey) {
  const Compiler compiler = this->compiler();
  ASSERT_TRUE(compiler.compile_shared({.source_text = kSource}).ok());
  ASSERT_TRUE(compiler.compile_shared({.source_text = kSource, .flags = {"-DANY=1"}}).ok());
  ASSERT_TRUE(compiler.compile_shared({.source_text = kSource, .include_dirs = {folder_}}).ok());
  EXPECT_EQ(runs(), 3U);
}

TEST_F(CompileTest, AnErrorShowsFileLineAndSourceLineAndTheNamedFileCanBeOpened) {
  const Compiler compiler = this->compiler();
  const auto result = compiler.compile_shared(
      {.name = "wrong", .source_text = "#include <cstdint>\nvoid f() {\n  int answer = fourty_two;\n}\n"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kCompileFailed);
  const std::string text(result.status().message());
  EXPECT_NE(text.find("'wrong' does not compile"), std::string::npos) << text;
  EXPECT_NE(text.find("-wrong.cpp:3:16: error"), std::string::npos) << text;
  EXPECT_NE(text.find("int answer = fourty_two;"), std::string::npos) << text;
  const size_t begin = text.find('(') + 1;
  EXPECT_TRUE(fs::exists(text.substr(begin, text.find(".cpp)") + 4 - begin))) << text;
  EXPECT_EQ(leftovers(), 0U);
}

TEST_F(CompileTest, AnUndefinedFunctionIsACompileErrorNotALoadError) {
  const auto result = compiler().compile_shared(
      {.source_text = "#include <cstdint>\nvoid missing_one();\nextern \"C\" __attribute__((visibility(\"default\"))) "
                      "void kernel_entry(int64_t*) { missing_one(); }\n"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kCompileFailed);
  EXPECT_NE(result.status().message().find("missing_one"), std::string_view::npos) << result.status().message();
}

TEST_F(CompileTest, ASourceWithoutTheEntryFunctionIsRefusedNamingIt) {
  const Compiler compiler = this->compiler();
  const auto kernel = compiler.compile_shared({.source_text = "extern \"C\" void other() {}\n"});
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.status().message().find("does not export 'kernel_entry'"), std::string_view::npos);
  const auto data = compiler.compile_shared(
      {.source_text = "extern \"C\" __attribute__((visibility(\"default\"))) int kernel_entry = 3;\n"});
  ASSERT_FALSE(data.ok());
  EXPECT_NE(data.status().message().find("does not export 'kernel_entry' as a function"), std::string_view::npos);
  const auto graph = compiler.compile_shared({.kind = SourceKind::kOrchestration, .source_text = kSource});
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("'aicpu_orchestration_entry'"), std::string_view::npos);
}

TEST_F(CompileTest, ADamagedCacheEntryIsCompiledAgain) {
  const Compiler compiler = this->compiler();
  const auto first = compiler.compile_shared({.source_text = kSource});
  ASSERT_TRUE(first.ok());
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(options_.cache_dir)) {
    if (entry.path().extension() != ".entry") continue;
    ++entries;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('\x5a').put('\x5a').put('\x5a');
  }
  ASSERT_EQ(entries, 1U);
  const auto second = compiler.compile_shared({.source_text = kSource});
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->from_cache);
  EXPECT_EQ(second->digest, first->digest);
  EXPECT_TRUE(compiler.compile_shared({.source_text = kSource})->from_cache);
}

TEST_F(CompileTest, ATruncatedOrEmptyCacheEntryIsCompiledAgain) {
  const Compiler compiler = this->compiler();
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{7}, uintmax_t{41}, uintmax_t{300}}) {
    ASSERT_TRUE(compiler.compile_shared({.source_text = kSource}).ok());
    for (const auto& entry : fs::directory_iterator(options_.cache_dir)) {
      if (entry.path().extension() == ".entry") fs::resize_file(entry.path(), size);
    }
    const auto again = compiler.compile_shared({.source_text = kSource});
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(again->from_cache);
    EXPECT_EQ(call(*again, 1), 42);
  }
}

TEST_F(CompileTest, ManyThreadsThatCompileTheSameSourceAllGetTheSameObject) {
  const Compiler compiler = this->compiler();
  std::vector<Sha256Digest> digests(4);
  std::vector<std::thread> threads;
  for (Sha256Digest& digest : digests) {
    threads.emplace_back([&] {
      const auto result = compiler.compile_shared({.source_text = kSource});
      if (result.ok()) digest = result->digest;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(digests[0], Sha256Digest{});
  for (const Sha256Digest& digest : digests) EXPECT_EQ(digest, digests[0]);
  EXPECT_EQ(leftovers(), 0U);
  EXPECT_TRUE(compiler.compile_shared({.source_text = kSource})->from_cache);
}

TEST_F(CompileTest, ACompilerThatNeverEndsIsKilledAtTheLimitWithItsChildren) {
  write("slow",
        "#!/bin/sh\ncase \"$*\" in *--version*) echo slow 1; exit 0 ;; esac\nsleep 1000 &\necho $! > '" + folder_ +
            "/child'\nwait\n",
        true);
  options_.compiler = folder_ + "/slow";
  pid_t child = 0;
  // On a busy machine the shell may not have come as far as its child at the first limit.
  for (options_.time_limit = 500 * kMillisecond; child == 0 && options_.time_limit < 60 * kSecond;
       options_.time_limit *= 2) {
    const auto result = compiler().compile_shared({.name = "endless", .source_text = kSource});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kTimeout);
    EXPECT_NE(result.status().message().find("'endless'"), std::string_view::npos);
    std::ifstream(folder_ + "/child") >> child;
  }
  ASSERT_GT(child, 0);
  EXPECT_TRUE(ends_within(child, 60 * kSecond));
}

TEST_F(CompileTest, AMissingCompilerIsNamedWithTheSettingThatChoosesOne) {
  options_.compiler = "no-such-c++";
  const auto by_option = Compiler::create(options_, environment_);
  ASSERT_FALSE(by_option.ok());
  EXPECT_NE(by_option.status().message().find("'no-such-c++' (from the compiler option)"), std::string_view::npos);
  options_.compiler.clear();
  environment_.set(Variable::kCxx, "other-c++");
  const auto by_environment = Compiler::create(options_, environment_);
  ASSERT_FALSE(by_environment.ok());
  EXPECT_NE(by_environment.status().message().find("'other-c++' (from the environment variable CXX)"),
            std::string_view::npos);
  environment_.set(Variable::kCxx, "").set(Variable::kPath, folder_);
  const auto none = Compiler::create(options_, environment_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(none.status().message().find("none of c++, g++, clang++ is in " + folder_), std::string_view::npos);
}

TEST_F(CompileTest, AnEnvironmentCommandWithArgumentsKeepsThem) {
  options_.compiler.clear();
  environment_.set(Variable::kCxx, "c++ -DFROM_ENVIRONMENT=7");
  const auto result = compiler().compile_shared(
      {.source_text = "#include \"simpler/kernel.h\"\nSIMPLER_KERNEL void kernel_entry(int64_t* args) { args[0] = "
                      "FROM_ENVIRONMENT; }\n"});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(call(*result, 0), 7);
}

TEST_F(CompileTest, MissingHeadersAndMissingSourcesAreNamed) {
  const auto no_source = compiler().compile_shared({.name = "nothing"});
  EXPECT_EQ(no_source.status().code(), StatusCode::kInvalidArgument);
  const auto no_file = compiler().compile_shared({.source_path = folder_ + "/absent.cpp"});
  EXPECT_NE(no_file.status().message().find("absent.cpp"), std::string_view::npos);
  options_.public_include_dir = folder_;
  EXPECT_EQ(Compiler::create(options_, environment_).status().code(), StatusCode::kNotFound);
}

TEST_F(CompileTest, TheCacheFolderFollowsTheEnvironmentAndAFolderOfOthersIsRefused) {
  Environment environment;
  environment.set(Variable::kXdgCacheHome, folder_ + "/xdg");
  EXPECT_EQ(*choose_cache_folder("", environment), folder_ + "/xdg/simpler");
  environment.set(Variable::kCacheDir, folder_ + "/demanded");
  EXPECT_EQ(*choose_cache_folder("", environment), folder_ + "/demanded");
  EXPECT_EQ(*choose_cache_folder(folder_ + "/argument", environment), folder_ + "/argument");
  Environment broken;
  broken.set(Variable::kXdgCacheHome, "/proc/nowhere").set(Variable::kTmpDir, folder_);
  EXPECT_EQ(choose_cache_folder("", broken)->rfind(folder_ + "/simpler-cache-", 0), 0U);
  fs::create_directory(folder_ + "/open");
  fs::permissions(folder_ + "/open", fs::perms::all);
  const auto open = choose_cache_folder(folder_ + "/open", environment);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.status().message().find("can be written by everybody"), std::string_view::npos);
}

}  // namespace
}  // namespace simpler::compile
