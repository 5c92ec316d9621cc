// Loading from memory; see load.h.
#include "compile/load.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace simpler::compile {

Result<LoadedObject> LoadedObject::load(std::span<const uint8_t> bytes, const std::string& name) {
  UniqueFd fd(::memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC));
  if (!fd) return system_error(errno, "memory file for '" + name + "'");
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "memory file for '" + name + "'");
    done += static_cast<size_t>(count);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return invalid_argument("'" + name + "' cannot be loaded: " + ::dlerror());
  return LoadedObject(handle, std::move(fd), name);
}

LoadedObject::~LoadedObject() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Result<void*> LoadedObject::symbol(const std::string& symbol) const {
  void* address = ::dlsym(handle_, symbol.c_str());
  if (address == nullptr) return not_found("'" + name_ + "' exports no symbol '" + symbol + "'");
  return address;
}

namespace {

// Record `index` of a table in untrusted bytes; false when it lies outside.
template <typename T>
bool read_record(std::span<const uint8_t> bytes, uint64_t table, uint64_t index, T& out) {
  uint64_t offset = 0;
  if (__builtin_mul_overflow(index, sizeof(T), &offset) || __builtin_add_overflow(offset, table, &offset)) return false;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return true;
}

bool name_is(std::span<const uint8_t> bytes, const Elf64_Shdr& strings, uint32_t name, std::string_view wanted) {
  uint64_t offset = 0;
  if (__builtin_add_overflow(strings.sh_offset, uint64_t{name}, &offset)) return false;
  if (offset > bytes.size() || bytes.size() - offset <= wanted.size()) return false;
  return std::memcmp(bytes.data() + offset, wanted.data(), wanted.size()) == 0 && bytes[offset + wanted.size()] == 0;
}

}  // namespace

bool exports_function(std::span<const uint8_t> bytes, std::string_view symbol) {
  Elf64_Ehdr header{};
  if (!read_record(bytes, 0, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{}, strings{};
    if (!read_record(bytes, header.e_shoff, i, section)) return false;
    if (section.sh_type != SHT_DYNSYM || !read_record(bytes, header.e_shoff, section.sh_link, strings)) continue;
    for (uint64_t s = 0; s < section.sh_size / sizeof(Elf64_Sym); ++s) {
      Elf64_Sym entry{};
      if (!read_record(bytes, section.sh_offset, s, entry)) return false;
      const auto type = ELF64_ST_TYPE(entry.st_info);
      const bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;  // the last: from assembler
      if (code && entry.st_shndx != SHN_UNDEF && name_is(bytes, strings, entry.st_name, symbol)) return true;
    }
  }
  return false;
}

}  // namespace simpler::compile
