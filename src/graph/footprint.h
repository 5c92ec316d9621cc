// Which bytes a view touches, and how the bytes of two views of one buffer relate.
//
// A view whose strides are nested (each a multiple of the next) and whose rows do not run into each other lies on a
// lattice: every byte offset has one coordinate per axis and a remainder, and the view is a box in those coordinates.
// Two views with the same strides are compared axis by axis, exactly. Everything else is compared by bounding range,
// which may claim an overlap that is not there but never misses one.
#pragma once

#include <array>
#include <cstdint>

#include "wire/shared_tables.h"

namespace simpler::graph {

enum class Overlap : uint8_t { kNone, kPartial, kCovered };  // covered: the probe contains the entry

// The lattice of a layout; `regular` says that it has one.
struct Lattice {
  uint32_t ndims = 0;
  uint32_t element = 0;  // bytes
  bool regular = false;
  bool dense = false;                             // no hole between the first and the last byte
  uint64_t extent = 0;                            // first to last byte
  std::array<uint64_t, kMaxTensorDims> stride{};  // bytes
  std::array<uint64_t, kMaxTensorDims> shape{};
};

Lattice lattice_of(const wire::Layout& layout);

// Where an offset lies on a lattice.
struct Coordinates {
  std::array<uint64_t, kMaxTensorDims> axis{};
  uint64_t remainder = 0;
};

// Needs a regular lattice.
Coordinates coordinates_of(const Lattice& lattice, uint64_t byte_offset);
// True when a view with this origin stays inside its row on every axis, so that the box describes it.
bool stays_inside(const Lattice& lattice, const Coordinates& origin);

struct Footprint {
  const Lattice* lattice;
  uint64_t offset;
  uint64_t end() const { return offset + lattice->extent; }
};

Overlap overlap(const Footprint& probe, const Footprint& entry);

}  // namespace simpler::graph
