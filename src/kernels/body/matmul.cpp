// matmul and matmul_bias: shapes, batches and the spread over blocks around gemm().
#include <algorithm>

#include "kernels/body/gemm.h"
#include "kernels/body/kernels.h"
#include "kernels/body/rows.h"

namespace simpler::kernels::body {

namespace {

Activation activation_of(const Call& call, uint64_t value) {
  if (value > 3) call.refuse("activation " + std::to_string(value) + " is not one of 0 none, 1 relu, 2 gelu, 3 tanh");
  return static_cast<Activation>(value);
}

struct Operands {
  View<const float> a, b;
  View<float> out;
  bool transposed;
};

void check_shapes(const Call& call, const Operands& o) {
  const int rank = o.a.rank;
  if (o.out.rank != rank) {
    call.refuse("out has rank " + std::to_string(o.out.rank) + ", a has " + std::to_string(rank) +
                "; they must be equal");
  }
  if (o.b.rank != 2 && o.b.rank != rank) {
    call.refuse("b has rank " + std::to_string(o.b.rank) + ", must be 2 or that of a (" + std::to_string(rank) + ")");
  }
  for (int d = 0; d + 2 < rank; ++d) {
    call.require_size("a batch dimension of out", o.out.shape[d], "that of a", o.a.shape[d]);
    if (o.b.rank > 2) call.require_size("a batch dimension of b", o.b.shape[d], "that of a", o.a.shape[d]);
  }
  call.require_size("a row of a", o.a.last(), o.transposed ? "a row of b" : "a column of b",
                    o.b.shape[o.b.rank - (o.transposed ? 1 : 2)]);
  call.require_size("a column of out", o.out.shape[rank - 2], "a column of a", o.a.shape[rank - 2]);
  call.require_size("a row of out", o.out.last(), o.transposed ? "a column of b" : "a row of b",
                    o.b.shape[o.b.rank - (o.transposed ? 2 : 1)]);
  const bool aliased = !o.out.empty() && (o.out.data == o.a.data || o.out.data == o.b.data);
  call.require(!aliased, "out must not be the memory of a or b");
}

// One matrix of a batch by number, counted over all dimensions but the last two.
template <typename T>
T* matrix(const View<T>& view, int64_t index) {
  int64_t offset = 0;
  for (int d = view.rank - 3; d >= 0; --d) {
    offset += index % view.shape[d] * view.stride[d];
    index /= view.shape[d];
  }
  return view.data + offset;
}

// This block's share of one product: rows where there are many, else column panels, whichever spreads further.
void multiply_share(const Call& call, Gemm g) {
  const int64_t panels = (g.n + kPanelColumns - 1) / kPanelColumns, row_groups = (g.m + kTileRows - 1) / kTileRows;
  if (row_groups >= panels) {
    const Call::Part part = call.part_of(g.m);
    g.m = part.end - part.begin;
    g.a += part.begin * g.a_row;
    g.c += part.begin * g.c_row;
  } else {
    const Call::Part part = call.part_of(panels);
    const int64_t begin = part.begin * kPanelColumns, end = std::min(g.n, part.end * kPanelColumns);
    g.n = end - begin;
    g.b += begin * g.b_col;
    g.c += begin * g.c_col;
    if (g.bias != nullptr) g.bias += begin * g.bias_step;
  }
  gemm(g);
}

void multiply(const Call& call, const Operands& o, const View<const float>* bias, Activation activation) {
  check_shapes(call, o);
  if (bias != nullptr) call.require_size("bias", bias->last(), "a row of out", o.out.last());
  if (o.out.empty()) return;
  const int rank = o.a.rank, b_first = o.b.rank - 2;
  Gemm g;
  g.n = o.out.last();
  g.k = o.a.last();
  g.a_col = o.a.last_stride();
  g.b_row = o.b.stride[b_first + (o.transposed ? 1 : 0)];
  g.b_col = o.b.stride[b_first + (o.transposed ? 0 : 1)];
  g.c_col = o.out.last_stride();
  g.bias = bias != nullptr ? bias->data : nullptr;
  g.bias_step = bias != nullptr ? bias->last_stride() : 1;
  g.activation = activation;
  const Rows<const float> a_rows(o.a);
  const Rows<float> out_rows(o.out);
  if (o.b.rank == 2 && a_rows.even() && out_rows.even()) {  // a batch with one b is one tall product
    g.m = o.out.rows();
    g.a = o.a.data;
    g.a_row = a_rows.stride();
    g.b = o.b.data;
    g.c = o.out.data;
    g.c_row = out_rows.stride();
    return multiply_share(call, g);
  }
  g.m = o.out.shape[rank - 2];
  g.a_row = o.a.stride[rank - 2];
  g.c_row = o.out.stride[rank - 2];
  for (int64_t i = 0, batches = o.out.rows() / g.m; i < batches; ++i) {
    g.a = matrix(o.a, i);
    g.b = o.b.rank == 2 ? o.b.data : matrix(o.b, i);
    g.c = matrix(o.out, i);
    multiply_share(call, g);
  }
}

void run(const char* name, const int64_t* args, bool with_bias) {
  Call call(name, args, with_bias ? 4 : 3, 2);
  Operands o;
  o.a = call.float_in(0, "a", 2, kMaxRank);
  o.b = call.float_in(1, "b", 2, kMaxRank);
  View<const float> bias;
  if (with_bias) bias = call.float_in(2, "bias", 1, 1);
  o.out = call.float_out(with_bias ? 3 : 2, "out", 2, kMaxRank);
  const Activation activation = activation_of(call, call.scalar(0));
  const uint64_t layout = call.scalar(1);
  if (layout > 1) call.refuse("b_layout " + std::to_string(layout) + " is not one of 0 [k, n], 1 [n, k]");
  o.transposed = layout == 1;
  multiply(call, o, with_bias ? &bias : nullptr, activation);
}

}  // namespace

void matmul(int64_t* args) {
  run("matmul", args, false);
}
void matmul_bias(int64_t* args) {
  run("matmul_bias", args, true);
}

}  // namespace simpler::kernels::body
