// add, multiply (with broadcasting inputs), relu, gelu, tanh.
#include <algorithm>

#include "kernels/body/kernels.h"
#include "kernels/body/math.h"
#include "kernels/body/rows.h"

namespace simpler::kernels::body {

namespace {

// `in` seen with the shape of `out`: missing or single dimensions repeat with step 0.
View<const float> broadcast_to(const Call& call, const char* name, const View<const float>& in,
                               const View<float>& out) {
  View<const float> wide;
  wide.data = in.data;
  wide.rank = out.rank;
  const int missing = out.rank - in.rank;
  bool fits = missing >= 0;
  for (int d = 0; fits && d < out.rank; ++d) {
    wide.shape[d] = out.shape[d];
    if (d < missing || (in.shape[d - missing] == 1 && out.shape[d] != 1)) continue;
    fits = in.shape[d - missing] == out.shape[d];
    wide.stride[d] = in.stride[d - missing];
  }
  if (!fits) {
    call.refuse(std::string(name) + " has shape " + shape_text(in.rank, in.shape) + ", which does not broadcast to " +
                shape_text(out.rank, out.shape) + " of out");
  }
  return wide;
}

template <typename T>
bool contiguous(const View<T>& view) {
  int64_t expected = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.shape[d] != 1 && view.stride[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

// A contiguous view as one row.
template <typename T>
View<T> flat(const View<T>& view) {
  View<T> line;
  line.data = view.data;
  line.rank = 1;
  line.shape[0] = view.count();
  line.stride[0] = 1;
  return line;
}

// Blocks share rows, or, in a single row, pieces of kShare elements.
template <typename F>
void share_rows(const Call& call, const View<float>& out, F row_piece) {
  constexpr int64_t kShare = 1024;
  const int64_t rows = out.rows(), columns = out.last();
  if (rows > 1) {
    const Call::Part part = call.part_of(rows);
    for (int64_t row = part.begin; row < part.end; ++row) row_piece(row, 0, columns);
  } else {
    const Call::Part part = call.part_of((columns + kShare - 1) / kShare);
    row_piece(0, part.begin * kShare, std::min(columns, part.end * kShare));
  }
}

template <typename Op>
void binary(const char* name, const int64_t* args, Op op) {
  Call call(name, args, 3, 0);
  View<const float> a = call.float_in(0, "a", 1, kMaxRank), b = call.float_in(1, "b", 1, kMaxRank);
  View<float> out = call.float_out(2, "out", 1, kMaxRank);
  a = broadcast_to(call, "a", a, out);
  b = broadcast_to(call, "b", b, out);
  if (out.empty()) return;
  if (contiguous(a) && contiguous(b) && contiguous(out)) {
    a = flat(a);
    b = flat(b);
    out = flat(out);
  }
  const Rows<const float> a_rows(a), b_rows(b);
  const Rows<float> out_rows(out);
  share_rows(call, out, [&](int64_t row, int64_t begin, int64_t end) {
    const RowIn x{a_rows[row], a_rows.step()}, y{b_rows[row], b_rows.step()};
    const RowOut z{out_rows[row], out_rows.step()};
    for (int64_t i = begin; i < end; i += Lanes::kCount) {
      z.store(i, end - i, op(x.load(i, end - i), y.load(i, end - i)));
    }
  });
}

template <typename Op>
void unary(const char* name, const int64_t* args, Op op) {
  Call call(name, args, 2, 0);
  View<const float> x = call.float_in(0, "x", 1, kMaxRank);
  View<float> out = call.float_out(1, "out", 1, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  if (out.empty()) return;
  if (contiguous(x) && contiguous(out)) {
    x = flat(x);
    out = flat(out);
  }
  const Rows<const float> x_rows(x);
  const Rows<float> out_rows(out);
  share_rows(call, out, [&](int64_t row, int64_t begin, int64_t end) {
    const RowIn in{x_rows[row], x_rows.step()};
    const RowOut z{out_rows[row], out_rows.step()};
    for (int64_t i = begin; i < end; i += Lanes::kCount) z.store(i, end - i, op(in.load(i, end - i)));
  });
}

}  // namespace

void add(int64_t* args) {
  binary("add", args, [](const Lanes& a, const Lanes& b) { return a + b; });
}
void multiply(int64_t* args) {
  binary("multiply", args, [](const Lanes& a, const Lanes& b) { return a * b; });
}
void relu_kernel(int64_t* args) {
  unary("relu", args, [](const Lanes& x) { return relu(x); });
}
void gelu_kernel(int64_t* args) {
  unary("gelu", args, [](const Lanes& x) { return gelu(x); });
}
void tanh_kernel(int64_t* args) {
  unary("tanh", args, [](const Lanes& x) { return tanh(x); });
}

}  // namespace simpler::kernels::body
