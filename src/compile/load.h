// Shared objects from memory: bytes become a memfd, the loader opens it by its /proc/self/fd name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "simpler/status.h"

namespace simpler::compile {

// One loaded object, private to the loader's name space (RTLD_LOCAL); closed with its last owner.
class LoadedObject {
 public:
  static Result<LoadedObject> load(std::span<const uint8_t> bytes, const std::string& name);
  LoadedObject(LoadedObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  LoadedObject& operator=(LoadedObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~LoadedObject();

  // Address of an exported symbol; the error names the object and the symbol.
  Result<void*> symbol(const std::string& name) const;

 private:
  LoadedObject(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace simpler::compile
