// SHA-256, the digest behind every identity. Not for hot paths: intern the digest and compare indices there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace simpler {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(std::span<const std::byte> bytes);
Sha256Digest sha256(std::string_view text);

// Lower-case hexadecimal.
std::string to_hex(std::span<const uint8_t> bytes);

// For input that comes in pieces. finish() gives the digest and starts anew.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  Sha256Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace simpler
