#include "memory/space.h"

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace simpler::memory {
namespace {

TEST(Space, ACgroupLeavesItsLimitLessWhatIsUsedAndNotCache) {
  const Space space =
      cgroup_space("1000000\n", "600000\n", "anon 1\ninactive_file 150000\nactive_file 50000\nfile 9\n");
  EXPECT_EQ(space.available_bytes, 600000u);
  EXPECT_NE(space.place.find("cgroup"), std::string::npos);
}

TEST(Space, AnUnlimitedOrUnreadableCgroupLimitsNothing) {
  EXPECT_EQ(cgroup_space("max\n", "5\n", "").available_bytes, UINT64_MAX);
  EXPECT_EQ(cgroup_space("", "", "").available_bytes, UINT64_MAX);
  EXPECT_EQ(cgroup_space("9223372036854771712\n", "5\n", "").available_bytes, UINT64_MAX);  // version 1's "no limit"
}

TEST(Space, AnOverfullCgroupLeavesNothing) {
  EXPECT_EQ(cgroup_space("1000", "2000", "").available_bytes, 0u);
}

TEST(Space, TheMachineLeavesWhatIsAvailable) {
  EXPECT_EQ(machine_space("MemTotal: 9 kB\nMemAvailable:   12345 kB\n").available_bytes, 12345u * 1024);
  EXPECT_GT(machine_space("nothing known\n").available_bytes, uint64_t{1} << 60);
}

TEST(Space, ARefusalNamesBothSizesThePlaceAndTheRemedy) {  // B017, B018
  EXPECT_TRUE(check_space({100, "here", "do this"}, 100, "x").is_ok());
  const Status status = check_space({100, "/dev/shm", "enlarge /dev/shm"}, 101, "buffer 7");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "buffer 7 asks for 101 bytes, 100 are available in /dev/shm; enlarge /dev/shm");
}

TEST(Space, ThisMachineHasSomeAndAMemfdHasNoFileSystemLimit) {
  EXPECT_GT(system_space().look().available_bytes, uint64_t{1} << 20);
  const UniqueFd fd(memfd_create("t", MFD_CLOEXEC));
  EXPECT_GT(file_space(fd.get()).available_bytes, uint64_t{1} << 40);
}

}  // namespace
}  // namespace simpler::memory
