#include "graph/footprint.h"

#include "simpler/dtype.h"

namespace simpler::graph {

Lattice lattice_of(const wire::Layout& layout) {
  Lattice lattice;
  lattice.ndims = layout.ndims;
  lattice.element = element_size(layout.dtype);
  lattice.extent = layout.extent_bytes;
  lattice.dense = layout.extent_bytes == layout.logical_bytes;
  lattice.regular = layout.ndims > 0;
  for (uint32_t i = 0; i < layout.ndims; ++i) {
    lattice.stride[i] = uint64_t{layout.strides[i]} * lattice.element;
    lattice.shape[i] = layout.shapes[i];
  }
  for (uint32_t i = 0; i < layout.ndims; ++i) {
    const uint64_t inner = i + 1 < layout.ndims ? lattice.stride[i + 1] : lattice.element;
    if (lattice.stride[i] == 0 || inner == 0 || lattice.stride[i] % inner != 0) {
      lattice.regular = false;
      return lattice;
    }
    if (i > 0 && lattice.shape[i] > lattice.stride[i - 1] / lattice.stride[i]) lattice.regular = false;
  }
  return lattice;
}

Coordinates coordinates_of(const Lattice& lattice, uint64_t byte_offset) {
  Coordinates at;
  at.remainder = byte_offset;
  for (uint32_t i = 0; i < lattice.ndims; ++i) {
    at.axis[i] = at.remainder / lattice.stride[i];
    at.remainder %= lattice.stride[i];
  }
  return at;
}

bool stays_inside(const Lattice& lattice, const Coordinates& origin) {
  for (uint32_t i = 1; i < lattice.ndims; ++i) {
    if (origin.axis[i] + lattice.shape[i] > lattice.stride[i - 1] / lattice.stride[i]) return false;
  }
  return origin.remainder + lattice.element <= lattice.stride[lattice.ndims - 1];
}

namespace {

bool same_steps(const Lattice& a, const Lattice& b) {
  if (!a.regular || !b.regular || a.ndims != b.ndims) return false;
  for (uint32_t i = 0; i < a.ndims; ++i) {
    if (a.stride[i] != b.stride[i]) return false;
  }
  return true;
}

struct Relation {
  bool disjoint = false;
  bool contains = true;

  void add(uint64_t probe_begin, uint64_t probe_size, uint64_t entry_begin, uint64_t entry_size) {
    const uint64_t probe_end = probe_begin + probe_size;
    const uint64_t entry_end = entry_begin + entry_size;
    disjoint = disjoint || probe_end <= entry_begin || entry_end <= probe_begin;
    contains = contains && probe_begin <= entry_begin && probe_end >= entry_end;
  }
};

}  // namespace

Overlap overlap(const Footprint& probe, const Footprint& entry) {
  if (probe.end() <= entry.offset || entry.end() <= probe.offset) return Overlap::kNone;
  const Lattice& a = *probe.lattice;
  const Lattice& b = *entry.lattice;
  if (a.dense && probe.offset <= entry.offset && probe.end() >= entry.end()) return Overlap::kCovered;
  if (!same_steps(a, b)) return Overlap::kPartial;
  const Coordinates at = coordinates_of(a, probe.offset);
  const Coordinates other = coordinates_of(b, entry.offset);
  if (!stays_inside(a, at) || !stays_inside(b, other)) return Overlap::kPartial;
  Relation relation;
  for (uint32_t i = 0; i < a.ndims; ++i) relation.add(at.axis[i], a.shape[i], other.axis[i], b.shape[i]);
  relation.add(at.remainder, a.element, other.remainder, b.element);
  if (relation.disjoint) return Overlap::kNone;
  return relation.contains ? Overlap::kCovered : Overlap::kPartial;
}

}  // namespace simpler::graph
