// Shared objects from memory: bytes become a memfd, the loader opens it by its /proc/self/fd name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "simpler/status.h"

namespace simpler::compile {

// One loaded object, private to its owner (RTLD_LOCAL); unloaded with it.
class LoadedObject {
 public:
  static Result<LoadedObject> load(std::span<const uint8_t> bytes, const std::string& name);
  LoadedObject(LoadedObject&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), fd_(std::move(other.fd_)), name_(std::move(other.name_)) {}
  LoadedObject& operator=(LoadedObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(fd_, other.fd_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~LoadedObject();

  // Address of an exported symbol; the error names the object and the symbol.
  Result<void*> symbol(const std::string& symbol) const;

 private:
  LoadedObject(void* handle, UniqueFd fd, std::string name)
      : handle_(handle), fd_(std::move(fd)), name_(std::move(name)) {}
  void* handle_ = nullptr;
  UniqueFd fd_;  // open as long as the object is loaded: the loader takes an equal path for an equal object
  std::string name_;
};

// Whether an ELF64 shared object defines `symbol` for others as a function, read from its dynamic symbol table without
// loading it.
bool exports_function(std::span<const uint8_t> bytes, std::string_view symbol);

}  // namespace simpler::compile
