#include "callable/registry.h"

#include <thread>

#include <gtest/gtest.h>

#include "callable/resolver.h"

namespace simpler::callable {
namespace {

constexpr auto kPython = TargetNamespace::kLocalPython;
constexpr auto kChip = TargetNamespace::kLocalChip;

Identity native(uint32_t version) {
  return native_function_identity("f", version);
}
Identity chip(uint32_t number) {
  const auto bytes = std::as_bytes(std::span(&number, 1));
  return chip_callable_identity("", "tiny", "host_build_graph", bytes, {});
}

Handle add(Registry& registry, const Identity& identity, TargetNamespace target = kPython) {
  const Result<Registration> registration = registry.begin(identity, target, "f");
  EXPECT_TRUE(registration.ok()) << registration.status().message();
  return registry.commit(*registration);
}

void remove(Registry& registry, const Handle& handle) {
  const Result<Removal> removal = registry.begin_unregister(handle);
  ASSERT_TRUE(removal.ok()) << removal.status().message();
  registry.finish_unregister(*removal);
}

bool says(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

TEST(Registry, EveryRegistrationHasAHandleOfItsOwn) {  // P42
  Registry registry;
  const Handle first = add(registry, native(1));
  const Result<Registration> again = registry.begin(native(1), kPython, "f");
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->first);
  EXPECT_EQ(again->index, first->index);
  const Handle second = registry.commit(*again);
  EXPECT_EQ(first->hashid, second->hashid);
  EXPECT_NE(first->handle_id, second->handle_id);
  const Result<Removal> removal = registry.begin_unregister(first);
  ASSERT_TRUE(removal.ok());
  EXPECT_FALSE(removal->last);
  registry.finish_unregister(*removal);
  EXPECT_EQ(registry.check(first).code(), StatusCode::kNotFound);
  EXPECT_TRUE(registry.check(second).is_ok());
  EXPECT_EQ(registry.size(), 1u);
  remove(registry, second);
  EXPECT_EQ(registry.size(), 0u);
}

TEST(Registry, ForeignStaleAndEmptyHandlesAreRefused) {  // P18
  Registry registry;
  Registry other;
  const Handle handle = add(registry, native(1));
  EXPECT_EQ(registry.check(nullptr).code(), StatusCode::kWrongType);
  EXPECT_TRUE(says(registry.check(nullptr), "CallableHandle returned by Worker.register"));
  EXPECT_EQ(other.check(handle).code(), StatusCode::kNotFound);
  EXPECT_EQ(other.begin_unregister(handle).status().code(), StatusCode::kNotFound);
  remove(registry, handle);
  EXPECT_EQ(registry.begin_unregister(handle).status().code(), StatusCode::kNotFound);
}

TEST(Registry, ChangedFieldsOfAHandleAreNoticed) {
  Registry registry;
  const Handle handle = add(registry, native(1));
  EXPECT_TRUE(Registry::check_unmodified(*handle, handle->hashid, handle->kind, kPython).is_ok());
  EXPECT_TRUE(says(Registry::check_unmodified(*handle, "sha256:0", handle->kind, kPython), "CALLABLE_HANDLE_MUTATED"));
  EXPECT_TRUE(says(Registry::check_unmodified(*handle, handle->hashid, CallableKind::kChipCallable, kPython),
                   "CALLABLE_HANDLE_MUTATED"));
  EXPECT_TRUE(
      says(Registry::check_unmodified(*handle, handle->hashid, handle->kind, kChip), "CALLABLE_HANDLE_MUTATED"));
}

TEST(Registry, TheSixtyFifthChipCallableIsRefusedAndAFreedPlaceIsReused) {  // P45
  Registry registry;
  std::vector<Handle> handles;
  for (uint32_t i = 0; i < 64; ++i) handles.push_back(add(registry, chip(i), kChip));
  const Result<Registration> over = registry.begin(chip(64), kChip, "f");
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(says(over.status(), "LOCAL_SLOT_EXHAUSTED"));
  EXPECT_TRUE(registry.begin(chip(3), kChip, "f").ok());  // known already: no new place
  EXPECT_NE(add(registry, native(1)), nullptr);           // host callables have places of their own
  const uint16_t freed = handles[10]->index;
  remove(registry, handles[10]);
  EXPECT_EQ(add(registry, chip(64), kChip)->index, freed);
}

TEST(Registry, HostCallablesFillTheWholeTable) {
  Registry registry;
  for (uint32_t i = 1; i <= kMaxCallableIndex; ++i) ASSERT_EQ(add(registry, native(i))->index, i);
  EXPECT_TRUE(says(registry.begin(native(0), kPython, "f").status(), "LOCAL_SLOT_EXHAUSTED"));
  EXPECT_EQ(registry.snapshot().size(), kMaxCallableIndex);
}

TEST(Registry, WhileChildrenForgetADigestItCannotComeBack) {
  Registry registry;
  const Handle handle = add(registry, native(1));
  const Handle second = add(registry, native(1));
  const Result<Removal> removal = registry.begin_unregister(handle);
  ASSERT_TRUE(removal.ok());
  EXPECT_TRUE(says(registry.begin(native(1), kPython, "f").status(), "REGISTER_TOMBSTONE_ACTIVE"));
  EXPECT_TRUE(says(registry.begin_unregister(second).status(), "UNREGISTER_TOMBSTONE_ACTIVE"));
  EXPECT_TRUE(registry.check(second).is_ok());
  registry.finish_unregister(*removal);
  EXPECT_TRUE(registry.begin(native(1), kPython, "f").ok());
}

TEST(Registry, AnAbortedRegistrationLeavesNothingBehind) {  // P43
  Registry registry;
  const Result<Registration> registration = registry.begin(native(1), kPython, "f");
  ASSERT_TRUE(registration.ok());
  EXPECT_TRUE(registry.snapshot().empty());
  registry.abort(*registration);
  EXPECT_EQ(add(registry, native(2))->index, registration->index);
  EXPECT_TRUE(registry.begin(native(1), kPython, "f").ok());
}

TEST(Registry, AnUnconfirmedUndoKeepsTheDigestOutForGood) {  // P43
  Registry registry;
  const Handle older = add(registry, native(1));
  registry.abort(*registry.begin(native(1), kPython, "f"), false);
  EXPECT_TRUE(registry.check(older).is_ok());
  EXPECT_TRUE(says(registry.begin(native(1), kPython, "f").status(), "REGISTER_CLEANUP_UNCERTAIN"));
  remove(registry, older);
  EXPECT_TRUE(says(registry.begin(native(1), kPython, "f").status(), "REGISTER_CLEANUP_UNCERTAIN"));
  const Result<Registration> doubtful = registry.begin(native(2), kPython, "f");
  registry.abort(*doubtful, false);
  EXPECT_NE(add(registry, native(3))->index, doubtful->index);  // a child may still run something under it
}

TEST(Registry, AnEqualDigestWithAnotherDescriptionIsRefused) {
  Registry registry;
  add(registry, native(1));
  Identity forged = native(1);
  forged.descriptor[8] ^= std::byte{1};
  EXPECT_TRUE(says(registry.begin(forged, kPython, "f").status(), "HASHID_DESCRIPTOR_MISMATCH"));
  EXPECT_TRUE(says(registry.begin(native(1), kChip, "f").status(), "HASHID_DESCRIPTOR_MISMATCH"));
}

TEST(Registry, ThreadsRegisterAndUnregisterSideBySide) {
  Registry registry;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&registry, t] {
      for (uint32_t i = 0; i < 200; ++i) {
        const Handle handle = add(registry, native(t * 1000 + i));
        EXPECT_TRUE(registry.check(handle).is_ok());
        remove(registry, handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.size(), 0u);
}

Result<std::string> make_text(uint32_t slot) {
  return "slot " + std::to_string(slot);
}

TEST(Resolver, ADigestIsInstalledOnceAndCounted) {
  Resolver<std::string> resolver(64);
  int made = 0;
  const auto make = [&](uint32_t slot) {
    ++made;
    return make_text(slot);
  };
  EXPECT_EQ(*resolver.install(native(1).digest, 9, make), 0u);
  EXPECT_EQ(*resolver.install(native(1).digest, 9, make), 0u);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(*resolver.find(9), "slot 0");
  EXPECT_FALSE(*resolver.remove(native(1).digest));
  EXPECT_NE(resolver.find(9), nullptr);
  EXPECT_TRUE(*resolver.remove(native(1).digest));
  EXPECT_EQ(resolver.find(9), nullptr);
  EXPECT_EQ(resolver.remove(native(1).digest).status().code(), StatusCode::kNotFound);
}

TEST(Resolver, TheSmallestFreeSlotIsTaken) {
  Resolver<std::string> resolver(3);
  for (uint16_t i = 1; i <= 3; ++i) EXPECT_EQ(*resolver.install(native(i).digest, i, make_text), i - 1U);
  EXPECT_TRUE(says(resolver.install(native(4).digest, 4, make_text).status(), "LOCAL_SLOT_EXHAUSTED"));
  EXPECT_TRUE(*resolver.remove(native(2).digest));
  EXPECT_EQ(*resolver.install(native(4).digest, 4, make_text), 1u);
  EXPECT_EQ(resolver.slot_of(4), 1u);
  EXPECT_EQ(resolver.slot_of(2), std::nullopt);
}

TEST(Resolver, AFailedInstallLeavesNothingBehind) {
  Resolver<std::string> resolver(1);
  const auto refuse = [](uint32_t) -> Result<std::string> { return unavailable("no"); };
  EXPECT_FALSE(resolver.install(native(1).digest, 1, refuse).ok());
  EXPECT_EQ(resolver.size(), 0u);
  EXPECT_EQ(*resolver.install(native(2).digest, 2, make_text), 0u);
}

TEST(Resolver, AFailedDropFreesTheSlotNevertheless) {
  Resolver<std::string> resolver(1);
  ASSERT_TRUE(resolver.install(native(1).digest, 1, make_text).ok());
  const auto refuse = [](uint32_t, std::string&) { return unavailable("stuck"); };
  EXPECT_EQ(resolver.remove(native(1).digest, refuse).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(*resolver.install(native(2).digest, 2, make_text), 0u);
}

TEST(Resolver, EveryIndexMayBeAsked) {
  Resolver<std::string> resolver;
  ASSERT_TRUE(resolver.install(native(1).digest, 7, make_text).ok());
  for (uint32_t index = 0; index <= 0xFFFF; ++index) {
    EXPECT_EQ(resolver.find(static_cast<uint16_t>(index)) != nullptr, index == 7);
  }
  EXPECT_FALSE(resolver.install(native(2).digest, 0, make_text).ok());
}

}  // namespace
}  // namespace simpler::callable
