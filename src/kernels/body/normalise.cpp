// layernorm, add_layernorm, embedding_layernorm, l2norm: rows brought to unit variance or length.
//
// layernorm takes mean and variance in two passes, so a large common offset does not cancel.
#include <cmath>

#include "kernels/body/kernels.h"
#include "kernels/body/lengths.h"
#include "kernels/body/rows.h"

namespace simpler::kernels::body {

namespace {

// Scale and shift of one feature each.
struct Affine {
  RowIn gamma, beta;
};

Affine affine_of(const Call& call, const View<const float>& gamma, const View<const float>& beta, int64_t columns) {
  call.require_size("gamma", gamma.last(), "a row of out", columns);
  call.require_size("beta", beta.last(), "a row of out", columns);
  return {{gamma.data, gamma.last_stride()}, {beta.data, beta.last_stride()}};
}

float epsilon_of(const Call& call, uint32_t index) {
  const float epsilon = call.float_scalar(index);
  call.require(epsilon >= 0, "eps must be a float of at least 0");
  return epsilon;
}

// out = (x - mean) / sqrt(variance + epsilon) * gamma + beta, where input(i, n) gives a piece of x.
template <typename Input>
void normalise_row(int64_t columns, Input input, const Affine& affine, float epsilon, const RowOut& out) {
  const auto size = static_cast<float>(columns);
  const float mean = sum_row(columns, input) / size;
  const Lanes center = Lanes::broadcast(mean);
  const float variance = sum_row(columns,
                                 [&](int64_t i, int64_t n) {
                                   const Lanes d = keep_first(input(i, n) - center, n);
                                   return d * d;
                                 }) /
                         size;
  const Lanes factor = Lanes::broadcast(1.0F / std::sqrt(variance + epsilon));
  for_each_piece(columns, [&](int64_t i, int64_t n) {
    const Lanes x = (input(i, n) - center) * factor;
    out.store(i, n, fma(x, affine.gamma.load(i, n), affine.beta.load(i, n)));
  });
}

}  // namespace

void layernorm(int64_t* args) {
  Call call("layernorm", args, 4, 1);
  const auto x = call.float_in(0, "x", 1, kMaxRank);
  const auto gamma = call.float_in(1, "gamma", 1, 1), beta = call.float_in(2, "beta", 1, 1);
  const auto out = call.float_out(3, "out", 1, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  const Affine affine = affine_of(call, gamma, beta, out.last());
  const float epsilon = epsilon_of(call, 0);
  if (out.empty()) return;
  const Rows<const float> x_rows(x);
  const Rows<float> out_rows(out);
  const Call::Part part = call.part_of(out.rows());
  for (int64_t row = part.begin; row < part.end; ++row) {
    const RowIn in{x_rows[row], x_rows.step()};
    normalise_row(
        out.last(), [&](int64_t i, int64_t n) { return in.load(i, n); }, affine, epsilon,
        RowOut{out_rows[row], out_rows.step()});
  }
}

void add_layernorm(int64_t* args) {
  Call call("add_layernorm", args, 5, 1);
  const auto x = call.float_in(0, "x", 1, kMaxRank), residual = call.float_in(1, "residual", 1, kMaxRank);
  const auto gamma = call.float_in(2, "gamma", 1, 1), beta = call.float_in(3, "beta", 1, 1);
  const auto out = call.float_out(4, "out", 1, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  call.require_same_shape("residual", residual, "out", out);
  const Affine affine = affine_of(call, gamma, beta, out.last());
  const float epsilon = epsilon_of(call, 0);
  if (out.empty()) return;
  const Rows<const float> x_rows(x), residual_rows(residual);
  const Rows<float> out_rows(out);
  const Call::Part part = call.part_of(out.rows());
  for (int64_t row = part.begin; row < part.end; ++row) {
    const RowIn a{x_rows[row], x_rows.step()}, b{residual_rows[row], residual_rows.step()};
    normalise_row(
        out.last(), [&](int64_t i, int64_t n) { return a.load(i, n) + b.load(i, n); }, affine, epsilon,
        RowOut{out_rows[row], out_rows.step()});
  }
}

void embedding_layernorm(int64_t* args) {
  Call call("embedding_layernorm", args, 7, 2);
  const auto word = call.float_in(0, "word", 2, 2), position = call.float_in(1, "position", 2, 2);
  const auto type = call.float_in(2, "type", 2, 2);
  const auto ids = call.int_in(3, "ids", 2, 2);
  const auto gamma = call.float_in(4, "gamma", 1, 1), beta = call.float_in(5, "beta", 1, 1);
  const auto out = call.float_out(6, "out", 3, 3);
  const int64_t columns = out.last(), length = ids.shape[1];
  call.require_size("dimension 0 of out", out.shape[0], "dimension 0 of ids", ids.shape[0]);
  call.require_size("dimension 1 of out", out.shape[1], "dimension 1 of ids", length);
  call.require_size("a row of word", word.last(), "a row of out", columns);
  call.require_size("a row of position", position.last(), "a row of out", columns);
  call.require_size("a row of type", type.last(), "a row of out", columns);
  const Affine affine = affine_of(call, gamma, beta, columns);
  const uint64_t type_index = call.scalar(0);
  const float epsilon = epsilon_of(call, 1);
  if (out.empty()) return;
  if (type_index >= static_cast<uint64_t>(type.shape[0])) {
    call.refuse("type_index " + std::to_string(type_index) + " is not below " + std::to_string(type.shape[0]));
  }
  if (length > position.shape[0]) {
    call.refuse("ids have rows of " + std::to_string(length) + ", position has only " +
                std::to_string(position.shape[0]) + " rows");
  }
  const Call::Part part = call.part_of(out.rows());
  check_indices(call, ids, part, word.shape[0], "word");
  const Rows<float> out_rows(out);
  const RowIn kind{type.data + static_cast<int64_t>(type_index) * type.stride[0], type.last_stride()};
  for (int64_t row = part.begin; row < part.end; ++row) {
    const RowIn a{word.data + element(ids, row) * word.stride[0], word.last_stride()};
    const RowIn b{position.data + row % length * position.stride[0], position.last_stride()};
    normalise_row(
        columns, [&](int64_t i, int64_t n) { return a.load(i, n) + kind.load(i, n) + b.load(i, n); }, affine, epsilon,
        RowOut{out_rows[row], out_rows.step()});
  }
}

void l2norm(int64_t* args) {
  Call call("l2norm", args, 2, 1);
  const auto x = call.float_in(0, "x", 1, kMaxRank);
  const auto out = call.float_out(1, "out", 1, kMaxRank);
  call.require_same_shape("x", x, "out", out);
  const float epsilon = epsilon_of(call, 0);
  if (out.empty()) return;
  const Rows<const float> x_rows(x);
  const Rows<float> out_rows(out);
  const Call::Part part = call.part_of(out.rows());
  for (int64_t row = part.begin; row < part.end; ++row) {
    const RowIn in{x_rows[row], x_rows.step()};
    const RowOut to{out_rows[row], out_rows.step()};
    const float length = std::sqrt(sum_row(out.last(), [&](int64_t i, int64_t n) {
      const Lanes v = in.load(i, n);
      return v * v;
    }));
    const Lanes divisor = Lanes::broadcast(length < epsilon ? epsilon : length);
    for_each_piece(out.last(), [&](int64_t i, int64_t n) { to.store(i, n, in.load(i, n) / divisor); });
  }
}

}  // namespace simpler::kernels::body
