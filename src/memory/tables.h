// Writer and reader of a level's shared tables (wire/shared_tables.h): descriptions are said once, then named by index.
//
// The writer lives in the parent; its holder is the holder of the engine. Interning a known layout costs a hash and a
// compare. A buffer that a run names cannot be retired; the engine tells by name_buffer/unname_buffer. Configs are
// counted by their users. Readers live in children, check every index, and detect recycled entries by generation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "memory/shared_mapping.h"
#include "simpler/identity.h"
#include "simpler/status.h"
#include "wire/shared_tables.h"
#include "wire/tensor_ref.h"

namespace simpler::memory {

struct BufferRef {
  uint32_t index = 0;
  uint32_t generation = 0;
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};

struct TablesOptions {
  OwnerInstanceId owner_instance_id{};  // all zero: random
  const SpaceProbe* space = nullptr;
};

// What makes a layout distinct: rank, type, shape, strides; the first 48 bytes of a wire::Layout. The derived sizes
// take no part. In a Tensor shapes and strides lie together just so.
struct LayoutKey {
  uint64_t words[6];

  explicit LayoutKey(const Tensor& tensor) {
    static_assert(offsetof(Tensor, strides) == offsetof(Tensor, shapes) + 20);
    words[0] = tensor.ndims | (uint64_t{static_cast<uint8_t>(tensor.dtype)} << 32);
    std::memcpy(words + 1, reinterpret_cast<const char*>(&tensor) + offsetof(Tensor, shapes), 40);
  }
  explicit LayoutKey(const wire::Layout& layout) { std::memcpy(words, &layout, sizeof words); }

  bool equals(const wire::Layout& layout) const {
    const LayoutKey other(layout);
    uint64_t differing = 0;
    for (uint32_t i = 0; i < 6; ++i) differing |= words[i] ^ other.words[i];
    return differing == 0;
  }
  uint64_t hash() const {
    const auto fold = [](uint64_t a, uint64_t b) {
      __extension__ using Wide = unsigned __int128;
      const Wide product = static_cast<Wide>(a) * b;
      return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    const uint64_t mixed = fold(words[0] ^ 0x9E3779B97F4A7C15U, words[1] ^ 0xBF58476D1CE4E5B9U) ^
                           fold(words[2] ^ 0x94D049BB133111EBU, words[3] ^ 0xD6E8FEB86659FD93U) ^
                           fold(words[4] ^ 0xFF51AFD7ED558CCDU, words[5] ^ 0xC4CEB9FE1A85EC53U);
    return fold(mixed, 0xA0761D6478BD642FU);
  }
};

class SharedTables {
 public:
  static Result<std::unique_ptr<SharedTables>> create(const TablesOptions& options = {});

  uint64_t table_id() const { return header_->table_id; }
  const SharedMapping& mapping() const { return mapping_; }
  const OwnerInstanceId& owner_instance_id() const { return owner_instance_id_; }
  // Never given out before by this incarnation.
  CanonicalIdentity mint_identity() { return {owner_instance_id_, ++last_buffer_id_, 1, {}}; }

  // --- layouts -------------------------------------------------------------------------------------------------
  // Index of the layout of a valid tensor; 0 when the table is full and the layout must travel inline.
  uint32_t intern_layout(const Tensor& tensor) {
    const LayoutKey key(tensor);
    const uint64_t hash = key.hash();
    const uint32_t found = find_layout(key, hash);
    return found != 0 ? found : add_layout(wire::layout_of(tensor), hash);
  }
  uint32_t intern_layout(const wire::Layout& layout);
  const wire::Layout& layout(uint32_t index) const {
    SIMPLER_CHECK(index - 1 < layout_count_ - 1, index, layout_count_);
    return layouts_[index];
  }
  // The whole table, for code that looks up many: entries 1 .. layout_count() - 1.
  const wire::Layout* layouts() const { return layouts_; }
  uint32_t layout_count() const { return layout_count_; }

  // --- buffers -------------------------------------------------------------------------------------------------
  // kResourceExhausted when 65,535 buffers are live.
  Result<BufferRef> put_buffer(const BufferDescriptor& descriptor, uint32_t owner_worker = 0);
  bool buffer_live(BufferRef ref) const {
    return ref.index < buffer_count_ && ref.generation != 0 && buffers_[ref.index].generation == ref.generation;
  }
  bool buffer_live(uint32_t index, uint32_t generation) const { return buffer_live(BufferRef{index, generation}); }
  const wire::BufferEntry& buffer(uint32_t index) const {
    SIMPLER_CHECK(index < buffer_count_, index, buffer_count_);
    return buffers_[index];
  }
  uint32_t buffer_count() const { return buffer_count_; }
  // Says that `run` names the buffer. True for the first time in a row by that run: the caller then notes the index and
  // calls unname_buffer once per noted index when the run is over.
  bool name_buffer(uint32_t index, uint64_t run) {
    Use& use = uses_[index];
    if (use.last_run == run && use.runs != 0) return false;
    use.last_run = run;
    ++use.runs;
    return true;
  }
  void unname_buffer(uint32_t index) {
    SIMPLER_CHECK(uses_[index].runs != 0, index);
    --uses_[index].runs;
  }
  uint32_t runs_naming(uint32_t index) const { return uses_[index].runs; }
  uint64_t last_run_naming(uint32_t index) const { return uses_[index].last_run; }
  // kNotFound for a stale reference, kFailedPrecondition naming a run while runs name the buffer.
  Status retire_buffer(BufferRef ref);

  // --- configs -------------------------------------------------------------------------------------------------
  // Index of a valid config, with one more user. kResourceExhausted when 1,023 distinct ones are in use.
  Result<uint16_t> acquire_config(const CallConfig& config);
  void share_config(uint16_t index) { ++configs_in_use_[index].users; }
  void release_config(uint16_t index);
  const CallConfig& config(uint16_t index) const { return configs_[index].config; }

  // --- callables -----------------------------------------------------------------------------------------------
  struct CallableRecord {
    std::array<uint8_t, 32> digest{};
    CallableKind kind{};
    TargetNamespace target_namespace{};
    std::string_view name;
  };
  Status put_callable(uint16_t index, const CallableRecord& record);
  void clear_callable(uint16_t index);
  const wire::CallableEntry& callable(uint16_t index) const { return callables_[index]; }

 private:
  struct HashSlot {
    uint32_t tag = 0;
    uint32_t index = 0;  // 0: free
  };
  struct Use {
    uint64_t last_run = 0;
    uint32_t runs = 0;
    uint32_t next_generation = 1;
  };

  struct ConfigUse {
    uint64_t hash = 0;
    uint32_t users = 0;
    uint32_t generation = 0;
  };

  SharedTables() = default;
  uint32_t find_layout(const LayoutKey& key, uint64_t hash) const {
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    for (uint64_t at = hash & hash_mask_;; at = (at + 1) & hash_mask_) {
      const HashSlot slot = hash_[at];
      if (slot.index == 0) return 0;
      if (slot.tag == tag && key.equals(layouts_[slot.index])) return slot.index;
    }
  }
  uint32_t add_layout(const wire::Layout& layout, uint64_t hash);
  void grow_hash();

  SharedMapping mapping_;
  SecuredFront buffer_front_, layout_front_, config_front_, callable_front_;
  wire::TablesHeader* header_ = nullptr;
  wire::BufferEntry* buffers_ = nullptr;
  wire::Layout* layouts_ = nullptr;
  wire::ConfigEntry* configs_ = nullptr;
  wire::CallableEntry* callables_ = nullptr;
  OwnerInstanceId owner_instance_id_{};
  uint64_t last_buffer_id_ = 0;
  uint32_t buffer_count_ = 1, layout_count_ = 1, callable_count_ = 1;
  std::vector<HashSlot> hash_;
  uint64_t hash_mask_ = 0;
  std::vector<Use> uses_;
  std::vector<uint32_t> free_buffers_;
  std::vector<ConfigUse> configs_in_use_;
  std::vector<uint32_t> callable_generations_;
  uint16_t last_config_ = wire::kDefaultConfig;
};

// A child's side of the same mapping. Copies out, checks everything, never trusts the caller's index.
class SharedTablesView {
 public:
  // Checks magic and version.
  static Result<SharedTablesView> open(const std::byte* base, uint64_t bytes);
  SharedTablesView() = default;

  uint64_t table_id() const { return header_->table_id; }
  // Null for an index that was not published.
  const wire::Layout* layout(uint32_t index) const {
    return index - 1 < count(header_->layouts) - 1 ? &layouts_[index] : nullptr;
  }
  // kCorrupt for an index that was not published, kNotFound for a stale generation.
  Result<wire::BufferEntry> buffer(uint32_t index, uint32_t generation) const;
  // True while the entry still has that generation; one relaxed load.
  bool buffer_current(uint32_t index, uint32_t generation) const {
    return std::atomic_ref(const_cast<uint32_t&>(buffers_[index].generation)).load(std::memory_order_relaxed) ==
           generation;
  }
  // Null for an index that was not published. Stable while a line that names it is unanswered; `generation` tells
  // whether something kept from an earlier look is still about the same config.
  const wire::ConfigEntry* config(uint16_t index) const {
    return index - 1U < count(header_->configs) - 1 ? &configs_[index] : nullptr;
  }
  const wire::CallableEntry* callable(uint16_t index) const {
    return index - 1U < count(header_->callables) - 1 ? &callables_[index] : nullptr;
  }

 private:
  // Pairs with the writer's release of a count.
  static uint32_t count(const wire::TableCount& table) {
    return std::atomic_ref(const_cast<uint32_t&>(table.count)).load(std::memory_order_acquire);
  }

  const wire::TablesHeader* header_ = nullptr;
  const wire::BufferEntry* buffers_ = nullptr;
  const wire::Layout* layouts_ = nullptr;
  const wire::ConfigEntry* configs_ = nullptr;
  const wire::CallableEntry* callables_ = nullptr;
};

}  // namespace simpler::memory
