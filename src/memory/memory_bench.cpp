// Nanoseconds per operation of the inline paths: interning, arena blocks, dispatch lines, argument views.
//
// Prints best of several rounds; first it runs in a checking mode (every figure depends on results that are verified).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "base/check.h"
#include "memory/args_view.h"
#include "memory/buffer_table.h"
#include "memory/heap.h"
#include "wire/dispatch_line.h"

namespace {

using namespace simpler;

constexpr uint32_t kOperations = 1 << 16;

void measure(const char* name, const std::function<uint64_t()>& round, uint64_t expected) {
  double best = 1e30;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t result = round();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    SIMPLER_CHECK(result == expected, name, result, expected);
    best = std::min(best, took.count() / kOperations);
  }
  std::printf("%-32s %7.2f ns\n", name, best);
}

}  // namespace

int main() {
  auto tables = std::move(*memory::SharedTables::create());
  auto arena = std::move(*memory::ArgsArena::create({}));
  auto heap = std::move(*memory::Heap::create({}));
  memory::HostStore store;
  memory::BufferTable buffers(*tables);
  const memory::OwnedBuffer buffer = *buffers.create(store, 1 << 20);
  memory::ImportRegistry imports;
  memory::ArgsReader reader(*memory::SharedTablesView::open(tables->mapping().data(), tables->mapping().size()),
                            memory::ArgsArenaView(arena->mapping().data(), arena->mapping().size()), imports);

  std::vector<Tensor> tensors;
  for (uint32_t i = 1; i <= 64; ++i) {
    const uint32_t shape[] = {i, 16};
    tensors.push_back(*make_tensor(buffer.descriptor, shape, DataType::kFloat32));
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kOperations; ++i) sum += tables->intern_layout(tensors[i % 64]);
  measure(
      "intern_layout, known",
      [&] {
        uint64_t total = 0;
        for (uint32_t i = 0; i < kOperations; ++i) total += tables->intern_layout(tensors[i % 64]);
        return total;
      },
      sum);
  measure(
      "acquire_config, same as before",
      [&] {
        const CallConfig config;
        uint64_t total = 0;
        for (uint32_t i = 0; i < kOperations; ++i) total += *tables->acquire_config(config);
        return total;
      },
      kOperations);
  measure(
      "name_buffer",
      [&] {
        uint64_t total = 0;
        for (uint32_t i = 0; i < kOperations; ++i) total += tables->name_buffer(buffer.ref.index, i / 4) ? 1 : 0;
        for (uint32_t i = 0; i < kOperations / 4; ++i) tables->unname_buffer(buffer.ref.index);
        return total;
      },
      kOperations / 4);
  measure(
      "put_buffer + retire_buffer",
      [&] {
        for (uint32_t i = 0; i < kOperations; ++i) {
          static_cast<void>(tables->retire_buffer(*tables->put_buffer(buffer.descriptor)));
        }
        return uint64_t{0};
      },
      0);
  for (const uint32_t bytes : {200u, 1000u}) {
    measure(
        bytes == 200 ? "args alloc + free, 200 B" : "args alloc + free, 1000 B",
        [&] {
          uint32_t ring[64] = {};
          for (uint32_t i = 0; i < kOperations; ++i) {
            if (ring[i % 64] != 0) arena->free(ring[i % 64], bytes);
            ring[i % 64] = arena->alloc(bytes);
          }
          for (const uint32_t place : ring) arena->free(place, bytes);
          return arena->live_blocks();
        },
        0);
  }
  measure(
      "heap reserve + release, 4 KiB",
      [&] {
        for (uint32_t i = 0; i < kOperations; ++i) heap->release(*heap->reserve(0, 4096));
        return uint64_t{heap->live_spans(0)};
      },
      0);

  wire::DispatchLine line{};
  measure(
      "line compose + store",
      [&] {
        wire::Dispatch d;
        for (uint32_t i = 0; i < kOperations; ++i) {
          d.sequence = i;
          d.slot = i;
          wire::store(line, wire::compose(d));
        }
        return wire::load_head(line);
      },
      kOperations - 1);
  measure(
      "line load + parse",
      [&] {
        uint64_t total = 0;
        for (uint32_t i = 0; i < kOperations; ++i) total += wire::load_rest(line, wire::load_head(line)).slot;
        return total;
      },
      uint64_t{kOperations} * (kOperations - 1));

  wire::Dispatch task;
  task.tensors = 4;
  task.args = arena->slot_block(0);
  for (uint32_t i = 0; i < 4; ++i) {
    const wire::TensorRef ref{buffer.ref.index, buffer.ref.generation, tables->intern_layout(tensors[i]), 0, i * 64};
    std::memcpy(arena->at(task.args) + i * sizeof ref, &ref, sizeof ref);
  }
  measure(
      "open a view, resolve 4 tensors",
      [&] {
        uint64_t total = 0;
        for (uint32_t i = 0; i < kOperations; ++i) {
          memory::ArgsView view;
          memory::MappedTensor tensor;
          if (!reader.open(task, view).is_ok()) break;
          for (uint32_t t = 0; t < 4; ++t) total += view.tensor(t, tensor).is_ok() ? 1 : 0;
        }
        return total;
      },
      uint64_t{kOperations} * 4);
  return 0;
}
