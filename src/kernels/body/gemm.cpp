// Tiled matrix product; see gemm.h.
//
// Loops from the outside: blocks of rows whose part of A stays in the second-level cache; panels of kPanelColumns
// columns; chunks of kDepth along k, copied to a contiguous panel that stays in the first-level cache; register tiles.
#include "kernels/body/gemm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace simpler::kernels::body {

namespace {

constexpr int64_t kDepth = 256;
constexpr int64_t kColumns = kPanelColumns;
constexpr int64_t kBlockFloats = 196608;  // of A per block of rows

// Scratch of the calling thread; plain data, so nothing runs when the thread ends.
struct Scratch {
  alignas(64) float panel[kDepth * kColumns];
  alignas(64) float rows[kTileRows * kDepth];
  alignas(64) float tile[kTileRows * kColumns];
  alignas(64) float bias[kColumns];
};
thread_local Scratch scratch;

using TileFunction = void (*)(int64_t depth, const float* a, int64_t a_row, const float* panel, float* c,
                              int64_t c_row);

// c[kRows][kColumns] (+)= a[kRows][depth] * panel[depth][kColumns]
template <int kRows, bool kContinue>
void multiply_tile(int64_t depth, const float* __restrict a, int64_t a_row, const float* __restrict panel,
                   float* __restrict c, int64_t c_row) {
  Native sum[kRows][kTileVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kTileVectors; ++v) {
      sum[i][v] = kContinue ? native_load(c + i * c_row + v * kNativeLanes) : native_zero();
    }
  }
  for (int64_t p = 0; p < depth; ++p) {
    Native b[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) b[v] = native_load(panel + p * kColumns + v * kNativeLanes);
    for (int i = 0; i < kRows; ++i) {
      const Native x = native_broadcast(a[i * a_row + p]);
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] = native_fma(x, b[v], sum[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kTileVectors; ++v) native_store(c + i * c_row + v * kNativeLanes, sum[i][v]);
  }
}

template <bool kContinue, size_t... kIndex>
constexpr std::array<TileFunction, sizeof...(kIndex)> tile_functions(std::index_sequence<kIndex...>) {
  return {&multiply_tile<static_cast<int>(kIndex) + 1, kContinue>...};
}
constexpr auto kFirst = tile_functions<false>(std::make_index_sequence<kTileRows>());
constexpr auto kNext = tile_functions<true>(std::make_index_sequence<kTileRows>());

// panel[p][j] = b(p, j) for `depth` x `width`, columns behind `width` zero.
void pack_panel(const float* b, int64_t b_row, int64_t b_col, int64_t depth, int64_t width) {
  float* panel = scratch.panel;
  if (b_col == 1 && width == kColumns) {
    for (int64_t p = 0; p < depth; ++p) {
      for (int v = 0; v < kTileVectors; ++v) {
        native_store(panel + p * kColumns + v * kNativeLanes, native_load(b + p * b_row + v * kNativeLanes));
      }
    }
    return;
  }
  if (width < kColumns) std::fill_n(panel, depth * kColumns, 0.0F);
  if (b_col == 1) {
    for (int64_t p = 0; p < depth; ++p) std::copy_n(b + p * b_row, width, panel + p * kColumns);
    return;
  }
  constexpr int64_t kStep = 16;  // one cache line of every column while it is at hand
  for (int64_t p0 = 0; p0 < depth; p0 += kStep) {
    const int64_t p1 = std::min(depth, p0 + kStep);
    for (int64_t j = 0; j < width; ++j) {
      const float* column = b + j * b_col;
      for (int64_t p = p0; p < p1; ++p) panel[p * kColumns + j] = column[p * b_row];
    }
  }
}

template <Activation kKind>
void finish_rows(float* c, int64_t c_row, int64_t rows) {
  Lanes bias[kColumns / Lanes::kCount];
  for (int64_t v = 0; v < kColumns / Lanes::kCount; ++v) bias[v] = Lanes::load(scratch.bias + v * Lanes::kCount);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t v = 0; v < kColumns / Lanes::kCount; ++v) {
      float* p = c + i * c_row + v * Lanes::kCount;
      activate<kKind>(Lanes::load(p) + bias[v]).store(p);
    }
  }
}

void finish(Activation kind, float* c, int64_t c_row, int64_t rows) {
  switch (kind) {
    case Activation::kNone:
      return finish_rows<Activation::kNone>(c, c_row, rows);
    case Activation::kRelu:
      return finish_rows<Activation::kRelu>(c, c_row, rows);
    case Activation::kGelu:
      return finish_rows<Activation::kGelu>(c, c_row, rows);
    case Activation::kTanh:
      return finish_rows<Activation::kTanh>(c, c_row, rows);
  }
}

// One column panel of a block of rows.
class Panel {
 public:
  Panel(const Gemm& g, int64_t column) : g_(g), column_(column), width_(std::min(kColumns, g.n - column)) {
    direct_ = g.c_col == 1 && width_ == kColumns;
    finishes_ = g.bias != nullptr || g.activation != Activation::kNone;
    if (!finishes_) return;
    std::fill_n(scratch.bias, kColumns, 0.0F);
    for (int64_t j = 0; g.bias != nullptr && j < width_; ++j) scratch.bias[j] = g.bias[(column + j) * g.bias_step];
  }

  void run(int64_t row_begin, int64_t row_end) {
    int64_t p = 0;
    do {
      const int64_t depth = std::min(kDepth, g_.k - p);
      pack_panel(g_.b + p * g_.b_row + column_ * g_.b_col, g_.b_row, g_.b_col, depth, width_);
      run_chunk(row_begin, row_end, p, depth);
      p += kDepth;
    } while (p < g_.k);
  }

 private:
  // Groups of nearly equal height, so that no thin one is left at the end.
  void run_chunk(int64_t row_begin, int64_t row_end, int64_t p, int64_t depth) {
    const int64_t total = row_end - row_begin, groups = (total + kTileRows - 1) / kTileRows;
    int64_t row = row_begin;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t rows = total / groups + (group < total % groups ? 1 : 0);
      tile(row, rows, p, depth);
      row += rows;
    }
  }

  void tile(int64_t row, int64_t rows, int64_t p, int64_t depth) {
    const float* a = g_.a + row * g_.a_row + p * g_.a_col;
    int64_t a_row = g_.a_row;
    if (g_.a_col != 1) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t q = 0; q < depth; ++q) scratch.rows[i * kDepth + q] = a[i * a_row + q * g_.a_col];
      }
      a = scratch.rows;
      a_row = kDepth;
    }
    float* c = g_.c + row * g_.c_row + column_ * g_.c_col;
    float* work = direct_ ? c : scratch.tile;
    const int64_t work_row = direct_ ? g_.c_row : kColumns;
    if (!direct_ && p > 0) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width_; ++j) work[i * work_row + j] = c[i * g_.c_row + j * g_.c_col];
      }
    }
    (p == 0 ? kFirst : kNext)[static_cast<size_t>(rows - 1)](depth, a, a_row, scratch.panel, work, work_row);
    if (finishes_ && p + kDepth >= g_.k) finish(g_.activation, work, work_row, rows);
    if (direct_) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < width_; ++j) c[i * g_.c_row + j * g_.c_col] = work[i * work_row + j];
    }
  }

  const Gemm& g_;
  int64_t column_, width_;
  bool direct_, finishes_;
};

}  // namespace

void gemm(const Gemm& g) {
  if (g.m <= 0 || g.n <= 0) return;
  const int64_t most = std::max<int64_t>(4 * kTileRows, kBlockFloats / std::max<int64_t>(1, g.k));
  const int64_t blocks = (g.m + most - 1) / most;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = g.m * block / blocks, end = g.m * (block + 1) / blocks;
    for (int64_t column = 0; column < g.n; column += kColumns) Panel(g, column).run(begin, end);
  }
}

}  // namespace simpler::kernels::body
