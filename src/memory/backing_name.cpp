#include "memory/backing_name.h"

#include <array>
#include <charconv>

#include "simpler/buffer_descriptor.h"

namespace simpler::memory {
namespace {

std::string hex(uint64_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value, 16);
  return {digits.data(), end.ptr};
}

}  // namespace

Result<std::string> format(const BackingName& name) {
  std::string text =
      hex(static_cast<uint64_t>(name.pid)) + "." + hex(static_cast<uint64_t>(name.fd)) + "." + hex(name.inode);
  if (name.offset != 0) text += "." + hex(name.offset);
  if (text.size() > kDescriptorBodyBytes) {
    return internal_error("the name " + text + " of a shared buffer does not fit into 32 bytes");
  }
  return text;
}

Result<BackingName> parse_backing_name(std::string_view text) {
  std::array<uint64_t, 4> parts{};
  size_t count = 0;
  std::string_view rest = text;
  bool good = !text.empty() && text.size() <= kDescriptorBodyBytes;
  while (good) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    uint64_t value = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), value, 16);
    // One spelling per name: no empty part, no leading zero, lower case only.
    good = count < parts.size() && !part.empty() && parsed.ec == std::errc() &&
           parsed.ptr == part.data() + part.size() && hex(value) == part;
    if (!good) break;
    parts[count++] = value;
    if (dot == std::string_view::npos) break;
    rest = rest.substr(dot + 1);
  }
  good = good && count >= 3 && parts[0] >= 1 && parts[0] <= INT32_MAX && parts[1] <= INT32_MAX &&
         (count == 3 || parts[3] != 0);
  if (!good) {
    return invalid_argument("'" + std::string(text) + "' does not name a shared buffer (pid.fd.inode in hexadecimal)");
  }
  return BackingName{static_cast<pid_t>(parts[0]), static_cast<int>(parts[1]), parts[2], parts[3]};
}

}  // namespace simpler::memory
