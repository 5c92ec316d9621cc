#include "wire/mailbox.h"

#include <memory>

#include <gtest/gtest.h>

#include "wire/shared_tables.h"

namespace simpler::wire {
namespace {

TEST(Mailbox, InitialisedOnesAreValidAndOthersAreNot) {
  const auto mailbox = std::make_unique<Mailbox>();
  EXPECT_FALSE(validate(mailbox->header).is_ok());
  initialise(*mailbox, 32, 1);
  EXPECT_TRUE(validate(mailbox->header).is_ok());
  mailbox->header.depth = 33;
  EXPECT_FALSE(validate(mailbox->header).is_ok());
  mailbox->header.depth = 0;
  EXPECT_FALSE(validate(mailbox->header).is_ok());
  mailbox->header.depth = 1;
  mailbox->header.version = 99;
  EXPECT_FALSE(validate(mailbox->header).is_ok());
}

TEST(Mailbox, GroupsWithDifferentWritersShareNoPairOfCacheLines) {
  const size_t starts[] = {offsetof(Mailbox, header),     offsetof(Mailbox, child_wake), offsetof(Mailbox, parent),
                           offsetof(Mailbox, statistics), offsetof(Mailbox, lines),      offsetof(Mailbox, request),
                           offsetof(Mailbox, reply),      offsetof(Mailbox, startup)};
  for (const size_t start : starts) EXPECT_EQ(start % kCacheLinePair, 0u) << start;
  EXPECT_EQ(kMailboxBytes % 4096, 0u);
  EXPECT_GE(kMailboxBytes, sizeof(Mailbox));
}

TEST(SharedTables, LieWhereTheLayoutSays) {
  EXPECT_EQ(kBuffersOffset, 4096u);
  EXPECT_EQ(kLayoutsOffset, 4096u + 65536u * 128u);
  EXPECT_EQ(kConfigsOffset, kLayoutsOffset + 65536u * 64u);
  EXPECT_EQ(kCallablesOffset, kConfigsOffset + 1024u * 1152u);
  EXPECT_EQ(kTablesBytes, kCallablesOffset + 4096u * 128u);
}

TEST(Enumerations, KnownValuesAreTheDocumentedRanges) {
  for (uint32_t value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    EXPECT_EQ(is_known(static_cast<MailboxState>(byte)), value <= 12);
    EXPECT_EQ(is_known(static_cast<TensorArgType>(byte)), value <= 4);
    EXPECT_EQ(is_known(static_cast<CallableKind>(value)), value >= 1 && value <= 5);
    EXPECT_EQ(is_known(static_cast<TargetNamespace>(value)), value >= 1 && value <= 3);
    EXPECT_EQ(name_of(static_cast<MailboxState>(byte)) == "unknown", value > 12);
  }
  EXPECT_EQ(name_of(MailboxState::kPrepareReady), "PREPARE_READY");
  EXPECT_EQ(name_of(BackendKind::kForkCow), "FORK_COW");
  EXPECT_EQ(name_of(CallableKind::kPythonForkOnly), "PYTHON_FORK_ONLY");
}

TEST(Enumerations, AccessGrantsFollowTheTag) {
  using enum TensorArgType;
  EXPECT_TRUE(grants(AccessMode::kRead, kInput));
  EXPECT_FALSE(grants(AccessMode::kWrite, kInput));
  EXPECT_FALSE(grants(AccessMode::kRead, kInout));
  EXPECT_FALSE(grants(AccessMode::kWrite, kInout));
  EXPECT_TRUE(grants(AccessMode::kReadWrite, kInout));
  EXPECT_FALSE(grants(AccessMode::kRead, kOutputExisting));
  EXPECT_TRUE(grants(AccessMode::kWrite, kOutputExisting));
  EXPECT_TRUE(grants(AccessMode::kRead, kOutput));
  EXPECT_TRUE(grants(AccessMode::kRead, kNoDep));
}

}  // namespace
}  // namespace simpler::wire
