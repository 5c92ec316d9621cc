#include "memory/shared_mapping.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::FixedSpace;
using testing::in_child;

Result<SharedMapping> make(uint64_t bytes, const SpaceProbe* space = nullptr) {
  return SharedMapping::create({.name = "test", .bytes = bytes, .space = space});
}

TEST(SharedMapping, AChildSeesWhatTheParentWritesAndTheOtherWayRound) {
  SharedMapping mapping = *make(4096);
  ASSERT_TRUE(mapping.secure(0, 4096).is_ok());
  mapping.data()[0] = std::byte{7};
  EXPECT_EQ(in_child([&] {
              if (mapping.data()[0] != std::byte{7}) return false;
              mapping.data()[1] = std::byte{8};
              return true;
            }),
            0);
  EXPECT_EQ(mapping.data()[1], std::byte{8});
}

TEST(SharedMapping, AShortageIsAStatusBeforeAnythingIsTouched) {  // B017
  const FixedSpace space(uint64_t{1} << 20);
  SharedMapping mapping = *make(uint64_t{16} << 20, &space);
  const Status status = mapping.secure(0, uint64_t{16} << 20);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("16777216"), std::string_view::npos);
  EXPECT_NE(status.message().find("1048576"), std::string_view::npos);
  EXPECT_NE(status.message().find("the test's limit"), std::string_view::npos);
  struct stat info {};
  fstat(mapping.fd(), &info);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST(SharedMapping, ASmallFileSystemIsNamedAsTheLimit) {  // B017, B018: a mount of one megabyte
  const std::string folder = "/tmp/simpler-mapping-test-" + std::to_string(getpid());
  mkdir(folder.c_str(), 0700);
  const int status = in_child([&] {
    // In a mount namespace of the child's own, so that nothing is left behind; not allowed everywhere.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return true;
    if (mount("none", folder.c_str(), "tmpfs", 0, "size=1m") != 0) return true;
    Result<SharedMapping> mapping =
        SharedMapping::create({.name = "test", .bytes = 16 << 20, .space = nullptr, .file = folder + "/x"});
    const Status secured = mapping.ok() ? mapping->secure(0, 16 << 20) : mapping.status();
    const bool good = secured.code() == StatusCode::kResourceExhausted &&
                      secured.message().find("file system") != std::string_view::npos;
    if (mapping.ok()) static_cast<void>(mapping->close());
    umount(folder.c_str());
    return good;
  });
  EXPECT_EQ(status, 0);
  rmdir(folder.c_str());
}

TEST(SharedMapping, MappedBytesCannotBeTakenAwayByShrinking) {
  SharedMapping mapping = *make(8192);
  EXPECT_NE(ftruncate(mapping.fd(), 4096), 0);
  EXPECT_NE(fcntl(mapping.fd(), F_GET_SEALS) & F_SEAL_SHRINK, 0);
}

TEST(SharedMapping, OnlyTheOwnerMayOpenItWhateverTheUmask) {  // B097
  const mode_t old = umask(0);
  SharedMapping mapping = *make(4096);
  umask(old);
  struct stat info {};
  fstat(mapping.fd(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(SharedMapping, AReadOnlyChildCannotWrite) {
  SharedMapping mapping = *make(4096);
  ASSERT_TRUE(mapping.secure(0, 4096).is_ok());
  const int status = in_child([&] {
    signal(SIGSEGV, SIG_DFL);
    if (!mapping.protect_read_only().is_ok() || mapping.data()[0] != std::byte{0}) return false;
    signal(SIGSEGV, [](int) { _exit(42); });
    mapping.data()[0] = std::byte{1};
    return false;
  });
  EXPECT_EQ(WEXITSTATUS(status), 42);
  mapping.data()[0] = std::byte{1};  // the parent still can
}

TEST(SharedMapping, AnotherProcessOpensItThroughProcAndChecksInodeAndSize) {
  SharedMapping mapping = *make(8192);
  ASSERT_TRUE(mapping.secure(0, 8192).is_ok());
  std::memcpy(mapping.data(), "hello", 5);
  const auto open = [&](uint64_t inode, uint64_t bytes, int fd) {
    return SharedMapping::open_remote(getpid(), fd, inode, bytes, AccessMode::kReadWrite);
  };
  const Result<SharedMapping> opened = open(mapping.inode(), 8192, mapping.fd());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(std::memcmp(opened->data(), "hello", 5), 0);
  EXPECT_EQ(open(mapping.inode() + 1, 1, mapping.fd()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(open(mapping.inode(), 8193, mapping.fd()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open(mapping.inode(), 1, 9999).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(open(mapping.inode(), 1, 0).status().code(), StatusCode::kNotFound);  // something else altogether
}

TEST(SharedMapping, FiveGibibytesWorkSparsely) {
  SharedMapping mapping = *make(uint64_t{5} << 30);
  ASSERT_TRUE(mapping.secure(0, 4096).is_ok());
  ASSERT_TRUE(mapping.secure(mapping.size() - 4096, 4096).is_ok());
  mapping.data()[0] = std::byte{1};
  mapping.data()[mapping.size() - 1] = std::byte{2};
  EXPECT_FALSE(mapping.secure(mapping.size() - 4096, 4097).is_ok());
  EXPECT_FALSE(mapping.secure(UINT64_MAX, 2).is_ok());
}

TEST(SharedMapping, ZeroBytesAndImpossibleSizesAreRefused) {
  EXPECT_EQ(make(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(make(UINT64_MAX).ok());
  EXPECT_FALSE(make(uint64_t{1} << 60).ok());
}

TEST(SharedMapping, AMissingDescriptorNamesTheLimit) {  // B020
  EXPECT_EQ(in_child([] {
              const struct rlimit none { 3, 3 };
              setrlimit(RLIMIT_NOFILE, &none);
              const Status status = make(4096).status();
              return status.code() == StatusCode::kResourceExhausted &&
                     status.message().find("ulimit -n") != std::string_view::npos;
            }),
            0);
}

TEST(SharedMapping, ALimitOnFileSizesIsAStatusNotASignal) {
  EXPECT_EQ(in_child([] {
              const struct rlimit small { 4096, 4096 };
              setrlimit(RLIMIT_FSIZE, &small);
              return make(1 << 20).status().code() == StatusCode::kResourceExhausted;
            }),
            0);
}

TEST(SharedMapping, DiscardedPagesReadAsZero) {
  SharedMapping mapping = *make(16384);
  ASSERT_TRUE(mapping.secure(0, 16384).is_ok());
  std::memset(mapping.data(), 0xFF, 16384);
  mapping.discard(100, 12288);  // whole pages inside: 4096 to 12287
  EXPECT_EQ(mapping.data()[4095], std::byte{0xFF});
  EXPECT_EQ(mapping.data()[4096], std::byte{0});
  EXPECT_EQ(mapping.data()[12287], std::byte{0});
  EXPECT_EQ(mapping.data()[12288], std::byte{0xFF});
}

TEST(SharedMapping, ANamedFileGoesWithItsMakerOnly) {
  const std::string path = "/dev/shm/simpler-test-" + std::to_string(getpid());
  {
    Result<SharedMapping> mapping =
        SharedMapping::create({.name = "test", .bytes = 4096, .space = nullptr, .file = path});
    if (!mapping.ok()) GTEST_SKIP() << mapping.status().message();
    EXPECT_EQ(SharedMapping::create({.name = "t", .bytes = 1, .space = nullptr, .file = path}).status().code(),
              StatusCode::kAlreadyExists);
    EXPECT_EQ(in_child([&] { return mapping->close().is_ok(); }), 0);
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(SharedMapping, AFailedRemovalIsReportedAndMayBeRepeated) {  // B016
  const std::string folder = "/tmp/simpler-unlink-test-" + std::to_string(getpid());
  mkdir(folder.c_str(), 0700);
  const std::string path = folder + "/x";
  SharedMapping mapping = *SharedMapping::create({.name = "test", .bytes = 4096, .space = nullptr, .file = path});
  // A folder in the file's place cannot be unlinked.
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_FALSE(mapping.close().is_ok());
  ASSERT_EQ(rmdir(path.c_str()), 0);
  EXPECT_TRUE(mapping.close().is_ok());
  rmdir(folder.c_str());
}

TEST(SecuredFront, SecuresInStepsAheadOfUse) {
  FixedSpace space(uint64_t{1} << 40);
  SharedMapping mapping = *make(uint64_t{5} << 20, &space);
  SecuredFront front(mapping, 0, mapping.size());
  ASSERT_TRUE(front.require(1).is_ok());
  EXPECT_EQ(front.secured(), kSecureStep);
  space.set(0);
  EXPECT_TRUE(front.require(kSecureStep).is_ok());  // no further look
  EXPECT_EQ(front.require(kSecureStep + 1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(front.secured(), kSecureStep);
  space.set(uint64_t{1} << 40);
  EXPECT_TRUE(front.require(uint64_t{5} << 20).is_ok());
  EXPECT_EQ(front.secured(), uint64_t{5} << 20);
  EXPECT_EQ(front.require((uint64_t{5} << 20) + 1).code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace simpler::memory
