// The compile cache; see cache.h.
#include "compile/cache.h"

#include <unistd.h>

#include "base/byte_reader.h"
#include "base/byte_writer.h"
#include "base/status_macros.h"
#include "compile/files.h"

namespace simpler::compile {

namespace {

constexpr std::string_view kMagic = "SMPLSO01";

std::optional<std::vector<uint8_t>> parse_entry(std::span<const std::byte> bytes) {
  ByteReader head(bytes);
  if (head.text(kMagic.size()) != kMagic) return std::nullopt;
  Sha256Digest digest{};
  head.record(digest);
  if (!head.ok() || sha256(bytes.subspan(head.position())) != digest) return std::nullopt;
  const uint32_t dependencies = head.u32();
  for (uint32_t i = 0; i < dependencies && head.ok(); ++i) {
    const std::string path(head.text(head.u32()));
    Sha256Digest known{};
    head.record(known);
    const Result<Sha256Digest> now = digest_of_file(path);
    if (!now.ok() || *now != known) return std::nullopt;
  }
  const auto object = head.bytes(static_cast<size_t>(head.u64()));
  if (!head.finish().is_ok()) return std::nullopt;
  const auto* first = reinterpret_cast<const uint8_t*>(object.data());
  return std::vector<uint8_t>(first, first + object.size());
}

}  // namespace

std::string Cache::path_of(const Sha256Digest& key) const {
  return folder_ + "/" + to_hex(key) + ".so.entry";
}

std::optional<std::vector<uint8_t>> Cache::find(const Sha256Digest& key) const {
  if (folder_.empty()) return std::nullopt;
  const Result<std::vector<uint8_t>> bytes = read_file(path_of(key));
  if (!bytes.ok()) return std::nullopt;
  return parse_entry(std::as_bytes(std::span(*bytes)));
}

Status Cache::store(const Sha256Digest& key, const std::vector<Dependency>& dependencies,
                    const std::vector<uint8_t>& object) const {
  if (folder_.empty()) return Status::ok();
  ByteWriter body;
  body.u32(static_cast<uint32_t>(dependencies.size()));
  for (const Dependency& dependency : dependencies) {
    body.u32(static_cast<uint32_t>(dependency.path.size()));
    body.text(dependency.path);
    body.record(dependency.digest);
  }
  body.u64(object.size());
  body.bytes(std::as_bytes(std::span(object)));
  ByteWriter entry;
  entry.text(kMagic);
  entry.record(sha256(body.view()));
  entry.bytes(body.view());
  return write_file_atomic(path_of(key), entry.view());
}

Result<std::string> choose_cache_folder(const std::string& wanted, const Environment& environment) {
  const std::string demanded = wanted.empty() ? environment.text(Variable::kCacheDir).value_or("") : wanted;
  if (!demanded.empty()) {
    Status status = make_private_folder(demanded);
    if (!status.is_ok()) return std::move(status).context(wanted.empty() ? "SIMPLER_CACHE_DIR" : "cache folder");
    return demanded;
  }
  std::vector<std::string> candidates;
  if (const auto cache = environment.text(Variable::kXdgCacheHome)) candidates.push_back(*cache + "/simpler");
  if (const auto home = environment.text(Variable::kHome)) candidates.push_back(*home + "/.cache/simpler");
  if (const auto runtime = environment.text(Variable::kXdgRuntimeDir)) candidates.push_back(*runtime + "/simpler");
  candidates.push_back(environment.text(Variable::kTmpDir).value_or("/tmp") + "/simpler-cache-" +
                       std::to_string(::geteuid()));
  std::string reasons;
  for (const std::string& candidate : candidates) {
    const Status status = make_private_folder(candidate);
    if (status.is_ok()) return candidate;
    reasons += (reasons.empty() ? "" : "; ") + std::string(status.message());
  }
  return unavailable("no folder for compiled kernels: " + reasons + "; name one with SIMPLER_CACHE_DIR");
}

}  // namespace simpler::compile
