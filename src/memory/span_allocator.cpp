#include "memory/span_allocator.h"

#include <bit>

#include "base/check.h"

namespace simpler::memory {

SpanAllocator::SpanAllocator(uint64_t capacity, uint64_t unit)
    : units_(capacity / unit), unit_shift_(static_cast<uint32_t>(std::countr_zero(unit))) {
  SIMPLER_CHECK(std::has_single_bit(unit) && units_ > 0 && std::bit_width(units_) <= kPowers, capacity, unit);
  heads_.fill(kNoSpan);
  const uint32_t all = new_node();
  nodes_[all].offset = 0;
  nodes_[all].units = units_;
  insert(all);
}

// Classes are exact up to eight units, then eight per power of two.
uint32_t SpanAllocator::class_of(uint64_t units) {
  const auto power = static_cast<uint32_t>(std::bit_width(units)) - 1;
  if (power < kSubBits) return static_cast<uint32_t>(units);
  const auto sub = static_cast<uint32_t>(units >> (power - kSubBits)) & (kSubClasses - 1);
  return (power - kSubBits + 1) * kSubClasses + sub;
}

uint32_t SpanAllocator::find(uint64_t units) const {
  const uint32_t own = class_of(units);
  // Every span of a higher class is large enough.
  uint32_t power = (own + 1) / kSubClasses;
  uint32_t subs = power < kPowers ? sub_map_[power] & (0xFFU << ((own + 1) % kSubClasses)) : 0;
  if (subs == 0) {
    const uint64_t powers = power + 1 < kPowers ? power_map_ & (~uint64_t{0} << (power + 1)) : 0;
    if (powers != 0) {
      power = static_cast<uint32_t>(std::countr_zero(powers));
      subs = sub_map_[power];
    }
  }
  if (subs != 0) return heads_[power * kSubClasses + static_cast<uint32_t>(std::countr_zero(subs))];
  // What is left are spans of the request's own class, some of which may be a little too small.
  for (uint32_t node = heads_[own]; node != kNoSpan; node = nodes_[node].next) {
    if (nodes_[node].units >= units) return node;
  }
  return kNoSpan;
}

SpanAllocator::Span SpanAllocator::reserve(uint64_t bytes) {
  const uint64_t units = ((bytes - 1) >> unit_shift_) + 1;
  if (bytes == 0 || units > units_) return {};
  const uint32_t found = find(units);
  if (found == kNoSpan) return {};
  remove(found);
  if (nodes_[found].units > units) {
    const uint32_t rest = new_node();  // may move nodes_
    Node& node = nodes_[found];
    Node& remainder = nodes_[rest];
    remainder.offset = node.offset + units;
    remainder.units = node.units - units;
    remainder.before = found;
    remainder.after = node.after;
    if (node.after != kNoSpan) nodes_[node.after].before = rest;
    node.after = rest;
    node.units = units;
    insert(rest);
  }
  live_units_ += units;
  ++live_spans_;
  return {found, nodes_[found].offset << unit_shift_, units << unit_shift_};
}

void SpanAllocator::release(uint32_t index) {
  SIMPLER_CHECK(index < nodes_.size() && nodes_[index].units != 0 && !nodes_[index].is_free, index);
  live_units_ -= nodes_[index].units;
  --live_spans_;
  const auto absorb = [this](uint32_t into, uint32_t gone) {  // `gone` follows `into`
    nodes_[into].units += nodes_[gone].units;
    nodes_[into].after = nodes_[gone].after;
    if (nodes_[gone].after != kNoSpan) nodes_[nodes_[gone].after].before = into;
    nodes_[gone] = Node{};
    nodes_[gone].next = free_nodes_;
    free_nodes_ = gone;
  };
  const uint32_t after = nodes_[index].after;
  if (after != kNoSpan && nodes_[after].is_free) {
    remove(after);
    absorb(index, after);
  }
  const uint32_t before = nodes_[index].before;
  if (before != kNoSpan && nodes_[before].is_free) {
    remove(before);
    absorb(before, index);
    index = before;
  }
  insert(index);
}

uint32_t SpanAllocator::new_node() {
  if (free_nodes_ == kNoSpan) {
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  const uint32_t node = free_nodes_;
  free_nodes_ = nodes_[node].next;
  nodes_[node] = Node{};
  return node;
}

void SpanAllocator::insert(uint32_t index) {
  Node& node = nodes_[index];
  const uint32_t list = class_of(node.units);
  node.is_free = true;
  node.prev = kNoSpan;
  node.next = heads_[list];
  if (node.next != kNoSpan) nodes_[node.next].prev = index;
  heads_[list] = index;
  power_map_ |= uint64_t{1} << (list / kSubClasses);
  sub_map_[list / kSubClasses] |= static_cast<uint8_t>(1U << (list % kSubClasses));
}

void SpanAllocator::remove(uint32_t index) {
  Node& node = nodes_[index];
  const uint32_t list = class_of(node.units);
  (node.prev == kNoSpan ? heads_[list] : nodes_[node.prev].next) = node.next;
  if (node.next != kNoSpan) nodes_[node.next].prev = node.prev;
  node.is_free = false;
  node.prev = node.next = kNoSpan;
  if (heads_[list] != kNoSpan) return;
  uint8_t& subs = sub_map_[list / kSubClasses];
  subs = static_cast<uint8_t>(subs & ~(1U << (list % kSubClasses)));
  if (subs == 0) power_map_ &= ~(uint64_t{1} << (list / kSubClasses));
}

uint64_t SpanAllocator::largest_free() const {
  if (power_map_ == 0) return 0;
  const auto power = static_cast<uint32_t>(std::bit_width(power_map_)) - 1;
  const auto sub = static_cast<uint32_t>(std::bit_width(static_cast<uint32_t>(sub_map_[power]))) - 1;
  uint64_t largest = 0;
  for (uint32_t node = heads_[power * kSubClasses + sub]; node != kNoSpan; node = nodes_[node].next) {
    if (nodes_[node].units > largest) largest = nodes_[node].units;
  }
  return largest << unit_shift_;
}

bool SpanAllocator::consistent() const {
  uint64_t at = 0;
  uint64_t live = 0;
  uint32_t spans = 0;
  uint32_t before = kNoSpan;
  bool before_free = false;
  uint32_t first = kNoSpan;
  for (uint32_t i = 0; i < nodes_.size() && first == kNoSpan; ++i) {
    if (nodes_[i].units != 0 && nodes_[i].before == kNoSpan) first = i;
  }
  for (uint32_t i = first; i != kNoSpan; i = nodes_[i].after) {
    const Node& node = nodes_[i];
    if (node.offset != at || node.units == 0 || node.before != before || (node.is_free && before_free)) return false;
    bool listed = false;
    for (uint32_t f = heads_[class_of(node.units)]; f != kNoSpan; f = nodes_[f].next) listed |= f == i;
    if (listed != node.is_free) return false;
    if (!node.is_free) {
      live += node.units;
      ++spans;
    }
    at += node.units;
    before = i;
    before_free = node.is_free;
  }
  return at == units_ && live == live_units_ && spans == live_spans_;
}

}  // namespace simpler::memory
