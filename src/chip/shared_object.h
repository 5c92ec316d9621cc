// SharedObject: code loaded from memory. The bytes are checked before the loader sees them, since the system's loader
// trusts what it is given.
//
// Each load is an object of its own with local symbols, also when the same bytes are loaded twice.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "simpler/status.h"

namespace simpler::chip {

class SharedObject {
 public:
  // `who` names the code in messages.
  static Result<SharedObject> load(std::span<const std::byte> bytes, const std::string& who);

  SharedObject() = default;
  SharedObject(SharedObject&& other) noexcept;
  SharedObject& operator=(SharedObject&& other) noexcept;
  ~SharedObject() { unload(); }

  // Null when the object does not export it.
  void* symbol(const char* name) const;
  // The name that it was linked under (DT_SONAME); empty when it has none.
  std::string own_name() const;
  // Leaves the code in memory for ever: a thread is still inside.
  void abandon();

 private:
  void unload();
  void* handle_ = nullptr;
};

// ELF for this machine, a shared object, every segment inside the bytes.
Status check_elf(std::span<const std::byte> bytes, const std::string& who);

}  // namespace simpler::chip
