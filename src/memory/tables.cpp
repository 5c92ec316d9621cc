#include "memory/tables.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <sys/random.h>

#include "base/status_macros.h"

namespace simpler::memory {
namespace {

constexpr uint64_t kFirstHashSlots = 1024;

void publish(wire::TableCount& table, uint32_t count) {
  std::atomic_ref(table.count).store(count, std::memory_order_release);
}

// Readers take generation, entry, generation; the fences here pair with the ones in SharedTablesView.
void close_entry(uint32_t& generation) {
  std::atomic_ref(generation).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}
void open_entry(uint32_t& generation, uint32_t value) {
  std::atomic_ref(generation).store(value, std::memory_order_release);
}

// Word by word, so that a reader with a stale index races with nothing it could not detect.
void store_words(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<uint64_t*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    uint64_t word;
    std::memcpy(&word, static_cast<const char*>(from) + i * sizeof word, sizeof word);
    std::atomic_ref(target[i]).store(word, std::memory_order_relaxed);
  }
}
void load_words(void* to, const void* from, size_t bytes) {
  const auto* source = static_cast<const uint64_t*>(from);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    const uint64_t word = std::atomic_ref(const_cast<uint64_t&>(source[i])).load(std::memory_order_relaxed);
    std::memcpy(static_cast<char*>(to) + i * sizeof word, &word, sizeof word);
  }
}

uint32_t next_generation(uint32_t generation) {
  return generation == UINT32_MAX ? 1 : generation + 1;
}

Status random_bytes(void* out, size_t bytes) {
  if (getrandom(out, bytes, 0) != static_cast<ssize_t>(bytes)) return system_error(errno, "getrandom");
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<SharedTables>> SharedTables::create(const TablesOptions& options) {
  std::unique_ptr<SharedTables> tables(new SharedTables);
  SIMPLER_ASSIGN_OR_RETURN(
      tables->mapping_,
      SharedMapping::create({.name = "simpler-tables", .bytes = wire::kTablesBytes, .space = options.space}));
  SharedMapping& mapping = tables->mapping_;
  SIMPLER_RETURN_IF_ERROR(mapping.secure(0, wire::kBuffersOffset));
  std::byte* base = mapping.data();
  tables->header_ = reinterpret_cast<wire::TablesHeader*>(base);
  tables->buffers_ = reinterpret_cast<wire::BufferEntry*>(base + wire::kBuffersOffset);
  tables->layouts_ = reinterpret_cast<wire::Layout*>(base + wire::kLayoutsOffset);
  tables->configs_ = reinterpret_cast<wire::ConfigEntry*>(base + wire::kConfigsOffset);
  tables->callables_ = reinterpret_cast<wire::CallableEntry*>(base + wire::kCallablesOffset);
  const auto front = [&mapping](uint64_t from, uint64_t to) { return SecuredFront(mapping, from, to - from); };
  tables->buffer_front_ = front(wire::kBuffersOffset, wire::kLayoutsOffset);
  tables->layout_front_ = front(wire::kLayoutsOffset, wire::kConfigsOffset);
  tables->config_front_ = front(wire::kConfigsOffset, wire::kCallablesOffset);
  tables->callable_front_ = front(wire::kCallablesOffset, wire::kTablesBytes);

  tables->owner_instance_id_ = options.owner_instance_id;
  if (options.owner_instance_id == OwnerInstanceId{}) {
    SIMPLER_RETURN_IF_ERROR(random_bytes(tables->owner_instance_id_.data(), tables->owner_instance_id_.size()));
  }
  SIMPLER_RETURN_IF_ERROR(random_bytes(&tables->header_->table_id, sizeof(uint64_t)));
  tables->header_->table_id |= 1;  // 0 means "no table"
  tables->header_->version = wire::kTablesVersion;
  tables->header_->magic = wire::kTablesMagic;
  for (wire::TableCount* table :
       {&tables->header_->buffers, &tables->header_->layouts, &tables->header_->configs, &tables->header_->callables}) {
    publish(*table, 1);  // entry 0 exists and is invalid
  }
  tables->hash_.resize(kFirstHashSlots);
  tables->hash_mask_ = kFirstHashSlots - 1;
  tables->uses_.resize(1);
  tables->configs_in_use_.resize(1);
  const Result<uint16_t> standard = tables->acquire_config(CallConfig{});
  SIMPLER_RETURN_IF_ERROR(standard.status());
  SIMPLER_CHECK(*standard == wire::kDefaultConfig, *standard);
  return tables;
}

uint32_t SharedTables::intern_layout(const wire::Layout& layout) {
  const LayoutKey key(layout);
  const uint64_t hash = key.hash();
  const uint32_t found = find_layout(key, hash);
  return found != 0 ? found : add_layout(layout, hash);
}

uint32_t SharedTables::add_layout(const wire::Layout& layout, uint64_t hash) {
  if (layout_count_ == wire::kMaxLayouts) return 0;
  if (!layout_front_.require((uint64_t{layout_count_} + 1) * sizeof(wire::Layout)).is_ok()) return 0;
  if (uint64_t{layout_count_} * 2 > hash_mask_) grow_hash();
  const uint32_t index = layout_count_++;
  layouts_[index] = layout;
  publish(header_->layouts, layout_count_);
  uint64_t at = hash & hash_mask_;
  while (hash_[at].index != 0) at = (at + 1) & hash_mask_;
  hash_[at] = {static_cast<uint32_t>(hash >> 32), index};
  return index;
}

void SharedTables::grow_hash() {
  hash_.assign(hash_.size() * 2, HashSlot{});
  hash_mask_ = hash_.size() - 1;
  for (uint32_t index = 1; index < layout_count_; ++index) {
    const uint64_t hash = LayoutKey(layouts_[index]).hash();
    uint64_t at = hash & hash_mask_;
    while (hash_[at].index != 0) at = (at + 1) & hash_mask_;
    hash_[at] = {static_cast<uint32_t>(hash >> 32), index};
  }
}

Result<BufferRef> SharedTables::put_buffer(const BufferDescriptor& descriptor, uint32_t owner_worker) {
  uint32_t index = 0;
  if (!free_buffers_.empty()) {
    index = free_buffers_.back();
    free_buffers_.pop_back();
  } else {
    if (buffer_count_ == wire::kMaxBuffers) {
      return resource_exhausted("65535 buffers are live, which is all that one worker can name; release some");
    }
    SIMPLER_RETURN_IF_ERROR(buffer_front_.require((uint64_t{buffer_count_} + 1) * sizeof(wire::BufferEntry)));
    index = buffer_count_++;
    uses_.emplace_back();
  }
  wire::BufferEntry& entry = buffers_[index];
  const uint32_t generation = uses_[index].next_generation;
  uses_[index] = {0, 0, next_generation(generation)};
  close_entry(entry.generation);
  store_words(&entry.descriptor, &descriptor, sizeof descriptor);
  std::atomic_ref(entry.owner_worker).store(owner_worker, std::memory_order_relaxed);
  entry.state = wire::EntryState::kLive;
  open_entry(entry.generation, generation);
  if (index + 1 == buffer_count_) publish(header_->buffers, buffer_count_);
  return BufferRef{index, generation};
}

Status SharedTables::retire_buffer(BufferRef ref) {
  if (!buffer_live(ref)) {
    return not_found("buffer reference " + std::to_string(ref.index) + " of generation " +
                     std::to_string(ref.generation) + " is stale");
  }
  if (uses_[ref.index].runs != 0) {
    return failed_precondition("buffer " + to_string(buffers_[ref.index].descriptor.identity) + " is named by " +
                               std::to_string(uses_[ref.index].runs) + " run(s), the newest is run " +
                               std::to_string(uses_[ref.index].last_run) + "; wait for them first");
  }
  close_entry(buffers_[ref.index].generation);
  buffers_[ref.index].state = wire::EntryState::kRetired;
  free_buffers_.push_back(ref.index);
  return Status::ok();
}

Result<uint16_t> SharedTables::acquire_config(const CallConfig& config) {
  if (configs_in_use_[last_config_ < configs_in_use_.size() ? last_config_ : 0].users != 0 &&
      configs_[last_config_].config == config) {
    ++configs_in_use_[last_config_].users;
    return last_config_;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(&config), sizeof config);
  const uint64_t hash = std::hash<std::string_view>{}(bytes);
  uint16_t index = 0;
  for (uint16_t i = 1; i < configs_in_use_.size(); ++i) {
    const ConfigUse& use = configs_in_use_[i];
    if (use.users != 0 && use.hash == hash && configs_[i].config == config) {
      ++configs_in_use_[i].users;
      return last_config_ = i;
    }
    if (use.users == 0 && index == 0) index = i;
  }
  if (index == 0) {
    if (configs_in_use_.size() == wire::kMaxConfigs) {
      return resource_exhausted("1023 different call configs are in use at once; wait for runs to end");
    }
    index = static_cast<uint16_t>(configs_in_use_.size());
    SIMPLER_RETURN_IF_ERROR(config_front_.require((uint64_t{index} + 1) * sizeof(wire::ConfigEntry)));
    configs_in_use_.emplace_back();
  }
  ConfigUse& use = configs_in_use_[index];
  wire::ConfigEntry& entry = configs_[index];
  use.generation = next_generation(use.generation);
  use.hash = hash;
  use.users = 1;
  close_entry(entry.generation);
  store_words(&entry.config, &config, sizeof config);
  entry.state = wire::EntryState::kLive;
  open_entry(entry.generation, use.generation);
  publish(header_->configs, static_cast<uint32_t>(configs_in_use_.size()));
  return last_config_ = index;
}

void SharedTables::release_config(uint16_t index) {
  SIMPLER_CHECK(index != 0 && index < configs_in_use_.size() && configs_in_use_[index].users != 0, index);
  if (--configs_in_use_[index].users == 0) {
    SIMPLER_CHECK(index != wire::kDefaultConfig, index);  // its first user is the table itself
    configs_[index].state = wire::EntryState::kRetired;
  }
}

Status SharedTables::put_callable(uint16_t index, const CallableRecord& record) {
  if (index == 0 || index >= wire::kMaxCallables) {
    return out_of_range("callable index " + std::to_string(index) + ", 1 to 4095 are possible");
  }
  SIMPLER_RETURN_IF_ERROR(callable_front_.require((uint64_t{index} + 1) * sizeof(wire::CallableEntry)));
  if (callable_generations_.size() <= index) callable_generations_.resize(index + 1U);
  wire::CallableEntry value;
  value.digest = record.digest;
  value.kind = record.kind;
  value.target_namespace = record.target_namespace;
  value.state = wire::EntryState::kLive;
  const size_t length = std::min<size_t>(record.name.size(), wire::kCallableNameBytes - 1);
  std::copy_n(record.name.begin(), length, value.name.begin());
  wire::CallableEntry& entry = callables_[index];
  close_entry(entry.generation);
  store_words(&entry.digest, &value.digest, 40);  // digest, kind, namespace
  store_words(&entry.name, &value.name, sizeof value.name);
  entry.state = wire::EntryState::kLive;
  callable_generations_[index] = next_generation(callable_generations_[index]);
  open_entry(entry.generation, callable_generations_[index]);
  callable_count_ = std::max<uint32_t>(callable_count_, index + 1U);
  publish(header_->callables, callable_count_);
  return Status::ok();
}

void SharedTables::clear_callable(uint16_t index) {
  SIMPLER_CHECK(index != 0 && index < callable_count_, index);
  close_entry(callables_[index].generation);
  callables_[index].state = wire::EntryState::kRetired;
}

Result<SharedTablesView> SharedTablesView::open(const std::byte* base, uint64_t bytes) {
  if (base == nullptr || bytes < wire::kTablesBytes) {
    return corrupt("shared tables: " + std::to_string(bytes) + " bytes are mapped, " +
                   std::to_string(wire::kTablesBytes) + " are needed");
  }
  SharedTablesView view;
  view.header_ = reinterpret_cast<const wire::TablesHeader*>(base);
  if (view.header_->magic != wire::kTablesMagic || view.header_->version != wire::kTablesVersion) {
    return corrupt("shared tables: magic or version is wrong");
  }
  view.buffers_ = reinterpret_cast<const wire::BufferEntry*>(base + wire::kBuffersOffset);
  view.layouts_ = reinterpret_cast<const wire::Layout*>(base + wire::kLayoutsOffset);
  view.configs_ = reinterpret_cast<const wire::ConfigEntry*>(base + wire::kConfigsOffset);
  view.callables_ = reinterpret_cast<const wire::CallableEntry*>(base + wire::kCallablesOffset);
  return view;
}

Result<wire::BufferEntry> SharedTablesView::buffer(uint32_t index, uint32_t generation) const {
  if (index - 1 >= count(header_->buffers) - 1) {
    return corrupt("buffer index " + std::to_string(index) + " was never published");
  }
  const wire::BufferEntry& shared = buffers_[index];
  auto& word = const_cast<uint32_t&>(shared.generation);
  const auto stale = [&](uint32_t found) {
    return not_found("buffer index " + std::to_string(index) + " of generation " + std::to_string(generation) +
                     " is stale, the entry has generation " + std::to_string(found));
  };
  const uint32_t first = std::atomic_ref(word).load(std::memory_order_acquire);
  if (generation == 0 || first != generation) return stale(first);
  wire::BufferEntry entry;
  load_words(&entry.descriptor, &shared.descriptor, sizeof entry.descriptor);
  entry.owner_worker = std::atomic_ref(const_cast<uint32_t&>(shared.owner_worker)).load(std::memory_order_relaxed);
  entry.generation = generation;
  entry.state = wire::EntryState::kLive;
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint32_t second = std::atomic_ref(word).load(std::memory_order_relaxed);
  if (second != generation) return stale(second);
  return entry;
}

}  // namespace simpler::memory
