#include "chip/shared_object.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/status_macros.h"

namespace simpler::chip {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#endif

Result<UniqueFd> to_memfd(std::span<const std::byte> bytes, const std::string& who) {
  UniqueFd fd(::memfd_create("simpler-code", MFD_CLOEXEC));
  if (!fd) return system_error(errno, who + ": memfd_create");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(errno, who + ": write to memory file");
    done += static_cast<std::size_t>(n);
  }
  return fd;
}

// The loader takes two equal names for one object, even when the descriptor behind the number was replaced, and a
// forked child inherits the list of names but not the descriptors. So the name spells the inode, which is unique while
// the object is loaded: one "/." or "/" per bit, none of which change where the path leads.
std::string unique_path(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) info.st_ino = 0;
  std::string path = "/proc/self/fd";
  for (uint64_t bits = info.st_ino; bits != 0; bits >>= 1) path += (bits & 1) != 0 ? "/./" : "/";
  return path + "/" + std::to_string(fd);
}

}  // namespace

Status check_elf(std::span<const std::byte> bytes, const std::string& who) {
  const auto bad = [&](const char* why) { return invalid_argument(who + ": not a loadable shared object: " + why); };
  Elf64_Ehdr head;
  if (bytes.size() < sizeof(head)) return bad("too short for an ELF header");
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return bad("no ELF magic");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
    return bad("not 64-bit little endian");
  if (head.e_machine != kMachine) return bad("built for another processor");
  if (head.e_type != ET_DYN) return bad("not a shared object (link with -shared)");
  if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0) return bad("no program headers");
  const uint64_t table = uint64_t{head.e_phnum} * sizeof(Elf64_Phdr);
  if (head.e_phoff > bytes.size() || table > bytes.size() - head.e_phoff)
    return bad("program headers outside the bytes");
  bool dynamic = false, code = false;
  for (uint16_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + head.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) {
      if (segment.p_filesz != 0) return bad("a segment outside the bytes: the file was cut");
    }
    if (segment.p_type == PT_LOAD) {
      if (segment.p_memsz < segment.p_filesz || segment.p_memsz > (uint64_t{1} << 40))
        return bad("a segment of bad size");
      if ((segment.p_flags & PF_X) != 0) code = true;
    }
    if (segment.p_type == PT_DYNAMIC) dynamic = true;
    if (segment.p_type == PT_INTERP) return bad("an executable");
  }
  if (!dynamic) return bad("no dynamic section");
  if (!code) return bad("no code");
  return Status::ok();
}

Result<SharedObject> SharedObject::load(std::span<const std::byte> bytes, const std::string& who) {
  SIMPLER_RETURN_IF_ERROR(check_elf(bytes, who));
  SIMPLER_ASSIGN_OR_RETURN(const UniqueFd fd, to_memfd(bytes, who));
  void* handle = ::dlopen(unique_path(fd.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return invalid_argument(who + ": the loader refused it: " + (why != nullptr ? why : "no reason given"));
  }
  SharedObject object;
  object.handle_ = handle;
  return object;
}

SharedObject::SharedObject(SharedObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

SharedObject& SharedObject::operator=(SharedObject&& other) noexcept {
  if (this != &other) {
    unload();
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void* SharedObject::symbol(const char* name) const {
  return handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
}

std::string SharedObject::own_name() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
  const ElfW(Dyn)* name = nullptr;
  uint64_t strings = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) name = entry;
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
  }
  if (name == nullptr || strings == 0) return {};
  if (strings < map->l_addr) strings += map->l_addr;  // a loader that leaves the section as it is
  return reinterpret_cast<const char*>(strings) + name->d_un.d_val;
}

void SharedObject::abandon() {
  handle_ = nullptr;
}

void SharedObject::unload() {
  if (handle_ != nullptr) ::dlclose(handle_);
  handle_ = nullptr;
}

}  // namespace simpler::chip
