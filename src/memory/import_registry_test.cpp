#include "memory/import_registry.h"

#include <cstring>
#include <functional>
#include <sys/mman.h>

#include "memory/buffer_table.h"
#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::in_child;

struct World {
  std::unique_ptr<SharedTables> tables = std::move(*SharedTables::create());
  HostStore store;
  BufferTable buffers{*tables};

  OwnedBuffer make(uint64_t nbytes, AccessMode access = AccessMode::kReadWrite) {
    OwnedBuffer buffer = *buffers.create(store, nbytes, access);
    std::memset(buffer.backing->data(), 0x11, nbytes);
    return buffer;
  }
};

// A child forked before `make` runs in the parent; it then gets the descriptors that the parent made and judges them.
int in_older_child(const std::function<std::vector<BufferDescriptor>()>& make,
                   const std::function<bool(const std::vector<BufferDescriptor>&)>& judge) {
  int channel[2];
  EXPECT_EQ(pipe(channel), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(channel[1]);
    std::vector<BufferDescriptor> descriptors;
    BufferDescriptor d;
    while (read(channel[0], &d, sizeof d) == static_cast<ssize_t>(sizeof d)) descriptors.push_back(d);
    _exit(judge(descriptors) ? 0 : 1);
  }
  close(channel[0]);
  for (const BufferDescriptor& d : make()) EXPECT_EQ(write(channel[1], &d, sizeof d), static_cast<ssize_t>(sizeof d));
  close(channel[1]);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(ImportRegistry, BuffersMadeAfterTheForkAreFoundAndShared) {
  World world;
  std::vector<OwnedBuffer> buffers;
  const int status = in_older_child(
      [&] {
        std::vector<BufferDescriptor> out;
        for (const uint64_t nbytes : {uint64_t{1}, uint64_t{5000}, uint64_t{3} << 20}) {
          buffers.push_back(world.make(nbytes));
          out.push_back(buffers.back().descriptor);
        }
        return out;
      },
      [](const std::vector<BufferDescriptor>& descriptors) {
        ImportRegistry imports;
        for (const BufferDescriptor& d : descriptors) {
          const Result<Import> import = imports.materialize(d);
          if (!import.ok() || import->base[d.nbytes - 1] != std::byte{0x11}) return false;
          import->base[0] = std::byte{0x22};
        }
        return descriptors.size() == 3 && imports.mapped_objects() == 2;
      });
  EXPECT_EQ(status, 0);
  for (const OwnedBuffer& buffer : buffers) EXPECT_EQ(buffer.backing->data()[0], std::byte{0x22});
}

TEST(ImportRegistry, AReleasedBufferIsNotFoundAndItsIdentityIsNamed) {  // P38
  World world;
  for (const uint64_t nbytes : {uint64_t{100}, uint64_t{2} << 20}) {
    const OwnedBuffer buffer = world.make(nbytes);
    ASSERT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
    ImportRegistry imports;
    const Status status = imports.materialize(buffer.descriptor).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.message();
    EXPECT_NE(status.message().find(to_string(buffer.descriptor.identity)), std::string_view::npos);
    EXPECT_EQ(imports.size(), 0u);
  }
}

TEST(ImportRegistry, APlaceOrNumberThatBelongsToAnotherBufferNowIsNotFound) {
  World world;
  BufferDescriptor small;
  BufferDescriptor large;
  {
    const OwnedBuffer a = world.make(1000);
    const OwnedBuffer b = world.make(uint64_t{2} << 20);
    small = a.descriptor;
    large = b.descriptor;
    ASSERT_TRUE(world.buffers.release_all().is_ok());
  }
  const OwnedBuffer c = world.make(1000);
  const OwnedBuffer d = world.make(uint64_t{2} << 20);
  EXPECT_EQ(body_name(c.descriptor), body_name(small));  // the same place
  ImportRegistry imports;
  EXPECT_EQ(imports.materialize(small).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(imports.materialize(large).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(imports.materialize(c.descriptor).ok());
  EXPECT_TRUE(imports.materialize(d.descriptor).ok());
}

TEST(ImportRegistry, TheOwnersDeathIsNotFound) {
  BufferDescriptor d;
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  EXPECT_EQ(in_child([&] {
              World world;
              const OwnedBuffer buffer = world.make(uint64_t{2} << 20);
              return write(channel[1], &buffer.descriptor, sizeof d) == static_cast<ssize_t>(sizeof d);
            }),
            0);
  ASSERT_EQ(read(channel[0], &d, sizeof d), static_cast<ssize_t>(sizeof d));
  ImportRegistry imports;
  EXPECT_EQ(imports.materialize(d).status().code(), StatusCode::kNotFound);
  close(channel[0]);
  close(channel[1]);
}

TEST(ImportRegistry, ContradictingDescriptorsAreRefusedAndTheFirstMappingStays) {  // P39
  World world;
  const OwnedBuffer buffer = world.make(1000);
  ImportRegistry imports;
  const Import first = *imports.materialize(buffer.descriptor);
  BufferDescriptor changed = buffer.descriptor;
  changed.nbytes = 999;
  changed.access = AccessMode::kRead;
  const Status status = imports.materialize(changed).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("access, nbytes"), std::string_view::npos);
  EXPECT_EQ(imports.materialize(buffer.descriptor)->base, first.base);
  EXPECT_EQ(imports.size(), 1u);
}

TEST(ImportRegistry, ATooSmallObjectIsRefused) {
  World world;
  for (const uint64_t nbytes : {uint64_t{1000}, uint64_t{2} << 20}) {
    const OwnedBuffer buffer = world.make(nbytes);
    for (const uint64_t claim : {nbytes + 1, nbytes + 4096, uint64_t{1} << 40, UINT64_MAX - 64, UINT64_MAX}) {
      BufferDescriptor d = buffer.descriptor;
      d.nbytes = claim;
      ImportRegistry imports;
      EXPECT_EQ(imports.materialize(d).status().code(), StatusCode::kInvalidArgument) << claim;
    }
  }
}

TEST(ImportRegistry, InheritedMemoryIsWhereItWasAndAnythingElseIsRefused) {
  static int inherited[64] = {1, 2, 3};
  BufferDescriptor d;
  d.backend_kind = BackendKind::kForkCow;
  d.access = AccessMode::kRead;
  d.identity = {{9}, 1, 1, {}};
  d.nbytes = sizeof inherited;
  set_body_address(d, reinterpret_cast<uint64_t>(inherited));
  ImportRegistry imports;
  EXPECT_EQ(imports.materialize(d)->base, reinterpret_cast<std::byte*>(inherited));
  d.identity.buffer_id = 2;
  set_body_address(d, 0x10);  // nothing is ever mapped there
  EXPECT_EQ(imports.materialize(d).status().code(), StatusCode::kNotFound);
  d.identity.buffer_id = 3;
  set_body_address(d, UINT64_MAX - 10);
  EXPECT_EQ(imports.materialize(d).status().code(), StatusCode::kNotFound);
}

TEST(ImportRegistry, DeviceMemoryIsForTheChipOfItsOwnerOnly) {
  BufferDescriptor d;
  d.backend_kind = BackendKind::kDeviceMalloc;
  d.address_space = AddressSpace::kDevice;
  d.identity = {{7}, 1, 1, {}};
  d.nbytes = 64;
  set_body_address(d, 0xABC000);
  ImportRegistry host;
  EXPECT_EQ(host.materialize(d).status().code(), StatusCode::kUnsupported);
  ImportRegistry chip({.endpoint = Endpoint::kChip, .device_owner = {7}});
  const Result<Import> import = chip.materialize(d);
  ASSERT_TRUE(import.ok());
  EXPECT_TRUE(import->device);
  EXPECT_EQ(reinterpret_cast<uint64_t>(import->base), 0xABC000u);
  ImportRegistry foreign({.endpoint = Endpoint::kChip, .device_owner = {8}});
  EXPECT_EQ(foreign.materialize(d).status().code(), StatusCode::kUnsupported);
  d.backend_kind = BackendKind::kRemoteSidecar;
  d.identity.buffer_id = 2;
  d.body.fill(0);
  d.body_len = 0;
  EXPECT_EQ(chip.materialize(d).status().code(), StatusCode::kUnsupported);
}

TEST(ImportRegistry, ForeignNamesAreRefused) {
  BufferDescriptor d;
  d.backend_kind = BackendKind::kPosixShm;
  d.identity = {{7}, 1, 1, {}};
  d.nbytes = 64;
  ImportRegistry imports;
  for (const std::string_view name : {"psm_1234", "1.2", "self.3.4"}) {
    ASSERT_TRUE(set_body_name(d, name).is_ok());
    EXPECT_EQ(imports.materialize(d).status().code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(ImportRegistry, ReleaseDropsTheMappingUnlessAViewIsHeld) {
  World world;
  const OwnedBuffer a = world.make(100);
  const OwnedBuffer b = world.make(200);
  const OwnedBuffer c = world.make(uint64_t{2} << 20);
  ImportRegistry imports;
  for (const OwnedBuffer* buffer : {&a, &b, &c}) ASSERT_TRUE(imports.materialize(buffer->descriptor).ok());
  EXPECT_EQ(imports.mapped_objects(), 2u);
  std::optional<Import> view = *imports.materialize(c.descriptor);
  EXPECT_EQ(imports.release(c.descriptor.identity, true).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(imports.knows(c.descriptor.identity));
  view.reset();
  EXPECT_TRUE(imports.release(c.descriptor.identity, true).is_ok());
  EXPECT_TRUE(imports.release(a.descriptor.identity, true).is_ok());
  EXPECT_EQ(imports.mapped_objects(), 1u);  // b lives in the same object as a
  EXPECT_TRUE(imports.release(b.descriptor.identity).is_ok());
  EXPECT_EQ(imports.mapped_objects(), 0u);
  EXPECT_EQ(imports.release(b.descriptor.identity).code(), StatusCode::kNotFound);
}

TEST(ImportRegistry, AReadOnlyBufferIsMappedReadOnly) {
  World world;
  const OwnedBuffer buffer = world.make(100, AccessMode::kRead);
  const int status = in_child([&] {
    ImportRegistry imports;
    const Result<Import> import = imports.materialize(buffer.descriptor);
    if (!import.ok() || import->base[0] != std::byte{0x11}) return false;
    signal(SIGSEGV, [](int) { _exit(42); });
    import->base[0] = std::byte{1};
    return false;
  });
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

class PassedDescriptors final : public DescriptorSource {
 public:
  explicit PassedDescriptors(int fd) : fd_(fd) {}
  UniqueFd fetch(const BackingName&) override { return UniqueFd(dup(fd_)); }

 private:
  int fd_;
};

TEST(ImportRegistry, DescriptorsMayBePassedWhereProcIsMissing) {
  SharedMapping mapping = *SharedMapping::create({.name = "t", .bytes = 4096});
  ASSERT_TRUE(mapping.secure(0, 4096).is_ok());
  mapping.data()[7] = std::byte{9};
  BufferDescriptor d;
  d.backend_kind = BackendKind::kPosixShm;
  d.identity = {{7}, 1, 1, {}};
  d.nbytes = 4096;
  ASSERT_TRUE(set_body_name(d, *format({getpid(), 9999, mapping.inode(), 0})).is_ok());  // a number that is not open
  ImportRegistry imports;
  EXPECT_FALSE(imports.materialize(d).ok());
  PassedDescriptors source(mapping.fd());
  imports.set_source(&source);
  const Result<Import> import = imports.materialize(d);
  ASSERT_TRUE(import.ok()) << import.status().message();
  EXPECT_EQ(import->base[7], std::byte{9});
}

TEST(Attach, AnUnrelatedProcessSeesABufferByItsName) {  // B013
  World world;
  for (const uint64_t nbytes : {uint64_t{77}, uint64_t{2} << 20}) {
    const OwnedBuffer buffer = world.make(nbytes);
    const std::string name(body_name(buffer.descriptor));
    EXPECT_EQ(in_child([&] {
                const Result<Import> import = attach(name);
                if (!import.ok() || import->nbytes != nbytes) return false;
                import->base[nbytes - 1] = std::byte{0x33};
                return true;
              }),
              0);
    EXPECT_EQ(buffer.backing->data()[nbytes - 1], std::byte{0x33});  // still the owner's
    ASSERT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
    EXPECT_EQ(attach(name).status().code(), StatusCode::kNotFound);
  }
  EXPECT_FALSE(attach("nonsense").ok());
}

}  // namespace
}  // namespace simpler::memory
